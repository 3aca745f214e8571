"""The options in the specification of a language model: those of each provider, and their valid values."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple


class Kind(NamedTuple):
    """A kind of option.

    Attributes:
        words: the name of its values in messages.
        convert: makes a value of a text.
        holds: whether a value is allowed.
    """

    words: str
    convert: Callable[[str], Any]
    holds: Callable[[Any], bool]

    def read(self, text: str) -> Any:
        """The value in a text.

        Raises:
            ValueError: when it holds none.
        """
        value = self.convert(text)
        if not self.holds(value):
            raise ValueError
        return value


NUMBER = Kind("a number from 0", float, lambda value: 0 <= value < math.inf)
SHARE = Kind("a number from 0 to 1", float, lambda value: 0 <= value <= 1)
SECONDS = Kind("a number of seconds, more than 0", float, lambda value: 0 < value < math.inf)
WHOLE = Kind("a whole number from 0", int, lambda value: value >= 0)
POSITIVE = Kind("a whole number from 1", int, lambda value: value >= 1)
POLICY = Kind("raise or fallback", str, lambda value: value in ("raise", "fallback"))
SWITCH = Kind("on or off", str, lambda value: value in ("on", "off"))
VARIABLE = Kind("the name of the environment variable that holds the key, not the key itself", str, str.isidentifier)
TEXT = Kind("a text", str, lambda value: True)
DECODING = {"temperature": NUMBER, "top_p": NUMBER, "top_k": POSITIVE, "max_tokens": POSITIVE, "seed": WHOLE}
PRICES = dict.fromkeys(("price_in", "price_out", "price_cached"), NUMBER)
ACCOUNT = {"on_error": POLICY, "retries": WHOLE, "cache": TEXT, "budget": NUMBER, **PRICES}
BATCH = {"batch": SWITCH, "batch_discount": SHARE, "batch_requests": POSITIVE, "batch_mb": POSITIVE}
OPTIONS: dict[str, dict[str, Kind]] = {
    "openai": {"base_url": TEXT, "api_key_env": VARIABLE, **DECODING, "timeout": SECONDS, "concurrency": POSITIVE, **ACCOUNT, **BATCH},
    "hf": {**DECODING, "device": TEXT, "batch_size": POSITIVE, **ACCOUNT},
    "recorded": {"on_error": POLICY},
}
"""The options of each provider."""
UNDECIDING = (*ACCOUNT, *BATCH, "timeout", "concurrency", "api_key_env", "device", "batch_size")
"""Options that no answer depends on."""
