"""Citations of a response: asked for, marked, and which passages they stand for."""

import json

import pytest
from fakes import scripted
from operators import (
    MIXED,
    a_turn,
    found,
    ledger,
    mixed,
    no_text_warnings,
    texts,
    two_turns,
    used_of,
)

import pyterrier_ikat as ikat
from pyterrier_ikat.completions.citations import (
    while_written,
)
from pyterrier_ikat.operator import citing
from pyterrier_ikat.runs import Turn


def test_respond_asks_for_citations_and_marks_what_is_cited():
    llm, backend = scripted("Ginger [2]. Mint [2][7]!", "Rooibos.", "Tea.", "Tea.")
    results = found(two_turns(), 4)
    out = ikat.Respond(llm, passages=3, cite=True)(results)
    first = out[out["qid"] == "chat_2"]
    second = out[out["qid"] == "other_1"]
    assert out["qanswer"].unique().tolist() == ["Ginger. Mint!", "Rooibos."]
    docno = first.sort_values("rank")["docno"].iloc[1]
    assert first["qcitations"].iloc[0] == [
        {"sentence": "Ginger.", "docnos": [docno], "unknown": []},
        {"sentence": "Mint!", "docnos": [docno], "unknown": [7]},
    ]
    assert first.loc[first["used"], "docno"].tolist() == [docno]
    assert second["qcitations"].iloc[0] == [{"sentence": "Rooibos.", "docnos": [], "unknown": []}]
    assert sorted(second.loc[second["used"], "rank"]) == [0, 1, 2]  # it cites none: what was shown
    assert ledger(llm, "dropped") == 1
    asked = texts(backend)[0]
    ikat.Respond(llm, passages=3)(results)
    plain = texts(backend)[2]
    assert asked.startswith(plain)
    assert "square brackets" in asked[len(plain) :]


def test_a_number_beyond_the_passages_of_its_turn_is_unknown():
    llm, _ = scripted("Mint [2]. Sage [3][4]. Tea [4].")
    results = found(a_turn(), 2)  # fewer than the operator shows at most
    operator = ikat.Respond(llm, passages=5, cite=True)
    out = operator(results)
    best = results.sort_values("rank")["docno"].tolist()
    assert [one["docnos"] for one in out["qcitations"].iloc[0]] == [[best[1]], [], []]
    assert [one["unknown"] for one in out["qcitations"].iloc[0]] == [[], [3, 4], [4]]
    assert ledger(llm, "dropped") == 3  # each time
    seen = operator.while_written(results)("Mint [2]. Sage [3]. Tea")
    assert seen == while_written("Mint [2]. Sage [3]. Tea", passages=2)
    assert seen != while_written("Mint [2]. Sage [3]. Tea", passages=5)


def test_a_turn_has_cited_passages_as_sources_in_text_order():
    llm, _ = scripted("Mint [3]. Ginger [1][3].", "Rooibos.")
    results = ikat.Respond(llm, passages=3, cite=True)(found(two_turns(), 4))
    one = Turn.of(1, "tea?", results[results["qid"] == "chat_2"])
    other = Turn.of(1, "tea?", results[results["qid"] == "other_1"])
    ranking = results[results["qid"] == "chat_2"].sort_values("rank")["docno"].tolist()
    assert [source.docno for source in one.sources] == [ranking[2], ranking[0]]
    assert (one.response, one.marked) == ("Mint. Ginger.", "Mint. [1] Ginger. [2][1]")
    assert (other.sources, len(other.shown), other.cites_none) == ((), 3, True)
    assert "cites none of the passages" in repr(other)
    assert Turn.read(json.loads(json.dumps(one.record()))) == one


def test_a_fallback_cites_its_own_passage_and_no_number_in_it():
    llm, _ = scripted("[1]")
    results = found(a_turn(), 2).assign(text="Ginger [2] warms. It is hot.")
    out = ikat.Respond(llm, cite=True, on_error="fallback")(results)
    assert out["qanswer"].iloc[0] == "Ginger [2] warms. It is hot."
    best = out.sort_values("rank")["docno"].iloc[0]
    assert [one["docnos"] for one in out["qcitations"].iloc[0]] == [[best], [best]]


