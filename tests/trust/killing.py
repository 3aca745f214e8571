"""Processes that are killed for good (SIGKILL) before their n-th change of a file."""

import os
import signal
import sys
import time
import warnings

CHANGES = (
    "os.rename",
    "os.remove",
    "os.rmdir",
    "os.mkdir",
    "os.link",
    "os.truncate",
    "shutil.rmtree",
)


def killed_before(number, folder, work):
    """Run ``work`` in a process that is killed before its ``number``-th change below ``folder``.

    Returns:
        Whether it was killed; False when it finished with fewer changes.
    """

    def doomed():
        _die_at(number, str(folder))
        work()

    status = _waited(started(doomed))
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, "the work failed"
    return os.WIFSIGNALED(status)


def started(work):
    """The id of a new process that runs ``work`` and ends: with 1 when it fails."""
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", DeprecationWarning
        )  # other threads of this process are idle
        child = os.fork()
    if child:
        return child
    try:
        work()
    except BaseException:  # a child must not go on with the tests
        os._exit(1)
    os._exit(0)


def _die_at(number, folder):
    seen = []

    def hook(event, arguments):
        writes = (
            event == "open"
            and isinstance(arguments[2], int)
            and arguments[2] & (os.O_WRONLY | os.O_RDWR)
        )
        if (writes or event in CHANGES or event == "os.chmod") and str(arguments[0]).startswith(
            folder
        ):
            if len(seen) == number:
                os.kill(os.getpid(), signal.SIGKILL)
            seen.append(event)

    sys.addaudithook(hook)


def _waited(child):
    until = time.monotonic() + 300
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status
        if time.monotonic() > until:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            raise AssertionError("the process did not end")
        time.sleep(0.002)
