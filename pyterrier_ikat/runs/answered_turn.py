"""One answered turn of a conversation: the utterance, how the system worked, its response and the outcome; and how it is drawn.

It is drawn by rich in a terminal, as text and in a notebook. All texts are shown as they are, and
never interpreted.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from io import StringIO
from typing import Any

import pandas as pd
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from ..arguments import by_position, is_missing
from ..completions.citations import CitedSentence, pieces_with_numbers, with_marks
from ..conversations.frame import personas, values, well_formed
from ..errors import counted
from ..events import Exchange
from ..llms import Ledger
from ..llms.ledger import Spend
from ..tables import format_score

WIDTH = 100
"""The maximum width of lines, which keeps them easy to read."""
LABEL = 10
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
SHOWN = 5
"""The number of passages shown for a system without responses."""
WORDS = 20
"""The number of words of a passage that are shown below an answer."""


@dataclass(frozen=True)
class Source:
    """A passage that is shown with a turn.

    Attributes:
        docno: its id.
        text: its text; empty if the index has none.
        score: its score in the ranking; None if there is none.
        url: the address of its document; empty if the ranking has none.
    """

    docno: str
    text: str = ""
    score: float | None = None
    url: str = ""

    @property
    def beginning(self) -> str:
        """Its first 20 words."""
        words = self.text.split()
        return " ".join(words[:WORDS]) + " ..." * (len(words) > WORDS)


@dataclass(frozen=True, repr=False)
class Turn:
    """What a user said, and how a system answered; it displays itself in a notebook.

    Attributes:
        number: its number in the conversation, from 1.
        utterance: the user's words.
        response: the system's answer as the user gets it; empty if the system writes none or found
            no passage.
        sources: the passages that the response is based on: those that it cites, in the order of
            their first citation. If the system was not asked for citations, those that its model
            was shown. Without a response the best 5.
        rewrite: the query that an LLM or a rewriter made of the utterance; empty if there is none.
        queries: the queries that were searched, in their order.
        statements: the texts of the chosen statements about the user, best first.
        draft: an answer that the system wrote as its query, or to make a decision. It is not the
            response. Several drafts are separated by a blank line.
        citations: docno -> score, best first. For a turn that was just answered, the whole ranking;
            in a log, the cited passages.
        spend: the calls of the system, also those that failed, and those of a memory that learned
            from the turn.
        cited: the sentences of the response with the numbers of their sources, from 1; None if the
            system was not asked for citations.
        shown: the passages that the model was shown, if it was asked for citations and cites none.
        seconds: how long the system took, without the memory.
        session: the conversation.
        method: the name of the system.
        omitted: the number of old messages of the conversation that the system did not see.
        cut: the number of tokens that were cut off the response before it was sent.
        met: the ids of the rubrics that this response was the first to meet.
        more: other facts about the turn.
        asked: the turn's requests to language models, each with its outcome. Logs don't have them.
    """

    number: int
    utterance: str
    response: str
    sources: tuple[Source, ...] = ()
    rewrite: str = ""
    queries: tuple[str, ...] = ()
    statements: tuple[str, ...] = ()
    draft: str = ""
    citations: Mapping[str, float] = field(default_factory=dict, compare=False)
    cited: tuple[CitedSentence, ...] | None = None
    shown: tuple[Source, ...] = ()
    spend: Spend = Spend()
    seconds: float = field(default=0.0, compare=False)
    session: str = ""
    method: str = ""
    omitted: int = 0
    cut: int = 0
    met: tuple[str, ...] = ()
    more: Mapping[str, Any] = field(default_factory=dict)
    asked: tuple[Exchange, ...] = field(default=(), compare=False)

    @classmethod
    def of(cls, number: int, utterance: str, results: pd.DataFrame, **known: Any) -> "Turn":
        """The turn, from a system's results.

        ``qanswer`` is the response if ``Respond`` wrote it (the frame has ``used``), or if the
        system retrieves no passages at all. In a ranking without ``used`` it is a draft that served
        as a query.

        Args:
            number: its number.
            utterance: the user's words.
            results: the frame that the system returned.
            known: the other fields. The newest rewrite, the chosen statements and the drafts are by
                default those of the frame.
        """
        results = by_position(results)
        answer = text_in(results, "qanswer")
        known["rewrite"] = known.get("rewrite") or text_in(results, "qrewrite")
        known["statements"] = known.get("statements") or statements_in(results)
        if "docno" not in results.columns:
            return cls(number, utterance, answer, **known | {"draft": ""})
        ranking = (
            results.sort_values("rank", kind="stable") if "rank" in results.columns else results
        )
        responds = "used" in results.columns
        best = ranking[ranking["used"].astype(bool)] if responds else ranking.head(SHOWN)
        unknown = float("nan") if "score" in ranking.columns else 0.0
        scores = dict(
            zip(
                map(str, ranking["docno"]),
                map(float, values(ranking, "score", unknown)),
                strict=True,
            )
        )
        known["draft"] = known.get("draft") or ("" if responds else answer)
        entries = next(iter(values(ranking, "qcitations")), None) if responds else None
        return cls(
            number,
            utterance,
            answer if responds else "",
            **_rests_on(_sources(best), entries),
            **known,
            citations=scores,
        )

    @classmethod
    def read(cls, record: Mapping[str, Any]) -> "Turn":
        """The turn of a :meth:`record`.

        Raises:
            KeyError, TypeError: when it isn't a record of a turn.
        """
        known = record.keys() & {one.name for one in fields(cls)}
        given: dict[str, Any] = {
            name: tuple(record[name]) if isinstance(record[name], list) else record[name]
            for name in known
        }
        read: dict[str, Any] = {
            name: tuple(Source(**one) for one in record.get(name, ()))
            for name in ("sources", "shown")
        }
        read["spend"] = Spend(**record["spend"])
        if record.get("cited") is not None:
            read["cited"] = tuple(
                CitedSentence(text, tuple(numbers), tuple(unknown))
                for text, numbers, unknown in record["cited"]
            )
        return cls(**given | read)

    def record(self) -> dict[str, Any]:
        """All fields as JSON values, without the prompts."""
        return {
            name: value
            for name, value in asdict(replace(self, asked=())).items()
            if name != "asked"
        }

    def without_texts(self) -> "Turn":
        """The turn as it is logged for a person: the texts of passages stay in the index, and only cited passages have scores."""
        sources, shown = (
            tuple(replace(one, text="") for one in passages)
            for passages in (self.sources, self.shown)
        )
        return replace(
            self,
            sources=sources,
            shown=shown,
            citations={one.docno: one.score for one in sources if one.score is not None},
        )

    @property
    def marked(self) -> str:
        """The response, with the numbers of its sources after each sentence."""
        return with_marks(self.response, self.cited or ())

    @property
    def cites_none(self) -> bool:
        """Whether the system was asked for citations, and the response has none."""
        return bool(self.response) and self.cited is not None and not self.sources

    @property
    def unknown(self) -> list[int]:
        """The numbers in the response that don't belong to a passage."""
        return list(dict.fromkeys(number for one in self.cited or () for number in one.unknown))

    def with_calls(self, spend: Spend, asked: Sequence[Exchange] = ()) -> "Turn":
        """The turn with further completions.

        Example:
            >>> turn = Turn(1, "Which tea?", "Rooibos.", spend=Spend(calls=1, cost=0.25)).with_calls(Spend(calls=1, cost=None))
            >>> turn.spend.calls, turn.spend.cost
            (2, None)
        """
        return replace(self, spend=self.spend + spend, asked=(*self.asked, *asked))

    def __repr__(self) -> str:
        """The system's part as text, without terminal control characters, calls and time."""
        return plain(turn_drawn(self, note=False))

    def _repr_html_(self) -> str:
        return as_html(exchange_drawn(self))


