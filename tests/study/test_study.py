"""What a study checks and knows of its turns, judgements, repeats, models and their ledgers."""

import warnings

import pandas as pd
import pyterrier as pt
import pytest
import three_turns
from recorded_lines import Finds

import pyterrier_ikat as ikat
from pyterrier_ikat.errors import DataError, UsageError
from pyterrier_ikat.llms import Backend, Ledger
from pyterrier_ikat.lost_columns import has_column
from pyterrier_ikat.methods import Method
from pyterrier_ikat.study import RepeatsWarning, Study
from pyterrier_ikat.study.study import NotJudgedWarning

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


def test_a_recorded_model_knows_the_turns_of_the_topics():
    given = {"llm": "recorded:sample", "retriever": Finds(), "topics": TOPICS}
    assert Study("raw", retriever=Finds(), topics=TOPICS).systems[0].models == []
    assert Study("ad", **given).systems


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


FOUR_TURNS = pd.DataFrame(
    {"qid": ["1_1", "1_2", "2_1", "2_2"], "query": ["tea", "milk", "ale", "gin"]}
).assign(qutterance=lambda frame: frame["query"])
THREE_JUDGED = pd.DataFrame(
    {"qid": ["1_1", "1_2", "2_1"], "docno": ["a", "b", "c"], "label": [1, 1, 1]}
)


def test_a_study_knows_judged_and_unasked_turns():
    study = Study({"x": Finds("a")}, topics=FOUR_TURNS.iloc[1:], qrels=THREE_JUDGED)
    assert study.asked == {"1_2", "2_1", "2_2"}
    assert study.judged == ["1_2", "2_1"]
    assert study.unasked == ["1_1"]
    assert study.labels == {"1_2": {"b": 1}, "2_1": {"c": 1}}
    assert study.qrels.index.tolist() == [0, 1]
    assert (study.dataset, study.data) == (None, None)
    chosen = Study({"x": Finds("a")}, topics=FOUR_TURNS, qrels=THREE_JUDGED, turns=["1_2", "2_2"])
    assert (chosen.asked, chosen.judged, chosen.unasked) == ({"1_2", "2_2"}, ["1_2"], [])
    with pytest.raises(UsageError, match="there is nothing to run on"):
        Study({"x": Finds("a")})


def test_judgements_of_another_turn_tell_the_collection_too():
    study = Study({"x": Finds("a")}, topics=FOUR_TURNS.iloc[[1]], qrels=THREE_JUDGED)
    [system] = study.systems
    assert study.is_of_judged_collection(system, {"1_2": {"z": 1.0, "a": 0.5}})
    assert not study.is_of_judged_collection(system, {"1_2": {"z": 1.0}})
    assert not study.is_of_judged_collection(system, {})


def test_chosen_turns_are_in_the_order_of_the_topics():
    study = Study({"x": Finds()}, topics=three_turns.TOPICS, qrels=three_turns.QRELS)
    assert study.turns_of(study.systems[0]).ids == ("1_1", "1_2", "1_3")
    assert (study.judged, study.unasked) == (["1_1", "1_2"], [])
    chosen = Study(
        {"x": Finds()}, topics=three_turns.TOPICS, qrels=three_turns.QRELS, turns=["1_3", "1_2"]
    )
    assert chosen.turns_of(chosen.systems[0]).ids == ("1_2", "1_3")
    assert (chosen.judged, chosen.unasked) == (["1_2"], [])
