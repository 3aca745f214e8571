"""BM25 as one would write it down."""

import math
from collections import Counter
from functools import cache

from pyterrier_ikat.retrieve.words import stop_terms, tokenize


@cache
def terms(text, stemmer):
    return Counter(tokenize(text, stemmer))


def robertson(count, df):
    """The idf of PISA, and ours."""
    return max(1e-6, math.log((count - df + 0.5) / (df + 0.5)))


def lucene(count, df):
    return math.log(1 + (count - df + 0.5) / (df + 0.5))


def plain_bm25(texts, query, k1, b, stemmer="porter2", idf=robertson):
    """Docno -> score over ``texts``; repeated query words count, Lucene's stop words don't."""
    docs = {docno: terms(text, stemmer) for docno, text in texts.items()}
    lengths = {docno: sum(counts.values()) for docno, counts in docs.items()}
    mean = sum(lengths.values()) / len(docs)
    scores = Counter()
    for term, times in terms(query, stemmer).items():
        holders = [docno for docno, counts in docs.items() if counts[term]]
        if holders and term not in stop_terms("lucene", stemmer):
            for docno in holders:
                tf = docs[docno][term]
                norm = k1 * (1 - b + b * lengths[docno] / mean)
                scores[docno] += times * idf(len(docs), len(holders)) * (k1 + 1) * tf / (tf + norm)
    return scores
