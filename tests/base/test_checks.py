"""Checks of values and frames: each bound, each message's names, and what passes."""

import time
from datetime import date, datetime, timedelta, timezone
from pathlib import Path

import numpy as np
import pandas as pd
import pyterrier as pt
import pytest

import pyterrier_ikat as ikat
from pyterrier_ikat import names
from pyterrier_ikat.arguments import (
    REPAIRS,
    Checked,
    MissingColumnError,
    at_least,
    by_position,
    check_same_turns,
    checked_frame,
    columns_once,
    day_of,
    is_missing,
    missing_columns,
    one_of,
    utc,
)
from pyterrier_ikat.errors import DataError, UsageError
from pyterrier_ikat.search_index import SearchIndex


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


class Base(Checked):
    least = {"n": 1}
    choices = {"form": ("a", "b")}
    paths = ("folder",)

    def __init__(self, n=1, form="a", folder=None, k=3):
        self.n, self.form, self.folder, self.k = n, form, folder, k
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


def test_two_columns_of_a_name_are_refused():
    columns_once(pd.DataFrame(columns=["a", "b"]))
    twice = pd.DataFrame([[1, 2, 3, 4]], columns=["a", "b", "b", "a"])
    with pytest.raises(DataError, match="mine has several columns 'b'"):
        columns_once(twice, "mine")
    with pytest.raises(DataError, match="the frame has several columns 'b'"):
        by_position(twice.iloc[:, :3])


@pytest.mark.parametrize(
    ("index", "is_same"),
    [
        (pd.RangeIndex(2), True),
        (pd.RangeIndex(2, name="row"), False),
        (pd.RangeIndex(1, 3), False),
        (pd.RangeIndex(0, 4, 2), False),
        (pd.Index([0, 1]), False),
        (pd.Index(["a", "a"]), False),
        (pd.MultiIndex.from_tuples([(1, 2), (1, 2)]), False),
    ],
)
def test_only_a_frame_numbered_from_0_is_itself(index, is_same):
    frame = pd.DataFrame({"qid": ["1", "2"]}, index=index)
    numbered = by_position(frame)
    assert (numbered is frame) is is_same
    assert numbered.index.tolist() == [0, 1]
    assert numbered.index.name is None
    assert numbered["qid"].tolist() == ["1", "2"]


STATEMENTS = [
    ([("1", 0.5)], True),
    ((("1", 0.5), ["2", 0.1]), True),
    (np.array([("1", 0.5)], dtype=object), True),
    ([], True),
    (None, True),
    (float("nan"), True),
    ("1", False),
    ([("1",)], False),
    ([("1", 0.5, 2)], False),
    ([(1, 0.5)], False),
    (["12"], False),
    ([("1", 0.5), "2"], False),
    ({"1": 0.5}, False),
]


@pytest.mark.parametrize(("cell", "is_right"), STATEMENTS)
def test_chosen_statements_are_pairs_in_every_row(cell, is_right):
    first = [("1", 0.5)]
    cells = pd.Series([first, first, cell], dtype=object)
    frame = pd.DataFrame({"qid": ["1_1", "1_1", "1_2"], "qstatements": cells})
    frame = frame.set_axis([3, 3, 3], axis=0)
    if is_right:
        assert checked_frame("stage", frame).index.tolist() == [0, 1, 2]
        return
    with pytest.raises(DataError, match="turn 1_2 has the qstatements .*give a list of pairs"):
        checked_frame("stage", frame)
    with pytest.raises(DataError, match="row 2 has the qstatements"):
        checked_frame("stage", frame.drop(columns="qid"))


def test_what_is_no_frame_is_shown_in_the_error():
    with pytest.raises(UsageError, match=r"'stage' is given \['tea', 'milk'\]: give a DataFrame"):
        checked_frame("stage", ["tea", "milk"])


@pytest.mark.parametrize(
    ("out", "told"),
    [
        ("text", "returned no frame with qid"),
        (pd.DataFrame({"query": ["x", "y"]}), "returned no frame with qid"),
        (pd.DataFrame({"qid": ["1"]}), "got 2 rows and returned 1 row"),
        (pd.DataFrame({"qid": ["1", "2", "2"]}), "got 2 rows and returned 3 rows"),
        (pd.DataFrame({"qid": ["2", "1"]}), "other turns, or in another order"),
        (pd.DataFrame({"qid": ["1", "3"]}), "other turns, or in another order"),
    ],
)
def test_a_row_per_turn_is_the_same_turns_in_their_order(out, told):
    inp = pd.DataFrame({"qid": ["1", "2"]})
    check_same_turns("stage", inp, inp.assign(query="x"))
    with pytest.raises(DataError, match=told):
        check_same_turns("stage", inp, out)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        *((value, True) for value in (None, pd.NA, pd.NaT, float("nan"), np.float32("nan"))),
        *((value, False) for value in ("", 0, 0.0, [], "nan", False, np.float64(1), {})),
    ],
)
def test_a_cell_is_missing_only_without_a_value(value, expected):
    assert is_missing(value) is expected


