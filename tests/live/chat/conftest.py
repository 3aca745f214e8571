"""What tests of several files of this room need."""

import pytest
from chats import chat_of


@pytest.fixture
def saved(tmp_path):
    """A chat of two turns, about somebody."""
    chat = chat_of("Rooibos.", "Mint.", ptkb=["I run."], number="tea-1", out=tmp_path / "chat")
    chat.say("Which tea?")
    chat.say("Or hot?")
    return tmp_path / "chat"
