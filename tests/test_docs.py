"""The documentation.

Its code prints what stands below it, and every command, option, test and name in it is there.
"""

import itertools
import re
import shlex
import sys
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner

import pyterrier_ikat as ikat
from pyterrier_ikat.cli import main
from pyterrier_ikat.cli.run import DEMO_SYSTEMS
from pyterrier_ikat.methods import METHODS, TABLES
from pyterrier_ikat.methods.catalogue import find, origin
from pyterrier_ikat.papers import PAPERS

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
sys.path.insert(0, str(DOCS))

PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]
TEXTS = {page.name: page.read_text(encoding="utf-8") for page in [*PAGES, ROOT / "CONTRIBUTING.md"]}
CODE_AND_OUTPUT = re.compile(
    r"^```python\n((?:(?!```).)*?)```(?:\n\n```text\n(.*?)```)?", re.DOTALL | re.MULTILINE
)


def _blocks():
    """The code of each block that can be run here, and what is printed below it."""
    blocks = []
    for name, text in TEXTS.items():
        for number, (code, printed) in enumerate(CODE_AND_OUTPUT.findall(text)):
            # asks a server: tests/live/serving/test_served_clients.py starts one
            asks_a_server = "base_url=" in code
            # needs another package: tests/neighbours/test_qdrant.py
            needs_qdrant = "qdrant_client" in code
            if not asks_a_server and not needs_qdrant:
                blocks.append(pytest.param(code, printed, id=f"{name}-{number}"))
    return blocks


@pytest.mark.parametrize(("code", "printed"), _blocks())
def test_code_runs_as_it_stands_and_prints_what_stands_below_it(
    tmp_path, monkeypatch, capsys, code, printed
):
    monkeypatch.chdir(tmp_path)
    exec(code, {"__name__": "__main__"})
    found = [line.rstrip() for line in capsys.readouterr().out.strip("\n").split("\n")]
    assert not printed or found == printed.rstrip("\n").split("\n")


COMMAND_LINE = re.compile(r" *(\$ )?(ikat|pip|python|make|vllm|ray) | +--")
"""A line of a block without a language that is typed, not printed."""


@pytest.mark.parametrize("page", TEXTS)
def test_lines_of_code_fit_a_narrow_column(page):
    wide = []
    blocks = re.findall(r"^ *```(\w*)\n(.*?)^ *```", TEXTS[page], re.DOTALL | re.MULTILINE)
    for language, block in blocks:
        for line in block.splitlines():
            is_code = language in ("python", "bash", "bibtex", "toml")
            if len(line) > 88 and (is_code or COMMAND_LINE.match(line)):
                wide.append(line)
    assert wide == []


def _commands(program):
    """Every line of a block or piece of code that calls the program, as its words.

    A line may go on behind a backslash.
    """
    for page, text in TEXTS.items():
        for line in re.findall(
            rf"^ *{program} .+$|(?<=`){program} [^`]+(?=`)", text.replace("\\\n", " "), re.MULTILINE
        ):
            yield page, shlex.split(line.strip(), comments=True)[1:]


def test_commands_in_texts_have_the_options_and_methods_named():
    found = [(page, words) for page, words in _commands("ikat") if words]
    assert len(found) > 30
    for page, (name, *words) in found:
        if name == "COMMAND":  # stands for any
            continue
        assert name in main.commands, f"{page}: ikat {name}"
        options = set()
        for parameter in main.commands[name].params:
            options.update(parameter.opts)
        assert {word for word in words if word.startswith("-")} <= options, (
            f"{page}: ikat {name} {' '.join(words)}"
        )
        methods = (
            list(itertools.takewhile(lambda word: re.fullmatch("[a-z0-9_]+", word), words))
            if name in ("run", "methods")
            else []
        )
        assert set(methods) <= set(METHODS), f"{page}: ikat {name} {' '.join(words)}"


def test_every_make_target_and_script_in_the_texts_exists():
    targets = re.findall(
        r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE
    )
    makes = [(page, words[0]) for page, words in _commands("make")]
    assert len(makes) > 5
    assert [one for one in makes if one[1] not in targets] == []
    scripts = [(page, words[0]) for page, words in _commands("python") if words[0].endswith(".py")]
    assert [one for one in scripts if not (ROOT / one[1]).is_file()] == []


