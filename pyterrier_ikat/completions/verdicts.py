"""Parsers of decisions: a judge's score, label, yes or no, choice or numbers, and a ranking.

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
from typing import Any, NamedTuple, TypeVar

from .json_answers import TEXT, YES_NO, answer_in, json_values, list_of, object_of, objects_in
from .reasoning import without_reasoning
from .usable import has_letter_or_digit, own_turn, usable_text, without_fences

_DASH = "-−–—~〜"
_LETTER = r"[^\W\d_]"
_SHARE = r"[ \t]*(?:[%٪\uff05]|per[ \t]?cent\b)"
_SLASH = "/\uff0f\u2044\u2215"
"""The slash, the full-width one, and the signs of fractions and divisions (Unicode)."""
# A scale by its words: English, German, French, Spanish and Portuguese, Italian, Dutch, Russian.
_SCALE = rf"(?:[{_SLASH}]|(?:out[ \t]+of|of|von|sur|de|su|van|из)\b)[ \t]*"
_OTHER_SCALE = rf"(?:[ \t]*(?:points?|stars?)\b)?[ \t]*(?:{_SCALE}\d|\([ \t]*{_SCALE}\d+[ \t]*\))"
_OR_MORE = rf"(?:[{_DASH}{_SLASH},]|\.\.+)\d|[ \t]*\b(?:to|or|bis|hasta|à|ou)\b[ \t]*\d"
# A word after the second number begins a reason, as in "2 - 3 huts are missing".
_REASON = rf"[ \t]*(?!(?:and|und|or|to|bis|points?|stars?|out)\b){_LETTER}"
_AND_MORE = (
    rf"[ \t]*(?:[{_DASH},;{_SLASH}]|\b(?:and|und)\b)?[ \t]*-?\d+(?:[.,]\d+)*(?![.,]?\d|{_REASON})"
)
NO_GRADE = rf"(?:{_SHARE}|{_OTHER_SCALE}|{_OR_MORE}|{_AND_MORE})"
"""What shows that the number before it is no grade: a percent sign, a scale, a second number."""


def grade(highest: int) -> str:
    """Return the pattern of a grade: ``3``, ``3.0``, ``3/4``, ``3 (out of 4)``.

    Its first group is the number. A percentage, a grade on another scale, a half and a range do not
    match.

    Example:
        >>> texts = ("3/4 stars", "2, 3 huts are missing", "3/5", "3%", "2 to 3")
        >>> [re.match(grade(4), text) is not None for text in texts]
        [True, True, False, False, False]
    """
    out_of = rf"{_SCALE}{highest}"
    own_scale = rf"[ \t]*(?:{out_of}\b(?![.,]\d)|\([ \t]*{out_of}[ \t]*\))"
    second = (
        rf"[ \t]*(?:\b(?:to|or|and|bis|und)\b|[{_DASH},;])[ \t]*\d+[ \t]*{out_of}\b"
        r"|[ \t]*\b(?:to|or)\b[ \t]*\d"
    )
    whole = r"((?:(?<!\w)[-−–])?\d{1,9})(?:(?:\.0+|,0)(?!\d)|(?![.,]?\d))"
    return rf"{whole}(?:{own_scale}(?!{second})|(?!{NO_GRADE}))"


def without_scale(text: str, highest: int) -> str:
    """Remove the scale from 0 that a text repeats.

    Example:
        >>> without_scale("Score (0-4): 2", 4)
        'Score (): 2'
    """
    scale = rf"(?<![\d.-])0[ \t]*(?:-|–|—|to)[ \t]*{highest}(?![\d.])"
    return re.sub(scale, "", text, flags=re.IGNORECASE)


_LABEL = re.compile(r"(?<![\d.-])([0-9])(?:\.0+)?(?![\d]|\.\d)")
_WITHIN_WORDS = rf"(?<={_LETTER}[ \t])\d[ \t]+{_LETTER}"
"""A number between words, which counts something: ``lists 3 trails``."""
_NO_LABEL = re.compile(rf"(?<![\d.,-])\d(?!\d){NO_GRADE}|{_WITHIN_WORDS}", re.IGNORECASE)
_LABEL_NAME = re.compile(
    r"(?:score|rating|rate|label|relevance|grade)\W{0,4}(?:is|of|:|=)?"
    r"\W{0,4}(?<!\W[-−–])(?=[-−–]?\d)",
    re.IGNORECASE,
)


def parse_label(text: str, highest: int = 4) -> int | None:
    """Read a relevance label from 0 to ``highest``. ``None`` without a label, or with several.

    A number right after "score", "rating" or the like counts before any other; "3 out of 4" and
    "3/4" read as 3. A percentage, a range, a number on another scale and one between other words
    are not labels.

    Example:
        >>> parse_label("Score: 3/4. It names two of the 5 sizes."), parse_label("Score: 3/5")
        (3, None)
        >>> parse_label("3 highly relevant"), parse_label("The passage lists 3 trails.")
        (3, None)
    """
    text = without_scale(without_reasoning(text), highest)
    pattern = re.compile(grade(highest), re.IGNORECASE)
    grades = [pattern.match(text, name.end()) for name in _LABEL_NAME.finditer(text)]
    lines = [line for line in text.splitlines() if line.strip()]
    if lines and pattern.fullmatch(lines[0].strip(" .*")):
        # Several lines with a grade may belong to invented passages.
        for line in lines:
            on_line = pattern.fullmatch(line.strip(" .*"))
            if on_line:
                grades.append(on_line)
    labels = {_label_of(number, highest) for number in grades}
    if not labels:
        labels = _bare_labels(text, highest)
    if len(labels) != 1:
        return None
    [label] = labels
    return label if 0 <= label <= highest else None


def _label_of(number: re.Match[str] | None, highest: int) -> int:
    """Return a grade as a number; one above ``highest`` for what is no grade."""
    if number is None or not number[1].isdecimal():
        return highest + 1
    return int(number[1])


def _bare_labels(text: str, highest: int) -> set[int]:
    """Return the numbers in a text. None at all if one of them can't be a label.

    That is a share, a range, a number on another scale, or one between words.
    """
    bare = re.sub(rf"(\d)\s*(?:[{_SLASH}]|out of)\s*{highest}\b", r"\1", text)
    if _NO_LABEL.search(bare):
        return set()
    return {int(number) for number in _LABEL.findall(bare)}


ACTIONS = ("answer", "ask", "abstain")
NO_REASON = "the model gave no reason"
_MARKS = r"[\s\"'`*_#(\[{-]*?"
_CLAUSE = re.compile(r".*?(?=[;:!\n]|\.(?!\d)|\s[–—-]\s|$)", re.DOTALL)
_ENDS = rf"(?=\s*(?:[^\w\s%{_SLASH}&=<>+]|$))"
"""A value is followed by the end or by punctuation, not by a word."""
_YES_NO = re.compile(r"\b(?:yes|no|true|false)\b", re.IGNORECASE)
_CHOICE = re.compile(r"\b(?:A|B|(?i:tie|draw|equal|both|neither))\b")


_BEFORE_CHOICE = re.compile(
    r"^\W*(?:(?:response|answer|assistant)\s+|an?\s+(?=tie|draw))", re.IGNORECASE
)
_ACTION = re.compile(rf"\b(?:{'|'.join(ACTIONS)})\b", re.IGNORECASE)
_NOTHING = re.compile(r"\W*(?:none|nothing|no nuggets?)\b\W*|\W*\[\s*\]\W*", re.IGNORECASE)
_NUMBERS = re.compile(
    rf"[^\w−–-]*(?:-\s+)?\d{{1,9}}(?:(?:[^\w{_SLASH}%.−–-]|\s-\s|\band\b)+\d{{1,9}})*[^\w%]*"
)

Value = TypeVar("Value")


class Verdict(NamedTuple):
    """A judge's decision and its reason."""

    value: Any
    reason: str


