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
from .formats import RUN_TYPES, RankedPassage, Run, Statement, Topics, as_passages, load_run
from .problem import ERROR, WARNING, Place, Problem, printable, short_json

PASSAGES = 1000
WORDS = 250

_PASSAGE_ID = re.compile(r"clueweb22-en\d{4}-\d{2}-\d{5}:\d+")


def validate(path: str | Path, dataset: IkatDataset) -> list[Problem]:
    """Check a submission, of this package or any other system, against a dataset's topics, and return all problems at once.

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
    topics, place = Topics.of(dataset), Place()
    _, run = load_run(path, topics.year, place)
    if run is not None:
        _check_run(run, topics, place)
    return list(dict.fromkeys(place.found))


def _check_run(run: Run, topics: Topics, place: Place) -> None:
    header = place.at("metadata") if topics.year == 2025 else place
    for field, name in (
        ("run_id" if topics.year == 2025 else "run_name", run.run_id),
        ("team_id", run.team),
    ):
        if name is not None and name.split() != [
            name
        ]:  # the name becomes a column of a TREC run file
            header.at(field).error(f"it is {short_json(name)}: give a name without white space")
    allowed = RUN_TYPES[topics.year]
    if run.run_type is not None and run.run_type not in allowed:
        header.at("run_type").error(
            f"it is {short_json(run.run_type)}: it has to be {' or '.join(allowed)}"
        )
    check_turn_ids(run, topics, place)
    may_be_silent = run.run_type == "only_response" or not run.evaluated
    for turn in run.turns:
        _check_turn(
            place.of_turn(turn.turn_id),
            turn,
            topics.year,
            topics.statements.get(turn.turn_id),
            may_be_silent,
        )
    there = run.unread | {turn.turn_id for turn in run.turns}
    for qid in [qid for qid in topics.statements if qid not in there]:
        place.of_turn(qid).error("the turn is missing: add it with a response")


def check_turn_ids(run: Run, topics: Topics | None, place: Place) -> None:
    """Check that no turn occurs twice or is missing from the topics, if given."""
    for qid, count in Counter(turn.turn_id for turn in run.turns).items():
        here = place.of_turn(qid).at("turn_id")
        if topics is not None and qid not in topics.statements:
            here.error(
                f"{topics.name} has no such turn, its turns are like {next(iter(topics.statements))}: remove it"
            )
        if count > 1:
            here.error("the turn occurs more than once: keep one of them")


def _check_turn(
    place: Place, turn: Any, year: int, known: Mapping[str, str] | None, may_be_silent: bool
) -> None:
    inside = place.at("responses")
    if not turn.responses:
        inside.error("there is no response: add one with rank 1")
    before = 0
    for number, response in enumerate(turn.responses):
        here = inside.at(number)
        if response.rank <= before:
            wanted = (
                "at least 1"
                if response.rank < 1
                else f"more than the {before} of the response before"
            )
            here.at("rank").error(f"it is {response.rank}: it has to be {wanted}")
        before = max(before, response.rank)
        if not response.text.strip():
            here.at("text").note(
                WARNING if may_be_silent else ERROR, "the response is empty: write one"
            )
        if year == 2025:
            _check_citations(here.at("citations"), response, turn)
        else:
            check_length(here.at("text"), [response.text])
            _check_provenance(here, response)
        check_statements(here.at("ptkb_provenance"), response.statements, known)
    if year == 2025:
        together = " in all responses of a turn together (the organisers' checker deletes a single response that is longer)"
        check_length(inside, [response.text for response in turn.responses], together)
        if not turn.references:
            place.at("references").warning(
                "there is no passage: without any, the turn counts 0 in the evaluation of passages"
            )
        check_passages(
            place.at("references"), as_passages(turn.references), six_decimals, ordered=False
        )


def _check_provenance(place: Place, response: Any) -> None:
    """Check the passages of a response of 2023 or 2024, at least one of which has to be marked as used."""
    inside, passages = place.at("passage_provenance"), response.passages
    if not passages:
        inside.warning(
            "there is no passage: without any, the turn counts 0 in the evaluation of passages"
        )
    elif not any(passage.used for passage in passages):
        inside.error(
            'no passage is marked as used: set "used": true for those that the response rests on'
        )
    if unmarked := sum(passage.used is None for passage in passages):
        inside.warning(
            f"{counted(unmarked, 'passage lacks', 'passages lack')} the field used, read as false: add it"
        )
    check_passages(inside, passages, lambda score: float(np.float32(score)), ordered=True)
    if not response.statements:
        checkers = "the organisers' checkers warn of each such turn; that of 2023 stops after 2000 warnings, unless started with -m"
        place.at("ptkb_provenance").warning(
            f"no statement is named: name some, if any matters ({checkers})"
        )


def _check_citations(place: Place, response: Any, turn: Any) -> None:
    """Check that a response of 2025 cites passages of its turn."""
    if turn.references and not response.citations:
        place.warning("no passage is cited: cite those that the response rests on")
    for docno in [docno for docno in response.citations if docno not in turn.references]:
        place.error(
            f"{short_json(docno)} is not in the turn's references: add it there, or don't cite it"
        )


def six_decimals(score: float) -> float:
    """A score as the organisers' converter of 2025 prints it."""
    return float(f"{score:.6f}")


