"""The JSON of a page, its title, the run shown first, and its means: small contents, whole."""

import base64
import gzip
import json
import math

import pytest

from pyterrier_ikat.evaluation.evaluator import compare_with_baseline
from pyterrier_ikat.evaluation.units import Clusters
from pyterrier_ikat.show.report.content import (
    Call,
    Content,
    Group,
    ListedPassage,
    Note,
    ShownStep,
    Side,
    Unit,
)
from pyterrier_ikat.show.report.data import in_script, overview, packed, turns, writable
from pyterrier_ikat.show.report.means import Mean, ShownMeasure, compare_means, comparison_note
from pyterrier_ikat.show.report.page import Report

PASSAGES = [
    ListedPassage(1, "a", 0.0, "Tea is", "hot", label=0, used=True, elsewhere=[(2, 7), (1, None)]),
    ListedPassage(2, "b", 12.34567, "Tea"),
    ListedPassage(3, "a", None, "Tea is", "hot", label=2),
    ListedPassage(4, "a", 1.0, "Tea is", "cold"),
]
MESSAGES = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Tea?"}]
CALLS = [
    Call("rewrite", "rewrite", MESSAGES, "Which tea?"),
    Call("answer", "generate", MESSAGES[1:], "Be brief.", failed=True),
]
STEP = ShownStep(
    title="Turn 1",
    facts="2 s",
    utterance="Tea?",
    notes=[Note("Rewrite", ["Which tea?"]), Note("Draft", ["D"], "draft", folded=True)],
    response="Rooibos [1].",
    remarks=["not sent"],
    cited=[1],
    basis="based on",
    passages=PASSAGES,
    found="4 passages",
    calls=CALLS,
)
UNITS = [
    Unit(
        "1_1",
        1,
        [Side([STEP], "satisfied", "1 turn"), None],
        scores=[[0.5, 3.0], [math.nan, 4.0]],
        utterance="Tea?",
        reasons=[[], ["b leads."]],
        references=[("Manual rewrite", "Which tea?")],
        missed=["c (label 2): b at rank 30"],
        rubrics=[("r1", "Which?", [1, None])],
    ),
    Unit("1_2", 2, [Side([ShownStep()]), Side([])]),
]
MEASURES = [ShownMeasure("P@1"), ShownMeasure("cost", 2, -1, share=False)]


def content(**fields):
    given = {
        "names": ["a", "b"],
        "unit": "turn",
        "group": "Conversation",
        "facts": "2 turns.",
        "groups": [Group("1", UNITS)],
        "measures": MEASURES,
        "columns": MEASURES,
        "means": [],
    }
    return Content(**{**given, **fields})


def test_the_overview_has_names_measures_and_scores():
    assert overview(content(labelled=True)) == {
        "names": ["a", "b"],
        "labelled": True,
        "measures": [
            {"name": "P@1", "digits": 4, "better": 1, "share": True},
            {"name": "cost", "digits": 2, "better": -1, "share": False},
        ],
        "scores": [[[0.5, 3.0], [None, 4.0]], None],
    }


