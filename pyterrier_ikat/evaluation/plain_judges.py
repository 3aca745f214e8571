"""Judges of responses that ask no LLM: comparisons with the gold answer, a classifier of answer equivalence, and counts of citations."""

import re
import string
import sys
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pandas as pd

from ..arguments import is_missing
from ..errors import UsageError, counted
from ..store.models import load, loaded_once
from ..tables import format_score
from .response_judges import asked_column
from .responses import Assessment


@dataclass(frozen=True)
class PlainJudge:
    """Judges each response by itself, by default by comparing it with the gold answer."""

    name: ClassVar[str]
    needs: ClassVar[tuple[str, ...]] = ("gold_answer",)
    basis: ClassVar[str] = "gold_answer"

    def judge(self, responses: pd.DataFrame) -> list[Assessment]:
        """Score the responses of a frame with ``qanswer`` and the column that the judge needs."""
        return [self.assess(row) for row in responses.to_dict("records")]

    def assess(self, row: dict[str, Any]) -> Assessment:
        """The judgement of one response."""
        raise NotImplementedError


def words(text: str) -> list[str]:
    """The lower-cased runs of a-z and 0-9, without stemming: the tokens of the package ``rouge-score`` with its default settings.

    They are for English: a text in another script has none.

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
    row = [0] * (len(second) + 1)
    for word in first:
        diagonal = 0
        for place, other in enumerate(second, 1):
            above = row[place]
            row[place] = diagonal + 1 if word == other else max(above, row[place - 1])
            diagonal = above
    return row[-1]


def _f1(common: int, ours: int, gold: int) -> Assessment:
    value = 2 * common / (ours + gold) if common else 0.0
    return Assessment(value, f"{counted(common, 'word')} in common, of {ours} in the response and {gold} in the gold answer")


class RougeL(PlainJudge):
    """ROUGE-L's F measure, 0 to 1, against ``gold_answer``, as the package ``rouge-score`` computes it: over :func:`words`.

    With L the longest common subsequence: precision L / words of the response, recall L / words of the gold answer, F
    their harmonic mean (beta = 1); 0 if either has no words. Each text counts as one sequence, including line breaks (not the sentence-wise
    ROUGE-Lsum). Source: Lin, ROUGE, 2004, section 3.

    Warns:
        UserWarning: when ROUGE-L reads less than half of a text's letters and digits, as in Cyrillic or Chinese.

    Example:
        >>> frame = pd.DataFrame({"qid": ["1_1"], "qanswer": ["Rooibos has no caffeine."], "gold_answer": ["Rooibos tea has no caffeine"]})
        >>> [round(judgement.value, 4) for judgement in RougeL().judge(frame)]
        [0.8889]
    """

    name = "ROUGE-L"

    def judge(self, responses: pd.DataFrame) -> list[Assessment]:
        """Score the responses (``qanswer``) of a frame with ``gold_answer``."""
        pairs = list(zip(responses["qanswer"], responses["gold_answer"], strict=True))
        if unread := sum(any(map(_unreadable, pair)) for pair in pairs):
            warnings.warn(
                f"ROUGE-L reads the letters a to z and digits alone, as rouge-score does: {unread} of {len(pairs)} responses or gold "
                "answers are mostly letters that it can't read, so their scores say little; TokenF1 (--judge token-f1) reads all scripts",
                stacklevel=2,
            )
        return super().judge(responses)

    def assess(self, row: dict[str, Any]) -> Assessment:
        """The F measure of the words in common, in their order."""
        ours, gold = words(row["qanswer"]), words(row["gold_answer"])
        return _f1(longest_common_subsequence(ours, gold), len(ours), len(gold))


def _unreadable(text: str) -> bool:
    return 2 * sum(map(len, words(text))) < sum(map(str.isalnum, text))


_ARTICLES = re.compile(r"\b(a|an|the)\b")


def squad_words(text: str) -> list[str]:
    """The words of a text in any script, as SQuAD's evaluation normalises them: lower-cased, without ASCII punctuation and articles.

    Example:
        >>> squad_words("The U.S. drinks a «чай»")
        ['us', 'drinks', '«чай»']
    """
    return _ARTICLES.sub(" ", text.lower().translate(dict.fromkeys(map(ord, string.punctuation)))).split()


class TokenF1(PlainJudge):
    """The F1 of the words of the response and of ``gold_answer``, 0 to 1, in any order: for short answers.

    The words are :func:`squad_words`; each counts as often as both texts have it. 0 if either has no words. Where a script has no
    blanks, as in Chinese, a sentence is one word. LoCoMo's own script also stems words and scores the parts of multi-hop answers one by
    one, so its figures differ. Source: Rajpurkar et al., SQuAD, EMNLP 2016, section 6.1.

    Example:
        >>> frame = pd.DataFrame({"qid": ["1_1"], "qanswer": ["On the 7th of May."], "gold_answer": ["7th May 2023"]})
        >>> [round(judgement.value, 4) for judgement in TokenF1().judge(frame)]
        [0.5714]
    """

    name = "token F1"

    def assess(self, row: dict[str, Any]) -> Assessment:
        """The F1 of the words in common."""
        ours, gold = Counter(squad_words(row["qanswer"])), Counter(squad_words(row["gold_answer"]))
        return _f1((ours & gold).total(), ours.total(), gold.total())


class CitedSentences(PlainJudge):
    """The share of sentences that cite one of the shown passages, 0 to 1.

    Reads ``qcitations``, which :class:`~pyterrier_ikat.Respond` writes with ``cite``. Whether the cited passages support the response is
    another question; :class:`~pyterrier_ikat.evaluation.Groundedness` asks it. Sentences are split by
    :func:`~pyterrier_ikat.completions.citations.sentences_in`. A line of a list and a heading are one sentence each. A list of sources at
    the end doesn't count. A response whose system was not asked for citations is not judged.

    Example:
        >>> said = [{"sentence": "Rooibos.", "docnos": ["d1"], "unknown": []}, {"sentence": "Or mint.", "docnos": [], "unknown": [7]}]
        >>> CitedSentences().judge(pd.DataFrame({"qcitations": [said]}))[0].value
        0.5
    """

    name = "cited sentences"
    needs = ("qcitations",)
    basis = ""

    def assess(self, row: dict[str, Any]) -> Assessment:
        """The share, by the response's ``qcitations``."""
        if is_missing(row["qcitations"]) or not len(row["qcitations"]):
            return Assessment(None, "the system was not asked for citations", "no basis")
        return self.share(row["qcitations"])

    def share(self, entries: Sequence[dict[str, Any]]) -> Assessment:
        """The share of the sentences that cite a passage."""
        sentences = [one for one in entries if one["sentence"]]
        cited = sum(bool(len(one["docnos"])) for one in sentences)
        return Assessment(cited / len(sentences), f"{cited} of {counted(len(sentences), 'sentence')} with a citation")


