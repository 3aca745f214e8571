"""A chat in a real terminal: Ctrl-C stops an answer, a paste is one question, waits are said."""

import os
import pty
import signal
import stat
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

from llms.chat_server import KEY, ChatServer, refused, said

from pyterrier_ikat.conversations import read_topics

ROOT = Path(__file__).parents[3]
PROGRAM = "from pyterrier_ikat.cli import main; main()"
METHOD = "import pyterrier_ikat as ikat\n\n\ndef mine(llm):\n    return ikat.Answer(llm)\n"


class Screen:
    """What a process shows in a terminal, read as it comes."""

    def __init__(self, descriptor):
        self.descriptor = descriptor
        self.text = ""

    def read_until(self, *wanted):
        """All up to each text, which has to come; the rest stays."""
        for one in wanted:
            while one not in self.text:
                try:
                    self.text += os.read(self.descriptor, 65536).decode("utf-8", "replace")
                except OSError:  # its end, on Linux
                    raise AssertionError(f"no {one!r} in {self.text!r}") from None
            self.text = self.text.split(one, 1)[1]

    def type(self, text):
        os.write(self.descriptor, text.encode())


@contextmanager
def chatting(folder, server):
    """The process and the screen of a chat with ``server`` as the model, after its prompt."""
    (folder / "methods.py").write_text(METHOD)
    model = f"openai:m base_url={server.url} cache={folder / 'cache.sqlite'}"
    options = ["methods.py:mine", "--llm", model, "--out", "chat"]
    ours, theirs = pty.openpty()
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "OPENAI_API_KEY": KEY,
        "TERM": "xterm",
        "COLUMNS": "200",
    }
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "chat", *options],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=folder,
        env=environment,
    )
    os.close(theirs)
    screen = Screen(ours)
    try:
        screen.read_until("you> ")
        yield process, screen
        screen.type("\x04")
        screen.read_until("saved in chat")
        assert process.wait(120) == 0
    finally:
        process.kill()
        process.wait(120)
        os.close(ours)
        server.http.shutdown()
        server.http.server_close()


def test_a_chat_in_a_terminal(tmp_path):
    server = ChatServer()
    reached = threading.Event()
    release = threading.Event()

    def respond(body):
        reached.set()
        release.wait(120)
        return said("Rooibos.")

    server.respond = respond
    lines = ["Which mate?", "I avoid caffeine.", "And I like it hot."]
    with chatting(tmp_path, server) as (process, screen):
        screen.type("Which tea?\n")
        try:
            assert reached.wait(120)
            screen.read_until("drafting an answer")
            process.send_signal(signal.SIGINT)
            screen.read_until("stopping: waiting for the calls under way")
        finally:
            release.set()
        screen.read_until("(stopped: nothing of this turn is kept in the chat)", "you> ")
        assert not (tmp_path / "chat").exists()
        screen.type("Which tea?\n")
        screen.read_until("Rooibos.", "(1 known completion", "you> ")  # what was paid is kept
        assert server.calls == 1
        screen.type(
            f"\x1b[200~{chr(10).join(lines)}\x1b[201~\r"
        )  # as a terminal marks what is pasted
        screen.read_until("Rooibos.", "you> ")
        server.script = [refused(503, Retry_After="0.3")]
        screen.type("Also hot?\r/sources\r")  # and then a command
        screen.read_until(
            "waiting for try 2 of 6: the language model does not answer",
            "Rooibos.",
            "/sources",
            "based on no passage",
            "you> ",
        )
    turns = read_topics(tmp_path / "chat" / "topics.json")[0].turns
    assert [turn.utterance for turn in turns] == ["Which tea?", "\n".join(lines), "Also hot?"]
    assert server.calls == 4
    for name in ("log.jsonl", "topics.json"):
        assert stat.S_IMODE((tmp_path / "chat" / name).stat().st_mode) == 0o600
