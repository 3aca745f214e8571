"""Conversational query rewriting by a T5 or BART model that was trained for it."""

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyterrier as pt

from ..conversations.frame import histories, question_column, texts_in, well_formed, with_columns, with_query
from ..errors import counted, list_first
from ..operator import Operator, with_fields
from ..portable import digest
from ..store.cache import compute_missing, open_cache
from ..store.models import load, loaded_once, model_state

if TYPE_CHECKING:
    from ..planning import Plan

ROOM = 512
"""The maximum number of input tokens: the length with which T5 was trained."""

log = logging.getLogger("pyterrier_ikat")


@with_fields
class Seq2SeqRewrite(Operator):
    """Rewrite the user's question with a sequence-to-sequence model of ``transformers``.

    The input is the conversation in the format of rewriters trained for CAsT (``castorini/t5-base-canard``): the user's utterances, oldest
    first and the question last, joined by ``|||``. With ``responses``, it also has the latest responses, each after the utterance that it
    answers. If an input exceeds the model's limit (at most 512 tokens), its beginning is cut off. Decoding is beam search without sampling,
    so the same frame gives the same queries.

    Reads ``qid``, ``query`` and, if present, ``qutterance``, ``qhistory``. The model does not see the PTKB. Each distinct input is decoded
    once per process, even if several systems use it, or once for all runs with ``ikat run --cache FILE``. Writes ``qrewrite``, sets
    ``query`` to it and pushes the old query to ``query_0``. If the model writes nothing, the rewrite is the question itself, and this is
    logged.

    Source: Lin et al., Multi-Stage Conversational Passage Retrieval (2021), for the rewriter, its 10 beams and 64 tokens.
    Mo et al., ConvGQR (2023), concatenates a rewrite and an expansion, each from its own model:
    ``Seq2SeqRewrite(rewriter) >> AppendQuery(Seq2SeqRewrite(expander))``.

    Args:
        model: a name on the Hugging Face hub, or the folder of a downloaded model.
        responses: how many of the latest responses the input has. 0: none.
        max_length: the maximum number of output tokens.
        num_beams: the number of beams; 1: greedy.
        batch_size: the number of inputs per batch.

    Raises:
        UsageError: when an argument is out of range; at first use, when the model cannot be loaded.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.generate.Seq2SeqRewrite("castorini/t5-base-canard", responses=1)
        ikat.generate.Seq2SeqRewrite('castorini/t5-base-canard', responses=1)
    """

    one_row_per_turn = True
    schematic = {"label": "Seq2Seq rewrite"}
    loads_models = True
    activity = "rewriting"
    least = {"responses": 0, "num_beams": 1, "batch_size": 1, "max_length": 2}

    model: str
    responses: int = 0
    max_length: int = 64
    num_beams: int = 10
    batch_size: int = 8

    def __post_init__(self) -> None:
        super().__post_init__()
        self.model = str(self.model)

    def plan(self, frame: pd.DataFrame, plan: "Plan") -> pd.DataFrame:
        """The question in place of its rewrite."""
        questions = texts_in(frame, question_column(frame))
        return with_query(with_columns(frame, qrewrite=questions), questions)

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Set ``query`` of a query frame."""
        pt.validate.query_frame(inp, extra_columns=["query"], context=self)
        questions = texts_in(inp, question_column(inp))
        asked = [source(history, text, self.responses) for history, text in zip(histories(inp), questions, strict=True)]
        outputs = self._outputs(asked)
        silent = [qid for qid, output in zip(inp["qid"], outputs, strict=True) if not output]
        if silent:
            log.warning("%r wrote nothing for %s, so the question stays: %s", self, counted(len(silent), "turn"), list_first(silent))
        rewrites = [output or question for output, question in zip(outputs, questions, strict=True)]
        return with_query(with_columns(inp, qrewrite=rewrites), rewrites)

    def _outputs(self, texts: Sequence[str]) -> list[str]:
        model = digest("seq2seq", str(self.max_length), str(self.num_beams), *model_state(self.model))
        keys = {text: digest(model, text) for text in texts}
        found = compute_missing(
            open_cache(),
            {keys[text]: text for text in sorted(keys, key=lambda text: (-len(text), text))},
            self._decode,
            encode=str.encode,
            decode=bytes.decode,
            at_once=self.batch_size,
            label="rewriting",
            unit="turn",
        )
        return [found[keys[text]] for text in texts]

    def _decode(self, texts: list[str]) -> list[str]:
        return decode(*load_seq2seq(self.model), texts, self.max_length, self.num_beams)


def source(history: Sequence[dict[str, str]], question: str, responses: int = 0) -> str:
    """The model's input for a question and the messages before it.

    Example:
        >>> chat = [{"role": "user", "content": "Which tea?"}, {"role": "assistant", "content": "Mint."}]
        >>> source(chat, "Why?"), source(chat, "Why?", responses=1)
        ('Which tea? ||| Why?', 'Which tea? ||| Mint. ||| Why?')
    """
    spoken = [place for place, message in enumerate(history) if message["role"] == "assistant"]
    shown = set(spoken[-responses:]) if responses else set()
    parts = [message["content"] for place, message in enumerate(history) if message["role"] == "user" or place in shown]
    return " ||| ".join(" ".join(part.split()) for part in [*parts, question])


@loaded_once(size=4)
def load_seq2seq(model: str) -> tuple[Any, Any]:
    """The tokenizer and the loaded model. Equal names share them.

    Raises:
        UsageError: when they can't be loaded.
    """

    def make() -> tuple[Any, Any]:
        import torch
        from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

        device = "cuda" if torch.cuda.is_available() else "cpu"
        tokenizer = AutoTokenizer.from_pretrained(model, truncation_side="left")
        return tokenizer, AutoModelForSeq2SeqLM.from_pretrained(model).to(device).eval()

    return load("sequence-to-sequence model", model, make)


def decode(tokenizer: Any, model: Any, texts: Sequence[str], max_length: int = 64, num_beams: int = 10) -> list[str]:
    """The model's output for each text, by beam search. White space is normalised to one space."""
    import torch

    positions = getattr(model.config, "max_position_embeddings", None) or ROOM  # T5 has none: its positions are relative
    room = min(ROOM, tokenizer.model_max_length, positions)
    asked = tokenizer([well_formed(text) for text in texts], return_tensors="pt", padding=True, truncation=True, max_length=room).to(
        model.device
    )
    with torch.no_grad():
        written = model.generate(
            input_ids=asked["input_ids"],
            attention_mask=asked["attention_mask"],
            max_length=min(max_length, positions),
            num_beams=num_beams,
            do_sample=False,
            early_stopping=num_beams > 1,
        )
    return [" ".join(text.split()) for text in tokenizer.batch_decode(written, skip_special_tokens=True)]
