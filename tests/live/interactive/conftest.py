"""What runs of several files of this room need."""

import pytest
from track_server import TOKEN

from pyterrier_ikat.live.interactive import track_server


@pytest.fixture(scope="module")
def token_without_spacy():
    """The token, and no spaCy to count the words of the answers."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("IKAT_TOKEN", TOKEN)
        patched.setattr(track_server, "tokenizer", lambda: str.split)
        yield
