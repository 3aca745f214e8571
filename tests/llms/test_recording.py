"""A recording: what recorded completions lack is written into a file, by a model or as lines to
fill in."""

import json

import pytest
from chat_server import KEY
from fakes import BackendReply

import pyterrier_ikat.llms.recording as room
from pyterrier_ikat.errors import DataError, UsageError
from pyterrier_ikat.llms import LLM, Backend, Ledger, Request, llm
from pyterrier_ikat.llms.failures import Empty, LLMFailure
from pyterrier_ikat.llms.recording import ToFillInError, recording


class Counts(Backend):
    """Answers with the number of the call; a text of its queue comes first."""

    model, identity = "counts", {"provider": "fake", "model": "counts"}

    def __init__(self, *texts):
        self.texts = list(texts)
        self.asked = []

    def complete(self, requests):
        self.asked += requests
        replies = []
        for _ in requests:
            text = f"answer {len(self.asked)}"
            if self.texts:
                text = self.texts.pop(0)
            replies.append(BackendReply(text, "counts-2026"))
        return replies


@pytest.fixture
def model(monkeypatch):
    """Makes ``recording`` take a model of this process under the name `fake`, which answers from
    these texts."""

    def model(*texts):
        backend = Counts(*texts)
        made = LLM(backend)
        monkeypatch.setattr(
            room, "llm", lambda spec, **given: made if spec == "fake" else llm(spec, **given)
        )
        return backend

    return model


def asked(qid="1-1_1", prompt="unheard_of", item="", sample=0, samples=1):
    messages = [{"role": "user", "content": f"Which tea for {qid}?"}]
    return Request(
        messages, "unheard_of", qid, prompt=prompt, item=item, sample=sample, samples=samples
    )


def lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def line(completion, qid="1-1_1", model="recorded"):
    return {
        "qid": qid,
        "stage": "unheard_of",
        "prompt": "unheard_of",
        "completion": completion,
        "model": model,
    }


def test_without_a_model_each_missing_line_is_left_to_fill_in(tmp_path):
    path = tmp_path / "new.jsonl"
    with pytest.raises(
        ToFillInError,
        match=r"new\.jsonl has 3 lines .*: 1-1_1 unheard_of unheard_of, 1-1_2 .*fill them in",
    ):
        recording(path).ask([asked(), asked("1-1_2"), asked("1-1_2", item="d1")])
    assert lines(path) == [
        line(""),
        line("", "1-1_2"),
        {
            "qid": "1-1_2",
            "stage": "unheard_of",
            "prompt": "unheard_of",
            "item": "d1",
            "completion": "",
            "model": "recorded",
        },
    ]


def test_filled_lines_are_replayed_and_empty_ones_not_doubled(tmp_path):
    path = tmp_path / "new.jsonl"
    for _ in range(2):
        with pytest.raises(ToFillInError, match="2 lines"):
            recording(path).ask([asked(), asked("1-1_2")])
    path.write_text(path.read_text().replace('"completion": ""', '"completion": "tea"', 1))
    with pytest.raises(ToFillInError, match="1 line .*: 1-1_2"):
        recording(path).ask([asked(), asked("1-1_2")])
    assert lines(path) == [line("tea"), line("", "1-1_2")]
    path.write_text(path.read_text().replace('"completion": ""', '"completion": "mint"'))
    recorder = recording(path)
    for reader in (recorder, llm(f"recorded:{path}")):
        assert [one.text for one in reader.ask([asked(), asked("1-1_2")])] == ["tea", "mint"]
    assert recorder.backend.written == 0


def test_a_model_writes_only_what_is_missing(tmp_path, model):
    backend = model()
    path = tmp_path / "new.jsonl"
    kept = json.dumps(line("as it stands"), indent=None, separators=(",", ":"))
    path.write_text(f"{kept}\n{json.dumps(line('', '1-1_2'))}")
    rewrite = Request([], "rewrite", "1-1_3", prompt="rewrite")
    recorder = recording(path, "recorded:sample", "fake")
    texts = [one.text for one in recorder.ask([asked(), asked("1-1_2"), rewrite])]
    assert texts == ["as it stands", "answer 1", llm("recorded:sample").ask([rewrite])[0].text]
    assert [request.qid for request in backend.asked] == ["1-1_2"]
    assert path.read_text().splitlines()[0] == kept
    assert lines(path)[1:] == [line("answer 1", "1-1_2", "counts-2026")]
    assert recorder.backend.written == 1


