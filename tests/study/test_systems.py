"""Systems: names, columns, stages that are checked, and what is opened and loaded for them."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyterrier as pt
import pytest
from fakes import scripted

import pyterrier_ikat as ikat
from pyterrier_ikat.errors import UsageError
from pyterrier_ikat.generate.respond import ABSTENTION
from pyterrier_ikat.llms.failures import FatalLLMError
from pyterrier_ikat.methods import Method, find
from pyterrier_ikat.operator import Operator
from pyterrier_ikat.rank.reranker import Reranker
from pyterrier_ikat.retrieve import BM25, DenseRetriever
from pyterrier_ikat.store.models import BUNDLED
from pyterrier_ikat.study import open_systems
from pyterrier_ikat.study.resources import Resources
from pyterrier_ikat.study.systems import (
    System,
    check_names,
    check_ranking,
    distinct_models,
    indexes_of,
    load_models,
    methods_in,
    searches_judged,
    with_limit,
)

CORPUS = [{"docno": "d1", "text": "green tea"}, {"docno": "d2", "text": "a walk"}]
TURNS = pd.DataFrame({"qid": ["1_1"], "query": ["tea"]})
FINDS = pt.apply.generic(lambda turns: turns.assign(docno="d", score=1.0, rank=0))


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    return ikat.PassageIndex(tmp_path_factory.mktemp("index") / "i").index(CORPUS)


class Finds(Operator):
    """Finds a passage, with columns of its own."""

    def __init__(self, *columns, index=None):
        super().__init__()
        self.columns, self.index = columns, index

    def arguments(self):
        return {"columns": self.columns, "index": self.index}

    def transform(self, inp):
        return inp.assign(docno="a", score=1.0, rank=0, **dict.fromkeys(self.columns, "x"))


@pytest.fixture(scope="module")
def words_and_vectors(tmp_path_factory):
    """Words and vectors of two passages."""
    path = tmp_path_factory.mktemp("index") / "both"
    corpus = [{"docno": "d1", "text": "green tea"}, {"docno": "d2", "text": "a long walk"}]
    ikat.PassageIndex(path).index(corpus)
    ikat.DenseIndex(path).index(corpus, BUNDLED)
    return str(path)


@pytest.mark.parametrize(
    ("repeat", "name"), [(1, "mine"), (2, "mine.repeat-2"), (3, "mine.repeat-3")]
)
def test_a_repeat_has_its_number_in_its_name(repeat, name):
    system = System(Method("mine", lambda: FINDS), FINDS, repeat=repeat)
    assert system.name == name


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


def test_systems_of_a_name_are_refused_for_other_settings():
    raw = ikat.methods.find("raw")
    deep = raw.with_arguments({"depth": 5})
    assert methods_in([raw, "raw"]) == [raw]
    with pytest.raises(UsageError, match="two systems are named 'raw'"):
        methods_in([raw, deep])


def test_one_method_with_other_arguments_needs_another_name():
    systems = ["raw:depth=5", ikat.methods.find("raw").with_arguments({"depth": 7}, "raw-depth=5")]
    with pytest.raises(UsageError, match="two systems are named 'raw-depth=5'"):
        open_systems(systems, retriever=Finds())


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


def test_systems_may_be_paths_functions_methods_and_tuples(tmp_path):
    path = tmp_path / "my.py"
    path.write_text(
        "import pyterrier_ikat as ikat\n@ikat.method\n"
        "def mine(retriever):\n    return ikat.RawUtterance() >> retriever\n"
    )
    assert [entry.name for entry in methods_in(path)] == ["mine"]
    assert [entry.name for entry in methods_in((path, "raw"))] == ["mine", "raw"]
    assert [entry.name for entry in methods_in({"x": path})] == ["x"]

    def function(retriever):
        return retriever

    assert [entry.name for entry in methods_in([function])] == ["function"]
    entry = Method("given", function)
    assert methods_in(entry) == [entry]


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


# Stages: what they write, need and end in


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


@pytest.mark.parametrize(
    ("pipeline", "writes"),
    [
        (Finds(), False),
        (Finds("used"), True),
        (Finds("qanswer"), False),
        (Finds("qanswer", "used"), True),
        (pt.apply.generic(lambda turns: turns.assign(qanswer="x")), True),
        (pt.apply.generic(lambda turns: turns), False),
    ],
)
def test_a_response_is_marked_or_without_passages(pipeline, writes):
    assert System.of(pipeline).writes_response is writes


def test_a_system_of_unknown_columns_says_nothing_of_responses():
    class Silent(pt.Transformer):
        def transform(self, inp):
            raise KeyError("x")

    system = System.of(Silent())
    assert system.columns(TURNS) is None
    assert system.writes_response is None


def test_the_abstention_is_that_of_the_last_stage_that_has_one():
    model, _ = scripted()
    assert System.of(Finds()).abstention == ABSTENTION
    own = ikat.Respond(model, abstention="Nothing found.")
    assert System.of(Finds() >> own).abstention == "Nothing found."
    assert System.of(Finds() >> own >> Finds()).abstention == "Nothing found."
    assert System.of(Finds() >> own >> ikat.Respond(model, abstention="No.")).abstention == "No."


def test_a_limit_of_words_needs_a_response(words_and_vectors):
    llm = ikat.llm("recorded:sample")
    responds = ikat.PassageIndex(words_and_vectors).bm25() >> ikat.Respond(llm)
    limited, plain = with_limit(
        open_systems({"a": responds, "b": "raw"}, index=words_and_vectors), 40
    )
    assert "=40" in repr(limited.pipeline)
    assert "=40" not in repr(plain.pipeline)
    with pytest.raises(UsageError, match="no system here has this stage"):
        with_limit(open_systems("raw", index=words_and_vectors), 40)


def test_citing_is_only_where_it_is_asked_for(index):
    pipeline = {"mine": index.bm25() >> ikat.Respond(scripted()[0])}
    [plain] = open_systems(pipeline)
    [cited] = open_systems(pipeline, cite=True)
    assert repr(plain.pipeline) != repr(cited.pipeline)
    assert repr(plain.pipeline) == repr(pipeline["mine"])


def test_the_retriever_is_the_first_that_asks_no_model(index):
    llm = scripted()[0]
    bm25 = index.bm25()
    assert System.of(ikat.Answer(llm) >> bm25 >> ikat.Respond(llm)).retriever is bm25
    assert System.of(ikat.Answer(llm)).retriever is None


def test_the_retriever_may_be_inside_a_fusion():
    fused = ikat.RRF(Finds(), Finds("x"))
    assert System.of(fused).retriever == Finds()


def test_stages_that_do_not_fit_are_named_with_the_repair(index):
    turns = pd.DataFrame({"qid": ["1_1"], "query": ["tea"]})
    system = System.of(index.bm25() >> ikat.MonoT5(), "mine")
    assert "docno" in system.columns(turns)
    with pytest.raises(UsageError, match="system mine does not work on these topics"):
        System.of(ikat.MonoT5(), "mine").columns(turns)


def test_a_stage_without_texts_is_told_where_they_come_from():
    class NeedsText(Operator):
        def transform(self, inp):
            pt.validate.columns(inp, includes=["docno", "text"])
            return inp

    broken = Finds() >> NeedsText()
    entry = Method("mine", lambda: broken)
    for index, told in [
        (None, None),
        (SimpleNamespace(path="here", has_text=True), None),
        (SimpleNamespace(path="here", has_text=False), "the index here has no texts: let its"),
    ]:
        system = System(entry, broken, Resources(index=index))
        with pytest.raises(UsageError, match="system mine does not work on these topics") as caught:
            system.columns(TURNS)
        assert ("has no texts" in str(caught.value)) is (told is not None)
        assert told is None or told in str(caught.value)


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        (["qid", "docno", "score", "rank"], ""),
        (["qid", "docno", "score"], "has no rank;"),
        (["qid", "docno"], "has no score, rank;"),
        (["qid", "docno", "score", "rank", "qid_0"], "ends in sub-queries"),
    ],
)
def test_a_run_ends_with_a_ranking(columns, told):
    if not told:
        check_ranking("mine", columns)
        return
    with pytest.raises(UsageError, match=f"system mine .*{told}"):
        check_ranking("mine", columns)


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


def test_the_longest_repr_is_replaced_first(tmp_path):
    class Index(ikat.retrieve.SearchIndex):
        def __init__(self, name):
            self.name = name

        def __repr__(self):
            return self.name

        def fingerprint(self):
            return self.name

        def docnos(self, among):
            return []

        def __len__(self):
            return 0

        def retriever(self, num_results=1000, cache=None, *, k1=0.9, b=0.4):
            return Finds(index=self)

    both = Finds(index=Index("path")) >> Finds(index=Index("path/longer"))
    stages = System.of(both).parameters()["stages"]
    assert "index)" in stages["1"].replace("index=", "")
    assert "index 2)" in stages["2"].replace("index=", "")
    assert "longer" not in str(stages)


def test_prompts_of_one_name_in_a_stage_all_count(tmp_path):
    folders = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "answer.jinja").write_text(f"{name}: {{{{ question }}}}")
        folders.append(str(tmp_path / name))
    model = ikat.llm("recorded:sample")
    answers = [ikat.Answer(model, prompts=folder) >> Finds() for folder in folders]
    checksums = System.of(ikat.RRF(*answers)).parameters()["prompts"]["1 answer"].split()
    assert len(set(checksums)) == 2


def test_prompts_and_models_are_counted_at_their_stage():
    model = ikat.llm("recorded:sample")
    other = ikat.llm("openai:gpt-4o cache=none on_error=fallback")
    pipeline = ikat.Rewrite(model) >> ikat.RRF(ikat.Answer(other) >> Finds(), Finds("x"))
    identity = System.of(pipeline).parameters()
    assert list(identity["stages"]) == ["1", "2"]
    assert sorted(identity["prompts"]) == ["1 rewrite", "2 answer"]
    assert list(identity["on_error"].values()) == ["raise", "fallback"]
    assert identity["expression"] == System.of(pipeline).written(repr(pipeline))


# Models and indexes


def test_models_are_told_apart_and_each_is_there_once():
    one, _ = scripted()
    two, _ = scripted()
    first = System.of(ikat.Rewrite(one) >> ikat.Answer(two), "first")
    second = System.of(ikat.Answer(two), "second")
    assert first.models == [one, two]
    assert distinct_models([first, second]) == [one, two]
    assert not first.replays
    assert not first.waits
    recorded = System.of(ikat.Rewrite(one) >> ikat.Answer(ikat.llm("recorded:sample")))
    assert recorded.replays


def test_a_system_waits_or_replays_if_one_of_its_models_does():
    plain, _ = scripted()
    batched = ikat.llm("openai:gpt-4o batch=on")
    recorded = ikat.llm("recorded:sample")
    assert System.of(ikat.Rewrite(plain) >> ikat.Answer(batched)).waits
    assert not System.of(ikat.Rewrite(plain) >> ikat.Answer(recorded)).waits
    assert System.of(ikat.Rewrite(plain) >> ikat.Answer(recorded)).replays


def test_models_are_connected_before_the_first_question_alone(monkeypatch):
    opened = []
    monkeypatch.setattr("pyterrier_ikat.llms.LLM.open", lambda self: opened.append(self))
    model = ikat.llm("recorded:sample")
    systems = {"a": ikat.Answer(model), "b": ikat.Answer(model)}
    for options in ({}, {"live": True}, {"connect": True}):
        open_systems(systems, **options)
    open_systems(systems, live=True, connect=True, only_plan=True)
    assert opened == []
    made = open_systems(systems, live=True, connect=True)
    assert opened == [model] == distinct_models(made)


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


def test_an_index_may_have_only_the_last_of_the_judged_passages(index):
    system = System.of(index.bm25())
    assert searches_judged(system, ["d2", "a", "b"])
    assert searches_judged(System.of(FINDS >> ikat.RRF(FINDS, index.bm25())), {"d1", "a"})


# What is opened for systems


def test_systems_share_what_they_open_and_the_given_ledger():
    ledger = ikat.llms.Ledger()
    first, second = open_systems(["ad", "qr"], ledger, llm="recorded:sample", retriever=Finds())
    assert first.models[0] is second.models[0]
    assert first.models[0].ledger is ledger


def test_systems_of_one_kind_share_its_index_and_others_do_not(words_and_vectors):
    systems = ["raw:depth=5", "raw:depth=7", "raw:retriever=dense"]
    first, second, dense = open_systems(systems, index=words_and_vectors, retriever="bm25")
    assert first.resources.index is second.resources.index
    assert (first.retriever.num_results, second.retriever.num_results) == (5, 7)
    assert type(dense.retriever) is DenseRetriever


def test_systems_of_one_folder_have_each_its_retriever(words_and_vectors):
    names = ["raw", "raw:retriever=dense", "raw:retriever=bm25"]
    opened = open_systems(names, index=words_and_vectors)
    kinds = [type(system.retriever) for system in opened]
    assert kinds == [BM25, DenseRetriever, BM25]


def test_systems_share_the_index_that_both_name(words_and_vectors):
    first, second = open_systems(["raw", "human_qr"], index=words_and_vectors)
    assert first.resources.index is second.resources.index


def test_an_opened_index_keeps_its_loader_of_texts(words_and_vectors):
    loader = ikat.TextLoader(words_and_vectors)
    index = ikat.PassageIndex(words_and_vectors, text=loader)
    [system] = open_systems("raw", index=index, retriever="dense")
    assert system.resources.index.text is loader


def test_a_methods_own_retriever_takes_no_model_of_splade():
    [system] = open_systems("raw", retriever=Finds())
    assert system.resources.splade_model is None
    entry = Method("mine", lambda retriever: retriever, settings={"retriever": Finds()})
    [own] = open_systems([entry])
    assert own.pipeline == Finds()


def test_only_a_retriever_of_splade_gets_the_models_of_splade(monkeypatch):
    seen = []

    def opened_index(self, known):
        seen.append((self.retriever, self.splade_model))
        return {"index": None, "retriever": Finds()}

    monkeypatch.setattr(Resources, "_opened_index", opened_index)
    systems = ["raw:retriever=bm25", "raw:retriever=splade", "raw"]
    open_systems(systems, index="x", splade_model="m")
    assert seen == [("bm25", None), ("splade", "m"), (None, "m")]


def test_own_prompts_may_be_in_the_home_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts" / "answer.jinja").write_text("{{ question }}")
    given = {"llm": "recorded:sample", "retriever": Finds(), "prompts": "~/prompts"}
    [system] = open_systems("ad", **given)
    assert str(tmp_path) in repr(system.pipeline)


def test_spare_resources_and_prompts_are_given_to_nobody(tmp_path):
    (tmp_path / "answer.jinja").write_text("{{ question }}")
    spare = ("llm", "prompts")
    given = {"retriever": Finds(), "llm": "recorded:sample", "prompts": str(tmp_path)}
    [raw] = open_systems("raw", **given, spare=spare)
    assert raw.models == []
    assert raw.resources.llm is None
    with pytest.raises(UsageError, match="no system uses prompts"):
        open_systems("raw", **given, spare=("llm",))
    with pytest.raises(UsageError, match="no system uses llm"):
        open_systems("raw", **given, spare=("prompts",))


# Live users


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


def test_a_missing_key_is_reported_before_the_first_question(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    system = ikat.Answer(ikat.llm("openai:gpt-4o cache=none"))
    with pytest.raises(FatalLLMError, match="there is no key"):
        open_systems({"mine": system}, live=True, connect=True)
    assert (
        open_systems({"mine": system}, live=True, connect=True, only_plan=True)[0].name == "mine"
    )  # a plan asks nothing
    assert open_systems({"mine": system}, live=True)[0].name == "mine"  # the cache may answer all


@pytest.mark.parametrize(
    ("system", "resources", "message"),
    [
        ("human_qr", {}, "human_qr reads annotations"),
        ("ad", {}, "needs llm"),
        (
            {"mine": ikat.Answer(ikat.llm("openai:gpt-4o batch=on"))},
            {},
            "wait a day for an answer of mine",
        ),
        ("raw", {"lm": "x"}, "did you mean llm"),
    ],
)
def test_a_system_that_can_not_answer_is_refused(system, resources, message):
    with pytest.raises(ikat.UsageError, match=message):
        open_systems(system, live=True, **resources)
