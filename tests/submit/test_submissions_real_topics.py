"""Submissions of whole years: with the track's topics and passages."""

import json
import shutil
from functools import cache

import numpy as np
import pandas as pd
import pytest
import pytrec_eval
import two_turns

import pyterrier_ikat as ikat
from pyterrier_ikat.errors import DataError, UsageError
from pyterrier_ikat.evaluation import evaluate
from pyterrier_ikat.runs import RunFolder, write_run
from pyterrier_ikat.submit import (
    RefusedError,
    ResponseCutWarning,
    read_submission,
    validate,
    write_submission,
)

RANKED = 12
HEADER = {2023: {}, 2024: {}, 2025: {"team": "team1"}}


@pytest.fixture
def passages(ikat_data):
    return _passage_ids(ikat_data / "2023_test_topics_psg_text.jsonl")


@cache
def _passage_ids(path):
    return [f"{row['doc_id']}:{row['passage_id']}" for row in two_turns.read_lines(path)]


def few(year):
    """The first conversation of a year: all formats and refusals are those of the whole year."""
    data = ikat.dataset(f"ikat:{year}")
    data.conversations = data.conversations[:1]
    return data


def made_up(dataset, passages, ranked=RANKED):
    """A ranking, responses and statements that depend on the turn alone.

    Their scores are exactly representable.
    """
    topics = dataset.get_topics()
    rows = []
    statements = []
    for turn, (qid, ptkb) in enumerate(zip(topics["qid"], topics["qptkb"], strict=True)):
        for rank in range(ranked):
            docno = passages[(37 * turn + rank) % len(passages)]
            rows.append((qid, docno, 40.0 - rank / 4, rank, rank < 3))
        first = turn % len(ptkb)
        names = list(ptkb)[first : first + 2]
        statements.append(list(zip(names, (2.0, 1.0), strict=False)))
    results = pd.DataFrame(rows, columns=["qid", "docno", "score", "rank", "used"])
    turns = topics[["qid"]].assign(qstatements=statements)
    turns["qanswer"] = "Respond to " + turns["qid"] + ". Ünïcode, too."
    return results, turns


def chosen_ids(turns):
    """The ids of each turn's statements."""
    chosen = []
    for statements in turns["qstatements"]:
        chosen.append([statement_id for statement_id, _ in statements])
    return chosen


@pytest.mark.parametrize(("year", "count"), [(2023, 332), (2024, 218), (2025, 188)])
def test_a_full_submission_is_written_valid_and_read_back_equal(tmp_path, passages, year, count):
    data = ikat.dataset(f"ikat:{year}")
    results, turns = made_up(data, passages)
    path = tmp_path / "run"
    warnings = write(data, path, (results, turns), run_id="made-up")
    assert warnings == validate(path, data) == []
    read = read_submission(path, data)
    assert (read.year, read.run_id, read.run_type) == (year, "made-up", "automatic")
    assert read.team == HEADER[year].get("team")
    assert read.results.values.tolist() == results.values.tolist()
    assert read.turns["qid"].tolist() == turns["qid"].tolist()
    assert len(read.turns) == count
    assert read.turns["qanswer"].tolist() == turns["qanswer"].tolist()
    assert chosen_ids(read.turns) == chosen_ids(turns)
    if year == 2023:
        assert read.turns["qstatements"].tolist() == turns["qstatements"].tolist()
    again = tmp_path / "again"
    write(data, again, (read.results, read.turns), run_id="made-up")
    responses = [line.get("responses") for line in rows(path)]
    assert [line.get("responses") for line in rows(again)] == responses


def run_of(path, results, turns):
    """A run folder with this ranking and what was written for each turn."""
    made = RunFolder(path)
    made.write(turns, results.merge(turns), pd.DataFrame(), pd.DataFrame(), {})
    return made


def write(data, path, run, **header):
    """Write a submission of a run folder, or of made-up frames."""
    if not isinstance(run, RunFolder):
        shutil.rmtree(path.with_suffix(".made"), ignore_errors=True)
        run = run_of(path.with_suffix(".made"), *run)
    header = {"run_id": "x", "run_type": "automatic", **HEADER[data.year], **header}
    return write_submission(run, data, path, **header)


