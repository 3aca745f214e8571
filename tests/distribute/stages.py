"""Stages that tell where they ran, or end their process; found by name on the workers."""

import os
import time
from pathlib import Path

import pandas as pd
import pyterrier as pt

from pyterrier_ikat import DataError


class Where(pt.Transformer):
    """Writes node and process; waits until as many processes are at it as it is told."""

    def __init__(self, folder, together=1):
        self.folder, self.together = Path(folder), together

    def transform(self, inp):
        import ray

        (self.folder / str(os.getpid())).touch()
        end = time.monotonic() + 300
        while len(list(self.folder.iterdir())) < self.together and time.monotonic() < end:
            time.sleep(0.01)
        return inp.assign(node=ray.get_runtime_context().get_node_id(), process=os.getpid())


class Dies(pt.Transformer):
    """Ends its process at a turn, as often as ``times`` says; counts in a file."""

    def __init__(self, qid, counter, times):
        self.qid, self.counter, self.times = qid, Path(counter), times

    def transform(self, inp):
        died = len(self.counter.read_text()) if self.counter.exists() else 0
        if self.qid in inp["qid"].tolist() and died < self.times:
            self.counter.write_text("x" * (died + 1))
            os._exit(1)
        return inp


class Raises(pt.Transformer):
    """Raises at a turn."""

    def __init__(self, qid, error=DataError):
        self.qid, self.error = qid, error

    def transform(self, inp):
        if self.qid in inp["qid"].tolist():
            raise self.error(f"turn {self.qid} is odd: leave it out")
        return inp


class ByLength(pt.Transformer):
    """A re-ranker without a model: long passages that share letters with the query come first."""

    def transform(self, inp):
        shared = [len(set(query) & set(text)) + len(text) / 1000 for query, text in zip(inp["query"], inp["text"], strict=True)]
        return pt.model.add_ranks(inp.assign(score=shared))


class _Changing:
    """An index whose fingerprint is another one in every process, as if each node had its own."""

    path = "/shared/mini.index"

    def fingerprint(self):
        return str(os.getpid())


class Differs(pt.Transformer):
    """A stage with an index that differs between processes, which waits until two of them are at work."""

    def __init__(self, folder):
        self.index, self.together = _Changing(), Where(folder, together=2)

    def transform(self, inp):
        return self.together.transform(inp)


def turns(count):
    qids = [f"t{number:02d}" for number in range(count)]
    return pd.DataFrame({"qid": qids, "query": [f"question {qid}" for qid in qids]}, dtype=object)
