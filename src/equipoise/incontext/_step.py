"""One step of training: play some games, then learn from them; compiled as one program."""

from dataclasses import replace
from typing import Any, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array
from optax.contrib import MuonDimensionNumbers, muon

from equipoise.core import streams
from equipoise.dynamics import Noise
from equipoise.dynamics.loop import Remembered, Seats, Tables, begin, remember, seat
from equipoise.games.families import Family
from equipoise.incontext import _contexts as contexts
from equipoise.incontext._adaptive import AdaptiveTokens
from equipoise.incontext._config import Config
from equipoise.incontext._contexts import Context, take
from equipoise.incontext._model import Transformer, lower_precision
from equipoise.incontext._players import Player, Players, pick

#: Size of an entry of Muon's steps, in rates of learning: about that of Adam's.
MUON_STEP = 0.2
#: Muon's rate of learning, in those of Adam: its steps are bounded in every direction alike.
MUON_RATE = 5.0
#: Scales of Gaussian noise in training.
GAUSSIAN_SCALES = (0.03, 0.5)
#: Most actions of a small game.
SMALL = 3
#: Tokens of a micro-batch on a CPU: what they need should stay in its cache.
CPU_TOKENS = 2048


class MixedNoise(Noise):
    """Another noise in every game: a coin, or Gaussian noise of some scale, clipped or not."""

    coin: Array
    scale: Array
    #: How far beyond [0, 1] a reward may be.
    room: Array

    def __call__(self, mean: Any, keys: Any, t: Any) -> Array:
        """The reward seen in round `t`."""
        u = streams.uniform(keys, t, streams.REWARD) + 2.0**-25
        normal = jnp.sqrt(2.0) * jax.lax.erf_inv(2.0 * u - 1.0)
        noisy = jnp.clip(mean + self.scale * normal, -self.room, 1.0 + self.room)
        return jnp.where(self.coin, (u < mean).astype(u.dtype), noisy)


class Variety(eqx.Module):
    """Properties in which the games of a batch differ, besides their rewards."""

    #: (2, games): numbers of actions.
    counts: Array
    #: (games,): whether players see each other's actions.
    shown: Array
    noise: MixedNoise

    def some(self, index: Any) -> "Variety":
        """Select some of the games."""
        return jax.tree.map(lambda leaf: leaf[..., index], self)

    def even(self, seat: int, actions: int, share: Any) -> Array:
        """(actions, games): a share of uniform play over the actions that count."""
        own = jnp.arange(actions)[:, None] < self.counts[seat][None]
        return own * (share / self.counts[seat])[None]

    @property
    def groups(self) -> Array:
        """(games,): games with the same kind of noise and about the same size."""
        noise = jnp.where(self.noise.coin, 1, jnp.where(self.noise.scale > 0.0, 2, 0))
        return 2 * noise + (self.counts.max(0) > SMALL)


def draw_variety(family: Family, config: Config, keys: jax.Array) -> Variety | None:
    """The variety of the games drawn with these keys; None where there is none."""
    if config.noise == ("exact",) and config.tokens != "adaptive":
        return None

    def one(key: jax.Array) -> Variety:
        which, scale, room, shown = jax.random.split(jax.random.fold_in(key, 2), 4)
        kind = jax.random.randint(which, (), 0, len(config.noise), jnp.int32)
        low, high = (np.log(np.float32(end)) for end in GAUSSIAN_SCALES)
        width = jnp.exp(jax.random.uniform(scale, (), jnp.float32, low, high))
        gaussian = jnp.array([name == "gaussian" for name in config.noise])[kind]
        return Variety(
            jnp.stack([jnp.asarray(count, jnp.int32) for count in family.sizes(key)]),
            jax.random.uniform(shown, (), jnp.float32) < config.watched,
            MixedNoise(
                jnp.array([name == "bernoulli" for name in config.noise])[kind],
                jnp.where(gaussian, width, 0.0),
                # Half of the Gaussian noises are clipped to [0, 1], as `Gaussian` is.
                jnp.where(jax.random.uniform(room, (), jnp.float32) < 0.5, 0.0, 1e9),
            ),
        )

    found = jax.vmap(one)(keys)
    return eqx.tree_at(lambda v: v.counts, found, found.counts.T)


