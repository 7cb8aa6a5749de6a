"""DR-AC with continuous local states, beside the same problem with states cut into cells.

Batteries buy and sell on one market. Every morning all of them read the same price forecast, a
number. In each step a battery sells, waits or buys; its charge moves by its own action alone, and
its reward falls with what the others buy at the same time (interaction rank 2) and with the
distance of its charge from the one it needs. Logs of the batteries' own play are learned from in
two ways:

- `numbers`: transitions by maximum likelihood, where the held-out likelihood chooses among tables,
  linear functions and networks; rewards and critics that are linear in polynomials;
- `cells`: charges and forecasts cut into cells of equal width, whose game is fitted as a table and
  solved with the exact critic.

Policies are judged in the true problem. Others matter to an agent only by how much they buy on
average, so its best response is a dynamic program in one charge and one forecast, which a fine grid
solves; `play` draws episodes of the true problem, to check the grid. The cells of the true problem,
solved exactly, show what cutting alone costs.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtr

from equipoise import offline
from equipoise.certificates import certify
from equipoise.core import InputError
from equipoise.games import DecoupledMarkovGame, Interactions, Mixture
from equipoise.runs import Record, Table
from reproduction import rows_of
from reproduction._drawing import draw_band, finish, make_panels

__all__ = ["Batteries", "Config", "plot", "run"]

DYNAMICS = ("linear", "saturating")
#: Charges lie within these ends, and forecasts are uniform on [-1, 1].
END = 2.4


@dataclass(frozen=True)
class Batteries:
    """The true problem: draws its own logs, and turns into a game on a grid of charges.

    **Example**

    >>> import equipoise as eq
    >>> from reproduction import continuous_states
    >>> eq.offline.collect(continuous_states.Batteries(), samples=100, key=0)
    Log(samples=400, agents=4, contexts=1, actions=3, states=1 numbers, horizon=4, covariates=1)
    """

    #: Number of batteries.
    agents: int = 4
    #: Number of steps.
    horizon: int = 4
    #: "linear" or "saturating".
    dynamics: str = "linear"
    #: How much a reward falls with what the others buy on average.
    crowding: float = 1.0
    #: Standard deviation of the noise of charges.
    drift: float = 0.2
    #: Standard deviation of the noise of rewards.
    noise: float = 0.2

    def __post_init__(self) -> None:
        if self.dynamics not in DYNAMICS:
            raise InputError("dynamics", f"one of {DYNAMICS}", repr(self.dynamics))

    @property
    def needed(self) -> np.ndarray:
        """(agents,): charge that each battery needs."""
        return np.linspace(-0.5, 0.5, self.agents)

    def means(self, charges: Any, actions: Any) -> Any:
        """Mean next charges."""
        if self.dynamics == "linear":
            return 0.8 * charges + 0.5 * (actions - 1)
        return 1.2 * np.tanh(charges + 0.9 * (actions - 1))

    def own(self, forecasts: Any, charges: Any, actions: Any) -> Any:
        """Rewards apart from the others' effect; agents are on the last axis of charges."""
        return -forecasts * (actions - 1) - 0.6 * (charges - self.needed) ** 2

    def behaviour(self, forecasts: Any, charges: Any) -> np.ndarray:
        """(..., actions): the batteries' own play."""
        logits = -(0.8 * charges + 0.5 * forecasts)[..., None] * np.arange(-1, 2)
        chances = np.exp(logits)
        return chances / chances.sum(-1, keepdims=True)

    def simulate(self, behaviour: Any, samples: int, key: Any) -> offline.Log:
        """Draw episodes in which all batteries play their behaviour ("uniform" is theirs, too)."""
        played = self.play(None, samples, key)
        rows = (-1, self.agents)
        charges = played["charges"]
        return offline.Log(
            *(None, played["actions"].reshape(rows), played["rewards"].reshape(rows)),
            *(charges[:, :-1].reshape(*rows, 1), charges[:, 1:].reshape(*rows, 1)),
            *(
                np.tile(np.arange(self.horizon), samples),
                np.repeat(np.arange(samples), self.horizon),
            ),
            covariates=np.repeat(played["forecasts"], self.horizon)[:, None],
            actions_per_agent=3,
        )

    def play(self, policy: Any, episodes: int, key: Any) -> dict[str, np.ndarray]:
        """Draw episodes of the true problem.

        `policy(forecasts, charges, step, draws)` returns probabilities (episodes, agents, actions);
        `draws` in [0, 1) are one for each episode, to select from a mixture. None is the behaviour.
        """
        rng = np.random.default_rng(key)
        forecasts, draws = rng.uniform(-1, 1, episodes), rng.random(episodes)
        shape = (episodes, self.horizon, self.agents)
        charges = np.zeros((episodes, self.horizon + 1, self.agents))
        actions, rewards = np.zeros(shape, np.int8), np.zeros(shape)
        charges[:, 0] = 0.5 * rng.normal(size=charges[:, 0].shape)
        for h in range(self.horizon):
            here = charges[:, h]
            if policy is None:
                chances = self.behaviour(forecasts[:, None], here)
            else:
                chances = policy(forecasts, here, h, draws)
            share = rng.random(here.shape)[..., None]
            actions[:, h] = acted = (share > chances.cumsum(-1)[..., :-1]).sum(-1)
            bought = acted - 1
            others = (bought.sum(1, keepdims=True) - bought) / (self.agents - 1)
            rewards[:, h] = self.own(forecasts[:, None], here, acted)
            rewards[:, h] -= self.crowding * bought * others
            charges[:, h + 1] = self.means(here, acted) + self.drift * rng.normal(size=here.shape)
        rewards += self.noise * rng.normal(size=shape)
        return {"forecasts": forecasts, "charges": charges, "actions": actions, "rewards": rewards}

    def on_grid(self, cells: int, forecasts: int) -> DecoupledMarkovGame:
        """Return the game in which charges and forecasts are the centres of cells."""
        centres, edges = centres_of(cells, END), np.linspace(-END, END, cells + 1)[1:-1]
        heat = centres_of(forecasts, 1.0)
        acted = np.arange(3)
        ahead = self.means(centres[:, None], acted)  # states, actions
        below = ndtr((edges - ahead[..., None]) / self.drift)
        kernel = np.diff(below, axis=-1, prepend=0.0, append=1.0)
        first = np.diff(ndtr(edges / 0.5), prepend=0.0, append=1.0)
        shape = (forecasts, self.horizon, self.agents, cells, 3, cells)
        own = self.own(heat[:, None, None, None], centres[:, None, None], acted[:, None])
        own = np.moveaxis(own, -1, 1).reshape(forecasts, self.agents, -1)
        bought = np.tile(acted - 1, cells)
        pair = -self.crowding / (self.agents - 1) * np.outer(bought, bought)
        scopes = [(i, j) for i in range(self.agents) for j in range(self.agents) if i != j]
        situations = forecasts * self.horizon
        terms = Interactions(
            {1: np.arange(self.agents)[:, None], 2: np.array(scopes)},
            {
                1: np.repeat(own, self.horizon, 0),
                2: np.broadcast_to(pair, (situations, len(scopes), *pair.shape)),
            },
            self.agents,
        )
        initial = np.broadcast_to(first, (self.agents, cells))
        return DecoupledMarkovGame(terms, np.broadcast_to(kernel, shape), initial, noise=self.noise)


