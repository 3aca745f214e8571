"""What a reader does on the page of a report, and sees."""

from in_browser import shown
from parsed_page import Page
from playwright.sync_api import expect


def choose(page, **values):
    """Set fields of the toolbar, as a reader does."""
    for name, value in values.items():
        field = page.locator(f"#filters [name={name}]")
        if name == "search":
            field.fill(value)
        else:
            field.select_option(value)


def turns(page):
    """The names of the turns or sessions that are shown."""
    return shown(page, ".turn h3 .quiet")


def open_turns(page):
    """Open all turns or sessions that are shown, and wait until they are drawn."""
    page.get_by_role("button", name="Open all").click()
    expect(page.locator(".turn:not([hidden]):not(:has(> .body))")).to_have_count(0)


def drawn(page, report, folder):
    """The elements and the text of a report after the script has drawn all turns or sessions."""
    page.goto(report.save(folder / "drawn.html").as_uri())
    open_turns(page)
    return Page(page.evaluate("document.documentElement.outerHTML"))