class Reads(ikat.RawUtterance):
    def transform(self, inp):
        pt.validate.query_frame(inp, extra_columns=["qrewrite", "qpersonal"], context=self)
        return inp


def test_missing_columns_are_named_each_with_its_repair():
    with pytest.raises(MissingColumnError) as caught:
        Reads()(pd.DataFrame({"qid": ["1"], "query": ["x"]}))
    assert str(caught.value) == (
        f"{Reads()!r} reads qrewrite, qpersonal, which the frame lacks (it has qid, query): put "
        "ikat.Rewrite(llm) before it; add the column qpersonal"
    )
    with pytest.raises(MissingColumnError, match=r"it has no column"):
        Reads()(pd.DataFrame())


def test_one_repair_of_several_columns_stands_once():
    class Expanded(Reads):
        def transform(self, inp):
            pt.validate.query_frame(inp, extra_columns=["qid_0", "qquery"], context=self)
            return inp

    with pytest.raises(MissingColumnError) as caught:
        Expanded()(pd.DataFrame({"qid": ["1"], "query": ["x"]}))
    assert str(caught.value).count("put ikat.ExplodeQueries() before it") == 1


def test_an_error_of_another_stage_stays_as_it_is():
    with pytest.raises(pt.validate.InputValidationError) as caught:
        pt.validate.result_frame(pd.DataFrame({"qid": ["1"]}), context=ikat.RawUtterance())
    assert missing_columns(Reads(), pd.DataFrame({"qid": ["1"]}), caught.value) is caught.value


def test_passages_in_place_of_turns_are_told():
    frame = pd.DataFrame({"qid": ["1"], "query": ["x"], "docno": ["d"], "qrewrite": ["y"]})

    class OnTurns(Reads):
        def transform(self, inp):
            pt.validate.query_frame(inp, context=self)
            return inp

    class Again(OnTurns):
        on_passages = "ikat.CrossEncoder(model)"

    with pytest.raises(MissingColumnError, match=r"has passages \(docno\): put it before"):
        OnTurns()(frame)
    with pytest.raises(MissingColumnError, match=r", or take ikat.CrossEncoder\(model\), which"):
        Again()(frame)


def test_an_index_has_its_own_path_or_the_name_of_its_class():
    class Named(SearchIndex):
        """Has no path."""

    class Own(SearchIndex):
        path = "mine"

    class Later(Own):
        """Has that of its base."""

    assert (Named.path, Own.path, Later.path) == ("Named", "mine", "mine")


def test_chosen_statements_in_two_columns_are_refused_by_name():
    turns = pd.DataFrame([["1_1", [("1", 0.5)], []]], columns=["qid", *["qstatements"] * 2])
    with pytest.raises(DataError, match="several columns 'qstatements': keep one"):
        checked_frame("stage", turns)


def test_each_column_has_one_repair():
    assert REPAIRS["qrewrite"] == "put ikat.Rewrite(llm) before it"
    assert REPAIRS["rank"].startswith("put a retriever")
    assert REPAIRS["qhistory"].startswith("take the turns from dataset.get_topics()")
    assert REPAIRS["qresolved"].startswith('take the turns from dataset.get_topics("manual")')


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


def test_a_name_of_another_room_is_found_there():
    def told(module, name, known=()):
        return str(names.unknown_name(module, name, known))

    assert told("pyterrier_ikat", "StatementQueries") == (
        "pyterrier_ikat has no StatementQueries: it is in ikat.generate"
    )
    assert told("pyterrier_ikat.show", "RRF") == "pyterrier_ikat.show has no RRF: it is in ikat"
    assert told("pyterrier_ikat.generate", "Rewritee", ["Rewrite"]).endswith("mean Rewrite?")
    assert told("pyterrier_ikat", "Zebra") == (
        "pyterrier_ikat has no Zebra: dir(pyterrier_ikat) lists what it has"
    )
    assert told("pyterrier_ikat", "_private") == "_private"
    assert told("pyterrier_ikat.generate", "Rewrite", []).endswith("it is in ikat")
    own = told("pyterrier_ikat.generate", "StatementQueries", [])
    assert own.endswith("dir(pyterrier_ikat.generate) lists what it has")


