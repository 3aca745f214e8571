"""Building an index and adding to it: whole after a kill at any moment; open ones don't change."""

import shutil
import threading
import warnings
from contextlib import closing

import pandas as pd
import pytest
from retrieve.folders import times_of_files
from tiny_splade import save_splade
from trust.killing import killed_before

import pyterrier_ikat as ikat
from pyterrier_ikat.retrieve import dense as dense_module
from pyterrier_ikat.retrieve import index as index_module
from pyterrier_ikat.retrieve import pisa
from pyterrier_ikat.retrieve import splade as splade_module
from pyterrier_ikat.retrieve.texts import TextStore
from pyterrier_ikat.store import cache as result_cache
from pyterrier_ikat.store.models import BUNDLED
from pyterrier_ikat.study import System

CORPUS = [
    {"docno": "d0", "text": "green tea "},
    {"docno": "d7", "text": "green tea mint "},
    {"docno": "d4", "text": "green tea mint mint "},
    {"docno": "d1", "text": "green tea "},
    {"docno": "d8", "text": "green tea mint "},
    {"docno": "d5", "text": "green tea mint mint "},
    {"docno": "d2", "text": "green tea "},
    {"docno": "d9", "text": "green tea mint "},
    {"docno": "d6", "text": "green tea mint mint "},
    {"docno": "d3", "text": "green tea "},
]
MORE = [
    {"docno": "n1", "text": "a green tram"},
    {"docno": "n0", "text": " "},
    {"docno": "n2", "text": "mint mint"},
]
ASKED = pd.DataFrame({"qid": ["1", "2"], "query": ["green mint", "a tram"]}, dtype=object)


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        # turns without a passage, and engines that lack the last passages
        warnings.simplefilter("ignore")
        yield


def build(kind, path, model, corpus):
    if kind == "splade":
        return ikat.Splade(model).index(path, iter(corpus))
    if kind == "dense":
        return ikat.DenseIndex(path).index(iter(corpus), BUNDLED)
    return ikat.PassageIndex(path).index(iter(corpus), engine=kind)


KINDS = ["eager", pytest.param("pisa", marks=pytest.mark.linux), "splade", "dense"]


def found(path, kind):
    result_cache._opened.clear()
    return ikat.Index(path).open("bm25" if kind in ("eager", "pisa") else kind).retriever()(ASKED)


def scores_found(path, kind):
    return found(path, kind).set_index(["qid", "docno"])["score"].sort_index()


@pytest.mark.parametrize("kind", KINDS)
def test_added_passages_give_the_index_of_all_of_them(kind, model, tmp_path):
    index = build(kind, tmp_path / "i", model, CORPUS)
    before = index.retriever()
    first = before(ASKED)
    again = type(index)(index.path).add(iter([*MORE, CORPUS[3]]))
    assert len(again) == 13
    assert again.texts(["n2", "d0"]) == [
        "mint mint",
        next(one["text"] for one in CORPUS if one["docno"] == "d0"),
    ]
    build(kind, tmp_path / "whole", model, [*CORPUS, *MORE])
    pd.testing.assert_frame_equal(
        found(tmp_path / "i", kind), found(tmp_path / "whole", kind), rtol=1e-5
    )
    result_cache._opened.clear()
    pd.testing.assert_frame_equal(before(ASKED), first)  # what is open stays as it is
    assert build(kind, tmp_path / "i", model, [*CORPUS, *MORE]).fingerprint() == again.fingerprint()
    with pytest.raises(ikat.UsageError, match="holds an index of other passages"):
        build(kind, tmp_path / "i", model, CORPUS)
    again.add(MORE)  # they are all there
    assert len(again) == 13


@pytest.mark.parametrize("kind", KINDS)
def test_an_index_that_is_there_is_compared_and_not_built_again(kind, model, tmp_path):
    index = build(kind, tmp_path / "i", model, CORPUS)
    first, *rest = CORPUS
    times = times_of_files(tmp_path / "i")
    again = build(kind, tmp_path / "i", model, CORPUS)
    assert (again, again.fingerprint()) == (index, index.fingerprint())
    changed = (
        [{**first, "text": first["text"] + " "}, *rest],
        [{**first, "docno": "other"}, *rest],
    )
    for other in ([*CORPUS, MORE[0]], CORPUS[:-1], *changed):
        with pytest.raises(ikat.UsageError, match="holds an index of other passages"):
            build(kind, tmp_path / "i", model, other)
    with pytest.raises(ikat.DataError, match="that isn't used up"):
        build(kind, tmp_path / "i", model, [])
    assert times_of_files(tmp_path / "i") == times
    assert [path.name for path in tmp_path.iterdir()] == ["i"]


