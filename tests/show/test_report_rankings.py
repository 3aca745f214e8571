"""The passages and figures that a report shows of each turn."""

import pandas as pd
import pyterrier as pt
import pytest
from ir_measures import nDCG
from small_runs import ranking

from pyterrier_ikat.errors import DataError
from pyterrier_ikat.evaluation import TRACK_2023, as_measures, label
from pyterrier_ikat.evaluation.evaluator import NotJudgedWarning
from pyterrier_ikat.show.report import rankings
from pyterrier_ikat.show.report.material import RunData
from pyterrier_ikat.show.report.rankings import (
    OPEN_WORDS,
    cut_words,
    judged_to_show,
    load_texts,
    measures_to_show,
    passages_by_turn,
    scores_to_show,
    word_limit,
)

QRELS = pd.DataFrame({"qid": ["1_1", "1_1"], "docno": ["a", "c"], "label": [3, 0]})
ABC = ranking([("1_1", "a", 3.0), ("1_1", "b", 2.0), ("1_1", "c", 1.0)])


def listed(*runs, depth=2, texts=None):
    shown = []
    for number, run in enumerate(runs):
        shown.append(RunData(str(number), *run))
    found, limit, *_ = passages_by_turn(shown, QRELS, texts, depth)
    return found["1_1"], limit


def with_other_ranks(passages):
    """Each passage with its rank and score, and its ranks in other runs."""
    return [(shown.rank, shown.docno, shown.score, shown.elsewhere) for shown in passages]


def test_each_run_has_its_list_with_ranks_in_the_compared_runs():
    two = (ranking([("1_1", "b", 0.9), ("1_1", "d", 0.8), ("1_1", "a", 0.7)]),)
    (baseline, second, third), _ = listed((ABC,), two, (ABC,))
    assert with_other_ranks(baseline) == [
        (1, "a", 3.0, [(1, 3), (2, 1)]),
        (2, "b", 2.0, [(1, 1), (2, 2)]),
    ]
    assert with_other_ranks(second) == [(1, "b", 0.9, [(0, 2)]), (2, "d", 0.8, [(0, None)])]
    assert with_other_ranks(third) == [(1, "a", 3.0, [(0, 1)]), (2, "b", 2.0, [(0, 2)])]


@pytest.mark.parametrize(
    ("depth", "used", "expected"),
    [
        (
            3,
            {},
            [("a", 1, 3, False), ("b", 2, None, False), ("c", 3, 0, False)],
        ),  # not judged is not the same as not relevant
        (
            1,
            {"1_1": {"used": ["c"]}},
            [("a", 1, 3, False), ("c", 3, 0, True)],
        ),  # what a response uses is shown however low it is
        (1, {"1_2": {"used": ["c"]}}, [("a", 1, 3, False)]),  # but not for another turn's
    ],
)
def test_best_and_used_passages_are_shown_with_their_labels(depth, used, expected):
    both = pd.concat([ABC, ABC.assign(qid="1_2")], ignore_index=True)
    ((found,), _) = listed((both, used), depth=depth)
    assert [
        (passage.docno, passage.rank, passage.label, passage.used) for passage in found
    ] == expected


def test_each_run_has_its_own_used_passages():
    one = (ABC, {"1_1": {"used": ["a"]}})
    two = (ABC, {"1_1": {"used": ["b"]}})
    (of_one, of_two), _ = listed(one, two)
    assert [passage.used for passage in of_one] == [True, False]
    assert [passage.used for passage in of_two] == [False, True]


