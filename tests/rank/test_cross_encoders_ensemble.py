"""The ensemble: the rule worked out by hand and in plain Python."""

import math
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pyterrier as pt
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pyterrier_ikat as ikat
from pyterrier_ikat.order import min_max
from pyterrier_ikat.rank.cross_encoders import ENSEMBLE_MODELS


class Scores(pt.Transformer):
    """A scorer that gives (qid, docno) the score of a dict, leaves out what isn't in it.

    Counts its calls.
    """

    def __init__(self, scores, name="Scores()"):
        self.scores = scores
        self.name = name
        self.calls = 0

    def transform(self, inp):
        self.calls += 1
        keys = list(zip(inp["qid"], inp["docno"], strict=True))
        kept = inp[[key in self.scores for key in keys]]
        scores = [self.scores[key] for key in keys if key in self.scores]
        return kept.assign(score=scores).iloc[::-1]

    def __repr__(self):
        return self.name


def found(*keys):
    """A result frame of (qid, docno) pairs."""
    frame = pd.DataFrame(keys, columns=["qid", "docno"], dtype=object)
    return frame.assign(query="tea", text="rooibos", score=0.0, rank=np.arange(len(keys)))


def ranking(frame):
    return [(row.docno, round(row.score, 9), row.rank) for row in frame.itertuples()]


ABC = [("t", "a"), ("t", "b"), ("t", "c")]


def of_grid(docnos, table):
    scores = {}
    for docno, score in zip(docnos, table, strict=True):
        scores["t", docno] = score / 10
    return Scores(scores)


@given(st.data())
def test_equal_means_are_equal_in_any_order_of_the_scorers(data):
    """Scores on a grid of tenths: exact fractions say which means are equal."""
    docnos = "abcdefgh"[: data.draw(st.integers(2, 8))]
    grid = st.integers(0, 10)
    tables = data.draw(st.lists(st.tuples(*[grid] * len(docnos)), min_size=2, max_size=5))
    exact = {docno: Fraction(0) for docno in docnos}
    for table in tables:
        low = min(table)
        width = max(table) - low
        for docno, score in zip(docnos, table, strict=True):
            exact[docno] += Fraction(score - low, width) if width > 0 else Fraction(1, 2)
    expected = sorted(sorted(docnos, reverse=True), key=lambda docno: -exact[docno])
    scorers = [of_grid(docnos, table) for table in tables]
    ties = [exact[docno] == exact[other] for docno, other in pairwise(expected)]
    frame = found(*[("t", docno) for docno in docnos])
    first = ikat.Ensemble(scorers)(frame)
    second = ikat.Ensemble(scorers[::-1])(frame)
    for ranked in (first, second):
        assert ranked["docno"].tolist() == expected
        assert [score == below for score, below in pairwise(ranked["score"])] == ties
    assert first["score"].tolist() == second["score"].tolist()


def test_a_scorer_gets_its_own_frame_once_and_repeats_count_once():
    def shortened(rows):
        rows["text"] = ""
        return rows.assign(score=1.0)

    shortens = pt.apply.generic(shortened)
    by_length = pt.apply.doc_score(lambda row: float(len(row["text"])))
    frame = found(*ABC).assign(text=["x", "xxx", "xx"])
    for scorers in ([shortens, by_length], [by_length, shortens]):
        assert ranking(ikat.Ensemble(scorers)(frame)) == [
            ("b", 0.75, 0),
            ("c", 0.5, 1),
            ("a", 0.25, 2),
        ]
    assert frame["text"].tolist() == ["x", "xxx", "xx"]

    def scored_twice(rows):
        first = rows.assign(score=[3.0, 2.0, 1.0])
        return pd.concat([first, rows.assign(score=[0.0, 9.0, 5.0])])

    twice = pt.apply.generic(scored_twice)
    assert ranking(ikat.Ensemble([twice])(found(*ABC))) == [
        ("a", 1.0, 0),
        ("b", 0.5, 1),
        ("c", 0.0, 2),
    ]
    part = of_grid("abc", (1, 2, 3))
    ikat.Ensemble([part])(found(*ABC, ("u", "a")))
    assert part.calls == 1


