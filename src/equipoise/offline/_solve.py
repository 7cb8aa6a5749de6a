"""DR-AC: decentralised regularised actor-critic in a fitted model (Algorithm 1).

Every agent, in every context, step and local state, takes regularised mirror steps on what its
actions are worth against the others' current play. The uniform mixture of all iterates is an
approximate coarse correlated equilibrium of the model, near what the log covers. In a contextual
game this is the decentralised policy gradient of Section 4.
"""

from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from equipoise.certificates import TableCertificate, certify
from equipoise.core import Outcome, Solution, Status, checks
from equipoise.core.precision import double_precision
from equipoise.core.randomness import as_key
from equipoise.games import ContextualGame, DecoupledMarkovGame, Mixture
from equipoise.offline import parameters as defaults
from equipoise.offline._critics import (
    STEPS,
    Critic,
    Dynamics,
    ExactCritic,
    MonteCarloCritic,
    TermRewards,
)
from equipoise.offline._gap import estimate_gap
from equipoise.offline._joint import SampledCritic
from equipoise.offline._log import Log
from equipoise.offline._model import Model
from equipoise.offline._select import RankSelection
from equipoise.offline.parameters import Parameters
from equipoise.offline.theory import chi_squared


def solve(
    model: Model | ContextualGame | DecoupledMarkovGame,
    log: Log | None = None,
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
    bootstrap: int = 0,
    divergence: float = 1.0,
    force: bool = False,
    key: Any = 0,
) -> Solution:
    """Learn a near-equilibrium of a fitted model, staying near what its log covers.

    Args:
        model: What `fit` returns; or a game, with the `behaviour` policy to stay near.
        log: The log that the model was fitted to; needed for the bootstrap only.
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
        bootstrap: How many resampled logs the interval of the estimated gap comes from; 0 for
            no interval.
        divergence: The C of Theorem 2, up to which deviations count as on the log's support.
        force: Whether to go on where there is too little data for it, or nothing to learn.
        key: Randomness of Monte-Carlo critics and of the bootstrap.

    Returns a `Solution` whose policy is a `Mixture` and whose certificate is that of the *model*:
    `gains` are exact there, and nothing is proven about the game that was logged.
    `stats["gap"]` (see `GapEstimate.to_plain`) says what of the gap is on and off the log's
    support, and with `bootstrap` where it lies over resampled logs. The status is "learned";
    "refused" where the log has too few rows per parameter or leaves the selected rank in doubt;
    or "nothing learned" where no rank beats a constant. Then the policy is the behaviour policy,
    and the message says what to change. No tolerance is asked for, so that `status.solved` is
    False.

    **Example**

    >>> import equipoise as eq
    >>> game = eq.games.families.polymatrix(agents=5, actions=3).sample(key=0)
    >>> log = eq.offline.collect(game, "uniform", samples=5_000, key=1)
    >>> solution = eq.offline.solve(eq.offline.fit(log, rank=2), log)
    >>> true_gap = eq.certify(game, solution.policy).max_gain
    >>> bool(true_gap < eq.certify(game, game.uniform_policy()).max_gain / 2)
    True
    """
    if regulariser not in STEPS:
        raise ValueError(f"regulariser: expected one of {list(STEPS)}, found {regulariser!r}")
    if critic not in ("exact", "monte-carlo"):
        raise ValueError(f"critic: expected 'exact' or 'monte-carlo', found {critic!r}")
    nu = _behaviour(model, behaviour)
    chosen = _parameters(model, nu, parameters, iterations, step, strength)
    judge = _critic(model, nu, critic, checks.check_count("simulations", simulations))
    too_little = "" if force else _too_little(model, selection)
    nothing = "" if force or too_little or selection is None else selection.nothing
    policies, q_mean, value = learn(
        judge,
        nu,
        chosen,
        regulariser,
        key,
        iterations=1 if too_little or nothing else None,
        available=_available(model),
    )
    mixture = Mixture(_outer(policies, model))
    stats: dict[str, Any] = {
        "iterations": len(policies),
        "step": chosen.step,
        "strength": chosen.strength,
        "regulariser": regulariser,
        "chi_squared": _divergence(policies, nu, model),
    }
    if isinstance(model, Model):
        stats["samples_per_parameter"] = model.samples_per_parameter
    game: Any = model.game if isinstance(model, Model) else model
    if isinstance(model, Model) and model.game is None:
        certificate = _sampled_certificate(model, mixture, q_mean, value)
    else:
        certificate = certify(game, mixture)
        if isinstance(model, Model):
            certificate = in_model(certificate)
        estimate = estimate_gap(
            model,
            mixture,
            log=log,
            behaviour=_outer(nu, model),
            bootstrap=bootstrap,
            divergence=divergence,
            key=key,
        )
        stats["gap"] = estimate.to_plain()
    status = _status(model, too_little, nothing, certificate, len(policies))
    return Solution(mixture, np.asarray(certificate.value), certificate, status, stats=stats)


