"""The memory of one user with 10,000 statements, each learned in a separate call in one of 500 conversations of 20 turns.

    python experiments/performance/bench.py user_memory

``UserMemory`` against what its users would write today: one JSON file that is read for each question and written at each change, and an
index of words that is made for each question. Times are CPU seconds, except for changes, which wait for the disk. The limits are a copy of
the statements, the sums of the postings of the question's words, and writing and flushing one line.
"""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import numpy as np
from bench import Row, cpu_seconds, median_seconds

import pyterrier_ikat as ikat
from pyterrier_ikat.memory.memory_file import MemoryFile
from pyterrier_ikat.retrieve.eager import LexicalIndex

STATEMENTS, TURNS, WORDS, VOCABULARY = 10_000, 20, 8, 3000
QUESTION = "Which word1 and word20 do I like for word300?"
NOW = "2026-01-01T00:00:00.000Z"


def written(path: Path) -> ikat.UserMemory:
    """The memory, with words about as frequent as in a text."""
    rng = np.random.default_rng(1)
    drawn = np.minimum(rng.zipf(1.3, (STATEMENTS, WORDS)), VOCABULARY)
    events = []
    for number, words in enumerate(drawn):
        text = f"I like {' '.join(f'word{word}' for word in words)}."
        learned = {"id": str(number + 1), "statement": text, "message": number % TURNS + 1, "words": text, "replaces": []}
        place = {"session": f"s{number // TURNS}", "turn": number % TURNS + 1}
        events.append({"event": "learned", "when": NOW, "user": "u1", **place, "said": ["0" * 32], "learned": [learned]})
    file = MemoryFile(path)
    with file.changing():
        file.rewrite(events)
    return ikat.UserMemory(path)


def rows() -> Iterator[Row]:
    """Questions and changes."""
    with TemporaryDirectory() as folder:
        memory, plain = written(Path(folder, "users.jsonl")), Path(folder, "users.json")
        known, number = memory.known("u1"), iter(range(10**6))
        plain.write_text(json.dumps(memory.export("u1"), indent=1))

        def read() -> dict[str, str]:
            return {one["id"]: one["statement"] for event in json.loads(plain.read_text()) for one in event["learned"]}

        def rewrite() -> None:
            plain.write_text(json.dumps(json.loads(plain.read_text()), indent=1))

        def line() -> None:
            with Path(folder, "lines").open("ab") as file:
                file.write(b"x" * 300 + b"\n")
                file.flush()
                os.fsync(file.fileno())

        index, size = LexicalIndex(known.items()), f"{STATEMENTS:,} statements"
        if memory.search("u1", QUESTION) != index.search(QUESTION, 10) or read() != known:
            raise SystemExit("the sides differ")
        today, copy = cpu_seconds(read), cpu_seconds(lambda: dict(known))
        places = {"now": (), "for a new conversation": ("new", 1), "for a repeated turn in the middle": ("s250", 3)}
        asked = {name: lambda place=place: memory.known("u1", *place) for name, place in places.items()}
        asked["on a day of the past"] = lambda: memory.known("u1", as_of="2026-02-01")
        dated = ikat.UserMemory(memory.path, dated=True)
        asked["with dates, as prompts show them"] = lambda: dated.known("u1")
        for name, question in asked.items():
            yield Row(f"known {name}, {size}", cpu_seconds(question), today, "one JSON file", copy, "a copy of the statements")
        made = cpu_seconds(lambda: LexicalIndex(known.items()), repeats=3)
        sums = cpu_seconds(lambda: index.postings.rankings([{"word1": 1.0, "word20": 1.0, "word300": 1.0, "like": 1.0}], 10))
        ours, instead = cpu_seconds(lambda: memory.search("u1", QUESTION)), "an index for each question"
        yield Row(f"BM25, {size}", ours, made, instead, sums, "the sums of the postings")
        changed = []
        for _ in range(10):
            memory.add("u1", [f"I like tea {next(number)}."])
            begun = time.process_time()
            memory.search("u1", QUESTION)
            changed.append(time.process_time() - begun)
        yield Row(f"BM25 right after a change, {size}", median(changed), made, instead, sums, "the sums of the postings")
        ours = median_seconds(lambda: memory.add("u1", [f"I like tea {next(number)}."]))
        yield Row(f"one more statement, {size}", ours, median_seconds(rewrite), "one JSON file", median_seconds(line), "one line, flushed")
        ours = cpu_seconds(lambda: ikat.UserMemory(memory.path), repeats=3)
        yield Row(f"opening, {size}", ours, today, "one JSON file", None, "")