def test_a_module_loads_its_names_and_refuses_others():
    loaded = []
    get = names.module_getattr("pyterrier_ikat.show", ["draw"], lambda name: loaded.append(name))
    get("draw")
    assert loaded == ["draw"]
    again = names.module_getattr("pyterrier_ikat.show", iter(["draw"]), lambda name: name)
    assert [again("draw"), again("draw")] == ["draw", "draw"]
    with pytest.raises(AttributeError, match="did you mean draw"):
        get("drwa")
    with pytest.raises(AttributeError, match="has no draw"):
        names.module_getattr("pyterrier_ikat.show", ["draw"])("draw")
    assert loaded == ["draw"]


class Few(SearchIndex):
    def __init__(self, gives, size=3):
        self.gives, self.number = gives, size

    def fingerprint(self):
        return "f"

    def docnos(self, among):
        return self.gives

    def __len__(self):
        return self.number

    def retriever(self, num_results=1000, cache=None, *, k1=0.9, b=0.4):
        return pt.Transformer.identity()


class Elsewhere(Few):
    path = "http://host"


def test_an_index_gives_only_docnos_it_was_asked_for():
    assert list(Few(["b"]).present(["a", "b"])) == ["b"]
    assert list(Few(iter(["b", "a"])).present(["a", "b"])) == ["b", "a"]
    for gives, told in [("ab", "returns str"), (None, "returns NoneType"), (["c"], "returns 'c'")]:
        with pytest.raises(UsageError, match=rf"Few.docnos\(among\) {told}"):
            list(Few(gives).present(["a", "b"]))


@pytest.mark.parametrize("size", ["3", -1, None])
def test_the_size_of_an_index_is_a_number(size):
    assert Few([]).size() == 3
    with pytest.raises(UsageError, match=r"Few.__len__\(\) fails .*the number of passages"):
        Few([], size).size()


def test_an_index_has_defaults_for_what_it_does_not_say():
    index = Few([])
    assert (index.path, Elsewhere([]).path) == ("Few", "http://host")
    assert (index.has_text, index.query_model, index.describe()) == (False, None, {})
    assert index.warm_up() is None
    with pytest.raises(UsageError, match="the index Few has no texts"):
        index.text_loader()
    index.text = pt.Transformer.identity()
    assert index.has_text
    assert index.text_loader() is index.text


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


@pytest.mark.parametrize(
    ("source", "columns"),
    [
        ("put a retriever", "docno score rank"),
        ("put a retriever over an index with texts", "text"),
        ("put ikat.Rewrite(llm) before it", "qrewrite"),
        ("put ikat.Answer(llm) before it", "qanswer"),
        ("put ikat.generate.OutlineAnswer(llm)", "qsuggestion"),
        ("put ikat.SelectStatements(llm)", "qstatements"),
        ("put ikat.Queries(llm)", "qsubqueries"),
        ("put ikat.generate.PassageQueries(llm)", "qweights"),
        ("put ikat.ExplodeQueries()", "qid_0 qquery qsub query_0"),
        ("put ikat.Samples(operator)", "qsamples"),
        ("put ikat.generate.Enhance(llm", "qsummary"),
        ("put ikat.generate.UpdatePtkb(llm)", "qlearned"),
        ("put ikat.generate.Decide(llm)", "qaction qaskback"),
        ("put ikat.Respond(llm, cite=True)", "qcitations"),
        ("take the turns from dataset.get_topics(),", "qid query qutterance qhistory qptkb"),
        ('take the turns from dataset.get_topics("manual")', "qresolved qgoldptkb"),
        ("add the column from dataset.get_answers()", "gold_answer"),
    ],
)
def test_each_column_is_had_from_its_stage_or_turns(source, columns):
    for column in columns.split():
        assert REPAIRS[column].startswith(source), column


def test_a_text_is_not_the_value_that_it_writes():
    for choices, wrong in (((None, "raise"), "None"), ((1, 2), "1")):
        with pytest.raises(UsageError, match=f"x='{wrong}' is unknown"):
            one_of(choices, x=wrong)


def test_choices_may_be_any_iterable():
    one_of(iter(["a", "b"]), first="b", second="a")
    with pytest.raises(UsageError, match="first='c' is unknown: choose one of a, b"):
        one_of(iter(["a", "b"]), first="c")


@pytest.mark.parametrize(
    ("name", "room"),
    [
        ("StatementQueries", "generate"),
        ("SearchIndex", "retrieve"),
        ("evaluate_responses", "evaluation"),
        ("plot_cost", "show"),
        ("write_run", "runs"),
        ("Resources", "study"),
        ("write_submission", "submit"),
        ("METHODS", "methods"),
    ],
)
def test_the_front_names_the_room_of_a_name(name, room):
    error = names.unknown_name("pyterrier_ikat", name, [])
    assert str(error) == f"pyterrier_ikat has no {name}: it is in ikat.{room}"
