"""Prompts that a server has cut, which only its count of tokens shows.

Ollama reads the end of a prompt that is longer than ``num_ctx`` (4,096 tokens if nobody sets it, or
half of it) and answers as if nothing were missing (ollama/ollama#10368, #3839, #17427;
NousResearch/hermes-agent#43900). Its endpoint of chat completions has no field for it
(ralphgrewe/TradingAgents#168).
"""

import re
import threading
import warnings
from collections import defaultdict
from typing import Any, NamedTuple

from ..errors import list_first
from .backend import Remade
from .request import Request

CHARACTERS = 12
"""The most characters of a token, on average over a prompt.

English has 4 to 5, other languages and code have fewer.
"""
LEAST = 256
"""Tokens below which a count is none of a window: some servers always tell 0, 1 or 10."""
LEAST_EQUAL = 1000
"""Tokens from which on two prompts of different length don't have the same number by chance.

Ollama's smallest window was 1,024: ollama/ollama#6026.
"""
LONGER = 1.5
"""How much longer one of two prompts has to be, in bytes.

The number of bytes of a token varies less between scripts than that of characters.
"""
REPAIR = (
    "raise the context of the server (Ollama: OLLAMA_CONTEXT_LENGTH=..., or num_ctx in a "
    "Modelfile; llama.cpp: --ctx-size), or make prompts shorter"
)


_RUN = re.compile(r"(.)\1{3,}", re.DOTALL)


def _without_runs(text: str) -> int:
    """The characters of a text, a run of the same one counted once.

    A token holds dozens of blanks, or a whole line of dashes.
    """
    return len(_RUN.sub(r"\1", text))


class CutPromptWarning(UserWarning):
    """A server has probably read only a part of a prompt."""


class Sent(NamedTuple):
    """A prompt that was sent.

    Attributes:
        stage: the operator that asked.
        qid: the turn.
        characters: its length.
        size: its length in bytes.
    """

    stage: str
    qid: str
    characters: int
    size: int


class Lengths(Remade):
    """Compares the lengths of a model's prompts with the server's counts of tokens."""

    of_this_process = {"_lock": threading.Lock}

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._most = 0
        self._shortest: Sent | None = None
        self._longest: Sent | None = None
        self._cut: dict[str, dict[str, str]] = defaultdict(dict)

    def note(self, request: Request, read: int | None) -> None:
        """Note a prompt and its number of tokens.

        Args:
            request: the request with the prompt.
            read: the tokens, those of a provider's cache included; None if unknown.
        """
        if read is None or read < LEAST or not request.messages:
            return
        texts = [str(message["content"]) for message in request.messages]
        characters = sum(map(len, texts))
        size = sum(len(text.encode(errors="replace")) for text in texts)
        sent = Sent(request.stage, request.qid, characters, size)
        if read > size:  # a token has a byte or more, so this count says nothing of the prompt
            return
        most = read * CHARACTERS
        with self._lock:
            cut = self._equal(sent, read)
            if most < characters and most < sum(map(_without_runs, texts)):
                cut = sent
            if cut is not None:
                self._cut[cut.stage][cut.qid] = f"{read} tokens of {cut.characters} characters"

    def _equal(self, sent: Sent, read: int) -> Sent | None:
        """The longer one of two prompts with the greatest number of tokens, if it is cut.

        A prompt that is clearly longer than another one has more tokens, unless the server cuts it.
        """
        if read < max(self._most, LEAST_EQUAL):
            return None
        if read > self._most or self._shortest is None or self._longest is None:
            self._most = read
            self._shortest = sent
            self._longest = sent
            return None
        if sent.size < self._shortest.size:
            self._shortest = sent
        if sent.size > self._longest.size:
            self._longest = sent
        if sent.size >= LONGER * self._shortest.size:
            return sent
        if self._longest.size >= LONGER * sent.size:
            return self._longest
        return None

    def warn(self) -> None:
        """Warn of the prompts that were probably cut since the last time, once for each stage.

        Warns:
            CutPromptWarning: with their turns and what to set.
        """
        with self._lock:
            cut = self._cut
            self._cut = defaultdict(dict)
        for stage, turns in cut.items():
            prompts = list_first([f"{qid} ({counts})" for qid, counts in turns.items()])
            warnings.warn(
                "the server has read only a part of these prompts, by its own count: "
                f"{stage} of turn {prompts}; {REPAIR}",
                CutPromptWarning,
                stacklevel=3,
            )

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_cut": defaultdict(dict)}
