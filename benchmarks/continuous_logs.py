"""True gaps of what is learned from logs of continuous actions, and bounds: cosine pair terms.

    python -m benchmarks.continuous_logs [--seeds 10] [--first 310] [--agents 8] [--rows 800]
                                         [--critic kernel] [--noise uniform]

Agent i earns the sum over the others j of w_ij cos(pi (a_i - a_j) + p_ij), where w is symmetric and
p antisymmetric, so that there are equilibria in which everybody plays one number. A log has rows of
uniform play, with noise that is uniform on [-0.3, 0.3], or 0.3 times Student's t with three degrees
of freedom.
"""

import argparse
import time

import jax.numpy as jnp
import numpy as np

import equipoise as eq


def cosines(seed: int, agents: int = 8, noise: float = 0.3) -> eq.ContinuousGame:
    """A game of cosine pair terms."""
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=(agents, agents)) / np.sqrt(agents)
    np.fill_diagonal(weights, 0.0)
    phases = rng.uniform(-np.pi, np.pi, (agents, agents))
    weights, phases = (weights + weights.T) / np.sqrt(2.0), (phases - phases.T) / 2.0

    def reward(actions: jnp.ndarray) -> jnp.ndarray:
        return (weights * jnp.cos(np.pi * (actions[:, None] - actions) + phases)).sum(1)

    curvature = float(np.pi**2 * np.abs(weights).sum(1).max())
    return eq.ContinuousGame.from_function(reward, agents, rank=2, noise=noise, curvature=curvature)


def main() -> None:
    """Learn from a log of each game, and print the true gaps and how many are inside the bounds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first", type=int, default=310)
    parser.add_argument("--agents", type=int, default=8)
    parser.add_argument("--rows", type=int, default=800)
    parser.add_argument("--critic")
    parser.add_argument("--noise", choices=("uniform", "t3"), default="uniform")
    options, gaps, ends = parser.parse_args(), [], []
    for seed in range(options.first, options.first + options.seeds):
        game = cosines(seed, options.agents, 0.3 * (options.noise == "uniform"))
        log = eq.offline.collect(game, "uniform", samples=options.rows, key=seed)
        if options.noise == "t3":
            rng = np.random.default_rng([seed, 1])
            rewards = log.rewards + 0.3 * rng.standard_t(3, size=log.rewards.shape)
            log = eq.offline.Log(None, log.actions, rewards, continuous=True)
        started = time.process_time()
        advice = eq.offline.learn(log, critic=options.critic, key=seed)
        seconds = time.process_time() - started
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
        f"{(found <= 0.05).sum()} of {len(found)} true gaps are at most 0.05, the largest is "
        f"{found.max():.3f}; {(found > high).sum()} are above the interval, {(found < low).sum()} "
        f"below; median width {np.median(high - low):.3f}"
    )


if __name__ == "__main__":
    main()
