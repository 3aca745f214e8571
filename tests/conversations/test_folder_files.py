"""A folder as a dataset, and an object as one: whole results of a small case."""

import bz2
import gzip
import json
import warnings
from pathlib import Path

import pandas as pd
import pyterrier as pt
import pytest

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
from pyterrier_ikat.conversations.passages import (
    PassageFiles,
    collection_files,
    fields_named,
    read_passages,
)
from pyterrier_ikat.conversations.topics import CollectionWarning, Conversation, TopicTurn
from pyterrier_ikat.errors import DataError, UsageError, commands_advised

ASK = {"role": "user", "content": "Tea?"}
TURNS = [
    {"qid": "9-1_1", "messages": [ASK], "ptkb": {"1": "I run."}, "answer": "Mint."},
    {"qid": "9-2_1", "messages": [ASK], "resolved": "Which tea?"},
]
PASSAGES = [{"docno": "d1", "text": " Mint. "}, {"id": "d2", "contents": "Rye.", "url": "u"}]


def lines(items):
    return "".join(json.dumps(item) + "\n" for item in items)


@pytest.fixture
def folder(tmp_path):
    """A folder with turns, passages, judgements, and two files of other judgements."""
    path = tmp_path / "mine"
    path.mkdir()
    (path / "topics.jsonl").write_text(lines(TURNS))
    (path / "passages.jsonl").write_text(lines(PASSAGES))
    (path / "qrels.txt").write_text("9-1_1 0 d1 2\n9-2_1 0 d2 0\n")
    (path / "qrels.ptkb.txt").write_text("9-1_1 0 1 1\n9-2_1 0 1 0\n")
    (path / "qrels.gpt4.txt").write_text("9-1_1 0 d1 1\n")
    return path


def told(call):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return [str(one.message) for one in caught if one.category is CollectionWarning]


def test_a_folder_has_everything_under_one_name(folder):
    mine = dataset(folder)
    assert (mine.name, mine.year, mine.size, mine.unit) == (str(folder), None, None, "conversation")
    assert mine.summary == "a folder with topics.jsonl, passages.jsonl, qrels.txt"
    assert repr(mine) == f"ikat.dataset({str(folder)!r})"
    assert mine.qrels_variants() == ["gpt4", "ptkb"]
    assert mine.info_url() is None
    assert mine.topics_file is None
    assert mine.get_topics().columns.tolist()[:2] == ["qid", "query"]
    manual = mine.get_topics("manual")
    assert manual["qresolved"].tolist() == ["Tea?", "Which tea?"]
    assert mine.get_answers().values.tolist() == [["9-1_1", "Mint."], ["9-2_1", ""]]
    assert list(mine.get_corpus_iter(verbose=False)) == [
        {"docno": "d1", "text": "Mint.", "url": ""},
        {"docno": "d2", "text": "Rye.", "url": "u"},
    ]
    assert mine.collection() == (2, {"d1", "d2"})
    loaded = mine.text_loader("*")(pd.DataFrame({"qid": ["1"], "docno": ["d2"]}))
    assert loaded.values.tolist() == [["1", "d2", "Rye.", "u"]]
    topics, qrels = mine.get_topicsqrels("manual")
    assert "qresolved" in topics.columns
    assert qrels["label"].tolist() == [2, 0]
    assert mine._describe_component("topics") == ["manual"]
    assert mine._describe_component("qrels") == ["gpt4", "ptkb"]
    assert mine._describe_component("corpus") is True
    assert mine._describe_component("index") is None
    mine.topic_variants = (None,)
    assert mine._describe_component("topics") is True


def test_the_units_of_a_folder_are_turns_and_conversations(folder):
    mine = dataset(folder)
    assert mine.clusters() == mine.clusters("conversation") == {"9-1_1": "9-1", "9-2_1": "9-2"}
    assert mine.clusters("turn") == {"9-1_1": "9-1_1", "9-2_1": "9-2_1"}
    with pytest.raises(UsageError, match="which user .*: its units are turn, conversation$"):
        mine.clusters("user")
    sample = dataset("sample")
    assert set(sample.clusters().values()) == {"1", "2", "3"}
    with pytest.raises(UsageError, match="its units are turn, conversation, topic$"):
        sample.clusters("user")


