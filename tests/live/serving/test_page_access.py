"""The chat page for everybody: keyboard, screen reader, narrow windows, texts from the right."""

import re

import pytest
from chat_page import CITED, MARKDOWN, MINT, TEA, ask, choose, open_chat, say
from in_browser import DESK, PHONE, open_all_boxes, shown, violations
from page_server import CUT, answer, chunk
from playwright.sync_api import expect


def test_a_conversation_is_held_by_keyboard_alone(page, server):
    held = server.hold()
    open_chat(page, server, [answer("Rooibos."), [held]], both=False)
    words = page.locator("#words")
    expect(words).to_be_focused()
    page.keyboard.insert_text("Which")
    page.keyboard.press("Shift+Enter")
    page.keyboard.insert_text("tea?")
    page.keyboard.press("Enter")
    expect(page.locator(".figures")).to_have_count(1)
    assert page.locator(".utterance").text_content() == "Which\ntea?"
    page.keyboard.insert_text("And how?")
    page.keyboard.press("Enter")
    expect(page.locator(".activity")).to_have_count(1)
    page.keyboard.press("Escape")
    expect(page.locator(".turn .none")).to_have_text(["Stopped."])
    expect(shown(page, ".retry")).to_have_count(1)
    expect(words).to_be_focused()


FOCUSED = (
    "(one => one.getAttribute('aria-label') || one.id || one.textContent.slice(0, "
    "30))(document.activeElement)"
)


def test_the_tab_key_reaches_all_that_can_be_used(page, server):
    open_chat(page, server, [answer("Rooibos [1].", TEA)], [answer("Mint.")])
    ask(page, "Which tea?")
    page.locator("#conversation").focus()
    walked = []
    for _ in range(10):
        page.keyboard.press("Tab")
        expect(page.locator(":focus-visible")).to_have_count(1)
        walked.append(page.evaluate(FOCUSED))
    tools = [
        ("Copy the answer of plain with its sources", "Ask again: plain"),
        ("Copy the answer of gtr with its sources", "Ask again: gtr"),
    ]
    source = "1Rooibos has no caffeine.tea:1"
    steps = "How it searched"
    tools = [*tools[0], *tools[1]]
    assert walked == ["Edit turn 1", "Passage 1", source, steps, *tools, "words", "Send"]
    for _ in range(8):
        page.keyboard.press("Shift+Tab")
    page.keyboard.press("Enter")
    expect(shown(page, ".passages .target code")).to_have_text(["tea:1"])


def test_a_screen_reader_hears_activities_and_whole_answers(page, server):
    activities = ("rewriting", "searching 5 queries", "searching 5 queries")
    open_chat(
        page, server, [answer("Rooibos [1].", TEA, activity=activities)], [[chunk("Half"), CUT]]
    )
    ask(page, "Which tea?")
    heard = page.locator("#news p")
    expected = ["plain: rewriting", "plain: searching 5 queries", "plain: Rooibos. 1 passage."]
    expect(heard.filter(has_text=re.compile("^plain"))).to_have_text(expected)
    cut = "gtr: The connection ended before the answer was complete. Retry."
    expect(heard.filter(has_text=cut)).to_have_count(1)
    expect(page.locator("[aria-live]")).to_have_count(1)


def test_a_citation_shows_its_passage_to_pointer_and_keyboard(page, server):
    open_chat(page, server, [answer(CITED, TEA, MINT)], both=False)
    ask(page, "Which tea?")
    cites = page.locator(".cite")
    card = page.get_by_role("tooltip")
    cites.nth(1).hover()
    expect(card).to_contain_text(MINT[1])
    card.hover()
    expect(card).to_be_visible()
    page.locator(".utterance").hover()
    expect(card).to_be_hidden()
    cites.nth(1).focus()
    page.keyboard.press("Shift+Tab")
    expect(cites.nth(0)).to_be_focused()
    expect(card).to_contain_text(TEA[1])
    expect(cites.nth(0)).to_have_attribute("aria-describedby", "peek")
    page.keyboard.press("Escape")
    expect(card).to_be_hidden()


