"""Judges that ask no LLM: words in common, ROUGE-L, and a response's own citations."""

import random
import string
import warnings
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyterrier_ikat.conversations.frame import column
from pyterrier_ikat.errors import DataError
from pyterrier_ikat.evaluation import CitedSentences, ExistingCitations, RougeL, TokenF1
from pyterrier_ikat.evaluation.response_judges import (
    AnswerEquivalence,
    longest_common_subsequence,
    squad_words,
    words,
)
from pyterrier_ikat.evaluation.responses import evaluate_responses, response_frame, response_means


def rouge_l(response, reference):
    [assessment] = RougeL().judge(pd.DataFrame({"qanswer": [response], "gold_answer": [reference]}))
    return assessment.value


@pytest.mark.parametrize(
    ("response", "reference", "expected"),
    [
        ("police killed the gunman", "police kill the gunman", 0.75),  # Lin 2004: L = 3 of 4 and 4
        ("the gunman kill police", "police kill the gunman", 0.5),  # L = 2: "the gunman"
        ("a b c", "a b c d e f", 2 / 3),  # P 1, R .5
        ("a x b y c", "a b c", 0.75),  # P .6, R 1
        ("No. NO!", "no", 2 / 3),
        ("no", "...", 0.0),
    ],
)
def test_by_hand(response, reference, expected):
    assert rouge_l(response, reference) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("response", "reference", "expected"),
    [
        ("The gunman kills.", "a gunman", 2 / 3),  # without articles: 1 in common, of 2 and 1
        ("tea, tea and tea", "Tea tea!", 2 / 3),  # 2 in common, of 4 and 2
        ("May 7", "7 May", 1.0),
        ("the", "an", 0.0),
        ("The U.S.", "US", 1.0),
        ("Чай без кофеина", "чай БЕЗ кофеина!", 1.0),
        ("緑茶", "緑茶", 1.0),
        ("well-known tea", "wellknown tea", 1.0),
        ("café", "caf", 0.0),
    ],
)
def test_the_f1_of_words_by_hand(response, reference, expected):
    [assessment] = TokenF1().judge(
        pd.DataFrame({"qanswer": [response], "gold_answer": [reference]})
    )
    assert assessment.value == pytest.approx(expected)


def words_by_squads_rules(text):
    """Lower case, no punctuation, no articles that stand alone, split at blanks.

    It is done letter by letter, from section 6.1 and its definition.
    """
    parts = [""]
    for letter in text.lower():
        if letter in string.punctuation:
            continue
        if letter.isalnum() != parts[-1][-1:].isalnum():
            parts.append("")
        parts[-1] += letter
    without_articles = [" " if part in ("a", "an", "the") else part for part in parts]
    return "".join(without_articles).split()


def f1_by_squads_rules(response, reference):
    ours = words_by_squads_rules(response)
    gold = words_by_squads_rules(reference)
    left = list(gold)
    same = 0
    for word in ours:
        if word in left:
            left.remove(word)
            same += 1
    return (
        0.0
        if same == 0
        else 2 * (same / len(ours)) * (same / len(gold)) / (same / len(ours) + same / len(gold))
    )


def test_the_word_f1_is_squads_on_random_pairs_of_all_scripts():
    drawn = random.Random(36)
    words_ = [
        *(
            "a",
            "An",
            "the",
            "U.S.",
            "us",
            "tea",
            "Tea's",
            "чай",
            "ЧАЙ",
            "Straße",
            "緑茶",
            "été",
            "3.5%",
            "35",
            "theory",
            "a°",
        )
    ]
    words_ += ["«x»", "don’t", "-"]
    between = [" ", "\n", ", ", " -", "\u00a0", "-", ""]

    def text():
        parts = []
        for _ in range(drawn.randrange(9)):
            parts += [drawn.choice(words_), drawn.choice(between)]
        return "".join(parts)

    pairs = pd.DataFrame(
        [(text(), text()) for _ in range(1000)], columns=["qanswer", "gold_answer"]
    )
    found = [assessment.value for assessment in TokenF1().judge(pairs)]
    expected = [f1_by_squads_rules(*pair) for pair in pairs.itertuples(index=False)]
    assert found == pytest.approx(expected)
    assert len({round(value, 6) for value in expected}) > 15  # neither all 0 nor all 1


