"""A learner in a program of your own: ask for an action, tell the reward."""

import math
import os
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from equipoise.core import checks, schedules
from equipoise.core.arrays import read_npz, write_npz
from equipoise.core.plain import dumps, loads
from equipoise.core.precision import single_precision
from equipoise.core.randomness import as_key
from equipoise.core.rewards import check_reward_range
from equipoise.dynamics import _markov, _omd, _parts, _references
from equipoise.dynamics._learner import (
    Bandit,
    ContextLearner,
    Foresight,
    Learner,
    MarkovBandit,
    Nothing,
    Pair,
    Spec,
    Values,
)
from equipoise.dynamics._resume import digest

#: Rounds for which a learner with a context has room at first; the room doubles when it is used up.
FIRST_ROOM = 256
#: Version of the files that `save` writes.
_FORMAT = 1
#: Modules whose classes may be named in a file.
_MODULES = (_omd, _markov, _references, _parts, schedules)


class Online:
    """A learner, or one of a pair of frozen players, that plays in your own program.

    `ask` draws an action. `tell` says what it earned. Nobody needs to know the game, or who else
    plays. Rewards may have any range: with `reward_range=None` the range is learned from the
    rewards seen so far, which are scaled to [0, 1] by it; a declared range is better where it is
    known, since scales that change late disturb what was learned early.

    **Arguments**

    - `learner`: a learner of `equipoise.dynamics`, one of your own, or players of
      `equipoise.incontext`, of whom the one in `seat` plays.
    - `actions`: number of actions; players know theirs.
    - `reward_range`: lowest and highest reward, or None.
    - `states`, `discount`, `state`: for learners of Markov games: the number of states, the
      discount, and the state in which play begins.
    - `key`: where randomness begins: an int seed or a JAX key.

    **Example**

    A slot machine with three arms, of which the last pays best:

    >>> import numpy as np, equipoise as eq
    >>> rng, means = np.random.default_rng(0), [2.0, 3.0, 7.0]
    >>> online = eq.Online(eq.dynamics.OMD(), actions=3, reward_range=(0, 10), key=1)
    >>> for _ in range(500):
    ...     arm = online.ask()
    ...     online.tell(np.clip(rng.normal(means[arm], 1.0), 0, 10))
    >>> online.rounds, int(online.policy.argmax())
    (500, 2)
    """

    def __init__(
        self,
        learner: Learner | Pair,
        *,
        actions: int | None = None,
        reward_range: tuple[float, float] | None = None,
        states: int | None = None,
        discount: float = 0.0,
        state: int = 0,
        seat: Literal["row", "column"] = "row",
        key: Any = 0,
    ):
        self._learner = _seated(learner, seat)
        self._spec = _spec(self._learner, actions, states, discount, state)
        self._range = None if reward_range is None else check_reward_range(reward_range)
        #: Lowest and highest reward seen.
        self._seen = (math.inf, -math.inf)
        #: Number of rounds that have been told.
        self.rounds = 0
        self._here = self._spec.start
        self._asked: int | None = None
        words = np.asarray(jax.random.key_data(as_key(key)), np.uint32).reshape(-1, 2)
        self._key = int.from_bytes(np.bitwise_xor.reduce(words).tobytes(), "little")
        self._room = _room(self._learner, FIRST_ROOM)
        self._step = _steps(self._learner)
        self._read(self._first())

    @property
    def policy(self) -> np.ndarray:
        """(actions,): probabilities of the next action, exploration included; sums to one."""
        policy = self._policies if self._spec.states is None else self._policies[self._here]
        learner = self._learner
        if isinstance(learner, ContextLearner) and learner.exploration is not None:
            share = float(learner.exploration)
            if learner.fading:
                share *= min(1.0, (16.0 / (self.rounds + 1)) ** 0.25)
            policy = (1.0 - share) * policy + share / len(policy)
        return policy / policy.sum()

    @property
    def policies(self) -> np.ndarray:
        """What was learned, without exploration: (actions,), or (states, actions)."""
        return self._policies / self._policies.sum(-1, keepdims=True)

    @property
    def reward_range(self) -> tuple[float, float] | None:
        """The declared range, or that of the rewards seen so far; None before there are any."""
        if self._range is not None:
            return self._range
        return self._seen if self.rounds else None

    @property
    def state(self) -> int | None:
        """Where play is, in Markov games; otherwise None."""
        return None if self._spec.states is None else self._here

    def ask(self) -> int:
        """The next action; the same one until `tell` says what it earned."""
        if self._asked is None:
            left = _uniform(self._key, self.rounds + 1)
            self._asked = self._spec.actions - 1
            for action, probability in enumerate(self.policy.tolist()[:-1]):
                left -= probability
                if left < 0.0:
                    self._asked = action
                    break
        return self._asked

    def tell(
        self,
        reward: Any,
        *,
        next_state: int | np.integer | None = None,
        action: int | np.integer | None = None,
    ) -> None:
        """The action asked for earned this reward; larger is better.

        With `action`, it was another action than the one asked for, or one that your program drew
        from `policy` by itself. Learners with full information are told what every action would
        have earned: `reward` is an array of shape (actions,). In Markov games say where play went.
        Whatever is refused changes nothing.
        """
        spec = self._spec
        action = self._action(action)
        reward = self._reward(reward)
        then = self._next(next_state)
        if self.rounds == self._room and isinstance(self._learner, ContextLearner):
            self._grow(self._learner)
        if self._range is None:
            low = min(self._seen[0], float(np.min(reward)))
            self._seen = (low, max(self._seen[1], float(np.max(reward))))
        scaled = self._scaled(reward)
        t = np.int32(self.rounds + 1)
        with single_precision():
            if spec.states is None:
                found = self._step(self._memory, t, np.int32(action), scaled)
            else:
                places = np.int32(self._here), np.int32(then)
                found = self._step(self._memory, t, np.int32(action), scaled, *places)
        self._read(found)
        self.rounds, self._here, self._asked = self.rounds + 1, then, None

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to one `.npz` file; `Online.load` goes on where this stopped."""
        leaves = jax.tree.leaves(self._memory)
        spec = self._spec
        told = {
            "format": _FORMAT,
            "learner": _describe(self._learner),
            "digest": digest(self._learner).tobytes().hex(),
            "spec": [spec.actions, spec.states, spec.discount, spec.start],
            "reward_range": self._range,
            "seen": self._seen,
            "rounds": self.rounds,
            "state": self._here,
            "asked": self._asked,
            "room": self._room,
            "key": str(self._key),
        }
        arrays = {f"leaf{i}": np.asarray(leaf) for i, leaf in enumerate(leaves)}
        write_npz(path, {"online": np.array(dumps(told)), **arrays})

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        learner: Learner | Pair | None = None,
        *,
        seat: Literal["row", "column"] = "row",
    ) -> "Online":
        """Read what `save` wrote.

        Learners of this package are described in the file. Players, and learners of your own, are
        not: pass the same `learner` (and `seat`) again; another one is refused.

        **Example**

        >>> import tempfile, equipoise as eq
        >>> online = eq.Online(eq.dynamics.EXP3IX(), actions=2, key=0)
        >>> _ = online.ask()
        >>> online.tell(1.0)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     online.save(folder + "/online.npz")
        ...     again = eq.Online.load(folder + "/online.npz")
        >>> again.rounds, again.ask() == online.ask()
        (1, True)
        """
        arrays = read_npz(path)
        told = _told(path, arrays.pop("online", None))
        if learner is None:
            if told["learner"] is None:
                raise ValueError(
                    "learner: expected the players or the learner that was saved, since the file "
                    "does not describe them, found None"
                )
            made = _restore(told["learner"], str(path))
        else:
            made = _seated(learner, seat)
        if digest(made).tobytes().hex() != told["digest"]:
            raise ValueError(f"learner: expected the one that was saved in {path}, found another")
        try:
            online = cls._restored(made, told, arrays)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{path}: expected a saved Online, found {error}") from error
        return online

    @classmethod
    def _restored(cls, learner: Learner, told: dict[str, Any], arrays: dict) -> "Online":
        actions, states, discount, start = told["spec"]
        ends = told["reward_range"]
        online = cls(
            learner,
            actions=actions,
            reward_range=None if ends is None else (ends[0], ends[1]),
            states=states,
            discount=discount,
            state=start,
        )
        online.rounds = checks.check_count("rounds", told["rounds"], at_least=0)
        online._room = checks.check_count("room", told["room"])
        online._seen = (float(told["seen"][0]), float(told["seen"][1]))
        online._here = online._check_state("state", told["state"])
        online._asked = None if told["asked"] is None else online._action(told["asked"])
        online._key = int(told["key"]) % 2**64
        memory, _ = online._first()
        leaves, tree = jax.tree.flatten(memory)
        if len(arrays) != len(leaves):
            raise ValueError(f"{len(arrays)} arrays instead of {len(leaves)}")
        found = [arrays[f"leaf{i}"] for i in range(len(leaves))]
        for i, (array, like) in enumerate(zip(found, leaves, strict=True)):
            checks.check_shape(f"leaf{i}", array, like.shape, "as this learner makes it")
            if array.dtype != like.dtype:
                raise ValueError(f"leaf{i}: expected {like.dtype}, found {array.dtype}")
            checks.check_finite(f"leaf{i}", array)
        memory = jax.tree.unflatten(tree, [jnp.asarray(array) for array in found])
        with single_precision():
            online._read((memory, learner.policy(memory)))
        return online

    def _first(self) -> Any:
        """The learner's memory before the first round, and its policy."""
        spec = self._spec
        room = Spec(spec.actions, spec.states, spec.discount, spec.start, self._room)
        with single_precision():
            memory = self._learner.init(room)
            if not isinstance(self._learner, ContextLearner):
                # A few numbers: an accelerator would take longer to be asked than a CPU to answer.
                memory = jax.device_put(memory, jax.local_devices(backend="cpu")[0])
            return memory, self._learner.policy(memory)

    def _read(self, found: Any) -> None:
        self._memory, policies = found
        self._policies = np.asarray(policies, np.float64)

    def _grow(self, learner: ContextLearner) -> None:
        """Twice the room; refuses a round that hand-built players cannot number."""
        room = _room(learner, 2 * self._room)
        if room == self._room:
            raise ValueError(f"rounds: expected at most {room}, as built, found {room + 1}")
        with single_precision():
            self._memory = learner.grow(self._memory, room)
        self._room = room

    def _action(self, action: Any) -> int:
        if action is None:
            if self._asked is None:
                raise ValueError(
                    "tell: expected `ask` before it, or the action that was played as `action`"
                )
            return self._asked
        action = checks.check_count("action", action, at_least=0)
        if action >= self._spec.actions:
            raise ValueError(
                f"action: expected a number in [0, {self._spec.actions - 1}], found {action}"
            )
        return action

    def _reward(self, reward: Any) -> Any:
        """A finite number in the range, or as many as there are actions."""
        if self._learner.sees is Values:
            rewards = checks.as_float_array("reward", reward)
            checks.check_shape("reward", rewards, (self._spec.actions,), "one for every action")
            checks.check_finite("reward", rewards)
        else:
            number = isinstance(reward, int | float | np.integer | np.floating)
            number = number or (hasattr(reward, "shape") and reward.shape == ())
            if not number or isinstance(reward, bool | np.bool_):
                raise ValueError(f"reward: expected a number, found {reward!r}")
            rewards = float(reward)
            if not math.isfinite(rewards):
                raise ValueError(f"reward: expected a finite number, found {rewards}")
        if self._range is not None:
            low, high = self._range
            for value in (float(np.min(rewards)), float(np.max(rewards))):
                if not low <= value <= high:
                    raise ValueError(
                        f"reward: expected a number in [{low}, {high}], the declared reward_range, "
                        f"found {value}"
                    )
        return rewards

    def _scaled(self, reward: Any) -> Any:
        low, high = self._seen if self._range is None else self._range
        # A single reward has no range: it is taken for the middle of one.
        scaled = (reward - low) / (high - low) if high > low else 0.5 + 0.0 * reward
        return np.asarray(scaled, np.float32)

    def _next(self, state: Any) -> int:
        if (state is None) != (self._spec.states is None):
            expected = "None, since there are no states" if state is not None else "a state"
            raise ValueError(f"next_state: expected {expected}, found {state}")
        return 0 if state is None else self._check_state("next_state", state)

    def _check_state(self, name: str, state: Any) -> int:
        state = checks.check_count(name, state, at_least=0)
        if state >= (self._spec.states or 1):
            most = (self._spec.states or 1) - 1
            raise ValueError(f"{name}: expected a state in [0, {most}], found {state}")
        return state