def test_turns_have_each_text_once_and_nothing_that_is_empty():
    found = turns(content())
    assert found["passages"] == [["a", "Tea is", "hot"], ["b", "Tea", ""], ["a", "Tea is", "cold"]]
    assert found["texts"] == ["Be brief.", "Tea?", "Which tea?"]
    first, second = found["turns"]
    [step] = first["sides"][0]["steps"]
    assert step["passages"] == [
        {"rank": 1, "text": 0, "score": 0.0, "label": 0, "used": True, "elsewhere": [0, 0, 7]},
        {"rank": 2, "text": 1, "score": 12.35},
        {"rank": 3, "text": 0, "label": 2},
        {"rank": 4, "text": 2, "score": 1.0},
    ]
    assert step["calls"] == [
        {
            "name": "rewrite",
            "stage": "rewrite",
            "messages": [["system", 0], ["user", 1]],
            "completion": 2,
        },
        {
            "name": "answer",
            "stage": "generate",
            "failed": True,
            "messages": [["user", 1]],
            "completion": 0,
        },
    ]
    assert step["notes"] == [
        {"label": "Rewrite", "texts": ["Which tea?"]},
        {"label": "Draft", "kind": "draft", "folded": True, "texts": ["D"]},
    ]
    others = {name: step[name] for name in step if name not in ("passages", "calls", "notes")}
    assert others == {
        "title": "Turn 1",
        "facts": "2 s",
        "utterance": "Tea?",
        "response": "Rooibos [1].",
        "remarks": ["not sent"],
        "found": "4 passages",
        "cited": [1],
        "basis": "based on",
    }
    assert {name: first[name] for name in first if name != "sides"} == {
        "name": "1_1",
        "utterance": "Tea?",
        "reasons": [[], ["b leads."]],
        "references": [["Manual rewrite", "Which tea?"]],
        "missed": ["c (label 2): b at rank 30"],
        "rubrics": [["r1", "Which?", [1, None]]],
    }
    assert first["sides"][0]["end"] == "satisfied"
    assert first["sides"][0]["facts"] == "1 turn"
    assert first["sides"][1] is None
    assert second == {"name": "1_2", "sides": [{"steps": [{}]}, {}]}


def test_what_html_cannot_have_is_replaced_everywhere():
    odd = "a\x00b\ud800"
    assert writable({"x": [odd, (odd, 1)], "y": None}) == {
        "x": ["a\ufffdb\ufffd", ["a\ufffdb\ufffd", 1]],
        "y": None,
    }
    text = packed({"ä": [1.5, None]})
    assert gzip.decompress(base64.b64decode(text)).decode() == '{"ä":[1.5,null]}'
    assert packed({"ä": [1.5, None]}) == text
    assert base64.b64decode(text)[4:8] == bytes(4)  # no time
    assert in_script({"ä": "</script>"}) == '{"ä":"\\u003c/script>"}'
    for write in (packed, in_script):
        with pytest.raises(ValueError, match="JSON"):
            write(math.nan)
    page = Report.of(content(names=[odd, "<b>"], notes=[odd]))
    assert "\x00" not in page.html
    assert "\ud800" not in page.html
    assert "<b>" not in page.html
    assert json.dumps(page.name) == json.dumps(f"{odd}, <b>")


@pytest.mark.parametrize(
    ("names", "title"),
    [
        (["a" * 80], "a" * 80),
        (["a" * 30, "b" * 28], f"{'a' * 30}, {'b' * 28}"),
        (["a" * 30, "b" * 29], "2 systems"),
    ],
)
def test_a_long_title_is_the_number_of_systems(names, title):
    assert content(names=names).title == title


def shown_first(*values, better=1):
    columns = [ShownMeasure("turns", better=0), ShownMeasure("x", better=better), MEASURES[0]]
    names = []
    means = []
    for number, value in enumerate(values):
        names.append(f"s{number}")
        means.append([Mean(9.0, ""), Mean(value, ""), Mean(-float(number), "")])
    return content(names=names, columns=columns, means=means)


def test_the_best_other_system_is_shown_beside_the_baseline():
    assert shown_first(0.9, 0.2, 0.5, 0.5).first_shown == 2
    assert shown_first(0.1, 0.2, 0.5, 0.3, better=-1).first_shown == 1
    assert shown_first(0.9, math.nan, 0.1).first_shown == 2
    assert shown_first(0.1, 0.9).first_shown == 1
    assert shown_first(0.5).first_shown == 0
    assert content().first_shown == 1
    assert content(columns=[ShownMeasure("turns", better=0)], means=[[], []]).first_shown == 1


