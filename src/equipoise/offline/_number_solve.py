"""DR-AC (Algorithm 1) in a model of numbers, with a class F of critics that is linear in features.

The critic is Algorithm 2: trajectories of all agents are drawn from the fitted transitions under
the current policies; in step h, agent i starts from a state of the log, plays an equal mixture of
its behaviour and its policy once and its policy afterwards, and its return is regressed on the
features of context, state and action. As printed, all agents are simulated anew for every agent and
step. Transitions are decoupled, so the others' trajectories do not depend on agent i: they are
drawn once for all agents and steps, which leaves the estimates as they are.
"""

from dataclasses import dataclass, replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from equipoise.certificates import TableCertificate
from equipoise.core import InputError, Solution, Verdict
from equipoise.core.precision import double_precision
from equipoise.core.randomness import as_key
from equipoise.offline._critics import draw
from equipoise.offline._number_model import NumericModel
from equipoise.offline._number_policy import Features, Logits, NumericPolicy
from equipoise.offline.parameters import Parameters

#: Penalty of the regressions, as a share of the rows.
RIDGE = 1e-4
#: Simulations with which gains are estimated, as a multiple of those of a critic.
JUDGED = 4
#: Purposes of the keys that are derived from the given key.
_UNITS, _CRITICS, _GAINS = range(3)


@dataclass(frozen=True)
class Settings:
    """Settings of `solve` for a model of numbers."""

    parameters: Parameters
    regulariser: str
    simulations: int
    degree: int
    units: int
    refusal: str


def solve_numbers(model: NumericModel, behaviour: Any, settings: Settings, key: Any) -> Solution:
    """Run Algorithm 1 and estimate the gains of the mixture in the model."""
    key = as_key(key)
    chosen, layout = settings.parameters, model.layout
    play = _behaviour(model, behaviour)
    rng = np.random.default_rng(_words(key, _UNITS))
    hidden = rng.normal(size=(1 + layout.common + layout.width, settings.units))
    features = Features(hidden / max(layout.common + layout.width, 1) ** 0.5, settings.degree)
    iterations = 1 if settings.refusal else chosen.iterations
    simulations = settings.simulations
    with double_precision():
        columns = features(
            jnp.zeros((1, layout.common)), jnp.zeros((1, layout.agents, layout.width))
        ).shape[-1]
        critics = np.zeros((iterations, layout.horizon, layout.agents, layout.actions, columns))
        policy = NumericPolicy(
            *(critics, features, play, model.scaling),
            *(np.asarray(chosen.step), np.asarray(chosen.strength)),
            *(settings.regulariser, layout),
        )
        world = World.of(model)
        first, second = (jax.random.fold_in(key, purpose) for purpose in (_CRITICS, _GAINS))
        if iterations > 1:
            learned = _iterate(world, policy, first, simulations)
            policy = eqx.tree_at(lambda p: p.critics, policy, np.asarray(learned))
        found = _gains(world, policy, second, JUDGED * simulations)
    values, gains, errors = (np.asarray(x) for x in found)
    method = "fitted best response, simulated in the fitted model"
    concept = "cce" if iterations > 1 else "nash"
    certificate = TableCertificate(gains, np.full_like(gains, np.inf), values, method, concept)
    stats = {
        **{"iterations": iterations, "step": chosen.step, "strength": chosen.strength},
        **{"regulariser": settings.regulariser, "simulations": simulations},
        **{"gain_errors": errors, "samples_per_parameter": model.samples_per_parameter},
    }
    if settings.refusal:
        message = f"the behaviour policy is returned: {settings.refusal}"
        status = Verdict("refused", message)
    else:
        message = (
            f"mixture of {iterations} policies with an estimated largest gain of "
            f"{float(gains.max()):.3g} in the fitted model, which proves nothing about the logged "
            "game"
        )
        status = Verdict("learned", message)
    return Solution(policy, values, certificate, status, stats=stats)


def _behaviour(model: NumericModel, given: Any) -> Logits:
    """The behaviour policy to stay near."""
    if given is None:
        return model.behaviour
    if isinstance(given, str) and given == "uniform":
        return replace(model.behaviour, weights=np.zeros_like(model.behaviour.weights))
    expected = "None for that of the log, or 'uniform', in a model of numbers"
    raise InputError(
        "behaviour", expected, given if isinstance(given, str) else type(given).__name__
    )


