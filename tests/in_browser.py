"""Pages in Chromium, which Playwright drives. Whatever a page may not do fails its test."""

import shutil
from urllib.parse import urlsplit

import pytest

PROGRAMS = ("chromium-headless-shell", "chromium")
PATIENCE = 60_000
"""Milliseconds that a test waits for what it expects: a loaded machine draws late."""

DESK = {"viewport": {"width": 1280, "height": 900}, "color_scheme": "light"}
PHONE = {
    "viewport": {"width": 390, "height": 900},
    "color_scheme": "dark",
    "is_mobile": True,
    "has_touch": True,
}


@pytest.fixture(scope="module")
def browser():
    """Chromium for the tests of one module: asyncio.run refuses to work beside Playwright."""
    from playwright.sync_api import expect, sync_playwright

    programs = [path for path in map(shutil.which, PROGRAMS) if path]
    if not programs:
        pytest.skip("no Chromium here: apt-get install chromium-headless-shell")
    expect.set_options(timeout=PATIENCE)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=programs[0])
        yield browser
        browser.close()


@pytest.fixture
def allowed_errors():
    """Words of errors that the test provokes, to be added by the test."""
    return []


@pytest.fixture
def new_page(browser, allowed_errors):
    """Open an empty page with Playwright's options of a context, as in a browser never used before.

    An error in the console, an uncaught exception or a request that leaves this machine fails the
    test at its end.
    """
    problems = []
    contexts = []

    def note_message(message):
        if message.type == "error":
            problems.append(message.text)

    def note_request(request):
        if urlsplit(request.url).hostname not in (None, "127.0.0.1"):
            problems.append(f"requested {request.url}")

    def open_page(**options):
        context = browser.new_context(**options)
        context.set_default_timeout(PATIENCE)
        context.on("console", note_message)
        context.on("request", note_request)
        context.on("weberror", lambda found: problems.append(str(found.error)))
        contexts.append(context)
        return context.new_page()

    yield open_page
    for context in contexts:
        context.close()
    for text in problems:
        assert any(words in text for words in allowed_errors), problems


@pytest.fixture
def page(new_page):
    """An empty page of a wide window."""
    return new_page(viewport={"width": 1400, "height": 900})


def shown(page, selector):
    """The elements that are shown, in sight or not."""
    return page.locator(selector).filter(visible=True)


def open_all_boxes(page):
    """Open all that is folded, and lay out what is out of sight, too."""
    page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true })")
    page.evaluate(
        "document.querySelectorAll('.turn').forEach(one => { one.style.contentVisibility = "
        "'visible' })"
    )


def violations(page):
    """What keeps people from using the page, by axe-core.

    Rules and the elements that break them.
    """
    from axe_core_python.sync_playwright import Axe

    results = Axe().run(page, options={"resultTypes": ["violations"]})
    found = []
    for rule in results["violations"]:
        found.append((rule["id"], [node["html"] for node in rule["nodes"]]))
    return found
