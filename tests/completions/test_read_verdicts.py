"""Decisions in a completion, worked out by hand."""

import re

import pytest

from pyterrier_ikat.completions.verdicts import (
    NO_REASON,
    grade,
    parse_label,
    read_action,
    read_choice,
    read_claims,
    read_numbers,
    read_ranking,
    read_score,
    read_yes_no,
    without_scale,
)


def read(verdict):
    """The value of a verdict, and its reason; empty for none."""
    if verdict is None:
        return None
    return verdict.value, "" if verdict.reason == NO_REASON else verdict.reason


SCORES = {
    '{"reason": "r", "score": 2}': (2, "r"),
    "Score: 2": (2, ""),
    "Score: 2/3": (2, ""),
    "Score: 2/4": None,
    "Score: 2／4": None,
    "Score: 2／3": (2, ""),
    "2 ／ 4": None,
    "Score: 4": None,
    "Score: -1": (-1, ""),
    "Score: −1": (-1, ""),
    "**Score:** 2": (2, ""),
    "Score\n2": (2, ""),
    "2": (2, ""),
    "x\n2": (2, "x"),
    "2\nbecause": (2, "because"),
    "2.0": (2, ""),
    "2.5": None,
    "score is 2 of 3": (2, "2 of 3"),
    '{"Score": "2", "Reason": "x"}': (2, "x"),
    '{"score": 2} {"score": 3}': None,
    '{"score": 2} {"score": 2, "reason":"q"}': (2, ""),
    '{"score": true}': None,
    '{"score": null}': None,
    '{"score": 2.0}': (2, ""),
    "Score: 2 and 3": None,
    "my_score: 2": None,
    "Score (0-3): 2": (2, ""),
    "<think>Score: 1</think>Score: 2": (2, ""),
    "Score: two\nScore: 2": (2, "Score: two"),
    "It names 2 of 3.": None,
    '{"score": 2, "reason": {"a": 1}}': (2, 'a": 1'),
    "Score: 2 it is good": None,
    '{"inner": {"score": 1}}': (1, ""),
    "```\n2\n```": (2, ""),
    "a\n2\nb": None,
    "x\nScore\n2": (2, "x"),
    "Score: 3\nlast": (3, "last"),
    "first\nScore is bad\n1": None,
    "Score: –1": (-1, ""),
    "Reason: It skips.\nScore: 2": (2, "It skips."),
}


@pytest.mark.parametrize("text", SCORES)
def test_a_score_is_read_with_its_reason(text):
    assert read(read_score(text, -1, 3)) == SCORES[text]


YES_NO = {
    "Verdict: yes": (True, ""),
    "Verdict: No. Yes is wrong": (False, "No. Yes is wrong"),
    "Verdict: yes or no": None,
    '{"verdict": true}': (True, ""),
    '{"verdict": "no", "reason": "r"}': (False, "r"),
    "yes": (True, ""),
    "No.\nx": (False, "x"),
    "True": (True, ""),
    "maybe": None,
    "Verdict: yesterday": None,
    "Verdict: false": (False, ""),
    'Verdict is "Yes"': (True, ""),
    "verdict = no": (False, ""),
    '{"verdict": 1}': None,
    "Verdict: yes; no": (True, ""),
    "Verdict: yes, true": (True, ""),
    '{"verdict": "\\n yes"}': (True, ""),
    "Verdict: yes, no": None,
    "Verdict: maybe, yes": None,
}


@pytest.mark.parametrize("text", YES_NO)
def test_a_yes_or_no_is_read_with_its_reason(text):
    assert read(read_yes_no(text)) == YES_NO[text]


CHOICES = {
    '{"better": "tie"}': ("tie", ""),
    "Better: A": ("A", ""),
    "Better: Response B": ("B", ""),
    "Better: a tie": ("tie", ""),
    "Better: a": ("A", ""),
    "better: both": ("tie", ""),
    "Better: A or B": None,
    "Better: draw": ("tie", ""),
    "A": ("A", ""),
    "B.": ("B", ""),
    'Better: "b"': ("B", ""),
    "Better: equal": ("tie", ""),
    '{"better": 1}': None,
    "Better: an tie": ("tie", ""),
    "Neither": ("tie", ""),
    "Better: A is longer": None,
}


@pytest.mark.parametrize("text", CHOICES)
def test_a_choice_is_read_with_its_reason(text):
    assert read(read_choice(text)) == CHOICES[text]


