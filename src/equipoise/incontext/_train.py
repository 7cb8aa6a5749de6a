"""Pre-training: the loop around the compiled step, for one family of games and for many."""

import math
import os
import shutil
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, overload

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from equipoise.core import InputError
from equipoise.core.files import write_text
from equipoise.core.randomness import as_key
from equipoise.core.streams import game_words
from equipoise.dynamics import Mean
from equipoise.games.families import Family
from equipoise.incontext import _files as files
from equipoise.incontext._config import Config, check_config, check_play
from equipoise.incontext._contexts import as_tables, check_learners, gap_name, solved
from equipoise.incontext._model import Transformer
from equipoise.incontext._players import Players, initial_players, pick
from equipoise.incontext._step import (
    Learned,
    Trainer,
    TrainingSet,
    copied,
    draw_variety,
    held_out_divergence,
    held_out_gaps,
    run_cycle,
)
from equipoise.runs import Reached, Record, Run, Table, progress, resumable

#: Folder, in that of the run, of the best players so far when training is interrupted.
BEST = "best-so-far"

#: Purposes of the keys that are made of the one given.
_WEIGHTS, _SET, _HELD_OUT, _STEPS, _SCORE = range(5)


class Progress(eqx.Module):
    """Where training stands; with the config and the key, it decides everything to come."""

    learned: Learned
    #: The weights with the best held-out value so far, for every seed.
    best: Transformer
    #: (seeds,)
    best_value: jax.Array
    #: Evaluations since any seed had a better value.
    stale: jax.Array
    #: Updates made.
    step: jax.Array


class HeldOut(eqx.Module):
    """Games that training never sees, and the random numbers with which they are played."""

    #: With equilibria where the divergence from them decides.
    games: TrainingSet
    words: Any
    key: jax.Array


def pretrain(
    family: Family,
    config: Config | None = None,
    *,
    key: Any,
    run: str | os.PathLike[str] | None = None,
    start: Players | None = None,
) -> Players:
    """Train players on a family of games; they then play any game of it with frozen weights.

    With `run`, everything goes into a run folder: the config, metrics as they come, checkpoints,
    and in the end the players, a record and a model card. Called again with the same arguments,
    a run that was stopped goes on, and ends with the same weights, bit for bit (on the same kind
    of machine), as if it had not been stopped. Ctrl-C returns the best players so far, and keeps
    them in the folder `best-so-far` of the run.

    With `start`, training begins with the weights of those players instead of random ones: to
    train on, or to adapt players to another family of the same shape.

    The weights kept are those with the best held-out value: the gap after the last round on games
    that training never sees, or the divergence from the expert. In Markov games, gaps of training
    are means over states, times `1 - discount`: smaller than the `nash_conv` of `evaluate`, which
    is of discounted sums and of each player's worst state.

    **Example**

    >>> import equipoise as eq
    >>> family = eq.games.families.uniform(actions=2)
    >>> tiny = eq.incontext.Config(
    ...     rounds=4, layers=1, width=8, hidden=8, steps=4, batch=2, play_ahead=2, warmup=0,
    ...     held_out=4,
    ... )
    >>> eq.incontext.pretrain(family, tiny, key=0).actions
    (2, 2)
    """
    config = check_config(config, Config)
    key = as_key(key)
    trainer, held_out = prepare(family, config, key)
    if start is not None:
        _check_start(start, trainer.players)
        trainer = eqx.tree_at(lambda t: t.players.models, trainer, start.models)
    described = files.describe_family(family)
    if run is None:
        found = _train(trainer, family, config, held_out, key, None).state
        return trainer.players.with_models(_chosen(found))
    plain = {
        "family": described,
        "config": config,
        "key": np.asarray(jax.random.key_data(key)),
        "start": None if start is None else files.fingerprint(start),
    }
    with Run.start(run, plain) as folder:
        if folder.finished:
            return files.load(run)
        reached = _train(trainer, family, config, held_out, key, folder)
        players = trainer.players.with_models(_chosen(reached.state))
        if reached.stopped:
            files.save(players, folder.path / BEST, config, described)
        else:
            _finish(folder, players, family, config, described, reached.state, key)
        return players


