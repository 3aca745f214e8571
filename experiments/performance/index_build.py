"""The time, disk space and memory to index the full collection, extrapolated from synthetic passages.

    python experiments/performance/index_build.py --sizes 10000,100000 --out index-build.json

The passages have the lengths of the 700 real ones of ikat:2023-mini. Their words are drawn with the frequencies in those passages, and one
in 250 from a long tail of invented words, so that the vocabulary grows as in a collection. Random words compress worse than sentences: the
texts are 1.5 times as large as real ones. All figures are extrapolated along the line through the two largest builds. Only the memory of
the last step grows, in which PISA adds the data for BM25, so it is measured separately. A query's time is the mean over 64 queries of 5 or
200 words drawn like the passages, with 1000 passages and their texts each, on all cores, including opening the index. Memory is that of the
processes themselves (RssAnon of /proc, every 20 ms), without the pages of mapped files. Linux only.
"""

import json
import multiprocessing
import os
import resource
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import click
import numpy as np
import pandas as pd
import pyterrier as pt

import pyterrier_ikat as ikat
from pyterrier_ikat.conversations.datasets import COLLECTION_SIZE
from pyterrier_ikat.conversations.passages import PassageFiles

PER_FILE = 100_000
QUERIES = 64
TAIL, TAIL_WORDS = 1 / 250, 1e9


def synthetic(real: Iterable[Mapping[str, str]], count: int, seed: int = 1) -> Iterator[str]:
    """Texts of real lengths, with words drawn from ``real``."""
    random = np.random.default_rng(seed)
    texts = [passage["text"].split() for passage in real]
    frequencies = Counter(word for text in texts for word in text)
    words, shares = np.array(list(frequencies)), np.cumsum(list(frequencies.values()))
    lengths = np.array([len(text) for text in texts])
    for length in random.choice(lengths, count):
        drawn = words[np.searchsorted(shares, random.integers(shares[-1], size=length), side="right")].tolist()
        for place in np.flatnonzero(random.random(length) < TAIL):
            drawn[place] = f"w{int(TAIL_WORDS ** random.random())}x"
        yield " ".join(drawn)


def write_files(folder: Path, count: int) -> None:
    """Write ``count`` synthetic passages in the collection's format, with 15 passages per document."""
    texts = synthetic(pt.get_dataset("ikat:2023-mini").get_corpus_iter(verbose=False), count)
    for first in range(0, count, PER_FILE):
        with (folder / f"passages_{first:09d}.jsonl").open("w", encoding="utf-8") as file:
            for number in range(first, min(first + PER_FILE, count)):
                docno = f"clueweb22-en0000-00-{number // 15:08d}:{number % 15}"
                file.write(json.dumps({"id": docno, "contents": next(texts), "url": ""}) + "\n")


def build(source: Path, target: Path, threads: int, engine: str = "both") -> None:
    """Build the index."""
    ikat.PassageIndex(target).index(PassageFiles(source), threads=threads, engine=engine)


def last_step(target: Path) -> None:
    """Only PISA's last step: preparing the index for other parameters of BM25."""
    ikat.PassageIndex(target).bm25(k1=1.2, b=0.75, engine="pisa").search("what")


def search(target: Path, queries: list[str], engine: str) -> None:
    """Retrieve 1000 passages for each query, with their texts."""
    index = ikat.PassageIndex(target)
    index.bm25(engine=engine)(pd.DataFrame({"qid": [f"{number}" for number in range(len(queries))], "query": queries}))


def measure(count: int, threads: int, engine: str) -> dict[str, Any]:
    """The figures of one build of ``count`` passages for an engine."""
    with tempfile.TemporaryDirectory() as name:
        source, target = Path(name, "passages"), Path(name, "index")
        source.mkdir()
        write_files(source, count)
        built = _alone(build, source, target, threads, engine)
        files = {path.relative_to(target).as_posix(): path.stat().st_size for path in target.rglob("*") if path.is_file()}
        texts = files.pop("texts.lz4")
        return {
            "passages": count,
            "input_bytes": sum(path.stat().st_size for path in source.iterdir()),
            **built,
            "text_bytes": texts,
            "engine": engine,
            "index_bytes": sum(files.values()),
            **({"last_step": _alone(last_step, target)} if engine == "pisa" else {}),
            "short_query_ms": _alone(search, target, _queries(5), engine)["seconds"] * 1000 / QUERIES,
            "long_query_ms": _alone(search, target, _queries(200), engine)["seconds"] * 1000 / QUERIES,
        }


