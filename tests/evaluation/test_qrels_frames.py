import numpy as np
import pandas as pd
import pytest
from small_frames import qrels

from pyterrier_ikat.conversations import merge_qrels, read_qrels, write_qrels
from pyterrier_ikat.errors import DataError, UsageError


def test_merging_keeps_the_official_label_or_takes_the_new_one():
    official, new = qrels(("1_1", "a", 3), ("1_1", "b", 0)), qrels(("1_1", "c", 2), ("1_1", "b", 4))
    assert merge_qrels(official, new).values.tolist() == [
        ["1_1", "a", 3],
        ["1_1", "b", 0],
        ["1_1", "c", 2],
    ]
    assert merge_qrels(official, new, rule="new").values.tolist() == [
        ["1_1", "a", 3],
        ["1_1", "b", 4],
        ["1_1", "c", 2],
    ]
    with pytest.raises(UsageError, match="rule='mean' is unknown: choose one of official, new"):
        merge_qrels(official, new, rule="mean")
    with pytest.raises(DataError, match="the new qrels judge turn 1_1, passage c twice"):
        merge_qrels(official, pd.concat([new, new]))


def test_qrels_survive_the_file(tmp_path):
    judged = qrels(("9-1_3", "a:1", 4), ("9-1_3", "b:0", 0)).assign(reason="x", raw="y")
    write_qrels(judged, tmp_path / "q.txt")
    assert read_qrels(tmp_path / "q.txt").values.tolist() == [
        ["9-1_3", "a:1", 4],
        ["9-1_3", "b:0", 0],
    ]


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (
            qrels(("1_1", "a", np.nan)),
            "turn 1_1, passage a: the label is nan; labels are whole numbers",
        ),
        (qrels(("1_1", "a", 1.5)), "the label is 1.5"),
        (qrels(("1_1", "a", None)), "the label is (None|nan)"),
        (
            qrels(("1_1", "a", 99999)),
            "the label is 99999; labels are whole numbers of at most 4 digits",
        ),
        (qrels(("1_1", "a", "3"), ("1_1", "b", "good")), "the label is 'good'"),
        (qrels(("1_1", "a", 1), ("1_1", "a", 1)), "judge turn 1_1, passage a twice"),
        (qrels(), "hold no judgement"),
        (qrels(("1_1", "a", 1)).drop(columns="docno"), "have no column docno"),
        (qrels(("1_1", "a b", 1)), "the docno 'a b' is empty or holds white space"),
    ],
)
def test_qrels_that_are_not_written(tmp_path, frame, message):
    with pytest.raises(DataError, match=message):
        write_qrels(frame, tmp_path / "q.txt")
    assert list(tmp_path.glob("*")) == []
