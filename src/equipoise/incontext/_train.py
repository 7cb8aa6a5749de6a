"""Pre-training: the loop around the compiled step."""

import os
import shutil
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from equipoise.core.files import write_text
from equipoise.core.randomness import as_key
from equipoise.core.streams import game_words
from equipoise.dynamics import Mean
from equipoise.dynamics.loop import Tables
from equipoise.games.families import Family
from equipoise.incontext._config import Config, check_config
from equipoise.incontext._contexts import as_tables, check_learners, solved
from equipoise.incontext._files import (
    CARD,
    describe_family,
    fingerprint,
    load,
    model_card,
    save,
)
from equipoise.incontext._losses import gap_name
from equipoise.incontext._model import Transformer
from equipoise.incontext._players import Players, initial_players
from equipoise.incontext._step import (
    Learned,
    Trainer,
    TrainingSet,
    held_out_divergence,
    held_out_gaps,
    run_cycle,
)
from equipoise.runs import Reached, Record, Run, Table, resumable

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

    tables: Tables
    words: Any
    #: (2, games, ..., actions), where the divergence from them decides.
    equilibria: jax.Array | None
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
    described = describe_family(family)
    if run is None:
        return _with(trainer.players, _chosen(_train(trainer, held_out, key, None).state))
    plain = {
        "family": described,
        "config": config,
        "key": np.asarray(jax.random.key_data(key)),
        "start": None if start is None else fingerprint(start),
    }
    with Run.start(run, plain) as folder:
        if folder.finished:
            return load(run)
        reached = _train(trainer, held_out, key, folder)
        players = _with(trainer.players, _chosen(reached.state))
        if reached.stopped:
            save(players, folder.path / BEST, config, described)
        else:
            _finish(folder, players, trainer, described, reached.state, key)
        return players


def prepare(family: Family, config: Config, key: jax.Array) -> tuple[Trainer, HeldOut]:
    """The trainer and the held-out games; refuses before any work what cannot be trained."""
    players = initial_players(family, config, key=jax.random.fold_in(key, _WEIGHTS))
    check_learners(config, family.states)
    needs_equilibria = config.loss == "expert" and config.expert != "omd"
    drawn, games = training_games(family, config, key), None
    if drawn is not None:
        games = TrainingSet(as_tables(drawn), solved(drawn) if needs_equilibria else None)
    elif needs_equilibria and family.states is not None:
        raise ValueError(
            "training_games: expected a number when the expert is the equilibrium of Markov games "
            "(they are solved beforehand), found None"
        )
    trainer = Trainer(players, family, games, config, jax.default_backend())
    held_key = jax.random.fold_in(key, _HELD_OUT)
    held, words = _unseen(family, config, held_key)
    known = needs_equilibria and config.stop_on == "kl"
    labels = solved(held) if known else None
    return trainer, HeldOut(as_tables(held), words, labels, jax.random.fold_in(held_key, 2))


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
        raise ValueError(f"start: expected Players, found {type(start).__name__}")
    sizes = [jax.tree.map(jnp.shape, eqx.filter(p.models, eqx.is_array)) for p in (players, start)]
    if sizes[0] != sizes[1] or start.tokens != players.tokens:
        raise ValueError(
            "start: expected players with the sizes, tokens and seeds of the config, "
            f"found {start.seeds} x {start.seats} models of {start.parameters} weights "
            f"instead of {players.seeds} x {players.seats} of {players.parameters}"
        )


