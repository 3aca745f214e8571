import bz2
import gzip
import json
import pickle

import pandas as pd
import pyterrier as pt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyterrier_ikat.conversations.passages import TextLoader, collection_files, load_passages, read_passages
from pyterrier_ikat.errors import DataError, UsageError

LINES = [
    json.dumps({"id": "d1:0", "contents": "\nRooibos.\n", "url": "https://example.org/1"}),
    json.dumps({"id": "d1:1", "contents": "Thé ☕"}, ensure_ascii=False),
    json.dumps({"doc_id": "d2", "passage_id": "4", "passage_text": " Mint\n"}),
]
EXPECTED = [
    {"docno": "d1:0", "text": "Rooibos.", "url": "https://example.org/1"},
    {"docno": "d1:1", "text": "Thé ☕", "url": ""},
    {"docno": "d2:4", "text": "Mint", "url": ""},
]


@pytest.mark.parametrize(("suffix", "pack"), [("", bytes), (".gz", gzip.compress), (".bz2", bz2.compress)])
def test_plain_and_packed_files_of_both_forms(tmp_path, suffix, pack):
    path = tmp_path / f"passages.jsonl{suffix}"
    path.write_bytes(pack("\n".join([*LINES, ""]).encode()))
    assert list(read_passages(path)) == EXPECTED


@given(st.lists(st.text(st.characters(codec="utf-8")), max_size=5))
def test_any_text_comes_back_without_its_outer_white_space(tmp_path_factory, texts):
    path = tmp_path_factory.mktemp("any") / "passages.jsonl"
    path.write_text("\n".join(json.dumps({"id": f"d:{i}", "contents": text}) for i, text in enumerate(texts)), encoding="utf-8")
    assert [passage["text"] for passage in read_passages(path)] == [text.strip() for text in texts]


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ('{"id": "d1:9", "conte', "not JSON"),
        ("[1]", "no passage id in the fields none"),
        ('{"contents": "x"}', "no passage id in the fields contents"),
        ('{"doc_id": "d1", "passage_text": "x"}', "no passage id"),
        ('{"passage_id": "4", "passage_text": "x"}', "no passage id"),
        ('{"id": "d 1", "contents": "x"}', "no passage id"),
        ('{"id": "", "contents": "x"}', "no passage id"),
        ('{"id": "d1:9", "title": "x"}', "passage d1:9 has no text"),
        ('{"id": "d1:9", "contents": null}', "passage d1:9 has no text"),
    ],
)
def test_a_bad_line_is_named(tmp_path, line, part):
    path = tmp_path / "passages.jsonl"
    path.write_text("\n".join([*LINES, line]), encoding="utf-8")
    with pytest.raises(DataError, match=part) as caught:
        list(read_passages(path))
    assert str(caught.value).startswith(f"{path}, line 4: ")


@pytest.mark.parametrize(("suffix", "pack"), [(".gz", gzip.compress), (".bz2", bz2.compress)])
def test_a_packed_file_that_was_cut_is_named(tmp_path, suffix, pack):
    path = tmp_path / f"passages.jsonl{suffix}"
    path.write_bytes(pack("\n".join(LINES * 200).encode())[:-30])
    with pytest.raises(DataError, match="cut short"):
        list(read_passages(path))


@pytest.mark.parametrize("suffix", [".gz", ""])
def test_what_is_no_text_file_is_named(tmp_path, suffix):
    path = tmp_path / f"passages.jsonl{suffix}"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataError, match="damaged"):
        list(read_passages(path))


def test_missing_empty_and_repeated_passages(tmp_path):
    with pytest.raises(DataError, match="no such file"):
        list(read_passages(tmp_path / "gone.jsonl"))
    path = tmp_path / "passages.jsonl"
    path.write_text("\n")
    with pytest.raises(DataError, match="no passage in it"):
        load_passages(path)
    path.write_text("\n".join(LINES[:1] * 2))
    with pytest.raises(DataError, match="d1:0 occurs twice"):
        load_passages(path)


