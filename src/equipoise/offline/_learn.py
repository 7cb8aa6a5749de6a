"""From a log to a policy in one call: what `equipoise offline` does, for Python.

Discrete actions: classes of rewards compete on held-out rows (`discover`); the one that is chosen
is fitted, and decentralised learning finds policies near what the log covers, each from all rows
but a part that judges it (`_bounds`). Continuous actions: critics and actors of `offline.deep`.

The work is a sequence of steps that do not depend on when they are done. Ctrl-C stops between two
of them, and a run folder keeps the results of those that are done.
"""

import csv
import io
import os
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import jax
import numpy as np

from equipoise.certificates import TableCertificate, certify, solution_from_plain
from equipoise.core import InputError, Outcome, Solution, Status, checks
from equipoise.core.files import write_text
from equipoise.core.randomness import as_key
from equipoise.games import ContinuousPolicy, Mixture, write_policy
from equipoise.offline import deep
from equipoise.offline._aggregate import KINDS, aggregate_note
from equipoise.offline._bounds import Bounds, Part, bounds, model_gains
from equipoise.offline._coverage import behaviour_of, count_actions, coverage
from equipoise.offline._discover import Structure, comparison, distinct, structure_of
from equipoise.offline._fit import fit, too_large
from equipoise.offline._log import Log
from equipoise.offline._model import Model
from equipoise.offline._select import RankSelection, groups_of
from equipoise.offline._solve import IN_MODEL, in_model, iterates
from equipoise.offline.deep._fit import FEWEST
from equipoise.offline.parameters import TOO_LITTLE
from equipoise.offline.theory import chi_squared
from equipoise.runs import Record, Run, interruptible, resumable

