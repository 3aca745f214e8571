"""What a study checks and knows of a dataset, its judgements, repeats, models and their ledgers."""

import warnings

import pandas as pd
import pyterrier as pt
import pytest
from recorded_lines import lines_kept

import pyterrier_ikat as ikat
from pyterrier_ikat.errors import DataError, UsageError
from pyterrier_ikat.events import Step
from pyterrier_ikat.llms import Backend, Completion, Ledger, LLMFailure, Request
from pyterrier_ikat.lost_columns import has_column
from pyterrier_ikat.methods import Method
from pyterrier_ikat.operator import Operator
from pyterrier_ikat.study import RepeatsWarning, Study
from pyterrier_ikat.study.recorder import Recorder, Shown
from pyterrier_ikat.study.study import NotJudgedWarning
from pyterrier_ikat.study.systems import (
    OtherCollectionWarning,
    System,
    check_collection,
    indexes_of,
    load_models,
    searches_judged,
)


class Finds(Operator):
    """Finds one passage for every turn."""

    def __init__(self, docno="a"):
        super().__init__()
        self.docno = docno

    def transform(self, inp):
        return inp.assign(docno=self.docno, score=1.0, rank=0)


TOPICS = pd.DataFrame({"qid": ["1_1", "1_2"], "query": ["tea", "milk"]})
QRELS = pd.DataFrame({"qid": ["1_1", "1_2"], "docno": ["a", "b"], "label": [1, 1]})


def test_given_topics_stand_in_the_place_of_the_datasets():
    whole = Study({"x": Finds()}, "ikat:sample")
    [system] = whole.systems
    turns = whole.turns_of(system)
    assert whole.asked == set(turns.ids)
    assert whole.dataset == whole.data.name == "ikat:sample"
    some = turns.frame.iloc[2:4]
    given = Study({"x": Finds()}, "ikat:sample", topics=some)
    assert given.asked == set(some["qid"])
    assert set(given.qrels["qid"]) <= given.asked
    judged = set(whole.judged)
    assert set(given.unasked) == judged - given.asked
    assert set(given.judged) == judged & given.asked


def test_a_choice_of_turns_names_its_source():
    for topics, where in [(None, "ikat:sample"), (TOPICS, "the topics frame")]:
        dataset = "ikat:sample" if topics is None else None
        with pytest.raises(UsageError, match=where):
            Study({"x": Finds()}, dataset, topics=topics, turns=["7_7"])
    some = Study({"x": Finds()}, "ikat:sample", turns=["1-1_2"])
    assert (some.asked, some.unasked) == ({"1-1_2"}, [])
    assert set(some.judged) <= {"1-1_2"}


def test_manual_systems_have_manual_turns_and_others_have_not():
    manual = Method("manual", lambda: ikat.ManualRewrite() >> Finds(), uses_gold=True)
    plain = Method("plain", lambda: Finds())
    study = Study([manual, plain], "ikat:sample")
    by_name = {system.name: study.turns_of(system).frame for system in study.systems}
    assert "qresolved" in by_name["manual"]
    assert "qresolved" not in by_name["plain"]
    assert study.asked == set(by_name["plain"]["qid"])


def test_judgements_of_statements_are_not_those_of_passages():
    with pytest.raises(UsageError, match="judge PTKB statements, and this is a run of passages"):
        Study({"x": Finds()}, "ikat:sample", qrels="ptkb")


class Unjudged:
    """A dataset whose judgements are not published yet."""

    name, year, unit = "mine", None, None
    topics_file = None

    def get_topics(self, of=None):
        return TOPICS

    def qrels_variants(self):
        return []

    def get_qrels(self, variant=None):
        raise DataError("not published yet")

    def collection(self):
        return None, None


def test_unpublished_judgements_are_told_unless_asked_for(monkeypatch):
    monkeypatch.setattr("pyterrier_ikat.study.study.dataset_named", lambda data: data)

    def find_qrels(qrels, data):
        raise DataError("not published yet")

    monkeypatch.setattr("pyterrier_ikat.study.study.find_qrels", find_qrels)
    with pytest.warns(NotJudgedWarning, match="there will be no scores: not published yet"):
        study = Study({"x": Finds()}, Unjudged())
    assert (study.judged, study.labels) == ([], {})
    with pytest.raises(DataError, match="not published yet"):
        Study({"x": Finds()}, Unjudged(), qrels="some")


