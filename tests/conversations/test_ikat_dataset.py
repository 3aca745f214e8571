"""A folder as a dataset, and an object as one: their parts, variants, units and warnings."""

import gzip
import json
import warnings

import pandas as pd
import pyterrier as pt
import pytest
from small_files import ASK, PASSAGES, Own, lines

from pyterrier_ikat.conversations.datasets import (
    dataset,
    find_qrels,
)
from pyterrier_ikat.conversations.ikat_dataset import FolderDataset, GivenDataset
from pyterrier_ikat.conversations.topics import CollectionWarning, Conversation, TopicTurn
from pyterrier_ikat.errors import DataError, UsageError


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
    (folder / "passages.jsonl").write_text(lines(*PASSAGES))
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
    packed.write_bytes(gzip.compress(lines(*PASSAGES).encode()))
    mine = dataset(folder)
    assert mine.passage_file == packed
    assert mine.summary == "a folder with topics.jsonl, passages.jsonl.gz, qrels.txt"
    monkeypatch.setattr("pyterrier_ikat.conversations.ikat_dataset.HELD_BYTES", 1)
    assert mine.collection() == (None, None)
    assert [passage["docno"] for passage in mine.get_corpus_iter(verbose=False)] == ["d1", "d2"]


def test_a_topic_is_the_first_part_of_a_conversations_name(folder):
    class OfTopics(FolderDataset):
        unit = "topic"

    asked = [{"qid": qid, "messages": [ASK]} for qid in ("9-1-2_1", "9-3_1", "10_1")]
    (folder / "topics.jsonl").write_text(lines(*asked))
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
