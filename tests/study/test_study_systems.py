"""Systems: their names, parts, repeats, stages that are checked, and models that are loaded."""

import numpy as np
import pandas as pd
import pyterrier as pt
import pytest
from fakes import scripted

import pyterrier_ikat as ikat
from pyterrier_ikat.errors import UsageError
from pyterrier_ikat.methods import Method, find
from pyterrier_ikat.rank.reranker import Reranker
from pyterrier_ikat.study import open_systems
from pyterrier_ikat.study.systems import (
    System,
    check_names,
    distinct_models,
    indexes_of,
    load_models,
    methods_in,
    searches_judged,
)

CORPUS = [{"docno": "d1", "text": "green tea"}, {"docno": "d2", "text": "a walk"}]
FINDS = pt.apply.generic(lambda turns: turns.assign(docno="d", score=1.0, rank=0))


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    return ikat.PassageIndex(tmp_path_factory.mktemp("index") / "i").index(CORPUS)


@pytest.mark.parametrize(
    ("repeat", "name"), [(1, "mine"), (2, "mine.repeat-2"), (3, "mine.repeat-3")]
)
def test_a_repeat_has_its_number_in_its_name(repeat, name):
    system = System(Method("mine", lambda: FINDS), FINDS, repeat=repeat)
    assert system.name == name


@pytest.mark.parametrize(
    ("systems", "names"),
    [
        ("raw", ["raw"]),
        (["raw", "ad"], ["raw", "ad"]),
        (("raw", "raw"), ["raw"]),
        ({"mine": "raw"}, ["mine"]),
        ({"a": FINDS, "b": FINDS}, ["a", "b"]),
        (find("raw"), ["raw"]),
        ([find("raw"), "raw"], ["raw"]),
        ({"one": find("raw"), "two": "raw"}, ["one", "two"]),
    ],
)
def test_systems_are_methods_with_each_name_once(systems, names):
    assert [method.name for method in methods_in(systems)] == names


@pytest.mark.parametrize(
    ("systems", "told"),
    [
        ([], "there is no system"),
        ({}, "there is no system"),
        (FINDS, "has no name"),
        ([FINDS], "has no name"),
        (7, "a system is a int"),
        ({"a": 7}, "a system is a int"),
        (["raw", Method("raw", lambda: FINDS)], "two systems are named 'raw'"),
    ],
)
def test_what_is_no_system_is_refused(systems, told):
    with pytest.raises(UsageError, match=told):
        methods_in(systems)


@pytest.mark.parametrize(
    ("name", "in_memory", "fits"),
    [
        ("mine", False, True),
        ("a.b c", False, True),
        (".mine", False, False),
        (".mine", True, True),
        ("a/b", False, False),
        ("a/b", True, True),
        ("", False, False),
        ("", True, False),
        (" ", True, False),
        (7, True, False),
        (None, False, False),
    ],
)
def test_a_name_is_that_of_a_folder_or_a_text(name, in_memory, fits):
    if fits:
        check_names(["fine", name], in_memory)
    else:
        with pytest.raises(UsageError, match="a system is named"):
            check_names(["fine", name], in_memory)


def test_models_are_told_apart_and_each_is_there_once():
    (one, _), (two, _) = scripted(), scripted()
    first = System.of(ikat.Rewrite(one) >> ikat.Answer(two), "first")
    second = System.of(ikat.Answer(two), "second")
    assert first.models == [one, two]
    assert distinct_models([first, second]) == [one, two]
    assert not first.replays
    assert not first.waits
    recorded = System.of(ikat.Rewrite(one) >> ikat.Answer(ikat.llm("recorded:sample")))
    assert recorded.replays


@pytest.mark.parametrize(
    ("make", "writes"),
    [
        (lambda llm, index: ikat.Answer(llm), True),
        (lambda llm, index: index.bm25(), False),
        (lambda llm, index: ikat.Answer(llm) >> index.bm25(), False),
        (lambda llm, index: index.bm25() >> ikat.Respond(llm), True),
        (lambda llm, index: ikat.Rewrite(llm), False),
    ],
)
def test_a_response_is_that_of_respond_or_without_passages(index, make, writes):
    assert System.of(make(scripted()[0], index)).writes_response is writes


