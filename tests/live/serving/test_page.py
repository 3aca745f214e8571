"""The chat page in Chromium: once against a real server on the sample, else against one that answers what the test queues."""

import re
from collections import Counter
from itertools import islice

import pandas as pd
import pyterrier as pt
import pytest
from axe import find_axe, violations
from page_server import CUT, PAGE, answer, chunk, serving

import pyterrier_ikat as ikat
from pyterrier_ikat.conversations import conversation, read_topics, topics_frame
from pyterrier_ikat.live.serving import running

ATTACK = "<script>document.title = 'owned'</script><img src=x onerror=\"document.title = 'owned'\"> [x](javascript:document.title='owned')"
BIDI = "\u202egnp.exe\u202c \u2066isolated\u2069"
SIDE = "document.querySelectorAll('.turn')[{}].querySelectorAll('.side')[{}]"


@pytest.fixture(scope="module")
def wire():
    with serving() as server:
        yield server


@pytest.fixture
def server(wire, browser):
    """The server, as new, and a page that opens as if it were the first."""
    yield wire
    wire.renew()
    browser.run("sessionStorage.clear(); Storage.prototype.setItem = () => {}")


def ready(browser):
    until(browser, "!document.querySelector('#send').disabled")


def reload(browser, server):
    browser.open(server.url)
    ready(browser)


def open_page(browser, server, plain=(), gtr=(), both=True, **view):
    server.replies["plain"], server.replies["gtr"] = list(plain), list(gtr)
    browser.open(server.url, **view)
    ready(browser)
    if len(server.models) > 1 and both:
        choose(browser, "gtr")


def choose(browser, name, place=1):
    browser.run(f"(one => {{ one.value = {name!r}; one.dispatchEvent(new Event('change')) }})(document.querySelector('#system{place}'))")


def until(browser, condition):
    """Wait until a JavaScript expression holds."""
    frames = "const look = () => (({}) ? done() : performance.now() > end ? fail(new Error({!r})) : setTimeout(look, 5)); look()"
    browser.run(
        f"new Promise((done, fail) => {{ const end = performance.now() + 60000; {frames.format(condition, 'never: ' + condition)} }})"
    )


def press(browser, key, shift=False):
    codes = {"Enter": 13, "Tab": 9, "Escape": 27}
    more = {"key": key, "windowsVirtualKeyCode": codes[key], "modifiers": 8 if shift else 0}
    browser.call("Input.dispatchKeyEvent", type="keyDown", **more, **({"text": "\r"} if key == "Enter" else {}))
    browser.call("Input.dispatchKeyEvent", type="keyUp", **more)


def write(browser, text, field="words"):
    browser.run(f"document.querySelector('#{field}').focus()")
    browser.call("Input.insertText", text=text)


def give(browser, token):
    until(browser, "document.querySelector('#ask-token').open")
    write(browser, token, "token")
    press(browser, "Enter")


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
UNANSWERED = [{"role": "user", "content": "Which tea?"}, {"role": "user", "content": "And how?"}]


def test_systems_on_the_sample_answer_in_the_page_and_the_export_is_what_they_saw(browser):
    sample, seen = ikat.dataset("ikat:sample"), []
    [talk, *_], llm = sample.conversations, ikat.llm("recorded:sample")
    passages = pd.DataFrame(islice(sample.get_corpus_iter(verbose=False), 3)).assign(score=[3.0, 2.0, 1.0], rank=[0, 1, 2])
    finds = pt.apply.generic(lambda turns: turns.merge(passages, how="cross"))
    sees = pt.apply.generic(lambda turns: seen.append(turns.drop(columns=["qid", "qconversation"])) or turns)
    systems = {"responds": sees >> ikat.Rewrite(llm) >> finds >> ikat.Respond(llm), "ranks": finds % 2}
    with running(systems, token="s3cret-s3cret-s3cret") as server:
        browser.open(f"{server.url}/")
        give(browser, "s3cret-s3cret-s3cret")
        ready(browser)
        choose(browser, "ranks")
        assert texts(browser, "#about0") == ["Works by rewriting, answering."]
        write(browser, "\n".join(talk.ptkb.values()), "persona")
        for turn in talk.turns[:2]:
            say(browser, turn.utterance)
        click(browser, ".turn:last-child .cite", 1)
        docnos = texts(browser, ".turn:last-child .s0 code")
        assert texts(browser, ".target code") == docnos[1:2]
        assert [len(texts(browser, f".turn:last-child .s{place} .passages li")) for place in (0, 1)] == [3, 2]
        assert texts(browser, ".s1 .problem") == ["This system writes no response. It found these passages."] * 2
        assert "rewriting" in browser.run("document.querySelector('#news').textContent")
        assert drawn(browser, ".turn:last-child .s0 h4") == ["Rewrite"]
        click(browser, "#exports button")
        exported = topics_frame(ikat.dataset(saved(browser, "responds")).conversations).drop(columns=["qid", "qconversation"])
    turns = pd.concat([turn for turn in seen if len(turn)][-2:], ignore_index=True)
    pd.testing.assert_frame_equal(exported[turns.columns], turns)
    assert turns["qhistory"][1][1]["content"].split() == texts(browser, ".s0 .answer")[0].partition("\n\nSources: ")[0].split()
    assert all("401" in error for error in browser.errors)


