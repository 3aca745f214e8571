"""Evaluation: `ikat.evaluate` on object columns against pt.Experiment and ir_measures on PyTerrier's frames, which have pandas strings.

The shape is that of a full run of 2023: 332 turns x 1000 passages x 5 systems, 130 judgements per turn, and the track's seven measures. All
give the same scores, to 1e-9.
"""

import resource
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import ir_measures
import numpy as np
import pandas as pd
import pyterrier as pt
import pytrec_eval
from bench import Row, median_seconds

import pyterrier_ikat as ikat
from pyterrier_ikat.conversations.qrels import read_qrels
from pyterrier_ikat.evaluation import TRACK_2023, label
from pyterrier_ikat.runs import read_run

TURNS, PASSAGES, JUDGED, SYSTEMS, KNOWN = 332, 1000, 130, 5, 5000
NAMES = {"ndcg_cut.3,5", "ndcg", "P.20", "recall.20,1000", "map"}
"""trec_eval's names of the track's measures."""


def made() -> tuple[dict[str, pd.DataFrame], pd.DataFrame]:
    """Runs and qrels with ids of real lengths and some tied scores."""
    rng = np.random.default_rng(5)
    qids = [f"{number // 14 + 1}-1_{number % 14 + 1}" for number in range(TURNS)]
    docnos = np.array(
        [f"clueweb22-en{number % 47:04d}-{number % 99:02d}-{number:05d}:{number % 30}" for number in range(KNOWN)], dtype=object
    )

    def pairs(each: int) -> dict[str, pd.Series]:
        picked = [docnos[rng.choice(KNOWN, each, replace=False)] for _ in qids]
        return {"qid": pd.Series(np.repeat(np.array(qids, dtype=object), each)), "docno": pd.Series(np.concatenate(picked))}

    scores, ranks = np.tile(np.linspace(30, 5, PASSAGES).round(2), TURNS), np.tile(np.arange(PASSAGES), TURNS)
    runs = {f"system {number}": pd.DataFrame(pairs(PASSAGES) | {"score": scores, "rank": ranks}) for number in range(SYSTEMS)}
    qrels = pd.DataFrame(pairs(JUDGED) | {"label": rng.integers(0, 5, TURNS * JUDGED)})
    return runs, qrels


