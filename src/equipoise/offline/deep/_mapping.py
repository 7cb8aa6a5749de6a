"""One function, every trial and every agent: side by side on a GPU, in turn on a CPU."""

from collections.abc import Callable
from typing import Any

import jax


def side_by_side() -> bool:
    """Whether many small networks are best computed at once.

    A GPU wants them all in one operation. On a CPU, one agent's networks fit its caches and all
    together do not: one after the other is two to three times as fast.
    """
    return jax.default_backend() != "cpu"


def over_agents(function: Callable[..., Any], vectorised: bool) -> Callable[..., Any]:
    """Map `function(per_trial_and_agent, per_trial, per_agent)` over both.

    Arrays of the first argument have axes (trials, agents, ...), of the second (trials, ...), of
    the third (agents, ...).

    >>> import jax.numpy as jnp
    >>> add = over_agents(lambda x, y, z: x + y + z, vectorised=False)
    >>> add(jnp.zeros((2, 3)), jnp.array([10, 20]), jnp.arange(3)).tolist()
    [[10.0, 11.0, 12.0], [20.0, 21.0, 22.0]]
    """
    if vectorised:
        return jax.vmap(jax.vmap(function, (0, None, 0)), (0, 0, None))

    def mapped(both: Any, trials: Any, agents: Any) -> Any:
        def one_trial(given: tuple[Any, Any]) -> Any:
            own, trial = given
            return jax.lax.map(lambda x: function(x[0], trial, x[1]), (own, agents))

        return jax.lax.map(one_trial, (both, trials))

    return mapped
