"""A stage of another package that drops columns of the turns is told where they would be read."""

import warnings

import pandas as pd
import pyterrier as pt
import pytest

import pyterrier_ikat as ikat
from pyterrier_ikat.study import LostColumnsWarning


class Model:
    def generate(self, chats):
        return ["tea"] * len(chats)


class Narrow(pt.Transformer):
    """A stage of another package that returns two columns, but an empty frame as it is."""

    def transform(self, inp):
        return inp if inp.empty else inp[["qid", "query"]]


class Narrower(Narrow):
    def transform(self, inp):
        return inp[["qid", "query"]]


class OnRowsOnly(Narrow):
    """It fails on a frame without rows, so that its columns are unknown before a run."""

    def transform(self, inp):
        assert len(inp)
        return inp[["qid", "query"]]


def narrow(frame):
    return frame[["qid", "query"]]


STAGES = [
    pt.apply.generic(narrow),
    pt.apply.by_query(narrow, add_ranks=False),
    Narrow(),
    Narrower(),
    OnRowsOnly(),
]


@pytest.fixture(scope="module")
def bm25(tmp_path_factory):
    passages = pt.get_dataset("ikat:sample").get_corpus_iter(verbose=False)
    path = tmp_path_factory.mktemp("lost") / "index"
    return ikat.PassageIndex(path).index(passages).bm25(num_results=5)


@pytest.fixture
def rewrite():
    return ikat.Rewrite(ikat.llm(Model()))


def told(system, tmp_path, how):
    """Return the warnings of a plan, run or experiment of one system."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if how == "plan":
            ikat.plan({"mine": system}, "ikat:sample")
        elif how == "run":
            ikat.run({"mine": system}, "ikat:sample", out=tmp_path, turns_at_once=7)
        else:
            ikat.experiment({"mine": system}, "ikat:sample")
    found = [warning for warning in caught if warning.category is LostColumnsWarning]
    return [str(warning.message) for warning in found]


@pytest.mark.parametrize("how", ["run", "experiment"])
@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: type(stage).__name__)
def test_a_dropped_conversation_is_told_once(stage, how, tmp_path, rewrite, bm25):
    (message,) = told(stage >> rewrite >> bm25, tmp_path, how)
    name = repr(stage).partition(" at 0x")[0]
    assert name in message
    assert " at 0x" not in message
    assert "would read" in message
    for column in ("qutterance", "qhistory", "qptkb"):
        assert column in message


@pytest.mark.parametrize("stage", [pt.apply.generic(narrow), Narrower()], ids=["function", "class"])
def test_a_plan_tells_it_too(stage, tmp_path, rewrite, bm25):
    (message,) = told(stage >> rewrite >> bm25, tmp_path, "plan")
    assert "drops qutterance, qhistory, qptkb" in message


@pytest.mark.parametrize("how", ["plan", "run", "experiment"])
def test_a_stage_inside_a_branch_is_told(how, tmp_path, rewrite, bm25):
    branch = pt.apply.generic(narrow) >> rewrite >> bm25
    (message,) = told(ikat.RRF(bm25, branch), tmp_path, how)
    assert "qhistory" in message


@pytest.mark.parametrize("how", ["plan", "run", "experiment"])
def test_columns_that_nobody_reads_may_be_dropped(how, tmp_path, rewrite, bm25):
    assert told(rewrite >> pt.apply.generic(narrow) >> bm25, tmp_path, how) == []


@pytest.mark.parametrize("how", ["plan", "run", "experiment"])
def test_a_stage_that_keeps_all_columns_is_not_told(how, tmp_path, rewrite, bm25):
    upper = pt.apply.query(lambda row: row["query"].upper())
    unchanged = pt.apply.generic(lambda frame: frame)
    assert told(upper >> unchanged >> rewrite >> bm25 % 3, tmp_path, how) == []


def test_a_dropped_column_of_an_operator_is_told(tmp_path, rewrite, bm25):
    class Weights(ikat.Operator):
        def transform(self, inp):
            return inp.assign(qsubqueries=[["a", "b"]] * len(inp), qweights=[[1.0, 3.0]] * len(inp))

    unweighted = pt.apply.generic(lambda frame: frame.drop(columns="qweights"))
    system = Weights() >> unweighted >> ikat.ExplodeQueries() >> bm25 >> ikat.RRF()
    (message,) = told(system, tmp_path, "run")
    assert "drops qweights, and" in message


def test_turns_without_a_conversation_lose_nothing(rewrite):
    turns = pd.DataFrame({"qid": ["1_1"], "query": ["tea"], "qhistory": [[]], "qptkb": [{}]})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ikat.plan({"mine": pt.apply.generic(narrow) >> rewrite}, turns)
        rewrite(narrow(turns))


def test_a_plan_counts_the_prompts_that_a_run_sends(rewrite):
    full = ikat.plan({"mine": rewrite}, "ikat:sample").total["prompt_tokens"]
    with pytest.warns(LostColumnsWarning):
        planned = ikat.plan({"mine": Narrower() >> rewrite}, "ikat:sample")
    row = planned[planned["stage"].str.startswith("rewrite")].iloc[0]
    assert row["prompt_tokens"] < full


class Fewer(pt.Transformer):
    one_row_per_turn = True

    def __repr__(self):
        return "Fewer()"

    def transform(self, inp):
        return inp.iloc[1:]


class Doubled(Fewer):
    def transform(self, inp):
        return pd.concat([inp, inp])


class Unnamed(Fewer):
    def transform(self, inp):
        return inp if inp.empty else inp.drop(columns="qid")


@pytest.mark.parametrize("stage", [Fewer(), Doubled(), Unnamed()])
def test_one_row_per_turn_is_checked(stage, tmp_path, bm25):
    with pytest.raises(ikat.DataError, match="one_row_per_turn"):
        ikat.run({"mine": stage >> bm25}, "ikat:sample", out=tmp_path)
