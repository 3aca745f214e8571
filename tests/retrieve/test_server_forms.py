"""The forms of search servers: each call as it is sent, and answers with every fault."""

import pytest

from pyterrier_ikat.errors import UsageError
from pyterrier_ikat.retrieve.server_calls import Call, ServerError
from pyterrier_ikat.retrieve.server_forms import FORMS, BadAnswerError, Facts, Found, Search

PLAIN = Search("", 10, None, None, False)
FULL = Search("one two", 3, 1.2, 0.75, True)


@pytest.mark.parametrize(
    ("form", "search", "call"),
    [
        (
            "ikat",
            PLAIN,
            Call("POST", "/search", body={"queries": ["tea"], "k": 10, "texts": False}),
        ),
        (
            "ikat",
            FULL,
            Call(
                "POST",
                "/search",
                body={
                    "queries": ["tea"],
                    "k": 3,
                    "texts": True,
                    "model": "one two",
                    "k1": 1.2,
                    "b": 0.75,
                },
            ),
        ),
        (
            "routir",
            FULL,
            Call("POST", "/search", body={"service": "one two", "query": "tea", "limit": 3}),
        ),
        ("pyserini", PLAIN, Call("GET", "/v1//search", {"query": "tea", "hits": 10})),
        (
            "pyserini",
            FULL,
            Call("GET", "/v1/one%20two/search", {"query": "tea", "hits": 3, "k1": 1.2, "b": 0.75}),
        ),
        (
            "pyserini",
            Search("i", 1, 0.0, 0.0, False),
            Call("GET", "/v1/i/search", {"query": "tea", "hits": 1, "k1": 0.0, "b": 0.0}),
        ),
    ],
)
def test_a_call_has_what_its_form_wants(form, search, call):
    assert FORMS[form].call(search, ["tea"]) == call


def of_ikat(*passages, query="tea"):
    return {"results": [{"query": query, "passages": list(passages)}]}


def of_pyserini(*passages, query="tea"):
    return {"query": {"text": query}, "candidates": list(passages)}


def passage(docno="d1", score=2.0, **more):
    return {"id": docno, "docid": docno, "score": score, **more}


FORMS_OF_PASSAGES = pytest.mark.parametrize(
    ("form", "answer", "document"), [("ikat", of_ikat, "text"), ("pyserini", of_pyserini, "doc")]
)


def read(form, answer, search=PLAIN, queries=("tea",)):
    return FORMS[form].read(search, list(queries), answer)


@FORMS_OF_PASSAGES
def test_passages_are_a_ranking_with_or_without_texts(form, answer, document):
    passages = [passage("d2", 3, **{document: "Mint."}), passage("d1", 3.0, **{document: ""})]
    for search, texts in ((PLAIN, None), (FULL, ["Mint.", ""])):
        assert read(form, answer(*passages), search) == [Found(["d2", "d1"], [3.0, 3.0], texts)]
    assert read(form, answer(), PLAIN) == [Found([], [], None)]
    assert read(form, answer(), FULL) == [Found([], [], [])]
    assert isinstance(read(form, answer(passage("d2", 3)))[0].scores[0], float)
    bare = [passage("d2"), passage("d1", 1)]
    assert read(form, answer(*bare), FULL) == [Found(["d2", "d1"], [2.0, 1.0], None)]


@FORMS_OF_PASSAGES
@pytest.mark.parametrize(
    ("passages", "told"),
    [
        ([passage(), passage("d2", 2.1)], "^the scores rise at passage d2$"),
        ([passage(), passage("d1", 1.0)], "twice"),
        ([passage(), passage("e", 1), passage("f", 0), passage("g", -1)], "^4 passages, where 3 "),
        ([passage(None)], "the id 'None'"),
        ([passage(" ")], "the id ' '"),
        ([passage("")], "the id ''"),
        ([passage(7)], "the id '7'"),
        ([passage("d" * 99, "x" * 99)], f"^passage {'d' * 99} has the score {'x' * 40}$"),
        ([passage(score=True)], "passage d1 has the score True"),
        ([passage(score=float("inf"))], "the score inf"),
        ([passage(score=float("nan"))], "the score nan"),
        ([passage(score=None)], "the score None"),
        ([passage(), "d2"], "there is no (id|docid)"),
        ([{"id": "d1", "docid": "d1"}], "there is no score"),
        ([{"score": 1.0}], "there is no (id|docid)"),
    ],
)
def test_passages_that_are_no_ranking_are_told(form, answer, document, passages, told):
    with pytest.raises(BadAnswerError, match=told):
        read(form, answer(*passages), FULL._replace(texts=False))


