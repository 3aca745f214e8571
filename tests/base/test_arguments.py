"""What can't be an argument is refused when an operator is built, in words of ours.

A pipeline goes to other processes whole.
"""

import copy
import math
import pickle
from types import SimpleNamespace

import joblib
import pandas as pd
import pyterrier as pt
import pytest
from trust.frames import ASKING, EVERY, EXPORTED, Says, Words

import pyterrier_ikat as ikat
from pyterrier_ikat.operator import Operator

KEY = "sk-that-nobody-should-see"


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("home")
    rows = [
        {"docno": f"d{number}", "text": text}
        for number, text in enumerate(["Rooibos has no caffeine.", "Green tea", "mint"])
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
    text, says = "openai:m budget=5 price_in=1 price_out=1 cache=none", Says("tea")
    assert ikat.Answer(text).llm is not ikat.Answer(text + " seed=1").llm
    answer, queries = ikat.Answer(text), ikat.Queries(text)
    assert answer.llm is queries.llm
    assert ikat.Answer(says)(pd.DataFrame({"qid": ["1_1"], "query": ["tea?"]}))[
        "qanswer"
    ].tolist() == ["tea"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ikat.RRF(k=math.nan), "k=nan"),
        (lambda: ikat.BiEncoder("m", batch_size=0), "batch_size=0: give 1 or more"),
        (lambda: ikat.generate.PassageQueries(Says("x"), 5), "forms=5: give a list"),
        (lambda: ikat.plan([], pd.DataFrame()), "there is no system: give at least one"),
        (lambda: ikat.experiment(5, "ikat:sample"), "a system is a int: give"),
        (lambda: ikat.conversation([5]), "message 1 of the conversation is 5"),
        (
            lambda: ikat.conversation([{"role": "user", "content": "tea?"}], "I am vegan."),
            "ptkb='I am vegan.': give a dict",
        ),
    ],
)
def test_the_refusal_says_what_to_give(call, message):
    with pytest.raises(ikat.UsageError, match=message):
        call()


@pytest.mark.parametrize("corpus", [{"docno": "d", "text": "t"}, "passages.jsonl", 5, None])
def test_a_corpus_is_an_iterable_of_dicts(corpus, tmp_path):
    with pytest.raises(ikat.UsageError, match="the corpus is a .*: give dicts with docno and text"):
        ikat.PassageIndex(tmp_path / "i").index(corpus)
    with pytest.raises(ikat.DataError, match="passage 1 of the corpus is 'd1': give a dict"):
        ikat.PassageIndex(tmp_path / "j").index(["d1"])
    assert not (tmp_path / "i").exists()


HISTORIES = [
    "Hi",
    ["Hi"],
    {"role": "user", "content": "Hi"},
    [{"role": "user"}],
    [{"user": "Hi"}],
    [["user", "Hi"]],
    5,
    [{"role": "user", "content": 5}],
    [{"role": "human", "content": "Hi"}],
]
READERS = [
    ikat.Answer,
    ikat.Rewrite,
    ikat.generate.Summarise,
    lambda llm: ikat.AllUtterances(),
    lambda llm: ikat.generate.Seq2SeqRewrite("m"),
]


@pytest.mark.parametrize("history", HISTORIES, ids=repr)
@pytest.mark.parametrize("make", READERS)
def test_a_history_of_another_shape_is_named(make, history):
    frame = pd.DataFrame({"qid": ["9-1_3"], "query": ["tea?"]})
    frame["qhistory"] = pd.Series([history], dtype=object)
    with pytest.raises(
        ikat.DataError, match="turn 9-1_3 has the qhistory .*: give a list of messages"
    ):
        make(Says("x"))(frame)


@pytest.mark.parametrize(
    "ptkb", ["I am vegan.", 5, [5], {"1": 5}, [["1", "I am vegan."]]], ids=repr
)
def test_a_persona_of_another_shape_is_named(ptkb):
    frame = pd.DataFrame({"qid": ["9-1_3"], "query": ["tea?"]})
    frame["qptkb"] = pd.Series([ptkb], dtype=object)
    for operator in (
        ikat.Answer(Says("x")),
        ikat.RankStatements(Words()),
        ikat.SelectStatements(Says("[1]")),
    ):
        with pytest.raises(
            ikat.DataError, match="turn 9-1_3 has the qptkb .*: give a dict of statements by id"
        ):
            operator(frame)


class Mine(Operator):
    def __init__(self, depth: int = 3) -> None:
        super().__init__()
        self.depth = depth

    def transform(self, inp):
        return inp


def test_a_repr_names_the_operators_own_module():
    assert repr(Mine(5)) == f"{__name__}.Mine(depth=5)"
    assert repr(ikat.RRF(k=5)) == "ikat.RRF(k=5)"


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


def test_a_mistyped_value_of_a_set_is_named():
    with pytest.raises(
        ikat.UsageError,
        match=r"style='lama' is unknown: did you mean llama\? choose one of gpt, llama",
    ):
        ikat.Rewrite(Says("x"), style="lama")


def test_a_mistyped_operator_is_named():
    with pytest.raises(
        AttributeError, match=r"pyterrier_ikat has no Rewrit: did you mean Rewrite\?"
    ):
        ikat.Rewrit  # noqa: B018
    assert not hasattr(ikat, "__path_of_nothing__")