@pytest.mark.parametrize("bad", [math.nan, -math.inf])
def test_a_score_that_is_not_finite_names_scorer_and_passage(bad):
    broken = Scores({("t", "a"): 1.0, ("t", "b"): bad}, "Broken()")
    with pytest.raises(
        ikat.DataError, match=r"Broken\(\) gave the score .* to passage b of turn t: only finite"
    ):
        ikat.Ensemble([of_grid("abc", (1, 2, 3)), broken])(found(*ABC))


SCORE = st.floats(-1e6, 1e6).map(lambda score: round(score, 3))
LISTS = st.lists(
    st.dictionaries(st.tuples(st.sampled_from("tuv"), st.sampled_from("abcdefg")), SCORE),
    min_size=1,
    max_size=4,
)


def in_plain_python(keys, lists):
    wanted = {}
    for qid, docno in keys:
        places = []
        for scored in lists:
            if (qid, docno) not in scored:
                places.append(0.0)
                continue
            of_turn = [scored[key] for key in scored if key[0] == qid]
            least = min(of_turn)
            width = max(of_turn) - least
            places.append((scored[qid, docno] - least) / width if width > 0 else 0.5)
        wanted[qid, docno] = sum(places) / len(lists)
    return wanted


@given(lists=LISTS)
def test_the_ensemble_is_the_rule_in_plain_python(lists):
    keys = sorted(set().union(*lists), key=lambda key: (key[1], key[0]))
    if not keys:
        return
    ranked = ikat.Ensemble([Scores(scored) for scored in lists])(found(*keys))
    # Scores that only 64 bits tell apart go down by 32-bit steps.
    scores = ranked.set_index(["qid", "docno"])["score"].to_dict()
    assert scores == pytest.approx(in_plain_python(keys, lists), abs=1e-6)
    assert list(dict.fromkeys(ranked["qid"])) == list(dict.fromkeys(qid for qid, _ in keys))
    for _, turn in ranked.groupby("qid"):
        scored = list(zip(turn["score"].astype(np.float32), turn["docno"], strict=True))
        assert scored == sorted(scored, reverse=True)
        assert turn["rank"].tolist() == list(range(len(turn)))


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=2, unique=True))
def test_any_finite_scores_stay_in_their_order_between_0_and_1(values):
    places = min_max(np.array(values), np.zeros(len(values), dtype=np.int64))
    # both are 0.5 when the width is less than the least float
    assert (places.min(), places.max()) in [(0.0, 1.0), (0.5, 0.5)]
    assert (np.diff(places[np.argsort(values)]) >= 0).all()


def test_five_checkpoints_are_the_default_and_non_lists_refused():
    assert ikat.Ensemble().scorers == (
        "naver/trecdl22-crossencoder-debertav3",
        "naver/trecdl22-crossencoder-debertav2",
        "naver/trecdl22-crossencoder-electra",
        "naver/trecdl22-crossencoder-albert",
        "naver/trecdl22-crossencoder-roberta",
    )
    assert ikat.Ensemble().scorers == ENSEMBLE_MODELS
    for wrong in ([], ENSEMBLE_MODELS[0], None):
        with pytest.raises(ikat.UsageError, match="give a list of re-rankers"):
            ikat.Ensemble(wrong)


def test_scorers_are_names_paths_or_re_rankers():
    scorer = of_grid("abc", (1, 2, 3))
    mixed = ikat.Ensemble(["m", Path("folder") / "n", scorer])
    assert mixed.scorers == ("m", str(Path("folder") / "n"), scorer)
    assert mixed.subtransformers() == {"scorers": [scorer]}
    assert ikat.Ensemble(["m"]).subtransformers() == {}


def test_a_name_is_a_cross_encoder_with_its_defaults(monkeypatch):
    asked = []

    def score(self, frame):
        asked.append(self)
        return np.arange(len(frame), dtype=np.float64)

    monkeypatch.setattr(ikat.CrossEncoder, "score", score)
    assert ranking(ikat.Ensemble(["m"])(found(*ABC))) == [
        ("c", 1.0, 0),
        ("b", 0.5, 1),
        ("a", 0.0, 2),
    ]
    assert asked == [ikat.CrossEncoder("m")]