def pyterriers(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame in the form of PyTerrier's own readers and retrievers."""
    return frame.astype({"qid": "str", "docno": "str"})


def trec_eval(runs: dict[str, pd.DataFrame], qrels: pd.DataFrame) -> Callable[[], Any]:
    """The work of trec_eval itself, on existing dictionaries."""
    judged = {qid: dict(zip(rows["docno"], rows["label"].tolist(), strict=True)) for qid, rows in qrels.groupby("qid")}
    found = [{qid: dict(zip(rows["docno"], rows["score"], strict=True)) for qid, rows in run.groupby("qid")} for run in runs.values()]
    return lambda: [pytrec_eval.RelevanceEvaluator(judged, NAMES).evaluate(run) for run in found]


def with_ir_measures(runs: dict[str, pd.DataFrame], qrels: pd.DataFrame) -> list[list[float]]:
    """What users of ir_measures write: a row per run, with the measures in the track's order."""
    judged, measures = pt.model.to_ir_measures(qrels), list(TRACK_2023)
    found = [ir_measures.calc_aggregate(measures, judged, pt.model.to_ir_measures(run)) for run in runs.values()]
    return [[figures[measure] for measure in measures] for figures in found]


def files(folder: Path, run: pd.DataFrame, qrels: pd.DataFrame) -> tuple[Path, Path]:
    """The run and the judgements as TREC files."""
    ranked, judged = folder / "run.trec", folder / "qrels.txt"
    ranked.write_text("".join(f"{qid} Q0 {docno} {rank + 1} {score} run\n" for qid, docno, score, rank in run.itertuples(index=False)))
    judged.write_text("".join(f"{qid} 0 {docno} {grade}\n" for qid, docno, grade in qrels.itertuples(index=False)))
    return ranked, judged


def from_files(run: pd.DataFrame, qrels: pd.DataFrame) -> Row:
    """Reading and scoring one run file, against the `ir_measures` command. Both score ties in the same way."""
    with TemporaryDirectory() as folder:
        ranked, judged = files(Path(folder), run, qrels)
        ours = lambda: ikat.evaluate({"run": read_run(ranked)}, read_qrels(judged))  # noqa: E731
        theirs = lambda: ir_measures.calc_aggregate(  # noqa: E731
            list(TRACK_2023), ir_measures.read_trec_qrels(str(judged)), ir_measures.read_trec_run(str(ranked))
        )
        expected = theirs()
        apart = max(abs(float(ours()[label(measure)][0]) - expected[measure]) for measure in TRACK_2023)
        task = f"read and score a run file of {len(run)} lines, {len(TRACK_2023)} measures"
        more = {"largest difference": apart}
        return Row(task, median_seconds(ours), median_seconds(theirs), "ir_measures, as its command does", None, "", more)


def commands(run: pd.DataFrame, qrels: pd.DataFrame) -> Row:
    """The whole commands, `ikat evaluate` and `ir_measures`: user CPU seconds including start and imports, medians of alternating runs."""
    with TemporaryDirectory() as folder:
        ranked, judged = map(str, files(Path(folder), run, qrels))
        programs = [
            [sys.executable, "-c", "from pyterrier_ikat.cli import main; main()", "evaluate", ranked, "--qrels", judged],
            [sys.executable, "-m", "ir_measures", judged, ranked, *map(label, TRACK_2023)],
        ]
        ours, theirs = zip(*([user_seconds(program) for program in programs] for _ in range(7)), strict=True)
        task = f"the whole command on a run file of {len(run)} lines, user CPU seconds"
        return Row(task, median(ours), median(theirs), "the ir_measures command", None, "", {})


def user_seconds(program: list[str]) -> float:
    """The user CPU time of a program."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    subprocess.run(program, check=True, capture_output=True)
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before


def peak(work: Callable[[], Any]) -> float:
    """The mebibytes of Python objects and arrays that are allocated in addition to the input."""
    tracemalloc.start()
    work()
    found = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    return found


def rows() -> Iterator[Row]:
    """`evaluate` and `experiment` on finished runs, against ir_measures and pt.Experiment."""
    runs, qrels = made()
    topics = pd.DataFrame({"qid": qrels["qid"].unique(), "query": "q"})
    theirs, judged = {name: pyterriers(run.assign(score=-run["rank"].astype(float))) for name, run in runs.items()}, pyterriers(qrels)
    expected = np.array(with_ir_measures(theirs, judged))
    limit = median_seconds(trec_eval(runs, qrels))
    compared: list[tuple[str, Callable[[], pd.DataFrame], str, Callable[[], Any]]] = [
        ("evaluate", lambda: ikat.evaluate(runs, qrels), "ir_measures", lambda: with_ir_measures(theirs, judged)),
        (
            "experiment",
            lambda: ikat.experiment(runs, topics=topics, qrels=qrels),
            "pt.Experiment",
            lambda: pt.Experiment(theirs, topics, judged, list(TRACK_2023)),
        ),
    ]
    for name, work, instead, other in compared:
        apart = float(np.abs(work()[list(map(label, TRACK_2023))].to_numpy(dtype=float) - expected).max())
        more = {"largest difference": apart, "MB at the peak": peak(work), "MB at the peak, theirs": peak(other)}
        task = f"{name}: {SYSTEMS} runs of {TURNS} turns x {PASSAGES} passages, {len(TRACK_2023)} measures"
        why = "trec_eval's C code, its dictionaries built beforehand"
        yield Row(task, median_seconds(work), median_seconds(other), f"{instead} on PyTerrier's frames", limit, why, more)
    yield from_files(runs["system 0"], qrels)
    yield commands(runs["system 0"], qrels)
