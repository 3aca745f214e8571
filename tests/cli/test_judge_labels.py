"""`ikat judge`: which pairs are judged, filled or compared, in whose style, at what cost."""

import json
from importlib import import_module
from types import SimpleNamespace

import pandas as pd
import pytest
from command_results import assert_spending_is_told, spends_and_fails, with_run
from llms.chat_server import ChatServer, said

import pyterrier_ikat as ikat
from pyterrier_ikat.conversations import dataset
from pyterrier_ikat.conversations.qrels import read_qrels
from pyterrier_ikat.errors import DataError, UsageError
from pyterrier_ikat.evaluation import agreement, pool_runs
from pyterrier_ikat.runs import RunFolder, write_run

module = import_module("pyterrier_ikat.cli.judge")


# Pairs to judge


def data_of(topics, judged):
    """A dataset with these turns and judged turns; an error is raised."""

    def get_qrels(variant=None):
        if isinstance(judged, Exception):
            raise judged
        return pd.DataFrame({"qid": judged, "docno": ["d"] * len(judged)})

    frame = pd.DataFrame({"qid": topics})
    return SimpleNamespace(name="d", get_qrels=get_qrels, get_topics=lambda: frame)


@pytest.mark.parametrize(
    ("judged", "unjudged"),
    [
        (["a", "b"], {"c"}),
        (["a", "b", "c"], set()),
        ([], set()),
        (DataError("not published"), set()),
    ],
)
def test_turns_that_the_dataset_judges_are_judged_again(judged, unjudged):
    data = data_of(["a", "b", "c"], judged)
    assert module._unjudged(data) == unjudged


def test_pairs_are_of_runs_or_qrels_and_of_chosen_turns(made, monkeypatch):
    sample = ikat.dataset("ikat:sample")
    runs = {"raw": RunFolder(made.runs / "raw").results()}
    judged = set(sample.get_qrels()["qid"])
    pooled = pool_runs(runs, 3)

    def pairs(of_runs=None, qrels=None, turns=None, depth=3):
        found = module._pairs_to_judge(of_runs or {}, qrels, sample, turns, depth)
        assert found.index.tolist() == list(range(len(found)))
        return list(zip(found["qid"], found["docno"], strict=True))

    def expected(frame):
        return list(zip(frame["qid"], frame["docno"], strict=True))

    assert pairs(runs) == expected(pooled[pooled["qid"].isin(judged)])
    assert len(pairs(runs, depth=1)) == len(judged)
    assert pairs(runs, turns="1-1_2") == expected(pooled[pooled["qid"] == "1-1_2"])
    assert pairs(qrels="default") == expected(sample.get_qrels())
    two = str(made.path / "two.txt")
    assert pairs(qrels=two) == expected(read_qrels(two))
    assert {qid for qid, _ in pairs(qrels=two, turns="1-1_2")} == {"1-1_2"}
    with pytest.raises(UsageError, match="none of the turns to judge"):
        pairs(qrels=two, turns="1-1_3")
    monkeypatch.setattr(module, "_unjudged", lambda data: {"1-1_2"})
    assert pairs(runs) == expected(pooled[pooled["qid"] != "1-1_2"])
    assert "1-1_2" in {qid for qid, _ in pairs(qrels=two)}  # qrels say themselves what is judged


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("--llm recorded:sample --out o", "give RUNs to judge their top passages"),
        ("RUN --pairs default --llm recorded:sample --out o", "give RUNs to judge"),
        ("--fill --pairs default --llm recorded:sample --out o", "--fill takes RUNs"),
        ("--fill RUN --style umbrela --llm recorded:sample --out o", "--fill takes RUNs"),
    ],
)
def test_runs_or_pairs_are_judged(call, refused, made, words, told):
    given = with_run(words.split(), made.runs / "raw")
    assert refused(call("judge", *given, "--dataset", "ikat:sample")).startswith(told)


@pytest.mark.parametrize("of", ["runs", "pairs"])
def test_only_passages_of_the_given_turns_are_judged(of, call, made, recorded, tmp_path):
    if of == "runs":
        pool = pool_runs({"raw": RunFolder(made.runs / "raw").results()}, 2)
        words = [made.runs / "raw", "--depth", "2"]
    else:
        pool = dataset("ikat:sample").get_qrels()
        words = ["--pairs", "default"]
    docnos = sorted(pool.loc[pool["qid"] == "1-1_2", "docno"])
    labels = [("1-1_2", "judge", "2", docno) for docno in docnos]
    out = tmp_path / "judged"
    done = call(
        *("judge", *words, "--dataset", "ikat:sample", "--turns", "1-1_2"),
        *("--llm", recorded(tmp_path / "labels.jsonl", *labels), "--out", out),
    )
    assert done.exit_code == 0, done.output
    judged = read_qrels(out)
    assert judged["qid"].unique().tolist() == ["1-1_2"]
    assert sorted(judged["docno"]) == docnos


