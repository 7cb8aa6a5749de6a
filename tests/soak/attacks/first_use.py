"""What people type first: wrong words, wrong learners, prints; each answer is judged by itself."""

import itertools
import re
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import jax.numpy as jnp
import numpy as np

import equipoise as eq
from equipoise.core import steps


def answer_of(call: Callable[[], Any]) -> tuple[Any, str, int]:
    """What a call returns or None, its error as text, and the number of lines of the error."""
    try:
        return call(), "", 0
    except Exception as error:
        text = "".join(traceback.format_exception_only(error)).strip()
        return None, text, len(text.splitlines())


def misspelt(rng: np.random.Generator, word: str) -> str:
    """A word with one letter lost, doubled, or swapped with the next."""
    i = int(rng.integers(1, len(word) - 1))
    ways = (word[:i] + word[i + 1 :], word[:i] + word[i] + word[i:])
    return (*ways, word[:i] + word[i + 1] + word[i] + word[i + 2 :])[int(rng.integers(3))]


def drawn_table(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """The tables of a bimatrix game."""
    shape = tuple(rng.integers(1, 5, 2))
    return rng.integers(-3, 4, shape).astype(float), rng.integers(-3, 4, shape).astype(float)


def bimatrix(seed: int, seconds: float) -> Iterator[str]:
    """Two tables are a bimatrix game, never two zero-sum games; gains by the definition."""
    end = time.perf_counter() + seconds
    for case in itertools.count():
        rng = np.random.default_rng([seed, case])
        first, second = drawn_table(rng)
        made, error, lines = answer_of(lambda a=first, b=second: eq.MatrixGame([a, b]))
        if made is not None or "NormalFormGame(A, B)" not in error or lines != 1:
            yield f"case {case}: MatrixGame([A, B]) is {made or error}"
        game = eq.NormalFormGame(first, second)
        x, y = rng.dirichlet(np.ones(first.shape[0])), rng.dirichlet(np.ones(first.shape[1]))
        gains = [(first @ y).max() - x @ first @ y, (x @ second).max() - x @ second @ y]
        if np.abs(eq.certify(game, (x, y)).gains - gains).max() > 1e-12:
            yield f"case {case}: gains of NormalFormGame(A, B) differ from {gains}"
        if time.perf_counter() > end:
            return


def words(seed: int, seconds: float) -> Iterator[str]:
    """Misspelt options are answered in one line with the right word."""
    table, omd = eq.MatrixGame([[3.0, -1.0], [-2.0, 1.0]]), eq.dynamics.OMD()
    calls: list[tuple[Callable[..., Any], str]] = [
        (lambda **more: eq.solve(table, **more), "tolerance concept objective time_limit"),
        (lambda **more: eq.certify(table, [[1, 0], [1, 0]], **more), "concept"),
        (lambda **more: eq.dynamics.play(table, omd, omd, **more), "rounds record seeds double"),
        (lambda **more: eq.MarkovGame([[[0.0]]], [[[[1.0]]]], **more), "discount horizon labels"),
        (lambda **more: eq.games.families.uniform(**more), "actions states concentration"),
        (lambda **more: eq.advise("none.csv", **more), "strength neighbours iterations"),
        (lambda **more: eq.Online(omd, **more), "actions discount reward_range"),
    ]
    end = time.perf_counter() + seconds
    for case in itertools.count():
        rng = np.random.default_rng([seed, case])
        call, known = calls[case % len(calls)]
        right = str(rng.choice(known.split()))
        wrong = misspelt(rng, right)
        if wrong != right:
            _, error, lines = answer_of(lambda call=call, wrong=wrong: call(**{wrong: 1}))
            if lines != 1 or f"did you mean {right}?" not in error:
                yield f"case {case}: {wrong}: {error[:200]}"
        if time.perf_counter() > end:
            return


class Constant(eq.dynamics.Learner):
    """Plays `chosen` in every round, whatever it is."""

    chosen: Any
    lifted: bool = True

    def init(self, spec: eq.dynamics.Spec) -> Any:
        """Zeros, which the loop gives its axes."""
        return jnp.zeros(spec.actions)

    def policy(self, state: Any) -> Any:
        """The same policy in every game."""
        chosen = jnp.asarray(self.chosen)
        more = state.shape[1:] if self.lifted else ()
        return jnp.broadcast_to(chosen.reshape(-1, *(1,) * len(more)), (*chosen.shape, *more))

    def update(self, state: Any, feedback: Any) -> Any:
        """Learn nothing."""
        return state


def learners(seed: int, seconds: float) -> Iterator[str]:
    """A learner's policy is played if it is one, and refused in one line otherwise."""
    games = eq.games.families.uniform(actions=3).sample(4, key=0)
    end = time.perf_counter() + seconds
    for case in itertools.count():
        rng = np.random.default_rng([seed, case])
        right = rng.dirichlet(np.ones(3)).astype(np.float32)
        wrong = {
            "boolean": right > 0.2,
            "negative": right + (right[1] + 0.1) * np.array([1.0, -1.0, 0.0]),
            "of another sum": right * (1.0 + rng.choice([-0.5, 0.01, 1.0])),
            "of another shape": rng.dirichlet(np.ones(int(rng.choice([2, 4])))),
            "not a number": np.where(np.arange(3) == rng.integers(3), np.nan, right),
        }
        name = sorted(wrong)[case % len(wrong)]
        history, other = bool(rng.integers(2)), eq.dynamics.Uniform()
        learner: Any = Constant(jnp.asarray(wrong[name]))  # arrays of NumPy become floats
        _, error, lines = answer_of(
            lambda learner=learner, history=history, other=other: eq.dynamics.play(
                games, learner, other, rounds=3, key=0, history=history
            )
        )
        if lines != 1 or "InputError: row: expected" not in error:
            yield f"case {case}: a policy {name} is answered by {error[:200] or 'play'}"
        bare: Any = Constant(right, False)
        _, error, lines = answer_of(
            lambda bare=bare, other=other: eq.dynamics.play(games, bare, other, rounds=3, key=0)
        )
        if lines != 1 or "InputError" not in error:
            yield f"case {case}: a policy without games is answered by {error[:200] or 'play'}"
        trace = eq.dynamics.play(games, Constant(right), other, rounds=3, key=case)
        gap = eq.certify(games, trace.last).nash_conv
        if np.abs(trace.last[0] - right).max() > 1e-6 or np.abs(gap - trace.curve[-1]).max() > 1e-9:
            yield f"case {case}: the policy {right} is played as {trace.last[0][0]}"
        if not jnp.issubdtype(steps.one_hot(jnp.array(0), 3).dtype, jnp.floating):
            yield "one_hot is no policy"
        if time.perf_counter() > end:
            return


#: Matches what printed text must not contain: internals of objects, 1e+04, negative zeros.
_INTERNAL = re.compile(
    r"array\(|dtype|[fi]64\[|<function|object at|\de\+0|(?<!\w)-0\.?0*\b(?!\.?\d)"
)


def prints(seed: int, seconds: float) -> Iterator[str]:
    """Texts are short, hold no internals, and say the names and the numbers of the result."""
    end = time.perf_counter() + seconds
    kinds = eq.games.names()
    for case in itertools.count():
        rng = np.random.default_rng([seed, case])
        first, second = drawn_table(rng)
        names = [[f"{p}{a}" for a in range(n)] for p, n in zip("ab", first.shape, strict=True)]
        labels = {"players": ["Ann", "Bob"], "actions": names}
        game: Any = eq.NormalFormGame(first, second, labels=labels)
        solution = eq.solve(game)
        likely = [names[i][int(np.argmax(p))] for i, p in enumerate(solution.policy)]
        if [word for word in ("Ann", "Bob", *likely) if word not in str(solution)]:
            yield f"case {case}: no names in {str(solution)!r}"
        found: list[Any] = [game, solution, solution.certificate, eq.equilibria(game)]
        if case < len(kinds):
            game = eq.games.load(kinds[case])
            solution = eq.solve(game, time_limit=5.0)
            found += [game, solution, solution.certificate]
            if game.describe() not in str(solution):
                yield f"case {case}: {kinds[case]}: no description in {str(solution)[:80]!r}"
        for result in found:
            lines = str(result).splitlines()
            wide = max(map(len, lines)) > 200 or len(lines) > 25
            if wide or _INTERNAL.search(str(result)):
                yield f"case {case}: {type(result).__name__}: {str(result)[:200]!r}"
        if time.perf_counter() > end and case >= len(kinds):
            return


ATTACKS = (bimatrix, words, learners, prints)