@pytest.mark.parametrize(
    ("response", "gold", "value"),
    [
        ("чай", "чай", 0),
        ("tea", "緑茶", 0),
        ("緑茶", "tea", 0),
        ("Чай при 80 °C", "Кофе при 80 °C", 1),
        ("緑茶はB12を含む", "B12", 1),
    ],
)
def test_rouge_l_warns_of_a_text_that_it_cannot_read(response, gold, value):
    with pytest.warns(
        UserWarning, match="1 of 1 responses or gold answers are mostly letters that it can't read"
    ):
        assert rouge_l(response, gold) == value


def by_definition(first, second):
    def is_within(part):
        rest = iter(second)
        return all(word in rest for word in part)

    size = len(first)
    while not any(map(is_within, combinations(first, size))):
        size -= 1
    return size


few = st.lists(st.sampled_from("abc"), max_size=7)


@given(few, few)
def test_the_longest_common_subsequence(first, second):
    assert longest_common_subsequence(first, second) == by_definition(first, second)


def test_rouge_l_counts_the_rows_with_an_unread_text():
    rows = [("tea", "tea"), ("чай", "tea"), ("tea", "чай"), ("чай", "чай")]
    frame = pd.DataFrame(rows, columns=["qanswer", "gold_answer"])
    with pytest.warns(UserWarning, match="3 of 4 responses or gold answers"):
        RougeL().judge(frame)


@pytest.mark.parametrize(
    ("text", "is_read"),
    [
        ("ab", True),
        ("ab чю", True),
        ("ab чюя", False),
        ("чай", False),
        ("чай 12", False),
        ("чай 123", True),
        ("٣٤", False),
        ("12 ٣", True),
        ("tea ...... !!", True),
        ("... !", True),
        ("", True),
    ],
)
def test_a_text_is_read_if_half_of_its_letters_and_digits_are(text, is_read):
    for response, gold in ((text, "tea"), ("tea", text)):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            RougeL().judge(pd.DataFrame({"qanswer": [response], "gold_answer": [gold]}))
        assert len(seen) == (0 if is_read else 1)


@pytest.mark.parametrize("judge", [RougeL(), TokenF1()])
@pytest.mark.parametrize("gold", [["tea", "milk"], ("tea",), None, 7])
def test_a_gold_answer_that_is_no_text_is_refused(judge, gold):
    frame = pd.DataFrame({"qanswer": ["tea", "tea"], "gold_answer": ["tea", gold]})
    with pytest.raises(DataError, match="^row 1: gold_answer is .*: give a text$"):
        judge.judge(frame)


@pytest.mark.parametrize("judge", [RougeL(), TokenF1()])
def test_the_reason_counts_the_words_of_both_texts(judge):
    rows = [("green tea tea", "tea and milk and sugar"), ("tea", "milk"), ("tea", "tea tea")]
    frame = pd.DataFrame(rows, columns=["qanswer", "gold_answer"])
    assessments = judge.judge(frame)
    assert [assessment.reason for assessment in assessments] == [
        "1 word in common, of 3 in the response and 5 in the gold answer",
        "0 words in common, of 1 in the response and 1 in the gold answer",
        "1 word in common, of 1 in the response and 2 in the gold answer",
    ]
    assert [assessment.value for assessment in assessments] == [2 / 8, 0.0, 2 / 3]


@pytest.mark.parametrize(
    ("response", "gold", "rouge", "f1"),
    [
        ("rooibos has no caffeine", "no caffeine has rooibos", 2 * 2 / 8, 1.0),
        ("Tea, tea, TEA.", "tea tea", 2 * 2 / 5, 2 * 2 / 5),
        ("the tea", "a tea", 0.5, 1.0),  # articles count in ROUGE alone
        ("tea", "mate", 0.0, 0.0),
        ("tea", "?", 0.0, 0.0),
        ("?", "!", 0.0, 0.0),
    ],
)
def test_words_in_common(response, gold, rouge, f1):
    frame = pd.DataFrame({"qid": ["1_1"], "qanswer": [response], "gold_answer": [gold]})
    assert RougeL().judge(frame)[0].value == pytest.approx(rouge)
    assert TokenF1().judge(frame)[0].value == pytest.approx(f1)


def test_words_of_a_text():
    assert words("It's 5 °C, Zoë") == ["it", "s", "5", "c", "zo"]
    assert squad_words("An ant's theatre: the Zoë-bar") == ["ants", "theatre", "zoëbar"]
    assert longest_common_subsequence("abcbdab", "bdcaba") == 4
    assert longest_common_subsequence("aa", "a") == longest_common_subsequence("a", "aa") == 1


