"""Run files: what is written is read, ties and faults included."""

import codecs
import gzip

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from runs.small_folders import ranked

from pyterrier_ikat.errors import DataError
from pyterrier_ikat.runs import read_run, strictly_decreasing, write_run

LOWEST = float(np.finfo(np.float32).min)


def ranking_of(scores):
    """The ranking of a turn with these scores."""
    return ranked(*[("1_1", f"d{rank}", score, rank) for rank, score in enumerate(scores)])


def scores_in(path):
    """The scores of a run file, as they are written."""
    return [line.split()[4] for line in path.read_text().splitlines()]


def test_ties_are_lowered_by_the_least_step_and_order_kept(tmp_path):
    tied = ranked(
        ("1_2", "z", 0.5, 0),
        ("1_1", "b", 1.0, 1),
        ("1_1", "a", 1.0, 0),
        ("1_1", "c", 1.0, 2),
        ("1_1", "d", 0.25, 3),
    )
    strict = strictly_decreasing(tied)
    assert strict["docno"].tolist() == ["z", "a", "b", "c", "d"]
    assert strict["rank"].tolist() == [0, 0, 1, 2, 3]
    step = np.nextafter(np.float32(1), np.float32(0))
    assert strict["score"].tolist() == [
        0.5,
        1.0,
        float(step),
        float(np.nextafter(step, np.float32(0))),
        0.25,
    ]
    assert tied["score"].tolist() == [0.5, 1.0, 1.0, 1.0, 0.25]


@given(st.lists(st.floats(-1e30, 1e30, width=64), min_size=1, max_size=40))
def test_any_finite_scores_keep_their_order_for_32_bit_readers(tmp_path_factory, scores):
    scores = sorted(scores, reverse=True)
    frame = ranking_of(scores)
    path = tmp_path_factory.mktemp("run") / "x.trec"
    write_run(frame, path)
    read = np.array(scores_in(path), dtype=np.float32)
    assert (read[:-1] > read[1:]).all()
    assert read_run(path)["docno"].tolist() == frame["docno"].tolist()


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (ranked(("1_1", "a", float("nan"), 0)), "gave the score nan to passage a of turn 1_1"),
        (ranked(("1_1", "a", float("inf"), 0)), "gave the score inf to passage a"),
        (ranked(("1_1", "a", 1e300, 0)), "finite"),
        (
            ranked(("1_1", "a", 2.0, 0), ("1_1", "a", 1.0, 1)),
            "turn 1_1 has passage a twice: join the sub-queries",
        ),
        (
            ranked(("1_1", "a b", 1.0, 0)),
            "'a b' can't be a docno of a run file: give a text without white space",
        ),
        (ranked(("1 1", "a", 1.0, 0)), "'1 1' can't be a qid"),
        (ranked(("1_1", "", 1.0, 0)), "'' can't be a docno"),
        (ranked(("1_1", None, 1.0, 0)), "None can't be a docno"),
        (ranked(("1_1", "a", 2.0, 0), ("1_1", "b c", 1.0, 1)), "'b c' can't be a docno"),
        (ranked(("1_1", "a\tb", 1.0, 0)), r"'a\\tb' can't be a docno"),
        (ranked(("1_1", "a", 1.0, 0), ("1\u00a01", "a", 1.0, 0)), "can't be a qid"),
        (
            ranked(("1_1", "a", LOWEST, 0), ("1_1", "b", LOWEST, 1)),
            "turn 1_1: several passages have the lowest 32-bit score",
        ),
        (
            ranked(("1_1", "a", 1.0, 0), ("1_1", "b", 2.0, 1)),
            "turn 1_1, passage b: the score rises with the rank",
        ),
    ],
)
def test_a_bad_ranking_is_refused_and_nothing_written(tmp_path, frame, message):
    with pytest.raises(DataError, match=message):
        write_run(frame, tmp_path / "x.trec")
    assert list(tmp_path.iterdir()) == []


