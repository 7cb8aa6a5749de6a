"""Learn a near-equilibrium of very many agents from a simulator: the public call."""

import os
import time
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from equipoise.aggregative._subroutine import OBJECTIVES, as_options, as_worth
from equipoise.aggregative.learning._grid import grids_of
from equipoise.aggregative.learning._learner import LONGEST, PARTS, Best, Curves, Goal, Learner
from equipoise.aggregative.learning._planner import Planner
from equipoise.aggregative.learning._printed import PrintedPlanner, printed_grids
from equipoise.aggregative.learning._radii import Radii
from equipoise.aggregative.learning._result import Learned, as_record, conclude, from_record
from equipoise.aggregative.learning._samples import Samples
from equipoise.aggregative.learning._spec import Spec, as_spec, check_rewards
from equipoise.core import checks
from equipoise.runs import Run, resumable


@dataclass(frozen=True)
class Settings:
    """What was asked for, checked; with the spec's numbers it is the config of a run."""

    episodes: int
    rewards: str
    objective: str
    spacing: float
    noise: float
    pool: bool
    scouts: int | None
    bonus: float
    failure: float
    form: str
    key: int


def learn(
    env: Any,
    episodes: int,
    *,
    spec: Any = None,
    rewards: str = "known",
    objective: str = "regret",
    welfare: Any = None,
    loss: Any = None,
    spacing: float | None = None,
    noise: float = 0.0,
    pool: bool = True,
    scouts: int | None = None,
    bonus: float = 1.0,
    failure: float = 0.05,
    form: str = "corrected",
    run: str | os.PathLike[str] | None = None,
    history: bool = False,
    key: int = 0,
) -> Learned:
    """Play episodes, and return a pure near-Nash policy with what the samples prove of it.

    Algorithm 3 of the paper (known rewards), and Algorithm 4 (unknown rewards), which it leaves
    undone; docs/theory/aggregative-learning.md has the guarantees and what differs from print.
    The learner uses `env.reset()`, `env.step(actions)` and the declared `spec` (that of the
    environment unless given), nothing else. An environment with `seek(episode)` lets a run that
    was stopped go on as if it had not been; one with a `config` has it in that of the run.

    - `rewards`: "known" takes `spec.reward`; "unknown" learns them from what agents get.
    - `objective`, `welfare`, `loss`: as for `equipoise.solve`; "regret" is any equilibrium.
    - `spacing`: side of the cells in which samples are counted; a twentieth of the widest side of
      the reachable aggregates unless given.
    - `noise`: of rewards as seen, a standard deviation (sub-Gaussian); 0 if they are exact.
    - `pool`: whether agents of a type share what they saw. `scouts`: how many agents at once try
      what their type does not play, when rewards are unknown; by default as many as hardly move
      the aggregate, 0 for none.
    - `failure`: with probability 1 - `failure` or more all bounds hold together. `bonus`
      multiplies the confidence radii; below 1 nothing is proven.
    - `form="printed"`: Algorithm 3 as printed, to compare with.
    - `run`: a folder to keep the run in; the same call again resumes it, or reads what is
      finished. Ctrl-C returns the best policy so far. `history` keeps every policy played.

    **Example**

    >>> import equipoise as eq
    >>> city = eq.games.load("demand-response", agents=200)
    >>> env = eq.aggregative.Simulator(city, key=0)
    >>> run = eq.aggregative.learn(env, episodes=100, rewards="unknown")
    >>> bool(eq.certify(city, run.policy).max_gain < 0.05), run.status.name
    (True, <Outcome.LEARNED: 'learned'>)
    """
    spec = as_spec(env, spec)
    settings = _settings(
        spec, episodes=episodes, rewards=rewards, objective=objective, spacing=spacing,
        noise=noise, pool=pool, scouts=scouts, bonus=bonus, failure=failure, form=form, key=key,
    )  # fmt: skip
    if history and run is not None:
        raise ValueError("history: expected no run folder with it, found one")
    learner = _make_learner(env, spec, settings, welfare, loss, history)
    confidence = 1.0 - failure if bonus >= 1 and form == "corrected" else 0.0
    if run is None:
        return _go(learner, settings, confidence, None)
    config = {
        **asdict(settings),
        "game": _facts(spec, welfare, loss),
        "env": getattr(env, "config", {}),
    }
    with Run.start(run, config) as folder:
        if folder.finished:
            return from_record(folder.record())
        learned = _go(learner, settings, confidence, folder)
        if learned.episodes == settings.episodes:
            folder.finish(as_record(learned, config))
        return learned


