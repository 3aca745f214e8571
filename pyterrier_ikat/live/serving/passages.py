"""Cited passages at addresses of their own, which open without the server's token.

An address is signed, so that whoever has it reads this passage and no other one.
"""

import base64
import hashlib
import hmac
import html
import json
import re
import secrets
from collections.abc import Callable
from typing import TypeAlias
from urllib.parse import quote, urlsplit

import pandas as pd

from ...errors import UsageError
from ...study.systems import System, indexes_of

Address: TypeAlias = Callable[[str], str]
"""Returns the address of a passage by its docno."""
PURPOSE = b"pyterrier_ikat: addresses of passages"
"""What the key that is made of the token is for. The token itself signs nothing."""
SIGNATURE_DIGITS = 32
"""Hexadecimal digits of a signature, 128 bits."""
STYLE = (
    "body{margin:2rem auto;max-width:44rem;padding:0 1rem;font:1rem/1.6 system-ui,sans-serif;"
    "color-scheme:light dark}"
    "h1{font-size:1.1rem;overflow-wrap:anywhere}"
    "p{white-space:pre-wrap;overflow-wrap:anywhere}"
)
_STYLE_DIGEST = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
HEADERS = {
    "content-security-policy": (
        f"default-src 'none'; style-src 'sha256-{_STYLE_DIGEST}'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-robots-tag": "noindex, nofollow, noarchive",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "private, no-store",
}
"""The page loads nothing but its own style, is in no search engine, and passes its address on to
nobody."""


class PassageAddresses:
    """Makes the addresses of passages, and checks them.

    They hold for as long as the token, because the key is made of it. Without a token the key is
    random, and they hold for as long as this object.

    Args:
        public_url: the address under which browsers reach the server.
        token: the token of the server; None for none.

    Raises:
        UsageError: when ``public_url`` is no address of http or https.

    Example:
        >>> addresses = PassageAddresses("https://chat.example.org/", "a-token-of-twenty-signs")
        >>> addresses.of("rtg", "d/1").partition("&")[0]
        'https://chat.example.org/passages/d%2F1?model=rtg'
        >>> addresses.is_signed("rtg", "d/1", "0" * 32)
        False
    """

    def __init__(self, public_url: str, token: str | None) -> None:
        self.base = checked_url(public_url)
        if token is None:
            self._key = secrets.token_bytes(32)
        else:
            self._key = hmac.digest(token.encode(), PURPOSE, "sha256")

    def of(self, system: str, docno: str) -> str:
        """Return the address of a passage that a system cites."""
        path = f"{self.base}/passages/{quote(docno, safe='')}"
        return f"{path}?model={quote(system, safe='')}&signature={self._signature(system, docno)}"

    def is_signed(self, system: str, docno: str, signature: str) -> bool:
        """Whether :meth:`of` has made the address with this signature."""
        expected = self._signature(system, docno)
        return hmac.compare_digest(expected.encode(), signature.encode(errors="replace"))

    def _signature(self, system: str, docno: str) -> str:
        signed = json.dumps([system, docno]).encode()
        return hmac.new(self._key, signed, "sha256").hexdigest()[:SIGNATURE_DIGITS]


def checked_url(public_url: str) -> str:
    """Return the address of a server without a slash at its end.

    Raises:
        UsageError: when it is none of http or https, or has more than a path.

    Example:
        >>> checked_url("https://chat.example.org/ikat/")
        'https://chat.example.org/ikat'
    """
    parts = urlsplit(public_url)
    is_plain = not (parts.query or parts.fragment or parts.username or parts.password)
    if not (
        parts.scheme in ("http", "https")
        and parts.hostname
        and is_plain
        and re.fullmatch("[!-~]+", public_url)
    ):
        raise UsageError(
            f"{public_url!r} is no address of this server: "
            "give what browsers open, such as https://chat.example.org"
        )
    return public_url.rstrip("/")


def gives_texts(system: System) -> bool:
    """Whether an index of the system has the texts of its passages."""
    return any(index.has_text for index in indexes_of([system]))


def text_of(system: System, docno: str) -> str | None:
    """Read the text of a passage in an index of the system; None if no index has it.

    Raises:
        DataError: when an index can't be read.
    """
    for index in indexes_of([system]):
        if index.has_text and docno in index.present([docno]):
            row = pd.DataFrame({"qid": ["1"], "docno": [docno]})
            [text] = index.text_loader().transform(row)["text"]
            return str(text)
    return None


def passage_page(docno: str, text: str) -> str:
    """Return the page of a passage. Its text is shown as it is.

    Example:
        >>> "<p dir=auto>&lt;b&gt; mint</p>" in passage_page("d1", "<b> mint")
        True
    """
    shown_id = html.escape(docno)
    return (
        "<!doctype html><html><head><meta charset=utf-8>"
        "<meta name=viewport content='width=device-width, initial-scale=1'>"
        "<meta name=robots content=noindex>"
        f"<title>{shown_id}</title><style>{STYLE}</style></head>"
        f"<body><main><h1>{shown_id}</h1><p dir=auto>{html.escape(text)}</p></main></body></html>\n"
    )
