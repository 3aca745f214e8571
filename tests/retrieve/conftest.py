import shutil

import pytest
from retrieve.folders import CORPUS

import pyterrier_ikat as ikat
from pyterrier_ikat.retrieve.lucene_process import JAR


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


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """The folder of an index of two passages."""
    return ikat.PassageIndex(tmp_path_factory.mktemp("built") / "i").index(CORPUS).path


@pytest.fixture
def path(built, tmp_path):
    """A copy of the index of two passages."""
    return str(shutil.copytree(built, tmp_path / "i"))


@pytest.fixture
def lucene_folder(tmp_path, monkeypatch):
    """The folder of an index of Lucene, and a jar of Anserini in the environment."""
    (tmp_path / "a.jar").touch()
    monkeypatch.setenv(JAR, str(tmp_path / "a.jar"))
    (tmp_path / "i").mkdir()
    (tmp_path / "i" / "segments_1").write_bytes(b"first")
    return tmp_path / "i"
