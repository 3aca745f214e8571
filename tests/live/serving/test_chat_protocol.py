"""OpenAI's chat protocol: requests, answers, and what never reaches a prompt."""

import asyncio
import json
import re
import threading
import time
from pathlib import Path

import pandas as pd
import pyterrier as pt
import pytest
from fakes import ByPrompt, Types, scripted
from hypothesis import example, given
from hypothesis import strategies as st
from openai.types.chat import ChatCompletion
from talking import PASSAGES, Client, Fails, Talks, events, says, served

import pyterrier_ikat as ikat
from pyterrier_ikat.completions.citations import CitedSentence, read_citations
from pyterrier_ikat.errors import UsageError
from pyterrier_ikat.live.serving.drawing import LONGEST_MARKDOWN, BlockDrawer, as_html
from pyterrier_ikat.live.serving.replies import about
from pyterrier_ikat.live.serving.requests import ChatRequest, read
from pyterrier_ikat.live.serving.service import answer_request, open_served
from pyterrier_ikat.live.serving.streaming import News
from pyterrier_ikat.llms import (
    LLM,
    Backend,
    BudgetExceeded,
    FatalLLMError,
    Ledger,
    Reply,
    StageError,
)
from pyterrier_ikat.llms.failures import Refused, TooLong, Unavailable
from pyterrier_ikat.methods.catalogue import METHODS
from pyterrier_ikat.runs import ShownPassage, Turn
from pyterrier_ikat.study.systems import System


@pytest.fixture(scope="module")
def talks():
    return Talks()


@pytest.fixture(scope="module")
def client(talks):
    ranks = talks >> pt.apply.generic(lambda frame: frame.drop(columns=["used", "qanswer"]))
    return Client(served({"talks": talks, "ranks": ranks}))


def heard(answer):
    """The persona, the history and the question that the system saw."""
    return json.loads(answer["ikat"]["response"])


def content_of(answer):
    return answer["choices"][0]["message"]["content"]


def test_an_answer_has_openai_s_form_and_its_passages(client):
    status, answer = client.chat(says("Which tea?"))
    assert (status, answer["model"], set(answer["usage"].values())) == (200, "talks", {0})
    assert answer["choices"][0]["finish_reason"] == "stop"
    assert content_of(answer) == '[{}, [], "Which tea?"]\n\nSources: [1][2]'
    assert answer["citations"] == [
        {
            "id": "d1-Which tea?",
            "title": PASSAGES["d1"],
            "text": PASSAGES["d1"],
            "score": 2.0,
            "url": "urn:passage:d1-Which%20tea%3F",
        },
        {
            "id": "d2-Which tea?",
            "title": PASSAGES["d2"],
            "text": PASSAGES["d2"],
            "score": 1.0,
            "url": "urn:passage:d2-Which%20tea%3F",
        },
    ]
    assert answer["ikat"].keys() >= {
        "rewrite",
        "queries",
        "statements",
        "draft",
        "seconds",
        "calls",
        "known",
        "tokens",
        "cost",
        "omitted",
    }


U = "user"
A = "assistant"
SAID = [(U, "Tea?"), (A, "Mate.")]
TOLD = [(A, "Hi!"), (U, "Hi"), (U, "Tea?")]
CALL = {"tool_calls": [{"id": "1", "type": "function", "function": {"name": "weather"}}]}
CALLED = [(U, "Tea?"), (A, None, CALL), ("tool", "cold", {"tool_call_id": "1"})]
PARTS = [{"type": "text", "text": "And"}, {"type": "text", "text": "cold?"}]


@pytest.mark.parametrize(
    ("said", "history", "question", "ignored"),
    [
        (
            [("system", "You are a pirate."), *SAID, (U, PARTS)],
            SAID,
            "And\ncold?",
            ["[0] (system)"],
        ),
        # consecutive messages stay, and an empty answer says nothing
        ([*TOLD, (A, None), (U, "And now?")], TOLD, "And now?", ["[3] (assistant)"]),
        # calls of tools and their results are no part of the conversation
        (CALLED, [], "Tea?", ["[1] (assistant)", "[2] (tool)"]),
        ([*CALLED, (A, "Mate."), (U, "Hot?")], SAID, "Hot?", ["[1] (assistant)", "[2] (tool)"]),
    ],
)
def test_messages_are_the_history_and_instructions_are_ignored(
    client, said, history, question, ignored
):
    messages = [{"role": role, "content": text} | dict(*more) for role, text, *more in said]
    asked = {
        "temperature": 0.2,
        "metadata": {"ptkb": ["I like tea."], "chat_id": "7"},
        "top_p": None,
    }
    status, answer = client.chat(says(**asked) | {"messages": messages})
    wanted = [
        {"1": "I like tea."},
        [{"role": role, "content": text} for role, text in history],
        question,
    ]
    assert (status, heard(answer)) == (200, wanted)
    assert answer["ikat"]["ignored"] == [*(f"messages{one}" for one in ignored), "temperature"]


