"""DR-AC: decentralised regularised actor-critic in a fitted model (Algorithm 1).

The iterations of `equipoise.solvers.no_regret` converge to an approximate coarse correlated
equilibrium of the model and stay near what the log covers. In a contextual game this is the
decentralised policy gradient of Section 4.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from equipoise.certificates import TableCertificate, certify
from equipoise.core import InputError, Solution, Verdict, checks
from equipoise.core.errors import named_arguments
from equipoise.games import ContextualGame, DecoupledMarkovGame, Mixture
from equipoise.offline import parameters as defaults
from equipoise.offline._aggregate import Aggregate
from equipoise.offline._coverage import normalised
from equipoise.offline._critics import MonteCarloCritic, TermRewards
from equipoise.offline._gap import estimate_gap
from equipoise.offline._joint import SampledCritic
from equipoise.offline._model import Model
from equipoise.offline._number_model import NumericModel
from equipoise.offline._number_solve import Settings, solve_numbers
from equipoise.offline._select import RankSelection
from equipoise.offline.parameters import Parameters
from equipoise.offline.theory import chi_squared
from equipoise.solvers.no_regret import STEPS, Critic, Dynamics, ExactCritic, iterate

#: Marks the method of a certificate that proves nothing about the logged game.
IN_MODEL = "in the fitted model"


@named_arguments
def solve(
    model: Model | NumericModel | ContextualGame | DecoupledMarkovGame,
    *,
    selection: RankSelection | None = None,
    behaviour: Any = None,
    critic: str | None = None,
    regulariser: str = "chi-squared",
    parameters: Parameters | None = None,
    iterations: int | None = None,
    step: float | None = None,
    strength: float | None = None,
    simulations: int | None = None,
    degree: int | None = None,
    units: int | None = None,
    divergence: float = 1.0,
    force: bool = False,
    key: Any = 0,
) -> Solution:
    """Learn a near-equilibrium of a fitted model, staying near what its log covers.

    This is DR-AC (decentralised regularised actor-critic), Algorithm 1 of the interaction-rank
    paper, from line 4 on; `fit` is its line 3. In a contextual game it is the decentralised policy
    gradient of Section 4. Every agent takes the step of Eq. (2), or Eq. (4) with local states, in
    closed form (`equipoise.core.simplex.chi_squared_step`), and the policy is the uniform mixture
    of all iterates. It differs from print in its default parameters; `parameters.paper` has those
    of Theorems 3 and 4.

    Args:
        model: A model returned by `fit`, or a game together with a `behaviour` policy.
        selection: The result of `select_rank`, if it chose the model's rank. If the log does not
            support the choice (`selection.doubt`), learning is refused for lack of data; if the
            choice does not beat a constant (`selection.nothing`), nothing is learned. To judge a
            rank of your own, use `select_rank(log, ranks=(rank,), joint=False)`.
        behaviour: Policy to stay near: a product policy or "uniform". Default: the model's own.
        critic: "exact" (uses the others' occupancies; the default) or "monte-carlo" (Algorithm 2).
            In a model of numbers, only the latter.
        regulariser: "chi-squared" as in the paper, or "kl" or "l2" (Remark 2).
        parameters: Sets the next three arguments at once, for example from `parameters.paper`.
        iterations: T, the number of iterations. Default: from `parameters.default`, as for the
            next two arguments.
        step: Eta, the step size.
        strength: Lambda, the weight of the penalty for leaving the behaviour policy.
        simulations: Number of simulated samples per iteration of a Monte-Carlo critic. Default:
            256, or 2,000 in a model of numbers.
        degree: In a model of numbers, the degree of the polynomials of context and own state that
            span the critic's class F, for every own action. Default: 3.
        units: Number of rectified units with random weights that this class has too. Default: 0.
        divergence: The constant C of Theorem 2: deviations with at most this expected chi^2 count
            as on the log's support.
        force: Learn even if there is too little data or nothing to learn.
        key: Random key of Monte-Carlo critics.

    Returns a `Solution` whose policy is a `Mixture` and whose certificate holds in the *model*: its
    `gains` are exact there, and nothing is proven about the logged game. `stats["gap"]` (see
    `GapEstimate.to_plain`) splits the gap into parts on and off the log's support. The status is
    "learned"; "refused" if the log has too few rows per parameter or does not support the selected
    rank; or "nothing learned" if the chosen rank does not beat a constant. In the last two cases
    the policy is the behaviour policy, and the message says what to change. `status.solved` is
    False, since there is no tolerance to meet.

    **Example**

    >>> import equipoise as eq
    >>> game = eq.games.families.polymatrix(agents=5, actions=3).sample(key=0)
    >>> log = eq.offline.collect(game, "uniform", samples=5_000, key=1)
    >>> solution = eq.offline.solve(eq.offline.fit(log, rank=2))
    >>> true_gap = eq.certify(game, solution.policy).max_gain
    >>> bool(true_gap < eq.certify(game, game.uniform_policy()).max_gain / 2)
    True
    """
    if regulariser not in STEPS:
        raise InputError("regulariser", f"one of {', '.join(STEPS)}", repr(regulariser))
    if isinstance(model, NumericModel):
        if selection is not None or divergence != 1.0:
            name = "divergence" if selection is None else "selection"
            raise InputError(name, "no value for a model of numbers", name)
        if critic not in (None, "monte-carlo"):
            raise InputError("critic", "'monte-carlo' for a model of numbers", repr(critic))
        asked = {"iterations": iterations, "step": step, "strength": strength}
        settings = Settings(
            _chosen(model, model.layout.horizon, parameters, asked),
            regulariser,
            checks.check_count("simulations", 2_000 if simulations is None else simulations),
            checks.check_count("degree", 3 if degree is None else degree, 0),
            checks.check_count("units", 0 if units is None else units, 0),
            "" if force else _too_little(model, None),
        )
        return solve_numbers(model, behaviour, settings, key)
    for name, value in (("degree", degree), ("units", units)):
        if value is not None:
            raise InputError(name, "no value for a model of tables", value)
    critic = "exact" if critic is None else critic
    simulations = 256 if simulations is None else simulations
    if critic not in ("exact", "monte-carlo"):
        raise InputError("critic", "'exact' or 'monte-carlo'", repr(critic))
    fitted = model if isinstance(model, Model) else None
    game: Any = model if fitted is None else fitted.game
    own = _behaviour(fitted, game, behaviour)
    markov = own.ndim == 5
    nu = own if markov else own[:, None, :, None, :]
    played = nu if fitted is None else fitted.behaviour.reshape(nu.shape)
    available = np.asarray((played > 0).any((0, 1, 3)) if game is None else game.action_mask)
    asked = {"iterations": iterations, "step": step, "strength": strength}
    chosen = _parameters(fitted, game, nu, parameters, asked)
    judge = _critic(fitted, game, nu, critic, checks.check_count("simulations", simulations))
    too_little = "" if force else _too_little(fitted, selection)
    nothing = "" if force or too_little or selection is None else selection.nothing
    used = replace(chosen, iterations=1) if too_little or nothing else chosen
    policies, q, value = iterate(
        judge,
        nu,
        step=used.step,
        strength=used.strength,
        iterations=used.iterations,
        regulariser=regulariser,
        available=available,
        key=key,
    )
    mixture = Mixture(policies if markov else policies[..., 0, :, 0, :])
    stats: dict[str, Any] = {
        "iterations": len(policies),
        "step": chosen.step,
        "strength": chosen.strength,
        "regulariser": regulariser,
        # (agents,): maximum over iterates, contexts, steps and states.
        "chi_squared": np.max([chi_squared(p, nu).max((0, 1, 3)) for p in policies], 0),
    }
    if fitted is not None:
        stats["samples_per_parameter"] = fitted.samples_per_parameter
    if game is None:
        exact = isinstance(fitted, Model) and isinstance(fitted.rewards, Aggregate)
        certificate = _sampled_certificate(fitted, mixture, q, value, exact)
    else:
        certificate = certify(game, mixture)
        certificate = certificate if fitted is None else in_model(certificate)
        estimate = estimate_gap(model, mixture, behaviour=own, divergence=divergence)
        stats["gap"] = estimate.to_plain()
    name = "learned"
    message = (
        f"mixture of {len(policies)} policies with a largest gain of "
        f"{float(certificate.max_gain):.3g}"
    )
    if fitted is not None:
        message += " in the fitted model, which proves nothing about the logged game"
    if nothing:
        name, message = (
            "nothing learned",
            f"{nothing}; the behaviour policy is returned",
        )
    elif too_little:
        name, message = "refused", f"the behaviour policy is returned: {too_little}"
    status = Verdict(name, message)
    return Solution(mixture, np.asarray(certificate.value), certificate, status, stats=stats)


def iterates(
    model: Model,
    key: Any,
    *,
    iterations: int | None = None,
    step: float | None = None,
    strength: float | None = None,
    nearer: float = 1.0,
    support: Any = True,
) -> np.ndarray:
    """All iterates (T, contexts, horizon, agents, states, actions) in a fitted model.

    `nearer` multiplies the strength. In places where the `support` is not empty, only its actions
    are played.
    """
    own = model.behaviour
    nu = own if own.ndim == 5 else own[:, None, :, None, :]
    nu = normalised(np.where(support, nu, 0.0), nu)[0]
    asked = {"iterations": iterations, "step": step, "strength": strength}
    chosen = _parameters(model, model.game, nu, None, asked)
    options = {"regulariser": "chi-squared", "key": key}
    given = (chosen.step, nearer * chosen.strength, chosen.iterations)
    options |= dict(zip(("step", "strength", "iterations"), given, strict=True))
    return iterate(critic_of(model), nu, **options)[0]


def critic_of(model: Model) -> ExactCritic:
    """Return the exact critic of a fitted model that is not a network."""
    if model.game is None:
        return ExactCritic(model.dynamics, model.rewards, None, None)
    return ExactCritic.of(model.game)


def in_model(certificate: Any) -> TableCertificate:
    """Mark a certificate as holding in the fitted model: it proves nothing about the game."""
    method = f"{certificate.method}, {IN_MODEL}"
    return replace(certificate, method=method, upper=np.full_like(certificate.gains, np.inf))


def _behaviour(fitted: Model | None, game: Any, given: Any) -> np.ndarray:
    """Check and return the product policy to stay near."""
    if given is None and fitted is not None:
        return fitted.behaviour
    if given is None or isinstance(given, str):
        if given != "uniform" or game is None:
            found = "none" if given is None else repr(given)
            raise InputError("behaviour", "a product policy or 'uniform'", found)
        return game.uniform_policy()
    policy = checks.as_float_array("behaviour", given)
    shape = game.policy_shape if fitted is None else fitted.behaviour.shape
    if policy.shape == tuple(shape[1:]) and shape[0] == 1:
        policy = policy[None]
    checks.check_shape("behaviour", policy, shape, "a product policy")
    return checks.check_probabilities("behaviour", policy)


def _critic(
    fitted: Model | None, game: Any, behaviour: np.ndarray, critic: str, simulations: int
) -> Critic:
    if fitted is not None and game is None:
        if isinstance(fitted.rewards, Aggregate):
            return critic_of(fitted)
        return SampledCritic(fitted.rewards, simulations)
    if critic == "exact":
        return ExactCritic.of(game)
    states = np.full(behaviour.shape[:-1], 1.0 / behaviour.shape[-2])
    if fitted is not None:
        states, _ = normalised(fitted.counts.reshape(behaviour.shape).sum(-1), states)
    return MonteCarloCritic(
        TermRewards(game.interactions),
        Dynamics.of(game),
        behaviour,
        states,
        np.asarray(game.context_probabilities),
        simulations,
    )


def _parameters(
    fitted: Model | None,
    game: Any,
    behaviour: np.ndarray,
    given: Parameters | None,
    asked: dict[str, Any],
) -> Parameters:
    if given is None:
        if fitted is not None:
            scale, enough = fitted.reward_scale, fitted.samples_per_parameter
            enough = enough if np.isfinite(enough) else np.inf
        else:
            # Steps are scaled by how much the value of own actions varies.
            _, q, _ = iterate(ExactCritic.of(game), behaviour, step=1.0, iterations=1)
            scale, enough = max(float(q.std()), 1e-3), np.inf
        given = defaults.default(scale, enough, horizon=behaviour.shape[1])
    return _checked(given, asked)


def _chosen(
    model: NumericModel, horizon: int, given: Parameters | None, asked: dict[str, Any]
) -> Parameters:
    """Parameters in a model of numbers."""
    if given is None:
        enough = model.samples_per_parameter
        given = defaults.default(model.reward_scale, enough, horizon=horizon)
    return _checked(given, asked)


def _checked(given: Parameters, asked: dict[str, Any]) -> Parameters:
    chosen = replace(given, **{name: x for name, x in asked.items() if x is not None})
    checks.check_count("iterations", chosen.iterations)
    checks.check_range("step", chosen.step, 0.0, np.inf, low_open=True, high_open=True)
    checks.check_range("strength", chosen.strength, 0.0, np.inf, high_open=True)
    return Parameters(int(chosen.iterations), float(chosen.step), float(chosen.strength))


def _sampled_certificate(
    model: Any, mixture: Mixture, q: np.ndarray, value: np.ndarray, exact: bool
) -> TableCertificate:
    """Gains in a model without a game; for a network, from the critic's own samples."""
    chances = model.context_probabilities
    network = model.dynamics is None
    first = np.ones((q.shape[0], q.shape[2], 1)) if network else model.dynamics.initial
    shape = (q.shape[0], 1, *q.shape[2:])
    played = (model.behaviour.reshape(shape) > 0).any((0, 1), keepdims=True)[:, 0]
    best = np.einsum("c,cns,cns->n", chances, first, np.where(played, q[:, 0], -np.inf).max(-1))
    values = np.einsum("c,cns,cns->n", chances, first, value[:, 0])
    method = (
        f"best action against the mixture, {IN_MODEL}"
        if exact
        else "best action against the critic's own samples of the mixture"
    )
    concept = "cce" if len(mixture) > 1 else "nash"
    unproven = np.full_like(best, np.inf)
    return TableCertificate(best - values, unproven, values, method, concept)


def _too_little(fitted: Model | NumericModel | None, selection: RankSelection | None) -> str:
    """Say why there is too little data and what to do; empty if there is enough."""
    if selection is not None and (fitted is None or selection.chosen != fitted.rank):
        found = f"rank {selection.chosen}"
        raise InputError("selection", "a selection that chose the model's rank", found)
    if fitted is not None and fitted.samples_per_parameter < defaults.TOO_LITTLE:
        return (
            f"{fitted.samples_per_parameter:.3g} samples per parameter are too few: learning needs "
            f"at least {defaults.TOO_LITTLE}; collect more rows, or fit fewer neighbours or a "
            "lower rank"
        )
    if selection is not None and selection.doubt:
        return f"{selection.doubt}; collect more rows, or set the rank or the neighbours yourself"
    return ""
