"""Finished runs at a smaller depth or with fewer queries, from their stored stage outputs: nothing is retrieved, scored or asked again.

Each query's list at depth k is the beginning of a deeper list, and a re-ranker that scores each passage alone gives the same scores to
fewer passages. So the method is built again at depth k, with the stored lists as its retriever and the stored scores as its re-ranker, and
the stages after the retriever are run. At the run's own depth this must reproduce the run's ranking.
"""

import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
import pandas as pd
import pyterrier as pt

from ..conversations.frame import object_frame
from ..errors import DataError, UsageError
from ..methods import METHODS, Method
from ..methods.definition import StandIn
from ..operator import Operator, every_stage, stages
from ..rank.scoring import ranked_by
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
        depth: passages of each query at most.
        queries: use only so many queries of each turn, from the first one; None for all.
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


class Replay:
    """A finished run, replayed with fewer passages or queries.

    Args:
        folder: the run folder.
        methods: the methods of a user's file, by name; those of the catalogue are known.

    Raises:
        UsageError: when the run can't be replayed; it says why.
        DataError: when the folder can't be read.

    Example:
        >>> from pyterrier_ikat.study.replay import Point, Replay
        >>> for turns in Replay(RunFolder("runs/aqd")).chunks([Point(100), Point(50)]):  # doctest: +SKIP
        ...     print(turns.pairs)
    """

    def __init__(self, folder: RunFolder, methods: Mapping[str, Method] | None = None) -> None:
        known, self.folder = folder.parameters(), folder
        name = str(known.get("method"))
        entry = (dict(METHODS) | dict(methods or {})).get(name)
        if entry is None:
            raise self._refused(f"its method {name} is none of the catalogue: give the Python file that has it")
        if "depth" not in inspect.signature(entry.system).parameters:
            raise self._refused(f"its method {name} has no argument depth")
        if not (folder.path / "stages.jsonl.gz").is_file():
            raise self._refused("it has no stages.jsonl.gz: make the run again with this version")
        self._entry = entry
        self._written = [str(text) for text in dict(known.get("stages", {})).values()]
        cut = CUT.search(" ".join(self._written))
        self.depth = int(cut[1]) if cut else entry.depth
        self._scorers = self._scorer_names()
        self._check_stages(self._build(self.depth, {}))

    def chunks(self, points: Sequence[Point]) -> Iterator[Chunk]:
        """The rankings at these points, some turns at a time.

        Raises:
            UsageError: when a point is deeper than the run, or the kept scores don't give the run's own ranking.
            DataError: when the folder can't be read.
        """
        for point in points:
            if point.depth > self.depth:
                raise UsageError(
                    f"depth {point.depth} is more than the {self.depth} of {self.folder.path}: only smaller depths lie inside it"
                )
        whole = {qid: part["docno"].tolist() for qid, part in self.folder.results().groupby("qid", sort=False)}
        turns = self._turns()
        while some := list(islice(turns, TURNS_AT_ONCE)):
            chunk = self._chunk(some, list(dict.fromkeys([Point(self.depth), *points])))
            again = chunk.rankings[Point(self.depth)].groupby("qid", sort=False)["docno"].agg(list).to_dict()
            for qid in chunk.qids:
                if again.get(qid, []) != whole.get(qid, []):
                    raise self._refused(f"what it kept doesn't give its ranking of turn {qid}: make the run again with this version")
            yield chunk

    def _chunk(self, turns: list["_Turn"], points: list[Point]) -> Chunk:
        found = Chunk([turn.qid for turn in turns], {}, {}, max(len(turn.queries) for turn in turns))
        scores: dict[str, Scores] = {name: {} for name in self._scorers}
        for turn in turns:
            for name, of_queries in turn.scores.items():
                scores[name].update(of_queries)
        for point in points:
            built = self._build(point.depth, scores)
            frame = _frame(turns, point.queries)
            for stage in self._behind(built):
                frame = stage.transform(frame) if len(frame) else frame
            found.rankings[point] = frame[["qid", "docno", "score", "rank"]]
            found.pairs[point] = sum(stage.pairs for stage in built.scorers)
        return found

    def _build(self, depth: int, scores: Mapping[str, Scores]) -> "_Built":
        scorers = [_KeptScores(name, scores.get(name, {})) for name in self._scorers]
        given: dict[str, Any] = {name: StandIn(name) for name in MODELS} | {"retriever": _KeptLists(), "dense": _KeptLists()}
        if len(scorers) > 1 and not self._entry.several:
            raise self._refused(f"it has several re-rankers ({', '.join(self._scorers)})")
        if scorers:
            given["reranker"] = scorers if self._entry.several else scorers[0]
        elif "reranker" in self._entry.needs:
            raise self._refused(
                "its re-ranker is of another package, or scores a passage by the others, too: CrossEncoder and BiEncoder can be replayed"
            )
        entry = replace(self._entry, settings={**self._entry.settings, "depth": depth})
        return _Built(entry.build(**given), scorers)

    def _behind(self, built: "_Built") -> list[pt.Transformer]:
        """The stages behind the retriever that make the ranking."""
        top = list(stages(built.pipeline))
        places = [place for place, stage in enumerate(top) if isinstance(stage, _KeptLists)]
        if len(places) != 1 or sum(isinstance(stage, _KeptLists) for stage in every_stage(built.pipeline)) != 1:
            raise self._refused("it retrieves several times, or inside another stage")
        behind = [stage for stage in top[places[0] + 1 :] if not getattr(stage, "keeps_ranking", False)]
        for stage in behind:
            if isinstance(stage, Operator) and any(isinstance(value, StandIn) for value in stage.arguments().values()):
                raise self._refused(f"{type(stage).__name__} asks a model about the passages")
            if not isinstance(stage, Operator | pt.RankCutoff):
                raise self._refused(f"its stage {stage!r} is of another package")
        return behind

    def _check_stages(self, built: "_Built") -> None:
        """Whether the ranking is made by the stages that the run had."""
        top = list(stages(built.pipeline))
        for stage in self._behind(built):
            place = next(number for number, one in enumerate(top) if one is stage)
            was, now = "".join(self._written[place : place + 1]), ADDRESS.sub("", repr(stage))
            if len(top) != len(self._written) or was != now:
                raise self._refused(f"it ranked by {was or 'fewer stages'}, and {now} is what can be repeated")

    def _scorer_names(self) -> list[str]:
        """The re-rankers that score each passage alone, in their order."""
        return list(dict.fromkeys(line["stage"] for line in self.folder.stages() if line.get("alone")))

    def _turns(self) -> Iterator["_Turn"]:
        written = {turn["qid"]: turn for turn in self.folder.turns()}
        turn: _Turn | None = None
        for line in self.folder.stages():
            if turn is None or turn.qid != line["qid"]:
                if turn is not None:
                    yield turn
                turn = _Turn(line["qid"], dict(written.get(line["qid"], {})), [], {})
            self._add(turn, line)
        if turn is not None:
            yield turn

    def _add(self, turn: "_Turn", line: dict[str, Any]) -> None:
        if "found" in line and turn.queries:
            raise self._refused("it retrieves several times")
        if "found" in line:
            turn.queries = line["found"]
            turn.columns["query"] = line["query"]
        elif not turn.queries:
            turn.columns |= line.get("wrote", {})
        if line.get("alone"):
            of_queries = turn.scores.setdefault(line["stage"], {})
            for query in line["scored"]:
                scored = of_queries.setdefault((query["qid"], query["query"]), {})
                scored.update(zip(query["docnos"], query["scores"], strict=True))

    def _refused(self, why: str) -> UsageError:
        return UsageError(f"{self.folder.path} can't be cut to smaller depths: {why}")


