"""What users bring works where it means something.

One line says what to do where it doesn't.
"""

import gzip
import logging
import os
import subprocess
import sys

import pandas as pd
import pytest
from click.testing import CliRunner
from fakes import scripted

import pyterrier_ikat as ikat
from pyterrier_ikat.cli import main
from pyterrier_ikat.conversations.qrels import read_qrels

TURNS = pd.DataFrame({"qid": ["1_1"], "query": ["tea?"]})
QRELS = pd.DataFrame({"qid": ["1_1"], "docno": ["d1"], "label": [1]})


@pytest.fixture
def index(tmp_path):
    return ikat.PassageIndex(tmp_path / "index").index(
        [{"docno": "d1", "text": "Tea."}, {"docno": "d2", "text": "Soil."}]
    )


@pytest.mark.parametrize(
    ("room", "name", "says"),
    [
        (
            ikat,
            "StatementQueries",
            "pyterrier_ikat has no StatementQueries: it is in ikat.generate",
        ),
        (ikat, "write_run", "it is in ikat.runs"),
        (ikat, "evaluate_responses", "it is in ikat.evaluation"),
        (ikat, "SelectStatement", "did you mean SelectStatements?"),
        (ikat.show, "tabl", "pyterrier_ikat.show has no tabl: did you mean table?"),
        (ikat.evaluation, "evaluat", "did you mean evaluate?"),
        (ikat.evaluation, "Rewrite", "it is in ikat"),
        (ikat.generate, "Rewrit", "did you mean Rewrite?"),
        (ikat.runs, "read_rnu", "did you mean read_run?"),
        (ikat.study, "Resurces", "did you mean Resources?"),
        (ikat.submit, "write_submision", "did you mean write_submission?"),
        (ikat.live, "serv", "did you mean serve?"),
        (ikat.methods, "METHOD", "did you mean METHODS?"),
        (ikat.show, "qqqqq", "dir(pyterrier_ikat.show) lists what it has"),
    ],
)
def test_a_wrong_name_says_which_is_meant_or_where_it_is(room, name, says):
    with pytest.raises(AttributeError) as caught:
        getattr(room, name)
    assert str(caught.value).endswith(says)
    assert not hasattr(room, "__wrapped__")


@pytest.mark.parametrize(
    "given", [{"k1": "x"}, {"b": None}, {"k1": "0.9"}, {"k1": [0.9]}, {"k1": float("inf")}]
)
def test_a_parameter_of_bm25_that_is_no_number_is_a_usage_error(index, given):
    with pytest.raises(ikat.UsageError, match="BM25 needs k1 >= 0 and 0 <= b <= 1"):
        index.bm25(**given)


@pytest.mark.parametrize("number", [2.5, float("nan"), "5", [5], True])
def test_a_number_of_passages_is_whole(index, number):
    with pytest.raises(ikat.UsageError, match="give a whole number, 1 or more"):
        index.bm25(num_results=number)


def test_a_retriever_behind_a_retriever_names_the_re_ranker(index):
    with pytest.raises(
        ikat.DataError, match=r"takes turns, and the frame has passages .*take ikat.BM25Rerank\(\)"
    ):
        (index.bm25() >> index.bm25())(TURNS)
    assert (index.bm25() >> ikat.BM25Rerank())(TURNS)["docno"].tolist() == ["d1"]


@pytest.mark.parametrize("kind", ["openai", "hf", "recorded", "openai:"])
def test_a_kind_of_llm_without_a_model_is_not_taken_for_a_typo(kind):
    with pytest.raises(
        ikat.UsageError, match=rf"it names no model of {kind.strip(':')}; it is named openai:MODEL"
    ) as caught:
        ikat.llm(kind)
    assert "did you mean" not in str(caught.value)
    with pytest.raises(ikat.UsageError, match="did you mean openai"):
        ikat.llm("opnai:gpt-4o")


def test_packed_qrels_are_read_like_plain_ones(tmp_path):
    text = "1_1 0 d1 2\n1_1 0 d2 0\n"
    (tmp_path / "q.txt").write_text(text)
    (tmp_path / "q.gz").write_bytes(gzip.compress(text.encode()))
    pd.testing.assert_frame_equal(read_qrels(tmp_path / "q.gz"), read_qrels(tmp_path / "q.txt"))
    (tmp_path / "run.trec").write_text("1_1 Q0 d1 1 2.5 one\n")
    command = [
        "evaluate",
        str(tmp_path / "run.trec"),
        "--measures",
        "nDCG@3",
        "--format",
        "csv",
        "--qrels",
    ]
    plain, packed = (
        CliRunner().invoke(main, [*command, str(tmp_path / name)]) for name in ("q.txt", "q.gz")
    )
    assert plain.exit_code == 0, plain.output
    assert packed.output == plain.output
    (tmp_path / "q.gz").write_bytes(gzip.compress(text.encode() * 99)[:-9])
    with pytest.raises(ikat.DataError, match="not a readable text file"):
        read_qrels(tmp_path / "q.gz")


