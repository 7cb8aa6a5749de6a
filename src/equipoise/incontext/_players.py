"""Frozen transformers as learners (`Player`), the pairs that are trained (`Players`), and play."""

from dataclasses import replace
from typing import Any, Literal, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from equipoise.core import InputError, checks
from equipoise.core.randomness import as_key
from equipoise.dynamics import (
    Bandit,
    ContextLearner,
    JointBandit,
    JointMarkovBandit,
    MarkovBandit,
    Pair,
    Spec,
)
from equipoise.games.families import Family
from equipoise.incontext._adaptive import AdaptiveTokens, Book
from equipoise.incontext._config import Config, check_config, check_weights
from equipoise.incontext._markov_tokens import MarkovBook, MarkovTokens
from equipoise.incontext._model import Transformer, lower_precision, random_transformer
from equipoise.incontext._sizes import AnySize, check_games, check_shape, check_size, shape
from equipoise.incontext._tokens import PlainTokens, RoundTokens, VocabularyTokens

Reading = Literal["softmax", "linear"]
Precision = Literal["auto", "float32", "bfloat16"]
SEATS = ("row", "column")


def pick(tree: Any, index: Any) -> Any:
    """Index the first axis of every array in a tree.

    >>> pick({"weights": np.array([2.0, 4.0])}, 1)
    {'weights': np.float64(4.0)}
    """
    return jax.tree.map(lambda leaf: leaf[index], tree)


class PlayerState(eqx.Module):
    """Memory of a transformer in one game: its cache and its latest outputs."""

    cache: Any
    outputs: Float[Array, " outputs"]
    #: Statistics from which adaptive tokens are written. None for other tokens.
    book: Book | MarkovBook | None = None


