"""The room of duels: a person against a player, and players or learners against each other."""

from typing import Any

import numpy as np

import equipoise as eq
from equipoise.core.errors import InputError
from equipoise.studio._games import described, game_of, in_python, on_command_line, tables

#: Rounds of a duel, and of two who are watched, at most.
_LONGEST, _WATCHED = 500, 4096
#: What mirror descent is called among the opponents.
_MIRROR = "omd"
#: Duels that are kept, to go on with.
_KEPT = 6


def _catalogue(studio: Any, request: dict[str, Any]) -> dict[str, Any]:
    known = eq.dynamics.LEARNERS
    learners = [[key, one.title] for key, one in known.items() if one.matrix is not None]
    return {
        "games": [one for one in tables() if one["kind"] == "matrix"],
        "players": [["any", "the pre-trained player"], *learners],
    }


def _opponent(name: Any, rounds: int) -> Any:
    if name == "any":
        return eq.incontext.load("any")
    return eq.dynamics.make_learner(str(name), markov=False, rounds=rounds, argument="player")


class _Played:
    """A duel and the same moves against mirror descent, with what both hold before each round."""

    def __init__(self, game: Any, player: str, seat: Any, seed: int):
        options: dict[str, Any] = {"seat": seat, "key": seed}
        self.duels = [eq.incontext.Duel(_opponent(player, _LONGEST), game, **options)]
        if player != _MIRROR:
            mirror = _opponent(_MIRROR, _LONGEST)
            self.duels.append(eq.incontext.Duel(mirror, game, **options))
        self.own = eq.MatrixGame(self.duels[0].payoff)
        self.equilibrium = eq.solve(self.own)
        self.moves: list[int] = []
        self.held: list[list[float]] = [[self._gap(duel)] for duel in self.duels]

    def _gap(self, duel: Any) -> float:
        """NashConv of what the opponent holds beside your equilibrium policy."""
        pair = (self.equilibrium.policy[0], duel.opponent_policy)
        return float(eq.certify(self.own, pair).nash_conv)

    def play(self, move: int) -> None:
        """One round more."""
        for duel, held in zip(self.duels, self.held, strict=True):
            duel.play(move)
            held.append(self._gap(duel))
        self.moves.append(move)


def _play(studio: Any, request: dict[str, Any]) -> dict[str, Any]:
    """The duel after some moves of yours. The same moves always lead to the same duel."""
    given = request.get("game")
    game, player = game_of(studio, given), str(request.get("player", "any"))
    seat, seed = request.get("seat", "row"), request.get("seed", 0)
    moves = request.get("moves", [])
    whole = isinstance(moves, list) and all(type(move) is int for move in moves)
    if not whole or len(moves) > _LONGEST:
        raise InputError("moves", f"at most {_LONGEST} numbers of actions", repr(moves)[:60])
    if type(seed) is not int or not 0 <= seed < 2**31:
        raise InputError("seed", "a whole number from 0 on", repr(seed))
    kept = studio.kept.setdefault("duels", {})
    key = (game.payoff.tobytes() if isinstance(game, eq.MatrixGame) else 0, player, seat, seed)
    played = kept.pop(key, None)
    if played is None or played.moves != moves[: len(played.moves)]:
        played = _Played(game, player, seat, seed)
    while len(kept) >= _KEPT:
        kept.pop(next(iter(kept)))
    for move in moves[len(played.moves) :]:
        played.play(move)
    kept[key] = played
    return _told(played, game, given, player, seat, seed)


def _told(played: _Played, game: Any, given: Any, player: str, seat: str, seed: int) -> Any:
    duel = played.duels[0]
    yours, theirs = duel.names
    best, earned = duel.best_action
    opponent = (
        'eq.incontext.load("any")'
        if player == "any"
        else f"eq.dynamics.make_learner({player!r}, markov=False, rounds={_LONGEST})"
    )
    lines = [
        "import equipoise as eq",
        in_python(game, given),
        f"duel = eq.incontext.Duel({opponent}, game, seat={seat!r}, key={seed})",
        f"for move in {played.moves}:",
        "    duel.play(move)",
        "print(duel.score, duel.opponent_policy)",
    ]
    command = f"equipoise duel any {on_command_line(given)} --seat {seat} --seed {seed}"
    return {
        **described(game),
        "yours": yours,
        "theirs": theirs,
        "turns": [[turn.yours, turn.theirs, turn.earned] for turn in duel.turns],
        "policy": duel.opponent_policy,
        "score": duel.score,
        "value": float(played.equilibrium.value),
        "best_response": duel.best_response,
        "best_action": yours[best],
        "best_action_score": earned,
        "held": played.held,
        "python": "\n".join(lines),
        "command": command if player == "any" else "",
    }


def _watch(studio: Any, request: dict[str, Any]) -> dict[str, Any]:
    """Two players or learners, and how near to an equilibrium what they hold is."""
    given = request.get("game")
    game = game_of(studio, given)
    if not isinstance(game, eq.MatrixGame):
        raise InputError("game", "a zero-sum game", game.describe())
    rounds, seed = request.get("rounds", 256), request.get("seed", 0)
    if type(rounds) is not int or not 1 <= rounds <= _WATCHED:
        raise InputError("rounds", f"1 to {_WATCHED:,}", repr(rounds))
    row, column = (_opponent(request.get(who, "any"), rounds) for who in ("row", "column"))
    low, high = float(np.min(game.payoff)), float(np.max(game.payoff))
    options: dict[str, Any] = {"rounds": rounds, "key": int(seed)}
    options["reward_range"] = (low, high if high > low else low + 1.0)
    options["record"] = np.unique(np.geomspace(1, rounds, 60).round().astype(int)).tolist()
    trace = eq.dynamics.play(game, row, column, **options)
    mirror = _opponent(_MIRROR, rounds)
    other = eq.dynamics.play(game, mirror, mirror, **options)
    return {
        "rounds": trace.recorded.rounds,
        "curve": trace.curve,
        "mirror": other.curve,
        "last": list(trace.last),
        "reward": float(trace.recorded.reward[-1]) / rounds,
        **described(game),
    }


CALLS = {"catalogue": _catalogue, "play": _play, "watch": _watch}
JOBS: dict[str, Any] = {}
