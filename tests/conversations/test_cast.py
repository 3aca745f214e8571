"""Topics of TREC CAsT from files in the organisers' formats: lines of turns, and the trees of 2022."""

import json

import pytest

import pyterrier_ikat as ikat
from pyterrier_ikat.conversations import read_topics
from pyterrier_ikat.errors import DataError, UsageError

LINE = [
    {
        "number": 106,
        "turn": [
            {
                "number": 1,
                "raw_utterance": "Which tea has no caffeine?",
                "passage": "Rooibos has none.",
                "manual_rewritten_utterance": "Which tea has no caffeine?",
                "canonical_result_id": "MARCO_D59865",
                "passage_id": 7,
                "automatic_rewritten_utterance": "Which tea is free of caffeine?",
            },
            {
                "number": 2,
                "raw_utterance": "Where does it grow?",
                "passage": "In South Africa.",
                "manual_rewritten_utterance": "Where does rooibos grow?",
                "canonical_result_id": "KILT_1845197",
                "passage_id": 0,
                "automatic_rewritten_utterance": "Where does tea grow?",
            },
        ],
    }
]


def user(number, text, parent=None, **more):
    return {"number": number, "participant": "User", "utterance": text, "manual_rewritten_utterance": f"{text}!", "parent": parent} | more


def system(number, text, parent, provenance=()):
    return {"number": number, "participant": "System", "response": text, "parent": parent, "provenance": list(provenance)}


# The system answers turn 1-3 (1-4), or asks back (2-1), which the user answers (2-2); a third way leaves after 1-2 (3-1).
TREE = [
    {
        "number": 133,
        "turn": [
            user("1-1", "Make soap?"),
            system("1-2", "Use lye.", "1-1", ["MARCO_26_222804180-1"]),
            user("1-3", "And lotion?", "1-2"),
            system("1-4", "Use oil.", "1-3", ["MARCO_50_2268879788 -3", "KILT_78449-18", "KILT_78449-18"]),
            system("2-1", "Which lotion?", "1-3"),
            user("2-2", "A scented one.", "2-1"),
            user("3-1", "Is lye safe?", "1-2"),
            system("3-2", "With gloves.", "3-1", ["WAPO_c514bdc9df22c43dfb344c58a3ea8197-5"]),
        ],
    }
]


