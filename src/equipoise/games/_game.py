"""Base classes of all kinds of games: labels, counts of players and actions, a description."""

import math
import os
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from importlib import import_module
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import numpy as np

from equipoise.core import InputError, checks
from equipoise.core.devices import on_accelerator
from equipoise.core.reductions import total
from equipoise.core.results import policy_in
from equipoise.core.text import About, cut
from equipoise.core.values import Value, static
from equipoise.games._policies import (
    PARTS,
    JointPolicy,
    Mixture,
    Profile,
    mixture_of,
    policy_from_plain,
)
from equipoise.games._policy import Level, Policy, by_name, chances_of, is_named, level


class Labels(Value):
    """Names of a game's players, actions, states, types and contexts. Unnamed fields are None.

    `actions` holds one tuple of names for each player, or a single tuple that all players share.
    `types` names the agent types of an aggregative game. Every game takes `labels=`, either a
    `Labels` or a mapping of its fields, and checks that each player, action, state and type has a
    name.

    **Example**

    >>> import equipoise as eq
    >>> labels = eq.games.Labels(players=("Rose", "Colin"), actions=(("heads", "tails"),))
    >>> labels.player(0), labels.action(1, 1), labels.state(3)
    ('Rose', 'tails', '3')
    >>> eq.MatrixGame([[1, -1]], labels={"players": ["Rose", "Colin"]}).labels.player(1)
    'Colin'
    """

    #: Names of the players or agents.
    players: tuple[str, ...] | None = static()
    actions: tuple[tuple[str, ...], ...] | None = static()
    #: Names of the states.
    states: tuple[str, ...] | None = static()
    types: tuple[str, ...] | None = static()
    #: Names of the contexts.
    contexts: tuple[str, ...] | None = static()

    def __init__(
        self,
        players: Any = None,
        actions: Any = None,
        states: Any = None,
        types: Any = None,
        contexts: Any = None,
    ):
        if actions is not None:
            actions = tuple(_names("actions", names) for names in _sequence("actions", actions))
            actions = actions[:1] if len(set(actions)) == 1 else actions  # shared by all players
        others = {"players": players, "states": states, "types": types, "contexts": contexts}
        self._set(players=None, actions=actions, states=None, types=None, contexts=None)
        self._set(**{name: _names(name, own) for name, own in others.items() if own is not None})

    def __bool__(self) -> bool:
        return any(getattr(self, field.name) is not None for field in fields(self))

    def player(self, player: int) -> str:
        """Return a player's name, or its number as text if it has no name."""
        return str(player) if self.players is None else self.players[player]

    def action(self, player: int, action: int) -> str:
        """Return the name of a player's action, or its number as text if it has no name."""
        names = self.actions_of(player)
        return str(action) if names is None else names[action]

    def actions_of(self, player: int) -> tuple[str, ...] | None:
        """Return the names of a player's actions, or None if they have no names."""
        if self.actions is None:
            return None
        return self.actions[player if len(self.actions) > 1 else 0]

    def state(self, state: int) -> str:
        """Return a state's name, or its number as text if it has no name."""
        return str(state) if self.states is None else self.states[state]

    def type(self, number: int) -> str:
        """Return the name of an agent type, or its number as text if it has no name."""
        return str(number) if self.types is None else self.types[number]

    def context(self, number: int) -> str:
        """Return a context's name, or its number as text if it has no name."""
        return str(number) if self.contexts is None else self.contexts[number]

    @classmethod
    def of(cls, labels: Any, **counts: Any) -> "Labels":
        """Check `labels` against a game. `counts` holds the expected number of names per field.

        The count of `actions` is a sequence with one entry per player. A field without a count must
        be empty.
        """
        if labels is None:
            return NO_LABELS
        if isinstance(labels, Mapping):
            unknown = sorted(set(labels) - {field.name for field in fields(cls)})
            if unknown:
                raise ValueError(
                    "labels: expected players, actions, states, types or contexts, found "
                    f"{unknown[0]!r}"
                )
            labels = cls.from_plain(labels)
        if not isinstance(labels, cls):
            raise InputError("labels", "Labels or a mapping", type(labels).__name__)
        for name in ("players", "states", "types", "contexts"):
            found, count = getattr(labels, name), counts.get(name)
            if found is not None and len(found) != count:
                expected = "no names in this kind of game" if count is None else f"{count} names"
                raise InputError(f"labels.{name}", expected, len(found))
        if labels.actions is not None:
            labels._check_actions(counts["actions"])
        labels._check_distinct()
        return labels

    def _check_distinct(self) -> None:
        """Refuse a name that two players, actions, states, types or contexts share."""
        lists = {f"labels.{field.name}": getattr(self, field.name) for field in fields(self)}
        for i, names in enumerate(lists.pop("labels.actions") or ()):
            lists[f"labels.actions[{i}]"] = names
        for where, names in lists.items():
            if names is not None and len(set(names)) < len(names):
                twice = next(name for name in names if names.count(name) > 1)
                raise InputError(where, "names that differ", f"{twice!r} twice")

    def _check_actions(self, counts: Sequence[int]) -> None:
        found = [len(names) for names in self.actions or ()]
        expected = [*dict.fromkeys(counts)] if len(found) == 1 else list(counts)
        if found != expected:
            raise ValueError(
                f"labels.actions: expected names of {list(counts)[:8]} actions, one list for each "
                f"player or one for all, found {found[:8]}"
            )


