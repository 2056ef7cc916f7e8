"""Machine code of an older version in numba's cache: it has to go before any of it is loaded."""

import hashlib
from pathlib import Path

_FOLDER = Path(__file__).parent


def forget_stale_code(folder: Path = _FOLDER) -> None:
    """Remove machine code that was not made from the sources as they are now.

    numba looks at the file of a function only, not at those of the functions that it calls; after an
    upgrade it would run old code, or fail to load it. A folder that cannot be written is left alone: then
    numba keeps its cache elsewhere.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> (folder / "__pycache__").mkdir()
    >>> code = folder / "__pycache__" / "module.function.nbc"
    >>> code.touch()
    >>> forget_stale_code(folder)
    >>> code.exists()
    False
    """
    cache = folder / "__pycache__"
    sources = hashlib.sha256()
    for file in sorted(folder.glob("*.py")):
        sources.update(file.read_bytes())
    mark = cache / "sources.sha256"
    try:
        if mark.exists() and mark.read_text(encoding="ascii") == sources.hexdigest():
            return
        for pattern in ("*.nbi", "*.nbc"):
            for file in cache.glob(pattern):
                file.unlink(missing_ok=True)
        cache.mkdir(exist_ok=True)
        mark.write_text(sources.hexdigest(), encoding="ascii")
    except OSError:
        return
