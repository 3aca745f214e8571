"""Whether the index is of the collection that was judged.

Noticed before anything is paid, by passages and never by names.
"""

import warnings

import pandas as pd
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from recorded_lines import Finds

import pyterrier_ikat as ikat
from pyterrier_ikat.cli import main
from pyterrier_ikat.conversations.ikat_dataset import SampleDataset
from pyterrier_ikat.conversations.released import COLLECTION_SIZE
from pyterrier_ikat.errors import UsageError
from pyterrier_ikat.llms import LLM
from pyterrier_ikat.operator import Operator
from pyterrier_ikat.search_index import SearchIndex
from pyterrier_ikat.study import Study
from pyterrier_ikat.study.systems import (
    OtherCollectionWarning,
    System,
    check_collection,
    indexes_of,
    load_models,
    searches_judged,
)

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
    passages = []
    others = set(docnos)
    for passage in SAMPLE.get_corpus_iter(verbose=False):
        if passage["docno"] in docnos:
            passages.append(passage)
            others.remove(passage["docno"])
    for docno in sorted(others):
        passages.append({"docno": docno, "text": "tea"})
    return str(ikat.PassageIndex(path).index(passages).path)


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
    rows = []
    for number, docno in enumerate(docnos):
        rows.append({"docno": docno, "toks": {"tea": 1.0 + number % 3}})
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


TOPICS = pd.DataFrame({"qid": ["1_1", "1_2"], "query": ["tea", "milk"]})
QRELS = pd.DataFrame({"qid": ["1_1", "1_2"], "docno": ["a", "b"], "label": [1, 1]})


class Index(ikat.retrieve.SearchIndex):
    """Two passages, searched by nobody."""

    path = "here"

    def __init__(self, docnos=("a", "b"), text=None):
        self.has, self.text, self.warm = docnos, text, 0

    def fingerprint(self):
        return " ".join(self.has)

    def docnos(self, among):
        return [docno for docno in among if docno in self.has]

    def __len__(self):
        return len(self.has)

    def retriever(self, num_results=1000, cache=None, *, k1=0.9, b=0.4):
        return Searches(self)

    def warm_up(self):
        self.warm += 1


class Searches(Operator):
    def __init__(self, index):
        super().__init__()
        self.index = index

    def transform(self, inp):
        return inp.assign(docno="a", score=1.0, rank=0)


class Collection:
    """A dataset with a collection of this size and these docnos."""

    year, topics_file, name = None, None, "mine"

    def __init__(self, size=None, docnos=None, year=None, topics_file=None):
        self.size, self.docnos, self.year, self.topics_file = size, docnos, year, topics_file

    def collection(self):
        return self.size, self.docnos


def collection_warning(index, data, qrels=QRELS):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        check_collection(index, data, "mine", qrels)
    return " ".join(str(warning.message) for warning in told)


def test_an_index_of_another_collection_is_told():
    nothing = QRELS.head(0)
    assert collection_warning(Index(), Collection(2)) == ""
    assert collection_warning(Index(), Collection(2, ["a", "b"])) == ""
    assert collection_warning(Index(), Collection(), nothing) == ""
    other = collection_warning(Index(), Collection(2, ["a", "c"]))
    assert "is of another collection than that of mine (2 passages, not the same 2)" in other
    assert "2 of 2 judged passages found in it" in other
    larger = collection_warning(Index(), Collection(3))
    assert "is of another collection" in larger
    assert "not the same 3" in larger
    unknown = collection_warning(Index(("a", "x")), Collection())
    assert "may be of another collection" in unknown
    assert "(2 passages): 1 of 2 judged passages found" in unknown
    unjudged = collection_warning(Index(), Collection(3), nothing)
    assert "0 of 0 judged passages" in unjudged


@pytest.mark.parametrize(
    ("data", "way"),
    [
        (Collection(), ""),
        (Collection(topics_file="t.json"), "without scores: dataset='t.json'"),
        (Collection(topics_file="t.json", year=2024), "then `ikat submit RUN --dataset mine`"),
    ],
)
def test_an_index_without_a_judged_passage_is_refused(data, way):
    with pytest.raises(UsageError, match="here has none of the 2 passages judged in mine") as told:
        check_collection(Index(("z",)), data, "mine", QRELS)
    assert way in str(told.value)
    assert ("To run its topics on your own passages" in str(told.value)) is bool(way)
    assert ("`ikat submit" in str(told.value)) is (data.year is not None)


def test_indexes_are_warmed_and_searched_once():
    texts = Index(("t",))
    index = Index(text=Searches(texts))
    other = Index(("z",))
    systems = [
        System.of(Searches(index) >> Searches(index), "one"),
        System.of(Searches(index) >> Searches(other), "two"),
    ]
    assert indexes_of(systems) == [index, other]
    load_models(systems)
    assert (index.warm, other.warm) == (1, 1)
    assert searches_judged(systems[1], {"b", "y"})
    assert not searches_judged(systems[1], {"y"})
    assert not searches_judged(System.of(Finds()), {"a"})


class OfSample(Index):
    """Has the sample's passages that are judged for these turns alone."""

    def __init__(self, *qids):
        judged = ikat.dataset("ikat:sample").get_qrels()
        super().__init__(tuple(judged[judged["qid"].isin(qids)]["docno"]))


def test_an_index_has_a_judged_passage_of_the_chosen_turns():
    qrels = ikat.dataset("ikat:sample").get_qrels()
    by_turn = qrels.groupby("qid")["docno"].agg(set)
    first = by_turn.index[0]
    apart = by_turn[by_turn.map(by_turn[first].isdisjoint)]
    other = apart.index[0]
    system = {"x": Searches(OfSample(other))}
    with pytest.warns(OtherCollectionWarning):
        Study(system, "ikat:sample", turns=[other])
    with pytest.raises(UsageError, match="the index here has none of the"):
        Study(system, "ikat:sample", turns=[first])
    unjudged = set(ikat.dataset("ikat:sample").get_topics()["qid"]) - set(by_turn.index)
    with pytest.raises(UsageError, match="the index here has none of the"):
        Study({"x": Searches(OfSample())}, "ikat:sample", turns=sorted(unjudged)[:1] or None)


def test_an_index_of_judged_passages_may_find_none_of_them():
    for docnos, expected in ((("a", "z"), True), (("z",), False)):
        study = Study({"x": Searches(Index(docnos))}, topics=TOPICS, qrels=QRELS)
        [system] = study.systems
        assert study.is_of_judged_collection(system, {"1_1": {"z": 1.0}}) is expected
