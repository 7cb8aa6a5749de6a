"""Checks of your own games, policies, solvers and learners, which those of the library pass too.

Each check returns None, or raises an `AssertionError` that says which promise is broken. They need
no test runner: call them from a test of any framework, or from a notebook.
"""

import copy
import dataclasses
from collections.abc import Callable
from multiprocessing.reduction import ForkingPickler
from typing import TYPE_CHECKING, Any

import numpy as np

from equipoise.certificates import certify
from equipoise.core import Solution
from equipoise.core.plain import dumps, loads
from equipoise.games import Game, Labels, Policy, kinds, policy_from_plain

if TYPE_CHECKING:
    from equipoise.dynamics import Learner

__all__ = ["check_game", "check_learner", "check_policy", "check_solver"]


def check_game(game: Game[Any]) -> None:
    """Check that a game is a value, counts and names its players, and describes itself.

    A value cannot be changed, is compared by content, is its own copy, can be sent to another
    process, and, unless it is made of functions, is restored from its plain form.

    **Example**

    >>> import equipoise as eq
    >>> eq.testing.check_game(eq.MatrixGame([[1, -1], [-1, 1]]))
    """
    _expect(isinstance(game, Game), "a game derives from equipoise.games.Game")
    _expect(game.kind in kinds.KINDS, f"kind: {game.kind!r} has no row in games.kinds.KINDS")
    _check_value(game)
    _expect(game.players >= 1, "players: at least one")
    _expect(all(count >= 1 for count in game.actions), "actions: every player has at least one")
    text = game.describe()
    _expect(bool(text) and "\n" not in text, "describe(): one line")
    _expect(game.describe() in str(game), "str(game) begins with the description")
    _expect(game.labels == Labels(**game.labels.to_plain()), "labels: restored from plain form")


def check_policy(game: Game[Any], policy: Policy) -> None:
    """Check that a policy is a value, and that `certify` brackets its gains in a game.

    **Example**

    >>> import equipoise as eq
    >>> pennies = eq.MatrixGame([[1, -1], [-1, 1]])
    >>> eq.testing.check_policy(pennies, eq.Profile([[1.0, 0.0], [0.5, 0.5]]))
    """
    _expect(isinstance(policy, Policy), "a policy derives from equipoise.games.Policy")
    _check_value(policy)
    plain = policy.to_plain()
    _expect(policy_from_plain(plain) == policy, "to_plain(): restores the policy")
    allowed = kinds.KINDS[game.kind].policies
    _expect(policy.kind in allowed, f"kind: a {game.kind} game takes {', '.join(allowed)}")
    certificate, again = certify(game, policy), certify(game, policy_from_plain(plain))
    _expect(certificate == again, "certify: the same certificate for the same policy")
    gains, upper = np.asarray(certificate.gains), np.asarray(certificate.upper)
    _expect(bool((gains <= upper).all()), "certify: every gain is at most its bound")


def check_solver(solver: Callable[[Any], Solution[Any]], game: Game[Any]) -> None:
    """Check a function from a game to a `Solution`: nothing in it may rest on the solver's word.

    The certificate is that of the policy, the status follows from it and the tolerance, and the
    same call gives the same answer.

    **Example**

    >>> import equipoise as eq
    >>> eq.testing.check_solver(eq.solve, eq.games.load("chicken"))
    """
    first, second = solver(game), solver(game)
    _expect(isinstance(first, Solution), "a solver returns a Solution")
    _expect(first.policy == second.policy, "the same call gives the same policy")
    certificate = certify(game, first.policy, concept=first.certificate.concept)
    _expect(certificate == first.certificate, "certificate: that of the policy in the game")
    tolerance = np.asarray(first.tolerance, float)
    if not np.isnan(tolerance).any():
        met = np.asarray(first.certificate.max_upper) <= tolerance
        _expect((met | ~np.asarray(first.solved)).all(), "solved: only within the tolerance")
    solved = bool(np.all(first.solved))
    _expect((first.status.name == "solved") == solved, "status: 'solved' if every game is")
    check_policy(game, first.policy)