def centres_of(cells: int, end: float) -> np.ndarray:
    """Centres of cells of equal width on [-end, end].

    >>> centres_of(2, 1.0).tolist()
    [-0.5, 0.5]
    """
    return ((np.arange(cells) + 0.5) / cells * 2.0 - 1.0) * end


def cell_of(numbers: Any, cells: int, end: float) -> np.ndarray:
    """Cell of each number; numbers beyond the ends are in the last cells.

    >>> cell_of([-9.0, 0.1, 9.0], 2, 1.0).tolist()
    [0, 1, 1]
    """
    share = (np.asarray(numbers) / end + 1.0) / 2.0
    return (share * cells).clip(0, cells - 1).astype(int)


@dataclass(frozen=True)
class Config:
    """Settings of the experiment. `Config.quick()` takes less than a minute.

    >>> Config().cells
    (3, 9)
    """

    #: Dynamics of charges.
    dynamics: tuple[str, ...] = DYNAMICS
    #: Numbers of episodes in a log.
    episodes: tuple[int, ...] = (250, 1000, 4000)
    #: Numbers of cells that charges are cut into.
    cells: tuple[int, ...] = (3, 9)
    #: Number of cells that forecasts are cut into.
    forecast_cells: int = 3
    #: Number of logs of each size.
    logs: int = 2
    #: Number of iterations of the learner.
    iterations: int = 60
    #: Step size of the learner.
    step: float = 2.0
    #: Weight of the regulariser.
    strength: float = 0.01
    #: Number of simulations of the Monte-Carlo critic.
    simulations: int = 1000
    #: Cells of charges and of forecasts of the grid on which policies are judged.
    grid: tuple[int, int] = (41, 8)
    #: Number of episodes that are played in the true problem.
    played: int = 20_000

    @classmethod
    def quick(cls) -> "Config":
        """Return a smaller config.

        >>> Config.quick().logs
        1
        """
        return cls(dynamics=("linear",), episodes=(1000,), cells=(3,), logs=1, iterations=30)


