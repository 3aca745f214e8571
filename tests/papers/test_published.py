"""Papers' tables, figures and matrices as values, and a user's resources for their systems."""

import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest
from click.testing import CliRunner
from papers.made_tables import judgements, table_of

from pyterrier_ikat.cli import main
from pyterrier_ikat.errors import DataError, UsageError
from pyterrier_ikat.methods import METHODS, find
from pyterrier_ikat.methods.catalogue import NIST, PublishedTable
from pyterrier_ikat.papers import published
from pyterrier_ikat.papers.paper_scores import our_measures
from pyterrier_ikat.papers.published import (
    GPT_35,
    PAPERS,
    STATEMENTS_NIST,
    STATEMENTS_ORGANISERS,
    Figure,
    Listing,
    Matrix,
    Prompts,
    Row,
    find_paper,
    find_table,
    keys_of,
    known_keys,
    options_of,
    read_resources,
    resource_differences,
    texts_of,
)
from pyterrier_ikat.papers.reproduction import Reproduction

TABLE = PublishedTable(
    key="small",
    paper="A paper, Table 12",
    year=2023,
    qrels="of NIST",
    measures=["nDCG", "Judged@10"],
    scores="raw .5000 10\naqd .2500 5.50\nad - 9\n",
    turns=4,
)
TEXTS = {
    "generate_then_retrieve": (
        "000_e144d3308dcc06e5.txt",
        {"1": r"^Table 1: ", "3": r"^Table 3: "},
    ),
    "irlab_2024": ("001_3deb9da0bd4aa2ec.txt", {"1": r"^Runs\tLLM"}),
    "infosense_2024": (
        "003_7e71a04683c003af.txt",
        {
            "2": r"^Group\tRun ID\tnDCG@3",
            "3": r"^Group\tRun ID\tPrecision",
            "4": r"^Group\tRun ID\tBEM",
        },
    ),
    "nii_2024": (
        "004_737960f3524f2b36.txt",
        {"I": r"^TABLE I:", "II": r"^TABLE II:", "III": r"^TABLE III:", "IV": r"^TABLE IV:"},
    ),
}


def test_a_matrix_has_all_labels_or_two_sides_of_a_threshold():
    graded = Matrix(2023, "GPT", [[1, 2, 3, 4, 5], *[[0] * 5] * 4], "said")
    frame = graded.frame()
    assert frame.columns.tolist() == ["label", "0", "1", "2", "3", "4"]
    assert frame["label"].tolist() == ["0", "1", "2", "3", "4"]
    assert frame.iloc[0].tolist() == ["0", 1, 2, 3, 4, 5]
    assert frame["0"].tolist() == [1, 0, 0, 0, 0]
    counts = pd.DataFrame([[7, 1], [2, 3]], index=[-1, 2], columns=[-1, 2])
    other = graded.frame(counts)
    assert other["label"].tolist() == ["-1", "0", "1", "2", "3", "4"]
    assert other["-1"].tolist() == [7, 0, 0, 2, 0, 0]
    assert other["2"].tolist() == [1, 0, 0, 3, 0, 0]
    binary = Matrix(2023, "GPT", [[5, 1], [2, 3]], "said", 2)
    assert binary.frame().values.tolist() == [["< 2", 5, 1], [">= 2", 2, 3]]
    assert binary.frame().columns.tolist() == ["label", "< 2", ">= 2"]
    both = pd.DataFrame([[9, 8], [7, 6]], index=[False, True], columns=[False, True])
    assert binary.frame(both).values.tolist() == [["< 2", 9, 8], [">= 2", 7, 6]]


