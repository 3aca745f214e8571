"""A question, and its answer by a system."""

from pyterrier_ikat.live.answering import answer
from pyterrier_ikat.study.systems import System

ASKED = [{"role": "user", "content": "Which tea?"}]


def answer_of(pipeline, messages=ASKED, **options):
    return answer(System.of(pipeline, "mine"), messages, **options)


def turn(text="Which tea?", before=()):
    return [*before, {"role": "user", "content": text}]
