"""Servers that forget, fail for good or keep nothing: the run ends soon and says why."""

import pytest
from playing import TWO_TOPICS, Answers, Model, check, live, play, said
from track_server import DOCUMENTED, NEW, Refused, Track

import pyterrier_ikat as ikat
from pyterrier_ikat.live.interactive import InteractiveWarning, ServerDown

pytestmark = pytest.mark.usefixtures("token_without_spacy")
SHORT = (("1-1", "ann", ("Why?", "Why?")), ("2-1", "bob", ("Where?",)))


class Renamed(Track):
    """A server of the future, whose dump has another form."""

    def dumped(self, one):
        return {"responses": [{"user_utterance": one["user_utterance"], "said": one["text"]}]}


def test_an_unreadable_dump_is_no_evidence_and_nothing_is_resent(tmp_path):
    lost = ["", "", "drop after"]  # the reply with the user's last words
    renamed = Renamed(SHORT, form=NEW, faults=[*lost])
    without = Track(SHORT, form=NEW, faults=[*lost], with_dump=False)
    for track, told in ((renamed, "entry 1 .* unknown form .*"), (without, ".*")):
        folder = tmp_path / type(track).__name__
        answers = Answers()
        with pytest.raises(
            ikat.DataError,
            match=(
                rf"does not show whether it took the response to turn 1-1_2 \({told}\), and "
                r"nothing is sent twice"
            ),
        ):
            live(track, folder, answers)
        assert said(track.taken) == [("1-1", "Why?"), ("1-1", "Why?")]
    without.with_dump = True
    assert live(without, folder, answers).finished
    assert len(without.taken) == len(answers.asked) == 3


def test_a_run_that_the_server_forgot_is_said(tmp_path):
    track = Track(SHORT, form=NEW)

    def step(name):
        if name == "before /run/continue":
            track.runs.clear()

    with pytest.raises(ikat.IkatError, match="knows no such address or run"):
        live(track, tmp_path / "run", Answers(), step=step)
    track.faults = ["drop before"]
    with pytest.raises(
        ikat.DataError,
        match=(
            "if it has forgotten the run, only the organisers can help, or a new run id in a "
            "new folder"
        ),
    ):
        live(track, tmp_path / "run", Answers())


FAILED = Refused(500, "Internal Server Error")


class Stuck(Track):
    """Its simulated user fails for ever after the first response, which it has kept."""

    def proceed(self, run, body):
        live = run.live
        message = super().proceed(run, body)
        if live:
            run.live = True
            run.stuck = True
            raise FAILED
        return message

    def session(self, run):
        if getattr(run, "stuck", False):
            raise FAILED
        return super().session(run)


def test_a_server_failed_for_good_is_named_and_not_waited_for(tmp_path):
    track = Stuck(SHORT, form=NEW)
    told = []
    waits = []
    for _ in range(3):
        slept = []
        with pytest.raises(ServerDown) as error:
            live(track, tmp_path / "run", Answers(), sleep=slept.append)
        told.append(str(error.value))
        waits.append(sum(slept))
    for text in told:
        assert "500" in text
        assert "organisers" in text
        assert "run id" in text
    assert waits == [0, 0, 0]
    assert len(track.taken) == 1


class Speechless(Track):
    """The simulated user fails at its first words, once: the topic has begun without a message."""

    failing = ""

    def next_topic(self, run):
        if run.open and run.open[0][0] == self.failing:
            run.topic = run.open.pop(0)
            run.history = []
            run.live = True
            raise FAILED
        return super().next_topic(run)

    def proceed(self, run, body):
        return (
            self.say(run, run.topic[2][0], False)
            if run.live and not run.history
            else super().proceed(run, body)
        )

    def session(self, run):
        if not run.history:
            raise FAILED
        return super().session(run)


