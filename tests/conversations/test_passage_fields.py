"""The fields of passages: published forms are read with titles; unread fields cause a warning."""

import gzip
import json
import warnings
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pyterrier_ikat as ikat
from pyterrier_ikat.conversations.irds import IrdsDataset
from pyterrier_ikat.conversations.passage_fields import (
    CollectionWarning,
    Unread,
    joined,
    read_fields,
)

FORMS = {
    # beir-cellar/beir, corpus.jsonl
    "BEIR": (
        {"_id": "d1", "title": "Rooibos tea", "text": "A red drink.", "metadata": {"url": "u"}},
        "d1",
        "Rooibos tea A red drink.",
    ),
    "BEIR without a title": (
        {"_id": "d1", "title": "", "text": "A red drink."},
        "d1",
        "A red drink.",
    ),
    # castorini/anserini, JsonCollection.java
    "Pyserini": (
        {"id": "d1", "title": "Rooibos tea", "contents": "A red drink."},
        "d1",
        "Rooibos tea A red drink.",
    ),
    # castorini/anserini, MsMarcoV2PassageCollection.java
    "MS MARCO v2": (
        {"pid": "m_0_1", "passage": "A red drink.", "spans": "(1,2)", "docid": "m_0"},
        "m_0_1",
        "A red drink.",
    ),
    # castorini/anserini, MsMarcoV2DocCollection.java
    "MS MARCO v2, documents": (
        {
            "docid": "m_0",
            "url": "u",
            "title": "Rooibos",
            "headings": "Tea\nDrinks",
            "body": "It is red.",
        },
        "m_0",
        "Rooibos Tea\nDrinks It is red.",
    ),
    "MS MARCO v2.1, segments": (
        {
            "docid": "m_0#1",
            "url": "u",
            "title": "Rooibos",
            "headings": "",
            "segment": "It is red.",
            "start_char": 3,
            "end_char": 9,
        },
        "m_0#1",
        "Rooibos It is red.",
    ),
    # Wikipedia of 2018 of DPR as JSON; ids are often numbers
    "DPR": ({"id": 12, "title": "Rooibos", "text": "It is red."}, "12", "Rooibos It is red."),
    # allenai/ir_datasets as PyTerrier gives it
    "PyTerrier": (
        {"docno": "d1", "title": "Rooibos", "body": "It is red.", "url": "u"},
        "d1",
        "Rooibos It is red.",
    ),
    "TREC iKAT 2023": (
        {"doc_id": "d1", "passage_id": 4, "passage_text": "It is red.", "title": None},
        "d1:4",
        "It is red.",
    ),
    # IBM/mt-rag-benchmark: the first line of each text is its title
    "MTRAG": (
        {"_id": "d1-0", "id": "d1-0", "title": "Rooibos", "text": "Rooibos\nIt is red."},
        "d1-0",
        "Rooibos\nIt is red.",
    ),
}


@pytest.fixture
def write(tmp_path):
    def write(*items, name="a.jsonl"):
        path = tmp_path / name
        path.write_text("".join(json.dumps(item) + "\n" for item in items), encoding="utf-8")
        return path

    return write


@pytest.mark.parametrize("form", FORMS)
def test_a_published_form_is_read_with_its_title_and_no_warning(form, write):
    item, docno, text = FORMS[form]
    [passage] = ikat.PassageFiles(write(item))
    assert (passage["docno"], passage["text"]) == (docno, text)


@pytest.mark.parametrize("form", FORMS)
def test_dicts_and_frames_of_a_form_are_indexed_as_its_file(form, write, tmp_path):
    item, docno, text = FORMS[form]
    other = dict(item)
    for name, value in item.items():
        if name == "title":
            other[name] = None
        if name in ("_id", "id", "pid", "docid", "docno", "doc_id"):
            other[name] = f"{value}x"
    corpora = [
        [item, other],
        iter([item, other]),
        pd.DataFrame([item, other], index=["z", "z"]),
        ikat.PassageFiles(write(item)),
    ]
    for number, corpus in enumerate(corpora):
        index = ikat.PassageIndex(tmp_path / f"i{number}").index(corpus)
        assert index.text_loader()(pd.DataFrame({"qid": ["1"], "docno": [docno]}))[
            "text"
        ].tolist() == [text]


