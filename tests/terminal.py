"""A terminal in which a test runs a command and reads the screen, by pyte."""

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios

import pyte


def screen_of(*words, columns=80, rows=60, said_size=None):
    """Return the rows of the screen after Python has run with these words, and what was written.

    Args:
        words: the arguments of Python.
        columns: of the screen.
        rows: of the screen.
        said_size: the rows and columns that the terminal says; by default those that it has.
    """
    ours, theirs = pty.openpty()
    size = said_size or (rows, columns)
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
    environment = dict(os.environ, TERM="xterm-256color")
    for name in ("COLUMNS", "LINES", "NO_COLOR", "TQDM_DISABLE"):
        environment.pop(name, None)
    command = [sys.executable, *map(str, words)]
    process = subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, close_fds=True
    )
    os.close(theirs)
    written = b""
    while True:
        try:
            data = os.read(ours, 65536)
        except OSError:  # the other side is closed
            break
        if not data:
            break
        written += data
    os.close(ours)
    process.wait()
    screen = pyte.Screen(columns, rows)
    pyte.ByteStream(screen).feed(written)
    shown = [row.rstrip() for row in screen.display]
    while shown and not shown[-1]:
        shown.pop()
    return shown, written.decode()
