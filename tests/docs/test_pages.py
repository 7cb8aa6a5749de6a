"""Every snippet of the README and the documentation runs, in the order of its page.

Python blocks share one namespace per page; blocks with `>>>` must print what they show. Of the
shell blocks, the commands of equipoise are run. Everything happens in a temporary folder.
"""

import doctest
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support import peer

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```(python|pycon|sh|console)\n(.*?)^```$", re.M | re.S)
COMMAND = Path(sys.executable).with_name("equipoise")
OPTIONS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def snippets(page: Path) -> list[tuple[str, int, str]]:
    """Language, line and text of every snippet that can be run."""
    text = page.read_text()
    return [
        (match[1], text[: match.start()].count("\n") + 1, match[2])
        for match in FENCE.finditer(text)
    ]


def run_python(text: str, page: Path, line: int, names: dict[str, Any]) -> None:
    if ">>>" not in text:
        # Padding makes the line numbers of an error those of the page.
        exec(compile("\n" * line + text, str(page), "exec"), names)
        return
    report: list[str] = []
    runner = doctest.DocTestRunner(optionflags=OPTIONS)
    test = doctest.DocTestParser().get_doctest(text, names, page.name, str(page), line)
    runner.run(test, out=report.append, clear_globs=False)
    names.update(test.globs)
    assert runner.summarize(verbose=False).failed == 0, "".join(report)


def run_shell(text: str) -> None:
    for command in text.replace("\\\n", " ").splitlines():
        words = shlex.split(command.removeprefix("$ "), comments=True)
        if not words or words[0] != "equipoise":
            continue
        done = subprocess.run(
            [str(COMMAND), *words[1:]],
            capture_output=True,
            text=True,
            env={**os.environ, "COLUMNS": "100"},
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"


@pytest.mark.parametrize(
    "page", [p for p in PAGES if snippets(p)], ids=lambda p: str(p.relative_to(ROOT))
)
def test_snippets_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "__main__"}
    if "adapters" in page.read_text():
        [peer(library) for library in ("pyspiel", "pygambit", "quantecon")]
    for language, line, text in snippets(page):
        if language in ("python", "pycon"):
            run_python(text, page, line, names)
        else:
            run_shell(text)


def test_every_fence_names_its_language():
    """A block without a language would not be run, nor noticed."""
    for page in PAGES:
        opening = re.findall(r"^```(.*)\n(?:.*?)^```$", page.read_text(), re.M | re.S)
        assert all(opening), f"{page.relative_to(ROOT)} has a block without a language"
