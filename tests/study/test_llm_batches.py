"""Whole runs whose LLM asks in batches.

They end with what is under way, go on later, and come to what calls of their own come to.
"""

import pandas as pd
import pytest
from click.testing import CliRunner
from llms.batch_server import BatchServer
from llms.chat_server import said

import pyterrier_ikat as ikat
from pyterrier_ikat.cli import main
from pyterrier_ikat.llms import BatchUnderWay, BudgetExceeded
from pyterrier_ikat.runs import RunFolder
from pyterrier_ikat.show import ledger_frame

FIVE = ["1-1_1", "1-1_2", "1-1_3", "2-1_1", "2-1_2"]


@pytest.fixture(scope="session")
def index(sample_index):
    return str(sample_index.path)


def answer(body):
    """As long as the last question, of its words, and the same for the same question."""
    words = body["messages"][-1]["content"].split()
    return said(f"1. {' '.join(words[-5:])}\n2. {' '.join(words[-9:-4])}", usage=(900, 100))


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    made = BatchServer()
    made.respond = answer
    yield made
    made.close()


def spec(server, options="batch=on", name="m"):
    return f"openai:{name} base_url={server.url} price_in=2.5 price_out=10 {options}"


def sizes(server):
    return [len(server.requests(number)) for number in server.batches]


def ended(work):
    with pytest.raises(BatchUnderWay) as raised:
        work()
    return str(raised.value)


def totals(folder):
    """The calls, cached answers and cost of both runs in ``folder``."""
    rows = ledger_frame([folder / "aqd", folder / "qr"])
    return rows[["calls", "known", "cost"]].sum().tolist()


def test_a_command_sends_and_collects_stage_by_stage(server, index, tmp_path, home):
    options = [
        "--dataset",
        "ikat:sample",
        "--index",
        index,
        "--reranker",
        "none",
        "--turns",
        ",".join(FIVE),
    ]

    def command(llm, out):
        done = CliRunner().invoke(
            main, ["run", "aqd", "qr", *options, "--llm", llm, "--out", str(out)]
        )
        return done.exit_code, done.output.splitlines()[-1]

    waits = "stage {}: 5 requests wait in 1 batch (batch_{}: {})"
    again = "run the same command again later"
    answers = waits.format("answer", 0, "validating")
    rewrites = waits.format("rewrite", 1, "validating")
    queries = waits.format("queries", 2, "validating")
    assert command(spec(server), tmp_path / "runs") == (75, f"ikat: {answers}; {rewrites}; {again}")
    server.progress("batch_1", 2)
    assert (
        waits.format("rewrite", 1, "in progress, 2 of 5 done")
        in command(spec(server), tmp_path / "runs")[1]
    )
    server.complete(answer=answer)
    assert command(spec(server), tmp_path / "runs") == (75, f"ikat: {queries}; {again}")
    assert RunFolder(tmp_path / "runs" / "qr").complete
    server.complete(answer=answer)
    assert command(spec(server), tmp_path / "runs")[0] == 0
    assert sizes(server) == [5, 5, 5]
    assert server.calls == 0
    assert command(spec(server, f"cache={tmp_path / 'other.sqlite'}"), tmp_path / "whole")[0] == 0
    for name in ("aqd", "qr"):
        ours = RunFolder(tmp_path / "runs" / name).results()
        theirs = RunFolder(tmp_path / "whole" / name).results()
        pd.testing.assert_frame_equal(ours, theirs)
    paid = totals(tmp_path / "runs")
    full = totals(tmp_path / "whole")
    assert paid == [15, 0, pytest.approx(full[2] / 2)]
    assert full == [15, 0, pytest.approx(15 * 0.00325)]


def test_the_plan_knows_the_price_and_what_is_under_way(server, index, tmp_path):
    def plan(options):
        return ikat.plan(
            "aqd",
            "ikat:sample",
            turns=FIVE,
            index=index,
            llm=spec(server, options),
            reranker="none",
        ).total

    half = plan("batch=on")
    whole = plan("")
    assert half["cost"] == pytest.approx(whole["cost"] / 2)
    ended(
        lambda: ikat.run(
            "aqd",
            "ikat:sample",
            turns=FIVE,
            out=tmp_path,
            index=index,
            llm=spec(server),
            reranker="none",
        )
    )
    begun = plan("batch=on")
    assert (half["new"], begun["known"], begun["new"]) == (10, 5, 5)


