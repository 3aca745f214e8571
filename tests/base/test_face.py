"""A run sees each stage and each index through one face.

Operators answer themselves, others get careful answers.
"""

import inspect
from types import SimpleNamespace

import pandas as pd
import pyterrier as pt
import pytest

import pyterrier_ikat as ikat
from pyterrier_ikat.foreign import Foreign
from pyterrier_ikat.operator import (
    Operator,
    face,
    parts_of,
    unidentified_stages,
    with_fields,
)
from pyterrier_ikat.planning import Plan
from pyterrier_ikat.retrieve import SearchIndex
from pyterrier_ikat.study import System

TURNS = pd.DataFrame({"qid": ["1_1", "1_2"], "query": ["tea", "walk"]})
FOUND = pd.DataFrame({"qid": ["1_1"], "docno": ["d1"], "score": [1.0], "rank": [0]})


class Model:
    def generate(self, chats):
        return ["tea"] * len(chats)


@pytest.fixture
def index(tmp_path):
    passages = [{"docno": "d1", "text": "green tea"}, {"docno": "d2", "text": "a walk"}]
    return ikat.PassageIndex(tmp_path / "i").index(passages)


def test_an_operator_is_its_own_face():
    operator = ikat.Interleave(num_results=5)
    assert face(operator) is operator
    assert operator.passages_at_most() == 5


def test_a_cutoff_reads_no_texts_and_sets_the_cut_of_a_plan():
    seen = face(pt.RankCutoff(7))
    plan = Plan("a", set())
    plan.fewer_passages = True
    assert not seen.reads_texts
    assert seen.doing(TURNS) == ""
    assert seen.plan(TURNS, plan) is TURNS
    assert (plan.cut, plan.fewer_passages) == (7, False)


def test_a_feature_union_has_its_branches_and_reads_texts(index):
    union = index.bm25() ** index.bm25(k1=2.0)
    seen = face(union)
    assert isinstance(seen, Foreign)
    assert seen.reads_texts
    assert seen.subpipelines() == [index.bm25(), index.bm25(k1=2.0)]
    assert list(parts_of(union)) == [index]


def test_a_function_of_apply_makes_its_stage_unidentifiable():
    upper = pt.apply.query(lambda row: row["query"].upper())
    assert unidentified_stages(upper >> ikat.Interleave()) == [repr(upper)]
    assert not face(upper).one_row_per_turn
    assert face(upper).reads_texts


@pytest.mark.parametrize("hook", ["one_row_per_turn", "loads_models", "reads_texts"])
@pytest.mark.parametrize("value", [True, False])
def test_a_user_sets_a_hook_on_a_foreign_stage(hook, value):
    stage = pt.apply.generic(lambda frame: frame)
    setattr(stage, hook, value)
    assert getattr(face(stage), hook) is value


def test_a_foreign_stage_cites_by_its_own_method():
    plain, cited = pt.apply.generic(lambda frame: frame), pt.apply.generic(lambda frame: frame)
    assert face(plain).citing() is None
    plain.citing = lambda: cited
    assert face(plain).citing() is cited


def test_a_stage_may_write_into_a_frame_that_nobody_reads():
    assert face(ikat.Interleave()).own_frame(TURNS) is TURNS
    assert face(pt.apply.generic(lambda frame: frame)).own_frame(TURNS) is not TURNS


def test_questions_of_one_face_are_answered_by_the_other():
    def questions(cls):
        return {name for name in dir(cls) if not name.startswith("_")}

    own = questions(Operator) - questions(pt.Transformer)
    of_values = {
        "activity",
        "arguments",
        "choices",
        "drawn_as",
        "gives_texts",
        "last_in_repr",
        "least",
        "on_passages",
        "paths",
        "while_written",
    }
    both = questions(Foreign) | set(vars(Foreign(pt.RankCutoff(1))))
    assert own - of_values - both == set()


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


class WithoutFingerprint(OfOnePassage):
    def fingerprint(self):
        return None


class WithoutRetriever(OfOnePassage):
    def retriever(self, *args, **kwargs):
        return None


