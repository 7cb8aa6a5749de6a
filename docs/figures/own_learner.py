"""A greedy learner and mirror descent in self-play: greed does not converge."""

import equinox as eqx
import jax.numpy as jnp

import equipoise as eq
from equipoise.core import steps
from equipoise.report import figures


class Means(eqx.Module):
    """Sums of rewards and numbers of plays, by action."""

    earned: object
    played: object


class Greedy(eq.dynamics.Learner):
    """Play the action with the best mean so far, and explore a tenth of the time."""

    sees = eq.dynamics.Bandit

    def init(self, spec):
        """Return empty sums."""
        return Means(jnp.zeros(spec.actions), jnp.zeros(spec.actions))

    def policy(self, state):
        """Return the exploring policy."""
        mean = state.earned / jnp.maximum(state.played, 1.0)
        return 0.9 * steps.one_hot(jnp.argmax(mean, 0), mean.shape[0]) + 0.1 / mean.shape[0]

    def update(self, state, feedback):
        """Add the reward of the action that was played."""
        action = steps.one_hot(feedback.action, state.played.shape[0])
        return Means(state.earned + action * feedback.reward, state.played + action)


games = eq.games.families.uniform(actions=3).sample(64, key=0)
rounds = [2**k for k in range(3, 13)]
learners = {"greedy": Greedy(), "mirror descent": eq.dynamics.OMD()}
curves = {
    name: eq.dynamics.play(games, one, one, rounds=4096, key=1, record=rounds).curve.T
    for name, one in learners.items()
}
figure = figures.learning_curves(rounds, curves, fit=False, title="64 games, self-play")
