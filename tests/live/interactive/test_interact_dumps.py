"""The dumps of the real servers: both forms are read, the double writes the same, and an unknown form is an error."""

import json
import shutil
from itertools import groupby
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner
from test_interact import Model, play, said
from test_interact_faults import SHORT, Answers, check, live, quick  # noqa: F401
from track_server import DOCUMENTED, NEW, OLD, TOKEN, Refused, Track

import pyterrier_ikat as ikat
from pyterrier_ikat.cli import main
from pyterrier_ikat.live.interactive import delivery, interactive_run, journal
from pyterrier_ikat.live.interactive.client import ServerDown
from pyterrier_ikat.live.interactive.interactive_run import DoubledWarning
from pyterrier_ikat.live.interactive.server_answers import read_dump
from pyterrier_ikat.live.interactive.submission import as_dump, differences, doubled, write_interactive
from pyterrier_ikat.runs import Dialogue, Log, Turn, log

RECORDED = Path(__file__).parent / "recorded"
GRADES = ("user_meta", "user_rubrik", "user_rubrik_score")


def recorded(name):
    return [json.loads(line) for line in (RECORDED / name).read_text().splitlines()]


def topic_of(entry):
    return entry["metadata"]["topic_id"].rpartition("_")[0]


def replayed(entries, form):
    """What the double dumps when it is told what the real server was told."""
    metadata = entries[0]["metadata"]
    given = [(topic_of(one), one["responses"][0]) for one in entries]
    name = "assistant_text" if form == NEW else "text"
    answered = [(topic, one) for topic, one in given if one[name] is not None]
    topics = [(topic, "u", tuple(one["user_utterance"] for _, one in group)) for topic, group in groupby(answered, lambda pair: pair[0])]
    words = [one["user_utterance"] for _, one in given if one[name] is None]
    track = Track(tuple(topics), form=form, last_words=words[0] if words else "", team=metadata["team_id"])
    headers = {"authorization": f"Bearer {TOKEN}"}

    def send(call, **body):
        status, content, _ = track.handle("POST", f"/run/{call}", {}, {"run_id": metadata["run_id"], **body}, headers)
        assert status == 200, content
        return content

    persona = bool(metadata["extra"]["track_persona"] if form == NEW else metadata["track_persona"])
    send("start", description=metadata["description"], track_persona=persona, extra={"track_persona": persona})
    for _, one in answered:
        kept = (one["assistant_meta"] if form == NEW else one)["ptkb_provenance"]
        cited = one["assistant_citations" if form == NEW else "citations"]
        reply = send("continue", response=one[name], citations=cited, ptkb_provenance=kept, meta={"ptkb_provenance": kept})
        if reply["last_response_of_session"] and not reply["last_response_of_run"]:
            send("continue", response="", citations={}, ptkb_provenance=[], meta={"ptkb_provenance": []})
    return [json.loads(line) for line in track.dump(track.runs[metadata["run_id"]]).split("\n")]


def without_grades(entries):
    for entry in entries:
        for name in GRADES:
            if name in entry["responses"][0]:
                entry["responses"][0][name] = "..."
    return entries


@pytest.mark.parametrize(
    ("name", "form"), [("scripted-2026-02.jsonl", OLD), ("scripted-2026-04.jsonl", NEW), ("guided-2026-04.jsonl", NEW)]
)
def test_the_double_writes_the_dumps_that_the_real_servers_wrote(name, form):
    entries = recorded(name)
    assert len(entries) == 10  # seven responses, three farewells
    assert without_grades(replayed(entries, form)) == without_grades(entries)


@pytest.mark.parametrize(("month", "form", "many"), [("02", OLD, 6), ("04", NEW, 10)])
def test_the_double_writes_the_released_dumps(ikat_data, month, form, many):
    path = ikat_data.parent / "simulated-user" / f"dump-of-the-server-of-2026-{month}.json"
    if not path.is_file():
        pytest.skip(f"there is no {path.name}")
    entries = json.loads(path.read_text())
    assert len(read_dump(entries)) == many
    for _, group in groupby(entries, lambda one: one["metadata"]["run_id"]):
        theirs = list(group)  # the first entries of a run, which may lack its farewell
        assert without_grades(replayed(theirs, form))[: len(theirs)] == without_grades(theirs)