def check_learner(learner: "Learner", *, states: int | None = None, rounds: int = 200) -> None:
    """Check a learner against another one, in games of three actions.

    Its policies are distributions, in single precision too; a run that stops and goes on is that
    which did not stop, bit for bit; a game does not depend on the rest of its batch; and policy and
    update work in `jit` and `vmap`. `states` is the number of states of a learner of Markov games.

    **Example**

    >>> import equipoise as eq
    >>> eq.testing.check_learner(eq.dynamics.OMD(), rounds=20)
    """
    import jax
    import jax.numpy as jnp

    from equipoise import dynamics
    from equipoise.games import families

    other = dynamics.OMD() if states is None else dynamics.MarkovOMD()
    games: Any = families.uniform(3, states=states).sample(5, key=8)

    def play(part: Any = games, **options: Any) -> Any:
        return dynamics.play(part, learner, other, **options)

    half = rounds // 2
    whole, first = play(rounds=rounds, key=4, record=[half]), play(rounds=half, key=4)
    for policy in (*whole.recorded.last, *whole.recorded.average):
        _expect(bool((policy >= 0.0).all()), "policies have no negative probability")
        _expect(np.abs(policy.sum(-1) - 1.0).max() < 1e-12, "policies sum to one")
    state = jax.tree.map(jnp.asarray, whole.state.loop.learners[0])  # all games at once
    raw = np.asarray(learner.policy(state))
    _expect(raw.dtype == np.float32, "policy(state): float32 where the loop computes in it")
    actions = 0 if states is None else 1
    _expect(np.abs(raw.sum(actions) - 1.0).max() < 1e-5, "policy(state): sums to one over actions")

    rest = play(rounds=rounds - half, state=first.state)
    _expect(_alike(whole.state, rest.state), "a run that stops and goes on is that which did not")
    keys = dynamics.game_keys(4, (5,))
    alone = play(games[3:4], rounds=rounds, key=keys[3:4])
    same = np.array_equal(alone.last[0][0], whole.last[0][3])
    _expect(same, "a game does not depend on the rest of its batch")

    spec = dynamics.Spec(3) if states is None else dynamics.Spec(3, states, 0.9)
    begun, feedback = learner.init(spec), _feedback(learner.sees)
    plain = learner.policy(learner.update(begun, feedback))
    compiled = jax.jit(lambda s, f: learner.policy(learner.update(s, f)))(begun, feedback)
    _expect(np.shape(plain) == ((3,) if states is None else (states, 3)), "policy: its shape")
    _expect(bool(np.allclose(plain, compiled, atol=1e-6)), "jit: the same policy")
    twice = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), feedback)
    many = jax.vmap(lambda f: learner.policy(learner.update(begun, f)))(twice)
    _expect(bool(np.allclose(many[1], plain, atol=1e-6)), "vmap: the same policy")


def _expect(kept: Any, promise: str) -> None:
    if not kept:
        raise AssertionError(promise)


def _check_value(value: Any) -> None:
    """Check what games and policies have in common."""
    for field in dataclasses.fields(value):
        try:
            setattr(value, field.name, None)
        except dataclasses.FrozenInstanceError:
            continue
        raise AssertionError(f"{field.name}: a field cannot be set")
    for name, part in vars(value).items():
        shared = isinstance(part, np.ndarray) and part.flags.writeable
        _expect(not shared, f"{name}: arrays are read-only")
    _expect(copy.copy(value) is value and copy.deepcopy(value) is value, "a copy is the value")
    try:
        plain = value.to_plain()
    except ValueError:
        return  # made of functions: no file holds it, and another process may not know them
    _expect(plain.get("kind") == value.kind, "to_plain(): has the kind")
    again = type(value).from_plain(loads(dumps(plain, "value")))
    _expect(again == value and hash(again) == hash(value), "from_plain(): restores the value")
    pickler: Any = ForkingPickler
    arrived = pickler.loads(pickler.dumps(value))
    _expect(arrived == value, "it can be sent to another process")


def _alike(first: Any, second: Any) -> bool:
    import jax

    pairs = zip(jax.tree.leaves(first), jax.tree.leaves(second), strict=True)
    return all(np.array_equal(a, b) for a, b in pairs)


def _feedback(sees: Any) -> Any:
    """Return what a learner sees of one round."""
    import jax.numpy as jnp

    one, values = jnp.int32(1), jnp.array([0.1, 0.5, 0.9])
    parts = {
        **{"round": one, "action": one, "reward": jnp.float32(0.3)},
        **{"state": jnp.int32(0), "next_state": one, "values": values},
        "policy": jnp.full(3, 1 / 3),
    }
    needed = [f.name for f in dataclasses.fields(sees) if f.default is dataclasses.MISSING]
    return sees(**{name: parts[name] for name in needed})