@pytest.mark.parametrize("model", ["talks", "ranks"])
def test_the_additions_of_the_server_are_not_part_of_the_history(client, model):
    _, answer = client.chat(says("Which tea?", model=model))
    _, after = client.chat(says("Which tea?", content_of(answer), "And now?"))
    said = [{"role": "user", "content": "Which tea?"}]
    said += [{"role": "assistant", "content": '[{}, [], "Which tea?"]'}] if model == "talks" else []
    assert heard(after)[1] == said


def test_a_method_without_responses_shows_passage_beginnings(client):
    _, answer = client.chat(says("Which tea?", model="ranks"))
    assert content_of(answer).split("\n\n") == [
        "(This method writes no response. Its best passages:)",
        "[1] Rooibos has no caffeine.",
        "[2] Mint is a herb.",
    ]
    _, _, models = client.ask("GET", "/v1/models")
    writes_response = {one["id"]: one["writes_response"] for one in json.loads(models)["data"]}
    assert writes_response == {"talks": True, "ranks": False}


@pytest.mark.parametrize(
    ("said", "shown", "docnos"),
    [
        ("Rooibos [2].", "Rooibos. [1]", ["d2"]),
        ("Rooibos [2, 1]. Mint [1][7].", "Rooibos. [1][2] Mint. [2]", ["d2", "d1"]),
        ("Rooibos [7].", "Rooibos.", []),
        ("Rooibos in [2023].", "Rooibos in [2023].", []),
    ],
)
def test_what_the_model_cites_is_sent_with_its_passages(said, shown, docnos):
    client = Client(
        served(
            {"talks": Talks("A draft.") >> ikat.Respond(LLM(Types([Reply(said)], [Reply(said)])))}
        )
    )
    _, answer = client.chat(says("Which tea?"))
    assert content_of(answer) == shown
    assert [one["id"][:2] for one in answer["citations"]] == docnos
    facts = answer["ikat"]
    assert (facts["unknown"], facts["cites_none"], len(facts["shown"])) == (
        [7] * ("7]" in said),
        not docnos,
        2 * (not docnos),
    )
    assert "[1]" not in facts["response"]
    *_, last = events(
        client.ask("POST", "/v1/chat/completions", says("Which tea?", stream=True))[2]
    )
    assert last["ikat"]["html"].count("<button") == shown.count("[1]") + shown.count("[2]")