def test_both_forms_of_one_conversation_are_the_same_entries():
    one, other = (read_dump(recorded(f"scripted-2026-{month}.jsonl")) for month in ("02", "04"))
    for mine, theirs in zip(one, other, strict=True):
        assert (mine.topic, mine.number, mine.utterance, mine.citations) == (
            theirs.topic,
            theirs.number,
            theirs.utterance,
            theirs.citations,
        )
        assert (mine.text is None) == (theirs.text is None)
        assert mine.about["track_persona"] == theirs.about["track_persona"] == 0
    assert other[1].statements == ("I like tea.",)
    assert (other[3].utterance, other[3].text, other[3].statements) == ("Thank you, goodbye.", None, None)


@pytest.fixture
def judged(tmp_path):
    """A folder whose run lost a reply and dropped the response, and a server with the dump of that run."""
    folder = shutil.copytree(RECORDED / "judged-different", tmp_path / "run")
    return folder, SimpleNamespace(shown="it", dump=lambda run_id: recorded("guided-2026-04.jsonl"))


def test_a_dropped_response_that_the_dump_has_is_kept(judged, tmp_path):
    folder, server = judged
    assert [len(one.sent) for one in Log(folder).dialogues()] == [2, 1, 3]
    for _ in range(2):  # the second time there is nothing to repair
        interactive_run._compare(server, journal.Journal(Log(folder)))
        assert [sorted(one.sent) for one in Log(folder).dialogues()] == [[1, 2, 3], [1], [1, 2, 3]]
    assert write_interactive(folder, tmp_path / "out.json", run_id="before2") == []
    assert len(json.loads((tmp_path / "out.json").read_text())) == 7


def test_a_response_that_the_server_really_dropped_stays_dropped(judged):
    folder, server = judged
    entries = [one for one in recorded("guided-2026-04.jsonl") if one["metadata"]["topic_id"] != "1-1_3"]
    server.dump = lambda run_id: entries
    interactive_run._compare(server, journal.Journal(Log(folder)))
    assert [len(one.turns) for one in Log(folder).dialogues()] == [2, 1, 3]


def changed(path, value):
    entry = recorded("scripted-2026-04.jsonl")[0]
    place = entry
    for step in path[:-1]:
        place = place[step]
    if value is KeyError:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return entry


RESPONSE = ("responses", 0)


@pytest.mark.parametrize(
    ("path", "value", "told"),
    [
        (("metadata",), KeyError, "metadata is missing"),
        (("metadata", "topic_id"), "1-1", "topic_id is '1-1', not TOPIC_NUMBER"),
        (("metadata", "topic_id"), 1, "topic_id is int, not a text"),
        (("metadata", "extra"), "{}", "extra is str, not an object"),
        (("responses",), [], "responses has 0 objects, not one"),
        (("responses",), {}, "responses is dict, not a list"),
        ((*RESPONSE, "assistant_text"), KeyError, "neither text nor assistant_text"),
        ((*RESPONSE, "text"), "Tea.", "has text and assistant_text"),
        ((*RESPONSE, "assistant_text"), ["Tea."], "assistant_text is list, not a text"),
        ((*RESPONSE, "user_utterance"), None, "user_utterance is missing"),
        ((*RESPONSE, "assistant_citations"), [], "assistant_citations is list, not an object"),
        ((*RESPONSE, "assistant_citations"), {"d": True}, "a score that is not a number"),
        ((*RESPONSE, "assistant_meta"), {"ptkb_provenance": "I like tea."}, "ptkb_provenance is str, not a list"),
        ((*RESPONSE, "assistant_meta"), {"ptkb_provenance": [1]}, "ptkb_provenance is not a list of texts"),
    ],
)
def test_an_unknown_form_is_named(path, value, told):
    with pytest.raises(ikat.DataError, match=f"entry 2 of the server's dump has an unknown form .*{told}.*: a newer version"):
        read_dump([recorded("scripted-2026-04.jsonl")[1], changed(path, value)])


