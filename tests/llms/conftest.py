import pytest
from chat_server import KEY, ChatServer

from pyterrier_ikat.llms import llm
from pyterrier_ikat.llms.retry import Retry


@pytest.fixture
def server():
    chat_server = ChatServer()
    yield chat_server
    chat_server.http.shutdown()
    chat_server.http.server_close()


@pytest.fixture
def slept():
    """The waits that a model made by `model` would have made, in seconds."""
    return []


@pytest.fixture
def model(server, slept, monkeypatch):
    """Makes a model on the server, which waits in no real time."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)

    models = []

    def make(options="", name="m", **kwargs):
        made = llm(f"openai:{name} base_url={server.url} {options}", **kwargs)
        made.retry = Retry(tries=made.retry.tries, sleep=slept.append)
        models.append(made)
        return made

    yield make
    for made in models:
        made.close()
