"""Judges of responses.

LLMs judge completeness, relevance, groundedness, nuggets and preferences. Other judges compare
with gold answers, or read citations.
"""

import re
import string
import sys
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from ..arguments import is_missing
from ..completions.json_answers import WHOLE, YES_NO, choice_of, list_of
from ..completions.kinds import Kind, verdict
from ..completions.verdicts import Verdict, read_choice, read_numbers, read_score, read_yes_no
from ..conversations.frame import histories, personas, row_name, values, with_columns
from ..errors import DataError, UsageError, counted
from ..llm_operator import AsksLLM
from ..llms import LLMFailure, Request
from ..prompts import history_text, ptkb_text
from ..store.models import load, loaded_once, positions_of
from ..tables import format_score
from .responses import Assessment, AssessmentOutcome, ResponseJudge, asked_column, check_basis


@dataclass(unsafe_hash=True)
class LLMJudge(AsksLLM, ResponseJudge):
    """Ask a model about every response.

    Requests have the stage ``"judge"`` and the prompt ids ``judge_groundedness``,
    ``judge_completeness``, ``judge_relevance``, ``judge_naturalness``, ``judge_preference``,
    ``judge_correctness``, ``judge_pairwise``, ``judge_nuggets``. The question shown is that of
    :func:`asked_column`. Without ``qhistory`` or ``qptkb`` in the frame, no history or persona is
    shown.

    Args (of every subclass):
        llm: the model to ask.
        prompts: a folder of your own templates. Those that are missing there come from the package.
    """

    stage = "judge"
    topic: ClassVar[str]
    """The name of its template, after ``response_``."""
    shows: ClassVar[Mapping[str, str]] = {}
    """What its prompt shows besides response, question, conversation and persona.

    The name in the template -> the column.
    """
    about_question: ClassVar[bool] = True

    @property
    def model_name(self) -> str:
        """The model that it asks."""
        return self.llm.model

    def judge(self, responses: pd.DataFrame) -> list[Assessment]:
        """One judgement per row of a frame.

        The frame has ``qid``, ``qanswer`` and the columns that the judge needs.

        Raises:
            UsageError: when the judge needs the question and the frame has none.
            FatalLLMError: when no call can succeed (key, model, quota).
            BudgetExceeded: when the budget is spent.
        """
        check_basis(self, responses)
        questions = [""] * len(responses)
        if self.about_question:
            column = asked_column(responses, f"the turns for {self.name}")
            questions = values(responses, column)
        shown = with_columns(
            responses, question=questions, qhistory=histories(responses), qptkb=personas(responses)
        )
        rows = shown.to_dict("records")
        of_rows = [self.requests(row) for row in rows]
        verdicts = iter(self.ask([request for requests in of_rows for request in requests]))
        assessments = []
        for row, requests in zip(rows, of_rows, strict=True):
            of_row = [next(verdicts) for _ in requests]
            assessments.append(self._assess(row, of_row))
        return assessments

    def requests(self, row: dict[str, Any]) -> list[Request]:
        """The prompt for one response."""
        more = {name: row[column] for name, column in self.shows.items()}
        return [self.ask_about(row, **more)]

    def ask_about(self, row: dict[str, Any], item: str = "", **more: Any) -> Request:
        """A request with the response, its question, and ``more``."""
        values = {
            "question": row["question"],
            "context": history_text(row["qhistory"]),
            "ptkb": ptkb_text(row["qptkb"]),
            "response": row["qanswer"],
        }
        values.update(more)
        template = self.templates()[0]
        return self.request(row["qid"], values, template, item)

    def templates(self) -> list[str]:
        """The template that asks for this judgement."""
        return [f"response_{self.topic}"]

    def prompt_of(self, template: str) -> str:
        """The judge's name in recorded files."""
        return template.replace("response_", "judge_")

    def describe_unusable(self, text: str) -> str:
        """The message for a completion of the wrong form."""
        return f"no verdict of the requested kind in the completion {text[:200]!r}"

    def assess(self, row: dict[str, Any], verdicts: Sequence[Verdict]) -> Assessment:
        """The judgement that results from the verdicts, one verdict per request."""
        return Assessment(float(verdicts[0].value), verdicts[0].reason)

    def _assess(self, row: dict[str, Any], verdicts: Sequence[Any]) -> Assessment:
        for answer in verdicts:
            if isinstance(answer, LLMFailure):
                return Assessment(None, str(answer), "failed")
        return self.assess(row, verdicts)