def messages(*texts):
    return [{"role": ("user", "assistant")[place % 2], "content": text} for place, text in enumerate(texts)]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The user's files of 2021 and 2022, which aren't the published ones."""
    automatic = json.loads(json.dumps(TREE).replace("manual_rewritten", "automatic_rewritten").replace("!", "?"))
    for name, content in {
        "2021_manual_evaluation_topics_v1.0.json": json.dumps(LINE),
        "trec-cast-qrels-docs.2021.qrel": "106_2 0 KILT_1845197 4\n",
        "2022_evaluation_topics_tree_v1.0.json": json.dumps(TREE),
        "2022_automatic_evaluation_topics_tree_v1.0.json": json.dumps(automatic),
        "2022-qrels.txt": "133_2-2 0 KILT_78449-18 2\n133_3-1 0 MARCO_26_222804180-1 0\n",
    }.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    monkeypatch.setenv("IKAT_DATA", str(tmp_path))
    return tmp_path


pytestmark = pytest.mark.filterwarnings("ignore::pyterrier_ikat.conversations.download.OtherDataWarning")


def test_turns_of_2021_have_the_passages_of_the_turns_before_them(folder):
    data = ikat.dataset("cast:2021")
    topics = data.get_topics()
    assert topics["qid"].tolist() == ["106_1", "106_2"]
    assert topics["qhistory"].tolist() == [[], messages("Which tea has no caffeine?", "Rooibos has none.")]
    assert topics["qturn"].tolist() == [1, 2]
    assert data.get_topics("manual")["qresolved"].tolist() == ["Which tea has no caffeine?", "Where does rooibos grow?"]
    automatic = data.get_topics("automatic")
    assert automatic["query"].tolist() == ["Which tea is free of caffeine?", "Where does tea grow?"]
    assert automatic["qhistory"].tolist() == topics["qhistory"].tolist()
    assert data.get_answers()["gold_answer"].tolist() == ["Rooibos has none.", "In South Africa."]
    assert data.get_qrels().values.tolist() == [["106_2", "KILT_1845197", 4]]
    assert data.get_qrels("provenance").values.tolist() == [["106_1", "MARCO_D59865", 1], ["106_2", "KILT_1845197", 1]]


def test_a_turn_of_a_tree_has_the_path_above_it_as_its_history(folder):
    data = ikat.dataset("cast:2022")
    topics = data.get_topics().set_index("qid")
    assert topics.index.tolist() == ["133_1-1", "133_1-3", "133_2-2", "133_3-1"]
    assert topics["qhistory"].tolist() == [
        [],
        messages("Make soap?", "Use lye."),
        messages("Make soap?", "Use lye.", "And lotion?", "Which lotion?"),
        messages("Make soap?", "Use lye."),
    ]
    assert topics["qturn"].tolist() == [1, 2, 3, 2]
    assert set(topics["qconversation"]) == {"133"}
    assert data.get_topics("manual")["qresolved"].tolist() == ["Make soap?!", "And lotion?!", "A scented one.!", "Is lye safe?!"]
    assert data.get_topics("automatic")["query"].tolist() == ["Make soap??", "And lotion??", "A scented one.?", "Is lye safe??"]
    assert data.get_answers()["gold_answer"].tolist() == ["Use lye.", "Use oil.", "", "With gloves."]
    assert data.get_qrels()["qid"].tolist() == ["133_2-2", "133_3-1"]
    assert data.get_qrels("provenance").values.tolist() == [
        ["133_1-1", "MARCO_26_222804180-1", 1],
        ["133_1-3", "MARCO_50_2268879788-3", 1],
        ["133_1-3", "KILT_78449-18", 1],
        ["133_3-1", "WAPO_c514bdc9df22c43dfb344c58a3ea8197-5", 1],
    ]


def test_without_the_file_or_the_passages_the_error_says_what_to_put_where(folder):
    data = ikat.dataset("cast:2022")
    with pytest.raises(DataError, match=r"no passages .* in .*cast_2022_collection; make them of MS MARCO, KILT and the Washington Post"):
        data.get_corpus_iter()
    (folder / "cast_2022_collection").mkdir()
    (folder / "cast_2022_collection" / "kilt.jsonl").write_text('{"docno": "KILT_78449-18", "text": "Soap."}\n')
    assert [row["docno"] for row in data.get_corpus_iter(verbose=False)] == ["KILT_78449-18"]
    (folder / "2022-qrels.txt").unlink()
    with pytest.raises(DataError, match=r"no file 2022-qrels.txt in it; download https://trec.nist.gov/data/cast/2022-qrels.txt into it"):
        data.get_qrels()
    with pytest.raises(UsageError, match=r"cast:2022 has no qrels 'ptkb'; there are"):
        data.get_qrels("ptkb")


def test_topics_of_any_year_are_read_from_a_folder_of_ones_own(tmp_path):
    (tmp_path / "topics.json").write_text(json.dumps(TREE))
    (tmp_path / "qrels.txt").write_text("133_3-1 0 d1 1\n133_1-1 0 d1 1\n133_1-3 0 d1 1\n133_2-2 0 d1 1\n")
    data = ikat.dataset(tmp_path)
    assert data.get_topics()["qid"].tolist() == ["133_1-1", "133_1-3", "133_2-2", "133_3-1"]
    assert len(data.get_qrels()) == 4
    assert data.get_qrels("provenance")["docno"].tolist()[0] == "MARCO_26_222804180-1"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda turns: turns.append(user("1-1", "again")), "conversation 133, turn 1-1: it occurs twice; turn numbers are different"),
        (lambda turns: turns[2].update(parent="7-1"), "turn 1-3: it follows turn 7-1, which isn't there; fetch the file again"),
        (lambda turns: turns[0].update(parent="1-3"), "turn 1-1: it follows itself; fetch the file again"),
        (lambda turns: turns[2].pop("utterance"), "turn 1-3: the field raw_utterance or utterance is missing"),
        (lambda turns: turns[2].update(utterance=" "), "turn 1-3: the utterance is empty; every turn has words of the user"),
        (lambda turns: turns[1].pop("response"), "turn 1-2: the field response is missing"),
        (lambda turns: turns[2].update(number="1 3"), "turn at position 3: the number '1 3' can't be part of a qid"),
        (lambda turns: turns[2].update(manual_rewritten_utterance=3), "turn 1-3: the field manual_rewritten_utterance is 3"),
        (lambda turns: turns.insert(0, "1-1"), 'turn at position 1: expected an object, found "1-1"'),
        (lambda turns: turns.clear(), "conversation 133: it has no turns"),
    ],
)
def test_malformed_topics_are_named(tmp_path, change, message):
    topics = json.loads(json.dumps(TREE))
    change(topics[0]["turn"])
    path = tmp_path / "topics.json"
    path.write_text(json.dumps(topics))
    with pytest.raises(DataError) as caught:
        read_topics(path)
    assert message in str(caught.value)


def test_the_flattened_file_of_2022_is_refused_for_the_trees(tmp_path):
    path = tmp_path / "topics.json"
    path.write_text(json.dumps(LINE + LINE))
    with pytest.raises(DataError, match="conversation 106: the number occurs twice; give the file of trees, which has each turn once"):
        read_topics(path)
