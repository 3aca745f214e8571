"""Second indexes, second systems and rare forms: what a server does beside its usual requests."""

import asyncio
import hmac
import json
import logging
import re
from types import SimpleNamespace

import pandas as pd
import pyterrier as pt
import pytest
from fakes import scripted
from starlette.requests import Request
from talking import Client, Talks, events, says, served

import pyterrier_ikat as ikat
from pyterrier_ikat.errors import IkatError, UsageError
from pyterrier_ikat.live.serving import application, passages, server, service, streaming, tools
from pyterrier_ikat.live.serving.passages import PassageAddresses, gives_texts, text_of
from pyterrier_ikat.live.serving.replies import ChatReply, Failure
from pyterrier_ikat.live.serving.requests import ChatRequest, Metadata, SearchRequest, read
from pyterrier_ikat.live.serving.service import open_served, search
from pyterrier_ikat.live.serving.streaming import Answers, stream
from pyterrier_ikat.llms import Ledger
from pyterrier_ikat.runs import ShownPassage, Turn
from pyterrier_ikat.study.systems import System

TOKEN = "a-token-of-twenty-signs"


# Passages


class Index:
    """An index with these texts; without any it has none by id."""

    def __init__(self, **texts):
        self.texts = texts
        self.has_text = bool(texts)

    def present(self, docnos):
        assert self.has_text
        return {docno for docno in docnos if docno in self.texts}

    def text_loader(self):
        return pt.apply.generic(
            lambda frame: frame.assign(text=[self.texts[docno] for docno in frame["docno"]])
        )


def test_the_text_of_a_passage_may_be_in_a_later_index(monkeypatch):
    indexes = [Index(), Index(d1="Mint."), Index(d1="Other.", d2="Sage.")]
    monkeypatch.setattr(passages, "indexes_of", lambda systems: indexes)
    system = System.of(Talks(), "mine")
    assert [text_of(system, docno) for docno in ("d1", "d2", "d3")] == ["Mint.", "Sage.", None]
    assert gives_texts(system)
    indexes[1:] = [Index()]
    assert not gives_texts(system)
    assert text_of(system, "d1") is None


def test_the_key_of_addresses_is_made_of_the_token():
    key = hmac.digest(TOKEN.encode(), b"pyterrier_ikat: addresses of passages", "sha256")
    signature = hmac.new(key, b'["rtg", "d1"]', "sha256").hexdigest()[:32]
    mine = PassageAddresses("https://host", TOKEN)
    assert mine.of("rtg", "d1") == f"https://host/passages/d1?model=rtg&signature={signature}"
    assert mine.is_signed("rtg", "d1", signature)
    for system, docno, given in [
        ("ad", "d1", signature),
        ("rtg", "d2", signature),
        ("rtg", "d1", signature.upper()),
        ("rtg", "d1", ""),
        ("rtg", "d1", "\ud800é"),
    ]:
        assert not mine.is_signed(system, docno, given)
    unnamed = [PassageAddresses("https://host", None) for _ in range(2)]
    assert unnamed[0].of("rtg", "d1") == unnamed[0].of("rtg", "d1") != unnamed[1].of("rtg", "d1")


@pytest.mark.parametrize("query", ["", "model=talks", "signature=1", "model=talks&signature=1"])
def test_an_address_without_its_parts_is_not_signed(query):
    made = service.Service(
        {"talks": System.of(Talks(), "talks")}, None, None, PassageAddresses("http://h", None)
    )
    for with_or_without in (made, service.Service(made.systems, None)):
        routes = application._Routes(with_or_without)
        scope = {"type": "http", "query_string": query.encode(), "path_params": {"docno": "d1"}}
        with pytest.raises(Failure, match="no address of a cited passage") as refused:
            asyncio.run(routes.passage(Request(scope, silent)))
        assert (refused.value.status, refused.value.code) == (403, "not_signed")


async def silent():
    await asyncio.sleep(3600)


# Tools


