"""Read and write players: weights as safetensors, everything else as a JSON file next to them."""

import os
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np

from equipoise.core import InputError, checks, weights
from equipoise.core.errors import named_arguments
from equipoise.core.plain import read_json
from equipoise.core.values import Value
from equipoise.games import MarkovGame, MatrixGame, families
from equipoise.games.families import Family, ListedGames
from equipoise.incontext._config import DESCRIPTION, SHIPPED, Config, shipped
from equipoise.incontext._players import Players, initial_players

STEM = "players"
WEIGHTS, CARD = f"{STEM}.safetensors", "MODEL_CARD.md"

#: Training settings that the descriptions of earlier players do not have.
_LATER = {"optimiser", "noise", "watched", "largest", "stages", "relative", "reuse", "fixed_data"}


def describe_family(family: Family) -> dict[str, Any]:
    """Describe a family as plain data: its name, sizes and distribution parameters.

    >>> from equipoise.games import families
    >>> describe_family(families.gaussian(actions=2))["rewards"]
    {'kind': 'GaussianRewards', 'mean': 0.5, 'scale': 0.2}
    """

    def plain(part: Any) -> dict[str, Any]:
        if isinstance(part, ListedGames):
            return {"kind": "ListedGames", **part.describe()}
        values = {k: _plain(v) for k, v in vars(part).items()}
        if values.get("reward_range") == (0.0, 1.0):
            del values["reward_range"]
        return {"kind": type(part).__name__, **values}

    described: dict[str, Any] = {
        "name": family.name,
        "actions": list(family.actions),
        "states": family.states,
        "discount": family.discount,
        "rewards": plain(family.rewards),
    }
    if family.transitions is not None:
        described["transitions"] = plain(family.transitions)
    return described


#: Kinds of rewards that `restore_family` knows.
_KNOWN = ("UniformRewards", "GaussianRewards", "PerturbedRewards", "MixedRewards", "ListedGames")


def _check_restorable(described: Any) -> None:
    """Raise if a family cannot be rebuilt from its description: one of the user's, or data."""
    rewards = described.get("rewards") if isinstance(described, dict) else None
    kind = rewards.get("kind") if isinstance(rewards, dict) else None
    listed = kind != "ListedGames" or (isinstance(rewards, dict) and "listed" in rewards)
    if isinstance(kind, str) and not (kind in _KNOWN and listed):
        expected = "a family of this library that its description contains"
        hint = "pass it to evaluate_saved as `family` (--family MODULE:OBJECT)"
        raise InputError("family", expected, f"{described.get('name')!r} ({kind})", hint)


