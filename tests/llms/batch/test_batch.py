"""Batches: sent once, collected later, and refused by the server."""

import pickle
from types import SimpleNamespace

import pytest
from batches import TEXTS, counted, notes, under_way
from llms.batch_server import DROPPED
from llms.chat_server import KEY, ask, refused, said
from llms.scripted import texts

from pyterrier_ikat.completions.kinds import QUERIES
from pyterrier_ikat.errors import UsageError, commands_advised
from pyterrier_ikat.events import in_chain
from pyterrier_ikat.llms import BatchUnderWay, FatalLLMError, batch, llm
from pyterrier_ikat.llms.failures import Waiting


def test_a_batch_is_sent_once_and_collected_for_half_the_price(server, model, home):
    assert (
        str(under_way(model()))
        == "stage answer: 3 requests wait in 1 batch (batch_0: validating); run the same cell "
        "again later"
    )
    server.progress("batch_0", 2)
    with commands_advised():
        error = under_way(model())
    assert (
        str(error)
        == "stage answer: 3 requests wait in 1 batch (batch_0: in progress, 2 of 3 done); run the "
        "same command again later"
    )
    server.complete()
    made = model()
    assert texts(made.ask(ask(*TEXTS))) == [
        "answer to a",
        "answer to b",
        "answer to c",
    ]  # the lines came the other way round
    assert len(server.batches) == 1
    assert server.calls == 0  # no call of its own
    # 7 tokens in at half of 2 dollars per million, 3 out at half of 10
    assert counted(made, "calls", "known", "prompt_tokens", "completion_tokens", "failures") == [
        [3, 0, 21, 9, 0]
    ]
    assert counted(made, "cost") == [[pytest.approx(3 * (7 * 1 + 3 * 5) / 1e6)]]
    again = model()
    assert texts(again.ask(ask(*TEXTS))) == ["answer to a", "answer to b", "answer to c"]
    assert counted(again, "calls", "known") == [[0, 3]]
    assert notes(home) == []


def test_answers_are_the_same_with_and_without_batches(server, model):
    model("").ask(ask("a"))
    under_way(model(), "a", "b")
    assert server.texts("batch_0") == ["b"]
    server.complete()
    model().ask(ask("a", "b"))
    assert texts(model("").ask(ask("a", "b"))) == ["answer to a", "answer to b"]
    assert server.calls == 1


def test_a_request_is_what_a_call_would_be(server, model):
    request = {"sample": 2, "structure": QUERIES.structure}
    model("temperature=0.5 max_tokens=7 seed=3 structured=on").ask(ask("a", **request))
    under_way(model("temperature=0.5 max_tokens=8 seed=3 structured=on batch=on"), "a", **request)
    (sent,) = (line["body"] for line in server.requests("batch_0"))
    assert sent == server.bodies[0] | {"max_tokens": 8}
    assert sent["response_format"]["json_schema"]["schema"] == QUERIES.structure.schema


def test_requests_asked_twice_are_sent_once_and_each_is_answered(server, model):
    under_way(model(), "a", "b", "a")
    assert sorted(server.texts("batch_0")) == ["a", "b"]
    server.complete()
    made = model()
    assert texts(made.ask(ask("a", "b", "a"))) == ["answer to a", "answer to b", "answer to a"]
    assert counted(made, "calls", "known") == [[2, 1]]


def test_more_requests_later_make_a_batch_of_their_own(server, model):
    under_way(model(), "a")
    both = under_way(model(), "a", "b")
    assert str(both).startswith(
        "stage answer: 2 requests wait in 2 batches (batch_0: validating, batch_1: validating)"
    )
    assert server.texts("batch_1") == ["b"]
    server.end("batch_1")
    left = under_way(model(), "a", "b")
    assert [one.batch for one in left.waiting] == ["batch_0"]
    assert texts(model().ask(ask("b"))) == ["answer to b"]
    server.end("batch_0")
    assert texts(model().ask(ask("a", "b"))) == ["answer to a", "answer to b"]
    assert len(server.sent) == 2


