"""The package as on a system that isn't Linux, while all other packages work as they do here.

PISA is nowhere. Modules of the package can't import ``fcntl`` and ``resource``, and their ``os`` lacks what Windows lacks.
"""

import builtins
import os
import sys
import types
from importlib.machinery import PathFinder

OF_LINUX = ("fcntl", "resource", "termios", "pwd")
NOT_IN_OS = (
    *("fork", "forkpty", "register_at_fork", "pread", "preadv", "pwrite", "sysconf", "getuid", "geteuid", "killpg", "getpgid", "setsid"),
    *("O_DIRECTORY", "O_NOFOLLOW", "mkfifo", "uname", "sched_getaffinity", "wait3", "wait4", "chown", "SEEK_DATA", "fdatasync"),
)
PISA = ("pyterrier_pisa", "pyterrier-pisa")


class Os(types.ModuleType):
    """The module ``os`` as it is now, whatever a test puts into it, without what Windows lacks."""

    def __getattr__(self, name):
        """What ``os`` has."""
        if name in NOT_IN_OS:
            raise AttributeError(f"module 'os' has no attribute {name!r}: this test session is without it")
        return getattr(os, name)

    def __setattr__(self, name, value):
        """A test replaces a function."""
        setattr(os, name, value)

    def __delattr__(self, name):
        """A test takes it back."""
        delattr(os, name)

    def __dir__(self):
        return sorted(set(dir(os)).difference(NOT_IN_OS))


def begin():
    """From now on, in this process; before anything of the package is imported."""
    assert not any(name.partition(".")[0] == "pyterrier_ikat" for name in sys.modules), "the package was imported before"
    proxy, find, load = Os("os"), PathFinder.find_spec, builtins.__import__
    for name in ("__file__", "__spec__", "__loader__"):
        proxy.__dict__[name] = getattr(os, name, None)

    class AllButPisa:
        """Not a function, which would become a method where pytest keeps it in a class of its own."""

        def __call__(self, fullname, path=None, target=None):
            return None if fullname.partition(".")[0] in PISA else find(fullname, path, target)

    def import_for(name, globals=None, locals=None, fromlist=(), level=0):
        if level or not ((globals or {}).get("__name__") or "").startswith("pyterrier_ikat"):
            return load(name, globals, locals, fromlist, level)
        if name.partition(".")[0] in OF_LINUX:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return proxy if name == "os" else load(name, globals, locals, fromlist, level)

    PathFinder.find_spec = AllButPisa()
    builtins.__import__ = import_for