def check_passages(
    place: Place,
    passages: Sequence[RankedPassage],
    as_read: Callable[[float], float],
    ordered: bool,
) -> None:
    """Check that there are at most 1000 passages, each once, with scores that don't rise. Ties are a warning.

    Args:
        place: where the ranking is.
        passages: the ranking in the order of the file.
        as_read: returns a score with the precision of the organisers' tools. Two scores that become
            equal are a warning.
        ordered: whether the file must be in the order of the scores (arrays), or only should be
            (objects).
    """
    if len(passages) > PASSAGES:
        place.error(
            f"there are {len(passages)} passages, {PASSAGES} are allowed: cut the ranking{advice(f' (% {PASSAGES})', '')}"
        )
    for docno, count in Counter(passage.id for passage in passages).items():
        if count > 1:
            place.error(f"passage {printable(docno)} occurs {count} times: keep the best one")
    if broken := [one.id for one in passages if one.id.split() != [one.id]]:
        place.error(
            f"{short_json(broken[0])} is not a passage id{_others(broken)}: an id has no white space"
        )
    if foreign := [
        one.id for one in passages if not _PASSAGE_ID.fullmatch(one.id) and one.id not in broken
    ]:
        rule = "ids look like clueweb22-en0035-25-01897:1"
        place.warning(
            f"{short_json(foreign[0])} is not an id of the collection{_others(foreign)}: {rule}"
        )
    _check_falling(place, [(passage.id, passage.score) for passage in passages], ordered)
    _warn_of_ties(place, [passage.score for passage in passages], as_read)


def _others(wrong: Sequence[str]) -> str:
    return f" (nor {counted(len(wrong) - 1, 'other')})" if len(wrong) > 1 else ""


def _check_falling(place: Place, scored: Sequence[tuple[str, float]], ordered: bool) -> None:
    """Check that scores don't rise. Only the first place where they rise is named."""
    rising = next(
        (
            (before, name, score)
            for (_, before), (name, score) in pairwise(scored)
            if score > before
        ),
        None,
    )
    if rising is not None and not ordered:
        place.warning("the entries are not in the order of their scores: write the best first")
    elif rising is not None:
        before, name, score = rising
        what = f"the score {short_json(score)} of {printable(name)} is above the {short_json(before)} of the entry before"
        place.error(f"{what}: write scores that strictly decrease")


def _warn_of_ties(place: Place, scores: Sequence[float], as_read: Callable[[float], float]) -> None:
    """Warn of equal scores, and of different scores that the organisers' tools read as equal. Both are accepted there.

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
            f"tied scores ({equal}): trec_eval orders such entries by id: write scores that strictly decrease"
        )
    if close:
        so = f"{counted(close, 'score is', 'scores are')} so close to the one above"
        place.warning(f"{so} that the organisers' tools read a tie: write scores further apart")


def check_statements(
    place: Place, statements: Sequence[Statement], known: Mapping[str, str] | None
) -> None:
    """Check that each statement is the user's, named as in the topics, and named once. One given only by its words may be new."""
    if known is not None:
        for number, one in enumerate(statements):
            _check_statement(place.at(number), one, known)
    for name, count in Counter(
        one.text if one.id is None else one.id for one in statements
    ).items():
        if name is not None and count > 1:
            place.error(f"statement {printable(name)} occurs {count} times: name it once")
    scored = [
        (one.id, one.score) for one in statements if one.id is not None and one.score is not None
    ]
    _check_falling(place, scored, ordered=True)
    _warn_of_ties(place, [score for _, score in scored], float)


def _check_statement(place: Place, one: Statement, known: Mapping[str, str]) -> None:
    if one.id is not None and one.id not in known:
        place.error(
            f"the user has no statement {short_json(one.id)}: name one of {', '.join(known) or 'none, omit it'}"
        )
    elif one.id is not None and one.text not in (None, known[one.id]):
        place.at("text").error(
            f"the text of statement {one.id} differs from the topics': write {known[one.id]!r}"
        )
    elif one.id is None and one.text is not None and one.text not in known.values():
        meant = find_statement_id(one.text, known) or (one.text if one.text in known else None)
        new = "the topic has no such statement: new ones, from the user's earlier conversations, are allowed; copy the words of known ones"
        place.warning(
            new
            if meant is None
            else f"it differs from a statement in the topics: write {known[meant]!r}"
        )


def find_statement_id(text: str, known: Mapping[str, str]) -> str | None:
    """The id of the statement with these words, ignoring white space and capitals; None for a new one."""
    return next(
        (
            name
            for name, words in known.items()
            if words.casefold().split() == text.casefold().split()
        ),
        None,
    )


def check_length(place: Place, texts: Sequence[str], consequence: str = "") -> None:
    """Check that all ``texts`` together have at most 250 words, counted like the checker of 2025."""
    length = sum(map(count_words, texts))
    if length > WORDS:
        place.error(
            f"{counted(length, 'word')}, {WORDS} are allowed{consequence}: shorten at the end of a sentence"
        )
