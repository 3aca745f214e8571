"""`ikat run --record`: one model is asked for what is missing, and lines are left to fill in."""

import json
from importlib import import_module
from types import SimpleNamespace

import pytest
from command_results import (
    BOTH,
    ONE,
    succeeded,
)

from pyterrier_ikat.errors import UsageError
from pyterrier_ikat.llms.recording import ToFillInError

module = import_module("pyterrier_ikat.cli.run")


@pytest.fixture
def recorder(monkeypatch):
    """What a recording gets, and systems that lack lines as `lacking` says."""
    seen = SimpleNamespace(recordings=[], studies=[], ran=[], lacking={})

    def recording(path, replayed, model, ledger):
        seen.recordings.append((path, replayed, model))
        ledger.count("answer", "m", calls=1)
        return SimpleNamespace(backend=SimpleNamespace(written=2))

    def pipeline(name):
        def ask(turns):
            seen.ran.append((name, turns))
            if name in seen.lacking:
                raise seen.lacking[name]

        return ask

    class Study:
        def __init__(self, names, data, **options):
            seen.studies.append((names, data, options))
            self.systems = [SimpleNamespace(name=name, pipeline=pipeline(name)) for name in names]

        def turns_of(self, system):
            return SimpleNamespace(frame=f"turns of {system.name}")

    monkeypatch.setattr("pyterrier_ikat.llms.recording.recording", recording)
    monkeypatch.setattr("pyterrier_ikat.study.Study", Study)
    monkeypatch.setattr(module, "dataset_named", lambda name: f"dataset {name}")
    return seen


@pytest.mark.parametrize(
    ("model", "replayed", "expected"),
    [
        ("openai:a", None, (None, "openai:a")),
        ("openai:a", "recorded:sample", ("recorded:sample", "openai:a")),
        ("openai:a", "openai:b", (None, "openai:a")),
        ("recorded:x", None, ("recorded:x", None)),
        ("recorded:x", "recorded:sample", ("recorded:x", None)),
    ],
)
def test_a_recording_asks_one_model_beside_what_is_recorded(recorder, model, replayed, expected):
    given = {"llm": model, "repeats": 1, "turns": "t"}
    module.record_completions(("ad", "qr"), "d", "file", replayed, given)
    assert recorder.recordings == [("file", *expected)]
    [(names, data, options)] = recorder.studies
    assert (names, data, options["turns"], options["in_memory"]) == (
        ["ad", "qr"],
        "dataset d",
        "t",
        True,
    )
    assert recorder.ran == [("ad", "turns of ad"), ("qr", "turns of qr")]


def test_all_systems_are_recorded_before_lines_are_asked_for(recorder, capsys):
    recorder.lacking = {
        "ad": ToFillInError("ad lacks lines"),
        "qr": ToFillInError("qr lacks lines"),
    }
    given = {"llm": "recorded:x", "repeats": 1}
    with pytest.raises(ToFillInError, match="qr lacks lines"):
        module.record_completions(("ad", "raw", "qr", "rtg"), "d", "file", None, dict(given))
    assert [name for name, _ in recorder.ran] == ["ad", "raw", "qr", "rtg"]
    assert capsys.readouterr().out == ""
    recorder.lacking = {}
    module.record_completions(("ad",), "d", "file", None, dict(given))
    told = capsys.readouterr()
    assert told.out.startswith("file: 2 new lines\n")
    assert "LLM ledger" in told.out


@pytest.mark.parametrize("option", ["qrels", "measures", "baseline", "unit"])
def test_a_recording_takes_no_option_of_scores(recorder, option):
    given = {"llm": "openai:a", "repeats": 1, option: "x"}
    with pytest.raises(UsageError, match=f"--record scores nothing: omit --{option}"):
        module.record_completions(("ad",), "d", "file", None, given)
    for given, told in [
        ({"llm": "openai:a", "repeats": 2}, "omit --repeats"),
        ({"repeats": 1}, "--record needs --llm, or --resources sample"),
    ]:
        with pytest.raises(UsageError, match=told):
            module.record_completions(("ad",), "d", "file", "recorded:sample", given)
    assert recorder.recordings == []


# Recordings of the sample


@pytest.fixture
def record(call, sample_index):
    """Record the completions of a method on the sample."""

    def record(path, *more, method="ad"):
        given = ("--dataset", "ikat:sample", "--index", sample_index)
        return call("run", method, *given, "--record", path, *more)

    return record


