"""Tables of a paper with scores of ours, small ones and those of real papers."""

import math

import numpy as np
import pandas as pd
from click.testing import CliRunner

from pyterrier_ikat.cli import main
from pyterrier_ikat.methods import find
from pyterrier_ikat.methods.catalogue import NIST, PublishedTable
from pyterrier_ikat.papers.paper_scores import Judgements
from pyterrier_ikat.papers.published import Row
from pyterrier_ikat.papers.table import PaperTable

TABLE = PublishedTable(
    key="small",
    paper="A paper, Table 1",
    year=2023,
    qrels="of NIST",
    measures=["nDCG", "Judged@10"],
    scores="raw .5000b 10\naqd .2500 5.50\nad - 10\ntheirs .9000 10\n",
    turns=4,
)


PLAIN = PublishedTable(
    **{**vars(TABLE), "scores": "raw .5000 10\naqd .2500 5.50\nad - 10\n", "blocks": ()}
)


def judgements(turns=4, kind=NIST, year=2023, **more):
    qrels = pd.DataFrame({"qid": [f"1_{n}" for n in range(turns)], "docno": "d", "label": 1})
    return Judgements(qrels, kind, year, **more)


def scores(*ndcg, at_ten=10.0):
    return pd.DataFrame({"nDCG": list(ndcg), "Judged@10": at_ten})


ROWS = [Row(find(name), {}) for name in ("raw", "aqd", "ad")]


def table(judgements, rows=ROWS, part=TABLE, **more):
    return PaperTable(part, rows, judgements, **more)


def lines(made):
    """System, whose scores, and nDCG of each row: None for a score that is not there."""
    found = []
    for row in made.frame.to_dict("records"):
        score = None if math.isnan(row["nDCG"]) else round(row["nDCG"], 4)
        found.append((row["system"], row["scores"], score))
    return found


def random_scores(part, seed, turns):
    values = np.random.default_rng(seed).random((turns, len(part.measures)))
    return pd.DataFrame(values, columns=list(part.measures))


def table_of(part, judged, seeds=None):
    turns = judged.qrels["qid"].nunique()
    made = {name: random_scores(part, seed, turns) for name, seed in (seeds or {}).items()}
    rows = [Row(find(name), {}, written=name) for name in part.systems]
    return PaperTable(part, rows, judged, made)


def printed(*arguments):
    found = CliRunner().invoke(main, ["paper", *arguments])
    assert found.exit_code == 0, found.output
    return found.output