class ExistingCitations(CitedSentences):
    """The share of citations with the number of a shown passage, 0 to 1.

    Reads ``qcitations``, as :class:`CitedSentences`. A number counts once per sentence. A response without citations is not judged.

    Example:
        >>> said = [{"sentence": "Tea.", "docnos": ["d1"], "unknown": []}, {"sentence": "Mint.", "docnos": ["d2"], "unknown": [7, 8]}]
        >>> ExistingCitations().judge(pd.DataFrame({"qcitations": [said]}))[0].value
        0.5
    """

    name = "existing citations"

    def share(self, entries: Sequence[dict[str, Any]]) -> Assessment:
        """The share of the citations that are of a passage that was shown."""
        known, unknown = (sum(len(one[kind]) for one in entries) for kind in ("docnos", "unknown"))
        if not known + unknown:
            return Assessment(None, "the response cites nothing", "no basis")
        return Assessment(known / (known + unknown), f"{known} of {counted(known + unknown, 'citation')} of a passage that was shown")


QUESTION_SHARE = 4


@dataclass(frozen=True)
class AnswerEquivalence(PlainJudge):
    """The probability, according to a classifier, that the response answers the question like the gold answer, 0 to 1.

    **This is BEM-style, not BEM.** BEM is one particular BERT, trained on human judgements of short answers and released on TensorFlow Hub.
    Its weights are not used here. ``model`` is any sequence classifier of ``transformers`` that was trained on the same input: the
    response, then gold answer and question as the second segment, separated by the tokenizer's separator. Scores depend on the model:
    report it with them, and do not compare them with published BEM scores. Source of the input format: Bulian et al., Tomayto, Tomahto,
    EMNLP 2022, section 4.

    The value is the probability of the second of two labels (softmax), or the sigmoid of a single one. The question is truncated to a
    quarter of ``max_length``, and response and gold answer share the rest. The reason says what was truncated.

    Args:
        model: the folder of a downloaded model, or a name on the Hugging Face hub.
        max_length: the maximum number of tokens of the whole input.
        batch_size: the number of responses per batch.

    Raises:
        UsageError: at first use, when the model can't be loaded, has no trained classification head, or more than two
            labels.

    Example:
        >>> AnswerEquivalence("models/my-bem")
        AnswerEquivalence(model='models/my-bem', max_length=512, batch_size=16)
    """

    model: str
    max_length: int = 512
    batch_size: int = 16

    name: ClassVar[str] = "answer equivalence"

    def judge(self, responses: pd.DataFrame) -> list[Assessment]:
        """Classify the responses (``qanswer``) of a frame with ``gold_answer`` and a question.

        Raises:
            UsageError: when the frame has no question, or the model is not usable.
        """
        questions = responses[asked_column(responses, f"the turns for {self.name}")]
        classify = _load(str(self.model))
        triples = zip(responses["qanswer"], responses["gold_answer"], questions, strict=True)
        pairs, cut = zip(*(_input(classify.tokenizer, *triple, self.max_length) for triple in triples), strict=True)
        limits = {"truncation": "longest_first", "max_length": self.max_length}
        found = classify(list(pairs), batch_size=self.batch_size, top_k=None, **limits)
        equivalent = classify.model.config.id2label[classify.model.config.num_labels - 1]
        values = [next(one["score"] for one in scores if one["label"] == equivalent) for scores in found]
        return [
            Assessment(value, f"{self.model} gives equivalence the probability {format_score(value)}{', texts cut' * short}")
            for value, short in zip(values, cut, strict=True)
        ]


