"""The texts that are read as judgements, and what the judges' prompts and plans are made of."""

import pandas as pd
import pytest
from fakes import scripted

import pyterrier_ikat as ikat
from pyterrier_ikat.errors import DataError
from pyterrier_ikat.evaluation import FillingJudge, Judge, UmbrelaJudge, parse_judgement


@pytest.mark.parametrize(
    ("text", "label", "reason"),
    [
        # each word that names the score, and each joint between it and the number
        ("Rating: 2", 2, ""),
        ("label = 1", 1, ""),
        ("Grade is 4", 4, ""),
        ("RELEVANCE: 0", 0, ""),
        ("I rate this 3.", 3, ""),
        ("I rate it 1.", 1, ""),
        ("My rating of 2, since it is short", 2, "since it is short"),
        ("I rated the hotel 3.", None, None),
        # a number that begins the text, with the marks that may surround it
        ("(2) short", None, None),
        ("(2)", 2, ""),
        ("[1]: short", 1, "short"),
        ('"3"', 3, ""),
        ("`0`", 0, ""),
        ("_4_", 4, ""),
        ("2, short", 2, "short"),
        ("2; short", 2, "short"),
        ("2! short", 2, "short"),
        ("2 – short", 2, "short"),
        ("2 — short", 2, "short"),
        ("2 short", None, None),
        # only one number of the scale counts
        ("4", 4, ""),
        ("5", None, None),
        ("-1", None, None),
        ("Score: 7", None, None),
        ("Score: 2. Rating: 2", 2, ""),
        ("Score: 2. Rating: 3", None, None),
        # the named score counts, not the number that begins
        ("1. It fits.\n2. It is long.\nScore: 3", 3, ""),
        ("1) It fits.\n2) It is long.", None, None),
        ("1. It fits.\n**Final score: 3**", 3, ""),
        ("1. A score of 2 would need a tea.", 1, "A score of 2 would need a tea."),
        ("1. It fits.\nMy own final, whole score: 3", 1, "It fits. My own final, whole score: 3"),
        # the reason is what follows the last number, in one line, without its title
        ("2\nExplanation: half\n of it", 2, "half of it"),
        ("2\nJustification = half", 2, "half"),
        ("2\nreason: reason: half", 2, "reason: half"),
        ('{"score": 1, "reason": "Off."}', 1, "Off."),
        ("Score: 1 first. Score: 1 second.", 1, "second."),
        ("Score (0-4): 3", 3, ""),
        ("", None, None),
        # rare forms of a number
        ("3.00", 3, ""),
        ("3,0", 3, ""),
        ("3.5", None, None),
        ("03", None, None),
        ("３", None, None),
        ("Score: 3 out of 4", 3, ""),
        ("Score: 2/4. Score: 2.0", 2, ""),
        ("Score: 3／5", None, None),
        ("Score: 3／4 because", 3, "because"),
        ("3／4: good", 3, "good"),
        ("Score: 3 to 4", None, None),
        ("Score: 50%", None, None),
        ("Score\u00a0=\u00a02", 2, ""),
        ("Score：3", 3, ""),
        # reasoning, also without its beginning, is not searched
        ("Score: 4\n</think>\n2: short", 2, "short"),
        ("<think>Score: 1</think>\nScore: 2", 2, ""),
    ],
)
def test_where_the_label_and_the_reason_stand(text, label, reason):
    judgement = parse_judgement(text)
    if label is None:
        assert judgement is None
    else:
        assert judgement == (label, reason, text)


@pytest.mark.parametrize(
    ("text", "highest", "label"),
    [
        ("3", 3, 3),
        ("4", 3, None),
        ("4", 4, 4),
        ("2/3", 3, 2),
        ("2/4", 3, None),
        ("2/3", 4, None),
        ("score (0-3): 1", 3, 1),
        ("1", 1, 1),
        ("2", 1, None),
        ("9", 10, 9),
        ("10", 10, 10),
    ],
)
def test_a_label_is_on_the_scale_up_to_the_highest(text, highest, label):
    judgement = parse_judgement(text, highest)
    assert (judgement and judgement.label) == label


POOL = pd.DataFrame(
    {
        "qid": ["1_1", "1_2"],
        "docno": ["a", "b"],
        "score": [2.0, 1.0],
        "text": [f"Rooibos. {'Red. ' * 60}Leaves.", "Mint."],
        "qutterance": ["Which one?", "And?"],
        "qresolved": ["Which tea?", "And cold?"],
        "qptkb": [{"1": "I like red.", "2": "I ski."}, {"1": "I like red."}],
        "qgoldptkb": [["1"], []],
        "gold_answer": ["Take rooibos.", "Take mint."],
        "qexamples": [[("Black tea.", 4), ("Coffee.", 0)], [("Iced tea.", 3)]],
    }
)


