"""The near side of the process that holds Java: start it, ask it, end it.

This process itself has no Java: forks and Terrier's Java don't meet Anserini's.
"""

import io
import json
import os
import subprocess
import sys
import threading
import weakref
from collections import deque
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ..errors import DataError, IkatError, UsageError

JAR = "ANSERINI_JAR"
"""The environment variable with the path of Anserini's jar."""
INSTALL_JAR = "pip install --no-deps pyserini==0.22.1"
PROGRAM = Path(__file__).with_name("lucene_child.py")
OTHER_VERSION = ("IndexFormatTooOld", "IndexFormatTooNew", "Could not load codec")
"""What Lucene says of an index of another version: apache/lucene, SegmentInfos.java."""
LINES_KEPT = 20
"""Lines of Java's output that are kept, to explain an end."""


class ProcessEnded(IkatError, RuntimeError):
    """The process with Java ended before it answered."""


def find_jar() -> Path:
    """Return Anserini's jar: that of ``ANSERINI_JAR``, or the one in Pyserini's wheel.

    Pyserini is found, not imported: it would load torch, transformers and faiss.

    Raises:
        UsageError: when there is none.
    """
    named = os.environ.get(JAR)
    if named:
        if not Path(named).is_file():
            raise UsageError(f"{JAR}={named}: there is no such file; give Anserini's fat jar")
        return Path(named)
    package = find_spec("pyserini")
    folders = [] if package is None else package.submodule_search_locations or []
    for folder in folders:
        jars = sorted(Path(folder, "resources", "jars").glob("anserini-*-fatjar.jar"))
        if jars:
            return jars[-1]
    raise UsageError(
        f"an index of Lucene needs Anserini's jar: `{INSTALL_JAR}` brings it, or name its file in "
        f"the environment variable {JAR}"
    )


class LuceneProcess:
    """A process for one index, started at the first question.

    Threads share it and wait for each other. A fork forgets it, and starts its own.

    Args:
        folder: the index.
        memory: the most that Java may take, such as ``"4g"``.
    """

    def __init__(self, folder: str, memory: str | None) -> None:
        self.folder = folder
        self.memory = memory
        self._lock = threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._described: dict[str, Any] = {}
        _PROCESSES.add(self)

    @property
    def pid(self) -> int | None:
        """The number of the process; None while there is none."""
        return None if self._child is None else self._child.pid

    def describe(self) -> dict[str, Any]:
        """Start the process, unless it is there, and return what it said of the index."""
        with self._lock:
            if self._child is None:
                self._described = self._start()
            return self._described

    def ask(self, name: str, **arguments: Any) -> Any:
        """Return the answer to a question.

        Raises:
            ProcessEnded: when the process isn't there any more. The next question starts another.
            DataError: when Lucene can't read the index, or gives no answer.
        """
        with self._lock:
            if self._child is None:
                self._described = self._start()
            try:
                self._write([name, arguments])
                return self._read()
            except DataError:
                raise
            except BaseException:  # an answer that nobody waits for would be the next one's
                self._end()
                raise

    def close(self) -> None:
        """End the process; another question starts it again."""
        with self._lock:
            self._end()

    def _start(self) -> dict[str, Any]:
        self._end()
        if find_spec("jnius") is None:
            raise UsageError(
                "an index of Lucene needs pyjnius: `pip install pyterrier_ikat[lucene]`"
            )
        opening = {"folder": self.folder, "jar": str(find_jar()), "memory": self.memory or ""}
        self._child = subprocess.Popen(
            [sys.executable, str(PROGRAM)],
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            start_new_session=True,  # Ctrl-C is for this process, which then ends the other
        )
        self._finalizer = weakref.finalize(self, _kill, self._child, os.getpid())
        self._answers = io.BufferedReader(self._child.stdout)  # type: ignore[type-var,arg-type]
        self._printed: deque[str] = deque(maxlen=LINES_KEPT)
        self._drain = threading.Thread(
            target=_drain, args=(self._child.stderr, self._printed), daemon=True
        )
        self._drain.start()
        try:
            self._write(opening)
            described: dict[str, Any] = self._read()
        except BaseException:
            self._end()
            raise
        return described

    def _write(self, content: Any) -> None:
        assert self._child is not None
        assert self._child.stdin is not None
        left = memoryview(json.dumps(content).encode() + b"\n")
        try:
            while left:
                left = left[self._child.stdin.write(left) :]
        except BrokenPipeError:
            raise self._ended() from None

    def _read(self) -> Any:
        line = self._answers.readline()
        if not line.endswith(b"\n"):
            raise self._ended()
        answer = json.loads(line)
        if "error" in answer:
            raise error_of(answer["kind"], answer["error"], self.folder, self._printed)
        return answer["answer"]

    def _ended(self) -> ProcessEnded:
        assert self._child is not None
        status = self._child.wait()
        self._drain.join(1)
        last = " ".join(list(self._printed)[-3:]) or "it printed nothing"
        repair = "start again"
        if "OutOfMemoryError" in last:
            repair = 'give it more, such as ikat.LuceneIndex(path, memory="8g")'
        return ProcessEnded(
            f"the process that searches {self.folder} ended with {status} ({last}): {repair}"
        )

    def _end(self) -> None:
        if self._child is not None:
            self._finalizer()
            self._child = None

    def forget(self) -> None:
        """Leave the process to the one that was forked: close its pipes here alone."""
        self._lock = threading.Lock()
        if self._child is not None:
            self._finalizer.detach()
            _close_pipes(self._child)
            self._child = None


