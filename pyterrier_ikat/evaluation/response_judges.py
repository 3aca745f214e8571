"""LLMs as judges of responses: completeness, relevance, naturalness, groundedness, nuggets, preferences."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pandas as pd

from ..completions.json_answers import WHOLE, YES_NO, list_of, one_of
from ..completions.kinds import Kind, verdict
from ..completions.verdicts import Verdict, read_choice, read_numbers, read_score, read_yes_no
from ..conversations.frame import histories, personas, question_column, values, with_columns
from ..llm_operator import AsksLLM
from ..llms import LLMFailure, Request
from ..prompts import history_text, ptkb_text
from .finished_runs import check_columns
from .responses import Assessment


def asked_column(turns: pd.DataFrame, who: str) -> str:
    """The user's question: ``qresolved``, else ``qutterance``, else the first ``query`` (a later one is the system's rewrite).

    Raises:
        UsageError: when the turns have no such column. The message says of which frame it is: ``who``.

    Example:
        >>> asked_column(pd.DataFrame(columns=["qid", "query", "query_0"]), "the turns")
        'query_0'
    """
    column = "qresolved" if "qresolved" in turns.columns else question_column(turns)
    check_columns(who, turns, [column], "add the question as qresolved, qutterance or query")
    return column


@dataclass(unsafe_hash=True)
class LLMJudge(AsksLLM):
    """Asks a model about every response.

    Requests have the stage ``"judge"`` and the prompt ids ``judge_groundedness``, ``judge_completeness``,
    ``judge_relevance``, ``judge_naturalness``, ``judge_preference``, ``judge_correctness``, ``judge_pairwise``,
    ``judge_nuggets``. The question shown is that of :func:`asked_column`. Without ``qhistory`` or ``qptkb`` in the frame, no history or
    persona is shown.

    Args (of every subclass):
        llm: the model to ask.
        prompts: a folder of your own templates. Those that are missing there come from the package.
    """

    stage = "judge"
    name: ClassVar[str]
    """Its name in tables."""
    topic: ClassVar[str]
    """The name of its template, after ``response_``."""
    needs: ClassVar[tuple[str, ...]] = ()
    basis: ClassVar[str] = ""
    about_question: ClassVar[bool] = True

    def judge(self, responses: pd.DataFrame) -> list[Assessment]:
        """One judgement per row of a frame with ``qid``, ``qanswer`` and the columns that the judge needs.

        Raises:
            UsageError: when the judge needs the question and the frame has none.
            FatalLLMError: when no call can succeed (key, model, quota).
            BudgetExceeded: when the budget is spent.
        """
        questions = (
            values(responses, asked_column(responses, f"the turns for {self.name}")) if self.about_question else [""] * len(responses)
        )
        shown = with_columns(responses, question=questions, qhistory=histories(responses), qptkb=personas(responses))
        rows = shown.to_dict("records")
        asked = [self.requests(row) for row in rows]
        verdicts = iter(self.ask([request for requests in asked for request in requests]))
        return [self._assess(row, [next(verdicts) for _ in requests]) for row, requests in zip(rows, asked, strict=True)]

    def requests(self, row: dict[str, Any]) -> list[Request]:
        """The prompt for one response."""
        return [self.ask_about(row)]

    def ask_about(self, row: dict[str, Any], item: str = "", **more: Any) -> Request:
        """A request that shows the response, the question that it answers, and ``more``."""
        values = {
            "question": row["question"],
            "context": history_text(row["qhistory"]),
            "ptkb": ptkb_text(row["qptkb"]),
            "response": row["qanswer"],
        }
        return self.request(row["qid"], values | more, self.templates()[0], item)

    def templates(self) -> list[str]:
        """The template that asks for this judgement."""
        return [f"response_{self.topic}"]

    def prompt_of(self, template: str) -> str:
        """The judge's name in recorded files."""
        return template.replace("response_", "judge_")

    def describe_unusable(self, text: str) -> str:
        """The message for a completion of the wrong form."""
        return f"no verdict of the requested kind in the completion {text[:200]!r}"

    def assess(self, row: dict[str, Any], verdicts: Sequence[Verdict]) -> Assessment:
        """The judgement that results from the verdicts, one verdict per request."""
        return Assessment(float(verdicts[0].value), verdicts[0].reason)

    def _assess(self, row: dict[str, Any], verdicts: Sequence[Any]) -> Assessment:
        failed = [verdict for verdict in verdicts if isinstance(verdict, LLMFailure)]
        return Assessment(None, str(failed[0]), "failed") if failed else self.assess(row, verdicts)


