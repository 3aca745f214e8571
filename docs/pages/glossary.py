"""Links the first use of each word of the glossary on a page to the glossary."""

import re
from collections.abc import Iterator
from pathlib import Path

_BLOCK = re.compile(r"^```.*?^```$|^(?:#|\||<|\[|\.\.|:::|!).*?$", re.DOTALL | re.MULTILINE)
"""Code, headings, tables, HTML: what stays as it is."""
_INLINE = re.compile(r"`[^`]*`|!?\[[^\]]*\]\([^)]*\)|\[[^\]]*\]|<[^>]+>|\*\*[^*]+\*\*|\{\w+\}")


def terms(glossary: str) -> list[str]:
    """The words of the glossary's page, longest first."""
    [body] = re.findall(r"^```\{glossary\}\n(.*?)^```", glossary, re.DOTALL | re.MULTILINE)
    return sorted(re.findall(r"^(\w[\w -]*)$", body, re.MULTILINE), key=len, reverse=True)


def linked(page: str, words: list[str]) -> str:
    """The page with the first use of each word, also in the plural, as a link to the glossary; outside code, tables, headings and links."""
    left = {word.casefold(): word for word in words}
    pattern = re.compile(rf"(?<![\w/.-])({'|'.join(map(re.escape, words))})(s?)(?![\w/-])", re.IGNORECASE)

    def link(found: re.Match[str]) -> str:
        word = left.pop(found[1].casefold(), None)
        return found[0] if word is None else f"{{term}}`{found[0]} <{word}>`"

    return "".join(text if fixed else pattern.sub(link, text) for text, fixed in _parts(page))


def _parts(page: str) -> Iterator[tuple[str, bool]]:
    """The page in pieces, and whether each stays as it is."""
    end = 0
    for block in [*_BLOCK.finditer(page), None]:
        prose = page[end : block.start() if block else None]
        last = 0
        for inline in _INLINE.finditer(prose):
            yield prose[last : inline.start()], False
            yield inline[0], True
            last = inline.end()
        yield prose[last:], False
        if block:
            yield block[0], True
            end = block.end()


def link_pages(folder: Path) -> None:
    """Link the pages of a folder, but for the glossary itself and the front page."""
    words = terms((folder / "glossary.md").read_text(encoding="utf-8"))
    for page in sorted(folder.glob("*.md")):
        if page.name not in ("glossary.md", "index.md", "changelog.md", "promises.md", "contributing.md"):
            page.write_text(linked(page.read_text(encoding="utf-8"), words), encoding="utf-8")
