"""A Ray cluster of two nodes, both on this machine."""

import os
from pathlib import Path

import pytest

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
STORE = 80 * 1024 * 1024  # bytes, about the least that Ray accepts


@pytest.fixture(scope="module")
def cluster():
    """Connected; the second node has the resource ``second``. Its processes end with the tests of the module: idle ones compute, too."""
    ray = pytest.importorskip("ray", reason="Ray isn't installed: pip install 'pyterrier_ikat[ray]'")
    from ray.cluster_utils import Cluster

    patch = pytest.MonkeyPatch()
    patch.setenv("PYTHONPATH", os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]))  # for our stages
    first = {"num_cpus": 1, "object_store_memory": STORE, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=first)
    second = cluster.add_node(num_cpus=1, object_store_memory=STORE, resources={"second": 1})
    ray.init(address=cluster.address, log_to_driver=False)
    yield {"second": second.node_id, "nodes": cluster}
    ray.shutdown()
    cluster.shutdown()
    patch.undo()
