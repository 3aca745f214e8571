"""Real clients at a real server: OpenAI's package, plain HTTP, the tools' package, many people."""

import asyncio
import importlib.metadata
import json
import re
import socket
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

import httpx
import openai
import pyterrier as pt
import pytest
from talking import Talks, Waits, says

import pyterrier_ikat as ikat
from pyterrier_ikat.live.serving import running, server

MESSAGES = says("Which tea?")["messages"]
# without the certificates, which take a while to read, and which nobody needs here
Plain = partial(httpx.Client, timeout=90, verify=False)
post = partial(httpx.post, timeout=90, verify=False)
stream = partial(httpx.stream, timeout=90, verify=False)


@pytest.fixture(scope="module")
def waits():
    return Waits()


@pytest.fixture(scope="module")
def url(waits):
    systems = {"talks": Talks(), "waits": waits}
    with running(systems, mcp=True, workers=2) as server:
        yield server.url


@pytest.fixture(scope="module")
def client(url):
    with openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
        yield client


def test_openai_s_client_gets_answers_with_citations(client):
    assert [model.id for model in client.models.list()] == ["talks", "waits"]
    assert client.models.retrieve("waits").writes_response is False
    reply = client.chat.completions.create(
        model="talks", messages=MESSAGES, temperature=0, metadata={"ptkb": "I run."}
    )
    assert reply.choices[0].message.content.startswith('[{"1": "I run."}, [], "Which tea?"]')
    assert ([passage["id"] for passage in reply.citations], reply.ikat["ignored"]) == (
        ["d1-Which tea?", "d2-Which tea?"],
        ["temperature"],
    )
    chunks = list(client.chat.completions.create(model="talks", messages=MESSAGES, stream=True))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks).startswith(
        '[{}, [], "Which tea?"]'
    )
    assert (chunks[-1].choices[0].finish_reason, len(chunks[-1].citations)) == ("stop", 2)


def test_openai_s_client_gets_errors_of_its_own_kinds(client):
    with pytest.raises(
        openai.NotFoundError, match="there is no model 'gpt-4': give one of talks, waits"
    ):
        client.chat.completions.create(model="gpt-4", messages=MESSAGES)
    with pytest.raises(openai.BadRequestError, match="n: Input should be 1"):
        client.chat.completions.create(model="talks", messages=MESSAGES, n=3)


def test_plain_http_gets_the_page_answers_and_passages(url):
    with Plain(base_url=url) as plain:
        assert plain.get("/").headers["content-type"] == "text/html; charset=utf-8"
        assert (
            plain.post("/v1/chat/completions", json=says("Hi")).json()["ikat"]["response"]
            == '[{}, [], "Hi"]'
        )
        found = plain.post(
            "/search", json={"model": "talks", "queries": ["tea", "mint"], "k": 1}
        ).json()
    text = "Rooibos has no caffeine."
    assert found["results"] == [
        {"query": "tea", "passages": [{"id": "d1-tea", "text": text, "score": 2.0}]},
        {"query": "mint", "passages": [{"id": "d1-mint", "text": text, "score": 2.0}]},
    ]


def test_a_client_of_the_tools_asks_and_searches(url):
    from mcp.client.client import Client as ToolClient
    from mcp.client.streamable_http import streamable_http_client

    async def go():
        async with ToolClient(streamable_http_client(f"{url}/mcp")) as client:
            names = [tool.name for tool in (await client.list_tools()).tools]
            history = [
                {"role": "user", "content": "Hi"},
                {"role": "assistant", "content": "Hello."},
            ]
            answer = await client.call_tool(
                "ask", {"question": "Which tea?", "history": history, "statements": ["I run."]}
            )
            assert (
                (await client.call_tool("ask", {"question": "Which tea?"}))
                .structured_content["answer"]
                .startswith("[{}, [], ")
            )
            found = [
                await client.call_tool("search", {"queries": ["tea", "mint"], "k": 1}),
                await client.call_tool("search", {"query": "tea", "k": 1}),
            ]
            given = (
                {"queries": []},
                {"queries": 7, "k": "x"},
                {"query": "tea", "queries": ["tea"]},
                {"query": "tea", "model": "no"},
            )
            wrong = [await client.call_tool("search", one) for one in given]
            return (
                names,
                answer.structured_content,
                [one.structured_content for one in found],
                wrong,
                client.server_info.version,
                client.instructions,
            )

    names, answer, (two, single), wrong, version, about = asyncio.run(go())
    assert "`model` is one of talks, waits, by default the first." in about
    assert names == ["ask", "search"]
    assert version == importlib.metadata.version("pyterrier_ikat")
    assert answer["answer"].startswith(
        '[{"1": "I run."}, [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": '
        '"Hello."}]'
    )
    assert [passage["id"] for passage in answer["citations"]] == ["d1-Which tea?", "d2-Which tea?"]
    assert [one["passages"][0]["id"] for one in two["results"]] == ["d1-tea", "d1-mint"]
    assert single["results"] == two["results"][:1]
    told = [one.content[0].text for one in wrong]
    assert all(one.is_error for one in wrong)
    assert not [one for one in told if "\n" in one]
    assert [one.rpartition(": ")[2] for one in told] == [
        "give query, a text, or queries, a list of texts",
        "Input should be a valid list",
        "give query, a text, or queries, a list of texts",
        "give one of talks, waits",
    ]


