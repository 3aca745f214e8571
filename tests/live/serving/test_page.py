"""The chat page in a browser, with a real server or one that answers what the test queues."""

import re
from itertools import islice

import pandas as pd
import pyterrier as pt
import pytest
from chat_page import (
    CITED,
    MARKDOWN,
    MINT,
    TEA,
    ask,
    choose,
    give_token,
    open_chat,
    save_answers,
    say,
    wait_for_answers,
    write_persona,
)
from in_browser import shown
from page_server import CUT, answer, chunk
from playwright.sync_api import expect

import pyterrier_ikat as ikat
from pyterrier_ikat.conversations import conversation, read_topics, topics_frame
from pyterrier_ikat.live.serving import running


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


UNANSWERED = [{"role": "user", "content": "Which tea?"}, {"role": "user", "content": "And how?"}]


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


CITED_AS_TEXT = "Rooibos. [1] Or mint, born in [2023]. [2][1]"


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


CITE = '<button type="button" class="cite" aria-label="Passage 1">1</button>'
BLOCK = f"<p><strong>Rooibos</strong>. {CITE}</p>\n"
LISTED = "<ul>\n<li>mint</li>\n<li><strong>sage</strong> 😀</li>\n</ul>\n"


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