def _plain(value: Any) -> Any:
    """Return a parameter of a distribution as plain data; of other objects, the type alone."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, Value):
        return {"kind": type(value).__name__, **{k: _plain(v) for k, v in vars(value).items()}}
    if isinstance(value, bool | int | float | str | None | tuple | list | dict):
        return value
    return type(value).__name__


def restore_family(described: dict[str, Any]) -> Family:
    """Rebuild the family that `describe_family` described.

    >>> from equipoise.games import families
    >>> family = families.gaussian(actions=(2, 3), states=4, scale=0.1, concentration=0.5)
    >>> describe_family(restore_family(describe_family(family))) == describe_family(family)
    True
    """
    rewards = {**described["rewards"]}
    if rewards["kind"] == "MixedRewards":
        sizes = tuple(described["actions"])
        kinds, fewest = dict(rewards["kinds"]), rewards["fewest"]
        more = {name: described[name] for name in ("states", "discount")}
        more = {} if more["states"] is None else more
        return families.mixture(sizes, kinds=kinds, fewest=fewest, **more)
    transitions = {**described.get("transitions", {})}
    kind = rewards.pop("kind")
    if kind == "ListedGames":
        listed = ListedGames.restore(rewards)
        sizes = {"states": described["states"], "discount": described["discount"]}
        return Family(described["name"], tuple(described["actions"]), listed, **sizes)
    if kind == "PerturbedRewards":
        base = MatrixGame(np.asarray(rewards["base"]))
        if described["states"] is not None:
            moves, discount = np.asarray(transitions["base"]), described["discount"]
            base = MarkovGame(base.payoff, moves, discount)
        family = families.perturbed(base, rewards["scale"])
        unit = tuple(rewards.get("reward_range", (0.0, 1.0)))
        return replace(family, rewards=replace(family.rewards, reward_range=unit))
    makers = {"UniformRewards": families.uniform, "GaussianRewards": families.gaussian}
    more = {}
    if described["states"] is not None:
        more = {name: described[name] for name in ("states", "discount")}
        more["concentration"] = transitions["concentration"]
    return makers[kind](tuple(described["actions"]), **rewards, **more)


@named_arguments
def save(
    players: Players,
    folder: str | os.PathLike[str],
    config: Config,
    family: Family | dict[str, Any],
    results: dict[str, Any] | None = None,
    *,
    half: bool = False,
) -> None:
    """Write trained players to a folder: first the weights, then the description.

    A folder without the description is incomplete. With `half`, weights are written in 16 bits
    (float16) and read back as float32.

    **Example**

    >>> import tempfile, equipoise as eq
    >>> family = eq.games.families.uniform(actions=2)
    >>> config = eq.incontext.Config(rounds=8, layers=1, width=8, hidden=8)
    >>> players = eq.incontext.initial_players(family, config, key=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     eq.incontext.save(players, folder, config, family)
    ...     eq.incontext.load(folder).parameters == players.parameters
    True
    """
    family = describe_family(family) if isinstance(family, Family) else family
    described = {
        "family": family,
        "config": dict(vars(config)),
        "seeds": players.seeds,
        "seats": players.seats,
        "results": results or {},
    }
    arrays = weights.named(players.models)
    if half:
        arrays = {name: np.asarray(array, np.float16) for name, array in arrays.items()}
    weights.write_weights(Path(folder), STEM, arrays, described)


def fingerprint(players: Players) -> str:
    """Return a fingerprint of the players' weights.

    >>> from equipoise.games import families
    >>> config = Config(rounds=8, layers=1, width=8, hidden=8)
    >>> players = initial_players(families.uniform(actions=2), config, key=0)
    >>> fingerprint(players) == fingerprint(players)
    True
    """
    return weights.fingerprint(weights.named(players.models))


@named_arguments
def load(name: str | os.PathLike[str] = "any") -> Players:
    """Load trained players from a folder, or by name if they ship with the package.

    Without a name, the players are "any", which play matrix games with 2 to 6 actions for each
    player.

    **Example**

    >>> import equipoise as eq
    >>> eq.incontext.load().any_size, eq.incontext.load("iid3").actions
    (True, (3, 3))
    """
    folder = find(name)
    content = _described(folder)
    tensors = weights.read_arrays(folder / WEIGHTS)
    with weights.as_described(folder / DESCRIPTION):
        known = {"shared": content["seats"] == 1, "seeds": content["seeds"]}
        missing = {field.name for field in fields(Config)} - set(content["config"]) - _LATER
        if missing:
            raise KeyError(min(missing))
        config = Config.from_plain({**content["config"], **known})
        shape = content["family"]
        # Check the sizes against the weights before allocating arrays of these sizes.
        most = sum(array.size for array in tensors.values())
        sizes = {n: getattr(config, n) for n in ("layers", "width", "heads", "hidden", "seeds")}
        sizes |= {"actions": max(shape["actions"]), "states": shape["states"] or 1}
        for name, size in sizes.items():
            limit = len(tensors) if name == "layers" else most
            if not size <= limit:
                raise InputError(name, f"at most {limit:,} with these weights", size)
        family = families.uniform(
            tuple(shape["actions"]), states=shape["states"], discount=shape["discount"]
        )
        like = eqx.filter_eval_shape(lambda: initial_players(family, config, key=0))
    names = weights.named(like.models)
    odd = sorted(set(tensors) ^ set(names))
    if odd:
        raise ValueError(
            f"{folder / WEIGHTS}: expected the weights of its config, but {odd[0]!r} differs"
        )
    for name, leaf in names.items():
        checks.check_shape(
            f"{folder / WEIGHTS}: {name}", tensors[name], leaf.shape, "of its config"
        )
    arrays = [jax.numpy.asarray(tensors[name], leaf.dtype) for name, leaf in names.items()]
    players = like.with_models(jax.tree.unflatten(jax.tree.structure(like.models), arrays))
    # The action of a round is chosen after reading the rounds before it.
    return replace(players, rounds=1 + max(stage.rounds for stage in config.staged()))


def description(name: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the description of saved players: family, config and results.

    **Example**

    >>> import equipoise as eq
    >>> eq.incontext.description("iid3")["family"]["name"]
    'uniform'
    """
    return _described(find(name))


def family_of(name: str | os.PathLike[str]) -> Family:
    """Return the family of games that saved players were trained on, to draw new games from it.

    **Example**

    >>> import equipoise as eq
    >>> eq.incontext.family_of("iid3").sample(10, key=0).payoff.shape
    (10, 3, 3)
    """
    folder = find(name)
    content = _described(folder)
    _check_restorable(content["family"])
    with weights.as_described(folder / DESCRIPTION):
        return restore_family(content["family"])


def find(name: Any) -> Path:
    """Find the folder of saved players by path or name."""
    if not isinstance(name, str | os.PathLike):
        raise InputError("name", f"a folder or one of {', '.join(shipped())}", type(name).__name__)
    for folder in (Path(name), SHIPPED / str(name)):
        if (folder / DESCRIPTION).exists():
            return folder
    if _is_pretraining(Path(name)):
        raise InputError(
            "name",
            "players",
            f"an unfinished run in {str(name)!r}",
            "call pretrain again with the same arguments to resume it; Ctrl-C then returns the "
            "best players so far",
        )
    finished = f"a folder with {DESCRIPTION} in it (a finished pre-training run)"
    raise InputError("name", f"{finished} or one of {', '.join(shipped())}", repr(str(name)))


def _is_pretraining(folder: Path) -> bool:
    """Whether a folder holds an unfinished pre-training run."""
    path = folder / "config.json"
    try:
        return path.exists() and {"family", "config", "start"} <= set(read_json(path))
    except ValueError:
        return False


def _described(folder: Path) -> dict[str, Any]:
    """Read the description of saved players; raise if it is not one."""
    return weights.read_description(folder / DESCRIPTION, ("family", "config", "seeds", "seats"))


def model_card(family: dict[str, Any], config: Config, results: dict[str, Any]) -> str:
    """Return a model card in Markdown: what the players are, their training and their intended use.

    >>> family = {"name": "uniform", "actions": [3, 3], "states": None, "discount": 0.0}
    >>> card = model_card(family, Config(), {"steps": 10, "held_out": [0.1], "measure": "gap"})
    >>> card.splitlines()[0]
    '# In-context players: uniform, 3 x 3 actions'
    """
    rows, columns = family["actions"]
    states = f", {family['states']} states" if family.get("states") else ""
    values = [f"{value:.4f}" for value in results.get("held_out", ())]
    if "error" in results:
        values = [f"{v} ± {e:.4f}" for v, e in zip(values, results["error"], strict=True)]
    held = "**Held out**: nothing."
    if values:
        held = f"**Held out** ({results['measure']}): {', '.join(values)}."
    notes = [results["cycles"]] if "cycles" in results else []
    notes += [f"stopped {results['stopped']}"] if "stopped" in results else []
    how = f" ({'; '.join(notes)})" if notes else ""
    where = "of the same shape whose rewards lie in [0, 1] (or are scaled to it)"
    if config.tokens == "adaptive":
        where = f"with 2 to {rows} actions for each player, with rewards in any unit, that"
    noise = ", ".join(dict.fromkeys(config.noise))
    rewards = family.get("rewards", {})
    source = f"games drawn from the family `{family['name']}`\n({rewards.get('kind', 'rewards')})"
    if rewards.get("kind") == "Trajectories":
        source = f"{rewards['trajectories']:,} fixed trajectories with an expert's answers\n(data)"
    settings = "\n".join(f"| {name} | {value} |" for name, value in vars(config).items())
    return f"""# In-context players: {family["name"]}, {rows} x {columns} actions{states}

Frozen transformers that play two-player zero-sum games of this family. A player sees only its own
actions and rewards (and the states), and its weights do not change while it plays.

**Trained on** {source}, {results["steps"]} steps{how}.
{held}

**Use** these players on games {where} and
come from a similar distribution. **Do not** expect near-equilibrium play in games that differ from
this family: certify the policies. Noise of the rewards in training: {noise}.

| setting | value |
|---|---|
{settings}
"""
