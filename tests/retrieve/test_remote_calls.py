"""Searching through a server whose calls are answered here: what is asked, kept and refused."""

from pathlib import Path

import pyterrier as pt
import pytest
from retrieve.query_frames import turns

import pyterrier_ikat as ikat
from pyterrier_ikat.conversations.frame import NoResultWarning
from pyterrier_ikat.errors import IkatError
from pyterrier_ikat.retrieve import ServerError
from pyterrier_ikat.retrieve.remote import UNTOLD, _packed, _unpacked
from pyterrier_ikat.retrieve.server_calls import Caller
from pyterrier_ikat.retrieve.server_forms import Facts, Found
from pyterrier_ikat.store import cache as result_cache

URL = "http://host"


class Server:
    """Answers the calls of every Caller by two passages a query, and keeps what was asked."""

    def __init__(self):
        self.facts = {"stage": "BM25", "fingerprint": "f", "bm25": True}
        self.answered = "f"  # the fingerprint of its answers
        self.texts = {"a": "of a", "b": "of b"}
        self.callers = []
        self.bodies = []
        self.asked_facts = 0

    def answers(self, caller, calls):
        self.callers.append(caller)
        return [self.answer(call) for call in calls]

    def answer(self, call):
        if call.path == "/v1/models":
            self.asked_facts += 1
            return {"data": [{"id": "m", "search": self.facts}]}
        self.bodies.append(dict(call.body))
        if "query" in call.body:
            return {"query": call.body["query"], "scores": {"a": 2, "b": 1}}
        results = []
        for query in call.body["queries"]:
            passages = []
            for docno, score in (("a", 2.0), ("b", 2.0)):
                passages.append({"id": docno, "score": score, "text": self.texts.get(docno)})
            if query == "nothing":
                passages = []
            results.append({"query": query, "passages": passages[: call.body["k"]]})
        return {"fingerprint": self.answered, "results": results}


@pytest.fixture
def server(monkeypatch):
    server = Server()
    monkeypatch.setattr(Caller, "answers", lambda caller, calls: server.answers(caller, calls))
    monkeypatch.setattr(result_cache, "_opened", {})
    return server


def test_a_result_has_the_servers_passages_for_each_row(server):
    frame = turns("tea", " ", None, "nothing", "tea").assign(qturn=[1, 2, 3, 4, 5], text="old")
    with pytest.warns(NoResultWarning, match="3 of 5 turns found no passage: 1_2, 1_3, 1_4"):
        found = ikat.Remote(URL)(frame)
    assert found.to_dict("list") == {
        "qid": ["1_1", "1_1", "1_5", "1_5"],
        "query": ["tea"] * 4,
        "qturn": [1, 1, 5, 5],
        "docno": ["a", "b", "a", "b"],
        "score": [2.0, pytest.approx(2.0), 2.0, pytest.approx(2.0)],
        "rank": [0, 1, 0, 1],
        "text": ["of a", "of b", "of a", "of b"],
    }
    assert found["score"][0] > found["score"][1]  # the server's order of ties
    assert server.bodies == [{"queries": ["tea", "nothing"], "k": 1000, "texts": True}]
    assert len(ikat.Remote(URL, num_results=1)(turns("tea"))) == 1


def test_calls_have_the_settings_of_the_operator(server):
    ikat.Remote(URL, "ikat", "m", 7, 1.2, 0.75, None, "KEY", 3.0, 2, 4)(turns("tea"))
    assert set(server.callers) == {Caller(URL, "KEY", 3.0, 2, 4)}
    [body] = server.bodies
    expected = {"queries": ["tea"], "k": 7, "texts": True, "model": "m", "k1": 1.2, "b": 0.75}
    assert body == expected
    ikat.Remote(URL)(turns("tea"))
    assert server.callers[-1] == Caller(URL, "IKAT_SEARCH_KEY", 120.0, 8, 6)


def test_answers_of_several_calls_are_put_together(server):
    found = ikat.Remote(URL, num_results=10_000)(turns("tea", "tram", "bus"))
    assert found["qid"].tolist() == ["1_1", "1_1", "1_2", "1_2", "1_3", "1_3"]
    assert [body["queries"] for body in server.bodies] == [["tea"], ["tram"], ["bus"]]


def test_no_query_asks_no_server(server):
    assert len(ikat.Remote(URL)(turns())) == 0
    with pytest.warns(NoResultWarning):
        ikat.Remote(URL)(turns(" "))
    assert server.callers == []


