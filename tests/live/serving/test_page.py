"""The chat page in Chromium: once against a real server on the sample, else against one that answers what the test queues."""

import json
import re
import time
from itertools import islice

import pandas as pd
import pyterrier as pt
import pytest
from axe import find_axe, violations
from chromium import Browser, find_browser
from page_server import CUT, PAGE, answer, chunk, serving

import pyterrier_ikat as ikat
from pyterrier_ikat.conversations import conversation, read_topics, topics_frame
from pyterrier_ikat.live.serving import running

pytestmark = pytest.mark.skipif(find_browser() is None, reason="no Chromium here: apt-get install chromium")

ATTACK = "<script>document.title = 'owned'</script><img src=x onerror=\"document.title = 'owned'\"> [x](javascript:document.title='owned')"
BIDI = "\u202egnp.exe\u202c \u2066isolated\u2069"
SIDE = "document.querySelectorAll('.turn')[{}].querySelectorAll('.side')[{}]"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    browser = Browser(tmp_path_factory.mktemp("chromium"))
    browser.saved = tmp_path_factory.mktemp("downloads")
    browser.call("Page.setDownloadBehavior", behavior="allow", downloadPath=str(browser.saved))
    yield browser
    browser.close()


@pytest.fixture(scope="module")
def wire():
    with serving() as server:
        yield server


@pytest.fixture(autouse=True)
def _tidy(browser):
    """The next page opens without a question, and as if it were the first."""
    yield
    browser.run("window.onbeforeunload = null; sessionStorage.clear(); localStorage.clear(); Storage.prototype.setItem = () => {}")


@pytest.fixture
def server(wire):
    """The server, as new."""
    wire.renew()
    yield wire
    wire.renew()


def open_page(browser, server, plain=(), gtr=(), both=True, **view):
    server.replies["plain"], server.replies["gtr"] = list(plain), list(gtr)
    browser.open(server.url, **view)
    until(browser, "!document.querySelector('#send').disabled")
    if len(server.models) > 1 and both:
        choose(browser, "gtr")


def choose(browser, second):
    browser.run(f"(one => {{ one.value = {second!r}; one.dispatchEvent(new Event('change')) }})(document.querySelector('#system1'))")


def until(browser, condition):
    """Wait until a JavaScript expression holds."""
    frames = "const look = () => (({}) ? done() : performance.now() > end ? fail(new Error({!r})) : setTimeout(look, 5)); look()"
    browser.run(
        f"new Promise((done, fail) => {{ const end = performance.now() + 60000; {frames.format(condition, 'never: ' + condition)} }})"
    )


def press(browser, key, shift=False):
    text = {"Enter": "\r", "Tab": ""}.get(key, key if len(key) == 1 else "")
    codes = {"Enter": 13, "Tab": 9, "Escape": 27, " ": 32}
    for kind in ("keyDown", "keyUp"):
        told = {"text": text} if text and kind == "keyDown" else {}
        browser.call(
            "Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=codes.get(key, 0), modifiers=8 if shift else 0, **told
        )


def write(browser, text, field="words"):
    browser.run(f"document.querySelector('#{field}').focus()")
    browser.call("Input.insertText", text=text)


def say(browser, text, wait=True):
    write(browser, text)
    press(browser, "Enter")
    if wait:
        until(browser, "document.querySelector('#stop').hidden && !document.querySelector('.activity')")


def texts(browser, query):
    return browser.run(f"[...document.querySelectorAll({query!r})].filter(one => one.checkVisibility()).map(one => one.innerText.trim())")


def drawn(browser, query):
    """The texts of elements, also of those that are not in sight, which the browser has not drawn yet."""
    return browser.run(f"[...document.querySelectorAll({query!r})].map(one => one.textContent)")


def click(browser, query, place=0):
    browser.run(f"document.querySelectorAll({query!r})[{place}].click()")


def focused(browser):
    return browser.run(
        "(one => one.id || one.getAttribute('aria-label') || one.textContent.slice(0, 30) || one.localName)(document.activeElement)"
    )


TEA = ("tea:1", "Rooibos has no caffeine.", 12.3456)
MINT = ("tea:2", "Mint tea is made of leaves.", 0.5)


class Finds(pt.Transformer):
    """The first passages of the sample, for any query."""

    def __init__(self, passages):
        self.passages = pd.DataFrame(passages)

    def transform(self, inp):
        found = inp.merge(self.passages.assign(score=range(len(self.passages), 0, -1)), how="cross")
        return found.assign(rank=found.groupby("qid").cumcount())


class Seen(pt.Transformer):
    """Remembers the turns that a system saw."""

    def __init__(self):
        self.turns = []

    def transform(self, inp):
        self.turns.append(inp.drop(columns=["qid", "qconversation"]))
        return inp


