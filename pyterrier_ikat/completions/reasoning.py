r"""A completion without its reasoning and the marks of chat templates, and the marks nobody knows.

The forms are those of :mod:`~pyterrier_ikat.completions.forms`. An end mark without a beginning
also ends reasoning, because servers remove beginnings. Where a turn ends, the text ends: what
follows was invented.

A mark alone in quotation marks or backticks, as in "models write ``"<think>"`` first", is only a
mention and stays. Everywhere else a mark counts, also in code. An open mark is a reported failure;
it never silently removes half of a text.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from .forms import (
    ANSWER_TAGS,
    EMPTY_TOKENS,
    OWN_LABEL,
    REASONING_LABEL,
    STRIKE_TAG,
    Forms,
    Harmony,
    forms,
)

NamedMarks = tuple[tuple[str, str], ...]
"""Marks of reasoning that a user names: opening and closing ones."""


class SplitText(NamedTuple):
    """A completion without its reasoning.

    Attributes:
        text: the answer, without surrounding blanks.
        open: whether some reasoning has no end.
    """

    text: str
    open: bool


def split_reasoning(text: str, user_marks: NamedMarks = ()) -> SplitText:
    """Return the text outside of its reasoning, and whether some reasoning has no end.

    Args:
        text: the completion.
        user_marks: marks of reasoning besides those that are known.

    Example:
        >>> split_reasoning("<think>hm</think> Paris"), split_reasoning("Paris? <thinking>or Rome")
        (SplitText(text='Paris', open=False), SplitText(text='', open=True))
    """
    patterns = forms(user_marks)
    final = _final(text)
    if final is None:
        return SplitText("", True)
    worded = patterns.worded.match(final)
    if worded is not None:
        final = final[worded.end() :]
    outside = _outside(final, patterns)
    if outside is None or REASONING_LABEL.match(outside):
        return SplitText("", True)
    answer = OWN_LABEL.sub("", outside).strip()
    if outside != text:
        answer = unwrapped(answer)
    return SplitText(answer, False)


def without_reasoning(text: str) -> str:
    """Return the text outside of its reasoning. Empty if reasoning has no end.

    Example:
        >>> without_reasoning('[THINK]hm[/THINK]Paris. Models write "<think>" first.')
        'Paris. Models write "<think>" first.'
    """
    return split_reasoning(text).text


def opening_mark(prompt: str, user_marks: NamedMarks = ()) -> str:
    """Return the mark of reasoning at the end of a prompt, or an empty text.

    Chat templates of reasoning models end with one, so that the completion begins with reasoning.

    Example:
        >>> opening_mark("user: Which tea? assistant: <think>"), opening_mark("<think></think>")
        ('<think>', '')
    """
    patterns = forms(user_marks)
    last = None
    for mark in patterns.mark.finditer(prompt):
        last = mark
    if last is None or prompt[last.end() :].strip():
        return ""
    kind, number = _kind(last)
    return last[0] if kind == "opening" and number < patterns.reasoning else ""


def _kind(mark: re.Match[str]) -> tuple[str, int]:
    """Return the kind and number of a mark, by the name of its group in `Forms.mark`."""
    name = str(mark.lastgroup)
    kind = name.rstrip("0123456789")
    return kind, int(name.removeprefix(kind))


def _final(text: str) -> str | None:
    """Return the text of Harmony's final channel, None if it is missing.

    A text without channels is returned whole.
    """
    if Harmony.channel.search(text):
        final = Harmony.final.search(text)
        if final is None:
            return None
        return Harmony.control.split(text[final.end() :], maxsplit=1)[0]
    residue = Harmony.residue.match(text)
    final = re.search(r"assistant\s*final" if residue else "assistantfinal", text)
    if final is not None:
        return Harmony.next_channel.split(text[final.end() :], maxsplit=1)[0]
    return None if residue else text


def _outside(text: str, patterns: Forms) -> str | None:
    """Return the model's own turn, outside of the marked reasoning. None if that has no end.

    The text is read from mark to mark. Reasoning is skipped, to its end. Where the answer or the
    own turn begins, the text before it is dropped. Where the own turn ends, the text ends. The turn
    of somebody else is dropped, too: "<|user|>Hi<|assistant|>Paris<|user|>More" is "Paris".
    """
    if patterns.mark.search(text) is None:
        return text
    mentioned = _mentioned(text, patterns)
    answer = ""
    position = 0  # the text before it has been read
    is_foreign = False  # whether the text from there on is the turn of somebody else
    is_struck = False  # whether <s> in an answer has begun words that are struck out
    marks = patterns.mark.finditer(text)
    for mark in marks:
        if mark.start() in mentioned:
            continue
        before = answer + text[position : mark.start()]
        has_answer = not is_foreign and before.strip() != ""
        role = _role(mark, patterns)
        if STRIKE_TAG.fullmatch(mark[0]):
            begins = role == "empty"
            if is_struck or (begins and has_answer):
                is_struck = begins
                continue
        if role == "nothing" or (role == "end" and is_foreign):
            continue
        if role in ("own", "other", "end") and has_answer:
            return before
        if role == "reasoning":
            answer = before
            end = _end_of_reasoning(mark, marks, patterns)
            if end is None:
                return None
            position = end
            continue
        position = mark.end()
        if role == "empty":
            answer = before
        else:
            answer = ""
            is_foreign = role == "other"
    return "" if is_foreign else answer + text[position:]


def _role(mark: re.Match[str], patterns: Forms) -> str:
    """Return what a mark means outside of reasoning.

    Returns:
        ``reasoning`` begins, the ``answer`` begins, the ``own`` turn or that of an ``other``
        begins, a turn comes to its ``end``, the mark is an ``empty`` token, or it means
        ``nothing``.
    """
    kind, number = _kind(mark)
    is_reasoning = number < patterns.reasoning
    if kind == "opening":
        return "reasoning" if is_reasoning else "answer"
    if kind != "closing":
        return kind
    pair = patterns.pairs[number]
    if not is_reasoning or pair.closing in patterns.ends:
        return "end"
    # The prompt has the opening mark: the answer begins where the reasoning ends.
    return "answer" if pair.alone else "nothing"


def _end_of_reasoning(
    opening: re.Match[str], following: Iterator[re.Match[str]], patterns: Forms
) -> int | None:
    """Read on to the mark that closes reasoning, and return its end. None without one.

    Other marks before it are part of the reasoning.
    """
    _, opened = _kind(opening)
    for mark in following:
        kind, number = _kind(mark)
        if kind == "closing" and patterns.pairs[number].closing == patterns.pairs[opened].closing:
            return mark.end()
    return None


def _mentioned(text: str, patterns: Forms) -> set[int]:
    """Return the positions in quoted marks, which are only mentions."""
    positions: set[int] = set()
    for mention in patterns.mention.finditer(text):
        positions.update(range(*mention.span()))
    return positions


def unwrapped(text: str, names: Collection[str] = ANSWER_TAGS) -> str:
    """Remove a tag around all of a text, if it has one of some names.

    Either of its two marks may be missing.

    Example:
        >>> unwrapped("<answer>Rooibos.</answer>"), unwrapped("<b>Rooibos.</b>")
        ('Rooibos.', '<b>Rooibos.</b>')
        >>> unwrapped("<answer>Rooibos.</answer> Or mint.")
        '<answer>Rooibos.</answer> Or mint.'
    """
    opening = _TAG.match(text)
    closing = _CLOSING_TAG.search(text)
    opening_name = opening[1].casefold() if opening else ""
    closing_name = closing[1].casefold() if closing else ""
    if opening_name in names:
        name = opening_name
    elif closing_name in names:
        name = closing_name
    else:
        return text
    start = opening.end() if opening and opening_name == name else 0
    end = closing.start() if closing and closing_name == name else len(text)
    inner = text[start:end]
    if re.search(rf"</?{re.escape(name)}\b", inner, re.IGNORECASE):  # there are several
        return text
    return inner.strip()


def is_wrapped(text: str) -> bool:
    """Whether a tag, whatever its name, is around all of a text.

    Example:
        >>> is_wrapped("<verdict>Rooibos.</verdict>"), is_wrapped("<ponder>hm</ponder>Rooibos.")
        (True, False)
    """
    opening = _TAG.match(text)
    if opening is None or _CLOSING_TAG.search(text) is None:
        return False
    return unwrapped(text, (opening[1].casefold(),)) != text


_TAG = re.compile(r"\A\s*<([A-Za-z][\w:.-]{0,60})(?:\s[^<>\n]{0,200})?>")
_CLOSING_TAG = re.compile(r"</([A-Za-z][\w:.-]{0,60})\s?>\s*\Z")
_ELEMENTS = """
    a abbr acronym address area article aside audio b bdi bdo big blockquote body br button canvas
    caption center citation cite code col colgroup data datalist dd del details dfn dialog div dl
    dt em embed fieldset figcaption figure font footer form h1 h2 h3 h4 h5 h6 head header hgroup hr
    html i iframe img input ins kbd label legend li link main map mark menu meta meter nav noscript
    object ol optgroup option p param picture pre progress q ref rp rt ruby s samp script search
    section select slot small source span strike strong style doctype sub summary sup svg table
    tbody td template textarea tfoot th thead time title tr track tt u ul var video wbr
