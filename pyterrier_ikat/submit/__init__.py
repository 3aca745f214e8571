"""Submissions to TREC iKAT and predictions for MTRAG: written, checked and read back."""

from ..names import module_getattr
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

__getattr__ = module_getattr(__name__, __all__)
