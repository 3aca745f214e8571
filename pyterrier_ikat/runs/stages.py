"""The work of each stage of a run, in ``stages.jsonl.gz``: one JSON line per turn and stage, in the order of the turns, then of the stages.

A line has ``qid`` (the turn), ``stage`` and one or more of these:

===========  =======================================================================================================
``wrote``    column -> what the stage wrote there: rewrites, answers, statements, suggestions, summaries, queries
``found``    what a retriever found: for each query ``qid``, ``query``, ``docnos`` (best first), ``scores``; for sub-queries
             also ``qsub`` and ``qweight``, and beside ``found`` the turn's own ``query``
``asked``    the LLM calls, cached ones too: for each ``messages`` and ``completion``, or ``failure``, which says why there is none;
             ``prompt`` and ``item``, if present, name the template and the part of the turn that it was about
``scored``   the output of a re-ranker: for each query ``qid``, ``query``, ``docnos`` (in the order of its input) and ``scores``
===========  =======================================================================================================

Scores have six decimals. In the file, a list of docnos that the turn already had is replaced by its number. Each turn is a separate member
of the gzip file, so the file doesn't depend on how the turns were divided into batches.
"""

import gzip
import json
import zlib
from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

from ..errors import DataError

NAME = "stages.jsonl.gz"
LEVEL = 4
"""The level of compression. Level 6 takes twice the time and saves two per cent."""


class TurnStages:
    """The lines of one turn while they are written.

    Example:
        >>> turn = TurnStages("9-1_3")
        >>> turn.add("bm25", {"found": [{"qid": "9-1_3", "query": "tea", "docnos": ["a"], "scores": [0.5]}]})
        >>> json.loads(gzip.decompress(turn.packed()))["found"]
        [{'qid': '9-1_3', 'query': 'tea', 'docnos': ['a'], 'scores': [0.5]}]
    """

    def __init__(self, qid: str) -> None:
        self.qid = qid
        self._lists: list[list[str]] = []
        self._lines: list[str] = []

    def add(self, stage: str, said: Mapping[str, Any]) -> None:
        """Add the line of a stage."""
        shown = {name: [self._shown(one) for one in value] if name in ("found", "scored") else value for name, value in said.items()}
        self._lines.append(json.dumps({"qid": self.qid, "stage": stage, **shown}, default=str) + "\n")

    def packed(self) -> bytes:
        """The lines as a separate gzip file; empty if there are no lines."""
        return gzip.compress("".join(self._lines).encode(), LEVEL, mtime=0) if self._lines else b""

    def _shown(self, query: Mapping[str, Any]) -> dict[str, Any]:
        docnos = query["docnos"]
        number = next((number for number, known in enumerate(self._lists) if known[: len(docnos)] == docnos), None)
        if number is None:
            self._lists.append(docnos)
        return {**query, "docnos": docnos if number is None else number}


def read_stages(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of a file, one at a time.

    Raises:
        DataError: when it can't be read.
    """
    try:
        with gzip.open(path) as file:
            for _, lines in groupby(map(json.loads, file), key=lambda line: line["qid"]):
                lists: list[list[str]] = []
                for line in lines:
                    for query in (*line.get("found", ()), *line.get("scored", ())):
                        _restore(query, lists)
                    yield line
    except (OSError, EOFError, zlib.error, ValueError, LookupError, TypeError) as error:
        raise DataError(f"{path} can't be read ({error}): repeat the run") from None


def _restore(query: dict[str, Any], lists: list[list[str]]) -> None:
    if isinstance(query["docnos"], int):
        query["docnos"] = lists[query["docnos"]][: len(query["scores"])]
    else:
        lists.append(query["docnos"])
