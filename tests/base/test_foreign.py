"""Stages of other packages: the careful answers that a run gets of them, and their identity."""

import pandas as pd
import pyterrier as pt
import pytest
from small_operators import TURNS, Rewriter, Stage, Theirs, Versioned

import pyterrier_ikat as ikat
from pyterrier_ikat.errors import DataError
from pyterrier_ikat.foreign import (
    Foreign,
    HeldFiles,
    held_by,
)
from pyterrier_ikat.operator import (
    Operator,
    face,
    parts_of,
    unidentified_stages,
)
from pyterrier_ikat.planning import Plan
from pyterrier_ikat.study import System


def test_an_operator_is_its_own_face():
    operator = ikat.Interleave(num_results=5)
    assert face(operator) is operator
    assert operator.passages_at_most() == 5


def test_a_cutoff_reads_no_texts_and_sets_the_cut_of_a_plan():
    seen = face(pt.RankCutoff(7))
    plan = Plan("a", set())
    plan.fewer_passages = True
    assert not seen.reads_texts
    assert seen.doing(TURNS) == ""
    assert seen.plan(TURNS, plan) is TURNS
    assert (plan.cut, plan.fewer_passages) == (7, False)


def test_a_feature_union_has_its_branches_and_reads_texts(tea_index):
    union = tea_index.bm25() ** tea_index.bm25(k1=2.0)
    seen = face(union)
    assert isinstance(seen, Foreign)
    assert seen.reads_texts
    assert seen.subpipelines() == [tea_index.bm25(), tea_index.bm25(k1=2.0)]
    assert list(parts_of(union)) == [tea_index]


@pytest.mark.parametrize("hook", ["one_row_per_turn", "loads_models", "reads_texts"])
@pytest.mark.parametrize("value", [True, False])
def test_a_user_sets_a_hook_on_a_foreign_stage(hook, value):
    stage = pt.apply.generic(lambda frame: frame)
    setattr(stage, hook, value)
    assert getattr(face(stage), hook) is value


def test_a_foreign_stage_cites_by_its_own_method():
    plain = pt.apply.generic(lambda frame: frame)
    cited = pt.apply.generic(lambda frame: frame)
    assert face(plain).citing() is None
    plain.citing = lambda: cited
    assert face(plain).citing() is cited


def test_a_stage_may_write_into_a_frame_that_nobody_reads():
    assert face(ikat.Interleave()).own_frame(TURNS) is TURNS
    assert face(pt.apply.generic(lambda frame: frame)).own_frame(TURNS) is not TURNS


def test_questions_of_one_face_are_answered_by_the_other():
    def questions(cls):
        return {name for name in dir(cls) if not name.startswith("_")}

    own = questions(Operator) - questions(pt.Transformer)
    of_values = {
        "activity",
        "arguments",
        "choices",
        "drawn_as",
        "gives_texts",
        "last_in_repr",
        "least",
        "on_passages",
        "paths",
        "while_written",
    }
    both = questions(Foreign) | set(vars(Foreign(pt.RankCutoff(1))))
    assert own - of_values - both == set()


def test_a_foreign_stage_has_careful_answers():
    stage = Stage(num_results=20)
    seen = Foreign(stage)
    assert (seen.cutoff, seen.one_row_per_turn, seen.loads_models) == (None, False, False)
    assert (seen.reads_texts, seen.passages_at_most()) == (True, 20)
    assert seen.doing(pd.DataFrame()) == "running Stage"
    assert Foreign(Stage(num_results="20")).passages_at_most() is None
    cut = Foreign(pt.RankCutoff(3))
    assert (cut.cutoff, cut.reads_texts, cut.passages_at_most()) == (3, False, 3)
    assert cut.doing(pd.DataFrame()) == ""
    hooked = Foreign(Stage(reads_texts=False, loads_models=True, one_row_per_turn=True))
    assert (hooked.reads_texts, hooked.loads_models, hooked.one_row_per_turn) == (False, True, True)
    assert seen.arguments() == {"num_results": 20}
    assert seen.without_texts() is stage
    assert seen.limited(5) is None
    assert (seen.is_of_pyterrier, cut.is_of_pyterrier) == (False, True)


def test_only_a_cutoff_of_pyterrier_is_one():
    assert Foreign(Stage(k=5)).cutoff is None
    assert Foreign(Stage(k=5)).reads_texts


def test_a_package_beside_pyterrier_is_not_its_own(monkeypatch):
    monkeypatch.setattr(Stage, "__module__", "pyterrier_rag.backend")
    assert not Foreign(Stage()).is_of_pyterrier
    monkeypatch.setattr(Stage, "__module__", "pyterrier.transformer")
    assert Foreign(Stage()).is_of_pyterrier


