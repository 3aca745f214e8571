"""The page of a report in a browser: its limits, filters and links, without scripts, on a phone."""

import re

import pandas as pd
import pytest
from in_browser import DESK, PHONE, open_all_boxes, shown
from playwright.sync_api import expect
from seen import choose, open_turns, turns
from small_runs import best_first, ranking

from pyterrier_ikat.conversations.frame import column
from pyterrier_ikat.show import report

ATTACK = "<script>document.title = 'owned'</script><img src=x onerror=\"document.title = 'owned'\">"


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    """Two runs on two conversations of three turns: `b` wins, ties and loses; one isn't judged."""
    turns = ["1-1_1", "1-1_2", "1-1_3", "2-1_1", "2-1_2", "2-1_3"]
    orders = {"a": ["no", "yes", "yes"] * 2, "b": ["yes", "yes", "no"] * 2}
    runs = {}
    for name, firsts in orders.items():
        docnos = {}
        for qid, first in zip(turns, firsts, strict=True):
            docnos[qid] = [f"{qid}-{first}", f"{qid}-else"]
        frame = best_first(docnos, top=2.0)
        secret = "secret-" + frame["docno"] + " R&D<" + frame["docno"] + ">"
        runs[name] = frame.assign(
            qutterance="What of " + frame["qid"] + f"? {ATTACK}",
            text="filler " * 40 + " " + secret + f" {ATTACK}",
            qanswer="It depends.",
            used=frame["rank"] == 1,
            qsubqueries=column([["one", "two"]] * len(frame)),
        )
    qrels = pd.DataFrame(
        {"qid": turns[:5], "docno": [f"{qid}-yes" for qid in turns[:5]], "label": 1}
    )
    measures = ["P@1", "AP", "nDCG@3", "nDCG@5", "nDCG", "R@20", "R@1000"]
    made = report(runs, qrels=qrels, measures=measures)
    return made.save(tmp_path_factory.mktemp("page") / "report.html").as_uri()


def test_no_text_of_a_run_becomes_script(page, url):
    page.goto(url)
    expect(page).to_have_title("a, b")
    expect(turns(page)).to_have_count(6)
    open_turns(page)
    expect(page).to_have_title("a, b")
    expect(page.locator("img, script:not([type])")).to_have_count(1)
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
    expect(passage).to_have_count(0)
    page.evaluate("location.hash = '#p5-0-1-2'")
    expect(passage).to_be_in_viewport()


def test_a_citation_leads_to_its_passage(page, url):
    page.goto(url)
    page.locator("#t2 > summary").click()
    page.locator("#t2 .other .cited a").first.click()
    expect(page).to_have_url(f"{url}#p2-1-1-2")
    expect(page.locator("#t2 .other .passages")).to_have_attribute("open", "")
    expect(page.locator("#p2-1-1-2")).to_be_in_viewport()


def test_an_address_leads_to_a_passage_of_a_system_not_compared(page, tmp_path):
    frame = ranking([("1_1", "a", 1.0)])
    runs = {}
    for name in ("raw", "b", "c"):
        runs[name] = frame.assign(text=f"tea of {name}")
    made = report(runs)
    page.goto(f"{made.save(tmp_path / 'three.html').as_uri()}#p1-2-1-1")
    expect(page.locator("#p1-2-1-1")).to_be_in_viewport()
    expect(page.locator("#filters [name=run]")).to_have_value("2")


def test_means_and_utterances_can_be_read_without_javascript(new_page, url):
    page = new_page(java_script_enabled=False)
    page.goto(url)
    for text in ("What of 2-1_3?", "Conversation 2-1", ".6000"):
        expect(page.locator("body").get_by_text(text).first).to_be_visible()
    expect(page.locator("noscript p")).to_be_visible()
    expect(page.locator("#filters")).to_be_hidden()


def read_all(page):
    """Open all turns, and return their text."""
    open_turns(page)
    return page.locator("main").evaluate("main => main.textContent")


def test_turns_are_drawn_where_decompressionstream_is_missing(new_page, url):
    page = new_page()
    older = new_page()
    page.goto(url)
    older.add_init_script("delete window.DecompressionStream")
    older.goto(url)
    assert older.evaluate("typeof DecompressionStream") == "undefined"
    text = read_all(page)
    assert "secret-2-1_3-yes" in text
    assert read_all(older) == text


