"""Stages that tell where they ran, or end their process; found by name on the workers."""

import itertools
import os
import time
from pathlib import Path

import pandas as pd
import pyterrier as pt

from pyterrier_ikat import DataError


class Together(pt.Transformer):
    """Writes its process, and waits until two of them are at it."""

    def __init__(self, folder):
        self.folder = Path(folder)

    def transform(self, inp):
        (self.folder / str(os.getpid())).touch()
        end = time.monotonic() + 300
        while len(list(self.folder.iterdir())) < 2 and time.monotonic() < end:
            time.sleep(0.01)
        return inp.assign(process=os.getpid())


class Finds(pt.Transformer):
    """Finds a passage for some turns alone."""

    def __init__(self, *qids):
        self.qids = qids

    def transform(self, inp):
        found = inp[inp["qid"].isin(self.qids)]
        return found.assign(rank=range(len(found)))


class Dies(pt.Transformer):
    """Ends its process at a turn, once."""

    def __init__(self, qid, died):
        self.qid = qid
        self.died = Path(died)

    def transform(self, inp):
        if self.qid in inp["qid"].tolist() and not self.died.exists():
            self.died.touch()
            os._exit(1)
        return inp


class Raises(pt.Transformer):
    """Raises at a turn."""

    def __init__(self, qid, error=DataError):
        self.qid = qid
        self.error = error

    def transform(self, inp):
        if self.qid in inp["qid"].tolist():
            raise self.error(f"turn {self.qid} is odd: leave it out")
        return inp


class ByLength(pt.Transformer):
    """A re-ranker without a model: long passages that share letters with the query come first."""

    def transform(self, inp):
        scores = []
        for query, text in zip(inp["query"], inp["text"], strict=True):
            shared = set(query) & set(text)
            scores.append(len(shared) + len(text) / 1000)
        return pt.model.add_ranks(inp.assign(score=scores))


class _Changing:
    """An index whose fingerprint is another one each time, as if each node had its own."""

    path = "/shared/mini.index"
    _asked = itertools.count()

    def fingerprint(self):
        return str(next(self._asked))


class Differs(pt.Transformer):
    """A stage with an index that differs between processes."""

    def __init__(self):
        self.index = _Changing()

    def transform(self, inp):
        return inp


def turns(count):
    qids = [f"t{number:02d}" for number in range(count)]
    return pd.DataFrame({"qid": qids, "query": [f"question {qid}" for qid in qids]}, dtype=object)
