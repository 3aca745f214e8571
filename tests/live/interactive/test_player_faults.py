"""Interactive runs over faults, restarts and kills: they end with the clean run's responses."""

import errno
import itertools
import warnings
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from playing import ONE, TWO_TOPICS, Answers, Killed, check, live, play, words_of
from track_server import DOCUMENTED, FAULTS, NEW, OLD, Refused, Track

from pyterrier_ikat.live.interactive import player, track_server
from pyterrier_ikat.live.interactive.player import InteractiveRun
from pyterrier_ikat.live.interactive.track_server import ServerDown, ServerRefusal
from pyterrier_ikat.runs import Log, Turn, log
from pyterrier_ikat.store import files

pytestmark = pytest.mark.usefixtures("token_without_spacy")
FORMS = [DOCUMENTED, OLD, NEW]
CALLS = 6
"""Calls of a clean run that change something: the start, the responses, the second topic."""


def calm(name):
    pass


def lives(track, folder, answers, steps=()):
    """The run, started again after each kill, and once after a server that could not be reached."""
    for step in (*steps, calm, calm):
        try:
            return live(track, folder, answers, step)
        except ServerRefusal:
            raise
        except (Killed, ServerDown, OSError):
            track.faults = [fault for fault in track.faults if fault != "unreached"]
    raise AssertionError("the run did not end")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("place", range(CALLS))
@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_at_each_call(tmp_path, fault, place, form):
    times = len(player.WAITS) + 10 if fault == "unreached" else 1
    track = Track(TWO_TOPICS, faults=[""] * place + [fault] * times, form=form)
    answers = Answers()
    check(track, answers, lives(track, tmp_path / "run", answers))
    assert track.faults == []


def killing(deadly):
    """A step that kills at the n-th call of itself."""
    left = itertools.count(deadly, -1)

    def step(name):
        if next(left) == 0:
            raise Killed(name)

    return step


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("deadly", range(2, 2 * (CALLS + 1)))
def test_a_kill_before_and_after_each_call(tmp_path, deadly, form):
    track = Track(TWO_TOPICS, form=form)
    answers = Answers()
    check(track, answers, lives(track, tmp_path / "run", answers, [killing(deadly)]))
    assert len(answers.asked) == 4


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("error", [Killed, OSError(errno.ENOSPC, "No space left on device")])
def test_a_kill_or_a_full_disk_at_each_line_of_the_journal(tmp_path, form, error, monkeypatch):
    for deadly in range(17):
        left = itertools.count(deadly, -1)

        def append(path, line, left=left):
            if next(left) == 0:
                with path.open("ab") as file:
                    file.write(b'{"event": "mess')
                raise error
            files.append_line(path, line)

        track = Track(TWO_TOPICS, form=form)
        answers = Answers()
        with monkeypatch.context() as patched:
            patched.setattr(log, "append_line", append)
            check(track, answers, lives(track, tmp_path / f"{deadly}", answers))
        assert next(left) < 0


@given(
    st.lists(st.sampled_from(["", "", *FAULTS]), max_size=12),
    st.lists(st.integers(0, 30), max_size=2),
    st.sampled_from(FORMS),
)
def test_any_faults_with_any_kills(tmp_path_factory, faults, deaths, form):
    track = Track(TWO_TOPICS, faults=faults, form=form)
    answers = Answers()
    check(
        track,
        answers,
        lives(
            track,
            tmp_path_factory.mktemp("any") / "run",
            answers,
            [*map(killing, deaths), *[calm] * len(faults)],
        ),
    )


def test_the_whole_run_again_sends_nothing(tmp_path):
    track = Track(TWO_TOPICS)
    answers = Answers()
    check(track, answers, live(track, tmp_path / "run", answers))
    calls = list(track.calls)
    check(track, answers, live(track, tmp_path / "run", answers))
    assert track.calls[len(calls) :] == ["/auth/verify"]


def message_after(*utterances, ends=False):
    """The user's words after those before, each of which was answered."""
    *earlier, newest = utterances
    history = []
    for said in earlier:
        history.append({"role": "user", "content": said})
        history.append({"role": "assistant", "content": "Yes."})
    return player.UserMessage(
        topic_id="1-1",
        user_id="ann",
        utterance=newest,
        history=history,
        last_response_of_session=ends,
        last_response_of_run=ends,
    )


@pytest.mark.parametrize(
    ("reply", "sent"),
    [
        (message_after("Why?"), []),
        (message_after("Why?", "How?"), []),
        (message_after("Why?", "How?", "Who?"), [2]),
        (message_after("Thanks.", ends=True), [2]),
    ],
    ids=["the server forgot it", "the same message", "the next message", "the end"],
)
def test_a_response_is_sent_once_its_reply_has_come(tmp_path, reply, sent):
    run = player.InteractiveRun(tmp_path / "run", {"kind": "interactive"})
    run.receive(message_after("Why?", "How?"))
    run.note(log.turn_event(Turn(2, "How?", "So.", session=run.session)))
    run.receive(reply)
    assert list(run.dialogue.sent) == sent