@loaded_once(size=2)
def _load(model: str) -> Any:
    """The pipeline of ``transformers`` that classifies pairs of texts: by a softmax over two labels, by a sigmoid of one."""

    def make() -> tuple[Any, Any]:
        from transformers import AutoModelForSequenceClassification, AutoTokenizer, pipeline

        loaded, info = AutoModelForSequenceClassification.from_pretrained(model, output_loading_info=True)
        return pipeline("text-classification", model=loaded, tokenizer=AutoTokenizer.from_pretrained(model)), info["missing_keys"]

    classify, untrained = load("answer equivalence model", model, make)
    if untrained:
        raise UsageError(f"the model {model!r} lacks {min(untrained)}: it was never trained to classify, and would judge by chance")
    if (labels := classify.model.config.num_labels) > 2:
        raise UsageError(
            f"the model {model!r} has {labels} labels: answer equivalence needs one, or two of which the second is 'equivalent'"
        )
    return classify


def _input(tokenizer: Any, response: str, gold: str, question: str, length: int) -> tuple[dict[str, str], bool]:
    """What the classifier reads, and whether a text was cut: the question gets a quarter, the other two share the rest."""
    asked, used = _truncate(tokenizer, question, length // QUESTION_SHARE)
    room = length - tokenizer.num_special_tokens_to_add(pair=True) - 1 - used
    of_response, of_gold = (_truncate(tokenizer, text, sys.maxsize)[1] for text in (response, gold))
    first, _ = _truncate(tokenizer, response, max(room // 2, room - of_gold))
    second, _ = _truncate(tokenizer, gold, max(room // 2, room - of_response))
    pair = {"text": first, "text_pair": f"{second} {tokenizer.sep_token or ''} {asked}"}
    return pair, (first, second, asked) != (response, gold, question)


def _truncate(tokenizer: Any, text: str, tokens: int) -> tuple[str, int]:
    """The beginning of ``text`` with at most ``tokens`` tokens, and how many tokens it has."""
    places = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)["offset_mapping"]
    return (text, len(places)) if len(places) <= tokens else (text[: places[tokens - 1][1]], tokens)
