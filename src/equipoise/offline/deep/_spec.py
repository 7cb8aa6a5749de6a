"""Settings of critics and of the methods that improve actors, and the paper's presets."""

from dataclasses import dataclass, replace
from typing import Any

from equipoise.core import InputError, checks

_OPEN: dict[str, Any] = {"low_open": True, "high_open": True}
#: Architectures of Appendix B: maps a name to (rank, width, hidden layers).
ARCHITECTURES: dict[str, tuple[int | str, int, int]] = {
    **{f"1-IR-{width}": (1, width, 2) for width in (128, 256, 512)},
    **{f"2-IR-{width}": (2, width, 2) for width in (64, 128, 256)},
    **{f"joint-2x{width}": ("joint", width, 2) for width in (128, 512, 2056)},
    **{f"joint-3x{width}": ("joint", width, 3) for width in (512, 1028, 2056)},
}


@dataclass(frozen=True)
class Critic:
    """Settings of a critic: each agent's reward is a sum of networks of at most `rank` agents.

    Rank 1 has one term, which depends on the own action. Rank 2 has `DNN_ij(a_i, a_j)` for every j
    including i (Appendix B). Rank K has a term for every set of K - 1 others. With "joint" a single
    network takes the actions of all agents. Each term is a network with `depth` hidden layers of
    `width` rectified units.

    If there are too many terms, `shared` uses one network for all terms of an agent, with learned
    `embedding`s that identify the other agents, and `terms` sets the number of terms to keep,
    selected at random.

    Training is least squares by Adam. A fraction `validation` of the rows is held out, and each
    agent keeps the weights with the smallest held-out loss. An agent stops after `patience` epochs
    without improvement. The paper counts patience in steps (`patience_unit="steps"`): see
    `Critic.paper`. With `standardise`, networks are trained on rewards scaled to mean zero and
    variance one; predictions are converted back to the units of the rewards.

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
    #: Learning rate of Adam.
    learning_rate: float = 1e-3
    #: Batch size.
    batch: int = 64
    #: Largest number of passes over the rows.
    epochs: int = 500
    patience: int = 20
    #: Unit of `patience`: "epochs" or "steps".
    patience_unit: str = "epochs"
    validation: float = 0.2
    standardise: bool = True

    def __post_init__(self) -> None:
        check_rank(self.rank)
        _check_counts(self, "width", "depth", "embedding", "batch", "epochs", "patience", "terms")
        for name in ("learning_rate", "validation"):
            checks.check_range(name, getattr(self, name), 0.0, 1.0, **_OPEN)
        _check_choice("patience_unit", self.patience_unit, ("epochs", "steps"))

    @classmethod
    def named(cls, name: str, **changes: Any) -> "Critic":
        """An architecture of Appendix B with our training settings.

        We read "2 layers" and "3 layers" as hidden layers. The paper prints the same sizes for
        joint critics of two and of three layers, `N x width x width x 1`, which is correct for two
        layers; we assume another `width x width` layer for three.

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
        """An architecture of Appendix B with the training settings of Table 2.

        Learning rate 1e-4, batches of 64, up to 500 epochs, patience of 20 *steps*, rewards not
        standardised. The paper does not state the fraction held out; we use a fifth.

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
    """A critic by ridge regression on polynomials of the actions of at most `rank` agents each.

    The features are all products of Legendre polynomials of total degree up to `degree` that
    involve the own action and the actions of up to `rank - 1` others. Each context, step and local
    state has its own coefficients. If `ridge` is None, generalised cross-validation chooses it for
    each agent. Fitting takes a few linear solves and no training. Use it as a baseline for
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


#: What a `KernelCritic` can assume of rewards, the strongest assumption first.
FUNCTIONS = ("smooth", "differentiable", "continuous")


@dataclass(frozen=True)
class KernelCritic:
    """A critic that is a Gaussian process: a sum of smooth functions of up to `rank` actions.

    Each function depends on the actions of at most `rank - 1` others, with or without the own
    action. How smooth the functions are, which agents matter, and how noisy rewards are, is chosen
    by the evidence (the marginal likelihood) on a selection of rows. Fitting takes seconds and has
    no random starts. It also says how certain each prediction is: `learn` derives bounds from that.
    It needs logs without local states.

    `rank` is a whole number or "joint" for functions of all agents' actions. `functions` says what
    is assumed of them: "smooth", "differentiable" (once) or "continuous", which may have kinks
    everywhere. Weaker assumptions make worse predictions, and do not overstate how certain they
    are if rewards have kinks.

    **Example**

    >>> import numpy as np, equipoise as eq
    >>> actions = np.random.default_rng(0).uniform(-1, 1, (200, 2))
    >>> rewards = np.cos(3 * actions) * np.cos(3 * actions[:, ::-1])
    >>> log = eq.offline.Log(None, actions, rewards, continuous=True)
    >>> critics = eq.offline.deep.fit(log, eq.offline.deep.KernelCritic(rank=2), key=0)
    >>> bool((critics.explained > 0.99).all())
    True
    """

    rank: int | str = 2
    functions: str = "smooth"

    def __post_init__(self) -> None:
        check_rank(self.rank)
        _check_choice("functions", self.functions, FUNCTIONS)


