"""Training data as the in-context paper defines it: histories of play with an expert's answers.

Two context learners play a game uncoupled. Each player records its own actions and rewards (and the
states), and an expert gives the policy it would play before every round and after the last.
Training generates such data on the fly and keeps none of it. This module lets you inspect the data
batch by batch, and write it to a file for other programs.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np

from equipoise.core import InputError, checks
from equipoise.core.arrays import write_npz
from equipoise.core.errors import named_arguments
from equipoise.core.extras import import_extra
from equipoise.core.files import atomic_write
from equipoise.core.randomness import as_key
from equipoise.dynamics.loop import Tables
from equipoise.games import MarkovGame, MatrixGame
from equipoise.games.families import Family
from equipoise.incontext._config import Config, check_config
from equipoise.incontext._contexts import check_learners, sampled, solved
from equipoise.incontext._players import Players, check_players, initial_players, pick
from equipoise.incontext._step import Trainer
from equipoise.incontext._train import step_key, training_games, training_set

__all__ = ["Batch", "Dataset", "dataset"]

#: Number folded into the key with which labels are drawn that training does not use.
_LABELS = 90


@dataclass(frozen=True)
class Batch:
    """Games, the play in them, and the policies of an expert, as NumPy arrays.

    **Example**

    >>> import equipoise as eq
    >>> config = eq.incontext.Config.paper(rounds=8, batch=4)
    >>> data = eq.incontext.dataset(eq.games.families.uniform(3), config, games=4, key=0)
    >>> batch = data[0]
    >>> batch.actions.shape, batch.labels.shape
    ((4, 2, 8), (4, 2, 9, 3))
    """

    #: The games that were played.
    games: MatrixGame | MarkovGame
    #: (games,): index of the game in the training set, or in the data if games are newly drawn.
    number: np.ndarray
    #: (games, 2, rounds): actions of the row player and of the column player.
    actions: np.ndarray
    #: (games, 2, rounds): each player's own rewards, in [0, 1].
    rewards: np.ndarray
    #: (games, 2, rounds, actions): the policies played, at the state of the round.
    policies: np.ndarray
    #: (games, rounds + 1): states visited, or None in matrix games.
    states: np.ndarray | None
    #: (games, 2, rounds + 1, actions), or (..., states, actions): the expert's policy before every
    #: round and after the last. Sampled labels are one-hot.
    labels: np.ndarray


@named_arguments
def dataset(
    family: Family,
    config: Config | None = None,
    *,
    games: int,
    key: Any,
    players: Players | None = None,
) -> "Dataset":
    """Return the data that a config trains on: `games` games in batches of `config.batch`.

    Batch `i` is the batch of update `i` of `pretrain` with the same family, config and key (for the
    first seed): the same games, played with the same random numbers. Unless `config.contexts` is
    "learners", you must pass the `players` that play the contexts; training uses its players as
    they are at that update. If the config has no expert, labels are equilibria. Batches are
    computed on access, `config.play_ahead` of them at a time.

    **Example**

    >>> import equipoise as eq
    >>> family = eq.games.families.uniform(actions=3, states=2)
    >>> config = eq.incontext.Config.paper(rounds=8, batch=4, expert="omd")
    >>> data = eq.incontext.dataset(family, config, games=6, key=0)
    >>> [(len(batch.number), batch.labels.shape[2:]) for batch in data]
    [(4, (9, 2, 3)), (2, (9, 2, 3))]
    """
    config = check_config(config, Config.paper)
    if not isinstance(family, Family):
        raise InputError("family", "a Family of games", type(family).__name__)
    checks.check_count("games", games)
    check_learners(config, family.states)
    if config.contexts != "learners":
        if players is None:
            raise InputError("players", f"Players (contexts are {config.contexts!r})", None)
        check_players(players, family.sample(1, key=0))
    elif players is not None:
        raise InputError("players", "None (learners play all contexts)", "Players")
    return Dataset(family, config, games, as_key(key), players)


@dataclass(frozen=True, eq=False)
class Dataset:
    """Batches of training data, accessed by index or by iteration. Made by `dataset`.

    **Example**

    >>> import tempfile
    >>> import equipoise as eq
    >>> from equipoise.core.arrays import read_npz
    >>> config = eq.incontext.Config.paper(rounds=8, batch=4)
    >>> data = eq.incontext.dataset(eq.games.families.uniform(3), config, games=4, key=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     data.export(folder + "/data.npz")
    ...     sorted(read_npz(folder + "/data.npz"))
    ['actions', 'labels', 'number', 'payoff', 'policies', 'rewards']
    """

    #: Distribution of the games.
    family: Family
    #: Settings of the contexts and of the expert.
    config: Config
    #: Total number of games.
    games: int
    #: Random key.
    key: jax.Array
    #: Players that play the contexts; None if learners do.
    players: Players | None = None

    def __len__(self) -> int:
        return -(-self.games // self.config.batch)

    def __iter__(self) -> Iterator[Batch]:
        ahead = self.config.play_ahead
        for first in range(0, len(self), ahead):
            cycle = self._cycle(first)
            yield from (self._batch(cycle, i) for i in range(first, min(first + ahead, len(self))))

    def __getitem__(self, index: int) -> Batch:
        i = range(len(self))[index]
        return self._batch(self._cycle(i - i % self.config.play_ahead), i)

    def export(self, path: str | os.PathLike[str]) -> None:
        """Write everything to one file, `.npz` or (with pyarrow) `.parquet`.

        An `.npz` file has the arrays of `Batch` under their names, and the games as `payoff`, or as
        `reward` and `transition`. A Parquet file is written batch by batch. It has one row for
        every game, player and round, in this order, with the columns

        - `number` (index of the game), `player` (0: row, 1: column), `round` (from 1);
        - `action`, `reward` (the player's own), and in Markov games `state` and `next_state`;
        - `policy_a`: the probability with which action `a` was played;
        - `label_a`: the expert's probability of action `a` in this round, at its state.
        """
        path = Path(path)
        if path.suffix == ".parquet":
            self._write_parquet(path)
        elif path.suffix == ".npz":
            batches = [_arrays(batch) for batch in self]
            whole = {name: np.concatenate([b[name] for b in batches]) for name in batches[0]}
            write_npz(path, whole)
        else:
            raise InputError("path", "a name that ends in .npz or .parquet", repr(path.name))

    @cached_property
    def _set(self) -> Any:
        return training_games(self.family, self.config, self.key)

    @cached_property
    def _trainer(self) -> Trainer:
        """Return the trainer of `pretrain`, without labels for new Markov games."""
        config, games = self.config, None
        solvable = config.needs_equilibria
        if self._set is not None:
            games = training_set(self._set, solvable)
        elif solvable and self.family.states is not None:
            config = replace(config, loss="exploitability", expert="nash", stop_on="gap")
        players = self.players
        if players is None:  # learners play, so that only the shape of the players matters
            players = initial_players(self.family, replace(config, seeds=1), key=self.key)
        return Trainer(players, self.family, games, config, jax.default_backend())

    def _cycle(self, first: int) -> Any:
        """Return the batches that training plays together, starting at batch `first`."""
        key = step_key(self.key, first * self.config.reuse, self.config)
        return _data(self._trainer, jax.random.fold_in(key, 0))

    def _batch(self, cycle: Any, i: int) -> Batch:
        """Return the batch of an update; the last batch may be smaller."""
        tables, context, labels, numbers = cycle
        batch = self.config.batch
        index = np.asarray(self._trainer.part(i % self.config.play_ahead))
        index = index[: self.games - i * batch]
        if numbers is None or self._set is None:
            number, games = i * batch + np.arange(len(index)), _games(tables.some(index))
        else:
            number = np.asarray(numbers)[index]
            games = self._set[number]
        labels = self._equilibria(games, i) if labels is None else np.asarray(labels)[:, index]
        shape = (*labels.shape[:2], self.config.rounds + 1, *labels.shape[3:])
        played = (context.actions, context.rewards, context.policies)
        found = [*(np.asarray(array)[:, index] for array in played), np.broadcast_to(labels, shape)]
        actions, rewards, policies, labels = (np.swapaxes(array, 0, 1) for array in found)
        states = None if context.states is None else np.asarray(context.states)[index]
        return Batch(games, number, actions, rewards, policies, states, labels)

    def _equilibria(self, games: Any, i: int) -> np.ndarray:
        """Return equilibria as labels where training uses none."""
        nash = solved(games)
        if self.config.expert != "nash-samples":
            return np.asarray(nash)[:, :, None]
        key = jax.random.fold_in(jax.random.fold_in(self.key, _LABELS), i)
        return np.asarray(sampled(nash, self.config.rounds + 1, key))

    def _write_parquet(self, path: Path) -> None:
        pyarrow, parquet = (
            import_extra(module, "pyarrow", "parquet") for module in ("pyarrow", "pyarrow.parquet")
        )
        with atomic_write(path) as temporary:
            writer = None
            for batch in self:
                table = pyarrow.table(_columns(batch))
                writer = writer or parquet.ParquetWriter(temporary, table.schema)
                writer.write_table(table)
            if writer is not None:
                writer.close()


@eqx.filter_jit
def _data(trainer: Trainer, key: jax.Array) -> Any:
    return trainer.data(pick(trainer.players.models, 0), key)


def _games(tables: Tables) -> MatrixGame | MarkovGame:
    """Convert tables to games in double precision."""
    reward, moves = (
        None if table is None else np.moveaxis(np.asarray(table, float), -1, 0)
        for table in (tables.reward, tables.transition)
    )
    return MatrixGame(reward) if moves is None else MarkovGame(reward, moves, tables.discount)


def _arrays(batch: Batch) -> dict[str, np.ndarray]:
    """Return the arrays of a batch and of its games by name."""
    games = batch.games
    if isinstance(games, MatrixGame):
        arrays = {"payoff": np.asarray(games.payoff)}
    else:
        arrays = {"reward": np.asarray(games.reward), "transition": np.asarray(games.transition)}
    for name in ("number", "actions", "rewards", "policies", "states", "labels"):
        if getattr(batch, name) is not None:
            arrays[name] = getattr(batch, name)
    return arrays


def _columns(batch: Batch) -> dict[str, np.ndarray]:
    """Return the columns of a Parquet file, with a row for every game, player and round."""
    shape = batch.actions.shape
    games, player, rounds = np.indices(shape)
    columns = {
        "number": batch.number[games],
        "player": player,
        "round": rounds + 1,
        "action": batch.actions,
        "reward": batch.rewards,
    }
    labels = batch.labels[:, :, :-1]
    if batch.states is not None:
        here = batch.states[games, rounds]
        columns |= {"state": here, "next_state": batch.states[games, rounds + 1]}
        labels = np.take_along_axis(labels, here[..., None, None], axis=3)[..., 0, :]
    for a in range(labels.shape[-1]):
        columns |= {f"policy_{a}": batch.policies[..., a], f"label_{a}": labels[..., a]}
    return {name: np.ascontiguousarray(column).ravel() for name, column in columns.items()}
