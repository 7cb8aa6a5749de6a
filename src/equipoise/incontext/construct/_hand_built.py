"""A hand-built transformer with what it stands for: sizes, norm, and its error as a learner."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from equipoise.core.precision import double_precision, single_precision
from equipoise.dynamics import OMD, History, MarkovOMD, rollout
from equipoise.games import MarkovGame, MatrixGame
from equipoise.incontext._model import MLP, Attention, Transformer, cast
from equipoise.incontext._players import Players
from equipoise.incontext.construct._blocks import Layout
from equipoise.incontext.construct._reciprocal import Reciprocal
from equipoise.incontext.construct._tokens import PositionTokens


@dataclass(frozen=True)
class Size:
    """How large a transformer is.

    **Example**

    >>> import equipoise as eq
    >>> size = eq.incontext.construct.omd(actions=3, rounds=200).size
    >>> size.layers, size.heads, size.blocks
    (30, 5, 200)
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
    >>> tf = eq.incontext.construct.omd(actions=2, rounds=10)
    >>> games = eq.games.families.uniform(actions=2).sample(3, key=0)
    >>> tf.errors(games, key=1).shape, tf.error(games, key=1) < 1e-12
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

    @cached_property
    def size(self) -> Size:
        """Width, layers, heads, and how many weights."""
        layers = self.model.layers
        leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(eqx.filter(self.model, eqx.is_array))]
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
        models = cast(self.model, np.float32) if self.double else self.model
        models = jax.tree.map(lambda leaf: leaf[None, None] if eqx.is_array(leaf) else leaf, models)
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
        history, learned = self._learn(games, key)
        built = self.outputs(history)
        distance = np.linalg.norm(built - learned.reshape(built.shape), axis=-1)
        return distance if self.tokens.states is None else distance.max(-1)

    def outputs(self, history: History) -> np.ndarray:
        """What the network answers to each seat's view: (games, seats, tokens, [states,] actions)."""
        with double_precision() if self.double else single_precision():
            views = _views(history)
            answers = _answer(self.model, self.tokens, *views)
        shape = (self.tokens.actions,) if self.tokens.states is None else (-1, self.tokens.actions)
        return np.asarray(answers, float).reshape(*answers.shape[:-1], *shape)

    def _learn(self, games: MatrixGame | MarkovGame, key: Any) -> tuple[History, np.ndarray]:
        """Play of the learners, and their policies at all tokens."""
        _check_games(self, games)
        flat = games if len(games.batch_shape) == 1 else games.reshape((-1,))
        history = rollout(flat, self.learner, self.learner, rounds=self.tokens.rounds, key=key, double=True)
        with double_precision():
            policies = _follow(self, *_views(history))
        return history, np.asarray(policies)
