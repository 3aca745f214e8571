"""Judgements as frames: read from TREC's files, written to them, checked and merged."""

import json
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pandas as pd

from ..arguments import one_of
from ..errors import DataError, UsageError
from ..store.files import atomic_write
from ..store.trec import read_judgements, read_label
from .frame import frame_of_rows, with_text_ids

MERGE_RULES = ("official", "new")


def qrels_frame(rows: Iterable[tuple[str, str, int]]) -> pd.DataFrame:
    """Make a qrels frame ``qid``, ``docno``, ``label`` (int64) from triples of these."""
    frame = frame_of_rows(("qid", "docno", "label"), rows)
    return frame.astype({"label": np.int64})


def read_qrels(path: str | Path) -> pd.DataFrame:
    """Read a TREC qrels file.

    Unlike PyTerrier's reader, it raises an error for a line that is truncated, not numeric or
    repeated.

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
    """Return the turn, passage and label of each row of ``qrels``, checked.

    Raises:
        UsageError: when ``qrels`` is not a frame.
        DataError: when a column is missing, there is no judgement, an id is not a text, a label is
            not a whole number of at most 4 digits, or a pair was judged twice.
    """
    if not isinstance(qrels, pd.DataFrame):
        argument = repr(qrels) if isinstance(qrels, str) else f"a {type(qrels).__name__}"
        raise UsageError(
            f"{name} are {argument}: give a frame, such as "
            'pt.get_dataset("ikat:2023").get_qrels() or read_qrels(path)'
        )
    repair = "give a frame with qid, docno, label, such as read_qrels(path) returns"
    lacking = [wanted for wanted in ("qid", "docno", "label") if wanted not in qrels.columns]
    if lacking:
        raise DataError(f"{name} have no column {', '.join(lacking)}: {repair}")
    if qrels.empty:
        raise DataError(f"{name} hold no judgement: {repair}")
    qrels = with_text_ids(name, qrels)
    # As lists, because iterating over a column of Arrow's strings is slow.
    qids = qrels["qid"].tolist()
    docnos = qrels["docno"].tolist()
    labels = []
    for qid, docno, label in zip(qids, docnos, qrels["label"].tolist(), strict=True):
        try:
            labels.append(read_label(label))
        except (TypeError, ValueError):
            raise DataError(
                f"{name}: turn {qid}, passage {docno}: the label is {label!r}; labels are whole "
                "numbers of at most 4 digits, a passage without a judgement has no row"
            ) from None
    repeated = qrels[qrels.duplicated(["qid", "docno"])]
    if len(repeated):
        row = repeated.iloc[0]
        pair = f"turn {row['qid']}, passage {row['docno']}"
        raise DataError(f"{name} judge {pair} twice: keep one of the two")
    return list(zip(qids, docnos, labels, strict=True))


def check_qrels(qrels: pd.DataFrame, name: str = "the qrels") -> pd.DataFrame:
    """Return ``qid``, ``docno`` and ``label`` (int64) of ``qrels``.

    Raises:
        UsageError: see :func:`judgements_in`.
        DataError: likewise.
    """
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
        >>> merge_qrels(nist, llm)["label"].tolist()
        [3, 2]
        >>> merge_qrels(nist, llm, rule="new")["label"].tolist()
        [1, 2]
    """
    one_of(MERGE_RULES, rule=rule)
    first = check_qrels(official, "the official qrels")
    second = check_qrels(new, "the new qrels")
    judged = pd.concat([first, second]).groupby(["qid", "docno"], sort=False)["label"]
    labels = judged.first() if rule == "official" else judged.last()
    return labels.reset_index()


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
                problem = "is empty or holds white space, which a qrels file cannot"
                raise DataError(f"the {name} {value!r} {problem}: rename it")
    with atomic_write(path) as file:
        for qid, docno, label in clean.itertuples(index=False):
            file.write(f"{qid} 0 {docno} {label}\n")


def write_judge(path: str | Path, model: str, style: str, **more: str) -> None:
    """Note the judging model next to a qrels file.

    Args:
        path: the qrels file.
        model: the model that judged.
        style: its way of judging.
        **more: what belongs beside scores with its labels, such as ``filled``.
    """
    with atomic_write(f"{path}.json") as file:
        json.dump({"judged_by": model, "style": style, **more}, file)


def note_of(path: str | Path) -> dict[str, str]:
    """Return the note of :func:`write_judge` next to a qrels file; empty without a note.

    Raises:
        DataError: when the file of the note is something else, or damaged.
    """
    file = Path(f"{path}.json")
    if not file.exists():
        return {}
    repair = f"mend it, or remove it if it isn't the note of `ikat judge` on {path}"
    try:
        note = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{file} can't be read as JSON ({error}): {repair}") from None
    if not isinstance(note, dict) or not {"judged_by", "style"} <= note.keys():
        raise DataError(f"{file} doesn't say judged_by and style: {repair}")
    for name, text in note.items():
        if not isinstance(text, str):
            raise DataError(f"{file}: {name} is {text!r}, no text: {repair}")
    return note


def judge_of(path: str | Path) -> str | None:
    """Return the judging model of a qrels file, with its style unless it is the first paper's.

    None without a note next to the file.
    """
    note = note_of(path)
    if not note:
        return None
    judge = str(note["judged_by"])
    return judge if note["style"] == "one-shot" else f"{judge}/{note['style']}"