def test_people_at_the_same_time_see_only_their_own(url):
    def talk(name):
        said = []
        words = f"I am {name}."
        with Plain(base_url=url) as own:
            for turn in range(5):
                said.append({"role": "user", "content": f"{name} {turn}"})
                answer = own.post(
                    "/v1/chat/completions",
                    json={"model": "talks", "messages": said, "metadata": {"ptkb": [words]}},
                )
                persona, history, question = json.loads(answer.json()["ikat"]["response"])
                assert (persona, history, question) == (
                    {"1": words},
                    said[:-1],
                    said[-1]["content"],
                )
                cited = [passage["id"] for passage in answer.json()["citations"]]
                assert cited == [f"d1-{name} {turn}", f"d2-{name} {turn}"]
                said.append({"role": "assistant", "content": answer.json()["ikat"]["response"]})

    with ThreadPoolExecutor(2) as people:
        list(people.map(talk, ["Ada", "Bert"]))


class Together:
    """Answers when so many calls are under way at the same time."""

    def __init__(self, calls):
        self.barrier = threading.Barrier(calls, timeout=60)

    def generate(self, chats):
        self.barrier.wait()
        return [f"For {str(chat)[-40:]}" for chat in chats]


def test_fifty_clients_are_answered_at_once_by_fifty_workers():
    """Each call waits until all fifty are under way."""
    questions = [f"Who is {number}?" for number in range(50)]
    with (
        running({"mine": ikat.Answer(ikat.llm(Together(50)))}, workers=50) as server,
        ThreadPoolExecutor(50) as people,
    ):
        ask = partial(post, f"{server.url}/v1/chat/completions")
        answers = people.map(lambda text: ask(json=says(text, model="mine")), questions)
        for question, answer in zip(questions, answers, strict=True):
            assert question in answer.json()["choices"][0]["message"]["content"]


