"""The one entrance of every operator: odd frames, and columns that are missing."""

import numpy as np
import pandas as pd
import pyterrier as pt
import pytest
from trust.frames import EVERY, NEEDED, Says, needed, one_turn, one_turn_expanded, one_turn_found

import pyterrier_ikat as ikat
from pyterrier_ikat.arguments import REPAIRS
from pyterrier_ikat.operator import Operator

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


def test_frames_of_parquet_files_and_of_categories_are_taken():
    statements = np.array([np.array(["1", 0.5], dtype=object)], dtype=object)
    frame = with_cells(one_turn(), "qstatements", [*statements]).assign(
        qid=pd.Series(["9-1_1"], dtype="category")
    )
    assert ikat.generate.AppendStatements()(frame)["query"].tolist() == ["Which tea? I like mint."]
    assert ikat.RRF()(one_turn_expanded().assign(qsub=0.0))["qid"].tolist() == ["9-1_1"] * 2


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


class Loses(Operator):
    schematic, one_row_per_turn = {"label": "Loses"}, True

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
