"""Pre-train players: the loop around the compiled training step."""

import os
import shutil
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from equipoise.core import InputError
from equipoise.core.devices import from_first_process
from equipoise.core.errors import named_arguments
from equipoise.core.files import write_text
from equipoise.core.randomness import as_key
from equipoise.core.streams import game_words
from equipoise.dynamics import Mean
from equipoise.games.families import Family
from equipoise.incontext import _files as files
from equipoise.incontext._config import Config, check_config, check_play
from equipoise.incontext._contexts import as_tables, check_learners, gap_name, solved
from equipoise.incontext._model import Transformer
from equipoise.incontext._players import Players, initial_players
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
from equipoise.runs import Reached, Record, Run, Table, resumable

#: Subfolder of a run that holds the best players so far when training is interrupted.
BEST = "best-so-far"

#: Numbers that are folded into the given key, one per purpose.
_WEIGHTS, _SET, _HELD_OUT, _STEPS, _SCORE = range(5)


class Progress(eqx.Module):
    """State of training. Together with the config and the key it determines all further steps."""

    learned: Learned
    #: Weights with the best held-out value so far, for every seed.
    best: Transformer
    #: (seeds,): best held-out value so far.
    best_value: jax.Array
    #: Number of evaluations since any seed improved.
    stale: jax.Array
    #: Number of updates made.
    step: jax.Array


class HeldOut(eqx.Module):
    """Held-out games, and the random numbers with which they are played."""

    #: The games, with their equilibria if `stop_on` is the divergence from them.
    games: TrainingSet
    words: Any
    key: jax.Array


