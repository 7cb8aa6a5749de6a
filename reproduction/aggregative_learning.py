"""Gap, certificate and welfare against episodes: an experiment that the aggregative paper lacks.

The game is small and random (S = H = 3, 50 agents of a few types), with several seeds. With known
rewards, the corrected Algorithm 3 is compared with the printed one, for any equilibrium and for the
best. With unknown rewards, the completed Algorithm 4 runs with each agent alone, pooled by type,
with scouts, and with noise. Gaps and welfare are exact: `certify` computes them in the true game,
which no learner sees.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from equipoise import aggregative
from equipoise.certificates import certify
from equipoise.games import AggregativeMarkovGame
from equipoise.runs import Record, Table
from reproduction._drawing import draw_band, finish, make_panels

__all__ = ["LEARNERS", "Config", "plot", "run", "small_game", "violations"]

#: Name -> options of `learn`. The option noise also applies to the simulated rewards.
LEARNERS: dict[str, dict[str, Any]] = {
    "known": {},
    "known, welfare": {"objective": "welfare"},
    "printed": {"form": "printed"},
    "printed, rewards in [0, 1]": {"form": "printed-rescaled"},
    "unknown, scouts": {"rewards": "unknown"},
    "unknown, pooled": {"rewards": "unknown", "scouts": 0},
    "unknown, each alone": {"rewards": "unknown", "pool": False, "scouts": 0},
    "unknown, welfare": {"rewards": "unknown", "objective": "welfare"},
    "unknown, noise 0.3": {"rewards": "unknown", "noise": 0.3},
}

#: Learners whose bounds `coverage` checks.
COVERED = ("known", "known, welfare", "unknown, scouts", "unknown, noise 0.3")

#: Learners whose bounds on values are those of the paper; the figure has the first.
PRINTED = tuple(name for name in LEARNERS if name.startswith("printed"))

#: Measures that are recorded for a learner.
MEASURES = ("gap", "certificate", "bound", "welfare")


@dataclass(frozen=True)
class Config:
    """Settings of the experiment. The default takes about four minutes on two cores.

    >>> Config().seeds
    8
    """

    #: Number of agents.
    agents: int = 50
    #: Number of types of agents.
    types: int = 5
    #: Number of states.
    states: int = 3
    #: Number of steps.
    horizon: int = 3
    #: Number of actions.
    actions: int = 3
    #: Side of the cells.
    spacing: float = 0.05
    #: Numbers of episodes after which policies are evaluated.
    episodes: tuple[int, ...] = (10, 30, 100, 300, 1000)
    #: Episodes of the printed form, which plans in every episode, one agent at a time.
    printed_episodes: int = 100
    #: Names of the learners, from `LEARNERS`.
    learners: tuple[str, ...] = tuple(name for name in LEARNERS if name not in PRINTED[1:])
    #: Number of random games.
    seeds: int = 8

    @classmethod
    def quick(cls) -> "Config":
        """Return a shorter config with fewer seeds.

        >>> Config.quick().episodes
        (10, 30, 100)
        """
        return cls(episodes=(10, 30, 100), printed_episodes=30, seeds=2)


def small_game(
    config: Config, seed: int, *, dimensions: int = 1, own_part: float = 0.5
) -> AggregativeMarkovGame:
    """Return a random game that is linear in the aggregate, with exact Lipschitz constants.

    `own_part` is the largest part of a reward that does not depend on the aggregate, which has
    `dimensions` coordinates.

    **Example**

    >>> from reproduction import aggregative_learning as paper
    >>> game = paper.small_game(paper.Config(), seed=0)
    >>> game.agents, game.types, game.states, game.horizon
    (50, 5, 3, 3)
    """
    rng = np.random.default_rng(seed)
    shape = (config.horizon, config.states, config.types, config.actions)
    d = dimensions
    influence = rng.random((config.types, config.actions, d))
    base = own_part * rng.uniform(-1.0, 1.0, shape)
    slopes = rng.uniform(-0.5, 0.5, (*shape, d)) / d
    # Each coordinate moves the transitions from calm ones towards busy ones of its own.
    calm, *busy = rng.dirichlet(np.ones(config.states), (1 + d, config.horizon, config.states))
    moves = (np.stack(busy, -2) - calm[..., None, :]) / d
    counts = np.full(config.types, config.agents // config.types)
    counts[: config.agents % config.types] += 1
    return AggregativeMarkovGame(
        influence,
        lambda h, s, x: base[h, s] + slopes[h, s] @ x,
        lambda h, s, x: calm[h, s] + x @ moves[h, s],
        config.horizon,
        config.states,
        counts,
        lipschitz=0.5,
        transition_lipschitz=float(0.5 * np.abs(moves).sum((-2, -1)).max()),
    )


def run(config: Config, key: int = 0) -> Record:
    """Run every learner, seed and number of episodes. Gaps and welfare are exact.

    **Example**

    >>> from reproduction import aggregative_learning as paper
    >>> small = paper.Config(episodes=(5,), learners=("known", "unknown, scouts"), seeds=1)
    >>> record = paper.run(small)
    >>> record.arrays["known/gap"].shape, record.tables["results"].columns[:3]
    ((1, 1), ('learner', 'episodes', 'seeds'))
    """
    arrays: dict[str, np.ndarray] = {}
    rows: list[dict[str, Any]] = []
    games = [small_game(config, key + seed) for seed in range(config.seeds)]
    for name in config.learners:
        limit = config.printed_episodes if name in PRINTED else max(config.episodes)
        stops = [k for k in config.episodes if k <= limit]
        found = np.empty((len(MEASURES), len(stops), config.seeds))
        for j, game in enumerate(games):
            for i, episodes in enumerate(stops):
                learned = _learn(game, episodes, config, key + j, name)
                exact: Any = certify(game, learned.policy)
                welfare = float(np.mean(exact.mean_value))
                found[:, i, j] = float(exact.max_gain), learned.width, learned.bound, welfare
        arrays[f"{name}/episodes"] = np.array(stops)
        arrays |= {f"{name}/{m}": found[i] for i, m in enumerate(MEASURES)}
        for i, episodes in enumerate(stops):
            means = {m: float(found[k, i].mean()) for k, m in enumerate(MEASURES)}
            row = {"learner": name, "episodes": episodes, "seeds": config.seeds, **means}
            rows.append(row | {"largest gap": float(found[0, i].max())})
    # For comparison: planning for the best welfare with the game known.
    options: dict[str, Any] = {"objective": "welfare", "spacing": config.spacing}
    plans = [aggregative.solve_aggregative(game, **options) for game in games]
    arrays["planned/gap"] = np.array([float(plan.certificate.max_gain) for plan in plans])
    arrays["planned/welfare"] = np.array([float(np.mean(plan.value)) for plan in plans])
    tables = {"results": Table.from_dicts(rows)}
    return Record("aggregative-learning", config, {"key": key}, arrays, tables)


def _learn(
    game: AggregativeMarkovGame, episodes: int, config: Config, key: int, name: str, **options: Any
) -> aggregative.Learned:
    """Run one learner and return its result."""
    options |= LEARNERS[name]
    env = aggregative.Simulator(game, key, noise=options.get("noise", 0.0))
    return aggregative.learn(env, episodes, spacing=config.spacing, **options)


def violations(
    config: Config,
    runs: int = 60,
    episodes: int = 100,
    *,
    learners: tuple[str, ...] = COVERED,
    bonus: float = 1.0,
    key: int = 0,
) -> Table:
    """Count the runs, and the policies, of which at least one bound is violated.

    The bounds are lower and upper values for all agents, states and policies played, and bounds on
    all gains. The theory allows violations in 5% of the runs. `bonus` multiplies the confidence
    radii.

    **Example**

    >>> from reproduction import aggregative_learning as paper
    >>> table = paper.violations(paper.Config(), runs=1, episodes=5, learners=("known",))
    >>> dict(zip(table.columns, table.rows[0]))["values outside"]
    0
    """
    rows = []
    for name in learners:
        wrong, policies, outside_of = np.zeros((runs, 2), bool), 0, 0
        for k in range(runs):
            game = small_game(config, key + k)
            learned = _learn(game, episodes, config, key + k, name, bonus=bonus, history=True)
            for _, policy, bounds in learned.history:
                exact: Any = certify(game, policy)
                value, gains = exact.class_value.T, exact.class_gains.T
                outside = (value < bounds.lower - 1e-9) | (value > bounds.upper + 1e-9)
                wrong[k] |= outside.any(), (gains > bounds.gain + 1e-9).any()
                outside_of += bool(outside.any())
            policies += len(learned.history)
        both = (int(wrong[:, 0].sum()), int(wrong[:, 1].sum()))
        rows.append((name, bonus, runs, *both, policies, outside_of))
    columns = ("learner", "bonus", "runs", "values outside", "gains above")
    return Table((*columns, "policies", "policies with values outside"), rows)


def plot(record: Record) -> Any:
    """Draw max gain, width and welfare against episodes, and return the Matplotlib figure.

    **Example**

    >>> from reproduction import aggregative_learning as paper
    >>> small = paper.Config(episodes=(2, 5), learners=("known",), seeds=2)
    >>> len(paper.plot(paper.run(small)).axes)
    3
    """
    figure, every = make_panels(3, 3, 4.4, 4.2)
    panels = {
        "gap": "exact gap (at least 1e-5)",
        "certificate": "upper minus lower value",
        "welfare": "welfare minus that of planning",
    }
    best = record.arrays["planned/welfare"]
    for axes, (measure, label) in zip(every, panels.items(), strict=True):
        for name in record.config["learners"]:
            values = record.arrays[f"{name}/{measure}"]
            values = values - best if measure == "welfare" else np.maximum(values, 1e-5)
            t, mean = record.arrays[f"{name}/episodes"], values.mean(1)
            dash = "--" if name in PRINTED else "-"
            error = values.std(1) / np.sqrt(values.shape[1])
            low = mean - error if measure == "welfare" else np.maximum(mean - error, 1e-5)
            draw_band(axes, t, mean, low, mean + error, dash, marker=".", lw=1.3, label=name)
        scale = "linear" if measure == "welfare" else "log"
        finish(axes, xscale="log", yscale=scale, xlabel="episodes", ylabel=label)
        if measure == "welfare":
            axes.set_yscale("symlog", linthresh=0.01)
    every[0].legend(fontsize=7, frameon=False)
    return figure
