"""Refusals as people read them, on a terminal and a page; and `discover` after Ctrl-C."""

import signal

import numpy as np
import pytest

import equipoise as eq
from equipoise.cli import main


@pytest.fixture(scope="module")
def doubtful(tmp_path_factory):
    """Ada never tries an action, a hidden cause moves all actions, and rewards turn over."""
    rng = np.random.default_rng(0)
    hidden = rng.integers(0, 2, (400, 1))
    actions = (rng.random((400, 4)) < 0.25 + 0.5 * hidden).astype(int)
    turned = np.where(np.arange(400)[:, None] < 200, 1.0, -1.0)
    rewards = actions * turned + 2 * hidden + rng.normal(0, 0.3, actions.shape)
    names = {"players": ("Ada", "Bo", "Cy", "Di")}
    log = eq.offline.Log(None, actions, rewards, actions_per_agent=[3, 2, 2, 2], labels=names)
    path = tmp_path_factory.mktemp("logs") / "doubtful.npz"
    log.write(path)
    return path


#: How each reason begins, the most basic one first, and what it says to change.
REASONS = (
    ("the log never shows some actions (Ada: 2)", "; let these agents try them."),
    ("Agents' actions are correlated (6 pairs", "; add it as a context."),
    ("Rewards drift", "or add what changed as a context."),
)


@pytest.mark.filterwarnings("ignore:gains are unknown")
def test_every_reason_is_a_sentence_on_its_own_line_with_what_to_change(doubtful):
    log = eq.offline.Log.read(doubtful)
    refused = eq.advise(log)
    assert refused.status.name == "refused"
    assert refused.structure is not None
    *lines, last = refused.status.message.split("\n")
    assert len(lines) == len(REASONS)
    for line, (begins, change) in zip(lines, REASONS, strict=True):
        assert line.startswith(begins)
        assert line.endswith(change)
        assert line.count(". ") == 0
    assert last == "The returned policy is the log's own play, not advice"
    assert "\n".join(lines) == f"{refused.structure.refusal}."
    forced = eq.advise(log, force=True)
    assert forced.status.caution
    assert forced.status.message.startswith("a policy was learned because force was given. Without")
    assert "own play" not in forced.status.message


