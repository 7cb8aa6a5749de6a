"""Settings of critics and of the methods that improve actors, and the paper's presets."""

from dataclasses import dataclass, replace
from typing import Any

from equipoise.core import InputError, checks

_OPEN: dict[str, Any] = {"low_open": True, "high_open": True}
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
    equipoise.core.errors.InputError: rank: expected a whole number >= 1 or "joint", found 0
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
        whole = isinstance(self.rank, int) and not isinstance(self.rank, bool) and self.rank >= 1
        if not whole and self.rank != "joint":
            raise InputError("rank", 'a whole number >= 1 or "joint"', repr(self.rank))
        _check_counts(self, "width", "depth", "embedding", "batch", "epochs", "patience", "terms")
        for name in ("learning_rate", "validation"):
            checks.check_range(name, getattr(self, name), 0.0, 1.0, **_OPEN)
        _check_choice("patience_unit", self.patience_unit, ("epochs", "steps"))

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
            raise InputError("name", f"one of {list(ARCHITECTURES)}", repr(name))
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
        _check_counts(self, "rank", "degree")
        _check_not_negative(self, "ridge")


@dataclass(frozen=True)
class TD3BC:
    """TD3+BC (Fujimoto and Gu 2021) for every agent at once; names are those of CORL.

    Each agent's network ascends `alpha / normaliser * Q(policy) - (policy - action)^2`, where
    actions are those of the log:

    - `normaliser`: "data", the mean of |Q| over the log, or "policy", that of the current
      policies. The latter is CORL's and the paper's; near a zero of Q it drops the pull towards
      the log, and policies jump.
    - `others`: "current", critics look at what the others play now, as DR-AC does; or "data", at
      what they did in the log.
    - `batch`, and `steps`, or `epochs` over the rows where steps are None; `learning_rate`;
      `width` and `depth` of the networks; `shared_start`, whether all agents begin alike.

    Without local states a reward is a return: critics stay as fitted, and nothing is
    bootstrapped. With them, the log's rewards make up returns: see `improve`. Only then do the
    following matter: `discount`, `policy_noise` and `noise_clip` (smoothing of targets),
    `policy_freq` (critic steps for each step of the actors), `tau` (how fast targets follow) and
    `critic_learning_rate`.

    **Example**

    >>> import equipoise as eq
    >>> eq.offline.deep.TD3BC(alpha=2.5).normaliser
    'data'
    >>> eq.offline.deep.TD3BC(others="past")
    Traceback (most recent call last):
    equipoise.core.errors.InputError: others: expected one of ('current', 'data'), found 'past'
    """

    alpha: float = 5.0
    normaliser: str = "data"
    others: str = "current"
    learning_rate: float = 1e-3
    batch: int = 64
    steps: int | None = 3000
    epochs: int = 500
    width: int = 64
    depth: int = 2
    shared_start: bool = False
    discount: float = 1.0
    policy_noise: float = 0.2
    noise_clip: float = 0.5
    policy_freq: int = 2
    tau: float = 0.005
    critic_learning_rate: float = 1e-3

    def __post_init__(self) -> None:
        _check_choice("normaliser", self.normaliser, ("data", "policy"))
        _check_choice("others", self.others, ("current", "data"))
        _check_counts(self, "batch", "epochs", "width", "depth", "policy_freq", "steps")
        _check_not_negative(self, "alpha", "policy_noise", "noise_clip")
        for name in ("learning_rate", "critic_learning_rate"):
            checks.check_range(name, getattr(self, name), 0.0, 1.0, **_OPEN)
        for name in ("discount", "tau"):
            checks.check_range(name, getattr(self, name), 0.0, 1.0)

    @classmethod
    def paper(cls, **changes: Any) -> "TD3BC":
        """The values of Table 2, and CORL's for what it leaves open.

        Alpha 5, learning rate 1e-3, batches of 64, 500 epochs, three layers of 128; the
        normaliser is that of TD3+BC, and the others play what they play now (Algorithm 1).

        **Example**

        >>> import equipoise as eq
        >>> paper = eq.offline.deep.TD3BC.paper()
        >>> paper.normaliser, paper.steps, paper.epochs
        ('policy', None, 500)
        """
        return cls(**({"normaliser": "policy", "steps": None, "width": 128, "depth": 3} | changes))

    def steps_for(self, rows: int) -> int:
        """Steps in all, for a log of so many rows.

        >>> TD3BC.paper().steps_for(640)
        5000
        """
        return self.epochs * max(1, rows // self.batch) if self.steps is None else self.steps


@dataclass(frozen=True)
class PolicyGradient:
    """Plain regularised policy gradient: no networks, the policies' numbers themselves.

    With `policy="deterministic"` every agent ascends `Q / sd(reward) - strength * (policy -
    mean action of the log)^2` by gradient steps of size `step`, within [-1, 1], from a random
    start near that mean.

    With `policy="stochastic"` it chooses by chance among `points` equidistant actions, and takes
    the mirror steps of Eq. (2): regularised by the chi-squared divergence from how often the log
    has actions nearest to each. What a point is worth is averaged over `samples` draws of what
    the others currently play.

    **Example**

    >>> import equipoise as eq
    >>> eq.offline.deep.PolicyGradient(policy="stochastic", points=11).steps
    300
    """

    policy: str = "deterministic"
    step: float = 0.1
    strength: float = 0.05
    steps: int = 300
    points: int = 11
    samples: int = 16

    def __post_init__(self) -> None:
        _check_choice("policy", self.policy, ("deterministic", "stochastic"))
        _check_counts(self, "steps", "samples")
        checks.check_count("points", self.points, 2)
        checks.check_range("step", self.step, 0.0, float("inf"), **_OPEN)
        _check_not_negative(self, "strength")


def _check_choice(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise InputError(name, f"one of {known}", repr(value))


def _check_counts(spec: Any, *names: str) -> None:
    for name in names:
        if getattr(spec, name) is not None:
            checks.check_count(name, getattr(spec, name))


def _check_not_negative(spec: Any, *names: str) -> None:
    for name in names:
        if getattr(spec, name) is not None:
            checks.check_range(name, getattr(spec, name), 0.0, float("inf"), high_open=True)
