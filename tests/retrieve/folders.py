"""What is in a folder of an index."""

import json
from pathlib import Path

CORPUS = [{"docno": "d1", "text": "green tea"}, {"docno": "d2", "text": "a tram"}]
MORE = [{"docno": "d3", "text": "mint tea"}]


def times_of_files(folder):
    """The time at which each file and folder below ``folder`` was written."""
    times = {}
    for path in folder.rglob("*"):
        times[path] = path.stat().st_mtime_ns
    return times


def read_description(path):
    """The description of the engine of two passages."""
    return json.loads((Path(path) / "bm25-2" / "ikat.json").read_text())


def write_description(path, description):
    (Path(path) / "bm25-2" / "ikat.json").write_text(json.dumps(description))
