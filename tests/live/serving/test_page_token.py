"""The token that the chat page asks for, and texts that attack the page."""

from chat_page import ask, choose, give_token, open_chat, say
from in_browser import shown, violations
from page_server import PAGE, answer
from playwright.sync_api import expect


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


# Hostile texts


ATTACK = (
    "<script>document.title = 'owned'</script><img src=x onerror=\"document.title = "
    "'owned'\"> [x](javascript:document.title='owned')"
)
BIDI = "\u202egnp.exe\u202c \u2066isolated\u2069"
TITLE = "Chat · pyterrier_ikat"


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
