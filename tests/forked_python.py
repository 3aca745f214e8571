"""Programs as forks of a process that has imported what they need: each begins a second sooner, a process that tests even ten.

The program, its arguments, environment, folder, input, output, signals and end are those that users get, and some test of each command
starts Python itself.
"""

import contextlib
import gc
import importlib
import json
import os
import select
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import types
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

PIPE, STDOUT, DEVNULL = subprocess.PIPE, subprocess.STDOUT, subprocess.DEVNULL
COMMANDS = (
    "openai",
    "pyterrier_ikat.cli",
    "pyterrier_ikat.llms",
    "pyterrier_ikat.methods",
    "pyterrier_ikat.retrieve",
    "pyterrier_ikat.study.in_folders",
)
"""What commands import; nothing of it reads the environment."""
TESTS = ("openai", "hypothesis", "trust.frames", "rank.tiny_cross_encoders", "retrieve.tiny_splade", *COMMANDS)
"""What the heads of test modules import."""


class Server:
    """A process that imports modules and forks. It ends when its input does, with this process at the latest."""

    def __init__(self, modules):
        self.path = Path(tempfile.mkdtemp(prefix="python")) / "socket"
        path_of_modules = {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        command = [sys.executable, __file__, str(self.path), *modules]
        self._process = subprocess.Popen(command, stdin=PIPE, stdout=PIPE, env=os.environ | path_of_modules)
        self._process.stdout.readline()

    def end(self):
        """No more forks."""
        self._process.communicate()
        shutil.rmtree(self.path.parent)


class Popen:
    """What the tests use of ``subprocess.Popen``, for ``python -c``."""

    def __new__(cls, command, **options):
        """A fork on Linux, where the program is Python code."""
        if sys.platform != "linux" or command[1] != "-c":
            return subprocess.Popen(command, **options)
        return super().__new__(cls)

    def __init__(self, command, *, stdin=None, stdout=None, stderr=None, env=None, cwd=None, text=False, server=None):
        self._close_later, self.returncode = [], None
        files = [self._end(0, stdin), self._end(1, stdout)]
        files.append(files[1] if stderr == STDOUT else self._end(2, stderr))
        self.stdin, self.stdout = self._stream(files[0], text), self._stream(files[1], text)
        self.stderr = None if stderr == STDOUT else self._stream(files[2], text)
        job = {"program": list(map(str, command[1:])), "environment": dict(os.environ if env is None else env)}
        job = json.dumps(job | {"folder": str(cwd or os.getcwd())}).encode()
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(server or address())
        socket.send_fds(self._socket, [len(job).to_bytes(8, "big")], [theirs for theirs, _ in files])
        self._socket.sendall(job)
        for file in self._close_later:
            os.close(file)
        self.pid = self._number()

    def _end(self, number, wanted):
        """The program's file, and ours where both are the ends of a pipe."""
        if wanted is None:
            return number, None
        if wanted == DEVNULL:
            wanted = os.open(os.devnull, os.O_RDWR)
        elif wanted == PIPE:
            reading, writing = os.pipe()
            wanted, ours = (reading, writing) if number == 0 else (writing, reading)
            self._close_later.append(wanted)
            return wanted, (ours, "w" if number == 0 else "r")
        else:
            return wanted if isinstance(wanted, int) else wanted.fileno(), None
        self._close_later.append(wanted)
        return wanted, None

    def _stream(self, file, text):
        ours = file[1]
        return ours and os.fdopen(ours[0], ours[1] + ("" if text else "b"), encoding="utf-8" if text else None)

    def _number(self):
        answer = self._socket.recv(8, socket.MSG_WAITALL)
        assert len(answer) == 8, "the process that forks has ended"
        return int.from_bytes(answer, "big", signed=True)

    def poll(self):
        if self.returncode is None and select.select([self._socket], [], [], 0)[0]:
            self.wait()
        return self.returncode

    def wait(self, timeout=None):
        if self.returncode is None:
            if not select.select([self._socket], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("python", timeout)
            self.returncode = self._number()
            self._socket.close()
        return self.returncode

    def send_signal(self, number):
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self):
        self.send_signal(signal.SIGKILL)

    def communicate(self, timeout=None):
        streams = (self.stdout, self.stderr)
        with ThreadPoolExecutor(2) as readers:
            reading = [stream and readers.submit(stream.read) for stream in streams]
            try:
                found = tuple(one and one.result(timeout) for one in reading)
                self.wait(timeout)
            except BaseException:
                self.kill()
                raise
        for stream in filter(None, streams):
            stream.close()
        return found

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for stream in filter(None, (self.stdin, self.stdout, self.stderr)):
            stream.close()
        self.wait()


_servers = []


def address():
    """The socket of the process that starts programs: one for all processes that test."""
    if "IKAT_TEST_FORKS" not in os.environ:
        _servers.append(Server(COMMANDS))
        os.environ["IKAT_TEST_FORKS"] = str(_servers[-1].path)
    return os.environ["IKAT_TEST_FORKS"]


def python_of_tests():
    """A command like ``python``, whose ``-c CODE`` is a fork with what tests import; also what ``$IKAT_TEST_PYTHON`` names."""
    _servers.append(Server(TESTS))
    os.environ["IKAT_TEST_PYTHON"] = shlex.join([sys.executable, "-S", __file__, str(_servers[-1].path)])
    return os.environ["IKAT_TEST_PYTHON"]


def end_servers():
    """End those that this process has started."""
    while _servers:
        _servers.pop().end()
    for name in ("IKAT_TEST_FORKS", "IKAT_TEST_PYTHON"):
        os.environ.pop(name, None)


def serve(path, modules):
    """Fork for each connection, until the standard input ends.

    Returns:
        In the fork, its job and its files; None at the end.
    """
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen()
        print("ready", flush=True)
        import_each(modules)
        while True:
            ready, _, _ = select.select([listening, 0], [], [], 1)
            with contextlib.suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            if 0 in ready:
                return None
            if listening in ready:
                connection, _ = listening.accept()
                size, files, _, _ = socket.recv_fds(connection, 8, 3)
                with connection.makefile("rb") as file:
                    job = json.loads(file.read(int.from_bytes(size, "big")))
                if not os.fork():
                    listening.close()
                    if not (process := os.fork()):
                        connection.close()
                        return job, files
                    answer(connection, process, files)
                for file in (*files, connection.detach()):
                    os.close(file)


def import_each(modules):
    """What isn't installed is left out. Looking for garbage takes a fifth of the time, and what is imported stays."""
    gc.disable()
    for module in ("pyterrier_pisa", *modules):
        with contextlib.suppress(ImportError):
            importlib.import_module(module)
    gc.freeze()
    gc.enable()


def answer(connection, process, files):
    """Tell the program's process id, and its exit code when it ends."""
    for file in files:
        os.close(file)
    connection.sendall(process.to_bytes(8, "big", signed=True))
    code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    with contextlib.suppress(BrokenPipeError):
        connection.sendall(code.to_bytes(8, "big", signed=True))
    os._exit(0)


def become(job, files):
    """Run the program, in a ``__main__`` of its own; its end is that of this process."""
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.environ.clear()
    os.environ.update(job["environment"])
    os.chdir(job["folder"])
    _, code, *arguments = job["program"]
    sys.argv, sys.path[0] = ["-c", *arguments], ""
    sys.modules["__main__"] = main = types.ModuleType("__main__")
    exec(compile(code, "<string>", "exec"), vars(main))


if __name__ == "__main__":
    path, *rest = sys.argv[1:]
    if "-c" in rest:  # it stands for a fork of the process that serves there, until that ends
        sys.exit(Popen([sys.executable, *rest[rest.index("-c") :]], server=path).wait())
    given = serve(path, rest)
    if given:
        become(*given)
