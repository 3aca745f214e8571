r"""What a model thinks aloud before it answers: never a part of the answer. Pure functions: no model, no frame.

Marks are tags (``<think>``, ``<thinking>``, ``<reasoning>``, ``<thought>``, ``<seed:think>``, ``[THINK]``, ``<|START_THINKING|>`` and
the like, in any case, with attributes and blanks), harmony's channels, what is left of those when a server strips the special tokens
(``analysis...assistantfinal``), and Granite's two sentences. An end without a beginning ends reasoning, too: servers eat beginnings.

A mark alone in quotation marks or backticks, as in "models write ``"<think>"`` first", is only mentioned and stays; so does the word
without brackets. Everywhere else a mark counts, also in code: an open one is a failure that is named, never a text that lost its half.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

_NAMES = (
    r"think(?:ing)?(?:[_-]process)?|thoughts?(?:[_-]process)?|reason(?:ing)?(?:[_-]process)?|reflection|analysis|scratchpad|cot"
    r"|chain[_-]of[_-]thought|inner[_-]monologue"
)
_TAG = (
    rf"[<◁]\|?\s{{0,9}}(?P<end>/)?\s{{0,9}}(?:[\w-]{{1,20}}:|ant)?(?P<name>{_NAMES})"
    r"(?:\s[^<>\n]{0,200}?)?\s{0,9}(?P<empty>/)?\|?[>▷]"
)
_OTHERS = (
    (r"\[\s?think(?:ing)?\s?\]", r"\[\s?/\s?think(?:ing)?\s?\]"),
    (r"<\|(?:begin|start)_?of_?(?:thought|thinking|reasoning)\|>", r"<\|end_?of_?(?:thought|thinking|reasoning)\|>"),
    (r"<\|start_thinking\|>", r"<\|end_thinking\|>"),
    (r"<\|channel>thought\b", r"<channel\|>"),
    (r"<\|inner_prefix\|>", r"<\|inner_suffix\|>"),
    (r"<unused94>(?:thought\b)?", r"<unused95>"),
    (r"\A\s*here(?:['’]s| is) my thought process:", r"^[ \t]{0,9}here(?:['’]s| is) my response:"),
)
_PAIRS = "|".join(rf"(?P<b{number}>{begin})|(?P<e{number}>{end})" for number, (begin, end) in enumerate(_OTHERS))
_MARK = re.compile(f"{_TAG}|{_PAIRS}", re.IGNORECASE | re.MULTILINE)
_ANY = re.sub(r"\?P<\w+>", "?:", _MARK.pattern)
_MENTION = re.compile(rf"(?<![^\s(\[{{=:,`])[`\"'“‘«](?:{_ANY})(?:[\s.…]{{0,9}}(?:{_ANY}))?[`\"'”’»](?!\w)", re.IGNORECASE | re.MULTILINE)
_WRAPPED = re.compile(
    r"\A<\|?(answer|response|solution|output|final|final[_-]answer|(?:begin_of|start)_(?:solution|response))\|?>"
    r"(.*?)(?:<\|?(?:/\s?\1|end_of_solution|end_response)\|?>)?\Z",
    re.IGNORECASE | re.DOTALL,
)
_BLANKS = re.compile(r"[ \t]*")
_CHANNEL = re.compile(r"(?<![`\"'])<\|(?:channel|message)\|>")
_CONTROL = re.compile(r"<\|(?:start|end|return|call|channel|message|constrain)\|>")
_FINAL = re.compile(r"(?:<\|channel\|>|\A)\s{0,9}final\b[^<\n]{0,99}(?:<\|constrain\|>[^<\n]{0,99})?<\|message\|>")
_RESIDUE = re.compile(r"\A\s*(?:assistant)?(?:analysis|commentary)(?=[^\W_]|[\"'“(\[{]|\s*\n|.*\bassistant\s*final)", re.DOTALL)
_RESIDUE_FINAL = re.compile(r"assistantfinal")
_SPACED_FINAL = re.compile(r"assistant\s*final")
_ONLY_FINAL = re.compile(r"\A\s*final(?=[A-Z\d\"“\[{])")
_NEXT = re.compile(r"assistant(?:analysis|commentary|final)")


class Said(NamedTuple):
    """A completion without its reasoning."""

    text: str
    open: bool


def said(text: str) -> Said:
    """What ``text`` says behind and between its reasoning, without surrounding blanks, and whether reasoning has no end in it.

    Example:
        >>> said("<think>hm</think> Paris"), said("Paris? <thinking>or Rome")
        (Said(text='Paris', open=False), Said(text='', open=True))
    """
    left = _final(text)
    pieces = [""] if left is None else _outside(left)
    while pieces and len(pieces) > 1:  # what stood around reasoning may make up a mark
        left = "".join(pieces)
        pieces = _outside(left)
    if left is None or not pieces:
        return Said("", True)
    wrapped = None if left == text else _WRAPPED.match(left.strip())
    return Said((wrapped[2] if wrapped else left).strip(), False)


def without_reasoning(text: str) -> str:
    """What ``text`` says; nothing where its reasoning has no end.

    Example:
        >>> without_reasoning('[THINK]hm[/THINK]Paris. Models write "<think>" first.')
        'Paris. Models write "<think>" first.'
    """
    return said(text).text


def is_mark(token: str) -> bool:
    """Whether a token of a tokenizer is a mark of reasoning.

    Example:
        >>> is_mark("[/THINK]"), is_mark("</s>")
        (True, False)
    """
    return _MARK.fullmatch(token) is not None


def begun(prompt: str) -> str:
    """The mark that a prompt ends with, as chat templates of reasoning models do, so that the completion begins within reasoning.

    Example:
        >>> begun("user: Which tea? assistant: <think>"), begun("<think></think>")
        ('<think>', '')
    """
    last = [(mark, ends) for mark, _, ends in _marks(prompt)][-1:]
    return "".join(mark[0] for mark, ends in last if not ends and not prompt[mark.end() :].strip())


def _final(text: str) -> str | None:
    """The text of harmony's final channel; all of a text without channels; None where the final channel is missing."""
    if _CHANNEL.search(text):
        final = _FINAL.search(text)
        return None if final is None else _CONTROL.split(text[final.end() :], maxsplit=1)[0]
    residue = _RESIDUE.match(text)
    final = (_SPACED_FINAL if residue else _RESIDUE_FINAL).search(text) or _ONLY_FINAL.match(text)
    if final is not None:
        return _NEXT.split(text[final.end() :], maxsplit=1)[0]
    return None if residue else text


def _outside(text: str) -> list[str]:
    """The pieces of ``text`` outside of reasoning, one where there is none; no piece where the last reasoning has no end."""
    kept, within, position = list[str](), "", 0
    mentioned = {place for found in _MENTION.finditer(text) for place in range(*found.span())} if _MARK.search(text) else set()
    for mark, name, ends in _marks(text):
        if within:  # other marks, and further beginnings, are what the model thinks about
            position, within = (_behind(text, mark), "") if ends and name == within else (position, within)
        elif mark.start() not in mentioned:
            kept = [""] if ends else [*kept, text[position : mark.start()]]
            within, position = "" if ends else name, _behind(text, mark)
    return [] if within else [*kept, text[position:]]


def _behind(text: str, mark: re.Match[str]) -> int:
    blanks = _BLANKS.match(text, mark.end())
    return blanks.end() if blanks else mark.end()


def _marks(text: str) -> Iterator[tuple[re.Match[str], str, bool]]:
    for mark in _MARK.finditer(text):
        group = mark.lastgroup or ""
        name = "" if mark["empty"] and not mark["end"] else (mark["name"] or group[1:]).casefold()  # <think/> holds nothing
        yield mark, name, bool(mark["end"]) if mark["name"] else group.startswith("e")
