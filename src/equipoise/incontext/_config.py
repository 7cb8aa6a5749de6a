"""The settings of pre-training: `Config`, its presets and its checks."""

import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from equipoise.core.errors import InputError, named_arguments

#: Name of the description of saved players, which marks a folder of them as complete.
DESCRIPTION = "players.json"
#: Folder of the players that ship with the package.
SHIPPED = Path(__file__).parent / "shipped"
#: Subfolder for the best players of an interrupted run.
BEST = "best-so-far"

#: The keys of `equipoise.dynamics.NOISES`, repeated here because importing those imports JAX.
NOISY = ("exact", "bernoulli", "gaussian")

#: Fields that only apply when another field has one of these values. Elsewhere they must keep
#: their default.
MEANINGFUL: dict[str, tuple[str, tuple[str, ...]]] = {
    "reward_bins": ("tokens", ("vocabulary",)),
    "expert": ("loss", ("expert",)),
    "exploration": ("contexts", ("on-policy", "mixed")),
    "fixed_data": ("contexts", ("learners",)),
    "watched": ("tokens", ("adaptive",)),
    "relative": ("tokens", ("adaptive",)),
}
#: Settings that a training stage can change.
STAGED = ("steps", "rounds", "batch", "learning_rate", "noise", "watched", "largest", "exploration")

#: Presets by name, each as its differences from the defaults.
PRESETS: dict[str, dict[str, Any]] = {
    "default": {},
    "paper": {
        **{"tokens": "vocabulary", "shared": False, "loss": "expert", "expert": "nash-samples"},
        **{"head_groups": None, "optimiser": "adam"},
        **{"contexts": "learners", "learners": ("omd",), "training_games": 5, "batch": 32},
        **{"steps": 1000, "schedule": "constant", "warmup": 0, "patience": 5, "stop_on": "kl"},
        # Vocabulary tokens are played one by one, which is slow, so few games are held out.
        **{"evaluate_every": 50, "held_out": 64},
    },
    "any": {
        **{"tokens": "adaptive", "rounds": 255, "layers": 6, "heads": 8, "width": 256},
        **{"hidden": 1024, "batch": 512, "play_ahead": 16},
        **{"noise": ("exact", "exact", "bernoulli", "gaussian"), "watched": 0.125},
        **{"steps": 4800, "evaluate_every": 800, "held_out": 1024},
        **{"stages": ("rounds=1023 batch=128 steps=3200",)},
    },
    "large": {"layers": 6, "width": 128, "hidden": 512, "batch": 512, "steps": 7000},
}