@pytest.mark.parametrize(
    ("measure", "value", "signed", "text"),
    [
        (ShownMeasure("x"), 0.5, False, ".5000"),
        (ShownMeasure("x"), 0.5, True, "+.5000"),
        (ShownMeasure("x"), -0.5, True, "−.5000"),
        (ShownMeasure("x"), -0.5, False, "−.5000"),
        (ShownMeasure("x"), -0.0009, False, "−.0009"),
        *((ShownMeasure("x", 1), n / 10, True, f"+.{n}") for n in range(1, 10)),
        (ShownMeasure("x"), 0.00001, True, ".0000"),
        (ShownMeasure("x"), -0.00001, True, ".0000"),
        (ShownMeasure("x", 2), 1.0, False, "1.00"),
        (ShownMeasure("x", 2, share=False), 1234.567, True, "+1,234.57"),
        (ShownMeasure("x", 0, share=False), 0.4, True, "0"),
        (ShownMeasure("x"), math.nan, True, "–"),
    ],
)
def test_a_value_is_written_with_its_sign_and_decimals(measure, value, signed, text):
    assert measure.text(value, signed=signed) == text


SIX = Clusters("conversation", list("aabbccddeeff"), "qid")


def means_of(base, ours, measure, clusters=SIX, more=()):
    others = [[value] for value in more]
    values = {}
    for turn, (of_base, of_ours) in enumerate(zip(base, ours, strict=True)):
        values[str(turn)] = [[of_base], [of_ours], *others]
    means = [[sum(base) / len(base)], [sum(ours) / len(ours)], *others]
    return [row[0] for row in compare_means(means, values, [measure], clusters)]


def test_a_difference_has_an_interval_a_side_and_an_arrow():
    base = [0.1, 0.2] * 6
    ours = [0.6, 0.7, 0.61, 0.72, 0.6, 0.7, 0.63, 0.7, 0.6, 0.7, 0.6, 0.75]
    test = compare_with_baseline(ours, base, SIX, 1)
    first, second = means_of(base, ours, ShownMeasure("x"))
    interval = f"[+{test['low']:.4f}, +{test['high']:.4f}]".replace("0.", ".")
    assert first == Mean(pytest.approx(0.15), ".1500", best=False)
    assert second == Mean(sum(ours) / 12, ".6592", True, "+.5092", "win", "↑", interval)
    first, second = means_of(base, ours, ShownMeasure("x", better=-1))
    assert (first.best, second.best, second.side, second.mark) == (True, False, "loss", "↑")
    _, second = means_of(ours, base, ShownMeasure("x"))
    assert (second.side, second.mark, second.change) == ("loss", "↓", "−.5092")
    _, second = means_of(ours, base, ShownMeasure("x", better=-1))
    assert (second.side, second.mark) == ("win", "↓")
    _, second = means_of(base, ours, ShownMeasure("x", better=0))
    assert second == Mean(sum(ours) / 12, ".6592")
    _, second = means_of(base, ours, ShownMeasure("x", tested=False))
    assert (second.change, second.side, second.interval) == ("+.5092", "", "")
    four = Clusters("topic", list("aaabbbcccddd"))
    _, second = means_of(base, ours, ShownMeasure("x"), four)
    assert (second.side, second.mark, second.interval[:2]) == ("", "", "[+")
    one = Clusters("topic", ["a"] * 12)
    assert means_of(base, ours, ShownMeasure("x"), one)[1].interval == ""


