"""Datasets of ir_datasets: its own classes read small files of ours, in its own formats and places, in a process of their own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import pyterrier_ikat as ikat
from pyterrier_ikat.conversations.choice import find_qrels
from pyterrier_ikat.conversations.irds import IrdsDataset, of_its_year
from pyterrier_ikat.errors import UsageError

CAST_2020 = [
    {
        "number": 81,
        "turn": [
            {
                "number": 1,
                "raw_utterance": "Which tea has no caffeine?",
                "manual_rewritten_utterance": "Which tea has no caffeine?",
                "automatic_rewritten_utterance": "Which tea has no caffeine?",
                "manual_canonical_result_id": "MARCO_0",
            },
            {
                "number": 2,
                "raw_utterance": "Is it good against a cold?",
                "manual_rewritten_utterance": "Is rooibos good against a cold?",
                "automatic_rewritten_utterance": "Is caffeine good against a cold?",
                "manual_canonical_result_id": "CAR_6869dee4",
            },
            {
                "number": 3,
                "raw_utterance": "Where does it grow?",
                "manual_rewritten_utterance": "Where does rooibos grow?",
                "automatic_rewritten_utterance": "Where does tea grow?",
                "manual_canonical_result_id": "MARCO_2",
            },
        ],
    }
]
CAST_2019 = [
    {
        "number": 31,
        "title": "tea",
        "description": "all about tea",
        "turn": [{"number": 1, "raw_utterance": "What is rooibos?"}, {"number": 2, "raw_utterance": "Is it red?"}],
    }
]
MARCO = {"0": "Rooibos tea has no caffeine.", "1": "Rooibos tea has no caffeine!", "2": "Rooibos grows in the Cederberg."}
CAR = {"6869dee4": "Rooibos is drunk against a cold."}
FILES = {
    "trec-cast/2020/2020_manual_evaluation_topics_v1.0.json": json.dumps(CAST_2020),
    "trec-cast/2020/2020qrels.txt": "81_1 0 MARCO_0 4\n81_1 0 CAR_6869dee4 0\n81_1 0 MARCO_0 4\n81_3 0 MARCO_2 2\n",
    "trec-cast/2019/evaluation_topics_v1.0.json": json.dumps(CAST_2019),
    "trec-cast/2019/2019qrels.txt": "31_2 0 MARCO_0 1\n",
    "trec-cast/marco_duplicate_list_v1.0.txt": "MARCO_0:MARCO_1\n",
    "msmarco-passage/collection.tsv": "".join(f"{docno}\t{text}\n" for docno, text in MARCO.items()),
    "msmarco-passage/irds_version.txt": "v2",
    "vaswani/queries.txt": "1\nROOIBOS TEA\n/\n2\nCEDERBERG\n/\n",
    "vaswani/docs.txt": "11\nabout rooibos\n   /\n12\nthe cederberg\n   /\n",
    "vaswani/qrels.txt": "1\n  11\n   /\n2\n  12   11\n   /\n",
}
ASK = """
import json, os, sys, warnings
import ir_datasets
from ir_datasets.formats import GenericDoc
from ir_datasets.indices import PickleLz4FullStore
import pyterrier_ikat as ikat

car = [GenericDoc(*pair) for pair in json.loads(sys.argv[1]).items()]
home = ir_datasets.util.home_path()
PickleLz4FullStore(f"{home}/car/docs.pklz4", lambda: iter(car), GenericDoc, "doc_id", index_fields=["doc_id"]).build()

def topics(name, variant=None):
    return ikat.dataset(name).get_topics(variant).to_dict("list")

def fails(call):
    try:
        call()
    except ikat.IkatError as error:
        return f"{type(error).__name__}: {error}"

told = {name: topics(name) for name in ("cast:2020", "irds:trec-cast/v1/2020/judged", "cast:2019", "irds:vaswani")}
data = ikat.dataset("cast:2020")
told["manual"], told["automatic"] = topics("cast:2020", "manual"), topics("cast:2020", "automatic")
told["qrels"] = {name: ikat.dataset(name).get_qrels().values.tolist() for name in ("cast:2020", "cast:2019", "irds:vaswani")}
told["provenance"] = ikat.dataset("irds:trec-cast/v1/2020/judged").get_qrels("provenance").values.tolist()
told["passages"] = list(data.get_corpus_iter(verbose=False))
told["single"] = list(ikat.dataset("irds:vaswani").get_corpus_iter(verbose=False))
told["no store"] = fails(data.text_loader)
ir_datasets.load("trec-cast/v1").docs_store().build()
told["texts"] = data.text_loader()(data.get_qrels("provenance"))["text"].tolist()
told["responses"] = data.with_responses(data.text_loader()).get_topics()["qhistory"].tolist()
told["errors"] = {
    "no responses": fails(lambda: ikat.dataset("cast:2019").with_responses(data.text_loader())),
    "no rewrites": fails(lambda: ikat.dataset("cast:2019").get_topics("manual")),
    "no subset": fails(lambda: ikat.dataset("irds:trec-cast/v1").get_topics()),
    "no file": fails(lambda: ikat.dataset("irds:trec-cast/v0/train").get_topics()),
    "no passage": fails(lambda: data.text_loader()(data.get_qrels().assign(docno="MARCO_9"))),
}
os.environ["IKAT_DATA"] = "."
told["incomplete"] = fails(lambda: ikat.dataset("cast:2019").get_topics("manual"))
with open("evaluation_topics_annotated_resolved_v1.0.tsv", "a") as file:
    file.write("31_2\\tIs rooibos \\"red\\"?\\n")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    told["resolved"] = topics("cast:2019", "manual")
    index = ikat.PassageIndex("vaswani.index").index(ikat.dataset("irds:vaswani").get_corpus_iter(verbose=False))
    told["scores"] = ikat.experiment({"bm25": index.bm25()}, "irds:vaswani", ["nDCG@5"]).to_dict("records")
