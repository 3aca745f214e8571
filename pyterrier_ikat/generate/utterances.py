"""Queries without an LLM: utterances, the manual rewrite, topic words, given or appended texts."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY
from functools import cached_property
from typing import Any

import pandas as pd
import pyterrier as pt

from ..conversations.frame import (
    each_turn_once,
    histories,
    object_frame,
    question_column,
    texts_in,
    with_columns,
    with_query,
    without_result_warnings,
)
from ..conversations.public_outputs import QUERIES, query_file
from ..errors import DataError, counted, list_first
from ..operator import Operator, with_fields
from ..planning import Plan
from ..store.cache import digest


def _user_messages(history: Sequence[dict[str, str]]) -> list[str]:
    return [message["content"] for message in history if message["role"] == "user"]


class WritesQuery(Operator):
    """Set the query of each turn without asking a model."""

    one_row_per_turn = True

    def needs(self) -> list[str]:
        """The columns that it reads besides ``qid``."""
        return ["query"]

    def queries(self, frame: pd.DataFrame) -> Iterable[str]:
        """The new query of each row: by default, the text of the last column that it needs."""
        return texts_in(frame, self.needs()[-1])

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Set ``query``."""
        pt.validate.query_frame(inp, extra_columns=self.needs(), context=self)
        return with_query(inp, self.queries(inp))


class RawUtterance(WritesQuery):
    """Make the user's raw utterance the query.

    Reads ``qid``, ``query`` and, if present, ``qutterance`` (otherwise the oldest pushed query is
    the utterance). Sets ``query`` and pushes the old one to ``query_0``.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> chat = ikat.conversation([{"role": "user", "content": "Hi"}])
        >>> ikat.RawUtterance()(chat)["query"].tolist()
        ['Hi']
    """

    schematic = {"label": "Raw utterance"}

    def queries(self, frame: pd.DataFrame) -> list[str]:
        """The user's own words."""
        return texts_in(frame, question_column(frame))


@with_fields
class AllUtterances(WritesQuery):
    """Join all the user's utterances so far, and make them the query.

    Reads ``qid``, ``query``, and ``qutterance``, ``qhistory`` where there are any; sets ``query``
    and pushes the old one to ``query_0``. The query is not cut. A retriever's model truncates it at
    its own limit.

    Args:
        responses: whether to include the responses, between the utterances. Blank messages are
            omitted.
        newest_first: whether the newest message comes first. By default the oldest comes first.
        separator: the text between two messages. ``" [SEP] "``, together with ``responses`` and
            ``newest_first``, gives the input of DiSCo's query encoders (Lupart et al., SIGIR 2025,
            and their model cards).

    Example:
        >>> import pyterrier_ikat as ikat
        >>> turn = ikat.conversation([
        ...     {"role": "user", "content": "Tea?"},
        ...     {"role": "assistant", "content": "Yes."},
        ...     {"role": "user", "content": "Green?"},
        ... ])
        >>> ikat.AllUtterances()(turn)["query"].tolist()
        ['Tea? Green?']
        >>> disco = ikat.AllUtterances(responses=True, newest_first=True, separator=" [SEP] ")
        >>> disco(turn)["query"].tolist()
        ['Green? [SEP] Yes. [SEP] Tea?']
    """

    schematic = {"label": "All utterances"}

    _: KW_ONLY
    responses: bool = False
    newest_first: bool = False
    separator: str = " "

    def queries(self, frame: pd.DataFrame) -> list[str]:
        """The messages of each row, joined."""
        questions = texts_in(frame, question_column(frame))
        rows = zip(histories(frame), questions, strict=True)
        return [self._join(history, question) for history, question in rows]

    def _join(self, history: Sequence[dict[str, str]], last: str) -> str:
        if self.responses:
            texts = [message["content"] for message in history if message["content"].strip()]
        else:
            texts = _user_messages(history)
        texts.append(last)
        if self.newest_first:
            texts.reverse()
        return self.separator.join(texts)


