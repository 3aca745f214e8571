"""Judgements: checked, merged by a rule, written as TREC writes them, with the judge beside."""

import numpy as np
import pandas as pd
import pytest

from pyterrier_ikat.conversations.qrels import (
    check_qrels,
    judge_of,
    judgements_in,
    merge_qrels,
    note_of,
    read_qrels,
    write_judge,
    write_qrels,
)
from pyterrier_ikat.errors import DataError, UsageError


def judged(*rows):
    return pd.DataFrame(rows, columns=["qid", "docno", "label"])


FIRST = judged(("2_1", "b", 1), ("1_1", "a", 0), ("1_1", "c", 4))


def test_judgements_are_written_and_read_in_their_order(tmp_path):
    path = tmp_path / "deep" / "qrels.txt"
    write_qrels(FIRST, path)
    assert path.read_text() == "2_1 0 b 1\n1_1 0 a 0\n1_1 0 c 4\n"
    again = read_qrels(path)
    pd.testing.assert_frame_equal(again, check_qrels(FIRST))
    assert again["label"].dtype == np.int64


def test_qrels_survive_the_file(tmp_path):
    frame = judged(("9-1_3", "a:1", 4), ("9-1_3", "b:0", 0)).assign(reason="x", raw="y")
    write_qrels(frame, tmp_path / "q.txt")
    assert read_qrels(tmp_path / "q.txt").values.tolist() == [
        ["9-1_3", "a:1", 4],
        ["9-1_3", "b:0", 0],
    ]


@pytest.mark.parametrize(("rule", "label"), [("official", 0), ("new", 3)], ids=["official", "new"])
def test_of_two_labels_that_of_the_rules_source_counts(rule, label):
    new = judged(("1_1", "d", 2), ("1_1", "a", 3), ("3_1", "b", 1))
    assert merge_qrels(FIRST, new, rule).values.tolist() == [
        ["2_1", "b", 1],
        ["1_1", "a", label],
        ["1_1", "c", 4],
        ["1_1", "d", 2],
        ["3_1", "b", 1],
    ]


def test_the_official_label_counts_where_nothing_is_said():
    official = judged(("1_1", "a", 1))
    new = judged(("1_1", "a", 3))
    assert merge_qrels(official, new)["label"].tolist() == [1]
    with pytest.raises(UsageError, match="rule="):
        merge_qrels(official, new, "mean")


QRELS = pd.DataFrame({"qid": ["b", "a", "b"], "docno": ["y", "x", "x"], "label": [1, 0, 2]})


def test_merging_keeps_the_official_label_or_takes_the_new_one():
    official = judged(("1_1", "a", 3), ("1_1", "b", 0))
    new = judged(("1_1", "c", 2), ("1_1", "b", 4))
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


def test_judgements_are_merged_written_and_read(tmp_path):
    new = pd.DataFrame({"qid": ["a", "b"], "docno": ["z", "x"], "label": ["4", 3.0]})
    merged = merge_qrels(QRELS, new)
    assert merged.values.tolist() == [["b", "y", 1], ["a", "x", 0], ["b", "x", 2], ["a", "z", 4]]
    assert merge_qrels(QRELS, new, "new")["label"].tolist() == [1, 0, 3, 4]
    with pytest.raises(UsageError, match="rule"):
        merge_qrels(QRELS, new, "mean")
    with pytest.raises(DataError, match="the new qrels hold no judgement"):
        merge_qrels(QRELS, QRELS[:0])
    with pytest.raises(DataError, match="the official qrels have no column label"):
        merge_qrels(QRELS.drop(columns="label"), new)
    path = tmp_path / "q.txt"
    write_qrels(QRELS, path)
    assert path.read_text() == "b 0 y 1\na 0 x 0\nb 0 x 2\n"
    assert read_qrels(path).to_dict("list") == QRELS.to_dict("list")
    assert read_qrels(path)["label"].dtype == np.int64
    assert (note_of(path), judge_of(path)) == ({}, None)
    write_judge(path, "m", "umbrela", filled="yes")
    assert note_of(path) == {"judged_by": "m", "style": "umbrela", "filled": "yes"}
    assert judge_of(path) == "m/umbrela"
    write_judge(path, "m", "one-shot")
    assert judge_of(path) == "m"
    for name in ("qid", "docno"):
        for wrong in ("a b", ""):
            with pytest.raises(DataError, match=f"the {name} '{wrong}' is empty or holds white"):
                write_qrels(QRELS.assign(**{name: ["v", "w", wrong]}), path)