def rows(path):
    text = path.read_text()
    if "\n]}" in text:
        return json.loads(text)["turns"]
    return two_turns.read_lines(path)


def test_the_formats_to_the_letter(tmp_path, passages):
    for year in (2023, 2024, 2025):
        data = few(year)
        results, turns = made_up(data, passages, ranked=4)
        write(data, tmp_path / str(year), (results, turns))
    first = rows(tmp_path / "2023")[0]
    persona = few(2023).get_topics()["qptkb"][0]
    assert first == {
        "turn_id": "9-1_1",
        "responses": [
            {
                "rank": 1,
                "text": "Respond to 9-1_1. Ünïcode, too.",
                "ptkb_provenance": [
                    {"id": "1", "text": persona["1"], "score": 2.0},
                    {"id": "2", "text": persona["2"], "score": 1.0},
                ],
                "passage_provenance": [
                    {"id": passages[0], "text": "", "score": 40.0, "used": True},
                    {"id": passages[1], "text": "", "score": 39.75, "used": True},
                    {"id": passages[2], "text": "", "score": 39.5, "used": True},
                    {"id": passages[3], "text": "", "score": 39.25, "used": False},
                ],
            }
        ],
    }
    whole = json.loads((tmp_path / "2024").read_text())
    assert {name: whole[name] for name in whole if name != "turns"} == {
        "run_name": "x",
        "run_type": "automatic",
        "eval_response": True,
    }
    assert whole["turns"][0]["turn_id"] == "0_1"
    assert whole["turns"][0]["responses"][0]["ptkb_provenance"] == [1, 2]
    persona = few(2025).get_topics()["qptkb"][0]
    cited = {passages[0]: 40.0, passages[1]: 39.75, passages[2]: 39.5}
    assert rows(tmp_path / "2025")[0] == {
        "metadata": {"team_id": "team1", "run_id": "x", "run_type": "automatic"},
        "turn_id": "1-1_1",
        "responses": [
            {
                "rank": 1,
                "text": "Respond to 1-1_1. Ünïcode, too.",
                "citations": cited,
                "ptkb_provenance": [persona["1"], persona["2"]],
            }
        ],
        "references": {**cited, passages[3]: 39.25},
    }


def test_scores_stay_apart_in_every_tool_that_reads_them(tmp_path, passages):
    data = few(2025)
    results, turns = made_up(data, passages)
    results["score"] = 1 / (1200 + results["rank"])  # some are equal with six decimals
    assert (1 / 1200 - 1 / 1201) < 1e-6
    assert write(data, tmp_path / "run", (results, turns)) == []
    for line in rows(tmp_path / "run")[:5]:
        scores = np.array(list(line["references"].values()))
        printed = scores.round(6)
        assert (printed[:-1] > printed[1:]).all()
        assert scores.tolist() == scores.astype(np.float32).tolist()
    read = read_submission(tmp_path / "run")
    assert read.results["docno"].tolist() == results["docno"].tolist()


def folder(tmp_path, data, passages, **columns):
    """A run folder of the made-up frames; a column that is None goes."""
    results, turns = made_up(data, passages)
    results["qanswer"] = results["qid"].map(turns.set_index("qid")["qanswer"])
    results = results.assign(**columns).dropna(axis="columns")
    made = RunFolder(tmp_path / "aqd")
    made.write(data.get_topics(), results, pd.DataFrame(), pd.DataFrame(), {"method": "aqd"})
    return made


def test_a_run_folder_is_handed_in(tmp_path, passages):
    data = few(2024)
    made = folder(tmp_path, data, passages)
    first = made.turns()[0]
    assert first["used"] == passages[:3]
    assert first["response"] == "Respond to 0_1. Ünïcode, too."
    found = write(data, tmp_path / "run", made)
    assert {(problem.severity, problem.field) for problem in found} == {
        ("warning", "responses[0].ptkb_provenance")
    }
    read = read_submission(tmp_path / "run")
    pd.testing.assert_frame_equal(
        read.results.drop(columns="used"), made.results(), check_dtype=False
    )
    assert read.results["used"].tolist() == [rank < 3 for rank in read.results["rank"]]


