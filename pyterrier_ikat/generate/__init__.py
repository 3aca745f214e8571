"""Queries, statements, responses: write queries, choose statements, decide whether to answer."""

from ..names import module_getattr
from .history import Enhance, Summarise
from .queries import ExplodeQueries, MultiQuery, PassageQueries, Queries, StatementQueries
from .respond import BestResponse, Condense, Decide, Respond
from .rewrite import (
    Answer,
    Clarify,
    OutlineAnswer,
    Reformulate,
    Rewrite,
    RewriteAndAnswer,
    RewriteByLevel,
    Seq2SeqRewrite,
)
from .sampled_queries import Aggregate, BestQuery, Samples
from .statements import AppendStatements, SelectStatements, ShowStatements, UpdatePtkb
from .utterances import (
    AllUtterances,
    AppendQuery,
    GivenQueries,
    HistoricalQueryExpansion,
    ManualRewrite,
    QueryColumn,
    RawUtterance,
)

__all__ = [
    "Aggregate",
    "BestQuery",
    "BestResponse",
    "Enhance",
    "Reformulate",
    "RewriteAndAnswer",
    "RewriteByLevel",
    "Samples",
    "AllUtterances",
    "Answer",
    "AppendQuery",
    "Clarify",
    "Condense",
    "Decide",
    "ExplodeQueries",
    "GivenQueries",
    "HistoricalQueryExpansion",
    "MultiQuery",
    "PassageQueries",
    "Queries",
    "ManualRewrite",
    "QueryColumn",
    "Respond",
    "Rewrite",
    "SelectStatements",
    "Seq2SeqRewrite",
    "StatementQueries",
    "OutlineAnswer",
    "Summarise",
    "RawUtterance",
    "AppendStatements",
    "ShowStatements",
    "UpdatePtkb",
]

__getattr__ = module_getattr(__name__, __all__)
