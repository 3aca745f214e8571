"""Texts in a completion: rewrites, passages, lists of queries, labels."""

import re
from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import Any

from .json_answers import OPENING, json_values, value_at
from .statement_numbers import ReadChoice, read_ids
from .usable import (
    has_letter_or_digit,
    is_loop,
    own_turn,
    says_no_query,
    unquoted,
    usable_text,
    usable_words,
    without_fences,
)

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
    rf"^[\W_]{{0,99}}(?:{_REWRITE_NAME}[\W_]*$"
    rf"|(?:the\s+)?{_REWRITE_NAME}(?:\s+(?:is|would\s+be|could\s+be))?[\W_]{{0,9}}?[:\uff1a]\s*"
    rf"|(?:\w{{1,40}}\W{{1,9}}){{0,2}}here\b[^:\n]{{0,60}}?\b{_NOUN}\b[^:?\n]{{0,50}}"
    rf"[\W_]{{0,9}}?[:\uff1a]\s*)",
    re.IGNORECASE,
)
_REWRITE_KEY = re.compile(_REWRITE_NAME, re.IGNORECASE)
_OBJECTS = re.compile(r"^\s*\{.*\}\s*$", re.DOTALL | re.MULTILINE)
_COLONS = (":", "\uff1a")


def _clean(line: str) -> str:
    """Remove emphasis, quotation marks and repeated blanks."""
    line = line.strip().strip("*_").strip()
    return " ".join(unquoted(line).split())


def _unmarked(line: str) -> str:
    """Remove the number or bullet before a line, and what :func:`_clean` removes."""
    return _clean(_MARK.sub("", line))


def in_object(text: str, name: re.Pattern[str]) -> str | None:
    """Return the value of the key that ``name`` matches, in JSON objects on lines of their own.

    The longest key counts, and the first object. None without such a key.

    Example:
        >>> objects = '{"message": "Is it?", "rewritten_message": "Is mint safe?"}'
        >>> in_object(objects, re.compile("(rewritten )?message"))
        'Is mint safe?'
    """
    lines = _OBJECTS.search(text)
    if lines is None:
        return None
    longest_key = ""
    longest_value = None
    for item in json_values(lines[0]):
        if not isinstance(item, dict):
            continue
        for key, value in item.items():
            words = str(key).replace("_", " ")
            if not isinstance(value, str) or not name.fullmatch(words):
                continue
            if longest_value is None or len(words) > len(longest_key):
                longest_key = words
                longest_value = value
    return None if longest_value is None else usable_text(longest_value)


def _in_json(text: str) -> list[str] | None:
    """Return the texts of the first list or object that has texts.

    Consecutive objects of one query each count as a list. None if the lines should be read instead.
    """
    opening = OPENING.search(text)
    if opening is None:
        return None
    before = text[: opening.start()]
    for line in before.splitlines():
        if _MARK.match(line) and _unmarked(line):
            return None
    alone = before.strip()[-1:] in ("", ":")
    if alone and value_at(text, opening.start())[1] is None:
        return []  # it was cut: its complete parts may be anything, and its lines are not queries
    values = json_values(text)
    objects_of_one = len(list(takewhile(_has_one_text, values)))
    lists = [texts for texts in map(_texts, values) if any(texts)]
    queries = []
    for texts in lists[: max(1, objects_of_one)]:
        queries += texts
    return queries if queries or alone else None


def _texts(value: Any) -> list[str]:
    """Return the texts in a value; of an object with a key for queries, only those under it."""
    if isinstance(value, str):
        return [value]
    parts = []
    if isinstance(value, list):
        parts = value
    elif isinstance(value, dict):
        parts = [value[key] for key in value if "quer" in key.casefold()]
        if not parts:
            parts = [value[key] for key in value if not _EXPLAINS.fullmatch(key)]
    texts = []
    for part in parts:
        texts += _texts(part)
    return texts


def _has_one_text(value: Any) -> bool:
    """Whether a value is an object with one text and no list."""
    if not isinstance(value, dict) or any(isinstance(part, list) for part in value.values()):
        return False
    return len(_texts(value)) == 1


def _lines(text: str) -> list[str]:
    """Return the query lines, cleaned.

    They are the marked lines if any, else the quoted lines if most are, else all lines but those
    with a colon at the end. A single quoted query among bare ones is a literal search.
    """
    lines = [line for line in _without_explanations(text) if not _clean(line).endswith(_COLONS)]
    marked = [line for line in lines if _MARK.match(line)]
    quoted = [line for line in lines if unquoted(line.strip()) != line.strip()]
    if marked:
        lines = marked
    elif 2 * len(quoted) > len(lines):
        lines = quoted
    if _ends_in_loop(lines):
        lines = lines[:-1]
    queries = []
    for line in lines:
        cleaned = _clean(_MARK.sub("", line, count=1))
        queries.append(_clean(_MARK.sub("", cleaned, count=1)))
    return queries