class YesOrNo(LLMJudge):
    """One question about the response: 1 yes, 0 no."""

    kind = verdict("verdict", YES_NO, read_yes_no)


class Groundedness(YesOrNo):
    """Whether everything in the response is in the passages on which it is based: 1 yes, 0 no.

    Reads ``qpassages``. A response without passages is not grounded: it gets 0 without a call. The
    track's own prompt of 2023 asks the reverse (whether anything is *not* in the documents). Here,
    1 means grounded.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> class Model:
        ...     def generate(self, chats):
        ...         return ['{"reason": "It is said.", "verdict": "yes"}' for chat in chats]
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"qid": ["1_1"], "query": ["Which tea?"], "qanswer": ["Rooibos."]})
        >>> frame["qpassages"] = [["Rooibos is a tea."]]
        >>> Groundedness(ikat.llm(Model())).judge(frame)
        [Assessment(value=1.0, reason='It is said.', outcome='judged')]
    """

    name = topic = "groundedness"
    about_question = False
    needs = ("qpassages",)
    shows = {"passages": "qpassages"}

    def requests(self, row: dict[str, Any]) -> list[Request]:
        """One request, none when there is no passage."""
        if not row["qpassages"]:
            return []
        return super().requests(row)

    def assess(self, row: dict[str, Any], verdicts: Sequence[Verdict]) -> Assessment:
        """The verdict; not grounded without a passage."""
        if not verdicts:
            return Assessment(0.0, "the response is based on no passage")
        return super().assess(row, verdicts)


class Correctness(YesOrNo):
    """Whether the response tells the user the same as the gold answer: 1 yes, 0 no.

    The mean is the share of such turns.

    Reads ``gold_answer``. TREC iKAT 2024 reports a share "LLMeval" with SOLAR and GPT-4o, but
    released no prompt. BERGEN (Rau et al., 2024, section 3) has a measure with this name, with
    SOLAR as the judge, that asks this question. We infer that the track used it. The wording is
    ours.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> class Model:
        ...     def generate(self, chats):
        ...         return ['{"reason": "Both name rooibos.", "verdict": "yes"}' for chat in chats]
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"qid": ["1_1"], "query": ["Which tea?"], "qanswer": ["Rooibos."]})
        >>> frame["gold_answer"] = "Rooibos tea."
        >>> Correctness(ikat.llm(Model())).judge(frame)[0].value
        1.0
    """

    name = topic = "correctness"
    needs = ("gold_answer",)
    basis = "gold_answer"
    shows = {"gold": "gold_answer"}


class _Graded(LLMJudge):
    lowest: ClassVar[int]
    highest: ClassVar[int]

    @property
    def kind(self) -> Kind:  # type: ignore[override]
        """A whole number of the scale."""

        def read(text: str) -> Verdict | None:
            return read_score(text, self.lowest, self.highest)

        return verdict("score", choice_of(range(self.lowest, self.highest + 1)), read)

    def assess(self, row: dict[str, Any], verdicts: Sequence[Verdict]) -> Assessment:
        """The grade. -1 means that the judge was unable to tell."""
        [grade] = verdicts
        outcome: AssessmentOutcome = "unable" if grade.value < 0 else "judged"
        return Assessment(float(grade.value), grade.reason, outcome)


class Completeness(_Graded):
    """How completely the response answers the question: 0 not, 1 in part, 2 mostly, 3 fully.

    The prompt shows persona, conversation, question and response, as in 2023. A -1 is kept as the
    turn's value and counted as ``unable``, but is not part of the mean, because it says nothing
    about the response.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> class Model:
        ...     def generate(self, chats):
        ...         return ['{"reason": "It skips the price.", "score": 2}' for chat in chats]
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"qid": ["1_1"], "query": ["Which tea?"], "qanswer": ["Rooibos."]})
        >>> Completeness(ikat.llm(Model())).judge(frame)[0].value
        2.0
    """

    name = topic = "completeness"
    lowest, highest = -1, 3