def _settings(spec: Spec, **given: Any) -> Settings:
    episodes = checks.check_count("episodes", given["episodes"])
    check_rewards(given["rewards"], spec)
    if given["objective"] not in OBJECTIVES:
        raise ValueError(f"objective: expected one of {OBJECTIVES}, found {given['objective']!r}")
    for name, low in (("noise", 0.0), ("bonus", 0.0)):
        checks.check_range(name, given[name], low, np.inf, high_open=True)
    checks.check_range("failure", given["failure"], 0.0, 1.0, low_open=True, high_open=True)
    if given["form"] not in ("corrected", "printed"):
        raise ValueError(f"form: expected 'corrected' or 'printed', found {given['form']!r}")
    if given["form"] == "printed" and given["rewards"] == "unknown":
        raise ValueError("form: expected known rewards with 'printed', since no other is printed")
    if given["scouts"] is not None:
        checks.check_count("scouts", given["scouts"], at_least=0)
    if given["scouts"] and not given["pool"]:
        raise ValueError("scouts: expected pool=True with them, since they report to their type")
    checks.check_count("key", given["key"], at_least=0)
    if given["spacing"] is None:
        boxes = [spec.box(h, s) for h in range(spec.horizon) for s in range(spec.states)]
        given["spacing"] = 0.05 * max(float((high - low).max()) for low, high in boxes) or 1.0
    checks.check_range("spacing", given["spacing"], 0.0, np.inf, low_open=True, high_open=True)
    return Settings(**{**given, "episodes": episodes, "spacing": float(given["spacing"])})


def _make_learner(
    env: Any, spec: Spec, settings: Settings, welfare: Any, loss: Any, history: bool
) -> Learner:
    known, printed = settings.rewards == "known", settings.form == "printed"
    shape = (spec.horizon, spec.states, spec.types, spec.actions)
    worth = as_worth(settings.objective, welfare, loss, shape, "(horizon, states, agents, actions)")
    if worth is not None and settings.objective == "loss":
        worth = -worth
    spec, origin = spec if known else spec.unrewarded(), None
    if printed or not settings.pool:
        origin = np.repeat(np.arange(spec.types), spec.counts)
        worth = None if worth is None else np.repeat(worth, spec.counts, axis=-2)
        spec = spec.one_by_one()
    options = as_options(
        max(float((high - low).max()) for low, high in [spec.box(0, 0)]),
        objective=settings.objective if settings.objective == "regret" else "welfare",
        sense="max", spacing=settings.spacing, epsilon=0.0,
        slack="printed" if printed else None,
        rounding="sample" if printed else "vertex", key=settings.key,
    )  # fmt: skip
    grids = (printed_grids if printed else grids_of)(spec, settings.spacing)
    cells = max(len(grid.centres) for grid in grids.values())
    planner: Any
    if printed:
        planner = PrintedPlanner(
            spec, grids, options, worth, episodes=settings.episodes, bonus=settings.bonus,
            failure=settings.failure, key=settings.key,
        )  # fmt: skip
    else:
        radii = Radii.of(
            spec, cells, settings.episodes, noise=0.0 if known else settings.noise,
            bonus=settings.bonus, failure=settings.failure,
        )  # fmt: skip
        planner = Planner(spec, grids, options, radii, worth, known=known)
    stages = (spec.horizon, spec.states)
    return Learner(
        env=env,
        spec=spec,
        grids=grids,
        planner=planner,
        samples=Samples.empty(spec, cells, rewards=not known),
        curves=Curves.empty(settings.episodes),
        best=Best(
            plays=np.zeros((*stages, spec.types, spec.actions), np.int64),
            aggregate=np.zeros((*stages, spec.dimensions)),
            cell=np.zeros(stages, np.int64),
        ),
        scouts=settings.scouts,
        goal=Goal(learns_rewards=not known, selects=settings.objective != "regret" and not printed),
        eager=printed,
        planned_credit=not printed,
        origin=origin,
        history=[] if history else None,
    )


def _go(learner: Learner, settings: Settings, confidence: float, folder: Run | None) -> Learned:
    """Play the episodes that are missing; what is kept on disk is kept between parts."""
    started = time.perf_counter()
    part = min(-(-settings.episodes // PARTS), LONGEST)
    if folder is not None and folder.step:
        learner.restore(folder.restore(learner.state()))
    seek = getattr(learner.env, "seek", None)
    if seek is not None:
        seek(learner.episode)

    def play(_: Any, step: int, until: int) -> tuple[Any, dict[str, Any]]:
        if step % part == 0:
            # From here on all is a function of the samples: this is a place to resume from.
            learner.replan(all_menus=True)
        learner.play()
        width, bound = learner.curves.width[step], learner.curves.bound[step]
        return learner.state(), {"width": width, "bound": bound, "plans": learner.plans}

    resumable(
        folder,
        learner.state(),
        play,
        settings.episodes,
        name="learning",
        marks=part,
        anywhere=False,
    )
    return conclude(learner, settings.episodes, confidence, time.perf_counter() - started)


def _facts(spec: Spec, welfare: Any, loss: Any) -> dict[str, Any]:
    """What tells one game from another in the config of a run, as far as it is declared."""
    given = {"welfare": welfare, "loss": loss}
    worth = {k: float(np.sum(np.asarray(v))) for k, v in given.items() if v is not None}
    return {
        "types": spec.types,
        "agents": spec.agents,
        "actions": spec.actions,
        "dimensions": spec.dimensions,
        "horizon": spec.horizon,
        "states": spec.states,
        "lipschitz": spec.lipschitz,
        "transition_lipschitz": spec.transition_lipschitz,
        "bounds": list(spec.bounds),
        "starts": list(spec.starts),
        "influence": float(np.sum(spec.influence)),
        **worth,
    }
