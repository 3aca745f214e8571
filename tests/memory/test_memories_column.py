"""The column ``qmemories`` in frames."""

import json

import pandas as pd
import pytest
from fakes import scripted

import pyterrier_ikat as ikat
from pyterrier_ikat.conversations.frame import personas

CHAT = [{"role": "user", "content": "I moved to Oslo. Any cafés?"}]


def memory_of(statement, number, until=None, session="trip"):
    return {
        "id": number,
        "statement": statement,
        "when": "2024-05-02T08:30:00.000Z",
        "until": until,
        "session": session,
        "turn": 3 if session else 0,
        "words": statement,
        "replaces": [],
    }


MEMORIES = [
    memory_of("I live in Nice.", "1", until="2024-05-01T00:00:00.000Z"),
    memory_of("I live in Lyon.", "2"),
    memory_of("I am vegan.", "3", session=""),
]
HOLDS = {"2": "I live in Lyon.", "3": "I am vegan."}


def test_a_frame_with_memories_statements_or_both(tmp_path):
    frame = ikat.conversation(CHAT, memories=MEMORIES)
    assert (frame["qptkb"].item(), frame["qmemories"].item()) == (HOLDS, MEMORIES)
    assert personas(frame.drop(columns="qptkb")) == [HOLDS]
    assert personas(frame.drop(columns="qmemories")) == [HOLDS]
    assert personas(frame.assign(qptkb=[["I like tea."]])) == [{"1": "I like tea."}]
    frame.drop(columns="qptkb").to_parquet(tmp_path / "frame.parquet")
    assert personas(pd.read_parquet(tmp_path / "frame.parquet")) == [HOLDS]
    with_statements = ikat.conversation(CHAT, ["I like tea."], number="b")
    with_neither = ikat.conversation(CHAT, number="c")
    some = pd.concat([frame.drop(columns="qptkb"), with_statements, with_neither])
    assert personas(some) == [HOLDS, {"1": "I like tea."}, {}]
    messages = [*CHAT, {"role": "assistant", "content": "Yes."}, *CHAT]
    both = ikat.conversation(messages, memories=MEMORIES, every_turn=True)
    assert both["qptkb"].tolist() == [HOLDS] * 2


def test_prompts_stay_and_show_date_and_turn_only_when_asked():
    def asked(frame):
        llm, backend = scripted("Yes.")
        ikat.Answer(llm)(frame)
        return backend.asked[0]

    frame = ikat.conversation(CHAT, memories=MEMORIES)
    plain = asked(ikat.conversation(CHAT, HOLDS))
    assert asked(frame) == asked(frame.drop(columns="qptkb")) == plain
    dated = asked(ikat.conversation(CHAT, memories=MEMORIES, dated=True))[-1]["content"]
    assert dated == plain[-1]["content"].replace(
        "I live in Lyon.", "I live in Lyon. (said 2024-05-02, trip, turn 3)"
    )


def test_memories_are_updated_with_the_statements():
    moved = {
        "message": 1,
        "words": "I moved to Oslo",
        "statement": "I live in Oslo.",
        "replaces": [2],
    }
    llm, _ = scripted(json.dumps([moved]))
    boat = memory_of("I own a boat.", "8", until="2024-05-01T00:00:00.000Z")
    frame = ikat.conversation(CHAT, memories=[*MEMORIES, boat], number="now")
    found = ikat.generate.UpdatePtkb(llm)(frame)
    assert found["qptkb"].item() == {"3": "I am vegan.", "9": "I live in Oslo."}
    assert personas(found.drop(columns="qptkb")) == [found["qptkb"].item()]
    lyon = found["qmemories"].item()[1]
    oslo = found["qmemories"].item()[-1]
    assert lyon["until"] == oslo["when"]
    assert (oslo["session"], oslo["turn"]) == ("now", 1)
    assert (oslo["words"], oslo["replaces"]) == ("I moved to Oslo", ["2"])
    assert oslo["until"] is None
    assert set(oslo) == set(lyon)
    assert frame["qmemories"].item()[1]["until"] is None


def test_statements_and_memories_are_not_given_both():
    with pytest.raises(ikat.UsageError, match="ptkb and memories both"):
        ikat.conversation(CHAT, ["I am vegan."], memories=MEMORIES)
