"""What is trained and on which games: the settings of the figure."""

import zlib
from dataclasses import dataclass, replace
from typing import Any, Literal

import equinox as eqx
import jax
import numpy as np

from equipoise.core import checks
from equipoise.core.randomness import as_key
from equipoise.games import MarkovGame, MatrixGame, families
from equipoise.games.families import Family
from equipoise.incontext import Config as Training

#: The name of the family in which nothing is shared between games.
IID = "iid"
PRESETS = ("paper", "ours")


@dataclass(frozen=True)
class Config:
    """What is trained; `Config.quick()` takes some minutes on two cores.

    **Example**

    >>> from equipoise.papers import in_context
    >>> in_context.Config().parts[:3], in_context.Config.quick().seeds
    (('matrix-2', 'matrix-3', 'matrix-5'), 2)
    """

    #: Actions of the matrix games, one part for each.
    actions: tuple[int, ...] = (2, 3, 5)
    #: States of the Markov games, one part for each, and their actions.
    states: tuple[int, ...] = (2, 3, 5)
    markov_actions: int = 3
    discount: float = 0.9
    #: The paper's rho: how far games are from their base.
    scales: tuple[float, ...] = (0.1, 0.3, 1.0)
    seeds: int = 5
    rounds: int = 256
    markov_rounds: int = 128
    #: Shorter trajectories that players are trained at, in a part of its own (3 actions).
    lengths: tuple[int, ...] = (16, 64)
    #: (layers, width) of the models of a part of its own; MLPs have four times the width.
    sizes: tuple[tuple[int, int], ...] = ((1, 32), (2, 64), (4, 128))
    #: Sizes of the training set in a part of its own; fresh games are added.
    training_games: tuple[int, ...] = (5, 50, 500)
    steps: int = 400
    #: Of the products of matrices: see `equipoise.incontext.Config`.
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    #: Games of a step with our preset, and with the paper's.
    batch: int = 64
    paper_batch: int = 32
    #: Unseen games that players are measured on, for every family and seed.
    test_games: int = 128
    #: Games that static policies are made from.
    memory_games: int = 500
    #: Parts to run; see `all_parts`.
    only: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("seeds", "rounds", "markov_rounds", "steps", "test_games", "memory_games"):
            checks.check_count(name, getattr(self, name))
        unknown = sorted(set(self.only) - set(self.all_parts))
        if unknown:
            raise ValueError(f"only: expected parts among {self.all_parts}, found {unknown}")

    @property
    def all_parts(self) -> tuple[str, ...]:
        """Every part there is: one for each panel of the figure, and three beside it."""
        matrix = tuple(f"matrix-{count}" for count in self.actions)
        markov = tuple(f"markov-{count}" for count in self.states)
        return (*matrix, *markov, "lengths", "sizes", "games", "baselines")

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts that `run` runs."""
        return self.only or self.all_parts

    @classmethod
    def quick(cls, **changes: Any) -> "Config":
        """The same parts at reduced size.

        >>> Config.quick().rounds
        32
        """
        small = cls(
            scales=(0.1,),
            seeds=2,
            rounds=32,
            markov_rounds=32,
            lengths=(8, 16),
            sizes=((1, 32), (2, 64)),
            training_games=(5, 50),
            steps=100,
            precision="float32",
            batch=16,
            paper_batch=16,
            test_games=64,
            memory_games=200,
        )
        return replace(small, **changes)


@dataclass(frozen=True)
class Panel:
    """The games of one panel.

    >>> Panel("matrix", 3, None, 0.0).title
    'A=3'
    """

    kind: str
    actions: int
    states: int | None
    discount: float

    @property
    def title(self) -> str:
        """As it stands above the axes."""
        return f"A={self.actions}" if self.states is None else f"S={self.states}"

    def family(self, name: str, seed: int, key: Any) -> Family:
        """A family by its name: `rho=0.1` around the base game of this seed, or `iid`.

        All are made by one function, so that one program serves all: independent rewards are
        those within .5 of .5, and transitions are independent of a base that weighs 1e-6.
        """
        if name != IID:
            base = self._uniform().sample(key=make_key(key, self.title, "base", seed))
            return families.perturbed(base, float(name.removeprefix("rho=")))
        if self.states is None:
            return families.perturbed(MatrixGame(np.full((self.actions,) * 2, 0.5)), 0.5)
        shape = (self.states, self.actions, self.actions)
        even = np.full((*shape, self.states), 1.0 / self.states)
        near = families.perturbed(MarkovGame(np.full(shape, 0.5), even, self.discount), 0.5)
        return eqx.tree_at(lambda f: f.transitions.scale, near, 1e6)

    def test_games(self, name: str, seed: int, count: int, key: Any) -> Any:
        """Unseen games of a family: the same for all players, and for the baselines."""
        return self.family(name, seed, key).sample(
            count, key=make_key(key, self.title, name, "test", seed)
        )

    def _uniform(self) -> Family:
        if self.states is None:
            return families.uniform(self.actions)
        return families.uniform(self.actions, states=self.states, discount=self.discount)


def make_panel(config: Config, part: str) -> Panel:
    """The games of a part; of three actions where it is about something else.

    >>> make_panel(Config(), "markov-5").title
    'S=5'
    """
    kind, _, count = part.partition("-")
    if kind == "markov":
        return Panel(kind, config.markov_actions, int(count), config.discount)
    return Panel("matrix", int(count) if count else 3, None, 0.0)


def family_names(config: Config) -> tuple[str, ...]:
    """Names of the families, from similar games to independent ones.

    >>> family_names(Config.quick())
    ('rho=0.1', 'iid')
    """
    return (*(f"rho={scale:g}" for scale in config.scales), IID)


def training(config: Config, preset: str, rounds: int, **changes: Any) -> Training:
    """How players are trained: as the paper does, or as we do; of the paper's size.

    >>> training(Config(), "ours", 64).loss, training(Config(), "paper", 64).tokens
    ('exploitability', 'vocabulary')
    """
    common: dict[str, Any] = {"steps": config.steps, "held_out": 8, "precision": config.precision}
    if jax.default_backend() != "cpu":
        common["micro_batch"] = 32  # many pairs at once: tables of attention must fit in memory
    if preset == "paper":
        made = Training.paper(rounds=rounds, batch=config.paper_batch, patience=None, **common)
    else:
        warmup = min(100, config.steps // 5)
        made = Training(rounds=rounds, batch=config.batch, shared=False, warmup=warmup, **common)
    return replace(made, **changes)


def make_key(key: Any, *words: Any) -> jax.Array:
    """A key for a purpose, named by words.

    >>> bool((make_key(0, "a") == make_key(0, "a")).all())
    True
    """
    return jax.random.fold_in(as_key(key), zlib.crc32(repr(words).encode()))
