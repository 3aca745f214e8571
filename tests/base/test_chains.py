"""Chains: runs of one system that ask the same model again, each with completions of its own."""

import json
from dataclasses import replace

import pytest

from pyterrier_ikat.events import in_chain
from pyterrier_ikat.llms import Backend, Reply, Request, llm


def request():
    return Request([{"role": "user", "content": "hi"}], "rewrite", "1_1")


class Numbered(Backend):
    """Answers each call with its number."""

    model = "numbered"
    identity = {"provider": "fake", "model": "numbered", "params": {}}

    def __init__(self):
        self.asked = []

    def complete(self, requests):
        self.asked += requests
        return [Reply(f"call {len(self.asked)}") for _ in requests]


def test_the_plain_runs_key_is_pinned_and_each_chain_has_its_own():
    keys = []
    for chain in range(3):
        of_chain = replace(request(), chain=chain)
        keys.append(of_chain.key(Numbered.identity))
    assert keys[0] == "9509efb0416904bf7d040945e8c30212"
    assert len(set(keys)) == 3


def test_each_chain_asks_once_and_finds_its_own_completion_again(tmp_path):
    backend = Numbered()
    model = llm(backend)
    assert model.cache is not None
    model.cache = type(model.cache)(tmp_path / "llm.sqlite")
    for _ in range(2):
        texts = []
        for chain in range(3):
            with in_chain(chain):
                texts.append((model.ask([request()])[0].text, model.peek(request()).text))
        assert texts == [("call 1", "call 1"), ("call 2", "call 2"), ("call 3", "call 3")]
    assert [request.chain for request in backend.asked] == [0, 1, 2]
    model.close()


def test_recorded_lists_give_each_chain_its_own_then_the_last(tmp_path):
    path = tmp_path / "recorded.jsonl"
    record = {"qid": "1_1", "stage": "rewrite", "completion": ["a", "b"], "model": "m"}
    path.write_text(json.dumps(record))
    model = llm(f"recorded:{path}")
    texts = []
    for chain in range(3):
        with in_chain(chain):
            texts.append(model.ask([request()])[0].text)
    assert texts == ["a", "b", "b"]


def test_samples_in_a_chain_have_seeds_of_their_own():
    draws = set()
    for sample in range(3):
        for chain in range(3):
            draws.add(Request([], "s", "q", sample=sample, chain=chain).draw)
    assert len(draws) == 9
    assert Request([], "s", "q", sample=2).draw == 2


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ("openai:gpt-4o temperature=0", "temperature=0"),
        ("openai:gpt-4o temperature=0.7", ""),
        ("openai:gpt-4o", ""),
        ("hf:gpt2", "no temperature above 0"),
        ("hf:gpt2 temperature=1", ""),
    ],
)
def test_a_model_says_why_its_samples_may_be_the_same(spec, why):
    assert llm(spec).backend.repeats(5) == why


def test_an_objects_identity_and_recorded_files_say_it_too(tmp_path):
    class Own:
        def generate(self, chats):
            return ["x"] * len(chats)

    own = llm(Own(), identity={"decoding": {"temperature": 0}})
    assert own.backend.repeats(5) == "temperature=0"
    path = tmp_path / "recorded.jsonl"
    lines = []
    for number in (1, 2, 3):
        completions = ["a"] * number
        record = {"qid": f"1_{number}", "stage": "rewrite", "completion": completions, "model": "m"}
        lines.append(json.dumps(record))
    path.write_text("\n".join(lines))
    too_few = f"2 of 3 records of {path} with too few completions, enough for 1 independent run"
    assert llm(f"recorded:{path}").backend.repeats(3) == too_few
    assert llm(f"recorded:{path}").backend.repeats(1) == ""
