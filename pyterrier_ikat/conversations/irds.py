"""Datasets of ir_datasets: TREC CAsT 2019 and 2020 as conversations, any other one as turns without a history."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd
import pyterrier as pt

from ..errors import DataError, UsageError, advice, list_first
from ..operator import Operator
from .download import data_file
from .frame import with_columns
from .ikat_dataset import IkatDataset, Qrels
from .qrels import qrels_frame
from .topics import Conversation, TopicTurn

PREFIX = "irds:"
JUDGED = "/judged"
"""The end of the name of a dataset without the unjudged queries of another one."""
TURN_FIELDS = {"raw_utterance", "topic_number", "turn_number"}
"""Fields of queries that are turns of conversations."""
CANONICAL = ("manual_canonical_result_id", "canonical_result_id")
RESOLVED = {"trec-cast/v1/2019": "evaluation_topics_annotated_resolved_v1.0.tsv"}
"""The manual rewrites that ir_datasets doesn't have: ``qid``, a tab, the rewrite."""

CAST = "cast:"
YEARS: dict[str, str] = {
    **{str(year): f"{CAST}{year}" for year in range(2019, 2023)},
    **{str(year): f"ikat:{year}" for year in range(2023, 2026)},
}
"""Year of a track -> its dataset."""

STORE_AT_ONCE = 1_000_000
"""Passages up to this number are put into the store of ir_datasets when their texts are asked for."""

Made = TypeVar("Made")