def test_a_figure_is_titled_by_paper_and_has_printed_points():
    figure = Figure("judged", TABLE, ["ad", "raw"], "Judged@10", "Figure 3")
    assert figure.title == (
        "A paper, Figure 3: Judged@10 by system (the paper: iKAT 2023, passages, judged by NIST)"
    )
    assert figure.points == {"ad": 9.0, "raw": 10.0}
    by_depth = replace(figure, kind="depth", measure="nDCG")
    assert "Figure 3: nDCG by depth" in by_depth.title
    assert by_depth.points == {}
    assert replace(figure, measure="P@5").points == {}
    untitled = replace(figure, part=replace(TABLE, paper="A paper"))
    assert untitled.title.startswith("A paper, Figure 3")


def test_a_papers_parts_are_its_tables_of_scores_in_order():
    numbers = list(find_paper("generate_then_retrieve").tables)
    assert numbers == sorted(numbers, key=int)
    assert list(find_paper("nii_2024").tables) == ["I", "II", "III", "IV"]
    paper = find_paper("generate_then_retrieve")
    assert all(isinstance(part, PublishedTable) for part in paper.parts)
    kinds = set()
    for each in published.PAPERS.values():
        kinds.update(map(type, each.tables.values()))
    assert kinds == {tuple, Matrix, Listing, Prompts}
    names = {name: figure.name for name, figure in paper.figures.items()}
    assert names["figure-2"] == "Figure 2"
    assert find_table("nii_2024", "1") is find_table("nii_2024", "I")
    assert Listing(["a"], ["raw; x", "aqd; y"]).systems == ["raw", "aqd"]


def test_each_papers_parts_are_those_of_all_its_tables():
    for paper in published.PAPERS.values():
        parts = []
        for table in paper.tables.values():
            if isinstance(table, tuple):
                parts += table
        assert paper.parts == parts
    assert len(find_table("infosense_2024", "3")) == 2
    with pytest.raises(UsageError, match="nii_2024 has no table '9': choose one of I, II"):
        find_table("nii_2024", "9")


def test_every_row_has_a_method_and_every_figure_a_table_system():
    for paper in PAPERS.values():
        for part in paper.parts:
            for name in part.systems:
                assert find(name).of is None or ":" in name
            for block in part.blocks:
                assert set(block) <= set(part.systems)
            assert part.about == "responses" or our_measures(part)
        for figure in paper.figures.values():
            assert isinstance(figure, Figure)
            assert set(figure.systems) <= set(figure.part.systems)


def test_names_of_papers_tables_and_systems_are_checked():
    with pytest.raises(
        UsageError, match="there is no paper 'nii': choose one of generate_then_retrieve"
    ):
        find_paper("nii")
    with pytest.raises(UsageError, match="nii_2024 has no table '9': choose one of I, II"):
        find_table("nii_2024", "9")
    assert find_table("nii_2024", "4") is find_table("nii_2024", "IV")
    with pytest.raises(UsageError, match="has a system 'aqd'"):
        Reproduction("nii_2024", {}, systems=["aqd"])


def as_in_the_paper(papers, paper, number):
    """The rows of numbers of a table, in the order of the paper's text."""
    file, starts = TEXTS[paper]
    lines = (papers / file).read_text(encoding="utf-8").splitlines()
    [start, *_] = [place for place, line in enumerate(lines) if re.search(starts[number], line)]
    rows = []
    for line in lines[start + 1 :]:
        found = []
        for cell in line.split("\t")[1:]:
            plain = re.sub(r"<b>|</b>", "", cell)
            plain = re.sub(r"\^.*|<[^>]*>.*|[$*\s]", "", plain)
            if re.fullmatch(r"\d*\.\d+", plain):
                found.append(float(plain))
        if len(found) > 2:
            rows.append(found)
        elif rows and line.startswith(("Table", "TABLE")):
            break
    return rows


@pytest.fixture
def papers(shared):
    return shared / "papers"


