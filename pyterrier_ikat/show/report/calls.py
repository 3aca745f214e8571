"""What a run folder keeps of each turn's stages: the queries that were searched for, and the LLM calls; and how a page holds the calls.

Prompts repeat themselves: those of all systems and turns of a conversation show the same history. A page keeps each line of them once,
compressed, and its script puts a prompt together when a reader opens it.
"""

import base64
import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...runs import RunFolder
from ...runs.stages import NAME

LONGEST = (None, 2000, 500, 120)
"""So many characters of each line of a prompt are kept; fewer where the calls of a page are many."""
BYTES = 2_500_000
"""The calls of a page have at most so many."""


@dataclass(frozen=True)
class Call:
    """An LLM call.

    Attributes:
        name: the prompt, and what within the turn it was about.
        stage: the repr of the stage that asked.
        messages: what it asked.
        completion: what the model wrote, or why there is nothing.
        failed: whether there is nothing.
    """

    name: str
    stage: str
    messages: Sequence[Mapping[str, str]]
    completion: str
    failed: bool = False


@dataclass
class Kept:
    """What the stages did of a turn."""

    searched: list[str] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)


def read_kept(folder: RunFolder) -> dict[str, Kept]:
    """Turn -> what its stages did; nothing for a folder without ``stages.jsonl.gz``.

    Raises:
        DataError: when the file can't be read.
    """
    kept: dict[str, Kept] = {}
    if not (folder.path / NAME).is_file():
        return kept
    rewritten: dict[str, str] = {}
    for line in folder.stages():
        turn = kept.setdefault(line["qid"], Kept())
        turn.searched += [query["query"] for query in line.get("found", ())]
        turn.calls += [_call(line["stage"], asked) for asked in line.get("asked", ())]
        if isinstance(query := line.get("wrote", {}).get("query"), str):
            rewritten[line["qid"]] = query
    for qid, query in rewritten.items():  # a retriever of another package is not seen: it got what was written last
        kept[qid].searched = kept[qid].searched or [query]
    return kept


def _call(stage: str, asked: Mapping[str, Any]) -> Call:
    failed, name = "failure" in asked, " ".join(filter(None, (asked.get("prompt"), asked.get("item"))))
    return Call(name or "call", stage, asked["messages"], asked["failure" if failed else "completion"], failed)


def pack(
    turns: Sequence[str], runs: Sequence[Mapping[str, Sequence[Call]]], reasons: Mapping[str, Sequence[Sequence[str]]]
) -> tuple[str, str]:
    """The calls and the sentences of a page, compressed.

    Args:
        turns: the turns, in the order of the page.
        runs: for each run its calls by turn.
        reasons: for each turn and measure the text on every pair of runs.

    Returns:
        The JSON ``{"reasons", "lines", "calls"}``, deflated and in base64, or nothing where there is nothing; and a note on what was
        cut, or nothing.

    Example:
        >>> pack(["9-1_3"], [{}], {})
        ('', '')
    """
    said = [list(reasons.get(qid, ())) for qid in turns] if any(map(len, reasons.values())) else []
    if not any(run.get(qid) for run in runs for qid in turns):
        return (_deflate({"reasons": said, "lines": [], "calls": []}), "") if said else ("", "")
    for longest in LONGEST:
        packed = _deflate({"reasons": said} | _numbered(turns, runs, longest))
        if len(packed) <= BYTES:
            return packed, f"Lines of prompts and completions are cut at {longest} characters." if longest else ""
    return _deflate({"reasons": said, "lines": [], "calls": []}), "The LLM calls are too many for one page: make a report of fewer turns."


def _numbered(turns: Sequence[str], runs: Sequence[Mapping[str, Sequence[Call]]], longest: int | None) -> dict[str, Any]:
    """The distinct lines, and for each turn and run the calls with the numbers of theirs."""
    numbers: dict[str, int] = {}

    def lines(text: str) -> list[int]:
        return [numbers.setdefault(_cut(line, longest), len(numbers)) for line in text.split("\n")]

    def shown(calls: Iterable[Call]) -> list[Any]:
        return [
            [
                call.name,
                call.stage,
                [[one["role"], lines(one["content"])] for one in call.messages],
                lines(call.completion),
                int(call.failed),
            ]
            for call in calls
        ]

    found = [[shown(run.get(qid, ())) for run in runs] for qid in turns]
    return {"calls": found, "lines": list(numbers)}


def _cut(line: str, longest: int | None) -> str:
    return line if longest is None or len(line) <= longest else f"{line[:longest]} […]"


def _deflate(value: Any) -> str:
    return base64.b64encode(zlib.compress(json.dumps(value, separators=(",", ":")).encode(), 9)).decode()
