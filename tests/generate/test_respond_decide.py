"""Whether a turn is answered, asked back or left, and what is written then."""

import json

import pandas as pd
import pyterrier as pt
import pytest
from fakes import scripted
from operators import a_turn, found, ledger, mixed, texts, two_turns

import pyterrier_ikat as ikat
from pyterrier_ikat.completions.verdicts import read_action
from pyterrier_ikat.errors import DataError
from pyterrier_ikat.generate.respond import responses_without_model
from pyterrier_ikat.llms import StageError
from pyterrier_ikat.methods import METHODS

G = ikat.generate
ASK = '{"reason": "Of which?", "action": "ask", "question": "Green or black tea?"}'
ANSWER, ABSTAIN = (
    '{"reason": "Both say so.", "action": "answer", "question": ""}',
    '{"action": "abstain", "reason": "None does."}',
)


def test_actions_and_questions_are_written_and_rows_stay():
    llm, backend = scripted(ASK, ABSTAIN)
    results = found(two_turns(), 4)
    before = results.copy()
    out = G.Decide(llm, passages=2)(results)
    assert out.drop(columns=["qaction", "qaskback"]).equals(before)
    assert results.equals(before)
    assert out["qaction"].tolist() == ["ask"] * 4 + ["abstain"] * 4
    assert out["qaskback"].tolist() == ["Green or black tea?"] * 4 + [""] * 4
    first, second = texts(backend)
    assert first.index("Passage 0 of chat_2.") < first.index("Passage 1 of chat_2.")
    assert "Passage 2 of" not in first
    for shown in ("And against a cold?", "system: Rooibos.", "I own a dog.", '"ask"'):
        assert shown in first
    assert "About the user" not in second
    assert "Conversation so far" not in second


def test_without_asking_back_none_is_offered_and_asking_fails():
    llm, backend = scripted(ANSWER)
    operator = G.Decide(llm, may_ask=False)
    assert operator(found(a_turn(), 1))["qaction"].tolist() == ["answer"]
    assert '"ask"' not in texts(backend)[0]
    assert [request.prompt for request in operator.requests(found(a_turn(), 1))] == [
        "decide_abstain"
    ]
    with pytest.raises(StageError, match=r"stage decide: 1 request failed .*chat_2"):
        G.Decide(scripted(ASK)[0], may_ask=False)(found(a_turn(), 1))


def test_a_failed_turn_is_answered_and_counted():
    llm, _ = scripted(ABSTAIN, "Rooibos has no caffeine.")
    out = G.Decide(llm, on_error="fallback")(found(two_turns(), 2))
    assert out["qaction"].tolist() == ["abstain", "abstain", "answer", "answer"]
    assert (ledger(llm, "failures"), ledger(llm, "fallbacks")) == (1, 1)


READ = {
    ANSWER: ("answer", ""),
    ABSTAIN: ("abstain", ""),
    ASK: ("ask", "Green or black tea?"),
    f"Sure:\n```json\n{ASK}\n```": ("ask", "Green or black tea?"),
    '<think>abstain?</think>{"action": "Answer"}': ("answer", ""),
    "action: abstain": ("abstain", ""),
    "**Action:** ask\n**Question:** Green or black tea?": ("ask", "Green or black tea?"),
    '{"action": "ask", "question": "Which?"': ("ask", "Which?"),
    "Abstain.": ("abstain", ""),
    " answer\n": ("answer", ""),
    "ask": None,
    '{"action": "ask", "question": ""}': None,
    '{"action": "ask", "question": ["a", "b"]}': None,
    '{"action": "ask"}': None,
    "Answer: rooibos has none.": None,
    "Answer:\nRooibos has none.": None,
    "I would ask or abstain.": None,
    '{"action": "refuse"}': None,
    '{"action": "answer or abstain"}': None,
    '{"action": true}': None,
    '{"action": "answer"} {"action": "abstain"}': None,
    "The passages answer it.": None,
    "": None,
}


@pytest.mark.parametrize(("text", "expected"), READ.items())
def test_an_action_is_read_or_nothing(text, expected):
    assert read_action(text) == expected


def three_turns():
    """Turns chat_2, other_1 and late_1."""
    late = ikat.conversation([{"role": "user", "content": "Thanks!"}], number="late")
    return pd.concat([two_turns(), late], ignore_index=True)


def test_only_turns_to_be_answered_are_asked_others_are_told():
    llm, backend = scripted("Ginger tea.", "You are welcome.")
    decided = found(three_turns(), 3).sample(frac=1, random_state=4)
    action = {"chat_2": "answer", "other_1": "abstain", "late_1": "answer"}
    decided = decided.assign(qaction=[action[qid] for qid in decided["qid"]])
    first, second = [qid for qid in decided["qid"].unique() if qid != "other_1"]
    out = ikat.Respond(llm, passages=2, abstention="Nobody knows.")(decided)
    assert out.drop(columns=["qanswer", "used"]).equals(decided.reset_index(drop=True))
    said = {first: "Ginger tea.", second: "You are welcome.", "other_1": "Nobody knows."}
    assert out["qanswer"].tolist() == [said[qid] for qid in out["qid"]]
    assert out.groupby("qid")["used"].sum().to_dict() == {"chat_2": 2, "late_1": 2, "other_1": 0}
    assert out["used"].dtype == bool
    assert len(backend.asked) == 2
    assert not any("other_1" in text for text in texts(backend))