def test_sources_are_annotations_as_openai_sends_them():
    linked = Talks("Rooibos.") >> pt.apply.generic(
        lambda frame: frame.assign(url=["https://tea.example/1", ""] * (len(frame) // 2))
    )
    client = Client(served({"talks": linked}))
    _, answer = client.chat(says("Which tea?"))
    message = answer["choices"][0]["message"]
    cited = [one["url_citation"] for one in message["annotations"]]
    shown = []
    for one in cited:
        mark = message["content"][one["start_index"] : one["end_index"]]
        shown.append((mark, one["url"], one["title"]))
    assert shown == [
        ("[1]", "https://tea.example/1", "Rooibos has no caffeine."),
        ("[2]", "urn:passage:d2-Which%20tea%3F", "Mint is a herb."),
    ]
    ChatCompletion.model_validate(answer, strict=True)
    *_, last = events(
        client.ask("POST", "/v1/chat/completions", says("Which tea?", stream=True))[2]
    )
    assert last["choices"][0]["delta"]["annotations"] == message["annotations"]


@pytest.mark.parametrize(
    ("ptkb", "known"),
    [
        (["I run.", "I cook."], {"1": "I run.", "2": "I cook."}),
        ({"1": "I run.", "b": "I cook."}, {"1": "I run.", "b": "I cook."}),
        ("I run.\n\n I cook. ", {"1": "I run.", "2": "I cook."}),
        ('["I run.", "I cook."]', {"1": "I run.", "2": "I cook."}),
        (None, {}),
        ([], {}),
        ("", {}),
    ],
)
def test_statements_come_in_every_form(client, ptkb, known):
    assert heard(client.chat(says("Which tea?", metadata={"ptkb": ptkb}))[1])[0] == known


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


PASSAGE = pd.DataFrame([{"docno": "d1", "text": PASSAGES["d1"], "score": 1.0, "rank": 0}])
FINDS = pt.apply.generic(lambda turns: turns.merge(PASSAGE, how="cross"))
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


def test_another_answer_to_the_same_words_asks_the_model_anew():
    backend = ByPrompt(respond="Rooibos.")
    backend.replays = False
    client = Client(served({"talks": FINDS >> ikat.Respond(backend.llm)}))
    for sample in ({}, {"sample": 1}, {"sample": 2}):
        assert client.chat(says("Which tea?", **sample))[0] == 200
    assert [request.chain for request in backend.asked] == [0, 1, 2]


def test_a_system_is_described_by_one_sentence_in_plain_words():
    described = {name: about(System(method, FINDS)) for name, method in METHODS.items()}
    assert not [one for one in described.values() if re.search(r"(?i)section|table \d|`", one)]
    for one in described.values():
        assert ". " not in one
        assert one.endswith(".")
    assert described["aqd"] == (
        "AQD: the LLM's answer, up to n queries for it, their results interleaved."
    )
    assert (
        about(System.of(ikat.Answer(ikat.llm("recorded:sample")))) == "Works by drafting an answer."
    )


def shown(text, *numbers):
    return as_html(
        Turn(
            1,
            "",
            text,
            (ShownPassage("d1"), ShownPassage("d2")),
            cited=(CitedSentence(text, numbers),),
        )
    )


def test_markdown_is_drawn_without_html_images_or_odd_links():
    text = (
        "**Rooibos** `no` [a](http://a) [b](javascript:alert(1)) [c](data:text/html,x) "
        "![d](http://d) <img src=x onerror=alert(1)>"
    )
    drawn = shown(text, 1, 2)
    assert re.findall(r"<(\w+)", drawn) == ["p", "strong", "code", "a", "a", "button", "button"]
    assert re.findall('href="(.*?)"', drawn) == ["http://a", "http://d"]
    assert "<td>rooibos</td>" in shown("| tea | caffeine |\n|---|---|\n| rooibos | none |")
    listed = (
        "<p><strong>Teas</strong></p>\n<ul>\n<li>mint</li>\n</ul>\n<ol "
        'start="3">\n<li>three</li>\n</ol>\n'
    )
    assert shown("# Teas\n- mint\n\n3. three") == listed


TEAS = """# Teas
**Rooibos** is *red* 😀. [1][2]

- mint
  - spear mint. [2]
- sage

| tea | caffeine |
|---|---|
| rooibos | none [1] |

Last\n---\n"""


def test_each_block_is_drawn_once_as_the_finished_answer_has_it():
    drawer = BlockDrawer()
    blocks = []
    until = 0
    for end in range(len(TEAS) + 1):
        drawn = drawer.draw(TEAS[:end])
        if drawn is not None:
            blocks.append(drawn.html)
            assert drawn.until > until
            until = drawn.until
    cited = read_citations(TEAS, 2)
    passages = (ShownPassage("d1"), ShownPassage("d2"))
    whole = as_html(Turn(1, "", cited.text, passages, cited=tuple(cited.sentences)))
    assert len(blocks) == 4
    assert whole.startswith("".join(blocks))
    assert TEAS.encode("utf-16-le")[2 * until :].decode("utf-16-le") == "Last\n---\n"


@pytest.mark.parametrize(
    "text", ["**a " * 12000, "> " * 25000, "a\n\n" * 12000, "| a |\n|---|\n" * 3000, "a\rb\n\nc"]
)
def test_hostile_texts_are_drawn_at_once_while_they_are_written(text):
    drawer = BlockDrawer()
    began = time.process_time()
    for end in range(0, len(text), 500):
        drawn = drawer.draw(text[:end])
        assert drawn is None or not re.search("<(b|a|img|script)[ >]", drawn.html)
    assert time.process_time() - began < 10


@pytest.mark.parametrize(
    "attack",
    ['[x](http://a "t{}t")', "[x](http://a{})", "```\n{}", "`{}`", "{}\ue0009\ue001<b>\u202e"],
)
def test_a_mark_of_a_citation_lets_nothing_through(attack):
    drawn = shown(attack.format('"><script>'), 1)
    assert set(re.findall(r"<(\w+)", drawn)) <= {"p", "a", "pre", "code", "button"}
    assert not re.search("[\ue000\ue001\u202e]", drawn)
    assert drawn.count("<button") <= 1


@pytest.mark.parametrize(
    "text",
    [
        "**a " * 12000,
        "`" * 49000,
        "| a |\n|---|\n" * 3000,
        f"| a |\n|{'-' * 49000}x",
        "[" * 25000,
        "> " * 25000,
        "<b>" * LONGEST_MARKDOWN,
    ],
)
def test_hostile_markdown_is_drawn_at_once_and_stays_inert(text):
    began = time.process_time()
    drawn = shown(text)
    assert time.process_time() - began < 10
    assert not re.search("<(b|a|img|script)[ >]", drawn)


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


def test_the_words_of_a_served_response_are_limited():
    model = scripted("One two. Three four.")[0]
    systems = {"talks": FINDS >> ikat.Respond(model), "plain": Talks()}
    opened = open_served(systems, Ledger(), words=3)
    turn = answer_request(opened["talks"], read(ChatRequest, says("Which tea?")))
    assert (turn.response, turn.more) == ("One two.", {"shortened": 3})
    with pytest.raises(UsageError, match="words"):
        open_served({"plain": Talks()}, Ledger(), words=3)


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


def test_a_step_in_another_thread_is_heard():
    async def heard():
        news = News()
        await asyncio.to_thread(news.tell, "searching")
        return news.queue.get_nowait()

    # where it is debugged, a loop refuses what other threads do to it
    assert asyncio.run(heard(), debug=True) == "searching"


TOOL = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather.",
        "parameters": {"type": "object"},
    },
}
REQUESTS = Path(__file__).with_name("client_requests.jsonl").read_text(encoding="utf-8")
RECORDED = [json.loads(line) for line in REQUESTS.splitlines()]


