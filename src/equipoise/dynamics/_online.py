"""Use a learner in your own program: ask for an action, tell the reward."""

import math
import os
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from equipoise.core import InputError, checks, schedules
from equipoise.core.arrays import pack, read_npz, unpack, write_npz
from equipoise.core.errors import named_arguments
from equipoise.core.plain import dumps, loads
from equipoise.core.precision import single_precision
from equipoise.core.randomness import as_key
from equipoise.core.rewards import check_reward_range
from equipoise.core.streams import game_words
from equipoise.core.weights import as_described
from equipoise.dynamics import _learner as learners
from equipoise.dynamics import _markov, _omd, _parts, _references
from equipoise.dynamics._learner import (
    ContextLearner,
    Learner,
    Pair,
    Spec,
    check_below,
    check_policy,
)
from equipoise.dynamics._round import Seen, inform
from equipoise.dynamics._trace import OFF, digest

#: Number of rounds for which a `ContextLearner` first has room. The room doubles when it is full.
FIRST_ROOM = 256
#: Format version of the files that `save` writes.
_FORMAT = 1
#: Classes that may be named in a file.
_CLASSES = {
    name: value
    for module in (_omd, _markov, _references, _parts, schedules)
    for name, value in vars(module).items()
    if isinstance(value, type) and issubclass(value, eqx.Module)
}


