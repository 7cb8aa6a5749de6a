"""V-learning's output policy: a nested mixture of everything that was played.

The policy carries a memory `k`, at first the number of rounds. In state `s` it looks at the visits
of `s` before `k`, draws the `i`-th of `n` with probability `alpha_i (1 - alpha_{i+1}) ... (1 -
alpha_n)`, plays what was played then, and remembers the time of that visit: from there on it uses
only what came before. Where `s` had not been visited it plays uniformly from then on.

It is no Markov policy, and sampling from it needs the whole history: memory is linear in the
number of rounds, by nature. Its value, however, obeys the recursion of V-learning itself, so that
one pass over the history evaluates it exactly. Against a best response the same pass gives a
bound: it lets the opponent see the memory after each step, which can only help the opponent.
"""

import functools
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from equipoise.core import checks, mdp
from equipoise.core.precision import double_precision
from equipoise.core.randomness import as_key
from equipoise.dynamics._learner import Learner
from equipoise.dynamics._markov import VLearning, mixing_weight
from equipoise.dynamics._noise import Noise
from equipoise.dynamics._play import check_start, play
from equipoise.dynamics._trace import History
from equipoise.games import MarkovGame


@dataclass(frozen=True)
class CertifiedOutput:
    """The output policies of two V-learners in one Markov game, to be sampled or evaluated.

    Both players draw with common randomness, which is the correlated policy that V-learning
    outputs; `guarantee` and `concession` are of each player's own part alone.
    """

    game: MarkovGame
    history: History = field(repr=False)

    @cached_property
    def value(self) -> np.ndarray:
        """(states,): exact value to the row player when both play their output policies."""
        return _evaluate(self.game, self.history, None, None)

    @cached_property
    def guarantee(self) -> np.ndarray:
        """(states,): the row player's output policy earns at least this, whoever it meets."""
        return _bound(self.game, self.history, 0)

    @cached_property
    def concession(self) -> np.ndarray:
        """(states,): against the column player's output policy nobody earns more than this."""
        return _bound(self.game, self.history, 1)

    @property
    def gap(self) -> np.ndarray:
        """(states,): a bound on the duality gap of the two output policies played apart."""
        return self.concession - self.guarantee

    def value_against(self, *, row: Any = None, column: Any = None) -> np.ndarray:
        """(states,): exact value to the row player when one plays a stationary policy instead.

        Give one of `row` and `column`, of shape (states, actions).
        """
        if (row is None) == (column is None):
            raise ValueError("row, column: expected one of them, found both or neither")
        name, policy, actions = (
            ("column", column, self.game.actions[1])
            if row is None
            else ("row", row, self.game.actions[0])
        )
        policy = np.asarray(checks.as_float_array(name, policy))
        checks.check_shape(name, policy, (self.game.states, actions), "(states, actions)")
        checks.check_probabilities(name, policy)
        return _evaluate(
            self.game,
            self.history,
            None if row is None else policy,
            None if column is None else policy,
        )

    def sample(self, *, episodes: int, length: int, key: Any, state: int = 0) -> np.ndarray:
        """(episodes,): discounted rewards of the row player in sampled play from `state`.

        An episode is cut after `length` steps, which loses at most
        `discount ** length / (1 - discount)` times the largest reward.
        """
        episodes = checks.check_count("episodes", episodes)
        length = checks.check_count("length", length)
        state = check_start("state", self.game, state)
        seed = np.asarray(jax.random.key_data(as_key(key))).astype(np.uint32)
        return _Sampler(self.game, self.history).returns(
            np.random.default_rng(seed.tolist()), episodes, length, state
        )


def certified_output(
    game: MarkovGame,
    row: Learner | None = None,
    column: Learner | None = None,
    *,
    rounds: int,
    key: Any,
    noise: Noise | None = None,
    reward_range: tuple[float, float] = (0.0, 1.0),
    start: int = 0,
) -> CertifiedOutput:
    """Let two V-learners play one game and return their output policies.

    The arguments are those of `play`; learners see rewards scaled from `reward_range` to
    [0, 1], while all values of the output are in units of the game.

    **Example**

    >>> import equipoise as eq
    >>> game = eq.games.families.uniform(actions=2, states=2, discount=0.5).sample(key=0)
    >>> output = eq.dynamics.certified_output(game, rounds=2000, key=1)
    >>> bool((output.guarantee <= output.value).all() and (output.value <= output.concession).all())
    True
    >>> output.sample(episodes=5, length=20, key=2).shape
    (5,)
    """
    if not isinstance(game, MarkovGame) or game.batch_shape:
        raise ValueError(f"game: expected one MarkovGame, found {game!r}")
    row, column = row or VLearning(), column or VLearning()
    trace = play(
        game,
        row,
        column,
        rounds=rounds,
        key=key,
        noise=noise,
        reward_range=reward_range,
        start=start,
        history=True,
    )
    assert trace.history is not None
    return CertifiedOutput(game, trace.history)


def _uniform(game: MarkovGame, player: int) -> np.ndarray:
    actions = game.actions[player]
    return np.full((game.states, actions), 1.0 / actions)


def _uniform_values(game: MarkovGame, x: np.ndarray | None, y: np.ndarray | None) -> np.ndarray:
    """Value of uniform play for whoever has no policy of its own."""
    x = _uniform(game, 0) if x is None else x
    y = _uniform(game, 1) if y is None else y
    reward = np.einsum("sa,sab,sb->s", x, game.reward, y)
    move = np.einsum("sa,sabt,sb->st", x, game.transition, y)
    return mdp.policy_value(reward, move, game.discount)


