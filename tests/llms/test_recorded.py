"""Recorded completions: the most specific record answers, and what is missing or malformed is
named."""

import hashlib
import json

import pytest
from chat_server import ask

from pyterrier_ikat.conversations import public_outputs
from pyterrier_ikat.errors import DataError, UsageError
from pyterrier_ikat.llms import Reply, Request, llm
from pyterrier_ikat.llms.failures import Empty, OnlyReasoning
from pyterrier_ikat.llms.recorded import read_line, write_line
from pyterrier_ikat.llms.spec import recorded_prompt, recording_of


@pytest.fixture
def recorded(tmp_path):
    def write(*records):
        path = tmp_path / "recorded.jsonl"
        lines = []
        for line in records:
            if not isinstance(line, str):
                line = json.dumps(line, ensure_ascii=False)
            lines.append(line)
        path.write_text("\n".join(lines), encoding="utf-8")
        return f"recorded:{path}"

    return write


def record(completion="text", qid="1_1", stage="answer", model="recorded", **more):
    return {"qid": qid, "stage": stage, "completion": completion, "model": model, **more}


def texts(model, *requests):
    return [completion.text for completion in model.ask(requests)]


def test_the_most_specific_record_answers(recorded):
    model = llm(
        recorded(
            record("any"),
            record("by item", item="d1"),
            record("by prompt", prompt="p"),
            record("by both", prompt="p", item="d1"),
            record("other stage", stage="rewrite"),
        )
    )
    cases = {
        ("", ""): "any",
        ("q", "d2"): "any",
        ("q", "d1"): "by item",
        ("p", ""): "by prompt",
        ("p", "d2"): "by prompt",
        ("p", "d1"): "by both",
    }
    requests = [Request([], "answer", "1_1", prompt=prompt, item=item) for prompt, item in cases]
    assert texts(model, *requests) == list(cases.values())
    assert texts(model, Request([], "rewrite", "1_1")) == ["other stage"]


def test_a_prompt_counts_more_than_an_item(recorded):
    model = llm(recorded(record("by item", item="d1"), record("by prompt", prompt="p")))
    assert texts(model, Request([], "answer", "1_1", prompt="p", item="d1")) == ["by prompt"]


def test_a_list_holds_samples(recorded):
    model = llm(recorded(record(["first", "second"]), record("only", qid="1_2")))
    assert texts(model, Request([], "answer", "1_1", sample=1), Request([], "answer", "1_1")) == [
        "second",
        "first",
    ]
    with pytest.raises(DataError, match="1_2 answer sample 1"):
        model.ask([Request([], "answer", "1_2", sample=1)])


def test_completion_carries_its_records_model_and_costs_nothing(recorded):
    model = llm(recorded(record(model="gpt-4o")))
    (completion,) = model.ask(ask("x"))
    assert (completion.model, completion.finish_reason, completion.cached) == (
        "gpt-4o",
        "stop",
        False,
    )
    row = model.ledger.frame().iloc[0]
    assert (row["model"], row["calls"], row["known"], row["prompt_tokens"], row["cost"]) == (
        "recorded",
        0,
        1,
        0,
        0.0,
    )
    assert str(row["worth"]) == "<NA>"  # nobody knows what it would cost, as in the turn of a chat
    assert model.cache is None
    assert model.peek(ask("x")[0]).text == "text"
    assert model.peek(Request([], "answer", "9_9")) is None


def test_equal_messages_of_two_turns_are_two_completions(recorded):
    model = llm(recorded(record("one"), record("two", qid="1_2")))
    assert texts(model, *ask("same", "same")) == ["one", "two"]


def test_all_that_is_missing_is_named_at_once_with_a_line_to_add(recorded):
    spec = recorded(record())
    requests = [*ask(*"abcdefgh"), Request([], "rerank", "3_1", prompt="p", item='d"1')]
    with pytest.raises(DataError) as raised:
        llm(spec).ask(requests)
    message = str(raised.value)
    assert message.startswith(
        f"{spec.removeprefix('recorded:')} lacks 8 completions: 1_2 answer, 1_3 answer, "
    )
    assert (
        '1_6 answer and 3 more: add lines {"qid": "9-1_3", "stage": "answer", "completion": '
        in message
    )


