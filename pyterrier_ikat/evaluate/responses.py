"""Responses judged turn by turn, and the means with what they are over."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from ..arguments import checked
from ..conversations.frame import object_frame, values
from ..errors import UsageError
from ..runs.kept import plain
from .assessment import Assessment, ResponseJudge
from .response_frame import response_frame

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
        :class:`~pyterrier_ikat.evaluate.assessment.Assessment`. A turn without response has the value 0.

    Raises:
        UsageError: when a column is missing, or two judges have the same name.
        DataError: when a turn is repeated, no turn is shared, a turn, response or passage is no text, or a mark in ``used``
            is neither true nor false.

    Example:
        >>> from pyterrier_ikat.evaluate.rouge import RougeL
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