def run(config: Config, key: int = 0) -> Record:
    """Learn from logs in both ways, and judge the policies; one row for each policy.

    **Example**

    >>> from reproduction import continuous_states
    >>> small = continuous_states.Config(
    ...     dynamics=("linear",), episodes=(), cells=(3,), iterations=5, grid=(11, 2), played=100
    ... )
    >>> continuous_states.run(small).tables["gaps"].column("method")
    ['own play', '3 true cells']
    """
    rows: list[dict[str, Any]] = []
    for dynamics in config.dynamics:
        truth = Batteries(dynamics=dynamics)
        judge = _Judge(truth, config)
        empty = {"dynamics": dynamics, "episodes": 0, "log": 0, "transitions": "true"}
        rows.append(empty | {"method": "own play"} | judge.judged(judge.own_play()[None]))
        for cells in config.cells:
            game = truth.on_grid(cells, config.forecast_cells)
            behaviour = _on_cells(truth, cells, config.forecast_cells)
            found = offline.solve(game, behaviour=behaviour, **_options(config))
            table = judge.from_cells(found.policy.policies)
            rows.append(empty | {"method": f"{cells} true cells"} | judge.judged(table))
        for episodes in config.episodes:
            for number in range(config.logs):
                place = {"dynamics": dynamics, "episodes": episodes, "log": number}
                log = offline.collect(truth, samples=episodes, key=key + number)
                rows += [place | row for row in _learned(config, judge, log)]
    return Record("continuous-states", config, {"key": key}, {}, {"gaps": Table.from_dicts(rows)})


def _options(config: Config) -> Any:
    names = ("iterations", "step", "strength")
    return {name: getattr(config, name) for name in names}


def _learned(config: Config, judge: "_Judge", log: offline.Log) -> list[dict[str, Any]]:
    """Learn from one log: with numbers, and with every number of cells."""
    options = _options(config) | {"force": True}
    model = offline.fit(log, rank=2)
    policy = offline.solve(model, simulations=config.simulations, **options).policy
    row = {"method": "numbers", "transitions": model.transitions.kind}
    rows = [row | judge.judged(judge.from_numbers(policy))]
    for cells in config.cells:
        model = offline.fit(cut(log, cells, config.forecast_cells), rank=2, intervals=False)
        policy = offline.solve(model, **options).policy
        row = {"method": f"{cells} cells", "transitions": "table"}
        rows.append(row | judge.judged(judge.from_cells(policy.policies)))
    return rows


def cut(log: offline.Log, cells: int, forecasts: int) -> offline.Log:
    """Return the log with charges and forecasts cut into cells of equal width."""
    states, following = (cell_of(x, cells, END)[..., 0] for x in (log.states, log.next_states))
    return offline.Log(
        cell_of(log.covariates, forecasts, 1.0)[:, 0],
        log.actions,
        log.rewards,
        states,
        following,
        log.steps,
        log.episodes,
        contexts_count=forecasts,
        states_count=cells,
        actions_per_agent=3,
    )


def _on_cells(truth: Batteries, cells: int, forecasts: int) -> np.ndarray:
    """The batteries' own play at the centres of cells, as a product policy."""
    heat, charges = centres_of(forecasts, 1.0), centres_of(cells, END)
    chances = truth.behaviour(heat[:, None], charges[None])[:, None, None]
    shape = (forecasts, truth.horizon, truth.agents, cells, 3)
    return np.broadcast_to(chances, shape).copy()


