"""Systems run several times.

What is asked, what is shared, where it lies, and what the table says of it.
"""

import json
import warnings

import pandas as pd
import pyterrier as pt
import pytest
from click.testing import CliRunner

import pyterrier_ikat as ikat
from pyterrier_ikat.cli import main
from pyterrier_ikat.errors import UsageError
from pyterrier_ikat.llms import Backend, Reply, llm
from pyterrier_ikat.llms.cache import CompletionCache
from pyterrier_ikat.runs import RunFolder
from pyterrier_ikat.study import RepeatsWarning

TURNS = ["1-1_1", "1-1_2", "1-1_3", "2-1_1", "2-1_2"]
FEW = {"dataset": "ikat:sample", "turns": TURNS}
WORDS = ("heath walk", "tea", "river", "train", "bread")


class Sampling(Backend):
    """Answers with another word in each chain, and remembers the requests."""

    model, identity = "sampling", {"provider": "fake", "model": "sampling", "params": {}}

    def __init__(self):
        self.asked = []

    def complete(self, requests):
        self.asked += requests
        return [Reply(WORDS[request.chain]) for request in requests]


class Stops(pt.Transformer):
    """Stands for a kill: fails at its call of that number, from 0."""

    def __init__(self, at=None):
        super().__init__()
        self.at, self.calls = at, 0

    def transform(self, inp):
        if len(inp):
            self.calls += 1
            if self.calls - 1 == self.at:
                raise ZeroDivisionError
        return inp

    def __repr__(self):
        return "Stops()"


@pytest.fixture
def sampled(tmp_path, index):
    """Makes a system over a new model with the test's cache file.

    Gives the model's backend and the system.
    """
    opened = []

    def make(stage=None):
        backend = Sampling()
        model = llm(backend)
        model.cache = CompletionCache(tmp_path / "llm.sqlite")
        opened.append(model)
        return backend, {
            "QR": ikat.Rewrite(model) >> (stage or Stops()) >> index.bm25(num_results=20)
        }

    yield make
    for model in opened:
        model.close()


def files(out):
    contents = {}
    for path in sorted(out.rglob("*")):
        if path.name in ("run.trec", "turns.jsonl"):
            contents[path.relative_to(out)] = path.read_bytes()
    return contents


def test_five_repeats_after_one_pay_for_four(sampled, tmp_path):
    backend, plain = sampled()
    ikat.run(plain, **FEW, out=tmp_path / "runs")
    assert len(backend.asked) == len(TURNS)
    kept = files(tmp_path / "runs")
    backend, again = sampled()
    planned = ikat.plan(again, **FEW, repeats=5)
    planned = planned[planned["stage"] == "rewrite"]
    assert planned[["calls", "known", "new"]].to_numpy().tolist() == [[5, 5, 0], *[[5, 0, 5]] * 4]
    names = ["QR", "QR.repeat-2", "QR.repeat-3", "QR.repeat-4", "QR.repeat-5"]
    assert planned["system"].tolist() == names
    ikat.run(again, **FEW, out=tmp_path / "runs", repeats=5)
    assert len(backend.asked) == 4 * len(TURNS)
    assert {request.chain for request in backend.asked} == {1, 2, 3, 4}
    assert kept.items() <= files(tmp_path / "runs").items()
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == names


def test_each_repeat_is_a_chain_of_its_own_and_says_which(sampled, tmp_path):
    _, system = sampled()
    ikat.run(system, **FEW, out=tmp_path / "runs", repeats=2)
    for number, word in enumerate(WORDS[:2], 1):
        folder = RunFolder(tmp_path / "runs" / ("QR" if number == 1 else f"QR.repeat-{number}"))
        assert {turn["qrewrite"] for turn in folder.turns()} == {word}
        assert folder.parameters()["method"] == "QR"
        assert folder.parameters().get("repeat", 1) == number
        assert f"QR.repeat-{number}" in (folder.path / "run.trec").read_text() or number == 1


def test_killed_run_with_repeats_resumes_and_pays_nothing_twice(sampled, tmp_path):
    _, whole = sampled()
    ikat.run(whole, **FEW, out=tmp_path / "whole", turns_at_once=3, repeats=2)
    (tmp_path / "llm.sqlite").unlink()
    first, killed = sampled(Stops(3))
    with pytest.raises(ikat.errors.IkatError, match="QR.* failed: ZeroDivisionError"):
        ikat.run(killed, **FEW, out=tmp_path / "killed", turns_at_once=3, repeats=2)
    second, again = sampled()
    ikat.run(again, **FEW, out=tmp_path / "killed", turns_at_once=3, repeats=2)
    assert len(first.asked) + len(second.asked) == 2 * len(TURNS)
    assert files(tmp_path / "killed") == files(tmp_path / "whole")


