"""A tiny real Llama with a tokenizer, whose answers are known: each token is followed by the one
that its weights name."""

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

WORDS = [
    "<unk>",
    "</s>",
    "<pad>",
    "system",
    "user",
    "assistant",
    ":",
    "which",
    "tea",
    "drink",
    "rooibos",
    "colour",
    "red",
    "green",
    "blue",
    "on",
]
NEXT = {
    "tea": ["drink"],
    "drink": ["rooibos"],
    "rooibos": ["</s>"],
    "colour": ["red", "green", "blue"],
    "on": ["on"],
}
NEXT |= dict.fromkeys(("red", "green", "blue"), ["</s>"])
TEMPLATE = (
    "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system role') }}{% "
    "endif %}"
    "{{ m.role }} : {{ m.content }} {% endfor %}"
)
ROOM = 64


def save_tiny_model(path, template=None):
    """Write model and tokenizer to ``path``; without a chat template unless one is given."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(WORDS),
        hidden_size=32,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=ROOM,
        bos_token_id=None,
        eos_token_id=1,
        pad_token_id=2,
        tie_word_embeddings=False,
    )
    model = LlamaForCausalLM(config)
    with torch.no_grad():
        model.model.layers[0].self_attn.o_proj.weight.zero_()
        model.model.layers[0].mlp.down_proj.weight.zero_()
        model.model.embed_tokens.weight.copy_(torch.eye(len(WORDS), 32))
        model.lm_head.weight.zero_()
        for word, followers in NEXT.items():
            for follower in followers:
                model.lm_head.weight[WORDS.index(follower), WORDS.index(word)] = 10.0
    model.save_pretrained(path)
    words = Tokenizer(
        models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="<unk>")
    )
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=words, unk_token="<unk>", eos_token="</s>", pad_token="<pad>"
    )
    tokenizer.chat_template = template
    tokenizer.save_pretrained(path)
    return path
