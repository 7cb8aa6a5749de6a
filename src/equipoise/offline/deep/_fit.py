"""Fit critics to logs: least squares for all agents of all trials in one compiled program.

Training proceeds in rounds. A round is an epoch, or a single step if patience is counted in steps.
After every round the held-out rows are predicted, and each agent keeps the weights with the
smallest held-out loss. Every agent stops on its own.
"""

import os
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int

from equipoise.core import InputError, checks
from equipoise.core.devices import chosen, from_all_processes
from equipoise.core.errors import named_arguments
from equipoise.core.precision import single_precision
from equipoise.core.randomness import as_key
from equipoise.offline._log import Log
from equipoise.offline.deep._critics import Critics
from equipoise.offline.deep._kernels import fit_kernels
from equipoise.offline.deep._networks import TermNetworks, all_scopes, fit_polynomials, make_network
from equipoise.offline.deep._rows import Data, Sizes, over_agents, prepare, side_by_side
from equipoise.offline.deep._spec import Critic, KernelCritic, LinearCritic
from equipoise.runs import Format, Reached, Record, Run, kept, resumable

#: Seconds between two checks for Ctrl-C, and the work that a kill may lose.
_LOOK_SECONDS = 1.0
#: Smallest number of rows of a log. With fewer, the held-out rows are too few to judge critics.
FEWEST = 20
#: Purposes of the keys that are derived from the given key.
_SPLIT, _SCOPES, _WEIGHTS, _ORDER = range(4)


class Learner(eqx.Module):
    """Training state of one agent's critic; axes (trials, agents) come before those named."""

    #: The arrays of a `TermNetworks`; everything else is None.
    weights: Any
    moments: Any
    best: Any
    #: Held-out loss of `best`, and the round in which it was reached.
    loss: Float[Array, "*axes"]
    best_round: Int[Array, "*axes"]
    #: Number of rounds since then, and total number of rounds.
    stale: Int[Array, "*axes"]
    round: Int[Array, "*axes"]


@named_arguments
def fit(
    log: Log | Sequence[Log],
    critic: Critic | LinearCritic | KernelCritic | None = None,
    *,
    key: Any,
    run: str | os.PathLike[str] | None = None,
    trials: int = 1,
    capacity: int | None = None,
) -> Critics:
    """Fit a critic of every agent's reward, all agents and trials in one program.

    This is step 2 of Appendix B. `trials` is the number of times that the log is fitted, each time
    with different initial weights and held-out rows. With a sequence of logs, each log is one
    trial.

    Numeric contexts and numeric local states of the log enter networks as they are: scale them to
    about -1 to 1.

    With `run`, a run folder keeps metrics, checkpoints and finally the critics. If a run was
    stopped, the same call resumes it and returns the same critics as an uninterrupted run. Ctrl-C
    returns the best critics so far.

    With `capacity`, logs are padded to this many rows, so that logs of different lengths share a
    compiled program. Padding changes only the random order of rows.

    **Example**

    >>> import numpy as np, equipoise as eq
    >>> actions = np.random.default_rng(0).uniform(-1, 1, (300, 3))
    >>> log = eq.offline.Log(np.zeros(300, int), actions, actions**2, continuous=True)
    >>> critics = eq.offline.deep.fit(log, eq.offline.deep.Critic(1, epochs=20), key=0)
    >>> critics.validation.shape, bool((critics.explained > 0.5).all())
    ((1, 3), True)
    """
    critic = Critic() if critic is None else critic
    logs = as_logs(log, trials)
    key = as_key(key)
    if not isinstance(critic, Critic | LinearCritic | KernelCritic):
        raise InputError("critic", "a Critic", type(critic).__name__)
    if logs[0].numeric and not isinstance(critic, Critic):
        raise InputError("critic", f"networks (Critic) for a log with {logs[0].numeric}", critic)
    if capacity is not None and checks.check_count("capacity", capacity) < logs[0].samples:
        raise InputError("capacity", f"at least {logs[0].samples} rows", capacity)
    return in_folder(
        run,
        {"critic": critic, "kind": type(critic).__name__, "capacity": capacity},
        logs,
        key,
        lambda folder: _fit(logs, critic, key, folder, capacity),
        Critics,
    )


