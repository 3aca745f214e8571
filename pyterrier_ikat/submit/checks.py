"""What the organisers' checkers look at, and what they miss."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence

from ..errors import advice
from ..generate.respond import count_words
from .model import Passage, Response, Run, Statement, SubmittedTurn, Topics
from .problem import Place, one_of, printable, shown

PASSAGES = 1000
LARGEST_RANK = 2**31 - 1
"""A rank is a 32-bit number in the format of 2023 and 2024; the organisers' reader stops at a larger one."""
HIGHEST_SCORE = 1e9
"""The organisers' checkers of 2023 and 2024 take this as the score before the first."""

_PASSAGE_ID = re.compile(r"clueweb22-en\d{4}-\d{2}-\d{5}:\d+")

TurnCheck = Callable[[Place, SubmittedTurn, Mapping[str, str] | None], None]


def check_name(place: Place, name: str | None) -> None:
    """A name becomes a column of a TREC run file."""
    if name is not None and (not name.strip() or len(name.split()) > 1 or name != name.strip()):
        place.error(f"it is {shown(name)}: give a name without white space")


def check_run_type(place: Place, run_type: str | None, allowed: Collection[str]) -> None:
    """One of the year's run types."""
    if run_type is not None:
        one_of(place, run_type, allowed)


def underscored(qid: str, known: Collection[str]) -> str | None:
    """The turn that a qid with a hyphen before the turn number means: ``9-1_3`` for ``9-1-3``; None where there is none."""
    found = re.fullmatch(r"(.+)-(\d+)", qid)
    meant = f"{found[1]}_{found[2]}" if found else ""
    return meant if meant in known else None


def check_turns(run: Run, topics: Topics, place: Place, check: TurnCheck) -> None:
    """Every turn of the topics is there exactly once and no other; each is checked by ``check``."""
    qids = check_turn_ids(run, topics, place)
    for turn, qid in zip(run.turns, qids, strict=True):
        check(place.of_turn(turn.id), turn, topics.statements.get(qid))
    there = set(qids)
    for qid in topics.statements:
        if qid not in there:
            place.of_turn(qid).error("the turn is missing: add it with a response")


def check_turn_ids(run: Run, topics: Topics | None, place: Place) -> list[str]:
    """No turn is there twice, and none that the topics lack, where they are given; the turn that each one means."""
    meant: list[str] = []
    seen: Counter[str] = Counter()
    for turn in run.turns:
        here, qid = place.of_turn(turn.id).at("turn_id"), turn.id
        if topics is not None and qid not in topics.statements:
            qid = underscored(turn.id, topics.statements) or turn.id
            repair = "remove it" if qid == turn.id else f"write {qid}, with an underscore before the turn number"
            here.error(f"{topics.name} has no such turn: {repair}")
        seen[qid] += 1
        if seen[qid] == 2:
            here.error("the turn is there more than once: keep one of them")
        meant.append(qid)
    return meant


def check_responses(place: Place, responses: Sequence[Response] | None, may_be_empty: bool = False) -> None:
    """At least one, ranks that rise from 1, and a text in each."""
    if responses is None:
        return
    if not responses:
        place.error("there is no response: add one of rank 1")
    previous = 0
    for response in responses:
        here = place.at(response.position)
        if response.rank is not None:
            if response.rank > LARGEST_RANK:
                here.at("rank").error(f"it is {shown(response.rank)}: it has to be at most {LARGEST_RANK}, number the responses 1, 2, ...")
            elif response.rank <= previous:
                wanted = "at least 1" if response.rank < 1 else f"more than the {previous} of the response before"
                here.at("rank").error(f"it is {shown(response.rank)}: it has to be {wanted}")
            previous = max(previous, min(response.rank, LARGEST_RANK))
        if response.text is not None and not response.text.strip():
            note = here.at("text").warning if may_be_empty else here.at("text").error
            note("the response is empty: write one")


def check_ranking(place: Place, passages: Sequence[Passage], as_read: Callable[[float], float], ordered: bool = True) -> None:
    """At most 1000 passages, each once, with scores that strictly decrease.

    Args:
        place: where the ranking is.
        passages: the ranking in the order of the file.
        as_read: how exactly the organisers' tools read a score; two that become one are a warning.
        ordered: whether the order of the file has to be that of the scores (arrays) or is only asked for (objects).
    """
    if len(passages) > PASSAGES:
        place.error(f"there are {len(passages)} passages, {PASSAGES} are allowed: cut the ranking{advice(f' (% {PASSAGES})', '')}")
    for docno, count in Counter(passage.id for passage in passages).items():
        if count > 1:
            place.error(f"passage {printable(docno)} is there {count} times: keep the best one")
    check_ids(place, passages)
    check_falling(place, [(passage.id, passage.score) for passage in passages], ordered)
    scores = sorted({passage.score for passage in passages})
    tied = sum(as_read(first) == as_read(second) for first, second in zip(scores, scores[1:], strict=False))
    if tied:
        place.warning(f"{tied} scores are so close to the one above that the organisers' tools read a tie: write scores further apart")


