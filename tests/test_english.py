"""The English of messages, docstrings and comments: 'is not a', never 'is no'."""

import re
from pathlib import Path

import pyterrier_ikat

PACKAGE = Path(pyterrier_ikat.__file__).parent
IS_NO = re.compile(r"(?<!here )\b(?:is|are|was|were) no (?!longer\b|wider\b)\w+")
CORRECT = {"is no evidence", "are no evidence"}
"""Usual phrases."""


def test_nothing_is_no_thing():
    found = {
        f"{path.relative_to(PACKAGE)}:{number}: {phrase}"
        for path in PACKAGE.rglob("*.py")
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        for phrase in IS_NO.findall(line)
        if phrase not in CORRECT
    }
    assert not found, "write 'is not a ...'"