# Calls that were stopped or lost


def kills_at(name, nth=1):
    left = [nth]

    def step(now):
        if now == name:
            left[0] -= 1
            if not left[0]:
                raise Killed(now)

    return step


@pytest.mark.parametrize(
    ("name", "nth", "waits"),
    [
        ("before /run/continue", 1, [2, 8, 30, 60, 120]),
        ("after /run/continue", 1, []),
        ("before /run/continue", 4, [2, 8, 30, 60, 120]),
    ],
)
def test_a_stopped_call_is_waited_for_as_a_slow_one(tmp_path, name, nth, waits):
    track = Track(TWO_TOPICS)
    answers = Answers()
    slept = []
    with pytest.raises(Killed):
        live(track, tmp_path / "run", answers, step=kills_at(name, nth), sleep=slept.append)
    assert slept == []
    check(track, answers, live(track, tmp_path / "run", answers, sleep=slept.append))
    assert slept == waits


def test_what_failed_for_good_is_sent_again_without_a_wait(tmp_path):
    track = Track(TWO_TOPICS)
    answers = Answers()
    slept = []
    step = kills_at("before /run/continue", 2)
    with pytest.raises(Killed):
        live(track, tmp_path / "run", answers, step=step, sleep=slept.append)
    journal = InteractiveRun(tmp_path / "run", Log(tmp_path / "run").header)
    assert (journal.under_way, journal.turn.number) == (True, 2)
    journal.note({"event": "stuck", "why": "it failed"})
    before = len(track.calls)
    check(track, answers, live(track, tmp_path / "run", answers, sleep=slept.append))
    assert slept == []
    calls = [path.rpartition("/")[2] for path in track.calls[before:]]
    assert calls[:4] == ["verify", "session", "continue", "continue"]


def test_a_debug_run_goes_on_after_a_lost_reply_and_has_no_dump(tmp_path):
    for fault in ("500 after", "drop after", "drop before", "slow after"):
        track = Track(ONE, faults=["", fault])
        folder = tmp_path / fault.replace(" ", "-")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            run = play(track, folder, debug=True)
        assert run.finished
        dumped = track.debugged["mine"].dumped
        assert [entry["user_utterance"] for entry in dumped] == ["Which tea?", "And now?"]
        assert not (folder / "dump.json").exists()


class Slow(Track):
    """Works on a response longer than a call waits."""

    def session(self, run):
        waiting = self.calls.count("/run/session") < 4
        return (
            {**run.message, "history": run.message["history"][:-1], "utterance": "Answer 1."}
            if waiting
            else run.message
        )


@pytest.mark.parametrize(
    ("kind", "fault", "waits"),
    [
        (Slow, "slow after", [2, 8, 30]),
        (Track, "drop before", [2, 8]),
        (Track, "slow before", [2, 8, 30, 60, 120]),
    ],
)
def test_a_server_maybe_at_work_is_waited_for_before_resending(tmp_path, kind, fault, waits):
    slept = []
    answers = Answers()
    track = kind(TWO_TOPICS, faults=["", fault])
    check(track, answers, live(track, tmp_path / "run", answers, sleep=slept.append))
    assert slept == waits


# Responses that are too long


class ShortOnly(Track):
    """Finds a response of more than three words too long."""

    def check(self, body):
        if len(body["response"].split()) > 3:
            raise Refused(422, "Response is too long.")


class Longer(Answers):
    """Answers in two sentences."""

    def __call__(self, *args, **options):
        turn = super().__call__(*args, **options)
        return replace(turn, response=f"It is {turn.number}. So it is.")


def test_a_cut_response_is_sent_at_once_and_nothing_is_asked(tmp_path, monkeypatch):
    monkeypatch.setattr(track_server, "tokenizer", lambda: words_of)
    track = ShortOnly((("1-1", "ann", ("Why?", "How?")),))
    slept = []
    run = live(track, tmp_path / "run", Longer(), sleep=slept.append)
    assert slept == []
    calls = [path.rpartition("/")[2] for path in track.calls]
    assert calls[:6] == ["verify", "start", "continue", "continue", "continue", "continue"]
    assert "session" not in calls
    assert [response for *_, response in track.taken] == ["It is 1.", "It is 2."]
    kinds = [event["event"] for event in run.log.events()]
    turn = ["turn", "sending"]
    assert kinds[4:10] == [*turn, "unsent", *turn, "sent"]


class NeverShort(Track):
    """Finds every response too long."""

    def check(self, body):
        if body["response"]:
            raise Refused(422, "Response is too long.")


def test_a_response_that_never_fits_is_sent_three_times(tmp_path, monkeypatch):
    monkeypatch.setattr(track_server, "tokenizer", lambda: words_of)
    track = NeverShort(ONE)
    with pytest.raises(ServerRefusal, match="refuses run/continue .422: .*too long"):
        live(track, tmp_path / "run", Answers())
    assert track.calls.count("/run/continue") == 3
