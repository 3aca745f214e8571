"""Submissions to TREC iKAT 2023, 2024 and 2025: written, checked, and read back for evaluation."""

from .checks import validate
from .problem import Problem
from .reading import Submission, read_submission
from .writing import RefusedError, ResponseCutWarning, write_submission

__all__ = ["Problem", "RefusedError", "ResponseCutWarning", "Submission", "read_submission", "validate", "write_submission"]
