"""Which index of a folder is opened, with which arguments, and how passages are added to it."""

import pandas as pd
import pyterrier as pt
import pytest

import pyterrier_ikat as ikat
from pyterrier_ikat.errors import DataError, UsageError
from pyterrier_ikat.retrieve import index as index_module
from pyterrier_ikat.retrieve import pisa

CORPUS = [{"docno": "d1", "text": "the teas"}, {"docno": "d2", "text": "a walk"}]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("index") / "i"
    ikat.PassageIndex(path).index(CORPUS)
    return str(path)


def search(index, query, **options):
    return index.bm25(**options).search(query)["docno"].tolist()


def test_bm25_has_lucenes_parameters_and_a_thousand_passages(folder):
    index = ikat.PassageIndex(folder)
    plain = index.bm25()
    assert (plain.k1, plain.b, plain.num_results, plain.cache) == (0.9, 0.4, 1000, None)
    assert index.retriever() == plain
    full = index.bm25(1.2, 0.75, 5, "cache")
    assert (full.k1, full.b, full.num_results, str(full.cache)) == (1.2, 0.75, 5, "cache")
    same = index.retriever(5, "cache", k1=1.2, b=0.75)
    assert (same.k1, same.b, same.num_results, str(same.cache)) == (1.2, 0.75, 5, "cache")


@pytest.mark.parametrize(
    ("options", "tea", "the"),
    [
        ({}, ["d1"], []),
        ({"stemmer": "none"}, [], []),
        ({"stops": "none"}, ["d1"], ["d1"]),
        ({"stops": "terrier"}, ["d1"], []),
        ({"engine": "eager"}, ["d1"], []),
    ],
)
@pytest.mark.filterwarnings("ignore::pyterrier_ikat.retrieve.NoResultWarning")
def test_an_index_is_built_with_its_stemmer_and_stop_words(tmp_path, options, tea, the):
    index = ikat.PassageIndex(tmp_path / "i").index(CORPUS, **options)
    assert search(index, "tea") == tea
    assert search(index, "the") == the
    described = index.describe()
    expected = {"stemmer": "porter2", "stops": "lucene", "engine": "eager"} | options
    assert {name: described[name] for name in expected} == expected
    assert described["bm25"] == [0.9, 0.4]


@pytest.mark.parametrize(
    "options", [{"stemmer": "krovetz"}, {"stops": "none of them"}, {"engine": "lucene"}]
)
def test_unknown_settings_are_refused_before_the_corpus_is_read(tmp_path, unread_corpus, options):
    with pytest.raises(UsageError, match=next(iter(options))):
        ikat.PassageIndex(tmp_path / "i").index(unread_corpus, **options)
    assert not (tmp_path / "i").exists()


@pytest.mark.parametrize(
    ("limit", "installed", "engine"),
    [(2, True, "eager"), (1, False, "eager"), (3, True, "eager"), (1, True, "pisa")],
)
def test_pisa_is_for_more_passages_where_it_is_installed(
    tmp_path, monkeypatch, limit, installed, engine
):
    built = []
    monkeypatch.setattr(index_module, "EAGER_UP_TO", limit)
    monkeypatch.setattr(pisa, "has_pisa", lambda: installed)
    monkeypatch.setattr(pisa, "build_words", lambda *given: built.append(given[2:]))
    if engine == "pisa":
        monkeypatch.setitem(index_module.ENGINES, "pisa", lambda folder, described: None)
    described = ikat.PassageIndex(tmp_path / "i").index(CORPUS).describe()
    assert described["engine"] == engine
    assert built == ([("porter2", (0.9, 0.4), 2)] if engine == "pisa" else [])


def test_a_folder_is_opened_by_kind_with_its_texts(folder):
    loader = pt.apply.generic(lambda rows: rows.assign(text="own " + rows["docno"]))
    for given in (ikat.Index(folder).open(), ikat.Index(folder).open("bm25")):
        assert given == ikat.PassageIndex(folder)
    own = ikat.Index(folder, text=loader)
    assert own.open().text is loader
    assert own.open().bm25().search("tea")["text"].tolist() == ["own d1"]
    assert repr(own).startswith(f"ikat.Index({folder!r}, text=")
    assert own != ikat.Index(folder)
    rows = ikat.Index(folder).text_loader()(pd.DataFrame({"docno": ["d2"]}))
    assert rows["text"].tolist() == ["a walk"]


def test_passages_are_added_and_found(tmp_path):
    path = tmp_path / "i"
    ikat.PassageIndex(path).index(CORPUS)
    index = ikat.Index(path)
    assert index.add([{"docno": "d3", "text": "a tea"}]) is index
    assert search(index.open(), "tea") == ["d3", "d1"]
    assert len(index.open()) == 3


