"""Datasets by name, path or object; the turns and the judgements that are asked of them."""

from pathlib import Path

import pandas as pd
import pyterrier as pt
import pytest
from small_files import Own

import pyterrier_ikat as ikat
from pyterrier_ikat.conversations.benchmarks import MTRAG
from pyterrier_ikat.conversations.datasets import (
    FewerTurnsWarning,
    dataset,
    find_qrels,
    full_name,
    full_names,
    is_variant,
    of_turns,
    read_turns,
)
from pyterrier_ikat.conversations.ikat_dataset import FolderDataset, GivenDataset
from pyterrier_ikat.conversations.topics import CollectionWarning
from pyterrier_ikat.errors import DataError, UsageError, commands_advised


def test_a_dataset_is_opened_by_name_path_or_object(folder, monkeypatch):
    sample = dataset("ikat:sample")
    assert dataset(sample) is sample
    released = dataset("ikat:2023")
    assert dataset(released) is released
    assert dataset("sample").name == "ikat:sample"
    monkeypatch.chdir(folder.parent)
    for source in ("mine", "./mine", "ikat:./mine", str(folder)):
        assert isinstance(dataset(source), FolderDataset)
        assert dataset(source).folder == folder
    assert dataset("longmemeval:x.json").name == f"longmemeval:{folder.parent / 'x.json'}"
    (folder.parent / "sample").mkdir()
    (folder.parent / "sample" / "topics.jsonl").write_text("")
    assert dataset(Path("sample")).folder == folder.parent / "sample"
    monkeypatch.setenv("HOME", str(folder))
    for source in ("~", "~/", Path("~")):
        assert dataset(source).folder == folder
    assert dataset("longmemeval:~/x.json").path == folder / "x.json"
    assert isinstance(dataset(Own()), GivenDataset)
    assert full_name("cast:2020") == "cast:2020"
    assert full_name("2023") == "ikat:2023"
    assert full_name("mine") == "mine"
    names = full_names()
    assert {"ikat:sample", "ikat:2024", "cast:2019", "mtrag:mini", "locomo:"} <= set(names)
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("smaple", ["'smaple'; did you mean ikat:sample?; there are ikat:sample", "./smaple"]),
        ("ikat:2032", ["no dataset 'ikat:2032'; there are", "such as ./mine"]),
        ("2023-mni", ["did you mean ikat:2023-mini?"]),
        ("irds:nothing", ["ir_datasets has no dataset 'nothing'"]),
        ("unknown:x", ["no dataset 'unknown:x': Dataset 'unknown:x' not found due"]),
        ("mtrag:cloude", ["did you mean mtrag:cloud?"]),
        ("c:nothing", ["no dataset 'c:nothing'; there are ikat:sample"]),
        ("no/thing", ["no folder"]),
    ],
)
def test_an_unknown_name_is_refused_with_the_known_ones(name, parts):
    with pytest.raises(UsageError) as refused:
        dataset(name)
    for part in parts:
        assert part in str(refused.value)


@pytest.mark.parametrize(
    ("source", "part"),
    [(5, "5 is not a dataset"), (pd.DataFrame(), "give topics=FRAME, qrels=FRAME")],
    ids=["number", "frame"],
)
def test_what_has_no_topics_is_no_dataset(source, part):
    with pytest.raises(UsageError, match=part):
        dataset(source)


def test_pyterrier_finds_the_datasets_by_their_names():
    provider = ikat.conversations.datasets.IkatProvider()
    assert provider.list_dataset_names()[0] == "sample"
    assert provider.get_dataset("sample").name == "ikat:sample"
    assert pt.get_dataset("ikat:sample").name == "ikat:sample"


