"""Result types of solvers and certificates: plain data whose type never depends on a flag."""

import decimal
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import MISSING, dataclass, field, fields, replace
from functools import cached_property
from html import escape
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar, final

import numpy as np

from equipoise.core.errors import InputError
from equipoise.core.html import ROWS, format_value, html_card, html_facts, html_table
from equipoise.core.reductions import largest, smallest, total
from equipoise.core.text import ROWS as TEXT_ROWS
from equipoise.core.text import about, cut, first_rows, not_negative, wrapped

#: A NumPy array, or a JAX array on an accelerator.
Array: TypeAlias = np.ndarray | Any
#: Type of a solution's policy.
P = TypeVar("P")

#: A certificate is exact when `gains` and `upper` differ by at most this fraction of the gain,
EXACT = 1e-6
#: or by at most this amount: each bound is rounded to a multiple of the smallest number, 5e-324.
SMALLEST = 2e-323

#: Three digits of a bound, never below it.
UPWARDS = decimal.Context(prec=3, rounding=decimal.ROUND_CEILING)
#: Amounts of this size are written in full, without a fraction.
IN_FULL = (1e3, 1e15)


def policy_in(value: Any) -> Any:
    """Return the policy of a solution or another result that has one; any other value unchanged.

    >>> import equipoise as eq
    >>> solution = eq.solve(eq.MatrixGame([[1, -1], [-1, 1]]))
    >>> policy_in(solution) is solution.policy is policy_in(solution.policy)
    True
    """
    policy = getattr(value, "policy", None)  # a learner has a method of this name
    return value if policy is None or callable(policy) else policy


def amount(number: float, *, upwards: bool = False) -> str:
    """Return an amount to three digits, or in full from 1,000 on; bounds are rounded `upwards`.

    >>> amount(0.00296), amount(17_400.2), amount(17_400.2, upwards=True), amount(2e18)
    ('0.00296', '17,400', '17,401', '2e+18')
    """
    if IN_FULL[0] <= abs(number) < IN_FULL[1]:
        return f"{math.ceil(number) if upwards else round(number):,}"
    text = f"{number + 0.0:.3g}"
    if upwards and float(text) < number < np.inf:
        return f"{float(UPWARDS.create_decimal(number)):.3g}"
    return text


def describe_gains(gain: float, upper: float, who: str = "player") -> str:
    """Say what a certificate proves; `upper` is rounded upwards.

    >>> describe_gains(0.0, 0.00296)
    'no player gains more than 0.00296; the largest gain found is 0'
    >>> describe_gains(0.5, 0.50001, "agent")
    'no agent gains more than 0.501; the largest gain found is 0.5'
    """
    found = f"the largest gain found is {amount(gain)}"
    if not upper < np.inf:
        return f"nothing is proven about the gains; {found}"
    return f"no {who} gains more than {amount(upper, upwards=True)}; {found}"


@final
@dataclass(frozen=True, eq=False)
class Interval:
    """A number that is proven to be at least `lower` and at most `upper`, or an array of numbers.

    `upper` is infinite where nothing bounds the number from above.

    **Example**

    >>> import equipoise as eq
    >>> interval = eq.Interval(1.25, 1.5)
    >>> interval.lower, interval.upper, str(interval), f"{interval:.2f}"
    (1.25, 1.5, '1.25 to 1.5', '1.25 to 1.50')
    """

    lower: Any
    upper: Any

    def __post_init__(self) -> None:
        for name in ("lower", "upper"):
            end = getattr(self, name)
            end = np.asarray(end, np.float64) if np.ndim(end) else float(end)
            object.__setattr__(self, name, end)
        if np.shape(self.lower) != np.shape(self.upper):
            raise InputError("upper", f"the shape {np.shape(self.lower)}", np.shape(self.upper))
        if not np.all(self.lower <= self.upper):
            least = np.ravel(self.lower)[(~np.ravel(self.lower <= self.upper)).argmax()]
            raise InputError("upper", f"a number >= {least:g}, the lower end", self.upper)

    @property
    def width(self) -> Any:
        """The upper end minus the lower one; zero where both are infinite."""
        with np.errstate(invalid="ignore"):  # infinity minus infinity
            width = np.subtract(self.upper, self.lower)
        width = np.where(np.equal(self.lower, self.upper), 0.0, width)
        return width if width.ndim else float(width)

    def to_plain(self) -> dict[str, Any]:
        """Return both ends by name."""
        return {"lower": self.lower, "upper": self.upper}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Interval):
            return NotImplemented
        return _same(self.to_plain(), other.to_plain())

    def __hash__(self) -> int:
        return hash((np.shape(self.lower), np.sum(self.lower)))

    def __str__(self) -> str:
        return f"{self:.6g}"

    def __format__(self, form: str) -> str:
        ends = np.stack([np.ravel(self.lower), np.ravel(self.upper)], 1).tolist()
        words = ((format(end, form or ".6g") for end in pair) for pair in ends)
        return ", ".join(" to ".join(dict.fromkeys(pair)) for pair in words)


