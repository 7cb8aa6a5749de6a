"""Settings of the ways to improve policies against critics, with the paper's presets."""

from dataclasses import dataclass
from typing import Any

from equipoise.core import checks

_POSITIVE: dict[str, Any] = {"low_open": True, "high_open": True}
_INFINITY = float("inf")


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
    ValueError: others: expected one of ('current', 'data'), found 'past'
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
        for name in ("batch", "epochs", "width", "depth", "policy_freq"):
            checks.check_count(name, getattr(self, name))
        if self.steps is not None:
            checks.check_count("steps", self.steps)
        checks.check_range("alpha", self.alpha, 0.0, _INFINITY, high_open=True)
        for name in ("learning_rate", "critic_learning_rate"):
            checks.check_range(name, getattr(self, name), 0.0, 1.0, **_POSITIVE)
        for name in ("policy_noise", "noise_clip"):
            checks.check_range(name, getattr(self, name), 0.0, _INFINITY, high_open=True)
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
        for name in ("steps", "samples"):
            checks.check_count(name, getattr(self, name))
        checks.check_count("points", self.points, 2)
        checks.check_range("step", self.step, 0.0, _INFINITY, **_POSITIVE)
        checks.check_range("strength", self.strength, 0.0, _INFINITY, high_open=True)


def _check_choice(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise ValueError(f"{name}: expected one of {known}, found {value!r}")
