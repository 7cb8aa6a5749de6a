"""equipoise computes, learns and certifies equilibria of games that have structure.

>>> import equipoise as eq
>>> solution = eq.solve(eq.MatrixGame([[3, -1], [-2, 1]]))
>>> round(float(solution.value), 6), bool(solution.certificate.nash_conv < 1e-9)
(0.142857, True)

All names load on first use: `import equipoise` alone does not import JAX.
"""

from typing import TYPE_CHECKING

from equipoise._lazy import load_on_first_use

if TYPE_CHECKING:
    from equipoise import aggregative as aggregative
    from equipoise import certificates as certificates
    from equipoise import dynamics as dynamics
    from equipoise import games as games
    from equipoise import incontext as incontext
    from equipoise import networks as networks
    from equipoise import offline as offline
    from equipoise import pure as pure
    from equipoise import report as report
    from equipoise import runs as runs
    from equipoise import testing as testing
    from equipoise._files import read as read
    from equipoise._files import save as save
    from equipoise.aggregative import learn as learn
    from equipoise.certificates import certify as certify
    from equipoise.core import Certificate as Certificate
    from equipoise.core import Interval as Interval
    from equipoise.core import Solution as Solution
    from equipoise.core import Status as Status
    from equipoise.core import Verdict as Verdict
    from equipoise.dynamics import Online as Online
    from equipoise.games import AggregativeGame as AggregativeGame
    from equipoise.games import AggregativeMarkovGame as AggregativeMarkovGame
    from equipoise.games import AggregativePolicy as AggregativePolicy
    from equipoise.games import ContextualGame as ContextualGame
    from equipoise.games import ContinuousGame as ContinuousGame
    from equipoise.games import ContinuousPolicy as ContinuousPolicy
    from equipoise.games import DecoupledMarkovGame as DecoupledMarkovGame
    from equipoise.games import FlowPolicy as FlowPolicy
    from equipoise.games import JointPolicy as JointPolicy
    from equipoise.games import MarkovGame as MarkovGame
    from equipoise.games import MatrixGame as MatrixGame
    from equipoise.games import Mixture as Mixture
    from equipoise.games import NetworkGame as NetworkGame
    from equipoise.games import NormalFormGame as NormalFormGame
    from equipoise.games import Profile as Profile
    from equipoise.games import read_policy as read_policy
    from equipoise.games import write_policy as write_policy
    from equipoise.incontext import play as play
    from equipoise.offline import Advice as Advice
    from equipoise.offline import Log as Log
    from equipoise.offline import advise as advise
    from equipoise.solvers import equilibria as equilibria
    from equipoise.solvers import prices as prices
    from equipoise.solvers import solve as solve

__version__ = "0.2.0"

#: Public name -> module that defines it; None for a sub-package.
_PUBLIC: dict[str, str | None] = {
    # games
    "games": None,
    "MatrixGame": "equipoise.games",
    "MarkovGame": "equipoise.games",
    "NormalFormGame": "equipoise.games",
    "AggregativeGame": "equipoise.games",
    "AggregativeMarkovGame": "equipoise.games",
    "ContextualGame": "equipoise.games",
    "DecoupledMarkovGame": "equipoise.games",
    "ContinuousGame": "equipoise.games",
    "NetworkGame": "equipoise.games",
    # policies
    "Profile": "equipoise.games",
    "JointPolicy": "equipoise.games",
    "Mixture": "equipoise.games",
    "ContinuousPolicy": "equipoise.games",
    "AggregativePolicy": "equipoise.games",
    "FlowPolicy": "equipoise.games",
    "read_policy": "equipoise.games",
    "write_policy": "equipoise.games",
    # files
    "read": "equipoise._files",
    "save": "equipoise._files",
    # solutions and certificates
    "solve": "equipoise.solvers",
    "equilibria": "equipoise.solvers",
    "prices": "equipoise.solvers",
    "certify": "equipoise.certificates",
    "certificates": None,
    "Solution": "equipoise.core",
    "Certificate": "equipoise.core",
    "Status": "equipoise.core",
    "Interval": "equipoise.core",
    "Verdict": "equipoise.core",
    # games of very many agents
    "aggregative": None,
    "networks": None,
    # from a log, and from a simulator
    "advise": "equipoise.offline",
    "Advice": "equipoise.offline",
    "Log": "equipoise.offline",
    "offline": None,
    "learn": "equipoise.aggregative",
    # learning
    "dynamics": None,
    "incontext": None,
    "play": "equipoise.incontext",
    "Online": "equipoise.dynamics",
    # records and pages
    "runs": None,
    "report": None,
    # inside jit, vmap and grad
    "pure": None,
    # for your own games, policies, solvers and learners
    "testing": None,
}

__all__ = sorted(_PUBLIC)  # pyright: ignore[reportUnsupportedDunderAll]

__getattr__, __dir__ = load_on_first_use(__name__, _PUBLIC)
