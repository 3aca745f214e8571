"""Our search server, asked by ``ikat.Remote`` in another process: the rows of the local index."""

import os
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import ClassVar

import httpx
import pandas as pd
import pyterrier as pt
import pytest
from talking import Talks

import pyterrier_ikat as ikat
from pyterrier_ikat.errors import UsageError
from pyterrier_ikat.live.serving import running, service
from pyterrier_ikat.live.serving.replies import Failure
from pyterrier_ikat.live.serving.requests import SearchRequest, read
from pyterrier_ikat.live.serving.searching import search_facts, stage_for_client
from pyterrier_ikat.live.serving.service import open_served, search
from pyterrier_ikat.llms import Ledger
from pyterrier_ikat.operator import with_fields
from pyterrier_ikat.retrieve import ServerError
from pyterrier_ikat.study.systems import System


@pytest.fixture(scope="module")
def url(sample_index):
    with running("raw", index=sample_index) as server:
        yield server.url


@pytest.fixture
def topics():
    return pt.get_dataset("ikat:sample").get_topics()


@pytest.mark.parametrize("settings", [{}, {"k1": 1.2, "b": 0.75}, {"num_results": 7}])
def test_rows_are_those_of_the_local_index(url, sample_index, topics, settings):
    local = ikat.PassageIndex(sample_index).bm25(**settings)(topics)
    pd.testing.assert_frame_equal(ikat.Remote(url, **settings)(topics), local)


def test_a_dense_fusion_s_texts_are_not_asked_where_unread(url, sample_index, topics):
    local = ikat.PassageIndex(sample_index).bm25().without_texts()(topics)
    pd.testing.assert_frame_equal(ikat.Remote(url).without_texts()(topics), local)


def asked(url, **body):
    return httpx.post(f"{url}/search", json=body, timeout=60, verify=False)


def test_a_blank_query_in_a_batch_has_no_passages(url):
    answer = asked(url, queries=["tea", " ", "", "music"], k=1).json()
    assert [len(result["passages"]) for result in answer["results"]] == [1, 0, 0, 1]
    [result] = asked(url, queries=[""]).json()["results"]
    assert result["passages"] == []


def test_a_chat_client_s_address_is_told_apart(url):
    with pytest.raises(ServerError, match="that of ikat.Remote doesn't"):
        ikat.Remote(f"{url}/v1").facts()


def test_a_client_takes_more_passages_than_the_served_method(tmp_path):
    passages = [{"docno": f"d{number}", "text": f"tea {number}"} for number in range(1200)]
    index = ikat.PassageIndex(tmp_path / "index").index(passages)
    with running("raw", index=index) as server:
        for settings in ({}, {"k1": 1.2, "b": 0.75}):
            remote = ikat.Remote(server.url, num_results=1100, **settings)
            local = index.bm25(num_results=1100, **settings)
            pd.testing.assert_frame_equal(remote.search("tea"), local.search("tea"))


def test_a_stage_of_another_package_tells_its_depth(topics):
    found = pt.apply.by_query(
        lambda frame: frame.assign(docno="d1", score=1.0, rank=0), add_ranks=False
    )
    found.num_results = 10
    with running({"mine": found}) as server:
        with pytest.raises(ikat.UsageError, match="at most 10 passages per query, not 1000"):
            ikat.Remote(server.url)(topics)
        assert len(ikat.Remote(server.url, num_results=10)(topics)) == len(topics)


def test_depth_goes_to_ten_thousand(url):
    assert len(asked(url, query="music", k=5000).json()["results"][0]["passages"]) > 0
    assert asked(url, query="tea", k=10_001).status_code == 400
    assert asked(url, queries=["tea"] * 64, k=1001).status_code == 400


def test_answers_without_texts_have_ids_and_scores(url):
    [result] = asked(url, query="tea", k=1, texts=False).json()["results"]
    assert [sorted(passage) for passage in result["passages"]] == [["id", "score"]]


@pytest.mark.parametrize("given", [{"k1": -1}, {"b": 2}, {"k1": "x"}])
def test_wrong_parameters_of_bm25_are_refused(url, given):
    assert asked(url, query="tea", **given).status_code == 400


def test_a_stage_without_bm25_refuses_its_parameters(topics):
    found = pt.apply.by_query(
        lambda frame: frame.assign(docno="d1", score=1.0, rank=0), add_ranks=False
    )
    with running({"mine": found}) as server:
        refused = asked(server.url, query="tea", k1=1.2, b=0.75)
        assert (refused.status_code, "takes no k1 and b" in refused.text) == (400, True)
        with pytest.raises(ikat.UsageError, match="takes no k1 and b"):
            ikat.Remote(server.url, k1=1.2, b=0.75)(topics)
        # nobody can tell when it changes
        assert ikat.Remote(server.url).is_untracked()


def test_a_server_may_ask_another_server(url, sample_index, topics):
    with running({"relay": ikat.Remote(url)}) as relay:
        settings = {"k1": 1.2, "b": 0.75}
        expected = ikat.PassageIndex(sample_index).bm25(**settings)(topics)
        pd.testing.assert_frame_equal(ikat.Remote(relay.url, **settings)(topics), expected)


