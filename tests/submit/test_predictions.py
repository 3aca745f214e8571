"""Predictions for MTRAG as IBM's evaluation reads them.

They are written from a run, checked by the rules of its checker and ours, and read back.
"""

import json
from itertools import cycle, zip_longest

import pandas as pd
import pytest
from click.testing import CliRunner
from two_turns import read_lines, write_lines

import pyterrier_ikat as ikat
from pyterrier_ikat.cli import main
from pyterrier_ikat.errors import DataError, UsageError, commands_advised
from pyterrier_ikat.operator import Operator
from pyterrier_ikat.runs import RunFolder
from pyterrier_ikat.submit import (
    check_predictions,
    predictions,
    read_predictions,
    write_predictions,
    write_reports,
)
from pyterrier_ikat.submit.submissions import read_ranking

pytestmark = pytest.mark.filterwarnings(
    "ignore::pyterrier_ikat.conversations.download.OtherDataWarning"
)
GOVT = "mt-rag-govt-elser-512-100-20240611"
SAID = ("Tea?", "Yes.", "Green?", "No.", "And that?")
TASKS = (("a<::>1", ("Tea?",)), ("a<::>2", SAID), ("b<::>1", ("Dogs?",)))
TEXTS = {f"{number}-0-9": f"Tea number {number} is a drink." for number in range(12)}


@pytest.fixture
def data(tmp_path, monkeypatch):
    """The subset of MTRAG in its published form, with three tasks and twelve passages."""
    monkeypatch.setenv("IKAT_DATA", str(tmp_path))
    for domain in ("clapnq", "cloud", "fiqa", "govt"):
        folder = tmp_path / "mtrag" / domain
        folder.mkdir(parents=True)
        (folder / f"{domain}_rewrite.jsonl").write_text("")
    tasks = []
    for qid, said in TASKS:
        messages = []
        for speaker, text in zip(cycle(["user", "agent"]), said):
            messages.append({"speaker": speaker, "text": text})
        task = {
            "task_id": qid,
            "Collection": GOVT,
            "input": messages,
            "targets": [{"speaker": "agent", "text": "Yes."}],
            "Answerability": ["ANSWERABLE"],
            "contexts": [{"document_id": "1-0-9"}],
        }
        tasks.append(task)
    documents = [{"document_id": docno, "text": text} for docno, text in TEXTS.items()]
    path = tmp_path / "mtrag" / "reference_subset_with_human_evaluations.json"
    path.write_text(json.dumps({"tasks": tasks, "documents": documents}))
    return ikat.dataset("mtrag:mini")


class Model:
    def generate(self, chats):
        return ["Green tea is." for _ in chats]