def test_systems_on_the_sample_answer_in_the_page_and_the_export_is_what_they_saw(browser):
    sample, seen = ikat.dataset("ikat:sample"), Seen()
    [talk, *_], llm = sample.conversations, ikat.llm("recorded:sample")
    finds = Finds(islice(sample.get_corpus_iter(verbose=False), 3))
    systems = {"responds": seen >> ikat.Rewrite(llm) >> finds >> ikat.Respond(llm), "ranks": finds % 2}
    with running(systems, token="s3cret-s3cret-s3cret") as server:
        browser.open(f"{server.url}/")
        until(browser, "document.querySelector('#ask-token').open")
        write(browser, "s3cret-s3cret-s3cret", "token")
        press(browser, "Enter")
        until(browser, "!document.querySelector('#send').disabled")
        choose(browser, "ranks")
        assert texts(browser, "#title0") == ["Works by rewriting and answering."]
        write(browser, "\n".join(talk.ptkb.values()), "persona")
        for turn in talk.turns[:2]:
            say(browser, turn.utterance)
        click(browser, ".turn:last-child .cite", 1)
        docnos = texts(browser, ".turn:last-child .s0 code")
        assert texts(browser, ".target code") == docnos[1:2]
        assert [len(texts(browser, f".turn:last-child .s{place} .passages li")) for place in (0, 1)] == [3, 2]
        assert texts(browser, ".s1 .problem") == ["This system writes no response. It found these passages."] * 2
        assert "rewriting" in browser.run("document.querySelector('#news').textContent")
        assert texts(browser, ".turn:last-child .s0 h4") == ["Rewrite"]
        click(browser, "#exports button")
        exported = topics_frame(ikat.dataset(saved(browser, "responds")).conversations).drop(columns=["qid", "qconversation"])
    turns = pd.concat([turn for turn in seen.turns if len(turn)][-2:], ignore_index=True)
    pd.testing.assert_frame_equal(exported[turns.columns], turns)
    assert turns["qhistory"][1][1]["content"] == texts(browser, ".s0 .answer")[0].partition("\n\nSources: ")[0]
    assert all("401" in error for error in browser.errors)


def test_two_systems_answer_the_same_words_with_their_own_histories(browser, server):
    open_page(browser, server, [answer("Rooibos."), answer("Hot.")], [answer("Mint."), answer("Cold.")])
    write(browser, "I avoid caffeine.\n\n  I like mint. \n", "persona")
    say(browser, "Which tea?")
    say(browser, "And how?")
    assert texts(browser, ".side .answer") == ["Rooibos.", "Mint.", "Hot.", "Cold."]
    assert texts(browser, ".utterance") == ["Which tea?", "And how?"]
    for model, first in (("plain", "Rooibos."), ("gtr", "Mint.")):
        said = [{"role": "user", "content": "Which tea?"}]
        later = [*said, {"role": "assistant", "content": first}, {"role": "user", "content": "And how?"}]
        assert server.told(model) == [said, later]
    assert all(body["stream"] and body["metadata"]["ptkb"] == ["I avoid caffeine.", "I like mint."] for body in server.asked)
    (name,) = {body["metadata"]["chat_id"] for body in server.asked}  # one conversation, whoever answers
    assert re.fullmatch(r"chat-\d{14}-[0-9a-f]+", name)
    assert browser.errors == []


def test_both_may_answer_on_the_first_systems_history(browser, server):
    open_page(browser, server, [answer("Rooibos."), answer("Hot.")], [answer("Mint."), answer("Cold.")])
    browser.run("document.querySelector('#history').value = '0'")
    say(browser, "Which tea?")
    say(browser, "And how?")
    assert server.told("gtr") == server.told("plain")
    assert texts(browser, "#exports button") == ["Export with answers of plain"]  # those of the other were no history


def test_a_turn_shows_how_it_was_answered_and_what_it_cost(browser, server):
    facts = {
        "rewrite": "tea without caffeine",
        "queries": ["rooibos", "a draft", "mint"],
        "statements": ["I avoid caffeine."],
        "draft": "a draft",
        "seconds": 2.25,
        "calls": 3,
        "known": 1,
        "tokens": 1204,
        "cost": 0.00314,
        "omitted": 4,
    }
    one_query = answer("x", rewrite="mint tea", queries=["mint tea"])
    open_page(
        browser, server, [answer("Rooibos [1].", TEA, **facts), answer("", seconds=1.0, calls=1, cost=None)], [one_query, answer("y")]
    )
    say(browser, "Which tea?")
    assert texts(browser, ".side.s0 h4") == ["Rewrite", "3 queries", "1 statement about you", "Draft answer"]
    assert texts(browser, ".side.s0 li.text") == ["rooibos", "the draft answer", "mint", "I avoid caffeine."]
    assert texts(browser, ".side.s0 .draft") == ["a draft"]
    assert texts(browser, ".side.s1 .steps > :not(summary)") == ["Rewrite, the only query", "mint tea"]
    assert texts(browser, ".side.s0 .figures") == [
        "2.3 s · 3 LLM calls · 1 known completion · 1,204 tokens · $0.0031 · without the oldest 4 messages of the history"
    ]
    assert texts(browser, ".side.s0 .passages summary > *") == ["[1]", "tea:1", "12.35", "Rooibos has no caffeine."]
    say(browser, "And else?")
    assert texts(browser, ".turn:last-child .s0") == [
        "plain\n\nThe response is empty.\n\n1.0 s · 1 LLM call · 100 tokens · cost unknown\n\nRegenerate"
    ]
    assert texts(browser, "#spent0") == ["So far: 3.3 s · 4 LLM calls · 1 known completion · 1,304 tokens · cost unknown"]
    assert texts(browser, "#spent1") == ["So far: 3.0 s · 4 LLM calls · 200 tokens · $0.50"]


def test_a_list_of_passages_is_no_response_in_the_history(browser, server):
    server.models = [{"id": "plain", "title": "", "writes_response": False}]
    listed = answer("(Its best passages:) [1] Rooibos", TEA, response="")
    open_page(browser, server, [listed, listed])
    assert browser.run("document.querySelector('#system0').innerText") == "plain (passages only)"
    say(browser, "Which tea?")
    say(browser, "And how?")
    assert texts(browser, ".problem") == ["This system writes no response. It found these passages."] * 2
    assert texts(browser, ".passages code") == ["tea:1"] * 2
    assert server.told("plain")[1] == [{"role": "user", "content": "Which tea?"}, {"role": "user", "content": "And how?"}]


