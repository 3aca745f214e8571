"""What a reader does on the page of a report, and sees."""

from in_browser import shown


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