def test_one_of_several_models_has_to_be_chosen(sample_index):
    with running(["raw", "all_utterances"], index=sample_index) as server:
        with pytest.raises(ikat.UsageError, match="several models"):
            ikat.Remote(server.url).facts()
        with pytest.raises(ikat.UsageError, match="no model 'row'"):
            ikat.Remote(server.url, name="row").facts()
        assert ikat.Remote(server.url, name="raw").facts().bm25


def test_an_address_is_a_retriever_with_the_paper_s_bm25(url, sample_index, tmp_path):
    remote = ikat.run("raw", "ikat:sample", retriever=url, out=tmp_path / "remote")
    local = ikat.run("raw", "ikat:sample", index=sample_index, out=tmp_path / "local")
    ranked = [run.folders["raw"].results() for run in (remote, local)]
    pd.testing.assert_frame_equal(*ranked)
    stages = remote.folders["raw"].parameters()["stages"]
    assert any("k1=0.9, b=0.4" in stage for stage in stages.values())
    assert url not in str(stages)


TOKEN = "planted-token-0123456789"


class Served:
    """A started ``ikat serve`` of an index, on the port of one before it if that is given."""

    def __init__(self, index, port=0):
        root = str(Path(ikat.__file__).parents[1])
        command = "from pyterrier_ikat.cli import main; main()"
        arguments = ["serve", "raw", "--index", str(index), "--port", str(port)]
        environment = {"PYTHONPATH": root, "IKAT_SERVE_TOKEN": TOKEN, "PYTHONUNBUFFERED": "1"}
        self.process = subprocess.Popen(
            [sys.executable, "-c", command, *arguments],
            env=os.environ | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        begun = "".join(iter(self.process.stdout.readline, "Ctrl-C stops\n"))
        [self.url] = set(re.findall(r"http://127\.0\.0\.1:\d+", begun))
        self.port = int(self.url.rpartition(":")[2])
        self._reads = threading.Thread(target=self.process.stdout.read)
        self._reads.start()

    def kill(self):
        self.process.kill()
        self.process.wait()
        self._reads.join()
        self.process.stdout.close()


@pytest.fixture
def serve(monkeypatch):
    monkeypatch.setenv("IKAT_SEARCH_KEY", TOKEN)
    started = []

    def start(index, port=0):
        started.append(Served(index, port))
        return started[-1]

    yield start
    for served in started:
        if served.process.poll() is None:
            served.kill()


@with_fields
class Kills(ikat.Operator):
    """Kills the server that is in its list, before its second batch of turns."""

    seen: ClassVar[list] = []

    def transform(self, inp):
        if len(inp):
            self.seen.append(len(inp))
            if len(self.seen) > 1 and isinstance(self.seen[0], Served):
                self.seen.pop(0).kill()
        return inp


def test_a_killed_server_stops_the_run_which_then_resumes(serve, sample_index, tmp_path):
    served = serve(sample_index)
    Kills.seen[:] = [served]
    pipeline = Kills() >> ikat.Remote(served.url, tries=1)
    options = {"out": tmp_path / "runs", "turns_at_once": 4}
    with pytest.raises(ServerError, match="no connection"):
        ikat.run({"mine": pipeline}, "ikat:sample", **options)
    assert not (tmp_path / "runs" / "mine").exists()
    serve(sample_index, served.port)
    resumed = ikat.run({"mine": pipeline}, "ikat:sample", **options)
    pipeline = ikat.PassageIndex(sample_index).bm25()
    local = ikat.run({"local": pipeline}, "ikat:sample", out=tmp_path / "local")
    ranked = [resumed.folders["mine"].results(), local.folders["local"].results()]
    pd.testing.assert_frame_equal(*ranked)
    text = "".join(path.read_text() for path in (tmp_path / "runs").rglob("*.json"))
    assert TOKEN not in text


def test_a_run_refuses_an_index_exchanged_between_starts(serve, sample_index, tmp_path):
    served = serve(sample_index)
    remote = ikat.Remote(served.url, tries=1)
    ikat.run({"mine": remote}, "ikat:sample", out=tmp_path)
    served.kill()
    other = tmp_path / "other.index"
    ikat.PassageIndex(other).index([{"docno": "d1", "text": "green tea"}])
    serve(other, served.port)
    with pytest.raises(ikat.IkatError, match="index"):
        ikat.run({"mine": ikat.Remote(served.url)}, "ikat:sample", out=tmp_path)


def test_a_wrong_token_is_an_error_that_names_the_variable(serve, sample_index, monkeypatch):
    served = serve(sample_index)
    monkeypatch.setenv("IKAT_SEARCH_KEY", "another-token-0123456789")
    with pytest.raises(ServerError, match="IKAT_SEARCH_KEY"):
        ikat.Remote(served.url).facts()


# Searches of the service


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


def test_only_a_wrong_parameter_is_the_client_s_fault(monkeypatch):
    system = open_served({"a": Talks()}, Ledger())["a"]

    def fails(error):
        def stage(*_):
            raise error

        monkeypatch.setattr(service, "stage_for_client", stage)
        return read(SearchRequest, {"query": "tea"})

    with pytest.raises(service.Failure, match="k1 is below 0") as refused:
        search(system, fails(ikat.UsageError("k1 is below 0")))
    assert (refused.value.status, refused.value.param) == (400, "k1")
    with pytest.raises(ikat.DataError, match="the index is gone"):
        search(system, fails(ikat.DataError("the index is gone")))