@pytest.mark.parametrize(
    ("item", "told"),
    [
        (
            {"id": "d1", "contents": "Red.", "abstract": "Rooibos tea."},
            "a.jsonl, line 1: nothing reads the field abstract; a passage's text is",
        ),
        (
            {"id": "d1", "contents": "Red.", "Title": "Rooibos", "keywords": ["tea"]},
            "nothing reads the fields Title, keywords",
        ),
        ({"id": "d1", "contents": "Red.", "text": "Rooibos"}, "nothing reads the field text"),
        ({"id": "d1", "contents": "Red.", "title": ["Rooibos"]}, "nothing reads the field title"),
        ({"id": 17, "docno": "d1", "text": "Red."}, "nothing reads the field id"),
    ],
)
def test_a_field_that_nothing_reads_is_told_once(item, told, write, tmp_path):
    path = write(
        item, {**item, "id": "d2", "docno": "d2"} if "docno" in item else {**item, "id": "d2"}
    )
    with pytest.warns(CollectionWarning) as said:
        assert len(list(ikat.PassageFiles(path))) == 2
    assert len(said) == 1
    assert told in str(said[0].message)
    with pytest.warns(CollectionWarning, match="the corpus, passage 1: nothing reads"):
        ikat.PassageIndex(tmp_path / "i").index([item])


@pytest.mark.parametrize(
    "more",
    [
        {"abstract": ""},
        {"abstract": None},
        {"tags": []},
        {"text": "Red."},
        {"docno": "d1"},
        {"metadata": {"a": 1}},
    ],
)
def test_an_empty_or_equal_field_is_not_told(more, write):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        [passage] = ikat.PassageFiles(write({"id": "d1", "contents": "Red.", **more}))
    assert passage["text"] == "Red."


@given(
    st.text(st.characters(exclude_categories=["Cs"])),
    st.text(st.characters(exclude_categories=["Cs"])),
)
def test_title_and_text_keep_all_their_words(title, text):
    read, unread = read_fields({"docno": "d", "title": title, "text": text})
    words = (title + " " + text).split()
    first = text.lstrip().split("\n", 1)[0].strip()
    assert read["text"].split() == (text.split() if title.strip() == first else words)
    assert unread == []


def test_a_beir_folder_is_its_corpus_without_its_queries(write, tmp_path):
    write({"_id": "d1", "title": "Rooibos tea", "text": "A red drink."}, name="corpus.jsonl")
    write({"_id": "q1", "text": "rooibos?"}, name="queries.jsonl")
    assert [one["docno"] for one in ikat.PassageFiles(tmp_path)] == ["d1"]


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_a_json_file_of_a_folder_holds_a_passage_array_or_lines(tmp_path, suffix):
    one = {"id": "d1", "title": "T", "contents": "Text 1."}
    two = {"id": "d2", "title": "T", "contents": "Text 2."}
    three = {"id": "d3", "title": "T", "contents": "Text 3."}
    four = {"id": "d4", "title": "T", "contents": "Text 4."}
    for name, text in (
        ("a", json.dumps(one, indent=1)),
        ("b", json.dumps([two, three])),
        ("c", json.dumps(four) + "\n"),
    ):
        (tmp_path / f"{name}.json{suffix}").write_bytes(
            gzip.compress(text.encode()) if suffix else text.encode()
        )
    (tmp_path / "topics.json").write_text("[]")
    found = list(ikat.PassageFiles(tmp_path))
    assert [passage["docno"] for passage in found] == ["d1", "d2", "d3", "d4"]
    texts = [passage["text"] for passage in found]
    assert texts == ["T Text 1.", "T Text 2.", "T Text 3.", "T Text 4."]
    (tmp_path / f"b.json{suffix}").unlink()
    (tmp_path / "b.json").write_text(json.dumps([two, {"id": "d9"}]))
    with pytest.raises(
        ikat.DataError, match=r"b.json, passage 2: not a passage \(passage d9 has no text"
    ):
        list(ikat.PassageFiles(tmp_path / "b.json"))


def test_json_files_beside_lines_are_not_read_and_told(write, tmp_path):
    write({"id": "d1", "contents": "Red."})
    (tmp_path / "b.json").write_text("{}")
    with pytest.warns(CollectionWarning, match="b.json not read, beside a.jsonl: name the files"):
        assert len(list(ikat.PassageFiles(tmp_path))) == 1