def _ends_in_loop(lines: Sequence[str]) -> bool:
    """Whether the last line is the beginning of the two equal lines before it: a loop, cut off."""
    last = [_unmarked(line).casefold() for line in lines[-3:]]
    return len(last) == 3 and last[0] == last[1] and last[1].startswith(last[2])


_EXPLAINS = re.compile(
    r"(?:rationale|explanation|reason(?:ing)?|why|justification|purpose|motivation|note|intent)s?",
    re.IGNORECASE,
)
_EXPLANATION = re.compile(rf"[\W\d_]*{_EXPLAINS.pattern}[*_]*\s*[:\uff1a]", re.IGNORECASE)
_NUMBER = re.compile(r"\s*\W?\d")


def _without_explanations(text: str) -> list[str]:
    """Return the lines of a list without those that explain its queries.

    An explanation has a label such as ``Rationale:``, or is a bullet below a query.
    """
    lines = [line for line in text.splitlines() if line.strip() and not _EXPLANATION.match(line)]
    marked = [line for line in lines if _MARK.match(line)]
    query_lines = []
    above: list[str] = []  # the marked lines that a line stands below, by their indents
    for line in lines:
        explains = False
        if _MARK.match(line):
            above = [outer for outer in above if _indent(outer) < _indent(line)]
            explains = bool(above) and _explains(line, above[-1], marked)
            above.append(line)
        if not explains:
            query_lines.append(line)
    return query_lines


def _explains(line: str, above: str, marked: Sequence[str]) -> bool:
    """Whether an indented line explains the query above it.

    That is a bullet below a number, or below one of several bullets. Below a heading, which ends
    with a colon, are queries. Below the first line alone, whose own indent is lost, as well.
    """
    if _clean(above).endswith(_COLONS) or _NUMBER.match(line):
        return False
    if _NUMBER.match(above):
        return True
    siblings = [other for other in marked if _indent(other) == _indent(above)]
    return len(siblings) > 1


def _indent(line: str) -> int:
    plain = line.expandtabs(4)
    return len(plain) - len(plain.lstrip())


def parse_queries(text: str, n: int | None = 5) -> list[str]:
    r"""Read a list of search queries: JSON, numbered, bulleted, quoted or bare lines, with prose.

    Numbering, bullets and quotes are stripped; empty lines and repeats (ignoring letter case) are
    dropped; the first ``n`` are kept. If any line is numbered or bulleted, or more than half of the
    lines are quoted, the other lines count as prose. Indented bullets below a query, lines with a
    label such as "Rationale:", and lines which say that no query is needed, are no queries.

    Args:
        text: the completion.
        n: the maximum number of queries; None keeps all.

    Returns:
        The queries in the model's order.

    Example:
        >>> parse_queries('Sure:\n1. "vegan breakfast"\n2. Vegan breakfast\n- tofu scramble')
        ['vegan breakfast', 'tofu scramble']
    """
    text = without_fences(own_turn(usable_words(text)))
    in_json = _in_json(text)
    queries = _lines(text) if in_json is None else [_clean(query) for query in in_json]
    return distinct_queries(queries)[:n]


def distinct_queries(queries: Iterable[str]) -> list[str]:
    """Drop repeats (ignoring letter case), and texts which say that no query is needed.

    Example:
        >>> distinct_queries(["oat milk", "Oat milk", "No queries are needed.", "-"])
        ['oat milk']
    """
    distinct: dict[str, str] = {}
    for query in queries:
        if has_letter_or_digit(query) and not says_no_query(query):
            distinct.setdefault(query.casefold(), query)
    return list(distinct.values())


def parse_rewrite(text: str) -> str:
    r"""Read one rewritten query.

    Lead-ins (in a line or before it), headings, labels, quotes and explanations after it are left
    out.

    Returns:
        The query, or ``""`` if the text has none.

    Example:
        >>> parse_rewrite('Here it is:\n\nRewritten query: "Is rooibos safe?"\n\nI resolved "it".')
        'Is rooibos safe?'
    """
    lines = _lines_under(text, _REWRITE_KEY)
    for line in lines:
        query = _clean(_REWRITE_LABEL.sub("", line, count=1))
        is_lead_in = query.endswith(_COLONS) and len(lines) > 1
        if has_letter_or_digit(query) and not is_lead_in:
            return "" if is_loop(query) else usable_words(query)
    return ""


def _lines_under(text: str, name: re.Pattern[str]) -> list[str]:
    """Return the lines of a text, or of the value under such a key in an object."""
    words = usable_words(text)
    value = in_object(words, name)
    plain = without_fences(words if value is None else value)
    return [line for line in plain.splitlines() if line.strip()]


