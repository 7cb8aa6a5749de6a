"""One step of training: play some games, then learn from them; compiled as one program."""

from typing import Any, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array
from optax.contrib import MuonDimensionNumbers, muon

from equipoise.dynamics.loop import Tables, remember, seat
from equipoise.games.families import Family
from equipoise.incontext import _losses as losses
from equipoise.incontext._config import Config
from equipoise.incontext._contexts import (
    Context,
    as_tables,
    follow,
    join,
    learners_play,
    matrix_equilibria,
    sampled,
    take,
    training_learner,
)
from equipoise.incontext._model import Attention, Layer, Transformer, lower_precision
from equipoise.incontext._players import Players

#: Size of an entry of Muon's steps, in rates of learning: about that of Adam's.
MUON_STEP = 0.2
#: Muon's rate of learning, in those of Adam: its steps are bounded in every direction alike.
MUON_RATE = 5.0
#: Tokens of a micro-batch on a CPU: what they need should stay in its cache.
CPU_TOKENS = 2048


class TrainingSet(eqx.Module):
    """A finite set of games and their equilibria; the equilibria may be absent."""

    tables: Tables
    #: (2, games, ..., actions)
    equilibria: Array | None


class Learned(eqx.Module):
    """What training changes: weights and the optimiser's memory, for every seed."""

    models: Transformer
    optimiser: Any


