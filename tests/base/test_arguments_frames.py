"""Frames that operators get: odd ones, columns that are missing or there twice, cells."""

import numpy as np
import pandas as pd
import pyterrier as pt
import pytest
from small_operators import TURNS
from trust.frames import (
    EVERY,
    NEEDED,
    Says,
    Words,
    needed,
    one_turn,
    one_turn_expanded,
    one_turn_found,
)

import pyterrier_ikat as ikat
from pyterrier_ikat.arguments import (
    REPAIRS,
    MissingColumnError,
    by_position,
    check_same_turns,
    checked_frame,
    columns_once,
    is_missing,
    missing_columns,
)
from pyterrier_ikat.errors import DataError, UsageError
from pyterrier_ikat.operator import Operator


def test_two_columns_of_a_name_are_refused():
    columns_once(pd.DataFrame(columns=["a", "b"]))
    twice = pd.DataFrame([[1, 2, 3, 4]], columns=["a", "b", "b", "a"])
    with pytest.raises(DataError, match="mine has several columns 'b'"):
        columns_once(twice, "mine")
    with pytest.raises(DataError, match="the frame has several columns 'b'"):
        by_position(twice.iloc[:, :3])


def twice(frame, name):
    return pd.concat([frame, frame[[name]]], axis=1)


@pytest.mark.parametrize("name", ["qid", "query"])
@pytest.mark.parametrize(
    "call",
    [
        lambda turns, index: index.bm25()(turns),
        lambda turns, index: ikat.Rewrite("recorded:sample")(turns),
        lambda turns, index: ikat.experiment(
            {"a": index.bm25()},
            topics=turns,
            qrels=pd.DataFrame({"qid": ["1_1"], "docno": "d1", "label": 1}),
        ),
        lambda turns, index: ikat.plan({"a": index.bm25()}, topics=turns),
    ],
)
def test_a_column_that_occurs_twice_is_refused_by_name(call, name, tea_index):
    with pytest.raises(ikat.DataError, match=f"has several columns '{name}': keep one"):
        call(twice(TURNS, name), tea_index)


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


def test_what_is_no_frame_is_shown_in_the_error():
    with pytest.raises(UsageError, match=r"'stage' is given \['tea', 'milk'\]: give a DataFrame"):
        checked_frame("stage", ["tea", "milk"])


TURN = one_turn()


def with_cells(frame, name, value):
    return frame.assign(**{name: pd.Series([value] * len(frame), index=frame.index, dtype=object)})


ODD_TURNS = {
    "reads qid, which the frame lacks .*: take the turns from dataset.get_topics": TURN.set_index(
        "qid"
    ),
    "is given None: give a DataFrame": None,
    "is given 'tea': give a DataFrame": "tea",
}


@pytest.mark.parametrize("message", ODD_TURNS)
@pytest.mark.parametrize(
    "operator",
    [ikat.RawUtterance(), ikat.Answer(Says("tea")), ikat.MultiQuery(Says("tea"))],
    ids=str,
)
def test_an_odd_frame_is_one_line(operator, message):
    with pytest.raises(ikat.IkatError, match=message) as caught:
        operator.transform(ODD_TURNS[message])
    assert "\n" not in str(caught.value)


def test_frames_of_parquet_files_and_of_categories_are_taken():
    statements = np.array([np.array(["1", 0.5], dtype=object)], dtype=object)
    frame = with_cells(one_turn(), "qstatements", [*statements]).assign(
        qid=pd.Series(["9-1_1"], dtype="category")
    )
    assert ikat.generate.AppendStatements()(frame)["query"].tolist() == ["Which tea? I like mint."]
    assert ikat.RRF()(one_turn_expanded().assign(qsub=0.0))["qid"].tolist() == ["9-1_1"] * 2


# Cells


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, True),
        (pd.NA, True),
        (pd.NaT, True),
        (float("nan"), True),
        (np.float32("nan"), True),
        ("", False),
        (0, False),
        (0.0, False),
        ([], False),
        ("nan", False),
        (False, False),
        (np.float64(1), False),
        ({}, False),
    ],
)
def test_a_cell_is_missing_only_without_a_value(value, expected):
    assert is_missing(value) is expected


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


def test_chosen_statements_in_two_columns_are_refused_by_name():
    turns = pd.DataFrame([["1_1", [("1", 0.5)], []]], columns=["qid", *["qstatements"] * 2])
    with pytest.raises(DataError, match="several columns 'qstatements': keep one"):
        checked_frame("stage", turns)


def test_chosen_statements_may_be_pairs_of_any_sequence():
    pairs = [np.array(["1", 0.5], dtype=object), ["2", 0.25], ("3", 0.1)]
    frame = TURNS.assign(qstatements=pd.Series([pairs, tuple(pairs)], dtype=object))
    assert checked_frame("stage", frame).equals(frame)
    wrong = [*pairs, np.array([4, 0.5], dtype=object)]
    frame = TURNS.assign(qstatements=pd.Series([pairs, wrong], dtype=object))
    with pytest.raises(DataError, match="turn 1_2 has the qstatements"):
        checked_frame("stage", frame)


@pytest.mark.parametrize(
    "value", ["12", ["1"], [("1", 0.5, 3)], 5, {"1": 0.5}, ["12"], [(1, 0.5)]], ids=repr
)
@pytest.mark.parametrize(
    "make",
    [
        ikat.generate.StatementQueries,
        ikat.generate.PassageQueries,
        lambda llm: ikat.generate.AppendStatements(),
    ],
)
def test_misshaped_statements_are_named_before_anything_is_asked(make, value):
    says = Says("tea")
    with pytest.raises(
        ikat.DataError,
        match=r"turn 9-1_1 has the qstatements .*: give a list of pairs of id and score",
    ):
        make(says).transform(with_cells(TURN, "qstatements", value))
    assert not says.asked


