"""Histories that are summarised or enhanced before a rewrite reads them."""

import copy

import pandas as pd
import pytest
from fakes import scripted
from operators import CHAT, PTKB, a_turn, ledger, texts, two_turns

import pyterrier_ikat as ikat
from pyterrier_ikat.llms import StageError

G = ikat.generate


def long(letter):
    return letter * 150


def talk(turns, number="talk"):
    """The turn frames 1 to ``turns`` of a conversation with the responses aaa..., bbb..., ccc..."""
    messages = []
    frames = []
    for position in range(turns):
        messages = [*messages, {"role": "user", "content": f"Question {position + 1}?"}]
        frames.append(ikat.conversation(messages, number=number))
        messages = [*messages, {"role": "assistant", "content": long("abcdef"[position])}]
    return pd.concat(frames, ignore_index=True)


def responses(history):
    return [message["content"] for message in history if message["role"] == "assistant"]


def test_long_past_responses_but_the_last_are_replaced_once():
    llm, backend = scripted("A!", "Summary: B!")
    turns = talk(4)
    before = copy.deepcopy(turns["qhistory"].tolist())
    out = G.Summarise(llm)(turns)
    assert [responses(history) for history in out["qhistory"]] == [
        [],
        [long("a")],
        ["A!", long("b")],
        ["A!", "B!", long("c")],
    ]
    assert turns["qhistory"].tolist() == before
    assert [long("a") in text for text in texts(backend)] == [True, False]
    assert ledger(llm, "calls") == 2
    questions = [message["content"] for message in out["qhistory"][3] if message["role"] == "user"]
    assert questions == ["Question 1?", "Question 2?", "Question 3?"]


def test_a_response_goes_by_the_qid_of_its_own_turn():
    operator = G.Summarise(scripted()[0])
    assert [(request.qid, request.prompt) for request in operator.requests(talk(4))] == [
        ("talk_1", "summarise"),
        ("talk_2", "summarise"),
    ]
    plain = talk(3).iloc[[2]].drop(columns="qconversation")
    assert [request.qid for request in operator.requests(plain)] == ["talk_3_1"]


@pytest.mark.parametrize(("least", "asked"), [(150, 1), (151, 0)])
def test_only_responses_of_at_least_the_given_length_are_asked(least, asked):
    assert len(G.Summarise(scripted()[0], min_characters=least).requests(talk(3))) == asked


def test_a_response_without_summary_stays_or_is_named_by_turn():
    with pytest.raises(StageError, match=r"stage summarise: 1 request failed .*: talk_1 \("):
        G.Summarise(scripted("...")[0])(talk(3))
    llm, _ = scripted("...", "B!")
    out = G.Summarise(llm, on_error="fallback")(talk(4))
    assert responses(out["qhistory"][3]) == [long("a"), "B!", long("c")]
    assert ledger(llm, "fallbacks") == 1


def with_history(history):
    """A turn after these messages."""
    return a_turn().assign(qhistory=[history])


LATER = [
    {"role": "user", "content": "And mint?", "id": 3},
    {"role": "assistant", "content": "Mint has none. " * 20, "id": 4},
    {"role": "user", "content": "Hello?", "id": 5},
]


def test_a_summary_replaces_only_the_text_of_a_message():
    turn = with_history([*LATER[:2], *CHAT[:2]])
    out = G.Summarise(scripted("It has none.")[0])(turn)
    assert out["qhistory"].item() == [LATER[0], {**LATER[1], "content": "It has none."}, *CHAT[:2]]


@pytest.mark.parametrize(
    ("least", "asked"),
    [(5, [("chat_1", "Rooibos."), ("chat_2", "Ginger.")]), (8, [("chat_1", "Rooibos.")]), (9, [])],
)
def test_long_responses_are_asked_by_their_own_turn(least, asked):
    answers = ["Ginger.", "Sage.", "Mint."]
    messages = list(CHAT)
    for text in answers:
        messages += [{"role": "assistant", "content": text}, {"role": "user", "content": "More?"}]
    messages = messages[:-4] + messages[-2:]  # Ginger and Mint
    llm, _ = scripted()
    operator = G.Summarise(llm, least)
    frame = pd.concat([ikat.conversation(messages), ikat.conversation(messages, number="chat")])
    requests = operator.requests(frame)
    assert [request.qid for request in requests] == [qid for qid, _ in asked]
    assert operator.fallback(frame) == [text for _, text in asked]
    assert [len(text.split()) for text in operator.typical(frame)] == [40] * len(asked)
    written = operator.write(frame, [f"S{number}" for number in range(len(asked))])
    changed = [message["content"] for message in written["qhistory"].iloc[1]]
    expected = [message["content"] for message in messages[:-1]]
    for number, (_, text) in enumerate(asked):
        expected[expected.index(text)] = f"S{number}"
    assert changed == expected
    without = frame.drop(columns="qconversation").assign(qid=["x_9", "y_9"])
    assert [request.qid for request in operator.requests(without)][: len(asked)] == [
        qid.replace("chat", "x_9") for qid, _ in asked
    ]


