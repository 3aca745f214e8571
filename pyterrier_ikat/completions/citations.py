r"""The sentences of a response and the passages that they cite. This module finds sentence ends and marks such as ``[1]``.

A mark is what models write when they are asked to cite with numbers in square brackets: ``[1]``, ``[1][2]``, ``[1, 2]``, ``[1-3]``,
``[1]–[3]``, ``[Doc 1]``, ``[Doc 1, p. 3]``, ``(Doc 1, Doc 2)``, ``(see Doc 1)``, ``([Passage 3](#3))``, ``**[1]**``,
``<sup>[1]</sup>``, ``[^1]``, ``【1】``. A number in round brackets counts only with such a name. A bracket is not a mark, and stays, if it
holds a year or another number above 99, or a zero. The same holds for two numbers after "range", "scale", "interval", "CI" or "between",
for an index in code (``list[1]``, without a blank), after an equals sign, before the address of a Markdown link, and at the beginning of a
line with text after it, because lists are numbered there. "According to [1], ..." cites and becomes "According to passage 1, ...". Pure
functions: no model, no frame.
"""

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import NamedTuple

LOOK_BACK = 40
"""How many characters before a place decide what it is."""
HIGHEST = 99
"""A bare number above this one is a mark only if that many passages were shown."""
_B = r"[^\S\n]"
_NAME = r"(?:reference[ _])?(?:passage|document|doc|source|reference|ref|citation|snippet)s?"
_ONE = rf"(?:{_NAME}{_B}{{0,2}}(?:no\.?|number)?[ :#=\"_.-]{{0,3}})?\d{{1,4}}\"?"
_TO = rf"{_B}{{0,2}}(?:[~‐‑‒–—−-]|\b(?:to|through)\b){_B}{{0,2}}"
_BETWEEN = rf"(?:{_TO}|{_B}{{0,2}}(?:[,;、，&/]|and\b){_B}{{0,2}})"
_PART = r"(?:§§?|¶|\b(?:pp?|pages?|par|paras?|paragraphs?|sect?|sections?|lines?|sentences?|chapters?|ch|figs?|figures?|tables?)\b\.?)"
_PLACE = rf"{_B}{{0,2}}[,;:(]?{_B}{{0,2}}{_PART}{_B}{{0,2}}\d{{1,4}}(?:[.~‐‑‒–—−-]\d{{1,4}}){{0,3}}\)?"
_LIST = rf"{_ONE}(?:{_PLACE}){{0,3}}(?:{_BETWEEN}(?:and{_B})?{_ONE}(?:{_PLACE}){{0,3}}){{0,19}}"
_SQUARE = rf"(?:\[\[?|［|【)\^?{_B}{{0,2}}{_LIST}{_B}{{0,2}}(?:†[^\]】\n]{{0,40}})?(?:\]\]?|］|】)(?:\(#[^()\s]{{0,40}}\)|(?!\())"
_SEE = rf"(?:(?:see|cf\.|e\.g\.,?|from|according to|as in|via|sources?:|references?:){_B})?"
MARK = rf"(?i:{_SQUARE}|[\[(（]{_B}{{0,2}}{_SEE}(?={_NAME}){_LIST}{_B}{{0,2}}[\])）])"
"""The pattern of one mark."""
_TAG = r"(?:sup|sub|small|cite|ref|span|a|b|i|u|em|strong|font)\b"
_WRAPPED = rf"(?:<{_TAG}[^<>\n]{{0,99}}>){{1,3}}{MARK}(?:[ ,;]{{0,3}}{MARK})*(?:</{_TAG}>){{1,3}}|\^{MARK}\^?"
_UNIT = rf"(?:{_WRAPPED}|{MARK})"
_MARKS = rf"{_UNIT}(?:(?:{_TO}|[ ,;&/]{{0,3}}(?:and )?){_UNIT})*"
# _RUN and _SOURCE are compiled at their first use: together they take a quarter of a second.
_RUN = rf"(?i)(?P<bold>\*\*?)?(?:\((?:see |cf\. |sources?:? )?(?=[\[【]){_MARKS}\)|{_MARKS})(?(bold)(?P=bold))"
_NUMBERS = re.compile(rf"(\d{{1,4}})\"?{_TO}(?:{_NAME})?[ \"#]?(\d{{1,4}})|(\d{{1,4}})", re.IGNORECASE)
_NO_NUMBERS = re.compile(rf"†[^\]】]*|\(#[^)]*\)|</?{_TAG}[^<>]*>|{_PLACE}", re.IGNORECASE)
"""Parts of marks whose numbers are not those of passages."""
_JOINED = re.compile(rf"[\])）］】]({_TO})[\[(（［【]", re.IGNORECASE)
_TWO = re.compile(rf"\W*\d+(?:{_TO}|{_B}?,{_B}?)\d+\W*", re.IGNORECASE)
_CODE = re.compile(r"^[ \t]*```.*?(?:^[ \t]*```|\Z)|`[^`\n]*`", re.DOTALL | re.MULTILINE)
_OTHER_BEHIND = re.compile(
    r"(?:[\\\]]|[=∈] ?|(?<![^\W_])[a-z]|[^\W_]_\w*|(?i:\b(?:range|interval|scale|array|list|index|vector|set|tuple|matrix)))\Z"
)
_INTERVAL_BEHIND = re.compile(r"\b(?:(?:range|interval|scale|CI|IQR)s?(?: of| from|:|,)?|ranging from|between) \Z", re.IGNORECASE)
_SAID_BEHIND = re.compile(rf"\b(?:according to|based on|in|by|from|see|per|of|with|{_NAME}) \Z", re.IGNORECASE)
_LINE_BEGINS = re.compile(r"(?:\A|\n)[ \t>*#•-]*\Z")
_SENTENCE_BEGINS = re.compile(r"(?:\A|[.!?]\s|\n)\s*\Z")
_SOURCES = re.compile(
    r"^[ \t>*_#]{0,9}(?:sources?|references?|citations?)(?: used| cited)?(?:[*_]{0,3}:[*_]{0,3}|[*_]{0,3}$)", re.IGNORECASE | re.MULTILINE
)
_SOURCE = rf"(?i)[ \t*•>-]{{0,9}}({_MARKS})"