@pytest.mark.filterwarnings("ignore:gains are unknown")
def test_terminal_and_pages_show_one_reason_per_line(doubtful, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    run, page = tmp_path / "run", tmp_path / "page.html"
    assert main(["offline", str(doubtful), "--run", str(run)]) == 1
    offline = capsys.readouterr().out
    assert main(["discover", str(doubtful), "--report", str(page)]) == 1
    found = capsys.readouterr().out
    for out, name in ((offline, "status"), (found, "refused")):
        lines = out[out.index(f"\n{name} ") :].splitlines()
        assert max(map(len, lines)) <= 100
        starts = [line.strip() for line in lines]
        for begins, _ in REASONS[1:]:
            assert any(line.startswith(begins) for line in starts), begins
    for text in (run / "report.html", page):
        html = text.read_text(encoding="utf-8")
        for begins, _ in REASONS[1:]:
            assert f"<p>{begins}".replace("'", "&#x27;") in html


def test_a_log_refused_before_any_fit_shows_its_reason_and_its_own_play(tmp_path, capsys):
    rng = np.random.default_rng(0)
    actions = rng.integers(0, 2, (30, 3))
    log = eq.offline.Log(np.arange(30) % 2, actions, actions + rng.normal(0, 0.1, actions.shape))
    log.write(tmp_path / "log.npz")
    assert main(["offline", str(tmp_path / "log.npz"), "--run", str(tmp_path / "run")]) == 1
    shown = " ".join(capsys.readouterr().out.split())
    reason = "2 contexts are too many for 30 rows"
    assert "the log's own play; this is not advice" in shown
    assert f"{actions[::2, 0].mean():.0%}" in shown
    assert f"refused: {reason}" in shown
    assert reason in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")


def test_a_page_without_a_table_still_shows_the_reason():
    rng = np.random.default_rng(0)
    log = eq.offline.Log(None, np.zeros((30, 2), int), rng.normal(size=(30, 2)))
    refused = eq.advise(log)
    for name in ("earned", "expected", "gains_at_most"):
        del refused.stats[name]
    record = eq.runs.Record("log", {}, solution=refused.to_plain())
    assert "every agent plays a single action" in eq.report.page_of(record).html()


@pytest.mark.parametrize("rows", [5, 12, 19])
def test_the_number_of_rows_is_the_only_reason_if_it_is_very_small(rows):
    rng = np.random.default_rng(0)
    actions = rng.integers(0, 2, (rows, 5))
    log = eq.offline.Log(None, actions, actions / 2 + rng.normal(0, 0.1, actions.shape))
    reason = f"{rows} different rows are too few: comparing two actions takes at least 10 rows"
    found = eq.offline.discover(log).refusal
    assert found.startswith(reason)
    assert "\n" not in found
    assert eq.advise(log).status.message.split(".\n")[0] == found


def test_too_few_rows_are_told_with_how_many_are_missing():
    rng = np.random.default_rng(1)
    actions = rng.integers(0, 3, (40, 6))
    rewards = actions + actions.mean(1, keepdims=True) ** 2 + rng.normal(0, 0.05, actions.shape)
    few = eq.advise(eq.offline.Log(None, actions, rewards), rank=2)
    assert few.status.name == "refused"
    first = few.status.message.split("\n")[0]
    assert first.startswith("there are too few rows for this reward model (pairs)")
    assert "; collect about " in first
    needed = 40 * (1.5 / few.stats["samples_per_parameter"] - 1.0)
    more = int(first.split("collect about ")[1].split(" more rows")[0].replace(",", ""))
    assert more == np.ceil(needed)


def test_a_table_that_was_cut_keeps_its_columns_readable(capsys, monkeypatch):
    from equipoise.cli._output import cut, print_table
    from equipoise.runs import Table

    monkeypatch.setenv("COLUMNS", "60")
    words = "low 43%, high 29%, middle 28%"
    rows = [(f"Shop {i}", "dry", words, 107.7, 107.8) for i in range(40)]
    print_table(cut(Table(("agent", "context", "play", "earned", "expected"), rows)))
    head, *body = capsys.readouterr().out.strip().splitlines()
    assert head.split() == ["agent", "context", "play", "earned", "expected"]
    assert body[-1].strip() == "... 15 more (--json shows all)"
    assert len(body) < 60


@pytest.mark.parametrize("presses", [1, 2])
def test_discover_shows_after_ctrl_c_what_it_compared(presses, tmp_path, capsys, monkeypatch):
    from equipoise.offline._select import Comparison

    monkeypatch.setenv("COLUMNS", "100")

    game = eq.games.families.polymatrix(agents=4, actions=2).sample(key=0)
    eq.offline.collect(game, "uniform", samples=300, key=1).write(tmp_path / "log.npz")
    arguments = ["discover", str(tmp_path / "log.npz"), "--report", str(tmp_path / "page.html")]
    measure = Comparison.errors

    def pressed(plan, step):
        if step == 2 * len(plan.judges):  # own actions and pairs are done
            for _ in range(presses):
                signal.raise_signal(signal.SIGINT)
        return measure(plan, step)

    monkeypatch.setattr(Comparison, "errors", pressed)
    assert main(arguments) == 130
    out, err = capsys.readouterr()
    assert err == "equipoise: interrupted after 2 of 9 classes\n"
    rows = {line[:20].strip(): line for line in out.splitlines()}
    assert "compared so far" in rows
    for name, compared in {"own action": True, "pairs": True, "triples": False}.items():
        assert ("not compared" in rows[name]) != compared
        assert ("0." in rows[name]) == compared
    assert "chosen" not in out
    assert not (tmp_path / "page.html").exists()
    assert main([*arguments, "--json"]) == 130
    assert capsys.readouterr().out == ""