class Certificate(ABC):
    """How much each player could still gain by deviating alone: an interval for every gain.

    `gains` and `upper` have one entry per player on their last axis; leading axes are batch axes
    of the game. `gains` is the gain of the best deviation found, computed in float64. `upper` is
    a proven bound: no deviation gains more, rounding included. For Markov games both refer to
    each player's worst starting state; `state_gains` and `state_upper` hold the values of all
    states. Gains of product policies are non-negative up to rounding; the gain of a deviation
    from a correlated mixture can be negative.

    `exact` is True when the two bounds agree: they differ by at most 1e-6 of the gain, or by the
    rounding error of the payoffs that the policy and deviations from it can reach.

    The policy is proven to be an epsilon-Nash equilibrium for epsilon = `max_upper`, the largest of
    `upper`. Three measures derive from the gains, each with one meaning:

    - `max_gain`: the largest gain found, a lower bound on epsilon, which equals `max_upper` up to
      rounding if `exact` is True;
    - `nash_conv`: the sum of the gains; in a two-player zero-sum matrix game, the duality gap;
    - `exploitability`: `nash_conv` divided by the number of players (OpenSpiel's convention).

    This class is abstract; `TableCertificate`, `AggregativeCertificate` and `NetworkCertificate`
    are its concrete kinds.

    **Example**

    >>> import equipoise as eq
    >>> pennies = eq.MatrixGame([[1, -1], [-1, 1]])
    >>> certificate = eq.certify(pennies, ([1.0, 0.0], [0.5, 0.5]))
    >>> certificate.gains.tolist(), certificate.exact
    ([0.0, 1.0], True)
    >>> float(certificate.nash_conv), float(certificate.exploitability)
    (1.0, 0.5)
    >>> bool(1.0 <= certificate.max_upper < 1.0 + 1e-12)
    True
    """

    kind: ClassVar[str]
    #: (..., players): gain of the best deviation found.
    gains: np.ndarray
    #: (..., players): proven bound on the gain; infinite where nothing is proven.
    upper: np.ndarray
    #: (..., players), or (..., states, players) for Markov games: value of the policy.
    value: np.ndarray
    #: How the best deviations were found, as a short phrase.
    method: str
    #: Deviations that count: "nash" (from a product policy), "cce" (from a mixture, before the
    #: recommendation is known) or "ce" (from a mixture, after it is known).
    concept: str
    #: (..., states, players): gains from every starting state of a Markov game, otherwise None.
    state_gains: np.ndarray | None
    #: (..., states, players): bounds on `state_gains`, otherwise None.
    state_upper: np.ndarray | None
    #: Rounding error of the payoffs that can be reached: an array by player, or one number.
    rounding: np.ndarray | float

    @property
    def players(self) -> int:
        """Number of players."""
        return self.gains.shape[-1]

    @property
    def exact(self) -> bool:
        """Whether the bounds of every gain agree up to 1e-6 of the gain or up to rounding."""
        # Where the interval is as narrow as rounding, its width is itself rounded.
        gains, upper = np.asarray(self.gains), np.asarray(self.upper)
        slack = np.maximum(EXACT * np.abs(gains), np.multiply(1.0625, self.rounding)) + SMALLEST
        return bool(np.all(upper - gains <= slack))

    @property
    def max_gain(self) -> Array:
        """Largest gain found for any player: a lower bound on epsilon (see `max_upper`)."""
        return largest(self.gains)

    @property
    def max_upper(self) -> Array:
        """Largest proven bound on any player's gain: the proven epsilon of epsilon-Nash."""
        return largest(self.upper)

    @property
    def nash_conv(self) -> Array:
        """Sum of the gains of all players."""
        return total(self.gains)

    @property
    def exploitability(self) -> Array:
        """`nash_conv` divided by the number of players."""
        return np.divide(self.nash_conv, self.players)

    @abstractmethod
    def __getitem__(self, index: Any) -> "Certificate":
        """Return the certificate of one game of the batch, or of a slice of the batch."""

    def to_plain(self) -> dict[str, Any]:
        """Return strings, numbers and arrays by name; `certificate_from_plain` reads them."""
        stored: Any = self
        content = {f.name: getattr(self, f.name) for f in fields(stored)}
        return {"kind": self.kind} | {
            name: np.asarray(value) if hasattr(value, "devices") else value
            for name, value in content.items()
            if value is not None
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> "Certificate":
        """Return the certificate that `to_plain` described."""
        kind: Any = cls
        known = {f.name: f for f in fields(kind)}
        content = {name: value for name, value in plain.items() if name != "kind"}
        if unknown := sorted(set(content) - set(known)):
            raise ValueError(f"certificate: expected keys among {sorted(known)}, found {unknown}")
        words = {"method", "concept"}
        for name, value in content.items():
            if name in words and not isinstance(value, str):
                raise ValueError(f"certificate.{name}: expected a string, found {value!r}")
            content[name] = value if name in words else _as_numbers(name, value)
        needed = [name for name, f in known.items() if f.default is MISSING]
        if missing := [name for name in needed if name not in content]:
            raise ValueError(f"certificate: expected the keys {needed}, found no {missing}")
        return cls(**content)

    def __str__(self) -> str:
        """Return what is proven and the gains of the players, or the largest ones if many."""
        words, rounding = about(self), self.rounding
        gains, upper = np.asarray(self.gains), np.asarray(self.upper)
        lines = [words.title] if words.title else []
        if gains.ndim > 1:
            worst = not_negative(gains.max(), rounding), float(upper.max())
            games = f"{gains[..., 0].size:,} games: {describe_gains(*worst, words.who)}"
            return "\n".join([*lines, games])
        largest_gain = not_negative(self.max_gain, rounding)
        lines.append(describe_gains(largest_gain, float(self.max_upper), words.who))
        lines += self._in_all()
        order = np.argsort(-gains, kind="stable") if len(gains) > TEXT_ROWS else range(len(gains))
        each = words.players in (0, len(gains))  # link flows have one gain of all travellers
        rows = (
            (
                words.player(int(i)) if each else "all",
                f"gain {format_value(not_negative(gains[i], rounding))}",
                f"at most {format_value(float(upper[i]))}",
            )
            for i in order
        )
        most = TEXT_ROWS if len(gains) <= TEXT_ROWS else 3
        return "\n".join([*lines, *first_rows(rows, len(gains), most)])

    def _in_all(self) -> list[str]:
        """Return a line on all players together."""
        if self.concept != "nash":
            return []
        whole = not_negative(self.nash_conv, np.sum(self.rounding))
        most = float(np.asarray(self.upper).sum())
        return [f"NashConv {format_value(whole)}, at most {format_value(most)}"]

    def _repr_html_(self) -> str:
        """HTML for notebooks: the interval of the largest gain, and that of each player."""
        return html_card("Certificate", self._html_parts())

    def _html_parts(self) -> list[str]:
        gains, upper = np.asarray(self.gains), np.asarray(self.upper)
        measures = {"max gain": self.max_gain, "at most": self.max_upper}
        facts = {name: float(np.max(measure)) for name, measure in measures.items()}
        if self.concept == "nash":
            facts["NashConv"] = float(np.max(self.nash_conv))
        shown = {"concept": self.concept, "exact": self.exact, **facts, "method": self.method}
        parts = [html_facts(shown)]
        if gains.ndim == 1 and self.players <= ROWS:
            rows = [(str(i), float(g), float(upper[i])) for i, g in enumerate(gains)]
            parts.append(html_table(("player", "gain", "at most"), rows))
        return parts

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        mine: Any = self
        return all(_same(getattr(self, f.name), getattr(other, f.name)) for f in fields(mine))

    __hash__ = None  # pyright: ignore[reportAssignmentType]


def _as_numbers(name: str, value: Any) -> np.ndarray:
    array = np.asarray(value)
    if array.dtype.kind not in "fiu":
        raise ValueError(f"certificate.{name}: expected numbers, found dtype {array.dtype}")
    return array


def _same(first: Any, second: Any) -> bool:
    """Whether two plain values are equal: arrays entry by entry, with NaN equal to NaN."""
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        return first.keys() == second.keys() and all(_same(first[k], second[k]) for k in first)
    if isinstance(first, list | tuple) and isinstance(second, list | tuple):
        return len(first) == len(second) and all(map(_same, first, second))
    if isinstance(first, str) or first is None or second is None:
        return first is second or (isinstance(second, str) and first == second)
    return np.array_equal(np.asarray(first), np.asarray(second), equal_nan=True)


def _check_one_shape(one: str, array: Any, other: str, found: Any) -> None:
    if np.shape(found) != np.shape(array):
        raise ValueError(
            f"{other}: expected {np.shape(array)}, the shape of {one}; found {np.shape(found)}"
        )


@final
@dataclass(frozen=True, eq=False)
class TableCertificate(Certificate):
    """A certificate with one array entry per player; see `Certificate`.

    **Example**

    >>> import numpy as np, equipoise as eq
    >>> certificate = eq.certificates.TableCertificate(
    ...     gains=np.array([0.0, 0.5]), upper=np.array([0.1, 0.5]), value=np.zeros(2), method="grid"
    ... )
    >>> certificate.exact, float(certificate.max_upper)
    (False, 0.5)
    >>> certificate == eq.certificates.certificate_from_plain(certificate.to_plain())
    True
    """

    kind: ClassVar[str] = "table"
    gains: Array
    upper: Array
    value: Array
    method: str
    concept: str = "nash"
    state_gains: np.ndarray | None = None
    state_upper: np.ndarray | None = None
    rounding: Array = 0.0

    def __post_init__(self) -> None:
        _check_one_shape("gains", self.gains, "upper", self.upper)
        if self.state_gains is not self.state_upper:
            _check_one_shape("state_gains", self.state_gains, "state_upper", self.state_upper)

    def __getitem__(self, index: Any) -> "TableCertificate":
        """Return the certificate of one game of the batch, or of a slice of the batch."""
        axes = self.gains.ndim - 1
        used = len(index) if isinstance(index, tuple) else int(index is not Ellipsis)
        if used > axes:
            raise IndexError(f"index {index!r}: the certificate has {axes} batch axes")
        part = {
            name: None if (array := getattr(self, name)) is None else array[index]
            for name in ("gains", "upper", "value", "state_gains", "state_upper")
        }
        size = np.broadcast_to(self.rounding, self.gains.shape)[index]
        return replace(self, **part, rounding=size)


@final
@dataclass(frozen=True, eq=False)
class AggregativeCertificate(Certificate):
    """A certificate that stores one entry per class of agents and expands it to agents on demand.

    In a Markov game an agent's gain is that of its worst starting state; `class_gains`,
    `class_upper` and `class_value` hold all states on their first axis.

    **Example**

    >>> import numpy as np, equipoise as eq
    >>> free, jam = np.array([[-0.2, -0.5]]), np.array([[-0.6, 0.0]])
    >>> town = eq.AggregativeGame(
    ...     [[[1.0], [0.0]]], lambda x: free + jam * x[..., 0], 0.6, counts=[10]
    ... )
    >>> certificate = eq.certify(town, np.repeat([0, 1], [6, 4]))
    >>> certificate.gains.round(3).tolist()
    [0.06, 0.06, 0.06, 0.06, 0.06, 0.06, 0.0, 0.0, 0.0, 0.0]
    >>> certificate.class_counts.tolist(), round(float(certificate.max_gain), 3)
    ([6, 4], 0.06)
    """

    kind: ClassVar[str] = "aggregative"
    #: (classes,), or (states, classes) in a Markov game: gain of the best deviation found.
    class_gains: np.ndarray
    #: The same shape: proven bound on the gain.
    class_upper: np.ndarray
    #: The same shape: value of the policy.
    class_value: np.ndarray
    #: (classes,): number of agents in each class.
    class_counts: np.ndarray
    #: (classes,): row (type) of the game that each class belongs to.
    class_rows: np.ndarray
    method: str
    concept: str = "nash"
    #: (agents,): class of each agent; None where agents follow the order of the game's rows.
    class_of: np.ndarray | None = None
    rounding: np.ndarray | float = 0.0

    def spread(self, values: np.ndarray) -> np.ndarray:
        """Expand (..., classes) to (..., agents), in the order of the policy or the game's rows."""
        if self.class_of is not None:
            return values[..., self.class_of]
        order = np.argsort(self.class_rows, kind="stable")
        return np.repeat(values[..., order], self.class_counts[order], axis=-1)

    def _worst(self, values: np.ndarray) -> np.ndarray:
        return values if values.ndim == 1 else values.max(0)

    @cached_property
    def gains(self) -> np.ndarray:  # pyright: ignore[reportIncompatibleVariableOverride]
        """(agents,): gain of each agent, in the order of the policy or the game's rows."""
        return self.spread(self._worst(self.class_gains))

    @property
    def upper(self) -> np.ndarray:  # pyright: ignore[reportIncompatibleVariableOverride]
        """(agents,): proven bound on each agent's gain."""
        return self.spread(self._worst(self.class_upper))

    @property
    def value(self) -> np.ndarray:  # pyright: ignore[reportIncompatibleVariableOverride]
        """(agents,), or (states, agents) in a Markov game: value of the policy to each agent."""
        return self.spread(self.class_value)

    @property
    def state_gains(self) -> np.ndarray | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        """(states, agents): gain of each agent in a Markov game, otherwise None."""
        return None if self.class_gains.ndim == 1 else self.spread(self.class_gains)

    @property
    def state_upper(self) -> np.ndarray | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        """(states, agents): bound on each agent's gain in a Markov game, otherwise None."""
        return None if self.class_upper.ndim == 1 else self.spread(self.class_upper)

    @property
    def players(self) -> int:
        """Number of agents."""
        return int(self.class_counts.sum())

    @property
    def exact(self) -> bool:
        """Whether the bounds of every gain agree up to 1e-6 of the gain or up to rounding."""
        gains, upper = self._worst(self.class_gains), self._worst(self.class_upper)
        slack = np.maximum(EXACT * np.abs(gains), self.rounding) + SMALLEST
        return bool(np.all(upper - gains <= slack))

    @property
    def max_gain(self) -> np.float64:
        """Largest gain of any agent."""
        return np.float64(self.class_gains.max())

    @property
    def max_upper(self) -> np.float64:
        """Largest proven bound on any agent's gain."""
        return np.float64(self.class_upper.max())

    @property
    def nash_conv(self) -> np.float64:
        """Sum of the gains of all agents."""
        return np.float64(self._worst(self.class_gains) @ self.class_counts)

    @property
    def mean_value(self) -> np.ndarray:
        """Value averaged over agents; in a Markov game one for each starting state."""
        return self.class_value @ self.class_counts / self.players

    def __getitem__(self, index: Any) -> "AggregativeCertificate":
        """Return the certificate itself for `...` and `()`; it has no batch axes."""
        if index is Ellipsis or index == ():
            return self
        raise IndexError(f"index {index!r}: the certificate has 0 batch axes")


#: How a computation can end: every game met its tolerance; some did not; the time limit or Ctrl-C
#: ended it, and the result is the best one found so far.
ENDINGS = ("solved", "not solved", "out of time", "interrupted")
#: What a log or a simulator can show: a policy was learned; actions do not predict rewards; the
#: log does not support advice. In the last two cases the policy is the log's own play.
FINDINGS = ("learned", "nothing learned", "refused")
#: Words in files of versions 0.1 and 0.2.
_EARLIER = {
    "within the proven bound": "not solved",
    "stopped": "interrupted",
    "finished": "learned",
    "behaviour": "refused",
    **dict.fromkeys(("inexact", "inconsistent"), "learned"),
}


@final
@dataclass(frozen=True, eq=False)
class Status:
    """Whether each game was solved to its tolerance, with a message that says what to do if not.

    **Example**

    >>> import equipoise as eq
    >>> status = eq.solve(eq.MatrixGame([[3, 1], [2, 0]])).status
    >>> status.ok, str(status)
    (True, 'solved: no player gains more than ...; the largest gain found is 0 (tolerance 3e-08)')
    """

    #: How the computation ended: "solved", "not solved", "out of time" or "interrupted".
    name: str
    #: What happened, as a sentence.
    message: str
    #: (...) bool: which games of the batch met the tolerance.
    solved: Array

    def __post_init__(self) -> None:
        _check_word(self.name, ENDINGS)
        if type(self.solved) is np.ndarray or not hasattr(self.solved, "devices"):
            object.__setattr__(self, "solved", np.asarray(self.solved, bool))

    @classmethod
    def computed(cls, name: str, words: Callable[[], str], solved: Array) -> "Status":
        """Build a status from checked parts; `words` makes its message when it is first read.

        Formatting a message takes longer than solving a small game.

        **Example**

        >>> import numpy as np
        >>> from equipoise.core import Status
        >>> Status.computed("solved", lambda: "no player gains", np.array(True)).message
        'no player gains'
        """
        status = object.__new__(cls)
        vars(status).update(name=name, solved=solved, _words=words)
        return status

    def __getattr__(self, name: str) -> str:
        words = vars(self).get("_words") if name == "message" else None
        if words is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        object.__setattr__(self, name, words())
        return self.message

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.name, self.message, self.solved)  # functions cannot be sent

    @property
    def ok(self) -> bool:
        """Whether every game met its tolerance."""
        return bool(np.all(self.solved))

    def to_plain(self) -> dict[str, Any]:
        """Return the name, the message and which games were solved."""
        return {"name": self.name, "message": self.message, "solved": self.solved}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Status):
            return NotImplemented
        words = (self.name, self.message) == (other.name, other.message)
        return words and np.array_equal(self.solved, other.solved)

    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def __str__(self) -> str:
        return f"{self.name}: {self.message}"