def test_a_given_ledger_counts_the_models_of_the_call():
    ledger = Ledger()
    given = {"llm": "recorded:sample", "retriever": Finds(), "topics": TOPICS}
    study = Study("ad", **given, ledger=ledger)
    assert study.ledger is ledger
    assert study.systems[0].models[0].ledger is ledger
    assert Study("ad", **given).ledger is not ledger


@pytest.mark.parametrize("number", [0, -1])
def test_a_system_is_run_at_least_once(number):
    with pytest.raises(UsageError, match=f"repeats={number}: run each system at least once"):
        Study({"x": Finds()}, topics=TOPICS, repeats=number)


def test_one_run_of_a_system_warns_of_no_repeats():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(Study({"x": Finds()}, topics=TOPICS, repeats=1).systems) == 1
    with pytest.warns(RepeatsWarning, match="system x asks no LLM.*run once") as told:
        assert len(Study({"x": Finds()}, topics=TOPICS, repeats=3).systems) == 1
    assert len(told) == 1


def test_only_a_run_loads_models_and_checks_rankings():
    class Loads(Finds):
        loads_models = True

        def transform(self, inp):
            if len(inp):
                loaded.append(inp["qid"].tolist())
            return super().transform(inp)

    loaded = []
    Study({"x": Loads()}, topics=TOPICS, only_plan=True)
    assert loaded == []
    Study({"x": Loads()}, topics=TOPICS)
    assert loaded == [["1_1"]]
    keeps = pt.apply.query(lambda row: row["query"])
    assert Study({"x": keeps}, topics=TOPICS, only_plan=True).systems
    with pytest.raises(UsageError, match="system x makes no ranking"):
        Study({"x": keeps}, topics=TOPICS)


def test_a_name_may_be_any_text_in_memory_alone():
    assert Study({"a/b": Finds()}, topics=TOPICS, in_memory=True).systems[0].name == "a/b"
    with pytest.raises(UsageError, match="named 'a/b'"):
        Study({"a/b": Finds()}, topics=TOPICS)


def test_turns_that_differ_by_a_hyphen_are_told():
    hyphens = TOPICS.assign(qid=["1-1", "1-2"])
    with pytest.raises(DataError, match="1-1"):
        Study({"x": Finds()}, topics=hyphens, qrels=QRELS)


def test_the_clusters_of_tests_are_those_of_the_unit():
    topics = TOPICS.assign(qconversation=["1", "1"], qturn=[1, 2])
    study = Study({"x": Finds()}, topics=topics, qrels=QRELS)
    by_turn = study.clusters(["1_1", "1_2"], "turn")
    by_conversation = study.clusters(["1_1", "1_2"], "conversation")
    assert by_turn != by_conversation
    sample = Study({"x": Finds()}, "ikat:sample")
    assert sample.clusters(sample.judged, None) == sample.clusters(sample.judged, "topic")


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
    index, other = Index(text=Searches(texts)), Index(("z",))
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


def test_a_recorded_model_knows_the_turns_of_the_topics():
    given = {"llm": "recorded:sample", "retriever": Finds(), "topics": TOPICS}
    assert Study("raw", retriever=Finds(), topics=TOPICS).systems[0].models == []
    assert Study("ad", **given).systems


# What is recorded and shown


def exchanges(*outcomes, **more):
    messages = [{"role": "user", "content": "Tea?"}]
    request = Request(messages, "ask", "a", **more)
    return [(request, outcome) for outcome in outcomes]


def recorded(*steps, qids=("a",)):
    recorder = Recorder(list(qids), lambda text: "stage")
    for step in steps:
        recorder.end(step)
    return lines_kept(recorder, qids)


FRAME = pd.DataFrame({"qid": ["a"], "query": ["tea"]})
SUB = pd.DataFrame({"qid": ["a::0"], "qid_0": ["a"], "query": ["tea"], "qsub": [0]})
ANSWER = Completion("Mint.", "m", "stop", None, None, 0.0, False)


def test_requests_are_kept_with_their_outcomes_and_names():
    failure = LLMFailure("ask", "a", "too long")
    asked = exchanges(ANSWER, failure, prompt="answer") + exchanges(ANSWER, item="d1")
    [line] = recorded(Step(Finds(), FRAME, out=FRAME, asked=asked))
    messages = [{"role": "user", "content": "Tea?"}]
    assert line["asked"] == [
        {"prompt": "answer", "messages": messages, "completion": "Mint."},
        {"prompt": "answer", "messages": messages, "failure": "too long"},
        {"item": "d1", "messages": messages, "completion": "Mint."},
    ]


