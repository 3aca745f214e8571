"""Several runs in one folder and their costs: of any name, of any price, at any second start."""

import json
import warnings

import pandas as pd
import pytest
from fakes import scripted
from recorded_lines import Gives, lines_kept

import pyterrier_ikat as ikat
from pyterrier_ikat.errors import DataError, UsageError
from pyterrier_ikat.events import observed_by
from pyterrier_ikat.llms import FatalLLMError, Ledger
from pyterrier_ikat.llms.failures import BatchUnderWay
from pyterrier_ikat.llms.ledger import AMOUNTS, COUNTS, Entry
from pyterrier_ikat.operator import Operator
from pyterrier_ikat.runs import RunFolder
from pyterrier_ikat.study import Study
from pyterrier_ikat.study.in_folders import SystemFailed
from pyterrier_ikat.study.recorder import Account, Recorder, Spending, ledger_of

TOPICS = pd.DataFrame({"qid": ["1_1", "1_2", "1_3"], "query": ["tea", "milk", "ale"]}).assign(
    qutterance=lambda frame: frame["query"]
)
QRELS = pd.DataFrame({"qid": ["1_1", "1_2"], "docno": ["a", "b"], "label": [1, 1]})


class Finds(Operator):
    """Finds a passage for each turn, or what a turn has in ``answers``: passages or an error."""

    def __init__(self, docno="a", **answers):
        super().__init__()
        self.docno, self.answers, self.seen = docno, answers, []

    def __repr__(self):
        return f"Finds({self.docno!r})"

    def transform(self, inp):
        if len(inp):
            self.seen.append(inp["qid"].tolist())
        found = []
        for qid in inp["qid"]:
            answer = self.answers.get(f"t{qid}", [self.docno])
            if isinstance(answer, Exception):
                raise answer
            found.append(answer)
        rows = inp.assign(docno=found).explode("docno").dropna(subset=["docno"])
        return rows.reset_index(drop=True).assign(score=1.0, rank=0)


def run(systems, out, **options):
    return ikat.run(systems, **({"topics": TOPICS, "qrels": QRELS, "out": out} | options))


# Costs


def spent(**counts):
    ledger = Ledger()
    ledger.count("answer", "m", served="s", **counts)
    return ledger


def finished(out, name, ledger):
    (out / name).mkdir()
    (out / name / "run.json").write_text("{}")
    ledger.frame().to_csv(out / name / "ledger.csv", index=False)
    return RunFolder(out / name)


def begun(out, name, **counts):
    (out / f"{name}.partial").mkdir()
    account = Account(out / f"{name}.partial" / "costs.jsonl")
    account.enter(Entry("answer", "m", counts, "s", key="k", answered=True))
    return account


@pytest.mark.parametrize("name", ["stage", "model", "served", *COUNTS, *AMOUNTS])
def test_a_ledger_without_one_of_its_columns_is_not_read(tmp_path, name):
    folder = finished(tmp_path, "run", spent(calls=2, cost=0.5))
    assert ledger_of(folder).rows()[0]["calls"] == 2
    path = tmp_path / "run" / "ledger.csv"
    pd.read_csv(path).drop(columns=name).to_csv(path, index=False)
    with pytest.raises(DataError, match=f"no column {name}"):
        ledger_of(folder)


def test_all_counts_of_a_finished_run_are_read(tmp_path):
    counts = {name: number for number, name in enumerate((*COUNTS, *AMOUNTS), 1)}
    folder = finished(tmp_path, "run", spent(**counts))
    assert ledger_of(folder).rows() == spent(**counts).rows()


def test_runs_with_points_in_their_names_are_all_paid_for(tmp_path):
    finished(tmp_path, "raw", spent(calls=1, cost=0.5))
    finished(tmp_path, "raw.repeat-2", spent(calls=1, cost=0.25))
    begun(tmp_path, "raw.repeat-3", calls=1, cost=0.125)
    begun(tmp_path, "raw", calls=1, cost=8.0)  # left by a kill
    (tmp_path / "notes.partial.txt").write_text("no run")
    assert Spending(tmp_path, Ledger()).total("m", None, None) == 0.875


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ({"cost": 0.0, "prompt_tokens": 1000, "completion_tokens": 1000}, 0.0),  # it was free
        ({"cost": None, "prompt_tokens": 0, "completion_tokens": 3}, 3e-5),
        ({"cost": None, "prompt_tokens": 5, "completion_tokens": 0}, 1e-5),
    ],
)
def test_free_calls_and_calls_of_no_tokens_have_a_cost(tmp_path, counts, expected):
    begun(tmp_path, "one", calls=1, **counts)
    spending = Spending(tmp_path, Ledger())
    assert spending.total("m", 2.0, 10.0) == pytest.approx(expected)
    assert spending.total("m", 0.0, 0.0) == 0
    assert spending.total("other", 2.0, 10.0) == 0


