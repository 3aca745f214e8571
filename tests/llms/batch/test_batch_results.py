"""What comes back of a batch, whatever it is: asked again, or kept and paid once."""

import json

import pytest
from batches import TEXTS, asked, counted, notes, under_way
from llms.chat_server import ask, refused, said
from llms.scripted import texts

from pyterrier_ikat.llms import FatalLLMError


def test_missing_failed_or_expired_is_asked_again_the_rest_kept(server, model):
    under_way(model(), *"abcde")
    answers = {
        "a": said("A"),
        "b": "batch_expired",
        "c": None,
        "d": refused(500, "down"),
        "e": refused(429, "slow"),
    }
    server.end("batch_0", "expired", lambda body: answers[asked(body)])
    made = model()
    assert [one.batch for one in under_way(made, *"abcde").waiting] == ["batch_1"]
    assert server.texts("batch_1") == ["b", "c", "d", "e"]
    assert counted(made, "calls", "retries", "failures") == [[1, 0, 0]]
    server.complete()
    last = model()
    assert texts(last.ask(ask(*"abcde"))) == [
        "A",
        "answer to b",
        "answer to c",
        "answer to d",
        "answer to e",
    ]
    assert counted(last, "calls", "retries", "known", "failures") == [[4, 4, 1, 0]]


@pytest.mark.parametrize("status", ["completed", "expired", "cancelled"])
def test_a_file_of_errors_alone_is_read(server, model, status):
    under_way(model(), "a", "b")
    server.end(
        "batch_0",
        status,
        lambda body: refused(400, "the prompt is too long") if asked(body) == "a" else "x",
    )
    assert server.batches["batch_0"]["output_file_id"] is None
    under_way(model(), "a", "b")
    assert server.texts("batch_1") == ["b"]
    server.complete()
    failure, answer = model().ask(ask("a", "b"))
    assert (
        failure.reason
        == "the server rejects the request (400: the prompt is too long); without batch=on it is "
        "asked again"
    )
    assert (type(failure).__name__, answer.text) == ("TooLong", "answer to b")


@pytest.mark.parametrize("status", ["expired", "cancelled"])
def test_an_ended_batch_without_any_file_is_sent_again(server, model, status):
    under_way(model())
    server.end("batch_0", status, lambda body: None)
    under_way(model())
    assert server.texts("batch_1") == list(TEXTS)


def test_batches_that_never_answer_are_given_up(server, model):
    for _ in range(3):
        under_way(model("batch=on retries=2"), "a")
        server.complete(answer=lambda body: refused(500, "down"))
    made = model("batch=on retries=2")
    (failure,) = made.ask(ask("a"))
    assert type(failure).__name__ == "Unavailable"
    assert failure.reason == "no answer in 3 batches; without batch=on it is asked again"
    assert counted(made, "failures") == [[1]]
    assert len(server.batches) == 3


@pytest.mark.parametrize(
    ("answer", "kind", "reason"),
    [
        (
            said("half", "length"),
            "CutOff",
            "the completion was cut off at the token limit after 3 tokens: raise max_tokens",
        ),
        (said(None, refusal="no"), "Refused", "the model refused: no"),
        (said("I'm sorry, but I can't help with that."), "Refused", "the model refused: "),
        (
            refused(400, code="content_filter"),
            "Filtered",
            "the provider's content filter withheld the prompt",
        ),
        (
            refused(403, "Your input was flagged"),
            "Filtered",
            "the provider's content filter withheld the prompt",
        ),
        (refused(400, "m is not a valid model ID"), "BadRequest", "http://127.0.0.1"),
    ],
)
def test_a_failure_is_typed_kept_and_not_paid_again(server, model, answer, kind, reason):
    under_way(model(), "a", "b")
    server.complete(answer=lambda body: answer if asked(body) == "a" else said("B"))
    first = model()
    later = model()
    for made in (first, later):  # a later stage may wait meanwhile: what failed stays so
        failed, other = made.ask(ask("a", "b"))
        assert (type(failed).__name__, other.text, failed.kept) == (kind, "B", True)
        assert failed.reason.startswith(reason)
        assert counted(made, "failures") == [[1]]
    assert len(server.batches) == 1
    server.respond = lambda body: said("well")
    assert texts(model("").ask(ask("a", "b"))) == ["well", "B"]
    assert texts(model().ask(ask("a", "b"))) == ["well", "B"]


