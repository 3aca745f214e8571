"""A causal language model of Hugging Face, run in this process."""

import importlib
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jinja2 import TemplateError

from ..completions.forms import is_mark
from ..completions.reasoning import NamedMarks, opening_mark
from ..events import Write, check_asker
from ..store.cache import digest
from ..store.models import load, model_state
from .backend import Backend, Remade
from .failures import BadRequest, LLMFailure, TooLong, Unanswered
from .request import Reply, Request, as_text
from .streaming import Writing

MAX_TOKENS = 1024
UNBOUNDED = 1 << 30
TAIL = 16
"""Tokens of a prompt that may hold the mark with which the model's reasoning begins."""


class HFBackend(Remade, Backend):
    """Generates with ``transformers``, several chats at a time.

    The model is loaded at the first call.

    A chat goes through the tokenizer's chat template, or as plain text when it has none. Without
    ``temperature`` (or with 0) decoding is greedy. With ``seed``, each sampled chat is generated
    alone, from ``seed`` plus its number (`Request.draw`), so that it does not depend on its
    neighbours.

    Args:
        name: a model of the hub, a folder, or a GGUF file (``model.gguf``, or
            ``owner/model/file.gguf`` of the hub), which needs the package gguf; its weights are
            expanded to 32 bits.
        params: decoding parameters (temperature, top_p, top_k, max_tokens, seed); ``max_tokens`` is
            1024 when not given.
        device: ``cpu``, ``cuda``, ...; else a GPU when there is one.
        batch_size: the maximum number of chats per batch.
    """

    of_this_process = {"_lock": threading.Lock, "_loaded": type(None)}

    def __init__(
        self,
        name: str,
        *,
        params: Mapping[str, Any] | None = None,
        device: str | None = None,
        batch_size: int = 8,
    ) -> None:
        self.model = name
        self.device = device
        self.batch_size = batch_size
        self.identity: dict[str, Any] = {
            "provider": "hf",
            "model": name,
            "params": {"max_tokens": MAX_TOKENS, **(params or {})},
        }
        path = Path(name)
        if path.exists():  # ./model is a different model elsewhere, and after more training
            self.identity["model"] = str(path.resolve())
            self.identity["files"] = digest("llm", *model_state(name)).hex()
        self._loaded: tuple[Any, Any] | None = None
        self._lock = threading.Lock()

    def complete(self, requests: list[Request]) -> list[Reply | LLMFailure]:
        """Generate (see `Backend.complete`).

        Raises:
            UsageError: when transformers is not installed, or there is no such model.
        """
        groups: dict[Any, list[int]] = {}
        for number, request in enumerate(requests):
            params = {**self.identity["params"], **request.params}
            has_seed = "seed" in params and params.get("temperature")
            alone = number if has_seed else None
            groups.setdefault((repr(sorted(params.items())), alone), []).append(number)
        replies: dict[int, Reply | LLMFailure] = {}
        for numbers in groups.values():
            of_group = self._generate([requests[number] for number in numbers])
            replies.update(zip(numbers, of_group, strict=True))
        return [replies[number] for number in range(len(requests))]

    def stream(self, request: Request, write: Write) -> Reply | LLMFailure:
        """Generate one completion (see `Backend.stream`)."""
        return self._generate([request], write)[0]

    def repeats(self, samples: int, asked: Mapping[str, int] | None = None) -> str:
        """Without a temperature, decoding is greedy."""
        return "" if self.identity["params"].get("temperature") else "no temperature above 0"

    def _generate(
        self, requests: list[Request], write: Write | None = None
    ) -> list[Reply | LLMFailure]:
        """The replies to requests with the same parameters."""
        with self._lock:
            check_asker()  # they may have left while another call was under way
            import torch

            tokenizer, model = self._load()
            params = {**self.identity["params"], **requests[0].params}
            longest = getattr(model.config, "max_position_embeddings", None) or UNBOUNDED
            room = longest - params["max_tokens"]
            inputs = [_tokens(tokenizer, request, room) for request in requests]
            prompts = [tokens for tokens in inputs if not isinstance(tokens, LLMFailure)]
            writing = None if write is None else Writing(write, self.reading(requests[0]))
            devices = [model.device] if model.device.type == "cuda" else []
            replies: list[Reply] = []
            with torch.random.fork_rng(devices, enabled="seed" in params):
                if "seed" in params:
                    torch.manual_seed(params["seed"] + requests[0].draw)
                if prompts:
                    replies = self._written(tokenizer, model, prompts, params, writing)
        in_order = iter(replies)
        return [tokens if isinstance(tokens, LLMFailure) else next(in_order) for tokens in inputs]

    def _written(
        self,
        tokenizer: Any,
        model: Any,
        prompts: list[list[int]],
        params: Mapping[str, Any],
        writing: Writing | None,
    ) -> list[Reply]:
        streamer = None
        if writing is not None:
            streamer = _streamer(tokenizer, prompts[0], writing, self.reasoning)
        padded = tokenizer.pad(
            {"input_ids": prompts}, padding=True, padding_side="left", return_tensors="pt"
        ).to(model.device)
        written = model.generate(
            **padded,
            max_new_tokens=params["max_tokens"],
            pad_token_id=tokenizer.pad_token_id,
            streamer=streamer,
            **_decoding(params),
        )
        rows = written[:, padded["input_ids"].shape[1] :].tolist()  # without the prompts
        ends = model.generation_config.eos_token_id
        if ends is None:
            ends = tokenizer.eos_token_id
        if not isinstance(ends, list):
            ends = [ends]
        replies = []
        for prompt, row in zip(prompts, rows, strict=True):
            replies.append(self._reply(tokenizer, prompt, row, set(ends)))
        return replies

    def _reply(self, tokenizer: Any, prompt: list[int], row: list[int], ends: set[int]) -> Reply:
        end = next((number for number, token in enumerate(row) if token in ends), None)
        beginning = opening_mark(tokenizer.decode(prompt[-TAIL:]), self.reasoning)
        return Reply(
            beginning + _decoded(tokenizer, row[:end]),
            self.model,
            finish_reason="length" if end is None else "stop",
            prompt_tokens=len(prompt),
            completion_tokens=len(row) if end is None else end + 1,
            special=_unknown_tokens(tokenizer, row[:end], self.reasoning),
        )

    def _load(self) -> tuple[Any, Any]:
        if self._loaded is None:
            tokenizer, model = load("language model", self.model, self._make)
            tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
            self._loaded = tokenizer, model
        return self._loaded

    def _make(self) -> tuple[Any, Any]:
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer

        name = self.model
        options: dict[str, Any] = {}
        path = Path(name)
        if path.suffix.lower() == ".gguf" and not path.is_dir():
            importlib.import_module("gguf")
            name = str(path.parent)
            options["gguf_file"] = path.name
        device = self.device or ("cuda" if torch.cuda.is_available() else "cpu")
        model: Any = AutoModelForCausalLM.from_pretrained(name, dtype="auto", **options)
        return AutoTokenizer.from_pretrained(name, **options), model.to(device)