class YesOrNo(LLMJudge):
    """One question about the response: 1 yes, 0 no."""

    kind = verdict("verdict", YES_NO, read_yes_no)


class Groundedness(YesOrNo):
    """Whether everything in the response is in the passages on which it is based: 1 yes, 0 no.

    Reads ``qpassages``. A response without passages is not grounded: it gets 0 without a call. The track's own prompt of 2023 asks the
    reverse (whether anything is *not* in the documents). Here, 1 means grounded.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> class Model:
        ...     def generate(self, chats):
        ...         return ['{"reason": "The passage says so.", "verdict": "yes"}' for chat in chats]
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"qid": ["1_1"], "query": ["Which tea?"], "qanswer": ["Rooibos."], "qpassages": [["Rooibos is a tea."]]})
        >>> Groundedness(ikat.llm(Model())).judge(frame)
        [Assessment(value=1.0, reason='The passage says so.', outcome='judged')]
    """

    name = topic = "groundedness"
    about_question = False
    needs = ("qpassages",)

    def requests(self, row: dict[str, Any]) -> list[Request]:
        """One request, none when there is no passage."""
        return [self.ask_about(row, passages=row["qpassages"])] if row["qpassages"] else []

    def assess(self, row: dict[str, Any], verdicts: Sequence[Verdict]) -> Assessment:
        """The verdict; not grounded without a passage."""
        return super().assess(row, verdicts) if verdicts else Assessment(0.0, "the response is based on no passage")


class Correctness(YesOrNo):
    """Whether the response tells the user the same as the gold answer: 1 yes, 0 no. The mean is the share of such turns.

    Reads ``gold_answer``. TREC iKAT 2024 reports a share "LLMeval" with SOLAR and GPT-4o, but released no prompt. BERGEN (Rau et al., 2024,
    section 3) has a measure with this name, with SOLAR as the judge, that asks this question. We infer that the track used it. The wording
    is ours.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> class Model:
        ...     def generate(self, chats):
        ...         return ['{"reason": "Both name rooibos.", "verdict": "yes"}' for chat in chats]
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"qid": ["1_1"], "query": ["Which tea?"], "qanswer": ["Rooibos."], "gold_answer": ["Rooibos tea."]})
        >>> Correctness(ikat.llm(Model())).judge(frame)[0].value
        1.0
    """

    name = topic = "correctness"
    needs = ("gold_answer",)
    basis = "gold_answer"

    def requests(self, row: dict[str, Any]) -> list[Request]:
        """One request, with the gold answer."""
        return [self.ask_about(row, gold=row["gold_answer"])]


class _Graded(LLMJudge):
    lowest: ClassVar[int]
    highest: ClassVar[int]

    @property
    def kind(self) -> Kind:  # type: ignore[override]
        """A whole number of the scale."""
        return verdict("score", one_of(range(self.lowest, self.highest + 1)), lambda text: read_score(text, self.lowest, self.highest))

    def assess(self, row: dict[str, Any], verdicts: Sequence[Verdict]) -> Assessment:
        """The grade. -1 means that the judge was unable to tell."""
        return Assessment(float(verdicts[0].value), verdicts[0].reason, "unable" if verdicts[0].value < 0 else "judged")


class Completeness(_Graded):
    """How completely the response answers the question: 0 not, 1 in part, 2 mostly, 3 fully; -1 unable to judge.

    The prompt shows persona, conversation, question and response, as in 2023. A -1 is kept as the turn's value and counted as ``unable``,
    but is not part of the mean, because it says nothing about the response.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> class Model:
        ...     def generate(self, chats):
        ...         return ['{"reason": "It skips the price.", "score": 2}' for chat in chats]
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"qid": ["1_1"], "query": ["Which tea, and how dear?"], "qanswer": ["Rooibos."]})
        >>> Completeness(ikat.llm(Model())).judge(frame)[0].value
        2.0
    """

    name = topic = "completeness"
    lowest, highest = -1, 3


class Relevance(_Graded):
    """How well the response follows the conversation: 0 not, 1 partly off topic, 2 mostly, 3 clearly; -1 unable to judge.

    The prompt shows persona, conversation, question and response, as in 2023; -1 as for :class:`Completeness`.
    """

    name = topic = "relevance"
    lowest, highest = -1, 3


class Naturalness(_Graded):
    """How natural the response reads, 0 to 4. The prompt shows only the response, as in 2023."""

    name = topic = "naturalness"
    lowest, highest = 0, 4
    about_question = False


