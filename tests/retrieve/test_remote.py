"""Search servers: the three forms, what fails in them, and what is never taken for a ranking.

Our own server is a real one in tests/live/serving/test_searching.py. RoutIR's answers were
recorded from its own server. Pyserini's are as its source and docs/usage-rest.md (2.3) say.
"""

import json
import pickle
import socket
from pathlib import Path

import pytest
from retrieve.query_frames import turns
from search_server import answering, self_signed, slowly

import pyterrier_ikat as ikat
from pyterrier_ikat.retrieve import ServerError
from pyterrier_ikat.retrieve.server_forms import FORMS, Search

ROUTIR = json.loads(Path(__file__).with_name("routir_0.0.2.json").read_text())["answers"]
KEY = "sk-planted-0123456789"


def rows(results):
    return results[["qid", "docno", "score", "rank"]].values.tolist()


def models(fingerprint="f1", bm25=True):
    facts = {"stage": "BM25", "fingerprint": fingerprint, "bm25": bm25}
    return {"object": "list", "data": [{"id": "raw", "search": facts}]}


def found(request, fingerprint="f1", **passage):
    """Our server's answer: for each query one passage."""
    results = []
    for query in request["body"]["queries"]:
        of_query = {"id": f"d-{query}", "text": f"About {query}.", "score": 2.5, **passage}
        results.append({"query": query, "passages": [of_query]})
    return {"model": "raw", "fingerprint": fingerprint, "results": results}


def ours(search):
    """What our server answers, with ``search`` for the searches."""

    def answer(request):
        return models() if request["path"] == "/v1/models" else search(request)

    return answering(answer)


def routir(request):
    for recorded in ROUTIR:
        if recorded["request"] == request["body"]:
            return recorded["status"], recorded["body"], {}
    raise AssertionError(f"not recorded: {request['body']}")


def pyserini(request):
    if request["path"] == "/openapi.yaml":
        return 200, b"- name: k1\n  in: query\n", {}
    candidates = [
        {"docid": "d2", "score": 3.5, "rank": 1, "doc": "Green tea."},
        {"docid": "d1", "score": 1.25, "rank": 2, "doc": {"title": "T", "contents": "Tea."}},
    ]
    query = {"text": request["params"]["query"]}
    return {"api": "v1", "index": "mini", "query": query, "candidates": candidates}


def test_routir_s_recorded_answers_are_rankings():
    with answering(routir) as server:
        remote = ikat.Remote(server.url, "routir", "words", num_results=3)
        results = remote(turns("green tea"))
        ties = ikat.Remote(server.url, "routir", "words", num_results=10)(turns("rooibos tea"))
        with pytest.warns(ikat.retrieve.NoResultWarning):
            nothing = remote(turns("xyzzy"))
    assert rows(results) == [["1_1", "d1", 3.0, 0], ["1_1", "d2", 1.0, 1], ["1_1", "d10", 1.0, 2]]
    assert ties["docno"].tolist() == ["d2", "d10", "d1"]
    assert "text" not in results.columns
    assert len(nothing) == 0


def test_routir_s_error_with_status_200_is_an_error():
    with answering(routir) as server:
        with pytest.raises(ServerError, match="the engine is out of memory"):
            ikat.Remote(server.url, "routir", "words", 3, tries=1)(turns("fail"))
        with pytest.raises(ServerError, match="400: Service 'none' not found"):
            ikat.Remote(server.url, "routir", "none", 3)(turns("tea"))


def test_pyserini_s_answers_are_rankings_with_texts():
    with answering(pyserini) as server:
        remote = ikat.Remote(server.url, "pyserini", "/data/mini", k1=1.2, b=0.75)
        results = remote(turns("tea & tea"))
    assert rows(results) == [["1_1", "d2", 3.5, 0], ["1_1", "d1", 1.25, 1]]
    assert results["text"].tolist() == ["Green tea.", "Tea."]
    search = server.requests[-1]
    assert search["path"] == "/v1//data/mini/search"
    assert search["params"] == {"query": "tea & tea", "hits": "1000", "k1": "1.2", "b": "0.75"}


