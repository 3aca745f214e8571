import json

import pytest


@pytest.fixture
def write(tmp_path):
    """Writes a file, JSON unless it is a string, and gives its path."""

    def write(content, name="topics.json"):
        path = tmp_path / name
        path.write_text(
            content if isinstance(content, str) else json.dumps(content), encoding="utf-8"
        )
        return path

    return write
