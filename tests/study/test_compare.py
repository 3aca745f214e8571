"""Small comparisons in memory and in folders: each argument, and every row of the tables."""

import json
from types import SimpleNamespace

import pandas as pd
import pyterrier as pt
import pytest
from fakes import scripted

import pyterrier_ikat as ikat
from pyterrier_ikat.errors import DataError, UsageError
from pyterrier_ikat.llms import Backend, Reply
from pyterrier_ikat.methods import Method
from pyterrier_ikat.operator import Operator
from pyterrier_ikat.runs import RunFolder
from pyterrier_ikat.study import Study
from pyterrier_ikat.study.compare import ScoreTable
from pyterrier_ikat.study.in_folders import SystemFailed

TOPICS = pd.DataFrame(
    {"qid": ["1_1", "1_2", "2_1", "2_2"], "query": ["tea", "milk", "ale", "gin"]}
).assign(qutterance=lambda frame: frame["query"])
QRELS = pd.DataFrame({"qid": ["1_1", "1_2", "2_1"], "docno": ["a", "b", "c"], "label": [1, 1, 1]})


class Finds(Operator):
    """Finds its docnos for every turn, the first one best; remembers the frames."""

    def __init__(self, *docnos, only=()):
        super().__init__()
        self.docnos = docnos
        self.only = only
        self.seen = []

    def arguments(self):
        return {"docnos": self.docnos, "only": self.only}

    def __repr__(self):
        return f"Finds{(*self.docnos, *self.only)!r}"

    def transform(self, inp):
        if len(inp):
            self.seen.append(inp["qid"].tolist())
        turns = inp[inp["qid"].isin(self.only)] if self.only else inp
        found = {"docno": self.docnos, "score": [float(-n) for n in range(len(self.docnos))]}
        passages = pd.DataFrame({**found, "rank": range(len(self.docnos))})
        return turns.merge(passages, how="cross")


class Refuses(Operator):
    """Must not be run on turns."""

    def transform(self, inp):
        assert inp.empty, "it was run"
        return inp.assign(docno="", score=0.0, rank=0)


def data(**more):
    return {"topics": TOPICS.head(3), "qrels": QRELS, **more}


def test_only_judged_turns_are_run_in_memory():
    system = Finds("a", "b", "c")
    table = ikat.experiment({"x": system}, topics=TOPICS, qrels=QRELS, measures=["RR", "R@1"])
    assert system.seen == [["1_1", "1_2", "2_1"]]
    assert table.columns.tolist() == ["name", "RR(rel=1)", "R(rel=1)@1", "turns"]
    assert table["name"].tolist() == ["x"]
    assert table["RR(rel=1)"].tolist() == [pytest.approx((1 + 1 / 2 + 1 / 3) / 3)]
    assert table["R(rel=1)@1"].tolist() == [pytest.approx(1 / 3)]
    assert table["turns"].tolist() == [3]


def test_chosen_turns_alone_are_run_and_averaged():
    system = Finds("b")
    table = ikat.experiment({"x": system}, **data(turns=["1_2", "2_1"]), measures=["R@1"])
    assert system.seen == [["1_2", "2_1"]]
    assert table[["R(rel=1)@1", "turns"]].values.tolist() == [[0.5, 2]]


def test_judged_turns_that_the_topics_lack_are_named():
    with pytest.raises(DataError, match=r"1 turn of the qrels not in the topics \(2_1\)"):
        ikat.experiment({"x": Refuses()}, topics=TOPICS.head(2), qrels=QRELS, measures=["R@1"])


def test_a_comparison_has_columns_of_its_baseline():
    systems = [Finds("a"), Finds("a", "b", "c")]
    for baseline in (0, "x"):
        table = ikat.experiment(
            systems, **data(), measures=["RR"], baseline=baseline, names=["x", "y"], unit="turn"
        )
        assert table["name"].tolist() == ["x", "y"]
        assert len(table.columns) > 3
    alone = ikat.experiment(systems, **data(), measures=["RR"], names=["x", "y"])
    assert alone.columns.tolist() == ["name", "RR(rel=1)", "turns"]


