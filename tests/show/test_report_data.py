"""The content of a page as JSON, its title, and the run that is shown first."""

import base64
import gzip
import json
import math

import pytest

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
from pyterrier_ikat.show.report.means import Mean, ShownMeasure
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


def test_groups_follow_each_other_in_overview_and_turns():
    both = content(groups=[Group("1", UNITS), Group("2", [Unit("2_1", 1, [None, None])])])
    assert len(overview(both)["scores"]) == 3
    assert [unit["name"] for unit in turns(both)["turns"]] == ["1_1", "1_2", "2_1"]


def test_a_label_is_written_as_a_whole_number():
    step = ShownStep(passages=[ListedPassage(1, "a", None, label=2.0)])
    page = content(groups=[Group("1", [Unit("1_1", 1, [Side([step])])])])
    [side] = turns(page)["turns"][0]["sides"]
    assert json.dumps(side["steps"][0]["passages"][0]) == '{"rank": 1, "text": 0, "label": 2}'


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


def test_signs_that_a_page_cannot_hold_are_replaced():
    odd = content(groups=[Group("1", [Unit("1_1", 1, [None], utterance="a\x00b")])])
    assert turns(odd)["turns"][0]["utterance"] == "a\ufffdb"
    named = content(names=["a\ud800"])
    assert "\ud800" not in Report.of(named).html


def test_no_text_begins_an_element_or_a_comment_in_a_script():
    assert in_script(["<!--", "<b>"]) == '["\\u003c!--","\\u003cb>"]'


def test_names_in_the_script_of_a_page_are_replaced_too():
    assert "\\u0000" not in Report.of(content(names=["a\x00"])).html


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