class Relevance(_Graded):
    """How well the response follows the conversation: 0 not, 1 partly, 2 mostly, 3 clearly.

    The prompt shows persona, conversation, question and response, as in 2023; -1 as for
    :class:`Completeness`.
    """

    name = topic = "relevance"
    lowest, highest = -1, 3


class Naturalness(_Graded):
    """How natural the response reads, 0 to 4. The prompt shows only the response, as in 2023."""

    name = topic = "naturalness"
    lowest, highest = 0, 4
    about_question = False


class Preference(_Graded):
    """How well the response would please this user, 0 to 4: a graded preference.

    There is one call per turn.

    TREC iKAT 2024 reports an LLM's preference, but released no prompt. We chose the scale, and we
    show persona, conversation and question. :class:`PairwisePreference` compares two responses
    instead.
    """

    name = topic = "preference"
    lowest, highest = 0, 4


def _points(choice: str, ours: str) -> float:
    """1 if our response was chosen, 0.5 for a tie, else 0."""
    if choice == "tie":
        return 0.5
    return float(choice == ours)


@dataclass(unsafe_hash=True)
class PairwisePreference(LLMJudge):
    """Whether the response is better than another one: 1 better, 0.5 tie, 0 worse.

    Judges prefer what they read first (or last). So each pair is shown in both orders, with two
    calls per turn, and the value is the mean of both. It is also 0.5 if the verdict depends only on
    the order. A turn with a failed call is a failure.

    Args:
        llm: see :class:`LLMJudge`.
        prompts: see :class:`LLMJudge`.
        against: the column of the turns with the other response: the gold answer, or a column that
            you add for another system.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> class First:
        ...     def generate(self, chats):
        ...         return ['{"reason": "The first is better.", "better": "A"}' for chat in chats]
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"qid": ["1_1"], "query": ["Which tea?"], "qanswer": ["Rooibos."]})
        >>> frame["gold_answer"] = "Green tea."
        >>> PairwisePreference(ikat.llm(First())).judge(frame)[0].value
        0.5
    """

    against: str = "gold_answer"
    topic = "pairwise"
    kind = verdict("better", choice_of(["A", "B", "tie"]), read_choice)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.name = f"preference over {self.against}"  # type: ignore[misc]
        self.basis = self.against  # type: ignore[misc]
        self.needs = (self.against,)  # type: ignore[misc]

    def requests(self, row: dict[str, Any]) -> list[Request]:
        """The response as A, then as B."""
        ours = row["qanswer"]
        other = row[self.against]
        return [
            self.ask_about(row, "as A", first=ours, second=other),
            self.ask_about(row, "as B", first=other, second=ours),
        ]

    def assess(self, row: dict[str, Any], verdicts: Sequence[Verdict]) -> Assessment:
        """The mean of both orders."""
        as_a, as_b = verdicts
        points = _points(as_a.value, "A") + _points(as_b.value, "B")
        reason = f"shown as A: {as_a.reason}; shown as B: {as_b.reason}"
        return Assessment(points / 2, reason)


