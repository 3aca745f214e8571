"""CONE-RAG (arXiv 2503.09902): nuggets, answers and labels of people, responses of real systems and GPT-4's labels for iKAT 2024.

The files are their authors', see :mod:`~pyterrier_ikat.conversations.public_outputs`.
"""

import json
from typing import Any

import pandas as pd

from ..errors import DataError
from .frame import object_frame
from .public_outputs import output_file
from .qrels import read_qrels

SOURCE = "cone-rag"


def gpt4_labels() -> pd.DataFrame:
    """GPT-4's labels, 0 to 4, of the runs' first 30 passages of each turn: ``qid``, ``docno``, ``label``."""
    return read_qrels(output_file(SOURCE, "llm-gpt4-pool-depth-30.txt"))


def human_nuggets() -> pd.DataFrame:
    """The nuggets that people took from passages: ``qid``, ``number``, ``nugget``, ``relevance`` (1 to 4), ``importance``.

    Nobody rated whether a nugget is vital, so ``importance`` is ``okay`` for all: scores over vital nuggets are missing. 74 of the 2,279
    have the same text as another one of their turn: the first of these stays. 78 of the 116 judged turns have any.
    """
    return _all_nuggets().drop_duplicates(["qid", "nugget"], ignore_index=True)


def _all_nuggets() -> pd.DataFrame:
    rows = [
        (qid, name.strip("[]"), " ".join(nugget["text"].split()), int(nugget["relevance"]), "okay")
        for qid, nuggets in _read("gold_nuggets_human.json").items()
        for name, nugget in nuggets.items()
    ]
    return _frame(rows, ("qid", "number", "nugget", "relevance", "importance"))


def human_answers() -> pd.DataFrame:
    """The answers that people wrote: ``qid``, ``gold_answer``."""
    found = {qid: said["manual"]["response"] for qid, said in _read("gold_response_and_nuggets_human.json").items()}
    return _frame([(qid, answer) for qid, answer in found.items() if answer], ("qid", "gold_answer"))


def system_responses() -> pd.DataFrame:
    """The responses of the track's automatic runs: ``run``, ``qid``, ``qanswer``."""
    responses = _read("automatic_responses.json")
    return _frame([(run, qid, text) for qid, of_runs in responses.items() for run, text in of_runs.items()], ("run", "qid", "qanswer"))


def human_nugget_labels() -> pd.DataFrame:
    """What people found of the nuggets in the responses of six runs: ``run``, ``qid``, ``number``, ``nugget``, ``importance``, ``label``.

    Equal nuggets of a turn have a label each. The runs' names are not those of :func:`system_responses`, and which of them is which isn't
    published.
    """
    path = output_file(SOURCE, "human-study-matching-labels.txt")
    rows = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            about, label = line.split("\t")
            _, conversation, turn, nugget, run = about.split("_", 4)
            rows.append((run, f"{conversation}_{turn}", nugget, "support" if int(label) else "not_support"))
        except ValueError:
            raise DataError(f"{path} line {number} is no label of CONE-RAG, HIT_topic_turn_nugget_run and 0 or 1: {line[:80]!r}") from None
    labels = _frame(rows, ("run", "qid", "number", "label"))
    return labels.merge(_all_nuggets().drop(columns="relevance"), on=["qid", "number"], how="left", validate="many_to_one")


def _frame(rows: list[tuple[Any, ...]], columns: tuple[str, ...]) -> pd.DataFrame:
    return object_frame({name: [row[place] for row in rows] for place, name in enumerate(columns)})


def _read(name: str) -> dict[str, Any]:
    """A JSON file by turn."""
    path = output_file(SOURCE, name)
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise DataError(f"{path} is no JSON: {error}; fetch it again") from None
    return found