@pytest.mark.parametrize(
    ("call", "part"),
    [
        (lambda mine: mine.get_topics("x"), "no topics 'x'; there are the default, manual"),
        (lambda mine: mine.get_qrels("x"), "no qrels 'x'; there are the default, gpt4, ptkb"),
        (lambda mine: mine.get_topics("automatic"), "no topics 'automatic'"),
    ],
)
def test_an_unknown_variant_is_refused(folder, call, part):
    with pytest.raises(UsageError, match=part):
        call(dataset(folder))


def test_doubtful_judgements_are_told_once_for_each_file(folder):
    mine = dataset(folder)
    assert told(mine.get_qrels) == []
    assert told(lambda: mine.get_qrels("ptkb")) == [
        f"{folder}/qrels.ptkb.txt: 1 judged statements that the turn's ptkb in topics.jsonl "
        "lacks (1)"
    ]
    assert told(lambda: mine.get_qrels("gpt4")) == [
        f"{folder}/qrels.gpt4.txt: 1 of 2 turns in topics.jsonl without a judgement (9-2_1)"
    ]
    assert told(lambda: mine.get_qrels("gpt4")) == told(lambda: mine.get_qrels("ptkb")) == []
    (folder / "qrels.txt").write_text("9-1_1 0 d7 2\n9-1_1 0 d1 2\n8-1_1 0 d7 0\n9-2_1 0 d1 1\n")
    assert told(dataset(folder).get_qrels) == [
        f"{folder}/qrels.txt: 1 judged turns that topics.jsonl lacks (8-1_1)",
        f"{folder}/qrels.txt: 1 judged passages that passages.jsonl lacks (d7)",
    ]
    (folder / "passages.jsonl").unlink()
    assert len(told(dataset(folder).get_qrels)) == 1


def test_a_folder_without_a_file_says_so(folder):
    (folder / "qrels.txt").unlink()
    mine = dataset(folder)
    (warning,) = told(lambda: mine.get_qrels())
    assert f"{folder} has no qrels.txt: nothing is judged" in warning
    assert mine.summary == "a folder with topics.jsonl, passages.jsonl"
    (folder / "passages.jsonl").unlink()
    mine = dataset(folder)
    assert mine.collection() == (None, None)
    with pytest.raises(DataError, match='has no passages.jsonl: add it, a line is {"docno"'):
        list(mine.get_corpus_iter(verbose=False))
    with pytest.raises(UsageError, match="has no text loader: index its passages"):
        mine.text_loader()
    (folder / "topics.json").write_text("[]")
    with pytest.raises(DataError, match="has both of topics.jsonl and topics.json"):
        mine.get_topics()
    for name in ("topics.json", "topics.jsonl"):
        (folder / name).unlink()
    with pytest.raises(UsageError, match="no dataset and no folder .* with topics.jsonl or topics"):
        dataset(folder)
    (folder / "passages.jsonl").write_text(lines(PASSAGES))
    with pytest.raises(DataError, match="has none of topics.jsonl and topics.json"):
        dataset(folder).get_topics()


TRACK = [
    {
        "number": "9-1",
        "ptkb": {"1": "I run.", "2": "I swim."},
        "turns": [
            {
                "turn_id": 1,
                "utterance": "Tea?",
                "response": "Mint.",
                "ptkb_provenance": [2],
                "response_provenance": ["d1"],
            }
        ],
    }
]


def test_a_folder_of_the_track_has_judgements_of_its_gold_fields(folder):
    (folder / "topics.jsonl").unlink()
    (folder / "topics.json").write_text(json.dumps(TRACK))
    (folder / "qrels.ptkb.txt").unlink()
    mine = dataset(folder)
    assert mine.qrels_variants() == ["gpt4", "ptkb", "provenance"]
    assert mine.get_qrels("provenance").values.tolist() == [["9-1_1", "d1", 1]]
    assert mine.get_qrels("ptkb").values.tolist() == [["9-1_1", "1", 0], ["9-1_1", "2", 1]]
    (folder / "qrels.ptkb.txt").write_text("9-1_1 0 1 3\n")
    assert dataset(folder).get_qrels("ptkb").values.tolist() == [["9-1_1", "1", 3]]


def test_a_topics_file_alone_is_a_dataset_without_judgements(tmp_path):
    path = tmp_path / "chat.json"
    path.write_text(json.dumps(TRACK))
    alone = dataset(str(path))
    assert alone.summary == "a topics file"
    assert told(lambda: alone.get_qrels()) == []
    assert alone.get_qrels().empty
    assert alone.get_topics()["qid"].tolist() == ["9-1_1"]