def prepare(family: Family, config: Config, key: jax.Array) -> tuple[Trainer, HeldOut]:
    """The trainer and the held-out games; refuses before any work what cannot be trained."""
    check_play(config)
    players = initial_players(family, config, key=jax.random.fold_in(key, _WEIGHTS))
    check_learners(config, family.states)
    needs_equilibria = config.loss == "expert" and config.expert != "omd"
    drawn, games = training_games(family, config, key), None
    if drawn is not None:
        games = training_set(drawn, needs_equilibria)
    elif needs_equilibria and family.states is not None:
        raise ValueError(
            "training_games: expected a number when the expert is the equilibrium of Markov games "
            "(they are solved beforehand), found None"
        )
    trainer = stage_trainer(players, family, games, config)
    held_key = jax.random.fold_in(key, _HELD_OUT)
    held, words, variety = _unseen(family, config, held_key)
    unseen = training_set(held, needs_equilibria and config.stop_on == "kl", variety)
    return trainer, HeldOut(unseen, words, jax.random.fold_in(held_key, 2))


def stage_trainer(
    players: Players, family: Family, games: TrainingSet | None, config: Config, stage: int = 0
) -> Trainer:
    """The trainer of one stage of a config."""
    own, total = config.staged()[stage], jnp.float32(config.total_steps)
    if own.largest is not None:
        if getattr(family.rewards, "fewest", None) is None:
            raise InputError("largest", "None for a family of games of one size", own.largest)
        family = eqx.tree_at(
            lambda f: f.rewards, family, replace(family.rewards, largest=own.largest)
        )
    return Trainer(players, family, games, own, jax.default_backend(), total=total)


def training_set(games: Any, with_equilibria: bool, variety: Any = None) -> TrainingSet:
    """Games as arrays, and their equilibria where they are needed."""
    return TrainingSet(as_tables(games), solved(games) if with_equilibria else None, variety)


def training_games(family: Family, config: Config, key: jax.Array) -> Any:
    """The games of the training set; None where new ones are drawn in every step."""
    if config.training_games is None:
        return None
    return family.sample(config.training_games, key=jax.random.fold_in(key, _SET))


def step_key(key: jax.Array, step: int) -> jax.Array:
    """The key of the cycle that begins after so many updates."""
    return jax.random.fold_in(jax.random.fold_in(key, _STEPS), step)


def _check_start(start: Any, players: Players) -> None:
    if not isinstance(start, Players):
        raise InputError("start", "Players", type(start).__name__)
    sizes = [jax.tree.map(jnp.shape, p.models) for p in (players, start)]
    if sizes[0] != sizes[1] or start.tokens != players.tokens:
        raise ValueError(
            "start: expected players with the sizes, tokens and seeds of the config, "
            f"found {start.seeds} x {start.seats} models of {start.parameters} weights "
            f"instead of {players.seeds} x {players.seats} of {players.parameters}"
        )


