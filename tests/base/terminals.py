"""Terminals that a test reads."""

import io
import sys


class Terminal(io.StringIO):
    def isatty(self):
        return True

    def rows(self):
        """What stands in the rows: a carriage return lets the rest of its row be written over."""
        found = []
        for row in self.getvalue().split("\n"):
            cells = []
            for part in row.split("\r"):
                cells[: len(part)] = part
            found.append("".join(cells).rstrip())
        return found

    def row(self):
        """The last row, without times."""
        return self.rows()[-1].partition(" [")[0]


def terminals(monkeypatch):
    """Called by the test, because pytest replaces what a fixture sets."""
    out = Terminal()
    error = Terminal()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", error)
    return out, error
