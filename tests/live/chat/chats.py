"""Systems, chats, users and terminals for the tests of chats."""

import io

import pandas as pd
import pyterrier as pt
from fakes import scripted

import pyterrier_ikat as ikat
from pyterrier_ikat.conversations import read_topics, topics_frame
from pyterrier_ikat.conversations.frame import column
from pyterrier_ikat.live.chat import Chat


class AnswersFromList(pt.Transformer):
    """Answers from a list and remembers the frames; None finds nothing, an error is raised."""

    def __init__(self, *answers, used=True):
        self.answers = list(answers)
        self.used = used
        self.seen = []

    def transform(self, inp):
        self.seen.append(inp)
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        rows = 0 if answer is None else 2
        qid = inp["qid"].iloc[0]
        found = pd.DataFrame(
            {
                "qid": [qid] * rows,
                "docno": ["d1", "d2"][:rows],
                "rank": range(rows),
                "text": ["one", "two"][:rows],
            }
        )
        return (
            found.assign(qanswer=column([answer] * rows), used=[True, False][:rows])
            if self.used
            else found
        )


def chat_of(*answers, **options):
    return Chat(ikat.Answer(scripted(*answers)[0]), **options)


def saved_turns(folder):
    """The turns of the topics file in the folder of a chat."""
    return read_topics(folder / "topics.json")[0].turns


def same(seen, path):
    """Whether the saved chat's turns are the frames that the system saw."""
    pd.testing.assert_frame_equal(
        topics_frame(read_topics(path)), pd.concat(seen, ignore_index=True)
    )


class AnswersWithPassage(pt.Transformer):
    """Answers from a list, with a passage."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.seen = []

    def transform(self, inp):
        self.seen.append(inp)
        found = pd.DataFrame({"qid": inp["qid"].iloc[:1], "docno": ["d1"], "rank": [0]})
        found["text"] = ["The passage."]
        return found.assign(qanswer=column([self.answers.pop(0)]), used=[True])


LEARNED = '[{"message": 1, "words": "Which tea?", "statement": "I ask for tea."}]'


class Typed:
    """A user: types these lines; an exception is raised."""

    def __init__(self, *lines):
        self.lines = list(lines)

    def __call__(self, prompt):
        line = self.lines.pop(0) if self.lines else EOFError()
        if isinstance(line, BaseException):
            raise line
        return line


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self):
        return True