@named_arguments
class Online:
    """A learner, or one of a pair of frozen players, that plays in your own program.

    `ask` draws an action, and `tell` reports its reward. You do not need to know the game or the
    other players. Rewards may have any range. With `reward_range=None` rewards are scaled to [0, 1]
    by the range seen so far. Declare the range if you know it: a scale that changes late disturbs
    what was learned early.

    **Arguments**

    - `learner`: an object, not a name: a learner of `equipoise.dynamics`, your own learner, or
      players of `equipoise.incontext`, of which the one in `seat` plays.
    - `actions`: number of actions. Not needed for players of games of one size.
    - `reward_range`: lowest and highest reward, or None.
    - `states`, `discount`, `state`: for learners of Markov games, the number of states, the
      discount, and the state in which play begins.
    - `key`: source of randomness, an int seed or a JAX key.

    **Example**

    A slot machine with three arms. The last arm pays best:

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
        self._learner = _seated(learner, seat, actions, states)
        self._spec = _spec(self._learner, actions, states, discount, state)
        self._range = None if reward_range is None else check_reward_range(reward_range)
        #: Lowest and highest reward seen, and the first reward (for players of any unit).
        self._seen = (math.inf, -math.inf)
        self._first: float | None = None
        #: Number of rounds told so far.
        self.rounds = 0
        self._here = self._spec.start
        self._asked: int | None = None
        self._key = int.from_bytes(game_words(as_key(key).reshape(1)).tobytes(), "little")
        self._room = _room(self._learner, FIRST_ROOM)
        self._step = _Round(self._learner)
        with single_precision():
            self._go_on_with(self._begin())

    @property
    def policy(self) -> np.ndarray:
        """(actions,): probabilities of the next action, including exploration. They sum to one."""
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
        """Learned policy without exploration, (actions,) or (states, actions)."""
        return self._policies / self._policies.sum(-1, keepdims=True)

    @property
    def reward_range(self) -> tuple[float, float] | None:
        """Declared range, or the range of the rewards seen so far; None before the first reward."""
        return self._range or (self._seen if self.rounds else None)

    @property
    def state(self) -> int | None:
        """Current state in Markov games, otherwise None."""
        return None if self._spec.states is None else self._here

    def ask(self) -> int:
        """Return the next action. Repeated calls return the same action until `tell` is called."""
        if self._asked is None:
            chances = self.policy[:-1].cumsum()
            drawn = _uniform(self._key, self.rounds + 1)
            self._asked = int(np.searchsorted(chances, drawn, side="right"))
        return self._asked

    def tell(
        self,
        reward: Any,
        *,
        next_state: int | np.integer | None = None,
        action: int | np.integer | None = None,
        other: int | np.integer | None = None,
    ) -> None:
        """Report the reward of the action that `ask` returned; larger is better.

        Pass `action` if your program played another action, or drew one from `policy` itself. For
        learners with full information, `reward` is an array of shape (actions,) with the reward of
        every action. In Markov games, pass `next_state`. For players that watch their opponent,
        pass its action as `other`. If the call raises, nothing changes.
        """
        states = self._spec.states
        if action is not None:
            action = check_below("action", action, self._spec.actions, "a number")
        elif self._asked is None:
            raise ValueError(
                "tell: expected a call of `ask` before it, or the played action as `action`"
            )
        else:
            action = self._asked
        reward, low, high = self._checked(reward)
        if (next_state is None) != (states is None):
            expected = "None, since the game has no states" if states is None else "a state"
            raise InputError("next_state", expected, next_state)
        then = 0 if states is None else check_below("next_state", next_state, states)
        watching = self._learner.sees in (learners.JointBandit, learners.JointMarkovBandit)
        if watching == (other is None):
            expected = "the opponent's action" if watching else "None unless the player watches"
            raise InputError("other", expected, other)
        shown = None
        if other is not None:
            most = getattr(getattr(self._learner, "tokens", None), "actions", 2**31)
            shown = np.int32(check_below("other", other, most, "a number"))
        if self.rounds == self._room and isinstance(self._learner, ContextLearner):
            self._grow(self._learner)
        if self._range is None:
            self._seen = (min(self._seen[0], low), max(self._seen[1], high))
        if self._first is None:
            self._first = low
        low, high = self._range or self._seen
        if self._range is None and getattr(self._learner, "any_unit", False):
            low, high = self._first, self._first + 1.0
        # The range of a single reward is empty: the reward counts as the middle of the range.
        scaled = (reward - low) / (high - low) if high > low else 0.5 + 0.0 * reward
        places = () if states is None else (np.int32(self._here), np.int32(then))
        t = np.int32(self.rounds + 1)
        with single_precision():
            happened = (np.int32(action), np.float32(scaled), shown)
            found = self._step(self._memory, t, *happened, *places)
        self._read(*found)
        self.rounds, self._here, self._asked = self.rounds + 1, then, None

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to one `.npz` file, from which `Online.load` resumes."""
        spec = self._spec
        told = {
            "format": _FORMAT,
            "learner": _describe(self._learner),
            "digest": digest(self._learner).tobytes().hex(),
            "spec": [spec.actions, spec.states, spec.discount, spec.start],
            "reward_range": self._range,
            "seen": self._seen,
            "first": self._first,
            "rounds": self.rounds,
            "state": self._here,
            "asked": self._asked,
            "room": self._room,
            "key": str(self._key),
        }
        leaves = enumerate(jax.tree.leaves(self._memory))
        arrays = {f"leaf{i}": pack(f"leaf{i}", leaf)[0] for i, leaf in leaves}
        write_npz(path, {"online": np.array(dumps(told)), **arrays})

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        learner: Learner | Pair | None = None,
        *,
        seat: Literal["row", "column"] = "row",
    ) -> "Online":
        """Read a file that `save` wrote.

        The file describes learners of this package. It does not contain players or your own
        learners: pass the same `learner` (and `seat`) again. Another learner raises an error.

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
        arrays, made = read_npz(path), None
        with as_described(Path(path)):
            told = loads(str(arrays.pop("online")))
            if told["format"] != _FORMAT:
                raise ValueError(f"expected format {_FORMAT}, found {told['format']!r:.60}")
            made = None if learner is None else _seated(learner, seat, *told["spec"][:2])
            made = _restore(told["learner"]) if made is None else made
            known = made is not None and digest(made).tobytes().hex() == told["digest"]
        if made is None:
            hint = "pass it again: Online.load(path, learner, seat=...)"
            expected = "the players or learner that played, which the file does not contain"
            raise InputError("learner", expected, None, hint)
        if not known:
            raise InputError("learner", f"the one that was saved in {path}", "another")
        with as_described(Path(path)):
            return cls._restored(made, told, arrays)

    @classmethod
    def _restored(cls, learner: Learner, told: dict[str, Any], arrays: dict) -> "Online":
        actions, states, discount, start = told["spec"]
        online = cls(learner, actions=actions, states=states, discount=discount, state=start)
        if told["reward_range"] is not None:
            online._range = check_reward_range(told["reward_range"])
        low, high = told["seen"]
        online._seen = (float(low), float(high))
        online._first = None if told["first"] is None else float(told["first"])
        online.rounds = checks.check_count("rounds", told["rounds"], at_least=0)
        online._room = checks.check_count("room", told["room"])
        online._here = check_below("state", told["state"], states or 1)
        if told["asked"] is not None:
            online._asked = check_below("asked", told["asked"], actions)
        online._key = int(told["key"]) % 2**64
        with single_precision():  # only shapes: a damaged file may ask for any amount of memory
            leaves, tree = jax.tree.flatten(jax.eval_shape(online._begin))
        if len(arrays) != len(leaves):
            raise ValueError(f"{len(arrays)} arrays instead of {len(leaves)}")
        found = []
        for i, like in enumerate(leaves):
            array = unpack(arrays[f"leaf{i}"], pack("leaf", np.zeros(0, like.dtype))[1])
            checks.check_shape(f"leaf{i}", array, like.shape, "as this learner makes it")
            checks.check_finite(f"leaf{i}", array)
            found.append(array)
        online._go_on_with(jax.tree.unflatten(tree, found))
        return online

    def _begin(self) -> Any:
        """Return the learner's state before the first round."""
        return self._learner.init(replace(self._spec, rounds=self._room))

    def _go_on_with(self, memory: Any) -> None:
        with single_precision():
            if isinstance(self._learner, ContextLearner):
                memory = jax.tree.map(jnp.asarray, memory)
            else:
                # The state has few numbers: a CPU is faster than a transfer to an accelerator.
                memory = jax.device_put(memory, jax.local_devices(backend="cpu")[0])
            policy = jnp.asarray(self._learner.policy(memory))
        spec, axes = self._spec, ("states", "actions")
        shape = (spec.actions,) if spec.states is None else (spec.states, spec.actions)
        check_policy("learner", self._learner, policy, shape, axes)
        checks.check_probabilities("learner", np.asarray(policy, np.float64), OFF)
        self._read(memory, policy)

    def _read(self, memory: Any, policies: Any) -> None:
        self._memory, self._policies = memory, np.asarray(policies, np.float64)

    def _grow(self, learner: ContextLearner) -> None:
        """Double the room; raise if hand-built players cannot encode another round."""
        room = _room(learner, 2 * self._room)
        if room == self._room:
            raise ValueError(f"rounds: expected at most {room} (the built size), found {room + 1}")
        with single_precision():
            self._memory = learner.grow(self._memory, room)
        self._room = room

    def _checked(self, reward: Any) -> tuple[Any, float, float]:
        """Check that rewards are finite and in the range; return them, their lowest and highest."""
        if self._learner.sees is learners.Values:
            reward = checks.as_float_array("reward", reward)
            checks.check_shape("reward", reward, (self._spec.actions,), "one for every action")
        else:
            number = np.shape(reward) == () and hasattr(reward, "__float__")
            if not number or isinstance(reward, bool | np.bool_):
                raise InputError("reward", "a number", repr(reward))
            reward = float(reward)
        checks.check_finite("reward", reward)
        low, high = float(np.min(reward)), float(np.max(reward))
        if self._range is not None and not (self._range[0] <= low and high <= self._range[1]):
            expected = f"a number in {list(self._range)} (the declared reward_range)"
            raise InputError("reward", expected, low if low < self._range[0] else high)
        return reward, low, high


