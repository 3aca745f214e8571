"""The backends against sentence-transformers' own scores, for each architecture of the ensemble."""

import importlib.util
import logging
import sys
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from tiny_cross_encoders import CONFIGS, WORDS, save_cross_encoder

import pyterrier_ikat as ikat
from pyterrier_ikat.rank import backends, trial
from pyterrier_ikat.rank.backends import load_cross_encoder, score_pairs

RANDOM = np.random.default_rng(3)
PAIRS = [tuple(" ".join(RANDOM.choice(WORDS[5:], size=size)) for size in (3, 2 + number % 17)) for number in range(100)]


NEAR = 0.95
"""Correlation with single precision: the tiny models' large random weights make much of little differences."""


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    base = tmp_path_factory.mktemp("models")
    return {name: save_cross_encoder(base / name, name) for name in CONFIGS}


def reference(folder):
    return load_cross_encoder(folder, 16).predict([list(pair) for pair in PAIRS], show_progress_bar=False)


@pytest.mark.parametrize("name", list(CONFIGS))
def test_single_precision_is_what_sentence_transformers_gives(folders, name):
    scores = score_pairs(folders[name], 16, "fp32", 64, PAIRS)
    assert np.abs(scores - reference(folders[name])).max() < 1e-4 * np.ptp(scores)
    assert len(set(scores.round(4))) > 50


@pytest.mark.parametrize("name", list(CONFIGS))
def test_bfloat16_is_near_and_leaves_single_precision_alone(folders, name):
    before = score_pairs(folders[name], 16, "fp32", 64, PAIRS)
    scores = score_pairs(folders[name], 16, "bf16", 64, PAIRS)
    assert (scores != before).any()
    assert np.corrcoef(scores, before)[0, 1] > NEAR
    assert (score_pairs(folders[name], 16, "fp32", 64, PAIRS) == before).all()


@pytest.mark.skipif(importlib.util.find_spec("openvino") is None, reason="openvino is not installed")
def test_openvino_is_near_at_every_length(folders):
    exact = score_pairs(folders["electra"], 16, "fp32", 64, PAIRS)
    assert np.corrcoef(score_pairs(folders["electra"], 16, "openvino", 64, PAIRS), exact)[0, 1] > NEAR


def test_without_openvino_the_install_line_is_named(folders, monkeypatch):
    monkeypatch.setitem(sys.modules, "openvino", None)
    with pytest.raises(ikat.UsageError, match=r"needs openvino: pip install 'pyterrier_ikat\[openvino\]'"):
        score_pairs(folders["albert"], 16, "openvino", 64, PAIRS)
    assert "openvino" not in backends.usable(folders["albert"], 16)


def test_a_network_without_a_layer_for_the_score_is_refused(monkeypatch):
    monkeypatch.setattr(backends, "load_cross_encoder", lambda model, max_length: SimpleNamespace(model=torch.nn.Linear(3, 2)))
    with pytest.raises(ikat.UsageError, match="Linear has no layer of its own for the score: take backend='fp32'"):
        backends.load_logits("headless", 16, "bf16")


@pytest.mark.parametrize("fast", [True, False])
def test_a_gpu_is_asked_whether_bfloat16_is_fast_and_openvino_is_for_processors(monkeypatch, fast):
    on_gpu = SimpleNamespace(device=torch.device("cuda"))
    monkeypatch.setattr(backends, "load_cross_encoder", lambda model, max_length: on_gpu)
    monkeypatch.setattr(backends, "_bf16_on_cpu", lambda: not fast)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: fast)
    assert backends.usable("m", 16) == ["fp32", "bf16"][: 1 + fast]


def test_a_backend_that_is_none_is_refused():
    with pytest.raises(ikat.UsageError, match="backend='int8': give 'fp32', 'bf16', 'openvino' or 'auto'"):
        ikat.CrossEncoder("m", backend="int8")


# backend="auto"


def frame(pairs):
    queries, texts = zip(*pairs, strict=True)
    return pd.DataFrame({"qid": "t", "query": queries, "docno": [f"d{n:03}" for n in range(len(pairs))], "text": texts})


@pytest.fixture
def machine(monkeypatch):
    """A machine with these backends; gives the (backend, number of pairs) of each call."""
    calls = []

    def scored(model, max_length, backend, batch_tokens, pairs):
        calls.append((backend, len(pairs)))
        return np.array([float(len(text)) for _, text in pairs])

    monkeypatch.setattr("pyterrier_ikat.rank.cross_encoder.usable", lambda model, max_length: ["fp32", "bf16"])
    monkeypatch.setattr("pyterrier_ikat.rank.cross_encoder.score_pairs", scored)
    return calls


def test_auto_tries_once_per_model_and_says_what_it_chose(machine, monkeypatch):
    monkeypatch.setattr(trial, "fastest", lambda tried, pairs, model: [score(pairs) for score in tried.values()] and "bf16")
    operator = ikat.CrossEncoder("m", backend="auto")
    assert operator.chosen is None
    operator(frame(PAIRS))
    assert operator.chosen == ikat.CrossEncoder("m", backend="auto", batch_tokens=9).chosen == "bf16"
    distinct = len(set(PAIRS))
    assert machine == [("fp32", 96), ("bf16", 96), ("bf16", distinct)]
    ikat.CrossEncoder("m", backend="auto")(frame([("new", "pair")]))
    assert machine[3:] == [("bf16", 1)]
    assert ikat.CrossEncoder("m", 256, backend="auto").chosen is None


def test_few_pairs_decide_nothing_and_are_scored_in_single_precision(machine):
    operator = ikat.CrossEncoder("m", backend="auto")
    operator(frame(PAIRS[:50]))
    assert operator.chosen is None
    ikat.CrossEncoder("m")(frame(PAIRS[:50]))
    assert [backend for backend, _ in machine] == ["fp32"]


def test_scores_of_another_backend_are_not_taken(machine):
    ikat.CrossEncoder("m")(frame(PAIRS[:1]))
    ikat.CrossEncoder("m", backend="bf16")(frame(PAIRS[:1]))
    assert machine == [("fp32", 1), ("bf16", 1)]


def test_auto_on_this_machine(folders, caplog):
    operator = ikat.CrossEncoder(folders["electra"], max_length=16, backend="auto")
    with caplog.at_level(logging.INFO, "pyterrier_ikat.rank.trial"):
        ranked = operator(frame(PAIRS * 2))
    assert operator.chosen in backends.usable(folders["electra"], 16)
    assert [record.message.split(":")[0] for record in caplog.records] == [f"{folders['electra']} runs with {operator.chosen}"]
    assert len(ranked) == 200
