"""The text of an answer as a chat page shows it, and its inverse: additions of the server never reach a prompt."""

import re

from ...runs.answered_turn import Turn

PASSAGES_ONLY = "(This method writes no response. Its best passages:)"
NOTHING_FOUND = "(No passage was found.)"
_CITED = re.compile(r"\[(\d+)(?:\s*[,–-]\s*\d+)*\]")
_SOURCES = re.compile(r"\n\nSources: \[1\](?:, \[\d+\])*\s*\Z")


def content_of(turn: Turn) -> str:
    r"""The text that a client gets as the assistant's message.

    A response that cites one of its passages, as ``[2]``, is sent as it is. To any other response that is based on passages, a last line
    adds their numbers. In the place of a response that the method doesn't write, there are the beginnings of its best passages.

    Example:
        >>> from pyterrier_ikat.runs import Source
        >>> content_of(Turn(1, "Which tea?", "Rooibos.", (Source("d1", "Rooibos is red."), Source("d2", "Mint."))))
        'Rooibos.\n\nSources: [1], [2]'
    """
    numbers = [f"[{number}]" for number in range(1, len(turn.sources) + 1)]
    if turn.response:
        cited = any(1 <= int(number) <= len(numbers) for number in _CITED.findall(turn.response))
        return turn.response + (f"\n\nSources: {', '.join(numbers)}" if numbers and not cited else "")
    if not numbers:
        return NOTHING_FOUND
    shown = [f"{number} {source.beginning or source.docno}" for number, source in zip(numbers, turn.sources, strict=True)]
    return "\n\n".join([PASSAGES_ONLY, *shown])


def without_additions(text: str) -> str:
    r"""The response in an assistant's message that a client sends back, without what :func:`content_of` added.

    Example:
        >>> without_additions('Rooibos.\n\nSources: [1], [2]'), without_additions(NOTHING_FOUND)
        ('Rooibos.', '')
    """
    if text.lstrip().startswith((PASSAGES_ONLY, NOTHING_FOUND)):
        return ""
    return _SOURCES.sub("", text)


def pieces_of(text: str, length: int = 40) -> list[str]:
    """The text in pieces of whole words, of about ``length`` characters, as a stream sends it.

    Example:
        >>> pieces_of("Rooibos has no caffeine.", 10)
        ['Rooibos has ', 'no caffeine.']
    """
    pieces = [""]
    for word in re.findall(r"\S+\s*|\s+", text):
        if len(pieces[-1]) >= length:
            pieces.append("")
        pieces[-1] += word
    return pieces