class NuggetRecall(LLMJudge):
    """The share of the turn's nuggets that the response states, 0 to 1.

    Nuggets are single facts in a good answer. Reads ``gold_nuggets``, a list of texts per turn; the
    track released nuggets for 2024 separately from its topics. In one call per turn, the model
    gives the numbers of the nuggets that the response states. Unknown numbers are omitted and
    counted in the ledger as ``dropped``. If all are unknown, the turn is a failure. A turn without
    nuggets is omitted.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> class Model:
        ...     def generate(self, chats):
        ...         return ['{"reason": "No taste.", "nuggets": [1]}' for chat in chats]
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"qid": ["1_1"], "query": ["Rooibos?"]})
        >>> frame["qanswer"] = "It has no caffeine."
        >>> frame["gold_nuggets"] = [["no caffeine", "sweet taste"]]
        >>> NuggetRecall(ikat.llm(Model())).judge(frame)
        [Assessment(value=0.5, reason='states nuggets 1 of 2: No taste.', outcome='judged')]
    """

    name, topic = "nugget recall", "nuggets"
    kind = verdict("nuggets", list_of(WHOLE), read_numbers)
    needs = ("gold_nuggets",)
    basis = "gold_nuggets"
    shows = {"nuggets": "gold_nuggets"}

    def assess(self, row: dict[str, Any], verdicts: Sequence[Verdict]) -> Assessment:
        """The share of the nuggets."""
        [verdict] = verdicts
        total = len(row["gold_nuggets"])
        stated = [number for number in verdict.value if 1 <= number <= total]
        unknown = [number for number in verdict.value if number not in stated]
        if unknown and not stated:
            self.count(failures=1)
            reason = f"the model names the nuggets {verdict.value} of 1 to {total}"
            return Assessment(None, reason, "failed")
        self.count(dropped=len(unknown))
        reason = f"states nuggets {', '.join(map(str, stated)) or 'none'} of {total}"
        if unknown:
            reason += f" (omitted, not among them: {', '.join(map(str, unknown))})"
        return Assessment(len(stated) / total, f"{reason}: {verdict.reason}")


@dataclass(frozen=True)
class PlainJudge(ResponseJudge):
    """The base of judges that score each response by itself, by default against the gold answer."""

    needs = ("gold_answer",)
    basis = "gold_answer"

    def judge(self, responses: pd.DataFrame) -> list[Assessment]:
        """Score the responses of a frame with ``qanswer`` and the column that the judge needs."""
        check_basis(self, responses)
        return [self.assess(row) for row in responses.to_dict("records")]

    def assess(self, row: dict[str, Any]) -> Assessment:
        """The judgement of one response."""
        raise NotImplementedError


def words(text: str) -> list[str]:
    """The lower-cased runs of a-z and 0-9, without stemming.

    These are the tokens of the package ``rouge-score`` with its default settings. They are for
    English: a text in another script has none.

    Example:
        >>> words("Don't boil it at 100 °C!")
        ['don', 't', 'boil', 'it', 'at', '100', 'c']
    """
    return re.findall("[a-z0-9]+", text.lower())


def longest_common_subsequence(first: Sequence[str], second: Sequence[str]) -> int:
    """The length of the longest sequence of words that both have in this order, gaps allowed.

    Example:
        >>> longest_common_subsequence(["a", "b", "c", "d"], ["b", "x", "d"])
        2
    """
    # lengths[n]: of the words of `first` so far and the first n words of `second`
    lengths = [0] * (len(second) + 1)
    for word in first:
        diagonal = 0
        for number, other in enumerate(second, 1):
            above = lengths[number]
            if word == other:
                lengths[number] = diagonal + 1
            else:
                lengths[number] = max(above, lengths[number - 1])
            diagonal = above
    return lengths[-1]


def _f1(common: int, ours: int, gold: int) -> Assessment:
    value = 2 * common / (ours + gold) if common else 0.0
    words_in_common = counted(common, "word")
    reason = f"{words_in_common} in common, of {ours} in the response and {gold} in the gold answer"
    return Assessment(value, reason)


