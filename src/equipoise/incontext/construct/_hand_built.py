"""Hand-built transformers: their size, norm and error against the learner, and fine-tuning."""

from dataclasses import dataclass, replace
from functools import cached_property
from math import isqrt
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.special import softmax

from equipoise.core import InputError, checks
from equipoise.core.errors import named_arguments
from equipoise.core.precision import double_precision, single_precision
from equipoise.core.randomness import as_key
from equipoise.dynamics import OMD, History, MarkovOMD, Spec, play
from equipoise.games import MarkovGame, MatrixGame
from equipoise.games.families import Family
from equipoise.incontext import theory
from equipoise.incontext._config import Config
from equipoise.incontext._contexts import Context, compiled_follow, take, visited, write
from equipoise.incontext._model import MLP, Attention, Transformer
from equipoise.incontext._players import Players, pick
from equipoise.incontext._step import Trainer, run_cycle
from equipoise.incontext._tokens import PlainTokens
from equipoise.incontext.construct._arithmetic import Logarithm, Reciprocal
from equipoise.incontext.construct._blocks import Layout


class PositionTokens(PlainTokens):
    """One token per round: action, reward, states in Markov games, and the round number.

    All features except the reward are one-hot, so that everything a network needs to know about
    round `t` (its step size, its number in binary) is a column of the embedding matrix. `rounds` is
    the last round that can be encoded.

    **Example**

    >>> import jax.numpy as jnp
    >>> tokens = PositionTokens(actions=2, rounds=3)
    >>> tokens.round(2, jnp.int32(1), 0.25, None, None).tolist()
    [[0.0, 1.0, 0.25, 0.0, 0.0, 1.0, 0.0]]
    """

    actions: int = eqx.field(static=True)
    rounds: int = eqx.field(static=True)
    #: Number of states of a Markov game; None for matrix games.
    states: int | None = eqx.field(static=True, default=None)

    @property
    def features(self) -> int:
        """Length of the vector of a token."""
        return self.actions + 1 + 2 * (self.states or 0) + self.rounds + 1

    @property
    def per_round(self) -> int:
        """One."""
        return 1

    def opening(self, state: Any) -> Float[Array, "1 features"]:
        """Return the token of round zero, with the first state in Markov games."""
        nothing = jnp.zeros(self.actions + 1 + (self.states or 0))
        return self._write(nothing, state, 0)

    def round(
        self, t: Any, action: Any, reward: Any, state: Any, next_state: Any
    ) -> Float[Array, "1 features"]:
        """Return the token of round `t`; the network must compute the policy played by itself."""
        played = jax.nn.one_hot(action, self.actions)
        parts = [played, jnp.asarray(reward, played.dtype)[None]]
        if self.states is not None:
            parts.append(jax.nn.one_hot(state, self.states))
        return self._write(jnp.concatenate(parts), next_state, t)

    def _write(self, happened: Array, next_state: Any, t: Any) -> Array:
        after = [] if self.states is None else [jax.nn.one_hot(next_state, self.states)]
        position = jax.nn.one_hot(t, self.rounds + 1)
        return jnp.concatenate([happened, *after, position])[None]


@dataclass(frozen=True)
class Size:
    """The size of a transformer.

    **Example**

    >>> import equipoise as eq
    >>> size = eq.incontext.construct.omd(actions=3, rounds=200).size
    >>> size.layers, size.heads, size.blocks
    (27, 5, 200)
    """

    #: Width d of the residual stream.
    width: int
    #: Number of coordinates of the residual stream that are used.
    coordinates: int
    #: Number of layers of one block.
    layers: int
    #: Number of blocks. All blocks have the same weights.
    blocks: int
    #: Largest number M of heads in a layer.
    heads: int
    #: Largest number d' of hidden units in an MLP.
    hidden: int
    #: Number of weights of a block, of the embedding and of the read-out.
    parameters: int
    #: Number of these weights that are not zero.
    nonzero: int