@pytest.mark.parametrize("view", [PHONE, DESK], ids=["phone", "desk"])
def test_nothing_keeps_people_from_using_the_page(new_page, server, view):
    page = new_page(**view)
    held = server.hold()
    facts = {
        "rewrite": "tea",
        "queries": ["a", "b"],
        "statements": ["I avoid caffeine."],
        "draft": "A draft",
    }
    long = ("clueweb22-" + "x" * 90, "word " * 90, 3.0)
    full = answer(f"Rooibos [1] {'y' * 120}\n{MARKDOWN}", long, MINT, **facts)
    slow = [chunk(ikat={"activity": "searching"}), held]
    open_chat(
        page, server, [full, full, slow], [[CUT], answer("Mint [1].", MINT), [held]], both=False
    )
    open_all_boxes(page)
    choose(page, "gtr")
    assert violations(page) == []
    ask(page, "Which tea?")
    ask(page, "Which one?")
    page.get_by_role("button", name="Edit turn 1").click()
    assert violations(page) == []
    page.get_by_role("button", name="Cancel").click()
    page.locator(".cite").first.click()
    say(page, "And how?")
    expect(page.locator(".activity")).to_have_count(2)
    open_all_boxes(page)
    assert violations(page) == []
    width = view["viewport"]["width"]
    assert page.evaluate("document.documentElement.scrollWidth") == width
    tops = []
    for place in (0, 1):
        box = page.locator(".side").nth(place).bounding_box()
        tops.append(round(box["y"]))
    assert (tops[0] == tops[1]) == (width == 1280)


# Edges and widths


def test_the_sidebar_returns_when_a_narrow_window_gets_wide(page, server):
    open_chat(page, server, [answer("Rooibos.")], both=False)
    page.set_viewport_size({"width": 390, "height": 844})
    expect(page.get_by_label("Persona: statements about you, one per line")).to_be_hidden()
    ask(page, "Which tea?")
    page.set_viewport_size({"width": 1280, "height": 900})
    page.get_by_role("button", name="New conversation").click()
    expect(page.locator(".turn")).to_have_count(0)


EDGES = """query => {
    const { left, right } = document.querySelector(query).getBoundingClientRect();
    return [Math.round(left), Math.round(right)];
}"""


@pytest.mark.parametrize("view", [PHONE, DESK], ids=["phone", "desk"])
def test_answer_passages_and_composer_have_the_same_edges(new_page, server, view):
    page = new_page(**view)
    words = "Rooibos is a red tea of little tannin, it is ill in it, till lilies fill a mill. " * 8
    open_chat(page, server, [answer(f"{words} [1]", TEA)], both=False)
    ask(page, "Which tea?")
    left, right = page.evaluate(EDGES, ".answer")
    assert right - left <= 44 * 16
    assert page.evaluate(EDGES, ".passages") == page.evaluate(EDGES, ".field") == [left, right]
    assert page.evaluate(EDGES, ".utterance")[1] == right
    send = page.evaluate(EDGES, "#send")
    assert right - 60 < send[0] < send[1] < right
    sidebar = 0 if view == PHONE else 17 * 16
    assert abs((left + right) - (sidebar + view["viewport"]["width"])) <= 2  # in the middle


def test_one_system_has_neither_rule_nor_name_above_its_answers(page, server):
    open_chat(page, server, [answer("Rooibos.")], both=False)
    ask(page, "Which tea?")
    expect(page.locator(".side h3")).to_have_count(0)
    expect(page.locator(".side")).to_have_css("border-top-width", "0px")
    expect(page.get_by_role("group", name="plain, turn 1")).to_have_count(1)


def test_lists_of_right_to_left_texts_stand_inside(page, server):
    listed = answer("1. الرويبوس أحمر وخفيف\n2. النعناع منعش")
    open_chat(page, server, [listed], both=False)
    ask(page, "ما الشاي؟")
    left, right = page.evaluate(EDGES, ".answer")
    expect(page.locator(".answer ol")).to_have_css("padding-right", "24px")
    expect(page.locator(".answer ol")).to_have_css("padding-left", "0px")
    assert page.evaluate(EDGES, ".answer li")[1] == right - 24