class Finds(Operator):
    """Finds all passages for every turn, the later ones worse; those of two neighbours tie."""

    schematic = {"label": "Finds"}

    def transform(self, inp):
        passages = pd.DataFrame(
            {
                "docno": list(TEXTS),
                "text": list(TEXTS.values()),
                "score": [6.0 - number // 2 for number in range(12)],
            }
        )
        return inp.merge(passages, how="cross").assign(rank=[*range(12)] * len(inp))


@pytest.fixture
def run(data, tmp_path):
    ikat.run({"tea": Finds() >> ikat.Respond(ikat.llm(Model()))}, data, out=tmp_path / "runs")
    return RunFolder(tmp_path / "runs" / "tea")


def write_turns(run, *turns):
    """Replace the lines of the run's turns."""
    write_lines(run.path / "turns.jsonl", turns)


def test_each_task_has_its_line_with_ten_passages_and_response(run, data, tmp_path):
    path = tmp_path / "rag.jsonl"
    assert write_predictions(run, data, path, run_type="rag") == []
    first, second, _ = read_lines(path)
    assert (first["task_id"], first["conversation_id"], first["turn"]) == ("a<::>1", "a", 1)
    assert first["Collection"] == GOVT
    assert [(said["speaker"], said["text"]) for said in second["input"]] == [
        ("user", "Tea?"),
        ("agent", "Yes."),
        ("user", "Green?"),
        ("agent", "No."),
        ("user", "And that?"),
    ]
    assert [one["document_id"] for one in first["contexts"]] == list(TEXTS)[:10]
    assert first["contexts"][3]["text"] == "Tea number 3 is a drink."
    scores = [one["score"] for one in first["contexts"]]
    assert scores == sorted(set(scores), reverse=True)  # ties are lowered
    assert first["predictions"] == [{"text": "Green tea is."}]


def test_retrieval_has_no_predictions_and_needs_no_responses(data, tmp_path):
    ikat.run({"plain": Finds()}, data, out=tmp_path / "runs")
    plain = RunFolder(tmp_path / "runs" / "plain")
    write_predictions(plain, data, tmp_path / "a.jsonl", run_type="retrieval")
    assert all("predictions" not in line for line in read_lines(tmp_path / "a.jsonl"))
    with pytest.raises(
        UsageError, match="plain has no responses: run a system that ends with Respond"
    ):
        write_predictions(plain, data, tmp_path / "b.jsonl", run_type="rag")


def test_what_is_written_is_read_back_and_evaluated_the_same(run, data, tmp_path):
    path = tmp_path / "rag.jsonl"
    write_predictions(run, data, path, run_type="rag")
    results, turns = read_predictions(path)
    assert turns.values.tolist() == [[qid, "Green tea is."] for qid, _ in TASKS]
    assert results[results["qid"] == "a<::>2"]["docno"].tolist() == list(TEXTS)[:10]
    assert read_ranking(path).equals(results)
    table = ikat.evaluation.evaluate([run, path], data.get_qrels(), ["nDCG@5"])
    assert table["nDCG@5"].nunique() == 1


def test_ids_of_the_scripts_samples_are_those_of_the_tasks(tmp_path):
    path = tmp_path / "theirs.jsonl"
    context = {"document_id": "x", "score": 2, "text": "t", "title": ""}
    task = {"task_id": "dd6b::2", "collection": "any", "contexts": [context], "targets": []}
    write_lines(path, [task])
    results, turns = read_predictions(path)
    ranking = results[["qid", "docno", "score", "rank"]]
    assert ranking.values.tolist() == [["dd6b<::>2", "x", 2.0, 0]]
    assert turns.values.tolist() == [["dd6b<::>2", ""]]


def broken(**changes):
    """A line with these changes; a field that becomes None goes."""
    line = {
        "task_id": "a<::>1",
        "Collection": GOVT,
        "input": [],
        "contexts": [{"document_id": "x", "score": 1.0}],
        "predictions": [{"text": "Yes."}],
    }
    line.update(changes)
    return {name: value for name, value in line.items() if value is not None}


def test_a_turn_in_both_forms_of_its_id_is_there_twice(tmp_path):
    lines = [json.dumps(broken(task_id=qid)) for qid in ("a::1", "a<::>1")]
    (tmp_path / "p.jsonl").write_text("\n".join(lines))
    with pytest.raises(DataError, match="a turn is there more than once: keep one of them"):
        read_predictions(tmp_path / "p.jsonl")


@pytest.mark.parametrize("lacking", ["task_id", "contexts"])
def test_lines_without_a_task_or_passages_are_no_predictions(tmp_path, lacking):
    (tmp_path / "p.jsonl").write_text(json.dumps(broken(**{lacking: None})))
    with pytest.raises(DataError, match="can't be read as a submission"):
        read_ranking(tmp_path / "p.jsonl")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"Collection": None}, "Collection: the field is missing"),
        ({"input": "Tea?"}, 'input: it is "Tea?": Input should be a valid list'),
        (
            {"contexts": [{"document_id": f"{n}", "score": -n} for n in range(11)]},
            "contexts: there are 11 passages: keep the first 10",
        ),
        ({"contexts": [{"document_id": "x"}]}, "contexts[0].score: the field is missing"),
        (
            {"contexts": [{"document_id": 1, "score": 1}]},
            "contexts[0].document_id: it is 1: Input should be a valid string",
        ),
        ({"contexts": ["x"]}, 'contexts[0]: it is "x": Input should be a valid dictionary'),
        ({"predictions": None}, "predictions: there is no prediction: write one"),
        ({"predictions": ["Yes."]}, "predictions[0]: it is"),
        # those that IBM's checker doesn't see
        ({"predictions": [{"text": " "}]}, "predictions[0].text: it is empty: write a response"),
        ({"predictions": []}, "predictions: there is no prediction: write one"),
        (
            {"contexts": [{"document_id": "x", "score": 1}, {"document_id": "x", "score": 0}]},
            "contexts: a passage is there twice: keep one",
        ),
        (
            {"contexts": [{"document_id": "x", "score": 0}, {"document_id": "y", "score": 1}]},
            "contexts: the scores rise",
        ),
        ({"Collection": "govt"}, f'Collection: write "Collection": "{GOVT}"'),
    ],
)
def test_each_error_is_named_with_its_turn_and_field(changes, said, data, tmp_path):
    path = tmp_path / "p.jsonl"
    rest = [broken(task_id=qid) for qid, _ in TASKS[1:]]
    write_lines(path, [broken(**changes), *rest])
    [problem] = [one for one in check_predictions(path, data, "rag") if one.severity == "error"]
    assert str(problem).startswith(f"error: turn a<::>1, {said}")


