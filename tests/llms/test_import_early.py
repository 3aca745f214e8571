"""The client is imported while the pipeline is built: not with the package, and without harm to a process that is forked meanwhile."""

import subprocess
import sys

import pytest

from pyterrier_ikat.llms import llm

FORKED = """
import os, sys, threading
import pyterrier_ikat as ikat
assert "openai" not in sys.modules
made = ikat.llm("openai:m base_url=http://127.0.0.1:9/v1 cache=none")
importing = [thread for thread in threading.enumerate() if thread.name == "ikat-import"]
assert importing or "openai" in sys.modules
child = os.fork()
if not child:
    import openai
    os._exit(0 if openai.OpenAI else 1)
assert os.waitpid(child, 0)[1] == 0
assert "openai" in sys.modules
assert not any(thread.name == "ikat-import" for thread in threading.enumerate())
"""


@pytest.mark.linux
def test_a_process_that_is_forked_while_the_client_is_imported_can_use_it():
    subprocess.run([sys.executable, "-W", "ignore", "-c", FORKED], check=True, timeout=120)


@pytest.mark.parametrize(
    ("address", "patience"),
    [("http://localhost:8000/v1", 0.05), ("https://example.org/v1", 0.25)],
)
def test_a_server_on_this_machine_gets_less_time_for_its_refusal(address, patience):
    assert llm(f"openai:m base_url={address} cache=none").backend.patience == patience
