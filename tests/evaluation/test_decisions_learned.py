"""What was learned about users against labels: added, replaced, kept, wrong; worked out by hand."""

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pyterrier_ikat as ikat
from pyterrier_ikat.errors import DataError
from pyterrier_ikat.evaluation import evaluate_learned
from pyterrier_ikat.evaluation.decisions import (
    word_f1,
)

LYON = "I live in Lyon."
VEGAN = "I am vegan."
DOG = "I own a dog."
LABELS = pd.DataFrame(
    {
        "qid": ["a_1", "a_2", "a_3"],
        "known": [{"1": LYON, "2": VEGAN}, {"2": VEGAN, "3": "I live in Oslo."}, {}],
        "holds": [[VEGAN, "I live in Oslo."], [VEGAN, "I live in Oslo."], [DOG, "I like tea."]],
    }
)


def one(statement, *replaces):
    return {
        "id": "9",
        "statement": statement,
        "message": 1,
        "words": statement,
        "replaces": list(replaces),
    }


def system(*learned):
    return pd.DataFrame(
        {"qid": [f"a_{turn}" for turn in range(1, len(learned) + 1)], "qlearned": list(learned)}
    )


def row(learned, **options):
    return evaluate_learned({"s": learned}, LABELS, **options).iloc[0].to_dict()


def test_added_replaced_kept_and_wrong_count_over_all_turns():
    # new: Oslo, dog, tea; outdated: Lyon; still: vegan, vegan and Oslo
    found = system(
        [one("I live in Oslo now.", "1")], [one("I eat meat.", "2")], [one(DOG), one("I own a dog")]
    )
    assert row(found) == {
        **{"name": "s", "added": 2 / 3, "replaced": 1, "kept": 2 / 3, "wrong": 2 / 4},
        **{"new": 3, "outdated": 1, "still": 3, "learned": 4, "turns": 3},
    }


def test_each_system_has_its_own_numbers():
    learned = {"oslo": system([one("I live in Oslo now.", "1")]), "nothing": system([])}
    rows = evaluate_learned(learned, LABELS.head(1)).set_index("name")
    assert rows[["added", "replaced", "kept", "learned"]].values.tolist() == [
        [1, 1, 1, 1],
        [0, 0, 1, 0],
    ]


def test_nothing_learned_keeps_everything_and_adds_nothing():
    for found in (system([], [], []), system([]), system(None, float("nan"))):
        got = row(found)
        assert (got["added"], got["replaced"], got["kept"], got["learned"], got["turns"]) == (
            0,
            0,
            1,
            0,
            3,
        )
        assert pd.isna(got["wrong"])


def test_a_known_repeat_is_not_wrong_and_its_replacement_counts():
    got = row(system([one("I am vegan", "1")]))
    assert (got["added"], got["replaced"], got["wrong"], got["learned"]) == (
        0,
        1,
        pytest.approx(float("nan"), nan_ok=True),
        0,
    )


def test_each_label_is_met_once_by_its_most_similar_statement():
    # F1 with "I own a dog.": 3 of (4 + 4) words and 4 of (4 + 5); with "I like tea.": 1 of (4 + 3)
    # and 1 of (5 + 3)
    found = system([], [], [one("I own a cat."), one("I own a big dog.")])
    assert (row(found)["added"], row(found)["wrong"]) == (1 / 3, 1 / 2)
    assert row(found, least=0.9)["added"] == 0
    assert row(found, least=0.2)["added"] == 2 / 3


texts = st.lists(
    st.sampled_from([LYON, VEGAN, DOG, "I like tea.", "I run.", "My cat is old."]),
    unique=True,
    max_size=4,
)


@given(texts, texts, st.randoms())
def test_learning_what_labels_say_has_full_marks_in_any_order(then, now, random):
    known = {str(number): text for number, text in enumerate(then)}
    gone = [number for number, text in known.items() if text not in now]
    learned = [one(text) for text in now if text not in then]
    random.shuffle(learned)
    learned += [one(now[0], *gone)] if gone and now else []
    labels = pd.DataFrame({"qid": ["a_1"], "known": [known], "holds": [now]})
    (got,) = evaluate_learned({"s": system(learned)}, labels).to_dict("records")
    assert pd.isna(got["added"]) or got["added"] == 1
    assert pd.isna(got["kept"]) or got["kept"] == 1
    assert got["new"] == len(set(now) - set(then))
    assert got["outdated"] == len(gone)
    assert not gone or not now or got["replaced"] == 1


@pytest.mark.parametrize(
    ("found", "labels", "message"),
    [
        (system([]), LABELS.drop(columns="holds"), "no column holds in the labels"),
        (system([]), pd.concat([LABELS, LABELS]), "turn a_1 occurs twice in the labels: keep one"),
        (system([]), LABELS.assign(known="I"), "turn a_1 of the labels: give known as a dict"),
        (
            system([{"statement": "x"}]),
            LABELS,
            "system s, turn a_1: qlearned is not a list of dicts",
        ),
        (system("I own a dog"), LABELS, "system s, turn a_1: qlearned is not a list of dicts"),
        (system([]).assign(qid="b_1"), LABELS, "its turns are like b_1"),
        (system([]).assign(qid="a-1"), LABELS, "convert the qids of one of them"),
        (pd.DataFrame({"qid": ["a_1"]}), LABELS, "UpdatePtkb"),
    ],
)
def test_what_cannot_be_compared_is_refused_and_named(found, labels, message):
    with pytest.raises(ikat.IkatError, match=message):
        evaluate_learned({"s": found}, labels)


