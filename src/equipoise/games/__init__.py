"""Kinds of games, families that generate them, named games, and game files.

All names load on first use, so that listing the catalogue does not import JAX.
"""

from typing import TYPE_CHECKING

from equipoise._lazy import load_on_first_use

if TYPE_CHECKING:
    from equipoise.games import adapters as adapters
    from equipoise.games import catalogue as catalogue
    from equipoise.games import families as families
    from equipoise.games import kinds as kinds
    from equipoise.games._aggregative import AggregativeGame as AggregativeGame
    from equipoise.games._aggregative import AggregativeMarkovGame as AggregativeMarkovGame
    from equipoise.games._contextual import ContextualGame as ContextualGame
    from equipoise.games._continuous import ContinuousGame as ContinuousGame
    from equipoise.games._continuous import RewardFunction as RewardFunction
    from equipoise.games._continuous_terms import PolynomialTerms as PolynomialTerms
    from equipoise.games._decoupled import DecoupledMarkovGame as DecoupledMarkovGame
    from equipoise.games._flow_policy import FlowPolicy as FlowPolicy
    from equipoise.games._game import Game as Game
    from equipoise.games._game import Labels as Labels
    from equipoise.games._interactions import Interactions as Interactions
    from equipoise.games._markov import MarkovGame as MarkovGame
    from equipoise.games._matrix import MatrixGame as MatrixGame
    from equipoise.games._network import NetworkGame as NetworkGame
    from equipoise.games._normal import NormalFormGame as NormalFormGame
    from equipoise.games._oracle import OracleGame as OracleGame
    from equipoise.games._policies import AggregativePolicy as AggregativePolicy
    from equipoise.games._policies import ContinuousPolicy as ContinuousPolicy
    from equipoise.games._policies import JointPolicy as JointPolicy
    from equipoise.games._policies import Mixture as Mixture
    from equipoise.games._policies import Profile as Profile
    from equipoise.games._policies import policy_from_plain as policy_from_plain
    from equipoise.games._policy import Policy as Policy
    from equipoise.games.catalogue import describe as describe
    from equipoise.games.catalogue import load as load
    from equipoise.games.catalogue import names as names
    from equipoise.games.files import flows_of_table as flows_of_table
    from equipoise.games.files import read as read
    from equipoise.games.files import read_flows as read_flows
    from equipoise.games.files import read_links as read_links
    from equipoise.games.files import read_policy as read_policy
    from equipoise.games.files import read_tntp as read_tntp
    from equipoise.games.files import read_tolls as read_tolls
    from equipoise.games.files import write as write
    from equipoise.games.files import write_flows as write_flows
    from equipoise.games.files import write_policy as write_policy

#: Public name -> module that defines it; None for a module of this package.
_PUBLIC: dict[str, str | None] = {
    # kinds of games
    "Game": "equipoise.games._game",
    "Labels": "equipoise.games._game",
    "kinds": None,
    "MatrixGame": "equipoise.games._matrix",
    "MarkovGame": "equipoise.games._markov",
    "NormalFormGame": "equipoise.games._normal",
    "AggregativeGame": "equipoise.games._aggregative",
    "AggregativeMarkovGame": "equipoise.games._aggregative",
    "ContextualGame": "equipoise.games._contextual",
    "DecoupledMarkovGame": "equipoise.games._decoupled",
    # rewards as sums of terms
    "Interactions": "equipoise.games._interactions",
    # continuous actions
    "ContinuousGame": "equipoise.games._continuous",
    "PolynomialTerms": "equipoise.games._continuous_terms",
    "RewardFunction": "equipoise.games._continuous",
    # road networks
    "NetworkGame": "equipoise.games._network",
    "OracleGame": "equipoise.games._oracle",
    "read_tntp": "equipoise.games.files",
    "read_flows": "equipoise.games.files",
    "read_links": "equipoise.games.files",
    "read_tolls": "equipoise.games.files",
    "write_flows": "equipoise.games.files",
    "flows_of_table": "equipoise.games.files",
    # policies
    "Policy": "equipoise.games._policy",
    "Profile": "equipoise.games._policies",
    "JointPolicy": "equipoise.games._policies",
    "Mixture": "equipoise.games._policies",
    "ContinuousPolicy": "equipoise.games._policies",
    "AggregativePolicy": "equipoise.games._policies",
    "FlowPolicy": "equipoise.games._flow_policy",
    "policy_from_plain": "equipoise.games._policies",
    "read_policy": "equipoise.games.files",
    "write_policy": "equipoise.games.files",
    # games drawn at random
    "families": None,
    # games by name
    "names": "equipoise.games.catalogue",
    "describe": "equipoise.games.catalogue",
    "load": "equipoise.games.catalogue",
    "catalogue": None,
    # files and other libraries
    "read": "equipoise.games.files",
    "write": "equipoise.games.files",
    "adapters": None,
}

__all__ = sorted(_PUBLIC)  # pyright: ignore[reportUnsupportedDunderAll]

__getattr__, __dir__ = load_on_first_use(__name__, _PUBLIC)
