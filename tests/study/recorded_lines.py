"""Stages with fixed results, one passage for every turn, and the lines that a recorder keeps."""

import gzip
import json

from pyterrier_ikat.operator import Operator


class Gives(Operator):
    """A stage with a fixed result."""

    def __init__(self, result):
        super().__init__()
        self.result = result

    def transform(self, inp):
        return self.result


class Finds(Operator):
    """Finds one passage for every turn."""

    def __init__(self, docno="a"):
        super().__init__()
        self.docno = docno

    def transform(self, inp):
        return inp.assign(docno=self.docno, score=1.0, rank=0)


def lines_kept(recorder, qids):
    """The lines that a recorder has of these turns."""
    packed = recorder.take(list(qids))
    if not packed:
        return []
    return [json.loads(line) for line in gzip.decompress(packed).splitlines()]