def test_an_index_of_other_settings_is_refused_before_reading(model, tmp_path):
    never = (1 / 0 for _ in "x")
    path = tmp_path / "i"
    for kind in ("eager", "splade", "dense"):
        build(kind, path, model, CORPUS)
    other = save_splade(tmp_path / "other", seed=5)
    for call, message in (
        (
            lambda: ikat.PassageIndex(path).index(never, stops="none"),
            "holds an index with stops 'lucene', not 'none': remove it",
        ),
        (
            lambda: ikat.Splade(other).index(path, never),
            "holds an index with encoded_by .*: remove it",
        ),
        (
            lambda: ikat.DenseIndex(path).index(never, BUNDLED, query_prefix="q: "),
            "with query_prefix None, not 'q: '",
        ),
        (
            lambda: ikat.DenseIndex(path).index(never, BUNDLED, similarity="dot"),
            "with similarity 'cosine', not 'dot'",
        ),
    ):
        with pytest.raises(ikat.UsageError, match=message):
            call()


ENCODING = {"splade": (splade_module, "encode_texts", 1), "dense": (dense_module, "_encode", 4)}
"""Kind -> the module and function that encodes, and the position of the texts in its arguments."""
TEXTS = ["green tea " + "runs " * (number % 30) for number in range(100)]
MANY = [{"docno": f"p{number:03}", "text": text} for number, text in enumerate(TEXTS)]


@pytest.mark.parametrize("kind", ENCODING)
@pytest.mark.parametrize("added", [False, True], ids=["built", "added"])
def test_a_stopped_build_resumes_and_additions_encode_only_new(
    kind, added, model, tmp_path, monkeypatch
):
    module, name, place = ENCODING[kind]
    encode_all = getattr(module, name)
    encoded = []
    ahead = [None, None, KeyboardInterrupt]

    def encode(*arguments, **options):
        if "document" not in (*arguments, *options.values()):
            return encode_all(*arguments, **options)
        if ahead:
            stop = ahead.pop(0)
            if stop is not None:
                raise stop
        encoded.extend(arguments[place])
        return encode_all(*arguments, **options)

    def work():
        if added:
            ikat.Index(tmp_path / "i").add(MANY[20:])
        else:
            build(kind, tmp_path / "i", model, MANY)

    monkeypatch.setattr(module, "PASSAGES_AT_ONCE", 32)
    if added:
        build(kind, tmp_path / "i", model, MANY[:20])
        before = found(tmp_path / "i", kind)
    monkeypatch.setattr(module, name, encode)
    with pytest.raises(KeyboardInterrupt):
        work()
    if added:
        pd.testing.assert_frame_equal(found(tmp_path / "i", kind), before)
    work()
    assert encoded == (TEXTS[20:] if added else TEXTS)
    assert {path.name for path in (tmp_path / "i").iterdir()} == {
        f"{kind}-100",
        "pt_meta.json",
        "texts.db",
    }
    build(kind, tmp_path / "straight", model, MANY)
    ours = scores_found(tmp_path / "i", kind)
    straight = scores_found(tmp_path / "straight", kind)
    # of other batches, so that equal texts differ in their last digits
    pd.testing.assert_series_equal(ours, straight, rtol=1e-4)


