"""Operators as values: reprs, equality, drawings, descriptions, frames, and copies elsewhere."""

import copy
import dataclasses
import pickle
from types import SimpleNamespace
from unittest import mock

import joblib
import pandas as pd
import pyterrier as pt
import pytest
from fakes import scripted
from small_operators import TURNS, Again, Drawn, Fields, Holds, MoreFields, Named, Opaque
from trust.frames import ASKING, EVERY, EXPORTED, Says

import pyterrier_ikat as ikat
from pyterrier_ikat import events
from pyterrier_ikat.errors import DataError, UsageError
from pyterrier_ikat.operator import (
    Operator,
    label_of,
    with_fields,
)


def test_a_repr_has_the_arguments_that_are_not_their_defaults():
    who = f"{Named.__module__}.Named"
    assert repr(Named()) == f"{who}()"
    assert repr(Named(1, "b", size=4, end="?")) == f"{who}(1, 'b', end='?', size=4)"
    assert repr(Fields(1)) == f"{Fields.__module__}.Fields(1)"
    assert repr(Fields(1, "y")) == f"{Fields.__module__}.Fields(1, second='y')"
    assert repr(ikat.Interleave(num_results=5)) == "ikat.Interleave(num_results=5)"
    assert (
        repr(ikat.generate.ShowStatements("gold")) == "ikat.generate.ShowStatements(shown='gold')"
    )
    names = ["branches", "end", "prompts", "cache", "text", "size"]
    assert list(Named().arguments()) == names


def test_a_repr_leaves_out_what_equals_a_default_alone():
    assert repr(ikat.Interleave(num_results=int("1000"))) == "ikat.Interleave()"
    assert repr(Named(size=0, end="")) == f"{Named.__module__}.Named(end='', size=0)"
    model, _ = scripted()
    asks = ikat.Answer(model, on_error="raise", question="qresolved", style="llama")
    shown = "style='llama', question='qresolved', on_error='raise')"
    assert repr(asks) == f"ikat.Answer({model!r}, {shown}"
    assert repr(ikat.Rewrite(model)) == f"ikat.Rewrite({model!r})"


def test_a_class_of_a_script_is_named_by_itself(monkeypatch):
    class OfAScript(Named):
        pass

    monkeypatch.setattr(OfAScript, "__module__", "__main__")
    assert repr(OfAScript()) == "OfAScript()"


@pytest.mark.parametrize("module", ["theirs.rooms.stages", "pyterrier_ikat_more.stages"])
def test_a_class_of_another_package_has_its_whole_module(monkeypatch, module):
    class Theirs(Named):
        pass

    monkeypatch.setattr(Theirs, "__module__", module)
    assert repr(Theirs(1)) == f"{module}.Theirs(1)"


class Mine(Operator):
    def __init__(self, depth: int = 3) -> None:
        super().__init__()
        self.depth = depth

    def transform(self, inp):
        return inp


def test_a_repr_names_the_operators_own_module():
    assert repr(Mine(5)) == f"{__name__}.Mine(depth=5)"
    assert repr(ikat.RRF(k=5)) == "ikat.RRF(k=5)"


@pytest.mark.parametrize(
    ("module", "name", "shown"),
    [
        ("pyterrier_ikat.generate.rewriting", "Unlisted", "ikat.Unlisted()"),
        ("pyterrier_ikat.generate.rewriting", "ShowStatements", "ikat.generate.ShowStatements()"),
        ("pyterrier_ikat.generate.rewriting", "Rewrite", "ikat.Rewrite()"),
        ("pyterrier_ikat.operator", "Unlisted", "ikat.Unlisted()"),
    ],
)
def test_a_class_of_a_room_is_written_as_a_user_finds_it(monkeypatch, module, name, shown):
    assert ikat.generate.ShowStatements  # the room is loaded
    cls = type(name, (Holds,), {"__module__": module})
    assert repr(cls()) == shown


# Equality and copies


