"""What the chat page keeps: over a reload, after Stop, New conversation and Ask again."""

import threading

import pandas as pd
import pyterrier as pt
import pytest
from chat_page import TEA, ask, open_chat, say, wait_for_answers, write_persona
from fakes import Types
from in_browser import DESK, PHONE, open_all_boxes, shown, violations
from page_server import CUT, answer, chunk
from playwright.sync_api import expect

import pyterrier_ikat as ikat
from pyterrier_ikat.live.serving import running
from pyterrier_ikat.llms import LLM, Reply


def chats(server):
    """The ids of the conversations that were asked, each once."""
    return list(dict.fromkeys(body["metadata"]["chat_id"] for body in server.asked))


def test_a_reload_in_mid_stream_reads_on_and_asks_nothing_again(page, server):
    held = server.hold()
    slow = [chunk(ikat={"activity": "answering"}), chunk("Half"), held, *answer("Half and half.")]
    open_chat(page, server, [answer("Rooibos [1].", TEA), slow], [answer("Mint."), answer("Hot.")])
    write_persona(page, "I avoid caffeine.")
    ask(page, "Which tea?")
    say(page, "And how?")
    expect(page.locator(".turn:last-child .answer")).to_have_text(["Half", "Hot."])
    page.reload()
    expect(page.locator(".utterance")).to_have_text(["Which tea?", "And how?"])
    expect(page.locator(".answer")).to_have_text(["Rooibos. 1", "Mint.", "Half", "Hot."])
    expect(page.get_by_role("button", name="Stop")).to_be_visible()
    held.set()
    wait_for_answers(page)
    expect(page.locator(".answer")).to_have_text(["Rooibos. 1", "Mint.", "Half and half.", "Hot."])
    expect(page.locator("#persona")).to_have_value("I avoid caffeine.")
    page.locator(".cite").click()
    expect(shown(page, ".s0 .target .whole")).to_have_text([TEA[1]])
    assert len(server.asked) == 4
    assert len(chats(server)) == 1


def test_words_stay_where_the_server_has_forgotten_the_answer(page, server, allowed_errors):
    allowed_errors.append("404")
    held = server.hold()
    open_chat(
        page, server, [[chunk("Half [1] "), held], answer("Whole."), answer("C.")], both=False
    )
    say(page, "Which tea?")
    expect(page.locator(".answer")).to_have_text(["Half [1]"])
    server.under_way.clear()
    page.reload()
    expect(page.locator(".turn .problem")).to_contain_text("left before the answer was complete")
    expect(page.locator(".answer")).to_have_text(["Half [1]"])
    ask(page, "And how?")
    assert server.told("plain")[1][1] == {"role": "assistant", "content": "Half "}


def test_a_broken_connection_keeps_the_words_and_reads_on(page, server):
    broken = [chunk("Half"), CUT, *answer("Half and half.")]
    open_chat(page, server, [broken], both=False)
    ask(page, "Which tea?")
    expect(page.locator(".answer")).to_have_text(["Half"])
    expect(page.locator(".turn .problem")).to_contain_text("The connection ended")
    page.get_by_role("button", name="Retry: plain").click()
    expect(page.locator(".answer")).to_have_text(["Half and half."])
    assert len(server.asked) == 1


def test_a_reload_pays_for_each_call_of_a_real_system_once(page):
    may = threading.Event()
    last = "Rooibos is red [1].\n\nIt is mild."
    backend = Types(
        ["Rooibos is red [1].\n\nIt", lambda: may.wait(60), Reply(last)], [Reply("Never.")]
    )
    passages = pd.DataFrame({"docno": ["d1"], "text": ["Red."], "score": [1.0], "rank": [0]})
    finds = pt.apply.generic(lambda turns: turns.merge(passages, how="cross"))
    with running({"talks": finds >> ikat.Respond(LLM(backend))}) as server:
        page.goto(f"{server.url}/")
        expect(page.locator("#send")).to_be_enabled()
        say(page, "Which tea?")
        expect(page.locator(".answer p").first).to_have_text("Rooibos is red. 1")
        expect(page.locator(".rest")).to_have_text("It")
        page.reload()
        expect(page.locator(".rest")).to_have_text("It")
        may.set()
        expect(page.locator(".answer p")).to_have_text(["Rooibos is red. 1", "It is mild."])
        expect(page.locator(".figures")).to_contain_text("1 LLM call")
        page.reload()
        expect(page.locator(".answer p")).to_have_text(["Rooibos is red. 1", "It is mild."])
    assert backend.followed == ["respond"]