@named_arguments
def pretrain(
    family: Family,
    config: Config | None = None,
    *,
    key: Any,
    run: str | os.PathLike[str] | None = None,
    start: Players | None = None,
) -> Players:
    """Train players on a family of games; they then play any game of it with frozen weights.

    With `run`, everything is written to a run folder: the config, metrics during training,
    checkpoints, and at the end the players, a record and a model card. If the run was stopped, the
    same call resumes it and ends with the same weights, bit for bit (on the same kind of machine),
    as an uninterrupted run. Ctrl-C returns the best players so far, and keeps them in the
    subfolder `best-so-far` of the run.

    With `start`, training begins with the weights of those players instead of random weights. Use
    it to continue training, or to adapt players to another family of the same shape.

    Training keeps the weights with the best held-out value: the NashConv after the last round on
    games that training never sees, or the divergence from the expert. In Markov games, NashConv in
    training is scaled: a mean over states, times `1 - discount`. It is smaller than the `nash_conv`
    of `evaluate`, which measures discounted sums in each player's worst state.

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
        return trainer.players.with_models(_chosen(found, config))
    plain = {
        "family": described,
        "config": config,
        "key": np.asarray(jax.random.key_data(key)),
        "start": None if start is None else files.fingerprint(start),
    }
    # With several processes the first one writes the folder, and sends its content to the others.
    leads = jax.process_index() == 0
    with Run.start(run, plain) if leads else nullcontext() as folder:
        if from_first_process(folder is not None and folder.finished):
            found = files.load(run) if leads else trainer.players
            return found.with_models(from_first_process(found.models))
        reached = _train(trainer, family, config, held_out, key, folder)
        players = trainer.players.with_models(_chosen(reached.state, config))
        if folder is None:
            return players
        if reached.stopped:
            files.save(players, folder.path / BEST, config, described)
        else:
            _finish(folder, players, family, config, described, reached.state, key)
        return players


def prepare(family: Family, config: Config, key: jax.Array) -> tuple[Trainer, HeldOut]:
    """Return the trainer and the held-out games; raise early if training is impossible."""
    check_play(config)
    players = initial_players(family, config, key=jax.random.fold_in(key, _WEIGHTS))
    check_learners(config, family.states)
    needs_equilibria = config.needs_equilibria
    drawn, games = training_games(family, config, key), None
    if drawn is not None:
        games = training_set(drawn, needs_equilibria)
    elif needs_equilibria and family.states is not None:
        raise ValueError(
            "training_games: expected a number when the expert is the equilibrium of Markov games "
            "(which are solved in advance), found None"
        )
    trainer = stage_trainer(players, family, games, config)
    held_key = jax.random.fold_in(key, _HELD_OUT)
    held, words, variety = _unseen(family, config, held_key)
    unseen = training_set(held, needs_equilibria and config.stop_on == "kl", variety)
    return trainer, HeldOut(unseen, words, jax.random.fold_in(held_key, 2))


def stage_trainer(
    players: Players, family: Family, games: TrainingSet | None, config: Config, stage: int = 0
) -> Trainer:
    """Return the trainer of one stage of a config."""
    own, total = config.staged()[stage], jnp.float32(config.total_steps)
    if own.largest is not None:
        if getattr(family.rewards, "fewest", None) is None:
            raise InputError("largest", "None for a family of games of one size", own.largest)
        family = eqx.tree_at(
            lambda f: f.rewards, family, replace(family.rewards, largest=own.largest)
        )
    return Trainer(players, family, games, own, jax.default_backend(), total=total)


def training_set(games: Any, with_equilibria: bool, variety: Any = None) -> TrainingSet:
    """Return games as arrays, with their equilibria if needed."""
    return TrainingSet(as_tables(games), solved(games) if with_equilibria else None, variety)


def training_games(family: Family, config: Config, key: jax.Array) -> Any:
    """Draw the games of the training set; None if every step draws new games."""
    if config.training_games is None:
        return None
    return family.sample(config.training_games, key=jax.random.fold_in(key, _SET))


def step_key(key: jax.Array, step: int, config: Config) -> jax.Array:
    """Return the key of the cycle that begins after `step` updates, the same for fixed data."""
    return jax.random.fold_in(jax.random.fold_in(key, _STEPS), 0 if config.fixed_data else step)


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
    """Run cycles until the last step of the last stage, a stopping rule, or Ctrl-C."""
    stride, total, stages = config.cycle, config.total_steps, config.staged()
    ends = np.cumsum([-(-stage.steps // stride) * stride for stage in stages])

    def trainer_at(step: int) -> Trainer:
        stage = int(np.searchsorted(ends, step, side="right"))
        return stage_trainer(trainer.players, family, trainer.games, config, stage)

    def cycle(state: Progress, step: int, until: int) -> tuple[Progress, dict[str, np.ndarray]]:
        learned, metrics = run_cycle(trainer_at(step), state.learned, step_key(key, step, config))
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
        if state.learned.stopped is not None:
            return bool(state.learned.stopped.all())
        if config.patience is not None and int(state.stale) >= config.patience:
            return True
        return config.stop_below is not None and bool((state.best_value < config.stop_below).all())

    none = jnp.full(trainer.players.seeds, jnp.inf)
    best = copied(trainer.players.models)
    first = Progress(trainer.start(), best, none, jnp.int32(0), jnp.int32(0))
    return resumable(run, first, cycle, total, name="pre-training", stride=stride, ended=ended)


def _chosen(state: Progress, config: Config) -> Transformer:
    """Return the weights with the best held-out value, or the latest if none was asked for."""
    evaluated = bool(jnp.isfinite(state.best_value).any())
    latest = config.stop_on == "cross-entropy" or not evaluated
    return state.learned.models if latest else state.best


def _check_finite(config: Config, step: int, found: dict[str, np.ndarray]) -> None:
    """Raise if a metric or weight is not finite, before anything is saved."""
    for name, values in found.items():
        if not np.isfinite(values).all():
            seed = int(np.argmin(np.isfinite(values)))
            raise ValueError(
                f"learning_rate: expected a rate at which training stays finite, found "
                f"{config.learning_rate:g}: {name} of seed {seed} is {values[seed]} "
                f"after {step:,} steps"
            )


def _largest(models: Transformer) -> np.ndarray:
    """(seeds,): the largest absolute weight, or NaN if any weight is NaN."""
    leaves = jax.tree.leaves(models)
    by_seed = [np.abs(np.asarray(leaf)).reshape(len(leaf), -1).max(1) for leaf in leaves]
    return np.max(by_seed, axis=0)


def _evaluate(
    trainer: Trainer, config: Config, held_out: HeldOut, state: Progress
) -> tuple[Progress, dict[str, np.ndarray]]:
    """Play the held-out games, and keep the weights of the seeds that improved."""
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
    """Draw `config.held_out` games, the random words with which they are played, and variety."""
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
    # The loss is logged in every cycle, the gap only at evaluations.
    metrics = [row for row in run.metrics() if "gap" in row]
    games, words, variety = _unseen(family, config, jax.random.fold_in(key, _SCORE))
    rounds = config.staged()[-1].rounds
    score = Mean.of(held_out_gaps(players, as_tables(games), words, rounds, variety))
    results = {
        "steps": int(state.step),
        "held_out": score.value.round(6).tolist(),
        "error": score.error.round(6).tolist(),
        "measure": f"mean {gap_name(family.states)} after the last round on "
        f"{config.held_out:,} games that did not select the weights",
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
    shutil.rmtree(run.path / BEST, ignore_errors=True)  # left by an interruption
    run.finish(
        Record(
            "pretrain", run.config, scalars, arrays, {"curve": Table(("step", "loss", "gap"), rows)}
        )
    )
