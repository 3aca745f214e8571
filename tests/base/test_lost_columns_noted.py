"""Columns that stages of other packages drop: what is noted, and which warning is given when."""

import warnings

import numpy as np
import pandas as pd
import pyterrier as pt
import pytest

import pyterrier_ikat as ikat
from pyterrier_ikat.lost_columns import (
    LostColumns,
    LostColumnsWarning,
    has_column,
    note_dropped,
)

TURNS = pd.DataFrame(
    {
        "qid": ["1_1", "1_2"],
        "query": ["tea?", "it?"],
        "qutterance": ["tea?", "it?"],
        "qhistory": [[], [{"role": "user", "content": "tea?"}]],
        "qptkb": [{}, None],
        "note": ["x", "y"],
    }
)


class Keeps(pt.Transformer):
    """Keeps some columns of its frame, and says so."""

    def __init__(self, *names):
        super().__init__()
        self.names = names

    def transform(self, inp):
        return inp[[name for name in inp.columns if name in self.names]]


class Silent(Keeps):
    """Can't say what it returns."""

    def transform_outputs(self, input_columns):
        raise ValueError("unknown")


def lost_by(pipeline, turns=TURNS):
    return LostColumns("mine", pipeline, turns, set())


def test_dropped_columns_with_content_are_noted_with_their_stage():
    cut = Keeps("qid", "query", "qutterance")
    assert lost_by(cut).dropped == {"qhistory": [cut]}
    assert lost_by(Keeps("qutterance")).dropped.keys() == {"qhistory"}  # never qid or query
    assert lost_by(Keeps(*TURNS)).dropped == {}


@pytest.mark.parametrize(
    ("cells", "has_content"),
    [
        ([None, "x"], True),
        ([None, float("nan")], False),
        (["", ""], False),
        ([[], {}], False),
        ([np.array([]), np.array([1])], True),
        ([0, 0], True),
        ([], False),
    ],
)
def test_a_column_without_content_cannot_be_lost(cells, has_content):
    turns = pd.DataFrame({"qid": list(map(str, range(len(cells)))), "query": "x"})
    turns["qmore"] = pd.Series(cells, dtype=object)
    assert ("qmore" in lost_by(Keeps("qid", "query"), turns).dropped) is has_content


def test_a_stage_that_cannot_say_may_drop_everything():
    silent = Silent("qid", "query")
    assert lost_by(silent).dropped == {"qutterance": [silent], "qhistory": [silent]}


def test_only_the_first_stage_that_drops_a_column_has_dropped_it():
    first = Keeps("qid", "query", "qutterance")
    second = Keeps("qid", "query")
    assert lost_by(first >> second).dropped == {"qhistory": [first], "qutterance": [second]}


def test_operators_and_cutoffs_drop_nothing():
    assert lost_by(ikat.RawUtterance() >> pt.RankCutoff(3)).dropped == {}
    cut = Keeps("qid", "query", "query_0", "qutterance")
    assert lost_by(ikat.RawUtterance() >> cut).dropped == {"qhistory": [cut]}


def test_a_stage_inside_another_one_has_dropped_its_columns():
    first = Keeps("qid", "query", "qutterance", "docno")
    second = Keeps("qid", "query", "docno")
    assert lost_by(first | second).dropped == {"qhistory": [first, second], "qutterance": [second]}


def test_a_warning_names_stage_column_and_all_that_it_drops():
    cut = Keeps("qid", "query")
    lost = lost_by(cut >> ikat.RawUtterance())
    frame = cut(TURNS)
    with lost.watching():
        with pytest.warns(
            LostColumnsWarning,
            match=r"system mine: the stage .*Keeps object> drops qutterance, qhistory, .*"
            "would read qhistory",
        ):
            assert not has_column(frame, "qhistory")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert not has_column(frame, "qhistory")  # told once
            assert not has_column(frame, "qutterance")
            assert not has_column(frame, "qmore")
            assert has_column(TURNS, "qhistory")


def test_each_stage_is_warned_of_once_for_several_systems():
    first = Keeps("qid", "query", "docno")
    second = Keeps("qid", "query", "docno")
    warned = set()
    for expected in (2, 0):
        lost = LostColumns("mine", first | second, TURNS, warned)
        with lost.watching(), warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            has_column(first(TURNS), "qhistory")
        assert len(told) == expected


def test_outside_of_a_run_nothing_is_told():
    lost = lost_by(Keeps("qid", "query"))
    with lost.watching():
        pass
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not has_column(TURNS[["qid"]], "qhistory")


class Liar(Keeps):
    """Says that it keeps all columns."""

    def transform_outputs(self, input_columns):
        return input_columns


def test_a_run_shows_what_a_stage_really_drops():
    liar = Liar("qid", "query")
    lost = lost_by(liar)
    assert lost.dropped == {}
    lost.transform(liar, TURNS)
    assert lost.dropped == {"qutterance": [liar], "qhistory": [liar]}
    lost.transform(liar, TURNS)
    assert lost.dropped == {"qutterance": [liar], "qhistory": [liar]}


def test_a_stage_reads_columns_that_its_pipeline_gives():
    cut = Keeps("qid", "query")

    class Reads(ikat.RawUtterance):
        def transform(self, inp):
            has_column(inp, "qutterance")
            return inp

    lost = lost_by(cut)
    with pytest.warns(LostColumnsWarning, match="would read qutterance"):
        lost.transform(Reads(), cut(TURNS))


