"""One cycle of training: play games, then learn from them, compiled as one program."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from equipoise.core import streams
from equipoise.core.devices import AXIS, everywhere, first_copy, mesh_for, replicate
from equipoise.dynamics import Noise
from equipoise.dynamics.loop import Remembered, Seats, Tables, begin, remember, seat
from equipoise.games.families import Family
from equipoise.incontext import _contexts as contexts
from equipoise.incontext._config import Config
from equipoise.incontext._contexts import Answers, Context, take
from equipoise.incontext._model import Transformer, lower_precision
from equipoise.incontext._optimiser import make_optimiser
from equipoise.incontext._players import Player, Players, pick
from equipoise.incontext._sizes import AnySize

#: Smallest and largest scale of Gaussian noise in training.
GAUSSIAN_SCALES = (0.03, 0.5)
#: Largest number of actions of a small game.
SMALL = 3
#: Number of tokens of a micro-batch on a CPU, chosen so that its activations stay in the cache.
CPU_TOKENS = 2048
#: Number of games that are played together on a CPU; their contexts should stay in the cache.
CPU_GAMES = 16


class MixedNoise(Noise):
    """Noise that differs from game to game: Bernoulli or Gaussian, of any scale, clipped or not."""

    coin: Array
    scale: Array
    #: How far a reward may lie outside [0, 1].
    room: Array

    def __call__(self, mean: Any, keys: Any, t: Any) -> Array:
        """Return the observed reward of round `t`."""
        u, normal = (draw(keys, t, streams.REWARD) for draw in (streams.uniform, streams.normal))
        noisy = jnp.clip(mean + self.scale * normal, -self.room, 1.0 + self.room)
        return jnp.where(self.coin, (u < mean).astype(u.dtype), noisy)


class Variety(eqx.Module):
    """Properties in which the games of a batch differ, apart from their rewards."""

    #: (2, games): numbers of actions.
    counts: Array
    #: (games,): whether players see each other's actions.
    shown: Array
    noise: MixedNoise
    #: (games,): number of states divided by the family's number of states.
    states: Array

    def some(self, index: Any) -> "Variety":
        """Select some of the games."""
        return jax.tree.map(lambda leaf: leaf[..., index], self)

    def even(self, seat: int, actions: int, share: Any) -> Array:
        """(actions, games): a share of uniform play, spread over the actions of each game."""
        own = jnp.arange(actions)[:, None] < self.counts[seat][None]
        return own * (share / self.counts[seat])[None]

    @property
    def groups(self) -> Array:
        """(games,): group of each game, by kind of noise and by size."""
        noise = jnp.where(self.noise.coin, 1, jnp.where(self.noise.scale > 0.0, 2, 0))
        return 2 * noise + (self.counts.max(0) > SMALL)


def draw_variety(family: Family, config: Config, keys: jax.Array) -> Variety | None:
    """Return the variety of the games drawn with these keys; None if they do not differ."""
    if config.noise == ("exact",) and config.tokens != "adaptive":
        return None

    def one(key: jax.Array) -> Variety:
        which, scale, room, shown = jax.random.split(jax.random.fold_in(key, 2), 4)
        kind = jax.random.randint(which, (), 0, len(config.noise), jnp.int32)
        low, high = (np.log(np.float32(end)) for end in GAUSSIAN_SCALES)
        width = jnp.exp(jax.random.uniform(scale, (), jnp.float32, low, high))
        gaussian = jnp.array([name == "gaussian" for name in config.noise])[kind]
        return Variety(
            jnp.stack([jnp.asarray(count, jnp.int32) for count in family.sizes(key)[:2]]),
            jax.random.uniform(shown, (), jnp.float32) < config.watched,
            MixedNoise(
                jnp.array([name == "bernoulli" for name in config.noise])[kind],
                jnp.where(gaussian, width, 0.0),
                # Half of the Gaussian noises are clipped to [0, 1], as `Gaussian` is.
                jnp.where(jax.random.uniform(room, (), jnp.float32) < 0.5, 0.0, 1e9),
            ),
            jnp.asarray(family.sizes(key)[2], jnp.float32) / (family.states or 1),
        )

    found = jax.vmap(one)(keys)
    return eqx.tree_at(lambda v: v.counts, found, found.counts.T)


def play_varied(
    tables: Tables, seats: Seats, words: Any, rounds: int, variety: Variety | None, **kept: Any
) -> Remembered:
    """Play games that each have their own noise and size; `kept` are options of `remember`."""
    if variety is None:
        return remember(tables, seats, words, rounds=rounds, **kept)
    state, row, actions = None, seats.row, tables.actions[0]
    if isinstance(row, Player) and isinstance(row.tokens, AnySize):
        exploration = [
            None if share is None else variety.even(own, actions, jnp.asarray(share))
            for own, share in enumerate(seats.exploration)
        ]
        seats = replace(seats, exploration=(exploration[0], exploration[1]))
        empty: Any = row.tokens.begin(actions, tables.states, 0, tables.discount)

        def first(count: Array, shown: Array) -> Any:
            book = eqx.tree_at(lambda b: (b.count, b.shown), empty, (count, shown))
            return row.begin(book, rounds)

        both = jnp.broadcast_to(variety.shown, variety.counts.shape)
        state = begin(tables, seats, variety.noise, words, 0, rounds)
        books = jax.vmap(jax.vmap(first))(variety.counts, both)
        state = eqx.tree_at(lambda s: s.learners, state, books)
    return remember(tables, seats, words, rounds=rounds, noise=variety.noise, state=state, **kept)


def in_tiles(function: Callable[[Any], Any], games: int, backend: str) -> list[Any]:
    """Call a function of indices of games for all games, or on a CPU for one tile after another.

    The last tile is filled up with the last game.

    >>> [part.tolist() for part in in_tiles(lambda index: 2 * index, 17, "cpu")][1][:3]
    [32, 32, 32]
    """
    if backend != "cpu" or games <= CPU_GAMES:
        return [function(slice(None))]
    tiles = -(-games // CPU_GAMES)
    index = jnp.minimum(jnp.arange(tiles * CPU_GAMES), games - 1).reshape(tiles, CPU_GAMES)
    found = jax.lax.map(function, index)
    return [pick(found, tile) for tile in range(tiles)]


class TrainingSet(eqx.Module):
    """A finite set of games and their equilibria; the equilibria may be absent."""

    tables: Tables
    #: (2, games, ..., actions): equilibrium policies, or None.
    equilibria: Array | None
    variety: Variety | None = None

    def some(self, index: Any) -> "TrainingSet":
        """Select some of the games."""
        known, variety = self.equilibria, self.variety
        return TrainingSet(
            self.tables.some(index),
            None if known is None else known[:, index],
            None if variety is None else variety.some(index),
        )


class Learned(eqx.Module):
    """The part of training that changes: weights and the optimiser's state, for every seed."""

    models: Transformer
    optimiser: Any
    #: (seeds,): whether training has ended; None unless the cross-entropy ends it.
    stopped: Any = None


