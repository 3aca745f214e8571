"""A two-node Ray cluster gives what one process gives, and a process that dies loses nothing."""

import logging
import os
import sys
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import pandas as pd
import pyterrier as pt
import pytest
from distribute.conftest import STORE
from distribute.stages import ByLength, Dies, Raises, StaysOn, Where, turns
from fakes import Scripted
from llms.batch_server import BatchServer
from rank.tiny_cross_encoders import save_cross_encoder

import pyterrier_ikat as ikat
from pyterrier_ikat import MergeShards
from pyterrier_ikat.distribute import on_ray, workers
from pyterrier_ikat.distribute.worker import Worker
from pyterrier_ikat.events import in_chain
from pyterrier_ikat.llms import LLM, Backend, BatchUnderWay, BudgetExceeded, FatalLLMError, LLMFailure, Reply, StageError
from pyterrier_ikat.llms.ledger import Budget
from pyterrier_ikat.methods import METHODS
from pyterrier_ikat.retrieve import NoResultWarning

pytestmark = pytest.mark.usefixtures("cluster")
pytest.importorskip("ray", reason="Ray isn't installed: pip install 'pyterrier_ikat[ray]'")


class Asked(Backend):
    """A backend that answers each question by its last word, and remembers whom it answered."""

    def __init__(self, cost=None, bad=()):
        self.model, self.concurrency = "asked", 2
        self.identity = {"provider": "fake", "model": "asked", "params": {}}
        self.bad, self.qids, self.cost = bad, [], cost

    def complete(self, requests):
        self.qids += [request.qid for request in requests]
        return [Reply("" if one.qid in self.bad else f"answer {one.qid}", "asked", "stop", self.cost, 0) for one in requests]


@pytest.fixture(scope="module", autouse=True)
def keep_processes(cluster):
    """One pipeline that lives as long as the module, so that the processes do."""
    kept = on_ray(pt.Transformer.identity(), 2)
    kept(turns(2))
    yield
    del kept


@pytest.fixture(scope="module")
def data():
    return pt.get_dataset("ikat:sample")


@pytest.fixture(scope="module")
def index(tmp_path_factory, data):
    return ikat.PassageIndex(tmp_path_factory.mktemp("bm25") / "index").index(data.get_corpus_iter(verbose=False))


@pytest.mark.parametrize("name", ["raw", "hqe", "aqd", "aqd_given", "llama10", "aqd_a", "gtr", "rtg"])
def test_results_and_ledger_are_those_of_one_process_row_for_row(name, index, data):
    topics = data.get_topics("manual" if METHODS[name].manual else None)
    found = []
    for spread in (lambda system: system, lambda system: on_ray(system, 5)):
        llms = {"llm": ikat.llm("recorded:sample"), "second_llm": ikat.llm("recorded:sample-claude")}
        retriever = index.bm25(num_results=METHODS[name].depth)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NoResultWarning)
            results = spread(METHODS[name].build(retriever=retriever, reranker=ByLength(), **llms))(topics)
        found.append((results, [llm.ledger.frame().drop(columns="seconds") for llm in llms.values()]))
    (one, of_one), (spread, of_spread) = found
    assert len(one) > 100
    pd.testing.assert_frame_equal(spread, one)
    for ledger, expected in zip(of_spread, of_one, strict=True):
        pd.testing.assert_frame_equal(ledger, expected)


def test_a_models_scores_differ_by_float_noise_at_most(index, tmp_path):
    model = ikat.CrossEncoder(save_cross_encoder(tmp_path / "model", "electra"), max_length=24)
    system = index.bm25(num_results=10) >> model
    topics = turns(3).assign(query=["green tea", "black coffee", "white tea leaves"])
    spread, one = (
        found.sort_values(["qid", "docno"], ignore_index=True) for found in (on_ray(system, 2, {"second": 1})(topics), system(topics))
    )
    assert len(one) > 15
    pd.testing.assert_frame_equal(spread.drop(columns="rank"), one.drop(columns="rank"), check_exact=False, rtol=1e-4, atol=1e-5)
    assert one["score"].nunique() > 10


def test_both_nodes_work_at_the_same_time_and_processes_stay(tmp_path):
    found = on_ray(Where(tmp_path, together=2), 4)(turns(8))
    assert found["node"].nunique() == found["process"].nunique() == 2
    assert os.getpid() not in found["process"].tolist()
    again = on_ray(Where(tmp_path), 4)(turns(8))
    assert set(again["process"]) <= set(found["process"])


def test_resources_choose_the_node(tmp_path, cluster):
    found = on_ray(Where(tmp_path), 3, {"second": 1})(turns(6))
    assert set(found["node"]) == {cluster["second"]}


def test_parts_of_a_collection_are_searched_by_processes_of_their_own(data, tmp_path):
    rows = list(data.get_corpus_iter(verbose=False))
    parts = [ikat.PassageIndex(tmp_path / str(number)).index(rows[number::2]).bm25(num_results=20) for number in (0, 1)]
    spread = MergeShards([on_ray(parts[0], 1, {"second": 0.5}), on_ray(parts[1], 1, {"second": 0.25})])
    topics = turns(3).assign(query=["green tea", "black coffee", "a train"])
    pd.testing.assert_frame_equal(spread(topics), MergeShards(parts)(topics))