def _best_against_uniform(game: MarkovGame, player: int) -> np.ndarray:
    """Value to the row player of the best response to uniform play of `player`."""
    sign = -1.0 if player == 0 else 1.0
    reward = np.asarray(game.reward).mean(1 + player)
    move = np.asarray(game.transition).mean(1 + player)
    return sign * mdp.best_response_value(sign * reward, move, game.discount)


def _evaluate(
    game: MarkovGame, history: History, x: np.ndarray | None, y: np.ndarray | None
) -> np.ndarray:
    """One pass over the history: the value obeys V-learning's own recursion."""
    start = _uniform_values(game, x, y)
    with double_precision():
        fixed = jax.tree.map(jnp.asarray, (x, y))
        return np.asarray(_evaluation_pass(*_device(game, history), fixed, jnp.asarray(start)))


@jax.jit
def _evaluation_pass(
    reward: Any, transition: Any, discount: Any, events: Any, fixed: Any, start: Any
) -> jax.Array:
    def body(carry: Any, event: Any) -> tuple[Any, None]:
        values, visits = carry
        s, row, column = event
        row = row if fixed[0] is None else fixed[0][s]
        column = column if fixed[1] is None else fixed[1][s]
        ahead = reward[s] + discount * transition[s] @ values
        alpha = mixing_weight(visits[s] + 1, discount)
        new = values[s] + alpha * (row @ ahead @ column - values[s])
        return (values.at[s].set(new), visits.at[s].add(1)), None

    return jax.lax.scan(body, (start, jnp.zeros(start.shape)), events)[0][0]


def _bound(game: MarkovGame, history: History, player: int) -> np.ndarray:
    """One pass in which the other player best-responds, knowing the memory after each step."""
    start = _best_against_uniform(game, player)
    with double_precision():
        return np.asarray(_bound_pass(*_device(game, history), jnp.asarray(start), player=player))


@functools.partial(jax.jit, static_argnames=("player",))
def _bound_pass(
    reward: Any, transition: Any, discount: Any, events: Any, start: Any, *, player: int
) -> jax.Array:
    def body(carry: Any, event: Any) -> tuple[Any, None]:
        values, qualities, visits = carry
        s = event[0]
        ahead = reward[s] + discount * transition[s] @ values
        quality = event[1] @ ahead if player == 0 else ahead @ event[2]
        alpha = mixing_weight(visits[s] + 1, discount)
        mixed = qualities[s] + alpha * (quality - qualities[s])
        best = mixed.min() if player == 0 else mixed.max()
        carry = (values.at[s].set(best), qualities.at[s].set(mixed), visits.at[s].add(1))
        return carry, None

    states, opponent = len(start), reward.shape[2 - player]
    carry = (start, jnp.zeros((states, opponent)), jnp.zeros(states))
    return jax.lax.scan(body, carry, events)[0][0]


def _device(game: MarkovGame, history: History) -> tuple[Any, Any, Any, Any]:
    """Rewards, transitions, the discount and the events of a history, in float64."""
    if history.states is None:
        raise ValueError("history: expected the states visited, found None")
    events = (
        jnp.asarray(history.states[:-1]),
        jnp.asarray(history.policies[0], float),
        jnp.asarray(history.policies[1], float),
    )
    tables = (jnp.asarray(game.reward), jnp.asarray(game.transition))
    return *tables, jnp.asarray(game.discount, float), events


class _Sampler:
    """Plays the output policies, with common randomness."""

    def __init__(self, game: MarkovGame, history: History):
        if history.states is None:
            raise ValueError("history: expected the states visited, found None")
        self.game = game
        self.policies = history.policies
        visited = history.states[:-1]
        self.visits = [np.flatnonzero(visited == s) for s in range(game.states)]
        longest = max(len(times) for times in self.visits)
        # log of (1 - alpha_2) ... (1 - alpha_n): the draw is an inversion of its differences.
        steps = np.arange(2, longest + 1)
        self.kept = np.concatenate(
            [[0.0], np.cumsum(np.log1p(-mixing_weight(steps, game.discount)))]
        )

    def draw(self, rng: np.random.Generator, state: int, memory: int) -> int:
        """The time of the visit that is played again, or -1 where there was none before."""
        n = int(np.searchsorted(self.visits[state], memory))
        if n == 0:
            return -1
        # P(visit <= m) = kept_n / kept_m; the smallest m for which that reaches a uniform.
        threshold = self.kept[n - 1] - np.log(1.0 - rng.random())
        m = int(np.searchsorted(-self.kept[:n], -threshold))
        return int(self.visits[state][min(m, n - 1)])

    def returns(
        self, rng: np.random.Generator, episodes: int, length: int, state: int
    ) -> np.ndarray:
        """Discounted rewards of whole episodes."""
        return np.array([self._episode(rng, length, state) for _ in range(episodes)])

    def _episode(self, rng: np.random.Generator, length: int, state: int) -> float:
        game, (rows, columns) = self.game, self.game.actions
        memory, earned, weight = len(self.policies[0]), 0.0, 1.0
        for _ in range(length):
            time = self.draw(rng, state, memory) if memory >= 0 else -1
            x = self.policies[0][time] if time >= 0 else np.full(rows, 1.0 / rows)
            y = self.policies[1][time] if time >= 0 else np.full(columns, 1.0 / columns)
            a, b = _pick(rng, x), _pick(rng, y)
            earned += weight * float(game.reward[state, a, b])
            weight *= game.discount
            state, memory = _pick(rng, game.transition[state, a, b]), time
        return earned


def _pick(rng: np.random.Generator, probabilities: Any) -> int:
    cumulative = np.cumsum(np.asarray(probabilities, float))
    return int(np.searchsorted(cumulative, rng.random() * cumulative[-1], side="right"))
