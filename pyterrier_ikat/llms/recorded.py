"""Replays completions from a file of JSON lines, or published ones: no key, no calls, always the same answers."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ..conversations.public_outputs import OUTPUTS, Output, whose
from ..errors import DataError, counted, list_first
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


@dataclass(frozen=True)
class _Record:
    line: int
    completions: tuple[str, ...]
    model: str


class RecordedBackend(Backend):
    """Answers from ``path``, one JSON object per line: ``qid``, ``stage``, ``completion``, ``model``, optionally ``prompt`` and ``item``.

    A record without ``prompt`` (``item``) answers every prompt (item) of its turn and stage. The most specific record wins, one with a
    prompt before one with an item. A list as ``completion`` holds several samples. If a system is run several times, each run takes as many
    new samples as it asks for, so that runs share none. When too few are left for another run, it takes the last ones again.

    Args:
        path: the file; a name of :data:`~pyterrier_ikat.conversations.public_outputs.OUTPUTS`; or ``"sample"`` for the completions
            written for the bundled sample (``"sample-claude"``: those written in the part of a second model; ``"sample-users"``: in the
            part of the sample's simulated users and of their judge).

    Raises:
        DataError: when the file is missing, a line is malformed, or two lines answer the same request differently.
    """

    batch_size, replays = 1_000_000, True

    def __init__(self, path: str) -> None:
        self.output = OUTPUTS.get(path)
        self.path = SAMPLE.get(path, Path(path))
        self.model = "recorded"
        self._records, checksum = _read(self.path) if self.output is None else _read_output(self.output)
        self.source = "" if self.output is None else f"recorded:{path}: {whose(self.output.source)}"
        named = str(self.path.resolve()) if self.output is None else path
        self.identity = {"provider": "recorded", "model": named, "params": {}, "sha256": checksum}

    def complete(self, requests: list[Request]) -> list[Reply | LLMFailure]:
        """Replay the completions of ``requests``.

        Raises:
            DataError: when the file lacks any of them. The message names all these turns, and a line to add.
        """
        missing = [request for request in requests if self.find(request) is None]
        if missing and self.output is not None:
            self.check_turns({request.qid for request in requests})
            stages = ", ".join(sorted({f"{request.stage} ({request.prompt})" for request in missing}))
            most = max(request.sample for request in missing) + 1
            lacks = f"no completion of {stages}" + f", sample {most}" * (most > 1)
            raise DataError(f"recorded:{self.output.name} has {self.output.about}, but {lacks}: take another llm for it, or fewer samples")
        if missing:
            raise DataError(_describe_missing(self.path, missing))
        return [reply for reply in map(self.find, requests) if reply is not None]

    def find(self, request: Request) -> Reply | None:
        """The reply to ``request``, or None when the file has none."""
        prompt, item = request.prompt or None, request.item or None
        for key in ((prompt, item), (prompt, None), (None, item), (None, None)):
            record = self._records.get((request.qid, request.stage, *key))
            if record is not None and request.sample < len(record.completions):
                first = min(request.chain, _runs(record, request.samples) - 1) * request.samples
                place = min(first + request.sample, len(record.completions) - 1)
                return Reply(record.completions[place], record.model, finish_reason="stop")
        return None

    def check_turns(self, turns: set[str]) -> None:
        """Refuse turns that a public output lacks. Turns that a file lacks are named when they are asked for."""
        if self.output is not None:
            self.output.check_turns(turns, {key[0] for key in self._records})

    def repeats(self, samples: int, asked: Mapping[str, int] | None = None) -> str:
        """The number of records with fewer completions, and the number of independent runs that they are enough for."""
        each = {key: 1 if asked is None else asked[key[1]] for key in self._records if asked is None or key[1] in asked}
        few = sum(len(self._records[key].completions) < samples * number for key, number in each.items())
        if not few:
            return ""
        name = self.path.name if self.output is None else f"recorded:{self.output.name}"
        text = f"{few} of {counted(len(each), 'record')} of {name} with fewer than {counted(samples * max(each.values()), 'completion')}"
        runs = min(_runs(self._records[key], number) for key, number in each.items())
        return f"{text}, enough for {counted(runs, 'independent run')} of {counted(max(each.values()), 'sample')}"


def _runs(record: _Record, samples: int) -> int:
    """The number of runs that can take that many completions of their own."""
    return max(1, len(record.completions) // samples)


def _read_output(output: Output) -> tuple[dict[Key, _Record], str]:
    """The records of a public output, and their checksum."""
    records: dict[Key, _Record] = {}
    seen = hashlib.sha256()
    for (qid, stage, prompt), texts in output.completions().items():
        composed = ", rewrite and answer composed" if prompt and prompt.startswith(("rewrite_and_answer", "reformulate")) else ""
        records[qid, stage, prompt, None] = _Record(0, texts, f"{output.model}{composed}")
        seen.update(json.dumps([qid, stage, prompt, texts]).encode())
    return records, seen.hexdigest()


def _read(path: Path) -> tuple[dict[Key, _Record], str]:
    """The records of a file, and its checksum."""
    try:
        content = path.read_bytes()
        lines = content.decode("utf-8").split("\n")
    except FileNotFoundError:
        raise DataError(f"there is no file {path} of recorded completions: check the path after 'recorded:'") from None
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read as recorded completions (UTF-8 JSON lines): {error}") from None
    records: dict[Key, _Record] = {}
    for number, line in enumerate(lines, 1):
        if line.strip():
            key, record = _parse_record(line, number, path)
            known = records.setdefault(key, record)
            if known.completions != record.completions:
                raise DataError(
                    f"{path} lines {known.line} and {number} answer the same request differently: {_describe(*key)}: remove one of them"
                )
    return records, hashlib.sha256(content).hexdigest()


def _parse_record(line: str, number: int, path: Path) -> tuple[Key, _Record]:
    try:
        data = json.loads(line)
        texts = data["completion"] if isinstance(data["completion"], list) else [data["completion"]]
        key = data["qid"], data["stage"], data.get("prompt") or None, data.get("item") or None
        if not texts or not all(isinstance(text, str) for text in (*texts, *filter(None, key), data["model"])):
            raise TypeError("a value is no text")
        return key, _Record(number, tuple(texts), data["model"])
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise DataError(
            f'{path} line {number} is not a recorded completion ({error}): a line reads {{"qid": "9-1_3", "stage": "answer", '
            '"completion": text or list of texts, "model": "recorded"}, with "prompt" and "item" if needed'
        ) from None


def _describe_missing(path: Path, missing: list[Request]) -> str:
    shown = list_first([_describe(one.qid, one.stage, one.prompt, one.item, one.sample) for one in missing])
    first = max(missing, key=lambda one: one.sample)
    wanted: dict[str, object] = {"qid": first.qid, "stage": first.stage, "prompt": first.prompt, "item": first.item}
    wanted |= {"completion": ["..."] * (first.sample + 1) if first.sample else "...", "model": "recorded"}
    line = json.dumps({name: value for name, value in wanted.items() if value}, ensure_ascii=False)
    advice = f"give each turn a line with a list of {first.sample + 1} samples, such as" if first.sample else "add lines such as"
    if path in SAMPLE.values():
        scope = "they are for the sample's turns and the package's prompts"
        advice = f"{scope}; take another llm, or a file of your own, recorded:FILE, and {advice}"
    source = next((f"recorded:{name}" for name, file in SAMPLE.items() if file == path), path)
    return f"{source} lacks {counted(len(missing), 'completion')}: {shown}: {advice} {line}"


def _describe(qid: str, stage: str, prompt: str | None, item: str | None, sample: int = 0) -> str:
    named = {"qid": qid, "stage": stage, "prompt": prompt, "item": item, "sample": sample}
    return ", ".join(f"{name} {value}" for name, value in named.items() if value)
