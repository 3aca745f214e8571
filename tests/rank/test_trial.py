import numpy as np
import pytest

from pyterrier_ikat.errors import UsageError
from pyterrier_ikat.rank import cross_encoder as trial
from pyterrier_ikat.rank.cross_encoder import choose_fastest, draw_pairs, top_overlap

PAIRS = [("q", str(number)) for number in range(trial.PAIRS)]
EXACT = np.random.default_rng(1).normal(size=trial.PAIRS)


class Clock:
    """A time that only scorers move."""

    def __init__(self, monkeypatch):
        self.now = 0.0
        monkeypatch.setattr(trial.time, "perf_counter", lambda: self.now)

    def scorer(self, seconds_per_pair, scores=EXACT):
        def score(pairs):
            self.now += seconds_per_pair * len(pairs)
            return scores[: len(pairs)]

        return score


@pytest.fixture
def clock(monkeypatch):
    return Clock(monkeypatch)


def test_the_fastest_that_agrees(clock, caplog):
    near = EXACT + 1e-6
    backends = {"fp32": clock.scorer(1.0), "bf16": clock.scorer(0.5, near), "openvino": clock.scorer(0.25, -EXACT)}
    with caplog.at_level("INFO"):
        assert choose_fastest(backends, PAIRS, "m") == "bf16"
    (said,) = caplog.messages
    assert said.startswith(
        "m runs with bf16: fp32 1 pairs/s, top-10 overlap 1.000; bf16 2 pairs/s, top-10 overlap 1.000; openvino 4 pairs/s"
    )


def test_single_precision_where_nothing_is_faster(clock):
    assert choose_fastest({"fp32": clock.scorer(1.0), "bf16": clock.scorer(2.0)}, PAIRS, "m") == "fp32"


def test_scores_that_are_not_finite_do_not_agree(clock):
    broken = np.where(EXACT > 1, np.nan, EXACT)
    assert choose_fastest({"fp32": clock.scorer(1.0), "bf16": clock.scorer(0.1, broken)}, PAIRS, "m") == "fp32"


def test_a_backend_that_cannot_run_the_model_is_passed_over_but_not_single_precision(clock, caplog):
    def failing(pairs):
        raise UsageError("no such operation")

    with caplog.at_level("INFO"):
        assert choose_fastest({"fp32": clock.scorer(1.0), "openvino": failing}, PAIRS, "m") == "fp32"
    assert "openvino can't run it: no such operation" in caplog.text
    with pytest.raises(UsageError, match="no such operation"):
        choose_fastest({"fp32": failing, "bf16": clock.scorer(1.0)}, PAIRS, "m")


def test_the_first_pairs_do_not_count(monkeypatch, clock):
    slow_start = clock.scorer(0.1)

    def score(pairs):
        clock.now += 1000 if len(pairs) == trial.FIRST else 0
        return slow_start(pairs)

    assert choose_fastest({"fp32": clock.scorer(1.0), "bf16": score}, PAIRS, "m") == "bf16"


def test_the_overlap_of_ten_is_the_mean_over_halves():
    assert top_overlap(EXACT, 3 * EXACT - 5) == 1.0
    assert top_overlap(EXACT, -EXACT) == 0.0  # the ten best of 48 are never among the ten worst
    assert top_overlap(np.arange(20.0), -np.arange(20.0)) == 1.0  # all ten of ten
    swapped = EXACT.copy()
    one, next_one = np.argsort(-EXACT)[19:21]
    swapped[[one, next_one]] = EXACT[[next_one, one]]
    assert 0.98 < top_overlap(EXACT, swapped) < 1.0  # a half seldom has both, at its places ten and eleven


def test_pairs_come_from_all_over_the_rows():
    queries = [f"q{number // 500}" for number in range(5000)]
    texts = [str(number) for number in range(5000)]
    drawn = draw_pairs(queries, texts)
    assert len(drawn) == len(set(drawn)) == trial.PAIRS
    assert {query for query, _ in drawn} == set(queries[: 96 * 26 * 2])


@pytest.mark.parametrize(("rows", "distinct", "drawn"), [(1, 1, 1), (95, 95, 95), (96, 96, 96), (300, 50, 50), (1000, 1000, 96)])
def test_as_many_as_there_are(rows, distinct, drawn):
    assert len(draw_pairs(["q"] * rows, [str(number % distinct) for number in range(rows)])) == drawn
