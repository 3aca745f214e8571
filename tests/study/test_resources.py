"""Which resources toy methods take, what an index is asked for, and how a run is described."""

import pyterrier as pt
import pytest
from fakes import scripted

import pyterrier_ikat as ikat
from pyterrier_ikat.errors import UsageError
from pyterrier_ikat.llms import Ledger
from pyterrier_ikat.methods import Method
from pyterrier_ikat.operator import Operator
from pyterrier_ikat.retrieve.server_forms import Facts
from pyterrier_ikat.study import open_systems, resources
from pyterrier_ikat.study.resources import Resources, deviations, taken_by

OF_INDEX = {"index", "splade_model", "splade_query_model", "texts"}


class Searches(Operator):
    """A retriever of an index, drawn by a label."""

    def __init__(self, index=None, num_results=1000, k1=None, b=None):
        super().__init__()
        self.index, self.num_results, self.k1, self.b = index, num_results, k1, b

    def name_shown(self):
        return self.index.shown if self.index else "Searches"

    def transform(self, inp):
        return inp.assign(docno="a", score=1.0, rank=0)


class Index(ikat.retrieve.SearchIndex):
    path = "here"

    def __init__(self, shown="BM25", query_model=None, makes=Searches):
        self.shown, self.query_model, self.makes = shown, query_model, makes

    def fingerprint(self):
        return self.shown

    def docnos(self, among):
        return list(among)

    def __len__(self):
        return 1

    def retriever(self, num_results=1000, cache=None, *, k1=0.9, b=0.4):
        return self.makes(self, num_results, k1, b)


def words(retriever, *, depth=7):
    return ikat.RawUtterance() >> retriever % depth


def reranked(llm, retriever, reranker=None, expander=None, *, n=3):
    return retriever if reranker is None else retriever >> reranker


def vectors(dense):
    return dense


def both(retriever, dense):
    return ikat.RRF(retriever, dense)


def free():
    return Searches()


@pytest.mark.parametrize(
    ("entry", "taken"),
    [
        (Method("m", words), OF_INDEX | {"retriever"}),
        (
            Method("m", reranked),
            OF_INDEX | {"retriever", "llm", "reranker", "expander", "statements"},
        ),
        (Method("m", vectors), OF_INDEX),
        (Method("m", free), set()),
        (Method("m", words, settings={"retriever": "splade"}), OF_INDEX),
        (
            Method("m", reranked, settings={"llm": "recorded:sample"}),
            OF_INDEX | {"retriever", "reranker", "expander"},
        ),
    ],
)
def test_options_that_a_method_takes(entry, taken):
    assert taken_by([entry]) == taken
    assert taken_by([entry, Method("other", words)]) == taken | OF_INDEX | {"retriever"}
    assert taken_by([]) == set()


@pytest.mark.parametrize(
    ("entry", "needs"),
    [
        (Method("m", vectors), True),
        (Method("m", both), True),
        (Method("m", words), False),
        (Method("m", words, settings={"retriever": "dense"}), True),
        (Method("m", words, settings={"retriever": "hybrid"}), True),
        (Method("m", words, settings={"retriever": "splade"}), False),
    ],
)
def test_methods_that_need_vectors(entry, needs):
    assert resources._needs_dense(entry) is needs


def test_a_retriever_in_the_place_of_an_index_makes_it_unused():
    words_method = Method("m", words)
    for retriever in (Searches(), "http://host", lambda: Searches()):
        with pytest.raises(UsageError, match="no system uses index="):
            Resources.of({"retriever": retriever, "index": "here"}, [words_method])
    kept = Resources.of({"retriever": lambda index: Searches(index), "index": "x"}, [words_method])
    assert kept.index == "x"
    for retriever in ("bm25", None):
        assert Resources.of({"retriever": retriever, "index": "x"}, [words_method]).index == "x"
    with_vectors = [words_method, Method("v", vectors)]
    assert Resources.of({"retriever": Searches(), "index": "x"}, with_vectors).index == "x"
    rerankers = {"retriever": Searches(), "reranker": lambda index: Searches(index), "index": "x"}
    assert Resources.of(rerankers, [Method("m", reranked)]).index == "x"


