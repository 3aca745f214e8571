"""What somebody does on the chat page, by Playwright."""

from playwright.sync_api import expect


def open_chat(page, server, plain=(), gtr=(), both=True):
    """Open the page of a server with these answers to come; with `both`, two systems answer."""
    server.replies = {"plain": list(plain), "gtr": list(gtr)}
    page.goto(server.url)
    expect(page.locator("#send")).to_be_enabled()
    if both:
        choose(page, "gtr")


def choose(page, system, label="Compared with"):
    page.get_by_label(label, exact=True).select_option(system)


def write_persona(page, text):
    page.get_by_label("Persona: statements about you, one per line").fill(text)


def say(page, text):
    """Ask, without waiting for the answers."""
    question = page.get_by_label("Your question")
    question.fill(text)
    question.press("Enter")


def ask(page, text):
    """Ask, and wait until all systems have answered."""
    say(page, text)
    wait_for_answers(page)


def wait_for_answers(page):
    expect(page.locator(".activity")).to_have_count(0)
    expect(page.locator("#stop")).to_be_hidden()


def give_token(page, token):
    dialog = page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    dialog.get_by_label("Token", exact=True).fill(token)
    dialog.get_by_role("button", name="Continue").click()


def save_answers(page, system, folder):
    """Export the conversation with a system; the path of the file."""
    with page.expect_download() as download:
        page.get_by_role("button", name=f"Export with answers of {system}").click()
    path = folder / download.value.suggested_filename
    download.value.save_as(path)
    return path


TEA = ("tea:1", "Rooibos has no caffeine.", 12.3456)
MINT = ("tea:2", "Mint tea is made of leaves.", 0.5)
CITED = "Rooibos [1]. Or mint [2, 1], born in [2023]."
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