def test_what_this_process_spends_is_counted_at_prices_too(tmp_path):
    now = Ledger()
    spending = Spending(tmp_path, now)
    now.count("answer", "m", calls=1, cost=None, prompt_tokens=5, completion_tokens=1)
    now.count("rewrite", "m", calls=1, cost=0.5, prompt_tokens=5, completion_tokens=1)
    assert spending.total("m", 2.0, 10.0) == pytest.approx(0.5 + 2e-5)
    now.count("answer", "m", calls=1, cost=None, prompt_tokens=None, completion_tokens=1)
    with pytest.raises(FatalLLMError, match="calls of m whose cost is not known"):
        spending.total("m", 2.0, 10.0)


def test_batches_of_a_run_under_way_are_added_in_all_columns(tmp_path):
    account = begun(tmp_path, "one", calls=1, cost=0.5, prompt_tokens=7)
    account.enter(Entry("rewrite", "m", {"known": 1, "worth": 0.25}, "s", key="l", answered=False))
    for number, failures in ((0, 1), (128, 2)):
        rest = spent(failures=failures, dropped=4).rows()
        (tmp_path / "one.partial" / f"{number:06d}.ledger.json").write_text(json.dumps(rest))
    ledger = ledger_of(RunFolder(tmp_path / "one"))
    names = ("stage", "calls", "known", "cost", "worth", "failures", "dropped", "prompt_tokens")
    assert [[row[name] for name in names] for row in ledger.rows()] == [
        ["answer", 1, 0, 0.5, 0, 3, 8, 7],
        ["rewrite", 0, 1, 0, 0.25, 0, 0, 0],
    ]


# Batches and starts


def test_all_batches_that_wait_are_named_and_the_others_kept(tmp_path):
    waits = Finds(t1_1=BatchUnderWay(["one"]), t1_3=BatchUnderWay(["three", "more"]))
    other = Finds("b", t1_1=BatchUnderWay(["other"]))
    with pytest.raises(BatchUnderWay) as caught:
        run({"x": waits, "y": other}, tmp_path, turns_at_once=1)
    assert caught.value.waiting == ["one", "three", "more", "other"]
    assert waits.seen == [["1_1"], ["1_2"], ["1_3"]]
    again = Finds()
    done = run({"x": again}, tmp_path, turns_at_once=9)
    assert again.seen == [["1_1"], ["1_3"]]
    assert done.folders["x"].results()["qid"].tolist() == ["1_1", "1_2", "1_3"]


def test_a_kept_batch_without_a_passage_is_not_run_again(tmp_path):
    with pytest.raises(ZeroDivisionError):
        run({"x": Finds(t1_1=[], t1_3=ZeroDivisionError())}, tmp_path, turns_at_once=1)
    again = Finds()
    done = run({"x": again}, tmp_path)
    assert again.seen == [["1_3"]]
    assert done.runs["x"].answered == {"1_2", "1_3"}
    assert [turn["qid"] for turn in done.folders["x"].turns()] == ["1_1", "1_2", "1_3"]
    assert list(done.gaps()) == []  # the table names the turn, as it is judged


def test_an_unjudged_turn_without_passages_is_told_by_name(tmp_path):
    done = run({"x": Finds(t1_3=[], t1_1=[]), "y": Finds()}, tmp_path)
    assert list(done.gaps()) == ["x: 1 turn without any passage, not judged: 1_3"]


def test_all_systems_that_failed_are_told_with_the_first_cause(tmp_path):
    first = Finds(t1_2=ZeroDivisionError("by zero"))
    second = Finds("b", t1_1=DataError("no such thing"))
    with pytest.raises(SystemFailed) as caught:
        run({"x": first, "y": second, "z": Finds()}, tmp_path)
    assert str(caught.value) == (
        "x failed: ZeroDivisionError: by zero; y failed: no such thing. "
        "What is finished is kept: run again after the repair"
    )
    assert list(caught.value.failed) == ["x", "y"]
    assert caught.value.__cause__ is first.answers["t1_2"]
    assert RunFolder(tmp_path / "z").complete


@pytest.mark.parametrize("stored", [None, "", "qid,P(rel=1)@1\n", b"\xff\xfe"])
def test_lost_scores_of_a_finished_run_are_computed_again(tmp_path, stored):
    run({"x": Finds()}, tmp_path, measures=["P@1"])
    path = tmp_path / "x" / "measures.csv"
    whole = path.read_text()
    if stored is None:
        path.unlink()
    else:
        path.write_bytes(stored if isinstance(stored, bytes) else stored.encode())
    again = Finds()
    done = run({"x": again}, tmp_path, measures=["P@1"])
    assert (again.seen, path.read_text()) == ([], whole)
    assert done.table.values.tolist() == [["x", 0.5, 2]]


