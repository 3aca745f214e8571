"""Which batches are under way, on disk beside the cache: a file for each, which holds the keys of its requests.

It is written before anything is sent, once more before the batch is created, and with the provider's id of it.
"""

import json
import logging
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from ..errors import DataError
from ..store.files import atomic_write
from ..store.locks import hold_lock, lock_holder, remove_empty
from .cache import REPORT_AFTER, CompletionCache
from .failures import Waiting

PAUSE = 0.1

log = logging.getLogger("pyterrier_ikat")


@dataclass
class Job:
    """A batch that was sent, or was about to be.

    Attributes:
        name: what its metadata say.
        requests: by cache key the stage, the turn, and how many batches have left it without an answer.
        begun: when it was about to be sent, in seconds since the epoch.
        at_most: US dollars that it may cost; 0 without a budget.
        file: the provider's id of its requests, once they are there.
        batch: the provider's id of it, once it is known.
    """

    name: str
    requests: dict[str, tuple[str, str, int]]
    begun: float
    at_most: float
    file: str | None = None
    batch: str | None = None

    @property
    def stage(self) -> str:
        """The operators that ask."""
        return ", ".join(dict.fromkeys(stage for stage, _, _ in self.requests.values()))

    def waiting(self, status: str) -> Waiting:
        """The message for the user."""
        return Waiting(self.stage, len(self.requests), self.batch or "not confirmed yet", status)


def jobs_of(cache: CompletionCache) -> "Jobs":
    """The batches under way whose answers belong into a cache."""
    return Jobs(Path(f"{cache.path}.batches"))


class Jobs:
    """The batches under way of one cache.

    Args:
        folder: where they lie.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Nobody else sends or collects meanwhile, who has the same cache."""
        path, started, told = self.folder / "lock", time.monotonic(), False
        with ExitStack() as held:
            held.callback(remove_empty, self.folder)
            while not held.enter_context(hold_lock(path)):
                if not told and time.monotonic() - started > REPORT_AFTER:
                    told = True
                    log.warning("waiting for batches that others send or collect: %s", lock_holder(path))
                time.sleep(PAUSE)
            yield

    def all(self) -> list[Job]:
        """All, in the order in which they were sent."""
        return sorted(map(self._read, self.folder.glob("*.json")), key=lambda job: (job.begun, job.name))

    def of(self, keys: Iterable[str]) -> list[Job]:
        """Those that hold one of ``keys``."""
        return [job for job in self.all() if not job.requests.keys().isdisjoint(keys)]

    def keys_among(self, keys: Collection[str]) -> set[str]:
        """Those of ``keys`` that wait in a batch."""
        return {key for job in self.of(keys) for key in job.requests}.intersection(keys)

    def has(self, name: str) -> bool:
        """Whether the batch of this name is under way still."""
        return self._path(name).exists()

    def keep(self, job: Job) -> None:
        """Write what is known of a batch."""
        with atomic_write(self._path(job.name)) as file:
            json.dump(asdict(job), file)

    def remove(self, job: Job) -> None:
        """Forget a batch."""
        self._path(job.name).unlink(missing_ok=True)

    def how_to_ask_again(self, job: Job) -> str:
        """The repair when the provider has lost a batch."""
        return f"remove {self._path(job.name)} to ask, and pay, its {len(job.requests)} requests again"

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.json"

    def _read(self, path: Path) -> Job:
        try:
            kept = json.loads(path.read_text(encoding="utf-8"))
            requests = {key: (stage, qid, tries) for key, (stage, qid, tries) in kept.pop("requests").items()}
            return Job(requests=requests, **{one.name: kept[one.name] for one in fields(Job) if one.name != "requests"})
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise DataError(f"{path} can't be read ({error}): remove it, and what waits in that batch is asked, and paid, again") from None
