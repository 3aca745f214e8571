"""Every system by its name: what it needs, what it costs, what its paper reports."""

import difflib
from collections.abc import Callable

import pandas as pd
import pyterrier as pt

from ..errors import UsageError
from . import baselines, infosense_2024, irlab_2024, nii_2024
from . import generate_then_retrieve as gtr
from .entry import Method
from .published import GTR, INFOSENSE, IRLAB, NII, TABLES

_OURS = "baseline without an LLM"
_HUMAN = {"question": "qresolved"}
_MINILM_6, _MINILM_12 = "cross-encoder/ms-marco-MiniLM-L-6-v2", "cross-encoder/ms-marco-MiniLM-L-12-v2"
_BM25 = "BM25"
_GPT_4 = {"llm": "openai:gpt-4", "retriever": _BM25, "reranker": _MINILM_6}
_LLAMA = {"llm": "Llama-2-13b-chat temperature=0.75 top_p=0.9 top_k=10", "retriever": _BM25, "reranker": _MINILM_6}
_SPLADE = "SPLADE"
_LUCENE = {"k1": 1.2, "b": 0.75}
_BI_ENCODERS = "bi:sentence-transformers/all-MiniLM-L12-v2,bi:sentence-transformers/msmarco-distilbert-base-v4"


def _generate_then_retrieve(style: str) -> list[Method]:
    tail, fixed, models = ("", {}, _GPT_4) if style == "gpt" else ("_llama", {"style": style}, _LLAMA)
    found = [Method(f"qr{tail}", GTR, gtr.qr, 1, 1, fixed, models=models)]
    for name, system, calls, queries in (("ad", gtr.ad, 1, 1), ("qd", gtr.qd, 1, 5), ("aqd", gtr.aqd, 2, 5), ("aqd_a", gtr.aqd_a, 2, 5)):
        found.append(Method(f"{name}{tail}", GTR, system, calls, queries, fixed, models=models))
        found.append(Method(f"{name}_human{tail}", GTR, system, calls, queries, fixed | _HUMAN, models=models))
        if name.startswith("aqd"):
            of_gpt_4 = models | {"second_llm": "openai:gpt-4"}
            found.append(Method(f"{name}_given{tail}", GTR, system, calls, queries, fixed, models=of_gpt_4, given=True))
    return found


def _irlab() -> list[Method]:
    def run(name: str, system: Callable[..., pt.Transformer], calls: int, queries: int, reranker: str, retriever: str = _SPLADE) -> Method:
        return Method(name, IRLAB, system, calls, queries, models={"llm": "openai:gpt-4", "retriever": retriever, "reranker": reranker})

    deberta, ensemble = "naver/trecdl22-crossencoder-debertav3", "ensemble"
    return [
        run("mq4cs_qr_deberta", irlab_2024.mq4cs_qr, 4, 5, deberta),
        run("mq4cs_qr_ensemble", irlab_2024.mq4cs_qr, 4, 5, ensemble),
        run("gpt4qr_deberta", irlab_2024.gpt4qr, 3, 1, deberta),
        run("gpt4qr_bm25_qd1", irlab_2024.gpt4qr_qd1, 3, 1, _MINILM_6, _BM25),
        run("humanqr_deberta", irlab_2024.humanqr, 2, 1, deberta),
        run("humanqr_ensemble", irlab_2024.humanqr, 2, 1, ensemble),
    ]


def _infosense() -> list[Method]:
    weighted, short_long = infosense_2024.weighted_reranking, infosense_2024.short_and_long
    small = {"llm": "Llama-3.1-8B-Instruct temperature=0", "retriever": "BM25 k1=1.2 b=0.75"}
    large = small | {"llm": "Llama-3.1-70B-Instruct temperature=0"}
    one, both = {"reranker": _BI_ENCODERS.split(",")[0]}, {"reranker": _BI_ENCODERS}
    return [
        Method("wghtdrerank_1", INFOSENSE, weighted, 8, 4, depth=5000, models=small | one, bm25=_LUCENE),
        Method("wghtdrerank_2", INFOSENSE, weighted, 8, 4, depth=5000, models=small | both, bm25=_LUCENE),
        Method("short_long_2", INFOSENSE, short_long, 5, 2, depth=5000, models=small | both, bm25=_LUCENE),
        Method("short_long_3", INFOSENSE, short_long, 6, 2, {"think": True}, depth=5000, models=large | both, bm25=_LUCENE),
    ]


def _nii() -> list[Method]:
    rtg_models, gtr_models = (
        {"llm": "gpt-4", "reranker": _MINILM_12},
        {"llm": "gpt-4o", "second_llm": "claude-3-opus-20240229", "reranker": _MINILM_6},
    )
    return [
        Method("rtg", NII, nii_2024.rtg, "4 + s", "5s", depth=50, models=rtg_models),
        Method("rtg_manual", NII, nii_2024.rtg, "3 + s", "5s", {"manual": True}, depth=50, models=rtg_models),
        Method("gtr_gpt", NII, nii_2024.gtr, 4, 5, depth=300, models=gtr_models),
        Method("gtr_claude", NII, nii_2024.gtr, 4, 5, depth=300, models=gtr_models, roles={"llm": "second_llm"}),
        Method("gtr", NII, nii_2024.gtr, 7, 10, depth=300, models=gtr_models, given=True),
    ]


