"""From a log to a policy in one call: what `equipoise offline` does, for Python.

Discrete actions: classes of rewards compete on held-out rows (`discover`); the one that is chosen
is fitted, and decentralised learning finds policies near what the log covers, each from all rows
but a part that judges it (`_bounds`). Continuous actions: critics and actors of `offline.deep` from
several starts, and best replies in the mean of the critics.

The work is a sequence of steps that do not depend on when they are done. Ctrl-C stops between two
of them, and a run folder keeps the results of those that are done.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import Any, cast

import jax
import numpy as np

from equipoise.certificates import certify, solution_from_plain
from equipoise.core import InputError, Outcome, Solution, Status, checks
from equipoise.core.randomness import as_key
from equipoise.games import ContinuousPolicy, Mixture, write_policy
from equipoise.offline import deep
from equipoise.offline._aggregate import KINDS, aggregate_note
from equipoise.offline._discover import Structure
from equipoise.offline._discrete import learn_discrete, write_table
from equipoise.offline._log import Log
from equipoise.offline._own_play import facts_of, own_play, own_points, refused, status_as
from equipoise.offline._pieces import Source
from equipoise.offline._solve import in_model
from equipoise.offline.deep._fit import FEWEST
from equipoise.offline.deep._settle import settle, shown
from equipoise.runs import Record, Run, interruptible

#: Critics of continuous actions are fitted, and actors improved, from so many starts.
STARTS = 5
#: Actors have settled where nobody gains more than this part of the rewards' standard deviation.
SETTLED = 0.05


@dataclass(frozen=True, eq=False)
class Advice(Solution[Any]):
    """A `Solution` that was learned from a log, with what the log says about it.

    **Example**

    >>> import equipoise as eq
    >>> game = eq.games.families.polymatrix(agents=3, actions=2).sample(key=0)
    >>> log = eq.offline.collect(game, "uniform", samples=1_000, key=1)
    >>> advice = eq.offline.learn(log)
    >>> low, high = advice.interval
    >>> low < advice.bound == high, advice.structure.chosen
    (True, 2)
    """

    @property
    def structure(self) -> Structure | None:
        """What kind of game the log comes from; None where it was not asked."""
        plain = self.stats.get("structure")
        return None if plain is None else Structure.from_plain(plain)

    @property
    def interval(self) -> tuple[float, float] | None:
        """Where the gap of the policy in the logged game lies; None where nothing is known."""
        found = self.stats.get("interval")
        return None if found is None else (float(found[0]), float(found[1]))

    @property
    def bound(self) -> float:
        """Nobody gains more than this by a deviation that the log shows; infinite if unknown."""
        return float(self.stats.get("bound", np.inf))


def _advice(solution: Solution) -> Advice:
    return Advice(**{f.name: getattr(solution, f.name) for f in fields(solution)})


def learn(
    log: Log | str | os.PathLike[str] | Iterable[Log],
    *,
    rank: int | str = "auto",
    neighbours: Any = "auto",
    critic: Any = None,
    iterations: int | None = None,
    step: float | None = None,
    strength: float | None = None,
    level: float = 0.9,
    force: bool = False,
    key: Any = 0,
    run: str | os.PathLike[str] | None = None,
) -> Advice:
    """Learn a near-equilibrium from a log, and bound what anybody could gain by leaving it.

    Args:
        log: A log, the path of one, or pieces of one that is larger than memory, as
            `Log.read_chunks` gives them. All rows are fitted; of more than 400,000, a random
            selection of 200,000 to 400,000 chooses the class and judges what was learned.
        rank: The class of rewards: an interaction rank, "sum" or "histogram" (own action by an
            aggregate of the others'), or "auto" for the one that `discover` chooses. A class that
            another one beats on held-out rows is refused.
        neighbours: Whose actions may matter to an agent, as for `fit`: "all", "screen", a number
            of the strongest, or a list for each agent; "auto" lets held-out rows decide.
        critic: For continuous actions, the critic: an architecture of `deep.ARCHITECTURES`,
            "linear", a `deep.Critic` or a `deep.LinearCritic`; "2-IR-64" when not given. A path is
            read as a log of continuous actions where a critic is given.
        iterations: Number of iterations of `solve`; for continuous actions, of steps of the actors.
        step: How far one iteration goes, as for `solve`.
        strength: How much staying near the log counts, as for `solve`.
        level: Confidence of the interval of the gap.
        force: Whether to learn even where that is refused; the status is then "inexact".
        key: Randomness of folds and networks.
        run: A folder that keeps what was done. The same call goes on after an interruption, and
            reads the result once it is there.

    Returns an `Advice`: a `Solution` with `structure`, `interval` and `bound`. Its `policy` is a
    `Mixture` over the log's agents and actions (for continuous actions a `ContinuousPolicy`). Its
    certificate is that of the *fitted model* and proves nothing about the game that was logged;
    `interval` and `bound` are about that game, from rows that the policies were not learned from.
    `status.name` is

    - "learned";
    - "nothing learned": rewards are predicted no better than by a constant;
    - "refused": the log cannot tell. The class of rewards does not fit, rewards drift, actions go
      together or were never tried, there are too few rows, or nothing shows that what was learned
      is better than the log's own play; or continuous actions did not settle: somebody gains more
      than 5% of the rewards' standard deviation in the critics. The message says what to change;
    - "inexact": refused, but learned all the same because of `force`;
    - "interrupted": Ctrl-C came first.

    Where nothing was learned, the policy is the log's own play, and the bounds are about that.

    `stats` holds plain values only: numbers, words, lists, dictionaries and arrays.

    - Of every log: `agents`, `samples`, `contexts`, `actions` (of each agent; empty where they are
      continuous), `labels` (`Labels.to_plain()`), `warnings` (sentences), `gap` (a dictionary with
      `gap`, that in the fitted model, and `text`) and `own_gap` (of the log's own play).
    - Of discrete actions: `structure` (`Structure.to_plain()`), `interval`, `bound`, `unknown`
      (deviations that the log never shows), `own_interval`; by agent `earned`, `expected`,
      `expected_error`, `gains` and `gains_at_most`; `deviations` (`gain`, `lower` and `upper` of
      always playing an action, by agent and action, NaN where the log does not show it);
      `coverage` (`covered`, `fewest`,
      `concentrability` by agent), `single_action`, `chi_squared`, `samples_per_parameter`; and the
      model's `rank`, `noise`, `behaviour`, and where it has terms `interactions` (the strongest:
      `reward_of`, `with`, `strength`, `lower`, `upper`) and (agents, agents) arrays of its
      `InteractionMap`: `strength_total`, `strengths`, `strengths_lower`, `strengths_upper`.
    - Of continuous actions: `critic`, `parameters`, `explained` (held-out variance that critics
      explain, by agent), `steps` (of the actors).

    **Example**

    >>> import equipoise as eq
    >>> game = eq.games.families.polymatrix(agents=4, actions=3).sample(key=0)
    >>> log = eq.offline.collect(game, "uniform", samples=2_000, key=1)
    >>> advice = eq.offline.learn(log)
    >>> str(advice.status.name), advice.structure.chosen
    ('learned', 2)
    >>> low, high = advice.interval
    >>> bool(low <= eq.certify(game, advice.policy).max_gain <= high)
    True
    """
    if isinstance(log, str | os.PathLike):
        log = Log.read(log, **({} if critic is None else {"continuous": True}))
    if not isinstance(log, Log | Iterable):
        raise InputError("log", "a Log, a path or pieces of one", type(log).__name__)
    source = None
    if not isinstance(log, Log) or not log.continuous:
        source = Source.of(log, again=True)
    log = log if isinstance(log, Log) else cast(Source, source).log
    options = {
        **{"rank": rank, "neighbours": neighbours, "critic": critic, "force": force},
        **{"iterations": iterations, "step": step, "strength": strength, "level": level},
    }
    _check(log, options)
    key = as_key(key)

    def pipeline(folder: Run | None) -> Solution:
        if source is None:
            return _learn_continuous(log, options, key, folder)
        return learn_discrete(source, options, key, folder)

    if run is None:
        return _advice(pipeline(None))
    words = np.asarray(jax.random.key_data(key))
    config = {"log": log.name, "fingerprint": log.fingerprint(), **options, "key": words}
    with Run.start(run, config) as folder:
        if folder.finished:
            return _advice(solution_from_plain(folder.record().solution or {}))
        solution = pipeline(folder)
        if solution.status.name != Outcome.INTERRUPTED:
            write_policy(folder.path / "policy.json", solution.policy)
            if isinstance(solution.policy, Mixture):
                write_table(folder.path / "policy.csv", log, solution.policy)
            labels = {"labels": log.labels.to_plain()}
            folder.finish(Record(log.name, folder.config, labels, solution=solution.to_plain()))
        return _advice(solution)


def _check(log: Log, options: dict[str, Any]) -> None:
    """Refuse wrong options before any work, and fill in those that were not given."""
    if options["iterations"] is not None:
        checks.check_count("iterations", options["iterations"])
    if log.continuous:
        usual = {"rank": "auto", "neighbours": "auto", "step": None, "strength": None}
        for name, value in usual.items():
            if options[name] != value:
                raise InputError(name, f"{value} for continuous actions", options[name])
        options["critic"] = _critic(options["critic"], log.agents)
        return
    if options["critic"] is not None:
        raise InputError("critic", "none for actions that can be counted", options["critic"])
    rank = options["rank"]
    if rank in KINDS:
        if note := aggregate_note(log, rank):
            raise InputError("rank", "an aggregate that the log allows", note)
    elif rank != "auto" and checks.check_count("rank", rank) > log.agents:
        raise InputError("rank", f"at most the {log.agents} agents", rank)
    for name, low_open in (("step", True), ("strength", False)):
        if options[name] is not None:
            checks.check_range(name, options[name], 0.0, np.inf, low_open=low_open, high_open=True)
    checks.check_range("level", options["level"], 0.0, 1.0, low_open=True, high_open=True)


def _critic(given: Any, agents: int) -> Any:
    if isinstance(given, deep.Critic | deep.LinearCritic):
        return given
    if given is None or given == "linear":
        return (deep.Critic if given is None else deep.LinearCritic)(rank=min(2, agents))
    if given not in deep.ARCHITECTURES:
        known = ", ".join(["linear", *deep.ARCHITECTURES])
        raise InputError("critic", f"one of {known}, or a Critic", repr(given))
    return deep.Critic.named(given)


def _learn_continuous(
    log: Log, options: dict[str, Any], key: jax.Array, run: Run | None
) -> Solution:
    facts = facts_of(log)
    if log.samples < FEWEST:
        return refused(log, f"{log.samples} rows are fewer than the {FEWEST} needed", facts)
    parts = [None if run is None else run.path / name for name in ("critics", "actors")]
    steps, starts = options["iterations"], 1 if log.states is not None else STARTS
    method = deep.TD3BC() if steps is None else deep.TD3BC(steps=steps)
    with interruptible() as stop:
        critics = deep.fit(log, options["critic"], key=key, run=parts[0], trials=starts)
        actors = None
        if not stop:
            other = jax.random.fold_in(key, 1)
            actors = deep.improve(critics, log, method, key=other, run=parts[1])
    explained = critics.explained.mean(0)
    facts |= {
        "critic": str(options["critic"]),
        "parameters": critics.parameters,
        "explained": explained,
        "steps": 0 if actors is None else actors.steps,
    }
    own = own_points(log)
    policy, status = own if actors is None else actors.policy, None
    if stop:
        done = f"{facts['steps']} steps of the actors" if actors else "fitting the critics"
        status = status_as(Outcome.INTERRUPTED, f"stopped while or after {done}")
    elif explained.mean() <= 0 and not options["force"]:
        policy = own
        status = status_as(
            Outcome.NOTHING_LEARNED,
            "critics explain held-out rewards no better than a constant does; the log's own play "
            "is returned",
        )
    if log.states is not None:
        text = "not estimated: rewards of several steps are no game of one"
        stats = facts | {"gap": {"gap": None, "text": text}, "own_gap": None}
        status = status or status_as(Outcome.LEARNED, f"gains are {text}")
        return replace(own_play(log, status, stats), policy=policy)
    game, tolerance = critics.as_game(None), SETTLED * float(np.std(log.rewards, 0).max())
    if status is None and actors is not None:
        policy = ContinuousPolicy(settle(critics, log, actors.points, tolerance / 10))
    found, before = (in_model(certify(game, each)) for each in (policy, own))
    if status is None:
        low, high = shown(log)
        narrow = f"the log shows actions from {low.max():.3g} to {high.min():.3g} alone"
        hint = (
            narrow if (high - low).min() < 1.9 else "perhaps no agent should play one number alone"
        )
        given = (tolerance, hint, options["force"])
        policy, found, status = _judged((policy, found), (own, before), *given)
    gap = float(found.max_gain)
    stats = facts | {"own_gap": float(before.max_gain)}
    stats["gap"] = {"gap": gap, "text": f"{gap:.4g} in the fitted model, by search"}
    return Solution(policy, np.asarray(found.value), found, status, stats=stats)


def _judged(
    learned: tuple[Any, Any], own: tuple[Any, Any], tolerance: float, hint: str, force: bool
) -> tuple[Any, Any, Status]:
    """What is returned of (policy, certificate) pairs, by those certificates, and the status."""
    gap = float(learned[1].max_gain)
    if gap <= tolerance:
        message = f"nobody gains more than {gap:.3g} in the fitted critics, by search"
        return *learned, status_as(Outcome.LEARNED, message)
    refusal = (
        f"actions do not settle: somebody still gains {gap:.3g} in the fitted critics, more than "
        f"{tolerance:.3g}, {SETTLED:.0%} of the standard deviation of rewards; {hint}"
    )
    if force:
        message = f"{refusal}; learned all the same, as was asked for"
        return *learned, status_as(Outcome.INEXACT, message)
    return *own, status_as(Outcome.REFUSED, f"{refusal}; the log's own play is returned")
