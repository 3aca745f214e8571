"""Objects that go to another process without what belongs to this one."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar


class Remade:
    """Pickled without its locks, connections and the like, which are made anew where it arrives.

    Example:
        >>> import pickle, threading
        >>> from pyterrier_ikat.llm import Ledger
        >>> pickle.loads(pickle.dumps(Ledger())).frame().empty
        True
    """

    of_this_process: ClassVar[Mapping[str, Callable[[], Any]]]
    """Attribute -> what makes it anew."""

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in self.of_this_process}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, **{name: make() for name, make in self.of_this_process.items()})
