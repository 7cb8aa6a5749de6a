"""Solve 100,000 random games in one call; each has its own certificate."""

import time

import equipoise as eq

games = eq.games.families.uniform(actions=3).sample(100_000, key=0)
eq.solve(games)  # compiles the solver
start = time.perf_counter()
solution = eq.solve(games)
seconds = time.perf_counter() - start

gap = solution.certificate.nash_conv
pure = (solution.policy[0].max(-1) > 1 - 1e-9) & (solution.policy[1].max(-1) > 1 - 1e-9)
print(f"{gap.size / seconds:,.0f} games per second, certificates included")
print(f"largest NashConv {gap.max():.1e}, in game {gap.argmax()}")
print(f"{pure.mean():.1%} have a pure equilibrium (in theory 30%)")
