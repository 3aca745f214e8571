"""The stages of a pipeline: their parts, what can't be identified, citations, unread texts."""

from functools import partial
from pathlib import Path

import pyterrier as pt
from fakes import scripted
from small_operators import TURNS, Fields, Holds, Named, Opaque, Theirs, Versioned

import pyterrier_ikat as ikat
from pyterrier_ikat.foreign import HeldFiles
from pyterrier_ikat.operator import (
    Operator,
    citing,
    every_stage,
    face,
    frame_for,
    limited,
    parts_of,
    stages,
    subpipelines,
    unidentified_stages,
    without_unread_texts,
)
from pyterrier_ikat.planning import Plan


def test_inner_pipelines_are_found_in_any_argument():
    inner = Fields(1)
    other = Fields(2)
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


def test_pipelines_in_pipelines_are_their_stages_in_order():
    first, second, third, fourth = (Holds(number) for number in range(4))
    nested = pt.Compose(first, pt.Compose(second, third), fourth)
    assert list(stages(nested)) == [first, second, third, fourth]


class Pair(Operator):
    """Has two arguments."""

    def __init__(self, first=None, second=None):
        super().__init__()
        self.first = first
        self.second = second

    def transform(self, inp):
        return inp


def test_the_second_argument_is_looked_at_as_the_first_is():
    model, _ = scripted()
    inner = Holds(1)
    other = Holds(2)
    assert Pair(7, model).doing(TURNS) == Pair(model).doing(TURNS) == "running Pair"
    assert Pair(7, "x").doing(TURNS) == ""
    assert Pair(7, [inner]).subpipelines() == [inner]
    assert Pair(other, inner).subpipelines() == [other, inner]
    assert list(parts_of(Pair(7, model))) == list(parts_of(model))
    assert unidentified_stages(Pair(7, len)) == []
    assert len(unidentified_stages(Pair(7, scripted))) == 1
    for pair in (Pair(model), Pair(7, model)):
        plan = Plan("mine", set())
        plan.follow(pair, TURNS)
        assert [row["model"] for row in plan.rows] == ["unknown"]


# Parts


class Marked:
    """Has a fingerprint and a loader of texts."""

    def __init__(self, text=None):
        self.text = text

    def fingerprint(self):
        return "f"


def test_parts_are_found_once_in_arguments_and_loaders(tmp_path):
    (tmp_path / "words.txt").write_text("x")
    folder = str(tmp_path)
    file = str(tmp_path / "words.txt")
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


def test_an_operator_with_a_fingerprint_has_the_parts_it_holds(tmp_path):
    class Marked(Holds):
        def fingerprint(self):
            return "f"

    (tmp_path / "a.txt").write_text("")
    path = str(tmp_path / "a.txt")
    assert list(parts_of(Marked(path))) == [HeldFiles(path)]
    both = [str(tmp_path), path]
    assert list(parts_of(Marked(both))) == [str(tmp_path), HeldFiles(path)]
    assert list(parts_of(Marked({"a": path, "b": Path(path)}))) == [HeldFiles(path)] * 2


def test_parts_in_a_dict_are_found_and_its_order_does_not_matter():
    class Chooses(Operator):
        def __init__(self, stages):
            super().__init__()
            self.stages = stages

        def transform(self, inp):
            return inp

    first = Versioned("1")
    second = Versioned("2")
    chooses = Chooses({"a": first, "b": second})
    assert list(parts_of(chooses)) == [first, second]
    swapped = Chooses({"b": second, "a": first})
    assert (chooses == swapped, hash(chooses) == hash(swapped)) == (True, True)


# Unidentified stages


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


def test_an_unidentified_stage_inside_an_operator_is_named():
    assert unidentified_stages(Named(Opaque(lambda: 1))) == ["Opaque()"]
    assert unidentified_stages(Named(Named(Opaque(lambda: 1)))) == ["Opaque()"]

    class Marked(Fields):
        def fingerprint(self):
            return "f"

    marked = Marked(lambda: 1)
    assert unidentified_stages(marked) == [repr(marked)]  # only others are told by fingerprints


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


def test_all_unidentified_stages_are_named_in_their_order(tmp_path):
    first = Theirs("b", print, lambda: 1)
    second = Theirs("a", print, lambda: 1)
    third = Theirs("c", print, lambda: 1)
    for stage in (first, second, third):
        stage.call = stage.values[1]
    pipeline = first >> Holds() >> second >> third >> first
    assert unidentified_stages(pipeline) == ["Theirs(b)", "Theirs(a)", "Theirs(c)"]
    (tmp_path / "empty").mkdir()
    around = Theirs("around", Holds(1))
    around.inner = Holds(1)
    around.folder = tmp_path / "empty"
    assert unidentified_stages(around) == ["Theirs(around)"]  # whatever it wraps


def test_a_function_of_apply_makes_its_stage_unidentifiable():
    upper = pt.apply.query(lambda row: row["query"].upper())
    assert unidentified_stages(upper >> ikat.Interleave()) == [repr(upper)]
    assert not face(upper).one_row_per_turn
    assert face(upper).reads_texts


# Citations and limits


class Cites(Named):
    """Can cite, and has a limit."""

    def citing(self):
        return self._copy(end="cited")

    def limited(self, words):
        return self._copy(size=words)


def test_the_last_stage_that_can_is_changed():
    pipeline = Cites(size=1) >> Fields(1) >> Cites(size=2) >> Fields(2) >> Fields(3)
    first, second, third, *rest = stages(citing(pipeline))
    assert (first.end, second, third.end) == ("!", Fields(1), "cited")
    assert rest == [Fields(2), Fields(3)]
    assert (type(first), type(third)) == (Cites, Cites)
    first, second, third, *rest = stages(limited(pipeline, 9))
    assert (first.size, second, third.size) == (1, Fields(1), 9)
    assert rest == [Fields(2), Fields(3)]
    assert type(citing(Cites())) is Cites
    plain = Fields(1) >> Fields(2)
    assert citing(plain) is plain
    assert limited(plain, 9) is None


# Frames and texts


def test_a_shared_frame_is_copied_for_foreign_stages_alone():
    assert frame_for(Named(), TURNS) is TURNS
    copied = frame_for(Opaque(), TURNS)
    assert copied is not TURNS
    assert copied.equals(TURNS)


def test_what_a_foreign_stage_writes_is_not_seen_by_others():
    frame = TURNS.copy()
    own = frame_for(Theirs("x"), frame)
    own.loc[0, "query"] = "changed"
    own["more"] = 1
    own.insert(0, "first", 0)
    assert frame.equals(TURNS)


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