@pytest.mark.parametrize(
    ("paper", "number"),
    [
        ("generate_then_retrieve", "1"),
        ("generate_then_retrieve", "3"),
        ("irlab_2024", "1"),
        ("infosense_2024", "2"),
        ("infosense_2024", "3"),
        ("infosense_2024", "4"),
        ("nii_2024", "I"),
        ("nii_2024", "II"),
        ("nii_2024", "III"),
        ("nii_2024", "IV"),
    ],
)
def test_what_is_printed_as_published_is_in_the_papers_text(papers, paper, number):
    printed = []
    for part in find_table(paper, number):
        frame = table_of(part, judgements(3, part.judgements, part.year)).frame
        assert set(frame["scores"]) == {"published"}
        printed += frame[list(part.measures)].values.tolist()
    assert sorted(printed) == sorted(as_in_the_paper(papers, paper, number)[: len(printed)])


# Resources of a user


def test_keys_are_those_of_the_papers_models():
    assert keys_of(find("ad")) == {
        "llm": ("gpt-4",),
        "retriever": ("bm25",),
        "reranker": ("ms-marco-minilm-l-6-v2",),
    }
    entry = replace(
        find("ad"),
        models={"llm": "GPT-4o,GPT-3.5", "retriever": "an unnamed engine", "reranker": "A, B,C"},
    )
    assert keys_of(entry) == {
        "llm": ("gpt-4o", "gpt-3.5"),
        "retriever": ("bm25",),
        "reranker": ("a", "c"),
    }
    assert keys_of(replace(find("ad"), models={})) == {"retriever": ("bm25",)}
    known = known_keys()
    assert known == sorted(set(known))
    assert "" not in known
    assert {"splade", "bm25", "bem", "nuggets", "prompts", "gpt-3.5-turbo", "splade-model"} <= set(
        known
    )


def test_resources_become_options_or_are_missing():
    ad = find("ad")
    full = {"gpt-4": "openai:gpt-4", "bm25": "my.index", "ms-marco-minilm-l-6-v2": "bi:x"}
    assert options_of(ad, full) == (
        {"llm": "openai:gpt-4", "index": "my.index", "reranker": "bi:x"},
        [],
    )
    assert options_of(ad, {}) == ({}, ["gpt-4", "bm25", "ms-marco-minilm-l-6-v2"])
    without = {**full, "ms-marco-minilm-l-6-v2": " NONE "}
    assert options_of(ad, without) == ({"llm": "openai:gpt-4", "index": "my.index"}, [])
    assert options_of(ad, {**full, "gpt-4": "none"})[1] == ["gpt-4"]
    assert options_of(ad, {**full, "bm25": "none"})[1] == ["bm25"]
    several = replace(ad, models={**ad.models, "reranker": "A,B"})
    both = options_of(several, {**full, "a": "one", "b": "two"})
    assert both[0]["reranker"] == "one,two"
    assert options_of(several, {**full, "a": "one"}) == (
        {"llm": "openai:gpt-4", "index": "my.index"},
        [],
    )
    needs_one = find("aqd_a")
    assert options_of(needs_one, without)[1] == ["ms-marco-minilm-l-6-v2"]
    unnamed = replace(ad, models={**ad.models, "llm": "an unnamed LLM"})
    assert options_of(unnamed, full) == ({"index": "my.index", "reranker": "bi:x"}, [])


def test_a_retriever_is_named_where_an_index_has_several(monkeypatch):
    monkeypatch.setattr(published, "Index", lambda path: SimpleNamespace(kinds=path.split("+")))
    ad = find("ad")
    resources = {"gpt-4": "m", "bm25": "bm25+splade", "ms-marco-minilm-l-6-v2": "r"}
    resources["splade-model"] = "mine"
    assert options_of(ad, resources)[0]["retriever"] == "bm25"
    assert "splade_model" not in options_of(ad, resources)[0]
    assert "retriever" not in options_of(ad, {**resources, "bm25": "bm25"})[0]
    splade = replace(ad, models={**ad.models, "retriever": "SPLADE"})
    found, missing = options_of(splade, {**resources, "splade": "bm25+splade"})
    assert (found["retriever"], found["splade_model"], missing) == ("splade", "mine", [])


