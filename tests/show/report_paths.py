"""A reader of a report, who clicks with the mouse and scrolls: how far it is to what one wants to know."""

import json

PLACE = """(() => {
    const found = [...document.querySelectorAll(%s)].find((one) => one.checkVisibility());
    if (!found) return null;
    const before = found.getBoundingClientRect().top;
    found.scrollIntoView({ block: "nearest" });
    const box = found.getBoundingClientRect(), x = box.left + Math.min(box.width / 2, 40);
    const y = Math.max(box.top, 0) + Math.min(box.height / 2, 12), at = document.elementFromPoint(x, y);
    const free = Boolean(at) && (found.contains(at) || at.contains(found));
    return { moved: Math.abs(box.top - before), x, y, free, text: found.innerText };
})()"""
WAIT = "new Promise(done => setTimeout(done, 250))"


class Reader:
    """Counts clicks, and the screens that are scrolled.

    Attributes:
        clicks: so far.
        screens: so far; a screen is the height of the window.
    """

    def __init__(self, browser, url, width, height):
        self.browser, self.height, self.clicks, self.screens = browser, height, 0, 0.0
        browser.open("about:blank", width=width, height=height)
        browser.open(url, width=width, height=height)

    def click(self, query):
        """Click the first visible element with the mouse."""
        place = self._reach(query)
        for kind in ("mousePressed", "mouseReleased"):
            self.browser.call("Input.dispatchMouseEvent", type=kind, x=place["x"], y=place["y"], button="left", clickCount=1)
        self.browser.run(WAIT)
        self.clicks += 1

    def read(self, query):
        """The text of the first visible element, scrolled into the view."""
        return self._reach(query)["text"]

    def sees(self, query):
        """Whether there is such an element and it isn't folded."""
        return self.browser.run(f"[...document.querySelectorAll({json.dumps(query)})].some(one => one.checkVisibility())")

    def _reach(self, query):
        place = self.browser.run(PLACE % json.dumps(query))
        assert place is not None, f"nothing visible is {query}"
        assert place["free"], f"{query} is covered"
        self.screens += place["moved"] / self.height
        return place


def walks(browser, url, turn, width, height):
    """What one wants to know -> the clicks, the screens and the text that was found.

    Args:
        browser: the browser.
        url: a report of two or more systems with a baseline.
        turn: the number of the turn, or of the session, as the page counts them.
        width: of the window.
        height: of the window.
    """
    card, chip = f"#t{turn}", f'.strip a[href="#t{turn}"]'
    found = {}
    for name, walk in {"why": _why, "worse": _worse, "final query": _query, "prompt": _prompt, "cost": _cost}.items():
        reader = Reader(browser, url, width, height)
        text = walk(reader, card, chip)
        found[name] = (reader.clicks, round(reader.screens, 1), text)
    return found


def _why(reader, card, chip):
    reader.click(chip)
    return reader.read(f"{card} .reason, {card} .rubrics")


def _worse(reader, card, chip):
    reader.click('#outcomes [value="loss"]')
    return reader.read(".turn:not([hidden]) header" if reader.sees(".turn") else "#none")


def _query(reader, card, chip):
    reader.click(chip)
    side = f"{card} .side:not(.n0)"
    if not reader.sees(f"{side} .final, {side} .said"):
        reader.click(f"{side} .long > summary, {side} .subqueries > summary, {side} .how > summary")
    return reader.read(f"{side} .final, {side} .subqueries .said, {side} .how dd")


def _prompt(reader, card, chip):
    reader.click(chip)
    if not reader.sees(f"{card} .calls > summary"):
        return None  # a log of conversations has none
    reader.click(f"{card} .calls > summary")
    return reader.read(f"{card} .calls pre")


def _cost(reader, card, chip):
    if reader.sees(".means [data-lacking]"):
        return reader.read(".means")
    reader.click(".about > summary")
    return reader.read(".about dd p")
