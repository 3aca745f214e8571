"""The forms of search servers: how each is asked, and how its answers are read and checked."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import quote

from ..errors import UsageError
from .server_calls import Call, Caller, ServerError

PASSAGES_AT_ONCE = 16_000
"""Passages that one call asks for, about 16 MB with their texts."""
CHARACTERS_AT_ONCE = 200_000
"""Characters of the queries of one call: `ikat serve` takes a body of 1 MiB."""
TEXT_FIELDS = ("contents", "content", "text", "body")
"""The fields of a document that may hold its text, best first.

Pyserini: those that ``max_doc_length`` cuts (docs/usage-rest.md).
"""


class Search(NamedTuple):
    """What a server is asked for besides the queries.

    Attributes:
        name: our model, RoutIR's service or Pyserini's index; empty for the server's only one.
        depth: the maximum number of passages per query.
        k1: the parameter of BM25; None for the server's own.
        b: the other one.
        texts: whether the texts are wanted.
    """

    name: str
    depth: int
    k1: float | None
    b: float | None
    texts: bool


class Found(NamedTuple):
    """The passages of one query, best first.

    Attributes:
        docnos: their ids.
        scores: their scores.
        texts: their texts; None if they weren't wanted, or the server has none.
    """

    docnos: list[str]
    scores: list[float]
    texts: list[str] | None


class Facts(NamedTuple):
    """What a server says of its index.

    Attributes:
        fingerprint: changes when the index or its settings change; empty if it isn't told.
        bm25: whether it takes k1 and b.
        stage: what searches, in words.
        depth: the most passages per query that it returns; None if no limit is known.
    """

    fingerprint: str
    bm25: bool
    stage: str
    depth: int | None = None


class BadAnswerError(Exception):
    """What is wrong with an answer."""


@dataclass(frozen=True)
class Form:
    """A form of servers.

    Attributes:
        name: its name.
        searched: what ``name`` names at such a server.
        needs_name: whether a name is required.
        queries_at_once: the queries of one call.
        has_texts: whether its answers hold texts.
        has_bm25: whether a call may have k1 and b.
        call: makes the call for queries.
        read: reads its answer.
        facts: asks what is searched, and whether it takes the parameters.
    """

    name: str
    searched: str
    needs_name: bool
    queries_at_once: int
    has_texts: bool
    has_bm25: bool
    call: Callable[[Search, Sequence[str]], Call]
    read: Callable[[Search, Sequence[str], Mapping[str, Any]], list[Found]]
    facts: Callable[[Caller, Search], Facts]

    def batches(self, search: Search, queries: Sequence[str]) -> list[list[str]]:
        """Split queries into those of one call each."""
        most = max(1, min(self.queries_at_once, PASSAGES_AT_ONCE // search.depth))
        batches: list[list[str]] = []
        characters = 0
        for query in queries:
            characters += len(query)
            if not batches or len(batches[-1]) >= most or characters > CHARACTERS_AT_ONCE:
                batches.append([])
                characters = len(query)
            batches[-1].append(query)
        return batches


# Ours: docs/live_reference.md


def _ikat_call(search: Search, queries: Sequence[str]) -> Call:
    body: dict[str, Any] = {"queries": list(queries), "k": search.depth, "texts": search.texts}
    if search.name:
        body["model"] = search.name
    if search.k1 is not None:
        body["k1"] = search.k1
        body["b"] = search.b
    return Call("POST", "/search", body=body)


def _ikat_read(search: Search, queries: Sequence[str], answer: Mapping[str, Any]) -> list[Found]:
    results = _list_in(answer, "results")
    if len(results) != len(queries):
        raise BadAnswerError(f"{len(results)} results for {len(queries)} queries")
    rankings = []
    for query, result in zip(queries, results, strict=True):
        _check_query(query, _field(result, "query"))
        rankings.append(_ranking_in(search, _list_in(result, "passages"), "id", "text"))
    return rankings


def _ikat_facts(caller: Caller, search: Search) -> Facts:
    """What ``/v1/models`` says of the model."""
    [answer] = caller.answers([Call("GET", "/v1/models")])
    models = answer.get("data")
    if not isinstance(models, list) or not all(isinstance(model, dict) for model in models):
        raise ServerError(
            f"{caller.url}/v1/models lists no models: give the address of `ikat serve`, or form=..."
        )
    named = {str(model.get("id")): model for model in models}
    names = ", ".join(named)
    if not search.name and len(named) != 1:
        raise UsageError(f"{caller.url} serves several models: choose with name=..., of {names}")
    if search.name and search.name not in named:
        raise UsageError(f"{caller.url} has no model {search.name!r}: give one of {names}")
    [model] = [named[search.name]] if search.name else named.values()
    facts = model.get("search")
    if not isinstance(facts, dict):
        raise ServerError(
            f"{caller.url} doesn't say what it searches: is it an `ikat serve` of this version?"
        )
    if facts.get("stage") is None:
        raise UsageError(f"model {model.get('id')} of {caller.url} has no stage that searches")
    fingerprint = str(facts.get("fingerprint") or "")
    takes_bm25 = facts.get("bm25") is True
    depth = facts.get("depth")
    depth = depth if isinstance(depth, int) else None
    return Facts(fingerprint, takes_bm25, str(facts["stage"]), depth)


_IKAT = Form(
    name="ikat",
    searched="model",
    needs_name=False,
    queries_at_once=64,
    has_texts=True,
    has_bm25=True,
    call=_ikat_call,
    read=_ikat_read,
    facts=_ikat_facts,
)


# RoutIR 0.0.2: hltcoe/routir, README.md "HTTP API", src/routir/serve.py (process_query),
# src/routir/processors/query_processors.py; its own server was recorded in
# tests/retrieve/routir_0.0.2.json. A call has one query. Further fields such as k1 are ignored.
# ``scores`` is an object whose order is that of the docnos (Quart sorts keys), and an engine may
# return more than ``limit``.


def _routir_call(search: Search, queries: Sequence[str]) -> Call:
    [query] = queries
    body = {"service": search.name, "query": query, "limit": search.depth}
    return Call("POST", "/search", body=body)


def _routir_read(search: Search, queries: Sequence[str], answer: Mapping[str, Any]) -> list[Found]:
    _check_query(queries[0], _field(answer, "query"))
    score_of = _field(answer, "scores")
    if not isinstance(score_of, dict):
        raise BadAnswerError("scores is no object")
    for docno, score in score_of.items():
        _check_score(docno, score)
    docnos = sorted(score_of, reverse=True)  # the order of equal scores
    docnos.sort(key=score_of.__getitem__, reverse=True)
    docnos = docnos[: search.depth]
    scores = [score_of[docno] for docno in docnos]
    return [_checked(search, docnos, scores, [])]


def _routir_facts(caller: Caller, search: Search) -> Facts:
    return Facts("", bm25=False, stage=f"RoutIR's {search.name}")


_ROUTIR = Form(
    name="routir",
    searched="service",
    needs_name=True,
    queries_at_once=1,
    has_texts=False,
    has_bm25=False,
    call=_routir_call,
    read=_routir_read,
    facts=_routir_facts,
)


# Pyserini 2.3: castorini/pyserini, docs/usage-rest.md, pyserini/server/rest/routes/v1.py,
# pyserini/server/document_format.py. Read from its source; no server of it was run. A call has one
# query. Without k1 and b in /openapi.yaml a server ignores them, as FastAPI does with any unknown
# parameter.


def _pyserini_call(search: Search, queries: Sequence[str]) -> Call:
    [query] = queries
    params: dict[str, Any] = {"query": query, "hits": search.depth}
    if search.k1 is not None:
        params["k1"] = search.k1
        params["b"] = search.b
    # an absolute path of an index keeps its slash: /v1//data/index/search
    return Call("GET", f"/v1/{quote(search.name)}/search", params)


def _pyserini_read(
    search: Search, queries: Sequence[str], answer: Mapping[str, Any]
) -> list[Found]:
    _check_query(queries[0], _field(_field(answer, "query"), "text"))
    return [_ranking_in(search, _list_in(answer, "candidates"), "docid", "doc")]


def _pyserini_facts(caller: Caller, search: Search) -> Facts:
    if search.k1 is not None:
        [described] = caller.answers([Call("GET", "/openapi.yaml", of_text=True)])
        if "name: k1" not in described["text"]:
            raise UsageError(
                f"{caller.url} is of a Pyserini that ignores k1 and b: omit them, or serve with "
                "Pyserini 2.3"
            )
    return Facts("", bm25=True, stage=f"Pyserini's {search.name}")


_PYSERINI = Form(
    name="pyserini",
    searched="index",
    needs_name=True,
    queries_at_once=1,
    has_texts=True,
    has_bm25=True,
    call=_pyserini_call,
    read=_pyserini_read,
    facts=_pyserini_facts,
)

FORMS: Mapping[str, Form] = {form.name: form for form in (_IKAT, _ROUTIR, _PYSERINI)}
"""The forms by name."""


# Checks of answers


def _field(value: Any, name: str) -> Any:
    if not isinstance(value, dict) or name not in value:
        raise BadAnswerError(f"there is no {name}")
    return value[name]


def _get(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else None


def _list_in(value: Any, name: str) -> list[Any]:
    values = _field(value, name)
    if not isinstance(values, list):
        raise BadAnswerError(f"{name} is no list")
    return values


def _ranking_in(
    search: Search, passages: list[Any], docno_field: str, document_field: str
) -> Found:
    """The passages of a query, each an object with its id, score and, if wanted, document."""
    docnos = [_field(passage, docno_field) for passage in passages]
    scores = [_field(passage, "score") for passage in passages]
    texts = []
    if search.texts:
        texts = [_text_of(_get(passage, document_field)) for passage in passages]
    return _checked(search, docnos, scores, texts)


def _text_of(document: Any) -> Any:
    """The text of a document: itself, or one of its fields; None for a document without."""
    if not isinstance(document, dict):
        return document
    for field in TEXT_FIELDS:
        if field in document:
            return document[field]
    return None


def _check_query(sent: str, answered: Any) -> None:
    """Check that an answer is of this query and not of another one."""
    if answered != sent:
        raise BadAnswerError(f"the passages are of {str(answered)[:60]!r}, not of {sent[:60]!r}")


def _check_score(docno: Any, score: Any) -> None:
    is_number = isinstance(score, int | float) and not isinstance(score, bool)
    if not is_number or not math.isfinite(score):
        raise BadAnswerError(f"passage {docno} has the score {str(score)[:40]}")


def _checked(search: Search, docnos: list[Any], scores: list[Any], texts: list[Any]) -> Found:
    """The passages of a query, after checking that they are a ranking.

    Raises:
        BadAnswerError: when there are more than were asked for, an id isn't a text or stands there
            twice, a score isn't a finite number or rises, or only some have a text.
    """
    if len(docnos) > search.depth:
        raise BadAnswerError(f"{len(docnos)} passages, where {search.depth} were asked for")
    before = math.inf
    for docno, score in zip(docnos, scores, strict=True):
        if not isinstance(docno, str) or not docno.strip():
            raise BadAnswerError(f"a passage has the id {str(docno)[:40]!r}")
        _check_score(docno, score)
        if score > before:
            raise BadAnswerError(f"the scores rise at passage {docno}")
        before = score
    if len(set(docnos)) < len(docnos):
        raise BadAnswerError("a passage stands there twice")
    numbers = [float(score) for score in scores]
    if not texts or all(text is None for text in texts):
        # an empty ranking says nothing about texts
        return Found(docnos, numbers, None if docnos or not search.texts else [])
    if not all(isinstance(text, str) for text in texts):
        raise BadAnswerError("some passages have no text")
    return Found(docnos, numbers, texts)
