"""`play`: frozen players in any games of their shape, against themselves or anybody else."""

from collections.abc import Iterable
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from equipoise.core import checks
from equipoise.core.precision import single_precision
from equipoise.core.streams import game_words
from equipoise.dynamics import (
    BestResponder,
    Exact,
    Foresight,
    History,
    Learner,
    MarkovBandit,
    Noise,
    Nothing,
    game_keys,
)
from equipoise.games import MarkovGame, MatrixGame
from equipoise.incontext._boards import flat_board, in_blocks
from equipoise.incontext._contexts import some
from equipoise.incontext._episode import episode
from equipoise.incontext._model import lower_precision
from equipoise.incontext._outcome import Episode
from equipoise.incontext._players import Players, check_players
from equipoise.incontext._teams import Board, Frozen, Learning, Responding, Team

SEATS = ("row", "column")


def play(
    players: Players,
    games: MatrixGame | MarkovGame,
    *,
    rounds: int,
    key: Any,
    opponent: Learner | Players | None = None,
    seat: Literal["row", "column"] | None = None,
    noise: Noise | None = None,
    reward_range: tuple[float, float] = (0.0, 1.0),
    record: int | Iterable[int] | None = None,
    exploration: float | None = None,
    start: int = 0,
    precision: Literal["auto", "float32", "bfloat16"] = "auto",
) -> Episode:
    """Let frozen players play every game of a batch for `rounds` rounds.

    The two are uncoupled: each sees its own actions and rewards (and the states) and nothing
    else. With an `opponent`, one of them plays in `seat` (the row player's unless given) and the
    opponent in the other: a learner of `equipoise.dynamics`, its best responder, which sees the
    game and the very policy it is about to meet (in Markov games too), or other players.

    Game `i` of the (flattened) batch plays with the key `fold_in(key, i)`, and its result does
    not depend on what else is in the batch, to the last bit. `key` may also be an array of keys,
    one for each game, as `equipoise.dynamics.game_keys` makes them; random numbers are those of
    `equipoise.dynamics.play` with the same key.

    **Arguments**

    - `noise`: what is seen of a reward: `Exact()` (the default), `Bernoulli()` or
      `Gaussian(scale)` of `equipoise.dynamics`.
    - `reward_range`: rewards are scaled from it to [0, 1] before anybody sees them.
    - `record`: a round number or several, at which policies are kept; by default 1, 2, 4, ...
      The final round is always kept.
    - `exploration`: the share of uniform play that is mixed into what the players do in their
      first rounds, falling as t^-1/4 from round 16 on; by default what they were trained with.
      It is in the policies played, and in the rewards earned, but not in the policies recorded.
    - `start`: the state in which play begins, in Markov games.
    - `precision`: of the products of matrices; "auto" is float32 on a CPU and bfloat16 on an
      accelerator.

    **Example**

    >>> import equipoise as eq
    >>> players = eq.incontext.load("iid3")
    >>> games = eq.games.families.uniform(actions=3).sample(8, key=1)
    >>> omd = eq.dynamics.OMD()
    >>> episode = eq.incontext.play(players, games, rounds=64, key=2, opponent=omd)
    >>> episode.history.actions.shape, episode.seats
    ((8, 64, 2), ('row',))
    """
    rounds = checks.check_count("rounds", rounds)
    check_games(games)
    check_players(players, games)
    stops = _stops(record, rounds)
    board = flat_board(games, reward_range)
    seats = check_seats(seat, opponent)
    words = game_words(_keys(key, games.batch_shape))
    _check_start(games, start)
    shares = _shares(players, opponent, exploration, seats)
    low = _bfloat16(precision)
    with single_precision():
        teams = make_teams(players, opponent, seats, rounds, games, low)
        noise = check_noise(noise)

        def block(index: np.ndarray) -> Any:
            with single_precision(), jax.numpy_rank_promotion("allow"):
                part, drawn = some(board, index), jnp.asarray(words[:, index])
                return _play_block(
                    part, teams, drawn, shares, noise, jnp.asarray(stops), rounds, start
                )

        parts = in_blocks(block, board.reward.shape[0])
    whole = [None if p[0] is None else np.concatenate(p) for p in zip(*parts, strict=True)]
    return _outcome(games, whole, stops, reward_range, seats)


def _shares(
    players: Players, opponent: Any, exploration: float | None, seats: tuple[int, ...]
) -> np.ndarray:
    """(2, 1): how much each seat explores at first."""
    if exploration is not None:
        checks.check_range("exploration", exploration, 0.0, 1.0)
    own = players.exploration if exploration is None else exploration
    other = opponent.exploration if isinstance(opponent, Players) else 0.0
    return np.array([[own if seat in seats else other] for seat in (0, 1)], np.float32)


@eqx.filter_jit
def _play_block(
    board: Board,
    teams: tuple[Team, ...],
    words: Array,
    shares: Any,
    noise: Noise,
    stops: Array,
    rounds: int,
    start: int,
) -> tuple[Any, ...]:
    """One block from the first round to the last; games come first in all arrays."""
    trajectory = episode(
        board,
        teams,
        words,
        rounds=rounds,
        exploration=shares,
        noise=noise,
        start=start,
    )
    states, held = trajectory.states, trajectory.policies[:-1]
    if states is not None:
        place = states[:-1][:, None, :, None, None]
        held = jnp.take_along_axis(held, place, axis=3)[:, :, :, 0]
    return (
        jnp.moveaxis(trajectory.actions, 2, 0),
        trajectory.reward.T,
        trajectory.expected.T,
        jnp.moveaxis(trajectory.played, 2, 0),
        jnp.moveaxis(held, 2, 0),
        jnp.moveaxis(trajectory.policies[stops], 2, 0),
        None if states is None else states.T,
    )


