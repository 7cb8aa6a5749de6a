"""Everything that decides how players are pre-trained."""

import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

import numpy as np

from equipoise.core import checks

#: What the fields of a `Config` that are words may say.
CHOICES: dict[str, tuple[str, ...]] = {
    "tokens": ("round", "vocabulary"),
    "attention": ("softmax", "relu"),
    "loss": ("exploitability", "expert"),
    "expert": ("nash", "nash-samples", "omd"),
    "contexts": ("on-policy", "learners", "mixed"),
    "optimiser": ("adam", "muon"),
    "schedule": ("cosine", "constant"),
    "precision": ("auto", "float32", "bfloat16"),
    "stop_on": ("gap", "kl"),
}

#: Fields that mean something only where another one says so: they are the default elsewhere.
MEANINGFUL: dict[str, tuple[str, tuple[str, ...]]] = {
    "reward_bins": ("tokens", ("vocabulary",)),
    "expert": ("loss", ("expert",)),
    "exploration": ("contexts", ("on-policy", "mixed")),
}

#: Fields that are counts.
COUNTS = (
    *("rounds", "reward_bins", "layers", "heads", "width", "hidden"),
    *("steps", "batch", "play_ahead", "seeds", "evaluate_every", "held_out"),
)


@dataclass(frozen=True)
class Config:
    """Sizes, data, loss and optimiser of a pre-training run.

    The model is the in-context paper's by default: 2 layers, 4 heads, width 64, MLPs of 256.

    **Example**

    >>> import equipoise as eq
    >>> eq.incontext.Config(rounds=64).width, eq.incontext.Config.paper(rounds=64).loss
    (64, 'expert')
    """

    # The comment above a field is its help text on the command line.

    #: Number of rounds of every training game. Players can play on beyond them.
    rounds: int = 256

    # -- model
    #: What the transformer reads: one token a round ("round"), or the paper's vocabulary of states,
    #: actions and rewards ("vocabulary").
    tokens: Literal["round", "vocabulary"] = "round"
    #: Number of levels of rewards in the vocabulary. Only with tokens "vocabulary".
    reward_bins: int = 20
    #: Number of layers, each of attention and an MLP.
    layers: int = 2
    #: Number of attention heads.
    heads: int = 4
    #: Number of groups of heads that share keys and values; None gives each head its own.
    head_groups: int | None = None
    #: Size of the residual stream, a multiple of heads.
    width: int = 64
    #: Number of hidden units of each MLP.
    hidden: int = 256
    #: Attention weights: a softmax, or the paper's ReLU divided by the number of tokens.
    attention: Literal["softmax", "relu"] = "softmax"
    #: Whether layers normalise their input.
    layer_norm: bool = True
    #: Whether one model plays both seats, which needs a family that swapping the players maps to
    #: itself; None shares a model wherever that is so.
    shared: bool | None = None

    # -- data
    #: Loss: the mean duality gap of the two players' policies over rounds ("exploitability"), or
    #: the cross-entropy to an expert's policies, as in the paper ("expert").
    loss: Literal["exploitability", "expert"] = "exploitability"
    #: Expert to imitate: the equilibrium, samples of it, or mirror descent on the same history.
    #: Only with loss "expert".
    expert: Literal["nash", "nash-samples", "omd"] = "nash"
    #: Who plays the training games: the players as they are, no-regret learners, or half each.
    contexts: Literal["on-policy", "learners", "mixed"] = "on-policy"
    #: Names of the learners that play, each in an equal share of the games: those of
    #: `equipoise play`, except for the best responder.
    learners: tuple[str, ...] = ("omd", "exp3-ix", "uniform")
    #: Share of uniform play in the players' first rounds, falling as t^-1/4 from round 16 on. In
    #: training each game has a constant share below it. A player that plays only its best action
    #: learns nothing about the others. Not with contexts "learners".
    exploration: float = 0.2
    #: Number of games in the training set; None draws new games in every step.
    training_games: int | None = None

    # -- training
    #: Number of updates of the weights, rounded up to a multiple of play_ahead.
    steps: int = 2000
    #: Number of games in a step; each gives two sequences.
    batch: int = 64
    #: Number of batches that are played at once, before as many updates: the play that a step
    #: learns from is at most play_ahead - 1 steps old.
    play_ahead: int = 4
    #: Number of sequences in memory at once; gradients are summed. None takes all on an
    #: accelerator, and what fits the cache on a CPU.
    micro_batch: int | None = None
    #: Optimiser: Adam, or Muon for the matrices of the layers, which needs fewer steps.
    optimiser: Literal["adam", "muon"] = "adam"
    #: Peak learning rate of Adam; Muon's is five times as large.
    learning_rate: float = 1e-3
    #: How the learning rate changes after the warm-up.
    schedule: Literal["cosine", "constant"] = "cosine"
    #: Number of steps over which the learning rate rises from zero.
    warmup: int = 100
    #: Largest norm of a gradient; longer ones are shortened to it.
    clip: float = 1.0
    #: Floating-point format of matrix products: auto (bfloat16 on an accelerator, float32 on a
    #: CPU), float32 or bfloat16.
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    #: Number of independent pairs of players, trained in one program.
    seeds: int = 1

    # -- evaluation and stopping
    #: Number of steps between evaluations on held-out games, and between checkpoints.
    evaluate_every: int = 200
    #: Number of held-out games.
    held_out: int = 256
    #: Number of evaluations without a better result after which training stops; None never stops.
    patience: int | None = None
    #: Which held-out value counts: the gap after the last round, or the divergence from the expert
    #: ("kl", only with loss "expert"). In Markov games the gap is a mean over states times
    #: 1 - discount, and so smaller than the `nash_conv` of `evaluate`.
    stop_on: Literal["gap", "kl"] = "gap"
    #: Stop when the held-out value of every seed is below this, in the unit of stop_on; None never.
    stop_below: float | None = None

    def __post_init__(self) -> None:
        for name, words in CHOICES.items():
            if getattr(self, name) not in words:
                raise ValueError(
                    f"{name}: expected one of {list(words)}, found {getattr(self, name)!r}"
                )
        self._check_counts()
        self._check_numbers()
        for name, allowed in {"layer_norm": (True, False), "shared": (True, False, None)}.items():
            if not any(getattr(self, name) is value for value in allowed):
                words = ", ".join(map(str, allowed[:-1]))
                raise ValueError(
                    f"{name}: expected {words} or {allowed[-1]}, found {getattr(self, name)!r}"
                )
        self._check_learners()
        if self.stop_on == "kl" and self.loss != "expert":
            raise ValueError("stop_on: expected 'gap' unless loss is 'expert', found 'kl'")
        for name, default in _meaningless(vars(self)).items():
            decider, words = MEANINGFUL[name]
            raise ValueError(
                f"{name}: expected {default!r}, the default, unless {decider} is "
                f"{' or '.join(map(repr, words))}, found {getattr(self, name)!r}"
            )

    def _check_counts(self) -> None:
        """Whole numbers, which are kept as such, and how they fit together."""
        optional = ("training_games", "micro_batch", "patience", "head_groups")
        given = [name for name in optional if getattr(self, name) is not None]
        for name in (*COUNTS, *given, "warmup"):
            least = 0 if name == "warmup" else 1
            count = checks.check_count(name, getattr(self, name), at_least=least)
            object.__setattr__(self, name, count)
        if self.width % self.heads:
            raise ValueError(
                f"width: expected a multiple of heads ({self.heads}), found {self.width}"
            )
        if self.heads % (self.head_groups or 1):
            raise ValueError(
                f"head_groups: expected a divisor of heads ({self.heads}), found {self.head_groups}"
            )

    def _check_numbers(self) -> None:
        for name in ("exploration", "learning_rate", "clip", "stop_below"):
            value = getattr(self, name)
            if name == "stop_below" and value is None:
                continue
            number = isinstance(value, int | float | np.integer | np.floating)
            endless = name != "clip" and number and not math.isfinite(value)
            if not number or isinstance(value, bool) or endless or math.isnan(value):
                raise ValueError(f"{name}: expected a finite number, found {value!r}")
        checks.check_range("exploration", self.exploration, 0.0, 1.0)
        for name in ("learning_rate", "clip"):
            checks.check_range(name, getattr(self, name), 0.0, math.inf, low_open=True)

    def _check_learners(self) -> None:
        """Names, in a tuple (a list becomes one)."""
        names = self.learners
        if not isinstance(names, tuple | list) or not all(isinstance(n, str) for n in names):
            raise ValueError(
                f"learners: expected a tuple of names, such as ('omd',), found {names!r}"
            )
        object.__setattr__(self, "learners", tuple(names))
        if not names and self.contexts != "on-policy":
            raise ValueError("learners: expected at least one name, found none")

    @classmethod
    def paper(cls, rounds: int = 256, **changes: Any) -> "Config":
        """The paper's experiment: its tokens, its loss, its optimiser, five training games.

        Contexts come from mirror descent and labels are samples of the equilibrium, which the
        paper leaves open. It stops when the held-out divergence from the expert does not fall
        (the printed rule, cross-entropy below .01, lies below the entropy of mixed equilibria).

        >>> Config.paper(rounds=32, training_games=50).training_games
        50
        """
        printed = cls(
            rounds=rounds,
            tokens="vocabulary",
            shared=False,
            loss="expert",
            expert="nash-samples",
            contexts="learners",
            learners=("omd",),
            training_games=5,
            batch=32,
            steps=1000,
            schedule="constant",
            warmup=0,
            patience=5,
            stop_on="kl",
            evaluate_every=50,
            held_out=64,  # a vocabulary's tokens are played one by one
        )
        return replace(printed, **changes)

    @classmethod
    def large(cls, rounds: int = 256, **changes: Any) -> "Config":
        """The size of the players that come with the package; meant for an accelerator.

        >>> Config.large().layers
        6
        """
        sizes = cls(
            rounds=rounds,
            layers=6,
            width=128,
            hidden=512,
            head_groups=1,
            batch=512,
            steps=7000,
            optimiser="muon",
        )
        return replace(sizes, **changes)

    @classmethod
    def preset(cls, name: str, **changes: Any) -> "Config":
        """A config by the name of its preset: "default", "paper" or "large".

        >>> Config.preset("large", steps=10).layers
        6
        """
        presets = {"default": cls(), "paper": cls.paper(), "large": cls.large()}
        if name not in presets:
            raise ValueError(f"preset: expected one of {sorted(presets)}, found {name!r}")
        return replace(presets[name], **changes)

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> "Config":
        """A config from the plain data of a run folder.

        Values without a meaning, which were once accepted and ignored, are still ignored here.

        >>> Config.from_plain({"rounds": 8, "learners": ["omd"]}).learners
        ('omd',)
        """
        known = {field.name for field in fields(cls)}
        unknown = sorted(set(plain) - known)
        if unknown:
            raise ValueError(f"config: expected fields of Config, found {unknown}")
        values: dict[str, Any] = {
            k: tuple(v) if isinstance(v, list) else v for k, v in plain.items()
        }
        everything = {field.name: field.default for field in fields(cls)} | values
        return cls(**{**values, **_meaningless(everything)})


def check_config(config: Any, default: Callable[[], Config]) -> Config:
    """The config, or the default where none is given; refuses what is none.

    >>> check_config(None, Config).rounds
    256
    """
    if config is None:
        return default()
    if not isinstance(config, Config):
        raise ValueError(
            f"config: expected a Config, such as Config(rounds=64), found {type(config).__name__}"
        )
    return config


def _meaningless(values: dict[str, Any]) -> dict[str, Any]:
    """Fields that were set where they mean nothing, with their defaults."""
    defaults = {field.name: field.default for field in fields(Config)}
    return {
        name: defaults[name]
        for name, (decider, words) in MEANINGFUL.items()
        if values[decider] not in words and values[name] != defaults[name]
    }
