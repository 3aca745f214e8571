"""Rewrites with and without the persona, published ones, and what is learned, by hand."""

import json

import pytest
from fakes import scripted
from operators import PTKB, a_turn, texts

import pyterrier_ikat as ikat
from pyterrier_ikat.errors import DataError, UsageError
from pyterrier_ikat.llms import StageError

G = ikat.generate


@pytest.mark.parametrize("persona", [True, False])
def test_a_rewrite_and_an_answer_may_see_no_persona(persona):
    llm, backend = scripted("Reason: x\nRewrite: Does mint help?")
    out = ikat.RewriteAndAnswer(llm, answer=False, persona=persona)(a_turn())
    [prompt] = texts(backend)
    for statement in PTKB.values():
        assert (statement in prompt) is persona
    assert out["query"].tolist() == out["qrewrite"].tolist() == ["Does mint help?"]


def test_only_the_enhanced_rewrite_sees_the_summary():
    turn = a_turn(qsummary="They spoke of tea.", qanswer="Yes.", qpreferences="- tea")
    for form, has_summary in (("enhanced", True), ("personal", False)):
        llm, backend = scripted("Does mint help?")
        ikat.Rewrite(llm, form)(turn)
        [prompt] = texts(backend)
        assert ("They spoke of tea." in prompt) is has_summary
        assert ("system: Rooibos." in prompt) is not has_summary


CHOSEN = 'Statements: [9]\nRewrite: "a?"\nResponse: b'


def test_a_published_choice_is_no_failure(monkeypatch):
    with pytest.raises(StageError, match="all chosen statements are unknown"):
        G.Reformulate(scripted(CHOSEN)[0], "select")(a_turn())
    monkeypatch.setattr("pyterrier_ikat.generate.rewrite.recorded_prompt", lambda llm: "published")
    out = G.Reformulate(scripted(CHOSEN)[0], "select")(a_turn())
    assert out[["qrewrite", "qanswer", "qstatements"]].values.tolist() == [['"a?"', "b", []]]


def test_only_a_choice_needs_numbers_and_writes_statements():
    turn = a_turn().assign(qptkb=[{"P3": "I am vegan."}])
    out = G.Reformulate(scripted("Rewrite: a?\nResponse: b")[0])(turn)
    assert (out["query"].item(), "qstatements" in out) == ("a? b", False)
    with pytest.raises(DataError, match="the id 'P3' is none"):
        G.Reformulate(scripted()[0], "select").requests(turn)
    with pytest.raises(UsageError, match="shots=1"):
        G.SelectStatements(scripted()[0], given="suggestion", shots=1)


def a_memory(name, until=None):
    return {"id": name, "statement": PTKB[name], "when": "2024-05-02T00:00:00Z", "until": until}


def test_a_memory_ends_only_if_it_is_contradicted():
    learned = [
        {"message": 1, "words": "no caffeine", "statement": "I skip caffeine.", "replaces": [1]},
        {"message": 2, "words": "against a cold", "statement": "I have a cold.", "replaces": [2]},
    ]
    llm, backend = scripted(json.dumps(learned))
    memories = [a_memory(name) for name in PTKB]
    out = G.UpdatePtkb(llm, day="Thursday, 2024-05-02")(a_turn(qmemories=memories))
    after = {memory["id"]: memory["until"] is None for memory in out["qmemories"].item()}
    assert after == {"1": False, "2": False, "3": True, "4": True, "5": True}
    assert "Thursday, 2024-05-02" in texts(backend)[0]
    assert [memory["until"] for memory in memories] == [None] * 3
    llm, _ = scripted(json.dumps(learned[:1]))
    [new] = G.UpdatePtkb(llm)(a_turn(qmemories=[]))["qmemories"].item()
    assert (new["statement"], new["until"]) == ("I skip caffeine.", None)
