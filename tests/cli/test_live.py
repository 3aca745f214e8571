"""`ikat chat`, `serve`, `interact` and `simulate`: what each option reaches, what is told."""

from importlib import import_module
from types import SimpleNamespace

import pandas as pd
import pytest
from click.testing import CliRunner
from command_results import Called, assert_spending_is_told, spends_and_fails

from pyterrier_ikat.cli import main
from pyterrier_ikat.conversations import read_topics
from pyterrier_ikat.llms import Ledger
from pyterrier_ikat.tables import Cell, Column, Table, of_frame

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


# ikat serve

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


# ikat chat

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
    chat = Called("the chat")
    talk = Called()
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


def test_a_chat_says_what_it_loads_on_its_own_screen(call, monkeypatch):
    steps = []

    class Screen:
        def doing(self, what):
            steps.append(what)
            return self

        def __enter__(self):
            steps.append("begins")

        def __exit__(self, *error):
            steps.append("ends")

    monkeypatch.setattr("pyterrier_ikat.live.chat.Screen", Screen)
    monkeypatch.setattr("pyterrier_ikat.live.chat.Chat", lambda name, **more: steps.append(name))
    monkeypatch.setattr(
        "pyterrier_ikat.live.chat.talk",
        lambda chat, screen: steps.append(("talk", type(screen) is Screen)),
    )
    assert call("chat", "my.py:gate").exit_code == 0
    assert steps == ["loading my.py:gate", "begins", "my.py:gate", "ends", ("talk", True)]


# ikat interact

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


@pytest.mark.parametrize("is_terminal", [True, False])
def test_steps_of_an_interactive_run_are_told_in_a_terminal(monkeypatch, capsys, is_terminal):
    given = {}

    def play(address, name, **options):
        given.update(options, address=address, name=name)
        options["tell"]("a line")
        return SimpleNamespace(finished=True)

    monkeypatch.setattr("pyterrier_ikat.live.interactive.interact", play)
    live = import_module("pyterrier_ikat.cli.live")
    monkeypatch.setattr(live.sys.stderr, "isatty", lambda: is_terminal, raising=False)
    options = {"address": "https://h", "name": "rtg", "out": "folder", "given": ()}
    live.interact.callback(**options, run_id="mine", sessions=None)
    told = capsys.readouterr()
    assert told.err == "https://h: run mine\na line\n"
    assert told.out == "\nfolder: every conversation has ended\n"
    assert (given["doing"] is given["tell"]) is is_terminal
    assert (given["doing"] is None) is not is_terminal
    assert (given["address"], given["name"], given["out"]) == ("https://h", "rtg", "folder")


# ikat simulate


@pytest.mark.parametrize("plans", [True, False])
def test_a_simulation_gets_its_options_and_tells_circles(call, monkeypatch, plans):
    given = []
    calls = pd.DataFrame(
        {"stage": ["answer", "simulate_user", "simulate_judge"], "model": ["gpt-4o", "u", "j"]}
    )
    table = Table([], [Column("system", [Cell("raw")])], [])

    class Simulated(SimpleNamespace):
        def __getitem__(self, key):
            return calls[key]

    def simulate(names, **options):
        given.append((names, options))
        options["ledger"].count("answer", "gpt-4o", calls=1)
        options["ledger"].count("simulate_user", "other", calls=1)
        return Simulated(shown=lambda: table)

    monkeypatch.setattr("pyterrier_ikat.live.simulation.simulate", simulate)
    words = ["--users", "sample", "--user-llm", "openai:gpt-4o", "--judge-llm", "openai:other"]
    done = call("simulate", "raw", "ad", *words, "--out", "o", *(["--plan"] if plans else []))
    assert done.exit_code == 0, done.output
    [(names, options)] = given
    assert names == ("raw", "ad")
    expected = {"out": "o", "plan": plans, "users": "sample", "repeats": 1, "users_by": "need"}
    expected |= {"show_persona": False, "baseline": None}
    assert {name: options[name] for name in expected} == expected
    assert "circular: gpt-4o is a judge or user here, and a system asked it" in done.stderr
    assert "other is a judge" not in done.stderr
    assert "LLM ledger (of this command: systems, users and judge)" in done.stderr
    assert done.stdout.startswith("system\nraw\n")
    assert ("An upper bound" in done.stdout) is plans
    assert ("Sessions: one folder for each system in o" in done.stdout) is not plans


PLAYED = ("--user-llm", "recorded:sample-users", "--judge-llm", "recorded:sample-users")


def test_a_simulation_prints_its_table_folders_and_ledger(call, sample_index, tmp_path):
    given = ("--users", "sample", *PLAYED, "--index", sample_index, "--show-persona")
    done = call("simulate", "raw", *given, "--out", tmp_path / "sims")
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines()[1].split()[:2] == ["raw", "5"]
    assert f"Sessions: one folder for each system in {tmp_path / 'sims'}" in " ".join(
        done.stdout.split()
    )
    assert (tmp_path / "sims" / "raw" / "log.jsonl").is_file()
    other = call("simulate", "raw", *given, "--out", tmp_path / "sims", "--users-by", "track")
    assert other.exit_code == 2
    assert "users_by was 'need', now 'track'" in " ".join(other.stderr.split())


def test_a_plan_of_a_simulation_plays_nothing(call, sample_index, tmp_path):
    given = ("--users", "sample", *PLAYED, "--index", sample_index, "--show-persona")
    done = call("simulate", "raw", *given, "--out", tmp_path / "sims", "--plan")
    assert done.exit_code == 0, done.output
    assert "simulate_user" in done.stdout
    assert not (tmp_path / "sims" / "raw").exists()


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


def test_what_a_failed_simulation_has_spent_is_told(call, monkeypatch):
    monkeypatch.setattr("pyterrier_ikat.live.simulation.simulate", spends_and_fails)
    words = ("--users", "sample", "--user-llm", "a", "--judge-llm", "b", "--out", "o")
    assert_spending_is_told(call("simulate", "raw", *words))