class Asked:
    """A service that notes what it is asked."""

    systems = {"rtg": "RTG", "ad": "AD"}

    def __init__(self):
        self.questions = []

    async def answer(self, question):
        self.questions.append(question)
        return Turn(1, "?", "Tea.", (ShownPassage("d1", "Mint.", 2.0),))

    async def search(self, request):
        self.questions.append(request)
        return {"model": request.model, "fingerprint": "f", "results": [request.k]}

    def system(self, name):
        return self.systems[name]

    def address(self, system):
        return lambda docno: f"https://{system}/{docno}"


def test_tools_pass_on_all_that_they_are_given(monkeypatch):
    offered = {}
    monkeypatch.setattr(
        tools._Server, "add_tool", lambda self, tool: offered.update({tool.__name__: tool})
    )
    asked = Asked()
    tools.tools_of(asked)
    request = Request({"type": "http"}, silent)
    context = SimpleNamespace(request_context=SimpleNamespace(request=request))

    def call(name, *arguments, **named):
        return asyncio.run(offered[name](context, *arguments, **named))

    cited = {"id": "d1", "title": "Mint.", "text": "Mint.", "score": 2.0}
    content = "Tea.\n\nSources: [1]"
    history = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]
    assert call("ask", "Which tea?", history, ["I run.", "I cook."], "ad") == {
        "answer": content,
        "citations": [{**cited, "url": "https://AD/d1"}],
    }
    assert call("ask", "And hot?")["citations"] == [{**cited, "url": "https://RTG/d1"}]
    first, second = asked.questions
    assert (first.model, second.model) == ("ad", "rtg")
    assert first.said == [*history, {"role": "user", "content": "Which tea?"}]
    assert second.said == [{"role": "user", "content": "And hot?"}]
    assert first.metadata.ptkb == {"1": "I run.", "2": "I cook."}
    assert second.metadata.ptkb == {}
    assert call("search", "tea") == {"results": [10]}
    assert call("search", None, ["tea", "mint"], 3, "ad") == {"results": [3]}
    one, several = asked.questions[2:]
    assert (one.model, one.every_query, one.texts) == ("rtg", ["tea"], True)
    assert (several.model, several.every_query, several.k) == ("ad", ["tea", "mint"], 3)


def test_an_error_of_a_tool_names_its_field_in_one_line():
    def find(k: int, where: str = "") -> str:
        if where == "here":
            raise Failure(404, "there is\nno model 'x'")
        raise ValueError(f"not {k}\n  in {where}")

    made = tools._Server("x", log_level="CRITICAL")
    made.add_tool(find)
    for arguments, told in [
        ({"k": "x", "where": 7}, "k: Input should be a valid integer"),
        ({"where": "here"}, "k: Field required"),
        ({"k": 1, "where": "here"}, "there is no model 'x'"),
        ({"k": 1, "where": "there"}, "Error executing tool find"),
    ]:
        with pytest.raises(tools.ToolError) as raised:
            asyncio.run(made.call_tool("find", arguments))
        assert told in str(raised.value)
        assert "\n" not in str(raised.value)
        assert "where" not in str(raised.value)


# Streams


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


# Requests


@pytest.mark.parametrize("ptkb", ["[x", '{"a": ', '["I run.", " "]', '{"a": 7}', [7], 7])
def test_statements_that_cannot_be_read_are_named(ptkb):
    with pytest.raises(Failure, match=r"metadata\.ptkb") as refused:
        read(ChatRequest, says("Tea?", metadata={"ptkb": ptkb}))
    assert (refused.value.status, refused.value.param[:13]) == (400, "metadata.ptkb")
    assert Metadata(ptkb='\n {"b": "I run."}').ptkb == {"b": "I run."}
    assert Metadata(ptkb="I run.\n \n[x").ptkb == {"1": "I run.", "2": "[x"}


def test_a_message_has_all_its_parts_of_text():
    def of(content, role="user"):
        return {"role": role, "content": content}

    parts = [{"type": "text", "text": text} for text in ("Which tea?", " Or  mate?")]
    messages = [of(None, "assistant"), of([], "system"), of(parts)]
    request = read(ChatRequest, {"messages": messages, "top_p": 1, "seed": None})
    assert request.said == [of("Which tea?\n Or  mate?")]
    assert request.ignored == ["messages[0] (assistant)", "messages[1] (system)", "top_p"]
    image = [*parts, {"type": "image_url", "image_url": {"url": "http://x"}}]
    with pytest.raises(Failure) as refused:
        read(ChatRequest, {"messages": [of("Hi"), of(image)]})
    assert refused.value.param == "messages.1.content.2.type"
    for body in (b"nonsense", b"[]"):
        with pytest.raises(Failure, match=r"^the body: ") as refused:
            read(ChatRequest, body)
        assert refused.value.param is None