@pytest.mark.parametrize("recorded", RECORDED, ids=lambda one: f"{one['client']}: {one['call']}")
def test_client_requests_are_answered_unless_for_a_call_or_json(client, recorded):
    status, headers, content = client.ask("POST", "/v1/chat/completions", recorded["body"])
    if recorded["refused"]:
        assert (status, json.loads(content)["error"]["param"].partition(".")[0]) == (
            400,
            recorded["refused"],
        )
        return
    assert status == 200
    answer = (
        next(one for one in events(content) if "citations" in one)
        if recorded["body"].get("stream")
        else json.loads(content)
    )
    of_user = [one for one in recorded["body"]["messages"] if one["role"] == "user"]
    assert heard(answer)[2] == of_user[-1]["content"]
    assert ("tools" in answer["ikat"]["ignored"]) == ("tools" in recorded["body"])


REFUSED = [
    (
        says("Which tea?", model="gpt-4"),
        404,
        "model",
        "there is no model 'gpt-4': give one of talks, ranks",
    ),
    (
        says("Which tea?", model="m" * 61),
        404,
        "model",
        f"there is no model '{'m' * 60}': give one of talks, ranks",
    ),
    (
        says("Which tea?", model=None),
        404,
        "model",
        "there is no model 'None': give one of talks, ranks",
    ),
    (says(), 400, "messages", "at least 1 item"),
    (
        says("Hi", "Hello"),
        400,
        "messages",
        "the last message has to be the user's: append the question that is to be answered",
    ),
    (says(" "), 400, "messages", "the last message has to be the user's"),
    (says(*["Hi"] * 1001), 400, "messages", "at most 1000 items"),
    (says("Hi", n=2), 400, "n", "Input should be 1"),
    (
        says("Hi", tools=[TOOL], tool_choice="required"),
        400,
        "tool_choice",
        "Input should be 'auto' or 'none'",
    ),
    (
        says("Hi", tool_choice={"type": "function", "function": {"name": "weather"}}),
        400,
        "tool_choice",
        "Input should be 'auto' or 'none'",
    ),
    (
        says("Hi", functions=[TOOL["function"]], function_call={"name": "weather"}),
        400,
        "function_call",
        "Input should be 'auto' or 'none'",
    ),
    (
        says("Hi", response_format={"type": "json_object"}),
        400,
        "response_format.type",
        "Input should be 'text'",
    ),
    (says("Hi", modalities=["audio"]), 400, "modalities.0", "Input should be 'text'"),
    (says("Hi", logprobs=True), 400, "logprobs", "Input should be False"),
    (says("Hi", audio={"voice": "x"}), 400, "audio", "Input should be null"),
    (says("Hi", sample=-1), 400, "sample", "greater than or equal to 0"),
    (says("Hi", metadata=[1]), 400, "metadata", "Input should be an object"),
    (says("Hi", metadata={"ptkb": [""]}), 400, "metadata.ptkb.1", "at least 1 character"),
    (
        says("Hi", metadata={"ptkb": "[1]"}),
        400,
        "metadata.ptkb.1",
        "Input should be a valid string",
    ),
    (says("Hi", metadata={"ptkb": ["a"] * 501}), 400, "metadata.ptkb", "at most 500 items"),
    (
        says("Hi") | {"messages": [{"role": "robot", "content": "7"}]},
        400,
        "messages.0.role",
        "Input should be 'user', 'assistant'",
    ),
    (
        says("Hi") | {"messages": [{"role": "tool", "content": "7"}]},
        400,
        "messages",
        "the last message has to be the user's",
    ),
    (
        says("Hi") | {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
        400,
        "messages.0.content.0.type",
        "be 'text'",
    ),
    ([], 400, None, "the body: Input should be an object"),
    (b"{", 400, None, "the body: Invalid JSON"),
    (b"\xff", 400, None, "the body: Invalid JSON"),
    (b"[" * 3000, 400, None, "the body: Invalid JSON"),
]


@pytest.mark.parametrize(("body", "status", "param", "message"), REFUSED)
def test_a_request_that_cannot_be_served_says_why(client, body, status, param, message):
    found, answer = client.chat(body)
    assert (found, answer["error"]["param"]) == (status, param)
    assert message in answer["error"]["message"]


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=6,
)
message = st.fixed_dictionaries(
    {},
    optional={
        "role": st.sampled_from(["user", "assistant", "system", "tool"]) | values,
        "content": values,
        "tool_calls": values,
    },
)
bodies = st.fixed_dictionaries(
    {},
    optional={
        "model": st.just("talks") | values,
        "messages": st.lists(message | values, max_size=4) | values,
        "stream": values,
        "metadata": st.fixed_dictionaries({"ptkb": values}) | values,
        "queries": st.lists(st.text(max_size=5), max_size=3) | values,
        "k": values,
        "tools": values,
        "tool_choice": st.fixed_dictionaries(
            {"type": st.just("allowed_tools"), "allowed_tools": values}
        )
        | values,
    },
)