def test_the_unit_of_a_test_changes_what_is_tested():
    systems = {"x": Finds("a"), "y": Finds("a", "b", "c")}
    topics = TOPICS.head(3).assign(qconversation=["1", "1", "2"], qturn=[1, 2, 1])
    options = {"topics": topics, "qrels": QRELS, "measures": ["RR"], "baseline": "x"}
    by_turn = ikat.experiment(systems, **options, unit="turn")
    by_conversation = ikat.experiment(systems, **options, unit="conversation")
    assert not by_turn.equals(by_conversation)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"baseline": "z"}, "the baseline 'z' is not one of the systems: x"),
        ({"baseline": "x", "unit": "word"}, "unit='word' is unknown"),
        ({"unit": "turn"}, "unit='turn' is the unit of tests.*give baseline="),
        ({"measures": ["nDCG@"]}, "nDCG@"),
    ],
)
def test_wrong_options_are_told_before_anything_is_run(tmp_path, options, told):
    for call in (ikat.experiment, ikat.run, ikat.plan):
        given = data(out=tmp_path / "runs") if call is not ikat.experiment else data()
        if call is ikat.plan:
            del given["qrels"]
        with pytest.raises(UsageError, match=told):
            call({"x": Refuses()}, **given, **options)
    assert not (tmp_path / "runs").exists()


def test_finished_runs_are_checked_before_a_system_is_run():
    foreign = pd.DataFrame({"qid": ["1_1"], "docno": ["z"], "score": [1.0], "rank": [0]})
    for systems in ({"x": Refuses(), "done": foreign}, {"done": foreign, "x": Refuses()}):
        with pytest.raises(DataError, match="system done: none of its 1 passage is judged"):
            ikat.experiment(systems, **data(), measures=["RR"])
    with pytest.raises(UsageError, match="no column docno in run done"):
        ikat.experiment(
            {"done": foreign.drop(columns="docno"), "x": Refuses()}, **data(), measures=["RR"]
        )


def test_names_in_memory_may_be_any_texts():
    table = ikat.experiment({"a/b": Finds("a"), ".c": Finds("b")}, **data(), measures=["RR"])
    assert table["name"].tolist() == ["a/b", ".c"]
    with pytest.raises(UsageError, match="named 'a/b'"):
        ikat.run({"a/b": Refuses()}, **data())


def test_a_run_that_finds_no_turn_of_the_topics_is_refused():
    frame = pd.DataFrame({"qid": ["7_7"], "docno": ["a"], "score": [1.0], "rank": [0]})
    with pytest.raises(DataError, match="done"):
        ikat.experiment({"done": frame}, **data(), measures=["RR"])


def test_a_run_goes_into_folders_in_batches(tmp_path):
    system = Finds("a", "b")
    done = ikat.run(
        {"x": system},
        topics=TOPICS,
        qrels=QRELS,
        out=tmp_path,
        turns_at_once=3,
        measures=["P@1", "RR"],
    )
    assert system.seen == [["1_1", "1_2", "2_1"], ["2_2"]]
    assert done.table.columns.tolist() == ["name", "P(rel=1)@1", "RR(rel=1)", "turns"]
    assert done.table.values.tolist() == [["x", pytest.approx(1 / 3), pytest.approx(0.5), 3]]
    assert (done.out, list(done.folders)) == (tmp_path, ["x"])
    stored = done.folders["x"].measures()
    assert stored.columns.tolist()[:2] == ["P(rel=1)@1", "RR(rel=1)"]
    assert stored.index.tolist() == ["1_1", "1_2", "2_1"]
    parameters = done.folders["x"].parameters()
    assert (parameters["method"], parameters["turns"]) == ("x", 4)
    assert (parameters.get("dataset"), parameters["deviations"]) == (None, [])
    assert [turn["qid"] for turn in done.folders["x"].turns()] == TOPICS["qid"].tolist()
    assert list(tmp_path.iterdir()) == [tmp_path / "x"]