def read_score(text: str, lowest: int, highest: int) -> Verdict | None:
    r"""Read a whole number from ``lowest`` to ``highest`` under ``score``.

    None if it is missing or outside this range, or if there are several.

    Example:
        >>> read_score('```json\n{"reason": "It skips the price.", "score": 2}\n```', -1, 3)
        Verdict(value=2, reason='It skips the price.')
        >>> read_score("It names 2 of 3 sizes.", -1, 3)
    """
    return _read(text, "score", lambda value: _score(value, lowest, highest))


def read_yes_no(text: str) -> Verdict | None:
    """Read yes (True) or no (False) under ``verdict``. None if there is neither, or both.

    Example:
        >>> read_yes_no("Verdict: No. The price is in none of the documents.").value
        False
    """
    return _read(text, "verdict", _yes_no)


def read_choice(text: str) -> Verdict | None:
    """Read ``"A"``, ``"B"`` or ``"tie"`` under ``better``. None without one, or with several.

    Example:
        >>> read_choice('{"reason": "A is longer, no more.", "better": "tie"}').value
        'tie'
    """
    return _read(text, "better", _choice)


def read_numbers(text: str) -> Verdict | None:
    """Read a list of whole numbers under ``nuggets``, each once, in order.

    Empty if the judge names none; None without a readable list.

    Example:
        >>> read_numbers('{"reason": "The second is missing.", "nuggets": [1, 3]}').value
        [1, 3]
    """
    return _read(text, "nuggets", _numbers)


