"""Scores from nuggets' labels: the recall of each turn, and the agreement of two labellers."""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from ..conversations.frame import with_text_ids
from ..errors import DataError, UsageError
from .finished_runs import check_columns, check_once
from .judgements import cohens_kappa

IMPORTANCE = ("vital", "okay")
LABELS = ("support", "partial_support", "not_support")
SHARE = {"support": 1.0, "partial_support": 0.5, "not_support": 0.0}
WEIGHT = {"vital": 1.0, "okay": 0.5}


def nugget_scores(assigned: pd.DataFrame) -> pd.DataFrame:
    """The nugget recall of each turn (arXiv 2411.09607, section 4): the share of its nuggets that the response states.

    Args:
        assigned: ``qid``, ``importance``, ``label``, as from :func:`assign_nuggets`. A nugget without a label is omitted and counted.

    Returns:
        One row per turn: ``qid``; ``all`` and ``vital``: partial support counts half; ``all strict`` and ``vital strict``: only full
        support counts; ``weighted``: okay nuggets have half the weight of vital ones; ``nuggets``, ``unlabelled``. A value is NaN if a turn
        has no nuggets of the kind.

    Raises:
        DataError: when a turn has a nugget twice, as in the labels of two runs, or a label or an importance is unknown.

    Example:
        >>> assigned = pd.DataFrame({"qid": ["1_1"] * 3, "importance": ["vital", "vital", "okay"],
        ...                          "label": ["support", "partial_support", "not_support"]})
        >>> nugget_scores(assigned)[["all", "all strict", "vital", "vital strict", "weighted"]].round(2).values.tolist()
        [[0.5, 0.33, 0.75, 0.5, 0.6]]
    """
    if "nugget" in assigned.columns:
        check_once("the labels", assigned, ["qid", "nugget"], "score the labels of each run separately")
    known = assigned[assigned["label"].notna()]
    _check_words("the labels", known["label"], LABELS)
    _check_words("the labels", known["importance"], IMPORTANCE)
    share, strict = known["label"].map(SHARE).astype(float), (known["label"] == "support").astype(float)
    vital, weight = known["importance"] == "vital", known["importance"].map(WEIGHT).astype(float)
    by = known["qid"]
    found = pd.DataFrame(
        {
            "all": share.groupby(by).mean(),
            "all strict": strict.groupby(by).mean(),
            "vital": share.where(vital).groupby(by).mean(),
            "vital strict": strict.where(vital).groupby(by).mean(),
            "weighted": (share * weight).groupby(by).sum() / weight.groupby(by).sum(),
            "nuggets": by.groupby(by).size(),
        }
    ).reindex(assigned["qid"].drop_duplicates())
    found = found.assign(nuggets=found["nuggets"].fillna(0).astype(int), unlabelled=assigned["label"].isna().groupby(assigned["qid"]).sum())
    return found.rename_axis("qid").reset_index()


def nugget_agreement(ours: pd.DataFrame, given: pd.DataFrame) -> dict[str, float]:
    """The agreement of labels with given ones, such as those of people, on the nuggets that both labelled.

    Args:
        ours: ``qid``, ``nugget``, ``label``; and ``run`` if the labels are about the responses of several runs.
        given: the same.

    Returns:
        ``nuggets``, how many both labelled; ``agreement``, the share with the same label; ``kappa``, Cohen's.

    Raises:
        UsageError: when a column is missing, or only one of the two has a column ``run``.
        DataError: when one labels a nugget of a turn (and run) twice, has an unknown label, or the two share no labelled nugget.

    Example:
        >>> one = pd.DataFrame({"qid": ["1_1"] * 2, "nugget": ["a", "b"], "label": ["support", "not_support"]})
        >>> nugget_agreement(one, one)
        {'nuggets': 2, 'agreement': 1.0, 'kappa': 1.0}
    """
    if ("run" in ours.columns) != ("run" in given.columns):
        raise UsageError("only one of the two has a column run, which tells the runs' labels apart: add it to the other, or drop it")
    first, second = _labelled("our labels", ours), _labelled("the given labels", given)
    both = first.merge(second, on=_label_key(first), suffixes=("", "_given"), validate="one_to_one")
    if both.empty:
        raise DataError("the two share no nugget with a label: their turns and nuggets must be named alike")
    confusion = pd.crosstab(both["label"], both["label_given"]).reindex(index=LABELS, columns=LABELS, fill_value=0)
    same = float((both["label"] == both["label_given"]).mean())
    return {"nuggets": len(both), "agreement": same, "kappa": float(cohens_kappa(confusion.to_numpy()))}


def _label_key(frame: pd.DataFrame) -> list[str]:
    """The columns that identify the object of a label."""
    return [name for name in ("run", "qid", "nugget") if name in frame.columns]


def _labelled(who: str, frame: pd.DataFrame) -> pd.DataFrame:
    """The rows with a label, each nugget of a turn (and run) once."""
    check_columns(who, frame, ("qid", "nugget", "label"), "add it")
    found = with_text_ids(who, frame[frame["label"].notna()], _label_key(frame))
    _check_words(who, found["label"], LABELS)
    key = _label_key(frame)
    check_once(who, found, key, "keep one" if "run" in key else "keep one; labels of several runs need a column run")
    return found[[*key, "label"]]


def _check_words(who: str, words: "pd.Series[Any]", known: Sequence[str]) -> None:
    if unknown := [word for word in words.unique() if word not in known]:
        raise DataError(f"{who} have {unknown[0]!r}, which is not one of {', '.join(known)}: convert it")
