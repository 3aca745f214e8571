"""What can't be an argument is refused when an operator is built, in words of ours, and a pipeline goes to other processes whole."""

import copy
import inspect
import math
import pickle
from types import SimpleNamespace

import joblib
import numpy as np
import pandas as pd
import pyterrier as pt
import pytest
from trust.frames import ASKING, EVERY, Says, Words

import pyterrier_ikat as ikat
from pyterrier_ikat.arguments import checked
from pyterrier_ikat.evaluation import RougeL, evaluate_responses
from pyterrier_ikat.llms import LLM, Request
from pyterrier_ikat.operator import Operator

NEVER = [object(), b"x", {}, pd.DataFrame(), math.nan, -1]
KEY = "sk-that-nobody-should-see"


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("home")
    rows = [{"docno": f"d{number}", "text": text} for number, text in enumerate(["Rooibos has no caffeine.", "Green tea", "mint"])]
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
def test_no_argument_of_another_kind_is_taken_or_ends_in_a_bare_error(name, home):
    operator = EVERY[name].make(ikat.llm(Says("1")), home)
    if not isinstance(operator, Operator):
        return  # MultiQuery, two operators of these
    given = operator.arguments()
    branches = given.pop("branches", ())
    for parameter in inspect.signature(type(operator).__init__).parameters.values():
        if parameter.kind is not parameter.VAR_POSITIONAL and parameter.annotation in (
            int,
            float,
            int | None,
            str,
            str | None,
            pt.Transformer,
        ):
            for value in NEVER:
                if parameter.annotation is float and isinstance(value, int):
                    continue
                with pytest.raises(ikat.UsageError):
                    type(operator)(*branches, **{**given, parameter.name: value})


@pytest.mark.parametrize("name", BUILT)
def test_operators_are_equal_after_a_journey(name, home):
    operator = EVERY[name].make(ikat.llm("recorded:sample"), home)
    for other in (pickle.loads(pickle.dumps(operator)), copy.copy(operator), copy.deepcopy(operator)):
        if "Words" not in repr(operator):  # which is a value of nobody's
            assert (other, hash(other)) == (operator, hash(operator))
        assert repr(other) == repr(operator) or "object at" in repr(operator)


@pytest.mark.parametrize("name", ASKING)
def test_an_operator_takes_what_llm_takes_and_refuses_the_rest(name):
    make, says = getattr(ikat, name), Says("mint tea")
    assert make("recorded:sample") == make(ikat.llm("recorded:sample"))
    assert make(says) == make(ikat.llm(says))
    for wrong in (5, None, "gpt-4o", Says, b"x", [says], ikat.RawUtterance(), pd.DataFrame()):
        with pytest.raises(ikat.UsageError):
            make(wrong)


def test_operators_given_the_same_text_or_object_share_account_and_budget():
    text, says = "openai:m budget=5 price_in=1 price_out=1 cache=none", Says("tea")
    assert ikat.Answer(text).llm is not ikat.Answer(text + " seed=1").llm
    answer, queries = ikat.Answer(text), ikat.Queries(text)
    assert answer.llm is queries.llm
    assert ikat.Answer(says)(pd.DataFrame({"qid": ["1_1"], "query": ["tea?"]}))["qanswer"].tolist() == ["tea"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ikat.MultiQuery(Says("x"), n="5"), "n='5': give a whole number"),
        (lambda: ikat.RRF(k=math.nan), "k=nan: give a number"),
        (lambda: ikat.RRF(k="60"), "k='60': give a number"),
        (lambda: ikat.Interleave(num_results=True), "num_results=True: give a whole number or None"),
        (lambda: ikat.MergeShards(5), "retrievers=5: give a list of retrievers"),
        (lambda: ikat.BiEncoder("m", batch_size=0), "batch_size=0: give 1 or more"),
        (lambda: ikat.AppendQuery("x"), "operator='x': give a PyTerrier transformer"),
        (lambda: ikat.PassageIndex(5), "path=5: give a text or a path"),
        (lambda: ikat.PassageQueries(Says("x"), 5), "forms=5: give a list"),
        (lambda: ikat.load_reranker(5), "name=5: give a text"),
        (lambda: ikat.plan([], pd.DataFrame()), "there is no system: give at least one"),
        (lambda: ikat.pool_runs({"a": pd.DataFrame()}, depth="5"), "depth='5'"),
        (lambda: evaluate_responses({"a": 1}, pd.DataFrame(), [RougeL()]), "turns=.*: give a DataFrame"),
        (lambda: evaluate_responses(pd.DataFrame(), [1], [RougeL()]), "answers=.*: give a DataFrame"),
        (lambda: ikat.experiment(5), "a system is a int: give"),
        (lambda: ikat.conversation(5), "the conversation is a int: give a list of messages"),
        (lambda: ikat.conversation(pd.DataFrame()), "the conversation is a DataFrame"),
        (lambda: ikat.PassageFiles(5), "source=5: give a folder"),
        (lambda: ikat.conversation([5]), "message 1 of the conversation is 5"),
        (lambda: ikat.conversation([{"role": "user", "content": "tea?"}], "I am vegan."), "ptkb='I am vegan.': give a dict"),
    ],
)
def test_the_refusal_says_what_to_give(call, message):
    with pytest.raises(ikat.UsageError, match=message):
        call()


def test_judges_that_are_none_are_named():
    turns, answers = pd.DataFrame({"qid": ["1"], "gold_answer": ["a"]}), pd.DataFrame({"qid": ["1"], "qanswer": ["a"]})
    for wrong in ("rouge", [RougeL], 5, [5]):
        with pytest.raises(ikat.UsageError, match="is not a judge of responses"):
            evaluate_responses(turns, answers, wrong)


