"""Listwise re-ranking of 100 passages for each turn with a language model that answers after 200 to 800 ms, 32 calls at a time.

    python experiments/performance/bench.py listwise

The server is that of `llm_stage`, a separate process with delays that are drawn with a fixed seed. Its answers are read and repaired, and
the last one of a turn waits for the eight before it. ``limit`` is the number of calls divided by the number of places. The time of rounds,
in which all turns' windows must be answered before the next ones are sent, is computed from the same delays, with a client that costs
nothing.
"""

import contextlib
import io
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import llm_stage
from bench import Row

TURNS, PASSAGES = (40, 128), 100


def rows() -> Iterator[Row]:
    """One batch of a run, and a number of turns that is not a multiple of the places."""
    for turns in TURNS:
        found = llm_stage._alone(rerank, turns)
        calls, delays = found["calls"], llm_stage.delays(found["calls"])
        yield Row(
            task=f"listwise re-ranking of {turns} turns x {PASSAGES} passages, windows of 20, {calls} calls",
            ours=found["seconds"],
            today=rounds(delays, turns),
            instead="round after round (worked out)",
            limit=sum(delays) / llm_stage.ALLOWED,
            why=f"{calls} calls / {llm_stage.ALLOWED} x {sum(delays) / calls:.3f} s",
            more={"repairs": found["repairs"]},
        )


def rounds(delays: list[float], turns: int) -> float:
    """The end of the last call if the windows of all turns are sent together, and the next ones after the last answer."""
    return sum(llm_stage.as_they_come(delays[start : start + turns]) for start in range(0, len(delays), turns))


def rerank(url: str, turns: int) -> dict[str, Any]:
    """The seconds, calls and repairs of one re-ranking, with a loaded client."""
    import pandas as pd

    import pyterrier_ikat as ikat

    texts = [f"{number} " + "Rooibos has no caffeine and keeps its colour with milk. " * 15 for number in range(PASSAGES)]
    one = pd.DataFrame({"docno": [f"d{number}" for number in range(PASSAGES)], "text": texts, "rank": range(PASSAGES)})
    queries = pd.DataFrame({"qid": [f"{turn}_1" for turn in range(turns)], "query": [f"Which tea, {turn}?" for turn in range(turns)]})
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()):
        model = ikat.llm(f"openai:m base_url={url} cache={folder}/llm.sqlite on_error=fallback")
        model.open()
        started = time.perf_counter()
        ikat.ListwiseRerank(model)(queries.merge(one, "cross"))
        seconds = time.perf_counter() - started
        spent = model.ledger.frame().iloc[0]
        model.close()
    return {"seconds": seconds, "calls": int(spent["calls"]), "repairs": int(spent["dropped"])}
