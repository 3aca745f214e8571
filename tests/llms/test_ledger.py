"""The account: sums per stage and model, unknown stays unknown, a run can hold its own share."""

import threading
from dataclasses import fields

import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

from pyterrier_ikat.llms import Ledger
from pyterrier_ikat.llms.ledger import Spend

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
    whole, sum_of_parts = Ledger(), Ledger()
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
    threads = [
        threading.Thread(target=lambda: [ledger.count("s", "m", calls=1) for _ in range(500)])
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ledger.frame()["calls"].tolist() == [4000]


def test_each_follower_counts_until_its_own_block_ends():
    ledger, outer, inner = Ledger(), Ledger(), Ledger()
    with ledger.followed_by(outer):
        with ledger.followed_by(inner):
            ledger.count("answer", "m", calls=1)
        ledger.count("answer", "m", calls=1)
    ledger.count("answer", "m", calls=1)
    assert [one.total().calls for one in (ledger, outer, inner)] == [3, 2, 1]


def test_each_model_that_answered_is_named_once_in_order():
    ledger, whole = Ledger(), Ledger()
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
