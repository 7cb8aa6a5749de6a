"""The Duel page: a person against a player, and players or learners against each other."""

from typing import Any

import numpy as np

import equipoise as eq
from equipoise.core.errors import InputError
from equipoise.core.plain import dumps
from equipoise.studio._games import (
    described,
    game_of,
    in_code,
    in_python,
    on_command_line,
    quoted,
    tables,
    whole,
)

#: Largest number of rounds of a duel, and of two players that are watched.
_LONGEST, _WATCHED = 500, 4096
#: Name of mirror descent among the opponents.
_MIRROR = "omd"
#: Number of duels that are kept and can be continued.
_KEPT = 6


def _catalogue(studio: Any, request: dict[str, Any]) -> dict[str, Any]:
    known = eq.dynamics.LEARNERS
    learners = [[key, one.title] for key, one in known.items() if one.matrix is not None]
    players = [["any", "the pre-trained player"], *learners]
    # In a duel, a player does not learn what its other actions would have earned.
    sees = {key: eq.dynamics.make_learner(key, markov=False, rounds=1).sees for key, _ in learners}
    bandits = (None, eq.dynamics.Bandit, eq.dynamics.Nothing)
    return {
        "games": [one for one in tables() if one["kind"] == "matrix"],
        "players": players,
        "opponents": [one for one in players if sees.get(one[0]) in bandits],
    }


def _opponent(name: Any, rounds: int) -> Any:
    if name == "any":
        return eq.incontext.load("any")
    return eq.dynamics.make_learner(str(name), markov=False, rounds=rounds, argument="player")


class _Played:
    """A duel, the same moves against mirror descent, and the gap of both before each round."""

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
        """Return the NashConv of the opponent's policy paired with your equilibrium policy."""
        pair = (self.equilibrium.policy[0], duel.opponent_policy)
        return float(eq.certify(self.own, pair).nash_conv)

    def play(self, move: int) -> None:
        """Play one more round."""
        for duel, held in zip(self.duels, self.held, strict=True):
            duel.play(move)
            held.append(self._gap(duel))
        self.moves.append(move)


def _play(studio: Any, request: dict[str, Any]) -> dict[str, Any]:
    """Return the duel after the user's moves. The same moves always lead to the same duel."""
    given: Any = request.get("game")
    game, player = game_of(studio, given), str(request.get("player", "any"))
    seat, seed = str(request.get("seat", "row")), whole(request, "seed", 0, 0, 2**31 - 1)
    moves = request.get("moves", [])
    if seat not in ("row", "column"):
        raise InputError("seat", "row or column", repr(seat)[:60])
    counted = isinstance(moves, list) and all(type(move) is int for move in moves)
    if not counted or len(moves) > _LONGEST:
        raise InputError("moves", f"at most {_LONGEST} numbers of actions", repr(moves)[:60])
    kept = studio.kept.setdefault("duels", {})
    key = (dumps(described(game), "game"), player, seat, seed)
    played = kept.pop(key, None)
    if played is None or played.moves != moves[: len(played.moves)]:
        played = _Played(game, player, seat, seed)
    while len(kept) >= _KEPT:
        kept.pop(next(iter(kept)))
    for move in moves[len(played.moves) :]:
        played.play(move)
    kept[key] = played
    told = _told(played, game)
    return {**told, **_code(studio, game, given, played, player, seat, seed)}


def _told(played: _Played, game: Any) -> dict[str, Any]:
    duel = played.duels[0]
    yours, theirs = duel.names
    best, earned = duel.best_action
    return {
        **described(game),
        "yours": yours,
        "theirs": theirs,
        # The game is zero-sum: the player sees the negative of what you earn.
        "turns": [[turn.yours, turn.theirs, turn.earned, -turn.earned] for turn in duel.turns],
        "policy": duel.opponent_policy,
        "score": duel.score,
        "expected": float(played.equilibrium.value) * len(duel.turns),
        "best_response": duel.best_response,
        "best_action": yours[best],
        "best_action_score": earned,
        "held": played.held,
    }


def _made(player: str, rounds: int) -> str:
    """Return the Python code that creates an opponent."""
    if player == "any":
        return 'eq.incontext.load("any")'
    return f"eq.dynamics.make_learner({quoted(player)}, markov=False, rounds={rounds})"


