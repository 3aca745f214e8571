"""Responses: the turns that have one, a judge's assessment of each, and the means."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import pandas as pd

from ..arguments import is_missing
from ..conversations import Conversation, answers_frame, topics_frame
from ..conversations.datasets import IkatDataset
from ..conversations.datasets import dataset as dataset_named
from ..conversations.frame import question_column, row_name, values, with_columns, with_text_ids
from ..errors import DataError, UsageError, list_first
from ..runs.turn_lines import as_json, response_column, used_marks
from .evaluator import check_common_turns
from .finished_runs import check_once, with_names
from .inference import interval_of_mean
from .units import UNIT_COLUMNS, find_clusters

AssessmentOutcome = Literal["judged", "unable", "failed", "no response", "no basis"]


@dataclass(frozen=True)
class Assessment:
    """A judge's assessment of one response.

    The relevance judge of passages has its own `Judgement`.

    Attributes:
        value: the score, or None if there is none.
        reason: the reason in words; for a failure, what went wrong.
        outcome: ``"judged"``; ``"unable"``: the judge said that it can't tell (-1 on the scales of
            2023); ``"failed"``: the judge's answer was not usable; ``"no response"``: the system
            wrote nothing, so the value is 0 and no judge was asked; ``"no basis"``: the turn lacks
            what the judge compares with (gold answer, nuggets), so no judge was asked.
    """

    value: float | None
    reason: str
    outcome: AssessmentOutcome = "judged"


class ResponseJudge:
    """The base of judges, which give each response a value and a reason.

    A judge of your own has the same attributes and this method.
    """

    name: ClassVar[str]
    """The name of the judge in tables."""
    needs: ClassVar[tuple[str, ...]] = ()
    """The columns without which it can't judge at all."""
    basis: ClassVar[str] = ""
    """The column among them with which a response is compared, or ``""``.

    A turn without a value there is omitted and counted.
    """

    @property
    def model_name(self) -> str:
        """The model that it asks or loads; empty for none."""
        return ""

    def judge(self, responses: pd.DataFrame) -> list[Assessment]:
        """One judgement per row of a frame.

        The frame has ``qid``, ``qanswer`` and the turn's other columns.
        """
        raise NotImplementedError


def asked_column(turns: pd.DataFrame, who: str) -> str:
    """The column with the user's question: ``qresolved``, else ``qutterance``, else ``query``.

    It is the first ``query``: a later one is the system's rewrite.

    Raises:
        UsageError: when the turns have no such column. The message says of which frame it is:
            ``who``.

    Example:
        >>> asked_column(pd.DataFrame(columns=["qid", "query", "query_0"]), "the turns")
        'query_0'
    """
    column = "qresolved" if "qresolved" in turns.columns else question_column(turns)
    with_names(who, turns, [column], "add the question as qresolved, qutterance or query")
    return column


def response_turns(
    conversations: Iterable[Conversation], qids: Iterable[str] | None = None
) -> pd.DataFrame:
    """The turns whose responses should be judged, with what TREC iKAT 2023 showed its judges.

    That is the whole persona, the manual rewrite as the question, and the conversation so far as
    manual rewrites and gold answers. Automatic systems must not see it.

    Args:
        conversations: those of a dataset (``pt.get_dataset("ikat:2023").conversations``) or from
            ``read_topics``.
        qids: only these turns; None: all. The track judged 73 turns in 2023 and 62 in 2024.

    Returns:
        ``qid``, ``query``, ``qutterance``, ``qhistory`` (with rewrites instead of the utterances),
        ``qptkb``, ``qconversation``, ``qturn``, ``qresolved``, ``qgoldptkb``, ``gold_answer``.

    Raises:
        UsageError: when ``qids`` has a turn that the conversations don't have.

    Example:
        >>> import pyterrier as pt
        >>> turns = response_turns(pt.get_dataset("ikat:sample").conversations, ["1-1_1", "1-1_2"])
        >>> turns["qid"].tolist(), len(turns["qhistory"][1])
        (['1-1_1', '1-1_2'], 2)
    """
    chats = list(conversations)
    histories = [history for chat in chats for history in chat.histories(resolved=True)]
    gold_answers = answers_frame(chats)["gold_answer"]
    turns = with_columns(
        topics_frame(chats, manual=True), qhistory=histories, gold_answer=gold_answers
    )
    if qids is None:
        return turns
    wanted = list(qids)
    missing = [qid for qid in wanted if qid not in set(turns["qid"])]
    if missing:
        raise UsageError(
            f"no turn {list_first(missing)} in these conversations: "
            f"their turns are like {turns['qid'].iloc[0]}"
        )
    return turns[turns["qid"].isin(wanted)].reset_index(drop=True)