def test_an_old_pyserini_that_ignores_k1_is_refused():
    def old(request):
        return (200, b"- name: hits\n", {}) if "openapi" in request["path"] else pyserini(request)

    with answering(old) as server:
        with pytest.raises(ikat.UsageError, match="ignores k1 and b"):
            ikat.Remote(server.url, "pyserini", "mini", k1=1.2, b=0.75)(turns("tea"))
        assert len(ikat.Remote(server.url, "pyserini", "mini")(turns("tea"))) == 2


def test_our_form_sends_batches_depth_and_parameters():
    with ours(found) as server:
        remote = ikat.Remote(server.url, num_results=5000, k1=1.2, b=0.75)
        with pytest.warns(ikat.retrieve.NoResultWarning, match="1_2"):
            results = remote(turns("tea", "  ", "mint", "tea", "rooibos", "coffee"))
    assert results["docno"].tolist() == ["d-tea", "d-mint", "d-tea", "d-rooibos", "d-coffee"]
    assert results["text"].tolist()[1] == "About mint."
    sent = [request["body"] for request in server.requests if request["body"]]
    # at most 16,000 passages a call; a blank query isn't sent, an equal one once
    options = {"k": 5000, "k1": 1.2, "b": 0.75, "texts": True}
    assert sorted(sent, key=lambda body: -len(body["queries"])) == [
        {"queries": ["tea", "mint", "rooibos"], **options},
        {"queries": ["coffee"], **options},
    ]


def test_texts_that_nobody_reads_are_not_asked_for():
    with ours(found) as server:
        remote = ikat.Remote(server.url).without_texts()
        assert "text" not in remote(turns("tea")).columns
        assert server.requests[-1]["body"]["texts"] is False


def test_rankings_are_cached_by_fingerprint_and_parameters(tmp_path):
    state = ["f1"]

    def changing(request):
        if request["path"] == "/v1/models":
            return models(state[0])
        return found(request, state[0])

    def searches(server, **more):
        before = len(server.requests)
        ikat.Remote(server.url, cache=tmp_path / "cache", **more)(turns("tea"))
        return sum(request["path"] == "/search" for request in server.requests[before:])

    with answering(changing) as server:
        assert [searches(server), searches(server)] == [1, 0]
        assert [searches(server, num_results=5), searches(server, k1=1.2, b=0.75)] == [1, 1]
        state[0] = "f2"
        assert [searches(server), searches(server)] == [1, 0]


def test_an_index_exchanged_in_the_middle_is_an_error():
    with (
        ours(lambda request: found(request, "f2")) as server,
        pytest.raises(ServerError, match="another index"),
    ):
        ikat.Remote(server.url)(turns("tea"))


def test_servers_without_fingerprint_are_asked_again():
    with answering(routir) as server:
        remote = ikat.Remote(server.url, "routir", "words", 3)
        remote(turns("green tea"))
        remote(turns("green tea"))
    assert len(server.requests) == 2
    assert remote.is_untracked()
    with answering(lambda request: models(None)) as server:
        assert ikat.Remote(server.url).is_untracked()
    with answering(lambda request: models()) as server:
        assert not ikat.Remote(server.url).is_untracked()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"id": 7}, "the id"),
        ({"id": " "}, "the id"),
        ({"score": "high"}, "the score"),
        ({"score": None}, "the score"),
        ({"score": float("nan")}, "the score"),
        ({"score": True}, "the score"),
    ],
)
def test_a_passage_without_id_or_score_is_an_error(change, words):
    with (
        ours(lambda request: found(request, **change)) as server,
        pytest.raises(ServerError, match=words),
    ):
        ikat.Remote(server.url)(turns("tea"))


def with_results(request, change):
    answer = found(request)
    change(answer["results"])
    return answer


