"""A turn of a chat, drawn by rich in a terminal, as text and in a notebook. All texts are shown as they are, and never interpreted."""

import re
from collections.abc import Iterable, Iterator, Sequence
from io import StringIO
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

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
    shown: list[Any] = [_labelled(background(turn))] if background(turn) else []
    if turn.response:
        answer = Text()
        for piece, numbers in pieces_with_numbers(turn.response, turn.cited or ()):
            answer.append(strip_controls(piece) + " " * bool(numbers)).append("".join(f"[{number}]" for number in numbers), "bold cyan")
        shown += [*[Text()] * bool(shown), answer]
    if turn.sources:
        shown += [*[Text()] * bool(shown), _passages(turn.sources, [one.beginning for one in turn.sources])]
    if not (turn.response or turn.sources):
        shown += [*[Text()] * bool(shown), Text("(no passage found)", style="dim")]
    shown += [Text(f"({doubt})", style="dim") for doubt in doubts(turn)]
    return Group(*shown, *([Text(), Text(f"({effort(turn)})", style="dim")] if note else []))


def sources_drawn(turn: "Turn") -> Any:
    """The whole passages of a turn with their scores, for rich."""
    passages = turn.sources or turn.shown
    if not passages:
        return Text("(the answer is based on no passage)", style="dim")
    scores = ["" if one.score is None else f"(score {format_score(one.score)})" for one in passages]
    texts = [f"{score}\n{one.text.strip() or '(its text is not available)'}" for score, one in zip(scores, passages, strict=True)]
    drawn = _passages(passages, texts)
    return Group(Text("(the answer cites none of these passages, which it was shown)", style="dim"), drawn) if turn.cites_none else drawn


def why_drawn(turn: "Turn", account: "Ledger | None") -> Any:
    """How the answer of a turn came about, for rich."""
    head = Text(f"turn {turn.number}" + f", method {strip_controls(turn.method)}" * bool(turn.method), style="bold")
    shown: list[Any] = [head, *([_labelled(background(turn))] if background(turn) else [])]
    shown += [Text(), Text(strip_controls(str(account)))] if account is not None and len(account.frame()) else []
    for number, (title, prompt, completion) in enumerate(asked_in(turn), 1):
        shown += [Text(), Text(f"{number}. {strip_controls(title)}", style="bold"), Text(strip_controls(prompt), style="dim")]
        shown += [Text("->", style="bold cyan"), Text(strip_controls(completion))]
    if not turn.asked and turn.spend.completions:
        shown.append(Text("(its prompts and completions are no longer available)", style="dim"))
    return Group(*shown, Text(), Text(f"({effort(turn)})", style="dim"))


def help_drawn(rows: Sequence[tuple[str, str]]) -> Any:
    """The commands that can be typed, and what they do."""
    return _grid((Text(typed, "bold"), Text(does)) for typed, does in rows)


def asked_in(turn: "Turn") -> Iterator[tuple[str, str, str]]:
    """The title, the prompt and the completion of each request to a language model."""
    for request, outcome in turn.asked:
        title = " ".join(filter(None, (request.stage, request.item)))
        prompt = "\n\n".join(message["content"] for message in request.messages)
        yield title, prompt, f"(failed: {outcome})" if isinstance(outcome, Exception) else outcome.text


def plain(drawn: Any, width: int = WIDTH) -> str:
    """The text that rich would draw."""
    out = StringIO()
    console = Console(file=out, width=width, color_system=None, force_terminal=False, highlight=False, markup=False, emoji=False)
    console.print(drawn)
    return "\n".join(line.rstrip() for line in out.getvalue().split("\n")).rstrip("\n")


def _grid(rows: Iterable[tuple[Text, Text]], gap: int = 2) -> Table:
    """Two columns. Only the second one may be broken into lines."""
    grid = Table.grid(padding=(0, gap, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for row in rows:
        grid.add_row(*row)
    return grid


def _labelled(rows: Sequence[tuple[str, Sequence[str]]]) -> Table:
    """Texts next to their dimmed labels."""
    lines = [(label * (not number), "- " * (len(texts) > 1) + text.strip()) for label, texts in rows for number, text in enumerate(texts)]
    return _grid((Text(label.ljust(LABEL), "dim"), Text(strip_controls(text), "dim")) for label, text in lines)


def _passages(sources: Sequence["Source"], texts: Sequence[str]) -> Table:
    shown = [
        Text.assemble((strip_controls(one.docno), "bold"), "  ", strip_controls(text)) for one, text in zip(sources, texts, strict=True)
    ]
    return _grid(((Text(f"[{number}]", "cyan"), text) for number, text in enumerate(shown, 1)), gap=1)


def as_html(drawn: Any) -> str:
    """What rich draws, as HTML for a notebook."""
    console = Console(file=StringIO(), record=True, width=WIDTH, highlight=False, markup=False, emoji=False)
    console.print(drawn)
    return console.export_html(inline_styles=True, code_format="<pre style='white-space: pre-wrap'>{code}</pre>")


def exchange_drawn(turn: "Turn") -> Any:
    """The user's words and the system's part, for rich."""
    return Group(Text(strip_controls(turn.utterance), style="bold"), Text(), turn_drawn(turn), Text())
