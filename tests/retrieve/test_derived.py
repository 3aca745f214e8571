"""What PISA needs for other parameters, made in an index in use: killed at every step, cut short, zeroed, or of another index."""

import os
import shutil
from itertools import count

import pandas as pd
import pytest
from trust.killing import killed_before, started

import pyterrier_ikat as ikat
from pyterrier_ikat.retrieve import pisa as pisa_build
from pyterrier_ikat.store import cache

pytestmark = pytest.mark.linux

CORPUS = [{"docno": f"d{number:03}", "text": f"tea {'mint ' * (number % 5)} w{number % 97} {number}"} for number in range(300)]
OTHERS = [{"docno": f"d{number:03}", "text": f"w{number % 89} mint {'tea ' * (number % 3)}"} for number in range(300)]
ASKED = pd.DataFrame({"qid": ["a", "b"], "query": ["tea mint w3", "w13 tea"]}, dtype=object)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    return ikat.PassageIndex(tmp_path_factory.mktemp("derived") / "i").index(CORPUS, engine="pisa")


@pytest.fixture(scope="module")
def ready(built, tmp_path_factory):
    """A copy that was searched with other parameters, and what it found."""
    folder = shutil.copytree(built.path, tmp_path_factory.mktemp("derived") / "ready")
    return folder, searched(folder)


def searched(folder):
    found = ikat.PassageIndex(folder).bm25(k1=1.2, b=0.75)(ASKED)
    return found[["qid", "docno", "score", "text"]].values.tolist()


def in_a_process(work):
    """The status of a process that does ``work``: PISA ends one on damage."""
    return os.waitpid(started(work), 0)[1]


def finds(folder, expected):
    def work():
        cache._opened.clear()  # what this process searched
        assert searched(folder) == expected

    assert in_a_process(work) == 0


def test_killed_at_any_change_the_next_search_makes_it_whole(built, ready, tmp_path):
    for number in count():
        folder = shutil.copytree(built.path, tmp_path / str(number))
        if not killed_before(number, folder, lambda folder=folder: searched(folder)):
            break
        finds(folder, ready[1])
        assert not [path for path in folder.rglob("*") if path.is_symlink() and not path.parent.name.startswith(".ikat")]
        shutil.rmtree(folder)
    assert number >= 7


@pytest.mark.parametrize("harm", ["postings cut", "bounds cut", "zeros", "no record", "a record cut", "a link to itself"])
def test_what_differs_from_its_record_is_built_again(ready, tmp_path, harm):
    folder = shutil.copytree(ready[0], tmp_path / "i")
    bounds, postings = pisa_build.bm25_files(folder / "pisa", 1.2, 0.75)
    whole, record = [path.read_bytes() for path in (bounds, postings)], bounds.with_name(f"{bounds.name}.json")
    if harm == "postings cut":
        postings.write_bytes(whole[1][:-40])
    elif harm == "bounds cut":
        bounds.write_bytes(whole[0][: len(whole[0]) // 2])
    elif harm == "zeros":
        postings.write_bytes(bytes(len(whole[1])))
    elif harm == "no record":
        postings.write_bytes(whole[1][:100])
        record.unlink()
    elif harm == "a record cut":
        record.write_bytes(record.read_bytes()[:-10])
    else:  # which versions before this one left
        bounds.unlink()
        bounds.symlink_to(bounds)
    finds(folder, ready[1])
    assert [path.read_bytes() for path in (bounds, postings)] == whole


def test_those_of_the_index_that_was_in_the_folder_before_are_built_again(ready, tmp_path):
    others = ikat.PassageIndex(tmp_path / "others").index(OTHERS, engine="pisa")
    expected = searched(shutil.copytree(others.path, tmp_path / "apart"))
    folder = tmp_path / "others"
    for path in (ready[0] / "pisa").glob("bm25.k1-1.2*"):
        shutil.copy(path, folder / "pisa" / path.name)
    finds(folder, expected)


def test_whole_ones_are_not_built_again(ready, monkeypatch):
    monkeypatch.setattr(pisa_build, "make_bm25_ready", None)
    assert searched(ready[0]) == ready[1]
