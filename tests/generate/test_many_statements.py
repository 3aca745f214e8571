"""A persona of many statements: none is cut off on the way into prompts and queries."""

import json

import pytest
from fakes import scripted

import pyterrier_ikat as ikat

PTKB = {str(number): f"I like the dish of number {number} most." for number in range(1, 31)}
SAID = {
    "ids": json.dumps(list(map(int, PTKB))),
    "copies": "\n".join(PTKB.values()),
    "scores": json.dumps(dict.fromkeys(PTKB, 0.5)),
}


@pytest.fixture
def turn():
    return ikat.conversation([{"role": "user", "content": "What do I eat?"}], list(PTKB.values()))


@pytest.mark.parametrize("form", SAID)
def test_every_statement_is_shown_chosen_and_used(form, turn):
    dishes = [f"dish {number}" for number in PTKB]
    llm, backend = scripted(SAID[form], *[f'["{dish}"]' for dish in dishes])
    chosen = ikat.SelectStatements(llm, form)(turn)
    assert [number for number, _ in chosen["qstatements"][0]] == list(PTKB)
    for statement in PTKB.values():
        assert statement in backend.asked[0][-1]["content"]
    appended = ikat.generate.AppendStatements()(chosen)
    assert appended["query"][0] == " ".join(["What do I eat?", *PTKB.values()])
    assert ikat.generate.StatementQueries(llm)(chosen)["qsubqueries"][0] == dishes
    found = chosen.assign(docno="d", score=1.0, rank=0, text="Rice.")
    llm, backend = scripted("Rice.")
    ikat.Respond(llm, statements="chosen")(found)
    for statement in PTKB.values():
        assert statement in backend.asked[0][-1]["content"]
