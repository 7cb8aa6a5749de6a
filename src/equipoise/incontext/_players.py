"""Players: frozen transformers as learners, and pairs of them as they are trained and saved."""

from dataclasses import replace
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from equipoise.core import checks
from equipoise.core.randomness import as_key
from equipoise.dynamics import Bandit, ContextLearner, MarkovBandit, Pair, Spec
from equipoise.games.families import Family
from equipoise.incontext._config import Config, check_config
from equipoise.incontext._model import Transformer, lower_precision, random_transformer
from equipoise.incontext._tokens import RoundTokens, Tokens, VocabularyTokens

Reading = Literal["softmax", "linear"]
Precision = Literal["auto", "float32", "bfloat16"]


class PlayerState(eqx.Module):
    """What a transformer remembers of one game: its cache, and its latest outputs."""

    cache: Any
    outputs: Float[Array, " outputs"]


class Player(ContextLearner):
    """A frozen transformer in one seat: a learner whose state is the context it has read.

    `Players.learners` makes them; `equipoise.dynamics.play` seats them beside any other learner.

    **Example**

    >>> import equipoise as eq
    >>> player, _ = eq.incontext.load("iid3").learners()
    >>> state = player.init(eq.dynamics.Spec(actions=3, rounds=1))
    >>> state = player.update(state, eq.dynamics.Bandit(round=1, action=2, reward=1.0))
    >>> bool(player.policy(state)[2] > 1 / 3)
    True
    """

    model: Transformer
    tokens: Tokens
    exploration: Any
    #: Of this seat.
    actions: int = eqx.field(static=True)
    states: int | None = eqx.field(static=True, default=None)
    reading: Reading = eqx.field(static=True, default="softmax")
    fading: bool = eqx.field(static=True, default=True)
    #: The last round that may be asked for; None: as many as there is room for.
    reach: int | None = eqx.field(static=True, default=None)

    @property
    def sees(self) -> type:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Its own actions and rewards, and the states where there are any."""
        return Bandit if self.states is None else MarkovBandit

    def init(self, spec: Spec) -> PlayerState:
        """Read the opening tokens."""
        if (spec.actions, spec.states) != (self.actions, self.states):
            raise ValueError(
                f"games: expected {self.actions} actions and {self.states or 'no'} states for this "
                f"player, found {spec.actions} and {spec.states or 'no'}"
            )
        cache = self.model.cache(self.tokens.length(spec.rounds))
        opening = self.tokens.opening(None if self.states is None else jnp.int32(spec.start))
        empty = PlayerState(cache, jnp.zeros(self.model.readout.shape[0]))
        return self._read(empty, opening, 0, opening.shape[0])

    def policy(self, state: PlayerState) -> Array:
        """Read from the latest outputs, at all states in Markov games."""
        most = self.tokens.actions
        policy = read_policy(state.outputs, self.actions, most, self.states, self.reading)
        return policy[..., : self.actions]

    def update(self, state: PlayerState, feedback: Bandit | MarkovBandit) -> PlayerState:
        """Read the tokens of the round."""
        here, then = None, None
        if isinstance(feedback, MarkovBandit):
            here, then = feedback.state, feedback.next_state
        t = feedback.round
        tokens = self.tokens.round(t, feedback.action, feedback.reward, here, then)
        before = self.tokens.length(0) + self.tokens.per_round * (t - 1)
        reach = None if self.reach is None else self.tokens.length(self.reach)
        return self._read(state, tokens, before, reach)

    def _read(self, state: PlayerState, tokens: Array, first: Any, reach: Any) -> PlayerState:
        cache, outputs = state.cache, state.outputs
        for i in range(tokens.shape[0]):
            outputs, cache = self.model.step(tokens[i], cache, first + i, reach)
        return PlayerState(cache, outputs.astype(state.outputs.dtype))

    def within(self, rounds: int) -> "Player":
        """The same player, which looks no further back than so many rounds reach."""
        return replace(self, reach=rounds)

    def grow(self, state: PlayerState, rounds: int) -> PlayerState:
        """Room for so many rounds: the cache, whose next to last axis is time, goes on."""
        length = self.tokens.length(rounds)

        def longer(array: Array) -> Array:
            more = (0, max(0, length - array.shape[-2]))
            return jnp.pad(array, [(0, 0)] * (array.ndim - 2) + [more, (0, 0)])

        return PlayerState(jax.tree.map(longer, state.cache), state.outputs)


class Players(Pair):
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

    def learners(
        self, *, exploration: float | None = None, precision: Precision = "auto"
    ) -> tuple[Player, Player]:
        """The row player and the column player of one pair, as learners.

        **Arguments**

        - `exploration`: the first share of uniform play; by default what they were trained with.
        - `precision`: of the products of matrices; "auto" is float32 on a CPU and bfloat16 on an
          accelerator.
        """
        check_one_pair(self)
        if exploration is not None:
            checks.check_range("exploration", exploration, 0.0, 1.0)
        if precision not in ("auto", "float32", "bfloat16"):
            raise ValueError(
                f"precision: expected 'auto', 'float32' or 'bfloat16', found {precision!r}"
            )
        low = precision == "bfloat16"
        low = low or (precision == "auto" and jax.default_backend() != "cpu")
        models = jax.tree.map(lambda leaf: leaf[0] if eqx.is_array(leaf) else leaf, self.models)
        share = np.float32(self.exploration if exploration is None else exploration)
        return self.seated(lower_precision(models) if low else models, jnp.asarray(share))

    def seated(
        self, models: Transformer, exploration: Any, *, fading: bool = True
    ) -> tuple[Player, Player]:
        """Players with these models, whose arrays have an axis of seats in front."""

        def one(seat: int) -> Transformer:
            return jax.tree.map(lambda leaf: leaf[seat] if eqx.is_array(leaf) else leaf, models)

        row = Player(
            model=one(0),
            tokens=self.tokens,
            exploration=exploration,
            actions=self.actions[0],
            states=self.states,
            reading=self.reading,
            fading=fading,
        )
        # Seats that share a model share its arrays, by which they are recognised.
        model = row.model if self.seats == 1 else one(1)
        return row, replace(row, model=model, actions=self.actions[1])

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


def read_policy(
    outputs: Array, count: int, most: int, states: int | None, reading: Reading
) -> Array:
    """Outputs read as policies of a seat with `count` actions, where a seat has `most` at most.

    A player with fewer actions than the other has probability zero on those it lacks.

    >>> import jax.numpy as jnp
    >>> read_policy(jnp.zeros(2), 1, 2, None, "softmax").tolist()
    [1.0, 0.0]
    """
    shape = (most,) if states is None else (states, most)
    logits = outputs.reshape(*outputs.shape[:-1], *shape)
    own = jnp.arange(most) < count
    if reading == "linear":
        # Policies up to rounding in hand-built networks; training may leave the simplex.
        mass = jnp.where(own, jnp.maximum(logits, 0.0), 0.0)
        return mass / jnp.maximum(mass.sum(-1, keepdims=True), 1e-9)
    wide = logits.astype(jnp.promote_types(logits.dtype, jnp.float32))
    return jax.nn.softmax(jnp.where(own, wide, -jnp.inf), -1)


def initial_players(family: Family, config: Config, *, key: Any) -> Players:
    """Players before training: random weights, uniform policies.

    **Example**

    >>> import equipoise as eq
    >>> family = eq.games.families.uniform(actions=3)
    >>> tiny = eq.incontext.Config(rounds=8, layers=1, width=8, hidden=8, seeds=2)
    >>> eq.incontext.initial_players(family, tiny, key=0).parameters  # of one model
    571
    """
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
