"""Annotations of arrays with their shapes, such as `Float[np.ndarray, "games rows"]`.

They are jaxtyping's wherever they can be checked: in type checkers, and in processes that have
loaded jaxtyping and JAX before this library, as the tests do. Elsewhere an annotation is the type
of the array without its shape, since importing jaxtyping takes longer than importing NumPy.
"""

import sys
from typing import TYPE_CHECKING, Any

__all__ = ["Array", "Bool", "Float", "Int"]

if TYPE_CHECKING or {"jax", "jaxtyping"} <= sys.modules.keys():
    from jaxtyping import Array, Bool, Float, Int
else:

    class _WithoutShape:
        def __class_getitem__(cls, parts: tuple[Any, str]) -> Any:
            return parts[0]

    Array = Any
    Bool = Float = Int = _WithoutShape