# Labels


def results_of_two_turns(runs):
    results = {}
    for name in ("raw", "rtg"):
        results[name] = RunFolder(runs / name).results().query("qid in ['1-1_1', '1-1_2']")
    return results


def record_labels(runs, path, label):
    """Record judgements of the pooled top 2 of two turns of both runs, and return the pool."""
    found = results_of_two_turns(runs)
    pooled = pool_runs(found, 2)
    lines = []
    for place, (qid, docno) in enumerate(pooled[["qid", "docno"]].values.tolist()):
        about = {"qid": qid, "stage": "judge", "item": docno, "model": "recorded"}
        lines.append(json.dumps(about | {"completion": label(place)}))
    path.write_text("\n".join(lines))
    for name, run in found.items():
        write_run(run, path.parent / f"{name}.trec")
    return pooled


def test_judge_leaves_qrels_and_counts_what_got_no_label(sample_index, call, runs, tmp_path):
    def label(place):
        if place == 1:
            return "It depends, I would say."
        return f"{place % 5}: because"

    pooled = record_labels(runs, tmp_path / "labels.jsonl", label)
    out = tmp_path / "new.qrels"
    files = (tmp_path / "raw.trec", tmp_path / "rtg.trec")
    model = ("--llm", f"recorded:{tmp_path / 'labels.jsonl'}")
    on = ("--dataset", "ikat:sample", "--depth", "2")
    judge = ("judge", *files, *on, *model, "--out", out)
    done = call(*judge)
    assert done.exit_code == 0, done.output
    counts = f"{len(pooled) - 1} of {len(pooled)} passages judged, 1 without a usable label"
    assert done.stdout.splitlines()[-1] == f"{out}: {counts}"
    expected = []
    for place, (qid, docno) in enumerate(pooled.values.tolist()):
        if place != 1:
            expected.append((qid, docno, place % 5))
    assert list(read_qrels(out).itertuples(index=False, name=None)) == expected
    shown = call("evaluate", *files, "--qrels", out, "--measures", "nDCG@3,Judged@2")
    assert shown.exit_code == 0, shown.output
    out.unlink()
    assert call(*judge, "--index", sample_index).stdout == done.stdout


def test_judge_does_not_overwrite_labels_that_are_there(call, refused, runs, tmp_path, monkeypatch):
    monkeypatch.setattr(
        "pyterrier_ikat.evaluation.Judge.transform", lambda *_: pytest.fail("a model was asked")
    )
    out = tmp_path / "labels.qrels"
    out.write_text("1-1_1 0 sample-walk-001:0 3\n")
    on = ("--dataset", "ikat:sample", "--llm", "recorded:sample")
    line = refused(call("judge", runs / "raw", *on, "--out", out))
    why = "exists, and its labels may have cost money: choose another --out, or remove it"
    assert line == f"{out} {why}"
    assert out.read_text() == "1-1_1 0 sample-walk-001:0 3\n"


def test_a_recorded_judge_that_lacks_a_passage_leaves_nothing(call, refused, runs, tmp_path):
    record_labels(runs, tmp_path / "labels.jsonl", lambda place: "3")
    out = tmp_path / "out"
    llm = f"recorded:{tmp_path / 'labels.jsonl'}"
    assert "lacks" in refused(
        call("judge", runs / "raw", "--dataset", "ikat:sample", "--llm", llm, "--out", out)
    )
    assert not out.exists()


def test_new_labels_are_compared_at_once(call, runs, tmp_path):
    record_labels(runs, tmp_path / "labels.jsonl", lambda place: f"{place % 5}: because")
    out = tmp_path / "new.qrels"
    files = (tmp_path / "raw.trec", tmp_path / "rtg.trec")
    model = ("--llm", f"recorded:{tmp_path / 'labels.jsonl'}")
    on = ("--dataset", "ikat:sample", "--depth", "2")
    done = call("judge", *files, *on, *model, "--out", out, "--agree", "default")
    assert done.exit_code == 0, done.output
    judged = ikat.dataset("ikat:sample").get_qrels()
    expected = agreement(read_qrels(out), judged, runs=results_of_two_turns(runs))
    assert done.stdout.endswith(f"{expected}\n")