def test_the_other_name_of_max_tokens_is_found_out_by_a_batch(server, model):
    told = (
        "Unsupported parameter: 'max_tokens' is not supported with this model. Use "
        "'max_completion_tokens' instead."
    )
    under_way(model("batch=on max_tokens=9"), "a")
    server.end("batch_0", "completed", lambda body: refused(400, told))
    under_way(model("batch=on max_tokens=9"), "a")
    [line] = server.requests("batch_1")
    assert line["body"]["max_completion_tokens"] == 9
    assert "max_tokens" not in line["body"]
    server.complete()
    # another process, whose next stage does not have to find it out again
    later = model("batch=on max_tokens=9")
    later.ask(ask("a"))
    assert later.backend.body(ask("b")[0])["max_completion_tokens"] == 9


def test_a_refused_batch_says_why_in_one_line_and_is_sent_later(server, model):
    under_way(model())
    server.fail(
        "batch_0",
        ("token_limit_exceeded", "Enqueued token limit reached for m.\nTry again later.", None),
        ("x", "y", 3),
    )
    with pytest.raises(FatalLLMError) as raised:
        model().ask(ask(*TEXTS))
    said_by_it = (
        "Enqueued token limit reached for m. Try again later. (token_limit_exceeded); y (x)"
    )
    left = (
        "(done and kept: 0 calls, left: 3; run again after the repair (finished calls are in the "
        "cache and are not repeated))"
    )
    assert str(raised.value) == f"batch_0 of 3 requests was refused: {said_by_it} {left}"
    under_way(model())
    assert server.texts("batch_1") == list(TEXTS)


@pytest.mark.parametrize(
    ("path", "answer", "message"),
    [
        (
            "/files",
            refused(404, "no route"),
            "(404: no route): check the name, the key and base_url; or omit batch=on",
        ),
        (
            "/files",
            refused(401, "bad key"),
            "does not accept the key in OPENAI_API_KEY (401: bad key)",
        ),
        ("/batches", refused(404, "no route"), "no such address (404: no route)"),
        (
            "/batches",
            refused(400, "billing hard limit"),
            "the server rejects the request (400: billing hard limit)",
        ),
        (
            "/batches",
            refused(403, "no"),
            "does not allow the call with the key in OPENAI_API_KEY (403: no)",
        ),
    ],
)
def test_what_the_server_refuses_is_one_line_and_leaves_nothing(
    server, model, home, path, answer, message
):
    server.refuse["POST", path] = [answer]
    with pytest.raises(FatalLLMError) as raised:
        model().ask(ask(*TEXTS))
    assert message in str(raised.value)
    assert notes(home) == []
    under_way(model())
    assert len(server.batches) == 1


def test_overloaded_servers_are_tried_again(server, model):
    server.refuse = {
        ("POST", "/files"): [refused(429, "slow")],
        ("GET", "/batches"): [refused(429, "slow")],
    }
    under_way(model())
    server.complete()
    assert len(model().ask(ask(*TEXTS))) == 3
    assert len(server.batches) == 1


@pytest.mark.parametrize("removed", ["batch", "results"])
def test_batches_removed_or_not_visible_to_the_key_are_named(server, model, removed):
    under_way(model())
    server.end("batch_0")
    if removed == "batch":
        server.batches.clear()
    else:
        del server.files[server.batches["batch_0"]["output_file_id"]]
    with pytest.raises(
        FatalLLMError,
        match="404: No such object: .*; or .* remove .*batches to ask, and pay for, all that is ",
    ):
        model().ask(ask(*TEXTS))


