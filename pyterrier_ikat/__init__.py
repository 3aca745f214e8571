"""PyTerrier operators for conversational search with a personal knowledge base (TREC iKAT).

>>> import pyterrier as pt, pyterrier_ikat as ikat
>>> llm = ikat.llm("recorded:sample")
>>> ikat.Answer(llm) >> ikat.MultiQuery(llm, given="answer")
(ikat.Answer(ikat.llm('recorded:sample')) >> ikat.Queries(ikat.llm('recorded:sample'), given='answer') >> ikat.Expand())
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from . import evaluate, methods, runs
from .conversations import TextLoader, conversation
from .conversations.chunker import chunk_documents
from .conversations.passage_files import PassageFiles
from .errors import DataError, IkatError, UsageError
from .evaluate import Judge, agreement, breakdown, experiment, measures, merge_qrels, pool
from .fuse import RRF, Interleave, MeanScore, Pool, RerankBy, Union
from .generate import (
    AllUtterances,
    Answer,
    Append,
    Clarify,
    Expand,
    HistoricalQueryExpansion,
    MultiQuery,
    PassageQueries,
    Queries,
    Resolved,
    Respond,
    Rewrite,
    SelectStatements,
    Seq2SeqRewrite,
    StatementQueries,
    Suggest,
    Summarise,
    Utterance,
    WithStatements,
)
from .llm import llm
from .methods import method
from .planning import plan
from .profiling import profile
from .rank import BiEncoder, CrossEncoder, Ensemble, MonoT5, RankStatements, Rerank, reranker
from .retrieve import RM3, PassageIndex, Splade, SpladeIndex
from .retrieve.ciff import import_ciff
from .retrieve.parts import MergeTop

if TYPE_CHECKING:
    from . import show, submit
    from .chat import Chat
    from .distribute import on_ray
    from .show import Report, report

__version__ = "0.1.0"

__all__ = [
    "AllUtterances",
    "Answer",
    "Append",
    "BiEncoder",
    "Chat",
    "Clarify",
    "CrossEncoder",
    "DataError",
    "Ensemble",
    "Expand",
    "HistoricalQueryExpansion",
    "IkatError",
    "Interleave",
    "Judge",
    "MeanScore",
    "MergeTop",
    "MonoT5",
    "MultiQuery",
    "PassageFiles",
    "PassageIndex",
    "PassageQueries",
    "Pool",
    "Queries",
    "RM3",
    "RRF",
    "RankStatements",
    "Report",
    "Rerank",
    "RerankBy",
    "Resolved",
    "Respond",
    "Rewrite",
    "SelectStatements",
    "Seq2SeqRewrite",
    "Splade",
    "SpladeIndex",
    "StatementQueries",
    "Suggest",
    "Summarise",
    "TextLoader",
    "Union",
    "UsageError",
    "Utterance",
    "WithStatements",
    "agreement",
    "breakdown",
    "chunk_documents",
    "conversation",
    "evaluate",
    "experiment",
    "import_ciff",
    "llm",
    "measures",
    "merge_qrels",
    "method",
    "methods",
    "on_ray",
    "plan",
    "pool",
    "profile",
    "report",
    "reranker",
    "runs",
    "show",
    "submit",
]

_LATER = {"Chat": "chat", "Report": "show", "on_ray": "distribute", "report": "show", "show": "", "submit": ""}
"""Name -> module, of what most processes don't use: loaded at first use, so that the package starts faster."""


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(f".{_LATER[name] or name}", __name__)
    found = getattr(module, name) if _LATER[name] else module
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