def test_a_finished_run_is_not_run_again_and_gets_new_measures(tmp_path):
    ikat.run({"x": Finds("a")}, **data(out=tmp_path), measures=["P@1"])
    second = Finds("a")
    done = ikat.run({"x": second}, **data(out=tmp_path), measures=["R@1"])
    assert second.seen == []
    assert done.table.columns.tolist() == ["name", "R(rel=1)@1", "turns"]
    columns = done.folders["x"].measures().columns.tolist()
    assert columns[:2] == ["R(rel=1)@1", "P(rel=1)@1"]
    assert len(columns) > 2  # those of the track


@pytest.mark.parametrize(
    ("system", "options", "told"),
    [
        (Finds("b"), {}, "different stages"),
        (Finds("a"), {"turns": ["1_1"]}, "different turns, topics_sha256"),
        (Finds("a"), {"topics": TOPICS.head(3).assign(query="x")}, "different topics_sha256"),
    ],
)
def test_another_run_in_the_folder_is_refused(tmp_path, system, options, told):
    ikat.run({"x": Finds("a")}, **data(out=tmp_path))
    with pytest.raises(UsageError, match=told):
        ikat.run({"x": system}, **(data(out=tmp_path) | options))
    planned = {"topics": TOPICS.head(3), "out": tmp_path} | options
    [reason] = ikat.plan({"x": system}, **planned).refused
    assert told in reason
    assert ikat.plan({"x": Finds("a")}, topics=TOPICS.head(3), out=tmp_path).refused == []
    assert ikat.plan({"x": system}, topics=TOPICS.head(3)).refused == []


