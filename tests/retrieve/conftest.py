import pytest


@pytest.fixture
def unread_corpus():
    """A corpus that must not be read."""

    def fails():
        raise AssertionError("the corpus was read")
        yield

    return fails()


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    """A tiny SPLADE model."""
    from tiny_splade import save_splade

    return save_splade(tmp_path_factory.mktemp("splade") / "tiny-splade")
