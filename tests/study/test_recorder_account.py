"""What runs cost: kept as it is spent, over stops, restarts and processes.

Checked by hand against what a server answered.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from llms.chat_server import ChatServer, said

import pyterrier_ikat as ikat
from pyterrier_ikat.errors import DataError
from pyterrier_ikat.llms import BudgetExceeded, FatalLLMError, Ledger, Request
from pyterrier_ikat.show import ledger, ledger_frame
from pyterrier_ikat.study import Study
from pyterrier_ikat.study.in_folders import run_in_folders
from pyterrier_ikat.study.recorder import Account, Spending
from pyterrier_ikat.study.systems import distinct_models

FIVE = ["1-1_1", "1-1_2", "1-1_3", "2-1_1", "2-1_2"]
TURNS = len(FIVE)
PRICE = 0.0035  # 500 tokens in at 2.5 dollars per million, 225 tokens out at 10
CODE = "import sys; from pyterrier_ikat.cli import main; main(sys.argv[1:])"


@pytest.fixture(scope="session")
def index(sample_index):
    return str(sample_index.path)


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    made = ChatServer()
    made.respond = lambda body: said("1. easy walk\n2. soft path", usage=(500, 225))
    yield made
    made.http.shutdown()
    made.http.server_close()


def spec(server, options="", name="m"):
    return f"openai:{name} base_url={server.url} concurrency=2 price_in=2.5 price_out=10 {options}"


def run(index, out, llm_spec, *names):
    study = Study(names, "ikat:sample", index=index, llm=llm_spec, turns=FIVE)
    try:
        run_in_folders(study, out)
    finally:
        for one in distinct_models(study.systems):
            one.close()


def process(index, out, llm_spec, *names):
    """`ikat run` in a process of its own."""
    options = [
        "--dataset",
        "ikat:sample",
        "--index",
        index,
        "--out",
        str(out),
        "--llm",
        llm_spec,
        "--turns",
        ",".join(FIVE),
    ]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    return subprocess.Popen(
        [sys.executable, "-c", CODE, "run", *names, *options],
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
    )


def sums(*folders, columns=("calls", "known", "cost", "worth")):
    totals = ledger_frame(folders)[list(columns)].sum()
    return [pytest.approx(float(value)) for value in totals]


def test_a_run_that_was_killed_tells_all_that_it_cost(index, server, tmp_path):
    reached = threading.Event()
    out = tmp_path / "runs"
    answer = server.respond

    def respond(body):
        if server.calls > 3 and not reached.is_set():
            if server.calls == 5:  # both threads wait here: three answers are paid and kept
                reached.wait(120)
            reached.wait(120)
        return answer(body)

    server.respond = respond
    first = process(index, out, spec(server), "aqd")
    while server.calls < 5:
        assert first.poll() is None
        time.sleep(0.01)
    first.kill()
    assert first.wait() == -signal.SIGKILL
    first.communicate()
    reached.set()
    assert sums(out / "aqd.partial") == sums(out / "aqd") == [3, 0, 3 * PRICE, 0]
    run(index, out, spec(server), "aqd")
    assert server.calls == 2 * TURNS + 2
    assert sums(out / "aqd") == [2 * TURNS, 0, 2 * TURNS * PRICE, 0]
    assert os.listdir(out) == ["aqd"]


def test_cached_system_costs_nothing_and_tells_its_answers_worth(index, server, tmp_path):
    run(index, tmp_path, spec(server), "ad")
    run(index, tmp_path, spec(server), "aqd")
    assert server.calls == 2 * TURNS
    assert sums(tmp_path / "ad") == [TURNS, 0, TURNS * PRICE, 0]
    assert sums(tmp_path / "aqd") == [TURNS, TURNS, TURNS * PRICE, TURNS * PRICE]
    note = ledger([tmp_path / "ad", tmp_path / "aqd"]).markdown().splitlines()[-1]
    assert "Together: paid 0.0350, known 0.0175." in note


def test_budget_counts_what_the_folder_cost_over_all_starts(index, server, tmp_path):
    out = tmp_path / "runs"
    with pytest.raises(BudgetExceeded):
        run(index, out, spec(server, "budget=0.008"), "ad")
    assert 3 <= server.calls <= 4
    for _ in range(2):
        before = server.calls
        with pytest.raises(BudgetExceeded) as raised:
            run(index, out, spec(server, "budget=0.008"), "ad")
        assert server.calls == before
    left = TURNS - before
    assert f"{out} has cost {before * PRICE:.4f} USD); done and kept: 0 calls, left: {left}" in str(
        raised.value
    )
    run(index, out, spec(server, "budget=0.1"), "ad")
    assert server.calls == TURNS
    with pytest.raises(
        BudgetExceeded,
        match=r"has cost 0\.0280 USD\); done and kept: 3 calls, left: 2 \(about 0\.0070",
    ):
        run(
            index,
            out,
            spec(server, "budget=0.0280").replace("concurrency=2", "concurrency=1"),
            "ad",
            "aqd",
        )
    assert server.calls == TURNS + 3


def test_two_process_ledgers_add_up_to_what_the_server_answered(index, server, tmp_path):
    aqd = process(index, tmp_path / "runs", spec(server), "aqd")
    qr = process(index, tmp_path / "runs", spec(server), "qr")
    aqd.communicate(timeout=120)
    qr.communicate(timeout=120)
    assert (aqd.returncode, qr.returncode) == (0, 0)
    assert sums(tmp_path / "runs" / "aqd", tmp_path / "runs" / "qr") == [
        3 * TURNS,
        0,
        3 * TURNS * PRICE,
        0,
    ]
    assert server.calls == 3 * TURNS


# The account's file.

EVENTS = st.lists(
    st.tuples(
        st.sampled_from("ab"),  # the request
        st.sampled_from(["paid", "failed", "hit"]),
        st.none() | st.integers(0, 8).map(lambda eighths: eighths / 8),
    ),
    max_size=8,
)


def happen(account, events):
    for key, what, dollars in events:
        if what == "hit":
            account.count("answer", "m", key=key, known=1, worth=dollars)
        else:
            account.count("answer", "m", key=key, calls=1)
            account.count("answer", "m", key=key, cost=dollars, failures=int(what == "failed"))


@given(EVENTS, st.integers(0, 400))
def test_file_cut_anywhere_is_the_account_of_its_whole_lines(tmp_path_factory, events, cut):
    path = tmp_path_factory.mktemp("run") / "costs.jsonl"
    account = Account(path)
    happen(account, events)
    assert Account(path).frame().equals(account.frame())
    if not path.exists():
        assert account.frame().empty
        return
    content = path.read_bytes()[:cut]
    path.write_bytes(content)
    again = Account(path)
    lines = content.split(b"\n")
    whole = [json.loads(line) for line in lines[:-1]]
    paid = [event["cost"] for event in whole if "cost" in event]
    if whole:
        assert again.frame()["cost"].fillna(-1).tolist() == [-1 if None in paid else sum(paid)]
    again.count("answer", "m", key="new", calls=1, cost=1.0)
    assert [row["cost"] for row in Account(path).rows()] == [
        None if None in paid else sum(paid) + 1
    ]


@given(EVENTS)
def test_paid_answers_and_cached_answers_are_told_apart(tmp_path_factory, events):
    account = Account(tmp_path_factory.mktemp("run") / "costs.jsonl")
    price = {"a": 0.25, "b": 0.5}
    happen(account, [(key, what, price[key]) for key, what, _ in events])
    row = account.frame().sum(numeric_only=True)
    assert row.get("worth", 0) == sum(price[key] for key, what, _ in events if what == "hit")
    assert row.get("cost", 0) == sum(price[key] for key, what, _ in events if what != "hit")


def test_what_an_earlier_start_had_is_no_hit_of_a_later_one(tmp_path):
    path = tmp_path / "costs.jsonl"
    first = Account(path)
    happen(
        first, [("a", "paid", 0.5), ("a", "hit", 0.5), ("b", "hit", 0.25), ("c", "failed", 0.125)]
    )
    second = Account(path)
    happen(
        second,
        [
            ("a", "hit", 0.5),
            ("a", "hit", 0.5),
            ("b", "hit", 0.25),
            ("c", "hit", 1.0),
            ("a", "hit", 0.5),
        ],
    )
    row = second.frame().iloc[0]
    assert (row["calls"], row["known"], row["cost"], row["worth"]) == (2, 4, 0.625, 2.25)


def test_what_cannot_be_written_stops_the_run(tmp_path):
    account = Account(tmp_path / "costs.jsonl")
    account.path.symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left on device"):
        account.count("answer", "m", key="a", calls=1)


def test_answers_are_kept_though_the_account_cannot_be_written(server, monkeypatch):
    requests = []
    for number in range(40):
        messages = [{"role": "user", "content": f"{number}"}]
        requests.append(Request(messages, "answer", f"1_{number}"))
    made = ikat.llm(f"{spec(server)} concurrency=8".replace("concurrency=2 ", ""))
    count = Ledger.count
    calls = []

    def full(self, *args, **increments):
        calls.append("cost" in increments)
        if sum(calls) > 20 and "cost" in increments:
            raise DataError("costs.jsonl can't be written")
        count(self, *args, **increments)

    monkeypatch.setattr(Ledger, "count", full)
    with pytest.raises(DataError, match="can't be written"):
        made.ask(requests)
    monkeypatch.setattr(Ledger, "count", count)
    assert (
        len(made.cache.get([one.key(made.backend.identity) for one in requests]))
        == server.calls
        > 20
    )
    made.close()


def finished(out, name, **counted):
    spent = Ledger()
    spent.count("answer", "m", **counted)
    (out / name).mkdir()
    spent.frame().to_csv(out / name / "ledger.csv", index=False)
    (out / name / "run.json").write_text("{}")


def test_folder_counts_runs_once_and_unpriced_calls_at_todays(tmp_path):
    assert Spending(tmp_path / "none", Ledger()).total("m", 1, 1) == 0
    finished(tmp_path, "done", calls=2, cost=0.5)
    (tmp_path / "a file").write_text("")
    (tmp_path / "going.partial").mkdir()
    going = Account(tmp_path / "going.partial" / "costs.jsonl")
    going.count("answer", "m", key="a", cost=0.25)
    assert Spending(tmp_path, Ledger()).total("m", 1, 1) == 0.75
    now = Ledger()
    now.count("answer", "m", cost=0.5)
    assert Spending(tmp_path, now).total("m", 1, 1) == 1.25
    going.count(
        "rewrite", "m", key="b", cost=None, prompt_tokens=1_000_000, completion_tokens=500_000
    )
    going.count("answer", "local", key="c", cost=None, prompt_tokens=7, completion_tokens=7)
    assert Spending(tmp_path, Ledger()).total("m", 1, 2) == 2.75
    assert Spending(tmp_path, Ledger()).total("local", None, None) == 0.75
    going.count("rewrite", "m", key="d", cost=None, prompt_tokens=None, completion_tokens=5)
    with pytest.raises(
        FatalLLMError, match="calls of m whose cost is not known, so a budget can't be kept"
    ):
        Spending(tmp_path, Ledger()).total("m", 1, 2)


def test_a_ledger_that_cannot_be_read_is_no_cost_of_nothing(tmp_path):
    finished(tmp_path, "done", calls=2, cost=0.5)
    (tmp_path / "done" / "ledger.csv").write_text("stage\nanswer\n")
    with pytest.raises(
        DataError, match=r"ledger\.csv can't be read .* what the run has cost is unknown"
    ):
        Spending(tmp_path, Ledger())


def test_a_lost_prompt_counts_against_the_folders_budget(tmp_path):
    (tmp_path / "going.partial").mkdir()
    going = Account(tmp_path / "going.partial" / "costs.jsonl")
    going.count("answer", "m", key="a", answered=False, cost=None, lost_tokens=500_000)
    assert Spending(tmp_path, Ledger()).total("m", 2, 10) == 1.0


def test_an_unknown_cost_of_a_finished_run_stays_unknown(tmp_path):
    finished(tmp_path, "done", calls=2, cost=None, prompt_tokens=None, completion_tokens=None)
    with pytest.raises(FatalLLMError, match="calls of m whose cost is not known"):
        Spending(tmp_path, Ledger()).total("m", 1, 2)
    assert ledger_frame([tmp_path / "done"])["cost"].isna().all()


def test_what_a_kill_left_of_a_finished_run_counts_once(tmp_path):
    finished(tmp_path, "done", calls=2, cost=0.5)
    (tmp_path / "done.partial").mkdir()
    left = Account(tmp_path / "done.partial" / "costs.jsonl")
    left.count("answer", "m", key="a", cost=0.5)
    assert Spending(tmp_path, Ledger()).total("m", 1, 1) == 0.5
