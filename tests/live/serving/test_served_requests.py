"""Requests to a server, answers under way, searches and names of conversations, part by part."""

import asyncio
import json
import logging
import re
from dataclasses import replace
from types import SimpleNamespace

import pandas as pd
import pyterrier as pt
import pytest
from talking import Client, Fails, Talks, events, says, served

import pyterrier_ikat as ikat
from pyterrier_ikat.completions.citations import CitedSentence
from pyterrier_ikat.errors import UsageError
from pyterrier_ikat.live.serving import server, service, streaming
from pyterrier_ikat.live.serving.drawing import BlockDrawer, as_html
from pyterrier_ikat.live.serving.passages import PassageAddresses, passage_page
from pyterrier_ikat.live.serving.replies import ChatReply, Failure, model_object
from pyterrier_ikat.live.serving.requests import ChatRequest, SearchRequest, read
from pyterrier_ikat.live.serving.searching import search_facts, stage_for_client
from pyterrier_ikat.live.serving.service import exchanges, open_served, safe_name, search
from pyterrier_ikat.live.serving.streaming import Answer, Answers, stream
from pyterrier_ikat.llms import Ledger
from pyterrier_ikat.runs import Log, ShownPassage, Turn
from pyterrier_ikat.study.systems import System

TOKEN = "a-token-of-twenty-signs"


@pytest.fixture(scope="module")
def client():
    return Client(served({"talks": Talks("Rooibos."), "other": Talks("Mate.")}))


# Addresses and headers


def test_models_are_listed_and_found_by_name(client):
    status, _, content = client.ask("GET", "/v1/models")
    listed = json.loads(content)
    assert (status, listed["object"]) == (200, "list")
    assert [model["id"] for model in listed["data"]] == ["talks", "other"]
    status, _, content = client.ask("GET", "/v1/models/other")
    assert (status, json.loads(content)) == (200, listed["data"][1])
    status, _, content = client.ask("GET", "/v1/models/none")
    error = json.loads(content)["error"]
    assert (status, error["code"], error["param"]) == (404, "model_not_found", "model")
    assert "'none': give one of talks, other" in error["message"]


def test_only_a_single_model_needs_no_name(client):
    body = {"messages": [{"role": "user", "content": "Which tea?"}]}
    status, answer = client.chat(body)
    assert (status, answer["error"]["param"]) == (404, "model")
    status, answer = Client(served({"mine": Talks("Mint.")})).chat(body)
    assert (status, answer["model"], answer["ikat"]["response"]) == (200, "mine", "Mint.")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"authorization": f"Bearer {TOKEN}"}, 200),
        ({"authorization": f"bearer   {TOKEN} "}, 200),
        ({"authorization": f"Basic {TOKEN}"}, 401),
        ({"authorization": TOKEN}, 401),
        ({"content-type": "Application/JSON; charset=utf-8"}, 401),
    ],
)
def test_the_scheme_of_a_token_is_bearer(headers, status):
    guarded = Client(served(token=TOKEN))
    assert guarded.ask("GET", "/v1/models", headers=headers)[0] == status


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("application/json", 200),
        ("Application/JSON; charset=utf-8", 200),
        (" application/json ", 200),
        ("application/json-seq", 415),
        ("text/json", 415),
    ],
)
def test_a_body_has_to_be_of_json_type(client, kind, status):
    assert client.chat(says("Hi"), headers={"content-type": kind})[0] == status


def test_a_stream_is_kept_by_no_proxy(client):
    body = says("Hi", stream=True)
    _, headers, content = client.ask("POST", "/v1/chat/completions", body)
    assert headers["cache-control"] == "no-store"
    assert "usage" not in events(content)[-1]
    assert client.ask("GET", "/answers/none")[0] == 404


# Requests


def asked(*messages, **fields):
    return read(ChatRequest, {"messages": list(messages), **fields})


def of(role, content, **more):
    return {"role": role, "content": content, **more}


TEA = of("user", "Which tea?")


@pytest.mark.parametrize(
    ("ptkb", "statements"),
    [
        ('{"a": "I run.", "b": " I cook. "}', {"a": "I run.", "b": "I cook."}),
        (' ["I run."]', {"1": "I run."}),
        ("I run.\n\nI cook.", {"1": "I run.", "2": "I cook."}),
        ({}, {}),
        (None, {}),
    ],
)
def test_statements_may_be_json_in_a_text(ptkb, statements):
    assert asked(TEA, metadata={"ptkb": ptkb}).metadata.ptkb == statements


