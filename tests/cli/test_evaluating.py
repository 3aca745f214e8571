"""`ikat evaluate`: what the options choose, and what the table and the other stream get."""

import pytest

import pyterrier_ikat as ikat
from pyterrier_ikat.conversations.datasets import find_qrels, read_turns
from pyterrier_ikat.errors import DataError, UsageError
from pyterrier_ikat.evaluation import evaluate_ptkb
from pyterrier_ikat.runs import RunFolder

KNOWN = ["1-1_1", "1-1_2", "1-1_3"]


def test_a_formatted_table_comes_alone_and_losses_go_to_stderr(call, tiny):
    done = call(
        "evaluate",
        tiny / "one.trec",
        "--qrels",
        tiny / "qrels",
        "--measures",
        "P@1,R@2",
        "--format",
        "csv",
    )
    assert done.stdout.splitlines() == ["name,P(rel=1)@1,R(rel=1)@2,turns", "one,0.0,0.5,2"]
    assert done.stderr.splitlines() == ["one lacks 1 judged turn, counted 0: 1_2."]


def test_ones_own_measure_is_evaluated_and_a_missing_one_refused(call, refused, tiny):
    own = tiny / "mine.py"
    own.write_text(
        "def first_label(qrels, run):\n"
        "    return float(dict(zip(qrels.doc_id, qrels.relevance)).get(run.doc_id.iloc[1], 0))\n"
    )
    given = (
        "evaluate",
        tiny / "one.trec",
        "--qrels",
        tiny / "qrels",
        "--format",
        "csv",
        "--measures",
    )
    assert call(*given, f"P@1,{own}:first_label").stdout.splitlines() == [
        "name,P(rel=1)@1,first_label,turns",
        "one,0.0,0.5,2",
    ]
    for name, message in (
        ("mine.py:other", "mine.py has no measure other: write a function"),
        ("none.py:x", "there is no file"),
    ):
        assert message in refused(call(*given, tiny / name))


@pytest.mark.filterwarnings("ignore:.*has no qrels.txt")
def test_a_dataset_without_judgements_evaluates_nothing(call, refused, tiny):
    (tiny / "topics.jsonl").write_text(
        '{"qid": "1_1", "messages": [{"role": "user", "content": "Tea?"}]}\n'
    )
    line = refused(call("evaluate", tiny / "one.trec", "--dataset", tiny))
    assert f"{tiny} has no judgements: give --qrels FILE instead of --dataset" in line


def test_turns_are_ids_or_lines_of_a_file_in_the_datasets_order(tmp_path):
    path = tmp_path / "turns"
    path.write_text("\ufeff1-1_3\n\n 1-1_1 \r\n", encoding="utf-8")
    for given in ("1-1_3,1-1_1", " 1-1_1 , 1-1_3,1-1_1", ["1-1_3", "1-1_1"], path, str(path)):
        assert read_turns(given, KNOWN, "it") == ["1-1_1", "1-1_3"]
    path.write_text("1-1_3\n\n1-1_1 1-1_2\n8-8_8\n")
    with pytest.raises(
        UsageError, match=r"it has no turn 1-1_1 1-1_2 \(line 3\), 8-8_8 \(line 4\)"
    ):
        read_turns(path, KNOWN, "it")
    path.write_text("\n")
    with pytest.raises(UsageError, match="names no turn"):
        read_turns(path, KNOWN, "it")
    with pytest.raises(DataError, match=r"none.txt can't be read"):
        read_turns(tmp_path / "none.txt", KNOWN, "it")


def test_qrels_are_a_frame_a_variant_or_a_file(made, monkeypatch):
    sample = ikat.dataset("ikat:sample")
    monkeypatch.chdir(made.path)
    assert set(find_qrels("two.txt", sample)["qid"]) == set(KNOWN[:2])
    assert find_qrels("two.txt", sample).equals(find_qrels(find_qrels("two.txt", sample), sample))
    (made.path / "ptkb").write_text("1-1_1 0 d 1\n")
    assert find_qrels("ptkb", sample).equals(sample.get_qrels("ptkb"))
    assert len(find_qrels("./ptkb", sample)) == 1


