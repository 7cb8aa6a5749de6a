"""`play`: frozen players in any games of their shape, against themselves or anybody else."""

from collections.abc import Iterable
from typing import Any, Literal

from equipoise import dynamics
from equipoise.core import checks
from equipoise.dynamics import Learner, Noise, Trace
from equipoise.games import MarkovGame, MatrixGame
from equipoise.incontext._players import Players, Precision, check_players

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
    precision: Precision = "auto",
) -> Trace:
    """Let frozen players play every game of a batch for `rounds` rounds.

    This is `equipoise.dynamics.play` with the players in their seats and `history=True`; see there
    for keys, noise and the trace. The two players are uncoupled: each sees its own actions and
    rewards (and the states) and nothing else. With an `opponent`, one of them plays in `seat` (the
    row player's unless given) and the opponent in the other: any learner of `equipoise.dynamics`,
    its best responder, which sees the game and the very policy it is about to meet, or other
    players. The result of a game does not depend on what else is in the batch, to the last bit.

    **Arguments**

    - `record`: a round number or several, at which policies are kept; by default 1, 2, 4, ...
      The final round is always kept.
    - `exploration`: the share of uniform play that is mixed into what the players do in their
      first rounds, falling as t^-1/4 from round 16 on; by default what they were trained with.
      It is in the policies played, and in the rewards earned, but not in the policies recorded.
    - `precision`: floating-point format of matrix products; "auto" is float32 on a CPU and
      bfloat16 on an accelerator.

    **Example**

    >>> import equipoise as eq
    >>> players = eq.incontext.load("iid3")
    >>> games = eq.games.families.uniform(actions=3).sample(8, key=1)
    >>> omd = eq.dynamics.OMD()
    >>> trace = eq.incontext.play(players, games, rounds=64, key=2, opponent=omd)
    >>> trace.history.actions.shape, trace.last[0].shape, trace.recorded.rounds.tolist()
    ((8, 64, 2), (8, 3), [1, 2, 4, 8, 16, 32, 64])
    """
    rounds = checks.check_count("rounds", rounds)
    check_games(games)
    check_players(players, games)
    if seat not in (None, *SEATS):
        raise ValueError(f"seat: expected one of {list(SEATS)}, found {seat!r}")
    if opponent is None and seat is not None:
        raise ValueError(
            f"seat: expected none without an opponent, since the players hold both, found {seat!r}"
        )
    learners: list[Any] = list(players.learners(exploration=exploration, precision=precision))
    if opponent is not None:
        other = 1 - SEATS.index(seat or "row")
        learners[other] = opponent
        if isinstance(opponent, Players):
            check_players(opponent, games)
            learners[other] = opponent.learners(precision=precision)[other]
    if record is None:
        record = [2**k for k in range(31) if 2**k < rounds]
    return dynamics.play(
        games,
        learners[0],
        learners[1],
        rounds=rounds,
        key=key,
        record=record,
        noise=noise,
        reward_range=reward_range,
        start=start,
        history=True,
    )


def check_games(games: Any, name: str = "games", also: str = "") -> None:
    """Refuse what is no zero-sum game of two players; the argument has a name."""
    if not isinstance(games, MatrixGame | MarkovGame):
        raise ValueError(
            f"{name}: expected {also}a MatrixGame or MarkovGame, found {type(games).__name__}"
        )
