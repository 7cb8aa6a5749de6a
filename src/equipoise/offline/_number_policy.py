"""Policies of contexts and local states that are numbers: the iterates of mirror descent.

Algorithm 1 takes a step of mirror descent "for all c and s". Where contexts and states are numbers,
a step cannot be stored as a table. But an iterate is determined by the critics before it: its
probabilities at any point follow from the behaviour policy by repeating the steps there. So a
policy keeps its critics, which are linear in features, and repeats the steps wherever it is asked.
"""

from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from equipoise.core import InputError
from equipoise.core.precision import double_precision
from equipoise.core.text import About
from equipoise.offline._numbers import Layout, Scaling, monomials
from equipoise.solvers.no_regret import STEPS


class Logits(eqx.Module):
    """A behaviour policy: probabilities proportional to exponentials of polynomials."""

    #: (horizon, agents, actions, monomials).
    weights: Float[np.ndarray | Array, "horizon agents actions monomials"]
    #: (agents, actions): whether each agent has each action.
    available: np.ndarray | Array
    degree: int = eqx.field(static=True)

    def __call__(self, h: Any, common: Array, local: Array) -> Array:
        """(rows, agents, actions): probabilities at scaled contexts and local states."""
        inputs = monomials(beside(common, local), self.degree)
        weights = jnp.asarray(self.weights, inputs.dtype)[h]
        logits = jnp.einsum("bnf,naf->bna", inputs, weights)
        return jax.nn.softmax(jnp.where(jnp.asarray(self.available)[None], logits, -jnp.inf), -1)


class Features(eqx.Module):
    """The class F of a critic: polynomials, and rectified units with random weights.

    A function of the class is linear in these features, with coefficients for every step, agent and
    action.
    """

    #: (1 + numbers, units): weights of the units, the constant first.
    units: Float[np.ndarray | Array, "inputs units"]
    degree: int = eqx.field(static=True)

    def __call__(self, common: Array, local: Array) -> Array:
        """(rows, agents, features) at scaled contexts and local states."""
        inputs = beside(common, local)
        made = monomials(inputs, self.degree)
        if not self.units.shape[1]:
            return made
        weights = jnp.asarray(self.units, inputs.dtype)
        hidden = jnp.einsum("bnk,ku->bnu", inputs, weights[1:]) + weights[:1][None]
        return jnp.concatenate([made, jax.nn.relu(hidden)], -1)


def beside(common: Array, local: Array) -> Array:
    """(rows, agents, numbers): the context beside the local state of each agent."""
    rows, agents, _ = local.shape
    shared = jnp.broadcast_to(common[:, None], (rows, agents, common.shape[1]))
    return jnp.concatenate([shared, local], -1)


