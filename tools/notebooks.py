"""Notebooks of the tutorials, from their pages: `python tools/notebooks.py [--run FOLDER] [PAGE ...]`.

A page is the only source. Its blocks of Python and bash become cells, and a block of text that follows one
becomes its output. `--run` executes the notebooks in a folder that has their data, and copies the figures
that they save to docs/images.
"""

import re
import sys
from pathlib import Path

import jupytext
from nbformat import NotebookNode
from nbformat import write as write_notebook
from nbformat.v4 import new_output
from PIL import Image

DOCS = Path(__file__).parents[1] / "docs"
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
PAGES = ("tutorial-first-map", "tutorial-kepler", "tutorial-two-years")


def notebook(page: str) -> NotebookNode:
    """The notebook of a page, with the output that the page shows."""
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    text = re.sub(r"(?m)^\[This page as a notebook\].*\n\n", "", text)
    text = re.sub(r"\]\(([\w-]+\.md|images/)", r"](../\1", text)
    kernel = "".join(f"    {key}: {value}\n" for key, value in KERNEL.items())
    made = jupytext.reads(f"---\njupyter:\n  kernelspec:\n{kernel}---\n\n{text}", fmt="md")
    cells: list[NotebookNode] = []
    for cell in made.cells:
        said = re.match(r"(?s)```text\n(.*?)```\n*", cell.source)
        if said and cells and cells[-1].cell_type == "code":
            cells[-1].outputs = [new_output("stream", name="stdout", text=said[1])]
            cell.source = cell.source[said.end() :]
        if cell.source:
            cells.append(cell)
    for number, cell in enumerate(cells):
        cell.id = f"cell-{number}"
    made.cells = cells
    made.metadata = {"kernelspec": KERNEL}
    return made


def run(made: NotebookNode, folder: Path) -> list[tuple[str, str | None]]:
    """Execute a notebook in a folder: text that each cell printed, and text that the page shows for it."""
    from nbclient import NotebookClient

    code = [cell for cell in made.cells if cell.cell_type == "code"]
    said = [cell.outputs[0].text if cell.outputs else None for cell in code]
    NotebookClient(made, timeout=1800, resources={"metadata": {"path": str(folder)}}).execute()
    printed = ["".join(one.get("text", "") for one in cell.outputs) for cell in code]
    return list(zip(printed, said, strict=True))


def main(*arguments: str) -> None:
    """Write docs/notebooks; with --run execute them, show what they print, and keep their figures."""
    folder = Path(arguments[1]) if arguments[:1] == ("--run",) else None
    for page in arguments[2 if folder else 0 :] or PAGES:
        made = notebook(page)
        (DOCS / "notebooks").mkdir(exist_ok=True)
        write_notebook(made, DOCS / "notebooks" / f"{page.removeprefix('tutorial-')}.ipynb")
        if folder:
            for printed, _ in run(made, folder):
                print(printed)
            for figure in folder.glob(f"{page.removeprefix('tutorial-')}*.png"):
                Image.open(figure).convert("RGB").quantize(256, dither=Image.Dither.NONE).save(
                    DOCS / "images" / figure.name, optimize=True
                )


if __name__ == "__main__":
    main(*sys.argv[1:])
