"""What a comparison will cost, estimated before anything is spent: each stage tells the plan what it asks and what it leaves behind."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd
import pyterrier as pt

from .arguments import checked
from .completions.usable import without_next_prompt
from .conversations.frame import column, object_frame
from .llms import LLM, Reply, Request
from .llms.cache import key_of
from .operator import Asks, Operator, subpipelines

CHARACTERS_PER_TOKEN = 4
PASSAGE_STAND_IN = "word " * 150
RANKING_DEPTH = 1000
"""How many passages a retriever finds for a turn, unless a cut ``% k`` behind it says so."""
RESULT_COLUMNS = ("docno", "score", "rank", "text")
COLUMNS = ("system", "stage", "model", "calls", "cached", "shared", "new", "prompt_tokens", "completion_tokens", "cost")


@checked
def plan(systems: Mapping[str, pt.Transformer], topics: pd.DataFrame) -> pd.DataFrame:
    """Estimate the LLM calls, tokens and cost of systems on these topics.

    Nothing is asked, nothing is retrieved and no model is loaded.

    Stages are followed in order. Where a completion is in the cache already, it is used and counted as cached;
    elsewhere a stand-in of typical length takes its place, so the tokens are estimates (four characters a token), and
    so are calls that depend on them. The stand-in for what a trained rewriter or the retriever makes of a turn is the
    user's question, for ranked statements the first of the persona. A :class:`~pyterrier_ikat.Judge` in a pipeline is
    asked about every passage that the cut (``% k``) before it leaves, 1000 of each turn without one. A request that
    several systems share counts once, for the first of them.

    Operators say themselves what they ask and leave behind (``Operator.plan``). Of a stage of another package the plan knows only the
    columns: one that finds passages for queries is a retriever, which asks nothing; one of PyTerrier itself that turns queries into
    queries (``pt.apply.query``) is run; any other is a row whose counts are unknown.

    Args:
        systems: name -> pipeline.
        topics: a turn frame; for a judge alone the pool that it is to judge, as ``evaluate.with_gold`` makes it.

    Returns:
        One row per system, stage and model: ``system``, ``stage``, ``model``, ``calls`` (requests of the stage),
        ``cached`` (paid for already), ``shared`` (repeats of a request made before), ``new`` (left to pay),
        ``prompt_tokens`` and ``completion_tokens`` of the new ones, ``cost`` in USD (missing when the price is
        unknown). The counts of a stage that can't be planned are missing.

    Example:
        >>> import pyterrier as pt, pyterrier_ikat as ikat
        >>> llm = ikat.llm("openai:gpt-4o cache=none")
        >>> bool(ikat.plan({"AD": ikat.Answer(llm)}, pt.get_dataset("ikat:sample").get_topics())["new"].sum() > 0)
        True
    """
    seen: set[tuple[LLM, str]] = set()
    rows = []
    for name, system in systems.items():
        estimate = _Estimate(name, seen)
        estimate.follow(system, topics)
        rows += estimate.rows
    whole = dict.fromkeys(("calls", "cached", "shared", "new", "prompt_tokens", "completion_tokens"), "Int64")
    return pd.DataFrame(rows, columns=list(COLUMNS)).astype(whole)


def stages(pipeline: pt.Transformer) -> Iterator[pt.Transformer]:
    """The stages of a pipeline, in order, nested compositions flattened."""
    if isinstance(pipeline, pt.Compose):
        for stage in pipeline:
            yield from stages(stage)
    else:
        yield pipeline


class _Estimate:
    """The plan of one system, which its stages write into (see ``pyterrier_ikat.operator.Plan``)."""

    def __init__(self, system: str, seen: set[tuple[LLM, str]]) -> None:
        self.system, self.seen, self.cut = system, seen, RANKING_DEPTH
        self.rows: list[dict[str, Any]] = []

    def follow(self, pipeline: pt.Transformer, frame: pd.DataFrame) -> pd.DataFrame:
        for stage in stages(pipeline):
            frame = self._step(stage, frame)
        return frame

    def _step(self, stage: pt.Transformer, frame: pd.DataFrame) -> pd.DataFrame:
        if isinstance(stage, Operator):
            return stage.plan(frame, self)
        if isinstance(stage, pt.RankCutoff):
            self.cut = stage.k
            return frame
        return self.by_columns(stage, frame)

    def by_columns(self, stage: pt.Transformer, frame: pd.DataFrame) -> pd.DataFrame:
        inner = subpipelines(stage)
        for pipeline in inner:
            self.follow(pipeline, frame)
        columns = list(frame.columns)
        of_turns = pt.inspect.transformer_outputs(stage, columns, strict=False)
        if of_turns is not None and "docno" in of_turns:
            return frame
        if inner or not _asks_nothing(stage):
            return self._unknown(stage, frame)
        if of_turns is None:
            reads_passages = pt.inspect.transformer_outputs(stage, [*columns, *RESULT_COLUMNS], strict=False) is not None
            return frame if reads_passages else self._unknown(stage, frame)
        try:
            return stage.transform(frame)
        except Exception:  # whatever a stage raises on a stand-in says nothing about the real frame
            return self._unknown(stage, frame)

    def passages(self, frame: pd.DataFrame, depth: int) -> pd.DataFrame:
        many = frame.loc[frame.index.repeat(depth)].reset_index(drop=True)
        numbers = [str(number) for _ in range(len(frame)) for number in range(depth)]
        texts = [f"{PASSAGE_STAND_IN}{number}" for number in numbers]
        return many.assign(docno=column(numbers), text=column(texts), **object_frame({"rank": numbers}))

    def ask(self, stage: Asks, frame: pd.DataFrame) -> list[Any]:
        requests, stand_ins = stage.requests(frame), stage.typical(frame)
        known = [stage.llm.peek(request) for request in requests]
        parsed = [None if completion is None else stage.parse(without_next_prompt(completion.text)) for completion in known]
        missing = [request for request, completion in zip(requests, known, strict=True) if completion is None]
        new = [request for request in missing if self._first(stage.llm, request)]
        row = {"system": self.system, "stage": stage.stage, "model": stage.llm.model, "calls": len(requests)}
        row |= {"cached": len(requests) - len(missing), "shared": len(missing) - len(new), "new": len(new)}
        self.rows.append(row | _cost(stage.llm, new, stand_ins))
        return [stand_in if value is None else value for value, stand_in in zip(parsed, stand_ins, strict=True)]

    def _first(self, llm: LLM, request: Request) -> bool:
        key = (llm, key_of(llm.backend.identity, request))
        first = key not in self.seen
        self.seen.add(key)
        return first

    def _unknown(self, stage: pt.Transformer, frame: pd.DataFrame) -> pd.DataFrame:
        self.rows.append({"system": self.system, "stage": repr(stage), "model": "unknown"} | dict.fromkeys(COLUMNS[3:], pd.NA))
        return frame


def _asks_nothing(stage: pt.Transformer) -> bool:
    """Whether a stage surely costs nothing: an operator without an LLM, and PyTerrier's own."""
    if isinstance(stage, Operator):
        return not any(isinstance(value, LLM) for value in stage.arguments().values())
    return type(stage).__module__.partition(".")[0] == "pyterrier"


def _cost(llm: LLM, new: Sequence[Request], typical: Sequence[Any]) -> dict[str, Any]:
    prompt = sum(len(message["content"]) for request in new for message in request.messages) // CHARACTERS_PER_TOKEN
    mean = sum(len(str(value)) for value in typical) / max(len(typical), 1)
    completion = int(mean * len(new)) // CHARACTERS_PER_TOKEN
    cost = llm.budget.cost(Reply(None, prompt_tokens=prompt, completion_tokens=completion))
    return {"prompt_tokens": prompt, "completion_tokens": completion, "cost": cost}
