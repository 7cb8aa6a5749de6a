"""Pure functions of JAX arrays, for use inside `jit`, `vmap`, `grad` and `shard_map`.

`equipoise.solve` and `equipoise.certify` work on concrete games: they validate, choose methods and
decide a status, none of which is possible with traced values. The functions here do none of that.
They take and return JAX arrays, on the device and in the precision of their input, and are
differentiable, so that an equilibrium can be a layer of a neural network.
"""

from equipoise.core.values import register_all
from equipoise.pure._matrix import ZeroSum, gains, normal_form_gains, zero_sum

register_all()  # games that are older than JAX

__all__ = ["ZeroSum", "gains", "normal_form_gains", "zero_sum"]
