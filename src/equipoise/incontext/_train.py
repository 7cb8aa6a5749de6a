"""Pre-train players: the loop around the compiled training step."""

import os
import shutil
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from equipoise.core import InputError
from equipoise.core.devices import from_first_process
from equipoise.core.errors import named_arguments
from equipoise.core.files import write_text
from equipoise.core.randomness import as_key
from equipoise.core.streams import game_words
from equipoise.dynamics import Mean
from equipoise.games import MatrixGame
from equipoise.games.families import Family, ListedGames
from equipoise.incontext import _files as files
from equipoise.incontext._config import BEST, Config, check_config, check_play
from equipoise.incontext._contexts import as_tables, check_learners, gap_name, solved
from equipoise.incontext._imitation import Imitation
from equipoise.incontext._players import Players, initial_players
from equipoise.incontext._progress import (
    Progress,
    check_finite,
    chosen,
    first_progress,
    has_ended,
    improved,
    largest_weights,
)
from equipoise.incontext._step import (
    Trainer,
    TrainingSet,
    draw_variety,
    held_out_divergence,
    held_out_gaps,
    run_cycle,
)
from equipoise.runs import Reached, Record, Run, Table, resumable

#: Numbers that are folded into the given key, one per purpose.
_WEIGHTS, _SET, _HELD_OUT, _STEPS, _SCORE, _RECORDED = range(6)
#: Metrics of evaluations.
_HELD = {"gap", "held_out_kl"}


class HeldOut(eqx.Module):
    """Held-out games, and the random numbers with which they are played."""

    #: The games, with their equilibria if `stop_on` is the divergence from them.
    games: TrainingSet
    words: Any
    key: jax.Array


@dataclass(frozen=True, eq=False)
class _Task:
    """What `pretrain` does with games that it draws, or with data."""

    trainer: Trainer
    config: Config
    #: Description of the games or of the data, and further facts for the config of the run.
    described: dict[str, Any]
    facts: dict[str, Any]
    #: Trains in a run folder, if there is one.
    train: Callable[[Trainer, Run | None], Reached]
    #: Writes the players and the record of a finished training to the run folder.
    finish: Callable[[Run, Players, Progress], None]


@named_arguments
def pretrain(
    family: Family | None = None,
    config: Config | None = None,
    *,
    key: Any,
    run: str | os.PathLike[str] | None = None,
    start: Players | None = None,
    data: Any = None,
    validation: float | None = None,
) -> Players:
    """Train players on a family of games; they then play any game of it with frozen weights.

    With `run`, everything is written to a run folder: the config, metrics during training,
    checkpoints, and at the end the players, a record and a model card. If the run was stopped, the
    same call resumes it and ends with the same weights, bit for bit (on the same kind of machine),
    as an uninterrupted run. Ctrl-C returns the best players so far, and keeps them in the
    subfolder `best-so-far` of the run.

    With `start`, training begins with the weights of those players instead of random weights. Use
    it to continue training, or to adapt players to another family of the same shape.

    Training keeps the weights with the best held-out value: the NashConv after the last round on
    games that training never sees, or the divergence from the expert. In Markov games, NashConv in
    training is scaled: a mean over states, times `1 - discount`. It is smaller than the `nash_conv`
    of `evaluate`, which measures discounted sums in each player's worst state.

    **Training on data**

    With `data`, no game is played: the players imitate the expert on n fixed trajectories, as in
    Eq. (1) of the in-context paper. `Trajectories` describes what `data` can be: a file, a folder,
    arrays, or a function that yields pieces of data larger than memory. Every row is checked before
    training begins. A share of the trajectories, `validation` (default 0.1), is not learned from.
    The divergence from the expert on it selects the weights and stops training early
    (`stop_on="kl"`, `patience`). Trajectories are used up to round `config.rounds`. Settings of the
    training games (`contexts`, `learners`, `expert`, `exploration`, `training_games`,
    `fixed_data`) do not apply. The default config is
    `Config(loss="expert", stop_on="kl", patience=5)`. With a `family` besides, NashConv is measured
    on its games.

    **Example**

    >>> import equipoise as eq
    >>> family = eq.games.families.uniform(actions=2)
    >>> tiny = eq.incontext.Config(
    ...     rounds=4, layers=1, width=8, hidden=8, steps=4, batch=2, play_ahead=2, warmup=0,
    ...     held_out=4,
    ... )
    >>> eq.incontext.pretrain(family, tiny, key=0).actions
    (2, 2)
    >>> paper = eq.incontext.Config.paper(
    ...     rounds=4, expert="omd", layers=1, width=8, hidden=8, steps=4, batch=2, play_ahead=2
    ... )
    >>> data = eq.incontext.dataset(family, paper, games=20, key=0)
    >>> eq.incontext.pretrain(config=paper, data=data, key=0).actions
    (2, 2)
    """
    key = as_key(key)
    if data is not None:
        task = _on_data(data, family, config, 0.1 if validation is None else validation, key)
    elif family is None:
        raise InputError("family", "a Family of games", None, "or pass data")
    elif validation is not None:
        raise InputError("validation", "None without data", validation)
    else:
        task = _on_games(family, check_config(config, Config), key)
    trainer, config = task.trainer, task.config
    if start is not None:
        _check_start(start, trainer.players)
        trainer = eqx.tree_at(lambda t: t.players.models, trainer, start.models)
    if run is None:
        state = task.train(trainer, None).state
        return trainer.players.with_models(chosen(state, config))
    plain = {
        "family": task.described,
        "config": config,
        "key": np.asarray(jax.random.key_data(key)),
        "start": None if start is None else files.fingerprint(start),
        **task.facts,
    }
    # With several processes the first one writes the folder, and sends its content to the others.
    leads = jax.process_index() == 0
    with Run.start(run, plain) if leads else nullcontext() as folder:
        if from_first_process(folder is not None and folder.finished):
            saved = files.load(run) if leads else trainer.players
            return saved.with_models(from_first_process(saved.models))
        reached = task.train(trainer, folder)
        players = trainer.players.with_models(chosen(reached.state, config))
        if folder is None:
            return players
        if reached.stopped:
            files.save(players, folder.path / BEST, config, task.described)
        else:
            task.finish(folder, players, reached.state)
        return players


