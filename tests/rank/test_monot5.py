"""monoT5 through pyterrier_t5: a tiny random T5, against the model asked directly."""

import sys

import pandas as pd
import pyterrier as pt
import pytest
from tiny_seq2seq import save_tiny_t5

import pyterrier_ikat as ikat

COLUMNS = ["qid", "query", "docno", "text", "score", "rank"]


@pytest.fixture(scope="module")
def t5(tmp_path_factory):
    return save_tiny_t5(tmp_path_factory.mktemp("monot5"))


def results(*rows):
    frame = pd.DataFrame(rows, columns=COLUMNS[:4], dtype=object)
    return frame.assign(score=0.0, rank=range(len(rows)))


FOUND = results(
    ("u", "which tea ?", "d1", "mint tea is green"),
    ("u", "which tea ?", "d2", "rooibos has no caffeine and is tea"),
    ("u", "which tea ?", "d3", "caffeine"),
    ("a", "what is green ?", "d1", "mint tea is green"),
)


def test_the_score_is_the_log_probability_of_true(t5):
    import torch
    from transformers import AutoTokenizer, T5ForConditionalGeneration

    ranked = ikat.MonoT5(t5, tokenizer=t5, batch_size=1)(FOUND)
    tokenizer, model = AutoTokenizer.from_pretrained(t5), T5ForConditionalGeneration.from_pretrained(t5).eval()
    true, false = (tokenizer(word)["input_ids"][0] for word in ("true", "false"))
    for row in ranked.itertuples():
        asked = tokenizer(f"Query: {row.query} Document: {row.text} Relevant:", return_tensors="pt")
        with torch.no_grad():
            logits = model(**asked, decoder_input_ids=torch.zeros((1, 1), dtype=torch.long)).logits[0, 0, [true, false]]
        assert row.score == pytest.approx(torch.log_softmax(logits, 0)[0].item(), abs=1e-5)
    assert ranked["score"].nunique() == 4
    assert ranked["qid"].tolist() == ["u", "u", "u", "a"]
    assert ranked["rank"].tolist() == [0, 1, 2, 0]
    assert (ranked.groupby("qid")["score"].diff().dropna() < 0).all()


def test_rows_columns_and_objects_stay_in_batches_too(t5):
    histories = [[1], [2], [3], [4]]
    found = FOUND.assign(qhistory=pd.Series(histories, dtype=object))
    before = found.copy()
    ranked = ikat.MonoT5(t5, tokenizer=t5, batch_size=3)(found)
    assert list(ranked.columns) == list(found.columns)
    assert sorted(map(tuple, ranked[["qid", "docno"]].values)) == sorted(map(tuple, found[["qid", "docno"]].values))
    first = ranked.index[(ranked["qid"] == "u") & (ranked["docno"] == "d1")][0]
    assert ranked["qhistory"][first] is histories[0]
    pd.testing.assert_frame_equal(found, before)


def test_equal_pairs_get_one_score_and_go_by_docno(t5):
    found = results(("t", "tea", "d2", "mint"), ("t", "tea", "d1", "mint"), ("v", "tea", "d9", "mint"))
    ranked = ikat.MonoT5(t5, tokenizer=t5)(found)
    assert ranked["docno"].tolist()[:2] == ["d2", "d1"]
    assert ranked.loc[ranked["docno"].isin(["d1", "d2", "d9"]), "score"].nunique() == 1


def test_a_text_longer_than_the_model_is_cut(t5):
    words = "tea mint is green " * 40
    assert ikat.MonoT5(t5, tokenizer=t5)(results(("t", "tea", "d1", words), ("t", "tea", "d2", words + "no")))["score"].nunique() == 1


def test_a_model_that_cannot_be_loaded_is_named_with_what_to_do():
    with pytest.raises(ikat.UsageError, match=r"can't load the monoT5 model 'no/such-model' .*give the folder of a downloaded model"):
        ikat.MonoT5("no/such-model")(FOUND)


def test_a_missing_library_is_named(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "pyterrier_t5", None)
    with pytest.raises(ikat.UsageError, match=r"needs pyterrier_t5: pip install 'pyterrier_ikat\[rank\]'"):
        ikat.MonoT5(tmp_path)(FOUND)


def test_empty_frames_give_the_columns_of_full_ones_without_a_model():
    assert list(ikat.MonoT5("no/such-model")(FOUND.iloc[:0]).columns) == COLUMNS


def test_operators_are_values(tmp_path):
    assert ikat.MonoT5() == ikat.MonoT5("castorini/monot5-base-msmarco", "t5-base", 32)
    assert ikat.MonoT5() != ikat.MonoT5("other")
    assert repr(ikat.MonoT5(tmp_path, batch_size=4)) == f"ikat.MonoT5(model={str(tmp_path)!r}, batch_size=4)"


TestMonoT5 = pt.testing.transformer_test_class(ikat.MonoT5)