def test_bad_turns_are_errors_and_a_lack_of_passages_a_warning(data, tmp_path):
    path = tmp_path / "p.jsonl"
    made = [broken(contexts=[]), broken(), broken(task_id="b<::>1"), broken(task_id="c<::>1")]
    write_lines(path, made)
    assert sorted(map(str, check_predictions(path, data))) == [
        "error: turn a<::>1, task_id: the turn occurs more than once: keep one of them",
        "error: turn a<::>2: the turn is missing: add it",
        "error: turn c<::>1, task_id: mtrag:mini has no such turn: remove it",
        "warning: turn a<::>1, contexts: there is no passage",
    ]


def test_what_cannot_be_written_or_read_is_refused(run, data, tmp_path):
    with pytest.raises(
        UsageError, match="run type 'automatic' is none of MTRAG: give retrieval, generation, rag"
    ):
        write_predictions(run, data, tmp_path / "p.jsonl", run_type="automatic")
    with pytest.raises(
        UsageError, match=r"p.json: IBM's checker takes files whose names end in .jsonl"
    ):
        write_predictions(run, data, tmp_path / "p.json", run_type="rag")
    with pytest.raises(DataError, match=r"lacks turns of ikat:sample|has turns that aren't in"):
        write_predictions(run, ikat.dataset("ikat:sample"), tmp_path / "p.jsonl", run_type="rag")
    with pytest.raises(UsageError, match="ikat:sample is not a dataset of MTRAG"):
        check_predictions(tmp_path / "p.jsonl", ikat.dataset("ikat:sample"))
    write_lines(tmp_path / "twice.jsonl", [broken(), broken()])
    message = "can't be read as predictions, 1 error:\nerror: a turn is there more than once"
    with pytest.raises(DataError, match=message):
        read_predictions(tmp_path / "twice.jsonl")
    assert not list(tmp_path.glob("p.json*"))


def test_the_commands_write_and_check_them(run, data, tmp_path):
    path = str(tmp_path / "rag.jsonl")
    of_mtrag = ["--dataset", "mtrag:mini", "--run-type", "rag", "--out", path]
    done = CliRunner().invoke(main, ["submit", str(run.path), *of_mtrag])
    assert (done.exit_code, done.output) == (0, f"{path}\n")
    done = CliRunner().invoke(main, ["submit", "--check", path, "--dataset", "mtrag:mini"])
    assert (done.exit_code, done.output) == (0, f"{path}: 0 errors, 0 warnings\n")
    lines = read_lines(tmp_path / "rag.jsonl")
    for line in lines:
        del line["predictions"]
    write_lines(tmp_path / "none.jsonl", lines)
    check = ["submit", "--check", str(tmp_path / "none.jsonl"), "--dataset", "mtrag:mini"]
    assert CliRunner().invoke(main, check).exit_code == 0
    done = CliRunner().invoke(main, [*check, "--run-type", "rag"])
    assert done.exit_code == 1
    assert "there is no prediction: write one" in done.output
    done = CliRunner().invoke(main, [*check, "--run-type", "raq"])
    assert "run type 'raq' is none of MTRAG" in done.output
    of_ikat = ["--dataset", "ikat:2025", "--run-type", "automatic", "--out", path]
    refused = CliRunner().invoke(main, ["submit", str(run.path), *of_ikat])
    assert "a submission needs a name: give --run-id" in refused.output


