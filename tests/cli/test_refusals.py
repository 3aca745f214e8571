"""What can't be done is one line with its repair and exit code 2, and leaves nothing behind."""

import errno
import json
import os
import re
import sqlite3

import pytest

import pyterrier_ikat as ikat
from pyterrier_ikat.conversations.passages import PassageFiles
from pyterrier_ikat.retrieve import bm25
from pyterrier_ikat.retrieve.artifact import FORMAT

ON = "--dataset ikat:sample"
RUN = f"{ON} --index INDEX --out OUT"
SUBMIT = f"{ON} --run-id x --run-type automatic"
EVALUATE = f"evaluate first.trec {ON} --measures"
TURN = "has no turn 9-9_9 (line 3)"
QRELS = "ikat:sample has no qrels 'nowhere.txt'; there are the default, ptkb"
REFUSED = [
    (f"run aqdx {RUN}", "there is no method 'aqdx': did you mean aqd"),
    (f"run qr temperature=0 {RUN}", "stands with it in quotes, --llm 'MODEL temperature=0'"),
    ("run raw --dataset ikat:2022 --index INDEX --out OUT", "ikat:2022"),
    (
        "run raw --dataset ikat:sample --index nowhere --out OUT",
        "make it with `ikat index SOURCE nowhere`",
    ),
    (f"run raw {ON} --turns {','.join(['1-1_1'] * 99)} --out OUT", "method raw needs retriever"),
    (f"run /etc/passwd:x {ON} --out OUT", "/etc/passwd is not a Python file: give a method's name"),
    (f"run ad {RUN}", "method ad needs llm: give --llm"),
    (f"run ad {RUN} --llm recorded:none.jsonl", "none.jsonl"),
    (f"run aqd_a {RUN} --llm recorded:sample", "method aqd_a needs reranker: give --reranker"),
    (f"run raw {RUN} --turns 9-1_1", "has no turn 9-1_1"),
    (f"run raw {RUN} --reranker bi:none/such", "none/such"),
    (f"run raw {RUN} --resources texts=", "--resources texts=: it is empty: give a value"),
    (f"run raw {RUN} --resources text=x", "there is no resource 'text': did you mean texts?"),
    (f"run raw {RUN} --resources nothing.toml", "nothing.toml is not a TOML file"),
    (
        f"run raw {RUN} --resources second.toml",
        "no paper has a resource 'second-llm': did you mean second_llm?",
    ),
    (
        f"run raw {RUN} --resources splade_model=x",
        "is a passage index for BM25: omit --resources splade_model=",
    ),
    (
        f"run raw {ON} --index SPLADE --resources splade_model=b --out OUT",
        "was encoded with another model than 'b'",
    ),
    (f"run raw {RUN} --baseline qr", "the baseline 'qr' is not one of the systems: raw"),
    (f"run raw {ON} --index INDEX --out AFILE", "AFILE"),
    (f"run raw {ON} --index INDEX --out /proc/x", "/proc/x"),
    (
        "index OTHER INDEX",
        "holds an index of other passages, or in another order: remove it, or give a new path",
    ),
    ("index ikat:2024 OUT", "ClueWeb22"),
    ("index nosuch OUT", "no dataset 'nosuch'; there are ikat:sample"),
    ("index sample SPLADE", "SPLADE exists already: give a new path"),
    ("index sample OUT --dense m --splade n", "give --splade or --dense, not both"),
    ("index sample OUT --dense /nowhere/model", "can't load the bi-encoder '/nowhere/model'"),
    ("demo --out AFILE", "AFILE"),
    (f"evaluate nothing.trec {ON}", "there is no run file nothing.trec"),
    (f"evaluate hyphens.trec {ON}", "convert the qids of one of them"),
    ("evaluate aqd.partial", "aqd.partial"),
    (f"{EVALUATE} nDGC@5", "measure 'nDGC@5' is unknown: did you mean nDCG@5? write it"),
    (f"{EVALUATE} r(rel=2)@20", "did you mean R(rel=2)@20? write it"),
    (f"{EVALUATE} nDCG@5,alpha_nDCG@5", "measure 'alpha_nDCG@5' can't be computed here"),
    (
        f"{EVALUATE} P@1,R@2 --by depth",
        "--by depth shows one measure: give one, such as --measures nDCG@5",
    ),
    (f"evaluate RUNS/raw {ON} --by depth --cost", "--by is for passages: omit it with --cost"),
    (
        f"evaluate RUNS/raw {ON} --judge rouge-l",
        "--judge is for responses: omit it with --of passages",
    ),
    (f"evaluate RUNS/raw {ON} --turns RUNS/../wrong", TURN),
    (f"evaluate RUNS/raw {ON} --qrels nowhere.txt", QRELS),
    (f"evaluate --of statements a/aqd b/aqd {ON}", "two runs are named aqd"),
    (f"evaluate --of statements RUNS/rtg {ON} --turns RUNS/../wrong", TURN),
    (
        f"evaluate --of responses RUNS/rtg {ON} --judge relevant",
        "--judge relevant is unknown: did you mean relevance?",
    ),
    (
        f"evaluate --of responses RUNS/rtg {ON} --judge relevance",
        "--judge relevance needs a language model: give --llm",
    ),
    (f"evaluate --of responses RUNS/raw {ON}", "raw has no responses: its system writes none"),
    (f"judge RUNS/raw {ON} --llm recorded:sample --depth 0 --out OUT", "depth=0"),
    (f"judge RUNS/raw {ON} --llm recorded:sample --out OUT --turns RUNS/../wrong", TURN),
    (
        f"judge RUNS/raw {ON} --agree default",
        "give --llm and --out to judge, or --pairs QRELS and --agree",
    ),
    (f"judge --pairs OUT --agree OUT {ON}", "ikat:sample has no qrels"),
    (f"report RUNS/raw {ON} --out OUT --turns RUNS/../wrong", TURN),
    (f"submit RUNS/raw {SUBMIT} --out OUT", "raw has no responses: run a system that ends with"),
    (f"submit RUNS/rtg {SUBMIT} --team t --out OUT", "2023 asks for no team"),
    (f"submit RUNS/rtg {ON} --run-id x --run-type lucky --out OUT", "'lucky' is none of"),
    (
        f"submit RUNS/rtg {ON} --run-type automatic --out OUT",
        "a submission needs a name: give --run-id",
    ),
    (f"submit RUNS/rtg {SUBMIT} --out RUNS", "is a folder: give the path of the file"),
    (
        f"submit --check OUT {ON}",
        "can't be read (No such file or directory); give the path of a submission",
    ),
]
REAL = [
    (
        "evaluate first.trec --dataset ikat:2025",
        "`ikat evaluate --qrels provenance` takes the topics' own gold",
    ),
    (
        "run raw --dataset ikat:2023-mini --index INDEX --out OUT",
        "as `ikat index ikat:2023-mini PATH` makes",
    ),
    (
        "judge first.trec --dataset ikat:2023-mini --llm recorded:sample --out OUT",
        "lacks 1 turn of the pool",
    ),
    (
        "judge real.trec --dataset ikat:2023 --llm recorded:sample --out OUT",
        "index its passages and give --index PATH",
    ),
]
PYTHON = re.compile(r"\bikat\.[A-Za-z]|\bpt\.\w|\bframe\b")
"""Advice for Python, which is no use on the command line."""


