"""Checks of submissions: those of the organisers' checkers, and further ones."""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from ..completions.citations import count_words
from ..conversations.datasets import IkatDataset
from ..errors import advice, counted
from .formats import (
    RUN_TYPES,
    PtkbStatement,
    RankedPassage,
    SubmittedRun,
    Topics,
    as_passages,
    load_run,
)
from .problem import ERROR, WARNING, Place, Problem, printable, short_json

MOST_PASSAGES = 1000
MOST_WORDS = 250
NO_PASSAGE = "there is no passage: without any, the turn counts 0 in the evaluation of passages"

_PASSAGE_ID = re.compile(r"clueweb22-en\d{4}-\d{2}-\d{5}:\d+")


def validate(path: str | Path, dataset: IkatDataset) -> list[Problem]:
    """Check a submission, of any system, against a dataset's topics, and return all problems.

    The checks are: every turn of the topics once and no other turn; the year's fields with their
    types; run type and names; non-empty responses, ranked from 1, of at most 250 words (split at
    white space after NFKC; in 2025 over all responses of a turn); at most 1000 passages, each once,
    with finite scores that don't rise (ties are a warning), and at least one marked as used;
    citations that are in the references; PTKB statements of the user, in the words of the topics.
    The format of a passage id is checked, but not whether the passage is in the collection.

    Args:
        path: the file, in the format of the dataset's year.
        dataset: a dataset such as ``pt.get_dataset("ikat:2025")``. The sample and the mini
            collection are submitted like 2023.

    Returns:
        The errors and warnings; an empty list if there are none.

    Raises:
        DataError: when there is no such file.

    Example:
        >>> import pathlib, tempfile
        >>> import pyterrier_ikat as ikat
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "run.json"
        >>> _ = path.write_text('{"run_name": "mine", "run_type": "lucky", "turns": []}')
        >>> print(validate(path, ikat.dataset("ikat:sample"))[0])
        error: run_type: it is "lucky": it has to be automatic or manual
    """
    topics = Topics.of(dataset)
    place = Place()
    _, run = load_run(path, topics.year, place)
    if run is not None:
        _check_run(run, topics, place)
    return list(dict.fromkeys(place.problems))


def _check_run(run: SubmittedRun, topics: Topics, place: Place) -> None:
    _check_names(run, topics.year, place)
    check_turn_ids(run, topics, place)
    may_be_silent = run.run_type == "only_response" or not run.evaluated
    for turn in run.turns:
        here = place.of_turn(turn.turn_id)
        persona = topics.statements.get(turn.turn_id)
        _check_responses(here.at("responses"), turn, topics.year, persona, may_be_silent)
        if topics.year == 2025:
            _check_references(here.at("references"), turn.references)
    submitted = run.unread | {turn.turn_id for turn in run.turns}
    for qid in topics.statements:
        if qid not in submitted:
            place.of_turn(qid).error("the turn is missing: add it with a response")


def _check_names(run: SubmittedRun, year: int, place: Place) -> None:
    """Check the names of run and team, and the run type."""
    header = place.at("metadata") if year == 2025 else place
    names = {"run_id" if year == 2025 else "run_name": run.run_id, "team_id": run.team}
    for field, name in names.items():
        # The name becomes a column of a TREC run file.
        if name is not None and name.split() != [name]:
            header.at(field).error(f"it is {short_json(name)}: give a name without white space")
    allowed = RUN_TYPES[year]
    if run.run_type is not None and run.run_type not in allowed:
        header.at("run_type").error(
            f"it is {short_json(run.run_type)}: it has to be {' or '.join(allowed)}"
        )


def check_turn_ids(run: SubmittedRun, topics: Topics | None, place: Place) -> None:
    """Check that no turn occurs twice or is missing from the topics, if given."""
    for qid, count in Counter(turn.turn_id for turn in run.turns).items():
        here = place.of_turn(qid).at("turn_id")
        if topics is not None and qid not in topics.statements:
            example = next(iter(topics.statements))
            here.error(f"{topics.name} has no such turn, its turns are like {example}: remove it")
        if count > 1:
            here.error("the turn occurs more than once: keep one of them")


