"""What the tests of studies share."""

import pytest

import pyterrier_ikat as ikat


@pytest.fixture(scope="session")
def sample_index(tmp_path_factory):
    """BM25 over the sample's passages, built once."""
    path = tmp_path_factory.mktemp("index") / "sample.index"
    return ikat.PassageIndex(path).index(ikat.dataset("ikat:sample").get_corpus_iter(verbose=False))


@pytest.fixture(scope="session")
def index(sample_index):
    """The same; a test file that needs its path overrides it."""
    return sample_index
