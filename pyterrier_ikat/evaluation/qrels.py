"""Judgements as frames: checked, merged under a stated rule, written as TREC does."""

from pathlib import Path

import pandas as pd

from ..arguments import checked
from ..conversations.topics import qrels_frame
from ..errors import DataError, UsageError
from ..store.files import atomic_write
from .checks import with_text_ids

RULES = ("official", "new")


def check_qrels(qrels: pd.DataFrame, name: str = "the qrels") -> pd.DataFrame:
    """``qid``, ``docno`` and ``label`` (int64) of ``qrels``.

    Raises:
        UsageError: when ``qrels`` is no frame.
        DataError: when a column is missing, there is no judgement, an id is no text, a label is not a whole number, or a
            pair was judged twice.
    """
    if not isinstance(qrels, pd.DataFrame):
        given = repr(qrels) if isinstance(qrels, str) else f"a {type(qrels).__name__}"
        raise UsageError(f'{name} are {given}: give a frame, such as pt.get_dataset("ikat:2023").get_qrels() or read_qrels(path)')
    lacking = [wanted for wanted in ("qid", "docno", "label") if wanted not in qrels.columns]
    if lacking or qrels.empty:
        what = f"have no column {', '.join(lacking)}" if lacking else "hold no judgement"
        raise DataError(f"{name} {what}: give a frame with qid, docno, label, such as read_qrels(path) returns")
    qrels = with_text_ids(name, qrels)
    labels = pd.to_numeric(qrels["label"], errors="coerce")
    bad = labels.isna() | (labels % 1 != 0)
    if bad.any():
        row = qrels[bad].iloc[0]
        shown = repr(row["label"]) if isinstance(row["label"], str) else row["label"]
        raise DataError(
            f"{name}: turn {row['qid']}, passage {row['docno']}: the label is {shown}; labels are whole numbers, "
            "a passage without a judgement has no row"
        )
    twice = qrels.duplicated(["qid", "docno"])
    if twice.any():
        row = qrels[twice].iloc[0]
        raise DataError(f"{name} judge turn {row['qid']}, passage {row['docno']} twice: keep one of the two")
    return qrels_frame(zip(qrels["qid"], qrels["docno"], labels.astype("int64"), strict=True))


@checked
def merge_qrels(official: pd.DataFrame, new: pd.DataFrame, rule: str = "official") -> pd.DataFrame:
    """Judgements of two sources in one frame.

    Args:
        official: ``qid``, ``docno``, ``label``.
        new: the same, such as a :class:`Judge` returned.
        rule: which label counts where both judged: ``"official"`` or ``"new"``. No label is ever averaged.

    Returns:
        ``qid``, ``docno``, ``label``: the pairs of ``official`` in their order, then those that only ``new`` has.

    Raises:
        UsageError: when the rule is unknown.
        DataError: when one of the two is no clean qrels frame.

    Example:
        >>> import pandas as pd
        >>> nist = pd.DataFrame({"qid": ["1_1"], "docno": ["a"], "label": [3]})
        >>> llm = pd.DataFrame({"qid": ["1_1", "1_1"], "docno": ["a", "b"], "label": [1, 2]})
        >>> merge_qrels(nist, llm)["label"].tolist(), merge_qrels(nist, llm, rule="new")["label"].tolist()
        ([3, 2], [1, 2])
    """
    if rule not in RULES:
        raise UsageError(f"rule {rule!r} is unknown: choose one of {', '.join(RULES)}")
    old, fresh = check_qrels(official, "the official qrels"), check_qrels(new, "the new qrels")
    labels = {(qid, docno): label for qid, docno, label in old.itertuples(index=False)}
    for qid, docno, label in fresh.itertuples(index=False):
        if rule == "new" or (qid, docno) not in labels:
            labels[qid, docno] = label
    return qrels_frame((qid, docno, label) for (qid, docno), label in labels.items())


def write_qrels(qrels: pd.DataFrame, path: str | Path) -> None:
    r"""Write a TREC qrels file (``qid 0 docno label`` a line), atomically.

    Raises:
        DataError: when ``qrels`` is no clean qrels frame, or an id holds white space.

    Example:
        >>> import pandas as pd
        >>> write_qrels(pd.DataFrame({"qid": ["1_1"], "docno": ["a"], "label": [3]}), "one.qrels")
        >>> open("one.qrels").read()
        '1_1 0 a 3\n'
    """
    clean = check_qrels(qrels)
    for name in ("qid", "docno"):
        for value in clean[name]:
            if len(str(value).split()) != 1:
                raise DataError(f"the {name} {value!r} is empty or holds white space, which a qrels file cannot: rename it")
    with atomic_write(path) as file:
        file.writelines(f"{qid} 0 {docno} {label}\n" for qid, docno, label in clean.itertuples(index=False))
