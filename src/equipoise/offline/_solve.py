"""DR-AC: decentralised regularised actor-critic in a fitted model (Algorithm 1).

`equipoise.solvers.no_regret` takes the steps, towards an approximate coarse correlated equilibrium
of the model, near what the log covers. In a contextual game this is the decentralised policy
gradient of Section 4.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from equipoise.certificates import TableCertificate, certify
from equipoise.core import InputError, Outcome, Solution, Status, checks
from equipoise.games import ContextualGame, DecoupledMarkovGame, Mixture
from equipoise.offline import parameters as defaults
from equipoise.offline._aggregate import Aggregate
from equipoise.offline._coverage import normalised
from equipoise.offline._critics import MonteCarloCritic, TermRewards
from equipoise.offline._gap import estimate_gap
from equipoise.offline._joint import SampledCritic
from equipoise.offline._model import Model
from equipoise.offline._select import RankSelection
from equipoise.offline.parameters import Parameters
from equipoise.offline.theory import chi_squared
from equipoise.solvers.no_regret import STEPS, Critic, Dynamics, ExactCritic, iterate

#: What a certificate is of that says nothing about the game that was logged.
IN_MODEL = "in the fitted model"


def solve(
    model: Model | ContextualGame | DecoupledMarkovGame,
    *,
    selection: RankSelection | None = None,
    behaviour: Any = None,
    critic: str = "exact",
    regulariser: str = "chi-squared",
    parameters: Parameters | None = None,
    iterations: int | None = None,
    step: float | None = None,
    strength: float | None = None,
    simulations: int = 256,
    divergence: float = 1.0,
    force: bool = False,
    key: Any = 0,
) -> Solution:
    """Learn a near-equilibrium of a fitted model, staying near what its log covers.

    Args:
        model: What `fit` returns; or a game, with the `behaviour` policy to stay near.
        selection: What `select_rank` returned, where it chose the model's rank: if the log does
            not support its choice (`selection.doubt`), there is too little data; if no rank
            beats a constant (`selection.nothing`), nothing is learned. A rank of one's own is
            judged by `select_rank(log, ranks=(rank,), joint=False)`.
        behaviour: A product policy, or "uniform"; the model's own when not given.
        critic: "exact" (through the others' occupancies) or "monte-carlo" (Algorithm 2).
        regulariser: "chi-squared" as in the paper, or "kl" or "l2" (Remark 2).
        parameters: All three of the following at once, as `parameters.paper` gives them.
        iterations: T; of `parameters.default` when not given, as the next two.
        step: Eta, how far one iteration goes.
        strength: Lambda, how much staying near the behaviour counts.
        simulations: Simulated samples per iteration of Monte-Carlo critics.
        divergence: The C of Theorem 2, up to which deviations count as on the log's support.
        force: Whether to go on where there is too little data for it, or nothing to learn.
        key: Randomness of Monte-Carlo critics.

    Returns a `Solution` whose policy is a `Mixture` and whose certificate is that of the *model*:
    `gains` are exact there, and nothing is proven about the game that was logged.
    `stats["gap"]` (see `GapEstimate.to_plain`) says what of the gap is on and off the log's
    support. The status is "learned";
    "refused" where the log has too few rows per parameter or leaves the selected rank in doubt;
    or "nothing learned" where no rank beats a constant. Then the policy is the behaviour policy,
    and the message says what to change. No tolerance is asked for, so that `status.solved` is
    False.

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
        raise InputError("regulariser", f"one of {list(STEPS)}", repr(regulariser))
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
        # (agents,): the largest of any iterate, context, step and state.
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
    name = Outcome.LEARNED
    message = (
        f"mixture of {len(policies)} policies with a largest gain of "
        f"{float(certificate.max_gain):.3g}"
    )
    if fitted is not None:
        message += " in the fitted model; what the log does not show, it cannot promise"
    if nothing:
        name, message = (
            Outcome.NOTHING_LEARNED,
            f"{nothing}; the behaviour policy itself is returned",
        )
    elif too_little:
        name, message = Outcome.REFUSED, f"the behaviour policy itself is returned: {too_little}"
    status = Status(name, message, np.array(False))
    return Solution(mixture, np.asarray(certificate.value), certificate, status, stats=stats)


def iterates(
    model: Model,
    key: Any,
    *,
    iterations: int | None = None,
    step: float | None = None,
    strength: float | None = None,
    nearer: float = 1.0,
) -> np.ndarray:
    """All iterates (T, contexts, horizon, agents, states, actions) in a fitted model.

    The strength is `nearer` times what it would be.
    """
    own = model.behaviour
    nu = own if own.ndim == 5 else own[:, None, :, None, :]
    asked = {"iterations": iterations, "step": step, "strength": strength}
    chosen = _parameters(model, model.game, nu, None, asked)
    judge = _critic(model, model.game, nu, "exact", 1)
    options = {"regulariser": "chi-squared", "key": key}
    given = (chosen.step, nearer * chosen.strength, chosen.iterations)
    options |= dict(zip(("step", "strength", "iterations"), given, strict=True))
    return iterate(judge, nu, **options)[0]


def in_model(certificate: TableCertificate) -> TableCertificate:
    """A certificate of a fitted model: of the game that was logged, it proves nothing."""
    method = f"{certificate.method}, {IN_MODEL}"
    return replace(certificate, method=method, upper=np.full_like(certificate.gains, np.inf))


def _behaviour(fitted: Model | None, game: Any, given: Any) -> np.ndarray:
    """The product policy to stay near, checked."""
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
            return ExactCritic(fitted.dynamics, fitted.rewards, None, None)
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
            # How much the value of own actions varies is what the steps are about.
            _, q, _ = iterate(ExactCritic.of(game), behaviour, step=1.0, iterations=1)
            scale, enough = max(float(q.std()), 1e-3), np.inf
        given = defaults.default(scale, enough, horizon=behaviour.shape[1])
    chosen = replace(given, **{name: x for name, x in asked.items() if x is not None})
    checks.check_count("iterations", chosen.iterations)
    checks.check_range("step", chosen.step, 0.0, np.inf, low_open=True, high_open=True)
    checks.check_range("strength", chosen.strength, 0.0, np.inf, high_open=True)
    return Parameters(int(chosen.iterations), float(chosen.step), float(chosen.strength))


def _sampled_certificate(
    model: Any, mixture: Mixture, q: np.ndarray, value: np.ndarray, exact: bool
) -> TableCertificate:
    """Gains in a model without a game: in a network, from the critic's own samples."""
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


def _too_little(fitted: Model | None, selection: RankSelection | None) -> str:
    """Why there is too little data to learn from, and what to do; empty where there is enough."""
    if selection is not None and (fitted is None or selection.chosen != fitted.rank):
        found = f"rank {selection.chosen}"
        raise InputError("selection", "one that chose the model's rank", found)
    if fitted is not None and fitted.samples_per_parameter < defaults.TOO_LITTLE:
        return (
            f"{fitted.samples_per_parameter:.3g} samples per parameter are fewer than the "
            f"{defaults.TOO_LITTLE} from which on learning helps; collect more, or fit fewer "
            "neighbours or a lower rank"
        )
    if selection is not None and selection.doubt:
        return f"{selection.doubt}; collect more, or say which rank or neighbours to go by"
    return ""