def test_a_test_of_several_systems_is_corrected_and_whole():
    base = [0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    ours = [0.1, 0.2, 0.3, 0.1, 0.5, 0.01]  # p = .0285
    by_turn = Clusters("turn", list("abcdef"))
    assert means_of(base, ours, ShownMeasure("x"), by_turn)[1].side == "win"
    assert means_of(base, ours, ShownMeasure("x"), by_turn, [0.5])[1].side == ""
    _, second, third = means_of(base, ours, ShownMeasure("x"), by_turn, [math.nan])
    assert (second.change, second.interval) == ("+.2017", "")
    assert third == Mean(pytest.approx(math.nan, nan_ok=True), "–")
    values = {"t": [[math.nan], [0.5]], "u": [[0.0], [0.5]]}
    [[first], [second]] = compare_means([[math.nan], [0.5]], values, [ShownMeasure("x")], by_turn)
    assert (first.text, second.text, second.change, second.best) == ("–", ".5000", "", False)


def test_means_that_look_alike_are_both_best_or_none():
    clusters = Clusters("turn", ["a"])
    means = [[0.5], [0.50001], [0.2]]
    rows = compare_means(means, {"a": means}, [ShownMeasure("x")], clusters)
    assert [row[0].best for row in rows] == [True, True, False]
    rows = compare_means(means[:2], {"a": means[:2]}, [ShownMeasure("x")], clusters)
    assert [row[0].best for row in rows] == [False, False]


def test_the_note_says_what_differences_and_marks_rest_on():
    assert comparison_note(Clusters("user", list("ab"), of="session"), "raw") == (
        "Differences are from raw. ↑ significantly higher, ↓ significantly lower: two-sided paired "
        "t-test robust to clusters, over 2 sessions of 2 users, Bonferroni, p < .05. The intervals "
        "of 95 % are of the same test, not corrected. Nothing is marked: a test needs 5 users or "
        "more, and these are 2."
    )
    assert "was taken from its id" in comparison_note(SIX, "raw")


def test_a_page_in_a_notebook_is_a_frame_and_says_its_size(tmp_path):
    page = Report('<p class="a">&</p>', 'a"b')
    assert page._repr_html_() == (
        '<iframe title="a&quot;b" srcdoc="&lt;p class=&quot;a&quot;&gt;&amp;&lt;/p&gt;" '
        'sandbox="allow-scripts" width="100%" height="720" style="border: 0"></iframe>'
    )
    assert repr(Report("ä" * 600_000, "x")) == "<report of x, 1.2 MB: .save(path) writes it>"
    path = page.save(tmp_path / "page.html")
    assert path.read_text(encoding="utf-8") == '<p class="a">&</p>'


def test_groups_follow_each_other_in_overview_and_turns():
    both = content(groups=[Group("1", UNITS), Group("2", [Unit("2_1", 1, [None, None])])])
    assert len(overview(both)["scores"]) == 3
    assert [unit["name"] for unit in turns(both)["turns"]] == ["1_1", "1_2", "2_1"]


def test_signs_that_a_page_cannot_hold_are_replaced():
    odd = content(groups=[Group("1", [Unit("1_1", 1, [None], utterance="a\x00b")])])
    assert turns(odd)["turns"][0]["utterance"] == "a\ufffdb"
    named = content(names=["a\ud800"])
    assert "\ud800" not in Report.of(named).html


def test_each_measure_is_tested_by_its_own_values():
    clusters = Clusters("turn", list("abcdef"))
    values = {}
    for number, name in enumerate("abcdef"):
        values[name] = [[0.0, 1.0], [0.1 + number / 100, 1.0], [0.0, 0.5 - number / 100]]
    means = [[0.0, 1.0], [0.125, 1.0], [0.0, 0.475]]
    measures = [ShownMeasure("x"), ShownMeasure("y")]
    first, second, third = compare_means(means, values, measures, clusters)
    assert [(mean.side, mean.change) for mean in first] == [("", ""), ("", "")]
    assert [(mean.side, mean.change) for mean in second] == [("win", "+.1250"), ("", ".0000")]
    assert [(mean.side, mean.change) for mean in third] == [("", ".0000"), ("loss", "−.5250")]
    lacking = {}
    for name, (of_first, _, of_third) in values.items():
        lacking[name] = [of_first, [math.nan, 1.0], of_third]
    rows = compare_means(means, lacking, measures, clusters)
    assert rows[2][0].interval == ""  # a system lacks a value
    assert rows[2][1].side == "loss"


def test_no_text_begins_an_element_or_a_comment_in_a_script():
    assert in_script(["<!--", "<b>"]) == '["\\u003c!--","\\u003cb>"]'


def test_names_in_the_script_of_a_page_are_replaced_too():
    assert "\\u0000" not in Report.of(content(names=["a\x00"])).html


def test_a_label_is_written_as_a_whole_number():
    step = ShownStep(passages=[ListedPassage(1, "a", None, label=2.0)])
    page = content(groups=[Group("1", [Unit("1_1", 1, [Side([step])])])])
    [side] = turns(page)["turns"][0]["sides"]
    assert json.dumps(side["steps"][0]["passages"][0]) == '{"rank": 1, "text": 0, "label": 2}'
