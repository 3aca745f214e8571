"""Files of TREC: what a line may be, and which line is wrong."""

import gzip

import pytest

from pyterrier_ikat.errors import DataError
from pyterrier_ikat.store.trec import read_judgements, read_label


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "packed"])
def test_judgements_are_read_in_their_order(tmp_path, pack):
    path = tmp_path / "qrels.txt"
    path.write_bytes(pack("\ufeff2_1 0 b 1\n\n1_1\t0  a -1\r\n1_1 0 b 4\n".encode()))
    assert read_judgements(path) == [("2_1", "b", 1), ("1_1", "a", -1), ("1_1", "b", 4)]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("1_1 0 b", "line 2: '1_1 0 b' is not a judgement"),
        ("1_1 0 b 1 x", "line 2"),
        ("1_1 0 b 1.5", "line 2"),
        ("1_1 0 b 12345", "at most 4 digits"),
        ("1_1 0 a 1", "line 2: 1_1 and a were judged before"),
    ],
)
def test_a_wrong_judgement_is_named_by_its_line(tmp_path, line, message):
    path = tmp_path / "qrels.txt"
    path.write_text(f"1_1 0 a 1\n{line}\n")
    with pytest.raises(DataError, match=message):
        read_judgements(path)


@pytest.mark.parametrize(
    "content",
    [b"", b"\n \n", b"\xff\xfe", gzip.compress(b"1_1 0 a 1")[:-6]],
    ids=["nothing", "blanks", "not UTF-8", "cut gzip"],
)
def test_a_file_without_a_judgement_is_refused(tmp_path, content):
    path = tmp_path / "qrels.txt"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"qrels\.txt: "):
        read_judgements(path)
    with pytest.raises(DataError, match="no such file"):
        read_judgements(tmp_path / "other.txt")


def test_a_label_is_a_whole_number_of_at_most_four_digits():
    assert [read_label(label) for label in ("0", "-1", "9999", 3, 3.0)] == [
        0,
        -1,
        9999,
        3,
        3,
    ]


@pytest.mark.parametrize("label", ["10000", "1.0", "", "a", "1_0", 1.5, float("nan"), 12345])
def test_what_is_no_whole_number_is_no_label(label):
    with pytest.raises(ValueError, match=r"\A\Z"):
        read_label(label)