def test_numbers_that_the_server_adds_are_shown_and_not_said(browser, server):
    open_page(browser, server, [answer("Rooibos.\n\nSources: [1]", TEA, response="Rooibos."), answer("Hot.")], [answer("x"), answer("y")])
    say(browser, "Which tea?")
    assert texts(browser, ".s0 .answer") == ["Rooibos.\n\nSources: [1]"]
    assert texts(browser, ".s0 .cite") == ["[1]"]
    say(browser, "And how?")
    assert server.told("plain")[1][1] == {"role": "assistant", "content": "Rooibos."}


def test_a_citation_opens_its_passage(browser, server):
    open_page(browser, server, [answer("Rooibos [1]. Or mint [2, 1], born in [2023].", TEA, MINT)], [answer("x")])
    say(browser, "Which tea?")
    assert texts(browser, ".s0 .answer") == ["Rooibos. [1] Or mint, born in [2023]. [2][1]"]
    assert texts(browser, ".s0 .cite") == ["[1]", "[2]", "[1]"]
    click(browser, ".s0 .cite", 1)
    assert texts(browser, ".s0 .target .whole") == [MINT[1]]
    assert browser.run("document.activeElement.closest('.target') !== null")
    click(browser, ".s0 .cite", 0)
    assert texts(browser, ".s0 .target code") == ["tea:1"]


def test_each_answer_shows_its_activity_and_can_be_stopped(browser, server):
    held, other = server.hold(), server.hold()
    slow = [chunk(ikat={"activity": "searching 5 queries"}), chunk("Never "), held, *answer("shown.")]
    open_page(browser, server, [slow, answer("Rooibos."), answer("Hot.")], [[other, *answer("Mint.")], answer("Cold.")])
    say(browser, "Which tea?", wait=False)
    until(browser, f"{SIDE.format(0, 0)}.querySelector('.answer')")
    assert texts(browser, ".s0 .stage") == ["searching 5 queries"]
    click(browser, ".s0 .activity button")
    until(browser, f"{SIDE.format(0, 0)}.querySelector('.retry')")
    assert texts(browser, ".s0 .problem") == ["Stopped."]
    assert texts(browser, ".s1 .stage") == ["waiting"]
    other.set()
    until(browser, f"{SIDE.format(0, 1)}.querySelector('.answer')")
    say(browser, "And how?")
    # nothing of the stopped answer is in the history
    assert server.told("plain")[1] == [{"role": "user", "content": "Which tea?"}, {"role": "user", "content": "And how?"}]
    assert texts(browser, ".retry") == ["Regenerate"] * 2  # a later answer was given without it
    assert texts(browser, ".answer") == ["Mint.", "Rooibos.", "Cold."]


def test_an_answer_appears_as_it_is_written_and_one_that_fails_its_check_is_replaced(browser, server):
    held = server.hold()
    taken = [chunk("Half of it"), held, chunk(ikat={"replaced": "2 words too many"}), *answer("Rooibos [1].", TEA)]
    open_page(browser, server, [taken, answer("Hot.")], [answer("Mint."), answer("Cold.")])
    say(browser, "Which tea?", wait=False)
    until(browser, f"{SIDE.format(0, 0)}.querySelector('.answer')?.innerText === 'Half of it'")
    held.set()
    until(browser, "!document.querySelector('.activity')")
    assert texts(browser, ".answer") == ["Rooibos. [1]", "Mint."]
    assert "Replaced: 2 words too many." in texts(browser, ".s0 .figures")
    say(browser, "And how?")
    assert server.told("plain")[1][1] == {"role": "assistant", "content": "Rooibos."}  # what was taken back was never said
    assert all(body["stream_unchecked"] for body in server.asked)


def test_an_error_is_readable_and_the_answer_retried(browser, server):
    told = {
        "The model is down: start it.": [chunk(ikat={"activity": "answering"}), {"error": {"message": "The model is down: start it."}}],
        "Eight people are asking. Retry in 3 s.": (429, "Eight people are asking.", {"Retry-After": "3"}),
        "Full: ask again in 3 seconds": (503, "Full: ask again in 3 seconds", {"Retry-After": "3"}),
        "The server refused the request (status 413).": (413, "", {}),
        "The connection ended before the answer was complete. Retry.": [chunk("Half an an"), CUT],
    }
    open_page(browser, server, [*told.values(), answer("Rooibos.")], [answer("Mint.")])
    say(browser, "Which tea?")
    for message in told:
        assert texts(browser, ".s0 .problem") == [message]
        assert texts(browser, ".answer") == ["Mint."]
        click(browser, ".retry")
        until(browser, "!document.querySelector('.activity')")
    assert texts(browser, ".answer") == ["Rooibos.", "Mint."]
    assert server.told("plain") == [[{"role": "user", "content": "Which tea?"}]] * 6


