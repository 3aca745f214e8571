"""A re-ranker without a model, for tests."""

import numpy as np

from pyterrier_ikat.rank import reranker


class Letters(reranker.Reranker):
    """A score of query and text that differs for most pairs."""

    scores_alone = True

    def score(self, frame):
        pairs = zip(frame["query"], frame["text"], strict=True)
        return np.array([len(set(query.split()) & set(text.split())) + (len(query) * len(text)) % 101 / 64 for query, text in pairs])