def _check_responses(
    place: Place, turn: Any, year: int, persona: Mapping[str, str] | None, may_be_silent: bool
) -> None:
    """Check the responses of a turn.

    Args:
        place: where they are.
        turn: the turn.
        year: the year of the format.
        persona: the user's statements by id; None for a turn that the topics lack.
        may_be_silent: whether an empty response is only a warning.
    """
    if not turn.responses:
        place.error("there is no response: add one with rank 1")
    before = 0
    for number, response in enumerate(turn.responses):
        here = place.at(number)
        if response.rank <= before:
            wanted = f"more than the {before} of the response before"
            if response.rank < 1:
                wanted = "at least 1"
            here.at("rank").error(f"it is {response.rank}: it has to be {wanted}")
        before = max(before, response.rank)
        if not response.text.strip():
            severity = WARNING if may_be_silent else ERROR
            here.at("text").note(severity, "the response is empty: write one")
        if year == 2025:
            _check_citations(here.at("citations"), response.citations, turn.references)
        else:
            check_length(here.at("text"), [response.text])
            _check_provenance(here, response)
        check_statements(here.at("ptkb_provenance"), response.statements, persona)
    if year == 2025:
        together = (
            " in all responses of a turn together (the organisers' checker deletes a single "
            "response that is longer)"
        )
        check_length(place, [response.text for response in turn.responses], together)


def _check_references(place: Place, references: Mapping[str, float]) -> None:
    """Check the ranking of a turn of 2025."""
    if not references:
        place.warning(NO_PASSAGE)
    check_passages(place, as_passages(references), six_decimals, ordered=False)


def _check_provenance(place: Place, response: Any) -> None:
    """Check the passages and statements of a response of 2023 or 2024."""
    passages = response.passages
    inside = place.at("passage_provenance")
    if not passages:
        inside.warning(NO_PASSAGE)
    elif not any(passage.used for passage in passages):
        inside.error(
            'no passage is marked as used: set "used": true for those that the response rests on'
        )
    unmarked = sum(passage.used is None for passage in passages)
    if unmarked:
        lacking = counted(unmarked, "passage lacks", "passages lack")
        inside.warning(f"{lacking} the field used, read as false: add it")
    check_passages(inside, passages, _as_32_bits, ordered=True)
    if not response.statements:
        place.at("ptkb_provenance").warning(
            "no statement is named: name some, if any matters (the organisers' checkers warn of "
            "each such turn; that of 2023 stops after 2000 warnings, unless started with -m)"
        )


def _check_citations(
    place: Place, citations: Mapping[str, float], references: Mapping[str, float]
) -> None:
    """Check that a response of 2025 cites passages of its turn."""
    if references and not citations:
        place.warning("no passage is cited: cite those that the response rests on")
    for docno in citations:
        if docno not in references:
            place.error(
                f"{short_json(docno)} is not in the turn's references: add it there, or don't cite "
                "it"
            )


def _as_32_bits(score: float) -> float:
    """A score as trec_eval reads it."""
    return float(np.float32(score))


def six_decimals(score: float) -> float:
    """A score as the organisers' converter of 2025 prints it."""
    return float(f"{score:.6f}")


def check_passages(
    place: Place,
    passages: Sequence[RankedPassage],
    as_read: Callable[[float], float],
    ordered: bool,
) -> None:
    """Check that there are at most 1000 passages, each once, with scores that don't rise.

    Args:
        place: where the ranking is.
        passages: the ranking in the order of the file.
        as_read: returns a score with the precision of the organisers' tools. Two scores that become
            equal are a warning.
        ordered: whether the file must be in the order of the scores (arrays), or only should be
            (objects).
    """
    if len(passages) > MOST_PASSAGES:
        how = advice(f" (% {MOST_PASSAGES})", "")
        place.error(
            f"there are {len(passages)} passages, {MOST_PASSAGES} are allowed: cut the ranking{how}"
        )
    for docno, count in Counter(passage.id for passage in passages).items():
        if count > 1:
            place.error(f"passage {printable(docno)} occurs {count} times: keep the best one")
    broken = []
    foreign = []
    for passage in passages:
        if passage.id.split() != [passage.id]:
            broken.append(passage.id)
        elif not _PASSAGE_ID.fullmatch(passage.id):
            foreign.append(passage.id)
    if broken:
        place.error(
            f"{short_json(broken[0])} is not a passage id{_others(broken)}: an id has no white "
            "space"
        )
    if foreign:
        place.warning(
            f"{short_json(foreign[0])} is not an id of the collection{_others(foreign)}: ids look "
            "like clueweb22-en0035-25-01897:1"
        )
    _check_falling(place, [(passage.id, passage.score) for passage in passages], ordered)
    _warn_of_ties(place, [passage.score for passage in passages], as_read)


