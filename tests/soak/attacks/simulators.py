"""Learning from simulators and limits of many agents, against exact certificates of the game."""

import tempfile
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

import equipoise as eq
from equipoise.aggregative import Simulator, from_mean_field, learn, mean_field


def drawn(rng: np.random.Generator, *, declared: bool = True) -> Any:
    """A crowd with one to four coordinates and sine rewards, in one step or in several."""
    d, types, actions = rng.integers(1, 5), rng.integers(1, 4), rng.integers(2, 5)
    influence = rng.random((types, actions, d))
    base = rng.uniform(-0.3, 0.3, (2, types, actions))
    slopes = rng.uniform(-1.0, 1.0, (types, actions, d)) / d
    counts = rng.integers(5, 40, types)
    lipschitz = float(np.abs(slopes).sum(-1).max())

    def reward(h: int, s: int, x: np.ndarray) -> np.ndarray:
        return 0.6 * base[s] + 0.5 * np.sin((slopes * x).sum(-1))

    if rng.random() < 0.5:
        return eq.AggregativeGame(
            influence,
            lambda x: reward(0, 0, np.asarray(x)),
            0.5 * lipschitz if declared else None,
            counts=counts,
        )
    calm, busy = rng.dirichlet(np.ones(2), 2)
    return eq.AggregativeMarkovGame(
        influence,
        reward,
        lambda h, s, x: calm + np.clip(x[..., :1], 0, 1) * (busy - calm),
        int(rng.integers(1, 4)),
        2,
        counts,
        lipschitz=0.5 * lipschitz if declared else None,
        transition_lipschitz=float(0.5 * np.abs(busy - calm).sum()) if declared else None,
    )


def options_of(rng: np.random.Generator, game: Any) -> dict[str, Any]:
    """Options of a learner for a game."""
    objective = "welfare" if game.dimensions < 2 and rng.random() < 0.3 else "regret"
    return {
        "rewards": str(rng.choice(["known", "unknown"])),
        "noise": float(rng.choice([0.0, 0.1])),
        "pool": bool(rng.random() < 0.8),
        "objective": objective,
    }


def bounds_of_learners(seed: int, seconds: float) -> Iterator[str]:
    """No policy that was played gains more than its bound, or has a value outside its bounds."""
    end, case = time.perf_counter() + seconds, 0
    while case == 0 or time.perf_counter() < end:
        rng = np.random.default_rng([seed, case])
        game = drawn(rng)
        options = options_of(rng, game)
        env = Simulator(game, case, noise=options["noise"])
        # With this failure probability a violation is not bad luck.
        run = learn(env, int(rng.integers(1, 60)), history=True, failure=1e-9, **options)
        for began, policy, bounds in run.history:
            exact = eq.certify(game, policy)
            gains, value = np.atleast_2d(exact.class_gains.T), np.atleast_2d(exact.class_value.T)
            gains, value = (
                v.reshape(len(policy.counts), -1)[:, bounds.starts] for v in (gains, value)
            )
            low, high, gain = (
                getattr(bounds, name)[:, bounds.starts] for name in ("lower", "upper", "gain")
            )
            if (
                (gains > gain + 1e-9).any()
                or (value < low - 1e-9).any()
                or (value > high + 1e-9).any()
            ):
                yield f"case {case}, {options}: the policy of episode {began} leaves its bounds"
        exact = float(eq.certify(game, run.policy).max_gain)
        if exact > run.bound + 1e-9:
            yield f"case {case}, {options}: gain {exact:.4g} above the bound {run.bound:.4g}"
        case += 1


def sampled_constants(seed: int, seconds: float) -> Iterator[str]:
    """A learner proves nothing where constants were sampled."""
    end, case = time.perf_counter() + seconds, 0
    while case == 0 or time.perf_counter() < end:
        rng = np.random.default_rng([seed, case])
        run = learn(Simulator(drawn(rng, declared=False), case), 3)
        if run.confidence > 0 or "sampled" not in run.status.message:
            yield f"case {case}: confidence {run.confidence}, {run.status.message}"
        case += 1


def runs_that_stop(seed: int, seconds: float) -> Iterator[str]:
    """A run that time ended, and that is resumed, ends as one that was never stopped."""
    end, case = time.perf_counter() + seconds, 0
    while case == 0 or time.perf_counter() < end:
        rng = np.random.default_rng([seed, case])
        game = drawn(rng)
        options, episodes = options_of(rng, game), int(rng.integers(1, 120))
        noise = options["noise"]
        whole = learn(Simulator(game, case, noise=noise), episodes, **options)
        with tempfile.TemporaryDirectory() as folder:
            limits = [*rng.uniform(0, 0.3, 3), np.inf]
            for limit in limits:
                env = Simulator(game, case, noise=noise)
                run = learn(env, episodes, run=f"{folder}/run", time_limit=limit, **options)
                if float(eq.certify(game, run.policy).max_gain) > run.bound + 1e-9:
                    yield f"case {case}: stopped after {run.episodes}, above its bound"
                if run.status.ok != (run.episodes == episodes):
                    yield f"case {case}: {run.status.message} is called {run.status.name}"
        same = run.bound == whole.bound and run.width == whole.width
        if not (same and np.array_equal(run.policy.actions, whole.policy.actions)):
            yield f"case {case}, {options}: resumed and never stopped end differently"
        case += 1


def limits_of_many_agents(seed: int, seconds: float) -> Iterator[str]:
    """In the game of n agents, the limit's policy gains what the limit says, and rounding."""
    end, case = time.perf_counter() + seconds, 0
    while case == 0 or time.perf_counter() < end:
        rng = np.random.default_rng([seed, case])
        d, types, actions = rng.integers(1, 9), rng.integers(1, 5), rng.integers(2, 6)
        free = rng.uniform(0, 0.5, (types, actions))
        jam, counts = rng.uniform(0, 0.4, (actions, d)), rng.integers(2000, 9000, types)
        influence = np.broadcast_to(rng.random((actions, d)), (types, actions, d)).copy()
        game = eq.AggregativeGame(
            influence,
            lambda x, free=free, jam=jam: -(free + (jam * np.asarray(x)).sum(-1)),
            float(jam.sum(-1).max()),
            counts=counts,
            bounds=(-10, 0),
        )
        try:
            limit = mean_field(game)
        except eq.core.InputError as error:
            if "precision: expected a precision" not in str(error):
                raise
        else:
            gain = float(eq.certify(game, from_mean_field(game, limit.policy)).max_gain)
            # Numbers are off by less than one for each type and action.
            if gain > limit.gain + 2 * game.lipschitz * game.delta * (2 + types * actions):
                yield f"case {case}: gain {gain:.3g} where the limit says {limit.gain:.3g}"
        case += 1


ATTACKS = (bounds_of_learners, sampled_constants, runs_that_stop, limits_of_many_agents)
