"""Discover the structure of the game behind a log, and whether the log supports a conclusion.

Classes of rewards are compared on held-out rows: interaction ranks, sparse and dense, an aggregate
of the others' actions, and a joint critic without structure. The simplest class that no other class
beats beyond noise is chosen, or a larger one if a test of some agent shows that the class leaves
something out. Five problems make any choice unreliable and are tested for: rewards that drift over
time, actions that are correlated across agents (a hidden variable may drive both actions and
rewards), actions that were never tried, transitions that depend on other agents, and classes that
all fail to explain what repeated rows or a test of some agent show to be explainable.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from html import escape
from typing import Any

import numpy as np
from scipy.stats import chi2

from equipoise.core.errors import named_arguments
from equipoise.core.html import html_card, html_table
from equipoise.offline._aggregate import KINDS, name_of, scores_of
from equipoise.offline._carried import Carried, carried, told_carried
from equipoise.offline._coverage import (
    count_actions,
    few_rows,
    known_rows,
    rare_contexts,
    sizes_of,
)
from equipoise.offline._dependence import dependence_of, told_absences, told_dependence
from equipoise.offline._fit import SCREENING_ROWS, columns_of, fit
from equipoise.offline._interacting import interacting
from equipoise.offline._joint import joint_kind
from equipoise.offline._log import Log
from equipoise.offline._model import Model
from equipoise.offline._own_play import sentences
from equipoise.offline._pieces import Source
from equipoise.offline._play import terms_of
from equipoise.offline._scores import (
    Drift,
    Missing,
    Residuals,
    coupled,
    drifts,
    lasting,
    missing_terms,
)
from equipoise.offline._select import ROUNDING, Comparison, RankSelection, standard_error
from equipoise.runs import Unfinished, resumable

#: Largest number of agents whose held-out errors are averaged. Every agent is tested.
JUDGES = 6
#: Designs with more features than this are not tried; neighbours are then screened first.
LARGEST = 400
#: Paired standard errors by which another class's error must be lower to beat a class, and to
#: refuse it.
BEATEN, REFUSED = 1.5, 3.0
#: Smallest fraction of the variance of an agent's reward explained by a drift that counts, and by
#: a term that no class contains.
DRIFT, SMALL = 5e-3, 1e-3
#: What to change if rewards depend on more agents at once than the classes allow.
SIMPLER = "merge actions, or keep only agents who affect each other"
#: Classes, the simplest first. `learn` can use those that have a model.
ORDER = (
    *(1, "2 sparse", 2, "2 dense", "sum", "mean", "histogram", "3 sparse", 3, "3 dense", "joint"),
)


@dataclass(frozen=True)
class Structure:
    """The structure of the game behind a log, as far as the log reveals it.

    `chosen` is the class of rewards to fit: an interaction rank, "sum", "mean" or "histogram" of
    the others' actions, or "joint". `refusal` says why nothing should be learned from the log; it
    is empty if the log can be used.

    **Example**

    >>> import equipoise as eq
    >>> game = eq.games.families.polymatrix(agents=4, actions=3).sample(key=0)
    >>> log = eq.offline.collect(game, "uniform", samples=2_000, key=1)
    >>> structure = eq.offline.discover(log)
    >>> structure.chosen, structure.refusal
    (2, '')
    >>> str(structure).splitlines()[0].split()
    ['class', 'held-out', 'error', 'explained']
    """

    chosen: int | str
    #: One dictionary per class: `class`, `name`, `error` and `standard_error` (fractions of the
    #: variance of rewards, None if the class was not tried), `explained` (fraction of the
    #: explainable variance), `samples_per_parameter` and `note`.
    classes: list[dict[str, Any]]
    #: Fraction of the variance of rewards that is noise.
    floor: float
    #: Source of this estimate.
    floor_from: str
    #: Agents whose actions may enter the terms of each agent.
    neighbours: list[list[int]]
    #: The strongest pairs and triples that a test finds: `reward_of`, `with` (one or two agents),
    #: `strength` (standard deviation of their contribution to the reward) and `p_value`.
    interactions: list[dict[str, Any]]
    #: (agents,): type of each agent. Agents of one type earn alike, by own action and others' sum.
    types: list[int]
    #: Pairs of agents whose actions are correlated: `agents`, `strength` (Cramer's V).
    dependence: list[dict[str, Any]]
    #: Largest fraction of the variance of an agent's reward that a change over time explains.
    drift: float
    #: Number of rows that were left out as copies of others.
    copies: int
    #: Number of times that each agent tried each of its actions.
    tried: list[list[int]]
    #: Actions that an agent has but never tried, as (agent, action).
    untried: list[list[int]]
    #: Why nothing should be learned from the log, one reason per line, the most basic one first;
    #: empty if there is none.
    refusal: str
    #: Warnings about the log.
    warnings: list[str]

    def to_plain(self) -> dict[str, Any]:
        """Return the fields as strings, numbers and lists."""
        return asdict(self)

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> "Structure":
        """Restore a structure from the result of `to_plain`."""
        return cls(**{f.name: plain[f.name] for f in fields(cls)})

    def _repr_html_(self) -> str:
        """Table for notebooks: the classes of rewards, and the chosen one."""
        columns = ("class", "held-out error", "standard error", "explained", "note")
        rows = [
            (
                one["name"],
                one["error"],
                None if one["error"] is None else one["standard_error"],  # not tried
                one["explained"],
                "chosen" if one["class"] == self.chosen else one["note"],
            )
            for one in self.classes
        ]
        noise = f"{self.floor:.1%} of the variance is noise, by {self.floor_from}"
        told = [noise, *(f"refused: {self.refusal}".split("\n") if self.refusal else [])]
        texts = [f"<p>{escape(text)}</p>" for text in (*told, *self.warnings)]
        return html_card("Structure", [html_table(columns, rows), *texts])

    def __str__(self) -> str:
        width = max(len(one["name"]) for one in self.classes)
        lines = [f"{'class':<{width}}  held-out error    explained"]
        for one in self.classes:
            mark = "  <- chosen" if one["class"] == self.chosen else ""
            told = one["note"] or "not tried"
            if one["error"] is not None:
                told = f"{one['error']:.4f} +- {one['standard_error']:.4f}  {one['explained']:6.1%}"
            lines.append(f"{one['name']:<{width}}  {told}{mark}")
        lines.append(f"{self.floor:.1%} of the variance is noise, by {self.floor_from}")
        for size, kind in ((1, "pairs"), (2, "triples")):
            found = [one for one in self.interactions if len(one["with"]) == size]
            if found:
                shown = (
                    f"{one['reward_of']} with {' and '.join(map(str, one['with']))}"
                    for one in found[:3]
                )
                lines.append(f"{kind} that interact: {len(found)}; strongest: {', '.join(shown)}")
        lines += [f"refused: {self.refusal}"] if self.refusal else []
        return "\n".join([*lines, *self.warnings])


@named_arguments
def discover(
    log: Log | Iterable[Log],
    *,
    ranks: Sequence[int] = (1, 2, 3),
    neighbours: Any = "auto",
    key: Any = 0,
) -> Structure:
    """Discover the structure of the game behind a log, and whether the log supports a conclusion.

    Args:
        log: A log of discrete actions, or pieces of such a log (see `Log.read_chunks`). If there
            are more than 400,000 rows, a random selection of 200,000 to 400,000 is used.
        ranks: Interaction ranks to try.
        neighbours: As in `fit`. "auto" uses all agents or, if the model would be too large, those
            found by a test of every pair.
        key: Random key of the folds.

    Ctrl-C raises `runs.Unfinished`, a `KeyboardInterrupt`, after the current step. Its `found` has
    the `classes` with the errors of those that were compared.

    **Example**

    In the El Farol bar, going pays if at most 12 of 20 go.

    >>> import numpy as np, equipoise as eq
    >>> rng = np.random.default_rng(0)
    >>> go = rng.integers(0, 2, (2_000, 20))
    >>> reward = go * np.where(go.sum(1, keepdims=True) <= 12, 1.0, -1.0)
    >>> log = eq.offline.Log(None, go, reward + rng.normal(0, 0.15, reward.shape))
    >>> eq.offline.discover(log, ranks=(1, 2)).chosen
    'sum'
    """
    few, copies = distinct(Source.of(log).log)
    rare = rare_contexts(few)
    plan = comparison(few.pooled() if rare else few, ranks, neighbours, key)
    errors = np.full((plan.steps, plan.folds), np.nan)

    def compare(errors: np.ndarray, step: int, until: int) -> tuple[np.ndarray, dict[str, Any]]:
        errors[step] = plan.errors(step)
        return errors, {}

    try:
        stopped = resumable(None, errors, compare, plan.steps, name="comparing classes").stopped
    except KeyboardInterrupt:  # the second one
        stopped = True
    if stopped:
        raise Unfinished({"chosen": None, "classes": _compared(plan, errors)})
    found = structure_of(plan, errors, lambda name: terms_of(fit_class(plan, name)), copies)[0]
    return replace(found, refusal=sentences(rare, found.refusal))


def _compared(plan: Comparison, errors: np.ndarray) -> list[dict[str, Any]]:
    """The classes whose steps are finished, as in `Structure.classes`; nothing is explained yet."""
    found = plan.by_fold(errors)
    rows = []
    for name in plan.names:
        own = found.get(name, np.array([np.nan]))
        error, note = float(own.mean()) if len(own) else np.nan, plan.notes.get(name, "")
        one = {"class": name, "name": name_of(name), "error": None, "note": note or "not compared"}
        if np.isfinite(error):
            one |= {"error": error, "standard_error": standard_error(own), "note": note}
        rows.append(one | {"explained": None})
    return rows


def comparison(
    log: Log, ranks: Sequence[int], neighbours: Any, key: Any, copies: int = 1
) -> Comparison:
    """Set up the comparison of classes on held-out rows."""
    columns = columns_of(log.agents - 1, 2, sizes_of(log)[1])
    if isinstance(neighbours, str) and neighbours == "auto":
        neighbours = "all" if columns <= LARGEST else "screen"
    groups = log.samples if log.episodes is None else len(np.unique(log.episodes))
    folds = min(5 if columns > 100 else 10, max(2, groups // 2))
    options = {"aggregates": tuple(KINDS), "sparse": True, "judges": JUDGES, "copies": copies}
    return Comparison(log, ranks, True, neighbours, folds, key, LARGEST, **options)


def structure_of(
    plan: Comparison,
    errors: np.ndarray,
    fit_of: Callable[[int | str], Any],
    copies: int = 0,
    fixed: int | str | None = None,
) -> tuple[Structure, RankSelection]:
    """Return the structure, from the errors of all steps, and the selection behind it.

    `fit_of` fits a class and returns its terms. Held-out errors are averages over some agents, so
    every agent's residuals are tested for terms that the chosen class leaves out; then the simplest
    class that contains them is chosen. `fixed` is a class that the caller requested; it is refused
    if another class beats it.
    """
    log, found = plan.log, plan.by_fold(errors)
    usable = [name for name in ORDER if name in found and _can_be_fitted(name, plan)]
    usable += [k for k in found if isinstance(k, int) and k not in ORDER]
    asked = usable if fixed is None else [n for n in (fixed, f"{fixed} dense") if n in usable]
    chosen = fixed if fixed is not None and not asked else _simplest(found, asked)
    pairs, together, away = dependence_of(log)
    few = few_rows(log)  # tests on so few rows say nothing
    missing, needed, warnings = list[Missing](), list[Missing](), list[str]()
    drift, both, later = list[Drift](), list[Drift](), list[Carried]()
    if chosen not in found:  # too large to be judged, so refused
        found[chosen] = np.full(plan.folds, np.nan)
    elif not few:
        while True:
            data = Residuals(log, fit_of(chosen))
            # Terms are told apart by independent play.
            missing = [] if together or away else missing_terms(data, *_inside(plan, chosen))
            wider = [n for n in asked if _contains(plan, n, [*needed, *missing])]
            if not missing or not wider:
                break
            needed += missing
            warnings.append(f"{_left_out(log, chosen, missing[0])}, so a larger one was chosen")
            chosen = _simplest(found, wider)
        drift, both = drifts(data), lasting(data)
        later = carried(log, fit_of(chosen))
    selection = plan.choose(errors, chosen)
    floor, floor_error, source = _floor(log, found, plan.judges)
    tried = _tried(log)
    untried = [[i, a] for i, own in enumerate(tried) for a, rows in enumerate(own) if not rows]
    refusals = [  # the most basic reason first
        _told_untried(log, untried),
        *log.confounders,
        told_absences(log, away),
        told_dependence(log, pairs) if together else "",
        _told_coupled(log, None if few else coupled(log)),
        _told_drift(log, drift) or _told_lasting(log, both) or told_carried(log, later),
        # A class without a term that matters predicts better only where rows are few.
        _misfit(
            {n: e for n, e in found.items() if n == chosen or _contains(plan, n, needed)},
            chosen,
            fixed is not None or not plan.tested,
        )
        or _unexplained(found[chosen], floor, floor_error, source)
        or _told_missing(log, chosen, missing, fixed is not None or not plan.tested),
    ]
    if copies:
        warnings.append(f"{copies:,} rows are copies of others and were left out")
    if pairs and not together:
        warnings.append(f"the actions of {len(pairs)} pairs of agents are weakly correlated")
    explainable = max(1.0 - floor, 1e-12)
    classes = [
        {
            "class": name,
            "name": name_of(name),
            "error": float(error) if np.isfinite(error) else None,
            "standard_error": float(spread) if np.isfinite(error) else None,
            "explained": float(np.clip((1.0 - error) / explainable, 0.0, 1.0))
            if np.isfinite(error)
            else None,
            "samples_per_parameter": float(rows) if np.isfinite(rows) else None,
            "note": plan.notes.get(name, ""),
        }
        for name, error, spread, rows in zip(
            plan.names,
            *(selection.errors, selection.standard_errors, selection.samples_per_parameter),
            strict=True,
        )
    ]
    sets = plan.sets_of(chosen)
    structure = Structure(
        chosen=chosen,
        classes=classes,
        floor=floor,
        floor_from=source,
        neighbours=[list(own) for own in sets],
        interactions=interacting(log, sets),
        types=_types(log) if chosen == 1 or chosen in KINDS else list(range(log.agents)),
        dependence=pairs[:20],
        drift=drift[0].share if drift else 0.0,
        copies=copies,
        tried=tried,
        untried=untried,
        refusal=few or sentences(*refusals),
        warnings=warnings,
    )
    return structure, selection


def distinct(log: Log) -> tuple[Log, int]:
    """Return the log without rows that are copies of others, and the number of copies.

    Rows repeat naturally if there are few distinct rewards, or no noise. Repeated rows count as
    copies only if the reward of a single agent identifies the whole row, so that there are hardly
    more distinct rows than values of that reward, and if rows agree more often than agents who play
    and earn independently would.
    """
    if log.states is not None or log.samples < 4:
        return log, 0
    width = log.agents * (log.actions.itemsize + log.rewards.itemsize) + 8
    rows = np.empty((log.samples, width), np.uint8)
    parts, ends = (log.contexts.astype(np.int64)[:, None], log.actions, log.rewards), [0]
    for part in parts:
        part = np.ascontiguousarray(part).view(np.uint8).reshape(log.samples, -1)
        ends.append(ends[-1] + part.shape[1])
        rows[:, ends[-2] : ends[-1]] = part
    first, whole = _alike(rows[:, : ends[3]])
    if len(first) > 0.9 * log.samples:
        return log, 0
    values = max(len(np.unique(log.rewards[first, i])) for i in range(min(log.agents, 8)))
    if values < 0.5 * len(first) or _repeats(log, whole, _alike(rows[:, : ends[2]])[1]):
        return log, 0
    first = np.sort(first)
    return log.take(first), log.samples - len(first)


def fit_class(plan: Comparison, name: int | str) -> Model:
    """Fit a class of the comparison to all of its rows."""
    if name == "joint":
        return fit(plan.log, name, kind="table")
    if name in KINDS:
        return fit(plan.log, name)
    rank = int(str(name).split()[0])
    return fit(plan.log, rank, neighbours=plan.sets_of(name), intervals=False)


def _inside(plan: Comparison, name: int | str) -> tuple[list[set[int]] | None, int, range]:
    """Neighbours and order of the terms of a class, and the sizes of terms that it may lack."""
    if name == "joint":
        return None, 0, range(0)
    if name in KINDS:
        return None, 0, range(1, 4)
    return [set(own) for own in plan.sets_of(name)], int(str(name).split()[0]), range(1, 4)


def _contains(plan: Comparison, name: int | str, missing: list[Missing]) -> bool:
    """Whether a class contains all of these terms."""
    sets, order, sizes = _inside(plan, name)
    if sets is None:
        return not sizes
    everybody = set(range(plan.log.agents))
    return all(
        one.size < order
        and (
            all(own | {i} == everybody for i, own in enumerate(sets))
            if one.agent is None
            else set(one.others) <= sets[one.agent]
        )
        for one in missing
    )


def _alike(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """First of the equal rows of bytes, and a number of each row that equal rows share."""
    whole = np.ascontiguousarray(rows).view(np.dtype((np.void, rows.shape[1]))).ravel()
    return np.unique(whole, return_index=True, return_inverse=True)[1:]


def _repeats(log: Log, whole: np.ndarray, cell: np.ndarray) -> bool:
    """Whether independent agents explain how often rows agree; they do in a game without noise.

    `whole` and `cell` number equal rows, and rows with equal contexts and actions. The number of
    pairs of rows that agree in actions is compared with what the frequencies of actions lead to,
    and the fraction of these that agree in all rewards with the product over agents.
    """

    def pairs(code: np.ndarray) -> float:
        count = np.unique(code, return_counts=True)[1].astype(np.float64)
        return float((count * (count - 1)).sum())

    expected = 0.0
    for context in np.unique(log.contexts):
        actions = log.actions[log.contexts == context]
        counts = [np.unique(own, return_counts=True)[1] for own in actions.T]
        each = [float(((count / len(actions)) ** 2).sum()) for count in counts]
        expected += float(len(actions)) ** 2 * float(np.prod(each))
    together = pairs(cell)
    if together > 2.0 * expected:
        return False
    agree = pairs(whole) / together
    values = (np.unique(own, return_inverse=True) for own in log.rewards.T)
    each = [pairs(cell * np.int64(len(known)) + code) / together for known, code in values]
    return agree > 0.99 or (log.agents > 1 and agree <= 2.0 * float(np.prod(each)))


def _can_be_fitted(name: int | str, plan: Comparison) -> bool:
    """Whether `learn` can use a class: terms with all agents only if no neighbours were given."""
    if "dense" in str(name):
        return plan.tested
    return name != "joint" or joint_kind(plan.log, "auto") == "table"


def _ahead(first: np.ndarray, second: np.ndarray) -> tuple[float, float]:
    """Mean difference by which the second error is lower, over folds, and its standard error."""
    folds = min(len(first), len(second))
    gain = first[:folds] - second[:folds]
    return float(gain.mean()), float(standard_error(gain))


def _simplest(found: Mapping[int | str, np.ndarray], usable: list[int | str]) -> int | str:
    """Simplest class that no other class beats; sparse terms only if they are no worse."""
    best = min(usable, key=lambda name: float(found[name].mean()))
    for name in usable:
        gain, spread = _ahead(found[name], found[best])
        dense = int(str(name).split()[0]) if "sparse" in str(name) else name
        worse = dense in found and found[name].mean() > found[dense].mean()
        if gain <= max(BEATEN * spread, ROUNDING) and not worse:
            return name
    return best


def _misfit(found: Mapping[int | str, np.ndarray], chosen: int | str, asked: bool) -> str:
    """Say which class predicts better than the chosen one, beyond noise; empty if none does.

    `asked` says whether the caller asked for the chosen class, or gave the neighbours.
    """
    rivals = {}
    for name, errors in found.items():
        gain, spread = _ahead(found[chosen], errors)
        error = float(errors.mean())
        if name == chosen or error >= 1.0:  # no better than a constant
            continue
        if gain > max(REFUSED * spread, ROUNDING):
            rivals[name] = error
    if np.isnan(found[chosen]).any():
        told = f"{name_of(chosen)} could not be compared with other classes on held-out rows"
        return f"{told}; set rank to auto"
    if not rivals:
        return ""
    best = min(rivals, key=lambda name: rivals[name])
    told = (
        f"{name_of(chosen)} leaves {float(found[chosen].mean()):.3g} of the variance of rewards on "
        f"held-out rows, but {name_of(best)} only {rivals[best]:.3g}: the class does not fit"
    )
    return f"{told}; {'set rank and neighbours to auto' if asked else SIMPLER}"


def _floor(
    log: Log, found: Mapping[int | str, np.ndarray], judges: np.ndarray
) -> tuple[float, float, str]:
    """Fraction of the variance that is noise, its standard error, and its source."""
    part = log.take(slice(SCREENING_ROWS))
    key = np.concatenate([part.situations[:, None], part.moves], 1)
    _, group = np.unique(key, axis=0, return_inverse=True)
    count = np.bincount(group.ravel())
    free = int((count - 1).sum())
    best = min(found, key=lambda name: float(found[name].mean()))
    if free < 30:
        return min(float(found[best].mean()), 1.0), np.inf, f"the error of {name_of(best)}"
    shares = []
    for own in np.asarray(part.rewards[:, judges], np.float64).T:
        known = known_rows(own)
        own, place = own[known], group.ravel()[known]
        if not len(own):
            continue
        own = own - own.mean()
        rows, sums = np.bincount(place), np.bincount(place, own)
        within = (own**2).sum() - (sums**2 / np.maximum(rows, 1)).sum()
        degrees = len(own) - np.count_nonzero(rows)
        shares.append(within / max(degrees, 1) / max(float(own.var()), 1e-300))
    share = float(np.mean(shares or [1.0]))
    return min(share, 1.0), share * np.sqrt(2.0 / free), "repeated joint actions"


def _unexplained(errors: np.ndarray, floor: float, floor_error: float, source: str) -> str:
    error, spread = float(errors.mean()), float(standard_error(errors))
    if not np.isfinite(floor_error):
        return ""
    beyond = error - floor > REFUSED * float(np.hypot(spread, floor_error))
    share = (1.0 - error) / max(1.0 - floor, 1e-12)
    if not beyond or share > 0.9:
        return ""
    return (
        f"none of these classes fits: the best explains {share:.0%} of the explainable variance, "
        f"according to {source}; {SIMPLER}"
    )


def _left_out(log: Log, chosen: int | str, missing: Missing) -> str:
    """Say which term the chosen class leaves out."""
    if missing.agent is None:
        many = f"many weak terms of {missing.size + 1} agents"
        return f"{name_of(chosen)} leaves out {many} (z = {missing.score:.1f})"
    *most, last = [log.labels.player(j) for j in missing.others]
    others = f"{', '.join(most)} and {last} together" if most else last
    return (
        f"the reward of {log.labels.player(missing.agent)} depends on {others} in a way that "
        f"{name_of(chosen)} leaves out (z = {missing.score:.1f})"
    )


def _told_missing(log: Log, chosen: int | str, missing: list[Missing], asked: bool) -> str:
    if not any(one.share > SMALL for one in missing):
        return ""
    told = _left_out(log, chosen, max(missing, key=lambda one: one.share))
    return f"{told}; {'set rank and neighbours to auto' if asked else SIMPLER}"


def _told_drift(log: Log, found: list[Drift]) -> str:
    if not found or found[0].share <= DRIFT:
        return ""
    agent, other, score, _ = found[0]
    with_whom = "" if other is None else f" and {log.labels.player(other)}'s"
    return (
        f"rewards drift: what {log.labels.player(agent)} earns by its own{with_whom} action "
        f"changes over the rows (z = {score:.1f}); use only the rows since the change, or add what "
        "changed as a context"
    )


def _told_lasting(log: Log, found: list[Drift]) -> str:
    if not found or found[0].share <= DRIFT:
        return ""
    agent = log.labels.player(found[0].agent)
    return (
        f"the action of {agent} follows its last reward (z = {found[0].score:.1f}), and what moved "
        "that reward lasts: an unrecorded variable drives both actions and rewards; add it as a "
        "context"
    )


def _told_coupled(log: Log, found: Missing | None) -> str:
    if found is None or found.agent is None:
        return ""
    whose = " and ".join(log.labels.player(j) for j in found.others)
    return (
        f"the next state of {log.labels.player(found.agent)} depends on what {whose} did (z = "
        f"{found.score:.1f}), but learning assumes that each agent's state depends on its own "
        "state and action alone; make a state that several agents move a context, or leave them out"
    )


def _tried(log: Log) -> list[list[int]]:
    """Number of times each agent tried each of its actions while present."""
    counts = count_actions(log)
    counts = counts.reshape(-1, log.agents, log.states_count, counts.shape[-1])
    counts = counts[:, :, :1] if log.absences else counts
    return [
        own[:actions].tolist()
        for own, actions in zip(counts.sum((0, 2)), log.actions_per_agent, strict=True)
    ]


def _told_untried(log: Log, untried: list[list[int]]) -> str:
    if not untried:
        return ""
    shown = [f"{log.labels.player(i)}: {log.labels.action(i, a)}" for i, a in untried[:5]]
    more = f" and {len(untried) - 5} more" if len(untried) > 5 else ""
    return (
        f"the log never shows some actions ({', '.join(shown)}{more}), so their rewards are "
        "unknown; let these agents try them"
    )


def _types(log: Log) -> list[int]:
    """Types of agents that earn alike, by own action and by the tercile of the others' sum."""
    if log.agents < 2 or log.states is not None or len(set(log.actions_per_agent)) > 1:
        return list(range(log.agents))
    log = log.take(slice(SCREENING_ROWS))
    actions = log.actions_per_agent[0]
    score = scores_of(log, "sum")[0].ravel()[log.moves].astype(np.float64)
    others = score.sum(1, keepdims=True) - score
    third = (others > np.quantile(others, [1 / 3, 2 / 3])[:, None, None]).sum(0)
    cell = (log.situations[:, None] * actions + log.moves) * 3 + third
    size = sizes_of(log)[0] * actions * 3
    rewards = np.asarray(log.rewards, np.float64)
    known = ~np.isnan(rewards)
    rewards = np.where(known, rewards, 0.0)
    count, total, square = (
        np.stack([np.bincount(own, given, size) for own, given in zip(cell.T, by, strict=True)])
        for by in (known.astype(np.float64).T, rewards.T, rewards.T**2)
    )
    mean = total / np.maximum(count, 1)
    variance = np.maximum(square / np.maximum(count, 1) - mean**2, 1e-12) / np.maximum(count, 1)
    found, types = list[int](), list[int]()
    for i in range(log.agents):
        for number, j in enumerate(found):
            both = (count[i] > 4) & (count[j] > 4)
            apart = ((mean[i] - mean[j]) ** 2 / (variance[i] + variance[j]))[both].sum()
            if chi2.sf(apart, max(int(both.sum()), 1)) > 0.01 / log.agents:
                types.append(number)
                break
        else:
            types.append(len(found))
            found.append(i)
    return types
