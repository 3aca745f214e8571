"""The log of conversations: written, read, cut by a kill, and refused for another run."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from pyterrier_ikat.errors import DataError, UsageError
from pyterrier_ikat.llms.ledger import Spend
from pyterrier_ikat.runs import Log, ShownPassage, Turn
from pyterrier_ikat.runs.log import topics_of, turn_event, write_topics

HEADER = {"kind": "interactive", "system": "raw", "run_id": "one"}
FIRST = Turn(
    1,
    "Which tea?",
    "Rooibos [1].",
    (ShownPassage("d2", "t"),),
    statements=("I like tea.",),
    citations={"d2": 2.5, "d1": 1.0},
    session="1-1",
)
SECOND = Turn(
    2,
    "And \ud800 now? \u2028",
    "",
    queries=("a", "b"),
    seconds=0.5,
    spend=Spend(2, cost=0.25),
    cut=3,
    met=("r1",),
    session="1-1",
)


@pytest.fixture
def log(tmp_path):
    log = Log.create(tmp_path / "run", HEADER)
    log.begin("1-1", "user-1", {"r1": "Which?"})
    log.append(FIRST)
    log.note({"event": "sent", "session": "1-1", "turn": 1, "seconds": 2.5})
    return log


def test_what_is_written_is_read(log):
    log.append(SECOND)
    log.begin("1-2", "user-1")
    log.end("1-1", "satisfied")

    one, two = Log(log.folder).dialogues()

    assert one.turns[0] == FIRST
    assert (one.turns[1].spend, one.turns[1].seconds) == (SECOND.spend, 0.5)
    assert list(one.turns[0].citations) == ["d2", "d1"]  # the order is that of the ranking
    assert one.turns[1].utterance == "And ? now? \u2028"  # half a character can't be written
    assert (one.user, one.rubrics) == ("user-1", {"r1": "Which?"})
    assert (one.sent, one.met, one.end) == ({1: 2.5}, {"r1": 2}, "satisfied")
    assert (two.session, two.turns, two.end) == ("1-2", [], "")
    # an empty response is no message
    assert [message["role"] for message in one.messages] == ["user", "assistant", "user"]


def test_log_cut_by_a_kill_at_any_byte_has_its_whole_lines(log):
    log.note(
        turn_event(SECOND),
        {"event": "sent", "session": "1-1", "turn": 2, "seconds": None},
        {"event": "end", "session": "1-1", "end": ""},
    )
    whole = log.path.read_bytes()
    # by the number of whole lines; those of one moment are one line
    turns_and_sent = [[], [], [(0, 0)], [(1, 0)], [(1, 1)]]
    for size in range(len(whole)):
        log.path.write_bytes(whole[:size])
        again = Log.create(log.folder, HEADER)
        lines = whole[:size].count(b"\n")
        assert again.header == HEADER
        found = [(len(one.turns), len(one.sent)) for one in again.dialogues()]
        assert found == turns_and_sent[lines]
        assert again.path.read_bytes().startswith(whole[:size][: whole[:size].rfind(b"\n") + 1])


def test_a_turn_is_replaced_and_taken_back(log):
    log.append(SECOND)
    log.append(Turn(2, "And now?", "Mint.", session="1-1"))
    assert [turn.response for turn in log.dialogues()[0].turns] == ["Rooibos [1].", "Mint."]
    assert [turn.number for turn in log.dialogues()[0].taken] == [1]
    log.note(
        {"event": "learned", "session": "1-1"}, {"event": "undone", "session": "1-1", "turn": 1}
    )
    (one,) = log.dialogues()
    assert ([turn.number for turn in one.turns], one.learned) == ([2], True)


def test_log_writer_knows_after_each_event_what_the_disk_has(log):
    known = log.known
    events = [
        [turn_event(Turn(2, "And now?", "Mint.", session="1-1", met=("r1",)))],
        [
            turn_event(Turn(2, "And now?", "Rooibos.", session="1-1")),
            {"event": "learned", "session": "1-1"},
        ],
        [{"event": "sent", "session": "1-1", "turn": 2, "seconds": None}, {"event": "sending"}],
        [{"event": "undone", "session": "1-1", "turn": 1}],
        [
            {
                "event": "session",
                "session": "1-2",
                "user": "user-1",
                "rubrics": {},
                "more": {"topic": "1-2"},
            }
        ],
        [{"event": "end", "session": "1-1", "end": "satisfied"}],
    ]
    for together in events:
        log.note(*together)
        assert list(known.values()) == Log(log.folder).dialogues()
    assert list(known) == ["1-1", "1-2"]
    assert [turn.number for turn in known["1-1"].turns] == [2]
    assert known["1-1"].end == "satisfied"


def test_a_full_disk_leaves_whole_lines(log, monkeypatch):
    def full(path, line):
        with path.open("a") as file:
            file.write(line[:9])
        raise OSError(28, "No space left on device")

    assert list(log.known) == ["1-1"]
    with monkeypatch.context() as patched:
        patched.setattr("pyterrier_ikat.runs.log.append_line", full)
        with pytest.raises(OSError, match="No space"):
            log.append(SECOND)
    assert [turn.number for turn in log.known["1-1"].turns] == [1]
    log.append(SECOND)
    assert len(log.dialogues()[0].turns) == 2
    assert [turn.number for turn in log.known["1-1"].turns] == [1, 2]


def test_another_run_is_refused_and_its_differences_are_named(log):
    with pytest.raises(UsageError, match="system was 'raw', now 'ad'"):
        Log.create(log.folder, {**HEADER, "system": "ad"})


def test_a_folder_of_something_else_is_refused(tmp_path):
    (tmp_path / "thesis.tex").write_text("")
    with pytest.raises(UsageError, match="holds no log of conversations"):
        Log.create(tmp_path, HEADER)


@pytest.mark.parametrize(
    "line", ["{", '{"event": "turn"}', '{"event": "dance", "session": "1-1"}', "[]"]
)
def test_a_damaged_line_is_named(log, line):
    with (log.path).open("a") as file:
        file.write(line + "\n")
    with pytest.raises(DataError, match="line 5|is no event"):
        log.dialogues()


def test_several_threads_write_whole_lines(log):
    turns = [Turn(number, "x" * 5000, "y", session="1-1") for number in range(100)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(log.append, turns))
    lines = (log.path).read_text().splitlines()
    assert len([json.loads(line) for line in lines]) == 104


def test_a_rubric_is_met_in_the_first_turn_that_meets_it(log):
    log.append(SECOND)
    log.append(replace(SECOND, number=3))
    (one,) = Log(log.folder).dialogues()
    assert one.met == {"r1": 2}


def test_the_baseline_is_that_of_the_last_comparison(log):
    assert log.baseline is None
    for baseline in ("raw", "raw", "aqd", None):
        log.compare(baseline)
    assert Log(log.folder).baseline == "aqd"
    assert sum(event["event"] == "compared" for event in log.events()) == 2


@pytest.mark.parametrize(
    ("kind", "words"), [("chat", "a chat"), ("served", "served conversations")]
)
def test_only_the_owner_reads_peoples_own_words(tmp_path, kind, words):
    log = Log.create(tmp_path / "run", {"kind": kind, "system": "raw"})
    assert log.kind == words
    assert log.path.stat().st_mode & 0o777 == 0o600


def test_a_lock_beside_a_new_log_is_no_other_content(tmp_path):
    (tmp_path / ".lock").touch()
    log = Log.create(tmp_path, HEADER)
    assert (log.kind, log.header) == ("an interactive run", HEADER)


def test_a_header_that_lacks_or_adds_something_is_another_run(log):
    assert Log.create(log.folder, dict(reversed(HEADER.items()))).header == HEADER
    for other in (HEADER | {"depth": 5}, {"kind": "interactive", "system": "raw"}):
        with pytest.raises(UsageError, match="depth was None, now 5|run_id was 'one', now None"):
            Log.create(log.folder, other)


def test_a_folder_without_log_has_no_header(tmp_path):
    assert not Log.is_in(tmp_path)
    (tmp_path / "log.jsonl").write_text('{"event": "session", "session": "1"}\n')
    assert Log.is_in(tmp_path)
    with pytest.raises(DataError, match="does not begin as a log"):
        _ = Log(tmp_path).header


def test_a_session_that_begins_again_keeps_its_turns(log):
    log.begin("1-1", "user-1", {"r1": "Which?"}, topic="1-1")
    log.begin("1-1", "user-1", {"r1": "Which?"}, users=2)
    (one,) = Log(log.folder).dialogues()
    assert (len(one.turns), one.sent) == (1, {1: 2.5})
    assert one.more == {"topic": "1-1", "users": 2}


def test_a_turn_that_is_not_there_cannot_be_taken_back(log):
    log.note({"event": "undone", "session": "1-1", "turn": 2})
    with pytest.raises(DataError, match="is no event"):
        log.dialogues()


def test_topics_have_the_turns_with_the_passages_of_responses(log, tmp_path):
    passage = ShownPassage("d9", "t")
    log.append(Turn(2, "And now?", "", (passage,), session="1-1"))
    log.begin("1-2", "user-1")
    log.begin("1-3", "user-2", ptkb={"1": "I like caf\u00e9s."})
    log.append(Turn(1, "Where?", "Here.", (passage, ShownPassage("d8")), session="1-3"))
    topics = topics_of(log.dialogues())
    turns = [
        {
            "turn_id": 1,
            "utterance": "Which tea?",
            "response": "Rooibos [1].",
            "response_provenance": ["d2"],
        },
        {"turn_id": 2, "utterance": "And now?", "response": "", "response_provenance": []},
    ]
    assert topics[0] == {"number": "1-1", "title": "", "ptkb": {}, "turns": turns}
    assert [topic["number"] for topic in topics] == ["1-1", "1-3"]
    assert topics[1]["ptkb"] == {"1": "I like caf\u00e9s."}
    assert topics[1]["turns"][0]["response_provenance"] == ["d9", "d8"]
    write_topics(tmp_path / "topics.json", topics)
    assert json.loads((tmp_path / "topics.json").read_text(encoding="utf-8")) == topics
    assert (tmp_path / "topics.json").stat().st_mode & 0o777 == 0o600


def test_topics_that_cannot_be_saved_are_told(tmp_path):
    (tmp_path / "topics.json").mkdir()
    with pytest.raises(UsageError, match=r"can't be saved in .*topics.json \([A-Z][a-z ]+\): "):
        write_topics(tmp_path / "topics.json", [])


def test_events_are_about_the_turn_that_they_name(log):
    """Also after a later turn, and after the first one was taken back."""
    log.append(SECOND)
    log.append(replace(FIRST, response="Rooibos, once more."))
    log.note({"event": "sent", "session": "1-1", "turn": 1, "seconds": 7.5})
    [dialogue] = log.dialogues()
    assert [turn.response for turn in dialogue.turns] == ["Rooibos, once more.", ""]
    assert dialogue.sent == {1: 7.5}
    log.note({"event": "undone", "session": "1-1", "turn": 1})
    log.append(replace(SECOND, response="Mint."))
    learned = {"event": "learned", "session": "1-1"}
    log.note(learned, learned)
    [dialogue] = log.dialogues()
    assert [(turn.number, turn.response) for turn in dialogue.turns] == [(2, "Mint.")]
    assert dialogue.learned is True
    [topic] = topics_of([dialogue])
    assert [turn["turn_id"] for turn in topic["turns"]] == [2]


@pytest.mark.parametrize("step", ["log", "compared", "message", "sending", "unsent", "stuck"])
def test_a_step_of_a_front_changes_no_conversation(log, step):
    before = log.dialogues()
    known = list(log.known.values())
    log.note({"event": step, "baseline": "raw"})
    assert log.dialogues() == before
    assert list(log.known.values()) == known


def test_facts_of_a_session_that_begins_again_are_the_last(log):
    for users in (1, 2):
        log.begin("1-1", "user-1", users=users)
    assert log.dialogues()[0].more == {"users": 2}


def test_a_writer_of_an_empty_log_knows_what_it_adds(tmp_path):
    log = Log.create(tmp_path / "run", HEADER)
    assert log.known == {}
    log.begin("1-1", "user-1")
    assert list(log.known) == ["1-1"]


def test_a_response_received_without_a_reply_is_taken(log):
    log.append(SECOND)
    log.note({"event": "sent", "session": "1-1", "turn": 2, "seconds": None})
    (one,) = log.dialogues()
    assert one.sent == {1: 2.5, 2: None}
    assert [turn.number for turn in one.taken] == [1, 2]


def test_a_log_may_begin_in_a_new_folder_of_a_new_folder(tmp_path):
    log = Log.create(tmp_path / "sims" / "raw", {"system": "raw", "depths": (1, 2)})
    assert log.kind == "conversations"
    again = Log.create(log.folder, {"system": "raw", "depths": (1, 2)})
    assert again.header == {"system": "raw", "depths": [1, 2]}


def test_an_empty_log_does_not_begin_as_one(tmp_path):
    (tmp_path / "log.jsonl").touch()
    with pytest.raises(DataError, match="does not begin as a log"):
        _ = Log(tmp_path).header


def test_one_event_is_one_line_and_those_of_a_moment_share_one(log):
    sent = {"event": "sent", "session": "1-1", "turn": 1, "seconds": 1.0}
    log.note(sent)
    log.note(sent, {"event": "end", "session": "1-1", "end": "satisfied"})
    lines = [json.loads(line) for line in log.path.read_text(encoding="utf-8").splitlines()]
    assert lines[0] == {"event": "log", **HEADER}
    assert lines[-2] == sent
    assert log.dialogues()[0].sent == {1: 1.0}  # of the last event
    assert [event["event"] for event in lines[-1]["events"]] == ["sent", "end"]


def test_what_a_writer_knows_has_the_values_of_the_disk(log):
    known = log.known
    log.begin("1-2", "user-1", pages=(1, 2))
    assert log.known is known
    assert known["1-2"].more == {"pages": [1, 2]}
    assert list(known.values()) == log.dialogues()


def test_what_a_writer_knows_of_an_empty_log_grows(tmp_path):
    log = Log.create(tmp_path / "new", HEADER)
    known = log.known
    assert log.known == {}
    log.begin("1-1", "user-1")
    assert list(known) == ["1-1"]


@pytest.mark.parametrize(
    "event",
    [
        {"event": "session", "session": ["1-2"], "user": "u", "rubrics": {}, "more": {}},
        {"event": "session", "session": "1-2", "user": "u", "rubrics": {}, "more": 7},
        {"event": "sent", "session": "1-9", "turn": 1, "seconds": 1.0},
        {"event": "sent", "session": "1-1", "turn": 1},
        {"event": "turn", "session": "1-1", "number": 2},
        {**SECOND.record(), "event": "turn", "cited": ["Mint."]},
        {**SECOND.record(), "event": "turn", "sources": ["d1"]},
        {"events": ["end"]},
    ],
    ids=["session", "more", "unknown session", "no seconds", "turn", "cited", "sources", "text"],
)
def test_an_event_of_another_form_is_shown(log, event):
    with log.path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(event) + "\n")
    with pytest.raises(DataError, match="log.jsonl: .* is no event"):
        log.dialogues()


def test_saved_topics_have_readable_texts(tmp_path):
    topics = [{"number": "1", "title": "Caf\u00e9 \ud800", "turns": []}]
    write_topics(tmp_path / "topics.json", topics)
    written = (tmp_path / "topics.json").read_text(encoding="utf-8")
    assert "Caf\u00e9 ?" in written
    assert json.loads(written)[0]["number"] == "1"


def test_events_of_one_moment_are_a_list(log):
    with log.path.open("a", encoding="utf-8") as file:
        file.write('{"events": 7}\n')
    number = len(log.path.read_text(encoding="utf-8").splitlines())
    with pytest.raises(DataError, match=f"log.jsonl, line {number}, has no list of events: remove"):
        log.dialogues()
    assert log.header == HEADER
