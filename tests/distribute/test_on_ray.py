"""Ray Data gives what one process gives, and a worker that dies loses nothing."""

import pickle
import sys
from types import ModuleType, SimpleNamespace

import pandas as pd
import pyterrier as pt
import pytest
from distribute.stages import ByLength, Dies, Differs, Finds, Raises, Together, turns
from fakes import Scripted
from rank.tiny_cross_encoders import save_cross_encoder

import pyterrier_ikat as ikat
from pyterrier_ikat.distribute.on_ray import OnRay, _may_be_written, _Worker, cut
from pyterrier_ikat.foreign import HeldFiles, path_of


def cells_of(parts):
    """The parts as Ray Data carries them."""
    cells = []
    for number, part in enumerate(parts):
        cells.append({"number": number, "cell": pickle.dumps(part)})
    return cells


@pytest.fixture
def in_process(monkeypatch):
    """One worker for each part in this process, in another order, as Ray Data may give the parts.

    Starting Ray's takes seconds each.
    """

    def rows(self, parts):
        travelled = pickle.dumps(self.pipeline)
        first, *others = cells_of(parts)
        answers = []
        for cell in [*others, first]:
            worker = _Worker(pickle.loads(travelled))
            answers.append(worker(cell))
        return answers

    monkeypatch.setattr(OnRay, "_rows", rows)


def asked(turns):
    llm = ikat.llm("recorded:sample")
    return (ikat.Answer(llm) >> ikat.MultiQuery(llm, n=5, given="answer"))(turns)


def test_two_workers_at_once_give_the_rows_of_one_process(cluster, sample_index, tmp_path):
    queries = asked(pt.get_dataset("ikat:sample").get_topics())
    search = ikat.PassageIndex(sample_index).bm25(num_results=50) >> ByLength()
    found = ikat.on_ray(search >> Together(tmp_path), workers=2)(queries)
    one = search(queries)
    assert len(one) > 100
    assert all(type(history) is list for history in found["qhistory"])
    # personas and histories as they are
    pd.testing.assert_frame_equal(found.drop(columns="process"), one)
    assert found["process"].nunique() == 2
    found.loc[0, "score"] = 2.0  # may be written to
    assert found["score"][0] == 2.0


def test_a_worker_that_dies_is_replaced_and_its_turns_run_again(cluster, tmp_path):
    died = tmp_path / "died"
    found = ikat.on_ray(Dies("t04", died), workers=2)(turns(8))
    assert died.exists()
    assert found["qid"].tolist() == turns(8)["qid"].tolist()


def test_parts_are_joined_in_the_order_of_the_turns(in_process, sample_index):
    queries = asked(pt.get_dataset("ikat:sample").get_topics().head(6))
    search = ikat.PassageIndex(sample_index).bm25(num_results=5)
    for system in (search, search >> ikat.Interleave()):
        pd.testing.assert_frame_equal(ikat.on_ray(system, workers=2)(queries), system(queries))


def test_a_models_scores_differ_by_float_noise_at_most(in_process, sample_index, tmp_path):
    model = ikat.CrossEncoder(save_cross_encoder(tmp_path / "model", "electra"), max_length=24)
    system = ikat.PassageIndex(sample_index).bm25(num_results=5) >> model
    topics = turns(3).assign(query=["green tea", "black coffee", "white tea leaves"])

    def by_docno(found):
        ordered = found.sort_values(["qid", "docno"], ignore_index=True)
        return ordered.drop(columns="rank")

    spread = by_docno(ikat.on_ray(system, 2)(topics))
    one = by_docno(system(topics))
    assert len(one) > 10
    pd.testing.assert_frame_equal(spread, one, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("stage", "message"),
    [
        (Raises("t03"), "^turn t03 is odd: leave it out$"),
        (Differs(), "the index /shared/mini.index isn't the same on all nodes"),
        (Raises("t03", ZeroDivisionError), "^turn t03 is odd"),
        (
            ikat.Rewrite(ikat.llm(Scripted())),
            "cache, budget and ledger: put on_ray around the stages that search",
        ),
    ],
)
def test_errors_arrive_with_their_message(in_process, stage, message):
    with pytest.raises((ikat.IkatError, ZeroDivisionError), match=message):
        ikat.on_ray(stage, workers=2)(turns(8))


