"""Retrievers and re-rankers from a user's file: transformers, and functions of the index."""

import pandas as pd
import pyterrier as pt
import pytest

import pyterrier_ikat as ikat
from pyterrier_ikat.errors import UsageError
from pyterrier_ikat.study import open_systems
from pyterrier_ikat.study.resources import own_stage

STAGES = """
import pyterrier as pt
import pyterrier_ikat as ikat

SERVER = ikat.Remote("http://127.0.0.1:9", "routir", "words")


def smooth(index):
    return index.bm25(k1=2.0, b=0.5)


def shortest(index):
    return index.text_loader() >> ikat.BM25Rerank(k1=2.0)


def alone():
    return ikat.BM25Rerank(b=0.9)


def of_two(index, other):
    return index.bm25()


def nothing(index):
    return 7


DEEP = ikat.Remote("http://127.0.0.1:9", "routir", "words", num_results=5000)
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "stages.py"
    path.write_text(STAGES)
    return str(path)


@pytest.fixture
def topics():
    return pt.get_dataset("ikat:sample").get_topics()


def expression(system="raw", **resources):
    [opened] = open_systems(system, **resources)
    return opened.pipeline


def test_a_function_of_a_file_makes_the_retriever_of_the_index(file, sample_index, topics):
    built = expression(retriever=f"{file}:smooth", index=sample_index)
    expected = sample_index.bm25(k1=2.0, b=0.5)
    columns = ["qid", "docno", "score", "rank", "text"]
    pd.testing.assert_frame_equal(built(topics)[columns], expected(topics)[columns])


def test_a_function_may_be_given_itself(sample_index):
    def smooth(index):
        return index.bm25(k1=2.0, b=0.5)

    built = expression(retriever=smooth, index=sample_index)
    assert "k1=2.0, b=0.5" in repr(built)


def test_a_transformer_of_a_file_takes_no_index(file, sample_index):
    stage = own_stage(f"{file}:SERVER")
    assert isinstance(stage, ikat.Remote)
    assert repr(stage) in repr(expression(retriever=f"{file}:SERVER"))
    with pytest.raises(ikat.UsageError, match="no system uses index"):
        expression(retriever=f"{file}:SERVER", index=sample_index)


def test_rerankers_of_a_file_stand_alone_and_in_lists(file, sample_index):
    given = {"index": sample_index, "llm": "recorded:sample"}
    alone = expression("aqd", reranker=f"{file}:alone", **given)
    assert "ikat.BM25Rerank(b=0.9)" in repr(alone)
    of_index = expression("aqd", reranker=f"{file}:shortest", **given)
    assert "ikat.BM25Rerank(k1=2.0)" in repr(of_index)
    several = expression("short_long_2", reranker=f"{file}:alone, {file}:shortest", **given)
    assert "ikat.BM25Rerank(b=0.9)" in repr(several)
    assert "ikat.BM25Rerank(k1=2.0)" in repr(several)


def test_a_list_may_hold_the_only_reader_of_the_index(file, sample_index):
    given = {"index": sample_index, "llm": "recorded:sample", "retriever": f"{file}:DEEP"}
    several = expression("short_long_2", reranker=f"{file}:alone,{file}:shortest", **given)
    assert "ikat.BM25Rerank(k1=2.0)" in repr(several)


def test_an_index_of_another_package_is_no_retriever(tmp_path):
    theirs = type("TheirIndex", (pt.Artifact,), {})(tmp_path)
    with pytest.raises(ikat.UsageError, match="is an index: give it as index="):
        expression(retriever=theirs)


@pytest.mark.parametrize("name", ["big-machine:8000", "HTTP://big-machine", "stages.py;smooth"])
def test_what_names_no_retriever_is_told_the_ways_to_name_one(name):
    with pytest.raises(ikat.UsageError, match=r"bm25.*FILE\.py:NAME.*http://"):
        expression(retriever=name)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("smoth", "did you mean smooth"),
        ("", "it has SERVER, smooth"),
        ("of_two", "index alone"),
        ("nothing", "returns int"),
        ("pt", "names no transformer"),
    ],
)
def test_what_is_no_stage_is_refused(file, sample_index, name, words):
    with pytest.raises(ikat.UsageError, match=words):
        expression(retriever=f"{file}:{name}", index=sample_index)


def test_a_missing_file_or_index_is_refused(file, tmp_path):
    with pytest.raises(ikat.UsageError, match="there is no file"):
        expression(retriever=f"{tmp_path}/none.py:smooth")
    with pytest.raises(ikat.UsageError, match="takes an index"):
        expression(retriever=f"{file}:smooth")


def test_the_command_line_takes_a_stage_of_a_file(file, sample_index, tmp_path):
    from click.testing import CliRunner

    from pyterrier_ikat.cli import main

    arguments = ["run", "raw", "--dataset", "ikat:sample", "--index", sample_index.path]
    resources = ["--resources", f"retriever={file}:smooth", "--out", str(tmp_path / "runs")]
    outcome = CliRunner().invoke(main, [*arguments, *resources], catch_exceptions=False)
    assert outcome.exit_code == 0, outcome.output
    assert (tmp_path / "runs" / "raw" / "run.json").is_file()


def test_what_is_no_file_is_no_stage_of_ones_own():
    for value in ("bm25", "model.py.bin", 7, None, ["x.py:y"]):
        assert own_stage(value) is value


FUNCTIONS = """
import pyterrier as pt
from os.path import join

