"""Arrays of torch and CuPy: to tell them, to bring them over, and the functions that work on them."""

from typing import Any


def on_device(X: Any) -> bool:
    """Tell whether X is an array of torch or CuPy."""
    return type(X).__module__.split(".")[0] in ("torch", "cupy")


def to_host(X: Any) -> Any:
    """X as a NumPy array; what is on no device is left as it is."""
    if not on_device(X):
        return X
    return X.get() if hasattr(X, "get") else X.detach().cpu().numpy()


def like(values: Any, X: Any) -> Any:
    """NumPy values as an array of the same kind and in the same place as X."""
    return namespace(X).asarray(values, device=X.device)


def namespace(X: Any) -> Any:
    """The functions of the array API for the kind of array that X is."""
    try:
        from array_api_compat import array_namespace
    except ImportError:  # scikit-learn carries it along
        from sklearn.externals.array_api_compat import array_namespace
    return array_namespace(X)
