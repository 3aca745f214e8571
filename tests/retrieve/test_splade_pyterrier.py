"""Indexes of vectors that PyTerrier's own indexer made: their description and their terms."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

import pyterrier_ikat as ikat
from pyterrier_ikat.retrieve import splade as splade_module

PISA_META = {"format": "pisa", "stemmer": "none"}


@pytest.fixture
def theirs(tmp_path):
    (tmp_path / "inv.sizes").write_bytes((5).to_bytes(4, "little"))
    for name in splade_module.PYTERRIER_FILES:
        if name != "inv.sizes":
            (tmp_path / name).write_bytes(b"x")
    (tmp_path / "pt_meta.json").write_text(json.dumps(PISA_META))
    return tmp_path


def test_an_index_of_pyterrier_is_described_like_ours(theirs):
    described = splade_module._describe_pyterrier_index(theirs, "a/model")
    [[count, checksum]] = described.pop("parts")
    assert (count, described) == (5, {"model": "a/model", "encoded_by": "a/model"})
    (theirs / "fwd.doclex").write_bytes(b"longer")
    [[_, other]] = splade_module._describe_pyterrier_index(theirs, "a/model")["parts"]
    assert other != checksum
    (theirs / "pt_meta.json").rename(theirs / "pt_pisa_config.json")
    assert splade_module._describe_pyterrier_index(theirs, "a/model")["parts"][0][0] == 5
    (theirs / "fwd.doclex").unlink()
    with pytest.raises(FileNotFoundError, match="doclex"):
        splade_module._describe_pyterrier_index(theirs, "a/model")


@pytest.mark.parametrize("name", splade_module.PYTERRIER_FILES)
def test_each_file_of_an_index_of_pyterrier_counts(theirs, name):
    [[_, before]] = splade_module._describe_pyterrier_index(theirs, "a/model")["parts"]
    with (theirs / name).open("ab") as file:
        file.write(b"more")
    [[_, after]] = splade_module._describe_pyterrier_index(theirs, "a/model")["parts"]
    assert before != after
    (theirs / name).unlink()
    with pytest.raises(FileNotFoundError, match=name):
        splade_module._describe_pyterrier_index(theirs, "a/model")


def test_the_first_description_and_the_models_files_count(theirs, tmp_path):
    other = json.dumps({"format": "other", "stemmer": "porter2"})
    (theirs / "pt_pisa_config.json").write_text(other)
    model = tmp_path / "models" / "m"
    model.mkdir(parents=True)
    checksums = set()
    for weights in ("first", "retrained"):
        (model / "weights").write_text(weights)
        checksums.add(splade_module._describe_pyterrier_index(theirs, str(model))["encoded_by"])
    assert len(checksums) == 2
    assert str(model) not in checksums


@pytest.mark.parametrize(
    ("meta", "told"),
    [
        ({"format": "pisa", "stemmer": "porter2"}, "of format 'pisa' with stemmer 'porter2'"),
        ({"format": "other", "stemmer": "none"}, "of format 'other' with stemmer 'none'"),
        ({"format": "pisa"}, "with stemmer None"),
    ],
)
def test_an_index_of_words_is_no_index_of_vectors(theirs, meta, told):
    (theirs / "pt_meta.json").write_text(json.dumps(meta))
    with pytest.raises(ikat.DataError, match=told):
        splade_module._describe_pyterrier_index(theirs, "a/model")
    (theirs / "pt_meta.json").write_text(json.dumps({"stemmer": "none"}))
    assert splade_module._describe_pyterrier_index(theirs, "a/model")
    with pytest.raises(ikat.UsageError, match="doesn't say which model encoded its passages"):
        splade_module._describe_pyterrier_index(theirs, None)


def test_terms_are_named_by_the_tokens_that_there_are():
    index = ikat.SpladeIndex("i", "m")
    assert [index._term_name(number) for number in range(2)] == ["0", "1"]
    index._tokens = ["tea", "##s"]  # of an index of PyTerrier
    assert [index._term_name(number) for number in range(3)] == ["tea", "##s", "2"]


class ThreeTerms:
    """A sparse model of three terms, whose tokenizer has two tokens and is itself."""

    def __init__(self):
        self.tokenizer = self

    def __len__(self):
        return 2

    def convert_ids_to_tokens(self, ids):
        return [f"t{number}" for number in ids]

    def encode_document(self, texts, show_progress_bar):
        return np.zeros((1, 3))


@pytest.fixture
def index_of_pyterrier(monkeypatch):
    """Makes an index of PyTerrier with so many terms."""

    def make(term_count):
        monkeypatch.setattr(splade_module, "made_by_pyterrier", lambda folder: True)
        monkeypatch.setattr(splade_module, "count_terms", lambda folder: term_count)
        index = ikat.SpladeIndex("i", "a/model")
        monkeypatch.setattr(index, "opened", lambda: SimpleNamespace(folder="i"))
        return index

    return make


@pytest.mark.parametrize("term_count", [2, 3])
def test_an_index_of_pyterrier_has_the_tokens_of_the_model(index_of_pyterrier, term_count):
    tokens = index_of_pyterrier(term_count)._tokens_of_index(ThreeTerms())
    assert tokens == ["t0", "t1", "2"]


def test_an_index_of_pyterrier_has_no_more_terms_than_the_model(index_of_pyterrier):
    index = index_of_pyterrier(4)
    with pytest.raises(ikat.DataError, match="has 4 terms, the model 'a/model' only 3: give the m"):
        index._tokens_of_index(ThreeTerms())