class Preference(_Graded):
    """How well the response would please this user, 0 to 4: a graded preference, in one call per turn.

    TREC iKAT 2024 reports an LLM's preference, but released no prompt. We chose the scale, and we show persona, conversation and question.
    :class:`PairwisePreference` compares two responses instead.
    """

    name = topic = "preference"
    lowest, highest = 0, 4


@dataclass(unsafe_hash=True)
class PairwisePreference(LLMJudge):
    """Whether the response is better than another one: 1 better, 0.5 tie, 0 worse.

    Judges prefer what they read first (or last). So each pair is shown in both orders, with two calls per turn, and the value is the mean
    of both. It is also 0.5 if the verdict depends only on the order. A turn with a failed call is a failure.

    Args:
        llm: see :class:`LLMJudge`.
        prompts: see :class:`LLMJudge`.
        against: the column of the turns with the other response: the gold answer, or a column that you add for another system.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> class First:
        ...     def generate(self, chats):
        ...         return ['{"reason": "The first is better.", "better": "A"}' for chat in chats]
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"qid": ["1_1"], "query": ["Which tea?"], "qanswer": ["Rooibos."], "gold_answer": ["Green tea."]})
        >>> PairwisePreference(ikat.llm(First())).judge(frame)[0].value
        0.5
    """

    against: str = "gold_answer"
    topic = "pairwise"
    kind = verdict("better", one_of(["A", "B", "tie"]), read_choice)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.name, self.basis, self.needs = f"preference over {self.against}", self.against, (self.against,)  # type: ignore[misc]

    def requests(self, row: dict[str, Any]) -> list[Request]:
        """The response as A, then as B."""
        ours, other = row["qanswer"], row[self.against]
        return [self.ask_about(row, "as A", first=ours, second=other), self.ask_about(row, "as B", first=other, second=ours)]

    def assess(self, row: dict[str, Any], verdicts: Sequence[Verdict]) -> Assessment:
        """The mean of both orders."""
        points = [0.5 if verdict.value == "tie" else float(verdict.value == ours) for verdict, ours in zip(verdicts, "AB", strict=True)]
        return Assessment(sum(points) / 2, f"shown as A: {verdicts[0].reason}; shown as B: {verdicts[1].reason}")


class NuggetRecall(LLMJudge):
    """The share of the turn's nuggets (single facts in a good answer) that the response states, 0 to 1.

    Reads ``gold_nuggets``, a list of texts per turn; the track released nuggets for 2024 separately from its topics. In one call per turn,
    the model gives the numbers of the nuggets that the response states. Unknown numbers are omitted and counted in the ledger as
    ``dropped``. If all are unknown, the turn is a failure. A turn without nuggets is omitted.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> class Model:
        ...     def generate(self, chats):
        ...         return ['{"reason": "No word of the taste.", "nuggets": [1]}' for chat in chats]
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"qid": ["1_1"], "qanswer": ["It has no caffeine."], "query": ["Rooibos?"],
        ...                       "gold_nuggets": [["no caffeine", "sweet taste"]]})
        >>> NuggetRecall(ikat.llm(Model())).judge(frame)
        [Assessment(value=0.5, reason='states nuggets 1 of 2: No word of the taste.', outcome='judged')]
    """

    name, topic = "nugget recall", "nuggets"
    kind = verdict("nuggets", list_of(WHOLE), read_numbers)
    needs = ("gold_nuggets",)
    basis = "gold_nuggets"

    def requests(self, row: dict[str, Any]) -> list[Request]:
        """One request with all nuggets, numbered from 1."""
        return [self.ask_about(row, nuggets=row["gold_nuggets"])]

    def assess(self, row: dict[str, Any], verdicts: Sequence[Verdict]) -> Assessment:
        """The share of the nuggets."""
        (verdict,), total = verdicts, len(row["gold_nuggets"])
        stated = [number for number in verdict.value if 1 <= number <= total]
        unknown = [number for number in verdict.value if number not in stated]
        if unknown and not stated:
            self.count(failures=1)
            return Assessment(None, f"the model names the nuggets {verdict.value} of 1 to {total}", "failed")
        self.count(dropped=len(unknown))
        numbers = ", ".join(map(str, stated)) or "none"
        dropped = f" (omitted, not among them: {', '.join(map(str, unknown))})" if unknown else ""
        return Assessment(len(stated) / total, f"states nuggets {numbers} of {total}{dropped}: {verdict.reason}")