def test_passages_stand_by_rank_with_texts_of_frames_first():
    asked = []

    def load(rows):
        asked.extend(rows["docno"])
        return rows.assign(text="loaded " + rows["docno"])

    loader = pt.apply.generic(load)
    shuffled = ABC.iloc[[2, 0, 1]].assign(text=["own c", None, "own b"])
    two = ranking([("1_2", "z", 1.0), ("1_1", "c", 1.0)])
    runs = [RunData("one", shuffled), RunData("two", two)]
    found, limit, texts = passages_by_turn(runs, QRELS, loader, 3)
    assert asked == ["a", "z"]
    assert texts == {"a": "loaded a", "b": "own b", "c": "own c", "z": "loaded z"}
    assert limit == 120
    one, other = found["1_1"]
    assert [(shown.docno, shown.beginning) for shown in one] == [
        ("a", "loaded a"),
        ("b", "own b"),
        ("c", "own c"),
    ]
    assert [shown.elsewhere for shown in one] == [[(1, None)], [(1, None)], [(1, 1)]]
    assert [(shown.docno, shown.elsewhere) for shown in other] == [("c", [(0, 3)])]
    assert found["1_2"][0] == []
    assert [shown.label for shown in found["1_2"][1]] == [None]
    below = [RunData("one", ABC), RunData("two", ranking([("1_1", "c", 1.0)]))]
    found, limit, texts = passages_by_turn(below, None, None, 1)
    assert found["1_1"][1][0].elsewhere == [(0, 3)]  # however low it is in the baseline
    assert (found["1_1"][1][0].label, limit, texts) == (None, 0, {})
    asked.clear()
    load_texts(loader, set("hgfedcba"))
    assert asked == list("abcdefgh")
    known = pt.apply.generic(lambda rows: 1 / 0)
    assert load_texts(known, set()) == {}


def test_texts_are_cut_at_words_and_the_cut_is_told():
    words = [f"w{number}" for number in range(200)]
    texts = {
        "a": " ".join(words[:OPEN_WORDS]),
        "b": " ".join(words[: OPEN_WORDS + 2]),
        "c": " ".join(words),
    }
    ((short, middle, long),), limit = listed((ABC.assign(text=ABC["docno"].map(texts)),), depth=3)
    assert limit == 120
    assert (short.beginning, short.rest) == (texts["a"], "")
    assert (middle.beginning, middle.rest) == (texts["a"], f"w{OPEN_WORDS} w{OPEN_WORDS + 1}")
    assert long.rest == " ".join(words[OPEN_WORDS:120]) + " …"
    ((bare, *_),), limit = listed((ABC.assign(text=None),))
    assert (bare.beginning, bare.rest, limit) == ("", "", 0)


def test_a_text_is_split_at_the_words_that_are_always_shown():
    words = [str(number) for number in range(60)]
    for count, limit, rest in ((30, 30, ""), (31, 30, " …"), (31, 45, "30"), (46, 45, None)):
        beginning, further = cut_words(" \n".join(words[:count]), limit)
        assert beginning == " ".join(words[:30])
        assert further == (" ".join(words[30:45]) + " …" if rest is None else rest)
    assert cut_words(" ", 30) == ("", "")


@pytest.mark.parametrize(
    ("words", "limit", "beginning", "rest"),
    [(25, 10, 25, ""), (30, 10, 30, ""), (31, 10, 30, " \u2026"), (32, 31, 30, "w30 \u2026")],
)
def test_the_words_that_are_always_shown_are_no_cut(words, limit, beginning, rest):
    every = [f"w{number}" for number in range(words)]
    assert cut_words(" ".join(every), limit) == (" ".join(every[:beginning]), rest)


