"""Why two runs differ in a turn: the passages that are named, and those that no run shows."""

import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ir_measures import AP, RR, Bpref, P, R, nDCG
from small_runs import best_first, ranking

from pyterrier_ikat.evaluation import label, per_turn
from pyterrier_ikat.show.report import reasons
from pyterrier_ikat.show.report.material import RunData
from pyterrier_ikat.show.report.reasons import (
    Explainer,
    is_sum,
    missed_by_turn,
    passage_shares,
    reasons_by_turn,
)
from pyterrier_ikat.tables import format_score

QRELS = pd.DataFrame(
    {"qid": ["1_1"] * 3 + ["1_2"], "docno": ["a", "b", "c", "a"], "label": [1, 4, 0, 0]}
)


def ranks_of(docnos):
    return {docno: rank for rank, docno in enumerate(docnos, 1)}


def ranks(text):
    return ranks_of(text.split())


def evaluated(docnos, labels, measure):
    """The score that the evaluator gives a ranking; 0 without a passage."""
    if len(docnos) == 0:
        return 0.0
    qrels = pd.DataFrame({"qid": "1_1", "docno": list(labels), "label": list(labels.values())})
    run = best_first({"1_1": docnos}, top=100.0)
    return per_turn(run, qrels, [measure])[label(measure)][0]


def told(measure, labels, one, other):
    """What is told of two rankings, by the scores that the evaluator gives them."""
    lead = evaluated(one, labels, measure) - evaluated(other, labels, measure)
    explainer = Explainer(measure, labels, ["qr", "aqd"], [ranks_of(one), ranks_of(other)])
    return explainer.explain(0, 1, lead), lead


@pytest.mark.parametrize(
    ("measure", "labels", "one", "other", "expected"),
    [
        # of 4 at rank 1: 4/4 against 4/log2(3)/4
        (
            nDCG @ 3,
            {"a": 4, "024:0": 0},
            ["024:0", "a"],
            ["a", "024:0"],
            "aqd leads by .3691 in nDCG@3. aqd finds a (label 4) at rank 1, qr at 2 (+.3691). "
            "In qr 024:0, not relevant, moved up to rank 1.",
        ),
        # Before, aqd was named first, for what is below the cutoff; the best sum is 4 + 1/log2(3)
        (
            nDCG @ 3,
            {"a": 4, "b": 1, "024:0": 0},
            ["x", "y", "b", "z", "u"],
            ["x", "024:0", "y", "a"],
            "qr leads by .1080 in nDCG@3. qr finds b (label 1) at rank 3, aqd does not find it "
            "(+.1080). "
            "In aqd 024:0, not relevant, came in at rank 2.",
        ),
        (
            P(rel=2) @ 2,
            {"a": 2, "b": 3, "c": 2, "d": 1},
            ["a", "c"],
            ["d", "b"],
            "qr leads by .5000 in P(rel=2)@2. qr finds a (label 2) at rank 1, aqd does not find "
            "it (+.5000). "
            "qr finds c (label 2) at rank 2, aqd does not find it (+.5000). aqd finds b (label "
            "3) at rank 2, qr does not find it (−.5000). "
            "In aqd d, not relevant, came in at rank 1.",
        ),
        (
            R @ 5,
            {"a": 1, "b": 1, "c": 1, "d": 1, "e": 1},
            ["a"],
            ["b", "c", "d", "e"],
            "aqd leads by .6000 in R(rel=1)@5. aqd finds b (label 1) at rank 1, qr does not "
            "find it (+.2000). aqd finds c (label 1) at "
            "rank 2, qr does not find it (+.2000). qr finds a (label 1) at rank 1, aqd does not "
            "find it (−.2000). "
            "2 more relevant passages: +.4000.",
        ),
        (
            RR,
            {"a": 1},
            ["x", "a"],
            ["a"],
            (
                "aqd leads by .5000 in RR(rel=1). aqd finds a (label 1) at rank 1, qr at 2. In qr "
                "x, not judged, came in at rank 1."
            ),
        ),
        (
            nDCG @ 3,
            {"a": 1},
            ["x", "y", "z", "a"],
            ["x"],
            (
                "No difference in nDCG@3: neither qr nor aqd finds a relevant passage among its "
                "first 3."
            ),
        ),
        (
            nDCG @ 3,
            {"a": 1},
            ["a", "x"],
            ["a", "y"],
            "No difference in nDCG@3: both rank the relevant passages alike.",
        ),
        (
            P @ 3,
            {"a": 1},
            ["a", "x"],
            ["y", "a"],
            "No difference in P(rel=1)@3: both find the same relevant passages.",
        ),
        (P @ 3, {"a": 1, "b": 1}, ["a"], ["b"], "No difference in P(rel=1)@3."),
        (nDCG, {"a": 0}, ["a"], [], "No difference in nDCG: no passage is judged relevant."),
    ],
)
@pytest.mark.filterwarnings("ignore::pyterrier_ikat.evaluation.evaluator.NotJudgedWarning")
def test_the_passages_that_make_the_difference_are_named(measure, labels, one, other, expected):
    assert told(measure, labels, one, other)[0] == expected


