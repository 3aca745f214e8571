"""Passages from a search server: an index on another machine, of this package or another engine."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import lz4.frame
import pandas as pd
import pyterrier as pt

from ..arguments import at_least, one_of
from ..conversations.frame import column
from ..errors import DataError, UsageError
from ..operator import Operator, with_fields
from ..store.cache import Cache, compute_missing, digest, open_cache
from .bm25 import check_bm25
from .rankings import Ranking
from .retriever import QUERIES_AT_ONCE, result_frame
from .server_calls import Caller, ServerError, checked_address
from .server_forms import FORMS, BadAnswerError, Facts, Form, Found, Search

UNTOLD = "not told by the server"
NOT_DECIDING = ("api_key_env", "timeout", "concurrency", "tries", "cache")
"""Arguments that change no result. A repr omits them."""


class ServedIndex:
    """The index behind an ``ikat serve``; a part of a run's identity.

    Attributes:
        seen: the fingerprint that the server had when it was asked last; empty before.
    """

    def __init__(self, remote: "Remote") -> None:
        self._url = remote.url
        self._ask = remote.facts
        self.seen = ""

    def fingerprint(self) -> str:
        """Ask the server for the fingerprint, which its answers have to have from now on.

        A server that can't identify its first stage tells none: then a run warns.
        """
        self.seen = self._ask().fingerprint
        return self.seen or UNTOLD

    def check(self, fingerprint: str) -> None:
        """Check that an answer or the server has the fingerprint of before.

        Raises:
            ServerError: when it has another one.
        """
        if not self.seen:
            self.seen = fingerprint
        if fingerprint != self.seen:
            raise ServerError(
                f"{self._url} searches another index, or with other settings, than when it was "
                "asked first: run again"
            )

    def __repr__(self) -> str:
        return repr(self._url)


@with_fields
class Remote(Operator):
    """Search an index on another machine, through its search server.

    Reads ``qid`` and ``query``; returns the passages of every row as a local retriever does: all
    columns of the row, ``docno``, ``score``, ``rank`` (from 0) and, where the server has them,
    ``text``. Blank queries aren't sent; they have no result, and a ``NoResultWarning`` names them.

    ========== ==================================== ======= =========== ====================
    form       server                               texts   k1 and b    says what it searches
    ========== ==================================== ======= =========== ====================
    ikat       ``ikat serve``                       yes     yes         yes
    routir     RoutIR (``routir config.json``)      no      no          no
    pyserini   ``python -m pyserini.server.rest``   yes     from 2.3    no
    ========== ==================================== ======= =========== ====================

    Equal scores keep the order of the server; of RoutIR, which has none, the greatest docno is
    first. An ``ikat serve`` tells the fingerprint of its index: a run whose folder was begun with
    another index is refused, and so is an answer from another index in the middle of a run. Its
    rankings are cached with that fingerprint. Other servers don't tell it: nothing is cached, and a
    run that reuses results warns (``AlikeWarning``).

    Calls are retried after lost connections, time-outs and the statuses 408, 425, 429, 500, 502,
    503 and 504, with the wait that the server asks for. No redirect is followed. The environment
    variable ``SSL_CERT_FILE`` names the certificate for a server with one of its own.

    Args:
        url: the address of the server, without a login or a query.
        form: ``"ikat"``, ``"routir"`` or ``"pyserini"``.
        name: what to search: the model of ``ikat serve`` (not needed if it serves one), the service
            of RoutIR, the index of Pyserini.
        num_results: the maximum number of passages per query; `ikat serve` returns up to 10,000.
        k1: the parameter of BM25, together with ``b``; None for the server's own.
        b: the other one.
        texts: an operator that adds ``text`` by ``docno``, in place of the server's texts.
        api_key_env: the environment variable with the key of the server. If it isn't set, no key
            is sent.
        timeout: seconds without a sign of the server, after which a call has failed.
        concurrency: the maximum number of concurrent calls.
        tries: the maximum number of tries at a call.
        cache: a file that keeps rankings for other processes and later runs, for ``"ikat"`` alone.

    Raises:
        UsageError: when an argument is wrong, or the server has no such model, takes no k1 and b,
            or returns fewer passages.
        ServerError: when the server isn't reached, refuses, or answers what can't be used.
        DataError: when a row has ``query_toks``, which can't be sent.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.Remote("http://big-machine:8000", k1=1.2, b=0.75) % 100
        (ikat.Remote('http://big-machine:8000', k1=1.2, b=0.75) >> RankCutoff(100))
    """

    schematic = {"label": "Search server"}
    activity = "searching {queries}"
    reads_texts = False

    url: str
    form: str = "ikat"
    name: str = ""
    num_results: int = 1000
    k1: float | None = None
    b: float | None = None
    texts: pt.Transformer | None = None
    api_key_env: str = "IKAT_SEARCH_KEY"
    timeout: float = 120.0
    concurrency: int = 8
    tries: int = 6
    cache: str | Path | None = None

    def __post_init__(self) -> None:
        self.url = checked_address(self.url)
        one_of(tuple(FORMS), form=self.form)
        at_least(1, num_results=self.num_results, concurrency=self.concurrency, tries=self.tries)
        if not self.timeout > 0:
            raise UsageError(f"timeout={self.timeout!r}: give seconds, such as 120")
        form = self._form
        if form.needs_name and not self.name:
            raise UsageError(
                f"form={self.form!r} searches one {form.searched} of the server: give name=..."
            )
        if (self.k1 is None) != (self.b is None):
            raise UsageError("k1 and b belong together: give both or none")
        if self.k1 is not None and self.b is not None:
            if not form.has_bm25:
                raise UsageError(f"form={self.form!r} takes no k1 and b: set them at the server")
            check_bm25(self.k1, self.b)
        if self.cache is not None:
            self.cache = str(self.cache)
            if not self._tells:
                raise UsageError(
                    f"cache=... is for form='ikat': a server of form={self.form!r} doesn't tell "
                    "when its index changes"
                )
        self._index = ServedIndex(self)

    @property
    def _form(self) -> Form:
        return FORMS[self.form]

    @property
    def _tells(self) -> bool:
        """Whether servers of this form tell a fingerprint."""
        return self.form == "ikat"

    @property
    def _caller(self) -> Caller:
        return Caller(self.url, self.api_key_env, self.timeout, self.concurrency, self.tries)

    @property
    def _search(self) -> Search:
        texts = self.gives_texts and self.texts is None and self._form.has_texts
        return Search(self.name, self.num_results, self.k1, self.b, texts)

    def facts(self) -> Facts:
        """Ask the server what it searches.

        Raises:
            UsageError: when it has no such model, doesn't take k1 and b, or returns fewer passages.
            ServerError: when it doesn't answer.
        """
        facts = self._form.facts(self._caller, self._search)
        if self.k1 is not None and not facts.bm25:
            raise UsageError(
                f"{self.url} searches with {facts.stage}, which takes no k1 and b: omit them"
            )
        if facts.depth is not None and facts.depth < self.num_results:
            raise UsageError(
                f"{self.url} returns at most {facts.depth} passages per query, not "
                f"{self.num_results}: serve more, or give num_results={facts.depth}"
            )
        return facts

    def parts(self) -> list[Any]:
        """Return the index behind the server, if it tells a fingerprint, and the texts."""
        return [self._index, self.texts] if self._tells else [self.texts]

    def is_untracked(self) -> bool:
        """Return whether the server doesn't tell when its index changes.

        An ``ikat serve`` is asked: it can't tell for a first stage of another package that can't be
        identified.
        """
        return not self._tells or not self.facts().fingerprint

    def fuse_rank_cutoff(self, k: int) -> pt.Transformer:
        """Return this operator with at most ``k`` passages per query, for ``remote % k``."""
        return self._copy(num_results=min(k, self.num_results))

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Retrieve for each row of a query frame."""
        pt.validate.query_frame(inp, extra_columns=["query"], context=self)
        if "query_toks" in inp.columns and inp["query_toks"].notna().any():
            raise DataError(
                "query_toks can't be sent to a search server: drop the column to search query, or "
                "search a local index"
            )
        queries = {}
        for row, query in enumerate(inp["query"]):
            if isinstance(query, str) and query.strip():
                queries[row] = query
        found = self._found(list(dict.fromkeys(queries.values())))
        of_rows = {row: found[query] for row, query in queries.items()}
        results = result_frame(inp, {row: _ranking(of_row) for row, of_row in of_rows.items()})
        if self._search.texts:
            results = _with_texts(self.url, results, list(of_rows.values()))
        if self.gives_texts and self.texts is not None:
            return self.texts.transform(results)
        return results

    def _found(self, queries: list[str]) -> dict[str, Found]:
        """The passages of each query, from the cache or the server."""
        if not queries:
            return {}
        fingerprint = self.facts().fingerprint
        if self._tells:
            self._index.check(fingerprint)
        keys = {self._key(fingerprint, query): query for query in queries}
        # without a fingerprint nobody would notice that the index has changed
        cache = open_cache(self.cache) if fingerprint else Cache()
        by_key = compute_missing(
            cache,
            keys,
            lambda missing: self._asked(missing, fingerprint),
            encode=_packed,
            decode=_unpacked,
            at_once=QUERIES_AT_ONCE,
            label="search server",
            unit="query",
        )
        return {query: by_key[key] for key, query in keys.items()}

    def _key(self, fingerprint: str, query: str) -> bytes:
        """The cache key: everything that determines an answer."""
        return digest(
            "search server", fingerprint, repr((self.url, self.form, *self._search)), query
        )

    def _asked(self, queries: list[str], fingerprint: str) -> list[Found]:
        """The server's answers to queries."""
        search = self._search
        batches = self._form.batches(search, queries)
        calls = [self._form.call(search, batch) for batch in batches]
        answers = self._caller.answers(calls)
        found: list[Found] = []
        for batch, answer in zip(batches, answers, strict=True):
            if fingerprint:
                self._index.check(str(answer.get("fingerprint")))
            try:
                found += self._form.read(search, batch, answer)
            except BadAnswerError as error:
                raise ServerError(
                    f"{self.url}: the answer has not the form {self.form!r}: {error}"
                ) from None
        return found

    def __repr__(self) -> str:
        defaults = self._defaults()
        shown = [repr(self.url)]
        for name, value in self.arguments().items():
            if name not in ("url", *NOT_DECIDING) and value != defaults[name]:
                shown.append(f"{name}={value!r}")
        return f"{self._called()}({', '.join(shown)})"


def _ranking(found: Found) -> Ranking:
    return Ranking(found.docnos, pd.array(found.scores, dtype="float64").to_numpy())


def _with_texts(url: str, results: pd.DataFrame, found: Sequence[Found]) -> pd.DataFrame:
    """The results with the texts of the server; as they are if it has none.

    Raises:
        ServerError: when only some passages have a text.
    """
    texts: list[str] = []
    without = 0
    for of_row in found:
        if of_row.texts is None:
            without += len(of_row.docnos)
        else:
            texts += of_row.texts
    if without and texts:
        raise ServerError(f"{url}: some passages have no text: give texts=...")
    return results if without else results.assign(text=column(texts))


def _packed(found: Found) -> bytes:
    return lz4.frame.compress(json.dumps(found).encode())  # type: ignore[no-any-return]


def _unpacked(value: bytes) -> Found:
    return Found(*json.loads(lz4.frame.decompress(value)))