@pytest.mark.parametrize(
    "change",
    [
        lambda results: results.pop(),
        lambda results: results.reverse(),
        lambda results: results[0].pop("passages"),
        lambda results: results[0].update(passages=None),
        lambda results: results[0].update(passages="none"),
        lambda results: results[0]["passages"].extend(results[0]["passages"]),
        lambda results: results[0]["passages"].append({"id": "e", "score": 3.0, "text": "x"}),
        lambda results: results[0]["passages"].append({"id": "e", "score": 1.0}),
        lambda results: results.clear(),
    ],
    ids=["short", "exchanged", "none", "null", "no list", "twice", "rising", "textless", "empty"],
)
def test_a_malformed_or_short_answer_is_an_error(change):
    with (
        ours(lambda request: with_results(request, change)) as server,
        pytest.raises(ServerError),
    ):
        ikat.Remote(server.url)(turns("tea", "mint"))


@pytest.mark.parametrize(
    "answer",
    [
        (200, b"<html>Welcome</html>", {}),
        (200, b'{"results": [', {}),
        (200, b"[]", {}),
        (200, b"", {}),
        (200, b'{"results": []}', {"content-length": "500"}),
        (500, {"error": {"message": "the disk is full"}}, {}),
        (404, b"<!doctype html><h1>Not Found</h1>", {}),
        (302, b"", {"location": "http://127.0.0.1:9/"}),
        (204, b"", {}),
    ],
    ids=["page", "cut", "list", "empty", "half", "500", "404", "redirect", "204"],
)
def test_what_is_no_answer_is_never_an_empty_ranking(answer):
    with (
        ours(lambda request: (answer[0], answer[1], dict(answer[2]))) as server,
        pytest.raises(ServerError),
    ):
        ikat.Remote(server.url, tries=1)(turns("tea"))


def test_an_error_has_the_words_of_the_server():
    with (
        ours(lambda request: (500, {"error": {"message": "the disk is full"}}, {})) as server,
        pytest.raises(ServerError, match="500: the disk is full"),
    ):
        ikat.Remote(server.url, tries=1)(turns("tea"))


def test_500_and_429_are_retried_with_the_wait_that_is_asked():
    left = [(500, {"error": "busy"}, {}), (429, {"error": "shed"}, {"Retry-After": "1"})]

    def recovers(request):
        return left.pop(0) if left else found(request)

    with ours(recovers) as server:
        results = ikat.Remote(server.url)(turns("tea"))
    assert results["docno"].tolist() == ["d-tea"]
    assert len(server.requests) == 4


def test_a_wait_of_hours_is_an_error_at_once():
    limited = (429, {"error": "shed"}, {"Retry-After": "7200"})
    with (
        ours(lambda request: (*limited[:2], dict(limited[2]))) as server,
        pytest.raises(ServerError, match="7200 seconds"),
    ):
        ikat.Remote(server.url)(turns("tea"))
    assert len(server.requests) == 2


def test_a_slow_server_is_an_error_that_names_the_limit():
    with (
        ours(lambda request: slowly(1.0, found(request))) as server,
        pytest.raises(ServerError, match=r"0\.2 seconds"),
    ):
        ikat.Remote(server.url, timeout=0.2, tries=1)(turns("tea"))


def test_a_server_that_is_not_there_is_an_error():
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(ServerError, match="no connection"):
        ikat.Remote(f"http://127.0.0.1:{port}", tries=1)(turns("tea"))


def test_the_key_is_sent_and_never_shown(monkeypatch):
    monkeypatch.setenv("MINE", KEY)

    def tells(request):
        return 403, {"error": f"bad {request['headers'].get('Authorization')}"}, {}

    with ours(tells) as server:
        remote = ikat.Remote(server.url, api_key_env="MINE")
        with pytest.raises(ServerError, match="MINE") as refused:
            remote(turns("tea"))
    assert server.requests[-1]["headers"]["Authorization"] == f"Bearer {KEY}"
    shown = f"{refused.value} {remote!r} {remote.arguments()}"
    assert KEY not in shown
    assert KEY.encode() not in pickle.dumps(remote)


def test_a_server_that_needs_a_key_is_not_said_to_refuse_one(monkeypatch):
    monkeypatch.delenv("IKAT_SEARCH_KEY", raising=False)
    with (
        ours(lambda request: (401, {"error": "no token"}, {})) as server,
        pytest.raises(ServerError, match="needs a key .*IKAT_SEARCH_KEY"),
    ):
        ikat.Remote(server.url)(turns("tea"))


