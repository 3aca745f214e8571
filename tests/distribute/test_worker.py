"""What a process of a Ray node says of its part; here without Ray between."""

import shutil
from importlib.util import find_spec

import pandas as pd
import pyterrier as pt
import pytest
from retrieve.tiny_splade import save_splade

import pyterrier_ikat as ikat
from pyterrier_ikat import MergeShards
from pyterrier_ikat.distribute.worker import Question, Worker, pack

pytestmark = pytest.mark.skipif(find_spec("ray") is None, reason="Ray isn't installed: pip install 'pyterrier_ikat[ray]'")
from pyterrier_ikat.distribute.pipeline import merge_outcomes  # noqa: E402

TURN = pd.DataFrame({"qid": ["t"], "query": ["tea"], "docno": ["1"], "rank": [0], "score": [1.0]})


def outcome(pipeline, turn=TURN):
    return Worker().begin(pack(pipeline)[0], turn)


def test_nodes_with_different_indexes_at_one_path_are_an_error_not_a_mixture(tmp_path):
    paths = [tmp_path / name for name in ("node", "stale")]
    for path, text in zip(paths, ("green tea", "black tea"), strict=True):
        ikat.PassageIndex(path).index([{"docno": "1", "text": text}])
    texts = ikat.PassageIndex(paths[0]).text_loader()
    first, again = outcome(texts), outcome(texts)
    assert merge_outcomes([first, again])["text"].tolist() == ["green tea", "green tea"]
    paths[0].rename(tmp_path / "gone")
    paths[1].rename(paths[0])
    with pytest.raises(ikat.DataError, match=r"the index .*/node isn't the same on all nodes of the Ray cluster: copy one"):
        merge_outcomes([first, outcome(texts)])


def test_a_model_that_was_copied_to_a_node_without_its_times_is_the_same_there(tmp_path):
    save_splade(tmp_path / "model")
    retriever = ikat.Splade(tmp_path / "model").index(tmp_path / "index", [{"docno": "1", "text": "green tea"}]).retriever()
    turn = TURN[["qid", "query"]]
    first = outcome(retriever, turn)
    (tmp_path / "model").rename(tmp_path / "at home")
    shutil.copytree(tmp_path / "at home", tmp_path / "model", copy_function=shutil.copyfile)
    copied = outcome(retriever, turn)
    assert copied.indexes != first.indexes
    assert merge_outcomes([first, copied])["docno"].tolist() == ["1", "1"]
    shutil.rmtree(tmp_path / "model")
    save_splade(tmp_path / "model", seed=1)
    refused = outcome(retriever, turn)
    assert refused.frame is None
    assert "was encoded with another model" in str(refused.error)


def test_indexes_are_found_wherever_they_stand(tmp_path):
    for name in ("a", "b"):
        ikat.PassageIndex(tmp_path / name).index([{"docno": name, "text": "green tea"}])
    first, second = (ikat.PassageIndex(tmp_path / name).bm25() for name in ("a", "b"))
    for system in (MergeShards([first, second]), ikat.ExplodeQueries() >> ikat.Union(first % 5, second) >> ikat.Union()):
        turn = TURN[["qid", "query"]].assign(qsubqueries=[["tea", "green tea"]])
        assert set(outcome(system, turn).indexes) == {str(tmp_path / "a"), str(tmp_path / "b")}, system


class Says:
    """An LLM that always says its name."""

    def __init__(self, name):
        self.model_id = name

    def generate(self, chats):
        return [self.model_id for _ in chats]


class Named(pt.Transformer):
    """One part's retriever: its only passage has the name of the part and of the query."""

    def __init__(self, part):
        self.part = part

    def transform(self, inp):
        return inp.assign(docno=[f"{self.part} {query}" for query in inp["query"]], score=1.0, rank=0)


def test_threads_that_ask_at_once_get_each_its_own_answer():
    parts = [ikat.Rewrite(ikat.llm(Says(name))) >> Named(name) for name in "ABCDEFGH"]
    packed, models = pack(MergeShards(parts))
    for _ in range(10):
        worker = Worker()
        event = worker.begin(packed, TURN[["qid", "query"]])
        while isinstance(event, Question):
            event = worker.answer(models[event.llm].ask(event.requests))
        assert sorted(event.frame["docno"]) == [f"{name} {name}" for name in "ABCDEFGH"]
