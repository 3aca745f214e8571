"""What a stage wrote, found and scored; what each call costs, over all starts of a run."""

import json

import numpy as np
import pandas as pd
import pytest
from recorded_lines import Gives, lines_kept

from pyterrier_ikat.errors import DataError
from pyterrier_ikat.events import observed_by
from pyterrier_ikat.llms import FatalLLMError, Ledger
from pyterrier_ikat.llms.ledger import Entry
from pyterrier_ikat.runs import RunFolder
from pyterrier_ikat.study.recorder import Account, Recorder, Spending, ledger_of


def recorded(inp, out, qids=("a",)):
    recorder = Recorder(list(qids), lambda text: "stage")
    with observed_by(recorder):
        Gives(out)(inp)
    return lines_kept(recorder, qids)


TURNS = pd.DataFrame({"qid": ["a", "b"], "query": ["tea", "milk"], "qx": [1, 2], "other": [0, 0]})


@pytest.mark.parametrize(
    ("changes", "wrote"),
    [
        ({}, None),
        ({"qx": [5, 2]}, {"qx": 5}),
        ({"qx": [1, 5]}, None),  # of the other turn
        ({"qx": [1.0, 2.0]}, None),  # the same numbers
        ({"qnew": ["x", "y"]}, {"qnew": "x"}),
        ({"qnew": [None, "y"]}, None),
        ({"query": ["green tea", "milk"]}, {"query": "green tea"}),
        ({"query_0": ["x", "y"]}, None),
        ({"other": [7, 7]}, None),
        ({"qsub": [0, 0]}, None),
        ({"qnew": [["x", 1.5], []]}, {"qnew": ["x", 1.5]}),
    ],
)
def test_a_stage_wrote_the_turn_columns_that_it_changed(changes, wrote):
    lines = recorded(TURNS, TURNS.assign(**changes))
    assert [line.get("wrote") for line in lines] == ([wrote] if wrote else [])


def test_a_stage_with_a_value_that_is_gone_wrote_none():
    [line] = recorded(TURNS, TURNS.assign(qx=pd.Series([None, 2], dtype=object)))
    assert line == {"qid": "a", "stage": "stage", "wrote": {"qx": None}}


FOUND = pd.DataFrame(
    {
        "qid": ["a", "a", "b"],
        "query": ["tea", "tea", "milk"],
        "docno": ["d2", "d1", "d3"],
        "score": [2.12345678, 1.0, 3.0],
        "rank": [0, 1, 0],
    }
)


def test_a_retriever_found_passages_with_six_decimals():
    [line] = recorded(TURNS[["qid", "query"]], FOUND)
    assert line == {
        "qid": "a",
        "stage": "stage",
        "query": "tea",
        "found": [{"qid": "a", "query": "tea", "docnos": ["d2", "d1"], "scores": [2.123457, 1.0]}],
    }
    [nothing] = recorded(TURNS[["qid", "query"]], FOUND[2:])
    assert nothing["found"] == [{"qid": "a", "query": "tea", "docnos": [], "scores": []}]
    assert recorded(TURNS[["qid", "query"]], FOUND.drop(columns="docno")) == []
    assert recorded(TURNS[["qid"]], FOUND)[0].get("found") is None


def test_sub_queries_belong_to_their_turn_with_its_own_query():
    asked = pd.DataFrame(
        {
            "qid": ["a::0", "a::1"],
            "qid_0": ["a", "a"],
            "query": ["tea", "milk"],
            "qquery": ["tea with milk"] * 2,
            "qsub": [0, 1],
            "qweight": [1.0, 0.5],
        }
    )
    found = asked.assign(docno=["d1", "d2"], score=[2.0, 1.0])
    [line] = recorded(asked, found)
    assert line["query"] == "tea with milk"
    shared = {"qid": "a::0", "query": "tea", "qsub": 0, "qweight": 1.0}
    assert line["found"][0] == {**shared, "docnos": ["d1"], "scores": [2.0]}
    assert [query["qid"] for query in line["found"]] == ["a::0", "a::1"]


