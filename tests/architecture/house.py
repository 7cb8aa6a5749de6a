"""Measure the house: code lines, modules with a single importer, and cycles of imports.

Run `python tests/architecture/house.py` (or `make measure`) to print the figures. A code line is a
physical line that holds a token other than a comment, a docstring or white space.
"""

import ast
import io
import sys
import tokenize
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src"

_LAYOUT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}


def code_lines(source: str) -> int:
    """Lines of `source` without blank lines, comments and docstrings."""
    docstrings: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            value = first.value if isinstance(first, ast.Expr) else None
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                docstrings |= set(range(value.lineno, (value.end_lineno or 0) + 1))
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _LAYOUT:
            lines |= set(range(token.start[0], token.end[0] + 1))
    return len(lines - docstrings)


def module_name(file: Path, source: Path = SOURCE) -> str:
    """The dotted name of a source file."""
    return ".".join(file.relative_to(source).with_suffix("").parts).removesuffix(".__init__")


def import_graph(files: Iterable[Path], source: Path = SOURCE) -> dict[str, set[str]]:
    """Module -> modules of the same tree that it imports, inside functions too.

    Imports for type checking alone do not count: nothing runs them. Neither do the names that a
    package's `__init__` loads on first use.
    """
    files = list(files)
    modules = {module_name(file, source) for file in files}
    graph: dict[str, set[str]] = {}
    for file in files:
        tree = ast.parse(file.read_text())
        idle = {
            inner
            for node in ast.walk(tree)
            if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")
            for statement in node.body
            for inner in ast.walk(statement)
        }
        found: set[str] = set()
        for node in ast.walk(tree):
            if node in idle:
                continue
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names = {f"{node.module}.{alias.name}" for alias in node.names}
                found |= {name if name in modules else node.module for name in names}
        graph[module_name(file, source)] = (found & modules) - {module_name(file, source)}
    return graph


def cycles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """Strongly connected groups of two or more modules (Tarjan's algorithm)."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(module: str) -> None:
        order[module] = low[module] = len(order)
        stack.append(module)
        for other in sorted(graph[module]):
            if other not in order:
                visit(other)
                low[module] = min(low[module], low[other])
            elif other in stack:
                low[module] = min(low[module], order[other])
        if low[module] == order[module]:
            group = [stack.pop()]
            while group[-1] != module:
                group.append(stack.pop())
            if len(group) > 1:
                found.append(sorted(group))

    sys.setrecursionlimit(10_000)
    for module in sorted(graph):
        if module not in order:
            visit(module)
    return found


def main() -> None:
    """Print the figures."""
    files = sorted((SOURCE / "equipoise").rglob("*.py"))
    lines = {module_name(file): code_lines(file.read_text()) for file in files}
    by_package: Counter[str] = Counter()
    for module, count in lines.items():
        by_package[".".join(module.split(".")[:2])] += count
    for package, count in by_package.most_common():
        print(f"{count:7,}  {package}")
    print(f"{sum(lines.values()):7,}  code lines in {len(files)} files")
    graph = import_graph(files)
    private = [name for name in graph if name.rsplit(".", 1)[-1].startswith("_")]
    importers = {
        name: [m for m, found in graph.items() if name in found and not name.startswith(f"{m}.")]
        for name in private
    }
    single = [name for name, found in importers.items() if len(found) <= 1]
    print(f"{len(single):7,}  of {len(private)} private modules have at most one importer")
    print(f"{sum(count < 50 for count in lines.values()):7,}  files of fewer than 50 code lines")
    print(f"{len(cycles(graph)):7,}  cycles of imports")
    for group in cycles(graph):
        print(f"         {' '.join(group)}")


if __name__ == "__main__":
    main()
