"""The common interface to language models: backends, cache, ledger, budget and typed failures."""

from .backend import Backend
from .failures import (
    BatchUnderWay,
    BudgetExceeded,
    FatalLLMError,
    LLMFailure,
    StageError,
    Transient,
)
from .ledger import Ledger
from .model import LLM
from .request import Completion, Reply, Request
from .spec import llm

__all__ = [
    "LLM",
    "Backend",
    "BatchUnderWay",
    "BudgetExceeded",
    "Completion",
    "FatalLLMError",
    "LLMFailure",
    "Ledger",
    "Reply",
    "Request",
    "StageError",
    "Transient",
    "llm",
]