@example(
    "/v1/chat/completions",
    {"model": "talks", "messages": [{"role": "user", "content": "\ud800\x00"}]},
)
@given(st.sampled_from(["/v1/chat/completions", "/search"]), bodies | values)
def test_no_body_makes_the_server_fail(client, path, body):
    status, _, content = client.ask("POST", path, body)
    assert status in (200, 400, 404, 413)
    if status != 200:
        assert json.loads(content)["error"].keys() == {"message", "type", "param", "code"}


@pytest.mark.parametrize(
    ("error", "status", "code", "words", "logged"),
    [
        (
            FatalLLMError("no server answers at http://inner:1"),
            502,
            "llm_unusable",
            "can't be asked",
            "no server answers",
        ),
        (
            StageError("answer", [Unavailable("answer", "1", "503 of http://inner:1")]),
            503,
            "llm_unavailable",
            "ask again later",
            "503",
        ),
        (
            StageError("answer", [Refused("answer", "1", "No xyzzy.")]),
            502,
            "llm_failed",
            "(Refused)",
            "answer: Refused",
        ),
        (
            BudgetExceeded(spent=2.0, budget=1.0, where="runs/inner"),
            402,
            "budget_exceeded",
            "budget of this",
            "runs/inner has cost 2",
        ),
        (
            ikat.DataError("the index /inner/a is gone"),
            500,
            "system_failed",
            "in the log of",
            "the index /inner/a is gone",
        ),
        (KeyError("xyzzy"), 500, "internal_error", "", "unexpected KeyError in transform"),
    ],
)
def test_a_failure_is_told_to_the_reader_its_reason_to_operators(
    caplog, error, status, code, words, logged
):
    found, answer = Client(served({"talks": Fails(error)})).chat(says("My secret word is xyzzy."))
    assert (found, answer["error"]["code"], words in answer["error"]["message"]) == (
        status,
        code,
        True,
    )
    assert not re.search(
        "inner|run it again|run again|on_error|cache|base_url", answer["error"]["message"]
    )
    assert logged in caplog.text
    assert "xyzzy" not in caplog.text + json.dumps(answer)


