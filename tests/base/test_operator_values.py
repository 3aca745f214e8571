"""Operators as values, and pipelines: reprs, equality, parts, citations, limits, unread texts."""

import dataclasses
from functools import partial
from unittest import mock

import pandas as pd
import pyterrier as pt
import pytest
from fakes import scripted

import pyterrier_ikat as ikat
from pyterrier_ikat import events
from pyterrier_ikat.errors import DataError, UsageError
from pyterrier_ikat.foreign import HeldFiles
from pyterrier_ikat.operator import (
    Operator,
    citing,
    every_stage,
    frame_for,
    label_of,
    limited,
    parts_of,
    stages,
    subpipelines,
    unidentified_stages,
    with_fields,
    without_unread_texts,
)

TURNS = pd.DataFrame({"qid": ["1_1", "1_2"], "query": ["tea", "walk"]})


class Named(Operator):
    """Keeps its frame."""

    schematic = {"label": "A name"}

    def __init__(self, *branches, size=3, end="!", prompts=None, cache=None, text=None):
        super().__init__()
        self.branches, self.size, self.end = list(branches), size, end
        self.prompts, self.cache, self.text = prompts, cache, text

    last_in_repr = ("size",)

    def arguments(self):
        return {"branches": self.branches, **super().arguments()}

    def transform(self, inp):
        return inp


class Again(Named):
    """Drawn as nothing."""

    schematic = None


class Drawn(Named):
    """Draws itself by its own function."""

    def schematic(self, *, input_columns=None):
        return {}


@with_fields
class Fields(Operator):
    """Has fields.

    Args:
        first: the first one.
    """

    first: int
    second: str = "x"

    def transform(self, inp):
        return inp


@with_fields
class MoreFields(Fields):
    """Has more fields.

    Args:
        third: the third one.

    Example:
        >>> None
    """

    third: int = 3


def test_a_repr_has_the_arguments_that_are_not_their_defaults():
    who = f"{__name__}.Named"
    assert repr(Named()) == f"{who}()"
    assert repr(Named(1, "b", size=4, end="?")) == f"{who}(1, 'b', end='?', size=4)"
    assert repr(Fields(1)) == f"{__name__}.Fields(1)"
    assert repr(Fields(1, "y")) == f"{__name__}.Fields(1, second='y')"
    assert repr(ikat.Interleave(num_results=5)) == "ikat.Interleave(num_results=5)"
    assert (
        repr(ikat.generate.ShowStatements("gold")) == "ikat.generate.ShowStatements(shown='gold')"
    )
    names = ["branches", "end", "prompts", "cache", "text", "size"]
    assert list(Named().arguments()) == names


def test_a_class_of_a_script_is_named_by_itself(monkeypatch):
    class OfAScript(Named):
        pass

    monkeypatch.setattr(OfAScript, "__module__", "__main__")
    assert repr(OfAScript()) == "OfAScript()"


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


def test_most_passages_are_a_number_of_results():
    class Finds(Named):
        def __init__(self, num_results=None):
            super().__init__()
            self.num_results = num_results

    assert [Finds(number).passages_at_most() for number in (7, None, "7")] == [7, None, None]
    assert Named().passages_at_most() is None


def test_inner_pipelines_are_found_in_any_argument():
    inner, other = Fields(1), Fields(2)
    assert Named().subpipelines() == []
    assert Named(inner >> other, other).subpipelines() == [inner >> other, other]
    assert Fields(inner).subpipelines() == [inner]
    assert Fields((inner, other)).subpipelines() == [inner, other]
    pipeline = Named(inner >> other) >> Fields(3)
    assert list(stages(pipeline)) == [Named(inner >> other), Fields(3)]
    assert list(every_stage(pipeline)) == [Named(inner >> other), inner, other, Fields(3)]
    assert list(every_stage(inner >> other >> inner)) == [inner, other, inner]
    deep = Fields(Fields(inner))
    assert list(every_stage(deep)) == [deep, Fields(inner), inner]
    assert subpipelines(inner) == []


class Marked:
    """Has a fingerprint and a loader of texts."""

    def __init__(self, text=None):
        self.text = text

    def fingerprint(self):
        return "f"