def read_action(text: str) -> tuple[str, str] | None:
    """Read one of :data:`ACTIONS` under ``action`` and, for "ask", the question under ``question``.

    None if one of them is missing. Unlike other verdicts, an action without a label must be the
    whole text, because a line such as ``Answer: rooibos`` begins an answer.

    Example:
        >>> read_action('{"reason": "Both?", "action": "ask", "question": "Green or black tea?"}')
        ('ask', 'Green or black tea?')
        >>> read_action("Answer: rooibos has none.")
    """
    answer = without_reasoning(text)
    candidates = _in_json(answer, "action") or _labelled(answer, "action")
    if not candidates and answer.strip(" \n.*_\"'`").casefold() in ACTIONS:
        candidates = [(answer, "")]
    action = _agreed(candidates, _action)
    if action is None:
        return None
    if action.value != "ask":
        return action.value, ""
    questions = set()
    for question, _ in _in_json(answer, "question") or _labelled(answer, "question"):
        if isinstance(question, str):
            questions.add(question.strip(" \t\n\"'*_,}"))
    questions.discard("")
    if len(questions) != 1:
        return None
    return "ask", questions.pop()


CLAIMS = answer_in("claims", list_of(object_of(claim=TEXT, supported=YES_NO)))


def read_claims(text: str) -> list[dict[str, Any]] | None:
    """Read the claims and their verdicts; None unless a completion has exactly one list of them.

    Example:
        >>> read_claims('Here: {"claims": [{"claim": "Mint is a herb.", "supported": true}]}')
        [{'claim': 'Mint is a herb.', 'supported': True}]
        >>> read_claims("All claims are supported.") is None
        True
    """
    lists = []
    for value in json_values(without_reasoning(text)):
        answer = CLAIMS.read(json.dumps(value))
        if answer:
            lists.append(answer["claims"])
    return lists[0] if len(lists) == 1 else None


def _read(text: str, key: str, interpret: Callable[[Any], Value | None]) -> Verdict | None:
    """Read a verdict in JSON under a key, else behind a label, else on a line of its own."""
    text = without_reasoning(text)
    for find in (_in_json, _labelled, _alone):
        candidates = find(text, key)
        if candidates:
            return _agreed(candidates, interpret)
    return None