def test_unknown_options_name_near_ones_and_arguments():
    with pytest.raises(UsageError, match="there is no option 'rerankr': did you mean reranker"):
        Resources.of({"rerankr": "x"}, [Method("m", words)])
    with pytest.raises(UsageError, match="there is no option 'dept': did you mean depth"):
        Resources.of({"dept": "x"}, [Method("m", words)])
    with pytest.raises(UsageError, match="no option 'zzz': give one of index, llm, second_llm"):
        Resources.of({"zzz": "x"}, [Method("m", words)])


def test_functions_read_the_index_by_their_required_argument():
    reads = resources._reads_index
    assert reads(lambda index: index)
    assert reads([Searches(), lambda index: index])
    assert reads((lambda index: index,))
    for value in (lambda: 1, lambda index=None, *more: 1, Searches(), "x", [Searches()], Searches):
        assert not reads(value)
    with pytest.raises(UsageError, match="takes index, other"):
        reads(lambda index, other: 1)


def opened(entry, **given):
    [system] = open_systems({"mine": entry}, **given)
    return system


def test_an_index_gives_the_depth_and_the_papers_bm25():
    entry = Method("m", words, bm25={"k1": 1.2, "b": 0.75}, models={"retriever": "BM25"})
    system = opened(entry, index=Index())
    retriever = system.retriever
    assert (retriever.num_results, retriever.k1, retriever.b) == (7, 1.2, 0.75)
    assert system.deviations == []
    with pytest.raises(UsageError, match=r"Index.retriever\(\) returns int: end it with return"):
        opened(entry, index=Index(makes=lambda *_: 7))


def described(entry, **given):
    plain = Resources.of(given, [entry])
    return deviations(entry, plain, plain.opened(Ledger(), {}))


@pytest.mark.parametrize(
    ("index", "line"),
    [
        (Index("SPLADE"), "retriever: the paper has BM25, this run SPLADE"),
        (
            Index("SPLADE", "mine"),
            "retriever: the paper has BM25, this run SPLADE query_model=mine",
        ),
    ],
)
def test_another_retriever_is_a_deviation(index, line):
    entry = Method("m", words, models={"retriever": "BM25"})
    assert described(entry, index=index) == [line]
    assert described(Method("m", words), index=index) == []


def test_a_model_is_described_by_its_name():
    entry = Method("m", reranked, models={"llm": "gpt-4", "reranker": "MiniLM"})
    model, _ = scripted()
    lines = described(entry, llm=model, retriever=Searches())
    assert lines[0].startswith("llm: the paper has gpt-4, this run ")
    assert lines[1] == "reranker: the paper has MiniLM, this run none"
    assert described(entry, llm="recorded:sample", retriever=Searches(), reranker="bi:MiniLM") == [
        "llm: the paper has gpt-4, this run recorded:sample"
    ]


def test_hidden_statements_are_told_of_models_alone():
    model, _ = scripted()
    entry = Method("m", reranked)
    hidden = {"retriever": Searches(), "statements": "none"}
    [line] = described(entry, llm=model, **hidden)
    assert line.startswith("statements about the user: none")
    [recorded] = described(entry, llm="recorded:sample", **hidden)
    assert recorded.endswith("recorded completions stay what they were for all of them")
    assert described(entry, llm=model, retriever=Searches()) == []


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"index": 7}, r"index=int\(...\): give the folder of an index"),
        ({"retriever": Index()}, r"retriever=Index\(...\) is an index"),
        ({"index": Index(), "retriever": "dense"}, "names what the folder of index=... holds"),
        ({"index": Index(), "splade_query_model": "x"}, "splade_query_model.* is for an index's"),
        ({"retriever": "words"}, "retriever='words' is unknown"),
    ],
)
def test_resources_that_do_not_fit_are_refused(given, told):
    with pytest.raises(UsageError, match=told):
        Resources(**given).opened(Ledger(), {})


def test_an_opened_index_and_retriever_stay_themselves():
    index = Index()
    retriever = Searches()
    made = Resources(index=index, retriever=retriever).opened(Ledger(), {})
    assert made.index is index
    assert made.retriever is retriever
    assert Resources(retriever="http://host").opened(Ledger(), {}).retriever == "http://host"


def test_functions_make_retriever_and_rerankers_of_the_index():
    index = Index()
    asked = []

    def of_index(given):
        asked.append(given)
        return Searches(given, 2000)

    entry = Method("m", reranked, several=True)
    model, _ = scripted()
    given = {"index": index, "llm": model, "retriever": of_index, "reranker": of_index}
    system = opened(entry, **given)
    assert asked == [index, index]
    assert system.retriever.num_results == 2000
    with pytest.raises(UsageError, match="returns int: end it with return"):
        opened(Method("m", words), index=index, retriever=lambda index: 7)
    with pytest.raises(UsageError, match="the function .* of retriever=... takes an index: give"):
        opened(Method("m", words), retriever=of_index)