def _words(key: jax.Array, purpose: int) -> list[int]:
    return [*np.asarray(jax.random.key_data(key)).ravel().tolist(), purpose]


class World(eqx.Module):
    """What is simulated: the fitted game, and contexts and states of the log to start from."""

    rewards: Any
    transitions: Any
    scaling: Any
    contexts: Array
    states: Array

    @classmethod
    def of(cls, model: NumericModel) -> "World":
        """Put a model on the device."""
        given = (jnp.asarray(model.contexts), jnp.asarray(model.states))
        return cls(model.rewards, model.transitions, model.scaling, *given)

    def follow(self, h: Any, common: Array, local: Array, actions: Array, key: jax.Array) -> Array:
        """Next local states of all agents."""
        if self.transitions is None:
            return local
        return self.transitions.everybody(h, common, local, actions, key)

    def play(
        self, h: Any, policy: Any, common: Array, local: Array, until: Array, key: jax.Array
    ) -> Array:
        """(rows, agents): actions drawn from a policy."""
        chances = policy.at(h, self.scaling.common(common), self.scaling.local(local), until)
        return draw(jax.random.uniform(key, chances.shape[:2], chances.dtype), chances)

    def episodes(self, rows: int, key: jax.Array) -> tuple[Array, Array]:
        """Contexts (rows, common) and states (rows, horizon, agents, width) of drawn episodes."""
        chosen = jax.random.randint(key, (rows,), 0, len(self.contexts))
        return self.contexts[chosen], self.states[chosen]

    def path(
        self, policy: Any, common: Array, local: Array, until: Array, key: jax.Array
    ) -> tuple[Array, Array]:
        """States (horizon, rows, agents, width) and actions of all agents, from first states."""

        def one(local: Array, h: Array) -> tuple[Array, tuple[Array, Array]]:
            acting, moving = jax.random.split(jax.random.fold_in(key, h))
            actions = self.play(h, policy, common, local, until, acting)
            return self.follow(h, common, local, actions, moving), (local, actions)

        return jax.lax.scan(one, local, jnp.arange(self.states.shape[1]))[1]

    def earn(self, h: Any, common: Array, own: Any, others: Any) -> Array:
        """(rows, agents): rewards of agents in their `own` states, who meet the `others`."""
        (state, action), (met, played) = own, others
        scaled = self.scaling.local(state), self.scaling.local(met)
        common = self.scaling.common(common)
        return self.rewards(h, common, (scaled[0], action), (scaled[1], played))


@eqx.filter_jit
def _iterate(world: World, policy: NumericPolicy, key: jax.Array, simulations: int) -> Array:
    """Coefficients of the critics of all iterates."""
    start = jnp.asarray(policy.critics)

    def one(critics: Array, t: Array) -> tuple[Array, None]:
        current = eqx.tree_at(lambda p: p.critics, policy, critics)
        until = jnp.full((simulations,), t)
        found = _critic(world, current, until, jax.random.fold_in(key, t))
        return critics.at[t].set(found), None

    return jax.lax.scan(one, start, jnp.arange(len(start)))[0]


def _critic(world: World, policy: NumericPolicy, until: Array, key: jax.Array) -> Array:
    """(horizon, agents, actions, features): Algorithm 2 for the current policies."""
    first, second, third = jax.random.split(key, 3)
    common, logged = world.episodes(len(until), first)
    path = world.path(policy, common, logged[:, 0], until, second)
    scaled, steps = world.scaling.common(common), jnp.arange(logged.shape[1])

    def one(h: Array) -> Array:
        key = jax.random.fold_in(third, h)
        seen = world.scaling.local(logged[:, h])
        own = (policy.at(h, scaled, seen, until) + policy.behaviour(h, scaled, seen)) / 2
        tried = draw(jax.random.uniform(key, own.shape[:2], own.dtype), own)

        def later(carry: Any, step: Array) -> tuple[Any, None]:
            local, action, total = carry
            acting, moving = jax.random.split(jax.random.fold_in(key, step))
            others = (path[0][step], path[1][step])
            after = world.follow(step, common, local, action, moving)
            total = total + world.earn(step, common, (local, action), others)
            ahead = jnp.minimum(step + 1, len(steps) - 1)
            played = world.play(ahead, policy, common, after, until, acting)
            moved = (after, played, total)
            # Steps before h leave everything as it is.
            return jax.tree.map(lambda new, old: jnp.where(step >= h, new, old), moved, carry), None

        begin = (logged[:, h], tried, jnp.zeros(tried.shape, own.dtype))
        (_, _, total), _ = jax.lax.scan(later, begin, steps)
        return _regress(policy, scaled, seen, tried, total)

    return jax.lax.map(one, steps)


