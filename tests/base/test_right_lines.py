"""What users bring works where it means something.

One line says what to do where it doesn't.
"""

import os

import pandas as pd
import pytest
from fakes import scripted

import pyterrier_ikat as ikat

TURNS = pd.DataFrame({"qid": ["1_1"], "query": ["tea?"]})

QRELS = pd.DataFrame({"qid": ["1_1"], "docno": ["d1"], "label": [1]})


@pytest.fixture
def index(tmp_path):
    return ikat.PassageIndex(tmp_path / "index").index(
        [{"docno": "d1", "text": "Tea."}, {"docno": "d2", "text": "Soil."}]
    )


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
