"""The catalogue: methods by their files, calls per turn, published scores."""

import inspect
import json
from dataclasses import replace

import pytest
from methods.defined import system

import pyterrier_ikat as ikat
from pyterrier_ikat import methods
from pyterrier_ikat.errors import UsageError
from pyterrier_ikat.methods import METHODS, TABLES, PublishedTable, find, methods_of, published
from pyterrier_ikat.methods.catalogue import (
    calls_per_turn,
    catalogue_position,
    origin,
    published_scores,
)
from pyterrier_ikat.papers import PAPERS

PUBLISHED = {
    "generate_then_retrieve_1": [
        ("aqd_a", "nDCG@5", 0.6826),
        ("infosense_2023", "Recall@20", 0.0919),
    ],
    "generate_then_retrieve_3": [("aqd_a", "Recall", 0.4914), ("human_qr", "mAP", 0.1476)],
    "irlab_1": [("gpt4qr_bm25_qd1", "MRR", 0.8476), ("humanqr_ensemble", "P@20", 0.5922)],
    "infosense_2": [
        ("wghtdrerank_2", "Recall", 0.5578),
        ("baseline_auto_t5_bm25_minilm", "P@20", 0.2707),
    ],
    "infosense_3_nist": [
        ("short_long_2", "Recall", 0.4750),
        ("baseline_auto_gpt4_bm25_minilm", "F1", 0.4015),
    ],
    "infosense_3_organizers": [
        ("wghtdrerank_1", "Precision", 0.2204),
        ("baseline_auto_t5_bm25_minilm", "Recall", 0.5785),
    ],
    "infosense_4": [
        ("short_long_3", "Groundedness", 0.0968),
        ("baseline_auto_gpt4o_splade_minilm", "LLMeval GPT-4o", 0.7097),
    ],
    "nii_I": [("rtg", "nDCG@5", 0.2686), ("gtr", "Recall", 0.4781)],
    "nii_II": [("gtr_gpt", "P@3", 0.4830), ("organizers_2023_auto", "nDCG@3", 0.3434)],
    "nii_III": [("rtg_manual", "nDCG", 0.5066), ("gtr", "nDCG@5", 0.4190)],
    "nii_IV": [("rtg", "P@5", 0.3649), ("gtr", "Recall@5", 0.5187)],
    "disco_card": [
        ("disco", "Recall@100", 0.147),
        ("disco", "MRR", 0.192),
        ("disco", "nDCG@3", 0.125),
    ],
    "ptkb_on_2023": [("ptkb_sar", "nDCG@3", 0.1854), ("ptkb_human_queries", "Recall", 0.4799)],
    "ptkb_on_2024": [("ptkb_none_queries", "MRR", 0.6835), ("ptkb_sar", "mAP", 0.1434)],
    "cfda_on_2023": [("best_of_n", "MRR(rel=2)", 0.3134)],  # mrr_1000 0.31336
    "cfda_on_2024": [("best_of_n", "nDCG@5", 0.4428)],  # ndcg_cut_5 0.44281
    "baselines_2025_on_2023": [
        ("baseline_2025_bm25", "nDCG@10", 0.1255),
        ("baseline_2025_human_splade", "MRR(rel=2)", 0.3592),
    ],
    "baselines_2025_on_2024": [("baseline_2025_splade_deberta", "nDCG@10", 0.3876)],
}
"""Copied from the papers' tables and the authors' files by hand."""


def test_every_method_of_the_package_says_where_it_comes_from():
    lacking = [entry.name for entry in METHODS.values() if not entry.paper]
    assert not lacking, (
        f"add paper=... to @method of {', '.join(lacking)}: the paper, or 'ours: ...'"
    )


def test_every_system_can_be_called_by_name_in_the_methods_room():
    """A file of the same name would hide the function."""
    for entry in METHODS.values():
        assert inspect.unwrap(getattr(ikat.methods, entry.system.__name__)) is entry.system


def test_methods_are_functions_of_their_room():
    assert {"aqd", "raw", "METHODS", "catalogue"} <= set(dir(methods))
    assert dir(methods) == sorted(dir(methods))
    with pytest.raises(AttributeError, match="has no aqdd"):
        _ = methods.aqdd
    assert origin(find("decide")) == "ours"
    assert origin(find("organizers_2023_manual")) == "organisers"


