r"""The sentences of a response and the passages that they cite.

The marks are what models write when they are asked to cite with numbers in square brackets;
:mod:`.citation_marks` finds them: ``[1]``, ``[1][2]``, ``[1, 2]``, ``[1-3]``, ``[1]–[3]``, ``[Doc
1]``, ``[Doc 1, p. 3]``, ``(Doc 1, Doc 2)``, ``(see Doc 1)``, ``([Passage 3](#3))``, ``**[1]**``,
``<sup>[1]</sup>``, ``[^1]``, ``【1】``. A number in round brackets counts only with such a name. What
OpenAI's search in files writes, ``【4:0†source】``, cites none of the passages, which is told.

The words of a response stay as the model wrote them, and marks are removed. A mark stays as words
only where the sentence speaks it: after "according to", "see" or "in" ("According to [1], ..."
becomes "According to passage 1, ...") and where it begins a sentence ("[1] says").

A bracket is not a mark, and stays, if it holds a year or another number above 99, or a zero. The
same holds for two numbers after "range of", "interval", "CI" or "between", for an index in code
(``take list[1]``), after an equals sign, before the address of a Markdown link, and at the
beginning of a line with text after it, because lists are numbered there. Pure functions: no model,
no frame.
"""

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from .citation_marks import HIGHEST, Run, mark_at, run_at, runs

LOOK_BACK = 40
"""How many characters before a place decide what it is."""
_BLANK = " \t\u00a0\u2009\u202f"
_CODE = re.compile(r"^[ \t]*```.*?(?:^[ \t]*```|\Z)|`[^`\n]*`", re.DOTALL | re.MULTILINE)
_SOURCES = re.compile(
    r"^[ \t>*_#]{0,9}(?:sources?|references?|citations?)(?: used| cited)?(?:[*_]{0,3}:[*_]{0,3}|[*_]{0,3}$)",
    re.IGNORECASE | re.MULTILINE,
)
_BULLET = re.compile(r"[ \t*•>-]{0,9}")

_STOP = re.compile(r"[.!?…]+|[。！？]+|\n")
_CLOSES = re.compile(r"[\"'”’»)\]*」』]+")
_NEXT_BEGINS = re.compile(r"\s+[^\sa-z]|\s*$")
_LIST_NUMBER = r"(?:^|[.!?:]\s|\n\s*)\d{1,2}"
_SHORTENED = re.compile(
    rf"(?:\b(?:dr|mr|mrs|ms|prof|st|vs|ca|cf|approx|e\.g|i\.e)|\b[a-z]|{_LIST_NUMBER})\.$",
    re.IGNORECASE,
)


def count_words(text: str) -> int:
    """The number of words, as the checker of TREC iKAT 2025 counts them: separated by white space, after NFKC normalisation.

    Example:
        >>> count_words("Two words")
        2
    """
    return len(unicodedata.normalize("NFKC", text).split())


def cut_at_sentence(text: str, words: int) -> str:
    """The longest beginning of ``text`` that ends where a sentence or a line ends and has at most ``words`` words.

    A text within the limit is returned unchanged. If the first sentence alone exceeds the limit,
    its first ``words`` words are returned.

    Args:
        text: any text.
        words: the most words to keep, as :func:`count_words` counts them.

    Example:
        >>> cut_at_sentence("Oats are cheap. They keep well. Everybody has some.", 7)
        'Oats are cheap. They keep well.'
    """
    if count_words(text) <= words:
        return text
    whole = [part for part in whole_sentences(text) if count_words(part) <= words]
    return whole[-1] if whole else _first_words(text, words)


def whole_sentences(text: str) -> list[str]:
    """The beginnings of ``text`` that end where a sentence or a line ends, from the shortest.

    Example:
        >>> whole_sentences("Oats keep well, e.g. in a jar. They are cheap.")
        ['Oats keep well, e.g. in a jar.', 'Oats keep well, e.g. in a jar. They are cheap.']
    """
    return [text[:end] for end in _ends(text)]


def _ends(text: str) -> Iterator[int]:
    """Where sentences and lines end."""
    for stop in _STOP.finditer(text):
        end = stop.start() if stop[0] == "\n" else _behind_closing(text, stop.end())
        if stop[0][0] in ".!?…" and not _NEXT_BEGINS.match(text, end):
            continue
        start = max(0, end - LOOK_BACK)
        last = text[start:end].rstrip()
        if last and not _SHORTENED.search(last):
            yield start + len(last)