def test_a_token_is_asked_for_and_kept_out_of_addresses(browser, server):
    server.token = "s3cret"
    server.replies = {"plain": [answer("Rooibos."), answer("Hot.")], "gtr": [answer("Mint."), answer("Cold.")]}
    browser.open(server.url)
    until(browser, "document.querySelector('#ask-token').open")
    assert focused(browser) == "token"
    assert violations(browser) == [] if find_axe() else True
    write(browser, "wrong", "token")
    press(browser, "Enter")
    until(browser, "document.querySelector('#token-why').textContent.includes('refused')")
    write(browser, "s3cret", "token")
    press(browser, "Enter")
    until(browser, "!document.querySelector('#send').disabled")
    choose(browser, "gtr")
    say(browser, "Which tea?")
    assert texts(browser, ".answer") == ["Rooibos.", "Mint."]
    assert browser.run("[sessionStorage.getItem('ikat-token'), document.querySelector('#token').value]") == ["s3cret", ""]
    assert "s3cret" not in browser.run("JSON.stringify(localStorage)")
    assert "s3cret" not in "".join(server.paths) + browser.run("document.documentElement.outerHTML + location.href")
    server.token = "another"  # the server was started again: one question for both systems, and nothing is lost
    say(browser, "And how?", wait=False)
    for wrong in ("wrong", "another"):
        until(browser, "document.querySelector('#ask-token').open")
        write(browser, wrong, "token")
        press(browser, "Enter")
        until(browser, "!document.querySelector('#ask-token').open || document.querySelector('#token').value === ''")
    until(browser, "document.querySelectorAll('.figures').length === 4")
    assert texts(browser, ".answer") == ["Rooibos.", "Mint.", "Hot.", "Cold."]
    names = browser.run("Object.keys(localStorage).map(name => name.split(' '))")
    assert len({name for name, *_ in names}) == 2  # nothing is kept for a token that was refused
    for token, answers in (("another", ["Rooibos.", "Mint.", "Hot.", "Cold."]), ("s3cret", ["Rooibos.", "Mint."])):
        server.token = token
        reload(browser, server, token)
        assert drawn(browser, ".answer") == answers


def test_a_refusal_that_arrives_after_the_new_token_asks_no_second_time(browser, server):
    open_page(browser, server, [answer("Rooibos.")], [answer("Mint.")])
    server.token, server.late = "s3cret", {"gtr": server.hold()}
    late = server.late["gtr"]
    say(browser, "Which tea?", wait=False)
    until(browser, "document.querySelector('#ask-token').open")
    write(browser, "s3cret", "token")
    press(browser, "Enter")
    until(browser, "document.querySelectorAll('.figures').length === 1")
    late.set()
    until(browser, "document.querySelectorAll('.figures').length === 2 || document.querySelector('#ask-token').open")
    assert texts(browser, ".answer") == ["Rooibos.", "Mint."]


def test_texts_of_models_and_passages_stay_text(browser, server):
    server.models[1]["title"] = ATTACK
    facts = {"rewrite": ATTACK, "queries": [ATTACK, BIDI], "statements": [ATTACK], "draft": ATTACK}
    attack = answer(f"{ATTACK} {BIDI} [1]", (f"d{ATTACK}", f"{ATTACK} {BIDI}", 1.0), activity=(ATTACK,), **facts)
    open_page(browser, server, [attack], [[{"error": {"message": ATTACK}}]])
    say(browser, f"{ATTACK} {BIDI}")
    click(browser, ".cite")
    assert texts(browser, ".s0 .answer") == [f"{ATTACK} gnp.exe isolated [1]"]
    assert texts(browser, ".s0 .whole") == [f"{ATTACK} gnp.exe isolated"]
    assert browser.run("document.querySelectorAll('main script, img, main a, iframe, [onerror]').length") == 0
    assert browser.run("document.title") == "Chat · pyterrier_ikat"
    assert not any(control in browser.run("document.body.innerText") for control in "\u202a\u202b\u202d\u202e\u2066\u2067\u2068\u2069")
    assert server.told("plain")[0][0]["content"] == f"{ATTACK} {BIDI}"  # the system gets the words as they are
    assert browser.errors == []


def test_markup_that_gets_into_the_page_does_not_run(browser, server):
    open_page(browser, server)
    browser.run("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"document.title = 1\">')")
    browser.run("fetch('http://127.0.0.1:9/stolen').catch(() => 0)")
    assert browser.run("document.title") == "Chat · pyterrier_ikat"
    assert sum("Content Security Policy" in error for error in browser.errors) >= 2


def test_the_page_loads_nothing_but_itself(browser, server):
    open_page(browser, server)
    assert browser.run("performance.getEntriesByType('resource').map(one => new URL(one.name).pathname)") == ["/v1/models"]
    assert server.paths == ["/", "/v1/models"]
    assert "http" not in PAGE
    assert browser.errors == []


def test_a_conversation_is_held_by_keyboard_alone(browser, server):
    held = server.hold()
    open_page(browser, server, [answer("Rooibos [1].", TEA), [held]], [answer("Mint."), [held]])
    assert focused(browser) == "words"
    browser.call("Input.insertText", text="Which")
    press(browser, "Enter", shift=True)
    browser.call("Input.insertText", text="tea?")
    press(browser, "Enter")
    until(browser, "document.querySelectorAll('.figures').length === 2")
    assert texts(browser, ".utterance") == ["Which\ntea?"]
    walked = []
    browser.run("document.querySelector('#conversation').focus()")
    for _ in range(9):
        press(browser, "Tab")
        walked.append(focused(browser))
        assert browser.run("document.activeElement.matches(':focus-visible')")
    tools = [f"{does} {who}" for who in ("plain", "gtr") for does in ("Copy", "Regenerate")]
    found = ["Edit turn 1", "Passage 1", "[1]tea:112.35Rooibos has no ca", *tools, "words", "send"]
    assert [name.removesuffix(" with its sources") for name in walked] == found
    for _ in range(7):
        press(browser, "Tab", shift=True)
    press(browser, "Enter")
    assert texts(browser, ".target code") == ["tea:1"]
    browser.run("document.querySelector('#words').focus()")
    browser.call("Input.insertText", text="And how?")
    press(browser, "Enter")
    until(browser, "document.querySelectorAll('.activity').length === 2")
    press(browser, "Escape")
    until(browser, "document.querySelectorAll('.turn:last-child .retry').length === 2")
    assert texts(browser, ".problem") == ["Stopped."] * 2
    assert focused(browser) == "words"


