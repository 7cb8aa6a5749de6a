"""The error for invalid input: it stores the argument, what was expected and what was found."""

import re
from typing import Any

#: Longest description of what was found: a file may contain thousands of names.
_LONGEST = 500


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