def test_two_systems_answer_the_same_words_with_their_own_histories(browser, server):
    open_page(browser, server, [answer("Rooibos."), answer("Hot.")], [answer("Mint."), answer("Cold.")])
    write(browser, "I avoid caffeine.\n\n  I like mint. \n", "persona")
    say(browser, "Which tea?")
    say(browser, "And how?")
    assert texts(browser, ".side .answer") == ["Rooibos.", "Mint.", "Hot.", "Cold."]
    assert texts(browser, ".utterance") == ["Which tea?", "And how?"]
    for model, first in (("plain", "Rooibos."), ("gtr", "Mint.")):
        question, later = UNANSWERED
        assert server.told(model) == [[question], [question, {"role": "assistant", "content": first}, later]]
    assert all(body["stream"] and body["metadata"]["ptkb"] == ["I avoid caffeine.", "I like mint."] for body in server.asked)
    (name,) = {body["metadata"]["chat_id"] for body in server.asked}  # one conversation, whoever answers
    assert re.fullmatch(r"chat-\d{14}-[0-9a-f]+", name)
    assert browser.errors == []


def test_a_turn_shows_how_it_was_answered_and_what_it_cost(browser, server):
    server.models[1]["writes_response"] = False
    facts = {"rewrite": "tea without caffeine", "queries": ["rooibos", "a draft", "mint"], "statements": ["I avoid caffeine."]}
    facts |= {"draft": "a draft", "seconds": 2.25, "calls": 3, "known": 1, "tokens": 1204, "cost": 0.00314, "omitted": 4}
    listed = answer("(Its best passages:) [1] Rooibos", TEA, response="", html="", rewrite="mint tea", queries=["mint tea"])
    open_page(browser, server, [answer("Rooibos [1].", TEA, **facts), answer("", seconds=1.0, calls=1, cost=None)], [listed, listed])
    assert drawn(browser, "#system1 option:checked") == ["gtr (passages only)"]
    say(browser, "Which tea?")
    browser.run("document.querySelectorAll('.steps').forEach(one => { one.open = true })")
    shown = {
        ".s0 h4": ["Rewrite", "3 queries", "1 statement about you", "Draft answer"],
        ".s0 .steps li": ["rooibos", "the draft answer", "mint", "I avoid caffeine."],
        ".s0 .draft": ["a draft"],
        ".s0 .figures": [
            "2.3 s · 3 LLM calls · 1 known completion · 1,204 tokens · $0.0031 · without the oldest 4 messages of the history"
        ],
        ".s0 .labels": ["Sources\nscore"],
        ".s0 .passages summary > *": ["[1]", "Rooibos has no caffeine.", "12.35", "tea:1"],
        ".s1 .steps > :not(summary)": ["Rewrite, the only query", "mint tea"],
        ".s1 .problem": ["This system writes no response. It found these passages."],
    }
    assert {query: texts(browser, f".side{query}") for query in shown} == shown
    say(browser, "And how?")
    assert texts(browser, ".turn:last-child .s0") == [
        "plain\n\nThe response is empty.\n\n1.0 s · 1 LLM call · 100 tokens · cost unknown\n\nAsk again"
    ]
    assert server.told("gtr")[1] == UNANSWERED  # a list of passages is no response


