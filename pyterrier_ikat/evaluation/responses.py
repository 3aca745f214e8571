"""Responses: which turns have one, what a judge says of each, and the means."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
import pandas as pd

from ..arguments import checked
from ..conversations import Conversation, answers_frame, topics_frame
from ..conversations.frame import is_missing, object_frame, values, with_columns, with_text_ids
from ..errors import DataError, UsageError
from ..runs.turns import plain, response_column, used_marks
from .evaluator import check_form, unlike

Outcome = Literal["judged", "unable", "failed", "no response", "no basis"]


@dataclass(frozen=True)
class Assessment:
    """One judge's word on one response (the relevance judge of passages has its own `Judgement`).

    Attributes:
        value: the score, or None where there is none.
        reason: why, in words; for a failure what went wrong.
        outcome: ``"judged"``; ``"unable"``: the judge said that it can't tell (-1 on the scales of 2023); ``"failed"``:
            no usable word of the judge; ``"no response"``: the system wrote nothing, value 0 and nobody was asked;
            ``"no basis"``: the turn lacks what is judged by (gold answer, nuggets), so nobody was asked.
    """

    value: float | None
    reason: str
    outcome: Outcome = "judged"


class ResponseJudge(Protocol):
    """Anything with one method that gives a value and a reason per response.

    Attributes:
        name: what the judge is called in tables.
        needs: columns without which it can't judge at all.
        basis: the column among them whose value decides turn by turn (where it is empty the turn is left out and
            counted), or ``""``.
    """

    @property
    def name(self) -> str:
        """What the judge is called in tables."""
        ...

    @property
    def needs(self) -> tuple[str, ...]:
        """Columns without which it can't judge at all."""
        ...

    @property
    def basis(self) -> str:
        """The column that a turn is judged by, or ``""``."""
        ...

    def judge(self, responses: pd.DataFrame) -> list[Assessment]:
        """One judgement per row of a frame with ``qid``, ``qanswer`` and the turn's other columns."""
        ...


def response_turns(conversations: Iterable[Conversation], qids: Iterable[str] | None = None) -> pd.DataFrame:
    """The turns whose responses are to be judged, with what TREC iKAT 2023 gave its judges.

    That is the whole persona, the manual rewrite as the question, and the conversation so far as manual rewrites and
    gold answers. All of it is for evaluation: no automatic system may see it.

    Args:
        conversations: of a dataset (``pt.get_dataset("ikat:2023").conversations``) or from ``read_topics``.
        qids: only these turns; all of them without. The track judged 73 turns in 2023 and 62 in 2024.

    Returns:
        ``qid``, ``query``, ``qutterance``, ``qhistory`` (with rewrites in place of the utterances), ``qptkb``,
        ``qconversation``, ``qturn``, ``qresolved``, ``qgoldptkb``, ``gold_answer``.

    Raises:
        UsageError: when ``qids`` names a turn that is not there.

    Example:
        >>> import pyterrier as pt
        >>> turns = response_turns(pt.get_dataset("ikat:sample").conversations, ["1-1_1", "1-1_2"])
        >>> turns["qid"].tolist(), len(turns["qhistory"][1])
        (['1-1_1', '1-1_2'], 2)
    """
    chats = list(conversations)
    histories = [history for chat in chats for history in chat.histories(resolved=True)]
    turns = with_columns(topics_frame(chats, manual=True), qhistory=histories, gold_answer=answers_frame(chats)["gold_answer"])
    if qids is None:
        return turns
    wanted = list(qids)
    missing = [qid for qid in wanted if qid not in set(turns["qid"])]
    if missing:
        raise UsageError(f"no turn {', '.join(missing[:5])} in these conversations: their turns are like {turns['qid'].iloc[0]}")
    return turns[turns["qid"].isin(wanted)].reset_index(drop=True)


def response_frame(turns: pd.DataFrame, answers: pd.DataFrame) -> pd.DataFrame:
    """The turns with ``qanswer``, the system's response (empty where there is none), and ``qpassages``, what it is based on.

    Answers with a column ``response``, as the turns of a run folder, have the responses there and drafts in ``qanswer``.

    Args:
        turns: one row per turn, with ``qid``.
        answers: see :func:`~pyterrier_ikat.evaluation.responses.evaluate_responses`.

    Raises:
        UsageError: when a column is missing.
        DataError: when a turn is repeated, no turn is shared, a turn, response or passage is no text, or a mark in ``used`` is
            neither true nor false.

    Example:
        >>> answers = pd.DataFrame({"qid": ["1_1"] * 2, "qanswer": ["Rooibos."] * 2, "text": ["a", "b"], "used": [True, False]})
        >>> response_frame(pd.DataFrame({"qid": ["1_1", "1_2"]}), answers)[["qanswer", "qpassages"]].values.tolist()
        [['Rooibos.', ['a']], ['', []]]
    """
    if response_column(answers) != "qanswer":
        answers = answers.assign(qanswer=answers[response_column(answers)])
    _check_columns(turns, answers)
    turns, answers = with_text_ids("the turns", turns, ["qid"]), with_text_ids("the answers", answers, ["qid"])
    _check_frame(turns, answers)
    answers = answers[answers["qid"].isin(turns["qid"])]
    firsts = answers.drop_duplicates("qid")
    given = {qid: _response(qid, text) for qid, text in zip(firsts["qid"], firsts["qanswer"], strict=True)}
    frame = with_columns(turns.reset_index(drop=True), qanswer=[given.get(qid, "") for qid in turns["qid"]])
    shown = _passages(answers, firsts)
    return frame if shown is None else with_columns(frame, qpassages=[shown.get(qid, []) for qid in turns["qid"]])


