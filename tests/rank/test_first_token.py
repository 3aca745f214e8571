"""The cut last layer gives the scores of the whole network, and is only there where it does."""

import pytest
import torch
from tiny_cross_encoders import CONFIGS, SIZE, WORDS, save_tokenizer
from transformers import AutoModelForSequenceClassification, BertConfig, XLMRobertaConfig

from pyterrier_ikat.rank.backends import load_cross_encoder
from pyterrier_ikat.rank.first_token import for_first_token

KINDS = CONFIGS | {
    "bert": lambda: BertConfig(**SIZE, max_position_embeddings=512),
    "xlm-roberta": lambda: XLMRobertaConfig(**SIZE, max_position_embeddings=514, type_vocab_size=1),
}
LINES = [" ".join(WORDS[5 : 6 + number % 12]) for number in range(40)]


@pytest.fixture
def loaded(tmp_path):
    def kind(name):
        torch.manual_seed(7)
        AutoModelForSequenceClassification.from_config(KINDS[name]()).save_pretrained(tmp_path / name)
        save_tokenizer(tmp_path / name)
        return load_cross_encoder(str(tmp_path / name), 64)

    return kind


def batch(model):
    return model.tokenizer(LINES, LINES[::-1], padding=True, return_tensors="pt")


@torch.inference_mode()
@pytest.mark.parametrize("name", ["bert", "electra", "roberta", "xlm-roberta"])
def test_scores_are_those_of_the_whole_network_and_the_last_layer_works_out_one_token(loaded, name):
    model = loaded(name)
    cut, seen = for_first_token(model), []
    before = model.model(**batch(model)).logits
    for layer in model.model.base_model.encoder.layer:  # the cut network has these very modules below its last layer, too
        layer.output.dense.register_forward_hook(lambda _, given, out: seen.append(tuple(out.shape[:2])))
    found = cut(**batch(model)).logits
    assert (found - before).abs().max() < 1e-5
    assert len(set(before.flatten().tolist())) > 10
    length = batch(model)["input_ids"].shape[1]
    assert seen[-1] == (40, 1)
    model.model(**batch(model))
    assert seen[-1] == (40, length)


@torch.inference_mode()
def test_the_weights_are_shared_and_the_network_stays_as_it_was(loaded):
    model = loaded("bert")
    cut = for_first_token(model)
    assert cut is not model.model
    assert {id(weights) for weights in cut.parameters()} == {id(weights) for weights in model.model.parameters()}
    assert type(model.model.base_model.encoder.layer[-1]).__name__ == "BertLayer"


@pytest.mark.parametrize("name", ["debertav3", "debertav2", "albert"])
def test_networks_of_other_layers_stay_whole(loaded, name):
    model = loaded(name)
    assert for_first_token(model) is model.model


def test_a_head_that_reads_every_token_keeps_the_whole_layer(loaded):
    model = loaded("bert")

    class Mean(torch.nn.Module):
        def forward(self, hidden):
            return hidden.mean(dim=1)

    model.model.bert.pooler = Mean()
    assert for_first_token(model) is model.model


def test_a_network_whose_tokens_see_only_earlier_ones_keeps_its_scores(loaded, monkeypatch):
    monkeypatch.setitem(KINDS, "bert", lambda: BertConfig(**SIZE, max_position_embeddings=512, is_decoder=True))
    model = loaded("bert")
    with torch.inference_mode():
        for lines in (LINES, LINES[:1]):
            pairs = model.tokenizer(lines, lines, padding=True, return_tensors="pt")
            assert torch.allclose(for_first_token(model)(**pairs).logits, model.model(**pairs).logits, atol=1e-5)


def test_layers_that_are_called_in_another_way_stay_whole(loaded):
    model = loaded("bert")
    layer = model.model.base_model.encoder.layer[-1]
    model.model.base_model.encoder.forward = lambda hidden, **_: layer(hidden, cannot=1)[:, :, :, 0]
    assert for_first_token(model) is model.model
