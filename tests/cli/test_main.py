"""The frame of all commands: help, RUNs beside others, resources, judgements, what is printed."""

import subprocess
import sys
from functools import partial
from importlib import import_module

import click
import pandas as pd
import pytest
from click.testing import CliRunner

import pyterrier_ikat as ikat
from pyterrier_ikat.cli import main
from pyterrier_ikat.cli.main import (
    RUNS,
    RUNS_SO_FAR,
    SECTIONS,
    judged_by,
    load_runs,
    print_ledger,
    resources,
    show,
    tell_circular,
    text_loader_of,
    turns_of,
    without_unfinished,
)
from pyterrier_ikat.errors import UsageError
from pyterrier_ikat.llms import Ledger
from pyterrier_ikat.runs import RunFolder
from pyterrier_ikat.tables import Cell, Column, Table

# Help

COMMANDS = sorted(main.commands)


def options_of(command):
    return [parameter for parameter in command.params if isinstance(parameter, click.Option)]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_a_section_an_example_and_option_help(name, call):
    assert main.commands[name].section in SECTIONS
    examples = call(name, "--help").output.partition("Example")[2]
    assert examples.partition(":\n")[2].startswith(f"  ikat {name}")
    assert all(option.help for option in options_of(main.commands[name]))


def test_resources_stand_together_in_their_order():
    names = [option.name for option in main.commands["serve"].params]
    assert names[1:5] == ["index", "llm", "reranker", "given"]


def test_there_are_fourteen_commands_with_a_hundred_options(call):
    number = sum(len(options_of(command)) for command in main.commands.values())
    assert len(COMMANDS) == 14
    assert number <= 111, f"{number} options: a new one takes the place of another"
    assert set(call().output.split()) >= set(COMMANDS)


def test_help_lists_whole_sentences_by_section(call):
    shown = call("--help").output
    text = " ".join(shown.split())
    for name, command in main.commands.items():
        assert command.get_short_help_str(limit=300) in text, name
    sections = [line[:-1] for line in shown.splitlines() if line[:1].isupper() and line[-1:] == ":"]
    assert sections == [
        "Options",
        "Prepare",
        "Run",
        "Live",
        "Evaluate",
        "Inspect",
        "Submit",
        "Examples",
    ]
    assert "Example:\n  ikat datasets\n" in call("datasets", "--help").output
    methods = call("methods", "--help").output
    assert "Examples:\n  ikat methods\n  ikat methods gtr\n" in methods
    assert main.name == "main"


def test_the_package_is_the_command():
    done = subprocess.run(
        [sys.executable, "-m", "pyterrier_ikat", "--version"], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout.split()[-1]) == (0, ikat.__version__)


# RUNs


@pytest.fixture
def beside(tmp_path):
    """Runs, unfinished runs with and without turns, an index, a report and plots."""
    for name in ("raw", "ad", "begun.partial", "just.partial", "an.index"):
        (tmp_path / name).mkdir()
    (tmp_path / "begun.partial" / "000000.turns.jsonl").touch()
    (tmp_path / "just.partial" / "notes.turns.jsonl").touch()
    (tmp_path / "an.index" / "pt_meta.json").touch()
    for name in ("report.html", "plot.png", "plot.pdf", "run.trec"):
        (tmp_path / name).touch()
    return tmp_path


def paths_of(argument, *words):
    """The paths that a command gets, and what is told of the others."""
    seen = []

    @click.command()
    @argument
    def command(paths):
        seen.extend(paths)

    done = CliRunner().invoke(command, [str(word) for word in words], catch_exceptions=False)
    return seen, done.stderr.splitlines()


EVERYTHING = ["an.index", "begun.partial", "just.partial", "plot.pdf", "plot.png", "raw"]


@pytest.mark.parametrize(
    ("argument", "names", "kept", "omitted"),
    [
        (
            RUNS_SO_FAR,
            [*EVERYTHING, "report.html", "run.trec"],
            ["begun.partial", "raw", "run.trec"],
            {
                "an.index": "an index",
                "just.partial": "an unfinished run: `ikat run` continues it",
                "plot.pdf": "no run",
                "plot.png": "no run",
                "report.html": "no run",
            },
        ),
        (
            RUNS,
            ["raw", "begun.partial", "ad", "plot.png"],
            ["raw", "ad"],
            {
                "plot.png": "no run",
                "begun.partial": "an unfinished run: `ikat run` continues it",
            },
        ),
        (RUNS, ["begun.partial", "plot.png"], ["begun.partial"], {"plot.png": "no run"}),
        (RUNS_SO_FAR, ["plot.png"], ["plot.png"], {}),
        (RUNS_SO_FAR, ["just.partial", "an.index"], ["just.partial", "an.index"], {}),
        (RUNS, ["raw"], ["raw"], {}),
    ],
)
def test_what_lies_beside_runs_is_omitted_and_named(
    beside, monkeypatch, argument, names, kept, omitted
):
    monkeypatch.chdir(beside)
    paths, told = paths_of(argument, *names)
    assert paths == kept
    assert told == [
        f"ikat: warning: {name} is omitted: it is {what}" for name, what in omitted.items()
    ]


