"""Methods that change an estimator as a whole or not at all."""

from functools import wraps


def all_or_nothing(method):
    """Put an estimator back as it was where a method raises."""

    @wraps(method)
    def call(self, *args, **kwargs):
        before = dict(vars(self))
        try:
            return method(self, *args, **kwargs)
        except BaseException:
            vars(self).clear()
            vars(self).update(before)
            raise

    return call
