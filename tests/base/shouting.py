"""Operators that ask a model for a word."""

from small_operators import TURNS

from pyterrier_ikat.completions.kinds import Kind
from pyterrier_ikat.llm_operator import LLMOperator
from pyterrier_ikat.operator import with_fields


def one_word(text):
    words = text.split()
    return words[0] if words and words[0] != "unusable" else None


@with_fields
class Shout(LLMOperator):
    """Asks for a word.

    Args:
        mark: what ends the word.
    """

    mark: str = "!"

    stage = "shout"
    writes = "qword"
    shows = ("mark",)
    kind = Kind(one_word)

    def columns_shown(self):
        return {"note": "qnote"}

    def list_dropped(self, frame, outcomes):
        dropped = []
        for qid, word in zip(frame["qid"], outcomes, strict=True):
            if len(word) > 5:
                dropped.append(f"{qid}: long")
        return dropped


@with_fields
class Query(Shout):
    """Its word is the query."""

    makes_query = True


@with_fields
class Writes(LLMOperator):
    """Shows two arguments and two columns, and writes nowhere."""

    mark: str = "!"
    tone: str = "kind"

    stage = "shout"
    shows = ("mark", "tone")
    kind = Kind(lambda text: None if "unusable" in text else text)

    def columns_shown(self):
        return {"note": "qnote", "hint": "qhint"}


@with_fields
class Searches(Writes):
    """Its answer is the query, and is written nowhere else."""

    makes_query = True


NOTED = TURNS.assign(qnote=["n1", "n2"], qhint=["h1", "h2"])