@pytest.mark.parametrize(
    ("make", "prompt", "highest", "shown", "hidden"),
    [
        (Judge, "judge", 4, ["I like red.", "Take rooibos."], ["I ski.", "Black tea."]),
        (UmbrelaJudge, "judge_umbrela", 3, [], ["I like red.", "Take rooibos.", "Black tea."]),
        (FillingJudge, "judge_fill", 4, ["I like red.", "Black tea.", "Coffee."], ["Take rooibos"]),
    ],
)
def test_what_each_judge_shows_and_accepts(make, prompt, highest, shown, hidden):
    llm, backend = scripted(str(highest), str(highest + 1))
    judge = make(llm)
    first, second = judge.requests(POOL)
    assert [first.qid, first.item, first.prompt] == ["1_1", "a", prompt]
    assert [second.qid, second.item, second.prompt] == ["1_2", "b", prompt]
    text = first.messages[-1]["content"]
    for words in ["Which tea?", "Rooibos.", "Leaves.", *shown]:
        assert words in text
    for words in ["Mint.", "And cold?", "Which one?", *hidden]:
        assert words not in text
    properties = judge.kind.structure.schema["properties"]
    assert properties["label"]["enum"] == list(range(highest + 1))
    assert "reason" in properties
    assert judge(POOL)[["qid", "docno", "label"]].values.tolist() == [["1_1", "a", highest]]
    assert len(backend.asked) == 2


@pytest.mark.parametrize(
    ("make", "column", "refused"),
    [
        (Judge, "text", True),
        (Judge, "qresolved", True),
        (Judge, "gold_answer", True),
        (UmbrelaJudge, "text", True),
        (UmbrelaJudge, "qresolved", True),
        (UmbrelaJudge, "gold_answer", False),
        (FillingJudge, "gold_answer", False),
    ],
)
@pytest.mark.parametrize("empty", ["", "  ", None, float("nan")])
def test_a_judge_needs_the_texts_that_it_shows(make, column, refused, empty):
    judge = make(scripted("2", "2")[0])
    pool = POOL.astype(object)
    pool[column] = [POOL[column][0], empty]
    if not refused:
        assert judge(pool)["label"].tolist() == [2, 2]
        return
    with pytest.raises(DataError, match=f"turn 1_2, passage b: {column} is") as caught:
        judge(pool)
    assert ("UmbrelaJudge" in str(caught.value)) is (column == "gold_answer")


@pytest.mark.parametrize("make", [Judge, UmbrelaJudge, FillingJudge])
def test_each_column_that_a_judge_reads_is_asked_for(make):
    for column in ("text", *make.gold):
        with pytest.raises(DataError, match=f"reads {column}, which the frame lacks"):
            make(scripted()[0])(POOL.drop(columns=column))


def test_a_plan_shows_given_texts_and_stand_ins_for_others():
    """Four characters are a token: texts of 8,000 characters, and stand-ins of 100 words."""

    def total(make, pool):
        return ikat.plan({"x": make(scripted()[0])}, pool).total

    def tokens(make, pool):
        return total(make, pool)["prompt_tokens"]

    pool = POOL[:1].assign(query="Which one?")
    long = "A word. " * 1000
    for column in ("gold_answer", "qresolved"):
        with_text = tokens(Judge, pool.assign(**{column: long}))
        assert with_text > tokens(Judge, pool.drop(columns=column)) + 1500
        assert with_text > 2000
    short_answer = pool.assign(gold_answer="Tea.")
    without_answer = pool.drop(columns="gold_answer")
    assert tokens(Judge, without_answer) > tokens(Judge, short_answer) + 100
    assert total(Judge, short_answer)["completion_tokens"] > 10
    long_question = pool.assign(qutterance=long).drop(columns="qresolved")
    assert tokens(Judge, long_question) > 2000
    no_example = pool.assign(qexamples=[[]])
    unknown_examples = pool.drop(columns="qexamples")
    assert tokens(FillingJudge, unknown_examples) > tokens(FillingJudge, no_example) + 200


@pytest.mark.parametrize("make", [Judge, UmbrelaJudge, FillingJudge])
def test_a_plan_counts_one_call_per_row_of_a_pool(make):
    judge = make(scripted()[0])
    plan = ikat.plan({"x": judge}, POOL.drop(columns=list(judge.gold)).assign(query="Tea?"))
    assert plan.set_index("stage").loc["judge", "calls"] == 2