def test_parts_are_found_once_in_arguments_and_loaders(tmp_path):
    (tmp_path / "words.txt").write_text("x")
    folder, file = str(tmp_path), str(tmp_path / "words.txt")
    loader = Marked()
    marked = Marked(loader)
    assert list(parts_of([marked, {"a": marked}, (loader,)])) == [marked, loader]
    assert list(parts_of({"a": marked, "b": 7})) == [marked, loader]
    assert list(parts_of(Named(marked, text=file))) == [marked, loader, HeldFiles(file)]
    assert list(parts_of(Named(text=folder))) == [folder]
    assert list(parts_of(Named(text=tmp_path))) == [folder]
    assert list(parts_of(Named(prompts=folder, cache=file))) == []
    assert list(parts_of([7, None, "tea", {"a": 1.5}])) == []
    foreign = pt.apply.generic(lambda frame: frame)
    foreign.index = marked
    assert list(parts_of(Fields(1) >> foreign)) == [marked, loader]


def test_parts_of_an_object_are_those_that_it_holds(tmp_path):
    class Holder:
        def __init__(self):
            self.path = tmp_path

    assert list(parts_of(Holder())) == [HeldFiles(str(tmp_path))]


class Cites(Named):
    """Can cite, and has a limit."""

    def citing(self):
        return self._copy(end="cited")

    def limited(self, words):
        return self._copy(size=words)


def test_the_last_stage_that_can_is_changed():
    pipeline = Cites(size=1) >> Fields(1) >> Cites(size=2) >> Fields(2) >> Fields(3)
    ends = [stage.end for stage in stages(citing(pipeline)) if isinstance(stage, Cites)]
    assert ends == ["!", "cited"]
    sizes = [stage.size for stage in stages(limited(pipeline, 9)) if isinstance(stage, Cites)]
    assert sizes == [1, 9]
    assert [type(stage) for stage in stages(citing(pipeline))] == [
        type(stage) for stage in stages(pipeline)
    ]
    assert list(stages(citing(pipeline)))[3:] == [Fields(2), Fields(3)]
    assert type(citing(Cites())) is Cites
    plain = Fields(1) >> Fields(2)
    assert citing(plain) is plain
    assert limited(plain, 9) is None


class Opaque(pt.Transformer):
    """Of another package."""

    def __init__(self, value=None):
        super().__init__()
        self.value = value

    def transform(self, inp):
        return inp

    def __repr__(self):
        return "Opaque()"


def test_stages_with_functions_or_addresses_are_unidentified(tmp_path):
    (tmp_path / "empty").mkdir()
    unidentified = {
        "address": pt.apply.query(lambda row: "x"),
        "lambda": Opaque(lambda: 1),
        "partial": Opaque(partial(print, 1)),
        "method": Opaque(Named().transform),
        "untracked": Opaque(tmp_path / "empty"),
        "argument": Fields(lambda: 1),
    }
    for name, stage in unidentified.items():
        assert unidentified_stages(Fields(1) >> stage >> Fields(2)) == [repr(stage)], name
    assert unidentified_stages(Opaque("text") >> Opaque(7) >> Named()) == []
    marked = Opaque(lambda: 1)
    marked.fingerprint = lambda: "f"
    assert unidentified_stages(marked) == []
    inner = Opaque(lambda: 1)
    assert unidentified_stages(Named(inner) >> inner) == ["Opaque()"]


def test_a_shared_frame_is_copied_for_foreign_stages_alone():
    assert frame_for(Named(), TURNS) is TURNS
    copied = frame_for(Opaque(), TURNS)
    assert copied is not TURNS
    assert copied.equals(TURNS)


class Looks(Named):
    """A retriever that looks up texts."""

    reads_texts = False


class Nests(Looks):
    """Has a pipeline inside."""

    reads_texts = False


def given(pipeline):
    return [getattr(stage, "gives_texts", None) for stage in stages(without_unread_texts(pipeline))]


def test_texts_are_looked_up_only_for_a_later_reader():
    assert given(Looks() >> pt.RankCutoff(5)) == [False, None]
    assert given(Looks() >> Looks()) == [False, False]
    assert given(Looks() >> Named() >> Looks()) == [True, True, False]
    assert given(Looks() >> Opaque() >> Looks()) == [True, None, False]
    assert given(Looks() >> Nests(Fields(1)) >> Looks()) == [True, False, False]
    order = list(stages(without_unread_texts(Looks(size=1) >> Looks(size=2) >> Looks(size=3))))
    assert [stage.size for stage in order] == [1, 2, 3]
    reader = Looks() >> Named()
    assert without_unread_texts(reader) is reader


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


def test_observers_see_a_stage_only_where_there_are_some():
    class Sees(events.Observer):
        def begin(self, step):
            seen.append(step.stage)

    seen = []
    Named()(TURNS)
    with events.observed_by(Sees()):
        Named()(TURNS)
    assert seen == [Named()]


