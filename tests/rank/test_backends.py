"""The backends against sentence-transformers' own scores, for each kind of cross-encoder."""

import importlib.util
import json
import logging
import os
import sys
from collections import OrderedDict
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from sentence_transformers import CrossEncoder
from tiny_cross_encoders import CONFIGS, KINDS, WORDS, save_cross_encoder, save_ettin, save_network
from transformers import AutoModelForSequenceClassification

import pyterrier_ikat as ikat
from pyterrier_ikat.rank import cross_encoder_backends, load_cross_encoder
from pyterrier_ikat.rank.cross_encoder_backends import score_pairs

RANDOM = np.random.default_rng(3)
PAIRS = [tuple(" ".join(RANDOM.choice(WORDS[5:], size=size)) for size in (3, 2 + number % 17)) for number in range(100)]


NEAR = 0.95
"""Correlation with single precision: the tiny models' large random weights make much of little differences."""


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    base = tmp_path_factory.mktemp("models")
    return {name: save(base / name) for name, save in KINDS.items()}


def reference(folder, pairs, max_length=16):
    """What sentence-transformers gives, before its sigmoid."""
    model = CrossEncoder(folder, max_length=max_length, model_kwargs={"dtype": torch.float32})
    return model.predict(list(pairs), activation_fn=torch.nn.Identity(), show_progress_bar=False)


HARD = [("", ""), ("tea", ""), ("", "tea"), ("tea " * 30, "coffee " * 40), ("rooibos", "no \u00e9 unknown"), ("tea", "[SEP] yes [PAD] tea")]


@pytest.mark.parametrize("name", list(KINDS))
def test_single_precision_is_what_sentence_transformers_gives(folders, name):
    pairs = [*PAIRS, *HARD]
    scores, expected = score_pairs(folders[name], 16, "fp32", 64, pairs), reference(folders[name], pairs)
    assert np.abs(scores - expected).max() < 1e-5 * max(1, np.ptp(expected))
    assert len(set(expected.round(4))) > 50
    for alone in HARD:
        assert score_pairs(folders[name], 16, "fp32", None, [alone])[0] == pytest.approx(reference(folders[name], [alone])[0], abs=1e-4)


@pytest.mark.parametrize("name", list(KINDS))
def test_bfloat16_is_near_and_leaves_single_precision_alone(folders, name):
    before = score_pairs(folders[name], 16, "fp32", 64, PAIRS)
    scores = score_pairs(folders[name], 16, "bf16", 64, PAIRS)
    assert (scores != before).any()
    assert np.corrcoef(scores, before)[0, 1] > NEAR
    assert len(set(scores.round(4))) > 50  # a score in bfloat16 has three digits
    assert (score_pairs(folders[name], 16, "fp32", 64, PAIRS) == before).all()


def test_scores_that_depend_on_the_batch_are_those_of_sentence_transformers_own_batches(tmp_path):
    folder = save_cross_encoder(tmp_path / "m", "electra")
    config = tmp_path / "m" / "tokenizer_config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"model_input_names": ["input_ids"]}))  # no mask: padding is read, too
    assert not load_cross_encoder.goes_in_batches(folder, 16)
    assert np.abs(score_pairs(folder, 16, "fp32", 64, PAIRS) - reference(folder, PAIRS)).max() < 1e-4
    with pytest.raises(ikat.UsageError, match="backend='bf16' can't run .* whose scores depend on the batch: take backend='fp32'"):
        score_pairs(folder, 16, "bf16", 64, PAIRS)


def test_a_model_whose_own_batches_score_otherwise_is_noticed(folders, monkeypatch):
    monkeypatch.setattr(
        load_cross_encoder, "score_batch", lambda loaded, batch: loaded(dict(batch))["scores"][:, 0] + batch["input_ids"].shape[1]
    )
    assert not load_cross_encoder.goes_in_batches(folders["bert"], 17)


@pytest.mark.parametrize(("activation", "kept"), [("Sigmoid", False), ("Identity", True), ("Tanh", True), ("ReLU", True)])
def test_the_activation_of_the_files_is_kept_unless_it_is_a_sigmoid(tmp_path, activation, kept):
    folder = save_ettin(tmp_path / "m", activation_fn=getattr(torch.nn, activation)())
    model = CrossEncoder(folder, max_length=16)
    expected = model.predict(PAIRS, activation_fn=None if kept else torch.nn.Identity())
    assert score_pairs(folder, 16, "fp32", 64, PAIRS) == pytest.approx(expected, abs=1e-4)


