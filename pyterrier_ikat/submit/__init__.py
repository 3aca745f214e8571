"""Submissions to TREC iKAT and predictions for MTRAG: written, checked and read back."""

from ..names import asked_for
from .checks import validate
from .predictions import check_predictions, read_predictions, write_predictions, write_reports
from .problem import Problem, RefusedError
from .submissions import (
    ResponseCutWarning,
    Submission,
    UncitedWarning,
    read_submission,
    write_submission,
)

__all__ = [
    "Problem",
    "RefusedError",
    "ResponseCutWarning",
    "UncitedWarning",
    "Submission",
    "check_predictions",
    "read_predictions",
    "read_submission",
    "validate",
    "write_predictions",
    "write_reports",
    "write_submission",
]

__getattr__ = asked_for(__name__, __all__)
