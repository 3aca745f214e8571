r"""The sentences of a response and the passages that they cite.

The marks are what models write when they are asked to cite with numbers in square brackets;
:mod:`.citation_marks` finds them: ``[1]``, ``[1][2]``, ``[1, 2]``, ``[1-3]``, ``[1]–[3]``, ``[Doc
1]``, ``[Doc 1, p. 3]``, ``(Doc 1, Doc 2)``, ``(see Doc 1)``, ``([Passage 3](#3))``, ``**[1]**``,
``<sup>[1]</sup>``, ``[^1]``, ``【1】``. A number in round brackets counts only with such a name.
What OpenAI's search in files writes, ``【4:0†source】``, cites none of the passages, which is told.

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
from itertools import islice
from typing import NamedTuple

from .citation_marks import HIGHEST_BARE, MarkRun, mark_at, run_at, runs
from .usable import has_letter_or_digit

LOOK_BACK = 40
"""How many characters before a place decide what it is."""
_BLANK = " \t\u00a0\u2009\u202f"
_CODE = re.compile(r"^[ \t]*```.*?(?:^[ \t]*```|\Z)|`[^`\n]*`", re.DOTALL | re.MULTILINE)
_SOURCES = re.compile(
    r"^[ \t>*_#]{0,9}(?:sources?|references?|citations?)(?: used| cited)?"
    r"(?:[*_]{0,3}:[*_]{0,3}|[*_]{0,3}$)",
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
    """Count words as the checker of TREC iKAT 2025 does: separated by white space, after NFKC.

    Example:
        >>> count_words("Two words")
        2
    """
    return len(unicodedata.normalize("NFKC", text).split())


def cut_at_sentence(text: str, words: int) -> str:
    """Return the longest beginning of ``text`` within a limit that ends with a sentence or line.

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
    longest = ""
    for beginning in whole_sentences(text):
        if count_words(beginning) <= words:
            longest = beginning
    return longest or _first_words(text, words)


def whole_sentences(text: str) -> list[str]:
    """Return the beginnings of ``text`` that end with a sentence or a line, from the shortest.

    Example:
        >>> whole_sentences("Oats keep well, e.g. in a jar. They are cheap.")
        ['Oats keep well, e.g. in a jar.', 'Oats keep well, e.g. in a jar. They are cheap.']
    """
    return [text[:end] for end in _ends(text)]


def _ends(text: str) -> Iterator[int]:
    """Yield where sentences and lines end."""
    for stop in _STOP.finditer(text):
        end = stop.start() if stop[0] == "\n" else _behind_closing(text, stop.end())
        if stop[0][0] in ".!?…" and not _NEXT_BEGINS.match(text, end):
            continue
        start = max(0, end - LOOK_BACK)
        last = text[start:end].rstrip()
        if last and not _SHORTENED.search(last):
            yield start + len(last)


def _behind_closing(text: str, position: int) -> int:
    """Return the position behind the quotation marks, brackets and citations of a sentence."""
    while True:
        closing = _CLOSES.match(text, position)
        if closing is not None:
            position = closing.end()
            continue
        mark = mark_at(text, position)
        if mark is None:
            return position
        position = mark.end


def _first_words(text: str, words: int) -> str:
    """Return as many of the first words as the limit allows."""
    end = 0
    for word in islice(re.finditer(r"\S+", text), words):
        if count_words(text[: word.end()]) <= words:
            end = word.end()
    return text[:end].strip()


def sentences_in(text: str) -> list[str]:
    r"""Return the sentences and lines of ``text`` that have a letter or a digit.

    Text after the last sentence end counts as a sentence.

    Example:
        >>> sentences_in("Two teas:\n- Mint. It cools.\n- Sage")
        ['Two teas:', '- Mint.', 'It cools.', '- Sage']
    """
    return [sentence for _, sentence in _sentences(text)]


