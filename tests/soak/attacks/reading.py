"""Tables as people keep them, of games whose truth is known: what they become, and what is advised.

Every attack draws a game, writes its log in a way that is easily misread, and compares the log, or
the status that `learn` gives it, with what was drawn.
"""

import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import equipoise as eq
from equipoise.core import InputError

_ROLES = {"agent": "shop", "time": "day", "action": "price", "reward": "profit"}
_PRICES, _SHOPS = ("low", "mid", "high"), ("Ada", "NA", "O'Neil")


def _cases(
    seed: int, seconds: float, check: Callable[[np.random.Generator], Iterator[str]]
) -> Iterator[str]:
    """Check one drawn table after the other until the time is over."""
    end, case = time.perf_counter() + seconds, 0
    while case == 0 or time.perf_counter() < end:
        rng = np.random.default_rng([seed, case])
        yield from (f"case {case} of seed {seed}: {line}" for line in check(rng))
        case += 1


def _read(lines: list[list[str]], mark: str = ",", **options: Any) -> eq.offline.Log:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.csv"
        head = ["day", "shop", "price", "season", "profit"]
        path.write_text("\n".join(mark.join(line) for line in [head, *lines]))
        return eq.offline.Log.read(path, **_ROLES, **options)


def _draw(rng: np.random.Generator, rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Actions, seasons, and whole profits that grow with the own price and fall in the season."""
    actions, wet = rng.integers(0, 3, (rows, 3)), rng.integers(0, 2, rows)
    profits = 950.0 + 150 * actions - 20 * np.roll(actions, 1, 1) - 100 * wet[:, None]
    return actions, wet, np.round(profits + 40 * rng.normal(size=actions.shape))


def _lines(actions: np.ndarray, wet: np.ndarray, profits: Any, days: list[str]) -> list[list[str]]:
    return [
        [days[k], shop, _PRICES[actions[k, i]], ("dry", "wet")[wet[k]], str(profits[k][i])]
        for k in range(len(actions))
        for i, shop in enumerate(_SHOPS)
    ]


_STYLES: list[tuple[str, bool | None]] = [
    ("%Y-%m-%d", None),
    ("%d/%m/%Y", None),
    ("%m/%d/%Y", None),
    ("%d.%m.%Y", None),
    ("%b %d %Y", None),
    ("%d %B %Y", None),
    ("%d/%m/%y", True),
    ("%d-%b-%y", None),
    ("%a %d %b %Y", None),
    ("%d%b%Y %I:%M %p", None),
    ("%d%m%Y", True),
    ("%Y-%m-%dT%H:%M:%SZ", None),
]


def spelled(seed: int, seconds: float) -> Iterator[str]:
    """The same profits, prices and days, in every spelling: the log is what was written."""

    def check(rng: np.random.Generator) -> Iterator[str]:
        rows = int(rng.integers(40, 120))
        actions, wet, profits = _draw(rng, rows)
        profits = profits - float(rng.choice([0, 900, 2000]))
        style, first = _STYLES[rng.integers(len(_STYLES))]
        dates = np.datetime64("2022-11-20") + np.arange(rows)
        days = [date.astype(object).strftime(style) for date in dates]
        money = [
            lambda x: f"{x:.0f}",
            lambda x: f"({-x:.0f})" if x < 0 else f"{x:.0f}",
            lambda x: f"{x:,.0f}".replace(",", "."),
            lambda x: f"{x:,.2f}".replace(",", " ").replace(".", ",").replace(" ", "."),
        ]
        kind = int(rng.integers(4))
        texts = [[money[kind](x) for x in row] for row in profits]
        lines = _lines(actions, wet, texts, days)
        for line in lines:
            line[2] = line[2].upper() if rng.random() < 0.2 else line[2]
            line[3] = line[3].title() if rng.random() < 0.2 else line[3]
        rng.shuffle(lines)
        what = f"{style}, {money[kind](-1234.0)}"
        try:
            mark = ";" if kind > 1 else ","
            log = _read(
                lines, mark, context="season", **({} if first is None else {"dayfirst": first})
            )
        except InputError as error:
            if error.argument != "decimal":  # all profits of four digits are asked for
                yield f"{what} refused: {error}"
            return
        order = [_PRICES.index(name.lower()) for name in log.labels.actions_of(0) or ()]
        if log.labels.players != _SHOPS or len(order) != 3:
            yield f"{what}: agents {log.labels.players}, actions {log.labels.actions}"
        elif not np.array_equal(log.rewards, profits):
            yield f"{what}: profits from {log.rewards.min()} to {log.rewards.max()}"
        elif not np.array_equal(np.array(order)[log.actions], actions) or log.contexts_count != 2:
            yield f"{what}: {log.contexts_count} contexts, or other actions"

    return _cases(seed, seconds, check)


def blank(seed: int, seconds: float) -> Iterator[str]:
    """Profits that are missing are no absences and no zeros, and bounds hold as without gaps."""

    def check(rng: np.random.Generator) -> Iterator[str]:
        actions, wet, profits = _draw(rng, 400)
        gone = rng.random(profits.shape) < rng.choice([0.0, 0.05, 0.4], 3)
        gone[0] = False
        texts = np.where(gone, "", profits.astype(str))
        lines = _lines(actions, wet, texts, [str(k) for k in range(len(wet))])
        log = _read(lines, context="season")
        advice = eq.advise(log, iterations=100)
        mean = np.array([profits[~out, i].mean() for i, out in enumerate(gone.T)])
        if log.states is not None or not np.allclose(advice.stats["earned"], mean):
            yield f"earned {advice.stats['earned']}, recorded {mean}"
        cover = eq.offline.coverage(log)
        if cover.covered.min() < 1.0 or not np.isfinite(cover.concentrability).all():
            yield f"coverage {cover.covered}, although everybody tried everything"
        names = log.labels.actions_of(0) or ()
        worth = np.array([150.0 * _PRICES.index(name) for name in names])
        gain = (worth.max() - advice.policy.policies @ worth).mean((0, 1)).max()
        if advice.status.ok and gain > advice.bound + 1e-9:
            yield f"gain {gain:.4g} above the bound {advice.bound:.4g}"
        elif advice.status.name == "refused":
            yield f"refused: {advice.status.message[:150]}"

    return _cases(seed, seconds, check)


def forgotten(seed: int, seconds: float) -> Iterator[str]:
    """A season that was not passed is named; one that nothing depends on is not."""

    def check(rng: np.random.Generator) -> Iterator[str]:
        actions, wet, profits = _draw(rng, 400)
        days = [str(k) for k in range(len(wet))]
        if not any(
            "season explains" in note for note in _read(_lines(actions, wet, profits, days)).notes
        ):
            yield "a season that explains profits is not named"
        notes = _read(_lines(actions, rng.permutation(wet), profits, days)).notes
        if any("season" in note and "look" in note for note in notes):
            yield f"a season without effect is named: {notes[-1]}"

    return _cases(seed, seconds, check)


def codes(seed: int, seconds: float) -> Iterator[str]:
    """Names made of digits that floats would join: the log keeps them apart, as written."""

    def check(rng: np.random.Generator) -> Iterator[str]:
        large, small = int(rng.integers(2**53, 2**62)), int(rng.integers(1, 10))
        names = {
            0: (f"00{small}", str(small), f"0{small}"),
            1: (f"{small}E2", f"{small}00", "7"),
            2: (str(large), str(large + 1), str(large + 2)),
        }[int(rng.integers(3))]
        actions, wet, profits = _draw(rng, 300)
        lines = _lines(actions, wet, profits, [str(k) for k in range(len(wet))])
        coded = [[*line[:2], names[_PRICES.index(line[2])], *line[3:]] for line in lines]
        log = _read(coded)
        found = log.labels.actions_of(0) or ()
        if sorted(found) != sorted(names):
            yield f"actions {names} became {found}"
        elif (np.array(names)[actions] != np.array(found)[log.actions]).any():
            yield f"actions {names} were exchanged"

    return _cases(seed, seconds, check)


def exact(seed: int, seconds: float) -> Iterator[str]:
    """A game without noise, played often, is learned, and the dominant action advised."""

    def check(rng: np.random.Generator) -> Iterator[str]:
        actions = rng.integers(0, 2, (int(rng.integers(200, 800)), int(rng.integers(2, 5))))
        rewards = actions * rng.uniform(1, 2, actions.shape[1]) + 0.3 * np.roll(actions, 1, 1)
        advice = eq.advise(eq.offline.Log(None, actions, rewards), iterations=100)
        play = advice.policy.policies[..., 1].min()
        if not advice.status.ok or play < 0.99:
            yield f"{advice.status.message[:150]}; the dominant action is played with {play:.3f}"

    return _cases(seed, seconds, check)


def moved(seed: int, seconds: float) -> Iterator[str]:
    """A state that all see: blamed as such if declared local, and named if actions move it."""

    def check(rng: np.random.Generator) -> Iterator[str]:
        rows, often = 2000, rng.uniform(0.3, 0.7, (2, 3))
        state, worth = 0, rng.random((3, 2, 2, 2, 2))
        move = rng.uniform(0.1, 0.9, (2, 2)) if rng.random() < 0.5 else None
        columns: list[Any] = []
        for _ in range(rows):
            action = (rng.random(3) < often[state]).astype(int)
            chance = 0.4 if move is None else move[state, action[0]]
            following = int(rng.random() < chance)
            paid = [worth[(i, state, *action)] + 0.1 * rng.normal() for i in range(3)]
            columns.append((state, action, paid, following))
            state = following
        states, actions, rewards, following = (np.array(c) for c in zip(*columns, strict=True))
        local = [np.repeat(c[:, None], 3, 1) for c in (states, following)]
        message = eq.advise(eq.offline.Log(None, actions, rewards, *local)).status.message
        if "actions are correlated" in message or "same state" not in message:
            yield f"a shared state as local states: {message[:150]}"
        advice = eq.advise(eq.offline.Log(states, actions, rewards), iterations=50)
        named = "move the context of the next row" in advice.status.message
        strong = move is not None and abs(move[:, 0] - move[:, 1]).max() > 0.3
        learned = advice.status.ok
        if (strong and learned) or (move is None and named):
            yield f"named: {named}, moved: {strong}; {advice.status.message[:150]}"

    return _cases(seed, seconds, check)


def own_play(seed: int, seconds: float) -> Iterator[str]:
    """Gains from own play of continuous actions, against a search on a grid in the game itself."""
    above = below = cases = 0
    end = time.perf_counter() + seconds
    while cases == 0 or time.perf_counter() < end:
        rng = np.random.default_rng([seed, cases])
        slope, cross = rng.uniform(0.5, 2.0, 3), rng.uniform(-0.5, 0.5, 3)
        points = rng.uniform(-1, 1, (120, 3))

        def earned(x: np.ndarray, slope: Any = slope, cross: Any = cross) -> np.ndarray:
            return -slope * (x - 0.3) ** 2 + cross * x * np.roll(x, 1, -1)

        log = eq.offline.Log(
            None, points, earned(points) + 0.1 * rng.normal(size=points.shape), continuous=True
        )
        low, high = eq.advise(log).stats["own_interval"]
        gain = 0.0
        for i in range(3):
            for action in np.linspace(-1, 1, 81):
                other = points.copy()
                other[:, i] = action
                gain = max(gain, float((earned(other) - earned(points))[:, i].mean()))
        above, below, cases = above + (gain > high), below + (gain < low), cases + 1
    # Each end is wrong with a probability of 5%.
    if max(above, below) > 0.05 * cases + 3.1 * np.sqrt(0.0475 * cases) + 1:
        yield f"of {cases} intervals, {above} end below the gain and {below} begin above it"


ATTACKS = (spelled, codes, blank, forgotten, exact, moved, own_play)
