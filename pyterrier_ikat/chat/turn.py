"""One turn of a chat: what was said, what the system found and answered, as text and as HTML."""

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape

import pandas as pd

SHOWN = 5
"""How many passages a system without responses shows."""
WORDS, WIDTH = 20, 100


@dataclass(frozen=True)
class Source:
    """A passage that is shown with a turn.

    Attributes:
        docno: its id.
        text: its text; empty where the index has none.
    """

    docno: str
    text: str

    @property
    def beginning(self) -> str:
        """Its first 20 words."""
        words = self.text.split()
        return " ".join(words[:WORDS]) + " ..." * (len(words) > WORDS)


@dataclass(frozen=True, repr=False)
class ChatTurn:
    """One exchange of a chat; it displays itself in a notebook.

    Attributes:
        turn_id: its number in the conversation, from 1.
        utterance: the user's words.
        response: the system's answer; empty where the system gives none or found no passage.
        sources: the passages that the response is based on; without a response the best 5.
        rewrite: the query that an LLM or a rewriter made of the utterance; empty where there is none.
    """

    turn_id: int
    utterance: str
    response: str
    sources: tuple[Source, ...]
    rewrite: str = ""

    @classmethod
    def of(cls, turn_id: int, utterance: str, results: pd.DataFrame) -> "ChatTurn":
        """The turn that a system's results make.

        ``qanswer`` is the response where ``Respond`` wrote it (the frame has ``used``) or where the system finds no passages
        at all; that of a ranking without ``used`` is a draft that was searched with.
        """
        finds, responds = "docno" in results.columns, "used" in results.columns
        ranking = results.sort_values("rank", kind="stable") if finds and "rank" in results.columns else results
        shown = ranking[ranking["used"].astype(bool)] if responds else ranking.head(SHOWN)
        response = _first(results, "qanswer") if responds or not finds else ""
        return cls(turn_id, utterance, response, tuple(_sources(shown)) if finds else (), _first(results, "qrewrite"))

    def __repr__(self) -> str:
        """The system's part as text, without characters that a terminal would obey."""
        parts = [f"(searched for: {self.rewrite})"] if self.rewrite else []
        parts += [line for paragraph in self.response.splitlines() for line in textwrap.wrap(printable(paragraph), WIDTH) or [""]]
        parts += [f"  [{place}] {source.docno}  {source.beginning}" for place, source in enumerate(self.sources, 1)]
        if not (self.response or self.sources):
            parts.append("(no passage found)")
        return "\n".join(map(printable, parts))

    def _repr_html_(self) -> str:
        searched = f"<div style='opacity: .7'><small>searched for: {escape(self.rewrite)}</small></div>" if self.rewrite else ""
        sources = "".join(f"<li><code>{escape(one.docno)}</code> {escape(one.beginning)}</li>" for one in self.sources)
        answer = escape(self.response) if self.response else "" if self.sources else "<i>no passage found</i>"
        return (
            "<div style='max-width: 50em; margin: .6em 0'>"
            f"<div style='margin-left: 4em; padding: .4em .8em; border-right: 4px solid #2f7d4f'>{escape(self.utterance)}</div>"
            f"<div style='margin-right: 4em; padding: .4em .8em; border-left: 4px solid #1d5b8f'>{searched}"
            f"<div style='white-space: pre-wrap'>{answer}</div><ol style='margin: .3em 0 0; font-size: smaller'>{sources}</ol></div></div>"
        )


def printable(text: str) -> str:
    """The text without control characters but line feeds and tabs: passages and LLMs may send a terminal orders."""
    return re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", " ", text)


def clean(text: str) -> str:
    """The text as UTF-8 can hold it, without white space around it."""
    return text.encode("utf-8", "replace").decode("utf-8").strip()


def _sources(shown: pd.DataFrame) -> Iterator[Source]:
    texts = shown["text"] if "text" in shown.columns else [""] * len(shown)
    yield from (Source(str(docno), text if isinstance(text, str) else "") for docno, text in zip(shown["docno"], texts, strict=True))


def _first(results: pd.DataFrame, name: str) -> str:
    value = results[name].iloc[0] if name in results.columns and len(results) else ""
    return clean(value) if isinstance(value, str) else ""
