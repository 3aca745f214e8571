"""Run folders: what they hold, when they are used again, and files that are damaged or missing."""

import gzip
import json
import shutil

import numpy as np
import pandas as pd
import pytest
from fakes import scripted
from runs.small_folders import finished, ranked

import pyterrier_ikat as ikat
from pyterrier_ikat.errors import DataError, UsageError
from pyterrier_ikat.runs import Log, RunFolder
from pyterrier_ikat.runs.folder import (
    OtherVersionsWarning,
    read_stages,
    versions,
    write_parameters,
)


@pytest.fixture
def written(tmp_path):
    topics = pd.DataFrame(
        {
            "qid": ["1_1", "1_2"],
            "query": ["x", "y"],
            "qutterance": ["x", "y"],
            "qptkb": [{"1": "I am vegan"}, {}],
        }
    )
    found = ranked(("1_1", "a", 2.0, 0)).assign(
        qutterance="x", qsubqueries=[["x1", "x2"]], qptkb=[{"1": "I am vegan"}], text="long text"
    )
    folder = RunFolder(tmp_path / "aqd")
    folder.write(
        topics,
        found,
        pd.DataFrame({"qid": ["1_1"], "nDCG@5": [1.0]}),
        pd.DataFrame({"stage": ["answer"]}),
        {"method": "aqd", "turns": 2},
    )
    return folder


def test_a_run_folder_holds_everything(written):
    assert sorted(path.name for path in written.path.iterdir()) == [
        "ledger.csv",
        "measures.csv",
        "run.json",
        "run.trec",
        "turns.jsonl",
    ]
    assert written.results().values.tolist() == [["1_1", "a", 2.0, 0]]
    lines = (written.path / "turns.jsonl").read_text().splitlines()
    assert list(map(json.loads, lines)) == [
        {
            "qid": "1_1",
            "qutterance": "x",
            "qptkb": {"1": "I am vegan"},
            "qsubqueries": ["x1", "x2"],
            "passages": 1,
        },
        {"qid": "1_2", "qutterance": "y", "qptkb": {}, "passages": 0},
    ]
    assert (written.path / "measures.csv").read_text() == "qid,nDCG@5\n1_1,1.0\n"
    assert (written.path / "ledger.csv").read_text() == "stage\nanswer\n"
    assert written.parameters()["versions"]["pyterrier"]
    assert written.turns_so_far() == ["1_1", "1_2"]


def write(path, topics, found):
    folder = RunFolder(path)
    folder.write(topics, found, pd.DataFrame(), pd.DataFrame(), {})
    return folder


def test_turn_keeps_response_and_its_passages_best_first(tmp_path):
    found = ranked(("1_1", "a", 3.0, 0), ("1_1", "b", 2.0, 1), ("1_1", "c", 1.0, 2))
    found = found.assign(qanswer="Yes.", used=[True, False, True])
    topics = pd.DataFrame({"qid": ["1_1", "1_2"]})
    folder = write(tmp_path / "aqd", topics, found.iloc[::-1])
    assert folder.turns() == [
        {"qid": "1_1", "response": "Yes.", "used": ["a", "c"], "passages": 3},
        {"qid": "1_2", "passages": 0},
    ]


def test_categories_are_texts(tmp_path):
    found = ranked(("1_2", "a", 1.0, 0)).assign(qanswer="Yes.", used=True)
    topics = pd.DataFrame({"qid": ["1_1", "1_2"]})
    plain = write(tmp_path / "plain", topics, found)
    categories = write(
        tmp_path / "categories",
        topics.astype("category"),
        found.astype({"qid": "category", "docno": "category"}),
    )
    assert categories.turns() == plain.turns()
    assert categories.results().equals(plain.results())


@pytest.mark.parametrize(
    ("qids", "message"),
    [
        (
            ["1_1"],
            r"the results have 2 turns that the topics lack \(1_2, 1_3\), whose responses would be "
            "lost: give all topics",
        ),
        (["1_1", "1_2", "1_3", "1_2"], "turn 1_2 has several rows"),
    ],
)
def test_topics_that_are_not_those_of_the_results_leave_nothing(tmp_path, qids, message):
    found = ranked(("1_1", "a", 1.0, 0), ("1_2", "a", 1.0, 0), ("1_3", "a", 1.0, 0))
    with pytest.raises(DataError, match=message):
        write(tmp_path / "aqd", pd.DataFrame({"qid": qids}), found)
    assert list(tmp_path.iterdir()) == []


