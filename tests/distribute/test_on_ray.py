"""Ray Data gives what one process gives, and a worker that dies loses nothing."""

import sys

import pandas as pd
import pyterrier as pt
import pytest
from distribute.stages import ByLength, Dies, Differs, Raises, Where, turns
from fakes import Scripted
from rank.tiny_cross_encoders import save_cross_encoder

import pyterrier_ikat as ikat

pytest.importorskip("ray.data", reason="Ray Data isn't installed: pip install 'pyterrier_ikat[ray]'")


@pytest.fixture(scope="module")
def data():
    return pt.get_dataset("ikat:sample")


@pytest.fixture(scope="module")
def index(tmp_path_factory, data):
    return ikat.PassageIndex(tmp_path_factory.mktemp("bm25") / "index").index(data.get_corpus_iter(verbose=False))


on_cluster = pytest.mark.usefixtures("cluster")


@on_cluster
def test_two_stages_over_two_workers_give_the_rows_of_one_process(index, data):
    llm = ikat.llm("recorded:sample")
    asked = (ikat.Answer(llm) >> ikat.MultiQuery(llm, n=5, given="answer"))(data.get_topics())
    search = index.bm25(num_results=50) >> ByLength()
    one = search(asked)
    assert len(one) > 100
    pd.testing.assert_frame_equal(ikat.on_ray(search, workers=2)(asked), one)
    fused = ikat.on_ray(search >> ikat.Interleave(), workers=2)(asked)
    pd.testing.assert_frame_equal(fused, ikat.Interleave()(one))


@on_cluster
def test_a_models_scores_differ_by_float_noise_at_most(index, tmp_path):
    model = ikat.CrossEncoder(save_cross_encoder(tmp_path / "model", "electra"), max_length=24)
    system = index.bm25(num_results=10) >> model
    topics = turns(3).assign(query=["green tea", "black coffee", "white tea leaves"])
    spread, one = (found.sort_values(["qid", "docno"], ignore_index=True) for found in (ikat.on_ray(system, 2)(topics), system(topics)))
    assert len(one) > 15
    pd.testing.assert_frame_equal(spread.drop(columns="rank"), one.drop(columns="rank"), rtol=1e-4, atol=1e-5)


@on_cluster
def test_personas_and_histories_travel_as_they_are():
    frame = pd.concat(
        [
            ikat.conversation([{"role": "user", "content": "Any tea?"}], {"1": "I am vegan.", "7": "I own a dog."}, number="a"),
            ikat.conversation(
                [{"role": "user", "content": "Hi."}, *2 * [{"role": "user", "content": "And?"}]], {"2": "I ski."}, number="b"
            ),
        ],
        ignore_index=True,
    )
    found = ikat.on_ray(pt.Transformer.identity(), workers=2)(frame)
    assert found["qptkb"].tolist() == [{"1": "I am vegan.", "7": "I own a dog."}, {"2": "I ski."}]
    assert all(type(one) is list for one in found["qhistory"])
    pd.testing.assert_frame_equal(found, frame)


@on_cluster
def test_both_workers_work_at_the_same_time(tmp_path):
    found = ikat.on_ray(Where(tmp_path, together=2), workers=2)(turns(16))
    assert found["process"].nunique() == 2
    assert found["qid"].tolist() == turns(16)["qid"].tolist()


@on_cluster
def test_a_worker_that_dies_is_replaced_and_its_turns_run_again(tmp_path):
    died = tmp_path / "died"
    found = ikat.on_ray(Dies("t04", died, 1), workers=2)(turns(8))
    assert died.read_text() == "x"
    assert found["qid"].tolist() == turns(8)["qid"].tolist()


@on_cluster
def test_our_error_arrives_with_its_message():
    with pytest.raises(ikat.DataError, match="^turn t03 is odd: leave it out$"):
        ikat.on_ray(Raises("t03"), workers=2)(turns(8))


@on_cluster
def test_any_other_error_keeps_its_name_and_place():
    with pytest.raises(Exception, match=r"(?s)stages\.py.*ZeroDivisionError.*turn t03 is odd"):
        ikat.on_ray(Raises("t03", ZeroDivisionError), workers=1)(turns(8))


@on_cluster
def test_different_indexes_at_one_path_are_an_error(tmp_path):
    with pytest.raises(ikat.DataError, match=r"the index /shared/mini.index isn't the same on all nodes"):
        ikat.on_ray(Differs(tmp_path), workers=2)(turns(16))


@on_cluster
def test_results_can_be_written_to():
    found = ikat.on_ray(ikat.ExplodeQueries(), workers=1)(turns(2).assign(qsubqueries=[["a"], ["b"]], score=[0.5, 1.5]))
    found.loc[0, "score"] = 2.0
    assert found["score"].tolist() == [2.0, 1.5]


def test_a_pipeline_that_asks_a_language_model_is_refused_before_a_call():
    model = Scripted()
    with pytest.raises(ikat.UsageError, match="cache, budget and ledger: put on_ray around the stages that search"):
        ikat.on_ray(ikat.Rewrite(ikat.llm(model)) >> ikat.ExplodeQueries(), workers=2)(turns(2))
    assert not getattr(model, "calls", [])


def test_an_empty_frame_has_the_pipelines_columns(index):
    empty = turns(0)
    pd.testing.assert_frame_equal(ikat.on_ray(index.bm25(), workers=4)(empty), index.bm25()(empty))


def test_it_is_a_value_that_can_be_pasted_back():
    system = ikat.on_ray(ikat.ExplodeQueries(), 4, num_gpus=1)
    assert repr(system) == "ikat.on_ray(ikat.ExplodeQueries(), 4, num_gpus=1)"
    assert system == ikat.on_ray(ikat.ExplodeQueries(), 4, num_gpus=1)
    assert system != ikat.on_ray(ikat.ExplodeQueries(), 5)


def test_without_ray_data_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray.data", None)
    with pytest.raises(ikat.UsageError, match=r"pip install 'pyterrier_ikat\[ray\]'"):
        ikat.on_ray(ikat.ExplodeQueries(), 2)(turns(2))
