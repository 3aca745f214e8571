"""The benchmarks: which file they leave, that their rows compare what they say, that nothing is remembered from one repeat to the next."""

import gc
import importlib
import json
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pyterrier as pt
import pytest
from click.testing import CliRunner

import pyterrier_ikat as ikat
from pyterrier_ikat.runs import RunFolder

PERFORMANCE = Path(__file__).parents[1] / "experiments" / "performance"
FUSION, READERS = (f"python experiments/performance/bench.py {name}" for name in ("fusion", "readers"))
DEPTH, PASSAGES = 20, 60


@pytest.fixture(scope="module", autouse=True)
def small_heap():
    """Benchmarks collect garbage before each repeat: not in all that other tests have loaded."""
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(autouse=True)
def path(monkeypatch):
    monkeypatch.syspath_prepend(str(PERFORMANCE))
    for name in ("IKAT_BENCH_PASSAGES", "IKAT_BENCH_VECTORS", "IKAT_BENCH_SECONDS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def bench():
    return importlib.import_module("bench")


@pytest.fixture
def measured(bench, tmp_path, monkeypatch):
    """Run ``bench.py`` with benchmarks that give these rows, into one file; the result, and the tasks that the file has by command."""
    out = tmp_path / "bench.json"

    def run(*names, **rows):
        for name, tasks in rows.items():
            monkeypatch.setitem(sys.modules, name, SimpleNamespace(rows=lambda tasks=tasks: _rows(bench, tasks)))
        result = CliRunner().invoke(bench.main, [*names, "--out", str(out)])
        runs = json.loads(out.read_text())["runs"]
        return result, [(one["command"], [row["task"] for row in one["rows"]]) for one in runs]

    return run


def _rows(bench, tasks):
    for task in tasks:
        if task == "fails":
            raise ZeroDivisionError
        yield bench.Row(task, 1.0, None, "", None, "")


def test_a_benchmark_replaces_its_own_rows_and_keeps_those_of_others(measured):
    measured("readers", readers=["old"])
    assert measured("fusion", fusion=["a", "b"])[1] == [(FUSION, ["a", "b"]), (READERS, ["old"])]
    assert measured("readers", readers=["new"])[1] == [(FUSION, ["a", "b"]), (READERS, ["new"])]


def test_rows_of_other_settings_stand_beside_and_paths_are_not_told(measured, monkeypatch):
    measured("readers", "search", readers=["few"], search=["alone"])
    monkeypatch.setenv("IKAT_BENCH_PASSAGES", "1000000")
    monkeypatch.setenv("IKAT_BENCH_VECTORS", "/home/me/vectors")
    search = "python experiments/performance/bench.py search"
    assert measured("readers", "search", "fusion", readers=["many"], search=["both"], fusion=["same"])[1] == [
        (search, ["alone"]),
        (f"IKAT_BENCH_PASSAGES=1000000 IKAT_BENCH_VECTORS=PATH {search}", ["both"]),
        (FUSION, ["same"]),
        (READERS, ["few"]),
        (f"IKAT_BENCH_PASSAGES=1000000 {READERS}", ["many"]),
    ]


def test_a_benchmark_that_fails_leaves_the_rows_it_had(measured):
    measured("fusion", fusion=["a", "b"])
    result, runs = measured("fusion", fusion=["c", "fails"])
    assert isinstance(result.exception, ZeroDivisionError)
    assert runs == [(FUSION, ["a", "b"])]


def test_a_benchmark_without_rows_leaves_the_file_as_it_is(measured):
    measured("fusion", fusion=["a"])
    result, runs = measured("readers", "fusion", readers=[], fusion=["b"])
    assert "this machine has nothing to measure it on" in result.output
    assert runs == [(FUSION, ["b"])]


def test_another_file_is_refused_before_anything_is_measured(bench, tmp_path):
    other = tmp_path / "other.json"
    other.write_text('{"rows": []}')
    result = CliRunner().invoke(bench.main, ["fusion", "--out", str(other)])
    assert result.exit_code == 2
    assert "is not a file of these benchmarks" in result.output
    assert other.read_text() == '{"rows": []}'


def test_every_setting_that_a_benchmark_reads_is_in_its_command(bench):
    read = {path.stem: set(re.findall(r'environ\.get\("(IKAT_BENCH_\w+)"', path.read_text())) for path in PERFORMANCE.glob("*.py")}
    assert {name: found for name, found in read.items() if found} == {
        name: set(settings) for name, settings in bench.BENCHMARKS.items() if settings
    }


def test_start_up_is_the_median_of_seven_fresh_processes(monkeypatch):
    startup, codes = importlib.import_module("startup"), []
    # The first round is slow and doesn't count; then PyTerrier takes 1 s to 7 s, the package twice and the help three times as much.
    ends = [100.0] * 3 + [seconds * times for seconds in (7.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0) for times in (1, 2, 3)]
    clock = iter([now for end in ends for now in (0.0, end)])
    monkeypatch.setattr(startup, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    monkeypatch.setattr(startup.subprocess, "run", lambda command, **_: codes.append(command))
    assert [(row.task, row.ours, row.limit, row.why) for row in startup.rows()] == [
        ("python -c 'import pyterrier_ikat', a fresh process", 8.0, 4.0, "python -c 'import pyterrier'"),
        ("ikat --help, a fresh process", 12.0, 4.0, "python -c 'import pyterrier'"),
    ]
    assert codes == [[sys.executable, "-c", code] for code in ("import pyterrier", "import pyterrier_ikat", startup.HELP)] * 8


def test_the_help_that_start_up_measures_is_that_of_ikat():
    code = importlib.import_module("startup").HELP
    shown = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert "Usage:" in shown
    assert "index" in shown


@pytest.mark.filterwarnings("ignore::pyterrier_ikat.study.OtherCollectionWarning")
@pytest.mark.parametrize("reranked", [False, True])
def test_the_run_with_a_cross_encoder_scores_every_pair_it_found(tmp_path, ikat_data, reranked):
    memory = importlib.import_module("memory")
    docnos = [pt.get_dataset("ikat:2023").get_qrels()["docno"][0], *(f"p{number}" for number in range(1, PASSAGES))]
    corpus = [{"docno": docno, "text": text} for docno, text in zip(docnos, memory._texts(PASSAGES, seed=1), strict=True)]
    index = ikat.PassageIndex(tmp_path / "index").index(corpus)
    figures = memory.run(index.path, tmp_path / "runs", 128, reranked)
    turns = pd.DataFrame(RunFolder(tmp_path / "runs" / "aqd").turns())
    assert figures["queries"] == turns["qsubqueries"].map(len).sum()
    assert figures["pairs"] == (turns["qfound"].map(sum).sum() if reranked else 0)
    assert figures["peak (MB)"] >= figures["of the run (MB)"] > 0


@pytest.mark.filterwarnings("ignore")
def test_searches_find_the_same_by_every_way_that_is_timed(ikat_data, monkeypatch):
    module = importlib.import_module("search")
    for name, value in {"PASSAGES": 900, "VECTORS": 300, "QUERIES": 3, "DEPTH": 50}.items():
        monkeypatch.setattr(module, name, value)
    rows = list(module.rows())  # it compares texts itself
    assert [row.task.split(",")[0] for row in rows if row.instead.startswith(("sqlite", "a product", "torch"))] == [
        *("50 texts", "30 terms of SPLADE", "64 queries", "1660 queries")
    ]
    assert all(row.ours > 0 for row in rows)
    shared = [row.more["shared of the first 50"] for row in rows if row.more]
    assert shared == pytest.approx([1.0] * 4 * bool(find_spec("pyterrier_pisa")), abs=0.01)
