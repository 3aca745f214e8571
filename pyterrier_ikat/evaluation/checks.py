"""What runs and qrels have to be like before they are compared: text ids, names, the same turns."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import DataError, UsageError, advice

if TYPE_CHECKING:
    import pandas as pd


def with_text_ids(who: str, frame: "pd.DataFrame", names: Sequence[str] = ("qid", "docno")) -> "pd.DataFrame":
    """The frame with the columns ``names`` as texts, categories among them.

    Args:
        who: what the error calls the frame, such as ``"run AD"``.
        frame: has these columns.
        names: the columns that name turns and passages.

    Raises:
        DataError: when one holds anything else.

    Example:
        >>> import pandas as pd
        >>> found = with_text_ids("run AD", pd.DataFrame({"qid": ["9-1_3"]}, dtype="category"), ["qid"])
        >>> str(found["qid"].dtype), found["qid"].tolist()
        ('object', ['9-1_3'])
    """
    import pandas as pd

    for name in names:
        if pd.api.types.infer_dtype(frame[name]) in ("string", "empty") and not frame[name].isna().any():
            continue
        ids = frame[name].astype(object)
        odd = [value for value in ids if not isinstance(value, str)]
        if odd:
            raise DataError(f'{who}: the {name} {odd[0]!r} is no text: leave the row out, or convert by frame["{name}"].astype(str)')
        frame = frame.assign(**{name: ids})
    return frame


def check_runs(runs: Any) -> None:
    """Whether ``runs`` are result frames by name, one at least.

    Raises:
        UsageError: when not; it says what to give.

    Example:
        >>> import pandas as pd
        >>> check_runs({"AD": pd.DataFrame()})
    """
    import pandas as pd

    if not isinstance(runs, Mapping):
        raise UsageError(f'the runs are a {type(runs).__name__}: give each frame its name, {{"name": frame, ...}}')
    if not runs:
        raise UsageError("there is no run: give at least one")
    for name, run in runs.items():
        if not isinstance(run, pd.DataFrame):
            raise UsageError(f"run {name} is a {type(run).__name__}: give a frame, such as read_run(path) or RunFolder(path).results()")


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