SAID = [
    ("same", 4),
    ("Same.", 4),
    ("old_topic", 4),
    ("It continues the existing topic", 4),
    ("No, it is the same topic.", 4),
    ("Same: the user does not change it", 4),
    ("new", 2),
    ("**New topic**", 2),
    ("new_topic", 2),
    ("new or same", None),
    ("perhaps", None),
    ("I'm sorry, I can't tell.", None),
    ("This is not a new topic.", None),
    ("It isn’t new", None),
    ("It doesn't continue the same topic", None),
]
"""What a model says, and how many messages are left; None: nobody can tell."""
LONG = [
    *CHAT[:2],
    {"role": "user", "content": "And fennel?"},
    {"role": "assistant", "content": "It has none."},
    CHAT[2],
]


def long_turn():
    return ikat.conversation(LONG, PTKB)


@pytest.mark.parametrize(("said", "left"), SAID)
def test_a_new_topic_keeps_the_last_turn_and_unclear_ones_fail(said, left):
    turn = long_turn()
    llm, _ = scripted(said)
    out = G.Enhance(llm, "topic", on_error="fallback")(turn)
    assert out["qhistory"].item() == LONG[:4][-(left or 4) :]
    assert turn["qhistory"].item() == LONG[:4]
    assert out["qnewtopic"].item() is (left == 2)
    assert ledger(llm, "fallbacks") == (left is None)
    if left is None:
        with pytest.raises(ikat.IkatError, match="stage topic"):
            G.Enhance(scripted(said)[0], "topic")(turn)


def test_the_last_response_is_said_in_full_and_the_others_stay():
    turn = long_turn()
    llm, backend = scripted("Fennel tea has no caffeine.")
    out = G.Enhance(llm, "response")(turn)
    assert [message["content"] for message in out["qhistory"].item()] == [
        *("Which tea has no caffeine?", "Rooibos.", "And fennel?", "Fennel tea has no caffeine."),
    ]
    assert turn["qhistory"].item()[-1]["content"] == "It has none."
    assert "# Last reply of the system\nIt has none." in texts(backend)[0]


@pytest.mark.parametrize(
    ("form", "column", "left"),
    [
        ("response", "qhistory", LONG[:4]),
        ("summary", "qsummary", ""),
        ("guess", "qanswer", ""),
        ("preferences", "qpreferences", ""),
    ],
)
def test_a_failed_response_stays_and_other_texts_are_empty(form, column, left):
    llm, _ = scripted("")
    assert G.Enhance(llm, form, on_error="fallback")(long_turn())[column].item() == left
    assert ledger(llm, "fallbacks") == 1


@pytest.mark.parametrize("form", ["topic", "response", "summary"])
def test_a_turn_without_a_response_is_not_asked_nor_planned(form):
    llm, backend = scripted("same")
    turns = two_turns()  # only the first has a history
    assert ikat.plan({"x": G.Enhance(llm, form)}, turns).total["calls"] == 1
    out = G.Enhance(llm, form)(turns)
    assert len(backend.asked) == 1
    assert out["qhistory"].tolist()[1] == []
    no_reply = ikat.conversation([CHAT[0], CHAT[2]])
    assert G.Enhance(llm, form)(no_reply)["qhistory"].item() == [CHAT[0]]
    assert len(backend.asked) == 1


def test_a_guess_is_made_for_turns_that_go_on_with_a_topic():
    turns = two_turns().assign(qnewtopic=False)
    llm, backend = scripted("Mint helps.")
    assert G.Enhance(llm, "guess", words=7)(turns)["qanswer"].tolist() == [
        "Mint helps.",
        "",
    ]  # the other turn has no history
    (asked,) = texts(backend)
    assert "at most 7 words" in asked
    llm, backend = scripted()
    assert G.Enhance(llm, "guess")(a_turn(qnewtopic=True))["qanswer"].item() == ""
    assert backend.asked == []