@pytest.mark.parametrize("inside", ["", "deeper/index"])
def test_an_index_at_a_files_path_is_refused_and_the_file_stays(tmp_path, inside):
    (tmp_path / "file").write_text("mine")
    path = tmp_path / "file" / inside
    result = CliRunner().invoke(main, ["index", "ikat:sample", str(path)])
    assert result.exit_code == 2
    assert f"{tmp_path / 'file'} is a file, and an index is a folder" in result.output
    assert (tmp_path / "file").read_text() == "mine"


def test_the_package_is_the_command():
    done = subprocess.run(
        [sys.executable, "-m", "pyterrier_ikat", "--version"], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout.split()[-1]) == (0, ikat.__version__)


def test_a_recording_needs_no_home_and_others_say_what_to_set(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.delenv("IKAT_HOME", raising=False)
    monkeypatch.setattr("pyterrier.io.pyterrier_home", lambda: os.mkdir(tmp_path / "file" / "home"))
    turns = ikat.dataset("ikat:sample").get_topics()
    assert len(ikat.Rewrite("recorded:sample")(turns)) == len(turns)
    assert ikat.llm("openai:m cache=none").cache is None
    with pytest.raises(
        ikat.DataError,
        match="no home folder for caches and downloads .*: set IKAT_HOME to a folder",
    ):
        ikat.llm("openai:m")


def test_a_fallback_names_the_first_turns_and_how_many_follow(caplog):
    turns = pd.DataFrame({"qid": [f"t_{number}" for number in range(332)], "query": "tea?"})
    llm, _ = scripted(*["[]"] * 332)
    with caplog.at_level(logging.WARNING, "pyterrier_ikat"):
        ikat.Queries(llm, on_error="fallback")(turns)
    assert "t_0, t_1, t_2, t_3, t_4 and 327 more" in caplog.text
    assert "t_300" not in caplog.text


def twice(frame, name):
    return pd.concat([frame, frame[[name]]], axis=1)


@pytest.mark.parametrize("name", ["qid", "query"])
@pytest.mark.parametrize(
    "call",
    [
        lambda turns, index: index.bm25()(turns),
        lambda turns, index: ikat.Rewrite("recorded:sample")(turns),
        lambda turns, index: ikat.experiment(
            {"a": index.bm25()},
            topics=turns,
            qrels=pd.DataFrame({"qid": ["1_1"], "docno": "d1", "label": 1}),
        ),
        lambda turns, index: ikat.plan({"a": index.bm25()}, topics=turns),
    ],
)
def test_a_column_that_occurs_twice_is_refused_by_name(call, name, index):
    with pytest.raises(ikat.DataError, match=f"has several columns '{name}': keep one"):
        call(twice(TURNS, name), index)


@pytest.mark.filterwarnings("ignore::pyterrier_ikat.conversations.topics.CollectionWarning")
def test_an_own_collection_is_reported_but_not_submitted(tmp_path):
    (tmp_path / "topics.jsonl").write_text(
        '{"qid": "a_1", "messages": [{"role": "user", "content": "Tea?"}]}'
    )
    (tmp_path / "file").write_text("{}")
    result = CliRunner().invoke(
        main, ["submit", "--check", str(tmp_path / "file"), "--dataset", str(tmp_path)]
    )
    assert result.exit_code == 2
    assert "is of no year of the track" in result.output
    assert "--run-type autojudge, which writes reports on any dataset" in result.output


@pytest.fixture
def run(index, tmp_path):
    def again():
        stage = ikat.Rewrite(scripted("Tea?")[0])
        return ikat.run(
            {"a": stage >> index.bm25()},
            topics=TURNS,
            qrels=QRELS,
            measures=["nDCG@3"],
            out=tmp_path / "runs",
        )

    again()
    return again, ikat.runs.RunFolder(tmp_path / "runs" / "a")


@pytest.mark.filterwarnings("ignore::pyterrier_ikat.study.in_folders.AlikeWarning")
@pytest.mark.parametrize("content", [None, "", "qid,nDCG@3\n"])
def test_removed_or_cut_scores_are_told_and_written_again(run, content):
    again, folder = run
    path, before = folder.path / "measures.csv", folder.measures()
    path.unlink() if content is None else path.write_text(content)
    with pytest.raises(
        ikat.DataError, match=r"measures.csv can't be read .*the same `ikat run` writes it again"
    ):
        folder.measures()
    again()
    assert folder.measures().equals(before)


@pytest.mark.parametrize("lines", [0, 1])
def test_a_ledger_that_was_cut_is_not_taken_for_a_free_run(run, lines):
    _, folder = run
    path = folder.path / "ledger.csv"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:lines]))
    with pytest.raises(
        ikat.DataError, match=r"ledger.csv can't be read .*what the run has cost is unknown"
    ):
        ikat.show.ledger([folder.path])
