"""Addresses of cited passages: signed, without the token, for what was cited alone."""

import asyncio
import hmac
import html
import re
from contextlib import contextmanager
from urllib.parse import urlsplit

import httpx
import pyterrier as pt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request
from talking import TOKEN, Talks, says, silent

import pyterrier_ikat as ikat
from pyterrier_ikat.errors import UsageError
from pyterrier_ikat.live.serving import application, passages, running, service
from pyterrier_ikat.live.serving.passages import (
    PassageAddresses,
    gives_texts,
    passage_page,
    text_of,
)
from pyterrier_ikat.live.serving.replies import Failure
from pyterrier_ikat.search_index import SearchIndex
from pyterrier_ikat.study.systems import System

PUBLIC = "https://chat.example.org/ikat"
PASSAGES = {
    "tea/1?x=1": "Rooibos has <b>no</b> caffeine & tastes of tea.",
    "tee-ü": "Tea <script>document.title = 'owned'</script>",
    "secret": "Nobody asked for this licensed text.",
}


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    corpus = [{"docno": docno, "text": text} for docno, text in PASSAGES.items()]
    return ikat.PassageIndex(tmp_path_factory.mktemp("index") / "i").index(corpus)


@pytest.fixture(scope="module")
def server(index):
    systems = {"bm25": index.bm25(), "talks": Talks()}
    with running(systems, token=TOKEN, public_url=PUBLIC, mcp=True) as server:
        yield server


@pytest.fixture(scope="module")
def plain(server):
    with httpx.Client(base_url=server.url, timeout=90, verify=False) as client:
        yield client


BEARER = {"authorization": f"Bearer {TOKEN}"}


def chat(plain, words, model="bm25", **more):
    body = says(words, **more) | {"model": model}
    return plain.post("/v1/chat/completions", json=body, headers=BEARER)


def at_server(url):
    """The path and query that the proxy at the public address passes on."""
    assert url.startswith(f"{PUBLIC}/passages/")
    return url.removeprefix(PUBLIC)


def test_a_cited_passage_opens_without_the_token(plain):
    answer = chat(plain, "tea").json()
    annotations = answer["choices"][0]["message"]["annotations"]
    links = [one["url_citation"] for one in annotations]
    assert {link["title"] for link in links} == {
        "Rooibos has <b>no</b> caffeine",
        "Tea <script>document.title =",
    }
    assert [link["url"] for link in links] == [passage["url"] for passage in answer["citations"]]
    for passage in answer["citations"]:
        page = plain.get(at_server(passage["url"]))
        assert page.status_code == 200
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        assert passage["text"] in html.unescape(page.text)
        assert "<b>" not in page.text
        assert "<script" not in page.text