def test_differences_from_the_paper_show_no_address_or_key():
    told = resource_differences(find("ad"), {"llm": "openai:mine base_url=http://x api_key=y a=1"})
    text = " ".join(told)
    assert "mine" in text
    assert "http" not in text
    assert "api_key" not in text
    assert "a=1" in text


def test_rows_have_the_folders_of_their_repeats():
    row = Row(find("ad"), {"llm": "m"}, written="ad:x=1")
    assert (row.name, row.folders(3)) == ("ad:x=1", ["ad", "ad.repeat-2", "ad.repeat-3"])
    assert Row(find("raw"), {"index": "i"}).folders(3) == ["raw"]
    for option in ("second_llm", "responders"):
        assert len(Row(find("raw"), {option: "m"}).folders(2)) == 2
    assert Row(find("raw"), {}).name == "raw"
    assert Row(find("ad"), {}).needs == ["'gpt-4'", "'bm25'", "'ms-marco-minilm-l-6-v2'"]
    assert Row(find("ad"), {}).reason == ""
    lacking = Row(find("ad"), {}, ("gpt-4", "bm25"))
    assert lacking.reason == "the resources lack 'gpt-4', 'bm25'"


def test_resources_are_read_in_any_letter_case(tmp_path, monkeypatch):
    path = tmp_path / "mine.toml"
    path.write_text('"GPT-4" = "openai:gpt-4"\nbm25 = "my.index"\nprompts = "own"\n')
    wanted = {"gpt-4": "openai:gpt-4", "bm25": "my.index", "prompts": "own"}
    assert read_resources(path) == wanted
    monkeypatch.setenv("HOME", str(tmp_path))
    assert read_resources("~/mine.toml") == wanted
    sample = read_resources("sample")
    assert set(sample.values()) == {"sample"}
    assert "bm25" in sample
    assert "prompts" not in sample
    with pytest.raises(DataError, match="nowhere.toml is not a TOML file: .*--resources sample"):
        read_resources(tmp_path / "nowhere.toml")
    for text, told in (("zzz = 'x'", "has a resource 'zzz': choose one of"), ("bm25 = 1", "is 1")):
        path.write_text(text)
        with pytest.raises(UsageError, match=told):
            read_resources(path)


def test_texts_are_those_of_a_given_index():
    assert texts_of(None) is None
    index = SimpleNamespace(text_loader=lambda: "loader")
    assert texts_of(index) == "loader"


def test_what_is_missing_is_told_for_each_kind_of_judgement():
    assert set(published.MISSING) == {
        NIST,
        GPT_35,
        STATEMENTS_NIST,
        STATEMENTS_ORGANISERS,
        published.RESPONSES,
    }


def test_every_model_of_a_list_has_a_key_that_may_lack():
    entry = find("wghtdrerank_2")
    minilm, distilbert = "all-minilm-l12-v2", "msmarco-distilbert-base-v4"
    assert {minilm, distilbert} <= set(known_keys())
    given = {"llama-3.1-8b-instruct": "m", "bm25": "i"}
    assert options_of(entry, given) == ({"llm": "m", "index": "i"}, [minilm, distilbert])
    assert options_of(entry, {**given, minilm: "x"})[1] == [distilbert]
    assert options_of(entry, {**given, minilm: "x", distilbert: "y"})[0]["reranker"] == "x,y"
    other = replace(entry, models={**entry.models, "reranker": "Z,A"})
    assert options_of(other, {**given, "a": "of A", "z": "of Z"})[0]["reranker"] == "of Z,of A"


