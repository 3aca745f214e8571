"""`ikat datasets`, `methods` and `report`: what is listed, counted and described of a method."""

import csv
import io
from collections import Counter
from importlib import import_module
from types import SimpleNamespace

import pytest
from command_results import succeeded, words_of

from pyterrier_ikat.cli.inspect import (
    _as_table,
    _origins,
    describe,
    list_methods,
    one_stage_per_line,
)
from pyterrier_ikat.conversations.datasets import full_names
from pyterrier_ikat.conversations.public_outputs import output_rows, turn_lists
from pyterrier_ikat.methods import METHODS, TABLES, methods_of
from pyterrier_ikat.methods.catalogue import calls_per_turn, origin, published_scores

CATALOGUE = import_module("pyterrier_ikat.methods.catalogue")


MINE = '''
import pyterrier as pt
import pyterrier_ikat as ikat


@ikat.method(paper="ours")
def mine(llm, retriever, n=3):
    """Asks ``n`` times. Then it searches."""
    return ikat.Answer(llm) >> retriever


@ikat.method(paper="")
def other(retriever):
    return ikat.RawUtterance() >> retriever
'''


@pytest.fixture
def path(tmp_path):
    (tmp_path / "mine.py").write_text(MINE)
    return tmp_path / "mine.py"


def lines_of(entry):
    return " ".join(" ".join(describe(entry)).split())


def test_data_sets_outputs_and_turn_lists_are_listed(call):
    shown = call("datasets").output
    lines = shown.splitlines()
    names = [line for line in lines if line and not line.startswith(" ")]
    lists = turn_lists()
    outputs = [name for name, _ in output_rows()]
    assert names == [
        *full_names(),
        "irds:NAME",
        "longmemeval:FILE",
        "./FOLDER",
        *outputs,
        *(f"--turns {name}" for name in lists),
    ]
    text = " ".join(shown.split())
    for name, turns in lists.items():
        assert f"--turns {name} {len(turns.turns)} turns: " in text
        assert f"({turns.source})" in text


def test_the_methods_are_counted_by_their_origin(call):
    counts = Counter(origin(entry) for entry in METHODS.values())
    papers = {entry.paper for entry in METHODS.values() if origin(entry) == "papers"}
    assert words_of(call("methods")).endswith(
        f"{len(METHODS)} methods: {counts['papers']} from {len(papers)} papers, "
        f"{counts['organisers']} baselines of the organisers, {counts['ours']} of ours. "
        "`ikat methods NAME` shows one, and its arguments."
    )


def test_a_file_lists_its_methods(call, path):
    shown = words_of(call("methods", path))
    end = f"2 methods. `ikat methods {path}:NAME` shows one, and its arguments."
    assert shown == f"ours mine without a paper other {end}"
    [header, *rows] = csv.reader(io.StringIO(call("methods", path, "--format", "csv").stdout))
    assert {"published", "turns"}.isdisjoint(header)
    assert [row[header.index("name")] for row in rows] == ["mine", "other"]
    assert header[2] == "summary"
    assert rows[0][2] == "Asks n times. Then it searches."
    assert header[-1] == "models"


def test_the_models_of_papers_are_in_the_table(call):
    table = call("methods", "aqd_a", "--format", "csv").stdout
    [row] = csv.DictReader(io.StringIO(table))
    models = [f"{resource}: {name}" for resource, name in METHODS["aqd_a"].models.items()]
    assert len(models) > 1
    assert row["models"] == ", ".join(models)


def test_methods_and_datasets_are_listed_and_a_method_described(call, monkeypatch):
    listed = call("methods").stdout
    indented = [line for line in listed.splitlines() if line.startswith("  ")]
    assert sorted(" ".join(indented).split()) == sorted(METHODS)
    shown = " ".join(call("methods", "aqd_a").output.split())
    assert "ikat.RerankAgainst(reranker, 'qanswer')" in shown
    assert "nDCG@5 .6826" in shown
    assert "ad_llama-depth=100" in call("methods", "ad_llama:depth=100").output
    monkeypatch.setattr(
        import_module("pyterrier_ikat.methods.catalogue"),
        "calls_per_turn",
        lambda entry: ("1", "5"),
    )
    table = call("methods", "--format", "csv").output
    first_cells = [line.partition(",")[0] for line in table.splitlines()]
    assert [name for name in first_cells if name in METHODS] == list(METHODS)
    assert {"ikat:sample", "ikat:2023-mini", "--turns irlab-2024"} <= set(
        call("datasets").output.splitlines()
    )


def test_methods_stand_below_their_papers_in_order():
    entries = [
        SimpleNamespace(paper="B", name="b2"),
        SimpleNamespace(paper="", name="none"),
        SimpleNamespace(paper="A", name="a"),
        SimpleNamespace(paper="B", name="b1"),
    ]
    lines = [line.strip() for line in list_methods(entries)]
    plain = [line.replace("\x1b[1m", "").replace("\x1b[36m", "") for line in lines]
    assert [line.replace("\x1b[0m", "").strip() for line in plain] == [
        "B",
        "b2 b1",
        "without a paper",
        "none",
        "A",
        "a",
    ]


