"""What each call costs, over all starts of a run and over all runs in a folder."""

import json

import pandas as pd
import pytest

from pyterrier_ikat.errors import DataError
from pyterrier_ikat.llms import FatalLLMError, Ledger
from pyterrier_ikat.llms.ledger import AMOUNTS, COUNTS, Entry
from pyterrier_ikat.runs import RunFolder
from pyterrier_ikat.study.recorder import Account, Spending, ledger_of


def entry(key="k", served="s", answered=True, stage="answer", model="m", **increments):
    return Entry(stage, model, increments, served, key=key, answered=answered)


CALL = {"calls": 1, "prompt_tokens": 10, "completion_tokens": 2, "cost": 0.5, "worth": 0.0}


def rows(ledger, *names):
    values = []
    for row in ledger.rows():
        values.append([row[name] for name in names])
    return values


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


def test_each_answer_of_an_earlier_start_is_counted_once(tmp_path):
    first = Account(tmp_path / "c")
    for _ in range(2):
        first.enter(entry(**CALL))
    again = Account(tmp_path / "c")
    for _ in range(3):
        again.enter(entry(known=1, worth=0.5))
    assert rows(again, "calls", "known") == [[2, 1]]


def spent(**counts):
    ledger = Ledger()
    ledger.count("answer", "m", served="s", **counts)
    return ledger


def finished(out, name, ledger):
    (out / name).mkdir()
    (out / name / "run.json").write_text("{}")
    ledger.frame().to_csv(out / name / "ledger.csv", index=False)
    return RunFolder(out / name)


def begun_with_an_answer(out, name, **counts):
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
    names = (*COUNTS, *AMOUNTS)
    counts = dict(zip(names, range(1, len(names) + 1), strict=True))
    folder = finished(tmp_path, "run", spent(**counts))
    assert ledger_of(folder).rows() == spent(**counts).rows()


def test_runs_with_points_in_their_names_are_all_paid_for(tmp_path):
    finished(tmp_path, "raw", spent(calls=1, cost=0.5))
    finished(tmp_path, "raw.repeat-2", spent(calls=1, cost=0.25))
    begun_with_an_answer(tmp_path, "raw.repeat-3", calls=1, cost=0.125)
    begun_with_an_answer(tmp_path, "raw", calls=1, cost=8.0)  # left by a kill
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
    begun_with_an_answer(tmp_path, "one", calls=1, **counts)
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
    account = begun_with_an_answer(tmp_path, "one", calls=1, cost=0.5, prompt_tokens=7)
    account.enter(Entry("rewrite", "m", {"known": 1, "worth": 0.25}, "s", key="l", answered=False))
    for number, failures in ((0, 1), (128, 2)):
        rest = spent(failures=failures, dropped=4).rows()
        (tmp_path / "one.partial" / f"{number:06d}.ledger.json").write_text(json.dumps(rest))
    ledger = ledger_of(RunFolder(tmp_path / "one"))
    names = ("stage", "calls", "known", "cost", "worth", "failures", "dropped", "prompt_tokens")
    assert rows(ledger, *names) == [
        ["answer", 1, 0, 0.5, 0, 3, 8, 7],
        ["rewrite", 0, 1, 0, 0.25, 0, 0, 0],
    ]
