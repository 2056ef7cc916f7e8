"""Threads: the order of results, pieces within pieces, and what fails."""

import threading
from unittest import mock

import pytest

from uncover.engines import threads as pool
from uncover.engines.threads import in_order


@pytest.fixture(params=[1, 2, 5])
def threads(request):
    with mock.patch.object(pool, "processors", lambda: request.param):
        yield request.param


def test_results_come_in_the_order_of_the_pieces(threads):
    assert list(in_order(lambda n: n * n, range(100))) == [n * n for n in range(100)]
    assert list(in_order(str, [])) == []


def test_pieces_may_be_cut_into_pieces(threads):
    """However few threads there are: whoever waits does what nobody has begun."""

    def work(n):
        return sum(in_order(lambda m: sum(in_order(abs, range(m))), range(n)))

    assert list(in_order(work, range(12))) == [sum(sum(range(m)) for m in range(n)) for n in range(12)]


def test_all_threads_work_and_so_does_the_caller(threads):
    meeting = threading.Barrier(threads, timeout=20)

    def work(_):
        meeting.wait()
        return threading.get_ident()

    assert threading.get_ident() in set(in_order(work, range(threads)))


def test_a_piece_that_fails_fails_all_and_leaves_no_work_behind(threads):
    running = []

    def work(n):
        running.append(n)
        if n == 3:
            raise ZeroDivisionError("the third")
        running.remove(n)
        return n

    with pytest.raises(ZeroDivisionError, match="the third"):
        list(in_order(work, range(50)))
    assert running == [3]
    assert list(in_order(abs, range(5))) == [0, 1, 2, 3, 4]
