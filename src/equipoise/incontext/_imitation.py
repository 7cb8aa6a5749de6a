"""Training on fixed trajectories with an expert's answers: the in-context paper's Eq. (1)."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from equipoise.core import InputError
from equipoise.games import families
from equipoise.games.families import Family
from equipoise.incontext._config import Config, check_play
from equipoise.incontext._contexts import Answers, Context
from equipoise.incontext._model import Transformer
from equipoise.incontext._players import initial_players
from equipoise.incontext._progress import (
    Progress,
    check_finite,
    first_progress,
    has_ended,
    improved,
    largest_weights,
)
from equipoise.incontext._step import Trainer, recorded_divergence, run_recorded
from equipoise.incontext._trajectories import Lot, Order, Trajectories, as_trajectories
from equipoise.runs import Reached, Run, resumable

#: Name, in the description of players, of the rewards of games that are known only by their data.
RECORDED = "Trajectories"


@dataclass(frozen=True, eq=False)
class Imitation:
    """Training on trajectories: what is learned from, and what selects the weights."""

    trainer: Trainer
    config: Config
    data: Trajectories
    #: Numbers of the trajectories for validation.
    apart: np.ndarray
    order: Order

    @staticmethod
    def prepare(
        data: Any, family: Family | None, config: Config | None, validation: float, key: jax.Array
    ) -> "Imitation":
        """Read and check the data, and raise early if training is impossible.

        `key` makes the weights, the split and the order.
        """
        shape = (None, None) if family is None else (family.actions, family.states)
        data = as_trajectories(data, *shape)
        config = fit_config(config, data, family, validation)
        check_play(config)
        weights, order = jax.random.split(key)
        players = initial_players(family or games_of(data), config, key=weights)
        words = [int(word) for word in np.asarray(jax.random.key_data(order)).ravel()]
        apart = data.split(validation, words)
        total = jnp.float32(config.total_steps)
        backend = jax.default_backend()
        trainer = Trainer(players, games_of(data), None, config, backend, total=total)
        return Imitation(trainer, config, data, apart, Order(data, apart, words, config.rounds))

    def describe(self) -> dict[str, Any]:
        """Describe the data as plain data, in place of a family."""
        return {
            "name": "data",
            "actions": list(self.data.actions),
            "states": self.data.states,
            "discount": self.trainer.family.discount,
            "rewards": {
                "kind": RECORDED,
                "trajectories": len(self.data),
                "digest": self.data.digest,
            },
        }

    def train(
        self,
        trainer: Trainer,
        run: Run | None,
        gaps: Callable[[Transformer], np.ndarray] | None,
    ) -> Reached:
        """Learn from the trajectories, pass after pass, until a stopping rule or the last step.

        `gaps` measures the weights of all seeds on held-out games, if there is a family of games.
        """
        config = self.config
        count, total = config.batch * config.play_ahead, config.total_steps

        def cycle(state: Progress, step: int, until: int) -> tuple[Progress, dict[str, Any]]:
            # The place in the data follows from the step, so that a checkpoint contains it.
            lot = self.order.lot(step // config.cycle * count, count)
            learned, metrics = run_recorded((trainer, *_book(lot)), state.learned)
            state = eqx.tree_at(lambda s: (s.learned, s.step), state, (learned, jnp.int32(until)))
            row = {name: np.asarray(value).mean(1) for name, value in metrics.items()}
            check_finite(config, until, row)
            if step // config.evaluate_every != until // config.evaluate_every or until >= total:
                state, measured = self._evaluate(trainer, state, gaps)
                largest = largest_weights(state.learned.models)
                check_finite(config, until, {**measured, "the largest weight": largest})
                row = {**measured, **row}
            return state, row

        first, ended = first_progress(trainer), partial(has_ended, config=config)
        stride = config.cycle
        return resumable(run, first, cycle, total, name="pre-training", stride=stride, ended=ended)

    def _evaluate(
        self,
        trainer: Trainer,
        state: Progress,
        gaps: Callable[[Transformer], np.ndarray] | None,
    ) -> tuple[Progress, dict[str, np.ndarray]]:
        """Measure the weights on the validation data, and keep those of seeds that improved."""
        models, measured = state.learned.models, dict[str, np.ndarray]()
        if gaps is not None:
            measured["gap"] = gaps(models).mean(1)
        if self.apart.size:
            measured["held_out_kl"] = self.divergence(trainer, models)
        value = measured.get("gap" if self.config.stop_on == "gap" else "held_out_kl")
        if value is None:
            return state, measured
        return improved(state, jnp.asarray(value, jnp.float32)), measured

    def divergence(self, trainer: Trainer, models: Transformer) -> np.ndarray:
        """(seeds,): mean divergence from the expert in the rounds of the validation data."""
        total, weight = np.zeros(trainer.players.seeds), 0.0
        for lot in self.data.lots(self.apart, self.config.batch, self.config.rounds):
            losses = np.asarray(recorded_divergence(trainer, models, *_book(lot)), float)
            total += losses[:, 1] * lot.weights.size
            weight += float(lot.weights.sum())
        return total / weight


def _book(lot: Lot) -> tuple[Context, Answers]:
    """Return trajectories as a context and the expert's answers."""
    # Tokens do not contain the policies that were played, and files need not.
    unknown = jnp.zeros((*lot.actions.shape, 1), jnp.float32)
    states = None if lot.states is None else jnp.asarray(lot.states)
    context = Context(jnp.asarray(lot.actions), jnp.asarray(lot.rewards), unknown, states)
    return context, Answers(jnp.asarray(lot.labels), jnp.asarray(lot.weights))


def games_of(data: Trajectories) -> Family:
    """Return a family of the shape of the games in the data, about which nothing else is known.

    It is not symmetric, so that the two players do not share their weights.
    """
    shape = families.uniform(data.actions, states=data.states)
    return replace(shape, name="data", symmetric=False)


def fit_config(
    config: Config | None, data: Trajectories, family: Family | None, validation: float
) -> Config:
    """Return the config for training on trajectories; raise if it asks for something else.

    The settings that say how training games are played do not apply, and are set to those of
    play by learners, whose players explore nothing.
    """
    if config is None:
        options: dict[str, Any] = {"loss": "expert", "stop_on": "kl", "patience": 5}
        config = Config(rounds=data.rounds, contexts="learners", **options)
    if config.loss != "expert":
        hint = "for example Config(loss='expert', stop_on='kl')"
        raise InputError("loss", "'expert' with data", repr(config.loss), hint)
    if config.stages:
        raise InputError("stages", "none with data", config.stages)
    if config.noise != ("exact",):
        raise InputError("noise", "'exact' with data, which has its rewards", config.noise)
    if config.stop_on == "gap" and family is None:
        expected = "'kl' or 'cross-entropy' with data but no family of games"
        raise InputError("stop_on", expected, "'gap'")
    if config.stop_on == "kl" and validation == 0.0:
        raise InputError("validation", "a share above 0 with stop_on 'kl'", validation)
    plain = {name: getattr(Config, name) for name in ("exploration", "fixed_data")}
    rounds = min(config.rounds, data.rounds)
    return replace(config, rounds=rounds, contexts="learners", **plain)
