"""The text of passages by docno."""

from typing import Protocol

import pandas as pd
import pyterrier as pt

from ..operator import Operator
from .result_frame import with_texts


class HasTexts(Protocol):
    """Anything that gives the texts of passages."""

    def texts(self, docnos: list[str]) -> list[str]:
        """The texts of ``docnos``, in their order."""


class PassageText(Operator):
    """Adds the column ``text`` by ``docno``, from the texts kept in an index; ``PassageIndex.text_loader()`` makes it.

    Rows, their order and all other columns stay as they are. Rows of the same passage share one string.

    Args:
        index: where the texts are.

    Raises:
        DataError: naming the passages that the index lacks.
    """

    schematic = {"label": "PassageText"}

    def __init__(self, index: HasTexts) -> None:
        super().__init__()
        self.index = index

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Add ``text`` to a frame with ``docno``."""
        pt.validate.columns(inp, includes=["docno"], context=self)
        return with_texts(inp, self.index.texts)

    def __repr__(self) -> str:
        return f"{self.index!r}.text_loader()"
