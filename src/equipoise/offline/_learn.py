"""From a log to a policy in one call: what `equipoise offline` does, for Python.

Discrete actions: cross-validation chooses the interaction rank and compares it with a constant
(`select_rank`), least squares fits the rewards (`fit`), decentralised learning finds a policy near
what the log covers (`solve`), and models of resampled logs say where its gap lies (`estimate_gap`).
Continuous actions: critics and actors of `offline.deep`.

The work is a sequence of steps that do not depend on when they are done. Ctrl-C stops between two
of them, and a run folder keeps the results of those that are done.
"""

import os
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import jax
import numpy as np

from equipoise.certificates import TableCertificate, certify, solution_from_plain
from equipoise.core import InputError, Outcome, Solution, Status, checks
from equipoise.core.randomness import as_key
from equipoise.games import ContinuousPolicy, Mixture, write_policy
from equipoise.offline import deep
from equipoise.offline._coverage import behaviour_of, count_actions, coverage
from equipoise.offline._fit import fit, too_large
from equipoise.offline._gap import GapEstimate, Resampling, with_interval
from equipoise.offline._log import Log
from equipoise.offline._model import Model
from equipoise.offline._select import Comparison, RankSelection
from equipoise.offline._solve import in_model, solve
from equipoise.offline.deep._fit import FEWEST
from equipoise.runs import Record, Run, interruptible, resumable

#: Fewer rows than this cannot be split into rows to fit and rows to judge by.
FEWEST_ROWS = 4
#: How many logs are resampled, and how many of the strongest terms are kept.
RESAMPLED, STRONGEST = 20, 20


def learn(
    log: Log | str | os.PathLike[str],
    *,
    rank: int | str = "auto",
    neighbours: Any = "all",
    critic: Any = None,
    iterations: int | None = None,
    step: float | None = None,
    strength: float | None = None,
    bootstrap: int | None = None,
    force: bool = False,
    key: Any = 0,
    run: str | os.PathLike[str] | None = None,
) -> Solution:
    """Learn a near-equilibrium from a log, and say how far the log supports it.

    Args:
        log: A log, or the path of one.
        rank: The interaction rank, or "auto" to choose among 1, 2 and 3 by held-out error.
        neighbours: Whose actions may matter to an agent, as for `fit`: "all", "screen", a number
            of the strongest, or a list for each agent.
        critic: For continuous actions, the critic: an architecture of `deep.ARCHITECTURES`,
            "linear", a `deep.Critic` or a `deep.LinearCritic`; "2-IR-64" when not given. A path is
            read as a log of continuous actions where a critic is given.
        iterations: Number of iterations of `solve`; for continuous actions, of steps of the actors.
        step: How far one iteration goes, as for `solve`.
        strength: How much staying near the log counts, as for `solve`.
        bootstrap: How many resampled logs the interval of the gap comes from: 20 when not given,
            0 for no interval.
        force: Whether to learn even from too little data, or where no rank beats a constant.
        key: Randomness of folds, resampled logs and networks.
        run: A folder that keeps what was done. The same call goes on after an interruption, and
            reads the result once it is there.

    Returns a `Solution` whose `policy` is a `Mixture` over the log's agents and actions (for
    continuous actions a `ContinuousPolicy`) and whose certificate is that of the *fitted model*:
    nothing is proven about the game that was logged. `status.name` is

    - "learned";
    - "nothing learned": rewards are predicted no better than by a constant;
    - "refused": the log has too few rows, or the model would be too large; the message says what to
      change;
    - "interrupted": Ctrl-C came first.

    In all but the first case the policy is the log's own play, unless an interruption came after
    the policy was found.

    `stats` holds plain values only: numbers, words, lists, dictionaries and arrays.

    - Of every log: `agents`, `samples`, `contexts`, `actions` (of each agent; empty where they are
      continuous), `labels` (`Labels.to_plain()`), `warnings` (sentences), `gap` and `own_gap` (of
      the log's own play), both in the fitted model. `gap` is a dictionary,
      `GapEstimate.to_plain()`: `gap`, `interval`, `level`, `text`, ...; for continuous actions it
      has `gap` and `text` alone.
    - Of discrete actions: `coverage` (`covered`, `fewest`, `concentrability` by agent),
      `single_action` (agents who play one action throughout), `ranks` (a dictionary for each rank:
      `rank`, `error`, `standard_error`, `samples_per_parameter`, `note`); what `solve` counts
      (`iterations`, `step`, `strength`, `regulariser`, `chi_squared`, `samples_per_parameter`); and
      the model's `rank`, `noise`, `behaviour`, `interactions` (the strongest terms: `reward_of`,
      `with`, `strength`, `lower`, `upper`) and (agents, agents) arrays of its `InteractionMap`:
      `strength_total`, `strengths`, `strengths_lower`, `strengths_upper`.
    - Of continuous actions: `critic`, `parameters`, `explained` (held-out variance that critics
      explain, by agent), `steps` (of the actors).

    **Example**

    >>> import equipoise as eq
    >>> game = eq.games.families.polymatrix(agents=4, actions=3).sample(key=0)
    >>> log = eq.offline.collect(game, "uniform", samples=2_000, key=1)
    >>> advice = eq.offline.learn(log)
    >>> str(advice.status.name), advice.stats["rank"]
    ('learned', 2)
    >>> low, high = advice.stats["gap"]["interval"]
    >>> bool(eq.certify(game, advice.policy).max_gain < advice.stats["own_gap"] / 2)
    True
    """
    name, declared = "log", {} if critic is None else {"continuous": True}
    if isinstance(log, str | os.PathLike):
        name, log = Path(log).name, Log.read(log, **declared)
    if not isinstance(log, Log):
        raise InputError("log", "a Log or a path", type(log).__name__)
    options = {
        **{"rank": rank, "neighbours": neighbours, "critic": critic, "force": force},
        **{"iterations": iterations, "step": step, "strength": strength, "bootstrap": bootstrap},
    }
    _check(log, options)
    key = as_key(key)
    pipeline = _learn_continuous if log.continuous else _learn_discrete
    if run is None:
        return pipeline(log, options, key, None)
    words = np.asarray(jax.random.key_data(key))
    config = {"log": name, "fingerprint": log.fingerprint(), **options, "key": words}
    with Run.start(run, config) as folder:
        if folder.finished:
            return solution_from_plain(folder.record().solution or {})
        solution = pipeline(log, options, key, folder)
        if solution.status.name != Outcome.INTERRUPTED:
            write_policy(folder.path / "policy.json", solution.policy)
            labels = {"labels": log.labels.to_plain()}
            folder.finish(Record(name, folder.config, labels, solution=solution.to_plain()))
        return solution


