"""What a comparison will cost, before anything is spent."""

from collections.abc import Iterator, Mapping
from typing import Protocol, runtime_checkable

import numpy as np
import pandas as pd
import pyterrier as pt

from ..conversations.frame import column, object_frame, personas, question_column, values, with_columns, with_query
from ..fuse import RRF, Interleave, MeanScore, Pool, RerankBy, Union
from ..fuse.subqueries import bring_back
from ..generate import (
    AllUtterances,
    Append,
    Expand,
    HistoricalQueryExpansion,
    Resolved,
    Respond,
    Seq2SeqRewrite,
    Utterance,
    WithStatements,
)
from ..llm import LLM, Reply, Request
from ..llm.cache import key_of
from ..prompts.operator import LLMOperator
from ..prompts.run_on import without_next_prompt
from ..rank import RankStatements
from ..rank.rerank import Rerank

RUN = (AllUtterances, Expand, Resolved, Utterance, WithStatements)
"""The only operators that are run: they compute from the frame alone. Every other stage is left out or has a stand-in."""

CHARACTERS_PER_TOKEN = 4
PASSAGE_STAND_IN = "word " * 150
RANKING_DEPTH = 1000
"""How many passages a retriever finds for a turn, unless a cut ``% k`` behind it says so."""


def plan(systems: Mapping[str, pt.Transformer], topics: pd.DataFrame) -> pd.DataFrame:
    """Count the LLM calls and tokens that the systems will need on these topics.

    Nothing is asked, nothing is retrieved and no model is loaded.

    Stages are followed in order. Where a completion is in the cache already, it is used and counted as cached;
    elsewhere a stand-in of typical length takes its place, so the tokens are estimates (four characters a token), and
    so are calls that depend on them. The stand-in for what a trained rewriter or the retriever makes of a turn is the
    user's question, for ranked statements the first of the persona. A :class:`~pyterrier_ikat.Judge` in a pipeline is
    asked about every passage that the cut (``% k``) before it leaves, 1000 of each turn without one. A request that
    several systems share counts once, for the first of them.

    Args:
        systems: name -> pipeline.
        topics: a turn frame; for a judge alone the pool that it is to judge, as ``evaluate.with_gold`` makes it.

    Returns:
        One row per system, stage and model: ``system``, ``stage``, ``model``, ``calls`` (requests of the stage),
        ``cached`` (paid for already), ``shared`` (repeats of a request made before), ``new`` (left to pay),
        ``prompt_tokens`` and ``completion_tokens`` of the new ones, ``cost`` in USD (missing when the price is
        unknown).

    Example:
        >>> import pyterrier as pt, pyterrier_ikat as ikat
        >>> llm = ikat.llm("openai:gpt-4o cache=none")
        >>> bool(ikat.plan({"AD": ikat.Answer(llm)}, pt.get_dataset("ikat:sample").get_topics())["new"].sum() > 0)
        True
    """
    seen: set[tuple[LLM, str]] = set()
    rows = [row for name, system in systems.items() for row in _Walk(name, seen).follow(system, topics)[1]]
    columns = ["system", "stage", "model", "calls", "cached", "shared", "new", "prompt_tokens", "completion_tokens", "cost"]
    return pd.DataFrame(rows, columns=columns)


def stages(pipeline: pt.Transformer) -> Iterator[pt.Transformer]:
    """The stages of a pipeline, in order, nested compositions flattened."""
    if isinstance(pipeline, pt.Compose):
        for stage in pipeline:
            yield from stages(stage)
    else:
        yield pipeline