def _train(trainer: Trainer, held_out: HeldOut, key: jax.Array, run: Run | None) -> Reached:
    """Cycles until the last step, a rule that ends training, or Ctrl-C."""
    config = trainer.config

    def cycle(state: Progress, step: int, until: int) -> tuple[Progress, dict[str, np.ndarray]]:
        learned, metrics = run_cycle(trainer, state.learned, step_key(key, step))
        state = eqx.tree_at(lambda s: (s.learned, s.step), state, (learned, jnp.int32(until)))
        row = {name: np.asarray(value).mean(1) for name, value in metrics.items()}
        _check_finite(config, until, row)
        if step // config.evaluate_every != until // config.evaluate_every or until >= config.steps:
            state, found = _evaluate(trainer, held_out, state)
            largest = _largest(state.learned.models)
            _check_finite(config, until, {**found, "the largest weight": largest})
            row = {**found, **row}
        return state, row

    stride = config.play_ahead
    return resumable(
        run,
        _first(trainer),
        cycle,
        total=-(-config.steps // stride) * stride,
        name="pre-training",
        stride=stride,
        ended=lambda state: _ended(config, state),
    )


def _first(trainer: Trainer) -> Progress:
    seeds = trainer.players.seeds
    copy = jax.tree.map(lambda x: x.copy() if eqx.is_array(x) else x, trainer.players.models)
    return Progress(trainer.start(), copy, jnp.full(seeds, jnp.inf), jnp.int32(0), jnp.int32(0))


def _ended(config: Config, state: Progress) -> bool:
    if config.patience is not None and int(state.stale) >= config.patience:
        return True
    return config.stop_below is not None and bool((state.best_value < config.stop_below).all())


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
    leaves = jax.tree.leaves(eqx.filter(models, eqx.is_inexact_array))
    by_seed = [np.abs(np.asarray(leaf)).reshape(len(leaf), -1).max(1) for leaf in leaves]
    return np.max(by_seed, axis=0)


def _evaluate(
    trainer: Trainer, held_out: HeldOut, state: Progress
) -> tuple[Progress, dict[str, np.ndarray]]:
    """Play the held-out games; keep the weights of the seeds that are better than ever."""
    models, tables = state.learned.models, held_out.tables
    players = _with(trainer.players, models)
    gaps = held_out_gaps(players, tables, held_out.words, trainer.config.rounds)
    found = {"gap": np.asarray(gaps).mean(1)}
    if trainer.config.stop_on == "kl":
        apart = held_out_divergence(trainer, models, tables, held_out.equilibria, held_out.key)
        found["held_out_kl"] = np.asarray(apart)
    value = jnp.asarray(found.get("held_out_kl", found["gap"]), jnp.float32)
    better = value < state.best_value

    def keep(new: Any, old: Any) -> Any:
        if not eqx.is_array(new):
            return new
        return jnp.where(better.reshape(-1, *(1,) * (new.ndim - 1)), new, old)

    best = jax.tree.map(keep, state.learned.models, state.best)
    stale = jnp.where(better.any(), 0, state.stale + 1).astype(jnp.int32)
    state = Progress(
        state.learned, best, jnp.where(better, value, state.best_value), stale, state.step
    )
    return state, found


def _with(players: Players, models: Transformer) -> Players:
    return eqx.tree_at(lambda p: p.models, players, models)


def _score(trainer: Trainer, players: Players, key: jax.Array) -> Mean:
    """Of the gap after the last round on games that chose nothing, for every seed."""
    games, words = _unseen(trainer.family, trainer.config, jax.random.fold_in(key, _SCORE))
    return Mean.of(held_out_gaps(players, as_tables(games), words, trainer.config.rounds))


def _unseen(family: Family, config: Config, key: jax.Array) -> tuple[Any, Any]:
    """As many games as are held out, and the random words with which they are played."""
    games = family.sample(config.held_out, key=key)
    return games, game_words(jax.random.split(jax.random.fold_in(key, 1), config.held_out))


def _finish(
    run: Run,
    players: Players,
    trainer: Trainer,
    described: dict[str, Any],
    state: Progress,
    key: jax.Array,
) -> None:
    """Write the players, the model card and the record."""
    config = trainer.config
    # The loss is logged in every cycle, the gap where it was found out.
    metrics = [row for row in run.metrics() if "gap" in row]
    score = _score(trainer, players, key)
    results = {
        "steps": int(state.step),
        "held_out": score.value.round(6).tolist(),
        "error": score.error.round(6).tolist(),
        "measure": f"mean {gap_name(trainer.family.states)} after the last round on "
        f"{config.held_out:,} games that chose nothing",
        "best": np.asarray(state.best_value, np.float64).round(6).tolist(),
        "parameters": players.parameters,
    }
    save(players, run.path, config, described, results)
    write_text(run.path / CARD, model_card(described, config, results))
    arrays = {name: np.array([row[name] for row in metrics]) for name in ("step", "gap", "loss")}
    table = Table(
        ("step", "loss", "gap"),
        [(r["step"], float(np.mean(r["loss"])), float(np.mean(r["gap"]))) for r in metrics],
    )
    scalars = {
        "steps": results["steps"],
        "gap on fresh games": float(score.value.mean()),
        "best held-out value": float(np.mean(results["best"])),
    }
    shutil.rmtree(run.path / BEST, ignore_errors=True)  # of an interruption, now outdone
    run.finish(Record("pretrain", run.config, scalars, arrays, {"curve": table}))
