"""The systems of the papers: one file per paper, one function per system, each an operator expression."""

from .baselines import all_utterances, convgqr, hqe, infosense_2023, organizers_2023, organizers_2023_manual, raw, rewritten
from .catalogue import METHODS, catalogue, method
from .entry import Method
from .generate_then_retrieve import ad, aqd, aqd_a, human_qr, llama10, qd, qr
from .infosense_2024 import short_and_long, weighted_reranking
from .irlab_2024 import gpt4qr, gpt4qr_qd1, humanqr, mq4cs_qr
from .nii_2024 import gtr, rtg
from .published import TABLES, Table, published

__all__ = [
    "METHODS",
    "TABLES",
    "Method",
    "Table",
    "ad",
    "all_utterances",
    "aqd",
    "aqd_a",
    "catalogue",
    "convgqr",
    "gpt4qr",
    "gpt4qr_qd1",
    "gtr",
    "hqe",
    "human_qr",
    "humanqr",
    "infosense_2023",
    "llama10",
    "method",
    "mq4cs_qr",
    "organizers_2023",
    "organizers_2023_manual",
    "published",
    "qd",
    "qr",
    "raw",
    "rewritten",
    "rtg",
    "short_and_long",
    "weighted_reranking",
]