def test_operators_are_equal_by_class_arguments_and_texts():
    assert Fields(1) == Fields(1)
    assert hash(Fields(1)) == hash(Fields(1))
    others = [Fields(2), Fields(1, "y"), MoreFields(1), Fields(1).without_texts()]
    for other in others:
        assert Fields(1) != other
    assert len({hash(operator) for operator in (Fields(1), *others)}) == 5
    assert Fields(1) != "Fields(1)"

    class Same(Fields):
        pass

    assert Fields(1) != Same(1)
    assert hash(Fields((1, [2]))) == hash(Fields((1, [2])))
    assert len({Fields([1, {"a": (2,)}]), Fields([1, {"a": (2,)}]), Fields([1, {"a": (3,)}])}) == 2


def test_an_operator_leaves_comparisons_to_others():
    assert Fields(1) == mock.ANY
    assert Fields(1).__eq__("x") is NotImplemented


def test_a_copy_without_texts_shares_everything_else():
    operator = Fields(1, "y")
    copied = operator.without_texts()
    assert (copied.gives_texts, operator.gives_texts) == (False, True)
    assert copied.arguments() == operator.arguments()
    operator.opened = object()
    assert operator.without_texts().opened is operator.opened


def test_a_subclass_reads_texts_unless_it_says_otherwise():
    class Blind(Named):
        reads_texts = False

    class Sighted(Blind):
        pass

    assert (Blind.reads_texts, Sighted.reads_texts) == (False, True)


def test_a_class_with_fields_is_shown_and_compared_by_value():
    @with_fields
    class Made(Holds):
        first: int
        second: str = "x"

    assert repr(Made(1)) == f"{__name__}.Made(1)"
    assert repr(Made(1, "y")) == f"{__name__}.Made(1, second='y')"
    assert Made([1]) == Made([1])
    assert hash(Made([1])) == hash(Made([1]))
    assert Made(1) != Made(1).without_texts()


# Drawings and descriptions


def test_an_operator_is_drawn_by_its_own_label_without_help():
    assert (label_of(Named()), label_of(Drawn()), label_of(Fields(1))) == (
        "A name",
        "Drawn",
        "Fields",
    )
    assert Named.schematic["help_url"] == ""
    assert label_of(Again()) == "A name"

    class Unnamed(Named):
        schematic = {}

    assert label_of(Unnamed()) == "Unnamed"
    assert Unnamed.schematic == {"help_url": ""}

    class Labelled(Named):
        schematic = {"label": "other", "help_url": "here"}

    class ByItself(Labelled):
        def schematic(self, *, input_columns=None):
            return {}

    assert (label_of(Labelled()), label_of(ByItself())) == ("other", "ByItself")
    assert Labelled.schematic["help_url"] == "here"


def test_a_cutoff_behind_an_operator_has_no_help_either():
    cut = (Named() % 5)[1]
    assert cut.schematic(input_columns=["qid"])["help_url"] == ""
    assert cut.k == 5


def test_inherited_arguments_are_described_behind_the_own_ones():
    assert MoreFields.__doc__.split("Args:")[1].split("Example")[0].split("\n") == [
        "",
        "    third: the third one.",
        "    first: the first one.",
        "",
        "",
    ]
    assert MoreFields.__doc__.endswith("Example:\n    >>> None")
    assert Fields.__doc__.count("first: the first one.") == 1


def described_with_a_third(base):
    """The docstring of a subclass with one argument more."""

    @with_fields
    class Later(base):
        """Adds one.

        Args:
            third: the third one.
        """

        third: int = 3

    return Later.__doc__


def test_the_nearest_description_of_an_argument_counts():
    @with_fields
    class Described(Fields):
        """Described anew.

        Args:
            first: the first one, anew.
            second: the second one,
                of two lines.
        """

        hidden: int = dataclasses.field(default=0, init=False)

    own = "    first: the first one, anew.\n    second: the second one,\n        of two lines."
    assert Described.__doc__ == f"Described anew.\n\nArgs:\n{own}\n"
    later = described_with_a_third(Described)
    assert later == f"Adds one.\n\nArgs:\n    third: the third one.\n{own}\n"

    @with_fields
    class Undescribed(Described):
        """Says nothing."""

    assert Undescribed.__doc__ == "Says nothing."


