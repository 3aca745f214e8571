"""The common interface to language models: backends, cache, ledger, budget and typed failures."""

from .backend import Backend
from .failures import (
    BadRequest,
    BatchUnderWay,
    BudgetExceeded,
    CutOff,
    Empty,
    FatalLLMError,
    Filtered,
    LLMFailure,
    NotStructured,
    OnlyReasoning,
    Refused,
    StageError,
    TooLong,
    Transient,
    Unavailable,
    Unfinished,
)
from .ledger import Ledger
from .model import LLM
from .request import Completion, Reply, Request
from .spec import llm

__all__ = [
    "LLM",
    "Backend",
    "BadRequest",
    "BatchUnderWay",
    "BudgetExceeded",
    "Completion",
    "CutOff",
    "Empty",
    "FatalLLMError",
    "Filtered",
    "LLMFailure",
    "Ledger",
    "NotStructured",
    "OnlyReasoning",
    "Refused",
    "Reply",
    "Request",
    "StageError",
    "TooLong",
    "Transient",
    "Unavailable",
    "Unfinished",
    "llm",
]