def test_run_of_another_dataset_with_equal_turn_names_is_refused(tmp_path, passages):
    data = few(2024)
    made = folder(tmp_path, data, passages)
    about = made.path / "turns.jsonl"
    about.write_text(about.read_text().replace('"0_1"', '"0_1", "qutterance": "Short?"', 1))
    message = r"aqd asks 'Short\?' in turn 0_1, ikat:2024 .* Egypt.*: give the dataset that the run"
    with pytest.raises(UsageError, match=message):
        write(data, tmp_path / "run", made)


def test_a_folder_without_responses(tmp_path, passages):
    data = few(2024)
    made = folder(tmp_path, data, passages, used=None)
    for turn in made.turns():
        assert not {"response", "used"} & set(turn)
    with pytest.raises(UsageError, match="has no responses: run a system that ends with Respond"):
        write(data, tmp_path / "run", made)


def test_statements_keep_their_order_where_scores_do_not_fall(tmp_path, passages):
    data = few(2023)
    results, turns = made_up(data, passages, 1)
    chosen = [("2", 1.0), ("1", 1.0), ("4", 3.0), ("3", 0.5)]
    turns["qstatements"] = [chosen if qid.startswith("9-1_") else [] for qid in turns["qid"]]
    write(data, tmp_path / "run", (results, turns))
    step = 2.0**-24  # from 1 to the next smaller 32-bit float
    assert read_submission(tmp_path / "run").turns["qstatements"][0] == [
        ("2", 1.0),
        ("1", 1 - step),
        ("4", 1 - 2 * step),
        ("3", 0.5),
    ]


def test_a_turn_without_passages_has_no_response(tmp_path, passages):
    data = few(2024)
    results, turns = made_up(data, passages, 2)
    results = results[~results["qid"].isin(["0_2", "0_4"])]
    results = results.assign(qanswer="As the passages say.")
    made = RunFolder(tmp_path / "run")
    made.write(data.get_topics(), results, pd.DataFrame(), pd.DataFrame(), {})
    with pytest.raises(RefusedError) as caught:
        write(data, tmp_path / "out", made)
    errors = [problem for problem in caught.value.problems if problem.severity == "error"]
    assert [problem.turn for problem in errors] == ["0_2", "0_4"]
    lines = made.turns()
    for line in lines:
        line.setdefault("response", "I found nothing about that.")
    two_turns.write_lines(made.path / "turns.jsonl", lines)
    found = write(data, tmp_path / "out", made)
    without = [problem for problem in found if "there is no passage" in problem.message]
    assert {problem.turn for problem in without} == {"0_2", "0_4"}
    assert rows(tmp_path / "out")[1]["responses"][0]["text"] == "I found nothing about that."


class Says:
    """A model that says one thing."""

    def __init__(self, words):
        self.words = words

    def generate(self, chats):
        return [self.words] * len(chats)


@pytest.fixture(scope="module")
def drafted(tmp_path_factory):
    """The turns with a draft of the answer, and the ranking with the response."""
    data = ikat.dataset("ikat:sample")
    path = tmp_path_factory.mktemp("sample") / "index"
    index = ikat.PassageIndex(path).index(data.get_corpus_iter(verbose=False))
    draft = ikat.Answer(ikat.llm(Says("the heath walk, as a draft")))
    respond = ikat.Respond(ikat.llm(Says("the response")))
    topics = data.get_topics()
    return draft(topics), (draft >> index.bm25() % 5 >> respond)(topics)


def test_the_response_is_handed_in_and_not_the_draft(tmp_path, drafted):
    turns, results = drafted
    data = ikat.dataset("ikat:sample")
    made = RunFolder(tmp_path / "folder")
    made.write(turns, results, pd.DataFrame(), pd.DataFrame(), {})
    assert {turn["qanswer"] for turn in made.turns()} == {"the heath walk, as a draft"}
    write(data, tmp_path / "run", made)
    assert set(read_submission(tmp_path / "run", data).turns["qanswer"]) == {"the response"}