def test_the_retriever_is_the_first_that_asks_no_model(index):
    llm = scripted()[0]
    bm25 = index.bm25()
    assert System.of(ikat.Answer(llm) >> bm25 >> ikat.Respond(llm)).retriever is bm25
    assert System.of(ikat.Answer(llm)).retriever is None


def test_stages_that_do_not_fit_are_named_with_the_repair(index):
    turns = pd.DataFrame({"qid": ["1_1"], "query": ["tea"]})
    system = System.of(index.bm25() >> ikat.MonoT5(), "mine")
    assert "docno" in system.columns(turns)
    with pytest.raises(UsageError, match="system mine does not work on these topics"):
        System.of(ikat.MonoT5(), "mine").columns(turns)


def test_the_parts_of_a_run_are_named_by_what_they_are(index, tmp_path):
    llm = scripted()[0]
    other = ikat.PassageIndex(tmp_path / "other").index(CORPUS)
    both = ikat.RRF(index.bm25(), other.bm25())
    system = System.of(ikat.Answer(llm, on_error="fallback") >> both, "mine")
    identity = system.parameters()
    assert identity["parts"]["index"] == index.fingerprint()
    assert identity["parts"]["index 2"] == other.fingerprint()
    assert len(identity["parts"]) == 3
    assert list(identity["stages"]) == ["1", "2"]
    assert identity["stages"]["1"].startswith("ikat.Answer(ikat.llm(")
    assert str(index.path) not in str(identity)
    assert str(other.path) not in str(identity)
    assert "index 2.bm25()" in identity["expression"]
    assert all(key.startswith("1 ") for key in identity["prompts"])
    assert len(identity["prompts"]) >= 1
    assert len(identity["on_error"]) == 1


def test_an_address_in_memory_is_no_part_of_an_identity():
    system = System.of(FINDS)
    assert system.written("f at 0x7f00aa11, g") == system.written("f at 0x1, g")


class Loads(Reranker):
    """A re-ranker that counts how often it scores."""

    loads_models = True
    asked = 0

    def score(self, frame):
        Loads.asked += 1
        return np.zeros(len(frame))


def test_equal_stages_are_loaded_once_and_their_index_too(index):
    Loads.asked = 0
    systems = [System.of(index.bm25() >> Loads(), name) for name in ("a", "b")]
    load_models(systems)
    assert Loads.asked == 1
    load_models([System.of(ikat.RRF(FINDS, index.bm25() >> Loads()))])
    assert Loads.asked == 2


def test_indexes_for_texts_alone_are_not_searched(index, tmp_path):
    texts = ikat.PassageIndex(tmp_path / "texts").index(CORPUS)
    searched = ikat.PassageIndex(index.path, text=texts.text_loader())
    [found] = indexes_of([System.of(searched.bm25())] * 2)
    assert found is searched
    system = System.of(index.bm25())
    assert searches_judged(system, ["d9", "d1"])
    assert not searches_judged(system, ["d9"])
    assert not searches_judged(system, [])
    assert not searches_judged(System.of(FINDS), ["d1"])


def test_live_systems_need_no_annotations_and_are_loaded(index):
    with pytest.raises(UsageError, match="human_qr reads annotations"):
        open_systems("human_qr", live=True, index=index)
    Loads.asked = 0
    pipeline = {"mine": index.bm25() >> Loads()}
    open_systems(pipeline)
    open_systems(pipeline, live=True, only_plan=True)
    assert Loads.asked == 0
    open_systems(pipeline, live=True)
    assert Loads.asked == 1


def test_citing_is_only_where_it_is_asked_for(index):
    pipeline = {"mine": index.bm25() >> ikat.Respond(scripted()[0])}
    [plain] = open_systems(pipeline)
    [cited] = open_systems(pipeline, cite=True)
    assert repr(plain.pipeline) != repr(cited.pipeline)
    assert repr(plain.pipeline) == repr(pipeline["mine"])


def test_an_index_may_have_only_the_last_of_the_judged_passages(index):
    system = System.of(index.bm25())
    assert searches_judged(system, ["d2", "a", "b"])
    assert searches_judged(System.of(FINDS >> ikat.RRF(FINDS, index.bm25())), {"d1", "a"})
