"""What is run: sizes, architectures, sweeps."""

from dataclasses import dataclass, replace
from typing import Any

from equipoise.offline.deep import ARCHITECTURES, TD3BC, Critic, LinearCritic

#: What `--figure` may name.
FIGURES = ("2", "3", "4", "ablations")
#: Ways to train: ours, and what is printed in Table 2.
RECIPES = ("ours", "printed")
LINEAR = "2-IR-linear"
#: What is changed, one thing at a time, from our recipe.
ABLATIONS = (
    "ours",
    "normaliser: policy",
    "alpha: 2.5",
    "alpha: 1",
    "others: data",
    "start: shared",
    "actors: printed",
    "patience: 20 steps",
    "critic rate: 1e-4",
    "rewards: as they are",
    "critics: printed",
    "rows: 10 per agent",
)


@dataclass(frozen=True)
class Config:
    """What is run. `Config.quick()` is for a CPU, `Config()` for a GPU.

    >>> Config().agents, Config.quick().agents
    (50, 20)
    """

    figures: tuple[str, ...] = FIGURES
    agents: int = 50
    noise: float = 1.0
    trials: int = 10
    #: Critics of Figure 2 and of the ablations.
    critics: tuple[str, ...] = ("1-IR-128", "2-IR-64", "joint-2x512", LINEAR)
    #: Critics of Figures 3 and 4.
    architectures: tuple[str, ...] = (*ARCHITECTURES, LINEAR)
    recipes: tuple[str, ...] = RECIPES
    #: Rows of the log for each agent: of Figure 2, and of all else. The paper's rule is 10.
    rows_per_agent: tuple[int, ...] = (5, 10, 20, 50, 100)
    fixed_rows_per_agent: int = 20
    ablations: tuple[str, ...] = ABLATIONS
    #: Steps of actors in our recipe; the printed one has 500 epochs.
    steps: int = 3000
    #: At most so many steps of actors in the printed recipe; the policies have long settled.
    most_steps: int = 20_000
    snapshots: int = 25
    #: Bytes of weights, gradients and moments that are on the device at a time.
    room: float = 60e9

    def __post_init__(self) -> None:
        for name, values, known in (
            ("figures", self.figures, FIGURES),
            ("critics", self.critics, (*ARCHITECTURES, LINEAR)),
            ("architectures", self.architectures, (*ARCHITECTURES, LINEAR)),
            ("recipes", self.recipes, RECIPES),
            ("ablations", self.ablations, ABLATIONS),
        ):
            for value in values:
                if value not in known:
                    raise ValueError(f"{name}: expected some of {known}, found {value!r}")
        if "ablations" in self.figures and not set(self.critics) - {LINEAR}:
            raise ValueError(
                f"critics: expected a network among those of ablations, found {self.critics}"
            )

    @classmethod
    def quick(cls, **changes: Any) -> "Config":
        """Fewer agents, trials, architectures and sizes: a minute or two for Figure 2 on a CPU.

        >>> Config.quick(figures=("2",)).trials
        3
        """
        quick: dict[str, Any] = {
            "agents": 20,
            "trials": 3,
            "critics": ("1-IR-128", "2-IR-64", "joint-2x128", LINEAR),
            "architectures": ("1-IR-128", "1-IR-256", "2-IR-64", "joint-2x128", LINEAR),
            "rows_per_agent": (10, 20, 50),
            "ablations": ("ours", "normaliser: policy", "others: data", "patience: 20 steps"),
            "recipes": ("ours",),
            "steps": 1500,
            "snapshots": 12,
        }
        return cls(**(quick | changes))


def critic_of(name: str, recipe: str) -> Critic | LinearCritic:
    """A critic by name, trained by a recipe."""
    if name == LINEAR:
        return Critic.linear(rank=2)
    return Critic.paper(name) if recipe == "printed" else Critic.named(name)


def method_of(config: Config, recipe: str, samples: int) -> TD3BC:
    """How actors improve, by a recipe."""
    if recipe == "ours":
        return TD3BC(steps=config.steps)
    paper = TD3BC.paper()
    return TD3BC.paper(steps=min(paper.steps_for(samples), config.most_steps))


def ablated(
    config: Config, change: str, name: str, samples: int
) -> tuple[Critic | LinearCritic, TD3BC]:
    """Our recipe with one thing changed."""
    critic, method = critic_of(name, "ours"), method_of(config, "ours", samples)
    if isinstance(critic, Critic):
        critics = {
            "patience: 20 steps": {"patience_unit": "steps"},
            "critic rate: 1e-4": {"learning_rate": 1e-4},
            "rewards: as they are": {"standardise": False},
        }
        critic = replace(critic, **critics.get(change, {}))
        critic = critic_of(name, "printed") if change == "critics: printed" else critic
    methods: dict[str, dict[str, Any]] = {
        "normaliser: policy": {"normaliser": "policy"},
        "alpha: 2.5": {"alpha": 2.5},
        "alpha: 1": {"alpha": 1.0},
        "others: data": {"others": "data"},
        "start: shared": {"shared_start": True},
    }
    method = replace(method, **methods.get(change, {}))
    if change == "actors: printed":
        method = method_of(config, "printed", samples)
    return critic, method