def response_frame(turns: pd.DataFrame, answers: pd.DataFrame) -> pd.DataFrame:
    """The turns with ``qanswer``, the system's response, and ``qpassages``, its passages.

    A turn without a response has an empty one. ``qpassages`` and ``qcitations`` are there if the
    answers have them. Arguments and errors are those of :func:`evaluate_responses`.

    Example:
        >>> answers = pd.DataFrame({"qid": ["1_1"] * 2, "qanswer": ["Rooibos."] * 2})
        >>> answers = answers.assign(text=["a", "b"], used=[True, False])
        >>> frame = response_frame(pd.DataFrame({"qid": ["1_1", "1_2"]}), answers)
        >>> frame[["qanswer", "qpassages"]].values.tolist()
        [['Rooibos.', ['a']], ['', []]]
    """
    turns = with_text_ids("the turns", with_names("the turns", turns, ["qid"], "add it"), ["qid"])
    response = response_column(answers)
    answers = with_names("the answers", answers, ["qid", response], "add it")
    answers = with_text_ids("the answers", answers, ["qid"])
    check_once("the turns to judge", turns, ["qid"], "give each once")
    check_common_turns("the answers", answers["qid"].unique(), turns["qid"], "turn to judge")
    answers = answers.assign(qanswer=answers[response])
    answers = answers[answers["qid"].isin(turns["qid"])]
    firsts = answers.drop_duplicates("qid")
    response_of = dict(zip(firsts["qid"], values(firsts, "qanswer", ""), strict=True))
    for qid, text in response_of.items():
        if not isinstance(text, str):
            raise DataError(f"turn {qid}: the response is {text!r}, no text")
    frame = with_columns(turns, qanswer=[response_of.get(qid, "") for qid in turns["qid"]])
    if "qcitations" in firsts.columns:
        citations = dict(zip(firsts["qid"], values(firsts, "qcitations"), strict=True))
        frame = with_columns(frame, qcitations=[citations.get(qid) for qid in turns["qid"]])
    passages = _passages(answers, firsts)
    if passages is not None:
        frame = with_columns(frame, qpassages=[passages.get(qid, []) for qid in turns["qid"]])
    return frame


def _passages(answers: pd.DataFrame, firsts: pd.DataFrame) -> dict[str, list[str]] | None:
    """The texts of the passages on which each turn's first response is based.

    None if the answers don't have them.
    """
    passages: dict[str, Any]
    if "qpassages" in answers.columns:
        passages = dict(zip(firsts["qid"], firsts["qpassages"], strict=True))
    elif {"text", "used"} <= set(answers.columns):
        first_response = dict(zip(firsts["qid"], firsts["qanswer"], strict=True))
        used = answers.loc[used_marks(answers)]
        used = used[used["qanswer"] == used["qid"].map(first_response)]
        if "rank" in used.columns:
            used = used.sort_values("rank", kind="stable")
        passages = dict.fromkeys(first_response, ())
        passages.update(used.groupby("qid")["text"].agg(list))
    else:
        return None
    return {qid: _texts(qid, texts) for qid, texts in passages.items()}


def _texts(qid: str, cell: Any) -> list[str]:
    texts: Any = [] if is_missing(cell) else as_json(cell)
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise DataError(
            f"turn {qid}: the response is based on {cell!r}: give a list of texts, which come "
            "from a text_loader()"
        )
    return texts


COUNTED_OUTCOMES = {
    "no_response": "no response",
    "unable": "unable",
    "no_basis": "no basis",
    "failures": "failed",
}