# Systems


class Bare(pt.Transformer):
    """Passages without texts; of equal ranks the first row is better."""

    def transform(self, inp):
        rows = []
        for qid in inp["qid"]:
            for docno, rank in (("b", 1), ("a", 0), ("c", 1)):
                rows.append({"qid": qid, "docno": docno, "score": 3 - rank, "rank": rank})
        return pd.DataFrame(rows, columns=["qid", "docno", "score", "rank"])


def test_passages_without_texts_are_ids_and_scores():
    found = search(System.of(Bare(), "bare"), read(SearchRequest, {"query": "tea"}))["results"]
    ids = [("a", 3.0), ("b", 2.0), ("c", 2.0)]
    ranked = [{"id": docno, "score": score} for docno, score in ids]
    assert found == [{"query": "tea", "passages": ranked}]


def test_a_dataset_that_is_named_comes_before_the_sample(monkeypatch):
    named = []

    def dataset(name):
        named.append(name)
        return SimpleNamespace(conversations=["a", "b"])

    monkeypatch.setattr(service, "dataset_named", dataset)
    models = ("recorded:sample", "recorded:sample temperature=0")
    systems = {"a": ikat.Answer(ikat.llm(models[0])), "talks": Talks()}
    assert open_served(systems, Ledger(), dataset="ikat:mini")["a"].recorded == ("a", "b")
    assert open_served(systems, Ledger())["a"].recorded == ("a", "b")
    assert named == ["ikat:mini", "ikat:sample"]


def test_all_systems_with_a_limit_get_the_words():
    responds = {
        "a": Talks() >> ikat.Respond(scripted()[0]),
        "b": Talks() >> ikat.Respond(scripted()[0]),
    }
    opened = open_served({**responds, "c": ikat.Answer(scripted()[0])}, Ledger(), words=7)
    limits = {}
    for name, system in opened.items():
        stages = list(ikat.operator.every_stage(system.pipeline))
        limits[name] = [stage.words for stage in stages if isinstance(stage, ikat.Respond)]
    assert limits == {"a": [7], "b": [7], "c": []}


def test_each_question_is_a_conversation_of_its_own():
    talks = Talks("Mint.")
    client = Client(served({"talks": talks}))
    for sample in (0, 0, 1):
        assert client.chat(says("Which tea?", sample=sample))[0] == 200
    qids = [row["qid"] for row in talks.seen]
    assert len(set(qids)) == 3
    assert all(re.fullmatch("chat-[0-9a-f]{32}_1", qid) for qid in qids)


# The server


class Started:
    """Stands in for a server in a thread."""

    made = []

    def __init__(self, *arguments):
        self.application, _, self.notes, self.log = arguments
        self.stopped = False
        self.made.append(self)

    def stop(self):
        self.stopped = True


@pytest.fixture
def started(monkeypatch):
    """The arguments of applications, and the servers that run them."""
    monkeypatch.delenv("IKAT_SERVE_TOKEN", raising=False)
    monkeypatch.delenv("IKAT_TOKEN", raising=False)
    applications = []
    monkeypatch.setattr(application, "application", lambda *given: applications.append(given))
    monkeypatch.setattr(server, "Running", Started)
    monkeypatch.setattr(Started, "made", [])
    return applications