def _queries(words: int) -> list[str]:
    texts = synthetic(pt.get_dataset("ikat:2023-mini").get_corpus_iter(verbose=False), QUERIES * 5, seed=2)
    long = [text for text in texts if len(text.split()) >= words]
    return [" ".join(text.split()[:words]) for text in long[:QUERIES]]


def extrapolate(rows: list[dict[str, Any]], count: int) -> dict[str, float]:
    """The figures at ``count`` passages, on the line through the two largest builds, or in proportion if there is only one."""
    flat = [{**row, "last_step_mb": row.get("last_step", row)["pisa_mb"]} for row in rows]
    last, before = flat[-1], flat[-2] if len(flat) > 1 else dict.fromkeys(flat[-1], 0)

    def at(name: str) -> float:
        slope = (last[name] - before[name]) / (last["passages"] - before["passages"])
        return float(last[name] + slope * (count - last["passages"]))

    return {
        "passages": count,
        "hours": at("seconds") / 3600,
        "cpu_hours": at("cpu_seconds") / 3600,
        "input_gb": at("input_bytes") / 1e9,
        "text_gb": at("text_bytes") / 1e9,
        "index_gb": at("index_bytes") / 1e9,
        "last_step_gb_of_memory": at("last_step_mb") / 1e3,
        "short_query_seconds": at("short_query_ms") / 1e3,
        "long_query_seconds": at("long_query_ms") / 1e3,
    }


def _alone(function: Callable[..., None], *arguments: Any) -> dict[str, float]:
    with multiprocessing.get_context("spawn").Pool(1) as pool:  # a separate process, because its memory is measured
        measured = pool.apply(_measured, (function, *arguments))
        pool.close()
        pool.join()
        return measured


def _measured(function: Callable[..., None], *arguments: Any) -> dict[str, float]:
    started, peaks, done = time.perf_counter(), {"own_mb": 0.0, "pisa_mb": 0.0}, threading.Event()
    watch = threading.Thread(target=_watch, args=(peaks, done))
    watch.start()
    function(*arguments)
    done.set()
    watch.join()
    used = (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    cpu = sum(one.ru_utime + one.ru_stime for one in used)
    return {"seconds": time.perf_counter() - started, "cpu_seconds": cpu, **peaks}


def _watch(peaks: dict[str, float], done: threading.Event) -> None:
    while not done.wait(0.02):
        peaks["own_mb"] = max(peaks["own_mb"], _held(str(os.getpid())))
        for thread in Path("/proc/self/task").iterdir():
            for pid in _lines(thread / "children"):
                peaks["pisa_mb"] = max(peaks["pisa_mb"], *map(_held, pid.split()))


def _held(pid: str) -> float:
    return sum(float(line.split()[1]) / 1e3 for line in _lines(Path("/proc", pid, "status")) if line.startswith("RssAnon"))


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):  # the process has just ended
        return []


@click.command()
@click.option("--sizes", default="10000,100000", show_default=True, help="numbers of passages, ascending")
@click.option("--threads", default=2, show_default=True)
@click.option("--engine", type=click.Choice(["eager", "pisa"]), default="pisa", show_default=True)
@click.option("--out", type=click.Path(dir_okay=False), help="the JSON file to write")
def main(sizes: str, threads: int, engine: str, out: str | None) -> None:
    """Build indexes of synthetic passages and extrapolate to the full collection."""
    rows = []
    for size in map(int, sizes.split(",")):
        rows.append(measure(size, threads, engine))
        click.echo(json.dumps(rows[-1]))
    found = {"builds": rows, "extrapolated": extrapolate(rows, COLLECTION_SIZE)}
    click.echo(json.dumps(found["extrapolated"], indent=1))
    if out:
        Path(out).write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
