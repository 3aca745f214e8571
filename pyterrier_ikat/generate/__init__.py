"""Queries, statements and responses: operators that write queries, choose statements, and decide whether and what to answer."""

from .answer import Answer, OutlineAnswer
from .best_query import BestQuery
from .condense import Condense
from .decide import Decide
from .enhance import Enhance
from .passage_queries import PassageQueries
from .queries import ExplodeQueries, MultiQuery, Queries, StatementQueries
from .reformulate import Reformulate, RewriteByLevel
from .respond import Respond
from .rewrite import Clarify, Rewrite, RewriteAndAnswer, Summarise
from .sampled_queries import Aggregate, Samples
from .select_statements import AppendStatements, SelectStatements, ShowStatements
from .seq2seq import Seq2SeqRewrite
from .update_ptkb import UpdatePtkb
from .utterances import AllUtterances, AppendQuery, HistoricalQueryExpansion, ManualRewrite, QueryColumn, RawUtterance

__all__ = [
    "Aggregate",
    "BestQuery",
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
