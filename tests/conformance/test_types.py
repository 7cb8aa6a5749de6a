"""What type checkers know of games and solutions; Pyright checks this file."""

from typing import assert_type

from kind_samples import games

import equipoise as eq


def test_types_of_policies_survive():
    network: eq.NetworkGame = games()["network"]
    roads = assert_type(eq.solve(network, concept="optimum"), eq.Solution[eq.FlowPolicy])
    assert roads.policy.flows.shape[-1] == network.links
    table: eq.NormalFormGame = games()["normal-form"]
    assert_type(eq.solve(table), eq.Solution[eq.Profile])
    best = assert_type(eq.solve(table, concept="ce"), eq.Solution[eq.JointPolicy])
    assert best.policy.joint.shape == table.actions
    agents: eq.ContextualGame = games()["contextual"]
    assert_type(eq.solve(agents, concept="cce"), eq.Solution[eq.Mixture])