@pytest.mark.parametrize("corpus", [pd.DataFrame({"docno": ["d"], "text": ["t"]}), {"docno": "d", "text": "t"}, "passages.jsonl", 5, None])
def test_a_corpus_is_an_iterable_of_dicts(corpus, tmp_path):
    with pytest.raises(ikat.UsageError, match="the corpus is a .*: give dicts with docno and text"):
        ikat.PassageIndex(tmp_path / "i").index(corpus)
    with pytest.raises(ikat.DataError, match="passage 1 of the corpus is a str"):
        ikat.PassageIndex(tmp_path / "j").index(["d1"])
    assert not list(tmp_path.glob("[ij]"))


HISTORIES = [
    "Hi",
    ["Hi"],
    {"role": "user", "content": "Hi"},
    [{"role": "user"}],
    [{"user": "Hi"}],
    [["user", "Hi"]],
    5,
    [{"role": "user", "content": 5}],
]
READERS = [ikat.Answer, ikat.Rewrite, ikat.Summarise, lambda llm: ikat.AllUtterances(), lambda llm: ikat.Seq2SeqRewrite("m")]


@pytest.mark.parametrize("history", HISTORIES, ids=repr)
@pytest.mark.parametrize("make", READERS)
def test_a_history_of_another_shape_is_named(make, history):
    frame = pd.DataFrame({"qid": ["9-1_3"], "query": ["tea?"]})
    frame["qhistory"] = pd.Series([history], dtype=object)
    with pytest.raises(ikat.DataError, match="turn 9-1_3 has the qhistory .*: give a list of messages"):
        make(Says("x"))(frame)


@pytest.mark.parametrize("ptkb", ["I am vegan.", 5, [5], {"1": 5}, [["1", "I am vegan."]]], ids=repr)
def test_a_persona_of_another_shape_is_named(ptkb):
    frame = pd.DataFrame({"qid": ["9-1_3"], "query": ["tea?"]})
    frame["qptkb"] = pd.Series([ptkb], dtype=object)
    for operator in (ikat.Answer(Says("x")), ikat.RankStatements(Words()), ikat.SelectStatements(Says("[1]"))):
        with pytest.raises(ikat.DataError, match="turn 9-1_3 has the qptkb .*: give a dict of statements by id"):
            operator(frame)


def test_numbers_of_numpy_are_pythons_in_what_an_operator_shows_and_holds():
    llm = ikat.llm("recorded:sample")
    assert repr(ikat.MultiQuery(llm, n=np.int64(3))) == repr(ikat.MultiQuery(llm, n=3))
    made = ikat.PassageQueries(llm, [np.str_("short")], per_statement=np.int32(2))
    assert repr(made) == repr(ikat.PassageQueries(llm, ["short"], per_statement=2))
    assert "np." not in repr(made)
    scores = pd.DataFrame({"qid": ["9-1_1", "9-1_2"], "nDCG@5": [1.0, 0.5]})
    assert ikat.breakdown({"AD": scores}, by=np.str_("depth")).equals(ikat.breakdown({"AD": scores}, by="depth"))


def test_whole_numbers_of_numpy_are_whole_numbers():
    assert ikat.RRF(k=np.float64(60), num_results=np.int64(5)) == ikat.RRF(num_results=5)


def test_a_checked_function_looks_as_it_did():
    def cut(depth: int = 3) -> int:
        """Doc."""
        return depth

    assert (inspect.signature(checked(cut)), checked(cut).__doc__, checked(cut)()) == (inspect.signature(cut), "Doc.", 3)


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
    sent = joblib.Parallel(n_jobs=2, backend="loky")(joblib.delayed(pipeline.transform)(half) for half in halves)
    pd.testing.assert_frame_equal(pd.concat(sent, ignore_index=True), pipeline(topics))


def test_an_unpickled_model_asks_and_keeps(tmp_path):
    says = Says("tea")
    request = Request([{"role": "user", "content": "hi"}], stage="answer", qid="1_1")
    other = pickle.loads(pickle.dumps(ikat.llm(says)))
    assert isinstance(other, LLM)
    assert [other.ask([request])[0].text, other.ask([request])[0].cached] == ["tea", True]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ikat.Rewrite(), r"Rewrite lacks llm: it takes llm, form='full', and by name prompts=None"),
        (lambda: ikat.Rewrite(Says("x"), stle="llama"), r"Rewrite has no argument stle: did you mean style\? it takes llm, form='full'"),
        (lambda: ikat.RRF(colour=3), r"RRF has no argument colour: it takes \*branches, k=60, num_results=1000$"),
        (lambda: ikat.MultiQuery(), "Queries lacks llm: it takes llm, n=5"),
        (lambda: ikat.run(), "run lacks systems: it takes systems, dataset=None, and by name out='runs', topics=None"),
        (lambda: ikat.PassageIndex("a", "b", "c"), "PassageIndex can't be called like this .*: it takes path, and by name text=None"),
        (lambda: ikat.RawUtterance(1), r"RawUtterance can't be called like this .*: it takes nothing"),
        (lambda: Mine(3, depth=4), r"Mine can't be called like this \(multiple values for argument 'depth'\)"),
    ],
)
def test_a_wrong_call_names_the_class_and_what_it_takes(call, message):
    with pytest.raises(ikat.UsageError, match=message):
        call()


def test_a_mistyped_operator_is_named():
    with pytest.raises(AttributeError, match=r"pyterrier_ikat has no Rewrit: did you mean Rewrite\?"):
        ikat.Rewrit  # noqa: B018
    assert not hasattr(ikat, "__path_of_nothing__")