def test_scores_are_written_without_exponent_and_read_with_one(tmp_path):
    write_run(
        ranked(("1_1", "a", 1e20, 0), ("1_1", "b", 0.25, 1), ("1_1", "c", 1e-7, 2)),
        tmp_path / "x.trec",
    )
    assert scores_in(tmp_path / "x.trec") == ["100000000000000000000", "0.25", "0.0000001"]
    (tmp_path / "y.trec").write_text("1_1 Q0 a 1 1e20 x\n1_1 Q0 b 2 2.5E-1 x\n1_1 Q0 c 3 1e-07 x\n")
    assert read_run(tmp_path / "y.trec")["score"].tolist() == [1e20, 0.25, 1e-7]


def test_a_whole_score_is_written_without_its_decimal(tmp_path):
    write_run(ranked(("1_1", "a", 2.0, 0), ("1_1", "b", 0.5, 1)), tmp_path / "x.trec")
    assert (tmp_path / "x.trec").read_text() == "1_1 Q0 a 1 2 ikat\n1_1 Q0 b 2 0.5 ikat\n"
    write_run(ranking_of([100.0, 10.0, 0.0, -20.0]), tmp_path / "x.trec")
    assert scores_in(tmp_path / "x.trec") == ["100", "10", "0", "-20"]


def test_a_score_has_as_few_digits_as_a_32_bit_float_needs(tmp_path):
    write_run(ranked(("1_1", "a", 0.3, 0), ("1_1", "b", 0.1, 1)), tmp_path / "x.trec")
    written = [line.split()[4] for line in (tmp_path / "x.trec").read_text().splitlines()]
    assert written == ["0.3", "0.1"]


def test_a_run_name_with_white_space_stays_one_column(tmp_path):
    for name in ("short and long", " a\tb "):
        write_run(ranked(("1_1", "a", 1.0, 0)), tmp_path / "x.trec", name)
        assert (tmp_path / "x.trec").read_text().split()[5:] == ["_".join(name.split())]
        assert len(read_run(tmp_path / "x.trec")) == 1
    with pytest.raises(DataError, match="'' can't be a name"):
        write_run(ranked(("1_1", "a", 1.0, 0)), tmp_path / "x.trec", " ")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        (
            "1_1 Q0 a 1 2.0 x\n1_1 Q0 b 2 1.0\n",
            "line 2: '1_1 Q0 b 2 1.0' is not `qid Q0 docno rank score name` with a finite score",
        ),
        ("1_1 Q0 a 1 high x\n", "line 1: '1_1 Q0 a 1 high x' is not"),
        ("1_1 Q0 a 1 nan x\n", "line 1: .* is not .* with a finite score"),
        ("1_1 Q0 a 1 \uff11.\uff15 x\n", "line 1: .* is not .* with a finite score"),
        ("1_1 Q0 a 1 \u0661 x\n", "line 1: .* is not .* with a finite score"),
        ("1_1 Q0 a 1 2 x\n1_1 Q0 a 2 1 x\n", "line 2: passage a occurs twice for turn 1_1"),
    ],
)
def test_errors_of_run_files_name_the_line(tmp_path, text, message):
    (tmp_path / "x.trec").write_text(text)
    with pytest.raises(DataError, match=message):
        read_run(tmp_path / "x.trec")


def test_ties_of_a_foreign_run_are_in_trec_evals_order(tmp_path):
    lines = [
        "1_1 Q0 a 1 0.1 x",
        "1_1 Q0 c 9 2 x",
        "1_2 Q0 a 1 -3 x",
        "1_1 Q0 b 0 0.1000000001 x",
        "1_1 Q0 \u00e9 zero .1 x",
    ]
    for ordered in (lines, lines[::-1]):
        (tmp_path / "x.trec").write_text("\n".join(ordered), encoding="utf-8")
        found = read_run(tmp_path / "x.trec")
        assert found[found["qid"] == "1_1"][["docno", "rank"]].values.tolist() == [
            ["c", 0],
            ["\u00e9", 1],
            ["b", 2],
            ["a", 3],
        ]
        assert found["score"].tolist().count(0.1000000001) == 1
    strict = strictly_decreasing(found)
    assert strict["docno"].tolist() == found["docno"].tolist()
    assert strict.groupby("qid")["score"].is_monotonic_decreasing.all()


