"""The chat page in a browser, with a real server or one that answers what the test queues."""

import re
from itertools import islice

import pandas as pd
import pyterrier as pt
import pytest
from chat_page import (
    ask,
    choose,
    give_token,
    open_chat,
    save_answers,
    say,
    wait_for_answers,
    write_persona,
)
from in_browser import DESK, PHONE, open_all_boxes, shown, violations
from page_server import CUT, PAGE, answer, chunk, serving
from playwright.sync_api import expect

import pyterrier_ikat as ikat
from pyterrier_ikat.conversations import conversation, read_topics, topics_frame
from pyterrier_ikat.live.serving import running

ATTACK = (
    "<script>document.title = 'owned'</script><img src=x onerror=\"document.title = "
    "'owned'\"> [x](javascript:document.title='owned')"
)
BIDI = "\u202egnp.exe\u202c \u2066isolated\u2069"
TITLE = "Chat · pyterrier_ikat"
TEA = ("tea:1", "Rooibos has no caffeine.", 12.3456)
MINT = ("tea:2", "Mint tea is made of leaves.", 0.5)
CITE = '<button type="button" class="cite" aria-label="Passage 1">1</button>'
BLOCK = f"<p><strong>Rooibos</strong>. {CITE}</p>\n"
LISTED = "<ul>\n<li>mint</li>\n<li><strong>sage</strong> 😀</li>\n</ul>\n"
UNANSWERED = [{"role": "user", "content": "Which tea?"}, {"role": "user", "content": "And how?"}]


@pytest.fixture(scope="module")
def wire():
    with serving() as server:
        yield server


@pytest.fixture
def server(wire):
    """The server, as if it had just been started."""
    yield wire
    wire.renew()


def test_the_export_is_what_systems_on_the_sample_saw(page, allowed_errors, tmp_path):
    sample = ikat.dataset("ikat:sample")
    seen = []
    [talk, *_] = sample.conversations
    llm = ikat.llm("recorded:sample")
    passages = pd.DataFrame(islice(sample.get_corpus_iter(verbose=False), 3)).assign(
        score=[3.0, 2.0, 1.0], rank=[0, 1, 2]
    )
    finds = pt.apply.generic(lambda turns: turns.merge(passages, how="cross"))
    sees = pt.apply.generic(
        lambda turns: seen.append(turns.drop(columns=["qid", "qconversation"])) or turns
    )
    systems = {
        "responds": sees >> ikat.Rewrite(llm) >> finds >> ikat.Respond(llm),
        "ranks": finds % 2,
    }
    allowed_errors.append("401")
    with running(systems, token="s3cret-s3cret-s3cret") as server:
        page.goto(f"{server.url}/")
        give_token(page, "s3cret-s3cret-s3cret")
        choose(page, "ranks")
        expect(page.locator("#about0")).to_have_text("Works by rewriting, answering.")
        write_persona(page, "\n".join(talk.ptkb.values()))
        for turn in talk.turns[:2]:
            ask(page, turn.utterance)
        last = page.locator(".turn:last-child")
        expect(last.locator(".s0 .passages li")).to_have_count(3)
        expect(last.locator(".s1 .passages li")).to_have_count(2)
        last.locator(".cite").nth(1).click()
        second = last.locator(".s0 code").nth(1).text_content()
        expect(page.locator(".passages .target code")).to_have_text([second])
        expect(page.locator(".s1 .none")).to_have_text(
            ["This system writes no response. It found these passages."] * 2
        )
        expect(page.locator("#news")).to_contain_text("rewriting")
        expect(last.locator(".s0 h4")).to_have_text(["Rewrite", "Scores"])
        path = save_answers(page, "responds", tmp_path)
    exported = topics_frame(ikat.dataset(path).conversations).drop(columns=["qid", "qconversation"])
    turns = pd.concat([turn for turn in seen if len(turn)][-2:], ignore_index=True)
    pd.testing.assert_frame_equal(exported[turns.columns], turns)
    response = turns["qhistory"][1][1]["content"]
    expect(page.locator(".s0 .answer").first).to_contain_text(
        response.partition("\n\nSources: ")[0]
    )


