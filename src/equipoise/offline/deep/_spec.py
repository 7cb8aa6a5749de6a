"""What a critic is made of and how it is trained: plain settings, and the paper's presets."""

from dataclasses import dataclass, replace
from typing import Any

from equipoise.core import checks

#: Architectures of Appendix B: name -> (rank, width, hidden layers).
ARCHITECTURES: dict[str, tuple[int | str, int, int]] = {
    **{f"1-IR-{width}": (1, width, 2) for width in (128, 256, 512)},
    **{f"2-IR-{width}": (2, width, 2) for width in (64, 128, 256)},
    **{f"joint-2x{width}": ("joint", width, 2) for width in (128, 512, 2056)},
    **{f"joint-3x{width}": ("joint", width, 3) for width in (512, 1028, 2056)},
}


@dataclass(frozen=True)
class Critic:
    """A network for every agent's reward, a sum of terms that see at most `rank` agents each.

    Rank 1 has one term, of the own action; rank 2 has `DNN_ij(a_i, a_j)` for every j, own
    included (Appendix B); rank K has a term for every set of K - 1 others. With "joint" a single
    network sees everybody. Each term is a network with `depth` hidden layers of `width`
    rectified units.

    Where there are too many terms, `shared` uses one network for all terms of an agent, which
    is told apart whom it looks at by learned `embedding`s of the others, and `terms` keeps a
    random selection of so many of them.

    Training is least squares by Adam. A part `validation` of the rows is held out, and the
    weights with the smallest held-out loss are kept, agent by agent; an agent stops when
    `patience` epochs bring nothing better. The paper counts patience in steps
    (`patience_unit="steps"`): see `Critic.paper`. With `standardise`, networks learn rewards
    of mean zero and variance one; what they return is in units of rewards all the same.

    **Example**

    >>> import equipoise as eq
    >>> eq.offline.deep.Critic(rank=2, width=64).depth
    2
    >>> eq.offline.deep.Critic(rank=0)
    Traceback (most recent call last):
    ValueError: rank: expected a whole number >= 1 or "joint", found 0
    """

    rank: int | str = 2
    width: int = 64
    depth: int = 2
    shared: bool = False
    terms: int | None = None
    embedding: int = 8
    learning_rate: float = 1e-3
    batch: int = 64
    epochs: int = 500
    patience: int = 20
    patience_unit: str = "epochs"
    validation: float = 0.2
    standardise: bool = True

    def __post_init__(self) -> None:
        check_rank(self.rank)
        for name in ("width", "depth", "embedding", "batch", "epochs", "patience"):
            checks.check_count(name, getattr(self, name))
        if self.terms is not None:
            checks.check_count("terms", self.terms)
        checks.check_range(
            "learning_rate", self.learning_rate, 0.0, 1.0, low_open=True, high_open=True
        )
        checks.check_range("validation", self.validation, 0.0, 1.0, low_open=True, high_open=True)
        if self.patience_unit not in ("epochs", "steps"):
            raise ValueError(
                f'patience_unit: expected "epochs" or "steps", found {self.patience_unit!r}'
            )

    @classmethod
    def named(cls, name: str, **changes: Any) -> "Critic":
        """An architecture of Appendix B with our way of training.

        "2 layers" and "3 layers" are read as hidden layers. The paper prints the same sizes for
        joint critics of two and of three layers, `N x width x width x 1`, which is right for
        two; those of three are taken to have another `width x width` between.

        **Example**

        >>> import equipoise as eq
        >>> eq.offline.deep.Critic.named("joint-3x512").depth
        3
        """
        if name not in ARCHITECTURES:
            raise ValueError(f"name: expected one of {list(ARCHITECTURES)}, found {name!r}")
        rank, width, depth = ARCHITECTURES[name]
        return cls(**({"rank": rank, "width": width, "depth": depth} | changes))

    @classmethod
    def paper(cls, name: str = "2-IR-64", **changes: Any) -> "Critic":
        """An architecture of Appendix B, trained as printed in Table 2.

        Learning rate 1e-4, batches of 64, up to 500 epochs, patience of 20 *steps*, rewards as
        they are. How much is held out is not printed; a fifth, as in ours.

        **Example**

        >>> import equipoise as eq
        >>> critic = eq.offline.deep.Critic.paper("1-IR-128")
        >>> critic.learning_rate, critic.patience, critic.patience_unit
        (0.0001, 20, 'steps')
        """
        printed = {"learning_rate": 1e-4, "patience_unit": "steps", "standardise": False}
        return replace(cls.named(name), **(printed | changes))

    @staticmethod
    def linear(rank: int = 2, degree: int = 2, ridge: float | None = None) -> "LinearCritic":
        """A critic that is linear in polynomials of the actions: see `LinearCritic`.

        **Example**

        >>> import equipoise as eq
        >>> eq.offline.deep.Critic.linear(rank=2, degree=3)
        LinearCritic(rank=2, degree=3, ridge=None)
        """
        return LinearCritic(rank, degree, ridge)


@dataclass(frozen=True)
class LinearCritic:
    """Rewards as polynomials of the actions of at most `rank` agents at a time, by ridge.

    All products of Legendre polynomials of a total degree up to `degree` that involve the own
    action and those of up to `rank - 1` others; with contexts, steps or local states, other
    coefficients in each. The `ridge` is chosen by generalised cross-validation, agent by agent,
    where it is not given. No training: a few linear solves. The baseline to report beside
    networks.

    **Example**

    >>> import equipoise as eq
    >>> eq.offline.deep.LinearCritic(rank=1).degree
    2
    """

    rank: int = 2
    degree: int = 2
    ridge: float | None = None

    def __post_init__(self) -> None:
        checks.check_count("rank", self.rank)
        checks.check_count("degree", self.degree)
        if self.ridge is not None:
            checks.check_range("ridge", self.ridge, 0.0, float("inf"), high_open=True)


def check_rank(rank: Any) -> None:
    """Refuse what is neither a count nor "joint"."""
    if rank == "joint":
        return
    if isinstance(rank, bool) or not isinstance(rank, int) or rank < 1:
        raise ValueError(f'rank: expected a whole number >= 1 or "joint", found {rank!r}')