def _others(wrong: Sequence[str]) -> str:
    """How many ids are wrong besides the first, in words."""
    return f" (nor {counted(len(wrong) - 1, 'other')})" if len(wrong) > 1 else ""


def _check_falling(place: Place, scored: Sequence[tuple[str, float]], ordered: bool) -> None:
    """Check that scores don't rise. Only the first entry above the one before it is named."""
    for (_, before), (name, score) in pairwise(scored):
        if score <= before:
            continue
        if ordered:
            place.error(
                f"the score {short_json(score)} of {printable(name)} is above the "
                f"{short_json(before)} of the entry before: write scores that strictly decrease"
            )
        else:
            place.warning("the entries are not in the order of their scores: write the best first")
        return


def _warn_of_ties(place: Place, scores: Sequence[float], as_read: Callable[[float], float]) -> None:
    """Warn of scores that are equal, or that the organisers' tools read as equal.

    Both are accepted there.

    Args:
        place: where the scores are.
        scores: the scores of the file.
        as_read: returns a score with the precision of the organisers' tools.
    """
    different = sorted(set(scores))
    equal = len(scores) - len(different)
    close = sum(as_read(first) == as_read(second) for first, second in pairwise(different))
    if equal:
        place.warning(
            f"tied scores ({equal}): trec_eval orders such entries by id: write scores that "
            "strictly decrease"
        )
    if close:
        place.warning(
            f"{counted(close, 'score is', 'scores are')} so close to the one above that the "
            "organisers' tools read a tie: write scores further apart"
        )


def check_statements(
    place: Place, statements: Sequence[PtkbStatement], persona: Mapping[str, str] | None
) -> None:
    """Check that each statement is the user's, named as in the topics, and named once.

    A statement that is given only by its words may be new.
    """
    names = []
    scored = []
    for number, statement in enumerate(statements):
        if persona is not None:
            _check_statement(place.at(number), statement, persona)
        names.append(statement.text if statement.id is None else statement.id)
        if statement.id is not None and statement.score is not None:
            scored.append((statement.id, statement.score))
    for name, count in Counter(names).items():
        if name is not None and count > 1:
            place.error(f"statement {printable(name)} occurs {count} times: name it once")
    _check_falling(place, scored, ordered=True)
    _warn_of_ties(place, [score for _, score in scored], float)


def _check_statement(place: Place, statement: PtkbStatement, persona: Mapping[str, str]) -> None:
    name = statement.id
    text = statement.text
    if name is not None and name not in persona:
        names = ", ".join(persona) or "none, omit it"
        place.error(f"the user has no statement {short_json(name)}: name one of {names}")
    elif name is not None and text not in (None, persona[name]):
        place.at("text").error(
            f"the text of statement {name} differs from the topics': write {persona[name]!r}"
        )
    elif name is None and text is not None and text not in persona.values():
        meant = find_statement_id(text, persona)
        if meant is None and text in persona:
            meant = text
        if meant is None:
            place.warning(
                "the topic has no such statement: new ones, from the user's earlier conversations, "
                "are allowed; copy the words of known ones"
            )
        else:
            place.warning(f"it differs from a statement in the topics: write {persona[meant]!r}")


def find_statement_id(text: str, persona: Mapping[str, str]) -> str | None:
    """The id of the statement with these words; None for a new one.

    White space and capitals don't matter.
    """
    words = text.casefold().split()
    for name, statement in persona.items():
        if statement.casefold().split() == words:
            return name
    return None


def check_length(place: Place, texts: Sequence[str], consequence: str = "") -> None:
    """Check that the texts together have at most 250 words, as the checker of 2025 counts them."""
    length = sum(count_words(text) for text in texts)
    if length > MOST_WORDS:
        place.error(
            f"{counted(length, 'word')}, {MOST_WORDS} are allowed{consequence}: shorten at the end "
            "of a sentence"
        )
