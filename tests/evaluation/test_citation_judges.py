"""Judges that read a response's own citations, and what they are given, worked out by hand."""

import numpy as np
import pandas as pd
import pytest

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


def test_only_judges_with_a_model_name_it():
    assert AnswerEquivalence("models/my-bem").model_name == "models/my-bem"
    assert [judge.model_name for judge in (RougeL(), TokenF1(), CitedSentences())] == [""] * 3


def test_words_of_a_text():
    assert words("It's 5 °C, Zoë") == ["it", "s", "5", "c", "zo"]
    assert squad_words("An ant's theatre: the Zoë-bar") == ["ants", "theatre", "zoëbar"]
    assert longest_common_subsequence("abcbdab", "bdcaba") == 4
    assert longest_common_subsequence("aa", "a") == longest_common_subsequence("a", "aa") == 1