class Renamed(Track):
    """A server of the future, whose dump has another form."""

    def dumped(self, one):
        return {"responses": [{"user_utterance": one["user_utterance"], "said": one["text"]}]}


def test_an_unknown_form_is_no_evidence_and_nothing_is_sent_twice(tmp_path):
    track = Renamed(SHORT, form=NEW, faults=["", "", "drop after"])  # the reply with the user's last words
    with pytest.raises(ikat.DataError, match=r"does not show whether it took the response to turn 1-1_2 \(entry 1 .* unknown form"):
        live(track, tmp_path / "run", Answers())
    assert said(track.taken) == [("1-1", "Why?"), ("1-1", "Why?")]


def test_a_run_whose_dump_has_an_unknown_form_is_not_called_right(tmp_path):
    with pytest.raises(ikat.DataError, match="entry 1 of the server's dump has an unknown form"):
        play(Renamed(SHORT, form=NEW), tmp_path / "run")
    assert "said" in (tmp_path / "run" / "dump.json").read_text()
    with pytest.raises(ikat.IkatError, match=r"dump.json can't be read \(entry 1 .* run the same `ikat interact` again"):
        write_interactive(tmp_path / "run", tmp_path / "mine.json", run_id="mine")


def test_an_unknown_status_is_an_error(tmp_path):
    class Odd(Track):
        def status(self, run):
            return {**super().status(run), "status": "paused"}

    track = Odd(SHORT, form=NEW, faults=["", "", "drop after"])
    with pytest.raises(ikat.DataError, match=r"does not show whether .* \(the status of the run has an unknown form .*paused"):
        live(track, tmp_path / "run", Answers())


def entries_of(texts):
    turns = [Turn(number, f"Question {number}?", text) for number, text in enumerate(texts, 1)]
    return as_dump([Dialogue("1-1", "u", turns=turns, sent={turn.number: None for turn in turns})], {"team": "t", "run_id": "r"})


def test_one_response_more_or_less_is_one_difference():
    texts = [f"Answer {number}." for number in range(1, 41)]
    ours = entries_of(texts)
    twice = [*ours[:5], ours[4], *ours[5:]]
    assert doubled(ours, twice) == ["turn 1-1_5: the server has the response once more: 'Answer 5.'"]
    assert differences(ours, twice) == []
    said = json.loads(json.dumps(twice))
    said[5]["responses"][0]["user_utterance"] = "What the log never saw."
    assert (doubled(ours, said), differences(ours, said)) == (doubled(ours, twice), [])
    assert len(differences(twice, ours)) == 1
    assert differences(ours, ours[1:]) == ["turn 1-1_1: the server lacks the response 'Answer 1.'"]
    other = entries_of([*texts[:9], "Another.", *texts[10:]])
    assert differences(ours, other) == ["turn 1-1_10, text: the log has 'Answer 10.', the server 'Another.'"]
    assert differences(ours, ours) == []


def test_a_response_that_the_server_has_twice_stops_neither_a_run_nor_its_submission(tmp_path):
    class Twice(Track):
        def proceed(self, run, body):
            if not run.dumped and run.live:
                super().proceed(run, body)
                run.dumped.append(run.dumped[0])
                return run.message
            return super().proceed(run, body)

    topics = (("1-1", "ann", ("Why?", "How?", "When?")), ("2-1", "bob", ("Where?",)))
    track = Twice(topics, form=NEW, faults=["", "", "", "drop after"])
    with pytest.warns(DoubledWarning, match="turn 1-1_1: the server has the response once more"):
        assert live(track, tmp_path / "run", Answers()).finished
    problems = write_interactive(tmp_path / "run", tmp_path / "mine.json", run_id="mine")
    assert [str(one) for one in problems if "once more" in str(one)] == [
        "warning: turn 1-1_1: the server has the response once more: 'Answer 1.': the server took it twice"
    ]