def test_an_unnamed_retriever_is_bm25_and_needed():
    convgqr = find("convgqr")
    assert convgqr.models["retriever"].startswith("an unnamed")
    rewriters = dict.fromkeys(keys_of(convgqr)["rewriter"] + keys_of(convgqr)["expander"], "x")
    assert options_of(convgqr, rewriters)[1] == ["bm25"]
    lines = resource_differences(convgqr, {"rewriter": "x", "expander": "y", "index": "i"})
    assert [line for line in lines if line.startswith("retriever")] == [
        "retriever: the paper has an unnamed one, this run BM25"
    ]


def test_no_model_of_a_run_is_shown_with_its_address():
    gtr = find("gtr")
    mine = "openai:mine base_url=http://x api_key_env=Y temperature=1"
    lines = resource_differences(gtr, {"llm": mine, "second_llm": mine, "reranker": "r"})
    assert [line for line in lines if "llm" in line] == [
        "llm: the paper has gpt-4o, this run openai:mine temperature=1",
        "second_llm: the paper has claude-3-opus-20240229, this run openai:mine temperature=1",
    ]


def test_values_of_resources_keep_their_letter_case(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('"GPT-4" = "openai:MyModel"\n')
    assert read_resources(path) == {"gpt-4": "openai:MyModel"}


def test_texts_are_found_by_the_folder_of_an_index(sample_index):
    for folder in (sample_index, Path(sample_index)):
        found = texts_of(folder)(pd.DataFrame({"docno": ["sample-walk-001:0"]}))
        assert found["text"].str.len().tolist()[0] > 10


def test_a_model_that_a_paper_does_not_name_can_be_given():
    entry = find("baseline_auto_t5_bm25_minilm")
    assert keys_of(entry)["llm"] == ("unnamed-llm",)
    given = dict.fromkeys(["t5-rewriter", "ms-marco-minilm-l-6-v2"], "x") | {"bm25": "i"}
    assert options_of(entry, given)[0] == {"rewriter": "x", "reranker": "x", "index": "i"}
    assert options_of(entry, {**given, "unnamed-llm": "m"})[0]["llm"] == "m"
    judge = {"gpt-4o-mini": "m", "the-reference-passages": "i", "glm-4.6": "none"}
    lacking = options_of(find("raguteam"), judge)[1]
    assert lacking == list(keys_of(find("raguteam"))["responders"])


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ('"gtp-4" = "openai:gpt-4"', "no paper has a resource 'gtp-4': did you mean gpt-4"),
        ('"gpt-4" = 3', "'gpt-4' is 3: give a text"),
        ('"bm25" = " "', "'bm25' is ' '"),
        ('"bm25" = full.index', "is not a TOML file: .*line 1"),
        ('"bm25" = "a"\n"bm25" = "b"', "is not a TOML file: Cannot overwrite a value"),
        ('"bm25" = "a"\n"BM25" = "b"', "'BM25' is there twice, in other letter case"),
    ],
)
def test_a_bad_resources_file_gets_a_line_that_names_the_key(tmp_path, text, error):
    path = tmp_path / "resources.toml"
    path.write_text(text)
    found = CliRunner().invoke(main, ["paper", "nii_2024", "I", "--resources", str(path)])
    assert found.exit_code == 2
    assert re.search(error, found.output), found.output
    assert len(found.output.strip().splitlines()) == 1
    with pytest.raises((UsageError, DataError)):
        read_resources(path)


def test_a_row_lacking_its_optional_reranker_is_marked():
    given = {"gpt-4": "openai:gpt-4", "bm25": "i", "ms-marco-minilm-l-6-v2": "none"}
    assert options_of(METHODS["ad"], given) == ({"llm": "openai:gpt-4", "index": "i"}, [])
    assert options_of(METHODS["aqd_a"], given)[1] == [
        "ms-marco-minilm-l-6-v2"
    ]  # its method is to re-rank
    [row] = Reproduction("generate_then_retrieve", given, systems=["ad"]).rows(
        find_table("generate_then_retrieve", "3")[0]
    )
    assert row.notes == (
        "reranker: the paper has cross-encoder/ms-marco-MiniLM-L-6-v2, this run none",
    )
