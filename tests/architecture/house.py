"""Measure the house: code lines, names, tests, docs, the shape of imports, and the budgets.

Run `make house` to print the figures and, beside them, the budgets of docs/architecture.md. A code
line is a physical line that holds a token other than a comment, a docstring or white space. Lines
of JavaScript and CSS are those that are neither blank nor comments. Words of docs are words of
Markdown outside fenced code.
"""

import ast
import importlib
import inspect
import io
import json
import pkgutil
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
PAGE = ROOT / "docs" / "architecture.md"

#: Code at the root of the repository that is no part of the package and has a budget.
OUTSIDE = "reproduction"

#: Names that say nothing about a value: a thermometer, not a law.
VAGUE = frozenset(
    re.findall(
        r"\w+",
        "found own told given left taken said shown seen made asked kept meant wanted reached "
        "thing things stuff one ones other_one what which who it they there here",
    )
)

#: Options that all verbs share.
COMMON = frozenset(("config", "json", "print-config", "traceback"))

_LAYOUT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}


class Row(NamedTuple):
    """Packages of `src` or `reproduction`, and folders of `tests`, that share a budget."""

    src: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()


#: Rows of the table of budgets, in its order.
ROWS = {
    "core, certificates, solvers, pure": Row(
        ("core", "certificates", "solvers", "pure"), ("core", "certificates", "solvers", "pure")
    ),
    "games": Row(("games",)),
    "aggregative": Row(("aggregative",)),
    "networks": Row(("networks",)),
    "tests of games, aggregative, networks": Row((), ("games", "aggregative", "networks")),
    "offline": Row(("offline",), ("offline",)),
    "dynamics, incontext": Row(("dynamics", "incontext"), ("dynamics", "incontext")),
    "runs, report, cli, studio, demo": Row(
        ("runs", "report", "cli", "studio", "demo"), ("runs", "report", "cli", "studio", "demo")
    ),
    "reproduction of the papers": Row(("reproduction",), ("reproduction",)),
    "top": Row(("",), ("",)),
    "tests of theorems, docs, architecture, conformance, benchmarks": Row(
        (), ("theorems", "docs", "architecture", "conformance", "benchmarks")
    ),
    "tests in `make soak`": Row((), ("soak",)),
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


def web_lines(text: str) -> int:
    """Lines of JavaScript or CSS that are neither blank nor comments.

    >>> web_lines("/* a\\nb */\\nlet x = 1;\\n\\n// c")
    1
    """
    lines = re.sub(r"/\*.*?\*/", "", text, flags=re.S).splitlines()
    return sum(1 for line in lines if line.strip() and not line.strip().startswith("//"))


def words(page: Path) -> int:
    """Words of a page of Markdown outside fenced code."""
    return len(re.sub(r"```.*?```", "", page.read_text(), flags=re.S).split())


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
        imported: set[str] = set()
        for node in ast.walk(tree):
            if node in idle:
                continue
            if isinstance(node, ast.Import):
                imported |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names = {f"{node.module}.{alias.name}" for alias in node.names}
                imported |= {name if name in modules else node.module for name in names}
        graph[module_name(file, source)] = (imported & modules) - {module_name(file, source)}
    return graph


def cycles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """Strongly connected groups of two or more modules (Tarjan's algorithm)."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    groups: list[list[str]] = []

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
                groups.append(sorted(group))

    sys.setrecursionlimit(10_000)
    for module in sorted(graph):
        if module not in order:
            visit(module)
    return groups


def vague_names(tree: ast.AST) -> Counter[str]:
    """How often each vague name is bound by an assignment, argument, attribute or definition."""
    names: Counter[str] = Counter()
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                names[name] += 1
            case ast.arg(arg=name):
                names[name] += 1
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                names[name.strip("_")] += 1
    return Counter({name: count for name, count in names.items() if name in VAGUE})


def public_modules() -> Iterator[Any]:
    """All modules of the package without an underscore in their path, imported."""
    package = importlib.import_module("equipoise")
    yield package
    for info in pkgutil.walk_packages(package.__path__, "equipoise."):
        if not any(part.startswith("_") for part in info.name.split(".")):
            yield importlib.import_module(info.name)


def public_names() -> dict[str, Any]:
    """Name -> object, for each distinct object that a public module lists in its `__all__`.

    An object that several modules list has the shortest of its names. Modules do not count.
    """
    names: dict[str, Any] = {}
    homes: dict[int, str] = {}
    for module in public_modules():
        for name in getattr(module, "__all__", ()):
            member = getattr(module, name)
            full = f"{module.__name__}.{name}"
            if inspect.ismodule(member):
                continue
            # Plain constants, such as small numbers, may be one object by chance.
            alone = inspect.isroutine(member) or inspect.isclass(member)
            known = homes.get(id(member)) if alone else None
            if known is not None and len(known) <= len(full):
                continue
            if known is not None:
                names.pop(known)
            names[full] = member
            homes[id(member)] = full
    return names


def verb_options() -> dict[str, list[str]]:
    """Verb -> the keys of its options on the command line; `algorithm.width` is in a group."""
    main = importlib.import_module("equipoise.cli._main")
    parsing = importlib.import_module("equipoise.cli._parsing")
    return {
        verb: [option.key for option in parsing.options(parsing.command_kind(verb))]
        for verb in main.VERBS
        if (SOURCE / "equipoise" / "cli" / f"{verb}.py").exists()
    }


def sizes(root: Path = ROOT) -> dict[str, int]:
    """Everything that has a budget, by the names of docs/architecture.md; reads files alone."""
    package = root / "src" / "equipoise"
    files, code, tests = Counter[str](), Counter[str](), Counter[str]()
    for file in [*package.rglob("*.py"), *(root / OUTSIDE).rglob("*.py")]:
        inside = file.is_relative_to(package)
        part = file.relative_to(package if inside else root).parts[0]
        part = "" if file.parent == package else part
        files[part] += 1
        code[part] += code_lines(file.read_text())
    for file in (root / "tests").rglob("*.py"):
        part = "" if file.parent == root / "tests" else file.relative_to(root / "tests").parts[0]
        tests[part] += len(file.read_text().splitlines())
    known = {part for row in ROWS.values() for part in row.src}
    if strangers := code.keys() - known:
        raise ValueError(f"no row of ROWS holds {', '.join(sorted(strangers))}")
    known = {part for row in ROWS.values() for part in row.tests}
    if strangers := tests.keys() - known:
        raise ValueError(f"no row of ROWS holds tests/{', tests/'.join(sorted(strangers))}")
    result: dict[str, int] = {}
    for name, row in ROWS.items():
        if row.src:
            result[f"{name}: files"] = sum(files[part] for part in row.src)
            result[f"{name}: code lines"] = sum(code[part] for part in row.src)
        if row.tests:
            result[f"{name}: lines of tests"] = sum(tests[part] for part in row.tests)
    web = [*package.rglob("*.js"), *package.rglob("*.css")]
    result["src: files"] = sum(files.values()) - files[OUTSIDE]
    result["src: code lines"] = sum(code.values()) - code[OUTSIDE]
    result["src: lines of tests"] = sum(tests.values())
    result["JavaScript and CSS: code lines"] = sum(web_lines(file.read_text()) for file in web)
    result["docs: words"] = sum(words(page) for page in (root / "docs").rglob("*.md"))
    result["README: words"] = words(root / "README.md")
    return result


def counts() -> dict[str, int]:
    """Counts that need the package imported: public names and options."""
    top = importlib.import_module("equipoise").__all__
    options = verb_options()
    return {
        "public names": len(public_names()),
        "names at the top": len(top),
        "verbs": len(options),
        "options of verbs": sum(len(set(keys) - COMMON) for keys in options.values()),
    }


def budgets(page: Path = PAGE) -> dict[str, tuple[int, int | None]]:
    """Name -> limit of today and target, as the table in docs/architecture.md says."""
    rows = re.search(
        r"^\| budget \| limit \| target \|\n\|[-:| ]+\n((?:\|.*\n)+)", page.read_text(), re.M
    )
    if rows is None:
        raise ValueError(f"no table of budgets in {page}")
    table: dict[str, tuple[int, int | None]] = {}
    for line in rows[1].splitlines():
        name, limit, target = (cell.strip() for cell in line.strip("|").split("|"))
        number = target.replace(",", "")
        table[name] = int(limit.replace(",", "")), int(number) if number.isdigit() else None
    return table


def shape() -> dict[str, Any]:
    """The shape of the source: small files, long functions, vague names, cycles."""
    files = sorted((SOURCE / "equipoise").rglob("*.py"))
    trees = {file: ast.parse(file.read_text()) for file in files}
    graph = import_graph(files)
    private = [name for name in graph if name.rsplit(".", 1)[-1].startswith("_")]
    importers = {
        name: [m for m, names in graph.items() if name in names and not name.startswith(f"{m}.")]
        for name in private
    }
    lengths = sorted(
        (
            ((node.end_lineno or 0) - node.lineno + 1, node.name)
            for tree in trees.values()
            for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        ),
        reverse=True,
    )
    vague = sum((vague_names(tree) for tree in trees.values()), Counter[str]())
    return {
        "private modules": len(private),
        "private modules with at most one importer": sum(
            len(names) <= 1 for names in importers.values()
        ),
        "files of fewer than 50 code lines": sum(code_lines(f.read_text()) < 50 for f in files),
        "functions of more than 60 lines": sum(length > 60 for length, _ in lengths),
        "longest functions": ", ".join(f"{name} {length}" for length, name in lengths[:4]),
        "bindings of vague names": sum(vague.values()),
        "most frequent vague names": ", ".join(f"{n} {c}" for n, c in vague.most_common(8)),
        "cycles of imports": cycles(graph),
    }


def main() -> None:
    """Print all figures, as a table or with `--json` as JSON."""
    figures, limits = sizes() | counts(), budgets()
    if "--json" in sys.argv:
        print(json.dumps({"sizes": figures, "shape": shape()}, indent=1))
        return
    print(f"{'':66} {'now':>7} {'limit':>7} {'target':>7}")
    for name, value in figures.items():
        limit, target = limits.get(name, (None, None))
        cells = (f"{'' if x is None else f'{x:,}':>7}" for x in (value, limit, target))
        print(f"{name:66}", *cells)
    for name, value in shape().items():
        print(f"{name}: {value:,}" if isinstance(value, int) else f"{name}: {value}")


if __name__ == "__main__":
    main()