def _uniform(key: int, t: int) -> float:
    """Return a uniform number in [0, 1) for a round: SplitMix64 at counter `t`, in Python ints.

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


def _seated(learner: Any, seat: Any, actions: Any, states: Any) -> Learner:
    if seat not in ("row", "column"):
        raise InputError("seat", "'row' or 'column'", repr(seat))
    if isinstance(learner, Pair):
        learner = learner.learners()[seat == "column"]
    if not isinstance(learner, Learner):
        raise InputError("learner", "a Learner or Players", type(learner).__name__)
    if learner.sees is learners.Foresight:
        found = f"{type(learner).__name__}, which must know the game and its opponent"
        raise InputError("learner", "a learner that sees its own reward", found)
    if isinstance(learner, ContextLearner) and actions is not None:
        return learner.fitted(checks.check_count("actions", actions), states)
    return learner


def _spec(learner: Any, actions: Any, states: Any, discount: Any, state: Any) -> Spec:
    """Return the learner's `Spec`; a `ContextLearner` knows its own size."""
    kind, sizes = type(learner).__name__, {"actions": actions, "states": states}
    if actions is None and getattr(learner, "any_unit", False):
        raise InputError("actions", "the number of actions for players of any size", None)
    if states is None and getattr(learner, "any_unit", False) and learner.states is not None:
        raise InputError("states", "the number of states for players of any size", None)
    if isinstance(learner, ContextLearner) and hasattr(learner, "actions"):
        for name, value in sizes.items():
            known = sizes[name] = getattr(learner, name, None)
            if value not in (None, known):
                raise ValueError(f"{name}: expected {known}, as the player has, found {value}")
    actions, states = checks.check_count("actions", sizes["actions"]), sizes["states"]
    if states is not None:
        states = checks.check_count("states", states)
        if learner.sees in (learners.Bandit, learners.JointBandit, learners.Values):
            raise InputError("states", f"None for {kind}, a learner of matrix games", states)
    elif learner.sees in (learners.MarkovBandit, learners.JointMarkovBandit):
        raise InputError("states", f"a number for {kind}, a learner of Markov games", None)
    checks.check_range("discount", discount, 0.0, 1.0, high_open=True)
    return Spec(actions, states, float(discount), check_below("state", state, states or 1))


