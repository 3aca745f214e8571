"""What is printed and tried after a failure, and the second of several systems, files and steps."""

from importlib import import_module
from types import SimpleNamespace

import pandas as pd
import pytest

import pyterrier_ikat as ikat
from pyterrier_ikat.conversations import write_qrels
from pyterrier_ikat.errors import UsageError
from pyterrier_ikat.llms import Ledger
from pyterrier_ikat.llms.recording import ToFillInError
from pyterrier_ikat.tables import Cell, Column, Table

run = import_module("pyterrier_ikat.cli.run")
evaluate = import_module("pyterrier_ikat.cli.evaluate")
judge = import_module("pyterrier_ikat.cli.judge")
frame = import_module("pyterrier_ikat.cli.main")


# What was spent before an error


def spends_and_fails(*_, ledger, **__):
    ledger.count("answer", "m", calls=3)
    raise UsageError("no further")


def assert_spending_is_told(done):
    assert (done.exit_code, "ikat: no further" in done.stderr) == (2, True)
    account = done.stderr.partition("LLM ledger")[2]
    assert "answer" in account
    assert "LLM ledger" not in done.stdout


def test_what_a_failed_simulation_has_spent_is_told(call, monkeypatch):
    monkeypatch.setattr("pyterrier_ikat.live.simulation.simulate", spends_and_fails)
    words = ("--users", "sample", "--user-llm", "a", "--judge-llm", "b", "--out", "o")
    assert_spending_is_told(call("simulate", "raw", *words))


def test_what_a_failed_judge_has_spent_is_told(call, monkeypatch, made, tmp_path):
    def judges(runs, pairs, data, spec, out, ledger, **options):
        spends_and_fails(ledger=ledger)

    monkeypatch.setattr(judge, "_judge", judges)
    words = ("--pairs", made.path / "two.txt", "--llm", "x", "--out", tmp_path / "o")
    assert_spending_is_told(call("judge", "--dataset", "ikat:sample", *words))


def test_what_failed_judges_of_responses_have_spent_is_told(call, monkeypatch, made):
    ledgers = []

    def judges(names, spec, ledger):
        ledgers.append(ledger)
        return []

    def scores(turns, answers, judges):
        spends_and_fails(ledger=ledgers[0])

    monkeypatch.setattr(evaluate, "_judges", judges)
    monkeypatch.setattr("pyterrier_ikat.evaluation.responses.evaluate_responses", scores)
    assert_spending_is_told(call("evaluate", made.runs / "rtg", "--of", "responses"))


# Live


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


# Recordings


@pytest.fixture
def recorder(monkeypatch):
    """What a recording gets, and systems that lack lines as `lacking` says."""
    seen = SimpleNamespace(recordings=[], studies=[], ran=[], lacking={})

    def recording(path, replayed, model, ledger):
        seen.recordings.append((path, replayed, model))
        ledger.count("answer", "m", calls=1)
        return SimpleNamespace(backend=SimpleNamespace(written=2))

    def pipeline(name):
        def ask(turns):
            seen.ran.append((name, turns))
            if name in seen.lacking:
                raise seen.lacking[name]

        return ask

    class Study:
        def __init__(self, names, data, **options):
            seen.studies.append((names, data, options))
            self.systems = [SimpleNamespace(name=name, pipeline=pipeline(name)) for name in names]

        def turns_of(self, system):
            return SimpleNamespace(frame=f"turns of {system.name}")

    monkeypatch.setattr("pyterrier_ikat.llms.recording.recording", recording)
    monkeypatch.setattr("pyterrier_ikat.study.Study", Study)
    monkeypatch.setattr(run, "dataset_named", lambda name: f"dataset {name}")
    return seen


@pytest.mark.parametrize(
    ("model", "replayed", "expected"),
    [
        ("openai:a", None, (None, "openai:a")),
        ("openai:a", "recorded:sample", ("recorded:sample", "openai:a")),
        ("openai:a", "openai:b", (None, "openai:a")),
        ("recorded:x", None, ("recorded:x", None)),
        ("recorded:x", "recorded:sample", ("recorded:x", None)),
    ],
)
def test_a_recording_asks_one_model_beside_what_is_recorded(recorder, model, replayed, expected):
    given = {"llm": model, "repeats": 1, "turns": "t"}
    run.record_completions(("ad", "qr"), "d", "file", replayed, given)
    assert recorder.recordings == [("file", *expected)]
    [(names, data, options)] = recorder.studies
    assert (names, data, options["turns"], options["in_memory"]) == (
        ["ad", "qr"],
        "dataset d",
        "t",
        True,
    )
    assert recorder.ran == [("ad", "turns of ad"), ("qr", "turns of qr")]