class Own:
    """The least that a dataset has."""

    year = 2023

    def get_topics(self):
        history = [ASK, {"role": "assistant", "content": "Mint."}]
        return pd.DataFrame(
            {
                "qid": ["a", "b"],
                "query": ["Tea?", "And now?"],
                "qhistory": [None, history],
                "qgoldptkb": [["1"], []],
                "gold_x": [1, 2],
            }
        )


class Whole(Own):
    name = "whole"

    def get_topics(self):
        return super().get_topics().assign(qconversation="c", qturn=[4, 5], qptkb=[["I run."]] * 2)

    def get_qrels(self, variant=None):
        return pd.DataFrame({"qid": ["a"], "docno": ["d"], "label": [1], "x": [variant or "none"]})

    def get_corpus_iter(self):
        return iter(PASSAGES)

    def get_answers(self):
        return pd.DataFrame({"qid": ["a"], "gold_answer": ["Mint."]})

    def collection(self):
        return 2, frozenset(["d"])

    def text_loader(self, fields, verbose):
        return fields, verbose


def test_an_object_is_filled_in_to_a_dataset():
    own = GivenDataset(Own)
    assert (own.name, own.summary, own.year, own.declares_unit) == ("Own", "a Own", 2023, False)
    topics = own.get_topics()
    assert topics.to_dict("list") == {
        "qid": ["a", "b"],
        "query": ["Tea?", "And now?"],
        "qhistory": [[], topics["qhistory"][1]],
        "qutterance": ["Tea?", "And now?"],
        "qconversation": ["a", "b"],
        "qturn": [1, 2],
        "qptkb": [{}, {}],
    }
    manual = own.get_topics("manual")
    assert manual["qresolved"].tolist() == ["Tea?", "And now?"]
    assert manual["qgoldptkb"].tolist() == [["1"], []]
    assert own.get_answers().values.tolist() == [["a", ""], ["b", ""]]
    assert own.collection() == (None, None)
    assert own.clusters() == {"a": "a", "b": "b"}
    assert [chat.qid(chat.turns[0]) for chat in own.conversations] == ["a", "b"]
    assert own.conversations[1].turns[0].turn_id == 2
    assert len(own.conversations[1].histories()[0]) == 2
    assert own.qrels_variants() == []
    with pytest.raises(UsageError, match="Own has no text loader"):
        own.text_loader()
    with pytest.raises(UsageError, match="no topics 'x'"):
        own.get_topics("x")


def test_the_turns_of_an_object_have_an_index_of_their_own():
    class Moved(Own):
        def get_topics(self):
            return super().get_topics().set_axis([7, 3])

    topics = GivenDataset(Moved()).get_topics("manual")
    assert topics.index.tolist() == [0, 1]
    assert topics["qid"].tolist() == ["a", "b"]


def test_the_number_of_a_turn_counts_the_questions_before_it():
    question = {"role": "user", "content": "Tea?"}
    answer = {"role": "assistant", "content": "Green."}

    class Silent(Own):
        def get_topics(self):
            histories = [[question, question], [question, answer, answer]]
            return super().get_topics().assign(qhistory=histories)

    assert GivenDataset(Silent()).get_topics()["qturn"].tolist() == [3, 2]


def test_an_object_keeps_what_it_has():
    source = Whole()
    own = GivenDataset(source)
    assert (own.name, own.declares_unit) == ("whole", True)
    assert GivenDataset(source, "mine").name == "mine"
    assert repr(own) == f"ikat.dataset({source!r})"
    topics = own.get_topics()
    assert topics["qturn"].tolist() == [4, 5]
    assert topics["qptkb"].tolist() == [{"1": "I run."}] * 2
    assert own.clusters() == {"a": "c", "b": "c"}
    assert own.conversations[0].ptkb == {"1": "I run."}
    assert own.get_qrels().to_dict("list") == {"qid": ["a"], "docno": ["d"], "label": [1]}
    assert own.get_answers()["gold_answer"].tolist() == ["Mint."]
    assert own.collection() == (2, {"d"})
    assert own.text_loader("url", verbose=True) == ("url", True)
    assert list(own.get_corpus_iter(verbose=False)) == PASSAGES


@pytest.mark.parametrize(
    ("source", "part"),
    [(5, "5 is not a dataset"), (pd.DataFrame(), "give topics=FRAME, qrels=FRAME")],
    ids=["number", "frame"],
)
def test_what_has_no_topics_is_no_dataset(source, part):
    with pytest.raises(UsageError, match=part):
        dataset(source)


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