def _decoding(params: Mapping[str, Any]) -> dict[str, Any]:
    """The decoding parameters of ``generate``: greedy without a temperature."""
    if not params.get("temperature"):
        return {"do_sample": False, "temperature": None, "top_p": None, "top_k": None}
    return {
        "do_sample": True,
        "temperature": params["temperature"],
        "top_p": params.get("top_p", 1.0),
        "top_k": params.get("top_k", 0),
    }


def _silent(tokenizer: Any) -> set[int]:
    """The tokens that begin, end and fill up texts."""
    return {tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id} - {None}


def _decoded(tokenizer: Any, row: list[int]) -> str:
    """The text of a row with its special tokens, without those that begin, end and fill up."""
    silent = _silent(tokenizer)
    tokens = [token for token in row if token not in silent]
    return str(tokenizer.decode(tokens, skip_special_tokens=False))


def _unknown_tokens(tokenizer: Any, row: list[int], named: NamedMarks) -> tuple[str, ...]:
    """The special tokens of a row that are in no table."""
    silent = _silent(tokenizer)
    unknown = dict[str, None]()
    for token in row:
        if token in tokenizer.all_special_ids and token not in silent:
            text = str(tokenizer.convert_ids_to_tokens(token))
            if not is_mark(text, named):
                unknown[text] = None
    return tuple(unknown)


def _streamer(tokenizer: Any, prompt: list[int], writing: Writing, named: NamedMarks) -> Any:
    """Passes on the words of a completion while they are generated."""
    from transformers import TextStreamer

    silent = _silent(tokenizer)

    class Streamer(TextStreamer):
        def put(self, value: Any) -> None:
            """The next tokens: first the prompt, then one by one."""
            if self.next_tokens_are_prompt or value.item() not in silent:
                super().put(value)

        def on_finalized_text(self, text: str, stream_end: bool = False) -> None:
            """The next words."""
            writing.add(text)

    writing.add(opening_mark(tokenizer.decode(prompt[-TAIL:]), named))
    return Streamer(tokenizer, skip_prompt=True, skip_special_tokens=False)


def _tokens(tokenizer: Any, request: Request, room: int) -> list[int] | BadRequest:
    """The tokens of a prompt, or why it can't be read."""
    try:
        if tokenizer.chat_template:
            messages = [dict(message) for message in request.messages]
            text = tokenizer.apply_chat_template(
                messages, add_generation_prompt=True, tokenize=False
            )
        else:
            text = as_text(request.messages)
    except TemplateError as error:
        reason = f"the model's chat template rejects the messages: {error}"
        return BadRequest(request.stage, request.qid, reason, unanswered=Unanswered.UNSENT)
    tokens = list(tokenizer(text, add_special_tokens=not tokenizer.chat_template)["input_ids"])
    if len(tokens) > room:
        reason = f"the prompt has {len(tokens)} tokens, and the model has room for {max(room, 0)}"
        return TooLong(request.stage, request.qid, reason, unanswered=Unanswered.UNSENT)
    return tokens