@FORMS_OF_PASSAGES
@pytest.mark.parametrize("text", [None, 7, {"title": "x"}, ["x"]])
def test_passages_of_which_some_have_texts_are_told(form, answer, document, text):
    passages = [passage("d2", **{document: "Mint."}), passage("d1", 1, **{document: text})]
    with pytest.raises(BadAnswerError, match="some passages have no text"):
        read(form, answer(*passages), FULL)
    with pytest.raises(BadAnswerError, match="some passages have no text"):
        read(form, answer(passages[0], passage("d1", 1)), FULL)


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ({"text": "t", "body": "b", "contents": "c", "content": "d"}, "c"),
        ({"text": "t", "body": "b", "content": "d"}, "d"),
        ({"text": "t", "body": "b"}, "t"),
        ({"body": "b", "title": "x"}, "b"),
        ("whole", "whole"),
    ],
)
def test_a_documents_text_is_its_best_field(document, text):
    answer = of_pyserini(passage(doc=document))
    assert read("pyserini", answer, FULL)[0].texts == [text]


@pytest.mark.parametrize(
    ("form", "answer", "told"),
    [
        ("ikat", {}, "there is no results"),
        ("ikat", [], "there is no results"),
        ("ikat", {"results": {}}, "results is no list"),
        ("ikat", {"results": []}, "^0 results for 1 queries$"),
        ("ikat", {"results": [{"passages": []}]}, "there is no query"),
        ("ikat", {"results": [{"query": "tea"}]}, "there is no passages"),
        ("ikat", {"results": [{"query": "tea", "passages": "d1"}]}, "passages is no list"),
        ("ikat", of_ikat(query="mint"), "the passages are of 'mint', not of 'tea'"),
        ("ikat", of_ikat(query="m" * 99), f"of '{'m' * 60}', not"),
        ("pyserini", of_pyserini(query="mint"), "the passages are of 'mint', not of 'tea'"),
        ("pyserini", {"query": "tea", "candidates": []}, "there is no text"),
        ("pyserini", {"query": {"text": "tea"}}, "there is no candidates"),
        ("routir", {"query": "mint", "scores": {}}, "the passages are of 'mint', not of 'tea'"),
        ("routir", {"query": "tea"}, "there is no scores"),
        ("routir", {"query": "tea", "scores": [1]}, "scores is no object"),
        ("routir", {"query": "tea", "scores": {"d": "1"}}, "passage d has the score 1"),
        ("routir", {"query": "tea", "scores": {" ": 1}}, "the id ' '"),
        ("routir", {"query": "tea", "scores": {"d": 1, "e": None}}, "e has the score None"),
    ],
)
def test_an_answer_of_another_shape_is_told(form, answer, told):
    with pytest.raises(BadAnswerError, match=told):
        read(form, answer)


def test_each_query_has_its_own_passages():
    results = [
        {"query": "tea", "passages": [passage("a"), passage("b", 1)]},
        {"query": "mint", "passages": []},
        {"query": "tram", "passages": [passage("a", 9)]},
    ]
    assert read("ikat", {"results": results}, PLAIN, ("tea", "mint", "tram")) == [
        Found(["a", "b"], [2.0, 1.0], None),
        Found([], [], None),
        Found(["a"], [9.0], None),
    ]


def test_routirs_scores_are_sorted_and_cut():
    scores = {"a": 1, "b": 2.5, "c": 1.0, "d": -1, "e": 2.5}
    answer = {"query": "tea", "scores": scores}
    assert read("routir", answer) == [
        Found(["e", "b", "c", "a", "d"], [2.5, 2.5, 1.0, 1.0, -1.0], None)
    ]
    assert read("routir", answer, FULL) == [Found(["e", "b", "c"], [2.5, 2.5, 1.0], None)]
    assert read("routir", {"query": "tea", "scores": {}}) == [Found([], [], None)]


@pytest.mark.parametrize(
    ("form", "depth", "queries", "sizes"),
    [
        ("routir", 10, ["a", "b", "c"], [1, 1, 1]),
        ("pyserini", 10, ["a", "b"], [1, 1]),
        ("ikat", 10, ["a"] * 130, [64, 64, 2]),
        ("ikat", 10, ["a" * 100_000, "b" * 100_000, "c"], [2, 1]),
        ("ikat", 10, ["a" * 100_000, "b" * 100_001, "c" * 99_999, "d"], [1, 2, 1]),
        ("ikat", 10, ["a" * 300_000, "b"], [1, 1]),
        ("ikat", 100_000, ["a", "b"], [1, 1]),
        ("ikat", 10, [], []),
    ],
)
def test_calls_have_no_more_queries_than_they_may(form, depth, queries, sizes):
    batches = FORMS[form].batches(PLAIN._replace(depth=depth), queries)
    assert [len(batch) for batch in batches] == sizes
    assert sum(batches, []) == queries


class Caller:
    url = "http://host"

    def __init__(self, answer):
        self.answer = answer
        self.calls = []

    def answers(self, calls):
        self.calls += calls
        return [self.answer for _ in calls]


def model(name="m", **search):
    return {"id": name, "search": {"stage": "BM25", "fingerprint": "f", "bm25": True, **search}}


@pytest.mark.parametrize(
    ("models", "name", "facts"),
    [
        ([model()], "", Facts("f", True, "BM25", None)),
        ([model(depth=50)], "m", Facts("f", True, "BM25", 50)),
        ([model(depth="50", bm25="yes")], "m", Facts("f", False, "BM25", None)),
        ([model(fingerprint=None, bm25=False, stage="SPLADE")], "", Facts("", False, "SPLADE")),
        ([model(), model("n", fingerprint="g")], "n", Facts("g", True, "BM25")),
    ],
)
def test_an_ikat_serve_says_what_it_searches(models, name, facts):
    caller = Caller({"data": models})
    assert FORMS["ikat"].facts(caller, PLAIN._replace(name=name)) == facts
    assert caller.calls == [Call("GET", "/v1/models")]


