"""The table of imports in docs/architecture.md, kept true."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from house import cycles, import_graph, module_name

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
PACKAGE = SOURCE / "equipoise"
PAGE = ROOT / "docs" / "architecture.md"

#: The packages that `import equipoise` gives access to.
SURFACE = ("core", "games", "certificates", "solvers", "dynamics")

#: What a row may say instead of naming packages.
NOTHING, EVERYTHING = "third-party only", "anything public above"

FILES = sorted(PACKAGE.rglob("*.py"))

#: Modules directly in the package, which import nothing of it: everybody may import them.
COMMON = {"_lazy"}
#: Modules directly in the package that may use all public modules, and that no package imports.
TOP = {file.stem for file in PACKAGE.glob("*.py") if not file.stem.startswith("__")} - COMMON


def packages() -> set[str]:
    """The sub-packages that hold code."""
    return {file.relative_to(PACKAGE).parts[0] for file in FILES if file.parent != PACKAGE}


def table() -> dict[str, set[str]]:
    """Package -> packages it may import, as docs/architecture.md says."""
    allowed: dict[str, set[str]] = {}
    rows = re.search(r"^\| module \| may import \|\n\|[-|]+\n((?:\|.*\n)+)", PAGE.read_text(), re.M)
    assert rows, f"no table of imports in {PAGE}"
    for row in rows[1].splitlines():
        modules, text = (cell.strip() for cell in row.strip("|").split("|"))
        text = re.sub(r"\(.*?\)", "", text).strip()
        if text == EVERYTHING:
            names = set(allowed)
        elif text == NOTHING:
            names = set()
        else:
            names = set(re.findall(r"`(\w+)`", text))
            assert re.sub(r"`\w+`|[,\s]", "", text) == "", f"cannot read the row: {row}"
        allowed |= dict.fromkeys(re.findall(r"`(\w+)`", modules), names)
    return allowed


MODULES = {module_name(file) for file in FILES}


def imported_modules(file: Path) -> Iterator[tuple[int, str]]:
    """Line and dotted name of every module of equipoise that a file imports, wherever it does."""
    parts = file.relative_to(SOURCE if file.is_relative_to(SOURCE) else ROOT).with_suffix("").parts
    for node in ast.walk(ast.parse(file.read_text())):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = parts[: -node.level] if node.level else ()
            base = ".".join([*above, node.module or ""]).strip(".")
            # `from package import name` may import a module called name.
            names = [f"{base}.{alias.name}" for alias in node.names]
            names = [name if name in MODULES else base for name in names]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            names = [a.value for a in node.args if isinstance(a, ast.Constant)]
        for name in names:
            if name.split(".")[0] == "equipoise":
                yield getattr(node, "lineno", 0), name


def violations(file: Path, allowed: dict[str, set[str]]) -> list[str]:
    """What a file imports against the rules, one line each."""
    own = file.relative_to(PACKAGE).parts[0]
    found = []
    for line, name in imported_modules(file):
        place = f"{file.relative_to(ROOT)}:{line} imports {name}"
        inner = name.split(".")[1:]
        if not inner:
            if not allowed[own] >= set(SURFACE):
                found.append(f"{place}: {own} may not import all of the public surface")
        elif inner[0] in COMMON:
            continue
        elif inner[0] != own and inner[0] not in allowed[own]:
            found.append(f"{place}: {own} may not import {inner[0]}")
        elif inner[0] != own and any(part.startswith("_") for part in inner):
            found.append(f"{place}: that module is private to {inner[0]}")
    return found


def test_the_reproduction_imports_public_modules_alone():
    """It is beside the package, and a user's code could do what it does."""
    files = sorted((ROOT / "reproduction").rglob("*.py"))
    assert len(files) > 20
    for file in files:
        names = [name for _, name in imported_modules(file)]
        assert not [name for name in names if "._" in name], file


def test_the_table_has_a_row_for_every_package():
    assert set(table()) == packages()


def test_a_row_names_only_packages_above_it():
    """So there is no cycle."""
    above: set[str] = set()
    for package, names in table().items():
        assert names <= above, f"{package} may import {names - above}, which is not above it"
        above.add(package)


def test_imports_follow_the_table():
    allowed = table()
    inner = [file for file in FILES if file.parent != PACKAGE]
    assert [found for file in inner for found in violations(file, allowed)] == []


@pytest.mark.parametrize("name", sorted(TOP))
def test_what_no_package_imports_uses_public_modules(name):
    imported = [module for _, module in imported_modules(PACKAGE / f"{name}.py")]
    assert imported
    private = [m for m in imported if any(part.startswith("_") for part in m.split(".")[1:])]
    assert private == []


@pytest.mark.parametrize("name", sorted(COMMON))
def test_what_everybody_may_import_imports_nothing_of_the_package(name):
    assert list(imported_modules(PACKAGE / f"{name}.py")) == []


def test_what_is_allowed_in_one_file_is_in_one_file():
    rows = re.findall(r"^\| `(\w+)` \|.*`(\w+)` \([^)]*in one file\)", PAGE.read_text(), re.M)
    assert rows
    for package, guest in rows:
        users = [
            file.name
            for file in FILES
            if file.is_relative_to(PACKAGE / package)
            and any(name.startswith(f"equipoise.{guest}") for _, name in imported_modules(file))
        ]
        assert len(users) <= 1, f"{package} imports {guest} in {users}"


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        (
            "def f():\n    from equipoise.dynamics import play",
            "certificates may not import dynamics",
        ),
        ("from equipoise import runs", "certificates may not import runs"),
        ("from ..solvers import solve", "certificates may not import solvers"),
        ("import importlib\nimportlib.import_module('equipoise.cli')", "may not import cli"),
        ("from equipoise.games._matrix import MatrixGame", "private to games"),
        ("import equipoise as eq", "may not import all of the public surface"),
    ],
)
def test_a_forbidden_import_is_found(source, complaint, tmp_path, monkeypatch):
    """The walker itself: each way of importing is seen."""
    planted = tmp_path / "src" / "equipoise" / "certificates" / "planted.py"
    planted.parent.mkdir(parents=True)
    planted.write_text(source)
    allowed = table()
    for name, value in [
        ("ROOT", tmp_path),
        ("SOURCE", tmp_path / "src"),
        ("PACKAGE", tmp_path / "src" / "equipoise"),
    ]:
        monkeypatch.setitem(globals(), name, value)
    (found,) = violations(planted, allowed)
    assert complaint in found


def test_no_module_imports_itself_by_way_of_others():
    """Inside packages too, and inside functions too."""
    assert cycles(import_graph(FILES)) == []


def test_a_cycle_is_found(tmp_path):
    (tmp_path / "one.py").write_text("def f():\n    import two\n")
    (tmp_path / "two.py").write_text("from one import f\nimport three\n")
    (tmp_path / "three.py").write_text("import os\n")
    assert cycles(import_graph(tmp_path.glob("*.py"), tmp_path)) == [["one", "two"]]
