"""Write completions, or lines to fill in, into a file that ``recorded:`` reads."""

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
    """Completions are missing; their lines with empty texts are in the file."""


class RecordingBackend(Backend):
    """Answers from a file and from other recorded completions, and adds what both lack to the file.

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

    batch_size = 1_000_000
    replays = True

    def __init__(
        self, path: str | Path, replayed: RecordedBackend | None = None, ask: Ask | None = None
    ) -> None:
        self.path = Path(path).resolve()
        self.model = "recorded"
        self.written = 0
        self.identity = {"provider": "recording", "model": str(self.path), "params": {}}
        self._replayed = replayed
        self._ask = ask
        self._own = RecordedBackend(str(self.path)) if self.path.exists() else None
        self._writing = threading.Lock()

    def find(self, request: Request) -> Reply | None:
        """The reply to ``request``; None when neither the file nor the others have its text."""
        for source in (self._own, self._replayed):
            if source is not None:
                reply = source.find(request)
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
            if missing:
                if self._ask is None:
                    raise self._add_lines_to_fill_in(missing)
                failed = self._record(missing, self._ask(missing))
            return [self._outcome(request, failed) for request in requests]

    def _outcome(self, request: Request, failed: Mapping[int, LLMFailure]) -> Reply | LLMFailure:
        if id(request) in failed:
            return failed[id(request)]
        reply = self.find(request)
        if reply is not None:
            return reply
        # Another sample of the same prompt failed, and a line has them all.
        reason = "another sample of the same prompt failed: run the command again"
        return LLMFailure(request.stage, request.qid, reason)

    def _add_lines_to_fill_in(self, missing: Sequence[Request]) -> ToFillInError:
        """Add lines with empty texts for the missing completions. Returns the error about them."""
        lines = {}
        names: dict[Key, str] = {}
        for request in missing:
            key = _key_of(request)
            names[key] = " ".join(part for part in key if part)
            if len(self._texts(key)) < request.samples:
                lines[key] = write_line(key, self._known(request), BY_HAND)
        self._save(lines)
        return ToFillInError(
            f'{self.path} has {counted(len(names), "line")} with an empty "completion": '
            f"{list_first(list(names.values()))}: fill them in and run the same command again; "
            "or give a model that writes them, --llm"
        )

    def _record(
        self, missing: Sequence[Request], outcomes: Sequence[Completion | LLMFailure]
    ) -> dict[int, LLMFailure]:
        """Add a line for each prompt of which all samples came.

        Returns:
            the failures by the identity of their requests.
        """
        failed: dict[int, LLMFailure] = {}
        texts: dict[Key, list[str]] = {}
        models: dict[Key, str] = {}
        for request, outcome in zip(missing, outcomes, strict=True):
            if isinstance(outcome, LLMFailure):
                failed[id(request)] = outcome
                continue
            key = _key_of(request)
            if key not in texts:
                texts[key] = self._known(request)
            texts[key][request.sample] = outcome.text
            models[key] = outcome.model
        lines = {}
        for key, of_key in texts.items():
            if all(of_key):
                lines[key] = write_line(key, of_key, models[key])
        self._save(lines)
        return failed

    def _known(self, request: Request) -> list[str]:
        """The texts of all samples of a prompt, empty where they are missing."""
        texts = []
        for sample in range(request.samples):
            reply = self.find(replace(request, sample=sample))
            texts.append("" if reply is None else reply.text or "")
        return texts

    def _texts(self, key: Key) -> tuple[str, ...]:
        """The texts in the line of the file with this key."""
        return () if self._own is None else self._own.texts(key)

    def _save(self, lines: Mapping[Key, str]) -> None:
        """Rewrite the file: its lines, without those that are replaced, and the new ones."""
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
    """A language model that records its completions in a file.

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
        >>> messages = [{"role": "user", "content": "Which tea?"}]
        >>> request = Request(messages, stage="keywords", qid="1-1_1", prompt="keywords")
        >>> try:
        ...     recording("keywords.jsonl", "recorded:sample").ask([request])
        ... except ToFillInError:
        ...     print(Path("keywords.jsonl").read_text()[:59])
        {"qid": "1-1_1", "stage": "keywords", "prompt": "keywords",
    """
    account = Ledger() if ledger is None else ledger
    others: RecordedBackend | None = None
    if replayed is not None:
        recorded = llm(replayed).backend
        if not isinstance(recorded, RecordedBackend):
            raise UsageError(
                f"{replayed} is no file of recorded completions: give one, such as recorded:sample"
            )
        others = recorded
    ask = None
    on_error = "raise"
    if model is not None:
        writer = llm(model, ledger=account)
        if writer.structured:
            raise UsageError("recorded completions answer prompts for texts: omit structured=on")
        ask = writer.ask
        on_error = writer.on_error
    backend = RecordingBackend(path, others, ask)
    return LLM(backend, ledger=account, on_error=on_error, text=f"recorded:{path}")
