"""Interactive runs over faults, restarts and kills: they end with the clean run's responses."""

import errno
import itertools

import pyterrier as pt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from track_server import DOCUMENTED, FAULTS, NEW, OLD, TOKEN, InProcess, Track, list_questions

from pyterrier_ikat.live.interactive import player, track_server
from pyterrier_ikat.live.interactive.track_server import ServerDown, ServerRefusal, TrackServer
from pyterrier_ikat.runs import Turn, log
from pyterrier_ikat.store import files
from pyterrier_ikat.study.systems import System

FORMS = [DOCUMENTED, OLD, NEW]
TOPICS = (("1-1", "ann", ("Why?", "Why?", "And how?")), ("2-1", "bob", ("Where?",)))
CALLS = 6
"""Calls of a clean run that change something: the start, the responses, the second topic."""


class Killed(BaseException):
    pass


class Answers:
    """A system's answers: a new one for each turn, kept like the completions in a cache."""

    def __init__(self):
        self.asked = {}

    def __call__(self, system, said, ptkb, *, number, turn, **options):
        text = self.asked.setdefault(f"{number}_{turn}", f"Answer {len(self.asked) + 1}.")
        return Turn(
            turn,
            said[-1]["content"],
            text,
            citations={"clueweb22-en0000-00-00000:0": 0.1},
            statements=("I like tea.",),
        )


@pytest.fixture(autouse=True, scope="module")
def quick():
    """The token, and no spaCy to count the words of the answers."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("IKAT_TOKEN", TOKEN)
        patched.setattr(track_server, "tokenizer", lambda: str.split)
        yield


def live(track, folder, answers, step=lambda name: None, sleep=lambda seconds: None, **options):
    """One life of a run: what `interact` does once the system is built."""
    server = TrackServer(
        "http://localhost:8888/sim", "mine", transport=InProcess(track, step), **options
    )
    header = {
        "kind": "interactive",
        "system": "ours",
        "run_id": "mine",
        "team": server.team(),
        "description": "Ours.",
    }
    run = player.InteractiveRun(folder, header)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(track_server, "sleep", sleep)
        patched.setattr(player, "answer", answers)
        player.Player(
            server,
            run,
            System.of(pt.Transformer.identity()),
            {},
            None,
            None,
            tell=lambda line: None,
            doing=None,
        ).play()
    return run


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


def calm(name):
    pass


def killing(deadly):
    """A step that kills at the n-th call of itself."""
    left = itertools.count(deadly, -1)

    def step(name):
        if next(left) == 0:
            raise Killed(name)

    return step


def check(track, answers, journal):
    expected = []
    for number, (topic, utterance) in enumerate(list_questions(TOPICS), 1):
        expected.append((topic, utterance, f"Answer {number}."))
    assert track.taken == expected
    assert len(answers.asked) == len(expected)
    logged = []
    for one in journal.log.dialogues():
        logged.extend(turn.response for turn in one.taken)
    assert logged == [response for *_, response in track.taken]
    assert [(one.session, one.end) for one in journal.log.dialogues()] == [
        (topic, "topic ended") for topic, *_ in TOPICS
    ]
    assert journal.finished


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("place", range(CALLS))
@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_at_each_call(tmp_path, fault, place, form):
    times = len(player.WAITS) + 10 if fault == "unreached" else 1
    track = Track(TOPICS, faults=[""] * place + [fault] * times, form=form)
    answers = Answers()
    check(track, answers, lives(track, tmp_path / "run", answers))
    assert track.faults == []


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("deadly", range(2, 2 * (CALLS + 1)))
def test_a_kill_before_and_after_each_call(tmp_path, deadly, form):
    track = Track(TOPICS, form=form)
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

        track = Track(TOPICS, form=form)
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
    track = Track(TOPICS, faults=faults, form=form)
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
    track = Track(TOPICS)
    answers = Answers()
    check(track, answers, live(track, tmp_path / "run", answers))
    calls = list(track.calls)
    check(track, answers, live(track, tmp_path / "run", answers))
    assert track.calls[len(calls) :] == ["/auth/verify"]


def message(*utterances, ends=False):
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
        (message("Why?"), []),
        (message("Why?", "How?"), []),
        (message("Why?", "How?", "Who?"), [2]),
        (message("Thanks.", ends=True), [2]),
    ],
    ids=["the server forgot it", "the same message", "the next message", "the end"],
)
def test_a_response_is_sent_once_its_reply_has_come(tmp_path, reply, sent):
    run = player.InteractiveRun(tmp_path / "run", {"kind": "interactive"})
    run.receive(message("Why?", "How?"))
    run.note(log.turn_event(Turn(2, "How?", "So.", session=run.session)))
    run.receive(reply)
    assert list(run.dialogue.sent) == sent