DOCNOS = list("abcdefgh")

rankings = st.permutations(DOCNOS).flatmap(
    lambda order: st.integers(0, len(order)).map(lambda size: order[:size])
)


@pytest.mark.filterwarnings("ignore::pyterrier_ikat.evaluation.evaluator.RelevanceWarning")
@pytest.mark.filterwarnings("ignore::pyterrier_ikat.evaluation.evaluator.NotJudgedWarning")
@given(
    st.sampled_from(
        [nDCG, nDCG @ 3, nDCG @ 5, P @ 3, P(rel=2) @ 5, R @ 3, R(rel=3) @ 5, AP, RR, RR @ 2, Bpref]
    ),
    st.dictionaries(st.sampled_from(DOCNOS), st.integers(-1, 4), min_size=1),
    rankings,
    rankings,
)
def test_shares_sum_to_scores_and_the_winner_is_named_first(measure, labels, one, other):
    said, lead = told(measure, labels, one, other)
    if abs(lead) < 1e-9:
        assert said.startswith(f"No difference in {label(measure)}")
        return
    assert said.startswith(f"{'qr' if lead > 0 else 'aqd'} leads by ")
    if is_sum(measure):
        of_one = passage_shares(measure, labels, ranks_of(one))
        of_other = passage_shares(measure, labels, ranks_of(other))
        difference = sum(of_one.values()) - sum(of_other.values())
        assert difference == pytest.approx(lead, abs=1e-9)
        signed = re.findall(r"[+−][0-9]*\.[0-9]{4}", said)
        parts = [float(text.replace("−", "-")) for text in signed]
        assert sum(parts) == pytest.approx(abs(lead), abs=3e-4)
        assert said.split(". ")[1].startswith(said.split()[0] + " finds")