def test_an_untrusted_certificate_is_an_error_at_once(tmp_path, monkeypatch):
    certificate = self_signed(tmp_path)
    with answering(lambda request: models(), certificate) as server:
        with pytest.raises(ServerError, match="self-signed certificate.*SSL_CERT_FILE"):
            ikat.Remote(server.url).facts()
        assert server.connections == 1
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        assert ikat.Remote(server.url).facts().fingerprint == "f1"


@pytest.mark.parametrize("form", ["routir", "ikat"])
def test_a_reused_run_of_an_unknown_server_is_warned_of(form, tmp_path):
    def answer(request):
        if request["path"] == "/v1/models":
            return models(None)
        if form == "routir":
            return {"query": request["body"]["query"], "scores": {"sample-walk-001:0": 1.0}}
        return found(request, None, id="sample-walk-001:0")

    with answering(answer) as server:
        remote = ikat.Remote(server.url, form, "words" if form == "routir" else "")
        ikat.run({"mine": remote}, "ikat:sample", out=tmp_path)
        with pytest.warns(ikat.study.AlikeWarning, match=r"ikat\.Remote\(.*identified"):
            ikat.run({"mine": remote}, "ikat:sample", out=tmp_path)


def test_no_key_is_sent_that_is_meant_for_another(monkeypatch):
    monkeypatch.setenv("IKAT_SERVE_TOKEN", KEY)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with ours(found) as server:
        ikat.Remote(server.url)(turns("tea"))
    assert not any("Authorization" in request["headers"] for request in server.requests)


@pytest.mark.parametrize(
    "given",
    [
        {"url": "ftp://host"},
        {"url": "host:8000"},
        {"url": "http://me:secret@host"},
        {"url": "http://host?key=secret"},
        {"form": "solr"},
        {"form": "routir"},
        {"form": "pyserini"},
        {"form": "routir", "name": "words", "k1": 1.2, "b": 0.75},
        {"form": "routir", "name": "words", "cache": "file"},
        {"k1": 1.2},
        {"k1": -1.0, "b": 0.5},
        {"num_results": 0},
        {"timeout": 0},
    ],
)
def test_arguments_that_cannot_work_are_refused(given):
    with pytest.raises(ikat.UsageError) as refused:
        ikat.Remote(**{"url": "http://host", **given})
    assert "secret" not in str(refused.value)


def test_a_server_without_bm25_refuses_k1_and_b():
    with (
        answering(lambda request: models(bm25=False)) as server,
        pytest.raises(ikat.UsageError, match="takes no k1 and b"),
    ):
        ikat.Remote(server.url, k1=1.2, b=0.75)(turns("tea"))


def test_weighted_terms_cannot_be_sent():
    frame = turns("tea").assign(query_toks=[{"tea": 2.0}])
    with pytest.raises(ikat.DataError, match="query_toks"):
        ikat.Remote("http://127.0.0.1:9")(frame)


def test_columns_are_known_without_asking():
    remote = ikat.Remote("http://127.0.0.1:9")
    assert list(remote(turns()).columns) == ["qid", "query", "docno", "score", "rank", "text"]
    assert (remote % 5).compile().num_results == 5


def test_settings_that_change_no_result_are_not_in_the_repr():
    remote = ikat.Remote("http://host/", timeout=3, tries=2, concurrency=1, api_key_env="MINE")
    assert repr(remote) == "ikat.Remote('http://host')"
    assert pickle.loads(pickle.dumps(remote)) == remote


def test_queries_of_one_call_fit_into_a_body():
    search = Search("", 10, None, None, True)
    long = "tea " * 30_000
    batches = FORMS["ikat"].batches(search, [long, long, "tea", *map(str, range(64))])
    assert [len(batch) for batch in batches] == [1, 64, 2]


def catalogue(*models_listed):
    """A server that lists these models and answers any search."""

    def answer(request):
        return {"data": list(models_listed)} if request["path"] == "/v1/models" else found(request)

    return answering(answer)


def model(name, **search):
    facts = {"stage": "BM25", "fingerprint": "f1", "bm25": True, **search}
    return {"id": name, "search": facts}


