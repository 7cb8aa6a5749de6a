"""Continuous games: many agents, each of whom chooses a number from -1 to 1."""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from equipoise.core import InputError, checks, polynomials
from equipoise.core.errors import named_arguments
from equipoise.core.values import Value, frozen, is_jax, read_only, static
from equipoise.games._contextual import as_context_probabilities, as_noise
from equipoise.games._continuous_terms import PolynomialTerms
from equipoise.games._game import Labels, SingleGame
from equipoise.games._policies import ContinuousPolicy
from equipoise.games._policy import by_name, level

#: Largest number of actions passed to a user's function in one call.
_CHUNK = 4_000_000


class RewardFunction(Value):
    """A user-written reward function of all actions (and of the context, if there are several).

    `reward(actions)`, or `reward(actions, context)`, is written for JAX. It takes the actions
    (agents,) of one sample and returns the rewards (agents,). If you know a Lipschitz constant of
    each agent's reward in its own action, give it as `lipschitz`; give a bound on the second
    derivative as `curvature`.

    **Example**

    >>> import numpy as np, equipoise as eq, jax.numpy as jnp
    >>> reward = eq.games.RewardFunction(lambda a: jnp.cos(a * a.sum()), agents=3)
    >>> reward.rewards(np.zeros((5, 3))).shape
    (5, 3)
    """

    #: The function.
    reward: Callable[..., Any] = static()
    #: Number of agents.
    agents: int = static()
    #: Number of contexts.
    contexts: int = static()
    #: Interaction rank; the number of agents if it is unknown.
    rank: int = static()
    lipschitz: float | None = static()
    curvature: float | None = static()

    def __init__(
        self,
        reward: Any,
        agents: int,
        contexts: int = 1,
        rank: int | None = None,
        lipschitz: float | None = None,
        curvature: float | None = None,
    ):
        if not callable(reward):
            raise InputError("reward", "a function", type(reward).__name__)
        agents = checks.check_count("agents", agents)
        contexts = checks.check_count("contexts", contexts)
        rank = agents if rank is None else checks.check_count("rank", rank)
        if rank > agents:
            raise InputError("rank", f"at most {agents}, the number of agents", rank)
        for name, value in (("lipschitz", lipschitz), ("curvature", curvature)):
            if value is not None:
                checks.check_range(name, value, 0.0, np.inf, high_open=True)
        lipschitz = None if lipschitz is None else float(lipschitz)
        curvature = None if curvature is None else float(curvature)
        self._set(reward=reward, agents=agents, contexts=contexts, rank=rank)
        self._set(lipschitz=lipschitz, curvature=curvature)
        self._check_shape()

    def _check_shape(self) -> None:
        import jax.numpy as jnp

        # `jax.eval_shape` is not an option: after it, JAX 0.10 gives constants of the function the
        # wrong precision when it compiles the function in the other one.
        place = () if self.contexts == 1 else (jnp.int32(0),)
        found = jnp.shape(self.reward(jnp.zeros(self.agents), *place))
        if found != (self.agents,):
            raise InputError(
                "reward",
                f"a function that returns shape ({self.agents},), one reward for each agent",
                found,
            )

    @property
    def states(self) -> int:
        """Always 1, because reward functions do not depend on local states."""
        return 1

    def rewards(self, actions: Any, contexts: Any = None, states: Any = None) -> Any:
        """(..., agents): rewards at actions (..., agents), in double precision for NumPy arrays."""
        import jax.numpy as jnp

        from equipoise.core.precision import double_precision

        xp, shape = jnp if is_jax(actions) else np, actions.shape
        flat = actions.reshape(-1, shape[-1])
        where = None
        if self.contexts > 1:
            where = xp.broadcast_to(xp.asarray(contexts), shape[:-1]).ravel()
        if xp is jnp:
            return self._call(flat, where).reshape(shape)
        result = np.empty(flat.shape)
        size = max(1, _CHUNK // shape[-1])
        with double_precision():
            for start in range(0, len(flat), size):
                part = slice(start, min(start + size, len(flat)))
                rows = _padded(part.start, part.stop)
                own = None if where is None else jnp.asarray(where[rows])
                rewards = self._call(jnp.asarray(flat[rows], jnp.float64), own)
                result[part] = np.asarray(rewards)[: part.stop - part.start]
        checks.check_finite("reward", result)
        return result.reshape(shape)

    def _call(self, actions: Any, contexts: Any) -> Any:
        from jax.errors import JAXTypeError

        together = _batched(self.reward)
        try:
            return together(actions) if contexts is None else together(actions, contexts)
        except JAXTypeError as error:
            raise InputError(
                "reward",
                "a function written with jax.numpy, which JAX can compile",
                f"one that needs concrete values ({type(error).__name__})",
            ) from error


class ContinuousGame(SingleGame[ContinuousPolicy]):
    """A game of N agents who each choose a number from -1 to 1.

    A context is drawn from `context_probabilities` (default: uniform). All agents see it, choose,
    and receive the rewards that `terms` define: `PolynomialTerms`, or the `RewardFunction` that
    `ContinuousGame.from_function` makes. Logged rewards have noise added that is uniform on
    [-noise, noise], as in section 6 of the interaction-rank paper.

    With local states, an episode has `horizon` steps. An agent's action moves its own state, with
    transition probabilities that are polynomials of the action. States change the effect of actions
    on rewards (`effects` and `own` of the terms):

    - `transitions`: coefficients of the transition probabilities, lowest power first, with shape
      (contexts, agents, states, next states, powers). The first axis may be left out if all
      contexts are alike, and the second too if all agents are;
    - `initial`: distribution of first states, with shape (states,), (agents, states) or (contexts,
      agents, states). Default: uniform.

    A policy is a `ContinuousPolicy` or an array of shape `policy_shape`. `labels` names the agents
    and the local states.

    **Example**

    The game of the interaction-rank paper, with three agents:

    >>> import numpy as np, equipoise as eq
    >>> terms = eq.games.PolynomialTerms(3, pairs={(1, 1): np.ones((3, 3)) / np.sqrt(3)})
    >>> game = eq.ContinuousGame(terms, noise=1.0)
    >>> game.agents, game.rank, game.policy_shape
    (3, 2, (1, 3))
    >>> game.rewards(np.array([1.0, 1.0, -1.0])).round(3).tolist()
    [0.577, 0.577, -0.577]
    >>> (eq.certify(game, [1.0, 1.0, -1.0]).gains * np.sqrt(3)).round(6).tolist()
    [0.0, 0.0, 4.0]
    """

    kind: ClassVar[str] = "continuous"
    _who: ClassVar[str] = "agent"
    terms: PolynomialTerms | RewardFunction
    context_probabilities: np.ndarray
    transitions: np.ndarray | None
    initial: np.ndarray | None
    horizon: int = static()
    #: Half-width of the uniform noise that is added to logged rewards.
    noise: float = static()
    labels: Labels = static()

    def __init__(
        self,
        terms: Any,
        context_probabilities: Any = None,
        transitions: Any = None,
        initial: Any = None,
        horizon: int = 1,
        noise: float = 0.0,
        *,
        labels: Any = None,
    ):
        if isinstance(terms, Mapping):
            terms = PolynomialTerms.from_plain(terms)
        if not isinstance(terms, PolynomialTerms | RewardFunction):
            raise InputError(
                "terms",
                "PolynomialTerms or a RewardFunction",
                type(terms).__name__,
                "use ContinuousGame.from_function for a function",
            )
        chances = as_context_probabilities(context_probabilities, terms.contexts)
        horizon = checks.check_count("horizon", horizon)
        self._set(terms=terms, context_probabilities=chances, horizon=horizon)
        self._set(noise=as_noise(noise))
        transitions, initial = self._local(transitions, initial)
        self._set(transitions=transitions, initial=initial)
        sizes = (8, terms.contexts, horizon, terms.agents, terms.states)
        advice = "use fewer steps, agents or states"
        checks.check_memory("horizon", sizes, "a policy of this game", advice)
        self._set(labels=Labels.of(labels, players=terms.agents, states=self.states))

    @classmethod
    @named_arguments
    def from_function(
        cls,
        reward: Any,
        agents: int,
        contexts: int = 1,
        *,
        context_probabilities: Any = None,
        noise: float = 0.0,
        rank: int | None = None,
        lipschitz: float | None = None,
        curvature: float | None = None,
        labels: Any = None,
    ) -> "ContinuousGame":
        """Build a game from your own reward function.

        `reward(actions)`, or `reward(actions, context)` if there are several contexts, is written
        for JAX: it takes the actions (agents,) of one sample and returns the rewards (agents,).
        Pass its interaction rank as `rank` if it is less than the number of agents.

        Certificates of these games are bounds: `gains` are those of the best deviations found.
        Declare how an agent's reward depends on its own action: `lipschitz`, its Lipschitz
        constant, or better `curvature`, a bound on its second derivative. With either of them,
        `upper` is proven; with neither, it is infinite.

        **Example**

        >>> import equipoise as eq, jax.numpy as jnp
        >>> game = eq.ContinuousGame.from_function(
        ...     lambda a: jnp.sin(3 * a) * a.mean(), agents=4, curvature=12.0
        ... )
        >>> certificate = eq.certify(game, [0.5, 0.5, 0.5, 0.5])
        >>> certificate.gains.round(4).tolist(), bool(certificate.max_upper < 0.0139)
        ([0.0139, 0.0139, 0.0139, 0.0139], True)
        """
        terms = RewardFunction(reward, agents, contexts, rank, lipschitz, curvature)
        return cls(terms, context_probabilities, noise=noise, labels=labels)

    def _local(self, transitions: Any, initial: Any) -> tuple[Any, Any]:
        """Check transitions and the distribution of first states, or that both are absent."""
        states = self.terms.states
        if transitions is None:
            if states > 1 or initial is not None or self.horizon > 1:
                what = "the terms have states" if states > 1 else "initial or horizon is given"
                raise InputError("transitions", f"an array, because {what}", "none")
            return None, None
        array = read_only("transitions", transitions)
        shape = (self.contexts, self.agents, states, states)
        fits = array.ndim in (3, 4, 5) and array.shape[:-1] == shape[5 - array.ndim :]
        if not fits or 0 in array.shape:
            raise InputError(
                "transitions",
                f"shape {(*shape, 'powers')}, (contexts, agents, states, next states, powers), "
                "with as many states as the terms' effects; leading axes are optional",
                array.shape,
            )
        _check_chances(array.reshape(-1, *array.shape[-3:]))
        array = np.broadcast_to(array, (*shape, array.shape[-1]))
        begun = np.full(states, 1.0 / states) if initial is None else initial
        begun = read_only("initial", begun)
        full = (self.contexts, self.agents, states)
        if begun.ndim not in (1, 2, 3) or begun.shape != full[-begun.ndim :]:
            raise InputError("initial", f"shape {full[2:]}, {full[1:]} or {full}", begun.shape)
        begun = frozen(checks.check_probabilities("initial", begun))
        return array, np.broadcast_to(begun, full)

    @property
    def agents(self) -> int:
        """Number of agents."""
        return self.terms.agents

    @property
    def players(self) -> int:
        """Number of agents."""
        return self.agents

    @property
    def contexts(self) -> int:
        """Number of contexts."""
        return self.terms.contexts

    @property
    def rank(self) -> int:
        """Interaction rank: the largest number of agents in a term, including the agent itself."""
        return self.terms.rank

    @property
    def states(self) -> int | None:
        """Number of local states of each agent; None if there are no local states."""
        return None if self.transitions is None else self.terms.states

    @property
    def actions(self) -> tuple[int, ...]:
        """Always `()`, because actions are numbers from -1 to 1."""
        return ()

    def describe(self) -> str:
        """Return a one-line description of the game."""
        text = f"game of {self.agents:,} agents who each choose a number from -1 to 1"
        if self.contexts > 1:
            text += f", with {self.contexts} contexts"
        if self.states is not None:
            text += f", with {self.states} states and {self.horizon} steps"
        return f"{text}; its interaction rank is {self.rank}"

    @property
    def policy_shape(self) -> tuple[int, ...]:
        """(contexts, agents), or (contexts, horizon, agents, states) with local states."""
        if self.transitions is None:
            return self.contexts, self.agents
        return self.contexts, self.horizon, self.agents, self.terms.states

    def rewards(self, actions: Any, contexts: Any = None, states: Any = None) -> Any:
        """(..., agents): mean rewards at actions (..., agents).

        `contexts` (...) is required if there are several contexts, and `states` (..., agents) if
        there are local states. NumPy arrays return NumPy arrays, in float32 if the actions are. JAX
        arrays return JAX arrays, also inside `jit` and `vmap`; their values are not checked. `jit`
        does not take methods of a game: write `jax.jit(lambda a: game.rewards(a))`.

        **Example**

        >>> import numpy as np, equipoise as eq
        >>> game = eq.games.load("square-continuous", agents=2)
        >>> game.rewards(np.array([[0.5, -1.0]])).tolist()
        [[0.25, 1.0]]
        """
        if not is_jax(actions):
            actions = np.asarray(actions)
            if actions.dtype.kind != "f":
                actions = checks.as_float_array("actions", actions)
        if not actions.ndim or actions.shape[-1] != self.agents:
            raise InputError(
                "actions", f"shape (..., {self.agents}), one for each agent", tuple(actions.shape)
            )
        batch = actions.shape[:-1]
        _check_given("contexts", contexts, batch, self.contexts, self.contexts > 1)
        _check_given(
            "states", states, actions.shape, self.terms.states, self.transitions is not None
        )
        if not is_jax(actions) and not (np.abs(actions) <= 1.0).all():
            where = checks.first_index(~(np.abs(actions) <= 1.0))
            raise InputError(
                "actions", "numbers from -1 to 1", f"{actions[where]} at {list(where)}"
            )
        return self.terms.rewards(actions, contexts, states)

    def _by_names(self, policy: Mapping[str, Any]) -> np.ndarray:
        """Return points from one number per agent, or one by state."""
        entries, shape = super()._by_names(policy), self.policy_shape
        points = np.zeros(shape)
        states = level("state", self.labels.states, shape[-1])
        for i, own in enumerate(entries):
            where = f"policy[{self.about.player(i)!r}]"
            if isinstance(own, Mapping) and self.transitions is not None:
                own = [part for _, part in sorted(by_name(where, own, states, every=True).items())]
            own = checks.as_float_array(where, own, booleans=False)
            place = (slice(None), i) if self.transitions is None else (slice(None), slice(None), i)
            if own.shape not in ((), points[place].shape, shape[-1:]):
                raise InputError(where, f"numbers of shape {points[place].shape}", own.shape)
            points[place] = own
        return points

    def _checked(self, policy: Any) -> ContinuousPolicy:
        if not isinstance(policy, ContinuousPolicy):
            array = checks.as_float_array("policy", policy, copy=False, booleans=False)
            if array.ndim == len(self.policy_shape) - 1 and self.contexts == 1:
                array = array[None]
            checks.check_shape("policy", array, self.policy_shape, self._axes)
            policy = ContinuousPolicy(array)
        if policy.policy_shape != self.policy_shape:
            raise InputError(
                "policy", f"one of shape {self.policy_shape}, {self._axes}", policy.policy_shape
            )
        return policy

    @property
    def _axes(self) -> str:
        local = self.transitions is not None
        return "(contexts, horizon, agents, states)" if local else "(contexts, agents)"

    def uniform_policy(self) -> ContinuousPolicy:
        """Return uniform play on [-1, 1] as points and weights with the same moments.

        The points are Gauss-Legendre nodes, as many as polynomial rewards and transitions need, so
        the certificate is exactly that of uniform play.

        **Example**

        >>> import numpy as np, equipoise as eq
        >>> game = eq.games.load("pairwise-continuous", agents=9)
        >>> certificate = eq.certify(game, game.uniform_policy())
        >>> round(float(certificate.max_gain) * 3, 6)      # max a^2 = 1, instead of E a^2 = 1/3
        0.666667
        """
        if not isinstance(self.terms, PolynomialTerms):
            raise InputError(
                "game",
                "polynomial terms, for which a few points are exact",
                "a reward function; build a ContinuousPolicy with your own points and weights",
            )
        powers = self.terms.highest * (self.terms.effects.shape[-1] - 1)
        powers = max(powers, self.terms.degree)
        if self.transitions is not None:
            powers = max(powers, self.transitions.shape[-1] - 1)
        points, weights = np.polynomial.legendre.leggauss(powers // 2 + 1)
        shape = (*self.policy_shape, len(points))
        return ContinuousPolicy(np.broadcast_to(points, shape), np.broadcast_to(weights / 2, shape))


def _check_chances(transitions: np.ndarray) -> None:
    """Refuse polynomials (kinds, states, next states, powers) that are not probabilities."""
    total = transitions.sum(2)
    total[..., 0] -= 1.0
    if np.abs(total).max() > checks.PROBABILITY_TOLERANCE:
        where = checks.first_index(np.abs(total).max(-1) > checks.PROBABILITY_TOLERANCE)
        expected = "probabilities that sum to 1 for every action"
        raise InputError("transitions", expected, f"another sum in state {where[1]}")
    lowest, point = polynomials.maximum(-transitions)
    if lowest.max() > checks.PROBABILITY_TOLERANCE:
        where = checks.first_index(lowest > checks.PROBABILITY_TOLERANCE)
        raise InputError(
            "transitions",
            "probabilities >= 0 for every action",
            f"{-lowest[where]:.6g} at action {point[where]:.6g}, "
            f"from state {where[1]} to {where[2]}",
        )


def _check_given(name: str, value: Any, shape: tuple, count: int, needed: bool) -> None:
    """Refuse missing or invalid contexts or states; check only the shapes of traced values."""
    if value is None:
        if needed:
            raise InputError(name, f"one of {count} for each sample", "none")
        return
    if not is_jax(value):
        value = np.asarray(value)
    fits = len(value.shape) <= len(shape)
    fits = fits and all(n in (1, m) for n, m in zip(value.shape[::-1], shape[::-1], strict=False))
    if not fits:
        raise InputError(name, f"shape {shape}", value.shape)
    if checks.is_traced(value):
        return
    if value.dtype.kind not in "iu" or (value.size and (value.min() < 0 or value.max() >= count)):
        raise InputError(
            name,
            f"whole numbers from 0 to {count - 1}",
            f"{value.dtype} from {value.min()} to {value.max()}",
        )


def _padded(start: int, stop: int) -> np.ndarray:
    """Return row numbers from start to stop, the last one repeated up to a power of two.

    A function is compiled anew for each number of rows. Padding keeps compilations few.
    """
    count = stop - start
    return np.minimum(np.arange(1 << max(count - 1, 0).bit_length()) + start, stop - 1)


@lru_cache(maxsize=64)
def _batched(reward: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function once, however often it is used."""
    import jax

    return jax.jit(jax.vmap(reward))