def test_weights_of_half_precision_are_worked_with_in_single_precision(tmp_path):
    torch.manual_seed(2)
    network = AutoModelForSequenceClassification.from_config(CONFIGS["bert"]())
    folder = save_network(tmp_path / "m", network)
    config = tmp_path / "m" / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"dtype": "float16", "torch_dtype": "float16"}))
    expected = reference(folder, PAIRS)
    assert np.abs(score_pairs(folder, 16, "fp32", 64, PAIRS) - expected).max() < 1e-5 * np.ptp(expected)


@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_a_pair_is_cut_to_the_positions_that_a_network_has(tmp_path, kind):
    torch.manual_seed(2)
    config = CONFIGS[kind]()
    config.max_position_embeddings = 32 + (kind == "roberta")  # RoBERTa counts from the one after its padding, which is 0 here
    folder = save_network(tmp_path / "m", AutoModelForSequenceClassification.from_config(config))
    long = [("tea " * 30, "coffee " * 40), ("tea", "green " * 500)]
    assert score_pairs(folder, 512, "fp32", None, long) == pytest.approx(reference(folder, long, 32), abs=1e-4)


@pytest.fixture
def four_threads(monkeypatch):
    """OpenVINO takes seconds to convert a model, and keeps it for so many threads: both tests use one."""
    if importlib.util.find_spec("openvino") is None:
        pytest.skip("openvino is not installed")
    monkeypatch.setattr(torch, "get_num_threads", lambda: 4)


def test_openvino_is_near_at_every_length(folders, four_threads):
    exact = score_pairs(folders["electra"], 16, "fp32", 64, PAIRS)
    assert np.corrcoef(score_pairs(folders["electra"], 16, "openvino", 64, PAIRS), exact)[0, 1] > NEAR


def test_openvino_reports_nothing_to_its_makers(folders, four_threads, monkeypatch):
    sender = pytest.importorskip("openvino_telemetry.utils.sender")
    monkeypatch.setattr(sender.TelemetrySender, "send", lambda self, *message: pytest.fail(f"reported {message}"))
    monkeypatch.delenv("CI", raising=False)
    score_pairs(folders["bert"], 16, "openvino", 64, PAIRS[:2])
    assert "CI" not in os.environ


def test_batches_that_openvino_works_on_side_by_side_keep_their_order(folders, four_threads):
    together = score_pairs(folders["electra"], 16, "openvino", 4096, PAIRS)
    alone = np.concatenate([score_pairs(folders["electra"], 16, "openvino", 16, [pair]) for pair in PAIRS])
    many = score_pairs(folders["electra"], 16, "openvino", 16, PAIRS)
    spread = np.ptp(alone)
    assert np.abs(many - alone).max() < 0.1 * spread
    assert np.corrcoef(many, together)[0, 1] > NEAR


@pytest.mark.parametrize("kind", ["ettin-mean", "modernbert"])
def test_openvino_scores_short_pairs_beside_a_long_one_where_layers_see_a_window(folders, four_threads, kind):
    pairs = [*PAIRS[:12], ("tea", "green " * 60), ("tea", "green " * 30)]
    exact, found = (score_pairs(folders[kind], 128, backend, 100_000, pairs) for backend in ("fp32", "openvino"))
    assert np.isfinite(found).all()
    assert np.corrcoef(found, exact)[0, 1] > NEAR


@pytest.mark.parametrize(
    ("backend", "pairs", "most"), [("openvino", 3, 512), ("openvino", 10, 750), ("openvino", 90, 2048), ("bf16", 3, 2048)]
)
def test_few_pairs_are_cut_into_a_batch_for_each_core(monkeypatch, backend, pairs, most):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 4)
    on_cpu, features = SimpleNamespace(device=torch.device("cpu")), {"attention_mask": torch.ones(pairs, 300)}
    assert cross_encoder_backends._suitable_tokens(on_cpu, features, backend) == most
    assert cross_encoder_backends._suitable_tokens(SimpleNamespace(device=torch.device("cuda")), features, backend) == 65_536


def test_without_openvino_the_install_line_is_named(folders, monkeypatch):
    monkeypatch.setitem(sys.modules, "openvino", None)
    with pytest.raises(ikat.UsageError, match=r"needs openvino: pip install 'pyterrier_ikat\[openvino\]'"):
        score_pairs(folders["albert"], 16, "openvino", 64, PAIRS)


