"""A whole interactive run with a fake track, killed in the middle: nothing is sent or asked twice.

    python experiments/live/fake_track.py --out fake-track
    python experiments/live/fake_track.py --out fake-track --users simulation-data.csv

The server is that of the tests, which follows the documentation of the track (with --released, the released code). Its users say the
utterances of the sample's conversations, or ask the questions in a file of iKAT 2025, whatever the system answers. The system searches the
sample's passages and asks a scripted model, which writes too much in every fifth response and notes each call. The command is killed with
SIGKILL when half of the responses have arrived, and then started again. A share of the server's answers is lost on the way.
"""

import csv
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import click

import pyterrier_ikat as ikat

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests" / "live" / "interactive"))

from track_server import DOCUMENTED, NEW, TOKEN, Track, TrackServer  # noqa: E402

SYSTEM = '''
import pathlib
import zlib
import pyterrier_ikat as ikat

CALLS = pathlib.Path("calls.txt")

class Scripted:
    """Answers from the first passage; each fifth answer is too long."""

    identity = {"scripted": 1}

    def generate(self, chats):
        number = len(CALLS.read_text().splitlines()) if CALLS.exists() else 0
        with CALLS.open("a") as file:
            file.write("".join(f"{zlib.crc32(repr(chat).encode())}\\n" for chat in chats))
        return ["The first passage says most about this [1]. " * (40 if number % 5 == 4 else 1) for chat in chats]

@ikat.method(paper="")
def scripted(retriever):
    """Responds from five passages."""
    return retriever >> ikat.Respond(ikat.llm(Scripted()))
'''


def topics_of(users: str | None) -> tuple[tuple[str, str, tuple[str, ...]], ...]:
    """(topic, user, utterances) of the sample, or of a file with a person and questions on each line."""
    if users is None:
        found = ikat.dataset("ikat:sample").conversations
        return tuple((one.number, one.number.partition("-")[0], tuple(turn.utterance for turn in one.turns)) for one in found)
    with open(users, encoding="utf-8-sig", newline="") as file:
        rows = list(csv.reader(file, delimiter=";"))[1:]
    return tuple((row[0].replace("_", "-"), row[0].partition("_")[0], tuple(text for text in row[2:] if text.strip())) for row in rows)


@click.command()
@click.option("--out", type=click.Path(), required=True, help="a new folder")
@click.option("--users", type=click.Path(exists=True), help="simulation-data.csv of iKAT 2025")
@click.option("--released", is_flag=True, help="a server like the released one")
@click.option("--lost", default=0.1, show_default=True, help="the share of answers that are lost, before or after the server took the call")
def main(out: str, users: str | None, released: bool, lost: float) -> None:
    """Run, kill, run again, and count."""
    folder, topics = Path(out).absolute(), topics_of(users)
    folder.mkdir(parents=True)
    ikat.PassageIndex(folder / "sample.index").index(ikat.dataset("ikat:sample").get_corpus_iter(verbose=False))
    (folder / "mine.py").write_text(SYSTEM)
    turns, rng = sum(len(utterances) for *_, utterances in topics), random.Random(1)
    faults = [rng.choice(("drop before", "drop after")) if rng.random() < lost else "" for _ in range(10 * turns)]
    planned = sum(map(bool, faults))
    track = Track(topics, form=NEW if released else DOCUMENTED, faults=faults)
    server = TrackServer(track)
    words = ["interact", server.url, "mine.py:scripted", "--index", "sample.index", "--run-id", "scripted", "--out", "run"]
    call = [sys.executable, "-c", "from pyterrier_ikat.cli import main; main()", *words]
    environment = os.environ | {"IKAT_TOKEN": TOKEN, "IKAT_HOME": str(folder / "home"), "PYTHONPATH": str(ROOT)}
    first = subprocess.Popen(call, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while len(track.taken) < turns // 2 and first.poll() is None:
        time.sleep(0.01)
    first.send_signal(signal.SIGKILL)
    first.wait()
    click.echo(f"killed after {len(track.taken)} of {turns} responses on {len(topics)} topics")
    second = subprocess.run(call, cwd=folder, env=environment, capture_output=True, text=True)
    click.echo("".join(f"{line}\n" for line in second.stderr.splitlines() if "warning" in line or line.startswith("ikat:")), nl=False)
    click.echo(second.stdout)
    taken = Counter(track.taken)
    asked = (folder / "calls.txt").read_text().splitlines()
    utterances = Counter((topic, text) for topic, _, texts in topics for text in texts)
    click.echo(f"responses taken: {taken.total()} of {turns}; each utterance as often as it was said: {_said(taken) == utterances}")
    click.echo(f"LLM calls: {len(asked)}, repeated: {len(asked) - len(set(asked))}")
    click.echo(f"answers lost on the way: {planned - sum(map(bool, track.faults))}; exit code {second.returncode}")
    server.close()


def _said(taken: Counter[tuple[str, str, str]]) -> Counter[tuple[str, str]]:
    return Counter((topic, utterance) for topic, utterance, _ in taken.elements())


if __name__ == "__main__":
    main()
