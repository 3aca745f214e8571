"""Judgements as frames: read from TREC's files, written to them, checked, and merged by a given rule."""

import json
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pandas as pd

from ..arguments import one_of
from ..errors import DataError, UsageError
from ..store.files import atomic_write
from ..store.trec import read_judgements, read_label
from .frame import object_frame, with_text_ids

RULES = ("official", "new")


def qrels_frame(rows: Iterable[tuple[str, str, int]]) -> pd.DataFrame:
    """A qrels frame ``qid``, ``docno``, ``label`` (int64) from triples of these."""
    triples = list(rows)
    frame = object_frame(
        {name: [triple[place] for triple in triples] for place, name in enumerate(("qid", "docno"))}
    )
    return frame.assign(label=np.fromiter((label for _, _, label in triples), dtype=np.int64))


def read_qrels(path: str | Path) -> pd.DataFrame:
    """Read a TREC qrels file. Unlike PyTerrier's reader, it raises an error for a line that is truncated, not numeric or repeated.

    Args:
        path: a text file with ``qid 0 docno label`` per line, which may be compressed with gzip. In
            PTKB qrels ``docno`` is the statement id.

    Returns:
        A frame ``qid``, ``docno``, ``label`` (int64) in the file's order.

    Raises:
        DataError: naming file and line.

    Example:
        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "qrels.txt"
        >>> _ = path.write_text("9-1_3 0 clueweb22-en0000-06-17856:4 2")
        >>> read_qrels(path).values.tolist()
        [['9-1_3', 'clueweb22-en0000-06-17856:4', 2]]
    """
    return qrels_frame(read_judgements(path))


def judgements_in(qrels: pd.DataFrame, name: str = "the qrels") -> list[tuple[str, str, int]]:
    """The turn, passage and label of each row of ``qrels``, checked.

    Raises:
        UsageError: when ``qrels`` is not a frame.
        DataError: when a column is missing, there is no judgement, an id is not a text, a label is
            not a whole number of at most 4 digits, or a pair was judged twice.
    """
    if not isinstance(qrels, pd.DataFrame):
        given = repr(qrels) if isinstance(qrels, str) else f"a {type(qrels).__name__}"
        raise UsageError(
            f'{name} are {given}: give a frame, such as pt.get_dataset("ikat:2023").get_qrels() or read_qrels(path)'
        )
    lacking = [wanted for wanted in ("qid", "docno", "label") if wanted not in qrels.columns]
    if lacking or qrels.empty:
        what = f"have no column {', '.join(lacking)}" if lacking else "hold no judgement"
        raise DataError(
            f"{name} {what}: give a frame with qid, docno, label, such as read_qrels(path) returns"
        )
    qrels = with_text_ids(name, qrels)
    labels = []
    qids, docnos = (
        qrels["qid"].tolist(),
        qrels["docno"].tolist(),
    )  # as lists, because iterating over a column of Arrow's strings is slow
    for qid, docno, label in zip(qids, docnos, qrels["label"].tolist(), strict=True):
        try:
            labels.append(read_label(label))
        except (TypeError, ValueError):
            told = "labels are whole numbers of at most 4 digits, a passage without a judgement has no row"
            raise DataError(
                f"{name}: turn {qid}, passage {docno}: the label is {label!r}; {told}"
            ) from None
    if len(twice := qrels[qrels.duplicated(["qid", "docno"])]):
        row = twice.iloc[0]
        raise DataError(
            f"{name} judge turn {row['qid']}, passage {row['docno']} twice: keep one of the two"
        )
    return list(zip(qids, docnos, labels, strict=True))


def check_qrels(qrels: pd.DataFrame, name: str = "the qrels") -> pd.DataFrame:
    """``qid``, ``docno`` and ``label`` (int64) of ``qrels``. Raises the same errors as :func:`judgements_in`."""
    return qrels_frame(judgements_in(qrels, name))


def merge_qrels(official: pd.DataFrame, new: pd.DataFrame, rule: str = "official") -> pd.DataFrame:
    """Merge judgements of two sources into one frame.

    Args:
        official: ``qid``, ``docno``, ``label``.
        new: the same, such as the result of a :class:`~pyterrier_ikat.Judge`.
        rule: which label counts if both judged a pair: ``"official"`` or ``"new"``. Labels are
            never averaged.

    Returns:
        ``qid``, ``docno``, ``label``: the pairs of ``official`` in their order, then those that are
        only in ``new``.

    Raises:
        UsageError: when the rule is unknown.
        DataError: when one of the two is not a valid qrels frame.

    Example:
        >>> nist = pd.DataFrame({"qid": ["1_1"], "docno": ["a"], "label": [3]})
        >>> llm = pd.DataFrame({"qid": ["1_1", "1_1"], "docno": ["a", "b"], "label": [1, 2]})
        >>> merge_qrels(nist, llm)["label"].tolist(), merge_qrels(nist, llm, rule="new")["label"].tolist()
        ([3, 2], [1, 2])
    """
    one_of(RULES, rule=rule)
    both = pd.concat(
        [check_qrels(official, "the official qrels"), check_qrels(new, "the new qrels")]
    )
    labels = both.groupby(["qid", "docno"], sort=False)["label"]
    return (labels.first() if rule == "official" else labels.last()).reset_index()


def write_qrels(qrels: pd.DataFrame, path: str | Path) -> None:
    r"""Write a TREC qrels file (``qid 0 docno label`` per line) atomically.

    Raises:
        DataError: when ``qrels`` is not a valid qrels frame, or an id has white space.

    Example:
        >>> write_qrels(pd.DataFrame({"qid": ["1_1"], "docno": ["a"], "label": [3]}), "one.qrels")
        >>> open("one.qrels").read()
        '1_1 0 a 3\n'
    """
    clean = check_qrels(qrels)
    for name in ("qid", "docno"):
        for value in clean[name].unique():
            if len(value.split()) != 1:
                raise DataError(
                    f"the {name} {value!r} is empty or holds white space, which a qrels file cannot: rename it"
                )
    with atomic_write(path) as file:
        file.writelines(
            f"{qid} 0 {docno} {label}\n" for qid, docno, label in clean.itertuples(index=False)
        )


def write_judge(path: str | Path, model: str, style: str, **more: str) -> None:
    """Note next to a qrels file which model judged it, and what belongs beside scores with its labels (``filled``)."""
    with atomic_write(f"{path}.json") as file:
        json.dump({"judged_by": model, "style": style, **more}, file)


def note_of(path: str | Path) -> dict[str, str]:
    """What :func:`write_judge` noted next to a qrels file; empty without a note."""
    place = Path(f"{path}.json")
    return dict(json.loads(place.read_text(encoding="utf-8"))) if place.exists() else {}


def judge_of(path: str | Path) -> str | None:
    """The model that judged a qrels file, with its style if that isn't the first paper's; None without such a note next to the file."""
    said = note_of(path)
    if not said:
        return None
    return str(said["judged_by"]) + ("" if said["style"] == "one-shot" else f"/{said['style']}")
