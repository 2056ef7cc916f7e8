"""Figures of the gallery: runs the code of docs/gallery.md. `python tools/gallery_pictures.py DIR`."""

import os
import re
import sys
from pathlib import Path

import matplotlib

PAGE = Path(__file__).parents[1] / "docs" / "gallery.md"


def main(goal: str) -> None:
    """Write the figures of the page into a folder."""
    matplotlib.use("Agg")
    code = "\n".join(re.findall(r"(?ms)^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8")))
    os.chdir(goal)
    exec(compile(code, PAGE.name, "exec"), {"__name__": "gallery"})


if __name__ == "__main__":
    main(*sys.argv[1:])
