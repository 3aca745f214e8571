"""A user's function as a method: named, found in a file, planned and run as those of the papers."""

import inspect

import pyterrier as pt
import pytest
from click.testing import CliRunner

import pyterrier_ikat as ikat
from pyterrier_ikat.cli import main
from pyterrier_ikat.errors import UsageError
from pyterrier_ikat.methods import METHODS, find, find_all, methods_of
from pyterrier_ikat.methods.catalogue import calls_per_turn

FILE = """
import pyterrier_ikat as ikat


@ikat.method
def plain(retriever):
    \"\"\"The utterance is the query.\"\"\"
    return ikat.RawUtterance() >> retriever


@ikat.method("twice", paper="ours", models={"llm": "openai:gpt-4o"})
@ikat.method("twice_human", paper="ours", settings={"question": "qresolved"})
def answered_twice(llm, retriever, *, question="qutterance", depth=10):
    return ikat.Answer(llm, question=question) >> retriever % depth


def undecorated(llm, retriever):
    return ikat.Rewrite(llm) >> retriever


expression = ikat.AllUtterances()
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "my_systems.py"
    path.write_text(FILE)
    return str(path)


def test_a_file_has_its_decorated_functions_in_their_order(file):
    assert [entry.name for entry in find_all(file)] == ["plain", "twice", "twice_human"]
    twice = find(f"{file}:twice")
    human = find(f"{file}:twice_human")
    assert (twice.paper, twice.depth, twice.manual, twice.needs, twice.takes) == (
        "ours",
        10,
        False,
        ["llm", "retriever"],
        [],
    )
    assert twice.expression == "ikat.Answer(llm) >> retriever % 10"
    assert (human.manual, human.expression) == (
        True,
        "ikat.Answer(llm, question='qresolved') >> retriever % 10",
    )
    assert find(f"{file}:plain").summary == "The utterance is the query."
    assert calls_per_turn(twice) == ("1", "1")


def test_calls_and_queries_by_statement_count_are_in_one_plan():
    built = []

    def system(llm, retriever):
        built.append(llm)
        queries = (
            ikat.generate.Summarise(llm)
            >> ikat.SelectStatements(llm, form="scores")
            >> ikat.generate.StatementQueries(llm)
            >> ikat.ExplodeQueries()
        )
        return queries >> retriever % 50

    [entry] = methods_of(system)
    assert calls_per_turn(entry) == (
        "2 + s",
        "at least s",
    )  # a summary and a choice for each turn, queries for each chosen statement
    assert len(built) == 1


def test_an_undecorated_function_and_an_expression_are_systems(file):
    assert find(f"{file}:undecorated").needs == ["llm", "retriever"]
    assert find(f"{file}:expression").build() == ikat.AllUtterances()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("twise", "did you mean twice"),
        ("zzz", "has plain, twice, twice_human"),
    ],
)
def test_a_name_that_the_file_lacks(file, name, message):
    with pytest.raises(UsageError, match=message):
        find(f"{file}:{name}")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "import pyterrier_ikat as ikat\n\n"
            "@ikat.method\ndef odd(llm, colour):\n    return ikat.Answer(llm)\n",
            "argument 'colour' is not a resource: name it one of llm, ",
        ),
        (
            "def odd(index):\n    return index.bm25()\n",
            "argument 'index' is not a resource: name it retriever, or give it a default",
        ),
        ("x = 1\ny = x / 0\n", r"ZeroDivisionError: division by zero \(line 2\)"),
        ("def broken(:\n", r"SyntaxError: .* \(line 1\)"),
    ],
)
def test_a_file_that_cannot_be_used_is_named_with_its_line(tmp_path, text, message):
    path = tmp_path / "odd.py"
    path.write_text(text)
    with pytest.raises(UsageError, match=message):
        find(f"{path}:odd")
    with pytest.raises(UsageError, match="there is no file"):
        find(f"{tmp_path}/none.py:odd")


def call(*arguments):
    done = CliRunner().invoke(main, list(arguments))
    assert done.exit_code == 0, done.output
    return done.output


def test_methods_of_a_file_run_from_the_command_line(file, tmp_path):
    data = pt.get_dataset("ikat:sample")
    ikat.PassageIndex(tmp_path / "index").index(data.get_corpus_iter(verbose=False))
    options = [
        "--dataset",
        "ikat:sample",
        "--index",
        str(tmp_path / "index"),
        "--llm",
        "recorded:sample",
        "--turns",
        "1-1_1",
    ]
    shown = call("run", f"{file}:twice", "ad", *options, "--out", str(tmp_path / "runs"))
    assert {path.name for path in (tmp_path / "runs").iterdir()} == {"twice", "ad"}
    assert "note: twice: llm: the paper has openai:gpt-4o" in shown
    assert "twice_human" in call("methods", file)
    assert (
        call("run", f"{file}:twice", *options, "--out", str(tmp_path / "x"), "--plan").count(
            "answer"
        )
        == 1
    )


def test_every_method_of_the_package_says_where_it_comes_from():
    lacking = [entry.name for entry in METHODS.values() if not entry.paper]
    assert not lacking, (
        f"add paper=... to @method of {', '.join(lacking)}: the paper, or 'ours: ...'"
    )


def test_every_system_can_be_called_by_name_in_the_methods_room():
    """A file of the same name would hide the function."""
    for entry in METHODS.values():
        assert inspect.unwrap(getattr(ikat.methods, entry.system.__name__)) is entry.system