def test_only_passages_that_are_marked_are_handed_in_as_used(tmp_path, passages):
    data = few(2023)
    results, turns = made_up(data, passages, 3)
    results["used"] = results["rank"].map({0: 1.0, 1: None, 2: 0.0})
    write(data, tmp_path / "run", (results, turns))
    used = read_submission(tmp_path / "run").results["used"]
    assert used.tolist() == [True, False, False] * len(turns)


def test_a_folder_of_a_manual_run_is_not_automatic(tmp_path, passages):
    data = few(2024)
    made = folder(tmp_path, data, passages, qresolved="rewritten by hand")
    with pytest.raises(UsageError, match="made with manual rewrites"):
        write(data, tmp_path / "run", made)
    write_submission(made, data, tmp_path / "run", run_id="x", run_type="manual")


def test_long_responses_are_cut_at_a_sentence_with_a_warning(tmp_path, passages):
    data = few(2025)
    results, turns = made_up(data, passages, ranked=3)
    turns.loc[4, "qanswer"] = "Oats are cheap here. " * 63  # 252 words
    with pytest.warns(
        ResponseCutWarning, match=f"1 response of more than 250 words cut .*: {turns['qid'][4]}$"
    ):
        write(data, tmp_path / "run", (results, turns))
    [response] = rows(tmp_path / "run")[4]["responses"]
    assert response["text"] == ("Oats are cheap here. " * 62).strip()


def test_where_nothing_can_be_written(tmp_path, passages):
    data = few(2024)
    (tmp_path / "file").write_text("mine")
    made = run_of(tmp_path / "made", *made_up(data, passages, 1))
    for path, message in (
        (tmp_path, "is a folder: give the path of the file"),
        (tmp_path / "file" / "run", "can't be written"),
    ):
        with pytest.raises(UsageError, match=message):
            write(data, path, made)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "made"]


def by_turn(frame, name):
    """Turn -> passage -> its value in this column."""
    values = {}
    for qid, docno, value in zip(frame["qid"], frame["docno"], frame[name], strict=True):
        values.setdefault(qid, {})[docno] = value
    return values


@pytest.mark.parametrize("year", [2023, 2024, 2025])
def test_what_is_read_back_is_evaluated_like_the_run(tmp_path, passages, year):
    """The run in memory, the run file, the folder and the submission have pytrec_eval's scores."""
    data = ikat.dataset(f"ikat:{year}")
    results, turns = made_up(data, passages, 12)
    # close together: parted before they are written
    results["score"] = 1 / (60 + results["rank"]) ** 2
    chosen = results[["qid", "docno"]].sample(400, random_state=1)
    qrels = pd.concat([data.get_qrels("provenance"), chosen.assign(label=1)])
    qrels = qrels.drop_duplicates(["qid", "docno"], ignore_index=True)
    write(data, tmp_path / "run", (results, turns))
    read = read_submission(tmp_path / "run", data).results
    write_run(read, tmp_path / "read.trec")
    runs = {
        "run": results,
        "read": read,
        "submission": tmp_path / "run",
        "file": tmp_path / "read.trec",
    }
    figures = evaluate(runs, qrels)
    assert len(figures.iloc[:, 1:].drop_duplicates()) == 1
    judged = by_turn(qrels, "label")
    ranked = by_turn(read, "score")
    theirs = pytrec_eval.RelevanceEvaluator(judged, {"ndcg_cut.5", "map"}).evaluate(ranked)
    for ours, name in (("nDCG@5", "ndcg_cut_5"), ("AP(rel=1)", "map")):
        mean = sum(theirs.get(qid, {}).get(name, 0.0) for qid in judged) / len(judged)
        assert figures[ours][1] == pytest.approx(mean, abs=1e-9)
        assert mean > 0


