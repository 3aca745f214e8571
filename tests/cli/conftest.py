import json
from types import SimpleNamespace

import pandas as pd
import pyterrier as pt
import pytest
from click.testing import CliRunner

import pyterrier_ikat as ikat
from pyterrier_ikat.cli import main
from pyterrier_ikat.methods import METHODS
from pyterrier_ikat.runs import RunFolder

TWO = ["1-1_1", "1-1_2"]


@pytest.fixture(scope="session")
def call():
    """Call the command line."""
    return lambda *words: CliRunner().invoke(main, [str(word) for word in words])


@pytest.fixture
def run(call, sample_index):
    """Run methods on the sample, with its recorded completions."""

    def run(out, *more, llm="recorded:sample", index=sample_index):
        words = ["run", *more, "--dataset", "ikat:sample", "--index", index]
        methods = [METHODS[name] for name in more if name in METHODS]
        if any("llm" in method.needs for method in methods):
            words += ["--llm", llm]
        return call(*words, "--out", out)

    return run


@pytest.fixture(scope="session")
def refused():
    """The one line of a fault that a user can repair."""

    def refused(result):
        [line] = [
            line
            for line in result.stderr.splitlines()
            if line.startswith("ikat: ") and "warning" not in line
        ]
        assert (result.exit_code, "Traceback" in result.output) == (2, False)
        return line.removeprefix("ikat: ")

    return refused


@pytest.fixture(scope="module")
def made(tmp_path_factory, sample_index):
    """A folder with runs of the sample, qrels of two turns, and files of turns.

    rtg responds and chooses statements, raw does neither.
    """
    folder = tmp_path_factory.mktemp("made")
    sample = ikat.dataset("ikat:sample")
    ikat.run("raw", sample, out=folder / "runs", index=sample_index)
    by_overlap = pt.apply.doc_score(
        lambda row: len({*row["query"].split()} & {*row["text"].split()})
    )
    bm25 = ikat.PassageIndex(sample_index).bm25()
    rtg = ikat.methods.rtg(ikat.llm("recorded:sample"), bm25, by_overlap)
    topics = sample.get_topics()
    parameters = {"method": "rtg", "dataset": "ikat:sample"}
    RunFolder(folder / "runs" / "rtg").write(
        topics, rtg(topics), pd.DataFrame(), pd.DataFrame(), parameters
    )
    for name, variant in [("two.txt", None), ("statements.txt", "ptkb")]:
        qrels = sample.get_qrels(variant)
        ikat.conversations.write_qrels(qrels[qrels["qid"].isin(TWO)], folder / name)
    (folder / "one-turn").write_text("\n1-1_2\n")
    (folder / "wrong").write_text("1-1_2\n\n9-9_9\n")
    return SimpleNamespace(path=folder, runs=folder / "runs")


@pytest.fixture
def tiny(tmp_path):
    """A folder with a run of two passages for one turn, and judgements of two turns."""
    (tmp_path / "one.trec").write_text("1_1 Q0 a 1 2.0 one\n1_1 Q0 b 2 1.0 one\n")
    (tmp_path / "qrels").write_text("1_1 0 b 1\n1_2 0 b 1\n")
    return tmp_path


@pytest.fixture(scope="session")
def recorded():
    """Write a file of recorded completions: (qid, stage, text), and the passage if any."""

    def recorded(path, *completions):
        names = ("qid", "stage", "completion", "item")
        lines = []
        for values in completions:
            completion = dict(zip(names, values, strict=False))
            completion["model"] = "recorded"
            lines.append(json.dumps(completion))
        path.write_text("\n".join(lines))
        return f"recorded:{path}"

    return recorded


@pytest.fixture
def judged(tmp_path):
    """Judgements of two turns."""
    (tmp_path / "qrels").write_text("1_1 0 a 1\n1_2 0 b 1\n")
    return tmp_path / "qrels"


@pytest.fixture
def lacking(tmp_path):
    """A run file that lacks a judged turn and has one that nobody judged."""
    (tmp_path / "qrels").write_text("1_1 0 a 1\n1_2 0 b 1\n")
    (tmp_path / "few.trec").write_text("1_1 Q0 a 1 2.0 x\n9_9 Q0 a 1 2.0 x\n")
    return tmp_path


@pytest.fixture
def runs(made):
    return made.runs
