"""Runs in folders: what stops all, what is kept and counted, and what a folder says of its run."""

import json
import re
import shutil
import warnings

import numpy as np
import pandas as pd
import pyterrier as pt
import pytest
from fakes import Scripted, scripted
from three_turns import QRELS, TOPICS, Finds, FindsByTurn, run

import pyterrier_ikat as ikat
from pyterrier_ikat.errors import DataError, UsageError
from pyterrier_ikat.generate.respond import ABSTENTION
from pyterrier_ikat.llms import llm
from pyterrier_ikat.llms.failures import BatchUnderWay, BudgetExceeded
from pyterrier_ikat.llms.ledger import Budget
from pyterrier_ikat.operator import Operator
from pyterrier_ikat.runs import RunFolder
from pyterrier_ikat.store.files import lock_folders
from pyterrier_ikat.study import AlikeWarning, Study
from pyterrier_ikat.study.in_folders import Run, SystemFailed, is_unanswered, note_of_abstention


def test_what_no_other_system_could_do_either_stops_all(tmp_path):
    second = Finds("b")
    with pytest.raises(OSError, match="disk"):
        run({"x": Finds(error=OSError("the disk is full")), "y": second}, tmp_path)
    assert second.seen == []


def test_a_system_that_waits_lets_the_others_finish(tmp_path):
    waiting = "a batch"
    error = BatchUnderWay([waiting])
    with pytest.raises(BatchUnderWay) as told:
        run({"x": Finds(error=error), "y": Finds("b")}, tmp_path)
    assert told.value.waiting == [waiting]
    assert RunFolder(tmp_path / "y").complete
    assert not RunFolder(tmp_path / "x").complete
    failed = Finds(error=DataError("no such thing"))
    systems = {"x": Finds(error=error), "z": failed}
    with pytest.raises(SystemFailed, match="^z failed: no such thing. What is finished") as told:
        run(systems, tmp_path / "other")
    assert list(told.value.failed) == ["z"]
    assert told.value.__cause__ is failed.error


def test_a_stopped_run_keeps_its_batches_and_goes_on_behind_them(tmp_path):
    with pytest.raises(ZeroDivisionError):
        run({"x": Finds(error=ZeroDivisionError(), at=1)}, tmp_path, turns_at_once=1)
    partial = tmp_path / "x.partial"
    batches = sorted(path.name for path in partial.glob("0*"))
    assert batches == [
        "000000.ledger.json",
        "000000.run.trec",
        "000000.stages.jsonl.gz",
        "000000.turns.jsonl",
    ]
    begun = json.loads((partial / "run.json").read_text())
    assert (begun["method"], begun["turns"]) == ("x", 3)
    assert "pyterrier" in begun["versions"]
    again = Finds()
    done = run({"x": again}, tmp_path, turns_at_once=2)
    assert again.seen == [["1_2", "1_3"]]
    assert done.folders["x"].results()["qid"].tolist() == ["1_1", "1_2", "1_3"]
    assert done.runs["x"].answered == {"1_1", "1_2", "1_3"}
    assert not partial.exists()


def test_batches_of_another_system_are_refused(tmp_path):
    with pytest.raises(ZeroDivisionError):
        run({"x": Finds(error=ZeroDivisionError(), at=1)}, tmp_path, turns_at_once=1)
    other = Finds("b")
    with pytest.raises(UsageError, match="x.partial holds finished batches of a run with differ"):
        run({"x": other}, tmp_path)
    assert other.seen == []


def test_what_a_kill_left_beside_a_finished_run_goes(tmp_path):
    run({"x": Finds()}, tmp_path)
    left = tmp_path / "x.partial"
    shutil.copytree(tmp_path / "x", left)
    run({"x": Finds()}, tmp_path)
    assert not left.exists()


def test_calls_count_once_in_call_model_and_folder(tmp_path):
    model, backend = scripted(*["tea"] * 3)
    second = llm(Scripted(*["milk"] * 3))
    systems = {"x": ikat.Rewrite(model) >> Finds(), "y": ikat.Rewrite(second) >> Finds()}
    done = run(systems, tmp_path)
    assert len(backend.asked) == 3
    assert done.ledger.frame()["calls"].sum() == 6
    for counted in (model.ledger, second.ledger):
        assert counted.frame()["calls"].sum() == 3
    for name in ("x", "y"):
        ledger = pd.read_csv(tmp_path / name / "ledger.csv")
        assert ledger["calls"].sum() == 3