@final
@dataclass(frozen=True)
class Verdict:
    """What was learned from a log, a simulator or play: a statistical statement, never a proof.

    **Example**

    >>> from equipoise.core import Verdict
    >>> verdict = Verdict("learned", "pairs of actions are extrapolated", caution=True)
    >>> verdict.name, verdict.ok, str(verdict)
    ('learned', False, 'learned, with caution: pairs of actions are extrapolated')
    """

    #: "learned", "nothing learned" or "refused".
    name: str
    #: What was learned, or why nothing was, as a sentence.
    message: str
    #: Whether what was learned holds with a reservation, which the message states.
    caution: bool = False

    def __post_init__(self) -> None:
        _check_word(self.name, FINDINGS)

    @property
    def ok(self) -> bool:
        """Whether a policy was learned, without a reservation."""
        return self.name == "learned" and not self.caution

    def to_plain(self) -> dict[str, Any]:
        """Return the name, the message, and whether there is a reservation."""
        return {"name": self.name, "message": self.message, "caution": self.caution}

    def __str__(self) -> str:
        return f"{self.name}{', with caution' * self.caution}: {self.message}"


def _check_word(word: str, known: tuple[str, ...]) -> None:
    if word not in known:
        raise ValueError(f"name: expected one of {', '.join(known)}, found {word!r}")


