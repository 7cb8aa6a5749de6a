"""Tables of Markdown pages, made from records.

A page marks where a table belongs, by the records that it is made from, the name of a function of
the modules `_page_tables...` and further words for it:

    <!-- record in-context/1: final_gaps iid -->

    | iid | A=2 | ...

    <!-- end of record -->

`python -m reproduction pages --write` replaces what is between the markers, and `--check` names
the pages whose tables differ from their records.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated

import tyro

from equipoise.core.errors import InputError
from equipoise.core.files import atomic_write
from equipoise.runs import Record
from reproduction import _page_tables, _page_tables_crowds, _page_tables_rank

#: Names in markers -> functions of records and words.
TABLES: dict[str, Callable[..., Sequence[Sequence[str]]]] = {
    make.__name__: make
    for module in (_page_tables, _page_tables_rank, _page_tables_crowds)
    for make in module.TABLES
}

_BLOCK = re.compile(
    r"^(?P<indent> *)<!-- record (?P<records>[^:\n]+): (?P<call>[^\n]+) -->\n"
    r"(?P<body>.*?)"
    r"^ *<!-- end of record -->$",
    re.DOTALL | re.MULTILINE,
)


def lines_of(grid: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table; the first row is its head.

    >>> print(lines_of([["", "A=2"], ["omd", ".011"]]))
    | | A=2 |
    |---|---|
    | omd | .011 |
    """
    rows = ["|" + "".join(f" {cell} |" if cell else " |" for cell in row) for row in grid]
    return "\n".join([rows[0], "|" + "---|" * len(grid[0]), *rows[1:]])


def _made(records: Path, block: re.Match[str]) -> str:
    """Return a block with its table made anew."""
    name, *words = block["call"].split()
    if name not in TABLES:
        known = ", ".join(TABLES)
        raise InputError("table", f"one of {known} in a marker", repr(name))
    table = lines_of(
        TABLES[name](*(Record.load(records / at) for at in block["records"].split()), *words)
    )
    first, last = block[0].split("\n")[0], block[0].split("\n")[-1]
    return f"{first}\n\n{table}\n\n{last}"


def regenerate(text: str, records: Path) -> str:
    """Return the text of a page with all tables between markers made from the records.

    >>> regenerate("A page without a marker.", Path("docs/reproduction"))
    'A page without a marker.'
    """
    return _BLOCK.sub(lambda block: _made(records, block), text)


def pages(docs: Path) -> Iterator[tuple[Path, str, str]]:
    """Yield every page with markers, its text, and its text with all tables made anew."""
    for file in sorted(docs.glob("*/*.md")):
        text = file.read_text(encoding="utf-8")
        if text.count("<!-- record ") != len(_BLOCK.findall(text)):
            raise InputError(
                "docs", "an end for every marker of a table, and records with a colon", str(file)
            )
        if "<!-- record " in text:
            yield file, text, regenerate(text, docs / "reproduction")


def update(
    docs: Annotated[Path, tyro.conf.Positional] = Path("docs"),
    write: bool = False,
    check: bool = False,
) -> int:
    """Write the tables of the pages from the records, or check them.

    Args:
        docs: Folder of the documentation.
        write: Replace tables that differ from their records.
        check: Name the pages whose tables differ, and exit with 1 if there are any.
    """
    if write == check:
        raise InputError("write", "--write or --check", "both" if write else "neither")
    stale = [(file, new) for file, text, new in pages(docs) if text != new]
    for file, new in stale:
        print(f"{'written' if write else 'differs from its records'}: {file}")
        if write:
            with atomic_write(file) as temporary:
                temporary.write_text(new, encoding="utf-8")
    return int(check and bool(stale))


def main(words: Sequence[str]) -> int:
    """Run the command."""
    return tyro.cli(update, prog="python -m reproduction pages", args=words)
