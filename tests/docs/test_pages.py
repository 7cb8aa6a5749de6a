"""Every snippet of the README and the documentation runs, in the order of its page.

Python blocks share one namespace per page; blocks with `>>>` must print what they show, and in
the others a number that a comment begins with must be that of the expression before it. Of the
shell blocks, the commands of equipoise are run. Everything happens in a temporary folder.
"""

import ast
import builtins
import doctest
import json
import os
import re
import shlex
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import peer

from equipoise.cli import main

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```(python|pycon|sh|console)\n(.*?)^```$", re.M | re.S)
NUMBER = r"-?\d(?:[\d_]|,\d{3})*(?:\.\d+)?(?:e-?\d+)?"
#: A comment that begins with a number or a list of numbers: `< 1e-9`, `about 0.015; ...`, `[0, 1]`.
STATED = re.compile(rf"(<=|<|about )? ?({NUMBER}|\[{NUMBER}(?:, {NUMBER})*\])(?![\w/]|\.\d)(.*)")
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
        padded = "\n" * line + text
        comments = [part.partition("  # ")[2] for part in padded.splitlines()]
        for node in ast.parse(padded, str(page)).body:
            if isinstance(node, ast.Expr):
                value = eval(compile(ast.Expression(node.value), str(page), "eval"), names)
                check_number(value, comments[(node.end_lineno or node.lineno) - 1], page)
            else:
                exec(compile(ast.Module([node], []), str(page), "exec"), names)
        return
    report: list[str] = []
    runner = doctest.DocTestRunner(optionflags=OPTIONS)
    test = doctest.DocTestParser().get_doctest(text, names, page.name, str(page), line)
    runner.run(test, out=report.append, clear_globs=False)
    names.update(test.globs)
    assert runner.summarize(verbose=False).failed == 0, "".join(report)


def check_number(value: Any, comment: str, page: Path) -> None:
    """Compare a value with the number that its comment begins with, if it begins with one.

    `<` and `<=` are limits. A plain number must be the value, rounded to the digits shown; "about"
    allows a fifth. A mean "over many games" is of other games than the few of a page: it allows a
    factor of two.
    """
    stated = STATED.match(comment)
    if stated is None or value is None:  # what is printed, is no value
        return
    relation, number, rest = stated.groups()
    expected = np.array(json.loads(number if "[" in number else re.sub("[,_]", "", number)), float)
    found = np.asarray(value, float)
    if relation == "<":
        holds = found < expected
    elif relation == "<=":
        holds = found <= expected
    elif "over many" in rest:
        holds = (expected / 2 <= found) & (found <= expected * 2)
    elif relation:
        holds = np.abs(found - expected) <= 0.2 * np.abs(expected)
    else:
        mantissa, _, exponent = number.partition("e")
        decimals = len(mantissa.partition(".")[2].rstrip("]")) if expected.ndim == 0 else 9
        holds = np.abs(found - expected) <= 0.500001 * 10.0 ** (int(exponent or 0) - decimals)
    assert found.shape == expected.shape, f"{page.name}: {comment!r} is said of {value}"
    assert np.all(holds), f"{page.name}: {comment!r} is said of {value}"


def run_shell(text: str) -> None:
    # A doctest leaves its last value in `builtins._`, and tyro hashes all builtins on import.
    vars(builtins).pop("_", None)
    for command in text.replace("\\\n", " ").splitlines():
        words = shlex.split(command.removeprefix("$ "), comments=True)
        if words and words[0] == "equipoise":
            assert main(words[1:]) == 0, command


def run_page(page: Path) -> None:
    """Run all snippets of a page in the current folder."""
    names: dict[str, Any] = {"__name__": "__main__"}
    for language, line, text in snippets(page):
        if language in ("python", "pycon"):
            run_python(text, page, line, names)
        else:
            run_shell(text)


@pytest.mark.parametrize(
    "page", [p for p in PAGES[1:] if snippets(p)], ids=lambda p: str(p.relative_to(ROOT))
)
def test_snippets_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    if "adapters" in page.read_text():
        [peer(library) for library in ("pyspiel", "pygambit", "quantecon")]
    run_page(page)


def test_the_readme_runs_with_an_installed_wheel_outside_the_checkout(tmp_path):
    """A file that is missing from the wheel, or found in the checkout alone, is noticed."""
    site = tmp_path / "site"
    run = partial(subprocess.run, check=True, capture_output=True, text=True, timeout=500)
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path)]
    run([*build, str(ROOT)])
    [wheel] = tmp_path.glob("equipoise-*.whl")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(site)]
    run([*pip, str(wheel)])
    assert not (site / "reproduction").exists()
    program = (
        "import equipoise, os, pathlib, sys, test_pages\n"
        "from equipoise.cli import main\n"
        f"assert pathlib.Path(equipoise.__file__).is_relative_to({str(site)!r})\n"
        "test_pages.run_page(test_pages.PAGES[0])\n"
        # The figures of the papers are in a clone alone.
        "assert main(['reproduce', '--list']) == 2\n"
        f"os.chdir({str(ROOT)!r})\n"
        "assert main(['reproduce', '--list']) == 0"
    )
    paths = os.pathsep.join(map(str, (site, Path(__file__).parent, ROOT / "tests")))
    (tmp_path / "work").mkdir()
    done = run(
        [sys.executable, "-c", program],
        cwd=tmp_path / "work",
        env={**os.environ, "PYTHONPATH": paths},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "clone the repository" in done.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    "text",
    [
        "x  # < 1e-9: nothing",
        "x  # <= 1e-8, all of them",
        "x  # 0.008; uniform play has 0.29",
        "x  # about 0.01; uniform play has 0.29",
        "x  # 0.015 over many games; OMD has 0.12 there",
        "[0, x]  # [0, 1]: always rock loses one to paper",
        "[0, x]  # 0.007; another shape",
        "y = 1\n(\n    x\n)  # 7e-4",
    ],
)
def test_a_wrong_number_of_a_comment_is_noticed(text):
    with pytest.raises(AssertionError, match="is said of"):
        run_python(text, PAGES[0], 3, {"x": 0.0071})


def test_right_numbers_of_comments_are_accepted():
    text = """
x  # < 1e-2: little
x  # 0.007; more in words
x  # 7.1e-3
x  # about 0.008; more in words
x  # 0.0136 over many games
[0, 1]  # [0, 1]: both
x  # exact best responses, worst state
x  # 3rd of all
x  # 3/7 and 4/7
1234  # 1,234. More in words
"""
    run_python(text, PAGES[0], 3, {"x": 0.0071})


def test_numbers_of_the_readme_are_compared():
    """Comments that are worded otherwise would be passed over."""
    lines = "".join(text for language, _, text in snippets(PAGES[0]) if language == "python")
    comments = [line.partition("  # ")[2] for line in lines.splitlines()]
    assert sum(STATED.match(comment) is not None for comment in comments) >= 6


def test_every_fence_names_its_language():
    """A block without a language would not be run, nor noticed."""
    for page in PAGES:
        opening = re.findall(r"^```(.*)\n(?:.*?)^```$", page.read_text(), re.M | re.S)
        assert all(opening), f"{page.relative_to(ROOT)} has a block without a language"