"""
HTML = frozenset(_ELEMENTS.split())
"""The elements of HTML (html.spec.whatwg.org, "Elements", and those of HTML 4), and ``ref`` and
``citation``, with which texts cite."""
_NAMED = re.compile(r"<\s?/?\s?([^\W\d][\w:.-]{0,60})")
_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`|[\"'“‘«]<[^<>\n]{1,60}>[\"'”’»]", re.DOTALL)
_BEFORE = r"\A[\s\ufeff\u200b\u2060*_>#\"'“~-]*"
"""What may stand before a mark that begins a text."""
_SPECIAL = re.compile(
    rf"<[|｜][^<>\s][^<>\n]{{0,60}}>|<[^<>|｜\s]{{1,60}}[|｜]>|{EMPTY_TOKENS.pattern}",
    re.IGNORECASE,
)
_BRACKETED = re.compile(rf"{_BEFORE}(\[[A-Z][A-Z_]{{2,40}}\])(?=\s*[^\s\]])")
_SIGNED = re.compile(rf"{_BEFORE}([◁◀⟨⟪＜][^\s◁◀⟨⟪＜▷▶⟩⟫＞]{{1,40}}[▷▶⟩⟫＞])")
_ESCAPED = re.compile(rf"{_BEFORE}(&lt;[\w:.|-]{{1,60}}&gt;)|(&lt;/[\w:.|-]{{1,60}}&gt;)")
_SLASHED = re.compile(r"[\[【《〈{◁◀⟨⟪＜]\s?[/／]\s?[^\W\d][\w:.-]{1,40}\s?[\]】》〉}▷▶⟩⟫＞]")
"""A closing mark in other brackets. Those of forums are HTML in another coat."""
_FORUM = re.compile(
    r"\[\s?/\s?(?:b|i|u|s|url|img|quote|code|list|size|color|center|table|tr|td)\s?\]",
    re.IGNORECASE,
)
_BEGINS = re.compile(
    rf"{_BEFORE}(<(?!\w[\w+.-]*://|mailto:)(?=[^<>\n]{{0,4}}[^\W\d_]|!--)[^<>\n]{{1,200}}>)"
)
_GOES_ON = re.compile(r"[,.;:?!'’)]")
"""What stands behind a placeholder, a word of its sentence: ``<name>, where ...``."""
_CLOSING = re.compile(r"<\s?/\s?([^\W\d][\w:.-]{0,60})\s?>")


def names_in(messages: Sequence[Mapping[str, str]]) -> frozenset[str]:
    """Return the names of the tags in the messages of a request, which its answer may have.

    Example:
        >>> message = {"role": "user", "content": "Write <rewrite>...</rewrite> and <Why/>"}
        >>> sorted(names_in([message]))
        ['rewrite', 'why']
    """
    names = set()
    for message in messages:
        for name in _NAMED.findall(str(message["content"])):
            names.add(name.casefold())
    return frozenset(names)


def unknown_mark(text: str, messages: Sequence[Mapping[str, str]] = ()) -> str:
    """Return the mark in a text that is neither known nor asked for. Empty if there is none.

    It begins the text, or its beginning is missing. HTML and the tags in the messages of the
    request are no marks, and nothing in code is.

    Args:
        text: what `split_reasoning` leaves of a completion.
        messages: those of the request.

    Example:
        >>> unknown_mark("<ponder>hm</ponder>Rooibos."), unknown_mark("hm</ponder>Rooibos.")
        ('<ponder>', '</ponder>')
        >>> unknown_mark("<b>Rooibos</b>.")
        ''
    """
    if not re.search(r"[<\[◁◀⟨⟪＜&【《〈{]", text):
        return ""
    plain = _CODE.sub(lambda code: " " * len(code[0]), text)
    contents = [str(message["content"]) for message in messages]
    for pattern in (_SPECIAL, _SIGNED, _BRACKETED, _ESCAPED, _SLASHED):
        for match in pattern.finditer(plain):
            mark = match[match.lastindex or 0].strip()
            if pattern is _SLASHED and _is_begun(mark, plain[: match.start()]):
                continue
            if _FORUM.fullmatch(mark) or _is_escaped_html(mark):
                continue
            if any(mark in content for content in contents):
                continue
            return mark
    return _unknown_tag(plain, HTML | names_in(messages))


def _is_begun(closing: str, before: str) -> bool:
    """Whether a mark such as ``[/bold]`` ends what was begun within a text.

    These are words in bold, and no reasoning, which begins at the beginning of a text.
    """
    opening = re.sub(r"\s?[/／]\s?", "", closing)
    return opening in before and not before.lstrip().startswith(opening)


def _unknown_tag(text: str, allowed: Collection[str]) -> str:
    """Return the first tag that begins a text or ends something in it, unless it is allowed."""
    begins = _BEGINS.match(text)
    if begins:
        tag = begins[1]
        if tag.startswith("<!--"):
            return "<!--"
        name = re.search(r"[^\W\d_][\w:.-]*", tag)
        is_allowed = name is not None and name[0].casefold() in allowed
        if not is_allowed and not _is_placeholder(text, begins):
            return tag
    for closing in _CLOSING.finditer(text):
        if closing[1].casefold() in allowed:
            continue
        opening = rf"<\s?{re.escape(closing[1])}\b[^<>\n]*>"
        beginning = re.search(opening, text[: closing.start()], re.IGNORECASE)
        return closing[0] if beginning is None else beginning[0]
    return ""


def _is_escaped_html(mark: str) -> bool:
    """Whether a mark is a tag of HTML that the text is about: ``&lt;div&gt; is a box``."""
    name = re.fullmatch(r"&lt;/?(\w+)&gt;", mark)
    return name is not None and name[1].casefold() in HTML


def _is_placeholder(text: str, begins: re.Match[str]) -> bool:
    """Whether a text begins with words to fill in: ``<name>, where``, or ``<your name> buys``."""
    if _GOES_ON.match(text, begins.end()):
        return True
    several_words = re.fullmatch(r"<[^\W\d_]+(?: [^\W\d_]+)+>", begins[1])
    return several_words is not None and "<" not in text[begins.end() :]
