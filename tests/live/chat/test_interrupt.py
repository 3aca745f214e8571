"""A real Ctrl-C in a real terminal: it stops the answer, keeps the paid call, and leaves the chat."""

import os
import pty
import signal
import subprocess
import sys
import threading
from pathlib import Path

from llms.chat_server import KEY, ChatServer, said

from pyterrier_ikat.conversations import read_topics

ROOT = Path(__file__).parents[3]
PROGRAM = "from pyterrier_ikat.cli import main; main()"
METHOD = "import pyterrier_ikat as ikat\n\n\ndef mine(llm):\n    return ikat.Answer(llm)\n"


class Screen:
    """What a process shows in a terminal, read as it comes."""

    def __init__(self, descriptor):
        self.descriptor, self.text = descriptor, ""

    def read_until(self, wanted):
        """All up to ``wanted``, which has to come; the rest stays."""
        while wanted not in self.text:
            try:
                self.text += os.read(self.descriptor, 65536).decode("utf-8", "replace")
            except OSError:  # its end, on Linux
                raise AssertionError(f"no {wanted!r} in {self.text!r}") from None
        before, self.text = self.text.split(wanted, 1)
        return before

    def type(self, text):
        os.write(self.descriptor, text.encode())


def test_ctrl_c_stops_the_answer_keeps_what_was_paid_and_leaves_the_chat(tmp_path):
    (tmp_path / "methods.py").write_text(METHOD)
    server, reached, release = ChatServer(), threading.Event(), threading.Event()

    def respond(body):
        reached.set()
        release.wait(120)
        return said("Rooibos.")

    server.respond = respond
    model = f"openai:m base_url={server.url} cache={tmp_path / 'cache.sqlite'}"
    options = ["methods.py:mine", "--llm", model, "--save", "chat"]
    ours, theirs = pty.openpty()
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OPENAI_API_KEY": KEY, "TERM": "xterm", "COLUMNS": "200"}
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "chat", *options], stdin=theirs, stdout=theirs, stderr=theirs, cwd=tmp_path, env=environment
    )
    os.close(theirs)
    screen = Screen(ours)
    try:
        screen.read_until("you> ")
        screen.type("Which tea?\n")
        assert reached.wait(120)
        screen.read_until("drafting an answer")
        process.send_signal(signal.SIGINT)
        screen.read_until("stopping: waiting for the call under way")
        release.set()
        screen.read_until("(stopped: nothing of this turn is kept; 1 call was made: finished calls are in the cache")
        screen.read_until("you> ")
        assert not (tmp_path / "chat").exists()
        screen.type("Which tea?\n")
        screen.read_until("Rooibos.")
        screen.read_until("(1 completion known before")
        screen.read_until("you> ")
        screen.type("\x04")
        screen.read_until("1 turn, saved in chat")
        assert process.wait(120) == 0
    finally:
        release.set()
        process.kill()
        process.wait(120)
        os.close(ours)
        server.http.shutdown()
        server.http.server_close()
    assert server.calls == 1
    assert read_topics(tmp_path / "chat" / "topics.json")[0].turns[0].response == "Rooibos."
