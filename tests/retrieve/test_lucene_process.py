"""The process with Java and its jar: how it is started, asked and ended; what errors become."""

import os
import subprocess
import sys
from collections import deque
from importlib.machinery import ModuleSpec
from types import SimpleNamespace

import pytest

import pyterrier_ikat as ikat
from pyterrier_ikat.retrieve import lucene_process
from pyterrier_ikat.retrieve.lucene_process import (
    JAR,
    LuceneProcess,
    ProcessEnded,
    error_of,
    find_jar,
)

# The jar


def test_the_jar_of_the_environment_goes_before_pyserinis(tmp_path, monkeypatch):
    jars = tmp_path / "resources" / "jars"
    jars.mkdir(parents=True)
    spec = ModuleSpec("pyserini", None, is_package=True)
    spec.submodule_search_locations = [str(tmp_path / "none"), str(tmp_path)]
    monkeypatch.setattr(lucene_process, "find_spec", {"pyserini": spec}.get)
    monkeypatch.delenv(JAR, raising=False)
    with pytest.raises(ikat.UsageError, match="pip install --no-deps pyserini"):
        find_jar()
    for name in ("anserini-0.22.1-fatjar.jar", "anserini-0.21.0-fatjar.jar", "anserini-x.jar"):
        (jars / name).touch()
    assert find_jar() == jars / "anserini-0.22.1-fatjar.jar"
    monkeypatch.setenv(JAR, str(jars / "anserini-x.jar"))
    assert find_jar() == jars / "anserini-x.jar"
    monkeypatch.setenv(JAR, str(tmp_path))
    with pytest.raises(ikat.UsageError, match=f"{JAR}={tmp_path}: there is no such file"):
        find_jar()


# Errors


@pytest.mark.parametrize(
    ("kind", "text", "error", "told"),
    [
        ("java", "none", ikat.UsageError, r"needs Java 11 or later \(none\)"),
        ("jar", "bad", ikat.UsageError, r"jar can't be loaded \(bad\): `pip install"),
        ("foreign", "no id", ikat.UsageError, r"FOLDER isn't of Anserini \(no id\)"),
        ("index", "IndexFormatTooOld: 8", ikat.UsageError, r"another version .*a\.jar \(Index"),
        ("index", "an IndexFormatTooNew", ikat.UsageError, "another version of Lucene"),
        ("index", "Could not load codec x", ikat.UsageError, "another version of Lucene"),
        ("index", "truncated", ikat.DataError, r"FOLDER isn't whole \(truncated\): copy it again"),
        ("query", "no answer", ikat.DataError, r"FOLDER: no answer \(an IOException, last\)$"),
        ("query", "IndexFormatTooOld", ikat.DataError, "FOLDER: IndexFormatTooOld "),
    ],
)
def test_each_kind_of_error_says_how_to_go_on(lucene_folder, kind, text, error, told):
    printed = deque(["an Error", "an IOException, last", "at line 3"])
    found = error_of(kind, text, "FOLDER", printed)
    assert type(found) is error
    with pytest.raises(error, match=told):
        raise found


def test_an_error_without_javas_lines_stands_alone():
    assert str(error_of("query", "no answer", "i", deque(["a warning"]))) == (
        "the Lucene index i: no answer"
    )
    assert str(error_of("query", "no answer", "i", deque(["an Error: x", "at y"]))) == (
        "the Lucene index i: no answer (an Error: x)"
    )


# The process


ECHO = """
import json, sys
opening = json.loads(sys.stdin.readline())
print(json.dumps({"answer": opening}), flush=True)
for line in sys.stdin:
    name, arguments = json.loads(line)
    if name == "print":
        for number in range(arguments["count"]):
            print("line", number, file=sys.stderr)
        print(arguments["last"], file=sys.stderr, flush=True)
        sys.exit(4)
    if name == "half":
        print('{"answer": 1', end="", flush=True)
        sys.exit(5)
    if name == "bytes":
        sys.stderr.buffer.write(b"not UTF-8: \\xff\\n")
        sys.exit(6)
    if name == "refuse":
        print(json.dumps({"error": "no", "kind": "query"}), flush=True)
    else:
        print(json.dumps({"answer": [name, arguments]}), flush=True)
"""


@pytest.fixture
def process(lucene_folder, tmp_path, monkeypatch):
    program = tmp_path / "echo.py"
    program.write_text(ECHO)
    monkeypatch.setattr(lucene_process, "PROGRAM", program)
    monkeypatch.setattr(lucene_process, "find_spec", lambda name: name)
    process = LuceneProcess(str(lucene_folder), "1g")
    yield process
    process.close()


def test_a_process_is_started_by_folder_jar_and_memory(process, lucene_folder):
    opening = {"folder": str(lucene_folder), "jar": os.environ[JAR], "memory": "1g"}
    assert process.pid is None
    assert process.describe() == opening
    first = process.pid
    assert process.describe() == opening
    assert process.ask("any", a=1) == ["any", {"a": 1}]
    assert process.pid == first
    process.close()
    assert process.pid is None
    assert process.ask("any") == ["any", {}]
    assert process.pid != first
    other = LuceneProcess(str(lucene_folder), None)
    assert other.describe()["memory"] == ""
    other.close()