def test_every_method_can_be_built_on_what_it_needs():
    for entry in METHODS.values():
        assert set(entry.needs).isdisjoint(entry.takes)
        assert entry.expression


@pytest.mark.parametrize(
    ("paper", "whose"),
    [
        ("organisers' baseline", "organisers"),
        ("ours: a gate", "ours"),
        ("baseline without an LLM", "ours"),
        ("IRLab@iKAT24", "papers"),
    ],
)
def test_whose_method_it_is_stands_in_its_paper(paper, whose):
    assert origin(ikat.methods.Method("x", system, paper, settings={"depth": 5})) == whose


def test_files_stand_by_year_and_ours_last():
    names = ["ours", "nii_2024", "baselines", "apcir_2025", "mq4cs_2024", "llm4cs_2023", "chiq_x"]
    assert sorted(names, key=catalogue_position) == [
        *("baselines", "chiq_x", "llm4cs_2023", "mq4cs_2024", "nii_2024", "apcir_2025", "ours"),
    ]


# Calls and queries


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


def test_calls_and_queries_by_statement_count_are_in_one_plan():
    built = []

    def system(llm, retriever):
        built.append(llm)
        queries = (
            ikat.generate.Summarise(llm)
            >> ikat.SelectStatements(llm, form="scores")
            >> ikat.generate.StatementQueries(llm)
            >> ikat.ExplodeQueries()
        )
        return queries >> retriever % 50

    [entry] = methods_of(system)
    assert calls_per_turn(entry) == (
        "2 + s",
        "at least s",
    )  # a summary and a choice for each turn, queries for each chosen statement
    assert len(built) == 1


# Published tables


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


def test_rows_of_others_stand_where_the_paper_has_them():
    table = replace(TABLE, scores="theirs .125 .5\nad .5a .25\nmore - 1.0\n")
    assert table.frame()["P@5"].to_dict() == {"theirs": 0.5, "ad": 0.25, "more": 1.0}
    assert table.letters()["nDCG@3"].to_dict() == {"theirs": "", "ad": "a", "more": ""}
    assert (table.systems, table.only_published) == (["ad"], ["theirs", "more"])


@pytest.mark.parametrize("table", PUBLISHED)
def test_a_method_has_the_published_scores_of_its_row(table):
    for name, measure, score in PUBLISHED[table]:
        if name in TABLES[table].systems:
            assert published_scores(find(name))[table][measure] == score


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


def test_an_unknown_table_names_the_known_ones():
    with pytest.raises(UsageError, match="there is no table 'x': choose one of .*nii_I"):
        methods.published("x")


def test_figures_of_each_table_are_as_printed():
    assert set(PUBLISHED) == set(TABLES)
    for table, figures in PUBLISHED.items():
        for name, measure, figure in figures:
            assert published(table).loc[name, measure] == figure, (table, name, measure)


def test_published_means_and_deviations_are_those_of_the_files(shared):
    files = {
        "ptkb_str": "LLM",
        "ptkb_sar": "SAR",
        "ptkb_none": "None",
        "ptkb_all": "All",
        "ptkb_human": "human",
    }
    keys = ("NDCG@3", "NDCG@5", "MRR", "Precision@20", "Recall@20", "Recall@1000", "MAP")
    for row in PAPERS["ptkb_2024"].tables["deviations"].rows:
        name, shots, *cells = row.split("; ")
        if name == "ptkb_statement":
            continue  # its file isn't among the copies
        tail = "" if name == "ptkb_sar" else "_prompt1" if name.endswith("_queries") else "_prompt2"
        path = (
            shared
            / "outputs/personalized-cir"
            / f"aggregated_bm25_batch_{files[name.removesuffix('_queries')]}_{shots}shot{tail}.json"
        )
        [found] = json.loads(path.read_text()).values()
        of_runs = [found["full_set"][key] for key in keys]
        written = []
        for one in of_runs:
            cell = f"{one['mean'] / 100:.4f}±{one['std'] / 100:.4f}"
            written.append(cell.replace("0.", "."))
        assert cells == written, name
        if shots == "0":
            assert list(published("ptkb_on_2023").loc[name]) == [
                round(one["mean"] / 100, 4) for one in of_runs
            ]