def test_preferences_are_asked_of_personas_alone():
    turns = two_turns()
    llm, backend = scripted("- No chamomile")
    assert G.Enhance(llm, "preferences")(turns)["qpreferences"].tolist() == [
        "- No chamomile",
        "",
    ]
    assert len(backend.asked) == 1
    assert backend.asked[0][0]["role"] == "system"


def test_with_the_persona_the_response_before_a_new_topic_stays():
    llm, backend = scripted()
    turn = a_turn(qnewtopic=True)
    assert G.Enhance(llm, "personal_response")(turn)["qhistory"].item() == CHAT[:2]
    assert backend.asked == []
    llm, _ = scripted("Rooibos has none.")
    assert G.Enhance(llm, "response")(turn)["qhistory"].item()[1]["content"] == "Rooibos has none."


def test_a_system_message_template_counts_in_the_checksums(tmp_path):
    llm, _ = scripted()
    names = ["preferences", "preferences_system"]
    assert list(G.Enhance(llm, "preferences").prompt_checksums()) == names
    (tmp_path / "preferences_system.jinja").write_text("Be short.")
    other = G.Enhance(llm, "preferences", prompts=str(tmp_path))
    before = G.Enhance(llm, "preferences").prompt_checksums()
    after = other.prompt_checksums()
    assert [before[name] == after[name] for name in names] == [True, False]


@pytest.mark.parametrize(
    ("form", "activity"),
    [
        ("topic", "looking for a new topic"),
        ("guess", "guessing an answer"),
        ("preferences", "looking for preferences"),
    ],
)
def test_who_waits_is_told_what_is_looked_for(form, activity):
    assert G.Enhance(scripted()[0], form).doing(long_turn()) == activity


def test_preferences_are_asked_in_a_first_turn_too():
    first = ikat.conversation(CHAT[:1], PTKB)
    out = G.Enhance(scripted("- No chamomile")[0], "preferences")(first)
    assert out["qpreferences"].item() == "- No chamomile"


GREETED = [{"role": "assistant", "content": "Ask me."}]


def test_the_last_response_may_be_the_first_message():
    out = G.Enhance(scripted("Ask about tea.")[0], "response")(with_history(GREETED))
    assert out["qhistory"].item() == [{"role": "assistant", "content": "Ask about tea."}]
    llm, backend = scripted("It has none.")
    out = G.Enhance(llm, "response")(with_history(LATER))
    assert out["qhistory"].item() == [LATER[0], {**LATER[1], "content": "It has none."}, LATER[2]]
    assert "Mint has none." in texts(backend)[0]


def test_a_new_topic_keeps_what_follows_the_last_question():
    llm, _ = scripted("new topic")
    out = G.Enhance(llm, "topic")(with_history([*CHAT[:2], *LATER]))
    assert out["qhistory"].item() == [LATER[2]]


def test_a_response_before_any_question_is_shown_and_kept():
    turns = pd.concat([with_history(GREETED), with_history(LATER)]).assign(qid=["a_1", "b_2"])
    llm, backend = scripted("", "It has none.")
    operator = G.Enhance(llm, "response", on_error="fallback")
    assert operator.fallback(turns) == ["Ask me.", LATER[1]["content"]]
    out = operator(turns)
    assert out["qhistory"].tolist() == [
        GREETED,
        [LATER[0], {**LATER[1], "content": "It has none."}, LATER[2]],
    ]
    first, second = texts(backend)
    assert "Ask me." in first
    assert "Ask me." not in second


def test_an_enhanced_history_is_a_new_one():
    frame = two_turns()
    llm, _ = scripted("new topic")
    switched = G.Enhance(llm, "topic")(frame)
    assert switched["qnewtopic"].tolist() == [True, False]
    assert switched["qhistory"].tolist() == [CHAT[:2], []]
    longer = ikat.conversation([*CHAT, {"role": "assistant", "content": "Mint."}, *CHAT[:1]])
    llm, _ = scripted("new topic", "It is mint.")
    assert G.Enhance(llm, "topic")(longer)["qhistory"].item() == [
        CHAT[2],
        {"role": "assistant", "content": "Mint."},
    ]
    said = G.Enhance(llm, "response")(longer)["qhistory"].item()
    assert [message["content"] for message in said] == [
        *[message["content"] for message in CHAT],
        "It is mint.",
    ]
    assert longer["qhistory"].item()[3]["content"] == "Mint."
    new = two_turns().assign(qnewtopic=[True, None])
    asks = {"guess": 0, "summary": 1, "topic": 1, "personal_response": 0, "response": 1}
    for form, number in asks.items():
        assert len(G.Enhance(llm, form).requests(new)) == number, form