def _agreed(
    candidates: Sequence[tuple[Any, str]], interpret: Callable[[Any], Value | None]
) -> Verdict | None:
    """Return the value on which all candidates with a value agree, with its first reason."""
    verdict = None
    for candidate, reason in candidates:
        value = interpret(candidate)
        if value is None:
            continue
        if verdict is None:
            verdict = Verdict(value, reason or NO_REASON)
        elif value != verdict.value:
            return None
    return verdict


def _in_json(text: str, key: str) -> list[tuple[Any, str]]:
    """Return each value under the key in JSON objects, with the reason beside it."""
    candidates = []
    for item in objects_in(json_values(text)):
        by_name = {str(name).casefold(): value for name, value in item.items()}
        if key in by_name:
            candidates.append((by_name[key], _as_reason(by_name.get("reason", ""))))
    return candidates


def _labelled(text: str, key: str) -> list[tuple[Any, str]]:
    """Return the rest of each line behind the label, or below it, with the other text as reason."""
    marks = r"[\"'*_ ]*"
    inline = (
        rf"(?<![^\W_])(?<![^\W_]_){key}(?![^\W_]){marks}(?:\([^)\n]*\))?{marks}"
        r"(?:\bis\b|[:=\uff1a])"
    )
    heading = rf"^(?:[^\w\[\n]|_){{0,99}}{key}(?:[^\w\[\n]|_){{0,99}}\n"
    label = re.compile(rf"(?:{inline}|{heading})[\s\"'*_:]*([^\n]*)", re.IGNORECASE | re.MULTILINE)
    candidates: list[tuple[Any, str]] = []
    for match in label.finditer(text):
        others = text[: match.start()] + text[match.end() :]
        reason = _as_reason(others) or _reason_on(match[1])
        candidates.append((match[1], reason))
    return candidates


def _reason_on(line: str) -> str:
    """Return a line as the reason if it has more words than a verdict."""
    return _as_reason(line) if len(line.split()) > 2 else ""


def _alone(text: str, _key: str) -> list[tuple[Any, str]]:
    """Return the first and the last line, with the other lines as reason."""
    lines = [line for line in without_fences(text).splitlines() if line.strip()]
    candidates: list[tuple[Any, str]] = []
    for line in dict.fromkeys([*lines[:1], *lines[-1:]]):
        others = " ".join(other for other in lines if other != line)
        candidates.append((line, _as_reason(others) or _reason_on(line)))
    return candidates


def _as_reason(value: Any) -> str:
    """Return a value as a reason on one line; empty without a letter or digit."""
    text = value if isinstance(value, str) else json.dumps(value)
    if not has_letter_or_digit(text):
        return ""
    return " ".join(text.removeprefix("Reason:").split()).strip(' "{},')


def _only_value(
    kind: "re.Pattern[str]", meaning: Callable[[str], Value], text: str
) -> Value | None:
    """Return the meaning of the word of this kind that begins a text.

    None if its clause has such a word of another meaning.
    """
    text = text.strip()
    word = re.match(rf"{_MARKS}({kind.pattern}){_ENDS}", text, kind.flags)
    clause = _CLAUSE.match(text)
    if word is None or clause is None:
        return None
    meanings = {meaning(other) for other in kind.findall(clause[0])}
    return meaning(word[1]) if len(meanings) == 1 else None


def _score(value: Any, lowest: int, highest: int) -> int | None:
    if isinstance(value, str):
        number = re.match(rf"{_MARKS}{grade(highest)}{_ENDS}", value, re.IGNORECASE)
        if number is None:
            return None
        value = int(number[1].replace("−", "-").replace("–", "-"))
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
    value = _BEFORE_CHOICE.sub("", value)
    if value.strip(" \n.*_()\"'") in ("a", "b"):
        value = value.upper()
    return _only_value(_CHOICE, lambda word: word if word in ("A", "B") else "tie", value)