def test_a_screen_reader_hears_activities_and_whole_answers(browser, server):
    open_page(browser, server, [answer("Rooibos [1].", TEA, activity=("rewriting", "searching 5 queries", "searching 5 queries"))], [[CUT]])
    say(browser, "Which tea?")
    heard = browser.run("[...document.querySelectorAll('#news p')].map(one => one.textContent)")
    plain = [line for line in heard if line.startswith("plain")]
    assert plain == ["plain: rewriting", "plain: searching 5 queries", "plain: Rooibos. [1] 1 passage."]
    assert "gtr: The connection ended before the answer was complete. Retry." in heard
    assert browser.run("document.querySelectorAll('[aria-live]').length") == 1


def test_the_last_turn_is_undone_and_a_new_conversation_begun(browser, server):
    open_page(browser, server, [answer("a"), answer("b"), answer("c")], [answer("d"), answer("e"), answer("f")])
    fixed = "[document.querySelector('#choice').disabled, document.querySelector('#persona').readOnly]"
    assert browser.run(fixed) == [False, False]
    say(browser, "one")
    say(browser, "two")
    assert browser.run(fixed) == [True, True]  # every answer of a conversation has the same conditions
    click(browser, "#undo")
    assert texts(browser, ".utterance") == ["one"]
    assert browser.run("document.querySelector('#words').value") == "two"
    press(browser, "Enter")
    until(browser, "document.querySelectorAll('.figures').length === 4")
    assert server.told("plain")[2] == server.told("plain")[1]
    assert texts(browser, "#spent0") == ["So far: 4.5 s · 6 LLM calls · 300 tokens · $0.75"]  # with the turn that was undone
    click(browser, "#fresh")
    assert browser.run("document.querySelector('#ask-fresh').open")
    press(browser, "Escape")
    assert texts(browser, ".utterance") == ["one", "two"]
    click(browser, "#fresh")
    click(browser, "#ask-fresh [value=fresh]")
    until(browser, "!document.querySelector('.turn')")
    assert browser.run(fixed) == [False, False]


def test_an_export_is_a_topics_file_of_what_the_system_saw(browser, server):
    open_page(
        browser, server, [answer("Rooibos [1].", TEA, MINT), [CUT], answer("Hot.")], [answer("Mint.", MINT), answer(""), answer("Cold.")]
    )
    write(browser, 'I avoid caffeine.\nI like "mint" – and 茶.', "persona")
    for text in ("Which tea?", "Why?", "And how?"):
        say(browser, text)
    click(browser, "#exports button", 0)
    until(browser, "document.querySelector('#news').textContent.includes('is saved')")
    [chat] = read_topics(saved(browser, "plain"))
    assert chat.ptkb == {"1": "I avoid caffeine.", "2": 'I like "mint" – and 茶.'}
    assert [(turn.turn_id, turn.utterance, turn.response, turn.passages) for turn in chat.turns] == [
        (1, "Which tea?", "Rooibos.", ("tea:1", "tea:2")),
        (2, "Why?", "", ()),
        (3, "And how?", "Hot.", ()),
    ]
    for turn, history, messages in zip(chat.turns, chat.histories(), server.told("plain"), strict=True):
        frame = conversation(messages, list(chat.ptkb.values()), number=chat.number)
        assert frame.loc[0, ["qutterance", "qhistory", "qptkb"]].tolist() == [turn.utterance, history, chat.ptkb]
    click(browser, "#fresh")  # it is exported: nothing to ask
    assert texts(browser, ".turn") == []


def saved(browser, model, kind="json"):
    """The downloaded file, once the browser has it whole: until then its name has an empty file."""
    for _ in range(3000):
        if found := [path for path in browser.saved.glob(f"*-{model}.{kind}") if path.stat().st_size]:
            return found[0]
        browser.run("new Promise(done => setTimeout(done, 20))")
    raise AssertionError(f"no download of {model}")


def reload(browser, server, token=""):
    browser.run(f"sessionStorage.setItem('ikat-token', {token!r})")
    browser.open(server.url)
    until(browser, "!document.querySelector('#send').disabled")


