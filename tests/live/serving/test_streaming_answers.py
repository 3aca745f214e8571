"""Answers under way: named, read again, stopped, and told word by word while they are written."""

import asyncio
import json
import re
import threading

import pytest
from fakes import Types
from talking import FINDS, Client, Fails, Talks, content_of, events, says, served

import pyterrier_ikat as ikat
from pyterrier_ikat.live.serving import streaming
from pyterrier_ikat.live.serving.replies import ChatReply, Failure
from pyterrier_ikat.live.serving.requests import ChatRequest, read
from pyterrier_ikat.live.serving.streaming import Answer, Answers, News, stream
from pyterrier_ikat.llms import LLM, FatalLLMError, Reply
from pyterrier_ikat.runs import Turn


def question_named(name, words="Which tea?"):
    return read(ChatRequest, says(words, stream=True, metadata={"answer_id": name}))


def under_way(questions, work):
    """Run work on answers in a loop; ``questions`` are (answer_id, words)."""

    async def go():
        answers = Answers()
        return await work(answers, [question_named(*one) for one in questions])

    return asyncio.run(go())


async def never(tell, write):
    await asyncio.sleep(3600)


def test_an_answer_is_found_by_its_name_and_begun_once():
    async def work(answers, questions):
        mine, same, other = questions
        first = answers.begin(mine, ChatReply("m"), never)
        assert answers.begin(same, ChatReply("m"), never) is first
        assert answers.named("mine") is first
        with pytest.raises(Failure, match=r"metadata\.answer_id") as refused:
            answers.begin(other, ChatReply("m"), never)
        assert (refused.value.status, refused.value.param) == (409, "metadata.answer_id")
        unnamed = [
            answers.begin(question_named(""), ChatReply("m"), never),
            answers.begin(question_named(""), ChatReply("m"), never),
        ]
        assert unnamed[0] is not unnamed[1]
        with pytest.raises(Failure) as refused:
            answers.named("")
        assert (refused.value.status, refused.value.code) == (404, "answer_not_found")
        answers.stop("mine")
        answers.stop("mine")
        await asyncio.sleep(0)
        assert first.job.cancelled()
        with pytest.raises(Failure, match="the answer was stopped"):
            first.turn()
        assert not answers.begin(other, ChatReply("m"), never).job.done()

    under_way([("mine",), ("mine",), ("mine", "And hot?")], work)


@pytest.mark.parametrize(("name", "goes_on"), [("mine", True), ("", False)])
def test_work_goes_on_for_a_named_answer_without_readers(monkeypatch, name, goes_on):
    monkeypatch.setattr(streaming, "PATIENCE", 0.05)

    async def work(answers, questions):
        answer = answers.begin(questions[0], ChatReply("m"), never)
        first = answer.begin_reading()
        second = answer.begin_reading()
        answers.leave(answer, first)
        await asyncio.sleep(0.1)
        assert answer.is_read
        assert not answer.job.done()  # the other reader is still there
        answers.leave(answer, second)
        assert not answer.is_read
        await asyncio.sleep(0)
        assert answer.job.done() is not goes_on
        await asyncio.sleep(0.1)
        assert answer.job.cancelled()
        with pytest.raises(Failure):
            answers.named("mine")

    under_way([(name,)], work)


def test_an_answer_that_nobody_reads_at_all_is_forgotten(monkeypatch):
    monkeypatch.setattr(streaming, "PATIENCE", 0.05)

    async def work(answers, questions):
        answer = answers.begin(questions[0], ChatReply("m"), never)
        await asyncio.sleep(0)
        assert not answer.job.done()
        await asyncio.sleep(0.1)
        assert answer.job.cancelled()

    under_way([("",)], work)


def test_a_named_answer_is_read_again_and_stopped(two_models):
    asked = says("Which tea?", stream=True, metadata={"answer_id": "mine"})
    status, _, _ = two_models.ask("POST", "/v1/chat/completions", asked)
    assert status == 200
    assert two_models.ask("DELETE", "/answers/none")[0] == 204
    assert two_models.ask("PUT", "/answers/mine")[0] == 405


