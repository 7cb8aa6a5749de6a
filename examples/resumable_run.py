"""Run a learner in a run folder: stop it in any way, start it again, and get the same result.

Both players of rock, paper, scissors with unequal wins use multiplicative weights with the expected
rewards of all actions. The average of their play approaches the equilibrium.

    python examples/resumable_run.py runs/weights
"""

import sys

import numpy as np

import equipoise as eq
from equipoise.runs import Record, Run, interruptible, progress

CONFIG = {"game": "biased-rock-paper-scissors", "rounds": 10_000, "step": 0.002, "every": 50}


def softmax(scores: np.ndarray) -> np.ndarray:
    weights = np.exp(scores - scores.max())
    return weights / weights.sum()


def main(folder: str) -> None:
    game = eq.games.load(CONFIG["game"])
    payoff = np.asarray(game.payoff)
    with Run.start(folder, CONFIG) as run, interruptible() as stop:
        if run.finished:
            print(f"{folder} is finished: NashConv {run.record().scalars['nash_conv']:.4f}")
            return
        zeros = [np.zeros(3), np.zeros(3)]
        state = run.restore({"scores": zeros, "sums": zeros})
        left = CONFIG["rounds"] - run.step
        with progress("learning", total=left) as bar:
            for step in range(run.step + 1, CONFIG["rounds"] + 1):
                if stop:
                    print(f"stopped at round {step}; start again to continue")
                    return
                x, y = (softmax(CONFIG["step"] * scores) for scores in state["scores"])
                rewards = (payoff @ y, -payoff.T @ x)
                state = {
                    "scores": [s + r for s, r in zip(state["scores"], rewards, strict=True)],
                    "sums": [s + p for s, p in zip(state["sums"], (x, y), strict=True)],
                }
                bar.advance()
                if step % CONFIG["every"] == 0:
                    average = [s / step for s in state["sums"]]
                    certificate = eq.certify(game, average)
                    run.log(step, nash_conv=certificate.nash_conv, policy=average[0])
                    run.checkpoint(step, state)
        rows = run.metrics()
        record = Record(
            "multiplicative weights",
            CONFIG,
            {"nash_conv": rows[-1]["nash_conv"]},
            {
                "rounds": [row["step"] for row in rows],
                "nash_conv": [row["nash_conv"] for row in rows],
                "policy": [row["policy"] for row in rows],
                "equilibrium": eq.solve(game).policy[0],
            },
        )
        run.finish(record)
        print(f"NashConv of the average play: {record.scalars['nash_conv']:.4f}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "runs/weights")
