"""Evaluation of the decisions of systems: to answer, to ask back, or to say that the collection has no answer."""

import math
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import pandas as pd

from ..completions.verdicts import ACTIONS
from ..conversations.frame import values
from ..conversations.topics import ANSWERABILITY
from ..errors import DataError, UsageError, counted, list_first
from .evaluator import check_common_turns
from .finished_runs import check_once, written_by

WANTED = {"abstain": "unanswerable", "ask": "underspecified"}
"""The label of the turns in which each action is right."""
MEASURES = ("precision", "recall", "F1")

System: TypeAlias = pd.DataFrame | str | Path


def evaluate_actions(systems: Mapping[str, System], answers: pd.DataFrame) -> pd.DataFrame:
    """Compare what systems decided with labels of answerability: precision, recall and F1 of abstaining, and of asking back.

    Abstaining is right if a turn is labelled unanswerable, and not if it is partially answerable or conversational. Asking back is right if
    a turn is labelled underspecified. If no turn has that label (MTRAG has none, MTRAG-UN does), there is no row for asking. A turn for
    which a system decided nothing, such as one without passages, counts as answered.

    The intervals of 95 % of precision and recall are Wilson's (Wilson, 1927). F1 is 2 J / (1 + J), where J is the share of right turns
    among those that are labelled or chosen. So its interval is that of J, converted. All intervals treat turns as independent of each
    other. The turns of a conversation are not quite independent.

    Args:
        systems: name -> a frame with ``qid`` and ``qaction``, such as the output of a pipeline with
            :class:`~pyterrier_ikat.generate.Decide`, or a folder made by ``ikat run``.
        answers: ``qid`` and ``gold_answerability``, as from ``dataset("mtrag:mini").get_answers()``. Only turns with a label count.

    Returns:
        One row per system and action: ``name``, ``action``, ``turns`` (with a label), ``labelled`` (for which the action is right),
        ``chosen`` (for which the system took it), ``right`` (both), and ``precision``, ``recall`` and ``F1``, each with ``_low`` and
        ``_high``. A value is NaN if there are no turns to compute it from.

    Raises:
        UsageError: when the answers have no labels, a frame lacks a column, or a system made no decision.
        DataError: when a label or an action is unknown, a turn has several, or a system shares no turn with the labels.

    Warns:
        UserWarning: when a system made no decision for some of the labelled turns.

    Example:
        >>> answers = pd.DataFrame({"qid": list("abcd"), "gold_answerability": ["unanswerable"] * 2 + ["answerable", "partial"]})
        >>> ours = pd.DataFrame({"qid": list("abcd"), "qaction": ["abstain", "answer", "abstain", "answer"]})
        >>> row = evaluate_actions({"ours": ours}, answers).iloc[0]
        >>> row[["precision", "recall", "recall_low", "recall_high"]].astype(float).round(3).tolist()
        [0.5, 0.5, 0.095, 0.905]
    """
    labels = labels_by_turn(answers)
    actions = [action for action, label in WANTED.items() if action == "abstain" or label in labels.values()]
    rows = []
    for name, system in systems.items():
        decided = _decided(name, system, labels)
        if without := [qid for qid, action in decided.items() if not action]:
            told = f"{name} made no decision for {len(without)} of {counted(len(labels), 'turn')}"
            warnings.warn(f"{told} ({list_first(without)}): counted as answered", stacklevel=3)
        rows += [{"name": name, "action": action, **_scores(action, decided, labels)} for action in actions]
    columns = [f"{measure}{end}" for measure in MEASURES for end in ("", "_low", "_high")]
    return pd.DataFrame(rows, columns=["name", "action", "turns", "labelled", "chosen", "right", *columns])


def labels_by_turn(answers: pd.DataFrame) -> dict[str, str]:
    """The label of each turn that has one. Raises the same errors as :func:`evaluate_actions`."""
    given = values(answers, "gold_answerability", "") if "qid" in answers.columns else []
    known = {qid: label for qid, label in zip(answers.get("qid", []), given, strict=True) if label}
    if not known:
        raise UsageError("nothing says which turns have an answer: give answers with gold_answerability, as those of mtrag:mini")
    for qid, label in known.items():
        if label not in ANSWERABILITY:
            raise DataError(f"turn {qid}: the answerability is {label!r}: give one of {', '.join(ANSWERABILITY)}")
    check_once("the answers", answers, ["qid"], "keep one")
    return known


def _action(qid: str, action: Any) -> str:
    if action not in (None, "", *ACTIONS):
        raise DataError(f"turn {qid}: the action is {action!r}: give one of {', '.join(ACTIONS)}")
    return action or ""


def wilson(right: int, of: int, level: float = 0.95) -> tuple[float, float]:
    """Wilson's interval of a share; NaN for a share of nothing.

    Example:
        >>> [round(bound, 3) for bound in wilson(7, 7)]
        [0.646, 1.0]
    """
    if not of:
        return math.nan, math.nan
    from scipy.stats import binomtest

    interval = binomtest(right, of).proportion_ci(level, "wilson")
    return float(interval.low), float(interval.high)


def _decided(name: str, system: System, labels: Mapping[str, str]) -> dict[str, str]:
    found = written_by(system, "qaction", "generate.Decide(llm)", _action)
    if not any(found.values()):
        raise UsageError(f"{name} made no decision: it has no column qaction, which ikat.generate.Decide(llm) writes")
    decided = {qid: found.get(qid, "") for qid in labels}
    check_common_turns(name, found, labels, "turn with a label")
    return decided


def _scores(action: str, decided: Mapping[str, str], labels: Mapping[str, str]) -> dict[str, Any]:
    wanted = {qid for qid, label in labels.items() if label == WANTED[action]}
    taken = {qid for qid, chosen in decided.items() if chosen == action}
    right = len(wanted & taken)
    found: dict[str, Any] = {"turns": len(labels), "labelled": len(wanted), "chosen": len(taken), "right": right}
    for measure, of in zip(MEASURES, (len(taken), len(wanted), len(wanted | taken)), strict=True):
        for end, share in zip(("", "_low", "_high"), (right / of if of else math.nan, *wilson(right, of)), strict=True):
            found[f"{measure}{end}"] = 2 * share / (1 + share) if measure == "F1" else share
    return found