_PART = re.compile(
    rf"^[^\S\n]{{0,99}}[*_#>-]{{0,9}}[^\S\n]{{0,9}}(?P<name>{_REWRITE_NAME}"
    r"|response|answer|reply|reason(?:ing)?|level|statements?"
    r"|provenances?|queries)[*_]*\s*[:\uff1a][*_]*",
    re.IGNORECASE | re.MULTILINE,
)
"""The label of a part, at the beginning of a line."""
_ANSWER_NAME = re.compile("response|answer|reply", re.IGNORECASE)


def parse_rewrite_and_answer(text: str) -> tuple[str, str] | None:
    r"""Read a rewrite and the answer after it, each after a label on its own line.

    A reason before them is omitted.

    Returns:
        The rewrite and the answer, each on one line. ``None`` if one of them is missing.

    Example:
        >>> parse_rewrite_and_answer('Rewrite: Is rooibos safe?\nResponse: Yes.\nNo caffeine.')
        ('Is rooibos safe?', 'Yes. No caffeine.')
    """
    words = usable_words(text)
    rewrite = in_object(words, _REWRITE_KEY)
    answer = in_object(words, _ANSWER_NAME)
    if rewrite is None or answer is None:
        rewrite, answer = _labelled(words)
    query = parse_rewrite(rewrite or "")
    passage = parse_passage(answer)
    return (query, passage) if query and passage else None


def parse_reasoned_rewrite(text: str) -> str:
    r"""Read one rewrite as :func:`parse_rewrite` does, perhaps between a reason and an answer.

    Returns:
        The rewrite, or ``""`` if the text has none, or only a reason.

    Example:
        >>> parse_reasoned_rewrite('Reason: "it" is rooibos.\nRewrite: Is rooibos safe?')
        'Is rooibos safe?'
    """
    words = without_fences(usable_words(text))
    rewrite, _ = _labelled(words)
    if rewrite is not None:
        return parse_rewrite(rewrite)
    has_labels = _PART.search(words) is not None
    return "" if has_labels else parse_rewrite(text)


def _labelled(text: str) -> tuple[str | None, str]:
    """Return the text after the first label of a rewrite, and after the next label of an answer.

    The rewrite ends at the next label of any kind and is None without a label, the answer goes on
    to the end.
    """
    rewrite_start = None
    rewrite_end = None
    for label in _PART.finditer(text):
        if rewrite_start is None:
            if _REWRITE_KEY.fullmatch(label["name"]):
                rewrite_start = label.end()
            continue
        if rewrite_end is None:
            rewrite_end = label.start()
        if _ANSWER_NAME.fullmatch(label["name"]):
            return text[rewrite_start:rewrite_end], text[label.end() :]
    if rewrite_start is None:
        return None, ""
    return text[rewrite_start:rewrite_end], ""


def parse_answer_and_queries(text: str) -> tuple[str, str] | None:
    r"""Read an answer and the queries after it, each after a label on its own line.

    Returns:
        The queries joined by spaces, and the answer. ``None`` if one of them is missing.

    Example:
        >>> parse_answer_and_queries('Response: It has none.\nQueries: 1. rooibos\n2. red tea')
        ('rooibos red tea', 'It has none.')
    """
    words = without_fences(usable_words(text))
    answer_label = None
    queries_label = None
    for label in _PART.finditer(words):
        if answer_label is None and _ANSWER_NAME.fullmatch(label["name"]):
            answer_label = label
        if label["name"].casefold().startswith("quer"):
            queries_label = label  # the last one counts
    if answer_label is None or queries_label is None:
        return None
    if answer_label.start() > queries_label.start():
        return None
    answer = parse_passage(words[answer_label.end() : queries_label.start()])
    queries = " ".join(parse_queries(words[queries_label.end() :]))
    return (queries, answer) if queries and answer else None


def parse_chosen_rewrite(text: str) -> tuple[str, str, ReadChoice] | None:
    r"""Read the numbers of chosen statements, a rewrite and an answer, each after a label.

    Each label begins a line.

    Returns:
        The rewrite, the answer, and the numbers as ``read_ids`` gives them. ``None`` if one of them
        is missing. "None" is an empty list.

    Example:
        >>> parse_chosen_rewrite('Statements: [2, 5]\nRewrite: Is it safe?\nResponse: Yes.')
        ('Is it safe?', 'Yes.', ['2', '5'])
        >>> parse_chosen_rewrite('Statements: None.\nRewrite: Is it safe?\nResponse: Yes.')
        ('Is it safe?', 'Yes.', [])
    """
    rewrite_and_answer = parse_rewrite_and_answer(text)
    statements = _choice_of_statements(text)
    if rewrite_and_answer is None or statements is None:
        return None
    choice = read_ids(statements)
    return None if choice is None else (*rewrite_and_answer, choice)