def _uniform(key: int, t: int) -> float:
    """A number uniform on [0, 1) for a round: SplitMix64 at counter `t`, in Python's integers.

    >>> _uniform(0, 1) == _uniform(0, 1) != _uniform(0, 2)
    True
    """
    word = key
    for step in (0x9E3779B97F4A7C15, t * 0x9E3779B97F4A7C15):
        word = (word + step) % 2**64
        word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
        word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) % 2**64
        word ^= word >> 31
    return (word >> 11) * 2.0**-53


def _seated(learner: Any, seat: Any) -> Learner:
    if seat not in ("row", "column"):
        raise ValueError(f"seat: expected 'row' or 'column', found {seat!r}")
    if isinstance(learner, Pair):
        learner = learner.learners()[seat == "column"]
    if not isinstance(learner, Learner):
        raise ValueError(f"learner: expected a Learner or Players, found {type(learner).__name__}")
    if learner.sees is Foresight:
        raise ValueError(
            f"learner: expected one that sees what it earned, found {type(learner).__name__}, "
            "which must know the game and its opponent"
        )
    return learner


def _spec(learner: Any, actions: Any, states: Any, discount: Any, state: Any) -> Spec:
    """What the learner knows beforehand; a learner with a context knows its own sizes."""
    own = getattr(learner, "actions", None) if isinstance(learner, ContextLearner) else None
    if own is not None:
        for name, value, known in (
            ("actions", actions, own),
            ("states", states, getattr(learner, "states", None)),
        ):
            if value is not None and value != known:
                raise ValueError(f"{name}: expected {known}, those of the player, found {value}")
        actions, states = own, getattr(learner, "states", None)
    if actions is None:
        raise ValueError("actions: expected the number of actions, found None")
    actions = checks.check_count("actions", actions)
    markov = learner.sees is MarkovBandit
    if states is None and markov:
        raise ValueError(
            f"states: expected their number for {type(learner).__name__}, a learner of Markov "
            "games, found None"
        )
    if states is not None:
        states = checks.check_count("states", states)
        if not markov and learner.sees is not Nothing:
            raise ValueError(
                f"states: expected None for {type(learner).__name__}, a learner of matrix games, "
                f"found {states}"
            )
    checks.check_range("discount", discount, 0.0, 1.0, high_open=True)
    start = checks.check_count("state", state, at_least=0)
    if start >= (states or 1):
        raise ValueError(f"state: expected a state in [0, {(states or 1) - 1}], found {start}")
    return Spec(actions, states, float(discount), start)