def _behind_closing(text: str, place: int) -> int:
    """The place behind the quotation marks, brackets and citations that belong to the sentence before it."""
    while True:
        closes = _CLOSES.match(text, place)
        mark = None if closes else mark_at(text, place)
        if closes is None and mark is None:
            return place
        place = closes.end() if closes else mark.end  # type: ignore[union-attr]


def _first_words(text: str, words: int) -> str:
    ends = [found.end() for found in re.finditer(r"\S+", text)]
    return text[
        : max((end for end in ends[:words] if count_words(text[:end]) <= words), default=0)
    ].strip()


def sentences_in(text: str) -> list[str]:
    r"""The sentences and lines of ``text`` that have a letter or a digit. Text after the last sentence end counts as a sentence.

    Example:
        >>> sentences_in("Two teas:\n- Mint. It cools.\n- Sage")
        ['Two teas:', '- Mint.', 'It cools.', '- Sage']
    """
    return [sentence for _, sentence in _sentences(text)]


def _sentences(text: str) -> Iterator[tuple[int, str]]:
    """Where each sentence begins, and the sentence."""
    ends = [*_ends(text), len(text)]
    for start, end in zip([0, *ends], ends, strict=False):
        if any(map(str.isalnum, part := text[start:end])):
            yield end - len(part.lstrip()), part.strip()


class CitedSentence(NamedTuple):
    """A sentence, and the passages that it cites.

    Attributes:
        text: the sentence. Empty for a list of sources at the end, which belongs to the whole
            response.
        numbers: the numbers of the cited passages, from 1, each once.
        unknown: cited numbers that no passage has.
    """

    text: str
    numbers: tuple[int, ...] = ()
    unknown: tuple[int, ...] = ()


class CitedText(NamedTuple):
    """A response whose marks were read.

    Attributes:
        text: the response without marks.
        sentences: its sentences. Empty if no marks were requested.
    """

    text: str
    sentences: tuple[CitedSentence, ...] = ()

    @property
    def unknown(self) -> list[int]:
        """The cited numbers that no passage has, with repetitions."""
        return [number for one in self.sentences for number in one.unknown]

    def among(self, passages: int) -> "CitedText":
        """The same response, read for this number of shown passages."""
        return self._replace(
            sentences=tuple(
                _sentence(one.text, [*one.numbers, *one.unknown], passages)
                for one in self.sentences
            )
        )

    def cut(self, words: int) -> "CitedText":
        """Its beginning of at most ``words`` words (see :func:`cut_at_sentence`), with the citations in it."""
        kept = cut_at_sentence(self.text, words)
        left = [one for one in self.sentences if one.text in kept]
        return CitedText(
            kept, tuple(left or [one._replace(text=kept) for one in self.sentences[:1]])
        )


def read_citations(text: str, passages: int) -> CitedText:
    """Read the marks of a response and remove them from its text.

    Each mark belongs to the sentence that contains it or ends before it.

    Args:
        text: the response.
        passages: how many passages were shown to the model, with numbers from 1.

    Example:
        >>> read_citations("Rooibos has no caffeine [2]. Mate has some.[1, 7] It is drunk since 1900.", 3).text
        'Rooibos has no caffeine. Mate has some. It is drunk since 1900.'
        >>> [one[1:] for one in read_citations("Rooibos has no caffeine [2]. Mate has some.[1, 7] It is drunk since 1900.", 3).sentences]
        [((2,), ()), ((1,), (7,)), ((), ())]
    """
    body, listed = _without_sources(text)
    pieces, marks = list[str](), list[tuple[int, Sequence[int]]]()
    place, length = 0, 0
    for run in _citing_runs(body, passages):
        before, words = body[place : run.start], _spoken(body, run)
        blanks = _BLANK + "\n" if _is_alone(body, run) else _BLANK
        kept = before + words if words else before.rstrip(blanks)
        place = run.end
        if kept.endswith((".", "!", "?")) and body.startswith(".", place):
            place += 1  # a repeated full stop: "Oats keep. [1]."
        marks.append((length + len(kept), run.numbers))
        if not words and before[-1:].isspace() and body[place : place + 1].isalnum():
            kept += " "
        pieces.append(kept)
        length += len(kept)
    return _attributed(
        "".join(pieces) + body[place:], [*marks, *((-1, numbers) for numbers in listed)], passages
    )


