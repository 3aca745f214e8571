"""A page as its reader gets it: elements, text, and faults of its markup."""

from html.parser import HTMLParser

ATTACKS = (
    "<script>alert(1)</script>",
    "</script><b id=evil>",
    '"><img src=x onerror=alert(1)>',
    "{{ 7 * 7 }} {% raw %}",
    "]]><!--",
)
VOID = {"meta", "input", "img", "br", "wbr"}


class Page(HTMLParser):
    """Checks that every element is closed in its place; collects elements and the shown text."""

    def __init__(self, html):
        super().__init__()
        self.open, self.elements, self.text, self.problems = [], [], [], []
        self.feed(html)
        self.close()
        self.problems += [f"{name} is not closed" for name in self.open]

    def handle_starttag(self, tag, attrs):
        names = [name for name, _ in attrs]
        if len(set(names)) < len(names):
            self.problems.append(f"{tag} has an attribute twice: {names}")
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.problems.append(f"</{tag}> at {self.getpos()}")

    def handle_data(self, data):
        if not self.open or self.open[-1] not in ("style", "script"):
            self.text.append(data)

    def handlers(self):
        """The attributes that would run a script, as onerror does."""
        found = []
        for _, attrs in self.elements:
            found += [name for name in attrs if name.startswith("on")]
        return found

    def said(self):
        return " ".join(" ".join(self.text).split())
