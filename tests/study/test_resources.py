"""Whether the index is of the collection that was judged.

Noticed before anything is paid, by passages and never by names.
"""

import pandas as pd
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import pyterrier_ikat as ikat
from pyterrier_ikat.cli import main
from pyterrier_ikat.conversations.ikat_dataset import SampleDataset
from pyterrier_ikat.conversations.released import COLLECTION_SIZE
from pyterrier_ikat.llms import LLM
from pyterrier_ikat.search_index import SearchIndex
from pyterrier_ikat.study.systems import OtherCollectionWarning, check_collection

SAMPLE = ikat.dataset("sample")


class Holding(SearchIndex):
    """An index with these docnos, as many as it says."""

    path = "some.index"

    def __init__(self, docnos, size=None):
        self.held = set(docnos)
        self.says = len(self.held) if size is None else size

    def fingerprint(self):
        return "1"

    def retriever(self, num_results=1000, cache=None, *, k1=0.9, b=0.4):
        raise NotImplementedError

    def docnos(self, among):
        return iter([docno for docno in among if docno in self.held])

    def __len__(self):
        return self.says


def index_of(path, docnos):
    """An index of the sample's passages, these of them."""
    passages = [
        passage for passage in SAMPLE.get_corpus_iter(verbose=False) if passage["docno"] in docnos
    ]
    others = (
        {"docno": docno, "text": "tea"}
        for docno in sorted(set(docnos) - {passage["docno"] for passage in passages})
    )
    return str(ikat.PassageIndex(path).index([*passages, *others]).path)


def judged(*docnos, label=1):
    return pd.DataFrame(
        {"qid": [f"1_{n}" for n in range(len(docnos))], "docno": list(docnos), "label": label}
    )


def call(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@given(
    st.sets(st.sampled_from("abcdefgh")),
    st.sets(st.sampled_from("abcdefgh")),
    st.sets(st.sampled_from("abcdefgh"), min_size=1),
)
def test_no_judged_passage_refuses_same_are_silent_others_warn(docnos, relevant, collection):
    class Data:
        topics_file = None

        def collection(self):
            return len(collection), frozenset(collection)

    given_qrels = judged(*sorted(relevant))
    if relevant and not relevant & docnos:
        with pytest.raises(
            ikat.UsageError, match=f"has none of the {len(relevant)} passages? judged in mine"
        ):
            check_collection(Holding(docnos), Data(), "mine", given_qrels)
    elif docnos == collection:
        check_collection(
            Holding(docnos), Data(), "mine", given_qrels
        )  # pytest makes any warning an error
    else:
        with pytest.warns(
            OtherCollectionWarning,
            match=f"{len(relevant & docnos)} of {len(relevant):,} judged passages? found in it",
        ):
            check_collection(Holding(docnos), Data(), "mine", given_qrels)


@pytest.mark.parametrize("year", [2023, 2024, 2025])
def test_all_years_share_one_collection_however_it_was_indexed(year):
    full = Holding({"clueweb22-en0000-00-00000:1"}, COLLECTION_SIZE)
    check_collection(
        full,
        ikat.dataset(f"ikat:{year}"),
        f"ikat:{year}",
        judged("clueweb22-en0000-00-00000:1", "clueweb22-en9999:0"),
    )
    check_collection(full, ikat.dataset(f"ikat:{year}"), f"ikat:{year}", judged())
    with pytest.warns(
        OtherCollectionWarning,
        match=r"is of another collection than that of ikat:20.. \(1 passage, not the same "
        r"116,838,987",
    ):
        check_collection(
            Holding(full.held), ikat.dataset(f"ikat:{year}"), f"ikat:{year}", judged(*full.held)
        )


def test_labels_of_zero_tell_the_collection_too():
    check_collection(
        Holding(SAMPLE.collection()[1]), SAMPLE, "ikat:sample", judged("sample-walk-001:0", label=0)
    )
    with pytest.raises(ikat.UsageError, match="none of the 1 passage judged"):
        check_collection(
            Holding({"other"}), SAMPLE, "ikat:sample", judged("sample-walk-001:0", label=0)
        )


class UnknownCollection:
    topics_file = None

    def collection(self):
        return None, None


def test_dataset_of_unknown_collection_says_it_cannot_tell():
    with pytest.warns(
        OtherCollectionWarning,
        match=r"may be of another collection than that of mine \(1 passage\): 1 of 2",
    ):
        check_collection(Holding({"a"}), UnknownCollection(), "mine", judged("a", "b"))


def test_the_mini_collection_is_not_that_of_2023(ikat_data):
    mini = ikat.dataset("2023-mini")
    size, docnos = mini.collection()
    assert (size, docnos) == (
        700,
        {passage["docno"] for passage in mini.get_corpus_iter(verbose=False)},
    )
    check_collection(Holding(docnos), mini, mini.name, mini.get_qrels())
    nist = ikat.dataset("2023").get_qrels()
    with pytest.warns(
        OtherCollectionWarning,
        match=rf"700 passages, not .*: {len(set(nist['docno']) & docnos)} of 27,238 judged "
        rf"passages",
    ):
        check_collection(Holding(docnos), ikat.dataset("2023"), "ikat:2023", nist)
    with pytest.raises(ikat.UsageError, match="the index some.index has none of the "):
        check_collection(Holding(docnos), SAMPLE, "ikat:sample", SAMPLE.get_qrels())


@pytest.fixture(scope="module")
def foreign(tmp_path_factory):
    return index_of(tmp_path_factory.mktemp("foreign") / "i", {"p1", "p2"})


@pytest.mark.parametrize("more", [(), ("--plan",), ("--turns", "1-1_1")])
def test_index_of_another_collection_is_refused_before_any_call(
    more, foreign, tmp_path, monkeypatch
):
    monkeypatch.setattr(LLM, "ask", lambda *_: pytest.fail("asked"))
    told = ("--index", foreign, "--llm", "recorded:sample", "--out", tmp_path / "runs")
    refused = call("run", "raw", "ad", "--dataset", "sample", *told, *more)
    assert refused.exit_code == 2
    [line] = refused.stderr.splitlines()
    assert "has none of the" in line
    assert "as `ikat index ikat:sample PATH` makes, or the dataset that" in line
    assert not (tmp_path / "runs").exists()


@pytest.mark.linux
def test_an_index_of_pyterrier_is_compared_by_its_own_docnos(tmp_path):
    from pyterrier_pisa import PisaIndex

    docnos = sorted(SAMPLE.collection()[1])
    rows = (
        {"docno": docno, "toks": {"tea": 1.0 + number % 3}} for number, docno in enumerate(docnos)
    )
    PisaIndex(str(tmp_path / "p"), stemmer="none").toks_indexer().index(rows)
    index = ikat.SpladeIndex(tmp_path / "p", "some/model")
    assert list(index.docnos(["none", docnos[7], docnos[0]])) == [docnos[0], docnos[7]]
    check_collection(index, SAMPLE, SAMPLE.name, SAMPLE.get_qrels())
    with pytest.raises(ikat.UsageError, match="has none of the 1 passage"):
        check_collection(index, SAMPLE, SAMPLE.name, judged("none"))


def test_others_judgements_tell_the_collection_of_unjudged_turns(foreign, tmp_path, monkeypatch):
    whole = SampleDataset.get_qrels
    monkeypatch.setattr(
        SampleDataset,
        "get_qrels",
        lambda self, variant=None: whole(self, variant).query("qid != '1-1_1'"),
    )
    with pytest.raises(ikat.UsageError, match="has none of the"):
        ikat.run("raw", SAMPLE, index=foreign, out=str(tmp_path), turns="1-1_1")