def fresh(page):
    page.get_by_role("button", name="New conversation").click()
    expect(page.locator(".turn")).to_have_count(0)


def test_a_new_conversation_can_be_undone_until_a_question(page, server):
    held = server.hold()
    open_chat(
        page,
        server,
        [answer("Rooibos."), [chunk("Half"), held], answer("C."), answer("D.")],
        both=False,
    )
    ask(page, "Which tea?")
    say(page, "And how?")
    expect(page.locator(".answer")).to_have_text(["Rooibos.", "Half"])
    fresh(page)
    page.reload()
    expect(page.locator("#system0")).to_be_enabled()
    page.get_by_role("button", name="Back to Which tea?").click()
    expect(page.locator(".answer")).to_have_text(["Rooibos.", "Half"])
    expect(page.locator(".turn .none")).to_have_text(["Stopped."])
    ask(page, "And cold?")
    assert len(chats(server)) == 1
    assert len(server.told("plain")[-1]) == 5
    fresh(page)
    ask(page, "Another one?")
    assert len(chats(server)) == 2
    expect(page.locator("#undo")).to_be_hidden()
    page.reload()
    expect(page.locator(".utterance")).to_have_text(["Another one?"])


def edit(page, number, text, wait=True):
    """Change the question of a turn."""
    page.get_by_role("button", name=f"Edit turn {number}").click()
    page.get_by_label("The question", exact=True).fill(text)
    page.get_by_role("button", name="Ask this").click()
    if wait:
        wait_for_answers(page)


def test_an_edit_can_be_undone_and_made_again(page, server):
    replies = [answer(text) for text in ("A.", "B.", "C.", "D.", "E.")]
    open_chat(page, server, replies, both=False)
    for text in ("one", "two", "three"):
        ask(page, text)
    edit(page, 2, "other")
    expect(page.locator(".answer")).to_have_text(["A.", "D."])
    page.reload()
    expect(page.locator(".answer")).to_have_text(["A.", "D."])
    page.get_by_role("button", name="Back to two").click()
    expect(page.locator(".utterance")).to_have_text(["one", "two", "three"])
    expect(page.locator(".answer")).to_have_text(["A.", "B.", "C."])
    page.get_by_role("button", name="Back to other").click()
    expect(page.locator(".answer")).to_have_text(["A.", "D."])
    page.get_by_role("button", name="Back to two").click()
    page.reload()
    ask(page, "four")
    expect(page.locator("#undo")).to_be_hidden()
    contents = [message["content"] for message in server.told("plain")[-1]]
    assert contents == ["one", "A.", "two", "B.", "three", "C.", "four"]
    assert len(chats(server)) == 1


def switch_on(page):
    page.get_by_label("Keep my last 20 conversations").check()


def test_the_first_question_comes_back_after_its_edit(page, server):
    open_chat(page, server, [answer(text) for text in ("A.", "B.", "C.", "D.")], both=False)
    switch_on(page)
    ask(page, "one")
    ask(page, "two")
    edit(page, 1, "other")
    expect(page.locator(".answer")).to_have_text(["C."])
    page.get_by_role("button", name="Back to one").click()
    expect(page.locator(".answer")).to_have_text(["A.", "B."])
    ask(page, "three")
    first, second = chats(server)
    assert server.asked[-1]["metadata"]["chat_id"] == first != second


def kept(page):
    return page.locator("#kept-list button")


