"""Learn from logs of continuous actions.

By default, Gaussian processes of several interaction ranks are fitted, and held-out rows choose the
rank. Agents then play best responses to each other in the fitted game, from several starts. Among
the points where they come to rest, we choose the one with the smallest bound on the agents' gains.
The bound is a quantile of the largest gain under the posterior distribution of another process,
which does not assume that rewards are smooth.

If networks or polynomials are chosen, and for logs with local states, `offline.deep` fits critics
and improves actors from several random starts, and best responses to the mean of the critics finish
the policy. This gives no bound.
"""

from dataclasses import replace
from typing import Any

import jax
import numpy as np

from equipoise.certificates import certify
from equipoise.core import InputError, Solution, Verdict
from equipoise.core.results import amount
from equipoise.games import ContinuousPolicy
from equipoise.offline import deep
from equipoise.offline._dependence import dependence_of, told_dependence
from equipoise.offline._discover import distinct
from equipoise.offline._log import Log
from equipoise.offline._own_play import (
    NOT_ADVICE,
    facts_of,
    forced,
    own_play,
    own_points,
    refused,
    sentences,
    stopped,
)
from equipoise.offline._solve import in_model
from equipoise.offline.deep._fit import FEWEST
from equipoise.offline.deep._kernels import MOST_CONTEXTS, drift_of, evidence_of, gain_draws
from equipoise.offline.deep._rows import shown
from equipoise.offline.deep._settle import largest_gain, own_play_gain, settle
from equipoise.offline.deep._spec import FUNCTIONS
from equipoise.runs import Run, interruptible

#: Number of random starts from which networks are fitted and actors improved.
STARTS = 5
#: Actions have settled when no gain exceeds this fraction of the rewards' standard deviation.
SETTLED = 0.05
#: The log speaks for smooth rewards if this is the mean evidence for it over agents, relative to
#: rewards that are differentiable once.
_SMOOTH = 8.0
#: Length of a part of [-1, 1] without actions of an agent that deserves a warning.
_WIDE = 0.3
#: Largest number of rows that Gaussian processes use.
MOST_ROWS = 20_000
#: Number of points, where best responses came to rest, whose gains are bounded.
_CANDIDATES = 6
#: A larger rank must reduce the held-out error by this fraction.
_BETTER = 0.02
#: Critics must predict the held-out rewards of an agent better than a constant, by this many
#: standard errors.
_SURE = 4.0
#: Rewards drift if this is the evidence for it, a logarithm of a ratio of likelihoods, and if the
#: effects of actions in the two halves of the rows have at most this correlation.
_EVIDENCE, _ALIKE = 8.0, 0.9


def critic_of(given: Any, log: Log) -> Any:
    """Return the settings of the critic that a user chose by name; None chooses a Gaussian process.

    Logs with local states have no Gaussian processes.
    """
    if isinstance(given, deep.Critic | deep.LinearCritic | deep.KernelCritic):
        return given
    rank = min(2, log.agents)
    if given is None and log.states is not None:
        return deep.Critic(rank=rank)
    if given in (None, "kernel"):
        return None
    if given == "linear":
        return deep.LinearCritic(rank=rank)
    if given not in deep.ARCHITECTURES:
        known = ", ".join(["kernel", "linear", *deep.ARCHITECTURES])
        raise InputError("critic", f"one of {known}, or a Critic", repr(given))
    return deep.Critic.named(given)


def learn_continuous(
    log: Log, options: dict[str, Any], key: jax.Array, run: Run | None
) -> Solution:
    """Learn from a log of continuous actions; options are those of `learn`."""
    facts = facts_of(log)
    if log.samples < FEWEST:
        return refused(log, f"{log.samples} rows are fewer than the {FEWEST} needed", facts)
    if options["critic"] is None or isinstance(options["critic"], deep.KernelCritic):
        return _by_kernels(log, options, key, run, facts)
    return _by_actors(log, options, key, run, facts)


