"""What tests of batches ask, and what they see of answers and of the account."""

import json

import pytest
from llms.chat_server import ask

from pyterrier_ikat.llms import BatchUnderWay

TEXTS = ("a", "b", "c")


class Killed(BaseException):
    """The process ends here."""


def under_way(made, *texts, **kwargs):
    with pytest.raises(BatchUnderWay) as raised:
        made.ask(ask(*(texts or TEXTS), **kwargs))
    return raised.value


def asked(body):
    return body["messages"][-1]["content"]


def first_letters(server):
    """The first letter of each request's text, batch by batch."""
    letters = []
    for number in server.batches:
        letters.append([text[0] for text in server.texts(number)])
    return letters


def counted(made, *names):
    return made.ledger.frame()[list(names)].values.tolist()


def notes(home):
    """What is noted of the batches under way."""
    place = home / "llm.sqlite.batches"
    return json.loads(place.read_text()) if place.exists() else []