def test_unfinished_runs_stay_where_none_is_finished(capsys):
    assert without_unfinished(("a.partial", "b")) == ("b",)
    assert "a.partial is omitted" in capsys.readouterr().err
    assert without_unfinished(("a.partial", "b.partial")) == ("a.partial", "b.partial")
    assert without_unfinished(("a", "b")) == ("a", "b")
    assert capsys.readouterr().err == ""


# Resources


def given(*words, every=False, records=False, alone=False):
    """The options that a command with resources gets."""
    seen = {}

    def command(**options):
        seen.update(options)

    decorated = partial(resources, every=every)(command)
    alone = alone or every
    decorated = click.argument("name" if alone else "names", nargs=1 if alone else -1)(decorated)
    if records:
        decorated = click.option("--record")(decorated)
    done = CliRunner().invoke(click.command()(decorated), words)
    if isinstance(done.exception, UsageError):
        raise done.exception
    assert done.exit_code == 0, done.output
    return {name: value for name, value in seen.items() if value is not None}


@pytest.fixture
def in_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.toml").write_text(
        'llm = "openai:a"\nsecond_llm = "openai:b"\nprompts = "mine"\ntexts = "t.index"\n'
    )
    (tmp_path / "other.toml").write_text('llm = "openai:c"\nreranker = "bi:x"\n')
    (tmp_path / "a=b.toml").write_text('llm = "openai:d"\n')
    (tmp_path / "stated.toml").write_text(
        'llm = "openai:f"\nsecond_llm = "openai:g"\nprompts = "own"\nstatements = "none"\n'
    )
    return tmp_path


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["raw"], {"names": ("raw",)}),
        (["raw", "--resources", "mine.toml"], {"names": ("raw",), "texts": "t.index"}),
        (
            ["ad", "--resources", "mine.toml"],
            {"names": ("ad",), "llm": "openai:a", "prompts": "mine", "texts": "t.index"},
        ),
        (
            ["ad", "--resources", "mine.toml", "--resources", "other.toml"],
            {
                "names": ("ad",),
                "llm": "openai:c",
                "reranker": "bi:x",
                "prompts": "mine",
                "texts": "t.index",
            },
        ),
        (
            ["ad", "--llm", "openai:e", "--resources", " second_llm = recorded:x=1 "],
            {"names": ("ad",), "llm": "openai:e", "second_llm": "recorded:x=1"},
        ),
        (
            ["ad", "--llm", "openai:e", "--resources", "other.toml"],
            {"names": ("ad",), "llm": "openai:e", "reranker": "bi:x"},
        ),
        (["ad", "--resources", "a=b.toml"], {"names": ("ad",), "llm": "openai:d"}),
        (
            ["ad", "--resources", "stated.toml"],
            {"names": ("ad",), "llm": "openai:f", "prompts": "own", "statements": "none"},
        ),
        (
            ["gtr_claude", "--resources", "stated.toml"],
            {"names": ("gtr_claude",), "second_llm": "openai:g", "prompts": "own"},
        ),
        (
            ["raw", "--resources", "llm=x", "--resources", "retriever=dense"],
            {"names": ("raw",), "llm": "x", "retriever": "dense"},
        ),
    ],
)
def test_methods_take_their_resources_of_files_and_lines(in_folder, words, expected):
    assert given(*words) == expected


def test_a_chat_takes_every_resource_of_a_file(in_folder):
    whole = {"llm": "openai:a", "second_llm": "openai:b", "prompts": "mine", "texts": "t.index"}
    assert given("raw", "--resources", "mine.toml", every=True) == {"name": "raw", **whole}


def test_a_single_method_takes_its_own_resources_of_a_file(in_folder):
    answer = {"llm": "openai:a", "prompts": "mine", "texts": "t.index"}
    assert given("ad", "--resources", "mine.toml", alone=True) == {"name": "ad", **answer}
    alone = {"name": "raw", "texts": "t.index"}
    assert given("raw", "--resources", "mine.toml", alone=True) == alone