class Trainer(eqx.Module):
    """Everything that stays the same during training."""

    players: Players
    family: Family
    games: TrainingSet | None
    config: Config = eqx.field(static=True)
    backend: str = eqx.field(static=True)
    #: One for weights that may change and zero for others, shaped like the models of one seed. None
    #: lets all weights change.
    mask: Any = None
    #: Number of updates over which the learning rate falls. It is an array, so that another number
    #: does not compile another program.
    total: Any = None
    #: Number of devices that share each batch. Each plays some games; gradients are averaged.
    shares: int = eqx.field(static=True, default=1)

    def start(self) -> Learned:
        """Return the state before the first step; weights are copied, since steps donate theirs."""
        models: Any = copied(self.players.models)
        memory = jax.vmap(make_optimiser(self.config, self.total).init)(models)
        ends = self.config.stop_on == "cross-entropy" and self.config.stop_below is not None
        return Learned(models, memory, jnp.zeros(self.players.seeds, bool) if ends else None)

    def cycle(self, learned: Learned, key: jax.Array) -> tuple[Learned, dict[str, Array]]:
        """Play once and make a cycle of updates, for every seed; metrics are (seeds, updates)."""
        keys = jax.vmap(lambda seed: jax.random.fold_in(key, seed))(jnp.arange(self.players.seeds))
        if self.backend == "cpu":  # seeds in sequence: products without a batch axis are faster
            return jax.lax.map(lambda pair: self._cycle(*pair), (learned, keys))
        return jax.vmap(self._cycle)(learned, keys)

    def _cycle(self, learned: Learned, key: jax.Array) -> tuple[Learned, dict[str, Array]]:
        tables, context, labels, _ = self.data(learned.models, key)
        return self.learn(learned, tables, context, labels)

    def learn(
        self, learned: Learned, tables: Tables | None, context: Context, labels: Any
    ) -> tuple[Learned, dict[str, Array]]:
        """Make a cycle of updates from play; recorded play has no tables but `Answers`."""
        optimiser = make_optimiser(self.config, self.total)

        def update(learned: Learned, i: Any) -> tuple[Learned, dict[str, Array]]:
            index = self.part(i % self.config.play_ahead)
            own = None if tables is None else tables.some(index)
            batch = (own, take(context, index), _some(labels, index))
            loss, metrics, gradient = self._gradient(learned.models, *batch, i)
            if self.shares > 1:
                loss, metrics, gradient = jax.lax.pmean((loss, metrics, gradient), AXIS)
            if self.mask is not None:
                gradient = jax.tree.map(jnp.multiply, gradient, self.mask)
            weights: Any = learned.models
            change, memory = optimiser.update(gradient, learned.optimiser, weights)
            after = Learned(eqx.apply_updates(weights, change), memory, learned.stopped)
            return after, {"loss": loss, **metrics}

        after, metrics = jax.lax.scan(update, learned, jnp.arange(self.config.cycle))
        bound = self.config.stop_below
        if learned.stopped is None or bound is None:
            return after, metrics
        below = metrics["loss"].mean() < bound
        after = eqx.tree_at(lambda state: state.stopped, after, after.stopped | below)
        return jax.tree.map(partial(jnp.where, learned.stopped), learned, after), metrics

    def data(
        self, models: Transformer, key: jax.Array
    ) -> tuple[Tables, Context, Array | None, Array | None]:
        """Return the training data of one seed in a cycle: games, contexts and labels.

        The last result is the indices of the games in the training set; None if games are new.
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
        """Return the indices of the games of a cycle that an update learns from.

        An update takes every `play_ahead`-th game, so that each batch has games of all learners.
        """
        return update + self.config.play_ahead * jnp.arange(self.config.batch // self.shares)

    @property
    def segments(self) -> int:
        """Number of equal parts of a cycle's games that are played by different learners."""
        learners = len(self.config.learners)
        return {"on-policy": 1, "learners": learners, "mixed": 2 * learners}[self.config.contexts]

    def _own(self, array: Any) -> Any:
        """Select this device's part of an array whose last axis is games: some of each segment.

        Every device draws the keys of all games, so that a game does not depend on its device.
        """
        if self.shares == 1:
            return array
        index = jnp.arange(array.shape[-1]).reshape(self.segments, self.shares, -1)
        return array[..., index[:, jax.lax.axis_index(AXIS)].ravel()]

    def _draw(self, key: jax.Array) -> tuple[TrainingSet, Array | None]:
        """Draw games of the training set and their indices, or new games; equilibria if needed."""
        count = self.config.batch * self.config.play_ahead
        if self.games is not None:
            numbers = self._own(jax.random.randint(key, (count,), 0, self.games.tables.games))
            return self.games.some(numbers), numbers
        keys = self._own(jax.random.split(key, count))
        tables = contexts.as_tables(jax.vmap(self.family.draw)(keys))
        solved = self.config.needs_equilibria
        known = contexts.matrix_equilibria(tables.reward) if solved else None
        return TrainingSet(tables, known, draw_variety(self.family, self.config, keys)), None

    def _play(self, models: Transformer, drawn: TrainingSet, key: jax.Array) -> Context:
        config, tables = self.config, drawn.tables
        games = tables.games
        every = games * self.shares
        words = self._own(jax.random.bits(key, (2, every), jnp.uint32))
        chance = self._own(jax.random.uniform(jax.random.fold_in(key, 2), (every,)))
        shares = self.players.exploration * chance
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
        """Play the current models, with a constant share of exploration in each game."""
        low, players = jax.lax.stop_gradient(self._lowered(models)), self.players

        def some(index: Any) -> Context:
            own = games.some(index)
            tables, variety = own.tables, own.variety
            who = players.seated(low, shares[index], fading=False, watching=players.any_size)
            found = play_varied(tables, seat(*who), words[:, index], self.config.rounds, variety)
            if variety is None or not players.any_size:
                return Context.of(found)
            both = jnp.broadcast_to(variety.shown, variety.counts.shape)
            groups = variety.groups if self.config.relative else None
            weights = None if tables.states is None else 1.0 / variety.states
            context = Context.of(found, variety.counts, both, groups, weights)
            return contexts.note_down(cast(Any, players.tokens), context, tables.discount)

        count = games.tables.games
        return take(contexts.join(in_tiles(some, count, self.backend)), slice(count))

    def _gradient(
        self,
        models: Transformer,
        tables: Tables | None,
        context: Context,
        labels: Any,
        update: Any = 0,
    ) -> tuple[Array, dict[str, Array], Any]:
        """Return the loss, metrics and gradient of one batch, computed in micro-batches."""
        games = context.actions.shape[1]
        parts = games // self._micro_games(games)

        def objective(models: Transformer, index: Array) -> tuple[Array, dict[str, Array]]:
            low = self._lowered(models)
            books = take(context, index)
            if isinstance(labels, Answers):
                expert = cast(Answers, _some(labels, index))
                cross, divergence = contexts.recorded_loss(self.players, low, books, expert)
                return cross, {"kl": divergence}
            if labels is None:
                if tables is None:
                    raise ValueError("tables: expected the games of a loss without labels")
                own = tables.some(index)
                axis = AXIS if self.shares > 1 else None
                return contexts.gap_loss(self.players, low, own, books, update, axis), {}
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
        """Return the size of a micro-batch in games: the largest divisor of the batch that fits."""
        most = self.config.micro_batch
        if most is None:
            length = self.players.tokens.length(self.config.rounds)
            most = 2 * games if self.backend != "cpu" else max(1, CPU_TOKENS // length)
        wanted = max(1, most // 2)
        return max(d for d in range(1, games + 1) if games % d == 0 and d <= wanted)

    def divergence(self, models: Transformer, games: TrainingSet, key: jax.Array) -> Array:
        """Divergence of one seed's models from the expert on other games, played as in training."""
        context = self._play(models, games, key)
        labels = follow_expert(self.config, games, context)
        low, count = self._lowered(models), games.tables.games

        def part(index: Array) -> Array:
            own, expert = take(context, index), _some(labels, index)
            return contexts.imitation_loss(self.players, low, own, expert)[1]

        pieces = jnp.arange(count).reshape(count // self._micro_games(count), -1)
        return jax.lax.map(part, pieces).mean()

    def recorded(
        self, models: Transformer, context: Context, answers: Answers
    ) -> tuple[Array, Array]:
        """Return the cross-entropy and the divergence of one seed's models on recorded play."""
        low, count = self._lowered(models), context.actions.shape[1]

        def part(index: Array) -> tuple[Array, Array]:
            expert = cast(Answers, _some(answers, index))
            return contexts.recorded_loss(self.players, low, take(context, index), expert)

        pieces = jnp.arange(count).reshape(count // self._micro_games(count), -1)
        cross, divergence = jax.lax.map(part, pieces)
        return cross.mean(), divergence.mean()

    def _lowered(self, models: Transformer) -> Transformer:
        auto = "float32" if self.backend == "cpu" else "bfloat16"
        precision = auto if self.config.precision == "auto" else self.config.precision
        return lower_precision(models) if precision == "bfloat16" else models


def follow_expert(config: Config, games: TrainingSet, context: Context) -> Array:
    """(2, batch, records or 1, ..., actions): the expert's policies, before any sampling."""
    if not config.needs_equilibria:
        learner = contexts.training_learner(config.expert, games.tables.states, config.rounds)
        return contexts.follow(learner, context, games.tables.specs())
    if games.equilibria is None:
        raise ValueError("expert: expected the equilibria of the games, found none")
    return games.equilibria[:, :, None]


def copied(models: Transformer) -> Transformer:
    """Return a copy of the weights."""
    return jax.tree.map(jnp.copy, models)


def _some(labels: Any, index: Any) -> Any:
    return jax.tree.map(lambda array: array[:, index], labels)


def run_cycle(trainer: Trainer, learned: Learned, key: jax.Array) -> tuple[Learned, Any]:
    """Run `Trainer.cycle` compiled on all devices; the weights passed in are donated.

    The weights are returned on one device, whatever the number of devices, so that checkpoints do
    not depend on it. If the number of devices does not divide the batch, fewer are used.
    """
    config, segments = trainer.config, trainer.segments
    sampled = config.loss == "expert" and config.expert == "nash-samples"
    whole = config.batch % segments == 0 and not sampled
    mesh = mesh_for(config.batch // segments if whole else 1)
    if mesh is None:
        return _run_cycle(trainer, learned, key)
    words, generator = jax.random.key_data(key), str(jax.random.key_impl(key))
    dynamic, static = eqx.partition(trainer, lambda leaf: isinstance(leaf, jax.Array | np.ndarray))
    given = replicate((dynamic, words), mesh)
    return first_copy(_run_shared(given, replicate(learned, mesh), static, mesh, generator))


@eqx.filter_jit(donate="all-except-first")
def run_recorded(given: tuple[Trainer, Context, Answers], learned: Learned) -> tuple[Learned, Any]:
    """Learn from recorded play for a cycle, the same for every seed; `learned` is donated."""
    trainer, context, answers = given

    def one(learned: Learned) -> tuple[Learned, Any]:
        return trainer.learn(learned, None, context, answers)

    return jax.lax.map(one, learned) if trainer.backend == "cpu" else jax.vmap(one)(learned)


@eqx.filter_jit
def recorded_divergence(
    trainer: Trainer, models: Transformer, context: Context, answers: Answers
) -> Array:
    """(seeds, 2): cross-entropy to the expert and divergence from it, on recorded play."""
    return jax.lax.map(
        lambda seed: jnp.stack(trainer.recorded(pick(models, seed), context, answers)),
        jnp.arange(trainer.players.seeds),
    )


@eqx.filter_jit(donate="all-except-first")
def _run_cycle(trainer: Trainer, learned: Learned, key: jax.Array) -> tuple[Learned, Any]:
    return trainer.cycle(learned, key)


@eqx.filter_jit(donate="all-except-first")
def _run_shared(
    given: tuple[Any, jax.Array], learned: Learned, static: Any, mesh: Any, generator: str
) -> tuple[Learned, Any]:
    """Run a cycle in which every device of a mesh does its share."""

    def own(given: tuple[Any, jax.Array], learned: Learned) -> tuple[Learned, Any]:
        trainer = eqx.combine(given[0], static)
        shared = replace(trainer, shares=mesh.size)
        return shared.cycle(learned, jax.random.wrap_key_data(given[1], impl=generator))

    return everywhere(own, mesh)(given, learned)


@eqx.filter_jit
def held_out_gaps(
    players: Players,
    tables: Tables,
    words: np.ndarray | Array,
    rounds: int,
    variety: Variety | None = None,
) -> Array:
    """(seeds, games): gaps after the last round on held-out games."""
    backend = jax.default_backend()

    def one(seed: Any) -> Array:
        models, share = pick(players.models, seed), jnp.asarray(players.exploration)
        if backend != "cpu":
            models = lower_precision(models)
        seats = seat(*players.seated(models, share, watching=players.any_size))

        def some(index: Any) -> Array:
            own, varied = tables.some(index), None if variety is None else variety.some(index)
            found = play_varied(own, seats, jnp.asarray(words)[:, index], rounds, varied)
            x, y = (jnp.moveaxis(policy, -1, 0) for policy in found.policies)
            gaps = contexts.gaps(own, x[:, None], y[:, None])[:, 0]
            return gaps if varied is None else gaps / varied.states

        return jnp.concatenate(in_tiles(some, tables.games, backend))[: tables.games]

    return jax.vmap(one)(jnp.arange(players.seeds))


@eqx.filter_jit
def held_out_divergence(
    trainer: Trainer, models: Transformer, games: TrainingSet, key: jax.Array
) -> Array:
    """(seeds,): mean divergence from the expert on held-out games."""
    return jax.lax.map(
        lambda seed: trainer.divergence(pick(models, seed), games, key),
        jnp.arange(trainer.players.seeds),
    )