class IrdsDataset(IkatDataset):
    """A dataset of ir_datasets. ir_datasets fetches the files itself.

    The queries of TREC CAsT become turns: the history of a turn is the earlier utterances of its topic, including unjudged turns.
    CAsT 2019 has no responses, and those of 2020 are passages of the collection, see :meth:`with_responses`. Any other query is a
    conversation of one turn. The texts of queries and passages are ``default_text()`` of ir_datasets.

    Args:
        irds_id: its name in ir_datasets, such as ``"trec-cast/v1/2020"`` or ``"vaswani"``.
        name: its name here.

    Raises:
        UsageError: when ir_datasets has no such dataset.
    """

    def __init__(self, irds_id: str, name: str = ""):
        self.irds_id, self.name = irds_id, name or PREFIX + irds_id
        self._texts: dict[str, str] = {}
        self._fields = frozenset(self.given.queries_cls()._fields if self.given.has_queries() else ())
        self._of_topics = self._fields >= TURN_FIELDS
        whole = irds_id.removesuffix(JUDGED)
        self._whole = whole if self._of_topics and whole in _names() else irds_id  # histories include unjudged turns
        rewritten = self._whole in RESOLVED or not self._of_topics or "manual_rewritten_utterance" in self._fields
        self.topic_variants = (None, *["manual"] * rewritten, *["automatic"] * ("automatic_rewritten_utterance" in self._fields))
        self.summary = f"{irds_id} of ir_datasets: {', '.join(self._counts()) or 'turns, passages or judgements'}"

    @property
    def given(self) -> Any:
        """The dataset of ir_datasets."""
        return _load(self.irds_id)

    @cached_property
    def conversations(self) -> list[Conversation]:
        """Its conversations: topics of TREC CAsT, or one per query."""
        if not self.given.has_queries():
            subsets = ", ".join(
                PREFIX + name for name in sorted(_names()) if name.startswith(f"{self.irds_id}/") and _load(name).has_queries()
            )
            raise UsageError(f"{self.name} has passages and no queries" + f": take one of {subsets}" * bool(subsets))
        queries = self._ask("queries", lambda: list(_load(self._whole).queries_iter()))
        if not self._of_topics:
            return [
                Conversation(query.query_id, turns=(TopicTurn(1, query.default_text().strip(), "", qid=query.query_id),))
                for query in queries
            ]
        resolved, topics = self._resolved(), dict.fromkeys(query.topic_number for query in queries)
        turns = [(query.topic_number, self._turn(query, resolved)) for query in queries]
        return [Conversation(str(topic), turns=tuple(turn for of, turn in turns if of == topic)) for topic in topics]

    def get_topics(self, variant: str | None = None) -> pd.DataFrame:
        """The turn frame, see :meth:`IkatDataset.get_topics`; with ``"automatic"`` the organisers' automatic rewrites are the queries."""
        if variant == "manual" and self._whole in RESOLVED:
            self._check_resolved(data_file(RESOLVED[self._whole]))
        return self._asked(super().get_topics(variant))

    def get_answers(self) -> pd.DataFrame:
        """The canonical passages of the same turns, if :meth:`with_responses` gave their texts."""
        return self._asked(super().get_answers())

    def with_responses(self, texts: pt.Transformer) -> "IrdsDataset":
        """This dataset with the texts of the earlier turns' canonical passages in the histories.

        The passages of CAsT 2020 come from the organisers' manual run. The track counts a run that reads them as a run with manual
        information.

        Args:
            texts: adds ``text`` by ``docno``, such as an index's ``text_loader()``.

        Raises:
            UsageError: when its turns have no canonical passages.

        Example:
            >>> import pyterrier_ikat as ikat
            >>> index = ikat.PassageIndex("cast.index")
            >>> data = ikat.dataset("cast:2020").with_responses(index.text_loader())  # doctest: +SKIP
        """
        passages = list(dict.fromkeys(docno for chat in self.conversations for turn in chat.turns for docno in turn.passages))
        if not passages:
            raise UsageError(f"{self.name} has no canonical passages: its histories are the utterances")
        found = IrdsDataset(self.irds_id, self.name)
        loaded = texts.transform(pd.DataFrame({"qid": [self.name] * len(passages), "docno": passages}))
        found._texts = dict(zip(loaded["docno"], loaded["text"], strict=True))
        return found

    def text_loader(self, fields: Sequence[str] = ("text",)) -> Any:
        """An operator that adds the passages' ``text`` by ``docno``, from the store of all passages that ir_datasets builds once.

        Raises:
            UsageError: for other fields, and when building that store would take long. Use the texts of an index then.
        """
        if tuple(fields) != ("text",) or not self.given.has_docs():
            return super().text_loader(fields)
        count = self.collection()[0]
        if (count is None or count > STORE_AT_ONCE) and not self._ask("passages", self._has_store):
            size = "an unknown number of" if count is None else f"{count:,}"
            python = "take ikat.PassageIndex(PATH).text_loader()"
            raise UsageError(
                f"{self.name} has {size} passages, and ir_datasets has no store of them: {advice(python, 'give --index PATH')}"
            )
        return DocstoreText(self.irds_id)

    def collection(self) -> tuple[int | None, frozenset[str] | None]:
        """The number of passages, if ir_datasets knows it without reading them."""
        return self.given.metadata().get("docs", {}).get("count"), None

    def get_topics_lang(self) -> str | None:
        """The language of the queries, if ir_datasets knows it."""
        return self.given.queries_lang() if self.given.has_queries() else None

    def get_corpus_lang(self) -> str | None:
        """The language of the passages, if ir_datasets knows it."""
        return self.given.docs_lang() if self.given.has_docs() else None

    def info_url(self) -> str:
        """The page of ir_datasets."""
        return f"https://ir-datasets.com/{self.irds_id.partition('/')[0]}.html"

    def _asked(self, frame: pd.DataFrame) -> pd.DataFrame:
        if self._whole == self.irds_id:
            return frame
        own = self._ask("queries", lambda: {query.query_id for query in self.given.queries_iter()})
        return frame[frame["qid"].isin(own)].reset_index(drop=True)

    def _has_store(self) -> bool:
        store = self.given.docs_store()
        return bool(hasattr(store, "built") and store.built())

    def _counts(self) -> Iterator[str]:
        known = self.given.metadata()
        for part, kind in (("queries", "turns"), ("docs", "passages"), ("qrels", "judgements")):
            if (count := known.get(part, {}).get("count")) is not None:
                yield f"{count:,} {kind}"

    def _resolved(self) -> dict[str, str]:
        """The manual rewrites of the file that supplements ir_datasets; empty if there is no file."""
        try:
            path = data_file(RESOLVED[self._whole]) if self._whole in RESOLVED else None
        except DataError:
            return {}
        lines = path.read_text(encoding="utf-8-sig").splitlines() if path else []
        return {qid: text.strip() for qid, _, text in (line.partition("\t") for line in lines)}

    def _check_resolved(self, path: Path) -> None:
        without = [turn.qid for chat in self.conversations for turn in chat.turns if not turn.resolved]
        if without:
            raise DataError(f"{path} has no rewrite of {len(without)} turns ({list_first(without)}); a line is its qid, a tab, the rewrite")

    def _turn(self, query: Any, resolved: dict[str, str]) -> TopicTurn:
        passages = tuple(found for name in CANONICAL if (found := getattr(query, name, "")))
        return TopicTurn(
            query.turn_number,
            query.raw_utterance,
            " ".join(self._texts[docno] for docno in passages if docno in self._texts),
            getattr(query, "manual_rewritten_utterance", None) or resolved.get(query.query_id, ""),
            passages=passages,
            qid=query.query_id,
            automatic=getattr(query, "automatic_rewritten_utterance", "") or "",
        )

    def _qrels(self) -> Qrels:
        found: Qrels = {None: self._graded} if self.given.has_qrels() else {}
        has_passages = self._of_topics and self._fields.intersection(CANONICAL)
        return {**found, "provenance": lambda: self._asked(self._provenance())} if has_passages else found

    def _graded(self) -> pd.DataFrame:
        if "relevance" not in self.given.qrels_cls()._fields:
            raise UsageError(f"the judgements of {self.name} have no field relevance: give other {advice('qrels=', '--qrels')}")
        judged = self._ask("judgements", lambda: [(row.query_id, row.doc_id, row.relevance) for row in self.given.qrels_iter()])
        return qrels_frame(dict.fromkeys(judged))

    def _passages(self) -> tuple[Iterable[dict[str, str]], int]:
        if not self.given.has_docs():
            raise DataError(f"{self.name} has no passages: give an index of the collection that was judged")
        return self._documents(), self.collection()[0] or 0

    def _documents(self) -> Iterator[dict[str, str]]:
        documents = self._ask("passages", lambda: iter(self.given.docs_iter()))
        while (document := self._ask("passages", lambda: next(documents, None))) is not None:
            yield {"docno": document.doc_id, "text": document.default_text().strip(), "url": getattr(document, "url", None) or ""}

    def _ask(self, what: str, read: Callable[[], Made]) -> Made:
        """The data that ir_datasets reads or fetches.

        Raises:
            DataError: when it can't.
        """
        try:
            return read()
        except (OSError, EOFError, ValueError, KeyError, RuntimeError, AssertionError) as error:
            import ir_datasets

            why = f"{type(error).__name__}: {str(error)[:200]}"
            repair = f"check the network, or put its files into {ir_datasets.util.home_path()}, see {self.info_url()}"
            raise DataError(f"ir_datasets can't give the {what} of {self.irds_id} ({why}); {repair}") from None

    def __repr__(self) -> str:
        return f"ikat.dataset({self.name!r})"