def test_a_plan_notes_what_a_stage_has_dropped():
    cut = Liar("qid")
    lost = lost_by(cut)
    note_dropped(cut, TURNS, cut(TURNS))
    assert lost.dropped == {}
    with lost.watching():
        note_dropped(cut, TURNS, cut(TURNS))
    assert lost.dropped == {"qutterance": [cut], "qhistory": [cut]}


def test_what_an_operator_leaves_out_is_not_dropped():
    lost = lost_by(Keeps(*TURNS))
    lost.note(ikat.RawUtterance(), ["qid", "qutterance"], ["qid"])
    assert lost.dropped == {}


def test_a_compound_stage_may_drop_what_none_inside_it_drops():
    union = Liar("x", "docno") | Liar("x", "docno")
    assert lost_by(union).dropped == {"qutterance": [union], "qhistory": [union]}


def test_a_result_that_is_no_frame_is_passed_on():
    class Lists(Liar):
        def transform(self, inp):
            return inp.to_dict("records")

    assert lost_by(Lists()).transform(Lists(), TURNS) == TURNS.to_dict("records")


def test_a_stage_that_was_warned_of_does_not_hide_the_next():
    first = Keeps("qid", "query", "docno")
    second = Keeps("qid", "query", "docno")
    lost = LostColumns("mine", first | second, TURNS, {id(first)})
    with lost.watching(), pytest.warns(LostColumnsWarning) as told:
        has_column(first(TURNS), "qhistory")
    assert len(told) == 1


class Equal(Keeps):
    """Equal to all of its kind."""

    def __eq__(self, other):
        return isinstance(other, Equal)

    __hash__ = Keeps.__hash__


def test_equal_stages_have_dropped_for_themselves():
    first = Equal("qid", "query", "docno")
    second = Equal("qid", "query", "docno")
    dropped = lost_by(first | second).dropped["qhistory"]
    assert [id(stage) for stage in dropped] == [id(first), id(second)]


def test_an_equal_stage_is_told_with_its_own_columns_alone():
    first = Equal("qid", "query", "qhistory")
    second = Equal("qid", "query")
    lost = lost_by(first >> second)
    with lost.watching(), pytest.warns(LostColumnsWarning, match="drops qutterance, and"):
        has_column(TURNS[["qid"]], "qutterance")
    with lost.watching(), pytest.warns(LostColumnsWarning, match="drops qhistory, and"):
        has_column(TURNS[["qid"]], "qhistory")


def test_stages_inside_an_operator_are_watched_too():
    cut = Keeps("qid", "query", "docno", "score", "rank")
    ranking = pd.DataFrame({"qid": ["1_1"], "docno": ["d"], "score": [1.0]})
    finds = pt.Transformer.from_df(ranking)
    fused = ikat.RRF(cut >> finds, finds)
    assert cut in lost_by(fused).dropped["qhistory"]


def test_a_later_stage_may_drop_what_an_unsure_one_kept():
    silent = Silent("qid", "query")
    cut = Keeps("qid", "query")
    assert lost_by(silent >> cut).dropped == {
        "qutterance": [silent, cut],
        "qhistory": [silent, cut],
    }


def test_each_of_two_stages_is_told_with_all_that_it_drops():
    silent = Silent("qid", "query")
    cut = Keeps("qid", "query")
    lost = lost_by(silent >> cut)
    with lost.watching(), pytest.warns(LostColumnsWarning) as caught:
        has_column(TURNS[["qid", "query"]], "qhistory")
    for warning, name in zip(caught, ("Silent", "Keeps"), strict=True):
        assert f"{name} object> drops qutterance, qhistory, and" in str(warning.message)


def test_a_column_may_have_a_number_for_a_name():
    cut = Keeps("qid", "query")
    numbered = TURNS.assign(qx=1).rename(columns={"qx": 7})
    assert lost_by(cut, numbered).dropped == {"qutterance": [cut], "qhistory": [cut]}


def test_a_cutoff_keeps_all_columns_whatever_is_noted():
    lost = lost_by(Keeps(*TURNS))
    lost.note(pt.RankCutoff(3), ["qid", "qutterance"], ["qid"])
    assert lost.dropped == {}


def test_a_column_without_content_is_not_told_as_dropped():
    lost = lost_by(Keeps("qid", "query"))
    with lost.watching(), warnings.catch_warnings():
        warnings.simplefilter("error")
        assert has_column(TURNS.assign(qhistory=None), "qhistory")


def test_a_warning_inside_another_run_is_of_the_inner_one():
    first = lost_by(Keeps("qid", "query", "qutterance"))
    second = lost_by(Keeps("qid", "query"))
    with first.watching():
        with pytest.raises(KeyError), second.watching():
            raise KeyError
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert not has_column(TURNS[["qid"]], "qutterance")
        with pytest.warns(LostColumnsWarning, match="drops qhistory, and"):
            has_column(TURNS[["qid"]], "qhistory")


def test_a_stage_that_is_watched_keeps_its_promise():
    class Halves(Keeps):
        one_row_per_turn = True

        def transform(self, inp):
            return inp.head(1)

    with pytest.raises(ikat.DataError, match="got 2 rows and returned 1 row"):
        lost_by(Halves()).transform(Halves(), TURNS)
