"""The results of a run: policies at recorded rounds, averages, regrets, history, and a state.

A run can be resumed from its state with the same games, learners, noise and precision. The state
holds only arrays, and the arrays of another run may have the same shapes. It therefore also keeps
a digest of the games, the learners and the noise, and `play` raises if one of them differs.
"""

import hashlib
import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import equinox as eqx
import jax
import numpy as np
from scipy.special import ndtri

from equipoise.certificates import certify
from equipoise.core import InputError, checks
from equipoise.core.html import ROWS, html_card, html_curve, html_facts, html_table
from equipoise.dynamics._engine import Outcome, Snapshot, before_play
from equipoise.dynamics._learner import Learner, Noise
from equipoise.dynamics._round import Tables, seat
from equipoise.dynamics.loop import LoopState
from equipoise.games import MarkovGame, MatrixGame

Pair = tuple[np.ndarray, np.ndarray]

#: How far the sums of float32 policies may be from one; learners of this package stay below 1e-5.
OFF = 1e-3

#: Arguments of `play` of which a state keeps digests.
PARTS = ("games", "row", "column", "noise")


@dataclass(frozen=True)
class Recorded:
    """Policies at the recorded rounds.

    Arrays have shape (records, ..., actions) for matrix games and (records, ..., states,
    actions) for Markov games, where `...` are the batch axes, then the seeds if there are any.
    """

    #: (records,): number of rounds played.
    rounds: np.ndarray
    #: Policies of the next round.
    last: Pair
    #: Means of the policies played so far; in Markov games, over the visits of each state.
    average: Pair
    #: (records, ...): sum of the mean rewards of the row player, in units of the game.
    reward: np.ndarray


@dataclass(frozen=True)
class History:
    """The events of every round, as NumPy arrays of shape (batch axes, rounds, ...)."""

    #: (..., rounds, 2): actions of the row and of the column player.
    actions: np.ndarray
    #: (..., rounds): the observed reward of the row player, scaled to [0, 1].
    rewards: np.ndarray
    #: (..., rounds, actions): the policies played, including exploration; in Markov games, at the
    #: visited state.
    policies: Pair
    #: The same before exploration was mixed in.
    held: Pair
    #: (..., rounds): mean reward of the row player given both policies, in units of the game.
    expected: np.ndarray
    #: (..., rounds + 1): states visited, including the one after the last round. None in matrix
    #: games.
    states: np.ndarray | None


