"""The frame of all commands: errors, warnings and signals, and who draws the progress."""

import signal
import sqlite3
import sys
import warnings
from importlib import import_module

import pytest

import pyterrier_ikat as ikat
from pyterrier_ikat.cli.main import (
    STOPPED,
    _reason,
)
from pyterrier_ikat.errors import Terminated, UsageError, advice


class OneLine(ikat.DataError):
    """An error of several lines."""

    one_line = False


def exits():
    sys.exit(3)


def raised(function):
    try:
        function()
    except BaseException as error:
        return error


def interrupted():
    error = SystemError("a library's own")
    error.__cause__ = KeyboardInterrupt()
    return error


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ikat.DataError("one\ntwo"), "one two"),
        (OneLine("one\ntwo"), "one\ntwo"),
        (OSError(2, "No such file", "x"), "[Errno 2] No such file: 'x'"),
        (BrokenPipeError(32, "Broken pipe"), None),
        (sqlite3.OperationalError("disk full"), "a database can't be used (disk full)"),
        (KeyboardInterrupt(), STOPPED),
        (interrupted(), STOPPED),
        (Terminated(), STOPPED),
        (KeyError("x"), None),
    ],
)
def test_each_kind_of_error_has_its_line(error, reason):
    found = _reason(error)
    if reason is None:
        assert found is None
    else:
        assert found.startswith(reason)


def test_the_innermost_line_that_exits_is_named():
    found = _reason(raised(exits))
    assert found.startswith(__file__)
    assert f"line {exits.__code__.co_firstlineno + 1}, calls sys.exit" in found


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["evaluate", "x", "--turns", ""], "--turns is empty"),
        (["evaluate", "x", "--turns", " "], "--turns is empty"),
        (["evaluate", "x", "--turns= "], "--turns=  is empty"),
        (["", "x"], "ikat is empty"),
    ],
)
def test_the_option_before_an_empty_text_is_named(call, words, told):
    done = call(*words)
    assert done.exit_code == 2
    assert " ".join(told.split()) in " ".join(done.stderr.split())
    assert "give a value, or omit it" in " ".join(done.stderr.split())


def test_an_error_is_one_clean_line_with_advice_for_commands(call, monkeypatch):
    def fails(*_, **__):
        raise UsageError(f"one\x1b[2J\ntwo: {advice('frame=...', '--frame')}")

    monkeypatch.setattr("pyterrier_ikat.conversations.datasets.full_names", fails)
    done = call("datasets")
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.splitlines()[-1] == "ikat: one [2J two: --frame"
    assert advice("frame=...", "--frame") == "frame=..."  # in Python again


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (SystemExit(3), "calls sys.exit, which ends the command before its work is done"),
        (KeyboardInterrupt(), STOPPED),
        (OSError(28, "No space left on device"), "[Errno 28] No space left on device"),
    ],
)
def test_what_ends_a_command_is_one_line_with_code_2(call, monkeypatch, error, told):
    def ends(*_, **__):
        raise error

    monkeypatch.setattr("pyterrier_ikat.conversations.datasets.full_names", ends)
    done = call("datasets")
    assert (done.exit_code, done.stdout) == (2, "")
    assert told in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_an_error_may_have_a_code_of_its_own(call, monkeypatch):
    class Coded(UsageError):
        exit_code = 7

    def fails(*_, **__):
        raise Coded("so it is")

    monkeypatch.setattr("pyterrier_ikat.conversations.datasets.full_names", fails)
    assert call("datasets").exit_code == 7


def test_warnings_are_lines_without_their_source(call, monkeypatch):
    def warns(*_, **__):
        warnings.warn("so it goes", stacklevel=1)
        return []

    monkeypatch.setattr("pyterrier_ikat.conversations.datasets.full_names", warns)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        done = call("datasets")
    assert "ikat: warning: so it goes\n" in done.stderr
    assert "test_main_errors" not in done.stderr


def test_a_signal_is_heard_by_whoever_heard_it_before(call, monkeypatch):
    heard = []

    def handler(*_):
        heard.append(True)

    during = []

    def names_and_handler():
        during.append(signal.getsignal(signal.SIGTERM))
        return []

    monkeypatch.setattr("pyterrier_ikat.conversations.datasets.full_names", names_and_handler)
    before = signal.signal(signal.SIGTERM, handler)
    try:
        assert call("datasets").exit_code == 0
        assert signal.getsignal(signal.SIGTERM) is handler
    finally:
        signal.signal(signal.SIGTERM, before)
    assert during != [handler]
    with pytest.raises(Terminated):
        during[0]()


@pytest.mark.parametrize(
    ("words", "is_drawn"),
    [(["datasets"], True), (["serve", "raw"], False), (["chat", "raw"], False)],
)
def test_chat_and_serve_draw_their_own_progress(call, monkeypatch, words, is_drawn):
    begun = []

    def command_line(title):
        begun.append(title)
        raise UsageError("no further")

    def ends(*_, **__):
        raise UsageError("no further")

    module = import_module("pyterrier_ikat.cli.main")
    monkeypatch.setattr(module, "command_line", command_line)
    monkeypatch.setattr("pyterrier_ikat.live.serving.serve", ends)
    monkeypatch.setattr("pyterrier_ikat.live.chat.Chat", ends)
    assert call(*words).exit_code == 2
    assert begun == ([f"ikat {words[0]}"] if is_drawn else [])
