"""Training data as the in-context paper defines it: histories of play with an expert's answers.

Two context learners play a game uncoupled; each player writes down its own actions and rewards
(and the states), and an expert says what it would play before every round and after the last.
Training makes such data as it goes and keeps none of it. Here it can be looked at, batch by batch,
and written to a file for other programs.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from equipoise.core import checks
from equipoise.core.extras import import_extra
from equipoise.core.files import atomic_write
from equipoise.core.randomness import as_key
from equipoise.core.streams import game_words
from equipoise.games import MarkovGame, MatrixGame
from equipoise.games.families import Family
from equipoise.incontext._config import Config
from equipoise.incontext._contexts import (
    Context,
    as_board,
    compiled_follow,
    join,
    learners_play,
    make_learner,
    some,
)
from equipoise.incontext._episode import episode
from equipoise.incontext._equilibria import sampled, solved
from equipoise.incontext._players import Players, check_players
from equipoise.incontext._teams import Board, Frozen
from equipoise.runs.arrays import write_npz

__all__ = ["Batch", "Dataset", "dataset"]

#: Purposes of the keys that are made of the one given.
_SET, _CHOICE, _PLAY, _LABELS = range(4)


@dataclass(frozen=True)
class Batch:
    """Some games, how they were played, and what an expert would have played; NumPy arrays.

    **Example**

    >>> import equipoise as eq
    >>> config = eq.incontext.Config.paper(rounds=8, batch=4)
    >>> data = eq.incontext.dataset(eq.games.families.uniform(3), config, games=4, key=0)
    >>> batch = data[0]
    >>> batch.actions.shape, batch.labels.shape
    ((4, 2, 8), (4, 2, 9, 3))
    """

    games: MatrixGame | MarkovGame
    #: (games,): the number of the game in the training set, or in the data where games are fresh.
    number: np.ndarray
    #: (games, 2, rounds): of the row player and of the column player.
    actions: np.ndarray
    #: (games, 2, rounds): each player's own, in [0, 1].
    rewards: np.ndarray
    #: (games, 2, rounds, actions): the policies played, at the state of the round.
    policies: np.ndarray
    #: (games, rounds + 1), or None in matrix games.
    states: np.ndarray | None
    #: (games, 2, rounds + 1, actions), or (..., states, actions): what the expert would play
    #: before every round and after the last; samples are one-hot.
    labels: np.ndarray


def dataset(
    family: Family,
    config: Config | None = None,
    *,
    games: int,
    key: Any,
    players: Players | None = None,
) -> "Dataset":
    """The data that a config trains on: `games` games in batches of `config.batch`.

    Of the config, `rounds`, `contexts`, `learners`, `expert`, `training_games` and `batch` count.
    Contexts that are not those of learners alone are played by `players`, who must then be given.
    Batches are made when they are asked for; the same arguments always give the same data.

    **Example**

    >>> import equipoise as eq
    >>> family = eq.games.families.uniform(actions=3, states=2)
    >>> config = eq.incontext.Config.paper(rounds=8, batch=4, expert="omd")
    >>> data = eq.incontext.dataset(family, config, games=6, key=0)
    >>> [(len(batch.number), batch.labels.shape[2:]) for batch in data]
    [(4, (9, 2, 3)), (2, (9, 2, 3))]
    """
    config = Config.paper() if config is None else config
    if not isinstance(family, Family):
        raise ValueError(f"family: expected a Family of games, found {type(family).__name__}")
    checks.check_count("games", games)
    for name in config.learners if config.contexts != "on-policy" else ():
        make_learner(name, family.states)
    if config.contexts != "learners":
        if players is None:
            raise ValueError(
                f"players: expected Players, since contexts are {config.contexts!r}, found None"
            )
        check_players(players, family.sample(1, key=0))
    elif players is not None:
        raise ValueError("players: expected None, since learners play all contexts, found Players")
    return Dataset(family, config, games, as_key(key), players)


@dataclass(frozen=True, eq=False)
class Dataset:
    """Batches of training data, by number or one after the other; made by `dataset`.

    **Example**

    >>> import tempfile
    >>> import equipoise as eq
    >>> from equipoise.runs.arrays import read_npz
    >>> config = eq.incontext.Config.paper(rounds=8, batch=4)
    >>> data = eq.incontext.dataset(eq.games.families.uniform(3), config, games=4, key=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     data.export(folder + "/data.npz")
    ...     sorted(read_npz(folder + "/data.npz"))
    ['actions', 'labels', 'number', 'payoff', 'policies', 'rewards']
    """

    family: Family
    config: Config
    #: Number of games in all.
    games: int
    key: jax.Array
    players: Players | None = None

    def __len__(self) -> int:
        return -(-self.games // self.config.batch)

    def __iter__(self) -> Iterator[Batch]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, index: int) -> Batch:
        i = range(len(self))[index]
        count = min(self.config.batch, self.games - i * self.config.batch)
        key = jax.random.fold_in(self.key, 1 + i)
        games, number = self._games(i, key)
        board = as_board(games)
        words = game_words(jax.random.split(jax.random.fold_in(key, _PLAY), self.config.batch))
        context = _contexts(board, jnp.asarray(words), self.config, self.players)
        labels = self._labels(games, board, context, jax.random.fold_in(key, _LABELS))
        first = slice(count)
        played = (context.actions, context.rewards, context.policies, labels)
        actions, rewards, policies, labels = (
            np.swapaxes(np.asarray(array), 0, 1)[first] for array in played
        )
        states = None if context.states is None else np.asarray(context.states)[first]
        return Batch(games[first], number[first], actions, rewards, policies, states, labels)

    def export(self, path: str | os.PathLike[str]) -> None:
        """Write everything to one file, `.npz` or (with pyarrow) `.parquet`.

        An `.npz` file has the arrays of `Batch` by their names, with `payoff`, or `reward` and
        `transition`, for the games. A Parquet file, written batch by batch, has one row for every
        game, player and round, in this order, with the columns

        - `number` (of the game), `player` (0: row, 1: column), `round` (from 1);
        - `action`, `reward` (the player's own), and in Markov games `state` and `next_state`;
        - `policy_a`: the probability with which action `a` was played;
        - `label_a`: the expert's probability of it in this round, at its state.
        """
        path = Path(path)
        writers = {".npz": self._write_npz, ".parquet": self._write_parquet}
        if path.suffix not in writers:
            raise ValueError(f"path: expected a name in .npz or .parquet, found {path.name!r}")
        writers[path.suffix](path)

    def _games(self, batch: int, key: jax.Array) -> tuple[Any, np.ndarray]:
        """Always as many as fit in a batch, so that one program serves all."""
        size, most = self.config.batch, self.config.training_games
        if most is None:
            games = self.family.sample(size, key=jax.random.fold_in(key, _SET))
            return games, np.arange(batch * size, (batch + 1) * size)
        known = self.family.sample(most, key=jax.random.fold_in(self.key, _SET))
        chosen = jax.random.randint(jax.random.fold_in(key, _CHOICE), (size,), 0, most)
        return known[np.asarray(chosen)], np.asarray(chosen)

    def _labels(self, games: Any, board: Board, context: Context, key: jax.Array) -> Any:
        if self.config.expert == "omd":
            return compiled_follow(make_learner("omd", board.states), context, board)
        nash, records = solved(games), context.actions.shape[2] + 1
        if self.config.expert == "nash-samples":
            return sampled(nash, records, key)
        return np.broadcast_to(nash[:, :, None], (*nash.shape[:2], records, *nash.shape[2:]))

    def _write_npz(self, path: Path) -> None:
        batches = [_arrays(batch) for batch in self]
        write_npz(path, {name: np.concatenate([b[name] for b in batches]) for name in batches[0]})

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
def _contexts(board: Board, words: jax.Array, config: Config, players: Players | None) -> Context:
    if players is None:
        return learners_play(board, config.learners, words, rounds=config.rounds)
    half = 0 if config.contexts == "on-policy" else board.reward.shape[0] // 2
    team = Frozen.of(players, config.rounds)
    own = episode(
        some(board, slice(half, None)),
        (team,),
        words[:, half:],
        rounds=config.rounds,
        exploration=config.exploration,
    )
    if not half:
        return Context.of(own)
    learners = learners_play(
        some(board, slice(half)), config.learners, words[:, :half], rounds=config.rounds
    )
    return join([learners, Context.of(own)])


def _arrays(batch: Batch) -> dict[str, np.ndarray]:
    """The arrays of a batch by name, those of its games among them."""
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
    """A column for everything; a row for every game, player and round."""
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