def test_the_samples_of_a_prompt_are_one_line(tmp_path, model):
    samples = [asked(sample=number, samples=3) for number in range(3)]
    path = tmp_path / "new.jsonl"
    with pytest.raises(ToFillInError, match="1 line"):
        recording(path).ask(samples)
    assert lines(path) == [line(["", "", ""])]
    path.write_text(json.dumps(line(["", "mine", ""])))
    backend = model()
    assert [one.text for one in recording(path, model="fake").ask(samples)] == [
        "answer 1",
        "mine",
        "answer 2",
    ]
    assert lines(path) == [line(["answer 1", "mine", "answer 2"], model="counts-2026")]
    assert [request.sample for request in backend.asked] == [0, 2]


def test_too_short_a_list_is_lengthened(tmp_path, model):
    path = tmp_path / "new.jsonl"
    path.write_text(json.dumps(line("only")))
    model()
    requests = [asked(sample=0, samples=2), asked(sample=1, samples=2)]
    outcomes = recording(path, model="fake").ask(requests)
    assert [outcome.text for outcome in outcomes] == ["only", "answer 1"]
    assert [one["completion"] for one in lines(path)] == [["only", "answer 1"]]


def test_a_failed_call_is_no_line_and_the_others_are_kept(tmp_path, model):
    model("", "second")
    path = tmp_path / "new.jsonl"
    first, second = recording(path, model="fake").ask([asked(), asked("1-1_2")])
    assert isinstance(first, Empty)
    assert second.text == "second"
    assert lines(path) == [line("second", "1-1_2", "counts-2026")]
    model("", "second")
    outcomes = recording(path, model="fake").ask(
        [asked("1-1_4", sample=number, samples=2) for number in range(2)]
    )
    assert all(isinstance(one, LLMFailure) for one in outcomes)
    assert len(lines(path)) == 1


def test_equal_messages_of_two_turns_get_a_line_each(tmp_path, model):
    model()
    same = asked().messages
    turns = [Request(same, "unheard_of", qid, prompt="unheard_of") for qid in ("1-1_1", "1-1_2")]
    path = tmp_path / "new.jsonl"
    recording(path, model="fake").ask(turns)
    assert [one["qid"] for one in lines(path)] == ["1-1_1", "1-1_2"]


def test_what_cannot_be_recorded_is_refused(tmp_path):
    with pytest.raises(UsageError, match="omit structured=on"):
        recording(tmp_path / "new.jsonl", model="openai:gpt-4o structured=on")
    with pytest.raises(UsageError, match="no file of recorded completions"):
        recording(tmp_path / "new.jsonl", "openai:gpt-4o")
    with pytest.raises(UsageError, match="no file of recorded completions"):
        recording(tmp_path / "new.jsonl", "recorded:personalizedcir")
    (tmp_path / "odd.jsonl").write_text("[1]")
    with pytest.raises(DataError, match="line 1 is not a recorded completion"):
        recording(tmp_path / "odd.jsonl")
    assert not (tmp_path / "new.jsonl").exists()


