"""The OpenAI-compatible backend by itself: its defaults, what it leaves open, when its client is loaded."""

import gc

import pytest

from pyterrier_ikat.errors import UsageError
from pyterrier_ikat.llms import llm
from pyterrier_ikat.llms.openai import OpenAIBackend


def test_two_minutes_and_32_calls_unless_said_otherwise():
    backend = llm("openai:m").backend
    assert (backend.servers.all[0].timeout, backend.concurrency) == (120.0, 32)


def test_the_connections_of_a_forgotten_backend_are_closed():
    backend = OpenAIBackend("m", base_url="http://127.0.0.1:9/v1")
    backend.open()
    client = backend.servers.all[0].idle[0].client
    assert not client.is_closed()
    del backend
    gc.collect()
    assert client.is_closed()


def test_a_backend_that_could_not_be_made_is_forgotten_in_silence():
    with pytest.raises(UsageError, match="not a web address"):
        OpenAIBackend("m", base_url="nowhere")
    gc.collect()
