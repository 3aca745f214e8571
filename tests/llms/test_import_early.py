"""The client is imported while the pipeline is built, not with the package."""

import subprocess
import sys

import pytest

from pyterrier_ikat.llms import llm

EARLY = """
import sys, threading
import pyterrier_ikat as ikat
assert "openai" not in sys.modules
ikat.llm("openai:m base_url=http://127.0.0.1:9/v1 cache=none")
importing = [thread for thread in threading.enumerate() if thread.name == "ikat-import"]
assert "openai" in sys.modules or importing
"""


def test_the_client_is_imported_while_the_pipeline_is_built():
    subprocess.run([sys.executable, "-W", "ignore", "-c", EARLY], check=True, timeout=120)


@pytest.mark.parametrize(
    ("address", "patience"), [("http://localhost:8000/v1", 0.05), ("https://example.org/v1", 0.25)]
)
def test_a_server_on_this_machine_gets_less_time_for_its_refusal(address, patience):
    assert llm(f"openai:m base_url={address} cache=none").backend.patience == patience