class RougeL(PlainJudge):
    """ROUGE-L's F measure, 0 to 1, against ``gold_answer``.

    It is that of the package ``rouge-score``, over :func:`words`. With L the longest common
    subsequence: precision L / words of the response, recall L / words of the gold answer, F their
    harmonic mean (beta = 1); 0 if either has no words. Each text counts as one sequence, including
    line breaks (not the sentence-wise ROUGE-Lsum). Source: Lin, ROUGE, 2004, section 3.

    Warns:
        UserWarning: when ROUGE-L reads less than half of a text's letters and digits, as in
            Cyrillic or Chinese.

    Example:
        >>> frame = pd.DataFrame({"qid": ["1_1"], "qanswer": ["Rooibos has no caffeine."]})
        >>> frame["gold_answer"] = "Rooibos tea has no caffeine"
        >>> [round(judgement.value, 4) for judgement in RougeL().judge(frame)]
        [0.8889]
    """

    name = "ROUGE-L"

    def judge(self, responses: pd.DataFrame) -> list[Assessment]:
        """Score the responses (``qanswer``) of a frame with ``gold_answer``."""
        assessments = super().judge(responses)
        unread = 0
        for response, gold in zip(responses["qanswer"], responses["gold_answer"], strict=True):
            if _unreadable(response) or _unreadable(gold):
                unread += 1
        if unread:
            warnings.warn(
                "ROUGE-L reads the letters a to z and digits alone, as rouge-score does: "
                f"{unread} of {len(responses)} responses or gold answers are mostly letters that "
                "it can't read, so their scores say little; TokenF1 (--judge token-f1) reads all "
                "scripts",
                stacklevel=2,
            )
        return assessments

    def assess(self, row: dict[str, Any]) -> Assessment:
        """The F measure of the words in common, in their order."""
        ours = words(row["qanswer"])
        gold = words(row["gold_answer"])
        return _f1(longest_common_subsequence(ours, gold), len(ours), len(gold))


def _unreadable(text: str) -> bool:
    letters = sum(map(str.isalnum, text))
    readable = sum(map(len, words(text)))
    return 2 * readable < letters


_ARTICLES = re.compile(r"\b(a|an|the)\b")


def squad_words(text: str) -> list[str]:
    """The words of a text in any script, as SQuAD's evaluation normalises them.

    They are lower-cased, without ASCII punctuation and articles.

    Example:
        >>> squad_words("The U.S. drinks a «чай»")
        ['us', 'drinks', '«чай»']
    """
    without_punctuation = text.lower().translate(dict.fromkeys(map(ord, string.punctuation)))
    return _ARTICLES.sub(" ", without_punctuation).split()


class TokenF1(PlainJudge):
    """The F1 of the words of the response and of ``gold_answer``, 0 to 1, in any order.

    It is for short answers. The words are :func:`squad_words`; each counts as often as both texts
    have it. 0 if either has no words. Where a script has no blanks, as in Chinese, a sentence is
    one word. LoCoMo's own script also stems words and scores the parts of multi-hop answers one by
    one, so its figures differ. Source: Rajpurkar et al., SQuAD, EMNLP 2016, section 6.1.

    Example:
        >>> frame = pd.DataFrame({"qid": ["1_1"], "qanswer": ["On the 7th of May."]})
        >>> frame["gold_answer"] = "7th May 2023"
        >>> [round(judgement.value, 4) for judgement in TokenF1().judge(frame)]
        [0.5714]
    """

    name = "token F1"

    def assess(self, row: dict[str, Any]) -> Assessment:
        """The F1 of the words in common."""
        ours = Counter(squad_words(row["qanswer"]))
        gold = Counter(squad_words(row["gold_answer"]))
        return _f1((ours & gold).total(), ours.total(), gold.total())