@pytest.mark.parametrize(
    ("out", "scored"),
    [
        (FOUND.assign(score=[1.0, 5.0, 3.0]), (["d2", "d1"], [1.0, 5.0])),
        (FOUND.iloc[[1, 0, 2]].assign(score=[5.0, 1.0, 3.0]), (["d2", "d1"], [1.0, 5.0])),
        (FOUND[:1].assign(score=4.0), (["d2"], [4.0])),
        (FOUND, None),  # as before
        (FOUND.assign(docno=["d2", "d9", "d3"]), None),  # another passage: no re-ranker
        (FOUND.assign(score=9.0).drop(columns="query"), None),
        (FOUND.assign(score=9.0, qid_0="a"), None),  # of sub-queries
    ],
)
def test_a_reranker_scored_the_passages_in_their_old_order(out, scored):
    lines = recorded(FOUND, out)
    found = [line["scored"] for line in lines if "scored" in line]
    if scored is None:
        assert found == []
        return
    [[query]] = found
    assert query == {"qid": "a", "query": "tea", "docnos": scored[0], "scores": scored[1]}


def test_a_line_is_taken_once_and_only_of_its_turns():
    recorder = Recorder(["a", "b"], str)
    with observed_by(recorder):
        Gives(TURNS.assign(qx=9))(TURNS)
    assert recorder.take(["b"]) != b""
    assert recorder.take(["a"]) != b""
    with pytest.raises(KeyError):
        recorder.take(["a"])


def test_frames_without_turns_are_not_recorded():
    assert recorded(TURNS.drop(columns="qid"), TURNS.assign(qx=9)) == []
    assert recorded(TURNS, TURNS.assign(qx=9).drop(columns="qid")) == []


# Costs


def entry(key="k", served="s", answered=True, stage="answer", model="m", **increments):
    return Entry(stage, model, increments, served, key=key, answered=answered)


CALL = {"calls": 1, "prompt_tokens": 10, "completion_tokens": 2, "cost": 0.5, "worth": 0.0}


def rows(ledger, *names):
    return [[row[name] for name in names] for row in ledger.rows()]


def test_calls_with_a_key_are_in_the_file_and_the_rest_is_not(tmp_path):
    account = Account(tmp_path / "costs.jsonl")
    account.enter(entry(**CALL, dropped=1))
    account.enter(entry(key=None, fallbacks=2))
    assert rows(account, "stage", "model", "calls", "cost") == [["answer", "m", 1, 0.5]]
    [line] = (tmp_path / "costs.jsonl").read_text().splitlines()
    event = json.loads(line)
    assert (event["key"], event["served"], event["answered"]) == ("k", "s", True)
    assert "dropped" not in event
    assert rows(account.rest, "dropped", "fallbacks") == [[1, 2]]
    again = Account(tmp_path / "costs.jsonl")
    assert rows(again, "calls", "prompt_tokens", "cost") == [[1, 10, 0.5]]


def test_an_answer_of_an_earlier_start_is_no_cache_hit(tmp_path):
    Account(tmp_path / "c").enter(entry(**CALL))
    again = Account(tmp_path / "c")
    again.enter(entry(known=1, worth=0.5))
    assert rows(again, "calls", "known") == [[1, 0]]
    again.enter(entry(known=1, worth=0.5))  # the second time it is one
    assert rows(again, "calls", "known", "worth") == [[1, 1, 0.5]]
    other = Account(tmp_path / "c")
    other.enter(entry(key="other", known=1, worth=0.5))
    assert rows(other, "known") == [[2]]


def test_a_failed_call_of_an_earlier_start_answered_nothing(tmp_path):
    Account(tmp_path / "c").enter(entry(calls=1, cost=0.1, failures=1))
    again = Account(tmp_path / "c")
    again.enter(entry(known=1, worth=0.5))
    assert rows(again, "known") == [[1]]


def test_a_cut_line_of_costs_is_dropped(tmp_path):
    Account(tmp_path / "c").enter(entry(**CALL))
    with (tmp_path / "c").open("ab") as file:
        file.write(b'{"stage": "ans')
    assert rows(Account(tmp_path / "c"), "calls") == [[1]]


SPENT = Ledger()
SPENT.count("rewrite", "m", calls=3, cost=0.5)
SPENT.count("answer", "m", calls=2, cost=0.25)
LEDGER = SPENT.frame().to_csv(index=False)


@pytest.mark.parametrize(
    ("written", "parameters", "told"),
    [
        (None, "{}", "can't be read"),
        ("stage,model\n", "{}", "no column"),
        (None, '{"ledger_rows": 2}', "can't be read"),
        (LEDGER, '{"ledger_rows": 3}', "2 of 3 rows"),
        (LEDGER.splitlines()[0] + "\n", '{"ledger_rows": 2}', "0 of 2 rows"),
        (LEDGER, '{"ledger_rows": "two"}', "can't be read"),
    ],
)
def test_an_unreadable_ledger_of_a_finished_run_is_an_error(tmp_path, written, parameters, told):
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "run.json").write_text(parameters)
    if written is not None:
        (folder / "ledger.csv").write_text(written)
    with pytest.raises(DataError, match=told):
        ledger_of(RunFolder(folder))


