"""One answered turn of a conversation: what was said, how the system worked, and how it is drawn.

It is drawn by rich in a terminal, as text and in a notebook. All texts are shown as they are, and
never interpreted.
"""

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
from ..errors import counted, without_controls
from ..events import Exchange
from ..llms import Ledger
from ..llms.ledger import Spend
from ..tables import format_score

WIDTH = 100
"""The maximum width of lines, which keeps them easy to read."""
LABEL_WIDTH = 10
SHOWN_PASSAGES = 5
"""The number of passages shown for a system without responses."""
SHOWN_WORDS = 20
"""The number of words of a passage that are shown below an answer."""


@dataclass(frozen=True)
class ShownPassage:
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
        beginning = " ".join(words[:SHOWN_WORDS])
        return f"{beginning} ..." if len(words) > SHOWN_WORDS else beginning


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
    sources: tuple[ShownPassage, ...] = ()
    rewrite: str = ""
    queries: tuple[str, ...] = ()
    statements: tuple[str, ...] = ()
    draft: str = ""
    citations: Mapping[str, float] = field(default_factory=dict, compare=False)
    cited: tuple[CitedSentence, ...] | None = None
    shown: tuple[ShownPassage, ...] = ()
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
    def of(cls, number: int, utterance: str, results: pd.DataFrame, **more: Any) -> "Turn":
        """Make a turn from a system's results.

        ``qanswer`` is the response if ``Respond`` wrote it (the frame has ``used``), or if the
        system retrieves no passages at all. In a ranking without ``used`` it is a draft that served
        as a query.

        Args:
            number: its number.
            utterance: the user's words.
            results: the frame that the system returned.
            more: the other fields. The newest rewrite, the chosen statements and the drafts are by
                default those of the frame.
        """
        results = by_position(results)
        answer = text_in(results, "qanswer")
        more["rewrite"] = more.get("rewrite") or text_in(results, "qrewrite")
        more["statements"] = more.get("statements") or statements_in(results)
        if "docno" not in results.columns:
            more["draft"] = ""
            return cls(number, utterance, answer, **more)
        ranking = results
        if "rank" in results.columns:
            ranking = results.sort_values("rank", kind="stable")
        more["citations"] = _scores(ranking)
        draft = more.get("draft") or ""
        if "used" in results.columns:
            more["draft"] = draft
            more |= _response_sources(ranking)
            return cls(number, utterance, answer, **more)
        more["draft"] = draft or answer
        more["sources"] = _passages_in(ranking.head(SHOWN_PASSAGES))
        return cls(number, utterance, "", **more)

    @classmethod
    def read(cls, record: Mapping[str, Any]) -> "Turn":
        """Read a turn from its :meth:`record`.

        Raises:
            KeyError, TypeError, ValueError: when it isn't a record of a turn.
        """
        more: dict[str, Any] = {}
        for turn_field in fields(cls):
            name = turn_field.name
            if name in record:
                value = record[name]
                more[name] = tuple(value) if isinstance(value, list) else value
        for name in ("sources", "shown"):
            more[name] = tuple(ShownPassage(**passage) for passage in record.get(name, ()))
        more["spend"] = Spend(**record["spend"])
        if record.get("cited") is not None:
            cited = []
            for text, numbers, unknown in record["cited"]:
                cited.append(CitedSentence(text, tuple(numbers), tuple(unknown)))
            more["cited"] = tuple(cited)
        return cls(**more)

    def record(self) -> dict[str, Any]:
        """All fields as JSON values, without the prompts."""
        record = asdict(replace(self, asked=()))
        del record["asked"]
        return record

    def without_texts(self) -> "Turn":
        """The turn as it is logged for a person.

        The texts of passages stay in the index, and only cited passages have scores.
        """
        return replace(
            self,
            sources=tuple(replace(passage, text="") for passage in self.sources),
            shown=tuple(replace(passage, text="") for passage in self.shown),
            citations={
                passage.docno: passage.score
                for passage in self.sources
                if passage.score is not None
            },
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
        numbers: list[int] = []
        for sentence in self.cited or ():
            numbers += sentence.unknown
        return list(dict.fromkeys(numbers))

    def with_calls(self, spend: Spend, asked: Sequence[Exchange] = ()) -> "Turn":
        """The turn with further completions.

        Example:
            >>> turn = Turn(1, "Which tea?", "Rooibos.", spend=Spend(calls=1, cost=0.25))
            >>> turn = turn.with_calls(Spend(calls=1, cost=None))
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
        >>> turns = [Turn(1, "Tea?", ""), Turn(2, "And now?", "Rooibos.")]
        >>> [message["role"] for message in messages_of(turns)]
        ['user', 'user', 'assistant']
    """
    messages = []
    for turn in turns:
        if turn.utterance:
            messages.append({"role": "user", "content": turn.utterance})
        if turn.response:
            messages.append({"role": "assistant", "content": turn.response})
    return messages


def _scores(ranking: pd.DataFrame) -> dict[str, float]:
    """Passage -> score; NaN where a score is missing, 0 if the ranking has no scores."""
    missing = float("nan") if "score" in ranking.columns else 0.0
    scores = {}
    for docno, score in zip(ranking["docno"], values(ranking, "score", missing), strict=True):
        scores[str(docno)] = float(score)
    return scores


def _passages_in(ranking: pd.DataFrame) -> tuple[ShownPassage, ...]:
    rows = zip(
        ranking["docno"],
        values(ranking, "text", ""),
        values(ranking, "score"),
        values(ranking, "url", ""),
        strict=True,
    )
    passages = []
    for docno, text, score, url in rows:
        number = None if is_missing(score) else float(score)
        passages.append(ShownPassage(str(docno), str(text), number, str(url)))
    return tuple(passages)


def _response_sources(ranking: pd.DataFrame) -> dict[str, Any]:
    """The fields of a response that say what it is based on.

    These are the passages that its model was shown. If it cites, they are replaced by the cited
    ones, numbered by their first citation.
    """
    passages = _passages_in(ranking[ranking["used"].astype(bool)])
    entries = next(iter(values(ranking, "qcitations")), None)
    if entries is None:
        return {"sources": passages}
    numbers: dict[str, int] = {}
    cited = []
    for entry in entries:
        for docno in entry["docnos"]:
            numbers.setdefault(docno, len(numbers) + 1)
        of_sentence = tuple(numbers[docno] for docno in entry["docnos"])
        cited.append(CitedSentence(entry["sentence"], of_sentence, tuple(entry["unknown"])))
    by_docno = {passage.docno: passage for passage in passages}
    sources = tuple(by_docno[docno] for docno in numbers)
    shown = () if sources else passages
    return {"sources": sources, "shown": shown, "cited": tuple(cited)}


def statements_in(results: pd.DataFrame) -> tuple[str, ...]:
    """The texts of the statements that the turn's stages chose."""
    if not len(results) or not {"qstatements", "qptkb"} <= set(results.columns):
        return ()
    first = results.head(1)
    [persona] = personas(first)
    [chosen] = values(first, "qstatements", [])
    return tuple(persona[name] for name, _ in chosen if name in persona)


def text_in(results: pd.DataFrame, name: str) -> str:
    """The text of the first row in a column; empty if there is none."""
    texts = values(results, name, "")
    return clean_text(str(texts[0])) if texts else ""


def clean_text(text: str) -> str:
    """The text with only characters that UTF-8 can encode, without white space around it."""
    return text.encode("utf-8", "replace").decode("utf-8").strip()


# How a turn is drawn


def strip_controls(text: str) -> str:
    """The text without control characters, except line feeds and tabs.

    Passages and LLM output may contain terminal commands.

    Example:
        >>> strip_controls("tea" + chr(27) + "[2J")
        'tea [2J'
    """
    return without_controls(well_formed(text))


def background(turn: Turn) -> list[tuple[str, tuple[str, ...]]]:
    """How the answer came about: (label, texts) of each step.

    The steps are the rewrite, the queries that differ from it, the chosen statements and the draft.
    """
    queries = turn.queries
    if set(queries) <= {turn.utterance, turn.rewrite, turn.draft}:
        queries = ()
    steps = {
        "rewrite": (turn.rewrite,),
        "queries": queries,
        "statements": turn.statements,
        "draft": (turn.draft,),
    }
    return [(label, texts) for label, texts in steps.items() if any(texts)]


def effort(turn: Turn) -> str:
    """Calls, tokens, cost and time of a turn, and the omitted history, in one line."""
    spend = turn.spend
    parts = []
    if spend.calls:
        parts.append(counted(spend.calls, "call"))
        if spend.tokens is not None:
            parts.append(counted(spend.tokens, "token"))
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
    """Warnings about the citations: numbers that no passage has, or no citations at all."""
    warned = []
    if turn.unknown:
        unknown = ", ".join(f"[{number}]" for number in turn.unknown)
        warned.append(f"no passage has the number {unknown}")
    if turn.cites_none:
        warned.append("the answer cites none of the passages that it was shown")
    return warned


def turn_drawn(turn: Turn, note: bool = True) -> Any:
    """The system's part of a turn, for rich. With ``note``, calls, cost and time are shown."""
    blocks: list[Any] = []
    if background(turn):
        blocks.append(_labelled(background(turn)))
    if turn.response:
        blocks.append(_response_drawn(turn))
    if turn.sources:
        beginnings = [passage.beginning for passage in turn.sources]
        blocks.append(_passages_drawn(turn.sources, beginnings))
    if not (turn.response or turn.sources):
        blocks.append(Text("(no passage found)", style="dim"))
    drawn: list[Any] = []
    for block in blocks:
        if drawn:
            drawn.append(Text())
        drawn.append(block)
    drawn += [Text(f"({doubt})", style="dim") for doubt in doubts(turn)]
    if note:
        drawn += [Text(), Text(f"({effort(turn)})", style="dim")]
    return Group(*drawn)


def _response_drawn(turn: Turn) -> Text:
    """The response, with the numbers of its sources after each sentence."""
    drawn = Text()
    for piece, numbers in pieces_with_numbers(turn.response, turn.cited or ()):
        drawn.append(strip_controls(piece))
        if numbers:
            drawn.append(" ")
            drawn.append("".join(f"[{number}]" for number in numbers), "bold cyan")
    return drawn


def sources_drawn(turn: Turn) -> Any:
    """The whole passages of a turn with their scores, for rich."""
    passages = turn.sources or turn.shown
    if not passages:
        return Text("(the answer is based on no passage)", style="dim")
    texts = []
    for passage in passages:
        score = "" if passage.score is None else f"(score {format_score(passage.score)})"
        texts.append(f"{score}\n{passage.text.strip() or '(its text is not available)'}")
    drawn = _passages_drawn(passages, texts)
    if not turn.cites_none:
        return drawn
    doubt = "(the answer cites none of these passages, which it was shown)"
    return Group(Text(doubt, style="dim"), drawn)


def why_drawn(turn: Turn, account: Ledger | None) -> Any:
    """How the answer of a turn came about, for rich."""
    title = f"turn {turn.number}"
    if turn.method:
        title += f", method {strip_controls(turn.method)}"
    drawn: list[Any] = [Text(title, style="bold")]
    if background(turn):
        drawn.append(_labelled(background(turn)))
    if account is not None and len(account.frame()):
        drawn += [Text(), Text(strip_controls(str(account)))]
    for number, exchange in enumerate(turn.asked, 1):
        drawn += _exchange_drawn(number, exchange)
    if not turn.asked and turn.spend.completions:
        drawn.append(Text("(its prompts and completions are no longer available)", style="dim"))
    drawn += [Text(), Text(f"({effort(turn)})", style="dim")]
    return Group(*drawn)


def _exchange_drawn(number: int, exchange: Exchange) -> list[Text]:
    """A request to a language model, and its outcome."""
    request, outcome = exchange
    title = " ".join(name for name in (request.stage, request.item) if name)
    prompt = "\n\n".join(message["content"] for message in request.messages)
    completion = f"(failed: {outcome})" if isinstance(outcome, Exception) else outcome.text
    return [
        Text(),
        Text(f"{number}. {strip_controls(title)}", style="bold"),
        Text(strip_controls(prompt), style="dim"),
        Text("->", style="bold cyan"),
        Text(strip_controls(completion)),
    ]


def help_drawn(rows: Sequence[tuple[str, str]]) -> Any:
    """The commands that can be typed, and what they do."""
    return _grid((Text(typed, "bold"), Text(does)) for typed, does in rows)


def _console(width: int = WIDTH) -> Console:
    """A console that records what is printed."""
    return Console(
        file=StringIO(), record=True, width=width, highlight=False, markup=False, emoji=False
    )


def plain(drawn: Any, width: int = WIDTH) -> str:
    """The text that rich would draw."""
    console = _console(width)
    console.print(drawn)
    lines = console.export_text().split("\n")
    return "\n".join(line.rstrip() for line in lines).rstrip("\n")


def as_html(drawn: Any) -> str:
    """What rich draws, as HTML for a notebook."""
    console = _console()
    console.print(drawn)
    return console.export_html(
        inline_styles=True, code_format="<pre style='white-space: pre-wrap'>{code}</pre>"
    )


def _grid(rows: Iterable[tuple[Text, Text]], gap: int = 2) -> Table:
    """Two columns. Only the second one may be broken into lines."""
    grid = Table.grid(padding=(0, gap, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for row in rows:
        grid.add_row(*row)
    return grid


def _labelled(steps: Sequence[tuple[str, Sequence[str]]]) -> Table:
    """Texts next to their dimmed labels. Several texts of a label are a list."""
    rows = []
    for label, texts in steps:
        bullet = "- " if len(texts) > 1 else ""
        for text in texts:
            line = strip_controls(bullet + text.strip())
            rows.append((Text(label.ljust(LABEL_WIDTH), "dim"), Text(line, "dim")))
            label = ""
    return _grid(rows)


def _passages_drawn(passages: Sequence[ShownPassage], texts: Sequence[str]) -> Table:
    """The passages with their numbers and these texts."""
    rows = []
    for number, (passage, text) in enumerate(zip(passages, texts, strict=True), 1):
        docno = (strip_controls(passage.docno), "bold")
        shown = Text.assemble(docno, "  ", strip_controls(text))
        rows.append((Text(f"[{number}]", "cyan"), shown))
    return _grid(rows, gap=1)


def exchange_drawn(turn: Turn) -> Any:
    """The user's words and the system's part, for rich."""
    utterance = Text(strip_controls(turn.utterance), style="bold")
    return Group(utterance, Text(), turn_drawn(turn), Text())