class CitedSentences(PlainJudge):
    """The share of sentences that cite one of the shown passages, 0 to 1.

    Reads ``qcitations``, which :class:`~pyterrier_ikat.Respond` writes with ``cite``. Whether the
    cited passages support the response is another question;
    :class:`~pyterrier_ikat.evaluation.Groundedness` asks it. Sentences are split by
    :func:`~pyterrier_ikat.completions.citations.sentences_in`. A line of a list and a heading are
    one sentence each. A list of sources at the end doesn't count. A response whose system was not
    asked for citations is not judged.

    Example:
        >>> first = {"sentence": "Rooibos.", "docnos": ["d1"], "unknown": []}
        >>> second = {"sentence": "Or mint.", "docnos": [], "unknown": [7]}
        >>> frame = pd.DataFrame({"qcitations": [[first, second]]})
        >>> CitedSentences().judge(frame)[0].value
        0.5
    """

    name = "cited sentences"
    needs = ("qcitations",)
    basis = ""

    def judge(self, responses: pd.DataFrame) -> list[Assessment]:
        """Score the responses of a frame with ``qcitations``.

        Raises:
            DataError: naming the turn, when ``qcitations`` have another form.
        """
        for row, citations in enumerate(values(responses, "qcitations")):
            if citations is not None and not _are_citations(citations):
                raise DataError(
                    f"{row_name(responses, row)}: qcitations is {repr(citations)[:80]}: give a "
                    "list of dicts with sentence, docnos and unknown, as ikat.Respond(llm, "
                    "cite=True) writes"
                )
        return super().judge(responses)

    def assess(self, row: dict[str, Any]) -> Assessment:
        """The share, by the response's ``qcitations``."""
        citations = row["qcitations"]
        if is_missing(citations) or len(citations) == 0:
            return Assessment(None, "the system was not asked for citations", "no basis")
        return self.share(citations)

    def share(self, entries: Sequence[dict[str, Any]]) -> Assessment:
        """The share of the sentences that cite a passage."""
        sentences = [entry for entry in entries if entry["sentence"]]
        if not sentences:
            return Assessment(None, "the response has no sentence", "no basis")
        cited = sum(len(entry["docnos"]) > 0 for entry in sentences)
        reason = f"{cited} of {counted(len(sentences), 'sentence')} with a citation"
        return Assessment(cited / len(sentences), reason)


def _are_citations(citations: Any) -> bool:
    """Tell whether this is a list of dicts, each with a sentence and what it cites."""
    if not isinstance(citations, list | tuple):
        return False
    for entry in citations:
        if not isinstance(entry, Mapping) or not isinstance(entry.get("sentence"), str):
            return False
        for name in ("docnos", "unknown"):
            if not isinstance(entry.get(name), list | tuple | np.ndarray):
                return False
    return True


class ExistingCitations(CitedSentences):
    """The share of citations with the number of a shown passage, 0 to 1.

    Reads ``qcitations``, as :class:`CitedSentences`. A number counts once per sentence. A response
    without citations is not judged.

    Example:
        >>> first = {"sentence": "Tea.", "docnos": ["d1"], "unknown": []}
        >>> second = {"sentence": "Mint.", "docnos": ["d2"], "unknown": [7, 8]}
        >>> frame = pd.DataFrame({"qcitations": [[first, second]]})
        >>> ExistingCitations().judge(frame)[0].value
        0.5
    """

    name = "existing citations"

    def share(self, entries: Sequence[dict[str, Any]]) -> Assessment:
        """The share of the citations with the number of a shown passage."""
        existing = sum(len(entry["docnos"]) for entry in entries)
        total = existing + sum(len(entry["unknown"]) for entry in entries)
        if total == 0:
            return Assessment(None, "the response cites nothing", "no basis")
        reason = f"{existing} of {counted(total, 'citation')} of a passage that was shown"
        return Assessment(existing / total, reason)


QUESTION_SHARE = 4