PIECES = [
    b"1_1 Q0 a 1 2.5 x\n",
    b"1_1\tQ0\tb\t1\t2.5\tx\r\n",
    b" 7 Q0  caf\xc3\xa9 1 1e3 x \n",
    b"1_2 Q0 \xc2\xa0 1 -0 x\n",
    b'1_2 Q0 "q 1 1 "\n',
    b"\n",
    b" \t\n",
    b"\xef\xbb\xbf",
    b"1_3 Q0 NA 1 -.5E-3 nan\n",
    b"1_3 Q0 a 1 1_0 x\n",
    b"1_3 Q0 a 1 nan x\n",
    b"1_3 Q0 b\n",
    b"# x\n",
    b"1_3 Q0 c\x00d 1 2 x\n",
    b"1_3 Q0 \xff 1 2 x\n",
    b"1_4 Q0 a 1 2 x\x0b\n",
    b"1_4 Q0 b 1 2 x y\n1_4 Q0 d 1 2\n",
    b"1_5 Q0 a 1 +2 x\r",
    b"1_5 Q0 b 1 0x1p3 x\n",
    b"1_6 Q0 a\x1cb 1 2 x\n",
    b"True Q0 1.0 1 1,5 x\n",
    b"001 Q0 1.0 1 007 x\n",
    b"1 Q0 1 1 1e400 x\n",
    b"1_7 Q0 a 1 2 x",
]


def plainly(content):
    """The rows of a run file, read by plain Python, or the number of its first faulty line."""
    rows = []
    seen = set()
    for number, line in enumerate(content.split(b"\n"), 1):
        # files that were joined have a byte order mark in the middle
        fields = line.removeprefix(codecs.BOM_UTF8).split()
        if not fields:
            continue
        try:
            qid, _, docno, _, score, _ = (field.decode() for field in fields)
            value = float(score)
        except ValueError:
            return number
        if "_" in score or not np.isfinite(value) or (qid, docno) in seen:
            return number
        seen.add((qid, docno))
        rows.append((qid, docno, value))
    return rows


@given(st.lists(st.sampled_from(PIECES), max_size=6).map(b"".join), st.booleans())
def test_any_file_reads_as_line_by_line_or_names_the_bad_line(tmp_path_factory, content, packed):
    path = tmp_path_factory.mktemp("run") / "x.trec"
    path.write_bytes(gzip.compress(content) if packed else content)
    expected = plainly(content)
    if expected == []:
        with pytest.raises(DataError, match="x.trec is empty"):
            read_run(path)
    elif isinstance(expected, int):
        with pytest.raises(DataError, match=f"x.trec, line {expected}: "):
            read_run(path)
    else:
        found = read_run(path)[["qid", "docno", "score"]]
        assert sorted(found.itertuples(index=False, name=None)) == sorted(expected)


def test_a_damaged_gzip_file_or_none_is_refused(tmp_path):
    with pytest.raises(DataError, match="there is no run file"):
        read_run(tmp_path / "none.trec")
    lines = [f"1_1 Q0 d{rank} {rank} {-rank} x\n" for rank in range(50)]
    whole = gzip.compress("".join(lines).encode())
    for cut in (whole[:3], whole[:-9], whole[:20] + b"xx" + whole[22:]):
        (tmp_path / "x.trec.gz").write_bytes(cut)
        with pytest.raises(DataError, match="x.trec.gz can't be read"):
            read_run(tmp_path / "x.trec.gz")
