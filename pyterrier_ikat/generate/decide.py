"""Decide from the retrieved passages whether to answer, to ask the user a clarifying question, or to say that there is no answer."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyterrier as pt

from ..arguments import at_least
from ..completions.kinds import ACTION, FINAL_ACTION, Kind
from ..completions.verdicts import ACTIONS
from ..conversations.frame import texts_in, turns_of, values, with_columns
from ..errors import DataError
from ..llm_operator import LLMOperator
from ..llms import Request
from ..operator import with_fields

if TYPE_CHECKING:
    from ..planning import Plan


@with_fields
class ReadsPassages(LLMOperator):
    """Asks the LLM once per turn, shows the turn's best passages, and keeps the rows and the ranking of a result frame."""

    one_row_per_turn = False

    passages: int = 5

    def __post_init__(self) -> None:
        at_least(1, passages=self.passages)
        super().__post_init__()

    def needs(self) -> list[str]:
        """Also the passages."""
        return [*super().needs(), "rank", "text"]

    def contexts(self, frame: pd.DataFrame) -> list[dict[str, Any]]:
        """For each turn, the values that every prompt shows, and its ``passages``."""
        turns = frame.drop_duplicates("qid")
        used = frame.loc[self.used(frame)].sort_values("rank", kind="stable")
        texts_in(used, "text")
        shown = used.groupby("qid", sort=False)["text"].agg(list)
        return [{**row, "passages": shown[qid]} for row, qid in zip(super().contexts(turns), turns["qid"], strict=True)]

    def requests(self, frame: pd.DataFrame) -> list[Request]:
        """One request per turn, in the order in which they first occur."""
        return [self.request(qid, row, self.template()) for qid, row in zip(frame["qid"].unique(), self.contexts(frame), strict=True)]

    def plan(self, frame: pd.DataFrame, plan: "Plan") -> pd.DataFrame:
        """One request per turn, with placeholders for the passages."""
        plan.ask(self, plan.passages(frame, self.passages))
        return frame

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Ask for every turn of a result frame."""
        pt.validate.result_frame(inp, extra_columns=self.needs(), context=self)
        turns_of(inp)
        return self.ask_and_write(inp)

    def used(self, frame: pd.DataFrame) -> "pd.Series[bool]":
        """Which passages are shown."""
        without = frame["qid"][frame["rank"].isna()]
        if len(without):
            raise DataError(f"a passage of turn {without.iloc[0]} has no rank: rank the frame first with pt.model.add_ranks(frame)")
        places = frame["rank"].astype(float).groupby(frame["qid"], sort=False).rank(method="first")
        return places <= self.passages


@with_fields
class Decide(ReadsPassages):
    """Ask the model for an action, given each turn's best passages: answer, ask a clarifying question, or say that there is no answer.

    Reads a result frame with ``qid``, ``query``, ``docno``, ``rank``, ``text`` and, if present, ``qutterance``, ``qhistory``, ``qptkb``.
    Keeps rows and ranking. Writes ``qaction`` (``"answer"``, ``"ask"`` or ``"abstain"``) and ``qaskback``, the clarifying question to the
    user if the action is ``"ask"``. A later :class:`Respond` calls its model only for turns whose action is ``"answer"``. One call per
    turn. The fallback for a failed turn is ``"answer"``. A turn without passages has no row in a result frame, so nothing is decided for
    it.

    The actions are those that turns of MTRAG (Katsis et al., TACL 2025) and MTRAG-UN (Rosenthal et al., 2026, arXiv 2602.23184) require.
    The prompt is ours. :func:`~pyterrier_ikat.evaluation.evaluate_actions` compares actions with labels.

    Args:
        llm: the model to ask.
        passages: how many of the best passages are shown.
        may_ask: whether the model may ask a clarifying question.

    Raises:
        UsageError: when ``passages`` is below 1.
        DataError: when a passage has no rank or qid, or a passage to be shown has no text.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> class Model:
        ...     def generate(self, prompts):
        ...         said = '{"reason": "Nothing on prices.", "action": "abstain"}'
        ...         return [type("Reply", (), {"text": said}) for _ in prompts]
        >>> turn = ikat.conversation([{"role": "user", "content": "How dear is rooibos?"}])
        >>> found = turn.assign(docno="d1", text="Rooibos tea has no caffeine.", score=1.0, rank=0)
        >>> decided = ikat.Decide(Model())(found)
        >>> decided["qaction"].item(), ikat.Respond(Model())(decided)["qanswer"].item()
        ('abstain', 'The collection has no answer to this.')
    """

    stage = "decide"
    activity = "deciding whether to answer"
    schematic = {"label": "Decide"}

    may_ask: bool = True

    def template(self) -> str:
        """The prompt with or without asking back."""
        return "decide" if self.may_ask else "decide_abstain"

    @property
    def kind(self) -> Kind:  # type: ignore[override]
        """An action, and the question to the user; asking only where it is allowed."""
        return ACTION if self.may_ask else FINAL_ACTION

    def fallback(self, frame: pd.DataFrame) -> list[tuple[str, str]]:
        """The action ``"answer"`` for every turn."""
        return [("answer", "")] * frame["qid"].nunique()

    def write(self, frame: pd.DataFrame, found: Sequence[Any]) -> pd.DataFrame:
        """Set ``qaction`` and ``qaskback``."""
        decided = dict(zip(frame["qid"].unique(), found, strict=True))
        actions, questions = ([decided[qid][place] for qid in frame["qid"]] for place in (0, 1))
        return with_columns(frame, qaction=actions, qaskback=questions)


def told_instead(frame: pd.DataFrame, abstention: str) -> dict[str, str]:
    """The response of each turn whose ``qaction`` is not to answer: the clarifying question, or ``abstention``.

    Raises:
        DataError: naming the turn, when its action is unknown, or it is ``"ask"`` and there is no question.

    Example:
        >>> told_instead(pd.DataFrame({"qid": ["1_1", "1_2"], "qaction": ["answer", "abstain"]}), "There is no answer.")
        {'1_2': 'There is no answer.'}
    """
    turns = frame.drop_duplicates("qid")
    told = {}
    for qid, action, question in zip(turns["qid"], values(turns, "qaction", "answer"), values(turns, "qaskback", ""), strict=True):
        if action not in ACTIONS:
            raise DataError(f"turn {qid}: qaction is {action!r}: give one of {', '.join(ACTIONS)}")
        if action == "ask" and not (isinstance(question, str) and question.strip()):
            raise DataError(f"turn {qid}: qaction is 'ask', but qaskback has no question: give one")
        if action != "answer":
            told[qid] = question if action == "ask" else abstention
    return told