@pytest.mark.parametrize(
    ("measure", "labels", "winner", "loser", "lead", "told"),
    [
        (  # without a cutoff: what came in down to the winner's rank, two at most
            RR,
            {"a": 1, "d": 0},
            "x a",
            "u x d w y",
            0.5,
            "qr leads by .5000 in RR(rel=1). qr finds a (label 1) at rank 2, aqd does not find it. "
            "In aqd u, not judged, came in at rank 1.",
        ),
        (
            AP,
            {"a": 1, "d": 0},
            "x y a",
            "u d w a",
            0.1,
            "qr leads by .1000 in AP(rel=1). qr finds a (label 1) at rank 3, aqd at 4. "
            "In aqd u, not judged, came in at rank 1; d, not relevant, came in at rank 2.",
        ),
        (  # a label below the level is no relevant passage
            P(rel=2) @ 2,
            {"a": 2, "d": 1},
            "a z",
            "d z a",
            0.5,
            "qr leads by .5000 in P(rel=2)@2. qr finds a (label 2) at rank 1, aqd at 3 (+.5000). "
            "In aqd d, not relevant, came in at rank 1; z, not judged, moved up to rank 2.",
        ),
        (
            AP,
            dict.fromkeys("abcdef", 1),
            "a b c d",
            "e f",
            0.3,
            "qr leads by .3000 in AP(rel=1). qr finds a (label 1) at rank 1, aqd does not find it. "
            "qr finds b (label 1) at rank 2, aqd does not find it. aqd finds e (label 1) at rank "
            "1, qr does not find it. 3 more relevant passages came in or out.",
        ),
        (AP, {"a": 1}, "", "a", 0.5, "qr leads by .5000 in AP(rel=1)."),
        (  # what the winner has behind the cutoff came in, too
            nDCG @ 2,
            {"a": 1},
            "a y x",
            "x a",
            0.3691,
            "qr leads by .3691 in nDCG@2. qr finds a (label 1) at rank 1, aqd at 2 (+.3691). "
            "In aqd x, not judged, came in at rank 1.",
        ),
        (  # what the winner has before the relevant passage, too, didn't come in
            AP,
            {"a": 1},
            "y x a",
            "x u w a",
            0.0833,
            "qr leads by .0833 in AP(rel=1). qr finds a (label 1) at rank 3, aqd at 4. "
            "In aqd u, not judged, came in at rank 2; w, not judged, came in at rank 3.",
        ),
        (  # a passage that counts as much in both is not named
            P @ 3,
            {"a": 1, "b": 1},
            "a b",
            "a x",
            0.3333,
            "qr leads by .3333 in P(rel=1)@3. qr finds b (label 1) at rank 2, aqd does not find "
            "it (+.3333). In aqd x, not judged, came in at rank 2.",
        ),
        (  # the intruders are those before the passage of the largest gain
            AP,
            {"a": 1, "b": 1},
            "a x b",
            "x y",
            0.5,
            "qr leads by .5000 in AP(rel=1). qr finds a (label 1) at rank 1, aqd does not find it. "
            "qr finds b (label 1) at rank 3, aqd does not find it. "
            "In aqd x, not judged, moved up to rank 1.",
        ),
        (  # gains of 2 / log2(2) and 3 / log2(4)
            AP,
            {"a": 3, "b": 2},
            "b x a",
            "y",
            0.5,
            "qr leads by .5000 in AP(rel=1). qr finds b (label 2) at rank 1, aqd does not find it. "
            "qr finds a (label 3) at rank 3, aqd does not find it. "
            "In aqd y, not judged, came in at rank 1.",
        ),
    ],
)
def test_what_came_in_before_a_relevant_passage_is_named(
    measure, labels, winner, loser, lead, told
):
    explainer = Explainer(measure, labels, ["qr", "aqd"], [ranks(winner), ranks(loser)])
    assert explainer.explain(0, 1, lead) == told
    turned = Explainer(measure, labels, ["aqd", "qr"], [ranks(loser), ranks(winner)])
    assert turned.explain(0, 1, -lead) == told


def test_equal_losses_have_the_last_read_first():
    labels = dict.fromkeys("abc", 1)
    explainer = Explainer(
        R @ 5, labels, ["qr", "aqd"], [ranks("a x y"), ranks("b c")], {"c": "“C”"}
    )
    text = explainer.explain(0, 1, 0.1)
    assert "aqd finds “C” (label 1) at rank 2, qr does not find it (−.3333)." in text
    assert text.endswith("1 more relevant passage: −.3333.")


@pytest.mark.parametrize(
    ("measure", "one", "other", "told"),
    [
        (nDCG @ 3, "x", "y", ": neither qr nor aqd finds a relevant passage among its first 3."),
        (nDCG, "x", "y", ": neither qr nor aqd finds a relevant passage."),
        (RR, "a b", "a x b", ": both find the same relevant passages."),
        (RR, "a x", "a y", ": both rank the relevant passages alike."),
        (RR, "a b", "a", "."),
        (RR, "x", "a", "."),
        (
            RR @ 2,
            "x y a",
            "x y z",
            ": neither qr nor aqd finds a relevant passage among its first 2.",
        ),
        (
            nDCG @ 1,
            "x a",
            "y b",
            ": neither qr nor aqd finds a relevant passage among its first 1.",
        ),
    ],
)
def test_why_scores_are_alike_is_told(measure, one, other, told):
    explainer = Explainer(measure, {"a": 1, "b": 2}, ["qr", "aqd"], [ranks(one), ranks(other)])
    assert explainer.explain(0, 1, 1e-10) == f"No difference in {label(measure)}{told}"
    nothing = Explainer(P(rel=3) @ 2, {"a": 1, "b": 2}, ["qr", "aqd"], [ranks(one), ranks(other)])
    assert nothing.explain(0, 1, 0.0).endswith(": no passage is judged relevant.")