def test_the_identity_of_a_run_has_its_dataset_but_no_folder(tmp_path):
    def identity(dataset, **options):
        study = Study({"x": Finds()}, dataset, turns=["1-1_1"], **options)
        return Run(study, study.systems[0], tmp_path), study

    named, study = identity("ikat:sample")
    assert named.identity["dataset"] == "ikat:sample"
    assert named.identity["turns"] == 1
    assert named.identity["method"] == "x"
    assert {"topics_sha256", "stages", "parts", "prompts", "on_error"} <= named.identity.keys()
    folder = tmp_path / "copy"
    shutil.copytree(study.data.folder, folder)
    placed, _ = identity(str(folder))
    assert "dataset" not in placed.identity
    assert placed.about["dataset"] == str(folder)


def test_a_run_has_its_parameters_and_notes(tmp_path):
    model, _ = scripted("Yes.", "No.")

    class Few(Finds):
        def transform(self, inp):
            return super().transform(inp[inp["qid"] != "1_2"]).assign(text="x")

    done = run({"x": Few() >> ikat.Respond(model)}, tmp_path)
    about = done.folders["x"].parameters()
    assert about["notes"] == [note_of_abstention(["1_2"], ABSTENTION)]
    assert about["ledger_rows"] == 1
    assert about["served"]
    assert about["deviations"] == []
    assert len(about["qrels_sha256"]) == 64
    plain = run({"y": Finds()}, tmp_path).folders["y"].parameters()
    assert "notes" not in plain
    assert plain["sources"] == []


def test_an_abstention_is_a_response_without_passages():
    assert is_unanswered({"passages": 0, "response": ""})
    assert not is_unanswered({"passages": 0})
    assert not is_unanswered({"passages": 1, "response": "Yes."})
    expected = "2 turns without any passage, answered 'No.': 1_1, 1_2"
    assert note_of_abstention(["1_1", "1_2"], "No.") == expected


