"""What ``run.json`` says of a run, how two of them differ, and the batches of an unfinished run."""

import json

import pandas as pd
import pytest

from pyterrier_ikat.errors import DataError, UsageError, commands_advised
from pyterrier_ikat.runs import Log, RunFolder
from pyterrier_ikat.runs.folder import (
    check_repeats,
    checksum_of,
    describe_difference,
    write_parameters,
)
from pyterrier_ikat.runs.log import not_saved


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


def finished(path, **parameters):
    topics = pd.DataFrame({"qid": ["1_1"]})
    rows = pd.DataFrame({"qid": ["1_1"], "docno": ["a"], "score": [1.0], "rank": [0]})
    folder = RunFolder(path)
    folder.write(topics, rows, pd.DataFrame({"qid": ["1_1"]}), pd.DataFrame(), parameters)
    return folder


def test_a_finished_run_has_all_its_turns_and_passages(tmp_path):
    folder = finished(tmp_path / "aqd", method="aqd")
    assert folder.turns_so_far() == ["1_1"]
    assert folder.results_so_far().values.tolist() == [["1_1", "a", 1.0, 0]]
    assert (folder.begun, folder.complete) == (False, True)


def test_a_run_whose_ranking_was_changed_is_not_reused(tmp_path):
    folder = finished(tmp_path / "aqd", method="aqd")
    (folder.path / "run.trec").write_text("1_1 Q0 b 1 1 aqd\n")
    with pytest.raises(DataError, match="not the file that this run wrote"):
        folder.reusable({"method": "aqd"})
    (folder.path / "run.trec").unlink()
    with pytest.raises(DataError, match="not the file that this run wrote"):
        folder.ranking()


def test_what_a_kill_left_of_a_run_comes_into_no_later_one(tmp_path):
    hidden = tmp_path / ".aqd.tmp"
    hidden.mkdir()
    (hidden / "rest.txt").write_text("of a killed process")
    assert not (finished(tmp_path / "aqd").path / "rest.txt").exists()
    assert not hidden.exists()


def test_the_ledgers_rows_are_counted(tmp_path):
    folder = RunFolder(tmp_path / "aqd")
    nothing = pd.DataFrame({"qid": ["1_1"], "docno": ["a"], "score": [1.0], "rank": [0]})
    ledger = pd.DataFrame({"stage": ["answer", "rewrite"]})
    folder.write(pd.DataFrame({"qid": ["1_1"]}), nothing, pd.DataFrame(), ledger, {"method": "x"})
    about = folder.parameters()
    assert (about["ledger_rows"], about["method"]) == (2, "x")
    assert {"python", "pyterrier", "pandas"} <= set(about["versions"])


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


def test_frames_of_other_rows_or_order_have_other_checksums():
    frame = pd.DataFrame({"qid": ["1_1", "1_2"], "query": ["x", "y"]})
    others = [
        frame.head(1),
        frame.iloc[::-1],
        frame.assign(query=["x", "z"]),
        frame.rename(columns={"query": "text"}),
    ]
    assert checksum_of(frame) == checksum_of(frame.set_index(pd.Index([5, 9])))
    assert len({checksum_of(other) for other in (frame, *others)}) == 5


DIGEST = "0123456789abcdef" * 4
OTHER_DIGEST = "fedcba9876543210" * 4


@pytest.mark.parametrize(
    ("before", "wanted", "expected"),
    [
        ({"a": 1, "b": 2}, {"a": 1}, ""),
        ({"a": 1}, {"a": 2}, "different a (1, now 2)"),
        ({}, {"a": 2}, "different a (None, now 2)"),
        ({"a": 1, "b": 1}, {"a": 2, "b": 3}, "different a, b (a: 1, now 2)"),
        ({"a": DIGEST}, {"a": OTHER_DIGEST}, "different a"),
        ({"a": DIGEST, "b": 1}, {"a": OTHER_DIGEST, "b": 2}, "different a, b"),
        ({"a": {"x": 1, "y": 1}}, {"a": {"x": 1, "y": 2}}, "different a ({'y': 1}, now {'y': 2})"),
        ({"a": {"x": 1}}, {"a": {"x": 1, "y": 2}}, "different a ({}, now {'y': 2})"),
        ({"a": {"x": 1}}, {"a": 2}, "different a ({'x': 1}, now 2)"),
        ({"a": 2}, {"a": {"x": 1}}, "different a (2, now {'x': 1})"),
        ({"on_error": {"m": "raise"}}, {"on_error": {"m": "fallback"}}, ""),
        (
            {"on_error": {"m": "raise"}, "a": 1},
            {"on_error": {"m": "fallback"}, "a": 2},
            "different a (1, now 2)",
        ),
        (
            {"on_error": "raise"},
            {"on_error": {"m": "raise"}},
            "different on_error ('raise', now {'m': 'raise'})",
        ),
    ],
)
def test_what_differs_between_two_runs(before, wanted, expected):
    assert describe_difference(before, wanted) == expected


