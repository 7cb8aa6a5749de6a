"""Pure functions of JAX arrays, for use inside `jit`, `vmap`, `grad` and `shard_map`.

`equipoise.solve` and `equipoise.certify` work on concrete games: they validate, choose methods and
decide a status, which a traced value cannot do. The functions here do none of that. They take and
return JAX arrays, on whatever device and in whatever precision these have, and can be
differentiated, so that an equilibrium can be a layer of somebody's network.
"""

from equipoise.pure._matrix import ZeroSum, gains, normal_form_gains, zero_sum

__all__ = ["ZeroSum", "gains", "normal_form_gains", "zero_sum"]