@pytest.mark.parametrize(
    ("qrels", "message"),
    [
        (judged(("1_1", "a", 1), ("1_1", "a", 1)), "turn 1_1, passage a twice"),
        (judged(), "hold no judgement"),
        (judged(("1_1", "a", 1)).drop(columns="label"), "no column label"),
        (judged(("1_1", "a", 1.5)), "turn 1_1, passage a: the label is 1.5"),
        (judged(("1_1", "a", None)), "turn 1_1, passage a: the label is"),
        (judged(("1_1", "a", 10_000)), "at most 4 digits"),
        (judged((1, "a", 1)), "the qid 1 is not a text"),
    ],
)
def test_what_is_no_judgement_is_named(qrels, message):
    with pytest.raises(DataError, match=message):
        check_qrels(qrels)


@pytest.mark.parametrize(
    ("qrels", "part"),
    [
        (QRELS.drop(columns=["qid", "label"]), "mine have no column qid, label: give a frame"),
        (QRELS[:0], "mine hold no judgement"),
        (QRELS.assign(label=[1, None, 2]), "mine: turn a, passage x: the label is nan"),
        (QRELS.assign(label=[1, 2, 12345]), "turn b, passage x: the label is 12345"),
        (QRELS.assign(docno="x"), "mine judge turn b, passage x twice"),
        (QRELS.assign(qid=[1, 2, 3]), "mine: the qid 1 is not a text"),
    ],
    ids=range(6),
)
def test_judgements_that_are_none_are_named(qrels, part):
    for check in (judgements_in, check_qrels):
        with pytest.raises(DataError, match=part):
            check(qrels, "mine")


def test_the_first_pair_that_is_judged_twice_is_named():
    qrels = judged(("1_1", "a", 1), ("1_1", "b", 1), ("1_1", "a", 2), ("1_1", "b", 1))
    with pytest.raises(DataError, match="^the qrels judge turn 1_1, passage a twice: keep one"):
        check_qrels(qrels)


@pytest.mark.parametrize("given", ["qrels.txt", None, {"qid": []}])
def test_what_is_no_frame_is_refused(given):
    with pytest.raises(UsageError, match="mine are"):
        judgements_in(given, "mine")


@pytest.mark.parametrize(
    ("given", "part"), [("q.txt", "mine are 'q.txt'"), ([], "mine are a list")]
)
def test_judgements_are_a_frame(given, part):
    with pytest.raises(UsageError, match=part):
        judgements_in(given, "mine")


@pytest.mark.parametrize(("column", "value"), [("qid", "1 1"), ("docno", "a\tb"), ("docno", "")])
def test_an_id_that_no_file_can_hold_is_not_written(tmp_path, column, value):
    path = tmp_path / "qrels.txt"
    with pytest.raises(DataError, match=f"the {column} "):
        write_qrels(judged(("1_1", "a", 1)).assign(**{column: value}), path)
    assert not path.exists()


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (
            judged(("1_1", "a", np.nan)),
            "turn 1_1, passage a: the label is nan; labels are whole numbers",
        ),
        (judged(("1_1", "a", 1.5)), "the label is 1.5"),
        (judged(("1_1", "a", None)), "the label is (None|nan)"),
        (
            judged(("1_1", "a", 99999)),
            "the label is 99999; labels are whole numbers of at most 4 digits",
        ),
        (judged(("1_1", "a", "3"), ("1_1", "b", "good")), "the label is 'good'"),
        (judged(("1_1", "a", 1), ("1_1", "a", 1)), "judge turn 1_1, passage a twice"),
        (judged(), "hold no judgement"),
        (judged(("1_1", "a", 1)).drop(columns="docno"), "have no column docno"),
        (judged(("1_1", "a b", 1)), "the docno 'a b' is empty or holds white space"),
    ],
)
def test_qrels_that_are_not_written(tmp_path, frame, message):
    with pytest.raises(DataError, match=message):
        write_qrels(frame, tmp_path / "q.txt")
    assert list(tmp_path.glob("*")) == []


def test_a_file_is_noted_with_its_judge(tmp_path):
    path = tmp_path / "qrels.txt"
    assert (note_of(path), judge_of(path)) == ({}, None)
    write_judge(path, "gpt-4o", "one-shot", filled="mine")
    assert note_of(path) == {"judged_by": "gpt-4o", "style": "one-shot", "filled": "mine"}
    assert judge_of(path) == "gpt-4o"
    write_judge(path, "gpt-4o", "rubric")
    assert judge_of(path) == "gpt-4o/rubric"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("{", "can't be read as JSON"),
        ("", "can't be read as JSON"),
        ("[]", "doesn't say judged_by and style"),
        ('{"judged_by": "m"}', "doesn't say judged_by and style"),
        ('{"judged_by": 4, "style": "fill"}', "judged_by is 4, no text"),
        ('{"judged_by": "m", "style": null}', "style is None, no text"),
    ],
)
@pytest.mark.parametrize("read", [note_of, judge_of])
def test_a_file_beside_qrels_that_is_no_note_is_named(tmp_path, read, content, problem):
    (tmp_path / "qrels.txt.json").write_text(content)
    with pytest.raises(DataError, match=f"qrels.txt.json.* {problem}.*: mend it, or remove it"):
        read(tmp_path / "qrels.txt")