class WithAListOfDocnos(OfOnePassage):
    def docnos(self, among):
        return list(super().docnos(among))


@pytest.mark.filterwarnings("ignore::pyterrier_ikat.study.OtherCollectionWarning")
def test_an_exchanged_index_of_another_engine_is_refused(tmp_path):
    out = tmp_path / "runs"
    ikat.run("raw", "ikat:sample", index=OfOnePassage(), out=out)
    with pytest.raises(ikat.UsageError, match=r"runs/raw holds a run with different parts"):
        ikat.run("raw", "ikat:sample", index=OfAnotherFingerprint(), out=out)


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


class Versioned(pt.Transformer):
    """A stage whose repr is an address, with a fingerprint."""

    def __init__(self, version):
        self.version = version

    def fingerprint(self):
        return self.version

    def transform(self, inp):
        return inp


def test_a_fingerprint_identifies_a_foreign_stage(tmp_path, index):
    assert unidentified_stages(Versioned("1") >> index.bm25()) == []
    data = pt.get_dataset("ikat:sample")
    bm25 = ikat.PassageIndex(tmp_path / "s").index(data.get_corpus_iter(verbose=False)).bm25()
    out = tmp_path / "runs"
    ikat.run({"mine": Versioned("1") >> bm25}, data, out=out)
    ikat.run({"mine": Versioned("1") >> bm25}, data, out=out)  # no AlikeWarning
    with pytest.raises(ikat.UsageError, match="holds a run with different parts"):
        ikat.run({"mine": Versioned("2") >> bm25}, data, out=out)


def test_every_index_class_of_the_pages_is_found_by_its_name():
    assert ikat.retrieve.SearchIndex is SearchIndex


@pytest.mark.parametrize("kind", [None, "bm25"])
def test_an_object_that_only_has_a_path_is_refused_by_name(tmp_path, index, kind):
    other = SimpleNamespace(path=index.path)
    with pytest.raises(ikat.UsageError, match=r"index=SimpleNamespace\(\.\.\.\)"):
        ikat.run("raw", "ikat:sample", index=other, retriever=kind, out=tmp_path / "runs")


class WithDepth(Versioned):
    """A stage whose fingerprint says nothing about its settings, which its repr shows."""

    def __init__(self, version, depth):
        self.version = version
        self.depth = depth

    def __repr__(self):
        return f"WithDepth({self.depth})"


def test_parts_in_a_dict_are_found_and_its_order_does_not_matter():
    class Chooses(Operator):
        def __init__(self, stages):
            super().__init__()
            self.stages = stages

        def transform(self, inp):
            return inp

    first, second = Versioned("1"), Versioned("2")
    chooses = Chooses({"a": first, "b": second})
    assert list(parts_of(chooses)) == [first, second]
    swapped = Chooses({"b": second, "a": first})
    assert (chooses == swapped, hash(chooses) == hash(swapped)) == (True, True)


def test_a_stage_with_a_fingerprint_is_named_by_its_class():
    system = System.of(Versioned("1") >> WithDepth("2", 5) >> WithDepth("3", 5))
    identity = system.parameters()
    assert identity["parts"] == {"Versioned": "1", "WithDepth": "2", "WithDepth 2": "3"}


def test_the_repr_of_a_stage_with_a_fingerprint_counts_too():
    of_five = System.of(WithDepth("2", 5)).parameters()
    of_six = System.of(WithDepth("2", 6)).parameters()
    assert of_five["parts"] == of_six["parts"]
    assert of_five["stages"] != of_six["stages"]


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


@pytest.mark.parametrize("kind", [ikat.PassageIndex, ikat.DenseIndex, ikat.SpladeIndex])
def test_a_misspelt_argument_of_a_retriever_is_an_error(kind):
    arguments = inspect.signature(kind.retriever)
    arguments.bind(None, 1000, None, k1=0.9, b=0.4)
    with pytest.raises(TypeError, match="query_prefix"):
        arguments.bind(None, query_prefix="query: ")
