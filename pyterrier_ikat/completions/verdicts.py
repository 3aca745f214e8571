"""Parsers of decisions: a judge's score, label, yes or no, choice or numbers, and the order of passages. Pure functions.

The prompts of judges ask for a JSON object with a reason and a verdict. The parsers also accept
such an object in prose or a fence, a broken object, ``Score: 2`` lines, and a first or last line
with only the verdict. A value must begin its clause and be the only value in it: a number, a yes or
a letter somewhere in prose is not a verdict, and neither are two values.
"""

import html
import json
import re
import unicodedata
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

from .json_answers import json_values, objects_in
from .reasoning import without_reasoning
from .usable import FENCE, own_turn, usable_text

_DASH = "-−–—~〜"
_LETTER = r"[^\W\d_]"
_SHARE = r"[ \t]*(?:[%٪\uff05]|per[ \t]?cent\b)"
_SCALE = r"(?:/|(?:out[ \t]+of|of|von|sur)\b)[ \t]*"
_OTHER_SCALE = rf"(?:[ \t]*(?:points?|stars?)\b)?[ \t]*(?:{_SCALE}\d|\([ \t]*{_SCALE}\d+[ \t]*\))"
_OR_MORE = rf"(?:[{_DASH}/,]|\.\.+)\d|[ \t]*\b(?:to|or|bis|hasta|à|ou)\b[ \t]*\d"
# A word after the second number begins a reason, as in "2 - 3 huts are missing".
_REASON = rf"[ \t]*(?!(?:and|und|or|to|bis|points?|stars?|out)\b){_LETTER}"
_AND_MORE = rf"[ \t]*(?:[{_DASH},;/]|\b(?:and|und)\b)?[ \t]*-?\d+(?:[.,]\d+)*(?![.,]?\d|{_REASON})"
NO_GRADE = rf"(?:{_SHARE}|{_OTHER_SCALE}|{_OR_MORE}|{_AND_MORE})"
"""What shows that the number before it is not a grade: a percent sign, another scale, or a second number."""


def grade(highest: int) -> str:
    """The pattern of a whole number that is a grade, perhaps with its own scale: ``3``, ``3.0``, ``3/4``, ``3 (out of 4)``.

    Its first group is the number. A percentage, a grade on another scale, a half and a range do not
    match.

    Example:
        >>> [re.match(grade(4), text) is not None for text in ("3/4 stars", "3/5", "3%", "2 to 3", "2, 3 huts are missing")]
        [True, False, False, False, True]
    """
    own_scale = rf"[ \t]*(?:{_SCALE}{highest}\b(?![.,]\d)|\([ \t]*{_SCALE}{highest}[ \t]*\))"
    second = rf"[ \t]*(?:\b(?:to|or|and|bis|und)\b|[{_DASH},;])[ \t]*\d+[ \t]*{_SCALE}{highest}\b|[ \t]*\b(?:to|or)\b[ \t]*\d"
    whole = r"((?:(?<!\w)[-−–])?\d{1,9})(?:(?:\.0+|,0)(?!\d)|(?![.,]?\d))"
    return rf"{whole}(?:{own_scale}(?!{second})|(?!{NO_GRADE}))"


def without_scale(text: str, highest: int) -> str:
    """The text without the scale from 0 that it repeats.

    Example:
        >>> without_scale("Score (0-4): 2", 4)
        'Score (): 2'
    """
    return re.sub(
        rf"(?<![\d.-])0[ \t]*(?:-|–|—|to)[ \t]*{highest}(?![\d.])", "", text, flags=re.IGNORECASE
    )


_LABEL = re.compile(r"(?<![\d.-])([0-9])(?:\.0+)?(?![\d]|\.\d)")
_NO_LABEL = re.compile(rf"(?<![\d.,-])\d(?!\d){NO_GRADE}", re.IGNORECASE)
_LABEL_NAME = re.compile(
    r"(?:score|rating|rate|label|relevance|grade)\W{0,4}(?:is|of|:|=)?\W{0,4}(?<!\W[-−–])(?=[-−–]?\d)",
    re.IGNORECASE,
)