@pytest.mark.parametrize(
    ("words", "passages", "limit"), [(100, 10, 120), (100, 125, 45), (32, 800, 30), (0, 0, 120)]
)
def test_many_long_passages_are_cut_shorter_but_stay_readable(words, passages, limit, monkeypatch):
    monkeypatch.setattr(rankings, "PASSAGE_CHARACTERS", rankings.PASSAGE_CHARACTERS // 100)
    assert (
        word_limit(["word " * words] * passages) == limit
    )  # 125 x 45 x 5 characters are 28,125, 60 words are 37,500


def test_texts_that_are_not_shown_do_not_shorten_the_others(monkeypatch):
    monkeypatch.setattr(rankings, "PASSAGE_CHARACTERS", 800)
    long = ABC.assign(text="word " * 100)
    found, limit, texts = passages_by_turn([RunData("one", long)], None, None, 1)
    assert (limit, len(texts)) == (120, 3)
    assert passages_by_turn([RunData("one", long)], None, None, 3)[1] == 45


def test_texts_come_from_the_loader_and_a_missing_one_errs(sample):
    ((passage,),), _ = listed(
        (ranking([("1_1", "sample-walk-001:0", 1.0)]),), texts=sample.text_loader()
    )
    assert passage.beginning.startswith("Newcomers to overnight trekking")
    with pytest.raises(DataError, match="lacks 1 of the passages to load .nowhere:0"):
        listed((ranking([("1_1", "nowhere:0", 1.0)]),), texts=sample.text_loader())


def test_texts_are_those_of_every_run():
    found = ranking([("1_1", "a", 2.0), ("1_1", "b", 1.0)])
    runs = [
        RunData("bare", found),
        RunData("one", found[:1].assign(text="Tea.")),
        RunData("two", found[1:].assign(text="Mint.", rank=0)),
    ]
    listed, limit, texts = passages_by_turn(runs, None, None, 2)
    assert (limit, texts) == (120, {"a": "Tea.", "b": "Mint."})
    bare, one, two = listed["1_1"]
    assert [passage.beginning for passage in bare] == ["Tea.", "Mint."]
    assert [passage.beginning for passage in one] == ["Tea."]
    assert [passage.beginning for passage in two] == ["Mint."]


JUDGED = pd.DataFrame({"qid": ["1_1", "1_1", "1_2"], "docno": ["a", "b", "a"], "label": [1, 1, 1]})
ONE = RunData("one", ranking([("1_1", "a", 2.0), ("1_1", "b", 1.0)]))
TWO = RunData("two", ranking([("1_1", "x", 2.0), ("1_1", "a", 1.0), ("1_2", "a", 1.0)]))


def test_lost_turn_counts_zero_and_an_unshown_one_not_at_all():
    names, figures = scores_to_show([ONE, TWO], JUDGED, ["1_1", "1_2", "1_3"], ["P@2", "RR"])
    assert names == ["P(rel=1)@2", "RR(rel=1)"]
    assert figures == {"1_1": [[1.0, 1.0], [0.5, 0.5]], "1_2": [[0.0, 0.0], [0.5, 1.0]]}
    assert list(scores_to_show([ONE], JUDGED, ["1_1"], [nDCG @ 3])[1]) == ["1_1"]


def kept(name, qid=("1_1",), qrels=None, **figures):
    """A run folder with figures of its own."""
    scores = pd.DataFrame({"qid": list(qid), **figures})
    parameters = {"qrels_sha256": qrels} if qrels else {}
    return RunData(name, ONE.results, scores=scores, parameters=parameters)


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        ([kept("one", AP=[0.5]), kept("two", AP=[0.75])], (["AP"], {"1_1": [[0.5], [0.75]]})),
        (
            [kept("one", RR=[0.1], AP=[0.5]), kept("two", AP=[0.75])],
            (["AP"], {"1_1": [[0.5], [0.75]]}),
        ),  # what all of them have
        (
            [kept("mine", AP=[0.5]), kept("one", qrels="a", AP=[0.5])],
            (["AP"], {"1_1": [[0.5], [0.5]]}),
        ),
        ([kept("one", AP=[0.5]), ONE], ([], {})),
        ([kept("one", qid=[], AP=[])], ([], {})),
    ],
)
def test_without_qrels_the_run_folders_figures_are_shown(runs, expected):
    assert scores_to_show(runs, None, ["1_1"]) == expected


@pytest.mark.parametrize(
    ("runs", "qrels", "given", "message"),
    [
        (
            [ONE],
            JUDGED,
            (["9-1_1"], ["nDCG@3"]),
            r"none of the turns \(9-1_1, ...\) is judged: the qrels have turns like 1_1",
        ),
        (
            [kept("one", AP=[0.5]), kept("two", qid=["1_2"], AP=[0.5])],
            None,
            (["1_1"],),
            "two and one were measured by other measures or on",
        ),
        (
            [kept("one", qid=["1_1", "1_2"], AP=[0.5, 0.5]), kept("two", AP=[0.5])],
            None,
            (["1_1"],),
            "two and one were measured by other measures or on",
        ),
        (
            [kept("one", AP=[0.5]), kept("two", RR=[0.5])],
            None,
            (["1_1"],),
            "two and one were measured by other measures or on other turns",
        ),
        (
            [kept("one", RR=[0.1], AP=[0.5]), kept("two", AP=[0.7])],
            None,
            (["1_1"], ["RR"]),
            r"not all of these runs .* by RR\(rel=1\): give",
        ),
        (
            [kept("one", qrels="a", AP=[0.5]), kept("two", qrels="b", AP=[0.5])],
            None,
            (["1_1"],),
            "two and one were measured with other",
        ),
    ],
)
def test_figures_that_do_not_fit_together_are_an_error(runs, qrels, given, message):
    with pytest.raises(DataError, match=message):
        scores_to_show(runs, qrels, *given)