NO_LABELS = Labels()


def labels_of(players: list[str] | None, actions: list[list[str]] | None) -> Labels:
    """Return the names found in a file or another library, without placeholders.

    Empty names and generated numbers are dropped: Gambit's ("1", "2"), OpenSpiel's ("row0",
    "col1") and those of our own files ("Player 1"). A name that occurs twice gets a number.
    """
    players = players and _numbered(players)
    actions = actions and [_numbered(own) for own in actions]
    if players is not None and not _telling(players, "Player {}"):
        players = None
    if actions is not None and not any(_telling(own, "row{}", "col{}") for own in actions):
        actions = None
    if actions is not None and not all(name.strip() for own in actions for name in own):
        actions = None
    return Labels(players, actions)


def _numbered(names: list[str]) -> list[str]:
    """Number the repetitions of a name.

    >>> _numbered(["pass", "bet", "pass"])
    ['pass', 'bet', 'pass (2)']
    """
    spaced = [" ".join(name.split()) for name in names]
    if len(set(spaced)) == len(spaced):
        return names
    seen, distinct = Counter(), []
    for name in spaced:
        seen[name] += 1
        distinct.append(f"{name} ({seen[name]})" if name and seen[name] > 1 else name)
    return distinct


def _telling(names: list[str], *patterns: str) -> bool:
    """Return whether the names are more than consecutive numbers that start at 0 or 1."""
    numbers = [range(start, start + len(names)) for start in (0, 1)]
    usual = [[p.format(n) for n in own] for own in numbers for p in ("{}", *patterns)]
    return names not in usual and all(name.strip() for name in names)


def _sequence(name: str, value: Any) -> Sequence[Any]:
    if not isinstance(value, list | tuple) or not value:
        raise InputError(f"labels.{name}", "a list of names", repr(value))
    return value


def _names(name: str, value: Any) -> tuple[str, ...]:
    for item in _sequence(name, value):
        if not isinstance(item, str) or not item.strip():
            raise InputError(f"labels.{name}", "non-empty strings", repr(item))
    # Collapse white space to single spaces, so that a name fits on one line of any file.
    return tuple(" ".join(item.split()) for item in value)


#: The policies of a kind of game.
P = TypeVar("P")


