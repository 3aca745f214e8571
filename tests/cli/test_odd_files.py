"""What a person may write into files and methods: one line that names the file, never a traceback, a hang or a run that made nothing."""

import json
from types import SimpleNamespace

import pyterrier as pt
import pytest
from click.testing import CliRunner

import pyterrier_ikat as ikat
from pyterrier_ikat.cli import main
from pyterrier_ikat.conversations.passages import PassageFiles
from pyterrier_ikat.errors import DataError, UsageError
from pyterrier_ikat.study.results import Results

HEAD = "import sys\nimport pyterrier_ikat as ikat\nfrom pyterrier_ikat.methods import method\n\n\n@method\ndef mine(retriever):\n"
BODIES = {
    "sys.exit(0)": "calls sys.exit, which ends the command before its work is done",
    "raise SystemExit": "calls sys.exit, which ends the command before its work is done",
    "pass": "returns NoneType: end it with return and a PyTerrier pipeline",
    "return 5": "returns int: end it with return",
    "return ikat.RawUtterance": "returns type: end it with return",
}


def run(tmp_path, source, out="runs"):
    (tmp_path / "mine.py").write_text(source)
    index = tmp_path / "i"
    ikat.PassageIndex(index).index([{"docno": "a", "text": "tea", "url": ""}])
    return CliRunner().invoke(main, ["run", f"{tmp_path}/mine.py", "--dataset", "ikat:sample", "--index", str(index), "--out", str(out)])


@pytest.mark.parametrize("body", BODIES)
def test_a_method_that_makes_nothing_ends_with_code_2(body, tmp_path):
    done = run(tmp_path, HEAD + f"    {body}\n", tmp_path / "runs")
    assert (done.exit_code, len(done.stderr.strip().splitlines())) == (2, 1), done.output
    assert BODIES[body] in done.stderr
    assert str(tmp_path / "mine.py") in done.stderr


@pytest.mark.filterwarnings("ignore:coroutine")
def test_an_exit_of_the_file_itself_and_a_coroutine_end_with_code_2(tmp_path):
    assert "mine.py, line 1, calls sys.exit" in run(tmp_path, "import sys; sys.exit()\n" + HEAD + "    pass\n", tmp_path / "runs").stderr
    late = HEAD.replace("def mine", "async def mine") + "    return ikat.RawUtterance() >> retriever\n"
    assert "returns coroutine: end it with return and a PyTerrier pipeline" in run(tmp_path, late, tmp_path / "runs").stderr


def test_runs_go_into_the_folder_runs_where_nothing_else_is_said(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs" / "raw").mkdir(parents=True)
    (tmp_path / "runs" / "raw" / "notes.txt").write_text("mine")
    with pytest.raises(UsageError, match="raw is not empty and holds no finished run"):
        ikat.run("raw", "ikat:sample", index=ikat.PassageIndex("i").index(pt.get_dataset("ikat:sample").get_corpus_iter(verbose=False)))
    assert [path.name for path in (tmp_path / "runs" / "raw").iterdir()] == ["notes.txt"]


def test_half_a_character_in_a_file_is_named_before_anything_is_run(tmp_path):
    topic = {"qid": "1_1", "messages": [{"role": "user", "content": "Tea\ud83d?"}]}
    (tmp_path / "topics.jsonl").write_text(json.dumps(topic) + "\n")
    with pytest.raises(DataError, match=r"topics\.jsonl, line 1: can.t be read as JSON \(.*\\ud83d"):
        ikat.dataset(str(tmp_path)).get_topics()
    (tmp_path / "passages.jsonl").write_text('{"docno": "a", "text": "tea"}\n' + json.dumps({"docno": "b", "text": "\udc00"}) + "\n")
    with pytest.raises(DataError, match=r"passages\.jsonl, line 2: not a passage \(.*\\udc00"):
        list(PassageFiles(str(tmp_path / "passages.jsonl")))
    (tmp_path / "passages.jsonl").write_text(json.dumps({"docno": "b", "text": "\U0001f375 \\udc00"}) + "\n")
    assert [passage["text"] for passage in PassageFiles(str(tmp_path / "passages.jsonl"))] == ["\U0001f375 \\udc00"]


def notes(**deviations):
    systems = [SimpleNamespace(name=name, deviations=lines, repeat=1) for name, lines in deviations.items()]
    return Results.deviations(SimpleNamespace(study=SimpleNamespace(systems=systems)))


def test_a_note_that_holds_for_all_runs_is_there_once():
    assert notes(a=["same", "x"], b=["same"], c=["y", "same"]) == ["all systems: same", "a: x", "c: y"]
    assert notes(a=["same"]) == ["a: same"]
    assert notes() == []
