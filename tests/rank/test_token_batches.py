import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny_cross_encoders import save_tokenizer

from pyterrier_ikat.rank.token_batches import batches, scores_of


@given(st.lists(st.integers(1, 40), max_size=30), st.integers(1, 100))
def test_batches_hold_no_more_tokens_than_allowed_and_as_many_pairs_as_fit(lengths, most):
    lengths = sorted(lengths, reverse=True)
    cut = [part.tolist() for part in batches(np.arange(len(lengths)), lengths, most)]
    assert [place for part in cut for place in part] == list(range(len(lengths)))
    for part in cut:
        longest = lengths[part[0]]
        assert len(part) * longest <= most or len(part) == 1
        assert part[-1] == len(lengths) - 1 or (len(part) + 1) * longest > most


@pytest.fixture
def tokenizer(tmp_path):
    from transformers import AutoTokenizer

    save_tokenizer(tmp_path)
    return AutoTokenizer.from_pretrained(tmp_path)


def test_the_longest_go_first_padded_together_and_scores_come_in_the_given_order(tokenizer, capfd):
    given = []

    def logits(batch):
        given.append(batch["input_ids"].tolist())
        return batch["attention_mask"].sum(1).float()

    pairs = [("tea", "tea"), ("tea", "green tea has caffeine no"), ("tea", "coffee tea"), ("tea", "tea tea tea")]
    # [CLS] query [SEP] text [SEP]: 5, 9, 6 and 7 tokens; the longest has 8 of at most 8
    assert scores_of(pairs, tokenizer, 8, 14, logits).tolist() == [5, 8, 6, 7]
    assert [[len(row) for row in batch] for batch in given] == [[8], [7, 7], [5]]
    assert given[1][1][-1] == tokenizer.pad_token_id
    assert capfd.readouterr() == ("", "")