def checked(tmp_path, data, run_type, *changes):
    """The problems of a file whose first lines have these changes."""
    lines = []
    for (qid, _), changed in zip_longest(TASKS, changes, fillvalue={}):
        lines.append(broken(task_id=qid, **changed))
    path = tmp_path / "p.jsonl"
    write_lines(path, lines)
    return check_predictions(path, data, run_type)


def test_ten_passages_of_equal_scores_are_no_problem(data, tmp_path):
    tied = [{"document_id": f"{number}", "score": 1} for number in range(10)]
    assert checked(tmp_path, data, "rag", {"contexts": tied}) == []


@pytest.mark.parametrize(
    ("run_type", "predictions", "errors"),
    [
        ("retrieval", None, 0),
        (None, None, 0),
        ("generation", None, 1),
        ("rag", None, 1),
        ("retrieval", [{"text": ""}], 1),  # what is there is checked
        (None, [{"text": ""}], 1),
        ("generation", [{"text": "Yes."}, {"text": ""}], 1),
        ("generation", [{"text": "Yes."}, {"text": "No."}], 0),
    ],
)
def test_which_run_types_need_predictions(data, tmp_path, run_type, predictions, errors):
    assert len(checked(tmp_path, data, run_type, {"predictions": predictions})) == errors


@pytest.fixture
def plain(data, tmp_path):
    """A run folder with a draft, a response and one passage for two of the three turns."""
    topics = data.get_topics()
    found = topics[:2].assign(docno="0-0-9", score=1.0, rank=0, used=True)
    found = found.assign(qanswer="Yes, a café.", qdraft="A draft.")
    folder = RunFolder(tmp_path / "plain")
    folder.write(topics, found, pd.DataFrame(), pd.DataFrame(), {})
    return folder


def test_a_turn_without_passages_and_response_has_its_line(plain, data, tmp_path):
    [problem] = write_predictions(plain, data, tmp_path / "a.jsonl", run_type="retrieval")
    assert str(problem) == "warning: turn b<::>1, contexts: there is no passage"
    assert [len(line["contexts"]) for line in read_lines(tmp_path / "a.jsonl")] == [1, 1, 0]
    with pytest.raises(DataError, match=r"turn b<::>1, predictions\[0\].text: it is empty"):
        write_predictions(plain, data, tmp_path / "b.jsonl", run_type="rag")
    first, second, third = read_lines(plain.path / "turns.jsonl")
    write_turns(plain, first, second, third | {"response": "No."})
    write_predictions(plain, data, tmp_path / "b.jsonl", run_type="rag")
    said = [line["predictions"][0]["text"] for line in read_lines(tmp_path / "b.jsonl")]
    assert said == ["Yes, a café."] * 2 + ["No."]
    assert "café" in (tmp_path / "b.jsonl").read_text(encoding="utf-8")


def test_predictions_need_the_turns_of_the_dataset(plain, data, tmp_path):
    turns = [{"qid": qid, "response": ""} for qid in ("a<::>1", "a<::>2", "b<::>1", "z", "y")]
    out = tmp_path / "out.jsonl"
    write_turns(plain, *turns[:3])
    with pytest.raises(UsageError, match="plain has no responses"):
        write_predictions(plain, data, out, run_type="rag")
    write_turns(plain, *turns[:2])
    with pytest.raises(DataError, match=r"plain lacks turns of mtrag:mini \(b<::>1, 1 in all\)"):
        write_predictions(plain, data, out, run_type="retrieval")
    write_turns(plain, *turns)
    foreign = r"plain has turns that aren't in mtrag:mini \(y, 2 in all\)"
    with pytest.raises(DataError, match=foreign):
        write_predictions(plain, data, out, run_type="retrieval")
    assert not out.exists()