def _on_games(family: Family, config: Config, key: jax.Array) -> _Task:
    """Return the task of training on games of a family, which are played in training."""
    trainer, held_out = prepare(family, config, key)
    described = files.describe_family(family)

    def train(trainer: Trainer, run: Run | None) -> Reached:
        return _train(trainer, family, config, held_out, key, run)

    def finish(run: Run, players: Players, state: Progress) -> None:
        score = _score(players, family, config, key)
        results = {
            "held_out": score.value,
            "error": score.error,
            "measure": _measure(family, config),
        }
        scalars = {"gap on fresh games": float(score.value.mean())}
        _finish(run, players, config, described, state, results, scalars)

    return _Task(trainer, config, described, {}, train, finish)


def _on_data(
    data: Any, family: Family | None, config: Config | None, validation: float, key: jax.Array
) -> _Task:
    """Return the task of training on fixed trajectories."""
    config = None if config is None else check_config(config, Config)
    if family is not None and not isinstance(family, Family):
        raise InputError("family", "a Family of games", type(family).__name__)
    imitation = Imitation.prepare(
        data, family, config, validation, jax.random.fold_in(key, _RECORDED)
    )
    config, described = imitation.config, imitation.describe()
    measured = None if family is None else _gaps_of(imitation, family, key)

    def train(trainer: Trainer, run: Run | None) -> Reached:
        return imitation.train(trainer, run, measured)

    def finish(run: Run, players: Players, state: Progress) -> None:
        results, scalars = dict[str, Any](), dict[str, float]()
        if imitation.apart.size:
            value = imitation.divergence(imitation.trainer, players.models)
            chose = " that selected the weights" if config.stop_on == "kl" else ""
            measure = f"divergence from the expert on {imitation.apart.size:,} trajectories{chose}"
            results = {"held_out": value, "measure": measure}
            scalars["divergence on validation data"] = float(value.mean())
        if family is not None:
            score = _score(players, family, config, key)
            scalars["gap on fresh games"] = float(score.value.mean())
            measure = _measure(family, config)
            results = {"held_out": score.value, "error": score.error, "measure": measure}
        _finish(run, players, config, described, state, results, scalars)

    games = None if family is None else files.describe_family(family)
    facts = {"validation": validation, "games": games}
    return _Task(imitation.trainer, config, described, facts, train, finish)