def parse_label(text: str, highest: int = 4) -> int | None:
    """Read a relevance label from 0 to ``highest``. ``None`` if the text has no label, or several different ones.

    A number right after "score", "rating" or the like counts before any other; "3 out of 4" and
    "3/4" read as 3. A percentage, a range and a number on another scale are not labels.

    Example:
        >>> parse_label("Score: 3/4. It names two of the 5 sizes."), parse_label("Score: 3/5"), parse_label("No idea.")
        (3, None, None)
    """
    text = without_scale(without_reasoning(text), highest)
    whole = re.compile(grade(highest), re.IGNORECASE)
    found = [whole.match(text, name.end()) for name in _LABEL_NAME.finditer(text)]
    lines = [whole.fullmatch(line.strip(" .*")) for line in text.splitlines() if line.strip()]
    if lines and lines[0]:  # several lines with a grade may belong to invented passages
        found += filter(None, lines)
    labels = {
        int(number[1]) if number and number[1].isdecimal() else highest + 1 for number in found
    }
    bare = re.sub(rf"(\d)\s*(?:/|out of)\s*{highest}\b", r"\1", text)
    if not labels and not _NO_LABEL.search(bare):
        labels = {int(number) for number in _LABEL.findall(bare)}
    return labels.pop() if len(labels) == 1 and labels <= set(range(highest + 1)) else None


ACTIONS = ("answer", "ask", "abstain")
NO_REASON = "the model gave no reason"
_MARKS = r"[\s\"'`*_#(\[{-]*?"
_CLAUSE = re.compile(r".*?(?=[;:!\n]|\.(?!\d)|\s[–—-]\s|$)", re.DOTALL)
_ENDS = r"(?=\s*(?:[^\w\s%/&=<>+]|$))"
"""A value is followed by the end or by punctuation, not by a word."""
_YES_NO = re.compile(r"\b(?:yes|no|true|false)\b", re.IGNORECASE)
_CHOICE = re.compile(r"\b(?:A|B|(?i:tie|draw|equal|both|neither))\b")
_ACTION = re.compile(rf"\b(?:{'|'.join(ACTIONS)})\b", re.IGNORECASE)
_NOTHING = re.compile(r"\W*(?:none|nothing|no nuggets?)\b\W*|\W*\[\s*\]\W*", re.IGNORECASE)
_NUMBERS = re.compile(r"[^\w−–-]*(?:-\s+)?\d{1,9}(?:(?:[^\w/%.−–-]|\s-\s|\band\b)+\d{1,9})*[^\w%]*")

Value = TypeVar("Value")


class Verdict(NamedTuple):
    """A judge's decision and its reason."""

    value: Any
    reason: str


def read_score(text: str, lowest: int, highest: int) -> Verdict | None:
    r"""A whole number from ``lowest`` to ``highest`` under ``score``. None if it is missing or outside this range, or if there are several.

    Example:
        >>> read_score('Sure:\n```json\n{"reason": "It skips the price.", "score": 2}\n```', -1, 3)
        Verdict(value=2, reason='It skips the price.')
        >>> read_score("It names 2 of 3 sizes.", -1, 3)
    """
    return _read(text, "score", lambda value: _score(value, lowest, highest))


def read_yes_no(text: str) -> Verdict | None:
    """Yes (True) or no (False) under ``verdict``. None if there is neither, or both.

    Example:
        >>> read_yes_no("Verdict: No. The price is in none of the documents.").value
        False
    """
    return _read(text, "verdict", _yes_no)


def read_choice(text: str) -> Verdict | None:
    """``"A"``, ``"B"`` or ``"tie"`` under ``better``. None if there is none of them, or several.

    Example:
        >>> read_choice('{"reason": "A is longer, no more.", "better": "tie"}').value
        'tie'
    """
    return _read(text, "better", _choice)


def read_numbers(text: str) -> Verdict | None:
    """A list of whole numbers under ``nuggets``, each once, in order. Empty if the judge names none; None without a readable list.

    Example:
        >>> read_numbers('{"reason": "The second is missing.", "nuggets": [1, 3]}').value
        [1, 3]
    """
    return _read(text, "nuggets", _numbers)


def read_action(text: str) -> tuple[str, str] | None:
    """One of :data:`ACTIONS` under ``action`` and, for ``"ask"``, the question under ``question``. None if one of them is missing.

    Unlike other verdicts, an action without a label must be the whole text, because a line such as
    ``Answer: rooibos`` begins an answer.

    Example:
        >>> read_action('{"reason": "Which of both?", "action": "ask", "question": "Green or black tea?"}')
        ('ask', 'Green or black tea?')
        >>> read_action("Answer: rooibos has none.")
    """
    said = without_reasoning(text)
    alone = [(said, "")] * (said.strip(" \n.*_\"'`").casefold() in ACTIONS)
    found = _agreed(_in_json(said, "action") or _labelled(said, "action") or alone, _action)
    if found is None or found.value != "ask":
        return None if found is None else (found.value, "")
    questions = [
        question
        for question, _ in _in_json(said, "question") or _labelled(said, "question")
        if isinstance(question, str)
    ]
    asked = list(
        dict.fromkeys(filter(None, (question.strip(" \t\n\"'*_,}") for question in questions)))
    )
    return ("ask", asked[0]) if len(asked) == 1 else None