def test_an_empty_recorded_completion_is_an_ordinary_failure(recorded):
    model = llm(recorded(record(" ")))
    assert isinstance(model.ask(ask("x"))[0], Empty)
    assert model.peek(ask("x")[0]) is None


def test_a_recorded_completion_is_read_without_its_reasoning(recorded):
    model = llm(recorded(record("<reasoning>Mint?</reasoning>Rooibos")))
    assert model.ask(ask("x"))[0].text == model.peek(ask("x")[0]).text == "Rooibos"
    model = llm(recorded(record("<reasoning>Mint?")))
    assert isinstance(model.ask(ask("x"))[0], OnlyReasoning)
    assert model.peek(ask("x")[0]) is None


@pytest.mark.parametrize(
    "line",
    [
        '{"qid": "1_1"',
        "[1]",
        '{"qid": "1_1", "stage": "answer", "completion": "x"}',
        '{"qid": "1_1", "stage": "answer", "completion": 5, "model": "m"}',
        '{"qid": "1_1", "stage": "answer", "completion": [], "model": "m"}',
    ],
)
def test_a_malformed_line_is_named(recorded, line):
    with pytest.raises(DataError, match="line 3 is not a recorded completion .*: a line reads"):
        llm(recorded(record(), "", line))


def test_conflicting_lines_are_named_and_equal_ones_are_fine(recorded):
    assert texts(llm(recorded(record("same"), record("same"))), *ask("x")) == ["same"]
    with pytest.raises(
        DataError, match="line 3 answers the same request as an earlier line, differently"
    ):
        llm(recorded(record("one", item="d1"), record("other"), record("two", item="d1")))


def test_lines_of_blanks_are_no_records(recorded):
    assert texts(llm(recorded("  ", record("a"), "\t", "")), *ask("x")) == ["a"]


def test_line_separators_of_unicode_are_text(recorded):
    assert texts(llm(recorded(record("a\u2028b\x85c"))), *ask("x")) == ["a\u2028b\x85c"]


def test_a_missing_or_unreadable_file_is_named(tmp_path):
    with pytest.raises(DataError, match=r"none\.jsonl can't be read .*No such file"):
        llm(f"recorded:{tmp_path}/none.jsonl")
    (tmp_path / "latin").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataError, match="UTF-8"):
        llm(f"recorded:{tmp_path}/latin")
    with pytest.raises(DataError, match="can't be read"):
        llm(f"recorded:{tmp_path}")


def test_a_turn_outside_the_sample_needs_the_users_model_or_file():
    with pytest.raises(
        DataError, match="recorded:sample lacks 1 completion: 9_9 rewrite: .*or take another llm"
    ):
        llm("recorded:sample").ask([Request([], "rewrite", "9_9")])


def lines_of(*completions, stages=("answer",)):
    """Records of the turns 1_1, 1_2, ... with so many texts each."""
    lines = []
    for stage in stages:
        for turn, count in enumerate(completions, 1):
            texts = [f"text {number}" for number in range(count)]
            lines.append(record(texts, qid=f"1_{turn}", stage=stage))
    return lines


@pytest.mark.parametrize(
    ("chain", "sample", "samples", "text"),
    [
        (0, 0, 2, "text 0"),
        (0, 1, 2, "text 1"),
        (1, 0, 2, "text 2"),
        (1, 1, 2, "text 3"),
        (2, 1, 2, "text 3"),  # the fifth text is no run of two
        (9, 0, 2, "text 2"),
        (4, 0, 1, "text 4"),
        (4, 1, 1, "text 4"),
        (7, 0, 1, "text 4"),
        (3, 4, 9, "text 4"),
        (0, 5, 9, None),
    ],
)
def test_each_run_takes_samples_of_its_own_while_there_are_any(
    recorded, chain, sample, samples, text
):
    backend = llm(recorded(*lines_of(5))).backend
    request = Request([], "answer", "1_1", sample=sample, samples=samples, chain=chain)
    assert backend.find(request) == (
        None if text is None else Reply(text, "recorded", finish_reason="stop")
    )


def test_a_record_with_too_few_samples_leaves_them_to_the_next(recorded):
    backend = llm(recorded(record("one", prompt="p"), record(["any 0", "any 1"]))).backend
    requests = [Request([], "answer", "1_1", prompt="p", sample=sample) for sample in (0, 1)]
    assert [backend.find(request).text for request in requests] == ["one", "any 1"]