class QueryFile:
    """A file with a query for each turn, read once.

    Its ``fingerprint`` distinguishes it from another file of the same name.

    Args:
        path: the file; or the name of a public one.
    """

    def __init__(self, path: str) -> None:
        self.path = path

    @cached_property
    def queries(self) -> dict[str, str]:
        """Turn -> query."""
        path = query_file(self.path)
        try:
            lines = path.read_text(encoding="utf-8-sig").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise DataError(
                f"{path} can't be read as text ({error}): give a file of turns and queries, "
                f"or the name of a public one: {', '.join(QUERIES)}"
            ) from None
        queries: dict[str, str] = {}
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            qid, _tab, query = (part.strip() for part in line.partition("\t"))
            if not qid or not query:
                raise DataError(
                    f"{path} line {number}: {line[:60]!r} is no turn, a tab and its query"
                )
            if qid in queries:
                raise DataError(
                    f"{path} line {number}: turn {qid} has a query already: "
                    "keep one of the two lines"
                )
            queries[qid] = query
        if not queries:
            raise DataError(
                f"{path} has no query: give a file with a turn, a tab and its query on each line"
            )
        return queries

    def fingerprint(self) -> str:
        """The checksum of its queries."""
        texts = [text for query in self.queries.items() for text in query]
        return digest("queries", *texts).hex()

    def __repr__(self) -> str:
        return repr(self.path)


