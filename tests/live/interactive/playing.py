"""Systems that play on the track, and runs and single lives of theirs on the double."""

from functools import partial

import httpx
import pandas as pd
import pyterrier as pt
import pytest
from track_server import TOKEN, TOPICS, InProcess, list_questions

import pyterrier_ikat as ikat
from pyterrier_ikat.live.interactive import interact, interactive_run, player, track_server
from pyterrier_ikat.live.interactive.track_server import TrackServer, UserMessage
from pyterrier_ikat.llms import StageError
from pyterrier_ikat.runs import Turn
from pyterrier_ikat.study.systems import System

ADDRESS = "http://localhost:8888/sim"


class Model:
    """Answers each question with its number, and remembers the prompts."""

    def __init__(self, say=lambda number: f"Answer {number}."):
        self.asked = []
        self.say = say

    def generate(self, chats):
        self.asked += chats
        return [self.say(len(self.asked))] * len(chats)


class Three(pt.Transformer):
    """Three passages of each turn, of which the response used two."""

    def transform(self, inp):
        docnos = [
            "clueweb22-en0000-00-00000:0",
            "clueweb22-en0000-00-00000:1",
            "clueweb22-en0000-00-00001:0",
        ]
        scores = [3.0, 2.0, 2.0]
        found = pd.DataFrame(
            {
                "docno": docnos,
                "score": scores,
                "rank": [0, 1, 2],
                "used": [True, True, False],
                "text": ["a", "b", "c"],
            }
        )
        return inp.merge(found, how="cross").assign(qstatements=[[("1", 2.0)]] * 3 * len(inp))


def system_of(model):
    return ikat.Answer(ikat.llm(model)) >> Three()


def play(track, folder, model=None, step=lambda name: None, count=False, **options):
    """A run on the track without waiting; spaCy, slow to import, counts where ``count`` is set."""
    system = options.pop("system", None) or system_of(Model() if model is None else model)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("IKAT_TOKEN", TOKEN)
        patched.setattr(
            interactive_run, "TrackServer", partial(TrackServer, transport=InProcess(track, step))
        )
        patched.setattr(track_server, "sleep", lambda seconds: None)
        for module in () if count else (track_server, interactive_run):
            patched.setattr(module, "tokenizer", lambda: str.split)
        return interact(ADDRESS, system, out=folder, **{"run_id": "mine", **options})


def said(turns):
    """Topics and utterances of turns."""
    return [(topic, utterance) for topic, utterance, _ in turns]


EVERY = list_questions(TOPICS)


def written(path, text):
    path.write_text(text)
    return path


class Look(pt.Transformer):
    """Keeps the turns that the system sees."""

    def __init__(self):
        self.seen = []

    def transform(self, inp):
        for _, row in inp.iterrows():
            if row["query"] != "?":
                self.seen.append(row)
        return inp


TWO_TOPICS = (("1-1", "ann", ("Why?", "Why?", "And how?")), ("2-1", "bob", ("Where?",)))


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


def check(track, answers, journal):
    """Each question was answered once, and the log has what the server has."""
    expected = []
    for number, (topic, utterance) in enumerate(list_questions(TWO_TOPICS), 1):
        expected.append((topic, utterance, f"Answer {number}."))
    assert track.taken == expected
    assert len(answers.asked) == len(expected)
    logged = []
    for one in journal.log.dialogues():
        logged.extend(turn.response for turn in one.taken)
    assert logged == [response for *_, response in track.taken]
    assert [(one.session, one.end) for one in journal.log.dialogues()] == [
        (topic, "topic ended") for topic, *_ in TWO_TOPICS
    ]
    assert journal.finished


def user_message(**changes):
    fields = {"topic_id": "1-1", "user_id": "ann", "utterance": "Why?", "history": []}
    fields |= {"last_response_of_session": False, "last_response_of_run": False}
    return UserMessage.of(fields | changes)


ONE = (("1-1", "ann", ("Which tea?", "And now?")),)


class Token(str):
    idx = 0


def words_of(text):
    """Words and the points behind them, but for those of 3.5, Mr. and a.m."""
    tokens = []
    at = 0
    for word in text.split():
        at = text.index(word, at)
        parts = [word]
        if word[-1] == "." and word not in ("Mr.", "a.m."):
            parts = [word[:-1], "."]
        for part in parts:
            token = Token(part)
            token.idx = at
            at += len(part)
            tokens.append(token)
    return tokens


class NotingMemory:
    """Notes what it is to learn, and fails as it is told."""

    def __init__(self, *failures):
        self.failures = failures
        self.learned = []

    def learn(self, user, session, messages):
        self.learned.append((user, session, [message["content"] for message in messages]))
        if self.failures:
            raise StageError("update_ptkb", list(self.failures))


class Word:
    def __init__(self, at):
        self.idx = at


class Words(list):
    """The words of a text, with their places; it stands in for spaCy's tokens."""

    def __init__(self, text):
        super().__init__()
        at = 0
        for word in text.split():
            at = text.index(word, at)
            self.append(Word(at))
            at += len(word)


def server_of(monkeypatch, status, text, **options):
    monkeypatch.setenv("IKAT_TOKEN", "tok-1")
    answer = httpx.MockTransport(lambda request: httpx.Response(status, text=text))
    return TrackServer("https://host/sim", "mine", transport=answer, **options)