def _room(learner: Any, wanted: int) -> int:
    """So many rounds, or all that can be written where the tokens of a player number them."""
    return min(wanted, getattr(getattr(learner, "tokens", None), "rounds", wanted))


def _steps(learner: Learner) -> Any:
    """A round of the learner, compiled: its memory and its policy after it."""

    def step(memory: Any, t: Any, action: Any, reward: Any, *places: Any) -> tuple[Any, Any]:
        if learner.sees is Bandit:
            feedback: Any = Bandit(t, action, reward)
        elif learner.sees is MarkovBandit:
            feedback = MarkovBandit(t, places[0], action, reward, places[1])
        elif learner.sees is Values:
            feedback = Values(t, reward, learner.policy(memory))
        else:
            feedback = Nothing(t)
        memory = learner.update(memory, feedback)
        return memory, learner.policy(memory)

    return jax.jit(step)


def _classes() -> dict[str, type]:
    return {
        name: value
        for module in _MODULES
        for name, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, eqx.Module)
    }


def _describe(part: Any) -> Any:
    """A learner as plain data; None for one that is not made of parts of this package."""
    if isinstance(part, eqx.Module):
        if _classes().get(type(part).__name__) is not type(part):
            return None
        fields = {name: _describe(value) for name, value in vars(part).items()}
        known = all(v is not None or vars(part)[n] is None for n, v in fields.items())
        return {"kind": type(part).__name__, **fields} if known else None
    if isinstance(part, np.ndarray | jax.Array):
        return np.asarray(part).tolist()
    return part if isinstance(part, bool | int | float | str) else None


def _restore(described: Any, where: str) -> Any:
    """The learner that `_describe` described."""
    if not isinstance(described, dict):
        return described
    fields = dict(described)
    kind = _classes().get(str(fields.pop("kind", None)))
    if kind is None:
        raise ValueError(f"{where}: expected a learner of equipoise.dynamics, found {described}")
    try:
        return kind(**{name: _restore(value, where) for name, value in fields.items()})
    except TypeError as error:
        raise ValueError(f"{where}: expected the parts of a learner, found {error}") from error


def _told(path: Any, array: Any) -> dict[str, Any]:
    """The words of a saved file."""
    if array is None or array.shape != () or array.dtype.kind != "U":
        raise ValueError(f"{path}: expected a file that Online.save wrote, found another")
    try:
        told = loads(str(array))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: expected a saved Online, found {error}") from error
    keys = {"learner", "digest", "spec", "reward_range", "seen", "rounds", "state", "asked"}
    if not isinstance(told, dict) or told.get("format") != _FORMAT:
        raise ValueError(f"{path}: expected format {_FORMAT} of Online, found another")
    missing = sorted((keys | {"room", "key"}) - set(told))
    if missing:
        raise ValueError(f"{path}: expected {missing[0]!r} in it, found none")
    return told