def messages_of(turns: Sequence[Turn]) -> list[dict[str, str]]:
    """A conversation as chat messages. A turn without a response adds only its utterance.

    Example:
        >>> [message["role"] for message in messages_of([Turn(1, "Tea?", ""), Turn(2, "And now?", "Rooibos.")])]
        ['user', 'user', 'assistant']
    """
    said = (
        (role, text)
        for turn in turns
        for role, text in (("user", turn.utterance), ("assistant", turn.response))
    )
    return [{"role": role, "content": text} for role, text in said if text]


def _sources(passages: pd.DataFrame) -> tuple[Source, ...]:
    rows = zip(
        passages["docno"],
        values(passages, "text", ""),
        values(passages, "score"),
        values(passages, "url", ""),
        strict=True,
    )
    return tuple(
        Source(str(docno), str(text), None if is_missing(score) else float(score), str(url))
        for docno, text, score, url in rows
    )


def _rests_on(
    passages: tuple[Source, ...], entries: Sequence[Mapping[str, Any]] | None
) -> dict[str, Any]:
    """The sources of a response and its citations of them; ``entries`` are its ``qcitations``."""
    if entries is None:
        return {"sources": passages}
    known = {one.docno: one for one in passages}
    numbers = {
        docno: number
        for number, docno in enumerate(
            dict.fromkeys(docno for one in entries for docno in one["docnos"]), 1
        )
    }
    cited = [
        CitedSentence(
            one["sentence"], tuple(numbers[docno] for docno in one["docnos"]), tuple(one["unknown"])
        )
        for one in entries
    ]
    sources = tuple(known[docno] for docno in numbers)
    return {"sources": sources, "shown": () if sources else passages, "cited": tuple(cited)}


