"""The kinds of answers that operators and judges ask for.

Each has a parser of free text, and perhaps a JSON schema.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from .json_answers import (
    NUMBER,
    TEXT,
    WHOLE,
    Schema,
    Structure,
    answer_in,
    choice_of,
    list_of,
    object_of,
)
from .learned import read_learned
from .statements import read_copies, read_ids, read_scores
from .texts import distinct_queries, parse_passage, parse_queries, parse_rewrite
from .usable import answer_text, says_no_query, usable_words
from .verdicts import NO_REASON, Verdict, parse_label, read_action, read_ranking


def _unread(text: str) -> Any:
    raise NotImplementedError


class Kind(NamedTuple):
    """A kind of answer.

    Attributes:
        parse: what reads it in free text; gives ``None`` when nothing is usable.
        structure: its form as JSON, for a model with ``structured=on``; ``None`` when free text is
            requested anyway.
        of_json: what makes of a JSON object of that form what ``parse`` gives; ``None`` when
            nothing is usable.
        whole: whether the text is kept as it is, with its repetitions, like an answer.

    Example:
        >>> QUERIES.parse("1. oat milk")
        ['oat milk']
        >>> QUERIES.of_json(QUERIES.structure.read('{"queries": ["oat  milk", " "]}'))
        ['oat milk']
    """

    parse: Callable[[str], Any] = _unread
    structure: Structure | None = None
    of_json: Callable[[dict[str, Any]], Any] = lambda answer: next(iter(answer.values()))
    whole: bool = False


def _line(text: str) -> str | None:
    return parse_passage(text) or None


def _queries(text: str) -> list[str] | None:
    """Return all queries, perhaps none. None for a refusal or a text without an answer."""
    queries = parse_queries(text, None)
    if queries:
        return queries
    words = usable_words(text)
    return [] if words and not says_no_query(words) else None


def _each_once(answer: dict[str, Any]) -> list[str]:
    return distinct_queries(" ".join(query.split()) for query in answer["queries"])


def _action(answer: dict[str, Any]) -> tuple[str, str] | None:
    """Return the action, and the question to the user. Asking needs a question."""
    if answer["action"] != "ask":
        return answer["action"], ""
    question = " ".join(answer["question"].split())
    return ("ask", question) if question else None


def _not_asking(
    read: Callable[[Any], tuple[str, str] | None],
) -> Callable[[Any], tuple[str, str] | None]:
    def read_other(answer: Any) -> tuple[str, str] | None:
        action = read(answer)
        return None if action is None or action[0] == "ask" else action

    return read_other


def _scores(answer: dict[str, Any]) -> list[tuple[str, float]]:
    return [(statement["id"], statement["score"]) for statement in answer["statements"]]


_SCORED = object_of(id=TEXT, score=NUMBER)
_NEW = object_of(message=WHOLE, words=TEXT, statement=TEXT, replaces=list_of(TEXT))
ANSWER = Kind(answer_text, whole=True)
LINE = Kind(_line, whole=True)
PASSAGE = Kind(_line)
REWRITE = Kind(lambda text: parse_rewrite(text) or None)
QUERIES = Kind(_queries, answer_in("queries", list_of(TEXT)), _each_once)
IDS = Kind(read_ids, answer_in("statements", list_of(TEXT)))
COPIES = IDS._replace(parse=read_copies)
SCORES = Kind(read_scores, answer_in("statements", list_of(_SCORED)), _scores)
RANKING = Kind(
    read_ranking,
    answer_in("ranking", list_of(WHOLE)),
    lambda answer: answer["ranking"] or None,
)
LABEL = Kind(parse_label, answer_in("label", choice_of(range(5))))
ACTION = Kind(
    read_action,
    Structure(
        "action",
        object_of(reason=TEXT, action=choice_of(["answer", "ask", "abstain"]), question=TEXT),
    ),
    _action,
)
FINAL_ACTION = ACTION._replace(parse=_not_asking(read_action), of_json=_not_asking(_action))
"""An action, where asking back is not allowed."""
LEARNED = Kind(read_learned, answer_in("statements", list_of(_NEW)))


def verdict(name: str, value: Schema, parse: Callable[[str], Verdict | None]) -> Kind:
    """Make the kind of a judge's verdict under ``name``, with its reason before it.

    Example:
        >>> from pyterrier_ikat.completions.verdicts import read_choice
        >>> better = verdict("better", choice_of(["A", "B", "tie"]), read_choice)
        >>> list(better.structure.schema["properties"])
        ['reason', 'better']
    """

    def read(answer: dict[str, Any]) -> Verdict:
        decision = answer[name]
        if isinstance(decision, list):
            decision = list(dict.fromkeys(decision))
        reason = " ".join(answer["reason"].split())
        return Verdict(decision, reason or NO_REASON)

    return Kind(parse, answer_in(name, value, reason=True), read)