@dataclass(frozen=True)
class HandBuilt:
    """A transformer with hand-written weights, and the learner that it implements.

    **Example**

    >>> import equipoise as eq
    >>> tf = eq.incontext.construct.omd(actions=2, rounds=10, reciprocal_units=2)
    >>> games = eq.games.families.uniform(actions=2).sample(3, key=0)
    >>> tf.errors(games, key=1).shape, len(tf.purposes) == tf.size.layers
    ((3, 2, 11), True)
    """

    #: The transformer.
    model: Transformer
    #: How rounds are encoded.
    tokens: PositionTokens
    #: The learner that it implements.
    learner: OMD | MarkovOMD
    #: Which coordinate of the residual stream has which content.
    layout: Layout
    #: Description of each layer of a block.
    purposes: tuple[str, ...]
    #: Approximation of `1 / z` that the network uses.
    reciprocal: Reciprocal
    #: Discount factor of Markov games.
    discount: float = 0.0
    #: Whether the network only outputs the policy of the current state, in a Markov game.
    current: bool = False
    #: Approximation of `log x` that a softmax reads; None if policies are read linearly.
    logarithm: Logarithm | None = None

    @cached_property
    def size(self) -> Size:
        """Width, number of layers, heads and weights of the network."""
        layers = self.model.layers
        leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(self.model)]
        return Size(
            width=self.layout.width,
            coordinates=self.layout.used,
            layers=len(layers),
            blocks=self.model.repeats,
            heads=max(len(layer.query) for layer in layers if isinstance(layer, Attention)),
            hidden=max(len(layer.first) for layer in layers if isinstance(layer, MLP)),
            parameters=sum(leaf.size for leaf in leaves),
            nonzero=sum(int(np.count_nonzero(leaf)) for leaf in leaves),
        )

    @cached_property
    def norm(self) -> float:
        """The norm of Appendix F; see `equipoise.incontext.theory.norm`."""
        return theory.norm(self.model)

    @property
    def players(self) -> Players:
        """Players for both seats, for `equipoise.incontext.play`, in single precision."""
        if self.current:
            raise ValueError("answer: expected 'all' for players, found 'current'")
        self.check_single_precision()
        single = jax.tree.map(lambda leaf: np.asarray(leaf, np.float32), self.model)
        models = jax.tree.map(lambda leaf: jnp.asarray(leaf)[None, None], single)
        actions, states = self.tokens.actions, self.tokens.states
        reading = "linear" if self.logarithm is None else "softmax"
        return Players(models, self.tokens, (actions, actions), states, reading)

    def check_single_precision(self) -> None:
        """Raise if single precision cannot tell the integers apart by which tokens are found."""
        if self.tokens.states is not None or "t^2" not in self.layout.sizes:
            return
        # Scores are sums of integers up to 2 T^2, all multiplied by the root of the width. A power
        # of two in the root costs no digits.
        root = isqrt(self.layout.width)
        largest = isqrt(2**23 // (root // (root & -root)))
        if self.tokens.rounds > largest:
            expected = f"at most {largest} with positions 'integers' in single precision"
            raise InputError("rounds", expected, self.tokens.rounds, "use positions='binary'")

    def error(
        self,
        games: MatrixGame | MarkovGame,
        key: Any,
        *,
        reward_range: tuple[float, float] = (0.0, 1.0),
    ) -> float:
        """Return the largest distance `|x_network - x_learner|` over games, seats and all tokens.

        Two learners play. The network reads what each of them saw as one sequence, and its policy
        is compared with the learner's before the first round and after every round. Rewards are
        first scaled from `reward_range` to [0, 1].
        """
        return float(self.errors(games, key, reward_range=reward_range).max())

    def errors(
        self,
        games: MatrixGame | MarkovGame,
        key: Any,
        *,
        reward_range: tuple[float, float] = (0.0, 1.0),
    ) -> np.ndarray:
        """Return the Euclidean distances, (games, seats, tokens); the largest over states."""
        self.check_shape("games", games)
        if isinstance(games, MarkovGame) and games.discount != self.discount:
            raise InputError("games", f"the discount {self.discount}", games.discount)
        rounds, learner = self.tokens.rounds, self.learner
        options: Any = {"reward_range": reward_range, "double": True, "history": True}
        history = play(games, learner, learner, rounds=rounds, key=key, **options).history
        assert history is not None
        built, learned = self.answer(history), self._learned(history)
        distance = np.linalg.norm(built - learned, axis=-1)
        return distance if self.tokens.states is None else distance.max(-1)

    def answer(self, history: History) -> np.ndarray:
        """Return the network's policies, (games, seats, tokens, [states,] actions)."""
        double = self.model.embed.dtype == np.float64
        with double_precision() if double else single_precision():
            context = Context.of_history(history)
            answers = np.asarray(_answer(self.model, self.tokens, context), float)
        states = () if self.tokens.states is None else (-1,)
        answers = answers.reshape(*answers.shape[:3], *states, self.tokens.actions)
        return answers if self.logarithm is None else softmax(answers, axis=-1)

    def _learned(self, history: History) -> np.ndarray:
        """Return the learner's policies for the same histories, in double precision."""
        with double_precision():
            context = Context.of_history(history)
            spec = Spec(self.tokens.actions, self.tokens.states, self.discount)
            policies = np.asarray(compiled_follow(self.learner, context, (spec, spec)))
            if self.current:
                policies = visited(policies, np.asarray(context.states))[..., None, :]
        return np.swapaxes(policies, 0, 1)

    def check_shape(self, name: str, games: MatrixGame | MarkovGame | Family) -> None:
        """Raise unless the network was built for games of this shape."""
        expected = ((self.tokens.actions,) * 2, self.tokens.states)
        found = (games.actions, getattr(games, "states", None))
        if found != expected:
            one, other = ("{} actions and states {}".format(*each) for each in (expected, found))
            raise InputError(name, one, other)


@eqx.filter_jit
def _answer(model: Transformer, tokens: PositionTokens, context: Context) -> jax.Array:
    """(games, seats, tokens, outputs), computed one sequence at a time to fit the cache."""

    def game(index: jax.Array) -> jax.Array:
        return jax.lax.map(model, write(tokens, take(context, index[None]))[:, 0])

    return jax.lax.map(game, jnp.arange(context.actions.shape[1]))


@named_arguments
def fine_tune(
    built: HandBuilt,
    family: Family,
    *,
    steps: int,
    key: Any,
    batch: int = 32,
    learning_rate: float = 1e-3,
    exploration: float = 0.2,
    weights: Literal["nonzero", "all"] = "nonzero",
    micro_batch: int = 8,
) -> HandBuilt:
    """Train hand-built weights on the duality gap of the policies that they play.

    Each step is a step of `pretrain`: it plays `batch` new games of the family with the current
    weights, each game with a share of uniform play below `exploration`, and follows the gradient
    of the mean gap over all rounds, through every block, for `micro_batch` games at a time.
    With `weights="nonzero"`, zero weights stay zero and the constants are tuned, including step
    sizes and positions. With "all", zero weights change as well. The result is in single precision
    and no longer implements the original learner; `error` measures the difference.

    **Example**

    >>> import numpy as np
    >>> import equipoise as eq
    >>> family = eq.games.families.uniform(actions=2)
    >>> built = eq.incontext.construct.omd(actions=2, rounds=4, reciprocal_units=2)
    >>> tuned = eq.incontext.construct.fine_tune(
    ...     built, family, steps=10, batch=16, learning_rate=0.01, key=0
    ... )
    >>> moved = np.asarray(tuned.model.embed) - np.asarray(built.model.embed)
    >>> bool(0 < abs(moved).max() < 0.1)
    True
    """
    micro_batch = checks.check_count("micro_batch", micro_batch)
    config = Config(
        rounds=built.tokens.rounds,
        exploration=exploration,
        steps=steps,
        batch=batch,
        play_ahead=1,
        micro_batch=2 * micro_batch,  # counted in sequences, two per game
        optimiser="adam",  # it does not change weights without a gradient
        learning_rate=learning_rate,
        warmup=0,
        precision="float32",
    )
    if weights not in ("nonzero", "all"):
        raise InputError("weights", "'nonzero' or 'all'", repr(weights))
    built.check_shape("family", family)
    with single_precision():
        players, key = replace(built.players, exploration=exploration), as_key(key)
        mask = None
        if weights == "nonzero":  # one for weights that may change
            mask = jax.tree.map(lambda leaf: (leaf[0] != 0).astype(leaf.dtype), players.models)
        trainer = Trainer(players, family, None, config, jax.default_backend(), mask)
        learned = trainer.start()
        for step in range(steps):
            learned, _ = run_cycle(trainer, learned, jax.random.fold_in(key, step))
    return replace(built, model=pick(learned.models, (0, 0)))
