"""How a chat looks in a notebook: the same as in a terminal. All texts are escaped."""

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from .turn_drawn import CITATION, asked_in, background, call_rows, effort, stray_citations

if TYPE_CHECKING:
    from ..llms import Ledger
    from .answered_turn import Source, Turn

SAID = "margin-left: 4em; padding: .4em .8em; border-right: 4px solid #2f7d4f"
ANSWERED = "margin-right: 4em; padding: .4em .8em; border-left: 4px solid #1d5b8f"
ALIGNED = "text-align: left; padding-right: 1em"
DIM = "opacity: .7; font-size: smaller"


def turn_html(turn: "Turn") -> str:
    """One exchange: the user's words, how the answer came about, the answer and its passages."""
    answer = CITATION.sub(r"<b>[\1]</b>", escape(turn.response)) if turn.response else "" if turn.sources else "<i>no passage found</i>"
    sources = "".join(_source(number, source) for number, source in enumerate(turn.sources, 1))
    return (
        f"<div style='max-width: 50em; margin: .6em 0'><div style='{SAID}'>{escape(turn.utterance)}</div>"
        f"<div style='{ANSWERED}'>{_background(turn)}<div style='white-space: pre-wrap'>{answer}</div>"
        f"<div style='margin: .4em 0; font-size: smaller'>{sources}</div>{_note(turn)}</div></div>"
    )


def chat_html(number: str, turns: Sequence["Turn"]) -> str:
    """All exchanges of a chat."""
    return "".join(map(turn_html, turns)) or f"<i>chat {escape(number)}: nothing said yet</i>"


def why_html(turn: "Turn", account: "Ledger | None") -> str:
    """How the answer of a turn came about: the prompts and completions open on a click."""
    calls = _calls(account) if account is not None and len(account.frame()) else ""
    opened = "".join(
        f"<details><summary>{number}. {escape(title)}</summary><pre style='white-space: pre-wrap; opacity: .7'>{escape(prompt)}</pre>"
        f"<pre style='white-space: pre-wrap'>{escape(completion)}</pre></details>"
        for number, (title, prompt, completion) in enumerate(asked_in(turn), 1)
    )
    head = f"turn {turn.number}" + f", method {escape(turn.method)}" * bool(turn.method)
    return f"<div style='max-width: 50em; margin: .6em 0'><b>{head}</b>{_background(turn)}{calls}{opened}{_note(turn)}</div>"


def _background(turn: "Turn") -> str:
    rows = "".join(
        f"<div style='{DIM}'>{label}: {'; '.join(map(escape, texts))}</div>" if len(texts) == 1 else _list(label, texts)
        for label, texts in background(turn)
    )
    return f"<div style='margin-bottom: .3em'>{rows}</div>" if rows else ""


def _list(label: str, texts: Sequence[str]) -> str:
    items = "".join(f"<li>{escape(text)}</li>" for text in texts)
    return f"<div style='{DIM}'>{label}:<ul style='margin: 0'>{items}</ul></div>"


def _calls(account: "Ledger") -> str:
    rows = "".join(f"<tr>{''.join(f'<td style={ALIGNED!r}>{escape(cell)}</td>' for cell in row)}</tr>" for row in call_rows(account))
    return f"<table style='font-size: smaller; margin: .4em 0'>{rows}</table>"


def _source(number: int, source: "Source") -> str:
    """A passage, whose whole text opens on a click."""
    first = f"[{number}] <code>{escape(source.docno)}</code> {escape(source.beginning)}"
    score = "" if source.score is None else f"<i>score {source.score:.4f}</i> "
    return f"<details><summary>{first}</summary><div style='margin-left: 2em'>{score}{escape(source.text)}</div></details>"


def _note(turn: "Turn") -> str:
    strays = ", ".join(f"[{number}]" for number in stray_citations(turn))
    note = f"no passage has the number {strays}; " * bool(strays) + effort(turn)
    return f"<div style='{DIM}'>{note}</div>"