def _check(log: Log, options: dict[str, Any]) -> None:
    """Refuse wrong options before any work, and fill in those that were not given."""
    if options["iterations"] is not None:
        checks.check_count("iterations", options["iterations"])
    if log.continuous:
        usual = {"rank": "auto", "neighbours": "all", "step": None, "strength": None}
        for name, value in (usual | {"bootstrap": None}).items():
            if options[name] != value:
                raise InputError(name, f"{value} for continuous actions", options[name])
        options["critic"] = _critic(options["critic"], log.agents)
        return
    if options["critic"] is not None:
        raise InputError("critic", "none for actions that can be counted", options["critic"])
    if options["rank"] != "auto" and checks.check_count("rank", options["rank"]) > log.agents:
        raise InputError("rank", f"at most the {log.agents} agents", options["rank"])
    for name, low_open in (("step", True), ("strength", False)):
        if options[name] is not None:
            checks.check_range(name, options[name], 0.0, np.inf, low_open=low_open, high_open=True)
    if options["bootstrap"] is None:
        options["bootstrap"] = RESAMPLED
    checks.check_count("bootstrap", options["bootstrap"], 0)


def _critic(given: Any, agents: int) -> Any:
    if isinstance(given, deep.Critic | deep.LinearCritic):
        return given
    if given is None or given == "linear":
        return (deep.Critic if given is None else deep.LinearCritic)(rank=min(2, agents))
    if given not in deep.ARCHITECTURES:
        known = ", ".join(["linear", *deep.ARCHITECTURES])
        raise InputError("critic", f"one of {known}, or a Critic", repr(given))
    return deep.Critic.named(given)


def _learn_discrete(log: Log, options: dict[str, Any], key: jax.Array, run: Run | None) -> Solution:
    alone = np.flatnonzero((log.actions == log.actions[:1]).all(0))
    covered = coverage(log)
    facts = _facts(log) | {
        "single_action": alone.tolist(),
        "coverage": {n: getattr(covered, n) for n in ("covered", "fewest", "concentrability")},
    }
    refusal = ""
    if len(alone) == log.agents:
        refusal = (
            "every agent plays a single action throughout this log, so nothing can be learned "
            "about the others; log some variation first"
        )
    elif len(alone):
        names = ", ".join(map(log.labels.player, alone[:10].tolist())) + (
            ", ..." if len(alone) > 10 else ""
        )
        who = f"agent {names} plays" if len(alone) == 1 else f"agents {names} play"
        facts["warnings"].append(
            f"{who} a single action throughout; the log does not show what "
            "others would earn, and gaps count no deviation to actions that it does not declare "
            "(`actions_per_agent`)"
        )
    if not refusal and log.samples < FEWEST_ROWS:
        refusal = f"{log.samples} rows are fewer than the {FEWEST_ROWS} that are needed"
    if refusal:
        return _refused(log, refusal, facts)
    task = _Discrete(log, options, key, facts)
    if options["rank"] != "auto" or not task.plan.steps:
        rank = 1 if options["rank"] == "auto" else options["rank"]
        if refusal := too_large(log, task.plan.sets, rank):
            return _refused(log, refusal, facts)
    reached = resumable(run, task.results, task.advance, task.steps, name="learning from the log")
    task.results = reached.state
    return task.solution(reached.step)


