"""The turns to judge and one system's responses to them, as one frame."""

from collections.abc import Iterable
from typing import Any

import pandas as pd

from ..conversations import Conversation, answers_frame, topics_frame
from ..conversations.frame import is_missing, with_columns
from ..errors import DataError, UsageError
from ..runs.kept import plain, response_column, used_marks
from .same_turns import check_form, unlike
from .text_ids import with_text_ids


def response_turns(conversations: Iterable[Conversation], qids: Iterable[str] | None = None) -> pd.DataFrame:
    """The turns whose responses are to be judged, with what TREC iKAT 2023 gave its judges.

    That is the whole persona, the manual rewrite as the question, and the conversation so far as manual rewrites and
    gold answers. All of it is for evaluation: no automatic system may see it.

    Args:
        conversations: of a dataset (``pt.get_dataset("ikat:2023").conversations``) or from ``read_topics``.
        qids: only these turns; all of them without. The track judged 73 turns in 2023 and 62 in 2024.

    Returns:
        ``qid``, ``query``, ``qutterance``, ``qhistory`` (with rewrites in place of the utterances), ``qptkb``,
        ``qconversation``, ``qturn``, ``qresolved``, ``qgoldptkb``, ``gold_answer``.

    Raises:
        UsageError: when ``qids`` names a turn that is not there.

    Example:
        >>> import pyterrier as pt
        >>> turns = response_turns(pt.get_dataset("ikat:sample").conversations, ["1-1_1", "1-1_2"])
        >>> turns["qid"].tolist(), len(turns["qhistory"][1])
        (['1-1_1', '1-1_2'], 2)
    """
    chats = list(conversations)
    histories = [history for chat in chats for history in _resolved_histories(chat)]
    turns = with_columns(topics_frame(chats, manual=True), qhistory=histories, gold_answer=answers_frame(chats)["gold_answer"])
    if qids is None:
        return turns
    wanted = list(qids)
    missing = [qid for qid in wanted if qid not in set(turns["qid"])]
    if missing:
        raise UsageError(f"no turn {', '.join(missing[:5])} in these conversations: their turns are like {turns['qid'].iloc[0]}")
    return turns[turns["qid"].isin(wanted)].reset_index(drop=True)


def response_frame(turns: pd.DataFrame, answers: pd.DataFrame) -> pd.DataFrame:
    """The turns with ``qanswer``, the system's response (empty where there is none), and ``qpassages``, what it is based on.

    Answers with a column ``response``, as the turns of a run folder, have the responses there and drafts in ``qanswer``.

    Args:
        turns: one row per turn, with ``qid``.
        answers: see :func:`~pyterrier_ikat.evaluate.responses.evaluate_responses`.

    Raises:
        UsageError: when a column is missing.
        DataError: when a turn is repeated, no turn is shared, a turn, response or passage is no text, or a mark in ``used`` is
            neither true nor false.

    Example:
        >>> answers = pd.DataFrame({"qid": ["1_1"] * 2, "qanswer": ["Rooibos."] * 2, "text": ["a", "b"], "used": [True, False]})
        >>> response_frame(pd.DataFrame({"qid": ["1_1", "1_2"]}), answers)[["qanswer", "qpassages"]].values.tolist()
        [['Rooibos.', ['a']], ['', []]]
    """
    if response_column(answers) != "qanswer":
        answers = answers.assign(qanswer=answers[response_column(answers)])
    _check_columns(turns, answers)
    turns, answers = with_text_ids("the turns", turns, ["qid"]), with_text_ids("the answers", answers, ["qid"])
    _check(turns, answers)
    answers = answers[answers["qid"].isin(turns["qid"])]
    firsts = answers.drop_duplicates("qid")
    given = {qid: _response(qid, text) for qid, text in zip(firsts["qid"], firsts["qanswer"], strict=True)}
    frame = with_columns(turns.reset_index(drop=True), qanswer=[given.get(qid, "") for qid in turns["qid"]])
    shown = _passages(answers, firsts)
    return frame if shown is None else with_columns(frame, qpassages=[shown.get(qid, []) for qid in turns["qid"]])


def _check_columns(turns: pd.DataFrame, answers: pd.DataFrame) -> None:
    for what, frame, needed in (("turns", turns, ["qid"]), ("answers", answers, ["qid", "qanswer"])):
        missing = [name for name in needed if name not in frame.columns]
        if missing:
            raise UsageError(f"the {what} have no {' and no '.join(missing)}: they have {', '.join(map(str, frame.columns)) or 'nothing'}")


def _check(turns: pd.DataFrame, answers: pd.DataFrame) -> None:
    repeated = turns["qid"].duplicated()
    if repeated.any():
        raise DataError(f"turn {turns.loc[repeated, 'qid'].iloc[0]} is there twice: give the turns to judge once each")
    check_form("the answers", answers["qid"].unique(), turns["qid"])
    if len(turns) and len(answers) and not answers["qid"].isin(turns["qid"]).any():
        raise DataError(f"the answers have none of the turns: {unlike(answers['qid'].iloc[0], turns['qid'].iloc[0])}")


def _response(qid: str, text: Any) -> str:
    if is_missing(text):
        return ""
    if not isinstance(text, str):
        raise DataError(f"turn {qid}: the response is {text!r}, no text")
    return text


def _passages(answers: pd.DataFrame, firsts: pd.DataFrame) -> dict[str, list[str]] | None:
    if "qpassages" in answers.columns:
        return {qid: _texts(qid, texts) for qid, texts in zip(firsts["qid"], firsts["qpassages"], strict=True)}
    if not {"text", "used"} <= set(answers.columns):
        return None
    first = dict(zip(firsts["qid"], firsts["qanswer"], strict=True))
    used = answers.loc[used_marks(answers)]
    used = used.sort_values("rank", kind="stable") if "rank" in used.columns else used
    shown: dict[str, list[str]] = {}
    for qid, answer, text in zip(used["qid"], used["qanswer"], used["text"], strict=True):
        if answer == first[qid]:
            shown.setdefault(qid, []).append(text)
    return {qid: _texts(qid, texts) for qid, texts in shown.items()}


def _texts(qid: str, texts: Any) -> list[str]:
    given: Any = [] if is_missing(texts) else plain(texts)
    if not isinstance(given, list):
        raise DataError(f"turn {qid}: qpassages is {texts!r}: give a list of texts")
    for text in given:
        if not isinstance(text, str):
            raise DataError(
                f"turn {qid}: a passage that the response is based on has the text {text!r}: add the texts with a text_loader()"
            )
    found: list[str] = given
    return found


def _resolved_histories(chat: Conversation) -> list[list[dict[str, str]]]:
    histories: list[list[dict[str, str]]] = []
    messages: list[dict[str, str]] = []
    for turn in chat.turns:
        histories.append(list(messages))
        words = turn.resolved if turn.resolved.strip() else turn.utterance
        messages += [{"role": "user", "content": words}, {"role": "assistant", "content": turn.response}]
    return histories
