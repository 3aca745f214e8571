"""The table of rejected true nulls on docs/evidence.md.

Its rows come out of the command, its sizes out of the data sets.
"""

import importlib.util
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import pyterrier_ikat as ikat

ROOT = Path(__file__).parents[2]
TABLE = (
    (ROOT / "docs" / "evidence.md")
    .read_text(encoding="utf-8")
    .partition("<!-- generated: coverage -->")[2]
    .partition("<!-- end -->")[0]
)


@pytest.fixture
def coverage():
    spec = importlib.util.spec_from_file_location(
        "experiment_on_coverage", ROOT / "experiments" / "quality" / "coverage.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_cr2_keeps_its_level_on_each_row_of_the_page():
    rows = [line for line in TABLE.splitlines() if " / " in line and "|" in line]
    assert len(rows) >= 20
    for row in rows:
        last_cell = row.strip("| ").split(" | ")[-1]
        for rate in re.findall(r"\.\d+", last_cell):
            assert 0.04 <= float(rate) <= 0.06
    assert "Outside .04 to .06: none." in TABLE


def test_a_row_of_the_page_comes_out_of_the_simulation(coverage):
    sizes = coverage.read_sizes()["ikat:2024, by conversation"]
    random = np.random.default_rng(coverage.SEED)
    rates = [
        coverage.simulate(sizes, correlation, coverage.SIMULATIONS, random)
        for correlation in coverage.CORRELATIONS
    ]
    first = " / ".join(coverage.rate(pair[0]) for pair in rates)
    second = " / ".join(coverage.rate(pair[1]) for pair in rates)
    assert f"| ikat:2024, by conversation | 14 | 116 | 12 | {first} | {second} |" in TABLE


def test_sizes_are_the_judged_turns_of_each_cluster(coverage, ikat_data):
    sizes = coverage.read_sizes()
    for title, name, variant in (
        ("ikat:2023, by topic", "ikat:2023", None),
        ("ikat:2025 provenance, by user", "ikat:2025", "provenance"),
    ):
        data = ikat.dataset(name)
        clusters = data.clusters()
        judged = data.get_qrels(variant)["qid"].unique()
        counts = Counter(clusters[qid] for qid in judged)
        assert sizes[title] == sorted(counts.values())


def test_a_correlation_is_that_of_a_one_way_analysis_of_variance(coverage):
    """Clusters (1, 3) and (5, 7).

    Mean squares 16 and 2 between and within, and (16 - 2) / (16 + 2).
    """
    correlation, effect = coverage.correlation_of([1, 3, 5, 7], list("aabb"))
    assert correlation == pytest.approx(14 / 18)
    assert effect == pytest.approx(
        (2 * 4**2 / 0.5) / 16 / (20 / 3 / 4)
    )  # sums of +-4 about the mean; a variance of 20 / 3
