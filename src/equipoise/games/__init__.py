"""Kinds of games, families that generate them, named games, files in and out.

Everything here loads on first use, so that listing the catalogue does not import JAX.
"""

from typing import TYPE_CHECKING

from equipoise._lazy import load_on_first_use

if TYPE_CHECKING:
    from equipoise.games import adapters as adapters
    from equipoise.games import catalogue as catalogue
    from equipoise.games import families as families
    from equipoise.games._aggregative import AggregativeGame as AggregativeGame
    from equipoise.games._aggregative_markov import AggregativeMarkovGame as AggregativeMarkovGame
    from equipoise.games._aggregative_policy import AggregativePolicy as AggregativePolicy
    from equipoise.games._contextual import ContextualGame as ContextualGame
    from equipoise.games._continuous import ContinuousGame as ContinuousGame
    from equipoise.games._continuous_function import RewardFunction as RewardFunction
    from equipoise.games._continuous_policy import ContinuousPolicy as ContinuousPolicy
    from equipoise.games._continuous_terms import PolynomialTerms as PolynomialTerms
    from equipoise.games._decoupled import DecoupledMarkovGame as DecoupledMarkovGame
    from equipoise.games._interactions import Interactions as Interactions
    from equipoise.games._markov import MarkovGame as MarkovGame
    from equipoise.games._matrix import MatrixGame as MatrixGame
    from equipoise.games._mixture import Mixture as Mixture
    from equipoise.games._normal import NormalFormGame as NormalFormGame
    from equipoise.games.catalogue import describe as describe
    from equipoise.games.catalogue import load as load
    from equipoise.games.catalogue import names as names
    from equipoise.games.files import read as read
    from equipoise.games.files import write as write

#: Public name -> the module it is defined in; None for a module of this package.
_PUBLIC: dict[str, str | None] = {
    # kinds of games
    "MatrixGame": "equipoise.games._matrix",
    "MarkovGame": "equipoise.games._markov",
    "NormalFormGame": "equipoise.games._normal",
    "AggregativeGame": "equipoise.games._aggregative",
    "AggregativeMarkovGame": "equipoise.games._aggregative_markov",
    "ContextualGame": "equipoise.games._contextual",
    "DecoupledMarkovGame": "equipoise.games._decoupled",
    # rewards as sums of terms, and what many agents play in them
    "Interactions": "equipoise.games._interactions",
    "Mixture": "equipoise.games._mixture",
    # actions that are numbers
    "ContinuousGame": "equipoise.games._continuous",
    "PolynomialTerms": "equipoise.games._continuous_terms",
    "RewardFunction": "equipoise.games._continuous_function",
    "ContinuousPolicy": "equipoise.games._continuous_policy",
    # what very many agents play
    "AggregativePolicy": "equipoise.games._aggregative_policy",
    # games drawn at random
    "families": None,
    # games by name
    "names": "equipoise.games.catalogue",
    "describe": "equipoise.games.catalogue",
    "load": "equipoise.games.catalogue",
    "catalogue": None,
    # games from and to elsewhere
    "read": "equipoise.games.files",
    "write": "equipoise.games.files",
    "adapters": None,
}

__all__ = sorted(_PUBLIC)  # pyright: ignore[reportUnsupportedDunderAll]

__getattr__, __dir__ = load_on_first_use(__name__, _PUBLIC)