# Citations


def entry(sentence, docnos="", unknown=()):
    return {"sentence": sentence, "docnos": docnos.split(), "unknown": list(unknown)}


TWO_OF_THREE = [
    entry("Rooibos.", "d1 d2"),
    entry("Or mint.", "", [7]),
    entry("Or sage.", "d1", [8, 9]),
    entry("", "d3"),  # what stands outside of sentences
]


@pytest.mark.parametrize(
    ("entries", "sentences", "citations"),
    [
        (TWO_OF_THREE, 2 / 3, 4 / 7),
        ([entry("Tea.", "d1")], 1.0, 1.0),
        ([entry("Tea.", "", [3])], 0.0, 0.0),
        ([entry("Tea.")], 0.0, None),  # it was asked to cite, and cites nothing
        ([entry("", "d1")], None, 1.0),  # a list of sources alone
        ([], None, None),
        (None, None, None),
    ],
)
def test_shares_of_sentences_and_citations(entries, sentences, citations):
    turns = pd.DataFrame({"qid": ["1_1"], "query": ["Which tea?"]})
    cells = column([entries])
    answers = pd.DataFrame({"qid": ["1_1"], "qanswer": ["Rooibos."], "qcitations": cells})
    judged = evaluate_responses(turns, answers, [CitedSentences(), ExistingCitations()])
    rows = judged.to_dict("records")
    for row, wanted in zip(rows, [sentences, citations], strict=True):
        if wanted is None:
            assert pd.isna(row["value"])
            assert row["outcome"] == "no basis"
        else:
            assert row["value"] == pytest.approx(wanted)
            assert row["outcome"] == "judged"
    means = response_means(judged).set_index("judge")
    assert means.index.tolist() == ["cited sentences", "existing citations"]


@pytest.mark.parametrize("judge", [CitedSentences(), ExistingCitations()])
@pytest.mark.parametrize(
    "cell",
    [
        "d1",
        {"sentence": "Tea.", "docnos": ["d1"], "unknown": []},
        ["Tea."],
        [entry("Tea.", "d1"), {"sentence": "Mint.", "docnos": ["d1"]}],
        [{"sentence": "Tea.", "docnos": "d1", "unknown": []}],
        [{"sentence": "Tea.", "docnos": ["d1"], "unknown": 7}],
        [{"sentence": None, "docnos": ["d1"], "unknown": []}],
    ],
)
def test_citations_of_another_form_are_refused(judge, cell):
    frame = pd.DataFrame({"qid": ["1_1", "1_2"], "qcitations": column([[entry("Tea.")], cell])})
    with pytest.raises(DataError, match="^turn 1_2: qcitations is .*: give a list of dicts"):
        judge.judge(frame)


def test_citations_may_be_arrays():
    cells = column([np.array([entry("Tea.") | {"docnos": np.array(["d1"])}], dtype=object)])
    frame = pd.DataFrame({"qcitations": cells})
    assert CitedSentences().judge(frame)[0].value == 1.0


def test_a_response_has_its_citations_and_the_passages_it_used():
    """In the order of ranks, of the first response alone; a turn without one has none."""
    entries = [entry("Tea.", "d1")]
    answers = pd.DataFrame(
        {
            "qid": ["1_2", "1_2", "1_2", "1_2", "9_9"],
            "response": ["Tea.", "Tea.", "Tea.", "Other.", "Tea."],
            "qanswer": "A draft.",
            "qcitations": column([entries] * 5),
            "text": ["third", "first", "second", "other", "foreign"],
            "rank": [2, 0, 1, 3, 0],
            "used": [True, True, False, True, True],
        }
    )
    frame = response_frame(pd.DataFrame({"qid": ["1_1", "1_2"]}), answers)
    assert frame["qanswer"].tolist() == ["", "Tea."]
    assert frame["qcitations"].tolist() == [None, entries]
    assert frame["qpassages"].tolist() == [[], ["first", "third"]]
    as_they_stand = response_frame(pd.DataFrame({"qid": ["1_2"]}), answers.drop(columns="rank"))
    assert as_they_stand["qpassages"].tolist() == [["third", "first"]]
    assert "qpassages" not in response_frame(frame[["qid"]], answers.drop(columns="used"))


def test_only_judges_with_a_model_name_it():
    assert AnswerEquivalence("models/my-bem").model_name == "models/my-bem"
    assert [judge.model_name for judge in (RougeL(), TokenF1(), CitedSentences())] == [""] * 3