@pytest.mark.parametrize(("depth", "wanted", "is_taken"), [(100, 100, True), (100, 101, False)])
def test_a_server_that_returns_fewer_passages_is_refused(depth, wanted, is_taken):
    with catalogue(model("raw", depth=depth)) as server:
        remote = ikat.Remote(server.url, num_results=wanted)
        if is_taken:
            assert len(remote(turns("tea"))) == 1
            return
        with pytest.raises(ikat.UsageError, match="at most 100 passages per query, not 101"):
            remote(turns("tea"))
    assert [request["path"] for request in server.requests] == ["/v1/models"]


@pytest.mark.parametrize(
    ("listed", "name", "told"),
    [
        ([model("a"), model("b")], "", "serves several models: choose with name=..., of a, b"),
        ([model("a"), model("b")], "c", "has no model 'c': give one of a, b"),
        ([{"id": "a"}], "", "doesn't say what it searches"),
        ([model("a", stage=None)], "", "model a of .* has no stage that searches"),
        (["a"], "", "lists no models"),
    ],
)
def test_a_model_that_is_not_served_is_named(listed, name, told):
    refused = pytest.raises((ikat.UsageError, ServerError), match=told)
    with catalogue(*listed) as server, refused:
        ikat.Remote(server.url, name=name)(turns("tea"))


def test_the_chosen_model_is_the_one_that_is_searched():
    with catalogue(model("a", depth=5), model("b")) as server:
        ikat.Remote(server.url, name="b", num_results=6)(turns("tea"))
    assert server.requests[-1]["body"]["model"] == "b"
    assert server.requests[-1]["body"]["k"] == 6


@pytest.mark.parametrize(
    ("status", "headers", "tries"),
    [(503, {"retry-after": "0"}, 2), (404, {}, 1), (302, {"location": "/v2"}, 1), (400, {}, 1)],
)
def test_only_what_may_pass_is_tried_again(status, headers, tries):
    def refuse(request):
        return status, {"error": "no"}, dict(headers)

    with answering(refuse) as server, pytest.raises(ServerError, match=str(status)):
        ikat.Remote(server.url, "pyserini", "mini", tries=2)(turns("tea"))
    assert len(server.requests) == tries


def test_a_call_that_succeeds_at_last_is_an_answer():
    def busy_once(request):
        if len(server.requests) < 2:
            return 503, {"error": "busy"}, {"retry-after": "0"}
        return pyserini(request)

    with answering(busy_once) as server:
        assert len(ikat.Remote(server.url, "pyserini", "mini", tries=2)(turns("tea"))) == 2


@pytest.mark.parametrize(
    ("depth", "queries", "sizes"),
    [
        (250, ["tea"] * 65, [64, 1]),
        (8000, ["tea"] * 3, [2, 1]),
        (8001, ["tea"] * 2, [1, 1]),
        (16_001, ["tea"] * 2, [1, 1]),
    ],
)
def test_a_call_asks_for_no_more_than_16000_passages(depth, queries, sizes):
    batches = FORMS["ikat"].batches(Search("", depth, None, None, False), queries)
    assert [len(batch) for batch in batches] == sizes


def test_an_answer_to_another_query_is_an_error():
    def swapped(request):
        answer = found(request)
        answer["results"].reverse()
        return answer

    refused = pytest.raises(ServerError, match="the passages are of 'mint', not of 'tea'")
    with ours(swapped) as server, refused:
        ikat.Remote(server.url)(turns("tea", "mint"))


def test_texts_are_those_of_the_passages_of_each_row():
    with ours(found) as server:
        results = ikat.Remote(server.url)(turns("tea", "mint", "tea"))
    assert results[["qid", "docno", "text"]].values.tolist() == [
        ["1_1", "d-tea", "About tea."],
        ["1_2", "d-mint", "About mint."],
        ["1_3", "d-tea", "About tea."],
    ]


def test_passages_with_and_without_text_are_an_error():
    def half(request):
        answer = found(request)
        if request["body"]["queries"] == ["tea", "mint"]:
            del answer["results"][1]["passages"][0]["text"]
        return answer

    with ours(half) as server, pytest.raises(ServerError, match="some passages have no text"):
        ikat.Remote(server.url)(turns("tea", "mint"))
