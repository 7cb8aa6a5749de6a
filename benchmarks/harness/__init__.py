"""Runs contenders in pinned processes, interleaved, and measures what they return.

Only `model` and `measures` are imported here: they need nothing but NumPy.
"""

from benchmarks.harness.measures import NotAPolicy
from benchmarks.harness.model import Answer, Arrays, Case, Contender, Skip, our_batched

__all__ = ["Answer", "Arrays", "Case", "Contender", "NotAPolicy", "Skip", "our_batched"]
