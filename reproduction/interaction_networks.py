"""Figure 1 of the interaction-rank paper: the networks of one agent for every kind of critic.

A critic of rank 1 sees only the agent's own action. A critic of rank 2 has a network for the pair
with every agent and adds their outputs. A joint critic sees all actions at once. The record lists
the networks, inputs and weights of one agent for the architectures of Appendix B. The drawing shows
the kinds of critics.

    equipoise reproduce interaction-rank --figure 1
"""

from dataclasses import dataclass
from typing import Any

from equipoise.core import checks
from equipoise.offline.deep import ARCHITECTURES
from equipoise.runs import Record, Table
from reproduction import rows_of
from reproduction._drawing import make_panels

#: Kinds of critics, and their formulas.
_KINDS = {
    "1-IR": r"$\hat r_i(a) = f_i(a_i)$",
    "2-IR": r"$\hat r_i(a) = \sum_j f_{ij}(a_i, a_j)$",
    "joint": r"$\hat r_i(a) = f_i(a_1, \ldots, a_N)$",
}


@dataclass(frozen=True)
class Config:
    """Number of agents, and the architectures whose weights are counted.

    >>> Config().agents
    50
    """

    #: Number of agents.
    agents: int = 50
    #: Names of the architectures whose weights are counted.
    architectures: tuple[str, ...] = tuple(ARCHITECTURES)

    def __post_init__(self) -> None:
        checks.check_count("agents", self.agents)

    @classmethod
    def quick(cls) -> "Config":
        """Return a config with fewer agents, as in the other figures at this scale.

        >>> Config.quick().agents
        20
        """
        return cls(agents=20)


def run(config: Config, key: int = 0) -> Record:
    """Count the networks, inputs and weights of one agent's critic.

    **Example**

    >>> from reproduction import interaction_networks as figure
    >>> table = figure.run(figure.Config(agents=50)).tables["networks"]
    >>> dict(zip(table.column("critic"), table.column("weights"), strict=True))["1-IR-128"]
    16897
    """
    rows = []
    for name in config.architectures:
        _, width, depth = ARCHITECTURES[name]
        networks, inputs, weights = count_weights(name, config.agents)
        rows.append((name, networks, inputs, depth, width, weights))
    columns = ("critic", "networks", "inputs of each", "hidden layers", "width", "weights")
    scalars = {"key": key, "agents": config.agents}
    return Record("interaction-networks", config, scalars, {}, {"networks": Table(columns, rows)})


def count_weights(name: str, agents: int) -> tuple[int, int, int]:
    """Return the number of networks of one agent's critic, inputs of each, and all weights.

    >>> count_weights("1-IR-128", agents=50)
    (1, 1, 16897)
    """
    rank, width, depth = ARCHITECTURES[name]
    networks = agents if rank == 2 else 1
    inputs = agents if rank == "joint" else int(rank)
    weights = inputs * width + (depth - 1) * width**2 + (depth + 1) * width + 1
    return networks, inputs, networks * weights


def plot(record: Record) -> Any:
    """Draw the three kinds of critics of one agent and return the Matplotlib figure.

    **Example**

    >>> from reproduction import interaction_networks as figure
    >>> len(figure.plot(figure.run(figure.Config())).axes)
    3
    """
    figure, every = make_panels(3, 3, 3.5, 3.4)
    rows = rows_of(record.tables["networks"])
    for axes, (kind, formula) in zip(every, _KINDS.items(), strict=True):
        own = [row["weights"] for row in rows if row["critic"].startswith(kind)]
        sizes = f"{min(own):,} to {max(own):,} weights per agent" if own else ""
        axes.set_title(f"{kind} critic of agent i\n{formula}", fontsize=10)
        axes.text(0.5, -0.02, sizes, ha="center", va="top", fontsize=8)
        axes.set(xlim=(-0.05, 1.05), ylim=(-0.1, 1.05))
        axes.axis("off")
        _draw(axes, kind)
    return figure


def _draw(axes: Any, kind: str) -> None:
    """Draw inputs on the left, networks in the middle, and the estimate on the right."""

    def box(x: float, y: float, text: str, colour: str = "C0") -> None:
        style = {"boxstyle": "round,pad=0.35", "facecolor": colour, "edgecolor": colour}
        axes.text(x, y, text, ha="center", va="center", fontsize=9, bbox=style | {"alpha": 0.25})

    def arrow(start: tuple[float, float], end: tuple[float, float]) -> None:
        axes.annotate("", end, start, arrowprops={"arrowstyle": "->", "color": "0.4", "lw": 0.9})

    inputs = ((0.9, "1"), (0.6, "2"), (0.15, "N"))
    if kind == "1-IR":
        box(0.05, 0.5, "$a_i$", "0.5")
        arrow((0.12, 0.5), (0.4, 0.5))
    elif kind == "2-IR":
        for height, name in inputs:
            box(0.05, height, f"$a_i, a_{name}$", "0.5")
            arrow((0.15, height), (0.34, height))
            box(0.45, height, f"network $i{name}$")
            arrow((0.59, height), (0.7, 0.5 + 0.1 * (height - 0.5)))
        axes.text(0.45, 0.38, "...", ha="center", va="center", rotation=90)
        box(0.76, 0.5, "+", "C2")
        arrow((0.81, 0.5), (0.89, 0.5))
    else:
        for height, name in inputs:
            box(0.05, height, f"$a_{name}$", "0.5")
            arrow((0.11, height), (0.39, 0.5 + 0.15 * (height - 0.5)))
        axes.text(0.05, 0.38, "...", ha="center", va="center", rotation=90)
    if kind != "2-IR":
        box(0.5, 0.5, "network")
        arrow((0.62, 0.5), (0.87, 0.5))
    box(0.95, 0.5, r"$\hat r_i$", "C1")
