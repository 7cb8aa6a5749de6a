"""Families of games: distributions from which any number of games can be drawn.

A family is immutable and has no random state: `family.sample(n, key=k)` is a pure function of `n`
and `k`, and game `i` of a sample does not depend on the number of games requested. Rewards are
always within [0, 1], as the in-context paper assumes.

A family combines a distribution of rewards with, for Markov games, a distribution of transitions.
The functions at the end of this module build families.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from equipoise.core import InputError, checks
from equipoise.core.errors import named_arguments
from equipoise.core.values import Value, frozen, is_array, register_all, static
from equipoise.games._interaction_families import (
    InteractionFamily,
    congestion,
    interaction_rank,
    network,
    polymatrix,
    zero_sum_polymatrix,
)
from equipoise.games._listed_games import ListedGames, range_of, read_games, scaled
from equipoise.games._markov import MarkovGame
from equipoise.games._matrix import MatrixGame
from equipoise.games._mixed_families import KINDS, MixedRewards, check_kinds

if TYPE_CHECKING:
    import jax

__all__ = [
    "KINDS",
    "Draw",
    "Family",
    "InteractionFamily",
    "ListedGames",
    "congestion",
    "gaussian",
    "interaction_rank",
    "mixture",
    "network",
    "of",
    "perturbed",
    "polymatrix",
    "uniform",
    "zero_sum_polymatrix",
]

#: Games are drawn in blocks of at most this many games and this many numbers.
BLOCK_GAMES = 256
BLOCK_ENTRIES = 1 << 20


class Draw(Value):
    """A distribution of one array: the rewards of a game, or its transitions.

    Subclass it to write a family of your own, and pass an instance to `Family`. The call must be
    a pure function of the key that JAX can trace and `vmap`. Rewards have the shape (rows, columns)
    or (states, rows, columns) and lie in [0, 1]. Transitions have one more axis, of next states,
    which sums to one. Parameters are fields of the class.

    **Example**

    >>> import jax, equipoise as eq
    >>> class Powers(eq.games.families.Draw):
    ...     power: float
    ...
    ...     def __call__(self, key, shape):
    ...         return jax.random.uniform(key, shape) ** self.power
    >>> family = eq.games.families.Family("powers", (3, 3), Powers(4.0))
    >>> family.sample(10, key=0).payoff.shape
    (10, 3, 3)
    """

    _noun: ClassVar[str] = "draw"

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.kind = cls.__name__

    @abstractmethod
    def __call__(self, key: "jax.Array", shape: tuple[int, ...]) -> "jax.Array":
        """Draw one array of the given shape."""


class UniformRewards(Draw):
    """Independent rewards, uniform on [0, 1]."""

    def __call__(self, key: "jax.Array", shape: tuple[int, ...]) -> "jax.Array":
        """Draw the rewards of one game."""
        import jax

        return jax.random.uniform(key, shape)


class GaussianRewards(Draw):
    """Independent rewards, Gaussian conditioned on [0, 1] (truncated, not clipped)."""

    mean: float
    scale: float

    def __call__(self, key: "jax.Array", shape: tuple[int, ...]) -> "jax.Array":
        """Draw the rewards of one game."""
        import jax
        import jax.numpy as jnp

        low, high = (0.0 - self.mean) / self.scale, (1.0 - self.mean) / self.scale
        z = jax.random.truncated_normal(key, low, high, shape)
        return jnp.clip(self.mean + self.scale * z, 0.0, 1.0)


class PerturbedRewards(Draw):
    """The rewards of a base game plus uniform noise on [-scale, scale], clipped to [0, 1]."""

    base: "np.ndarray | jax.Array"
    scale: float
    #: Rewards of the base game as it was, which became 0 and 1.
    reward_range: tuple[float, float] = static(default=(0.0, 1.0))

    def __call__(self, key: "jax.Array", shape: tuple[int, ...]) -> "jax.Array":
        """Draw the rewards of one game."""
        import jax
        import jax.numpy as jnp

        noise = jax.random.uniform(key, shape, minval=-self.scale, maxval=self.scale)
        return jnp.clip(self.base + noise, 0.0, 1.0)


class DirichletTransitions(Draw):
    """Independent next-state distributions, Dirichlet with one concentration for all states.

    Concentration 1 is uniform on the simplex and makes games nearly myopic (every action leads
    almost everywhere); 0.1 makes transitions nearly deterministic, so that dynamics matter.
    """

    concentration: float = static()

    def __call__(self, key: "jax.Array", shape: tuple[int, ...]) -> "jax.Array":
        """Draw the transitions of one game."""
        import jax
        import jax.numpy as jnp

        if self.concentration == 1.0:  # the usual case; avoids the rejection loop below
            p = jax.random.exponential(key, shape)
        else:
            p = jax.random.dirichlet(key, jnp.full(shape[-1], self.concentration), shape[:-1])
        return p / p.sum(-1, keepdims=True)


class PerturbedTransitions(Draw):
    """(base + scale * uniform draw from the simplex) / (1 + scale)."""

    base: "np.ndarray | jax.Array"
    scale: float

    def __call__(self, key: "jax.Array", shape: tuple[int, ...]) -> "jax.Array":
        """Draw the transitions of one game."""
        import jax.numpy as jnp

        noise = DirichletTransitions(1.0)(key, shape)
        p = jnp.asarray(self.base) + self.scale * noise
        return p / p.sum(-1, keepdims=True)


#: Parts of a family that its plain form may hold, by kind.
_PARTS: dict[str, type[Value]] = {
    part.kind: part
    for part in (
        *(UniformRewards, GaussianRewards, PerturbedRewards, MixedRewards, ListedGames),
        *(DirichletTransitions, PerturbedTransitions, MatrixGame, MarkovGame),
    )
}


class Family(Value):
    """A distribution over games of one shape. Build one with the functions of this module.

    **Example**

    >>> import equipoise as eq
    >>> family = eq.games.families.uniform(actions=3, states=5, discount=0.9)
    >>> family.name, family.sample(10, key=0).transition.shape
    ('uniform', (10, 5, 3, 3, 5))
    >>> family.symmetric, eq.games.families.uniform(actions=(2, 3)).symmetric
    (True, False)
    """

    #: Name of the family in tables and run folders.
    name: str = static()
    #: (rows, columns)
    actions: tuple[int, int] = static()
    #: Draws the rewards of a game.
    rewards: Draw | MixedRewards | ListedGames
    #: Number of states of a Markov game; None for matrix games.
    states: int | None = static(default=None)
    #: Discount factor of a Markov game.
    discount: float = static(default=0.0)
    #: Draws the transitions of a Markov game; None for matrix games.
    transitions: Draw | None = None
    #: The game the family is centred on, if any.
    base: MatrixGame | MarkovGame | None = None
    #: Whether rewards are independent and, with equal numbers of actions, `r` and `1 - r` have the
    #: same law, so that swapping the players leaves the family unchanged. False around a base game.
    symmetric: bool = static(default=False)

    @classmethod
    def _restored(cls, name: str, plain: Any) -> Any:
        if not isinstance(plain, Mapping):
            return super()._restored(name, plain)
        kind = str(plain.get("kind"))[:40]
        if kind not in _PARTS:
            raise InputError(f"{name}.kind", f"one of {', '.join(_PARTS)}", repr(kind))
        return _PARTS[kind].from_plain(plain)

    @property
    def reward_range(self) -> tuple[float, float]:
        """The rewards that became 0 and 1: what `play` needs as `reward_range` for such games."""
        return getattr(self.rewards, "reward_range", (0.0, 1.0))

    @property
    def held_out(self) -> "Family":
        """The family of the games that training must not see.

        It is the family itself unless the games are listed (`of`), since otherwise every draw is a
        new game.
        """
        if not isinstance(self.rewards, ListedGames):
            return self
        if self.rewards.held_out is None:
            expected = "a family with held-out games, from families.of(games, held_out=0.2)"
            raise InputError("family", expected, f"none in {self.name!r}")
        return replace(self, rewards=self.rewards.held_out)

    def draw(self, key: "jax.Array") -> MatrixGame | MarkovGame:
        """Draw one game from one JAX key; may be traced, `vmap`ped and compiled."""
        labels = None if self.base is None else self.base.labels
        if self.states is None:
            return MatrixGame(self.rewards(key, self.actions), labels=labels)
        shape = (self.states, *self.actions)
        if isinstance(self.rewards, MixedRewards | ListedGames):
            return MarkovGame(*self.rewards.markov(key, shape), self.discount)
        if self.transitions is None:
            raise InputError("transitions", "the transitions of a family of Markov games", None)
        import jax

        reward_key, transition_key = jax.random.split(key)
        return MarkovGame(
            self.rewards(reward_key, shape),
            self.transitions(transition_key, (*shape, self.states)),
            self.discount,
            labels=labels,
        )

    def sizes(self, key: "jax.Array") -> tuple[Any, Any, Any]:
        """Return the numbers of actions and states in use in the game that `draw` makes of a key.

        A matrix game counts as one state.
        """
        if isinstance(self.rewards, MixedRewards):
            rows, columns = self.rewards.sizes(key, self.actions)
            return rows, columns, self.rewards.places(key, self.states or 1)
        return *self.actions, self.states or 1

    def sample(self, games: int | None = None, *, key: Any) -> Any:
        """Draw a batch of `games` games, or a single one when `games` is None.

        **Example**

        >>> import equipoise as eq
        >>> eq.games.families.uniform(actions=3).sample(1000, key=0).payoff.shape
        (1000, 3, 3)
        """
        count = 1 if games is None else checks.check_count("games", games)
        sizes = (8, 3, count, *self.actions, (self.states or 1) ** 2)
        checks.check_memory("games", sizes, "the games", "draw fewer or smaller games")
        # The block size does not depend on the number of games requested.
        entries = self.actions[0] * self.actions[1] * (self.states or 1) ** 2
        if isinstance(self.rewards, ListedGames):
            drawn = self._listed(count, key)
        else:
            drawn = _drawn(self, count, max(1, min(BLOCK_GAMES, BLOCK_ENTRIES // entries)), key)
        return drawn[0] if games is None else drawn

    def _listed(self, count: int, key: Any) -> MatrixGame | MarkovGame:
        """Take listed games in random order, each once before any comes again."""
        from equipoise.core.randomness import as_key

        listed = self.rewards
        if not isinstance(listed, ListedGames):
            raise InputError("rewards", "a list of games", type(listed).__name__)
        labels = None if self.base is None else self.base.labels
        index = listed.order(count, as_key(key))
        reward = np.asarray(listed.reward, float)[index]
        if listed.transition is None:
            return MatrixGame(reward, labels=labels)
        moves = np.asarray(listed.transition, float)[index]
        return MarkovGame(reward, moves, self.discount, labels=labels)


def _drawn(family: Family, count: int, block: int, key: Any) -> Any:
    """Draw games in blocks of one size, which is compiled once."""
    import jax

    from equipoise.core.precision import double_precision
    from equipoise.core.randomness import as_key

    register_all()  # the family may be older than JAX
    key = as_key(key)
    leaves, structure = jax.tree.flatten(family)
    arrays = [leaf for leaf in leaves if is_array(leaf)]
    # Numbers are constants of the program; arrays are its arguments.
    numbers = tuple(None if is_array(leaf) else leaf for leaf in leaves)
    with double_precision():
        blocks = [
            _draw_block()((structure, numbers), arrays, key, np.arange(block) + start)
            for start in range(0, count, block)
        ]
        blocks = [jax.tree.map(np.asarray, part) for part in blocks]
    return frozen(jax.tree.map(lambda *parts: np.concatenate(parts)[:count], *blocks))


@cache
def _draw_block() -> Callable[..., Any]:
    """Return the program that draws a block of games.

    Compilers round differently for different sizes. Blocks of one size keep game i identical
    to the last bit however many games are drawn, and are compiled only once.
    """
    import jax

    def draw(fixed: Any, arrays: list[Any], key: Any, indices: Any) -> Any:
        structure, numbers = fixed
        rest = iter(arrays)
        leaves = [next(rest) if leaf is None else leaf for leaf in numbers]
        family = jax.tree.unflatten(structure, leaves)
        keys = jax.vmap(lambda i: jax.random.fold_in(key, i))(indices)
        return jax.vmap(family.draw)(keys)

    return jax.jit(draw, static_argnums=0)


def _family(
    name: str,
    rewards: Draw | MixedRewards,
    actions: int | tuple[int, int],
    states: int | None,
    discount: float,
    concentration: float,
    centred: bool = True,
) -> Family:
    rows, columns = (actions, actions) if isinstance(actions, int) else actions
    sizes = checks.check_count("actions", rows), checks.check_count("actions", columns)
    symmetric = centred and rows == columns
    if states is None:
        return Family(name, sizes, rewards, symmetric=symmetric)
    checks.check_discount(discount)
    checks.check_range("concentration", concentration, 0.0, np.inf, low_open=True, high_open=True)
    return Family(
        name,
        sizes,
        rewards,
        states=checks.check_count("states", states),
        discount=float(discount),
        transitions=DirichletTransitions(float(concentration)),
        symmetric=symmetric,
    )


@named_arguments
def uniform(
    actions: int | tuple[int, int] = 3,
    *,
    states: int | None = None,
    discount: float = 0.9,
    concentration: float = 1.0,
) -> Family:
    """Games with independent rewards, uniform on [0, 1]: nothing can be memorised.

    With `states`, these are Markov games with Dirichlet transitions of the given concentration.

    **Example**

    >>> import equipoise as eq
    >>> eq.games.families.uniform(actions=(2, 4)).sample(key=7).actions
    (2, 4)
    """
    return _family("uniform", UniformRewards(), actions, states, discount, concentration)


@named_arguments
def gaussian(
    actions: int | tuple[int, int] = 3,
    *,
    mean: float = 0.5,
    scale: float = 0.2,
    states: int | None = None,
    discount: float = 0.9,
    concentration: float = 1.0,
) -> Family:
    """Games with independent rewards, Gaussian and truncated to [0, 1].

    **Example**

    >>> import equipoise as eq
    >>> games = eq.games.families.gaussian(actions=3, scale=0.1).sample(100, key=0)
    >>> bool((games.payoff >= 0).all() and (games.payoff <= 1).all())
    True
    """
    checks.check_range("mean", mean, 0.0, 1.0)
    checks.check_range("scale", scale, 0.0, np.inf, low_open=True, high_open=True)
    rewards = GaussianRewards(float(mean), float(scale))
    return _family("gaussian", rewards, actions, states, discount, concentration, mean == 0.5)


@named_arguments
def mixture(
    actions: int | tuple[int, int] = 3,
    *,
    kinds: Any = None,
    fewest: int | None = None,
    states: int | None = None,
    discount: float = 0.9,
) -> Family:
    """Games of many kinds: the training distribution of the players `any` and `markov`.

    The kinds are "uniform", "normal", "sparse", "binary" (0/1), "narrow" (rewards from a short
    interval), "symmetric", "cyclic" (rock-paper-scissors of any size, perturbed), "dominated" (one
    action is another action minus a small amount), "known" (hide and seek, pursuit and others,
    perturbed) and "low-rank".

    **Arguments**

    - `kinds`: one name, several names, or a mapping from names to shares. Default: all kinds.
    - `fewest`: if given, each player has from `fewest` to `actions` actions, drawn for each game.
      All games have the shape of the largest. A player with fewer actions is padded with dominated
      ones, rows of 0 or columns of 1, which change no equilibrium value.
    - `states`: if given, Markov games: the rewards of every state are a matrix game, all of one
      kind. Transitions are Dirichlet with a concentration between 0.1 and 1 that differs from game
      to game. With `fewest`, games have from 2 to `states` states. A player with fewer actions is
      padded with copies of its first action, and padded states are never entered.

    **Example**

    >>> import equipoise as eq
    >>> games = eq.games.families.mixture(3, kinds="binary").sample(8, key=0)
    >>> sorted(set(games.payoff.ravel().tolist()))
    [0.0, 1.0]
    >>> eq.games.families.mixture(6, fewest=2).sample(8, key=0).actions
    (6, 6)
    """
    rewards = MixedRewards(tuple(check_kinds(kinds).items()), fewest)
    family = _family("mixture", rewards, actions, states, discount, 1.0)
    least = 2 if fewest is None else checks.check_count("fewest", fewest, at_least=2)
    if min(family.actions) < least:
        raise InputError("actions", f"at least {least} for each player", min(family.actions))
    return family


@named_arguments
def of(games: Any, *, held_out: float = 0.2, name: str = "listed", key: Any = 0) -> Family:
    """Return games of your own as a family, whose draws are games of the list.

    A share of the games is held out: draws never return them, `Family.held_out` is the family of
    these games, and `pretrain` selects weights and measures players on them. Rewards that are not
    in [0, 1] are moved into it, all games by the same factors: `Family.reward_range` has the
    smallest and the largest reward. `sample` takes games in random order, each once before any
    comes again.

    **Arguments**

    - `games`: a batch of matrix games or of Markov games, a list of games, or a folder with `.nfg`,
      `.csv` and `.npz` files. All games have one size.
    - `held_out`: share of the games that are held out, at least one game unless it is 0.
    - `name`: name of the family in tables and run folders.
    - `key`: key of the random split.

    **Example**

    >>> import numpy as np, equipoise as eq
    >>> tables = np.random.default_rng(0).integers(-5, 6, size=(10, 2, 3))
    >>> family = eq.games.families.of(eq.MatrixGame(tables))
    >>> family.actions, family.rewards.count, family.held_out.rewards.count, family.reward_range
    ((2, 3), 8, 2, (-5.0, 5.0))
    """
    import jax

    from equipoise.core.randomness import as_key

    checks.check_range("held_out", held_out, 0.0, 1.0, high_open=True)
    batch = read_games(games)
    rewards = batch.payoff if isinstance(batch, MatrixGame) else batch.reward
    count, reward_range = len(rewards), range_of(rewards)
    apart = max(1, round(held_out * count)) if held_out > 0.0 else 0
    if apart >= count:
        raise InputError("games", "at least two games, since some are held out", count)
    order = np.asarray(jax.random.permutation(as_key(key), count))
    moves = None if isinstance(batch, MatrixGame) else np.asarray(batch.transition)
    rewards = scaled(rewards, reward_range)

    def some(index: np.ndarray, held: ListedGames | None = None) -> ListedGames:
        own = None if moves is None else moves[index]
        return ListedGames(rewards[index], own, reward_range, held)

    held = some(np.sort(order[:apart])) if apart else None
    listed = some(np.sort(order[apart:]), held)
    rows, columns = batch.actions
    if isinstance(batch, MatrixGame):
        return Family(name, (rows, columns), listed)
    return Family(name, (rows, columns), listed, states=batch.states, discount=batch.discount)


@named_arguments
def perturbed(
    base: MatrixGame | MarkovGame, scale: float = 0.1, *, scale_rewards: bool = False
) -> Family:
    """Games near a base game: the in-context paper's family, where `scale` is its rho.

    Rewards are those of the base plus uniform noise on [-scale, scale], clipped to [0, 1].
    Transitions are those of the base mixed with a uniform draw from the simplex, with weights 1 and
    `scale`. The paper says only "perturbed ... with controlled perturbation magnitude"; this is our
    reading. With a small scale, memorising the base game's equilibrium already does well: use it
    as a baseline.

    With `scale_rewards`, the rewards of the base are first moved into [0, 1] if they are not in it.
    `Family.reward_range` then has the smallest and the largest of them, which `play` needs for
    games in the unit of the base.

    **Example**

    >>> import equipoise as eq
    >>> base = eq.games.families.uniform(actions=3).sample(key=0)
    >>> near = eq.games.families.perturbed(base, scale=0.1).sample(50, key=1)
    >>> bool(abs(near.payoff - base.payoff).max() <= 0.1)
    True
    """
    if not isinstance(base, MatrixGame | MarkovGame) or base.batch_shape:
        raise InputError("base", "one MatrixGame or MarkovGame", repr(base))
    checks.check_range("scale", scale, 0.0, np.inf, high_open=True)
    rewards = base.payoff if isinstance(base, MatrixGame) else base.reward
    if not isinstance(base, MatrixGame):
        base.check_stationary_zero_sum("base")
    reward_range = range_of(rewards)
    if reward_range != (0.0, 1.0) and not scale_rewards:
        low, high = np.min(rewards), np.max(rewards)
        hint = "scale_rewards=True moves them into it"
        raise InputError("base", "rewards in [0, 1]", f"[{low:.6g}, {high:.6g}]", hint)
    if reward_range != (0.0, 1.0):
        rewards = scaled(rewards, reward_range)
        if isinstance(base, MatrixGame):
            base = MatrixGame(rewards, labels=base.labels)
        else:
            base = MarkovGame(rewards, base.transition, base.discount, labels=base.labels)
    draw = PerturbedRewards(rewards, float(scale), reward_range)
    if isinstance(base, MatrixGame):
        return Family("perturbed", base.actions, draw, base=base)
    rows, columns = base.actions
    return Family(
        "perturbed",
        (rows, columns),
        draw,
        states=base.states,
        discount=base.discount,
        transitions=PerturbedTransitions(base.transition, float(scale)),
        base=base,
    )
