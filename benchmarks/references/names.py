"""Every public name, signature, verb, option and kind of file, in `names.txt`."""

import dataclasses
import importlib
import inspect
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
FILE = Path(__file__).parent / "names.txt"
CHANGELOG = ROOT / "CHANGELOG.md"


def lines() -> list[str]:
    """Today's names, each with its parameters and its members."""
    sys.path.insert(0, str(ROOT / "tests" / "architecture"))
    house = importlib.import_module("house")
    listed = []
    for name, member in house.public_names().items():
        short = name.removeprefix("equipoise.")
        listed.append(f"name {short}")
        listed += [f"parameter {short} {parameter}" for parameter in _parameters(member)]
        if inspect.isclass(member):
            listed += [f"name {short}.{attribute}" for attribute in _members(member)]
    top = importlib.import_module("equipoise").__all__
    listed += [f"top {name}" for name in top]
    for verb, keys in house.verb_options().items():
        listed += [f"verb {verb}", *(f"option {verb} --{key}" for key in keys)]
    kinds = importlib.import_module("equipoise.games.kinds")
    listed += [f"kind of game {name}" for name in kinds.KINDS]
    return sorted(set(listed))


def _parameters(member: object) -> list[str]:
    """The parameters of a function or a class."""
    if not callable(member):
        return []
    try:
        return list(inspect.signature(member).parameters)
    except (TypeError, ValueError):
        return []


def _members(kind: type) -> list[str]:
    """Public attributes that the class and its bases in this library define, and its fields."""
    ours = [base for base in kind.__mro__ if base.__module__.startswith("equipoise")]
    defined = {name for base in ours for name in vars(base)}
    fields = dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ()
    defined |= {field.name for field in fields}
    return sorted(name for name in defined if not name.startswith("_"))


def write() -> None:
    """Store today's names, and those that are gone without a row of the CHANGELOG."""
    known = missing() if FILE.exists() else []
    FILE.write_text("\n".join(sorted({*lines(), *known})) + "\n", encoding="utf-8")


def missing() -> list[str]:
    """Stored names that are gone and that no row of the CHANGELOG's table maps to new ones."""
    today, renamed = set(lines()), _renamed()
    return [
        line
        for line in FILE.read_text(encoding="utf-8").splitlines()
        if line not in today and not any(_covers(old, line) for old in renamed)
    ]


def _renamed() -> set[str]:
    """The first column of the tables `| old | new |` of the CHANGELOG."""
    text = CHANGELOG.read_text(encoding="utf-8")
    tables = re.findall(r"^\| old \| new \|\n\|[-| ]+\n((?:\|.*\n)+)", text, re.M)
    cells = (row.split("|")[1] for table in tables for row in table.splitlines())
    return {name for cell in cells for name in re.findall(r"`([^`]+)`", cell)}


def _covers(old: str, line: str) -> bool:
    """Whether an old name of the CHANGELOG is that of a line, or of what holds it."""
    words = line.split(" ", 1)[1]
    short = old.removeprefix("equipoise.").removeprefix("eq.")
    return words == short or words.startswith((f"{short}.", f"{short} "))