def test_an_empty_metadata_field_says_nothing():
    request = asked(TEA, metadata=None)
    assert (request.metadata.ptkb, request.metadata.chat_id, request.ignored) == ({}, "", [])


@pytest.mark.parametrize("call", ["tool_calls", "function_call"])
def test_what_an_assistant_says_beside_a_call_is_not_heard(call):
    request = asked(TEA, of("assistant", "I look.", **{call: {"name": "x"}}), of("user", "Hot?"))
    assert [message["content"] for message in request.said] == ["Which tea?", "Hot?"]
    said = asked(TEA, of("assistant", "Mint.", **{call: None}), of("user", "Hot?")).said
    assert [message["content"] for message in said] == ["Which tea?", "Mint.", "Hot?"]


@pytest.mark.parametrize(
    "messages",
    [
        [TEA, of("assistant", "")],
        [TEA, of("assistant", "Mint.")],
        [TEA, of("assistant", "Mint."), of("user", "  ")],
        [of("system", "Be short.")],
    ],
)
def test_the_last_words_are_the_users(messages):
    with pytest.raises(Failure, match="append the question") as refused:
        asked(*messages)
    assert refused.value.param == "messages"
    assert asked(TEA, of("system", "Be short.")).said == [TEA]


@pytest.mark.parametrize("said", ["### Task:\nTags!\n<chat_history>x", "### Task:\nTags!\n"])
def test_a_pages_own_request_has_the_history_in_it(said):
    if "<chat_history>" not in said:
        assert asked(of("user", said)).said[-1]["content"] == said.strip()
        return
    with pytest.raises(Failure, match="a chat page's own request"):
        asked(of("user", said))
    assert asked(TEA, of("user", said)).said[-1]["content"] == said


def test_exchanges_join_what_one_side_says():
    said = [
        of("assistant", "Hello!"),
        TEA,
        of("assistant", "Mint."),
        of("assistant", "Or sage."),
        of("user", "Hot?"),
        of("user", "Or cold?"),
    ]
    assert list(exchanges(said)) == [
        ("Which tea?", "Mint.\nOr sage."),
        ("Hot?", ""),
        ("Or cold?", ""),
    ]
    assert list(exchanges(said[:1])) == []


@pytest.mark.parametrize(
    ("name", "is_kept"),
    [("a", True), ("7.x_-y", True), ("a" * 100, True), ("a" * 101, False), ("-a", False)]
    + [(".a", False), ("a b", False), ("é", False), ("a\n", False)],
)
def test_a_name_is_kept_if_it_can_be_part_of_a_qid(name, is_kept):
    safe = safe_name(name)
    if is_kept:
        assert safe == name
        return
    beginning = re.sub("[^A-Za-z0-9]+", "-", name).strip("-")[:60] or "chat"
    assert re.fullmatch(f"{re.escape(beginning)}-[0-9a-f]{{16}}", safe)
    assert safe_name(f"{name}!") != safe


def test_the_body_names_a_conversation_before_the_header(tmp_path):
    made = served({"talks": Talks("Mint.")}, out=tmp_path)
    named = says("Which tea?", metadata={"chat_id": "body"})
    Client(made).chat(named, headers={"x-openwebui-chat-id": "header"})
    Client(made).chat(says("Which tea?"), headers={"x-openwebui-chat-id": "header"})
    made.state.saved.close()
    assert list(Log(tmp_path / "talks").known) == ["body", "header"]


def test_a_streamed_answer_is_saved_too(tmp_path):
    made = served({"talks": Talks("Mint.")}, out=tmp_path)
    body = says("Which tea?", stream=True, metadata={"chat_id": "mine", "theme": "dark"})
    _, _, content = Client(made).ask("POST", "/v1/chat/completions", body)
    facts = events(content)[-1]["ikat"]
    assert (facts["saved"], facts["ignored"]) == (True, ["metadata.theme"])
    made.state.saved.close()
    [dialogue] = Log(tmp_path / "talks").dialogues()
    assert [turn.response for turn in dialogue.turns] == ["Mint."]
    assert Log(tmp_path / "talks").header["recorded"] is False


