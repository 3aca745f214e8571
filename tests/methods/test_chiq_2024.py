"""CHIQ-AD by hand: the enhanced history and its rewrite."""

from fakes import ByPrompt
from methods.sampled import CHAT, PTKB, Search, prompts, shown

import pyterrier_ikat as ikat
from pyterrier_ikat.methods import chiq_ad


def chiq_model():
    return ByPrompt(
        topic_switch="new",
        rewrite_short="What does a vegan eat on a walk?",
        expand_response="There are walks in the hills.",
        answer="Oats.",
        summarise_history="It was about walks.",
        rewrite_enhanced="vegan walk food",
    )


def test_chiq_enhances_the_history_and_then_rewrites(turn):
    model = chiq_model()
    search = Search()
    chiq_ad(model.llm, search)(turn)
    assert prompts(model) == [
        "topic_switch",
        "rewrite_short",
        "expand_response",
        "answer",
        "summarise_history",
        "rewrite_enhanced",
    ]
    assert search.queries == ["vegan walk food"]
    assert "at most 30 words" in shown(model, "answer")
    assert "system: There are walks in the hills." in shown(model, "summarise_history")
    assert "It was about walks." in shown(model, "rewrite_enhanced")


def test_chiq_without_summary_and_with_the_guess_in_the_query(turn):
    model = chiq_model()
    search = Search()
    chiq_ad(model.llm, search, summarise=False, append=True)(turn)
    assert "summarise_history" not in prompts(model)
    assert "system: There are walks in the hills." in shown(model, "rewrite_enhanced")
    assert search.queries == ["vegan walk food Oats."]


def test_chiq_asks_a_first_turn_three_times():
    model = chiq_model()
    first = ikat.conversation(CHAT[:1], PTKB)
    system = chiq_ad(model.llm, Search())
    assert ikat.plan({"x": system}, first).total["calls"] == 3
    system(first)
    assert prompts(model) == ["rewrite_short", "answer", "rewrite_enhanced"]