def _attributed(plain: str, marks: Sequence[tuple[int, Sequence[int]]], passages: int) -> CitedText:
    """The text with the numbers of each mark assigned to its sentence. A mark at -1 belongs to the whole response."""
    sentences = list(_sentences(plain))
    starts = [start for start, _ in sentences]
    cited: list[list[int]] = [[] for _ in [*sentences, ""]]
    for place, numbers in marks:
        cited[max(0, bisect_left(starts, place) - 1) if place >= 0 else -1] += numbers
    texts = [*(sentence for _, sentence in sentences), ""]
    read = [
        _sentence(sentence, numbers, passages)
        for sentence, numbers in zip(texts, cited, strict=True)
    ]
    return CitedText(
        plain.strip(), tuple(one for one in read if one.text or one.numbers or one.unknown)
    )


def _sentence(text: str, numbers: Sequence[int], passages: int) -> CitedSentence:
    each = list(dict.fromkeys(numbers))
    known = tuple(number for number in each if 1 <= number <= passages)
    return CitedSentence(text, known, tuple(number for number in each if number not in known))


def _citing_runs(text: str, passages: int) -> Iterator[Run]:
    """The runs of marks that cite, outside of code."""
    outside = _CODE.sub(lambda code: "\0" * len(code[0]), text) if "`" in text else text
    highest = max(passages, HIGHEST)
    for run in runs(outside):
        belongs = (
            _is_index(outside, run) or _is_interval(outside, run) or _numbers_a_line(outside, run)
        )
        if not belongs and _has_passages(run, highest):
            yield run


# What looks like a mark and belongs to the text


def _has_passages(run: Run, highest: int) -> bool:
    """Whether all numbers can be those of passages. ``[2023]`` and ``[0]`` are none; ``[Doc 0]`` is one that nobody was shown."""
    return run.named or all(1 <= number <= highest for number in run.numbers)


_BARE = re.compile(r"\[\s?\d")
_BEHIND_OTHER = re.compile(r"(?:[=∈] ?|[^\W_]_\w*)\Z")
_BEHIND_WORD = re.compile(
    r"(?:\A|[^\w'’-])(?:(?P<letter>[a-z])|(?i:array|list|index|vector|set|tuple|matrix))\Z"
)
_IN_CODE = frozenset(
    (
        "and",
        "at",
        "by",
        "call",
        "element",
        "entry",
        "for",
        "from",
        "get",
        "if",
        "in",
        "is",
        "let",
        "of",
        "or",
        "print",
    )
    + ("return", "set", "than", "then", "to", "take", "use", "value", "variable", "where", "with")
)
"""Words before a value in code, and in prose about code."""
_BEFORE_WORD = re.compile(r"([^\W\d_]+)[ \t]\Z")


def _is_index(text: str, run: Run) -> bool:
    """Whether a run is the index of a value, a value, or the second half of a link: ``x[2]``, ``my_values[3]``, ``x = [1]``, ``[oats][1]``.

    A letter or a word such as "list" is a value only where no other word names it: ``take list[1]``
    is one, and ``vitamin c[2]`` or ``the glycemic index[2]`` cites.
    """
    before = _before(text, run)
    if before.endswith(("\\", "]")):
        return True
    if run.named or not _BARE.match(text, run.start):
        return False
    if _BEHIND_OTHER.search(before):
        return True
    word = _BEHIND_WORD.search(before)
    if word is None:
        return False
    if word["letter"] and "vitamin" in before.lower():
        return False
    if word["letter"] == "a" and _GOES_ON.match(text, run.end):  # an article: "with a[1] doctor"
        return False
    other = _BEFORE_WORD.search(before[: word.start() + 1])
    return other is None or other[1].lower() in _IN_CODE


_BEHIND_INTERVAL = re.compile(
    r"\b(?:(?:range|scale)s?(?: of| from|:|,)|(?:interval|CI|IQR)s?(?: of| from|:|,)?|ranging from|(?<!in )between) \Z",
    re.IGNORECASE,
)


def _is_interval(text: str, run: Run) -> bool:
    """Whether two numbers are an interval: ``a range of [1, 3]``, ``95% CI [2, 4]``, ``between [1, 5]``. ``a wide range [1, 2]`` cites."""
    return (
        run.two
        and _BARE.match(text, run.start) is not None
        and _BEHIND_INTERVAL.search(_before(text, run)) is not None
    )


def _numbers_a_line(text: str, run: Run) -> bool:
    """Whether a run is the number of a line: ``[1] Oats are cheap.`` A line of marks alone cites, and so does ``[1] says that ...``."""
    return _begins_line(text, run) and not _is_alone(text, run) and not _spoken(text, run)


_LINE_BEGINS = re.compile(r"(?:\A|\n)[ \t>*#•-]*\Z")


