from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny_cross_encoders import save_tokenizer

from pyterrier_ikat.rank.load_cross_encoder import batches, can_be_cut, scores_of


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


@pytest.mark.parametrize("side", ["right", "left"])
def test_the_longest_go_first_padded_together_and_scores_come_in_the_given_order(tokenizer, side):
    given = []

    def score(batch):
        given.append(batch["input_ids"].tolist())
        assert batch["modality"] == "text"
        return batch["attention_mask"].sum(1).float()

    pairs = [("tea", "tea"), ("tea", "green tea has caffeine no"), ("tea", "coffee tea"), ("tea", "tea tea tea")]
    # [CLS] query [SEP] text [SEP]: 5, 9, 6 and 7 tokens; the longest has 8 of at most 8
    features = tokenizer(pairs, padding=True, truncation=True, max_length=8, padding_side=side, return_tensors="pt")
    assert scores_of({**features, "modality": "text"}, 14, partial(map, score)).tolist() == [5, 8, 6, 7]
    assert [[len(row) for row in batch] for batch in given] == [[8], [7, 7], [5]]
    assert given[1][1][-1 if side == "right" else 0] == tokenizer.pad_token_id


def test_what_has_no_mask_or_another_shape_keeps_its_batches():
    mask = torch.ones(2, 3)
    assert can_be_cut({"attention_mask": mask, "input_ids": mask, "modality": "text"})
    assert not can_be_cut({"input_ids": mask})
    assert not can_be_cut({"attention_mask": mask, "pixel_values": torch.ones(2, 3, 4)})
