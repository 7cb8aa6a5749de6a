"""A list of games as a distribution: the games of a folder, a batch or a list, some held out."""

import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from equipoise.core import InputError
from equipoise.core.values import Value, static
from equipoise.games._game import Labels
from equipoise.games._markov import MarkovGame
from equipoise.games._matrix import MatrixGame

if TYPE_CHECKING:
    import jax

SUFFIXES = (".nfg", ".csv", ".npz")
#: Descriptions contain the rewards of lists of at most so many numbers.
DESCRIBED = 50_000


class ListedGames(Value):
    """Rewards (and transitions) of a list of games, of which each draw takes one at random.

    `families.of` makes them.

    **Example**

    >>> import numpy as np, equipoise as eq
    >>> family = eq.games.families.of(eq.MatrixGame(np.zeros((5, 2, 2))))
    >>> family.rewards.count, family.rewards.held_out.count
    (4, 1)
    """

    kind: ClassVar[str] = "ListedGames"
    #: (games, ..., rows, columns): rewards in [0, 1].
    reward: "np.ndarray | jax.Array"
    #: Transitions of Markov games; None for matrix games.
    transition: "np.ndarray | jax.Array | None"
    #: Rewards of the games as they were, which became 0 and 1.
    reward_range: tuple[float, float] = static()
    #: The games that are held out; None if every game is.
    held_out: "ListedGames | None" = None

    @classmethod
    def _restored(cls, name: str, plain: Any) -> Any:
        held = name == "held_out" and isinstance(plain, Mapping)
        return cls.from_plain(plain) if held else super()._restored(name, plain)

    @property
    def count(self) -> int:
        """Number of games that can be drawn."""
        return len(self.reward)

    def __call__(self, key: "jax.Array", shape: tuple[int, ...]) -> Any:
        """Draw the rewards of one matrix game."""
        import jax.numpy as jnp

        return jnp.asarray(self.reward)[self._index(key)]

    def markov(self, key: "jax.Array", shape: tuple[int, ...]) -> tuple[Any, Any]:
        """Draw the rewards and transitions of one Markov game."""
        if self.transition is None:
            raise InputError("transitions", "the transitions of Markov games", None)
        import jax.numpy as jnp

        i = self._index(key)
        return jnp.asarray(self.reward)[i], jnp.asarray(self.transition)[i]

    def _index(self, key: "jax.Array") -> Any:
        import jax

        return jax.random.randint(key, (), 0, self.count)

    def order(self, games: int, key: "jax.Array") -> np.ndarray:
        """Return indices of games in random order; every game comes once before any comes again."""
        import jax

        whole = -(-games // self.count)
        keys = [jax.random.fold_in(key, turn) for turn in range(whole)]
        turns = [np.asarray(jax.random.permutation(key, self.count)) for key in keys]
        return np.concatenate(turns)[:games]

    def describe(self) -> dict[str, Any]:
        """Describe the games as plain data: whole if there are few numbers, else by a digest."""
        parts = [self] if self.held_out is None else [self, self.held_out]
        arrays = [a for p in parts for a in (p.reward, p.transition) if a is not None]
        digest = hashlib.sha256(b"".join(np.asarray(a, np.float64).tobytes() for a in arrays))
        described: dict[str, Any] = {
            "games": [part.count for part in parts],
            "reward_range": list(self.reward_range),
            "digest": digest.hexdigest(),
        }
        if sum(np.size(a) for a in arrays) <= DESCRIBED:
            described["listed"] = [
                {
                    "reward": np.asarray(part.reward).tolist(),
                    "transition": None
                    if part.transition is None
                    else np.asarray(part.transition).tolist(),
                }
                for part in parts
            ]
        return described

    @staticmethod
    def restore(described: dict[str, Any]) -> "ListedGames":
        """Rebuild a list from its description."""
        low, high = described["reward_range"]

        def part(index: int, held_out: ListedGames | None = None) -> ListedGames:
            own = described["listed"][index]
            moves = None if own["transition"] is None else np.asarray(own["transition"], float)
            return ListedGames(np.asarray(own["reward"], float), moves, (low, high), held_out)

        return part(0, part(1) if len(described["listed"]) > 1 else None)


def scaled(reward: Any, reward_range: tuple[float, float]) -> np.ndarray:
    """Move rewards from a range to [0, 1].

    >>> scaled([-1.0, 0.0, 3.0], (-1.0, 3.0)).tolist()
    [0.0, 0.25, 1.0]
    """
    low, high = reward_range
    if (low, high) == (0.0, 1.0):
        return np.asarray(reward, float)
    return (np.asarray(reward, float) - low) / (high - low)


def range_of(reward: Any) -> tuple[float, float]:
    """Return (0, 1) for rewards within it, else the smallest and the largest reward.

    >>> range_of([0.2, 0.3]), range_of([0.0, 3.0]), range_of([2.0, 2.0])
    ((0.0, 1.0), (0.0, 3.0), (2.0, 3.0))
    """
    low, high = float(np.min(reward)), float(np.max(reward))
    if low >= 0.0 and high <= 1.0:
        return 0.0, 1.0
    return low, high if high > low else low + 1.0


Named = tuple[str, "MatrixGame | MarkovGame"]


def read_games(games: Any) -> "MatrixGame | MarkovGame":
    """Return games of one kind and size as one batch with one axis."""
    named = _collected(games)
    first = named[0][1]
    for name, game in named:
        expected = f"games like the first, {_size(first)}"
        if type(game) is not type(first) or _size(game) != _size(first):
            raise InputError("games", expected, f"{_size(game)} in {name}")
    parts = [_arrays(game) for _, game in named]
    reward = np.concatenate([part[0] for part in parts])
    labels: Labels | None = first.labels
    if any(game.labels != labels for _, game in named):
        labels = None
    if isinstance(first, MatrixGame):
        return MatrixGame(reward, labels=labels)
    moves = np.concatenate([part[1] for part in parts])
    return MarkovGame(reward, moves, first.discount, labels=labels)


def _size(game: Any) -> str:
    actions = " x ".join(map(str, game.actions))
    if isinstance(game, MatrixGame):
        return f"a matrix game with {actions} actions"
    return f"a Markov game with {actions} actions, {game.states} states, discount {game.discount:g}"


def _arrays(game: Any) -> list[np.ndarray]:
    """Return a game's arrays with one axis of games."""
    arrays = [game.payoff] if isinstance(game, MatrixGame) else [game.reward, game.transition]
    start = len(game.batch_shape)
    return [np.asarray(a, float).reshape(-1, *np.shape(a)[start:]) for a in arrays]


def _collected(games: Any) -> list[Named]:
    """Return games with their names: files, or places in a list."""
    if isinstance(games, str | os.PathLike):
        return _from_path(Path(games))
    if isinstance(games, MatrixGame | MarkovGame):
        return [("games", _checked(games, "games"))]
    if not isinstance(games, Sequence):
        expected = "a batch of games, a list of games, or a folder with their files"
        raise InputError("games", expected, type(games).__name__)
    named = list[Named]()
    for i, item in enumerate(games):
        if isinstance(item, str | os.PathLike):
            named += _from_path(Path(item))
        else:
            named.append((f"games[{i}]", _checked(item, f"games[{i}]")))
    if not named:
        raise InputError("games", "at least two games", "none")
    return named


def _from_path(path: Path) -> list[Named]:
    from equipoise.games.files import read

    if path.is_dir():
        files = sorted(p for p in path.iterdir() if p.suffix.lower() in SUFFIXES)
        if not files:
            expected = "a folder with .nfg, .csv or .npz files"
            raise InputError("games", expected, f"no such file in {path}")
        return [pair for file in files for pair in _from_path(file)]
    if not path.exists():
        raise InputError("games", "a folder or a file with games", f"nothing at {path}")
    return [(str(path), _checked(read(path), str(path)))]


def _checked(game: Any, name: str) -> Any:
    if not isinstance(game, MatrixGame | MarkovGame):
        expected = "two-player zero-sum matrix games or Markov games"
        raise InputError("games", expected, f"a {type(game).__name__} in {name}")
    if isinstance(game, MarkovGame):
        game.check_stationary_zero_sum("games")
    return game
