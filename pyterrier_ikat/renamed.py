"""Names of before, and what has taken their place: whoever uses an old one is told the new one in a line."""

PYTHON = {"running": "study", "chat": "live.chat", "serving": "live.serving", "interactive": "live.interactive"}
"""Name in `pyterrier_ikat` -> the new one."""