def test_a_stream_and_the_tools_give_the_same_address(plain):
    links = re.findall(r'"url":"([^"]+)"', chat(plain, "caffeine", stream=True).text)
    whole = chat(plain, "caffeine").json()["citations"][0]["url"]
    assert set(links) == {whole}
    call = {"name": "ask", "arguments": {"question": "caffeine", "model": "bm25"}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    headers = {**BEARER, "accept": "application/json, text/event-stream"}
    for path in ("/mcp", "/mcp/"):
        told = plain.post(path, json=body, headers=headers).json()
        [passage] = told["result"]["structuredContent"]["citations"]
        assert passage["url"] == whole


@pytest.mark.parametrize(
    "change",
    [
        ("tea%2F1", "secret"),
        ("model=bm25", "model=talks"),
        ("signature=", "signature=0"),
        ("signature=", "signed="),
        ("signature=", "signature=%C3%BC"),
    ],
)
def test_an_address_of_another_passage_is_refused(plain, change):
    url = at_server(chat(plain, "caffeine").json()["citations"][0]["url"])
    url = url.replace("%3Fx%3D1", "") if change[1] == "secret" else url
    answer = plain.get(url.replace(*change))
    assert answer.status_code == 403
    assert "licensed" not in answer.text


def test_a_signed_passage_that_went_from_the_index_is_told(plain):
    url = PassageAddresses(PUBLIC, TOKEN).of("bm25", "gone")
    answer = plain.get(at_server(url))
    assert answer.status_code == 404
    assert "no passage 'gone'" in answer.json()["error"]["message"]


def test_the_page_runs_nothing_and_is_not_indexed(plain):
    url = at_server(chat(plain, "caffeine").json()["citations"][0]["url"])
    headers = plain.get(url).headers
    assert headers["content-security-policy"].startswith("default-src 'none'; style-src 'sha256-")
    assert "noindex" in headers["x-robots-tag"]
    assert headers["referrer-policy"] == "no-referrer"


def test_a_system_without_texts_by_id_keeps_names_of_passages(server, plain):
    answer = chat(plain, "tea", model="talks").json()
    assert {passage["url"] for passage in answer["citations"]} == {
        "urn:passage:d1-tea",
        "urn:passage:d2-tea",
    }
    assert any(note.startswith("passages of talks have no address") for note in server.notes)


def test_the_public_page_may_ask_and_no_other_one(plain):
    for origin, status in (("https://chat.example.org", 200), ("https://other.example", 403)):
        headers = {**BEARER, "origin": origin, "host": "127.0.0.1:8000"}
        assert plain.get("/v1/models", headers=headers).status_code == status


@contextmanager
def client_of(systems, **options):
    """A client of a server without a token."""
    with (
        running(systems, **options) as server,
        httpx.Client(base_url=server.url, timeout=90, verify=False) as client,
    ):
        yield client


def test_an_allowed_page_is_the_same_in_capitals_and_slashed(index):
    with client_of({"bm25": index.bm25()}, origins=["HTTPS://Chat.Example.org/"]) as plain:
        for origin, status in (("https://chat.example.org", 200), ("https://other.example", 403)):
            answer = plain.get("/v1/models", headers={"origin": origin})
            assert answer.status_code == status


def test_without_a_token_the_public_host_is_answered(index):
    with client_of({"bm25": index.bm25()}, public_url="http://tea.example:81") as plain:
        for host, status in (("tea.example:81", 200), ("rebound.example", 400)):
            assert plain.get("/v1/models", headers={"host": host}).status_code == status
        url = urlsplit(chat(plain, "caffeine").json()["citations"][0]["url"])
        assert plain.get(f"{url.path}?{url.query}").status_code == 200


def test_without_a_public_url_there_are_no_addresses(index):
    with client_of({"bm25": index.bm25()}) as plain:
        answer = chat(plain, "caffeine").json()
        assert answer["citations"][0]["url"] == "urn:passage:tea/1%3Fx%3D1"
        url = urlsplit(PassageAddresses(PUBLIC, None).of("bm25", "secret"))
        path = url.path.removeprefix("/ikat")
        assert plain.get(f"{path}?{url.query}").status_code == 403


class Finds(pt.Transformer):
    """Finds the passage of an index."""

    def __init__(self, index):
        self.index = index

    def transform(self, inp):
        return self.index.text(inp.assign(docno="d1", score=1.0, rank=0))


class OwnIndex(SearchIndex):
    """An index of a user, whose texts a loader adds."""

    text = pt.apply.text(lambda row: f"Text of {row['docno']}.")

    def fingerprint(self):
        return "1"

    def docnos(self, among):
        return (docno for docno in among if docno == "d1")

    def __len__(self):
        return 1

    def retriever(self, num_results=1000, cache=None, *, k1=0.9, b=0.4):
        return Finds(self)


def test_a_users_own_index_has_addresses_too():
    with client_of({"own": OwnIndex().retriever()}, public_url="http://localhost") as plain:
        url = urlsplit(chat(plain, "Which tea?", model="own").json()["citations"][0]["url"])
        assert "Text of d1." in plain.get(f"{url.path}?{url.query}").text


def test_signatures_hold_as_long_as_the_token():
    of_token = PassageAddresses(PUBLIC, TOKEN).of("rtg", "d1")
    assert PassageAddresses(PUBLIC, TOKEN).of("rtg", "d1") == of_token
    assert PassageAddresses(PUBLIC, f"{TOKEN}2").of("rtg", "d1") != of_token
    assert TOKEN not in of_token
    random = {PassageAddresses(PUBLIC, None).of("rtg", "d1") for _ in range(3)}
    assert len(random) == 3


@given(st.text(), st.text(), st.text(), st.text())
def test_a_signature_is_of_one_system_and_one_passage(system, docno, other, another):
    addresses = PassageAddresses(PUBLIC, TOKEN)
    signature = addresses.of(system, docno).rpartition("=")[2]
    assert addresses.is_signed(system, docno, signature)
    assert addresses.is_signed(other, another, signature) == ((system, docno) == (other, another))


@pytest.mark.parametrize(
    "url",
    ["", "chat.example.org", "ftp://a.example", "https://", "https://a.example/?b", "http://a b"],
)
def test_what_is_no_public_address_is_refused(url):
    with pytest.raises(UsageError, match="no address"):
        PassageAddresses(url, None)


def test_an_address_has_its_names_quoted():
    address = PassageAddresses("https://chat.example.org", "a-token-of-twenty-signs").of(
        "a&b", "d/1?x#y"
    )
    assert address.startswith("https://chat.example.org/passages/d%2F1%3Fx%23y?model=a%26b&sig")


# Parts of addresses


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


def test_the_key_of_addresses_is_made_of_the_token():
    key = hmac.digest(TOKEN.encode(), b"pyterrier_ikat: addresses of passages", "sha256")
    signature = hmac.new(key, b'["rtg", "d1"]', "sha256").hexdigest()[:32]
    mine = PassageAddresses("https://host", TOKEN)
    assert mine.of("rtg", "d1") == f"https://host/passages/d1?model=rtg&signature={signature}"
    assert mine.is_signed("rtg", "d1", signature)
    for system, docno, other in [
        ("ad", "d1", signature),
        ("rtg", "d2", signature),
        ("rtg", "d1", signature.upper()),
        ("rtg", "d1", ""),
        ("rtg", "d1", "\ud800é"),
    ]:
        assert not mine.is_signed(system, docno, other)
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


def test_a_passage_is_shown_as_text():
    page = passage_page("<d&1>", "a < b\n& c")
    assert page.count("&lt;d&amp;1&gt;") == 2
    assert "a &lt; b\n&amp; c" in page
    assert "<d&1>" not in page