def _outcome(
    games: MatrixGame | MarkovGame,
    whole: list[Any],
    stops: np.ndarray,
    reward_range: tuple[float, float],
    seats: tuple[int, ...],
) -> Episode:
    """Put blocks into the shape of the games: (games, ...) as (batch axes, ...)."""
    shaped: list[Any] = [
        None if a is None else a.reshape(*games.batch_shape, *a.shape[1:]) for a in whole
    ]
    actions, reward, expected, played, held, policies, states = shaped
    axes = len(games.batch_shape)

    def pair(array: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(batch, time, seats, ..., actions) as two arrays, each with its own actions."""
        both = np.moveaxis(array, axes + 1, 0)
        x, y = (p[..., :count] for p, count in zip(both, games.actions, strict=True))
        return x, y

    low, high = reward_range
    x, y = (np.moveaxis(p, axes, 0).astype(np.float64) for p in pair(policies))
    x, y = x / x.sum(-1, keepdims=True), y / y.sum(-1, keepdims=True)
    return Episode(
        games=games,
        rounds=stops,
        policies=(x, y),
        history=History(actions, reward, pair(played), states),
        held=pair(held),
        expected=low + (high - low) * expected.astype(np.float64),
        seats=tuple(SEATS[s] for s in seats),
    )


def make_teams(
    players: Players,
    opponent: Any,
    seats: tuple[int, ...],
    rounds: int,
    games: MatrixGame | MarkovGame,
    low: bool,
) -> tuple[Team, ...]:
    """Who sits at the table, and where; refuses an opponent that cannot play such games."""

    def frozen(pair: Players, seats: tuple[int, ...]) -> Frozen:
        team = Frozen.of(pair, rounds, seats)
        return eqx.tree_at(lambda t: t.models, team, lower_precision(team.models)) if low else team

    own = frozen(players, seats)
    if opponent is None:
        return (own,)
    other = (1 - seats[0],)
    if isinstance(opponent, Players):
        check_players(opponent, games)
        return (own, frozen(opponent, other))
    if isinstance(opponent, BestResponder):
        return (own, Responding(other))
    if not isinstance(opponent, Learner):
        raise ValueError(
            "opponent: expected a learner of equipoise.dynamics, Players or None, "
            f"found {type(opponent).__name__}"
        )
    markov = isinstance(games, MarkovGame)
    fits = opponent.sees in (MarkovBandit, Nothing) if markov else opponent.sees is not MarkovBandit
    if not fits or opponent.sees is Foresight:
        kind = "Markov" if markov else "matrix"
        raise ValueError(
            f"opponent: expected a learner of {kind} games, found {type(opponent).__name__}, "
            f"which sees {opponent.sees.__name__}"
        )
    return (own, Learning(learner=opponent, seats=other))


def check_games(games: Any, name: str = "games", also: str = "") -> None:
    """Refuse what is no zero-sum game of two players; the argument has a name."""
    if not isinstance(games, MatrixGame | MarkovGame):
        raise ValueError(
            f"{name}: expected {also}a MatrixGame or MarkovGame, found {type(games).__name__}"
        )


def check_seats(seat: Any, opponent: Any) -> tuple[int, ...]:
    """Numbers of the seats that the players hold.

    >>> check_seats(None, None), check_seats("column", BestResponder())
    ((0, 1), (1,))
    """
    if seat not in (None, *SEATS):
        raise ValueError(f"seat: expected one of {list(SEATS)}, found {seat!r}")
    if opponent is None and seat is not None:
        raise ValueError(
            f"seat: expected none without an opponent, since the players hold both, found {seat!r}"
        )
    return (0, 1) if opponent is None else (SEATS.index(seat or "row"),)


def check_noise(noise: Any) -> Noise:
    """The noise that was asked for; exact rewards where none was."""
    if noise is None:
        return Exact()
    if not isinstance(noise, Noise):
        raise ValueError(
            f"noise: expected Exact(), Bernoulli() or Gaussian(scale), found {noise!r}"
        )
    return noise


def _check_start(games: MatrixGame | MarkovGame, start: Any) -> None:
    checks.check_count("start", start, at_least=0)
    states = games.states if isinstance(games, MarkovGame) else 1
    if start >= states:
        raise ValueError(f"start: expected a state in [0, {states - 1}], found {start}")


def _keys(key: Any, batch_shape: tuple[int, ...]) -> jax.Array:
    """One key for every game, in one row."""
    many = isinstance(key, jax.Array) and jnp.issubdtype(key.dtype, jax.dtypes.prng_key)
    if many and key.shape != ():
        checks.check_shape("key", key, batch_shape, "one key for every game")
        return key.reshape(-1)
    return game_keys(key, batch_shape).reshape(-1)


def _stops(record: Any, rounds: int) -> np.ndarray:
    if record is None:
        powers = [2**k for k in range(31) if 2**k < rounds]
        return np.array([*powers, rounds])
    several = isinstance(record, Iterable) and not isinstance(record, str)
    chosen = [checks.check_count("record", r) for r in (record if several else (record,))]
    for r in chosen:
        if r > rounds:
            raise ValueError(f"record: expected rounds in [1, {rounds}], found {r}")
    return np.array(sorted({*chosen, rounds}))


def _bfloat16(precision: Any) -> bool:
    if precision not in ("auto", "float32", "bfloat16"):
        raise ValueError(
            f"precision: expected 'auto', 'float32' or 'bfloat16', found {precision!r}"
        )
    return precision == "bfloat16" or (precision == "auto" and jax.default_backend() != "cpu")