def test_a_recording_replays_the_models_of_the_resources(in_folder):
    words = ["ad", "--llm", "openai:e", "--resources", "llm=recorded:sample"]
    assert given(*words, records=True) == {
        "names": ("ad",),
        "llm": "openai:e",
        "replayed": "recorded:sample",
    }
    assert "replayed" not in given("ad", "--llm", "openai:e", records=True)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("llm= ", "--resources llm= : it is empty"),
        ("rerankr=x", "there is no resource 'rerankr': did you mean reranker?"),
        ("zzzzzz=x", "give a file, or NAME=VALUE with one of index, llm,"),
    ],
)
def test_a_line_that_is_no_resource_is_named(in_folder, line, told):
    with pytest.raises(UsageError) as refused:
        given("ad", "--resources", line)
    assert told in str(refused.value)


# Judgements, turns and runs


def pairs(qrels):
    return set(zip(qrels["qid"], qrels["docno"], strict=True))


def test_judgements_are_of_dataset_file_or_folders(made, tmp_path):
    sample = ikat.dataset("ikat:sample")
    whole = pairs(sample.get_qrels())
    statements = pairs(sample.get_qrels("ptkb"))
    two = pairs(sample.get_qrels().query("qid in ['1-1_1', '1-1_2']"))
    assert pairs(judged_by("ikat:sample", None)) == whole
    assert pairs(judged_by("ikat:sample", "ptkb")) == statements
    assert pairs(judged_by(None, str(made.path / "two.txt"))) == two
    assert pairs(judged_by(None, None, None, [str(made.runs / "raw")])) == whole
    one = {pair for pair in whole if pair[0] == "1-1_2"}
    assert pairs(judged_by("ikat:sample", None, "1-1_2")) == one
    assert pairs(judged_by(None, str(made.path / "two.txt"), "1-1_2")) == one
    assert pairs(judged_by(None, None, "1-1_2", [str(made.runs / "raw")])) == one
    (tmp_path / "x.trec").write_text("1_1 Q0 a 1 2.0 x\n")
    file = str(tmp_path / "x.trec")
    for paths in ([], [file], [str(made.runs / "raw"), file]):
        with pytest.raises(UsageError, match="nothing to evaluate against"):
            judged_by(None, None, None, paths)
    for dataset, qrels, source in [
        ("ikat:sample", None, "ikat:sample's qrels"),
        ("ikat:sample", "ptkb", "ikat:sample's qrels ptkb"),
        (None, str(made.path / "two.txt"), "two.txt"),
        (None, None, "the dataset of the runs"),
    ]:
        with pytest.raises(UsageError, match=source):
            judged_by(dataset, qrels, "9-9_9", [str(made.runs / "raw")])


def test_turns_are_chosen_of_the_dataset_or_of_its_judgements(made):
    assert turns_of("ikat:sample", None) is None
    assert turns_of("ikat:sample", "1-1_3,1-1_1") == ["1-1_1", "1-1_3"]
    two = str(made.path / "two.txt")
    assert turns_of("ikat:sample", None, two) == ["1-1_1", "1-1_2"]
    assert turns_of("ikat:sample", "1-1_2", two) == ["1-1_2"]
    with pytest.raises(UsageError, match="1-1_3"):
        turns_of("ikat:sample", "1-1_3", two)


def test_runs_and_texts_are_loaded_by_name(made, sample_index):
    runs = load_runs([str(made.runs / "raw"), str(made.runs / "rtg")])
    assert list(runs) == ["raw", "rtg"]
    expected = RunFolder(made.runs / "raw").results()
    assert runs["raw"]["docno"].tolist() == expected["docno"].tolist()
    assert text_loader_of(None) is None
    row = pd.DataFrame({"qid": ["1"], "docno": ["sample-walk-001:0"]})
    assert text_loader_of(sample_index).transform(row)["text"].str.len().item() > 0


def test_a_folder_of_vectors_alone_has_texts(tmp_path, monkeypatch):
    for kind in ("splade", "dense"):
        (tmp_path / f"{kind}-2").mkdir()
        (tmp_path / f"{kind}-2" / "ikat.json").write_text("{}")
    monkeypatch.setattr(ikat.SpladeIndex, "opened", lambda index: None)  # it has no passages
    assert text_loader_of(str(tmp_path)) == ikat.SpladeIndex(str(tmp_path)).text_loader()


# What is printed


def table():
    names = Column("system", [Cell("raw")])
    return Table([{"system": "raw"}], [names], ["A note."])


@pytest.mark.parametrize("err", [True, False])
def test_a_table_goes_to_its_stream_in_its_form(capsys, err):
    show(table(), err=err)
    text = capsys.readouterr()
    assert (text.err if err else text.out) == table().written("text")
    assert (text.out if err else text.err) == ""
    show(table(), "csv", err=err)
    text = capsys.readouterr()
    assert (text.err if err else text.out) == table().written("csv")


