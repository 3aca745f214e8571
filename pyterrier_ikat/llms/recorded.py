"""Replay completions from a file of JSON lines, or published ones, without a key or a call."""

import functools
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from ..conversations.public_outputs import OUTPUTS, STUDIES, Output, origin_of
from ..errors import DataError, UsageError, counted, list_first
from .backend import Backend
from .failures import LLMFailure
from .request import Reply, Request

_FOLDER = Path(__file__).parent.parent / "conversations" / "sample"
SAMPLE = {
    "sample": _FOLDER / "recorded.jsonl",
    "sample-claude": _FOLDER / "recorded_claude.jsonl",
    "sample-users": _FOLDER / "recorded_users.jsonl",
}

Key = tuple[str, str, str | None, str | None]
"""Turn, stage, prompt and item."""
LINE_FORM = (
    '{"qid": "9-1_3", "stage": "answer", "completion": text or list of texts, '
    '"model": "recorded"}, with "prompt" and "item" if needed'
)


class _Record(NamedTuple):
    completions: tuple[str, ...]
    model: str

    def runs(self, samples: int) -> int:
        """The number of runs that each get that many completions of their own."""
        return max(1, len(self.completions) // samples)


class RecordedBackend(Backend):
    """Answers from a file with one JSON object per line.

    Its fields are ``qid``, ``stage``, ``completion``, ``model``, optionally ``prompt`` and
    ``item``. A record without ``prompt`` (``item``) answers every prompt (item) of its turn and
    stage. The most specific record wins, one with a prompt before one with an item. A list as
    ``completion`` holds several samples. If a system is run several times, each run takes as many
    new samples as it asks for, so that runs share none. When too few are left for another run, it
    takes the last ones again.

    Args:
        path: the file; a name of :data:`~pyterrier_ikat.conversations.public_outputs.OUTPUTS`; or
            ``"sample"`` for the completions written for the bundled sample (``"sample-claude"``:
            those written in the part of a second model; ``"sample-users"``: in the part of the
            sample's simulated users and of their judge).

    Raises:
        DataError: when the file is missing, a line is malformed, or two lines answer the same
            request differently.
    """

    batch_size, replays = 1_000_000, True

    def __init__(self, path: str) -> None:
        self.model = "recorded"
        self.output = OUTPUTS.get(path)
        self.name = path
        if self.output is not None:
            model = path
            self.name = f"recorded:{path}"
            self.source = f"{self.name}: {origin_of(self.output.source)}"
            self._records, checksum = _read_output(self.output)
        else:
            if path in SAMPLE:
                self.name = f"recorded:{path}"
            file = SAMPLE.get(path, Path(path))
            model = str(file.resolve())
            self._records, checksum = _read(file)
        self.identity = {
            "provider": "recorded",
            "model": model,
            "params": {},
            "sha256": checksum,
        }

    def complete(self, requests: list[Request]) -> list[Reply | LLMFailure]:
        """Replay the completions of ``requests``.

        Raises:
            DataError: when the file lacks any of them. The message names all these turns, and a
                line to add.
        """
        replies: list[Reply | LLMFailure] = []
        missing = []
        for request in requests:
            reply = self.find(request)
            if reply is None:
                missing.append(request)
            else:
                replies.append(reply)
        if missing:
            raise self._lacks(missing)
        return replies

    def _lacks(self, missing: Sequence[Request]) -> DataError:
        """The error about completions that the file lacks."""
        self.check_turns({request.qid for request in missing})
        names = []
        for request in missing:
            parts = [request.qid, request.stage, request.prompt, request.item]
            if request.sample > 0:
                parts.append(f"sample {request.sample}")
            names.append(" ".join(part for part in parts if part))
        if self.output is None:
            repair = (
                f"add lines {LINE_FORM} (`ikat run --record FILE` writes them); or take another llm"
            )
        else:
            repair = "take another llm for it"
        if all(request.sample > 0 for request in missing):
            repair += ", or fewer samples"
        number = counted(len(missing), "completion")
        return DataError(f"{self.name} lacks {number}: {list_first(names)}: {repair}")

    def find(self, request: Request) -> Reply | None:
        """The reply to ``request``, or None when the file has none."""
        prompt = request.prompt or None
        item = request.item or None
        for key in ((prompt, item), (prompt, None), (None, item), (None, None)):
            record = self._records.get((request.qid, request.stage, *key))
            if record is not None and request.sample < len(record.completions):
                run = min(request.chain, record.runs(request.samples) - 1)
                number = run * request.samples + request.sample
                text = record.completions[min(number, len(record.completions) - 1)]
                return Reply(text, record.model, finish_reason="stop")
        return None

    def texts(self, key: Key) -> tuple[str, ...]:
        """The completions of the record with exactly this key; none without such a record."""
        record = self._records.get(key)
        return () if record is None else record.completions

    def check_turns(self, turns: set[str]) -> None:
        """Refuse turns that a public output lacks.

        Turns that a file lacks are named when they are asked for.
        """
        if self.output is not None:
            self.output.check_turns(turns, {key[0] for key in self._records})

    def repeats(self, samples: int, asked: Mapping[str, int] | None = None) -> str:
        """How many records have too few completions, and for how many runs they are enough."""
        few = 0
        runs = []
        for (_qid, stage, _prompt, _item), record in self._records.items():
            if asked is not None and stage not in asked:
                continue
            number = 1 if asked is None else asked[stage]
            runs.append(record.runs(number))
            if len(record.completions) < samples * number:
                few += 1
        if not few:
            return ""
        return (
            f"{few} of {counted(len(runs), 'record')} of {self.name} with too few completions, "
            f"enough for {counted(min(runs), 'independent run')}"
        )


class StudyBackend(Backend):
    """The outputs of a study, from which each method takes its own.

    See :func:`~pyterrier_ikat.llms.spec.recording_of`. Other stages have no output in the study, so
    asking for one is an error.

    Args:
        study: a name of :data:`~pyterrier_ikat.conversations.public_outputs.STUDIES`.
    """

    replays = True

    def __init__(self, study: str) -> None:
        self.study, self.model = study, "recorded"
        self.identity = {"provider": "recorded", "model": study, "params": {}}

    def complete(self, requests: list[Request]) -> list[Reply | LLMFailure]:
        """Raise an error, because no method of the study asks.

        Raises:
            UsageError: naming the methods that have an output.
        """
        self.check_turns({request.qid for request in requests})
        return []

    def check_turns(self, turns: set[str]) -> None:
        """Refuse the turns of a system that is no method of the study."""
        example = next(name for name in OUTPUTS if name.startswith(f"{self.study}-"))
        raise UsageError(
            f"recorded:{self.study} has completions of the methods {STUDIES[self.study]}, and a "
            "system isn't one of them: give it another llm, or one of the study's prompts, such as "
            f"recorded:{example}"
        )


def _read_output(output: Output) -> tuple[dict[Key, _Record], str]:
    """The records of a public output, and their checksum."""
    records: dict[Key, _Record] = {}
    checksum = hashlib.sha256()
    for (qid, stage, prompt), texts in output.completions().items():
        model = output.model
        if prompt and prompt.startswith(("rewrite_and_answer", "reformulate")):
            model += ", rewrite and answer composed"
        records[qid, stage, prompt, None] = _Record(texts, model)
        checksum.update(json.dumps([qid, stage, prompt, texts]).encode())
    return records, checksum.hexdigest()


def _read(path: Path) -> tuple[dict[Key, _Record], str]:
    """The records of a file, and its checksum."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise _unreadable(path, error) from None
    return _parse(path, content), hashlib.sha256(content).hexdigest()


def _unreadable(path: Path, error: Exception) -> DataError:
    return DataError(f"{path} can't be read as recorded completions (UTF-8 JSON lines): {error}")


@functools.lru_cache(maxsize=4)
def _parse(path: Path, content: bytes) -> dict[Key, _Record]:
    """The records of a file with this content. Several LLMs of one process replay the same file."""
    try:
        lines = content.decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise _unreadable(path, error) from None
    records: dict[Key, _Record] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            key, record = read_line(line)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise DataError(
                f"{path} line {number} is not a recorded completion ({error}): "
                f"a line reads {LINE_FORM}"
            ) from None
        if records.setdefault(key, record).completions != record.completions:
            raise DataError(
                f"{path} line {number} answers the same request as an earlier line, differently: "
                "remove one of them"
            )
    return records


def read_line(line: str) -> tuple[Key, _Record]:
    """The key and the record of a line.

    Raises:
        ValueError: when the line is no JSON; and ``TypeError``, ``KeyError`` or ``AttributeError``
            when it is no record.

    Example:
        >>> line = '{"qid": "9-1_3", "stage": "answer", "completion": "Mint.", "model": "recorded"}'
        >>> read_line(line)[0]
        ('9-1_3', 'answer', None, None)
    """
    data = json.loads(line)
    texts = data["completion"]
    if not isinstance(texts, list):
        texts = [texts]
    key = str(data["qid"]), data["stage"], data.get("prompt") or None, data.get("item") or None
    if not texts or not all(isinstance(text, str) for text in (*texts, data["model"])):
        raise TypeError("a value is no text")
    return key, _Record(tuple(texts), data["model"])


def write_line(key: Key, texts: Sequence[str], model: str) -> str:
    """The line of a record.

    Example:
        >>> write_line(("9-1_3", "answer", None, None), ["Mint."], "recorded")
        '{"qid": "9-1_3", "stage": "answer", "completion": "Mint.", "model": "recorded"}'
    """
    qid, stage, prompt, item = key
    data: dict[str, str | list[str]] = {"qid": qid, "stage": stage}
    if prompt is not None:
        data["prompt"] = prompt
    if item is not None:
        data["item"] = item
    data["completion"] = texts[0] if len(texts) == 1 else list(texts)
    data["model"] = model
    return json.dumps(data, ensure_ascii=False)
