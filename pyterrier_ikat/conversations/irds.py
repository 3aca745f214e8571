"""Datasets of ir_datasets: each query is a turn without a history."""

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any

import pandas as pd

from ..errors import DataError, UsageError
from .ikat_dataset import IkatDataset, Qrels
from .passages import Fields, TextLoader, fields_named
from .qrels import qrels_frame
from .topics import Conversation, TopicTurn

PREFIX = "irds:"
STORE_AT_ONCE = 1_000_000
"""Passages up to this number are put into the store of ir_datasets when their texts are asked for."""


class IrdsDataset(IkatDataset):
    """A dataset of ir_datasets, which fetches the files itself. Each query is a conversation of one turn.

    The texts of queries and passages are ``default_text()`` of ir_datasets.

    Args:
        irds_id: its name in ir_datasets, such as ``"vaswani"``.

    Raises:
        UsageError: when ir_datasets has no such dataset, or its queries are turns of TREC CAsT.
    """

    def __init__(self, irds_id: str):
        self.irds_id, self.name = irds_id, PREFIX + irds_id
        self.summary, self.page = f"{irds_id} of ir_datasets", f"https://ir-datasets.com/{irds_id.partition('/')[0]}.html"
        self.size = self.given.metadata().get("docs", {}).get("count")
        if self.given.has_queries() and "turn_number" in self.given.queries_cls()._fields:
            raise UsageError(f"the queries of {self.name} are turns of conversations: take cast:2019, cast:2020, cast:2021 or cast:2022")

    @property
    def given(self) -> Any:
        """The dataset of ir_datasets."""
        import ir_datasets

        try:
            return ir_datasets.load(self.irds_id)
        except KeyError:
            raise UsageError(f"ir_datasets has no dataset {self.irds_id!r}; https://ir-datasets.com lists them") from None

    @cached_property
    def conversations(self) -> list[Conversation]:
        """Its queries."""
        if not self.given.has_queries():
            raise UsageError(f"{self.name} has passages and no queries: take one of its subsets on {self.page}")
        texts = {query.query_id: _text(query) for query in self.given.queries_iter()}
        return [Conversation(qid, turns=(TopicTurn(1, text, "", qid=qid),)) for qid, text in texts.items()]

    def text_loader(self, fields: Fields = "text", *, verbose: bool = False) -> Any:
        """An operator that adds the passages' ``text`` by ``docno``, from the store of all passages that ir_datasets builds once.

        Raises:
            UsageError: for other fields, and when building that store would take long. Use the texts of an index then.
        """
        fields_named(fields, ["text"])
        store = self.given.docs_store() if self.given.has_docs() else None
        is_quick = (self.size or STORE_AT_ONCE + 1) <= STORE_AT_ONCE or getattr(store, "built", bool)()
        return DocstoreText(self.irds_id) if store is not None and is_quick else super().text_loader(fields)

    def _qrels(self) -> Qrels:
        return {None: self._graded} if self.given.has_qrels() else {}

    def _graded(self) -> pd.DataFrame:
        return qrels_frame(dict.fromkeys((row.query_id, row.doc_id, row.relevance) for row in self.given.qrels_iter()))

    def _passages(self) -> Iterable[dict[str, str]]:
        if not self.given.has_docs():
            raise DataError(f"{self.name} has no passages: give an index of the collection that was judged")
        return ({"docno": one.doc_id, "text": _text(one), "url": getattr(one, "url", None) or ""} for one in self.given.docs_iter())


class DocstoreText(TextLoader):
    """Adds the text of each passage by its ``docno``, from the document store of ir_datasets.

    Args:
        irds_id: the dataset's name in ir_datasets; its store is built at first use.

    Needs ``docno``; adds ``text`` and keeps everything else.

    Raises:
        DataError: when a docno isn't in the store.
    """

    def __init__(self, irds_id: str) -> None:
        super().__init__(irds_id)
        self.irds_id = irds_id

    def passages(self, docnos: Iterable[str]) -> Mapping[str, Mapping[str, str]]:
        """The texts of these passages, by docno."""
        store = IrdsDataset(self.irds_id).given.docs_store()
        return {one.doc_id: {"text": _text(one)} for one in store.get_many_iter(set(docnos))}


def _text(item: Any) -> str:
    text: str = item.default_text().strip()
    return text
