"""Many pairs of players, trained in one compiled program."""

import math
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, overload

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from equipoise.core.randomness import as_key
from equipoise.games.families import Family
from equipoise.incontext._config import Config, check_config
from equipoise.incontext._players import Players
from equipoise.incontext._step import Learned, Trainer, TrainingSet, run_cycle
from equipoise.incontext._train import prepare, step_key
from equipoise.runs import progress


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
        raise ValueError("families: expected at least one, found none")
    if training_games is not None and len(training_games) != len(families):
        raise ValueError(
            f"training_games: expected one number for each of the {len(families)} families, "
            f"found {len(training_games)}"
        )
    given: list[Any] = list(config) if isinstance(config, list | tuple) else [config]
    configs, base = [check_config(own, Config) for own in given], as_key(key)
    _check_in_step(configs)
    keys = [jax.random.fold_in(base, i) for i in range(len(families))]
    groups = [_group(families, own, training_games, keys) for own in configs]
    if jax.default_backend() == "cpu":
        found = [[_alone(t, own) for t, own in zip(g, keys, strict=True)] for g in groups]
    else:
        found = _together(groups, keys)
    for own, players in zip(configs, found, strict=True):
        _warn_of_endless(players, own)
    return found if isinstance(config, list | tuple) else found[0]


def _check_in_step(configs: list[Config]) -> None:
    """Refuse configs that cannot be trained in step."""
    if not configs:
        raise ValueError("config: expected at least one, found none")
    for name in ("steps", "play_ahead"):
        values = [getattr(config, name) for config in configs]
        if len(set(values)) > 1:
            raise ValueError(f"config: expected the same {name} in all configs, found {values}")


def _group(
    families: Sequence[Family],
    config: Config,
    training_games: Sequence[int] | None,
    keys: list[jax.Array],
) -> list[Trainer]:
    """The trainers of one config, which share a program."""
    sizes = [config.training_games] * len(families) if training_games is None else training_games
    trainers = [
        _trainer(family, config, size, own)
        for family, size, own in zip(families, sizes, keys, strict=True)
    ]
    trainers = _equal_sets(trainers)
    _check_alike(trainers)
    return trainers


def _warn_of_endless(found: list[Players], config: Config) -> None:
    """Say whose weights are of no use; those of the others are, and took as long."""
    for i, players in enumerate(found):
        weights = jax.tree.leaves(eqx.filter(players.models, eqx.is_inexact_array))
        if not all(np.isfinite(leaf).all() for leaf in map(np.asarray, weights)):
            warnings.warn(
                f"families[{i}]: training did not stay finite, and its players are of no use; "
                f"learning_rate was {config.learning_rate:g}",
                stacklevel=3,
            )


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
    sets = [trainer.games for trainer in trainers]
    if any(games is None for games in sets):
        return trainers
    sizes = [games.tables.games for games in sets if games is not None]
    length = math.lcm(*sizes)

    def repeat(games: TrainingSet, size: int) -> TrainingSet:
        index = jnp.arange(length) % size
        known = games.equilibria
        return TrainingSet(games.tables.some(index), None if known is None else known[:, index])

    return [
        eqx.tree_at(lambda t: t.games, trainer, repeat(games, size))
        for trainer, games, size in zip(trainers, sets, sizes, strict=True)
        if games is not None
    ]


def _alone(trainer: Trainer, key: jax.Array) -> Players:
    """One after the other: the same program serves all."""
    learned = trainer.start()
    with progress("training", total=trainer.config.steps) as bar:
        for step in range(0, trainer.config.steps, trainer.config.play_ahead):
            learned, metrics = run_cycle(trainer, learned, step_key(key, step))
            bar.advance(trainer.config.play_ahead, loss=float(np.mean(metrics["loss"])))
    return eqx.tree_at(lambda p: p.models, trainer.players, learned.models)


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
        [
            eqx.tree_at(lambda p: p.models, trainer.players, _pick(own.models, i))
            for i, trainer in enumerate(trainers)
        ]
        for trainers, own in zip(groups, learned, strict=True)
    ]


@eqx.filter_jit(donate="all-except-first")
def _cycles(
    groups: tuple[Trainer, ...], learned: tuple[Learned, ...], keys: jax.Array
) -> tuple[tuple[Learned, ...], tuple[Any, ...]]:
    """A cycle of everybody, and the losses of each config."""
    found = [_cycle(trainers, own, keys) for trainers, own in zip(groups, learned, strict=True)]
    after, losses = zip(*found, strict=True)
    return after, losses


def _cycle(trainers: Trainer, learned: Learned, keys: jax.Array) -> tuple[Learned, Any]:
    arrays, static = eqx.partition((trainers, learned), eqx.is_array)

    def one(arrays: Any, key: jax.Array) -> tuple[Any, Any]:
        trainer, learned = eqx.combine(arrays, static)
        after, metrics = trainer.cycle(learned, key)
        return eqx.filter(after, eqx.is_array), metrics["loss"]

    after, loss = jax.vmap(one)(arrays, keys)
    return eqx.combine(after, static[1]), loss


def _stack(trees: Sequence[Any]) -> Any:
    """One tree whose arrays have one more axis, in front; whatever else must be the same."""
    arrays, static = zip(*(eqx.partition(tree, eqx.is_array) for tree in trees), strict=True)
    return eqx.combine(jax.tree.map(lambda *leaves: jnp.stack(leaves), *arrays), static[0])


def _check_alike(trainers: list[Trainer]) -> None:
    """Refuse families that cannot share a program."""

    def shape(trainer: Trainer) -> Any:
        arrays, static = eqx.partition(trainer, eqx.is_array)
        leaves, tree = jax.tree.flatten(jax.tree.map(np.shape, arrays), lambda x: x == ())
        return leaves, tree, *jax.tree.flatten(static)

    first = shape(trainers[0])
    for i, trainer in enumerate(trainers):
        if shape(trainer) != first:
            raise ValueError(
                f"families[{i}]: expected one of the shape and kind of families[0] "
                f"({trainers[0].family.name}), found {trainer.family.name} "
                f"with {trainer.family.actions} actions"
            )


def _pick(tree: Any, index: int) -> Any:
    return jax.tree.map(lambda leaf: leaf[index] if eqx.is_array(leaf) else leaf, tree)