_CLOSING = rf"(?:{MARK}|[\"'”’»)\]*])*"
_END = re.compile(rf"[.!?…]+{_CLOSING}(?=\s+[^\sa-z]|\s*$)|[。！？]+(?:{MARK}|[」』”])*|(?=\n)")
_LIST_NUMBER = r"(?:^|[.!?:]\s|\n\s*)\d{1,2}"
_SHORTENED = re.compile(rf"(?:\b(?:dr|mr|mrs|ms|prof|st|vs|ca|cf|approx|e\.g|i\.e)|\b[a-z]|{_LIST_NUMBER})\.$", re.IGNORECASE)


def count_words(text: str) -> int:
    """The number of words, as the checker of TREC iKAT 2025 counts them: separated by white space, after NFKC normalisation.

    Example:
        >>> count_words("Two words")
        2
    """
    return len(unicodedata.normalize("NFKC", text).split())


def cut_at_sentence(text: str, words: int) -> str:
    """The longest beginning of ``text`` that ends where a sentence or a line ends and has at most ``words`` words.

    A text within the limit is returned unchanged. If the first sentence alone exceeds the limit, its first ``words`` words are returned.

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
    for found in _END.finditer(text):
        start = max(0, found.end() - LOOK_BACK)
        last = text[start : found.end()].rstrip()
        if last and not _SHORTENED.search(last):
            yield start + len(last)


def _first_words(text: str, words: int) -> str:
    ends = [found.end() for found in re.finditer(r"\S+", text)]
    return text[: max((end for end in ends[:words] if count_words(text[:end]) <= words), default=0)].strip()


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
        text: the sentence. Empty for a list of sources at the end, which belongs to the whole response.
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
        return self._replace(sentences=tuple(_sentence(one.text, [*one.numbers, *one.unknown], passages) for one in self.sentences))

    def cut(self, words: int) -> "CitedText":
        """Its beginning of at most ``words`` words (see :func:`cut_at_sentence`), with the citations in it."""
        kept = cut_at_sentence(self.text, words)
        left = [one for one in self.sentences if one.text in kept]
        return CitedText(kept, tuple(left or [one._replace(text=kept) for one in self.sentences[:1]]))


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
    plain, marks, place = "", list[tuple[int, str]](), 0
    for mark in _marks(body, passages):
        before, said = body[place : mark.start()], _said(mark)
        plain += (before if said else before.rstrip(" \t\n" if _is_alone(mark) else " \t")) + said
        marks.append((len(plain), mark[0]))
        place = mark.end() + (plain.endswith((".", "!", "?")) and body[mark.end() : mark.end() + 1] == ".")  # a repeated full stop
        plain += " " * (not said and before != before.rstrip() and body[place : place + 1].isalnum())
    return _attributed(plain + body[place:], [*marks, *((-1, mark) for mark in listed)], passages)


def _attributed(plain: str, marks: Sequence[tuple[int, str]], passages: int) -> CitedText:
    """The text with each mark assigned to its sentence. A mark at -1 belongs to the whole response."""
    sentences = list(_sentences(plain))
    starts = [start for start, _ in sentences]
    cited: list[list[int]] = [[] for _ in [*sentences, ""]]
    for place, mark in marks:
        cited[max(0, bisect_left(starts, place) - 1) if place >= 0 else -1] += _numbers(mark)
    texts = [*(sentence for _, sentence in sentences), ""]
    read = [_sentence(sentence, numbers, passages) for sentence, numbers in zip(texts, cited, strict=True)]
    return CitedText(plain.strip(), tuple(one for one in read if one.text or one.numbers or one.unknown))


def _sentence(text: str, numbers: Sequence[int], passages: int) -> CitedSentence:
    each = list(dict.fromkeys(numbers))
    known = tuple(number for number in each if 1 <= number <= passages)
    return CitedSentence(text, known, tuple(number for number in each if number not in known))


def _marks(text: str, passages: int) -> Iterator[re.Match[str]]:
    """The runs of marks that cite."""
    outside = _CODE.sub(lambda code: "\0" * len(code[0]), text)
    return (run for run in re.finditer(_RUN, outside) if _cites(run, max(passages, HIGHEST)))


def _cites(run: re.Match[str], highest: int) -> bool:
    before = _before(run)
    if _OTHER_BEHIND.search(before) or (_INTERVAL_BEHIND.search(before) and _TWO.fullmatch(run[0].replace("] to [", " to "))):
        return False
    if not re.search(_NAME, run[0], re.IGNORECASE) and not all(1 <= number <= highest for number in _numbers(run[0])):
        return False
    return not _begins_line(run) or _is_alone(run) or bool(_said(run))


def _before(run: re.Match[str]) -> str:
    return run.string[max(0, run.start() - LOOK_BACK) : run.start()]


def _begins_line(run: re.Match[str]) -> bool:
    before = _before(run)
    found = _LINE_BEGINS.search(before)
    return found is not None and (len(before) < LOOK_BACK or before[found.start()] == "\n")


def _rest_of_line(run: re.Match[str]) -> str:
    return run.string[run.end() :].partition("\n")[0]


def _is_alone(run: re.Match[str]) -> bool:
    """Whether nothing else but marks is in its line."""
    return _begins_line(run) and not any(map(str.isalnum, re.sub(_RUN, "", _rest_of_line(run))))


def _said(run: re.Match[str]) -> str:
    """The words that replace marks which the sentence needs, such as ``passages 1 and 3``. Empty for all other marks."""
    before, rest = _before(run), _rest_of_line(run)
    subject = _SENTENCE_BEGINS.search(before) is not None and re.match(r" [a-z]", rest) is not None
    if not subject and not _SAID_BEHIND.search(before):
        return ""
    numbers = [str(number) for number in dict.fromkeys(_numbers(run[0]))]
    listed = " and ".join(filter(None, (", ".join(numbers[:-1]), numbers[-1])))
    if re.search(rf"{_NAME} \Z", before, re.IGNORECASE):
        return listed
    return f"{'Passage' if subject else 'passage'}{'s' * (len(numbers) > 1)} {listed}"


def _numbers(mark: str) -> list[int]:
    """The numbers in marks. A range means all numbers in it."""
    found = list[int]()
    for first, last, alone in _NUMBERS.findall(_JOINED.sub(r"\1", _NO_NUMBERS.sub("", mark))):
        start, end = int(first or alone), int(last or alone)
        found += range(start, end + 1) if 0 <= end - start <= HIGHEST else (start, end)
    return found


def _without_sources(text: str) -> tuple[str, list[str]]:
    """The text without a list of sources at its end, and the marks of that list."""
    titles = list(_SOURCES.finditer(text))
    lines = [line for line in text[titles[-1].end() :].splitlines() if line.strip()] if titles else []
    listed = [found[1] for line in lines if (found := re.match(_SOURCE, line))]
    if not listed or len(listed) < len(lines):
        return text, []
    return text[: titles[-1].start()], listed


def without_marks(text: str) -> str:
    """The text without its citation marks, whatever their numbers.

    Example:
        >>> without_marks("Rooibos. [1][2] It is red since [1900].")
        'Rooibos. It is red since [1900].'
    """
    return read_citations(text, 0).text


def pieces_with_numbers(text: str, sentences: Sequence[CitedSentence]) -> list[tuple[str, tuple[int, ...]]]:
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
    listed = tuple(dict.fromkeys(number for one in sentences for number in one.numbers if number not in seen))
    return [*pieces, *[(text[place:], ())] * (place < len(text)), *[("\n\nSources:", listed)] * bool(listed)]


def with_marks(text: str, sentences: Sequence[CitedSentence]) -> str:
    r"""The text with the numbers of its passages, as :func:`pieces_with_numbers` has them.

    Example:
        >>> with_marks("Rooibos. It is red.", [CitedSentence("Rooibos.", (1, 2)), CitedSentence("", (3,))])
        'Rooibos. [1][2] It is red.\n\nSources: [3]'
    """
    pieces = pieces_with_numbers(text, sentences)
    return "".join(piece + " " * bool(numbers) + "".join(map("[{}]".format, numbers)) for piece, numbers in pieces)


_OPEN = re.compile(
    r"\s*(?:\*{0,2}[(\[（【［][^)\]）】］\n]{0,60}|\*{1,2}|\^|<[^<>\n]{0,60}|<(?:sup|sub|small|cite|ref|span|a|b|i|u|em|strong|font)\b[^<>\n]{0,60}>"
    r"|[)\]）】］]\*{0,2}\^?(?:\(#?[^()\s]{0,40}|\s?(?:[~‐‑‒–—−&/,;-]|t|to|th\w{0,5}|an?|and)\s?)?)\Z|\s+\Z"
)


def while_written(text: str, passages: int) -> str:
    """The part of an unfinished response that can be shown: finished sentences with their numbers, the rest without.

    Text that may become a mark is held back, and so is what follows the last sentence, such as the mark of the next line of a list: the
    numbers of a sentence stand before it. The numbers are those of the finished response: passages are numbered by their first citation.

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
    while (held := _OPEN.search(text, max(0, len(text) - 2 * LOOK_BACK))) is not None and held.start() < len(text):
        text = text[: held.start()]
    start = text.rfind("\n") + 1
    words = " ".join(text[start:].strip(" \t>*_#:").casefold().split())
    if words and any(title.startswith(words) for title in _TITLES):
        return text[:start]
    titles = list(_SOURCES.finditer(text))
    if not titles:
        return text
    *lines, last = text[titles[-1].end() :].split("\n")
    listed = all(re.match(_SOURCE, line) for line in lines if line.strip())
    unfinished = not any(map(str.isalnum, last)) or re.match(_SOURCE, last)
    return text[: titles[-1].start()] if listed and unfinished else text


_TITLES = [f"{word}s{more}" for word in ("source", "reference", "citation") for more in ("", " used", " cited")]
"""What may become the title of a list of sources."""