def test_what_is_no_argument_is_not_described_as_one():
    @with_fields
    class Holds(Fields):
        """Holds something.

        Args:
            hidden: what it holds.
        """

        hidden: int = dataclasses.field(default=0, init=False)

    own = "    third: the third one.\n    first: the first one."
    assert described_with_a_third(Holds) == f"Adds one.\n\nArgs:\n{own}\n"


# At work


def test_the_work_of_an_operator_is_told_where_it_takes_time():
    class Busy(Named):
        activity = "reading {passages} of {queries}"

    class Loads(Named):
        loads_models = True

    assert Named().doing(TURNS) == ""
    assert Busy().doing(TURNS) == "reading 2 passages of 2 queries"
    assert Busy().doing(TURNS.head(1)) == "reading 1 passage of 1 query"
    assert Loads().doing(TURNS) == "running A name"
    model, _ = scripted()
    assert Fields(model).doing(TURNS) == "running Fields"


def test_several_rows_of_a_turn_are_announced_as_queries():
    class Busy(Named):
        activity = "searching {queries}"

    assert Busy().doing(TURNS.assign(qid="1_1")) == "searching 2 queries"


def test_a_frame_is_numbered_going_in_and_checked_coming_out():
    class Doubles(Named):
        one_row_per_turn = True

        def transform(self, inp):
            seen.append(inp.index.tolist())
            return pd.concat([inp, inp])

    seen = []
    with pytest.raises(DataError, match="got 2 rows and returned 4 rows"):
        Doubles()(TURNS.set_index(pd.Index([4, 4])))
    assert seen == [[0, 1]]
    with pytest.raises(UsageError, match="give a DataFrame"):
        Doubles().transform("tea")


def test_rows_that_come_of_an_empty_frame_are_refused():
    class Invents(Named):
        one_row_per_turn = True

        def transform(self, inp):
            return TURNS

    with pytest.raises(DataError, match="got 0 rows and returned 2 rows"):
        Invents()(TURNS.head(0))


def test_a_missing_column_is_told_without_the_error_before():
    with pytest.raises(DataError) as caught:
        ikat.RerankAgainst(Opaque(), "qanswer")(pd.DataFrame({"qid": ["1"], "query": ["x"]}))
    assert caught.value.__suppress_context__


def test_most_passages_are_a_number_of_results():
    class Finds(Named):
        def __init__(self, num_results=None):
            super().__init__()
            self.num_results = num_results

    assert [Finds(number).passages_at_most() for number in (7, None, "7")] == [7, None, None]
    assert Named().passages_at_most() is None


def test_promises_of_a_watched_stage_are_checked_too():
    class Halves(Holds):
        one_row_per_turn = True

        def transform(self, inp):
            return inp.head(1)

    class Reads(Holds):
        def transform(self, inp):
            pt.validate.query_frame(inp, extra_columns=["qrewrite"], context=self)
            return inp

    with events.observed_by(events.Observer()):
        with pytest.raises(DataError, match="got 2 rows and returned 1 row"):
            Halves()(TURNS)
        with pytest.raises(DataError, match=r"put ikat.Rewrite\(llm\) before it"):
            Reads()(TURNS)


# Pickled, copied or sent to other processes