def test_a_stage_that_promised_a_row_per_turn_is_held_to_it():
    turns = pd.DataFrame({"qid": ["1", "2"], "query": ["x", "y"]})
    with pytest.raises(DataError, match="got 2 rows and returned 1 row"):
        Foreign(Stage(one_row_per_turn=True)).transform(turns)
    assert len(Foreign(Stage()).transform(turns)) == 1


def test_parts_of_a_foreign_stage_are_its_pipelines_and_files(tmp_path):
    inner = Rewriter()
    finder = Stage()
    assert Foreign(inner >> finder).subpipelines() == [inner, finder]
    union = Rewriter() | Rewriter()
    assert len(Foreign(union).subpipelines()) == 2
    assert Foreign(union).parts() == [*Foreign(union).subpipelines(), *held_by(union)]
    parts = Foreign(Stage(path=tmp_path)).parts()
    assert parts == [HeldFiles(str(tmp_path))]


class Around(Rewriter):
    def __init__(self, one, many):
        super().__init__(one=one, many=many)


def test_pipelines_of_all_attributes_are_inner_ones():
    first = Rewriter()
    second = Rewriter()
    third = Rewriter()
    assert Foreign(Around(first, [second, third])).subpipelines() == [first, second, third]


class PlanOf:
    def __init__(self):
        self.cuts = []

    def cut_at(self, depth):
        self.cuts.append(depth)

    def foreign(self, stage, frame):
        return frame.assign(seen=type(stage.stage).__name__)


def test_a_cutoff_changes_the_plans_cut_a_stage_its_frame():
    plan = PlanOf()
    frame = pd.DataFrame({"qid": ["1"]})
    assert Foreign(pt.RankCutoff(7)).plan(frame, plan) is frame
    assert plan.cuts == [7]
    assert Foreign(pt.RankCutoff(0)).plan(frame, PlanOf()) is frame
    assert Foreign(Stage()).plan(frame, plan)["seen"].tolist() == ["Stage"]
    assert plan.cuts == [7]


def test_a_stage_is_shown_by_its_label_or_class():
    class Drawn(Rewriter):
        schematic = {"label": "a drawing"}

    assert Foreign(Drawn()).name_shown() == "a drawing"
    assert Foreign(Rewriter()).name_shown() == "Rewriter"
    assert Foreign(pt.apply.query(len)).name_shown() == type(pt.apply.query(len)).__name__


@pytest.mark.parametrize("drawing", [{}, {"help_url": ""}, {"label": ""}, {"label": None}])
def test_a_drawing_without_a_label_has_the_name_of_its_class(drawing):
    stage = type("Plain", (Theirs,), {"schematic": drawing})("x")
    assert Foreign(stage).name_shown() == "Plain"
    assert Foreign(stage).doing(TURNS) == "running Plain"


# Fingerprints


def test_a_fingerprint_identifies_a_foreign_stage(tmp_path, tea_index):
    assert unidentified_stages(Versioned("1") >> tea_index.bm25()) == []
    data = pt.get_dataset("ikat:sample")
    bm25 = ikat.PassageIndex(tmp_path / "s").index(data.get_corpus_iter(verbose=False)).bm25()
    out = tmp_path / "runs"
    ikat.run({"mine": Versioned("1") >> bm25}, data, out=out)
    ikat.run({"mine": Versioned("1") >> bm25}, data, out=out)  # no AlikeWarning
    with pytest.raises(ikat.UsageError, match="holds a run with different parts"):
        ikat.run({"mine": Versioned("2") >> bm25}, data, out=out)


class WithDepth(Versioned):
    """A stage whose fingerprint says nothing about its settings, which its repr shows."""

    def __init__(self, version, depth):
        self.version = version
        self.depth = depth

    def __repr__(self):
        return f"WithDepth({self.depth})"


def test_a_stage_with_a_fingerprint_is_named_by_its_class():
    system = System.of(Versioned("1") >> WithDepth("2", 5) >> WithDepth("3", 5))
    identity = system.parameters()
    assert identity["parts"] == {"Versioned": "1", "WithDepth": "2", "WithDepth 2": "3"}


def test_the_repr_of_a_stage_with_a_fingerprint_counts_too():
    of_five = System.of(WithDepth("2", 5)).parameters()
    of_six = System.of(WithDepth("2", 6)).parameters()
    assert of_five["parts"] == of_six["parts"]
    assert of_five["stages"] != of_six["stages"]
