import pandas as pd
import pytest

from pyterrier_ikat.conversations import read_topics
from pyterrier_ikat.conversations.qrels import read_qrels
from pyterrier_ikat.conversations.topics import ptkb_qrels
from pyterrier_ikat.errors import DataError


def test_lines_become_rows_in_order(write):
    frame = read_qrels(write("9-1_3 0 d2:0 4\n\n9-1_3\t0\td1:7 -1\r\n10-1_1 0 d2:0 0"))
    assert frame.values.tolist() == [["9-1_3", "d2:0", 4], ["9-1_3", "d1:7", -1], ["10-1_1", "d2:0", 0]]
    assert frame.dtypes.astype(str).to_dict() == {"qid": "object", "docno": "object", "label": "int64"}


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("1_1 0 d1 1\n1_1 0 d2", "line 2: '1_1 0 d2' is not a judgement"),
        ("1_1 0 d1 high", "line 1"),
        ("1_1 0 d1 1.5", "whole number"),
        ("1_1 0 d1 12345678901234567890", "line 1: .* is not a judgement: .*, with a whole number of at most 4 digits as label"),
        ("1_1 0 d1 99999", "at most 4 digits"),
        ("1_1 0 d1 1_0", "at most 4 digits"),
        ("1_1 0 d1 １", "at most 4 digits"),
        ("1_1 0 d1 1 x", "line 1"),
        ("1_1 0 d1 1\n1_1 0 d2 0\n1_1 0 d1 0", "line 3: 1_1 and d1 were judged before: keep one"),
        ("\n", "no judgement in it"),
    ],
)
def test_a_bad_line_is_named(write, text, part):
    path = write(text)
    with pytest.raises(DataError, match=part) as caught:
        read_qrels(path)
    assert str(caught.value).startswith(str(path))


def test_nist_judged_176_turns_of_2023(ikat_data):
    frame = read_qrels(ikat_data / "2023-qrels.all-turns.txt")
    assert frame["qid"].nunique() == 176
    assert frame["label"].value_counts().to_dict() == {0: 25467, 1: 4131, 2: 2733, 3: 1542, 4: 310}


@pytest.mark.parametrize(("name", "turns", "relevant"), [("ptkb_rel_nist", 98, 224), ("ptkb_rel_org", 112, 182)])
def test_ptkb_qrels_judge_the_whole_ptkb_of_every_listed_turn(ikat_data, name, turns, relevant):
    frame = read_qrels(ikat_data / name)
    assert (frame["qid"].nunique(), frame["label"].sum()) == (turns, relevant)
    sizes = {chat.number: len(chat.ptkb) for chat in read_topics(ikat_data / "2023_test_topics.json")}
    assert all(len(group) == sizes[qid.split("_")[0]] for qid, group in frame.groupby("qid"))


def test_the_organisers_ptkb_qrels_are_the_topics_own_provenance(ikat_data):
    own = ptkb_qrels(read_topics(ikat_data / "2023_test_topics.json"))
    own = own[own.groupby("qid")["label"].transform("max") == 1]
    keys = ["qid", "docno"]
    published = read_qrels(ikat_data / "ptkb_rel_org").sort_values(keys, ignore_index=True)
    pd.testing.assert_frame_equal(own.sort_values(keys, ignore_index=True), published)