def evaluate_responses(
    turns: pd.DataFrame, answers: pd.DataFrame, judges: Sequence[ResponseJudge]
) -> pd.DataFrame:
    """Judge one system's response to each of ``turns``.

    :func:`response_means` gives the means.

    Args:
        turns: all turns to judge and no others, one row each: ``qid`` and the columns that the
            judges use, such as a question (``qresolved``, else ``qutterance``, else the first
            ``query``), ``qhistory``, ``qptkb``, ``gold_answer``, ``gold_nuggets`` (a list of
            texts); see :func:`response_turns`.
        answers: the system's responses: ``qid``, ``qanswer`` (or ``response``, as in
            ``pd.DataFrame(RunFolder(path).turns())``, where ``qanswer`` is the draft) and, for
            groundedness, the passages on which they are based: rows with ``text`` and ``used`` (as
            from ``ikat.Respond``), or a list of texts in ``qpassages``. Only the first of several
            responses to a turn is judged, as in the track of 2023. Other turns are ignored. Judges
            of citations read ``qcitations``.
        judges: the judges, with different names.

    Returns:
        A row per judge and turn: ``qid``, ``judge``, ``value`` (NaN if there is none), ``reason``,
        ``outcome``, see :class:`~pyterrier_ikat.evaluation.responses.Assessment`. A turn without a
        response has the value 0.

    Raises:
        UsageError: when a column is missing, or two judges have the same name.
        DataError: when a turn is repeated, no turn is shared, a turn, response or passage is not a
            text, or a mark in ``used`` is neither true nor false.

    Example:
        >>> turns = pd.DataFrame({"qid": ["1_1", "1_2"], "gold_answer": ["Rooibos tea", "No."]})
        >>> answers = pd.DataFrame({"qid": ["1_1"], "qanswer": ["Rooibos!"]})
        >>> from pyterrier_ikat.evaluation import RougeL
        >>> judged = evaluate_responses(turns, answers, [RougeL()]).round(2)
        >>> judged[["qid", "value", "outcome"]].values.tolist()
        [['1_1', 0.67, 'judged'], ['1_2', 0.0, 'no response']]
    """
    frame = response_frame(turns, answers)
    _check_judges(judges, frame)
    rows = []
    for judge in judges:
        for qid, assessment in zip(frame["qid"], _assessments(judge, frame), strict=True):
            rows.append((qid, judge.name, assessment.value, assessment.reason, assessment.outcome))
    columns = ["qid", "judge", "value", "reason", "outcome"]
    return pd.DataFrame(rows, columns=columns, dtype=object).astype({"value": float})


def response_means(
    judged: pd.DataFrame,
    *,
    unit: str | None = None,
    dataset: IkatDataset | str | Path | None = None,
) -> pd.DataFrame:
    """The mean of each judge's values with its interval, and the number of turns behind it.

    Args:
        judged: the result of :func:`evaluate_responses`.
        unit: what the clusters of turns are in intervals, as for :func:`~pyterrier_ikat.evaluate`.
        dataset: the dataset of the turns.

    Returns:
        One row per judge: ``judge``; ``mean`` over ``n`` turns, those with a value from the judge
        and those without a response, which count 0; ``low`` and ``high``, its 95 % interval, which
        is robust to clusters of turns; ``no_response``, how many of the ``n`` have no response;
        then the turns that are **not** in the mean: ``unable`` (the judge could not tell),
        ``no_basis`` (nothing to compare with), ``failures`` (no usable answer of the judge);
        ``turns``, all turns; ``unit``, ``clusters`` (of the ``n`` turns) and ``unit_from``.
        ``mean`` is NaN when ``n`` is 0.

    Raises:
        UsageError: when ``judged`` lacks a column.

    Example:
        >>> judged = pd.DataFrame({"qid": ["1", "2"], "judge": ["x", "x"], "value": [3.0, None]})
        >>> judged["outcome"] = ["judged", "failed"]
        >>> response_means(judged)[["judge", "mean", "n", "failures", "turns"]].values.tolist()
        [['x', 3.0, 1, 1, 2]]
    """
    needed = ("qid", "judge", "value", "outcome")
    judged = with_names("the assessments", judged, needed, "give those of evaluate_responses")
    data = None if dataset is None else dataset_named(dataset)
    rows = []
    for name, of_judge in judged.groupby("judge", sort=False):
        valued = of_judge[of_judge["outcome"].isin(["judged", "no response"])]
        clusters = find_clusters(valued["qid"], unit, data)
        mean = interval_of_mean(valued["value"].astype(float).tolist(), clusters.names)
        row: dict[str, Any] = {
            "judge": name,
            "mean": mean.mean,
            "low": mean.low,
            "high": mean.high,
            "n": len(valued),
        }
        for title, outcome in COUNTED_OUTCOMES.items():
            row[title] = int((of_judge["outcome"] == outcome).sum())
        row["turns"] = len(of_judge)
        rows.append({**row, **clusters.columns()})
    columns = ["judge", "mean", "low", "high", "n", *COUNTED_OUTCOMES, "turns", *UNIT_COLUMNS]
    return pd.DataFrame(rows, columns=columns)