def _read(text: str, key: str, interpret: Callable[[Any], Value | None]) -> Verdict | None:
    text = without_reasoning(text)
    return _agreed(_in_json(text, key) or _labelled(text, key) or _alone(text), interpret)


def _agreed(
    candidates: Sequence[tuple[Any, str]], interpret: Callable[[Any], Value | None]
) -> Verdict | None:
    """The value on which all candidates with a value agree."""
    read = [(value, reason) for raw, reason in candidates if (value := interpret(raw)) is not None]
    return (
        Verdict(read[0][0], read[0][1] or NO_REASON)
        if read and all(value == read[0][0] for value, _ in read)
        else None
    )


def _in_json(text: str, key: str) -> list[tuple[Any, str]]:
    named = [
        {str(name).casefold(): value for name, value in item.items()}
        for item in objects_in(json_values(text))
    ]
    return [(item[key], _flat(item.get("reason", ""))) for item in named if key in item]


def _labelled(text: str, key: str) -> list[tuple[str, str]]:
    marks = r"[\"'*_ ]*"
    inline = rf"(?<![^\W_])(?<![^\W_]_){key}(?![^\W_]){marks}(?:\([^)\n]*\))?{marks}(?:\bis\b|[:=\uff1a])"
    label = re.compile(
        rf"(?:{inline}|^(?:[^\w\[\n]|_){{0,99}}{key}(?:[^\w\[\n]|_){{0,99}}\n)[\s\"'*_:]*([^\n]*)",
        re.IGNORECASE | re.MULTILINE,
    )
    return [
        (found[1], _flat(text[: found.start()] + text[found.end() :]) or _beside(found[1]))
        for found in label.finditer(text)
    ]


def _beside(line: str) -> str:
    return _flat(line) if len(line.split()) > 2 else ""


def _alone(text: str) -> list[tuple[str, str]]:
    lines = [line for line in FENCE.sub("", text).splitlines() if line.strip()]
    ends = dict.fromkeys([lines[0], lines[-1]]) if lines else {}
    return [
        (line, _flat(" ".join(other for other in lines if other != line)) or _beside(line))
        for line in ends
    ]


def _flat(reason: Any) -> str:
    text = reason if isinstance(reason, str) else json.dumps(reason)
    return (
        " ".join(text.removeprefix("Reason:").split()).strip(' "{},')
        if any(map(str.isalnum, text))
        else ""
    )


def _only_value(
    kind: "re.Pattern[str]", meaning: Callable[[str], Value], value: str
) -> Value | None:
    """The meaning of the word or number of this kind at the beginning of a text, if its clause has no such word of another meaning."""
    value = value.strip()
    found = re.match(rf"{_MARKS}({kind.pattern}){_ENDS}", value, kind.flags)
    clause = _CLAUSE.match(value)
    meant = {meaning(word) for word in kind.findall(clause[0])} if clause else set()
    return meaning(found[1]) if found and len(meant) == 1 else None


def _score(value: Any, lowest: int, highest: int) -> int | None:
    if isinstance(value, str):
        found = re.match(rf"{_MARKS}{grade(highest)}{_ENDS}", value, re.IGNORECASE)
        value = int(found[1].replace("−", "-").replace("–", "-")) if found else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if lowest <= value <= highest and value == int(value) else None


def _yes_no(value: Any) -> bool | None:
    if isinstance(value, str):
        return _only_value(_YES_NO, lambda word: word.casefold() in ("yes", "true"), value)
    return value if isinstance(value, bool) else None


def _choice(value: Any) -> str | None:
    if not isinstance(value, str):
        return None
    value = re.sub(
        r"^\W*(?:(?:response|answer|assistant)\s+|an?\s+(?=tie|draw))",
        "",
        value,
        flags=re.IGNORECASE,
    )
    value = value.upper() if value.strip(" \n.*_()\"'") in ("a", "b") else value
    return _only_value(_CHOICE, lambda word: word if word in ("A", "B") else "tie", value)


def _action(value: Any) -> str | None:
    return _only_value(_ACTION, str.lower, value) if isinstance(value, str) else None


