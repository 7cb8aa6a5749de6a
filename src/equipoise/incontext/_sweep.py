"""Pre-train on several families of games, with models of several sizes, in one program."""

import math
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, overload

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from equipoise.core import InputError
from equipoise.core.errors import named_arguments
from equipoise.core.randomness import as_key
from equipoise.games.families import Family
from equipoise.incontext._config import Config, check_config
from equipoise.incontext._players import Players, pick
from equipoise.incontext._step import Learned, Trainer, run_cycle
from equipoise.incontext._train import prepare, step_key
from equipoise.runs import Run, resumable


@overload
def sweep(
    families: Sequence[Family],
    config: Config,
    *,
    key: Any,
    training_games: Sequence[int] | None = None,
    run: Run | None = None,
) -> list[Players]: ...


@overload
def sweep(
    families: Sequence[Family],
    config: Sequence[Config],
    *,
    key: Any,
    training_games: Sequence[int] | None = None,
    run: Run | None = None,
) -> list[list[Players]]: ...


@named_arguments
def sweep(
    families: Sequence[Family],
    config: Config | Sequence[Config],
    *,
    key: Any,
    training_games: Sequence[int] | None = None,
    run: Run | None = None,
) -> list[Players] | list[list[Players]]:
    """Train players on each of several families of one shape, all in one compiled program.

    An accelerator trains all of them at once, a CPU one after the other. Family `i` is trained with
    the key `fold_in(key, i)`. The function returns the players after `config.steps` steps. Only the
    rule `stop_on="cross-entropy"` stops earlier, each family by itself, and no weights are selected
    by held-out values. Families may differ only in numbers, so create them with the same function.

    With several configs, the result is a list of players for each config, trained with the same
    keys. Configs may differ in the size of their models and in everything else except `steps`,
    `play_ahead` and `reuse`.

    `training_games` sets the size of each family's training set and overrides the config.

    `run` is an open run folder whose config describes the sweep. It receives checkpoints, and a
    sweep that was stopped resumes from the last one. Ctrl-C raises `KeyboardInterrupt` after the
    current cycle.

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
    for name in ("steps", "play_ahead", "reuse"):
        values = [getattr(own, name) for own in configs]
        if len(set(values)) > 1:
            raise InputError("config", f"the same {name} in all configs", values)
    keys = [jax.random.fold_in(base, i) for i in range(len(families))]
    groups = [_group(families, own, training_games, keys) for own in configs]
    train = _one_by_one if jax.default_backend() == "cpu" else _together
    found = train(groups, keys, run)
    for i, players in ((i, one) for some in found for i, one in enumerate(some)):
        if not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(players.models)):
            warnings.warn(  # the players of other families are usable, and took as long to train
                f"families[{i}]: training did not stay finite, and its players are unusable; "
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
    """Return the trainers of one config, which share a compiled program."""
    sizes = [config.training_games] * len(families) if training_games is None else training_games
    made = [_trainer(f, config, n, k) for f, n, k in zip(families, sizes, keys, strict=True)]
    trainers = _equal_sets(made)
    _check_alike(trainers)
    return trainers


def _trainer(family: Family, config: Config, size: int | None, key: jax.Array) -> Trainer:
    """Return a trainer in which everything that differs between families is an array."""

    def traced(leaf: Any) -> Any:
        return np.asarray(leaf) if isinstance(leaf, float) else leaf

    trainer, _ = prepare(family, replace(config, training_games=size), key)
    bare = eqx.tree_at(lambda f: f.base, family, None, is_leaf=lambda leaf: leaf is None)
    bare = jax.tree.map(traced, bare)
    return Trainer(trainer.players, bare, trainer.games, config, trainer.backend)


def _equal_sets(trainers: list[Trainer]) -> list[Trainer]:
    """Repeat training sets to one common size, which keeps the probability of each game."""
    sizes = [t.games.tables.games for t in trainers if t.games is not None]
    if len(sizes) < len(trainers):
        return trainers
    every = jnp.arange(math.lcm(*sizes))
    return [
        eqx.tree_at(lambda t: t.games, trainer, trainer.games.some(every % size))
        for trainer, size in zip(trainers, sizes, strict=True)
        if trainer.games is not None
    ]


def _one_by_one(
    groups: list[list[Trainer]], keys: list[jax.Array], run: Run | None = None
) -> list[list[Players]]:
    """Train one family after the other; all families of a config share a compiled program."""
    pairs = [pair for trainers in groups for pair in zip(trainers, keys, strict=True)]
    cycles = _cycle_count(groups)

    def advance(learned: list[Learned], step: int, until: int) -> tuple[Any, dict[str, Any]]:
        which, cycle = divmod(step, cycles)
        trainer, key = pairs[which]
        key = step_key(key, cycle * trainer.config.cycle, trainer.config)
        after, metrics = run_cycle(trainer, learned[which], key)
        rest = learned[which + 1 :]
        return [*learned[:which], after, *rest], {"loss": float(np.mean(metrics["loss"]))}

    first = [trainer.start() for trainer, _ in pairs]
    learned = iter(_all_cycles(run, first, advance, cycles * len(pairs), len(pairs)))
    return [[t.players.with_models(next(learned).models) for t in group] for group in groups]


def _together(
    groups: list[list[Trainer]], keys: list[jax.Array], run: Run | None = None
) -> list[list[Players]]:
    """Train everything at once: the families of a config on one more axis, configs in parallel."""
    stacked = tuple(_stack(trainers) for trainers in groups)

    def advance(learned: Any, step: int, until: int) -> tuple[Any, dict[str, Any]]:
        done = step * groups[0][0].config.cycle
        configs = [trainers[0].config for trainers in groups]
        own = tuple(jnp.stack([step_key(key, done, one) for key in keys]) for one in configs)
        learned, losses = _cycles(stacked, learned, own)
        return learned, {"loss": float(np.mean([np.mean(loss) for loss in losses]))}

    first = tuple(_stack([trainer.start() for trainer in trainers]) for trainers in groups)
    learned = _all_cycles(run, first, advance, _cycle_count(groups), sum(map(len, groups)))
    return [
        [trainer.players.with_models(pick(own.models, i)) for i, trainer in enumerate(trainers)]
        for trainers, own in zip(groups, learned, strict=True)
    ]


def _cycle_count(groups: list[list[Trainer]]) -> int:
    config = groups[0][0].config
    return -(-config.steps // config.cycle)


def _all_cycles(run: Run | None, first: Any, advance: Any, total: int, pairs: int) -> Any:
    """Run all cycles of a sweep and return the final state."""
    reached = resumable(run, first, advance, total, name=f"training {pairs} pairs")
    if reached.step < total:
        raise KeyboardInterrupt
    return reached.state


@eqx.filter_jit(donate="all-except-first")
def _cycles(
    groups: tuple[Trainer, ...], learned: tuple[Learned, ...], keys: tuple[jax.Array, ...]
) -> tuple[tuple[Learned, ...], tuple[Any, ...]]:
    """Run one cycle of all trainers; return their states and the losses of each config."""
    every = eqx.filter_vmap(Trainer.cycle)
    found = [every(*one) for one in zip(groups, learned, keys, strict=True)]
    return tuple(after for after, _ in found), tuple(metrics["loss"] for _, metrics in found)


def _stack(trees: Sequence[Any]) -> Any:
    """Stack the arrays of trees on a new leading axis; everything else must be equal."""
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)


def _check_alike(trainers: list[Trainer]) -> None:
    """Raise unless the families can share a compiled program."""

    def shape(trainer: Trainer) -> Any:
        leaves, tree = jax.tree.flatten(trainer)
        return tree, [np.shape(leaf) for leaf in leaves]

    first = shape(trainers[0])
    for i, trainer in enumerate(trainers):
        if shape(trainer) != first:
            raise ValueError(
                f"families[{i}]: expected the shape and kind of families[0] "
                f"({trainers[0].family.name}), found {trainer.family.name} "
                f"with {trainer.family.actions} actions"
            )
