"""BM25 over the statements of ten users: 1,982 questions, each over the 588 statements of its user, as many as LoCoMo has.

    python experiments/performance/bench.py statements

``ListStatements() >> BM25Rerank() % 100``, which indexes each user's statements once per call, against an index that is made for each
question (of 20 questions, scaled). The limit is the scores alone, from finished indexes. Times are CPU seconds.
"""

from collections.abc import Iterator

import numpy as np
import pandas as pd
from bench import Row, cpu_seconds

import pyterrier_ikat as ikat
from pyterrier_ikat.retrieve.eager import LexicalIndex

USERS, STATEMENTS, QUESTIONS, WORDS, VOCABULARY, FEW = 10, 588, 1982, 20, 5000, 20


def made() -> pd.DataFrame:
    """The questions with the statements of their users, with words about as frequent as in a text."""
    rng = np.random.default_rng(1)

    def text(words: int) -> str:
        return " ".join(f"word{word}" for word in np.minimum(rng.zipf(1.3, words), VOCABULARY))

    users = [{f"D{number // 25}:{number % 25}": text(WORDS) for number in range(STATEMENTS)} for _ in range(USERS)]
    of_question = np.sort(np.arange(QUESTIONS) % USERS)
    columns = {"qid": [f"u{user}_{number}" for number, user in enumerate(of_question)], "query": [text(8) for _ in of_question]}
    return pd.DataFrame(columns, dtype=object).assign(qptkb=[users[user] for user in of_question])


def rows() -> Iterator[Row]:
    """All questions at once."""
    asked = made()
    system = ikat.ListStatements() >> ikat.BM25Rerank() % 100
    indexes = {id(known): LexicalIndex(known.items()) for known in asked["qptkb"]}

    def anew() -> list[list[str]]:
        return [[docno for docno, _ in LexicalIndex(row.qptkb.items()).search(row.query, 10)] for row in asked.head(FEW).itertuples()]

    def scores() -> None:
        for row in asked.itertuples():
            indexes[id(row.qptkb)].scores(row.query)

    found = system(asked.head(FEW)).query("score > 0 and rank < 10")
    if [found[found["qid"] == qid]["docno"].tolist() for qid in asked["qid"].head(FEW)] != anew():
        raise SystemExit("the sides differ")
    ours, today = cpu_seconds(lambda: system(asked), repeats=3), cpu_seconds(anew, repeats=3) * QUESTIONS / FEW
    task = f"{QUESTIONS:,} questions, each over {STATEMENTS} statements"
    yield Row(task, ours, today, "an index for each question", cpu_seconds(scores, repeats=3), "the scores, from finished indexes")
