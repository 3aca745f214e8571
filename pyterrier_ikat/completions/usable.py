r"""The usable part of a text: printable, without reasoning, endless repetitions and what a model invented after its answer.

Marks of reasoning are tags (``<think>``, ``<thinking>``, ``<reasoning>``, ``<thought>``, ``<ponder>``, ``<plan>``, ``<seed:think>``,
``[THINK]``, ``<|START_THINKING|>`` and the like, in any case, with attributes and blanks, also as ``&lt;think&gt;`` and with fullwidth
brackets), harmony's channels, what is left of those when a server strips the special tokens (``analysis...assistantfinal``), Granite's two
sentences, Ollama's ``Thinking...`` and ``...done thinking.``, and a block of code in the language ``think``. An end mark without a
beginning also ends reasoning, because servers remove beginnings. Only a code block needs both.

A mark alone in quotation marks or backticks, as in "models write ``"<think>"`` first", is only a mention and stays. So does the word
without brackets. Everywhere else a mark counts, also in code. An open mark is a reported failure; it never silently removes half of a text.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ..conversations.frame import well_formed
from .refusals import is_refusal

_ESCAPES = re.compile(r"\x1b\[[0-?]{0,99}[ -/]{0,9}[@-~]|\x1b[\]P^_][^\x07\x1b\n]{0,999}(?:\x07|\x1b\\)|[\x1b\x9b].?")
"""Terminal control codes (colours, cursor, titles, links) and their remains."""
_BREAKS = re.compile(r"\r\n?|[\x0b\x0c\x1c-\x1e]")
_CONTROLS = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f]")
LONGEST_NAME = 200
"""The maximum length of a model's name, or of another word from a server."""

LOOP = 1200
"""The length from which a repetition is collapsed, in characters."""
PERIOD = 64
"""The longest repeated piece, in characters."""
LEFT = 240
"""About how many characters of a repetition are kept."""


def printable(text: str) -> str:
    r"""The text without terminal codes, control characters and lone surrogates. Tabs and line breaks stay.

    Example:
        >>> printable("\x1b[31mred\x1b[0m tea\x00\r\n" + chr(0xD800))
        'red tea\n�'
    """
    text = well_formed(text)
    if text.isprintable():
        return text
    return _CONTROLS.sub("", _BREAKS.sub("\n", _ESCAPES.sub("", text)))


def one_line(text: str) -> str:
    r"""The text as a short name on one line, such as a model's name or a stop reason.

    Example:
        >>> one_line("gpt\x1b]0;title\x07-4o\nmini")
        'gpt-4o mini'
    """
    words = "".join(sign if sign.isprintable() else " " for sign in printable(text[: 20 * LONGEST_NAME]))
    return " ".join(words.split())[:LONGEST_NAME]


