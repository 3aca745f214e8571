"""A turn that many tests of the operators begin with."""

import pytest
from operators import a_turn


@pytest.fixture
def turn():
    return a_turn()
