"""Exact unilateral gains, independent of whoever made the policy.

This package never imports a solver or a learner.
"""

from equipoise.certificates._aggregative import AggregativeCertificate
from equipoise.certificates._certify import certify
from equipoise.core.results import Certificate

__all__ = ["AggregativeCertificate", "Certificate", "certify"]
