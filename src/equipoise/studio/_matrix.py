"""The Matrix page: a two-player game in a table, its equilibria and their certificates."""

from typing import Any

import numpy as np

import equipoise as eq
from equipoise.core.errors import InputError
from equipoise.report import certificate_table, player_names
from equipoise.studio._games import (
    described,
    game_of,
    in_code,
    in_python,
    on_command_line,
    payoffs_of,
    quoted,
    tables,
    text_of,
    whole,
)

#: Time limit of a call, in seconds.
_SECONDS = 8.0
#: Number of small triangles along an edge of the simplex, and of rounds of learners drawn.
_EDGE, _DRAWN = 36, 240
#: Largest number of equilibria that are listed.
_LISTED = 200
_CONCEPTS = ("nash", "ce", "cce")


def table_of(table: Any) -> dict[str, Any]:
    """Return a table in the form that the pages draw."""
    return {"columns": list(table.columns), "rows": [list(row) for row in table.rows]}


def certificate_of(game: Any, certificate: Any) -> dict[str, Any]:
    """Return a certificate in the form that the pages draw."""
    names = player_names(2, game.labels.players)
    return {
        "table": table_of(certificate_table(certificate, names)),
        "gains": certificate.gains,
        "upper": certificate.upper,
        "max_upper": float(certificate.max_upper),
        "nash_conv": float(certificate.nash_conv),
        "exact": certificate.exact,
        "method": certificate.method,
    }


def _open(studio: Any, request: dict[str, Any]) -> dict[str, Any]:
    return described(game_of(studio, request.get("game")))


def _catalogue(studio: Any, request: dict[str, Any]) -> dict[str, Any]:
    return {"games": tables()}


def _objective(request: dict[str, Any]) -> Any:
    given = request.get("objective")
    if given in (None, "welfare", "egalitarian", "entropy"):
        return given
    numbers = isinstance(given, list) and all(type(weight) in (int, float) for weight in given)
    if not numbers or len(given) != 2 or not np.isfinite(given).all():
        raise InputError("objective", "a name or one weight for each player", repr(given)[:60])
    return [round(float(weight), 6) for weight in given]


def _solve(studio: Any, request: dict[str, Any]) -> dict[str, Any]:
    """Return an equilibrium for the requested concept and objective."""
    given: Any = request.get("game")
    game, concept = game_of(studio, given), request.get("concept", "nash")
    if concept not in _CONCEPTS:
        raise InputError("concept", f"one of {', '.join(_CONCEPTS)}", repr(concept))
    options: dict[str, Any] = {}
    if concept != "nash":
        options["concept"] = concept
        if (objective := _objective(request)) is not None:
            options["objective"] = objective
    solution = eq.solve(game, **options, time_limit=_SECONDS)
    policy: Any = solution.policy
    said = "".join(f", {name}={quoted(word)}" for name, word in options.items())
    flags = [part for name, word in options.items() for part in (f"--{name}", str(word))]
    lines = [f"solution = eq.solve(game{said})"]
    lines += ["print(solution.value, solution.certificate.max_upper)"]
    return {
        "policy": [policy[0], policy[1]] if concept == "nash" else None,
        "joint": None if concept == "nash" else policy.joint,
        "value": solution.certificate.value,
        "status": str(solution.status),
        "solved": bool(solution.status.ok),
        "tolerance": float(np.max(solution.tolerance)),
        "certificate": certificate_of(game, solution.certificate),
        "file": None if "name" in given or "file" in given else text_of(game),
        **_code(studio, game, given, lines, flags),
    }


def _code(
    studio: Any, game: Any, given: Any, lines: list[str], flags: list[str] | None = None
) -> dict[str, str]:
    """Return the code for a game and, if flags are given, the `equipoise solve` command."""
    made = [in_python(studio, game, given), *lines]
    if flags is None:
        return in_code(made)
    name, files = on_command_line(studio, game, given)
    return in_code(made, ["equipoise", "solve", name, *flags], files=files)


def _equilibria(studio: Any, request: dict[str, Any]) -> dict[str, Any]:
    """Return all extreme equilibria."""
    given: Any = request.get("game")
    game = game_of(studio, given)
    found = eq.equilibria(game, time_limit=_SECONDS)
    listed = [
        {
            "policy": [one.policy[0], one.policy[1]],
            "value": one.certificate.value,
            "upper": float(one.certificate.max_upper),
        }
        for one in list(found)[:_LISTED]
    ]
    lines = [
        "found = eq.equilibria(game)",
        "print([(one.policy[0], one.policy[1]) for one in found])",
    ]
    told = {"equilibria": listed, "count": len(found), "status": str(found.status)}
    return {**told, **_code(studio, game, given, lines, ["--all"])}


