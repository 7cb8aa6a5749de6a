"""Everything that decides how players are pre-trained."""

import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, get_args, get_origin, get_type_hints

from equipoise.core import InputError, checks

#: Names of `equipoise.dynamics.NOISES`; named here, since that imports JAX.
NOISY = ("exact", "bernoulli", "gaussian")

#: Fields that mean something only where another one says so: they are the default elsewhere.
MEANINGFUL: dict[str, tuple[str, tuple[str, ...]]] = {
    "reward_bins": ("tokens", ("vocabulary",)),
    "expert": ("loss", ("expert",)),
    "exploration": ("contexts", ("on-policy", "mixed")),
    "watched": ("tokens", ("adaptive",)),
    "relative": ("tokens", ("adaptive",)),
}
#: Settings that a stage of training may change.
STAGED = ("steps", "rounds", "batch", "learning_rate", "noise", "watched", "largest", "exploration")

#: Name -> what differs from the default.
PRESETS: dict[str, dict[str, Any]] = {
    "default": {},
    "paper": {
        **{"tokens": "vocabulary", "shared": False, "loss": "expert", "expert": "nash-samples"},
        **{"contexts": "learners", "learners": ("omd",), "training_games": 5, "batch": 32},
        **{"steps": 1000, "schedule": "constant", "warmup": 0, "patience": 5, "stop_on": "kl"},
        # A vocabulary's tokens are played one by one: few games are held out.
        **{"evaluate_every": 50, "held_out": 64},
    },
    "any": {
        **{"tokens": "adaptive", "rounds": 255, "layers": 6, "heads": 8, "width": 256},
        **{"hidden": 1024, "head_groups": 1, "batch": 512, "play_ahead": 16},
        **{"noise": ("exact", "exact", "bernoulli", "gaussian"), "watched": 0.125},
        **{"optimiser": "muon", "steps": 4800, "evaluate_every": 800, "held_out": 1024},
        **{"stages": ("rounds=1023 batch=128 steps=3200",)},
    },
    "large": {
        **{"layers": 6, "width": 128, "hidden": 512, "head_groups": 1},
        **{"batch": 512, "steps": 7000, "optimiser": "muon"},
    },
}


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
    #: What the transformer reads: one token a round ("round"), the paper's vocabulary of states,
    #: actions and rewards ("vocabulary"), or one token a round that depends neither on the order of
    #: actions nor on the unit of rewards, for games of any size up to the family's ("adaptive").
    tokens: Literal["round", "vocabulary", "adaptive"] = "round"
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
    #: Whether rounds, sizes and noises with small gaps count as much as those with large ones: the
    #: loss is then the mean logarithm of their mean gaps. Only with tokens "adaptive".
    relative: bool = False
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
    #: What players see of rewards in training, each in an equal share of the games: "exact",
    #: "bernoulli", and "gaussian" with a scale between 0.03 and 0.5 that differs from game to game.
    noise: tuple[str, ...] = ("exact",)
    #: Share of the training games in which players are shown what the opponent plays. Only with
    #: tokens "adaptive".
    watched: float = 0.0
    #: Largest number of actions in training, for families of games of several sizes.
    largest: int | None = None

    # -- training
    #: Number of updates of the weights, rounded up to a multiple of play_ahead times reuse.
    steps: int = 2000
    #: Number of games in a step; each gives two sequences.
    batch: int = 64
    #: Number of batches that are played at once, before as many updates: the play that a step
    #: learns from is at most play_ahead - 1 steps old.
    play_ahead: int = 4
    #: Number of updates that learn from each game played. More of them need less play for a step,
    #: and learn from play that is older: at most play_ahead * reuse - 1 steps.
    reuse: int = 1
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
    #: Stages of training after the first, each a text such as "steps=2000 rounds=1023 batch=128":
    #: what it sets in place of the settings above. Stages can set steps, rounds, batch,
    #: learning_rate, noise (names with commas between them), watched, largest and exploration. The
    #: schedule goes over all of them, and held-out games have the rounds of the last.
    stages: tuple[str, ...] = ()

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
        for name, hint in get_type_hints(type(self)).items():
            self._check(name, getattr(self, name), get_origin(hint), get_args(hint) or (hint,))
        if self.width % self.heads:
            raise InputError("width", f"a multiple of heads ({self.heads})", self.width)
        if self.heads % (self.head_groups or 1):
            raise InputError("head_groups", f"a divisor of heads ({self.heads})", self.head_groups)
        if not self.learners and self.contexts != "on-policy":
            raise InputError("learners", "at least one name", "none")
        unknown = sorted({*self.noise} - {*NOISY})
        if unknown or not self.noise:
            raise InputError("noise", f"some of {list(NOISY)}", unknown or "none")
        if self.tokens == "adaptive" and (self.contexts, self.loss) != (
            "on-policy",
            "exploitability",
        ):
            found = f"contexts {self.contexts!r} and loss {self.loss!r}"
            expected = "contexts 'on-policy' and loss 'exploitability' with adaptive tokens"
            raise InputError("tokens", expected, found)
        self.staged()
        if self.stop_on == "kl" and self.loss != "expert":
            raise InputError("stop_on", "'gap' unless loss is 'expert'", "'kl'")
        for name, default in _meaningless(vars(self)).items():
            decider, words = MEANINGFUL[name]
            unless = f"{decider} is {' or '.join(map(repr, words))}"
            expected = f"{default!r} (the default) unless {unless}"
            raise InputError(name, expected, repr(getattr(self, name)))

    def _check(self, name: str, value: Any, origin: Any, kinds: tuple[Any, ...]) -> None:
        """Refuse a value that its annotation does not allow; keep counts as int, names as tuple."""
        if origin is Literal:
            if value not in kinds:
                raise InputError(name, f"one of {list(kinds)}", repr(value))
        elif origin is tuple:
            if not isinstance(value, tuple | list) or not all(isinstance(n, str) for n in value):
                raise InputError(name, "a tuple of names such as ('omd',)", repr(value))
            object.__setattr__(self, name, tuple(value))
        elif value is None and type(None) in kinds:
            return
        elif bool in kinds:
            if not isinstance(value, bool):
                words = "True, False or None" if type(None) in kinds else "True or False"
                raise InputError(name, words, repr(value))
        elif int in kinds:
            least = 0 if name == "warmup" else 1
            object.__setattr__(self, name, checks.check_count(name, value, at_least=least))
        else:
            low = -math.inf if name == "stop_below" else 0.0
            share = name in ("exploration", "watched")
            high = 1.0 if share else math.inf
            closed = {"low_open": not share, "high_open": high > 1 and name != "clip"}
            checks.check_range(name, value, low, high, **closed)

    def staged(self) -> tuple["Config", ...]:
        """The config of every stage, without further stages.

        >>> [stage.rounds for stage in Config(stages=("rounds=512 batch=32",)).staged()]
        [256, 512]
        """
        first = replace(self, stages=()) if self.stages else self
        return (first, *(replace(first, **_parsed(stage)) for stage in self.stages))

    @property
    def cycle(self) -> int:
        """Number of updates that are made from what is played at once."""
        return self.play_ahead * self.reuse

    @property
    def total_steps(self) -> int:
        """Updates of all stages, each rounded up to whole cycles."""
        return sum(-(-stage.steps // self.cycle) * self.cycle for stage in self.staged())

    @classmethod
    def paper(cls, rounds: int = 256, **changes: Any) -> "Config":
        """The paper's experiment: its tokens, its loss, its optimiser, five training games.

        Contexts come from mirror descent and labels are samples of the equilibrium, which the
        paper leaves open. It stops when the held-out divergence from the expert does not fall
        (the printed rule, cross-entropy below .01, lies below the entropy of mixed equilibria).

        >>> Config.paper(rounds=32, training_games=50).training_games
        50
        """
        return cls.preset("paper", rounds=rounds, **changes)

    @classmethod
    def large(cls, rounds: int = 256, **changes: Any) -> "Config":
        """The size of the players that come with the package; meant for an accelerator.

        >>> Config.large().layers
        6
        """
        return cls.preset("large", rounds=rounds, **changes)

    @classmethod
    def preset(cls, name: str, **changes: Any) -> "Config":
        """A config by the name of its preset: "default", "paper", "large" or "any".

        >>> Config.preset("large", steps=10).layers
        6
        """
        if name not in PRESETS:
            raise InputError("preset", f"one of {sorted(PRESETS)}", repr(name))
        return cls(**{**PRESETS[name], **changes})

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> "Config":
        """A config from the plain data of a run folder.

        Values without a meaning, which were once accepted and ignored, are still ignored here.

        >>> Config.from_plain({"rounds": 8, "learners": ["omd"]}).learners
        ('omd',)
        """
        defaults = {field.name: field.default for field in fields(cls)}
        unknown = sorted(set(plain) - set(defaults))
        if unknown:
            raise InputError("config", "fields of Config", unknown)
        values = {k: tuple(v) if isinstance(v, list) else v for k, v in plain.items()}
        return cls(**{**values, **_meaningless(defaults | values)})


def _parsed(stage: str) -> dict[str, Any]:
    """The settings that the text of a stage says.

    >>> _parsed("rounds=512 noise=exact,gaussian")
    {'rounds': 512, 'noise': ('exact', 'gaussian')}
    """
    hints, found = get_type_hints(Config), dict[str, Any]()
    for part in stage.split():
        name, sign, text = part.partition("=")
        if name not in STAGED or not sign:
            raise InputError("stages", f"settings such as rounds=512, of {list(STAGED)}", part)
        kinds = get_args(hints[name]) or (hints[name],)
        try:
            if get_origin(hints[name]) is tuple:
                found[name] = tuple(text.split(","))
            else:
                found[name] = int(text) if int in kinds else float(text)
        except ValueError:
            raise InputError("stages", f"a number for {name}", repr(text)) from None
    if not found:
        raise InputError("stages", "at least one setting in each stage", repr(stage))
    return found


def check_config(config: Any, default: Callable[[], Config]) -> Config:
    """The config, or the default where none is given; refuses what is none.

    >>> check_config(None, Config).rounds
    256
    """
    if config is None:
        return default()
    if not isinstance(config, Config):
        raise InputError("config", "a Config such as Config(rounds=64)", type(config).__name__)
    return config


def check_weights(config: Config) -> None:
    """Refuse models that would not fit in memory, with their gradients and Adam's moments."""
    inner = 4 * config.width + 2 * config.hidden
    factors = (16, config.seeds, config.layers, config.width, inner)
    _check_fits(config, ("layers", "width", "hidden", "seeds"), factors, "the weights")


def check_play(config: Config) -> None:
    """Refuse play and activations that would not fit in memory, at the least they can take."""
    for stage in config.staged()[1:]:
        check_play(stage)
    games = max(config.batch * config.play_ahead, config.held_out)
    played = (32, config.seeds, games, config.rounds)
    names = ("batch", "play_ahead", "held_out", "rounds", "seeds")
    _check_fits(config, names, played, "the rounds played")
    activations = (4, config.layers, config.rounds, config.width + config.hidden)
    _check_fits(config, ("rounds", "layers", "width", "hidden"), activations, "one sequence")


def _check_fits(
    config: Config, names: tuple[str, ...], factors: tuple[int, ...], what: str
) -> None:
    """Blame the setting that is the largest multiple of its default."""
    worst = max(names, key=lambda name: getattr(config, name) // getattr(Config, name))
    checks.check_memory(worst, factors, what, f"reduce {' or '.join(names)}")


def _meaningless(values: dict[str, Any]) -> dict[str, Any]:
    """Fields that were set where they mean nothing, with their defaults."""
    defaults = {field.name: field.default for field in fields(Config)}
    return {
        name: defaults[name]
        for name, (decider, words) in MEANINGFUL.items()
        if values[decider] not in words and values[name] != defaults[name]
    }
