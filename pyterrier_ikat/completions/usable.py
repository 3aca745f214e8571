r"""The usable part of a completion: without reasoning, refusals, and turns or prompts that the model invented after its answer.

Marks of reasoning are tags (``<think>``, ``<thinking>``, ``<reasoning>``, ``<thought>``, ``<seed:think>``, ``[THINK]``,
``<|START_THINKING|>`` and the like, in any case, with attributes and blanks), harmony's channels, what is left of those when a server
strips the special tokens (``analysis...assistantfinal``), and Granite's two sentences. An end without a beginning ends reasoning, too:
servers eat beginnings.

A mark alone in quotation marks or backticks, as in "models write ``"<think>"`` first", is only mentioned and stays; so does the word
without brackets. Everywhere else a mark counts, also in code: an open one is a failure that is named, never a text that lost its half.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

_NAMES = (
    r"think(?:ing)?(?:[_-]process)?|thoughts?(?:[_-]process)?|reason(?:ing)?(?:[_-](?:process|content))?|reflection|analysis|scratchpad|cot"
    r"|chain[_-]of[_-]thought|monologue|deliberation"
)
_TAG = (
    rf"[<◁]\|?\s{{0,9}}(?P<end>/)?\s{{0,9}}(?:[\w-]{{1,20}}:|ant|(?:longcat|inner|internal|hidden|private)[_-])?(?P<name>{_NAMES})"
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


def split_reasoning(text: str) -> Said:
    """What ``text`` says behind and between its reasoning, without surrounding blanks, and whether reasoning has no end in it.

    Example:
        >>> split_reasoning("<think>hm</think> Paris"), split_reasoning("Paris? <thinking>or Rome")
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
    return split_reasoning(text).text


def is_mark(token: str) -> bool:
    """Whether a token of a tokenizer is a mark of reasoning.

    Example:
        >>> is_mark("[/THINK]"), is_mark("</s>")
        (True, False)
    """
    return _MARK.fullmatch(token) is not None


def opening_mark(prompt: str) -> str:
    """The mark that a prompt ends with, as chat templates of reasoning models do, so that the completion begins within reasoning.

    Example:
        >>> opening_mark("user: Which tea? assistant: <think>"), opening_mark("<think></think>")
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


LONGEST = 300
"""Characters of a completion that can be nothing but a refusal."""

_SORRY = (
    r"(?:(?:i['’]?m|i am|we['’]?re|we are)\s+(?:\w+\s+)?sorry|sorry|(?:i|we)\s+apologi[sz]e|my apologies|unfortunately|regrettably)"
    r"[\s,.:!-]*(?:but\s+)?"
)
_MACHINE = (
    r"as an?\s+(?:(?:ai|artificial\s+intelligence)(?:[\s-]+(?:powered|based))?(?:\s+(?:language\s+)?(?:model|assistant|chatbot|system))?"
    r"|(?:large\s+)?language\s+model)\b(?:\s+\w+\s+by\s+\w+)?,?\s+"
)
_UNABLE = (
    r"(?:(?:i|we)\s+(?:can\s*not|can['’]?t|could\s*not|couldn['’]t|won['’]t|will\s+not|must\s+decline\s+to|have\s+to\s+decline\s+to"
    r"|(?:do\s+not|don['’]t)\s+feel\s+comfortable)|(?:(?:i['’]?m|i\s+am|we['’]re|we\s+are)\s+)?(?:unable|not\s+able|not\s+allowed)\s+to)"
    r"(?:\s+be\s+able\s+to)?"
)
_WANTED = (
    r"\s+(?:(?:help|assist)(?:ing)?\b(?:\s+you)?(?=\s+(?:with|in|on)\b|\W*\Z)"
    r"|do\s+(?:that|this|so)\b"
    r"|(?:answer|respond\s+to|comply|fulfil+|complete|process|discuss|engage|provid|generat|creat|produc|writ|rewrit|offer|support"
    r"|continu)(?:e|ing)?\b(?=[^,;:]*\b(?:request|question|query|queries|content|conversation|information|advice|topic|task|text"
    r"|that|this|it|passage|response|rewrite)s?\b))"
)
_ASIDE = re.compile(
    r"(?:please|if\s+you|is\s+there|can\s+i|would\s+you|feel\s+free|let\s+me|i['’]m|i\s+(?:am|can|could|cannot|can['’]t|do|don['’]t)\b"
    r"|my\s+(?:purpose|guidelines|role)|it\s+(?:goes|violates|would)|this\s+(?:request|content|topic|violates|goes)|such\s+|sorry)",
    re.IGNORECASE,
)
_TURN = r"\b(?:but|however|although|though|instead|yet)\b"
_OFFER = (
    r",?\s*(?:but|however|instead),?\s+(?:please\b|feel\s+free|if\s+you|i(?:['’]m|\s+am|['’]d|\s+would|\s+can|\s+could)\s+"
    r"(?:be\s+)?(?:happy|glad|try|help)\b)"
)
_LACK = r"(?:i|we)\s+(?:can\s*not|can['’]?t|do\s+not|don['’]t|am\s+not|am\s+unable)\b"
_REST = rf"(?:(?!{_TURN})[^;:?.!])*(?:{_OFFER}[^;:?.!]*)?"
_DECLINES = re.compile(
    rf"(?:(?:{_MACHINE})?(?:{_SORRY})?(?:{_MACHINE})?{_UNABLE}(?:{_WANTED}{_REST})?|(?:{_SORRY})?{_MACHINE}{_LACK}{_REST})"
    r"(?:[.!]+(?:\s+|\Z)|\Z)",
    re.IGNORECASE,
)


def is_refusal(text: str) -> bool:
    """Whether the whole text does nothing but decline: short, from its first words on, and nothing but offers after it.

    English ones only.

    Example:
        >>> is_refusal("I'm sorry, but I can't help with that."), is_refusal("I'm sorry, but rooibos has no caffeine.")
        (True, False)
    """
    text = " ".join(text.split()).strip("*_\"'“”` ")
    declined = _DECLINES.match(text)
    if len(text) > LONGEST or declined is None:
        return False
    others = [other for other in re.split(r"(?<=[.!?])\s+", text[declined.end() :]) if other]
    return all(_ASIDE.match(other) and not re.search(_TURN, other, re.IGNORECASE) for other in others)


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
    """What the model says, as `usable_text`; nothing where that is a value that stands for nothing.

    Example:
        >>> usable_words("<think>hm</think> Paris"), usable_words("N/A")
        ('Paris', '')
    """
    text = usable_text(text)
    return "" if _NOTHING.fullmatch(text) else text


def answer_text(text: str) -> str | None:
    """What the model says, as `usable_words`; None where that has no letter and no digit.

    Example:
        >>> answer_text("<think>hm</think> Paris"), answer_text("...")
        ('Paris', None)
    """
    text = usable_words(text)
    return text if any(map(str.isalnum, text)) else None


def own_turn(text: str) -> str:
    r"""The text up to the next question, which the model invented; all of it where it begins with one.

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


def without_next_prompt(text: str) -> str:
    r"""The completion up to the headings of a prompt that the model has invented behind it; all of it where nothing stands before them.

    Example:
        >>> without_next_prompt("1. bicycle lights\n\n# Example 3\n# About the user\n1: I keep bees\n# Queries\n1. hives")
        '1. bicycle lights\n\n'
    """
    found = _NEXT_PROMPT.search(text)
    return text[: found.start()] if found and text[: found.start()].strip() else text