def _certify(studio: Any, request: dict[str, Any]) -> dict[str, Any]:
    """Return the certificate of the policies that the user chose."""
    given, policy = request.get("game"), request.get("policy")
    game = game_of(studio, given)
    if not isinstance(policy, list) or len(policy) != 2:
        raise InputError("policy", "one list of probabilities for each player", repr(policy)[:60])
    certificate = eq.certify(game, tuple(policy))
    lines = [f"certificate = eq.certify(game, ({policy[0]}, {policy[1]}))"]
    lines += ["print(certificate.gains, certificate.nash_conv)"]
    found = {**certificate_of(game, certificate), "value": certificate.value}
    return {**found, **_code(studio, game, given, lines)}


def _replies(studio: Any, request: dict[str, Any]) -> dict[str, Any]:
    """Return the best-response regions on the simplex of each player with 2 or 3 actions.

    A region contains the policies to which one action of the other player is a best response,
    which means that its certificate shows the smallest gain.
    """
    game = game_of(studio, request.get("game"))
    found: list[Any] = [None, None]
    for player, payoff in enumerate(payoffs_of(game)[::-1]):
        own, other = game.actions[player], game.actions[1 - player]
        if own > 3 or other > 12:
            continue
        table = payoff.T if player == 0 else payoff  # rows are the responses of the other player
        middles = _grid(own)
        count = len(middles)
        games = eq.MatrixGame(np.broadcast_to(table, (count, *table.shape)))
        gains = [
            eq.certify(games, (np.tile(np.eye(other)[reply], (count, 1)), middles)).gains[:, 0]
            for reply in range(other)
        ]
        found[player] = {"edge": _EDGE, "best": np.argmin(gains, 0)}
    return {"regions": found}


def _grid(actions: int) -> np.ndarray:
    """Return the centres of the small segments or triangles into which the pages cut a simplex.

    >>> middles = _grid(3)
    >>> middles.shape, bool(np.allclose(middles.sum(1), 1))
    ((1296, 3), True)
    """
    n = _EDGE
    if actions == 1:
        return np.ones((1, 1))
    if actions == 2:
        first = (np.arange(4 * n) + 0.5) / (4 * n)
        return np.stack([first, 1 - first], 1)
    small = []
    for i in range(n):
        for j in range(n - i):
            small.append((i + 1 / 3, j + 1 / 3))
            if i + j < n - 1:
                small.append((i + 2 / 3, j + 2 / 3))
    points = np.array(small) / n
    return np.concatenate([points, 1 - points.sum(1, keepdims=True)], 1)


def _paths(studio: Any, request: dict[str, Any]) -> dict[str, Any]:
    """Return the policies of two learners round by round, and their NashConv."""
    given: Any = request.get("game")
    game = game_of(studio, given)
    if not isinstance(game, eq.MatrixGame):
        raise InputError("game", "a zero-sum game for learners", game.describe())
    name = str(request.get("learner", "omd"))
    rounds = whole(request, "rounds", 2000, 1, 100_000)
    seed = whole(request, "seed", 0, 0, 2**31 - 1)
    learner = eq.dynamics.make_learner(name, markov=False, rounds=rounds)
    low, high = float(np.min(game.payoff)), float(np.max(game.payoff))
    reward_range = (low, high if high > low else low + 1.0)
    record = np.unique(np.geomspace(1, rounds, _DRAWN).round().astype(int)).tolist()
    trace = eq.dynamics.play(
        game, learner, learner, rounds=rounds, key=seed, record=record, reward_range=reward_range
    )
    lines = [
        f"learner = eq.dynamics.make_learner({quoted(name)}, markov=False, rounds={rounds})",
        f"trace = eq.dynamics.play(game, learner, learner, rounds={rounds}, key={seed}, "
        f"reward_range={reward_range})",
        "print(trace.curve)",
    ]
    return {
        "rounds": trace.recorded.rounds,
        "last": [np.asarray(policy) for policy in trace.recorded.last],
        "curve": trace.curve,
        "average_curve": trace.average_curve,
        **_code(studio, game, given, lines),
    }


def _learners(studio: Any, request: dict[str, Any]) -> dict[str, Any]:
    known = eq.dynamics.LEARNERS
    return {"learners": [[key, one.title] for key, one in known.items() if one.matrix is not None]}


CALLS = {
    "catalogue": _catalogue,
    "certify": _certify,
    "equilibria": _equilibria,
    "learners": _learners,
    "open": _open,
    "paths": _paths,
    "replies": _replies,
    "solve": _solve,
}
JOBS: dict[str, Any] = {}