def test_a_citation_opens_its_passage_and_an_answer_is_copied_with_its_sources(browser, server):
    open_page(browser, server, [answer("Rooibos [1]. Or mint [2, 1], born in [2023].", TEA, MINT)], [answer("x")])
    browser.run("Object.defineProperty(navigator, 'clipboard', {value: {writeText: async text => { window.copied = text }}})")
    say(browser, "Which tea?")
    words = "Rooibos. [1] Or mint, born in [2023]. [2][1]"
    assert texts(browser, ".s0 .answer") == [words]
    assert texts(browser, ".s0 .cite") == ["[1]", "[2]", "[1]"]
    click(browser, ".s0 .cite", 1)
    assert texts(browser, ".s0 .target .whole") == [MINT[1]]
    assert browser.run("document.activeElement.closest('.target') !== null")
    click(browser, ".s0 .cite", 0)
    assert texts(browser, ".s0 .target code") == ["tea:1"]
    click(browser, "[aria-label^=Copy]")
    until(browser, "window.copied")
    assert browser.run("window.copied") == f"{words}\n\n[1] tea:1: {TEA[1]}\n[2] tea:2: {MINT[1]}"


def test_answers_show_their_activity_and_can_be_stopped(browser, server):
    held, other = server.hold(), server.hold()
    slow = [chunk(ikat={"activity": "searching 5 queries"}), chunk("Never "), held, *answer("shown.")]
    open_page(browser, server, [slow, answer("Rooibos.")], [[other, *answer("Mint.")], answer("Cold.")])
    say(browser, "Which tea?", wait=False)
    until(browser, f"{SIDE.format(0, 0)}.querySelector('.answer')")
    assert texts(browser, ".stage") == ["searching 5 queries", "waiting"]
    click(browser, "#stop")
    until(browser, "document.querySelectorAll('.retry').length === 2")
    assert drawn(browser, ".turn .problem") == ["Stopped."] * 2
    say(browser, "And how?")
    assert server.told("plain")[1] == UNANSWERED  # nothing of the stopped answers is in the history
    assert texts(browser, ".retry") == ["Ask again"] * 2  # a later answer was given without it
    assert texts(browser, ".answer") == ["Rooibos.", "Cold."]


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
    assert server.told("plain") == [UNANSWERED[:1]] * 5


def test_a_token_is_asked_for_and_kept_out_of_addresses(browser, server):
    server.token = "s3cret"
    server.replies = {"plain": [answer("Rooibos."), answer("Hot.")], "gtr": [answer("Mint."), answer("Cold.")]}
    browser.open(server.url)
    until(browser, "document.querySelector('#ask-token').open")
    assert focused(browser) == "token"
    assert violations(browser) == [] if find_axe() else True
    give(browser, "wrong")
    until(browser, "document.querySelector('#token-why').textContent.includes('refused')")
    give(browser, "s3cret")
    ready(browser)
    choose(browser, "gtr")
    say(browser, "Which tea?")
    assert texts(browser, ".answer") == ["Rooibos.", "Mint."]
    assert browser.run("[sessionStorage.getItem('ikat-token'), document.querySelector('#token').value]") == ["s3cret", ""]
    assert browser.run("localStorage.length") == 0
    assert "s3cret" not in "".join(server.paths) + browser.run("document.documentElement.outerHTML + location.href")
    server.token = "another"  # the server was started again: one question for both systems, and nothing is lost
    say(browser, "And how?", wait=False)
    for wrong in ("wrong", "another"):
        give(browser, wrong)
        until(browser, "!document.querySelector('#ask-token').open || document.querySelector('#token').value === ''")
    until(browser, "document.querySelectorAll('.figures').length === 4")
    assert texts(browser, ".answer") == ["Rooibos.", "Mint.", "Hot.", "Cold."]


def test_texts_of_models_and_passages_stay_text(browser, server):
    server.models[1]["about"] = ATTACK
    facts = {"rewrite": ATTACK, "queries": [ATTACK, BIDI], "statements": [ATTACK], "draft": ATTACK}
    attack = answer(f"{ATTACK} {BIDI} [1]", (f"d{ATTACK}", f"{ATTACK} {BIDI}", 1.0), activity=(ATTACK,), **facts)
    open_page(browser, server, [attack], [[{"error": {"message": ATTACK}}]])
    say(browser, f"{ATTACK} {BIDI}")
    click(browser, ".cite")
    assert texts(browser, ".s0 .answer")[0].replace("\n", "") == f"{ATTACK} gnp.exe isolated [1]"
    assert texts(browser, ".s0 .whole") == [f"{ATTACK} gnp.exe isolated"]
    assert browser.run("document.querySelectorAll('main script, img, main a, iframe, [onerror]').length") == 0
    assert browser.run("document.title") == "Chat · pyterrier_ikat"
    assert not any(control in browser.run("document.body.innerText") for control in "\u202a\u202b\u202d\u202e\u2066\u2067\u2068\u2069")
    assert server.told("plain")[0][0]["content"] == f"{ATTACK} {BIDI}"  # the system gets the words as they are
    assert browser.errors == []