def test_a_name_given_again_after_a_stop_is_kept(monkeypatch):
    """The first answer's time is up while the second one of its name is read."""
    monkeypatch.setattr(streaming, "PATIENCE", 0.03)

    async def never(tell, write):
        await asyncio.sleep(3600)

    async def go():
        answers = Answers()
        question = read(ChatRequest, says("Tea?", stream=True, metadata={"answer_id": "mine"}))
        first = answers.begin(question, ChatReply("m"), never)
        answers.stop("mine")
        second = answers.begin(question, ChatReply("m"), never)
        second.begin_reading()
        await asyncio.sleep(0.06)
        assert first.job.cancelled()
        assert answers.named("mine") is second
        answers.stop("mine")

    asyncio.run(go())


def test_a_late_reader_begins_with_step_and_text_so_far():
    async def work(answers, questions):
        calls = {}

        async def begin(tell, write):
            calls.update(tell=tell, write=write)
            await asyncio.sleep(3600)

        question = questions[0].model_copy(update={"stream_unchecked": True})
        answer = Answer(question, ChatReply("m"), begin)
        await asyncio.sleep(0)
        early = answer.begin_reading()
        for text in ("Mi", "Mint"):
            calls["write"](text)
        calls["tell"]("answering")
        late = answer.begin_reading()
        await asyncio.sleep(0)
        told = []
        for news in (early, late):
            steps = [news.queue.get_nowait() for _ in range(news.queue.qsize())]
            told.append((steps, news.take()))
        answer.end_reading(early)
        calls["write"]("Mint.")
        await asyncio.sleep(0)
        assert (early.queue.qsize(), late.take()) == (0, "Mint.")
        answer.job.cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        left = [late.queue.get_nowait() for _ in range(late.queue.qsize())]
        assert left == ["", None]
        ended = answer.begin_reading()
        await asyncio.sleep(0)
        assert {ended.queue.get_nowait() for _ in range(ended.queue.qsize())} == {
            "answering",
            "",
            None,
        }
        return told

    told = under_way([("mine",)], work)
    assert told == [(["", "answering"], "Mint"), (["answering", ""], "Mint")]


# What is written and taken back


@pytest.mark.parametrize("unchecked", [True, False])
def test_words_are_written_only_where_they_are_wanted(unchecked):
    async def work(answers, questions):
        given = []

        async def begin(tell, write):
            given.append(write)
            return Turn(1, "Which tea?", "Mint.")

        question = questions[0].model_copy(update={"stream_unchecked": unchecked})
        answer = answers.begin(question, ChatReply("m"), begin)
        chunks = [event["data"] async for event in stream(answers, answer)]
        assert (given[0] is not None) is unchecked
        assert not answer.is_read
        return chunks

    *chunks, last = under_way([("",)], work)
    assert last == "[DONE]"
    deltas = [json.loads(chunk)["choices"][0]["delta"] for chunk in chunks]
    assert deltas == [
        {"role": "assistant", "content": ""},
        {"content": "Mint."},
        {"annotations": []},
    ]


READ = object()
"""In the place of a text: the model waits until the client has read a word."""


def types(*texts, **options):
    """A client of a server whose model writes these texts, and then the last one."""
    read = threading.Semaphore(0)

    def wait():
        assert read.acquire(timeout=60)

    written = []
    for text in texts[:-1]:
        written.append(wait if text is READ else text)
    model = LLM(Types([*written, Reply(texts[-1])]))
    system = FINDS >> ikat.Respond(model, **options)

    def came(part):
        if re.search(rb'"content":"[^"]', part):
            read.release()

    return Client(served({"talks": system}), came), model.backend


def told(client, **more):
    """The events of a stream, in short: words, what they are taken back for, and how it ended."""
    _, _, content = client.ask(
        "POST", "/v1/chat/completions", says("Which tea?", stream=True, **more)
    )
    found = []
    for one in events(content):
        choice = (one.get("choices") or [{"delta": {}, "finish_reason": None}])[0]
        replaced = one.get("ikat", {}).get("replaced")
        failed = one.get("error", {}).get("code")
        found += filter(
            None,
            [
                choice["delta"].get("content"),
                replaced and {"replaced": replaced},
                choice["finish_reason"],
                failed,
            ],
        )
    return found