def test_two_systems_answer_with_their_own_histories(page, server):
    open_chat(
        page, server, [answer("Rooibos."), answer("Hot.")], [answer("Mint."), answer("Cold.")]
    )
    write_persona(page, "I avoid caffeine.\n\n  I like mint. \n")
    ask(page, "Which tea?")
    ask(page, "And how?")
    expect(page.locator(".side .answer")).to_have_text(["Rooibos.", "Mint.", "Hot.", "Cold."])
    expect(page.locator(".utterance")).to_have_text(["Which tea?", "And how?"])
    for model, first in (("plain", "Rooibos."), ("gtr", "Mint.")):
        question, later = UNANSWERED
        assert server.told(model) == [
            [question],
            [question, {"role": "assistant", "content": first}, later],
        ]
    for body in server.asked:
        assert body["stream"]
        assert body["metadata"]["ptkb"] == ["I avoid caffeine.", "I like mint."]
    (name,) = {
        body["metadata"]["chat_id"] for body in server.asked
    }  # one conversation, whoever answers
    assert re.fullmatch(r"chat-\d{14}-[0-9a-f]+", name)


def test_a_turn_shows_how_it_was_answered_and_what_it_cost(page, server):
    facts = {
        "rewrite": "tea without caffeine",
        "queries": ["rooibos", "a draft", "mint"],
        "statements": ["I avoid caffeine."],
    }
    facts |= {
        "draft": "a draft",
        "seconds": 2.25,
        "calls": 3,
        "known": 1,
        "tokens": 1204,
        "cost": 0.00314,
        "omitted": 4,
    }
    open_chat(page, server, [answer("Rooibos [1].", TEA, **facts)], both=False)
    ask(page, "Which tea?")
    page.get_by_text("How it searched").click()
    expected = {
        "h4": ["Rewrite", "3 queries", "1 statement about you", "Draft answer", "Scores"],
        ".steps ul:not(.scores) li": ["rooibos", "the draft answer", "mint", "I avoid caffeine."],
        ".draft": ["a draft"],
        ".figures": [
            (
                "2.3 s · 3 LLM calls · 1 known completion · 1,204 tokens · $0.0031 · without the "
                "oldest 4 messages of the history"
            )
        ],
        ".passages summary > *": ["1", "Rooibos has no caffeine.", "tea:1"],
        ".scores li > *": ["tea:1", "12.35"],
    }
    for part, texts in expected.items():
        expect(shown(page, f".s0 {part}")).to_have_text(texts)


def test_an_empty_response_and_an_unknown_cost_are_said(page, server):
    empty = answer("", TEA, response="", html="", seconds=1.0, calls=1, cost=None)
    open_chat(page, server, [empty, answer("")], both=False)
    ask(page, "Which tea?")
    expect(page.locator(".none")).to_have_text(["The response is empty."])
    expect(page.locator(".figures")).to_have_text(
        ["1.0 s · 1 LLM call · 100 tokens · cost unknown"]
    )
    ask(page, "And how?")
    expect(page.locator(".none")).to_have_text(["The response is empty.", "No passage was found."])
    expect(shown(page, ".problem")).to_have_count(0)


def test_of_an_unknown_system_nothing_is_said_that_nobody_knows(page, server):
    server.models[0]["writes_response"] = None
    open_chat(page, server, [answer("", TEA, response="", html="")], both=False)
    expect(page.locator("#system0 option:checked")).to_have_text("plain")
    ask(page, "Which tea?")
    expect(page.locator(".none")).to_have_text(["There is no response. These passages were found."])