def test_an_edit_is_undone_while_its_answer_is_under_way(page, server):
    held = server.hold()
    replies = [answer("A."), answer("B."), [chunk("Half"), held], answer("D.")]
    open_chat(page, server, replies, both=False)
    switch_on(page)
    ask(page, "one")
    ask(page, "two")
    edit(page, 2, "other", wait=False)
    expect(page.locator(".answer")).to_have_text(["A.", "Half"])
    page.get_by_role("button", name="Back to two").click()
    expect(page.locator(".answer")).to_have_text(["A.", "B."])
    fresh(page)  # the list has the conversation as it is now
    kept(page).click()
    expect(page.locator(".utterance")).to_have_text(["one", "two"])
    assert len(server.asked) == 3


def test_an_undo_of_systems_that_went_stays_and_says_so(page, server):
    open_chat(page, server, [answer("A.")], both=False)
    ask(page, "one")
    fresh(page)
    page.evaluate(
        "sessionStorage['ikat-undo'] = sessionStorage['ikat-undo'].replaceAll('plain', 'gone')"
    )
    page.goto("about:blank")
    page.go_back()
    back = page.get_by_role("button", name="Back to one")
    back.click()
    expect(page.get_by_role("alert")).to_contain_text("its systems are not served here")
    expect(back).to_be_visible()


def test_ask_again_keeps_all_answers(page, server):
    answers = [answer(text) for text in ("Rooibos.", "Mint.", "Sage.", "Hot.")]
    open_chat(page, server, answers, both=False)
    ask(page, "Which tea?")
    expect(page.locator(".versions")).to_have_count(0)
    for text, count in (("Mint.", "2 of 2"), ("Sage.", "3 of 3")):
        page.get_by_role("button", name="Ask again: plain").click()
        expect(page.locator(".answer")).to_have_text([text])
        expect(page.locator(".count")).to_have_text(count)
    assert [body["sample"] for body in server.asked] == [0, 1, 2]
    page.get_by_role("button", name="Earlier answer: plain").click()
    expect(page.locator(".answer")).to_have_text(["Mint."])
    page.reload()
    expect(page.locator(".count")).to_have_text("2 of 3")
    ask(page, "And how?")
    assert server.told("plain")[-1][1]["content"] == "Mint."
    page.get_by_role("button", name="Later answer: plain").click()
    expect(page.locator(".answer").first).to_have_text("Sage.")
    expect(page.locator(".used")).to_have_text("The conversation went on with 2.")
    expect(page.get_by_role("button", name="Later answer: plain")).to_be_disabled()


def test_a_typed_draft_survives(page, server):
    open_chat(page, server, [answer("Rooibos.")], both=False)
    words = page.get_by_label("Your question")
    words.fill("Which tea")
    page.reload()
    expect(words).to_have_value("Which tea")
    ask(page, "Which tea?")
    page.reload()
    expect(words).to_have_value("")


def test_a_duplicated_tab_is_a_conversation_of_its_own(page, server):
    open_chat(page, server, [answer(text) for text in ("A.", "B.", "C.")], both=False)
    ask(page, "Which tea?")
    page.reload()
    expect(page.locator(".answer")).to_have_text(["A."])
    with page.context.expect_page() as opened:
        page.evaluate("void window.open(location.href)")
    other = opened.value
    expect(other.locator(".answer")).to_have_text(["A."])
    ask(other, "And cold?")
    ask(page, "And hot?")
    first, second, third = [body["metadata"]["chat_id"] for body in server.asked]
    assert first == third != second
    assert [body["messages"][0]["content"] for body in server.asked] == ["Which tea?"] * 3