def test_run_may_go_into_an_empty_folder_or_a_missing_parent(tmp_path):
    (tmp_path / "empty").mkdir()
    for path in (tmp_path / "empty", tmp_path / "new" / "deep"):
        assert RunFolder(path).reusable({}) is False
        folder = write(path, pd.DataFrame({"qid": ["1_1"]}), ranked(("1_1", "a", 2.0, 0)))
        assert folder.results().values.tolist() == [["1_1", "a", 2.0, 0]]
        assert [one.name for one in path.parent.iterdir()] == [path.name]


def test_a_finished_run_that_found_nothing_has_an_empty_ranking(tmp_path):
    nothing = ranked().astype({"qid": object, "docno": object, "score": float, "rank": int})
    found = write(tmp_path / "aqd", pd.DataFrame({"qid": ["1_1"]}), nothing).results()
    assert found.dtypes.astype(str).to_dict() == {
        "qid": "object",
        "docno": "object",
        "score": "float64",
        "rank": "int64",
    }
    assert len(found) == 0


def test_ties_in_a_written_frame_are_parted(tmp_path):
    tied = ranked(("1_1", "b", 1.0, 1), ("1_1", "a", 1.0, 0))
    folder = finished(tmp_path / "aqd", tied)
    scores = folder.results()
    assert scores["docno"].tolist() == ["a", "b"]
    lower = float(np.nextafter(np.float32(1), np.float32(0)))
    assert np.float32(scores["score"].iloc[1]) == np.float32(lower)


def test_scores_are_read_as_they_were_written(tmp_path):
    score = 0.1 + 0.2
    scores = pd.DataFrame({"qid": ["007", "8"], "P@5": [score, 1.0]})
    read = finished(tmp_path / "aqd", measures=scores).measures()
    assert read["P@5"].to_dict() == {"007": score, "8": 1.0}


def test_a_run_without_a_method_has_the_name_of_its_folder(tmp_path):
    folder = finished(tmp_path / "v1.2")
    assert (folder.path / "run.trec").read_text() == "1_1 Q0 a 1 1 v1.2\n"
    assert folder.partial == tmp_path / "v1.2.partial"
    assert RunFolder(tmp_path / "v1.2.partial").partial == tmp_path / "v1.2.partial"


def test_a_finished_run_has_all_its_turns_and_passages(tmp_path):
    folder = finished(tmp_path / "aqd", method="aqd")
    assert folder.turns_so_far() == ["1_1"]
    assert folder.results_so_far().values.tolist() == [["1_1", "a", 1.0, 0]]
    assert (folder.begun, folder.complete) == (False, True)


def test_the_ledgers_rows_are_counted(tmp_path):
    folder = RunFolder(tmp_path / "aqd")
    nothing = pd.DataFrame({"qid": ["1_1"], "docno": ["a"], "score": [1.0], "rank": [0]})
    ledger = pd.DataFrame({"stage": ["answer", "rewrite"]})
    folder.write(pd.DataFrame({"qid": ["1_1"]}), nothing, pd.DataFrame(), ledger, {"method": "x"})
    about = folder.parameters()
    assert (about["ledger_rows"], about["method"]) == (2, "x")
    assert {"python", "pyterrier", "pandas"} <= set(about["versions"])


def test_what_a_kill_left_of_a_run_comes_into_no_later_one(tmp_path):
    hidden = tmp_path / ".aqd.tmp"
    hidden.mkdir()
    (hidden / "rest.txt").write_text("of a killed process")
    assert not (finished(tmp_path / "aqd").path / "rest.txt").exists()
    assert not hidden.exists()


# Used again


def test_a_finished_run_is_reused_only_when_it_is_the_same(written):
    assert written.reusable({"method": "aqd", "turns": 2})
    with pytest.raises(
        UsageError, match=r"holds a run with different turns \(2, now 3\): choose another out=..."
    ):
        written.reusable({"method": "aqd", "turns": 3})


def test_a_run_without_failures_is_reused_with_a_fallback_only(tmp_path):
    """With a fallback it would be the same; one with fallbacks would have stopped without."""
    folder = RunFolder(tmp_path / "aqd")
    topics = pd.DataFrame({"qid": ["1_1"]})
    found = ranked(("1_1", "a", 2.0, 0))
    for kept, wanted, is_same in [
        ("raise", "fallback", True),
        ("raise", "raise", True),
        ("fallback", "fallback", True),
        ("fallback", "raise", False),
    ]:
        shutil.rmtree(folder.path, ignore_errors=True)
        parameters = {"method": "aqd", "on_error": {"llm": kept, "other": "raise"}}
        folder.write(topics, found, pd.DataFrame({"qid": ["1_1"]}), pd.DataFrame(), parameters)
        asked = {"on_error": {"llm": wanted, "other": "raise"}}
        if is_same:
            assert folder.reusable(asked)
        else:
            with pytest.raises(UsageError, match="holds a run with different on_error"):
                folder.reusable(asked)