@named_arguments
@dataclass(frozen=True)
class Config:
    """Settings of a pre-training run: model size, data, loss and optimiser.

    The default model has the size of the in-context paper's: 2 layers, 4 heads, width 64 and MLPs
    with 256 hidden units. Its heads share keys and values, unlike the paper's.

    **Example**

    >>> import equipoise as eq
    >>> eq.incontext.Config(rounds=64).width, eq.incontext.Config.paper(rounds=64).loss
    (64, 'expert')
    """

    # The comment above a field is its help text on the command line.

    #: Number of rounds in every training game. `equipoise play` refuses longer matches of these
    #: players without a guard.
    rounds: int = 256

    # -- model

    #: Input format of the transformer. "round" writes one token per round. "vocabulary" writes the
    #: paper's tokens for states, actions and rewards. "adaptive" writes one token per round that
    #: depends neither on the order of actions nor on the unit of rewards, so that one model plays
    #: games of every size up to the family's.
    tokens: Literal["round", "vocabulary", "adaptive"] = "round"
    #: Number of reward levels in the vocabulary. Applies only with tokens "vocabulary".
    reward_bins: int = 20
    #: Number of layers. Each layer is attention followed by an MLP.
    layers: int = 2
    #: Number of attention heads.
    heads: int = 4
    #: Number of groups of heads that share keys and values. Fewer groups make play faster, since
    #: the cache is smaller. None gives each head its own.
    head_groups: int | None = 1
    #: Size of the residual stream. It must be a multiple of heads.
    width: int = 64
    #: Number of hidden units in each MLP.
    hidden: int = 256
    #: How attention weights tokens: by a softmax, or by the paper's ReLU divided by the number of
    #: tokens.
    attention: Literal["softmax", "relu"] = "softmax"
    #: Whether layers normalise their input.
    layer_norm: bool = True
    #: Whether one model plays both seats. This requires a family that is symmetric: swapping the
    #: players must map it to itself. None shares a model if the family is symmetric.
    shared: bool | None = None

    # -- data

    #: Training loss. "exploitability" is the mean NashConv (duality gap) of the two players'
    #: policies over rounds; unlike a certificate's `exploitability`, it is not divided by two.
    #: "expert" is the cross-entropy to an expert's policies, as in the paper.
    loss: Literal["exploitability", "expert"] = "exploitability"
    #: Whether rounds, game sizes and noises with a small NashConv count as much as those with a
    #: large one: the loss is then the mean logarithm of their mean NashConv. Applies only with
    #: tokens "adaptive".
    relative: bool = False
    #: Expert to imitate: the equilibrium ("nash"), actions sampled from it ("nash-samples"), or
    #: mirror descent on the same history, the default learner ("omd") or the paper's with its
    #: errata corrected ("omd-vanishing"). Applies only with loss "expert".
    expert: Literal["nash", "nash-samples", "omd", "omd-vanishing"] = "nash"
    #: Players of the training games: the current players ("on-policy"), no-regret learners
    #: ("learners"), or each of them in half of the games ("mixed").
    contexts: Literal["on-policy", "learners", "mixed"] = "on-policy"
    #: Names of the learners that play training games, each in an equal share of them. Every
    #: learner of `equipoise play` is allowed except the best responder.
    learners: tuple[str, ...] = ("omd", "exp3-ix", "uniform")
    #: Share of uniform play, from 0 to 1, in the players' first rounds. It falls as t^-1/4 from
    #: round 16 on. During training each game has a constant share below this value. Without
    #: exploration a player that plays only its best action learns nothing about the other actions.
    #: Does not apply with contexts "learners".
    exploration: float = 0.2
    #: Number of games in the training set. None draws new games in every step.
    training_games: int | None = None
    #: Whether all steps learn from the same batch * play_ahead games, histories and labels, which
    #: are drawn once, as in the paper's Eq. (1). Otherwise each cycle draws new ones. Applies only
    #: with contexts "learners".
    fixed_data: bool = False
    #: Noise in the rewards that players see in training. Each noise is used in an equal share of
    #: the games: "exact", "bernoulli", or "gaussian" with a scale between 0.03 and 0.5 that differs
    #: from game to game.
    noise: tuple[str, ...] = ("exact",)
    #: Share of the training games, from 0 to 1, in which players see the opponent's actions.
    #: Applies only with tokens "adaptive".
    watched: float = 0.0
    #: Largest number of actions in training, for families with games of several sizes. None uses
    #: every size of the family.
    largest: int | None = None

    # -- training

    #: Number of updates of the weights, rounded up to a multiple of play_ahead times reuse.
    steps: int = 2000
    #: Number of games in a step. Each game gives two sequences, one per player.
    batch: int = 64
    #: Number of batches that are played together, before the same number of updates. The play that
    #: a step learns from is at most play_ahead - 1 steps old.
    play_ahead: int = 4
    #: Number of updates that learn from each game played. A larger value needs less play per step,
    #: but learns from older play: at most play_ahead * reuse - 1 steps old.
    reuse: int = 1
    #: Number of sequences whose gradient is computed at once; gradients are accumulated. None
    #: takes the whole batch on an accelerator, and as many as fit the cache on a CPU.
    micro_batch: int | None = None
    #: Optimiser: Adam for all weights, or Muon for the matrices of the layers. Muon needs fewer
    #: steps.
    optimiser: Literal["adam", "muon"] = "muon"
    #: Peak learning rate of Adam. Muon's learning rate is five times as large.
    learning_rate: float = 1e-3
    #: How the learning rate changes after the warm-up.
    schedule: Literal["cosine", "constant"] = "cosine"
    #: Number of steps over which the learning rate rises from zero.
    warmup: int = 100
    #: Largest norm of a gradient. Longer gradients are scaled down to it.
    clip: float = 1.0
    #: Floating-point format of matrix products: auto (bfloat16 on an accelerator, float32 on a
    #: CPU), float32 or bfloat16.
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    #: Number of independent pairs of players, trained in one program.
    seeds: int = 1
    #: Further stages of training, each a text such as "steps=2000 rounds=1023 batch=128" that
    #: overrides the settings above for that stage. A stage can set steps, rounds, batch,
    #: learning_rate, noise (names separated by commas), watched, largest and exploration. The
    #: learning-rate schedule covers all stages, and held-out games have as many rounds as the last.
    stages: tuple[str, ...] = ()

    # -- evaluation and stopping

    #: Number of steps between evaluations on held-out games. Checkpoints are written as often.
    evaluate_every: int = 200
    #: Number of held-out games.
    held_out: int = 256
    #: Stop after this many evaluations without a better result. None never stops early.
    patience: int | None = None
    #: Value that stops training and, if it is a held-out one, selects the weights: the NashConv
    #: after the last round ("gap"), the divergence from the expert ("kl"), or the loss in training
    #: ("cross-entropy", the paper's rule, which takes the latest weights). The last two require
    #: loss "expert". In Markov games this NashConv is scaled (the mean over states, times
    #: 1 - discount), and is therefore smaller than the `nash_conv` of `evaluate`.
    stop_on: Literal["gap", "kl", "cross-entropy"] = "gap"
    #: Stop when the value of every seed is below this, in the unit of stop_on. None never stops
    #: early. With "cross-entropy", each seed stops by itself.
    stop_below: float | None = None

    def __post_init__(self) -> None:
        for name, hint in get_type_hints(type(self)).items():
            if getattr(self, name) is not getattr(Config, name):  # defaults need no check
                self._check(name, getattr(self, name), get_origin(hint), get_args(hint) or (hint,))
        if self.width % self.heads:
            raise InputError("width", f"a multiple of heads ({self.heads})", self.width)
        if self.heads % (self.head_groups or 1):
            raise InputError("head_groups", f"a divisor of heads ({self.heads})", self.head_groups)
        if not self.learners and self.contexts != "on-policy":
            raise InputError("learners", "at least one name", "none")
        unknown = sorted({*self.noise} - {*NOISY})
        if unknown or not self.noise:
            raise InputError("noise", f"some of {', '.join(NOISY)}", ", ".join(unknown) or "none")
        if self.tokens == "adaptive" and (self.contexts, self.loss) != (
            "on-policy",
            "exploitability",
        ):
            found = f"contexts {self.contexts!r} and loss {self.loss!r}"
            expected = "contexts 'on-policy' and loss 'exploitability' with adaptive tokens"
            raise InputError("tokens", expected, found)
        self.staged()
        if self.stop_on != "gap" and self.loss != "expert":
            raise InputError("stop_on", "'gap' unless loss is 'expert'", repr(self.stop_on))
        if self.stop_on == "cross-entropy" and self.patience is not None:
            raise InputError("patience", "None with stop_on 'cross-entropy'", self.patience)
        for name, default in _meaningless(vars(self)).items():
            decider, words = MEANINGFUL[name]
            unless = f"{decider} is {' or '.join(map(repr, words))}"
            expected = f"{default!r} (the default) unless {unless}"
            raise InputError(name, expected, repr(getattr(self, name)))

    def _check(self, name: str, value: Any, origin: Any, kinds: tuple[Any, ...]) -> None:
        """Check a value against its annotation; store counts as int and names as a tuple."""
        from equipoise.core import checks  # NumPy, which the help does not need

        if origin is Literal:
            if value not in kinds:
                raise InputError(name, f"one of {', '.join(map(str, kinds))}", repr(value))
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
        """Return one config per stage, each without further stages.

        >>> [stage.rounds for stage in Config(stages=("rounds=512 batch=32",)).staged()]
        [256, 512]
        """
        first = replace(self, stages=()) if self.stages else self
        return (first, *(replace(first, **_parsed(stage)) for stage in self.stages))

    @property
    def needs_equilibria(self) -> bool:
        """Whether the labels are made from equilibria of the training games.

        >>> Config.paper().needs_equilibria, Config.paper(expert="omd").needs_equilibria
        (True, False)
        """
        return self.loss == "expert" and self.expert.startswith("nash")

    @property
    def cycle(self) -> int:
        """Number of updates made from the games that are played together."""
        return self.play_ahead * self.reuse

    @property
    def total_steps(self) -> int:
        """Number of updates in all stages, each stage rounded up to whole cycles."""
        return sum(-(-stage.steps // self.cycle) * self.cycle for stage in self.staged())

    @classmethod
    def paper(cls, rounds: int = 256, **changes: Any) -> "Config":
        """Return the config of the paper's experiment: its tokens, loss, optimiser, five games.

        The paper does not say who plays the contexts or what the labels are; here mirror descent
        plays them and labels are samples of the equilibrium. Training stops when the held-out
        divergence from the expert no longer falls. The printed rule is
        `Config.paper(stop_on="cross-entropy", stop_below=0.01, patience=None)`. With fresh data the
        expected cross-entropy is at least the mean entropy of the training games' equilibria, so
        that the rule can apply only if nearly all of them are pure. With `fixed_data=True`, as in
        Eq. (1), there is no such bound, since labels can be memorised.

        >>> Config.paper(rounds=32, training_games=50).training_games
        50
        """
        return cls.preset("paper", rounds=rounds, **changes)

    @classmethod
    def large(cls, rounds: int = 256, **changes: Any) -> "Config":
        """Return the config of the players iid3, iid5 and markov3; training with it needs a GPU.

        >>> Config.large().layers
        6
        """
        return cls.preset("large", rounds=rounds, **changes)

    @classmethod
    def preset(cls, name: str, **changes: Any) -> "Config":
        """Return a preset by name: "default", "paper", "large" or "any".

        >>> Config.preset("large", steps=10).layers
        6
        """
        if name not in PRESETS:
            raise InputError("preset", f"one of {', '.join(sorted(PRESETS))}", repr(name))
        return cls(**{**PRESETS[name], **changes})

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> "Config":
        """Build a config from the plain data in a run folder.

        Earlier versions accepted settings that do not apply and ignored them. They are still
        ignored here.

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
    """Parse the text of a stage into settings.

    >>> _parsed("rounds=512 noise=exact,gaussian")
    {'rounds': 512, 'noise': ('exact', 'gaussian')}
    """
    hints, found = get_type_hints(Config), dict[str, Any]()
    for part in stage.split():
        name, sign, text = part.partition("=")
        if name not in STAGED or not sign:
            raise InputError(
                "stages", f"settings such as rounds=512, from {', '.join(STAGED)}", part
            )
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
    """Return the config, or the default if it is None; raise unless it is a `Config`.

    >>> check_config(None, Config).rounds
    256
    """
    if config is None:
        return default()
    if not isinstance(config, Config):
        raise InputError("config", "a Config such as Config(rounds=64)", type(config).__name__)
    return config


def check_weights(config: Config) -> None:
    """Raise if the weights, their gradients and Adam's moments would not fit in memory."""
    inner = 4 * config.width + 2 * config.hidden
    factors = (16, config.seeds, config.layers, config.width, inner)
    _check_fits(config, ("layers", "width", "hidden", "seeds"), factors, "the weights")


def check_play(config: Config) -> None:
    """Raise if play and activations would not fit in memory, even at their smallest size."""
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
    """Raise if too large, naming the setting that is the largest multiple of its default."""
    from equipoise.core import checks

    worst = max(names, key=lambda name: getattr(config, name) // getattr(Config, name))
    checks.check_memory(worst, factors, what, f"reduce {' or '.join(names)}")


def _meaningless(values: dict[str, Any]) -> dict[str, Any]:
    """Return the fields that were set although they do not apply, with their defaults."""
    defaults = {field.name: field.default for field in fields(Config)}
    return {
        name: defaults[name]
        for name, (decider, words) in MEANINGFUL.items()
        if values[decider] not in words and values[name] != defaults[name]
    }


def shipped() -> list[str]:
    """Return the names of the players that ship with the package.

    >>> "iid3" in shipped()
    True
    """
    return sorted(path.parent.name for path in SHIPPED.glob(f"*/{DESCRIPTION}"))
