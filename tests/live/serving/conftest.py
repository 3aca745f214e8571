"""Servers and clients that several files of this room need."""

import pyterrier as pt
import pytest
from page_server import serving
from talking import Client, Talks, served


@pytest.fixture(scope="module")
def wire():
    with serving() as server:
        yield server


@pytest.fixture
def server(wire):
    """The server, as if it had just been started."""
    yield wire
    wire.renew()


@pytest.fixture(scope="module")
def talks():
    return Talks()


@pytest.fixture(scope="module")
def client(talks):
    ranks = talks >> pt.apply.generic(lambda frame: frame.drop(columns=["used", "qanswer"]))
    return Client(served({"talks": talks, "ranks": ranks}))


@pytest.fixture(scope="module")
def two_models():
    return Client(served({"talks": Talks("Rooibos."), "other": Talks("Mate.")}))
