"""An index of any engine: what it has to answer, and what a run refuses of it."""

import inspect
from types import SimpleNamespace

import pyterrier as pt
import pytest

import pyterrier_ikat as ikat
from pyterrier_ikat.errors import UsageError
from pyterrier_ikat.operator import (
    Operator,
    parts_of,
    with_fields,
)
from pyterrier_ikat.search_index import SearchIndex


def test_an_index_has_its_own_path_or_the_name_of_its_class():
    class Named(SearchIndex):
        """Has no path."""

    class Own(SearchIndex):
        path = "mine"

    class Later(Own):
        """Has that of its base."""

    assert (Named.path, Own.path, Later.path) == ("Named", "mine", "mine")


class Few(SearchIndex):
    def __init__(self, gives, size=3):
        self.gives = gives
        self.number = size

    def fingerprint(self):
        return "f"

    def docnos(self, among):
        return self.gives

    def __len__(self):
        return self.number

    def retriever(self, num_results=1000, cache=None, *, k1=0.9, b=0.4):
        return pt.Transformer.identity()


class Elsewhere(Few):
    path = "http://host"


def test_an_index_gives_only_docnos_it_was_asked_for():
    assert list(Few(["b"]).present(["a", "b"])) == ["b"]
    assert list(Few(iter(["b", "a"])).present(["a", "b"])) == ["b", "a"]
    for gives, told in [("ab", "returns str"), (None, "returns NoneType"), (["c"], "returns 'c'")]:
        with pytest.raises(UsageError, match=rf"Few.docnos\(among\) {told}"):
            list(Few(gives).present(["a", "b"]))


@pytest.mark.parametrize("size", ["3", -1, None])
def test_the_size_of_an_index_is_a_number(size):
    assert Few([]).size() == 3
    with pytest.raises(UsageError, match=r"Few.__len__\(\) fails .*the number of passages"):
        Few([], size).size()


def test_an_index_has_defaults_for_what_it_does_not_say():
    index = Few([])
    assert (index.path, Elsewhere([]).path) == ("Few", "http://host")
    assert (index.has_text, index.query_model, index.describe()) == (False, None, {})
    assert index.warm_up() is None
    with pytest.raises(UsageError, match="the index Few has no texts"):
        index.text_loader()
    index.text = pt.Transformer.identity()
    assert index.has_text
    assert index.text_loader() is index.text


# Indexes of other engines in a run


class OfOnePassage(SearchIndex):
    """An engine of another package."""

    path = "http://host/index"

    def fingerprint(self):
        return "1"

    def docnos(self, among):
        return (docno for docno in among if docno == "sample-walk-001:0")

    def __len__(self):
        return 1

    def retriever(self, num_results=1000, cache=None, *, k1=0.9, b=0.4):
        return Finds(self)


@with_fields
class Finds(Operator):
    index: OfOnePassage

    def transform(self, inp):
        return inp.assign(docno="sample-walk-001:0", score=1.0, rank=0)


@pytest.mark.filterwarnings("ignore::pyterrier_ikat.study.OtherCollectionWarning")
def test_an_index_of_another_engine_is_given_as_an_index(tmp_path):
    found = ikat.run("raw", "ikat:sample", index=OfOnePassage(), out=tmp_path / "runs")
    ranking = found.folders["raw"].results()
    assert set(ranking["docno"]) == {"sample-walk-001:0"}
    assert list(parts_of(Finds(OfOnePassage())))[0].path == "http://host/index"


class OfAnotherFingerprint(OfOnePassage):
    def fingerprint(self):
        return "2"


@pytest.mark.filterwarnings("ignore::pyterrier_ikat.study.OtherCollectionWarning")
def test_an_exchanged_index_of_another_engine_is_refused(tmp_path):
    out = tmp_path / "runs"
    ikat.run("raw", "ikat:sample", index=OfOnePassage(), out=out)
    with pytest.raises(ikat.UsageError, match=r"runs/raw holds a run with different parts"):
        ikat.run("raw", "ikat:sample", index=OfAnotherFingerprint(), out=out)