def test_an_empty_folder_has_no_kind_and_says_how_it_is_made(tmp_path):
    index = ikat.Index(tmp_path / "none")
    assert index.kinds == []
    for use in (index.open, index.text_loader, lambda: index.add(CORPUS)):
        with pytest.raises(DataError, match="there is no such folder; make it with"):
            use()
    with pytest.raises(UsageError, match="is unknown: give one of bm25, splade, dense"):
        index.open("colbert")


def test_a_model_is_not_for_words(folder):
    for kind in (None, "bm25"):
        with pytest.raises(UsageError, match="is a passage index for BM25"):
            ikat.Index(folder).open(kind, "some/model")


def folder_of(path, *names):
    path.mkdir()
    for name in names:
        (path / name).parent.mkdir(exist_ok=True)
        (path / name).write_text("{}")
    return path


def test_the_kinds_of_a_folder_are_told_by_its_files(tmp_path):
    theirs = folder_of(tmp_path / "pisa", "pt_meta.json", "inv.docs")
    lucene = folder_of(tmp_path / "lucene", "segments_1")
    ours = folder_of(tmp_path / "ours", "dense-2/ikat.json", "bm25-2/ikat.json")
    assert ikat.Index(theirs).kinds == ["splade"]
    assert ikat.Index(lucene).kinds == ["bm25"]
    assert ikat.Index(ours).kinds == ["bm25", "dense"]
    assert ikat.Index(folder_of(tmp_path / "none")).kinds == []
    assert ikat.Index(ours) == ikat.Index(str(ours))
    assert ikat.Index(ours).path == str(ours)


def test_an_index_of_lucene_is_for_words_and_gets_no_passage(tmp_path):
    path = folder_of(tmp_path / "lucene", "segments_1")
    with pytest.raises(
        UsageError, match="is an index of Lucene: passages are added .* by Anserini"
    ):
        ikat.Index(path).add(CORPUS)
    with pytest.raises(
        UsageError,
        match="holds bm25, not dense: `ikat index SOURCE PATH --dense MODEL` makes one e",
    ):
        ikat.Index(path).open("dense")
    with pytest.raises(UsageError, match="is a passage index for BM25: omit splade_model="):
        ikat.Index(path).open(model="m")


@pytest.mark.parametrize(
    ("engines", "kind", "told"),
    [
        (["splade-2", "dense-2"], None, "holds splade, dense: choose one, retriever='splade' or r"),
        (["dense-2"], "bm25", r"holds dense, not bm25: `ikat index SOURCE \S+ours` adds it"),
        (["bm25-2"], "splade", r"not splade: `ikat index SOURCE \S+ours --splade MODEL` adds it"),
        (["bm25-2"], "words", "retriever='words' is unknown: give one of bm25, splade, dense"),
    ],
)
def test_a_kind_that_is_not_there_is_told_with_what_is(tmp_path, engines, kind, told):
    path = folder_of(tmp_path / "ours", *[f"{engine}/ikat.json" for engine in engines])
    with pytest.raises(UsageError, match=told):
        ikat.Index(path).open(kind)


def test_the_only_kind_is_opened_with_model_and_texts(tmp_path, monkeypatch):
    opened = []
    monkeypatch.setattr(ikat.DenseIndex, "opened", lambda index: opened.append(index))
    path = folder_of(tmp_path / "ours", "dense-2/ikat.json")
    loader = pt.apply.generic(lambda rows: rows)
    index = ikat.Index(path, text=loader).open(model="moved")
    assert (type(index), index.path, index.model) == (ikat.DenseIndex, str(path), "moved")
    assert index.text is loader
    assert opened == [index]
    assert ikat.Index(path).open("dense").model is None


def test_pisa_that_is_not_installed_is_told_before_reading(tmp_path, monkeypatch, unread_corpus):
    monkeypatch.setattr(pisa, "has_pisa", lambda: False)
    with pytest.raises(UsageError, match="pyterrier-pisa isn't installed"):
        ikat.PassageIndex(tmp_path / "i").index(unread_corpus, engine="pisa")
    assert not (tmp_path / "i").exists()


def test_arguments_of_a_folder_are_those_of_its_index(folder):
    with pytest.raises(UsageError, match="devices encode, and .* has no vectors"):
        ikat.Index(folder).add(CORPUS, devices=["cpu"])
    with pytest.raises(UsageError, match="no field 'title'"):
        ikat.Index(folder).text_loader("title")


def test_lucenes_index_and_one_of_several_have_the_texts(tmp_path, monkeypatch):
    for kind in (ikat.LuceneIndex, ikat.SpladeIndex, ikat.DenseIndex):
        monkeypatch.setattr(kind, "opened", lambda index: None)
    loader = pt.apply.generic(lambda rows: rows)
    lucene = ikat.Index(folder_of(tmp_path / "lucene", "segments_1"), text=loader).open()
    assert (type(lucene), lucene.text) == (ikat.LuceneIndex, loader)
    both = folder_of(tmp_path / "both", "dense-2/ikat.json", "splade-2/ikat.json")
    assert ikat.Index(both).text_loader() == ikat.SpladeIndex(both).text_loader()
