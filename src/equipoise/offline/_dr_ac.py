"""DR-AC, Algorithm 1 of the interaction-rank paper, from a log to a run folder in one call.

The algorithm as the paper states it: one fit to all rows, then decentralised learning in the fitted
model. Nothing is held out, so nothing bounds the gains in the logged game; `learn` does that.
"""

import os
from dataclasses import asdict, replace
from typing import Any

import jax
import numpy as np

from equipoise.certificates import certify
from equipoise.core import InputError, Solution, checks
from equipoise.core.errors import named_arguments
from equipoise.core.randomness import as_key
from equipoise.core.text import About, named
from equipoise.offline import parameters as named_parameters
from equipoise.offline._coverage import over_known
from equipoise.offline._discrete import model_facts
from equipoise.offline._fit import fit
from equipoise.offline._learn import Advice, as_advice, keep_solution
from equipoise.offline._log import Log
from equipoise.offline._model import Model
from equipoise.offline._own_play import facts_of, sentences
from equipoise.offline._select import select_rank
from equipoise.offline._solve import solve
from equipoise.offline.parameters import Parameters
from equipoise.runs import Run

#: Where the parameters come from.
PARAMETERS = ("corrected", "printed")
#: What the status says besides.
_NOT_BOUNDED = (
    "expected rewards are also those of the fitted model; to bound gains in the logged game, use "
    "the method advice (`eq.advise`)"
)


@named_arguments
def dr_ac(
    log: Log | str | os.PathLike[str],
    *,
    rank: int | str = "auto",
    neighbours: Any = None,
    regulariser: str = "chi-squared",
    critic: str = "exact",
    simulations: int = 256,
    parameters: str | Parameters = "corrected",
    error: float | None = None,
    iterations: int | None = None,
    step: float | None = None,
    strength: float | None = None,
    force: bool = False,
    key: Any = 0,
    run: str | os.PathLike[str] | None = None,
) -> Advice:
    """Run DR-AC (Algorithm 1 of the interaction-rank paper) on a log of counted actions.

    This fits the rewards (and transitions) to all rows, as `fit` does, and learns in the fitted
    model, as `solve` does. For contextual games it is the decentralised policy gradient of Section
    4. The command `equipoise offline --method dr-ac` calls it.

    **Arguments**

    - `log`: a log with counted actions in which all agents are always present, or its path. For
      numeric contexts or local states, call `fit` and `solve`.
    - `rank`: the interaction rank K; "auto" chooses it on held-out rows (`select_rank`).
    - `neighbours`: as in `fit`.
    - `regulariser`: "chi-squared" as in the paper, or "kl" or "l2" (Remark 2).
    - `critic`: "exact", or "monte-carlo" (Algorithm 2) with so many `simulations` an iteration.
    - `parameters`: "corrected" (`parameters.default`), "printed" (`parameters.paper`, Theorems 3
      and 4, for rewards in [0, 1]), or a `Parameters`. `iterations`, `step` and `strength` replace
      single ones.
    - `error`: the mean squared error that the printed parameters depend on. Default: estimated as
      the variance of the residuals divided by the rows per parameter. Games with states need it:
      it then depends on the sizes of the classes of models.
    - `force`, `key`: as in `solve`.
    - `run`: run folder for the record and the policy. The same call reads a finished run.

    Returns an `Advice` whose certificate holds in the *fitted model*: it proves nothing about the
    logged game, `interval` is None and `bound` is infinite. `learn` fits and judges on different
    rows, and bounds the gains in the logged game.

    **Example**

    >>> import equipoise as eq
    >>> game = eq.games.families.polymatrix(agents=4, actions=3).sample(key=0)
    >>> log = eq.offline.collect(game, "uniform", samples=2_000, key=1)
    >>> solution = eq.offline.dr_ac(log, rank=2)
    >>> len(solution.policy), solution.bound
    (300, inf)
    >>> bool(eq.certify(game, solution.policy).max_gain < 0.1)
    True
    >>> printed = eq.offline.dr_ac(log, rank=2, parameters="printed")
    >>> printed.stats["iterations"] < 300
    True
    """
    log = log if isinstance(log, Log) else Log.read(log)
    _check(log, rank, parameters, error)
    given: Any = asdict(parameters) if isinstance(parameters, Parameters) else parameters
    options = {
        **{"method": "dr-ac", "rank": rank, "neighbours": neighbours, "error": error},
        **{"regulariser": regulariser, "critic": critic, "simulations": simulations},
        **{"parameters": given, "iterations": iterations, "step": step, "strength": strength},
        "force": force,
    }
    key = as_key(key)

    def learn(folder: Run | None) -> Any:
        return _learn(log, options, parameters, key)

    return as_advice(keep_solution(log, options, key, run, learn), log)