KEY = "sk-that-nobody-should-see"


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("home")
    rows = [
        {"docno": "d0", "text": "Rooibos has no caffeine."},
        {"docno": "d1", "text": "Green tea"},
        {"docno": "d2", "text": "mint"},
    ]
    index = ikat.PassageIndex(folder / "index").index(rows)
    (folder / "passages.jsonl").write_text('{"id": "d0", "contents": "mint", "url": ""}')
    (folder / "run.trec").write_text("9-1_1 Q0 d1 1 2.5 given\n")
    return SimpleNamespace(
        run=folder / "run.trec",
        index=index,
        bm25=index.bm25,
        parts=[index.bm25()],
        t5="t5",
        rewriter="t5",
        cross_encoder="m",
        colbert="m",
        passages="p.jsonl",
    )


BUILT = [name for name in EVERY if name not in ("SpladeRetriever",)]


@pytest.mark.parametrize("name", BUILT)
def test_operators_are_equal_after_a_journey(name, home):
    operator = EVERY[name].make(ikat.llm("recorded:sample"), home)
    for other in (
        pickle.loads(pickle.dumps(operator)),
        copy.copy(operator),
        copy.deepcopy(operator),
    ):
        if "Words" not in repr(operator):  # which is a value of nobody's
            assert (other, hash(other)) == (operator, hash(operator))
        assert repr(other) == repr(operator) or "object at" in repr(operator)


@pytest.mark.parametrize("name", ASKING)
def test_an_operator_takes_what_llm_takes_and_refuses_the_rest(name):
    make = EXPORTED[name]
    says = Says("mint tea")
    assert make("recorded:sample") == make(ikat.llm("recorded:sample"))
    assert make(says) == make(ikat.llm(says))
    for wrong in (5, None, "gpt-4o", Says, b"x", [says], ikat.RawUtterance(), pd.DataFrame()):
        with pytest.raises(ikat.UsageError):
            make(wrong)


def test_operators_of_the_same_text_share_account_and_budget():
    text = "openai:m budget=5 price_in=1 price_out=1 cache=none"
    says = Says("tea")
    assert ikat.Answer(text).llm is not ikat.Answer(text + " seed=1").llm
    answer = ikat.Answer(text)
    queries = ikat.Queries(text)
    assert answer.llm is queries.llm
    turns = pd.DataFrame({"qid": ["1_1"], "query": ["tea?"]})
    assert ikat.Answer(says)(turns)["qanswer"].tolist() == ["tea"]


def test_a_pickle_holds_no_key_no_connection_and_no_lock(monkeypatch, tmp_path):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    llm = ikat.llm(f"openai:m price_in=1 price_out=1 budget=3 cache={tmp_path / 'c.sqlite'}")
    llm.open()
    llm.budget.spend(2.0)
    llm.ledger.count("answer", "m", calls=1)
    llm.cache.get(["any"])
    packed = pickle.dumps(ikat.Answer(llm) >> ikat.MultiQuery(llm))
    assert KEY.encode() not in packed
    other = pickle.loads(packed)
    first = other[0].llm
    second = other[1].llm
    assert first is second
    assert (first, hash(first), repr(first)) == (llm, hash(llm), repr(llm))
    assert (first.budget.spent, first.ledger.frame()["calls"].tolist()) == (2.0, [1])
    first.open()
    first.cache.get(["any"])
    for one in (llm, first):
        one.close()


def test_a_copy_in_this_process_has_the_same_account():
    llm = ikat.llm(Says("tea"))
    assert copy.copy(llm) is copy.deepcopy(llm) is llm
    assert copy.deepcopy(ikat.Answer(llm) >> ikat.MultiQuery(llm))[0].llm is llm


def test_joblib_sends_a_pipeline_to_processes_of_its_own():
    pipeline = ikat.Answer("recorded:sample") >> ikat.MultiQuery("recorded:sample", given="answer")
    topics = pt.get_dataset("ikat:sample").get_topics().head(4)
    halves = [topics.iloc[:2], topics.iloc[2:].reset_index(drop=True)]
    sent = joblib.Parallel(n_jobs=2, backend="loky")(
        joblib.delayed(pipeline.transform)(half) for half in halves
    )
    pd.testing.assert_frame_equal(pd.concat(sent, ignore_index=True), pipeline(topics))
