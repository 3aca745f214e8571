"""Rankings small enough to be worked out by hand."""

import pandas as pd

DOCNOS = [f"sample-walk-0{number:02}:0" for number in range(1, 7)]


def ranking(rows):
    """A result frame from (qid, docno, score) in the order of the ranks."""
    frame = pd.DataFrame(rows, columns=["qid", "docno", "score"]).astype(
        {"qid": object, "docno": object}
    )
    return frame.assign(rank=frame.groupby("qid").cumcount())
