"""Finished runs at a smaller depth or with fewer queries, from their stored stage outputs: nothing is retrieved, scored or asked again.

Each query's list at depth k is the beginning of a deeper list. A re-ranker that scores each passage separately gives the same scores to
fewer passages. So the method is built again at depth k, with the stored lists as its retriever and the stored scores as its re-ranker, and
the stages after the retriever are run. At the run's own depth this must reproduce the run's ranking.
"""

import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, islice
from typing import Any

import numpy as np
import pandas as pd
import pyterrier as pt

from ..conversations.frame import object_frame
from ..errors import DataError, UsageError
from ..methods import METHODS, Method
from ..methods.definition import StandIn
from ..operator import Operator, every_stage, stages
from ..rank.reranker import ranked_by
from ..runs import RunFolder
from .identity import ADDRESS

TURNS_AT_ONCE = 32
CUT = re.compile(r"RankCutoff\((\d+)\)")
MODELS = ("llm", "second_llm", "rewriter", "expander")

Scores = dict[tuple[str, str], dict[str, float]]
"""(qid, query) -> passage -> score."""


@dataclass(frozen=True)
class Point:
    """A cheaper setting of a system.

    Attributes:
        depth: the maximum number of passages per query.
        queries: the number of queries of each turn to use, from the first one on; None for all.
    """

    depth: int
    queries: int | None = None


@dataclass
class Chunk:
    """Some turns of a run.

    Attributes:
        qids: the turns.
        rankings: the ranking at each point.
        pairs: the number of (query, passage) pairs that the re-ranker scores at each point.
        queries: the maximum number of queries of a turn.
    """

    qids: list[str]
    rankings: dict[Point, pd.DataFrame]
    pairs: dict[Point, int]
    queries: int


@dataclass
class _Turn:
    qid: str
    columns: dict[str, Any]
    queries: list[dict[str, Any]] = field(default_factory=list)


class Replay:
    """A finished run, replayed with fewer passages or queries.

    Args:
        folder: the run folder.
        methods: the methods of a user's file, by name. Those of the catalogue are known.

    Raises:
        UsageError: when the run can't be replayed. The message says why.
        DataError: when the folder can't be read.

    Example:
        >>> from pyterrier_ikat.study.replay import Point, Replay
        >>> for turns in Replay(RunFolder("runs/aqd")).chunks([Point(100), Point(50)]):  # doctest: +SKIP
        ...     print(turns.pairs)
    """

    def __init__(self, folder: RunFolder, methods: Mapping[str, Method] | None = None) -> None:
        known, self.folder = folder.parameters(), folder
        entry = {**METHODS, **(methods or {})}.get(str(known.get("method")))
        if entry is None or "depth" not in inspect.signature(entry.system).parameters:
            lacks = "has no argument depth" if entry else "is not in the catalogue: give the Python file that has it"
            raise self._refused(f"its method {known.get('method')} {lacks}")
        self._entry = entry
        self._written = [str(text) for text in known.get("stages", {}).values()]
        cut = CUT.search(" ".join(self._written))
        self.depth = int(cut[1]) if cut else entry.depth
        self._scorers = list(dict.fromkeys(line["stage"] for line in folder.stages() if line.get("alone")))
        self._check_stages(self._build(self.depth, {}))

    def chunks(self, points: Sequence[Point]) -> Iterator[Chunk]:
        """The rankings at these points, some turns at a time.

        Raises:
            UsageError: when a point is deeper than the run, or the kept scores don't give the run's own ranking.
            DataError: when the folder can't be read.
        """
        if deeper := [point.depth for point in points if point.depth > self.depth]:
            raise UsageError(f"depth {deeper[0]} is more than the {self.depth} of {self.folder.path}: only smaller depths lie inside it")
        own = Point(self.depth)
        whole = {qid: part["docno"].tolist() for qid, part in self.folder.results().groupby("qid", sort=False)}
        scores: dict[str, Scores] = {name: {} for name in self._scorers}
        turns = self._turns(scores)
        while some := list(islice(turns, TURNS_AT_ONCE)):
            chunk = Chunk([turn.qid for turn in some], {}, {}, max(len(turn.queries) for turn in some))
            for point in dict.fromkeys([own, *points]):
                chunk.rankings[point], chunk.pairs[point] = self._at(point, some, scores)
            again = chunk.rankings[own].groupby("qid", sort=False)["docno"].agg(list).to_dict()
            for qid in chunk.qids:
                if again.get(qid, []) != whole.get(qid, []):
                    raise self._refused(f"what it kept doesn't give its ranking of turn {qid}: make the run again with this version")
            yield chunk
            for kept in scores.values():
                kept.clear()

    def _at(self, point: Point, turns: Sequence[_Turn], scores: Mapping[str, Scores]) -> tuple[pd.DataFrame, int]:
        """The ranking at a point, and the number of pairs that are scored for it."""
        built, frame = self._build(point.depth, scores), _frame(turns, point.queries)
        for stage in self._behind(built).values():
            frame = stage.transform(frame) if len(frame) else frame
        scorers = {id(stage): stage.pairs for stage in every_stage(built) if isinstance(stage, _KeptScores)}
        return frame[["qid", "docno", "score", "rank"]], sum(scorers.values())

    def _build(self, depth: int, scores: Mapping[str, Scores]) -> pt.Transformer:
        """The method at a depth, on the stored lists and scores. A model without stored scores is only named."""
        needed = [name for name in self._entry.needs if name == "reranker"]  # an optional one without stored scores was omitted
        given: dict[str, Any] = {name: StandIn(name) for name in (*MODELS, *needed)} | {"retriever": _KeptLists(), "dense": _KeptLists()}
        if scorers := [_KeptScores(name, scores.get(name, {})) for name in self._scorers]:
            given["reranker"] = scorers if self._entry.several else scorers[0]
        return replace(self._entry, settings={**self._entry.settings, "depth": depth}).build(**given)

    def _behind(self, built: pt.Transformer) -> dict[int, pt.Transformer]:
        """The stages after the retriever that make the ranking, by their positions."""
        top = list(stages(built))
        places = [place for place, stage in enumerate(top) if isinstance(stage, _KeptLists)]
        if len(places) != 1 or sum(isinstance(stage, _KeptLists) for stage in every_stage(built)) != 1:
            raise self._refused("it retrieves several times, or inside another stage")
        return {place: top[place] for place in range(places[0] + 1, len(top)) if not getattr(top[place], "keeps_ranking", False)}

    def _check_stages(self, built: pt.Transformer) -> None:
        """Check that the ranking is made by the stages of the run, and from stored scores only."""
        same_number = len(list(stages(built))) == len(self._written)
        for place, stage in self._behind(built).items():
            was = "".join(self._written[place : place + 1])
            if not (same_number and was == ADDRESS.sub("", repr(stage)) and isinstance(stage, Operator | pt.RankCutoff)):
                raise self._refused(f"it ranked by {was or 'fewer stages'}, which the kept scores of single passages can't repeat")

    def _turns(self, scores: Mapping[str, Scores]) -> Iterator[_Turn]:
        """The turns with the columns written and the passages found for them. Their scores are added to ``scores``."""
        written = {turn["qid"]: turn for turn in self.folder.turns()}
        for qid, lines in groupby(self.folder.stages(), key=lambda line: str(line["qid"])):
            turn = _Turn(qid, dict(written.get(qid, {})))
            for line in lines:
                if "found" in line and turn.queries:
                    raise self._refused("it retrieves several times")
                if "found" in line:
                    turn.queries = line["found"]
                    turn.columns["query"] = line["query"]
                elif not turn.queries:
                    turn.columns |= line.get("wrote", {})
                for query in line["scored"] if line.get("alone") else ():
                    found = scores[line["stage"]].setdefault((query["qid"], query["query"]), {})
                    found.update(zip(query["docnos"], query["scores"], strict=True))
            yield turn

    def _refused(self, why: str) -> UsageError:
        return UsageError(f"{self.folder.path} can't be cut to smaller depths: {why}")