def test_a_list_of_passages_is_no_response(page, server):
    server.models[1]["writes_response"] = False
    listed = answer(
        "(Its best passages:) [1] Rooibos",
        TEA,
        response="",
        html="",
        rewrite="mint tea",
        queries=["mint tea"],
    )
    open_chat(page, server, [answer("Rooibos."), answer("Hot.")], [listed, listed])
    expect(page.locator("#system1 option:checked")).to_have_text("gtr (passages only)")
    ask(page, "Which tea?")
    expect(page.locator(".s1 .none")).to_have_text(
        ["This system writes no response. It found these passages."]
    )
    expect(shown(page, ".problem")).to_have_count(0)
    page.locator(".s1").get_by_text("How it searched").click()
    expect(shown(page, ".s1 .steps > :not(summary)")).to_have_text(
        ["Rewrite, the only query", "mint tea", "Scores", "tea:112.35"]
    )
    ask(page, "And how?")
    assert server.told("gtr")[1] == UNANSWERED


CITED = "Rooibos [1]. Or mint [2, 1], born in [2023]."
CITED_AS_TEXT = "Rooibos. [1] Or mint, born in [2023]. [2][1]"
CITED_AS_SHOWN = "Rooibos. 1 Or mint, born in [2023]. 21"


def test_a_citation_opens_its_passage(page, server):
    open_chat(page, server, [answer(CITED, TEA, MINT)], both=False)
    ask(page, "Which tea?")
    expect(page.locator(".answer")).to_have_text([CITED_AS_SHOWN])
    cites = page.locator(".cite")
    expect(cites).to_have_text(["1", "2", "1"])
    cites.nth(1).click()
    expect(shown(page, ".target .whole")).to_have_text([MINT[1]])
    expect(page.locator(".target summary")).to_be_focused()
    page.get_by_role("button", name="Back to the sentence of passage 2").click()
    expect(cites.nth(1)).to_be_focused()
    cites.nth(2).click()
    expect(shown(page, ".passages .target code")).to_have_text(["tea:1"])
    page.get_by_role("button", name="Back to the sentence of passage 1").click()
    expect(cites.nth(2)).to_be_focused()  # the one that led there


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


def test_an_answer_is_copied_with_its_sources(page, server):
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    open_chat(page, server, [answer(CITED, TEA, MINT)], both=False)
    ask(page, "Which tea?")
    page.get_by_role("button", name="Copy the answer of plain").click()
    expect(page.locator("#news")).to_contain_text("The answer is copied with its sources.")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied == f"{CITED_AS_TEXT}\n\n[1] tea:1: {TEA[1]}\n[2] tea:2: {MINT[1]}"


def test_answers_show_their_activity_and_can_be_stopped(page, server):
    held = server.hold()
    other = server.hold()
    slow = [
        chunk(ikat={"activity": "searching 5 queries"}),
        chunk("Never "),
        held,
        *answer("shown."),
    ]
    open_chat(
        page, server, [slow, answer("Rooibos.")], [[other, *answer("Mint.")], answer("Cold.")]
    )
    say(page, "Which tea?")
    expect(page.locator(".answer")).to_have_text(["Never"])
    expect(shown(page, ".stage")).to_have_text(["searching 5 queries", "waiting"])
    page.get_by_role("button", name="Stop").click()
    expect(shown(page, ".retry")).to_have_count(2)
    expect(page.locator(".turn .none")).to_have_text(["Stopped."] * 2)
    expect(page.locator(".answer")).to_have_text(["Never"])
    ask(page, "And how?")
    question, later = UNANSWERED
    stopped = {"role": "assistant", "content": "Never "}  # its words were read
    assert server.told("plain")[1] == [question, stopped, later]
    assert server.told("gtr")[1] == UNANSWERED
    assert len(set(server.stopped)) == 2
    expect(shown(page, ".retry")).to_have_count(2)  # a later answer was given without it
    expect(page.locator(".answer")).to_have_text(["Never", "Rooibos.", "Cold."])


