"""A collection whose turns are named as they like, without personas.

Run, reported, broken down, refused by submissions.
"""

import json
import warnings

import pytest
from click.testing import CliRunner

import pyterrier_ikat as ikat
from pyterrier_ikat.cli import main
from pyterrier_ikat.errors import DataError
from pyterrier_ikat.runs import read_run
from pyterrier_ikat.study import NoRewritesWarning

CHAT = [
    {"role": "user", "content": "Which tea has no caffeine?"},
    {"role": "assistant", "content": "Rooibos tea."},
    {"role": "user", "content": "And mint tea?"},
]
QIDS = ["dd6b<::>2", "q1", "101_3_extra", "7", "a/b?c=%20", "<script>alert(1)</script>", "x-y-3"]
PASSAGES = ["Rooibos tea has no caffeine.", "Mint tea grows in pots.", "Green tea has caffeine."]


@pytest.fixture(scope="module")
def collection(tmp_path_factory):
    """A folder with every second turn the first of its conversation, and its index."""
    folder = tmp_path_factory.mktemp("collection")
    turns = []
    labels = []
    for place, qid in enumerate(QIDS):
        messages = CHAT if place % 2 == 0 else CHAT[:1]
        turns.append({"qid": qid, "messages": messages})
        labels.append(f"{qid} 0 d{place % 2} 2")
    passages = []
    for number, text in enumerate(PASSAGES):
        passages.append({"docno": f"d{number}", "text": text})
    (folder / "topics.jsonl").write_text("\n".join(map(json.dumps, turns)))
    (folder / "passages.jsonl").write_text("\n".join(map(json.dumps, passages)))
    (folder / "qrels.txt").write_text("\n".join(labels))
    return folder, ikat.PassageIndex(folder / "index").index(
        ikat.dataset(folder).get_corpus_iter(verbose=False)
    )


@pytest.fixture(scope="module")
def runs(collection, tmp_path_factory):
    folder, index = collection
    out = tmp_path_factory.mktemp("runs")
    table = ikat.run(["raw", "all_utterances"], folder, index=index, out=out).table
    # Turn 1 finds d1 first and turn 2 d0; all_utterances finds d0 first where there is a history.
    assert table["turns"].tolist() == [7, 7]
    return out


def said(*arguments):
    """What the command prints to stdout."""
    return CliRunner().invoke(main, list(map(str, arguments))).stdout


def test_turns_keep_their_names_in_runs_and_reports(collection, runs, tmp_path):
    folder, _ = collection
    lines = (runs / "raw" / "run.trec").read_text().splitlines()
    assert {line.split()[0] for line in lines} == set(QIDS)
    for html in (
        ikat.report([runs / "raw", runs / "all_utterances"], dataset=folder).html,
        ikat.report([runs / "raw" / "run.trec"], qrels=folder / "qrels.txt").html,
    ):
        assert "<script>alert" not in html
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html
        assert "dd6b&lt;::&gt;2" in html


def test_depths_come_from_the_dataset_and_are_asked_for_without(collection, runs):
    folder, _ = collection
    shown = said(
        "evaluate", "--by", "depth", runs / "raw", "--dataset", folder, "--format", "csv"
    ).splitlines()
    assert [line.split(",")[0::2] for line in shown] == [["depth", "turns"], ["1", "3"], ["2", "4"]]
    by_chat = said(
        "evaluate", runs / "raw", "--dataset", folder, "--by", "conversation", "--format", "csv"
    )
    assert {line.split(",")[0] for line in by_chat.splitlines()[1:]} == set(QIDS)
    with pytest.raises(DataError, match=r"turn 'dd6b<::>2'.*give topics=\.\.\."):
        ikat.breakdown(
            {"raw": read_run(runs / "raw" / "run.trec")},
            ikat.dataset(folder).get_qrels(),
            by="depth",
        )


def test_manual_method_on_conversations_without_rewrites_warns(collection, tmp_path):
    folder, index = collection
    with pytest.warns(
        NoRewritesWarning, match="has no manual rewrites: manual methods get the raw utterances"
    ):
        ikat.run(["human_qr"], folder, index=index, out=tmp_path / "some")
    single = tmp_path / "single"
    single.mkdir()
    (single / "topics.jsonl").write_text(json.dumps({"qid": "q1", "messages": CHAT[:1]}))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings(
            "ignore", category=UserWarning, message=".*collection|.*is judged|.*qrels.txt"
        )
        warnings.filterwarnings("ignore", category=DeprecationWarning)
        ikat.run(["human_qr"], single, index=index, out=tmp_path / "none")
