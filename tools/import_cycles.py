"""Find import cycles in the package, imports inside functions included: `make layers` runs it.

Imports for type checkers alone do not count: nothing is loaded by them.
"""

import ast
import sys
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src"


def modules(source):
    """Name and file of every module; a package is its ``__init__``."""
    for path in sorted(source.rglob("*.py")):
        parts = path.relative_to(source).with_suffix("").parts
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


def imports(tree, known):
    """Modules that a module imports at any time, where they are known."""
    for node in _run_time(tree):
        if isinstance(node, ast.Import):
            found = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            found = [_deepest(f"{node.module}.{alias.name}", known) for alias in node.names]
        else:
            continue
        yield from (_deepest(each, known) for each in found)


def _run_time(tree):
    """All nodes but those under ``if TYPE_CHECKING``."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
            continue
        yield child
        yield from _run_time(child)


def _deepest(name, known):
    """The module that a dotted name is, or is in; None outside of the package."""
    while name and name not in known:
        name = name.rpartition(".")[0]
    return name or None


def cycles(graph):
    """Groups of modules that import each other in a circle (Tarjan 1972)."""
    number, low, stack, found = {}, {}, [], []

    def visit(node):
        number[node] = low[node] = len(number)
        stack.append(node)
        for other in graph[node]:
            if other not in number:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], number[other])
        if low[node] == number[node]:
            group = stack[stack.index(node) :]
            del stack[stack.index(node) :]
            if len(group) > 1:
                found.append(sorted(group))

    for node in graph:
        if node not in number:
            visit(node)
    return found


def graph_of(source):
    """Imports of each module."""
    files = dict(modules(source))
    graph = {}
    for name, path in files.items():
        targets = set(imports(ast.parse(path.read_text(encoding="utf-8")), files))
        graph[name] = sorted(each for each in targets if each not in (None, name))
    return graph


def main():
    """Print the cycles; the exit status says whether there are any."""
    sys.setrecursionlimit(10_000)
    graph = graph_of(SOURCE)
    found = cycles(graph)
    for group in found:
        print(f"import cycle of {len(group)} modules:")
        for name in group:
            print(f"  {name} imports {', '.join(each for each in graph[name] if each in group)}")
    if not found:
        print(f"no import cycles among {len(graph)} modules, lazy imports included.")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