def _by_kernels(
    log: Log, options: dict[str, Any], key: jax.Array, run: Run | None, facts: dict[str, Any]
) -> Solution:
    log, copies = distinct(log)
    if copies:
        told = f"{copies:,} rows are copies of others and were left out"
        facts["warnings"] = [*facts["warnings"], told]
    if log.samples > MOST_ROWS:
        told = f"{MOST_ROWS:,} of {log.samples:,} rows were used; networks (critic) use all rows"
        facts["warnings"] = [*facts["warnings"], told]
        log = log.take(np.linspace(0, log.samples - 1, MOST_ROWS).round().astype(int))
    wanted = None if options["critic"] is None else options["critic"].rank
    base = options["critic"] or deep.KernelCritic()
    tried: dict[int | str, deep.Critics] = {}
    with interruptible() as stop:
        for rank in _ranks(log.agents, wanted):
            folder = None if run is None else run.path / f"critics-{rank}"
            if not stop:
                tried[rank] = deep.fit(log, replace(base, rank=rank), key=key, run=folder)
        chosen, misfit = (None, "") if stop else _chosen(tried, wanted)
        cautious = (
            None if chosen is None else _cautious(tried[chosen], base.functions, log, key, run)
        )
    if stop or chosen is None or cautious is None:
        return own_play(log, stopped("stopped while fitting critics"), facts)
    unsure, assumed = cautious
    critics = tried[chosen]
    explained = critics.explained[0]
    facts |= {
        "critic": str(critics.spec),
        "parameters": critics.parameters,
        "explained": explained,
        "explained_by_rank": {str(rank): float(c.explained.mean()) for rank, c in tried.items()},
        "steps": 0,
        "assumed": assumed,
    }
    pairs, together, _ = dependence_of(log)
    refusals = [*log.confounders, told_dependence(log, pairs) if together else "", misfit]
    tolerance = SETTLED * float(np.std(log.rewards, 0).max())
    own = own_points(log).points
    points = [own, *settle(critics, log, own[None], tolerance / 10)[:_CANDIDATES]]
    alike, evidence = drift_of(critics, log)
    if ((alike <= _ALIKE) & (evidence > _EVIDENCE)).any():
        refusals.append(
            "rewards drift: actions have other effects in the second half of the rows than in the "
            f"first, most of all for {log.labels.player(int(evidence.argmax()))}; use rows of a "
            "period in which nothing changed, or add the period as a context"
        )
    draws, own_draws, better = gain_draws(unsure, log, np.stack(points), key)
    level = options["level"]
    bounded, quantiles = log.contexts_count <= MOST_CONTEXTS, [(1 - level) / 2, (1 + level) / 2]
    ends, own_interval = np.full((2, len(points)), np.inf), [np.inf] * 2  # ends, points
    if bounded:
        ends = np.quantile(draws.max(1), quantiles, axis=1)
        low = np.quantile(own_draws[0], quantiles[0], axis=1).max()
        own_interval = [float(low), float(np.quantile(own_draws[1].max(0), quantiles[1]))]
    best = 1 + int(np.argmin(ends[1, 1:]))
    gaps = {k: largest_gain(critics, log, points[k]) for k in (0, best)}
    if gaps[best] > tolerance:
        refusals.append(_unsettled(gaps[best], tolerance, log))
    elif ends[1, best] > ends[1, 0]:
        refusals.append(
            "the log does not show that the learned policy is better than the log's mean actions: "
            f"gains are at most {amount(float(ends[1, best]), upwards=True)}, and "
            f"{amount(float(ends[1, 0]), upwards=True)} for the mean actions"
        )
    refusal = sentences(*refusals)
    bound = float(ends[1, best])
    promise = (
        f"with {(1 + level) / 2:.0%} confidence, nobody gains more than "
        f"{amount(bound, upwards=True)} by deviating to an action that the log shows. "
        f"Assumptions: rewards are {assumed} in the actions; the game does not change; "
        "no unrecorded variable drives both actions and rewards; no row is missing because of what "
        "was earned; rewards depend on actions of the same row only"
    )
    if log.numeric_contexts:
        promise += f". Not counted: deviations that depend on {' or '.join(log.numeric_contexts)}"
    if better.max() < _SURE and not misfit and not options["force"]:
        message = (
            "it is not certain that the critics predict held-out rewards better than a constant"
        )
        status = Verdict("nothing learned", sentences(message, NOT_ADVICE))
    elif not refusal and not bounded:
        message = f"gains are not bounded for logs with more than {MOST_CONTEXTS} contexts"
        status = Verdict("learned", message, caution=True)
    elif not refusal:
        status = Verdict("learned", promise)
    elif options["force"]:
        status = forced(Verdict("refused", refusal))
    else:
        status = Verdict("refused", sentences(refusal, NOT_ADVICE))
    if status.name in ("nothing learned", "refused"):
        best = 0
    policy, gap = ContinuousPolicy(points[best]), gaps[best]
    found = in_model(certify(critics.as_game(), policy))
    facts["warnings"] = [*facts["warnings"], *_unshown(log)]
    # Draws hardly ever have a gain of zero, which an equilibrium has.
    interval = [max(min(float(ends[0, best]), gap), 0.0), float(ends[1, best])]
    likely = np.full(log.agents, np.inf)
    if bounded:
        likely = np.quantile(draws[best], (1 + level) / 2, axis=1)
    weights = np.bincount(log.contexts, minlength=log.contexts_count) / log.samples
    expected = weights @ critics(policy.points, np.arange(log.contexts_count))
    text = f"{gap:.4g} in the fitted model, by search"
    if np.isfinite(interval[1]):
        text = f"[{interval[0]:.4g}, {interval[1]:.4g}] ({level:.0%}); {text}"
    stats = facts | {
        "own_gap": own_play_gain(critics, log),
        "own_interval": own_interval,
        "interval": interval,
        "bound": interval[1],
        "gap": {"gap": gap, "interval": interval, "level": level, "text": text},
        "earned": np.asarray(log.rewards, np.float64).mean(0),
        "expected": expected,
        "gains_at_most": np.minimum(likely, interval[1]),
    }
    return Solution(policy, np.asarray(found.value), found, status, stats=stats)


