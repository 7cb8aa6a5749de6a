"""Numbers and tokens of game files, with the place of each for error messages."""

import math
import re

#: Longer numbers are refused: nothing writes them, and they would only cost time.
NUMBER_LENGTH_LIMIT = 4000

_NUMBER = r"[+-]?(?:\d++(?:\.\d*+)?|\.\d++)(?:[eE][+-]?\d++|/\d++)?"

# Possessive quantifiers keep the time linear whatever the text. Commas count as white space.
_TOKEN = re.compile(
    rf"""[\s,]*+(?:
        (?P<number>{_NUMBER}(?![^\s,{{}}"]))
      | (?P<open>\{{)
      | (?P<close>\}})
      | (?P<text>"[^"\\]*+(?:\\.[^"\\]*+)*+")
      | (?P<word>[^\s,{{}}"]++)
      | (?P<end>\Z)
    )""",
    re.VERBOSE | re.ASCII | re.DOTALL,
)
_WHOLE_NUMBER = re.compile(_NUMBER, re.ASCII)


def parse_number(text: str) -> float:
    """The float nearest to a decimal such as `-1.5e3` or a fraction such as `1/3`.

    >>> parse_number("1/3") == 1 / 3, parse_number("-.5")
    (True, -0.5)
    """
    if len(text) > NUMBER_LENGTH_LIMIT:
        raise ValueError(f"expected a number of at most {NUMBER_LENGTH_LIMIT} characters")
    if not _WHOLE_NUMBER.fullmatch(text):
        raise ValueError(f"expected a number, found {shorten(text)}")
    numerator, slash, denominator = text.partition("/")
    if not slash:
        value = float(text)
    elif "." in numerator or int(denominator) == 0:
        raise ValueError(
            f"expected a fraction of whole numbers with a denominator that is not zero, "
            f"found {shorten(text)}"
        )
    else:
        try:
            value = int(numerator) / int(denominator)
        except OverflowError:
            value = math.inf
    if not math.isfinite(value):
        raise ValueError(f"expected a number that a float can hold, found {shorten(text)}")
    return value


def format_number(value: float) -> str:
    """The shortest text from which `parse_number` gives `value` back exactly.

    >>> format_number(3.0), format_number(0.1), format_number(-1e-7)
    ('3', '0.1', '-1e-07')
    """
    return repr(float(value)).removesuffix(".0")


def shorten(text: str, length: int = 40) -> str:
    """`text` quoted for a message, cut when long."""
    return repr(text if len(text) <= length else text[:length] + "...")


class Tokens:
    """A text cut into tokens, one at a time; `kind` and `value` are those of the current one.

    >>> tokens = Tokens('NFG 1 R "title" { 1/3 }', "example")
    >>> tokens.kind, tokens.value
    ('word', 'NFG')
    >>> tokens.advance(); tokens.take_number("a payoff")
    1.0
    >>> tokens.take("text", "a title")
    Traceback (most recent call last):
    ...
    ValueError: example: line 1, column 7: expected a title, found 'R'
    """

    def __init__(self, text: str, source: str):
        self._text = text
        self._source = source
        self._position = 0
        self.advance()

    def advance(self) -> None:
        """Move to the next token."""
        match = _TOKEN.match(self._text, self._position)
        if match is None or match.lastgroup is None:  # only an open quote matches nothing
            self._start = self._text.index('"', self._position)
            raise self.error("expected the quote that opens here to be closed")
        self.kind: str = match.lastgroup
        self.value: str = match[self.kind]
        self._start = match.start(self.kind)
        self._position = match.end()

    def take(self, kind: str, meaning: str, values: tuple[str, ...] = ()) -> str:
        """Return the current token and move on; refuse one of another kind or value."""
        if self.kind != kind or (values and self.value not in values):
            raise self.error(f"expected {meaning}, found {self.found()}")
        value = self.value
        self.advance()
        return value

    def take_number(self, meaning: str) -> float:
        """Return the current token as a float and move on."""
        if self.kind != "number":
            raise self.error(f"expected {meaning}, found {self.found()}")
        try:
            value = parse_number(self.value)
        except ValueError as error:
            raise self.error(str(error)) from None
        self.advance()
        return value

    def take_whole(self, meaning: str, low: int, high: int) -> int:
        """Return the current token as an int from `low` to `high` and move on."""
        short = self.kind == "number" and len(self.value) <= 20
        if not (short and self.value.isdigit() and low <= int(self.value) <= high):
            raise self.error(
                f"expected {meaning}, a whole number from {low} to {high}, found {self.found()}"
            )
        value = int(self.value)
        self.advance()
        return value

    def found(self) -> str:
        """The current token, for a message."""
        return "the end of the file" if self.kind == "end" else shorten(self.value)

    def error(self, message: str) -> ValueError:
        """A `ValueError` that says where the current token is."""
        line = self._text.count("\n", 0, self._start) + 1
        column = self._start - self._text.rfind("\n", 0, self._start)
        return ValueError(f"{self._source}: line {line}, column {column}: {message}")