def _check_columns(turns: pd.DataFrame, answers: pd.DataFrame) -> None:
    for what, frame, needed in (("turns", turns, ["qid"]), ("answers", answers, ["qid", "qanswer"])):
        missing = [name for name in needed if name not in frame.columns]
        if missing:
            raise UsageError(f"the {what} have no {' and no '.join(missing)}: they have {', '.join(map(str, frame.columns)) or 'nothing'}")


def _check_frame(turns: pd.DataFrame, answers: pd.DataFrame) -> None:
    repeated = turns["qid"].duplicated()
    if repeated.any():
        raise DataError(f"turn {turns.loc[repeated, 'qid'].iloc[0]} is there twice: give the turns to judge once each")
    check_form("the answers", answers["qid"].unique(), turns["qid"])
    if len(turns) and len(answers) and not answers["qid"].isin(turns["qid"]).any():
        raise DataError(f"the answers have none of the turns: {unlike(answers['qid'].iloc[0], turns['qid'].iloc[0])}")


def _response(qid: str, text: Any) -> str:
    if is_missing(text):
        return ""
    if not isinstance(text, str):
        raise DataError(f"turn {qid}: the response is {text!r}, no text")
    return text


def _passages(answers: pd.DataFrame, firsts: pd.DataFrame) -> dict[str, list[str]] | None:
    if "qpassages" in answers.columns:
        return {qid: _texts(qid, texts) for qid, texts in zip(firsts["qid"], firsts["qpassages"], strict=True)}
    if not {"text", "used"} <= set(answers.columns):
        return None
    first = dict(zip(firsts["qid"], firsts["qanswer"], strict=True))
    used = answers.loc[used_marks(answers)]
    used = used.sort_values("rank", kind="stable") if "rank" in used.columns else used
    shown: dict[str, list[str]] = {}
    for qid, answer, text in zip(used["qid"], used["qanswer"], used["text"], strict=True):
        if answer == first[qid]:
            shown.setdefault(qid, []).append(text)
    return {qid: _texts(qid, texts) for qid, texts in shown.items()}


def _texts(qid: str, texts: Any) -> list[str]:
    given: Any = [] if is_missing(texts) else plain(texts)
    if not isinstance(given, list):
        raise DataError(f"turn {qid}: qpassages is {texts!r}: give a list of texts")
    for text in given:
        if not isinstance(text, str):
            raise DataError(
                f"turn {qid}: a passage that the response is based on has the text {text!r}: add the texts with a text_loader()"
            )
    found: list[str] = given
    return found


COUNTS = {"no_response": "no response", "unable": "unable", "no_basis": "no basis", "failures": "failed"}
COLUMNS = ("qid", "judge", "value", "reason", "outcome")