def _gaps_of(imitation: Imitation, family: Family, key: jax.Array) -> Callable[[Any], np.ndarray]:
    """Return the function from weights to (seeds, games), the gaps on held-out games."""
    config = imitation.config
    games, words, _ = _unseen(family, config, jax.random.fold_in(key, _HELD_OUT))
    tables = as_tables(games)

    def gaps(models: Any) -> np.ndarray:
        players = imitation.trainer.players.with_models(models)
        return np.asarray(held_out_gaps(players, tables, words, config.rounds))

    return gaps


def prepare(family: Family, config: Config, key: jax.Array) -> tuple[Trainer, HeldOut]:
    """Return the trainer and the held-out games; raise early if training is impossible."""
    check_play(config)
    players = initial_players(family, config, key=jax.random.fold_in(key, _WEIGHTS))
    check_learners(config, family.states)
    needs_equilibria = config.needs_equilibria
    drawn, games = training_games(family, config, key), None
    if drawn is not None:
        games = training_set(drawn, needs_equilibria)
    elif needs_equilibria and family.states is not None:
        raise ValueError(
            "training_games: expected a number when the expert is the equilibrium of Markov games "
            "(which are solved in advance), found None"
        )
    trainer = stage_trainer(players, family, games, config)
    held_key = jax.random.fold_in(key, _HELD_OUT)
    held, words, variety = _unseen(family, config, held_key)
    unseen = training_set(held, needs_equilibria and config.stop_on == "kl", variety)
    return trainer, HeldOut(unseen, words, jax.random.fold_in(held_key, 2))


def stage_trainer(
    players: Players, family: Family, games: TrainingSet | None, config: Config, stage: int = 0
) -> Trainer:
    """Return the trainer of one stage of a config."""
    own, total = config.staged()[stage], jnp.float32(config.total_steps)
    if own.largest is not None:
        if getattr(family.rewards, "fewest", None) is None:
            raise InputError("largest", "None for a family of games of one size", own.largest)
        family = eqx.tree_at(
            lambda f: f.rewards, family, replace(family.rewards, largest=own.largest)
        )
    return Trainer(players, family, games, own, jax.default_backend(), total=total)


def training_set(games: Any, with_equilibria: bool, variety: Any = None) -> TrainingSet:
    """Return games as arrays, with their equilibria if needed."""
    return TrainingSet(as_tables(games), solved(games) if with_equilibria else None, variety)


def training_games(family: Family, config: Config, key: jax.Array) -> Any:
    """Draw the games of the training set; None if every step draws new games."""
    if config.training_games is None:
        return None
    return family.sample(config.training_games, key=jax.random.fold_in(key, _SET))


def step_key(key: jax.Array, step: int, config: Config) -> jax.Array:
    """Return the key of the cycle that begins after `step` updates, the same for fixed data."""
    return jax.random.fold_in(jax.random.fold_in(key, _STEPS), 0 if config.fixed_data else step)


def _check_start(start: Any, players: Players) -> None:
    if not isinstance(start, Players):
        raise InputError("start", "Players", type(start).__name__)
    sizes = [jax.tree.map(jnp.shape, p.models) for p in (players, start)]
    if sizes[0] != sizes[1] or start.tokens != players.tokens:
        raise ValueError(
            "start: expected players with the sizes, tokens and seeds of the config, "
            f"found {start.seeds} x {start.seats} models of {start.parameters} weights "
            f"instead of {players.seeds} x {players.seats} of {players.parameters}"
        )