def test_what_cannot_be_identified_is_told_on_reuse_alone(tmp_path):
    finds = pt.apply.generic(lambda turns: turns.assign(docno="a", score=1.0, rank=0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run({"x": finds}, tmp_path)
    with pytest.warns(
        AlikeWarning, match=r"results of x are reused from .*x, but its stage "
    ) as told:
        run({"x": finds}, tmp_path)
    assert len(told) == 1


def test_stages_before_the_retrieval_get_all_turns_at_once(tmp_path):
    class Before(Operator):
        one_row_per_turn = True

        def transform(self, inp):
            if len(inp):
                seen.append(len(inp))
            return inp.assign(query=inp["query"] + "!")

    class Later(Before):
        def transform(self, inp):
            if len(inp):
                later.append(len(inp))
            return inp

    seen = []
    later = []
    run({"x": Before() >> Finds() >> Later()}, tmp_path, turns_at_once=2)
    assert (seen, later) == ([3], [2, 1])


def test_a_spent_budget_stops_the_systems_behind_it(tmp_path):
    second = Finds("b")
    spent = BudgetExceeded(2.0, 1.0)
    with pytest.raises(BudgetExceeded):
        run({"x": Finds(error=spent), "y": second}, tmp_path)
    assert second.seen == []


def test_a_budget_of_nothing_is_one_of_the_folder(tmp_path):
    model, _ = scripted()
    model.budget = Budget(price_in=1.0, price_out=1.0, limit=0.0)
    with pytest.raises(BudgetExceeded) as raised:
        run({"x": ikat.Rewrite(model) >> Finds()}, tmp_path)
    assert raised.value.where == str(tmp_path)


def test_a_run_that_another_process_makes_stops_all_before(tmp_path):
    first = Finds()
    of_y = re.escape(f"{tmp_path / 'y'} is being made by")
    with lock_folders(tmp_path / "y"), pytest.raises(UsageError, match=of_y):
        run({"x": first, "y": Finds("b")}, tmp_path)
    assert first.seen == []


def test_the_number_of_turns_may_be_of_numpy(tmp_path):
    finds = Finds()
    run({"x": finds}, tmp_path, turns_at_once=np.int64(2))
    assert finds.seen == [["1_1", "1_2"], ["1_3"]]


def test_batches_of_several_starts_are_one_ranking(tmp_path):
    batches = [["1_1"], ["1_2"], ["1_3"]]
    for finished in (0, 1):
        stopped = Finds(error=ZeroDivisionError(), at=1)
        with pytest.raises(ZeroDivisionError):
            run({"x": stopped}, tmp_path, turns_at_once=1)
        assert stopped.seen == batches[finished : finished + 2]
    last = Finds()
    done = run({"x": last}, tmp_path, turns_at_once=1, measures=["P@1"])
    assert last.seen == batches[2:]
    assert done.runs["x"].answered == {"1_1", "1_2", "1_3"}
    assert done.table.values.tolist() == [["x", 0.5, 2]]
    assert [turn["qid"] for turn in done.folders["x"].turns()] == ["1_1", "1_2", "1_3"]
    names = {path.name for path in (tmp_path / "x").iterdir()}
    assert {"run.trec", "turns.jsonl", "stages.jsonl.gz", "measures.csv", "run.json"} <= names


def test_what_cannot_be_identified_is_told_when_a_run_goes_on(tmp_path):
    finds = pt.apply.generic(lambda turns: turns.assign(docno="a", score=1.0, rank=0))
    with pytest.raises(ZeroDivisionError):
        run({"x": finds >> Finds(error=ZeroDivisionError(), at=1)}, tmp_path, turns_at_once=1)
    reused = re.escape(f"reused from {tmp_path / 'x.partial'}, but its stage")
    with pytest.warns(AlikeWarning, match=reused):
        run({"x": finds >> Finds()}, tmp_path)


class FindsForOneTurn(Finds):
    """Finds a passage for the first turn alone."""

    def transform(self, inp):
        return super().transform(inp[inp["qid"] == "1_1"]).assign(text="x")


def test_a_folder_has_the_calls_and_notes_of_its_own_system(tmp_path):
    model, _ = scripted("tea", "milk", "ale")
    done = run({"x": ikat.Rewrite(model) >> Finds(), "y": FindsForOneTurn()}, tmp_path)
    asked, silent = (done.folders[name].parameters() for name in ("x", "y"))
    assert (asked["ledger_rows"], silent["ledger_rows"]) == (1, 0)
    assert asked["served"] != silent["served"]
    assert asked["sources"] == []
    assert "notes" not in silent  # it responds to nobody
    assert len(pd.read_csv(tmp_path / "y" / "ledger.csv")) == 0


def test_all_turns_without_passages_are_noted(tmp_path):
    model, _ = scripted("Yes.")
    done = run({"x": FindsForOneTurn() >> ikat.Respond(model)}, tmp_path)
    notes = done.folders["x"].parameters()["notes"]
    assert notes == [note_of_abstention(["1_2", "1_3"], ABSTENTION)]


def test_a_folder_of_a_dataset_is_named_beside_the_run(tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    question = {"role": "user", "content": "Tea?"}
    (data / "topics.jsonl").write_text(json.dumps({"qid": "1_1", "messages": [question]}))
    (data / "qrels.txt").write_text("1_1 0 a 1\n")
    done = ikat.run({"x": Finds()}, data, out=tmp_path / "runs")
    assert done.folders["x"].parameters()["dataset"] == str(data)


def test_models_of_one_ledger_count_once(tmp_path):
    first, _ = scripted("tea", "milk", "ale")
    second = llm(Scripted("a", "b", "c"), ledger=first.ledger)
    done = run({"x": ikat.Rewrite(first) >> ikat.Answer(second) >> Finds()}, tmp_path)
    assert done.ledger.frame().set_index("stage")["calls"].to_dict() == {"rewrite": 3, "answer": 3}


def test_what_has_no_key_counts_in_its_own_batch(tmp_path):
    model, _ = scripted("", "Yes.", "No.")
    found = Finds() >> pt.apply.generic(lambda rows: rows.assign(text="x"))
    system = found >> ikat.Respond(model, on_error="fallback")
    run({"x": system}, tmp_path, turns_at_once=1)
    assert pd.read_csv(tmp_path / "x" / "ledger.csv")["fallbacks"].tolist() == [1]


def test_unidentified_models_of_one_name_are_named_once(tmp_path):
    models = [llm(Scripted("tea", "milk", "ale")) for _ in range(2)]
    system = {"x": ikat.Rewrite(models[0]) >> ikat.Answer(models[1]) >> Finds()}
    run(system, tmp_path)
    with pytest.warns(AlikeWarning) as told:
        run(system, tmp_path)
    assert str(told[0].message).count("model Scripted") == 1


def rows(ledger, *names):
    values = []
    for row in ledger.rows():
        values.append([row[name] for name in names])
    return values


def test_all_batches_that_wait_are_named_and_the_others_kept(tmp_path):
    waits = FindsByTurn(t1_1=BatchUnderWay(["one"]), t1_3=BatchUnderWay(["three", "more"]))
    other = FindsByTurn("b", t1_1=BatchUnderWay(["other"]))
    with pytest.raises(BatchUnderWay) as caught:
        run({"x": waits, "y": other}, tmp_path, turns_at_once=1)
    assert caught.value.waiting == ["one", "three", "more", "other"]
    assert waits.seen == [["1_1"], ["1_2"], ["1_3"]]
    again = FindsByTurn()
    done = run({"x": again}, tmp_path, turns_at_once=9)
    assert again.seen == [["1_1"], ["1_3"]]
    assert done.folders["x"].results()["qid"].tolist() == ["1_1", "1_2", "1_3"]


def test_a_kept_batch_without_a_passage_is_not_run_again(tmp_path):
    with pytest.raises(ZeroDivisionError):
        run({"x": FindsByTurn(t1_1=[], t1_3=ZeroDivisionError())}, tmp_path, turns_at_once=1)
    again = FindsByTurn()
    done = run({"x": again}, tmp_path)
    assert again.seen == [["1_3"]]
    assert done.runs["x"].answered == {"1_2", "1_3"}
    assert [turn["qid"] for turn in done.folders["x"].turns()] == ["1_1", "1_2", "1_3"]
    assert list(done.gaps()) == []  # the table names the turn, as it is judged


def test_an_unjudged_turn_without_passages_is_told_by_name(tmp_path):
    done = run({"x": FindsByTurn(t1_3=[], t1_1=[]), "y": FindsByTurn()}, tmp_path)
    assert list(done.gaps()) == ["x: 1 turn without any passage, not judged: 1_3"]


def test_all_systems_that_failed_are_told_with_the_first_cause(tmp_path):
    first = FindsByTurn(t1_2=ZeroDivisionError("by zero"))
    second = FindsByTurn("b", t1_1=DataError("no such thing"))
    with pytest.raises(SystemFailed) as caught:
        run({"x": first, "y": second, "z": FindsByTurn()}, tmp_path)
    assert str(caught.value) == (
        "x failed: ZeroDivisionError: by zero; y failed: no such thing. "
        "What is finished is kept: run again after the repair"
    )
    assert list(caught.value.failed) == ["x", "y"]
    assert caught.value.__cause__ is first.answers["t1_2"]
    assert RunFolder(tmp_path / "z").complete


def test_each_model_of_a_call_counts_in_the_studys_ledger(tmp_path):
    first, _ = scripted(*"abc")
    second, _ = scripted(*"def")
    pipeline = ikat.Rewrite(first) >> ikat.Answer(second) >> FindsByTurn()
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


def test_what_another_system_left_beside_a_finished_run_goes(tmp_path):
    with pytest.raises(ZeroDivisionError):
        run({"x": FindsByTurn("b", t1_2=ZeroDivisionError())}, tmp_path / "other", turns_at_once=1)
    run({"x": FindsByTurn()}, tmp_path / "runs")
    left = (tmp_path / "other" / "x.partial").rename(tmp_path / "runs" / "x.partial")
    again = FindsByTurn()
    run({"x": again}, tmp_path / "runs")
    assert (again.seen, left.exists()) == ([], False)


def test_passages_of_one_score_are_stored_in_their_order(tmp_path):
    judged = QRELS.assign(docno=["c", "b"])
    given = {"measures": ["P@1"], "qrels": judged}
    done = run({"x": FindsByTurn(t1_1=["b", "a", "c"])}, tmp_path, **given)
    stored = done.folders["x"].results()
    first = stored[stored["qid"] == "1_1"]
    assert first["docno"].tolist() == ["b", "a", "c"]
    assert first["score"].is_monotonic_decreasing
    assert first["score"].is_unique
    assert done.runs["x"].scores["P(rel=1)@1"] == [0.0, 0.0]
