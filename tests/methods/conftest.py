"""The turn of the methods that draw samples, and the model that they ask."""

import pytest
from methods.sampled import CHAT, PTKB, Draws, both

import pyterrier_ikat as ikat


@pytest.fixture
def turn():
    return ikat.conversation(CHAT, PTKB, number="9-1")


@pytest.fixture
def model():
    return Draws(
        rewrite_and_answer=both(
            ("oats", "Eat oats"),
            ("nuts", "Eat nuts"),
            ("oats", "Take bread"),
            ("figs", "Buy figs"),
            ("oats", "Eat"),
        ),
        answer=["Rye", "Oats too", "Rye", "Spelt", "Rice"],
        topic_switch="same",
        rewrite_short="What does a vegan eat on a walk",
        expand_response="There are walks in the hills.",
        summarise_history="It was about walks.",
        rewrite_enhanced=["vegan walk food", "hill food", "vegan walk food", "food", "hills"],
        rewrite_clear="What does a vegan eat on a walk in the hills?",
        guess_answer="Walkers like nuts.",
        expand_response_personal="One walks in the hills.",
        preferences="- Eats no meat",
        rewrite_personal=["vegan walk food", "hill food", "vegan walk food", "food", "hills"],
    )
