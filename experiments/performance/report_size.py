"""The size of the report's page, and the time to make it and to open it in a headless Chromium.

The turns of 2023 (real utterances, personas, answers and NIST judgements), three systems, each with 20 passages and two LLM calls for each
turn, in two cases: the systems share most of their passages, or none. The passages that they "find" are invented. Their texts are real
passages of the mini collection, because the full collection needs a licence.
"""

import random
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch
from zlib import crc32

import pandas as pd
from bench import Row, median_seconds

import pyterrier_ikat as ikat
from pyterrier_ikat.conversations.frame import column
from pyterrier_ikat.show import Report, report
from pyterrier_ikat.show.report import material as report_runs
from pyterrier_ikat.show.report.page import Call

SYSTEMS, DEPTH = 3, 20
SEARCH = """new Promise(done => {
    new MutationObserver(() => done()).observe(document.querySelector("#count"), {childList: true});
    document.forms[0].elements.search.value = "the";
    document.forms[0].dispatchEvent(new Event("input"));
})"""

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))


def rows() -> Iterator[Row]:
    """The page in both cases: made, opened, and searched for the first time, including its wait of 0.12 s for a next letter."""
    dataset = ikat.dataset("ikat:2023")
    for shared, case in ((True, "most passages shared"), (False, "no passage shared")):
        runs = {f"system {number + 1}": _run(dataset, number, shared) for number in range(SYSTEMS)}
        with patch.object(report_runs, "_of_frame", _with_calls(report_runs._of_frame, _calls(dataset))):
            started = time.perf_counter()
            page = report(runs, dataset, passages=DEPTH)
            made = time.perf_counter() - started
        task = f"report of 332 turns x {SYSTEMS} systems x {DEPTH} passages, {case}"
        size = {"MB": len(page.html.encode()) / 1e6}
        yield Row(f"{task}: made", made, None, "", None, "", size)
        opened, searched = _seconds_in_browser(page)
        yield Row(f"{task}: opened until painted", opened, None, "", None, "", size)
        yield Row(f"{task}: first search", searched, None, "", None, "", size)


def _run(dataset: Any, number: int, shared: bool) -> pd.DataFrame:
    topics = dataset.get_topics("manual").merge(dataset.get_answers(), on="qid")
    judged = dataset.get_qrels().groupby("qid")["docno"].agg(list)
    texts = [passage["text"] for passage in ikat.dataset("ikat:2023-mini").get_corpus_iter(verbose=False)]
    pick = random.Random(number)
    scores = [float(DEPTH - rank) for rank in range(DEPTH)]
    frames = []
    for turn in topics.to_dict("records"):
        found = _found(turn["qid"], list(judged.get(turn["qid"], ())), pick, None if shared else number)
        frame = pd.DataFrame({"qid": turn["qid"], "docno": found, "score": scores, "rank": range(DEPTH)})
        wrote = {name: column([value] * DEPTH) for name, value in _written(turn, pick).items()}
        frames.append(frame.assign(text=column([texts[crc32(docno.encode()) % len(texts)] for docno in found]), **wrote))
    return pd.concat(frames, ignore_index=True)


def _with_calls(read: Any, calls: dict[str, list[Call]]) -> Any:
    return lambda name, frame: replace(read(name, frame), calls=calls)


def _calls(dataset: Any) -> dict[str, list[Call]]:
    """The prompts of AQD, and the organisers' answer as completion."""
    topics = dataset.get_topics("manual").merge(dataset.get_answers(), on="qid")
    llm = ikat.llm("recorded:sample")
    requests = [*ikat.Answer(llm).requests(topics), *ikat.Rewrite(llm).requests(topics)]
    answers, calls = topics.set_index("qid")["gold_answer"], dict[str, list[Call]]()
    for request in requests:
        calls.setdefault(request.qid, []).append(Call(request.prompt, request.stage, request.messages, answers[request.qid]))
    return calls


def _found(qid: str, judged: list[str], pick: random.Random, part: int | None) -> list[str]:
    """Some of the turn's first 30 passages in any order, or those of one part; judged ones first, as far as there are any."""
    places = pick.sample(range(30), DEPTH) if part is None else range(part * DEPTH, (part + 1) * DEPTH)
    return [judged[place] if place < len(judged) else f"clueweb22-en0000-00-00000:{qid}-{place}" for place in places]


def _written(turn: dict[str, Any], pick: random.Random) -> dict[str, Any]:
    words = turn["qresolved"].split()
    return {
        "qrewrite": " ".join(pick.sample(words, len(words))),
        "qanswer": turn["gold_answer"],
        "qsubqueries": [" ".join(pick.sample(words, min(6, len(words)))) for _ in range(5)],
        "qstatements": [(name, 1.0) for name in pick.sample(list(turn["qptkb"]), 3)],
    }


def _seconds_in_browser(page: Report) -> tuple[float, float]:
    from chromium import Browser

    with tempfile.TemporaryDirectory() as folder:
        url = page.save(Path(folder) / "report.html").as_uri()
        browser = Browser(Path(folder) / "profile")
        try:
            opened = median_seconds(lambda: browser.open(url))
            started = time.perf_counter()
            browser.run(SEARCH)
            return opened, time.perf_counter() - started
        finally:
            browser.close()
