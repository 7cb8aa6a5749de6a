"""Contextual games: many agents see a public context and choose once."""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from equipoise.core import InputError, checks
from equipoise.core.values import frozen, read_only, static
from equipoise.games._game import Labels, SingleGame
from equipoise.games._interactions import Interactions
from equipoise.games._normal import NormalFormGame
from equipoise.games._policies import Mixture, mixture_of
from equipoise.games._policy import chances_of, level

#: Largest number of strategy profiles in a payoff table.
PROFILES_LIMIT = 1_000_000


class InteractionGame(SingleGame[Mixture]):
    """Base of the games whose rewards are sums of interaction terms."""

    if TYPE_CHECKING:  # fields of the kinds
        interactions: Interactions
        context_probabilities: np.ndarray
        noise: float

    @property
    def agents(self) -> int:
        """Number of agents."""
        return self.interactions.agents

    @property
    def players(self) -> int:
        """Number of agents."""
        return self.agents

    @property
    def contexts(self) -> int:
        """Number of contexts."""
        return len(self.context_probabilities)

    @property
    def action_mask(self) -> np.ndarray:
        """(agents, actions): True for the actions that each agent has."""
        return counted(self.actions)

    if TYPE_CHECKING:

        @property
        def policy_shape(self) -> tuple[int, ...]: ...

    def _by_names(self, policy: Mapping[str, Any]) -> np.ndarray:
        """Return a product policy from what the agents play, by context and state or not."""
        entries, shape = super()._by_names(policy), self.policy_shape
        names, stateful, product = self.labels, len(shape) > 3, np.zeros(shape)
        places = [level("context", names.contexts, shape[0])] if shape[0] > 1 else []
        places += [level("state", names.states, shape[-2])] if stateful else []
        for i, own in enumerate(entries):
            where, count = f"policy[{self.about.player(i)!r}]", self.actions[i]
            chances = chances_of(where, own, places, self._action_level(i))
            if stateful:
                product[:, :, i, :, :count] = chances.reshape(-1, 1, shape[-2], count)
            else:
                product[:, i, :count] = chances
        return product

    def _checked(self, policy: Any) -> Mixture:
        """Return a product policy as a mixture of one component, or a mixture; check its shape."""
        return mixture_of(policy, self.policy_shape, self.action_mask)

    def _describe(self, more: str = "") -> str:
        text = f"game of {self.agents:,} agents with {max(self.actions)} actions"
        if self.contexts > 1:
            text += f", with {self.contexts} contexts"
        return f"{text}{more}; its interaction rank is {self.interactions.rank}"


class ContextualGame(InteractionGame):
    """A general-sum game of N agents who all see a context before they choose.

    A context is drawn from `context_probabilities` (default: uniform) and every agent chooses an
    action. Agent i receives the sum of its terms in `interactions`, whose situations are the
    contexts and whose moves are the actions. Logged rewards have Gaussian noise with standard
    deviation `noise` added. `actions` is the number of actions of each agent; by default, all
    agents have as many actions as the tables.

    A product policy is an array (contexts, agents, actions), or (agents, actions) if there is one
    context. Agents with fewer actions are padded with zeros. `labels` names agents and actions.

    **Example**

    >>> import numpy as np, equipoise as eq
    >>> match = np.eye(2)[None, None]            # one context, one term: 1 for the same action
    >>> game = eq.ContextualGame(
    ...     eq.games.Interactions({2: [[0, 1], [1, 0]]}, {2: np.concatenate([match, -match], 1)}, 2)
    ... )
    >>> game.agents, game.actions, game.contexts
    (2, (2, 2), 1)
    >>> eq.certify(game, [[1.0, 0.0], [0.5, 0.5]]).gains.tolist()
    [0.0, 0.5]
    """

    kind: ClassVar[str] = "contextual"
    _who: ClassVar[str] = "agent"
    interactions: Interactions
    context_probabilities: np.ndarray
    #: Number of actions of each agent.
    actions: tuple[int, ...] = static()  # pyright: ignore[reportIncompatibleMethodOverride]
    noise: float = static()
    labels: Labels = static()

    def __init__(
        self,
        interactions: Any,
        context_probabilities: Any = None,
        actions: Any = None,
        noise: float = 0.0,
        *,
        labels: Any = None,
    ):
        terms = as_interactions(interactions)
        chances = as_context_probabilities(context_probabilities, terms.situations)
        actions = as_agent_counts("actions", actions, terms.agents, terms.moves)
        counts = {"players": terms.agents, "actions": actions, "contexts": len(chances)}
        self._set(
            interactions=terms,
            context_probabilities=chances,
            actions=actions,
            noise=as_noise(noise),
            labels=Labels.of(labels, **counts),
        )

    def describe(self) -> str:
        """Return a one-line description of the game."""
        return self._describe()

    @property
    def policy_shape(self) -> tuple[int, int, int]:
        """Shape of a product policy: (contexts, agents, actions)."""
        return self.contexts, self.agents, max(self.actions)

    def uniform_policy(self) -> np.ndarray:
        """(contexts, agents, actions): every agent plays all its actions with equal probability."""
        chances = self.action_mask / np.array(self.actions)[:, None]
        return np.broadcast_to(chances, self.policy_shape).copy()

    def to_normal_form(self) -> NormalFormGame:
        """Return the same game as one payoff table; feasible for few agents, actions and contexts.

        A strategy assigns an action to every context: number `a_0 + A * a_1 + ...` plays `a_c` in
        context c, and the payoff is the mean over contexts.

        **Example**

        >>> import equipoise as eq
        >>> game = eq.games.families.polymatrix(agents=3, actions=2, contexts=2).sample(key=0)
        >>> game.to_normal_form().actions
        (4, 4, 4)
        """
        checks.check_known("game", self)
        pure = [
            pure_occupancies(np.ones((self.contexts, 1)), None, count, max(self.actions))
            for count in self.actions
        ]
        labels = self.labels if self.contexts == 1 else Labels(self.labels.players)
        return normal_form(self.interactions, self.context_probabilities, pure, labels)