@dataclass(frozen=True)
class Mean:
    """A mean over games, and over seeds if there are several, with its standard errors.

    **Example**

    >>> import numpy as np
    >>> from equipoise.dynamics import Mean
    >>> mean = Mean.of(np.random.default_rng(0).normal(1.0, 1.0, (10_000,)))
    >>> low, high = mean.interval(0.95)
    >>> bool(low < 1.0 < high), round(float(high - low), 3)
    (True, 0.039)
    """

    #: (...): the mean.
    value: np.ndarray
    #: Standard error over games.
    error: np.ndarray
    #: Standard error over seeds; zero if there is one seed.
    seed_error: np.ndarray

    @staticmethod
    def of(samples: Any, *, seeds: bool = False) -> "Mean":
        """Return the mean over the last axis (games) and, with `seeds`, over the first axis."""
        values = np.asarray(samples, float)
        by_seed = np.moveaxis(values, 0, -1) if seeds else values[..., None]
        games = by_seed.mean(-1)
        return Mean(games.mean(-1), _error(games), _error(by_seed.mean(-2)))

    def interval(self, confidence: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Return the confidence interval over games and seeds, by the normal approximation."""
        checks.check_range("confidence", confidence, 0.0, 1.0, low_open=True, high_open=True)
        width = ndtri(0.5 + confidence / 2) * np.hypot(self.error, self.seed_error)
        return self.value - width, self.value + width


def _error(values: np.ndarray) -> np.ndarray:
    """Standard error of a mean over the last axis; zero if there is only one value."""
    count = values.shape[-1]
    return values.std(-1, ddof=min(1, count - 1)) / np.sqrt(count)


class PlayState(eqx.Module):
    """Everything `play` needs to resume, as NumPy arrays with the flattened batch last."""

    #: State of the loop.
    loop: LoopState
    #: (2, games): words of the games' keys.
    keys: np.ndarray
    #: (4, 16): digests of the games, of each learner and of the noise.
    digests: np.ndarray


@dataclass(frozen=True)
class Trace:
    """The result of `play`. All arrays are NumPy arrays; policies are float64 and sum to one.

    **Example**

    >>> import equipoise as eq
    >>> games = eq.games.families.uniform(actions=3).sample(8, key=0)
    >>> omd = eq.dynamics.OMD()
    >>> trace = eq.dynamics.play(games, omd, omd, rounds=100, key=1, record=(10, 100))
    >>> trace.last[0].shape, trace.curve.shape, trace.recorded.rounds.tolist()
    ((8, 3), (2, 8), [10, 100])
    """

    #: The games that were played.
    games: MatrixGame | MarkovGame
    #: Policies at the recorded rounds.
    recorded: Recorded
    #: (records, ..., 2): regret of the row and of the column player; None for Markov games.
    #: A player's regret is the mean total reward of its best fixed action against the policies
    #: that the opponent played, minus the reward earned.
    regret: np.ndarray | None
    #: Pass it to `play` to resume the run. None if a frozen player played.
    state: PlayState | None = field(repr=False)
    #: Number of seeds per game; None without an axis of seeds.
    seeds: int | None = None
    #: Every round, if `play` was called with `history=True`.
    history: History | None = field(default=None, repr=False)

    @property
    def rounds(self) -> int:
        """Total number of rounds played."""
        return int(self.recorded.rounds[-1])

    @property
    def last(self) -> Pair:
        """Policies after the final round."""
        return self.recorded.last[0][-1], self.recorded.last[1][-1]

    @property
    def average(self) -> Pair:
        """Mean policies over all rounds."""
        return self.recorded.average[0][-1], self.recorded.average[1][-1]

    @cached_property
    def curve(self) -> np.ndarray:
        """(records, ...): exact `nash_conv` of the last policies at each recorded round."""
        return self._gaps(self.recorded.last)

    @cached_property
    def average_curve(self) -> np.ndarray:
        """(records, ...): exact `nash_conv` of the average policies at each recorded round."""
        return self._gaps(self.recorded.average)

    @property
    def mean_curve(self) -> Mean:
        """Mean of the curve over games, with standard errors and confidence intervals."""
        return Mean.of(self.curve.reshape(len(self.recorded.rounds), -1))

    def _repr_html_(self) -> str:
        """Show the mean NashConv of the last policies by round, for notebooks."""
        games = int(np.prod(self.games.batch_shape)) * (self.seeds or 1)
        means, rounds = self.mean_curve.value, self.recorded.rounds
        facts = {"rounds": self.rounds, "games": games, "mean NashConv": float(means[-1])}
        kept = np.unique(np.linspace(0, len(rounds) - 1, ROWS).round().astype(int))
        rows = [(int(rounds[k]), float(means[k])) for k in kept]
        curve = html_curve(rounds, means, "mean NashConv of the last policies by round")
        table = html_table(("round", "mean NashConv"), rows)
        return html_card("Trace", [html_facts(facts), curve, table])

    def _gaps(self, policies: Pair) -> np.ndarray:
        games = self.games if self.seeds is None else repeat_games(self.games, self.seeds)
        return np.stack([certify(games, (x, y)).nash_conv for x, y in zip(*policies, strict=True)])


def repeat_games(games: MatrixGame | MarkovGame, seeds: int) -> MatrixGame | MarkovGame:
    """Return the games with one more batch axis, a copy for every seed."""
    axis = len(games.batch_shape)

    def repeat(array: Any) -> np.ndarray:
        return np.repeat(np.expand_dims(np.asarray(array), axis), seeds, axis)

    if isinstance(games, MatrixGame):
        return MatrixGame(repeat(games.payoff))
    return MarkovGame(repeat(games.reward), repeat(games.transition), games.discount)


def make_trace(
    games: MatrixGame | MarkovGame,
    tables: Tables,
    outcome: Outcome,
    stops: list[int],
    reward_range: tuple[float, float],
    state: PlayState | None,
    seeds: int | None,
) -> Trace:
    """Return a trace with the recorded arrays in the batch shape of the games."""
    shape = games.batch_shape if seeds is None else (*games.batch_shape, seeds)
    low, high = reward_range
    rounds = np.array(stops)

    def shaped(array: Any) -> np.ndarray:
        """Reshape (..., games) to (batch axes, ...)."""
        array = np.moveaxis(np.asarray(array), -1, 0)
        return array.reshape((*shape, *array.shape[1:]))

    def normalised(seat: int, policy: Any, rounds: Any = 1.0) -> np.ndarray:
        """Normalise in float64: sums of float32 policies are off by about 1e-7."""
        policy = shaped(policy)
        sums = policy.sum(-1, keepdims=True)
        _check_policies(("row", "column")[seat], policy, sums, rounds)
        return policy / sums

    def average(seat: int, snap: Snapshot, played: int) -> np.ndarray:
        if tables.states is None:
            return normalised(seat, snap.sums[seat], played)
        # A state that was never visited has no average; use the uniform policy.
        visits = snap.sums[2]
        sums = np.where(visits[:, None] == 0, 1.0 / snap.sums[seat].shape[1], snap.sums[seat])
        return normalised(seat, sums, shaped(np.maximum(visits, 1.0))[..., None])

    def stacked(make: Any) -> Pair:
        each = list(zip(outcome.snapshots, stops, strict=True))
        x, y = (np.stack([make(seat, *one) for one in each]) for seat in (0, 1))
        return x, y

    earned = np.stack([shaped(snap.sums[-1]) for snap in outcome.snapshots])
    recorded = Recorded(
        rounds=rounds,
        last=stacked(lambda seat, snap, _: normalised(seat, snap.policies[seat])),
        average=stacked(average),
        reward=low * rounds.reshape(-1, *(1,) * (earned.ndim - 1)) + (high - low) * earned,
    )
    regret = None
    if tables.states is None:
        regrets = [shaped(_regret(tables, snap.sums)) for snap in outcome.snapshots]
        regret = (high - low) * np.stack(regrets)
    history = None
    if outcome.history is not None:
        events, expected, place = outcome.history
        states = None
        if tables.states is not None:
            states = shaped(np.concatenate([events.state, place[None]]))
        policies = shaped(events.played[0]), shaped(events.played[1])
        held = events.held and (shaped(events.held[0]), shaped(events.held[1]))
        history = History(
            actions=shaped(np.stack(events.actions, 1)),
            rewards=shaped(events.reward),
            policies=policies,
            held=held or policies,
            expected=low + (high - low) * shaped(expected).astype(np.float64),
            states=states,
        )
    return Trace(games, recorded, regret, state, seeds, history)


def _check_policies(seat: str, policies: np.ndarray, sums: np.ndarray, rounds: Any) -> None:
    """Refuse policies, or sums of the policies of so many rounds, that are no probabilities."""
    fair = np.abs(sums - rounds) <= OFF * rounds
    if not (fair.all() and (policies >= -OFF * rounds).all()):
        where = checks.first_index(~(fair & (policies >= -OFF * rounds)).all(-1))
        played = policies[where] / np.broadcast_to(rounds, sums.shape)[where]
        found = np.round(played, 6).tolist()
        raise InputError(seat, "a learner whose policies are >= 0 and sum to one", found)


def _regret(tables: Tables, sums: Any) -> np.ndarray:
    """(2, games): regrets of the scaled game, from sums of policies and of rewards."""
    x, y, earned = sums
    best_row = np.einsum("abg,bg->ag", tables.reward, y).max(0)
    best_column = np.einsum("abg,ag->bg", tables.reward, x).min(0)
    return np.stack([best_row - earned, earned - best_column])


def digests(tables: Tables, learners: tuple[Learner, Learner], noise: Noise) -> np.ndarray:
    """Return a digest of each of `PARTS`, as rows of bytes."""
    contents = (tables.reward, tables.transition, tables.discount)
    return np.stack([digest(part) for part in (contents, *learners, noise)])


def digest(tree: Any) -> np.ndarray:
    """(16,): digest of a learner, a noise or tables, the same in every process.

    >>> (digest((1.0, "a")) == digest((1.0, "a"))).all()
    np.True_
    """
    leaves, structure = jax.tree.flatten(tree)
    # Function addresses differ from process to process, so they are removed.
    hashed = hashlib.blake2b(re.sub(r" at 0x\w+", "", str(structure)).encode(), digest_size=16)
    for leaf in leaves:
        if isinstance(leaf, bool | int | float | np.ndarray | np.generic | jax.Array):
            array = np.ascontiguousarray(leaf, np.float64)
            hashed.update(str(array.shape).encode())
            hashed.update(array.data)
        else:
            name = getattr(leaf, "__qualname__", repr(leaf))
            hashed.update(re.sub(r" at 0x\w+", "", name).encode())
    return np.frombuffer(hashed.digest(), np.uint8)


def check_state(
    state: Any, tables: Tables, learners: tuple[Learner, Learner], noise: Noise, double: bool
) -> PlayState:
    """Return the state; raise unless a run with these arguments can be resumed from it."""
    if not isinstance(state, PlayState):
        raise InputError(
            "state", "the `state` of a trace that `play` returned", type(state).__name__
        )
    checks.check_shape("state.keys", state.keys, (2, tables.games), "two words for each game")
    expected = digests(tables, learners, noise)
    checks.check_shape("state.digests", state.digests, expected.shape, "one row for each part")
    same = (np.asarray(state.digests) == expected).all(-1)
    for name, agrees in zip(PARTS, same, strict=True):
        if not agrees:
            hint = " (and the same reward_range)" if name == "games" else ""
            raise InputError(
                "state",
                f"the state of a run with the same {name}{hint}",
                "the state of a different run",
                f"start again with `key`, or pass the same {name}",
            )
    # Compare with the state before a first round: structure, dtypes and shapes.
    fresh = before_play(tables, seat(*learners), noise, double)
    loop = state.loop
    if jax.tree.structure(loop) != jax.tree.structure(fresh):
        raise InputError(
            "state.loop",
            f"the structure of these games and learners, {jax.tree.structure(fresh)}",
            jax.tree.structure(loop),
        )
    found = jax.tree_util.tree_leaves_with_path(loop)
    for (path, leaf), like in zip(found, jax.tree.leaves(fresh), strict=True):
        name = f"state.loop{jax.tree_util.keystr(path)}"
        if leaf.dtype != like.dtype:
            raise ValueError(
                f"{name}: expected {like.dtype}, since double={double}, found {leaf.dtype}"
            )
        shape = (*like.shape[:-1], tables.games) if like.ndim else ()
        checks.check_shape(name, leaf, shape, "the batch last")
    return state
