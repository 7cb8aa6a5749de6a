"""Tables of pages are those of the records, and the command that makes them reports them."""

from pathlib import Path

import pytest

from equipoise.core import InputError
from reproduction import _pages
from reproduction._pages import lines_of, main, pages, regenerate

DOCS = Path(__file__).parents[2] / "docs"
RECORDS = DOCS / "reproduction"
MARKER = "<!-- record in-context/1: final_gaps rho=1 -->"


def test_every_table_is_that_of_its_records():
    found = list(pages(DOCS))
    assert len(found) >= 2
    for file, text, new in found:
        assert text == new, f"{file}: run python -m reproduction pages --write"


def test_every_function_makes_a_table_of_some_page():
    text = "".join(text for _, text, _ in pages(DOCS))
    for name in _pages.TABLES:
        assert f": {name}" in text


def test_a_table_that_is_out_of_date_is_named_and_written(tmp_path, capsys):
    (tmp_path / "reproduction").mkdir()
    (tmp_path / "reproduction" / "in-context").symlink_to(RECORDS / "in-context")
    page = tmp_path / "reproduction" / "page.md"
    page.write_text(f"Gaps:\n\n{MARKER}\n\n| old |\n|---|\n\n<!-- end of record -->\n\nMore.\n")
    assert main(["--check", str(tmp_path)]) == 1
    assert capsys.readouterr().out == f"differs from its records: {page}\n"
    assert main(["--write", str(tmp_path)]) == 0
    assert capsys.readouterr().out == f"written: {page}\n"
    assert main(["--check", str(tmp_path)]) == 0
    text = page.read_text()
    assert text.startswith(f"Gaps:\n\n{MARKER}\n\n| rho = 1 | A=2 |")
    assert text.endswith("|\n\n<!-- end of record -->\n\nMore.\n")
    assert "old" not in text


def test_wrong_markers_are_refused(tmp_path):
    with pytest.raises(InputError, match="table: expected one of final_gaps"):
        regenerate("<!-- record in-context/1: gap -->\n<!-- end of record -->", RECORDS)
    (tmp_path / "theory").mkdir()
    (tmp_path / "theory" / "page.md").write_text(f"{MARKER}\n| a |\n")
    with pytest.raises(InputError, match=r"an end for every marker .*page\.md"):
        list(_pages.pages(tmp_path))
    for words in ([], ["--write", "--check"]):
        with pytest.raises(InputError, match="--write or --check"):
            main([*words, str(tmp_path)])


def test_empty_cells():
    assert lines_of([["", "a"], ["b", ""]]) == "| | a |\n|---|---|\n| b | |"
