"""Files, servers and objects that a stage of another package holds, and what identifies them."""

import os
import re
import sys
from enum import Enum
from fractions import Fraction
from functools import partial
from pathlib import Path

import pyterrier as pt
import pytest
from small_operators import Rewriter, Stage, Theirs

from pyterrier_ikat import foreign
from pyterrier_ikat.errors import UsageError
from pyterrier_ikat.foreign import (
    SAMPLE_BYTES,
    SMALL_FILE,
    Foreign,
    HeldFiles,
    checksums_of,
    files_below,
    fingerprint_of,
    folder_of_anserini,
    held_by,
    is_asked,
    is_fingerprinted,
    loader_of,
    model_of,
    named_file,
    path_of,
    untracked,
)


class Index(pt.Artifact):
    def __init__(self, path):
        super().__init__(path)


class Level(Enum):
    LOW = 1


class Owner:
    def bound(self): ...


OWNER = Owner()


@pytest.fixture
def folder(tmp_path):
    """A folder of an index with a subfolder, and files that come and go."""
    for name in ("b.bin", "a.bin", "sub/c.bin", "write.lock", "x.tmp", ".hidden", ".cache/d.bin"):
        path = tmp_path / "index" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return tmp_path / "index"


def names_of(held):
    return [path.name for path in held.files()]


def test_files_of_all_subfolders_and_links_are_found_in_order(tmp_path):
    for name in ("m/weights", "m/deep/er/weights", "m/deep/config", "elsewhere/tokens"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    (tmp_path / "m" / "linked").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "m" / "a_file").symlink_to(tmp_path / "elsewhere" / "tokens")
    (tmp_path / "m" / "empty").mkdir()
    found = [path.relative_to(tmp_path / "m").as_posix() for path in files_below(tmp_path / "m")]
    assert found == ["a_file", "deep/config", "deep/er/weights", "linked/tokens", "weights"]


def test_files_that_come_and_go_do_not_count(folder, tmp_path):
    held = HeldFiles(str(folder))
    assert names_of(held) == ["a.bin", "b.bin", "c.bin"]
    assert held.tracked
    assert names_of(HeldFiles(str(folder / "a.bin"))) == ["a.bin"]
    many = tmp_path / "many"
    many.mkdir()
    for number in (7, 3, 9, 1, 8, 2, 6, 4, 5, 0):
        (many / f"{number}").write_text("")
    (folder / "linked").symlink_to(many)
    linked = [str(number) for number in range(10)]
    assert names_of(HeldFiles(str(folder))) == ["a.bin", "b.bin", *linked, "c.bin"]
    (folder / "linked").unlink()
    assert names_of(HeldFiles(str(tmp_path / "none"))) == []
    assert not HeldFiles(str(tmp_path / "none")).tracked


def test_an_index_counts_by_the_files_it_was_built_from(folder):
    for name in ("pt_meta.json", "fwd.docs", "inv.freqs", "bm25.k1-0.9.b-0.4.bmw.64"):
        (folder / name).write_text(name)
    (folder / "sub" / "fwd.docs").write_text("of another index")
    held = HeldFiles(str(folder), "pyterrier_pisa.PisaIndex", artifact=True)
    assert names_of(held) == ["fwd.docs", "inv.freqs", "pt_meta.json"]


def test_an_index_of_vectors_counts_by_them_and_its_docnos(folder):
    for name in ("pt_meta.json", "vecs.f4", "docnos.npids", "faiss_flat.bin"):
        (folder / name).write_text(name)
    flex = type("FlexIndex", (Index,), {"__module__": "pyterrier_dr.flex.core"})
    [part] = held_by(Stage(index=flex(str(folder))))
    assert part.kind == "pyterrier_dr.FlexIndex"
    assert names_of(part) == ["docnos.npids", "pt_meta.json", "vecs.f4"]