def test_a_refusal_leaves_the_process_as_it_is(process):
    process.describe()
    first = process.pid
    with pytest.raises(ikat.DataError, match="no"):
        process.ask("refuse")
    assert process.pid == first
    assert process.ask("next") == ["next", {}]


@pytest.mark.parametrize(
    ("last", "told"),
    [
        ("the end", r"ended with 4 \(line 23 line 24 the end\): start again"),
        ("java.lang.OutOfMemoryError: heap", r'OutOfMemoryError: heap\): give it more, .*"8g"'),
    ],
)
def test_an_end_has_its_status_and_the_last_lines(process, lucene_folder, last, told):
    with pytest.raises(ProcessEnded, match=told) as ended:
        process.ask("print", count=25, last=last)
    assert str(ended.value).startswith(f"the process that searches {lucene_folder} ended")
    assert process.pid is None
    assert process.ask("next") == ["next", {}]


def test_without_pyjnius_the_extra_is_named(process, monkeypatch):
    monkeypatch.setattr(lucene_process, "find_spec", lambda name: None)
    with pytest.raises(
        ikat.UsageError, match=r"needs pyjnius: `pip install pyterrier_ikat\[lucene"
    ):
        process.describe()


def test_a_closed_process_has_ended(process):
    process.describe()
    child = process._child
    process.close()
    assert child.poll() is not None
    assert child.stdin.closed
    assert child.stdout.closed


@pytest.mark.linux
def test_a_fork_leaves_the_process_to_its_owner(process):
    process.describe()
    first = process.pid
    fork = os.fork()
    if fork == 0:
        own = process.pid is None and process.ask("of the fork") == ["of the fork", {}]
        own = own and process.pid != first
        process.close()
        os._exit(0 if own else 1)
    assert os.waitpid(fork, 0)[1] == 0
    assert process.ask("of the owner") == ["of the owner", {}]
    assert process.pid == first


def test_a_fork_waits_for_no_question_of_its_owner(lucene_folder):
    process = LuceneProcess(str(lucene_folder), None)
    with process._lock:  # of another thread, at the moment of the fork
        forgotten = process._lock
        process.forget()
        assert not process._lock.locked()
    assert process._lock is not forgotten


def test_only_its_owner_ends_a_process():
    child = subprocess.Popen(
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    lucene_process._kill(child, os.getpid() + 1)
    assert child.poll() is None
    lucene_process._kill(child, os.getpid())
    assert child.returncode == -9


def test_half_an_answer_is_an_end_with_nothing_printed(process):
    with pytest.raises(ProcessEnded, match=r"ended with 5 \(it printed nothing\): start again"):
        process.ask("half")
    assert process.pid is None


def test_what_java_prints_is_shown_in_any_encoding(process):
    with pytest.raises(ProcessEnded, match="ended with 6 .not UTF-8: \ufffd."):
        process.ask("bytes")


def test_a_closed_process_is_started_again_to_be_described(process):
    assert process.ask("first") == ["first", {}]
    described = process.describe()
    assert described["memory"] == "1g"
    process.close()
    assert process.describe() == described
    assert process.pid is not None


def test_a_pipe_that_takes_a_few_bytes_gets_all_of_them(lucene_folder):
    taken = bytearray()

    def write(content):
        taken.extend(content[:7])
        return min(7, len(content))

    process = LuceneProcess(str(lucene_folder), None)
    process._child = SimpleNamespace(stdin=SimpleNamespace(write=write))
    process._write(["any", {"a": 1}])
    process._child = None
    assert taken == b'["any", {"a": 1}]\n'


@pytest.mark.linux
def test_ctrl_c_does_not_reach_the_process_with_java(process):
    process.describe()
    assert os.getsid(process.pid) == process.pid != os.getsid(0)


def test_all_pipes_that_there_are_are_closed(tmp_path):
    pipes = [(tmp_path / name).open("w") for name in ("in", "out", "err")]
    lucene_process._close_pipes(SimpleNamespace(stdin=pipes[0], stdout=pipes[1], stderr=pipes[2]))
    assert [pipe.closed for pipe in pipes] == [True] * 3
    lucene_process._close_pipes(SimpleNamespace(stdin=None, stdout=None, stderr=None))


def test_the_process_imports_from_where_this_one_does(process, monkeypatch):
    started = []

    def popen(command, **options):
        started.append((command, options["env"]["PYTHONPATH"], options["env"]["OF_THE_USER"]))
        raise ZeroDivisionError

    monkeypatch.setenv("OF_THE_USER", "1")
    monkeypatch.setattr(lucene_process.subprocess, "Popen", popen)
    monkeypatch.setattr(sys, "path", ["", "/one", "/two"])
    with pytest.raises(ZeroDivisionError):
        process.describe()
    command = [sys.executable, str(lucene_process.PROGRAM)]
    assert started == [(command, os.pathsep.join(["/one", "/two"]), "1")]
    assert process.pid is None