def play_varied(
    tables: Tables, seats: Seats, words: Any, rounds: int, variety: Variety | None, **kept: Any
) -> Remembered:
    """Play in which each game has its own noise and numbers of actions; `remember`'s options."""
    if variety is None:
        return remember(tables, seats, words, rounds=rounds, **kept)
    state, row, actions = None, seats.row, tables.actions[0]
    if isinstance(row, Player) and isinstance(row.tokens, AdaptiveTokens):
        exploration = [
            None if share is None else variety.even(own, actions, jnp.asarray(share))
            for own, share in enumerate(seats.exploration)
        ]
        seats = replace(seats, exploration=(exploration[0], exploration[1]))
        empty = row.tokens.begin(actions)

        def first(count: Array, shown: Array) -> Any:
            book = eqx.tree_at(lambda b: (b.count, b.shown), empty, (count, shown))
            return row.begin(book, rounds)

        both = jnp.broadcast_to(variety.shown, variety.counts.shape)
        state = begin(tables, seats, variety.noise, words, 0, rounds)
        books = jax.vmap(jax.vmap(first))(variety.counts, both)
        state = eqx.tree_at(lambda s: s.learners, state, books)
    return remember(tables, seats, words, rounds=rounds, noise=variety.noise, state=state, **kept)


class TrainingSet(eqx.Module):
    """A finite set of games and their equilibria; the equilibria may be absent."""

    tables: Tables
    #: (2, games, ..., actions)
    equilibria: Array | None
    variety: Variety | None = None

    def some(self, index: Any) -> "TrainingSet":
        """Some of the games."""
        known, variety = self.equilibria, self.variety
        return TrainingSet(
            self.tables.some(index),
            None if known is None else known[:, index],
            None if variety is None else variety.some(index),
        )


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
    #: Number of updates over which the learning rate falls, an array: it changes no program.
    total: Any = None

    def start(self) -> Learned:
        """Before the first step; with copies of the weights, since steps use theirs up."""
        models: Any = copied(self.players.models)
        return Learned(models, jax.vmap(make_optimiser(self.config, self.total).init)(models))

    def cycle(self, learned: Learned, key: jax.Array) -> tuple[Learned, dict[str, Array]]:
        """Play once and make a cycle of updates, for every seed; metrics are (seeds, updates)."""
        keys = jax.vmap(lambda seed: jax.random.fold_in(key, seed))(jnp.arange(self.players.seeds))
        if self.backend == "cpu":  # one after the other: products without a batch axis are faster
            return jax.lax.map(lambda pair: self._cycle(*pair), (learned, keys))
        return jax.vmap(self._cycle)(learned, keys)

    def _cycle(self, learned: Learned, key: jax.Array) -> tuple[Learned, dict[str, Array]]:
        tables, context, labels, _ = self.data(learned.models, key)
        optimiser = make_optimiser(self.config, self.total)

        def update(learned: Learned, i: Any) -> tuple[Learned, dict[str, Array]]:
            index = self.part(i % self.config.play_ahead)
            batch = (tables.some(index), take(context, index), _some(labels, index))
            loss, metrics, gradient = self._gradient(learned.models, *batch)
            if self.mask is not None:
                gradient = jax.tree.map(jnp.multiply, gradient, self.mask)
            weights: Any = learned.models
            change, memory = optimiser.update(gradient, learned.optimiser, weights)
            after = Learned(eqx.apply_updates(weights, change), memory)
            return after, {"loss": loss, **metrics}

        return jax.lax.scan(update, learned, jnp.arange(self.config.cycle))

    def data(
        self, models: Transformer, key: jax.Array
    ) -> tuple[Tables, Context, Array | None, Array | None]:
        """What one seed's models learn from in a cycle: games, how they were played, labels.

        Also the numbers of the games in the training set; None where games are new.
        """
        games_key, play_key = jax.random.split(key)
        games, numbers = self._draw(games_key)
        context = self._play(models, games, play_key)
        labels = None
        if self.config.loss == "expert":
            labels = follow_expert(self.config, games, context)
            if self.config.expert == "nash-samples":
                drawn = jax.random.fold_in(play_key, 1)
                labels = contexts.sampled(labels[:, :, 0], context.actions.shape[2] + 1, drawn)
        return games.tables, context, labels, numbers

    def part(self, update: Any) -> Array:
        """Which games of a cycle are in an update.

        Every `play_ahead`-th: whoever played which part of them, each batch has of all.
        """
        return update + self.config.play_ahead * jnp.arange(self.config.batch)

    def _draw(self, key: jax.Array) -> tuple[TrainingSet, Array | None]:
        """Games of the training set and their numbers, or new ones; equilibria if needed."""
        count = self.config.batch * self.config.play_ahead
        if self.games is not None:
            numbers = jax.random.randint(key, (count,), 0, self.games.tables.games)
            return self.games.some(numbers), numbers
        keys = jax.random.split(key, count)
        tables = contexts.as_tables(jax.vmap(self.family.draw)(keys))
        solved = self.config.loss == "expert" and self.config.expert != "omd"
        known = contexts.matrix_equilibria(tables.reward) if solved else None
        return TrainingSet(tables, known, draw_variety(self.family, self.config, keys)), None

    def _play(self, models: Transformer, drawn: TrainingSet, key: jax.Array) -> Context:
        config, tables = self.config, drawn.tables
        games = tables.games
        words = jax.random.bits(key, (2, games), jnp.uint32)
        shares = self.players.exploration * jax.random.uniform(jax.random.fold_in(key, 2), (games,))
        if config.contexts == "on-policy":
            return self._on_policy(models, drawn, words, shares)
        half = games if config.contexts == "learners" else games // 2
        played = contexts.learners_play(
            tables.some(slice(half)), config.learners, words[:, :half], rounds=config.rounds
        )
        if half == games:
            return played
        rest = slice(half, None)
        own = self._on_policy(models, drawn.some(rest), words[:, rest], shares[rest])
        return contexts.join([played, own])

    def _on_policy(
        self, models: Transformer, games: TrainingSet, words: Array, shares: Array
    ) -> Context:
        """Play of the models as they are, with a constant share of exploration in each game."""
        low = jax.lax.stop_gradient(self._lowered(models))
        players, variety = self.players, games.variety
        who = players.seated(low, shares, fading=False, watching=players.any_size)
        found = play_varied(games.tables, seat(*who), words, self.config.rounds, variety)
        if variety is None or not players.any_size:
            return Context.of(found)
        both = jnp.broadcast_to(variety.shown, variety.counts.shape)
        groups = variety.groups if self.config.relative else None
        context = Context.of(found, variety.counts, both, groups)
        # Written once, and read in every update that learns from these games.
        return contexts.note_down(cast(Any, players.tokens), context)

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
                return contexts.gap_loss(self.players, low, own, books), {}
            expert = _some(labels, index)
            cross, divergence = contexts.imitation_loss(self.players, low, books, expert)
            return cross, {"kl": divergence}

        value = eqx.filter_value_and_grad(objective, has_aux=True)
        pieces = jnp.arange(games).reshape(parts, -1)
        if parts == 1:
            (loss, metrics), gradient = value(models, pieces[0])
            return loss, metrics, gradient

        def add(total: Any, index: Array) -> tuple[Any, None]:
            return jax.tree.map(jnp.add, total, value(models, index)), None

        like = eqx.filter_eval_shape(value, models, pieces[0])
        zeros = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), like)
        total, _ = jax.lax.scan(add, zeros, pieces)
        (loss, metrics), gradient = jax.tree.map(lambda leaf: leaf / parts, total)
        return loss, metrics, gradient

    def _micro_games(self, games: int) -> int:
        """Games of a micro-batch: the largest divisor of the batch that fits."""
        most = self.config.micro_batch
        if most is None:
            length = self.players.tokens.length(self.config.rounds)
            most = 2 * games if self.backend != "cpu" else max(1, CPU_TOKENS // length)
        wanted = max(1, most // 2)
        return max(d for d in range(1, games + 1) if games % d == 0 and d <= wanted)

    def divergence(self, models: Transformer, games: TrainingSet, key: jax.Array) -> Array:
        """From the expert, of one seed's models on other games, played as in training."""
        context = self._play(models, games, key)
        labels = follow_expert(self.config, games, context)
        low, count = self._lowered(models), games.tables.games

        def part(index: Array) -> Array:
            own, expert = take(context, index), _some(labels, index)
            return contexts.imitation_loss(self.players, low, own, expert)[1]

        pieces = jnp.arange(count).reshape(count // self._micro_games(count), -1)
        return jax.lax.map(part, pieces).mean()

    def _lowered(self, models: Transformer) -> Transformer:
        auto = "float32" if self.backend == "cpu" else "bfloat16"
        precision = auto if self.config.precision == "auto" else self.config.precision
        return lower_precision(models) if precision == "bfloat16" else models


def follow_expert(config: Config, games: TrainingSet, context: Context) -> Array:
    """(2, batch, records or 1, ..., actions): the expert's policies, before any sampling."""
    if config.expert == "omd":
        learner = contexts.training_learner("omd", games.tables.states, config.rounds)
        return contexts.follow(learner, context, games.tables.specs())
    if games.equilibria is None:
        raise ValueError("expert: expected equilibria of the games, found none")
    return games.equilibria[:, :, None]


def copied(models: Transformer) -> Transformer:
    """The same weights in memory of their own."""
    return jax.tree.map(jnp.copy, models)


def _some(labels: Any, index: Any) -> Any:
    return None if labels is None else labels[:, index]


@eqx.filter_jit(donate="all-except-first")
def run_cycle(trainer: Trainer, learned: Learned, key: jax.Array) -> tuple[Learned, Any]:
    """`Trainer.cycle`, compiled; the weights given are used up."""
    return trainer.cycle(learned, key)


@eqx.filter_jit
def held_out_gaps(
    players: Players,
    tables: Tables,
    words: np.ndarray | Array,
    rounds: int,
    variety: Variety | None = None,
) -> Array:
    """(seeds, games): gaps after the last round on held-out games, for every seed."""

    def one(seed: Any) -> Array:
        models, share = pick(players.models, seed), jnp.asarray(players.exploration)
        if jax.default_backend() != "cpu":
            models = lower_precision(models)
        seats = seat(*players.seated(models, share, watching=players.any_size))
        found = play_varied(tables, seats, words, rounds, variety)
        x, y = (jnp.moveaxis(policy, -1, 0) for policy in found.policies)
        return contexts.gaps(tables, x[:, None], y[:, None])[:, 0]

    return jax.vmap(one)(jnp.arange(players.seeds))


@eqx.filter_jit
def held_out_divergence(
    trainer: Trainer, models: Transformer, games: TrainingSet, key: jax.Array
) -> Array:
    """(seeds,): mean divergence from the expert on held-out games, for every seed."""
    return jax.lax.map(
        lambda seed: trainer.divergence(pick(models, seed), games, key),
        jnp.arange(trainer.players.seeds),
    )


def make_optimiser(config: Config, total: Any = None) -> optax.GradientTransformation:
    """Adam or Muon on clipped gradients, after a warm-up, with a cosine or constant rate.

    `total` is the number of updates, an array or the config's.

    Muon makes the steps of matrices orthogonal (momentum, then Newton-Schulz); embedding,
    read-out, biases and normalisation are left to Adam. Weights are those of one seed: their
    first axis is of models.

    >>> make_optimiser(Config(optimiser="muon", steps=10)).init is not None
    True
    """
    clip = optax.clip_by_global_norm(config.clip)
    if config.optimiser == "adam":
        return optax.chain(clip, optax.adam(_rate(config, config.learning_rate, total)))
    matrices = muon(
        _rate(config, MUON_RATE * config.learning_rate, total),
        consistent_rms=MUON_STEP,
        adam_learning_rate=_rate(config, config.learning_rate, total),
        muon_weight_dimension_numbers=cast(Any, _matrices),
    )
    return optax.chain(clip, matrices)


def _rate(config: Config, peak: float, total: Any) -> optax.Schedule:
    """A linear rise, then a cosine to a hundredth of the peak, or the peak."""
    warmup, total = config.warmup, config.total_steps if total is None else total

    def rate(count: Any) -> Array:
        count = jnp.asarray(count, jnp.float32)
        rise = jnp.minimum(1.0, count / warmup) if warmup else jnp.ones(())
        if config.schedule == "constant":
            return peak * rise
        done = (count - warmup) / (jnp.maximum(total, warmup + 1.0) - warmup)
        fall = 0.5 * (1.0 + jnp.cos(jnp.pi * jnp.clip(done, 0.0, 1.0)))
        return peak * rise * (0.01 + 0.99 * fall)

    return rate


def _matrices(models: Transformer) -> Any:
    """Which axes of which weights are rows and columns; None for weights that are no matrices.

    The heads of an attention layer are one matrix: they share their input or their output.
    """
    heads = MuonDimensionNumbers(reduction_axis=(3,), output_axis=(1, 2))
    dense = MuonDimensionNumbers(reduction_axis=(2,), output_axis=(1,))
    known = dict.fromkeys(("query", "key", "value"), heads)
    known |= {"output": MuonDimensionNumbers(reduction_axis=(1, 3), output_axis=(2,))}
    known |= {"first": dense, "second": dense}

    def axes(path: Any, _: Array) -> MuonDimensionNumbers | None:
        return known.get(path[-1].name)

    return jax.tree_util.tree_map_with_path(axes, models)
