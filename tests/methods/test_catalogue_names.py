"""Methods are found by name: with arguments, in a user's file, as functions and expressions."""

import pyterrier as pt
import pytest
from click.testing import CliRunner

import pyterrier_ikat as ikat
from pyterrier_ikat.cli import main
from pyterrier_ikat.errors import UsageError
from pyterrier_ikat.methods import find, find_all
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


def test_a_name_with_arguments_can_be_a_folders():
    entry = find("mq4cs:n=3,depth=10")
    assert (entry.name, entry.values["n"], entry.depth) == ("mq4cs-depth=10,n=3", 3, 10)
    assert find("raw:retriever=bm25:k1=1.2").name == "raw-retriever=bm25-k1=1.2"
    assert [found.name for found in find_all("raw")] == ["raw"]
    for name, told in [
        ("raww", "did you mean raw"),
        ("zzzzzz", "`ikat methods` lists them"),
        ("temperature=0", "what belongs to a model stands with it in quotes"),
        ("raw:depth", "an argument of a method is written raw:NAME=VALUE"),
        ("mq4cs:n=3,depth=10,n=4", "mq4cs: the argument n is given twice: omit one"),
        ("mq4cs:n=3,n=3", "mq4cs: the argument n is given twice: omit one"),
    ]:
        with pytest.raises(UsageError, match=told):
            find(name)


def test_names_of_arguments_are_in_order_and_can_be_a_folders():
    entry = find("ad:style=llama,depth=5")
    assert (entry.name, entry.values["style"], entry.depth) == (
        "ad-depth=5,style=llama",
        "llama",
        5,
    )
    assert find("raw:retriever=my file.py:x y").name == "raw-retriever=my-file.py-x-y"
    assert find("raw:retriever=a: :b").name == "raw-retriever=a-b"
    assert find("raw:retriever=a,b").own == {"retriever": "a,b"}
    with pytest.raises(UsageError, match="did you mean mq4cs"):
        find("mq4cx:n=3")


# Files of a user


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


UNDECORATED = """
import pyterrier as pt
import pyterrier_ikat as ikat
from pyterrier_ikat.methods import ad
from os.path import join

def first(retriever):
    return ikat.RawUtterance() >> retriever

def _hidden(retriever):
    return retriever

pipeline = ikat.AllUtterances()
"""


def test_what_a_file_has_is_told_but_private_and_imported(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(UNDECORATED)
    assert find_all(str(path)) == []
    assert find(f"{path}:first").name == "first"
    assert find(f"{path}:pipeline").build() == ikat.AllUtterances()
    assert find(f"{path}:pipeline").name == "pipeline"
    with pytest.raises(UsageError, match=f"there is no method 'zzz': {path} has first$"):
        find(f"{path}:zzz")
    (tmp_path / "empty.py").write_text("x = 1\n")
    with pytest.raises(UsageError, match="empty.py has no method$"):
        find(f"{tmp_path / 'empty.py'}:zzz")


TWO_METHODS = """
import pyterrier_ikat as ikat

@ikat.method("one")
@ikat.method("two", settings={"depth": 3})
def system(retriever, *, depth=10):
    return ikat.RawUtterance() >> retriever % depth
"""


def test_arguments_are_those_of_all_methods_of_a_file(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(TWO_METHODS)
    entries = find_all(f"{path}:depth=7")
    assert [(entry.name, entry.depth) for entry in entries] == [
        ("one-depth=7", 7),
        ("two-depth=7", 7),
    ]
    assert find(f"{path}:system").name == "one"
    assert find(f"{path}:two:depth=4").depth == 4
    with pytest.raises(UsageError, match="--llm 'MODEL temperature=0'"):
        find("temperature=0")
    with pytest.raises(UsageError, match=r"did you mean aqd_a or aqd\?"):
        find("aqd_b")
