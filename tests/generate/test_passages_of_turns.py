"""Operators that read passages, for several turns at once, and what their plans count."""

import numpy as np
import pyterrier as pt
import pytest
from fakes import ByPrompt, scripted
from operators import CHAT, Watch, a_turn, claims, found, ledger, texts, two_turns

import pyterrier_ikat as ikat
from pyterrier_ikat.errors import DataError
from pyterrier_ikat.events import observed, observed_by
from pyterrier_ikat.generate.respond import NoTextWarning
from pyterrier_ikat.planning import Plan

G = ikat.generate


def mixed(count, **columns):
    """Passages of two turns, the turns' rows in turn, best first; the second's ranks are higher."""
    frame = found(two_turns(), count).sort_values(["rank", "qid"]).reset_index(drop=True)
    frame["rank"] += np.where(frame["qid"] == "other_1", 10, 0)
    return frame.assign(**columns)


def used_of(frame):
    """The used passages of each turn."""
    docnos = {}
    for qid, rows in frame.groupby("qid", sort=False):
        docnos[qid] = rows.loc[rows["used"], "docno"].tolist()
    return docnos


def test_each_turn_is_read_up_to_its_own_threshold():
    scores = {"chat_2": [0.1, 0.9, 0.2, 0.9, 0.9], "other_1": [0.1, 0.9, 0.9, 0.9, 0.1]}
    frame = mixed(5)
    for qid, of_turn in scores.items():
        frame.loc[frame["qid"] == qid, "score"] = of_turn
    model = ByPrompt(condense_passages="Sum.")
    out = G.Condense(model.llm, 3, direct=1, threshold=0.3)(frame)
    assert used_of(out) == {
        "chat_2": ["chat_2-0", "chat_2-1"],
        "other_1": ["other_1-0", "other_1-1", "other_1-2"],
    }
    asked = [(request.qid, request.item) for request in model.asked]
    assert asked == [("chat_2", "1"), ("other_1", "1")]
    shown = str(model.asked[1].messages)
    numbers = [number for number in range(4) if f"Passage {number} of other_1" in shown]
    assert numbers == [1, 2]
    assert out["qpassages"].tolist() == [
        [f"Passage 0 of {qid}. More.", "Sum."] for qid in frame["qid"]
    ]


@pytest.mark.parametrize(
    ("make", "columns"),
    [
        (G.Condense, {"qpassages", "used"}),
        (lambda llm: ikat.BestResponse([ikat.Respond(llm)] * 2, llm), {"qanswer", "qresponder"}),
    ],
    ids=["condense", "best"],
)
def test_no_passage_of_any_turn_asks_nothing(make, columns):
    llm, backend = scripted()
    out = make(llm)(found(a_turn(), 1)[:0])
    assert len(out) == 0
    assert columns <= set(out.columns)
    assert backend.asked == []


@pytest.mark.parametrize("make", [G.Decide, G.Condense, ikat.Respond])
def test_a_frame_without_ranks_is_refused(make):
    with pytest.raises(pt.validate.InputValidationError, match="rank"):
        make(scripted()[0])(found(a_turn(), 1).drop(columns="rank"))
    frame = found(two_turns(), 1).astype({"rank": float})
    frame["rank"] = np.nan
    with pytest.raises(DataError, match="a passage of turn chat_2 has no rank"):
        make(scripted()[0])(frame)


def test_an_empty_passage_of_two_turns_is_told_once():
    frame = mixed(2).sort_values("rank", ignore_index=True)
    frame["docno"] = frame["docno"].str[-2:]
    frame.loc[frame["docno"] == "-0", "text"] = ""
    with pytest.warns(NoTextWarning, match=r"1 passage with an empty text \(-0\)"):
        ikat.Respond(scripted("a", "b")[0])(frame)


def test_each_turn_is_answered_from_its_own_summaries():
    frame = mixed(2)
    frame["qpassages"] = [[f"Sum of {qid}."] for qid in frame["qid"]]
    frame = frame.sort_values("qid", ignore_index=True).assign(used=[True, False, True, True])
    llm, backend = scripted("a", "b")
    out = ikat.Respond(llm, form="condensed")(frame)
    first, second = texts(backend)
    assert "Sum of chat_2." in first
    assert "Sum of other_1." not in first
    assert "Sum of other_1." in second
    assert "Sum of chat_2." not in second
    assert out["used"].tolist() == [True, False, True, True]


def test_passages_used_before_do_not_matter_to_a_response():
    frame = found(a_turn(), 3).assign(used=[True, False, False])
    llm, backend = scripted("Mint [1].")
    out = ikat.Respond(llm, 2)(frame)
    assert out["used"].tolist() == [False, True, True]
    assert "Passage 2" not in texts(backend)[0]
    assert out["qanswer"].unique().tolist() == ["Mint [1]."]  # no citation was asked for


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


@pytest.mark.parametrize("answers", [("One.", "One two three four."), ("One two three four", "a")])
def test_observers_learn_if_any_response_is_shortened(answers):
    watch = Watch()
    with observed_by(watch):
        ikat.Respond(scripted(*answers)[0], words=3)(found(two_turns(), 1))
    assert watch.limits == [3]