def _action(value: Any) -> str | None:
    return _only_value(_ACTION, str.lower, value) if isinstance(value, str) else None


def _numbers(value: Any) -> list[int] | None:
    if isinstance(value, list):
        return _whole_numbers(value)
    if not isinstance(value, str):
        return None
    # Cut off what follows in an object that is not JSON.
    value = re.sub(r"(\])\s*,\s*[\"']?\w+[\"']?\s*:.*", r"\1", value)
    if _NOTHING.fullmatch(value):
        return []
    opens = any(sign in "[{(" for sign in value)
    closes = any(sign in ")}]" for sign in value)
    if opens and not closes:  # a list that was cut off may have had more numbers
        return None
    if not _NUMBERS.fullmatch(value):
        return None
    return list(dict.fromkeys(int(number) for number in re.findall(r"\d+", value)))


def _whole_numbers(items: Sequence[Any]) -> list[int] | None:
    """Return the items as whole numbers, each once. None if an item isn't one."""
    numbers: dict[int, None] = {}
    for item in items:
        number = _score(item, 0, 10**6)
        if number is None:
            return None
        numbers[number] = None
    return list(numbers)


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
    r"""Read the numbers of passages in a completion, best first, as the model wrote them.

    Numbers in brackets take precedence. Of several lists the longest counts; of equally long lists,
    the last. So reasoning before the answer is not mistaken for the ranking. A list may also have
    one number per line, and its lines may be numbered.

    Returns:
        The numbers, including repeated ones and ones that no passage has. None if the completion
        has neither a list nor a single number.

    Example:
        >>> read_ranking("[2] > [3] > [1]"), read_ranking("1. Passage 2\n2. Passage 1")
        ([2, 3, 1], [2, 1])
        >>> read_ranking("Of the 3 passages: 2, 1, 3")
        [2, 1, 3]
        >>> read_ranking("I have ranked them.") is None
        True
    """
    answer = unicodedata.normalize("NFKC", html.unescape(usable_text(text)))
    answer = answer.translate(_OTHER_BRACKETS)
    answer = own_turn(without_fences(answer))
    return _of_brackets(answer) or _without_brackets(answer) or None


def _of_brackets(text: str) -> list[int]:
    """Return the longest list of numbers in brackets, or all of them if it has less than half."""
    matches = list(_IN_BRACKETS.finditer(text))
    numbers = [int(match[1]) for match in matches]
    longest = _longest(_lists(text, matches, _NEXT_IN_BRACKETS))
    return longest if 2 * len(set(longest)) > len(set(numbers)) else numbers


def _without_brackets(text: str) -> list[int]:
    """Return numbers after line numbers, after a word such as "passage", or next to each other.

    A lone number counts if there is nothing else.
    """
    on_lines = [int(match[1]) for match in _NUMBERED_LINE.finditer(text)]
    if len(on_lines) > 1:
        return on_lines
    named = [int(match[1]) for match in _PASSAGED.finditer(text)]
    longest = _longest(_lists(text, list(_A_NUMBER.finditer(text)), _NEXT))
    has_letter = re.search(r"[^\W\d_]", text) is not None
    if len(longest) <= 1 and has_letter:
        return named
    return _longest([longest, named])


def _lists(
    text: str, matches: Sequence[re.Match[str]], between: re.Pattern[str]
) -> list[list[int]]:
    """Return the groups of consecutive numbers: only ``between`` separates them."""
    lists: list[list[int]] = []
    end = 0
    for match in matches:
        if not lists or not between.fullmatch(text, end, match.start()):
            lists.append([])
        lists[-1].append(int(match[1]))
        end = match.end()
    return lists


def _longest(lists: Sequence[list[int]]) -> list[int]:
    """Return the list with the most different numbers, the last one of equals."""
    return max(reversed(lists), key=lambda numbers: len(set(numbers)), default=[])
