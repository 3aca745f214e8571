"""What makes a run another run: texts and models that changed behind the same path."""

import os

import pytest

import pyterrier_ikat as ikat
from pyterrier_ikat.retrieve import PassageText
from pyterrier_ikat.runs.identity import parameters_of


class Index:
    """An index as far as sameness looks at it."""

    def __init__(self, holds, texts=None):
        self.holds, self.text = holds, None if texts is None else PassageText(texts)

    def fingerprint(self):
        return self.holds


def test_other_texts_beside_the_same_vectors_are_another_run():
    known = parameters_of({"index": Index("vectors", Index("tea"))}, [])
    assert parameters_of({"index": Index("vectors", Index("tea"))}, []) == known
    changed = parameters_of({"index": Index("vectors", Index("coffee"))}, [])
    assert [name for name in known if changed[name] != known[name]] == ["texts"]


@pytest.mark.parametrize(
    "made",
    [
        lambda folder: ikat.CrossEncoder(folder),
        lambda folder: [ikat.CrossEncoder("hub/name"), ikat.Ensemble(["hub/name", ikat.BiEncoder(folder)])],
        lambda folder: ikat.Ensemble([folder]),
        lambda folder: ikat.Seq2SeqRewrite(folder),
        lambda folder: ikat.Rewrite(ikat.llm("recorded:sample"), prompts=folder),
    ],
)
def test_a_model_that_was_trained_on_in_its_folder_makes_another_run(made, tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "weights.bin").write_bytes(b"1234")
    resources = {"index": Index("tea"), "reranker": made(str(folder)), "unused": ikat.BiEncoder(str(tmp_path))}
    known = parameters_of(resources, ["reranker"])
    assert list(known["folders"]) == [str(folder)]
    assert parameters_of(resources, ["reranker"]) == known
    (folder / "weights.bin").write_bytes(b"4321")
    os.utime(folder / "weights.bin", ns=(1, 1))
    changed = parameters_of(resources, ["reranker"])
    assert [name for name in known if changed[name] != known[name]] == ["folders"]


def test_models_of_the_hub_stand_for_themselves():
    resources = {"index": Index("tea"), "reranker": ikat.CrossEncoder("hub/name"), "llm": ikat.llm("hf:hub/name")}
    assert parameters_of(resources, resources)["folders"] == {}