def in_model(certificate: TableCertificate) -> TableCertificate:
    """A certificate of a fitted model: of the game that was logged, it proves nothing."""
    method = f"{certificate.method}, in the fitted model"
    return replace(certificate, method=method, upper=np.full_like(certificate.gains, np.inf))


def learn(
    critic: Critic,
    behaviour: np.ndarray,
    parameters: Parameters,
    regulariser: str = "chi-squared",
    key: Any = 0,
    iterations: int | None = None,
    available: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """All iterates (T, contexts, horizon, agents, states, actions), beginning with the behaviour.

    Also the mean Q-function over the iterates, and the mean value (contexts, horizon, agents,
    states) of the policies under their own. `available` (agents, actions) says which actions
    there are, all when not given.
    """
    count = parameters.iterations if iterations is None else iterations
    with double_precision():
        policies, q, value = _learn(
            critic,
            jnp.asarray(behaviour, jnp.float64),
            jnp.asarray(parameters.step, jnp.float64),
            jnp.asarray(parameters.strength, jnp.float64),
            as_key(key),
            count,
            regulariser,
            None if available is None else jnp.asarray(available, jnp.float64)[:, None],
        )
        return np.asarray(policies), np.asarray(q), np.asarray(value)


@eqx.filter_jit
def _learn(
    critic: Critic,
    behaviour: Any,
    step: Any,
    strength: Any,
    key: jax.Array,
    iterations: int,
    regulariser: str,
    available: Any,
) -> Any:
    # The other two never leave the support of the behaviour, which has no other actions.
    more = {"available": available} if regulariser == "l2" else {}

    def one(carry: Any, t: Any) -> Any:
        policy, q_sum, value_sum = carry
        q = critic(policy, jax.random.fold_in(key, t))
        # What all actions are worth alike moves no policy; left in, it costs digits.
        ahead = q - (behaviour * q).sum(-1, keepdims=True)
        options = {"step": step, "strength": strength, **more}
        following = STEPS[regulariser](policy, ahead, behaviour, **options)
        value = (policy * q).sum(-1)
        return (following, q_sum + q, value_sum + value), policy

    start = (behaviour, jnp.zeros_like(behaviour), jnp.zeros_like(behaviour[..., 0]))
    (_, q, value), policies = jax.lax.scan(one, start, jnp.arange(iterations))
    return policies, q / iterations, value / iterations


def inner(policy: np.ndarray, markov: bool) -> np.ndarray:
    """(contexts, agents, actions) as (contexts, 1, agents, 1, actions)."""
    return policy if markov else policy[:, None, :, None, :]


def _outer(policy: np.ndarray, model: Any) -> np.ndarray:
    """The inverse of `inner`, with leading axes kept."""
    return policy if _is_markov(model) else policy[..., 0, :, 0, :]


def _available(model: Any) -> np.ndarray:
    """(agents, actions): which actions there are; of a network, those that were ever played."""
    game = model.game if isinstance(model, Model) else model
    return np.asarray((model.behaviour > 0).any(0) if game is None else game.action_mask)


def _is_markov(model: Any) -> bool:
    return model.markov if isinstance(model, Model) else isinstance(model, DecoupledMarkovGame)


def _behaviour(model: Any, given: Any) -> np.ndarray:
    if given is None:
        if not isinstance(model, Model):
            raise ValueError("behaviour: expected a product policy or 'uniform', found none")
        return inner(model.behaviour, model.markov)
    game = model.game if isinstance(model, Model) else model
    if isinstance(given, str):
        if given != "uniform" or game is None:
            raise ValueError(f"behaviour: expected a product policy or 'uniform', found {given!r}")
        return inner(game.uniform_policy(), _is_markov(model))
    policy = checks.as_float_array("behaviour", given)
    shape = model.behaviour.shape if isinstance(model, Model) else model.policy_shape
    if policy.shape == tuple(shape[1:]) and shape[0] == 1:
        policy = policy[None]
    checks.check_shape("behaviour", policy, shape, "a product policy")
    return inner(checks.check_probabilities("behaviour", policy), _is_markov(model))


def _critic(model: Any, behaviour: np.ndarray, critic: str, simulations: int) -> Critic:
    game = model.game if isinstance(model, Model) else model
    if game is None:
        return SampledCritic(model.rewards, simulations)
    if critic == "exact":
        return ExactCritic.of(game)
    states = np.full(behaviour.shape[:-1], 1.0 / behaviour.shape[-2])
    if isinstance(model, Model) and model.markov:
        counts = model.counts.reshape(behaviour.shape).sum(-1)
        totals = counts.sum(-1, keepdims=True)
        states = np.where(totals > 0, counts / np.maximum(totals, 1), states)
    return MonteCarloCritic(
        TermRewards(game.interactions),
        Dynamics.of(game),
        behaviour,
        states,
        np.asarray(game.context_probabilities),
        simulations,
    )


def _parameters(
    model: Any,
    behaviour: np.ndarray,
    given: Parameters | None,
    iterations: int | None,
    step: float | None,
    strength: float | None,
) -> Parameters:
    if given is None:
        if isinstance(model, Model):
            scale, enough = model.reward_scale, model.samples_per_parameter
            enough = enough if np.isfinite(enough) else np.inf
        else:
            # How much the value of own actions varies is what the steps are about.
            q = learn(ExactCritic.of(model), behaviour, Parameters(1, 1.0, 1.0))[1]
            scale, enough = max(float(q.std()), 1e-3), np.inf
        given = defaults.default(scale, enough, horizon=behaviour.shape[1])
    chosen = Parameters(
        checks.check_count("iterations", given.iterations if iterations is None else iterations),
        given.step if step is None else float(step),
        given.strength if strength is None else float(strength),
    )
    checks.check_range("step", chosen.step, 0.0, np.inf, low_open=True, high_open=True)
    checks.check_range("strength", chosen.strength, 0.0, np.inf, high_open=True)
    return chosen


def _divergence(policies: np.ndarray, behaviour: np.ndarray, model: Any) -> np.ndarray:
    """(agents,): the largest chi^2 to the behaviour, of any iterate, context, step and state."""
    largest = np.zeros(behaviour.shape[2])
    for policy in policies:
        divergence = chi_squared(policy, behaviour)
        largest = np.maximum(largest, divergence.max((0, 1, 3)))
    return largest


def _sampled_certificate(
    model: Model, mixture: Mixture, q: np.ndarray, value: np.ndarray
) -> TableCertificate:
    """Gains in a joint network, from the critic's own samples."""
    chances = model.context_probabilities
    best = np.einsum("c,cn->n", chances, q[:, 0, :, 0].max(-1))
    values = np.einsum("c,cn->n", chances, value[:, 0, :, 0])
    method = "best action against the critic's own samples of the mixture"
    concept = "cce" if len(mixture) > 1 else "nash"
    unproven = np.full_like(best, np.inf)
    return TableCertificate(best - values, unproven, values, method, concept)


def _too_little(model: Any, selection: RankSelection | None) -> str:
    """Why there is too little data to learn from, and what to do; empty where there is enough."""
    if selection is not None and (not isinstance(model, Model) or selection.chosen != model.rank):
        raise ValueError(
            f"selection: expected one that chose the model's rank, found rank {selection.chosen}"
        )
    if not isinstance(model, Model):
        return ""
    if model.samples_per_parameter < defaults.TOO_LITTLE:
        return (
            f"{model.samples_per_parameter:.3g} samples per parameter are fewer than the "
            f"{defaults.TOO_LITTLE} from which on learning helps; collect more, or fit fewer "
            "neighbours or a lower rank"
        )
    if selection is not None and selection.doubt:
        return f"{selection.doubt}; collect more, or say which rank or neighbours to go by"
    return ""


def _status(
    model: Any, too_little: str, nothing: str, certificate: TableCertificate, count: int
) -> Status:
    unproven = np.array(False)
    if nothing:
        message = f"{nothing}; the behaviour policy itself is returned"
        return Status(Outcome.NOTHING_LEARNED, message, unproven)
    if too_little:
        message = f"the behaviour policy itself is returned: {too_little}"
        return Status(Outcome.REFUSED, message, unproven)
    message = (
        f"mixture of {count} policies with a largest gain of {float(certificate.max_gain):.3g}"
    )
    if isinstance(model, Model):
        message += " in the fitted model; what the log does not show, it cannot promise"
    return Status(Outcome.LEARNED, message, unproven)