def statements_in(results: pd.DataFrame) -> tuple[str, ...]:
    """The texts of the statements that the turn's stages chose."""
    if not len(results) or not {"qstatements", "qptkb"} <= set(results.columns):
        return ()
    first = results.head(1)
    known, chosen = personas(first)[0], values(first, "qstatements", [])[0]
    return tuple(known[name] for name, _ in chosen if name in known)


def text_in(results: pd.DataFrame, name: str) -> str:
    """The text of the first row in a column; empty if there is none."""
    return clean_text(str(next(iter(values(results, name, "")), "")))


def clean_text(text: str) -> str:
    """The text with only characters that UTF-8 can encode, without white space around it."""
    return text.encode("utf-8", "replace").decode("utf-8").strip()


# How a turn is drawn


def strip_controls(text: str) -> str:
    """The text without control characters except line feeds and tabs, because passages and LLM output may contain terminal commands.

    Example:
        >>> strip_controls("tea" + chr(27) + "[2J")
        'tea [2J'
    """
    return _CONTROLS.sub(" ", well_formed(text))


def background(turn: Turn) -> list[tuple[str, tuple[str, ...]]]:
    """How the answer came about, as (label, texts): the rewrite, the queries that differ from it, the chosen statements, the draft."""
    queries = (
        () if set(turn.queries) <= {turn.utterance, turn.rewrite, turn.draft} else turn.queries
    )
    found = {
        "rewrite": (turn.rewrite,),
        "queries": queries,
        "statements": turn.statements,
        "draft": (turn.draft,),
    }
    return [(label, texts) for label, texts in found.items() if any(texts)]


def effort(turn: Turn) -> str:
    """Calls, tokens, cost and time of a turn, and the omitted history, in one line."""
    parts, spend = [], turn.spend
    if spend.calls:
        parts += [
            counted(spend.calls, "call"),
            *[counted(spend.tokens or 0, "token")] * (spend.tokens is not None),
        ]
    if spend.unanswered:
        parts.append(f"{counted(spend.unanswered, 'request')} without an answer")
    if spend.calls or spend.unanswered:
        parts.append("cost unknown" if spend.cost is None else f"{spend.cost:.4f} USD")
    if spend.known:
        parts.append(counted(spend.known, "known completion"))
    parts.append(f"{turn.seconds:.1f} s")
    if turn.omitted:
        parts.append(f"without the {counted(turn.omitted, 'oldest message')} of the history")
    return ", ".join(parts)


def doubts(turn: Turn) -> list[str]:
    """Warnings about the citations: numbers that don't belong to a passage, or no citations at all."""
    unknown = ", ".join(f"[{number}]" for number in turn.unknown)
    found = [f"no passage has the number {unknown}"] * bool(unknown)
    return found + ["the answer cites none of the passages that it was shown"] * turn.cites_none


