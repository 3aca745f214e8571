"""Datasets of ir_datasets, whose own classes read small files of ours, in another process."""

import json
import os
import subprocess
import sys

import pytest

import pyterrier_ikat as ikat
from pyterrier_ikat.conversations.datasets import find_qrels
from pyterrier_ikat.errors import UsageError

MARCO = {
    "0": "Rooibos tea has no caffeine.",
    "1": "Rooibos tea has no caffeine!",
    "2": "Rooibos grows in the Cederberg.",
}
CAR = {"6869dee4": "Rooibos is drunk against a cold."}
FILES = {
    "trec-cast/marco_duplicate_list_v1.0.txt": "MARCO_0:MARCO_1\n",
    "msmarco-passage/collection.tsv": "".join(
        f"{docno}\t{text}\n" for docno, text in MARCO.items()
    ),
    "msmarco-passage/irds_version.txt": "v2",
    "vaswani/queries.txt": "1\nROOIBOS TEA\n/\n2\nCEDERBERG\n/\n",
    "vaswani/docs.txt": "11\nabout rooibos\n   /\n12\nthe cederberg\n   /\n",
    "vaswani/qrels.txt": "1\n  11\n   /\n2\n  12   11\n   /\n",
}
ASK = """
import json, sys
import ir_datasets
import pandas as pd
import pyterrier as pt
from ir_datasets.formats import GenericDoc
from ir_datasets.indices import PickleLz4FullStore
import pyterrier_ikat as ikat

car = [GenericDoc(*pair) for pair in json.loads(sys.argv[1]).items()]
home = ir_datasets.util.home_path()
store = f"{home}/car/docs.pklz4"
PickleLz4FullStore(store, lambda: iter(car), GenericDoc, "doc_id", index_fields=["doc_id"]).build()

def fails(call):
    try:
        call()
    except ikat.IkatError as error:
        return f"{type(error).__name__}: {error}"

data, cast = ikat.dataset("irds:vaswani"), ikat.dataset("cast:2020")
told = {"topics": data.get_topics().to_dict("list"), "qrels": data.get_qrels().values.tolist()}
told["passages"] = {}
for name, dataset in {"vaswani": data, "cast": cast}.items():
    told["passages"][name] = list(dataset.get_corpus_iter(verbose=False))
found = pd.DataFrame({"qid": ["1", "1"], "docno": ["12", "11"]})
loaders = (data.text_loader(), pt.text.get_text(data))
told["texts"] = [loader(found)["text"].tolist() for loader in loaders]
told["errors"] = {
    "no store": fails(cast.text_loader),
    "no field": fails(lambda: data.text_loader("url")),
    "no passage": fails(lambda: data.text_loader()(found.assign(docno="13"))),
    "no subset": fails(lambda: ikat.dataset("irds:trec-cast/v1").get_topics()),
}
ir_datasets.load("trec-cast/v1").docs_store().build()
of_cast = found.assign(docno=["CAR_6869dee4", "MARCO_2"])
told["texts"].append(cast.text_loader()(of_cast)["text"].tolist())
index = ikat.PassageIndex("vaswani.index").index(data.get_corpus_iter(verbose=False))
scores = ikat.experiment({"bm25": index.bm25()}, "irds:vaswani", ["nDCG@5"])
told["scores"] = scores.to_dict("records")
print(json.dumps(told))
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """What the datasets say, in a process whose ir_datasets has its home here."""
    home = tmp_path_factory.mktemp("irds")
    for name, content in FILES.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(content)
    unreachable = dict.fromkeys(("http_proxy", "https_proxy"), "http://127.0.0.1:9")
    env = {
        **os.environ,
        "IR_DATASETS_HOME": str(home),
        "IR_DATASETS_DL_TRIES": "1",
        "IKAT_HOME": str(home / "ikat"),
        **unreachable,
    }
    done = subprocess.run(
        [sys.executable, "-c", ASK, json.dumps(CAR)],
        env=env,
        cwd=home,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_single_queries_are_turns_without_a_history(told):
    topics = told["topics"]
    assert (topics["qid"], topics["query"], topics["qconversation"]) == (
        ["1", "2"],
        ["ROOIBOS TEA", "CEDERBERG"],
        ["1", "2"],
    )
    assert (topics["qhistory"], topics["qptkb"], topics["qturn"]) == ([[], []], [{}, {}], [1, 1])
    assert told["qrels"] == [["1", "11", 1], ["2", "12", 1], ["2", "11", 1]]
    # Turn 1 finds its one passage first; turn 2 one of two, first: 1 / (1 + 1 / log2 3).
    assert told["scores"] == [
        {"name": "bm25", "nDCG@5": pytest.approx((1 + 0.6131472) / 2), "turns": 2}
    ]


def test_passages_are_ir_datasets_without_the_tracks_duplicates(told):
    vaswani = [
        {"docno": "11", "text": "about rooibos", "url": ""},
        {"docno": "12", "text": "the cederberg", "url": ""},
    ]
    assert told["passages"]["vaswani"] == vaswani
    cast = {row["docno"]: row["text"] for row in told["passages"]["cast"]}
    assert cast == {"MARCO_0": MARCO["0"], "MARCO_2": MARCO["2"], "CAR_6869dee4": CAR["6869dee4"]}
    assert told["texts"] == [["the cederberg", "about rooibos"]] * 2 + [
        [CAR["6869dee4"], MARCO["2"]]
    ]


def test_errors_say_where_there_is_what_was_asked_for(told):
    errors = told["errors"]
    assert errors["no store"] == (
        "UsageError: irds:trec-cast/v1 has 38,622,444 passages, too many to hold in memory: "
        "index its passages and take "
        "ikat.PassageIndex(PATH).text_loader()"
    )
    assert errors["no field"] == "UsageError: passages have no field 'url'; there are 'text'"
    assert errors["no passage"].startswith(
        "DataError: vaswani lacks 1 of the passages to load (13)"
    )
    assert (
        "irds:trec-cast/v1 has passages and no queries: take one of its subsets on "
        "https://ir-datasets.com" in errors["no subset"]
    )
    with pytest.raises(
        UsageError, match="ir_datasets has no dataset 'nothing'; https://ir-datasets.com lists them"
    ):
        ikat.dataset("irds:nothing")
    with pytest.raises(
        UsageError,
        match="irds:trec-cast/v1/2020 are turns of conversations: take cast:2019, cast:2020",
    ):
        ikat.dataset("irds:trec-cast/v1/2020")


def test_a_dataset_without_qrels_says_so_and_knows_its_size():
    data = ikat.dataset("irds:trec-cast/v1")
    for ask in (data.get_qrels, lambda: find_qrels(None, data)):
        with pytest.raises(
            UsageError, match="irds:trec-cast/v1 has no qrels: give a file of your own"
        ):
            ask()
    assert data.collection() == (38_622_444, None)
