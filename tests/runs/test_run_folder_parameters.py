"""What ``run.json`` says of a run, and how two of them differ."""

from importlib import metadata

import pandas as pd
import pytest
from runs.small_folders import finished

from pyterrier_ikat.errors import DataError, UsageError, commands_advised
from pyterrier_ikat.runs import Log, RunFolder
from pyterrier_ikat.runs.folder import (
    check_repeats,
    check_same,
    checksum_of,
    describe_difference,
    read_parameters,
    versions,
    write_parameters,
)
from pyterrier_ikat.runs.log import not_saved


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


def test_a_difference_names_the_content_of_the_folder(tmp_path):
    write_parameters(tmp_path, {"turns": 2})
    check_same(tmp_path, "finished batches of a run", {"turns": 2})
    told = r"holds finished batches of a run with different turns \(2, now 3\): choose another"
    with pytest.raises(UsageError, match=told):
        check_same(tmp_path, "finished batches of a run", {"turns": 3})


@pytest.mark.parametrize(
    ("before", "wanted", "is_same"),
    [
        ({"a": "fallback", "b": "raise"}, {"a": "fallback", "b": "fallback"}, True),
        ({"a": "fallback", "b": "raise"}, {"a": "fallback", "b": "raise"}, True),
        ({"a": "fallback", "b": "raise"}, {"a": "raise", "b": "raise"}, False),
        ({"a": "raise"}, {"a": "raise", "b": "raise"}, False),
        (None, {"a": "raise"}, False),
    ],
)
def test_each_model_has_its_own_rule_for_errors(before, wanted, is_same):
    difference = describe_difference({"on_error": before}, {"on_error": wanted})
    assert (difference == "") is is_same


@pytest.mark.parametrize("other", [1, 2])
def test_the_repeat_that_differs_is_named(tmp_path, other):
    methods = ["aqd", "aqd", "aqd"]
    methods[other] = "qr"
    folders = []
    for number, method in enumerate(methods):
        folders.append(finished(tmp_path / str(number), method=method))
    with pytest.raises(UsageError, match=f"/{other} are not repeats .*method .'qr', now 'aqd'"):
        check_repeats(folders)


def test_no_folders_or_a_single_one_are_repeats(tmp_path):
    check_repeats([])
    check_repeats([finished(tmp_path / "aqd")])


def test_the_order_of_columns_and_keys_is_not_in_a_checksum():
    frame = pd.DataFrame({"qid": ["1_1"], "qptkb": [{"1": "tea", "2": "milk"}]})
    other = pd.DataFrame({"qptkb": [{"2": "milk", "1": "tea"}], "qid": ["1_1"]})
    assert checksum_of(frame) == checksum_of(other)
    first = pd.DataFrame({"day": [pd.Timestamp("2023-01-01")]})
    later = pd.DataFrame({"day": [pd.Timestamp("2024-01-01")]})
    assert checksum_of(first) != checksum_of(later)


def test_versions_are_those_of_python_and_of_what_is_installed():
    found = versions()
    assert {"python", "pyterrier_ikat", "pandas", "numpy"} <= found.keys()
    assert all(isinstance(version, str) and version for version in found.values())
    names = "pyterrier-pisa pyterrier-t5 torch transformers tokenizers sentence-transformers"
    for name in f"pyterrier pandas numpy {names} openvino ir-measures openai".split():
        try:
            version = metadata.version(name)
        except metadata.PackageNotFoundError:
            version = None
        assert found.get(name) == version


@pytest.mark.parametrize("content", [None, "{", "7", "[1]"])
def test_parameters_that_cannot_be_read_are_of_no_finished_run(tmp_path, content):
    if content is not None:
        (tmp_path / "run.json").write_text(content)
    with pytest.raises(DataError, match="is not a finished run"):
        read_parameters(tmp_path)
