"""Addresses of servers on the network, and what is secret in them and is taken out before anything is shown."""

import logging
import re
import traceback
from base64 import b64encode
from collections.abc import Iterable
from urllib.parse import parse_qsl, quote, quote_plus, unquote, urlencode, urlsplit, urlunsplit

from ..errors import UsageError
from ..portable import digest

HIDDEN = "***"
SECRET_NAME = re.compile(r"key|token|secret|pass|pwd|sig|auth|code", re.IGNORECASE)
CREDENTIAL = re.compile(
    r"(?:(?:api|access|client|subscription)[-_]?)?(?:key|token|secret|password|pwd|sig|signature|auth|code)", re.IGNORECASE
)
"""Names of hidden parameters that are nothing but a credential: another value of them changes no answer, another ``design=`` may."""
SHORTEST = 4
_CORE = ("connection", "http11", "http2", "proxy", "socks")
HTTP_LOGGERS = ("httpx", "httpx2", "openai._base_client", *(f"{core}.{part}" for core in ("httpcore", "httpcore2") for part in _CORE))
"""Those that write records: a filter does not reach the records of the loggers below it."""


class Address:
    """A base URL, taken apart: where to connect, and what of it is secret.

    Args:
        url: ``http://`` or ``https://``; may hold ``user:password@`` and a query.

    Attributes:
        url: without user, password, query and a slash at its end.
        query: the query's parameters, sent with every call.
        login: (user, password), or None.
        identity: ``shown``, with a checksum of what is hidden and may yet decide what is answered.
        shown: the whole address with user, password and the values of secret parameters replaced by ``***``.
        secrets: what was replaced, where it is long enough to be a secret and not a syllable of every message.
        local: True for this machine.

    Raises:
        UsageError: when it is no web address.

    Example:
        >>> Address("http://me:pw@localhost:8000/v1?tenant=a&api-key=b").shown
        'http://***@localhost:8000/v1?tenant=a&api-key=***'
    """

    def __init__(self, url: str) -> None:
        try:
            parts = urlsplit(url)
            port = f":{parts.port}" if parts.port else ""
        except ValueError:
            parts, port = urlsplit(""), ""
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UsageError("base_url is no web address: it reads http://HOST:PORT/v1 or https://HOST/v1")
        host = (f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname) + port
        self.local = parts.hostname in ("localhost", "127.0.0.1", "::1")
        path = parts.path.rstrip("/")
        self.url = urlunsplit((parts.scheme, host, path, "", ""))
        self.query = dict(parse_qsl(parts.query, keep_blank_values=True))
        self.login = None if parts.username is None else (unquote(parts.username), unquote(parts.password or ""))
        shown, undecided, values = dict[str, str](), dict[str, str](), list[str]()
        for name, value in self.query.items():
            shown[name] = HIDDEN if SECRET_NAME.search(name) else value
            if SECRET_NAME.search(name):
                values.append(value)
            if shown[name] != value and not CREDENTIAL.fullmatch(name):
                undecided[name] = value
        self.shown = urlunsplit((parts.scheme, f"{HIDDEN}@" * bool(self.login) + host, path, urlencode(shown, safe=HIDDEN), ""))
        self.identity = self.shown + (f" {digest(repr(undecided)).hex()[:16]}" if undecided else "")
        if self.login:
            values += [*self.login, b64encode(":".join(self.login).encode()).decode()]
        self.secrets: set[str] = set()
        for value in values:
            forms = (value, quote(value), quote(value, safe=""), quote_plus(value))
            self.secrets.update(form for form in forms if len(form) >= SHORTEST)


def addresses(base_url: str) -> list[str]:
    """The addresses in ``base_url``, which are separated by commas.

    Example:
        >>> addresses("http://a:8000/v1?tags=x,y,http://b:8000/v1")
        ['http://a:8000/v1?tags=x,y', 'http://b:8000/v1']
    """
    return re.split(r",(?=https?://)", base_url)


def redact(text: str, secrets: Iterable[str]) -> str:
    """``text`` with every one of ``secrets`` replaced."""
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return text


def is_distinctive(secret: str) -> bool:
    """Whether ``secret`` can't stand in a text by chance: it is long, or is neither short nor a mere word.

    Example:
        >>> [is_distinctive(one) for one in ("EMPTY", "lm-studio", "swordfish", "pw-98765", "sk-no-key-required")]
        [False, False, False, True, True]
    """
    return len(secret) >= 16 or (len(secret) >= 8 and any(letter.isdigit() for letter in secret))


class RedactingFilter(logging.Filter):
    """Takes ``secrets`` out of the log records of the HTTP client, which writes whole URLs and the server's headers.

    Two with the same secrets are equal, so that a logger keeps only one of them.
    """

    def __init__(self, secrets: Iterable[str]) -> None:
        super().__init__()
        self._secrets = frozenset(secrets)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RedactingFilter) and self._secrets == other._secrets

    def __hash__(self) -> int:
        return hash(self._secrets)

    def filter(self, record: logging.LogRecord) -> bool:
        """Rewrite the record; it is always kept."""
        record.msg, record.args = redact(record.getMessage(), self._secrets), ()
        if record.exc_info:
            record.exc_text, record.exc_info = "".join(traceback.format_exception(*record.exc_info)).rstrip(), None
        if record.exc_text:
            record.exc_text = redact(record.exc_text, self._secrets)
        return True


def add_filter(loggers: Iterable[str], secrets: set[str]) -> None:
    """Keep ``secrets`` out of what ``loggers`` write."""
    for name in loggers if secrets else ():
        logging.getLogger(name).addFilter(RedactingFilter(secrets))