def test_a_frame_of_which_no_turn_is_answered_asks_nothing():
    llm, backend = scripted()
    out = ikat.Respond(llm)(
        found(a_turn(qaction="ask", qaskback="Which tea?", qanswer="A draft."), 2)
    )
    assert (out["qanswer"].tolist(), out["qdraft"].tolist(), out["used"].tolist()) == (
        ["Which tea?"] * 2,
        ["A draft."] * 2,
        [False] * 2,
    )
    assert out["used"].dtype == bool
    out = ikat.Respond(llm)(found(a_turn(qaction="abstain"), 1))
    assert out["qanswer"].tolist() == ["The collection has no answer to this."]
    assert backend.asked == []
    assert ikat.Respond(scripted("Tea.")[0])(found(a_turn(qaction=None), 1))[
        "qanswer"
    ].tolist() == ["Tea."]


@pytest.mark.parametrize(
    ("columns", "word"),
    [
        ({"qaction": "refuse"}, "refuse"),
        ({"qaction": "ask"}, "qaskback"),
        ({"qaction": "ask", "qaskback": " "}, "qaskback"),
    ],
)
def test_an_action_of_your_own_that_nobody_knows_is_named(columns, word):
    with pytest.raises(DataError, match=f"turn chat_2: .*{word}"):
        ikat.Respond(scripted("Tea.")[0])(found(a_turn(**columns), 1))


def test_the_method_answers_asks_or_abstains():
    llm, _ = scripted("Which tea?", "Tea against colds?", ABSTAIN, ANSWER, "Ginger tea.")
    retriever = pt.Transformer.from_df(
        found(two_turns(), 3)[["qid", "docno", "rank", "score", "text"]]
    )
    out = METHODS["decide"].build(llm=llm, retriever=retriever)(two_turns())
    assert out.groupby("qid")["qanswer"].first().to_dict() == {
        "chat_2": "The collection has no answer to this.",
        "other_1": "Ginger tea.",
    }


def test_recorded_decisions_of_the_sample():
    llm = ikat.llm("recorded:sample")
    out = G.Decide(llm)(found(pt.get_dataset("ikat:sample").get_topics(), 1))
    asked = out[out["qaction"] != "answer"]
    assert asked[["qid", "qaction"]].values.tolist() == [["1-2_5", "ask"]]
    assert asked["qaskback"].item().startswith("Which country")
    assert json.dumps(out["qaction"].tolist()).count("answer") == 23


def test_an_action_is_written_to_each_row_of_its_turn():
    llm, _ = scripted('{"action": "ask", "question": "Which?"}', '{"action": "answer"}')
    frame = found(two_turns(), 2).iloc[[2, 0, 3, 1]]
    decided = G.Decide(llm)(frame)
    assert decided["qid"].tolist() == ["other_1", "chat_2", "other_1", "chat_2"]
    assert decided["qaction"].tolist() == ["ask", "answer", "ask", "answer"]
    assert decided["qaskback"].tolist() == ["Which?", "", "Which?", ""]


def test_responses_without_a_model_are_questions_and_abstentions():
    frame = pd.DataFrame(
        {
            "qid": ["a", "a", "b", "c", "d"],
            "qaction": ["ask", "ask", "abstain", "answer", None],
            "qaskback": ["Which?", "Which?", "Or?", "x", None],
        }
    )
    assert responses_without_model(frame, "No.") == {"a": "Which?", "b": "No."}
    assert responses_without_model(frame[["qid"]], "No.") == {}
    for action, question, part in (
        ("ask", " ", "turn a: qaction is 'ask', but qaskback has no question"),
        ("ask", None, "qaskback has no question"),
        ("ask", 5, "qaskback has no question"),
        ("stop", "", "turn a: qaction is 'stop': give one of answer, ask, abstain"),
    ):
        wrong = frame[:1].assign(qaction=action, qaskback=[question])
        with pytest.raises(DataError, match=part):
            responses_without_model(wrong, "No.")


def test_rows_of_answered_and_other_turns_stay_in_their_order():
    frame = found(two_turns(), 2).iloc[[0, 2, 1, 3]].reset_index(drop=True)
    frame = frame.assign(
        qaction=["abstain", "answer", "abstain", "answer"], qanswer=["x", "y", "x", "y"]
    )
    llm, backend = scripted("Mint [1].")
    responded = ikat.Respond(llm, abstention="No.", cite=True)(frame)
    assert responded["docno"].tolist() == frame["docno"].tolist()
    assert responded.index.tolist() == [0, 1, 2, 3]
    assert responded["qanswer"].tolist() == ["No.", "Mint.", "No.", "Mint."]
    assert responded["qdraft"].tolist() == ["x", "y", "x", "y"]
    assert responded["used"].tolist() == [False, False, False, True]
    assert [one is None for one in responded["qcitations"]] == [True, False, True, False]
    assert len(backend.asked) == 1


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