@pytest.mark.parametrize("style", ["one-shot", "umbrela", None])
def test_labels_have_a_note_of_their_judge(call, made, monkeypatch, tmp_path, style):
    asked = []

    def judge_named(name):
        class Judges:
            def __init__(self, model):
                self.model = model

            def transform(self, pairs):
                self.model.ledger.count("judge", "m", calls=1)
                asked.append((name, self.model.model, "text" in pairs.columns))
                return pairs.iloc[1:].assign(label=2)

        return Judges

    monkeypatch.setattr(ikat.evaluation, "Judge", judge_named("one-shot"))
    monkeypatch.setattr(ikat.evaluation, "UmbrelaJudge", judge_named("umbrela"))
    judged = read_qrels(made.path / "two.txt")
    out = tmp_path / "out"
    done = call(
        *("judge", "--pairs", made.path / "two.txt", "--dataset", "ikat:sample"),
        *("--llm", "recorded:sample", "--out", out),
        *(() if style is None else ("--style", style)),
    )
    assert done.exit_code == 0, done.output
    [(name, model, _)] = asked
    assert (name, model) == (style or "one-shot", "recorded")
    note = json.loads((tmp_path / "out.json").read_text())
    assert note == {"judged_by": "recorded", "style": style or "one-shot"}
    assert len(read_qrels(out)) == len(judged) - 1
    told = f"{len(judged) - 1} of {len(judged)} passages judged, 1 without a usable label"
    assert done.stdout.splitlines()[-1] == f"{out}: {told}"
    assert "LLM ledger" in done.stderr


def test_texts_of_an_index_are_judged(call, made, monkeypatch, tmp_path, sample_index):
    seen = []

    class Judges:
        def __init__(self, model):
            pass

        def transform(self, pairs):
            seen.append(pairs)
            return pairs.assign(label=1)

    monkeypatch.setattr(ikat.evaluation, "Judge", Judges)
    monkeypatch.setattr(
        ikat.evaluation, "with_gold", lambda pairs, data, texts: texts.transform(pairs)
    )
    done = call(
        *("judge", "--pairs", made.path / "two.txt", "--dataset", "ikat:sample"),
        *("--llm", "recorded:sample", "--out", tmp_path / "out", "--index", sample_index),
    )
    assert done.exit_code == 0, done.output
    [pairs] = seen
    assert pairs["text"].str.len().min() > 0


def test_a_judge_that_the_runs_asked_is_told_before_it_is_paid(call, monkeypatch, tmp_path):
    told = []
    monkeypatch.setattr(module, "tell_circular", lambda *args: told.append(args))

    def judges(runs, pairs, data, spec, out, ledger, **options):
        assert told
        ledger.count("judge", "m", calls=1)
        told.append((pairs, spec, out.name, options))

    monkeypatch.setattr(module, "_judge", judges)
    given = ("--pairs", "default", "--llm", "recorded:x", "--out", tmp_path / "o")
    done = call("judge", *given, "--dataset", "ikat:sample", "--depth", "3", "--index", "i")
    assert done.exit_code == 0, done.output
    options = {"fill": False, "style": "one-shot", "index_path": "i", "turns": None, "depth": 3}
    assert told == [(["recorded:x"], ()), ("default", "recorded:x", "o", options)]
    assert "LLM ledger" in done.stderr


@pytest.fixture
def paid_model(monkeypatch):
    """A model on a server: 500 tokens in and 1 out, at 1 and 2 dollars per million."""
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    server = ChatServer()
    server.respond = lambda body: said("2", usage=(500, 1))
    yield f"openai:m base_url={server.url} price_in=1 price_out=2 cache=none"
    server.http.shutdown()
    server.http.server_close()


def test_what_judging_costs_is_told(paid_model, call, runs, tmp_path):
    on = ("--dataset", "ikat:sample", "--turns", "1-1_1", "--llm", paid_model)
    done = call("judge", runs / "raw", *on, "--depth", "2", "--out", tmp_path / "new.qrels")
    assert done.exit_code == 0, done.output
    ledger = done.stderr.partition("LLM ledger")[2].splitlines()
    titles = ledger[2].split("  ")
    row = ledger[3].split()
    assert titles[-1].strip() == "cost (USD)"
    assert row[:3] == ["judge", "m", "2"]
    assert row[-1] == "0.0010"  # 2 x (500 x 1 + 1 x 2) / 1e6
    assert "ledger" not in done.stdout
    done = call("evaluate", "--of", "responses", runs / "rtg", "--judge", "naturalness", *on)
    assert done.exit_code == 0, done.output
    assert "LLM ledger" in done.stderr


def test_what_a_failed_judge_has_spent_is_told(call, monkeypatch, made, tmp_path):
    def judges(runs, pairs, data, spec, out, ledger, **options):
        spends_and_fails(ledger=ledger)

    monkeypatch.setattr(module, "_judge", judges)
    words = ("--pairs", made.path / "two.txt", "--llm", "x", "--out", tmp_path / "o")
    assert_spending_is_told(call("judge", "--dataset", "ikat:sample", *words))
