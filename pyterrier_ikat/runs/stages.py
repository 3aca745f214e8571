"""The work of each stage of a run, in ``stages.jsonl.gz``: one JSON line per turn and stage, in the order of the turns, then of the stages.

A line has ``qid`` (the turn), ``stage`` and one or more of these:

===========  =======================================================================================================
``wrote``    column -> what the stage wrote there: rewrites, answers, statements, suggestions, summaries, queries
``found``    what a retriever found: for each query ``qid``, ``query``, ``docnos`` (best first), ``scores``; for sub-queries
             also ``qsub`` and ``qweight``, and beside ``found`` the turn's own ``query``
``asked``    the LLM calls, cached ones too: for each ``messages`` and ``completion``, or ``failure``, which says why there is none;
             ``prompt`` and ``item``, if present, name the template and the part of the turn that it was about
``scored``   the input of a re-ranker: for each query ``qid``, ``query``, ``docnos`` (in their original order),
             ``scores``; ``alone`` says whether a score depends only on query and passage
===========  =======================================================================================================

In the file, a list of docnos that the turn already had is replaced by its number, and scores that are 32-bit floats have ``"bits": 32`` and
nine digits. Each turn is a separate member of the gzip file, so the file doesn't depend on how the turns were divided into batches.
"""

import gzip
import json
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import DataError
from ..order import Floats

NAME = "stages.jsonl.gz"
LEVEL = 4
"""The level of compression. Level 6 takes twice the time and saves two per cent."""

Lists = list[list[str]]


class TurnStages:
    """The lines of one turn while they are written.

    Example:
        >>> turn = TurnStages("9-1_3")
        >>> turn.add("bm25", {"found": [{"qid": "9-1_3", "query": "tea", "docnos": ["a"], "scores": np.array([0.5])}]})
        >>> json.loads(gzip.decompress(turn.packed()))["found"]
        [{'qid': '9-1_3', 'query': 'tea', 'docnos': ['a'], 'bits': 32, 'scores': [0.5]}]
    """

    def __init__(self, qid: str) -> None:
        self.qid = qid
        self._lists: Lists = []
        self._lines: list[str] = []

    def add(self, stage: str, said: Mapping[str, Any]) -> None:
        """Add the line of a stage; the scores in ``said`` are arrays."""
        shown = {name: [self._shown(one) for one in value] if name in ("found", "scored") else value for name, value in said.items()}
        fields = {"qid": self.qid, "stage": stage} | shown
        self._lines.append("{" + ", ".join(f"{json.dumps(name)}: {_json(value)}" for name, value in fields.items()) + "}\n")

    def packed(self) -> bytes:
        """The lines as a separate gzip file; empty if there are no lines."""
        return gzip.compress("".join(self._lines).encode(), LEVEL, mtime=0) if self._lines else b""

    def _shown(self, query: Mapping[str, Any]) -> "_Written":
        fields = {name: value for name, value in query.items() if name not in ("docnos", "scores")}
        docnos, scores = query["docnos"], query["scores"]
        form, bits = ("%.9g", ', "bits": 32') if _is_single(scores) else ("%r", "")
        numbers = ", ".join(form % score for score in scores.tolist()) if np.isfinite(scores).all() else json.dumps(scores.tolist())[1:-1]
        written = json.dumps({**fields, "docnos": self._number(docnos)}, default=str)
        return _Written(f'{written[:-1]}{bits}, "scores": [{numbers}]}}')

    def _number(self, docnos: list[str]) -> Any:
        for number, known in enumerate(self._lists):
            if known[: len(docnos)] == docnos:
                return number
        self._lists.append(docnos)
        return docnos


class _Written(str):
    """Text that is already JSON."""


def _json(value: Any) -> str:
    if isinstance(value, list) and value and isinstance(value[0], _Written):
        return "[" + ", ".join(value) + "]"
    return json.dumps(value, default=str)


def _is_single(scores: Floats) -> bool:
    with np.errstate(over="ignore"):
        return bool((scores.astype(np.float32) == scores).all())


def read_stages(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of a file, one at a time.

    Raises:
        DataError: when it can't be read.
    """
    turn, lists = None, Lists()
    for number, line in enumerate(_lines(path), 1):
        try:
            said = json.loads(line)
            turn, lists = (turn, lists) if said["qid"] == turn else (said["qid"], [])
            for query in (*said.get("found", ()), *said.get("scored", ())):
                _restore(query, lists)
        except (ValueError, KeyError, TypeError, IndexError, RecursionError) as error:
            raise DataError(f"{path}, line {number}: no stage of a turn ({error}): repeat the run") from None
        yield said


def _lines(path: Path) -> Iterator[bytes]:
    try:
        with gzip.open(path) as file:
            yield from file
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} can't be read ({error}): repeat the run") from None


def _restore(query: dict[str, Any], lists: Lists) -> None:
    docnos, scores = query["docnos"], query["scores"]
    if isinstance(docnos, int):
        query["docnos"] = lists[docnos][: len(scores)]
    else:
        lists.append(docnos)
    if query.pop("bits", 64) == 32:  # noqa: PLR2004
        query["scores"] = np.array(scores, dtype=np.float32).astype(np.float64).tolist()
    elif not all(isinstance(score, float) for score in scores):
        query["scores"] = list(map(float, scores))