def test_a_server_is_asked_once_and_its_calls_are_in_the_ledger(tmp_path, server, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    path, spec = tmp_path / "new.jsonl", f"openai:m base_url={server.url} cache=none"
    ledger = Ledger()
    first = recording(path, model=spec, ledger=ledger).ask([asked(), asked("1-1_2")])
    rows = {row["model"]: row for row in ledger.rows()}
    assert (rows["m"]["calls"], rows["recorded"]["calls"], rows["recorded"]["known"]) == (2, 0, 2)
    again = recording(path, model=spec).ask([asked(), asked("1-1_2")])
    assert [one.text for one in again] == [one.text for one in first]
    assert len(server.bodies) == 2


def test_written_counts_the_new_lines_of_all_calls(tmp_path, model):
    model()
    recorder = recording(tmp_path / "new.jsonl", None, "fake")
    for requests, written in (
        ([asked()], 1),
        ([asked(), asked("1-1_2"), asked("1-1_3")], 3),
        ([asked("1-1_3")], 3),
        ([asked("1-1_4")], 4),
    ):
        recorder.ask(requests)
        assert recorder.backend.written == len(lines(tmp_path / "new.jsonl")) == written


def test_an_empty_text_is_missing_and_another_recording_has_it(tmp_path):
    own = tmp_path / "own.jsonl"
    other = tmp_path / "other.jsonl"
    own.write_text("\n".join(map(json.dumps, [line(" "), line("mine", "1-1_2")])))
    other.write_text("\n".join(map(json.dumps, [line("theirs"), line("theirs", "1-1_2")])))
    recorder = recording(own, f"recorded:{other}")
    texts = [one.text for one in recorder.ask([asked(), asked("1-1_2")])]
    assert texts == ["theirs", "mine"]
    assert recorder.backend.written == 0
    assert recorder.peek(asked("1-1_3")) is None


def test_a_recording_is_known_by_its_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    recorder = recording("new.jsonl", model="openai:m on_error=fallback")
    assert recorder.backend.identity == {
        "provider": "recording",
        "model": str(tmp_path / "new.jsonl"),
        "params": {},
    }
    assert (recorder.on_error, repr(recorder)) == (
        "fallback",
        "ikat.llm('recorded:new.jsonl')",
    )
    ledger = Ledger()
    assert recording("new.jsonl", ledger=ledger).ledger is ledger
    assert recording("new.jsonl").on_error == "raise"


def test_a_prompt_that_failed_in_a_sample_is_no_line(tmp_path, model):
    model("first", "")
    path = tmp_path / "new.jsonl"
    outcomes = recording(path, model="fake").ask(
        [asked(sample=number, samples=2) for number in range(2)]
    )
    assert [type(one) for one in outcomes] == [LLMFailure, Empty]
    assert (outcomes[0].qid, outcomes[0].stage) == ("1-1_1", "unheard_of")
    assert "another sample of the same prompt failed" in outcomes[0].reason
    assert not path.exists()


def test_lines_of_other_keys_and_blank_ones_are_left(tmp_path, model):
    model()
    path = tmp_path / "new.jsonl"
    others = [
        {**line("other prompt"), "prompt": "another"},
        {**line("other item"), "item": "d1"},
        {**line("other stage"), "stage": "rewrite"},
    ]
    path.write_text("\n\n".join(json.dumps(one) for one in [*others, line("")]) + "\n\n")
    recording(path, model="fake").ask([asked()])
    assert lines(path) == [*others, line("answer 1", model="counts-2026")]
    assert path.read_text().endswith("}\n")


def test_lines_to_fill_in_keep_the_samples_that_are_known(tmp_path):
    path = tmp_path / "new.jsonl"
    path.write_text(json.dumps(line(["mint", ""], model="a person")))
    samples = [asked(sample=number, samples=2) for number in range(2)]
    with pytest.raises(ToFillInError, match='1 line with an empty "completion": 1-1_1 unheard_of'):
        recording(path).ask(samples)
    assert lines(path) == [line(["mint", ""], model="a person")]
    more = [asked(sample=number, samples=3) for number in range(3)]
    with pytest.raises(ToFillInError, match="fill them in and run the same command again"):
        recording(path).ask(more)
    assert lines(path) == [line(["mint", "", ""])]


def test_unicode_separators_in_a_text_are_no_end_of_a_line(tmp_path, model):
    model()
    path = tmp_path / "new.jsonl"
    other = line("tea \u2028 time \x85", "1-1_2")
    path.write_text(json.dumps(other, ensure_ascii=False), encoding="utf-8")
    recording(path, model="fake").ask([asked()])
    *written, end = path.read_text(encoding="utf-8").split("\n")
    assert end == ""
    assert [json.loads(text) for text in written] == [
        other,
        line("answer 1", model="counts-2026"),
    ]
