"""What makes a run another run: texts and models that changed behind the same path."""

import os

import pyterrier as pt
import pytest

import pyterrier_ikat as ikat
from pyterrier_ikat.operator import Operator
from pyterrier_ikat.retrieve import PassageText
from pyterrier_ikat.study import System


def _parameters(pipeline):
    return System.of(pipeline).parameters()


class Index:
    """An index as far as sameness looks at it."""

    def __init__(self, holds, texts=None):
        self.holds, self.text = holds, None if texts is None else PassageText(texts)

    def fingerprint(self):
        return self.holds

    def __repr__(self):
        return "Index()"


class Searches(pt.Transformer):
    """A foreign retriever over an index."""

    def __init__(self, index):
        super().__init__()
        self.index = index

    def transform(self, inp):
        return inp

    def __repr__(self):
        return f"Searches({self.index!r})"


class Reads(Operator):
    """A stranger's operator, whose argument of any name may be a folder."""

    def __init__(self, lexicon, inner=None):
        super().__init__()
        self.lexicon, self.inner = lexicon, inner

    def transform(self, inp):
        return inp


def test_other_texts_beside_the_same_vectors_are_another_run():
    known = _parameters(Searches(Index("vectors", Index("tea"))))
    assert _parameters(Searches(Index("vectors", Index("tea")))) == known
    assert known["parts"] == {"index": "vectors", "index 2": "tea"}
    changed = _parameters(Searches(Index("vectors", Index("coffee"))))
    assert [name for name in known if changed[name] != known[name]] == ["parts"]


class Vectors(Index):
    """One that shows where it lies, and the index of its texts."""

    def __init__(self, place):
        self.texts = Index("tea")
        super().__init__("vectors", self.texts)
        self.place = place

    def __repr__(self):
        return f"Vectors({self.place!r}, {self.texts!r})"


def test_index_location_counts_in_no_stage_nor_that_of_its_texts():
    known = _parameters(Searches(Vectors("here")))
    assert known["stages"] == {"1": "Searches(index)"}
    assert _parameters(Searches(Vectors("there"))) == known


@pytest.mark.parametrize(
    "made",
    [
        lambda folder: ikat.CrossEncoder(folder),
        lambda folder: ikat.Ensemble(["hub/name", ikat.BiEncoder(folder)]),
        lambda folder: ikat.RankStatements(ikat.Ensemble([folder]), 3),
        lambda folder: ikat.generate.Seq2SeqRewrite(folder) % 10,
        lambda folder: Reads("no folder", Reads(folder)),
        lambda folder: ikat.RRF(
            Searches(Index("tea")) >> ikat.CrossEncoder(folder), Searches(Index("tea"))
        ),
    ],
)
def test_model_trained_on_in_its_folder_makes_another_run(made, tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "weights.bin").write_bytes(b"1234")
    system = made(str(folder))
    known = _parameters(system)
    assert _parameters(system) == known
    (folder / "weights.bin").write_bytes(b"4321")
    os.utime(folder / "weights.bin", ns=(1, 1))
    changed = _parameters(system)
    assert [name for name in known if changed[name] != known[name]] == ["parts"]


def test_models_of_the_hub_stand_for_themselves():
    system = (
        ikat.Rewrite(ikat.llm("hf:hub/name"))
        >> Searches(Index("tea"))
        >> ikat.CrossEncoder("hub/name")
    )
    assert list(_parameters(system)["parts"]) == ["ikat.llm('hf:hub/name')", "index"]


def test_a_local_model_is_told_apart_by_its_files(tmp_path):
    def known():
        return _parameters(Searches(ikat.llm(f"hf:{tmp_path}")))["parts"]

    before = known()
    assert known() == before
    (tmp_path / "weights.bin").write_bytes(b"1")
    assert known() != before


def test_an_address_in_memory_makes_no_other_run():
    class Plain(pt.Transformer):
        def transform(self, inp):
            return inp

    assert _parameters(Plain() >> Plain())["stages"] == _parameters(Plain() >> Plain())["stages"]