def test_runs_are_compared_with_baseline_or_say_they_lack_a_turn():
    runs = [
        RunData("one", ranking([("1_1", "b", 2.0)])),
        RunData("two", ranking([("1_1", "a", 2.0)])),
        RunData("new", ranking([("1_2", "a", 1.0)]), {"1_2": {}}, parameters={"method": "new"}),
    ]
    scores = {"1_1": [[1.0, 1.0], [0.25, 1.0], [0.0, 0.0]], "1_2": [[0.0, 0.0]] * 3}
    one_leads = (
        "one leads by .7500 in nDCG@1. one finds b (label 4) at rank 1, two does not find it "
        "(+1.0000). "
        "two finds a (label 1) at rank 1, one does not find it (−.2500)."
    )
    turned = {"1_1": [[0.25, 1.0], [1.0, 1.0], [0.0, 0.0]], "1_2": [[0.0, 0.0]] * 3}
    for several, by_turn in (
        (runs, scores),
        ([runs[1], runs[0], runs[2]], turned),
    ):  # the same sentence for a win and a loss
        found = reasons_by_turn(several, QRELS, by_turn, [nDCG @ 1, P @ 1])
        assert found["1_1"][0] == []
        assert found["1_1"][1] == [one_leads, "No difference in P(rel=1)@1."]
        assert found["1_1"][2] == ["new was not run on this turn."] * 2
        assert found["1_2"][2][0] == "No difference in nDCG@1: no passage is judged relevant."
    assert reasons_by_turn(runs, None, scores, [nDCG @ 1]) == {}


def test_reasons_name_passages_by_their_first_words():
    base = RunData("base", ranking([("1_1", "x", 2.0)]))
    ours = RunData("ours", ranking([("1_1", "c", 3.0), ("1_1", "b", 2.0)]).iloc[::-1])
    texts = {"b": "one two three four five six", "c": " ", "x": "one two three four five six seven"}
    found = reasons_by_turn([base, ours], QRELS, {"1_1": [[0.0], [0.5]]}, [nDCG @ 2], texts)
    assert found["1_1"][1] == [
        "ours leads by .5000 in nDCG@2. ours finds “one two three four five six” (label 4) at rank "
        f"2, base does not find it (+{format_score(4 / np.log2(3) / (4 + 1 / np.log2(3)))}). In "
        "base “one two three four five six …”, not judged, came in at rank 1."
    ]
    assert reasons_by_turn([base], QRELS, {"1_1": [[0.0]]}, [nDCG @ 2]) == {}
    assert reasons_by_turn([base, ours], QRELS, {}, [nDCG @ 2]) == {}


def test_a_passage_of_blanks_is_named_by_its_id():
    one = RunData("one", ranking([("1_1", "x", 1.0)]))
    two = RunData("two", ranking([("1_1", "b", 1.0)]))
    texts = {"b": " \n", "x": "six words are the most of it"}
    scores = {"1_1": [[0.0], [1.0]]}
    text = reasons_by_turn([one, two], QRELS, scores, [nDCG @ 1], texts)["1_1"][1][0]
    assert "two finds b (label 4) at rank 1" in text
    assert "In one “six words are the most of …”, not judged" in text
    texts = {"x": "six words are the most of"}
    text = reasons_by_turn([one, two], QRELS, scores, [nDCG @ 1], texts)["1_1"][1][0]
    assert "In one “six words are the most of”, not judged" in text


