"""What ikat chat, serve and interact give to the package, and what they print at the end."""

import json
from types import SimpleNamespace

import pandas as pd
import pytest
from click.testing import CliRunner

from pyterrier_ikat.cli import main
from pyterrier_ikat.conversations import dataset, read_qrels, read_topics
from pyterrier_ikat.evaluation import pool_runs
from pyterrier_ikat.llms import Ledger
from pyterrier_ikat.runs import RunFolder
from pyterrier_ikat.tables import of_frame


class Called:
    """Keeps the arguments of its calls, and returns a fixed value."""

    def __init__(self, result=None):
        self.result, self.calls = result, []

    def __call__(self, *args, **named):
        self.calls.append((args, named))
        return self.result


RESOURCES = {
    "index": "i",
    "llm": "l",
    "second_llm": "s",
    "reranker": "r",
    "prompts": "p",
}


def with_resources():
    words = []
    for name, value in RESOURCES.items():
        words += ["--resources", f"{name}={value}"]
    return words


@pytest.fixture
def ledgers(monkeypatch):
    printed = Called()
    monkeypatch.setattr("pyterrier_ikat.cli.live.print_ledger", printed)
    return printed.calls


OF_SERVE = {
    "host": "127.0.0.1",
    "port": 8000,
    "public_url": None,
    "mcp": False,
    "workers": 16,
    "out": None,
    "words": None,
}


@pytest.mark.parametrize(
    ("words", "changed"),
    [
        ([], {}),
        (["--host", "localhost"], {"host": "localhost"}),
        (["--port", "0"], {"port": 0}),
        (["--public-url", "https://x"], {"public_url": "https://x"}),
        (["--mcp"], {"mcp": True}),
        (["--workers", "3"], {"workers": 3}),
        (["--out", "o"], {"out": "o"}),
        (["--words", "40"], {"words": 40}),
        (with_resources(), RESOURCES),
        (["--llm", "x", "--resources", "llm=y"], {"llm": "x"}),
    ],
)
def test_serve_gives_each_option_to_the_server(monkeypatch, ledgers, call, words, changed):
    served = Called()
    monkeypatch.setattr("pyterrier_ikat.live.serving.serve", served)
    done = call("serve", "raw", "ad", *words)
    assert done.exit_code == 0, done.output
    [(args, named)] = served.calls
    assert args == (("raw", "ad"),)
    expected = OF_SERVE | changed
    assert {name: named.get(name) for name in expected} == expected
    assert "loading raw, ad" in done.stderr
    assert isinstance(named["ledger"], Ledger)
    assert [args[0] for args, _ in ledgers] == [named["ledger"]]
    rest = named.keys() - expected - {"echo", "ledger"}
    assert all(named[name] is None for name in rest)


def test_what_was_spent_is_printed_when_a_server_fails(monkeypatch, ledgers, call):
    def fails(*args, **named):
        raise KeyError("broken")

    monkeypatch.setattr("pyterrier_ikat.live.serving.serve", fails)
    assert isinstance(call("serve", "raw").exception, KeyError)
    assert len(ledgers) == 1


@pytest.mark.parametrize(
    "words",
    [
        ["serve"],
        ["serve", "raw", "--port", "-1"],
        ["serve", "raw", "--port", "65536"],
        ["serve", "raw", "--workers", "0"],
        ["serve", "raw", "--words", "0"],
        ["chat", "raw", "--words", "0"],
        ["chat"],
        ["interact", "https://h", "ad", "--out", "o"],
        ["interact", "https://h", "ad", "--run-id", "r"],
        ["interact", "https://h", "ad", "--run-id", "r", "--out", "o", "--sessions", "0"],
    ],
)
def test_what_is_missing_or_out_of_range_is_refused(call, words):
    assert call(*words).exit_code == 2


OF_CHAT = {
    "persona": None,
    "number": None,
    "memory": None,
    "out": None,
    "continue_from": None,
    "words": None,
}


