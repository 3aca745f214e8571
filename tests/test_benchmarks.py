"""The benchmarks: which file they leave, that their rows compare what they say, that nothing is remembered from one repeat to the next."""

import gc
import importlib
import json
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pyterrier as pt
import pytest
from click.testing import CliRunner

import pyterrier_ikat as ikat
from pyterrier_ikat.retrieve import bm25 as operator_module
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
    for name in ("IKAT_BENCH_PASSAGES", "IKAT_BENCH_PYSERINI", "IKAT_BENCH_SECONDS"):
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
    measured("readers", "bm25", readers=["few"], bm25=["alone"])
    monkeypatch.setenv("IKAT_BENCH_PASSAGES", "1000000")
    monkeypatch.setenv("IKAT_BENCH_PYSERINI", "/home/me/python")
    bm25 = "python experiments/performance/bench.py bm25"
    assert measured("readers", "bm25", "fusion", readers=["many"], bm25=["both"], fusion=["same"])[1] == [
        (bm25, ["alone"]),
        (f"IKAT_BENCH_PASSAGES=1000000 IKAT_BENCH_PYSERINI=PATH {bm25}", ["both"]),
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


def test_without_a_gpu_its_benchmark_has_no_rows(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert list(importlib.import_module("gpu").rows()) == []


def test_another_file_is_refused_before_anything_is_measured(bench, tmp_path):
    other = tmp_path / "other.json"
    other.write_text('{"rows": []}')
    result = CliRunner().invoke(bench.main, ["fusion", "--out", str(other)])
    assert result.exit_code == 2
    assert "is not a file of these benchmarks" in result.output
    assert other.read_text() == '{"rows": []}'


def test_every_setting_that_a_benchmark_reads_is_in_its_command(bench):
    read = {path.stem: set(re.findall(r'environ\.get\("(IKAT_BENCH_\w+)"', path.read_text())) for path in PERFORMANCE.glob("*.py")}
    read["bm25"] |= read.pop("bm25_others")
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


@pytest.fixture
def searches(monkeypatch):
    """How many queries each call of the operator had searched for."""
    found, search = [], operator_module.BM25.find_rankings

    def noted(*given):
        found.append(len(given[2]))
        return search(*given)

    monkeypatch.setattr(operator_module.BM25, "find_rankings", noted)
    return found


@pytest.fixture
def passages(tmp_path, ikat_data, monkeypatch):
    """The benchmark bm25, a small index for it, and the texts that it holds."""
    bm25 = importlib.import_module("bm25")
    monkeypatch.setattr(bm25, "DEPTH", DEPTH)
    (tmp_path / "passages").mkdir()
    bm25.write_files(tmp_path / "passages", PASSAGES)
    bm25.build(tmp_path / "passages", tmp_path / "index", 2)
    texts = {passage["docno"]: passage["text"] for passage in ikat.PassageFiles(tmp_path / "passages")}
    return bm25, ikat.PassageIndex(tmp_path / "index"), texts


@pytest.mark.linux
def test_the_operator_searches_in_every_repeat_and_is_compared_with_a_frame_of_the_same_texts(passages, searches):
    bm25, index, texts = passages
    queries = bm25._queries(5)
    row = bm25._operator("short", index, queries, texts)
    assert re.fullmatch(r"short: index\.bm25\(engine='pisa'\) with texts, \d+ threads", row.task)
    assert "1 thread" in row.instead
    assert searches == [8, 8, 8]  # three repeats; the comparison afterwards remembers the last
    assert row.more == {"same top 100": 1.0}
    found = index.bm25(num_results=DEPTH)(queries).set_index(["qid", "docno"])["text"]
    written = bm25.with_texts_of(bm25._bare(index, "block_max_wand", 1)(queries), texts).set_index(["qid", "docno"])["text"]
    assert written[found.index.intersection(written.index)].to_dict().items() <= found.to_dict().items()
    assert len(written) == len(found)


@pytest.mark.linux
def test_every_row_of_pisa_alone_names_its_threads_and_stands_beside_as_many(passages, monkeypatch):
    bm25, index, _ = passages
    opened, bare = [], bm25._bare

    def noted(index, algorithm, threads):
        opened.append((algorithm, threads))
        return bare(index, algorithm, threads)

    monkeypatch.setattr(bm25, "_bare", noted)
    queries = bm25._queries(5)
    others = bm25.Other("bm25s", "by bm25s", 2, 7.0, [[]] * 8), bm25.Other("pyserini", "by pyserini", 1, 8.0, [[]] * 8)
    postings = SimpleNamespace(of=lambda _: 800.0, size=2.0, bandwidth=100.0)
    rows = [*bm25._alone("short", index, queries, postings), *bm25._beside("short", index, queries, others)]
    assert [row.task for row in rows] == [
        "short: PISA alone with our options (maxscore, 1 thread)",
        "short: PISA alone with our options (maxscore, 2 threads)",
        "short: PISA alone with our options (maxscore, 2 threads), beside bm25s",
        "short: PISA alone with our options (maxscore, 1 thread), beside pyserini",
    ]
    assert opened == [("block_max_wand", 1), ("maxscore", 1), ("maxscore", 2), ("maxscore", 2), ("maxscore", 1)]
    assert [row.limit for row in rows] == [2.0, 2.0, None, None]  # 800 postings of 8 queries, 2 bytes each, over 100 bytes a second
    assert [(row.today, row.instead) for row in rows[2:]] == [(7.0, "by bm25s"), (8.0, "by pyserini")]
    assert [row.more for row in rows[2:]] == [{"top 10 shared with bm25s": 0.0}, {"top 10 shared with pyserini": 0.0}]


def test_pyserinis_times_hold_the_reading_and_are_told_by_threads():
    others = importlib.import_module("bm25_others")
    found = others._both_ways({"one": 3.0, "batch": 2.0, "reading": 0.5, "docnos": [["a"]]})
    assert [(one.library, one.threads, one.seconds) for one in found] == [("pyserini", 1, 3.5), ("pyserini", 2, 2.5)]
    assert others.pyserini_searches(Path(), {"short": ["tea"]}) == {}
    assert others.overlap([["a", "b"], ["c"]], [["b", "d"], ["c", "a"]]) == pytest.approx((0.1 + 0.1) / 2)


def test_an_index_in_parts_searches_in_every_repeat(searches, monkeypatch):
    ray_scale = importlib.import_module("ray_scale")
    sample = pt.get_dataset("ikat:sample")
    monkeypatch.setattr(ray_scale, "PARTS", 2)
    monkeypatch.setattr(ray_scale, "pt", SimpleNamespace(get_dataset=lambda _: sample))
    assert len(list(ray_scale._index_in_parts())) == 2
    # The whole once; for each way 4 repeats of 2 parts, 4 of the whole, and the parts once more for the figures.
    assert len(searches) == 1 + 2 * (4 * 2 + 4 + 2)


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


@pytest.mark.linux
def test_texts_are_read_the_same_by_every_way_that_is_timed(ikat_data, monkeypatch):
    module = importlib.import_module("passage_texts")
    for name, value in {"STORED": 800, "ASKED": 20, "ROUNDS": 2, "PASSAGES": PASSAGES, "DEPTH": DEPTH}.items():
        monkeypatch.setattr(module, name, value)
    texts, query = module.rows()  # it compares them itself
    assert texts.task == "20 texts of a query among 800 real passages"
    assert 0 < texts.more["size, of sqlite's"] < 1.1
    assert min(row.limit for row in (texts, query)) > 0
