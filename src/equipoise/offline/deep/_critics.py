"""The result of `fit`: critics of all agents and trials, and their held-out errors."""

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from equipoise.core import InputError, checks, weights
from equipoise.core.precision import single_precision
from equipoise.games import ContinuousGame
from equipoise.offline.deep._kernels import Kernels, Kind, Shape
from equipoise.offline.deep._networks import Polynomials, RewardModel, TermNetworks, all_factors
from equipoise.offline.deep._rows import Rows, Sizes, over_agents, side_by_side
from equipoise.offline.deep._spec import Critic, KernelCritic, LinearCritic

#: Arrays of critics that are stored in addition to the weights.
_MEASURES = ("shift", "scale", "validation", "unexplained", "best_round", "rounds")
#: Kind of critics in a file -> the class of their settings.
_KINDS = {"network": Critic, "polynomials": LinearCritic, "kernel": KernelCritic}
#: Number of rows predicted at a time.
_BLOCK = 256


@dataclass(frozen=True, eq=False)
class Critics:
    """Fitted critics: one for every agent, in every trial.

    **Example**

    >>> import numpy as np, equipoise as eq
    >>> actions = np.random.default_rng(0).uniform(-1, 1, (200, 3))
    >>> rewards = actions * actions.sum(1, keepdims=True)
    >>> log = eq.offline.Log(np.zeros(200, int), actions, rewards, continuous=True)
    >>> critics = eq.offline.deep.fit(log, eq.offline.deep.Critic.linear(rank=2), key=0)
    >>> critics(np.ones((1, 3))).round(3)
    array([[3., 3., 3.]])
    >>> bool((critics.explained > 0.99).all()), critics.trials
    (True, 1)
    """

    #: Settings of the critic that was fitted.
    spec: Critic | LinearCritic | KernelCritic
    #: Numbers of agents, contexts, states and steps.
    sizes: Sizes
    #: A pytree with axes (trials, agents); outputs are rewards before `scale` and `shift`.
    models: RewardModel
    #: (trials, agents): a reward is `scale` times the output of a model, plus `shift`.
    shift: np.ndarray
    #: (trials, agents): see `shift`.
    scale: np.ndarray
    #: (trials, agents): held-out mean squared errors, in squared units of rewards.
    validation: np.ndarray
    #: (trials, agents): the same errors as a fraction of the variance of rewards.
    unexplained: np.ndarray
    #: (trials, agents): round (epoch or step) whose weights were kept.
    best_round: np.ndarray
    #: (trials, agents): last round of training.
    rounds: np.ndarray

    @property
    def trials(self) -> int:
        """Number of trials."""
        return self.validation.shape[0]

    @property
    def agents(self) -> int:
        """Number of agents."""
        return self.sizes.agents

    @property
    def explained(self) -> np.ndarray:
        """(trials, agents): fraction of the variance of held-out rewards that is explained."""
        return 1.0 - self.unexplained

    @property
    def parameters(self) -> int:
        """Number of parameters of one agent's critic."""
        leaves = jax.tree.leaves(eqx.filter(self.models, eqx.is_inexact_array))
        return sum(leaf.size for leaf in leaves) // (self.trials * self.agents)

    def __call__(
        self,
        actions: Any,
        contexts: Any = None,
        states: Any = None,
        steps: Any = None,
        trial: int | None = 0,
        *,
        covariates: Any = None,
    ) -> np.ndarray:
        """Predict rewards (..., agents) of joint actions (..., agents).

        Numeric contexts are `covariates`, and numeric local states `states`, one row for each row
        of actions.

        `trial` selects the critics; None averages the predictions of all trials.
        """
        actions = checks.as_float_array("actions", actions)
        if actions.ndim < 1 or actions.shape[-1] != self.agents:
            raise InputError("actions", f"{self.agents} along the last axis", actions.shape)
        models, scale, shift = self._of_trial(trial)
        with single_precision():
            flat = actions.reshape(-1, self.agents)
            numbers = as_numbers(self.sizes, flat.shape, covariates, states)
            states = None if self.sizes.width else states
            rows = as_rows(self.sizes, flat, contexts, states, steps)
            rows = Rows(rows.actions, rows.contexts, rows.steps, rows.states, *numbers)
            repeated = jax.tree.map(lambda x: jnp.repeat(x[None], len(scale), 0), rows)
            found = np.asarray(predict(models, repeated)).swapaxes(1, 2)
        return (found * scale[:, None] + shift[:, None]).mean(0).reshape(actions.shape)

    def as_game(self, trial: int | None = 0, curvature: float | None = None) -> ContinuousGame:
        """Return the game whose rewards are the critics' predictions, for use with `certify`.

        Use it if there is a log but no simulator. Gains in the fitted game are as accurate as the
        critics. They are lower bounds found by search, unless `curvature` bounds the second
        derivative of the predictions in the own action. Contexts are equally likely. With
        `trial=None`, rewards are the mean of all trials' predictions.

        **Example**

        >>> import numpy as np, equipoise as eq
        >>> game = eq.games.load("pairwise-continuous", agents=3, noise=0.1)
        >>> log = eq.offline.collect(game, "uniform", samples=300, key=0)
        >>> critics = eq.offline.deep.fit(log, eq.offline.deep.Critic.linear(rank=2), key=0)
        >>> true, fitted = (eq.certify(g, np.zeros(3)).max_gain for g in (game, critics.as_game()))
        >>> bool(abs(true - fitted) < 0.05)
        True
        """
        if self.sizes.covariates or self.sizes.width:
            raise ValueError(
                "critics: expected contexts and states that are counted, found numbers"
            )
        if self.sizes.states > 1 or self.sizes.horizon > 1:
            raise ValueError(
                "critics: expected critics of a log without local states or steps; found "
                f"{self.sizes.states} states and {self.sizes.horizon} steps"
            )
        given = self._of_trial(trial)

        def reward(actions: Any, context: Any = 0) -> Any:
            # Convert the weights to the precision of the actions.
            models, scale, shift = jax.tree.map(
                lambda x: x.astype(actions.dtype) if eqx.is_inexact_array_like(x) else x, given
            )
            trials = len(scale)
            where = jnp.full((trials, 1), context, jnp.int32)
            rows = Rows.without_states(jnp.repeat(actions[None, None], trials, 0), where)
            return (predict(models, rows)[:, :, 0] * scale + shift).mean(0)

        return ContinuousGame.from_function(
            reward, self.agents, self.sizes.contexts, curvature=curvature
        )

    def fingerprint(self) -> str:
        """Return a hash of the critics: equal critics have equal fingerprints."""
        return weights.fingerprint({**named_arrays(self.models), "scale": self.scale})

    def _of_trial(self, trial: int | None) -> tuple[RewardModel, np.ndarray, np.ndarray]:
        """Models, scales and shifts of one trial or of all, with an axis of trials."""
        if trial is not None and not 0 <= trial < self.trials:
            raise InputError("trial", f"0 to {self.trials - 1}", trial)
        which = slice(None) if trial is None else slice(trial, trial + 1)
        models = jax.tree.map(lambda x: x[which], self.models)
        return models, self.scale[which], self.shift[which]

    def record(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Numbers and arrays that a run records in addition to the weights."""
        scalars = {
            "validation": float(self.validation.mean()),
            "explained": float(self.explained.mean()),
            "parameters": self.parameters,
        }
        names = ("validation", "unexplained", "best_round", "rounds")
        return scalars, {name: getattr(self, name) for name in names}

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write weights as safetensors, and the settings as JSON."""
        arrays = {f"models/{name}": array for name, array in named_arrays(self.models).items()}
        arrays |= {name: getattr(self, name) for name in _MEASURES}
        kind = next(name for name, made in _KINDS.items() if isinstance(self.spec, made))
        described = {"kind": kind, "spec": asdict(self.spec), "sizes": asdict(self.sizes)}
        weights.write_weights(Path(folder), "critics", arrays, described)

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> "Critics":
        """Read critics written by `save`, or from the run folder of `fit`."""
        endless = ("validation", "unexplained")  # infinite if training diverged
        arrays, described = read_weights(folder, "critics", ("kind", "spec", "sizes"), endless)
        given = {
            name.removeprefix("models/."): jnp.asarray(array)
            for name, array in arrays.items()
            if name.startswith("models/")
        }
        with weights.as_described(Path(folder, "critics.json")):
            sizes = Sizes(**described["sizes"])
            spec: Any = _KINDS[described["kind"]](**described["spec"])
            if isinstance(spec, Critic):
                layers = layers_of(given, "", spec.depth)
                models = TermNetworks(given["scopes"], *layers, given.get("embedding"), sizes)
            elif isinstance(spec, KernelCritic):
                shape = Shape(*(given[f"shape.{f.name}"] for f in fields(Shape)))
                names = ("order", "centres", "where", "coefficients")
                parts: Any = {name: given[name] for name in names}
                models = Kernels(shape, **parts, kind=Kind.of(spec))
            else:
                names = ("own", "others", "factors", "coefficients")
                own, others, factors, coefficients = (given[name] for name in names)
                models = Polynomials(own, others, factors, coefficients, spec.degree, sizes)
                if models.factors.shape[2:] != all_factors(spec, sizes).shape:
                    raise ValueError("expected critics, found features of another critic")
            return cls(spec, sizes, models, *(arrays[name] for name in _MEASURES))


def as_rows(sizes: Sizes, actions: np.ndarray, contexts: Any, states: Any, steps: Any) -> Rows:
    """Rows from the user's arrays; contexts, states and steps may be left out if there is one."""
    given = []
    for name, value, many, shape in (
        ("contexts", contexts, sizes.contexts, actions.shape[:1]),
        ("steps", steps, sizes.horizon, actions.shape[:1]),
        ("states", states, sizes.states, actions.shape),
    ):
        if value is None and many > 1:
            raise InputError(name, f"values, since there are {many}", "none")
        array = np.broadcast_to(np.asarray(0 if value is None else value), shape).astype(np.int32)
        if array.size and (array.min() < 0 or array.max() >= many):
            found = f"{array.min()} to {array.max()}"
            raise InputError(name, f"numbers from 0 to {many - 1}", found)
        given.append(jnp.asarray(array))
    return Rows(jnp.asarray(actions, jnp.float32), *given)


def as_numbers(
    sizes: Sizes, shape: tuple[int, ...], covariates: Any, states: Any
) -> tuple[jax.Array | None, jax.Array | None]:
    """Numeric contexts and local states from the user's arrays; None where there are none."""
    found: list[jax.Array | None] = []
    for name, value, count, axes in (
        ("covariates", covariates, sizes.covariates, (shape[0], sizes.covariates)),
        ("states", states, sizes.width, (*shape, sizes.width)),
    ):
        if not count:
            if name == "covariates" and value is not None:
                raise InputError(name, "none, as in the log", "values")
            found.append(None)
            continue
        if value is None:
            raise InputError(name, f"values of shape {axes}", "none")
        array = checks.as_float_array(name, value)
        checks.check_shape(name, array, axes, "one row for each row of actions")
        found.append(jnp.asarray(array, jnp.float32))
    return found[0], found[1]


def predict(models: Any, rows: Rows) -> jax.Array:
    """(trials, agents, rows): outputs of all models, computed in blocks of rows."""
    return _predict(models, rows, side_by_side())


@eqx.filter_jit
def _predict(models: Any, rows: Rows, vectorised: bool) -> jax.Array:
    count = rows.actions.shape[1]
    size = min(_BLOCK, count)
    blocks = -(-count // size)

    def blocked(x: jax.Array) -> jax.Array:
        padded = jnp.pad(x, [(0, 0), (0, blocks * size - count)] + [(0, 0)] * (x.ndim - 2))
        return jnp.moveaxis(padded.reshape(x.shape[0], blocks, size, *x.shape[2:]), 1, 0)

    each = over_agents(lambda model, rows, _: model(rows), vectorised)
    nothing = jnp.zeros(jax.tree.leaves(models)[0].shape[1])
    found = jax.lax.map(lambda part: each(models, part, nothing), jax.tree.map(blocked, rows))
    found = jnp.moveaxis(found, 0, 2)
    return found.reshape(*found.shape[:2], -1)[..., :count]


def read_weights(
    folder: str | os.PathLike[str], stem: str, parts: tuple[str, ...], endless: tuple[str, ...] = ()
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Read arrays and description; missing and damaged files raise errors that name them."""
    folder = Path(folder)
    arrays, description = folder / f"{stem}.safetensors", folder / f"{stem}.json"
    for path in (description, arrays):
        if not path.exists():
            raise FileNotFoundError(f"{folder}: expected {stem}, found no {path.name}")
    return weights.read_arrays(arrays, endless), weights.read_description(description, parts)


def named_arrays(tree: Any) -> dict[str, np.ndarray]:
    """Arrays of a pytree, keyed by their paths in it."""
    return weights.named(eqx.filter(tree, eqx.is_array))


def layers_of(arrays: Mapping[str, Any], prefix: str, depth: int) -> tuple[Any, Any]:
    """Weights and biases of `depth` hidden layers and the output layer, from named arrays."""
    weights, biases = (
        tuple(jnp.asarray(arrays[f"{prefix}{part}[{k}]"]) for k in range(depth + 1))
        for part in ("weights", "biases")
    )
    return weights, biases
