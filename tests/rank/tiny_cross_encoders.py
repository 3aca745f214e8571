"""Tiny randomly initialised cross-encoders, one of each kind that we treat in its own way.

With a tokenizer of a few words.
"""

import functools
import tempfile

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import (
    AlbertConfig,
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    BertConfig,
    DebertaV2Config,
    ElectraConfig,
    ModernBertConfig,
    PreTrainedTokenizerFast,
    Qwen3Config,
    RobertaConfig,
)

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = [
    *SPECIAL,
    "tea",
    "rooibos",
    "coffee",
    "caffeine",
    "no",
    "has",
    "green",
    "black",
    "train",
    "late",
    "runs",
    "the",
    "yes",
    ":",
]
SIZE = {
    "vocab_size": len(WORDS),
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "num_labels": 1,
    "initializer_range": 0.8,
    "pad_token_id": 0,
    "max_position_embeddings": 514,
}
DEBERTA = {
    "relative_attention": True,
    "pos_att_type": ["p2c", "c2p"],
    "position_biased_input": False,
    "max_relative_positions": -1,
    "position_buckets": 32,
    "norm_rel_ebd": "layer_norm",
    "share_att_key": True,
    "type_vocab_size": 0,
}
MODERN = {
    "global_attn_every_n_layers": 2,
    "local_attention": 8,
    "bos_token_id": 2,
    "cls_token_id": 2,
    "eos_token_id": 3,
    "sep_token_id": 3,
}
CONFIGS = {
    "debertav3": lambda: DebertaV2Config(**SIZE, **DEBERTA),
    "debertav2": lambda: DebertaV2Config(**SIZE, **DEBERTA, conv_kernel_size=3, conv_act="gelu"),
    "electra": lambda: ElectraConfig(**SIZE, embedding_size=8),
    "albert": lambda: AlbertConfig(**SIZE, embedding_size=8),
    "roberta": lambda: RobertaConfig(**SIZE, type_vocab_size=1),
    "bert": lambda: BertConfig(**SIZE),
    "modernbert": lambda: ModernBertConfig(**SIZE, **MODERN, classifier_pooling="mean"),
}
"""Those with a head for the score within the network."""

TEMPLATE = """{%- macro of(role) -%}
{{ messages | selectattr("role", "eq", role) | map(attribute="content") | first }}
{%- endmacro -%}
{{ " the : " ~ of("query") ~ " has : " ~ of("document") ~ " yes no :" }}"""
"""A chat template like Qwen3-Reranker's: what stands behind the document must not be cut off."""


def save_network(folder, network, chat_template=None):
    words = Tokenizer(
        models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="[UNK]")
    )
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    ends = [("[CLS]", 2), ("[SEP]", 3)]
    words.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]", special_tokens=ends
    )
    special = {
        "unk_token": "[UNK]",
        "pad_token": "[PAD]",
        "cls_token": "[CLS]",
        "sep_token": "[SEP]",
        "mask_token": "[MASK]",
    }
    inputs = ["input_ids", "attention_mask"]
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=words, model_input_names=inputs, chat_template=chat_template, **special
    )
    tokenizer.save_pretrained(folder)
    network.save_pretrained(folder)
    return str(folder)


def save_cross_encoder(folder, architecture, seed=0):
    torch.manual_seed(list(CONFIGS).index(architecture) + 100 * seed)
    return save_network(
        folder, AutoModelForSequenceClassification.from_config(CONFIGS[architecture]())
    )


def save_modules(
    folder, network, *heads, task="feature-extraction", chat_template=None, **settings
):
    """Save a cross-encoder of several modules: the network, then the others."""
    from sentence_transformers import CrossEncoder
    from sentence_transformers.base.modules import Transformer

    with tempfile.TemporaryDirectory() as bare:
        save_network(bare, network, chat_template)
        CrossEncoder(
            modules=[Transformer(bare, transformer_task=task), *heads], **settings
        ).save_pretrained(str(folder), create_model_card=False)
    return str(folder)


def save_ettin(folder, gives=1, **settings):
    """ModernBERT, pooling, dense, norm, dense, as the Ettin re-rankers are saved."""
    from sentence_transformers.base.modules import Dense
    from sentence_transformers.sentence_transformer.modules import LayerNorm, Pooling

    torch.manual_seed(3)
    network = AutoModel.from_config(ModernBertConfig(**SIZE, **MODERN))
    inner = Dense(16, 16, activation_function=torch.nn.GELU())
    last = Dense(16, gives, activation_function=torch.nn.Identity(), module_output_name="scores")
    for layer in (inner, last):
        torch.nn.init.normal_(layer.linear.weight)
    return save_modules(folder, network, Pooling(16, "cls"), inner, LayerNorm(16), last, **settings)


def qwen():
    torch.manual_seed(4)
    return AutoModelForCausalLM.from_config(Qwen3Config(**SIZE, num_key_value_heads=1, head_dim=8))


def save_qwen(folder, **settings):
    """A language model that scores by the logits of its words, as Qwen3-Reranker does."""
    from sentence_transformers.cross_encoder.modules import LogitScore

    head = LogitScore(WORDS.index("yes"), WORDS.index("no"))
    return save_modules(
        folder, qwen(), head, task="text-generation", chat_template=TEMPLATE, **settings
    )


KINDS = {
    **{name: functools.partial(save_cross_encoder, architecture=name) for name in CONFIGS},
    "ettin": save_ettin,
    "ettin-prompt": functools.partial(
        save_ettin, prompts={"web": "green tea : "}, default_prompt_name="web"
    ),
    "qwen": save_qwen,
    "qwen-prompt": functools.partial(
        save_qwen, prompts={"web": "green tea"}, default_prompt_name="web"
    ),
}
"""Saves a cross-encoder of each kind into a folder, whose name it gives."""