@with_fields
class GivenQueries(WritesQuery):
    r"""Take each turn's query from a file, such as rewrites that another model wrote or chose.

    Reads ``qid`` and ``query``. Writes ``qrewrite``, sets ``query`` to it and pushes the old one to
    ``query_0``. The public files of Chang et al., CFDA & CLIP at TREC iKAT 2025 (arXiv 2509.15588),
    are AdaRewriter's choices among ten rewrites.

    Args:
        path: a file with a turn, a tab and its query on each line; or the name of a public one
            (`ikat datasets` lists them), which is fetched from its authors.

    Raises:
        DataError: when the file can't be read, a line has no tab, or a turn has two queries or
            none.

    Example:
        >>> import pandas as pd, pyterrier_ikat as ikat
        >>> from pathlib import Path
        >>> _ = Path("chosen.tsv").write_text("1_2\tIs mint safe?")
        >>> turn = pd.DataFrame({"qid": ["1_2"], "query": ["safe?"]})
        >>> ikat.generate.GivenQueries("chosen.tsv")(turn)["query"].tolist()
        ['Is mint safe?']
    """

    schematic = {"label": "Given queries"}
    paths = ("path",)

    path: str

    def __post_init__(self) -> None:
        super().__post_init__()
        self._file = QueryFile(self.path)

    def parts(self) -> list[Any]:
        """Return the file."""
        return [self._file]

    def queries(self, frame: pd.DataFrame) -> list[str]:
        """The query of each turn in the file."""
        queries = self._file.queries
        missing = [qid for qid in frame["qid"] if qid not in queries]
        if missing:
            turns = counted(len(missing), "turn")
            example = next(iter(queries))
            raise DataError(
                f"{self.path} has no query of {turns} of {len(frame)} ({list_first(missing)}); "
                f"its {counted(len(queries), 'turn')} are like {example}: "
                "run those turns alone, or add lines"
            )
        return [queries[qid] for qid in frame["qid"]]

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Set ``qrewrite`` and ``query``."""
        pt.validate.query_frame(inp, extra_columns=self.needs(), context=self)
        chosen = self.queries(inp)
        return with_query(with_columns(inp, qrewrite=chosen), chosen)


class ManualRewrite(WritesQuery):
    """Make the organisers' manual rewrite the query: a manual run, the papers' "Human".

    Reads ``qid``, ``query``, ``qresolved`` (only in ``get_topics("manual")``); sets ``query`` and
    pushes the old one to ``query_0``.

    Example:
        >>> import pyterrier as pt, pyterrier_ikat as ikat
        >>> topics = pt.get_dataset("ikat:sample").get_topics("manual").head(1)
        >>> resolved = ikat.ManualRewrite()(topics)
        >>> resolved["query"].tolist() == topics["qresolved"].tolist()
        True
    """

    schematic = {"label": "Manual rewrite"}

    def needs(self) -> list[str]:
        """Also the manual rewrite."""
        return ["query", "qresolved"]


@with_fields
class QueryColumn(WritesQuery):
    """Make a column of the turn the query, such as the newest rewrite.

    Reads ``qid``, ``query`` and ``column``; sets ``query`` and pushes the old one to ``query_0``.

    Args:
        column: a column with a text for each turn, such as ``"qrewrite"`` or ``"qanswer"``.

    Raises:
        DataError: when a turn has no text there.

    Example:
        >>> import pandas as pd, pyterrier_ikat as ikat
        >>> rewritten = pd.DataFrame(
        ...     {"qid": ["1"], "query": ["safe?"], "qrewrite": ["is rooibos safe?"]}
        ... )
        >>> ikat.generate.QueryColumn("qrewrite")(rewritten)["query"].tolist()
        ['is rooibos safe?']
    """

    schematic = {"label": "Query column"}

    column: str

    def needs(self) -> list[str]:
        """Also the column."""
        return ["query", self.column]


@with_fields
class HistoricalQueryExpansion(WritesQuery):
    """Add the topic words of the past turns to the utterance.

    A word's weight is the highest score of any passage when ``retriever`` searches for that word
    alone, as in the historical query expansion of Lin et al., Multi-Stage Conversational Passage
    Retrieval (2021). Their thresholds depend on the collection. Instead, the ``words`` words of the
    earlier utterances with the highest weights are added, except those that the utterance already
    contains.

    Reads ``qid``, ``query``, and ``qutterance``, ``qhistory`` where there are any; sets ``query``
    and pushes the old one to ``query_0``.

    Args:
        retriever: a retriever over the collection. Its scores are the weights of the words.
        words: how many words to add.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> bm25 = ikat.PassageIndex("mini.index").bm25()  # doctest: +SKIP
        >>> ikat.generate.HistoricalQueryExpansion(bm25, words=5)  # doctest: +SKIP
    """

    one_row_per_turn = False  # it searches, so a run calls it batch by batch
    schematic = {"label": "HQE"}
    least = {"words": 1}

    retriever: pt.Transformer
    words: int = 10

    def plan(self, frame: pd.DataFrame, plan: Plan) -> pd.DataFrame:
        """The utterance alone: nothing is searched."""
        return with_query(frame, texts_in(frame, question_column(frame)))

    def queries(self, frame: pd.DataFrame) -> list[str]:
        """The utterances with the best topic words."""
        past_words = [_words(" ".join(_user_messages(history))) for history in histories(frame)]
        weights = self._weights(set().union(*past_words))
        utterances = texts_in(frame, question_column(frame))
        queries = []
        for utterance, words in zip(utterances, past_words, strict=True):
            queries.append(self._expanded(utterance, words, weights))
        return queries

    def _weights(self, words: set[str]) -> dict[str, float]:
        """Return the weight of each word that some passage has."""
        if not words:
            return {}
        ordered = sorted(words)
        queries = object_frame({"qid": ordered, "query": ordered})
        with without_result_warnings():  # a word that no passage has gets no weight
            results = self.retriever.transform(queries)
        return dict(results.groupby("qid")["score"].max())

    def _expanded(self, utterance: str, past_words: list[str], weights: dict[str, float]) -> str:
        """Return the utterance with the past words of the highest weights."""
        own = set(_words(utterance))
        distinct = dict.fromkeys(past_words)
        candidates = [word for word in distinct if word in weights and word not in own]
        candidates.sort(key=lambda word: -weights[word])
        return " ".join([utterance, *candidates[: self.words]])


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


@with_fields
class AppendQuery(WritesQuery):
    """Append the query that ``operator`` writes for the turn to the current query.

    ConvGQR appends its expansion to its rewrite in this way. Reads ``qid``, ``query`` and the
    columns that ``operator`` reads. Sets ``query`` to "<query> <the operator's query>" and pushes
    the old one to ``query_0``. Columns that the operator writes are not kept.

    Args:
        operator: a query rewriter, from query frame to query frame, such as
            ``ikat.generate.Seq2SeqRewrite(model)``.

    Raises:
        DataError: when a turn has several rows or no text in ``query``, or the operator does not
            give one row for each turn.

    Example:
        >>> import pandas as pd, pyterrier as pt, pyterrier_ikat as ikat
        >>> add_tea = ikat.generate.AppendQuery(pt.apply.query(lambda row: "rooibos tea"))
        >>> add_tea(pd.DataFrame({"qid": ["1"], "query": ["no caffeine"]}))["query"].tolist()
        ['no caffeine rooibos tea']
    """

    schematic = {"label": "Append query"}

    operator: pt.Transformer

    def plan(self, frame: pd.DataFrame, plan: Plan) -> pd.DataFrame:
        """The query and what the operator leaves of it."""
        return with_query(frame, self._appended(frame, plan.follow(self.operator, frame)))

    def queries(self, frame: pd.DataFrame) -> list[str]:
        """The query of each row and the operator's."""
        return self._appended(frame, self.operator.transform(frame))

    def _appended(self, frame: pd.DataFrame, written: pd.DataFrame) -> list[str]:
        each_turn_once(frame)
        if sorted(written["qid"]) != sorted(frame["qid"]):
            rows = counted(len(written), "row")
            turns = counted(len(frame), "turn")
            raise DataError(
                f"{self.operator} gave {rows} for {turns}: "
                "append an operator that gives one row per turn"
            )
        added = dict(zip(written["qid"], texts_in(written, "query"), strict=True))
        queries = []
        for qid, query in zip(frame["qid"], texts_in(frame, "query"), strict=True):
            queries.append(f"{query} {added[qid]}")
        return queries