def test_resources_that_no_node_has_are_an_error():
    with pytest.raises(ikat.UsageError, match="no node of the Ray cluster offers {'third': 1}"):
        on_ray(ikat.ExplodeQueries(), 2, {"third": 1})(turns(2))


def test_a_process_that_dies_in_the_middle_loses_nothing(tmp_path, caplog):
    backend = Asked()
    llm = LLM(backend)  # no cache: asking again would be paid again
    first, second = ikat.Answer(llm), ikat.Rewrite(llm)
    died = tmp_path / "died"
    with caplog.at_level(logging.WARNING, "pyterrier_ikat"):
        found = on_ray(first >> Dies("t04", died, 1) >> second, 4)(turns(8))
    assert died.read_text() == "x"
    assert found["qid"].tolist() == turns(8)["qid"].tolist()
    assert found["qanswer"].tolist() == [f"answer {qid}" for qid in found["qid"]]
    assert sorted(backend.qids) == sorted(2 * turns(8)["qid"].tolist())
    assert llm.ledger.frame()[["stage", "calls", "failures"]].values.tolist() == [["answer", 8, 0], ["rewrite", 8, 0]]
    assert "a process on the Ray cluster died" in caplog.text


def test_a_node_that_is_lost_in_the_middle_loses_nothing(tmp_path, cluster):
    def added():
        return cluster["nodes"].add_node(num_cpus=1, object_store_memory=STORE, resources={"spare": 1})

    lost, backend, begun = added(), Asked(), tmp_path / "begun"
    system = on_ray(ikat.Answer(LLM(backend)) >> StaysOn(lost.node_id, begun), 2, {"spare": 1})
    with ThreadPoolExecutor(1) as thread:
        running = thread.submit(system, turns(4))
        while not begun.exists() and not running.done():
            time.sleep(0.1)
        other = added()
        cluster["nodes"].remove_node(lost, allow_graceful=False)
        found = running.result(120)
    cluster["nodes"].remove_node(other)
    assert begun.exists()
    assert found["qanswer"].tolist() == [f"answer {qid}" for qid in turns(4)["qid"]]
    assert sorted(backend.qids) == sorted(turns(4)["qid"].tolist())


def test_a_part_that_always_ends_its_process_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr("pyterrier_ikat.distribute.pipeline.TRIES", 2)  # each takes seconds
    died = tmp_path / "died"
    with pytest.raises(ikat.UsageError, match="died 2 times at the turns t04 to t05"):
        on_ray(Dies("t04", died, 99), 4)(turns(8))
    assert died.read_text() == "xx"
    assert len(on_ray(ikat.ExplodeQueries(), 1)(turns(1).assign(qsubqueries=[["a", "b"]]))) == 2  # the next pipeline runs


@pytest.fixture
def frail(monkeypatch, tmp_path):
    """Processes that die as they start, the first so many; a file counts them."""

    def first(times):
        counter = tmp_path / "starts"
        counter.touch()

        class Frail(Worker):
            def __init__(self):
                tried = counter.read_text()
                counter.write_text(tried + "x")
                if len(tried) < times:
                    os._exit(1)
                super().__init__()

        monkeypatch.setattr(workers, "Worker", Frail)
        return counter

    return first


def test_a_process_that_dies_as_it_starts_is_started_again(frail):
    # So it goes where Ray places one on a node that is gone, before it has noticed that.
    counter = frail(1)
    found = on_ray(pt.Transformer.identity(), 1, {"second": 0.125})(turns(2))
    assert found["qid"].tolist() == ["t00", "t01"]
    assert counter.read_text() == "xx"


def test_processes_that_always_die_as_they_start_are_an_error(frail, monkeypatch):
    monkeypatch.setattr(workers, "STARTS", 2)
    counter = frail(99)
    with pytest.raises(ikat.UsageError, match=r"^no process could be started on the Ray cluster: [\s\S]*died"):
        on_ray(pt.Transformer.identity(), 1, {"second": 0.125})(turns(2))
    assert counter.read_text() == "xx"


def test_our_error_arrives_with_its_message():
    with pytest.raises(ikat.DataError, match="^turn t03 is odd: leave it out$"):
        on_ray(Raises("t03"), 4)(turns(8))


def test_any_other_error_keeps_type_and_place():
    with pytest.raises(ZeroDivisionError, match=r"(?s)stages\.py.*turn t03 is odd"):
        on_ray(Raises("t03", ZeroDivisionError), 1)(turns(8))


def test_failed_turns_of_all_parts_are_in_one_error():
    llm = LLM(Asked(bad=("t01", "t06")))
    with pytest.raises(StageError) as raised:
        on_ray(ikat.Answer(llm), 4)(turns(8))
    assert [failure.qid for failure in raised.value.failures] == ["t01", "t06"]
    assert all(isinstance(failure, LLMFailure) for failure in raised.value.failures)