class Game(Value, Generic[P]):
    """Base of all kinds of games: immutable, compared by content, a JAX pytree.

    `Game[Profile]` is a game whose equilibria are of type `Profile`, which type checkers read.
    `equipoise.games.kinds.KINDS` lists the kinds. Every game has `labels`, which may be empty.

    **Example**

    >>> import equipoise as eq
    >>> game = eq.games.load("matching-pennies")
    >>> isinstance(game, eq.games.Game), game.kind, game.describe()
    (True, 'matrix', 'zero-sum matrix game, 2 x 2')
    """

    #: Name of this kind in the catalogue, in records and in `equipoise.games.kinds`.
    kind: ClassVar[str]
    #: Who gains, and what the value of a solution measures.
    _who: ClassVar[str] = "player"
    _measure: ClassVar[str] = "value"
    _noun: ClassVar[str] = "game"
    if TYPE_CHECKING:  # a field of each kind
        #: Names of players, actions and so on; see `Labels`.
        labels: Labels

    @property
    @abstractmethod
    def players(self) -> int:
        """Number of players."""

    @property
    @abstractmethod
    def actions(self) -> tuple[int, ...]:
        """Number of actions of each player."""

    @property
    @abstractmethod
    def batch_shape(self) -> tuple[int, ...]:
        """Shape of the batch; `()` for a single game."""

    @abstractmethod
    def describe(self) -> str:
        """Return a one-line description of the game."""

    def policy(self, policy: Any) -> P:
        """Return the policy of this game that is meant by `policy`, and check it.

        `policy` is one of these:

        - a policy of this kind of game, or a solution or another result that has one;
        - arrays or nested lists, as the kind of game has them: one strategy per player, the
          actions of all agents, or flows;
        - names: a mapping from players to strategies. A strategy is the name of an action, or maps
          the names of actions to probabilities; actions that are left out have probability 0. In
          games with states or contexts it may map their names to such strategies. Players,
          actions and states without names are called by their numbers;
        - the path of a `.json` or `.npz` file that has a policy in one of these forms.

        **Example**

        >>> import equipoise as eq
        >>> names = {"players": ["Ann", "Bob"], "actions": [["stay", "leave"]]}
        >>> game = eq.NormalFormGame([[3, 0], [5, 1]], [[3, 5], [0, 1]], labels=names)
        >>> game.policy({"Ann": {"stay": 0.5, "leave": 0.5}, "Bob": "stay"})
        Profile([0.5, 0.5], [1., 0.])
        """
        if not isinstance(policy, Policy):
            policy = self._read(policy_in(policy))
        return self._checked(policy)

    def _read(self, policy: Any) -> Any:
        """Return the content of a file and the policy of a plain form; read names."""
        if isinstance(policy, str | os.PathLike):
            return import_module("equipoise.games.files").read_policy(policy, self)
        if isinstance(policy, Mapping):
            if set(policy) & PARTS and not set(policy) & set(self._player_level[1]):
                return policy_from_plain(policy)
            return self._by_names(policy)
        return policy

    @abstractmethod
    def _checked(self, policy: Any) -> P:
        """Convert arrays to a policy of this game, and check the policy."""

    def _by_names(self, policy: Mapping[str, Any]) -> Any:
        """Return the policy that maps players to strategies, as `_checked` takes it."""
        entries = by_name("policy", policy, self._player_level, every=True)
        return [entries[i] for i in range(len(entries))]

    @property
    def _player_level(self) -> Level:
        """Names of the players, or what they are called without names."""
        names, count = self.labels.players, self.players
        who, players = level(self._who, names, count, f"{self._who} {{}}")
        if names is None and count == 2:
            return who, {**players, **{self.about.player(i): i for i in range(2)}}
        return who, players

    def _action_level(self, player: int) -> Level:
        return level("action", self.labels.actions_of(player), self.actions[player])

    @property
    def about(self) -> About:
        """Description and names for what is printed of the game and its solutions."""
        words = (self._who, self._measure)
        return About(self.describe(), self.labels, *words, self.players, self.batch_shape)

    def __str__(self) -> str:
        """Return the description and the names of players, actions, states, types and contexts."""
        about = self.about
        lines = [about.title]
        for field in fields(self.labels):
            names = getattr(self.labels, field.name)
            if names is not None and field.name == "actions":
                names = dict.fromkeys(name for own in names for name in own)
            if names is not None:
                lines.append(cut(f"  {field.name}: {', '.join(islice(names, 40))}"))
        if about.links is not None:
            first = map(about.link, range(min(len(about.links[0]), 40)))
            lines.append(cut(f"  links: {', '.join(first)}"))
        return "\n".join(lines)


class SingleGame(Game[P]):
    """Base of the kinds of games that are never batched."""

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """Always `()`, because these kinds have no batch axes."""
        return ()


