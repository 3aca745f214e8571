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

IRDS_PREFIX = "irds:"
STORE_AT_ONCE = 1_000_000
"""Passages up to this number are put into the store of ir_datasets when their texts are asked
for."""


class IrdsDataset(IkatDataset):
    """A dataset of ir_datasets, with its own downloads.

    Each query is a conversation of one turn. The texts of queries and passages are
    ``default_text()`` of ir_datasets.

    Args:
        irds_id: its name in ir_datasets, such as ``"vaswani"``.

    Raises:
        UsageError: when ir_datasets has no such dataset, or its queries are turns of TREC CAsT.
    """

    unit = "turn"
    unit_reason = "Queries of ir_datasets are independent of each other."

    def __init__(self, irds_id: str):
        self.irds_id = irds_id
        self.name = IRDS_PREFIX + irds_id
        self.summary = f"{irds_id} of ir_datasets"
        self.page = f"https://ir-datasets.com/{irds_id.partition('/')[0]}.html"
        self.size = self.source.metadata().get("docs", {}).get("count")
        if self.source.has_queries() and "turn_number" in self.source.queries_cls()._fields:
            raise UsageError(
                f"the queries of {self.name} are turns of conversations: "
                "take cast:2019, cast:2020, cast:2021 or cast:2022"
            )

    @property
    def source(self) -> Any:
        """The dataset of ir_datasets."""
        import ir_datasets

        try:
            return ir_datasets.load(self.irds_id)
        except KeyError:
            raise UsageError(
                f"ir_datasets has no dataset {self.irds_id!r}; https://ir-datasets.com lists them"
            ) from None

    @cached_property
    def conversations(self) -> list[Conversation]:
        """Its queries."""
        if not self.source.has_queries():
            repair = f"take one of its subsets on {self.page}"
            raise UsageError(f"{self.name} has passages and no queries: {repair}")
        texts = {query.query_id: _text(query) for query in self.source.queries_iter()}
        conversations = []
        for qid, text in texts.items():
            turn = TopicTurn(1, text, "", qid=qid)
            conversations.append(Conversation(qid, turns=(turn,)))
        return conversations

    def text_loader(self, fields: Fields = "text", *, verbose: bool = False) -> Any:
        """Make an operator that adds the passages' ``text`` by ``docno``.

        It reads the store of all passages that ir_datasets builds once.

        Raises:
            UsageError: for other fields, and when building that store would take long. Use the
                texts of an index then.
        """
        fields_named(fields, ["text"])
        if self._has_quick_store():
            return DocstoreText(self.irds_id)
        return super().text_loader(fields)

    def _has_quick_store(self) -> bool:
        """Tell whether the store of passages is built, or built soon."""
        if not self.source.has_docs():
            return False
        if self.size is not None and self.size <= STORE_AT_ONCE:
            return True
        is_built = getattr(self.source.docs_store(), "built", None)  # not every store has it
        return is_built is not None and is_built()

    def _qrels(self) -> Qrels:
        return {None: self._graded} if self.source.has_qrels() else {}

    def _graded(self) -> pd.DataFrame:
        rows = [(row.query_id, row.doc_id, row.relevance) for row in self.source.qrels_iter()]
        return qrels_frame(dict.fromkeys(rows))

    def _passages(self) -> Iterable[dict[str, str]]:
        if not self.source.has_docs():
            repair = "give an index of the collection that was judged"
            raise DataError(f"{self.name} has no passages: {repair}")
        return map(_passage, self.source.docs_iter())


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
        """Return the texts of these passages, by docno."""
        store = IrdsDataset(self.irds_id).source.docs_store()
        return {item.doc_id: {"text": _text(item)} for item in store.get_many_iter(set(docnos))}


def _passage(item: Any) -> dict[str, str]:
    return {"docno": item.doc_id, "text": _text(item), "url": getattr(item, "url", None) or ""}


def _text(item: Any) -> str:
    text: str = item.default_text().strip()
    return text