@checked
def evaluate_responses(turns: pd.DataFrame, answers: pd.DataFrame, judges: Sequence[ResponseJudge]) -> pd.DataFrame:
    """Judge one system's response to each of ``turns``; :func:`response_means` sums it up.

    Args:
        turns: the turns to judge, one row each: all of them and no others. ``qid`` and what the judges use: a question
            (``qresolved``, else ``qutterance``, else the first ``query``), ``qhistory``, ``qptkb``, ``gold_answer``,
            ``gold_nuggets`` (a list of texts); see :func:`response_turns`.
        answers: the system's responses: ``qid``, ``qanswer`` (or ``response``, as in ``pd.DataFrame(RunFolder(path).turns())``,
            where ``qanswer`` is the draft) and, for groundedness, the passages that they are based
            on, either as rows with ``text`` and ``used`` (what ``ikat.Respond`` gives) or as a list of texts in
            ``qpassages``. Of several responses to a turn only the first is judged, as the track did in 2023; other
            turns are passed over.
        judges: what to judge by, each with a name of its own.

    Returns:
        A row per judge and turn: ``qid``, ``judge``, ``value`` (NaN where there is none), ``reason``, ``outcome``, see
        :class:`~pyterrier_ikat.evaluation.responses.Assessment`. A turn without response has the value 0.

    Raises:
        UsageError: when a column is missing, or two judges have the same name.
        DataError: when a turn is repeated, no turn is shared, a turn, response or passage is no text, or a mark in ``used``
            is neither true nor false.

    Example:
        >>> from pyterrier_ikat.evaluation.rouge import RougeL
        >>> turns = pd.DataFrame({"qid": ["1_1", "1_2"], "gold_answer": ["Rooibos tea", "No."]})
        >>> answers = pd.DataFrame({"qid": ["1_1"], "qanswer": ["Rooibos!"]})
        >>> evaluate_responses(turns, answers, [RougeL()])[["qid", "value", "outcome"]].round(2).values.tolist()
        [['1_1', 0.67, 'judged'], ['1_2', 0.0, 'no response']]
    """
    frame = response_frame(turns, answers)
    _check(judges, frame)
    rows = [
        (qid, judge.name, judgement.value, judgement.reason, judgement.outcome)
        for judge in judges
        for qid, judgement in zip(frame["qid"], _judged(judge, frame), strict=True)
    ]
    found = object_frame({name: [row[place] for row in rows] for place, name in enumerate(COLUMNS)})
    return found.astype({"value": float})


@checked
def response_means(judged: pd.DataFrame) -> pd.DataFrame:
    """The mean of each judge's values, and what it is over.

    Args:
        judged: what :func:`evaluate_responses` gave.

    Returns:
        One row per judge: ``judge``; ``mean`` over ``n`` turns, those with a value from the judge and those without a
        response, which count 0; ``no_response``, how many of the ``n`` are such; then the turns that are **not** in the
        mean: ``unable`` (the judge could not tell), ``no_basis`` (nothing to judge by), ``failures`` (no usable word of
        the judge); ``turns``, all of them. ``mean`` is NaN when ``n`` is 0.

    Example:
        >>> judged = pd.DataFrame({"qid": ["1", "2"], "judge": ["x", "x"], "value": [3.0, None], "outcome": ["judged", "failed"]})
        >>> response_means(judged)[["judge", "mean", "n", "failures", "turns"]].values.tolist()
        [['x', 3.0, 1, 1, 2]]
    """
    rows = []
    for name, group in judged.groupby("judge", sort=False):
        averaged = group.loc[group["outcome"].isin(["judged", "no response"]), "value"].astype(float)
        counts = {title: int((group["outcome"] == outcome).sum()) for title, outcome in COUNTS.items()}
        mean = averaged.mean() if len(averaged) else float("nan")
        rows.append({"judge": name, "mean": mean, "n": len(averaged), **counts, "turns": len(group)})
    return pd.DataFrame(rows, columns=["judge", "mean", "n", *COUNTS, "turns"])


def _check(judges: Sequence[ResponseJudge], frame: pd.DataFrame) -> None:
    for judge in [judges] if isinstance(judges, str) or not isinstance(judges, Iterable) else judges:
        if not hasattr(judge, "judge") or isinstance(judge, type):
            raise UsageError(f"{repr(judge)[:80]} is no judge of responses: give a list of them, as [RougeL()]")
    names = [judge.name for judge in judges]
    for judge in judges:
        if names.count(judge.name) > 1:
            raise UsageError(f"two judges are called {judge.name!r}: judge by each once, and compare models in two calls")
        for name in judge.needs:
            if name not in frame.columns:
                raise UsageError(f"{judge.name} needs the column {name}, which is missing: {_repair(name)}")


def _repair(name: str) -> str:
    if name == "qpassages":
        return "give the answers with text and used, as ikat.Respond does, or with qpassages, a list of texts"
    if name == "gold_answer":
        return "take the turns from response_turns(data.conversations), or add get_answers()"
    return "add it to the turns"


def _judged(judge: ResponseJudge, frame: pd.DataFrame) -> list[Assessment]:
    answered = np.array([bool(text.strip()) for text in frame["qanswer"]], dtype=bool)
    based = np.array([not judge.basis or _given(basis) for basis in values(frame, judge.basis)], dtype=bool)
    asked = frame.loc[answered & based].reset_index(drop=True)
    found = iter(judge.judge(asked) if len(asked) else [])
    no_basis = Assessment(None, f"the turn has no {judge.basis}", "no basis")
    no_response = Assessment(0.0, "the system gave no response", "no response")
    return [no_basis if not has_basis else next(found) if has else no_response for has, has_basis in zip(answered, based, strict=True)]


def _given(basis: Any) -> bool:
    found = plain(basis)
    return bool(found.strip()) if isinstance(found, str) else isinstance(found, list) and bool(found)
