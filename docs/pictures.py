"""The picture in the README, by one command: ``python docs/pictures.py`` runs the demo and photographs its report.

Needs Chromium (``chromium`` on the path, or the program that ``$CHROMIUM`` names) and Pillow, which comes with the extra ``[plots]``.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

PICTURE = Path(__file__).parent / "_static" / "report.png"
SYSTEMS = ("raw", "human_qr", "qr")
TURN = "3-1_2"
"""A question that nobody understands without the turn before it."""
SIZE = (1280, 1120)
COLOURS = 256
"""A photograph of a page needs no more, and the file is a third as large."""


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
    with Image.open(target) as taken:
        taken.convert("RGB").quantize(COLOURS).save(target, optimize=True)


def main() -> None:
    """Run the demo, make the report of three of its systems, and write the picture."""
    ikat = Path(sys.executable).parent / "ikat"
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.html")
        subprocess.run([ikat, "demo", "--out", folder], check=True, stdout=subprocess.DEVNULL)
        runs = [Path(folder, "runs", name) for name in SYSTEMS]
        subprocess.run([ikat, "report", *runs, "--out", report], check=True)
        photograph(report, TURN, PICTURE)
    print(f"{PICTURE}: {PICTURE.stat().st_size // 1000} kB")


if __name__ == "__main__":
    main()