def _numbers(value: Any) -> list[int] | None:
    if isinstance(value, list):
        items = [_score(item, 0, 10**6) for item in value]
        return (
            None
            if None in items
            else list(dict.fromkeys(item for item in items if item is not None))
        )
    if not isinstance(value, str):
        return None
    value = re.sub(
        r"(\])\s*,\s*[\"']?\w+[\"']?\s*:.*", r"\1", value
    )  # what follows in an object that is not JSON
    if _NOTHING.fullmatch(value):
        return []
    if set(value) & set("[{(") and not set(value) & set(
        ")}]"
    ):  # a list that was cut off may have had more numbers
        return None
    return (
        list(dict.fromkeys(map(int, re.findall(r"\d+", value))))
        if _NUMBERS.fullmatch(value)
        else None
    )


_PASSAGE = r"(?:(?:passage|document|doc|text|item|id|number|no|rank)s?\b\.?)"
_IN_BRACKETS = re.compile(
    rf"\[\s{{0,9}}{_PASSAGE}?[\s#:]{{0,9}}(\d{{1,9}})\d*[\s.]{{0,9}}\]", re.IGNORECASE
)
_ABOVE = ">≻≽≥→»"
_NEXT_IN_BRACKETS = re.compile(
    rf"(?:(?!\n\s*\n)[^\w\[\]]){{0,12}}|[^\[\]\n]{{0,200}}[{_ABOVE}][^\[\]\n]{{0,200}}"
)
_PASSAGED = re.compile(rf"{_PASSAGE}[\s#:]{{0,9}}(\d{{1,9}})", re.IGNORECASE)
_A_NUMBER = re.compile(r"(?<![\w.-])(\d{1,9})\d*(?![\w%]|\.\d)")
_NEXT = re.compile(r"(?:(?!\n\s*\n)\W){1,9}(?:and\s+)?", re.IGNORECASE)
_NUMBERED_LINE = re.compile(r"^[ \t]*\d+[.):][ \t]+\W{0,9}(\d{1,9})\d*\b", re.MULTILINE)
_OTHER_BRACKETS = str.maketrans("【】〔〕「」⟦⟧", "[][][][]")


def read_ranking(text: str) -> list[int] | None:
    r"""The numbers of passages in a completion, best first, as the model wrote them.

    Numbers in brackets take precedence. Of several lists the longest counts; of equally long lists,
    the last. So reasoning before the answer is not mistaken for the ranking. A list may also have
    one number per line, and its lines may be numbered.

    Returns:
        The numbers, including repeated ones and ones that no passage has. None if the completion
        has neither a list nor a single number.

    Example:
        >>> read_ranking("[2] > [3] > [1]"), read_ranking("1. Passage 2\n2. Passage 1"), read_ranking("Of the 3 passages: 2, 1, 3")
        ([2, 3, 1], [2, 1], [2, 1, 3])
        >>> read_ranking("I have ranked them.") is None
        True
    """
    said = unicodedata.normalize("NFKC", html.unescape(usable_text(text))).translate(
        _OTHER_BRACKETS
    )
    said = own_turn(FENCE.sub("", said))
    return _of_brackets(said) or _without_brackets(said) or None


def _of_brackets(text: str) -> list[int]:
    found = list(_IN_BRACKETS.finditer(text))
    every = [int(one[1]) for one in found]
    best = _longest(_runs(text, found, _NEXT_IN_BRACKETS))
    return best if 2 * len(set(best)) > len(set(every)) else every


def _without_brackets(text: str) -> list[int]:
    """Numbers after line numbers, after a word such as "passage", or next to each other. A lone number counts if there is nothing else."""
    lines, named = (
        [int(one[1]) for one in pattern.finditer(text)] for pattern in (_NUMBERED_LINE, _PASSAGED)
    )
    if len(lines) > 1:
        return lines
    best = _longest(_runs(text, list(_A_NUMBER.finditer(text)), _NEXT))
    return _longest([best, named]) if len(best) > 1 or not re.search(r"[^\W\d_]", text) else named


def _runs(text: str, found: Sequence[re.Match[str]], between: re.Pattern[str]) -> list[list[int]]:
    """The groups of consecutive numbers: only ``between`` separates them."""
    ends = [
        place
        for place in range(1, len(found))
        if not between.fullmatch(text, found[place - 1].end(), found[place].start())
    ]
    return [
        [int(one[1]) for one in found[start:end]] for start, end in pairwise([0, *ends, len(found)])
    ]


def _longest(runs: Sequence[list[int]]) -> list[int]:
    return max(reversed(runs), key=lambda run: len(set(run)), default=[])