def _choice_of_statements(text: str) -> str | None:
    """Return the text from the first label of statements to the next label of another part."""
    words = without_fences(usable_words(text))
    start = None
    for label in _PART.finditer(words):
        is_of_statements = label["name"].casefold().startswith(("statement", "provenance"))
        if start is None and is_of_statements:
            start = label.end()
        elif start is not None and not is_of_statements:
            return words[start : label.start()].strip()
    return None if start is None else words[start:].strip()


def parse_level(text: str) -> tuple[str, str] | None:
    r"""Read a level, a letter from a to c, and a rewrite, each after a label on its own line.

    All other text is omitted.

    Returns:
        The level in lower case and the rewrite. ``None`` if one of them is missing, or if there are
        several levels.

    Example:
        >>> parse_level('Reason: it asks for facts.\n**Level:** A\nRewrite: Is rooibos safe?')
        ('a', 'Is rooibos safe?')
    """
    words = without_fences(usable_words(text))
    levels = set()
    for label in _PART.finditer(words):
        if label["name"].casefold() == "level":
            line = words[label.end() :].partition("\n")[0]
            levels.update(re.findall(r"\b[abc]\b", line.casefold()))
    rewrite = parse_rewrite(_labelled(words)[0] or "")
    if len(levels) != 1 or not rewrite:
        return None
    return levels.pop(), rewrite


_TOPIC = re.compile(r"\b(new|same|old|existing)(?:[ _-]?topic)?\b", re.IGNORECASE)
_NEGATED = re.compile(
    rf"(?:\b(?:not|no|never|cannot|neither|nor)\b|n['’]t\b)[^.;:,!?\n]*?{_TOPIC.pattern}",
    re.IGNORECASE,
)


def parse_new_topic(text: str) -> bool | None:
    """Read whether the topic is new.

    Returns:
        ``None`` if the text says neither, both, or only what the topic is not.

    Example:
        >>> parse_new_topic("New topic."), parse_new_topic("same"), parse_new_topic("not new")
        (True, False, None)
    """
    words = usable_words(text)
    names = {name.casefold() for name in _TOPIC.findall(words)}
    says_new = "new" in names
    says_same = bool(names - {"new"})
    if says_new == says_same or _NEGATED.search(words):
        return None
    return says_new


_STYLE = re.compile(r"^\W*style\W+\w[\w-]*(?: [\w-]+){0,2}(?:\W*$|[*_\])]+\s+)", re.IGNORECASE)
_NAME = re.compile("passage|article|assistant|answer|response|summary|text", re.IGNORECASE)
_PASSAGES_LABEL = re.compile(rf"^[\W_]*(?:{_NAME.pattern})[\W_]*?(?::[\s*_]*|$)", re.IGNORECASE)
_LONGEST_ANNOUNCEMENT = 120
"""In bytes of UTF-8; about 20 English words.

A script without spaces needs about as many bytes for the same content.
"""


def _is_announcement(line: str, following: Sequence[str]) -> bool:
    """Whether a line is only a lead-in: it is short, ends with a colon, and prose follows.

    Before a list, such a line says what the list contains, in any language. A heading may come
    between the two.
    """
    if not following or not line.endswith(_COLONS) or _MARK.match(line):
        return False
    if len(line.encode("utf-8", "surrogatepass")) > _LONGEST_ANNOUNCEMENT:
        return False
    for below in following:
        if _MARK.match(below):
            return False
        if not below.strip("*_").endswith(_COLONS):
            return True
    return True


def parse_passage(text: str) -> str:
    r"""Read the passage in a completion as one line.

    Reasoning, style line, lead-in, heading, label and surrounding quotes are left out. A line that
    ends with a colon is kept before a list, or if it is long, because it has content then.

    Returns:
        The passage, or ``""`` if the text has none.

    Example:
        >>> parse_passage('Style: blog\n\nPassage: Oats are cheap.\nThey keep well.')
        'Oats are cheap. They keep well.'
        >>> parse_passage('Oats are good for:\n1. breakfast\n2. cakes')
        'Oats are good for: 1. breakfast 2. cakes'
    """
    lines = [line.strip() for line in _lines_under(text, _NAME)]
    if lines:
        lines[0] = _STYLE.sub("", lines[0], count=1)
    while lines:
        is_label = not _PASSAGES_LABEL.sub("", lines[0])
        if not is_label and not _is_announcement(lines[0], lines[1:4]):
            break
        lines.pop(0)
    words = " ".join(lines).split()
    passage = _PASSAGES_LABEL.sub("", " ".join(words), count=1)
    if passage.startswith(('"', "“", "„", "«", "「")):
        passage = unquoted(passage)
    if not has_letter_or_digit(passage) or is_loop(passage):
        return ""
    return usable_words(passage)
