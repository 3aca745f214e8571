import json

import pytest
from small_files import PASSAGES, TURNS, lines


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


@pytest.fixture
def folder(tmp_path):
    """A folder with turns, passages, judgements, and two files of other judgements."""
    path = tmp_path / "mine"
    path.mkdir()
    (path / "topics.jsonl").write_text(lines(*TURNS))
    (path / "passages.jsonl").write_text(lines(*PASSAGES))
    (path / "qrels.txt").write_text("9-1_1 0 d1 2\n9-2_1 0 d2 0\n")
    (path / "qrels.ptkb.txt").write_text("9-1_1 0 1 1\n9-2_1 0 1 0\n")
    (path / "qrels.gpt4.txt").write_text("9-1_1 0 d1 1\n")
    return path
