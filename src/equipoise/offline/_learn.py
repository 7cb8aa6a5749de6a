"""Learn a policy from a log in one call. The command `equipoise offline` calls `advise`.

Discrete actions: `discover` compares classes of rewards on held-out rows and the chosen class is
fitted. Decentralised learning then finds policies that stay near what the log covers. Each policy
is learned from all rows except one part, and that part judges it (`_bounds`). Continuous actions:
see `_continuous`.

The work is a sequence of steps whose results do not depend on when they are computed. Ctrl-C stops
between two steps, and a run folder keeps the results of the finished steps.
"""

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from inspect import signature
from typing import Any, cast

import jax
import numpy as np

from equipoise.certificates import solution_from_plain
from equipoise.core import InputError, Solution, checks
from equipoise.core.errors import named_arguments, unknown_name
from equipoise.core.randomness import as_key
from equipoise.core.text import About, named
from equipoise.offline._aggregate import KINDS, aggregate_note
from equipoise.offline._continuous import critic_of, learn_continuous
from equipoise.offline._coverage import check_counted
from equipoise.offline._discover import Structure
from equipoise.offline._discrete import learn_discrete
from equipoise.offline._formats import DECLARED
from equipoise.offline._frames import LONG_TABLE
from equipoise.offline._frames import OPTIONS as READING
from equipoise.offline._log import Log
from equipoise.offline._pieces import Source
from equipoise.offline._saved import write_policy_files
from equipoise.runs import Format, Record, Run, kept


@dataclass(frozen=True, eq=False, repr=False)
class Advice(Solution[Any]):
    """A `Solution` learned from a log, with bounds on agents' gains in the logged game.

    **Example**

    >>> import equipoise as eq
    >>> game = eq.games.families.polymatrix(agents=3, actions=2).sample(key=0)
    >>> log = eq.offline.collect(game, "uniform", samples=1_000, key=1)
    >>> advice = eq.advise(log)
    >>> low, high = advice.interval
    >>> low < advice.bound == high, advice.structure.chosen
    (True, 2)
    """

    @property
    def structure(self) -> Structure | None:
        """The structure that `discover` found in the log; None if `discover` was not run."""
        plain = self.stats.get("structure")
        return None if plain is None else Structure.from_plain(plain)

    @property
    def interval(self) -> tuple[float, float] | None:
        """Confidence interval of the largest gain in the logged game; None if it is unknown."""
        found = self.stats.get("interval")
        return None if found is None else (float(found[0]), float(found[1]))

    @property
    def bound(self) -> float:
        """Upper bound on any agent's gain from a deviation that the log shows; infinite if unknown.

        `stats["unknown"]` lists deviations that the log shows too rarely, alone or together with
        what others are advised to do. Deviations may depend on categorical contexts but not on
        numeric ones.
        """
        return float(self.stats.get("bound", np.inf))


def as_advice(solution: Solution, log: Log) -> Advice:
    advice = Advice(**{f.name: getattr(solution, f.name) for f in fields(solution)})
    title = f"{log.name}: {log.samples:,} rows of {log.agents} agents"
    return named(advice, About(title, log.labels, "agent", "mean reward", log.agents))