@dataclass(frozen=True)
class AnswerEquivalence(PlainJudge):
    """A classifier's probability that the response answers like the gold answer, 0 to 1.

    **This is BEM-style, not BEM.** BEM is one particular BERT, trained on human judgements of short
    answers and released on TensorFlow Hub. Its weights are not used here. ``model`` is any sequence
    classifier of ``transformers`` that was trained on the same input: the response, then gold
    answer and question as the second segment, separated by the tokenizer's separator. Scores depend
    on the model: report it with them, and do not compare them with published BEM scores. Source of
    the input format: Bulian et al., Tomayto, Tomahto, EMNLP 2022, section 4.

    The value is the probability of the second of two labels (softmax), or the sigmoid of a single
    one. The question is truncated to a quarter of ``max_length``, and response and gold answer
    share the rest. The reason says what was truncated.

    Args:
        model: the folder of a downloaded model, or a name on the Hugging Face hub.
        max_length: the maximum number of tokens of the whole input, or the number of the network's
            positions if that is smaller.
        batch_size: the number of responses per batch.

    Raises:
        UsageError: at first use, when the model can't be loaded, has no trained classification
            head, or more than two labels.

    Example:
        >>> AnswerEquivalence("models/my-bem")
        AnswerEquivalence(model='models/my-bem', max_length=512, batch_size=16)
    """

    model: str
    max_length: int = 512
    batch_size: int = 16

    name: ClassVar[str] = "answer equivalence"

    @property
    def model_name(self) -> str:
        """The model that it loads."""
        return self.model

    def judge(self, responses: pd.DataFrame) -> list[Assessment]:
        """Classify the responses (``qanswer``) of a frame with ``gold_answer`` and a question.

        Raises:
            UsageError: when the frame has no question, or the model is not usable.
        """
        check_basis(self, responses)
        questions = responses[asked_column(responses, f"the turns for {self.name}")]
        classify = _load(str(self.model))
        length = min(self.max_length, positions_of(classify.model) or self.max_length)
        pairs = []
        reasons = []
        for response, gold, question in zip(
            responses["qanswer"], responses["gold_answer"], questions, strict=True
        ):
            pair, is_cut = _input(classify.tokenizer, response, gold, question, length)
            pairs.append(pair)
            reasons.append(", texts cut" if is_cut else "")
        predictions = classify(
            pairs,
            batch_size=self.batch_size,
            top_k=None,
            truncation="longest_first",
            max_length=length,
        )
        config = classify.model.config
        equivalent = config.id2label[config.num_labels - 1]
        assessments = []
        for scores, cut in zip(predictions, reasons, strict=True):
            [value] = [score["score"] for score in scores if score["label"] == equivalent]
            probability = f"the probability {format_score(value)}"
            assessments.append(
                Assessment(value, f"{self.model} gives equivalence {probability}{cut}")
            )
        return assessments


@loaded_once(size=2)
def _load(model: str) -> Any:
    """The pipeline of ``transformers`` that classifies pairs of texts.

    It uses a softmax over two labels, or a sigmoid of one.
    """

    def make() -> tuple[Any, Any]:
        from transformers import AutoModelForSequenceClassification, AutoTokenizer, pipeline

        network, info = AutoModelForSequenceClassification.from_pretrained(
            model, output_loading_info=True
        )
        tokenizer = AutoTokenizer.from_pretrained(model)
        classify = pipeline("text-classification", model=network, tokenizer=tokenizer)
        return classify, info["missing_keys"]

    classify, untrained = load("answer equivalence model", model, make)
    if untrained:
        raise UsageError(
            f"the model {model!r} lacks {min(untrained)}: it was never trained to classify, and "
            "would judge by chance"
        )
    labels = classify.model.config.num_labels
    if labels > 2:
        raise UsageError(
            f"the model {model!r} has {labels} labels: answer equivalence needs one, or two of "
            "which the second is 'equivalent'"
        )
    return classify


def _input(
    tokenizer: Any, response: str, gold: str, question: str, length: int
) -> tuple[dict[str, str], bool]:
    """The classifier's input, and whether a text was cut.

    The question gets a quarter of the length; response and gold answer share the rest.
    """
    asked, of_question = _truncate(tokenizer, question, length // QUESTION_SHARE)
    special = tokenizer.num_special_tokens_to_add(pair=True) + 1  # and the separator
    room = length - special - of_question
    _, of_response = _truncate(tokenizer, response, sys.maxsize)
    _, of_gold = _truncate(tokenizer, gold, sys.maxsize)
    first, _ = _truncate(tokenizer, response, max(room // 2, room - of_gold))
    second, _ = _truncate(tokenizer, gold, max(room // 2, room - of_response))
    pair = {"text": first, "text_pair": f"{second} {tokenizer.sep_token or ''} {asked}"}
    return pair, (first, second, asked) != (response, gold, question)


def _truncate(tokenizer: Any, text: str, tokens: int) -> tuple[str, int]:
    """The beginning of ``text`` with at most ``tokens`` tokens, and its number of tokens."""
    encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
    spans = encoded["offset_mapping"]
    if len(spans) <= tokens:
        return text, len(spans)
    _start, end = spans[tokens - 1]
    return text[:end], tokens
