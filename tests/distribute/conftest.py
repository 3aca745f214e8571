"""A small Ray cluster on this machine."""

import os
from pathlib import Path

import pytest

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"


@pytest.fixture(scope="module")
def cluster():
    """Connected, with two cores. Its processes end with the tests of the module."""
    pytest.importorskip(
        "ray.data", reason="Ray Data isn't installed: pip install 'pyterrier_ikat[ray]'"
    )
    import ray

    patch = pytest.MonkeyPatch()
    patch.setenv("RAY_worker_niceness", "0")  # of 15, they wait for all that tests beside them
    patch.setenv(
        "PYTHONPATH",
        os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]),
    )  # for our stages
    ray.init(
        num_cpus=2,
        object_store_memory=200 * 1024 * 1024,
        include_dashboard=False,
        log_to_driver=False,
    )
    yield
    ray.shutdown()
    patch.undo()