FEW = "2 of 2 records of {} with too few completions, enough for "


@pytest.mark.parametrize(
    ("samples", "asked", "told"),
    [
        (1, None, ""),
        (2, None, "1 of 4 records of {} with too few completions, enough for 1 independent run"),
        (3, None, "3 of 4 records of {} with too few completions, enough for 1 independent run"),
        (2, {"rewrite": 1}, ""),
        (2, {"rewrite": 2}, FEW + "1 independent run"),
        (3, {"rewrite": 1}, FEW + "2 independent runs"),
        (5, {"other": 1}, ""),
    ],
)
def test_how_many_independent_runs_a_recording_has(recorded, samples, asked, told):
    spec = recorded(*lines_of(1, 3), *lines_of(2, 2, stages=("rewrite",)))
    assert llm(spec).backend.repeats(samples, asked) == told.format(spec.partition(":")[2])


def test_a_file_is_known_by_its_path_and_content(recorded, tmp_path, monkeypatch):
    spec = recorded(record())
    content = (tmp_path / "recorded.jsonl").read_bytes()
    backend = llm(spec).backend
    assert backend.identity == {
        "provider": "recorded",
        "model": str((tmp_path / "recorded.jsonl").resolve()),
        "params": {},
        "sha256": hashlib.sha256(content).hexdigest(),
    }
    assert (backend.name, backend.source, backend.output) == (spec.partition(":")[2], "", None)
    assert backend.check_turns({"9_9"}) is None
    assert llm("recorded:sample").backend.name == "recorded:sample"
    monkeypatch.chdir(tmp_path)
    assert llm("recorded:recorded.jsonl").backend.identity == backend.identity


def test_the_texts_of_a_line_are_found_by_its_whole_key(recorded):
    backend = llm(recorded(record(["a", "b"], prompt="p"))).backend
    assert backend.texts(("1_1", "answer", "p", None)) == ("a", "b")
    assert backend.texts(("1_1", "answer", None, None)) == ()


def test_missing_samples_and_items_are_named(recorded):
    model = llm(recorded(record()))
    samples = [Request([], "answer", "1_1", sample=sample) for sample in (1, 2)]
    with pytest.raises(DataError, match=r"1_1 answer sample 1, 1_1 answer sample 2: .*or fewer"):
        model.ask(samples)
    with pytest.raises(DataError) as raised:
        model.ask([*samples, Request([], "answer", "1_2", prompt="p", item="d1")])
    assert "lacks 3 completions" in str(raised.value)
    assert "1_2 answer p d1" in str(raised.value)
    assert "fewer samples" not in str(raised.value)


@pytest.mark.parametrize(
    ("key", "texts_of", "line"),
    [
        (
            ("1_1", "answer", "p", "d1"),
            ["é"],
            '{"qid": "1_1", "stage": "answer", "prompt": "p", "item": "d1", "completion": "é", '
            '"model": "m"}',
        ),
        (
            ("1_1", "answer", None, None),
            ["a", "b"],
            '{"qid": "1_1", "stage": "answer", "completion": ["a", "b"], "model": "m"}',
        ),
        (
            ("1_1", "answer", None, "d1"),
            ["a"],
            '{"qid": "1_1", "stage": "answer", "item": "d1", "completion": "a", "model": "m"}',
        ),
        (
            ("1_1", "answer", None, None),
            [],
            '{"qid": "1_1", "stage": "answer", "completion": [], "model": "m"}',
        ),
    ],
)
def test_a_line_is_written_as_it_is_read(key, texts_of, line):
    assert write_line(key, texts_of, "m") == line
    if texts_of:
        assert read_line(line) == (key, (tuple(texts_of), "m"))


def test_a_line_with_empty_prompt_and_item_answers_all():
    line = '{"qid": 7, "stage": "answer", "prompt": "", "item": "", "completion": "", "model": "m"}'
    assert read_line(line) == (("7", "answer", None, None), (("",), "m"))
    with pytest.raises(TypeError):
        read_line('{"qid": 7, "stage": "answer", "completion": "a", "model": 5}')


OUTPUT = "personalizedcir-sar-0shot"