def test_the_page_loads_nothing_but_itself_and_markup_that_gets_into_it_does_not_run(browser, server):
    open_page(browser, server)
    loaded = browser.run("performance.getEntriesByType('resource').map(one => new URL(one.name).pathname)")
    assert loaded == ["/page/page.css", "/page/page.js", "/v1/models"]
    assert sorted(server.paths) == ["/", *loaded]
    assert not any("http" in one.read_text(encoding="utf-8") for one in PAGE.iterdir())
    assert browser.errors == []
    browser.run("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"document.title = 1\">')")
    browser.run("fetch('http://127.0.0.1:9/stolen').catch(() => 0)")
    assert browser.run("document.title") == "Chat · pyterrier_ikat"
    assert sum("Content Security Policy" in error for error in browser.errors) >= 2


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
    tools = [("Copy the answer of plain", "Ask again: plain"), ("Copy the answer of gtr", "Ask again: gtr")]
    source = "[1]Rooibos has no caffeine.12."
    found = ["Edit turn 1", "Passage 1", source, *tools[0], *tools[1], "words", "send"]
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
    assert drawn(browser, ".turn .problem") == ["Stopped."] * 2
    assert focused(browser) == "words"


def test_a_screen_reader_hears_activities_and_whole_answers(browser, server):
    open_page(
        browser,
        server,
        [answer("Rooibos [1].", TEA, activity=("rewriting", "searching 5 queries", "searching 5 queries"))],
        [[chunk("Half"), CUT]],
    )
    say(browser, "Which tea?")
    heard = browser.run("[...document.querySelectorAll('#news p')].map(one => one.textContent)")
    plain = [line for line in heard if line.startswith("plain")]
    assert plain == ["plain: rewriting", "plain: searching 5 queries", "plain: Rooibos. 1 passage."]
    assert "gtr: The connection ended before the answer was complete. Retry." in heard
    assert browser.run("document.querySelectorAll('[aria-live]').length") == 1


def test_an_export_is_a_topics_file_of_what_the_system_saw(browser, server):
    plain, gtr = [answer("Rooibos [1].", TEA, MINT), [CUT], answer("Hot.")], [answer("Mint.", MINT), answer(""), answer("Cold.")]
    open_page(browser, server, plain, gtr)
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
    click(browser, "#fresh")
    assert texts(browser, ".turn") == []


def saved(browser, model, kind="json"):
    """The downloaded file, once the browser has it whole: until then its name has an empty file."""
    for _ in range(3000):
        if found := [path for path in browser.saved.glob(f"*-{model}.{kind}") if path.stat().st_size]:
            return found[0]
        browser.run("new Promise(done => setTimeout(done, 20))")
    raise AssertionError(f"no download of {model}")


def test_a_conversation_survives_a_reload_until_a_new_one_is_begun(browser, server):
    held = server.hold()
    first = [answer("Rooibos [1].", TEA), [chunk("Half"), held], answer("Cold.")]
    open_page(browser, server, first, [answer("Mint."), answer("Hot."), answer("Cold.")])
    write(browser, "I avoid caffeine.", "persona")
    say(browser, "Which tea?")
    say(browser, "And how?", wait=False)
    until(browser, f"{SIDE.format(1, 0)}.querySelector('.answer') && {SIDE.format(1, 1)}.querySelector('.figures')")
    reload(browser, server)
    assert drawn(browser, ".utterance") == ["Which tea?", "And how?"]
    assert [text.strip() for text in drawn(browser, ".answer")] == ["Rooibos. [1]", "Mint.", "Hot."]
    assert drawn(browser, ".turn .problem") == ["The page was reloaded meanwhile."]
    assert browser.run("document.querySelector('#persona').value") == "I avoid caffeine."
    click(browser, ".cite")
    assert texts(browser, ".s0 .target .whole") == [TEA[1]]
    say(browser, "And cold?")
    assert server.told("plain")[-1][:2] == [{"role": "user", "content": "Which tea?"}, {"role": "assistant", "content": "Rooibos."}]
    assert {body["metadata"]["chat_id"] for body in server.asked} == {server.asked[0]["metadata"]["chat_id"]}  # it is the same conversation
    click(browser, "#fresh")
    reload(browser, server)
    assert texts(browser, ".turn") == []
    assert browser.run("document.querySelector('#choice').disabled") is False


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


