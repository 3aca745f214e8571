"""Files of TREC: what a line may be, and which line is wrong."""

import gzip

import pytest

from pyterrier_ikat.errors import DataError
from pyterrier_ikat.store.trec import is_run_file, read_judgements, read_label, read_rankings


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


# Rankings


RUN = "1_1 Q0 b 1 2.5 mine\n1_1\tQ0 a 2  -1e3 mine\r\n\n \nA_2 Q0 b 1 7 mine\na_2 Q0 b 1 6 x\n"
SCORES = {"1_1": {"b": 2.5, "a": -1000.0}, "A_2": {"b": 7.0}, "a_2": {"b": 6.0}}


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "packed"])
@pytest.mark.parametrize("mark", ["", "\ufeff"], ids=["bare", "marked"])
def test_a_run_is_read_in_the_order_of_its_lines(tmp_path, pack, mark):
    path = tmp_path / "run.txt"
    path.write_bytes(pack((mark + RUN).encode()))
    found = read_rankings(path)
    assert found == SCORES
    assert list(found["1_1"]) == ["b", "a"]
    assert read_rankings(str(path)) == SCORES


@pytest.mark.parametrize(
    "line",
    [
        b"1_1 Q0 a 2 1.0",
        b"1_1 Q0 a 2 1.0 mine more",
        b"1_1 Q0 a 2 high mine",
        b"1_1 Q0 a 2 nan mine",
        b"1_1 Q0 a 2 inf mine",
        b"1_1 Q0 a 2 1_0 mine",
        b"1_1 Q0 \xff 2 1.0 mine",
        b"\xff Q0 a 2 1.0 mine",
    ],
)
def test_a_line_that_is_no_row_of_a_run_is_named(tmp_path, line):
    path = tmp_path / "run.txt"
    path.write_bytes(b"1_1 Q0 b 1 2.5 mine\n\n" + line + b"\n")
    with pytest.raises(DataError, match=r"run\.txt, line 3: .* is not `qid Q0 docno rank score na"):
        read_rankings(path)


def test_a_long_line_is_shown_in_short(tmp_path):
    path = tmp_path / "run.txt"
    path.write_text("x" * 200)
    with pytest.raises(DataError, match=f"line 1: '{'x' * 80}' is not"):
        read_rankings(path)


def test_a_passage_twice_for_a_turn_is_named(tmp_path):
    path = tmp_path / "run.txt"
    path.write_text("1_1 Q0 b 1 2.5 m\n1_2 Q0 b 1 2 m\n1_1 Q0 b 2 1 m\n")
    with pytest.raises(DataError, match="line 3: passage b occurs twice for turn 1_1"):
        read_rankings(path)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", r"run\.txt is empty: a run has lines `qid Q0"),
        (b"\n \n", r"run\.txt is empty"),
        (gzip.compress(RUN.encode())[:-6], r"run\.txt can't be read .*packed by gzip"),
        (gzip.compress(RUN.encode())[:12], r"run\.txt can't be read"),
        (b"\x1f\x8b no gzip", r"run\.txt can't be read"),
    ],
    ids=["empty", "blank lines", "cut at its end", "cut early", "no gzip"],
)
def test_a_run_that_is_empty_or_damaged_is_named(tmp_path, content, told):
    path = tmp_path / "run.txt"
    path.write_bytes(content)
    with pytest.raises(DataError, match=told):
        read_rankings(path)
    for missing in (tmp_path / "none", tmp_path):
        with pytest.raises(DataError, match=f"there is no run file {missing}: give a folder"):
            read_rankings(missing)


@pytest.mark.parametrize(
    ("content", "is_run"),
    [
        (b"1_1 Q0", True),
        (b"", True),
        (b"{", False),
        (b"[{", False),
        (b" \r\n\t{", False),
        (b"\xef\xbb\xbf [", False),
        (b" " * 64 + b"{", True),
        (b"a{", True),
    ],
)
def test_a_run_file_begins_with_no_brace_or_bracket(tmp_path, content, is_run):
    (tmp_path / "file").write_bytes(content)
    assert is_run_file(tmp_path / "file") is is_run


def test_a_folder_is_no_run_file_and_a_missing_file_may_be_one(tmp_path):
    assert not is_run_file(tmp_path)
    assert is_run_file(tmp_path / "none")


def test_judgements_of_one_passage_in_two_turns_are_two(tmp_path):
    path = tmp_path / "qrels.txt"
    path.write_text("1_1 0 a 1\n1_2 0 a 0\n1_1 0 b 2")
    assert read_judgements(path) == [("1_1", "a", 1), ("1_2", "a", 0), ("1_1", "b", 2)]
    path.write_text("\n\n1_1 0 a x\n")
    with pytest.raises(DataError, match="line 3: '1_1 0 a x' is not a judgement"):
        read_judgements(path)
    with pytest.raises(DataError, match="not a readable text file"):
        read_judgements(tmp_path)


def test_a_damaged_body_of_a_packed_file_is_named(tmp_path):
    path = tmp_path / "packed.gz"
    path.write_bytes(gzip.compress(b"1_1 0 a 1")[:10] + b"\xff" * 20)
    with pytest.raises(DataError, match=r"packed\.gz: not a readable text file"):
        read_judgements(path)
    with pytest.raises(DataError, match=r"packed\.gz can't be read"):
        read_rankings(path)


@pytest.mark.parametrize(
    ("label", "value"),
    [("+2", 2), ("0007", 7), ("-9999", -9999), (-1.0, -1), (0.0, 0), (True, 1), ("-0", 0)],
)
def test_rare_forms_of_a_label_are_whole_numbers(label, value):
    assert read_label(label) == value


@pytest.mark.parametrize("label", ["-10000", "+", " 1", "1 ", "\u0663", "1e2", "--1", -1.5])
def test_what_looks_like_a_label_is_none(label):
    with pytest.raises(ValueError, match=r"\A\Z"):
        read_label(label)


@pytest.mark.parametrize(
    ("text", "score"), [("1e-3", 0.001), (".5", 0.5), ("+2", 2.0), ("3.", 3.0), ("-0", 0.0)]
)
def test_a_score_has_any_form_of_a_number(tmp_path, text, score):
    (tmp_path / "run").write_text(f"1_1 Q0 a 1 {text} mine\n")
    assert read_rankings(tmp_path / "run") == {"1_1": {"a": score}}


def test_only_white_space_of_ascii_parts_the_fields_of_a_run(tmp_path):
    line = "1_1 Q0 a\u00a0b\u2028c 1 2 m\u3000n\n1_1\x0bQ0\x0cd 2 1 m"
    (tmp_path / "run").write_bytes(line.encode())
    assert read_rankings(tmp_path / "run") == {"1_1": {"a\u00a0b\u2028c": 2.0, "d": 1.0}}


@pytest.mark.parametrize("score", ["-inf", "Infinity", "-nan", "0x1", "1,5", "1__0"])
def test_rare_forms_of_no_number_are_refused(tmp_path, score):
    (tmp_path / "run").write_text(f"1_1 Q0 a 1 {score} mine\n")
    with pytest.raises(DataError, match="line 1: .* with a finite score"):
        read_rankings(tmp_path / "run")