def test_finished_run_of_other_versions_is_reused_with_warning(written, monkeypatch):
    installed = versions()
    monkeypatch.setattr("pyterrier_ikat.runs.folder.versions", lambda: installed | {"torch": "9.9"})
    with pytest.warns(
        OtherVersionsWarning,
        match=r"aqd is reused\. .* different versions .*now {'torch': '9.9'}.*remove it to repeat "
        "the run",
    ):
        assert written.reusable({"method": "aqd", "turns": 2})


@pytest.mark.parametrize("foreign", ["aqd", "aqd/notes.txt"])
def test_foreign_files_are_not_overwritten(tmp_path, foreign):
    (tmp_path / foreign).parent.mkdir(exist_ok=True)
    (tmp_path / foreign).write_text("mine")
    with pytest.raises(UsageError, match="holds no finished run"):
        RunFolder(tmp_path / "aqd").reusable({})


def test_a_link_to_nothing_is_not_overwritten(tmp_path):
    (tmp_path / "aqd").symlink_to(tmp_path / "gone")
    with pytest.raises(UsageError, match="is not empty and holds no finished run"):
        RunFolder(tmp_path / "aqd").reusable({})


def test_a_run_whose_ranking_was_changed_is_not_reused(tmp_path):
    folder = finished(tmp_path / "aqd", method="aqd")
    (folder.path / "run.trec").write_text("1_1 Q0 b 1 1 aqd\n")
    with pytest.raises(DataError, match="not the file that this run wrote"):
        folder.reusable({"method": "aqd"})
    (folder.path / "run.trec").unlink()
    with pytest.raises(DataError, match="not the file that this run wrote"):
        folder.ranking()


# Damaged and missing files


def test_scores_that_were_changed_are_refused(written):
    assert written.measures()["nDCG@5"].to_dict() == {"1_1": 1.0}
    (written.path / "measures.csv").write_text("qid,nDCG@5\n1_1,0.5\n")
    with pytest.raises(DataError, match="not the file that this run wrote"):
        written.measures()


@pytest.fixture
def scored(tmp_path):
    """A function that runs a system again, and the folder of its run."""
    passages = [{"docno": "d1", "text": "Tea."}, {"docno": "d2", "text": "Soil."}]
    bm25 = ikat.PassageIndex(tmp_path / "index").index(passages).bm25()
    turns = pd.DataFrame({"qid": ["1_1"], "query": ["tea?"]})
    qrels = pd.DataFrame({"qid": ["1_1"], "docno": ["d1"], "label": [1]})

    def again():
        stage = ikat.Rewrite(scripted("Tea?")[0])
        return ikat.run(
            {"a": stage >> bm25},
            topics=turns,
            qrels=qrels,
            measures=["nDCG@3"],
            out=tmp_path / "runs",
        )

    again()
    return again, ikat.runs.RunFolder(tmp_path / "runs" / "a")


@pytest.mark.filterwarnings("ignore::pyterrier_ikat.study.in_folders.AlikeWarning")
@pytest.mark.parametrize("content", [None, "", "qid,nDCG@3\n"])
def test_removed_or_cut_scores_are_told_and_written_again(scored, content):
    again, folder = scored
    path = folder.path / "measures.csv"
    before = folder.measures()
    if content is None:
        path.unlink()
    else:
        path.write_text(content)
    with pytest.raises(
        ikat.DataError, match=r"measures.csv can't be read .*the same `ikat run` writes it again"
    ):
        folder.measures()
    again()
    assert folder.measures().equals(before)


@pytest.mark.parametrize("lines", [0, 1])
def test_a_ledger_that_was_cut_is_not_taken_for_a_free_run(scored, lines):
    _, folder = scored
    path = folder.path / "ledger.csv"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:lines]))
    with pytest.raises(
        ikat.DataError, match=r"ledger.csv can't be read .*what the run has cost is unknown"
    ):
        ikat.show.ledger([folder.path])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"qid": "1_1"}\n{"qid": "1_', r"turns.jsonl, line 2: not JSON .*: repeat the run"),
        ('{"qid": "1_1"}\n[1]', "turn 2: no object with a qid"),
        ('{"qid": 1}', "turn 1: no object"),
        (b"\xff", "turns.jsonl, line 1: not JSON"),
    ],
)
def test_turns_that_cannot_be_read_name_the_line(written, text, message):
    (written.path / "turns.jsonl").write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(DataError, match=message):
        written.turns()


