"""Names of before, and what has taken their place: whoever uses an old one is told the new one in a line."""

PYTHON = {"running": "study"}
"""Name in `pyterrier_ikat` -> the new one."""