module = import_module("pyterrier_ikat.cli.main")


def test_a_table_in_a_terminal_is_drawn_to_its_width(monkeypatch, capsys):
    columns = [Column("system", [Cell("raw")])]
    for number in range(9):
        columns.append(Column(f"measure{number}", [Cell(".1")], numeric=True))
    table = Table([], columns, [])
    for err in (True, False):
        stream = module.sys.stderr if err else module.sys.stdout
        monkeypatch.setattr(stream, "isatty", lambda: True, raising=False)
        monkeypatch.setenv("COLUMNS", "60")
        monkeypatch.setenv("TERM", "dumb")
        module.show(table, err=err)
        told = capsys.readouterr()
        shown = told.err if err else told.out
        assert (told.out if err else told.err) == ""
        assert shown.count("system") > 1  # blocks
        module.show(table, "csv", err=err)
        told = capsys.readouterr()
        assert (told.err if err else told.out) == table.written("csv")


@pytest.mark.parametrize("err", [True, False])
@pytest.mark.parametrize(
    "counts", [{"calls": 1}, {"unanswered": 1}, {"failures": 1}, {"known": 1, "worth": 0.5}]
)
def test_an_account_is_printed_with_what_it_is_about(capsys, err, counts):
    ledger = Ledger()
    ledger.count("answer", "m", **counts)
    print_ledger(ledger, " (of this command)", err=err)
    text = capsys.readouterr()
    shown = text.err if err else text.out
    assert shown.startswith("\nLLM ledger (of this command)")
    assert "answer" in shown
    assert (text.out if err else text.err) == ""


@pytest.mark.parametrize(
    ("counted", "shown"),
    [
        ({"known": 24, "cost": 0.0, "worth": None}, False),
        ({"known": 24, "worth": 0.5}, True),
        ({"calls": 2, "cost": None}, True),
        ({"calls": 2, "cost": 0.25}, True),
        ({"failures": 1}, True),
    ],
)
def test_no_ledger_where_nothing_was_asked_or_paid(counted, shown, capsys):
    ledger = Ledger()
    ledger.count("answer", "m", **counted)
    print_ledger(ledger)
    assert ("LLM ledger" in capsys.readouterr().out) is shown


def test_no_account_is_printed_where_all_was_free(capsys):
    ledger = Ledger()
    ledger.count("answer", "m", known=4)
    module.print_ledger(ledger)
    assert capsys.readouterr() == ("", "")
    ledger.count("respond", "m", known=1, worth=0.25)
    module.print_ledger(ledger, " (here)")
    shown = capsys.readouterr().out
    assert shown.startswith("\nLLM ledger (here)\n")
    assert "answer" in shown
    assert "respond" in shown


@pytest.mark.parametrize("err", [True, False])
def test_a_judge_that_a_system_asked_is_told(tmp_path, capsys, err):
    topics = pd.DataFrame({"qid": ["1_1"]})
    found = pd.DataFrame({"qid": ["1_1"], "docno": ["a"], "score": [1.0], "rank": [0]})
    parameters = {"served": {"gpt-4o": ["gpt-4o-2024-08-06"]}}
    RunFolder(tmp_path / "mine").write(topics, found, pd.DataFrame(), pd.DataFrame(), parameters)
    tell_circular(["openai:gpt-4o"], [str(tmp_path / "mine")], err=err)
    text = capsys.readouterr()
    assert "circular: gpt-4o is a judge or user here, and mine asked it" in (
        text.err if err else text.out
    )
    assert (text.out if err else text.err) == ""
    tell_circular(["recorded:none", "openai:gpt-4o"], [str(tmp_path / "mine")])
    beside_results = capsys.readouterr()
    assert (beside_results.out, "circular: gpt-4o" in beside_results.err) == ("", True)
    tell_circular(["openai:other"], [str(tmp_path / "mine")])
    assert capsys.readouterr().err == ""


def test_each_run_that_asked_its_judge_is_told(monkeypatch, capsys):
    asked = []

    def asked_by(paths):
        asked.append(list(paths))
        return {}

    monkeypatch.setattr("pyterrier_ikat.show.ledgers.asked_by", asked_by)
    monkeypatch.setattr("pyterrier_ikat.show.ledgers.circular", lambda *args: ["one", "two"])
    module.tell_circular(["m"], ["a", "b"], err=False)
    assert (asked, capsys.readouterr().out) == ([["a", "b"]], "one\ntwo\n")
