"""The room of matrices: a game of two players in a table, what is stable in it, and why."""

import shlex
from typing import Any

import numpy as np

import equipoise as eq
from equipoise.core.errors import InputError
from equipoise.report import certificate_table, player_names
from equipoise.studio._games import (
    described,
    game_of,
    in_python,
    on_command_line,
    payoffs_of,
    tables,
)

#: Seconds within which a page is answered.
_SECONDS = 8.0
#: Small triangles along an edge of the picture, and rounds of learners that are drawn.
_EDGE, _DRAWN = 36, 240
#: Equilibria that are listed, at most.
_LISTED = 200
_CONCEPTS = ("nash", "ce", "cce")


def table_of(table: Any) -> dict[str, Any]:
    """A table as the pages draw it."""
    return {"columns": list(table.columns), "rows": [list(row) for row in table.rows]}


def certificate_of(game: Any, certificate: Any) -> dict[str, Any]:
    """A certificate as the pages draw it."""
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
    weights = np.asarray(given, float)
    if weights.shape != (2,) or not np.isfinite(weights).all():
        raise InputError("objective", "a name or one weight for each player", repr(given))
    return [round(float(weight), 6) for weight in weights]


def _solve(studio: Any, request: dict[str, Any]) -> dict[str, Any]:
    """One equilibrium of the concept and objective that the page asks for."""
    given = request.get("game")
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
    said = "".join(f", {name}={word!r}" for name, word in options.items())
    flags = "".join(f" --{name} {shlex.quote(str(word))}" for name, word in options.items())
    return {
        "policy": [policy[0], policy[1]] if concept == "nash" else None,
        "joint": None if concept == "nash" else policy.joint,
        "value": solution.certificate.value,
        "status": str(solution.status),
        "solved": bool(solution.status.ok),
        "tolerance": float(np.max(solution.tolerance)),
        "certificate": certificate_of(game, solution.certificate),
        "python": "\n".join(
            [
                "import equipoise as eq",
                in_python(game, given or {}),
                f"solution = eq.solve(game{said})",
                "print(solution.value, solution.certificate.max_upper)",
            ]
        ),
        "command": f"equipoise solve {on_command_line(given or {})}{flags}",
    }


def _equilibria(studio: Any, request: dict[str, Any]) -> dict[str, Any]:
    """All extreme equilibria."""
    game = game_of(studio, request.get("game"))
    found = eq.equilibria(game, time_limit=_SECONDS)
    listed = [
        {
            "policy": [one.policy[0], one.policy[1]],
            "value": one.certificate.value,
            "upper": float(one.certificate.max_upper),
        }
        for one in list(found)[:_LISTED]
    ]
    return {"equilibria": listed, "count": len(found), "status": str(found.status)}


def _certify(studio: Any, request: dict[str, Any]) -> dict[str, Any]:
    """The certificate of the policies that somebody drags."""
    game = game_of(studio, request.get("game"))
    policy = request.get("policy")
    if not isinstance(policy, list) or len(policy) != 2:
        raise InputError("policy", "one list of probabilities for each player", repr(policy))
    certificate = eq.certify(game, tuple(policy))
    return {**certificate_of(game, certificate), "value": certificate.value}


def _replies(studio: Any, request: dict[str, Any]) -> dict[str, Any]:
    """For each player with 2 or 3 actions: where on its simplex which reply of the other is best.

    A reply is best where its certificate says that nothing is gained by leaving it.
    """
    game = game_of(studio, request.get("game"))
    found: list[Any] = [None, None]
    for player, payoff in enumerate(payoffs_of(game)[::-1]):
        own, other = game.actions[player], game.actions[1 - player]
        if own > 3 or other > 12:
            continue
        table = payoff.T if player == 0 else payoff  # rows are the replies of the other
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
    """Middles of the small segments or triangles that a simplex is cut into, as pages cut it.

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
    """What two learners hold, round by round, and its NashConv."""
    game = game_of(studio, request.get("game"))
    if not isinstance(game, eq.MatrixGame):
        raise InputError("game", "a zero-sum game for learners", game.describe())
    name, rounds = str(request.get("learner", "omd")), int(request.get("rounds", 2000))
    seed = int(request.get("seed", 0))
    if not 1 <= rounds <= 100_000:
        raise InputError("rounds", "1 to 100,000", rounds)
    learner = eq.dynamics.make_learner(name, markov=False, rounds=rounds)
    low, high = float(np.min(game.payoff)), float(np.max(game.payoff))
    reward_range = (low, high if high > low else low + 1.0)
    record = np.unique(np.geomspace(1, rounds, _DRAWN).round().astype(int)).tolist()
    trace = eq.dynamics.play(
        game, learner, learner, rounds=rounds, key=seed, record=record, reward_range=reward_range
    )
    python = "\n".join(
        [
            "import equipoise as eq",
            in_python(game, request.get("game") or {}),
            f"learner = eq.dynamics.make_learner({name!r}, markov=False, rounds={rounds})",
            f"trace = eq.dynamics.play(game, learner, learner, rounds={rounds}, key={seed}, "
            f"reward_range={reward_range})",
        ]
    )
    return {
        "rounds": trace.recorded.rounds,
        "last": [np.asarray(policy) for policy in trace.recorded.last],
        "curve": trace.curve,
        "average_curve": trace.average_curve,
        "python": python,
    }


def _learners(studio: Any, request: dict[str, Any]) -> dict[str, Any]:
    known = eq.dynamics.LEARNERS
    return {"learners": [[key, one.title] for key, one in known.items() if one.matrix is not None]}


def _save(studio: Any, request: dict[str, Any]) -> dict[str, Any]:
    """Write the game to a file below the folder, for the command line."""
    path = studio.folder.upload_path(request.get("file"))
    path.parent.mkdir(exist_ok=True)
    eq.games.write(game_of(studio, request.get("game")), path)
    return {"file": studio.folder.name_of(path)}


CALLS = {
    "catalogue": _catalogue,
    "certify": _certify,
    "equilibria": _equilibria,
    "learners": _learners,
    "open": _open,
    "paths": _paths,
    "replies": _replies,
    "save": _save,
    "solve": _solve,
}
JOBS: dict[str, Any] = {}
