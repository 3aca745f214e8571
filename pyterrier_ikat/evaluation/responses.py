"""Responses: which turns have one, a judge's assessment of each, and the means."""

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
from ..conversations.frame import question_column, values, with_columns, with_text_ids
from ..errors import DataError, UsageError, list_first
from ..runs.turn_lines import as_json, response_column, used_marks
from .evaluator import check_common_turns
from .finished_runs import check_once, with_names
from .inference import interval_of_mean
from .units import UNIT_COLUMNS, find_clusters

Outcome = Literal["judged", "unable", "failed", "no response", "no basis"]


@dataclass(frozen=True)
class Assessment:
    """A judge's assessment of one response (the relevance judge of passages has its own `Judgement`).

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
    outcome: Outcome = "judged"


class ResponseJudge:
    """Gives each response a value and a reason. A judge of your own has the same attributes and this method."""

    name: ClassVar[str]
    """The name of the judge in tables."""
    needs: ClassVar[tuple[str, ...]] = ()
    """The columns without which it can't judge at all."""
    basis: ClassVar[str] = ""
    """The column among them with which a response is compared, or ``""``. A turn without a value there is omitted and counted."""

    @property
    def model_name(self) -> str:
        """The model that it asks or loads; empty for none."""
        return ""

    def judge(self, responses: pd.DataFrame) -> list[Assessment]:
        """One judgement per row of a frame with ``qid``, ``qanswer`` and the turn's other columns."""
        raise NotImplementedError


def asked_column(turns: pd.DataFrame, who: str) -> str:
    """The user's question: ``qresolved``, else ``qutterance``, else the first ``query`` (a later one is the system's rewrite).

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
    """The turns whose responses should be judged, with the information that TREC iKAT 2023 gave its judges.

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
    turns = with_columns(
        topics_frame(chats, manual=True),
        qhistory=histories,
        gold_answer=answers_frame(chats)["gold_answer"],
    )
    if qids is None:
        return turns
    wanted = list(qids)
    missing = [qid for qid in wanted if qid not in set(turns["qid"])]
    if missing:
        raise UsageError(
            f"no turn {list_first(missing)} in these conversations: their turns are like {turns['qid'].iloc[0]}"
        )
    return turns[turns["qid"].isin(wanted)].reset_index(drop=True)


def response_frame(turns: pd.DataFrame, answers: pd.DataFrame) -> pd.DataFrame:
    """The turns with ``qanswer``, the system's response (empty if there is none), and ``qpassages``, on which it is based.

    It has ``qcitations`` if the answers have them. Arguments and errors are those of
    :func:`evaluate_responses`.

    Example:
        >>> answers = pd.DataFrame({"qid": ["1_1"] * 2, "qanswer": ["Rooibos."] * 2, "text": ["a", "b"], "used": [True, False]})
        >>> response_frame(pd.DataFrame({"qid": ["1_1", "1_2"]}), answers)[["qanswer", "qpassages"]].values.tolist()
        [['Rooibos.', ['a']], ['', []]]
    """
    turns = with_text_ids("the turns", with_names("the turns", turns, ["qid"], "add it"), ["qid"])
    answers = with_names("the answers", answers, ["qid", response_column(answers)], "add it")
    answers = with_text_ids("the answers", answers, ["qid"])
    check_once("the turns to judge", turns, ["qid"], "give each once")
    check_common_turns("the answers", answers["qid"].unique(), turns["qid"], "turn to judge")
    answers = answers.assign(qanswer=answers[response_column(answers)])[
        answers["qid"].isin(turns["qid"])
    ]
    firsts = answers.drop_duplicates("qid")
    given = dict(zip(firsts["qid"], values(firsts, "qanswer", ""), strict=True))
    if odd := [qid for qid, text in given.items() if not isinstance(text, str)]:
        raise DataError(f"turn {odd[0]}: the response is {given[odd[0]]!r}, no text")
    frame = with_columns(turns, qanswer=[given.get(qid, "") for qid in turns["qid"]])
    if "qcitations" in firsts.columns:
        cited = dict(zip(firsts["qid"], values(firsts, "qcitations"), strict=True))
        frame = with_columns(frame, qcitations=[cited.get(qid) for qid in turns["qid"]])
    shown = _passages(answers, firsts)
    return (
        frame
        if shown is None
        else with_columns(frame, qpassages=[shown.get(qid, []) for qid in turns["qid"]])
    )


def _passages(answers: pd.DataFrame, firsts: pd.DataFrame) -> dict[str, list[str]] | None:
    """The texts of the passages on which each turn's first response is based; None if the answers don't have them."""
    if "qpassages" in answers.columns:
        shown = dict(zip(firsts["qid"], firsts["qpassages"], strict=True))
    elif {"text", "used"} <= set(answers.columns):
        first = dict(zip(firsts["qid"], firsts["qanswer"], strict=True))
        used = answers.loc[used_marks(answers)]
        used = used[used["qanswer"] == used["qid"].map(first)]
        used = used.sort_values("rank", kind="stable") if "rank" in used.columns else used
        shown = dict.fromkeys(first, ()) | used.groupby("qid")["text"].agg(list).to_dict()
    else:
        return None
    return {qid: _texts(qid, texts) for qid, texts in shown.items()}