def test_a_name_of_several_rerankers_is_split_at_commas():
    made = Resources(reranker="bi:a , bi:b").opened(Ledger(), {}).reranker
    assert made == [ikat.BiEncoder("a"), ikat.BiEncoder("b")]
    single = Resources(reranker="bi:a").opened(Ledger(), {}).reranker
    assert single == ikat.BiEncoder("a")
    stage = Searches()
    assert Resources(reranker=stage).opened(Ledger(), {}).reranker is stage
    for lacking in ("bi:", "", "bi:a,", "None", "monot5:"):
        if lacking == "None":
            assert Resources(reranker=lacking).opened(Ledger(), {}).reranker is None
            continue
        with pytest.raises(UsageError, match="lacks a model's name"):
            Resources(reranker=lacking).opened(Ledger(), {})


def test_models_as_texts_count_in_the_given_ledger():
    ledger = Ledger()
    other = ikat.llm("recorded:sample")
    made = Resources(
        llm="recorded:sample", second_llm=other, responders="recorded:sample,recorded:sample"
    ).opened(ledger, {})
    assert made.llm.ledger is ledger
    assert made.second_llm is other
    assert [model.ledger is ledger for model in made.responders] == [True, True]


def test_rerankers_of_the_index_may_be_a_tuple():
    index = Index()
    model = scripted()[0]
    both = (lambda given: Searches(given, 5), lambda given: Searches(given, 6))
    made = Resources(index=index, llm=model, reranker=both)._of_index("reranker", both)
    assert [stage.num_results for stage in made] == [5, 6]


def test_a_paper_is_compared_with_the_name_that_was_given():
    entry = Method("m", reranked, models={"reranker": "tiny"})
    given = {"llm": "recorded:sample", "retriever": Searches()}
    assert opened(entry, **given, reranker="bi:tiny").deviations == []


def test_prompts_and_hidden_statements_are_no_matter_of_a_method():
    given = Resources.of({"prompts": "folder", "statements": None}, [Method("m", words)])
    assert (given.prompts, given.statements) == ("folder", None)
    hidden = Resources.of({"statements": "none", "llm": "x"}, [Method("m", reranked)])
    assert hidden.statements == "none"


def test_a_reranker_of_a_file_may_read_the_index(tmp_path):
    path = tmp_path / "my.py"
    path.write_text("def of_index(index):\n    return index\n\ndef alone():\n    return 1\n")
    entry = Method("m", reranked)
    for name, given in (("of_index", "x"), ("alone", None)):
        options = {"retriever": Searches(), "reranker": f"bi:a,{path}:{name}", "index": "x"}
        if given is None:
            with pytest.raises(UsageError, match="no system uses index="):
                Resources.of(options, [entry])
        else:
            assert Resources.of(options, [entry]).index == given


@pytest.mark.parametrize(
    ("kinds", "entry", "options", "retriever"),
    [
        (["splade", "dense"], both, {}, "splade"),
        (["splade", "dense"], words, {}, None),
        (["splade", "dense"], both, {"retriever": "dense"}, "dense"),
        (["bm25", "dense"], both, {}, None),
        (["bm25", "splade", "dense"], both, {}, None),
    ],
)
def test_splade_beside_vectors_is_the_only_retriever_of_words(
    monkeypatch, kinds, entry, options, retriever
):
    monkeypatch.setattr(resources, "_kinds_of", lambda index: kinds)
    given = Resources.of({"index": "x", **options}, [Method("m", entry)])
    assert given.retriever == retriever


def test_an_artifact_is_an_index_and_no_retriever(tmp_path):
    class Built(pt.Artifact):
        def __init__(self, path):
            self.path = path

    with pytest.raises(UsageError, match=r"retriever=Built\(...\) is an index: give it as index="):
        Resources(retriever=Built(tmp_path)).opened(Ledger(), {})


class Server(Searches):
    """Stands for a server's retriever."""

    def __init__(self, url, num_results=1000):
        super().__init__(None, num_results)
        self.url = url

    def facts(self):
        return Facts("", False, "words")


