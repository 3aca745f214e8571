"""BM25 on the 700 real passages against plain Python: PISA's formula exactly, Lucene's in the passages that it ranks first."""

import math
import warnings
from collections import Counter
from functools import cache

import pandas as pd
import pyterrier as pt
import pytest

import pyterrier_ikat as ikat
from pyterrier_ikat.retrieve import NoResultWarning
from pyterrier_ikat.retrieve.words import stop_terms, tokenize

K1, B = 0.9, 0.4


@cache
def terms(text):
    return Counter(term for term in tokenize(text, "porter2"))


class PlainBM25:
    def __init__(self, texts):
        self.docs = {docno: terms(text) for docno, text in texts.items()}
        self.df = Counter(term for counts in self.docs.values() for term in counts)
        self.lengths = {docno: sum(counts.values()) for docno, counts in self.docs.items()}
        self.mean = sum(self.lengths.values()) / len(self.docs)

    def pisa_idf(self, df):
        return max(1e-6, math.log((len(self.docs) - df + 0.5) / (df + 0.5))) * (K1 + 1)

    def lucene_idf(self, df):
        return math.log(1 + (len(self.docs) - df + 0.5) / (df + 0.5))

    def __call__(self, query, idf, repeated=True):
        scores = Counter()
        for term, times in terms(query).items():
            if term in self.df and term not in stop_terms("lucene", "porter2"):
                weight = idf(self.df[term]) * (times if repeated else 1)
                for docno, counts in self.docs.items():
                    if counts[term]:
                        norm = K1 * (1 - B + B * self.lengths[docno] / self.mean)
                        scores[docno] += weight * counts[term] / (counts[term] + norm)
        return scores


@pytest.fixture(scope="module", autouse=True)
def data(shared):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("IKAT_DATA", str(shared / "ikat"))
        yield pt.get_dataset("ikat:2023-mini")


@pytest.fixture(scope="module")
def corpus(data):
    return [dict(item) for item in data.get_corpus_iter(verbose=False)]


@pytest.fixture(scope="module")
def bm25(tmp_path_factory, corpus):
    return ikat.PassageIndex(tmp_path_factory.mktemp("fidelity") / "i").index(corpus).bm25(k1=K1, b=B, num_results=700)


@pytest.fixture(scope="module")
def by_hand(corpus):
    return PlainBM25({item["docno"]: item["text"] for item in corpus})


@pytest.fixture(scope="module")
def queries(data):
    """Every 14th manual rewrite, and every 14th gold answer: long, with repeated words."""
    rewrites = data.get_topics("manual")["qresolved"].tolist()[::14]
    answers = data.get_answers()["gold_answer"].tolist()[::14]
    return [*rewrites, *answers]


@pytest.fixture(scope="module")
def found(bm25, queries):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoResultWarning)
        frame = bm25(pd.DataFrame({"qid": list(map(str, range(len(queries)))), "query": queries}, dtype=object))
    return {int(qid): dict(zip(rows["docno"], rows["score"], strict=True)) for qid, rows in frame.groupby("qid", sort=False)}


def test_every_score_is_that_of_the_formula_repeated_words_included(by_hand, queries, found):
    repeated = 0
    for number, query in enumerate(queries):
        expected = by_hand(query, by_hand.pisa_idf)
        assert found.get(number, {}) == pytest.approx(dict(expected), rel=1e-4, abs=1e-4)
        repeated += expected != by_hand(query, by_hand.pisa_idf, repeated=False)
    assert len(queries) >= 40
    assert repeated >= 20  # the formula without repetitions gives other scores


def test_lucenes_formula_ranks_nearly_the_same_passages_first(by_hand, queries, found):
    """Lucene's idf is ln(1 + ...): it differs for words that many of the passages have, rarer in a collection than in these 700."""

    def top(scores):
        return set(sorted(scores, key=lambda docno: (-scores[docno], docno))[:10])

    def overlap(**options):
        pairs = [(top(by_hand(query, by_hand.lucene_idf, **options)), top(found.get(n, {}))) for n, query in enumerate(queries)]
        return sum(len(theirs & ours) for theirs, ours in pairs) / (10 * len(pairs))

    assert overlap() == pytest.approx(0.94, abs=0.005)
    assert overlap(repeated=False) < 0.9  # whoever ignores repeated words is further off
