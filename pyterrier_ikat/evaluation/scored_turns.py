"""Which turns runs are scored on, and the lines below a table that say so.

A run folder knows the turns that it was asked, and a mean over others would count turns 0 that
nobody asked it. A frame or a file of somebody else doesn't know its turns. Each judged turn that it
lacks counts 0, as in ``trec_eval -c``.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import DataError, counted, list_first
from .evaluator import Judged, check_turn_names

if TYPE_CHECKING:
    from ..conversations.datasets import Turns

TURNS_ATTRIBUTE = "turns"
"""The attribute of a frame of scores with the sentences about its turns."""
OF_ALL = re.compile(r"Mean over [\d,]+ judged turns?\.")
"""The sentence that says no more than how many turns there are."""


@dataclass(frozen=True)
class Asked:
    """The turns that a run folder was asked so far.

    Attributes:
        turns: their ids.
        whole: how many it will have been asked when it is finished; None if it is.
    """

    turns: Collection[str]
    whole: int | None = None


@dataclass(frozen=True)
class ScoredTurns:
    """The turns over which runs are scored.

    Attributes:
        ids: the turns, in the order of the judgements.
        why: a sentence on what they are.
        notes: further sentences, on folders of other turns and on unfinished ones.
        strangers: the runs that don't know their turns.
    """

    ids: tuple[str, ...]
    why: str
    notes: tuple[str, ...] = ()
    strangers: tuple[str, ...] = ()

    def sentences(self, found: Mapping[str, Collection[str]]) -> list[str]:
        """Sentences for below a table: the turns of the means, and which of them runs lack.

        Args:
            found: run -> the turns for which it has passages.

        Example:
            >>> choose_turns(["1_1", "1_2"], {"mine": None}).sentences({"mine": ["1_1"]})
            ['Mean over 2 judged turns.', 'mine lacks 1 judged turn, counted 0: 1_2.']
        """
        return [self.why, *self.notes, *lacking(found, self.ids)]


def choose_turns(
    judged: Iterable[str], asked: Mapping[str, Asked | None], *, chosen: bool = False
) -> ScoredTurns:
    """The judged turns that all runs were asked.

    Args:
        judged: the judged turns; with ``chosen`` those that the user wants to score.
        asked: run -> the turns of its folder; None for a run that doesn't know them.
        chosen: whether the user chose the turns. Then all of them are scored.

    Raises:
        DataError: when no judged turn was asked of all runs, or a folder names turns with hyphens.

    Example:
        >>> asked = {"mine": Asked({"1_1", "1_2"}), "theirs": None}
        >>> turns = choose_turns(["1_1", "1_2", "1_3"], asked)
        >>> turns.ids, turns.why
        (('1_1', '1_2'), 'Mean over 2 judged turns, those that mine was asked, of 3.')
    """
    every = tuple(dict.fromkeys(judged))
    known = {name: turns for name, turns in asked.items() if turns is not None}
    strangers = tuple(name for name in asked if name not in known)
    unfinished = []
    for name, run in known.items():
        check_turn_names(f"run {name}", run.turns, every)
        if run.whole is not None:
            of_all = counted(run.whole, "turn")
            unfinished.append(f"{name} isn't finished: it has {len(run.turns)} of {of_all}.")
    if chosen or not known:
        mean = f"Mean over {counted(len(every), 'judged turn')}."
        return ScoredTurns(every, mean, tuple(unfinished), strangers)
    common = []
    for qid in every:
        if all(qid in run.turns for run in known.values()):
            common.append(qid)
    counts = {name: len(set(every).intersection(run.turns)) for name, run in known.items()}
    if every and not common:
        raise DataError(_without_common(every, known, counts))
    mean = f"Mean over {counted(len(common), 'judged turn')}"
    if len(common) == len(every):
        return ScoredTurns(every, f"{mean}.", tuple(unfinished), strangers)
    mean += f", those that {_who(list(known), len(asked))} asked, of {len(every):,}."
    notes = unfinished
    if any(count != len(common) for count in counts.values()):
        per_run = _count_of_each(counts)
        notes = [f"The runs were asked different judged turns: {per_run}.", *unfinished]
    return ScoredTurns(tuple(common), mean, tuple(notes), strangers)


def _count_of_each(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counts.items())


def scored_judgements(
    runs: Mapping[str, Any], judged: Judged, turns: "Turns | None" = None
) -> tuple[Judged, ScoredTurns]:
    """The judgements of the turns that runs are scored on, and what these turns are.

    Args:
        runs: the runs by name.
        judged: the judgements, also of other turns.
        turns: the turns that the user chooses; by default those that all run folders were asked.

    Raises:
        UsageError: when a chosen turn isn't judged.
        DataError: when no judged turn was asked of all runs, or a folder or file can't be read.
    """
    candidates = chosen_turns(judged, turns, "the qrels")
    scored = choose_turns(candidates, asked_of(runs), chosen=turns is not None)
    return {qid: judged[qid] for qid in scored.ids}, scored


def chosen_turns(known: Iterable[str], turns: "Turns | None", where: str) -> Iterable[str]:
    """The turns that the user chooses among the known ones; all of them for None.

    Raises:
        UsageError: when a chosen turn is unknown.
        DataError: when the file of turns can't be read.
    """
    if turns is None:
        return known
    # This imports pandas, which scores of run files do without.
    from ..conversations.datasets import read_turns

    return read_turns(turns, known, where)


def _who(names: Sequence[str], runs: int) -> str:
    """The runs that were asked, with the verb."""
    if len(names) == 1:
        return f"{names[0]} was"
    if len(names) == runs:
        return "all runs were"
    return f"{list_first(names)} were"


def _without_common(
    every: Sequence[str], known: Mapping[str, Asked], counts: Mapping[str, int]
) -> str:
    """Why no turn can be scored."""
    for name, count in counts.items():
        if count > 0:
            continue
        turns = list(known[name].turns)
        if turns:
            why = f"its turns are like {turns[0]}, the wanted ones like {every[0]}"
        else:
            why = "it was asked no turn"
        return (
            f"run {name} has no turn of the qrels: {why}; "
            "take the topics that the judgements were made for"
        )
    return (
        f"no judged turn was asked of all runs (of {len(every):,}: {_count_of_each(counts)}): "
        "evaluate them separately, or choose the turns"
    )


def lacking(found: Mapping[str, Collection[str]], turns: Iterable[str]) -> list[str]:
    """Sentences on the runs without passages for some of these turns.

    There is one for each run, or one for all runs if they lack the same turns.

    Example:
        >>> lacking({"a": ["1_1"], "b": ["1_1"]}, ["1_1", "1_2"])
        ['each run lacks 1 judged turn, counted 0: 1_2.']
    """
    wanted = list(turns)
    names_by_sentence: dict[str, list[str]] = {}
    for name, those in found.items():
        lost = sorted(set(wanted) - set(those))
        if lost:
            sentence = f"lacks {counted(len(lost), 'judged turn')}, counted 0: {list_first(lost)}."
            names_by_sentence.setdefault(sentence, []).append(name)
    sentences = []
    for sentence, names in names_by_sentence.items():
        if len(names) == len(found) > 1:
            names = ["each run"]
        for name in names:
            sentences.append(f"{name} {sentence}")
    return sentences


def asked_of(runs: Mapping[str, Any]) -> dict[str, Asked | None]:
    """Run -> the turns that its folder was asked, or None for a frame, a file or a submission.

    Raises:
        DataError: when a folder is not a run, or can't be read.
    """
    asked: dict[str, Asked | None] = {}
    for name, run in runs.items():
        asked[name] = None
        folder = run
        if isinstance(run, str | Path) and Path(run).is_dir():
            from ..runs import RunFolder  # imports pandas, which scores of run files do without

            folder = RunFolder(run)
        if hasattr(folder, "turns_so_far"):
            whole = int(folder.parameters()["turns"]) if folder.begun else None
            asked[name] = Asked(frozenset(folder.turns_so_far()), whole)
    return asked