def test_passages_are_added_to_every_index_of_the_folder(model, tmp_path):
    for kind in ("eager", "splade", "dense"):
        build(kind, tmp_path / "i", model, CORPUS)
    ikat.Index(tmp_path / "i").add(MORE)
    assert sorted(path.name for path in (tmp_path / "i").iterdir()) == [
        "bm25-13",
        "dense-13",
        "pt_meta.json",
        "splade-13",
        "texts.db",
    ]
    with pytest.raises(
        ikat.DataError,
        match="the index has 'n1' with another text: passages are added, not changed",
    ):
        ikat.Index(tmp_path / "i").add(
            [{"docno": "n3", "text": "x"}, {"docno": "n1", "text": "other"}]
        )
    assert len(ikat.PassageIndex(tmp_path / "i")) == 13
    with pytest.raises(ikat.DataError, match="there is no such folder"):
        ikat.Index(tmp_path / "none").add(MORE)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "added"),
    [
        ("eager", False),
        ("eager", True),
        pytest.param("pisa", False, marks=pytest.mark.linux),
        ("splade", True),
        ("dense", False),
    ],
)
def test_a_killed_build_leaves_the_old_or_new_index_and_resumes(kind, added, model, tmp_path):
    if kind == "pisa":
        build(kind, tmp_path / "warm", model, CORPUS)  # loads PISA before the forks
    build(kind, tmp_path / "whole", model, [*CORPUS, *MORE])
    new = found(tmp_path / "whole", kind)
    if added:
        build(kind, tmp_path / "old", model, CORPUS)
        old = found(tmp_path / "old", kind)
    for number in range(63):
        path = tmp_path / str(number)
        if added:
            shutil.copytree(tmp_path / "old", path)

        def work(path=path):
            return (
                ikat.Index(path).add(MORE) if added else build(kind, path, model, [*CORPUS, *MORE])
            )

        killed = killed_before(number, path, work)
        if ikat.Index(path).kinds:
            there = found(path, kind)
            assert len(there) == len(new) or (added and len(there) == len(old))
            pd.testing.assert_frame_equal(there, new if len(there) == len(new) else old, rtol=1e-5)
        else:
            assert not added
        work()
        pd.testing.assert_frame_equal(found(path, kind), new, rtol=1e-5)
        assert len(list(path.iterdir())) == 3
        if not killed:
            return
    raise AssertionError("it changes more than sixty files")


def test_two_builds_of_one_index_are_not_mixed(tmp_path):
    def corpus():
        yield CORPUS[0]
        with pytest.raises(ikat.UsageError, match="is being made by process"):
            ikat.PassageIndex(tmp_path / "i").index(CORPUS)
        yield CORPUS[1]

    assert len(ikat.PassageIndex(tmp_path / "i").index(corpus())) == 2


def test_a_large_corpus_is_pisas_where_it_is_installed(tmp_path, monkeypatch):
    monkeypatch.setattr(index_module, "EAGER_UP_TO", 9)
    monkeypatch.setattr(pisa, "has_pisa", lambda: False)
    assert ikat.PassageIndex(tmp_path / "none").index(CORPUS).describe()["engine"] == "eager"
    monkeypatch.undo()
    pytest.importorskip("pyterrier_pisa")
    monkeypatch.setattr(index_module, "EAGER_UP_TO", 9)
    assert ikat.PassageIndex(tmp_path / "there").index(CORPUS).describe()["engine"] == "pisa"


@pytest.mark.linux
def test_passages_that_pisa_lost_are_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(pisa, "count_passages", lambda _: 9)
    with pytest.raises(ikat.DataError, match="PISA has 9 of 10 passages"):
        ikat.PassageIndex(tmp_path / "i").index(CORPUS, engine="pisa")
    assert ikat.Index(tmp_path / "i").kinds == []


@pytest.mark.linux
def test_pisa_takes_other_parameters_once_or_names_lost_postings(tmp_path):
    index = ikat.PassageIndex(tmp_path / "i").index(CORPUS, engine="pisa")
    expected = ikat.PassageIndex(tmp_path / "eager").index(CORPUS).bm25(k1=1.2, b=0.75)(ASKED)
    folder = index.opened().folder
    made = {path.name for path in folder.iterdir()}
    assert "bm25.k1-0.9.b-0.4.q0.bmw.64.block_simdbp" in made
    assert made.isdisjoint({"fwd", "fwd.urls"})  # which nothing reads
    for number in range(3):
        killed_before(
            number, folder, lambda: ikat.PassageIndex(index.path).bm25(k1=1.2, b=0.75)(ASKED)
        )
    result_cache._opened.clear()
    pd.testing.assert_frame_equal(
        ikat.PassageIndex(index.path).bm25(k1=1.2, b=0.75)(ASKED), expected, rtol=1e-4
    )
    for name in pisa.SPARE_FILES:
        (folder / name).unlink()
    index = ikat.PassageIndex(index.path)
    assert len(index.bm25(k1=1.2, b=0.75)(ASKED)) == len(expected)
    with pytest.raises(
        ikat.DataError,
        match=r"isn't ready for these parameters of BM25, and inv.docs was removed: put",
    ):
        index.bm25(k1=1.3, b=0.75)(ASKED)