def test_ranks_are_those_of_rows_in_any_order():
    rows = ranking([("1_1", "x", 3.0), ("1_1", "b", 2.0), ("1_1", "a", 1.0)])
    one = RunData("one", rows.iloc[[2, 0, 1]])
    two = RunData("two", ranking([("1_1", "b", 1.0)]))
    text = reasons_by_turn([one, two], QRELS, {"1_1": [[0.0], [1.0]]}, [nDCG @ 1])["1_1"][1][0]
    assert "two finds b (label 4) at rank 1, one at 2" in text


def test_runs_that_were_not_run_on_a_turn_are_named_together():
    runs = []
    for name in ("one", "two"):
        found = ranking([("1_2", "a", 1.0)])
        runs.append(RunData(name, found, {"1_2": {}}, parameters={"x": 1}))
    found = reasons_by_turn(runs, QRELS, {"1_1": [[0.0], [0.0]]}, [nDCG @ 1])
    assert found["1_1"] == [[], ["one and two were not run on this turn."]]


def test_a_baseline_that_was_not_run_is_named_too():
    base = RunData("base", ranking([("1_2", "a", 1.0)]), {"1_2": {}}, parameters={"x": 1})
    other = RunData("other", ranking([("1_1", "b", 1.0)]))
    third = RunData("third", ranking([("1_2", "a", 1.0)]), {"1_2": {}}, parameters={"x": 1})
    scores = {"1_1": [[0.0], [1.0], [0.0]]}
    found = reasons_by_turn([base, other, third], QRELS, scores, [nDCG @ 1])
    assert found["1_1"] == [
        [],
        ["base was not run on this turn."],
        ["base and third were not run on this turn."],
    ]


def test_a_page_of_very_many_runs_explains_its_first_measure(monkeypatch):
    monkeypatch.setattr(reasons, "MOST_TEXTS", 2)
    runs = [RunData(name, ranking([("1_1", "b", 2.0)])) for name in "abcd"]
    found = reasons_by_turn(runs, QRELS, {"1_1": [[1.0, 1.0]] * 4}, [nDCG @ 1, P @ 1])
    assert [len(texts) for texts in found["1_1"]] == [0, 1, 1, 1]


@pytest.mark.parametrize(("most", "explained"), [(6, 3), (5, 2), (4, 2), (3, 1), (1, 1)])
def test_as_many_measures_are_explained_as_a_page_has_room(monkeypatch, most, explained):
    monkeypatch.setattr(reasons, "MOST_TEXTS", most)
    found = ranking([(qid, "b", 1.0) for qid in ("1_1", "1_2")])
    runs = [RunData(name, found) for name in "ab"]
    qrels = pd.DataFrame({"qid": ["1_1", "1_2"], "docno": "b", "label": 1})
    scores = {qid: [[1.0] * 3] * 2 for qid in ("1_1", "1_2")}
    texts = reasons_by_turn(runs, qrels, scores, [P @ 1, RR, AP])
    names = ["P(rel=1)@1", "RR(rel=1)", "AP(rel=1)"][:explained]
    alike = [f"No difference in {name}: both rank the relevant passages alike." for name in names]
    assert texts == {qid: [[], alike] for qid in ("1_1", "1_2")}


@pytest.mark.parametrize(
    ("measure", "known"),
    [
        (nDCG @ 3, True),
        (nDCG, True),
        (P(rel=2) @ 3, True),
        (R @ 3, True),
        (nDCG(dcg="exp-log2") @ 3, False),
        (P(judged_only=True) @ 3, False),
        (nDCG(gains={1: 3}) @ 3, False),
        (AP, False),
        (RR @ 3, False),
    ],
)
def test_shares_are_those_of_plain_sums(measure, known):
    assert is_sum(measure) is known