def test_a_failed_stage_and_other_turns_are_not_recorded():
    asked = exchanges(ANSWER)
    assert recorded(Step(Finds(), FRAME, asked=asked)) == []
    assert recorded(Step(Finds(), FRAME, out=FRAME, asked=asked), qids=("b",)) == []


def test_requests_of_sub_queries_belong_to_their_turn():
    request = Request([{"role": "user", "content": "Tea?"}], "ask", "a::0")
    step = Step(Finds(), SUB, out=SUB, asked=[(request, ANSWER)])
    [line] = recorded(step)
    assert (line["qid"], len(line["asked"])) == ("a", 1)
    inner = SUB.drop(columns="qid_0")
    later = Step(Finds(), inner, out=inner, asked=[(request, ANSWER)])
    lines = recorded(Step(Finds(), FRAME, out=SUB), later)
    assert [line["qid"] for line in lines] == ["a"]


def test_stages_that_join_or_make_sub_queries_write_no_query():
    assert recorded(Step(Finds(), FRAME, out=SUB)) == []
    assert recorded(Step(Finds(), SUB, out=FRAME.assign(query="milk"))) == []
    [line] = recorded(Step(Finds(), FRAME, out=FRAME.assign(query="milk")))
    assert line["wrote"] == {"query": "milk"}


def test_the_value_of_a_turn_is_that_of_its_first_row():
    found = pd.DataFrame({"qid": ["a", "a"], "query": ["tea"] * 2, "qnew": ["first", "second"]})
    [line] = recorded(Step(Finds(), FRAME, out=found))
    assert line["wrote"] == {"qnew": "first"}


def test_the_current_stage_is_told_in_its_words_until_it_ends(monkeypatch):
    class Busy(Finds):
        activity = "searching {queries}"

    entries = []
    monkeypatch.setattr("pyterrier_ikat.study.recorder.doing", lambda text: Entry(text, entries))
    shown = Shown()
    outer, inner = Step(Busy(), FRAME), Step(Finds(), FRAME)
    shown.begin(outer)
    shown.begin(inner)
    assert entries == ["searching 1 query", "Finds"]
    shown.end(inner)
    assert entries == ["searching 1 query"]
    shown.end(outer)
    assert entries == []


class Entry:
    """Stands for an entry of the line of progress."""

    def __init__(self, text, entries):
        self.text, self.entries = text, entries

    def __enter__(self):
        self.entries.append(self.text)

    def __exit__(self, *_):
        self.entries.remove(self.text)


class OfSample(Index):
    """Has the sample's passages that are judged for these turns alone."""

    def __init__(self, *qids):
        judged = ikat.dataset("ikat:sample").get_qrels()
        super().__init__(tuple(judged[judged["qid"].isin(qids)]["docno"]))


def test_an_index_has_a_judged_passage_of_the_chosen_turns():
    qrels = ikat.dataset("ikat:sample").get_qrels()
    by_turn = qrels.groupby("qid")["docno"].agg(set)
    first = by_turn.index[0]
    other = next(qid for qid in by_turn.index if not by_turn[qid] & by_turn[first])
    system = {"x": Searches(OfSample(other))}
    with pytest.warns(OtherCollectionWarning):
        Study(system, "ikat:sample", turns=[other])
    with pytest.raises(UsageError, match="the index here has none of the"):
        Study(system, "ikat:sample", turns=[first])
    unjudged = set(ikat.dataset("ikat:sample").get_topics()["qid"]) - set(by_turn.index)
    with pytest.raises(UsageError, match="the index here has none of the"):
        Study({"x": Searches(OfSample())}, "ikat:sample", turns=sorted(unjudged)[:1] or None)


def test_a_plan_on_a_frame_does_not_ask_whether_stages_fit():
    class Needs(Finds):
        def transform(self, inp):
            pt.validate.columns(inp, includes=["qid", "more"])
            return super().transform(inp)

    assert Study({"x": Needs()}, topics=TOPICS, only_plan=True).systems
    for dataset, topics in (("ikat:sample", None), (None, TOPICS)):
        if dataset is not None:
            with pytest.raises(UsageError, match="system x does not work on these topics"):
                Study({"x": Needs()}, dataset, only_plan=True)
        with pytest.raises(UsageError, match="system x does not work on these topics"):
            Study({"x": Needs()}, dataset, topics=topics)