def test_a_whole_ledger_of_a_finished_run_is_read(tmp_path):
    (tmp_path / "run.json").write_text('{"ledger_rows": 2}')
    (tmp_path / "ledger.csv").write_text(LEDGER)
    read = ledger_of(RunFolder(tmp_path)).frame()
    assert read[["stage", "calls", "cost"]].values.tolist() == (
        SPENT.frame()[["stage", "calls", "cost"]].values.tolist()
    )


def begun(out, name, **counts):
    folder = out / f"{name}.partial"
    folder.mkdir(parents=True)
    Account(folder / "costs.jsonl").enter(entry(**counts))
    return out / name


def test_a_run_under_way_tells_its_calls_and_finished_batches(tmp_path):
    path = begun(tmp_path, "one", **CALL)
    batch = [{"stage": "answer", "model": "m", "served": "s", "fallbacks": 3}]
    (tmp_path / "one.partial" / "000128.ledger.json").write_text(json.dumps(batch))
    (tmp_path / "one.partial" / "other.ledger.json").write_text(json.dumps(batch))
    assert rows(ledger_of(RunFolder(path)), "calls", "cost", "fallbacks") == [[1, 0.5, 3]]


def test_spending_is_that_of_all_runs_and_of_this_process(tmp_path):
    begun(tmp_path, "one", **CALL)
    begun(tmp_path, "two", **(CALL | {"cost": 0.25}))
    (tmp_path / ".hidden").mkdir()
    (tmp_path / "file").write_text("no run")
    now = Ledger()
    spending = Spending(tmp_path, now)
    assert spending.where == str(tmp_path)
    assert spending.total("m", None, None) == 0.75
    now.enter(entry(**CALL))
    assert spending.total("m", None, None) == 1.25


@pytest.mark.parametrize(
    ("model", "prices", "expected"),
    [
        ("m", (2.0, 10.0), (10 + 4) * 2e-6 + 3 * 1e-5),
        ("m", (2.0, None), (10 + 4) * 2e-6),
        ("m", (None, 10.0), 3 * 1e-5),
        ("another", (2.0, 10.0), 0.0),
    ],
)
def test_calls_of_unknown_cost_are_counted_at_the_models_prices(tmp_path, model, prices, expected):
    counts = {"calls": 1, "prompt_tokens": 10, "completion_tokens": 3, "lost_tokens": 4}
    begun(tmp_path, "one", **counts, cost=None)
    assert Spending(tmp_path, Ledger()).total(model, *prices) == pytest.approx(expected)


def test_a_budget_is_not_kept_over_calls_of_unknown_tokens(tmp_path):
    begun(tmp_path, "one", calls=1, prompt_tokens=None, cost=None)
    spending = Spending(tmp_path, Ledger())
    assert spending.total("another", 1.0, 1.0) == 0
    with pytest.raises(FatalLLMError, match="calls of m whose cost is not known"):
        spending.total("m", 1.0, 1.0)


def test_a_turn_without_work_has_no_bytes():
    recorder = Recorder(["a", "b"], str)
    with observed_by(recorder):
        Gives(TURNS.assign(qx=[9, 2]))(TURNS)
    packed = recorder.take(["a"])
    assert packed[4:8] == bytes(4)  # the time of a gzip member
    assert recorder.take(["b"]) == b""


def test_arrays_are_written_as_lists_of_the_turn():
    asked = pd.DataFrame({"qid": ["a::0", "a::1"], "qid_0": ["a", "a"], "query": ["tea", "milk"]})
    cells = pd.Series([np.array([1, 2]), np.array([3])], dtype=object)
    [line] = recorded(asked, asked.assign(qnew=cells))
    assert line == {"qid": "a", "stage": "stage", "wrote": {"qnew": [1, 2]}}


def test_a_turn_and_its_sub_queries_write_no_query():
    turn = TURNS.head(1)
    sub = pd.DataFrame({"qid": ["a::0"], "qid_0": ["a"], "query": ["milk"]})
    assert recorded(turn[["qid", "query"]], sub) == []
    assert recorded(sub, turn[["qid", "query"]]) == []


def test_passages_without_scores_are_not_found_but_may_be_scored():
    unscored = FOUND.drop(columns="score")
    assert recorded(TURNS[["qid", "query"]], unscored) == []
    [line] = recorded(unscored, FOUND)
    assert line["scored"][0]["docnos"] == ["d2", "d1"]