REPAIR_OF_COLUMN = {
    "qpassages": (
        "give the answers with text and used, as ikat.Respond does, or with qpassages, a list of "
        "texts"
    ),
    "qcitations": "run a system that asks for citations, with ikat.Respond(llm, cite=True)",
    "gold_answer": "take the turns from response_turns(data.conversations), or add get_answers()",
}


BASIS_FORMS = {"gold_answer": "a text", "gold_nuggets": "a list of texts"}
"""A column that responses are compared with -> what it holds for each turn."""


def _check_judges(judges: Sequence[ResponseJudge], frame: pd.DataFrame) -> None:
    for name, times in Counter(judge.name for judge in judges).items():
        if times > 1:
            raise UsageError(
                f"two judges are called {name!r}: use each judge once, and compare models in two "
                "calls"
            )
    for judge in judges:
        missing = [column for column in judge.needs if column not in frame.columns]
        repair = "add it to the turns"
        if missing:
            repair = REPAIR_OF_COLUMN.get(missing[0], repair)
        with_names(f"the turns for {judge.name}", frame, judge.needs, repair)


def _assessments(judge: ResponseJudge, frame: pd.DataFrame) -> list[Assessment]:
    has_response = [bool(text.strip()) for text in frame["qanswer"]]
    has_basis = [True] * len(frame)
    if judge.basis:
        has_basis = [_says_something(cell) for cell in values(frame, judge.basis)]
    asked = frame.loc[np.array(has_response, bool) & np.array(has_basis, bool)]
    asked = asked.reset_index(drop=True)
    of_asked = judge.judge(asked) if len(asked) else []
    for qid, assessment in zip(asked["qid"], of_asked, strict=True):
        if assessment.outcome == "judged" and is_missing(assessment.value):
            raise DataError(
                f"turn {qid}: {judge.name} judged it, but gives no value: give one, or another "
                "outcome than 'judged'"
            )
    remaining = iter(of_asked)
    assessments = []
    for responded, based in zip(has_response, has_basis, strict=True):
        if not based:
            assessment = Assessment(None, f"the turn has no {judge.basis}", "no basis")
        elif responded:
            assessment = next(remaining)
        else:
            assessment = Assessment(0.0, "the system gave no response", "no response")
        assessments.append(assessment)
    return assessments


def check_basis(judge: ResponseJudge, responses: pd.DataFrame) -> None:
    """Check the type of what a judge of ours compares responses with.

    Raises:
        DataError: naming the turn, when a gold answer is not a text, or nuggets are not a list of
            texts.
    """
    if judge.basis not in BASIS_FORMS:
        return
    for row, basis in enumerate(values(responses, judge.basis)):
        is_right = isinstance(basis, str)
        if judge.basis == "gold_nuggets":
            is_right = isinstance(basis, list | tuple) and all(
                isinstance(text, str) for text in basis
            )
        if not is_right:
            raise DataError(
                f"{row_name(responses, row)}: {judge.basis} is {repr(basis)[:80]}: "
                f"give {BASIS_FORMS[judge.basis]}"
            )


def _says_something(basis: Any) -> bool:
    if isinstance(basis, str):
        return bool(basis.strip())
    return isinstance(basis, list | tuple) and len(basis) > 0