@pytest.mark.parametrize("topic", ["1-1", "2-1"])
def test_a_topic_that_begins_without_a_message_is_asked_again(tmp_path, topic):
    track = Speechless(TWO_TOPICS, form=NEW)
    answers = Answers()
    track.failing = topic
    check(track, answers, live(track, tmp_path / "run", answers))


class Fails(Track):
    """Fails after the user's next words and before the response is kept, as the released server."""

    def proceed(self, run, body):
        live = run.live
        message = super().proceed(run, body)
        if live:
            run.dumped.pop()
            run.live = True
            run.message = {
                **message,
                "last_response_of_session": False,
                "last_response_of_run": False,
            }
            run.topic = (*run.topic[:2], (*run.topic[2], "Thank you, goodbye."))
            raise FAILED
        return message


def test_a_server_that_keeps_no_response_is_not_answered_forever(tmp_path):
    track = Fails(SHORT, form=NEW)
    model = Model()
    for asked in (1, 2):
        with pytest.raises(
            ServerDown,
            match=(
                r"500: .*, and its dump lacks the response, which would not be assessed: only "
                r"the organisers"
            ),
        ):
            play(track, tmp_path / "run", model)
        assert len(model.asked) == asked


def test_a_restarted_server_that_cannot_go_on_is_said_soon(tmp_path):
    track = Track(TWO_TOPICS, form=NEW, recovers=False)
    answers = Answers()

    def step(name):
        if name == "before /run/continue" and len(track.taken) == 1 and track.runs["mine"].live:
            track.forget("mine")

    slept = []
    with pytest.raises(
        ServerDown,
        match=(
            "no reply to the response to turn 1-1_2: .*500: .*Internal Server Error.*: only "
            "the organisers"
        ),
    ):
        live(track, tmp_path / "run", answers, step=step, sleep=slept.append)
    assert sum(slept) == 30
    track.recovers = True  # the organisers repaired it, and the conversation is lost
    with pytest.warns(
        InteractiveWarning,
        match="may not have the response to turn 1-1_2: it continues with topic 2-1",
    ):
        journal = live(track, tmp_path / "run", answers)
    assert [len(one.taken) for one in journal.log.dialogues()] == [1, 1]
    assert journal.finished


class Expires(Track):
    """Takes the token for a number of calls."""

    left = 0

    def handle(self, method, path, query, body, headers):
        self.left -= 1
        if self.left < 0:
            self.faults.clear()
            self.calls.append(path)
            return 401, {"detail": "Token expired"}, {}
        return super().handle(method, path, query, body, headers)


@pytest.mark.parametrize("form", [DOCUMENTED, NEW])
def test_a_refused_token_ends_the_run_at_once_wherever_noticed(tmp_path, form):
    def expiring(left):
        track = Expires(TWO_TOPICS, form=form, faults=["drop after", "", "drop after", "500 after"])
        track.left = left
        return track

    whole = expiring(1000)
    live(whole, tmp_path / "whole", Answers())
    for left in range(len(whole.calls)):
        track = expiring(left)
        answers = Answers()
        folder = tmp_path / str(left)
        with pytest.raises(ikat.IkatError, match="does not accept the token in IKAT_TOKEN"):
            live(track, folder, answers)
        assert len(track.calls) <= left + 2  # a lost answer may have been the refusal
        track.left = 1000
        check(track, answers, live(track, folder, answers))


class FailsInItsSecondTopic(Fails):
    """Keeps each response in its first topic."""

    def proceed(self, run, body):
        if run.topic[0] == "1-1":
            return Track.proceed(self, run, body)
        return super().proceed(run, body)


def test_an_equal_response_on_another_topic_is_no_evidence(tmp_path):
    topics = (("1-1", "ann", ("Why?",)), ("2-1", "bob", ("Where?",)))
    track = FailsInItsSecondTopic(topics, form=NEW)
    model = Model(lambda number: ("No idea.", "No idea.")[number - 1])
    with pytest.raises(ServerDown, match="its dump lacks the response"):
        play(track, tmp_path / "run", model)
    assert len(model.asked) == 2