def test_a_folder_below_a_hidden_one_has_its_files(folder, tmp_path):
    (tmp_path / ".home").mkdir()
    folder.rename(tmp_path / ".home" / "index")
    assert names_of(HeldFiles(str(tmp_path / ".home" / "index"))) == ["a.bin", "b.bin", "c.bin"]


def test_a_link_to_nothing_is_no_file(folder):
    (folder / "gone").symlink_to(folder / "nowhere")
    assert names_of(HeldFiles(str(folder))) == ["a.bin", "b.bin", "c.bin"]


@pytest.mark.parametrize("change", ["content", "name", "size", "added", "removed", "moved"])
def test_a_change_of_the_files_changes_the_fingerprint(folder, change):
    held = HeldFiles(str(folder))
    before = held.fingerprint()
    (folder / "write.lock").write_text("changed")
    assert held.fingerprint() == before
    if change == "content":
        (folder / "a.bin").write_text("A.bin")
    elif change == "name":
        (folder / "a.bin").rename(folder / "a.dat")
    elif change == "size":
        (folder / "a.bin").write_text("a.bin.")
    elif change == "added":
        (folder / "sub" / "new").write_text("")
    elif change == "moved":
        (folder / "b.bin").rename(folder / "sub" / "b.bin")
    else:
        (folder / "b.bin").unlink()
    assert held.fingerprint() not in ("", before)


def test_a_moved_folder_has_the_same_fingerprint(folder, tmp_path):
    before = HeldFiles(str(folder)).fingerprint()
    folder.rename(tmp_path / "moved")
    assert HeldFiles(str(tmp_path / "moved")).fingerprint() == before


