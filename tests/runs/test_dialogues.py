"""The log of conversations: what is written is read, a cut line is dropped, another run is refused."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from pyterrier_ikat.errors import DataError, UsageError
from pyterrier_ikat.runs.dialogues import EVENTS, DialogueLog, DialogueTurn

HEADER = {"kind": "interactive", "system": "raw", "run_id": "one"}
FIRST = DialogueTurn("1-1", 1, "Which tea?", "Rooibos [1].", {"d2": 2.5, "d1": 1.0}, ("I like tea.",), ({"docno": "d2", "text": "t"},))
SECOND = DialogueTurn("1-1", 2, "And \ud800 now? \u2028", "", queries=("a", "b"), seconds=0.5, calls=2, cost=0.25, cut=3, met=("r1",))


@pytest.fixture
def log(tmp_path):
    log = DialogueLog.create(tmp_path / "run", HEADER)
    log.begin("1-1", "user-1", {"r1": "Which?"})
    log.append(FIRST)
    log.mark_sent("1-1", 1)
    return log


def test_what_is_written_is_read(log):
    log.append(SECOND)
    log.begin("1-2", "user-1")
    log.end("1-1", "satisfied")

    one, two = DialogueLog(log.folder).dialogues()

    assert one.turns[0] == FIRST
    assert list(one.turns[0].citations) == ["d2", "d1"]  # the order is that of the ranking
    assert one.turns[1].utterance == "And ? now? \u2028"  # half a character can't be written
    assert (one.user, one.rubrics, one.sent, one.met, one.end) == ("user-1", {"r1": "Which?"}, {1}, {"r1": 2}, "satisfied")
    assert (two.session, two.turns, two.end) == ("1-2", [], "")
    assert [message["role"] for message in one.messages] == ["user", "assistant", "user"]  # an empty response is no message


def test_a_line_that_a_kill_cut_is_dropped_at_any_byte(log):
    path = log.folder / EVENTS
    whole = path.read_bytes()
    log.append(SECOND)
    longer = path.read_bytes()
    for size in range(len(whole), len(longer)):
        path.write_bytes(longer[:size])
        again = DialogueLog.create(log.folder, HEADER)
        assert len(again.dialogues()[0].turns) == 1
        assert path.read_bytes() == whole


def test_another_run_is_refused_and_its_differences_are_named(log):
    with pytest.raises(UsageError, match="system was 'raw', now 'ad'"):
        DialogueLog.create(log.folder, {**HEADER, "system": "ad"})


def test_a_folder_of_something_else_is_refused(tmp_path):
    (tmp_path / "thesis.tex").write_text("")
    with pytest.raises(UsageError, match="holds no log of conversations"):
        DialogueLog.create(tmp_path, HEADER)


@pytest.mark.parametrize("line", ["{", '{"event": "turn"}', '{"event": "dance", "session": "1-1"}', "[]"])
def test_a_damaged_line_is_named(log, line):
    with (log.folder / EVENTS).open("a") as file:
        file.write(line + "\n")
    with pytest.raises(DataError, match="line 4"):
        log.dialogues()


def test_several_threads_write_whole_lines(log):
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: log.append(DialogueTurn("1-1", number, "x" * 5000, "y")), range(100)))
    lines = (log.folder / EVENTS).read_text().splitlines()
    assert len([json.loads(line) for line in lines]) == 103
