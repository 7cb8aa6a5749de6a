"""Polynomial terms of three or more agents, listed one by one."""

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from scipy.sparse import csr_array

from equipoise.core import checks

#: How many numbers of products are held at once.
_CHUNK = 2_000_000
#: The highest power of an effect that is allowed.
MOST_POWER = 64


class Group(eqx.Module):
    """Terms of one order: (terms, order) scopes and powers, (contexts, terms) weights.

    The first agent of a scope is whose reward the term belongs to.
    """

    scopes: np.ndarray
    powers: np.ndarray
    weights: Any

    def widened(self, contexts: int) -> "Group":
        """The same terms in as many contexts."""
        shape = (contexts, len(self.scopes))
        return Group(self.scopes, self.powers, broadcast(self.weights, shape))

    @property
    def counts(self) -> bool:
        """Whether any term is not zero, as far as can be known."""
        return checks.is_traced(self.weights) or bool(self.weights.any())

    def rewards(self, xp: Any, context: int, powers: list[Any], x: Any) -> Any:
        """(..., agents): what the terms give at effects x (..., agents), with all their powers."""
        table = xp.stack([xp.ones_like(x), *powers[1:]], -2)  # (..., powers, agents)
        agents = x.shape[-1]
        columns = self.powers * agents + self.scopes
        flat = table.reshape(*x.shape[:-1], -1)
        if xp is np:
            return self._rewards_numpy(context, flat, columns, agents)
        product = xp.prod(flat[..., columns], -1) * self.weights[context]
        return xp.zeros_like(x).at[..., self.scopes[:, 0]].add(product)

    def _rewards_numpy(
        self, context: int, flat: np.ndarray, columns: np.ndarray, agents: int
    ) -> np.ndarray:
        terms = len(columns)
        owners = (self.scopes[:, 0], np.arange(terms))
        weights = np.asarray(self.weights[context], flat.dtype)
        summed = csr_array((weights, owners), shape=(agents, terms))
        result = np.empty((len(flat), agents), flat.dtype)
        size = max(1, _CHUNK // terms)
        for start in range(0, len(flat), size):
            # Samples last: a factor of a term is then one row, copied as a whole.
            part = np.ascontiguousarray(flat[start : start + size].T)
            product = part[columns[:, 0]]
            for factor in range(1, columns.shape[1]):
                product *= part[columns[:, factor]]
            result[start : start + size] = (summed @ product).T
        return result

    def add_expected(self, by_effect: np.ndarray, moments: np.ndarray) -> None:
        """Add expected weights of own powers to (contexts, agents, powers)."""
        met = np.array(self.weights, np.float64)
        for factor in range(1, self.scopes.shape[1]):
            met *= moments[:, self.scopes[:, factor], self.powers[:, factor]]
        for context in range(len(met)):
            np.add.at(by_effect[context], (self.scopes[:, 0], self.powers[:, 0]), met[context])


def broadcast(array: Any, shape: tuple[int, ...]) -> Any:
    """A view of a NumPy array in another shape; what is traced stays so."""
    return (jnp if checks.is_traced(array) else np).broadcast_to(array, shape)


def as_groups(groups: Mapping[Any, Any], agents: int) -> dict[int, Group]:
    """Checked terms by order."""
    return {order: _as_group(order, groups[order], agents) for order in sorted(groups)}


def _as_group(order: Any, given: Any, agents: int) -> Group:
    name = f"groups[{order}]"
    if not isinstance(order, int) or order < 3:
        raise ValueError(f"groups: expected orders >= 3, found {order!r}; pairs have their own")
    if not isinstance(given, tuple | list) or len(given) != 3:
        raise ValueError(f"{name}: expected (scopes, powers, weights), found {type(given)}")
    scopes, powers = np.asarray(given[0]), np.asarray(given[1])
    for what, array in (("scopes", scopes), ("powers", powers)):
        if array.dtype.kind not in "iu" or array.ndim != 2 or array.shape[1] != order:
            raise ValueError(
                f"{name}: expected {what} of shape (terms, {order}), whole numbers; found "
                f"{array.shape} of {array.dtype}"
            )
    if scopes.shape != powers.shape or not len(scopes):
        raise ValueError(
            f"{name}: expected powers for each of one or more scopes, found {powers.shape} and "
            f"{scopes.shape}"
        )
    _check_scopes(name, scopes, agents)
    wrong = (powers < 0) | (powers > MOST_POWER)
    if wrong.any():
        where = checks.first_index(wrong)
        raise ValueError(
            f"{name}: expected powers from 0 to {MOST_POWER}, found {powers[where]} at "
            f"{list(where)}"
        )
    weights = checks.as_float_array(name, given[2])
    shaped = weights[None] if weights.ndim == 1 else weights
    if shaped.ndim != 2 or shaped.shape[1] != len(scopes):
        raise ValueError(
            f"{name}: expected weights of shape ({len(scopes)},) or (contexts, {len(scopes)}), "
            f"found {weights.shape}"
        )
    checks.check_finite(name, shaped)
    return Group(scopes.astype(np.int64), powers.astype(np.int64), shaped)


def _check_scopes(name: str, scopes: np.ndarray, agents: int) -> None:
    wrong = (scopes < 0) | (scopes >= agents)
    if wrong.any():
        where = checks.first_index(wrong)
        raise ValueError(
            f"{name}: expected agents from 0 to {agents - 1}, found {scopes[where]} at "
            f"{list(where)}"
        )
    ordered = np.sort(scopes, 1)
    twice = (ordered[:, 1:] == ordered[:, :-1]).any(1)
    if twice.any():
        row = int(np.argmax(twice))
        raise ValueError(
            f"{name}: expected different agents in a scope, found {scopes[row].tolist()} at {row}; "
            "a power says how often an agent's action counts"
        )
