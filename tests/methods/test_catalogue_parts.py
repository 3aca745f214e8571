"""Parts of methods and of their catalogue: stand-ins, replaced resources, files and tables."""

from dataclasses import replace
from types import SimpleNamespace

import pandas as pd
import pyterrier as pt
import pytest

import pyterrier_ikat as ikat
from pyterrier_ikat import methods
from pyterrier_ikat.errors import UsageError
from pyterrier_ikat.methods import Method, PublishedTable, find, find_all, methods_of
from pyterrier_ikat.methods.catalogue import (
    calls_per_turn,
    catalogue_position,
    origin,
    published_scores,
)
from pyterrier_ikat.methods.definition import (
    StandIn,
    _deciding_settings,
    in_words,
    model_differences,
    model_key,
    passages_at_most,
)

TURNS = pd.DataFrame({"qid": ["1_1", "1_1", "1_2"], "query": ["a", "b", "c"]})
LLM = StandIn("llm")
RETRIEVER = StandIn("retriever")


def test_a_stand_in_counts_rows_and_cannot_be_run():
    stand_in = StandIn("retriever")
    assert stand_in.plan(TURNS, None) is TURNS
    stand_in.plan(TURNS.head(1), None)
    assert stand_in.rows == {"1_1": 3, "1_2": 1}
    assert repr(stand_in) == "retriever"
    with pytest.raises(UsageError, match="retriever only stands for a resource"):
        stand_in.ask(TURNS)


def test_only_resources_may_lack_a_default():
    def odd(llm, colour, size=3):
        return llm

    with pytest.raises(UsageError, match="'colour' is not a resource: name it one of llm, second"):
        Method("odd", odd)
    assert Method("odd", odd, settings={"colour": "red"}).values == {"colour": "red", "size": 3}


def of_queries(llm, retriever, *, queries="", question="qutterance", depth=9):
    """Search for queries.

    Raises:
        UsageError: never.
    """
    return RETRIEVER if queries else ikat.Answer(llm, question=question) >> retriever % depth


REPLACED = Method("mine", of_queries, instead={"queries": "llm"})


def test_a_resource_is_not_needed_where_an_argument_replaces_it():
    assert REPLACED.needs == ["llm", "retriever"]
    given = REPLACED.with_arguments({"queries": "file.tsv"})
    assert (given.needs, given.resources) == (["retriever"], {"retriever": "retriever"})
    assert given.build(llm=LLM, retriever=RETRIEVER) is RETRIEVER
    assert repr(REPLACED.build(llm=LLM, retriever=RETRIEVER)).startswith("(ikat.Answer(llm)")
    assert (given.of, given.name) == (REPLACED, "mine")
    of_paper = Method("mine", of_queries, models={"llm": "gpt-4"}, instead={"queries": "llm"})
    assert of_paper.deviations({}) == ["llm: the paper has gpt-4, this run none"]
    assert of_paper.with_arguments({"queries": "file.tsv"}).deviations({}) == []


def test_a_method_is_described_by_its_docstrings_first_part():
    assert (REPLACED.summary, REPLACED.description) == ("Search for queries.",) * 2
    undocumented = Method("x", lambda: LLM)
    assert (undocumented.summary, undocumented.description) == ("", "")


@pytest.mark.parametrize(
    ("settings", "uses_gold", "manual"),
    [
        ({}, False, False),
        ({}, True, True),
        ({"question": "qresolved"}, False, True),
        ({"question": "query"}, False, False),
    ],
)
def test_a_method_on_manual_rewrites_is_manual(settings, uses_gold, manual):
    assert Method("m", of_queries, settings=settings, uses_gold=uses_gold).manual is manual
    assert find("rtg_manual").manual
    assert not find("rtg").manual


def test_statements_are_for_methods_that_ask_a_model():
    raw = find("raw")
    assert raw.build(retriever=RETRIEVER, statements="none") == raw.build(retriever=RETRIEVER)
    assert raw.depth == 1000