def test_a_language_model_is_nothing_for_openvino_and_says_so(folders):
    with pytest.raises(ikat.UsageError, match="openvino.* scores by the words of a language model: take 'fp32' or 'bf16'"):
        score_pairs(folders["qwen"], 16, "openvino", 64, PAIRS)


def test_a_network_without_a_layer_for_the_score_is_refused():
    with pytest.raises(ikat.UsageError, match="Linear has no layer of its own for the score: take backend='fp32'"):
        cross_encoder_backends._head(torch.nn.Sequential(OrderedDict(model=torch.nn.Linear(3, 2))))


def test_a_backend_that_is_none_is_refused():
    with pytest.raises(ikat.UsageError, match="backend='int8' is unknown: choose one of fp32, bf16, openvino, auto"):
        ikat.CrossEncoder("m", backend="int8")


def frame(pairs):
    queries, texts = zip(*pairs, strict=True)
    return pd.DataFrame({"qid": "t", "query": queries, "docno": [f"d{n:03}" for n in range(len(pairs))], "text": texts})


def test_scores_of_another_backend_are_not_taken(monkeypatch):
    calls = []

    def scored(model, max_length, backend, batch_tokens, pairs):
        calls.append((backend, len(pairs)))
        return np.array([float(len(text)) for _, text in pairs])

    monkeypatch.setattr("pyterrier_ikat.rank.cross_encoders.score_pairs", scored)
    ikat.CrossEncoder("m")(frame(PAIRS[:1]))
    ikat.CrossEncoder("m", backend="bf16")(frame(PAIRS[:1]))
    assert calls == [("fp32", 1), ("bf16", 1)]


@pytest.fixture
def machine(monkeypatch):
    """A function that says what this machine has from then on; OpenVINO itself is not loaded."""

    def has(openvino, bf16=True, gpu=False):
        capabilities = SimpleNamespace(get_property=lambda *_: ["FP32", *["BF16"] * bf16])
        module = SimpleNamespace(Core=lambda: capabilities, __spec__=SimpleNamespace(name="openvino")) if openvino else None
        monkeypatch.setitem(sys.modules, "openvino", module)
        monkeypatch.setattr(cross_encoder_backends, "find_spec", lambda name: openvino or name != "openvino" or None)
        accelerator = getattr(torch, "accelerator", torch.cuda)
        monkeypatch.setattr(accelerator, "is_available", lambda: gpu)

    return has


@pytest.mark.parametrize("lacks", [{"openvino": False}, {"openvino": True, "bf16": False}, {"openvino": True, "gpu": True}])
def test_auto_is_single_precision_without_openvino_and_the_repr_says_which_of_both(machine, lacks):
    machine(openvino=True)
    with_openvino = ikat.CrossEncoder("m", backend="auto")
    machine(**lacks)
    assert ikat.CrossEncoder("m", backend="auto") == ikat.CrossEncoder("m") != with_openvino
    assert repr(with_openvino) == "ikat.CrossEncoder('m', backend='auto')"
    with pytest.raises(ikat.UsageError, match="'auto' stands for OpenVINO .* doesn't run so here: install openvino .* or name one of fp32"):
        with_openvino(frame(PAIRS[:1]))


def test_auto_is_openvino_and_single_precision_for_a_model_that_it_cannot_run(folders, four_threads, monkeypatch, caplog):
    monkeypatch.setattr(cross_encoder_backends, "openvino_runs", lambda: True)
    monkeypatch.setattr("pyterrier_ikat.rank.cross_encoders.openvino_runs", lambda: True)
    with caplog.at_level(logging.INFO, "pyterrier_ikat.rank.cross_encoder_backends"):
        chosen = {name: ikat.CrossEncoder(folders[name], 16, backend="auto") for name in ("electra", "qwen")}
        assert {name: operator.chosen for name, operator in chosen.items()} == {"electra": "openvino", "qwen": "fp32"}
    assert ["runs with fp32: backend='openvino' can't run" in record.message for record in caplog.records] == [True]
    ranked = chosen["electra"](frame(PAIRS[:9])).sort_values("docno")["score"].to_numpy()
    assert ranked == pytest.approx(score_pairs(folders["electra"], 16, "openvino", None, PAIRS[:9]))