def test_all_systems_are_recorded_before_lines_are_asked_for(recorder, capsys):
    recorder.lacking = {name: ToFillInError(f"{name} lacks lines") for name in ("ad", "qr")}
    given = {"llm": "recorded:x", "repeats": 1}
    with pytest.raises(ToFillInError, match="qr lacks lines"):
        run.record_completions(("ad", "raw", "qr", "rtg"), "d", "file", None, dict(given))
    assert [name for name, _ in recorder.ran] == ["ad", "raw", "qr", "rtg"]
    assert capsys.readouterr().out == ""
    recorder.lacking = {}
    run.record_completions(("ad",), "d", "file", None, dict(given))
    told = capsys.readouterr()
    assert told.out.startswith("file: 2 new lines\n")
    assert "LLM ledger" in told.out


@pytest.mark.parametrize("option", ["qrels", "measures", "baseline", "unit"])
def test_a_recording_takes_no_option_of_scores(recorder, option):
    given = {"llm": "openai:a", "repeats": 1, option: "x"}
    with pytest.raises(UsageError, match=f"--record scores nothing: omit --{option}"):
        run.record_completions(("ad",), "d", "file", None, given)
    for given, told in [
        ({"llm": "openai:a", "repeats": 2}, "omit --repeats"),
        ({"repeats": 1}, "--record needs --llm, or --resources sample"),
    ]:
        with pytest.raises(UsageError, match=told):
            run.record_completions(("ad",), "d", "file", "recorded:sample", given)
    assert recorder.recordings == []


# Evaluations


def test_all_judged_turns_are_compared_with_the_dataset_s(call, made, tmp_path):
    sample = ikat.dataset("ikat:sample").get_qrels()
    strange = pd.DataFrame({"qid": ["9-9_9"], "docno": ["x"], "label": [1]})
    write_qrels(pd.concat([sample, strange], ignore_index=True), tmp_path / "qrels")
    words = ("evaluate", made.runs / "raw", "--dataset", "ikat:sample", "--measures", "P@1")
    told = f"{tmp_path / 'qrels'} judges 1 turn that ikat:sample lacks: 9-9_9"
    for turns in ((), ("--turns", "1-1_1")):
        done = call(*words, "--qrels", tmp_path / "qrels", *turns)
        assert done.exit_code == 0, done.output
        assert " ".join(told.split()) in " ".join(done.stdout.split())
    assert "lacks: 9-9_9" not in call(*words).output


def test_a_table_in_a_terminal_is_drawn_to_its_width(monkeypatch, capsys):
    columns = [Column("system", [Cell("raw")])]
    columns += [Column(f"measure{number}", [Cell(".1")], numeric=True) for number in range(9)]
    table = Table([], columns, [])
    for err in (True, False):
        stream = frame.sys.stderr if err else frame.sys.stdout
        monkeypatch.setattr(stream, "isatty", lambda: True, raising=False)
        monkeypatch.setenv("COLUMNS", "60")
        monkeypatch.setenv("TERM", "dumb")
        frame.show(table, err=err)
        told = capsys.readouterr()
        shown = told.err if err else told.out
        assert (told.out if err else told.err) == ""
        assert shown.count("system") > 1  # blocks
        frame.show(table, "csv", err=err)
        told = capsys.readouterr()
        assert (told.err if err else told.out) == table.written("csv")


def test_no_account_is_printed_where_all_was_free(capsys):
    ledger = Ledger()
    ledger.count("answer", "m", known=4)
    frame.print_ledger(ledger)
    assert capsys.readouterr() == ("", "")
    ledger.count("respond", "m", known=1, worth=0.25)
    frame.print_ledger(ledger, " (here)")
    shown = capsys.readouterr().out
    assert shown.startswith("\nLLM ledger (here)\n")
    assert "answer" in shown
    assert "respond" in shown
