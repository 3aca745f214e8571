"""Responses drawn as HTML for the page: whole, and block by block while they are written."""

import html
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from markdown_it import MarkdownIt
from markdown_it.rules_core import StateCore

from ...completions.citations import CitedSentence, pieces_with_numbers
from ...runs.answered_turn import Turn

LONGEST_MARKDOWN = 50_000
"""Characters of an answer that are read as Markdown; longer ones are shown as they are."""
LONGEST_UNFINISHED = 5_000
"""Characters of an unfinished response behind its last drawn block that are read as Markdown."""


def cited_sentences(turn: Turn) -> Sequence[CitedSentence]:
    """Return the cited sentences; a response without citations rests on all its sources."""
    if turn.cited is not None:
        return turn.cited
    numbers = range(1, len(turn.sources) + 1)
    return [CitedSentence("", tuple(numbers))]


# Citations pass through the Markdown as numbers between two private characters.
_MARK = re.compile("\ue000([0-9]+)\ue001")
_RESERVED = re.compile("[\ue000\ue001\u202a-\u202e\u2066-\u2069]")
"""These characters, and those that turn the direction of the text."""
_BEHIND_ROW = re.compile("\\|[ ]*((\ue000[0-9]+\ue001)+)$", re.MULTILINE)
"""Citations behind a row of a table, which go into its last cell."""
_BUTTON = r'<button type="button" class="cite" aria-label="Passage \1">\1</button>'
_WRITTEN_MARKS = re.compile(r" ((?:\[[0-9]{1,2}\])+)(?=\s|$)")
"""Citations in a text of :func:`~pyterrier_ikat.completions.citations.while_written`."""


def _is_web_address(url: str) -> bool:
    return re.match("https?://", url, re.IGNORECASE) is not None


def _text_with_buttons(renderer: Any, tokens: Any, position: int, *_: Any) -> str:
    return _MARK.sub(_BUTTON, html.escape(tokens[position].content))


def _align_cells(state: StateCore) -> None:
    """Align the cells of tables by an attribute, because the page forbids inline styles."""
    for token in state.tokens:
        style = token.attrs.pop("style", None)
        if style is not None:
            token.attrs["align"] = str(style).removeprefix("text-align:")


def _markdown() -> MarkdownIt:
    """The parser of responses: links, tables and line breaks, without HTML and images."""
    parser = MarkdownIt("commonmark", {"html": False, "breaks": True})
    parser.enable("table").disable("image")
    parser.validateLink = _is_web_address  # type: ignore[method-assign]
    # the page has headings of its own
    parser.add_render_rule("heading_open", lambda *_: "<p><strong>")
    parser.add_render_rule("heading_close", lambda *_: "</strong></p>\n")
    parser.add_render_rule("text", _text_with_buttons)
    parser.core.ruler.push("align_cells", _align_cells)
    return parser


_MARKDOWN = _markdown()


def as_html(turn: Turn) -> str:
    r"""Draw a response for the page: its Markdown, with a button for each citation.

    It has no HTML and no images, and links of http and https alone.

    Example:
        >>> from pyterrier_ikat.runs import ShownPassage
        >>> cited = (CitedSentence("*Rooibos* <b>.", (1,)),)
        >>> turn = Turn(1, "Which tea?", "*Rooibos* <b>.", (ShownPassage("d1"),), cited=cited)
        >>> print(as_html(turn).strip().replace(" <button", "\n<button"))
        <p><em>Rooibos</em> &lt;b&gt;.
        <button type="button" class="cite" aria-label="Passage 1">1</button></p>
    """
    text = ""
    for piece, numbers in pieces_with_numbers(turn.response, cited_sentences(turn)):
        text += _RESERVED.sub("", piece)
        if numbers:
            text += " " + "".join(f"\ue000{number}\ue001" for number in numbers)
    return _drawn(text)


def _drawn(text: str) -> str:
    """Draw Markdown whose citations are numbers between the private characters."""
    text = _BEHIND_ROW.sub(r"\1 |", text)
    if len(text) <= LONGEST_MARKDOWN:
        drawn = _MARKDOWN.render(text)
    else:
        drawn = f"<p>{html.escape(text)}</p>"
    return _MARK.sub(r"[\1]", drawn)  # in code, and in what can hold no button


class DrawnBlocks(NamedTuple):
    """Finished blocks of a response that is being written.

    Attributes:
        html: the blocks, drawn.
        until: where they end in the whole text, in the UTF-16 units that JavaScript counts.
    """

    html: str
    until: int


class BlockDrawer:
    r"""Draws each block of a response once, when the next one has begun.

    Example:
        >>> drawer = BlockDrawer()
        >>> drawer.draw("*Rooibos*.\n\nMint")
        DrawnBlocks(html='<p><em>Rooibos</em>.</p>\n', until=12)
        >>> drawer.draw("*Rooibos*.\n\nMint and sage") is None
        True
    """

    def __init__(self) -> None:
        self._finished = ""

    def draw(self, text: str) -> DrawnBlocks | None:
        """Draw what was finished since the last call; None if nothing was.

        Args:
            text: the whole text so far. If it doesn't begin as before, it is another text.
        """
        if not text.startswith(self._finished):
            self._finished = ""
        rest = text[len(self._finished) :]
        finished = rest[: _end_of_finished_blocks(rest)]
        if not finished.strip():
            return None
        self._finished += finished
        numbered = _WRITTEN_MARKS.sub(_numbers_of_marks, _RESERVED.sub("", finished))
        until = len(self._finished.encode("utf-16-le", "surrogatepass")) // 2
        return DrawnBlocks(_drawn(numbered), until)


def _numbers_of_marks(marks: "re.Match[str]") -> str:
    return " " + re.sub(r"\[([0-9]+)\]", "\ue000\\1\ue001", marks[1])


def _end_of_finished_blocks(text: str) -> int:
    """Return where the last block of a text begins, since all others are finished."""
    if "\n" not in text or "\r" in text or len(text) > LONGEST_UNFINISHED:
        return 0
    first_lines = []
    for token in _MARKDOWN.parse(text):
        if token.level == 0 and token.nesting >= 0 and token.map is not None:
            first_lines.append(token.map[0])
    if not first_lines:
        return 0
    lines_before = text.split("\n")[: first_lines[-1]]
    return sum(len(line) + 1 for line in lines_before)
