"""What users may choose when solving an aggregative game, checked."""

from typing import Any

import numpy as np

from equipoise.aggregative._subroutine import Options
from equipoise.core import checks

OBJECTIVES = ("regret", "welfare", "loss")

#: What the options that are numbers may be instead.
_MAY_BE = {"spacing": (type(None),), "epsilon": (), "tolerance": (type(None), str)}


def as_options(
    width: float,
    *,
    objective: str,
    sense: str,
    spacing: float | None,
    epsilon: float,
    tolerance: float | str | None,
    rounding: str,
    key: int,
) -> Options:
    """Checked options; `width` is the widest side of the reachable aggregates."""
    check_kinds(objective=objective, spacing=spacing, epsilon=epsilon, tolerance=tolerance, key=key)
    if objective not in OBJECTIVES:
        raise ValueError(f"objective: expected one of {OBJECTIVES}, found {objective!r}")
    if sense not in ("max", "min"):
        raise ValueError(f"sense: expected 'max' or 'min', found {sense!r}")
    if rounding not in ("vertex", "sample"):
        raise ValueError(f"rounding: expected 'vertex' or 'sample', found {rounding!r}")
    if isinstance(tolerance, str) and tolerance != "printed":
        raise ValueError(f"tolerance: expected a number or 'printed', found {tolerance!r}")
    if tolerance is not None and not isinstance(tolerance, str):
        checks.check_range("tolerance", tolerance, 0.0, np.inf)
    checks.check_range("epsilon", epsilon, 0.0, np.inf, high_open=True)
    if sense == "min" and objective != "welfare":
        raise ValueError(f"sense: expected objective='welfare' with 'min', found {objective!r}")
    if epsilon > 0 and (objective == "regret" or tolerance is not None):
        raise ValueError(
            "epsilon: expected objective='welfare' or 'loss' with it and no tolerance, which "
            f"would replace it; found {objective!r} and {tolerance!r}"
        )
    if spacing is None:  # cells that are halved may begin large
        spacing = (0.25 if objective == "regret" and tolerance is None else 0.05) * width or 1.0
    checks.check_range("spacing", spacing, 0.0, np.inf, low_open=True, high_open=True)
    return Options(
        objective="welfare" if objective == "loss" else objective,
        maximise=sense == "max" and objective != "loss",
        spacing=float(spacing),
        epsilon=float(epsilon),
        tolerance=tolerance,
        rounding=rounding,
        rng=np.random.default_rng(key),
    )


def check_kinds(**options: Any) -> None:
    """Refuse words where numbers are expected, and so on, before their size is looked at.

    >>> check_kinds(objective="welfare", spacing="wide")
    Traceback (most recent call last):
    ...
    ValueError: spacing: expected a number, found 'wide'
    """
    for name, value in options.items():
        if name == "key":
            checks.check_count(name, value, at_least=0)
        elif name == "objective" and not isinstance(value, str):
            raise ValueError(f"{name}: expected one of {OBJECTIVES}, found {value!r}")
        elif name in _MAY_BE and not (_is_number(value) or isinstance(value, _MAY_BE[name])):
            raise ValueError(f"{name}: expected a number, found {value!r}")


def _is_number(value: Any) -> bool:
    real = isinstance(value, int | float | np.integer | np.floating)
    return real and not isinstance(value, bool)


def as_worth(
    objective: str, welfare: Any, loss: Any, shape: tuple[int, ...], meaning: str
) -> np.ndarray | None:
    """The weights of the objective, or None for the agents' own rewards."""
    check_kinds(objective=objective)
    given = {"welfare": welfare, "loss": loss}
    for name, value in given.items():
        if value is not None and objective != name:
            raise ValueError(f"{name}: expected objective={name!r} with it, found {objective!r}")
    if objective == "loss" and loss is None:
        raise ValueError(f"loss: expected an array of shape {shape}, {meaning}; found None")
    value = given.get(objective)
    if value is None:
        return None
    array = np.asarray(checks.as_float_array(objective, value), np.float64)
    full = shape[-2:]
    if array.shape != full and array.shape != shape:
        raise ValueError(
            f"{objective}: expected shape {full} or {shape}, {meaning}; found {array.shape}"
        )
    checks.check_finite(objective, array)
    return array