def test_a_list_is_indented_and_its_table_explained():
    entries = [METHODS["aqd_a"], METHODS["raw"]]
    named = [line for line in list_methods(entries) if "aqd_a" in line]
    assert named[0].replace("\x1b[36m", "").startswith("  aqd_a")
    [note] = _as_table(entries).notes
    assert note == "llm_calls, queries: per turn; s is the number of chosen statements."


def test_origins_are_counted_apart(monkeypatch):
    papers = ["A", "B", "A", "", "", "", "", "", ""]
    kinds = ["papers"] * 3 + ["organisers"] * 2 + ["ours"] * 4
    origins = iter(kinds * 2)
    monkeypatch.setattr(CATALOGUE, "origin", lambda entry: next(origins))
    text = _origins([SimpleNamespace(paper=paper) for paper in papers])
    assert text == ": 3 from 2 papers, 2 baselines of the organisers, 4 of ours"


@pytest.mark.parametrize(("form", "begins"), [("markdown", "|"), ("latex", "%"), ("csv", "name,")])
def test_one_method_is_a_table_in_other_forms(call, form, begins):
    done = call("methods", "raw", "--format", form)
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith(begins)


# A method


def test_one_of_a_file_is_described(call, path):
    shown = words_of(call("methods", f"{path}:mine"))
    assert shown.startswith("mine: ours Asks n times. Then it searches. ")
    assert "ikat.Answer(llm) >> retriever" in shown
    assert f"Arguments: n=3; give others as {path}:mine:n=3." in shown or "mine:n=3." in shown
    assert "Needs llm, retriever" in shown
    assert "`ikat methods" not in shown


@pytest.mark.parametrize("name", ["raw", "aqd_a", "rtg", "mq4cs", "llama10", "ad_llama"])
def test_a_method_is_described_whole(name):
    entry = METHODS[name]
    shown = lines_of(entry)
    for paragraph in entry.description.split("\n\n"):
        assert " ".join(paragraph.replace("``", "").split()) in shown
    others = [other.name for other in methods_of(entry.system) if other.name != name]
    if others:
        assert f"Same system, other settings: {', '.join(others)}" in shown
    else:
        assert "Same system" not in shown
    if entry.values:
        values = [f"{key}={value}" for key, value in entry.values.items()]
        example = f"{(entry.of or entry).name}:{values[0]}"
        assert f"Arguments: {', '.join(values)}; give others as {example}." in shown
    else:
        assert "Arguments" not in shown
    needs = f"Needs {', '.join(entry.needs)}"
    if entry.takes:
        needs += f"; optional: {', '.join(entry.takes)}"
    assert f"{needs}." in shown
    calls, queries = calls_per_turn(entry)
    assert f"about {calls} LLM call" in shown
    assert f" and {queries} quer" in shown
    assert ("s is the number of chosen statements" in shown) == ("s" in calls + queries)
    for resource, models in entry.models.items():
        assert f"The paper's {resource}: {models}" in shown
    for table in published_scores(entry):
        judged = f"{TABLES[table].qrels}): "
        assert judged in shown
    assert shown.count("): ") >= len(published_scores(entry))


def described(monkeypatch, **changes):
    """What is said of a method with these facts."""
    facts = {
        "name": "mine",
        "paper": "",
        "description": "",
        "system": None,
        "values": {},
        "of": None,
        "needs": (),
        "takes": (),
        "models": {},
        "expression": "a >> b",
    }
    monkeypatch.setattr("pyterrier_ikat.methods.methods_of", lambda system: [])
    monkeypatch.setattr(CATALOGUE, "published_scores", lambda entry: {})
    lines = []
    for line in describe(SimpleNamespace(**facts | changes)):
        if ">>" not in line:
            line = " ".join(line.split())
        if line:
            lines.append(line)
    return lines


@pytest.mark.parametrize(
    ("calls", "queries", "told"),
    [
        ("1", "1", "about 1 LLM call and 1 query."),
        ("0", "5", "about 0 LLM calls and 5 queries."),
        ("1 + s", "1", "about 1 + s LLM calls and 1 query; s is the number of chosen statements."),
        ("2", "s", "about 2 LLM calls and s queries; s is the number of chosen statements."),
    ],
)
def test_amounts_are_in_words(monkeypatch, calls, queries, told):
    monkeypatch.setattr(CATALOGUE, "calls_per_turn", lambda entry: (calls, queries))
    title, *expression, needs, per_turn = described(monkeypatch)
    assert (title, expression, needs) == ("mine", ["a\n>> b"], "Needs nothing.")
    assert per_turn == f"Per turn: {told}"
    both = described(monkeypatch, needs=("llm", "index"), takes=("texts", "reranker"))
    assert both[-2] == "Needs llm, index; optional: texts, reranker."
    assert described(monkeypatch, takes=("texts",))[-2] == "Needs nothing; optional: texts."


