"""The processes on the cluster: started where there is room, kept while a pipeline needs them, replaced when they die."""

import logging
from collections.abc import Callable, Mapping
from queue import Empty, SimpleQueue
from threading import Lock, RLock
from typing import Any
from weakref import WeakValueDictionary

from ..errors import UsageError
from .worker import Worker

STARTS = 3
log = logging.getLogger("pyterrier_ikat")


def death_errors() -> tuple[type[Exception], ...]:
    """The errors with which Ray reports that a process is gone."""
    from ray import exceptions

    return exceptions.RayActorError, exceptions.OutOfMemoryError, exceptions.NodeDiedError, exceptions.ObjectLostError


class Workers:
    """Processes with equal shares of the cluster. `find_workers` makes them, and they end with the last pipeline that uses them.

    Args:
        resources: the resources of one process, in Ray's terms.

    Attributes:
        busy: a lock of the pipeline that runs on them, because pipelines take turns.
    """

    def __init__(self, resources: Mapping[str, float]) -> None:
        self.resources = dict(resources)
        self.busy = Lock()
        self._lock = RLock()
        self._wanted = 0
        self._failed = 0
        self._living: list[Any] = []
        self._free: SimpleQueue[Any] = SimpleQueue()
        self._why_dead: Exception | None = None

    def prepare(self, wanted: int) -> int:
        """Start processes until there are ``wanted``, if there is room.

        Returns:
            The number of processes, at least 1.

        Raises:
            UsageError: when no node has room for one.
        """
        room = _room(self.resources)
        if not room:
            raise UsageError(f"no node of the Ray cluster offers {self.resources}: ask for less, or start a node that has it")
        idle = []
        while not self._free.empty():
            idle.append(self._free.get())
        for worker in idle:
            self._offer(worker)
        self._wanted, self._failed = min(wanted, room), 0
        self._fill()
        return len(self._living)

    def take(self, over: Callable[[], bool]) -> Any:
        """A free process, or None once ``over`` returns that none is needed any more.

        Raises:
            UsageError: when no process is alive, and ``STARTS`` in a row died before they could begin.
        """
        while not over():
            try:
                return self._free.get(timeout=0.2)
            except Empty:
                # Ray places processes on a node that is gone until it misses the node's heartbeats.
                if self._failed < STARTS:
                    self._fill()
                elif not self._living:
                    raise UsageError(f"no process could be started on the Ray cluster: {self._why_dead}") from self._why_dead
        return None

    def give(self, worker: Any) -> None:
        """Mark the process as free again."""
        self._free.put(worker)

    def drop(self, worker: Any) -> None:
        """End the process, if it isn't dead already. Another one is started when one is needed."""
        import ray

        with self._lock:
            if worker in self._living:
                self._living.remove(worker)
        ray.kill(worker)

    def drop_all(self) -> None:
        """End all processes, because their work is not needed any more."""
        for worker in list(self._living):
            self.drop(worker)

    def _fill(self) -> None:
        with self._lock:
            while len(self._living) < self._wanted:
                self._start()

    def _start(self) -> None:
        import ray

        made = ray.remote(Worker).options(
            num_cpus=self.resources.get("CPU", 0),
            num_gpus=self.resources.get("GPU", 0),
            resources={name: amount for name, amount in self.resources.items() if name not in ("CPU", "GPU")},
            scheduling_strategy="SPREAD",
            runtime_env={"env_vars": {"TQDM_DISABLE": "1"}},  # Ray shows all processes' output here, and their progress bars would mix
        )
        worker = made.remote()
        self._living.append(worker)
        self._offer(worker)

    def _offer(self, worker: Any) -> None:
        def started(future: Any) -> None:
            with self._lock:
                if future.exception() is None:
                    self._failed = 0
                    self._free.put(worker)
                elif worker in self._living:
                    self._living.remove(worker)
                    self._failed, self._why_dead = self._failed + 1, future.exception()

        worker.ready.remote().future().add_done_callback(started)


_POOLS: WeakValueDictionary[Any, Workers] = WeakValueDictionary()


def find_workers(resources: Mapping[str, float]) -> Workers:
    """The processes of this size on the cluster to which Ray is connected. All pipelines share them and their loaded models.

    Raises:
        UsageError: when Ray isn't installed, or not connected.
    """
    try:
        import ray
    except ImportError as error:
        raise UsageError("on_ray needs Ray: pip install 'pyterrier_ikat[ray]'") from error
    if not ray.is_initialized():
        raise UsageError("Ray isn't connected: call ray.init(address='auto') for the cluster of this machine, or ray.init() for a new one")
    here = ray.get_runtime_context()
    key = (here.get_node_id(), here.get_job_id(), tuple(sorted(resources.items())))
    return _POOLS.setdefault(key, Workers(resources))


def _room(resources: Mapping[str, float]) -> int:
    import ray

    needed = {name: amount for name, amount in resources.items() if amount}
    state: Any = ray
    nodes = [node["Resources"] for node in state.nodes() if node["Alive"]]
    return sum(min(int(node.get(name, 0) / amount + 1e-9) for name, amount in needed.items()) for node in nodes)
