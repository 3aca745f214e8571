"""CHIQ's enhancements of the history, worked out by hand."""

import pytest
from fakes import scripted
from operators import CHAT, PTKB, a_turn, ledger, texts, two_turns

import pyterrier_ikat as ikat

LONG = [
    *CHAT[:2],
    {"role": "user", "content": "And fennel?"},
    {"role": "assistant", "content": "It has none."},
    CHAT[2],
]


def long_turn():
    return ikat.conversation(LONG, PTKB)


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


@pytest.mark.parametrize(("said", "left"), SAID)
def test_a_new_topic_keeps_the_last_turn_and_unclear_ones_fail(said, left):
    turn = long_turn()
    llm, _ = scripted(said)
    out = ikat.generate.Enhance(llm, "topic", on_error="fallback")(turn)
    assert out["qhistory"].item() == LONG[:4][-(left or 4) :]
    assert turn["qhistory"].item() == LONG[:4]
    assert out["qnewtopic"].item() is (left == 2)
    assert ledger(llm, "fallbacks") == (left is None)
    if left is None:
        with pytest.raises(ikat.IkatError, match="stage topic"):
            ikat.generate.Enhance(scripted(said)[0], "topic")(turn)


def test_the_last_response_is_said_in_full_and_the_others_stay():
    turn = long_turn()
    llm, backend = scripted("Fennel tea has no caffeine.")
    out = ikat.generate.Enhance(llm, "response")(turn)
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
    assert ikat.generate.Enhance(llm, form, on_error="fallback")(long_turn())[column].item() == left
    assert ledger(llm, "fallbacks") == 1


@pytest.mark.parametrize("form", ["topic", "response", "summary"])
def test_a_turn_without_a_response_is_not_asked_nor_planned(form):
    llm, backend = scripted("same")
    turns = two_turns()  # only the first has a history
    assert ikat.plan({"x": ikat.generate.Enhance(llm, form)}, turns).total["calls"] == 1
    out = ikat.generate.Enhance(llm, form)(turns)
    assert len(backend.asked) == 1
    assert out["qhistory"].tolist()[1] == []
    no_reply = ikat.conversation([CHAT[0], CHAT[2]])
    assert ikat.generate.Enhance(llm, form)(no_reply)["qhistory"].item() == [CHAT[0]]
    assert len(backend.asked) == 1


def test_enhanced_rewrite_sees_summary_clear_question_and_guess():
    llm, backend = scripted("They spoke about rooibos.", "rooibos against a cold")
    turn = a_turn(qrewrite="Does rooibos help against a cold?", qanswer="It may soothe the throat.")
    out = (
        ikat.generate.Enhance(llm, "summary") >> ikat.Rewrite(llm, "enhanced", question="qrewrite")
    )(turn)
    shown = texts(backend)[1]
    assert out["query"].item() == out["qrewrite"].item() == "rooibos against a cold"
    assert "# Conversation so far\nThey spoke about rooibos.\n" in shown
    assert "# Question\nDoes rooibos help against a cold?" in shown
    assert "# Guess at the answer\nIt may soothe the throat." in shown
    assert "Which tea has no caffeine?" not in shown


def test_without_a_summary_the_enhanced_rewrite_sees_the_history():
    llm, backend = scripted("a", "b")
    for columns in ({}, {"qsummary": ""}):
        ikat.Rewrite(llm, "enhanced", question="qrewrite")(
            a_turn(qrewrite="Clear?", qanswer="Guess.", **columns)
        )
    assert all(
        "user: Which tea has no caffeine?\nsystem: Rooibos." in text for text in texts(backend)
    )


def test_a_guess_is_made_for_turns_that_go_on_with_a_topic():
    turns = two_turns().assign(qnewtopic=False)
    llm, backend = scripted("Mint helps.")
    assert ikat.generate.Enhance(llm, "guess", words=7)(turns)["qanswer"].tolist() == [
        "Mint helps.",
        "",
    ]  # the other turn has no history
    (asked,) = texts(backend)
    assert "at most 7 words" in asked
    llm, backend = scripted()
    assert ikat.generate.Enhance(llm, "guess")(a_turn(qnewtopic=True))["qanswer"].item() == ""
    assert backend.asked == []


def test_preferences_are_asked_of_personas_alone():
    turns = two_turns()
    llm, backend = scripted("- No chamomile")
    assert ikat.generate.Enhance(llm, "preferences")(turns)["qpreferences"].tolist() == [
        "- No chamomile",
        "",
    ]
    assert len(backend.asked) == 1
    assert backend.asked[0][0]["role"] == "system"


def test_with_the_persona_the_response_before_a_new_topic_stays():
    llm, backend = scripted()
    turn = a_turn(qnewtopic=True)
    assert ikat.generate.Enhance(llm, "personal_response")(turn)["qhistory"].item() == CHAT[:2]
    assert backend.asked == []
    llm, _ = scripted("Rooibos has none.")
    assert (
        ikat.generate.Enhance(llm, "response")(turn)["qhistory"].item()[1]["content"]
        == "Rooibos has none."
    )


def test_a_system_message_template_counts_in_the_checksums(tmp_path):
    llm, _ = scripted()
    names = ["preferences", "preferences_system"]
    assert list(ikat.generate.Enhance(llm, "preferences").prompt_checksums()) == names
    (tmp_path / "preferences_system.jinja").write_text("Be short.")
    other = ikat.generate.Enhance(llm, "preferences", prompts=str(tmp_path))
    before = ikat.generate.Enhance(llm, "preferences").prompt_checksums()
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
    assert ikat.generate.Enhance(scripted()[0], form).doing(long_turn()) == activity


def test_preferences_are_asked_in_a_first_turn_too():
    first = ikat.conversation(CHAT[:1], PTKB)
    out = ikat.generate.Enhance(scripted("- No chamomile")[0], "preferences")(first)
    assert out["qpreferences"].item() == "- No chamomile"