def in_folder(
    run: str | os.PathLike[str] | None,
    config: dict[str, Any],
    logs: list[Log],
    key: jax.Array,
    work: Callable[[Run | None], tuple[Any, bool]],
    kind: Any,
) -> Any:
    """Return the result of `work`, which says if it is complete, or read it from its folder."""

    def settings() -> dict[str, Any]:
        prints, words = [log.fingerprint() for log in logs], np.asarray(jax.random.key_data(key))
        return config | {"logs": prints, "key": words}

    def write(found: tuple[Any, bool], folder: Run) -> Record | None:
        result, complete = found
        if not complete:
            return None
        result.save(folder.path)
        return Record(kind.__name__.lower(), folder.config, *result.record())

    return kept(run, settings, work, Format(lambda folder: (kind.load(folder.path), True), write))[
        0
    ]


def as_logs(given: Log | Sequence[Log], trials: int) -> list[Log]:
    """Return one log per trial, all of the same size."""
    trials = checks.check_count("trials", trials)
    if isinstance(given, Log):
        logs = [given] * trials
    else:
        logs = list(given)
        if trials not in (1, len(logs)):
            raise ValueError(f"trials: expected {len(logs)}, one per log, found {trials}")
    for log in logs:
        if not isinstance(log, Log) or not log.continuous:
            raise ValueError("log: expected logs with continuous actions, found discrete actions")
        if Sizes.of(log) != Sizes.of(logs[0]) or log.samples != logs[0].samples:
            raise ValueError("log: expected logs of equal size, found several sizes")
    if not logs or logs[0].samples < FEWEST:
        found = logs[0].samples if logs else "no log"
        raise ValueError(f"log: expected at least {FEWEST} rows, found {found}")
    return logs


def _fit(
    logs: list[Log],
    critic: Critic | LinearCritic | KernelCritic,
    key: jax.Array,
    run: Run | None,
    capacity: int | None,
) -> tuple[Critics, bool]:
    split, sizes = jax.random.fold_in(key, _SPLIT), Sizes.of(logs[0])
    if isinstance(critic, KernelCritic):
        return _fit_kernels(logs, critic, sizes, split, run)
    if isinstance(critic, LinearCritic):
        return _fit_linear(logs, critic, sizes, split), True
    with single_precision():
        data = prepare(logs, critic.validation, critic.standardise, split, capacity)
        networks = initial_networks(critic, sizes, len(logs), key)
        frame = eqx.filter(networks, eqx.is_inexact_array, inverse=True)
        given = (
            jax.tree.map(lambda x: x[0], frame),  # all trials share the scopes
            data,
            jax.random.fold_in(key, _ORDER),
        )
        reached = _loop(start_learners(networks), given, critic, run)
        return _as_critics(reached.state, frame, data, critic, sizes), not reached.stopped


def initial_networks(critic: Critic, sizes: Sizes, trials: int, key: jax.Array) -> TermNetworks:
    """Random networks with axes (trials, agents)."""
    scopes = jnp.asarray(all_scopes(critic, sizes, jax.random.fold_in(key, _SCOPES)))
    # Drop settings that do not affect the weights, so that programs are not compiled again.
    bare = Critic(
        critic.rank, critic.width, critic.depth, critic.shared, embedding=critic.embedding
    )
    return _random_networks(
        jax.random.fold_in(key, _WEIGHTS), jnp.arange(trials), scopes, bare, sizes
    )


@eqx.filter_jit
def _random_networks(
    key: jax.Array, trials: jax.Array, scopes: jax.Array, critic: Critic, sizes: Sizes
) -> TermNetworks:
    def one(trial: Any, agent: Any, scope: Any) -> TermNetworks:
        own = jax.random.fold_in(jax.random.fold_in(key, trial), agent)
        return make_network(critic, sizes, scope, own)

    agents = jnp.arange(sizes.agents)
    return jax.vmap(lambda t: jax.vmap(one, (None, 0, 0))(t, agents, scopes))(trials)


