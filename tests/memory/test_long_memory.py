"""A memory whose model has room for few messages."""

import re

import pytest
from test_user_memory import Notes, chat

import pyterrier_ikat as ikat
from pyterrier_ikat.llms import LLM, Backend, Reply, StageError, TooLong


class Small(Backend):
    """Takes notes of at most so many messages in a prompt."""

    def __init__(self, notes, most):
        self.notes, self.most, self.model, self.replays = notes, most, "small", False
        self.identity = {"provider": "fake", "model": str(id(self)), "params": {}}

    def complete(self, requests):
        return [self.reply(request, request.messages[0]["content"]) for request in requests]

    def reply(self, request, prompt):
        if len(re.findall(r"^user \d+:", prompt, re.MULTILINE)) > self.most:
            return TooLong(request.stage, request.qid, "too long")
        return Reply(self.notes.answer(prompt), self.model, "stop")


def test_what_is_too_long_for_the_model_is_learned_in_halves_also_after_turns_were_taken_back(tmp_path):
    notes = Notes()
    backend = Small(notes, 4)
    memory = ikat.UserMemory(tmp_path / "users.json", LLM(backend))
    memory.learn("ann", "s", chat("I row.", "I sew.", "I ski.", "I nap."))
    backend.most = 2
    learned = memory.learn("ann", "s", chat("I row.", "I sew.", "I ski.", "I sing."))
    assert [one["statement"] for one in learned] == list(memory.known("ann").values()) == ["I row.", "I sew.", "I ski.", "I sing."]
    assert len(notes.prompts) == 3  # one, and one for each half
    backend.most = 0
    with pytest.raises(StageError, match="too long"):
        memory.learn("ann", "s", chat("I row.", "I sew.", "I ski.", "I sing.", "I bike."))