def test_a_dense_retriever_is_deep_enough_too():
    def both(retriever, dense, *, depth=5):
        return retriever % depth

    class Finds(StandIn):
        def passages_at_most(self):
            return 4

    entry = Method("both", both)
    assert entry.arguments == ["retriever", "depth"]
    with pytest.raises(UsageError, match="the dense retriever returns 4: give it num_results=5"):
        entry.build(retriever=RETRIEVER, dense=Finds("dense"))
    with pytest.raises(UsageError, match="the retriever returns 4"):
        entry.build(retriever=Finds("retriever"), dense=StandIn("dense"))
    with pytest.raises(UsageError, match="needs dense: give index="):
        entry.build(retriever=RETRIEVER)


def test_expressions_lack_outer_brackets_and_cut_by_percent():
    assert REPLACED.expression == "ikat.Answer(llm) >> retriever % 9"
    assert Method("one", lambda retriever: retriever % 5).expression == "retriever % 5"
    fused = Method("two", lambda retriever: ikat.RRF(retriever % 5, retriever % 7))
    assert fused.expression == "ikat.RRF(retriever % 5, retriever % 7)"


def test_a_recorded_paper_deviates_in_nothing_of_its_model():
    entry = Method("m", of_queries, models={"llm": "openai:gpt-4o-mini"}, recorded="recorded:own")
    assert entry.deviations({"llm": "recorded:own cache=none"}) == []
    told = "llm: the paper has openai:gpt-4o-mini, this run recorded:owner"
    assert entry.deviations({"llm": "recorded:owner"}) == [told]
    assert entry.deviations({}) == ["llm: the paper has openai:gpt-4o-mini, this run none"]


def test_bm25_is_compared_by_the_papers_parameters():
    def entry(**bm25):
        return Method("m", of_queries, models={"retriever": "BM25"}, bm25=bm25)

    assert entry().deviations({"retriever": "BM25 k1=0.9 b=0.4"}) == []
    assert entry(k1=1.2, b=0.75).deviations({"retriever": "BM25 k1=1.2 b=0.75"}) == []
    assert entry(k1=1.2, b=0.75).deviations({"retriever": "BM25 k1=0.9 b=0.4"}) == [
        "retriever: the paper has k1=1.2, this run k1=0.9",
        "retriever: the paper has b=0.75, this run b=0.4",
    ]
    assert entry().deviations({"retriever": "BM25"}) == []
    assert entry().deviations({"retriever": "SPLADE"}) == [
        "retriever: the paper has BM25, this run SPLADE"
    ]


def test_depths_are_compared_with_the_papers_below_theirs():
    entry = Method("m", of_queries, models={"retriever": "BM25"})
    for depth, lines in [(9, 0), (10, 0), (8, 1)]:
        given = StandIn("x") >> pt.RankCutoff(depth)
        told = [line for line in entry.deviations({"retriever": given}) if "passages" in line]
        assert len(told) == lines, depth
    assert Method("m", of_queries).deviations({"retriever": StandIn("x") % 2}) == []


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("openai:azure:gpt-4-0613 temperature=0", "gpt-4"),
        ("gpt-4@2024-08-06", "gpt-4"),
        ("gpt-4-20240806", "gpt-4"),
        ("gpt-4-1306", "gpt-4-1306"),
        ("a T5 rewriter", "t5-rewriter"),
        ("meta-llama/Meta-Llama-3-8B-Instruct", "llama-3-8b-instruct"),
        ("Llama-2-7b-hf", "llama-2-7b"),
        ("A/B/C-D", "c-d"),
        ("k=1", ""),
    ],
)
def test_a_models_key_is_its_bare_name(text, key):
    assert model_key(text) == key


def test_several_models_are_compared_in_their_order():
    assert model_differences("reranker", "x/a,bi:b", "A,b") == []
    assert model_differences("llm", "an LLM, of theirs", "LLM") == []
    assert model_differences("llm", "a temperature=0", "a temperature=0.5")[0].endswith(
        "has temperature=0, this run temperature=0.5"
    )


def test_resources_are_spelt_as_on_the_command_line(tmp_path):
    index = ikat.PassageIndex(tmp_path / "i").index([{"docno": "d1", "text": "tea"}])
    assert in_words(index.bm25(k1=1.2, b=0.75)) == "BM25 k1=1.2 b=0.75"
    assert in_words(index.bm25() % 10) == "BM25 k1=0.9 b=0.4"
    assert in_words(("a", ikat.llm("recorded:sample"))) == "a,recorded:sample"
    assert in_words(ikat.MonoT5("m")) == "monot5:m"
    assert in_words(ikat.rank.Ensemble(("a", "b"))) != "ensemble"
    two = ikat.CrossEncoder("a") >> ikat.CrossEncoder("b")
    assert in_words(two) == repr(two)
    long = ikat.generate.AppendQuery(StandIn("x" * 100))
    assert in_words(long) == repr(long)[:77] + "..."
    assert len(in_words(long)) == 80
    identity = pt.Transformer.identity()
    assert in_words(identity) == " ".join(repr(identity).split())
    assert passages_at_most(None) is None