def test_the_readme_counts_the_systems_that_there_are():
    assert "compares fourteen systems" in TEXTS["README.md"]
    assert len(DEMO_SYSTEMS) == 14


NUMBERS = (
    "No",
    "One",
    "Two",
    "Three",
    "Four",
    "Five",
    "Six",
    "Seven",
    "Eight",
    "Nine",
    "Ten",
    "Eleven",
    "Twelve",
)


def test_the_texts_count_the_methods_that_there_are():
    counts = Counter(origin(entry) for entry in METHODS.values())
    papers = {entry.paper for entry in METHODS.values() if origin(entry) == "papers"}
    with_tables = set()
    for table in TABLES.values():
        with_tables.update(find(name).paper for name in table.systems)
    without = NUMBERS[len(papers - with_tables)]
    said = [
        ("README.md", f"{counts['papers']} methods from {len(papers)} papers"),
        ("methods.md", f"{counts['papers']} methods from {len(papers)} papers"),
        ("README.md", f"{counts['organisers']} baselines of the organisers"),
        (
            "methods.md",
            f"{counts['organisers']} baselines of the track's organisers, and {counts['ours']} "
            f"of our own",
        ),
        ("reproduce.md", f"{without} papers have methods but no table"),
    ]
    wrong = [f"{page}: {words}" for page, words in said if words not in TEXTS[page]]
    assert not wrong, "the methods were counted anew; write into these pages:\n" + "\n".join(wrong)
    listed = " ".join(CliRunner().invoke(main, ["methods"]).output.split())
    assert f"{len(METHODS)} methods: {counts['papers']} from {len(papers)} papers" in listed


def test_every_promise_names_tests_that_exist():
    named = re.findall(r"`(?:tests/[^`]*::)?(test_\w+)`", TEXTS["promises.md"])
    there = set()
    for path in (ROOT / "tests").rglob("test_*.py"):
        there.update(re.findall(r"def (test_\w+)\(", path.read_text(encoding="utf-8")))
    assert 30 < len(named) <= 60
    assert [name for name in named if name not in there] == []


def test_every_name_of_the_front_is_on_the_page_of_python():
    listed = re.findall(r"^   (?:\w+\.)?(\w+)$", TEXTS["python.md"], re.MULTILINE)
    assert set(ikat.__all__) <= {*listed, "generate", "retrieve"}  # their names are listed
    assert len(ikat.__all__) <= 80


def test_the_tables_have_every_method_paper_dataset_and_decision(monkeypatch):
    pytest.importorskip("sphinx")
    import tables

    monkeypatch.setattr(
        tables, "calls_per_turn", lambda entry: ("1", "5")
    )  # an example of the catalogue counts those of all
    made = {}
    for name, make in tables.TABLES.items():
        table = make()
        made[name] = table if isinstance(table, str) else "\n".join(table)
    assert sorted(re.findall(r"`([a-z0-9_]+)`(?=[,| ])", _first_cells(made["methods"]))) == sorted(
        METHODS
    )
    for name, paper in PAPERS.items():
        assert f"`{name}`" in made["papers"]
        for _, why in paper.deviations:
            assert why.replace("|", r"\|") in made["decisions"]
    assert "`ikat:2023-mini`" in made["datasets"]
    assert tables.table(["a"], [["x|y"]]) == "| a |\n| --- |\n| x\\|y |"
    assert (
        tables.first_sentence("One ``x``\n    of :class:`~a.B`, e.g. two. Three.\n\nMore.")
        == "One `x` of `a.B`, e.g. two."
    )


def _first_cells(table):
    return "".join(line.split("|")[1] for line in table.split("\n") if line.startswith("| `"))


def test_words_with_an_at_sign_are_no_links_to_mail():
    core = pytest.importorskip("docutils.core")
    nodes = pytest.importorskip("docutils.nodes")
    from conf import unlink_addresses

    page = core.publish_doctree("NII@TREC iKAT 2024, nDCG@5 and https://trec.nist.gov.")
    unlink_addresses(None, page)
    assert [link["refuri"] for link in page.findall(nodes.reference)] == ["https://trec.nist.gov"]