NUMBERS = {
    "1／2": None,
    '{"nuggets": [0, 2]}': ([0, 2], ""),
    '{"nuggets": [1, 3]}': ([1, 3], ""),
    '{"nuggets": [1, "2", 1]}': ([1, 2], ""),
    '{"nuggets": [1.5]}': None,
    "Nuggets: 1, 3": ([1, 3], ""),
    "Nuggets: none": ([], ""),
    "Nuggets: []": ([], ""),
    "Nuggets: [1, 3": None,
    "Nuggets: 1/3": None,
    "[1, 2]": ([1, 2], ""),
    "1 and 2": ([1, 2], "1 and 2"),
    "None": ([], ""),
    'Nuggets: [1], "reason": "x"': ([1], '[1], "reason": "x'),
    '{"nuggets": "2, 2"}': ([2], ""),
    '{"nuggets": 3}': None,
    "Nuggets: 1 - 2": ([1, 2], "1 - 2"),
    "Nuggets: - 1": ([1], ""),
    '{"nuggets": []}': ([], ""),
    '{"nuggets": [true]}': None,
    "Nuggets: (1) (2)": ([1, 2], ""),
    "Nuggets: 1000001": ([1000001], ""),
    '{"nuggets": [1000000]}': ([1000000], ""),
    '{"nuggets": [1000001]}': None,
    "Nuggets: 12%": None,
    "Nuggets: 2 birds": None,
    "Nuggets: (1, 3": None,
    "Nuggets: 3, 1, 3": ([3, 1], "3, 1, 3"),
}


@pytest.mark.parametrize("text", NUMBERS)
def test_numbers_are_read_with_their_reason(text):
    assert read(read_numbers(text)) == NUMBERS[text]


ACTIONS = {
    '{"action": "answer"}': ("answer", ""),
    "Action: ask\nQuestion: Which?": ("ask", "Which?"),
    "Action: ask": None,
    "Action: ask\nQuestion: a?\nQuestion: b?": None,
    '{"action": "ask", "question": " Which? "}': ("ask", "Which?"),
    '{"action": "ask", "question": 5}': None,
    '{"action":"ask","question":""}': None,
    "answer": ("answer", ""),
    "Abstain.": ("abstain", ""),
    "Answer: x": None,
    "Action: answer or ask": None,
    '{"action": "answer"} {"action": "ask"}': None,
    "Action: answer\nQuestion: x": ("answer", ""),
    "**ask**": None,
    'Action: ASK\nquestion: "Q?",': ("ask", "Q?"),
    '{"action": 3}': None,
    "<think>Action: ask</think>answer": ("answer", ""),
}


@pytest.mark.parametrize("text", ACTIONS)
def test_an_action_is_read_with_its_question(text):
    assert read_action(text) == ACTIONS[text]


CLAIMS = {
    '{"claims": [{"claim": "c", "supported": true}]}': [{"claim": "c", "supported": True}],
    '{"claims": []}': [],
    '{"claims": []} {"claims": []}': None,
    '{"claims": [{"claim": "c"}]}': None,
    "x": None,
    '{"claims": [{"claim": "c", "supported": true}]} {"a": 1}': [{"claim": "c", "supported": True}],
    '<think>{"claims": []}</think>{"claims": [{"claim": "c", "supported": false}]}': [
        {"claim": "c", "supported": False}
    ],
}


@pytest.mark.parametrize("text", CLAIMS)
def test_the_only_list_of_claims_is_read(text):
    assert read_claims(text) == CLAIMS[text]


LABELS = {
    "Score: 0": 0,
    "0 TO 4: 3": 3,
    "**3**": 3,
    "3": 3,
    "Score: 3/4. two of 5": 3,
    "Score: 3/5": None,
    "3 highly relevant": 3,
    "lists 3 trails": None,
    "Score: 3\nLabel: 3": 3,
    "Score: 3\nLabel: 2": None,
    "5": None,
    "-1": None,
    "Score: -1": None,
    "3%": None,
    "2 to 3": None,
    "2.5": None,
    "3.0": 3,
    "3.00": 3,
    "Score: 2.000 of 4": 2,
    "Score (0-4): 2": 2,
    "0 to 4: 3": 3,
    "2\n2": 2,
    "2\n3": None,
    "2\n\nScore: 3": None,
    "3 out of 4": 3,
    "<think>1</think>2": 2,
    "Relevance: x": None,
    "": None,
    "Grade 4": 4,
    "4 stars": 4,
    "Score: 9": None,
    "rate of 3": 3,
    "10": None,
    "It is 3.": 3,
    "3 or 4": None,
    "2, 3": None,
    "1\n2. b": 1,
    "It names 2 sizes.\n3": None,
    "Of 5\n3": None,
    "3 highly relevant\n2": None,
    "**3**\nIt names 5 sizes.": 3,
    "3\n**2**": None,
    "Score: −1": None,
    "It is 3/4.": 3,
    "It is 3／4.": 3,
    "3／4: good": 3,
    "Score: 3／5": None,
    "3／5: good": None,
    "Score: 3,0": 3,
    "Score: 3 ( out of 4 )": 3,
    "It is 3 out of 4.": 3,
    "Score (0–4): 2": 2,
    "Score (0—4): 2": 2,
}