def check_falling(place: Place, scored: Sequence[tuple[str, float]], ordered: bool) -> None:
    """Scores strictly decrease; only the first place where they don't is named."""
    if ordered and scored and scored[0][1] > HIGHEST_SCORE:
        place.warning(f"the first score is above {HIGHEST_SCORE:g}, at which the organisers' checker warns: write smaller scores")
    if not ordered:
        if any(second[1] > first[1] for first, second in zip(scored, scored[1:], strict=False)):
            place.warning("the entries are not in the order of their scores: write the best first")
        scored = sorted(scored, key=lambda entry: -entry[1])
    for (_, before), (name, score) in zip(scored, scored[1:], strict=False):
        if score >= before:
            wrong = "is that of the entry before" if score == before else f"is above the {shown(before)} of the entry before"
            place.error(f"the score {shown(score)} of {printable(name)} {wrong}: write scores that strictly decrease")
            return


def check_ids(place: Place, passages: Sequence[Passage]) -> None:
    """Ids that no run file can hold are errors, those that the collection can't have are a warning."""
    broken = [passage.id for passage in passages if len(passage.id.split()) != 1 or passage.id != passage.id.strip()]
    if broken:
        place.error(f"{shown(broken[0])} is no passage id{_others(broken)}: an id has no white space")
    foreign = [passage.id for passage in passages if not _PASSAGE_ID.fullmatch(passage.id) and passage.id not in broken]
    if foreign:
        place.warning(f"{shown(foreign[0])} is no id of the collection{_others(foreign)}: ids look like clueweb22-en0035-25-01897:1")


def _others(found: Sequence[str]) -> str:
    return f" (nor are {len(found) - 1} others)" if len(found) > 1 else ""


def check_used(place: Place, passages: Sequence[Passage]) -> None:
    """Some passage is marked as used for the response."""
    if not passages:
        place.warning("there is no passage: without any, the turn counts 0 in the evaluation of passages")
        return
    unmarked = sum(passage.used is None for passage in passages)
    if unmarked:
        place.warning(f"{unmarked} passages lack the field used, read as false: add it")
    if not any(passage.used for passage in passages):
        message = 'no passage is marked as used: set "used": true for those that the response rests on'
        place.error(f"{message} (the organisers' checkers only warn of it)")


def check_statements(place: Place, statements: Sequence[Statement], known: Mapping[str, str] | None) -> None:
    """Each is one of the user's, named exactly as in the topics, and named once; one that is named by its words alone may be new."""
    for statement in statements if known is not None else ():
        here = place.at(statement.position)
        if statement.id is not None:
            _check_id(here, statement.id, statement.text, known or {})
        elif statement.text is not None and statement.text not in (known or {}).values():
            here.warning(_note_of_new(statement.text, known or {}))
    names = Counter(statement.text if statement.id is None else statement.id for statement in statements)
    for name, count in names.items():
        if name is not None and count > 1:
            place.error(f"statement {printable(name)} is there {count} times: name it once")


def _check_id(place: Place, name: str, text: str | None, known: Mapping[str, str]) -> None:
    if name not in known:
        place.error(f"the user has no statement {shown(name)}: name one of {', '.join(known) or 'none, leave it out'}")
    elif text is not None and text != known[name]:
        place.at("text").error(f"the text of statement {name} differs from the topics': write {known[name]!r}")


def meant_statement(text: str, known: Mapping[str, str]) -> str | None:
    """The id of the statement with these words, whatever their white space and capitals; None for a new one."""
    exact = (name for name, words in known.items() if words == text)
    same = (name for name, words in known.items() if _words(words) == _words(text))
    return next(exact, None) or next(same, None)


def _words(text: str) -> list[str]:
    return text.casefold().split()


def _note_of_new(text: str, known: Mapping[str, str]) -> str:
    meant = meant_statement(text, known) or (text if text in known else None)
    if meant is not None:
        return f"it differs from a statement in the topics: write {known[meant]!r}"
    return "the topic has no such statement: new ones, from earlier conversations of the user, are allowed; for another copy the words"


WORDS = 250

_TOKEN = re.compile(r"\w+(?=n['’]t\b)|n['’]t\b|['’]\w+|\w+|[^\w\s]")


def check_length(place: Place, texts: Sequence[str], consequence: str = "") -> None:
    """At most 250 words, as the checker of 2025 counts them, in all ``texts`` together."""
    length = sum(map(count_words, texts))
    if length > WORDS:
        place.error(f"{length} words, {WORDS} are allowed{consequence}: shorten at the end of a sentence")


def check_tokens(place: Place, text: str) -> None:
    """A warning for a text within 250 words that has more tokens, the unit of 2023 and 2024."""
    tokens = count_tokens(text)
    if tokens > WORDS >= count_words(text):
        message = (
            f"about {tokens} tokens, as spaCy counts them (words and punctuation marks); {WORDS} were allowed: shorten it if that counts"
        )
        place.warning(message)


def count_tokens(text: str) -> int:
    """About the number of tokens of spaCy's English tokenizer: words, parts of contractions, and punctuation marks.

    Within 1 % of spaCy's on the gold responses of 2023, 2024 and 2025, and over 250 for the same ones.

    Example:
        >>> count_tokens("I don't know, it's late.")
        9
    """
    return len(_TOKEN.findall(text))
