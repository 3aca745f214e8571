"""Completions that decline, and such as only sound like it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyterrier_ikat.completions.statements import read_copies
from pyterrier_ikat.completions.texts import parse_passage, parse_queries, parse_rewrite
from pyterrier_ikat.completions.usable import LONGEST_REFUSAL, is_refusal, usable_text

REFUSALS = [
    "I'm sorry, I cannot help with that.",
    "I’m sorry, but I can’t assist with that request.",
    "I can't assist with that.",
    "I can't assist...",
    "As an AI language model, I cannot provide medical advice.",
    "As an AI, I don't have personal preferences.",
    "I'm sorry, but as an AI language model, I cannot rewrite this query.",
    "I cannot fulfill this request.",
    "I'm unable to help with that request.",
    "I am not able to provide that information.",
    "Sorry, I can't do that.",
    "I'm sorry. I can't help with that.",
    "I'm sorry, but I can't help with that. Is there anything else I can help you with?",
    "I apologize, but I cannot generate this content.",
    "Unfortunately, I cannot answer that question, but I'd be happy to help with something else.",
    "I'm sorry, but I can't.",
    "I won't be able to help with that.",
    "I must decline to answer this question.",
    '"I cannot help with that."',
    "I'm really sorry, but I can't help with that.",
]
ANSWERS = [
    "I'm sorry, but rooibos has no caffeine, so it does not help you stay awake.",
    "I cannot help my dog with its allergy. What food is safe?",
    "What can I do if I can't help with that?",
    "I can't help biting my nails, how do I stop",
    "I can't provide medical advice, but rooibos is free of caffeine.",
    "I can't provide medical advice. Rooibos is free of caffeine.",
    "Sorry, no.",
    "As an AI language model, I cannot taste tea, but many people like rooibos.",
    "I'm sorry, I cannot find this in the passages.",
    "I can't write by hand",
    "Sorry to hear that. Ginger helps against a cold.",
    "",
    "Is there a tea that can't help with sleep?",
    "As an AI researcher, I do not know which GPU to buy.",
    "I cannot do push-ups, which exercises suit me?",
    "How to write I'm sorry I cannot help with that",
    "Es tut mir leid, aber Rooibos enthält kein Koffein.",
    "Lo siento, pero el rooibos no tiene cafeína.",
    "Leider kann ich meinem Hund nicht helfen.",
    "Helaas kan ik mijn hond niet helpen.",
    "Je ne peux pas dormir, que faire ?",
    "Je ne peux pas répondre au téléphone en conduisant",
    "Lo siento, no puedo ayudarte con eso. El rooibos no tiene cafeína.",
    "Ich kann diese Frage nicht beantworten: Welcher Tee hat kein Koffein?",
    "Non posso mangiare noci",
    "Não posso comer nozes",
    "Ik kan niet helpen met de afwas",
    "我无法入睡怎么办",
    "我不能吃坚果",
    "眠れません",
    "お手伝いできますか",
    "We cannot help with homework policies at schools in Oslo: see the rules.",
    "Unfortunately, rooibos cannot help with that.",
    "I'm sorry, but rooibos has no caffeine, so it will not keep you awake.",
]


@pytest.mark.parametrize("text", REFUSALS)
def test_what_only_declines_is_nothing_said(text):
    assert is_refusal(text)
    assert usable_text(f"<think>no</think>\n{text}") == ""
    assert [parse_rewrite(text), parse_passage(text)] == [""] * 2
    assert parse_queries(text) == []
    assert read_copies(text) is None


@pytest.mark.parametrize("text", ANSWERS)
def test_what_says_something_is_no_refusal(text):
    assert not is_refusal(text)
    assert usable_text(text) == text


def test_a_long_text_is_no_refusal():
    refusal = "I cannot help with that request"
    assert is_refusal(refusal + " and so on" * 20)
    assert len(refusal + " and so on" * 30) > LONGEST_REFUSAL
    assert not is_refusal(refusal + " and so on" * 30)


@given(st.text())
def test_any_text_behind_a_refusal_and_a_fact_is_kept(text):
    said = f"I cannot help with that request. Rooibos has no caffeine. {text}"
    assert not is_refusal(said)