@runtime_checkable
class ReadsGold(Protocol):
    """An operator that is asked about every passage of its input and shown gold: a judge, of a room behind this one."""

    def with_stand_ins(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The frame with a text in the place of all gold that it lacks."""
        ...


class _Walk:
    def __init__(self, system: str, seen: set[tuple[LLM, str]]) -> None:
        self.system, self.seen, self.cut = system, seen, RANKING_DEPTH

    def follow(self, pipeline: pt.Transformer, frame: pd.DataFrame) -> tuple[pd.DataFrame, list[dict[str, object]]]:
        rows: list[dict[str, object]] = []
        for stage in stages(pipeline):
            frame, more = self.step(stage, frame)
            rows += more
        return frame, rows

    def step(self, stage: pt.Transformer, frame: pd.DataFrame) -> tuple[pd.DataFrame, list[dict[str, object]]]:
        if isinstance(stage, LLMOperator):
            return self.ask(stage, frame)
        if isinstance(stage, pt.RankCutoff):
            self.cut = stage.k
        if isinstance(stage, Append):
            made, rows = self.follow(stage.operator, frame)
            return stage.appended(frame, made), rows
        seen = _restored(frame) if isinstance(stage, RerankBy) else frame
        inner = [self.follow(nested, seen) for nested in _nested(stage)]
        behind = _restored(inner[-1][0]) if isinstance(stage, Union) else _behind(stage, frame)
        return behind, [row for _, rows in inner for row in rows]

    def ask(self, stage: LLMOperator, frame: pd.DataFrame) -> tuple[pd.DataFrame, list[dict[str, object]]]:
        depth = _passages_read(stage, frame, self.cut)
        asked = _with_passages(frame, depth) if depth else frame
        asked = stage.with_stand_ins(asked) if isinstance(stage, ReadsGold) else asked
        requests = stage.requests(asked)
        known = [stage.llm.peek(request) for request in requests]
        parsed = [None if completion is None else stage.parse(without_next_prompt(completion.text)) for completion in known]
        found = [stand_in if value is None else value for value, stand_in in zip(parsed, stage.planned(asked), strict=True)]
        new = [
            request for request, completion in zip(requests, known, strict=True) if completion is None and self._first(stage.llm, request)
        ]
        cached = sum(completion is not None for completion in known)
        row = {"system": self.system, "stage": stage.stage, "model": stage.llm.model, "calls": len(requests), "cached": cached}
        row |= {"shared": len(requests) - cached - len(new), "new": len(new)} | _cost(stage, asked, new)
        return (frame if depth else stage.write(frame, found)), [row]

    def _first(self, llm: LLM, request: Request) -> bool:
        key = (llm, key_of(llm.backend.identity, request))
        first = key not in self.seen
        self.seen.add(key)
        return first


def _nested(stage: pt.Transformer) -> list[pt.Transformer]:
    nested: list[pt.Transformer] = []
    for found in pt.inspect.subtransformers(stage).values():
        nested += found if isinstance(found, list) else [found]
    return nested


def _behind(stage: pt.Transformer, frame: pd.DataFrame) -> pd.DataFrame:
    if isinstance(stage, Interleave | MeanScore | Pool | RRF | RerankBy):
        return _restored(frame)
    if isinstance(stage, RankStatements):
        chosen = [[(number, 0.0) for number in list(ptkb)[: stage.n]] for ptkb in personas(frame)]
        return with_columns(frame, qstatements=chosen)
    if isinstance(stage, HistoricalQueryExpansion | Seq2SeqRewrite):
        questions = values(frame, question_column(frame))
        rewritten = with_columns(frame, qrewrite=questions) if isinstance(stage, Seq2SeqRewrite) else frame
        return with_query(rewritten, questions)
    lacks = isinstance(stage, WithStatements) and stage.column not in frame.columns
    return stage.transform(frame) if type(stage) in RUN and not lacks else frame


def _restored(frame: pd.DataFrame) -> pd.DataFrame:
    if "qid_0" not in frame.columns:
        return frame
    return bring_back(frame, np.flatnonzero(frame["qsub"] == 0)).drop(columns="qfound")


def _passages_read(stage: LLMOperator, frame: pd.DataFrame, cut: int) -> int:
    if isinstance(stage, Rerank):
        return stage.depth
    if isinstance(stage, ReadsGold):
        return 0 if "docno" in frame.columns else cut
    return stage.passages if isinstance(stage, Respond) else 0


def _with_passages(frame: pd.DataFrame, depth: int) -> pd.DataFrame:
    many = frame.loc[frame.index.repeat(depth)].reset_index(drop=True)
    numbers = [str(number) for _ in range(len(frame)) for number in range(depth)]
    texts = [f"{PASSAGE_STAND_IN}{number}" for number in numbers]
    return many.assign(docno=column(numbers), text=column(texts), **object_frame({"rank": numbers}))


def _cost(stage: LLMOperator, frame: pd.DataFrame, new: list[Request]) -> dict[str, object]:
    prompt = sum(len(message["content"]) for request in new for message in request.messages) // CHARACTERS_PER_TOKEN
    typical = [len(str(value)) for value in stage.planned(frame)]
    completion = int(sum(typical) / max(len(typical), 1) * len(new)) // CHARACTERS_PER_TOKEN
    cost = stage.llm.budget.cost(Reply(None, prompt_tokens=prompt, completion_tokens=completion))
    return {"prompt_tokens": prompt, "completion_tokens": completion, "cost": cost}
