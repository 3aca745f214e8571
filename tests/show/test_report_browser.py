"""The page of a report in a browser: its limits, filters and links, without scripts, on a phone."""

import pandas as pd
import pytest
from in_browser import DESK, PHONE, open_all_boxes
from playwright.sync_api import expect
from seen import choose, turns
from small_runs import ranking

from pyterrier_ikat.conversations.frame import column
from pyterrier_ikat.show import report

ATTACK = "<script>document.title = 'owned'</script><img src=x onerror=\"document.title = 'owned'\">"


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    """Two runs on two conversations of three turns: `b` wins, ties and loses; one isn't judged."""
    turns = [f"{chat}_{turn}" for chat in ("1-1", "2-1") for turn in (1, 2, 3)]
    orders = {"a": ["no", "yes", "yes"] * 2, "b": ["yes", "yes", "no"] * 2}
    runs = {}
    for name, firsts in orders.items():
        rows = [
            (qid, f"{qid}-{doc}", 2.0 - rank)
            for qid, first in zip(turns, firsts, strict=True)
            for rank, doc in enumerate((first, "else"))
        ]
        frame = ranking(rows)
        utterance = [f"What of {qid}? {ATTACK}" for qid in frame["qid"]]
        text = [
            f"{'filler ' * 40} secret-{docno} R&D<{docno}> {ATTACK}" for docno in frame["docno"]
        ]
        runs[name] = frame.assign(
            qutterance=utterance,
            text=text,
            qanswer="It depends.",
            used=frame["rank"] == 1,
            qsubqueries=column([["one", "two"]] * len(frame)),
        )
    qrels = pd.DataFrame(
        {"qid": turns[:5], "docno": [f"{qid}-yes" for qid in turns[:5]], "label": 1}
    )
    path = tmp_path_factory.mktemp("page") / "report.html"
    return (
        report(
            runs, qrels=qrels, measures=["P@1", "AP", "nDCG@3", "nDCG@5", "nDCG", "R@20", "R@1000"]
        )
        .save(path)
        .as_uri()
    )


def test_no_text_of_a_run_becomes_script(page, url):
    page.goto(url)
    expect(page).to_have_title("a, b")
    expect(turns(page)).to_have_count(6)
    expect(page.locator("img, script")).to_have_count(1)
    assert page.evaluate("performance.getEntriesByType('resource').length") == 0


def test_a_script_that_gets_into_the_page_does_not_run(page, url, allowed_errors):
    allowed_errors.append("Content Security Policy")
    page.goto(url)
    with page.expect_console_message(lambda message: "inline event handler" in message.text):
        page.evaluate(
            "document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"document.title "
            "= 1\">')"
        )
    expect(page).to_have_title("a, b")


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"group": "2"}, ["2-1_1", "2-1_2", "2-1_3"]),
        ({"outcome": "win"}, ["1-1_1", "2-1_1"]),
        ({"outcome": "loss"}, ["1-1_3"]),
        ({"outcome": "tie"}, ["1-1_2", "2-1_2"]),
        ({"measure": "1", "outcome": "loss"}, ["1-1_3"]),
        ({"search": "SECRET-2-1_2-yes filler"}, ["2-1_2"]),
        ({"search": "r&d<2-1_2-yes>"}, ["2-1_2"]),
        ({"search": "<ol"}, []),
        ({"search": "nowhere to be found"}, []),
    ],
    ids=lambda given: "-".join(given.values()) if isinstance(given, dict) else "",
)
def test_filters(page, url, fields, expected):
    page.goto(url)
    choose(page, **fields)
    expect(turns(page)).to_have_text(expected)
    expect(page.locator("#count")).to_have_text(f"{len(expected)} of 6")
    expect(page.locator("#none")).to_be_visible(visible=not expected)
    page.get_by_role("button", name="Reset").click()
    expect(turns(page)).to_have_count(6)


def test_an_address_leads_to_a_passage_that_a_filter_hides(page, url):
    page.goto(url)
    choose(page, outcome="loss")
    passage = page.locator("#p5-0-1-2")
    expect(passage).to_be_hidden()
    page.evaluate("location.hash = '#p5-0-1-2'")
    expect(passage).to_be_in_viewport()


def test_a_citation_leads_to_its_passage(page, url):
    page.goto(url)
    page.locator("#t2 .n1 .cited a").first.click()
    expect(page).to_have_url(f"{url}#p2-1-1-2")
    expect(page.locator("#t2 .n1 .passages")).to_have_attribute("open", "")
    expect(page.locator("#p2-1-1-2")).to_be_in_viewport()


def test_all_of_it_can_be_read_without_javascript(new_page, url):
    page = new_page(java_script_enabled=False)
    page.goto(url)
    for text in (
        "What of 2-1_3?",
        "It depends.",
        "2 sub-queries",
        "2 passages",
        "Conversation 2-1",
    ):
        expect(page.locator("main").get_by_text(text).first).to_be_visible()
    expect(page.locator("#filters")).to_be_hidden()
    last = page.locator("#t6 .passages").first
    last.locator("summary").first.click()
    expect(last.get_by_text("2-1_3-else").first).to_be_visible()


@pytest.mark.parametrize("view", [PHONE, DESK], ids=["phone", "desk"])
def test_it_fits_a_phone_and_a_desk_in_light_and_dark(new_page, url, view):
    page = new_page(**view)
    page.goto(f"{url}#t1")
    open_all_boxes(page)
    dark = view["color_scheme"] == "dark"
    expect(page.locator("body")).to_have_css(
        "background-color", "rgb(20, 23, 27)" if dark else "rgb(250, 249, 246)"
    )
    assert page.evaluate("document.documentElement.scrollWidth") == view["viewport"]["width"]
    assert page.locator(".turn").evaluate_all(
        "all => all.every(one => one.scrollWidth <= one.clientWidth)"
    )
    boxes = page.locator(".means table, .passages li, .headline")
    assert (
        boxes.evaluate_all("all => all.filter(one => one.scrollWidth > one.clientWidth + 1).length")
        == 0
    )


def test_title_and_toolbar_have_one_line_on_a_desk(new_page, url):
    page = new_page(**DESK)
    page.goto(url)
    bottoms = page.locator("#filters > *").evaluate_all(
        "all => all.map(one => Math.round(one.getBoundingClientRect().bottom))"
    )
    assert len(set(bottoms)) == 1
    assert page.locator("h1").evaluate("one => one.offsetHeight") < 40
