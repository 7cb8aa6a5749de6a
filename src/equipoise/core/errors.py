"""The error for invalid input: it stores the argument, what was expected and what was found."""

import functools
import inspect
import re
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

#: Longest description of what was found: a file may contain thousands of names.
_LONGEST = 500
#: Up to so many arguments are listed beside the nearest one.
_FEW = 12
#: What other libraries and papers call our arguments.
SYNONYMS = {
    "action_names": ("labels",),
    "agents": ("counts", "players"),
    "confidence": ("level",),
    "eps": ("tolerance", "epsilon"),
    "epsilon": ("tolerance",),
    "gamma": ("discount",),
    "eta": ("rates",),
    "iterations": ("rounds", "steps"),
    "learning_rate": ("rates", "rate"),
    "lr": ("rates", "rate"),
    "n_agents": ("counts", "agents", "players"),
    "n_players": ("players",),
    "names": ("labels",),
    "num_players": ("players",),
    "random_state": ("key", "seed"),
    "rng": ("key", "seed"),
    "seed": ("key",),
    "step_size": ("rates", "step"),
    "stepsize": ("rates", "step"),
    "timeout": ("time_limit",),
    "tol": ("tolerance",),
}

_Call = TypeVar("_Call", bound=Callable[..., Any])


class InputError(ValueError):
    """An invalid argument. The command line replaces the argument's name by its flag (`about`).

    **Example**

    >>> from equipoise.core import InputError
    >>> error = InputError("rounds", "a whole number >= 1", 0)
    >>> error.about("--rounds")
    '--rounds: expected a whole number >= 1, found 0'
    >>> str(InputError("verb", "solve or certify", "'slove'", hint="did you mean solve?"))
    "verb: expected solve or certify, found 'slove'; did you mean solve?"
    """

    def __init__(self, argument: str, expected: str, found: Any, hint: str = ""):
        self.argument, self.expected, self.found, self.hint = argument, expected, found, hint
        super().__init__(self.about(argument))

    def about(self, argument: str) -> str:
        """Return the message, with the argument called by another name."""
        # If `expected` contains a comma, a semicolon separates it, except in shapes and 1,000.
        mark = ";" if "," in re.sub(r"[(\[{].*?[)\]}]|\d,(?=\d{3})", "", self.expected) else ","
        found = re.sub(r"\s*\n\s*", " ", str(self.found))  # arrays print in several lines
        found = found if len(found) <= _LONGEST else f"{found[:_LONGEST]} ..."
        message = f"{argument}: expected {self.expected}{mark} found {found}"
        return f"{message}; {self.hint}" if self.hint else message

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.argument, self.expected, self.found, self.hint)


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the known name that was probably meant, or an empty string if none is near.

    >>> nearest("tolerence", ["concept", "tolerance"]), nearest("gamma", ["horizon", "discount"])
    ('tolerance', 'discount')
    """
    from difflib import get_close_matches  # only errors need it

    known = list(known)
    meant = [other for other in SYNONYMS.get(name, ()) if other in known]
    return next(iter(meant or get_close_matches(name, known, n=1)), "")


def unknown_name(call: str, name: str, known: Iterable[str], what: str = "argument") -> InputError:
    """Return the error for an argument that a call does not have.

    >>> str(unknown_name("load", "seed", ["name", "key"]))
    "load: expected an argument among name, key; found 'seed'; did you mean key?"
    """
    known = list(known)
    meant = nearest(name, known)
    expected = f"an {what} among {', '.join(known)}" if known else f"no {what}"
    expected = f"one of its {what}s" if meant and len(known) > _FEW else expected
    return InputError(call, expected, repr(name), f"did you mean {meant}?" if meant else "")


def named_arguments(function: _Call) -> _Call:
    """Answer a call with an unknown argument, or with too many, in one line with the nearest name.

    For a class, its constructor answers. A call that fits costs one more Python call.

    >>> @named_arguments
    ... def area(width, height=1.0):
    ...     return width * height
    >>> area(2.0, hight=3.0)
    Traceback (most recent call last):
    ...
    equipoise.core.errors.InputError: area: expected an argument among width, height; found 'hight';
    did you mean height?
    """
    call: Any = function
    if isinstance(function, type):
        call.__init__ = _answering(call.__init__, call.__name__, 1)
        return call
    return _answering(call, call.__qualname__, 0)


def _answering(function: Any, name: str, skipped: int) -> Any:
    @functools.wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        try:
            return function(*arguments, **named)
        except TypeError:
            check_call(function, name, arguments[skipped:], named, skipped)
            raise

    return call


def check_call(
    function: Callable[..., Any],
    name: str,
    arguments: Any,
    named: Any,
    skipped: int = 0,
    instead: str = "",
) -> None:
    """Raise if a call has an argument that the function lacks; the first `skipped` are `self`.

    `instead` says what to use for further arguments by position.
    """
    parameters = list(inspect.signature(function).parameters.values())[skipped:]
    kinds = [p.kind for p in parameters]
    known = [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    known = [other for other in known if other != "cls"]
    if inspect.Parameter.VAR_KEYWORD not in kinds:
        for other in named:
            if other not in known:
                raise unknown_name(name, other, known) from None
    placed = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if len(arguments) > len(placed) and inspect.Parameter.VAR_POSITIONAL not in kinds:
        plural = "s" * (len(placed) > 1)
        most = f"{len(placed)} argument{plural} by position ({', '.join(placed)})"
        rest = [f"{other}=" for other in known if other not in placed]
        hint = instead or (f"name the others: {', '.join(rest)}" if rest else "")
        raise InputError(name, most if placed else "named ones", len(arguments), hint) from None
