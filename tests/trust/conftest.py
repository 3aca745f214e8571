import pyterrier as pt
import pytest
from llms.chat_server import ChatServer, said

import pyterrier_ikat as ikat


@pytest.fixture
def server():
    """A server on loopback that gives every prompt an answer which every parser can read."""
    chat_server = ChatServer()
    chat_server.respond = lambda body: said("1. a first walk on soft paths\n2. heath in bloom")
    yield chat_server
    chat_server.http.shutdown()
    chat_server.http.server_close()


@pytest.fixture(scope="module")
def sample_index(tmp_path_factory):
    """The path of an index of the bundled sample."""
    path = tmp_path_factory.mktemp("index") / "sample.index"
    ikat.PassageIndex(path).index(pt.get_dataset("ikat:sample").get_corpus_iter(verbose=False))
    return str(path)