def with_paths(words, known):
    """The words of a command, with paths for the parts that stand for them."""
    given = []
    for word in words.split():
        parts = [known.get(part, part) for part in word.split("/")]
        given.append("/".join(parts))
    return given


@pytest.mark.parametrize(
    ("words", "message"),
    [*REFUSED, *(pytest.param(*one, marks=pytest.mark.real_data) for one in REAL)],
)
def test_bad_input_is_one_line_with_exit_code_2_leaving_nothing(
    words, message, call, refused, made, sample_index, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    for name, turn in (("hyphens", "1-1-1"), ("first", "1-1_1"), ("real", "9-1_3")):
        (tmp_path / f"{name}.trec").write_text(f"{turn} Q0 sample-walk-001:0 1 1.0 one\n")
    (tmp_path / "AFILE").write_text("mine")
    for name in ("FOLDER", "aqd.partial"):
        (tmp_path / name).mkdir()
    (tmp_path / "OTHER.jsonl").write_text('{"id": "d1", "contents": "Rooibos has no caffeine."}\n')
    (tmp_path / "second.toml").write_text('second-llm = "x"')
    (tmp_path / "SPLADE" / "splade-1").mkdir(parents=True)
    described = {"format": FORMAT, "model": "a", "encoded_by": "a", "parts": [[1, ""]], "files": {}}
    (tmp_path / "SPLADE" / "splade-1" / "ikat.json").write_text(json.dumps(described))
    before = sorted([*made.runs.rglob("*"), *tmp_path.rglob("*")])
    known = {
        "INDEX": sample_index,
        "OUT": str(tmp_path / "OUT"),
        "RUNS": str(made.runs),
        "OTHER": "OTHER.jsonl",
    }
    line = refused(call(*with_paths(words, known)))
    assert message in line
    assert not PYTHON.search(line.replace(str(tmp_path), "")), line
    after = {*made.runs.rglob("*"), *tmp_path.rglob("*")}
    assert sorted(after - {tmp_path / "OUT"}) == before
    assert (tmp_path / "AFILE").read_text() == "mine"
    assert not (tmp_path / "OUT").exists() or list((tmp_path / "OUT").iterdir()) == []


@pytest.mark.parametrize(
    ("qrels", "message"),
    [("nowhere.txt", QRELS), ("QRELS", "--qrels judges turns that ikat:sample lacks (77-1_1)")],
)
def test_judgements_of_other_turns_stand_in_no_papers_table(
    qrels, message, call, refused, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "QRELS").write_text("77-1_1 0 d 1\n")
    words = f"paper nii_2024 I --resources sample --systems rtg --plan --out OUT --qrels {qrels}"
    assert message in refused(call(*words.split()))


@pytest.mark.parametrize("words", [["--turns", ""], ["--turns="], ["--out", " "], [""]])
def test_an_empty_text_from_an_unset_variable_is_an_error(words, run, tmp_path):
    result = run(tmp_path / "out", "raw", *words)
    assert result.exit_code == 2
    assert "is empty: give a value, or omit it" in " ".join(result.stderr.split())
    assert not (tmp_path / "out").exists()


def raising(error):
    def work(*args, **kwargs):
        raise error

    return work


FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
CTRL_C = SystemError("a library's own error, made of Ctrl-C")
CTRL_C.__cause__ = KeyboardInterrupt()


@pytest.mark.parametrize(
    "words", ["run raw --dataset ikat:sample --index INDEX --out OUT", "report RUN --out OUT"]
)
def test_a_full_disk_is_one_line(words, call, refused, made, sample_index, tmp_path, monkeypatch):
    known = {"INDEX": sample_index, "OUT": tmp_path / "out", "RUN": made.runs / "raw"}
    monkeypatch.setattr("pyterrier_ikat.store.files.fsync", raising(FULL))
    given = [known.get(word, word) for word in words.split()]
    assert refused(call(*given)).startswith("[Errno 28] No space left on device")


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (
            PermissionError(errno.EACCES, "Permission denied", "/data/x"),
            "[Errno 13] Permission denied: '/data/x'",
        ),
        (
            sqlite3.OperationalError("database or disk is full"),
            "a database can't be used (database or disk is full)",
        ),
        (CTRL_C, "stopped: finished work is kept"),
        (
            KeyboardInterrupt(),
            "stopped: finished work is kept, and the same command continues from there",
        ),
        (ikat.DataError("two\nlines"), "two lines"),
    ],
)
def test_what_the_surroundings_refuse_is_one_line(
    error, message, run, refused, tmp_path, monkeypatch
):
    monkeypatch.setattr(bm25.BM25, "find_rankings", raising(error))
    assert refused(run(tmp_path, "raw")).startswith(message)