def _code(
    studio: Any, game: Any, given: Any, played: _Played, player: str, seat: str, seed: int
) -> dict[str, str]:
    opponent = _made(player, _LONGEST)
    lines = [
        in_python(studio, game, given),
        f"duel = eq.incontext.Duel({opponent}, game, seat={quoted(seat)}, key={seed})",
        f"for move in {played.moves}:",
        "    duel.play(move)",
        "print(duel.score, duel.opponent_policy)",
    ]
    if player != "any":
        return in_code(lines)
    name, files = on_command_line(studio, game, given)
    words = ["equipoise", "duel", "any", name, "--seat", seat, "--seed", str(seed)]
    yours = played.duels[0].names[0]
    distinct = len({one.lower() for one in [*yours, "q", "quit"]}) == len(yours) + 2
    moves = [yours[move] if distinct else str(move + 1) for move in played.moves]
    if moves:
        words += ["--rounds", str(len(moves))]
    return in_code(lines, words, files=files, typed=moves)


def _watch(studio: Any, request: dict[str, Any], tell: Any) -> dict[str, Any]:
    """Let two players or learners play, and return the NashConv of their policies."""
    given: Any = request.get("game")
    game = game_of(studio, given)
    if not isinstance(game, eq.MatrixGame):
        raise InputError("game", "a zero-sum game", game.describe())
    rounds = whole(request, "rounds", 256, 1, _WATCHED)
    seed = whole(request, "seed", 0, 0, 2**31 - 2)
    names = [str(request.get(who, "any")) for who in ("row", "column")]
    pair = [_opponent(name, rounds) for name in names]
    low, high = float(np.min(game.payoff)), float(np.max(game.payoff))
    options: dict[str, Any] = {"rounds": rounds, "key": seed}
    options["reward_range"] = (low, high if high > low else low + 1.0)
    options["record"] = np.unique(np.geomspace(1, rounds, 60).round().astype(int)).tolist()
    if "any" in names:  # round by round: frozen players are slow, and the job can be stopped
        curve, earned, lines = _meet(game, pair, names, options, tell)
    else:
        trace = eq.dynamics.play(game, *pair, **options)
        curve, earned = trace.curve, float(trace.recorded.reward[-1])
        said = f"rounds={rounds}, key={seed}, reward_range={options['reward_range']}"
        lines = [f"row, column = {_made(names[0], rounds)}, {_made(names[1], rounds)}"]
        lines += [f"trace = eq.dynamics.play(game, row, column, {said})", "print(trace.curve)"]
    mirror = _opponent(_MIRROR, rounds)
    return {
        "rounds": options["record"],
        "curve": curve,
        "mirror": eq.dynamics.play(game, mirror, mirror, **options).curve,
        "reward": earned / rounds,
        "players": described(game)["players"],
        **in_code([in_python(studio, game, given), *lines]),
    }


def _meet(
    game: Any, pair: Any, names: list[str], options: dict[str, Any], tell: Any
) -> tuple[list[float], float, list[str]]:
    """Return the NashConv at some rounds, the row player's reward, and the code in Python."""
    low, high = options["reward_range"]
    online, lines, earned = [], [], 0.0
    for k, (seat, ends) in enumerate({"row": (low, high), "column": (-high, -low)}.items()):
        given = {"actions": game.actions[k], "reward_range": ends, "seat": seat}
        given["key"] = options["key"] + k
        online.append(eq.Online(pair[k], **given))
        said = ", ".join(f"{name}={value!r}" for name, value in given.items())
        lines.append(f"{seat} = eq.Online({_made(names[k], options['rounds'])}, {said})")
    # Some learners observe what each of their actions would have earned.
    every = [getattr(one, "sees", None) is eq.dynamics.Values for one in pair]
    row, column = online
    curve = []
    for t in range(1, options["rounds"] + 1):
        a, b = row.ask(), column.ask()
        row.tell(game.payoff[:, b] if every[0] else game.payoff[a, b])
        column.tell(-game.payoff[a] if every[1] else -game.payoff[a, b])
        earned += float(game.payoff[a, b])
        if t in options["record"]:
            curve.append(float(eq.certify(game, (row.policy, column.policy)).nash_conv))
        if t % 16 == 0:
            tell(text=f"round {t:,} of {options['rounds']:,}")
    lines += [
        f"for _ in range({options['rounds']}):",
        "    a, b = row.ask(), column.ask()",
        f"    row.tell(game.payoff[{':' if every[0] else 'a'}, b])",
        f"    column.tell(-game.payoff[a{'' if every[1] else ', b'}])",
        "print(eq.certify(game, (row.policy, column.policy)).nash_conv)",
    ]
    return curve, earned, lines


CALLS = {"catalogue": _catalogue, "play": _play}
JOBS = {"watch": _watch}