def test_after_a_second_failure_of_session_status_and_dump_are_asked_and_each_wait_is_said(tmp_path):
    told, track = [], Track(SHORT, form=NEW, faults=["", "", "drop after"])
    assert play(track, tmp_path / "run", Model(), tell=told.append).finished
    lost = track.calls.index("/run/session")
    assert track.calls[lost : lost + 4] == ["/run/session", "/run/session", "/run/status", "/run/dump"]
    assert track.calls.count("/run/session") == 2
    assert [line for line in told if "wait" in line] == ["waiting 0 s for http://localhost:8888/sim (500: Internal Server Error)"]
    told.clear()
    play(Track(SHORT, faults=["", "drop before"]), tmp_path / "other", Model(), tell=told.append)
    assert [line for line in told if "wait" in line] == [f"waiting {wait} s before the server is asked again" for wait in (2, 8)]


class Killed(BaseException):
    pass


def test_a_kill_before_anything_is_sent_needs_no_wait(tmp_path, monkeypatch):
    append = log.append_line

    def cut(path, line):
        if '"event": "sending"' in line:
            raise Killed
        append(path, line)

    track, answers, slept = Track(SHORT, form=NEW), Answers(), []
    with monkeypatch.context() as patched:
        patched.setattr(log, "append_line", cut)
        with pytest.raises(Killed):
            live(track, tmp_path / "run", answers)
    check(track, answers, live(track, tmp_path / "run", answers, sleep=slept.append), SHORT)
    assert slept == []
    assert "/run/session" not in track.calls


def test_after_a_server_that_was_certainly_not_reached_nothing_is_waited_for(tmp_path):
    track, answers, slept = Track(SHORT, faults=["", *["unreached"] * 4]), Answers(), []
    with pytest.raises(ServerDown, match="did not take continue"):
        live(track, tmp_path / "run", answers)
    check(track, answers, live(track, tmp_path / "run", answers, sleep=slept.append), SHORT)
    assert slept == []


class Speechless(Track):
    """The simulated user of a topic fails at its first words, once: the topic has begun, and has no message."""

    failing = ""

    def next_topic(self, run):
        if run.open and run.open[0][0] == self.failing:
            run.topic, run.history, run.live = run.open.pop(0), [], True
            raise Refused(500, "Internal Server Error")
        return super().next_topic(run)

    def proceed(self, run, body):
        if run.live and not run.history:
            return self.say(run, run.topic[2][0], False)
        return super().proceed(run, body)

    def session(self, run):
        if not run.history:
            raise Refused(500, "Internal Server Error")
        return super().session(run)


class Fails(Track):
    """Fails after the user's next words, before the response is kept, as the released server does with its own simulated users."""

    def proceed(self, run, body):
        live = run.live
        message = super().proceed(run, body)
        if live:
            run.dumped.pop()
            run.live = True
            run.message = {**message, "last_response_of_session": False, "last_response_of_run": False}
            run.topic = (*run.topic[:2], (*run.topic[2], "Thank you, goodbye."))
            raise Refused(500, "Internal Server Error")
        return message


@pytest.mark.parametrize("debug", [False, True])
def test_a_server_that_keeps_no_response_is_not_answered_for_ever(tmp_path, debug):
    track, model = Fails(SHORT, form=NEW), Model()
    with (
        pytest.warns(delivery.NotKeptWarning, match="failed at the response to turn 1-1_1 .* its dump has no such response"),
        pytest.raises(ServerDown, match="the response to turn 1-1_2 .*, nor the one before, so that they would not be assessed"),
    ):
        play(track, tmp_path / "run", model, debug=debug)
    assert len(model.asked) == 2