def test_folders_with_and_without_a_name_of_qrels_are_alike():
    runs = [kept("a", AP=[0.5]), kept("b", qrels="x", AP=[0.25]), kept("c", qrels="x", AP=[1.0])]
    names, scores = scores_to_show(runs, None, ["1_1"])
    assert (names, scores) == (["AP"], {"1_1": [[0.5], [0.25], [1.0]]})
    with pytest.raises(DataError, match="d and b were measured with other qrels"):
        scores_to_show([*runs, kept("d", qrels="y", AP=[1.0])], None, ["1_1"])
    wanted = [kept("a", **{"AP(rel=1)": [0.5], "P(rel=1)@1": [1.0]})] * 2
    assert scores_to_show(wanted, None, ["1_1"], ["P@1"])[0] == ["P(rel=1)@1"]


def test_folders_scores_are_in_the_order_of_the_first():
    runs = [kept("one", AP=[0.5], RR=[0.25]), kept("two", RR=[0.75], P=[0.0], AP=[1.0])]
    names, scores = scores_to_show(runs, None, ["1_1"])
    assert (names, scores) == (["AP", "RR"], {"1_1": [[0.5, 0.25], [1.0, 0.75]]})


def test_runs_of_another_form_or_collection_are_told():
    other = RunData("odd", ranking([("1_1", "z", 1.0)]))
    with pytest.warns(NotJudgedWarning, match="^run odd: none of its 1 passage is judged"):
        names, scores = scores_to_show([ONE, other], JUDGED, ["1_1"], ["P@1"])
    assert scores == {"1_1": [[1.0], [0.0]]}
    form = RunData("form", ranking([("1_1", "A", 1.0), ("1_1", "B", 1.0)]))
    with pytest.raises(DataError, match="run form: its passages are like 'A', the judged ones"):
        scores_to_show([form], JUDGED, ["1_1"], ["P@1"])


def test_measures_are_those_of_folders_and_then_the_tracks():
    assert measures_to_show([ONE], ["AP", nDCG @ 3]) == as_measures("AP, nDCG@3")
    own = RunData("x", ONE.results, scores=pd.DataFrame({"qid": ["1_1"], "RR(rel=1)": [1.0]}))
    odd = RunData("y", ONE.results, scores=pd.DataFrame({"qid": [], "mine": [], "nDCG@5": []}))
    names = [label(measure) for measure in measures_to_show([ONE, own, odd])]
    assert names[:3] == ["RR(rel=1)", "nDCG@5", "nDCG@3"]
    assert len(names) == 1 + len(TRACK_2023)


def test_scored_turns_are_those_that_folders_were_asked():
    judged = pd.DataFrame({"qid": ["1_1", "1_2", "1_3"], "docno": "a", "label": 1})
    asked = RunData("asked", ONE.results, {"1_1": {}, "1_2": {}}, parameters={"x": 1})
    found, sentences = judged_to_show([asked, TWO], judged, ["1_3", "1_2", "1_1"])
    assert found["qid"].tolist() == ["1_1", "1_2"]
    assert sentences == [
        "Mean over 2 judged turns, those that asked was asked, of 3.",
        "asked lacks 1 judged turn, counted 0: 1_2.",
    ]
    found, sentences = judged_to_show([asked, TWO], judged, ["1_2", "1_3"], chosen=True)
    assert found["qid"].tolist() == ["1_2", "1_3"]
    assert sentences[0] == "Mean over 2 judged turns."
    assert judged_to_show([asked], None, ["1_1"]) == (None, [])
    with pytest.raises(DataError, match="the qrels have turns like none at all"):
        judged_to_show([TWO], judged[:0], ["1_1"])
