"""The benchmarks: what they leave in a file, and that what is timed does the same work."""

import csv
import importlib
import sys
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

PERFORMANCE = Path(__file__).parents[1] / "experiments" / "performance"


@pytest.fixture(autouse=True)
def path(monkeypatch):
    monkeypatch.syspath_prepend(str(PERFORMANCE))
    for name in ("IKAT_BENCH_PASSAGES", "IKAT_BENCH_VECTORS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def bench():
    return importlib.import_module("bench")


def lines_of(path):
    with path.open(encoding="utf-8", newline="") as file:
        return [tuple(line.values()) for line in csv.DictReader(file)]


def test_file_has_a_line_per_stage_and_keeps_the_unmeasured(bench, tmp_path, monkeypatch):
    out = tmp_path / "mine.csv"
    monkeypatch.setattr(bench, "measured", lambda: "2026-01-02 abc")

    def run(**rows):
        for name, found in rows.items():
            monkeypatch.setitem(
                sys.modules,
                name,
                SimpleNamespace(
                    rows=lambda found=found: (1 / seconds and row for seconds, row in found)
                ),
            )
        return CliRunner().invoke(bench.main, [*rows, "--out", str(out)])

    slow = bench.Row("a query", 0.0005, {"x": 0.002, "y": 0.00123}, 0.0001, "ms of CPU")
    fast = bench.Row("a query", 0.0004)
    assert (
        "a query (ms of CPU): ours 0.500; x 2.00; y 1.23; limit 0.100"
        in run(search=[(1, slow)]).output
    )
    run(serve=[(1, bench.Row("50 people", 1234.5))], fusion=[(1, bench.Row("RRF", 12.3))])
    expected = [
        ("search", "a query", "ms of CPU", "0.500", "1.23 (y)", "0.100", "2026-01-02 abc"),
        ("fusion", "RRF", "s", "12.3", "", "", "2026-01-02 abc"),
        ("serve", "50 people", "s", "1234", "", "", "2026-01-02 abc"),
    ]
    assert lines_of(out) == expected
    assert isinstance(run(search=[(1, fast), (0, slow)]).exception, ZeroDivisionError)
    assert lines_of(out) == expected, "a benchmark that fails leaves the file as it is"
    run(search=[(1, fast)])
    assert lines_of(out) == [
        ("search", "a query", "s", "0.000400", "", "", "2026-01-02 abc"),
        *expected[1:],
    ]


def test_the_results_are_of_benchmarks_that_are_there(bench):
    found = lines_of(PERFORMANCE / "results.csv")
    assert {line[0] for line in found} <= set(bench.BENCHMARKS)
    assert {line[2] for line in found} <= set(bench.UNITS)
    for name in bench.BENCHMARKS:
        assert (PERFORMANCE / f"{name}.py").is_file()


@pytest.mark.filterwarnings("ignore")
def test_searches_find_the_same_by_every_way_that_is_timed(ikat_data, monkeypatch):
    module = importlib.import_module("search")
    for name, value in {"PASSAGES": 300, "VECTORS": 300, "QUERIES": 3, "DEPTH": 50}.items():
        monkeypatch.setattr(module, name, value)
    rows = list(module.rows())  # it compares texts itself
    assert len(rows) == 10
    assert all(row.ours > 0 for row in rows)
    shared = [row.more["shared of PISA's first 50"] for row in rows if row.more]
    assert shared == pytest.approx([1.0] * 4 * bool(find_spec("pyterrier_pisa")), abs=0.01)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "sizes", "stages"),
    [
        ("fusion", {"TURNS": 3, "DEPTH": 20, "PASSAGES": 200, "OF_A_TURN": 40}, 2),
        ("evaluation", {"TURNS": 14, "PASSAGES": 30, "JUDGED": 20, "KNOWN": 100}, 1),
    ],
)
def test_fusions_and_evaluations_give_the_same_by_both_ways(name, sizes, stages, monkeypatch):
    module = importlib.import_module(name)
    for constant, value in sizes.items():
        monkeypatch.setattr(module, constant, value)
    assert len(list(module.rows())) == stages  # it compares them itself