class ServerOfWords(Searches):
    """Stands for a server's BM25."""

    def __init__(self, url, num_results=1000, k1=None, b=None):
        super().__init__(None, num_results, k1, b)
        self.url = url

    def facts(self):
        return Facts("", True, "BM25")


def test_a_server_of_words_gets_the_papers_bm25(monkeypatch):
    monkeypatch.setattr(resources, "Remote", ServerOfWords)
    for bm25, expected in (({"k1": 1.2, "b": 0.75}, (1.2, 0.75)), ({}, (0.9, 0.4))):
        entry = Method("m", words, bm25=bm25, models={"retriever": "SPLADE"})
        asked = Resources(retriever="https://host").build(entry)[1]
        assert (asked.num_results, asked.k1, asked.b) == (7, *expected)
        assert described(entry, retriever="https://host") == [
            f"retriever: the paper has SPLADE, this run BM25 k1={expected[0]} b={expected[1]}"
        ]


def test_a_server_is_asked_for_the_depth_of_the_method(monkeypatch):
    monkeypatch.setattr(resources, "Remote", Server)
    built = Resources(retriever="https://host").build(Method("m", words))
    assert (built[1].url, built[1].num_results) == ("https://host", 7)


def test_words_and_vectors_of_an_index_are_both_given(monkeypatch):
    class Vectors:
        def __init__(self, owner):
            self.owner = owner

        def dense(self, depth):
            return Searches(self.owner.index, depth, "vectors")

    monkeypatch.setattr(Resources, "_vectors", lambda self: Vectors(self))
    index = Index()
    built = Resources(index=index).build(Method("m", both))
    found, dense = built.branches
    assert (found.num_results, found.k1) == (1000, 0.9)
    assert (dense.num_results, dense.k1) == (1000, "vectors")
    hybrid = Resources(index=index, retriever="hybrid").build(Method("m", words))
    fused = hybrid[1]
    assert fused.num_results == 7
    assert [list(branch)[0].num_results for branch in fused.branches] == [7, 7]
    assert [list(branch)[1].k for branch in fused.branches] == [7, 7]
    assert Resources(index=index).build(Method("m", words))[1].k1 == 0.9

    def same(self, depth):
        return Searches(self.owner.index, depth, 0.9, 0.4)

    monkeypatch.setattr(Vectors, "dense", same)
    with pytest.raises(UsageError, match="m searches words and vectors, and the index has vectors"):
        Resources(index=index).build(Method("m", both))


def test_an_index_without_vectors_beside_it_is_told():
    with pytest.raises(UsageError, match=r"index=Index\(...\) has no dense vectors beside it"):
        Resources(index=Index(), retriever="hybrid").build(Method("m", words))


def test_a_server_is_described_by_what_it_searches(monkeypatch):
    monkeypatch.setattr(resources, "Remote", Server)
    entry = Method("m", words, models={"retriever": "BM25"})
    assert described(entry, retriever="https://host") == [
        "retriever: the paper has BM25, this run words of https://host"
    ]


@pytest.mark.parametrize(
    ("kinds", "entry", "retriever", "named"),
    [
        (["bm25", "dense"], words, None, ["dense"]),
        (["bm25", "splade", "dense"], words, None, ["splade", "dense"]),
        (["bm25"], words, None, []),
        (["splade", "dense"], words, None, []),
        (["bm25", "dense"], words, "bm25", []),
        (["bm25", "dense"], both, None, []),
        (["bm25", "dense"], free, None, []),
    ],
)
def test_other_kinds_of_index_in_a_folder_are_told(monkeypatch, kinds, entry, retriever, named):
    monkeypatch.setattr(resources, "_kinds_of", lambda index: kinds)
    given = Resources(index="folder", retriever=retriever)
    notes = resources._note_of_words(Method("m", entry), given)
    assert len(notes) == bool(named)
    for note in notes:
        assert note.startswith(f"folder holds {', '.join(kinds)}: words are searched (bm25); ")
        assert note.count("retriever=") == len(named)
        for kind in named:
            assert f"retriever={kind!r}" in note


def test_bm25_of_an_index_is_described_with_the_papers_settings():
    entry = Method("m", words, bm25={"k1": 1.2, "b": 0.75})
    assert resources._retriever_in_words(entry, Index()) == "BM25 k1=1.2 b=0.75"
    assert resources._retriever_in_words(Method("m", words), Index()) == "BM25"