def _texts(qid: str, texts: Any) -> list[str]:
    given: Any = [] if is_missing(texts) else as_json(texts)
    if not isinstance(given, list) or not all(isinstance(text, str) for text in given):
        raise DataError(
            f"turn {qid}: the response is based on {texts!r}: give a list of texts, which come from a text_loader()"
        )
    return given


COUNTS = {
    "no_response": "no response",
    "unable": "unable",
    "no_basis": "no basis",
    "failures": "failed",
}
COLUMNS = ("qid", "judge", "value", "reason", "outcome")


def evaluate_responses(
    turns: pd.DataFrame, answers: pd.DataFrame, judges: Sequence[ResponseJudge]
) -> pd.DataFrame:
    """Judge one system's response to each of ``turns``. :func:`response_means` gives the means.

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
        >>> evaluate_responses(turns, answers, [RougeL()])[["qid", "value", "outcome"]].round(2).values.tolist()
        [['1_1', 0.67, 'judged'], ['1_2', 0.0, 'no response']]
    """
    frame = response_frame(turns, answers)
    _check_judges(judges, frame)
    rows = [
        (qid, judge.name, judgement.value, judgement.reason, judgement.outcome)
        for judge in judges
        for qid, judgement in zip(frame["qid"], _assessments(judge, frame), strict=True)
    ]
    return pd.DataFrame(rows, columns=COLUMNS, dtype=object).astype({"value": float})


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

    Example:
        >>> judged = pd.DataFrame({"qid": ["1", "2"], "judge": ["x", "x"], "value": [3.0, None], "outcome": ["judged", "failed"]})
        >>> response_means(judged)[["judge", "mean", "n", "failures", "turns"]].values.tolist()
        [['x', 3.0, 1, 1, 2]]
    """
    data = None if dataset is None else dataset_named(dataset)
    rows = []
    for name, group in judged.groupby("judge", sort=False):
        valued = group[group["outcome"].isin(["judged", "no response"])]
        clusters = find_clusters(valued["qid"], unit, data)
        found = interval_of_mean(valued["value"].astype(float).tolist(), clusters.names)
        row = {
            "judge": name,
            "mean": found.mean,
            "low": found.low,
            "high": found.high,
            "n": len(valued),
        }
        for title, outcome in COUNTS.items():
            row[title] = int((group["outcome"] == outcome).sum())
        rows.append({**row, "turns": len(group), **clusters.columns()})
    return pd.DataFrame(
        rows, columns=["judge", "mean", "low", "high", "n", *COUNTS, "turns", *UNIT_COLUMNS]
    )


REPAIRS = {
    "qpassages": "give the answers with text and used, as ikat.Respond does, or with qpassages, a list of texts",
    "qcitations": "run a system that asks for citations, with ikat.Respond(llm, cite=True)",
    "gold_answer": "take the turns from response_turns(data.conversations), or add get_answers()",
}


def _check_judges(judges: Sequence[ResponseJudge], frame: pd.DataFrame) -> None:
    if twice := [
        name for name, times in Counter(judge.name for judge in judges).items() if times > 1
    ]:
        raise UsageError(
            f"two judges are called {twice[0]!r}: use each judge once, and compare models in two calls"
        )
    for judge in judges:
        repair = next(
            (REPAIRS[name] for name in judge.needs if name in REPAIRS), "add it to the turns"
        )
        with_names(f"the turns for {judge.name}", frame, judge.needs, repair)


def _assessments(judge: ResponseJudge, frame: pd.DataFrame) -> list[Assessment]:
    answered = np.array([bool(text.strip()) for text in frame["qanswer"]], dtype=bool)
    based = np.array(
        [not judge.basis or _says_something(basis) for basis in values(frame, judge.basis)],
        dtype=bool,
    )
    asked = frame.loc[answered & based].reset_index(drop=True)
    assessed = judge.judge(asked) if len(asked) else []
    if odd := [
        qid
        for qid, one in zip(asked["qid"], assessed, strict=True)
        if one.outcome == "judged" and is_missing(one.value)
    ]:
        raise DataError(
            f"turn {odd[0]}: {judge.name} judged it, but gives no value: give one, or another outcome than 'judged'"
        )
    found = iter(assessed)
    no_basis = Assessment(None, f"the turn has no {judge.basis}", "no basis")
    no_response = Assessment(0.0, "the system gave no response", "no response")
    return [
        no_basis if not has_basis else next(found) if has else no_response
        for has, has_basis in zip(answered, based, strict=True)
    ]


def _says_something(basis: Any) -> bool:
    return bool(
        basis.strip() if isinstance(basis, str) else isinstance(basis, list | tuple) and basis
    )