class _Judge:
    """Judges mixtures of policies on a fine grid, and by playing the true problem."""

    def __init__(self, truth: Batteries, config: Config):
        self.truth, self.config = truth, config
        cells, forecasts = config.grid
        self.charges, self.forecasts = centres_of(cells, END), centres_of(forecasts, 1.0)
        self.game = truth.on_grid(cells, forecasts)

    def own_play(self) -> np.ndarray:
        """The batteries' own play on the grid."""
        return _on_cells(self.truth, *self.config.grid)

    def from_cells(self, policies: np.ndarray) -> np.ndarray:
        """Policies of cells on the grid: every charge plays as its cell does."""
        cells, forecasts = policies.shape[4], policies.shape[1]
        heat = cell_of(self.forecasts, forecasts, 1.0)
        own = cell_of(self.charges, cells, END)
        return policies[:, heat][:, :, :, :, own]

    def from_numbers(self, policy: offline.NumericPolicy) -> np.ndarray:
        """Policies of numbers on the grid."""
        cells, forecasts = self.config.grid
        heat = np.repeat(self.forecasts, cells)[:, None]
        charges = np.tile(self.charges, forecasts)[:, None, None].repeat(self.truth.agents, 1)
        steps = [policy(heat, charges, h) for h in range(self.truth.horizon)]
        table = np.stack(steps, 1).reshape(len(policy), len(steps), forecasts, cells, -1, 3)
        return table.transpose(0, 2, 1, 4, 3, 5)

    def judged(self, policies: np.ndarray) -> dict[str, float]:
        """Largest gain and mean value on the grid, and the value of played episodes."""
        policies = policies / policies.sum(-1, keepdims=True)
        certificate = certify(self.game, Mixture(policies))
        cells, forecasts = self.config.grid

        def act(heat: Any, charges: Any, step: int, draws: Any) -> np.ndarray:
            component = (draws * len(policies)).astype(int)[:, None]
            place = cell_of(heat, forecasts, 1.0)[:, None], step, np.arange(self.truth.agents)
            return policies[(component, *place, cell_of(charges, cells, END))]

        returns = self.truth.play(act, self.config.played, 0)["rewards"].sum(1).mean(1)
        return {
            "gap": float(certificate.max_gain),
            "value": float(np.mean(certificate.value)),
            "played": float(returns.mean()),
            "error": float(returns.std() / len(returns) ** 0.5),
        }


def plot(record: Record) -> Any:
    """Draw gaps against episodes for each kind of dynamics; return the figure.

    **Example**

    >>> from reproduction import continuous_states
    >>> small = continuous_states.Config(
    ...     dynamics=("linear",), episodes=(), cells=(3,), iterations=5, grid=(11, 2), played=100
    ... )
    >>> len(continuous_states.plot(continuous_states.run(small)).axes)
    1
    """
    table = rows_of(record.tables["gaps"])
    every = list(dict.fromkeys(row["dynamics"] for row in table))
    figure, panels = make_panels(len(every), 2, 5.2, 4.0)
    for axes, dynamics in zip(panels, every, strict=True):
        mine = [row for row in table if row["dynamics"] == dynamics]
        methods = list(dict.fromkeys(row["method"] for row in mine))
        learned = [m for m in methods if any(r["episodes"] for r in mine if r["method"] == m)]
        for number, method in enumerate(learned):
            found: dict[int, list[float]] = {}
            for row in mine:
                if row["method"] == method:
                    found.setdefault(row["episodes"], []).append(row["gap"])
            sizes = list(found)
            mean, low, high = (
                np.array([of(found[x]) for x in sizes]) for of in (np.mean, np.min, np.max)
            )
            draw_band(axes, sizes, mean, low, high, "o-", color=f"C{number}", lw=1.4, label=method)
        for number, row in enumerate(row for row in mine if not row["episodes"]):
            grey = str(0.3 + 0.12 * number)
            axes.axhline(row["gap"], color=grey, lw=1, ls="--", label=row["method"])
        settings = {"xscale": "log", "yscale": "log", "title": f"{dynamics} dynamics"}
        finish(axes, 7, **settings, xlabel="episodes of the log", ylabel="gap in the true problem")
    return figure