def test_an_answer_that_fails_its_check_is_replaced(page, server):
    held = server.hold()
    taken = [
        chunk("Half of it"),
        held,
        chunk(ikat={"replaced": "the model refused"}),
        *answer("Rooibos [1].", TEA, replaced="the model refused"),
    ]
    open_chat(page, server, [taken, answer("Hot.")], [answer("Mint."), answer("Cold.")])
    say(page, "Which tea?")
    expect(page.locator(".s0 .answer")).to_have_text(
        "Half of it"
    )  # it is shown while it is written
    held.set()
    wait_for_answers(page)
    expect(page.locator(".answer")).to_have_text(["Rooibos. 1", "Mint."])
    expect(page.locator(".s0 .none").first).to_have_text("Replaced: the model refused.")
    ask(page, "And how?")
    assert server.told("plain")[1][1] == {
        "role": "assistant",
        "content": "Rooibos.",
    }  # what was taken back was never said
    assert all(body["stream_unchecked"] for body in server.asked)


def test_a_note_on_a_replaced_text_stands_only_where_one_was(page, server):
    again = [
        chunk("Half of it"),
        chunk(ikat={"replaced": "the model is rewriting its answer"}),
        *answer("Rooibos."),
    ]
    cut = [
        chunk("One. Two"),
        chunk(ikat={"replaced": "it is shortened"}),
        *answer("One.", shortened=1),
    ]
    open_chat(page, server, [again, cut], both=False)
    ask(page, "Which tea?")
    expect(page.locator(".answer")).to_have_text(["Rooibos."])
    expect(page.locator(".none")).to_have_count(0)
    ask(page, "And how?")
    expect(page.locator(".answer")).to_have_text(["Rooibos.", "One."])
    expect(page.locator(".none")).to_have_text(["The answer is shortened to 1 word."])


def test_the_sidebar_returns_when_a_narrow_window_gets_wide(page, server):
    open_chat(page, server, [answer("Rooibos.")], both=False)
    page.set_viewport_size({"width": 390, "height": 844})
    expect(page.get_by_label("Persona: statements about you, one per line")).to_be_hidden()
    ask(page, "Which tea?")
    page.set_viewport_size({"width": 1280, "height": 900})
    page.get_by_role("button", name="New conversation").click()
    expect(page.locator(".turn")).to_have_count(0)


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (
            [
                chunk(ikat={"activity": "answering"}),
                {"error": {"message": "The model is down: start it."}},
            ],
            "The model is down: start it.",
        ),
        (
            (503, "Full: ask again in 3 seconds", {"Retry-After": "3"}),
            "Full: ask again in 3 seconds",
        ),
        ((413, "", {}), "The server refused the request (status 413)."),
        (
            [chunk("Half"), {"error": {"message": "The model refused."}}],
            "The model refused.",
        ),
        ([CUT], "The connection ended before the answer was complete. Retry."),
    ],
    ids=["down", "full", "refused", "taken back", "cut"],
)
def test_an_error_is_readable_and_the_answer_retried(page, server, allowed_errors, reply, message):
    allowed_errors += ["503", "413", "404"]
    open_chat(page, server, [reply, answer("Rooibos.")], [answer("Mint.")])
    ask(page, "Which tea?")
    expect(page.locator(".s0 .problem")).to_have_text([message])
    expect(page.locator(".answer")).to_have_text(["Mint."])
    server.under_way.clear()
    page.get_by_role("button", name="Retry: plain").click()
    wait_for_answers(page)
    expect(page.locator(".answer")).to_have_text(["Rooibos.", "Mint."])
    assert server.told("plain") == [UNANSWERED[:1]] * 2


