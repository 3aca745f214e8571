"""Passages of a raw document, as the track made its collection."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from ..arguments import checked
from ..errors import DataError, UsageError

Sentences = Callable[[str], Iterable[str]]

CHARACTERS = 10_000


@checked
def chunk_documents(
    documents: Iterable[Mapping[str, Any]], sentences: Sentences | None = None, *, window: int = 10, stride: int = 5
) -> Iterator[dict[str, str]]:
    """Cut documents into passages of overlapping runs of sentences.

    A document is cut to its first 10,000 characters; a passage is ``window`` sentences, the next one begins ``stride`` sentences
    later, and the last one is the first to reach the end. A blank document has no passage. Source: the iKAT 2023 guidelines' collection.

    Args:
        documents: dicts with ``docno`` and ``text``, and maybe ``url``.
        sentences: gives a text's sentences; the track's own, spaCy's ``senter`` of ``en_core_web_sm``, when left out.
        window: sentences of a passage.
        stride: sentences from one passage's beginning to the next one's, at most ``window``.

    Yields:
        ``{"docno", "text", "url"}``; a docno is ``<document>:<number from 0>``. Sentences are joined by a space.

    Raises:
        UsageError: when ``window`` or ``stride`` is out of range, or spaCy or its model isn't installed.
        DataError: at a document without docno or text.

    Example:
        >>> document = {"docno": "d", "text": "One. Two. Three. Four."}
        >>> [passage["text"] for passage in chunk_documents([document], lambda text: text.split(), window=2, stride=1)]
        ['One. Two.', 'Two. Three.', 'Three. Four.']
    """
    if not 1 <= stride <= window:
        raise UsageError(f"window={window!r}, stride={stride!r}: give 1 <= stride <= window, or sentences are lost")
    return _chunked(documents, sentences or spacy_sentences(), window, stride)


def spacy_sentences() -> Sentences:
    """The sentences that spaCy's ``senter`` of ``en_core_web_sm`` finds.

    Raises:
        UsageError: when spaCy or the model isn't installed.
    """
    nlp = _senter()
    return lambda text: (sentence.text for sentence in nlp(text).sents)


def _chunked(documents: Iterable[Mapping[str, Any]], sentences: Sentences, window: int, stride: int) -> Iterator[dict[str, str]]:
    for number, document in enumerate(documents, 1):
        docno, text, url = document.get("docno"), document.get("text"), document.get("url") or ""
        if not isinstance(docno, str) or docno.split() != [docno] or not isinstance(text, str):
            raise DataError(f"document {number} has the docno {docno!r} and {'a' if isinstance(text, str) else 'no'} text: give both")
        found = [sentence for sentence in map(str.strip, sentences(text[:CHARACTERS])) if sentence]
        for place, start in enumerate(_starts(len(found), window, stride)):
            yield {"docno": f"{docno}:{place}", "text": " ".join(found[start : start + window]), "url": url}


def _starts(sentences: int, window: int, stride: int) -> range:
    # Once a passage has reached the end, the next one would only repeat a part of it.
    return range(0, max(sentences - window + stride, min(sentences, 1)), stride)


@lru_cache(maxsize=1)
def _senter() -> Any:
    try:
        import spacy

        nlp = spacy.load("en_core_web_sm", exclude=["tok2vec", "tagger", "parser", "attribute_ruler", "lemmatizer", "ner"])
    except (ImportError, OSError) as error:
        raise UsageError(
            f"the track's sentences need spaCy and its model ({error}): pip install 'pyterrier_ikat[chunk]' && "
            "python -m spacy download en_core_web_sm, or give sentences=, any function from a text to its sentences"
        ) from error
    nlp.enable_pipe("senter")
    return nlp
