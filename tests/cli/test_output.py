"""Help texts, tables in a terminal and in a pipe, and `ikat methods`."""

import io
import sys

import click
import pytest
from click.testing import CliRunner

from pyterrier_ikat.cli import main
from pyterrier_ikat.cli.inspect import broken
from pyterrier_ikat.cli.main import SECTIONS
from pyterrier_ikat.cli.output import show
from pyterrier_ikat.evaluation.experiment_table import experiment_table
from pyterrier_ikat.methods import METHODS
from pyterrier_ikat.tables import HIGHER

COMMANDS = sorted(main.commands)


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self):
        return True


def scores(measures=("nDCG@5",)):
    rows = [{"name": name, "turns": 3} for name in ("raw", "baseline_auto_llama3_1_splade_minilm")]
    for measure in measures:
        rows[0] |= {measure: 0.25, f"{measure} +": None, f"{measure} reject": False}
        rows[1] |= {measure: 0.5, f"{measure} +": 3, f"{measure} reject": True}
    return experiment_table(rows)


@pytest.mark.parametrize("width", [60, 80, 200])
def test_a_wide_table_goes_on_below_in_a_terminal(width, monkeypatch):
    stream = Terminal()
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setenv("COLUMNS", str(width))
    names = [f"P(rel=1)@{number}" for number in range(10, 100, 10)]
    show(scores(names))
    text = stream.getvalue()
    assert max(map(len, text.splitlines())) <= max(80, width)
    assert text.count(f".5000{HIGHER}") == len(names)
    assert (text.count("baseline_auto_llama3_1_splade_minilm") > 1) == (width < 200)


def test_a_pipe_gets_a_line_for_each_row(capsys):
    names = [f"P(rel=1)@{number}" for number in range(10, 100, 10)]
    show(scores(names))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["system", *names]
    assert lines[2].split() == ["baseline_auto_llama3_1_splade_minilm", *[f".5000{HIGHER}"] * len(names)]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_help_ends_with_an_example_within_80_columns(name):
    shown = CliRunner().invoke(main, [name, "--help"], terminal_width=80).output
    example = shown.partition("Example")[2].partition(":\n")[2]
    assert example.startswith(f"  ikat {name}")
    assert max(map(len, shown.splitlines())) <= 80
    assert all(one.help for one in main.commands[name].params if isinstance(one, click.Option))


def test_options_stand_in_sections_the_required_ones_first():
    titles = [line for line in lines_of("simulate", "--help") if line.endswith(":") and not line.startswith(" ")]
    assert titles == ["Required:", "Systems:", "Measures:", "Output:", "Options:", "Examples:"]
    assert lines_of("judge", "--help").index("Required:") < lines_of("judge", "--help").index("Options:")


def test_there_are_fourteen_commands_with_at_most_a_hundred_options():
    options = [one for command in main.commands.values() for one in command.params if isinstance(one, click.Option)]
    assert (len(COMMANDS), len(options) <= 100) == (14, True)


def test_without_a_command_the_help_names_all_of_them():
    assert {word for line in lines_of() for word in line.split()} >= set(COMMANDS)


def test_datasets_are_readable_within_80_columns():
    lines = lines_of("datasets")
    assert max(map(len, lines)) <= 80
    assert {line for line in lines if not line.startswith(" ")} >= {"ikat:sample", "ikat:2023-mini", "--turns irlab-2024"}


def test_the_commands_stand_in_sections():
    shown = CliRunner().invoke(main, ["--help"], terminal_width=80).output
    places = [shown.index(f"\n{section}:\n") for section in SECTIONS]
    assert places == sorted(places)
    assert all(f"\n  {name} " in shown for name in COMMANDS)
    assert shown.rstrip().endswith("ikat report runs/* --out report.html")


def lines_of(*words, columns=80):
    return CliRunner(env={"COLUMNS": str(columns)}).invoke(main, list(words)).output.splitlines()


def test_the_names_of_methods_stand_by_paper_on_at_most_60_lines_of_80_columns():
    lines = lines_of("methods")
    assert (len(lines) <= 60, max(map(len, lines)) <= 80, "..." in "".join(lines)) == (True, True, False)
    named = [name for line in lines if line.startswith("  ") for name in line.split()]
    assert sorted(named) == sorted(METHODS)
    assert lines[lines.index("Mo et al., CHIQ") + 1] == "  chiq_ad"
    shown = " ".join(lines_of("methods", "ad_llama:depth=100"))
    assert "ad_llama-depth=100" in shown
    assert "Arguments: style=llama, question=qutterance, depth=100; give others as ad_llama:style=llama." in shown
    table = CliRunner().invoke(main, ["methods", "--format", "csv"]).output
    assert [line.partition(",")[0] for line in table.splitlines() if line.partition(",")[0] in METHODS] == list(METHODS)


@pytest.mark.parametrize("name", METHODS)
def test_an_expression_over_several_lines_is_the_same_expression(name):
    shown = broken(METHODS[name].expression)
    assert max(map(len, shown.splitlines())) <= 100

    def same(text):
        return "".join(text.split()).replace(",)", ")")

    assert same(shown) == same(METHODS[name].expression)
    compile(f"({shown})", name, "eval")