class NumericPolicy(eqx.Module):
    """A uniform mixture of product policies that are functions of numbers.

    `len(policy)` is the number of policies in the mixture, the iterates of mirror descent. Call it
    with numeric contexts and local states to get probabilities of actions. To play the mixture,
    draw an iterate for every episode.

    **Example**

    >>> import numpy as np, equipoise as eq
    >>> rng = np.random.default_rng(0)
    >>> heat, sell = rng.uniform(-1, 1, (2000, 1)), rng.integers(0, 2, (2000, 3))
    >>> earned = sell * (heat - 0.3 * (sell.sum(1, keepdims=True) - sell))
    >>> log = eq.offline.Log(None, sell, earned, covariates=heat)
    >>> policy = eq.offline.solve(eq.offline.fit(log), iterations=40).policy
    >>> len(policy), policy([[-1.0], [1.0]]).shape       # iterates, rows, agents, actions
    (40, (40, 2, 3, 2))
    >>> policy([[-1.0], [1.0]], iterate=39)[:, 0, 1].round(1).tolist()     # who sells, and when
    [0.0, 1.0]
    """

    #: (iterates, horizon, agents, actions, features): coefficients of the critics.
    critics: Float[np.ndarray | Array, "iterates horizon agents actions features"]
    #: Features of numbers in which the critics are linear.
    features: Features
    #: Behaviour policy, from which the regulariser measures divergence.
    behaviour: Logits
    #: Centres, scales and ranges of the numbers.
    scaling: Scaling
    #: Step size of mirror descent.
    step: Float[np.ndarray | Array, ""]
    #: Weight of the regulariser.
    strength: Float[np.ndarray | Array, ""]
    #: Name of the regulariser.
    regulariser: str = eqx.field(static=True)
    #: Numbers of agents, steps, contexts, states, actions and columns.
    layout: Layout = eqx.field(static=True)

    def __len__(self) -> int:
        return len(self.critics)

    def __call__(
        self,
        covariates: Any = None,
        states: Any = None,
        step: int = 0,
        *,
        contexts: Any = None,
        iterate: Any = None,
    ) -> np.ndarray:
        """Probabilities of actions (rows, agents, actions) for every row of numbers.

        `covariates` is (rows, numbers) and `states` (rows, agents, numbers), as in a log;
        `contexts` (rows,) and counted `states` (rows, agents) likewise. `iterate` is a number, or
        one number for each row; without it, all iterates are returned, on a first axis.
        """
        given = (("covariates", covariates), ("states", states), ("contexts", contexts))
        layout = self.layout
        needed = (layout.covariates > 0, layout.width > 0, layout.contexts > 1)
        for (name, value), wanted in zip(given, needed, strict=True):
            if (value is not None) != wanted:
                expected = "values, as in the log" if wanted else "none, as in the log"
                raise InputError(name, expected, "none" if value is None else "values")
        if not 0 <= step < layout.horizon:
            raise InputError("step", f"0 to {layout.horizon - 1}", step)
        rows = next((len(value) for _, value in given if value is not None), 1)
        common = layout.contexts_of(contexts, covariates, rows)
        local = np.zeros((rows, layout.agents, 0)) if states is None else layout.states_of(states)
        self._check_shapes(common, local, rows)
        count = len(self)
        chosen = np.arange(count) if iterate is None else np.asarray(iterate)
        if chosen.size and not (chosen.min() >= 0 and chosen.max() < count):
            raise InputError("iterate", f"numbers from 0 to {count - 1}", iterate)
        if iterate is None:
            chosen = np.repeat(chosen, rows)
            common, local = np.tile(common, (count, 1)), np.tile(local, (count, 1, 1))
        until = np.broadcast_to(chosen, len(common))
        with double_precision():
            found = np.asarray(_chances(self, step, common, local, until))
        return found.reshape(count, rows, *found.shape[1:]) if iterate is None else found

    def at(self, h: Any, common: Array, local: Array, until: Array) -> Array:
        """(rows, agents, actions): iterate `until` (rows,) at scaled numbers; traceable."""
        features = self.features(common, local)
        behaviour = self.behaviour(h, common, local)
        given = {"step": self.step, "strength": self.strength}
        options: dict[str, Any] = {name: jnp.asarray(x) for name, x in given.items()}
        if self.regulariser == "l2":
            options["available"] = jnp.asarray(self.behaviour.available, features.dtype)[None]

        def one(t: Any, policy: Array) -> Array:
            q = jnp.einsum("bnf,naf->bna", features, jnp.asarray(self.critics)[t, h])
            ahead = q - (behaviour * q).sum(-1, keepdims=True)
            moved = STEPS[self.regulariser](policy, ahead, behaviour, **options)
            return jnp.where((t < until)[:, None, None], moved, policy)

        return jax.lax.fori_loop(0, until.max(), one, behaviour)

    def in_words(self, about: About) -> tuple[int, Iterator[tuple[str, ...]]]:
        """Say what the policy is; its probabilities depend on numbers."""
        return 1, iter([(f"{len(self)} iterates of all agents, functions of numbers",)])

    def to_plain(self) -> dict[str, Any]:
        """Return its arrays and settings by name."""
        arrays = {"critics": self.critics, "behaviour": self.behaviour.weights}
        arrays |= {"units": self.features.units, "step": self.step, "strength": self.strength}
        settings = {"kind": "numeric", "degree": self.features.degree}
        return (
            settings
            | {"regulariser": self.regulariser}
            | {name: np.asarray(array) for name, array in arrays.items()}
        )

    def _check_shapes(self, common: np.ndarray, local: np.ndarray, rows: int) -> None:
        if common.shape != (rows, self.layout.common):
            expected = f"shape ({rows}, {self.layout.covariates})"
            raise InputError("covariates", expected, common.shape)
        if local.shape != (rows, self.layout.agents, self.layout.width):
            expected = f"shape ({rows}, {self.layout.agents}, {self.layout.width})"
            raise InputError("states", expected, local.shape)


@eqx.filter_jit
def _chances(policy: NumericPolicy, h: Any, common: Any, local: Any, until: Any) -> Array:
    common, local = jnp.asarray(common), jnp.asarray(local)
    scaled = policy.scaling.common(common), policy.scaling.local(local)
    return policy.at(h, *scaled, jnp.asarray(until))
