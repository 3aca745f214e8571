"""Operators and pipelines that are pickled, copied or sent to other processes."""

import copy
import pickle
from types import SimpleNamespace

import joblib
import pandas as pd
import pyterrier as pt
import pytest
from trust.frames import ASKING, EVERY, EXPORTED, Says

import pyterrier_ikat as ikat

KEY = "sk-that-nobody-should-see"


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("home")
    rows = [
        {"docno": "d0", "text": "Rooibos has no caffeine."},
        {"docno": "d1", "text": "Green tea"},
        {"docno": "d2", "text": "mint"},
    ]
    index = ikat.PassageIndex(folder / "index").index(rows)
    (folder / "passages.jsonl").write_text('{"id": "d0", "contents": "mint", "url": ""}')
    (folder / "run.trec").write_text("9-1_1 Q0 d1 1 2.5 given\n")
    return SimpleNamespace(
        run=folder / "run.trec",
        index=index,
        bm25=index.bm25,
        parts=[index.bm25()],
        t5="t5",
        rewriter="t5",
        cross_encoder="m",
        colbert="m",
        passages="p.jsonl",
    )


BUILT = [name for name in EVERY if name not in ("SpladeRetriever",)]


@pytest.mark.parametrize("name", BUILT)
def test_operators_are_equal_after_a_journey(name, home):
    operator = EVERY[name].make(ikat.llm("recorded:sample"), home)
    for other in (
        pickle.loads(pickle.dumps(operator)),
        copy.copy(operator),
        copy.deepcopy(operator),
    ):
        if "Words" not in repr(operator):  # which is a value of nobody's
            assert (other, hash(other)) == (operator, hash(operator))
        assert repr(other) == repr(operator) or "object at" in repr(operator)


@pytest.mark.parametrize("name", ASKING)
def test_an_operator_takes_what_llm_takes_and_refuses_the_rest(name):
    make, says = EXPORTED[name], Says("mint tea")
    assert make("recorded:sample") == make(ikat.llm("recorded:sample"))
    assert make(says) == make(ikat.llm(says))
    for wrong in (5, None, "gpt-4o", Says, b"x", [says], ikat.RawUtterance(), pd.DataFrame()):
        with pytest.raises(ikat.UsageError):
            make(wrong)


def test_operators_of_the_same_text_share_account_and_budget():
    text = "openai:m budget=5 price_in=1 price_out=1 cache=none"
    says = Says("tea")
    assert ikat.Answer(text).llm is not ikat.Answer(text + " seed=1").llm
    answer = ikat.Answer(text)
    queries = ikat.Queries(text)
    assert answer.llm is queries.llm
    turns = pd.DataFrame({"qid": ["1_1"], "query": ["tea?"]})
    assert ikat.Answer(says)(turns)["qanswer"].tolist() == ["tea"]


def test_a_pickle_holds_no_key_no_connection_and_no_lock(monkeypatch, tmp_path):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    llm = ikat.llm(f"openai:m price_in=1 price_out=1 budget=3 cache={tmp_path / 'c.sqlite'}")
    llm.open()
    llm.budget.spend(2.0)
    llm.ledger.count("answer", "m", calls=1)
    llm.cache.get(["any"])
    packed = pickle.dumps(ikat.Answer(llm) >> ikat.MultiQuery(llm))
    assert KEY.encode() not in packed
    other = pickle.loads(packed)
    first, second = other[0].llm, other[1].llm
    assert first is second
    assert (first, hash(first), repr(first)) == (llm, hash(llm), repr(llm))
    assert (first.budget.spent, first.ledger.frame()["calls"].tolist()) == (2.0, [1])
    first.open()
    first.cache.get(["any"])
    for one in (llm, first):
        one.close()


def test_a_copy_in_this_process_has_the_same_account():
    llm = ikat.llm(Says("tea"))
    assert copy.copy(llm) is copy.deepcopy(llm) is llm
    assert copy.deepcopy(ikat.Answer(llm) >> ikat.MultiQuery(llm))[0].llm is llm


def test_joblib_sends_a_pipeline_to_processes_of_its_own():
    pipeline = ikat.Answer("recorded:sample") >> ikat.MultiQuery("recorded:sample", given="answer")
    topics = pt.get_dataset("ikat:sample").get_topics().head(4)
    halves = [topics.iloc[:2], topics.iloc[2:].reset_index(drop=True)]
    sent = joblib.Parallel(n_jobs=2, backend="loky")(
        joblib.delayed(pipeline.transform)(half) for half in halves
    )
    pd.testing.assert_frame_equal(pd.concat(sent, ignore_index=True), pipeline(topics))
