"""Certificates of unilateral gains, computed independently of how the policy was found.

This package never imports a solver or a learner.
"""

from equipoise.certificates._certify import (
    certificate_from_plain,
    certify,
    solution_from_plain,
)
from equipoise.core.network_results import NetworkCertificate
from equipoise.core.results import AggregativeCertificate, Certificate, TableCertificate

__all__ = [
    "AggregativeCertificate",
    "Certificate",
    "NetworkCertificate",
    "TableCertificate",
    "certificate_from_plain",
    "certify",
    "solution_from_plain",
]