def test_no_word_is_sent_unchecked_unless_the_request_wants_it():
    client, backend = types("Half of an answer that", "Rooibos.")
    assert told(client) == ["Rooibos.", "stop"]
    assert backend.followed == []
    client, backend = types("Roo", READ, "Rooibos", READ, "Rooibos [1].")
    assert told(client, stream_unchecked=True) == ["Roo", "ibos", ". [1]", "stop"]
    assert backend.followed == ["respond"]
    status, answer = types("Roo", "Rooibos [1].")[0].chat(
        says("Which tea?", stream_unchecked=True)
    )  # no stream: nothing to send early
    assert (status, content_of(answer)) == (200, "Rooibos. [1]")


@pytest.mark.parametrize(
    ("texts", "options", "wanted"),
    [
        (
            ("One [1]. Two", READ, "One [1]. Two three."),
            {"words": 2},
            ["One. [1] Two", {"replaced": "shortened to 2 words"}, "One. [1]", "stop"],
        ),
        (
            (
                "Mint [1].\n",
                READ,
                "Mint [1].\n-",
                "Mint [1].\n- It",
                READ,
                "Mint [1].\n- It cools.",
            ),
            {},
            ["Mint.", " [1]\n- It", " cools.", "stop"],
        ),
        (
            ("Roo", READ, "", "Mint", READ, "Mint [1]."),
            {},
            ["Roo", {"replaced": "the model is rewriting its answer"}, "Mint", ". [1]", "stop"],
        ),
        (
            ("One [1]. Two", READ, "One [1]. Two three", READ, "One [1]. Two three."),
            {"words": 2},
            ["One. [1] Two", {"replaced": "it is shortened"}, "One. [1]", "stop"],
        ),
        (("I", READ, "I'm sorry, but I can't help with that."), {}, ["I", "llm_failed"]),
    ],
)
def test_unchecked_words_are_taken_back_with_the_reason(texts, options, wanted):
    assert told(types(*texts, **options)[0], stream_unchecked=True) == wanted


def streamed(texts, end, **fields):
    """The objects of a stream while which these texts are written, and then comes the turn."""

    async def go():
        answers = Answers()

        async def work(tell, write):
            for text in texts:
                write(text)
                for _ in range(20):  # the reader's turns, however slow the machine is
                    await asyncio.sleep(0)
            if isinstance(end, Exception):
                raise end
            return end

        question = read(ChatRequest, says("Tea?", stream=True, stream_unchecked=True, **fields))
        answer = answers.begin(question, ChatReply("m"), work)
        return [event["data"] async for event in stream(answers, answer)]

    *chunks, last = asyncio.run(go())
    assert last == "[DONE]"
    return [json.loads(chunk) for chunk in chunks]


def changes(chunks):
    """What is added to the text, and why it is taken back."""
    changed = []
    for chunk in chunks[1:]:
        for choice in chunk.get("choices", []):
            if "content" in choice["delta"]:
                changed.append(choice["delta"]["content"])
        if list(chunk.get("ikat", {})) == ["replaced"]:
            changed.append((chunk["ikat"]["replaced"],))
    return changed


