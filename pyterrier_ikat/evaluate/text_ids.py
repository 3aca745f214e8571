"""Turns and passages are named by texts: a number would be taken for another turn, or end in an error of trec_eval."""

from collections.abc import Sequence

import pandas as pd

from ..errors import DataError


def with_text_ids(who: str, frame: pd.DataFrame, names: Sequence[str] = ("qid", "docno")) -> pd.DataFrame:
    """The frame with the columns ``names`` as texts, categories among them.

    Args:
        who: what the error calls the frame, such as ``"run AD"``.
        frame: has these columns.
        names: the columns that name turns and passages.

    Raises:
        DataError: when one holds anything else.

    Example:
        >>> found = with_text_ids("run AD", pd.DataFrame({"qid": ["9-1_3"]}, dtype="category"), ["qid"])
        >>> str(found["qid"].dtype), found["qid"].tolist()
        ('object', ['9-1_3'])
    """
    for name in names:
        if pd.api.types.infer_dtype(frame[name]) in ("string", "empty") and not frame[name].isna().any():
            continue
        ids = frame[name].astype(object)
        odd = [value for value in ids if not isinstance(value, str)]
        if odd:
            raise DataError(f'{who}: the {name} {odd[0]!r} is no text: leave the row out, or convert by frame["{name}"].astype(str)')
        frame = frame.assign(**{name: ids})
    return frame