def test_each_name_opens_its_dataset():
    """The files of none of them are read."""
    kinds = {}
    for name in full_names():
        opened = dataset(name)
        assert opened.name == name
        assert dataset(name) is not opened
        kinds.setdefault(type(opened).__name__, []).append(name)
    assert kinds == {
        "SampleDataset": ["ikat:sample"],
        "ReleasedDataset": [
            *("ikat:2023-mini", "ikat:2023", "ikat:2023-train", "ikat:2025"),
            *("cast:2019", "cast:2020", "cast:2021", "cast:2022"),
        ],
        "ConeRagDataset": ["ikat:2024"],
        "TasksDataset": [
            *("mtrag:mini", "mtrag:reference", "mtrag:un-reference", "mtrag:un"),
            *("mtrag:un-clapnq", "mtrag:un-cloud", "mtrag:un-fiqa", "mtrag:un-govt"),
        ],
        "DomainDataset": ["mtrag:clapnq", "mtrag:cloud", "mtrag:fiqa", "mtrag:govt"],
        "LocomoDataset": ["locomo:"],
    }
    assert list(MTRAG) == [name for name in full_names() if name.startswith("mtrag:")]
    for name, maker in MTRAG.items():
        assert maker().name == name


KNOWN = ["1-1_1", "1-1_2", "1-1_3", "1-1_2"]


def test_turns_are_chosen_in_any_form_in_the_order_of_the_known(tmp_path, monkeypatch):
    chosen = ["1-1_1", "1-1_3"]
    path = tmp_path / "turns.txt"
    path.write_text("\ufeff\n1-1_3\n\n 1-1_1 \n1-1_3\n", encoding="utf-8")
    forms = [
        "1-1_3, 1-1_1",
        ["1-1_3", "1-1_1", "1-1_3"],
        pd.Series(["1-1_3", "1-1_1"]),
        pd.DataFrame({"qid": ["1-1_3", "1-1_1"]}),
        path,
        str(path),
    ]
    for turns in forms:
        assert read_turns(turns, KNOWN, "mine") == chosen
    monkeypatch.chdir(tmp_path)
    assert read_turns("turns.txt", KNOWN, "mine") == chosen
    monkeypatch.setenv("HOME", str(tmp_path))
    assert read_turns("~/turns.txt", KNOWN, "mine") == chosen
    assert read_turns("1-1_2", KNOWN, "mine") == ["1-1_2"]
    assert read_turns([7], ["6", "7"], "mine") == ["7"]

    class PathOfAnother:
        def __fspath__(self):
            return "turns.txt"

    assert read_turns(PathOfAnother(), KNOWN, "mine") == chosen


@pytest.mark.parametrize(
    ("turns", "part"),
    [
        ("1-1_9,1-1_1", "^mine has no turn 1-1_9: its turns are like 1-1_1$"),
        ("", "names no turn: give ids"),
        ([], "names no turn"),
        ("1-1_1,", "names no turn"),
        (pd.DataFrame({"a": [1], "b": [2]}), "it has only a, b: add it"),
        (pd.DataFrame(), "it has only none"),
    ],
    ids=["unknown", "empty", "none", "comma", "columns", "frame"],
)
def test_a_choice_of_no_known_turn_is_refused(turns, part):
    with pytest.raises(UsageError, match=part):
        read_turns(turns, KNOWN, "mine")


def test_a_bad_file_of_turns_is_named(tmp_path):
    path = tmp_path / "turns.txt"
    path.write_text("1-1_1\n\n1-1_9\n")
    with pytest.raises(UsageError, match=f"^{path}: mine has no turn 1-1_9 .line 3.: its turns"):
        read_turns(path, KNOWN, "mine")
    with pytest.raises(UsageError, match=r"has no turn 1-1_1 \(line 1\), 1-1_9 \(line 3\)$"):
        read_turns(path, [], "mine")
    path.write_text("\n \n")
    with pytest.raises(UsageError, match=f"^turns='{path}' names no turn: give ids"):
        read_turns(path, KNOWN, "mine")
    path.write_bytes(b"\xff")
    with pytest.raises(DataError, match="can't be read as text"):
        read_turns(path, KNOWN, "mine")
    with pytest.raises(DataError, match="can't be read as text"):
        read_turns(str(tmp_path / "none.txt"), KNOWN, "mine")
    with pytest.raises(UsageError, match="no turn .*a/b"):
        read_turns("a/b,c", KNOWN, "mine")


