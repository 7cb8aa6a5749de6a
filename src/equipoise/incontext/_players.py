"""Players: frozen transformers with what is needed to seat them at a game."""

from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from equipoise.core import checks
from equipoise.games.families import Family
from equipoise.incontext._config import Config, check_config
from equipoise.incontext._model import Transformer, random_transformer
from equipoise.incontext._tokens import RoundTokens, Tokens, VocabularyTokens

Reading = Literal["softmax", "linear"]


class Players(eqx.Module):
    """A row player and a column player for the games of one shape.

    Every array of `models` has two leading axes: the seeds of a training run, and the seats: one
    model that plays both, or one for each. `players[i]` is the pair of one seed.

    **Example**

    >>> import equipoise as eq
    >>> config = eq.incontext.Config(rounds=8, layers=1, width=8, hidden=8, seeds=2)
    >>> family = eq.games.families.uniform(actions=3)
    >>> players = eq.incontext.initial_players(family, config, key=0)
    >>> players.seeds, players.seats, players[1].seeds
    (2, 1, 1)
    >>> players[1]
    Players(3 x 3 actions, 571 weights, seeds=1, seats=1, tokens='round')
    """

    models: Transformer
    tokens: Tokens
    #: Of the row and of the column player.
    actions: tuple[int, int] = eqx.field(static=True)
    states: int | None = eqx.field(static=True, default=None)
    #: How outputs become a policy: softmax, or positive parts over their sum (hand-built networks).
    reading: Reading = eqx.field(static=True, default="softmax")
    #: Share of uniform play in the first rounds, falling as t^-1/4 from round 16 on. It is mixed
    #: into what is played, not into the policies that are given and certified.
    exploration: float = eqx.field(static=True, default=0.0)

    @property
    def seeds(self) -> int:
        """Number of independent pairs."""
        return self.models.embed.shape[0]

    @property
    def seats(self) -> int:
        """1 when one model plays both seats, else 2."""
        return self.models.embed.shape[1]

    @property
    def parameters(self) -> int:
        """Number of weights of one model."""
        return self.models.parameters // (self.seeds * self.seats)

    def __getitem__(self, seed: int) -> "Players":
        index = range(self.seeds)[seed]
        one = jax.tree.map(
            lambda leaf: leaf[index : index + 1] if eqx.is_array(leaf) else leaf, self.models
        )
        return eqx.tree_at(lambda players: players.models, self, one)

    def __len__(self) -> int:
        return self.seeds

    def __repr__(self) -> str:
        """One line: the sizes, not the weights."""
        if not hasattr(self.models.embed, "shape"):  # weights are taken out inside transformations
            return f"Players({_shape(self.actions, self.states)})"
        names = {RoundTokens: "round", VocabularyTokens: "vocabulary"}
        tokens = names.get(type(self.tokens), type(self.tokens).__name__)
        return (
            f"Players({_shape(self.actions, self.states)}, {self.parameters:,} weights, "
            f"seeds={self.seeds}, seats={self.seats}, tokens={tokens!r})"
        )


def read_policies(
    outputs: Array, actions: tuple[int, int], states: int | None, reading: Reading
) -> tuple[Array, Array]:
    """Outputs read as policies of the row player, and as those of the column player.

    A player with fewer actions than the other has probability zero on those it lacks.

    >>> import jax.numpy as jnp
    >>> [p.tolist() for p in read_policies(jnp.zeros(2), (2, 1), None, "softmax")]
    [[0.5, 0.5], [1.0, 0.0]]
    """
    most = max(actions)
    shape = (most,) if states is None else (states, most)
    logits = outputs.reshape(*outputs.shape[:-1], *shape)

    def read(count: int) -> Array:
        if reading == "linear":
            # Policies up to rounding in hand-built networks; training may leave the simplex.
            mass = jnp.where(jnp.arange(most) < count, jnp.maximum(logits, 0.0), 0.0)
            return mass / jnp.maximum(mass.sum(-1, keepdims=True), 1e-9)
        wide = logits.astype(jnp.promote_types(logits.dtype, jnp.float32))
        return jax.nn.softmax(jnp.where(jnp.arange(most) < count, wide, -jnp.inf), -1)

    return read(actions[0]), read(actions[1])


def initial_players(family: Family, config: Config, *, key: Any) -> Players:
    """Players before training: random weights, uniform policies.

    **Example**

    >>> import equipoise as eq
    >>> family = eq.games.families.uniform(actions=3)
    >>> tiny = eq.incontext.Config(rounds=8, layers=1, width=8, hidden=8, seeds=2)
    >>> eq.incontext.initial_players(family, tiny, key=0).parameters  # of one model
    571
    """
    from equipoise.core.randomness import as_key

    if not isinstance(family, Family):
        raise ValueError(f"family: expected a Family of games, found {type(family).__name__}")
    config = check_config(config, Config)
    shared = family.symmetric if config.shared is None else config.shared
    if shared and not family.symmetric:
        raise ValueError(
            "shared: expected a family that swapping the players maps to itself, "
            f"found {family.name!r} with {family.actions} actions; use shared=False"
        )
    tokens = make_tokens(family, config)
    outputs = max(family.actions) * (family.states or 1)

    def one(key: jax.Array) -> Transformer:
        return random_transformer(
            key,
            features=tokens.features,
            outputs=outputs,
            layers=config.layers,
            heads=config.heads,
            width=config.width,
            hidden=config.hidden,
            groups=config.head_groups,
            weighing=config.attention,
            layer_norm=config.layer_norm,
        )

    keys = jax.random.split(as_key(key), (config.seeds, 1 if shared else 2))
    models = eqx.filter_vmap(eqx.filter_vmap(one))(keys)
    # Who learns from others' play alone has not learnt to make use of exploration.
    exploration = 0.0 if config.contexts == "learners" else config.exploration
    return Players(models, tokens, family.actions, family.states, exploration=exploration)


def make_tokens(family: Family, config: Config) -> Tokens:
    """The tokens that a config asks for."""
    most = max(family.actions)
    if config.tokens == "vocabulary":
        return VocabularyTokens(most, family.states, config.reward_bins)
    return RoundTokens(most, family.states)


def check_one_pair(players: Any) -> None:
    """Refuse what is no player, or several pairs."""
    if not isinstance(players, Players):
        raise ValueError(
            f"players: expected Players, found {type(players).__name__}; "
            "load them with equipoise.incontext.load(name)"
        )
    if players.seeds != 1:
        raise ValueError(
            f"players: expected one pair, found {players.seeds} seeds; choose players[i]"
        )


def check_players(players: Any, games: Any) -> None:
    """Refuse games that the players were not made for."""
    check_one_pair(players)
    found = (games.actions, getattr(games, "states", None))
    if found != (players.actions, players.states):
        raise ValueError(
            f"games: expected {_shape(players.actions, players.states)}, found {_shape(*found)}"
        )
    checks.check_count("games", int(np.prod(games.batch_shape, dtype=int)))


def _shape(actions: tuple[int, int], states: int | None) -> str:
    where = "" if states is None else f" in {states} states"
    return f"{actions[0]} x {actions[1]} actions{where}"