def turn_drawn(turn: Turn, note: bool = True) -> Any:
    """The system's part of a turn, for rich. With ``note``, calls, cost and time are shown."""
    shown: list[Any] = [_labelled(background(turn))] if background(turn) else []
    if turn.response:
        answer = Text()
        for piece, numbers in pieces_with_numbers(turn.response, turn.cited or ()):
            answer.append(strip_controls(piece) + " " * bool(numbers)).append(
                "".join(f"[{number}]" for number in numbers), "bold cyan"
            )
        shown += [*[Text()] * bool(shown), answer]
    if turn.sources:
        shown += [
            *[Text()] * bool(shown),
            _passages(turn.sources, [one.beginning for one in turn.sources]),
        ]
    if not (turn.response or turn.sources):
        shown += [*[Text()] * bool(shown), Text("(no passage found)", style="dim")]
    shown += [Text(f"({doubt})", style="dim") for doubt in doubts(turn)]
    return Group(*shown, *([Text(), Text(f"({effort(turn)})", style="dim")] if note else []))


def sources_drawn(turn: Turn) -> Any:
    """The whole passages of a turn with their scores, for rich."""
    passages = turn.sources or turn.shown
    if not passages:
        return Text("(the answer is based on no passage)", style="dim")
    scores = ["" if one.score is None else f"(score {format_score(one.score)})" for one in passages]
    texts = [
        f"{score}\n{one.text.strip() or '(its text is not available)'}"
        for score, one in zip(scores, passages, strict=True)
    ]
    drawn = _passages(passages, texts)
    return (
        Group(
            Text("(the answer cites none of these passages, which it was shown)", style="dim"),
            drawn,
        )
        if turn.cites_none
        else drawn
    )


def why_drawn(turn: Turn, account: Ledger | None) -> Any:
    """How the answer of a turn came about, for rich."""
    head = Text(
        f"turn {turn.number}" + f", method {strip_controls(turn.method)}" * bool(turn.method),
        style="bold",
    )
    shown: list[Any] = [head, *([_labelled(background(turn))] if background(turn) else [])]
    shown += (
        [Text(), Text(strip_controls(str(account)))]
        if account is not None and len(account.frame())
        else []
    )
    for number, (request, outcome) in enumerate(turn.asked, 1):
        title = " ".join(filter(None, (request.stage, request.item)))
        prompt = "\n\n".join(message["content"] for message in request.messages)
        completion = f"(failed: {outcome})" if isinstance(outcome, Exception) else outcome.text
        shown += [
            Text(),
            Text(f"{number}. {strip_controls(title)}", style="bold"),
            Text(strip_controls(prompt), style="dim"),
        ]
        shown += [Text("->", style="bold cyan"), Text(strip_controls(completion))]
    if not turn.asked and turn.spend.completions:
        shown.append(Text("(its prompts and completions are no longer available)", style="dim"))
    return Group(*shown, Text(), Text(f"({effort(turn)})", style="dim"))


def help_drawn(rows: Sequence[tuple[str, str]]) -> Any:
    """The commands that can be typed, and what they do."""
    return _grid((Text(typed, "bold"), Text(does)) for typed, does in rows)


def plain(drawn: Any, width: int = WIDTH) -> str:
    """The text that rich would draw."""
    console = Console(
        file=StringIO(), record=True, width=width, highlight=False, markup=False, emoji=False
    )
    console.print(drawn)
    return "\n".join(line.rstrip() for line in console.export_text().split("\n")).rstrip("\n")


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
    lines = [
        (label * (not number), "- " * (len(texts) > 1) + text.strip())
        for label, texts in rows
        for number, text in enumerate(texts)
    ]
    return _grid(
        (Text(label.ljust(LABEL), "dim"), Text(strip_controls(text), "dim"))
        for label, text in lines
    )


def _passages(sources: Sequence[Source], texts: Sequence[str]) -> Table:
    named = enumerate(zip(sources, map(strip_controls, texts), strict=True), 1)
    shown = (
        (
            Text(f"[{number}]", "cyan"),
            Text.assemble((strip_controls(one.docno), "bold"), "  ", text),
        )
        for number, (one, text) in named
    )
    return _grid(shown, gap=1)


def as_html(drawn: Any) -> str:
    """What rich draws, as HTML for a notebook."""
    console = Console(
        file=StringIO(), record=True, width=WIDTH, highlight=False, markup=False, emoji=False
    )
    console.print(drawn)
    return console.export_html(
        inline_styles=True, code_format="<pre style='white-space: pre-wrap'>{code}</pre>"
    )


def exchange_drawn(turn: Turn) -> Any:
    """The user's words and the system's part, for rich."""
    return Group(
        Text(strip_controls(turn.utterance), style="bold"), Text(), turn_drawn(turn), Text()
    )