def test_a_named_list_of_turns_is_reduced_to_the_known():
    from pyterrier_ikat.conversations.public_outputs import turn_lists

    turns = turn_lists()["responses-2024"].turns
    assert read_turns("responses-2024", [*turns, "x"], "mine") == list(turns)
    with pytest.warns(FewerTurnsWarning, match="mine has 2 of the 62 turns of responses-2024"):
        assert read_turns("responses-2024", ["x", turns[3], turns[1]], "mine") == [
            turns[3],
            turns[1],
        ]
    with pytest.raises(UsageError, match="mine has none of the turns of responses-2024"):
        read_turns("responses-2024", KNOWN, "mine")


def test_judgements_are_found_by_name_path_or_frame(folder, tmp_path, monkeypatch):
    mine = dataset(folder)
    frame = pd.DataFrame({"qid": ["a"], "docno": ["d"], "label": ["3"], "more": [1]})
    assert find_qrels(frame, mine).values.tolist() == [["a", "d", 3]]
    assert find_qrels(None, mine)["label"].tolist() == [2, 0]
    with pytest.warns(CollectionWarning):
        assert find_qrels("gpt4", mine)["label"].tolist() == [1]
    path = tmp_path / "q.txt"
    path.write_text("a 0 d 4\n")
    assert find_qrels(path, mine)["label"].tolist() == [4]
    assert find_qrels(str(path), mine)["label"].tolist() == [4]
    monkeypatch.setenv("HOME", str(tmp_path))
    assert find_qrels("~/q.txt", mine)["label"].tolist() == [4]
    assert [is_variant(name, mine) for name in (None, "gpt4", "x", path)] == [
        True,
        True,
        False,
        False,
    ]
    with pytest.raises(UsageError, match="no qrels 'x'; there are the default, gpt4, ptkb"):
        find_qrels("x", mine)
    assert of_turns(frame, None, "mine") is frame
    judged = pd.DataFrame({"qid": ["a", "b", "a"], "docno": list("xyz"), "label": [1, 2, 3]})
    assert of_turns(judged, ["a"], "mine").reset_index().values.tolist() == [
        [0, "a", "x", 1],
        [1, "a", "z", 3],
    ]
    assert of_turns(judged, ["b", "a"], "mine").equals(judged)
    with pytest.raises(UsageError, match="mine has no turn c"):
        of_turns(judged, ["c"], "mine")


def test_advice_on_datasets_is_for_python_or_for_commands(folder):
    mine = dataset(folder)
    (folder / "passages.jsonl").unlink()
    calls = {
        "turns": lambda: read_turns("a,,b", KNOWN, "mine"),
        "qrels": lambda: find_qrels("none", mine),
        "texts": mine.text_loader,
        "variants": lambda: mine._check_variant("qrels", "x", []),
    }

    def advice():
        messages = {}
        for name, call in calls.items():
            with pytest.raises(UsageError) as refused:
                call()
            messages[name] = str(refused.value)
        return messages

    there = f"{folder} has no qrels 'none'; there are the default, gpt4, ptkb, and there is no file"
    names_no = "names no turn: give ids separated by commas, such as 1-1_1,1-1_2, or a file with"
    assert advice() == {
        "turns": f"turns='a,,b' {names_no} one on each line",
        "qrels": f"{there} none: omit qrels=... for the default",
        "texts": f"{folder} has no text loader: index its passages and take "
        "ikat.PassageIndex(PATH).text_loader()",
        "variants": f"{folder} has no qrels: give a file of your own (qrels=)",
    }
    with commands_advised():
        assert advice() == {
            "turns": f"--turns 'a,,b' {names_no} one on each line",
            "qrels": f"{there} none: omit --qrels for the default",
            "texts": f"{folder} has no text loader: index its passages and give --index PATH",
            "variants": f"{folder} has no qrels: give a file of your own (--qrels)",
        }