class Player(ContextLearner):
    """A frozen transformer in one seat: a learner whose state is the context it has read.

    `Players.learners` makes them; `model`, `tokens`, `states` and `reading` are those of `Players`.

    **Example**

    >>> import equipoise as eq
    >>> player, _ = eq.incontext.load("iid3").learners()
    >>> state = player.init(eq.dynamics.Spec(actions=3, rounds=1))
    >>> state = player.update(state, eq.dynamics.Bandit(round=1, action=2, reward=1.0))
    >>> bool(player.policy(state)[2] > 1 / 3)
    True
    """

    model: Transformer
    tokens: PlainTokens | AnySize
    exploration: Any
    #: Number of actions of this seat.
    actions: int = eqx.field(static=True)
    states: int | None = eqx.field(static=True, default=None)
    reading: Reading = eqx.field(static=True, default="softmax")
    fading: bool = eqx.field(static=True, default=True)
    #: Last round that can be played. None means as many rounds as the cache has room for.
    reach: int | None = eqx.field(static=True, default=None)
    #: Whether the player sees the opponent's actions. Requires adaptive tokens.
    watching: bool = eqx.field(static=True, default=False)

    @property
    def sees(self) -> type:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Feedback type: own actions and rewards, states in Markov games, others if watching."""
        matrix, markov = (Bandit, JointBandit), (MarkovBandit, JointMarkovBandit)
        return (matrix if self.states is None else markov)[self.watching]

    @property
    def any_unit(self) -> bool:
        """Whether the player takes rewards in any unit and must be told its number of actions."""
        return isinstance(self.tokens, AnySize)

    def init(self, spec: Spec) -> PlayerState:
        """Return the state after reading the opening tokens."""
        if isinstance(self.tokens, AnySize):
            check_shape(self.tokens, (spec.actions,), spec.states, "games")
            book = self.tokens.begin(spec.actions, spec.states, spec.start, spec.discount)
            return self.begin(
                eqx.tree_at(lambda b: b.shown, book, jnp.asarray(self.watching)), spec.rounds
            )
        if (spec.actions, spec.states) != (self.actions, self.states):
            raise ValueError(
                f"games: expected {self.actions} actions and {self.states or 'no'} states for this "
                f"player, found {spec.actions} and {spec.states or 'no'}"
            )
        cache = self.model.cache(self.tokens.length(spec.rounds))
        opening = self.tokens.opening(None if self.states is None else jnp.int32(spec.start))
        empty = PlayerState(cache, jnp.zeros(self.model.readout.shape[0]))
        return self._read(empty, opening, 0, opening.shape[0])

    def begin(self, book: Any, rounds: int) -> PlayerState:
        """Return the state before the first round for adaptive tokens, with room for `rounds`."""
        if not isinstance(self.tokens, AnySize):
            raise InputError("book", "a player with adaptive tokens", type(self.tokens).__name__)
        cache = self.model.cache(self.tokens.length(rounds))
        empty = PlayerState(cache, jnp.zeros(self.model.readout.shape[0]), book)
        return self._read(empty, self.tokens.opening(None, book), 0, 1)

    def policy(self, state: PlayerState) -> Array:
        """Return the policy in the latest outputs; in Markov games, the policies at all states."""
        tokens = self.tokens
        if isinstance(tokens, AnySize):
            book: Any = _kept(state)
            return tokens.read(state.outputs, tokens.slots(book), book.seen, book.count)
        most = tokens.actions
        policy = read_policy(state.outputs, self.actions, most, self.states, self.reading)
        return policy[..., : self.actions]

    def update(self, state: PlayerState, feedback: Any) -> PlayerState:
        """Return the state after reading the tokens of a round; feedback has the type `sees`."""
        t, places = feedback.round, (None, None)
        if self.states is not None:
            places = (feedback.state, feedback.next_state)
        if isinstance(self.tokens, AnySize):
            held, book = self.policy(state), _kept(state)
            if self.states is not None:
                held = held[places[0]]
            happened = (feedback.action, feedback.reward, held, getattr(feedback, "other", None))
            tokens, book = self.tokens.note(book, t, *happened, *places)
            state = PlayerState(state.cache, state.outputs, book)
        else:
            tokens = self.tokens.round(t, feedback.action, feedback.reward, *places)
        before = self.tokens.length(0) + self.tokens.per_round * (t - 1)
        reach = None if self.reach is None else self.tokens.length(self.reach)
        return self._read(state, tokens, before, reach)

    def _read(self, state: PlayerState, tokens: Array, first: Any, reach: Any) -> PlayerState:
        cache, outputs = state.cache, state.outputs
        for i in range(tokens.shape[0]):
            outputs, cache = self.model.step(tokens[i], cache, first + i, reach)
        return PlayerState(cache, outputs.astype(state.outputs.dtype), state.book)

    def fitted(self, actions: int, states: int | None = None) -> "Player":
        """Return this player for games of another size, if it has adaptive tokens."""
        if not isinstance(self.tokens, AnySize):
            return self
        return replace(self, actions=actions, states=self.states if states is None else states)

    def within(self, rounds: int) -> "Player":
        """Return this player with attention limited to the first `rounds` rounds of the cache."""
        return replace(self, reach=rounds)

    def grow(self, state: PlayerState, rounds: int) -> PlayerState:
        """Return the state with room for `rounds` rounds; time is the last but one cache axis."""
        length = self.tokens.length(rounds)

        def longer(array: Array) -> Array:
            more = (0, max(0, length - array.shape[-2]))
            return jnp.pad(array, [(0, 0)] * (array.ndim - 2) + [more, (0, 0)])

        return PlayerState(jax.tree.map(longer, state.cache), state.outputs, state.book)


class Players(Pair):
    """A row player and a column player for games of one shape.

    Arrays of `models` have two leading axes: seeds of a training run, and seats (1 if one model has
    both). `players[i]` is one seed. `tokens` encodes rounds; `states` is None for matrix games.

    **Example**

    >>> import equipoise as eq
    >>> config = eq.incontext.Config(rounds=8, layers=1, width=8, hidden=8, seeds=2)
    >>> family = eq.games.families.uniform(actions=3)
    >>> players = eq.incontext.initial_players(family, config, key=0)
    >>> players.seeds, players.seats, players[1].seeds
    (2, 1, 1)
    >>> players[1]
    Players(3 x 3 actions, 475 weights, seeds=1, seats=1, tokens='round')
    """

    models: Transformer
    tokens: PlainTokens | AnySize
    #: Number of actions of the row player and of the column player.
    actions: tuple[int, int] = eqx.field(static=True)
    states: int | None = eqx.field(static=True, default=None)
    #: How outputs become a policy: softmax, or positive parts over their sum (hand-built networks).
    reading: Reading = eqx.field(static=True, default="softmax")
    #: Share of uniform play in the first rounds, which falls as t^-1/4 from round 16 on. It is
    #: mixed into the policies that are played, but not into those that are returned and certified.
    exploration: float = eqx.field(static=True, default=0.0)
    #: Most rounds of a game, as players of a file were trained for; None if nothing is known.
    rounds: int | None = eqx.field(static=True, default=None)

    @property
    def seeds(self) -> int:
        """Number of independent pairs."""
        return self.models.embed.shape[0]

    @property
    def seats(self) -> int:
        """Number of models per pair: 1 if one model plays both seats, otherwise 2."""
        return self.models.embed.shape[1]

    @property
    def parameters(self) -> int:
        """Number of weights of one model."""
        return self.models.parameters // (self.seeds * self.seats)

    @property
    def any_size(self) -> bool:
        """Whether these players play games of every size up to theirs, in any unit of rewards."""
        return isinstance(self.tokens, AnySize)

    def learners(
        self,
        *,
        exploration: float | None = None,
        precision: Precision = "auto",
        watching: bool = False,
    ) -> tuple[Player, Player]:
        """Return the row player and the column player of one pair, as learners.

        **Arguments**

        - `exploration`: share of uniform play in the first rounds. Default: as in training.
        - `precision`: floating-point format of matrix products. "auto" is float32 on a CPU and
          bfloat16 on an accelerator.
        - `watching`: whether the players see the opponent's actions. Only for players of any size.
        """
        check_one_pair(self)
        if watching and not self.any_size:
            raise InputError("watching", "False for players that were not trained for it", True)
        if exploration is not None:
            checks.check_range("exploration", exploration, 0.0, 1.0)
        if precision not in get_args(Precision):
            raise InputError(
                "precision", f"one of {', '.join(get_args(Precision))}", repr(precision)
            )
        low = precision == "bfloat16"
        low = low or (precision == "auto" and jax.default_backend() != "cpu")
        models = pick(self.models, 0)
        share = np.float32(self.exploration if exploration is None else exploration)
        models = lower_precision(models) if low else models
        return self.seated(models, jnp.asarray(share), watching=watching)

    def seated(
        self,
        models: Transformer,
        exploration: Any,
        *,
        fading: bool = True,
        watching: bool = False,
    ) -> tuple[Player, Player]:
        """Return players with these models, whose arrays have a leading axis of seats."""

        row = Player(
            model=pick(models, 0),
            tokens=self.tokens,
            exploration=exploration,
            actions=self.actions[0],
            states=self.states,
            reading=self.reading,
            fading=fading,
            watching=watching,
        )
        # Seats that share a model hold the same arrays; `dynamics` recognises sharing by that.
        model = row.model if self.seats == 1 else pick(models, 1)
        return row, replace(row, model=model, actions=self.actions[1])

    def __getitem__(self, seed: int) -> "Players":
        index = range(self.seeds)[seed]
        return self.with_models(pick(self.models, slice(index, index + 1)))

    def with_models(self, models: Transformer) -> "Players":
        """Return these players with other weights."""
        return eqx.tree_at(lambda players: players.models, self, models)

    def __len__(self) -> int:
        return self.seeds

    def __repr__(self) -> str:
        """Describe the players in one line, without their weights."""
        if not hasattr(self.models.embed, "shape"):  # JAX transformations remove the weights
            return f"Players({shape(self.actions, self.states)})"
        names = {RoundTokens: "round", VocabularyTokens: "vocabulary"}
        names |= {AdaptiveTokens: "adaptive", MarkovTokens: "adaptive"}
        tokens = names.get(type(self.tokens), type(self.tokens).__name__)
        return (
            f"Players({shape(self.actions, self.states)}, {self.parameters:,} weights, "
            f"seeds={self.seeds}, seats={self.seats}, tokens={tokens!r})"
        )


def _kept(state: PlayerState) -> Any:
    if state.book is None:
        raise InputError("state", "a state of this player", "one without a book")
    return state.book


def read_policy(
    outputs: Array, count: int, most: int, states: int | None, reading: Reading
) -> Array:
    """Convert outputs to policies of a seat with `count` actions, padded to `most` actions.

    The player with fewer actions has probability zero on the actions it lacks.

    >>> import jax.numpy as jnp
    >>> read_policy(jnp.zeros(2), 1, 2, None, "softmax").tolist()
    [1.0, 0.0]
    """
    shape = (most,) if states is None else (states, most)
    logits = outputs.reshape(*outputs.shape[:-1], *shape)
    own = jnp.arange(most) < count
    if reading == "linear":
        # Outputs of hand-built networks are policies up to rounding, but training may change that.
        mass = jnp.where(own, jnp.maximum(logits, 0.0), 0.0)
        return mass / jnp.maximum(mass.sum(-1, keepdims=True), 1e-9)
    wide = logits.astype(jnp.promote_types(logits.dtype, jnp.float32))
    return jax.nn.softmax(jnp.where(own, wide, -jnp.inf), -1)


def initial_players(family: Family, config: Config, *, key: Any) -> Players:
    """Return untrained players with random weights and uniform policies.

    **Example**

    >>> import equipoise as eq
    >>> family = eq.games.families.uniform(actions=3)
    >>> tiny = eq.incontext.Config(rounds=8, layers=1, width=8, hidden=8, seeds=2)
    >>> eq.incontext.initial_players(family, tiny, key=0).parameters  # of one model
    475
    """
    if not isinstance(family, Family):
        raise InputError("family", "a Family of games", type(family).__name__)
    config = check_config(config, Config)
    check_weights(config)
    shared = family.symmetric if config.shared is None else config.shared
    if shared and not family.symmetric:
        raise ValueError(
            "shared: expected a symmetric family (swapping the players maps it to itself), "
            f"found {family.name!r} with {family.actions} actions; use shared=False"
        )
    most = max(family.actions)
    # The held-out games, a batch of games, and the memory needed to draw them.
    sizes = (8, 3, max(config.held_out, config.batch), *family.actions, (family.states or 1) ** 2)
    checks.check_memory("actions", sizes, "the games", "use fewer actions, states or games")
    tokens: PlainTokens | AnySize = RoundTokens(most, family.states)
    outputs = most * (family.states or 1)
    if config.tokens == "vocabulary":
        tokens = VocabularyTokens(most, family.states, config.reward_bins)
    elif config.tokens == "adaptive":
        if not shared:
            raise InputError("tokens", "a symmetric family for adaptive tokens", family.name)
        states = family.states
        tokens = AdaptiveTokens(most) if states is None else MarkovTokens(most, states)
        outputs = tokens.outputs

    def one(key: jax.Array) -> Transformer:
        return random_transformer(
            key,
            features=tokens.features,
            outputs=outputs,
            groups=config.head_groups,
            weighing=config.attention,
            layer_norm=config.layer_norm,
            **{name: getattr(config, name) for name in ("layers", "heads", "width", "hidden")},
        )

    keys = jax.random.split(as_key(key), (config.seeds, 1 if shared else 2))
    models = eqx.filter_vmap(eqx.filter_vmap(one))(keys)
    # Players trained only on the play of others have not learned to make use of exploration.
    exploration = 0.0 if config.contexts == "learners" else config.exploration
    return Players(models, tokens, family.actions, family.states, exploration=exploration)


def check_one_pair(players: Any) -> None:
    """Raise unless `players` is one pair of players."""
    if not isinstance(players, Players):
        hint = "load them with equipoise.incontext.load(name)"
        raise InputError("players", "Players", type(players).__name__, hint)
    if players.seeds != 1:
        raise InputError("players", "one pair", f"{players.seeds} seeds", "choose players[i]")


def check_players(players: Any, games: Any) -> None:
    """Raise unless the players can play these games."""
    check_one_pair(players)
    check_games(games)
    check_size(players, games.actions, getattr(games, "states", None))
    checks.check_count("games", int(np.prod(games.batch_shape, dtype=int)))
