"""Solvers of general-sum games: normal forms, Markov games, many agents, continuous actions.

Each function here calls a solver of plain arrays, converts its answer to a policy, and lets the
certificate decide whether the game is solved.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, overload

import numpy as np

from equipoise.certificates import certify
from equipoise.core import checks
from equipoise.core.errors import InputError, named_arguments
from equipoise.core.html import format_value
from equipoise.core.kernels.lemke_howson import lemke_howson
from equipoise.core.reductions import largest, total
from equipoise.core.results import (
    ADVICE,
    ROUNDING,
    SMALLEST,
    Interval,
    Solution,
    Status,
    finish,
    judged,
)
from equipoise.core.rounding import normalise
from equipoise.core.text import about, first_rows, named, play_in_words
from equipoise.games import (
    ContextualGame,
    ContinuousGame,
    DecoupledMarkovGame,
    JointPolicy,
    MarkovGame,
    MatrixGame,
    Mixture,
    NormalFormGame,
    PolynomialTerms,
    Profile,
)
from equipoise.solvers import _bimatrix, _nplayer
from equipoise.solvers._continuous import largest_reward
from equipoise.solvers._continuous import solve_continuous as find_continuous
from equipoise.solvers._markov import solve_stationary
from equipoise.solvers._markov_general import solve_discounted, solve_finite
from equipoise.solvers._matrix import TOLERANCE, as_tolerance, solve_zero_sum
from equipoise.solvers._normal_form import CONCEPTS, Answer, solve_table
from equipoise.solvers._structured import solve_structured as find_structured
from equipoise.solvers._units import (
    BETTER,
    by_player,
    by_range,
    in_usual_units,
    is_plain,
    more_help,
    similar,
)

Progress = Callable[[dict[str, Any]], None]
#: Default time limit of games with three and more players, in seconds.
TIME_LIMIT = 60.0

#: Why some equilibria are not listed, by what ended the search for them.
_UNLISTED = {
    "out of time": "time ran out, and more may exist: raise `time_limit`",
    "memory": "memory ran out, and more may exist",
    "interrupted": "interrupted, and more may exist",
}


@named_arguments
def solve_matrix(
    game: MatrixGame,
    *,
    tolerance: float | None = None,
    concept: str = "nash",
    objective: Any = None,
    time_limit: float = TIME_LIMIT,
) -> Solution:
    """Return a Nash equilibrium of a zero-sum matrix game, or of every game of a batch.

    Args:
        game: One game or a batch.
        tolerance: Largest gain allowed, in units of payoff. Default: 1e-8 of the payoff range of
            each game.
        concept: "nash", or one of the other concepts of `solve_normal_form`, which then solves the
            game.
        objective: Which equilibrium to select; see `solve_normal_form`. Default: any.
        time_limit: Seconds for a selection, or for another concept than "nash".

    See `equipoise.core.zerosum` for the method.

    **Example**

    >>> import equipoise as eq
    >>> from equipoise.solvers import solve_matrix
    >>> solution = solve_matrix(eq.games.load("rock-paper-scissors"))
    >>> solution.solved, solution.policy[0].round(6).tolist()
    (True, [0.333333, 0.333333, 0.333333])
    """
    if time_limit is not TIME_LIMIT:
        checks.check_range("time_limit", time_limit, 0.0, np.inf)
    if concept == "nash" and objective is None:
        return solve_zero_sum(game, tolerance=tolerance)
    payoff = np.asarray(game.payoff, np.float64)
    both = NormalFormGame(np.stack([payoff, -payoff], -3), players=2, labels=game.labels)
    options: dict[str, Any] = {"concept": concept, "objective": objective}
    found = solve_normal_form(both, tolerance=tolerance, time_limit=time_limit, **options)
    stats = {name: value for name, value in found.stats.items() if name != "tolerances"}
    return replace(found, value=found.value[..., 0], stats=stats, game=game)


@named_arguments
@in_usual_units
def solve_normal_form(
    game: NormalFormGame,
    *,
    concept: str = "nash",
    objective: Any = None,
    method: str = "auto",
    start: int = 0,
    rationality: float | None = None,
    tolerance: float | None = None,
    time_limit: float = TIME_LIMIT,
    progress: Progress | None = None,
) -> Solution:
    """Return an equilibrium of a normal-form game, or of each game of a batch.

    Args:
        game: One game or a batch, of any number of players. Nash equilibria of a batch of bimatrix
            games are found together, all others one after the other.
        concept: "nash"; "ce" or "cce", a correlated or coarse correlated equilibrium, whose policy
            is a `JointPolicy`; "logit", the quantal response equilibrium at `rationality`.
        objective: Which equilibrium to select: "welfare" (largest sum of values), "egalitarian"
            (largest smallest value), "entropy", one weight for each player, or a table with a value
            for each cell. Default: any equilibrium. `solution.objective` is the interval from the
            objective attained to an upper bound over all equilibria.
        method: "auto", or "logit" to follow the logit path even where a pure equilibrium exists.
        start: The label that the Lemke-Howson algorithm drops first: an action of the row player,
            or the number of those plus an action of the column player.
        rationality: Rationality of a quantal response equilibrium, in units of one over payoff.
        tolerance: Largest gain allowed, in units of payoff. Default: 1e-8 of the payoff range.
        time_limit: Seconds after which the best policy found so far is returned, for all games
            of a batch together.
        progress: Called from time to time with a dictionary of numbers.

    **Example**

    >>> import equipoise as eq
    >>> from equipoise.solvers import solve_normal_form
    >>> chicken = eq.NormalFormGame([[[6, 2], [7, 0]], [[6, 7], [2, 0]]])
    >>> best = solve_normal_form(chicken, concept="ce", objective="welfare")
    >>> best.policy.joint.round(6).tolist(), best.value.round(6).tolist()
    ([[0.5, 0.25], [0.25, 0.0]], [5.25, 5.25])
    """
    if concept not in CONCEPTS:
        raise InputError("concept", f"one of {', '.join(CONCEPTS)}", repr(concept))
    if method not in ("auto", "logit"):
        raise InputError("method", "auto or logit", repr(method))
    if (concept == "logit") != (rationality is not None):
        raise InputError("rationality", 'a number if concept is "logit", else None', rationality)
    if rationality is not None:
        checks.check_range("rationality", rationality, 0.0, np.inf)
    if concept == "logit" and objective is not None:
        expected = 'none with concept="logit"'
        raise InputError("objective", expected, repr(objective))
    checks.check_range("time_limit", time_limit, 0.0, np.inf)
    begun = time.perf_counter()
    start = checks.check_count("start", start, 0)
    if start >= sum(game.actions):
        raise InputError("start", f"a label from 0 to {sum(game.actions) - 1}", start)
    batch, shape = game.batch_shape, (game.players, *game.actions)
    payoffs = np.asarray(game.payoffs, np.float64).reshape(-1, *shape)
    if not len(payoffs):
        raise InputError("game", "at least one game", f"a batch of shape {batch}")
    if batch and is_plain(game, concept, method, objective):
        return _solve_bimatrices(game, payoffs, start, tolerance, time_limit)
    ranges = np.ptp(payoffs.reshape(len(payoffs), game.players, -1), -1).max(-1)
    allowed = as_tolerance(tolerance, np.stack([0.0 * ranges, ranges], -1), batch)
    answers: list[Answer] = []
    for g, table in enumerate(payoffs):
        left = time_limit - (time.perf_counter() - begun)
        if answers and answers[-1].ended == "interrupted":
            time_limit = left = 0.0  # the remaining games use only methods that need no time
        share = 0.1 * float(allowed.reshape(-1)[g]) / max(float(ranges[g]), 1e-300)
        answers.append(
            solve_table(
                table,
                concept,
                objective,
                method=method,
                start=start,
                rationality=np.inf if rationality is None else rationality,
                tolerance=min(max(share, 1e-12), 1e-3),
                time_limit=max(left, 0.0) / (len(payoffs) - g),
                progress=progress,
            )
        )
    profiles = [a.profile for a in answers if a.profile is not None]
    if profiles:
        policy: Any = Profile(
            [np.stack(s).reshape(*batch, -1) for s in zip(*profiles, strict=True)]
        )
    else:
        joint = np.stack([np.asarray(a.joint) for a in answers]).reshape(*batch, *game.actions)
        policy = JointPolicy(joint, game.players)
    how = " and ".join(dict.fromkeys(a.method for a in answers))
    stats: dict[str, Any] = {"method": how, **_stats([a.stats for a in answers], batch)}
    stats["seconds"] = time.perf_counter() - begun
    attained = None if objective is None else _attained(stats, batch)
    reasons = {a.ended for a in answers}
    ended = next((r for r in ("interrupted", "out of time", "stuck") if r in reasons), "solved")
    certificate = certify(game, policy, concept="nash" if concept == "logit" else concept)
    if concept == "logit":
        reached = np.array([a.ended == "solved" for a in answers]).reshape(batch)
        message = f"quantal response equilibrium at rationality {rationality:g}, not a Nash one"
        if not reached.all():
            message = f"the logit path was not followed to rationality {rationality:g}"
        status, none = judged(reached, message, ended), np.full(batch, np.nan)
        value: Any = certificate.value
        return Solution(policy, value, certificate, status, none, stats=stats, game=game)
    return finish(
        policy,
        certificate,
        by_player(game, allowed, tolerance),
        ended,
        how=how,
        advice=more_help(game, concept),
        objective=attained,
        though=BETTER if objective is not None else "",
        stats=stats,
        game=game,
    )


def _stats(found: list[dict[str, Any]], batch: tuple[int, ...]) -> dict[str, Any]:
    """Return the statistics of one game, or those that all games of a batch have."""
    if not batch:
        return found[0]
    names = [n for n, v in found[0].items() if np.ndim(v) == 0 and all(n in own for own in found)]
    return {name: np.array([own[name] for own in found]).reshape(batch) for name in names}


def _attained(stats: dict[str, Any], batch: tuple[int, ...]) -> Interval:
    """Move the objective and its bound out of the statistics; infinite where there is none."""
    lower = stats.pop("objective")
    upper = stats.pop("bound", np.full(batch, np.inf)[()])
    return Interval(lower, np.fmax(lower, upper))


def _ranges(payoffs: np.ndarray) -> np.ndarray:
    """(1, 2): zero and the largest payoff range of any player, which sets the tolerance."""
    return np.array([[0.0, np.ptp(payoffs.reshape(len(payoffs), -1), -1).max()]])


def _solve_bimatrices(
    game: NormalFormGame,
    payoffs: np.ndarray,
    start: int,
    tolerance: float | None,
    time_limit: float,
) -> Solution:
    """Find Nash equilibria of many bimatrix games at once."""
    begun, deadline = time.perf_counter(), time.monotonic() + time_limit
    batch, (rows, columns) = game.batch_shape, game.actions
    x, y, pivots, spread = lemke_howson(payoffs, start)
    given = as_tolerance(tolerance, np.zeros((1, 1)), ())
    most = largest(spread)
    allowed = np.where(most > 0.0, np.maximum(TOLERANCE * most, SMALLEST), 0.0)
    allowed = by_range(spread, allowed) if tolerance is None else np.full((len(x), 2), given)
    allowed = allowed.reshape(*batch, 2)

    def certified() -> Solution:
        policy = Profile.computed(x.reshape(*batch, rows), y.reshape(*batch, columns))
        late = "out of time" if time.monotonic() > deadline else "stuck"
        stats = {"pivots": pivots.reshape(batch), "seconds": time.perf_counter() - begun}
        words: dict[str, Any] = {"how": "Lemke-Howson", "advice": more_help(game, "nash")}
        certificate = certify(game, policy)
        return finish(policy, certificate, allowed, late, **words, stats=stats, game=game)

    lost = ~(total(x) > 0.5)
    x[lost], y[lost] = 1.0 / rows, 1.0 / columns
    solution = certified()
    missed = np.flatnonzero(~np.asarray(solution.solved).reshape(-1))
    if len(missed):
        x, y = np.array(x), np.array(y)
        table, own_x, own_y = similar(normalise(payoffs[missed], 2), 2), x[missed], y[missed]
        goal = 0.1 * allowed.reshape(len(x), -1)[missed]
        with np.errstate(over="ignore"):
            goal = np.ldexp(goal, -np.asarray(table.exponent)).min(-1)
        each, more = np.arange(len(missed)), np.zeros(len(missed), np.int64)
        _bimatrix.repair(table.scaled, own_x, own_y, more, each, start, goal, deadline)
        x[missed], y[missed] = own_x, own_y
        pivots[missed] += more
        solution = certified()
    return solution


@named_arguments
@in_usual_units
def solve_markov(
    game: MarkovGame,
    *,
    tolerance: float | None = None,
    max_sweeps: int = 1000,
    concept: str = "nash",
    objective: Any = None,
    time_limit: float = TIME_LIMIT,
    progress: Progress | None = None,
) -> Solution:
    """Return an equilibrium of a Markov game.

    Zero-sum games without horizon get stationary policies, by Shapley's iteration of at most
    `max_sweeps` sweeps. The other options apply to all other games.

    With `horizon`, backward induction on stage games gives policies (steps, states, actions). A
    discounted game gets a stationary policy if the iteration finds one, and otherwise a policy for
    a truncated horizon whose last step is repeated; `stats["truncation"]` bounds the error of
    truncation. The objective applies to each stage game.

    - `tolerance`: the largest gain allowed from any starting state. Default: 1e-8 of the range of
      rewards, divided by one minus the discount or times the steps of the horizon.
    - `concept`: "nash", "ce" or "cce".
    - `time_limit`: seconds after which the best policy found so far is returned.

    **Example**

    >>> import equipoise as eq
    >>> from equipoise.solvers import solve_markov
    >>> solution = solve_markov(eq.games.load("hide-or-run"))
    >>> solution.solved, solution.stats["sweeps"] < 20
    (True, True)
    """
    if concept not in ("nash", "ce", "cce"):
        raise InputError("concept", "one of nash, ce, cce", repr(concept))
    checks.check_range("time_limit", time_limit, 0.0, np.inf)
    if game.zero_sum and game.horizon is None and concept == "nash":
        if objective is not None:
            raise InputError(
                "objective", "none for a zero-sum game, which has one value", objective
            )
        return solve_stationary(game, tolerance=tolerance, max_sweeps=max_sweeps)
    if game.batch_shape:
        raise InputError("game", "a single game", f"a batch of {game.batch_shape}")
    begun = time.perf_counter()
    reward, transition = game.rewards(), np.asarray(game.transition, np.float64)
    steps = float(game.horizon or np.inf)
    discount = game.discount
    total = steps if discount == 1.0 else (1.0 - discount**steps) / (1.0 - discount)
    allowed = as_tolerance(tolerance, _ranges(reward), (), total)
    options: dict[str, Any] = {"concept": concept, "objective": objective}
    options |= {"time_limit": time_limit, "progress": progress}
    if game.horizon is not None:
        cells = (8, game.horizon, game.states, *game.actions)
        checks.check_memory("horizon", cells, "joint actions of every step", "use a shorter one")
        answer = solve_finite(reward, transition, game.horizon, discount=discount, **options)
    else:
        answer = solve_discounted(
            reward, transition, discount, tolerance=0.5 * float(allowed), **options
        )
    first = answer.method == "stationary"
    if answer.profile is None:
        policy = JointPolicy(answer.joint[0] if first else answer.joint, game.players)
    else:
        policy = Profile([own[0] if first else own for own in answer.profile])
    certificate = certify(game, policy, concept=concept)
    ended = "solved" if answer.ended == "stuck" else answer.ended
    stats: dict[str, Any] = {"method": answer.method, "steps": len(answer.joint)}
    if answer.truncation:
        stats["truncation"] = answer.truncation
    stats["seconds"] = time.perf_counter() - begun
    allowed = by_player(game, allowed, tolerance)
    words: dict[str, Any] = {"how": answer.method, "advice": more_help(game, concept)}
    return finish(policy, certificate, allowed, ended, **words, stats=stats, game=game)


@named_arguments
def solve_interaction(
    game: ContextualGame | DecoupledMarkovGame,
    *,
    concept: str = "cce",
    tolerance: float | None = None,
    time_limit: float = TIME_LIMIT,
    key: int = 0,
    progress: Progress | None = None,
) -> Solution:
    """Return a coarse correlated equilibrium of many agents, or a pure Nash one if one is found.

    Best-reply dynamics are tried first; in a potential game they end in a pure equilibrium.
    No-regret learning and linear programs over its iterates follow. With `concept="nash"`, only
    best-reply dynamics and, in games of pairs, the linear program of zero-sum games are used.
    `tolerance` defaults to 1e-8 of the range of rewards; `key` seeds the order of moves.

    **Example**

    >>> import equipoise as eq
    >>> from equipoise.solvers import solve_interaction
    >>> game = eq.games.families.polymatrix(agents=3, actions=2).sample(key=0)
    >>> solution = solve_interaction(game)
    >>> solution.solved, solution.policy.kind
    (True, 'mixture')
    """
    if concept not in ("nash", "cce"):
        raise InputError("concept", "nash or cce", repr(concept))
    checks.check_range("time_limit", time_limit, 0.0, np.inf)
    key = checks.check_count("key", key, 0)
    begun = time.perf_counter()
    tables = [np.asarray(t, np.float64) for t in game.interactions.tables.values()]
    spread = sum(float(np.ptp(t)) for t in tables) or 1.0
    horizon = float(getattr(game, "horizon", 1))
    allowed = as_tolerance(tolerance, np.array([[0.0, spread]]), (), horizon)
    found = find_structured(
        game,
        concept=concept,
        tolerance=0.5 * float(allowed),
        time_limit=time_limit,
        seed=key,
        progress=progress,
    )
    policy = Mixture(found.policies, found.weights)
    stats: dict[str, Any] = {"method": found.method, "programs": found.rounds}
    stats["seconds"] = time.perf_counter() - begun
    words: dict[str, Any] = {"who": "agent", "how": found.method, "advice": "try another `key`"}
    certificate = certify(game, policy)
    return finish(policy, certificate, allowed, found.ended, **words, stats=stats, game=game)


@named_arguments
def solve_continuous(
    game: ContinuousGame,
    *,
    tolerance: float | None = None,
    time_limit: float = TIME_LIMIT,
    key: int = 0,
    progress: Progress | None = None,
) -> Solution:
    """Return a Nash equilibrium of a game with continuous actions, pure if one is found.

    Best-reply dynamics, extragradient steps and, for two or three agents, a double oracle are tried
    in turn. The default `tolerance` is 1e-6 of the largest reward that polynomial terms can give;
    if rewards are a function, it is 1e-6 of half of their range at actions drawn at random.

    **Example**

    >>> import equipoise as eq
    >>> from equipoise.solvers import solve_continuous
    >>> game = eq.games.load("stamina-continuous", agents=3)
    >>> solve_continuous(game).solved
    True
    """
    checks.check_range("time_limit", time_limit, 0.0, np.inf)
    begun = time.perf_counter()
    allowed = np.asarray(1e-6 * largest_reward(game) if tolerance is None else tolerance)
    if tolerance is not None:
        checks.check_range("tolerance", float(allowed), 0.0, np.inf, low_open=True)
    found = find_continuous(
        game, tolerance=0.1 * float(allowed), time_limit=time_limit, seed=key, progress=progress
    )
    bound = ROUNDING
    if not isinstance(game.terms, PolynomialTerms) and game.terms.curvature is None:
        bound = "declare the `curvature` of rewards, from which narrow bounds are computed"
    words: dict[str, Any] = {"who": "agent", "how": found.method, "advice": "try another `key`"}
    stats = {"method": found.method, "seconds": time.perf_counter() - begun}
    certificate, words["bound"] = certify(game, found.policy), bound
    return finish(found.policy, certificate, allowed, found.ended, **words, stats=stats, game=game)


@dataclass(frozen=True)
class Equilibria(Sequence[Solution]):
    """Equilibria of one game, each certified; see `equilibria`.

    **Example**

    >>> import equipoise as eq
    >>> found = eq.equilibria(eq.games.load("stag-hunt"))
    >>> isinstance(found, eq.solvers.Equilibria), len(found.subsets)
    (True, 3)
    """

    #: The equilibria, each with a certificate.
    solutions: tuple[Solution, ...]
    #: Indices of the equilibria of each connected component. Empty, like `subsets`, if the list is
    #: not complete.
    components: tuple[tuple[int, ...], ...]
    #: Indices of the equilibria of each maximal Nash subset: every mixture of the strategies that a
    #: subset has for each player is an equilibrium.
    subsets: tuple[tuple[int, ...], ...]
    #: What is listed. Its `ok` is True only if these are all extreme equilibria.
    status: Status

    def __len__(self) -> int:
        return len(self.solutions)

    def __str__(self) -> str:
        """Return what was found, and for each equilibrium what the players do and their values."""
        words = about(self)

        def row(number: int, solution: Solution) -> tuple[str, ...]:
            parts = enumerate(solution.policy)
            plays = (f"{words.player(i)}: {play_in_words(p, words.actions(i))}" for i, p in parts)
            return f"{number}", "; ".join(plays), f"values {format_value(solution.value)}"

        lines = [words.title] if words.title else []
        rows = (row(k, solution) for k, solution in enumerate(self.solutions))
        return "\n".join([*lines, f"{self.status}", *first_rows(rows, len(self))])

    @overload
    def __getitem__(self, index: int) -> Solution: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Solution]: ...
    def __getitem__(self, index: int | slice) -> Solution | Sequence[Solution]:
        """Return one equilibrium, or several."""
        return self.solutions[index]

    def __iter__(self) -> Iterator[Solution]:
        return iter(self.solutions)


@named_arguments
def list_equilibria(
    game: NormalFormGame | MatrixGame, *, time_limit: float = TIME_LIMIT
) -> Equilibria:
    """Return all extreme Nash equilibria of a two-player game, or all pure ones of a larger game.

    Extreme equilibria are found in exact arithmetic; every equilibrium is a mixture of those of
    one maximal Nash subset. Players with a single action do not count. For a game of more than two
    players without a pure equilibrium, one mixed equilibrium is returned. `status.ok` is True only
    if the list is complete, and `status` says why it is not: more than two players, or the end of
    time or memory, or Ctrl-C.

    **Example**

    >>> import equipoise as eq
    >>> from equipoise.solvers import list_equilibria
    >>> found = list_equilibria(eq.games.load("battle-of-the-sexes"))
    >>> len(found), len(found.components), str(found.status.name)
    (3, 3, 'solved')
    >>> [[round(float(p), 4) for p in s.policy[0]] for s in found]
    [[0.0, 1.0], [0.6, 0.4], [1.0, 0.0]]
    """
    checks.check_range("time_limit", time_limit, 0.0, np.inf)
    if not isinstance(game, NormalFormGame | MatrixGame) or game.batch_shape:
        batch = getattr(game, "batch_shape", ())
        found = f"a batch of {batch}" if batch else type(game).__name__
        raise InputError("game", "a single NormalFormGame or MatrixGame", found)
    if isinstance(game, MatrixGame):
        payoffs = np.stack([np.asarray(game.payoff), -np.asarray(game.payoff)])
    else:
        payoffs = np.asarray(game.payoffs, np.float64)
    pure = _nplayer.pure_equilibria(payoffs)
    components, subsets = [], []
    free = [i for i, actions in enumerate(payoffs.shape[1:]) if actions > 1]
    if len(free) <= 2:
        shape = ([payoffs.shape[1 + i] for i in free] + [1, 1])[:2]
        tables = [payoffs[i].reshape(shape) for i in free] + [np.zeros(shape)] * 2
        all_of = _bimatrix.extreme_equilibria(*tables[:2], time_limit=0.8 * time_limit)
        profiles: list[Any] = []
        for pair in zip(all_of.x, all_of.y, strict=True):
            own = dict(zip(free, pair, strict=False))
            profiles.append(tuple(own.get(i, np.ones(1)) for i in range(len(payoffs))))
        components, subsets, ended = all_of.components, all_of.subsets or [], all_of.ended
        found = "equilibrium" if len(profiles) == 1 else "equilibria"
        parts = "1 component" if len(components) == 1 else f"{len(components)} components"
        what = f"extreme {found} in {parts}"
        if all_of.subsets is None:
            what += "; their maximal Nash subsets are too many to list"
    else:
        profiles = [_nplayer.pure_profile(payoffs, own) for own in pure]
        what = "pure equilibria; mixed equilibria of more than two players are not listed"
        ended = "listed in part"
        if not len(pure):
            mixed = _nplayer.nash(payoffs, time_limit=time_limit)
            profiles, ended = [mixed.profile], mixed.ended if mixed.ended in ADVICE else ended
            what = "mixed equilibrium and no pure equilibrium; other mixed ones are not listed"
    if ended != "solved" and len(free) <= 2:  # add equilibria that are cheap to compute
        one = solve_table(payoffs, time_limit=1.0).profile
        profiles = [one, *(_nplayer.pure_profile(payoffs, own) for own in pure), *profiles]
        different = {tuple(np.concatenate(p).round(9).tolist()): p for p in profiles}
        profiles = list(different.values())
    solutions: list[Solution] = []
    deadline = time.monotonic() + 0.2 * time_limit  # for certifying the equilibria found
    for profile in profiles:
        if solutions and time.monotonic() > deadline:
            ended = "out of time"
            break
        solutions.append(_certified(game, payoffs, profile))
    if ended in _UNLISTED:
        solutions = [solution for solution in solutions if solution.status.ok]
        components, subsets = [], []
        what = f"equilibria; {_UNLISTED[ended]}"
    solved = np.array(ended == "solved" and all(s.status.ok for s in solutions))
    listed = Equilibria(
        tuple(named(solution, game.about) for solution in solutions),
        tuple(tuple(part) for part in components),
        tuple(tuple(part) for part in subsets),
        judged(solved, f"{len(solutions)} {what}", ended),
    )
    return named(listed, game.about)


def _certified(game: Any, payoffs: np.ndarray, profile: Any) -> Solution:
    policy = Profile(profile)
    certificate = certify(game, policy)
    allowed = by_player(game, as_tolerance(None, _ranges(payoffs), ()))
    value = certificate.value[..., 0] if isinstance(game, MatrixGame) else certificate.value
    return finish(policy, certificate, allowed, advice=ROUNDING, value=value, game=game)
