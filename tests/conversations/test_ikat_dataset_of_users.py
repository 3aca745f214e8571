"""A user's own folder or object as a dataset: every command takes it like a dataset of ours."""

import json

import pandas as pd
import pyterrier as pt
import pytest
from click.testing import CliRunner
from packed_page import packed_turns

import pyterrier_ikat as ikat
from pyterrier_ikat.cli import main
from pyterrier_ikat.conversations.datasets import IkatProvider
from pyterrier_ikat.conversations.topics import CollectionWarning
from pyterrier_ikat.errors import DataError, UsageError
from pyterrier_ikat.evaluation.judgements import with_gold


def user(text):
    return {"role": "user", "content": text}


ASKED = [
    user("Which tea is best for me?"),
    {"role": "assistant", "content": "Rooibos."},
    user("Can I grow mint?"),
]
TURNS = [
    {
        "qid": "tea_1",
        "messages": ASKED[:1],
        "ptkb": ["I avoid caffeine."],
        "resolved": "Which tea has no GOLD?",
        "answer": "GOLD rooibos.",
    },
    {
        "qid": "tea_2",
        "messages": ASKED,
        "ptkb": ["I avoid caffeine."],
        "resolved": "Can I grow GOLD in pots?",
        "answer": "GOLD yes.",
    },
    {"qid": "q7", "messages": [user("Is there soup?")], "ptkb": {"a": "I like soup."}},
]
PASSAGES = [
    {"docno": "d1", "text": "Rooibos tea has no caffeine."},
    {"id": "d2", "contents": "Mint: grow it in pots.", "url": "u"},
    {"docno": "d3", "text": "There is soup on Monday."},
]
QRELS = "tea_1 0 d1 2\ntea_2 0 d2 1\nq7 0 d3 4\n"


def lines(items):
    text = ""
    for item in items:
        line = item if isinstance(item, str) else json.dumps(item)
        text += f"{line}\n"
    return text


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "topics.jsonl").write_text(lines(TURNS))
    (folder / "passages.jsonl").write_text(lines(PASSAGES))
    (folder / "qrels.txt").write_text(QRELS)
    (folder / "qrels.ptkb.txt").write_text("tea_1 0 1 1\ntea_2 0 1 0\nq7 0 a 1\n")
    return folder


def test_a_folder_gives_turns_judgements_and_passages(folder, monkeypatch):
    monkeypatch.setitem(pt.datasets._core._loaded_providers, "ikat", IkatProvider())
    monkeypatch.chdir(folder.parent)
    for data in (
        ikat.dataset("./mine"),
        ikat.dataset(folder),
        pt.get_dataset("ikat:./mine"),
        ikat.dataset(ikat.dataset("mine/")),
    ):
        topics = data.get_topics()
        assert topics["qid"].tolist() == ["tea_1", "tea_2", "q7"]
        assert (
            topics["query"].tolist()
            == topics["qutterance"].tolist()
            == [turn["messages"][-1]["content"] for turn in TURNS]
        )
        assert topics["qhistory"].tolist() == [turn["messages"][:-1] for turn in TURNS]
        assert topics["qptkb"].tolist() == [{"1": "I avoid caffeine."}] * 2 + [
            {"a": "I like soup."}
        ]
        assert topics[["qconversation", "qturn"]].values.tolist() == [
            ["tea", 1],
            ["tea", 2],
            ["q7", 1],
        ]
        assert data.get_qrels()["label"].tolist() == [2, 1, 4]
        assert data.get_qrels("ptkb")["docno"].tolist() == ["1", "1", "a"]
        assert [passage["docno"] for passage in data.get_corpus_iter(verbose=False)] == [
            "d1",
            "d2",
            "d3",
        ]
        assert data.text_loader(["url"])(pd.DataFrame({"docno": ["d2"]}))["url"].tolist() == ["u"]
        assert data.collection() == (3, {"d1", "d2", "d3"})
        assert data.name == str(folder)
        with pytest.raises(UsageError, match="no qrels 'gold'; there are the default, ptkb"):
            data.get_qrels("gold")


def test_gold_comes_only_when_it_is_asked_for(folder):
    data = ikat.dataset(folder)
    assert "GOLD" not in str(data.get_topics().to_dict())
    assert data.get_topics("manual")["qresolved"].tolist() == [
        "Which tea has no GOLD?",
        "Can I grow GOLD in pots?",
        "Is there soup?",
    ]
    assert data.get_answers().to_dict("list") == {
        "qid": ["tea_1", "tea_2", "q7"],
        "gold_answer": ["GOLD rooibos.", "GOLD yes.", ""],
    }
    (folder / "topics.jsonl").write_text(
        lines([{**TURNS[0], "answerability": "unanswerable"}, *TURNS[1:]])
    )
    assert ikat.dataset(folder).get_answers()["gold_answerability"].tolist() == [
        "unanswerable",
        "",
        "",
    ]
    assert not any("answerab" in name for name in ikat.dataset(folder).get_topics("manual"))