@pytest.mark.parametrize(
    ("text", "cite", "limits"),
    [
        ("One two three", False, []),
        ("One two three four", False, [3]),
        ("One two three [1]. ", True, []),
        ("One two three [1]. Four", True, [3]),
    ],
)
def test_observers_learn_of_the_limit_while_it_is_written(text, cite, limits):
    watch = Watch()
    frame = found(a_turn(), 2)
    operator = ikat.Respond(scripted()[0], words=3, cite=cite)

    def write():
        operator.while_written(frame)(text)
        return frame

    with observed_by(watch):
        observed(operator, frame, write)
    assert watch.limits == limits


def test_only_shown_passages_have_numbers_while_it_is_written():
    operator = ikat.Respond(scripted()[0], 2, cite=True)
    readable = operator.while_written(found(a_turn(), 4))
    assert readable("Mint [2]. Sage [3]. Tea") == "Mint. [1] Sage. Tea"


def test_the_fallback_is_a_passage_without_its_margins():
    frame = found(a_turn(), 1).assign(text="\n  Mint helps. ")
    llm, _ = scripted("")
    out = ikat.Respond(llm, on_error="fallback")(frame)
    assert out["qanswer"].item() == "Mint helps."


def planned(operator, fewer=False):
    plan = Plan("mine", set())
    plan.fewer_passages = fewer
    operator.plan(two_turns(), plan)
    return plan.rows


def test_a_plan_counts_the_passages_that_are_shown():
    llm = scripted()[0]
    responders = [ikat.Respond(llm)] * 2
    for make in (
        lambda count: G.Decide(llm, count),
        lambda count: ikat.Respond(llm, count),
        lambda count: ikat.BestResponse(responders, scripted()[0], count),
    ):
        tokens = {}
        for count in (1, 2, 8):
            tokens[count] = planned(make(count))[-1]["prompt_tokens"]
        of_a_passage = tokens[2] - tokens[1]
        assert of_a_passage > 300  # two turns, and 150 words a passage
        assert abs(tokens[8] - tokens[2] - 6 * of_a_passage) < 20


def test_fewer_passages_before_mean_fewer_summaries():
    operator = G.Condense(scripted()[0])
    assert [row["stage"] for row in planned(operator)] == ["condense"]
    assert [row["stage"] for row in planned(operator, True)] == ["condense, at most"]


def test_each_responder_begins_with_the_same_turns_in_a_plan():
    llm = scripted()[0]
    twice = G.AppendQuery(G.QueryColumn("query")) >> ikat.Respond(llm, question="query")
    rows = planned(ikat.BestResponse([twice, twice], scripted()[0]))
    assert [(row["stage"], row["calls"], row["shared"]) for row in rows] == [
        ("respond", 2, 0),
        ("respond", 2, 2),
        ("best_response", 4, 0),
    ]


def test_a_responder_that_changes_its_input_disturbs_no_other():
    seen = []

    def respond(rows):
        seen.append(rows["text"].tolist())
        rows["text"] = "changed"
        return rows.assign(qanswer=f"Answer {len(seen)}.")

    judge, backend = scripted(claims(False), claims(True))
    frame = found(a_turn(), 2)
    out = ikat.BestResponse([pt.apply.generic(respond)] * 2, judge)(frame)
    assert seen == [frame["text"].tolist()] * 2
    assert out["qanswer"].tolist() == ["Answer 2."] * 2
    assert len(texts(backend)) == 2
    assert "changed" not in "".join(texts(backend))


def test_each_turn_keeps_its_best_response_and_its_columns():
    answers = [("Mint.", "Rye."), ("Sage.", "Oat tea.")]
    responders = [ikat.Respond(scripted(*each)[0], 1) for each in answers]
    responders[1] = responders[1] >> pt.apply.generic(lambda rows: rows.assign(mark="second"))
    judge, backend = scripted(claims(True), claims(False), claims(True, False), claims(True))
    frame = mixed(2)
    out = ikat.BestResponse(responders, judge)(frame)
    assert out["qanswer"].tolist() == ["Mint.", "Oat tea."] * 2
    assert out["qresponder"].tolist() == [0, 1] * 2
    assert out["mark"].fillna("").tolist() == ["", "second"] * 2
    assert out["docno"].tolist() == frame["docno"].tolist()
    judged = ["Mint.", "Sage.", "Rye.", "Oat tea."]
    for response, prompt in zip(judged, texts(backend), strict=True):
        assert [other for other in judged if other in prompt] == [response]
    of_chat = [CHAT[2]["content"] in prompt for prompt in texts(backend)]
    assert of_chat == [True, True, False, False]


def test_decisions_of_two_turns_are_counted_and_written():
    llm, _ = scripted('{"action": "ask", "question": "Which?"}', '{"action": "abstain"}')
    decided = G.Decide(llm)(mixed(2))
    assert decided["qaction"].tolist() == ["ask", "abstain"] * 2
    assert decided["qaskback"].tolist() == ["Which?", ""] * 2
    silent, _ = scripted()
    out = ikat.Respond(silent, cite=True, abstention="No.")(decided)
    assert out["qanswer"].tolist() == ["Which?", "No."] * 2
    assert out["qcitations"].tolist() == [None] * 4
    assert not out["used"].any()
    assert ledger(silent, "calls") == 0
    assert decided.equals(out[decided.columns])
