"""Damaged, missing and foreign files of a run folder, and what each of its writers replaces."""

import gzip
import json
from importlib import metadata

import numpy as np
import pandas as pd
import pytest

from pyterrier_ikat.errors import DataError, UsageError
from pyterrier_ikat.runs import RunFolder, write_run
from pyterrier_ikat.runs.folder import (
    check_repeats,
    check_same,
    checksum_of,
    describe_difference,
    read_parameters,
    read_stages,
    versions,
    write_parameters,
)


def ranked(*rows):
    return pd.DataFrame(rows, columns=["qid", "docno", "score", "rank"])


def finished(path, results=None, measures=None, **parameters):
    folder = RunFolder(path)
    results = ranked(("1_1", "a", 1.0, 0)) if results is None else results
    measures = pd.DataFrame({"qid": ["1_1"]}) if measures is None else measures
    topics = pd.DataFrame({"qid": list(dict.fromkeys(results["qid"]))})
    folder.write(topics, results, measures, pd.DataFrame(), parameters)
    return folder


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


def test_scores_are_read_as_they_were_written(tmp_path):
    score = 0.1 + 0.2
    scores = pd.DataFrame({"qid": ["007", "8"], "P@5": [score, 1.0]})
    read = finished(tmp_path / "aqd", measures=scores).measures()
    assert read["P@5"].to_dict() == {"007": score, "8": 1.0}


def test_a_link_to_nothing_is_not_overwritten(tmp_path):
    (tmp_path / "aqd").symlink_to(tmp_path / "gone")
    with pytest.raises(UsageError, match="is not empty and holds no finished run"):
        RunFolder(tmp_path / "aqd").reusable({})


def test_ties_in_a_written_frame_are_parted(tmp_path):
    tied = ranked(("1_1", "b", 1.0, 1), ("1_1", "a", 1.0, 0))
    folder = finished(tmp_path / "aqd", tied)
    scores = folder.results()
    assert scores["docno"].tolist() == ["a", "b"]
    lower = float(np.nextafter(np.float32(1), np.float32(0)))
    assert np.float32(scores["score"].iloc[1]) == np.float32(lower)


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


def test_a_run_without_a_method_has_the_name_of_its_folder(tmp_path):
    folder = finished(tmp_path / "v1.2")
    assert (folder.path / "run.trec").read_text() == "1_1 Q0 a 1 1 v1.2\n"
    assert folder.partial == tmp_path / "v1.2.partial"
    assert RunFolder(tmp_path / "v1.2.partial").partial == tmp_path / "v1.2.partial"


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


def test_a_difference_names_the_content_of_the_folder(tmp_path):
    write_parameters(tmp_path, {"turns": 2})
    check_same(tmp_path, "finished batches of a run", {"turns": 2})
    told = r"holds finished batches of a run with different turns \(2, now 3\): choose another"
    with pytest.raises(UsageError, match=told):
        check_same(tmp_path, "finished batches of a run", {"turns": 3})


@pytest.mark.parametrize("content", [None, "{", "7", "[1]"])
def test_parameters_that_cannot_be_read_are_of_no_finished_run(tmp_path, content):
    if content is not None:
        (tmp_path / "run.json").write_text(content)
    with pytest.raises(DataError, match="is not a finished run"):
        read_parameters(tmp_path)


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


def test_only_numbered_files_are_finished_batches(tmp_path):
    folder = RunFolder(tmp_path / "aqd.partial")
    folder.path.mkdir()
    for name in ("000000.turns.jsonl", "000002.turns.jsonl", "turns.jsonl", ".tmp.turns.jsonl"):
        (folder.path / name).write_text(json.dumps({"qid": name[:6]}) + "\n")
    assert folder.turns_so_far() == ["000000", "000002"]


def test_a_score_has_as_few_digits_as_a_32_bit_float_needs(tmp_path):
    write_run(ranked(("1_1", "a", 0.3, 0), ("1_1", "b", 0.1, 1)), tmp_path / "x.trec")
    written = [line.split()[4] for line in (tmp_path / "x.trec").read_text().splitlines()]
    assert written == ["0.3", "0.1"]


def test_a_folder_of_folders_is_not_overwritten(tmp_path):
    (tmp_path / "aqd" / "thesis").mkdir(parents=True)
    with pytest.raises(UsageError, match="is not empty and holds no finished run"):
        RunFolder(tmp_path / "aqd").reusable({})