def test_draws_and_chains_are_requests_of_their_own(server, model):
    def draw():
        return model("batch=on seed=5").ask([ask("a", sample=sample)[0] for sample in range(3)])

    for chain in range(2):
        with in_chain(chain), pytest.raises(BatchUnderWay):
            draw()
    seeds = []
    for number in server.batches:
        seeds += [line["body"]["seed"] for line in server.requests(number)]
    assert seeds == [5, 6, 7, 1005, 1006, 1007]
    server.complete(answer=lambda body: said(f"drawn {body['seed']}"))
    with in_chain(0):
        assert texts(draw()) == ["drawn 5", "drawn 6", "drawn 7"]
    with in_chain(1):
        assert texts(draw()) == ["drawn 1005", "drawn 1006", "drawn 1007"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("openai:m batch=yes", "the LLM option batch is wrong: give on or off"),
        (
            "openai:m batch=on cache=none",
            "batch=on needs a cache file, which keeps what is under way: omit cache=none, or give "
            "cache=FILE",
        ),
        ("openai:m batch=on cache=:memory:", "omit cache=:memory:"),
        ("hf:m batch=on", "unknown LLM option 'batch': hf knows temperature"),
        ("recorded:sample batch=on", "unknown LLM option 'batch': recorded knows on_error"),
    ],
)
def test_what_cannot_be_a_batch_is_one_line(text, message):
    with pytest.raises(UsageError) as raised:
        llm(text)
    assert message in str(raised.value)


def test_no_key_is_on_disk_or_told(server, model, home):
    server.refuse["POST", "/batches"] = [DROPPED]
    told = str(under_way(model()))
    under_way(model(name="n"))
    server.complete(answer=lambda body: said("fine"))
    model(name="n").ask(ask("a"))
    assert KEY not in told
    for path in home.rglob("*"):
        if path.is_file():
            assert KEY.encode() not in path.read_bytes()
    assert f"Bearer {KEY}" in {headers["authorization"] for headers in server.headers}
    assert KEY.encode() not in server.files["file-0"]


def test_what_is_under_way_can_be_sent_to_another_process():
    error = BatchUnderWay([Waiting("answer", 3, "batch_0", "validating")])
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
    made = llm("openai:m batch=on")
    assert pickle.loads(pickle.dumps(made)).batches == made.batches


@pytest.mark.parametrize(
    ("status", "counts", "told"),
    [
        ("in_progress", (4, 1, 2), "in progress, 3 of 4 done"),
        ("in_progress", (0, 0, 0), "in progress"),
        ("finalizing", None, "finalizing"),
    ],
)
def test_a_job_notes_what_the_provider_says(status, counts, told):
    job = batch.Job("file-1", "answer", ["k"], 0, 0.0, 1.0)
    assert job.status == batch.INTERRUPTED
    of_requests = None
    if counts is not None:
        of_requests = SimpleNamespace(total=counts[0], completed=counts[1], failed=counts[2])
    job.note(SimpleNamespace(id="batch_1", status=status, request_counts=of_requests))
    assert (job.batch, job.status) == ("batch_1", told)


def test_the_messages_say_which_requests_wait_where(server, model, home):
    under_way(model(), "a", "b")
    under_way(model(), "c", stage="rewrite")
    waiting = under_way(model(), "b").waiting
    assert waiting == [Waiting("answer", 2, "batch_0", "validating")]
    server.end("batch_0", answer=lambda body: said("half", "length"))
    made = model()
    first, second = made.ask(ask("a", "b"))
    assert [type(one).__name__ for one in (first, second)] == ["CutOff", "CutOff"]
    assert [job["batch"] for job in notes(home)] == ["batch_1"]
    assert (first.qid, second.qid, first.kept) == ("1_1", "1_2", True)


def test_follow_ups_are_sent_as_batches_of_their_own(server, model):
    def then(position, outcome):
        return ask("next")[0] if outcome.text == "answer to a" else None

    made = model()
    with pytest.raises(BatchUnderWay):
        made.ask(ask("a"), then)
    server.complete()
    with pytest.raises(BatchUnderWay):
        model().ask(ask("a"), then)
    assert server.texts("batch_1") == ["next"]
    server.complete()
    assert texts(model().ask(ask("a"), then)) == ["answer to next"]