@pytest.mark.filterwarnings("default::pyterrier_ikat.conversations.topics.CollectionWarning")
@pytest.mark.filterwarnings("default::pyterrier_ikat.study.NotJudgedWarning")
def test_every_command_works_on_a_folder(folder, monkeypatch):
    monkeypatch.chdir(folder.parent)

    def run(*words):
        return CliRunner().invoke(main, list(words))

    (folder / "qrels.txt").write_text("tea_1 0 d1 2\ntea_2 0 d2 1\n")
    assert "3 passages" in run("index", "./mine", "index").output
    done = run("run", "raw", "--dataset", "./mine", "--index", "index", "--out", "runs")
    assert "Mean over 2 judged turns" in done.output
    assert (
        f"{folder}/qrels.txt: 1 of 3 turns in topics.jsonl without a judgement (q7)" in done.stderr
    )
    assert (
        run("report", "runs/raw", "--out", "page.html").exit_code == 0
    )  # the run folder names the dataset
    page = (folder.parent / "page.html").read_text(encoding="utf-8")
    assert "Rooibos tea has no caffeine" in str(packed_turns(page))
    (folder / "qrels.txt").unlink()
    assert (
        "has no qrels.txt: nothing is judged"
        in run("run", "raw", "--dataset", "./mine", "--index", "index", "--out", "other").stderr
    )
    assert (
        "mine has no judgements" in run("evaluate", "runs/raw", "--dataset", "mine").stderr
    )  # a folder by its name alone
    assert "./yours" in run("evaluate", "runs/raw", "--dataset", "yours").stderr


BAD = {
    "not JSON": ("{", "can't be read as JSON"),
    "no object": ("[1]", "an object is expected, found"),
    "no qid": ({"messages": ASKED}, "qid is missing"),
    "white space": ({"qid": "x 1", "messages": ASKED}, 'the name "x 1" can\'t be part of a qid'),
    "qid twice": ({"qid": "tea_1", "messages": ASKED}, "tea_1 was there before"),
    "no messages": ({"qid": "x_1"}, "messages is missing"),
    "empty messages": (
        {"qid": "x_1", "messages": []},
        "the last of the messages is not a question of the user",
    ),
    "ends with an answer": (
        {"qid": "x_1", "messages": ASKED[:2]},
        "the last of the messages is not a question of the user",
    ),
    "empty turn": (
        {"qid": "x_1", "messages": [user(" ")]},
        "the last of the messages is not a question of the user",
    ),
    "role": (
        {"qid": "x_1", "messages": [{"role": "system", "content": "x"}, *ASKED]},
        'message 1: the role is "system"',
    ),
    "NaN": (
        '{"qid": "x_1", "messages": [{"role": "user", "content": NaN}]}',
        "message 1: content is NaN, not a text",
    ),
    "answer": (
        {"qid": "x_1", "messages": ASKED, "answer": ["a"]},
        r'answer is \["a"\], not a text',
    ),
    "answerability": (
        {"qid": "x_1", "messages": ASKED, "answerability": "no"},
        'answerability is "no": give one of answerable, partial',
    ),
    "ptkb": ({"qid": "x_1", "messages": ASKED, "ptkb": "vegan"}, 'ptkb is "vegan"'),
    "statement": ({"qid": "x_1", "messages": ASKED, "ptkb": [3]}, "1 is 3, not a text"),
}


@pytest.mark.parametrize(("line", "part"), BAD.values(), ids=BAD)
def test_a_bad_turn_is_named_with_file_and_line(folder, line, part):
    (folder / "topics.jsonl").write_text("\ufeff" + lines([*TURNS[:2], "", line]))
    with pytest.raises(DataError, match=part) as caught:
        ikat.dataset(folder).get_topics()
    assert str(caught.value).startswith(f"{folder}/topics.jsonl, line 4: ")


@pytest.mark.parametrize(
    ("name", "content", "part"),
    [
        (
            "qrels.txt",
            "x_1 0 d1 1\n" + QRELS,
            "qrels.txt: 1 judged turns that topics.jsonl lacks .x_1",
        ),
        (
            "qrels.txt",
            QRELS + "q7 0 d9 1\n",
            "qrels.txt: 1 judged passages that passages.jsonl lacks .d9",
        ),
        (
            "qrels.txt",
            "tea_1 0 d1 2\n",
            "qrels.txt: 2 of 3 turns in topics.jsonl without a judgement .tea_2, q7",
        ),
        (
            "qrels.ptkb.txt",
            "tea_1 0 1 1\ntea_2 0 9 0\nq7 0 a 1\n",
            "1 judged statements that the turn's ptkb in topics.jsonl lacks .9",
        ),
    ],
)
def test_what_is_doubtful_in_judgements_is_named(folder, name, content, part):
    (folder / name).write_text(content)
    data = ikat.dataset(folder)
    variant = "ptkb" if "ptkb" in name else None
    with pytest.warns(CollectionWarning, match=part) as caught:
        assert all(len(data.get_qrels(variant)) for _ in range(2))
    assert len(caught) == 1