def test_a_defect_keeps_its_traceback(run, tmp_path, monkeypatch):
    monkeypatch.setattr(bm25.BM25, "find_rankings", raising(ZeroDivisionError()))
    assert isinstance(run(tmp_path, "raw").exception, ZeroDivisionError)


@pytest.mark.filterwarnings("ignore:system raw chose no statement")
@pytest.mark.parametrize("name", ["run.json", "turns.jsonl", "ledger.csv"])
def test_a_run_folder_with_a_damaged_file_gives_no_traceback(name, run, call, refused, tmp_path):
    assert run(tmp_path, "raw", "--turns", "1-1_1").exit_code == 0
    folder = tmp_path / "raw"
    on = ["--dataset", "ikat:sample"]
    submitted = ["--run-id", "a", "--run-type", "automatic", "--out", tmp_path / "s.json"]
    for content in ('{"turns": [', "\x00\ud800", ""):
        (folder / name).write_bytes(content.encode("utf-8", "surrogatepass"))
        for command in (
            ["report", folder, "--out", tmp_path / "r.html"],
            ["evaluate", folder, "--cost"],
            ["evaluate", "--of", "statements", folder, *on],
            ["evaluate", folder, *on],
            ["submit", folder, *on, *submitted],
        ):
            done = call(*command)
            assert done.exit_code == 0 or refused(done), command