def test_a_response_without_a_passage_has_no_citations():
    llm, _ = scripted("Ginger [1].")
    results = found(two_turns(), 1).assign(qaction=["answer", "abstain"], qaskback="")
    out = ikat.Respond(llm, cite=True)(results)
    assert out["qcitations"].tolist()[1] is None
    assert out["used"].tolist() == [True, False]


def test_the_last_stage_that_can_cite_does():
    llm, _ = scripted()
    first = ikat.Respond(llm, 3)
    last = ikat.Respond(llm, 5, words=50)
    turned = citing(first >> ikat.Interleave() >> last >> ikat.Interleave())
    assert repr(turned) == repr(
        first >> ikat.Interleave() >> ikat.Respond(llm, 5, words=50, cite=True) >> ikat.Interleave()
    )
    assert citing(turned) == turned
    assert citing(last) == ikat.Respond(llm, 5, words=50, cite=True)
    assert citing(ikat.Answer(llm)) == ikat.Answer(llm)
    recorded = ikat.Respond(ikat.llm("recorded:sample"))
    assert citing(recorded) is recorded  # nobody asked for citations when they were written


@pytest.mark.parametrize(
    ("answer", "used", "cited"),
    [
        ("Mint [2]. Sage [1][2].", ["d0", "d3"], [["d3"], ["d0", "d3"]]),
        ("Mint [2].", ["d3"], [["d3"]]),
        ("Mint [3].", ["d0", "d3"], [[]]),
        ("Mint.", ["d0", "d3"], [[]]),
    ],
)
def test_the_cited_passages_are_used_else_all_that_were_shown(answer, used, cited):
    llm, _ = scripted(answer)
    responded, _ = no_text_warnings(lambda: ikat.Respond(llm, 2, cite=True)(MIXED))
    assert sorted(responded["docno"][responded["used"]]) == used
    assert [citation["docnos"] for citation in responded["qcitations"].iloc[4]] == cited
    assert ledger(llm, "dropped") == answer.count("[3]")


def test_a_response_of_marks_alone_is_a_failure():
    llm, _ = scripted("[1]")
    with pytest.raises(ikat.IkatError, match="respond"):
        ikat.Respond(llm, cite=True)(MIXED[:2])


def test_each_sentence_and_turn_has_its_own_citations():
    frame = mixed(3).sort_values("qid", ignore_index=True)
    llm, _ = scripted("Mint [1]. Sage [3]. Tea.", "Rye [2]. Hay [2][1].")
    out = ikat.Respond(llm, 3, cite=True)(frame)
    assert used_of(out) == {
        "chat_2": ["chat_2-0", "chat_2-2"],
        "other_1": ["other_1-0", "other_1-1"],
    }
    expected = {
        "chat_2": [["chat_2-0"], ["chat_2-2"], []],
        "other_1": [["other_1-1"], ["other_1-1", "other_1-0"]],
    }
    for qid, sentences in zip(out["qid"], out["qcitations"], strict=True):
        assert [sentence["docnos"] for sentence in sentences] == expected[qid]


def test_only_shown_passages_have_numbers_while_it_is_written():
    operator = ikat.Respond(scripted()[0], 2, cite=True)
    readable = operator.while_written(found(a_turn(), 4))
    assert readable("Mint [2]. Sage [3]. Tea") == "Mint. [1] Sage. Tea"


def test_an_own_request_for_citations_is_sent(tmp_path):
    (tmp_path / "respond_cite.jinja").write_text("Cite as [n].", encoding="utf-8")
    llm, backend = scripted("Sage [1].")
    ikat.Respond(llm, cite=True, prompts=str(tmp_path))(found(a_turn(), 1))
    assert texts(backend)[0].endswith("\n\nCite as [n].")
