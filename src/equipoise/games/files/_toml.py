"""A game of the catalogue with parameters, written down: what a scenario is.

kind = "two-roads"      # a name that `equipoise games` lists
agents = 100_000        # its parameters
jam = 0.7
"""

import tomllib
from typing import Any


def parse_toml(text: str, source: str) -> Any:
    """The game that the text of a `.toml` file describes; `source` names the file in errors.

    >>> parse_toml('kind = "two-roads"\\nagents = 500', "text").agents
    500
    """
    from equipoise.games.catalogue import load  # the catalogue is not needed for other files

    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{source}: expected TOML, found {error}") from error
    kind = content.pop("kind", None)
    if not isinstance(kind, str):
        found = "nothing" if kind is None else repr(kind)
        raise ValueError(f'{source}: expected kind = "the name of a game", found {found}')
    try:
        return load(kind, **content)
    except ValueError as error:
        raise ValueError(f"{source}: {error}") from error
    except TypeError as error:  # a parameter of another kind than its default
        raise ValueError(f"{source}: expected parameters of the right kind; {error}") from error