def test_passage_files_may_be_a_folder_a_file_or_a_list(tmp_path):
    for number in (2, 1):
        (tmp_path / f"{number}.jsonl").write_text(lines([{"id": str(number), "text": "a"}]))
    (tmp_path / "0.json").write_text(lines([{"id": "0", "text": "a"}] * 2))

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


def test_fields_are_named_by_a_star_a_name_or_a_list():
    known = ["text", "url"]
    assert fields_named("*", known) == ("text", "url")
    assert fields_named("url", known) == ("url",)
    assert fields_named(["url", "text"], known) == ("url", "text")
    with pytest.raises(UsageError, match="no field 'a', 'b'; there are 'text', 'url'"):
        fields_named(["a", "text", "b"], known)
    with pytest.raises(UsageError, match="no field '\\*'; there are"):
        fields_named(["*"], known)


def test_pyterrier_finds_the_datasets_by_their_names():
    provider = ikat.conversations.datasets.IkatProvider()
    assert provider.list_dataset_names()[0] == "sample"
    assert provider.get_dataset("sample").name == "ikat:sample"
    assert pt.get_dataset("ikat:sample").name == "ikat:sample"


class OfPyterrier(pt.datasets.Dataset):
    """A dataset of PyTerrier that lists variants of its topics and its judgements."""

    def get_topics(self, variant=None):
        topics = pd.DataFrame({"qid": [1, 2], "query": ["it", "that"]})
        if variant == "manual":
            topics = topics.assign(qresolved=["tea", "rye"])
        return topics.assign(qutterance=["It?", "That?"], qconversation=[7, 8], gold_x=[1, 2])

    def get_qrels(self, variant=None):
        label = {None: 1, "deep": 2}[variant]
        return pd.DataFrame({"qid": ["1"], "docno": ["d"], "label": [label]})

    def get_corpus_iter(self, verbose=True):
        yield {"docno": "d", "text": f"bar: {verbose}"}

    def _describe_component(self, component):
        return {"topics": ["manual"], "qrels": ["deep"]}.get(component, True)


def test_a_dataset_of_pyterrier_keeps_the_variants_that_it_lists():
    own = GivenDataset(OfPyterrier)
    assert own.qrels_variants() == ["deep"]
    assert own.get_qrels()["label"].tolist() == [1]
    assert own.get_qrels("deep")["label"].tolist() == [2]
    assert find_qrels("deep", own)["label"].tolist() == [2]
    assert list(own.get_corpus_iter(verbose=False)) == [{"docno": "d", "text": "bar: False"}]
    manual = own.get_topics("manual")
    assert manual["qid"].tolist() == ["1", "2"]
    assert manual["qresolved"].tolist() == ["tea", "rye"]
    assert manual["qgoldptkb"].tolist() == [[], []]
    assert own.get_topics().columns.tolist() == [
        *("qid", "query", "qutterance", "qconversation", "qturn", "qhistory", "qptkb")
    ]
    assert own.clusters() == {"1": "7", "2": "8"}
    assert [chat.number for chat in own.conversations] == ["1", "2"]


def test_a_dataset_without_variants_or_a_name_has_stand_ins():
    class Plain(OfPyterrier):
        name = None

        def get_topics(self):
            return super().get_topics().assign(qptkb=[["I run."], None])

        def get_qrels(self):
            return pd.DataFrame(columns=["qid", "docno", "label"])

        def _describe_component(self, component):
            return True

    own = GivenDataset(Plain())
    assert own.name == "Plain"
    assert own.qrels_variants() == []
    assert own.get_qrels().empty
    manual = own.get_topics("manual")
    assert manual["qresolved"].tolist() == ["It?", "That?"]
    assert manual["qgoldptkb"].tolist() == [[], []]
    with pytest.raises(UsageError, match="^Plain has no text loader: index its passages"):
        own.text_loader()


def test_a_turn_without_a_question_is_no_turn_of_a_dataset():
    class Asked(Own):
        def get_topics(self):
            return super().get_topics().assign(query=["Tea?", None])

    with pytest.raises(DataError, match="1 row has no text in query .turns b.: fill the column"):
        GivenDataset(Asked).get_topics()