def _train(
    trainer: Trainer,
    family: Family,
    config: Config,
    held_out: HeldOut,
    key: jax.Array,
    run: Run | None,
) -> Reached:
    """Cycles until the last step of the last stage, a rule that ends training, or Ctrl-C."""
    stride, total, stages = config.play_ahead, config.total_steps, config.staged()
    ends = np.cumsum([-(-stage.steps // stride) * stride for stage in stages])

    def trainer_at(step: int) -> Trainer:
        stage = int(np.searchsorted(ends, step, side="right"))
        return stage_trainer(trainer.players, family, trainer.games, config, stage)

    def cycle(state: Progress, step: int, until: int) -> tuple[Progress, dict[str, np.ndarray]]:
        learned, metrics = run_cycle(trainer_at(step), state.learned, step_key(key, step))
        state = eqx.tree_at(lambda s: (s.learned, s.step), state, (learned, jnp.int32(until)))
        row = {name: np.asarray(value).mean(1) for name, value in metrics.items()}
        _check_finite(config, until, row)
        if step // config.evaluate_every != until // config.evaluate_every or until >= total:
            state, found = _evaluate(trainer, stages[-1], held_out, state)
            largest = _largest(state.learned.models)
            _check_finite(config, until, {**found, "the largest weight": largest})
            row = {**found, **row}
        return state, row

    def ended(state: Progress) -> bool:
        if config.patience is not None and int(state.stale) >= config.patience:
            return True
        return config.stop_below is not None and bool((state.best_value < config.stop_below).all())

    none = jnp.full(trainer.players.seeds, jnp.inf)
    best = copied(trainer.players.models)
    first = Progress(trainer.start(), best, none, jnp.int32(0), jnp.int32(0))
    return resumable(run, first, cycle, total, name="pre-training", stride=stride, ended=ended)


def _chosen(state: Progress) -> Transformer:
    """The weights with the best held-out value; before there is any, the latest."""
    evaluated = bool(jnp.isfinite(state.best_value).any())
    return state.best if evaluated else state.learned.models


def _check_finite(config: Config, step: int, found: dict[str, np.ndarray]) -> None:
    """Refuse to go on with weights that are of no use, before anything of them is kept."""
    for name, values in found.items():
        if not np.isfinite(values).all():
            seed = int(np.argmin(np.isfinite(values)))
            raise ValueError(
                f"learning_rate: expected one with which training stays finite, found "
                f"{config.learning_rate:g}: {name} of seed {seed} is {values[seed]} "
                f"after {step:,} steps"
            )


def _largest(models: Transformer) -> np.ndarray:
    """(seeds,): the largest weight in absolute value, NaN where any is."""
    leaves = jax.tree.leaves(models)
    by_seed = [np.abs(np.asarray(leaf)).reshape(len(leaf), -1).max(1) for leaf in leaves]
    return np.max(by_seed, axis=0)


def _evaluate(
    trainer: Trainer, config: Config, held_out: HeldOut, state: Progress
) -> tuple[Progress, dict[str, np.ndarray]]:
    """Play the held-out games; keep the weights of the seeds that are better than ever."""
    models, games = state.learned.models, held_out.games
    players = trainer.players.with_models(models)
    played = (games.tables, held_out.words, config.rounds, games.variety)
    gaps = held_out_gaps(players, *played)
    found = {"gap": np.asarray(gaps).mean(1)}
    if config.stop_on == "kl":
        found["held_out_kl"] = np.asarray(held_out_divergence(trainer, models, games, held_out.key))
    value = jnp.asarray(found.get("held_out_kl", found["gap"]), jnp.float32)
    better = value < state.best_value

    def keep(new: Any, old: Any) -> Any:
        return jnp.where(better.reshape(-1, *(1,) * (new.ndim - 1)), new, old)

    best = jax.tree.map(keep, models, state.best)
    best_value = jnp.where(better, value, state.best_value)
    stale = jnp.where(better.any(), 0, state.stale + 1).astype(jnp.int32)
    return Progress(state.learned, best, best_value, stale, state.step), found


def _unseen(family: Family, config: Config, key: jax.Array) -> tuple[Any, Any, Any]:
    """As many games as are held out, the random words with which they are played, their variety."""
    games = family.sample(config.held_out, key=key)
    keys = jax.vmap(lambda i: jax.random.fold_in(key, i))(jnp.arange(config.held_out))
    words = game_words(jax.random.split(jax.random.fold_in(key, 1), config.held_out))
    return games, words, draw_variety(family, config.staged()[-1], keys)


def _finish(
    run: Run,
    players: Players,
    family: Family,
    config: Config,
    described: dict[str, Any],
    state: Progress,
    key: jax.Array,
) -> None:
    """Write the players, the model card and the record."""
    # The loss is logged in every cycle, the gap where it was found out.
    metrics = [row for row in run.metrics() if "gap" in row]
    games, words, variety = _unseen(family, config, jax.random.fold_in(key, _SCORE))
    rounds = config.staged()[-1].rounds
    score = Mean.of(held_out_gaps(players, as_tables(games), words, rounds, variety))
    results = {
        "steps": int(state.step),
        "held_out": score.value.round(6).tolist(),
        "error": score.error.round(6).tolist(),
        "measure": f"mean {gap_name(family.states)} after the last round on "
        f"{config.held_out:,} games that chose nothing",
        "best": np.asarray(state.best_value, np.float64).round(6).tolist(),
        "parameters": players.parameters,
    }
    files.save(players, run.path, config, described, results)
    write_text(run.path / files.CARD, files.model_card(described, config, results))
    arrays = {name: np.array([row[name] for row in metrics]) for name in ("step", "gap", "loss")}
    rows = [(r["step"], float(np.mean(r["loss"])), float(np.mean(r["gap"]))) for r in metrics]
    scalars = {
        "steps": results["steps"],
        "gap on fresh games": float(score.value.mean()),
        "best held-out value": float(np.mean(results["best"])),
    }
    shutil.rmtree(run.path / BEST, ignore_errors=True)  # of an interruption, now outdone
    run.finish(
        Record(
            "pretrain", run.config, scalars, arrays, {"curve": Table(("step", "loss", "gap"), rows)}
        )
    )


@overload
def sweep(
    families: Sequence[Family],
    config: Config,
    *,
    key: Any,
    training_games: Sequence[int] | None = None,
) -> list[Players]: ...


@overload
def sweep(
    families: Sequence[Family],
    config: Sequence[Config],
    *,
    key: Any,
    training_games: Sequence[int] | None = None,
) -> list[list[Players]]: ...


def sweep(
    families: Sequence[Family],
    config: Config | Sequence[Config],
    *,
    key: Any,
    training_games: Sequence[int] | None = None,
) -> list[Players] | list[list[Players]]:
    """Train players on each of several families of one shape, all in one compiled program.

    On an accelerator all are trained at once, on a CPU one after the other. Family `i` is trained
    with the key `fold_in(key, i)`; the players are those after `config.steps` steps: there is no
    early stopping, no run folder, and no weight is chosen by its held-out value. What families
    differ in must be numbers: draw them with the same function.

    Several configs, which may differ in the size of their models and in whatever else but `steps`
    and `play_ahead`, give a list of players for each of them, with the same keys.

    `training_games` gives each family a training set of its own size, in place of the config's.

    **Example**

    >>> import equipoise as eq
    >>> base = eq.games.families.uniform(actions=2).sample(key=0)
    >>> near = [eq.games.families.perturbed(base, scale) for scale in (0.1, 0.3)]
    >>> tiny = eq.incontext.Config(
    ...     rounds=4, layers=1, width=8, hidden=8, steps=4, batch=2, warmup=0, held_out=4
    ... )
    >>> [players.actions for players in eq.incontext.sweep(near, tiny, key=0)]
    [(2, 2), (2, 2)]

    Models of two sizes:

    >>> from dataclasses import replace
    >>> sizes = [tiny, replace(tiny, width=16)]
    >>> (narrow,), (wide,) = eq.incontext.sweep(near[:1], sizes, key=0)
    >>> narrow.parameters < wide.parameters
    True
    """
    if not families:
        raise InputError("families", "at least one", "none")
    if training_games is not None and len(training_games) != len(families):
        expected = f"one number for each of the {len(families)} families"
        raise InputError("training_games", expected, len(training_games))
    given: list[Any] = list(config) if isinstance(config, list | tuple) else [config]
    configs, base = [check_config(own, Config) for own in given], as_key(key)
    if not configs:
        raise InputError("config", "at least one", "none")
    for name in ("steps", "play_ahead"):
        values = [getattr(own, name) for own in configs]
        if len(set(values)) > 1:
            raise InputError("config", f"the same {name} in all configs", values)
    keys = [jax.random.fold_in(base, i) for i in range(len(families))]
    groups = [_group(families, own, training_games, keys) for own in configs]
    if jax.default_backend() == "cpu":
        found = [[_alone(t, own) for t, own in zip(g, keys, strict=True)] for g in groups]
    else:
        found = _together(groups, keys)
    for i, players in ((i, one) for some in found for i, one in enumerate(some)):
        if not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(players.models)):
            warnings.warn(  # the players of others are of use, and took as long
                f"families[{i}]: training did not stay finite, and its players are of no use; "
                "try a smaller learning_rate",
                stacklevel=2,
            )
    return found if isinstance(config, list | tuple) else found[0]


def _group(
    families: Sequence[Family],
    config: Config,
    training_games: Sequence[int] | None,
    keys: list[jax.Array],
) -> list[Trainer]:
    """The trainers of one config, which share a program."""
    sizes = [config.training_games] * len(families) if training_games is None else training_games
    made = [_trainer(f, config, n, k) for f, n, k in zip(families, sizes, keys, strict=True)]
    trainers = _equal_sets(made)
    _check_alike(trainers)
    return trainers


def _trainer(family: Family, config: Config, size: int | None, key: jax.Array) -> Trainer:
    """A trainer in which all that may differ between families is arrays."""

    def traced(leaf: Any) -> Any:
        return np.asarray(leaf) if isinstance(leaf, float) else leaf

    trainer, _ = prepare(family, replace(config, training_games=size), key)
    bare = eqx.tree_at(lambda f: f.base, family, None, is_leaf=lambda leaf: leaf is None)
    bare = jax.tree.map(traced, bare)
    return Trainer(trainer.players, bare, trainer.games, config, trainer.backend)


def _equal_sets(trainers: list[Trainer]) -> list[Trainer]:
    """Training sets of one size: each repeated, which leaves the chance of each game as it is."""
    sizes = [t.games.tables.games for t in trainers if t.games is not None]
    if len(sizes) < len(trainers):
        return trainers
    every = jnp.arange(math.lcm(*sizes))
    return [
        eqx.tree_at(lambda t: t.games, trainer, trainer.games.some(every % size))
        for trainer, size in zip(trainers, sizes, strict=True)
        if trainer.games is not None
    ]


def _alone(trainer: Trainer, key: jax.Array) -> Players:
    """One after the other: the same program serves all."""
    learned = trainer.start()
    with progress("training", total=trainer.config.steps) as bar:
        for step in range(0, trainer.config.steps, trainer.config.play_ahead):
            learned, metrics = run_cycle(trainer, learned, step_key(key, step))
            bar.advance(trainer.config.play_ahead, loss=float(np.mean(metrics["loss"])))
    return trainer.players.with_models(learned.models)


def _together(groups: list[list[Trainer]], keys: list[jax.Array]) -> list[list[Players]]:
    """All at once: one more axis for the families of a config, and configs side by side."""
    config = groups[0][0].config
    stacked = tuple(_stack(trainers) for trainers in groups)
    learned = tuple(_stack([trainer.start() for trainer in trainers]) for trainers in groups)
    count = sum(map(len, groups))
    with progress(f"training {count} pairs", total=config.steps) as bar:
        for step in range(0, config.steps, config.play_ahead):
            own = jnp.stack([step_key(key, step) for key in keys])
            learned, losses = _cycles(stacked, learned, own)
            bar.advance(config.play_ahead, loss=float(np.mean([np.mean(loss) for loss in losses])))
    return [
        [trainer.players.with_models(pick(own.models, i)) for i, trainer in enumerate(trainers)]
        for trainers, own in zip(groups, learned, strict=True)
    ]


@eqx.filter_jit(donate="all-except-first")
def _cycles(
    groups: tuple[Trainer, ...], learned: tuple[Learned, ...], keys: jax.Array
) -> tuple[tuple[Learned, ...], tuple[Any, ...]]:
    """A cycle of everybody, and the losses of each config."""
    every = eqx.filter_vmap(Trainer.cycle)
    found = [every(trainers, own, keys) for trainers, own in zip(groups, learned, strict=True)]
    return tuple(after for after, _ in found), tuple(metrics["loss"] for _, metrics in found)


def _stack(trees: Sequence[Any]) -> Any:
    """One tree whose arrays have one more axis, in front; whatever else must be the same."""
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)


def _check_alike(trainers: list[Trainer]) -> None:
    """Refuse families that cannot share a program."""

    def shape(trainer: Trainer) -> Any:
        leaves, tree = jax.tree.flatten(trainer)
        return tree, [np.shape(leaf) for leaf in leaves]

    first = shape(trainers[0])
    for i, trainer in enumerate(trainers):
        if shape(trainer) != first:
            raise ValueError(
                f"families[{i}]: expected one of the shape and kind of families[0] "
                f"({trainers[0].family.name}), found {trainer.family.name} "
                f"with {trainer.family.actions} actions"
            )
