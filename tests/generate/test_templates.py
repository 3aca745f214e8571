"""The prompt templates that decide whether a finished run is the same one."""

import pandas as pd
import pytest
from fakes import scripted
from operators import a_turn, found, texts, two_turns

import pyterrier_ikat as ikat
from pyterrier_ikat.prompts import FOLDER

OPERATORS = {
    "respond": (ikat.Respond, {}, ["respond"]),
    "respond with citations": (ikat.Respond, {"cite": True}, ["respond", "respond_cite"]),
    "answer": (ikat.generate.Answer, {}, ["answer"]),
    "queries": (ikat.Queries, {}, ["queries"]),
    "queries after an answer": (
        ikat.Queries,
        {"given": "answer"},
        ["queries_given_answer", "answer"],
    ),
    "passage queries": (
        ikat.generate.PassageQueries,
        {"forms": ["short", "long"]},
        ["passage_queries_short", "passage_queries_long"],
    ),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_every_template_of_an_operator_has_its_checksum(name, tmp_path):
    operator, arguments, templates = OPERATORS[name]
    llm, _ = scripted()
    checksums = operator(llm, **arguments).prompt_checksums()
    assert sorted(checksums) == sorted(templates)
    for template in templates:
        source = (FOLDER / f"{template}.jinja").read_text(encoding="utf-8")
        own = tmp_path / template
        own.mkdir()
        (own / f"{template}.jinja").write_text(source + "Be brief.", encoding="utf-8")
        changed = operator(llm, **arguments, prompts=str(own)).prompt_checksums()
        assert {key for key in templates if changed[key] != checksums[key]} == {template}


def test_an_own_request_for_citations_is_sent(tmp_path):
    (tmp_path / "respond_cite.jinja").write_text("Cite as [n].", encoding="utf-8")
    llm, backend = scripted("Sage [1].")
    ikat.Respond(llm, cite=True, prompts=str(tmp_path))(found(a_turn(), 1))
    assert texts(backend)[0].endswith("\n\nCite as [n].")


def test_each_turn_gets_its_own_prompt_and_response_in_any_order():
    first, second = (two_turns().iloc[[place]] for place in (0, 1))
    turns = [first.assign(qid="10_2"), second.assign(qid="10_10")]
    for order in (turns, turns[::-1]):
        frame = found(pd.concat(order, ignore_index=True), 2)
        qids = frame["qid"].unique().tolist()
        llm, backend = scripted(*[f"About {qid}." for qid in qids])
        operator = ikat.Respond(llm)
        responses = operator(frame)
        assert (responses["qanswer"] == "About " + responses["qid"] + ".").all()
        assert [request.qid for request in operator.requests(frame)] == qids
        for qid, shown in zip(qids, texts(backend), strict=True):
            for other in qids:
                assert (f"of {other}. More" in shown) == (other == qid)