def test_an_answer_of_a_batch_with_an_unknown_mark_is_read_again(server, model):
    under_way(model(), "a")
    server.complete(answer=lambda body: said("<ponder>hm</ponder>A"))
    for made in (model(), model()):
        [failure] = made.ask(ask("a"))
        assert (type(failure).__name__, failure.kept) == ("UnknownMark", True)
        assert failure.reason.endswith("the answer is kept, and then read without a call")
        assert counted(made, "failures") == [[1]]
    assert texts(model("reasoning='<ponder> </ponder>'").ask(ask("a"))) == ["A"]
    assert texts(model("reasoning='<ponder> </ponder>' batch=on").ask(ask("a"))) == ["A"]
    assert len(server.batches) == 1


def test_paid_lines_without_a_completion_are_counted(server, model):
    made = model("batch=on retries=1")
    under_way(made, "a", "b")
    empty = said(usage=(1_000_000, 0))
    empty.body["choices"] = []
    server.complete(
        answer=lambda body: empty if asked(body) == "a" else said("B", usage=(1_000_000, 0))
    )
    under_way(made, "a", "b")
    assert made.budget.spent == 2.0  # 1 dollar each, in a batch
    server.complete(answer=lambda body: empty)
    assert texts(made.ask(ask("a", "b"))) == ["Unavailable", "B"]
    assert counted(made, "calls", "unanswered", "retries", "failures", "prompt_tokens", "cost") == [
        [1, 1, 1, 1, 3_000_000, 3.0]
    ]


def test_foreign_repeated_and_damaged_lines_change_nothing(server, model):
    under_way(model())
    server.end("batch_0")
    file = server.batches["batch_0"]["output_file_id"]
    first, *rest = server.files[file].split(b"\n")
    stranger = json.dumps({**json.loads(first), "custom_id": "stranger"}).encode()
    server.files[file] = b"\n".join(
        [
            stranger,
            first,
            b"[]",
            b'{"a": 1}',
            b"",
            *rest[:1],
            rest[0].replace(b"answer", b"other"),
            rest[1],
        ]
    )
    assert texts(model().ask(ask(*TEXTS))) == ["answer to a", "answer to b", "answer to c"]


def test_an_answer_counts_where_an_error_has_its_key_too(server, model):
    under_way(model(), "a", "b")
    server.end(
        "batch_0", answer=lambda body: said("fine") if asked(body) == "a" else "batch_expired"
    )
    batch_0 = server.batches["batch_0"]
    answered = json.loads(server.files[batch_0["output_file_id"]])["custom_id"]
    error = {
        "custom_id": answered,
        "response": None,
        "error": {"code": "batch_expired", "message": "expired"},
    }
    server.files[batch_0["error_file_id"]] += json.dumps(error).encode() + b"\n"
    under_way(model(), "a", "b")
    assert server.texts("batch_1") == ["b"]
    server.complete()
    assert texts(model().ask(ask("a", "b"))) == ["fine", "answer to b"]


@pytest.mark.parametrize("counts", [{"total": 3, "completed": 3, "failed": 0}, None])
@pytest.mark.parametrize(
    ("cut", "left"),
    [
        (lambda text: b"", 0),
        (lambda text: text[:-40], 2),
        (lambda text: b"<html>busy</html>", 0),
        (None, 0),
    ],
)
def test_incomplete_results_stop_the_run_and_are_not_paid_again(
    server, model, home, counts, cut, left
):
    under_way(model())
    server.complete()
    done, file = server.batches["batch_0"], server.batches["batch_0"]["output_file_id"]
    whole = server.files[file]
    done.update(request_counts=counts, output_file_id=file if cut else None)
    server.files[file] = cut(whole) if cut else whole
    for _ in range(2):
        with pytest.raises(FatalLLMError) as raised:
            model().ask(ask(*TEXTS))
        assert f"have {left} of 3 that can be read: run again later" in str(raised.value)
        assert (
            f"remove {home / 'llm.sqlite.batches'} to ask, and pay for, all that is under way again"
            in str(raised.value)
        )
    done["output_file_id"], server.files[file] = file, whole
    assert texts(model().ask(ask(*TEXTS))) == ["answer to a", "answer to b", "answer to c"]
    assert (len(server.batches), notes(home)) == (1, [])