class Trainer(eqx.Module):
    """Everything that stays the same during training."""

    players: Players
    family: Family
    games: TrainingSet | None
    config: Config = eqx.field(static=True)
    backend: str = eqx.field(static=True)
    #: One for weights that may change, zero for others, like the models of one seed; None: all may.
    mask: Any = None

    @property
    def optimiser(self) -> optax.GradientTransformation:
        """As the config says."""
        return make_optimiser(self.config)

    @property
    def low_precision(self) -> bool:
        """Whether matrices are multiplied in bfloat16."""
        auto = "float32" if self.backend == "cpu" else "bfloat16"
        return (auto if self.config.precision == "auto" else self.config.precision) == "bfloat16"

    def start(self) -> Learned:
        """Before the first step; with copies of the weights, since steps use theirs up."""
        models = jax.tree.map(lambda x: x.copy() if eqx.is_array(x) else x, self.players.models)
        weights = eqx.filter(models, eqx.is_inexact_array)
        return Learned(models, jax.vmap(self.optimiser.init)(weights))

    def cycle(self, learned: Learned, key: jax.Array) -> tuple[Learned, dict[str, Array]]:
        """Play once and make `play_ahead` updates, for every seed; metrics are (seeds, updates)."""
        keys = jax.vmap(lambda seed: jax.random.fold_in(key, seed))(jnp.arange(self.players.seeds))
        arrays, static = eqx.partition(learned, eqx.is_array)

        def one(arrays: Any, key: jax.Array) -> tuple[Any, Any]:
            after, metrics = self._cycle(eqx.combine(arrays, static), key)
            return eqx.filter(after, eqx.is_array), metrics

        if self.backend == "cpu":  # one after the other: products without a batch axis are faster
            after, metrics = jax.lax.map(lambda pair: one(*pair), (arrays, keys))
        else:
            after, metrics = jax.vmap(one)(arrays, keys)
        return eqx.combine(after, static), metrics

    def _cycle(self, learned: Learned, key: jax.Array) -> tuple[Learned, dict[str, Array]]:
        config = self.config
        tables, context, labels = self.data(learned.models, key)

        def update(learned: Learned, part: Any) -> tuple[Learned, dict[str, Array]]:
            tables, context, labels = part
            loss, metrics, gradient = self._gradient(learned.models, tables, context, labels)
            if self.mask is not None:
                gradient = jax.tree.map(jnp.multiply, gradient, self.mask)
            weights = eqx.filter(learned.models, eqx.is_inexact_array)
            change, memory = self.optimiser.update(gradient, learned.optimiser, weights)
            models = eqx.apply_updates(learned.models, change)
            return Learned(models, memory), {"loss": loss, **metrics}

        arrays, static = eqx.partition(learned, eqx.is_array)

        def body(arrays: Any, i: Any) -> tuple[Any, Any]:
            index = self.part(i)
            part = (tables.some(index), take(context, index), _pick(labels, index))
            after, metrics = update(eqx.combine(arrays, static), part)
            return eqx.filter(after, eqx.is_array), metrics

        arrays, metrics = jax.lax.scan(body, arrays, jnp.arange(config.play_ahead))
        return eqx.combine(arrays, static), metrics

    def data(self, models: Transformer, key: jax.Array) -> tuple[Tables, Context, Array | None]:
        """What one seed's models learn from in a cycle: games, how they were played, labels."""
        games_key, play_key = jax.random.split(key)
        tables, equilibria = self._draw(games_key)
        context = self._play(models, tables, play_key)
        labels = self._labels(tables, context, equilibria, jax.random.fold_in(play_key, 1))
        return tables, context, labels

    def part(self, update: Any) -> Array:
        """Which games of a cycle are in an update.

        Every `play_ahead`-th: whoever played which part of them, each batch has of all.
        """
        return update + self.config.play_ahead * jnp.arange(self.config.batch)

    def numbers(self, key: jax.Array) -> Array | None:
        """Which games of the training set are in a cycle, given its key; None: new ones."""
        return self._numbers(jax.random.split(key)[0])

    def _numbers(self, key: jax.Array) -> Array | None:
        if self.games is None:
            return None
        count = self.config.batch * self.config.play_ahead
        return jax.random.randint(key, (count,), 0, self.games.tables.games)

    def _draw(self, key: jax.Array) -> tuple[Tables, Array | None]:
        """Games of the training set, or new ones, and their equilibria if they are needed."""
        index = self._numbers(key)
        if self.games is not None:
            equilibria = self.games.equilibria
            return self.games.tables.some(index), None if equilibria is None else equilibria[
                :, index
            ]
        count = self.config.batch * self.config.play_ahead
        tables = as_tables(jax.vmap(self.family.draw)(jax.random.split(key, count)))
        if self.config.loss == "expert" and self.config.expert != "omd":
            return tables, matrix_equilibria(tables.reward)
        return tables, None

    def _play(self, models: Transformer, tables: Tables, key: jax.Array) -> Context:
        config = self.config
        games = tables.games
        words = jax.random.bits(key, (2, games), jnp.uint32)
        shares = self.players.exploration * jax.random.uniform(jax.random.fold_in(key, 2), (games,))
        if config.contexts == "learners":
            return learners_play(tables, config.learners, words, rounds=config.rounds)
        if config.contexts == "on-policy":
            return self._on_policy(models, tables, words, shares)
        half = games // 2
        learners = learners_play(
            tables.some(slice(half)), config.learners, words[:, :half], rounds=config.rounds
        )
        own = self._on_policy(
            models, tables.some(slice(half, None)), words[:, half:], shares[half:]
        )
        return join([learners, own])

    def _on_policy(
        self, models: Transformer, tables: Tables, words: Array, shares: Array
    ) -> Context:
        """Play of the models as they are, with a constant share of exploration in each game."""
        low = jax.lax.stop_gradient(self._lowered(models))
        seats = seat(*self.players.seated(low, shares, fading=False))
        return Context.of(remember(tables, seats, words, rounds=self.config.rounds))

    def _labels(
        self, tables: Tables, context: Context, equilibria: Array | None, key: jax.Array
    ) -> Array | None:
        """(2, batch, records or 1, ..., actions): what the expert would play."""
        config = self.config
        if config.loss != "expert":
            return None
        labels = follow_expert(config, tables, context, equilibria)
        if config.expert != "nash-samples":
            return labels
        return sampled(labels[:, :, 0], context.actions.shape[2] + 1, key)

    def _gradient(
        self, models: Transformer, tables: Tables, context: Context, labels: Any
    ) -> tuple[Array, dict[str, Array], Any]:
        """Loss, metrics and gradient of one batch, in micro-batches."""
        games = tables.games
        parts = games // self._micro_games(games)

        def objective(models: Transformer, index: Array) -> tuple[Array, dict[str, Array]]:
            low = self._lowered(models)
            own, books = tables.some(index), take(context, index)
            if labels is None:
                return losses.exploitability(self.players, low, own, books), {}
            cross, divergence = losses.expert(self.players, low, books, _pick(labels, index))
            return cross, {"kl": divergence}

        value = eqx.filter_value_and_grad(objective, has_aux=True)
        pieces = jnp.arange(games).reshape(parts, -1)
        if parts == 1:
            (loss, metrics), gradient = value(models, pieces[0])
            return loss, metrics, gradient

        def add(total: Any, index: Array) -> tuple[Any, None]:
            (loss, metrics), gradient = value(models, index)
            return jax.tree.map(jnp.add, total, (loss, metrics, gradient)), None

        like = eqx.filter_eval_shape(value, models, pieces[0])
        zeros = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), like)
        (loss, metrics), gradient = zeros
        total, _ = jax.lax.scan(add, (loss, metrics, gradient), pieces)
        return jax.tree.map(lambda leaf: leaf / parts, total)

    def _micro_games(self, games: int) -> int:
        """Games of a micro-batch: the largest divisor of the batch that fits."""
        most = self.config.micro_batch
        if most is None:
            length = self.players.tokens.length(self.config.rounds)
            most = 2 * games if self.backend != "cpu" else max(1, CPU_TOKENS // length)
        wanted = max(1, most // 2)
        return max(d for d in range(1, games + 1) if games % d == 0 and d <= wanted)

    def divergence(
        self, models: Transformer, tables: Tables, equilibria: Array | None, key: jax.Array
    ) -> Array:
        """From the expert, of one seed's models on other games, played as in training."""
        context = self._play(models, tables, key)
        labels = follow_expert(self.config, tables, context, equilibria)
        games = tables.games

        def part(index: Array) -> Array:
            low, labelled = self._lowered(models), _pick(labels, index)
            return losses.expert(self.players, low, take(context, index), labelled)[1]

        pieces = jnp.arange(games).reshape(games // self._micro_games(games), -1)
        return jax.lax.map(part, pieces).mean()

    def _lowered(self, models: Transformer) -> Transformer:
        return lower_precision(models) if self.low_precision else models


def follow_expert(
    config: Config, tables: Tables, context: Context, equilibria: Array | None
) -> Array:
    """(2, batch, records or 1, ..., actions): the expert's policies, before any sampling."""
    if config.expert == "omd":
        return follow(training_learner("omd", tables.states, config.rounds), context, tables)
    if equilibria is None:
        raise ValueError("expert: expected equilibria of the games, found none")
    return equilibria[:, :, None]


def _pick(labels: Any, index: Any) -> Any:
    return None if labels is None else labels[:, index]


@eqx.filter_jit(donate="all-except-first")
def run_cycle(trainer: Trainer, learned: Learned, key: jax.Array) -> tuple[Learned, Any]:
    """`Trainer.cycle`, compiled; the weights given are used up."""
    return trainer.cycle(learned, key)


@eqx.filter_jit
def held_out_gaps(
    players: Players, tables: Tables, words: np.ndarray | Array, rounds: int
) -> Array:
    """(seeds, games): gaps after the last round on held-out games, for every seed."""
    arrays, static = eqx.partition(players, eqx.is_array)

    def one(seed: Any) -> Array:
        models = jax.tree.map(lambda leaf: leaf[seed], arrays.models)
        seats = seat(*players.seated(eqx.combine(models, static.models), players.exploration))
        found = remember(tables, seats, words, rounds=rounds)
        x, y = (jnp.moveaxis(policy, -1, 0) for policy in found.policies)
        return losses.gaps(tables, x[:, None], y[:, None])[:, 0]

    return jax.vmap(one)(jnp.arange(players.seeds))


@eqx.filter_jit
def held_out_divergence(
    trainer: Trainer, models: Transformer, tables: Tables, equilibria: Array | None, key: jax.Array
) -> Array:
    """(seeds,): mean divergence from the expert on held-out games, for every seed."""
    arrays, static = eqx.partition(models, eqx.is_array)
    return jax.lax.map(
        lambda one: trainer.divergence(eqx.combine(one, static), tables, equilibria, key), arrays
    )


def make_optimiser(config: Config) -> optax.GradientTransformation:
    """Adam or Muon on clipped gradients, after a warm-up, with a cosine or constant rate.

    Muon makes the steps of matrices orthogonal (momentum, then Newton-Schulz); embedding,
    read-out, biases and normalisation are left to Adam. Weights are those of one seed: their
    first axis is of models.

    >>> make_optimiser(Config(optimiser="muon", steps=10)).init is not None
    True
    """
    clip = optax.clip_by_global_norm(config.clip)
    if config.optimiser == "adam":
        return optax.chain(clip, optax.adam(_rate(config, config.learning_rate)))
    matrices = muon(
        _rate(config, MUON_RATE * config.learning_rate),
        consistent_rms=MUON_STEP,
        adam_learning_rate=_rate(config, config.learning_rate),
        muon_weight_dimension_numbers=cast(Any, _matrices),
    )
    return optax.chain(clip, matrices)


def _rate(config: Config, peak: float) -> optax.Schedule:
    first = 0.0 if config.warmup else peak
    if config.schedule == "constant":
        return optax.linear_schedule(first, peak, config.warmup)
    steps = max(config.steps, config.warmup + 1)
    return optax.warmup_cosine_decay_schedule(first, peak, config.warmup, steps, 0.01 * peak)


def _matrices(models: Transformer) -> Any:
    """Which axes of which weights are rows and columns; None for weights that are no matrices.

    The heads of an attention layer are one matrix: they share their input or their output.
    """
    layers = tuple(map(_layer, models.layers))
    return eqx.tree_at(lambda m: m.layers, _nothing(models), layers, is_leaf=_is_none)


def _layer(layer: Layer) -> Any:
    if isinstance(layer, Attention):
        heads = MuonDimensionNumbers(reduction_axis=(3,), output_axis=(1, 2))
        merge = MuonDimensionNumbers(reduction_axis=(1, 3), output_axis=(2,))
        return eqx.tree_at(
            lambda a: (a.query, a.key, a.value, a.output),
            _nothing(layer),
            (heads, heads, heads, merge),
            is_leaf=_is_none,
        )
    dense = MuonDimensionNumbers(reduction_axis=(2,), output_axis=(1,))
    return eqx.tree_at(
        lambda m: (m.first, m.second), _nothing(layer), (dense, dense), is_leaf=_is_none
    )


def _nothing(tree: Any) -> Any:
    return jax.tree.map(lambda _: None, tree)


def _is_none(leaf: Any) -> bool:
    return leaf is None
