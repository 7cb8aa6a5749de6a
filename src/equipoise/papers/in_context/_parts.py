"""The parts of the figure: each trains or plays, and leaves one record."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from equipoise import dynamics, incontext
from equipoise.certificates import certify
from equipoise.papers.in_context._settings import (
    IID,
    PRESETS,
    Config,
    Panel,
    family_names,
    make_key,
    make_panel,
    training,
)
from equipoise.runs import Record, Table

#: Stands for fresh games where there is the size of a training set.
FRESH = 0


def run_part(config: Config, part: str, key: Any) -> Record:
    """One part; arrays are named `panel|family|player` and hold (seeds, x), means over games."""
    kind = part.partition("-")[0]
    measure: dict[str, Callable[[Config, str, Any], dict[str, np.ndarray]]] = {
        "matrix": _curves,
        "markov": _curves,
        "lengths": _lengths,
        "sizes": _sizes,
        "games": _training_games,
        "baselines": _baselines,
    }
    arrays = measure[kind](config, part, key)
    return Record("in-context", config, {"part": part}, arrays, {"gaps": summary(arrays)})


def summary(arrays: dict[str, np.ndarray]) -> Table:
    """Mean over seeds, and the standard deviation between them, of every curve at every x."""
    rows = []
    for name, values in arrays.items():
        panel, _, rest = name.partition("|")
        family, _, player = rest.partition("|")
        if player:
            spread = values.std(0, ddof=1) if len(values) > 1 else np.zeros(values.shape[1])
            for x, mean, between in zip(arrays[f"{panel}|x"], values.mean(0), spread, strict=True):
                rows.append((panel, family, player, int(x), float(mean), float(between)))
    return Table(("panel", "family", "player", "x", "gap", "between seeds"), rows)


def record_rounds(rounds: int) -> np.ndarray:
    """Powers of two up to the last round.

    >>> record_rounds(20).tolist()
    [1, 2, 4, 8, 16, 20]
    """
    powers = [2**k for k in range(31) if 2**k < rounds]
    return np.array([*powers, rounds])


def last_round(config: Config, panel: Panel) -> int:
    """The length of the trajectories of a panel."""
    return config.rounds if panel.states is None else config.markov_rounds


def mean_gap(panel: Panel, games: Any, policies: Any) -> float:
    """The mean of `nash_conv`; in Markov games in units of 1/(1 - discount)."""
    return float(np.mean(certify(games, policies).nash_conv) * (1.0 - panel.discount))


def _curves(config: Config, part: str, key: Any) -> dict[str, np.ndarray]:
    """Every family with both presets: the gap at every recorded round."""
    panel = make_panel(config, part)
    rounds = last_round(config, panel)
    arrays = {f"{panel.title}|x": record_rounds(rounds)}
    for preset in PRESETS:
        how = training(config, preset, rounds)
        found = _train(config, panel, family_names(config), how, key, (part, preset))
        arrays |= {f"{panel.title}|{name}|{preset}": gaps for name, gaps in found.items()}
    return arrays


def _lengths(config: Config, part: str, key: Any) -> dict[str, np.ndarray]:
    """Players trained at shorter trajectories, after their last round."""
    panel = make_panel(config, part)
    names = (family_names(config)[0], IID)
    found: dict[str, list[np.ndarray]] = {}
    for length in config.lengths:
        for preset in PRESETS:
            how = training(config, preset, length)
            gaps = _train(config, panel, names, how, key, (part, length, preset))
            for name in names:
                found.setdefault(f"{part}|{name}|{preset}", []).append(gaps[name][:, -1])
    arrays = {name: np.stack(columns, 1) for name, columns in found.items()}
    return {f"{part}|x": np.array(config.lengths), **arrays}


def _sizes(config: Config, part: str, key: Any) -> dict[str, np.ndarray]:
    """Models of several sizes on independent games, with our preset."""
    panel = make_panel(config, part)
    arrays = {f"{part}|x": record_rounds(config.rounds)}
    for layers, width in config.sizes:
        size = {"layers": layers, "width": width, "hidden": 4 * width}
        how = training(config, "ours", config.rounds, **size)
        gaps = _train(config, panel, (IID,), how, key, (part, layers, width))
        arrays[f"{part}|{IID}|{layers} x {width}"] = gaps[IID]
    return arrays


def _training_games(config: Config, part: str, key: Any) -> dict[str, np.ndarray]:
    """Training sets of several sizes, and fresh games, on independent games."""
    panel = make_panel(config, part)
    arrays = {f"{part}|x": np.array([*config.training_games, FRESH])}
    for preset in PRESETS:
        how, columns = training(config, preset, config.rounds, training_games=None), []
        counts = np.repeat(config.training_games, config.seeds)
        names = [IID] * len(config.training_games)
        words = (part, preset)
        columns = _train_all(config, panel, names, how, key, words, counts.tolist())
        columns += _train_all(config, panel, [IID], how, key, (*words, "fresh"), None)
        arrays[f"{part}|{IID}|{preset}"] = np.stack([gaps[:, -1] for gaps in columns], 1)
    return arrays


def _train(
    config: Config, panel: Panel, names: Sequence[str], how: Any, key: Any, words: Any
) -> dict[str, np.ndarray]:
    """Name of the family -> (seeds, recorded rounds)."""
    found = _train_all(config, panel, names, how, key, words, None)
    return dict(zip(names, found, strict=True))


def _train_all(
    config: Config,
    panel: Panel,
    names: Sequence[str],
    how: Any,
    key: Any,
    words: Any,
    training_games: list[int] | None,
) -> list[np.ndarray]:
    """For every name and all seeds: train, play unseen games, and certify what was played.

    A seed has its own base game, training set, weights and luck.
    """
    pairs = [(name, seed) for name in names for seed in range(config.seeds)]
    made = [panel.family(name, seed, key) for name, seed in pairs]
    players = incontext.sweep(
        made, how, key=make_key(key, "train", *words), training_games=training_games
    )
    curves = []
    for (name, seed), pair in zip(pairs, players, strict=True):
        games = panel.test_games(name, seed, config.test_games, key)
        episode = incontext.play(
            pair,
            games,
            rounds=how.rounds,
            key=make_key(key, "play", seed),
            record=record_rounds(how.rounds).tolist(),
            precision=config.precision,
        )
        policies = zip(*episode.recorded.last, strict=True)
        curves.append([mean_gap(panel, games, policy) for policy in policies])
    return list(np.array(curves).reshape(len(names), config.seeds, -1))


def _baselines(config: Config, part: str, key: Any) -> dict[str, np.ndarray]:
    """What does not adapt, and what learns without having been trained."""
    arrays: dict[str, np.ndarray] = {}
    for name in (n for n in config.all_parts if n.startswith(("matrix", "markov"))):
        panel = make_panel(config, name)
        x = record_rounds(last_round(config, panel))
        arrays[f"{panel.title}|x"] = x
        for family in family_names(config):
            found: dict[str, list[Any]] = {}
            for seed in range(config.seeds):
                games = panel.test_games(family, seed, config.test_games, key)
                for who, gap in _static(config, panel, family, seed, games, key).items():
                    found.setdefault(who, []).append(np.full(len(x), gap))
                for who, curve in _learners(panel, games, x, seed, key).items():
                    found.setdefault(who, []).append(curve)
            for who, curves in found.items():
                arrays[f"{panel.title}|{family}|{who}"] = np.stack(curves)
    return arrays


def _static(
    config: Config, panel: Panel, name: str, seed: int, games: Any, key: Any
) -> dict[str, float]:
    family = panel.family(name, seed, key)
    memory = family.sample(config.memory_games, key=make_key(key, panel.title, name, "memory"))
    pairs = incontext.static_policies(memory, None if name == IID else family)
    return {who: mean_gap(panel, games, pair) for who, pair in pairs.items()}


def _learners(
    panel: Panel, games: Any, rounds: np.ndarray, seed: int, key: Any
) -> dict[str, np.ndarray]:
    if panel.states is None:
        learners = {"omd": dynamics.OMD(), "exp3-ix (average)": dynamics.EXP3IX()}
    else:
        learners = {"omd": dynamics.MarkovOMD(), "v-learning": dynamics.VLearning()}
    curves = {}
    for name, learner in learners.items():
        trace = dynamics.play(
            games,
            learner,
            learner,
            rounds=int(rounds[-1]),
            key=make_key(key, "play", seed),
            record=rounds.tolist(),
        )
        gaps = trace.average_curve if name.endswith("(average)") else trace.curve
        curves[name] = np.asarray(gaps).mean(1) * (1.0 - panel.discount)
    return curves
