"""Interactive runs over lost answers, failing servers and kills: no response twice, no LLM call twice, and the log equals the dump."""

import errno
import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_interact import AT_ONCE, EVERY, said
from track_server import DOCUMENTED, FAULTS, NEW, OLD, TOKEN, TOPICS, InProcess, Track

import pyterrier_ikat as ikat
from pyterrier_ikat.live.interactive import client, delivery, interactive_run, journal, playing
from pyterrier_ikat.live.interactive.client import ServerDown
from pyterrier_ikat.live.interactive.server_answers import UserMessage
from pyterrier_ikat.live.interactive.settling import is_taken
from pyterrier_ikat.runs import Log, Turn, log
from pyterrier_ikat.store import files


class Killed(BaseException):
    pass


class Fate:
    """Kills at the n-th step, of the calls before and after they reach the server, and of the log before, within and after a line."""

    def __init__(self, deadly, error=Killed):
        self.deadly, self.steps, self.error = deadly, itertools.count(), error

    def __call__(self, name):
        if next(self.steps) == self.deadly:
            raise Killed(name)

    def append(self, path, record):
        self("before the line")
        try:
            self("within the line")
        except Killed:
            with path.open("ab") as file:
                file.write(b'{"event": "mess')
            raise self.error from None
        APPEND(path, record)
        self("after the line")


APPEND = files.append_line


class Answers:
    """A system's answers: a new one for each turn, which is kept like the completions in a cache."""

    def __init__(self):
        self.asked = {}

    def __call__(self, system, said, ptkb, *, number, turn, **options):
        text = self.asked.setdefault(f"{number}_{turn}", f"Answer {len(self.asked) + 1}.")
        cited = {"clueweb22-en0000-00-00000:0": 0.1}
        return Turn(turn, said[-1]["content"], text, citations=cited, statements=("I like tea.",))


def live(track, folder, answers, step=lambda name: None, sleep=lambda seconds: None):
    """One life of a run: what `interact` does once the system is built."""
    server = client.TrackServer("http://localhost:8888/sim", retry=AT_ONCE)
    server.session.mount("http://", InProcess(track, step))
    header = {"kind": "interactive", "run_id": "mine", "team": server.team(), "description": "Ours.", "track_persona": False}
    steps = journal.Journal(Log.create(folder, header))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(playing, "answer", answers)
        playing.RunPlayer(delivery.Sender(server, "mine", steps, sleep=sleep), None).play("Ours.")
    interactive_run._compare(server, steps)
    return interactive_run.InteractiveRun(folder, steps.log, steps.message.ends_run)