def status_from_plain(plain: Mapping[str, Any]) -> Status | Verdict:
    """Return what `to_plain` of a status or a verdict described; words of version 0.2 are read.

    >>> str(status_from_plain({"name": "inexact", "message": "rare actions", "solved": False}))
    'learned, with caution: rare actions'
    >>> status_from_plain({"name": "within the proven bound", "message": ""}).name
    'not solved'
    """
    word, message = str(plain["name"]), str(plain["message"])
    caution = bool(plain.get("caution", word in ("inexact", "inconsistent")))
    word = _EARLIER.get(word, word)
    if word in FINDINGS:
        return Verdict(word, message, caution)
    return Status(word, message, np.asarray(plain.get("solved", word == "solved")))


@dataclass(frozen=True, eq=False)
class Solution(Generic[P]):
    """A policy, its value, and a certificate of how much any player could gain by deviating.

    Two solutions are equal when their plain forms are equal; run times are not compared.

    **Example**

    >>> import equipoise as eq
    >>> solution = eq.solve(eq.MatrixGame([[3, -1], [-2, 1]]))
    >>> [strategy.round(6).tolist() for strategy in solution.policy]
    [[0.428571, 0.571429], [0.285714, 0.714286]]
    >>> round(float(solution.value), 6), solution.solved
    (0.142857, True)
    """

    #: A `games.Policy`: a `Profile` of one array per player, or the policy type of the game.
    policy: P
    #: Value of the policy, with the game's batch axes, and a last axis of states in Markov games:
    #: to the first player of a zero-sum game, to every player (on the last axis) of a general-sum
    #: game, and to the average agent of an aggregative game.
    value: Array
    #: Gains and proven bounds of the policy.
    certificate: Certificate
    #: How the computation ended; for what was learned from samples, a `Verdict`.
    status: Status | Verdict
    #: Largest gain allowed, in units of reward: one number for each game of a batch, NaN where no
    #: tolerance was requested. `solved` compares it with `upper`. Players of general-sum games
    #: whose payoffs have very different ranges have tolerances of their own,
    #: `stats["tolerances"]`, and this is the smallest.
    tolerance: Array = np.nan
    #: The objective attained by the policy, and the bound proven for all equilibria, or, with the
    #: concept "optimum", for all policies. Its ends are arrays for a batch, and by starting state
    #: for the Markov game of a crowd. None without an objective.
    objective: Interval | None = None
    #: What `objective` rests on and nobody proved, as a sentence; empty if there is nothing.
    assumes: str = ""
    #: What helps to debug the solver, such as `method`, `iterations` or `seconds`.
    stats: dict[str, Any] = field(default_factory=dict)
    #: The game solved; not compared, and not written into files. None for a solution read from one.
    game: Any = field(default=None, repr=False)

    @property
    def upper(self) -> Array:
        """The largest proven gain of any player: short for `certificate.max_upper`."""
        return self.certificate.max_upper

    @property
    def solved(self) -> bool | Array:
        """Whether the game met its tolerance, or, for a batch, which games did."""
        if isinstance(self.status, Verdict):
            return False
        solved = self.status.solved
        return solved if solved.ndim else bool(solved)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Solution):
            return NotImplemented
        return _same(self.to_plain(), other.to_plain())

    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.status)!r})"

    def __str__(self) -> str:
        """Return the outcome, the value and who plays what, in a few lines."""
        words = about(self)
        lines = [words.title] if words.title else []
        lines += wrapped(self.status)
        value = np.asarray(self.value, np.float64)
        if value.ndim < 2 and 0 < value.size <= TEXT_ROWS:
            shown = [format_value(number) for number in value.ravel().tolist()]
            if value.ndim and not words.batch_shape:
                states = self.certificate.state_gains is not None
                shown = [
                    f"{words.named('state', i) if states else words.player(i)} {number}"
                    for i, number in enumerate(shown)
                ]
            lines.append(cut(f"{words.measure}: {', '.join(shown)}"))
        policy: Any = self.policy
        if policy is not None and not words.batch_shape:
            count, rows = policy.in_words(words)
            lines += first_rows(rows, count)
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """HTML for notebooks: the outcome, the value, the policy and the certificate."""
        value = np.asarray(self.value)
        facts: dict[str, Any] = {"status": self.status.name}
        facts |= {"value": value[()] if value.ndim == 0 else value} if value.size <= ROWS else {}
        policy = f"<pre>{escape(str(self.policy)[:2000])}</pre>"
        told = f"<p>{escape(self.status.message)}</p>"
        parts = [html_facts(facts), policy, told, *self.certificate._html_parts()]
        return html_card(type(self).__name__, parts)

    def to_plain(self) -> dict[str, Any]:
        """Return strings, numbers and arrays by name; `solution_from_plain` reads them.

        Run times and the compiler of the kernels are left out, so that the same computation has
        the same plain form.
        """
        stats = {k: v for k, v in self.stats.items() if k != "engine" and not k.endswith("seconds")}
        policy: Any = self.policy
        plain = {
            "version": 1,
            "policy": None if policy is None else policy.to_plain(),
            "certificate": self.certificate.to_plain(),
            "status": self.status.to_plain(),
            "value": np.asarray(self.value),
            "tolerance": np.asarray(self.tolerance),
            "stats": stats,
        }
        if self.objective is not None:
            plain["objective"] = self.objective.to_plain()
        return plain | ({"assumes": self.assumes} if self.assumes else {})