@pytest.mark.parametrize(
    ("options", "allowed", "hosts"),
    [
        ({}, [], []),
        ({"origins": "HTTPS://Chat.Example/"}, ["https://chat.example"], []),
        ({"origins": ["http://a/", "http://B:1"]}, ["http://a", "http://b:1"], []),
        (
            {"public_url": "https://Front.Example:8443/ikat/", "origins": ["http://a"]},
            ["http://a", "https://front.example:8443"],
            ["Front.Example"],
        ),
        ({"public_url": "http://[::1]:80"}, ["http://[::1]:80"], ["[::1]"]),
        ({"public_url": "https://front"}, ["https://front"], ["front"]),
    ],
)
def test_pages_and_hosts_of_a_server_are_those_named(started, options, allowed, hosts):
    with server.running({"talks": Talks()}, token=TOKEN, **options) as running:
        assert not running.stopped
    [(made, token, pages, extra, names)] = started
    assert (token, pages, names, extra) == (TOKEN, allowed, hosts, ((), None))
    assert running.stopped
    assert list(made.systems) == ["talks"]
    assert (made.saved, made.workers.total_tokens, running.log) == (None, 16, False)
    assert (made.passages is None) is ("public_url" not in options)
    if made.passages is not None:
        base = options["public_url"].rstrip("/")
        address = made.passages.of("a", "b")
        assert address.startswith(f"{base}/passages/b?model=a&signature=")
        assert address == PassageAddresses(base, TOKEN).of("a", "b")


def test_all_models_and_logs_are_closed_after_an_error(started, tmp_path, monkeypatch):
    closed = []
    monkeypatch.setattr(type(scripted()[0]), "close", lambda self: closed.append(self))
    both = [scripted()[0] for _ in range(2)]
    systems = {"a": ikat.Answer(both[0]), "b": ikat.Rewrite(both[1]) >> ikat.Answer(both[0])}
    with (
        pytest.raises(ZeroDivisionError),
        server.running(systems, out=tmp_path, workers=3, public_url="http://h", log=True) as run,
    ):
        raise ZeroDivisionError
    assert run.stopped
    assert closed == both
    assert started[0][0].workers.total_tokens == 3
    with ikat.store.files.lock_folders(tmp_path / "a", tmp_path / "b"):
        pass  # others may write
    assert run.notes[1:] == [
        f"conversations whose clients name them are saved in {tmp_path}",
        "cited passages open without a token at http://h/passages/..., until the server stops",
        "passages of a have no address: its index gives no texts by id",
        "passages of b have no address: its index gives no texts by id",
    ]
    assert run.log


@pytest.mark.parametrize(
    ("team", "token"), [(f" {TOKEN}\n", TOKEN), (TOKEN, f"{TOKEN} "), (TOKEN, f"\n{TOKEN}")]
)
def test_the_token_of_the_team_is_known_with_blanks_around_it(monkeypatch, team, token):
    monkeypatch.setenv("IKAT_TOKEN", team)
    with pytest.raises(UsageError, match="is that of IKAT_TOKEN") as refused:
        server._token("127.0.0.1", token)
    assert TOKEN not in str(refused.value)
    monkeypatch.setenv("IKAT_TOKEN", "  ")
    assert "team" not in server._token("127.0.0.1", "")[1]


def test_a_fault_is_logged_with_its_innermost_places_first(caplog):
    def inner(depth):
        if not depth:
            raise KeyError("secret words")
        inner(depth - 1)

    with caplog.at_level(logging.ERROR, "pyterrier_ikat.live.serving"):
        try:
            inner(9)
        except KeyError as error:
            failure = ikat.live.serving.replies.failure_of(error)
    assert (failure.status, failure.code) == (500, "internal_error")
    [line] = caplog.messages
    assert line.startswith("unexpected KeyError in inner (")
    places = [re.search(":([0-9]+)\\)", place)[1] for place in line.split(" < ")]
    assert len(places) == 6
    assert places[0] != places[1] == places[2] == places[5]
    assert "secret" not in line
    caplog.clear()
    with caplog.at_level(logging.ERROR, "pyterrier_ikat.live.serving"):
        assert ikat.live.serving.replies.failure_of(IkatError("it broke")).code == "system_failed"
    assert caplog.messages == ["it broke"]


def test_events_and_addresses_of_a_passage_stay_whole():
    client = Client(served({"talks": Talks("Mint.")}))
    _, _, content = client.ask("POST", "/v1/chat/completions", says("Hi", stream=True))
    *_, last = events(content)
    assert [passage["id"] for passage in last["citations"]] == ["d1-Hi", "d2-Hi"]
    assert [passage["url"] for passage in last["citations"]] == [
        "urn:passage:d1-Hi",
        "urn:passage:d2-Hi",
    ]