@pytest.mark.parametrize("name", ["collection.tsv", "psgs.tsv.gz", "p.csv", "p.parquet"])
def test_a_table_is_refused_with_the_line_that_reads_it(tmp_path, name):
    (tmp_path / name).write_text("1\tRed.")
    for source in (tmp_path, tmp_path / name):
        with pytest.raises(
            ikat.DataError,
            match=rf"index a frame with docno and text, such as pd.read_\w+\('{name}'",
        ):
            ikat.PassageFiles(source)


class Doc(NamedTuple):
    doc_id: str
    text: str
    title: str
    url: str

    def default_text(self):
        return f"{self.title} {self.text}"


def test_texts_are_those_of_the_same_collection_in_ir_datasets(write, monkeypatch):
    docs = [Doc("d1", "A red drink.", "Rooibos tea", "u"), Doc("d2", "Soil. ", "", "")]

    class Given:
        def metadata(self):
            return {}

        def has_queries(self):
            return False

        def has_docs(self):
            return True

        def docs_iter(self):
            return iter(docs)

    monkeypatch.setattr(IrdsDataset, "source", Given())
    path = write(
        {"_id": "d1", "title": "Rooibos tea", "text": "A red drink.", "url": "u"},
        {"_id": "d2", "title": "", "text": "Soil. ", "url": ""},
    )
    assert list(ikat.PassageFiles(path)) == list(IrdsDataset("x").get_corpus_iter(verbose=False))


def test_docnos_and_qids_may_be_numbers_in_a_folder(write, tmp_path):
    write({"id": 1, "contents": "Rooibos."}, {"id": 2, "contents": "Soil."}, name="passages.jsonl")
    write({"qid": 7, "messages": [{"role": "user", "content": "rooibos?"}]}, name="topics.jsonl")
    (tmp_path / "qrels.txt").write_text("7 0 1 1\n")
    data = ikat.dataset(str(tmp_path))
    assert data.get_topics()["qid"].tolist() == ["7"]
    index = ikat.PassageIndex(tmp_path / "i").index(data.get_corpus_iter(verbose=False))
    assert ikat.experiment({"raw": index.bm25()}, data, measures=["nDCG@3"])["nDCG@3"].tolist() == [
        1.0
    ]


def test_a_column_of_vectors_beside_the_text_is_told_as_unread():
    passages = pd.DataFrame({"docno": ["d1"], "text": ["It is red."]})
    passages["vector"] = [np.array([0.5, 0.25])]
    passage, unread = read_fields(passages.to_dict("records")[0])
    assert (passage["text"], unread) == ("It is red.", ["vector"])


FIELDS = [
    # the item, its docno, text and address, and the names that nothing reads
    ({"docno": "d", "id": "e", "text": "a"}, ("d", "a", ""), ["id"]),
    ({"docno": None, "id": "e", "text": "a"}, ("e", "a", ""), []),
    ({"_id": 7, "text": "a", "url": "u"}, ("7", "a", "u"), []),
    ({"id": "d", "contents": "a", "text": "b"}, ("d", "a", ""), ["text"]),
    ({"id": "d", "contents": "a", "text": "a"}, ("d", "a", ""), []),
    ({"id": "d", "contents": None, "text": "b"}, ("d", "b", ""), []),
    ({"doc_id": "d", "passage_id": 4, "passage_text": "a"}, ("d:4", "a", ""), []),
    ({"doc_id": "d", "passage_id": 0, "text": "a"}, ("d:0", "a", ""), []),
    ({"doc_id": "d", "text": "a"}, ("d", "a", ""), []),
    ({"pid": "p", "docid": "d", "passage": "a", "spans": "(1)"}, ("p", "a", ""), []),
    ({"docid": "d", "segment": "a", "start_char": 1, "end_char": 2}, ("d", "a", ""), []),
    ({"id": "d", "title": " T ", "headings": "H", "body": " a "}, ("d", "T H a", ""), []),
    ({"id": "d", "title": "T", "text": "T\na"}, ("d", "T\na", ""), []),
    ({"id": "d", "title": None, "headings": "", "text": "a"}, ("d", "a", ""), []),
    ({"id": "d", "text": "a", "url": None, "metadata": {"x": 1}}, ("d", "a", ""), []),
    ({"id": "d", "text": "a", "x": [], "y": {}, "z": "", "w": None}, ("d", "a", ""), []),
    ({"id": "d", "text": "a", "x": 0, "y": "d", "z": ["a"]}, ("d", "a", ""), ["x", "z"]),
    ({"id": 7, "text": "a", "x": 7, "y": 1.5}, ("7", "a", ""), ["y"]),
    ({"id": np.int64(7), "text": "a"}, ("7", "a", ""), []),
    ({"headings": "H", "text": "a", "title": "T", "id": "d"}, ("d", "T H a", ""), []),
    ({"id": "d", "body": "b", "text": "a"}, ("d", "a", ""), ["body"]),
    ({"id": "d", "title": 5, "text": "a"}, ("d", "a", ""), ["title"]),
    (
        {"id": "d", "text": "tea for two", "x": "tea", "y": "u", "url": "u"},
        ("d", "tea for two", "u"),
        ["x"],
    ),
    ({"id": "d", "title": "T", "text": "\n T\na"}, ("d", "\n T\na", ""), []),
    (MappingProxyType({"id": "d", "text": "a"}), ("d", "a", ""), []),
]


