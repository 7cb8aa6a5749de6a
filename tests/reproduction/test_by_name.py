"""What "From a paper to the library" names is there: calls, their arguments, commands and tests."""

import inspect
import re
import shlex
from functools import cache
from pathlib import Path

import pytest

import equipoise as eq
import reproduction
from equipoise.cli._parsing import parse
from reproduction import figures_of

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reproduction" / "by-name.md").read_text(encoding="utf-8")
CODE = re.findall(r"`([^`\n]+)`", PAGE)
CALLS = sorted({text for text in CODE if text.startswith(("eq.", "reproduction."))})
BLOCKS = re.findall(r"^```bash\n(.*?)^```$", PAGE, re.M | re.S)
LINES = [line for block in BLOCKS for line in block.splitlines()]
COMMANDS = sorted({text for text in [*CODE, *LINES] if text.startswith("equipoise ")})
#: What every paper's table must name, in the words of the paper.
NAMES = (
    *("OMD", "Algorithm 1: OMD for Markov games", "Eq. (1)", "Theorem 4.1: the network"),
    *("Theorem 4.3", "Algorithm 1, DR-AC", "Algorithm 2: Monte-Carlo", "Eq. (2) and (4)"),
    *("Algorithm 1, state-wise", "Algorithm 2, Aggre-BI", "the subroutine 4.1.1"),
    *("Algorithm 3, Aggre-VI", "Algorithm 4"),
)


@cache
def functions_of_tests():
    found = set()
    for file in (ROOT / "tests").rglob("test_*.py"):
        found |= set(re.findall(r"^def (test_\w+)", file.read_text(encoding="utf-8"), re.M))
    return found


@pytest.mark.parametrize("call", CALLS)
def test_calls_exist_and_take_the_arguments(call):
    name, _, arguments = call.partition("(")
    package, *parts = name.split(".")
    found = {"eq": eq, "reproduction": reproduction}[package]
    for part in parts:
        found = getattr(found, part)
    assert callable(found)
    for argument in re.findall(r"(\w+)=", arguments):
        assert argument in inspect.signature(found).parameters or name == "eq.solve"


def test_options_of_solve_are_those_of_crowds():
    """`eq.solve` passes its options to the solver of the kind of game."""
    known = inspect.signature(eq.aggregative.solve_aggregative).parameters
    for call in CALLS:
        if call.startswith("eq.solve("):
            assert set(re.findall(r"(\w+)=", call)) <= set(known)


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_are_understood(command):
    _, verb, *words = shlex.split(command)
    parsed = parse(verb, words)
    assert parsed is not None
    if verb == "reproduce" and parsed.paper is not None:
        assert figures_of(parsed.paper, parsed.figure)
    for name in ("row", "column"):
        own = (None, "runs/paper", "mine.py:network")
        if verb == "play" and (learner := getattr(parsed, name)) not in own:
            assert learner in eq.dynamics.LEARNERS


def test_tests_exist():
    named = {text for text in CODE if text.startswith("test_")}
    assert len(named) > 40
    assert named <= functions_of_tests()


@pytest.mark.parametrize("name", NAMES)
def test_every_algorithm_has_a_row(name):
    assert any(name in row for row in PAGE.splitlines() if row.startswith("|"))


def test_every_row_has_a_call_and_a_test():
    rows = [row.split("|")[1:-1] for row in PAGE.splitlines() if row.startswith("| ")]
    for row in rows:
        if row[0].strip() != "of the paper":
            assert len(row) == 5, row
            assert "`eq." in row[1] or "`reproduction." in row[1], row
            assert "`test_" in row[3], row


def test_the_page_is_linked():
    for page in ("docs/index.md", "README.md", "docs/reproduction/index.md"):
        assert "by-name" in (ROOT / page).read_text(encoding="utf-8"), page
