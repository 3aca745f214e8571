"""Arguments: bounds, choices and times, and what an operator refuses when it is built."""

import math
import time
from datetime import date, datetime, timedelta, timezone
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from trust.frames import Says

import pyterrier_ikat as ikat
from pyterrier_ikat.arguments import (
    Checked,
    at_least,
    day_of,
    one_of,
    utc,
)
from pyterrier_ikat.errors import UsageError


def test_a_number_is_whole_and_not_below_its_bound():
    at_least(1, n=1, depth=None, k=np.int64(7))
    for number in (0, -1):
        with pytest.raises(UsageError, match=f"n={number}: give 1 or more"):
            at_least(1, depth=5, n=number)
    for number in (True, 2.0, "2"):
        with pytest.raises(UsageError, match=r"n=.*: give a whole number, 1 or more"):
            at_least(1, depth=None, n=number)
    with pytest.raises(UsageError, match="n=0"):
        at_least(1, depth=None, n=0)


def test_a_choice_is_one_of_a_list():
    one_of(("raise", "fallback", None), on_error=None, other="raise")
    with pytest.raises(
        UsageError, match="on_error='rais' is unknown: did you mean raise.*one of raise, None$"
    ):
        one_of(("raise", None), on_error="rais")
    with pytest.raises(UsageError, match="style=7 is unknown: choose one of gpt, llama"):
        one_of(("gpt", "llama"), form="gpt", style=7)


def test_choices_may_be_any_iterable():
    one_of(iter(["a", "b"]), first="b", second="a")
    with pytest.raises(UsageError, match="first='c' is unknown: choose one of a, b"):
        one_of(iter(["a", "b"]), first="c")


def test_a_text_is_not_the_value_that_it_writes():
    for choices, wrong in (((None, "raise"), "None"), ((1, 2), "1")):
        with pytest.raises(UsageError, match=f"x='{wrong}' is unknown"):
            one_of(choices, x=wrong)


class Base(Checked):
    least = {"n": 1}
    choices = {"form": ("a", "b")}
    paths = ("folder",)

    def __init__(self, n=1, form="a", folder=None, k=3):
        self.n = n
        self.form = form
        self.folder = folder
        self.k = k
        self.__post_init__()


class Derived(Base):
    least = {"k": 2}


def test_arguments_are_checked_by_the_tables_of_all_classes():
    assert Derived(folder=Path("x")).folder == "x"
    assert Derived().folder is None
    for wrong in ({"n": 0}, {"form": "c"}, {"k": 1}):
        [name] = wrong
        with pytest.raises(UsageError, match=f"{name}="):
            Derived(**wrong)
    assert Base(k=0).k == 0


class Two(Checked):
    least = {"n": 1, "k": 2}
    choices = {"form": ("a", "b"), "style": ("x", None)}
    paths = ("folder", "file")

    def __init__(self, n=1, k=2, form="a", style="x", folder=None, file=None):
        self.n = n
        self.k = k
        self.form = form
        self.style = style
        self.folder = folder
        self.file = file
        self.__post_init__()


def test_each_row_of_each_table_of_checks_counts():
    for wrong in ({"n": 0}, {"k": 1}, {"form": "x"}, {"style": "a"}):
        [name] = wrong
        with pytest.raises(UsageError, match=f"^{name}="):
            Two(**wrong)
    checked = Two(style=None, file=Path("b"))
    assert (checked.folder, checked.file) == (None, "b")
    both = Two(folder=Path("a"), file=Path("b"))
    assert (both.folder, both.file) == ("a", "b")


# Operators


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ikat.RRF(k=math.nan), "k=nan"),
        (lambda: ikat.BiEncoder("m", batch_size=0), "batch_size=0: give 1 or more"),
        (lambda: ikat.generate.PassageQueries(Says("x"), 5), "forms=5: give a list"),
        (lambda: ikat.plan([], pd.DataFrame()), "there is no system: give at least one"),
        (lambda: ikat.experiment(5, "ikat:sample"), "a system is a int: give"),
        (lambda: ikat.conversation([5]), "message 1 of the conversation is 5"),
        (
            lambda: ikat.conversation([{"role": "user", "content": "tea?"}], "I am vegan."),
            "ptkb='I am vegan.': give a dict",
        ),
    ],
)
def test_the_refusal_says_what_to_give(call, message):
    with pytest.raises(ikat.UsageError, match=message):
        call()


@pytest.mark.parametrize("corpus", [{"docno": "d", "text": "t"}, "passages.jsonl", 5, None])
def test_a_corpus_is_an_iterable_of_dicts(corpus, tmp_path):
    with pytest.raises(ikat.UsageError, match="the corpus is a .*: give dicts with docno and text"):
        ikat.PassageIndex(tmp_path / "i").index(corpus)
    with pytest.raises(ikat.DataError, match="passage 1 of the corpus is 'd1': give a dict"):
        ikat.PassageIndex(tmp_path / "j").index(["d1"])
    assert not (tmp_path / "i").exists()


def test_a_mistyped_value_of_a_set_is_named():
    with pytest.raises(
        ikat.UsageError,
        match=r"style='lama' is unknown: did you mean llama\? choose one of gpt, llama",
    ):
        ikat.Rewrite(Says("x"), style="lama")


# Times


@pytest.mark.parametrize(
    ("when", "moment", "day"),
    [
        ("2024-05-02", "2024-05-02T00:00:00.000Z", "Thursday, 2024-05-02"),
        (date(2024, 5, 12), "2024-05-12T00:00:00.000Z", "Sunday, 2024-05-12"),
        ("2024-05-02T10:30Z", "2024-05-02T10:30:00.000Z", "Thursday, 2024-05-02"),
        ("2024-05-02T23:30-05:00", "2024-05-03T04:30:00.000Z", "Thursday, 2024-05-02"),
        (datetime(2024, 5, 6, 1, 2, 3, 456789), "2024-05-06T01:02:03.456Z", "Monday, 2024-05-06"),
        (
            datetime(2024, 5, 6, 1, tzinfo=timezone(timedelta(hours=2))),
            "2024-05-05T23:00:00.000Z",
            "Monday, 2024-05-06",
        ),
    ],
)
def test_a_time_is_utc_in_events_and_a_day_in_its_own_zone(when, moment, day):
    assert utc(when) == moment
    assert day_of(when) == day


@pytest.mark.parametrize("when", ["yesterday", 7, "2024-13-01", ""])
def test_what_is_no_time_is_refused(when):
    for read in (utc, day_of):
        with pytest.raises(UsageError, match="is not a time"):
            read(when)


def test_without_a_time_it_is_now():
    before = datetime.now(timezone.utc) - timedelta(milliseconds=1)
    now = datetime.fromisoformat(utc(None).replace("Z", "+00:00"))
    assert before <= now <= datetime.now(timezone.utc)
    assert day_of(None).endswith(str(datetime.now().date()))


@pytest.mark.skipif(not hasattr(time, "tzset"), reason="Windows has no tzset")
def test_times_are_those_of_this_computers_zone_for_now_alone(monkeypatch):
    monkeypatch.setenv("TZ", "Etc/GMT+11")
    time.tzset()
    try:
        assert utc("2024-05-02T10:30") == "2024-05-02T10:30:00.000Z"
        now = datetime.fromisoformat(utc(None).replace("Z", "+00:00"))
        assert abs(now - datetime.now(timezone.utc)) < timedelta(seconds=30)
        here = timezone(timedelta(hours=-11))
        days = {str(datetime.now(here).date()), day_of(None).partition(", ")[2]}
        assert len(days) == 1
    finally:
        monkeypatch.undo()
        time.tzset()
