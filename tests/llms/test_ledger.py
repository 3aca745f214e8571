"""The account: sums per stage and model, unknown stays unknown, a run can hold its own share."""

import threading
from dataclasses import fields

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyterrier_ikat.llms import Ledger, Request
from pyterrier_ikat.llms.ledger import (
    LOST_NOTE,
    UNKNOWN_NOTE,
    Entry,
    Spend,
    account_table,
    estimated_tokens,
    plus,
)

COLUMNS = [
    "stage",
    "model",
    "served",
    "calls",
    "known",
    "retries",
    "unanswered",
    "failures",
    "fallbacks",
    "dropped",
    "prompt_tokens",
    "cached_tokens",
    "completion_tokens",
    "lost_tokens",
    "seconds",
    "cost",
    "worth",
]


def test_sums_per_stage_and_model_in_order():
    ledger = Ledger()
    ledger.count("rewrite", "m", calls=1, prompt_tokens=5, seconds=0.5)
    ledger.count("answer", "m", calls=1, cost=0.25)
    ledger.count("rewrite", "m", calls=1, prompt_tokens=6, seconds=1.0)
    ledger.count("rewrite", "other", fallbacks=1)
    frame = ledger.frame()
    assert list(frame.columns) == COLUMNS
    assert frame[
        ["stage", "model", "calls", "prompt_tokens", "seconds", "cost", "fallbacks"]
    ].values.tolist() == [
        ["rewrite", "m", 2, 11, 1.5, 0.0, 0],
        ["answer", "m", 1, 0, 0.0, 0.25, 0],
        ["rewrite", "other", 0, 0, 0.0, 0.0, 1],
    ]


def test_an_empty_ledger_has_the_same_columns_and_types():
    ledger = Ledger()
    empty = ledger.frame()
    ledger.count("s", "m", calls=1)
    assert list(empty.columns) == COLUMNS
    assert empty.dtypes.to_dict() == ledger.frame().dtypes.to_dict()


def test_one_unknown_amount_makes_the_sum_unknown_and_shows_so():
    ledger = Ledger()
    ledger.count("answer", "m", prompt_tokens=5, cost=0.1)
    ledger.count("answer", "m", prompt_tokens=None, cost=None)
    row = ledger.frame().iloc[0]
    assert row["prompt_tokens"] is pd.NA
    assert row["cost"] is pd.NA
    assert row["completion_tokens"] == 0
    assert str(ledger).count("–") == ledger._repr_html_().count("–") == 3  # two cells and the note
    assert str(ledger).count("unknown") == 1
    assert "price_in= and price_out=" in str(ledger)


counts = st.lists(
    st.tuples(st.sampled_from("ab"), st.integers(0, 5), st.none() | st.integers(0, 9))
)


@given(counts, counts)
def test_parts_add_up_to_the_whole(first, second):
    whole = Ledger()
    sum_of_parts = Ledger()
    for counted in (first, second):
        part = Ledger()
        for stage, calls, tokens in counted:
            for ledger in (part, whole):
                ledger.count(stage, "m", calls=calls, prompt_tokens=tokens)
        sum_of_parts.add(part)
    pd.testing.assert_frame_equal(sum_of_parts.frame(), whole.frame())
    assert whole.total().calls == sum(calls for _, calls, _ in first + second)


SPENDS = st.builds(
    Spend,
    st.integers(0, 9),
    st.integers(0, 9),
    *[st.none() | st.integers(0, 9)] * 3,
    *[st.none() | st.just(0.25)] * 2,
)


@given(st.lists(SPENDS))
def test_a_sum_with_an_unknown_amount_is_unknown_and_never_0(spends):
    whole = sum(spends, Spend())
    for one in fields(Spend):
        amounts = [getattr(spend, one.name) for spend in spends]
        assert getattr(whole, one.name) == (None if None in amounts else sum(amounts))


