"""The files of a run folder belong together: its readers refuse a file of another run."""

import json
import shutil
from pathlib import Path

import pandas as pd
import pyterrier as pt
import pytest
from click.testing import CliRunner

import pyterrier_ikat as ikat
from pyterrier_ikat.cli import main
from pyterrier_ikat.runs import RunFolder

SUBMIT = ("--run-id", "a", "--run-type", "automatic", "--out", "s.json")
READERS = {
    "evaluate": ("evaluate", "FOLDER", "--dataset", "ikat:sample"),
    "breakdown": ("evaluate", "--by", "depth", "FOLDER", "--dataset", "ikat:sample"),
    "submit": ("submit", "FOLDER", "--dataset", "ikat:sample", *SUBMIT),
    "report": ("report", "FOLDER", "--dataset", "ikat:sample", "--out", "r.html"),
}
READ_BY = {
    "run.trec": ("evaluate", "breakdown", "submit", "report", "resume"),
    "run.json": ("evaluate", "breakdown", "submit", "report", "resume"),
}


class Model:
    def __init__(self, said):
        self.said = said

    def generate(self, chats):
        return [type("Reply", (), {"text": self.said}) for _ in chats]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Two runs whose files have the same numbers of lines, and the function that makes them."""
    out = tmp_path_factory.mktemp("made")
    index = ikat.PassageIndex(out / "i").index(
        pt.get_dataset("ikat:sample").get_corpus_iter(verbose=False)
    )

    def make(where):
        def system(said):
            return ikat.Rewrite(ikat.llm(Model(said), identity=said)) >> index.bm25(num_results=5)

        return ikat.run(
            {"tea": system("a cup of hot tea"), "heath": system("a day on the heath")},
            "ikat:sample",
            out=where,
            turns=["1-1_1", "1-1_2"],
        )

    make(out / "runs")
    return out / "runs", make


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", READ_BY)
def test_a_file_of_another_run_is_refused_by_all_that_read_it(made, name, tmp_path, monkeypatch):
    runs, make = made
    monkeypatch.chdir(tmp_path)
    shutil.copytree(runs, "runs")
    own = (runs / "tea" / name).read_bytes()
    other = (runs / "heath" / name).read_bytes()
    Path("runs/tea", name).write_bytes(other if other != own else own.replace(b"2", b"3", 1))
    for reader in READ_BY[name]:
        if reader == "resume":
            with pytest.raises(
                Exception, match=r"is not the file that this run wrote|holds a run with different "
            ):
                make("runs")
            continue
        command = [word.replace("FOLDER", "runs/tea") for word in READERS[reader]]
        done = CliRunner().invoke(main, command)
        assert done.exit_code == 2, (reader, done.output)
        told = "is not the file that this run wrote, or its run.json is that of another run"
        assert told in done.output, (reader, done.output)


def test_responses_may_be_added_by_hand(made, tmp_path):
    shutil.copytree(made[0] / "tea", tmp_path / "tea")
    file = tmp_path / "tea" / "turns.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    file.write_text("\n".join(json.dumps({"response": "By hand."} | line) for line in lines))
    assert [turn["response"] for turn in RunFolder(tmp_path / "tea").turns()] == ["By hand."] * 2


def test_the_tag_of_a_ranking_is_the_name_of_the_method(made, tmp_path):
    def tags(path):
        lines = (path / "run.trec").read_text().splitlines()
        return {line.split()[-1] for line in lines}

    assert tags(made[0] / "tea") == {"tea"}
    topics = pd.DataFrame({"qid": ["1_1"]})
    frame = pd.DataFrame({"qid": ["1_1"], "docno": ["a"], "score": [1.0], "rank": [0]})
    folder = RunFolder(tmp_path / "copy of it")
    folder.write(topics, frame, pd.DataFrame(), pd.DataFrame(), {"method": "aqd"})
    assert tags(tmp_path / "copy of it") == {"aqd"}