def test_a_token_is_asked_for_and_kept_out_of_addresses(page, server, allowed_errors):
    allowed_errors.append("401")
    server.token = "s3cret"
    server.replies = {"plain": [answer("Rooibos.")], "gtr": [answer("Mint.")]}
    page.goto(server.url)
    expect(page.get_by_role("dialog")).to_be_visible()
    expect(page.locator("#token")).to_be_focused()
    assert violations(page) == []
    give_token(page, "wrong")
    expect(page.locator("#token-why")).to_contain_text("refused")
    give_token(page, "s3cret")
    choose(page, "gtr")
    ask(page, "Which tea?")
    expect(page.locator(".answer")).to_have_text(["Rooibos.", "Mint."])
    expect(page.locator("#token")).to_have_value("")
    assert page.evaluate("sessionStorage.getItem('ikat-token')") == "s3cret"
    assert page.evaluate("localStorage.length") == 0
    assert "s3cret" not in "".join(server.paths) + page.content() + page.url


def test_a_new_token_is_asked_for_once_and_nothing_is_lost(page, server, allowed_errors):
    allowed_errors.append("401")
    open_chat(
        page, server, [answer("Rooibos."), answer("Hot.")], [answer("Mint."), answer("Cold.")]
    )
    ask(page, "Which tea?")
    server.token = "another"  # the server was started again
    say(page, "And how?")
    give_token(page, "wrong")
    expect(page.locator("#token-why")).to_contain_text("refused")
    give_token(page, "another")
    expect(page.locator(".figures")).to_have_count(4)
    expect(page.locator(".answer")).to_have_text(["Rooibos.", "Mint.", "Hot.", "Cold."])


def test_a_late_refusal_of_the_old_token_asks_nobody(page, server, allowed_errors):
    allowed_errors.append("401")
    open_chat(page, server, [answer("Rooibos.")], [answer("Mint.")])
    server.token = "another"
    late = []

    def hold_the_second_system(route):
        if route.request.post_data_json["model"] == "gtr" and not late:
            late.append(route)
        else:
            route.continue_()

    page.route("**/v1/chat/completions", hold_the_second_system)
    say(page, "Which tea?")
    give_token(page, "another")
    expect(page.locator(".s0 .answer")).to_have_text("Rooibos.")
    [refused] = late
    refused.continue_()
    expect(page.locator(".s1 .answer")).to_have_text("Mint.")
    expect(page.get_by_role("dialog")).to_be_hidden()


def test_texts_of_models_and_passages_stay_text(page, server):
    server.models[1]["about"] = ATTACK
    facts = {"rewrite": ATTACK, "queries": [ATTACK, BIDI], "statements": [ATTACK], "draft": ATTACK}
    attack = answer(
        f"{ATTACK} {BIDI} [1]", (f"d{ATTACK}", f"{ATTACK} {BIDI}", 1.0), activity=(ATTACK,), **facts
    )
    open_chat(page, server, [attack], [[{"error": {"message": ATTACK}}]])
    ask(page, f"{ATTACK} {BIDI}")
    page.locator(".cite").click()
    harmless = f"{ATTACK} gnp.exe isolated"
    expect(page.locator(".s0 .answer")).to_have_text(f"{harmless} 1")
    expect(shown(page, ".s0 .whole")).to_have_text([harmless])
    expect(page.locator("main script, img, main a, iframe, [onerror]")).to_have_count(0)
    expect(page).to_have_title(TITLE)
    assert not set(page.locator("body").inner_text()) & set(
        "\u202a\u202b\u202d\u202e\u2066\u2067\u2068\u2069"
    )
    assert (
        server.told("plain")[0][0]["content"] == f"{ATTACK} {BIDI}"
    )  # the system gets the words as they are


def test_the_page_loads_nothing_but_itself(page, server):
    open_chat(page, server, both=False)
    loaded = page.evaluate(
        "performance.getEntriesByType('resource').map(one => new URL(one.name).pathname)"
    )
    files = {f"/page/{path.name}" for path in PAGE.iterdir()} - {"/page/index.html"}
    assert set(loaded) == {*files, "/v1/models"}
    assert sorted(server.paths) == sorted(["/", *loaded])
    assert not any("http" in one.read_text(encoding="utf-8") for one in PAGE.iterdir())