def test_an_empty_frame_has_the_pipelines_columns(sample_index):
    search = ikat.PassageIndex(sample_index).bm25()
    empty = turns(0)
    pd.testing.assert_frame_equal(ikat.on_ray(search, workers=4)(empty), search(empty))


def test_it_is_a_value_that_can_be_pasted_back():
    system = ikat.on_ray(ikat.ExplodeQueries(), 4, num_gpus=1)
    assert repr(system) == "ikat.on_ray(ikat.ExplodeQueries(), 4, num_gpus=1)"
    assert system == ikat.on_ray(ikat.ExplodeQueries(), 4, num_gpus=1)
    assert system != ikat.on_ray(ikat.ExplodeQueries(), 5)


def test_without_ray_data_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray.data", None)
    with pytest.raises(ikat.UsageError, match=r"pip install 'pyterrier_ikat\[ray\]'"):
        ikat.on_ray(ikat.ExplodeQueries(), 2)(turns(2))


@pytest.mark.parametrize(
    ("parts", "sizes"),
    [(1, [7]), (2, [4, 3]), (3, [3, 2, 2]), (7, [1] * 7), (8, [1] * 7), (100, [1] * 7)],
)
def test_parts_have_equally_many_turns_and_none_is_empty(parts, sizes):
    frame = turns(7)
    pieces = cut(frame, parts)
    assert [len(piece) for piece in pieces] == sizes
    assert pd.concat(pieces)["qid"].tolist() == frame["qid"].tolist()
    for piece in pieces:
        assert piece.index.tolist() == list(range(len(piece)))


def test_a_row_without_a_qid_is_in_a_part_as_in_one_process():
    frame = pd.DataFrame({"qid": ["a", None, "b"], "query": ["x", "y", "z"]})
    assert pd.concat(cut(frame, 2))["query"].tolist() == ["x", "y", "z"]


def test_there_is_at_least_one_worker():
    with pytest.raises(ikat.UsageError, match="workers=0: give 1 or more"):
        ikat.on_ray(pt.Transformer.identity(), 0)


def test_a_turns_rows_stay_together_wherever_they_stand():
    frame = pd.DataFrame({"qid": ["a::0", "b::0", "a::1"], "qid_0": ["a", "b", "a"]})
    assert [piece["qid"].tolist() for piece in cut(frame, 4)] == [["a::0", "a::1"], ["b::0"]]
    results = pd.DataFrame({"qid": ["a", "b", "a"], "docno": ["x", "y", "z"]})
    assert [piece["docno"].tolist() for piece in cut(results, 2)] == [["x", "z"], ["y"]]


@pytest.mark.parametrize(("count", "blocks", "processes"), [(50, 12, 3), (2, 2, 2)])
def test_ray_is_asked_for_the_named_processes(monkeypatch, count, blocks, processes):
    """Four parts for each worker, and no more workers than parts."""
    asked = {}

    class Rows:
        def __init__(self, cells, **given):
            self.cells = cells
            asked.update(given)

        def map(self, worker, *, fn_constructor_args, **given):
            asked.update(given)
            work = worker(*fn_constructor_args)
            return SimpleNamespace(iter_rows=lambda: [work(cell) for cell in self.cells])

    package = ModuleType("ray")
    package.data = ModuleType("ray.data")
    package.data.from_items = Rows
    package.data.ActorPoolStrategy = lambda size: size
    monkeypatch.setitem(sys.modules, "ray", package)
    monkeypatch.setitem(sys.modules, "ray.data", package.data)
    system = ikat.on_ray(ikat.RawUtterance(), 3, num_cpus=2, num_gpus=0.5)
    assert system(turns(count))["qid"].tolist() == turns(count)["qid"].tolist()
    assert asked == {
        "override_num_blocks": blocks,
        "compute": processes,
        "num_cpus": 2,
        "num_gpus": 0.5,
    }


def test_one_core_and_no_gpu_where_nothing_is_said():
    system = ikat.on_ray(ikat.ExplodeQueries(), 2)
    assert (system.workers, system.num_cpus, system.num_gpus) == (2, 1, 0)


def test_turns_without_a_row_leave_the_types_of_the_others(in_process):
    spread = ikat.on_ray(Finds("t01", "t03"), workers=2)(turns(8))
    assert spread["qid"].tolist() == ["t01", "t03"]
    assert spread.index.tolist() == [0, 1]
    assert str(spread["rank"].dtype) == "int64"