IDENTITY = {
    "method": "aqd",
    "topics_sha256": "t",
    "prompts": {"1 answer": "p"},
    "stages": ["s"],
    "parts": {"m": "gpt"},
}


@pytest.mark.parametrize("name", [*IDENTITY, None])
def test_repeats_differ_in_nothing_of_their_system(tmp_path, name):
    folders = [finished(tmp_path / "a", **IDENTITY), finished(tmp_path / "b", **IDENTITY)]
    changed = {**IDENTITY, "depth": 10}
    if name:
        changed[name] = "other"
    folders.append(finished(tmp_path / "c", **changed))
    if not name:
        check_repeats(folders)
        return
    with pytest.raises(UsageError, match=f"/c are not repeats of one system.* different {name}"):
        check_repeats(folders)
    lacking = {key: value for key, value in IDENTITY.items() if key != name}
    without = finished(tmp_path / "d", **lacking)
    for pair in ([folders[0], without], [without, folders[0]]):
        with pytest.raises(UsageError, match=f"are not repeats .* has different {name}"):
            check_repeats(pair)


@pytest.mark.parametrize(
    ("before", "now", "said"),
    [
        ({"k": 1, "old": 2}, {"k": 1}, "({'old': 2}, now {})"),
        ({"k": 1}, {"k": 1, "new": 2}, "({}, now {'new': 2})"),
        ({"old": 2}, {"new": 3}, "({'old': 2}, now {'new': 3})"),
        ({"k": 1, "same": 0}, {"k": 2, "same": 0}, "({'k': 1}, now {'k': 2})"),
        (
            {"old": "0123456789abcdef", "k": 1},
            {"k": 2},
            "(k, old)",
        ),
    ],
)
def test_a_removed_added_or_changed_setting_is_named(before, now, said):
    assert describe_difference({"settings": before}, {"settings": now}) == (
        f"different settings {said}"
    )


def test_advice_on_runs_is_for_python_or_for_commands(tmp_path):
    log = tmp_path / "log"
    occupied = tmp_path / "occupied"
    made = tmp_path / "made"
    Log.create(log, {"kind": "chat", "system": "raw"})
    occupied.mkdir()
    (occupied / "mine.txt").write_text("tea")
    made.mkdir()
    write_parameters(made, {"method": "raw"})

    def refusals():
        messages = [str(not_saved("chat.json", OSError(28, "No space left on device")))]
        with pytest.raises(DataError) as refused:
            RunFolder(log).check_finished()
        messages.append(str(refused.value))
        for path in (occupied, made):
            with pytest.raises(UsageError) as refused:
                RunFolder(path).reusable({"method": "ad"})
            messages.append(str(refused.value))
        return messages

    full = "the chat can't be saved in chat.json (No space left on device)"
    chat = f"{log} holds a chat, not the run of a dataset's topics"
    other = f"{made} holds a run with different method ('raw', now 'ad')"
    empty = f"{occupied} is not empty and holds no finished run"
    assert refusals() == [
        f"{full}: save it elsewhere",
        f"{chat}: ikat.show.report shows it",
        f"{empty}: choose another out=..., or remove it",
        f"{other}: choose another out=..., or remove it",
    ]
    with commands_advised():
        assert refusals() == [
            f"{full}: repair that, and the next turn saves all turns",
            f"{chat}: `ikat report` shows it",
            f"{empty}: choose another --out, or remove it",
            f"{other}: choose another --out, or remove it",
        ]