def test_statements_that_are_just_alike_enough_are_the_same():
    found = system([], [], [one("I own a cat.")])  # F1 with "I own a dog.": 6 of 8 words
    assert row(found, least=0.75)["added"] == 1 / 3
    assert row(found, least=0.76)["added"] == 0


def test_a_statement_that_is_like_two_labels_counts_once():
    labels = LABELS[2:].assign(holds=[["a b c", "a b d"]])
    for learned, added, wrong in (
        (["a b"], 1, 0),
        (["a b c", "a b d"], 2, 0),
        (["a b", "x"], 1, 1),
    ):
        found = system([one(text) for text in learned]).assign(qid="a_3")
        [got] = evaluate_learned({"s": found}, labels).to_dict("records")
        assert (got["added"], got["wrong"]) == (added / 2, wrong / len(learned))


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("I live in Oslo.", "i LIVE in oslo", 1),
        ("tea", "coffee", 0),
        ("", "", 0),
        ("a b", "a c", 1 / 2),
        ("a a b", "a b b", 2 / 3),  # a once, b once, of 3 + 3 words
        ("a b c", "a", 1 / 2),
        ("a", "a b c", 1 / 2),
    ],
)
def test_f1_counts_common_words_as_often_as_both_have_them(one, other, expected):
    assert word_f1(one, other) == pytest.approx(expected)


LEARNED = [{"id": "9", "statement": "I live in Oslo.", "replaces": [1, "7"]}]


@pytest.mark.parametrize(
    ("known", "holds", "learned", "numbers"),
    [
        # numbers: added, new, replaced, outdated, kept, still, wrong, learned
        ({"1": "I live in Lyon."}, ["I live in Oslo."], LEARNED, [1, 1, 1, 1, 0, 0, 0, 1]),
        ({"1": "I ski."}, ["I ski.", "I live in Oslo."], LEARNED, [1, 1, 0, 0, 0, 1, 0, 1]),
        ({"2": "I ski."}, ["I ski."], LEARNED, [0, 0, 0, 0, 1, 1, 1, 1]),
        ({"2": "I ski.", "3": "I run."}, ["I run"], [], [0, 0, 0, 1, 1, 1, 0, 0]),
        ({"7": "I LIVE in Oslo"}, [], LEARNED, [0, 0, 1, 1, 0, 0, 0, 0]),
    ],
)
def test_each_number_of_what_was_learned(known, holds, learned, numbers):
    labels = pd.DataFrame({"qid": ["a_1"], "known": [known], "holds": [holds]})
    ours = pd.DataFrame({"qid": ["a_1"], "qlearned": [learned]})
    [row] = evaluate_learned({"s": ours}, labels).to_dict("records")
    added, new, replaced, outdated, kept, still, wrong, count = numbers
    assert [row["new"], row["outdated"], row["still"], row["learned"]] == [
        new,
        outdated,
        still,
        count,
    ]
    shares = {"added": (added, new), "replaced": (replaced, outdated), "kept": (kept, still)}
    for name, (part, whole) in (shares | {"wrong": (wrong, count)}).items():
        if whole:
            assert row[name] == part / whole
        else:
            assert pd.isna(row[name])


def test_half_of_the_words_are_enough_by_default():
    labels = pd.DataFrame({"qid": ["a_1"], "known": [{}], "holds": [["a b c"]]})
    for words, added in (("a b d", 1), ("a", 1), ("a d", 0)):  # F1 of 2/3, 1/2 and 2/5
        learned = [{"id": "1", "statement": words, "replaces": []}]
        ours = pd.DataFrame({"qid": ["a_1"], "qlearned": [learned]})
        assert evaluate_learned({"s": ours}, labels)["added"].item() == added


def test_the_labels_turns_count_though_a_system_learned_on_more():
    labels = pd.DataFrame({"qid": ["a_1", "a_2"], "known": [{}, {}], "holds": [["x y"], ["x z"]]})
    learned = [{"id": 1, "statement": "x y", "replaces": []}]
    two = [*learned, {"id": 2, "statement": "x z", "replaces": []}]
    ours = pd.DataFrame({"qid": ["a_1", "b_1"], "qlearned": [two, learned]})
    table = evaluate_learned({"s": ours, "t": ours}, labels, least=0.5)
    assert table["name"].tolist() == ["s", "t"]
    assert table.loc[0, ["added", "new", "wrong", "learned", "turns"]].tolist() == [
        0.5,
        2,
        0.5,
        2,
        2,
    ]
    assert pd.isna(table["replaced"][0])
    for known, holds in (({}, "x"), ("x", [])):
        with pytest.raises(DataError, match="turn a_1 of the labels: give known as a dict"):
            evaluate_learned({"s": ours}, labels[:1].assign(known=[known], holds=[holds]))
    for entry in ("x", {"statement": 1, "replaces": []}, {"statement": "x", "replaces": "1"}):
        wrong = pd.DataFrame({"qid": ["a_1"], "qlearned": [[*learned, entry]]})
        with pytest.raises(DataError, match="system s, turn a_1: qlearned is not a list of dicts"):
            evaluate_learned({"s": wrong}, labels)


def test_each_statement_that_was_learned_meets_one_label_at_most():
    """By hand: one is like two labels, and two are like the third: two pairs of three."""
    labels = pd.DataFrame({"qid": ["a_1"], "known": [{}], "holds": [["a b c", "a b d", "x y"]]})
    learned = [{"statement": words, "replaces": []} for words in ("a b", "x y", "x y z")]
    ours = pd.DataFrame({"qid": ["a_1"], "qlearned": [learned]})
    [row] = evaluate_learned({"s": ours}, labels).to_dict("records")
    assert [row["added"], row["wrong"]] == [2 / 3, 1 / 3]
    assert [row["new"], row["learned"]] == [3, 3]
