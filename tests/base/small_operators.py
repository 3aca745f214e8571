"""Small operators and stages of other packages, of which tests of several files ask."""

import pandas as pd
import pyterrier as pt

from pyterrier_ikat.operator import (
    Operator,
    with_fields,
)

TURNS = pd.DataFrame({"qid": ["1_1", "1_2"], "query": ["tea", "walk"]})


class Named(Operator):
    """Keeps its frame."""

    schematic = {"label": "A name"}

    def __init__(self, *branches, size=3, end="!", prompts=None, cache=None, text=None):
        super().__init__()
        self.branches = list(branches)
        self.size = size
        self.end = end
        self.prompts = prompts
        self.cache = cache
        self.text = text

    last_in_repr = ("size",)

    def arguments(self):
        return {"branches": self.branches, **super().arguments()}

    def transform(self, inp):
        return inp


class Again(Named):
    """Drawn as nothing."""

    schematic = None


class Drawn(Named):
    """Draws itself by its own function."""

    def schematic(self, *, input_columns=None):
        return {}


@with_fields
class Fields(Operator):
    """Has fields.

    Args:
        first: the first one.
    """

    first: int
    second: str = "x"

    def transform(self, inp):
        return inp


@with_fields
class MoreFields(Fields):
    """Has more fields.

    Args:
        third: the third one.

    Example:
        >>> None
    """

    third: int = 3


class Holds(Operator):
    """Holds anything."""

    def __init__(self, value=None):
        super().__init__()
        self.value = value

    def transform(self, inp):
        return inp


# Of other packages


class Opaque(pt.Transformer):
    """Of another package."""

    def __init__(self, value=None):
        super().__init__()
        self.value = value

    def transform(self, inp):
        return inp

    def __repr__(self):
        return "Opaque()"


class Theirs(pt.Transformer):
    """Of another package, named by what it holds."""

    def __init__(self, name, *values):
        super().__init__()
        self.name = name
        self.values = list(values)

    def transform(self, inp):
        return inp

    def __repr__(self):
        return f"Theirs({self.name})"


class Stage(pt.Transformer):
    """A retriever with any attributes."""

    def __init__(self, **attributes):
        super().__init__()
        vars(self).update(attributes)

    def transform(self, inp):
        found = {"qid": ["1"], "query": ["x"], "docno": ["d"], "score": [1.0], "rank": [0]}
        return pd.DataFrame(found).head(len(inp))


class Rewriter(Stage):
    """A stage that finds nothing."""

    def transform(self, inp):
        return inp


class Versioned(pt.Transformer):
    """A stage whose repr is an address, with a fingerprint."""

    def __init__(self, version):
        self.version = version

    def fingerprint(self):
        return self.version

    def transform(self, inp):
        return inp