def test_conversations_are_listed_only_if_switched_on(page, server):
    open_chat(page, server, [answer(f"Answer {number}.") for number in range(30)], both=False)
    ask(page, "Which tea?")
    fresh(page)
    assert page.evaluate("localStorage.length") == 0
    switch_on(page)
    for number in range(21):
        ask(page, f"question {number}")
        fresh(page)
    named = [f"question {number}" for number in range(20, 0, -1)]
    expect(kept(page)).to_have_text(named)
    page.reload()
    expect(kept(page)).to_have_text(named)
    kept(page).nth(19).click()
    expect(page.locator(".utterance")).to_have_text(["question 1"])
    expect(page.locator(".answer")).to_have_text(["Answer 2."])
    expect(kept(page).nth(19)).to_be_disabled()
    ask(page, "And how?")
    expect(kept(page).first).to_have_text("question 1")  # the newest
    assert server.asked[-1]["metadata"]["chat_id"] == server.asked[2]["metadata"]["chat_id"]
    page.get_by_role("button", name="Forget all").click()
    expect(kept(page)).to_have_count(0)
    assert page.evaluate("Object.keys(localStorage)") == ["ikat-keep"]


def test_a_full_storage_is_told(page, server):
    open_chat(page, server, [answer("Rooibos."), answer("Hot.")], both=False)
    page.evaluate(
        "for (const size of [1e6, 1e5, 1e4, 1e3, 1e2])"
        " try { for (let n = 0; ; n++) localStorage.setItem(`x${size}${n}`, 'x'.repeat(size)) }"
        " catch {}"
    )
    ask(page, "Which tea?")
    page.evaluate("localStorage.setItem('ikat-keep', 'on')")
    page.reload()
    ask(page, "And how?")
    expect(page.locator("#kept-about")).to_contain_text("The storage of this browser is full")
    expect(page.locator("#news")).to_contain_text("The storage of this browser is full")
    expect(kept(page)).to_have_count(0)


@pytest.mark.parametrize("view", [PHONE, DESK], ids=["phone", "desk"])
def test_nothing_of_what_is_kept_keeps_people_out(new_page, server, view):
    page = new_page(**view)
    held = server.hold()
    replies = [answer("Rooibos [1].", TEA), answer("Mint [1].", TEA), [chunk("Half [1]. "), held]]
    open_chat(page, server, replies, both=False)
    open_all_boxes(page)
    switch_on(page)
    ask(page, "Which tea?")
    page.get_by_role("button", name="Ask again: plain").click()
    expect(page.locator(".count")).to_have_text("2 of 2")
    say(page, "And how?")
    expect(page.locator(".rest")).to_be_visible()
    page.get_by_role("button", name="Stop").click()
    expect(page.locator(".turn .none")).to_have_text(["Stopped."])
    open_all_boxes(page)
    page.locator(".cite").first.focus()
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Tab")
    expect(page.get_by_role("tooltip")).to_be_visible()
    assert violations(page) == []
    page.keyboard.press("Escape")
    fresh(page)
    open_all_boxes(page)
    expect(page.locator("#undo")).to_be_visible()
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") == view["viewport"]["width"]


def test_a_tab_that_keeps_nothing_says_it(page, server):
    page.add_init_script("Storage.prototype.setItem = () => { throw new Error('forbidden') }")
    open_chat(page, server, [answer("Rooibos."), answer("Hot.")], both=False)
    ask(page, "Which tea?")
    expect(page.locator("#kept-about")).to_contain_text("does not keep the conversation")
    fresh(page)
    page.get_by_role("button", name="Back to Which tea?").click()
    expect(page.locator(".answer")).to_have_text(["Rooibos."])


@pytest.mark.parametrize("view", [PHONE, DESK], ids=["phone", "desk"])
def test_a_reload_stands_at_the_last_turn(new_page, server, view):
    page = new_page(**view)
    long = "\n\n".join(["Rooibos is a red tea. " * 20] * 5)
    open_chat(page, server, [answer(long) for _ in range(6)], both=False)
    for number in range(6):
        ask(page, f"question {number}")
    page.evaluate("scrollTo(0, 0)")
    page.reload()
    expect(page.locator(".utterance").last).to_be_in_viewport()
    expect(page.locator(".utterance").nth(4)).not_to_be_in_viewport()
