"""The error of wrong input: it knows its argument, what was expected and what was found."""

import re
from typing import Any


class InputError(ValueError):
    """An argument that is wrong; the command line asks it about the flag in the argument's place.

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
        """The message, with the argument called by another name."""
        # A comma inside what was expected needs more, but not in shapes, intervals and 1,000.
        mark = ";" if "," in re.sub(r"[(\[{].*?[)\]}]|\d,(?=\d{3})", "", self.expected) else ","
        message = f"{argument}: expected {self.expected}{mark} found {self.found}"
        return f"{message}; {self.hint}" if self.hint else message

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.argument, self.expected, self.found, self.hint)