def _check(log: Log, rank: Any, parameters: Any, error: float | None) -> None:
    """Refuse logs and options that the algorithm is not stated for."""
    if log.continuous:
        raise InputError("log", "counted actions for DR-AC", "continuous actions")
    if log.numeric:
        hint = "`offline.fit` and `offline.solve` take such logs"
        raise InputError("log", "counted contexts and states for DR-AC", log.numeric, hint)
    if log.absences:
        expected = "a log in which all agents are always present for DR-AC"
        raise InputError("log", expected, "agents that are absent at times")
    if rank != "auto" and (isinstance(rank, str) or checks.check_count("rank", rank) > log.agents):
        expected = f"'auto' or a whole number up to {log.agents}, the number of agents"
        raise InputError("rank", expected, repr(rank))
    if not isinstance(parameters, Parameters) and parameters not in PARAMETERS:
        expected = f"one of {', '.join(PARAMETERS)}, or a Parameters"
        raise InputError("parameters", expected, repr(parameters))
    if error is not None:
        if parameters != "printed":
            raise InputError("error", "no value without parameters='printed'", error)
        checks.check_range("error", error, 0.0, np.inf, low_open=True, high_open=True)
    elif parameters == "printed" and log.horizon > 1:
        hint = "log(N H |R| |P| / delta) / M in Theorem 3"
        raise InputError("error", "the error of the model, in games with states", "none", hint)


def _learn(log: Log, options: dict[str, Any], parameters: Any, key: jax.Array) -> Solution:
    """Fit, learn in the fitted model, and say where every number comes from."""
    rank, neighbours, selection = options["rank"], options["neighbours"], None
    if rank == "auto":
        ranks = [order for order in (1, 2, 3) if order <= log.agents]
        selection = select_rank(log, ranks=ranks, joint=False, neighbours=neighbours, key=key)
        rank = selection.chosen
    model = fit(log, int(rank), neighbours=neighbours)
    chosen = parameters if isinstance(parameters, Parameters) else None
    if parameters == "printed":
        chosen, options["error"] = _printed(log, model, options["error"])
    names = ("regulariser", "critic", "simulations", "iterations", "step", "strength", "force")
    given = {name: options[name] for name in names}
    solution = solve(model, selection=selection, parameters=chosen, key=key, **given)
    game: Any = model.game
    own = certify(game, model.behaviour)
    status = solution.status
    if status.name == "learned":
        status = replace(status, message=sentences(status.message, _NOT_BOUNDED))
    stats = {
        **facts_of(log),
        **model_facts(model),
        **solution.stats,
        "parameters": str(options["parameters"]),
        "critic": options["critic"],
        "own_gap": float(own.max_gain),
        "earned": over_known(np.mean, log.rewards) * log.horizon,
        "expected": np.asarray(solution.certificate.value),
        "gains": np.asarray(solution.certificate.gains),
        "gains_at_most": np.full(log.agents, np.inf),
    }
    if options["error"] is not None:
        stats["error"] = float(options["error"])
    title = f"{log.name}: {log.samples:,} rows of {log.agents} agents"
    about = About(title, log.labels, "agent", "mean reward", log.agents)
    return named(replace(solution, status=status, stats=stats), about)


def _printed(log: Log, model: Model, error: float | None) -> tuple[Parameters, float]:
    """Return the printed parameters, and the error of the rewards that they depend on."""
    if error is None:
        parameters = max(model.samples_per_parameter, 1e-9)
        error = max(float(np.max(model.noise)) ** 2 / parameters, 1e-12)
    horizon = log.horizon if log.horizon > 1 else None
    rank = int(model.rank)
    return named_parameters.paper(log.agents, rank, error, horizon=horizon), error