FILE = """
import pyterrier as pt
import pyterrier_ikat as ikat
from pyterrier_ikat.methods import ad
from os.path import join

def first(retriever):
    return ikat.RawUtterance() >> retriever

def _hidden(retriever):
    return retriever

pipeline = ikat.AllUtterances()
"""


def test_what_a_file_has_is_told_but_private_and_imported(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(FILE)
    assert find_all(str(path)) == []
    assert find(f"{path}:first").name == "first"
    assert find(f"{path}:pipeline").build() == ikat.AllUtterances()
    assert find(f"{path}:pipeline").name == "pipeline"
    with pytest.raises(UsageError, match=f"there is no method 'zzz': {path} has first$"):
        find(f"{path}:zzz")
    (tmp_path / "empty.py").write_text("x = 1\n")
    with pytest.raises(UsageError, match="empty.py has no method$"):
        find(f"{tmp_path / 'empty.py'}:zzz")


def test_names_of_arguments_are_in_order_and_can_be_a_folders():
    entry = find("ad:style=llama,depth=5")
    assert (entry.name, entry.values["style"], entry.depth) == (
        "ad-depth=5,style=llama",
        "llama",
        5,
    )
    assert find("raw:retriever=my file.py:x y").name == "raw-retriever=my-file.py-x-y"
    assert find("raw:retriever=a: :b").name == "raw-retriever=a-b"
    assert find("raw:retriever=a,b").own == {"retriever": "a,b"}
    with pytest.raises(UsageError, match="did you mean mq4cs"):
        find("mq4cx:n=3")


@pytest.mark.parametrize(
    ("statements", "calls"),
    [(0, "1"), (1, "1 + s"), (2, "1 + 2s")],
)
def test_calls_are_told_by_the_number_of_statements(statements, calls):
    def system(llm, retriever):
        queries = ikat.Rewrite(llm)
        for _ in range(statements):
            queries = queries >> PerStatement(llm)
        return queries >> retriever % 5

    [entry] = methods_of(system)
    assert calls_per_turn(entry) == (calls, "1")


class PerStatement(ikat.Rewrite):
    """Asks once for each statement of the persona."""

    def requests(self, frame):
        requests = super().requests(frame)
        repeated = []
        for request, persona in zip(requests, frame["qptkb"], strict=True):
            repeated += [request] * len(persona)
        return repeated

    def typical(self, frame):
        return ["x"] * frame["qptkb"].map(len).sum()

    def plan(self, frame, plan):
        plan.ask(self, frame)
        return frame


def test_files_stand_by_year_and_ours_last():
    names = ["ours", "nii_2024", "baselines", "apcir_2025", "mq4cs_2024", "llm4cs_2023", "chiq_x"]
    assert sorted(names, key=catalogue_position) == [
        *("baselines", "chiq_x", "llm4cs_2023", "mq4cs_2024", "nii_2024", "apcir_2025", "ours"),
    ]


TABLE = PublishedTable(
    key="mine_1",
    paper="p",
    year=2024,
    qrels="q",
    measures=["nDCG@3", "P@5"],
    scores="\nad .5a .25\n  \nptkb_str:shots=1 - 1.0a;b\n\n  theirs .125 -\n",
)


def test_a_published_table_has_its_systems_scores_and_letters():
    assert TABLE.systems == ["ad", "ptkb_str:shots=1"]
    assert TABLE.only_published == ["theirs"]
    frame = TABLE.frame()
    assert frame.index.tolist() == ["ad", "ptkb_str:shots=1", "theirs"]
    assert frame.columns.tolist() == ["nDCG@3", "P@5"]
    assert frame.fillna(-1).values.tolist() == [[0.5, 0.25], [-1, 1.0], [0.125, -1]]
    assert TABLE.letters().values.tolist() == [["a", ""], ["", "a;b"], ["", ""]]


def test_the_catalogue_has_a_row_for_each_method():
    table = methods.catalogue([find("aqd"), find("rtg_manual"), find("ad:depth=7")])
    rows = table.set_index("name")
    assert rows.index.tolist() == ["aqd", "rtg_manual", "ad-depth=7"]
    assert rows["depth"].tolist() == [1000, 50, 7]
    assert rows["manual"].tolist() == [False, True, False]
    assert rows["llm_calls"].tolist() == ["2", "3 + s", "1"]
    assert rows["queries"].tolist() == ["5", "at least s", "1"]
    tables = rows.loc["aqd", "tables"].split(", ")
    assert tables == list(published_scores(find("aqd"))) == list(rows.loc["aqd", "turns"])
    assert rows.loc["ad-depth=7", ["tables", "published"]].tolist() == ["", {}]
    assert "generate_then_retrieve_1" in tables
    assert rows.loc["aqd", "models"] == find("aqd").models


def test_an_unknown_table_names_the_known_ones():
    with pytest.raises(UsageError, match="there is no table 'x': choose one of .*nii_I"):
        methods.published("x")


def test_methods_are_functions_of_their_room():
    assert {"aqd", "raw", "METHODS", "catalogue"} <= set(dir(methods))
    assert dir(methods) == sorted(dir(methods))
    with pytest.raises(AttributeError, match="has no aqdd"):
        _ = methods.aqdd
    assert origin(find("decide")) == "ours"
    assert origin(find("organizers_2023_manual")) == "organisers"


def test_a_chosen_query_file_needs_no_model(tmp_path):
    path = tmp_path / "queries.tsv"
    path.write_text("1_1\ttea\n")
    entry = find("best_of_n").with_arguments({"queries": str(path)})
    built = entry.build(retriever=RETRIEVER, reranker=StandIn("reranker"))
    expected = (
        f"(ikat.generate.GivenQueries({str(path)!r}) >> retriever >> RankCutoff(100) >> reranker)"
    )
    assert repr(built) == expected
    with pytest.raises(UsageError, match="without an llm needs queries=FILE"):
        methods.best_of_n(None, RETRIEVER, StandIn("reranker"))


def test_a_decorated_function_keeps_its_methods_in_order():
    @ikat.method("first", paper="ours")
    @ikat.method("second")
    @ikat.method
    def third(retriever):
        return retriever

    assert [entry.name for entry in methods_of(third)] == ["first", "second", "third"]
    assert [entry.paper for entry in methods_of(third)] == ["ours", "", ""]

    def plain(retriever):
        return retriever

    assert [entry.name for entry in methods_of(plain)] == ["plain"]


def test_a_text_has_the_type_of_the_value_that_a_method_fixes():
    def system(retriever, *, many=None):
        return retriever

    entry = Method("m", system, settings={"many": 5})
    assert entry.with_arguments({"many": "7"}).values == {"many": 7}
    with pytest.raises(UsageError, match="many=word is no value .* whose default is 5"):
        entry.with_arguments({"many": "word"})
    assert entry.depth == 1000


def test_a_variants_depths_are_compared_with_those_of_its_method():
    entry = Method("m", of_queries, models={"retriever": "SPLADE"}, settings={"depth": 50})
    assert entry.deviations({"retriever": "SPLADE"}) == []
    variant = entry.with_arguments({"depth": 7})
    assert variant.deviations({"retriever": "SPLADE"}) == ["depth: the paper has 50, this run 7"]
    assert entry.deviations({"retriever": "BM25 k1=0.9 b=0.4"}) == [
        "retriever: the paper has SPLADE, this run BM25 k1=0.9 b=0.4"
    ]


def test_resources_not_given_leave_the_functions_defaults():
    default = StandIn("default")

    def system(retriever, expander=default, reranker=None):
        return retriever >> expander

    built = Method("m", system).build(retriever=RETRIEVER, expander=None)
    assert list(built) == [RETRIEVER, default]


def test_a_missing_resource_has_the_name_that_a_user_gives():
    def system(llm, retriever, reranker):
        return retriever

    entry = Method("m", system, settings={"llm": "second_llm"})
    with pytest.raises(
        UsageError, match="m needs second_llm and reranker: give second_llm=... and"
    ):
        entry.build(retriever=RETRIEVER)


def test_several_rerankers_are_for_methods_that_take_them():
    def system(retriever, reranker):
        return retriever if isinstance(reranker, list) else retriever >> reranker

    several = {"retriever": RETRIEVER, "reranker": [StandIn("a"), StandIn("b")]}
    assert Method("m", system, several=True).build(**several) is RETRIEVER
    with pytest.raises(UsageError, match="m takes one re-ranker, not 2"):
        Method("m", system).build(**several)


def test_own_prompts_are_those_of_all_operators_of_a_method(tmp_path):
    (tmp_path / "answer.jinja").write_text("{{ question }}")
    built = REPLACED.build(llm=LLM, retriever=RETRIEVER, prompts=tmp_path)
    assert f"prompts={str(tmp_path)!r}" in repr(built)
    assert "prompts" not in repr(REPLACED.build(llm=LLM, retriever=RETRIEVER))


def test_a_callable_without_a_pipeline_is_named_without_line():
    class Makes:
        __name__ = "makes"

        def __call__(self, retriever):
            return 7

    with pytest.raises(UsageError, match="the function of method m returns int: end it"):
        Method("m", Makes()).build(retriever=RETRIEVER)


def test_only_our_own_rerankers_are_named_by_their_kind():
    class Mine(ikat.BiEncoder):
        pass

    assert in_words(Mine("tiny")) == "tiny"
    assert in_words(ikat.BiEncoder("tiny")) == "bi:tiny"
    at_limit = StandIn("x" * 80)
    assert in_words(at_limit) == "x" * 80
    assert in_words(StandIn("x" * 81)) == "x" * 77 + "..."


class Settings:
    """Stands for a retriever with these arguments, over an index of a query model."""

    def __init__(self, query_model=None, **arguments):
        self.index = SimpleNamespace(query_model=query_model)
        self.given = arguments

    def arguments(self):
        return self.given


@pytest.mark.parametrize(
    ("retriever", "settings"),
    [
        (Settings(k1=1.2, b=0.75, num_results=5), ["k1=1.2", "b=0.75"]),
        (Settings(num_results=5), []),
        (Settings("mine", num_results=5), ["query_model=mine"]),
    ],
    ids=["BM25", "vectors", "query model"],
)
def test_settings_of_papers_are_those_of_bm25_and_models(retriever, settings):
    assert _deciding_settings(retriever) == settings


def test_a_text_may_be_of_any_annotated_type():
    assert find("cfda_auto:threshold=none").values["threshold"] is None
    assert find("cfda_auto:threshold=1").values["threshold"] == 1
    assert find("rtg:respond=false").values["respond"] is False
    assert find("apcir:rerank_depth=10").values["rerank_depth"] == 10
    for text in ("cfda_auto:threshold=high", "cfda_auto:threshold=true", "rtg:depth=true"):
        with pytest.raises(UsageError, match="is no value for this argument, whose default is"):
            find(text)
    with pytest.raises(UsageError, match="has no argument 'dense': choose one of|did you mean"):
        find("rewrite_answer_hybrid").with_arguments({"dense": "x"})


def test_a_fixed_resource_is_no_other_resource():
    fixed = find("aqd").with_arguments({"llm": "recorded:sample", "second_llm": "none"})
    assert fixed.resources == {"llm": "llm", "retriever": "retriever", "reranker": "reranker"}
    assert REPLACED.with_arguments({"queries": ""}).needs == ["llm", "retriever"]
    assert (find("raw").takes, find("raw:reranker=none").takes) == (["reranker"], [])
    named = find("raw").with_arguments({"reranker": "tiny"})
    built = named.build(retriever=RETRIEVER, reranker=StandIn("scorer"))
    assert repr(built).endswith(" >> scorer)")


def test_every_difference_from_the_paper_is_a_line():
    models = {"llm": "gpt-4", "retriever": "BM25", "reranker": "MonoT5"}
    entry = Method("m", methods.rali, models=models, recorded="recorded:own")
    given = {"llm": "recorded:own", "retriever": "SPLADE", "reranker": None}
    differences = [
        "retriever: the paper has BM25, this run SPLADE",
        "reranker: the paper has MonoT5, this run none",
    ]
    assert entry.deviations(given) == differences
    fewer = entry.with_arguments({"depth": 9, "rerank_depth": 5, "respond": False})
    retriever = StandIn("SPLADE") % 8
    assert fewer.deviations({**given, "retriever": retriever})[2:] == [
        "retriever: the paper takes 9 passages per query, this run 8",
        "depth: the paper has 1000, this run 9",
        "rerank_depth: the paper has 50, this run 5",
    ]


def test_chosen_statements_have_the_methods_model_and_prompts(tmp_path):
    (tmp_path / "statements_ids.jinja").write_text("{{ question }}")
    entry = Method("m", of_queries, settings={"llm": "second_llm"})
    built = entry.build(
        second_llm=StandIn("second"), retriever=RETRIEVER, prompts=tmp_path, statements="chosen"
    )
    assert repr(built[0]) == f"ikat.SelectStatements(second, prompts={str(tmp_path)!r})"


def test_a_dense_retriever_alone_is_deep_enough_too():
    class Finds(StandIn):
        def passages_at_most(self):
            return 4

    entry = Method("dense", lambda dense, *, depth=5: dense % depth)
    with pytest.raises(UsageError, match="the dense retriever returns 4"):
        entry.build(dense=Finds("dense"))


def test_a_function_without_a_pipeline_is_named_by_its_line():
    def forgets(retriever):
        pass

    line = forgets.__code__.co_firstlineno
    with pytest.raises(UsageError, match=rf"test_catalogue_parts.py, line {line}\) returns None"):
        Method("m", forgets).build(retriever=RETRIEVER)


def test_an_example_is_no_part_of_a_description():
    def shown(retriever):
        """Search.

        For all. Twice.

        Example:
            >>> shown()
        """

    entry = Method("m", shown)
    assert (entry.summary, entry.description) == ("Search.", "Search.\n\nFor all. Twice.")
    model = ikat.llm("recorded:sample on_error=fallback")
    assert in_words(model) == "recorded:sample on_error=fallback"


TWO = """
import pyterrier_ikat as ikat

@ikat.method("one")
@ikat.method("two", settings={"depth": 3})
def system(retriever, *, depth=10):
    return ikat.RawUtterance() >> retriever % depth
"""


def test_arguments_are_those_of_all_methods_of_a_file(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(TWO)
    entries = find_all(f"{path}:depth=7")
    assert [(entry.name, entry.depth) for entry in entries] == [
        ("one-depth=7", 7),
        ("two-depth=7", 7),
    ]
    assert find(f"{path}:system").name == "one"
    assert find(f"{path}:two:depth=4").depth == 4
    with pytest.raises(UsageError, match="--llm 'MODEL temperature=0'"):
        find("temperature=0")
    with pytest.raises(UsageError, match=r"did you mean aqd_a or aqd\?"):
        find("aqd_b")


def test_the_catalogue_has_every_table_and_its_turns():
    [row] = methods.catalogue([find("aqd")]).to_dict("records")
    reported = {key for key, table in methods.TABLES.items() if "aqd" in table.systems}
    assert len(reported) > 1
    assert set(row["published"]) == reported
    for key in reported:
        printed = methods.published(key).loc["aqd"].tolist()
        assert list(row["published"][key].values()) == pytest.approx(printed, nan_ok=True)
    assert row["turns"] == {key: methods.TABLES[key].turns for key in row["tables"].split(", ")}
    [hybrid] = methods.catalogue([find("rewrite_answer_hybrid")]).to_dict("records")
    assert (hybrid["llm_calls"], hybrid["queries"]) == ("1", "2")
    assert methods.catalogue([]).columns.tolist() == list(row)
    with pytest.raises(UsageError, match="there is no table 'nii_2024'"):
        methods.published("nii_2024")


def test_rows_of_others_stand_where_the_paper_has_them():
    table = replace(TABLE, scores="theirs .125 .5\nad .5a .25\nmore - 1.0\n")
    assert table.frame()["P@5"].to_dict() == {"theirs": 0.5, "ad": 0.25, "more": 1.0}
    assert table.letters()["nDCG@3"].to_dict() == {"theirs": "", "ad": "a", "more": ""}
    assert (table.systems, table.only_published) == (["ad"], ["theirs", "more"])