def test_scores_of_earlier_measures_stay_in_the_folder(tmp_path):
    run({"x": Finds()}, tmp_path, measures=["P@1", "RR"])
    done = run({"x": Finds()}, tmp_path, measures=["R@1"])
    stored = list(done.folders["x"].measures().columns)
    assert stored[:3] == ["R(rel=1)@1", "P(rel=1)@1", "RR(rel=1)"]
    assert len(stored) == len(set(stored)) > 5
    assert done.table.columns.tolist()[1:2] == ["R(rel=1)@1"]


def test_each_model_of_a_call_counts_in_the_studys_ledger(tmp_path):
    (first, _), (second, _) = scripted(*"abc"), scripted(*"def")
    pipeline = ikat.Rewrite(first) >> ikat.Answer(second) >> Finds()
    done = run({"x": pipeline}, tmp_path)
    rows = done.ledger.frame().groupby("stage")["calls"].sum().to_dict()
    assert rows == {"answer": 3, "rewrite": 3}
    stored = pd.read_csv(tmp_path / "x" / "ledger.csv")
    assert stored.groupby("stage")["calls"].sum().to_dict() == rows
    lines = [(line["qid"], list(line)[2:]) for line in done.folders["x"].stages()]
    for qid in TOPICS["qid"]:
        of_turn = [keys for turn, keys in lines if turn == qid]
        assert of_turn == [["asked", "wrote"], ["asked", "wrote"], ["found", "query"]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        done = run({"x": pipeline}, tmp_path)  # it is there
    assert done.ledger.frame().empty


def test_chosen_turns_are_in_the_order_of_the_topics():
    study = Study({"x": Finds()}, topics=TOPICS, qrels=QRELS)
    assert study.turns_of(study.systems[0]).ids == ("1_1", "1_2", "1_3")
    assert (study.judged, study.unasked) == (["1_1", "1_2"], [])
    chosen = Study({"x": Finds()}, topics=TOPICS, qrels=QRELS, turns=["1_3", "1_2"])
    assert chosen.turns_of(chosen.systems[0]).ids == ("1_2", "1_3")
    assert (chosen.judged, chosen.unasked) == (["1_2"], [])


# The recorder


def test_stages_are_recorded_in_order_turn_by_turn():
    first = TOPICS[:2].assign(qa=["x", "y"])
    second = first.assign(qb=[1, None], docno=["a", "b"], score=[2.0, 1.0])
    recorder = Recorder(["1_2", "1_1"], lambda text: "stage")
    with observed_by(recorder):
        Gives(second)(Gives(first)(TOPICS[:2]))
    lines = lines_kept(recorder, ["1_1", "1_2"])
    found = {"1_1": ("tea", "a", 2.0), "1_2": ("milk", "b", 1.0)}
    expected = []
    for qid, value in (("1_1", "x"), ("1_2", "y")):
        query, docno, score = found[qid]
        expected.append({"qid": qid, "stage": "stage", "wrote": {"qa": value}})
        line = {"qid": qid, "stage": "stage"}
        if qid == "1_1":
            line["wrote"] = {"qb": 1}
        asked = {"qid": qid, "query": query, "docnos": [docno], "scores": [score]}
        expected.append({**line, "found": [asked], "query": query})
    assert lines == expected


# Comparisons


def compared(systems, **options):
    table = ikat.experiment(systems, **({"topics": TOPICS, "qrels": QRELS} | options))
    return table.values.tolist()


def test_an_experiment_is_on_the_chosen_turns_and_measures():
    finds = Finds()
    assert compared({"x": finds}, measures=["R@1"], turns=["1_3", "1_1"]) == [["x", 1.0, 1]]
    assert finds.seen == [["1_1"]]
    assert compared({"x": finds}, eval_metrics=["R@1", "P@2"]) == [["x", 0.5, 0.25, 2]]
    with pytest.raises(UsageError, match="measures and eval_metrics are the same"):
        compared({"x": finds}, measures=["R@1"], eval_metrics=["R@1"])


def test_pyterriers_order_takes_the_judgements_of_its_topics():
    systems = [Finds(), Finds("b")]
    qrels = pd.concat([QRELS, QRELS.assign(docno="b", label=0)[:1]])
    table = ikat.experiment(systems, TOPICS[:1], qrels, ["R@1"], names=["x", "y"])
    assert table.values.tolist() == [["x", 1.0, 1], ["y", 0.0, 1]]
    with pytest.raises(DataError, match="1 turn of the qrels not in the topics .1_2"):
        compared({"x": Finds()}, topics=TOPICS[:1], measures=["R@1"])


def test_all_batches_of_an_experiment_are_sent_before_it_ends():
    systems = {
        "x": Finds(t1_1=BatchUnderWay(["one"])),
        "y": Finds("b"),
        "z": Finds("c", t1_2=BatchUnderWay(["two", "three"])),
    }
    with pytest.raises(BatchUnderWay) as caught:
        compared(systems, measures=["R@1"])
    assert caught.value.waiting == ["one", "two", "three"]
    assert systems["y"].seen == [["1_1", "1_2"]]


def test_a_unit_and_a_baseline_are_checked_before_anything_runs(tmp_path):
    model, backend = scripted()
    systems = {"x": ikat.Rewrite(model) >> Finds(), "y": Finds("b")}
    for options, message in (
        ({"unit": "village", "baseline": "x"}, "unit='village' is unknown"),
        ({"unit": "turn"}, "unit='turn' .*: give baseline="),
        ({"baseline": "x.repeat-2", "repeats": 2}, "'x.repeat-2' is not one of the systems"),
        ({"baseline": "z"}, "'z' is not one of the systems"),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with pytest.raises(UsageError, match=message):
                run(systems, tmp_path, **options)
            with pytest.raises(UsageError, match=message):
                ikat.plan(systems, topics=TOPICS, **options)
    assert (backend.asked, systems["y"].seen, list(tmp_path.iterdir())) == ([], [], [])
    assert ikat.plan(systems, topics=TOPICS, baseline="y", unit="turn").total["calls"] == 3


def test_a_baseline_without_judgements_gives_the_names_alone(tmp_path):
    qrels = QRELS.assign(qid=["8_1", "8_2"])
    with pytest.warns(UserWarning, match="none of the turns is judged"):
        done = run({"x": Finds(), "y": Finds("b")}, tmp_path, qrels=qrels, baseline="x")
    assert done.table.values.tolist() == [["x"], ["y"]]
    assert done.shown().rows is done.table


def test_the_results_are_of_the_folder_as_it_was_given(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = run({"x": Finds()}, "runs")
    assert str(done.out) == "runs"
    assert str(done.folders["x"].path) == "runs/x"
    assert done.shown().rows is done.table
    assert (done.baseline, done.unit) == (None, None)


def test_what_another_system_left_beside_a_finished_run_goes(tmp_path):
    with pytest.raises(ZeroDivisionError):
        run({"x": Finds("b", t1_2=ZeroDivisionError())}, tmp_path / "other", turns_at_once=1)
    run({"x": Finds()}, tmp_path / "runs")
    left = (tmp_path / "other" / "x.partial").rename(tmp_path / "runs" / "x.partial")
    again = Finds()
    run({"x": again}, tmp_path / "runs")
    assert (again.seen, left.exists()) == ([], False)


def test_passages_of_one_score_are_stored_in_their_order(tmp_path):
    judged = QRELS.assign(docno=["c", "b"])
    given = {"measures": ["P@1"], "qrels": judged}
    done = run({"x": Finds(t1_1=["b", "a", "c"])}, tmp_path, **given)
    stored = done.folders["x"].results()
    first = stored[stored["qid"] == "1_1"]
    assert first["docno"].tolist() == ["b", "a", "c"]
    assert first["score"].is_monotonic_decreasing
    assert first["score"].is_unique
    assert done.runs["x"].scores["P(rel=1)@1"] == [0.0, 0.0]


def test_a_system_that_found_no_judged_turn_is_not_tested(tmp_path):
    systems = {
        "x": Finds(),
        "y": Finds("b", t1_1=[]),
        "z": Finds("a", t1_1=[], t1_2=[]),
    }
    done = run(systems, tmp_path, measures=["P@1"], baseline="x", unit="turn")
    rows = done.table.set_index("name")
    assert rows["P(rel=1)@1"].tolist() == [0.5, 0.5, 0.0]
    tested = [name for name in rows.columns if "p-value" in name]
    assert tested
    assert rows.loc["y", tested].notna().all()
    assert rows.loc["z", tested].isna().all()


def test_a_repeated_system_that_found_no_judged_turn_is_not_tested(tmp_path):
    (first, _), (second, _) = scripted(*["tea"] * 6), scripted(*["tea"] * 6)
    systems = {
        "x": ikat.Rewrite(first) >> Finds(),
        "z": ikat.Rewrite(second) >> Finds(t1_1=[], t1_2=[]),
    }
    done = run(systems, tmp_path, measures=["P@1"], baseline="x", unit="turn", repeats=2)
    rows = done.table.set_index("name")
    assert rows["P(rel=1)@1"].tolist() == [0.5, 0.0]
    tested = [name for name in rows.columns if "p-value" in name]
    assert tested
    assert rows.loc["z", tested].isna().all()