def _sentences(text: str) -> Iterator[tuple[int, str]]:
    """Yield each sentence with its beginning."""
    start = 0
    for end in (*_ends(text), len(text)):
        part = text[start:end]
        if has_letter_or_digit(part):
            yield end - len(part.lstrip()), part.strip()
        start = end


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
        return [number for sentence in self.sentences for number in sentence.unknown]

    def among(self, passages: int) -> "CitedText":
        """Return the same response, read for this number of shown passages."""
        sentences = []
        for sentence in self.sentences:
            numbers = [*sentence.numbers, *sentence.unknown]
            sentences.append(_sentence(sentence.text, numbers, passages))
        return self._replace(sentences=tuple(sentences))

    def cut(self, words: int) -> "CitedText":
        """Return its beginning as of :func:`cut_at_sentence`, with the citations in it."""
        text = cut_at_sentence(self.text, words)
        kept = []
        end = 0
        for sentence in self.sentences:
            start = text.find(sentence.text, end)
            if start < 0:  # it is cut off, and so are those after it
                end = len(text)
            else:
                kept.append(sentence)
                end = start + len(sentence.text)
        if not any(sentence.text for sentence in kept):
            first = [sentence._replace(text=text) for sentence in self.sentences[:1]]
            kept = [*first, *kept]
        return CitedText(text, tuple(kept))


def read_citations(text: str, passages: int) -> CitedText:
    """Read the marks of a response and remove them from its text.

    Each mark belongs to the sentence that contains it or ends before it.

    Args:
        text: the response.
        passages: how many passages were shown to the model, with numbers from 1.

    Example:
        >>> cited = read_citations("Rooibos has none [2]. Mate has some.[1, 7] It is old.", 3)
        >>> cited.text
        'Rooibos has none. Mate has some. It is old.'
        >>> [sentence[1:] for sentence in cited.sentences]
        [((2,), ()), ((1,), (7,)), ((), ())]
    """
    body, sources = _without_sources(text)
    plain = ""
    marks: list[tuple[int, Sequence[int]]] = []
    position = 0
    for run in _citing_runs(body, passages):
        before = body[position : run.start]
        spoken = _spoken(body, run)
        if spoken:
            piece = before + spoken
        elif _is_alone(body, run):
            piece = before.rstrip(_BLANK + "\n")
        else:
            piece = before.rstrip(_BLANK)
        plain += piece
        marks.append((len(plain), run.numbers))
        position = run.end
        has_stop = piece.endswith((".", "!", "?"))
        if has_stop and body.startswith(".", position):  # a second one: "Oats keep. [1]."
            position += 1
        lost_blank = not spoken and before[-1:].isspace()
        if lost_blank and body[position : position + 1].isalnum():  # "Oats [1]keep."
            plain += " "
    plain += body[position:]
    return _attributed(plain, marks, sources, passages)


def _attributed(
    plain: str,
    marks: Sequence[tuple[int, Sequence[int]]],
    sources: Sequence[Sequence[int]],
    passages: int,
) -> CitedText:
    """Return the text with the numbers of each mark assigned to its sentence.

    The numbers of a list of sources belong to the whole response, in a last sentence without text.
    """
    starts: list[int] = []
    texts: list[str] = []
    for start, sentence in _sentences(plain):
        starts.append(start)
        texts.append(sentence)
    texts.append("")
    cited: list[list[int]] = [[] for _ in texts]
    for position, numbers in marks:
        cited[max(0, bisect_left(starts, position) - 1)] += numbers
    for numbers in sources:
        cited[-1] += numbers
    sentences = []
    for text, numbers in zip(texts, cited, strict=True):
        if text or numbers:
            sentences.append(_sentence(text, numbers, passages))
    return CitedText(plain.strip(), tuple(sentences))


def _sentence(text: str, numbers: Sequence[int], passages: int) -> CitedSentence:
    existing = []
    unknown = []
    for number in dict.fromkeys(numbers):
        if 1 <= number <= passages:
            existing.append(number)
        else:
            unknown.append(number)
    return CitedSentence(text, tuple(existing), tuple(unknown))


def _citing_runs(text: str, passages: int) -> Iterator[MarkRun]:
    """Yield the runs of marks that cite, outside of code."""
    outside = text
    if "`" in text:
        outside = _CODE.sub(lambda code: "\0" * len(code[0]), text)
    highest = max(passages, HIGHEST_BARE)
    for run in runs(outside):
        if _is_index(outside, run) or _is_interval(outside, run) or _numbers_a_line(outside, run):
            continue
        if _has_passages(run, highest):
            yield run


