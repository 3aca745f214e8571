"""The address of a server, and the secrets in it that are never shown."""

import logging
import re
import traceback
from base64 import b64encode
from collections.abc import Iterable
from urllib.parse import parse_qsl, quote, quote_plus, unquote, urlencode, urlsplit, urlunsplit

from ..errors import UsageError

HIDDEN = "***"
SECRET_NAME = re.compile(r"(?:key|token|secret|password|passwd|passphrase|pwd|sig|signature|auth|code)$", re.IGNORECASE)
"""How the names of parameters end whose values are secret."""
SHORTEST = 4
"""Characters from which on a text is a secret, and not a syllable of every message."""
_CORE = ("connection", "http11", "http2", "proxy", "socks")
HTTP_LOGGERS = ("httpx", "httpx2", "openai._base_client", *(f"{core}.{part}" for core in ("httpcore", "httpcore2") for part in _CORE))
"""The loggers that write records. A filter does not reach the records of the loggers below it."""


class Address:
    """A base URL, taken apart: where to connect, and what of it is secret.

    Args:
        url: ``http://`` or ``https://``; may hold ``user:password@`` and a query.

    Attributes:
        url: without user, password, query and a slash at its end.
        query: the query's parameters, sent with every call.
        login: what HTTP's basic authentication sends, or None.
        shown: the whole address with user, password and the values of secret parameters replaced by ``***``.
        secrets: the replaced texts, if they are long enough.
        local: True for this machine.

    Raises:
        UsageError: when it is not a web address.

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
            raise UsageError("base_url is not a web address: write it as http://HOST:PORT/v1 or https://HOST/v1")
        host = (f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname) + port
        self.local = parts.hostname in ("localhost", "127.0.0.1", "::1")
        path = parts.path.rstrip("/")
        self.url = urlunsplit((parts.scheme, host, path, "", ""))
        self.query = dict(parse_qsl(parts.query, keep_blank_values=True))
        values = [value for name, value in self.query.items() if SECRET_NAME.search(name)]
        self.login = None
        if parts.username is not None:
            login = unquote(parts.username), unquote(parts.password or "")
            self.login = b64encode(":".join(login).encode()).decode()
            values += [*login, self.login]
        shown = {name: HIDDEN if SECRET_NAME.search(name) else value for name, value in self.query.items()}
        self.shown = urlunsplit((parts.scheme, f"{HIDDEN}@" * bool(self.login) + host, path, urlencode(shown, safe=HIDDEN), ""))
        forms = {form for value in values for form in (value, quote(value), quote(value, safe=""), quote_plus(value))}
        self.secrets = {form for form in forms if len(form) >= SHORTEST}


def redact(text: str, secrets: Iterable[str]) -> str:
    """``text`` with every one of ``secrets`` replaced."""
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return text


class RedactingFilter(logging.Filter):
    """Removes ``secrets`` from the log records of the HTTP client, which writes whole URLs and the server's headers."""

    def __init__(self) -> None:
        super().__init__()
        self.secrets = set[str]()

    def filter(self, record: logging.LogRecord) -> bool:
        """Rewrite the record. It is always kept."""
        secrets = list(self.secrets)
        record.msg, record.args = redact(record.getMessage(), secrets), ()
        if record.exc_info:
            record.exc_text, record.exc_info = "".join(traceback.format_exception(*record.exc_info)).rstrip(), None
        if record.exc_text:
            record.exc_text = redact(record.exc_text, secrets)
        return True


_filter = RedactingFilter()


def hide_in_logs(secrets: set[str]) -> None:
    """Keep ``secrets`` out of what the HTTP client logs in this process."""
    _filter.secrets |= secrets
    for name in HTTP_LOGGERS:
        logging.getLogger(name).addFilter(_filter)
