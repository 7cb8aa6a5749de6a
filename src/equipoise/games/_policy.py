"""Base class of all kinds of policies: what they share, and their plain form."""

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import fields
from typing import Any, ClassVar

import numpy as np

from equipoise.core import checks
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