def test_texts_are_those_of_the_loader_the_server_or_none(server):
    loader = pt.apply.generic(lambda rows: rows.assign(text="own " + rows["docno"]))
    own = ikat.Remote(URL, texts=loader)
    assert own(turns("tea"))["text"].tolist() == ["own a", "own b"]
    assert server.bodies[-1]["texts"] is False
    assert "text" not in own.without_texts()(turns("tea")).columns
    assert "text" not in ikat.Remote(URL).without_texts()(turns("tram")).columns
    assert server.bodies[-1]["texts"] is False
    server.texts = {}
    assert "text" not in ikat.Remote(URL)(turns("bus")).columns
    server.texts = {"a": "of a"}
    with pytest.raises(ServerError, match="http://host: the answer has not the form 'ikat': some"):
        ikat.Remote(URL)(turns("cat"))


def test_texts_of_some_queries_alone_are_refused(server):
    remote = ikat.Remote(URL)
    remote(turns("tea"))
    server.texts = {}
    with pytest.raises(ServerError, match="some passages have no text: give texts="):
        remote(turns("tea", "tram"))  # the first is in the cache, with its texts


def test_what_is_known_is_not_asked_again_for_the_same_search(server, tmp_path):
    def asked(**options):
        before = len(server.bodies)
        ikat.Remote(URL, **options)(turns("tea"))
        return len(server.bodies) - before

    assert [asked(), asked()] == [1, 0]
    assert [asked(num_results=5), asked(name="m"), asked(k1=1.0, b=0.5)] == [1, 1, 1]
    assert asked(k1=1.0, b=0.5) == 0
    assert [asked(cache=tmp_path / "c"), asked(cache=tmp_path / "c")] == [1, 0]
    server.facts["fingerprint"] = server.answered = "g"
    assert [asked(), asked()] == [1, 0]
    server.facts["fingerprint"] = None
    assert [asked(), asked()] == [1, 1]
    loader = pt.apply.generic(lambda rows: rows)
    routir = {"form": "routir", "name": "w", "texts": loader}
    assert [asked(**routir), asked(**routir)] == [1, 1]


def test_another_index_during_a_run_is_an_error(server):
    remote = ikat.Remote(URL)
    [index, texts] = remote.parts()
    assert (index.fingerprint(), texts, repr(index)) == ("f", None, "'http://host'")
    remote(turns("tea"))
    server.answered = "g"
    with pytest.raises(ServerError, match="http://host searches another index"):
        remote(turns("tram"))
    server.facts["fingerprint"] = "g"
    with pytest.raises(ServerError, match="than when it was asked first: run again"):
        remote(turns("tram"))
    assert index.fingerprint() == "g"  # a run that begins now
    assert len(remote(turns("tram"))) == 2


def test_a_server_that_tells_nothing_is_untracked(server):
    remote = ikat.Remote(URL)
    assert not remote.is_untracked()
    server.facts["fingerprint"] = ""
    assert remote.is_untracked()
    assert remote.parts()[0].fingerprint() == UNTOLD
    before = server.asked_facts
    routir = ikat.Remote(URL, "routir", "words")
    assert routir.is_untracked()
    assert routir.parts() == [None]
    assert server.asked_facts == before


@pytest.mark.parametrize(
    ("facts", "options", "told"),
    [
        ({"bm25": False}, {"k1": 1.0, "b": 0.5}, "http://host searches with BM25, which takes no"),
        ({"bm25": False}, {"k1": 0, "b": 0}, "which takes no k1 and b: omit them"),
        ({"depth": 9}, {"num_results": 10}, "at most 9 passages per query, not 10: serve more"),
    ],
)
def test_what_a_server_cannot_do_is_told(server, facts, options, told):
    server.facts |= facts
    with pytest.raises(ikat.UsageError, match=told):
        ikat.Remote(URL, **options)(turns("tea"))
    assert server.bodies == []
    assert isinstance(ikat.Remote(URL, num_results=9).facts(), Facts)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"form": "solr"}, "form='solr'"),
        ({"num_results": 0}, "num_results=0"),
        ({"concurrency": 0}, "concurrency=0"),
        ({"tries": 0}, "tries=0"),
        ({"timeout": 0}, "timeout=0: give seconds"),
        ({"timeout": float("nan")}, "timeout=nan"),
        ({"form": "routir"}, "form='routir' searches one service of the server: give name="),
        ({"form": "pyserini"}, "form='pyserini' searches one index of the server"),
        ({"k1": 1.0}, "k1 and b belong together"),
        ({"b": 1.0}, "k1 and b belong together"),
        ({"k1": 1.0, "b": 2.0}, r"b=2\.0"),
        ({"form": "routir", "name": "w", "k1": 1.0, "b": 0.5}, "takes no k1 and b: set them at"),
        ({"form": "pyserini", "name": "i", "cache": "c"}, "cache=... is for form='ikat'"),
    ],
)
def test_arguments_that_cannot_work_are_named(given, told):
    with pytest.raises(ikat.UsageError, match=told):
        ikat.Remote(URL, **given)
    assert ikat.Remote(URL, k1=0, b=0, timeout=0.5, cache="c").cache == "c"