def test_counting_from_many_threads_loses_nothing():
    ledger = Ledger()

    def count():
        for _ in range(500):
            ledger.count("s", "m", calls=1)

    threads = [threading.Thread(target=count) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ledger.frame()["calls"].tolist() == [4000]


def test_each_follower_counts_until_its_own_block_ends():
    ledger = Ledger()
    outer = Ledger()
    inner = Ledger()
    with ledger.followed_by(outer):
        with ledger.followed_by(inner):
            ledger.count("answer", "m", calls=1)
        ledger.count("answer", "m", calls=1)
    ledger.count("answer", "m", calls=1)
    assert [one.total().calls for one in (ledger, outer, inner)] == [3, 2, 1]


def test_each_model_that_answered_is_named_once_in_order():
    ledger = Ledger()
    whole = Ledger()
    for served in ("m-2", "m-1", "m-2", None):
        ledger.count("answer", "m", calls=1, served=served)
    ledger.count("rewrite", "m", calls=1, served="m-3")
    whole.add(ledger)
    whole.add(ledger)
    assert whole.frame()["served"].tolist() == ["m-1, m-2", "m-3"]
    assert whole.served() == {"m": ["m-1", "m-2", "m-3"]}


def test_the_table_omits_columns_in_which_nothing_is_counted():
    ledger = Ledger()
    ledger.count("answer", "m", served="m", calls=1, prompt_tokens=None, cost=None)
    ledger.count("rewrite", "m", calls=1, cost=0.5)
    titles = [column.title for column in ledger.shown().columns]
    assert titles == ["stage", "model", "calls", "tokens in", "tokens out", "seconds", "cost (USD)"]
    ledger.count("rewrite", "m", served="m-2", retries=1, lost_tokens=4, cost=None)
    titles = [column.title for column in ledger.shown().columns]
    assert titles == [
        "stage",
        "model",
        "served",
        "calls",
        "retries",
        "tokens in",
        "tokens out",
        "tokens without an answer (estimate)",
        "seconds",
        "cost (USD)",
    ]
    assert "nothing came back" in str(ledger)


def test_a_price_is_what_was_paid_and_what_was_known_before():
    both = Spend(calls=2, cost=0.5) + Spend(known=3, worth=0.25)
    assert (both.completions, both.price) == (5, 0.75)
    assert (both + Spend(worth=None)).price is None
    assert (both + Spend(completion_tokens=None)).tokens is None


def test_an_estimate_counts_all_characters_of_all_messages():
    def request(*texts):
        return Request([{"role": "user", "content": text} for text in texts], "answer", "1_1")

    assert estimated_tokens([request("a" * 5, "b" * 6), request("c" * 4)]) == 3  # 15 / 4
    assert estimated_tokens([request("a" * 16)]) == 4
    assert estimated_tokens([]) == 0


def test_a_sum_is_unknown_with_either_amount():
    assert [plus(1, 2), plus(None, 2), plus(1, None), plus(0, 0)] == [3, None, None, 0]


def test_tokens_are_those_read_and_written():
    spend = Spend(prompt_tokens=80, completion_tokens=10, calls=1, known=2, cost=1.0, worth=2.0)
    assert (spend.tokens, spend.completions, spend.price) == (90, 3, 3.0)


def test_an_entry_goes_as_it_is_to_who_follows():
    class Keeps(Ledger):
        def enter(self, entry):
            entries.append(entry)

    entries = []
    ledger = Ledger()
    with ledger.followed_by(Keeps()):
        ledger.count("answer", "m", served="m-1", key="k", answered=False, calls=1, cost=None)
        ledger.count("rewrite", "m")
    assert entries == [
        Entry("answer", "m", {"calls": 1, "cost": None}, "m-1", "k", False),
        Entry("rewrite", "m", {}, None, None, True),
    ]


def test_an_account_of_several_stages_and_models_is_summed():
    ledger = Ledger()
    whole = Ledger()
    ledger.count("answer", "m", calls=2, prompt_tokens=5, completion_tokens=3, cost=0.5)
    ledger.count("answer", "n", known=1, worth=0.25, cached_tokens=4, unanswered=1)
    ledger.count("rewrite", "m", calls=1, prompt_tokens=7, served="m-2, m-1")
    assert ledger.total() == Spend(3, 1, 12, 4, 3, 0.5, 0.25, 1)
    whole.add(ledger)
    assert whole.rows() == ledger.rows()
    assert [(row["stage"], row["model"], row["served"]) for row in whole.rows()] == [
        ("answer", "m", ""),
        ("answer", "n", ""),
        ("rewrite", "m", "m-1, m-2"),
    ]
    assert ledger.served() == {"m": ["m-1", "m-2"]}


def test_an_account_has_integers_and_floats_that_may_be_unknown():
    ledger = Ledger()
    ledger.count("answer", "m", lost_tokens=None, worth=None, seconds=2)
    kinds = ledger.frame().dtypes.astype(str).to_dict()
    floats = ("seconds", "cost", "worth")
    assert {name: kinds[name] for name in floats} == dict.fromkeys(floats, "Float64")
    assert {kinds[name] for name in COLUMNS[3:] if name not in floats} == {"Int64"}
    assert ledger.frame()[["lost_tokens", "worth"]].isna().all(axis=None)


def notes_of(notes=(), **counts):
    ledger = Ledger()
    ledger.count("answer", "m", **counts)
    ledger.count("rewrite", "m", calls=1)
    return account_table(ledger.frame(), notes, "the title")


def test_the_notes_of_an_account_say_why_a_cost_is_unknown():
    assert list(notes_of(["mine"], calls=1).notes) == ["mine"]
    unknown = notes_of(["mine"], calls=1, cost=None).notes
    assert list(unknown)[:2] == ["mine", UNKNOWN_NOTE]
    lost = notes_of(["mine"], lost_tokens=3, cost=None).notes
    assert list(lost)[:2] == ["mine", LOST_NOTE]
    assert UNKNOWN_NOTE not in lost


def test_a_printed_account_keeps_its_numbers_and_its_title():
    table = notes_of(calls=2, cost=0.5, seconds=1.25, dropped=1)
    assert table.title == "the title"
    assert list(table.frame.columns) == COLUMNS
    text = table.text()
    assert "dropped" in text
    assert "0.5000" in text
    assert "known" not in text
    assert "served" not in text


def test_who_served_is_shown_only_where_it_is_another_one():
    ledger = Ledger()
    ledger.count("answer", "m", served="m", calls=1)
    ledger.count("answer", "n", calls=1)
    assert "served" not in str(ledger)
    ledger.count("answer", "n", served="n-2")
    assert "served" in str(ledger)
    assert ledger.shown("Account").title == "Account"
    assert "n-2" in ledger._repr_html_()


def test_a_follower_is_left_also_by_an_error():
    ledger = Ledger()
    outer = Ledger()
    with pytest.raises(ZeroDivisionError), ledger.followed_by(outer):
        raise ZeroDivisionError
    ledger.count("answer", "m", calls=1)
    assert outer.rows() == []


def test_what_known_calls_would_have_cost_is_shown():
    ledger = Ledger()
    ledger.count("answer", "m", known=1, worth=None)
    assert "worth" not in [column.title for column in ledger.shown().columns]
    ledger = Ledger()
    ledger.count("answer", "m", known=1, worth=0.25)
    assert "worth" in [column.title for column in ledger.shown().columns]
    assert "0.2500" in str(ledger)