def test_another_equal_stage_inside_is_a_step_of_its_own():
    class Around(Named):
        def transform(self, inp):
            inside.append(self)
            return Around()(inp) if len(inside) == 1 else inp

    inside, counts = [], Steps()
    with events.observed_by(counts):
        Around()(TURNS)
    inner, outer = counts.steps
    assert inner.outer is outer
    assert outer.outer is None
    assert [inner.stage is stage for stage in inside] == [False, True]


class Steps(events.Observer):
    """Keeps the steps in the order of their ends, and what it is told of them."""

    def __init__(self):
        self.steps, self.told = [], []

    def end(self, step):
        self.steps.append(step)

    def follow(self, step):
        self.told.append(step)

    def repair(self, step, reasons):
        self.told.append((step.stage, list(reasons)))

    def shorten(self, step, words):
        self.told.append((step.stage, words))


def test_a_stage_inside_its_own_inner_stage_is_one_step():
    class Outer(Named):
        def transform(self, inp):
            seen.append("outer")
            return inp if len(seen) > 1 else Inner(self)(inp)

    class Inner(Named):
        def transform(self, inp):
            return self.branches[0].transform(inp)

    seen, steps = [], Steps()
    with events.observed_by(steps):
        Outer()(TURNS)
    assert seen == ["outer", "outer"]
    assert [type(step.stage).__name__ for step in steps.steps] == ["Inner", "Outer"]


def test_a_step_has_all_requests_and_is_told_how_long_it_answers():
    class Asks(Named):
        def transform(self, inp):
            events.tell("llm", [("a", 1)], 1)
            events.tell("llm", [("b", 2), ("c", 3)], 1)
            events.shortened(50)
            events.repaired(["why"])
            return inp

    steps = Steps()
    with events.observed_by(steps):
        Asks()(TURNS)
        events.shortened(7)
        events.repaired(["outside"])
        assert events.follower() is None
    assert steps.steps[0].asked == [("a", 1), ("b", 2), ("c", 3)]
    assert steps.told == [(Asks(), 50), (Asks(), ["why"])]


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


class Plain(pt.Transformer):
    """Shows its address, and holds nothing."""

    def transform(self, inp):
        return inp


class Wraps(Plain):
    """Shows its address, around a pipeline."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner


def test_a_stage_of_an_address_is_unidentified_unless_wrapping():
    plain = Plain()
    assert unidentified_stages(plain) == [repr(plain)]
    wraps = Wraps(Opaque(7))
    assert subpipelines(wraps) == [wraps.inner]
    assert unidentified_stages(wraps) == []
    assert unidentified_stages(Wraps(plain)) == [repr(plain)]


def test_a_repr_leaves_out_what_equals_a_default_alone():
    assert repr(ikat.Interleave(num_results=int("1000"))) == "ikat.Interleave()"
    assert repr(Named(size=0, end="")) == f"{__name__}.Named(end='', size=0)"
    model, _ = scripted()
    asks = ikat.Answer(model, on_error="raise", question="qresolved", style="llama")
    shown = "style='llama', question='qresolved', on_error='raise')"
    assert repr(asks) == f"ikat.Answer({model!r}, {shown}"
    assert repr(ikat.Rewrite(model)) == f"ikat.Rewrite({model!r})"


@pytest.mark.parametrize("module", ["theirs.rooms.stages", "pyterrier_ikat_more.stages"])
def test_a_class_of_another_package_has_its_whole_module(monkeypatch, module):
    class Theirs(Named):
        pass

    monkeypatch.setattr(Theirs, "__module__", module)
    assert repr(Theirs(1)) == f"{module}.Theirs(1)"


def test_an_operator_leaves_comparisons_to_others():
    assert Fields(1) == mock.ANY
    assert Fields(1).__eq__("x") is NotImplemented


def test_several_rows_of_a_turn_are_announced_as_queries():
    class Busy(Named):
        activity = "searching {queries}"

    assert Busy().doing(TURNS.assign(qid="1_1")) == "searching 2 queries"


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


def test_an_unidentified_stage_inside_an_operator_is_named():
    assert unidentified_stages(Named(Opaque(lambda: 1))) == ["Opaque()"]
    assert unidentified_stages(Named(Named(Opaque(lambda: 1)))) == ["Opaque()"]

    class Marked(Fields):
        def fingerprint(self):
            return "f"

    marked = Marked(lambda: 1)
    assert unidentified_stages(marked) == [repr(marked)]  # only others are told by fingerprints


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
