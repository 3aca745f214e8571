"""Examples for prompts, taken from conversations with statements, rewrites and responses by people."""

from functools import cache

from ..conversations import dataset
from ..conversations.topics import Conversation
from ..errors import UsageError, counted
from ..prompts import ptkb_text

TRAINING = "ikat:2023-train"
ORDER = {TRAINING: ("1-1", "1-2", "2-1", "2-2", "7-1")}
"""The conversations that the PTKB study uses as examples, in their order. Of other data, the first ones are used."""


@cache
def examples_of(shots: int, data: str, rewrites: bool) -> list[str]:
    """The texts of the first conversations: the persona, then for each turn the utterance, chosen statements, rewrite and response.

    Source: Mo et al., How to Leverage Personal Textual Knowledge (arXiv 2407.16192), and the code of its reproduction by Lupart et al.
    (arXiv 2510.03795): whole training conversations of 2023, always the same.

    Args:
        shots: how many conversations. With 0, no data are read.
        data: the dataset, such as ``"ikat:2023-train"``, or a topics file.
        rewrites: whether the rewrites are shown.

    Raises:
        UsageError: when the data have fewer conversations with a rewrite.
    """
    if not shots:
        return []
    written = {one.number: one for one in dataset(data).conversations if any(turn.resolved for turn in one.turns)}
    numbers = [number for number in ORDER.get(data, written) if number in written][:shots]
    if len(numbers) < shots:
        there = counted(len(numbers), "conversation")
        raise UsageError(f"shots={shots}: {data} has {there} to take as examples: give fewer shots or another dataset")
    return [_shown(written[number], rewrites) for number in numbers]


def _shown(conversation: Conversation, rewrites: bool) -> str:
    lines = [f"About the user: {ptkb_text(conversation.ptkb)}"]
    for turn in conversation.turns:
        lines += [f"user: {turn.utterance}", f"Statements: [{', '.join(turn.statements)}]"]
        lines += [f"Rewrite: {turn.resolved}"] * rewrites + [f"Response: {turn.response}"]
    return "\n".join(lines)
