"""The commands and their help, their ledger, and the lines of an expression in `ikat methods`."""

import click
import pytest

from pyterrier_ikat.cli import main
from pyterrier_ikat.cli.inspect import one_stage_per_line
from pyterrier_ikat.cli.main import SECTIONS, print_ledger
from pyterrier_ikat.llms import Ledger
from pyterrier_ikat.methods import METHODS

COMMANDS = sorted(main.commands)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_a_section_an_example_and_option_help(name, call):
    assert main.commands[name].section in SECTIONS
    assert (
        call(name, "--help")
        .output.partition("Example")[2]
        .partition(":\n")[2]
        .startswith(f"  ikat {name}")
    )
    assert all(one.help for one in main.commands[name].params if isinstance(one, click.Option))


def test_resources_stand_together_in_their_order():
    names = [option.name for option in main.commands["serve"].params]
    assert names[1:5] == ["index", "llm", "reranker", "given"]


def test_there_are_fourteen_commands_with_a_hundred_options(call):
    options = [
        one
        for command in main.commands.values()
        for one in command.params
        if isinstance(one, click.Option)
    ]
    assert len(COMMANDS) == 14
    assert len(options) <= 111, f"{len(options)} options: a new one takes the place of another"
    assert {word for line in call().output.splitlines() for word in line.split()} >= set(COMMANDS)


def test_an_expression_over_several_lines_is_the_same_expression():
    for name, method in METHODS.items():
        shown = one_stage_per_line(method.expression)
        same = ["".join(text.split()).replace(",)", ")") for text in (shown, method.expression)]
        assert same[0] == same[1]
        compile(f"({shown})", name, "eval")


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