def test_shares_of_each_measure_by_hand():
    labels = {"a": 3, "b": 1, "c": 1, "d": 0, "e": -1}
    found = {"a": 2, "b": 3, "c": 4, "d": 1}
    ideal = 3 + 1 / np.log2(3)
    assert passage_shares(nDCG @ 2, labels, found) == {"a": pytest.approx(3 / np.log2(3) / ideal)}
    whole = 3 + 1 / np.log2(3) + 1 / 2
    assert passage_shares(nDCG, labels, found) == pytest.approx(
        {"a": 3 / np.log2(3) / whole, "b": 0.5 / whole, "c": 1 / np.log2(5) / whole}
    )
    assert passage_shares(P(rel=2) @ 3, labels, found) == {"a": pytest.approx(1 / 3)}
    assert passage_shares(P @ 3, labels, found) == pytest.approx({"a": 1 / 3, "b": 1 / 3})
    assert passage_shares(R @ 3, labels, found) == pytest.approx({"a": 1 / 3, "b": 1 / 3})
    assert passage_shares(R(rel=4) @ 3, labels, found) == {}


def test_relevant_passages_have_ranks_at_any_depth_by_label():
    thirty = [f"x{number}" for number in range(30)]
    one = RunData("one", best_first({"1_1": [*thirty, "a"], "1_2": ["a"]}, top=100.0))
    two = RunData("two", ranking([("1_1", "b", 2.0), ("1_1", "c", 1.0)]))
    found = missed_by_turn([one, two], QRELS, {})
    assert found == {"1_1": ["b (label 4): two at rank 1", "a (label 1): one at rank 31"]}
    assert missed_by_turn([one, two], QRELS, {"1_1": {"b"}}) == {
        "1_1": ["a (label 1): one at rank 31"]
    }  # b is shown
    assert missed_by_turn([one], None, {}) == {}


def test_missed_passages_stand_by_label_and_best_rank():
    docnos = [f"d{number}" for number in range(7)]
    judged = pd.DataFrame({"qid": "1_1", "docno": docnos, "label": [1, 1, 2, 1, 1, 1, 0]})
    one = RunData("one", best_first({"1_1": docnos}))
    two = RunData("two", best_first({"1_1": docnos[::-1]}))
    assert missed_by_turn([one, two], judged, {"1_1": {"d0"}}) == {
        "1_1": [
            "d2 (label 2): one at rank 3, two at rank 5",
            "d1 (label 1): one at rank 2, two at rank 6",
            "d5 (label 1): one at rank 6, two at rank 2",
            "d4 (label 1): one at rank 5, two at rank 3",
            "d3 (label 1): one at rank 4, two at rank 4",
        ]
    }
    assert len(missed_by_turn([one], judged, {})["1_1"]) == 5


def test_the_best_missed_passages_come_first_and_five_at_most():
    judged = [("c", 1), ("b", 2), ("a", 1), ("d", 1), ("e", 1), ("f", 1), ("g", 1)]
    qrels = pd.DataFrame(judged, columns=["docno", "label"]).assign(qid="1_1")
    one = best_first({"1_1": "cabdefg"})
    two = best_first({"1_1": "gfxyzd"})
    runs = [RunData("one", one), RunData("two", two)]
    found = missed_by_turn(runs, qrels, {"1_1": {"c"}})
    assert found == {
        "1_1": [
            "b (label 2): one at rank 3",
            "g (label 1): one at rank 7, two at rank 1",
            "a (label 1): one at rank 2",
            "f (label 1): one at rank 6, two at rank 2",
            "d (label 1): one at rank 4, two at rank 6",
        ]
    }


def test_missed_passages_are_those_of_each_turn():
    qrels = pd.DataFrame(
        {"qid": ["1_2", "1_1", "1_1"], "docno": ["a", "a", "b"], "label": [1, 2, -1]}
    )
    run = RunData("one", ranking([("1_1", "b", 2.0), ("1_1", "a", 1.0), ("1_2", "a", 1.0)]))
    assert missed_by_turn([run], qrels, {}) == {
        "1_2": ["a (label 1): one at rank 1"],
        "1_1": ["a (label 2): one at rank 2"],
    }
    assert list(missed_by_turn([run], qrels, {"1_2": {"a"}})) == ["1_1"]
    assert list(missed_by_turn([run], qrels, {"1_1": {"a"}, "1_2": {"b"}})) == ["1_2"]