def test_a_folder_of_too_many_or_no_files_is_not_tracked(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(foreign, "MOST_FILES", 3)
    assert HeldFiles(str(folder)).tracked
    assert HeldFiles(str(folder)).fingerprint()
    (folder / "d.bin").write_text("d")
    assert not HeldFiles(str(folder)).tracked
    assert HeldFiles(str(folder)).fingerprint() == ""
    (tmp_path / "empty").mkdir()
    assert not HeldFiles(str(tmp_path / "empty")).tracked
    assert HeldFiles(str(tmp_path / "empty")).fingerprint() == ""


@pytest.mark.parametrize("place", [0, 3 * SMALL_FILE // 2, 3 * SMALL_FILE - 1, SAMPLE_BYTES + 1])
def test_a_large_file_counts_by_its_beginning_middle_and_end(tmp_path, place):
    path = tmp_path / "large.bin"
    content = bytearray(3 * SMALL_FILE)
    path.write_bytes(content)
    before = HeldFiles(str(path)).fingerprint()
    content[place] = 1
    path.write_bytes(content)
    assert (HeldFiles(str(path)).fingerprint() == before) is (place == SAMPLE_BYTES + 1)


@pytest.mark.parametrize("place", [0, SAMPLE_BYTES + 1, SMALL_FILE - 1])
def test_a_small_file_counts_as_a_whole(tmp_path, place):
    path = tmp_path / "small.bin"
    content = bytearray(SMALL_FILE)
    path.write_bytes(content)
    before = HeldFiles(str(path)).fingerprint()
    content[place] = 1
    path.write_bytes(content)
    assert HeldFiles(str(path)).fingerprint() != before


def test_a_file_is_named_by_a_path_and_not_by_a_word(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tea").write_text("")
    (tmp_path / "tea.txt").write_text("")
    (tmp_path / "folder").mkdir()
    assert named_file("tea") is None
    assert named_file("./tea") == HeldFiles("./tea")
    assert named_file("tea.txt") == HeldFiles("tea.txt")
    assert named_file(tmp_path / "tea") == HeldFiles(str(tmp_path / "tea"))
    assert named_file(Path("tea")) == HeldFiles("tea")
    assert named_file("none.txt") is None
    assert named_file("./folder") is None


def held_paths(**attributes):
    parts = held_by(Stage(**attributes))
    return [part.path for part in parts if isinstance(part, HeldFiles)]


def test_paths_are_found_by_form_or_name_of_attribute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("data", "words.txt", "out"):
        (tmp_path / name).write_text("")
    assert held_paths(model=tmp_path / "data") == [str(tmp_path / "data")]
    assert held_paths(model="./data") == ["./data"]
    assert held_paths(index_path="data") == ["data"]
    assert held_paths(_index_path="data") == ["data"]
    assert held_paths(INDEX="data") == ["data"]
    assert held_paths(model="data") == []
    assert held_paths(index_path="gone") == []
    assert held_paths(cache_dir=tmp_path / "data") == []
    assert held_paths(OUTPUT="./data") == []
    assert held_paths(logfile=tmp_path / "data") == [str(tmp_path / "data")]


def test_paths_in_lists_dicts_and_objects_are_found(tmp_path):
    (tmp_path / "a").write_text("")
    path = tmp_path / "a"
    found = [str(path)]
    for value in ([path], (path,), {path}, frozenset([path]), {"k": path}, [{"k": [path]}]):
        assert held_paths(model=value) == found
    assert held_paths(model={"cache": path}) == []


class Holder:
    def __init__(self, value):
        self.value = value


class Slots:
    __slots__ = ("path",)


class OneSlot(Slots):
    __slots__ = "more"


def test_objects_are_searched_three_deep_and_in_slots(tmp_path):
    path = tmp_path / "a"
    path.write_text("")
    value = path
    for _ in range(3):
        value = Holder(value)
    assert held_paths(model=value) == [str(path)]
    assert held_paths(model=Holder(value)) == []
    slots = OneSlot()
    slots.path = path
    assert held_paths(model=slots) == [str(path)]
    slots.more = path
    assert held_paths(model=slots) == [str(path)] * 2


def test_an_object_that_holds_itself_is_searched_once(tmp_path):
    ring = Holder(None)
    ring.value = [ring, tmp_path]
    assert held_paths(model=ring) == [str(tmp_path)]


def test_a_path_inside_an_artifact_stands_for_it(folder, tmp_path):
    (tmp_path / "beside").write_text("")
    (tmp_path / "link").symlink_to(folder)
    index = Index(str(tmp_path / "link"))
    parts = held_by(
        Stage(index=index, file=str(folder / "sub" / "c.bin"), other=tmp_path / "beside")
    )
    assert [(part.path, part.artifact) for part in parts] == [
        (str(tmp_path / "link"), True),
        (str(tmp_path / "beside"), False),
    ]
    assert parts[0].kind == f"{__name__}.Index"


def test_a_path_through_a_link_into_an_artifact_stands_for_it(folder, tmp_path):
    (tmp_path / "link").symlink_to(folder)
    parts = held_by(Stage(index=Index(str(folder)), file=str(tmp_path / "link" / "sub" / "c.bin")))
    assert [(part.path, part.artifact) for part in parts] == [(str(folder), True)]


def test_a_device_has_no_files():
    assert HeldFiles(os.devnull).files() == []


def test_stages_and_fingerprinted_objects_are_parts():
    class Marked:
        def fingerprint(self):
            return "f"

    marked = Marked()
    inner = Rewriter()
    assert held_by(Stage(model=marked, then=[inner])) == [marked, inner]


def test_of_a_cache_only_the_stage_inside_counts(tmp_path, monkeypatch):
    inner = Rewriter()
    cache = Stage(scorer=inner, path=tmp_path, text="tea")
    assert [type(part) for part in held_by(cache)] == [Rewriter, HeldFiles]
    monkeypatch.setattr(foreign, "CACHE_PACKAGES", (Stage.__module__,))
    assert held_by(cache) == [inner]


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({}, False),
        ({"k": 1, "name": "tea", "weights": [0.5, (1, 2)], "options": {"a": None}}, False),
        ({"searcher": object()}, True),
        ({"searchers": [object()]}, True),
        ({"searchers": {"a": object()}}, True),
        ({"url": "http://host:80"}, True),
        ({"urls": ["http://host:80"]}, True),
        ({"options": {"url": "https://host"}}, True),
        ({"ratio": Fraction(1, 2)}, True),
        ({"pattern": re.compile("x"), "call": is_asked, "when": None}, False),
    ],
)
def test_a_retriever_of_unknown_contents_is_untracked(attributes, expected):
    assert untracked(Stage(**attributes)) is expected
    assert not untracked(Rewriter(**attributes))


def test_a_stage_of_files_is_untracked_if_they_are_unreadable(folder, tmp_path):
    (tmp_path / "empty").mkdir()
    assert not untracked(Stage(path=folder, searcher=object()))
    assert untracked(Stage(path=tmp_path / "empty"))
    assert untracked(Rewriter(path=tmp_path / "empty"))
    assert untracked(Stage(path=folder, index=tmp_path / "empty"))


def test_a_fingerprint_is_a_text_that_changes():
    class Marked:
        path = "here"

        def __init__(self, fingerprint):
            self.fingerprint = partial(str, fingerprint)

    assert fingerprint_of(Marked("f")) == "f"
    assert fingerprint_of(HeldFiles("none")) == ""
    with pytest.raises(UsageError, match=r"Marked.fingerprint\(\) returns ''"):
        fingerprint_of(Marked(""))
    assert is_fingerprinted(Marked(""))
    assert not is_fingerprinted(object())
    assert path_of(Marked("")) == "here"
    assert path_of(object()) is None


def test_a_model_is_whatever_can_be_asked():
    class Model:
        text = llm = "x"

        def ask(self, requests): ...

        def prompt_checksums(self):
            return {"a": "1"}

    assert is_asked(Model())
    assert not is_asked(Model)
    assert not is_asked("model")
    assert (loader_of(Model()), model_of(Model())) == ("x", "x")
    assert (loader_of("x"), model_of("x")) == (None, None)
    assert checksums_of(Model()) == {"a": "1"}
    assert checksums_of("x") == {}


def test_only_an_index_of_anserini_is_taken_for_its_folder(monkeypatch):
    index = Holder(None)
    index.path = "lucene"
    assert folder_of_anserini(index) is None
    monkeypatch.setattr(Holder, "__module__", "pyterrier_anserini._index")
    assert folder_of_anserini(index) == "lucene"


class IndexStage(Index, pt.Transformer):
    """An index that is a stage, too."""

    def transform(self, inp):
        return inp


def test_an_index_that_is_a_stage_is_held_by_its_files(folder):
    [part] = held_by(Stage(index=IndexStage(str(folder))))
    assert (part.path, part.artifact) == (str(folder), True)


def test_an_index_may_name_its_folder_otherwise(folder):
    class Elsewhere(pt.Artifact):
        def __init__(self, path):
            self.index_path = path

    [part] = held_by(Stage(index=Elsewhere(str(folder))))
    assert (part.path, part.artifact) == (str(folder), True)


def test_a_large_file_counts_by_its_size_too(tmp_path):
    path = tmp_path / "large.bin"
    path.write_bytes(bytes(2 * SMALL_FILE))
    before = HeldFiles(str(path)).fingerprint()
    path.write_bytes(bytes(2 * SMALL_FILE + 1))
    assert HeldFiles(str(path)).fingerprint() != before


@pytest.mark.skipif(sys.platform != "linux", reason="names of files are texts elsewhere")
def test_a_file_whose_name_is_no_text_counts(tmp_path):
    (tmp_path / "a").write_text("")
    before = HeldFiles(str(tmp_path)).fingerprint()
    (tmp_path / os.fsdecode(b"\xff")).write_text("")
    assert HeldFiles(str(tmp_path)).fingerprint() not in ("", before)


def test_paths_inside_each_of_several_artifacts_stand_for_it(folder, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    (other / "e.bin").write_text("e")
    parts = held_by(
        Stage(
            first=Index(str(folder)),
            second=Index(str(other)),
            inside=folder / "a.bin",
            within=other / "e.bin",
        )
    )
    assert [part.path for part in parts] == [str(folder), str(other)]


def test_a_fingerprinted_object_is_found_at_any_depth():
    class Marked:
        def fingerprint(self):
            return "f"

    marked = Marked()
    assert held_by(Stage(model=Holder(Holder(Holder(marked))))) == [marked]


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({"tags": {"a", 1}, "more": frozenset("b"), "range": range(3)}, False),
        ({"number": 1j, "raw": b"x", "kind": int, "module": re, "made": tuple.index}, True),
        ({"number": 1j, "raw": b"x", "kind": int, "module": re}, False),
        ({"level": Level.LOW, "parse": folder_of_anserini, "bound": OWNER.bound}, False),
        ({"searchers": {object()}}, True),
        ({"searchers": frozenset([object()])}, True),
        ({"urls": {"http://host"}}, True),
        ({"urls": ("x", "http://host")}, True),
        ({"urls": frozenset(["grpc://host"])}, True),
        ({"urls": {"http://host": "x"}}, False),
    ],
)
def test_values_without_anything_inside_are_plain(attributes, expected):
    assert untracked(Stage(**attributes)) is expected


@pytest.mark.parametrize(
    "name",
    [
        "path",
        "dir",
        "directory",
        "folder",
        "file",
        "filename",
        "index",
        "location",
        "root",
        "paths",
        "dirs",
        "files",
        "my_index",
    ],
)
def test_a_word_is_a_path_in_an_attribute_of_that_name(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").write_text("")
    assert held_paths(**{name: "data"}) == ["data"]
    assert held_paths(**{f"{name}_of": "data"}) == []


@pytest.mark.parametrize(
    "name",
    ["cache", "caches", "log", "logs", "tmp", "temp", "out", "output", "out_dir", "cache_dir"],
)
def test_a_path_that_is_written_to_does_not_count(name, tmp_path):
    assert held_paths(**{name: tmp_path}) == []
    assert held_paths(**{f"my_{name}": tmp_path}) == []
    assert held_paths(**{f"x{name}": tmp_path}) == [str(tmp_path)]


class Mixed(Slots):
    """Has slots from its base, and attributes of its own."""

    def __init__(self, path):
        self.path = path
        self.more = 1


def test_a_search_leaves_the_objects_as_they_are(tmp_path):
    mixed = Mixed(tmp_path)
    assert held_paths(model=mixed) == [str(tmp_path)]
    assert vars(mixed) == {"more": 1}
    stage = Stage(k=5)
    Foreign(stage).arguments()["k"] = 6
    assert vars(stage) == {"k": 5}


def test_a_fingerprint_is_a_method_and_a_path_a_text():
    holder = Holder(None)
    holder.fingerprint = "f"
    holder.path = Path("here")
    assert not is_fingerprinted(holder)
    assert path_of(holder) == "here"


def test_what_a_dict_holds_is_known_by_its_keys(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").write_text("")
    (tmp_path / "more").write_text("")
    for value, paths in (
        ({7: "./data"}, ["./data"]),
        ({"index_path": "data", "model": "more"}, ["data"]),
        ({"model": "data", "file": "more"}, ["more"]),
        ({"cache": "./data", "x": "./more"}, ["./more"]),
        (["./data", "x", "./more"], ["./data", "./more"]),
    ):
        assert [part.path for part in held_by(Theirs("x", value))] == paths


class Deep:
    def __init__(self, value):
        self.value = value


def test_an_index_is_found_as_deep_as_a_stage_is_searched(tmp_path):
    index = pt.Artifact(str(tmp_path))
    for value in (index, Deep(index), Deep(Deep(index))):
        [part] = held_by(Theirs("x", value))
        assert (part.path, part.artifact) == (str(tmp_path), True)
    assert held_by(Theirs("x", Deep(Deep(Deep(index))))) == []
