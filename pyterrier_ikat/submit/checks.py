"""Checks of submissions: those of the organisers' checkers, and further ones."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

import numpy as np

from ..completions.citations import count_words
from ..conversations.datasets import IkatDataset
from ..errors import advice, counted
from .formats import RUN_TYPES, Passage, Response, Run, Statement, SubmittedTurn, Topics, load_run
from .problem import ERROR, WARNING, Place, Problem, printable, short_json

PASSAGES = 1000
WORDS = 250
LARGEST_RANK = 2**31 - 1
"""A rank is a 32-bit number in the format of 2023 and 2024. The organisers' reader stops at a larger one."""
HIGHEST_SCORE = 1e9
"""The organisers' checkers of 2023 and 2024 use this as the score before the first one."""

_PASSAGE_ID = re.compile(r"clueweb22-en\d{4}-\d{2}-\d{5}:\d+")
_TOKEN = re.compile(r"\w+(?=n['’]t\b)|n['’]t\b|['’]\w+|\w+|[^\w\s]")


def validate(path: str | Path, dataset: IkatDataset) -> list[Problem]:
    """Check a submission, of this package or any other system, against a dataset's topics, and return all problems at once.

    The checks are: every turn of the topics once and no other turn; the year's fields with their types and without repeated keys; run type
    and names; non-empty responses, ranked from 1, of at most 250 words (split at white space after NFKC; in 2025 over all responses of a
    turn); at most 1000 passages, each once, with finite scores that don't rise (ties are a warning), and at least one marked
    as used; citations that are in the references; PTKB statements of the user, in the words of the topics. The format of a passage id is
    checked, but not whether the passage is in the collection.

    Args:
        path: the file, in the format of the dataset's year.
        dataset: a dataset such as ``pt.get_dataset("ikat:2025")``. The sample and the mini collection are submitted like 2023.

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
    for field, name in (("run_id" if topics.year == 2025 else "run_name", run.run_id), ("team_id", run.team)):
        if name is not None and (len(name.split()) != 1 or name != name.strip()):  # the name becomes a column of a TREC run file
            header.at(field).error(f"it is {short_json(name)}: give a name without white space")
    allowed = RUN_TYPES[topics.year]
    if run.run_type is not None and run.run_type not in allowed:
        header.at("run_type").error(f"it is {short_json(run.run_type)}: it has to be {' or '.join(allowed)}")
    if topics.year == 2025 and run.run_type == "manual":
        message = "the track of 2025 names automatic and generation-only; its checker takes manual, too: ask the organisers"
        header.at("run_type").warning(message)
    qids = check_turn_ids(run, topics, place)
    may_be_silent = run.run_type == "only_response" or not run.evaluated
    for turn, qid in zip(run.turns, qids, strict=True):
        _check_turn(place.of_turn(turn.id), turn, topics.year, topics.statements.get(qid), may_be_silent)
    there = set(qids)
    for qid in topics.statements:
        if qid not in there:
            place.of_turn(qid).error("the turn is missing: add it with a response")


def repair_turn_id(qid: str, known: Collection[str]) -> str | None:
    """The turn that a qid with a hyphen before the turn number means: ``9-1_3`` for ``9-1-3``; None if there is none."""
    found = re.fullmatch(r"(.+)-(\d+)", qid)
    meant = f"{found[1]}_{found[2]}" if found else ""
    return meant if meant in known else None


def check_turn_ids(run: Run, topics: Topics | None, place: Place) -> list[str]:
    """Check that no turn occurs twice or is missing from the topics, if given. Returns the turn that each qid means."""
    meant: list[str] = []
    seen: Counter[str] = Counter()
    for turn in run.turns:
        here, qid = place.of_turn(turn.id).at("turn_id"), turn.id
        if topics is not None and qid not in topics.statements:
            qid = repair_turn_id(turn.id, topics.statements) or turn.id
            repair = "remove it" if qid == turn.id else f"write {qid}, with an underscore before the turn number"
            here.error(f"{topics.name} has no such turn: {repair}")
        seen[qid] += 1
        if seen[qid] == 2:
            here.error("the turn occurs more than once: keep one of them")
        meant.append(qid)
    return meant


def _check_turn(place: Place, turn: SubmittedTurn, year: int, known: Mapping[str, str] | None, may_be_silent: bool) -> None:
    inside, responses = place.at("responses"), turn.responses
    if responses is not None:
        _check_responses(inside, responses, may_be_silent)
    if year == 2025:
        texts = [response.text for response in responses or () if response.text is not None]
        check_length(
            inside, texts, " in all responses of a turn together (the organisers' checker deletes a single response that is longer)"
        )
        _check_references(place.at("references"), turn)
    for number, response in enumerate(responses or ()):
        here = inside.at(number)
        if year == 2025:
            _check_citations(here.at("citations"), response, turn)
        else:
            _check_response(here, response)
        if response.statements is not None:
            check_statements(here.at("ptkb_provenance"), response.statements, known)


def _check_responses(place: Place, responses: Sequence[Response], may_be_silent: bool) -> None:
    """Check that there is a response, that ranks rise from 1, and that each response has a text."""
    if not responses:
        place.error("there is no response: add one with rank 1")
    previous = 0
    for number, response in enumerate(responses):
        here = place.at(number)
        if response.rank is not None:
            if response.rank > LARGEST_RANK:
                here.at("rank").error(
                    f"it is {short_json(response.rank)}: it has to be at most {LARGEST_RANK}, number the responses 1, 2, ..."
                )
            elif response.rank <= previous:
                wanted = "at least 1" if response.rank < 1 else f"more than the {previous} of the response before"
                here.at("rank").error(f"it is {short_json(response.rank)}: it has to be {wanted}")
            previous = max(previous, min(response.rank, LARGEST_RANK))
        if response.text is not None and not response.text.strip():
            here.at("text").note(WARNING if may_be_silent else ERROR, "the response is empty: write one")


def _check_response(place: Place, response: Response) -> None:
    """Check the text and the provenance of a response of 2023 or 2024."""
    if response.text is not None:
        check_length(place.at("text"), [response.text])
        check_tokens(place.at("text"), response.text)
    if response.passages is not None:
        inside = place.at("passage_provenance")
        if response.whole:
            _check_used(inside, response.passages)
        check_passages(inside, response.passages, lambda score: float(np.float32(score)), ordered=True)
    if response.statements == []:
        place.at("ptkb_provenance").warning(
            "no statement is named: name some, if any matters (the organisers' checkers warn of each such turn; "
            "that of 2023 stops after 2000 warnings, unless started with -m)"
        )


def _check_used(place: Place, passages: Sequence[Passage]) -> None:
    """Check that at least one passage is marked as used for the response."""
    if not passages:
        place.warning("there is no passage: without any, the turn counts 0 in the evaluation of passages")
        return
    unmarked = sum(passage.used is None for passage in passages)
    if unmarked:
        place.warning(f"{counted(unmarked, 'passage lacks', 'passages lack')} the field used, read as false: add it")
    if not any(passage.used for passage in passages):
        message = 'no passage is marked as used: set "used": true for those that the response rests on'
        place.error(f"{message} (the organisers' checkers only warn of it)")


def _check_references(place: Place, turn: SubmittedTurn) -> None:
    """Check the ranking of a turn of 2025."""
    if turn.references is not None:
        if not turn.references and turn.whole:
            place.warning("there is no passage: without any, the turn counts 0 in the evaluation of passages")
        check_passages(place, turn.references, six_decimals, ordered=False)


def _check_citations(place: Place, response: Response, turn: SubmittedTurn) -> None:
    """Check that a response of 2025 cites passages of its turn."""
    if response.passages is None or turn.references is None or not turn.whole:
        return
    if turn.references and not response.passages and response.whole:
        place.warning("no passage is cited: cite those that the response rests on")
    ranked = {passage.id for passage in turn.references}
    for docno in (passage.id for passage in response.passages if passage.id not in ranked):
        place.error(f"{short_json(docno)} is not in the turn's references: add it there, or don't cite it")


def six_decimals(score: float) -> float:
    """A score as the organisers' converter of 2025 prints it."""
    return float(f"{score:.6f}")