@named_arguments
def advise(
    log: Log | str | os.PathLike[str] | Iterable[Log] | Any,
    *,
    agent: str | None = None,
    time: str | None = None,
    action: Any = None,
    reward: Any = None,
    context: Any = None,
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
    **reading: Any,
) -> Advice:
    """Learn a near-equilibrium from a log and bound what any agent could gain by deviating.

    With discrete actions, policies come from DR-AC (Algorithm 1 of the interaction-rank paper) with
    an exact critic; `fit` and `solve` take its steps one by one.

    Args:
        log: A log, the path of a log file, a data frame, or an iterable of pieces of a log that is
            larger than memory (see `Log.read_chunks`). Every row enters the fit. If there are more
            than 400,000 rows, a random selection of 200,000 to 400,000 of them chooses the class of
            rewards and judges the learned policy.
        agent, time, action, reward, context: Columns of a table, as in `Log.read`. A table with one
            row per agent and time needs the first four; one with columns for every agent needs
            none.
        rank: Class of rewards: an interaction rank; "sum", "mean" or "histogram" (a table of the
            own action by an aggregate of the others' actions); or "auto" for the class that
            `discover` chooses. A class that predicts held-out rows worse than another is refused.
        neighbours: Agents whose actions may affect an agent's reward, as in `fit`: "all", "screen",
            a number of strongest neighbours, or a list for each agent. "auto" lets held-out rows
            decide.
        critic: Critic for continuous actions: "kernel" (Gaussian processes, the default), "linear",
            an architecture of `deep.ARCHITECTURES`, or a `deep.KernelCritic`, `deep.LinearCritic`
            or `deep.Critic`. Only "kernel" gives a bound. Logs with local states need networks,
            and their default is "2-IR-64". If a critic is given, a path is read as a log of
            continuous actions.
        iterations: Number of iterations of `solve`; for networks and polynomials, number of actor
            steps.
        step: Step size of an iteration, as in `solve`.
        strength: Weight of the penalty for leaving the log's play, as in `solve`.
        level: Confidence level of the interval of the largest gain.
        force: Learn even if the log would be refused. The status then says `caution`.
        key: Random key for folds and networks.
        run: Run folder. If the call is interrupted, the same call resumes the run; if the run is
            finished, the call reads its result.
        reading: Further options of `Log.read` for a file or a data frame, such as `bins`.

    Returns an `Advice`: a `Solution` with `structure`, `interval` and `bound`. Its `policy` is a
    `Mixture` over the log's agents and actions, or a `ContinuousPolicy` for continuous actions. The
    mixture has one component, a product policy, unless only a joint draw for all agents is good
    enough; the status message then says so. The certificate holds in the *fitted model* and proves
    nothing about the logged game; `interval` and `bound` are statements about this policy in the
    logged game, obtained by cross-fitting (discrete actions) or from the posterior distribution of
    rewards that are continuous in the actions (continuous actions). `status.name` is

    - "learned". With `status.caution`, the log would be refused and `force` was given, or the
      advice leads to combinations of actions that are rare in the log;
    - "nothing learned": no model predicts rewards better than a constant;
    - "refused": the log does not support a policy. Possible reasons: the reward class does not fit,
      rewards drift over time, actions are correlated or were never tried, an agent's next state
      depends on what others did, there are too few rows, or there is no evidence that the learned
      policy is better than the log's own play. For continuous actions also: the actions did not
      settle, and an agent still gains more than 5% of the rewards' standard deviation in the
      critics. The message says what to change;
    - "interrupted": Ctrl-C stopped the run before it finished.

    If nothing was learned, the policy is the log's own play (its behaviour policy), and the bounds
    apply to that policy.

    `stats` contains plain values only: numbers, strings, lists, dictionaries and arrays.

    - For every log: `agents`, `samples`, `contexts`, `actions` (per agent; empty for continuous
      actions), `labels` (`Labels.to_plain()`), `warnings` (sentences), `never_present` (contexts
      and agents that never occur together), `gap` (a dictionary with the
      largest gain in the fitted model, also called `gap`, and a description, `text`) and `own_gap`
      (largest gain of the log's own play in the fitted model).
    - For discrete actions: `structure` (`Structure.to_plain()`), `interval`, `bound`, `unknown`
      (deviations that the log shows too rarely), `own_interval`; per agent `earned`, `expected`,
      `expected_error`, `gains` and `gains_at_most`; `deviations` (`gain`, `lower` and `upper` for
      always playing one action, by agent and action; NaN if the log does not show the action);
      `coverage` (`covered`, `fewest`, `concentrability` per agent), `single_action`, `chi_squared`,
      `samples_per_parameter`; the model's `rank`, `noise` and `behaviour`; and, if the model has
      terms, `interactions` (the strongest terms: `reward_of`, `with`, `strength`, `lower`, `upper`)
      and the (agents, agents) arrays of its `InteractionMap`: `strength_total`, `strengths`,
      `strengths_lower`, `strengths_upper`.
    - For continuous actions: `critic`, `parameters`, `explained` (fraction of held-out variance
      that the critics explain, per agent), `steps` (number of actor steps), and `action_range` if
      the log has one. With the critic "kernel" also `interval`, `bound`, `own_interval`, `earned`,
      `expected`, `gains_at_most`, `explained_by_rank` (mean of `explained` for each rank tried)
      and `assumed` (what the bound assumes of rewards: "differentiable" or "continuous").

    **Example**

    >>> import equipoise as eq
    >>> game = eq.games.families.polymatrix(agents=4, actions=3).sample(key=0)
    >>> log = eq.offline.collect(game, "uniform", samples=2_000, key=1)
    >>> advice = eq.advise(log)
    >>> str(advice.status.name), advice.structure.chosen
    ('learned', 2)
    >>> low, high = advice.interval
    >>> bool(low <= eq.certify(game, advice.policy).max_gain <= high)
    True
    """
    columns = {"agent": agent, "time": time, "action": action, "reward": reward}
    columns = {"context": context, **columns}
    reading |= {name: column for name, column in columns.items() if column is not None}
    if isinstance(log, str | os.PathLike) or hasattr(log, "columns"):
        log = _read(log, reading, continuous=critic is not None)
    elif reading:
        name = next(iter(reading))
        if name not in (*READING, "continuous"):
            raise unknown_name("advise", name, _options())
        raise InputError(name, "no value with a log that has been read", repr(reading[name]))
    if not isinstance(log, Log | Iterable):
        raise InputError("log", "a Log, a path or pieces of a log", type(log).__name__)
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
            return learn_continuous(log, options, key, folder)
        return learn_discrete(source, options, key, folder)

    return as_advice(keep_solution(log, options, key, run, pipeline), log)


