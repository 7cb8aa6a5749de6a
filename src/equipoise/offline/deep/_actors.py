"""Policies as networks, and the result of `improve`."""

import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from equipoise.core.weights import as_described, write_weights
from equipoise.games import ContinuousPolicy
from equipoise.offline.deep._critics import layers_of, named_arrays, read_weights
from equipoise.offline.deep._networks import random_layers, through_layers
from equipoise.offline.deep._rows import Sizes
from equipoise.offline.deep._spec import TD3BC, PolicyGradient


class ActorNetwork(eqx.Module):
    """A network from a situation to an action in (-1, 1): rectified layers and a final tanh.

    A situation is a context, a step and an own local state, one-hot. If there is only one of each,
    the input is the constant 1, and the network represents a single number.
    """

    weights: tuple[Float[Array, "*axes _ _"], ...]
    biases: tuple[Float[Array, "*axes 1 _"], ...]

    @classmethod
    def create(cls, sizes: Sizes, width: int, depth: int, key: jax.Array) -> "ActorNetwork":
        """Random weights with PyTorch's default initialisation."""
        widths = [situations(sizes).shape[1], *[width] * depth, 1]
        return cls(*random_layers(widths, key))

    def __call__(self, seen: Float[Array, "B inputs"]) -> Float[Array, "B"]:
        """Actions for a batch of situations."""
        return jnp.tanh(through_layers(seen, self.weights, self.biases))[:, 0]


def situations(sizes: Sizes) -> np.ndarray:
    """(contexts * horizon * states, inputs): every situation as input of an actor.

    >>> situations(Sizes(agents=2)).tolist(), situations(Sizes(agents=2, contexts=2)).tolist()
    ([[1.0]], [[1.0, 0.0], [0.0, 1.0]])
    """
    counts = (sizes.contexts, sizes.horizon, sizes.states)
    index = np.indices(counts).reshape(3, -1)
    parts = [np.eye(n)[k] for n, k in zip(counts, index, strict=True) if n > 1]
    return np.concatenate(parts, 1).astype(np.float32) if parts else np.ones((1, 1), np.float32)


@dataclass(frozen=True, eq=False)
class Actors:
    """Learned policies of all agents, in every trial.

    **Example**

    >>> import numpy as np, equipoise as eq
    >>> actions = np.random.default_rng(0).uniform(-1, 1, (200, 3))
    >>> log = eq.offline.Log(np.zeros(200, int), actions, actions**2 + actions, continuous=True)
    >>> critics = eq.offline.deep.fit(log, eq.offline.deep.Critic.linear(rank=1), key=0)
    >>> actors = eq.offline.deep.improve(critics, log, eq.offline.deep.TD3BC(steps=800), key=1)
    >>> actors.policy.points.round(1).tolist()
    [[1.0, 1.0, 1.0]]
    """

    #: Settings with which the policies were learned.
    method: TD3BC | PolicyGradient
    #: Numbers of agents, contexts, states and steps.
    sizes: Sizes
    #: (trials, contexts, agents), with local states (trials, contexts, horizon, agents, states).
    #: Stochastic policies have a last axis of support points.
    points: np.ndarray
    #: Probabilities of the support points of stochastic policies; None for deterministic ones.
    weights: np.ndarray | None
    #: Networks with axes (trials, agents), or None if the policies are not networks.
    networks: ActorNetwork | None
    #: Number of steps taken.
    steps: int
    #: Steps after which policies were recorded.
    recorded: np.ndarray
    #: Points of the recorded policies, with one more leading axis; None if none were recorded.
    history: np.ndarray | None

    @property
    def trials(self) -> int:
        """Number of trials."""
        return self.points.shape[0]

    @property
    def policies(self) -> list[ContinuousPolicy]:
        """The policies of all trials."""
        chances = [None] * self.trials if self.weights is None else self.weights
        return [ContinuousPolicy(p, w) for p, w in zip(self.points, chances, strict=True)]

    @property
    def policy(self) -> ContinuousPolicy:
        """The policy of the first trial."""
        return self.policies[0]

    def record(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Numbers and arrays that a run records in addition to the weights."""
        return {"steps": self.steps}, {"points": self.points}

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write policies and networks as safetensors, and the settings as JSON."""
        networks = named_arrays(self.networks)
        arrays = {f"networks/{name}": array for name, array in networks.items()}
        tables = {
            name: getattr(self, name) for name in ("points", "weights", "recorded", "history")
        }
        arrays |= {name: table for name, table in tables.items() if table is not None}
        described = {
            "kind": type(self.method).__name__,
            "method": asdict(self.method),
            "sizes": asdict(self.sizes),
            "steps": self.steps,
        }
        write_weights(Path(folder), "actors", arrays, described)

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> "Actors":
        """Read actors written by `save`, or from the run folder of `improve`."""
        arrays, described = read_weights(folder, "actors", ("kind", "method", "sizes", "steps"))
        kinds: dict[str, Any] = {"TD3BC": TD3BC, "PolicyGradient": PolicyGradient}
        with as_described(Path(folder, "actors.json")):
            method = kinds[described["kind"]](**described["method"])
            networks = None
            if isinstance(method, TD3BC):
                networks = ActorNetwork(*layers_of(arrays, "networks/.", method.depth))
            return cls(
                method=method,
                sizes=Sizes(**described["sizes"]),
                points=arrays["points"],
                weights=arrays.get("weights"),
                networks=networks,
                steps=int(described["steps"]),
                recorded=arrays["recorded"],
                history=arrays.get("history"),
            )


def policy_table(points: Any, sizes: Sizes, local: bool) -> np.ndarray:
    """Reorder (trials, agents, situations, ...) to the axes of policies."""
    points = np.asarray(points, np.float64)
    trials, agents, _, *rest = points.shape
    counts = (sizes.contexts, sizes.horizon, sizes.states)
    table = points.reshape(trials, agents, *counts, *rest)
    table = np.moveaxis(table, 1, 3)  # trials, contexts, horizon, agents, states
    return table if local else table[:, :, 0, :, 0]
