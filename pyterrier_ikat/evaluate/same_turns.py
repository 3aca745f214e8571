"""What to say when what is evaluated shares no turn with what it is evaluated against."""

import re
from collections.abc import Iterable

from ..errors import DataError, advice


def unlike(ours: str, theirs: str) -> str:
    """What to say when no turn is shared: both kinds of qid, and the conversion where hyphens are the reason."""
    ours, theirs = str(ours), str(theirs)  # a number read as one is no qid, but must not end in another error
    examples = f"its turns are like {ours}, the wanted ones like {theirs}"
    for hyphens, underscores, whose in ((ours, theirs, "them"), (theirs, ours, "the wanted ones")):
        if hyphens.rpartition("-")[0] and "_" not in hyphens and "_" in underscores:
            repair = advice(
                'frame["qid"].str.replace(r"-(?=\\d+$)", "_", regex=True)',
                r"sed -E 's/^([^[:space:]]+)-([0-9]+)[[:space:]]/\1_\2 /' FILE > NEW_FILE",
            )
            return f"{examples}; convert {whose}: {repair}"
    return f"{examples}; take the topics that the judgements were made for"


def check_form(who: str, ours: Iterable[str], theirs: Iterable[str]) -> None:
    """Refuse turns that are wanted ones but for a hyphen in place of the underscore: each would silently count 0.

    Raises:
        DataError: with the first such turn and the conversion.

    Example:
        >>> check_form("run a", ["9-1_3", "7_1"], ["9-1_3"])
    """
    wanted = set(theirs)
    for qid in ours:
        meant = re.sub(r"-(?=\d+$)", "_", str(qid))
        if qid not in wanted and meant in wanted:
            raise DataError(f"{who}: {unlike(qid, meant)}")


def check_shared(who: str, ours: Iterable[str], theirs: Iterable[str]) -> None:
    """Refuse turns of which none is wanted, unless there is none at all.

    Raises:
        DataError: with an example of both.

    Example:
        >>> check_shared("run a", [], ["9-1_3"])
    """
    given, wanted = list(ours), list(theirs)
    if given and not set(given) & set(wanted):
        raise DataError(f"{who} has no turn of the qrels: {unlike(given[0], wanted[0])}")