def test_collection_files_are_sorted_and_nothing_else(tmp_path):
    for name in ["b.jsonl.bz2", "a.jsonl", "c.jsonl.gz", "readme.txt", "a.jsonl.part"]:
        (tmp_path / name).touch()
    assert [path.name for path in collection_files(tmp_path)] == ["a.jsonl", "b.jsonl.bz2", "c.jsonl.gz"]
    assert collection_files(tmp_path / "none") == []


@pytest.fixture
def passages(tmp_path):
    path = tmp_path / "passages.jsonl"
    path.write_text("\n".join(LINES), encoding="utf-8")
    return path


def test_the_loader_adds_texts_row_by_row_and_leaves_its_input_alone(passages):
    history = [{"role": "user", "content": "Hi"}]
    results = pd.DataFrame({"qid": ["1_1", "1_1", "1_2"], "docno": ["d2:4", "d1:0", "d2:4"], "qhistory": [history] * 3}, index=[5, 3, 9])
    before = results.copy()
    loaded = TextLoader(passages, ["text", "url"])(results)
    assert loaded["text"].tolist() == ["Mint", "Rooibos.", "Mint"]
    assert loaded["url"].tolist() == ["", "https://example.org/1", ""]
    assert list(loaded) == ["qid", "docno", "qhistory", "text", "url"]
    assert loaded["text"].dtype == object
    assert loaded["qhistory"][5] is history
    pd.testing.assert_frame_equal(results, before)


def test_the_loader_replaces_an_older_text(passages):
    assert TextLoader(passages)(pd.DataFrame({"docno": ["d1:0"], "text": ["old"]}))["text"].tolist() == ["Rooibos."]


def test_an_empty_frame_gets_the_columns_without_reading_the_file(tmp_path):
    loader = TextLoader(tmp_path / "gone.jsonl", ["text", "url"])
    assert list(loader(pd.DataFrame(columns=["qid", "docno"]))) == ["qid", "docno", "text", "url"]
    assert pt.inspect.transformer_inputs(loader) == [["docno"]]


def test_the_loader_is_a_value(passages):
    loader = TextLoader(passages)
    loader(pd.DataFrame({"docno": ["d1:0"]}))
    assert loader == TextLoader(str(passages), ["text"])
    assert hash(loader) == hash(TextLoader(passages))
    assert loader != TextLoader(passages, ["url"])
    assert repr(loader) == f"ikat.TextLoader({str(passages)!r})"
    assert pickle.loads(pickle.dumps(loader)) == loader


def test_unknown_passages_and_fields_are_named(passages):
    with pytest.raises(DataError, match=r"lacks 4 of the passages to load \(x1, x2, x3, x4\)"):
        TextLoader(passages)(pd.DataFrame({"docno": ["d1:0", "x1", "x2", "x2", "x3", "x4"]}))
    with pytest.raises(UsageError, match="no field 'title'; there are 'text', 'url'"):
        TextLoader(passages, ["title"])
    with pytest.raises(pt.validate.InputValidationError, match="docno"):
        TextLoader(passages)(pd.DataFrame({"qid": ["1_1"]}))


class TestTextLoader(pt.testing.transformer_test_class(lambda: TextLoader("passages.jsonl"))):
    pass


def test_the_700_passages_of_2023(ikat_data):
    passages = load_passages(ikat_data / "2023_test_topics_psg_text.jsonl")
    assert len(passages) == 700
    assert all(passage["text"] == passage["text"].strip() != "" for passage in passages.values())
    assert passages["clueweb22-en0000-32-08101:4"]["text"].startswith("Email is undoubtedly")
    bare = [docno for docno, passage in passages.items() if passage["text"].startswith(docno.split(":")[0] + ",http")]
    assert len(bare) == 4