def _begins_line(text: str, run: Run) -> bool:
    before = _before(text, run)
    found = _LINE_BEGINS.search(before)
    return found is not None and (len(before) < LOOK_BACK or before[found.start()] == "\n")


def _is_alone(text: str, run: Run) -> bool:
    """Whether nothing else but marks is in its line."""
    if not _begins_line(text, run):
        return False
    end = text.find("\n", run.end)
    end = len(text) if end < 0 else end
    place = run.end
    for further in runs(text, run.end, end):
        if _has_word(text, place, further.start):
            return False
        place = further.end
    return not _has_word(text, place, end)


def _has_word(text: str, start: int, end: int) -> bool:
    return any(map(str.isalnum, text[start:end]))


def _before(text: str, run: Run) -> str:
    return text[max(0, run.start - LOOK_BACK) : run.start]


# Marks that the sentence speaks, which become words

_BEHIND_SPOKEN = re.compile(r"\b(?:according to|see|in) \Z", re.IGNORECASE)
_BEHIND_NAME = re.compile(
    r"\b(?:(?P<passage>passage|document|doc)|source|reference|snippet)(?P<several>s?) \Z",
    re.IGNORECASE,
)
_SPEAKS_SOURCE = re.compile(r"(?:\A|[.!?:;,(\n]\s*|\b(?:according to|see|in|as) )\Z", re.IGNORECASE)
_SPEAKS_PASSAGE = re.compile(
    rf"{_SPEAKS_SOURCE.pattern}|\b(?:by|from|of|per|with|and|while|but|that|both|via) \Z",
    re.IGNORECASE,
)
_SENTENCE_BEGINS = re.compile(r"(?:\A|[.!?]\s|\n)\s*\Z")
_GOES_ON = re.compile(r" [a-z]")


def _spoken(text: str, run: Run) -> str:
    """The words in place of marks that the sentence needs, such as ``passages 1 and 3``. Empty for all other marks."""
    if _is_named_before(text, run):
        return _listed(run)
    if _begins_sentence(text, run):
        return f"Passage{_plural(run)} {_listed(run)}"
    if _BEHIND_SPOKEN.search(_before(text, run)):
        return f"passage{_plural(run)} {_listed(run)}"
    return ""


def _is_named_before(text: str, run: Run) -> bool:
    """Whether a name speaks the numbers of a run behind it: ``Passage [2] denies it``, ``see source [1]``, not ``protein sources [1]``."""
    before = _before(text, run)
    name = _BEHIND_NAME.search(before)
    if name is None or run.named or bool(name["several"]) != (len({*run.numbers}) > 1):
        return False
    speaks = _SPEAKS_PASSAGE if name["passage"] else _SPEAKS_SOURCE
    return speaks.search(before[: name.start()]) is not None


def _plural(run: Run) -> str:
    return "s" if len({*run.numbers}) > 1 else ""


def _listed(run: Run) -> str:
    """The numbers in words: ``1, 2 and 3``."""
    *first, last = [str(number) for number in dict.fromkeys(run.numbers)]
    return f"{', '.join(first)} and {last}" if first else last


def _begins_sentence(text: str, run: Run) -> bool:
    """Whether a run is the subject of a sentence: ``[1] says that ...``, but not behind ``e.g. [1]``."""
    before = _before(text, run)
    if not _SENTENCE_BEGINS.search(before) or _SHORTENED.search(before.rstrip()):
        return False
    return _GOES_ON.match(text, run.end) is not None


def _without_sources(text: str) -> tuple[str, list[Sequence[int]]]:
    """The text without a list of sources at its end, and the numbers of each mark of that list."""
    titles = list(_SOURCES.finditer(text))
    lines = (
        [line for line in text[titles[-1].end() :].splitlines() if line.strip()] if titles else []
    )
    listed = list[Sequence[int]]()
    for line in lines:
        run = _source_on(line)
        if run is None:
            return text, []
        listed.append(run.numbers)
    return (text[: titles[-1].start()], listed) if listed else (text, [])


def _source_on(line: str) -> Run | None:
    """The marks at the beginning of a line of a list of sources: ``- [1] The oat``."""
    return run_at(line, _BULLET.match(line).end())  # type: ignore[union-attr]


def without_marks(text: str) -> str:
    """The text without its citation marks, whatever their numbers.

    Example:
        >>> without_marks("Rooibos. [1][2] It is red since [1900].")
        'Rooibos. It is red since [1900].'
    """
    return read_citations(text, 0).text