def test_a_conversation_survives_a_reload_until_it_is_cleared_and_tokens_do_not_see_each_other_s(browser, server):
    held = server.hold()
    first, second = (
        [answer("Rooibos [1].", TEA), [chunk("Half"), held], answer("Cold.")],
        [answer("Mint."), answer("Hot."), answer("Cold.")],
    )
    open_page(browser, server, first, second)
    write(browser, "I avoid caffeine.", "persona")
    say(browser, "Which tea?")
    say(browser, "And how?", wait=False)
    until(browser, f"{SIDE.format(1, 0)}.querySelector('.answer') && {SIDE.format(1, 1)}.querySelector('.figures')")
    reload(browser, server)
    assert drawn(browser, ".utterance") == ["Which tea?", "And how?"]
    assert drawn(browser, ".answer") == ["Rooibos. [1]", "Mint.", "Hot."]
    assert texts(browser, ".problem") == ["The page was reloaded meanwhile."]
    assert browser.run("document.querySelector('#persona').value") == "I avoid caffeine."
    assert "This browser keeps the conversation and its persona" in texts(browser, "#kept")[0]
    click(browser, ".cite")
    assert texts(browser, ".s0 .target .whole") == [TEA[1]]
    say(browser, "And cold?")
    assert server.told("plain")[-1][:2] == [{"role": "user", "content": "Which tea?"}, {"role": "assistant", "content": "Rooibos."}]
    assert {body["metadata"]["chat_id"] for body in server.asked} == {server.asked[0]["metadata"]["chat_id"]}  # it is the same conversation
    reload(browser, server, "another-token")
    assert texts(browser, ".turn") == []
    reload(browser, server)
    assert len(texts(browser, ".turn")) == 3
    names = browser.run("Object.keys(localStorage)")
    assert {name.split()[0] for name in names} == {re.match("ikat-conversation-[0-9a-f]{64}", names[0])[0]}
    assert sorted(name.split()[1:] for name in names) == [[], ["1"], ["2"], ["3"]]
    server.models = server.models[:1]
    reload(browser, server)
    assert texts(browser, "#kept")[0].startswith("The kept conversation is with gtr, which this server does not have.")
    assert texts(browser, ".turn") == []
    click(browser, "#clear")
    assert browser.run("[localStorage.length, document.querySelector('#persona').value]") == [0, ""]
    reload(browser, server)
    assert texts(browser, ".turn") == []


def test_a_conversation_that_is_too_long_for_the_browser_loses_the_texts_of_passages_and_then_says_that_it_is_not_kept(browser, server):
    open_page(browser, server, [answer("Rooibos [1].", TEA), answer("Hot.")], both=False)
    full = "Storage.prototype.setItem = function (name, value) { if (%s) throw new Error('full'); this[name] = value }"
    browser.run(full % "value.includes('caffeine')")
    say(browser, "Which tea?")
    assert "all but the texts of passages" in texts(browser, "#kept")[0]
    reload(browser, server)
    assert drawn(browser, ".answer") == ["Rooibos. [1]"]
    click(browser, ".cite")
    assert texts(browser, ".target .whole") == ["The text of this passage is not kept: ask again to see it."]
    browser.run(full % "true")
    say(browser, "And how?")
    assert "does not keep the conversation" in texts(browser, "#kept")[0]


def test_what_another_program_has_stored_is_no_conversation(browser, server):
    open_page(browser, server, [answer("Rooibos.")], [answer("Mint.")])
    say(browser, "Which tea?")
    for stored in ("{", "3", "{}", '{"systems": ["plain"], "turns": [{"words": 3}]}'):
        browser.run(f"localStorage.setItem(Object.keys(localStorage).sort()[0], {stored!r})")
        reload(browser, server)
        assert texts(browser, ".turn") == []
        assert browser.errors == []


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


def test_markdown_is_drawn_and_links_images_and_html_stay_text(browser, server):
    open_page(browser, server, [answer(MARKDOWN, TEA)], both=False)
    say(browser, "Which tea?")
    inside = "[...document.querySelectorAll('.answer {}')].map(one => one.textContent)"
    assert browser.run(inside.format("strong")) == ["Teas", "Rooibos", "mint", "none"]
    assert browser.run(inside.format("em")) == ["red"]
    assert browser.run(inside.format("code")) == ["none", "<b>**no**</b>"]
    assert browser.run(inside.format("ul > li")) == ["mintpepper mintspear mint", "pepper mint", "spear mint", "sage"]
    assert browser.run(inside.format("ol > li")) == ["three", "four"]
    assert browser.run("document.querySelector('.answer ol').start") == 3
    assert browser.run(inside.format("tr > *")) == ["tea", "caffeine", "rooibos", "none [1]"]
    assert browser.run(inside.format("> p:last-child")) == ["![x](http://a/x.png) [link](http://a) <u>html</u>"]
    kinds = browser.run("[...new Set([...document.querySelectorAll('.answer *')].map(one => one.localName))].sort()")
    assert kinds == ["button", "code", "div", "em", "li", "ol", "p", "pre", "strong", "table", "tbody", "td", "th", "thead", "tr", "ul"]
    assert texts(browser, ".answer .cite") == ["[1]"] * 2


@pytest.mark.parametrize(
    "text",
    [
        "**a " * 12000,
        "`" * 49000,
        "| a |\n|---|\n" * 3000,
        f"| a |\n|{'-' * 49000}x",
        "- x\n" + "  " * 20000 + "- y\n" * 4000,
        "<b>" * 100000,
    ],
)
def test_hostile_markdown_is_drawn_at_once_and_stays_inert(browser, server, text):
    open_page(browser, server, [answer(text, response=text, pieces=[[text, []]])], both=False)
    began = time.monotonic()
    say(browser, "Which tea?")
    assert time.monotonic() - began < 10
    assert browser.run("document.querySelectorAll('.answer b, .answer a, .answer img').length") == 0
    assert browser.errors == []


def test_an_answer_is_copied_with_its_sources(browser, server):
    open_page(browser, server, [answer("Rooibos [1]. Mint [2].", TEA, MINT)], both=False)
    browser.run("Object.defineProperty(navigator, 'clipboard', {value: {writeText: async text => { window.copied = text }}})")
    say(browser, "Which tea?")
    click(browser, "[aria-label^=Copy]")
    until(browser, "window.copied")
    assert browser.run("window.copied") == f"Rooibos. [1] Mint. [2]\n\n[1] tea:1: {TEA[1]}\n[2] tea:2: {MINT[1]}"