def check_passages(place: Place, passages: Sequence[Passage], as_read: Callable[[float], float], ordered: bool) -> None:
    """Check that there are at most 1000 passages, each once, with scores that don't rise. Ties are a warning.

    Args:
        place: where the ranking is.
        passages: the ranking in the order of the file.
        as_read: returns a score with the precision of the organisers' tools. Two scores that become equal are a warning.
        ordered: whether the file must be in the order of the scores (arrays), or only should be (objects).
    """
    if len(passages) > PASSAGES:
        place.error(f"there are {len(passages)} passages, {PASSAGES} are allowed: cut the ranking{advice(f' (% {PASSAGES})', '')}")
    for docno, count in Counter(passage.id for passage in passages).items():
        if count > 1:
            place.error(f"passage {printable(docno)} occurs {count} times: keep the best one")
    broken = [one.id for one in passages if len(one.id.split()) != 1 or one.id != one.id.strip()]
    foreign = [one.id for one in passages if not _PASSAGE_ID.fullmatch(one.id) and one.id not in broken]
    for wrong, severity, what, rule in (
        (broken, ERROR, "a passage id", "an id has no white space"),
        (foreign, WARNING, "an id of the collection", "ids look like clueweb22-en0035-25-01897:1"),
    ):
        if wrong:
            others = f" (nor {counted(len(wrong) - 1, 'other')})" if len(wrong) > 1 else ""
            place.note(severity, f"{short_json(wrong[0])} is not {what}{others}: {rule}")
    _check_falling(place, [(passage.id, passage.score) for passage in passages], ordered)
    _warn_of_ties(place, [passage.score for passage in passages], as_read)


