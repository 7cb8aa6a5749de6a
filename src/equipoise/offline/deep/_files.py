"""Critics and actors on disk: numbers in safetensors, everything else in JSON beside them."""

import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from equipoise.core import weights
from equipoise.offline.deep._actors import ActorNetwork, Actors
from equipoise.offline.deep._critics import Critics
from equipoise.offline.deep._linear import Polynomials, all_factors
from equipoise.offline.deep._methods import TD3BC, PolicyGradient
from equipoise.offline.deep._networks import TermNetworks
from equipoise.offline.deep._rows import Sizes
from equipoise.offline.deep._spec import Critic, LinearCritic

CRITICS, ACTORS = "critics", "actors"
_MEASURES = ("shift", "scale", "validation", "unexplained", "best_round", "rounds")


def _read(
    folder: str | os.PathLike[str], stem: str, parts: tuple[str, ...]
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Arrays and description; refuses a folder without them and damaged files, by name."""
    folder = Path(folder)
    arrays, description = folder / f"{stem}.safetensors", folder / f"{stem}.json"
    for path in (description, arrays):
        if not path.exists():
            raise FileNotFoundError(f"{folder}: expected {stem}, found no {path.name}")
    return weights.read_arrays(arrays), weights.read_description(description, parts)


def save_critics(critics: Critics, folder: str | os.PathLike[str]) -> None:
    """See `Critics.save`."""
    arrays = {f"models/{name}": array for name, array in _arrays(critics.models).items()}
    arrays |= {name: getattr(critics, name) for name in _MEASURES}
    kind = "network" if isinstance(critics.spec, Critic) else "polynomials"
    described = {"kind": kind, "spec": asdict(critics.spec), "sizes": asdict(critics.sizes)}
    weights.write_weights(Path(folder), CRITICS, arrays, described)


def load_critics(folder: str | os.PathLike[str]) -> Critics:
    """See `Critics.load`."""
    arrays, described = _read(folder, CRITICS, ("kind", "spec", "sizes"))
    sizes = Sizes(**described["sizes"])
    given = {
        name.removeprefix("models/"): jnp.asarray(array)
        for name, array in arrays.items()
        if name.startswith("models/")
    }
    spec: Critic | LinearCritic
    models: Any
    if described["kind"] == "network":
        spec = Critic(**described["spec"])
        layers = range(spec.depth + 1)
        models = TermNetworks(
            given[".scopes"],
            tuple(given[f".weights[{k}]"] for k in layers),
            tuple(given[f".biases[{k}]"] for k in layers),
            given.get(".embedding"),
            sizes,
        )
    else:
        spec = LinearCritic(**described["spec"])
        names = (".own", ".others", ".factors", ".coefficients")
        own, others, factors, coefficients = (given[name] for name in names)
        models = Polynomials(own, others, factors, coefficients, spec.degree, sizes)
        if given[".factors"].shape[2:] != all_factors(spec, sizes).shape:
            raise ValueError(f"{folder}: expected critics, found features of another critic")
    return Critics(spec, sizes, models, *(arrays[name] for name in _MEASURES))


def critics_fingerprint(critics: Critics) -> str:
    """A word that says which critics these are."""
    return weights.fingerprint({**_arrays(critics.models), "scale": critics.scale})


def save_actors(actors: Actors, folder: str | os.PathLike[str]) -> None:
    """See `Actors.save`."""
    arrays = {} if actors.networks is None else _arrays(actors.networks)
    arrays = {f"networks/{name}": array for name, array in arrays.items()}
    arrays |= {"points": actors.points, "recorded": actors.recorded}
    for name in ("weights", "history"):
        if getattr(actors, name) is not None:
            arrays[name] = getattr(actors, name)
    described = {
        "kind": type(actors.method).__name__,
        "method": asdict(actors.method),
        "sizes": asdict(actors.sizes),
        "steps": actors.steps,
    }
    weights.write_weights(Path(folder), ACTORS, arrays, described)


def load_actors(folder: str | os.PathLike[str]) -> Actors:
    """See `Actors.load`."""
    arrays, described = _read(folder, ACTORS, ("kind", "method", "sizes", "steps"))
    kinds = {"TD3BC": TD3BC, "PolicyGradient": PolicyGradient}
    method = kinds[described["kind"]](**described["method"])
    networks = None
    if isinstance(method, TD3BC):
        layers = range(method.depth + 1)
        networks = ActorNetwork(
            tuple(jnp.asarray(arrays[f"networks/.weights[{k}]"]) for k in layers),
            tuple(jnp.asarray(arrays[f"networks/.biases[{k}]"]) for k in layers),
        )
    sizes, steps = Sizes(**described["sizes"]), int(described["steps"])
    points, chances = arrays["points"], arrays.get("weights")
    recorded, history = arrays["recorded"], arrays.get("history")
    return Actors(method, sizes, points, chances, networks, steps, recorded, history)


def _arrays(tree: Any) -> dict[str, np.ndarray]:
    return weights.named(eqx.filter(tree, eqx.is_array))