def with_other_turn_ids(results, turns):
    results["qid"] = results["qid"].str.replace("_", "-")
    turns["qid"] = turns["qid"].str.replace("_", "-")
    return results, turns


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (
            lambda results, turns: (results.drop(columns="used"), turns),
            UsageError,
            "has no responses: run a system that ends",
        ),
        (
            lambda results, turns: (results[results["rank"] > 2], turns),
            RefusedError,
            "no passage is marked as used",
        ),
        (
            lambda results, turns: (results, turns.iloc[1:]),
            RefusedError,
            r"turn 0_1, responses\[0\].text: the response is empty",
        ),
        (with_other_turn_ids, DataError, "12 turns .*0-1, .* like 0_1"),
        (
            lambda results, turns: (results, turns.assign(qstatements=[[("99", 1)]] * len(turns))),
            RefusedError,
            'no statement "99"',
        ),
        (
            lambda results, turns: (results, turns.assign(qstatements=[[("x", 1)]] * len(turns))),
            RefusedError,
            "a whole number",
        ),
    ],
)
def test_the_writer_refuses_and_leaves_the_old_file(tmp_path, passages, change, error, message):
    data = few(2024)
    (tmp_path / "run").write_text("old")
    with pytest.raises(error, match=message):
        write(data, tmp_path / "run", change(*made_up(data, passages, 4)))
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["run"]
    assert (tmp_path / "run").read_text() == "old"


@pytest.mark.parametrize(
    ("year", "header", "message"),
    [
        (
            2024,
            {"run_type": "generation-only"},
            "'generation-only' is none of 2024: give automatic or manual or only_response",
        ),
        (2025, {"run_type": "automatic"}, "names the team"),
        (2023, {"run_type": "automatic", "team": "t"}, "asks for no team"),
    ],
)
def test_the_header_is_checked_first(tmp_path, passages, year, header, message):
    data = few(year)
    made = run_of(tmp_path / "made", *made_up(data, passages, 1))
    with pytest.raises(UsageError, match=message):
        write_submission(made, data, tmp_path / "run", run_id="x", **header)


def test_new_2025_statements_are_submitted_unknown_ids_refused(tmp_path, passages):
    data = few(2025)
    results, turns = made_up(data, passages, 2)

    def choosing(*statements, **columns):
        return results, turns.assign(qstatements=[list(statements)] * len(turns), **columns)

    with pytest.raises(DataError, match="turn 1-1_1: the user has no statement 99"):
        write(data, tmp_path / "run", choosing(("99", 1)))
    found = write(data, tmp_path / "run", choosing(("I ski.", 1)))
    assert {problem.severity for problem in found} == {"warning"}
    assert read_submission(tmp_path / "run", data).turns["qstatements"][0] == [("I ski.", 1.0)]
    learned = [{"1": "not shown", "99": "I ski."}] * len(turns)
    write(data, tmp_path / "run", choosing(("99", 1.0), ("1", 0.5), qptkb=learned))
    # an order, and no scores
    statements = read_submission(tmp_path / "run", data).turns["qstatements"][0]
    assert statements == [("I ski.", 2.0), ("1", 1.0)]


@pytest.mark.parametrize("year", [2023, 2024, 2025])
def test_every_statement_of_many_is_in_run_folder_and_submission(tmp_path, year):
    ids = [str(number) for number in range(1, 31)]
    data = two_turns.Data(year, ptkb={name: f"I like dish {name}." for name in ids})
    statements = [(name, 1.0) for name in ids]
    turns = data.get_topics().assign(qstatements=[statements, statements], qanswer="Rice.")
    found = turns.assign(docno=two_turns.IDS[0], score=1.0, rank=0, used=True)
    RunFolder(tmp_path / "mine").write(turns, found, pd.DataFrame(), pd.DataFrame(), {})
    write(data, tmp_path / "run", RunFolder(tmp_path / "mine"))
    for stored in (
        pd.DataFrame(RunFolder(tmp_path / "mine").turns()),
        read_submission(tmp_path / "run", data).turns,
    ):
        assert chosen_ids(stored) == [ids, ids]
