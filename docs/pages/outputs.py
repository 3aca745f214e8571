"""Runs the code of a page: a block of Python or of shell commands, and the block of what it prints."""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

_BLOCKS = re.compile(r"```(python|bash|)\n(.*?)```\n+```(?:text)?\n.*?```", re.DOTALL)


def with_output(body: str) -> str:
    """The code block as it stands, and below it what it prints now.

    Args:
        body: a block of Python or of shell commands, and the block of its output.

    Raises:
        RuntimeError: when there are no such blocks, or the code fails.
    """
    found = _BLOCKS.fullmatch(body.strip())
    if found is None:
        raise RuntimeError(f"this is not a block of code and a block of its output:\n{body}")
    language, code = found.groups()
    return f"```{language}\n{code}```\n\n```\n{_printed(language, code)}```"


def with_output_of_real_data(body: str) -> str:
    """The same where ``IKAT_DATA`` says where the data are; elsewhere the part stays as it is, and that is said."""
    if "IKAT_DATA" in os.environ:
        return with_output(body)
    print("not renewed: an output on real turns, for IKAT_DATA names no folder with the data", file=sys.stderr)
    return body


def _printed(language: str, code: str) -> str:
    command = [sys.executable, "-W", "ignore", "-c", code] if language == "python" else ["bash", "-euo", "pipefail", "-c", code]
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"PATH": path, "COLUMNS": "140", "IKAT_HOME": folder}
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=600)
    if done.returncode:
        raise RuntimeError(f"this block fails:\n{code}\n{done.stderr}")
    return "\n".join(line.rstrip() for line in done.stdout.strip("\n").split("\n")) + "\n"
