"""Base class of all kinds of policies: what they share, and how names become probabilities."""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any, ClassVar

import numpy as np

from equipoise.core import checks
from equipoise.core.errors import InputError, nearest
from equipoise.core.text import About
from equipoise.core.values import Value


class Policy(Value):
    """Abstract base of the kinds of policies: immutable, compared by content, a JAX pytree.

    **Example**

    >>> import equipoise as eq
    >>> policy = eq.Profile([[0.5, 0.5], [1.0, 0.0]])
    >>> isinstance(policy, eq.games.Policy), policy.kind
    (True, 'profile')
    >>> eq.games.policy_from_plain(policy.to_plain()) == policy
    True
    """

    #: Name of this kind in files and records.
    kind: ClassVar[str]
    _noun: ClassVar[str] = "policy"

    @abstractmethod
    def __init__(self, *parts: Any, **more: Any):
        """Check the parts of this kind of policy and make them read-only."""

    def __repr__(self) -> str:
        """Show the numbers rounded to four digits, and abbreviate long arrays."""
        texts = []
        for field in fields(self):
            part = getattr(self, field.name)
            several = part if isinstance(part, tuple) else (part,)
            name = "" if several is part else f"{field.name}="
            texts += [name + _shown(array, "  " + name) for array in several]
        body = ", ".join(texts)
        if "\n" in body or len(body) > 80:
            body = "".join(f"\n  {text}," for text in texts) + "\n"
        return f"{type(self).__name__}({body})"

    @abstractmethod
    def in_words(self, about: About) -> tuple[int, Iterator[tuple[str, ...]]]:
        """Return the number of rows that describe the policy, and the rows, by names."""

    @classmethod
    def _restored(cls, name: str, plain: Any) -> Any:
        return checks.plain_numbers(name, plain)


def _shown(array: Any, prefix: str) -> str:
    if not hasattr(array, "__array__") or checks.is_traced(array):
        return repr(array)
    with np.printoptions(precision=4, suppress=True, threshold=100):
        return np.array2string(np.asarray(array), separator=", ", prefix=prefix)


#: A kind of names, and the number that each of them stands for.
Level = tuple[str, Mapping[str, int]]

#: Up to so many names are listed in an error.
_LISTED = 12


def level(what: str, names: Sequence[str] | None, count: int, words: str = "") -> Level:
    """Return the names of players, actions, states or contexts, or their numbers as text.

    Without names, `words` with a number are names too.

    >>> level("player", None, 2, "agent {}")[1]
    {'0': 0, '1': 1, 'agent 0': 0, 'agent 1': 1}
    """
    if names is not None:
        return what, {name: i for i, name in enumerate(names)}
    numbers = {str(i): i for i in range(count)}
    return what, numbers | ({words.format(i): i for i in range(count)} if words else {})


def by_name(where: str, value: Mapping[Any, Any], names: Level, *, every: bool) -> dict[int, Any]:
    """Return the entries of a mapping by number. With `every`, refuse one that lacks a name.

    >>> by_name("policy", {"leave": 1.0}, level("action", ("stay", "leave"), 2), every=False)
    {1: 1.0}
    """
    what, numbers = names
    entries: dict[int, Any] = {}
    for name, entry in value.items():
        entries[_number(where, name, names)] = entry
    count = len(set(numbers.values()))
    if every and len(entries) < count:
        missing = next(name for name, i in numbers.items() if i not in entries)
        raise InputError(where, f"an entry for each {what}", f"none for {missing!r}")
    if len(entries) < len(value):
        raise InputError(where, f"one entry for each {what}", f"two names of one {what}")
    return entries


def _number(where: str, name: Any, names: Level) -> int:
    what, numbers = names
    if str(name) not in numbers:
        meant = nearest(str(name), numbers)
        among = f" among {', '.join(numbers)}" if len(numbers) <= _LISTED else ""
        hint = f"did you mean {meant}?" if meant else ""
        article = "an" if what[0] in "aeiou" else "a"
        raise InputError(where, f"the name of {article} {what}{among}", repr(name), hint)
    return numbers[str(name)]


def is_named(value: Any) -> bool:
    """Whether a strategy is given by names: of one action, or of actions, states or contexts."""
    return isinstance(value, str | Mapping)


def chances_of(where: str, value: Any, places: Sequence[Level], actions: Level) -> np.ndarray:
    """Return probabilities (..., actions) of a strategy that is given by names.

    `value` is the name of an action, or probabilities by action, or a mapping of such strategies
    by the names of the first of `places`, which are states or contexts. What is said for no place
    in particular holds in all of them. A list or an array holds the probabilities of all actions.

    >>> actions, states = level("action", ("stay", "leave"), 2), level("state", None, 2)
    >>> chances_of("policy", {"0": "leave", "1": {"stay": 0.5, "leave": 0.5}}, [states], actions)
    array([[0. , 1. ],
           [0.5, 0.5]])
    """
    count = len(set(actions[1].values()))
    sizes = [len(set(numbers.values())) for _, numbers in places]
    if isinstance(value, str):
        chances = np.zeros(count)
        chances[_number(where, value, actions)] = 1.0
    elif not isinstance(value, Mapping):
        chances = checks.as_float_array(where, value, booleans=False)
        shape = (*sizes, count)
        if chances.shape not in (shape, shape[-1:]):
            raise InputError(where, f"probabilities of shape {shape}", chances.shape)
    elif places and any(is_named(entry) or np.ndim(entry) for entry in value.values()):
        first, *rest = places
        if rest and not any(str(name) in first[1] for name in value):
            chances = chances_of(where, value, rest, actions)
        else:
            parts = by_name(where, value, first, every=True)
            within = ((f"{where}[{name!r}]", first[1][str(name)]) for name in value)
            named = {i: chances_of(inner, parts[i], rest, actions) for inner, i in within}
            chances = np.stack([named[i] for i in range(sizes[0])])
    else:
        entries = by_name(where, value, actions, every=False)
        chances = np.zeros(count)
        chances[list(entries)] = checks.plain_numbers(where, list(entries.values()))
    chances = checks.check_probabilities(where, chances)
    return np.broadcast_to(chances, (*sizes, count)).copy()