def _train(
    trainer: Trainer,
    family: Family,
    config: Config,
    held_out: HeldOut,
    key: jax.Array,
    run: Run | None,
) -> Reached:
    """Run cycles until the last step of the last stage, a stopping rule, or Ctrl-C."""
    stride, total, stages = config.cycle, config.total_steps, config.staged()
    ends = np.cumsum([-(-stage.steps // stride) * stride for stage in stages])

    def trainer_at(step: int) -> Trainer:
        stage = int(np.searchsorted(ends, step, side="right"))
        return stage_trainer(trainer.players, family, trainer.games, config, stage)

    def cycle(state: Progress, step: int, until: int) -> tuple[Progress, dict[str, np.ndarray]]:
        learned, metrics = run_cycle(trainer_at(step), state.learned, step_key(key, step, config))
        state = eqx.tree_at(lambda s: (s.learned, s.step), state, (learned, jnp.int32(until)))
        row = {name: np.asarray(value).mean(1) for name, value in metrics.items()}
        check_finite(config, until, row)
        if step // config.evaluate_every != until // config.evaluate_every or until >= total:
            state, found = _evaluate(trainer, stages[-1], held_out, state)
            largest = largest_weights(state.learned.models)
            check_finite(config, until, {**found, "the largest weight": largest})
            row = {**found, **row}
        return state, row

    first, ended = first_progress(trainer), partial(has_ended, config=config)
    return resumable(run, first, cycle, total, name="pre-training", stride=stride, ended=ended)


def _evaluate(
    trainer: Trainer, config: Config, held_out: HeldOut, state: Progress
) -> tuple[Progress, dict[str, np.ndarray]]:
    """Play the held-out games, and keep the weights of the seeds that improved."""
    models, games = state.learned.models, held_out.games
    players = trainer.players.with_models(models)
    played = (games.tables, held_out.words, config.rounds, games.variety)
    gaps = held_out_gaps(players, *played)
    found = {"gap": np.asarray(gaps).mean(1)}
    if config.stop_on == "kl":
        found["held_out_kl"] = np.asarray(held_out_divergence(trainer, models, games, held_out.key))
    value = jnp.asarray(found.get("held_out_kl", found["gap"]), jnp.float32)
    return improved(state, value), found


def _unseen(family: Family, config: Config, key: jax.Array) -> tuple[Any, Any, Any]:
    """Draw held-out games, the random words with which they are played, and variety."""
    family, count = family.held_out, _held_out_games(family, config)
    games = family.sample(count, key=key)
    rewards = games.payoff if isinstance(games, MatrixGame) else games.reward
    if not (np.min(rewards) >= 0.0 and np.max(rewards) <= 1.0):
        found = f"[{np.min(rewards):.6g}, {np.max(rewards):.6g}]"
        raise InputError("family", "rewards in [0, 1]", found)
    keys = jax.vmap(lambda i: jax.random.fold_in(key, i))(jnp.arange(count))
    words = game_words(jax.random.split(jax.random.fold_in(key, 1), count))
    return games, words, draw_variety(family, config.staged()[-1], keys)


def _held_out_games(family: Family, config: Config) -> int:
    """Return the number of held-out games, which a list of games limits."""
    rewards = family.held_out.rewards
    return min(config.held_out, rewards.count if isinstance(rewards, ListedGames) else 2**31)


def _measure(family: Family, config: Config) -> str:
    chose = "selected" if isinstance(family.rewards, ListedGames) else "did not select"
    count = _held_out_games(family, config)
    gap = gap_name(family.states)
    return f"mean {gap} after the last round on {count:,} games that {chose} the weights"


def _score(players: Players, family: Family, config: Config, key: jax.Array) -> Mean:
    """Return the mean gap on fresh games."""
    games, words, variety = _unseen(family, config, jax.random.fold_in(key, _SCORE))
    rounds = config.staged()[-1].rounds
    return Mean.of(held_out_gaps(players, as_tables(games), words, rounds, variety))


def _finish(
    run: Run,
    players: Players,
    config: Config,
    described: dict[str, Any],
    state: Progress,
    measured: dict[str, Any],
    scalars: dict[str, float],
) -> None:
    """Write the players, the model card and the record."""
    results: dict[str, Any] = {"steps": int(state.step)}
    for name, value in measured.items():
        results[name] = value if isinstance(value, str) else np.round(value, 6).tolist()
    best = np.asarray(state.best_value, np.float64)
    results["best"] = best.round(6).tolist() if np.isfinite(best).all() else None
    results["parameters"] = players.parameters
    files.save(players, run.path, config, described, results)
    write_text(run.path / files.CARD, files.model_card(described, config, results))
    # The loss is logged in every cycle, other measures only at evaluations.
    every = list(run.metrics())
    metrics = [row for row in every if _HELD & set(row)] or every[-1:]
    names = ["loss", *(name for name in ("gap", "held_out_kl") if name in metrics[-1])]
    arrays = {name: np.array([row[name] for row in metrics]) for name in ("step", *names)}
    rows = [(r["step"], *(float(np.mean(r[name])) for name in names)) for r in metrics]
    scalars = {"steps": results["steps"], **scalars}
    if results["best"] is not None:
        scalars["best held-out value"] = float(np.mean(results["best"]))
    shutil.rmtree(run.path / BEST, ignore_errors=True)  # left by an interruption
    curve = Table(("step", *names), rows)
    run.finish(Record("pretrain", run.config, scalars, arrays, {"curve": curve}))