def test_an_answer_does_not_wait_for_its_head():
    """A delayed acknowledgement takes 40 ms; connections inherit the socket's option."""
    with (
        server._bound("127.0.0.1", 0) as listener,
        socket.create_connection(listener.getsockname()),
    ):
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_a_model_behind_a_dead_socket_is_told_and_serving_stays(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted-0123456789")
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    llm = ikat.llm(f"openai:m base_url={address} cache=none")
    llm.retry = replace(llm.retry, sleep=lambda seconds: None)
    with running({"talks": Talks(), "drafts": ikat.Answer(llm)}) as server:
        ask = partial(post, f"{server.url}/v1/chat/completions")
        dead = ask(json=says("xyzzy", model="drafts"))
        streamed = ask(json=says("xyzzy", model="drafts", stream=True))
        alive = ask(json=says("Hi"))
    assert (dead.json()["error"]["type"], alive.status_code) == ("llm_error", 200)
    assert dead.status_code in (502, 503)
    assert f'"code":"{dead.json()["error"]["code"]}"' in streamed.text
    assert not re.search("sk-planted|xyzzy|Traceback", dead.text + streamed.text)


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1"])
def test_other_machines_need_a_token(host, monkeypatch):
    monkeypatch.delenv("IKAT_SERVE_TOKEN", raising=False)
    with (
        pytest.raises(
            ikat.UsageError,
            match="reached from other machines, and there is no token: export IKAT_SERVE_TOKEN=",
        ),
        running(Talks(), host=host),
    ):
        pass


def test_the_token_of_the_environment_counts_on_this_machine_too(monkeypatch):
    monkeypatch.setenv("IKAT_SERVE_TOKEN", "a-token-of-twenty-signs")
    with running({"talks": Talks()}) as server:
        assert httpx.get(f"{server.url}/v1/models").status_code == 401
        known = openai.OpenAI(base_url=f"{server.url}/v1", api_key="a-token-of-twenty-signs")
        assert [model.id for model in known.models.list()] == ["talks"]
        known.close()


def test_a_request_cut_off_by_the_stop_leaves_no_trace_in_logs(caplog, capfd):
    waits = Waits()
    with ThreadPoolExecutor(2) as people:
        with running({"waits": waits}) as server:
            ask = partial(post, f"{server.url}/v1/chat/completions")
            cut = [
                people.submit(ask, json=says("xyzzy", model="waits", stream=False)),
                people.submit(ask, json=says("xyzzy", model="waits", stream=True)),
            ]
            for _ in cut:
                assert waits.asked.acquire(timeout=60)
        for one in cut:
            assert "Traceback" not in str(one.exception() or one.result().text)
        waits.may.release(2)
    assert not re.search("Traceback|xyzzy", caplog.text + capfd.readouterr().err)


def test_a_used_port_bad_template_or_unknown_dataset_is_named(url, tmp_path):
    (tmp_path / "answer.jinja").write_text("{% include 'mine.jinja' %}")
    (tmp_path / "mine.jinja").write_text("{% if %}{{ question }}")
    broken = ikat.Answer(ikat.llm(Together(1)), prompts=str(tmp_path))
    recorded = tmp_path / "recorded.jsonl"
    recorded.write_text('{"qid": "1_1", "stage": "answer", "completion": "Rooibos.", "model": "m"}')
    for system, port, message in (
        (Talks(), int(url.rsplit(":")[-1]), "can't be used .*choose another port; 0 is a free one"),
        (broken, 0, "prompt template .*mine.jinja, line 1"),
        (
            ikat.Answer(ikat.llm(f"recorded:{recorded}")),
            0,
            "recorded for a dataset's turns: name it with dataset=..., or give a live LLM",
        ),
    ):
        with pytest.raises(ikat.UsageError, match=message), running({"mine": system}, port=port):
            pass


def test_the_client_of_the_live_reference_talks_as_it_is_written():
    page = (Path(__file__).parents[3] / "docs" / "live_reference.md").read_text(encoding="utf-8")
    [code] = re.findall(r"```python\n(from openai import OpenAI\n.*?)```", page, re.DOTALL)
    with running({"rtg": Talks()}) as server:
        names: dict = {}
        exec(code.replace("http://127.0.0.1:8000", server.url), names)
    [message] = names["messages"]
    assert names["reply"].choices[0].message.content.endswith("Sources: [1][2]")
    first_turn = ikat.dataset("ikat:sample").conversations[0].turns[0]
    assert message["content"] == first_turn.utterance
    assert names["reply"].citations[0]["id"] == "d1-I'd like to do my fi"


def test_recorded_completions_answer_only_their_conversations():
    chat, twin = ikat.dataset("ikat:sample").conversations[:2]
    assert chat.turns[0].utterance == twin.turns[0].utterance
    known: list[dict[str, str]] = []
    noting = pt.apply.generic(lambda turns: known.append(dict(turns["qptkb"].item())) or turns)
    with running({"drafts": noting >> ikat.Answer(ikat.llm("recorded:sample"))}) as server:
        ask = partial(post, f"{server.url}/v1/chat/completions")
        answer = ask(json=says(chat.turns[0].utterance, model="drafts")).json()
        assert answer["ikat"]["response"]
        unnamed = ask(
            json=says(chat.turns[0].utterance, model="drafts", metadata={"ptkb": ""})
        ).json()
        other = ask(json=says(chat.turns[0].utterance, model="drafts", metadata={"ptkb": "I run."}))
        same = ask(
            json=says(chat.turns[0].utterance, model="drafts", metadata={"ptkb": dict(chat.ptkb)})
        )
        ask(json=says(chat.turns[0].utterance, model="drafts", metadata={"ptkb": dict(twin.ptkb)}))
        refused = ask(json=says("Which tea?", model="drafts"))
    assert (
        unnamed["ikat"]["response"] == answer["ikat"]["response"] == same.json()["ikat"]["response"]
    )
    assert known == [dict(chat.ptkb)] * 3 + [dict(twin.ptkb)]
    assert (other.status_code, "other statements about the user" in other.text) == (400, True)
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "not_recorded")
    assert (
        "begin a new conversation with what a recorded user said, such as "
        f"{chat.turns[0].utterance!r}" in refused.json()["error"]["message"]
    )


@pytest.mark.parametrize("package", ["starlette", "mcp", "markdown_it"])
def test_a_missing_package_is_told_with_its_extra(monkeypatch, package):
    for name in ("application", "drawing", "replies", "requests", "service", "streaming", "tools"):
        monkeypatch.delitem(sys.modules, f"pyterrier_ikat.live.serving.{name}", raising=False)
    for name in list(sys.modules):
        if name.partition(".")[0] == package:
            monkeypatch.setitem(sys.modules, name, None)
    with (
        pytest.raises(
            ikat.UsageError, match=rf"needs {package}.*: pip install 'pyterrier_ikat\[live\]'"
        ),
        running({"talks": Talks()}, mcp=True),
    ):
        pass
