"""Small pieces of Markdown."""

import re
import subprocess
import sys
from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table; bars in the cells are escaped."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell).replace("|", r"\|") for cell in line) + " |" for line in lines)


def first_sentence(docstring: str | None) -> str:
    """The first sentence of a docstring, as Markdown."""
    paragraph = " ".join((docstring or "").strip().split("\n\n")[0].split())
    return as_markdown(re.split(r"(?<=\.) (?=[A-Z])", paragraph)[0])


def as_markdown(text: str) -> str:
    """A docstring's roles and double backticks as Markdown's backticks."""
    return re.sub(r":\w+:`~?([^`]+)`", r"`\1`", text).replace("``", "`")


def formatted(code: str) -> str:
    """Python code broken into lines that fit on a page."""
    command = [sys.executable, "-m", "ruff", "format", "--quiet", "--line-length", "88", "-"]
    return subprocess.run(command, input=code, capture_output=True, text=True, check=True).stdout.rstrip()