class _Discrete:
    """The steps of learning from discrete actions, and what they have given so far."""

    def __init__(self, log: Log, options: dict[str, Any], key: jax.Array, facts: dict[str, Any]):
        self.log, self.options, self.key, self.facts = log, options, key, facts
        rank = options["rank"]
        self.plan = Comparison(
            log,
            [k for k in ((1, 2, 3) if rank == "auto" else (rank,)) if k <= log.agents],
            joint=False,
            neighbours=options["neighbours"],
            folds=min(10, max(2, log.samples // 2)),
            key=key,
        )
        self.results = {
            "errors": np.full((self.plan.steps, self.plan.folds), np.nan),
            "gaps": np.full(options["bootstrap"], np.nan),
        }
        for note in self.plan.notes.values() if not self.plan.steps else ():
            facts["warnings"].append(
                f"rank {rank} was not compared with a constant on held-out rows: {note}"
            )

    @property
    def steps(self) -> int:
        """Held-out errors, then the policy, then resampled logs."""
        return self.plan.steps + 1 + self.options["bootstrap"]

    def advance(self, results: Any, step: int, until: int) -> tuple[Any, dict[str, Any]]:
        """Do a step, and return the results of all that are done."""
        self.results = results
        if step < self.plan.steps:
            results["errors"][step] = self.plan.errors(step)
        elif step == self.plan.steps:
            _ = self.learned
        else:
            number = step - self.plan.steps - 1
            results["gaps"][number] = self.resampling.gap(number)
        return results, {}

    @cached_property
    def selection(self) -> RankSelection | None:
        """The choice of the rank; None where the rank that was asked for could not be judged."""
        return self.plan.choose(self.results["errors"]) if self.plan.steps else None

    @cached_property
    def model(self) -> Model:
        """The fitted model."""
        rank = self.options["rank"] if self.selection is None else self.selection.chosen
        return fit(self.log, rank, neighbours=self.plan.sets)

    @cached_property
    def learned(self) -> Solution:
        """What was learned in the model."""
        names = ("strength", "step", "iterations", "force")
        given = {name: self.options[name] for name in names}
        return solve(self.model, selection=self.selection, key=self.key, **given)

    @cached_property
    def resampling(self) -> Resampling:
        """Models of resampled logs."""
        return Resampling(self.model, self.log, self.learned.policy, self.key)

    def solution(self, done: int) -> Solution:
        """The solution after so many steps."""
        if done <= self.plan.steps:
            message = (
                f"stopped after {done} of {self.steps} steps, before there was a policy; the log's "
                "own play is returned"
            )
            return _own_play(self.log, _status(Outcome.INTERRUPTED, message), self.facts)
        found, gaps = self.learned, self.results["gaps"][: done - self.plan.steps - 1]
        about = _about_model(self.model) | {"ranks": _about_ranks(self.selection)}
        stats: dict[str, Any] = self.facts | found.stats | about
        if len(gaps):
            estimate = GapEstimate.from_plain(stats["gap"])
            stats["gap"] = with_interval(estimate, found.policy, gaps).to_plain()
        status = found.status
        if done < self.steps:
            message = (
                f"stopped after {len(gaps)} of {len(self.results['gaps'])} resampled logs; {status}"
            )
            status = _status(Outcome.INTERRUPTED, message)
        return replace(found, status=status, stats=stats)


def _about_ranks(selection: RankSelection | None) -> list[dict[str, Any]]:
    """The ranks that were compared, as plain values."""
    if selection is None:
        return []
    columns = {
        "error": selection.errors,
        "standard_error": selection.standard_errors,
        "samples_per_parameter": selection.samples_per_parameter,
    }
    return [
        {"rank": rank, "note": selection.notes.get(rank, "")}
        | {name: _or_none(column[at]) for name, column in columns.items()}
        for at, rank in enumerate(selection.ranks)
    ]


def _learn_continuous(
    log: Log, options: dict[str, Any], key: jax.Array, run: Run | None
) -> Solution:
    facts = _facts(log)
    if log.samples < FEWEST:
        return _refused(log, f"{log.samples} rows are fewer than the {FEWEST} needed", facts)
    parts = [None if run is None else run.path / name for name in ("critics", "actors")]
    steps = options["iterations"]
    method = deep.TD3BC() if steps is None else deep.TD3BC(steps=steps)
    with interruptible() as stop:
        critics = deep.fit(log, options["critic"], key=key, run=parts[0])
        actors = None
        if not stop:
            other = jax.random.fold_in(key, 1)
            actors = deep.improve(critics, log, method, key=other, run=parts[1])
    explained = critics.explained[0]
    facts |= {
        "critic": str(options["critic"]),
        "parameters": critics.parameters,
        "explained": explained,
        "steps": 0 if actors is None else actors.steps,
    }
    own = _own_points(log)
    policy = own if actors is None else actors.policy
    status = _status(Outcome.LEARNED, "critics explain some of the rewards that were held out")
    if stop:
        done = f"{facts['steps']} steps of the actors" if actors else "fitting the critics"
        status = _status(Outcome.INTERRUPTED, f"stopped while or after {done}")
    elif explained.mean() <= 0 and not options["force"]:
        policy = own
        status = _status(
            Outcome.NOTHING_LEARNED,
            "critics explain held-out rewards no better than a constant does; the log's own play "
            "is returned",
        )
    if log.states is not None:
        text = "not estimated: rewards of several steps are no game of one"
        stats = facts | {"gap": {"gap": None, "text": text}, "own_gap": None}
        return replace(_own_play(log, status, stats), policy=policy)
    game = critics.as_game()
    found, before = (in_model(certify(game, each)) for each in (policy, own))
    gap = float(found.max_gain)
    stats = facts | {"own_gap": float(before.max_gain)}
    stats["gap"] = {"gap": gap, "text": f"{gap:.4g} in the fitted model, by search"}
    return Solution(policy, np.asarray(found.value), found, status, stats=stats)


def _status(name: Outcome, message: str) -> Status:
    """A status of something that proves nothing about the game that was logged."""
    return Status(name, message, np.array(False))


def _facts(log: Log) -> dict[str, Any]:
    return {
        "agents": log.agents,
        "samples": log.samples,
        "contexts": log.contexts_count,
        "actions": list(log.actions_per_agent),
        "labels": log.labels.to_plain(),
        "warnings": [],
    }


def _about_model(model: Model) -> dict[str, Any]:
    """What the fitted model says, as plain values."""
    found: Any = model.interactions
    game: Any = model.game
    rows = found.strongest(STRONGEST)
    names = ("strength", "lower", "upper")
    return {
        "rank": model.rank,
        "noise": model.noise,
        "behaviour": model.behaviour,
        "own_gap": float(certify(game, model.behaviour).max_gain),
        "interactions": [
            {"reward_of": owner, "with": list(group)}
            | {name: _or_none(x) for name, x in zip(names, numbers, strict=True)}
            for owner, group, *numbers in rows
        ],
        "strength_total": found.total,
        "strengths": found.strength,
        "strengths_lower": found.lower,
        "strengths_upper": found.upper,
    }


def _or_none(number: Any) -> float | None:
    return None if np.isnan(number) else float(number)


def _refused(log: Log, message: str, facts: dict[str, Any]) -> Solution:
    status = _status(Outcome.REFUSED, f"{message}; the log's own play is returned")
    return _own_play(log, status, facts)


def _own_play(log: Log, status: Status, stats: dict[str, Any]) -> Solution:
    """The log's own play and what it earned; gains are not known without a model."""
    policy = (
        _own_points(log) if log.continuous else Mixture(behaviour_of(log, count_actions(log))[None])
    )
    rewards = np.asarray(log.rewards, np.float64)
    steps = np.zeros(log.samples, np.int8) if log.steps is None else log.steps
    value = np.sum([rewards[steps == h].mean(0) for h in np.unique(steps)], 0)
    unknown = np.full(log.agents, np.nan)
    method = "none: no model was fitted"
    certificate = TableCertificate(unknown, np.full(log.agents, np.inf), value, method)
    return Solution(policy, value, certificate, status, stats=stats)


def _own_points(log: Log) -> ContinuousPolicy:
    """The log's mean actions in each situation; where there are none, those of all situations."""
    shape = (log.contexts_count * log.horizon, log.agents, log.states_count)
    states = np.zeros(log.actions.shape, int) if log.states is None else log.states
    where = (log.situations[:, None], np.arange(log.agents), states)
    sums, counts = np.zeros((2, *shape))
    np.add.at(sums, where, log.actions)
    np.add.at(counts, where, 1.0)
    everywhere = log.actions.mean(0)[:, None]
    points = np.where(counts > 0, sums / np.maximum(counts, 1.0), everywhere)
    if log.states is None:
        return ContinuousPolicy(points[..., 0])
    return ContinuousPolicy(points.reshape(log.contexts_count, log.horizon, *shape[1:]))