def test_an_open_index_is_kept_and_a_run_ending_on_another_fails(tmp_path):
    index = ikat.PassageIndex(tmp_path / "i").index(CORPUS)
    bm25 = index.bm25(cache=tmp_path / "c")
    others = [{"docno": one["docno"], "text": "a tram"} for one in CORPUS]
    assert System.of(bm25).parameters() == System.of(bm25).parameters()
    first = bm25(ASKED)
    shutil.rmtree(tmp_path / "i")
    ikat.PassageIndex(tmp_path / "i").index(others)
    result_cache._opened.clear()
    pd.testing.assert_frame_equal(bm25(ASKED), first)
    pd.testing.assert_frame_equal(
        index.bm25(k1=1.2)(ASKED)[["qid", "docno"]], first[["qid", "docno"]]
    )
    with pytest.raises(ikat.DataError, match="was replaced since it was opened: open it again"):
        System.of(bm25).parameters()
    again = ikat.PassageIndex(tmp_path / "i").bm25(cache=tmp_path / "c")(ASKED)
    assert again["text"].unique().tolist() == ["a tram"]
    assert set(again["qid"]) == {"2"}


def test_texts_of_other_passages_beside_an_engine_are_refused(tmp_path):
    ikat.PassageIndex(tmp_path / "i").index(CORPUS)
    ikat.PassageIndex(tmp_path / "j").index(MORE)
    shutil.copy(tmp_path / "j" / "texts.db", tmp_path / "i" / "texts.db")
    with pytest.raises(ikat.DataError, match="has texts of other passages"):
        ikat.PassageIndex(tmp_path / "i").bm25()


def test_it_is_searched_while_passages_are_added(tmp_path):
    path = ikat.PassageIndex(tmp_path / "i").index(CORPUS).path
    failed = []

    def search():
        try:
            for _ in range(20):
                rows = ikat.PassageIndex(path).bm25()(ASKED)
                assert rows["text"].notna().all()
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=search) for _ in range(3)]
    for thread in threads:
        thread.start()
    for number in range(5):
        ikat.PassageIndex(path).add([{"docno": f"more{number}", "text": f"green tram {number}"}])
    for thread in threads:
        thread.join()
    assert failed == []
    assert len(ikat.PassageIndex(path)) == 15


@pytest.mark.parametrize("count", [1, 9, 10])
def test_passages_that_an_index_lacks_are_told(tmp_path, count):
    path = tmp_path / "i"
    ikat.PassageIndex(path).index(CORPUS)
    more = [(f"more{number}", "green tea") for number in range(count)]
    # as if an addition was killed before the index was built again
    with closing(TextStore(path)) as store:
        store.add(more)
    with pytest.warns(
        UserWarning, match=rf"lacks the last {count} passages: call add\(passages\) again"
    ):
        len(ikat.PassageIndex(path))


def test_an_index_knows_no_passage_that_it_lacks(tmp_path):
    path = tmp_path / "i"
    ikat.PassageIndex(path).index(CORPUS)
    with closing(TextStore(path)) as store:
        store.add([("more0", "green tea"), ("more1", "green tea")])
    with pytest.warns(UserWarning, match="lacks the last 2 passages"):
        assert list(ikat.PassageIndex(path).docnos(["more0", CORPUS[0]["docno"], "more1"])) == [
            CORPUS[0]["docno"]
        ]


def test_another_text_of_the_same_length_is_refused(tmp_path):
    corpus = [{"docno": "d1", "text": "green tea"}]
    other = [{"docno": "d1", "text": "black tea"}]
    index = ikat.PassageIndex(tmp_path / "i").index(corpus)
    with pytest.raises(ikat.DataError, match="has 'd1' with another text"):
        index.add(other)
    with pytest.raises(ikat.UsageError, match="an index of other passages"):
        ikat.PassageIndex(tmp_path / "i").index(other)
    assert index.texts(["d1"]) == ["green tea"]
