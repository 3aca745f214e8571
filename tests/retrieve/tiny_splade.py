"""A tiny randomly initialised SPLADE model, saved as the published ones are."""

import torch
from sentence_transformers import SparseEncoder
from sentence_transformers.sparse_encoder.modules import MLMTransformer, SpladePooling
from transformers import BertConfig, BertForMaskedLM, BertTokenizerFast

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
DRINKS = [
    "tea",
    "rooibos",
    "coffee",
    "caffeine",
    "drink",
    "drinks",
    "green",
    "black",
    "red",
    "camellia",
    "plant",
]
OTHERS = ["no", "has", "train", "late", "runs", "the", "of", "a", "##s", "##ing"]
VOCABULARY = [*SPECIAL, *DRINKS, *OTHERS]
SPARSE = -2.0  # so that most terms of a text get no weight


def save_masked_language_model(folder, bias=SPARSE, seed=0, extra_dimensions=0):
    """A bare BertForMaskedLM with its tokenizer; ``bias`` is added to every logit."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n", encoding="utf-8")
    BertTokenizerFast(vocab=str(folder / "vocab.txt"), do_lower_case=True).save_pretrained(folder)
    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=len(VOCABULARY) + extra_dimensions,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=64,
        initializer_range=0.7,
    )
    model = BertForMaskedLM(config)
    with torch.no_grad():
        model.cls.predictions.bias.fill_(bias)
    model.save_pretrained(folder)
    return str(folder)


def save_splade(folder, **arguments):
    """The same model as a sparse encoder of sentence-transformers with its modules named."""
    bare = save_masked_language_model(folder.parent / f"{folder.name}-bare", **arguments)
    SparseEncoder(
        modules=[MLMTransformer(bare, _from_auto_load=True), SpladePooling("max")], device="cpu"
    ).save_pretrained(str(folder), create_model_card=False)
    return str(folder)