def test_a_plan_says_why_each_run_would_be_refused(tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").write_text("mine")
    systems = {
        "full": Finds("a"),
        "none": pt.apply.generic(lambda turns: turns),
        "fine": Finds("b"),
    }
    reasons = ikat.plan(systems, topics=TOPICS, out=tmp_path).refused
    assert len(reasons) == 2
    assert "full is not empty and holds no finished run" in reasons[0]
    assert "none makes no ranking" in reasons[1]
    twice = pd.concat([TOPICS, TOPICS])
    for reason in ikat.plan(systems, twice, out=tmp_path).refused:
        assert "several rows" in reason


def test_repeats_are_rows_folders_and_chains(tmp_path):
    model, backend = scripted(*["tea"] * 9)
    system = ikat.Rewrite(model) >> Finds("a")
    plan = ikat.plan({"x": system}, topics=TOPICS.head(3), repeats=3)
    assert plan["system"].tolist() == ["x", "x.repeat-2", "x.repeat-3"]
    assert plan["new"].tolist() == [3, 3, 3]
    with pytest.raises(UsageError, match="'x.repeat-2' is not one of the systems: x$"):
        ikat.plan({"x": system}, topics=TOPICS.head(3), repeats=3, baseline="x.repeat-2")
    with pytest.warns(ikat.study.RepeatsWarning):
        done = ikat.run({"x": system, "y": Finds("b")}, **data(out=tmp_path), repeats=3)
    assert list(done.folders) == ["x", "x.repeat-2", "x.repeat-3", "y"]
    assert len(backend.asked) == 9
    assert done.table["name"].tolist() == ["x", "y"]
    assert done.folders["x.repeat-2"].parameters()["repeat"] == 2
    assert done.folders["x.repeat-2"].parameters()["method"] == "x"
    assert (tmp_path / "x.repeat-2" / "run.trec").read_text().endswith(" x.repeat-2\n")
    assert "repeat" not in done.folders["x"].parameters()


def test_a_plan_takes_its_turns_once():
    with pytest.raises(UsageError, match="the turns are given twice"):
        ikat.plan({"x": Finds("a")}, TOPICS, topics=TOPICS)
    model, _ = scripted()
    system = ikat.Rewrite(model) >> Finds("a")
    assert ikat.plan({"x": system}, TOPICS, turns=["1_1"])["calls"].tolist() == [1]
    assert ikat.plan({"x": system}, TOPICS)["calls"].tolist() == [4]


def test_a_plan_of_given_turns_needs_none_of_their_columns():
    given = pd.DataFrame({"qid": ["1-1_1"]})
    planned = ikat.plan({"x": ikat.AllUtterances() >> Finds("a")}, "ikat:sample", topics=given)
    assert planned["system"].tolist() == ["x"]


def test_turns_that_a_system_leaves_out_are_told(tmp_path):
    systems = {"all": Finds("a"), "few": Finds("a", only=("1_1", "1_2"))}
    done = ikat.run(systems, topics=TOPICS, qrels=QRELS, out=tmp_path, measures=["RR"])
    assert done.runs["few"].answered == {"1_1", "1_2"}
    assert list(done.gaps()) == ["few: 1 turn without any passage, not judged: 2_2"]
    notes = " ".join(done.shown().notes)
    assert "few" in notes
    assert "2_1" in notes
    assert repr(done) == done.shown().text().rstrip("\n")


def system_of(name, *deviations, repeat=1):
    return SimpleNamespace(name=name, deviations=deviations, repeat=repeat)


def test_deviations_stand_once_the_most_common_first():
    scores = pd.DataFrame({"name": ["a", "b", "c"]})
    scores.attrs["turns"] = "kept"
    systems = [
        system_of("a", "llm: other", "depth: 5"),
        system_of("b", "depth: 5"),
        system_of("b.repeat-2", "llm: never", repeat=2),
        system_of("c", "depth: 5", "llm: third"),
    ]
    table = ScoreTable.of(scores, systems)
    assert table.attrs["deviations"] == ["all systems: depth: 5", "a: llm: other", "c: llm: third"]
    assert table.attrs["turns"] == "kept"
    assert isinstance(table, ScoreTable)
    assert "deviations" not in scores.attrs
    assert ScoreTable.of(scores, [system_of("a")]) is scores
    assert ScoreTable.of(scores, [system_of("a", "x")]).attrs["deviations"] == ["a: x"]
    two = [system_of("a", "x"), system_of("b", "x"), system_of("c")]
    assert ScoreTable.of(scores, two).attrs["deviations"] == ["a, b: x"]
    assert ScoreTable.of(scores, two[:2]).attrs["deviations"] == ["all systems: x"]


def test_a_missing_qrels_file_or_wrong_frame_is_an_error(tmp_path):
    for qrels in (tmp_path / "none.qrels", QRELS.drop(columns="docno"), "nonsense"):
        with pytest.raises((UsageError, DataError)):
            Study({"x": Refuses()}, topics=TOPICS, qrels=qrels)
    path = tmp_path / "my.qrels"
    path.write_text("1_1 0 a 1\n")
    assert Study({"x": Finds("a")}, topics=TOPICS, qrels=path).judged == ["1_1"]
    assert Study({"x": Finds("a")}, topics=TOPICS).judged == []


def test_a_turn_twice_is_refused_unless_only_planned():
    twice = pd.concat([TOPICS, TOPICS.head(1)])
    with pytest.raises(DataError, match="turn 1_1 has several rows"):
        Study({"x": Refuses()}, topics=twice)
    assert len(Study({"x": Refuses()}, topics=twice, only_plan=True).systems) == 1


def test_a_stage_that_makes_no_ranking_is_told_first(tmp_path):
    keeps = pt.apply.generic(lambda turns: turns)
    with pytest.raises(UsageError, match="system x makes no ranking.*docno, score, rank"):
        ikat.run({"x": keeps}, **data(out=tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_systems_that_fail_let_the_others_finish(tmp_path):
    class Breaks(Finds):
        def transform(self, inp):
            if len(inp):
                raise ZeroDivisionError("by zero")
            return super().transform(inp)

    systems = {"bad": Breaks("a"), "good": Finds("a")}
    with pytest.raises(SystemFailed, match="bad failed: ZeroDivisionError: by zero") as told:
        ikat.run(systems, **data(out=tmp_path))
    assert list(told.value.failed) == ["bad"]
    assert RunFolder(tmp_path / "good").complete
    with pytest.raises(ZeroDivisionError):
        ikat.run({"bad": Breaks("a")}, **data(out=tmp_path / "alone"))


def test_the_folder_of_a_run_that_responds_notes_its_abstentions(tmp_path):
    model, _ = scripted(*["Yes."] * 3)
    few = Finds("a", "b", only=("1_1", "1_2", "2_1"))
    system = few >> pt.apply.generic(lambda found: found.assign(text="x")) >> ikat.Respond(model)
    done = ikat.run({"x": system}, topics=TOPICS, qrels=QRELS, out=tmp_path)
    parameters = json.loads((tmp_path / "x" / "run.json").read_text())
    [note] = parameters["notes"]
    assert note.startswith("1 turn without any passage, answered ")
    assert note.endswith(": 2_2")
    assert f"x: {note}" in list(done.gaps())


def test_deviations_stand_below_the_table_and_in_the_folder(tmp_path):
    def system(retriever):
        return ikat.RawUtterance() >> retriever

    entry = Method("x", system, models={"retriever": "SPLADE"})
    given = {"topics": TOPICS, "qrels": QRELS, "retriever": Finds("a")}
    done = ikat.run([entry], **given, out=tmp_path)
    [line] = done.folders["x"].parameters()["deviations"]
    assert line.startswith("retriever: the paper has SPLADE, this run ")
    told = f"x: {line}"
    assert done.table.attrs["deviations"] == [told]
    assert done.shown().notes[-1] == f"note: {told}"
    table = ikat.experiment([entry], **given, measures=["RR"])
    assert table.attrs["deviations"] == [told]


def test_a_run_without_judgements_shows_its_names(tmp_path):
    with pytest.warns(UserWarning, match="none of the turns is judged"):
        done = ikat.run({"x": Finds("a"), "y": Finds("b")}, topics=TOPICS, out=tmp_path)
    assert done.table["name"].tolist() == ["x", "y"]
    assert [row.strip() for row in repr(done).split("\n")] == ["name", "x", "y"]
    assert list(done.gaps()) == []


def test_turns_without_judged_passages_are_told_below_the_table(tmp_path):
    few = Finds("a", only=("1_1", "1_2"))
    table = ikat.experiment({"few": few}, **data(), measures=["RR"])
    assert table["turns"].tolist() == [3]
    assert table.attrs["turns"][-1] == "few lacks 1 judged turn, counted 0: 2_1."
    done = ikat.run({"few": Finds("a", only=("1_1", "1_2"))}, **data(out=tmp_path))
    assert [note for note in done.shown().notes if "2_1" in note]


def test_measures_of_a_folder_are_the_asked_and_the_tracks(tmp_path):
    done = ikat.run({"x": Finds("a")}, **data(out=tmp_path), measures=["P@7"])
    columns = done.folders["x"].measures().columns.tolist()
    assert columns[0] == "P(rel=1)@7"
    assert "nDCG@5" in columns
    default = ikat.run({"y": Finds("a")}, **data(out=tmp_path))
    assert default.table.columns.tolist()[1:-1] == [
        name for name in columns if name != "P(rel=1)@7"
    ]


def test_an_empty_list_of_systems_is_refused(tmp_path):
    for call in (ikat.run, ikat.experiment):
        with pytest.raises(UsageError, match="there is no system"):
            call({}, topics=TOPICS, qrels=QRELS)


def test_results_keep_their_baseline_unit_and_table(tmp_path):
    topics = TOPICS.assign(qconversation=["1", "1", "2", "2"], qturn=[1, 2, 1, 2])
    systems = {
        "x": Finds("a"),
        "y": Finds("a", "b", "c"),
        "none": Finds("a", only=("2_2",)),  # for no judged turn
    }
    given = {"topics": topics, "qrels": QRELS, "out": tmp_path, "measures": ["RR"]}
    done = ikat.run(systems, **given, baseline="x", unit="turn")
    assert (done.baseline, done.unit) == ("x", "turn")
    pd.testing.assert_frame_equal(pd.DataFrame(done.shown().rows), pd.DataFrame(done.table))
    rows = done.table.set_index("name")
    assert rows["RR(rel=1)"].tolist() == pytest.approx([1 / 3, 11 / 18, 0])
    assert rows[["unit", "clusters"]].values.tolist() == [["turn", 3]] * 3
    assert rows["RR(rel=1) p-value"].isna().tolist() == [True, False, True]
    assert (rows.loc["y", "RR(rel=1) +"], rows.loc["none", "RR(rel=1) -"]) == (2, 1)
    by_chat = ikat.run(systems, **given, baseline="y", unit="conversation")
    assert (by_chat.baseline, by_chat.unit) == ("y", "conversation")
    assert by_chat.table[["unit", "clusters"]].values.tolist() == [["conversation", 2]] * 3


def test_a_baseline_may_be_named_before_anything_is_judged(tmp_path):
    systems = {"x": Finds("a"), "y": Finds("b")}
    with pytest.warns(UserWarning, match="none of the turns is judged"):
        done = ikat.run(systems, topics=TOPICS, out=tmp_path, baseline="y")
    assert (done.table["name"].tolist(), done.baseline) == (["x", "y"], "y")


def test_a_dataset_has_measures_of_its_own(tmp_path):
    sample = ikat.dataset("ikat:sample")
    sample.measures = ("P@3",)
    docno = sample.get_qrels()["docno"][0]
    given = {"turns": ["1-1_1"], "out": tmp_path}
    own = ikat.run({"x": Finds(docno)}, sample, **given)
    assert own.table.columns.tolist() == ["name", "P(rel=1)@3", "turns"]
    asked = ikat.run({"x": Finds(docno)}, sample, **given, measures=["RR"])
    assert asked.table.columns.tolist() == ["name", "RR(rel=1)", "turns"]
    assert asked.runs["x"].folder.parameters()["dataset"] == "ikat:sample"


def test_a_number_names_a_baseline_in_the_order_that_was_given():
    systems = {"y": Finds("a"), "x": Finds("a", "b", "c")}
    for baseline, better in ((0, [None, 2]), (1, [0, None])):
        table = ikat.experiment(systems, **data(), measures=["RR"], baseline=baseline, unit="turn")
        wins = table["RR(rel=1) +"].astype(object)
        assert wins.where(wins.notna(), None).tolist() == better


class Chains(Backend):
    """A model that remembers the repeat of each request."""

    model, identity = "chains", {"provider": "fake", "model": "chains", "params": {}}

    def __init__(self):
        self.seen = []

    def complete(self, requests):
        self.seen += [request.chain for request in requests]
        return [Reply("tea") for _ in requests]


def test_a_number_counts_systems_and_no_repeats():
    backend = Chains()
    rewrite = ikat.Rewrite(ikat.llm(backend))
    systems = {"x": rewrite >> Finds("a"), "y": Finds("a", "b", "c")}
    with pytest.warns(ikat.study.RepeatsWarning):
        table = ikat.experiment(
            systems, **data(), measures=["RR"], baseline=1, repeats=2, unit="turn"
        )
    assert table["name"].tolist() == ["x", "x.repeat-2", "y"]
    assert table["RR(rel=1) -"].isna().tolist() == [False, False, True]
    assert backend.seen == [0, 0, 0, 1, 1, 1]