@pytest.fixture
def published(tmp_path, monkeypatch):
    """The files of a public output: two turns, a sample in each file."""

    def output_file(source, name):
        path = tmp_path / f"{source}-{files.index(name)}.jsonl"
        texts_of = {"rewrite_utt_text": f"rewrite {files.index(name)}"}
        texts_of |= {"response_utt_text": f"answer {files.index(name)}", "LLM_select": "1. tea"}
        lines = [json.dumps({"sample_id": turn, **texts_of}) for turn in ("9-1-3", "9-1-4")]
        path.write_text("\n".join(lines))
        return path

    files = public_outputs.OUTPUTS[OUTPUT].files
    monkeypatch.setattr(public_outputs, "output_file", output_file)
    return [f"rewrite {number}" for number in range(len(files))]


def test_a_public_output_is_replayed_under_its_name(published):
    model = llm(f"recorded:{OUTPUT}")
    backend = model.backend
    assert backend.name == f"recorded:{OUTPUT}"
    assert backend.source.startswith(f"recorded:{OUTPUT}: from https://github.com/")
    identity = dict(backend.identity)
    assert len(identity.pop("sha256")) == 64
    assert identity == {"provider": "recorded", "model": OUTPUT, "params": {}}
    assert backend.texts(("9-1_3", "rewrite", None, None)) == tuple(published)
    plain, composed, queries = model.ask(
        [
            Request([], "rewrite", "9-1_3", prompt="rewrite"),
            Request([], "rewrite", "9-1_4", prompt="rewrite_and_answer", sample=1),
            Request([], "rewrite", "9-1_4", prompt="reformulate_queries"),
        ]
    )
    assert (plain.text, plain.model) == ("rewrite 0", "gpt-4o-mini")
    assert composed.text == "Rewrite: rewrite 1\nResponse: answer 1"
    assert queries.text == "Response: answer 0\nQueries: rewrite 0"
    of_two = "gpt-4o-mini, rewrite and answer composed"
    assert (composed.model, queries.model) == (of_two, of_two)


def test_a_public_output_has_its_texts_in_its_identity(published, monkeypatch):
    before = llm(f"recorded:{OUTPUT}").backend.identity
    assert llm(f"recorded:{OUTPUT}").backend.identity == before
    completions = public_outputs.Output.completions

    def with_another_text(output):
        changed = {}
        for key, texts in completions(output).items():
            changed[key] = (*texts[:-1], "another")
        return changed

    monkeypatch.setattr(public_outputs.Output, "completions", with_another_text)
    assert llm(f"recorded:{OUTPUT}").backend.identity != before


def test_what_a_public_output_lacks_needs_another_model(published):
    model = llm(f"recorded:{OUTPUT}")
    with pytest.raises(DataError, match=r"lacks 1 completion: 9-1_3 rerank: take another llm for"):
        model.ask([Request([], "rerank", "9-1_3")])
    with pytest.raises(UsageError, match=f"recorded:{OUTPUT} has no completion of 1 of the 2 turn"):
        model.ask([Request([], "rerank", "9-1_3"), Request([], "rerank", "1_1")])
    assert model.backend.check_turns({"9-1_3", "9-1_4"}) is None


def test_each_method_of_a_study_replays_its_own_prompt(published):
    study = llm("recorded:personalizedcir on_error=fallback")
    assert study.backend.identity == {
        "provider": "recorded",
        "model": "personalizedcir",
        "params": {},
    }
    own = recording_of(study, "sar-0shot")
    assert (own.ledger, own.on_error) == (study.ledger, "fallback")
    assert (recorded_prompt(own), recorded_prompt(study)) == (OUTPUT, "")
    assert recorded_prompt("no model") == recorded_prompt(llm("recorded:sample")) == ""
    assert repr(own) == f"ikat.llm('recorded:{OUTPUT} on_error=fallback')"
    assert recording_of(own, "sar-1shot") is own
    assert recording_of("no model", "sar-1shot") == "no model"
    with pytest.raises(UsageError, match="has no prompt sar: it has none-0shot-prompt1, none-0sho"):
        recording_of(study, "sar")
    for work in (
        lambda: study.ask([Request([], "answer", "9-1_3")]),
        lambda: study.backend.check_turns({"9-1_3"}),
    ):
        with pytest.raises(UsageError, match="such as recorded:personalizedcir-none-0shot-prompt1"):
            work()
