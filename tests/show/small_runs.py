"""Rankings and stages small enough to be worked out by hand."""

import gzip
import json

import pandas as pd

DOCNOS = [f"sample-walk-0{number:02}:0" for number in range(1, 7)]


def ranking(rows):
    """A result frame from (qid, docno, score) in the order of the ranks."""
    frame = pd.DataFrame(rows, columns=["qid", "docno", "score"]).astype(
        {"qid": object, "docno": object}
    )
    return frame.assign(rank=frame.groupby("qid").cumcount())


def best_first(docnos_by_turn, top=1.0):
    """A result frame from turn -> docnos, with scores from ``top`` down in steps of 1."""
    rows = []
    for qid, docnos in docnos_by_turn.items():
        for place, docno in enumerate(docnos):
            rows.append((qid, docno, top - place))
    return ranking(rows)


def write_stages(folder, *lines):
    """Write what stages asked and found into the folder of a run, a line per stage and turn."""
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (folder / "stages.jsonl.gz").write_bytes(gzip.compress(text.encode()))
