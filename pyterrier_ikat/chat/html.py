"""How a chat looks in a notebook: the same as in a terminal. All texts are escaped."""

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from .display import CITATION, asked_in, background, effort, stray_citations

if TYPE_CHECKING:
    from ..llms import Ledger
    from .turn import ChatTurn, Source

SAID = "margin-left: 4em; padding: .4em .8em; border-right: 4px solid #2f7d4f"
ANSWERED = "margin-right: 4em; padding: .4em .8em; border-left: 4px solid #1d5b8f"
DIM = "opacity: .7; font-size: smaller"


def turn_html(turn: "ChatTurn") -> str:
    """One exchange: the user's words, how the answer came about, the answer and its passages."""
    answer = CITATION.sub(r"<b>[\1]</b>", escape(turn.response)) if turn.response else "" if turn.sources else "<i>no passage found</i>"
    sources = "".join(map(_source, turn.sources))
    return (
        f"<div style='max-width: 50em; margin: .6em 0'><div style='{SAID}'>{escape(turn.utterance)}</div>"
        f"<div style='{ANSWERED}'>{_background(turn)}<div style='white-space: pre-wrap'>{answer}</div>"
        f"<ol style='margin: .3em 0 0; font-size: smaller'>{sources}</ol>{_note(turn)}</div></div>"
    )


def chat_html(number: str, turns: Sequence["ChatTurn"]) -> str:
    """All exchanges of a chat."""
    return "".join(map(turn_html, turns)) or f"<i>chat {escape(number)}: nothing said yet</i>"


def why_html(turn: "ChatTurn", account: "Ledger | None") -> str:
    """How the answer of a turn came about: the prompts and completions open on a click."""
    calls = account._repr_html_() if account is not None and len(account.frame()) else ""
    opened = "".join(
        f"<details><summary>{number}. {escape(title)}</summary><pre style='white-space: pre-wrap; opacity: .7'>{escape(prompt)}</pre>"
        f"<pre style='white-space: pre-wrap'>{escape(completion)}</pre></details>"
        for number, (title, prompt, completion) in enumerate(asked_in(turn), 1)
    )
    head = f"turn {turn.turn_id}" + f", method {escape(turn.method)}" * bool(turn.method)
    return f"<div style='max-width: 50em; margin: .6em 0'><b>{head}</b>{_background(turn)}{calls}{opened}{_note(turn)}</div>"


def _background(turn: "ChatTurn") -> str:
    rows = "".join(
        f"<div style='{DIM}'>{label}: {'; '.join(map(escape, texts))}</div>" if len(texts) == 1 else _list(label, texts)
        for label, texts in background(turn)
    )
    return f"<div style='margin-bottom: .3em'>{rows}</div>" if rows else ""


def _list(label: str, texts: Sequence[str]) -> str:
    items = "".join(f"<li>{escape(text)}</li>" for text in texts)
    return f"<div style='{DIM}'>{label}:<ul style='margin: 0'>{items}</ul></div>"


def _source(source: "Source") -> str:
    """A passage, whose whole text opens on a click."""
    first = f"<code>{escape(source.docno)}</code> {escape(source.beginning)}"
    score = "" if source.score is None else f"<i>score {source.score:.4f}</i> "
    return f"<li><details><summary>{first}</summary>{score}{escape(source.text)}</details></li>"


def _note(turn: "ChatTurn") -> str:
    strays = ", ".join(f"[{number}]" for number in stray_citations(turn))
    note = f"no passage has the number {strays}; " * bool(strays) + effort(turn)
    return f"<div style='{DIM}'>{note}</div>"