@pytest.mark.parametrize(("item", "passage", "unread"), FIELDS, ids=range(len(FIELDS)))
def test_a_passage_is_read_from_any_known_fields(item, passage, unread):
    docno, text, url = passage
    assert read_fields(item) == ({"docno": docno, "text": text, "url": url}, unread)


@pytest.mark.parametrize(
    ("item", "part"),
    [
        ("x", "no passage id in the fields none"),
        ({}, "no passage id in the fields none"),
        ({"text": "a"}, "no passage id in the fields text$"),
        ({"id": "a b", "text": "a"}, "'a b' is no text without white space"),
        ({"id": "", "text": "a"}, "'' is no text"),
        ({"id": True, "text": "a"}, "True is no text"),
        ({"id": 1.5, "text": "a"}, "1.5 is no text"),
        ({"id": "a\0b", "text": "a"}, "is no text"),
        ({"id": "a\ud800", "text": "a"}, "is no text"),
        ({"doc_id": "d", "passage_text": "a"}, "no passage id in the fields doc_id, passage_text$"),
        ({"doc_id": "d", "passage_id": "", "passage_text": "a"}, "no passage id"),
        ({"id": "d"}, "passage d has no text in the fields id"),
        ({"id": "d", "text": None}, "passage d has no text in the fields id, text"),
        ({"id": "d", "text": 5}, "passage d has no text"),
        ({"id": "d", "text": "a", "url": 5}, "the url of passage d is no text"),
        ({"id": "d", "text": "a", "url": 0}, "the url of passage d is no text"),
    ],
)
def test_what_is_no_passage_is_refused(item, part):
    with pytest.raises(ValueError, match=part):
        read_fields(item)


def test_a_text_of_a_frame_may_be_missing():
    missing = {"id": "d", "text": float("nan"), "url": float("nan")}
    assert read_fields(missing, may_be_empty=True)[0] == {"docno": "d", "text": "", "url": ""}
    with pytest.raises(ValueError, match="passage d has no text"):
        read_fields({"id": "d"}, may_be_empty=True)


def test_a_title_is_not_repeated():
    assert joined(["Mint", " "], "A herb.") == "Mint A herb."
    assert joined([" Mint ", "Sage"], "Mint \n Sage\nA herb.") == "Mint \n Sage\nA herb."
    assert joined(["Mint", "Sage"], "Mint\nA herb.") == "Mint Sage Mint\nA herb."
    assert joined(["Mint"], " A herb. ") == "Mint A herb."
    assert joined(["Mint"], "") == "Mint"


def test_each_unread_field_is_told_once():
    unread = Unread("a.jsonl")
    found = [
        ("line 1", []),
        ("line 2", ["x"]),
        ("line 3", ["x", "y", "z"]),
        ("line 4", ["z"]),
        ("line 5", ["w"]),
        ("line 6", ["x", "z"]),
    ]
    with pytest.warns(CollectionWarning) as told:
        [unread.tell(line, names) for line, names in found]
    said = [str(warning.message).partition(";")[0] for warning in told]
    assert said == [
        "a.jsonl, line 2: nothing reads the field x",
        "a.jsonl, line 3: nothing reads the fields y, z",
        "a.jsonl, line 5: nothing reads the field w",
    ]