def test_an_answer_is_asked_for_anew(browser, server):
    open_page(browser, server, [answer("Rooibos."), answer("Mint."), answer("Sage."), answer("Hot.")], both=False)
    say(browser, "Which tea?")
    for text in ("Mint.", "Sage."):
        click(browser, "[aria-label^=Regenerate]")
        until(browser, f"document.querySelector('.answer')?.innerText === {text!r} && !document.querySelector('.activity')")
    assert [body.get("sample") for body in server.asked] == [None, 1, 2]
    say(browser, "And how?")
    assert server.told("plain")[-1][1]["content"] == "Sage."


def test_an_edited_question_begins_a_branch_and_the_other_one_stays(browser, server):
    open_page(browser, server, [answer(text) for text in ("A.", "B.", "C.", "D.")], both=False)
    for text in ("one", "two", "three"):
        say(browser, text)
    click(browser, "[aria-label='Edit turn 2']")
    browser.run("document.querySelector('[aria-label=\"The question\"]').value = 'other'")
    click(browser, ".turn .main")
    until(browser, "document.querySelectorAll('.answer').length === 2 && !document.querySelector('.activity')")
    assert drawn(browser, ".utterance") == ["one", "other"]
    assert texts(browser, "h3") == ["plain"] * 2  # one system, one side
    assert [message["content"] for message in server.told("plain")[-1]] == ["one", "A.", "other"]
    assert texts(browser, ".branch") == ["Branch 2 of 2 Earlier"]
    click(browser, ".branch button")
    assert drawn(browser, ".utterance") == ["one", "two", "three"]
    assert drawn(browser, ".answer") == ["A.", "B.", "C."]
    reload(browser, server)
    assert drawn(browser, ".utterance") == ["one", "two", "three"]
    click(browser, ".branch button")
    assert drawn(browser, ".answer") == ["A.", "D."]
    click(browser, "#undo")  # the branch is gone, and the other one is there
    assert drawn(browser, ".utterance") == ["one", "two", "three"]
    assert texts(browser, ".branch") == []


def test_an_exported_conversation_is_imported_and_goes_on(browser, server, tmp_path):
    topics = [{"number": "9-1", "title": "", "ptkb": {"1": "I avoid caffeine."}, "turns": [
        {"turn_id": 1, "utterance": "Which tea?", "response": "Rooibos.", "response_provenance": ["tea:1"]},
        {"turn_id": 2, "utterance": "<b>Why?</b>", "response": None, "response_provenance": []},
    ]}]  # fmt: skip
    (tmp_path / "chat.json").write_text(json.dumps(topics))
    (tmp_path / "no.json").write_text("[3]")
    open_page(browser, server, [answer("Hot.")], [answer("Cold.")])
    click(browser, "#blind")
    for name in ("no.json", "chat.json"):
        found = browser.call("Runtime.evaluate", expression="document.querySelector('#file')")["result"]["objectId"]
        browser.call("DOM.setFileInputFiles", files=[str(tmp_path / name)], objectId=found)
        until(browser, "document.querySelector('.turn') || !document.querySelector('#problem').hidden")
        assert texts(browser, "#problem .problem") == [
            "no.json has no conversation: choose a file that this page or ikat chat exported."
        ] * (name == "no.json")
    assert drawn(browser, ".utterance") == ["Which tea?", "<b>Why?</b>"]
    assert drawn(browser, ".passages code") == ["tea:1"]
    assert drawn(browser, "h3") == ["imported answer"] * 2  # of none of the two systems, and nothing to vote on
    assert texts(browser, ".vote") == []
    say(browser, "And how?")
    assert len(texts(browser, ".vote")) == 1
    said = [("user", "Which tea?"), ("assistant", "Rooibos."), ("user", "<b>Why?</b>"), ("user", "And how?")]
    assert server.told("plain") == server.told("gtr") == [[{"role": role, "content": text} for role, text in said]]
    assert server.asked[0]["metadata"]["ptkb"] == ["I avoid caffeine."]


def test_passages_that_both_have_and_words_that_only_one_has_are_marked(browser, server):
    first, second = answer("**Rooibos** is a red tea [1].", TEA, MINT), answer("A tea it is: mint [1].", MINT)
    open_page(browser, server, [first], [second])
    say(browser, "Which tea?")
    assert texts(browser, ".s0 .differs") == ["Rooibos", "red"]
    assert texts(browser, ".s1 .differs") == ["it", "mint"]
    assert texts(browser, ".s0 .answer strong") == ["Rooibos"]
    assert texts(browser, ".passages li:has(.both) code") == ["tea:2", "tea:2"]
    click(browser, "#differ")
    assert browser.run("getComputedStyle(document.querySelector('.differs')).textDecorationLine") == "none"