@pytest.mark.parametrize(
    ("texts", "told"),
    [
        (("Mint", "Mint tea"), ["Mint", " tea", "."]),
        (("Mint tea.", "Mint"), ["Mint tea.", ("it is shortened",), "Mint", " tea."]),
        (("Mint", "", "Mi"), ["Mint", ("the model is rewriting its answer",), "Mi", "nt tea."]),
        (("Sage", "Mint"), ["Sage", ("the model is rewriting its answer",), "Mint", " tea."]),
        (("Sage",), ["Sage", ("it is down",), "Mint tea."]),
        ((), ["Mint tea."]),
    ],
)
def test_what_is_taken_back_is_said_with_its_reason(texts, told):
    more = {"replaced": "it is down"} if texts == ("Sage",) else {}
    chunks = streamed(texts, Turn(1, "Tea?", "Mint tea.", more=more))
    assert changes(chunks) == told
    assert chunks[-1]["ikat"]["replaced"] == more.get("replaced", "")
    assert chunks[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert len({chunk["id"] for chunk in chunks}) == 1


def test_a_text_written_faster_than_it_is_read_waits_once():
    async def queued():
        news = News()
        for number in range(1000):
            news.write("word " * number)
        await asyncio.sleep(0)  # what other threads put is in the queue
        told = [news.queue.qsize(), len(news.take().split())]
        news.write("Mint")
        await asyncio.sleep(0)
        return [*told, news.queue.qsize(), news.take()]

    assert asyncio.run(queued()) == [1, 999, 2, "Mint"]


# Steps and ends


def test_a_stream_tells_its_steps_and_then_the_checked_answer(client):
    body = says("Which tea?", stream=True, stream_options={"include_usage": True})
    status, headers, content = client.ask("POST", "/v1/chat/completions", body)
    assert (status, headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
    chunks = events(content)
    assert content.endswith(b"data: [DONE]\n\n")
    assert {(chunk["object"], chunk["id"]) for chunk in chunks} == {
        ("chat.completion.chunk", chunks[0]["id"])
    }
    deltas = [chunk["choices"][0]["delta"].get("content", "") for chunk in chunks[:-1]]
    steps = [chunk["ikat"]["activity"] for chunk in chunks if "activity" in chunk.get("ikat", {})]
    assert steps == ["running Talks"]
    assert deltas[: len(steps) + 1] == [""] * (len(steps) + 1)
    assert "".join(deltas) == '[{}, [], "Which tea?"]\n\nSources: [1][2]'
    last, usage = chunks[-2:]
    assert (
        last["choices"][0]["finish_reason"],
        len(last["citations"]),
        last["ikat"]["method"],
    ) == ("stop", 2, "talks")
    assert (usage["choices"], usage["usage"]["total_tokens"]) == ([], 0)


def test_a_step_in_another_thread_is_heard():
    async def heard():
        news = News()
        await asyncio.to_thread(news.tell, "searching")
        return news.queue.get_nowait()

    # where it is debugged, a loop refuses what other threads do to it
    assert asyncio.run(heard(), debug=True) == "searching"


def test_a_stream_ends_with_its_error_or_with_the_tokens():
    failed = streamed(("Mint",), Failure(404, "gone"), stream_options={"include_usage": True})
    assert [list(chunk) for chunk in failed[-1:]] == [["error"]]
    assert changes(failed) == ["Mint"]
    turn = Turn(1, "Tea?", "Mint.")
    whole = streamed((), turn, stream_options={"include_usage": True})
    assert (whole[-1]["choices"], "usage" in whole[-1]) == ([], True)
    assert whole[-2]["choices"][0]["finish_reason"] == "stop"
    for options in (None, {}, {"include_usage": False}):
        assert "usage" not in streamed((), turn, stream_options=options)[-1]


def test_an_error_ends_a_stream():
    client = Client(served({"talks": Fails(FatalLLMError("the key is wrong"))}))
    status, _, content = client.ask("POST", "/v1/chat/completions", says("Hi", stream=True))
    assert (status, events(content)[-1]["error"]["code"]) == (200, "llm_unusable")
    assert content.endswith(b"data: [DONE]\n\n")


def test_events_and_addresses_of_a_passage_stay_whole():
    client = Client(served({"talks": Talks("Mint.")}))
    _, _, content = client.ask("POST", "/v1/chat/completions", says("Hi", stream=True))
    *_, last = events(content)
    assert [passage["id"] for passage in last["citations"]] == ["d1-Hi", "d2-Hi"]
    assert [passage["url"] for passage in last["citations"]] == [
        "urn:passage:d1-Hi",
        "urn:passage:d2-Hi",
    ]
