"""Texts in a completion: rewrites, passages, lists of queries, labels. Pure functions: no model, no frame."""

import re
from collections.abc import Sequence
from itertools import takewhile
from typing import Any

from .json_answers import OPENING, json_values, value_at
from .signs import QUOTES
from .statement_numbers import Found, read_ids
from .usable import FENCE, is_loop, own_turn, says_no_query, usable_text, usable_words

_MARK = re.compile(
    r"^\s*(?:[-*•–]\s+|\(?\d{1,2}(?:\.?\)|、|[.:](?!\d))\s*|(?:search\s+)?query\s*\d*\s*[:.)]\s*)",
    re.IGNORECASE,
)
_CHANGED = r"(?:re-?written|re-?phrased|re-?stated|re-?formulated|clarified|resolved)"
_NOUN = r"(?:re-?write|query|question|utterance|message|version)"
_REWRITE_NAME = (
    rf"(?:(?:(?:{_CHANGED}|self-?contained|stand-?alone|final|search)\s+)*{_NOUN}|{_CHANGED})"
)
_REWRITE_LABEL = re.compile(
    rf"^[\W_]{{0,99}}(?:{_REWRITE_NAME}[\W_]*$|(?:the\s+)?{_REWRITE_NAME}(?:\s+(?:is|would\s+be|could\s+be))?[\W_]{{0,9}}?[:\uff1a]\s*"
    rf"|(?:\w{{1,40}}\W{{1,9}}){{0,2}}here\b[^:\n]{{0,60}}?\b{_NOUN}\b[^:?\n]{{0,50}}[\W_]{{0,9}}?[:\uff1a]\s*)",
    re.IGNORECASE,
)
_REWRITE_KEY = re.compile(_REWRITE_NAME, re.IGNORECASE)
_OBJECTS = re.compile(r"^\s*\{.*\}\s*$", re.DOTALL | re.MULTILINE)
_COLONS = (":", "\uff1a")


def _clean(line: str) -> str:
    line = line.strip().strip("*_").strip()
    return " ".join(unquoted(line).split())


def unquoted(text: str) -> str:
    """The text without the quotation marks around all of it.

    Example:
        >>> unquoted("„Ist Minze giftig?“"), unquoted('"mint" or "basil"')
        ('Ist Minze giftig?', '"mint" or "basil"')
    """
    while len(text) > 1 and text[0] in QUOTES and text[-1] in QUOTES + ",":
        inner = text[1:].rstrip(QUOTES + ",").strip()
        if text[0] not in "'‘’" and text[0] in inner.lstrip(QUOTES):
            break
        text = inner
    return text


def in_object(text: str, name: re.Pattern[str]) -> str | None:
    """The value of the key that ``name`` matches, in JSON objects on lines of their own. None without such a key.

    The longest key counts, and the first object.

    Example:
        >>> in_object('{"message": "Is it?", "rewritten_message": "Is mint safe?"}', re.compile("(rewritten )?message"))
        'Is mint safe?'
    """
    lines = _OBJECTS.search(text)
    objects = [item for item in json_values(lines[0]) if isinstance(item, dict)] if lines else []
    found = [(str(key).replace("_", " "), value) for item in objects for key, value in item.items()]
    named = [(key, value) for key, value in found if isinstance(value, str) and name.fullmatch(key)]
    return usable_text(max(named, key=lambda pair: len(pair[0]))[1]) if named else None


def _in_json(text: str) -> list[str] | None:
    """The texts of the first list or object that has texts. None if the lines should be read instead."""
    opening = OPENING.search(text)
    if opening is None or any(
        _MARK.match(line) and _clean(_MARK.sub("", line))
        for line in text[: opening.start()].splitlines()
    ):
        return None
    alone = text[: opening.start()].strip()[-1:] in ("", ":")
    if alone and value_at(text, opening.start())[1] is None:
        return []  # its complete parts may be anything, and its lines are not queries
    values = json_values(text)
    ones = len(list(takewhile(_is_one, values)))  # consecutive objects of one query each are a list
    first = [texts for value in values if any(texts := _texts(value))][: max(1, ones)]
    return [query for texts in first for query in texts] if first or alone else None


