"""Evaluation as TREC does it: passages, PTKB statements and responses; pooling, judging, agreement, breakdowns."""

from .agreement import Agreement, agreement, cohens_kappa, order_agreement
from .answer_equivalence import AnswerEquivalence
from .breakdown import breakdown, win_tie_loss
from .comparison import experiment
from .evaluation import evaluate, per_turn
from .judge import Judge, Judgement, parse_judgement, with_gold
from .measures import TRACK_2023, TRACK_2024, as_measures, label, parse_measures
from .pool import pool
from .ptkb import TRACK_PTKB, evaluate_ptkb, ptkb_per_turn, with_relevant
from .qrels import check_qrels, merge_qrels, write_qrels
from .response_frame import response_turns
from .response_judges import Completeness, Groundedness, Naturalness, NuggetRecall, PairwisePreference, Preference, Relevance
from .responses import evaluate_responses, response_means
from .rouge import RougeL
from .statements import statement_ranking, statement_runs
from .table import format_table

__all__ = [
    "TRACK_2023",
    "TRACK_2024",
    "TRACK_PTKB",
    "Agreement",
    "AnswerEquivalence",
    "Completeness",
    "Groundedness",
    "Judge",
    "Judgement",
    "Naturalness",
    "NuggetRecall",
    "PairwisePreference",
    "Preference",
    "Relevance",
    "RougeL",
    "agreement",
    "as_measures",
    "breakdown",
    "check_qrels",
    "cohens_kappa",
    "evaluate",
    "evaluate_ptkb",
    "evaluate_responses",
    "experiment",
    "format_table",
    "label",
    "merge_qrels",
    "order_agreement",
    "parse_judgement",
    "parse_measures",
    "per_turn",
    "pool",
    "ptkb_per_turn",
    "response_means",
    "response_turns",
    "statement_ranking",
    "statement_runs",
    "win_tie_loss",
    "with_gold",
    "with_relevant",
    "write_qrels",
]
