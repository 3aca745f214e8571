"""332 turns x 25 systems with a chat server that is slow, refuses and drops calls (load_server.py).

    python experiments/performance/bench.py load

The turns are those of the bundled sample, repeated, each with its own number in it. The index has a
few of the sample's passages, because the load is on the calls. Everything else is as in `ikat run`.
If some turns of a stage get no completion, an error names them, and the run is started again, as by
a user, until nothing fails. Waits between two tries are a hundredth of the normal ones. The runs
are compared with those of a model in this process that gives the same answers without any trouble.
A superfluous call, a lost completion or an unnamed failure is an error here, not a figure.
"""

import math
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

import pandas as pd
import pyterrier as pt
from bench import Row
from load_server import Troubled, completion, prompt_of, running, turn_of
from process_memory import watched

import pyterrier_ikat as ikat
from pyterrier_ikat.llms import LLM, Backend, Ledger, LLMFailure, Reply, StageError
from pyterrier_ikat.study import Study
from pyterrier_ikat.study.in_folders import SystemFailed, run_in_folders
from pyterrier_ikat.study.resources import taken_by
from pyterrier_ikat.study.systems import methods_in

TURNS = 332
PASSAGES = 60
SYSTEMS = (
    "qr",
    "ad",
    "qd",
    "aqd",
    "aqd_human",
    "aqd_given_llama",
    "aqd_a",
    "qr_llama",
    "ad_llama",
    "qd_llama",
    "aqd_llama",
    "aqd_a_llama",
    "infosense_2023",
    "mq4cs_qr_deberta",
    "gpt4qr_deberta",
    "gpt4qr_bm25_qd1",
    "humanqr_deberta",
    "wghtdrerank_1",
    "short_long_2",
    "gtr_gpt",
    "gtr_claude",
    "gtr",
    "baseline_auto_gpt4_bm25_minilm",
    "baseline_2025_bm25",
    "mq4cs_ans",
)
SHORTER = 100


class Sample:
    """``turns`` turns made from the bundled sample.

    All texts of a turn contain its name, so every prompt does.
    """

    def __init__(self, turns: int) -> None:
        self.turns = turns

    def get_topics(self, variant: str | None = None) -> pd.DataFrame:
        """The topics."""
        topics = pt.get_dataset("ikat:sample").get_topics(variant)
        copies = []
        for number in range(1, 1 + math.ceil(self.turns / len(topics))):
            qids = f"{number}-" + topics["qid"]
            conversations = f"{number}-" + topics["qconversation"]
            copies.append(topics.assign(qid=qids, qconversation=conversations))
        turns = pd.concat(copies, ignore_index=True).head(self.turns)
        columns = {"qhistory": list(map(_history, turns["qconversation"], turns["qhistory"]))}
        for name in ("query", "qutterance", "qresolved"):
            if name in turns:
                columns[name] = turns[name] + " (turn " + turns["qid"] + ")"
        return turns.assign(**columns)

    def get_qrels(self, variant: str | None = None) -> pd.DataFrame:
        """The judgements of the first copy of each turn."""
        qrels = pt.get_dataset("ikat:sample").get_qrels()
        return qrels.assign(qid="1-" + qrels["qid"])

    def collection(self) -> tuple[int, None]:
        """The number of passages in the index."""
        return PASSAGES, None

    def _describe_component(self, name: str) -> list[str]:
        return ["passages"]


def _history(conversation: str, messages: list[dict[str, str]]) -> list[dict[str, str]]:
    """The messages, each with the turn that it is of."""
    named = []
    for number, message in enumerate(messages):
        content = f"{message['content']} (turn {conversation}_{number // 2 + 1})"
        named.append(message | {"content": content})
    return named


class Untroubled(Backend):
    """A model in this process with the same answers as the server."""

    def __init__(self, model: str) -> None:
        self.model = model
        self.identity = {"provider": "own", "model": model, "params": {}}

    def complete(self, requests: Sequence[Any]) -> list[Any]:
        """One reply per request."""
        return [Reply(completion(self.model, prompt_of(request.messages))) for request in requests]


