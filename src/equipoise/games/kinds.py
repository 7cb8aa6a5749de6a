"""Registry of the kinds of games: one row per kind, whose parts are imported when they are used."""

import inspect
from collections.abc import Iterable
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from equipoise.core.errors import InputError, nearest

if TYPE_CHECKING:
    from equipoise.games._game import Game

__all__ = ["KINDS", "class_of", "kind_of"]


#: Up to so many options are listed beside the nearest one.
_FEW = 12


class Kind(NamedTuple):
    """What belongs to one kind of game. Each part is the name of an object, as `module:name`.

    **Example**

    >>> import equipoise as eq
    >>> row = eq.games.kinds.KINDS["markov"]
    >>> row.solve, row.policies
    ('equipoise.solvers:solve_markov', ('profile', 'joint'))
    """

    #: The class of the games.
    game: str
    #: Kinds of the policies that `certify` takes.
    policies: tuple[str, ...]
    #: Function of a game, a policy and a concept that returns a certificate.
    certify: str
    #: Function of a game and its options that returns a solution.
    solve: str
    #: Function of a game and its options that lists equilibria, if there is one.
    equilibria: str | None = None
    #: Function of a game that compares equilibria with the optimum, if there is one.
    prices: str | None = None
    #: Function that chooses tolls or other charges, if there is one.
    design: str | None = None


_TABLES, _CROWDS = "equipoise.certificates._tables", "equipoise.certificates._crowds"
_AGENTS = "equipoise.certificates._interactions"

#: Kind of game -> its row.
KINDS = {
    "matrix": Kind(
        game="equipoise.games._matrix:MatrixGame",
        policies=("profile", "joint", "mixture"),
        certify=f"{_TABLES}:certify_matrix",
        solve="equipoise.solvers:solve_matrix",
        equilibria="equipoise.solvers:list_equilibria",
    ),
    "normal-form": Kind(
        game="equipoise.games._normal:NormalFormGame",
        policies=("profile", "joint", "mixture"),
        certify=f"{_TABLES}:certify_normal_form",
        solve="equipoise.solvers:solve_normal_form",
        equilibria="equipoise.solvers:list_equilibria",
    ),
    "markov": Kind(
        game="equipoise.games._markov:MarkovGame",
        policies=("profile", "joint"),
        certify="equipoise.certificates._markov:certify_markov",
        solve="equipoise.solvers:solve_markov",
    ),
    "aggregative": Kind(
        game="equipoise.games._aggregative:AggregativeGame",
        policies=("aggregative",),
        certify=f"{_CROWDS}:certify_aggregative",
        solve="equipoise.aggregative:solve_aggregative",
        equilibria="equipoise.aggregative:equilibria",
        prices="equipoise.aggregative:prices",
        design="equipoise.aggregative:design",
    ),
    "aggregative-markov": Kind(
        game="equipoise.games._aggregative:AggregativeMarkovGame",
        policies=("aggregative",),
        certify=f"{_CROWDS}:certify_aggregative_markov",
        solve="equipoise.aggregative:solve_aggregative",
        prices="equipoise.aggregative:prices",
    ),
    "contextual": Kind(
        game="equipoise.games._contextual:ContextualGame",
        policies=("mixture", "profile"),
        certify=f"{_AGENTS}:certify_contextual",
        solve="equipoise.solvers:solve_interaction",
    ),
    "decoupled-markov": Kind(
        game="equipoise.games._decoupled:DecoupledMarkovGame",
        policies=("mixture", "profile"),
        certify=f"{_AGENTS}:certify_decoupled",
        solve="equipoise.solvers:solve_interaction",
    ),
    "continuous": Kind(
        game="equipoise.games._continuous:ContinuousGame",
        policies=("continuous",),
        certify="equipoise.certificates._continuous:certify_continuous",
        solve="equipoise.solvers:solve_continuous",
    ),
    "network": Kind(
        game="equipoise.games._network:NetworkGame",
        policies=("flows",),
        certify="equipoise.certificates._networks:certify_network",
        solve="equipoise.networks:solve_network",
        prices="equipoise.networks:price_of_anarchy",
        design="equipoise.networks:best_tolls",
    ),
    "oracle": Kind(
        game="equipoise.games._oracle:OracleGame",
        policies=("flows",),
        certify="equipoise.certificates._oracles:certify_oracle",
        solve="equipoise.networks:solve_oracle",
    ),
}


@cache
def part_of(kind: str, part: str) -> Any:
    """Return a part of a row of `KINDS`, imported on first use; None if the kind has none.

    **Example**

    >>> import equipoise as eq
    >>> eq.games.kinds.part_of("network", "solve") is eq.networks.solve_network
    True
    """
    if kind not in KINDS:
        raise InputError("kind", f"one of {', '.join(KINDS)}", repr(kind))
    where = getattr(KINDS[kind], part)
    if where is None:
        return None
    module, _, name = where.partition(":")
    return getattr(import_module(module), name)


@cache
def options_of(kind: str, part: str) -> tuple[str, ...]:
    """Return the names of the options of a function of a row, such as those of the solver.

    **Example**

    >>> import equipoise as eq
    >>> eq.games.kinds.options_of("matrix", "solve")
    ('tolerance', 'concept', 'objective', 'time_limit')
    """
    return tuple(inspect.signature(part_of(kind, part)).parameters)[1:]


def check_options(kind: str, part: str, options: Iterable[str]) -> None:
    """Refuse an option that a function of a row does not have, with the nearest name."""
    known = options_of(kind, part)
    for name in options:
        if name not in known:
            place = getattr(KINDS[kind], part).replace(":", ".")
            meant = nearest(name, known)
            among = "" if meant and len(known) > _FEW else f" among {', '.join(known)}"
            what = f"an option of {place}{among}" if known else f"no option, as {place} has none"
            call = f"{part}({class_of(kind).__name__})"
            raise InputError(call, what, repr(name), f"did you mean {meant}?" if meant else "")


def class_of(kind: str) -> "type[Game]":
    """Return the class of a kind of game, imported on first use.

    **Example**

    >>> import equipoise as eq
    >>> eq.games.kinds.class_of("matrix") is eq.MatrixGame
    True
    """
    return part_of(kind, "game")


#: Classes that were recognised before.
_KINDS_OF: dict[type, str] = {}


def kind_of(game: Any) -> str:
    """Return the kind of a game, as named in `KINDS`. Refuse objects that are not games.

    **Example**

    >>> import equipoise as eq
    >>> eq.games.kinds.kind_of(eq.MatrixGame([[1, -1], [-1, 1]]))
    'matrix'
    """
    known = _KINDS_OF.get(type(game))
    if known is not None:
        return known
    kind = getattr(type(game), "kind", None)
    if (
        not isinstance(kind, str)
        or kind not in KINDS
        or not isinstance(game, part_of(kind, "game"))
    ):
        classes = ", ".join(row.game.partition(":")[2] for row in KINDS.values())
        raise InputError("game", f"one of {classes}", type(game).__name__)
    _KINDS_OF[type(game)] = kind
    return kind