def _regress(
    policy: NumericPolicy, common: Array, local: Array, action: Array, total: Array
) -> Array:
    """(agents, actions, features): least squares of returns on the features of each action."""
    x = policy.features(common, local)
    hot = jax.nn.one_hot(action, policy.layout.actions, dtype=x.dtype)
    gram = jnp.einsum("bnf,bng,bna->nafg", x, x, hot)
    sums = jnp.einsum("bnf,bna,bn->naf", x, hot, total)
    ridge = RIDGE * len(x) * jnp.eye(x.shape[-1])
    return jnp.linalg.solve(gram + ridge[None, None], sums[..., None])[..., 0]


@eqx.filter_jit
def _gains(
    world: World, policy: NumericPolicy, key: jax.Array, simulations: int
) -> tuple[Array, Array, Array]:
    """Values of the mixture, and gains of fitted best responses with their standard errors.

    A best response to the mixture is fitted backwards: Q-functions are regressed on the same class
    of features, with the largest value of the next step as target. Its value and that of the
    mixture are means over the same draws of contexts, first states and others' play, other than
    those it was fitted to.
    """
    fitting, judging, choosing = jax.random.split(key, 3)
    until = jax.random.randint(choosing, (2, simulations), 0, len(policy.critics))
    best = _best(world, policy, until[0], fitting)
    first, second, third = jax.random.split(judging, 3)
    common, logged = world.episodes(simulations, first)
    path = world.path(policy, common, logged[:, 0], until[1], second)
    scaled = world.scaling.common(common)

    def one(carry: Any, given: Any) -> tuple[Any, None]:
        local, kept, deviating = carry
        h, critic, others = given
        kept = kept + world.earn(h, common, others, others)
        action = _greedy(policy, critic, scaled, world.scaling.local(local))[0]
        deviating = deviating + world.earn(h, common, (local, action), others)
        local = world.follow(h, common, local, action, jax.random.fold_in(third, h))
        return (local, kept, deviating), None

    nothing = jnp.zeros(path[1].shape[1:], common.dtype)
    begin = (logged[:, 0], nothing, nothing)
    (_, kept, deviating), _ = jax.lax.scan(one, begin, (jnp.arange(len(best)), best, path))
    gains = deviating - kept
    return kept.mean(0), gains.mean(0), gains.std(0) / simulations**0.5


def _best(world: World, policy: NumericPolicy, until: Array, key: jax.Array) -> Array:
    """(horizon, agents, actions, features) of the Q-functions of best responses."""
    first, second, third = jax.random.split(key, 3)
    common, logged = world.episodes(len(until), first)
    path = world.path(policy, common, logged[:, 0], until, second)
    scaled = world.scaling.common(common)

    def one(critic: Array, given: Any) -> tuple[Array, Array]:
        h, local, others = given
        acting, moving = jax.random.split(jax.random.fold_in(third, h))
        seen = world.scaling.local(local)
        own = policy.behaviour(h, scaled, seen)
        even = jnp.asarray(policy.behaviour.available, own.dtype)
        own = (own + (even / even.sum(-1, keepdims=True))[None]) / 2
        action = draw(jax.random.uniform(acting, own.shape[:2], own.dtype), own)
        after = world.follow(h, common, local, action, moving)
        # After the last step the critic is zero.
        ahead = _greedy(policy, critic, scaled, world.scaling.local(after))[1]
        total = world.earn(h, common, (local, action), others) + ahead
        found = _regress(policy, scaled, seen, action, total)
        return found, found

    start = jnp.zeros(policy.critics.shape[1:])[0]
    given = (jnp.arange(logged.shape[1]), jnp.moveaxis(logged, 1, 0), path)
    return jax.lax.scan(one, start, given, reverse=True)[1]


def _greedy(
    policy: NumericPolicy, critic: Array, common: Array, local: Array
) -> tuple[Array, Array]:
    """(rows, agents): best actions under a critic, and their values."""
    q = jnp.einsum("bnf,naf->bna", policy.features(common, local), critic)
    q = jnp.where(jnp.asarray(policy.behaviour.available)[None], q, -jnp.inf)
    return q.argmax(-1), q.max(-1)
