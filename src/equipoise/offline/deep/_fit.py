"""From logs to critics: the loop around the compiled rounds of training."""

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from equipoise.core import checks
from equipoise.core.precision import single_precision
from equipoise.core.randomness import as_key
from equipoise.offline._log import Log
from equipoise.offline.deep import _train
from equipoise.offline.deep._critics import Critics
from equipoise.offline.deep._files import save_critics
from equipoise.offline.deep._linear import fit_polynomials
from equipoise.offline.deep._mapping import side_by_side
from equipoise.offline.deep._networks import TermNetworks, all_scopes, make_network
from equipoise.offline.deep._rows import Data, Sizes, prepare
from equipoise.offline.deep._spec import Critic, LinearCritic
from equipoise.runs import Reached, Record, Run, resumable

#: How long the program runs between two looks at Ctrl-C, and how much a kill may lose.
_LOOK_SECONDS = 1.0
#: Rows that a log has at least: of fewer, too few are held out to judge anything by.
FEWEST = 20
#: Purposes of the keys that are made of the one given.
_SPLIT, _SCOPES, _WEIGHTS, _ORDER = range(4)


def fit(
    log: Log | Sequence[Log],
    critic: Critic | LinearCritic | None = None,
    *,
    key: Any,
    run: str | os.PathLike[str] | None = None,
    trials: int = 1,
    capacity: int | None = None,
) -> Critics:
    """Fit a critic of every agent's reward, all agents and trials in one program.

    Step 2 of Appendix B. With several `trials` the same log is fitted so many times, with other
    weights to begin with and other rows held out; with a sequence of logs, one trial each.

    With `run`, everything goes into a run folder: metrics, checkpoints, and in the end the
    critics. Called again with the same arguments, a run that was stopped goes on and ends with
    the same critics as if it had not been. Ctrl-C returns the best critics so far.

    With a `capacity` logs are padded to so many rows: logs of several lengths then share a
    compiled program. It changes no more than the random order of rows.

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
    if not isinstance(critic, Critic | LinearCritic):
        raise ValueError(f"critic: expected a Critic, found {type(critic).__name__}")
    if capacity is not None and checks.check_count("capacity", capacity) < logs[0].samples:
        raise ValueError(f"capacity: expected at least {logs[0].samples} rows, found {capacity}")
    if run is None:
        return _fit(logs, critic, key, None, capacity)[0]
    config = {
        "critic": critic,
        "kind": type(critic).__name__,
        "logs": [fingerprint(log) for log in logs],
        "key": np.asarray(jax.random.key_data(key)),
        "capacity": capacity,
    }
    if Path(run, "record.json").exists():
        with Run.open(run, config):
            return Critics.load(run)
    with Run.start(run, config) as folder:
        critics, complete = _fit(logs, critic, key, folder, capacity)
        if complete:
            save_critics(critics, folder.path)
            folder.finish(_record(critics, folder))
        return critics


def as_logs(given: Log | Sequence[Log], trials: int) -> list[Log]:
    """A log for every trial, all of one size."""
    trials = checks.check_count("trials", trials)
    if isinstance(given, Log):
        logs = [given] * trials
    else:
        logs = list(given)
        if trials not in (1, len(logs)):
            raise ValueError(f"trials: expected {len(logs)}, one for each log, found {trials}")
    for log in logs:
        if not isinstance(log, Log) or not log.continuous:
            raise ValueError("log: expected logs with continuous actions, found another")
        if Sizes.of(log) != Sizes.of(logs[0]) or log.samples != logs[0].samples:
            raise ValueError("log: expected logs of one size, found several")
    if not logs or logs[0].samples < FEWEST:
        found = logs[0].samples if logs else "no log"
        raise ValueError(f"log: expected at least {FEWEST} rows, found {found}")
    return logs


def fingerprint(log: Log) -> str:
    """A word that says which log this is."""
    digest = hashlib.sha256()
    for name in ("contexts", "actions", "rewards", "states", "next_states", "steps"):
        array = getattr(log, name)
        if array is not None:
            digest.update(name.encode() + np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:16]


def _fit(
    logs: list[Log],
    critic: Critic | LinearCritic,
    key: jax.Array,
    run: Run | None,
    capacity: int | None,
) -> tuple[Critics, bool]:
    if isinstance(critic, LinearCritic):
        return _fit_linear(logs, critic, jax.random.fold_in(key, _SPLIT)), True
    with single_precision():
        split = jax.random.fold_in(key, _SPLIT)
        data = prepare(logs, critic.validation, critic.standardise, split, capacity)
        sizes = Sizes.of(logs[0])
        networks = initial_networks(critic, sizes, len(logs), key)
        learners = _train.start(networks)
        frame = eqx.filter(networks, eqx.is_inexact_array, inverse=True)
        frame = jax.tree.map(lambda x: x[0], frame)  # scopes are those of every trial
        order = jax.random.fold_in(key, _ORDER)
        reached = _loop(learners, frame, data, order, critic, run)
        return _as_critics(reached.state, networks, data, critic, sizes), not reached.stopped


def initial_networks(critic: Critic, sizes: Sizes, trials: int, key: jax.Array) -> TermNetworks:
    """Random networks with axes (trials, agents)."""
    scopes = jnp.asarray(all_scopes(critic, sizes, jax.random.fold_in(key, _SCOPES)))
    # What has nothing to do with the weights need not compile another program.
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


def _loop(
    learners: _train.Learner,
    frame: Any,
    data: Data,
    key: jax.Array,
    critic: Critic,
    run: Run | None,
) -> Reached:
    """Rounds until all have stopped."""
    last, vectorised = _train.rounds_in_all(critic, data), side_by_side()

    def advance(learners: Any, step: int, until: int) -> tuple[Any, dict[str, Any]]:
        given = (frame, data, key, _train.Rule.of(critic, until))
        learners = jax.block_until_ready(_train.advance(given, learners, vectorised))
        active = int(_goes_on(learners, critic, last).sum())
        return learners, {"loss": float(learners.loss.mean()), "active": active}

    return resumable(
        run,
        learners,
        advance,
        last,
        name="fitting critics",
        look=_LOOK_SECONDS,
        marks=-(-last // 100),
        ended=lambda learners: not _goes_on(learners, critic, last).any(),
    )


def _goes_on(learners: _train.Learner, critic: Critic, last: int) -> np.ndarray:
    going = (np.asarray(learners.stale) < critic.patience) & (np.asarray(learners.round) < last)
    return going


def _as_critics(
    learners: _train.Learner, networks: TermNetworks, data: Data, critic: Critic, sizes: Sizes
) -> Critics:
    # Before there is any judgement, the weights that are there.
    judged = bool(np.isfinite(np.asarray(learners.loss)).any())
    weights = learners.best if judged else learners.weights
    rest = eqx.filter(networks, eqx.is_inexact_array, inverse=True)
    shift, scale = np.asarray(data.shift, np.float64), np.asarray(data.scale, np.float64)
    loss = np.asarray(learners.loss, np.float64)
    trained, total = int(data.trained), int(data.total)
    variance = np.asarray(data.rewards[:, trained:total], np.float64).var(1)
    return Critics(
        critic,
        sizes,
        eqx.combine(weights, rest),
        shift,
        scale,
        loss * scale**2,
        _part(loss, variance),
        np.asarray(learners.best_round),
        np.asarray(learners.round),
    )


def _fit_linear(logs: list[Log], critic: LinearCritic, key: jax.Array) -> Critics:
    sizes = Sizes.of(logs[0])
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
    zeros = np.zeros_like(validation)
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *models)
    unexplained = _part(validation, np.array(variances))
    none = zeros.astype(np.int32)
    return Critics(critic, sizes, stacked, zeros, zeros + 1.0, validation, unexplained, none, none)


def _part(loss: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """Losses as parts of the variance; where nothing varies, there is nothing to explain: 1."""
    return np.divide(loss, variance, out=np.ones_like(loss), where=variance > 0.0)


def _record(critics: Critics, run: Run) -> Record:
    names = ("validation", "unexplained", "best_round", "rounds")
    scalars = {
        "validation": float(critics.validation.mean()),
        "explained": float(critics.explained.mean()),
        "parameters": critics.parameters,
    }
    return Record("critics", run.config, scalars, {name: getattr(critics, name) for name in names})