_Batch = TypeVar("_Batch", bound="BatchedGame[Any]")


class BatchedGame(Game[P]):
    """Base of the kinds of games whose arrays may have leading batch axes."""

    def _checked(self, policy: Any) -> Any:
        """Return one array of probabilities per player, checked; or a correlated policy."""
        own, actions = self._own_axes, self.actions
        if type(policy) is Profile:
            axes = -1 - len(own)
            if [s.shape[axes:] for s in policy.strategies] == [(*own, n) for n in actions]:
                return policy  # in a microsecond
            policy = policy.strategies
        if isinstance(policy, JointPolicy):
            return self._checked_joint(policy)
        if isinstance(policy, Mixture):
            return self._checked_mixture(policy)
        expected = f"one array of probabilities per player, {len(actions)} in all"
        if not isinstance(policy, list | tuple):
            raise InputError("policy", f"{expected}, as a tuple or list", type(policy).__name__)
        if len(policy) != len(actions):
            raise InputError("policy", expected, len(policy))
        strategies = (self._strategy(i, part, own) for i, part in enumerate(policy))
        return Profile.computed(*strategies)

    def _strategy(self, player: int, part: Any, own: tuple[int, ...]) -> Any:
        """Check the strategy of a player; its last axes are states, if there are any, and actions.

        A strategy that is missing is refused: gains would be meaningless without it.
        """
        name, shape = f"policy[{player}]", (*own, self.actions[player])
        if is_named(part):
            name = f"policy[{self.about.player(player)!r}]"
            places = [level("state", self.labels.states, count) for count in own]
            return chances_of(name, part, places, self._action_level(player))
        if part is None:
            raise InputError(name, f"probabilities of shape {shape}", None)
        there = on_accelerator(part)
        # Those of the caller are copied, as a policy cannot be changed.
        array = part if there else checks.as_float_array(name, part, booleans=False)
        if tuple(array.shape[-len(shape) :]) != shape:
            axes = f"(..., {', '.join(map(str, shape))})"
            whose = "(states, actions)" if own else "the actions"
            meaning = f"{whose} of {self.about.player(player)}"
            found = tuple(array.shape)
            raise InputError(name, f"probabilities of shape {axes}, {meaning}", found)
        if there or (array.min() >= 0.0 and (abs(total(array) - 1.0) <= 1e-14).all()):
            return array  # the common case, in a fraction of the time
        return checks.check_probabilities(name, array)

    @property
    def _own_axes(self) -> tuple[int, ...]:
        """Axes of a strategy before its actions: the number of states, in games with states."""
        return ()

    def _checked_joint(self, policy: JointPolicy) -> JointPolicy:
        if policy.actions != self.actions:
            expected = f"a joint distribution over {self.actions} actions"
            raise InputError("policy", expected, policy.actions)
        return policy

    def _checked_mixture(self, policy: Mixture) -> Mixture:
        counts = np.array(self.actions)
        mask = np.arange(counts.max()) < counts[:, None]
        return mixture_of(policy, (1, *mask.shape), mask)

    @abstractmethod
    def __getitem__(self: _Batch, index: Any) -> _Batch:
        """Return one game of a batch, or a slice of the batch."""

    def __len__(self) -> int:
        if not self.batch_shape:
            raise TypeError("a single game has no length; only a batch of games does")
        return self.batch_shape[0]

    def __iter__(self: _Batch) -> Iterator[_Batch]:
        """Iterate over the games of a batch, along its first axis. Raise for a single game."""
        return map(self.__getitem__, range(len(self)))

    def _take(self, array: Any, index: Any) -> Any:
        """Index the batch axes of `array`. Refuse an index that would reach beyond them."""
        used, axes = len(index) if isinstance(index, tuple) else 1, len(self.batch_shape)
        if used > axes:
            raise IndexError(f"index {index!r}: the game has {axes} batch axes")
        return array[index]

    def _counted(self, words: str) -> str:
        """Return `words` for a single game, or the plural with the number of games of a batch."""
        return f"{math.prod(self.batch_shape):,} {words}s" if self.batch_shape else words
