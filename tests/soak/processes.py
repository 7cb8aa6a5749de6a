"""Random Markov games given by tables, with their certificates and their exact gains."""

from fractions import Fraction

import numpy as np

import equipoise as eq
from soak.exact import DISCOUNTS, Case, case, chances, exact, payoffs, solve_exactly, strategies


def markov(rng: np.random.Generator, awkward: bool) -> Case:
    """A zero-sum Markov game without end, with best responses by policy iteration in rationals."""
    states, rows, columns = (int(n) for n in rng.integers(1, 4, size=3))
    discount = float(rng.choice(DISCOUNTS))
    reward = payoffs(rng, (states, rows, columns), awkward)
    transition = strategies(rng, (states, rows, columns, states), awkward)
    x, y = strategies(rng, (states, rows), awkward), strategies(rng, (states, columns), awkward)
    game = eq.MarkovGame(reward, transition, discount)
    return case(eq.certify(game, (x, y)), markov_gains(game, x, y), reward, discount)


def markov_gains(game: eq.MarkovGame, x: np.ndarray, y: np.ndarray) -> list[Fraction]:
    """Exact gains of the worst starting state."""
    p, q = chances(x), chances(y)
    joint = (p[:, :, None] * q[:, None, :])[None]
    reward = exact(game.reward)
    return process_gains(
        np.stack([reward, -reward]), chances(game.transition), joint, Fraction(game.discount)
    )


def general_markov(rng: np.random.Generator, awkward: bool) -> Case:
    """A Markov game of two or three players, with or without end, and a policy of some steps."""
    players = int(rng.integers(2, 4))
    actions = tuple(int(n) for n in rng.integers(1, 4 if players == 2 else 3, size=players))
    states = int(rng.integers(1, 4 if players == 2 else 3))
    horizon = int(rng.integers(1, 4)) if rng.random() < 0.4 else None
    discount = float(rng.choice(DISCOUNTS)) if horizon is None or rng.random() < 0.5 else 1.0
    shape = (states, *actions)
    zero_sum = players == 2 and rng.random() < 0.3
    reward = payoffs(rng, shape if zero_sum else (players, *shape), awkward)
    transition = strategies(rng, (*shape, states), awkward)
    game = eq.MarkovGame(reward, transition, discount, horizon=horizon)
    steps = int(rng.integers(1, 4)) if horizon is None else horizon
    if rng.random() < 0.4:
        profile = [strategies(rng, (steps, states, n), awkward) for n in actions]
        policy, concept = eq.Profile(profile), "nash"
        joint = np.full((steps, *shape), Fraction(1))
        for i, own in enumerate(profile):
            others = [1 if j != i else actions[i] for j in range(players)]
            joint = joint * chances(own).reshape(steps, states, *others)
    else:
        flat = strategies(rng, (steps, states, int(np.prod(actions))), awkward)
        policy = eq.JointPolicy(flat.reshape(steps, *shape), players)
        concept = str(rng.choice(["cce", "ce"]))
        joint = chances(flat).reshape(steps, *shape)
    certificate = eq.certify(game, policy, concept=concept)
    table = np.stack([reward, -reward]) if zero_sum else reward
    gamma, finite = Fraction(discount), horizon is not None
    truth = process_gains(exact(table), chances(transition), joint, gamma, concept, finite=finite)
    worst = 0.0 if finite else discount
    return case(certificate, truth, table, worst)


def process_gains(
    reward: np.ndarray,
    transition: np.ndarray,
    joint: np.ndarray,
    gamma: Fraction,
    concept: str = "nash",
    *,
    finite: bool = False,
) -> list[Fraction]:
    """Exact gains of every player, from its worst state on.

    `reward` is (players, states, A_1, ...), `joint` (steps, states, A_1, ...); without end the
    last step is repeated for ever.
    """
    truth = []
    for i in range(len(reward)):
        own = _own_first(reward[i], i, 1)
        moves = np.moveaxis(transition, 1 + i, 1).reshape(*own.shape, -1)
        plan = _own_first(joint, i, 2)
        told = plan if concept == "ce" else plan.sum(2, keepdims=True)
        states = len(own)
        value, best = (np.full(states, Fraction(0)) for _ in range(2))
        last = len(plan)
        if not finite:
            last -= 1
            value = solve_exactly(*_chain(own, moves, plan[-1]), gamma)
            best = _for_ever(own, moves, told[-1], gamma)
        for h in reversed(range(last)):
            earned, chain = _chain(own, moves, plan[h])
            value = earned + gamma * (chain @ value)
            worth = _replies(own + gamma * (moves @ best), told[h])
            best = np.array([sum(max(row) for row in state) for state in worth])
        truth.append(max(best - value))
    return truth


def _own_first(table: np.ndarray, player: int, lead: int) -> np.ndarray:
    moved = np.moveaxis(table, lead + player, lead)
    return moved.reshape(*moved.shape[: lead + 1], -1)


def _chain(own: np.ndarray, moves: np.ndarray, plan: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.einsum("sab,sab->s", own, plan), np.einsum("sab,sabt->st", plan, moves)


def _replies(worth: np.ndarray, told: np.ndarray) -> np.ndarray:
    """(states, recommendations, actions): what each reply to each recommendation adds."""
    return np.einsum("sab,srb->sra", worth, told)


def _for_ever(own: np.ndarray, moves: np.ndarray, told: np.ndarray, gamma: Fraction) -> np.ndarray:
    """Value of the best reply to a stationary policy: policy iteration ends at the optimum."""
    states, heard = told.shape[:2]
    choice = np.zeros((states, heard), int)
    earned = _replies(own, told)
    ahead = np.einsum("sabt,srb->srat", moves, told)
    here = np.indices((states, heard))
    while True:
        chosen = (*here, choice)
        value = solve_exactly(earned[chosen].sum(1), ahead[chosen].sum(1), gamma)
        worth = earned + gamma * (ahead @ value)
        current = worth[chosen]
        best = np.array([[max(row) for row in state] for state in worth])
        if not (best > current).any():
            return value
        first = [[list(row).index(max(row)) for row in state] for state in worth]
        choice = np.where(best > current, first, choice)
