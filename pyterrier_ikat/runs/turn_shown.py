"""A turn of a chat, drawn by rich in a terminal, as text and in a notebook. All texts are shown as they are, and never interpreted."""

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ..completions.citations import pieces_with_numbers
from ..conversations.frame import well_formed
from ..errors import counted
from ..tables import format_score

if TYPE_CHECKING:
    from ..llms import Ledger
    from .answered_turn import Source, Turn

WIDTH = 100
"""The maximum width of lines, which keeps them easy to read."""
LABEL = 10
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def strip_controls(text: str) -> str:
    """The text without control characters except line feeds and tabs, because passages and LLM output may contain terminal commands.

    Example:
        >>> strip_controls("tea" + chr(27) + "[2J")
        'tea [2J'
    """
    return _CONTROLS.sub(" ", well_formed(text))


def background(turn: "Turn") -> list[tuple[str, tuple[str, ...]]]:
    """How the answer came about, as (label, texts): the rewrite, the queries that differ from it, the chosen statements, the draft."""
    known = {turn.utterance, turn.rewrite, turn.draft}
    queries = () if set(turn.queries) <= known else turn.queries
    found = [
        ("rewrite", (turn.rewrite,) if turn.rewrite else ()),
        ("queries", queries),
        ("statements", turn.statements),
        ("draft", (turn.draft,) if turn.draft else ()),
    ]
    return [(label, texts) for label, texts in found if texts]


def effort(turn: "Turn") -> str:
    """Calls, tokens, cost and time of a turn, and the omitted history, in one line."""
    parts, spend = [], turn.spend
    if spend.calls:
        parts += [counted(spend.calls, "call"), *[counted(spend.tokens or 0, "token")] * (spend.tokens is not None)]
        parts.append("cost unknown" if spend.cost is None else f"{spend.cost:.4f} USD")
    if spend.known:
        parts.append(counted(spend.known, "known completion"))
    parts.append(f"{turn.seconds:.1f} s")
    if turn.omitted:
        parts.append(f"without the {counted(turn.omitted, 'oldest message')} of the history")
    return ", ".join(parts)


def doubts(turn: "Turn") -> list[str]:
    """Warnings about the citations: numbers that don't belong to a passage, or no citations at all."""
    unknown = ", ".join(f"[{number}]" for number in turn.unknown)
    found = [f"no passage has the number {unknown}"] * bool(unknown)
    return found + ["the answer cites none of the passages that it was shown"] * turn.cites_none


def turn_drawn(turn: "Turn", note: bool = True) -> Any:
    """The system's part of a turn, for rich. With ``note``, calls, cost and time are shown."""
    from rich.console import Group
    from rich.text import Text

    shown: list[Any] = [_labelled(background(turn))] if background(turn) else []
    if turn.response:
        answer = Text()
        for piece, numbers in pieces_with_numbers(turn.response, turn.cited or ()):
            answer.append(strip_controls(piece) + " " * bool(numbers)).append(_numbered(numbers), "bold cyan")
        shown += [*[Text()] * bool(shown), answer]
    if turn.sources:
        shown += [*[Text()] * bool(shown), _passages(turn.sources, [one.beginning for one in turn.sources])]
    if not (turn.response or turn.sources):
        shown += [*[Text()] * bool(shown), Text("(no passage found)", style="dim")]
    shown += [Text(f"({doubt})", style="dim") for doubt in doubts(turn)]
    return Group(*shown, *([Text(), Text(f"({effort(turn)})", style="dim")] if note else []))


def sources_drawn(turn: "Turn") -> Any:
    """The whole passages of a turn with their scores, for rich."""
    from rich.console import Group
    from rich.text import Text

    passages = turn.sources or turn.shown
    if not passages:
        return Text("(the answer is based on no passage)", style="dim")
    scores = ["" if one.score is None else f"(score {format_score(one.score)})" for one in passages]
    texts = [f"{score}\n{one.text.strip() or '(its text is not available)'}" for score, one in zip(scores, passages, strict=True)]
    drawn = _passages(passages, texts)
    return Group(Text("(the answer cites none of these passages, which it was shown)", style="dim"), drawn) if turn.cites_none else drawn