def _texts(value: Any) -> list[str]:
    """The texts in a value. Of an object with a key for queries, only the texts under that key."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        queries = [value[key] for key in value if "quer" in key.casefold()]
        value = queries or [value[key] for key in value if not _EXPLAINS.fullmatch(key)]
    return [text for part in value for text in _texts(part)] if isinstance(value, list) else []


def _is_one(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and len(_texts(value)) == 1
        and not any(isinstance(part, list) for part in value.values())
    )


def _lines(text: str) -> list[str]:
    """The query lines: the marked lines if any, else the quoted lines if most are, else all lines but those with a colon at the end."""
    listed = [line for line in _without_explanations(text) if not _clean(line).endswith(_COLONS)]
    quoted = [line for line in listed if unquoted(line.strip()) != line.strip()]
    # A single quoted query among bare ones is a literal search.
    found = [line for line in listed if _MARK.match(line)] or (
        quoted if 2 * len(quoted) > len(listed) else listed
    )
    last = [_clean(_MARK.sub("", line)).casefold() for line in found[-3:]]
    loops = (
        len(last) == 3 and last[0] == last[1] and last[1].startswith(last[2])
    )  # a loop that was cut off
    return [
        _clean(_MARK.sub("", _clean(_MARK.sub("", line, count=1)), count=1))
        for line in found[: len(found) - loops]
    ]


_EXPLAINS = re.compile(
    r"(?:rationale|explanation|reason(?:ing)?|why|justification|purpose|motivation|note|intent)s?",
    re.IGNORECASE,
)
_EXPLANATION = re.compile(rf"[\W\d_]*{_EXPLAINS.pattern}[*_]*\s*[:\uff1a]", re.IGNORECASE)
_NUMBER = re.compile(r"\s*\W?\d")


def _without_explanations(text: str) -> list[str]:
    """The lines of a list without those that explain its queries: a label such as ``Rationale:``, or bullets below a query."""
    lines = [line for line in text.splitlines() if line.strip() and not _EXPLANATION.match(line)]
    marked = [line for line in lines if _MARK.match(line)]
    kept, above = list[str](), list[str]()
    for line in lines:
        if _MARK.match(line):
            above = [one for one in above if _indent(one) < _indent(line)]
            below_query = bool(above) and _explains(line, above[-1], marked)
            above.append(line)
            if below_query:
                continue
        kept.append(line)
    return kept


def _explains(line: str, above: str, marked: Sequence[str]) -> bool:
    """Whether an indented line explains the query above it: a bullet below a number, or below one of several bullets.

    Below a heading, which ends with a colon, are queries. Below the first line alone, whose own
    indent is lost, as well.
    """
    if _clean(above).endswith(_COLONS) or _NUMBER.match(line):
        return False
    if _NUMBER.match(above):
        return True
    return sum(_indent(one) == _indent(above) for one in marked) > 1


def _indent(line: str) -> int:
    plain = line.expandtabs(4)
    return len(plain) - len(plain.lstrip())


def parse_queries(text: str, n: int | None = 5) -> list[str]:
    r"""Read a list of search queries: JSON, numbered, bulleted, quoted or bare lines, prose around it.

    Numbering, bullets and quotes are stripped; empty lines and repeats (ignoring letter case) are
    dropped; the first ``n`` are kept. If any line is numbered or bulleted, or more than half of the
    lines are quoted, the other lines count as prose. Indented bullets below a query, lines with a
    label such as "Rationale:", and lines which say that no query is needed, are no queries.

    Args:
        text: the completion.
        n: how many queries to keep at most; None keeps all.

    Returns:
        The queries in the model's order.

    Example:
        >>> parse_queries('Sure! Here they are:\n1. "vegan breakfast"\n2. Vegan breakfast\n- tofu scramble')
        ['vegan breakfast', 'tofu scramble']
    """
    text = FENCE.sub("", own_turn(usable_words(text)))
    found = _in_json(text)
    items = dict[str, str]()
    for query in _lines(text) if found is None else map(_clean, found):
        if any(map(str.isalnum, query)) and not says_no_query(query):
            items.setdefault(query.casefold(), query)
    return list(items.values())[:n]


def parse_rewrite(text: str) -> str:
    r"""Read one rewritten query without lead-ins (in a line or before it), headings, labels, quotes and explanations after it.

    Returns:
        The query, or ``""`` if the text has none.

    Example:
        >>> parse_rewrite('Here is the query:\n\nRewritten query: "Is rooibos free of caffeine?"\n\nI resolved "it".')
        'Is rooibos free of caffeine?'
    """
    text = usable_words(text)
    held = in_object(text, _REWRITE_KEY)
    lines = [
        line for line in FENCE.sub("", text if held is None else held).splitlines() if line.strip()
    ]
    for line in lines:
        query = _clean(_REWRITE_LABEL.sub("", line, count=1))
        lead_in = query.endswith(_COLONS) and len(lines) > 1
        if any(character.isalnum() for character in query) and not lead_in:
            return "" if is_loop(query) else query
    return ""


_PART = re.compile(
    rf"^[^\S\n]{{0,99}}[*_#>-]{{0,9}}[^\S\n]{{0,9}}(?P<name>{_REWRITE_NAME}|response|answer|reply|reason(?:ing)?|level|statements?"
    r"|provenances?|queries)[*_]*\s*[:\uff1a][*_]*",
    re.IGNORECASE | re.MULTILINE,
)
"""The label of a part, at the beginning of a line."""
_ANSWER_NAME = re.compile("response|answer|reply", re.IGNORECASE)


def parse_rewrite_and_answer(text: str) -> tuple[str, str] | None:
    r"""Read a rewrite and the answer after it, each after a label on its own line; a reason before them is omitted.

    Returns:
        The rewrite and the answer, each on one line. ``None`` if one of them is missing.

    Example:
        >>> parse_rewrite_and_answer('Reason: "it" is rooibos.\nRewrite: Is rooibos safe?\nResponse: Yes.\nIt has no caffeine.')
        ('Is rooibos safe?', 'Yes. It has no caffeine.')
    """
    words = usable_words(text)
    rewrite, answer = (in_object(words, name) for name in (_REWRITE_KEY, _ANSWER_NAME))
    if rewrite is None or answer is None:
        rewrite, answer = _labelled(FENCE.sub("", words))
    query, said = parse_rewrite(rewrite or ""), parse_passage(answer)
    return (query, said) if query and said else None


def parse_reasoned_rewrite(text: str) -> str:
    r"""Read one rewrite as :func:`parse_rewrite` does. A reason may come before it and an answer after it.

    Returns:
        The rewrite, or ``""`` if the text has none, or only a reason.

    Example:
        >>> parse_reasoned_rewrite('Reason: "it" is rooibos.\nRewrite: Is rooibos safe?')
        'Is rooibos safe?'
    """
    words = FENCE.sub("", usable_words(text))
    rewrite, _ = _labelled(words)
    return parse_rewrite(text if rewrite is None and not _PART.search(words) else rewrite or "")


def _labelled(text: str) -> tuple[str | None, str]:
    """The text after the first label of a rewrite (None without one), and all text after the next label of an answer."""
    labels = _PART.finditer(text)
    start = next((label.end() for label in labels if _REWRITE_KEY.fullmatch(label["name"])), None)
    if start is None:
        return None, ""
    later = list(labels)
    answer = next(
        (text[label.end() :] for label in later if _ANSWER_NAME.fullmatch(label["name"])), ""
    )
    return text[start : later[0].start() if later else None], answer


def _lines_of(text: str, *names: str) -> list[str]:
    """What stands after each label with such a beginning, on its line."""
    labels = [label for label in _PART.finditer(text) if label["name"].casefold().startswith(names)]
    return [text[label.end() :].partition("\n")[0] for label in labels]


def parse_answer_and_queries(text: str) -> tuple[str, str] | None:
    r"""Read an answer and the queries after it, each after a label on its own line.

    Returns:
        The queries joined by spaces, and the answer. ``None`` if one of them is missing.

    Example:
        >>> parse_answer_and_queries('Response: Rooibos has none.\nQueries: 1. rooibos caffeine\n2. teas without caffeine')
        ('rooibos caffeine teas without caffeine', 'Rooibos has none.')
    """
    words = FENCE.sub("", usable_words(text))
    labels = list(_PART.finditer(words))
    last = next(
        (label for label in reversed(labels) if label["name"].casefold().startswith("quer")), None
    )
    first = next((label for label in labels if _ANSWER_NAME.fullmatch(label["name"])), None)
    if last is None or first is None or first.start() > last.start():
        return None
    answer, queries = (
        parse_passage(words[first.end() : last.start()]),
        " ".join(parse_queries(words[last.end() :])),
    )
    return (queries, answer) if queries and answer else None


def parse_chosen_rewrite(text: str) -> tuple[str, str, Found] | None:
    r"""Read the numbers of chosen statements, a rewrite and an answer, each after a label on its own line.

    Returns:
        The rewrite, the answer, and the numbers as ``read_ids`` gives them. ``None`` if one of them
        is missing. "None" is an empty list.

    Example:
        >>> parse_chosen_rewrite('Statements: [2, 5]\nRewrite: Is rooibos safe?\nResponse: Yes.')
        ('Is rooibos safe?', 'Yes.', ['2', '5'])
        >>> parse_chosen_rewrite('Statements: None of the 5.\nRewrite: Is rooibos safe?\nResponse: Yes.')[2]
        []
    """
    both, choice = parse_rewrite_and_answer(text), _choice_of_statements(text)
    if both is None or choice is None:
        return None
    found = read_ids(choice)
    return None if found is None else (*both, found)


def _choice_of_statements(text: str) -> str | None:
    """What stands between the first label of statements and the next label of another part, such as the rewrite."""
    words = FENCE.sub("", usable_words(text))
    start, end = None, len(words)
    for label in _PART.finditer(words):
        of_statements = label["name"].casefold().startswith(("statement", "provenance"))
        if start is None and of_statements:
            start = label.end()
        elif start is not None and not of_statements:
            end = label.start()
            break
    return None if start is None else words[start:end].strip()


def parse_level(text: str) -> tuple[str, str] | None:
    r"""Read a level, a letter from a to c, and a rewrite, each after a label on its own line. All other text is omitted.

    Returns:
        The level in lower case and the rewrite. ``None`` if one of them is missing, or if there are
        several levels.

    Example:
        >>> parse_level('Reason: it asks for facts.\n**Level:** A\nRewrite: Is rooibos safe?\nResponse: Yes.')
        ('a', 'Is rooibos safe?')
    """
    words = FENCE.sub("", usable_words(text))
    levels = {
        letter
        for line in _lines_of(words, "level")
        for letter in re.findall(r"\b[abc]\b", line.casefold())
    }
    rewrite = parse_rewrite(_labelled(words)[0] or "")
    return (levels.pop(), rewrite) if len(levels) == 1 and rewrite else None


_STYLE = re.compile(r"^\W*style\W+\w[\w-]*(?: [\w-]+){0,2}(?:\W*$|[*_\])]+\s+)", re.IGNORECASE)
_NAME = re.compile("passage|article|assistant|answer|response|summary|text", re.IGNORECASE)
_PASSAGES_LABEL = re.compile(rf"^[\W_]*(?:{_NAME.pattern})[\W_]*?(?::[\s*_]*|$)", re.IGNORECASE)
_LONGEST_ANNOUNCEMENT = 120
"""In bytes of UTF-8; about 20 English words. A script without spaces needs about as many bytes for the same content."""


def _is_announcement(line: str, following: Sequence[str]) -> bool:
    """Whether a line is only a lead-in: it is short, ends with a colon, and prose follows.

    Before a list, such a line says what the list contains, in any language. A heading may come
    between the two.
    """
    if (
        not following
        or not line.endswith(_COLONS)
        or len(line.encode("utf-8", "surrogatepass")) > _LONGEST_ANNOUNCEMENT
    ):
        return False
    below = next(
        (text for text in following if _MARK.match(text) or not text.strip("*_").endswith(_COLONS)),
        "",
    )
    return not _MARK.match(line) and not _MARK.match(below)


def parse_passage(text: str) -> str:
    r"""The passage in a completion as one line: without ``<think>`` block, style line, lead-in, heading, label and surrounding quotes.

    A line that ends with a colon is kept before a list, or if it is long, because it has content
    then.

    Returns:
        The passage, or ``""`` if the text has none.

    Example:
        >>> parse_passage('Style: blog\n\nPassage: Oats are cheap.\nThey keep well.')
        'Oats are cheap. They keep well.'
        >>> parse_passage('Oats are good for:\n1. breakfast\n2. cakes')
        'Oats are good for: 1. breakfast 2. cakes'
    """
    text = usable_words(text)
    held = in_object(text, _NAME)
    lines = [
        line.strip()
        for line in FENCE.sub("", text if held is None else held).splitlines()
        if line.strip()
    ]
    lines[:1] = [_STYLE.sub("", line, count=1) for line in lines[:1]]
    while lines and (
        not _PASSAGES_LABEL.sub("", lines[0]) or _is_announcement(lines[0], lines[1:4])
    ):
        lines.pop(0)
    passage = _PASSAGES_LABEL.sub("", " ".join(" ".join(lines).split()), count=1)
    passage = unquoted(passage) if passage.startswith(('"', "“", "„", "«", "「")) else passage
    return passage if any(map(str.isalnum, passage)) and not is_loop(passage) else ""
