"""The tokens of a server: whose they are, and how many requests each may send in a minute."""

import hashlib
import hmac
import math
import re
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ...errors import UsageError

TOKEN = "IKAT_TOKEN"
SHORTEST_TOKEN = 16
MAKE_A_TOKEN = f"export {TOKEN}=$(python -c 'import secrets; print(secrets.token_urlsafe(32))')"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")
MINUTE = 60.0
FORM = "give NAME TOKEN, and after them, if you want a limit, the most requests in a minute"


@dataclass
class Person:
    """Somebody with a token.

    Attributes:
        name: a word; empty for the one token of a server.
        digest: of the token, which itself is kept nowhere.
        rate: the most requests in a minute; None for any number.
    """

    name: str
    digest: bytes = field(repr=False)
    rate: int | None = None

    def __post_init__(self) -> None:
        self._sent = deque[float](maxlen=self.rate)

    def wait(self) -> int:
        """The seconds until the next request may be sent; 0 if that is now, and then it is counted."""
        now = time.monotonic()
        if self.rate is None:
            return 0
        if len(self._sent) == self.rate and now - self._sent[0] < MINUTE:
            return math.ceil(MINUTE - (now - self._sent[0]))
        self._sent.append(now)
        return 0


def check_token(token: str) -> None:
    """Check that a token can't be guessed.

    Raises:
        UsageError: when it is too short, or a header can't hold it.
    """
    if len(token) < SHORTEST_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        raise UsageError(
            f"the token ({TOKEN}) needs at least {SHORTEST_TOKEN} letters, digits or punctuation marks of ASCII: {MAKE_A_TOKEN}"
        )


def people_of(token: str | None, tokens: str | Path | None) -> list[Person]:
    """Everybody who may send requests; nobody where a server has no token.

    Args:
        token: the one token of a server, without a limit.
        tokens: a file with a line ``NAME TOKEN`` or ``NAME TOKEN RATE`` for each person. A line that begins with ``#`` is a comment.

    Raises:
        UsageError: for a token that can be guessed, a file that can't be read, and both a token and a file; the message has the line's
            number and no token.
    """
    if tokens is not None:
        if token is not None:  # whoever has no name could take the name of a person as the beginning of a conversation's id
            raise UsageError(f"there are a token ({TOKEN}) and those in {tokens}: give it a line with a name there, and unset {TOKEN}")
        return list(_read(Path(tokens)))
    if token is None:
        return []
    check_token(token)
    return [Person("", digest_of(token))]


def _read(path: Path) -> Iterator[Person]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"the tokens in {path} can't be read ({getattr(error, 'strerror', None) or 'it is not UTF-8'})") from None
    names, digests = set[str](), set[bytes]()
    for number, line in enumerate(lines, 1):
        parts = line.split()
        if not parts or line.lstrip().startswith("#"):
            continue
        where = f"{path}, line {number}"
        if len(parts) not in (2, 3) or not NAME.fullmatch(parts[0]) or not all(re.fullmatch("[1-9][0-9]*", rate) for rate in parts[2:]):
            raise UsageError(f"{where}: {FORM}")
        try:
            check_token(parts[1])
        except UsageError as error:
            raise UsageError(f"{where}: {error}") from None
        one = Person(parts[0], digest_of(parts[1]), int(parts[2]) if parts[2:] else None)
        if one.name in names or one.digest in digests:
            raise UsageError(f"{where}: this name or token is in an earlier line, too: give each person another one")
        names.add(one.name)
        digests.add(one.digest)
        yield one
    if not names:
        raise UsageError(f"{path} has no tokens: {FORM}")


def digest_of(token: str) -> bytes:
    """What is kept and compared in the place of a token: all digests have one length."""
    return hashlib.sha256(token.encode("latin-1", "replace")).digest()


def find_person(people: Sequence[Person], token: str) -> Person | None:
    """Whose token it is. Each is compared, in a time that doesn't depend on what they have in common."""
    digest = digest_of(token)
    return next(iter([one for one in people if hmac.compare_digest(one.digest, digest)]), None)
