"""The OpenAI-compatible backend by itself: its defaults, what it leaves open, when its client is loaded."""

import gc

import pytest

from pyterrier_ikat.errors import UsageError
from pyterrier_ikat.llms import llm
from pyterrier_ikat.llms.openai import OpenAIBackend


def test_two_minutes_and_32_calls_unless_said_otherwise():
    backend = llm("openai:m").backend
    assert (backend.timeout, backend.concurrency) == (120.0, 32)


def test_a_backend_that_could_not_be_made_is_forgotten_in_silence():
    with pytest.raises(UsageError, match="the address of a server is http"):
        OpenAIBackend("m", base_url="nowhere")
    gc.collect()