def test_line_separators_inside_a_text_are_no_line_ends(written):
    (written.path / "turns.jsonl").write_text(
        '{"qid": "1_1", "response": "one\u2028two\x85three"}\n{"qid": "1_2"}\n', encoding="utf-8"
    )
    assert written.turns() == [{"qid": "1_1", "response": "one\u2028two\x85three"}, {"qid": "1_2"}]


@pytest.mark.parametrize("text", ["", "[1]", "{"])
def test_folder_with_unreadable_parameters_is_no_finished_run(written, text):
    (written.path / "run.json").write_text(text)
    with pytest.raises(DataError, match="is not a finished run"):
        written.reusable({"method": "aqd"})


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("aqd", "aqd is not a finished run: give a folder made by `ikat run`"),
        (
            "aqd.partial",
            "aqd.partial is not a finished run. It was stopped: start it again with the same "
            "command, or omit it",
        ),
    ],
)
@pytest.mark.parametrize("read", [RunFolder.parameters, RunFolder.results, RunFolder.turns])
def test_a_folder_without_a_finished_run_says_what_to_give(tmp_path, name, told, read):
    (tmp_path / name).mkdir()
    with pytest.raises(DataError, match=f"{told}$"):
        read(RunFolder(tmp_path / name))


@pytest.mark.parametrize("left", [0, 1, 2, 5])
def test_a_ranking_that_lost_lines_is_refused(tmp_path, left):
    found = ranked(
        ("1_1", "a", 0.0, 0),
        ("1_1", "b", -1.0, 1),
        ("1_1", "c", -2.0, 2),
        ("1_2", "a", 0.0, 0),
        ("1_2", "b", -1.0, 1),
        ("1_2", "c", -2.0, 2),
    )
    folder = write(tmp_path / "aqd", pd.DataFrame({"qid": ["1_1", "1_2", "1_3"]}), found)
    assert len(folder.results()) == 6
    lines = (folder.path / "run.trec").read_text().splitlines(keepends=True)
    (folder.path / "run.trec").write_text("".join(lines[:left]))
    with pytest.raises(
        DataError, match=r"run.trec is not the file that this run wrote.*it was cut"
    ):
        folder.results()


def test_blank_lines_among_turns_are_no_turns(tmp_path):
    folder = finished(tmp_path / "aqd")
    lines = '\n{"qid": "1_1"}\n  \n\t\n{"qid": "1_2"}\n'
    (folder.path / "turns.jsonl").write_text(lines)
    assert [turn["qid"] for turn in folder.turns()] == ["1_1", "1_2"]


@pytest.mark.parametrize(
    ("name", "read", "repair"),
    [
        ("turns.jsonl", RunFolder.turns, "repeat the run"),
        ("measures.csv", RunFolder.measures, "the same `ikat run` writes it again"),
        ("run.trec", RunFolder.results, "put the right one back"),
        ("run.json", RunFolder.parameters, "is not a finished run"),
        ("stages.jsonl.gz", lambda folder: list(folder.stages()), "repeat the run"),
    ],
)
def test_a_file_that_is_gone_is_named_with_its_repair(tmp_path, name, read, repair):
    folder = finished(tmp_path / "aqd")
    (folder.path / name).unlink(missing_ok=True)
    with pytest.raises(DataError, match=repair) as caught:
        read(folder)
    assert str(folder.path) in str(caught.value)


def test_checksums_are_those_of_the_files_whatever_is_given(tmp_path):
    stale = {"sha256": "old", "measures_sha256": "old", "ledger_rows": 7}
    folder = finished(tmp_path / "aqd", method="aqd", **stale)
    assert folder.results()["docno"].tolist() == ["a"]
    assert folder.measures().index.tolist() == ["1_1"]
    assert folder.parameters()["ledger_rows"] == 0
    folder.describe(pd.DataFrame({"qid": ["1_1"], "P@5": [0.5]}), folder.parameters())
    assert folder.measures()["P@5"].to_dict() == {"1_1": 0.5}
    assert folder.parameters()["method"] == "aqd"


def test_a_ranking_without_its_checksum_is_refused(tmp_path):
    folder = finished(tmp_path / "aqd")
    write_parameters(folder.path, {"method": "aqd"})
    with pytest.raises(DataError, match="not the file that this run wrote"):
        folder.results()