def test_a_named_answer_is_read_again_and_stopped(client):
    asked = says("Which tea?", stream=True, metadata={"answer_id": "mine"})
    status, _, _ = client.ask("POST", "/v1/chat/completions", asked)
    assert status == 200
    assert client.ask("DELETE", "/answers/none")[0] == 204
    assert client.ask("PUT", "/answers/mine")[0] == 405


def test_a_system_that_exits_ends_only_its_answer(caplog):
    client = Client(served({"talks": Fails(SystemExit(3)), "other": Talks("Mint.")}))
    with caplog.at_level(logging.ERROR, "pyterrier_ikat.live.serving"):
        status, answer = client.chat(says("Which tea?"))
    assert (status, answer["error"]["code"]) == (500, "internal_error")
    assert "unexpected SystemExit in transform" in caplog.text
    assert client.chat(says("Which tea?", model="other"))[0] == 200


# Searches


class Ranked(pt.Transformer):
    """Two passages of each query, the second row first."""

    def transform(self, inp):
        rows = []
        for qid, query in zip(inp["qid"], inp["query"], strict=True):
            for rank in (1, 0):
                about = {"docno": rank, "score": 2 - rank, "rank": rank, "text": f"{query} {rank}"}
                rows.append({"qid": qid, "query": query, **about})
        return pd.DataFrame(rows, columns=["qid", "query", "docno", "score", "rank", "text"])


def test_passages_of_each_query_are_in_the_order_of_their_ranks():
    system = System.of(Ranked(), "mine")
    answer = search(system, read(SearchRequest, {"queries": ["tea", " ", "mint"], "k": 2}))
    assert answer["model"] == "mine"
    of_tea, of_blank, of_mint = answer["results"]
    assert of_tea == {
        "query": "tea",
        "passages": [
            {"id": "0", "score": 2.0, "text": "tea 0"},
            {"id": "1", "score": 1.0, "text": "tea 1"},
        ],
    }
    assert of_blank == {"query": " ", "passages": []}
    assert of_mint == {
        "query": "mint",
        "passages": [
            {"id": "0", "score": 2.0, "text": "mint 0"},
            {"id": "1", "score": 1.0, "text": "mint 1"},
        ],
    }
    plain = search(system, read(SearchRequest, {"query": "tea", "k": 1, "texts": False}))
    assert plain["results"] == [{"query": "tea", "passages": [{"id": "0", "score": 2.0}]}]


def test_a_system_that_does_not_search_says_so():
    system = System.of(ikat.RawUtterance(), "mine")
    with pytest.raises(Failure, match="mine has no stage that searches") as refused:
        search(system, read(SearchRequest, {"query": "tea"}))
    assert (refused.value.status, refused.value.param) == (400, "model")
    nothing = {"stage": None, "fingerprint": None, "bm25": False, "depth": None}
    assert search_facts(system) == nothing


def test_a_first_stage_takes_a_clients_depth_and_parameters(sample_index):
    index = ikat.PassageIndex(sample_index)
    system = System.of(ikat.RawUtterance() >> index.bm25(num_results=5, k1=0.8, b=0.3), "mine")
    facts = search_facts(system)
    assert (facts["bm25"], facts["depth"], "BM25" in facts["stage"]) == (True, None, True)
    deeper = System.of(index.bm25(num_results=7, k1=0.8, b=0.3), "other")
    assert search_facts(deeper)["fingerprint"] == facts["fingerprint"]  # the depth is the client's
    other = System.of(index.bm25(num_results=5, k1=0.8, b=0.4), "other")
    assert search_facts(other)["fingerprint"] != facts["fingerprint"]
    for given, expected in [
        ({}, (0.8, 0.3)),
        ({"k1": 0.0}, (0.0, 0.3)),
        ({"b": 0.0}, (0.8, 0.0)),
        ({"k1": 1.2, "b": 0.7}, (1.2, 0.7)),
    ]:
        stage, cutoff = stage_for_client(system, 3, **given)
        assert (stage.k1, stage.b, stage.num_results, cutoff.k) == (*expected, 3, 3)
    foreign = System.of(Ranked(), "foreign")
    assert search_facts(foreign)["bm25"] is False
    assert stage_for_client(foreign, 4)[1].k == 4
    for given in ({"k1": 0.0}, {"b": 0.0}):
        with pytest.raises(UsageError, match="foreign searches with .* takes no k1 and b"):
            stage_for_client(foreign, 4, **given)


# Answers under way