@pytest.mark.parametrize(
    ("words", "changed"),
    [
        ([], {}),
        (["--persona", "p.txt"], {"persona": "p.txt"}),
        (["--conversation", "1-1"], {"number": "1-1"}),
        (["--memory", "m.db"], {"memory": "m.db"}),
        (["--out", "o"], {"out": "o"}),
        (["--continue", "c"], {"continue_from": "c"}),
        (["--words", "9"], {"words": 9}),
        (with_resources(), RESOURCES),
    ],
)
def test_chat_gives_each_option_to_the_chat(monkeypatch, ledgers, call, words, changed):
    chat, talk = Called("the chat"), Called()
    monkeypatch.setattr("pyterrier_ikat.live.chat.Chat", chat)
    monkeypatch.setattr("pyterrier_ikat.live.chat.talk", talk)
    done = call("chat", "rtg", *words)
    assert done.exit_code == 0, done.output
    [(args, named)] = chat.calls
    assert args == ("rtg",)
    expected = OF_CHAT | changed
    assert {name: named.get(name) for name in expected} == expected
    assert all(named[name] is None for name in named.keys() - expected - {"ledger"})
    assert [args for args, _ in talk.calls] == [("the chat",)]
    assert [args[0] for args, _ in ledgers] == [named["ledger"]]


def test_a_conversation_of_the_sample_is_replayed(sample_index, tmp_path):
    words = ["chat", "ad", "--index", sample_index, "--llm", "recorded:sample"]
    words += ["--persona", "ikat:sample", "--conversation", "1-1", "--out", tmp_path / "chat"]
    done = CliRunner().invoke(main, list(map(str, words)), input="\n/quit\n")
    assert done.exit_code == 0, done.output
    assert "method ad, 9 statements about you" in done.output
    assert f"1 turn, saved in {tmp_path / 'chat'}" in done.output
    [turns] = read_topics(tmp_path / "chat" / "topics.json")
    assert turns.number == "1-1"


OF_INTERACT = {
    "run_id": "mine",
    "out": "folder",
    "debug": False,
    "persona": None,
    "memory": None,
    "sessions": None,
}


@pytest.mark.parametrize(
    ("words", "changed", "finished", "state"),
    [
        ([], {}, True, "every conversation has ended"),
        ([], {}, False, "not finished: the same command continues"),
        (
            ["--sessions", "2"],
            {"sessions": 2},
            False,
            "not finished: the same command continues without --sessions",
        ),
        (["--sessions", "2"], {"sessions": 2}, True, "every conversation has ended"),
        (["--debug"], {"debug": True}, True, "every conversation has ended"),
        (["--persona", "p"], {"persona": "p"}, True, "every conversation has ended"),
        (["--memory", "m"], {"memory": "m"}, True, "every conversation has ended"),
        (with_resources(), RESOURCES, True, "every conversation has ended"),
    ],
)
def test_interact_gives_each_option_to_the_run(
    monkeypatch, ledgers, call, capsys, words, changed, finished, state
):
    play = Called(SimpleNamespace(finished=finished))
    monkeypatch.setattr("pyterrier_ikat.live.interactive.interact", play)
    done = call("interact", "https://h", "ad", "--run-id", "mine", "--out", "folder", *words)
    assert done.exit_code == 0, done.output
    [(args, named)] = play.calls
    assert args == ("https://h", "ad")
    expected = OF_INTERACT | changed
    assert {name: named.get(name) for name in expected} == expected
    assert named["doing"] is None  # no terminal
    assert done.stdout.splitlines()[-1] == f"folder: {state}"
    assert "https://h: run mine" in done.stderr
    assert [args for args, _ in ledgers] == [(named["ledger"], " (of this command)")]
    named["tell"]("a line")
    told = capsys.readouterr()
    assert (told.out, told.err) == ("", "a line\n")


