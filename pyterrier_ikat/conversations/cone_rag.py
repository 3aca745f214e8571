"""The year 2024 of TREC iKAT with what CONE-RAG (arXiv 2503.09902) published about it.

There are nuggets, answers and labels by people, responses of real systems, and GPT-4's labels. The files are fetched from the authors at
first use; their repository states no licence.
"""

import json
from collections.abc import Iterable
from typing import Any

import pandas as pd

from .frame import object_frame
from .ikat_dataset import Qrels
from .public_outputs import output_file
from .qrels import read_qrels
from .released import ReleasedDataset

SOURCE = "cone-rag"


class ConeRagDataset(ReleasedDataset):
    """The year 2024. Qrels ``gpt4``: GPT-4's labels, 0 to 4, of the runs' first 30 passages for each turn."""

    def __init__(self) -> None:
        super().__init__("ikat:2024")

    def get_answers(self, variant: str | None = None) -> pd.DataFrame:
        """The gold answers of the topics, ``qid`` and ``gold_answer``. With ``"human"``, those that people wrote for 62 turns.

        Raises:
            UsageError: for another variant.
        """
        self._check_variant("answers", variant, (None, "human"))
        if variant is None:
            return super().get_answers()
        found = {qid: said["manual"]["response"] for qid, said in _by_turn("gold_response_and_nuggets_human.json").items()}
        return _frame(("qid", "gold_answer"), ((qid, answer) for qid, answer in found.items() if answer))

    def get_nuggets(self, variant: str | None = None) -> pd.DataFrame:
        """The nuggets that people took from passages: ``qid``, ``number``, ``nugget``, ``relevance`` (1 to 4), ``importance``.

        It was not rated whether a nugget is vital, so ``importance`` is ``okay`` for all, and scores over vital nuggets are missing. 74 of
        the 2,279 nuggets have the same text as another one of their turn. Only the first of these is kept, so 2,205 are left, many of which
        say the same in other words. 78 of the 116 judged turns have nuggets.

        Args:
            variant: ``"deduplicated"`` for the 1,201 nuggets of the authors' deduplicated file, whose numbers are those of the full file.

        Raises:
            UsageError: for another variant.
        """
        self._check_variant("nuggets", variant, (None, "deduplicated"))
        return _nuggets("_deduplicated" if variant else "").drop_duplicates(["qid", "nugget"], ignore_index=True)

    def get_nugget_labels(self) -> pd.DataFrame:
        """People's labels of the nuggets in the responses of six runs: ``run``, ``qid``, ``number``, ``nugget``, ``importance``, ``label``.

        The labels are of the full file's nuggets, not of the deduplicated ones: equal nuggets of a turn have one label each. The names of
        the runs differ from those in :meth:`get_responses`, and how they correspond isn't published.
        """
        lines = output_file(SOURCE, "human-study-matching-labels.txt").read_text(encoding="utf-8").splitlines()
        pairs = ((about.split("_", 4), label) for about, label in (line.split("\t") for line in lines))
        said = ("not_support", "support")
        rows = ((run, f"{chat}_{turn}", nugget, said[bool(int(label))]) for (_, chat, turn, nugget, run), label in pairs)
        nuggets = _nuggets().drop(columns="relevance")
        return _frame(("run", "qid", "number", "label"), rows).merge(nuggets, on=["qid", "number"], how="left", validate="many_to_one")

    def get_responses(self) -> pd.DataFrame:
        """The responses of 19 automatic runs to 79 turns: ``run``, ``qid``, ``qanswer``."""
        responses = _by_turn("automatic_responses.json")
        return _frame(("run", "qid", "qanswer"), ((run, qid, text) for qid, of_runs in responses.items() for run, text in of_runs.items()))

    def _qrels(self) -> Qrels:
        return {**super()._qrels(), "gpt4": lambda: read_qrels(output_file(SOURCE, "llm-gpt4-pool-depth-30.txt"))}


def _nuggets(which: str = "") -> pd.DataFrame:
    rows = (
        (qid, name.strip("[]"), " ".join(nugget["text"].split()), int(nugget["relevance"]), "okay")
        for qid, nuggets in _by_turn(f"gold_nuggets_human{which}.json").items()
        for name, nugget in nuggets.items()
    )
    return _frame(("qid", "number", "nugget", "relevance", "importance"), rows)


def _frame(columns: tuple[str, ...], rows: Iterable[tuple[Any, ...]]) -> pd.DataFrame:
    return object_frame(dict(zip(columns, zip(*rows, strict=True), strict=True)))


def _by_turn(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(output_file(SOURCE, name).read_text(encoding="utf-8"))
    return found
