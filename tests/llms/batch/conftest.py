"""A server of batches, and models that send them to it."""

import pytest
from llms.batch_server import BatchServer


@pytest.fixture
def server():
    made = BatchServer()
    yield made
    made.close()


@pytest.fixture
def model(model):
    """Makes a model that sends batches to the server; each is a process of its own as far as the
    disk is concerned."""
    return lambda options="batch=on", name="m": model(f"price_in=2 price_out=10 {options}", name)