HEAD = (
    "import sys\nimport pyterrier_ikat as ikat\nfrom pyterrier_ikat.methods import method\n\n\n"
    "@method\ndef mine(retriever):\n    "
)
FILES = {
    HEAD + "sys.exit(0)\n": "calls sys.exit, which ends the command before its work is done",
    "import sys; sys.exit()\n" + HEAD + "pass\n": "mine.py, line 1, calls sys.exit",
    HEAD + "pass\n": "returns NoneType: end it with return and a PyTerrier pipeline",
    HEAD + "return ikat.RawUtterance\n": "returns type: end it with return",
    HEAD.replace("def mine", "async def mine")
    + "return ikat.RawUtterance() >> retriever\n": "returns coroutine: end it with return",
}


@pytest.mark.filterwarnings("ignore:coroutine")
@pytest.mark.parametrize("source", FILES)
def test_a_method_that_makes_nothing_ends_with_code_2(source, run, refused, tmp_path):
    (tmp_path / "mine.py").write_text(source)
    line = refused(run(tmp_path / "runs", f"{tmp_path}/mine.py"))
    assert FILES[source] in line
    assert str(tmp_path / "mine.py") in line


def test_half_a_character_in_a_file_is_named_before_a_run(tmp_path):
    topic = {"qid": "1_1", "messages": [{"role": "user", "content": "Tea?\ud83d"}]}
    (tmp_path / "topics.jsonl").write_text(json.dumps(topic) + "\n")
    with pytest.raises(
        ikat.DataError, match=r"topics\.jsonl, line 1: can.t be read as JSON \(.*\\ud83d"
    ):
        ikat.dataset(str(tmp_path)).get_topics()
    passages = tmp_path / "passages.jsonl"
    passages.write_text(
        '{"docno": "a", "text": "tea"}\n' + json.dumps({"docno": "b", "text": "\udc00"}) + "\n"
    )
    with pytest.raises(ikat.DataError, match=r"passages\.jsonl, line 2: not a passage \(.*\\udc00"):
        list(PassageFiles(str(passages)))
    passages.write_text(json.dumps({"docno": "b", "text": "\U0001f375 \\udc00"}) + "\n")
    assert [passage["text"] for passage in PassageFiles(str(passages))] == ["\U0001f375 \\udc00"]