WHOLE = gzip.compress(b'{"qid": "1_1"}\n' * 50, mtime=0)
STAGES = {
    "cut short": WHOLE[:-12],
    "no gzip": b'{"qid": "1_1"}\n',
    "damaged": WHOLE[:12] + bytes(byte ^ 255 for byte in WHOLE[12:20]) + WHOLE[20:],
    "no block": WHOLE[:10] + bytes([WHOLE[10] ^ 255]) + WHOLE[11:],
    "no JSON": gzip.compress(b'{"qid": '),
}


@pytest.mark.parametrize("content", STAGES.values(), ids=STAGES.keys())
def test_damaged_stages_say_to_repeat_the_run(tmp_path, content):
    path = tmp_path / "stages.jsonl.gz"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"stages.jsonl.gz can't be read .*repeat the run"):
        list(read_stages(path))
    path.write_bytes(WHOLE)
    assert list(read_stages(path)) == [{"qid": "1_1"}] * 50


def test_a_folder_of_folders_is_not_overwritten(tmp_path):
    (tmp_path / "aqd" / "thesis").mkdir(parents=True)
    with pytest.raises(UsageError, match="is not empty and holds no finished run"):
        RunFolder(tmp_path / "aqd").reusable({})


@pytest.mark.parametrize("response", [1, None, ["Yes."]])
def test_a_response_that_is_no_text_names_its_turn(tmp_path, response):
    folder = finished(tmp_path / "aqd")
    lines = [{"qid": "1_1", "response": "Yes."}, {"qid": "1_2", "response": response}]
    (folder.path / "turns.jsonl").write_text("\n".join(map(json.dumps, lines)))
    with pytest.raises(DataError, match="turn 2"):
        folder.turns()


def test_a_log_of_conversations_is_no_finished_run(tmp_path):
    Log.create(tmp_path / "sims", {"kind": "simulated", "system": "raw"})
    with pytest.raises(DataError, match="holds a simulation, .*: `ikat report`|ikat.show.report"):
        RunFolder(tmp_path / "sims").results()


# Unfinished runs


@pytest.fixture
def unfinished(tmp_path):
    """Three finished batches; the second one found nothing, the files were made last first."""
    folder = tmp_path / "aqd.partial"
    folder.mkdir()
    batches = {
        "000002": ("2_1 Q0 d 1 0.5 aqd\n", ["2_1"]),
        "000001": ("", ["1_3"]),
        "000000": ("1_2 Q0 b 1 2 aqd\n1_1 Q0 a 1 1 aqd\n", ["1_1", "1_2"]),
    }
    for number, (ranking, qids) in batches.items():
        (folder / f"{number}.run.trec").write_text(ranking)
        lines = [json.dumps({"qid": qid}) + "\n" for qid in qids]
        (folder / f"{number}.turns.jsonl").write_text("".join(lines))
    (folder / "000003.run.trec").write_text("2_2 Q0 x 1 1 aqd\n")  # cut before its turns
    write_parameters(folder, {"method": "aqd"})
    return RunFolder(folder)


def test_finished_batches_of_a_stopped_run_are_read_in_order(unfinished):
    assert unfinished.turns_so_far() == ["1_1", "1_2", "1_3", "2_1"]
    assert unfinished.parameters() == {"method": "aqd"}
    found = unfinished.results_so_far()
    assert sorted(found[["qid", "docno", "score"]].values.tolist()) == [
        ["1_1", "a", 1.0],
        ["1_2", "b", 2.0],
        ["2_1", "d", 0.5],
    ]
    names = [path.name for path in unfinished.pieces("run.trec")]
    assert names == ["000000.run.trec", "000001.run.trec", "000002.run.trec"]


def test_a_stopped_run_is_begun_and_not_finished(unfinished, tmp_path):
    assert (unfinished.begun, unfinished.complete) == (True, False)
    named = RunFolder(tmp_path / "aqd")
    assert named.partial == unfinished.path == unfinished.partial
    assert (named.begun, named.complete) == (False, False)


@pytest.mark.parametrize(
    "read", [RunFolder.results, RunFolder.ranking, RunFolder.measures, RunFolder.turns]
)
def test_what_only_a_finished_run_has_is_not_said_to_be_damaged(unfinished, read):
    with pytest.raises(DataError, match=r"is not a finished run. It was stopped: start it again"):
        read(unfinished)


def test_only_numbered_files_are_finished_batches(tmp_path):
    folder = RunFolder(tmp_path / "aqd.partial")
    folder.path.mkdir()
    for name in ("000000.turns.jsonl", "000002.turns.jsonl", "turns.jsonl", ".tmp.turns.jsonl"):
        (folder.path / name).write_text(json.dumps({"qid": name[:6]}) + "\n")
    assert folder.turns_so_far() == ["000000", "000002"]
