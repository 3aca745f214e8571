"""How the history and the persona are written into a prompt."""

import re
from collections.abc import Mapping, Sequence

STYLES = ("gpt", "llama")
_ROLE = re.compile(r"(?<=[\n\r\x85\u2028\u2029])(?=[ \t]*(?:user|system|assistant)[ \t]*:)", re.IGNORECASE)
"""Where a line of a message could pass for the next message."""


def history_text(history: Sequence[Mapping[str, str]], style: str = "gpt") -> str:
    r"""The history as ``user: ...`` / ``system: ...`` lines.

    Args:
        history: messages with ``role`` and ``content``, oldest first.
        style: ``"gpt"``: all utterances and all responses; ``"llama"``: all utterances and only the last response.

    Example:
        >>> history_text([{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}])
        'user: Hi\nsystem: Hello'
    """
    responses = [position for position, message in enumerate(history) if message["role"] != "user"]
    dropped = set(responses[:-1]) if style == "llama" else set()
    return "\n".join(
        ("user: " if message["role"] == "user" else "system: ") + _ROLE.sub(r"\\", str(message["content"]))
        for position, message in enumerate(history)
        if position not in dropped
    )


def ptkb_text(ptkb: Mapping[str, str]) -> str:
    """The persona as ``1: ..., 2: ...``.

    Example:
        >>> ptkb_text({"1": "I am vegan.", "2": "I own a dog."})
        '1: I am vegan., 2: I own a dog.'
    """
    return ", ".join(f"{number}: {statement}" for number, statement in ptkb.items())


def chosen(ptkb: Mapping[str, str], statements: Sequence[tuple[str, float]]) -> dict[str, str]:
    """The statements of the persona that ``statements``, pairs of id and score, name, in that order.

    Example:
        >>> chosen({"1": "I am vegan.", "2": "I own a dog."}, [("2", 0.9)])
        {'2': 'I own a dog.'}
    """
    return {number: ptkb[number] for number, _ in statements if number in ptkb}
