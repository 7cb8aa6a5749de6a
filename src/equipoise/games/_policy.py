"""Base class of all kinds of policies: what they share, and their plain form."""

import inspect
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any, ClassVar, TypeVar

import numpy as np

from equipoise.core import InputError, checks
from equipoise.core.text import About
from equipoise.core.values import Value

_Policy = TypeVar("_Policy", bound="Policy")


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

    def to_plain(self) -> dict[str, Any]:
        """Return the policy as a dictionary with `kind` and one entry per part."""
        plain: dict[str, Any] = {"kind": self.kind}
        for field in fields(self):
            part = getattr(self, field.name)
            if isinstance(part, tuple):
                part = {str(i): np.asarray(array) for i, array in enumerate(part)}
            if part is not None:
                plain[field.name] = part
        return plain

    @classmethod
    def from_plain(cls: type[_Policy], plain: Mapping[str, Any]) -> _Policy:
        """Rebuild a policy from its plain form. Arrays may be nested lists, as in JSON."""
        if plain.get("kind", cls.kind) != cls.kind:
            raise ValueError(f"kind: expected {cls.kind!r}, found {plain['kind']!r}")
        parts = {name: part for name, part in plain.items() if name != "kind"}
        parameters = inspect.signature(cls).parameters.values()
        parameters = [p for p in parameters if p.kind is not p.VAR_POSITIONAL]
        unknown = sorted(set(parts) - {p.name for p in parameters})
        missing = [p.name for p in parameters if p.default is p.empty and p.name not in parts]
        if unknown or missing:
            expected = f"{', '.join(p.name for p in parameters)} for a policy of kind {cls.kind}"
            found = ", ".join(sorted(map(str, parts))) or "nothing"
            raise InputError("policy", expected, found)
        return cls(**{name: checks.plain_numbers(name, part) for name, part in parts.items()})


def _shown(array: Any, prefix: str) -> str:
    if not hasattr(array, "__array__") or checks.is_traced(array):
        return repr(array)
    with np.printoptions(precision=4, suppress=True, threshold=100):
        return np.array2string(np.asarray(array), separator=", ", prefix=prefix)
