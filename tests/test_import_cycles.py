"""The tool that `make layers` finds import cycles with."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tools"))
from import_cycles import SOURCE, cycles, graph_of


def test_the_package_has_none():
    graph = graph_of(SOURCE)
    assert "uncover.bayes.moments" in graph["uncover.engines.moments"]
    assert cycles(graph) == []


def test_an_import_inside_a_function_counts_and_one_for_types_does_not(tmp_path):
    (tmp_path / "a.py").write_text("def f():\n    from b import g\n")
    (tmp_path / "b.py").write_text("import c\n")
    (tmp_path / "c.py").write_text(
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import d\nclass C:\n    import a\n"
    )
    (tmp_path / "d.py").write_text("import c\n")
    assert cycles(graph_of(tmp_path)) == [["a", "b", "c"]]