class SharedWords(pt.Transformer):
    """Replaces a re-ranker: the score is the share of the query's words that a passage has."""

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Score and rank."""
        pt.validate.result_frame(inp, extra_columns=["query", "text"])
        scores = []
        for query, text in zip(inp["query"], inp["text"], strict=True):
            words = _words(query)
            scores.append(len(words & _words(text)) / (len(words) + 1))
        return pt.model.add_ranks(inp.assign(score=scores))

    def __repr__(self) -> str:
        return "SharedWords()"


@lru_cache(maxsize=1000)
def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def rows() -> Iterator[Row]:
    """The whole load."""
    with tempfile.TemporaryDirectory() as folder:
        chat, failures, ledger, figures = under_load(Path(folder), SYSTEMS, TURNS)
        check(chat, failures, ledger)
        untroubled(Path(folder), SYSTEMS, TURNS)
        different = differences(Path(folder), SYSTEMS)
        figures["runs that differ from those of an untroubled model"] = len(different)
    yield Row(
        f"{TURNS} turns x {len(SYSTEMS)} systems, calls dropped and refused",
        figures.pop("seconds"),
        more=figures,
    )


def under_load(
    folder: Path, names: Sequence[str], turns: int
) -> tuple[Troubled, list[LLMFailure], Ledger, dict[str, Any]]:
    """Run the systems into ``folder/troubled``, starting again until nothing fails."""
    chat = Troubled()
    ledger = Ledger()
    failures: list[LLMFailure] = []
    with running(chat) as url, watched() as memory:
        models = []
        for name in ("first", "second"):
            spec = f"openai:{name} base_url={url} cache={folder}/llm.sqlite"
            model = ikat.llm(spec, ledger=ledger)
            model.retry = replace(model.retry, sleep=_shorter)
            models.append(model)
        start = _start(folder, "troubled", names, turns, models, ledger)
        starts = 1
        began = time.perf_counter()
        while stopped := _stopped(start):
            failures += stopped
            starts += 1
        seconds = time.perf_counter() - began
        for model in models:
            model.close()
    figures = {
        "seconds": seconds,
        **_account(chat),
        "failures named, with turn and reason": len(failures),
    }
    sizes = {"MB at the beginning": memory[0], "MB at most": memory[1]}
    return chat, failures, ledger, {**figures, "times that the run was started": starts, **sizes}


def _stopped(run: Callable[[], object]) -> list[LLMFailure]:
    """The failures that stopped the run; none if it is complete."""
    try:
        run()
    except (StageError, SystemFailed) as error:
        failures = []
        for stage in error.failed.values() if isinstance(error, SystemFailed) else [error]:
            if isinstance(stage, StageError):
                failures += stage.failures
        if not failures or any(failure.kept for failure in failures):
            raise  # not a problem of the server, so it would not go away
        return failures
    return []


def _account(chat: Troubled) -> dict[str, int]:
    return {
        "distinct requests": len(chat.asked),
        "calls": chat.asked.total(),
        **chat.troubles,
        "requests that failed for long": len(chat.lasting),
        "requests without an answer": len(chat.asked) - len(chat.answered),
    }


def untroubled(folder: Path, names: Sequence[str], turns: int) -> None:
    """Run the systems into ``folder/untroubled``."""
    models = [ikat.llm(Untroubled(name)) for name in ("first", "second")]
    start = _start(folder, "untroubled", names, turns, models, Ledger())
    start()


def check(chat: Troubled, failures: Sequence[LLMFailure], ledger: Ledger) -> None:
    """Check that each request was answered once, each call counted, each lasting failure named.

    Raises:
        AssertionError: when not.
    """
    counted = ledger.frame()
    assert chat.answered == Counter(dict.fromkeys(chat.asked, 1)), (
        "a request was answered never, or more than once"
    )
    sent = counted[["calls", "unanswered", "retries"]].sum().sum()
    assert chat.asked.total() == sent, "requests were sent that nobody counted"
    named = {failure.qid for failure in failures}
    failed = set(map(turn_of, chat.lasting.values()))
    assert named == failed, f"not named: {failed - named}; named without a reason: {named - failed}"
    assert len(failures) >= len(chat.lasting), "of two failures of a turn one is not named"
    assert {failure.reason for failure in failures} <= {
        "the server answers 503: try later (given up after 6 tries)"
    }
    assert counted["failures"].sum() == len(failures)


def differences(folder: Path, names: Sequence[str]) -> list[str]:
    """The systems whose rankings, queries or answers differ from those of the untroubled model."""
    different = []
    for name in names:
        for file in ("run.trec", "turns.jsonl"):
            troubled = (folder / "troubled" / name / file).read_bytes()
            if troubled != (folder / "untroubled" / name / file).read_bytes():
                different.append(name)
                break
    return different


def _start(
    folder: Path, out: str, names: Sequence[str], turns: int, models: Sequence[LLM], ledger: Ledger
) -> Callable[[], object]:
    """A function that runs the systems, and continues if it is called again."""
    index = folder / "index"
    if not index.exists():
        passages = pt.get_dataset("ikat:sample").get_corpus_iter(verbose=False)
        ikat.PassageIndex(index).index(islice(passages, PASSAGES))
    resources = {"llm": models[0], "second_llm": models[1], "reranker": SharedWords()}
    taken = taken_by(methods_in(names))
    used = {name: resource for name, resource in resources.items() if name in taken}
    study = Study(names, Sample(turns), index=index, ledger=ledger, **used)
    return lambda: run_in_folders(study, folder / out)


def _shorter(seconds: float) -> None:
    time.sleep(seconds / SHORTER)