def test_a_vote_is_blind_and_is_exported_for_the_sign_test(browser, server):
    facts = {"rewrite": "tea"}
    open_page(browser, server, [answer(f"Plain {at}.", **facts) for at in range(6)], [answer(f"Other {at}.", **facts) for at in range(6)])
    click(browser, "#blind")
    wanted, choices, last = [], ["left", "right", "tie", "neither"], ".turn:last-child"
    browser.run("{ const given = [.1, .9, .1, .9, .9, .1]; Math.random = () => given.shift() }")  # swapped, straight, swapped, ...
    for at, vote in enumerate([*choices, None]):
        say(browser, f"question {at}")
        assert texts(browser, f"{last} h3") == ["Answer A", "Answer B"]
        assert texts(browser, f"{last} .steps") == texts(browser, f"{last} .figures") == []
        swapped = at in (0, 2)
        assert texts(browser, f"{last} .answer") == ([f"Other {at}.", f"Plain {at}."] if swapped else [f"Plain {at}.", f"Other {at}."])
        assert not re.search("gtr|plain", browser.run(f"document.querySelector('{last}').outerHTML"))
        assert not re.search(f"(gtr|plain)[^<]*{at}", browser.run("document.querySelector('#news').innerHTML"))
        if vote is None:
            continue
        click(browser, f"{last} .vote button", choices.index(vote))
        names = ["gtr", "plain"] if swapped else ["plain", "gtr"]
        assert texts(browser, f"{last} h3") == names
        assert len(texts(browser, f"{last} .figures")) == 2
        assert texts(browser, f"{last} .retry") == []  # the vote is on these answers
        wanted.append([f"question {at}", *names, vote])
    assert texts(browser, "#spent0") == []
    click(browser, "[aria-label='Edit turn 4']")
    browser.run("document.querySelector('[aria-label=\"The question\"]').value = 'another'")
    click(browser, ".turn .main")
    until(browser, f"document.querySelectorAll('{last} .vote').length")
    click(browser, f"{last} .vote button")  # a vote in this branch does not replace the one in the other
    wanted.append(["another", "gtr", "plain", "left"])
    click(browser, "#exports button", 2)
    until(browser, "document.querySelector('#news').textContent.includes('votes.jsonl is saved')")
    path = saved(browser, "votes", "jsonl")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [[line["utterance"], line["left"], line["right"], line["vote"]] for line in lines] == wanted
    assert [line["turn"] for line in lines] == [1, 2, 3, 4, 6]


def test_two_hundred_turns_do_not_slow_it_down(browser, server):
    open_page(browser, server, [answer("**Rooibos** [1].", TEA)] * 3, [answer("Mint [1].", MINT)] * 3)
    say(browser, "first")
    browser.run("""{
        const [head, turn] = Object.keys(localStorage).sort(), found = JSON.parse(localStorage[head]), numbers = [...Array(200).keys()];
        for (const at of numbers) localStorage[`${head} ${at + 1}`] = localStorage[turn];
        localStorage[head] = JSON.stringify({ ...found, asked: 200, turns: numbers.map(at => ({ asked: at + 1, fork: null })) });
    }""")
    reload(browser, server)
    assert browser.run("document.querySelectorAll('.turn').length") == 200
    browser.run(
        "Storage.prototype.setItem = function (name, value) { window.written = (window.written ?? 0) + value.length; this[name] = value }"
    )
    began = time.monotonic()
    say(browser, "the last question")
    assert time.monotonic() - began < 5
    assert len(server.told("plain")[-1]) == 401
    assert browser.run("window.written") < 60000  # this turn, and which turns there are: not the conversation


def test_a_turn_touches_no_earlier_one(browser, server):
    """So a conversation of 200 turns is as fast as one of two."""
    open_page(browser, server, [answer("Rooibos.", TEA)] * 6, [answer("Mint.")] * 6)
    for number in range(5):
        say(browser, f"question {number}")
    browser.run(
        "window.touched = []; new MutationObserver(all => all.forEach(one => touched.push(one.target.closest?.('.turn') ?? null)))"
        ".observe(document.querySelector('#turns'), {childList: true, subtree: true, attributes: true, characterData: true})"
    )
    say(browser, "the last question")
    turns = "[...document.querySelectorAll('.turn')]"
    assert browser.run(f"[...new Set(touched.filter(Boolean).map(one => {turns}.indexOf(one)))]") == [5]


@pytest.mark.skipif(find_axe() is None, reason="no axe-core here: pip install axe-core-python")
@pytest.mark.parametrize(("width", "dark"), [(390, True), (1280, False)])
def test_nothing_keeps_people_from_using_the_page(browser, server, width, dark):
    held = server.hold()
    facts = {"rewrite": "tea", "queries": ["a", "b"], "statements": ["I avoid caffeine."], "draft": "A draft"}
    long = ("clueweb22-" + "x" * 90, "word " * 90, 3.0)
    full = answer(f"Rooibos [1] {'y' * 120}\n{MARKDOWN}", long, MINT, **facts)
    slow = [chunk(ikat={"activity": "searching"}), held]
    open_page(browser, server, [full, full, slow], [[CUT], answer("Mint [1].", MINT), [held]], width=width, dark=dark)
    click(browser, "#blind")
    assert violations(browser) == []
    say(browser, "Which tea?")
    say(browser, "Which one?")
    click(browser, "[aria-label='Edit turn 1']")
    assert len(texts(browser, ".vote")) == 1
    assert violations(browser) == []
    click(browser, ".vote button")
    browser.run("[...document.querySelectorAll('.turn button')].find(one => one.innerText === 'Cancel').click()")
    click(browser, ".cite")
    browser.run("document.querySelectorAll('details').forEach(one => { one.open = true })")
    say(browser, "And how?", wait=False)
    until(browser, "document.querySelectorAll('.activity').length === 2")
    assert violations(browser) == []
    tops = browser.run(
        f"[0, 1].map(place => Math.round({SIDE.format(0, '${place}').replace('${place}', 'place')}.getBoundingClientRect().top))"
    )
    assert (tops[0] == tops[1]) == (width == 1280)
    assert browser.run("document.documentElement.scrollWidth") == width