print(json.dumps(told))
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """What the datasets say, in a process whose ir_datasets has its home here."""
    home = tmp_path_factory.mktemp("irds")
    for name, content in FILES.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(content)
    (home / "evaluation_topics_annotated_resolved_v1.0.tsv").write_text("31_1\tWhat is rooibos?\n")
    unreachable = dict.fromkeys(("http_proxy", "https_proxy"), "http://127.0.0.1:9")
    given = {"IR_DATASETS_HOME": str(home), "IR_DATASETS_DL_TRIES": "1", "IKAT_HOME": str(home / "ikat"), **unreachable}
    env = {name: text for name, text in os.environ.items() if name != "IKAT_DATA"} | given
    command = [sys.executable, "-c", ASK, json.dumps(CAR)]
    done = subprocess.run(command, env=env, cwd=home, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def said(*texts):
    return [{"role": "user", "content": text} for text in texts]


def test_topics_of_2020_are_turns_with_the_utterances_before_them(told):
    topics = told["cast:2020"]
    utterances = [turn["raw_utterance"] for turn in CAST_2020[0]["turn"]]
    assert list(topics) == ["qid", "query", "qutterance", "qhistory", "qptkb", "qconversation", "qturn"]
    assert (topics["qid"], topics["query"]) == (["81_1", "81_2", "81_3"], utterances)
    assert topics["qhistory"] == [[], said(utterances[0]), said(*utterances[:2])]
    assert (topics["qconversation"], topics["qturn"], topics["qptkb"]) == (["81"] * 3, [1, 2, 3], [{}] * 3)


def test_judged_turns_keep_the_unjudged_ones_in_their_histories(told):
    judged = told["irds:trec-cast/v1/2020/judged"]
    assert judged["qid"] == ["81_1", "81_3"]
    assert judged["qhistory"] == [told["cast:2020"]["qhistory"][0], told["cast:2020"]["qhistory"][2]]
    assert told["provenance"] == [["81_1", "MARCO_0", 1], ["81_3", "MARCO_2", 1]]


def test_rewrites_of_2020_are_variants_and_never_in_the_history(told):
    manual, automatic = told["manual"], told["automatic"]
    assert manual["qresolved"] == [turn["manual_rewritten_utterance"] for turn in CAST_2020[0]["turn"]]
    rewrites = [turn["automatic_rewritten_utterance"] for turn in CAST_2020[0]["turn"]]
    assert automatic["query"] == automatic["qrewrite"] == rewrites
    assert automatic["query_0"] == automatic["qutterance"] == manual["query"] == told["cast:2020"]["query"]
    assert "qresolved" not in automatic
    assert automatic["qhistory"] == manual["qhistory"] == told["cast:2020"]["qhistory"]


def test_canonical_passages_of_earlier_turns_are_responses_where_their_texts_are_given(told):
    first, second = (turn["raw_utterance"] for turn in CAST_2020[0]["turn"][:2])
    answers = [{"role": "assistant", "content": text} for text in (MARCO["0"], CAR["6869dee4"])]
    assert told["responses"] == [[], [*said(first), answers[0]], [*said(first), answers[0], *said(second), answers[1]]]


def test_passages_are_those_of_the_track_without_its_duplicates(told):
    assert {row["docno"]: row["text"] for row in told["passages"]} == {
        "MARCO_0": MARCO["0"],
        "MARCO_2": MARCO["2"],
        "CAR_6869dee4": CAR["6869dee4"],
    }
    assert told["texts"] == [MARCO["0"], CAR["6869dee4"], MARCO["2"]]


def test_a_large_collection_is_not_copied_for_its_texts(told):
    assert told["no store"] == (
        "UsageError: cast:2020 has 38,622,444 passages, and ir_datasets has no store of them: take ikat.PassageIndex(PATH).text_loader()"
    )


def test_judgements_are_frames_with_each_pair_once(told):
    assert told["qrels"]["cast:2020"] == [["81_1", "MARCO_0", 4], ["81_1", "CAR_6869dee4", 0], ["81_3", "MARCO_2", 2]]
    assert told["qrels"]["cast:2019"] == [["31_2", "MARCO_0", 1]]


def test_manual_rewrites_of_2019_are_read_from_the_organisers_file_or_asked_for(told):
    assert told["cast:2019"]["qhistory"] == [[], said("What is rooibos?")]
    assert "isn't downloaded, as no checksum of" in told["errors"]["no rewrites"]
    assert "evaluation_topics_annotated_resolved_v1.0.tsv into it" not in told["errors"]["no rewrites"]
    assert told["incomplete"].endswith("tsv has no rewrite of 1 turns (31_2); a line is its qid, a tab, the rewrite")
    assert told["resolved"]["qresolved"] == ["What is rooibos?", 'Is rooibos "red"?']


def test_single_queries_are_turns_without_a_history(told):
    topics = told["irds:vaswani"]
    assert (topics["qid"], topics["query"], topics["qconversation"]) == (["1", "2"], ["ROOIBOS TEA", "CEDERBERG"], ["1", "2"])
    assert (topics["qhistory"], topics["qptkb"], topics["qturn"]) == ([[], []], [{}, {}], [1, 1])
    assert told["qrels"]["irds:vaswani"] == [["1", "11", 1], ["2", "12", 1], ["2", "11", 1]]
    assert told["single"] == [{"docno": "11", "text": "about rooibos", "url": ""}, {"docno": "12", "text": "the cederberg", "url": ""}]
    # Turn 1 finds its one passage first; turn 2 one of two, first: 1 / (1 + 1 / log2 3).
    assert told["scores"] == [{"name": "bm25", "nDCG@5": pytest.approx((1 + 0.6131472) / 2), "turns": 2}]


def test_errors_say_where_there_is_what_was_asked_for(told):
    errors = told["errors"]
    assert errors["no responses"] == "UsageError: cast:2019 has no canonical passages: its histories are the utterances"
    assert "irds:trec-cast/v1 has passages and no queries: take one of irds:trec-cast/v1/2019, irds:trec-cast/v1/20" in errors["no subset"]
    assert errors["no file"].startswith("DataError: ir_datasets can't give the queries of trec-cast/v0/train (")
    assert errors["no file"].endswith("/trec-cast.html") or "https://ir-datasets.com/trec-cast.html" in errors["no file"]
    assert errors["no passage"] == "DataError: trec-cast/v1/2020 lacks 1 of the passages to load (MARCO_9): load texts of its own"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("irds:trec-cast/v1/2021", "ir_datasets has no dataset 'trec-cast/v1/2021'; TREC CAsT 2021 is cast:2021"),
        ("irds:trec-cast/v1/2023", "TREC iKAT 2023 is ikat:2023"),
        ("irds:vaswani/2020", "ir_datasets has no dataset 'vaswani/2020'; there are vaswani"),
        ("irds:nothing", "https://ir-datasets.com lists them"),
        ("ikat:2020", "no dataset 'ikat:2020'; TREC CAsT 2020 is cast:2020; there are ikat:sample, "),
        ("cast:2024", "TREC iKAT 2024 is ikat:2024"),
        ("cast:2018", "no dataset 'cast:2018'; there are ikat:sample, "),
    ],
)
def test_a_wrong_year_or_name_is_told_the_right_one(name, message):
    with pytest.raises(UsageError) as caught:
        ikat.dataset(name)
    assert message in str(caught.value)
    assert "provider" not in str(caught.value)
    assert of_its_year("2018") == ""