def _cautious(
    critics: deep.Critics, functions: str, log: Log, key: jax.Array, run: Run | None
) -> tuple[deep.Critics, str]:
    """Fit critics that assume less than these ones, and return them with what they assume.

    They assume differentiable rewards if the log speaks for smoothness, and else continuous ones.
    """
    evidence, found = evidence_of(critics, log).mean(), critics
    weaker = FUNCTIONS[1 + FUNCTIONS.index(functions) :]
    for functions in weaker:
        folder = None if run is None else run.path / f"critics-{functions}"
        spec: Any = replace(critics.spec, functions=functions)
        found = deep.fit(log, spec, key=key, run=folder)
        if evidence - evidence_of(found, log).mean() > _SMOOTH:
            break
    return found, functions


def _ranks(agents: int, wanted: int | str | None) -> list[int | str]:
    """Ranks to compare, the simplest first.

    >>> _ranks(8, None), _ranks(3, 1), _ranks(2, None)
    ([2, 3, 'joint'], [1, 2, 3], [2])
    """
    known: list[int | str] = [rank for rank in (2, 3) if rank <= agents] or [1]
    known += ["joint"] if agents > 3 else []
    if wanted is not None and wanted not in known:
        known.append(wanted)
    return sorted(known, key=lambda rank: np.inf if rank == "joint" else rank)


