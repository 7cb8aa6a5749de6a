"""One step of training: play some games, then learn from them; compiled as one program."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array

from equipoise.games.families import Family
from equipoise.incontext import _losses as losses
from equipoise.incontext._config import Config
from equipoise.incontext._contexts import (
    Context,
    as_board,
    follow,
    join,
    learners_play,
    make_learner,
    matrix_equilibria,
    some,
    take,
)
from equipoise.incontext._episode import episode
from equipoise.incontext._equilibria import sampled
from equipoise.incontext._model import Transformer, lower_precision
from equipoise.incontext._optimiser import make_optimiser
from equipoise.incontext._players import Players
from equipoise.incontext._teams import Board, Frozen

#: Tokens of a micro-batch on a CPU: what they need should stay in its cache.
CPU_TOKENS = 2048


class TrainingSet(eqx.Module):
    """A finite set of games and their equilibria; the equilibria may be absent."""

    board: Board
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
        board, context, labels = self.data(learned.models, key)

        def update(learned: Learned, part: Any) -> tuple[Learned, dict[str, Array]]:
            board, context, labels = part
            loss, metrics, gradient = self._gradient(learned.models, board, context, labels)
            if self.mask is not None:
                gradient = jax.tree.map(jnp.multiply, gradient, self.mask)
            weights = eqx.filter(learned.models, eqx.is_inexact_array)
            change, memory = self.optimiser.update(gradient, learned.optimiser, weights)
            models = eqx.apply_updates(learned.models, change)
            return Learned(models, memory), {"loss": loss, **metrics}

        arrays, static = eqx.partition(learned, eqx.is_array)

        def body(arrays: Any, i: Any) -> tuple[Any, Any]:
            index = self.part(i)
            part = (some(board, index), take(context, index), _pick(labels, index))
            after, metrics = update(eqx.combine(arrays, static), part)
            return eqx.filter(after, eqx.is_array), metrics

        arrays, metrics = jax.lax.scan(body, arrays, jnp.arange(config.play_ahead))
        return eqx.combine(arrays, static), metrics

    def data(self, models: Transformer, key: jax.Array) -> tuple[Board, Context, Array | None]:
        """What one seed's models learn from in a cycle: games, how they were played, labels."""
        games_key, play_key = jax.random.split(key)
        board, equilibria = self._draw(games_key)
        context = self._play(models, board, play_key)
        labels = self._labels(board, context, equilibria, jax.random.fold_in(play_key, 1))
        return board, context, labels

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
        return jax.random.randint(key, (count,), 0, self.games.board.reward.shape[0])

    def _draw(self, key: jax.Array) -> tuple[Board, Array | None]:
        """Games of the training set, or new ones, and their equilibria if they are needed."""
        index = self._numbers(key)
        if self.games is not None:
            equilibria = self.games.equilibria
            return some(self.games.board, index), None if equilibria is None else equilibria[
                :, index
            ]
        count = self.config.batch * self.config.play_ahead
        board = as_board(jax.vmap(self.family.draw)(jax.random.split(key, count)))
        if self.config.loss == "expert" and self.config.expert != "omd":
            return board, matrix_equilibria(board.reward)
        return board, None

    def _play(self, models: Transformer, board: Board, key: jax.Array) -> Context:
        config = self.config
        games = board.reward.shape[0]
        words = jax.random.bits(key, (2, games), jnp.uint32)
        shares = self.players.exploration * jax.random.uniform(jax.random.fold_in(key, 2), (games,))
        if config.contexts == "learners":
            return learners_play(board, config.learners, words, rounds=config.rounds)
        if config.contexts == "on-policy":
            return self._on_policy(models, board, words, shares)
        half = games // 2
        learners = learners_play(
            some(board, slice(half)), config.learners, words[:, :half], rounds=config.rounds
        )
        own = self._on_policy(
            models, some(board, slice(half, None)), words[:, half:], shares[half:]
        )
        return join([learners, own])

    def _on_policy(self, models: Transformer, board: Board, words: Array, shares: Array) -> Context:
        """Play of the models as they are, with a constant share of exploration in each game."""
        team = Frozen(
            models=jax.lax.stop_gradient(self._lowered(models)),
            tokens=self.players.tokens,
            actions=self.players.actions,
            states=self.players.states,
            reading=self.players.reading,
            rounds=self.config.rounds,
            seats=(0, 1),
        )
        trajectory = episode(
            board, (team,), words, rounds=self.config.rounds, exploration=shares, fading=False
        )
        return Context.of(trajectory)

    def _labels(
        self, board: Board, context: Context, equilibria: Array | None, key: jax.Array
    ) -> Array | None:
        """(2, batch, records or 1, ..., actions): what the expert would play."""
        config = self.config
        if config.loss != "expert":
            return None
        labels = follow_expert(config, board, context, equilibria)
        if config.expert != "nash-samples":
            return labels
        return sampled(labels[:, :, 0], context.actions.shape[2] + 1, key)

    def _gradient(
        self, models: Transformer, board: Board, context: Context, labels: Any
    ) -> tuple[Array, dict[str, Array], Any]:
        """Loss, metrics and gradient of one batch, in micro-batches."""
        games = board.reward.shape[0]
        parts = games // self._micro_games(games)

        def objective(models: Transformer, index: Array) -> tuple[Array, dict[str, Array]]:
            low = self._lowered(models)
            own, books = some(board, index), take(context, index)
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
        self, models: Transformer, board: Board, equilibria: Array | None, key: jax.Array
    ) -> Array:
        """From the expert, of one seed's models on other games, played as in training."""
        context = self._play(models, board, key)
        labels = follow_expert(self.config, board, context, equilibria)
        games = board.reward.shape[0]

        def part(index: Array) -> Array:
            low, labelled = self._lowered(models), _pick(labels, index)
            return losses.expert(self.players, low, take(context, index), labelled)[1]

        pieces = jnp.arange(games).reshape(games // self._micro_games(games), -1)
        return jax.lax.map(part, pieces).mean()

    def _lowered(self, models: Transformer) -> Transformer:
        return lower_precision(models) if self.low_precision else models


def follow_expert(
    config: Config, board: Board, context: Context, equilibria: Array | None
) -> Array:
    """(2, batch, records or 1, ..., actions): the expert's policies, before any sampling."""
    if config.expert == "omd":
        return follow(make_learner("omd", board.states, config.rounds), context, board)
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
def held_out_gaps(players: Players, board: Board, words: np.ndarray | Array, rounds: int) -> Array:
    """(seeds, games): gaps after the last round on held-out games, for every seed."""
    arrays, static = eqx.partition(players, eqx.is_array)

    def one(seed: Any) -> Array:
        pair = eqx.combine(jax.tree.map(lambda leaf: leaf[seed][None], arrays), static)
        trajectory = episode(
            board,
            (Frozen.of(pair, rounds),),
            jnp.asarray(words),
            rounds=rounds,
            exploration=players.exploration,
        )
        x, y = trajectory.policies[-1]
        return losses.gaps(board, x[:, None], y[:, None])[:, 0]

    return jax.vmap(one)(jnp.arange(players.seeds))


@eqx.filter_jit
def held_out_divergence(
    trainer: Trainer, models: Transformer, board: Board, equilibria: Array | None, key: jax.Array
) -> Array:
    """(seeds,): mean divergence from the expert on held-out games, for every seed."""
    arrays, static = eqx.partition(models, eqx.is_array)
    return jax.lax.map(
        lambda one: trainer.divergence(eqx.combine(one, static), board, equilibria, key), arrays
    )
