"""Writes completions into a file of JSON lines that ``recorded:`` reads: a model's, or lines to fill in."""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ..errors import DataError, UsageError, counted, list_first
from ..store.files import atomic_write
from .backend import Backend
from .failures import LLMFailure
from .ledger import Ledger
from .model import LLM
from .recorded import Key, RecordedBackend, read_line, write_line
from .request import Completion, Reply, Request
from .spec import llm

Ask = Callable[[Sequence[Request]], Sequence[Completion | LLMFailure]]
"""Asks a model, as :meth:`LLM.ask` does."""
BY_HAND = "recorded"
"""The model of a completion that a person fills in."""


class ToFillInError(DataError):
    """Completions are missing, and nobody writes them: their lines are in the file, with empty texts."""


class RecordingBackend(Backend):
    """Answers from a file and from other recorded completions. What both lack is added to the file.

    The lines of the file that have a text stay as they are. A line with an empty text is a
    completion that is missing.

    Args:
        path: the file; it need not exist.
        replayed: other recorded completions, into which nothing is written.
        ask: asks the model that writes what is missing. None: the lines get empty texts.

    Attributes:
        written: how many lines were added to the file, those to fill in among them.

    Raises:
        DataError: when the file can't be read, or has a malformed line.
    """

    batch_size, replays = 1_000_000, True

    def __init__(
        self, path: str | Path, replayed: RecordedBackend | None = None, ask: Ask | None = None
    ) -> None:
        self.path, self.model, self.written = Path(path).resolve(), "recorded", 0
        self.identity = {"provider": "recording", "model": str(self.path), "params": {}}
        self._replayed, self._ask = replayed, ask
        self._own = RecordedBackend(str(self.path)) if self.path.exists() else None
        self._writing = threading.Lock()

    def find(self, request: Request) -> Reply | None:
        """The reply to ``request``, or None when neither the file nor the other completions have its text."""
        for source in (self._own, self._replayed):
            reply = None if source is None else source.find(request)
            if reply is not None and reply.text and reply.text.strip():
                return reply
        return None

    def complete(self, requests: list[Request]) -> list[Reply | LLMFailure]:
        """Replay the completions of ``requests``, and write those that are missing.

        Raises:
            ToFillInError: when some are missing and there is no model. Their lines are in the file.
            FatalLLMError: as the model that is asked; so are its other errors.
        """
        with self._writing:
            missing = [request for request in requests if self.find(request) is None]
            failed: dict[int, LLMFailure] = {}
            if missing and self._ask is None:
                self._leave_room(missing)
            elif missing and self._ask is not None:
                failed = self._record(missing, self._ask(missing))
            return [self._outcome(request, failed) for request in requests]

    def _outcome(self, request: Request, failed: Mapping[int, LLMFailure]) -> Reply | LLMFailure:
        if id(request) in failed:
            return failed[id(request)]
        reply = self.find(request)
        if reply is None:  # another sample of the same prompt failed, and a line has them all
            return LLMFailure(
                request.stage,
                request.qid,
                "another sample of the same prompt failed: run the command again",
            )
        return reply

    def _leave_room(self, missing: Sequence[Request]) -> None:
        """Add lines with empty texts for the missing completions.

        Raises:
            ToFillInError: always.
        """
        empty = {}
        for request in missing:
            key = _key_of(request)
            if len(self._texts(key)) < request.samples:
                empty[key] = self._known(request)
        self._save({key: write_line(key, texts, BY_HAND) for key, texts in empty.items()})
        keys = list(dict.fromkeys(map(_key_of, missing)))
        told = list_first([" ".join(filter(None, key)) for key in keys])
        raise ToFillInError(
            f'{self.path} has {counted(len(keys), "line")} with an empty "completion": {told}: fill them in and run the same command '
            "again; or give a model that writes them, --llm"
        )

    def _record(
        self, missing: Sequence[Request], outcomes: Sequence[Completion | LLMFailure]
    ) -> dict[int, LLMFailure]:
        """Add a line for each prompt of which all samples came; give the failures by the identity of their requests."""
        failed: dict[int, LLMFailure] = {}
        found: dict[Key, list[str]] = {}
        models: dict[Key, str] = {}
        for request, outcome in zip(missing, outcomes, strict=True):
            key = _key_of(request)
            if isinstance(outcome, LLMFailure):
                failed[id(request)] = outcome
                continue
            texts = found.setdefault(key, self._known(request))
            texts[request.sample] = outcome.text
            models[key] = outcome.model
        self._save(
            {key: write_line(key, texts, models[key]) for key, texts in found.items() if all(texts)}
        )
        return failed

    def _known(self, request: Request) -> list[str]:
        """The texts of all samples of a prompt, empty where they are missing."""
        known = []
        for sample in range(request.samples):
            reply = self.find(replace(request, sample=sample))
            known.append(reply.text or "" if reply is not None else "")
        return known

    def _texts(self, key: Key) -> tuple[str, ...]:
        """The texts in the line of the file with this key."""
        return () if self._own is None else self._own.texts(key)

    def _save(self, lines: Mapping[Key, str]) -> None:
        """Write the file anew: its lines, without those that are replaced, and the new ones."""
        if not lines:
            return
        kept = []
        if self.path.exists():
            for line in self.path.read_text(encoding="utf-8").split("\n"):
                if line.strip() and read_line(line)[0] not in lines:
                    kept.append(line)
        with atomic_write(self.path) as file:
            file.write("\n".join([*kept, *lines.values(), ""]))
        self.written += len(lines)
        self._own = RecordedBackend(str(self.path))


def _key_of(request: Request) -> Key:
    """The key of the most specific line that answers a request."""
    return request.qid, request.stage, request.prompt or None, request.item or None


def recording(
    path: str | Path,
    replayed: str | None = None,
    model: str | None = None,
    ledger: Ledger | None = None,
) -> LLM:
    """A language model that writes the completions that it is asked for into a file of recorded ones.

    Args:
        path: the file. Completions that it has are not asked for.
        replayed: other recorded completions, such as ``"recorded:sample"``, which are not asked for
            either.
        model: the model that writes the others, such as ``"openai:gpt-4o"``. None: their lines get
            empty texts, to fill in.
        ledger: the account of the calls; a new one when None.

    Raises:
        UsageError: when ``replayed`` is no file of recorded completions, or the model writes JSON
            (``structured=on``).
        DataError: when a file can't be read or has a malformed line.

    Example:
        >>> from pyterrier_ikat.llms.request import Request
        >>> asked = Request([{"role": "user", "content": "Which tea?"}], stage="keywords", qid="1-1_1", prompt="keywords")
        >>> try:
        ...     recording("keywords.jsonl", "recorded:sample").ask([asked])
        ... except ToFillInError:
        ...     print(Path("keywords.jsonl").read_text(), end="")
        {"qid": "1-1_1", "stage": "keywords", "prompt": "keywords", "completion": "", "model": "recorded"}
    """
    known = None if replayed is None else llm(replayed).backend
    if known is not None and not isinstance(known, RecordedBackend):
        raise UsageError(
            f"{replayed} is no file of recorded completions: give one, such as recorded:sample"
        )
    account = Ledger() if ledger is None else ledger
    asked = None if model is None else llm(model, ledger=account)
    if asked is not None and asked.structured:
        raise UsageError("recorded completions answer prompts for texts: omit structured=on")
    backend = RecordingBackend(path, known, None if asked is None else asked.ask)
    on_error = "raise" if asked is None else asked.on_error
    return LLM(backend, ledger=account, on_error=on_error, text=f"recorded:{path}")
