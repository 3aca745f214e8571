"""PISA's writer program as a fork of a process that has imported what it needs: an index of a test is there a second sooner.

The program, its input, its log and its end are those that users get. ``retrieve/test_collection.py``, ``retrieve/test_disk.py`` and
every test that starts ``ikat`` start it as users do.
"""

import contextlib
import json
import os
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path

from pyterrier_ikat.retrieve import pisa_writer as writer

PIPE = subprocess.PIPE


class Popen:
    """What ``retrieve/pisa.py`` uses of ``subprocess.Popen``."""

    _server = None

    def __new__(cls, command, **options):
        """A fork where the program is PISA's writer and nothing else."""
        if Path(command[1]) != Path(writer.__file__):
            return subprocess.Popen(command, **options)
        return super().__new__(cls)

    def __init__(self, command, *, stdin, stdout, stderr, env):
        reading, writing = os.pipe()
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(self._address())
        job = json.dumps({"arguments": command[2:], "environment": env, "folder": os.getcwd()}).encode()
        socket.send_fds(self._socket, [len(job).to_bytes(8, "big")], [reading, stdout.fileno()])
        self._socket.sendall(job)
        os.close(reading)
        self.stdin = os.fdopen(writing, "wb")
        self._answers = self._socket.makefile()
        self._process, self.returncode = int(self._answers.readline()), None

    @classmethod
    def _address(cls):
        if cls._server is None:
            path = Path(tempfile.mkdtemp(prefix="writer")) / "socket"
            command = [sys.executable, __file__, str(path)]
            path_of_modules = {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
            # It ends when its input does, with this process at the latest.
            process = subprocess.Popen(command, stdin=PIPE, stdout=PIPE, env=os.environ | path_of_modules)
            process.stdout.readline()
            cls._server = process, str(path)
        return cls._server[1]

    @classmethod
    def end_server(cls):
        """No more forks."""
        if cls._server is not None:
            process, path = cls._server
            process.communicate()
            shutil.rmtree(Path(path).parent)
            cls._server = None

    def kill(self):
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._process, 9)

    def wait(self):
        if self.returncode is None:
            self.returncode = int(self._answers.readline())
            self._answers.close()
            self._socket.close()
        return self.returncode

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stdin.close()
        self.wait()


def serve(path):
    """Fork a writer for each connection, until the standard input ends."""
    import pyterrier_pisa  # noqa: F401

    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen()
        print("ready", flush=True)
        while True:
            ready, _, _ = select.select([listening, 0], [], [], 1)
            with contextlib.suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            if 0 in ready:
                break
            if listening in ready:
                connection, _ = listening.accept()
                if not os.fork():
                    listening.close()
                    answer(connection)
                    os._exit(0)
                connection.close()


def answer(connection):
    """Tell the writer's process id, and its exit code when it ends."""
    size, files, _, _ = socket.recv_fds(connection, 8, 2)
    with connection.makefile("rb") as file:
        job = json.loads(file.read(int.from_bytes(size, "big")))
    if not (process := os.fork()):
        connection.close()
        write(job, *files)
    for file in files:
        os.close(file)
    connection.sendall(f"{process}\n".encode())
    connection.sendall(f"{os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])}\n".encode())


def write(job, lines, log):
    """The writer itself; it ends here."""
    code = 0
    try:
        os.dup2(lines, 0)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.environ.update(job["environment"])
        os.chdir(job["folder"])
        writer.end_with_parent()
        writer.main(*job["arguments"])
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code)
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
        code = 1
    finally:
        sys.stdout.flush()
        os._exit(code)


if __name__ == "__main__":
    serve(sys.argv[1])