def test_a_planned_judge_that_is_a_system_s_model_is_told(monkeypatch, ledgers, call):
    rows = {
        "system": ["ad", "ad", "ad"],
        "stage": ["answer", "simulate_user", "simulate_judge"],
        "model": ["gpt-4o", "gpt-4.1", "gpt-4.1"],
    }
    plan = pd.DataFrame(rows)
    plan.shown = lambda: of_frame(pd.DataFrame(rows))
    monkeypatch.setattr("pyterrier_ikat.live.simulation.simulate", Called(plan))
    words = ("simulate", "ad", "--users", "u", "--out", "o", "--plan", "--user-llm")
    done = call(*words, "openai:gpt-4.1", "--judge-llm", "openai:gpt-4o")
    assert done.exit_code == 0, done.output
    assert "circular: gpt-4o" in done.stderr
    assert "circular: gpt-4.1" not in done.stderr
    assert done.stdout.splitlines()[1].split() == ["ad", "answer", "gpt-4o"]
    assert "An upper bound" in done.stdout
    about = " (of this command: systems, users and judge)"
    assert [(args[1], named) for args, named in ledgers] == [(about, {"err": True})]


# ikat evaluate --of actions, --of nuggets, and ikat judge --fill


@pytest.fixture
def decided(tmp_path):
    """A data set of three turns with labels, and a run folder that decided for each."""
    folder = tmp_path / "mine"
    folder.mkdir()
    turns = [("a_1", "unanswerable"), ("b_1", "answerable"), ("c_1", "underspecified")]
    lines = [
        {"qid": qid, "messages": [{"role": "user", "content": "Tea?"}], "answerability": label}
        for qid, label in turns
    ]
    (folder / "topics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (folder / "passages.jsonl").write_text('{"docno": "d1", "text": "Tea."}\n')
    run = tmp_path / "ours"
    run.mkdir()
    actions = {"a_1": "abstain", "b_1": "abstain", "c_1": "ask"}
    rows = [{"qid": qid, "qaction": action} for qid, action in actions.items()]
    (run / "turns.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (run / "run.json").write_text("{}")
    return run, folder


@pytest.mark.filterwarnings("ignore::pyterrier_ikat.conversations.topics.CollectionWarning")
def test_actions_are_evaluated_with_turns_and_unit(call, decided):
    run, data = decided
    common = ("evaluate", "--of", "actions", run, "--dataset", data)
    done = call(*common)
    assert done.exit_code == 0, done.output
    rows = [line.split() for line in done.stdout.splitlines() if line.startswith("ours")]
    assert rows[0][1:9] == ["abstain", "3", "1", "2", "1", ".5000", ".0945", ".9055"]
    assert rows[1][1:7] == ["ask", "3", "1", "1", "1", "1.0000"]
    csv = call(*common, "--format", "csv", "--unit", "turn")
    header, first, *_ = csv.stdout.splitlines()
    row = dict(zip(header.split(","), first.split(","), strict=True))
    assert (row["unit"], row["clusters"], row["precision"]) == ("turn", "3", "0.5")
    chosen = call(*common, "--turns", "a_1", "--format", "csv").stdout.splitlines()
    assert chosen[1].split(",")[1:6] == ["abstain", "1", "1", "1", "1"]
    assert len(chosen) == 2


def test_nuggets_need_published_runs(call, refused, decided):
    run, _ = decided
    line = refused(call("evaluate", "--of", "nuggets", run, "--dataset", "ikat:2024"))
    assert "--of nuggets shows the labels of people: give published" in line
    assert "ikat:sample has no published runs" in refused(
        call("evaluate", "published", "--of", "nuggets", "--dataset", "ikat:sample")
    )


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--fill", "RUN"], "give --llm and --out to judge"),
        (["--fill", "RUN", "--llm", "recorded:sample"], "give --llm and --out to judge"),
        (["--fill", "--llm", "recorded:sample", "--out", "o"], "give RUNs to judge"),
        (
            ["--fill", "RUN", "--style", "umbrela", "--llm", "recorded:sample", "--out", "o"],
            "--fill takes RUNs and has a prompt of its own",
        ),
        (
            ["--fill", "--pairs", "default", "--llm", "recorded:sample", "--out", "o"],
            "--fill takes RUNs and has a prompt of its own",
        ),
        (
            ["RUN", "--pairs", "default", "--llm", "recorded:sample", "--out", "o"],
            "give RUNs to judge",
        ),
        (["--pairs", "default", "--fill", "--agree", "default"], "give --llm and --out to judge"),
    ],
)
def test_options_of_a_judge_that_do_not_fit_are_refused(call, refused, made, words, told):
    words = [str(made.runs / "raw") if word == "RUN" else word for word in words]
    assert told in refused(call("judge", *words, "--dataset", "ikat:sample"))


