"""Markov games with decoupled transitions: each agent moves its own state; rewards are joint."""

from typing import Any, ClassVar

import numpy as np

from equipoise.core import InputError, checks
from equipoise.core.values import frozen, read_only, static
from equipoise.games._contextual import (
    InteractionGame,
    as_agent_counts,
    as_context_probabilities,
    as_interactions,
    as_noise,
    counted,
    normal_form,
    pure_occupancies,
)
from equipoise.games._game import Labels
from equipoise.games._interactions import Interactions
from equipoise.games._normal import NormalFormGame


class DecoupledMarkovGame(InteractionGame):
    """N agents, each with a local state that only its own actions move; rewards depend on all.

    A public context is drawn once for an episode of `horizon` steps. In step h, agent i in state s
    plays a and moves on according to `transitions[c, h, i, s, a]`. Its reward is the sum of its
    terms in `interactions`, whose situations are `context * horizon + step` and whose moves are
    `state * actions + action`. There, `actions` is that of the agent with the most actions.

    - `transitions`: (contexts, horizon, agents, states, actions, states); the first axis may be
      left out if all contexts share the same transitions.
    - `initial`: (contexts, agents, states), or without the first axis: distribution of first
      states.
    - `context_probabilities`: default uniform.
    - `states`, `actions`: how many each agent has, if they differ.
    - `noise`: standard deviation of the Gaussian noise on logged rewards.
    - `labels`: names of agents, actions and local states.

    A product policy is an array (contexts, horizon, agents, states, actions); the first axis may be
    left out if there is one context.

    **Example**

    >>> import numpy as np, equipoise as eq
    >>> family = eq.games.families.polymatrix(agents=3, actions=2, states=2, horizon=4)
    >>> game = family.sample(key=0)
    >>> game.transitions.shape, game.policy_shape
    ((1, 4, 3, 2, 2, 2), (1, 4, 3, 2, 2))
    >>> bool(eq.certify(game, game.uniform_policy()).max_gain > 0)
    True
    """

    kind: ClassVar[str] = "decoupled-markov"
    _who: ClassVar[str] = "agent"
    interactions: Interactions
    transitions: np.ndarray
    initial: np.ndarray
    context_probabilities: np.ndarray
    states: tuple[int, ...] = static()
    #: Number of actions of each agent.
    actions: tuple[int, ...] = static()  # pyright: ignore[reportIncompatibleMethodOverride]
    noise: float = static()
    labels: Labels = static()

    def __init__(
        self,
        interactions: Any,
        transitions: Any,
        initial: Any,
        context_probabilities: Any = None,
        states: Any = None,
        actions: Any = None,
        noise: float = 0.0,
        *,
        labels: Any = None,
    ):
        terms = as_interactions(interactions)
        self._set(interactions=terms)
        transitions = read_only("transitions", transitions)
        horizon, contexts = self._check_sizes(transitions)
        largest_states, most_actions = transitions.shape[-3:-1]
        agents = terms.agents
        states = as_agent_counts("states", states, agents, largest_states)
        actions = as_agent_counts("actions", actions, agents, most_actions)
        self._set(states=states, actions=actions)
        full = (contexts, horizon, agents, largest_states, most_actions, largest_states)
        begun = self._as_initial(initial, contexts)
        counts = {"players": agents, "actions": actions, "states": largest_states}
        self._set(
            transitions=np.broadcast_to(self._as_transitions(transitions), full),
            initial=np.broadcast_to(begun, (contexts, *full[2:4])),
            context_probabilities=as_context_probabilities(context_probabilities, contexts),
            noise=as_noise(noise),
            labels=Labels.of(labels, **counts, contexts=contexts),
        )

    def _check_sizes(self, transitions: np.ndarray) -> tuple[int, int]:
        """Derive the horizon and the number of contexts from transitions and terms."""
        meaning = "(contexts, horizon, agents, states, actions, states), contexts optional"
        terms = self.interactions
        if transitions.ndim not in (5, 6) or 0 in transitions.shape:
            raise InputError("transitions", f"shape {meaning}", tuple(transitions.shape))
        *_, horizon, agents, states, actions, following = transitions.shape
        if agents != terms.agents or following != states or states * actions != terms.moves:
            raise InputError(
                "transitions",
                f"shape {meaning} with {terms.agents} agents and states * actions = "
                f"{terms.moves}, like the interactions",
                tuple(transitions.shape),
            )
        contexts = terms.situations // horizon
        given = transitions.shape[0] if transitions.ndim == 6 else contexts
        if contexts * horizon != terms.situations or given != contexts:
            raise ValueError(
                f"interactions: expected a situation for each context and step, with horizon "
                f"{horizon}"
                + (f" and {given} contexts" if transitions.ndim == 6 else "")
                + f"; found {terms.situations}"
            )
        return horizon, contexts

    def _as_transitions(self, transitions: np.ndarray) -> np.ndarray:
        real = counted(self.states)[:, :, None] & self.action_mask[:, None]
        if not real.all():
            # Unused entries lead to the agent's first state, so that every row is a distribution.
            first = np.eye(max(self.states))[0]
            transitions = np.where(real[..., None], transitions, first)
        chances = frozen(checks.check_probabilities("transitions", transitions))
        self._check_reached("transitions", chances.reshape(-1, *chances.shape[-4:]).sum((0, 2, 3)))
        return chances

    def _as_initial(self, initial: Any, contexts: int) -> np.ndarray:
        array = read_only("initial", initial)
        shape = (self.interactions.agents, max(self.states))
        if array.shape not in (shape, (contexts, *shape)):
            raise ValueError(
                f"initial: expected shape {shape}, (agents, states), or {(contexts, *shape)}, "
                f"found {tuple(array.shape)}"
            )
        chances = frozen(checks.check_probabilities("initial", array))
        self._check_reached("initial", chances.reshape(-1, *shape).sum(0))
        return chances

    def _check_reached(self, name: str, weight: np.ndarray) -> None:
        """Refuse transitions into a state an agent lacks; `weight` is (agents, states)."""
        wrong = (weight > 0) & ~counted(self.states)
        if wrong.any():
            agent, state = checks.first_index(wrong)
            raise ValueError(
                f"{name}: expected probability 0 of state {state} for agent {agent}, "
                f"which has {self.states[agent]} states"
            )

    @property
    def horizon(self) -> int:
        """Number of steps of an episode."""
        return self.transitions.shape[1]

    def describe(self) -> str:
        """Return a one-line description of the game."""
        return self._describe(f", with {max(self.states)} states and {self.horizon} steps")

    @property
    def policy_shape(self) -> tuple[int, int, int, int, int]:
        """Shape of a product policy: (contexts, horizon, agents, states, actions)."""
        return self.contexts, self.horizon, self.agents, max(self.states), max(self.actions)

    def uniform_policy(self) -> np.ndarray:
        """(contexts, horizon, agents, states, actions): all actions equally likely."""
        chances = self.action_mask / np.array(self.actions)[:, None]
        return np.broadcast_to(chances[:, None], self.policy_shape).copy()

    def occupancies(self, policy: Any) -> np.ndarray:
        """(..., contexts, horizon, agents, states, actions): state-action probabilities per agent.

        `policy` is a product policy of that shape; leading axes are batch axes.
        """
        policy = np.asarray(policy, np.float64)
        shape = self.policy_shape
        if policy.shape[-5:] != shape:
            raise InputError("policy", f"shape (..., {shape})", policy.shape)
        result = np.empty_like(policy)
        here = np.broadcast_to(self.initial, (*policy.shape[:-5], *self.initial.shape))
        for h in range(self.horizon):
            joint = here[..., None] * policy[..., h, :, :, :]
            result[..., h, :, :, :] = joint
            # (c, n, 1, s*a) @ (c, n, s*a, s'): one small product per context and agent.
            flat = joint.reshape(*joint.shape[:-2], 1, -1)
            kernel = self.transitions[:, h].reshape(
                *self.transitions.shape[:1], *shape[2:3], -1, shape[3]
            )
            here = np.matmul(flat, kernel)[..., 0, :]
        return result

    def to_normal_form(self) -> NormalFormGame:
        """Return the same game as one payoff table; feasible only for very small games.

        A strategy assigns an action to every context, step and state. The payoff is the expected
        sum of rewards of an episode.

        **Example**

        >>> import equipoise as eq
        >>> family = eq.games.families.polymatrix(agents=2, actions=2, states=2, horizon=2)
        >>> family.sample(key=0).to_normal_form().actions
        (16, 16)
        """
        checks.check_known("game", self)
        pure = [
            pure_occupancies(
                self.initial[:, i], self.transitions[:, :, i], self.actions[i], max(self.actions)
            )
            for i in range(self.agents)
        ]
        weights = np.repeat(self.context_probabilities, self.horizon)
        return normal_form(self.interactions, weights, pure, Labels(self.labels.players))