def _chosen(
    tried: dict[int | str, deep.Critics], wanted: int | str | None
) -> tuple[int | str, str]:
    """Return the simplest rank that predicts well, or the wanted one and why it must be refused."""
    errors = {
        rank: float(np.log(np.clip(critics.unexplained, 1e-6, 1.0)).mean())
        for rank, critics in tried.items()
    }
    least = min(errors.values())
    best = next(rank for rank, error in errors.items() if error <= least + _BETTER)
    if wanted is None or errors[wanted] <= least + _BETTER:
        return best if wanted is None else wanted, ""
    shares = [f"{float(tried[rank].unexplained.mean()):.1%}" for rank in (wanted, best)]
    return wanted, (
        f"the critic does not fit: rank {wanted} leaves {shares[0]} of the variance of held-out "
        f"rewards unexplained, and rank {best} leaves {shares[1]}; use rank {best}"
    )


def _unshown(log: Log) -> list[str]:
    """Warn about actions that the bound does not cover, in the unit of the data."""
    ends = np.concatenate([np.full((1, log.agents), -1.0), np.sort(log.actions, 0)])
    ends = np.concatenate([ends, np.ones((1, log.agents))])
    row, agent = np.unravel_index(np.argmax(np.diff(ends, axis=0)), (len(ends) - 1, log.agents))
    hole = ends[row : row + 2, agent]
    if hole[1] - hole[0] < _WIDE:
        return []
    low, high = log.action_range or (-1.0, 1.0)
    first, last = low + (high - low) * (hole + 1.0) / 2.0
    return [
        "gains are unknown for actions that the log does not show: "
        f"{log.labels.player(int(agent))} plays none between {first:.4g} and {last:.4g}"
    ]


def _by_actors(
    log: Log, options: dict[str, Any], key: jax.Array, run: Run | None, facts: dict[str, Any]
) -> Solution:
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
        done = f"{facts['steps']} actor steps" if actors else "fitting the critics"
        status = stopped(f"stopped during or after {done}")
    elif explained.mean() <= 0 and not options["force"]:
        policy = own
        status = Verdict(
            "nothing learned",
            sentences("the critics predict held-out rewards no better than a constant", NOT_ADVICE),
        )
    if log.states is not None:
        text = "not estimated: the log has several steps, and gains are computed for one step only"
        stats = facts | {"gap": {"gap": None, "text": text}, "own_gap": None}
        status = status or Verdict("learned", f"gains are {text}")
        return replace(own_play(log, status, stats), policy=policy)
    game, tolerance = critics.as_game(None), SETTLED * float(np.std(log.rewards, 0).max())
    if status is None and actors is not None:
        policy = ContinuousPolicy(settle(critics, log, actors.points, tolerance / 10)[0])
    found, before = (in_model(certify(game, each)) for each in (policy, own))
    if status is None:
        given = (tolerance, log, options["force"])
        policy, found, status = _judged((policy, found), (own, before), *given)
    gap = float(found.max_gain)
    stats = facts | {"own_gap": own_play_gain(critics, log)}
    stats["gap"] = {"gap": gap, "text": f"{gap:.4g} in the fitted model, by search"}
    return Solution(policy, np.asarray(found.value), found, status, stats=stats)


def _judged(
    learned: tuple[Any, Any], own: tuple[Any, Any], tolerance: float, log: Log, force: bool
) -> tuple[Any, Any, Verdict]:
    """Choose the (policy, certificate) pair to return by the certificates, with its status."""
    gap = float(learned[1].max_gain)
    if gap <= tolerance:
        message = f"the largest gain that a search finds in the fitted critics is {gap:.3g}"
        return *learned, Verdict("learned", message)
    refusal = _unsettled(gap, tolerance, log)
    if force:
        return *learned, forced(Verdict("refused", refusal))
    return *own, Verdict("refused", sentences(refusal, NOT_ADVICE))


def _unsettled(gap: float, tolerance: float, log: Log) -> str:
    low, high = shown(log)
    narrow = f"the log only contains actions from {low.max():.3g} to {high.min():.3g}"
    hint = narrow if (high - low).min() < 1.9 else "perhaps the agents need to randomise"
    return (
        f"actions do not settle: an agent still gains {gap:.3g} in the fitted critics, more than "
        f"{tolerance:.3g} ({SETTLED:.0%} of the standard deviation of rewards); {hint}"
    )