@pytest.mark.parametrize("topic", ["1-1", "2-1"])
def test_a_topic_that_begins_without_a_message_is_asked_for_again(tmp_path, topic):
    track, answers = Speechless(SHORT, form=NEW), Answers()
    track.failing = topic
    check(track, answers, live(track, tmp_path / "run", answers), SHORT)


def test_a_server_that_was_started_again_and_can_not_go_on_is_said_soon(tmp_path):
    track, answers = Track(SHORT, form=NEW, recovers=False), Answers()

    def step(name):
        if name == "before /run/continue" and len(track.taken) == 1 and track.runs["mine"].live:
            track.forget("mine")

    slept = []
    with pytest.raises(ServerDown, match="was started again, has no conversation of run mine, .*: ask the organisers"):
        live(track, tmp_path / "run", answers, step=step, sleep=slept.append)
    assert slept == []
    track.recovers = True  # the organisers repaired it
    with pytest.warns(delivery.LostSessionWarning, match="has not taken the response to turn 1-1_2"):
        run = live(track, tmp_path / "run", answers)
    assert [len(one.turns) for one in run.log.dialogues()] == [1, 1]


def test_a_run_that_the_server_forgot_is_said(tmp_path):
    track = Track(SHORT, form=NEW)

    def step(name):
        if name == "before /run/continue":
            track.runs.clear()

    with pytest.raises(ikat.IkatError, match="knows no run/continue, or no such run"):
        live(track, tmp_path / "run", Answers(), step=step)
    track.faults = ["drop before"]
    with pytest.raises(ikat.DataError, match="does not know run mine any more, .*: give another run id and another folder"):
        live(track, tmp_path / "run", Answers())


def test_what_controls_a_terminal_is_neither_sent_nor_taken(tmp_path):
    topics = (("1-1", "ann", ("Tea\x1b[2J?", "And\x9b now?")),)
    track = Track(topics, form=NEW, faults=["", "", "drop after"])
    run = play(track, tmp_path / "run", Model(lambda number: f"Rooibos\x85 \x01{number}."))
    assert all(response.isprintable() for *_, response in track.taken)
    assert len(track.taken) == 2
    assert [turn.utterance for turn in run.log.dialogues()[0].turns] == ["Tea [2J?", "And  now?"]


@pytest.mark.parametrize("form", [DOCUMENTED, OLD, NEW])
def test_validate_knows_each_dump_of_an_interactive_run(tmp_path, form):
    track = Track(form=form)
    play(track, tmp_path / "run")
    content = track.dump(track.runs["mine"])
    path = tmp_path / "dump"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    shown = CliRunner().invoke(main, ["validate", str(path), "--dataset", "ikat:sample"]).output
    assert shown.startswith("error: this is an interactive run")


class Stuck(Track):
    """Its simulated user fails for ever after the first response, which it has kept, as the released server does."""

    def proceed(self, run, body):
        live = run.live
        message = super().proceed(run, body)
        if live:
            run.live, run.stuck = True, True
            raise Refused(500, "Internal Server Error")
        return message

    def session(self, run):
        if getattr(run, "stuck", False):
            raise Refused(500, "Internal Server Error")
        return super().session(run)


@pytest.mark.xfail(strict=True, reason="the cure comes with the rebuild of interactive runs: each start waits 220 s")
def test_a_server_that_failed_for_good_is_named_with_its_500_and_not_waited_for_at_each_start(tmp_path):
    track, told, waits = Stuck(SHORT, form=NEW), [], []
    for _ in range(3):
        slept = []
        with pytest.raises(ServerDown) as error:
            live(track, tmp_path / "run", Answers(), sleep=slept.append)
        told.append(str(error.value))
        waits.append(sum(slept))
    assert all("500" in text and "organisers" in text and "run id" in text for text in told)
    assert waits[1:] == [0, 0]
    assert len(track.taken) == 1
