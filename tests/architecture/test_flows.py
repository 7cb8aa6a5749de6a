"""The flow from a log to a policy in docs/architecture.md, kept true."""

import re
import sys
from pathlib import Path

import equipoise as eq
from equipoise.cli import main

ROOT = Path(eq.__file__).parent
PAGE = Path(__file__).parents[2] / "docs" / "architecture.md"
#: A hop of the page: its number, the file that calls, and the file that is called.
HOP = re.compile(r"^ +(\d+)  (\S+\.py) ──► (\S+\.py)", re.MULTILINE)


def calls_between_files(work):
    """Pairs of (calling file, called file), and all files that `eq.advise` enters."""
    files, pairs, entered, depth = {}, set(), set(), 0

    def name_of(code):
        if code not in files:
            path = Path(code.co_filename)
            files[code] = path.relative_to(ROOT).as_posix() if ROOT in path.parents else None
        return files[code]

    def look(frame, event, _):
        nonlocal depth
        name = name_of(frame.f_code) if event in ("call", "return") else None
        if name is None:
            return
        if (name, frame.f_code.co_name) == ("offline/_learn.py", "learn"):
            depth += 1 if event == "call" else -1
        if event == "call":
            caller = frame.f_back
            # The check of a call's arguments stands between a public function and its caller.
            while caller is not None and name_of(caller.f_code) in (None, "core/errors.py"):
                caller = caller.f_back
            if caller is not None:
                pairs.add((name_of(caller.f_code), name))
            if depth:
                entered.add(name)

    sys.setprofile(look)
    try:
        work()
    finally:
        sys.setprofile(None)
    return pairs, entered


def test_the_flow_of_a_log_is_that_of_the_page(tmp_path, capsys):
    hops = HOP.findall(PAGE.read_text(encoding="utf-8"))
    assert [int(number) for number, *_ in hops] == list(range(1, len(hops) + 1))
    assert 1 <= len(hops) <= 15
    game = eq.games.families.polymatrix(agents=3, actions=2).sample(key=0)
    eq.offline.collect(game, "uniform", samples=600, key=1).write(tmp_path / "log.npz")
    options = ["--iterations", "20", "--run", str(tmp_path / "run")]
    command = ["offline", str(tmp_path / "log.npz"), *options]
    pairs, entered = calls_between_files(lambda: main(command))
    assert "status" in capsys.readouterr().out
    assert {(caller, called) for _, caller, called in hops} <= pairs
    assert not {name for name in entered if name.startswith(("cli/", "report/"))}