def test_each_file_of_judgements_is_a_variant_by_its_whole_name(folder):
    (folder / "qrels.a.b.txt").write_text("9-1_1 0 d1 3\n9-2_1 0 d1 0\n")
    (folder / "qrels.ptkb_x.txt").write_text("9-1_1 0 1 1\n9-1_1 0 7 1\n8-1_1 0 5 1\n9-2_1 0 1 0\n")
    mine = dataset(folder)
    assert mine.qrels_variants() == ["a.b", "gpt4", "ptkb", "ptkb_x"]
    assert mine.get_qrels("a.b")["label"].tolist() == [3, 0]
    assert told(lambda: mine.get_qrels("ptkb_x")) == [
        f"{folder}/qrels.ptkb_x.txt: 1 judged turns that topics.jsonl lacks (8-1_1)",
        f"{folder}/qrels.ptkb_x.txt: 2 judged statements that the turn's ptkb in topics.jsonl "
        "lacks (7, 1)",
    ]


def test_judgements_of_gold_fields_are_never_doubtful(folder):
    (folder / "topics.jsonl").unlink()
    (folder / "qrels.ptkb.txt").unlink()
    (turn,) = TRACK[0]["turns"]
    bare = {"turn_id": 2, "utterance": "And?", "response": "So."}
    chat = {**TRACK[0], "turns": [{**turn, "response_provenance": ["d9"]}, bare]}
    (folder / "topics.json").write_text(json.dumps([chat]))
    mine = dataset(folder)
    for variant in ("provenance", "ptkb"):
        assert told(lambda variant=variant: mine.get_qrels(variant)) == []
    assert mine.get_qrels("provenance").values.tolist() == [["9-1_1", "d9", 1]]


def test_a_bar_of_passages_knows_their_number(monkeypatch):
    seen = []

    def seen_bar(passages, **options):
        seen.append((options["total"], options["disable"]))
        return passages

    monkeypatch.setattr("pyterrier_ikat.conversations.ikat_dataset.bar", seen_bar)
    sample = dataset("sample")
    assert next(sample.get_corpus_iter())["docno"]
    sample.size = 230
    assert len(sample.get_corpus_iter(verbose=False)) == 230
    assert seen == [(None, False), (230, True)]


def test_passages_of_another_name_are_not_those_of_a_folder(folder, monkeypatch):
    (folder / "passages.jsonl").rename(folder / "other.jsonl")
    assert dataset(folder).passage_file is None
    packed = folder / "passages.jsonl.gz"
    packed.write_bytes(gzip.compress(lines(PASSAGES).encode()))
    mine = dataset(folder)
    assert mine.passage_file == packed
    assert mine.summary == "a folder with topics.jsonl, passages.jsonl.gz, qrels.txt"
    monkeypatch.setattr("pyterrier_ikat.conversations.ikat_dataset.HELD_BYTES", 1)
    assert mine.collection() == (None, None)
    assert [passage["docno"] for passage in mine.get_corpus_iter(verbose=False)] == ["d1", "d2"]


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


def test_a_topic_is_the_first_part_of_a_conversations_name(folder):
    class OfTopics(FolderDataset):
        unit = "topic"

    asked = [{"qid": qid, "messages": [ASK]} for qid in ("9-1-2_1", "9-3_1", "10_1")]
    (folder / "topics.jsonl").write_text(lines(asked))
    mine = OfTopics(folder)
    assert mine.clusters() == {"9-1-2_1": "9", "9-3_1": "9", "10_1": "10"}
    assert mine.clusters("topic") == mine.clusters()
    assert mine.clusters("conversation") == {"9-1-2_1": "9-1-2", "9-3_1": "9-3", "10_1": "10"}
    assert mine.clusters("turn") == {qid: qid for qid in mine.clusters()}
    with pytest.raises(UsageError, match="which user .*: its units are turn, conversation, topic$"):
        mine.clusters("user")


def test_turns_of_an_object_are_conversations_with_their_past():
    class Rewritten(Whole):
        def get_topics(self):
            resolved = ["Which tea?", "And which now?"]
            return super().get_topics().assign(qutterance=["T?", "N?"], qresolved=resolved)

    first, second = GivenDataset(Rewritten()).conversations
    past = (ASK, {"role": "assistant", "content": "Mint."})
    persona = {"1": "I run."}
    asked = TopicTurn(4, "Tea?", "", "Which tea?", qid="a", history=())
    assert first == Conversation("a", ptkb=persona, turns=(asked,))
    asked = TopicTurn(5, "And now?", "", "And which now?", qid="b", history=past)
    assert second == Conversation("b", ptkb=persona, turns=(asked,))


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