def test_a_key_that_failed_in_a_batch_is_asked_in_the_next_one(server, model):
    under_way(model(), *"abcd")
    answers = {
        "a": refused(401, "no"),
        "b": refused(402, "no"),
        "c": refused(404, "no model m"),
        "d": refused(400, "API key not valid"),
    }
    server.end("batch_0", answer=lambda body: answers[asked(body)])
    assert under_way(model(), "a", "b", "c", "d").waiting[0].requests == 3
    assert server.texts("batch_1") == ["a", "b", "d"]
    (failure,) = model().ask(ask("c"))
    assert (type(failure).__name__, failure.qid) == ("BadRequest", "1_1")


def test_results_count_for_those_who_ask_and_stay_for_the_others(server, model, home):
    under_way(model(), "a", "b")
    server.complete()
    made = model()
    assert texts(made.ask(ask("b"))) == ["answer to b"]
    assert notes(home) == []
    assert texts(model("").ask(ask("a"))) == ["answer to a"]
    assert server.calls == 0


def test_what_nobody_asks_any_more_is_not_sent_again(server, model):
    under_way(model(), "a", "b")
    server.end("batch_0", "expired", lambda body: None)
    under_way(model(), "b")
    assert server.texts("batch_1") == ["b"]
    under_way(model(), "a")
    assert server.texts("batch_2") == ["a"]


@pytest.mark.parametrize("is_strangers", [True, False])
def test_results_that_are_not_ours_complete_nothing(server, model, is_strangers):
    """One of three is another request's, or is no answer."""

    def answer(body):
        if asked(body) == "c" and not is_strangers:
            return "x"
        return said("fine")

    under_way(model(), "a", "b", "c")
    server.end("batch_0", answer=answer)
    done = server.batches["batch_0"]
    done["error_file_id"] = None
    file = done["output_file_id"]
    if is_strangers:
        key = json.loads(server.files[file].split(b"\n")[0])["custom_id"]
        server.files[file] = server.files[file].replace(key.encode(), b"stranger")
    with pytest.raises(FatalLLMError, match="have 2 of 3 that can be read: run again later"):
        model().ask(ask("a", "b", "c"))
    assert len(server.batches) == 1


def test_more_results_than_the_batch_counts_are_read(server, model):
    under_way(model(), "a", "b")
    server.end("batch_0")
    server.batches["batch_0"]["request_counts"] = {"total": 2, "completed": 1, "failed": 0}
    assert texts(model().ask(ask("a", "b"))) == ["answer to a", "answer to b"]


def test_an_expired_batch_without_counts_is_sent_again(server, model):
    under_way(model())
    server.end("batch_0", "expired", lambda body: said("A") if asked(body) == "a" else None)
    server.batches["batch_0"]["request_counts"] = None
    under_way(model())
    assert server.texts("batch_1") == ["b", "c"]


def test_a_refused_request_is_unanswered_and_costs_nothing(server, model):
    under_way(model(), "a", "b")
    server.end(
        "batch_0",
        answer=lambda body: said("A") if asked(body) == "a" else refused(400, "too strange"),
    )
    made = model()
    assert texts(made.ask(ask("a", "b"))) == ["A", "BadRequest"]
    assert counted(made, "calls", "unanswered", "failures", "prompt_tokens") == [[1, 1, 1, 7]]


def test_results_that_nobody_asks_for_now_count_for_their_stage(server, model):
    under_way(model(), "a", "b", "c", stage="rewrite")
    server.complete(answer=lambda body: said("half", "length") if asked(body) == "a" else said("B"))
    made = model()
    assert texts(made.ask(ask("b", stage="rewrite"))) == ["B"]
    assert counted(made, "stage", "calls", "failures") == [["rewrite", 3, 1]]
