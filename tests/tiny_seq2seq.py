"""Tiny T5 and BART models with random weights and tokenizers of their own."""

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    PreTrainedTokenizerFast,
    T5Config,
    T5ForConditionalGeneration,
    T5Tokenizer,
)

WORDS = [
    "true",
    "false",
    "Relevant:",
    "Query:",
    "Document:",
    "|||",
    "tea",
    "mint",
    "is",
    "what",
    "?",
    "caffeine",
]
WORDS += ["rooibos", "has", "no", "and", "green", "which", "one"]


def save_tiny_t5(folder, seed=2):
    """A T5 with the real T5 tokenizer over a few words and letters."""
    vocabulary = [
        "<pad>",
        "</s>",
        "<unk>",
        *(f"\u2581{word}" for word in WORDS),
        "\u2581",
        *"abcdefghijklmnopqrstuvwxyz.,?|:",
    ]
    special = 3  # have the score 0, all others -1
    scores = [0.0] * special + [-1.0] * (len(vocabulary) - special)
    tokenizer = T5Tokenizer(vocab=list(zip(vocabulary, scores, strict=True)), extra_ids=0)
    config = T5Config(
        vocab_size=len(tokenizer),
        d_model=16,
        d_kv=8,
        d_ff=16,
        num_layers=1,
        num_heads=2,
        decoder_start_token_id=0,
        n_positions=64,
    )
    torch.manual_seed(seed)
    T5ForConditionalGeneration(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def save_tiny_bart(folder, room=32, seed=3):
    """A BART of ``room`` positions, with a tokenizer that puts <s> and </s> around the words."""
    pieces = ["<s>", "<pad>", "</s>", "<unk>", *WORDS]
    vocabulary = {word: number for number, word in enumerate(pieces)}
    words = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    words.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=words,
        bos_token="<s>",
        eos_token="</s>",
        pad_token="<pad>",
        unk_token="<unk>",
    )
    config = BartConfig(
        vocab_size=len(vocabulary),
        d_model=16,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=16,
        decoder_ffn_dim=16,
        max_position_embeddings=room,
        bos_token_id=0,
        pad_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=2,
        forced_eos_token_id=2,
        init_std=1.0,
    )
    torch.manual_seed(seed)
    BartForConditionalGeneration(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)
