"""A small game and a policy of every kind."""

from functools import cache
from typing import Any

import numpy as np

import equipoise as eq


@cache
def games() -> dict[str, Any]:
    """A small game of every kind, with labels, by kind."""
    family = eq.games.families.polymatrix
    agents = ["a", "b", "c"]
    return {
        "matrix": eq.games.load("rock-paper-scissors"),
        "normal-form": eq.games.load("battle-of-the-sexes"),
        "markov": eq.games.load("hide-or-run"),
        "aggregative": eq.games.load("two-roads", agents=100),
        "aggregative-markov": eq.games.load("bus-or-car", agents=100, horizon=2),
        "contextual": family(agents=3, actions=2, contexts=2)
        .sample(key=0)
        .replace(labels={"players": agents, "actions": [["left", "right"]]}),
        "decoupled-markov": family(agents=3, actions=2, states=2, horizon=2)
        .sample(key=0)
        .replace(labels={"players": agents, "states": ["rested", "tired"]}),
        "continuous": eq.games.load("stamina-continuous", agents=3).replace(
            labels={"players": agents}
        ),
        "network": eq.games.load("grid-city", rows=3, columns=3, zones=4),
        "oracle": eq.games.load("charging-schedules"),
    }


@cache
def policies() -> dict[str, Any]:
    """A policy of every kind, by kind."""
    return {
        "profile": eq.Profile([[0.1, 0.9], np.full((2, 3), 1 / 3)]),
        "joint": eq.JointPolicy(np.full((3, 2, 2), 0.25), 2),
        "mixture": eq.Mixture(np.full((2, 1, 3, 2), 0.5), [0.1, 0.9]),
        "continuous": eq.ContinuousPolicy([[[1.0, -1 / 3]]], [[[0.3, 0.7]]]),
        "aggregative": eq.AggregativePolicy([0, 0, 1], [2, 1, 3], [0, 1, 1]),
        "flows": eq.FlowPolicy([1.5, 1.5, 2.0], [1.5, 2.0], [0, 1], [0, 1, 2], [0, 2, 3]),
    }


@cache
def plans() -> dict[str, Any]:
    """A policy of each of the games, by kind of game."""
    half = 1 / 2
    return {
        "matrix": eq.Profile([[1.0, 0.0, 0.0], np.full(3, 1 / 3)]),
        "normal-form": eq.Profile([[half, half], [half, half]]),
        "markov": eq.Profile(
            [np.full((games()["markov"].states, n), 1 / n) for n in games()["markov"].actions]
        ),
        "aggregative": eq.AggregativePolicy([0], [100], [0]),
        "aggregative-markov": all_alike(games()["aggregative-markov"]),
        "contextual": eq.Mixture(np.full((1, 2, 3, 2), half)),
        "decoupled-markov": eq.Mixture(np.full((1, 1, 2, 3, 2, 2), half)),
        "continuous": still(games()["continuous"]),
        "network": cheapest(games()["network"]),
        "oracle": eq.FlowPolicy(games()["oracle"].replies(np.ones(24))),
    }


def cheapest(game: Any) -> eq.FlowPolicy:
    """Everybody takes a path that is cheapest on empty roads."""
    return eq.FlowPolicy(game.best(game.costs(np.zeros(game.links)))[0])


def all_alike(game: Any) -> eq.AggregativePolicy:
    """All agents play the first action."""
    actions = np.zeros((game.types, game.horizon, game.states), int)
    return eq.AggregativePolicy(np.arange(game.types), game.counts, actions)


def still(game: Any) -> eq.ContinuousPolicy:
    """All agents play zero in every state."""
    dynamics = game.horizon, game.players, game.states
    return eq.ContinuousPolicy(np.zeros((1, *dynamics)))
