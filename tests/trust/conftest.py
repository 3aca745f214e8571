"""A server on loopback, which every test of the room may ask."""

import pytest
from llms.chat_server import ChatServer, said


@pytest.fixture
def server():
    """A server on loopback that gives every prompt an answer which every parser can read."""
    chat_server = ChatServer()
    chat_server.respond = lambda body: said("1. a first walk on soft paths\n2. heath in bloom")
    yield chat_server
    chat_server.http.shutdown()
    chat_server.http.server_close()