# What looks like a mark and belongs to the text


def _has_passages(run: MarkRun, highest: int) -> bool:
    """Whether all numbers can be those of passages.

    ``[2023]`` and ``[0]`` are none; ``[Doc 0]`` is one that nobody was shown.
    """
    return run.named or all(1 <= number <= highest for number in run.numbers)


_BARE = re.compile(r"\[\s?\d")
_BEHIND_OTHER = re.compile(r"(?:[=∈] ?|[^\W_]_\w*)\Z")
_BEHIND_WORD = re.compile(
    r"(?:\A|[^\w'’-])(?:(?P<letter>[a-z])|(?i:array|list|index|vector|set|tuple|matrix))\Z"
)
_IN_CODE = frozenset(
    [
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
        "return",
        "set",
        "than",
        "then",
        "to",
        "take",
        "use",
        "value",
        "variable",
        "where",
        "with",
    ]
)
"""Words before a value in code, and in prose about code."""
_BEFORE_WORD = re.compile(r"([^\W\d_]+)[ \t]\Z")


def _is_index(text: str, run: MarkRun) -> bool:
    """Whether a run is an index or a value: ``x[2]``, ``my_values[3]``, ``x = [1]``.

    The second half of a link is one, too: ``[oats][1]``. A letter or a word such as "list" is a
    value only where no other word names it: ``take list[1]`` is one, and ``vitamin c[2]`` or ``the
    glycemic index[2]`` cites.
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
    r"\b(?:(?:range|scale)s?(?: of| from|:|,)|(?:interval|CI|IQR)s?(?: of| from|:|,)?"
    r"|ranging from|(?<!in )between) \Z",
    re.IGNORECASE,
)


def _is_interval(text: str, run: MarkRun) -> bool:
    """Whether two numbers are an interval: ``a range of [1, 3]``, ``95% CI [2, 4]``.

    ``a wide range [1, 2]`` cites.
    """
    if not run.may_be_interval or not _BARE.match(text, run.start):
        return False
    return _BEHIND_INTERVAL.search(_before(text, run)) is not None


def _numbers_a_line(text: str, run: MarkRun) -> bool:
    """Whether a run is the number of a line: ``[1] Oats are cheap.``.

    A line of marks alone cites, and so does ``[1] says that ...``.
    """
    return _begins_line(text, run) and not _is_alone(text, run) and not _spoken(text, run)


_LINE_BEGINS = re.compile(r"(?:\A|\n)[ \t>*#•-]*\Z")


def _begins_line(text: str, run: MarkRun) -> bool:
    before = _before(text, run)
    line = _LINE_BEGINS.search(before)
    if line is None:
        return False
    return len(before) < LOOK_BACK or before[line.start()] == "\n"


def _is_alone(text: str, run: MarkRun) -> bool:
    """Whether nothing else but marks is in its line."""
    if not _begins_line(text, run):
        return False
    line_end = text.find("\n", run.end)
    if line_end < 0:
        line_end = len(text)
    position = run.end
    for further in runs(text, run.end, line_end):
        if has_letter_or_digit(text[position : further.start]):
            return False
        position = further.end
    return not has_letter_or_digit(text[position:line_end])


def _before(text: str, run: MarkRun) -> str:
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


def _spoken(text: str, run: MarkRun) -> str:
    """Return the words in place of marks that the sentence needs: ``passages 1 and 3``.

    Empty for all other marks.
    """
    numbers = _in_words(run)
    if _is_named_before(text, run):
        return numbers
    if _begins_sentence(text, run):
        return f"{'Passages' if _is_several(run) else 'Passage'} {numbers}"
    if _BEHIND_SPOKEN.search(_before(text, run)):
        return f"{'passages' if _is_several(run) else 'passage'} {numbers}"
    return ""


def _is_named_before(text: str, run: MarkRun) -> bool:
    """Whether a name speaks the numbers of a run behind it: ``Passage [2] denies it``.

    So does ``see source [1]``, and ``protein sources [1]`` doesn't.
    """
    before = _before(text, run)
    name = _BEHIND_NAME.search(before)
    if name is None or run.named or bool(name["several"]) != _is_several(run):
        return False
    speaks = _SPEAKS_PASSAGE if name["passage"] else _SPEAKS_SOURCE
    return speaks.search(before[: name.start()]) is not None


def _is_several(run: MarkRun) -> bool:
    return len(set(run.numbers)) > 1


def _in_words(run: MarkRun) -> str:
    """Return the numbers in words: ``1, 2 and 3``."""
    *first, last = [str(number) for number in dict.fromkeys(run.numbers)]
    return f"{', '.join(first)} and {last}" if first else last


def _begins_sentence(text: str, run: MarkRun) -> bool:
    """Whether a run is the subject of a sentence: ``[1] says that``, but not behind ``e.g.``."""
    before = _before(text, run)
    if not _SENTENCE_BEGINS.search(before) or _SHORTENED.search(before.rstrip()):
        return False
    return _GOES_ON.match(text, run.end) is not None


def _without_sources(text: str) -> tuple[str, list[Sequence[int]]]:
    """Return the text without a list of sources at its end, and the numbers of its marks."""
    titles = list(_SOURCES.finditer(text))
    if not titles:
        return text, []
    title = titles[-1]
    sources: list[Sequence[int]] = []
    for line in text[title.end() :].splitlines():
        if not line.strip():
            continue
        run = _source_on(line)
        if run is None:
            return text, []
        sources.append(run.numbers)
    return (text[: title.start()], sources) if sources else (text, [])


def _source_on(line: str) -> MarkRun | None:
    """Return the marks at the beginning of a line of a list of sources: ``- [1] The oat``."""
    bullet = _BULLET.match(line)
    return run_at(line, bullet.end() if bullet else 0)


def without_marks(text: str) -> str:
    """Return the text without its citation marks, whatever their numbers.

    Example:
        >>> without_marks("Rooibos. [1][2] It is red since [1900].")
        'Rooibos. It is red since [1900].'
    """
    return read_citations(text, 0).text


def pieces_with_numbers(
    text: str, sentences: Sequence[CitedSentence]
) -> list[tuple[str, tuple[int, ...]]]:
    r"""Return the text in pieces, each with the numbers that follow it.

    Passages that no sentence cites are listed at the end.

    Example:
        >>> sentences = [CitedSentence("Rooibos.", (1, 2)), CitedSentence("", (3,))]
        >>> pieces_with_numbers("Rooibos. It is red.", sentences)
        [('Rooibos.', (1, 2)), (' It is red.', ()), ('\n\nSources:', (3,))]
    """
    pieces = []
    position = 0
    cited: set[int] = set()
    for sentence in sentences:
        start = text.find(sentence.text, position) if sentence.text else -1
        if start >= 0:
            end = start + len(sentence.text)
            pieces.append((text[position:end], sentence.numbers))
            position = end
            cited.update(sentence.numbers)
    if position < len(text):
        pieces.append((text[position:], ()))
    sources: dict[int, None] = {}
    for sentence in sentences:
        for number in sentence.numbers:
            if number not in cited:
                sources[number] = None
    if sources:
        pieces.append(("\n\nSources:", tuple(sources)))
    return pieces


def with_marks(text: str, sentences: Sequence[CitedSentence]) -> str:
    r"""Return the text with the numbers of its passages, as :func:`pieces_with_numbers` has them.

    Example:
        >>> sentences = [CitedSentence("Rooibos.", (1, 2)), CitedSentence("", (3,))]
        >>> with_marks("Rooibos. It is red.", sentences)
        'Rooibos. [1][2] It is red.\n\nSources: [3]'
    """
    marked = ""
    for piece, numbers in pieces_with_numbers(text, sentences):
        marked += piece
        if numbers:
            marked += " " + "".join(f"[{number}]" for number in numbers)
    return marked


_OPEN = re.compile(
    r"\s*(?:\*{0,2}[(\[（【［〔][^)\]）】］〕\n]{0,70}|\*{1,2}|\^|<[^<>\n]{0,60}"
    r"|<(?:sup|sub|small|cite|ref|span|a|b|i|u|em|strong|font)\b[^<>\n]{0,60}>"
    r"|[)\]）】］〕]\*{0,2}\^?"
    r"(?:\(#?[^()\s]{0,40}|\s?(?:[~‐‑‒–—−&/,;-]|t|to|th\w{0,5}|an?|and)\s?)?)\Z|\s+\Z"
)


def unfinished(text: str, passages: int) -> CitedText:
    """Read an unfinished response, without what may become a mark at its end.

    Example:
        >>> unfinished("Rooibos has none [2]. It is red [", 3).text
        'Rooibos has none. It is red'
    """
    return read_citations(_settled(text), passages)


def while_written(text: str, passages: int, words: int | None = None) -> str:
    """Return the part of an unfinished response that can be shown.

    Finished sentences have their numbers. Text that may become a mark is held back, and so is what
    follows the last sentence, such as the mark of the next line of a list: the numbers of a
    sentence stand before it. The numbers are those of the finished response: passages are numbered
    by their first citation. A text of more than ``words`` words is cut as the finished one will be.

    Example:
        >>> text = "Rooibos has none [3]. Mint [1][3]. It"
        >>> while_written(text[:16], 5), while_written(text[:22], 5)
        ('Rooibos has none', 'Rooibos has none.')
        >>> while_written(text, 5)
        'Rooibos has none. [1] Mint. [2][1] It'
        >>> while_written(text, 5, words=4)
        'Rooibos has none. [1] Mint. [2][1]'
    """
    cited = unfinished(text, passages)
    if not cited.sentences:
        return ""
    if words is not None and count_words(cited.text) > words:
        cut = cited.cut(words)
        return _with_new_numbers(cut.text, cut.sentences)
    *finished, last = cited.sentences
    end = len(cited.text)
    if last.text:
        end = cited.text.rfind(last.text) + len(last.text)
    return _with_new_numbers(cited.text[:end], finished)


def _with_new_numbers(text: str, sentences: Sequence[CitedSentence]) -> str:
    """The text with marks; passages are numbered by their first citation."""
    new_numbers: dict[int, int] = {}
    renumbered = []
    for sentence in sentences:
        for number in sentence.numbers:
            new_numbers.setdefault(number, len(new_numbers) + 1)
        numbers = tuple(new_numbers[number] for number in sentence.numbers)
        renumbered.append(sentence._replace(numbers=numbers))
    return with_marks(text, renumbered)


def _settled(text: str) -> str:
    r"""Return the beginning of a text that can't become part of a mark, or of a list of sources.

    "Mint [1" becomes "Mint"; "Mint.\nSour" and "Mint.\nSources: [1]" become "Mint.\n".
    """
    before_mark = _without_open_mark(text)
    line_start = before_mark.rfind("\n") + 1
    last_line = before_mark[line_start:].strip(" \t>*_#:").casefold()
    words = " ".join(last_line.split())
    may_become_title = words != "" and any(title.startswith(words) for title in _SOURCE_TITLES)
    if may_become_title:
        return before_mark[:line_start]
    return before_mark[: _start_of_sources(before_mark)]


def _without_open_mark(text: str) -> str:
    """Return the text without what may become a mark at its end, or may be followed by one."""
    while True:
        unfinished = _OPEN.search(text, max(0, len(text) - 2 * LOOK_BACK))
        if unfinished is None or unfinished.start() == len(text):
            return text
        text = text[: unfinished.start()]


def _start_of_sources(text: str) -> int:
    """Return where an unfinished list of sources begins; without one, the end of the text.

    Behind its title all lines have marks. The last line may still get one.
    """
    titles = list(_SOURCES.finditer(text))
    if not titles:
        return len(text)
    title = titles[-1]
    *lines, last = text[title.end() :].split("\n")
    if has_letter_or_digit(last):
        lines.append(last)
    for line in lines:
        if line.strip() and _source_on(line) is None:
            return len(text)
    return title.start()


_SOURCE_TITLES = [
    f"{word}s{more}"
    for word in ("source", "reference", "citation")
    for more in ("", " used", " cited")
]
"""What may become the title of a list of sources."""
