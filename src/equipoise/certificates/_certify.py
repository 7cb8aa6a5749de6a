"""`certify`: one function for a policy in any game of the library."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from equipoise.core import checks
from equipoise.core.errors import InputError, named_arguments
from equipoise.core.network_results import certificate_from_plain
from equipoise.core.results import Certificate, Interval, Solution, policy_in, status_from_plain
from equipoise.core.text import named
from equipoise.games import Game, Policy, kinds, policy_from_plain

#: The functions of `equipoise.pure` to use instead of `certify` inside JAX transformations.
_PURE = {"matrix": "gains", "normal-form": "normal_form_gains"}


@named_arguments
def certify(game: Game[Any], policy: Any, *, concept: str | None = None) -> Certificate:
    """Return how much each player could still gain by deviating alone from `policy`.

    The result does not depend on how the policy was found: best responses are computed, not
    learned. Each gain is an interval. `gains` is attained by a deviation that was found; `upper` is
    a proven bound: no deviation gains more, float64 rounding included.

    - `MatrixGame`, `NormalFormGame`, `MarkovGame`: the policy is a `Profile`, or one array of
      probabilities per player, with the game's batch axes (or with batch axes that broadcast
      against them: a thousand policies in one game, or one policy in a thousand games). All three
      also accept a `JointPolicy`, and the first two a `Mixture` of policies (players, actions).
      In Markov games a stationary policy is (states, actions) for each player; with
      (steps, states, actions) the last step is repeated indefinitely, unless the game ends.
    - `AggregativeGame`, `AggregativeMarkovGame`: an `AggregativePolicy`, or an array of the actions
      of every agent, (agents,) or (agents, horizon, states).
    - `ContextualGame`, `DecoupledMarkovGame`: a product policy, which is one array for all agents,
      or a `Mixture` of product policies.
    - `ContinuousGame`: a `ContinuousPolicy`, or an array of the actions of every agent, (agents,)
      or (contexts, agents). If the reward is a user-supplied function, `upper` relies on the
      declared Lipschitz constant or curvature bound, and is infinite without them.
    - `NetworkGame`: a `FlowPolicy`, an array of link flows, (links,) or (classes, links), or a
      table of link flows with columns tail, head and flow. The `NetworkCertificate` contains the
      relative gap. `concept="optimum"` measures the distance from the least total cost, at
      marginal costs. Games of whole drivers need the path flows of a `FlowPolicy`. Values are
      costs.
    - `OracleGame`: the use of resources by populations, (populations, resources).

    `concept` selects the deviations: "nash" (from a product policy) and "cce" (from a mixture)
    consider deviations that ignore recommendations; "ce" considers deviations that depend on the
    recommended action. Default: "cce" for a mixture, "ce" for a joint policy and "nash" otherwise.
    The gain of a fixed deviation from correlated play can be negative and is reported as such.

    Raises `ValueError` for a profile with a missing player, for arrays of the wrong shape, and for
    probabilities that are negative or do not sum to one.

    **Example**

    >>> import equipoise as eq
    >>> rps = eq.MatrixGame([[0, -1, 1], [1, 0, -1], [-1, 1, 0]])
    >>> certificate = eq.certify(rps, ([1, 0, 0], [1/3, 1/3, 1/3]))
    >>> certificate.gains.tolist(), certificate.exact
    ([0.0, 1.0], True)
    """
    kind = kinds.kind_of(game)
    if not isinstance(policy, Policy):
        policy = policy_in(policy)
    checks.check_concrete("certify", _PURE, game, policy)
    policy = game.policy(policy)
    return named(kinds.part_of(kind, "certify")(game, policy, concept or "auto"), game.about)


def solution_from_plain(plain: Mapping[str, Any]) -> Solution:
    """Return the solution that `Solution.to_plain` described.

    The policy is None for records of version 0.1, which did not store it.

    **Example**

    >>> import equipoise as eq
    >>> solution = eq.solve(eq.MatrixGame([[1, -1], [-1, 1]]))
    >>> again = eq.certificates.solution_from_plain(solution.to_plain())
    >>> again.certificate == solution.certificate, again.policy[0].round(6).tolist()
    (True, [0.5, 0.5])
    """
    if plain.get("version") != 1:
        raise InputError("solution", "version 1", repr(plain.get("version")))
    expected = ("policy", "certificate", "status", "value", "tolerance")
    if missing := [name for name in expected if name not in plain]:
        raise InputError("solution", f"the keys {expected}", f"no {missing}")
    if not isinstance(plain["certificate"], Mapping):
        raise InputError("certificate", "a dictionary", type(plain["certificate"]).__name__)
    policy, objective = plain["policy"], plain.get("objective")
    return Solution(
        policy=None if policy is None else policy_from_plain(policy),
        value=np.asarray(plain["value"], np.float64),
        certificate=certificate_from_plain(plain["certificate"]),
        status=status_from_plain(plain["status"]),
        tolerance=np.asarray(plain["tolerance"], np.float64),
        objective=None if objective is None else Interval(**objective),
        assumes=str(plain.get("assumes", "")),
        stats=dict(plain.get("stats", {})),
    )