#: Fewer rows than this cannot be split into rows to fit and rows to judge by.
FEWEST_ROWS = 4
#: Parts that the rows are split into, and how many of the strongest terms are kept.
PARTS, STRONGEST = 5, 20
#: How many times stronger the regulariser may be. A weaker one is taken where the agents' gains are
#: smaller on average; stronger ones are tried where the log says too little about what was learned.
NEARER = (0.2, 5.0, 25.0)


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
    log: Log | str | os.PathLike[str],
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
        log: A log, or the path of one.
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
      is better than the log's own play; the message says what to change;
    - "inexact": refused, but learned all the same because of `force`;
    - "interrupted": Ctrl-C came first.

    Where nothing was learned, the policy is the log's own play, and the bounds are about that.

    `stats` holds plain values only: numbers, words, lists, dictionaries and arrays.

    - Of every log: `agents`, `samples`, `contexts`, `actions` (of each agent; empty where they are
      continuous), `labels` (`Labels.to_plain()`), `warnings` (sentences), `gap` (a dictionary with
      `gap`, that in the fitted model, and `text`) and `own_gap` (of the log's own play).
    - Of discrete actions: `structure` (`Structure.to_plain()`), `interval`, `bound`, `unknown`
      (deviations that the log never shows), `own_interval`; by agent `earned`, `expected`,
      `expected_error`, `gains` and `gains_at_most`; `coverage` (`covered`, `fewest`,
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
    if not isinstance(log, Log):
        raise InputError("log", "a Log or a path", type(log).__name__)
    options = {
        **{"rank": rank, "neighbours": neighbours, "critic": critic, "force": force},
        **{"iterations": iterations, "step": step, "strength": strength, "level": level},
    }
    _check(log, options)
    key = as_key(key)
    pipeline = _learn_continuous if log.continuous else _learn_discrete
    if run is None:
        return _advice(pipeline(log, options, key, None))
    words = np.asarray(jax.random.key_data(key))
    config = {"log": log.name, "fingerprint": log.fingerprint(), **options, "key": words}
    with Run.start(run, config) as folder:
        if folder.finished:
            return _advice(solution_from_plain(folder.record().solution or {}))
        solution = pipeline(log, options, key, folder)
        if solution.status.name != Outcome.INTERRUPTED:
            write_policy(folder.path / "policy.json", solution.policy)
            if isinstance(solution.policy, Mixture):
                _write_table(folder.path / "policy.csv", log, solution.policy)
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


def _learn_discrete(log: Log, options: dict[str, Any], key: jax.Array, run: Run | None) -> Solution:
    given, (log, copies) = log.samples, distinct(log)
    alone = np.flatnonzero((log.actions == log.actions[:1]).all(0))
    covered = coverage(log)
    facts = _facts(log) | {
        "samples": given,
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
    if not refusal and groups_of(log).max() + 1 < FEWEST_ROWS:
        kinds = "different rows" if log.episodes is None else "episodes"
        refusal = f"{groups_of(log).max() + 1} {kinds} are fewer than the {FEWEST_ROWS} needed"
    task = None if refusal else _Discrete(log, options, key, facts, copies)
    if task is not None and not task.plan.entries:
        refusal = too_large(log, task.plan.sets, 1)
    if task is None or refusal:
        return _refused(log, refusal, facts)
    reached = resumable(run, task.results, task.advance, task.steps, name="learning from the log")
    task.results = reached.state
    return task.solution(reached.step)


class _Discrete:
    """The steps of learning from discrete actions, and what they have given so far.

    Held-out errors choose the class of rewards. The rows are then split into `PARTS`; a policy is
    learned from all but one part at a time, and judged by the part that was left out.
    """

    def __init__(
        self, log: Log, options: dict[str, Any], key: jax.Array, facts: dict[str, Any], copies: int
    ):
        self.log, self.options, self.key, self.facts = log, options, key, facts
        self.copies, rank = copies, options["rank"]
        self.fixed = None if rank == "auto" else rank
        ranks = {1, 2, 3} | ({rank} if isinstance(rank, int) else set())
        self.plan = comparison(log, sorted(ranks), options["neighbours"], key)
        count = options["iterations"] or (200 if log.horizon > 1 else 300)
        shape = (log.contexts_count, log.horizon, log.agents, log.states_count)
        self.shape = (-(-count // PARTS), *shape, max(log.actions_per_agent))
        self.results = {
            "errors": np.full((self.plan.steps, self.plan.folds), np.nan),
            "policies": np.zeros((PARTS, *self.shape)),
        }
        groups = groups_of(log)
        rng = np.random.default_rng([1, *np.asarray(jax.random.key_data(key))])
        #: (samples,): the part of each row.
        self.part = (rng.permutation(groups.max() + 1) % PARTS)[groups]

    @property
    def steps(self) -> int:
        """Held-out errors, then a policy for each part."""
        return self.plan.steps + PARTS

    def advance(self, results: Any, step: int, until: int) -> tuple[Any, dict[str, Any]]:
        """Do a step, and return the results of all that are done."""
        self.results = results
        if step < self.plan.steps:
            results["errors"][step] = self.plan.errors(step)
        else:
            part = step - self.plan.steps
            results["policies"][part] = self.policies(part)
        return results, {}

    @cached_property
    def found(self) -> tuple[Structure, RankSelection]:
        """The structure, and the selection that chose it."""
        return structure_of(self.plan, self.results["errors"], self.copies, self.fixed)

    @cached_property
    def refusal(self) -> Status | None:
        """Why nothing should be learned; None where something can be."""
        structure, selection = self.found
        reasons = [structure.refusal]
        if self.model.samples_per_parameter < TOO_LITTLE:
            reasons.append(
                f"{self.model.samples_per_parameter:.3g} samples per parameter are fewer than the "
                f"{TOO_LITTLE} from which on learning helps; collect more, or fit fewer neighbours "
                "or a lower rank"
            )
        if selection.doubt and self.fixed is None:
            reasons.append(f"{selection.doubt}; collect more, or say which rank to go by")
        if reasons := list(filter(None, reasons)):
            return _status(Outcome.REFUSED, "; ".join(reasons))
        if selection.nothing:
            return _status(Outcome.NOTHING_LEARNED, selection.nothing)
        return None

    def fit(self, log: Log, *, intervals: bool = False) -> Model:
        """The class that was chosen, fitted to some rows."""
        structure = self.found[0]
        if structure.chosen == "joint":
            return fit(log, "joint", kind="table")
        if structure.chosen in KINDS:
            return fit(log, structure.chosen)
        rank = int(str(structure.chosen).split()[0])
        ridge = "evidence" if intervals else self.model.ridge
        sets = structure.neighbours
        return fit(log, rank, neighbours=sets, ridge=ridge, intervals=intervals)

    @cached_property
    def model(self) -> Model:
        """The model of all rows."""
        return self.fit(self.log, intervals=True)

    def policies(self, part: int, nearer: float = 1.0) -> np.ndarray:
        """What is learned from all rows but those of a part: some iterates of the second half.

        Those of the first half are still on their way from the log's play.
        """
        model = self.models[part]
        if self.refusal is not None and not self.options["force"]:
            return np.broadcast_to(self.own, self.shape)
        names = ("iterations", "step", "strength")
        given = {name: self.options[name] for name in names}
        learned = iterates(model, self.key, nearer=nearer, **given)
        kept = np.linspace(len(learned) // 2, len(learned) - 1, self.shape[0]).round().astype(int)
        return learned[kept]

    @cached_property
    def models(self) -> list[Model]:
        """Those of all rows but the ones of each part."""
        return [self.fit(self.log.take(self.part != part)) for part in range(PARTS)]

    @cached_property
    def own(self) -> np.ndarray:
        """The log's own play, with all axes."""
        return self.model.behaviour.reshape(self.shape[1:])

    def judge(self, policies: np.ndarray) -> Bounds:
        """Bounds on the gap of a mixture, of (parts, components, ...) policies."""
        parts = [
            Part(np.flatnonzero(self.part == part), self.models[part], policies[part])
            for part in range(PARTS)
        ]
        chosen = str(self.found[0].chosen).split()[0]
        order = int(chosen) if chosen.isdigit() else None
        return bounds(self.log, parts, self.model, order, level=self.options["level"])

    def solution(self, done: int) -> Solution:
        """The solution after so many steps."""
        if done < self.steps:
            message = (
                f"stopped after {done} of {self.steps} steps, before there was a policy; the log's "
                "own play is returned"
            )
            return _own_play(self.log, _status(Outcome.INTERRUPTED, message), self.facts)
        log, refusal, policies = self.log, self.refusal, self.results["policies"]
        own = self.judge(np.broadcast_to(self.own, (PARTS, 1, *self.shape[1:])))
        learned = refusal is None or self.options["force"]
        found = self.judge(policies) if learned else own
        for nearer in NEARER if learned and self.options["strength"] is None else ():
            if nearer > 1.0 and found.bound <= own.bound:
                break  # the log says enough about what was learned
            other = np.stack([self.policies(part, nearer) for part in range(PARTS)])
            judged, best = self.judge(other), min(found.bound, own.bound)
            better = judged.gains.mean() < found.gains.mean() and judged.bound <= own.bound
            if better if nearer < 1.0 else judged.bound < best:
                policies, found = other, judged
        if refusal is None and found.bound > own.bound:
            words = (
                "the log does not show that what was learned is better than its own play: gains "
                f"are at most {found.bound:.3g}, and {own.bound:.3g} by leaving the log's own play"
            )
            refusal = _status(Outcome.REFUSED, words)
            learned = self.options["force"]
            found = found if learned else own
        every = policies.reshape(-1, *self.shape[1:]) if learned else self.own[None]
        shown = every if log.states is not None else every[:, :, 0, :, 0]
        mixture = Mixture(shown)
        certificate = _certificate(self.model, mixture, every, log.absences)
        if refusal is None:
            status = _status(Outcome.LEARNED, _promise(found, log))
        elif learned:
            status = _status(Outcome.INEXACT, f"{refusal}; learned all the same, as was asked for")
        else:
            status = replace(refusal, message=f"{refusal.message}; the log's own play is returned")
        unknown = _unknown(log, found.unknown)
        warnings = [*self.facts["warnings"], *self.found[0].warnings]
        if unknown:
            shown_few = ", ".join(unknown[:5]) + (", ..." if len(unknown) > 5 else "")
            warnings.append(
                f"unknown for {len(unknown)} deviations, which the log never shows: {shown_few}"
            )
        interval = list(found.interval)
        text = f"{float(certificate.max_gain):.4g} in the fitted model"
        stats: dict[str, Any] = {
            **(self.facts | {"warnings": warnings}),
            **_about_model(self.model),
            "own_gap": float(own.gains.max()),
            "own_interval": list(own.interval),
            "samples_per_parameter": self.model.samples_per_parameter,
            "structure": self.found[0].to_plain(),
            "interval": interval,
            "bound": found.bound,
            "unknown": unknown,
            "gap": {
                "gap": float(certificate.max_gain),
                "interval": interval,
                "level": found.level,
                "misfit": found.misfit,
                "text": f"[{interval[0]:.4g}, {interval[1]:.4g}] ({found.level:.0%}); {text}",
            },
            "earned": np.asarray(log.rewards, np.float64).mean(0) * log.horizon,
            "expected": found.value,
            "expected_error": found.value_error,
            "gains": found.gains,
            "gains_at_most": found.upper,
            "chi_squared": np.max([chi_squared(p, self.own).max((0, 1, 3)) for p in every], 0),
        }
        return Solution(mixture, np.asarray(certificate.value), certificate, status, stats=stats)


def _certificate(
    model: Model, mixture: Mixture, every: np.ndarray, absences: bool
) -> TableCertificate:
    """Gains in the fitted model; agents that are absent have no choice."""
    if model.game is not None and not absences:
        return in_model(certify(model.game, mixture))
    gains, value = model_gains(model, every)
    concept = "cce" if len(mixture) > 1 else "nash"
    method = f"best action against the mixture, {IN_MODEL}"
    return TableCertificate(gains, np.full_like(gains, np.inf), value, method, concept)


def _promise(found: Bounds, log: Log) -> str:
    """What is promised, in a sentence."""
    least = (1.0 + found.level) / 2
    left = f" by the {len(found.unknown)} deviations it never shows" if len(found.unknown) else ""
    return (
        f"nobody gains more than {found.bound:.3g} by leaving the advice, with {least:.0%} "
        "confidence, if the game stays as it was logged"
        + (f"; unknown is what is gained{left}" if left else "")
    )


def _write_table(path: Path, log: Log, policy: Mixture) -> None:
    """How often each agent plays what, in the log's labels."""
    labels = log.labels
    chances = policy.marginal().reshape(log.contexts_count, log.horizon, log.agents, -1)
    chances = chances.reshape(*chances.shape[:3], log.states_count, max(log.actions_per_agent))
    shown = chances[:, :, :, :1] if log.absences else chances
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(("agent", "context", "step", "state", "action", "probability"))
    for i in range(log.agents):
        for c, h, s in np.ndindex(shown[:, :, i, :, 0].shape):
            for a in range(log.actions_per_agent[i]):
                place = (labels.player(i), labels.context(c), h, labels.state(s))
                chance = round(float(shown[c, h, i, s, a]), 6)
                rows.writerow((*place, labels.action(i, a), chance))
    write_text(path, text.getvalue())


def _unknown(log: Log, places: np.ndarray) -> list[str]:
    """Deviations that the log never shows, in the user's words."""
    told = []
    for context, step, agent, state, action in places.tolist():
        words = f"{log.labels.player(agent)}: {log.labels.action(agent, action)}"
        words += f" in context {log.labels.context(context)}" if log.contexts_count > 1 else ""
        words += f" in step {step}" if log.horizon > 1 else ""
        told.append(words + (f" in state {log.labels.state(state)}" if log.horizon > 1 else ""))
    return told


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
        "notes": list(log.notes),
        "warnings": [],
    }


def _about_model(model: Model) -> dict[str, Any]:
    """What the fitted model says, as plain values."""
    found: Any = model.interactions
    about = {"rank": model.rank, "noise": model.noise, "behaviour": model.behaviour}
    if found is None:
        return about
    rows = found.strongest(STRONGEST)
    names = ("strength", "lower", "upper")
    return about | {
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
