"""Exports or deletes what a memory has of one user: ``python -m pyterrier_ikat.memory FILE [USER [forget [ID]]]``."""

import json
import sys
from pathlib import Path

from ..errors import IkatError
from .user_memory import UserMemory

USAGE = """usage: python -m pyterrier_ikat.memory FILE                    list the users
       python -m pyterrier_ikat.memory FILE USER               print everything about a user, as JSON lines
       python -m pyterrier_ikat.memory FILE USER forget [ID]   delete a user, or one statement, for good"""


def main(arguments: list[str]) -> None:
    """Do what the command line says."""
    if not 1 <= len(arguments) <= 4 or (len(arguments) > 2 and arguments[2] != "forget"):
        sys.exit(USAGE)
    path, *rest = arguments
    if not Path(path).is_file():
        sys.exit(f"ikat: there is no memory {path}: check the path")
    memory = UserMemory(path)
    if not rest:
        print(*(user if user.isprintable() else json.dumps(user) for user in memory.users()), sep="\n")
        return
    if rest[0] not in memory.users():
        sys.exit(f"ikat: the memory {path} knows no user {rest[0]}: without a user, the command lists them")
    if len(rest) == 1:
        print(*(json.dumps(event, ensure_ascii=False) for event in memory.export(rest[0])), sep="\n")
        return
    memory.forget(rest[0], id=rest[2] if len(rest) == 3 else None)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except IkatError as problem:
        sys.exit(f"ikat: {problem}")
