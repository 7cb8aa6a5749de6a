"""Learning from a log of actions that can be counted, step by step.

Classes of rewards compete on held-out rows. The one that is chosen is fitted, policies are learned
from all rows but a part at a time, and each is judged by the part that was left out.
"""

import csv
import io
from dataclasses import replace
from functools import cached_property, reduce
from pathlib import Path
from typing import Any

import jax
import numpy as np

from equipoise.certificates import TableCertificate, certify
from equipoise.core import Outcome, Solution, Status
from equipoise.core.files import write_text
from equipoise.games import Mixture
from equipoise.offline._aggregate import KINDS
from equipoise.offline._bounds import Bounds, Part, bounds, model_gains
from equipoise.offline._coverage import coverage
from equipoise.offline._discover import Structure, comparison, distinct, structure_of
from equipoise.offline._fit import Sums, fit, model_of, too_large
from equipoise.offline._log import Log
from equipoise.offline._model import Model
from equipoise.offline._own_play import facts_of, own_play, refused, status_as
from equipoise.offline._pieces import Source, part_of
from equipoise.offline._select import RankSelection, groups_of
from equipoise.offline._solve import IN_MODEL, in_model, iterates
from equipoise.offline.parameters import TOO_LITTLE
from equipoise.offline.theory import chi_squared
from equipoise.runs import Run, resumable

#: Fewer rows than this cannot be split into rows to fit and rows to judge by.
FEWEST_ROWS = 4
#: Parts that the rows are split into, and how many of the strongest terms are kept.
PARTS, STRONGEST = 5, 20
#: How many times stronger the regulariser may be. A weaker one is taken where the agents' gains are
#: smaller on average; stronger ones are tried where the log says too little about what was learned.
NEARER = (0.2, 5.0, 25.0)


def learn_discrete(
    source: Source, options: dict[str, Any], key: jax.Array, run: Run | None
) -> Solution:
    log, copies = distinct(source.log)
    given, source = source.rows, Source.of(log) if copies else source
    alone = np.flatnonzero((log.actions == log.actions[:1]).all(0))
    covered = coverage(log)
    facts = facts_of(log) | {
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
    if source.numbers is not None:
        facts["notes"].append(
            f"classes were compared, and bounds computed, on {log.samples:,} of {given:,} rows, "
            "selected at random; terms are fitted to all"
        )
    task = None if refusal else Discrete(source, options, key, facts, copies)
    if task is not None and not task.plan.entries:
        refusal = too_large(log, task.plan.sets, 1, PARTS + 2)
    if task is None or refusal:
        return refused(log, refusal, facts)
    reached = resumable(run, task.results, task.advance, task.steps, name="learning from the log")
    task.results = reached.state
    return task.solution(reached.step)


#: Policies of a mixture whose probabilities differ by more than this are told apart.
_APART = 0.05


class Discrete:
    """The steps of learning from discrete actions, and what they have given so far.

    Held-out errors choose the class of rewards. The rows are then split into `PARTS`; a policy is
    learned from all but one part at a time, and judged by the part that was left out.
    """

    def __init__(
        self,
        source: Source,
        options: dict[str, Any],
        key: jax.Array,
        facts: dict[str, Any],
        copies: int,
    ):
        self.source, self.log, self.options, self.key = source, source.log, options, key
        log, self.facts = self.log, facts
        self.copies, rank = copies, options["rank"]
        self.fixed = None if rank == "auto" else rank
        ranks = {1, 2, 3} | ({rank} if isinstance(rank, int) else set())
        self.plan = comparison(log, sorted(ranks), options["neighbours"], key, PARTS + 2)
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
        if source.numbers is not None:
            self.part = part_of(source.numbers, PARTS)

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
            return status_as(Outcome.REFUSED, "; ".join(reasons))
        if selection.nothing:
            return status_as(Outcome.NOTHING_LEARNED, selection.nothing)
        return None

    @cached_property
    def fitted(self) -> tuple[Model, list[Model]]:
        """The chosen class, fitted to all rows; and for each part, to all rows outside it.

        Sums over rows add up: those of the parts are taken once, and serve all fits.
        """
        structure, log = self.found[0], self.log
        if structure.chosen in ("joint", *KINDS):
            more: dict[str, Any] = {"kind": "table"} if structure.chosen == "joint" else {}
            outside = [log.take(self.part != part) for part in range(PARTS)]
            whole, *some = (fit(rows, structure.chosen, **more) for rows in (log, *outside))
            return whole, some
        rank = int(str(structure.chosen).split()[0])
        sets = [tuple(own) if rank > 1 else () for own in structure.neighbours]
        sums = [Sums.empty(log, sets, rank) for _ in range(PARTS)]
        for piece, part in self.source.parts(self.part, PARTS):
            for own, rows in zip(sums, np.arange(PARTS)[:, None] == part, strict=True):
                if rows.any():
                    own.add(piece.take(rows))
        total = reduce(Sums.plus, sums)
        whole = model_of(log, total, sets, rank)
        given = (sets, rank, whole.ridge)
        return whole, [model_of(log, total.plus(s, -1), *given, intervals=False) for s in sums]

    @property
    def model(self) -> Model:
        """The model of all rows."""
        return self.fitted[0]

    @property
    def models(self) -> list[Model]:
        """For each part, the model fitted to all rows outside it."""
        return self.fitted[1]

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
            return own_play(self.log, status_as(Outcome.INTERRUPTED, message), self.facts)
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
            refusal = status_as(Outcome.REFUSED, words)
            learned = self.options["force"]
            found = found if learned else own
        every = policies.reshape(-1, *self.shape[1:]) if learned else self.own[None]
        shown = every if log.states is not None else every[:, :, 0, :, 0]
        mixture = Mixture(shown)
        certificate = _certificate(self.model, mixture, every, log.absences)
        if refusal is None:
            status = status_as(Outcome.LEARNED, _promise(found, log))
        elif learned:
            status = status_as(
                Outcome.INEXACT, f"{refusal}; learned all the same, as was asked for"
            )
        else:
            status = replace(refusal, message=f"{refusal.message}; the log's own play is returned")
        unknown = _unknown(log, found.unknown)
        warnings = [*self.facts["warnings"], *self.found[0].warnings]
        if unknown:
            shown_few = ", ".join(unknown[:5]) + (", ..." if len(unknown) > 5 else "")
            warnings.append(
                f"unknown for {len(unknown)} deviations, which the log never shows: {shown_few}"
            )
        notes = list(self.facts["notes"])
        if learned and np.ptp(mixture.policies, axis=0).max() > _APART:
            notes.append(
                f"the advice mixes {len(mixture)} policies, of which one common draw must choose "
                "for all agents; the bound need not hold if each follows its own row of the table "
                "independently"
            )
        interval = list(found.interval)
        text = f"{float(certificate.max_gain):.4g} in the fitted model"
        stats: dict[str, Any] = {
            **(self.facts | {"warnings": warnings, "notes": notes}),
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
            "deviations": dict(zip(("gain", "lower", "upper"), found.deviations, strict=True)),
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


def write_table(path: Path, log: Log, policy: Mixture) -> None:
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
