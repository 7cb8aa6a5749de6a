"""Last-iterate gap against rounds for every learner: a figure that the in-context paper lacks.

The games are matrix games with 2, 3, 5 and 10 actions, and Markov games with 2, 3 and 5 states
whose transitions are nearly deterministic (Dirichlet 0.1) or spread out (Dirichlet 1). The figure
shows the mean over games and seeds with its 95% confidence band. It also shows uniform play and the
rate `t^-1/4`, which no uncoupled learner can beat with high probability in the worst case. The
learners include the paper's constants as printed, and its signs in both readings: r as the reward
of the player (`omd-printed-signs`) and as its cost (`omd-printed-regulariser`, and `omd-plain` with
the sign of the regulariser corrected).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from equipoise import dynamics
from equipoise.dynamics import NOISES, make_learner, record_rounds
from equipoise.games import families
from equipoise.report.figures import fit_slope
from equipoise.runs import Record, Table
from reproduction._drawing import draw_band, finish, make_panels

__all__ = ["MARKOV", "MATRIX", "Config", "plot", "run"]

_OMD, _EXP3 = ("omd", "omd-vanishing"), ("exp3-ix", "exp3-ix (average)")
_PRINTED = ("omd-printed-constants", "omd-printed-signs", "omd-printed-regulariser", "omd-plain")
MATRIX = (*_OMD, "log-barrier", *_EXP3, "cai-euclidean", "entropic", *_PRINTED, "optimistic")
MARKOV = (*_OMD, "entropic", "v-learning", "v-learning (average)", *_PRINTED)
#: Learners that see more than their own rewards. They are drawn, but do not scale the axes.
FULL_INFORMATION = ("optimistic", "regret-matching")
#: As many colours as learners.
COLOURS = (
    *("#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd", "#8c564b", "#e377c2"),
    *("#7f7f7f", "#bcbd22", "#17becf", "#000080", "#000000", "#006400"),
)


@dataclass(frozen=True)
class Config:
    """Settings of the experiment. `Config.quick()` takes about a minute.

    >>> Config().actions
    (2, 3, 5, 10)
    """

    #: Numbers of actions of the matrix games.
    actions: tuple[int, ...] = (2, 3, 5, 10)
    #: Numbers of states of the Markov games.
    states: tuple[int, ...] = (2, 3, 5)
    #: Dirichlet concentrations of the transitions.
    concentrations: tuple[float, ...] = (0.1, 1.0)
    #: Learners of the matrix games.
    learners: tuple[str, ...] = MATRIX
    #: Learners of the Markov games.
    markov_learners: tuple[str, ...] = MARKOV
    #: Number of games.
    games: int = 128
    #: Number of seeds per game.
    seeds: int = 4
    #: Number of rounds of matrix games.
    rounds: int = 1_000_000
    #: Number of rounds of Markov games.
    markov_rounds: int = 100_000
    #: Discount factor of the Markov games.
    discount: float = 0.9
    #: Noise of rewards: "exact", "bernoulli" or "gaussian".
    noise: str = "exact"

    @classmethod
    def quick(cls) -> "Config":
        """Return a config with the same panels, fewer rounds and fewer games.

        >>> Config.quick().rounds
        3000
        """
        return cls(games=32, seeds=2, rounds=3000, markov_rounds=3000)


def run(config: Config, key: int = 0) -> Record:
    """Play every panel. The record has means, standard errors and fitted slopes.

    **Example**

    >>> from reproduction import last_iterate
    >>> small = last_iterate.Config(
    ...     actions=(2,), states=(), learners=("omd",), games=4, seeds=1, rounds=300
    ... )
    >>> record = last_iterate.run(small)
    >>> record.arrays["A=2/omd/mean"].shape, record.tables["slopes"].columns[:2]
    ((3,), ('panel', 'learner'))
    """
    arrays: dict[str, np.ndarray] = {}
    rows: list[tuple[Any, ...]] = []
    for panel, games, names, rounds in _panels(config, key):
        stops = record_rounds(rounds)
        arrays[f"{panel}/rounds"] = np.array(stops)
        uniform = dynamics.Uniform()
        gap = dynamics.play(games, uniform, uniform, rounds=1, key=0).curve[-1]
        arrays[f"{panel}/uniform"] = np.asarray(gap.mean())
        traces: dict[str, Any] = {}
        for name in names:
            gaps = _gaps(traces, name, games, stops, config, key)
            flat = gaps.reshape(len(stops), -1)
            mean, error = flat.mean(1), flat.std(1) / np.sqrt(flat.shape[1])
            arrays |= {f"{panel}/{name}/mean": mean, f"{panel}/{name}/error": error}
            slope = fit_slope(stops, mean)[0] if len(stops) > 1 else float("nan")
            rows.append((panel, name, rounds, float(mean[-1]), float(error[-1]), slope))
    columns = ("panel", "learner", "rounds", "gap", "error", "slope")
    tables = {"slopes": Table(columns, rows)}
    return Record("last-iterate", config, {"key": key}, arrays, tables)


def _panels(config: Config, key: int) -> Any:
    for actions in config.actions:
        games = families.uniform(actions).sample(config.games, key=key)
        yield f"A={actions}", games, config.learners, config.rounds
    for concentration in config.concentrations:
        for states in config.states:
            family = families.uniform(
                3, states=states, discount=config.discount, concentration=concentration
            )
            games = family.sample(config.games, key=key)
            panel = f"S={states}, Dirichlet {concentration:g}"
            yield panel, games, config.markov_learners, config.markov_rounds


def _gaps(
    traces: dict[str, Any], name: str, games: Any, stops: tuple[int, ...], config: Config, key: int
) -> np.ndarray:
    """(records, games, seeds): gaps. The last and average policies of a learner share one run."""
    base = name.removesuffix(" (average)")
    if base not in traces:
        learner = make_learner(base, markov=hasattr(games, "states"), rounds=stops[-1])
        how = {"seeds": config.seeds, "noise": NOISES[config.noise]}
        traces[base] = dynamics.play(
            games, learner, learner, rounds=stops[-1], key=key + 1, record=stops, **how
        )
    return traces[base].curve if base == name else traces[base].average_curve


def plot(record: Record) -> Any:
    """Draw one panel per kind of game on logarithmic axes; return the Matplotlib figure.

    **Example**

    >>> from reproduction import last_iterate
    >>> small = last_iterate.Config(
    ...     actions=(2,), states=(), learners=("omd",), games=4, seeds=1, rounds=300
    ... )
    >>> len(last_iterate.plot(last_iterate.run(small)).axes)
    1
    """
    panels = list(dict.fromkeys(record.tables["slopes"].column("panel")))
    figure, every = make_panels(len(panels), 4, 4.4, 3.8)
    kinds: set[str] = set()
    for axes, panel in zip(every, panels, strict=True):
        lowest = _draw(axes, record, panel)
        finish(axes, title=panel, xlabel="round", ylabel="mean duality gap")
        axes.set(xscale="log", yscale="log")
        axes.set_ylim(bottom=lowest / 1.5)
        if panel[0] not in kinds:  # one legend for matrix games, one for Markov games
            axes.legend(fontsize=6, frameon=False, loc="lower left", ncols=2)
            axes.set_ylim(bottom=lowest / 8)
        kinds.add(panel[0])
    return figure


def _draw(axes: Any, record: Record, panel: str) -> float:
    """Draw one panel and return the smallest gap of a learner with bandit feedback."""
    axes.set_prop_cycle(color=COLOURS)
    t = record.arrays[f"{panel}/rounds"]
    uniform = float(record.arrays[f"{panel}/uniform"])
    axes.axhline(uniform, color="0.4", lw=0.8, label="uniform")
    axes.plot(t, uniform * (t / t[0]) ** -0.25, ":", color="0.2", lw=1.0, label="t^-1/4")
    table, lowest = record.tables["slopes"], uniform
    for name, at in zip(table.column("learner"), table.column("panel"), strict=True):
        if at != panel:
            continue
        mean = record.arrays[f"{panel}/{name}/mean"]
        error = record.arrays[f"{panel}/{name}/error"]
        informed = name in FULL_INFORMATION
        low, high = np.maximum(mean - 1.96 * error, 1e-9), mean + 1.96 * error
        draw_band(axes, t, mean, low, high, "--" if informed else "-", lw=1.4, label=name)
        lowest = lowest if informed else min(lowest, float(mean.min()))
    return lowest
