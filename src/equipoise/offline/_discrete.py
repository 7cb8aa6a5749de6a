"""Learn from a log of discrete actions, step by step.

Classes of rewards are compared on held-out rows, and the chosen class is fitted. Policies are
learned from all rows except one part at a time, and each is judged by the part that was left out.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property, reduce
from typing import Any

import jax
import numpy as np

from equipoise.certificates import TableCertificate, certify
from equipoise.core import Solution, Verdict
from equipoise.core.results import amount
from equipoise.games import Mixture
from equipoise.offline._aggregate import KINDS, name_of
from equipoise.offline._bounds import HIDDEN, Bounds, Part, bounds, known_moves
from equipoise.offline._combinations import Shown
from equipoise.offline._coverage import (
    SHOWN,
    coverage,
    few_rows,
    over_known,
    rare_contexts,
    rare_pairs,
)
from equipoise.offline._dependence import told_moved_contexts
from equipoise.offline._discover import Structure, comparison, distinct, structure_of
from equipoise.offline._fit import Sums, fit, model_of, neighbour_sets, too_large
from equipoise.offline._log import Log
from equipoise.offline._model import Model
from equipoise.offline._own_play import (
    NOT_ADVICE,
    facts_of,
    forced,
    own_play,
    refused,
    sentences,
    stopped,
)
from equipoise.offline._pieces import Source, part_of
from equipoise.offline._play import model_gains, terms_of
from equipoise.offline._product import products
from equipoise.offline._select import RankSelection, groups_of
from equipoise.offline._solve import IN_MODEL, in_model, iterates
from equipoise.offline.parameters import TOO_LITTLE
from equipoise.offline.theory import chi_squared
from equipoise.runs import Run, resumable

#: Fewest rows that can be split into rows for fitting and rows for judging.
FEWEST_ROWS = 4
#: Number of parts into which rows are split, and number of strongest terms that are kept.
PARTS, STRONGEST = 5, 20
#: Factors of the regulariser that are tried. The weaker one is used if it lowers the agents' mean
#: gain; the stronger ones are tried if the log says too little about the learned policy.
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
            "other actions would earn, and gains include deviations to other actions only if they "
            "are declared (`actions_per_agent`)"
        )
    if not refusal and groups_of(log).max() + 1 < FEWEST_ROWS:
        kinds = "different rows" if log.episodes is None else "episodes"
        number = groups_of(log).max() + 1
        refusal = f"{number} {kinds} are fewer than the {FEWEST_ROWS} needed; collect more"
    refusal = refusal or rare_contexts(log)
    if source.numbers is not None:
        facts["notes"].append(
            f"classes were compared and bounds computed on {log.samples:,} of {given:,} rows, "
            "selected at random; terms are fitted to all rows"
        )
    task = None if refusal else Discrete(source, options, key, facts, copies)
    if task is not None and not task.plan.entries:
        refusal = too_large(log, task.plan.sets, 1, PARTS + 2)
    if task is None or refusal:
        return refused(log, refusal, facts)
    reached = resumable(run, task.results, task.advance, task.steps, name="learning from the log")
    task.results = reached.state
    return task.solution(reached.step)


#: A product policy is advised if its bound is at most the first factor times the bound of the
#: mixture, or higher by at most the second fraction of the standard deviation of rewards. The
#: looser pair applies only if no candidate passes the stricter one.
STRICT, COMPARABLE = (1.1, 0.01), (1.5, 0.05)


#: Probability of crowds that the log does not show, above which the message states the assumption.
FARTHER = 0.05


class Discrete:
    """The steps of learning from discrete actions, and their results so far.

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
        #: The class that was fitted last, and its fits.
        self.latest: tuple[int | str, Model, Callable[[], list[Model]]] | None = None
        #: (samples,): the part of each row.
        self.part = (rng.permutation(groups.max() + 1) % PARTS)[groups]
        if source.numbers is not None:
            self.part = part_of(source.numbers, PARTS)

    @property
    def steps(self) -> int:
        """Number of steps: held-out errors, then a policy for each part."""
        return self.plan.steps + PARTS

    def advance(self, results: Any, step: int, until: int) -> tuple[Any, dict[str, Any]]:
        """Do a step, and return the results of all finished steps."""
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
        errors = self.results["errors"]

        def fit_of(name: int | str) -> Any:
            self.latest = name, *self.fits(name)
            return terms_of(self.latest[1])

        return structure_of(self.plan, errors, fit_of, self.copies, self.fixed)

    @cached_property
    def refusal(self) -> Verdict | None:
        """Verdict that says why nothing should be learned; None if the log can be used."""
        structure, selection = self.found
        if few := few_rows(self.log):
            return Verdict("refused", few)
        reasons, log, model = list[str](), self.log, self.model  # the most basic reason first
        several = np.array(log.actions_per_agent) > 1
        told = (self.support.sum(-1) > 1).any((0, 1, 3))[several]
        if told.size and told.mean() < 0.5:
            reasons.append(
                f"for {(~told).sum()} of {told.size} agents, the log does not show two actions "
                f"{SHOWN} times each, so deviations cannot be judged; collect rows in which they "
                "try more than one action"
            )
        if model.samples_per_parameter < TOO_LITTLE:
            more = log.samples * (TOO_LITTLE / model.samples_per_parameter - 1.0)
            # The tables of an aggregate grow with the rows.
            some = "" if structure.chosen in KINDS else f"about {max(math.ceil(more), 1):,} "
            fewer = "leave out a context, or merge" if log.contexts_count > 1 else "or merge"
            reasons.append(
                f"there are too few rows for this reward model ({name_of(structure.chosen)}): "
                f"{model.samples_per_parameter:.3g} per parameter, and {TOO_LITTLE} are needed; "
                f"collect {some}more rows, {fewer} actions or agents"
            )
        few = bool(reasons)
        reasons.append(structure.refusal)
        if selection.doubt and self.fixed is None and not few:
            reasons.append(f"{selection.doubt}; collect more rows, or set the rank yourself")
        if any(reasons):
            return Verdict("refused", sentences(*reasons))
        if selection.nothing:
            check = "check that actions and rewards are the right columns, or collect more rows"
            return Verdict("nothing learned", f"{selection.nothing}; {check}")
        return None

    def fits(self, name: int | str) -> tuple[Model, Callable[[], list[Model]]]:
        """Fit a class to all rows; the second value fits it to all rows outside each part.

        The sums of the parts are computed once and combined for all fits.
        """
        log = self.log
        if name in ("joint", *KINDS):
            more: dict[str, Any] = {"kind": "table"} if name == "joint" else {}
            return fit(log, name, **more), lambda: [
                fit(log.take(self.part != part), name, **more) for part in range(PARTS)
            ]
        rank = int(str(name).split()[0])
        sets = [own if rank > 1 else () for own in self.plan.sets_of(name)]
        like = log.take(slice(1))
        sums = self.source.part_sums(self.part, PARTS, lambda: Sums.empty(like, sets, rank))
        total = reduce(Sums.plus, sums)
        whole = model_of(log, total, sets, rank)
        given = (sets, rank, whole.ridge)
        return whole, lambda: [
            model_of(log, total.plus(s, -1), *given, intervals=False) for s in sums
        ]

    @cached_property
    def fitted(self) -> tuple[Model, list[Model]]:
        """The chosen class, fitted to all rows and, for each part, to all rows outside it."""
        chosen = self.found[0].chosen
        if self.latest is None or self.latest[0] != chosen:
            self.latest = chosen, *self.fits(chosen)
        return self.latest[1], self.latest[2]()

    @property
    def model(self) -> Model:
        """The model of all rows."""
        return self.fitted[0]

    @property
    def models(self) -> list[Model]:
        """The models fitted to all rows outside each part."""
        return self.fitted[1]

    def policies(self, part: int, nearer: float = 1.0) -> np.ndarray:
        """Policies learned from all rows except those of a part: iterates of the second half.

        Iterates of the first half are still close to the log's play.
        """
        model = self.models[part]
        if self.refusal is not None and not self.options["force"]:
            return np.broadcast_to(self.own, self.shape)
        names = ("iterations", "step", "strength")
        given = {name: self.options[name] for name in names}
        learned = iterates(model, self.key, nearer=nearer, support=self.support, **given)
        kept = np.linspace(len(learned) // 2, len(learned) - 1, self.shape[0]).round().astype(int)
        return learned[kept]

    @cached_property
    def own(self) -> np.ndarray:
        """The log's own play, with all axes."""
        return self.model.behaviour.reshape(self.shape[1:])

    @cached_property
    def rows(self) -> list[np.ndarray]:
        """The rows of each part."""
        return [np.flatnonzero(self.part == part) for part in range(PARTS)]

    @cached_property
    def support(self) -> np.ndarray:
        """Actions that may be advised: those that the log shows often enough to judge them."""
        return known_moves(self.log, self.rows)

    def judge(self, policies: np.ndarray, product: np.ndarray | None = None) -> Bounds:
        """Bound gains against a mixture of (parts, components, ...) policies, or a product."""
        given = zip(self.rows, self.models, policies, strict=True)
        parts = [Part(*each) for each in given]
        chosen = str(self.found[0].chosen).split()[0]
        order = int(chosen) if chosen.isdigit() else None
        options = {"policy": product, "level": self.options["level"], "shown": self.shown}
        return bounds(self.log, parts, self.model, order, **options)

    @cached_property
    def shown(self) -> Shown:
        """Combinations of moves that the log shows, among those relevant to the chosen class."""
        chosen = str(self.found[0].chosen).split()[0]
        order = int(chosen) if chosen.isdigit() else None
        sets = self.model.neighbours if order is not None else neighbour_sets("all", self.log)
        return Shown(self.log, sets, order, terms_of(self.model))

    def advised(
        self, policies: np.ndarray, found: Bounds, own: Bounds
    ) -> tuple[np.ndarray, Bounds]:
        """(components, ...): the advice and its bounds; a product policy if one is good enough."""
        usual = max(found.cautious, 0.0)
        strict, enough = (
            max(times * usual, usual + part * self.model.reward_scale)
            for times, part in (STRICT, COMPARABLE)
        )
        best = policies.reshape(-1, *self.shape[1:]), found
        for product, parts in products(self.model, self.models, policies, self.support):
            judged = self.judge(parts[:, None], product)
            if judged.cautious <= min(enough, max(own.cautious, found.cautious)) and (
                len(best[0]) > 1 or judged.cautious < best[1].cautious
            ):
                best = product[None], judged
            if judged.cautious <= strict:
                break
        return best

    def solution(self, done: int) -> Solution:
        """The solution after `done` steps."""
        if done < self.steps:
            message = (
                f"stopped after {done} of {self.steps} steps, before a policy was learned; "
                f"{NOT_ADVICE}"
            )
            return own_play(self.log, stopped(message), self.facts)
        log, refusal, policies = self.log, self.refusal, self.results["policies"]
        own = self.judge(np.broadcast_to(self.own, (PARTS, 1, *self.shape[1:])))
        learned = refusal is None or self.options["force"]
        found = self.judge(policies) if learned else own
        for nearer in NEARER if learned and self.options["strength"] is None else ():
            if nearer > 1.0 and found.cautious <= own.cautious:
                break  # the log says enough about the learned policy
            other = np.stack([self.policies(part, nearer) for part in range(PARTS)])
            judged, best = self.judge(other), min(found.cautious, own.cautious)
            better = judged.gains.mean() < found.gains.mean() and judged.cautious <= own.cautious
            if better if nearer < 1.0 else judged.cautious < best:
                policies, found = other, judged
        if refusal is None and found.bound > own.bound:
            words = (
                "the log does not show that the learned policy is better than the log's own play: "
                f"gains from it are at most {amount(found.bound, upwards=True)}, and "
                f"{amount(own.bound, upwards=True)} from the log's "
                "own play; collect more rows"
            )
            guessed = (
                "the learned policy leads to combinations of actions that the log hardly shows; "
                "collect rows that show them"
            )
            words = sentences(words, guessed if found.guessed.max() > HIDDEN else "")
            refusal = Verdict("refused", words)
            learned = self.options["force"]
            found = found if learned else own
        every = self.own[None]
        if learned:
            every, found = self.advised(policies, found, own)
        shown = every if log.states is not None else every[:, :, 0, :, 0]
        mixture = Mixture(shown)
        certificate = _certificate(self.model, mixture, every, log.absences)
        rare = rare_pairs(log, every) if learned else []
        rounding = 1e-9 * float(np.nanmax(np.abs(log.rewards))) * log.horizon
        promise = _promise(found, log, len(mixture), rounding)
        moved = "" if self.source.numbers is not None else told_moved_contexts(log)
        if refusal is None and moved:
            status = Verdict("learned", f"{moved}. Within a row, {promise}", caution=True)
        elif refusal is None and rare:
            status = Verdict(
                "learned",
                f"the advice plays pairs of actions that the log shows fewer than {SHOWN} times "
                f"({len(rare)} of them, such as {rare[0]}). Their rewards are extrapolated by the "
                f"fitted model. If it is right, {promise}",
                caution=True,
            )
        elif refusal is None and found.guessed.max() > HIDDEN:
            who = log.labels.player(int(found.guessed.argmax()))
            status = Verdict(
                "learned",
                "the advice leads to combinations of actions that the log hardly shows, most of "
                f"all for {who}. Their rewards are extrapolated by the fitted model. If it is "
                f"right, {promise}",
                caution=True,
            )
        elif refusal is None:
            status = Verdict("learned", promise)
        elif learned:
            status = forced(refusal)
        else:
            status = replace(refusal, message=sentences(refusal.message, NOT_ADVICE))
        unknown, hidden = _unknown(log, found.unknown), _unknown(log, found.hidden)
        warnings = [
            *self.facts["warnings"],
            *self.found[0].warnings,
            *filter(None, [moved]),
            *_told_unknown(unknown, f"that the log shows fewer than {SHOWN} times"),
            *_told_unknown(
                hidden, "that the log hardly shows together with what others are advised to do"
            ),
        ]
        low, high = found.interval
        interval = [0.0 if abs(low) <= rounding else low, high]
        text = f"{float(certificate.max_gain):.4g} in the fitted model"
        ends = ", ".join(f"{0.0 if abs(end) <= rounding else end:.4g}" for end in interval)
        ends = f"[{ends}] ({found.level:.0%})" if np.isfinite(found.bound) else "unknown"
        stats: dict[str, Any] = {
            **(self.facts | {"warnings": warnings}),
            **model_facts(self.model),
            "own_gap": float(own.gains.max()),
            "own_interval": list(own.interval),
            "samples_per_parameter": self.model.samples_per_parameter,
            "structure": self.found[0].to_plain(),
            "interval": interval,
            "bound": found.bound,
            "unknown": unknown + hidden,
            "gap": {
                "gap": float(certificate.max_gain),
                "interval": interval,
                "level": found.level,
                "misfit": found.misfit,
                "text": f"{ends}; {text}",
            },
            "earned": over_known(np.mean, log.rewards) * log.horizon,
            "expected": found.value,
            "expected_error": found.value_error,
            "gains": found.gains,
            "gains_at_most": found.upper,
            "deviations": dict(zip(("gain", "lower", "upper"), found.deviations, strict=True)),
            "chi_squared": np.max([chi_squared(p, self.own).max((0, 1, 3)) for p in every], 0),
        }
        return Solution(mixture, np.asarray(certificate.value), certificate, status, stats=stats)


def _told_unknown(deviations: list[str], what: str) -> list[str]:
    """Return a warning about deviations whose gains are unknown, if there are any."""
    if not deviations:
        return []
    number = f"{len(deviations)} deviation{'s' if len(deviations) > 1 else ''}"
    few = ", ".join(deviations[:5]) + (", ..." if len(deviations) > 5 else "")
    return [f"gains are unknown for {number} {what}: {few}"]


def _certificate(
    model: Model, mixture: Mixture, every: np.ndarray, absences: bool
) -> TableCertificate:
    """Certify gains in the fitted model; absent agents have no choice."""
    if model.game is not None and not absences:
        return in_model(certify(model.game, mixture))
    gains, value = model_gains(model, every)
    concept = "cce" if len(mixture) > 1 else "nash"
    method = f"best action against the mixture, {IN_MODEL}"
    return TableCertificate(gains, np.full_like(gains, np.inf), value, method, concept)


def _promise(found: Bounds, log: Log, components: int, rounding: float) -> str:
    """Say in a sentence what the advice promises, and under which conditions.

    A bound of zero exceeds it by a rounding error, of at most `rounding`.
    """
    least = (1.0 + found.level) / 2
    most = amount(found.bound, upwards=True)
    gained = f"more than {most}" if found.bound > rounding else "anything"
    assumed = [
        "the game does not change",
        "no unrecorded variable drives both actions and rewards, which no test can show",
        "no row is missing because of what was earned",
    ]
    if log.horizon == 1:
        assumed.append("rewards depend on actions of the same row only")
    if log.contexts_count > 1 and log.horizon == 1:
        assumed.append("actions do not move the next context")
    if found.farther.max() > FARTHER:
        assumed.append(
            "the fitted reward model also holds for numbers of agents per action that the log does "
            "not show"
        )
    if log.recorded is not None:
        assumed.append("which rewards are missing does not depend on what they were")
    if components > 1:
        assumed.append(
            f"a coordinator draws one of the {components} policies in policy.csv for all agents "
            "(no policy was found that agents can follow independently)"
        )
    skipped = [f"deviations that depend on {' or '.join(log.numeric_contexts)}"]
    skipped = skipped if log.numeric_contexts else []
    if rare := len(found.unknown) + len(found.hidden):
        number = f"{rare} deviation{'s' if rare > 1 else ''}"
        skipped.append(f"{number} that the log shows too rarely to judge")
    told = f". Not counted: {', and '.join(skipped)}" if skipped else ""
    return (
        f"with {least:.0%} confidence, no agent gains {gained} by deviating from the advice. "
        f"Assumptions: {'; '.join(assumed)}{told}"
    )


def _unknown(log: Log, places: np.ndarray) -> list[str]:
    """Describe deviations that the log hardly shows, with the log's labels."""
    told = []
    for context, step, agent, state, action in places.tolist():
        words = f"{log.labels.player(agent)}: {log.labels.action(agent, action)}"
        words += f" in context {log.labels.context(context)}" if log.contexts_count > 1 else ""
        words += f" in step {step}" if log.horizon > 1 else ""
        told.append(words + (f" in state {log.labels.state(state)}" if log.horizon > 1 else ""))
    return told


def model_facts(model: Model) -> dict[str, Any]:
    """Statistics of the fitted model, as plain values."""
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
