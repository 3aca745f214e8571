"""The page of a report: one HTML file with its style and its script inside, which loads nothing.

Texts of users, passages and models are escaped by jinja. Should one slip through, the page's content security policy names the hash of the
page's only script and style. The browser runs nothing else.
"""

import base64
import hashlib
import json
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from html import escape
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from ...errors import counted
from ...runs import RunFolder
from ...runs.stages import NAME
from ...store.files import atomic_write
from ...tables import format_score

FOLDER = Path(__file__).parent / "files"
OF_RANKINGS = ("turns.js", "compare.js", "overview.js", "rankings.js", "calls.js", "search.js", "notes.js", "moving.js")
OF_SESSIONS = ("turns.js", "compare.js", "overview.js", "sessions.js", "search.js", "notes.js", "moving.js")
SHOWN = 4
"""How many systems are shown side by side at the beginning. If there are more, only the baseline and the one compared with it are shown."""


COLOURS, SHAPES = 7, 4
"""Runs differ by both. Two of fourteen runs that share a colour have different shapes, see ``report.css``."""


class Report:
    """A page that shows runs. It displays itself in a notebook.

    Attributes:
        html: the whole page, which loads nothing from anywhere.
        name: what it shows, for screen readers.
    """

    def __init__(self, html: str, name: str) -> None:
        self.html = html
        self.name = name

    def save(self, path: str | Path) -> Path:
        """Write the page into a file, completely or not at all.

        Returns:
            The file.
        """
        with atomic_write(path) as file:
            file.write(self.html)
        return Path(path)

    def _repr_html_(self) -> str:
        """The page in its own frame, so that its script can't reach the notebook."""
        page, name = escape(self.html), escape(self.name)
        return f'<iframe title="{name}" srcdoc="{page}" sandbox="allow-scripts" width="100%" height="720" style="border: 0"></iframe>'

    def __repr__(self) -> str:
        return f"<report of {self.name}, {len(self.html.encode()) / 1e6:.1f} MB: .save(path) writes it>"


def render_page(template: str, scripts: Sequence[str], **values: Any) -> str:
    """The page. Characters that HTML files can't have (zeros, half characters) are replaced.

    Args:
        template: the name of a template.
        scripts: the files of its script.
        values: what the template shows.
    """
    css, script = (FOLDER / "report.css").read_text(encoding="utf-8"), read_script(scripts)
    policy = f"default-src 'none'; style-src '{_hash(css)}'; script-src '{_hash(script)}'; base-uri 'none'; form-action 'none'"
    page = _environment().get_template(template).render(css=Markup(css), script=Markup(script), policy=policy, **values)
    return re.sub("[\x00\ud800-\udfff]", "\ufffd", page)


def read_script(scripts: Sequence[str]) -> str:
    """A page's script. Its files share one scope, in this order."""
    return "\n".join((FOLDER / name).read_text(encoding="utf-8") for name in scripts)


def shown_first(systems: int, baseline: int, compared: int) -> Sequence[int]:
    """The numbers of the systems that are shown at the beginning.

    Example:
        >>> list(shown_first(3, 0, 1)), list(shown_first(9, 0, 7))
        ([0, 1, 2], [0, 7])
    """
    return range(systems) if systems <= SHOWN else (baseline, compared)


def look(number: int) -> str:
    """The classes of a run's colour and shape, and the dash of its line. Twenty-eight runs look different.

    Example:
        >>> look(0), look(7), look(13)
        ('r0 s0', 'r0 s3', 'r6 s1')
    """
    return f"r{number % COLOURS} s{number % SHAPES}"


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


@lru_cache
def _environment() -> Environment:
    made = Environment(loader=FileSystemLoader(FOLDER), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    made.filters |= {"format_score": format_score, "counted": counted}
    made.filters["look"] = look
    return made


LONGEST = (None, 2000, 500, 120)
"""How many characters of each line of a prompt are kept; fewer if a page has many calls."""
BYTES = 2_500_000
"""The maximum number of bytes for the calls of a page."""


@dataclass(frozen=True)
class Call:
    """An LLM call.

    Attributes:
        name: the prompt, and its object within the turn.
        stage: the repr of the stage that asked.
        messages: the messages of the call.
        completion: what the model wrote, or why there is no completion.
        failed: whether there is no completion.
    """

    name: str
    stage: str
    messages: Sequence[Mapping[str, str]]
    completion: str
    failed: bool = False


@dataclass
class Kept:
    """The queries that retrievers got on a turn, and its LLM calls."""

    searched: list[str] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)


def read_kept(folder: RunFolder) -> dict[str, Kept]:
    """Turn -> the work of its stages; empty for a folder without ``stages.jsonl.gz``.

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
    for qid, query in rewritten.items():  # a retriever of another package is not recorded: it got the text that was written last
        kept[qid].searched = kept[qid].searched or [query]
    return kept


def _call(stage: str, asked: Mapping[str, Any]) -> Call:
    failed, name = "failure" in asked, " ".join(filter(None, (asked.get("prompt"), asked.get("item"))))
    return Call(name or "call", stage, asked["messages"], asked["failure" if failed else "completion"], failed)


def pack_calls(
    turns: Sequence[str], runs: Sequence[Mapping[str, Sequence[Call]]], reasons: Mapping[str, Sequence[Sequence[str]]]
) -> tuple[str, str]:
    """The calls and the sentences of a page, compressed.

    Args:
        turns: the turns, in the order of the page.
        runs: for each run its calls by turn.
        reasons: for each turn and measure the text on every pair of runs.

    Returns:
        The JSON ``{"reasons", "lines", "calls"}``, deflated and in base64, or an empty text if there is nothing; and a note on what was
        cut, or an empty text.

    Example:
        >>> pack_calls(["9-1_3"], [{}], {})
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
    """The distinct lines, and for each turn and run the calls with the numbers of their lines."""
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
