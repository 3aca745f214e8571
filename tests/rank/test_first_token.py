"""The cut last layer gives the scores of the whole network, and is only there where it does."""

import numpy as np
import pytest
import torch
from sentence_transformers import CrossEncoder
from tiny_cross_encoders import KINDS, SIZE, WORDS, save_network
from transformers import AutoModelForSequenceClassification, BertConfig

from pyterrier_ikat.rank.load_cross_encoder import cut_to_first_token, load_cross_encoder

PAIRS = [(" ".join(WORDS[5 : 6 + number % 12]), " ".join(WORDS[9 : 10 + number % 7])) for number in range(40)]


@pytest.fixture
def loaded(tmp_path):
    def kind(name):
        return load_cross_encoder(KINDS[name](tmp_path / name), 64)

    return kind


def last(model):
    return model.model.base_model.encoder.layer[-1]


def scores(model, batch_size=32):
    return model.predict(PAIRS, activation_fn=torch.nn.Identity(), batch_size=batch_size)


@pytest.mark.parametrize("name", ["bert", "electra", "roberta", "xlm-roberta", "bert-modules"])
def test_scores_are_those_of_the_whole_network_and_the_last_layer_works_out_one_token(loaded, tmp_path, name):
    cut, seen = loaded(name), []
    assert type(last(cut)).__name__ == "FirstToken"
    for layer in (*cut.model.base_model.encoder.layer[:-1], last(cut).layer):
        layer.output.dense.register_forward_hook(lambda _, given, out: seen.append(out.shape[1]))
    whole = CrossEncoder(str(tmp_path / name), max_length=64)
    for batch_size in (1, 32):
        assert scores(cut, batch_size) == pytest.approx(scores(whole, batch_size), abs=1e-4)
        assert seen[-1] == 1 < seen[-2]


@pytest.mark.parametrize("name", ["debertav3", "debertav2", "albert", "modernbert"])
def test_networks_of_other_layers_stay_whole(loaded, name):
    model = loaded(name).model
    before = {id(part) for part in model.modules()}
    cut_to_first_token(model, lambda: 1 / 0)
    assert {id(part) for part in model.modules()} == before


def test_a_head_that_reads_every_token_keeps_the_whole_layer(loaded):
    model = loaded("bert")
    model.model.base_model.encoder.layer[-1] = whole = last(model).layer

    class Mean(torch.nn.Module):
        def forward(self, hidden):
            return hidden.mean(dim=1)

    model.model.bert.pooler = Mean()
    cut_to_first_token(model.model, lambda: torch.tensor(scores(model)))
    assert last(model) is whole


def test_a_network_whose_tokens_see_only_earlier_ones_keeps_its_scores(tmp_path):
    torch.manual_seed(7)
    config = BertConfig(**SIZE, max_position_embeddings=512, is_decoder=True)
    folder = save_network(tmp_path, AutoModelForSequenceClassification.from_config(config))
    cut, whole = load_cross_encoder(folder, 64), CrossEncoder(folder, max_length=64)
    for batch_size in (1, 32):
        assert scores(cut, batch_size) == pytest.approx(scores(whole, batch_size), abs=1e-4)


def test_layers_that_are_called_in_another_way_stay_whole(loaded):
    model = loaded("bert")
    model.model.base_model.encoder.layer[-1] = layer = last(model).layer

    def scores():
        return layer(torch.ones(1, 3, 16)) if last(model) is layer else last(model)(torch.ones(1, 3, 16), cannot=1)[:, :, :, 0]

    cut_to_first_token(model.model, scores)
    assert last(model) is layer


def test_the_weights_of_the_cut_layer_are_those_of_the_file(loaded, tmp_path):
    cut, whole = loaded("bert"), CrossEncoder(KINDS["bert"](tmp_path / "bert"))
    for ours, theirs in zip(last(cut).parameters(), last(whole).parameters(), strict=True):
        np.testing.assert_array_equal(ours.detach(), theirs.detach())
