"""Importing a CIFF file, with a ``pyciff`` that writes what the real one writes; that one compiles with Rust and isn't at hand."""

import hashlib
import importlib
import re
import sys

import pandas as pd
import pytest

import pyterrier_ikat as ikat
from pyterrier_ikat.errors import DataError, UsageError
from pyterrier_ikat.retrieve.ciff import import_ciff

PYCIFF = """
import json
import numpy as np

def ciff_to_pisa(ciff, stem):
    try:
        docs = json.load(open(ciff))
    except ValueError:
        raise RuntimeError("not a CIFF file")
    terms = sorted({term for text in docs.values() for term in text.split()})
    texts = [text.split() for text in docs.values()]
    holders = [[place for place, text in enumerate(texts) if term in text] for term in terms]
    freqs = [[texts[place].count(term) for place in places] for term, places in zip(terms, holders)]
    lists = {"docs": [[len(docs)], *holders], "freqs": freqs, "sizes": [[len(text) for text in texts]]}
    for name, rows in lists.items():
        with open(f"{stem}.{name}", "wb") as file:
            for row in rows:
                file.write(np.array([len(row), *row], "<u4").tobytes())
    for name, rows in {"terms": terms, "documents": docs}.items():
        with open(f"{stem}.{name}", "w") as file:
            file.writelines(f"{row}\\n" for row in rows)
"""
CIFF = '{"d2": "mint tea tea garden", "d1": "coffee has caffeine", "d3": "tram line in spring"}'
CORPUS = [{"docno": f"d{n}", "text": text} for n, text in enumerate(["Unused.", "Coffee!", "Mint, tea, tea: garden", "A tram line"])]


@pytest.fixture
def pyciff(tmp_path, monkeypatch):
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "pyciff.py").write_text(PYCIFF)
    monkeypatch.syspath_prepend(str(tmp_path / "lib"))
    importlib.invalidate_caches()


@pytest.fixture
def ciff(tmp_path):
    path = tmp_path / "lucene.ciff"
    path.write_text(CIFF)
    return path


def test_an_imported_index_finds_by_the_files_terms_and_gives_the_corpus_texts(tmp_path, pyciff, ciff, capfd):
    index = import_ciff(ciff, tmp_path / "i", iter(CORPUS))
    assert (len(index), index.describe()["stemmer"]) == (3, "none")
    assert index.describe()["sha256"] == hashlib.sha256(CIFF.encode()).hexdigest()
    found = index.bm25()(pd.DataFrame({"qid": ["q"], "query": ["tea caffeine caffeine"]}, dtype=object))
    assert found[["docno", "text"]].values.tolist() == [["d1", "Coffee!"], ["d2", "Mint, tea, tea: garden"]]
    assert ikat.PassageIndex(tmp_path / "i").text_loader()(pd.DataFrame({"docno": ["d3"]}))["text"].tolist() == ["A tram line"]
    assert capfd.readouterr().out == ""


def test_a_passage_without_text_is_named_and_nothing_is_left(tmp_path, pyciff, ciff):
    with pytest.raises(DataError, match=r"the corpus has no text of 'd3', which .*lucene.ciff has: give the collection that was indexed"):
        import_ciff(ciff, tmp_path / "i", CORPUS[:3])
    assert not (tmp_path / "i").exists()


def test_a_damaged_file_is_reported_in_the_readers_words(tmp_path, pyciff, ciff):
    ciff.write_text("{")
    with pytest.raises(DataError, match="PISA failed to write its index .*not a CIFF file"):
        import_ciff(ciff, tmp_path / "i", CORPUS)


def test_a_missing_file_and_unknown_options_are_named(tmp_path, pyciff):
    with pytest.raises(DataError, match="gone.ciff: no such file; give a CIFF file"):
        import_ciff(tmp_path / "gone.ciff", tmp_path / "i", CORPUS)
    with pytest.raises(UsageError, match="stemmer='porter' is unknown: give one of porter2, none"):
        import_ciff(tmp_path / "gone.ciff", tmp_path / "i", CORPUS, stemmer="porter")


def test_without_pyciff_the_install_line_is_named(tmp_path, ciff, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyciff", None)
    with pytest.raises(UsageError, match=re.escape("pip install 'pyterrier-pisa[ciff]'")):
        import_ciff(ciff, tmp_path / "i", CORPUS)