def test_table_has_repeats_mean_and_deviation_and_tests_averages(sampled, index, tmp_path):
    _, system = sampled()
    with pytest.warns(
        RepeatsWarning,
        match="system raw asks no LLM, so that every repeat would be the same: it is run once",
    ):
        table = ikat.run(
            {**system, "raw": "raw"},
            **FEW,
            out=tmp_path,
            repeats=3,
            baseline="raw",
            index=index,
            unit="turn",
        ).table
    assert not (tmp_path / "raw.repeat-2").exists()
    each = []
    for name in ("QR", "QR.repeat-2", "QR.repeat-3"):
        each.append(RunFolder(tmp_path / name).measures()["nDCG@5"])
    row = table.set_index("name").loc["QR"]
    means = pd.Series([scores.mean() for scores in each])
    assert (row["repeats"], row["turns"]) == (3, len(each[0]))
    assert row["nDCG@5"] == pytest.approx(means.mean())
    assert row["nDCG@5 std"] == pytest.approx(means.std())
    from scipy.stats import ttest_rel

    raw = RunFolder(tmp_path / "raw").measures()["nDCG@5"]
    assert row["nDCG@5 p-value"] == pytest.approx(ttest_rel(sum(each) / 3, raw).pvalue)
    text = ikat.show.table(table).text()
    assert "±" in text
    assert "Before the test, each turn's scores are averaged over the repeats." in text
    assert pd.isna(table.set_index("name").loc["raw", "nDCG@5 std"])
    markdown = ikat.show.table(table).markdown()
    assert "±: standard deviation over 3 repeats" in markdown
    assert "±" in ikat.show.table(table).latex()


def test_what_makes_repeats_the_same_is_told_once_per_system(index, tmp_path):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ikat.plan(
            ["qr", "aqd"],
            "ikat:sample",
            index=index,
            llm="openai:gpt-4o temperature=0 cache=none",
            repeats=2,
            reranker="bi:m",
        )
    told = [str(one.message) for one in caught if issubclass(one.category, RepeatsWarning)]
    reason = "ikat.llm('openai:gpt-4o temperature=0 cache=none') has temperature=0"
    assert told == [
        f"repeats of qr may be the same: {reason}",
        f"repeats of aqd may be the same: {reason}",
    ]


def test_recorded_completions_with_lists_give_other_chains(index, tmp_path):
    path = tmp_path / "recorded.jsonl"
    lines = [
        {"qid": qid, "stage": "rewrite", "completion": ["tea", "river"], "model": "m"}
        for qid in TURNS
    ]
    path.write_text("\n".join(map(json.dumps, lines)))
    with warnings.catch_warnings():
        warnings.simplefilter("error", RepeatsWarning)
        system = ikat.Rewrite(llm(f"recorded:{path}")) >> index.bm25(num_results=5)
        ikat.run({"QR": system}, **FEW, out=tmp_path / "runs", repeats=2)
    first = RunFolder(tmp_path / "runs" / "QR").results()
    second = RunFolder(tmp_path / "runs" / "QR.repeat-2").results()
    assert not first.equals(second)
    with pytest.warns(
        RepeatsWarning, match=r"5 of 5 records of .*recorded\.jsonl with too few comp"
    ):
        ikat.plan({"QR": system}, **FEW, repeats=3)


def test_bad_numbers_and_names_are_refused_before_any_request(sampled, tmp_path):
    backend, system = sampled()
    with pytest.raises(UsageError, match="repeats=0: run each system at least once"):
        ikat.run(system, "ikat:sample", out=tmp_path / "runs", repeats=0)
    with pytest.raises(
        UsageError, match=r"a system is named 'QR\.repeat-2', as a repeat of another one"
    ):
        ikat.run(
            {**system, "QR.repeat-2": system["QR"]}, "ikat:sample", out=tmp_path / "runs", repeats=2
        )
    assert backend.asked == []


def test_a_system_of_the_name_of_a_repeat_is_not_taken_for_it(sampled, tmp_path):
    _, system = sampled()
    ikat.run(system, **FEW, out=tmp_path / "runs", repeats=2)
    with pytest.raises(UsageError, match="holds a run with different method"):
        ikat.run({"QR.repeat-2": system["QR"]}, **FEW, out=tmp_path / "runs")


@pytest.mark.filterwarnings("default::pyterrier_ikat.study.RepeatsWarning")
def test_the_commands_run_plan_and_evaluate_repeats(index, tmp_path):
    options = [
        "--dataset",
        "ikat:sample",
        "--index",
        str(index.path),
        "--llm",
        "recorded:sample",
        "--out",
        str(tmp_path / "runs"),
    ]
    options += ["--turns", ",".join(TURNS)]

    def call(*arguments):
        done = CliRunner().invoke(main, list(arguments))
        assert done.exit_code == 0, done.output
        return done.output

    planned = call("run", "ad", *options, "--repeats", "2", "--plan")
    assert (
        planned.count(
            "ikat: warning: repeats of ad may be the same: ikat.llm('recorded:sample') has "
        )
        == 1
    )
    assert "ad.repeat-2" in planned
    said = call("run", "ad", *options, "--repeats", "2")
    assert "±" in said
    assert "share of the variance" in said
    paths = [str(tmp_path / "runs" / "ad"), str(tmp_path / "runs" / "ad.repeat-2")]
    evaluated = call("evaluate", *paths, "--dataset", "ikat:sample", "--turns", ",".join(TURNS))
    assert evaluated.strip() in said
    assert "ad.repeat-2" not in evaluated


def test_runs_of_other_systems_are_not_repeats(sampled, index, tmp_path):
    _, system = sampled()
    ikat.run(system, **FEW, out=tmp_path / "one")
    ikat.run({"QR.repeat-2": "raw"}, **FEW, out=tmp_path / "two", index=index)
    paths = [str(tmp_path / "one" / "QR"), str(tmp_path / "two" / "QR.repeat-2")]
    done = CliRunner().invoke(main, ["evaluate", *paths, "--dataset", "ikat:sample"])
    assert done.exit_code != 0
    assert "are not repeats of one system" in done.output