def pieces_with_numbers(
    text: str, sentences: Sequence[CitedSentence]
) -> list[tuple[str, tuple[int, ...]]]:
    r"""The text in pieces, each with the numbers that follow it. Passages that no sentence cites are listed at the end.

    Example:
        >>> pieces_with_numbers("Rooibos. It is red.", [CitedSentence("Rooibos.", (1, 2)), CitedSentence("", (3,))])
        [('Rooibos.', (1, 2)), (' It is red.', ()), ('\n\nSources:', (3,))]
    """
    pieces, place = list[tuple[str, tuple[int, ...]]](), 0
    for one in sentences:
        if one.text and (start := text.find(one.text, place)) >= 0:
            pieces.append((text[place : start + len(one.text)], one.numbers))
            place = start + len(one.text)
    seen = {number for _, numbers in pieces for number in numbers}
    listed = tuple(
        dict.fromkeys(number for one in sentences for number in one.numbers if number not in seen)
    )
    return [
        *pieces,
        *[(text[place:], ())] * (place < len(text)),
        *[("\n\nSources:", listed)] * bool(listed),
    ]


def with_marks(text: str, sentences: Sequence[CitedSentence]) -> str:
    r"""The text with the numbers of its passages, as :func:`pieces_with_numbers` has them.

    Example:
        >>> with_marks("Rooibos. It is red.", [CitedSentence("Rooibos.", (1, 2)), CitedSentence("", (3,))])
        'Rooibos. [1][2] It is red.\n\nSources: [3]'
    """
    pieces = pieces_with_numbers(text, sentences)
    return "".join(
        piece + " " * bool(numbers) + "".join(map("[{}]".format, numbers))
        for piece, numbers in pieces
    )


_OPEN = re.compile(
    r"\s*(?:\*{0,2}[(\[（【［〔][^)\]）】］〕\n]{0,70}|\*{1,2}|\^|<[^<>\n]{0,60}|<(?:sup|sub|small|cite|ref|span|a|b|i|u|em|strong|font)\b[^<>\n]{0,60}>"
    r"|[)\]）】］〕]\*{0,2}\^?(?:\(#?[^()\s]{0,40}|\s?(?:[~‐‑‒–—−&/,;-]|t|to|th\w{0,5}|an?|and)\s?)?)\Z|\s+\Z"
)


def while_written(text: str, passages: int) -> str:
    """The part of an unfinished response that can be shown: finished sentences with their numbers, the rest without.

    Text that may become a mark is held back, and so is what follows the last sentence, such as the
    mark of the next line of a list: the numbers of a sentence stand before it. The numbers are
    those of the finished response: passages are numbered by their first citation.

    Example:
        >>> text = "Rooibos has none [3]. Mint [1][3]. It"
        >>> [while_written(text[:end], 5) for end in (16, 22, 27, len(text))]
        ['Rooibos has none', 'Rooibos has none.', 'Rooibos has none. [1] Mint', 'Rooibos has none. [1] Mint. [2][1] It']
    """
    cited = read_citations(_settled(text), passages)
    if not cited.sentences:
        return ""
    *finished, last = cited.sentences
    places = dict[int, int]()
    shown = list[CitedSentence]()
    for one in finished:
        for number in one.numbers:
            places.setdefault(number, len(places) + 1)
        shown.append(one._replace(numbers=tuple(places[number] for number in one.numbers)))
    end = cited.text.rfind(last.text) + len(last.text) if last.text else len(cited.text)
    return with_marks(cited.text[:end], shown)


def _settled(text: str) -> str:
    """The beginning of a text that no later piece can make part of a mark, or of a list of sources."""
    while (
        held := _OPEN.search(text, max(0, len(text) - 2 * LOOK_BACK))
    ) is not None and held.start() < len(text):
        text = text[: held.start()]
    start = text.rfind("\n") + 1
    words = " ".join(text[start:].strip(" \t>*_#:").casefold().split())
    if words and any(title.startswith(words) for title in _TITLES):
        return text[:start]
    titles = list(_SOURCES.finditer(text))
    if not titles:
        return text
    *lines, last = text[titles[-1].end() :].split("\n")
    listed = all(_source_on(line) for line in lines if line.strip())
    unfinished = not any(map(str.isalnum, last)) or _source_on(last)
    return text[: titles[-1].start()] if listed and unfinished else text


_TITLES = [
    f"{word}s{more}"
    for word in ("source", "reference", "citation")
    for more in ("", " used", " cited")
]
"""What may become the title of a list of sources."""