def test_a_plan_need_not_end_in_a_ranking():
    keeps = pt.apply.query(lambda row: row["query"])
    assert Study({"x": keeps}, "ikat:sample", only_plan=True).systems
    with pytest.raises(UsageError, match="system x makes no ranking"):
        Study({"x": keeps}, "ikat:sample")


@pytest.mark.parametrize("name", ["RecordedBackend", "StudyBackend"])
def test_recordings_are_told_the_turns_that_they_will_be_asked(monkeypatch, name):
    class Recorded(Backend):
        model, identity = "own", {"provider": "own", "model": "own", "params": {}}

        def complete(self, requests):
            raise AssertionError("it was asked")

        def check_turns(self, qids):
            checked.append(qids)

    checked = []
    monkeypatch.setattr(f"pyterrier_ikat.study.study.{name}", Recorded)
    model = ikat.llm(Recorded())
    Study({"x": ikat.Rewrite(model) >> Finds()}, topics=TOPICS)
    assert checked == [{"1_1", "1_2"}]


def test_a_stage_of_several_systems_is_told_once():
    class Narrow(pt.Transformer):
        def transform(self, inp):
            return inp[["qid", "query"]]

    narrow = Narrow()
    topics = TOPICS.assign(qutterance=["tea", "milk"])
    systems = {"a": narrow >> Finds(), "b": narrow >> Finds("b")}
    study = Study(systems, topics=topics)
    told = []
    for system in study.systems:
        with study.lost_columns(system).watching(), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            has_column(TOPICS, "qutterance")
        told.append(len(caught))
    assert told == [1, 0]


def test_an_index_of_judged_passages_may_find_none_of_them():
    for docnos, expected in ((("a", "z"), True), (("z",), False)):
        study = Study({"x": Searches(Index(docnos))}, topics=TOPICS, qrels=QRELS)
        [system] = study.systems
        assert study.is_of_judged_collection(system, {"1_1": {"z": 1.0}}) is expected


def test_conversations_of_tests_are_those_of_the_topics():
    topics = TOPICS.assign(qid=["x", "y"], qconversation=["c", "c"], qturn=[1, 2])
    study = Study({"x": Finds()}, topics=topics, qrels=QRELS.assign(qid=["x", "y"]))
    clusters = study.clusters(["x", "y"], "conversation")
    assert clusters != study.clusters(["x", "y"], "turn")


def test_a_file_of_judgements_may_be_named_like_a_variant(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    qid = ikat.dataset("ikat:sample").get_topics()["qid"][0]
    (tmp_path / "ptkb_mine.qrels").write_text(f"{qid} 0 a 1\n")
    assert Study({"x": Finds()}, "ikat:sample", qrels="ptkb_mine.qrels").judged == [qid]


def test_turns_that_are_taken_leave_the_others_their_sub_queries():
    two = pd.DataFrame({"qid": ["a::0", "b::0"], "qid_0": ["a", "b"], "query": ["tea", "milk"]})
    recorder = Recorder(["a", "b"], lambda text: f"<{text}>")
    recorder.end(Step(Finds(), two, out=two))
    recorder.take(["a"])
    request = Request([{"role": "user", "content": "Milk?"}], "ask", "b::0")
    inner = two.drop(columns="qid_0")
    recorder.end(Step(Finds(), inner, out=inner, asked=[(request, ANSWER)]))
    [line] = lines_kept(recorder, ["b"])
    assert (line["qid"], len(line["asked"])) == ("b", 1)
    assert line["stage"] == f"<{Finds()!r}>"


def test_requests_of_a_stage_that_joins_belong_to_the_turn():
    request = Request([{"role": "user", "content": "Tea?"}], "ask", "a::0")
    [line] = recorded(Step(Finds(), SUB, out=FRAME, asked=[(request, ANSWER)]))
    assert (line["qid"], len(line["asked"])) == ("a", 1)


def test_judged_turns_that_a_dataset_lacks_are_not_unasked():
    class Own:
        def get_topics(self):
            return TOPICS

        def get_qrels(self):
            return pd.concat([QRELS.assign(qid=["9_9", "9_8"]), QRELS])

    study = Study({"x": Finds()}, Own())
    assert study.judged == ["9_9", "9_8", "1_1", "1_2"]
    assert study.unasked == []
    assert study.asked == set(study.labels) == {"1_1", "1_2"}