def test_a_dataset_without_qrels_says_so():
    passages = ikat.dataset("irds:trec-cast/v1")
    for ask in (passages.get_qrels, lambda: find_qrels(None, passages)):
        with pytest.raises(UsageError) as raised:
            ask()
        assert str(raised.value) == "irds:trec-cast/v1 has no qrels: give a file of your own (qrels=FILE)"


def test_what_ir_datasets_knows_of_cast_is_told_without_a_file():
    data = IrdsDataset("trec-cast/v1/2020")
    assert data.summary == "trec-cast/v1/2020 of ir_datasets: 216 turns, 38,622,444 passages, 40,451 judgements"
    assert data.collection() == (38_622_444, None)
    assert data._describe_component("topics") == ["manual", "automatic"]
    assert data._describe_component("qrels") == ["provenance"]
    assert ikat.dataset("cast:2019")._describe_component("topics") == ["manual"]
    assert IrdsDataset("trec-cast/v0/train")._describe_component("topics") is True
    with pytest.raises(UsageError, match=r"cast:2020 has no topics 'gold'; there are get_topics\(\) and .*\('automatic'\)"):
        ikat.dataset("cast:2020").get_topics("gold")
    assert (repr(data), repr(ikat.dataset("cast:2020"))) == ("ikat.dataset('irds:trec-cast/v1/2020')", "ikat.dataset('cast:2020')")
    assert (data.get_topics_lang(), data.get_corpus_lang(), IrdsDataset("neuclir/1/zh").get_corpus_lang()) == ("en", "en", "zh")
    assert IrdsDataset("trec-cast/v1").get_topics_lang() is None
    assert Path(data.info_url()).name == "trec-cast.html"