class WithoutFingerprint(OfOnePassage):
    def fingerprint(self):
        return None


class WithoutRetriever(OfOnePassage):
    def retriever(self, *args, **kwargs):
        return None


@pytest.mark.filterwarnings("ignore::pyterrier_ikat.study.OtherCollectionWarning")
@pytest.mark.parametrize(
    ("engine", "named"),
    [
        (WithoutFingerprint, r"WithoutFingerprint\.fingerprint\(\) returns None"),
        (WithoutRetriever, r"WithoutRetriever\.retriever\(\) returns NoneType"),
    ],
)
def test_a_missing_part_of_an_indexs_face_is_named(tmp_path, engine, named):
    with pytest.raises(ikat.UsageError, match=named):
        ikat.run("raw", "ikat:sample", index=engine(), out=tmp_path / "runs")


class WithoutDocnos(OfOnePassage):
    def docnos(self, among):
        return None


class WithAText(OfOnePassage):
    def docnos(self, among):
        return "sample-walk-001:0"


class WithAllItsDocnos(OfOnePassage):
    def docnos(self, among):
        return ["another"]


class WithoutALength(OfOnePassage):
    def __len__(self):
        return None


@pytest.mark.filterwarnings("ignore::pyterrier_ikat.study.OtherCollectionWarning")
@pytest.mark.parametrize(
    ("engine", "named"),
    [
        (WithoutDocnos, r"WithoutDocnos\.docnos\(among\) returns NoneType"),
        (WithAText, r"WithAText\.docnos\(among\) returns str"),
        (WithAllItsDocnos, r"WithAllItsDocnos\.docnos\(among\) returns 'another', which isn't"),
        (WithoutALength, r"WithoutALength\.__len__\(\) fails"),
    ],
)
def test_wrong_contents_of_an_index_are_named(tmp_path, engine, named):
    with pytest.raises(ikat.UsageError, match=named):
        ikat.run("raw", "ikat:sample", index=engine(), out=tmp_path / "runs")


class WithAListOfDocnos(OfOnePassage):
    def docnos(self, among):
        return list(super().docnos(among))


@pytest.mark.filterwarnings("ignore::pyterrier_ikat.study.OtherCollectionWarning")
def test_an_index_may_list_its_docnos(tmp_path):
    results = ikat.run("raw", "ikat:sample", index=WithAListOfDocnos(), out=tmp_path / "runs")
    assert len(results.folders["raw"].results()) == 24


def test_an_index_without_a_path_is_named_by_its_class():
    class Nameless(OfOnePassage):
        path = ""

    assert Nameless().path == "Nameless"


def test_an_index_as_a_retriever_is_refused_with_the_repair():
    with pytest.raises(ikat.UsageError, match=r"OfOnePassage\(\.\.\.\) is an index: give it as"):
        ikat.plan("raw", "ikat:sample", retriever=OfOnePassage())


@pytest.mark.parametrize("kind", [None, "bm25"])
def test_an_object_that_only_has_a_path_is_refused_by_name(tmp_path, tea_index, kind):
    other = SimpleNamespace(path=tea_index.path)
    with pytest.raises(ikat.UsageError, match=r"index=SimpleNamespace\(\.\.\.\)"):
        ikat.run("raw", "ikat:sample", index=other, retriever=kind, out=tmp_path / "runs")


def test_every_index_class_of_the_pages_is_found_by_its_name():
    assert ikat.retrieve.SearchIndex is SearchIndex


@pytest.mark.parametrize("kind", [ikat.PassageIndex, ikat.DenseIndex, ikat.SpladeIndex])
def test_a_misspelt_argument_of_a_retriever_is_an_error(kind):
    arguments = inspect.signature(kind.retriever)
    arguments.bind(None, 1000, None, k1=0.9, b=0.4)
    with pytest.raises(TypeError, match="query_prefix"):
        arguments.bind(None, query_prefix="query: ")