@pytest.fixture(autouse=True, scope="module")
def quick():
    """The token."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("IKAT_TOKEN", TOKEN)
        yield


def lives(track, folder, answers, deaths, error=Killed):
    """The run, killed at each of these steps and started again; returns it, and the number of steps of its last life."""
    for deadly in [*deaths, None]:
        fate = Fate(deadly, error)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(log, "append_line", fate.append)
            try:
                run = live(track, folder, answers, fate)
            except (Killed, ServerDown, OSError):
                continue
        return run, next(fate.steps)
    return None, 0


def check(track, answers, run, topics):
    expected = [(topic, utterance) for topic, _, utterances in topics for utterance in utterances]
    assert said(track.taken) == expected
    assert [response for *_, response in track.taken] == [f"Answer {number}." for number in range(1, len(expected) + 1)]
    assert len(answers.asked) == len(expected)
    assert [turn.response for one in run.log.dialogues() for turn in one.turns] == [response for *_, response in track.taken]
    assert [len(one.sent) for one in run.log.dialogues()] == [len(utterances) for *_, utterances in topics]
    assert run.finished


FORMS = [DOCUMENTED, OLD, NEW]
SHORT = (("1-1", "ann", ("Why?", "Why?")), ("2-1", "bob", ("Where?",)))


@pytest.mark.parametrize("form", [DOCUMENTED, OLD, NEW])
def test_a_kill_at_any_step_loses_and_repeats_nothing(tmp_path, form):
    _, steps = lives(Track(SHORT, form=form), tmp_path / "whole", Answers(), [])
    assert steps > 50
    for deadly in range(FORMS.index(form) // 2, steps, 1 if form == DOCUMENTED else 3):
        track, answers = Track(SHORT, form=form), Answers()
        run, _ = lives(track, tmp_path / str(deadly), answers, [deadly])
        check(track, answers, run, SHORT)


def test_a_full_disk_at_any_line_loses_and_repeats_nothing(tmp_path):
    full = OSError(errno.ENOSPC, "No space left on device")
    _, steps = lives(Track(SHORT), tmp_path / "whole", Answers(), [])
    for deadly in range(0, steps, 2):
        track, answers = Track(SHORT), Answers()
        run, _ = lives(track, tmp_path / str(deadly), answers, [deadly], error=full)
        check(track, answers, run, SHORT)


@pytest.mark.parametrize("form", [DOCUMENTED, NEW])
@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_at_each_call(tmp_path, fault, form):
    for place in range(5):
        track, answers = Track(SHORT, faults=[""] * place + [fault], form=form), Answers()
        check(track, answers, live(track, tmp_path / str(place), answers), SHORT)
        assert track.faults == []


@settings(max_examples=12)
@given(
    st.lists(st.sampled_from(["", "", *FAULTS]), max_size=12),
    st.lists(st.integers(0, 40), max_size=3),
    st.sampled_from(FORMS),
)
def test_any_faults_with_any_kills(tmp_path_factory, faults, deaths, form):
    track, answers = Track(SHORT, faults=faults, form=form), Answers()
    run, _ = lives(track, tmp_path_factory.mktemp("any") / "run", answers, deaths)
    check(track, answers, run, SHORT)


@pytest.mark.parametrize("fault", FAULTS)
def test_without_a_history_the_dump_tells_what_was_taken(tmp_path, fault):
    for place in range(2, 5):  # the first response has no dump before it: this server fails at an empty one
        track, answers = Track(SHORT, faults=[""] * place + [fault], with_history=False, form=NEW), Answers()
        with pytest.warns(playing.HistoryDiffersWarning):
            check(track, answers, live(track, tmp_path / str(place), answers), SHORT)


def test_where_nothing_tells_what_was_taken_nothing_is_sent_twice(tmp_path):
    track = Track(SHORT, faults=["", "drop after"], with_history=False, with_dump=False, form=NEW)
    with pytest.raises(ikat.DataError, match="does not show whether it took the response to turn 1-1_1 .*, and nothing is sent twice"):
        live(track, tmp_path / "run", Answers())
    assert said(track.taken) == [("1-1", "Why?")]
    track.with_dump = True
    answers = Answers()
    with pytest.warns(playing.HistoryDiffersWarning):
        live(track, tmp_path / "run", answers)
    assert said(track.taken) == [("1-1", "Why?"), ("1-1", "Why?"), ("2-1", "Where?")]
    assert len(answers.asked) == 2


def test_another_response_in_the_place_of_ours_is_an_error_and_nothing_is_sent(tmp_path):
    track = Track(SHORT, faults=["", "drop after"], with_history=False, form=NEW)
    make = track.dump
    track.dump = lambda run: make(run).replace("Answer 1.", "What another process said.")
    with pytest.raises(ikat.DataError, match="the server has another response to turn 1-1_1: another process has continued this run"):
        live(track, tmp_path / "run", Answers())
    assert said(track.taken) == [("1-1", "Why?")]


def test_a_server_that_lost_the_conversation_is_warned_of_and_the_log_still_equals_the_dump(tmp_path):
    track, answers = Track(form=NEW), Answers()

    def step(name):
        if name == "before /run/continue" and len(track.taken) == 2:
            raise Killed

    with pytest.raises(Killed):
        live(track, tmp_path / "run", answers, step=step)
    track.forget("mine")
    with pytest.warns(delivery.LostSessionWarning, match="the server lost the conversation on topic 1-1"):
        run = live(track, tmp_path / "run", answers)
    assert [one.session for one in run.log.dialogues()] == ["1-1", "2-1", "1-2"]
    assert len(run.log.dialogues()[0].turns) == 2
    assert said(track.taken[2:]) == EVERY[3:]


def test_a_server_that_took_a_response_and_went_on_to_another_topic_begins_another_conversation(tmp_path):
    class Moved(Track):
        def session(self, run):
            if run.topic[0] == "1-1":
                run.done.append("1-1")
                self.next_topic(run)
            return super().session(run)

    track, answers = Moved(SHORT, form=NEW, faults=["", "drop after"]), Answers()
    run = live(track, tmp_path / "run", answers)
    assert said(track.taken) == [("1-1", "Why?"), ("2-1", "Where?")]
    assert [(one.session, len(one.turns), one.end) for one in run.log.dialogues()] == [("1-1", 1, "topic ended"), ("2-1", 1, "topic ended")]


def test_a_server_that_stays_away_is_an_error_and_the_run_continues_later(tmp_path):
    track, answers = Track(faults=["", *["500 before"] * 40]), Answers()
    with pytest.raises(ServerDown, match="start again later, the same command continues the run"):
        live(track, tmp_path / "run", answers)
    track.faults.clear()
    check(track, answers, live(track, tmp_path / "run", answers), TOPICS)


@pytest.mark.parametrize(("fault", "waits"), [("drop before", [2, 8]), ("slow before", [2, 8, 30, 60, 120])])
def test_a_server_that_may_be_at_work_is_waited_for_before_anything_is_sent_again(tmp_path, fault, waits):
    slept = []
    live(Track(SHORT, faults=["", fault]), tmp_path / "run", Answers(), sleep=slept.append)
    assert slept == waits


def test_a_server_that_works_on_a_response_longer_than_a_call_waits_gets_it_once(tmp_path):
    class Slow(Track):
        def session(self, run):
            waiting = self.calls.count("/run/session") < 4
            return {**run.message, "history": run.message["history"][:-1], "utterance": "Answer 1."} if waiting else run.message

    track, answers = Slow(SHORT, faults=["", "slow after"]), Answers()
    check(track, answers, live(track, tmp_path / "run", answers), SHORT)


def test_a_conversation_longer_than_the_model_has_room_for_is_answered_with_less_of_its_history(tmp_path):
    given = []

    class Noting(Answers):
        def __call__(self, *asked, **options):
            given.append((options["history"], options.get("halvings")))
            return super().__call__(*asked, **options)

    track, answers = Track(SHORT), Noting()
    check(track, answers, live(track, tmp_path / "run", answers), SHORT)
    assert set(given) == {(8000, None)}  # as often as needed: tests/live/chat/test_long.py


def test_without_a_dump_the_log_is_not_compared(tmp_path):
    with pytest.warns(Warning, match="the log is not compared with the server's dump"):
        live(Track(with_dump=False), tmp_path / "run", Answers())


def test_the_user_may_repeat_the_same_words():
    history = [{"role": "user", "content": "Why?"}]
    before = UserMessage("1-1", "u", "Why?", history, "10:00")
    after = [*history, {"role": "assistant", "content": "So."}]
    assert is_taken(before, UserMessage("1-1", "u", "Why?", [*after, *history], "10:01")) is True
    assert is_taken(before, UserMessage("1-1", "u", "Why?", after, "10:01")) is True  # without the newest utterance
    assert is_taken(before, UserMessage("1-1", "u", "Why?", history, "10:01")) is False
    assert is_taken(before, UserMessage("2-1", "u", "Why?", history, "10:01")) is None
    full = [*after, {"role": "user", "content": "How?"}]
    window = [*full[1:], {"role": "assistant", "content": "Thus."}]  # as long as before, with other messages
    assert is_taken(UserMessage("1-1", "u", "How?", full), UserMessage("1-1", "u", "Thus.", window[:2])) is None
    assert is_taken(UserMessage("1-1", "u", "How?", full), UserMessage("1-1", "u", "How?", [*window[1:], full[2]])) is None
    bare = UserMessage("1-1", "u", "Why?", [], "10:00")
    assert is_taken(bare, UserMessage("1-1", "u", "Why?", [], "10:00")) is False
    assert is_taken(bare, UserMessage("1-1", "u", "Why?", [], "10:01")) is None
    assert is_taken(bare, UserMessage("1-1", "u", "How?", [], "10:00")) is True