def test_holes_are_filled_to_a_depth_and_counted(call, made, recorded, tmp_path):
    judged = dataset("ikat:sample").get_qrels()
    pool = pool_runs({"raw": RunFolder(made.runs / "raw").results()}, 2)
    pool = pool[pool["qid"].isin(judged["qid"])]
    both = pool.merge(judged, on=["qid", "docno"])
    pairs = set(map(tuple, pool.values)) | set(map(tuple, judged[["qid", "docno"]].values))
    spec = recorded(
        tmp_path / "labels.jsonl",
        *((qid, "judge", "2", docno) for qid, docno in sorted(pairs)),
    )
    out = tmp_path / "filled"
    done = call(
        *("judge", "--fill", made.runs / "raw", "--dataset", "ikat:sample", "--llm", spec),
        *("--depth", "2", "--out", out),
    )
    holes = len(pool) - len(both)
    assert 0 < holes < len(pool)
    assert done.exit_code == 0, done.output
    assert f"filled the labels of {holes} of the {len(pool)} passages" in done.stdout
    assert len(read_qrels(out)) == len(judged) + holes


def test_only_holes_of_the_given_turns_are_filled(call, made, recorded, tmp_path):
    judged = dataset("ikat:sample").get_qrels()
    judged = judged[judged["qid"] == "1-1_2"]
    pool = pool_runs({"raw": RunFolder(made.runs / "raw").results()}, 4)
    pool = pool[pool["qid"] == "1-1_2"]
    docnos = sorted({*judged["docno"], *pool["docno"]})
    labels = [("1-1_2", "judge", "2", docno) for docno in docnos]
    out = tmp_path / "filled"
    done = call(
        *("judge", "--fill", made.runs / "raw", "--dataset", "ikat:sample", "--turns", "1-1_2"),
        *("--llm", recorded(tmp_path / "labels.jsonl", *labels), "--depth", "4", "--out", out),
    )
    assert done.exit_code == 0, done.output
    filled = read_qrels(out)
    assert filled["qid"].unique().tolist() == ["1-1_2"]
    assert sorted(filled["docno"]) == docnos
    assert len(docnos) > len(judged)


@pytest.mark.parametrize("of", ["runs", "pairs"])
def test_only_passages_of_the_given_turns_are_judged(of, call, made, recorded, tmp_path):
    if of == "runs":
        pool = pool_runs({"raw": RunFolder(made.runs / "raw").results()}, 2)
        words = [made.runs / "raw", "--depth", "2"]
    else:
        pool = dataset("ikat:sample").get_qrels()
        words = ["--pairs", "default"]
    docnos = sorted(pool.loc[pool["qid"] == "1-1_2", "docno"])
    labels = [("1-1_2", "judge", "2", docno) for docno in docnos]
    out = tmp_path / "judged"
    done = call(
        *("judge", *words, "--dataset", "ikat:sample", "--turns", "1-1_2"),
        *("--llm", recorded(tmp_path / "labels.jsonl", *labels), "--out", out),
    )
    assert done.exit_code == 0, done.output
    judged = read_qrels(out)
    assert judged["qid"].unique().tolist() == ["1-1_2"]
    assert sorted(judged["docno"]) == docnos