def as_interactions(value: Any) -> Interactions:
    """Refuse anything but `Interactions`, or their plain form."""
    if isinstance(value, Mapping):
        return Interactions.from_plain(value)
    if not isinstance(value, Interactions):
        raise InputError("interactions", "Interactions", type(value).__name__)
    return value


def as_context_probabilities(value: Any, contexts: int) -> np.ndarray:
    """(contexts,): the given probabilities, or the uniform distribution."""
    if value is None:
        return frozen(np.full(contexts, 1.0 / contexts))
    array = read_only("context_probabilities", value)
    checks.check_shape("context_probabilities", array, (contexts,), "one for each context")
    return frozen(checks.check_probabilities("context_probabilities", array))


def as_agent_counts(name: str, value: Any, agents: int, largest: int) -> tuple[int, ...]:
    """Return one count per agent: as given, one number for all, or the maximum."""
    checks.check_known(name, value, "a count for each agent")
    counts = np.asarray(largest if value is None else value)
    counts = np.full(agents, counts) if counts.ndim == 0 else counts
    if counts.dtype.kind not in "iu" or counts.shape != (agents,) or counts.min() < 1:
        raise InputError(name, f"a count >= 1 for each of {agents} agents", repr(str(value)[:40]))
    if counts.max() != largest:
        raise InputError(name, f"counts of at most {largest}", counts.max())
    return tuple(counts.tolist())


def counted(counts: tuple[int, ...]) -> np.ndarray:
    """(agents, largest count): True for the states or actions that each agent has."""
    return np.arange(max(counts)) < np.array(counts)[:, None]


def as_noise(value: Any) -> float:
    """Check the standard deviation of the noise on rewards."""
    checks.check_range("noise", value, 0.0, np.inf, high_open=True)
    return float(value)


def pure_occupancies(
    initial: np.ndarray, transitions: np.ndarray | None, actions: int, width: int
) -> np.ndarray:
    """(strategies, situations, moves): probability of each move under every pure strategy.

    `initial` is (contexts, states). `transitions` is (contexts, horizon, states, actions, states)
    for one agent, or None if there is one step. A strategy assigns an action to every context,
    step and state.
    """
    contexts, states = initial.shape
    horizon = 1 if transitions is None else transitions.shape[1]
    places = contexts * horizon * states
    if actions**places > PROFILES_LIMIT:
        raise InputError(
            "game", f"at most {PROFILES_LIMIT} strategies of an agent", f"{actions}^{places}"
        )
    number = np.arange(actions**places)
    chosen = (number[:, None] // actions ** np.arange(places)) % actions
    policy = np.eye(width)[chosen].reshape(len(number), contexts, horizon, states, width)
    here = np.broadcast_to(initial, (len(number), contexts, states))
    moves = []
    for h in range(horizon):
        joint = here[..., None] * policy[:, :, h]
        moves.append(joint.reshape(len(number), contexts, states * width))
        if transitions is not None:
            here = np.einsum("pcsa,csat->pct", joint, transitions[:, h])
    return np.stack(moves, 2).reshape(len(number), contexts * horizon, states * width)


def normal_form(
    terms: Interactions, weights: np.ndarray, pure: list[np.ndarray], labels: Labels
) -> NormalFormGame:
    """Return the payoffs of all pure strategy profiles; `weights` belong to the situations."""
    shape = [len(strategies) for strategies in pure]
    if math.prod(shape) * terms.agents > PROFILES_LIMIT:
        raise InputError(
            "game",
            f"at most {PROFILES_LIMIT} payoffs",
            f"{terms.agents} for each of {' x '.join(map(str, shape[:4]))}"
            f"{' x ...' if len(shape) > 4 else ''} profiles",
        )
    payoffs = np.zeros((terms.agents, *shape))
    for order, scopes in terms.scopes.items():
        for m, scope in enumerate(scopes):
            payoff = weights.reshape(-1, *[1] * order) * np.asarray(terms.tables[order])[:, m]
            # Move axes become strategy axes one by one from the first; contexts stay in front.
            for j in scope:
                payoff = np.einsum("cu...,pcu->c...p", payoff, pure[j])
            payoff = payoff.sum(0).transpose(np.argsort(scope))
            view = [shape[j] if j in scope else 1 for j in range(terms.agents)]
            payoffs[scope[0]] += payoff.reshape(view)
    return NormalFormGame(frozen(payoffs), players=terms.agents, labels=labels)
