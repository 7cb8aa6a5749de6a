"""What every other part stands on: simplex steps, schedules, linear programs, checks, results.

This package imports third-party libraries only.
"""

from equipoise.core.errors import InputError
from equipoise.core.results import Certificate, Solution, Status

__all__ = ["Certificate", "InputError", "Solution", "Status"]