def test_a_result_with_another_query_is_no_re_ranking():
    assert recorded(FOUND.head(2), FOUND.assign(score=9.0)) == []


def test_a_cut_line_of_costs_does_not_spoil_the_next(tmp_path):
    Account(tmp_path / "c").enter(entry(**CALL))
    with (tmp_path / "c").open("ab") as file:
        file.write(b'{"stage": "ans')
    Account(tmp_path / "c").enter(entry(key="other", **CALL))
    again = Account(tmp_path / "c")
    assert rows(again, "calls", "served") == [[2, "s"]]


def test_counts_without_a_key_are_those_of_the_batch(tmp_path):
    account = Account(tmp_path / "c")
    account.enter(entry(**CALL))
    assert account.rest.rows() == []
    account.enter(entry(key=None, calls=1, cost=0.25))
    assert rows(account.rest, "calls", "cost") == [[1, 0.25]]
    assert rows(account, "calls", "cost") == [[1, 0.5]]
    account.rest = Ledger()
    account.enter(entry(served="other", **CALL, dropped=2))
    assert rows(account, "calls", "dropped") == [[2, 0]]
    assert rows(account.rest, "dropped", "served") == [[2, ""]]


def test_what_answered_nothing_or_is_paid_again_counts(tmp_path):
    Account(tmp_path / "c").enter(entry(answered=False, **CALL))
    again = Account(tmp_path / "c")
    again.enter(entry(known=1, worth=0.5))
    assert rows(again, "calls", "known") == [[1, 1]]
    Account(tmp_path / "d").enter(entry(**CALL))
    paid = Account(tmp_path / "d")
    paid.enter(entry(**CALL))
    assert rows(paid, "calls", "cost") == [[2, 1.0]]
    assert len((tmp_path / "d").read_text().splitlines()) == 2


def test_a_finished_runs_ledger_keeps_unknowns_and_servers(tmp_path):
    (tmp_path / "run.json").write_text("{}")
    ledger = Ledger()
    ledger.count("answer", "m", served="gpt-4-0613", calls=1, cost=None)
    ledger.count("rewrite", "m", served="gpt-4-0613", calls=1, cost=0.5)
    (tmp_path / "ledger.csv").write_text(ledger.frame().to_csv(index=False))
    read = ledger_of(RunFolder(tmp_path))
    assert rows(read, "stage", "cost") == rows(ledger, "stage", "cost")
    assert None in [row["cost"] for row in read.rows()]
    assert read.served() == ledger.served()
    text = (tmp_path / "ledger.csv").read_text().replace("0.5", "half")
    (tmp_path / "ledger.csv").write_text(text)
    with pytest.raises(DataError, match="ledger.csv can't be read"):
        ledger_of(RunFolder(tmp_path))


def test_hidden_folders_cost_nothing(tmp_path):
    begun(tmp_path, "one", **CALL)
    begun(tmp_path, ".two", **CALL)
    assert Spending(tmp_path, Ledger()).total("m", None, None) == 0.5


def test_turns_with_one_query_are_scored_each_for_itself():
    same = FOUND.assign(query="tea")
    recorder = Recorder(["a", "b"], str)
    with observed_by(recorder):
        Gives(same.assign(score=[9.0, 8.0, 7.0]))(same)
    lines = lines_kept(recorder, ["a", "b"])
    assert [(line["qid"], line["scored"][0]["scores"]) for line in lines] == [
        ("a", [9.0, 8.0]),
        ("b", [7.0]),
    ]


def test_scores_of_zero_count_where_there_were_none():
    unscored = FOUND.drop(columns=["score", "rank"])
    [line] = recorded(unscored, FOUND.assign(score=0.0))
    assert line["scored"][0]["scores"] == [0.0, 0.0]


def test_numbers_of_numpy_are_written_as_numbers():
    asked = pd.DataFrame({"qid": ["a"], "qid_0": ["a"], "query": ["tea"], "qquery": [""]})
    asked["qweight"] = pd.Series([np.float32(0.5)], dtype=object)
    [line] = recorded(asked, asked.assign(docno="d", score=1.0))
    assert line["found"][0]["qweight"] == 0.5
    assert line["query"] == ""


def test_each_answer_of_an_earlier_start_is_counted_once(tmp_path):
    first = Account(tmp_path / "c")
    for _ in range(2):
        first.enter(entry(**CALL))
    again = Account(tmp_path / "c")
    for _ in range(3):
        again.enter(entry(known=1, worth=0.5))
    assert rows(again, "calls", "known") == [[2, 1]]