def under_way(questions, work):
    """Run work on answers in a loop; ``questions`` are (answer_id, words)."""

    async def go():
        answers = Answers()
        return await work(answers, [question_named(*one) for one in questions])

    return asyncio.run(go())


def question_named(name, words="Which tea?"):
    return read(ChatRequest, says(words, stream=True, metadata={"answer_id": name}))


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


# Drawn answers


def test_blocks_of_another_text_begin_anew():
    drawer = BlockDrawer()
    assert drawer.draw("One.\n\nTwo") == ("<p>One.</p>\n", 6)
    assert drawer.draw("One.\n\nTwo") is None
    assert BlockDrawer().draw("\n\nOne") is None
    assert drawer.draw("One.\n\nTwo.\n\n\n# Three") == ("<p>Two.</p>\n", 13)
    assert drawer.draw("Other.\n\nTwo") == ("<p>Other.</p>\n", 8)
    assert drawer.draw("Other.\r\n\r\nTwo\n\nThree") is None
    drawn = drawer.draw("😀 See [1] and [2][12]\n\nEnd")
    assert re.sub("<button[^>]*>([0-9]+)</button>", r"(\1)", drawn.html) == (
        "<p>😀 See (1) and (2)(12)</p>\n"
    )
    assert drawn.until == 2 + len(" See [1] and [2][12]\n\n")  # in units of UTF-16


def test_citations_in_code_and_behind_a_row_stay_in_place():
    passages = (ShownPassage("d1"),)
    code = as_html(Turn(1, "?", "`x`", passages, cited=(CitedSentence("`x", (1,)),)))
    assert "<code>x [1]</code>" in code
    assert as_html(Turn(1, "?", "", passages)).strip().endswith("1</button></p>")
    table = "| tea |\n|:-:|\n| mint |"
    drawn = as_html(Turn(1, "?", table, passages, cited=(CitedSentence(table, (1,)),)))
    assert '<th align="center">tea</th>' in drawn
    assert "style=" not in drawn
    assert re.search(r"<td[^>]*>mint <button[^>]*>1</button></td>", drawn)
    assert "<br" in as_html(Turn(1, "?", "one\ntwo"))
    assert as_html(Turn(1, "?", "[a](HTTPS://a) [b](ftp://b)")).count("<a ") == 1


def test_a_passage_is_shown_as_text():
    page = passage_page("<d&1>", "a < b\n& c")
    assert page.count("&lt;d&amp;1&gt;") == 2
    assert "a &lt; b\n&amp; c" in page
    assert "<d&1>" not in page


@pytest.mark.parametrize(
    "url",
    [
        "https://me@host.example",
        "https://:word@host.example",
        "https://host.example/#part",
        "https://host.example?x=1",
        "https://höst.example",
        "//host.example",
    ],
)
def test_an_address_of_a_server_has_a_path_alone(url):
    with pytest.raises(UsageError, match="is no address of this server"):
        PassageAddresses(url, None)
    assert PassageAddresses("http://host.example:81/a//", None).base == "http://host.example:81/a"


def test_an_address_names_passage_and_system_once():
    addresses = PassageAddresses("https://host.example", TOKEN)
    url = addresses.of("a/b&c=d", "d/1?x#y&z")
    path, _, query = url.removeprefix("https://host.example/passages/").partition("?")
    assert path == "d%2F1%3Fx%23y%26z"
    model, signature = query.split("&")
    assert model == "model=a%2Fb%26c%3Dd"
    assert re.fullmatch("signature=[0-9a-f]{32}", signature)


# The server