HISTORIES = [
    "Hi",
    ["Hi"],
    {"role": "user", "content": "Hi"},
    [{"role": "user"}],
    [{"user": "Hi"}],
    [["user", "Hi"]],
    5,
    [{"role": "user", "content": 5}],
    [{"role": "human", "content": "Hi"}],
]

READERS = [
    ikat.Answer,
    ikat.Rewrite,
    ikat.generate.Summarise,
    lambda llm: ikat.AllUtterances(),
    lambda llm: ikat.generate.Seq2SeqRewrite("m"),
]


@pytest.mark.parametrize("history", HISTORIES, ids=repr)
@pytest.mark.parametrize("make", READERS)
def test_a_history_of_another_shape_is_named(make, history):
    frame = pd.DataFrame({"qid": ["9-1_3"], "query": ["tea?"]})
    frame["qhistory"] = pd.Series([history], dtype=object)
    with pytest.raises(
        ikat.DataError, match="turn 9-1_3 has the qhistory .*: give a list of messages"
    ):
        make(Says("x"))(frame)


@pytest.mark.parametrize(
    "ptkb", ["I am vegan.", 5, [5], {"1": 5}, [["1", "I am vegan."]]], ids=repr
)
def test_a_persona_of_another_shape_is_named(ptkb):
    frame = pd.DataFrame({"qid": ["9-1_3"], "query": ["tea?"]})
    frame["qptkb"] = pd.Series([ptkb], dtype=object)
    for operator in (
        ikat.Answer(Says("x")),
        ikat.RankStatements(Words()),
        ikat.SelectStatements(Says("[1]")),
    ):
        with pytest.raises(
            ikat.DataError, match="turn 9-1_3 has the qptkb .*: give a dict of statements by id"
        ):
            operator(frame)


# Rows


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


class Loses(Operator):
    schematic = {"label": "Loses"}
    one_row_per_turn = True

    def transform(self, inp):
        return inp.iloc[::-1] if len(inp) == 2 else inp.head(1)


class Blank(ikat.Rewrite):
    def parse(self, text):
        return " " if "Which" in text else [][0]


def test_an_operator_of_yours_keeps_what_it_declares():
    turns = pd.DataFrame({"qid": ["1_1", "1_2", "1_3"], "query": "tea"})
    with pytest.raises(ikat.DataError, match=r"Loses\(\) got 3 rows and returned 1 row:"):
        Loses()(turns)
    with pytest.raises(ikat.DataError, match="got 2 rows and returned other turns"):
        Loses()(turns.head(2))
    with pytest.raises(ikat.DataError, match="Blank makes ' ' the query of turn 1_1"):
        Blank(ikat.llm(Says("Which tea?")))(turns)
    with pytest.raises(
        ikat.DataError,
        match="parser of Blank stops with IndexError.* the completion of turn 1_1, 'That tea'",
    ):
        Blank(ikat.llm(Says("That tea")))(turns)


# Missing columns


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


def test_each_column_has_one_repair():
    assert REPAIRS["qrewrite"] == "put ikat.Rewrite(llm) before it"
    assert REPAIRS["rank"].startswith("put a retriever")
    assert REPAIRS["qhistory"].startswith("take the turns from dataset.get_topics()")
    assert REPAIRS["qresolved"].startswith('take the turns from dataset.get_topics("manual")')


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


MAKERS = {
    "qanswer": "Answer",
    "qsuggestion": "OutlineAnswer",
    "qstatements": "SelectStatements",
    "qsubqueries": "Queries",
    "qrewrite": "Rewrite",
    "qid_0": "ExplodeQueries",
    "qsummary": "Enhance summary",
    "qlearned": "UpdatePtkb",
    "qsamples": "Samples",
}


@pytest.mark.parametrize("column", MAKERS)
def test_the_operator_that_a_message_names_makes_the_column(column):
    assert f"{MAKERS[column].partition(chr(32))[0]}(" in REPAIRS[column]
    made = EVERY[MAKERS[column]].make(ikat.llm(Says("[1]")), None)
    made.on_error = "fallback"
    assert column in made(one_turn(needed(made))).columns


def test_every_column_that_an_operator_needs_has_its_repair():
    assert NEEDED.keys() <= REPAIRS.keys()


def test_a_missing_column_names_what_to_put_before_it():
    with pytest.raises(
        ikat.DataError,
        match=r"Respond\(.*\) reads docno, rank, text, which the frame lacks \(it has qid, "
        r"query, qptkb\): ",
    ):
        ikat.Respond(Says("tea"))(TURN)
    with pytest.raises(ikat.DataError, match=r"put ikat.Answer\(llm\) before it"):
        (ikat.RawUtterance() >> ikat.Queries(Says("tea"), given="answer"))(TURN)
    with pytest.raises(ikat.DataError, match=r'get_topics\("manual"\).*uses_gold=True'):
        ikat.ManualRewrite()(TURN)
    with pytest.raises(ikat.DataError, match="takes turns, and the frame has passages"):
        ikat.RawUtterance()(one_turn_found())


def test_what_another_packages_stage_lacks_is_its_own_message():
    class Foreign(pt.Transformer):
        def transform(self, inp):
            pt.validate.columns(inp, includes=["colour"], context=self)
            return inp

    with pytest.raises(pt.validate.InputValidationError, match="Foreign") as caught:
        ikat.generate.AppendQuery(Foreign())(TURN)
    assert not isinstance(caught.value, ikat.IkatError)