def test_markdown_is_drawn_and_only_links_of_http_are_links(browser, server):
    open_page(browser, server, [answer(MARKDOWN, TEA)], both=False)
    say(browser, "Which tea?")
    found = {
        "strong": ["Teas", "Rooibos", "mint", "none"],
        "em": ["red"],
        "tr > *": ["tea", "caffeine", "rooibos", "none [1]"],
        "ol[start='3'] li": ["three", "four"],
        ":is(img, u, b)": [],
        ".cite": ["[1]", "[1]"],
    }
    assert {tag: drawn(browser, f".answer {tag}") for tag in found} == found
    links = browser.run("[...document.querySelectorAll('.answer a')].map(one => [one.href, one.rel])")
    assert links == [["http://a/x.png", "noreferrer"], ["http://a/", "noreferrer"]]


@pytest.mark.parametrize("width", [390, 1280])
def test_a_line_of_an_answer_has_at_most_seventy_characters(browser, server, width):
    words = "Rooibos is a red tea of little tannin, it is ill in it, till lilies fill a mill. " * 8
    open_page(browser, server, [answer(words)], both=False, width=width)
    say(browser, "Which tea?")
    tops = browser.run("""(node => [...node.data].map((_, at) => {
        const range = new Range();
        range.setStart(node, at);
        range.setEnd(node, at + 1);
        return Math.round(range.getBoundingClientRect().top);
    }))(document.querySelector('.answer p').firstChild)""")
    assert 30 < max(Counter(tops).values()) <= 70


def test_three_examples_stand_at_the_start_and_one_click_asks(browser, server):
    server.models[0]["examples"] = ["Which tea?", "And how?", "Why?"]
    open_page(browser, server, [answer("Rooibos.")], both=False)
    assert texts(browser, "#examples button") == ["Which tea?", "And how?", "Why?"]
    choose(browser, "gtr")
    choose(browser, "gtr", 0)
    assert len(texts(browser, "#examples button")) == 3  # of any system
    choose(browser, "plain", 0)
    choose(browser, "")
    click(browser, "#examples button")
    until(browser, "document.querySelector('.figures')")
    assert server.told("plain") == [UNANSWERED[:1]]


def test_an_answer_is_asked_for_anew(browser, server):
    open_page(browser, server, [answer("Rooibos."), answer("Mint."), answer("Sage."), answer("Hot.")], both=False)
    say(browser, "Which tea?")
    for text in ("Mint.", "Sage."):
        click(browser, ".retry")
        until(browser, f"document.querySelector('.answer')?.innerText === {text!r} && !document.querySelector('.activity')")
    assert [body.get("sample") for body in server.asked] == [0, 1, 2]
    say(browser, "And how?")
    assert server.told("plain")[-1][1]["content"] == "Sage."


@pytest.mark.parametrize("way", ["Enter", "button"])
def test_an_edited_question_is_asked_again_and_the_later_turns_are_dropped(browser, server, way):
    open_page(browser, server, [answer(text) for text in ("A.", "B.", "C.", "D.")], both=False)
    for text in ("one", "two", "three"):
        say(browser, text)
    click(browser, "[aria-label='Edit turn 2']")
    assert focused(browser) == "The question"
    browser.run("document.activeElement.value = 'other'")
    press(browser, "Enter") if way == "Enter" else click(browser, ".turn .main")
    until(browser, "document.querySelectorAll('.answer').length === 2 && !document.querySelector('.activity')")
    assert drawn(browser, ".utterance") == ["one", "other"]
    assert drawn(browser, ".side h3") == ["plain"] * 2  # one system, one side
    assert [message["content"] for message in server.told("plain")[-1]] == ["one", "A.", "other"]
    reload(browser, server)
    assert drawn(browser, ".utterance") == ["one", "other"]


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
    assert violations(browser) == []
    say(browser, "Which tea?")
    say(browser, "Which one?")
    click(browser, "[aria-label='Edit turn 1']")
    assert violations(browser) == []
    browser.run("[...document.querySelectorAll('.turn button')].find(one => one.innerText === 'Cancel').click()")
    click(browser, ".cite")
    browser.run("document.querySelectorAll('details').forEach(one => { one.open = true })")
    say(browser, "And how?", wait=False)
    until(browser, "document.querySelectorAll('.activity').length === 2")
    assert violations(browser) == []
    tops = [browser.run(f"Math.round({SIDE.format(0, place)}.getBoundingClientRect().top)") for place in (0, 1)]
    assert (tops[0] == tops[1]) == (width == 1280)
    assert browser.run("document.documentElement.scrollWidth") == width
