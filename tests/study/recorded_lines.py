"""Stages with fixed results, and the lines that a recorder keeps."""

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


def lines_kept(recorder, qids):
    """The lines that a recorder has of these turns."""
    packed = recorder.take(list(qids))
    if not packed:
        return []
    return [json.loads(line) for line in gzip.decompress(packed).splitlines()]