@final
@dataclass(frozen=True)
class Prices:
    """What selfishness costs: the best and the worst equilibrium beside the social optimum.

    The price of anarchy compares the worst equilibrium with the optimum, and the price of stability
    the best one. Both are ratios of at least 1: of mean rewards, or of costs. Every number is an
    interval that holds the true one; in the Markov game of a crowd its ends have one entry for each
    state in which the game may begin.

    **Example**

    >>> import equipoise as eq
    >>> prices = eq.prices(eq.games.load("braess-network"))
    >>> print(prices)
    solved: the price of anarchy is 1.10843
    price of anarchy: 1.10843
    price of stability: 1.10843
    total cost of the optimum: 498
    total cost of the best equilibrium: 552
    total cost of the worst equilibrium: 552
    """

    #: Welfare or cost of the social optimum, which `measure` names.
    optimum: Interval
    #: That of the best equilibrium. None if no equilibrium was found.
    best: Interval | None
    #: That of the worst equilibrium. None if no equilibrium was found.
    worst: Interval | None
    #: The price of anarchy. None, like `stability`, if no equilibrium was found, or where the
    #: welfare of the equilibrium is negative and that of the optimum is not.
    anarchy: Interval | None
    #: The price of stability.
    stability: Interval | None
    #: "solved" if the optimum and the equilibria are known to the tolerance.
    status: Status
    #: What was found: an "optimum", and an "equilibrium", or the "best" and the "worst" one.
    solutions: Mapping[str, Solution] = field(default_factory=dict, repr=False)
    #: What is compared, such as "mean reward" or "total cost".
    measure: str = "mean reward"

    def __str__(self) -> str:
        """Return the outcome, both prices and what they compare."""
        facts = {
            "price of anarchy": self.anarchy,
            "price of stability": self.stability,
            f"{self.measure} of the optimum": self.optimum,
            f"{self.measure} of the best equilibrium": self.best,
            f"{self.measure} of the worst equilibrium": self.worst,
        }
        lines = (cut(f"{name}: {'unknown' if one is None else one}") for name, one in facts.items())
        return "\n".join((*wrapped(self.status), *lines))


