"""True gaps of what is learned from logs of continuous actions, and how often the bounds hold.

    python -m benchmarks.continuous_logs [--game cosines] [--seeds 10] [--first 310] [--agents 8]
                                         [--rows 800] [--noise uniform] [--critic kernel]

In the game "cosines", agent i earns the sum over the others j of w_ij cos(pi (a_i - a_j) + p_ij),
where w is symmetric and p antisymmetric, so that there are equilibria in which everybody plays one
number. The other games are `REWARDS`. A log has rows of uniform play. Noise is uniform on [-0.3,
0.3], normal with a standard deviation of 0.1, or 0.3 times Student's t with three degrees of
freedom.
"""

import argparse
import time
from collections.abc import Callable

import jax.numpy as jnp
import numpy as np

import equipoise as eq


def cosines(seed: int, agents: int) -> eq.ContinuousGame:
    """A game of cosine pair terms."""
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=(agents, agents)) / np.sqrt(agents)
    np.fill_diagonal(weights, 0.0)
    phases = rng.uniform(-np.pi, np.pi, (agents, agents))
    weights, phases = (weights + weights.T) / np.sqrt(2.0), (phases - phases.T) / 2.0

    def reward(actions: jnp.ndarray) -> jnp.ndarray:
        return (weights * jnp.cos(np.pi * (actions[:, None] - actions) + phases)).sum(1)

    curvature = float(np.pi**2 * np.abs(weights).sum(1).max())
    return eq.ContinuousGame.from_function(reward, agents, rank=2, curvature=curvature)


def _others(actions: jnp.ndarray) -> jnp.ndarray:
    """Mean action of the others."""
    return (actions.sum() - actions) / (len(actions) - 1)


#: Rewards of all agents: smooth, with kinks, and with a jump.
REWARDS: dict[str, Callable[[jnp.ndarray], jnp.ndarray]] = {
    "quadratic": lambda a: -((a - 0.3 - 0.4 * _others(a)) ** 2),
    "kink": lambda a: -jnp.abs(a - 0.2 - 0.3 * _others(a)),
    "newsvendor": lambda a: 2 * jnp.minimum(1 + a, 1 + 0.3 * _others(a)) - (1 + a),
    "cournot": lambda a: (1 + a) * (jnp.maximum(0, 2 - (1 + a).sum()) - 0.2),
    "threshold": lambda a: (1 + a) * (a.sum() < 0.5),
}


def main() -> None:
    """Learn from a log of each game, and print the true gaps and how many are inside the bounds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--game", choices=("cosines", *REWARDS), default="cosines")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first", type=int, default=310)
    parser.add_argument("--agents", type=int, default=8)
    parser.add_argument("--rows", type=int, default=800)
    parser.add_argument("--critic")
    parser.add_argument("--noise", choices=("uniform", "normal", "t3"), default="uniform")
    options, gaps, ends, learned = parser.parse_args(), [], [], 0
    for seed in range(options.first, options.first + options.seeds):
        if options.game == "cosines":
            game = cosines(seed, options.agents)
        else:
            game = eq.ContinuousGame.from_function(REWARDS[options.game], options.agents)
        log = eq.offline.collect(game, "uniform", samples=options.rows, key=seed)
        rng = np.random.default_rng([seed, 1])
        noise = {
            "uniform": lambda rng, shape: rng.uniform(-0.3, 0.3, shape),
            "normal": lambda rng, shape: 0.1 * rng.normal(size=shape),
            "t3": lambda rng, shape: 0.3 * rng.standard_t(3, shape),
        }[options.noise]
        rewards = log.rewards + noise(rng, log.rewards.shape)
        log = eq.offline.Log(None, log.actions, rewards, continuous=True)
        started = time.process_time()
        advice = eq.advise(log, critic=options.critic, key=seed)
        seconds = time.process_time() - started
        learned += advice.status.ok
        gaps.append(float(eq.certify(game, advice.policy).max_gain))
        ends.append(advice.interval or (0.0, np.inf))
        own = float(eq.certify(game, log.actions.mean(0)).max_gain)
        print(
            f"{seed}: {advice.status.name}, true gap {gaps[-1]:.4f}, interval {ends[-1][0]:.4f} to "
            f"{ends[-1][1]:.4f}, {own:.2f} for the log's mean actions, {seconds:.0f} s",
            flush=True,
        )
    found, (low, high) = np.array(gaps), np.array(ends).T
    print(
        f"{learned} of {len(found)} learned; {(found <= 0.05).sum()} true gaps are at most 0.05, "
        f"the median is {np.median(found):.4f}, the largest {found.max():.3f}; "
        f"{(found > high).sum()} are above the interval, {(found < low).sum()} below; median width "
        f"{np.median(high - low):.3f}"
    )


if __name__ == "__main__":
    main()