class _KeptLists(Operator):
    """A placeholder that marks the position of the retriever."""

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        raise UsageError("the kept lists are not a retriever")


class _KeptScores(Operator):
    """Returns the stored scores, and counts them."""

    def __init__(self, name: str, scores: Scores) -> None:
        super().__init__()
        self.name, self.scores, self.pairs = name, scores, 0

    def __repr__(self) -> str:
        return self.name

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        self.pairs += len(inp)
        rows = zip(inp["qid"], inp["query"], inp["docno"], strict=True)
        found = [self.scores.get((qid, query), {}).get(docno) for qid, query, docno in rows]
        if None in found:
            row = inp.iloc[found.index(None)]
            raise DataError(f"the run kept no score of {self.name} for passage {row['docno']} of {row['qid']}: make the run again")
        return ranked_by(inp, np.array(found, dtype=np.float64), self.name)


def _frame(turns: Sequence[_Turn], first: int | None) -> pd.DataFrame:
    """The retriever's stored passages for the first queries of each turn."""
    texts = {name: None for turn in turns for name, value in turn.columns.items() if isinstance(value, str)}
    rows: list[dict[str, Any]] = []
    for turn in turns:
        of_turn = texts | {name: value for name, value in turn.columns.items() if name in texts}
        for query in turn.queries[:first]:
            row = of_turn | {"qid": query["qid"], "query": query["query"]}
            if "qsub" in query:
                own = turn.columns["query"]
                row |= {"qid_0": turn.qid, "qquery": own, "query_0": own, "qsub": query["qsub"], "qweight": query.get("qweight", 1.0)}
            found = zip(query["docnos"], query["scores"], strict=True)
            rows += [row | {"docno": docno, "score": score, "rank": rank} for rank, (docno, score) in enumerate(found)]
    frame = pd.DataFrame(rows, columns=None if rows else ["qid", "query", "docno", "score", "rank"])
    numbers = frame.columns.intersection(["score", "rank", "qsub", "qweight"])
    return object_frame(frame.drop(columns=numbers).to_dict("list")).assign(**frame[numbers])