def test_arguments_are_given_to_the_original_method(monkeypatch):
    monkeypatch.setattr(CATALOGUE, "calls_per_turn", lambda entry: ("1", "1"))
    values = {"n": 3, "depth": 100}
    for of, name in [(None, "mine"), (SimpleNamespace(name="other"), "other")]:
        _, _, arguments, *_ = described(monkeypatch, values=values, of=of)
        assert arguments == f"Arguments: n=3, depth=100; give others as {name}:n=3."


def test_published_scores_have_their_table(monkeypatch):
    monkeypatch.setattr(CATALOGUE, "calls_per_turn", lambda entry: ("1", "1"))
    for number, turns in ((1, 1), (2, 326), (3, None)):
        table = SimpleNamespace(turns=turns, paper=f"Paper {number}", qrels="NIST")
        monkeypatch.setitem(TABLES, f"t{number}", table)
    facts = dict.fromkeys(("t1", "t2", "t3"), {"nDCG@5": 0.25, "P@1": 1.0})
    described(monkeypatch)
    monkeypatch.setattr(CATALOGUE, "published_scores", lambda entry: facts)
    entry = SimpleNamespace(
        **{"name": "mine", "paper": "P", "description": "", "system": None, "values": {}},
        **{"of": None, "needs": (), "takes": (), "models": {}, "expression": "a"},
    )
    lines = [line for line in describe(entry) if line.startswith("Paper")]
    scores = "nDCG@5 .2500, P@1 1.0000"
    assert lines == [
        f"Paper 1 (1 turn, NIST): {scores}",
        f"Paper 2 (326 turns, NIST): {scores}",
        f"Paper 3 (an unknown number of turns, NIST): {scores}",
    ]


def test_a_users_method_is_described_with_any_repr_of_stages(call, tmp_path):
    (tmp_path / "my.py").write_text(
        "import pyterrier as pt\n\n\ndef gate():\n    return pt.Transformer.identity()\n"
    )
    shown = succeeded(call("methods", f"{tmp_path / 'my.py'}:gate")).output
    assert "<pyterrier.transformer.IdentityTransformer object>\n\nNeeds nothing." in shown


# The stages of a method


@pytest.mark.parametrize(
    ("expression", "lines"),
    [
        ("a", ["a"]),
        ("a >> b", ["a", ">> b"]),
        ("a >> b >> c % 10", ["a", ">> b", ">> c % 10"]),
        ("a >> (b >> c)", ["a", ">> (b >> c)"]),
        ("f(a >> b, '>>') >> c", ["f(a >> b, '>>')", ">> c"]),
        ("a + b", ["a + b"]),
        ("<x.Y object at 0x7f00aa> >> b", ["<x.Y object> >> b"]),
    ],
)
def test_each_stage_has_a_line(expression, lines):
    assert one_stage_per_line(expression).splitlines() == lines


def test_a_long_stage_goes_on_further_to_the_right():
    stage = f"ikat.Respond({', '.join(f'option_{number}={number}' for number in range(9))})"
    first, second, *rest = one_stage_per_line(f"a >> {stage}").splitlines()
    assert (first, second[:17]) == ("a", ">> ikat.Respond(o")
    assert rest
    assert all(line.startswith("  option_") for line in rest)
    assert max(map(len, (first, second, *rest))) <= 80


def without_layout(expression):
    return "".join(expression.split()).replace(",)", ")")


def test_an_expression_over_several_lines_is_the_same_expression():
    for name, method in METHODS.items():
        shown = one_stage_per_line(method.expression)
        assert without_layout(shown) == without_layout(method.expression)
        compile(f"({shown})", name, "eval")


# ikat report


def test_a_report_gets_each_option(monkeypatch, call, sample_index):
    made = []

    def report(*args, **named):
        made.append((args, named))
        return SimpleNamespace(save=lambda path: f"saved {path}")

    monkeypatch.setattr("pyterrier_ikat.show.report", report)
    done = call("report", "a", "b", "--out", "r.html")
    assert done.stdout == "saved r.html\n"
    options = {"texts": None, "qrels": None, "turns": None, "measures": None}
    options |= {"baseline": None, "unit": None}
    assert made.pop() == ((["a", "b"], None), options)
    given = ("--qrels", "q", "--turns", "t", "--measures", "P@1", "--baseline", "a")
    call("report", "a", "--dataset", "d", *given, "--unit", "turn", "--out", "r.html")
    expected = {"qrels": "q", "turns": "t", "measures": "P@1", "baseline": "a", "unit": "turn"}
    assert made.pop() == ((["a"], "d"), options | expected)
    call("report", "a", "--index", sample_index, "--out", "r.html")
    assert made.pop()[1]["texts"] is not None