def _organizers() -> list[Method]:
    paper = f"organisers' 2024 baseline, as reported by {INFOSENSE}"
    t5, minilm = {"rewriter": "a T5 rewriter"}, {"reranker": "a MiniLM cross-encoder"}

    def rewritten_by(name: str, llm: str, retriever: str) -> Method:
        return Method(name, paper, gtr.qr, 1, 1, models={"llm": llm, "retriever": retriever} | minilm)

    return [
        Method(
            "organizers_2023_auto",
            f"organisers' 2023 baseline, as reported by {NII}",
            baselines.organizers_2023,
            0,
            1,
            models=t5 | {"retriever": _BM25, "reranker": "MiniLM, for the statements"},
        ),
        Method(
            "organizers_2023_manual",
            "organisers' 2023 manual baseline",
            baselines.organizers_2023_manual,
            0,
            1,
            models={"retriever": _BM25},
        ),
        rewritten_by("baseline_auto_gpt4_bm25_minilm", "openai:gpt-4", _BM25),
        rewritten_by("baseline_auto_gpt4o_splade_minilm", "openai:gpt-4o", "SPLADE"),
        rewritten_by("baseline_auto_llama3_1_splade_minilm", "Llama 3.1", "SPLADE"),
        Method("baseline_auto_t5_bm25_minilm", paper, baselines.rewritten, 0, 1, models=t5 | {"retriever": _BM25} | minilm),
        Method("baseline_auto_convgqr_bm25_minilm", paper, baselines.convgqr, 0, 1, models=_CONVGQR | {"retriever": _BM25} | minilm),
    ]


_CONVGQR = {"rewriter": "a T5 rewriter trained on QReCC", "expander": "a T5 expansion model trained on QReCC"}
_MONOT5 = {
    "rewriter": "a BART rewriter trained on SAMSum and CANARD",
    "retriever": "an unnamed one (the run's name says dense)",
    "reranker": "a T5 re-ranker",
}

METHODS: dict[str, Method] = {
    entry.name: entry
    for entry in [
        Method("raw", _OURS, baselines.raw, 0, 1),
        Method("all_utterances", _OURS, baselines.all_utterances, 0, 1),
        Method("hqe", _OURS, baselines.hqe, 0, 1),
        Method("human_qr", GTR, gtr.human_qr, 0, 1, models={"retriever": _BM25, "reranker": _MINILM_6}),
        *_generate_then_retrieve("gpt"),
        *_generate_then_retrieve("llama"),
        Method("llama10", GTR, gtr.llama10, 11, 1, models={"llm": "Llama-2-7b", "retriever": _BM25}),
        Method("infosense_2023", GTR, baselines.infosense_2023, 2, 1, models={"llm": "Llama-2-13b-chat", "retriever": _BM25}),
        Method("convgqr", GTR, baselines.convgqr, 0, 1, models=_CONVGQR | {"retriever": "an unnamed one"}),
        Method("monot5", GTR, baselines.rewritten, 0, 1, models=_MONOT5),
        *_irlab(),
        *_infosense(),
        *_nii(),
        *_organizers(),
    ]
}


def method(name: str) -> Method:
    """The method of that name.

    Raises:
        UsageError: when there is none; it names the nearest.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.methods.method("aqd_a").llm_calls
        2
    """
    if name not in METHODS:
        near = difflib.get_close_matches(name, METHODS, n=3)
        hint = f"did you mean {' or '.join(near)}?" if near else "`ikat methods` lists them"
        raise UsageError(f"there is no method {name!r}: {hint}")
    return METHODS[name]


def catalogue() -> pd.DataFrame:
    """All methods as a table.

    Returns:
        One row per method: ``name``, ``paper``, ``tables`` (those that report it), ``expression``, ``llm_calls`` and
        ``queries`` per turn at most (``s``: the number of chosen PTKB statements), ``depth`` (passages per query),
        ``manual``, ``models`` (the paper's), ``published`` (table -> measure -> figure) and ``turns`` (table -> how
        many turns its figures average over).

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.methods.catalogue().set_index("name").loc["aqd", "expression"]
        "ikat.Answer(llm) >> ikat.Queries(llm, given='answer') >> ikat.Expand() >> retriever % 1000 >> reranker >> ikat.Interleave()"
    """
    return pd.DataFrame(
        {
            "name": entry.name,
            "paper": entry.paper,
            "tables": ", ".join(entry.published),
            "expression": entry.expression,
            "llm_calls": entry.llm_calls,
            "queries": entry.queries,
            "depth": entry.depth,
            "manual": entry.manual,
            "models": dict(entry.models),
            "published": entry.published,
            "turns": {table: TABLES[table].turns for table in entry.published},
        }
        for entry in METHODS.values()
    )