@dataclass
class _Turn:
    qid: str
    columns: dict[str, Any]
    queries: list[dict[str, Any]]
    scores: dict[str, Scores]


@dataclass
class _Built:
    pipeline: pt.Transformer
    scorers: list["_KeptScores"]


class _KeptLists(Operator):
    """A placeholder that marks the position of the retriever."""

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        raise UsageError("the kept lists are no retriever")


class _KeptScores(Operator):
    """Gives the scores that were kept, and counts them."""

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
    columns = list(dict.fromkeys(name for turn in turns for name, value in turn.columns.items() if isinstance(value, str)))
    expanded = any("qsub" in query for turn in turns for query in turn.queries)
    rows = []
    for turn in turns:
        of_turn = {name: turn.columns.get(name) for name in columns}
        for query in turn.queries[:first]:
            row = of_turn | {"qid": query["qid"], "query": query["query"]}
            if expanded:
                own = turn.columns["query"]
                row |= {"qid_0": turn.qid, "qquery": own, "query_0": own, "qsub": query["qsub"], "qweight": query.get("qweight", 1.0)}
            rows.append((row, query))
    sizes = [len(query["docnos"]) for _, query in rows]
    names = ["qid", "query", *(["qid_0", "qquery", "query_0"] if expanded else []), *columns]
    spread = {name: np.repeat(np.array([row.get(name) for row, _ in rows], dtype=object), sizes) for name in dict.fromkeys(names)}
    frame = object_frame(spread | {"docno": [docno for _, query in rows for docno in query["docnos"]]})
    numbers = {name: np.repeat([row[name] for row, _ in rows], sizes) for name in (("qsub", "qweight") if expanded else ())}
    scores = np.array([score for _, query in rows for score in query["scores"]], dtype=np.float64)
    rank = np.concatenate([np.arange(0), *map(np.arange, sizes)])
    return frame.assign(**numbers, score=scores, rank=rank)
