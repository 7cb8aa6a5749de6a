"""Critics and actors on disk: numbers in safetensors, everything else in JSON beside them."""

import hashlib
import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from equipoise.core.files import atomic_write, write_text
from equipoise.offline.deep._actors import ActorNetwork, Actors
from equipoise.offline.deep._critics import Critics
from equipoise.offline.deep._linear import Polynomials, all_factors
from equipoise.offline.deep._methods import TD3BC, PolicyGradient
from equipoise.offline.deep._networks import TermNetworks
from equipoise.offline.deep._rows import Sizes
from equipoise.offline.deep._spec import Critic, LinearCritic

CRITICS, ACTORS = "critics", "actors"
_MEASURES = ("shift", "scale", "validation", "unexplained", "best_round", "rounds")


def write_arrays(
    folder: Path, stem: str, arrays: dict[str, Any], described: dict[str, Any]
) -> None:
    """Write the arrays, then the description, which completes them."""
    from safetensors.numpy import save

    folder.mkdir(parents=True, exist_ok=True)
    plain = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    with atomic_write(folder / f"{stem}.safetensors") as temporary:
        temporary.write_bytes(save(plain))
    write_text(folder / f"{stem}.json", json.dumps({"format": 1, **described}, indent=2) + "\n")


def read_arrays(
    folder: str | os.PathLike[str], stem: str
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Arrays and description; refuses a folder without them and damaged files, by name."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    folder = Path(folder)
    weights, description = folder / f"{stem}.safetensors", folder / f"{stem}.json"
    for path in (description, weights):
        if not path.exists():
            raise FileNotFoundError(f"{folder}: expected {stem}, found no {path.name}")
    try:
        described = json.loads(description.read_text())
        arrays = load_file(weights)
    except (ValueError, SafetensorError) as error:
        raise ValueError(f"{folder}: expected {stem}, found damaged files: {error}") from error
    if not isinstance(described, dict) or described.get("format") != 1:
        raise ValueError(f"{description}: expected format 1, found another")
    return arrays, described


def save_critics(critics: Critics, folder: str | os.PathLike[str]) -> None:
    """See `Critics.save`."""
    arrays = {f"models/{name}": array for name, array in named(critics.models).items()}
    arrays |= {name: getattr(critics, name) for name in _MEASURES}
    kind = "network" if isinstance(critics.spec, Critic) else "polynomials"
    described = {"kind": kind, "spec": asdict(critics.spec), "sizes": asdict(critics.sizes)}
    write_arrays(Path(folder), CRITICS, arrays, described)


def load_critics(folder: str | os.PathLike[str]) -> Critics:
    """See `Critics.load`."""
    arrays, described = read_arrays(folder, CRITICS)
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
    digest = hashlib.sha256()
    for name, array in sorted(named(critics.models).items()):
        digest.update(name.encode() + np.ascontiguousarray(array).tobytes())
    digest.update(np.ascontiguousarray(critics.scale).tobytes())
    return digest.hexdigest()[:16]


def save_actors(actors: Actors, folder: str | os.PathLike[str]) -> None:
    """See `Actors.save`."""
    arrays = {} if actors.networks is None else named(actors.networks)
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
    write_arrays(Path(folder), ACTORS, arrays, described)


def load_actors(folder: str | os.PathLike[str]) -> Actors:
    """See `Actors.load`."""
    arrays, described = read_arrays(folder, ACTORS)
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
    points, weights = arrays["points"], arrays.get("weights")
    recorded, history = arrays["recorded"], arrays.get("history")
    return Actors(method, sizes, points, weights, networks, steps, recorded, history)


def named(tree: Any) -> dict[str, np.ndarray]:
    """All arrays of a tree by their paths."""
    leaves = jax.tree_util.tree_flatten_with_path(eqx.filter(tree, eqx.is_array))[0]
    return {jax.tree_util.keystr(path): np.asarray(leaf) for path, leaf in leaves}