def test_what_a_recording_lacks_is_to_be_filled_in_once(record, recorded, refused, tmp_path):
    path = tmp_path / "mine.jsonl"
    known = recorded(tmp_path / "known.jsonl", ("1-1_1", "answer", "A walk."))
    options = ("--llm", known, "--turns", "1-1_1,1-1_2")
    assert "1-1_2" in refused(record(path, *options))
    [line] = [json.loads(line) for line in path.read_text().splitlines()]
    assert (line["qid"], line["stage"]) == ("1-1_2", "answer")
    path.write_text(json.dumps({**line, "completion": "By hand."}) + "\n")
    again = record(path, *options)
    assert again.exit_code == 0, again.output
    assert f"{path}: 0 new lines" in again.output
    whole = record(tmp_path / "whole.jsonl", "--llm", "recorded:sample", "--turns", "1-1_1")
    assert "0 new lines" in whole.output  # the sample's own have it


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ((), "--record needs --llm"),
        (("--llm", "recorded:sample", "--baseline", "ad"), "omit --baseline"),
        (("--llm", "recorded:sample", "--measures", "P@1"), "omit --measures"),
        (("--llm", "recorded:sample", "--repeats", "2"), "omit --repeats"),
    ],
)
def test_a_recording_scores_nothing(record, refused, tmp_path, options, told):
    assert told in refused(record(tmp_path / "mine.jsonl", *options))
    assert not (tmp_path / "mine.jsonl").exists()


METHOD_WITH_A_NEW_PROMPT = """
import pyterrier_ikat as ikat


class Keywords(ikat.LLMOperator):
    stage, makes_query, schematic = "unheard_of", True, {"label": "Keywords"}

    def parse(self, text):
        return text


@ikat.method(paper="ours")
def keywords(llm, retriever):
    return Keywords(llm, prompts=PROMPTS) >> retriever
"""


@pytest.fixture
def new_prompt(tmp_path):
    """A file with a method whose prompt has no completions yet."""
    (tmp_path / "unheard_of.jinja").write_text("Keywords of {{ question }}:")
    path = tmp_path / "mine.py"
    path.write_text(METHOD_WITH_A_NEW_PROMPT.replace("PROMPTS", repr(str(tmp_path))))
    return f"{path}:keywords"


def test_record_leaves_the_missing_lines_to_fill_in(
    call, new_prompt, sample_index, tmp_path, refused
):
    file = tmp_path / "new.jsonl"
    on = ("--dataset", "ikat:sample", "--index", sample_index)
    words = ("run", new_prompt, "ad", *on, "--resources", "sample", *BOTH)
    assert "2 lines with an empty" in refused(call(*words, "--record", file))
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [(one["qid"], one["prompt"], one["completion"]) for one in lines] == [
        ("1-1_1", "unheard_of", ""),
        ("1-1_2", "unheard_of", ""),
    ]
    file.write_text(file.read_text().replace('""', '"tea"'))
    filled = succeeded(call(*words, "--record", file))
    assert "0 new lines" in filled.stdout
    assert not (tmp_path / "runs").exists()
    model = ("--llm", f"recorded:{file}")
    succeeded(call("run", new_prompt, *on, *model, *BOTH, "--out", tmp_path / "runs"))


def test_record_asks_the_model_only_for_what_is_missing(call, new_prompt, sample_index, tmp_path):
    """The draft of `ad` is the sample's own; the model is another recording and has no answer."""
    model = tmp_path / "model.jsonl"
    model.write_text('{"qid": "1-1_1", "stage": "unheard_of", "completion": "tea", "model": "m"}')
    file = tmp_path / "new.jsonl"
    on = ("--dataset", "ikat:sample", "--index", sample_index)
    words = ("run", new_prompt, "ad", *on, "--resources", "sample", *ONE)
    recording = import_module("pyterrier_ikat.llms.recording")
    real = recording.llm

    def llm(spec, **given):
        return real(spec.replace("openai:m", f"recorded:{model}"), **given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recording, "llm", llm)
        made = succeeded(call(*words, "--llm", "openai:m", "--record", file))
    assert "1 new line" in made.stdout
    expected = {
        "qid": "1-1_1",
        "stage": "unheard_of",
        "prompt": "unheard_of",
        "completion": "tea",
        "model": "m",
    }
    assert json.loads(file.read_text()) == expected


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (("--plan",), "omit one of them"),
        (("--measures", "P@1"), "omit --measures"),
        (("--repeats", "2"), "omit --repeats"),
    ],
)
def test_record_refuses_what_it_would_not_do(call, sample_index, tmp_path, refused, more, told):
    on = ("--dataset", "ikat:sample", "--index", sample_index)
    words = ("run", "ad", *on, "--resources", "sample")
    assert told in refused(call(*words, "--record", tmp_path / "new.jsonl", *more))
    assert not (tmp_path / "new.jsonl").exists()