class Same:
    """An index that is the same everywhere."""

    path = "/shared/same.index"

    def fingerprint(self):
        return "f"


class Searches(pt.Transformer):
    """A stage with an index, which finds a passage for each turn."""

    def __init__(self, *, found=True):
        self.index = Same()
        self.found = found

    def transform(self, inp):
        found = inp if self.found else inp[:0]
        return found.assign(docno="d", rank=0, score=1.5)


def test_an_index_that_is_the_same_on_all_nodes_is_searched(in_process):
    found = ikat.on_ray(Searches(), workers=2)(turns(9))
    assert found["qid"].tolist() == turns(9)["qid"].tolist()
    assert found["score"].tolist() == [1.5] * 9


def test_where_nothing_is_found_the_columns_are_those_of_a_part(in_process):
    found = ikat.on_ray(Searches(found=False), workers=2)(turns(5))
    assert len(found) == 0
    assert found.columns.tolist() == ["qid", "query", "docno", "rank", "score"]


@pytest.mark.parametrize(("workers", "sizes"), [(1, [3, 2, 2, 2]), (2, [2, 1, 1, 1, 1, 1, 1, 1])])
def test_each_worker_gets_four_parts_in_their_order(monkeypatch, workers, sizes):
    given = []

    def rows(self, parts):
        given.extend(len(part) for part in parts)
        work = _Worker(self.pipeline)
        return [work(cell) for cell in reversed(cells_of(parts))]

    monkeypatch.setattr(OnRay, "_rows", rows)
    found = ikat.on_ray(pt.Transformer.identity(), workers)(turns(9))
    assert given == sizes
    assert found.equals(turns(9))


def test_a_worker_answers_with_number_result_and_indexes():
    cell = pickle.dumps(turns(1))
    answer = _Worker(Searches())({"number": 7, "cell": cell})
    result, indexes = pickle.loads(answer["cell"])
    assert answer["number"] == 7
    assert result["docno"].tolist() == ["d"]
    assert indexes == {"/shared/same.index": "f"}
    failed = _Worker(Raises("t00"))({"number": 0, "cell": cell})
    error, indexes = pickle.loads(failed["cell"])
    assert isinstance(error, ikat.DataError)
    assert indexes == {}


@pytest.mark.parametrize("error", [ikat.DataError, ikat.UsageError])
def test_a_worker_hands_over_each_error_of_ours(error):
    answer = _Worker(Raises("t00", error))({"number": 0, "cell": pickle.dumps(turns(1))})
    result, _indexes = pickle.loads(answer["cell"])
    assert type(result) is error


def test_a_cache_that_differs_between_nodes_is_no_error(tmp_path):
    class Caches(HeldFiles):
        def fingerprint(self):
            seen.append(1)
            return str(len(seen))

    seen = []
    stage = Searches()
    stage.index = Caches(str(tmp_path / "cache.db"))
    assert path_of(stage.index) == stage.index.path
    cell = pickle.dumps(turns(1))
    result, indexes = pickle.loads(_Worker(stage)({"number": 0, "cell": cell})["cell"])
    assert len(result) == 1
    assert indexes == {}


def test_only_what_a_stage_may_write_to_is_not_compared():
    assert _may_be_written(HeldFiles("cache.db"))
    assert not _may_be_written(HeldFiles("an.index", artifact=True))
    assert not _may_be_written(Same())


@pytest.mark.parametrize(
    "change", [{"workers": 3}, {"num_cpus": 2}, {"num_gpus": 1}, {"pipeline": ikat.RRF()}]
)
def test_spread_pipelines_differ_by_each_argument(change):
    arguments = {"pipeline": ikat.ExplodeQueries(), "workers": 2, "num_cpus": 1, "num_gpus": 0}
    assert ikat.on_ray(**arguments) == ikat.on_ray(ikat.ExplodeQueries(), 2)
    assert ikat.on_ray(**(arguments | change)) != ikat.on_ray(**arguments)


def test_a_frame_without_turns_is_refused(in_process):
    with pytest.raises((ikat.IkatError, ValueError), match="qid"):
        ikat.on_ray(Searches(), 2)(turns(3).drop(columns="qid"))