stage = pt.apply.generic(lambda rows: rows)
number = 7

def make():
    return stage

def of_index(index):
    return index.retriever(3)

def of_two(index, other):
    return stage

def with_default(index=None, *args, **more):
    return stage

def nothing():
    return 7
"""


@pytest.fixture
def functions(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(FUNCTIONS)
    return path


@pytest.mark.parametrize("name", ["make", "of_index", "with_default"])
def test_a_function_of_a_file_is_a_stage(functions, name):
    assert own_stage(f"{functions}:{name}").__name__ == name


@pytest.mark.parametrize(
    ("name", "told"),
    [
        (":number", "names no transformer or function"),
        (":join", "names no transformer or function"),  # imported, not its own
        (":mak", "did you mean make"),
        ("", "it has stage, make, of_index, of_two, with_default, nothing"),
    ],
)
def test_what_a_file_lacks_is_named(functions, name, told):
    with pytest.raises(UsageError, match=told):
        own_stage(f"{functions}{name}")


@pytest.fixture(scope="module")
def words(tmp_path_factory):
    path = tmp_path_factory.mktemp("index") / "words"
    corpus = [{"docno": f"d{number}", "text": "tea " * number} for number in range(1, 6)]
    return str(ikat.PassageIndex(path).index(corpus).path)


def opened(system="raw", **given):
    [one] = open_systems(system, **given)
    return one


def test_functions_of_a_file_make_retrievers(functions, words):
    turn = pd.DataFrame({"qid": ["1_1"], "query": ["tea"], "qutterance": ["tea"]})
    found = opened("raw:depth=3", retriever=f"{functions}:of_index", index=words).pipeline(turn)
    assert len(found) == 3
    for name in ("make", "with_default", "stage"):
        system = opened(retriever=f"{functions}:{name}")
        assert system.resources.index is None
    for name, given, told in (
        ("of_index", {}, r"of_index of retriever=... takes an index: give index=..., too"),
        ("of_two", {"index": words}, "takes index, other: .* a function of the index alone"),
        ("nothing", {}, "returns int: end it with return"),
        ("make", {"index": words}, "no system uses index=..."),
    ):
        with pytest.raises(UsageError, match=told):
            opened(retriever=f"{functions}:{name}", **given)


def test_a_function_may_make_one_of_several_rerankers(functions, words):
    rerank = pt.apply.generic(lambda rows: rows)
    with pytest.raises(UsageError, match="method ad takes one re-ranker, not 2"):
        opened("ad", index=words, llm="recorded:sample", reranker=[rerank, lambda index: rerank])
    asked = []

    def of_index(index):
        asked.append(index.path)
        return rerank

    opened("ad", index=words, llm="recorded:sample", reranker=of_index)
    assert asked == [words]


def test_an_own_stage_is_a_transformer_or_function_of_its_file(tmp_path):
    path = tmp_path / "my.py"
    path.write_text("import pyterrier as pt\nstage = pt.RankCutoff(3)\nclass Odd: pass\n")
    assert own_stage(f"{path}:stage").k == 3
    with pytest.raises(UsageError, match="it has stage$|did you mean"):
        own_stage(f"{path}:Odd")
    (tmp_path / "none.py").write_text("x = 1\n")
    with pytest.raises(UsageError, match="it has no transformer and no function"):
        own_stage(f"{tmp_path / 'none.py'}:x")
    transformer = pt.RankCutoff(1)
    assert own_stage(transformer) is transformer


def test_a_function_that_a_file_imports_is_not_its_own(tmp_path):
    path = tmp_path / "my.py"
    path.write_text("from os.path import join\n")
    with pytest.raises(UsageError, match="it has no transformer and no function"):
        own_stage(f"{path}:join")