def test_markup_that_gets_into_the_page_does_not_run(page, server, allowed_errors):
    allowed_errors.append("Content Security Policy")
    open_chat(page, server, both=False)
    with page.expect_console_message(lambda message: "inline event handler" in message.text):
        page.evaluate(
            "document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"document.title "
            "= 1\">')"
        )
    with page.expect_console_message(lambda message: "127.0.0.1:9/stolen" in message.text):
        page.evaluate("fetch('http://127.0.0.1:9/stolen').catch(() => 0)")
    expect(page).to_have_title(TITLE)


FOCUSED = (
    "(one => one.getAttribute('aria-label') || one.id || one.textContent.slice(0, "
    "30))(document.activeElement)"
)


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


def test_an_export_is_a_topics_file_of_what_the_system_saw(page, server, tmp_path):
    plain = [answer("Rooibos [1].", TEA, MINT), [CUT], answer("Hot.")]
    gtr = [answer("Mint.", MINT), answer(""), answer("Cold.")]
    open_chat(page, server, plain, gtr)
    write_persona(page, 'I avoid caffeine.\nI like "mint" – and 茶.')
    for text in ("Which tea?", "Why?", "And how?"):
        ask(page, text)
    path = save_answers(page, "plain", tmp_path)
    expect(page.locator("#news")).to_contain_text(f"{path.name} is saved")
    assert path.name.endswith("-plain.json")
    [chat] = read_topics(path)
    assert chat.ptkb == {"1": "I avoid caffeine.", "2": 'I like "mint" – and 茶.'}
    assert [
        (turn.turn_id, turn.utterance, turn.response, turn.passages) for turn in chat.turns
    ] == [
        (1, "Which tea?", "Rooibos.", ("tea:1", "tea:2")),
        (2, "Why?", "", ()),
        (3, "And how?", "Hot.", ()),
    ]
    for turn, history, messages in zip(
        chat.turns, chat.histories(), server.told("plain"), strict=True
    ):
        frame = conversation(messages, list(chat.ptkb.values()), number=chat.number)
        assert frame.loc[0, ["qutterance", "qhistory", "qptkb"]].tolist() == [
            turn.utterance,
            history,
            chat.ptkb,
        ]


MARKDOWN = """## Teas

**Rooibos** is *red* [1]. It has `none`.

- mint
  - pepper **mint**
  - spear mint
- sage

3. three
4. four

| tea | caffeine |
|-----|:--------:|
| rooibos | **none** [1] |

```html
<b>**no**</b>
```
![x](http://a/x.png) [link](http://a) <u>html</u>"""


def test_markdown_is_drawn_and_only_links_of_http_are_links(page, server):
    open_chat(page, server, [answer(MARKDOWN, TEA)], both=False)
    ask(page, "Which tea?")
    expected = {
        "strong": ["Teas", "Rooibos", "mint", "none"],
        "em": ["red"],
        "tr > *": ["tea", "caffeine", "rooibos", "none 1"],
        "ol[start='3'] li": ["three", "four"],
        ".cite": ["1", "1"],
    }
    for tag, texts in expected.items():
        expect(page.locator(f".answer {tag}")).to_have_text(texts)
    expect(page.locator(".answer :is(img, u, b)")).to_have_count(0)
    expect(page.get_by_role("columnheader", name="caffeine")).to_have_css(
        "text-align", re.compile("center$")
    )
    links = page.locator(".answer a").evaluate_all("all => all.map(one => [one.href, one.rel])")
    assert links == [["http://a/x.png", "noreferrer"], ["http://a/", "noreferrer"]]


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