def test_passages_whose_texts_are_in_an_index_have_none(plain, data, tmp_path, monkeypatch):
    def lacking(*arguments, **options):
        raise UsageError("the texts are in the index")

    monkeypatch.setattr(data, "text_loader", lacking)
    write_predictions(plain, data, tmp_path / "a.jsonl", run_type="retrieval")
    contexts = [line["contexts"] for line in read_lines(tmp_path / "a.jsonl")]
    assert contexts == [[{"document_id": "0-0-9", "score": 1.0}]] * 2 + [[]]


def test_scores_fall_and_texts_are_there_to_the_last_one(data, tmp_path):
    contexts = [
        {"document_id": "x", "score": 3},
        {"document_id": "y", "score": 1},
        {"document_id": "z", "score": 2},
    ]
    predictions = [{"text": "Yes."}, {"text": ""}]
    found = checked(tmp_path, data, "rag", {"contexts": contexts, "predictions": predictions})
    assert [problem.field for problem in found] == ["contexts", "predictions[1].text"]


def test_predictions_are_read_whole_or_not_at_all(tmp_path):
    write_lines(tmp_path / "p.jsonl", [broken(), broken(task_id="b<::>1", contexts=["x"])])
    with pytest.raises(DataError, match=r"can't be read as predictions, 1 error:\n.*contexts\[0\]"):
        read_predictions(tmp_path / "p.jsonl")


def test_a_file_beyond_the_checkers_size_is_an_error(data, tmp_path, monkeypatch):
    assert checked(tmp_path, data, "rag") == []
    assert predictions.MEGABYTES == 20
    size = (tmp_path / "p.jsonl").stat().st_size
    monkeypatch.setattr("pyterrier_ikat.submit.predictions.MEGABYTES", size / 2**20)
    assert checked(tmp_path, data, "rag") == []
    monkeypatch.setattr("pyterrier_ikat.submit.predictions.MEGABYTES", (size - 1) / 2**20)
    [problem] = checked(tmp_path, data, "rag")
    assert (problem.severity, problem.turn, problem.field) == ("error", "", "")


def test_predictions_are_read_by_their_scores(tmp_path):
    contexts = [{"document_id": "x", "score": 1}, {"document_id": "y", "score": 2.5}]
    lines = [
        broken(contexts=contexts, predictions=[{"text": "Yes."}, {"text": "No."}]),
        broken(task_id="b<::>1", contexts=[], predictions=[]),
    ]
    write_lines(tmp_path / "p.jsonl", lines)
    results, turns = read_predictions(tmp_path / "p.jsonl")
    assert results[["docno", "score", "rank"]].values.tolist() == [["y", 2.5, 0], ["x", 1.0, 1]]
    assert turns.values.tolist() == [["a<::>1", "Yes."], ["b<::>1", ""]]


def test_advice_on_predictions_is_for_python_or_for_commands(data, tmp_path):
    run = RunFolder(tmp_path / "silent")
    topics = data.get_topics()
    found = topics.assign(docno="1-0-9", score=1.0, rank=0)
    run.write(topics, found, pd.DataFrame(), pd.DataFrame(), {})

    def messages():
        with pytest.raises(UsageError) as silent:
            write_predictions(run, data, tmp_path / "out.jsonl", run_type="rag")
        with pytest.raises(UsageError) as without_team:
            write_reports(run, tmp_path / "out.jsonl", run_id="mine", team=None)
        with pytest.raises(UsageError) as without_name:
            write_reports(run, tmp_path / "out.jsonl", run_id="", team="t")
        return str(silent.value), str(without_team.value), str(without_name.value)

    without_responses = f"{run.path} has no responses: run a system that ends with Respond"
    instead = "or give the run type retrieval"
    nameless = "a report names run and team: give run_id=... and team=..."
    assert messages() == (
        f"{without_responses} (such as rtg, or any system >> ikat.Respond(llm)), {instead}",
        nameless,
        nameless,
    )
    nameless = "a report names run and team: give --run-id and --team"
    with commands_advised():
        assert messages() == (
            f"{without_responses} (such as `ikat run rtg ...`), {instead}",
            nameless,
            nameless,
        )
    assert not (tmp_path / "out.jsonl").exists()