@pytest.mark.parametrize(
    ("answer", "name", "error", "told"),
    [
        ({}, "", ServerError, "^http://host/v1/models lists no models: "),
        ({"data": {"id": "m"}}, "", ServerError, "lists no models"),
        ({"data": [model(), "n"]}, "m", ServerError, "lists no models"),
        ({"data": []}, "", UsageError, "serves several models"),
        ({"data": [model(), model("n")]}, "", UsageError, "choose with name=..., of m, n$"),
        ({"data": [model(), model("n")]}, "o", UsageError, "no model 'o': give one of m, n$"),
        ({"data": [{"id": "m"}]}, "m", ServerError, "doesn't say what it searches"),
        ({"data": [model(stage=None)]}, "m", UsageError, "^model m of http://host has no stage"),
    ],
)
def test_what_an_ikat_serve_lacks_is_named(answer, name, error, told):
    with pytest.raises(error, match=told):
        FORMS["ikat"].facts(Caller(answer), PLAIN._replace(name=name))


def test_what_pyserini_and_routir_say_of_k1_and_b():
    caller = Caller({"text": "- name: k1"})
    search = FULL._replace(name="mini")
    assert FORMS["routir"].facts(caller, search) == Facts("", False, "RoutIR's mini")
    without = search._replace(k1=None, b=None)
    expected = Facts("", True, "Pyserini's mini")
    assert FORMS["pyserini"].facts(caller, without) == expected
    assert caller.calls == []
    assert FORMS["pyserini"].facts(caller, search) == expected
    assert caller.calls == [Call("GET", "/openapi.yaml", of_text=True)]
    with pytest.raises(UsageError, match="^http://host is of a Pyserini that ignores k1 and b"):
        FORMS["pyserini"].facts(Caller({"text": "- name: hits"}), search)


def test_what_each_form_needs_and_has():
    table = {}
    for name, form in FORMS.items():
        row = (form.searched, form.needs_name, form.queries_at_once, form.has_texts, form.has_bm25)
        table[name] = row
        assert form.name == name
    assert table == {
        "ikat": ("model", False, 64, True, True),
        "routir": ("service", True, 1, False, False),
        "pyserini": ("index", True, 1, True, True),
    }


@pytest.mark.parametrize("form", ["ikat", "pyserini"])
def test_k1_and_b_of_0_are_sent(form):
    call = FORMS[form].call(FULL._replace(k1=0.0, b=0.0), ["tea"])
    sent = call.body or call.params
    assert (sent["k1"], sent["b"]) == (0.0, 0.0)


def test_a_pyserini_without_parameters_refuses_a_k1_of_0():
    caller = Caller({"text": "- name: hits"})
    with pytest.raises(UsageError, match="ignores k1 and b"):
        FORMS["pyserini"].facts(caller, FULL._replace(k1=0.0, b=0.0))


def test_k1_in_other_words_of_pyserini_is_no_parameter():
    described = "- name: hits\n  description: without k1 and b\n"
    with pytest.raises(UsageError, match="is of a Pyserini that ignores k1 and b"):
        FORMS["pyserini"].facts(Caller({"text": described}), FULL)


def test_the_last_of_several_models_is_told_by_its_own_facts():
    models = [model("a", depth=5), model("b", stage="SPLADE", bm25=False, depth=9)]
    facts = FORMS["ikat"].facts(Caller({"data": models}), PLAIN._replace(name="b"))
    assert facts == Facts("f", False, "SPLADE", 9)


def test_the_second_query_has_to_be_answered_in_its_place():
    results = [{"query": name, "passages": []} for name in ("tea", "tram")]
    with pytest.raises(BadAnswerError, match="the passages are of 'tram', not of 'mint'"):
        read("ikat", {"results": results}, PLAIN, ("tea", "mint"))
    with pytest.raises(BadAnswerError, match="^3 results for 2 queries$"):
        read("ikat", {"results": [*results, results[0]]}, PLAIN, ("tea", "tram"))


def test_whole_and_negative_scores_are_a_ranking():
    answer = of_ikat(passage("b", 0), passage("c", -1), passage("a", -1.5))
    assert read("ikat", answer) == [Found(["b", "c", "a"], [0.0, -1.0, -1.5], None)]
    with pytest.raises(BadAnswerError, match="the scores rise at passage a"):
        read("ikat", of_ikat(passage("c", -2), passage("a", -1.5)))


def test_a_name_that_is_a_path_is_sent_whole():
    named = PLAIN._replace(name="/data/a b?c#d")
    assert FORMS["ikat"].call(named, ["tea"]).body["model"] == "/data/a b?c#d"
    assert FORMS["pyserini"].call(named, ["tea"]).path == "/v1//data/a%20b%3Fc%23d/search"