#: What ends a search from outside, and what the status then advises.
ADVICE = {
    "out of time": "raise `time_limit`",
    "interrupted": "this is the best policy found before the interruption",
}
#: What helps if a policy's gains meet the tolerance and only their bounds do not.
ROUNDING = "only the bound, which includes rounding, exceeds the tolerance: raise `tolerance`"


def judged(met: bool | Array, message: str | Callable[[], str], ended: str = "solved") -> Status:
    """Return the status of what met its tolerance or did not; every status is made here.

    `ended` is what ended the search: "out of time", "interrupted", or anything else if it ended by
    itself. A message may be a function, which is called when the message is first read.

    >>> str(judged(np.array([True, False]), "1 of 2 games met their tolerance", "interrupted"))
    'interrupted: 1 of 2 games met their tolerance'
    """
    solved = met if isinstance(met, bool) else met.all()
    name = "solved" if solved else ended if ended in ADVICE else "not solved"
    if isinstance(message, str):
        return Status(name, message, met)
    return Status.computed(name, message, np.asarray(met) if isinstance(met, bool) else met)


def finish(
    policy: P,
    certificate: Certificate,
    tolerance: Any,
    ended: str = "solved",
    *,
    who: str = "player",
    told: str = "",
    how: str = "",
    notes: Sequence[str] = (),
    advice: str = "",
    bound: str = ROUNDING,
    hints: Mapping[str, str] = ADVICE,
    though: str = "",
    value: Any = None,
    objective: Interval | None = None,
    assumes: str = "",
    stats: dict[str, Any] | None = None,
    game: Any = None,
) -> Solution[P]:
    """Return a policy as a solution, whose status follows from its certificate and the tolerance.

    Args:
        policy: The policy found.
        certificate: Its certificate in the game as the user gave it.
        tolerance: The largest gain allowed: one number for each game, or for each player.
        ended: What ended the search: "out of time", "interrupted", or anything else if it ended by
            itself.
        who: Who might deviate, in the sentence on gains.
        told: The tolerance in words. Default: its value, or the range of its values.
        how: How the policy was found, in a few words.
        notes: Further sentences on the result.
        advice: What may help if a gain exceeds the tolerance.
        bound: What may help if only a proven bound exceeds it.
        hints: What may help if the search was ended from outside.
        though: What to add to a game that was solved although the search was ended.
        value: Value of the policy. Default: that of the certificate.
        objective: The objective attained, and what no equilibrium exceeds.
        assumes: What `objective` rests on and nobody proved.
        stats: Statistics of the solver, which help to debug.
        game: The game solved.
    """
    stats = {} if stats is None else stats
    if ended in ADVICE:
        stats["ended"] = ended
    tolerance = tolerance if hasattr(tolerance, "ndim") else np.asarray(tolerance, np.float64)
    allowed = tolerance
    if tolerance.ndim == 0:  # plain floats are faster for a single game
        low = high = float(tolerance)
        gain, upper = float(certificate.max_gain), float(certificate.max_upper)
        solved, games, within = upper <= low and upper < math.inf, 1, gain <= low
        missed = int(not solved)
    else:
        with _in_doubles(tolerance):
            if tolerance.ndim < certificate.upper.ndim:
                solved, gains = certificate.max_upper <= tolerance, certificate.max_gain
            else:  # one for each player
                solved, gains = smallest(certificate.upper <= tolerance), certificate.gains
                stats["tolerances"], allowed = tolerance, np.asarray(smallest(tolerance))
            games, missed = solved.size, 0 if solved.all() else int((~solved).sum())
            within = missed and bool((gains <= tolerance).all())
            ends = certificate.gains.max(), certificate.upper.max()
            gain, upper, low, high = map(float, (*ends, tolerance.min(), tolerance.max()))
    what = hints.get(ended, bound if within else advice) if missed else ""
    more = f"; {though}" if not missed and though and ended in ADVICE else ""

    def message() -> str:
        allowed = told or (
            f"tolerance {low:g}" if low == high else f"tolerances {low:g} to {high:g}"
        )
        text = f"{describe_gains(gain, upper, who)} ({allowed}{', ' * bool(how)}{how})"
        if games > 1:
            text = f"{games - missed:,} of {games:,} games met their tolerance; {text}"
        return "; ".join((text, *notes)) + (f": {what}" if what else more)

    status = judged(solved, message, ended)
    value = certificate.value if value is None else value
    solution: Solution[P] = object.__new__(Solution)  # as its constructor, in a third of the time
    vars(solution).update(
        policy=policy,
        value=value,
        certificate=certificate,
        status=status,
        tolerance=allowed,
        objective=objective,
        assumes=assumes,
        stats=stats,
        game=game,
    )
    return solution


def _in_doubles(array: Any) -> AbstractContextManager[None]:
    """Float64 arithmetic for an array on a device; NumPy arrays need nothing."""
    if type(array) is np.ndarray:
        return nullcontext()
    from equipoise.core.precision import double_precision

    return double_precision()