def test_finished_blocks_are_drawn_once_while_the_rest_is_text(page, server):
    held = server.hold()
    last = server.hold()
    text = "**Rooibos**. [1]\n\n- mint\n- **sa"
    writing = [
        chunk(text),
        chunk(ikat={"block": BLOCK, "until": text.index("- mint")}),
        held,
        chunk("ge** 😀\n\nLast"),
        chunk(
            ikat={
                "block": LISTED,
                "until": len("**Rooibos**. [1]\n\n- mint\n- **sage** 😀\n\n") + 1,
            }
        ),
        last,
        *answer("**Rooibos** [1].\n\n- mint\n- **sage** 😀\n\nLast", TEA)[-1:],
    ]
    open_chat(page, server, [writing], both=False)
    say(page, "Which tea?")
    expect(page.locator(".answer strong")).to_have_text(["Rooibos"])
    expect(page.locator(".rest")).to_have_text("- mint - **sa")
    expect(page.locator(".cite")).to_be_disabled()  # its passage comes with the whole answer
    page.locator(".answer strong").evaluate("one => { one.dataset.first = 'yes' }")
    held.set()
    expect(page.locator(".answer li")).to_have_text(["mint", "sage 😀"])
    expect(page.locator(".rest")).to_have_text("Last")
    last.set()
    wait_for_answers(page)
    expect(page.locator(".answer p")).to_have_text(["Rooibos. 1", "Last"])
    expect(page.locator(".answer strong").first).to_have_attribute("data-first", "yes")
    page.locator(".cite").click()
    expect(shown(page, ".target .whole")).to_have_text([TEA[1]])


def test_examples_stand_at_the_start_and_a_click_asks(page, server):
    server.models[0]["examples"] = ["Which tea?", "And how?", "Why?"]
    open_chat(page, server, [answer("Rooibos.")], both=False)
    examples = page.locator("#examples button")
    expect(examples).to_have_text(["Which tea?", "And how?", "Why?"])
    choose(page, "gtr", "System")
    expect(examples).to_have_count(3)  # of any system
    choose(page, "plain", "System")
    examples.first.click()
    wait_for_answers(page)
    assert server.told("plain") == [UNANSWERED[:1]]


@pytest.mark.parametrize("way", ["Enter", "button"])
def test_an_edited_question_drops_the_later_turns(page, server, way):
    open_chat(page, server, [answer(text) for text in ("A.", "B.", "C.", "D.")], both=False)
    for text in ("one", "two", "three"):
        ask(page, text)
    page.get_by_role("button", name="Edit turn 2").click()
    question = page.get_by_label("The question", exact=True)
    expect(question).to_be_focused()
    question.fill("other")
    if way == "Enter":
        question.press("Enter")
    else:
        page.get_by_role("button", name="Ask this").click()
    expect(page.locator(".answer")).to_have_text(["A.", "D."])
    wait_for_answers(page)
    expect(page.locator(".utterance")).to_have_text(["one", "other"])
    expect(page.locator(".side")).to_have_count(2)  # one system, one side
    assert [message["content"] for message in server.told("plain")[-1]] == ["one", "A.", "other"]
    page.reload()
    expect(page.locator(".utterance")).to_have_text(["one", "other"])


def test_a_turn_touches_no_earlier_one(page, server):
    """So a conversation of 200 turns is as fast as one of two."""
    open_chat(page, server, [answer("Rooibos.", TEA)] * 6, [answer("Mint.")] * 6)
    for number in range(5):
        ask(page, f"question {number}")
    page.evaluate(
        "window.touched = []; new MutationObserver(all => all.forEach(one => "
        "touched.push(one.target.closest?.('.turn') ?? null)))"
        ".observe(document.querySelector('#turns'), {childList: true, subtree: true, "
        "attributes: true, characterData: true})"
    )
    ask(page, "the last question")
    touched = (
        "[...new Set(touched.filter(Boolean))].map(one => "
        "[...document.querySelectorAll('.turn')].indexOf(one))"
    )
    assert page.evaluate(touched) == [5]


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