@pytest.mark.parametrize(
    ("host", "token", "is_refused"),
    [
        ("127.0.0.1", None, False),
        ("localhost", None, False),
        ("::1", None, False),
        ("0.0.0.0", None, True),
        ("192.168.0.7", None, True),
        ("0.0.0.0", TOKEN, False),
        ("127.0.0.1", "x" * 15, True),
        ("127.0.0.1", "x" * 16, False),
    ],
)
def test_other_machines_need_a_token(monkeypatch, host, token, is_refused):
    for name in ("IKAT_SERVE_TOKEN", "IKAT_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    if is_refused:
        with pytest.raises(UsageError, match="export IKAT_SERVE_TOKEN="):
            server._token(host, token)
        return
    assert server._token(host, token)[0] == token


def test_a_token_given_comes_before_that_of_the_environment(monkeypatch):
    monkeypatch.setenv("IKAT_SERVE_TOKEN", "of-the-environment")
    assert server._token("0.0.0.0", None)[0] == "of-the-environment"
    assert server._token("0.0.0.0", TOKEN)[0] == TOKEN
    assert server._token("127.0.0.1", "")[0] is None  # an explicit empty one


def conversation_of(words):
    return SimpleNamespace(turns=[SimpleNamespace(utterance=words)])


def test_a_model_is_described_with_three_of_its_examples(sample_index):
    model = ikat.llm("recorded:sample")
    pipeline = ikat.Answer(model) >> ikat.PassageIndex(sample_index).bm25()
    opened = open_served({"mine": pipeline}, Ledger())
    described = model_object(opened["mine"], 7)
    first = [chat.turns[0].utterance for chat in ikat.dataset("ikat:sample").conversations]
    assert described["examples"] == list(dict.fromkeys(first))[:3]
    chats = tuple(conversation_of(words) for words in ("a", "b", "a", "c", "d"))
    assert model_object(replace(opened["mine"], recorded=chats), 7)["examples"] == ["a", "b", "c"]
    assert (described["id"], described["created"], described["object"]) == ("mine", 7, "model")
    assert described["search"]["bm25"] is True
    assert model_object(System.of(Talks(), "talks"), 7)["examples"] == []


def test_recorded_completions_of_another_file_need_their_dataset(tmp_path):
    recorded = tmp_path / "recorded.jsonl"
    recorded.write_text('{"qid": "1-1_1", "stage": "answer", "model": "m", "completion": "Tea."}\n')
    systems = {"mine": ikat.Answer(ikat.llm(f"recorded:{recorded}"))}
    with pytest.raises(UsageError, match="are recorded for a dataset's turns: name it"):
        open_served(systems, Ledger())
    opened = open_served(systems, Ledger(), dataset="ikat:sample")
    assert len(opened["mine"].recorded) == 4
    assert open_served({"talks": Talks()}, Ledger(), dataset="ikat:sample")["talks"].recorded == ()


# Saved conversations


def test_a_topics_file_that_cannot_be_written_is_told(tmp_path, monkeypatch, caplog):
    made = served({"talks": Talks("Mint.")}, out=tmp_path)
    Client(made).chat(says("Which tea?", metadata={"chat_id": "mine"}))

    def full(*_):
        raise UsageError("the disk is full")

    monkeypatch.setattr(service, "write_topics", full)
    with caplog.at_level(logging.ERROR, "pyterrier_ikat.live.serving"):
        made.state.saved.close()
    assert "no topics file of the conversations with talks: the disk is full" in caplog.text
    with pytest.raises(UsageError):
        served({"a/b": Talks("Mint.")}, out=tmp_path / "other")


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (OSError(28, "No space left on device"), ": No space left on device"),
        (UsageError("the log has gone"), ": the log has gone"),
    ],
)
def test_an_answer_that_cannot_be_saved_is_answered(tmp_path, monkeypatch, caplog, error, told):
    made = served({"talks": Talks("Mint.")}, out=tmp_path)

    def fails(*_):
        raise error

    monkeypatch.setattr(Log, "note", fails)
    with caplog.at_level(logging.ERROR, "pyterrier_ikat.live.serving"):
        status, answer = Client(made).chat(says("Which tea?", metadata={"chat_id": "mine"}))
    assert (status, answer["ikat"]["saved"], answer["ikat"]["response"]) == (200, False, "Mint.")
    assert f"a conversation with talks can't be saved{told}" in caplog.text


def test_a_changed_persona_is_logged_before_its_turn(tmp_path):
    made = served({"talks": Talks("Mint.")}, out=tmp_path)
    client = Client(made)
    first = ("Which tea?", "Mint.", "And hot?")
    for words, ptkb in [(first[:1], ["I run."]), (first, ["I run.", "I cook."])]:
        client.chat(says(*words, metadata={"chat_id": "mine", "ptkb": ptkb}))
    made.state.saved.close()
    log = Log(tmp_path / "talks")
    assert log.known["mine"].more["ptkb"] == {"1": "I run.", "2": "I cook."}
    kinds = [event["event"] for event in log.events()]
    assert kinds[1:] == ["session", "turn", "session", "turn"]
    assert [turn.number for turn in log.known["mine"].turns] == [1, 2]