@pytest.mark.parametrize("text", LABELS)
def test_a_label_from_0_to_4_is_read(text):
    assert parse_label(text) == LABELS[text]


@pytest.mark.parametrize(("text", "label"), [("Score (0-3): 2", 2), ("3/3", 3), ("4", None)])
def test_labels_on_another_scale(text, label):
    assert parse_label(text, highest=3) == label


def test_a_sign_belongs_to_the_number_unless_it_joins_two_words():
    assert re.match(grade(3), "-1")[1] == "-1"
    assert re.search(grade(3), "score-1")[1] == "1"


RANKINGS = {
    "[1][1][1] is it; [2] > [3]": [2, 3],
    "[1] is good\n\n[2] is bad": [1, 2],
    "Passage 3, passage 1 and passage 2; 4, 5": [3, 1, 2],
    "[2] > [3] > [1]": [2, 3, 1],
    "1. Passage 2\n2. Passage 1": [2, 1],
    "Of the 3 passages: 2, 1, 3": [2, 1, 3],
    "[1] and [2] discuss; so: [3] > [1] > [2]": [3, 1, 2],
    "[2][2][1]": [2, 2, 1],
    "Passage 2": [2],
    "3": [3],
    "The best is passage 4, then passage 1": [4, 1],
    "I think 3.": None,
    "[2] is best\n\n[1], [3], [4]": [1, 3, 4],
    "【2】 > 【1】": [2, 1],
    "[2]>[1]&gt;[3]": [2, 1, 3],
    "[Passage 2] > [Document 3]": [2, 3],
    "[12345678901]": [123456789],
    "none": None,
    "2, 1\n\n3, 4, 5": [3, 4, 5],
    "2 > 1 > 3 (3 is bad)": [2, 1, 3, 3],
    "[1] > [2]\n\n[2] > [1]": [2, 1],
    "1) 2\n2) 3": [2, 3],
    "1. 3": [1, 3],
    "[3]": [3],
    "<think>[1]</think>[2]": [2],
    "2.5 and 3%": None,
    "id: 7": [7],
    "[2] > [1]\n2. Question: [3] > [4] > [5]": [2, 1],
    "[2] > [1] of 30, 40, 50 texts": [2, 1],
    "［2］ > ［1］ of 30, 40, 50 texts": [2, 1],
    "【2】 > 【1】 of 30, 40, 50 texts": [2, 1],
    "``` 3\n2\n1\n```": [2, 1],
    "```python3\n1\n```": [1],
}


@pytest.mark.parametrize("text", RANKINGS)
def test_a_ranking_is_the_longest_list(text):
    assert read_ranking(text) == RANKINGS[text]


def test_a_label_has_its_own_highest():
    assert [parse_label(text, 2) for text in ("2", "2/2", "3", "1 out of 2")] == [2, 2, None, 1]
    scaled = ("Label (0-2): 1", "Score: 1/2", "Score: 1/4")
    assert [parse_label(text, 2) for text in scaled] == [1, 1, None]
    assert parse_label("2", 1) is None
    assert without_scale("Score (0 to 2): 0-2, 0-20, 10-2", 2) == "Score (): , 0-20, 10-2"
    assert without_scale("Score: 1.0-2", 2) == "Score: 1.0-2"
    assert grade(2) != grade(3)


def test_a_verdict_without_a_reason_says_so():
    assert read_score("2", -1, 3) == read_score('{"score": 2}', -1, 3) == (2, NO_REASON)


@pytest.mark.parametrize(
    "scale",
    [
        "/",
        "\uff0f",
        "\u2044",
        "\u2215",
        " out of ",
        " of ",
        " von ",
        " sur ",
        " de ",
        " su ",
        " из ",
    ],
)
def test_a_label_on_another_scale_is_none_in_any_sign(scale):
    assert parse_label(f"Score: 3{scale}4") == 3
    assert parse_label(f"Score: 3{scale}5") is None
    assert read_score(f"Score: 3{scale}4", 0, 4).value == 3
    assert read_score(f"Score: 3{scale}5", 0, 4) is None


@pytest.mark.parametrize("scale", ["0-4", "0 - 4", "0–4", "0 to 4", "0 TO 4"])
def test_a_scale_that_is_repeated_is_taken_out(scale):
    assert without_scale(f"Score ({scale}): 2", 4) == "Score (): 2"
    assert without_scale(f"Score ({scale}): 2", 3) == f"Score ({scale}): 2"
    assert without_scale("10-4 and 0-4.5", 4) == "10-4 and 0-4.5"


@pytest.mark.parametrize("slash", ["/", "\uff0f", "\u2044", "\u2215"])
def test_a_share_is_no_list_of_numbers_in_any_sign(slash):
    assert read_numbers(f"1{slash}3") is None
    assert read_numbers("1, 3").value == [1, 3]