def _loop(learners: Learner, given: tuple[Any, ...], critic: Critic, run: Run | None) -> Reached:
    """Train until all agents have stopped."""
    by_step, data = critic.patience_unit == "steps", given[1]
    epoch = max(1, int(data.trained) // critic.batch)  # whole batches, but at least one
    last = critic.epochs * (epoch if by_step else 1)

    def active(learners: Any) -> int:
        return int(((learners.stale < critic.patience) & (learners.round < last)).sum())

    def advance(learners: Any, step: int, until: int) -> tuple[Any, dict[str, Any]]:
        rule = Rule(
            jnp.float32(critic.learning_rate),
            jnp.int32(critic.patience),
            jnp.int32(until),
            critic.batch,
            by_step,
        )
        learners = jax.block_until_ready(_advance_everywhere((*given, rule), learners))
        return learners, {"loss": float(learners.loss.mean()), "active": active(learners)}

    return resumable(
        run,
        learners,
        advance,
        last,
        name="fitting critics",
        look=_LOOK_SECONDS,
        marks=-(-last // 100),
        ended=lambda learners: not active(learners),
    )


def _advance_everywhere(given: tuple[Any, ...], learners: Learner) -> Learner:
    """Run `advance_learners` with the independent agents split over devices and processes.

    Every device has the same number of agents, so that all run one program. The last agents may be
    duplicated.
    """
    agents, processes = learners.loss.shape[1], jax.process_count()
    here = chosen()[: max(1, agents // processes)]
    every = len(here) * processes
    if every == 1:
        return advance_learners(given, learners, side_by_side())
    frame, data, key, rule = given
    size = -(-agents // every)
    found = []
    for number, device in enumerate(here):
        first = size * (number + len(here) * jax.process_index())
        own = np.minimum(np.arange(first, first + size), agents - 1)
        rewards = eqx.tree_at(lambda d: d.rewards, data, data.rewards[:, :, own])
        part = jax.tree.map(lambda leaf, own=own: leaf[own], frame)
        mine = jax.tree.map(lambda leaf, own=own: leaf[:, own], learners)
        moved = jax.device_put((part, rewards, key, rule, mine), device)
        found.append(advance_learners(moved[:-1], moved[-1], side_by_side()))
    there = [jax.tree.map(np.asarray, one) for one in found]
    mine = jax.tree.map(lambda *parts: np.concatenate(parts, 1), *there)
    every = from_all_processes(mine)
    return jax.tree.map(lambda *x: jnp.asarray(np.concatenate(x, 1)[:, :agents]), *every)


def _as_critics(learners: Learner, frame: Any, data: Data, critic: Critic, sizes: Sizes) -> Critics:
    # Before the first evaluation, use the current weights.
    loss = np.asarray(learners.loss, np.float64)
    weights = learners.best if np.isfinite(loss).any() else learners.weights
    shift, scale = np.asarray(data.shift, np.float64), np.asarray(data.scale, np.float64)
    held = data.rewards[:, int(data.trained) : int(data.total)]
    return Critics(
        critic,
        sizes,
        eqx.combine(weights, frame),
        shift,
        scale,
        loss * scale**2,
        _part(loss, np.asarray(held, np.float64).var(1)),
        np.asarray(learners.best_round),
        np.asarray(learners.round),
    )


def _fit_linear(logs: list[Log], critic: LinearCritic, sizes: Sizes, key: jax.Array) -> Critics:
    words = np.asarray(jax.random.key_data(key)).ravel().tolist()
    models, errors, variances = [], [], []
    for trial, log in enumerate(logs):
        order = np.random.default_rng([*words, trial]).permutation(log.samples)
        held, trained = np.split(order, [max(1, log.samples // 5)])
        with single_precision():
            model, error = fit_polynomials(log, critic, sizes, trained, held)
        models.append(model)
        errors.append(error)
        variances.append(np.asarray(log.rewards[held], np.float64).var(0))
    validation = np.array(errors)
    zeros, none = np.zeros(validation.shape), np.zeros(validation.shape, np.int32)
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *models)
    unexplained = _part(validation, np.array(variances))
    return Critics(critic, sizes, stacked, zeros, zeros + 1.0, validation, unexplained, none, none)


def _fit_kernels(
    logs: list[Log], critic: KernelCritic, sizes: Sizes, key: jax.Array, run: Run | None
) -> tuple[Critics, bool]:
    """Fit Gaussian processes; held-out errors are those of rows predicted from all others."""
    words = np.asarray(jax.random.key_data(key)).ravel().tolist()
    models, errors, complete = fit_kernels(logs, critic, sizes, words, run)
    rewards = np.stack([np.asarray(log.rewards, np.float64) for log in logs])
    scale, none = np.maximum(rewards.std(1), 1e-12), np.zeros(errors.shape, np.int32)
    part = _part(errors, np.where(rewards.std(1) > 0, 1.0, 0.0))
    validation = errors * scale**2
    return (
        Critics(critic, sizes, models, rewards.mean(1), scale, validation, part, none, none),
        complete,
    )


def _part(loss: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """Losses as fractions of the variance; 1 if the rewards do not vary."""
    return np.divide(loss, variance, out=np.ones_like(loss), where=variance > 0.0)


def start_learners(networks: TermNetworks) -> Learner:
    """Initial training state; `networks` has axes (trials, agents)."""
    weights = eqx.filter(networks, eqx.is_inexact_array)
    shape = networks.weights[0].shape[:2]
    moments = eqx.filter_jit(jax.vmap(jax.vmap(optax.adam(0.0).init)))(weights)
    # Every leaf needs its own buffer, since all of them are donated to `advance_learners`.
    weights, best = jax.tree.map(jnp.copy, weights), jax.tree.map(jnp.copy, weights)
    zeros = [jnp.zeros(shape, jnp.int32) for _ in range(3)]
    return Learner(weights, moments, best, jnp.full(shape, jnp.inf), *zeros)


class Rule(eqx.Module):
    """Training and stopping rule, as traced numbers, so that one program serves many rules."""

    learning_rate: Float[Array, ""]
    patience: Int[Array, ""]
    #: Largest number of rounds.
    until: Int[Array, ""]
    batch: int = eqx.field(static=True)
    by_step: bool = eqx.field(static=True)


@eqx.filter_jit(donate="all-except-first")
def advance_learners(
    given: tuple[Any, Data, jax.Array, Rule], learners: Learner, vectorised: bool
) -> Learner:
    """Train until every learner has stopped or reached `rule.until`; the old buffers are donated.

    `given` contains the structure that holds the weights (`TermNetworks` of each agent without
    arrays), the rows, the key that shuffles them, and the rule.
    """
    frame, data, key, rule = given
    trials, capacity, _ = data.rewards.shape
    trained, total, batch = data.trained, data.total, min(rule.batch, capacity)
    keys = jax.vmap(lambda t: jax.random.fold_in(key, t))(jnp.arange(trials))
    rewards = jnp.moveaxis(data.rewards, 2, 1)  # trials, agents, rows

    def one(own: Any, trial: Any, frame: Any) -> Learner:
        (learner, targets), (rows, key) = own, trial
        epoch_steps = jnp.maximum(trained // rule.batch, 1)

        def error(weights: Any, index: Array, counted: Array) -> Array:
            network = eqx.combine(weights, frame)
            wrong = network(rows.take(index)) - targets[index]
            return jnp.where(counted, wrong**2, 0.0).sum()

        def step(number: Array, carry: Any, order: Array) -> Any:
            weights, moments = carry
            index = jax.lax.dynamic_slice(order, (number * batch,), (batch,))
            counted = number * batch + jnp.arange(batch) < trained
            gradient = jax.grad(lambda w: error(w, index, counted) / counted.sum())(weights)
            updates, moments = optax.adam(rule.learning_rate).update(gradient, moments, weights)
            return eqx.apply_updates(weights, updates), moments

        def held_out(weights: Any) -> Array:
            def block(number: Array, sum_so_far: Array) -> Array:
                index = trained + number * batch + jnp.arange(batch)
                safe = jnp.minimum(index, capacity - 1)
                return sum_so_far + error(weights, safe, index < total)

            blocks = (total - trained + batch - 1) // batch
            return jax.lax.fori_loop(0, blocks, block, jnp.zeros(())) / (total - trained)

        def one_round(state: Learner) -> Learner:
            epoch = state.round // epoch_steps if rule.by_step else state.round
            # Training rows in random order; all other rows come after them.
            chance = jax.random.uniform(jax.random.fold_in(key, epoch), (capacity,))
            chance = jnp.where(jnp.arange(capacity) < trained, chance, 2.0)
            order = jnp.argsort(chance).astype(jnp.int32)
            carry = (state.weights, state.moments)
            if rule.by_step:
                weights, moments = step(state.round % epoch_steps, carry, order)
            else:  # a fixed number of steps
                weights, moments = jax.lax.fori_loop(
                    0, epoch_steps, lambda n, c: step(n, c, order), carry
                )
            loss = held_out(weights)
            better = loss < state.loss
            best = jax.tree.map(lambda new, old: jnp.where(better, new, old), weights, state.best)
            after = state.round + 1
            return Learner(
                weights,
                moments,
                best,
                jnp.where(better, loss, state.loss),
                jnp.where(better, after, state.best_round),
                jnp.where(better, 0, state.stale + 1),
                after,
            )

        def goes_on(state: Learner) -> Array:
            return (state.round < rule.until) & (state.stale < rule.patience)

        return jax.lax.while_loop(goes_on, one_round, learner)

    return over_agents(one, vectorised)((learners, rewards), (data.rows, keys), frame)
