"""Intervals of differences: the paired bootstrap of scipy over units, held against a plain computation."""

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import pyterrier_ikat as ikat
from pyterrier_ikat.cli import main
from pyterrier_ikat.evaluation import difference_interval, evaluate, units_of
from pyterrier_ikat.evaluation.experiment_table import RESAMPLES, default_unit


def scores(conversations=12, turns=5, seed=3):
    """Scores whose differences depend on the conversation, and their turns."""
    drawn = np.random.default_rng(seed)
    qids = [f"{number % 6}-{number}_{turn}" for number in range(conversations) for turn in range(1, turns + drawn.integers(0, 4))]
    effect = dict(zip(dict.fromkeys(units_of(qids)), drawn.normal(0.05, 0.1, conversations), strict=True))
    theirs = drawn.uniform(0, 0.7, len(qids))
    ours = theirs + [effect[unit] for unit in units_of(qids)] + drawn.normal(0, 0.02, len(qids))
    return qids, ours, theirs


def plain(ours, theirs, units, seed, resamples=6_000):
    """The same by hand: draw units, pool all their turns, take the mean difference."""
    drawn, names = np.random.default_rng(seed), sorted(set(units))
    of_unit = {name: [one - other for one, other, unit in zip(ours, theirs, units, strict=True) if unit == name] for name in names}
    means = []
    for _ in range(resamples):
        pooled = [value for place in drawn.integers(0, len(names), len(names)) for value in of_unit[names[place]]]
        means.append(sum(pooled) / len(pooled))
    return np.percentile(means, [2.5, 97.5])


@pytest.mark.parametrize("by", ["turn", "conversation", "topic"])
def test_the_interval_is_that_of_a_plain_bootstrap_over_the_units(by):
    qids, ours, theirs = scores()
    found = difference_interval(ours, theirs, units_of(qids, by))
    assert found == pytest.approx(plain(ours, theirs, units_of(qids, by), 1), abs=0.004)
    assert found[0] < np.mean(ours - theirs) < found[1]


def test_turns_of_one_conversation_that_move_together_widen_the_interval():
    qids, ours, theirs = scores()
    widths = {by: np.diff(difference_interval(ours, theirs, units_of(qids, by)))[0] for by in ("turn", "conversation")}
    assert widths["conversation"] > 1.5 * widths["turn"]


def test_the_seed_decides_and_one_unit_has_no_interval():
    qids, ours, theirs = scores()
    units = units_of(qids)
    assert difference_interval(ours, theirs, units) == difference_interval(ours, theirs, units)
    assert difference_interval(ours, theirs, units, seed=1) != difference_interval(ours, theirs, units, seed=2)
    assert np.isnan(difference_interval(ours, theirs, ["1"] * len(qids))).all()
    assert difference_interval(theirs, theirs, units) == (0.0, 0.0)


def test_turns_of_other_names_are_units_themselves():
    assert units_of(["0_1", "0_2"], "topic") == ["0", "0"]
    assert default_unit(["9-1_1", "dd6b<::>2"]) == "turn"
    with pytest.raises(ikat.DataError, match=r"turn 'dd6b<::>2' is not <conversation>_<turn>"):
        units_of(["9-1_1", "dd6b<::>2"])
    with pytest.raises(ikat.UsageError, match="by='user' is unknown"):
        units_of(["9-1_1"], "user")


def runs():
    qids, drawn = [f"{number}-1_{turn}" for number in range(8) for turn in range(1, 4)], np.random.default_rng(1)
    qrels = pd.DataFrame({"qid": qids, "docno": "a", "label": 1})
    found = {}
    for name, best in (("base", 3), ("ours", 2)):
        ranks = drawn.integers(0, best, len(qids))
        rows = [(qid, docno, -place, place) for qid, rank in zip(qids, ranks, strict=True) for place, docno in enumerate(order(rank))]
        found[name] = pd.DataFrame(rows, columns=["qid", "docno", "score", "rank"]).astype({"score": float})
    return found, qrels


def order(rank):
    return [*"xyz"[:rank], "a"]


def test_evaluate_adds_the_bounds_of_each_measure(tmp_path):
    named, qrels = runs()
    plainly = evaluate(named, qrels, ["nDCG@3"], "base")
    table = evaluate(named, qrels, ["nDCG@3"], "base", by="conversation").set_index("name")
    assert table.drop(columns=["nDCG@3 low", "nDCG@3 high"]).reset_index()[list(plainly)].equals(plainly)
    difference = table.loc["ours", "nDCG@3"] - table.loc["base", "nDCG@3"]
    assert table.loc["ours", "nDCG@3 low"] < difference < table.loc["ours", "nDCG@3 high"]
    assert np.isnan(table.loc["base", "nDCG@3 low"])


def test_the_command_shows_differences_by_the_unit_and_says_what_the_test_takes_for_independent(tmp_path):
    named, qrels = runs()
    for name, run in named.items():
        ikat.runs.write_run(run, tmp_path / f"{name}.trec")
    lines = [f"{qid} 0 {docno} {value}" for qid, docno, value in qrels.itertuples(index=False)]
    (tmp_path / "qrels").write_text("\n".join(lines))
    command = ["evaluate", *(str(tmp_path / f"{name}.trec") for name in named), "--qrels", str(tmp_path / "qrels"), "--baseline", "base"]
    shown = CliRunner().invoke(main, [*command, "--measures", "nDCG@3"])
    assert shown.exit_code == 0, shown.output
    words = " ".join(shown.output.split())
    assert "The test treats all turns as independent, also those of one conversation or topic." in words
    assert f"paired bootstrap over 8 conversations ({RESAMPLES:,} resamples, seed 0)" in words
    by_turn = " ".join(CliRunner().invoke(main, [*command, "--measures", "nDCG@3", "--by", "turn"]).output.split())
    assert "paired bootstrap over 24 turns" in by_turn
    refused = CliRunner().invoke(main, [*command[:-2], "--by", "topic"])
    assert (refused.exit_code, "give --baseline" in refused.stderr) == (2, True)


def test_the_interval_of_a_sum_is_one_of_sums():
    """6 and 12 passages over three turns: the difference is 6, and a turn's 2, 1 or 3."""
    qrels = pd.DataFrame({"qid": ["1_1", "2_1", "3_1"], "docno": "a", "label": 1})

    def finding(*counts):
        rows = [(qid, "abcdef"[rank], -float(rank), rank) for qid, count in zip(qrels["qid"], counts, strict=True) for rank in range(count)]
        return pd.DataFrame(rows, columns=["qid", "docno", "score", "rank"])

    table = evaluate({"base": finding(1, 2, 3), "ours": finding(3, 3, 6)}, qrels, ["NumRet"], "base", by="turn")
    assert table.iloc[1][["NumRet", "NumRet low", "NumRet high"]].tolist() == [12, 3, 9]