@dataclass(frozen=True)
class TD3BC:
    """Settings of TD3+BC (Fujimoto and Gu 2021) for all agents at once; names follow CORL.

    Each agent's network maximises `alpha / normaliser * Q(policy) - (policy - action)^2`, where
    `action` is the action in the log:

    - `normaliser`: "data", the mean of |Q| over the log, or "policy", the mean of |Q| at the
      current policies. CORL and the paper use the latter; near a zero of Q it removes the pull
      towards the log, and policies jump.
    - `others`: "current" evaluates critics at the others' current policies, as DR-AC does; "data"
      evaluates them at the others' actions in the log.
    - `batch`: batch size. `steps`: number of steps, or None for `epochs` passes over the rows.
      `learning_rate`; `width` and `depth` of the networks. `shared_start`: whether all agents start
      from the same weights.

    Without local states the reward is the return: critics stay as fitted, and nothing is
    bootstrapped. With local states, returns are learned from the log's rewards: see `improve`. Only
    then are these settings used: `discount`, `policy_noise` and `noise_clip` (smoothing of
    targets), `policy_freq` (critic steps per actor step), `tau` (update rate of targets) and
    `critic_learning_rate`.

    **Example**

    >>> import equipoise as eq
    >>> eq.offline.deep.TD3BC(alpha=2.5).normaliser
    'data'
    >>> eq.offline.deep.TD3BC(others="past")
    Traceback (most recent call last):
    equipoise.core.errors.InputError: others: expected one of ('current', 'data'), found 'past'
    """

    #: Weight of the critic relative to imitation of the log.
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
        """The values of Table 2, and CORL's values for settings that Table 2 leaves open.

        Alpha 5, learning rate 1e-3, batches of 64, 500 epochs, three layers of 128. The normaliser
        is the one of TD3+BC, and critics use the others' current policies (Algorithm 1).

        **Example**

        >>> import equipoise as eq
        >>> paper = eq.offline.deep.TD3BC.paper()
        >>> paper.normaliser, paper.steps, paper.epochs
        ('policy', None, 500)
        """
        return cls(**({"normaliser": "policy", "steps": None, "width": 128, "depth": 3} | changes))

    def steps_for(self, rows: int) -> int:
        """Total number of steps for a log of `rows` rows.

        >>> TD3BC.paper().steps_for(640)
        5000
        """
        return self.epochs * max(1, rows // self.batch) if self.steps is None else self.steps


@dataclass(frozen=True)
class PolicyGradient:
    """Settings of plain regularised policy gradient, which optimises the policies without networks.

    With `policy="deterministic"` every agent maximises `Q / sd(reward) - strength * (policy -
    mean action of the log)^2` by gradient steps of size `step` within [-1, 1], from a random start
    near that mean.

    With `policy="stochastic"` an agent randomises over `points` equidistant actions and takes the
    mirror steps of Eq. (2), regularised by the chi-squared divergence from the frequencies of the
    log's actions, each assigned to its nearest point. The value of a point is averaged over
    `samples` draws from the others' current policies.

    **Example**

    >>> import equipoise as eq
    >>> eq.offline.deep.PolicyGradient(policy="stochastic", points=11).steps
    300
    """

    #: "deterministic" or "stochastic".
    policy: str = "deterministic"
    step: float = 0.1
    #: Weight of the regularisation towards the log.
    strength: float = 0.05
    #: Number of gradient steps.
    steps: int = 300
    points: int = 11
    samples: int = 16

    def __post_init__(self) -> None:
        _check_choice("policy", self.policy, ("deterministic", "stochastic"))
        _check_counts(self, "steps", "samples")
        checks.check_count("points", self.points, 2)
        checks.check_range("step", self.step, 0.0, float("inf"), **_OPEN)
        _check_not_negative(self, "strength")


def check_rank(rank: Any) -> None:
    """Refuse a rank that is neither a whole number nor "joint"."""
    whole = isinstance(rank, int) and not isinstance(rank, bool) and rank >= 1
    if not whole and rank != "joint":
        raise InputError("rank", 'a whole number >= 1 or "joint"', repr(rank))


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