def test_files_that_are_missing_or_there_twice_are_named(folder):
    data = ikat.dataset(folder)
    files = ("topics.json", "topics.jsonl", "passages.jsonl", "passages.jsonl.gz")

    def refused(error, ask, message):
        with pytest.raises(error, match=message):
            ask()

    for name in files:
        (folder / name).touch()
    refused(DataError, data.get_corpus_iter, "has passages.jsonl and passages.jsonl.gz: keep one")
    refused(DataError, data.get_topics, "has both of topics.jsonl and topics.json: give it one")
    for name in files:
        (folder / name).unlink()
    refused(DataError, data.get_topics, "has none of topics.jsonl and topics.json")
    refused(DataError, data.get_corpus_iter, r"has no passages.jsonl")
    (folder / "qrels.txt").unlink()
    refused(
        UsageError,
        lambda: ikat.dataset(folder),
        "no dataset and no folder .* with topics.jsonl or topics.json or passages.jsonl",
    )


class Own:
    """What PyTerrier calls a dataset, with gold in its topics."""

    name = "own"

    def get_topics(self):
        return pd.DataFrame(
            {
                "qid": ["1", "2"],
                "query": ["tea", "soup"],
                "qresolved": ["GOLD tea", "GOLD soup"],
                "gold_x": "GOLD",
            }
        )

    def get_qrels(self):
        return pd.DataFrame({"qid": ["1"], "docno": ["d1"], "label": [1]})

    def get_corpus_iter(self):
        return iter(PASSAGES[:1])


@pytest.mark.parametrize("own", [Own, Own()], ids=["class", "object"])
def test_an_object_with_pyterriers_methods_is_a_dataset(own):
    data = ikat.dataset(own)
    assert "GOLD" not in str(data.get_topics().to_dict())
    assert list(data.get_topics()) == [
        "qid",
        "query",
        "qutterance",
        "qconversation",
        "qturn",
        "qhistory",
        "qptkb",
    ]
    assert data.get_topics("manual")["qresolved"].tolist() == ["GOLD tea", "GOLD soup"]
    assert data.get_answers()["gold_answer"].tolist() == ["", ""]
    assert list(data.get_corpus_iter(verbose=False)) == PASSAGES[:1]
    assert [chat.turns[0].resolved for chat in data.conversations] == ["GOLD tea", "GOLD soup"]
    found = pd.DataFrame({"qid": ["1"], "docno": ["d1"], "score": [1.0], "rank": [0]})
    assert ikat.experiment({"one": found}, own, ["nDCG@5"])["nDCG@5"].tolist() == [1.0]
    with pytest.raises(UsageError, match="is not a dataset: give a name, a folder, or an object"):
        ikat.dataset(3)


def test_two_answers_of_a_turn_are_refused_not_doubling_passages():
    class TwoAnswers(Own):
        def get_answers(self):
            return pd.DataFrame({"qid": ["1", "2", "1"], "gold_answer": ["a", "b", "c"]})

    with pytest.raises(DataError, match="turn 1 has several rows"):
        with_gold(pd.DataFrame({"qid": ["1"], "docno": ["d1"]}), TwoAnswers())


class Other(pt.datasets.DatasetProvider):
    """Another provider of PyTerrier's, with one dataset."""

    def get_dataset(self, name):
        if name != "cast/v0":
            raise KeyError(f"nothing called {name}")
        return type(
            "OtherDataset",
            (Own, pt.datasets.Dataset),
            {"get_topics": lambda self, variant=None: Own().get_topics()},
        )()

    def list_dataset_names(self):
        return ["cast/v0"]


def test_a_dataset_of_another_provider_is_taken_by_its_name(monkeypatch):
    monkeypatch.setitem(pt.datasets._core._loaded_providers, "other", Other())
    data = ikat.dataset("other:cast/v0")
    assert data.name == "other:cast/v0"
    assert data.get_topics()["qid"].tolist() == ["1", "2"]
    assert data.get_qrels()["docno"].tolist() == ["d1"]
    for name in ("other:cast/v9", "nowhere:cast"):
        with pytest.raises(UsageError, match=rf"no dataset '{name}': .*not found"):
            ikat.dataset(name)


def test_a_topics_file_alone_is_a_dataset_of_turns(tmp_path):
    turn = {
        "turn_id": 1,
        "utterance": "Which tea?",
        "response": "Rooibos.",
        "response_provenance": ["tea:1"],
    }
    path = tmp_path / "chat.json"
    path.write_text(
        json.dumps(
            [{"number": "chat-1", "title": "", "ptkb": {"1": "I avoid caffeine."}, "turns": [turn]}]
        )
    )
    (tmp_path / "qrels.txt").write_text("chat-1_1 0 tea:9 1\n")  # another one's
    found = ikat.dataset(str(path))
    assert found.get_topics()[["qid", "qptkb"]].values.tolist() == [
        ["chat-1_1", {"1": "I avoid caffeine."}]
    ]
    assert found.get_qrels().empty
    with pytest.raises(DataError, match="other.json: can't be read .*No such file"):
        ikat.dataset("other.json").get_topics()