def test_a_cache_is_named_by_its_text():
    named = ikat.Remote(URL, cache=Path("of") / "mine")
    assert named.cache == str(Path("of") / "mine")
    assert named == ikat.Remote(URL, cache=str(Path("of") / "mine"))


@pytest.mark.parametrize(("cut", "depth"), [(5, 5), (20, 10)])
def test_a_cut_makes_a_search_no_deeper(cut, depth):
    remote = ikat.Remote(URL, num_results=10, k1=1.0, b=0.5)
    assert remote.fuse_rank_cutoff(cut) == ikat.Remote(URL, num_results=depth, k1=1.0, b=0.5)
    assert remote.num_results == 10


def test_a_repr_has_what_decides_results():
    full = ikat.Remote(URL, "ikat", "m", 5, 1.2, 0.75, None, "KEY", 3, 2, 1, "c")
    assert repr(full) == "ikat.Remote('http://host', name='m', num_results=5, k1=1.2, b=0.75)"
    loader = ikat.TextLoader("p.jsonl")
    assert repr(ikat.Remote(URL, texts=loader)) == f"ikat.Remote('http://host', texts={loader!r})"


def test_terms_are_refused_unless_none_is_there(server):
    with pytest.raises(ikat.DataError, match="query_toks can't be sent"):
        ikat.Remote(URL)(turns("tea", "tram").assign(query_toks=[None, {"tea": 1.0}]))
    assert len(ikat.Remote(URL)(turns("tea").assign(query_toks=None))) == 2
    with pytest.raises((IkatError, ValueError), match="query"):
        ikat.Remote(URL)(turns("tea").drop(columns="query"))


@pytest.mark.parametrize(
    "found", [Found([], [], None), Found(["a", "é"], [2.5, -1.0], None), Found(["a"], [1.0], ["x"])]
)
def test_passages_are_packed_whole(found):
    assert _unpacked(_packed(found)) == found


def test_scores_of_a_server_keep_all_their_digits(server, monkeypatch):
    answer = {"query": "tea", "scores": {"a": 0.123456789012, "b": 0.123}}
    monkeypatch.setattr(server, "answer", lambda call: answer)
    found = ikat.Remote(URL, "routir", "words")(turns("tea"))
    assert found["score"].tolist() == [0.123456789012, 0.123]


def test_an_answer_without_the_fingerprint_is_of_another_index(server):
    server.answered = None
    with pytest.raises(ServerError, match="http://host searches another index"):
        ikat.Remote(URL)(turns("tea"))


def test_another_server_or_parameter_is_another_search(server):
    for options in (
        {"url": URL},
        {"url": "http://other"},
        {"url": URL, "k1": 1.0, "b": 0.5},
        {"url": URL, "k1": 1.0, "b": 0.6},
        {"url": URL, "k1": 1.1, "b": 0.5},
    ):
        before = len(server.bodies)
        for _ in range(2):
            ikat.Remote(**options)(turns("tea"))
        assert len(server.bodies) == before + 1
    ikat.Remote(URL).without_texts()(turns("tea"))
    assert len(server.bodies) == 6  # rankings without texts are others


def test_only_the_new_of_several_queries_are_asked(server):
    remote = ikat.Remote(URL)
    remote(turns("tea", "tram"))
    with pytest.warns(NoResultWarning, match="1 of 4 turns found no passage: 1_3"):
        found = remote(turns("bus", "tram", "nothing", "tea"))
    assert server.bodies[1]["queries"] == ["bus", "nothing"]
    assert found["qid"].tolist() == ["1_1", "1_1", "1_2", "1_2", "1_4", "1_4"]


def test_a_server_without_texts_gives_no_column_of_them(server):
    columns = ["qid", "query", "docno", "score", "rank"]
    bare = ikat.Remote(URL).without_texts()
    for remote in (ikat.Remote(URL, "routir", "words"), bare):
        for queries in ([], ["tea"]):
            assert remote(turns(*queries)).columns.tolist() == columns
