"""What stays the same in another process: keys of parts, and objects that leave their locks and connections behind."""

import hashlib
from collections.abc import Callable, Mapping
from typing import Any, ClassVar


class Remade:
    """Pickled without its locks and connections, which are created again when it is unpickled.

    Example:
        >>> import pickle, threading
        >>> from pyterrier_ikat.llms import Ledger
        >>> pickle.loads(pickle.dumps(Ledger())).frame().empty
        True
    """

    of_this_process: ClassVar[Mapping[str, Callable[[], Any]]]
    """Attribute -> the function that creates it again."""

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in self.of_this_process}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, **{name: make() for name, make in self.of_this_process.items()})


def digest(*parts: str | bytes) -> bytes:
    """A key of 16 bytes (BLAKE2b). It changes when any part changes, or when the parts are split differently.

    Args:
        parts: bytes, or strings, which count as their UTF-8 bytes.

    Example:
        >>> from pyterrier_ikat.portable import digest
        >>> digest("ab", "c") == digest("a", "bc")
        False
    """
    found = hashlib.blake2b(digest_size=16)
    for part in parts:
        content = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        found.update(len(content).to_bytes(8, "little") + content)
    return found.digest()