def test_waiting_turns_leave_gaps_and_the_run_is_that_of_calls(server, index, tmp_path):
    bm25 = ikat.PassageIndex(index).bm25(num_results=3)

    def run(out, options, size):
        mine = {"mine": bm25 >> ikat.Respond(spec(server, options))}
        return ikat.run(mine, "ikat:sample", turns=FIVE, out=tmp_path / out, turns_at_once=size)

    assert "5 requests wait in 3 batches" in ended(
        lambda: run("runs", "batch=on", 2)
    )  # each lot of turns sends its batch
    assert sizes(server) == [2, 2, 1]
    server.end("batch_1", answer=answer)
    assert "3 requests wait in 2 batches" in ended(lambda: run("runs", "batch=on", 2))
    server.complete(answer=answer)
    run("runs", "batch=on", 3)
    run("whole", "cache=none", 3)
    ours = RunFolder(tmp_path / "runs" / "mine")
    theirs = RunFolder(tmp_path / "whole" / "mine")
    pd.testing.assert_frame_equal(ours.results(), theirs.results())
    assert (ours.path / "turns.jsonl").read_text() == (theirs.path / "turns.jsonl").read_text()
    assert (ours.path / "run.trec").read_text() == (theirs.path / "run.trec").read_text()


def test_repeats_and_branches_send_all_that_they_can(server, index, tmp_path):
    bm25 = ikat.PassageIndex(index).bm25(num_results=5)
    both = ikat.RRF(ikat.Answer(spec(server)) >> bm25, ikat.Rewrite(spec(server)) >> bm25)

    def run():
        return ikat.run({"both": both}, "ikat:sample", turns=FIVE, out=tmp_path, repeats=2)

    ended(run)
    assert sizes(server) == [5] * 4
    server.complete(answer=answer)
    assert len(run().table) == 1
    assert len(set(server.sent)) == 20


def test_an_experiment_sends_every_systems_batch(server, index):
    bm25 = ikat.PassageIndex(index).bm25(num_results=5)
    systems = {
        "raw": bm25,
        "a": ikat.Answer(spec(server)) >> bm25,
        "b": ikat.Rewrite(spec(server)) >> bm25,
    }

    def experiment():
        return ikat.experiment(systems, "ikat:sample", turns=FIVE)

    assert "stage rewrite" in ended(experiment)
    assert len(server.batches) == 2
    server.complete(answer=answer)
    assert experiment()["name"].tolist() == ["raw", "a", "b"]
    assert len(server.batches) == 2


def test_each_window_round_is_a_batch_and_short_turns_never_wait(server):
    found = pd.DataFrame(
        [
            ["1_1", "d0", 0],
            ["1_1", "d1", 1],
            ["1_1", "d2", 2],
            ["1_1", "d3", 3],
            ["1_2", "d0", 0],
            ["1_2", "d1", 1],
        ],
        columns=["qid", "docno", "rank"],
    )
    found["query"] = "tea"
    found["text"] = "text of " + found["docno"] + " and " + found["qid"]
    found["score"] = -found["rank"].astype(float)

    def listwise(options):
        return ikat.ListwiseRerank(spec(server, options), k=4, window=2, stride=1)

    swapped = server.respond = lambda body: said("[2] > [1]")
    # 1_1 has three windows, each of which waits for the one before, 1_2 has one.
    for size in (2, 1, 1):
        assert ended(lambda: listwise("batch=on")(found)).startswith(
            f"stage listwise: {size} request"
        )
        server.complete(answer=swapped)
    ranking = listwise("batch=on")(found)
    assert sizes(server) == [2, 1, 1]
    assert ranking[ranking["qid"] == "1_1"]["docno"].tolist() == ["d3", "d0", "d1", "d2"]
    pd.testing.assert_frame_equal(ranking, listwise("cache=none")(found))


def test_failed_request_does_not_keep_later_stages_waiting(server, index, tmp_path):
    def run():
        llm = spec(server, "batch=on on_error=fallback")
        return ikat.run(
            "aqd", "ikat:sample", turns=FIVE, out=tmp_path, index=index, llm=llm, reranker="none"
        )

    ended(run)
    server.complete(
        answer=lambda body: (
            said("cut", "length") if "park?" in str(body["messages"][-1]) else answer(body)
        )
    )
    assert ended(run).startswith("stage queries: 5 requests")
    server.complete(answer=answer)
    run()
    assert sizes(server) == [5, 5]
    assert ledger_frame([tmp_path / "aqd"])["fallbacks"].tolist() == [1, 0]


def test_a_budget_of_the_folder_counts_what_is_under_way(server, index, tmp_path):
    llm = spec(server, "batch=on max_tokens=100 budget=0.1")

    def run(*names):
        return ikat.run(names, "ikat:sample", out=tmp_path, index=index, llm=llm, reranker="none")

    with pytest.raises(
        BudgetExceeded,
        match="the budget of 0.1 USD may be exceeded .*this one, which isn't sent, may cost "
        "0.1... USD",
    ):
        run("qr", "ad")
    assert sizes(server) == [24]