def test_turns_and_qrels_decide_what_scores_are_means_of(call, made, sample_index, tmp_path):
    runs = (made.runs / "raw", made.runs / "rtg")

    def scores(*options, data=("--dataset", "ikat:sample")):
        return call(
            "evaluate", *runs, *data, "--measures", "nDCG@5", "--format", "csv", *options
        ).output

    one, two = scores("--turns", made.path / "one-turn"), scores("--qrels", made.path / "two.txt")
    assert (
        one
        == scores("--turns", "1-1_2")
        == scores("--qrels", made.path / "two.txt", "--turns", "1-1_2")
    )
    assert one == scores(
        "--qrels", made.path / "two.txt", "--turns", made.path / "one-turn", data=()
    )
    assert two == scores("--turns", "1-1_1,1-1_2")
    assert len({one, two, scores()}) == 3
    given = {"index": sample_index, "qrels": made.path / "two.txt", "turns": made.path / "one-turn"}
    table = ikat.run("raw", "ikat:sample", out=tmp_path / "runs", **given).table
    measured = RunFolder(tmp_path / "runs" / "raw").measures()
    assert measured.index.tolist() == ["1-1_2"]
    assert table["nDCG@5"].tolist() == pytest.approx(measured["nDCG@5"].tolist())


def test_the_other_ways_to_evaluate_take_the_same_turns(call, made, tmp_path):
    on, turns = ("--dataset", "ikat:sample", "--format", "csv"), ("--turns", made.path / "one-turn")
    depths = call("evaluate", made.runs / "raw", "--by", "depth", *on, *turns).stdout
    assert [line.split(",")[0] for line in depths.splitlines()[1:]] == ["2"]
    depths = call("evaluate", made.runs / "raw", "--by", "depth", "--dataset", "ikat:sample")
    assert depths.output.endswith("\n\nnDCG@5: means over the turns of each depth.\n")
    for way, qrels in (("statements", "statements.txt"), ("responses", "two.txt")):
        rtg = ("evaluate", "--of", way, made.runs / "rtg", *on)
        assert (
            call(*rtg, "--qrels", made.path / qrels, *turns).output
            == call(*rtg, "--turns", "1-1_2").output
        )
    assert (
        call("report", made.runs / "raw", *on[:2], *turns, "--out", tmp_path / "r.html").exit_code
        == 0
    )
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "1-1_2" in page
    assert "1-1_3" not in page


def test_the_table_of_judges_names_each_ones_model(call, made):
    asked = (
        "evaluate",
        "--of",
        "responses",
        made.runs / "rtg",
        "--dataset",
        "ikat:sample",
        "--format",
        "csv",
        "--judge",
        "token-f1",
    )
    assert call(*asked).stdout.startswith("run,judge,mean,")
    header, by_words, by_model = call(
        *asked, "--judge", "groundedness", "--llm", "recorded:sample"
    ).stdout.split("\n")[:3]
    assert header.startswith("run,judge,model,mean,")
    assert (by_words[:13], by_model[:26]) == ("rtg,token F1,", "rtg,groundedness,recorded,")


def test_statements_have_the_scores_of_the_package(call, made):
    shown = call("evaluate", "--of", "statements", made.runs / "rtg")
    table = evaluate_ptkb({"rtg": made.runs / "rtg"}, ikat.dataset("ikat:sample").get_qrels("ptkb"))
    header, row = (line.split() for line in shown.stdout.splitlines())
    assert header == list(table.columns)
    assert row == [
        "rtg",
        *(f"{value:.4f}".removeprefix("0") for value in table.iloc[0, 1:-2]),
        *map(str, table.iloc[0, -2:]),
    ]


def test_the_unit_of_the_test_is_the_one_that_is_named(call, tiny):
    turns = ["1-1_1", "1-1_2", "1-2_1", "2-1_1"]
    for name, docnos in (("one", "aaaa"), ("two", "babb")):
        lines = [
            f"{turn} Q0 {docno} 1 2.0 {name}\n" for turn, docno in zip(turns, docnos, strict=True)
        ]
        (tiny / name).write_text("".join(lines))
    labels = "".join(f"{turn} 0 a 1\n{turn} 0 b 0\n" for turn in turns)
    (tiny / "judged").write_text(labels)
    given = ("evaluate", tiny / "one", tiny / "two", "--qrels", tiny / "judged")
    for unit, clusters in (
        ("turn", "over 4 turns,"),
        ("conversation", "over 4 turns of 3 conversations,"),
        ("topic", "over 4 turns of 2 topics,"),
    ):
        done = call(*given, "--baseline", "two", "--unit", unit)
        assert clusters in " ".join(done.stdout.split()), done.output
