"""The estimated cost of a comparison, before any request is sent.

Each stage gives the plan its requests and its output frame.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import pandas as pd
import pyterrier as pt

from .arguments import by_position
from .conversations.frame import column
from .events import in_chain
from .foreign import Foreign
from .llms import LLM, Request
from .llms.ledger import CHARACTERS_PER_TOKEN, TITLES, estimated_tokens
from .lost_columns import ALWAYS_READ, LostColumns, note_dropped
from .operator import face, stages
from .tables import Table, of_frame, wrapped

PASSAGE_STAND_IN = "word " * 150
RANKING_DEPTH = 1000
"""How many passages of a turn a retriever returns, unless a cut ``% k`` follows it."""
RESULT_COLUMNS = ("docno", "score", "rank", "text")
AT_LEAST = ", at least"
"""Added to the name of a stage whose model decides how many texts it writes."""
AT_MOST = ", at most"
"""Added to the name of a stage that may get fewer turns or passages than planned.

It follows a stage of another package, which may drop some.
"""
COLUMNS = (
    "system",
    "stage",
    "model",
    "calls",
    "known",
    "shared",
    "new",
    "prompt_tokens",
    "completion_tokens",
    "cost",
)
REFUSED = "refused"
"""The attribute of a plan with the reasons for which its run would be refused."""
AMOUNTS = COLUMNS[3:]


class PlanTable(pd.DataFrame):
    """The estimated requests of systems, one row per system, stage and model."""

    @classmethod
    def of_rows(cls, rows: Sequence[Mapping[str, Any]]) -> "PlanTable":
        """Return the table of the rows of plans."""
        types = dict.fromkeys(AMOUNTS, "Int64")
        types["cost"] = "Float64"
        return cls(pd.DataFrame(rows, columns=list(COLUMNS)).astype(types))

    @property
    def total(self) -> dict[str, Any]:
        """The sums of all stages, ``pd.NA`` where a part is unknown.

        They are ``calls``, ``known``, ``shared``, ``new``, ``prompt_tokens``,
        ``completion_tokens``, and ``cost`` in USD.
        """
        sums = {}
        for name in AMOUNTS:
            amounts = self[name]
            sums[name] = pd.NA if amounts.isna().any() else amounts.sum().item()
        return sums

    @property
    def refused(self) -> list[str]:
        """Why a run would be refused, a sentence per system; empty without a folder."""
        return list(self.attrs.get(REFUSED, ()))

    def shown(self) -> Table:
        """Return the plan as a table to print, with the total and refusals as its notes."""
        notes = [self._in_words(), *self._refusals()]
        frame = pd.DataFrame(self).rename(columns=TITLES)
        table = of_frame(frame, notes, decimals={TITLES["cost"]: 4})
        table.label = "plan"
        return table

    def _refusals(self) -> list[str]:
        return [f"The run would be refused: {reason}" for reason in self.refused]

    def _in_words(self) -> str:
        total = self.total
        amounts = {}
        for name in ("calls", "new", "prompt_tokens", "completion_tokens"):
            amounts[name] = "unknown" if total[name] is pd.NA else f"{total[name]:,}"
        calls = "call" if amounts["calls"] == "1" else "calls"
        if total["cost"] is pd.NA:
            cost = "unknown (give price_in and price_out)"
        else:
            cost = f"{total['cost']:.4f} USD"
        text = (
            f"Total: {amounts['calls']} {calls}, {amounts['new']} of them new, with about "
            f"{amounts['prompt_tokens']} prompt and {amounts['completion_tokens']} completion "
            f"tokens; cost {cost}. Tokens and cost are estimates, at {CHARACTERS_PER_TOKEN} "
            "characters a token."
        )
        open_ended = set()
        for name in self["stage"]:
            if name.endswith(AT_LEAST):
                open_ended.add(name.removesuffix(AT_LEAST))
        if open_ended:
            text += (
                f" At least: in {' and '.join(sorted(open_ended))}, the model decides how many "
                "texts it writes, up to its max_tokens; the plan counts one for each call that "
                "isn't in the cache."
            )
        if self["stage"].str.endswith(AT_MOST).any():
            text += (
                " At most: a stage of another package in front may give fewer turns or passages "
                "than the plan counts."
            )
        return text

    def __str__(self) -> str:
        if len(self):
            return self.shown().text().rstrip("\n")
        return "\n".join(["No LLM is asked.", *map(wrapped, self._refusals())])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self.shown()._repr_html_()


def estimate(systems: Iterable[tuple[str, pt.Transformer, pd.DataFrame, int]]) -> PlanTable:
    """Return the plan of pipelines; see :func:`pyterrier_ikat.plan`.

    Args:
        systems: name, pipeline, turns, and the chain in which it runs (see
            `pyterrier_ikat.events`).
    """
    seen: set[tuple[LLM, str]] = set()
    warned: set[int] = set()
    rows: list[dict[str, Any]] = []
    for name, pipeline, turns, chain in systems:
        estimated = Plan(name, seen)
        lost = LostColumns(name, pipeline, turns, warned)
        with in_chain(chain), lost.watching():
            estimated.follow(pipeline, turns)
        rows += estimated.rows
    return PlanTable.of_rows(rows)


class Asks(Protocol):
    """What a plan needs from an LLM stage."""

    llm: Any
    open_ended: bool
    """Whether its model decides how many texts it writes."""

    @property
    def stage(self) -> str:
        """Its name in the plan."""
        ...

    def requests(self, frame: pd.DataFrame) -> list[Any]:
        """Return the requests for ``frame``, in order. Nothing is sent."""
        ...

    def read(self, text: str) -> tuple[Any, list[str]]:
        """Return the content of a completion, and what was omitted before."""
        ...

    def typical(self, frame: pd.DataFrame) -> list[Any]:
        """Return for each request a stand-in for the outcome, about as long as a real one."""
        ...


class Plan:
    """The plan of one system, filled by its stages.

    Attributes:
        cut: how many passages of a turn remain after the last retriever and its cut.
        fewer_turns: whether a stage was passed that may drop turns unseen.
        fewer_passages: whether a stage was passed that may give fewer passages of a turn than the
            plan counts.
    """

    def __init__(self, system: str, seen: set[tuple[LLM, str]]) -> None:
        self.system = system
        self.seen = seen
        self.cut = RANKING_DEPTH
        self.rows: list[dict[str, Any]] = []
        self.fewer_turns = False
        self.fewer_passages = False

    def follow(self, pipeline: pt.Transformer, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the frame after an inner pipeline, whose requests are counted."""
        for stage in stages(pipeline):
            frame = face(stage).plan(by_position(frame), self)
        return frame

    def cut_at(self, depth: int) -> None:
        """Note that a rank cutoff leaves ``depth`` passages of each turn."""
        self.cut = depth
        self.fewer_passages = False

    def foreign(self, foreign: Foreign, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the frame after a stage of another package, which may give fewer passages."""
        self.fewer_passages = True
        outputs = _outputs(foreign.stage, list(frame.columns))
        retrieves = outputs is not None and "docno" in outputs
        if not retrieves and not foreign.is_of_pyterrier:
            self.fewer_turns = True
        planned = self.by_columns(foreign.stage, frame)
        if outputs is not None:
            kept = {*outputs, *ALWAYS_READ}
            planned = planned[[name for name in planned.columns if name in kept]]
        note_dropped(foreign.stage, frame, planned)
        return planned

    def by_columns(self, stage: pt.Transformer, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the frame after a stage when only its columns are known."""
        inner = face(stage).subpipelines()
        for pipeline in inner:
            self.follow(pipeline, frame)
        columns = list(frame.columns)
        outputs = _outputs(stage, columns)
        if outputs is not None and "docno" in outputs:
            return frame
        if inner or not _asks_nothing(stage):
            return self._unknown(stage, frame)
        if outputs is None:
            reads_passages = _outputs(stage, [*columns, *RESULT_COLUMNS]) is not None
            return frame if reads_passages else self._unknown(stage, frame)
        try:
            return stage.transform(frame)
        except Exception:  # an error on a stand-in says nothing about the real frame
            return self._unknown(stage, frame)

    def passages(self, frame: pd.DataFrame, depth: int) -> pd.DataFrame:
        """Return the turns with stand-ins for ``depth`` passages each."""
        rows = frame.loc[frame.index.repeat(depth)].reset_index(drop=True)
        numbers = [str(number) for number in range(depth)] * len(frame)
        texts = [f"{PASSAGE_STAND_IN}{number}" for number in numbers]
        ranks = list(range(depth)) * len(frame)
        return rows.assign(docno=column(numbers), text=column(texts), rank=ranks)

    def ask(self, stage: Asks, frame: pd.DataFrame) -> list[Any]:
        """Count the requests of a stage on ``frame``.

        Returns:
            Parsed cached completions, and typical outcomes for the other requests.
        """
        requests = stage.requests(frame)
        typical = stage.typical(frame)
        settled = stage.llm.is_settled(requests)
        missing = []
        outcomes = []
        for request, stand_in, in_batch in zip(requests, typical, settled, strict=True):
            value = None
            completion = stage.llm.peek(request)
            if completion is not None:
                value, _omitted = stage.read(completion.text)
            elif not in_batch:
                missing.append(request)
            outcomes.append(stand_in if value is None else value)
        new = [request for request in missing if self._is_first(stage.llm, request)]
        row = {
            "system": self.system,
            "stage": self._name(stage, requests, frame),
            "model": stage.llm.model,
            "calls": len(requests),
            "known": len(requests) - len(missing),
            "shared": len(missing) - len(new),
            "new": len(new),
        }
        row.update(_cost(stage.llm, new, typical))
        self.rows.append(row)
        return outcomes

    def _name(self, stage: Asks, requests: Sequence[Request], frame: pd.DataFrame) -> str:
        """The name of a stage in the plan, which says if its count is a bound."""
        if stage.open_ended:
            return stage.stage + AT_LEAST
        if self._may_be_fewer(requests, frame):
            return stage.stage + AT_MOST
        return stage.stage

    def _may_be_fewer(self, requests: Sequence[Request], frame: pd.DataFrame) -> bool:
        """Whether there may be fewer requests.

        The number of passages doesn't matter to a stage that sends one request per turn.
        """
        return self.fewer_turns or (self.fewer_passages and len(requests) > frame["qid"].nunique())

    def _is_first(self, llm: LLM, request: Request) -> bool:
        key = (llm, request.key(llm.backend.identity))
        first = key not in self.seen
        self.seen.add(key)
        return first

    def _unknown(self, stage: pt.Transformer, frame: pd.DataFrame) -> pd.DataFrame:
        self.fewer_turns = True
        row = dict.fromkeys(COLUMNS, pd.NA)
        row.update(system=self.system, stage=repr(stage), model="unknown")
        self.rows.append(row)
        return frame


def _asks_nothing(stage: pt.Transformer) -> bool:
    """Whether a stage costs nothing: an operator without an LLM, or a stage of PyTerrier."""
    seen = face(stage)
    if isinstance(seen, Foreign):
        return seen.is_of_pyterrier
    return not any(isinstance(value, LLM) for value in seen.arguments().values())


def _outputs(stage: pt.Transformer, columns: list[str]) -> list[str] | None:
    """The columns of a stage's output; None if it doesn't take these columns, or can't say."""
    outputs: list[str] | None = pt.inspect.transformer_outputs(stage, columns, strict=False)
    return outputs


def _cost(llm: LLM, new: Sequence[Request], typical: Sequence[Any]) -> dict[str, Any]:
    prompt = estimated_tokens(new)
    mean = sum(len(str(value)) for value in typical) / max(len(typical), 1)
    completion = int(mean * len(new)) // CHARACTERS_PER_TOKEN
    cost = llm.budget.price(prompt, completion) if new else 0.0
    return {"prompt_tokens": prompt, "completion_tokens": completion, "cost": cost}