def keep_solution(
    log: Log,
    options: dict[str, Any],
    key: Any,
    run: str | os.PathLike[str] | None,
    work: Callable[[Run | None], Solution],
) -> Solution:
    """Return the solution of a log that `work` computes, or read it from its run folder."""

    def settings() -> dict[str, Any]:
        words = np.asarray(jax.random.key_data(key))
        return {"log": log.name, "fingerprint": log.fingerprint(), **options, "key": words}

    def write(solution: Solution, folder: Run) -> Record | None:
        if solution.status.name == "interrupted":
            return None
        write_policy_files(folder.path, log, solution)
        labels = {"labels": log.labels.to_plain()}
        return Record(log.name, folder.config, labels, solution=solution.to_plain())

    def read(folder: Run) -> Solution:
        return solution_from_plain(folder.record().solution or {})

    return kept(run, settings, work, Format(read, write))


def _options() -> list[str]:
    """Return the names of all arguments of `advise`, and those of `Log.read` that it passes on."""
    return [*(name for name in signature(advise).parameters if name != "reading"), *READING]


def _read(source: Any, reading: dict[str, Any], *, continuous: bool) -> Log:
    """Read a file or a data frame; say what to type if it is a long table."""
    for name in reading:
        if name not in (*READING, *DECLARED):
            raise unknown_name("advise", name, _options())
    reading = {"continuous": True, **reading} if continuous else reading
    try:
        return Log.read(source, **reading)
    except InputError as error:
        if not error.hint.startswith(LONG_TABLE):
            raise
        what = repr(str(source)) if isinstance(source, str | os.PathLike) else "frame"
        hint = f"{LONG_TABLE}, type advise({what}, agent=..., time=..., action=..., reward=...) "
        hint += "with the names of its columns"
        raise InputError("log", error.expected, error.found, hint) from None


def _check(log: Log, options: dict[str, Any]) -> None:
    """Refuse invalid options before any work is done, and fill in the default critic."""
    check_counted(log)
    if options["iterations"] is not None:
        checks.check_count("iterations", options["iterations"])
    if log.continuous:
        usual = {"rank": "auto", "neighbours": "auto", "step": None, "strength": None}
        for name, value in usual.items():
            if options[name] != value:
                expected = f"{value or 'no value'} for continuous actions"
                raise InputError(name, expected, options[name])
        options["critic"] = critic_of(options["critic"], log)
        checks.check_range("level", options["level"], 0.0, 1.0, low_open=True, high_open=True)
        if options["critic"] is None and options["iterations"] is not None:
            raise InputError("iterations", "none without actors", options["iterations"])
        return
    if options["critic"] is not None:
        raise InputError("critic", "none for discrete actions", options["critic"])
    rank = options["rank"]
    if rank in KINDS:
        if note := aggregate_note(log, rank):
            raise InputError("rank", "an aggregate that this log supports", note)
    elif rank != "auto" and checks.check_count("rank", rank) > log.agents:
        raise InputError("rank", f"at most {log.agents}, the number of agents", rank)
    for name, low_open in (("step", True), ("strength", False)):
        if options[name] is not None:
            checks.check_range(name, options[name], 0.0, np.inf, low_open=low_open, high_open=True)
    checks.check_range("level", options["level"], 0.0, 1.0, low_open=True, high_open=True)
