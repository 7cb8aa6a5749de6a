"""True gaps of what is learned from logs of continuous actions: eight agents, cosine pair terms.

    python -m benchmarks.continuous_logs [--seeds 10] [--first 10]

Agent i earns the sum over the others j of w_ij cos(pi (a_i - a_j) + p_ij), where w is symmetric and
p antisymmetric, so that there are equilibria in which everybody plays one number. A log has 800
rows of uniform play, with noise of 0.3. The critic is the default of `offline.learn`: networks of
interaction rank 2.
"""

import argparse
import time

import jax.numpy as jnp
import numpy as np

import equipoise as eq


def cosines(seed: int, agents: int = 8) -> eq.ContinuousGame:
    """A game of cosine pair terms."""
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=(agents, agents)) / np.sqrt(agents)
    np.fill_diagonal(weights, 0.0)
    phases = rng.uniform(-np.pi, np.pi, (agents, agents))
    weights, phases = (weights + weights.T) / np.sqrt(2.0), (phases - phases.T) / 2.0

    def reward(actions: jnp.ndarray) -> jnp.ndarray:
        return (weights * jnp.cos(np.pi * (actions[:, None] - actions) + phases)).sum(1)

    curvature = float(np.pi**2 * np.abs(weights).sum(1).max())
    return eq.ContinuousGame.from_function(reward, agents, rank=2, noise=0.3, curvature=curvature)


def main() -> None:
    """Learn from a log of each game, and print the true gaps."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first", type=int, default=10)
    options, gaps = parser.parse_args(), []
    for seed in range(options.first, options.first + options.seeds):
        game = cosines(seed)
        log = eq.offline.collect(game, "uniform", samples=800, key=seed)
        started = time.process_time()
        advice = eq.offline.learn(log, key=seed)
        gaps.append(float(eq.certify(game, advice.policy).max_gain))
        seconds = time.process_time() - started
        own = float(eq.certify(game, log.actions.mean(0)).max_gain)
        print(
            f"{seed}: {advice.status.name}, true gap {gaps[-1]:.4f}, {own:.2f} for the log's mean "
            f"actions, {advice.stats['gap']['gap']:.4f} in the critics, {seconds:.0f} s",
            flush=True,
        )
    print(f"{sum(gap <= 0.05 for gap in gaps)} of {len(gaps)} true gaps are at most 0.05")


if __name__ == "__main__":
    main()
