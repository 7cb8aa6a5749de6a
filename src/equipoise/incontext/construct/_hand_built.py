"""A hand-built transformer with what it stands for: sizes, norm, and its error as a learner."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from equipoise.core.precision import double_precision, single_precision
from equipoise.dynamics import OMD, Bandit, History, MarkovBandit, MarkovOMD, Spec, rollout
from equipoise.games import MarkovGame, MatrixGame
from equipoise.incontext._model import MLP, Attention, Transformer
from equipoise.incontext._players import Players
from equipoise.incontext.construct._blocks import Layout
from equipoise.incontext.construct._reciprocal import Reciprocal
from equipoise.incontext.construct._tokens import PositionTokens

#: Sequences that a learner follows at once, at least.
LEAST = 16


@dataclass(frozen=True)
class Size:
    """How large a transformer is.

    **Example**

    >>> import equipoise as eq
    >>> size = eq.incontext.construct.omd(actions=3, rounds=200).size
    >>> size.layers, size.heads, size.blocks
    (27, 5, 200)
    """

    #: Of the residual stream: d; and how many of its coordinates are used.
    width: int
    coordinates: int
    #: Of one block; the network has `blocks` of them, with the same weights.
    layers: int
    blocks: int
    #: The most heads of a layer: M; and the most hidden units of an MLP: d'.
    heads: int
    hidden: int
    #: Weights of a block, of the embedding and of the read-out; most are zero.
    parameters: int
    nonzero: int


@dataclass(frozen=True)
class HandBuilt:
    """A transformer whose weights are written down, and the learner it plays.

    **Example**

    >>> import equipoise as eq
    >>> tf = eq.incontext.construct.omd(actions=2, rounds=10, reciprocal_units=2)
    >>> games = eq.games.families.uniform(actions=2).sample(3, key=0)
    >>> tf.errors(games, key=1).shape, len(tf.purposes) == tf.size.layers
    ((3, 2, 11), True)
    """

    model: Transformer
    tokens: PositionTokens
    learner: OMD | MarkovOMD
    layout: Layout
    #: What each layer of a block does.
    purposes: tuple[str, ...]
    reciprocal: Reciprocal
    #: Of Markov games.
    discount: float = 0.0
    #: Whether it says the policy of the current state only, in a Markov game.
    current: bool = False

    @cached_property
    def size(self) -> Size:
        """Width, layers, heads, and how many weights."""
        layers = self.model.layers
        leaves = [
            np.asarray(leaf) for leaf in jax.tree.leaves(eqx.filter(self.model, eqx.is_array))
        ]
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
        from equipoise.incontext import theory

        return theory.norm(self.model)

    @property
    def double(self) -> bool:
        """Whether the weights are in double precision."""
        return self.model.embed.dtype == np.float64

    @property
    def players(self) -> Players:
        """Both seats, for `equipoise.incontext.play`; in single precision, as play is."""
        if self.current:
            raise ValueError("answer: expected 'all' for players, found 'current'")
        models = jax.tree.map(
            lambda leaf: (
                jnp.asarray(np.asarray(leaf, np.float32))[None, None]
                if eqx.is_array(leaf)
                else leaf
            ),
            self.model,
        )
        actions, states = self.tokens.actions, self.tokens.states
        return Players(models, self.tokens, (actions, actions), states, "linear")

    def with_model(self, model: Transformer) -> "HandBuilt":
        """The same network with other weights: fine-tuned ones, say."""
        return replace(self, model=model)

    def error(self, games: MatrixGame | MarkovGame, key: Any) -> float:
        """The largest distance `|x_network - x_learner|` over games, seats and all tokens.

        The learners play; the network reads what each of them saw, as one sequence, and is
        compared after every round, the policy before the first and after the last included.
        """
        return float(self.errors(games, key).max())

    def errors(self, games: MatrixGame | MarkovGame, key: Any) -> np.ndarray:
        """The Euclidean distances one by one: (games, seats, tokens); over states, the largest."""
        self._check(games)
        rounds, learner = self.tokens.rounds, self.learner
        history = rollout(games, learner, learner, rounds=rounds, key=key, double=True)
        built, learned = self.answer(history), self.follow(history)
        if self.current:
            states = np.asarray(history.states).reshape(-1, 1, rounds + 1, 1, 1)
            learned = np.take_along_axis(learned, states, axis=3)
        distance = np.linalg.norm(built - learned, axis=-1)
        return distance if self.tokens.states is None else distance.max(-1)

    def answer(self, history: History) -> np.ndarray:
        """What the network says to each seat's view: (games, seats, tokens, [states,] actions)."""
        with double_precision() if self.double else single_precision():
            answers = np.asarray(_answer(self.model, self.tokens, views(history)), float)
        states = () if self.tokens.states is None else (-1,)
        shape = (len(answers) // 2, 2, answers.shape[1], *states, self.tokens.actions)
        return answers.reshape(shape)

    def follow(self, history: History) -> np.ndarray:
        """What the learner says to the same, in double precision."""
        spec = Spec(self.tokens.actions, self.tokens.states, self.discount)
        with double_precision():
            seen = views(history)
            count = len(seen.actions)
            # Padded as the loop of `dynamics` pads: XLA compiles smaller batches wrongly.
            index = np.minimum(np.arange(max(count, LEAST)), count - 1)
            seen = jax.tree.map(lambda leaf: leaf[index], seen)
            policies = np.asarray(_follow(self.learner, spec, seen))[:count]
        return policies.reshape(len(policies) // 2, 2, *policies.shape[1:])

    def _check(self, games: MatrixGame | MarkovGame) -> None:
        expected = ((self.tokens.actions,) * 2, self.tokens.states)
        found = (games.actions, getattr(games, "states", None))
        if found != expected:
            raise ValueError(
                f"games: expected {expected[0]} actions and states {expected[1]}, "
                f"found {found[0]} and {found[1]}"
            )
        if isinstance(games, MarkovGame) and games.discount != self.discount:
            raise ValueError(
                f"games: expected the discount {self.discount}, found {games.discount}"
            )


class View(eqx.Module):
    """What one seat saw: arrays of (sequences, rounds), and states with one more."""

    actions: jax.Array
    rewards: jax.Array
    states: jax.Array | None


def views(history: History) -> View:
    """Both seats' views of every game, one sequence each: game 0 row, game 0 column, ..."""
    rounds = history.rewards.shape[-1]
    rewards = np.stack([history.rewards, 1.0 - history.rewards], -2).reshape(-1, rounds)
    actions = np.moveaxis(history.actions, -1, -2).reshape(-1, rounds)
    if history.states is None:
        return View(jnp.asarray(actions), jnp.asarray(rewards), None)
    states = np.repeat(history.states.reshape(-1, rounds + 1), 2, 0)
    return View(jnp.asarray(actions), jnp.asarray(rewards), jnp.asarray(states))


@eqx.filter_jit
def _answer(model: Transformer, tokens: PositionTokens, seen: View) -> jax.Array:
    def write(t: Any, action: Any, reward: Any, state: Any, after: Any) -> jax.Array:
        return tokens.round(t, action, reward, state, after)[0]

    def one(seen: View) -> jax.Array:
        t = jnp.arange(1, len(seen.actions) + 1)
        places = () if seen.states is None else (seen.states[:-1], seen.states[1:])
        first = tokens.opening(None if seen.states is None else seen.states[0])
        axes = (0, 0, 0) + ((0, 0) if places else (None, None))
        rest = jax.vmap(write, axes)(t, seen.actions, seen.rewards, *(places or (None, None)))
        return model(jnp.concatenate([first, rest]))

    return jax.lax.map(one, seen)  # one at a time: what they need at once stays in the cache


@eqx.filter_jit
def _follow(learner: OMD | MarkovOMD, spec: Spec, seen: View) -> jax.Array:
    """Policies (sequences, tokens, ...); sequences are innermost, as learners want batches."""
    rounds, places = seen.actions.shape[1], ()
    if seen.states is not None:
        places = (seen.states[:, :-1].T, seen.states[:, 1:].T)

    def body(state: Any, event: Any) -> tuple[Any, Any]:
        t, action, reward, *around = event
        feedback: Any = Bandit(t, action, reward)
        if around:
            feedback = MarkovBandit(t, around[0], action, reward, around[1])
        state = learner.update(state, feedback)
        return state, learner.policy(state)

    first = jax.tree.map(
        lambda leaf: jnp.broadcast_to(leaf[..., None], (*leaf.shape, len(seen.actions))),
        learner.init(spec),
    )
    events = (jnp.arange(1, rounds + 1), seen.actions.T, seen.rewards.T, *places)
    _, rest = jax.lax.scan(body, first, events)
    return jnp.moveaxis(jnp.concatenate([learner.policy(first)[None], rest]), -1, 0)