def _room(learner: Any, wanted: int) -> int:
    """Number of rounds with room: `wanted`, or as many as the player's tokens can encode."""
    return min(wanted, getattr(getattr(learner, "tokens", None), "rounds", wanted))


class _Round:
    """A compiled round of a learner, which returns its state and policy after it."""

    def __init__(self, learner: Learner):
        self._step = _compiled(learner)

    def __call__(self, *happened: Any) -> tuple[Any, Any]:
        return self._step(*happened)

    def __deepcopy__(self, memo: dict[int, Any]) -> "_Round":
        return self

    def __reduce__(self) -> Any:
        instead = "`online.save(path)`, which `Online.load(path)` reads"
        raise InputError("Online", instead, "pickle, which cannot hold a compiled program")


def _compiled(learner: Learner) -> Any:
    @jax.jit
    def step(
        memory: Any, t: Any, action: Any, reward: Any, other: Any, *places: Any
    ) -> tuple[Any, Any]:
        here, then = places or (None, None)
        seen = Seen(action, reward, here, then, learner.policy(memory), lambda: reward, other)
        memory = inform(learner, memory, seen, t)
        return memory, learner.policy(memory)

    return step


def _describe(part: Any) -> Any:
    """Describe a learner as plain data; None if it has parts from outside this package."""
    if isinstance(part, eqx.Module):
        if _CLASSES.get(type(part).__name__) is not type(part):
            return None
        fields = {name: _describe(value) for name, value in vars(part).items()}
        known = all(v is not None or vars(part)[n] is None for n, v in fields.items())
        return {"kind": type(part).__name__, **fields} if known else None
    if isinstance(part, np.ndarray | jax.Array):
        return np.asarray(part).tolist()
    return part if isinstance(part, bool | int | float | str) else None


def _restore(described: Any) -> Any:
    """Rebuild the learner that `_describe` described."""
    if not isinstance(described, dict):
        return described
    kind = described.get("kind")
    if kind not in _CLASSES:
        raise InputError("learner", "a learner of equipoise.dynamics", repr(kind)[:60])
    fields = {name: _restore(value) for name, value in described.items() if name != "kind"}
    return _CLASSES[kind](**fields)