def _check_falling(place: Place, scored: Sequence[tuple[str, float]], ordered: bool) -> None:
    """Check that scores don't rise. Only the first place where they rise is named."""
    if ordered and scored and scored[0][1] > HIGHEST_SCORE:
        place.warning(f"the first score is above {HIGHEST_SCORE:g}, at which the organisers' checker warns: write smaller scores")
    if not ordered:
        best_first = sorted(scored, key=lambda entry: -entry[1])
        if [score for _, score in best_first] != [score for _, score in scored]:
            place.warning("the entries are not in the order of their scores: write the best first")
        scored = best_first
    for (_, before), (name, score) in zip(scored, scored[1:], strict=False):
        if score > before:
            wrong = f"is above the {short_json(before)} of the entry before"
            place.error(f"the score {short_json(score)} of {printable(name)} {wrong}: write scores that strictly decrease")
            return


def _warn_of_ties(place: Place, scores: Sequence[float], as_read: Callable[[float], float]) -> None:
    """Warn of equal scores, and of different scores that the organisers' tools read as equal. Both are accepted there.

    Args:
        place: where the scores are.
        scores: the scores of the file.
        as_read: returns a score with the precision of the organisers' tools.
    """
    different = sorted(set(scores))
    equal = len(scores) - len(different)
    close = sum(as_read(first) == as_read(second) for first, second in zip(different, different[1:], strict=False))
    if equal:
        place.warning(f"tied scores ({equal}): trec_eval orders such entries by id: write scores that strictly decrease")
    if close:
        place.warning(
            f"{counted(close, 'score is', 'scores are')} so close to the one above that the organisers' tools "
            f"read a tie: write scores further apart"
        )


def check_statements(place: Place, statements: Sequence[Statement], known: Mapping[str, str] | None) -> None:
    """Check that each statement is the user's, named as in the topics, and named once. One given only by its words may be new."""
    if known is not None:
        for number, one in enumerate(statements):
            _check_statement(place.at(number), one, known)
    for name, count in Counter(one.text if one.id is None else one.id for one in statements).items():
        if name is not None and count > 1:
            place.error(f"statement {printable(name)} occurs {count} times: name it once")
    scored = [(one.id, one.score) for one in statements if one.id is not None and one.score is not None]
    _check_falling(place, scored, ordered=True)
    _warn_of_ties(place, [score for _, score in scored], float)


def _check_statement(place: Place, one: Statement, known: Mapping[str, str]) -> None:
    if one.id is not None and one.id not in known:
        place.error(f"the user has no statement {short_json(one.id)}: name one of {', '.join(known) or 'none, omit it'}")
    elif one.id is not None and one.text not in (None, known[one.id]):
        place.at("text").error(f"the text of statement {one.id} differs from the topics': write {known[one.id]!r}")
    elif one.id is None and one.text is not None and one.text not in known.values():
        meant = find_statement_id(one.text, known) or (one.text if one.text in known else None)
        new = "the topic has no such statement: new ones, from the user's earlier conversations, are allowed; copy the words of known ones"
        place.warning(new if meant is None else f"it differs from a statement in the topics: write {known[meant]!r}")


def find_statement_id(text: str, known: Mapping[str, str]) -> str | None:
    """The id of the statement with these words, ignoring white space and capitals; None for a new one."""
    exact = (name for name, words in known.items() if words == text)
    same = (name for name, words in known.items() if words.casefold().split() == text.casefold().split())
    return next(exact, None) or next(same, None)


def check_length(place: Place, texts: Sequence[str], consequence: str = "") -> None:
    """Check that all ``texts`` together have at most 250 words, counted like the checker of 2025."""
    length = sum(map(count_words, texts))
    if length > WORDS:
        place.error(f"{counted(length, 'word')}, {WORDS} are allowed{consequence}: shorten at the end of a sentence")


def check_tokens(place: Place, text: str) -> None:
    """Warn of a text within 250 words that has more than 250 tokens, the unit of 2023 and 2024."""
    tokens = count_tokens(text)
    if tokens > WORDS >= count_words(text):
        place.warning(
            f"about {tokens} tokens, as spaCy counts them (words and punctuation marks); {WORDS} were allowed: shorten it if that counts"
        )


def count_tokens(text: str) -> int:
    """The approximate number of tokens of spaCy's English tokenizer: words, parts of contractions, and punctuation marks.

    On the gold responses of 2023, 2024 and 2025 it is within 1 % of spaCy's number, and above 250 for the same responses.

    Example:
        >>> count_tokens("I don't know, it's late.")
        9
    """
    return len(_TOKEN.findall(text))
