"""What a reader does on the page of a report, and sees."""

import json


def settle(browser):
    """Wait for the next frame: the page does all at once."""
    browser.run("new Promise(done => requestAnimationFrame(() => setTimeout(done)))")


def reset(browser, url):
    """The page with nothing chosen in its toolbar: loaded anew only where it isn't there."""
    if browser.view == (url, 1400, 900, False, True) and not browser.errors:
        browser.run("document.forms[0].reset(); 0")
        settle(browser)
    else:
        browser.open(url)


def choose(browser, **values):
    """Set fields of the toolbar."""
    for name, value in values.items():
        field = f"document.forms[0].elements[{json.dumps(name)}]"
        browser.run(f"{field}.value = {json.dumps(value)}; {field}.dispatchEvent(new Event('input', {{bubbles: true}}))")
    settle(browser)


def texts(browser, selector):
    """The texts of the elements that are shown."""
    shown = f"[...document.querySelectorAll({json.dumps(selector)})].filter(one => one.checkVisibility())"
    # out of the view nothing is laid out
    return browser.run(f"{shown}.map(one => one.innerText.trim() || one.textContent.replace(/\\s+/g, ' ').trim())")


def turns(browser):
    """The turns or sessions that are shown, by name; the text of what is out of the view is not laid out."""
    shown = "[...document.querySelectorAll('.turn h3 .quiet')].filter(one => one.checkVisibility())"
    return browser.run(f"{shown}.map(one => one.textContent)")