_PROCESSES: "weakref.WeakSet[LuceneProcess]" = weakref.WeakSet()


def _forget_all() -> None:
    for process in list(_PROCESSES):
        process.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)


def _close_pipes(child: "subprocess.Popen[bytes]") -> None:
    for pipe in (child.stdin, child.stdout, child.stderr):
        if pipe is not None:
            pipe.close()


def _kill(child: "subprocess.Popen[bytes]", owner: int) -> None:
    """End the process, unless this is a fork of its owner."""
    if os.getpid() != owner:
        return
    child.kill()  # it only reads
    child.wait()
    for pipe in (child.stdin, child.stdout):
        if pipe is not None:
            pipe.close()


def _drain(pipe: io.RawIOBase, printed: deque[str]) -> None:
    """Read what Java prints, so that it never waits."""
    with io.TextIOWrapper(io.BufferedReader(pipe), "utf-8", "replace") as lines:
        for line in lines:
            printed.append(line.strip())


def error_of(kind: str, text: str, folder: str, printed: deque[str]) -> IkatError:
    """Return the error for an answer without a result."""
    if kind == "java":
        return UsageError(
            f"an index of Lucene needs Java 11 or later ({text}): install it, such as "
            "openjdk-17-jre-headless, or name its folder in the environment variable JAVA_HOME"
        )
    if kind == "jar":
        return UsageError(
            f"Anserini's jar can't be loaded ({text}): `{INSTALL_JAR}` brings one for Java 11 or "
            f"later, and {JAR} names another"
        )
    if kind == "foreign":
        return UsageError(
            f"the Lucene index {folder} isn't of Anserini ({text}): search it with what made it, "
            "and give the run to ikat.GivenRanking"
        )
    if kind == "index" and any(words in text for words in OTHER_VERSION):
        return UsageError(
            f"the Lucene index {folder} is of another version of Lucene than Anserini's jar "
            f"{find_jar().name} ({text}): name the jar of Anserini that made it in {JAR}"
        )
    if kind == "index":
        return DataError(f"the Lucene index {folder} isn't whole ({text}): copy it again")
    causes = [line for line in printed if "Exception" in line or "Error" in line]
    cause = f" ({causes[-1]})" if causes else ""
    return DataError(f"the Lucene index {folder}: {text}{cause}")