class DocstoreText(Operator):
    """Adds the text of each passage by its ``docno``, from the document store of ir_datasets.

    Args:
        irds_id: the dataset's name in ir_datasets; its store is built at first use.

    Needs ``docno``; adds ``text`` and keeps everything else.

    Raises:
        DataError: when a docno isn't in the store.
    """

    schematic = {"label": "Text loader"}

    def __init__(self, irds_id: str) -> None:
        super().__init__()
        self.irds_id = irds_id

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Add ``text``."""
        pt.validate.columns(inp, includes=["docno"], context=self)
        wanted = set(inp["docno"])
        store = _load(self.irds_id).docs_store() if wanted else None
        texts = {} if store is None else {document.doc_id: document.default_text().strip() for document in store.get_many_iter(wanted)}
        missing = [docno for docno in dict.fromkeys(inp["docno"]) if docno not in texts]
        if missing:
            raise DataError(f"{self.irds_id} lacks {len(missing)} of the passages to load ({list_first(missing)}): load texts of its own")
        return with_columns(inp, text=[texts[docno] for docno in inp["docno"]])


def _names() -> set[str]:
    import ir_datasets

    return set(ir_datasets.registry)


def _load(irds_id: str) -> Any:
    import ir_datasets

    try:
        return ir_datasets.load(irds_id)
    except KeyError:
        raise UsageError(f"ir_datasets has no dataset {irds_id!r}; {_instead(irds_id)}") from None


def _instead(irds_id: str) -> str:
    first = irds_id.partition("/")[0]
    alike = ", ".join(sorted(name for name in _names() if name.partition("/")[0] == first)[:8])
    year = of_its_year(irds_id) if re.search("cast|ikat", irds_id) else ""
    return year or (f"there are {alike}" if alike else "https://ir-datasets.com lists them")


def of_its_year(name: str) -> str:
    """The dataset that a name with a year means, as a hint; empty if there is none.

    Example:
        >>> of_its_year("ikat:2022")
        'TREC CAsT 2022 is cast:2022'
        >>> of_its_year("trec-cast/v1/2023"), of_its_year("cast:2018")
        ('TREC iKAT 2023 is ikat:2023', '')
    """
    year = re.search(r"20\d\d", name)
    found = YEARS.get(year[0], "") if year else ""
    return f"TREC {'CAsT' if found.startswith(CAST) else 'iKAT'} {year[0]} is {found}" if year and found else ""