def why_drawn(turn: "Turn", account: "Ledger | None") -> Any:
    """How the answer of a turn came about, for rich."""
    from rich.console import Group
    from rich.text import Text

    head = Text(f"turn {turn.number}" + f", method {strip_controls(turn.method)}" * bool(turn.method), style="bold")
    shown: list[Any] = [head, *([_labelled(background(turn))] if background(turn) else [])]
    shown += [Text(), _calls_table(account)] if account is not None and len(account.frame()) else []
    for number, (title, prompt, completion) in enumerate(asked_in(turn), 1):
        shown += [Text(), Text(f"{number}. {strip_controls(title)}", style="bold"), Text(strip_controls(prompt), style="dim")]
        shown += [Text("->", style="bold cyan"), Text(strip_controls(completion))]
    if not turn.asked and turn.spend.completions:
        shown.append(Text("(its prompts and completions are no longer available)", style="dim"))
    return Group(*shown, Text(), Text(f"({effort(turn)})", style="dim"))


def help_drawn(rows: Sequence[tuple[str, str]]) -> Any:
    """The commands that can be typed, and what they do."""
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column()
    for typed, does in rows:
        grid.add_row(Text(typed), Text(does))
    return grid


def asked_in(turn: "Turn") -> Iterator[tuple[str, str, str]]:
    """The title, the prompt and the completion of each request to a language model."""
    for request, outcome in turn.asked:
        title = " ".join(filter(None, (request.stage, request.item)))
        prompt = "\n\n".join(message["content"] for message in request.messages)
        yield title, prompt, f"(failed: {outcome})" if isinstance(outcome, Exception) else outcome.text


def plain(drawn: Any, width: int = WIDTH) -> str:
    """The text that rich would draw."""
    from io import StringIO

    from rich.console import Console

    out = StringIO()
    console = Console(file=out, width=width, color_system=None, force_terminal=False, highlight=False, markup=False, emoji=False)
    console.print(drawn)
    return "\n".join(line.rstrip() for line in out.getvalue().split("\n")).rstrip("\n")


def _numbered(numbers: Sequence[int]) -> str:
    return "".join(f"[{number}]" for number in numbers)


def _labelled(rows: Sequence[tuple[str, Sequence[str]]]) -> Any:
    """Texts next to their dimmed labels."""
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(width=LABEL, style="dim")
    grid.add_column(style="dim", overflow="fold")
    for label, texts in rows:
        for number, text in enumerate(texts):
            mark = "- " * (len(texts) > 1)
            grid.add_row("" if number else label, Text(mark + strip_controls(text.strip())))
    return grid


def _passages(sources: Sequence["Source"], texts: Sequence[str]) -> Any:
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.add_column(style="cyan", no_wrap=True)
    grid.add_column(overflow="fold")
    for number, (source, text) in enumerate(zip(sources, texts, strict=True), 1):
        grid.add_row(f"[{number}]", Text.assemble((strip_controls(source.docno), "bold"), "  ", strip_controls(text)))
    return grid


def _calls_table(account: "Ledger") -> Any:
    """The ledger of a turn, with a line for each stage and model."""
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    columns = account.shown().columns
    for column in columns:
        grid.add_column(column.title, justify="right" if column.numeric else "left", overflow="fold")
    for cells in zip(*(column.cells for column in columns), strict=True):
        grid.add_row(*(Text(strip_controls(cell.text)) for cell in cells))
    return grid


def as_html(drawn: Any) -> str:
    """What rich draws, as HTML for a notebook."""
    from io import StringIO

    from rich.console import Console

    console = Console(file=StringIO(), record=True, width=WIDTH, highlight=False, markup=False, emoji=False)
    console.print(drawn)
    return console.export_html(inline_styles=True, code_format="<pre style='white-space: pre-wrap'>{code}</pre>")


def exchange_drawn(turn: "Turn") -> Any:
    """The user's words and the system's part, for rich."""
    from rich.console import Group
    from rich.text import Text

    return Group(Text(strip_controls(turn.utterance), style="bold"), Text(), turn_drawn(turn), Text())