def test_it_can_be_used_in_the_frame_of_a_notebook(page, tmp_path):
    frame = ranking([("1_1", "a", 1.0), ("1_2", "b", 1.0)])
    run = frame.assign(text="tea", qutterance="What?", qanswer="Mint.", used=True)
    notebook = tmp_path / "notebook.html"
    notebook.write_text(report({"raw": run, "b": run})._repr_html_(), encoding="utf-8")
    page.goto(notebook.as_uri())
    inside = page.frame_locator("iframe")
    inside.locator("#t2 > summary").click()
    inside.locator("#t2 .other .cited a").click()  # the address of the frame has no place for it
    expect(inside.locator("#p2-1-1-1")).to_be_in_viewport()
    inside.locator("[name=search]").fill("nowhere")
    expect(inside.locator("#none")).to_be_visible()
    assert page.url == notebook.as_uri()


def test_all_turns_are_printed_as_they_are_filtered(page, url):
    page.goto(url)
    choose(page, group="2")
    page.locator("#t4 > summary").click()
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    expect(shown(page, ".turn .answer")).to_have_count(6)  # of three turns and two systems
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    page.emulate_media(media="screen")
    expect(shown(page, ".turn .answer")).to_have_count(2)


def test_a_page_is_printed_whole_before_it_is_unpacked(page, url):
    # as a program prints: at once, when nothing that takes time has ended
    page.add_init_script("Response.prototype.text = () => new Promise(() => {})")
    page.goto(url)
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    expect(shown(page, ".turn .answer")).to_have_count(12)


def test_a_file_that_was_cut_says_so(page, tmp_path, allowed_errors):
    allowed_errors.append("")
    html = report(ranking([("1_1", "a", 1.0)])).html
    cut = re.sub(r'(id="turns">"[^"]{40})[^"]*', r"\1", html)
    (tmp_path / "cut.html").write_text(cut, encoding="utf-8")
    page.goto((tmp_path / "cut.html").as_uri())
    expect(page.locator("#broken")).to_be_visible()
    expect(turns(page)).to_have_text(["1_1"])


@pytest.mark.parametrize(
    "text",
    [
        "a \u2028 b \u2029 c",
        "</script><!-- <script>",
        "שלום \u202e abc",
        "\\u003cb\\u003e",
        "&lt;b&gt;",
    ],
    ids=["separators", "script", "direction", "escaped", "entities"],
)
def test_hostile_texts_reach_the_reader_as_they_are(page, tmp_path, text):
    run = ranking([("1_1", f"d {text}", 1.0)])
    wrote = {"qutterance": text, "qrewrite": text, "qanswer": f"answer {text}", "text": text}
    run = run.assign(**wrote)
    page.goto(report({f"run {text}": run}).save(tmp_path / "hostile.html").as_uri())
    open_turns(page)
    assert page.locator("h3 + .utterance").text_content() == text
    assert page.locator(".query").text_content() == text
    assert page.locator(".answer, .draft").first.text_content() == f"answer {text}"
    assert page.locator(".passages code").text_content() == f"d {text}"
    assert page.locator(".passages li p").text_content() == " ".join(text.split())
    assert page.locator(".side h4").text_content() == f"run {text}"
    expect(page.locator("script:not([type])")).to_have_count(1)


def test_a_turn_is_opened_and_read_by_keyboard(page, url):
    page.goto(url)
    page.locator("#t1 > summary").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#t1 .side")).to_have_count(2)
    page.keyboard.press("Space")
    expect(page.locator("#t1 .side").first).to_be_hidden()
    assert page.get_by_role("heading", name="Turn 1 1-1_1").count() == 1


@pytest.mark.parametrize("view", [PHONE, DESK], ids=["phone", "desk"])
def test_it_fits_a_phone_and_a_desk_in_light_and_dark(new_page, url, view):
    page = new_page(**view)
    page.goto(f"{url}#t1")
    open_turns(page)
    open_all_boxes(page)
    dark = view["color_scheme"] == "dark"
    expect(page.locator("body")).to_have_css(
        "background-color", "rgb(20, 23, 27)" if dark else "rgb(250, 249, 246)"
    )
    assert page.evaluate("document.documentElement.scrollWidth") == view["viewport"]["width"]
    assert page.locator(".turn").evaluate_all(
        "all => all.every(one => one.scrollWidth <= one.clientWidth)"
    )
    boxes = page.locator(".passages li, .headline, .largest li, .axis")
    too_wide = "all => all.filter(one => one.scrollWidth > one.clientWidth + 1).length"
    assert boxes.evaluate_all(too_wide) == 0


def test_title_and_toolbar_have_one_line_on_a_desk(new_page, url):
    page = new_page(**DESK)
    page.goto(url)
    bottoms = page.locator("#filters > *").evaluate_all(
        "all => all.map(one => Math.round(one.getBoundingClientRect().bottom))"
    )
    assert len(set(bottoms)) == 1
    assert page.locator("h1").evaluate("one => one.offsetHeight") < 40