def collapsed(text: str) -> tuple[str, int]:
    """The text with long repetitions shortened, and their number. The loops of a model carry no further content.

    A repetition is a piece of up to 64 characters that fills 1,200 characters or more.

    Example:
        >>> collapsed("Well, " + "no, " * 5000 + "yes.")[0] == "Well, " + "no, " * 60 + "yes."
        True
        >>> collapsed("no, " * 50)[1]
        0
    """
    count = 0
    for period in range(1, PERIOD + 1):
        pieces, place = list[str](), 0
        for start, end in _repetitions(text, period):
            pieces += [text[place : start + -(-LEFT // period) * period]]
            place = end - (end - start) % period
        if pieces:
            text, count = "".join([*pieces, text[place:]]), count + len(pieces)
    return text, count


def is_loop(text: str) -> bool:
    """Whether a text is a loop: more than half of it, and at least 100 characters, repeats a piece up to the end.

    The piece has up to 64 characters and occurs at least four times. The last occurrence may be cut off.

    Example:
        >>> is_loop('"The answer is: ' * 12 + '"The answ'), is_loop("Mint, mint and again mint: three times mint.")
        (True, False)
    """
    for period in range(1, PERIOD + 1):
        same = next((place for place in range(len(text) - period) if text[-1 - place] != text[-1 - place - period]), len(text) - period)
        if same + period >= max(100, 4 * period, len(text) // 2 + 1):
            return True
    return False


def _repetitions(text: str, period: int) -> list[tuple[int, int]]:
    """The beginning and end of each repetition of a piece of ``period`` characters."""
    if len(text) < LOOP:
        return []
    signs = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")
    edges = np.concatenate(([-1], np.flatnonzero(signs[period:] != signs[:-period]), [len(signs) - period]))
    long = np.flatnonzero(np.diff(edges) - 1 + period >= LOOP)
    return [(int(edges[place]) + 1, int(edges[place + 1]) + period) for place in long]


_NAMES = (
    r"think(?:ing)?(?:[_-]process)?|thoughts?(?:[_-]process)?|reason(?:ing)?(?:[_-](?:process|content))?|reflection|analysis|scratchpad|cot"
    r"|chain[_-]of[_-]thought|monologue|deliberation|ponder(?:ing)?|plan(?:ning)?"
)
_OPENS, _CLOSES = r"(?:[<◁\uff1c\u3008]|&(?:lt|#60|#x3c);)", r"(?:[>▷\uff1e\u3009]|&(?:gt|#62|#x3e);)"
_TAG = (
    rf"{_OPENS}\|?\s{{0,9}}(?P<end>[/\uff0f])?\s{{0,9}}"
    rf"(?:[\w-]{{1,20}}:|ant|(?:longcat|inner|internal|hidden|private)[_-])?(?P<name>{_NAMES})"
    rf"(?:\s[^<>\n]{{0,200}}?)?\s{{0,9}}(?P<empty>[/\uff0f])?\|?{_CLOSES}"
)
_OTHERS = (
    (r"\[\s?think(?:ing)?\s?\]", r"\[\s?/\s?think(?:ing)?\s?\]"),
    (r"<\|(?:begin|start)_?of_?(?:thought|thinking|reasoning)\|>", r"<\|end_?of_?(?:thought|thinking|reasoning)\|>"),
    (r"<\|start_thinking\|>", r"<\|end_thinking\|>"),
    (r"<\|channel>thought\b", r"<channel\|>"),
    (r"<\|inner_prefix\|>", r"<\|inner_suffix\|>"),
    (r"<unused94>(?:thought\b)?", r"<unused95>"),
    (r"\A\s*thinking(?=(?:\.{3}|…)[ \t]*(?:\n|(?s:.*)done thinking\.))", r"(?:\.{3}|…)\s?done thinking\."),
    (r"\A\s*here(?:['’]s| is) my thought process:", r"^[ \t]{0,9}here(?:['’]s| is) my response:"),
)
_BLOCK = re.compile(r"^[ \t]*(```+|~~~+)[ \t]*(?:think(?:ing)?|thoughts?|reasoning)[ \t]*$", re.IGNORECASE | re.MULTILINE)
_PAIRS = "|".join(rf"(?P<b{number}>{begin})|(?P<e{number}>{end})" for number, (begin, end) in enumerate(_OTHERS))
_MARK = re.compile(f"{_TAG}|{_PAIRS}", re.IGNORECASE | re.MULTILINE)
_ANY = re.sub(r"\?P<\w+>", "?:", _MARK.pattern)
_MENTION = re.compile(rf"(?<![^\s(\[{{=:,`])[`\"'“‘«](?:{_ANY})(?:[\s.…]{{0,9}}(?:{_ANY}))?[`\"'”’»](?!\w)", re.IGNORECASE | re.MULTILINE)
_WRAPPED = re.compile(
    r"\A<\|?(answer|response|solution|output|final|final[_-]answer|(?:begin_of|start)_(?:solution|response))\|?>"
    r"(.*?)(?:<\|?(?:/\s?\1|end_of_solution|end_response)\|?>)?\Z",
    re.IGNORECASE | re.DOTALL,
)
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


def split_reasoning(text: str) -> Said:
    """The text outside of its reasoning, without surrounding blanks, and whether some reasoning has no end.

    Example:
        >>> split_reasoning("<think>hm</think> Paris"), split_reasoning("Paris? <thinking>or Rome")
        (Said(text='Paris', open=False), Said(text='', open=True))
    """
    blocks = _without_blocks(text)
    left = None if blocks is None else _final(blocks)
    pieces = [""] if left is None else _outside(left)
    while pieces and len(pieces) > 1:  # the text around reasoning may form a new mark
        left = "".join(pieces)
        pieces = _outside(left)
    if left is None or not pieces:
        return Said("", True)
    wrapped = None if left == text else _WRAPPED.match(left.strip())
    return Said((wrapped[2] if wrapped else left).strip(), False)


def without_reasoning(text: str) -> str:
    """The text outside of its reasoning. Empty if reasoning has no end.

    Example:
        >>> without_reasoning('[THINK]hm[/THINK]Paris. Models write "<think>" first.')
        'Paris. Models write "<think>" first.'
    """
    return split_reasoning(text).text


def is_mark(token: str) -> bool:
    """Whether a token of a tokenizer is a mark of reasoning.

    Example:
        >>> is_mark("[/THINK]"), is_mark("</s>")
        (True, False)
    """
    return _MARK.fullmatch(token) is not None


def opening_mark(prompt: str) -> str:
    """The mark at the end of a prompt. Chat templates of reasoning models end with one, so that the completion begins with reasoning.

    Example:
        >>> opening_mark("user: Which tea? assistant: <think>"), opening_mark("<think></think>")
        ('<think>', '')
    """
    last = [(mark, ends) for mark, _, ends in _marks(prompt)][-1:]
    return "".join(mark[0] for mark, ends in last if not ends and not prompt[mark.end() :].strip())


def _without_blocks(text: str) -> str | None:
    """The text without code blocks that hold reasoning. None if such a block has no end."""
    while (block := _BLOCK.search(text)) is not None:
        end = re.compile(rf"^[ \t]*{block[1]}[ \t]*$", re.MULTILINE).search(text, block.end())
        if end is None:
            return None
        text = text[: block.start()] + text[end.end() :].lstrip("\n")
    return text


def _final(text: str) -> str | None:
    """The text of harmony's final channel. A text without channels is returned whole. None if the final channel is missing."""
    if _CHANNEL.search(text):
        final = _FINAL.search(text)
        return None if final is None else _CONTROL.split(text[final.end() :], maxsplit=1)[0]
    residue = _RESIDUE.match(text)
    final = (_SPACED_FINAL if residue else _RESIDUE_FINAL).search(text) or _ONLY_FINAL.match(text)
    if final is not None:
        return _NEXT.split(text[final.end() :], maxsplit=1)[0]
    return None if residue else text


def _outside(text: str) -> list[str]:
    """The pieces of ``text`` outside of reasoning: one piece if there is no reasoning, no piece if the last reasoning has no end."""
    kept, within, position = list[str](), "", 0
    mentioned = {place for found in _MENTION.finditer(text) for place in range(*found.span())} if _MARK.search(text) else set()
    for mark, name, ends in _marks(text):
        if within:  # other marks, and further beginnings, are what the model thinks about
            position, within = (mark.end(), "") if ends and name == within else (position, within)
        elif mark.start() not in mentioned:
            kept = [""] if ends else [*kept, text[position : mark.start()]]
            within, position = "" if ends else name, mark.end()
    return [] if within else [*kept, text[position:]]


def _marks(text: str) -> Iterator[tuple[re.Match[str], str, bool]]:
    for mark in _MARK.finditer(text):
        group = mark.lastgroup or ""
        name = "" if mark["empty"] and not mark["end"] else (mark["name"] or group[1:]).casefold()  # <think/> holds nothing
        yield mark, name, bool(mark["end"]) if mark["name"] else group.startswith("e")


FENCE = re.compile(r"^\s*```.*$", re.MULTILINE)
"""A line that opens or ends a block of code."""
_INVENTED = re.compile(r"^[ \t]*(?:[-*#]+ )?(?:\d{1,2}[.)] *)?(?:question|user|human) *:", re.IGNORECASE | re.MULTILINE)


def usable_text(text: str) -> str:
    """The model's answer: the text without reasoning, or nothing if it only declines.

    Example:
        >>> usable_text("<think>hm</think> Paris"), usable_text("I'm sorry, but I can't help with that.")
        ('Paris', '')
    """
    text = without_reasoning(text)
    return "" if is_refusal(text) else text


_NOTHING = re.compile(r"\W*(?:null|none|n/?a)\W*", re.IGNORECASE)


def usable_words(text: str) -> str:
    """The model's answer, as `usable_text` gives it. Empty if it is a value that means "nothing".

    Example:
        >>> usable_words("<think>hm</think> Paris"), usable_words("N/A")
        ('Paris', '')
    """
    text = usable_text(text)
    return "" if _NOTHING.fullmatch(text) else text


def answer_text(text: str) -> str | None:
    """The model's answer, as `usable_words` gives it. None if it has neither a letter nor a digit.

    Example:
        >>> answer_text("<think>hm</think> Paris"), answer_text("...")
        ('Paris', None)
    """
    text = usable_words(text)
    return text if any(map(str.isalnum, text)) else None


def own_turn(text: str) -> str:
    r"""The text up to the next question, which the model invented. A text that begins with such a question is returned whole.

    Example:
        >>> own_turn("[8]\n\n2. Question: And limes?\n   Provenance: [3]")
        '[8]\n\n'
    """
    invented = _INVENTED.search(text)
    own = text[: invented.start()] if invented else text
    return own if own.strip() and not own.rstrip().endswith(":") else text


_INPUT = "About the user|Conversation so far|Last message of the user"
_NEXT_PROMPT = re.compile(rf"^(?:#+ *(?:Example(?: \d+)?|The user whom you answer) *\n+)?#+ *(?:{_INPUT}) *$", re.MULTILINE)
"""The headings of our templates above the input, never above the answer."""


_ECHO = re.compile(rf"\s*#+ *(?:Task|Role|(?P<input>{_INPUT})) *(?:\n|\Z)")
"""A text that begins with a heading of our templates above the answer."""


def without_next_prompt(text: str) -> str:
    r"""The completion up to the headings of a prompt that the model invented after it. The whole completion if nothing comes before them.

    Example:
        >>> without_next_prompt("1. bicycle lights\n\n# Example 3\n# About the user\n1: I keep bees\n# Queries\n1. hives")
        '1. bicycle lights\n\n'
    """
    found = _NEXT_PROMPT.search(text)
    return text[: found.start()] if found and text[: found.start()].strip() else text


def readable(text: str, whole: bool = False) -> tuple[str, list[str]]:
    r"""The part of a completion that a parser reads, and the omitted parts in words: a repeated or invented prompt, long repetitions.

    Args:
        text: the completion.
        whole: keep repetitions, because the text itself is the result.

    Example:
        >>> said, omitted = readable("oat milk\n" + "and so on " * 500)
        >>> len(said), omitted
        (249, ['1 long repetition'])
    """
    echo = _ECHO.match(without_reasoning(text))
    if echo and not (whole and echo["input"]):  # a written answer may have such a heading of its own
        return "", [f"the prompt, which the model repeats: {text!r}"]
    own = without_next_prompt(text)
    said, count = (own, 0) if whole else collapsed(own)
    repeated = [f"{count} long repetition{'s' if count > 1 else ''}"] if count else []
    return said, ([f"the next prompt, which the model invented: {text[len(own) :]!r}"] if own != text else []) + repeated
