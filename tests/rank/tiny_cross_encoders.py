"""Tiny randomly initialised cross-encoders, one of each kind that sentence-transformers knows, with a tokenizer of a few words."""

import functools
import shutil
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
    T5Config,
    T5EncoderModel,
    XLMRobertaConfig,
)

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = [*SPECIAL, "tea", "rooibos", "coffee", "caffeine", "no", "has", "green", "black", "train", "late", "runs", "the", "yes", ":"]
SIZE = {
    "vocab_size": len(WORDS),
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "num_labels": 1,
    "initializer_range": 0.8,
    "pad_token_id": 0,
}
DEBERTA = {
    "relative_attention": True,
    "pos_att_type": ["p2c", "c2p"],
    "position_biased_input": False,
    "max_relative_positions": -1,
    "max_position_embeddings": 512,
    "position_buckets": 32,
    "norm_rel_ebd": "layer_norm",
    "share_att_key": True,
    "type_vocab_size": 0,
}
MODERN = {**SIZE, "global_attn_every_n_layers": 2, "local_attention": 8, "max_position_embeddings": 512}
ENDS = {"bos_token_id": 2, "cls_token_id": 2, "eos_token_id": 3, "sep_token_id": 3}
CONFIGS = {
    "debertav3": lambda: DebertaV2Config(**SIZE, **DEBERTA),
    "debertav2": lambda: DebertaV2Config(**SIZE, **DEBERTA, conv_kernel_size=3, conv_act="gelu"),
    "electra": lambda: ElectraConfig(**SIZE, embedding_size=8, max_position_embeddings=512),
    "albert": lambda: AlbertConfig(**SIZE, embedding_size=8, max_position_embeddings=512),
    "roberta": lambda: RobertaConfig(**SIZE, max_position_embeddings=514, type_vocab_size=1),
    "bert": lambda: BertConfig(**SIZE, max_position_embeddings=512),
    "xlm-roberta": lambda: XLMRobertaConfig(**SIZE, max_position_embeddings=514, type_vocab_size=1),
    "modernbert": lambda: ModernBertConfig(**MODERN, **ENDS, classifier_pooling="mean"),
}
"""Those with a head for the score within the network."""

TEMPLATE = """{%- macro of(role) -%}{{ messages | selectattr("role", "eq", role) | map(attribute="content") | first }}{%- endmacro -%}
{%- if messages[0].role == "system" -%}{{ messages[0].content }}{%- endif -%}
{{ " the : " ~ of("query") ~ " has : " ~ of("document") ~ " yes no :" }}"""
"""A chat template like Qwen3-Reranker's: what stands behind the document must not be cut off."""


def tokenizer():
    words = Tokenizer(models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    ends = [("[CLS]", 2), ("[SEP]", 3)]
    words.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]", special_tokens=ends)
    special = {"unk_token": "[UNK]", "pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]"}
    inputs = ["input_ids", "attention_mask"]
    return PreTrainedTokenizerFast(tokenizer_object=words, model_input_names=inputs, **special)


def save_tokenizer(folder):
    tokenizer().save_pretrained(folder)


def save_network(folder, network, chat_template=None):
    network.save_pretrained(folder)
    words = tokenizer()
    words.chat_template = chat_template
    words.save_pretrained(folder)
    return str(folder)


def save_cross_encoder(folder, architecture, seed=0):
    torch.manual_seed(list(CONFIGS).index(architecture) + 100 * seed)
    return save_network(folder, AutoModelForSequenceClassification.from_config(CONFIGS[architecture]()))


def save_modules(folder, network, *heads, task="feature-extraction", **settings):
    """Save a cross-encoder of several modules: the network, then the others."""
    from sentence_transformers import CrossEncoder
    from sentence_transformers.base.modules import Transformer

    bare = tempfile.mkdtemp()
    save_network(bare, network, settings.pop("chat_template", None))
    made = CrossEncoder(modules=[Transformer(bare, transformer_task=task), *heads], **settings)
    made.save_pretrained(str(folder))
    shutil.rmtree(bare)
    return str(folder)


def dense(wide, gives, activation=None, **names):
    from sentence_transformers.base.modules import Dense

    layer = Dense(wide, gives, activation_function=activation or torch.nn.Identity(), **names)
    torch.nn.init.normal_(layer.linear.weight)
    return layer


def save_ettin(folder, pooling="cls", gives=1, **settings):
    """ModernBERT, pooling, dense, norm, dense, as the Ettin re-rankers are saved."""
    from sentence_transformers.sentence_transformer.modules import LayerNorm, Pooling

    torch.manual_seed(3)
    network = AutoModel.from_config(ModernBertConfig(**MODERN, **ENDS))
    last = dense(16, gives, module_output_name="scores")
    return save_modules(folder, network, Pooling(16, pooling), dense(16, 16, torch.nn.GELU()), LayerNorm(16), last, **settings)


def qwen():
    torch.manual_seed(4)
    size = {**SIZE, "max_position_embeddings": 512, "num_key_value_heads": 1, "head_dim": 8}
    return AutoModelForCausalLM.from_config(Qwen3Config(**size))


def save_qwen(folder, chat_template=TEMPLATE, against="no", **settings):
    """A language model that scores by the logits of its words, as Qwen3-Reranker does."""
    from sentence_transformers.cross_encoder.modules import LogitScore

    head = LogitScore(WORDS.index("yes"), None if against is None else WORDS.index(against))
    return save_modules(folder, qwen(), head, task="text-generation", chat_template=chat_template, **settings)


def save_t5(folder):
    from sentence_transformers.sentence_transformer.modules import Pooling

    torch.manual_seed(5)
    network = T5EncoderModel(T5Config(vocab_size=len(WORDS), d_model=16, d_kv=8, d_ff=16, num_layers=2, num_heads=2, pad_token_id=0))
    return save_modules(folder, network, Pooling(16, "mean"), dense(16, 1, module_output_name="scores"))


def save_bert_modules(folder):
    """A network whose last layer could be cut to the first token, scored by its first token and by a norm of it."""
    from sentence_transformers.sentence_transformer.modules import Pooling

    torch.manual_seed(6)
    return save_modules(folder, AutoModel.from_config(CONFIGS["bert"]()), Pooling(16, "cls"), dense(16, 1, module_output_name="scores"))


KINDS = {
    **{name: functools.partial(save_cross_encoder, architecture=name) for name in CONFIGS},
    "ettin": save_ettin,
    "ettin-mean": functools.partial(save_ettin, pooling="mean"),
    "ettin-prompt": functools.partial(save_ettin, prompts={"web": "green tea : "}, default_prompt_name="web"),
    "bert-modules": save_bert_modules,
    "t5": save_t5,
    "qwen": save_qwen,
    "qwen-prompt": functools.partial(save_qwen, prompts={"web": "green tea"}, default_prompt_name="web"),
    "qwen-one-word": functools.partial(save_qwen, against=None),
    "qwen-no-template": functools.partial(save_qwen, chat_template=None),
}
"""Saves a cross-encoder of each kind into a folder, whose name it gives."""