def test_fallbacks_of_all_parts_are_in_the_ledger():
    llm = LLM(Asked(bad=("t01", "t06")))
    found = on_ray(ikat.Answer(llm, on_error="fallback"), 4)(turns(8))
    assert found["qanswer"].tolist()[1] == "question t01"
    assert llm.ledger.frame()[["calls", "failures", "fallbacks"]].values.tolist() == [[8, 2, 2]]


def test_the_budget_holds_over_all_processes():
    backend = Asked(cost=1_000_000)
    llm = LLM(backend, budget=Budget(price_in=1.0, price_out=1.0, limit=5.0))
    with pytest.raises(BudgetExceeded):
        on_ray(ikat.Answer(llm), 6)(turns(30))
    assert 5 <= len(backend.qids) <= 5 + backend.concurrency


def test_an_error_of_the_language_model_is_the_callers(monkeypatch):
    backend = Asked()
    monkeypatch.setattr(backend, "complete", lambda requests: (_ for _ in ()).throw(FatalLLMError("the key is wrong")))
    with pytest.raises(FatalLLMError, match="the key is wrong"):
        on_ray(ikat.Answer(LLM(backend)), 1)(turns(8))


def test_warnings_arrive_once(index):
    topics = turns(4).assign(query=["tea", "", "tea", ""])
    with pytest.warns(NoResultWarning) as caught:
        found = on_ray(index.bm25(), 2)(topics)
    assert set(found["qid"]) == {"t00", "t02"}
    assert sorted(str(warning.message) for warning in caught) == [
        "1 of 2 turns have no passage: t01; they count 0 in evaluation",
        "1 of 2 turns have no passage: t03; they count 0 in evaluation",
    ]


def test_results_can_be_written_to():
    found = on_ray(ikat.ExplodeQueries(), 1)(turns(2).assign(qsubqueries=[["a"], ["b"]], score=[0.5, 1.5]))
    found.loc[0, "score"] = 2.0
    found["score"].to_numpy(copy=True)[0] = 1.0
    assert found["score"].tolist() == [2.0, 1.5]


def test_an_empty_frame_has_the_pipelines_columns_and_asks_nobody(index, monkeypatch):
    monkeypatch.setattr("pyterrier_ikat.distribute.pipeline.find_workers", None)
    empty = turns(0)
    llm = ikat.llm(Scripted())
    system = ikat.Answer(llm) >> index.bm25()
    pd.testing.assert_frame_equal(on_ray(system, 4)(empty), system(empty))


def test_it_is_a_value_that_can_be_pasted_back():
    llm = ikat.llm("recorded:sample")
    system = on_ray(ikat.Answer(llm), 4, {"CPU": 2})
    assert repr(system) == "ikat.on_ray(ikat.Answer(ikat.llm('recorded:sample')), 4, resources={'CPU': 2})"
    assert system == on_ray(ikat.Answer(ikat.llm("recorded:sample")), 4, {"CPU": 2})
    assert hash(system) == hash(on_ray(ikat.Answer(llm), 4, {"CPU": 2}))
    assert system != on_ray(ikat.Answer(llm), 5, {"CPU": 2})


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((None, 2), "pipeline=None: give a PyTerrier transformer"),
        ((ikat.ExplodeQueries(), 0), "partitions=0"),
        ((ikat.ExplodeQueries(), 2, {"CPU": 0}), "resources="),
    ],
)
def test_arguments_out_of_range(arguments, said):
    with pytest.raises(ikat.UsageError, match=said):
        on_ray(*arguments)


def test_without_ray_and_without_connection_the_error_says_what_to_do(monkeypatch):
    monkeypatch.setattr("ray.is_initialized", lambda: False)
    with pytest.raises(ikat.UsageError, match=r"call ray\.init\("):
        on_ray(ikat.ExplodeQueries(), 2)(turns(2))
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ikat.UsageError, match=r"pip install 'pyterrier_ikat\[ray\]'"):
        on_ray(ikat.Rewrite(ikat.llm(Scripted())), 2)(turns(2))


def test_what_a_process_asks_is_asked_in_the_chain_of_the_caller():
    backend, chains = Asked(), []
    complete = backend.complete
    backend.complete = lambda requests: chains.extend(request.chain for request in requests) or complete(requests)
    with in_chain(2):
        on_ray(ikat.Answer(LLM(backend)), 2)(turns(4))
    assert chains == [2] * 4


def test_every_part_sends_its_batch_before_what_is_under_way_is_told(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    server = BatchServer()
    try:
        spread = on_ray(ikat.Rewrite(ikat.llm(f"openai:m base_url={server.url} batch=on")), 3)
        with pytest.raises(BatchUnderWay, match="stage rewrite: 6 requests wait in 3 batches"):
            spread(turns(6))
        server.complete()
        assert len(spread(turns(6))) == 6
        assert len(server.batches) == 3
    finally:
        server.close()