class Room(Backend):
    """Has room for so many characters of a prompt, and says how many it got."""

    model = "small"
    identity = {"provider": "own", "model": "small", "params": {}}

    def __init__(self, room):
        self.room = room

    def complete(self, requests):
        return [self.reply(len(request.messages[-1]["content"])) for request in requests]

    def reply(self, size):
        return (
            TooLong("answer", "chat_1", f"{size} characters")
            if size > self.room
            else Reply(f"{size}", "small", "stop", 7, 3)
        )


def test_a_turn_sees_8000_tokens_of_history_or_fewer_if_too_long():
    _, answer = Client(served({"talks": Talks("Rooibos.")})).chat(
        says(*["x" * 4000] * 20, "And now?")
    )
    assert answer["ikat"]["omitted"] == 12
    body = says(*["x" * 400] * 20, "And now?", model="small")
    _, answer = Client(served({"small": ikat.Answer(LLM(Room(4000)))})).chat(body)
    assert (
        answer["ikat"]["omitted"],
        answer["usage"]["total_tokens"],
        answer["ikat"]["calls"],
    ) == (16, 10, 1)  # 2000, 1000, 500 tokens
    status, answer = Client(served({"small": ikat.Answer(LLM(Room(1)))})).chat(body)
    assert (status, answer["error"]["code"], answer["error"]["param"]) == (
        400,
        "context_length_exceeded",
        "messages",
    )
    assert answer["error"]["message"].endswith(
        ", even without the history: ask a shorter question, or choose another model"
    )


@pytest.mark.parametrize(
    ("column", "value", "shown"),
    [("text", 5, "5"), ("qanswer", 7, "7"), ("text", None, ""), ("score", float("nan"), None)],
)
def test_cells_of_other_kinds_become_text_and_missing_ones_stay(column, value, shown):
    system = Talks() >> pt.apply.generic(lambda frame: frame.assign(**{column: value}))
    status, answer = Client(served({"talks": system})).chat(says("Hi"))
    found = answer["ikat"]["response"] if column == "qanswer" else answer["citations"][0][column]
    assert (status, found) == (200, shown)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda frame: frame.assign(qid="somebody_1", docno="theirs"),
            "rows of another turn than the one it was asked",
        ),
        (lambda frame: "theirs", "returned a str: its last stage"),
    ],
)
def test_rows_of_another_turn_never_reach_a_client(caplog, change, message):
    answers = Talks() >> pt.apply.generic(lambda frame: change(frame) if len(frame) else frame)
    status, answer = Client(served({"talks": answers})).chat(says("Hi"))
    assert (status, answer["error"]["code"]) == (500, "system_failed")
    assert message in caplog.text
    assert "theirs" not in json.dumps(answer)


def test_each_request_has_a_turn_of_its_own_name(client, talks):
    for _ in range(2):
        client.chat(says("Hi"))
    assert talks.seen[-1]["qid"] != talks.seen[-2]["qid"]


def test_an_error_ends_a_stream():
    client = Client(served({"talks": Fails(FatalLLMError("the key is wrong"))}))
    status, _, content = client.ask("POST", "/v1/chat/completions", says("Hi", stream=True))
    assert (status, events(content)[-1]["error"]["code"]) == (200, "llm_unusable")
    assert content.endswith(b"data: [DONE]\n\n")


@pytest.mark.parametrize(
    ("path", "instead"),
    [
        ("/chat/completions", "POST /v1/chat/completions"),
        ("/v1/responses", "POST /v1/chat/completions"),
        ("/v1/responses/", "OpenAIChatCompletionsModel"),
        ("/v1/completions", "POST /v1/chat/completions"),
        ("/v1/embeddings", "POST /search"),
    ],
)
def test_a_client_at_another_address_is_told_the_right_one(client, path, instead):
    status, answer = client.post(path, {"model": "talks", "input": "Which tea?"})
    assert status == 404
    assert instead in answer["error"]["message"]


@pytest.mark.parametrize(
    "task", ["### Task:\nName this chat.\n<chat_history>\n{}\n</chat_history>", "{}"]
)
def test_what_a_page_asks_for_itself_reaches_no_system(client, talks, task):
    words = task.format(
        "Provide a concise, 5-word-or-less title for the conversation, please.\nUSER: Which tea?"
    )
    before = len(talks.seen)
    status, answer = client.chat(says(words))
    assert (status, answer["error"]["param"], len(talks.seen)) == (400, "messages", before)
    assert client.chat(says("Which tea?", "Rooibos.", words))[0] == 200  # a user's own words
    assert client.chat(says("### Task:\nAnswer from <context>tea</context>: which?"))[0] == 200
