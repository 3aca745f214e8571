"""`ikat paper PAPER TABLE` without resources: the tables as published."""

import pytest
from click.testing import CliRunner
from papers.made_tables import printed

import pyterrier_ikat as ikat
from pyterrier_ikat.cli import main
from pyterrier_ikat.errors import UsageError
from pyterrier_ikat.papers.published import PAPERS
from pyterrier_ikat.papers.table import published_tables

TABLES = []
for name, paper in PAPERS.items():
    TABLES += [(name, number) for number in paper.tables]


@pytest.mark.parametrize(("name", "number"), TABLES)
def test_every_numbered_table_is_printed(name, number):
    for table in published_tables(name, number):
        assert len(table.frame)
        assert table.notes
        assert table.written()


def test_scores_are_printed_as_text_and_given_as_a_frame():
    # The line of the paper: "RtG 0.5244 0.3649 0.5338".
    assert "rtg          .5244  .3649     .5338" in printed("nii_2024", "4")
    assert printed("nii_2024", "4") == printed("nii_2024", "IV")
    [table] = published_tables("nii_2024", "IV")
    assert table.frame.set_index("system").loc["rtg", ["nDCG@5", "P@5", "Recall@5"]].tolist() == [
        0.5244,
        0.3649,
        0.5338,
    ]
    nist, organisers = published_tables("infosense_2024", "3")
    assert "NIST's PTKB" in nist.frame["notes"][0]
    assert "the organisers' PTKB" in organisers.frame["notes"][0]


@pytest.mark.parametrize(
    ("number", "cell"), [("2", "12885   450"), ("4", "8743  227  112   39   9")]
)
def test_both_tables_of_labels_say_that_text_and_counts_differ(number, cell):
    # 8743 + 227 + 3515 + 400 = 12885 and 112 + 39 + 9 + 209 + 70 + 11 = 450; (12885 + 2203) / 22684
    # = .6651
    said = " ".join(printed("generate_then_retrieve", number).split())
    assert "66.84%" in said
    assert "66.51%" in said
    assert " ".join(cell.split()) in said


def test_the_runs_of_infosense_are_printed_as_in_its_table(shared):
    text = (shared / "papers" / "003_7e71a04683c003af.txt").read_text(encoding="utf-8")
    [table] = published_tables("infosense_2024", "1")
    for row in table.frame.itertuples(index=False):
        assert "\t".join(row) in text
    assert "short_long_3" in printed("infosense_2024", "1", "--resources", "sample")


def test_a_table_of_prompts_prints_our_templates():
    said = printed("generate_then_retrieve", "5")
    assert "answer.jinja" in said
    assert "queries_given_answer.jinja" in said
    assert "worded by us" in said


def test_a_figure_without_numbers_and_a_plan_need_resources():
    assert "monot5               10.00" in printed("generate_then_retrieve", "figure-2")
    with pytest.raises(UsageError, match="prints no numbers of figure-4: give --resources FILE"):
        published_tables("generate_then_retrieve", "figure-4")
    found = CliRunner().invoke(main, ["paper", "nii_2024", "I", "--plan"])
    assert (
        "nii_I needs models and indexes, because its completions are not public: give "
        "--resources FILE" in found.output
    )


def test_a_table_is_followed_by_each_rows_needs_and_decisions():
    said = " ".join(printed("nii_2024", "4").split())
    assert "rtg: needs 'gpt-4', 'bm25', 'ms-marco-minilm-l-12-v2'" in said
    for what, why in PAPERS["nii_2024"].deviations:
        assert " ".join(f"- {what} {why}".split()) in said


def shown_rows(table):
    """The rows of a table as they are printed, marks included."""
    columns = []
    for column in table.columns:
        columns.append([(cell.text + cell.mark).strip() for cell in column.cells])
    return zip(*columns, strict=True)


def test_the_letters_of_table_1_are_as_printed():
    [shown] = published_tables("generate_then_retrieve", "1")
    rows = {name: cells for name, *cells in shown_rows(shown)}
    assert rows["(a) qd"] == [".5982 cbd", ".3839 cbd", ".6143 b", ".1259 b", ".3275 d", ".1942 d"]
    assert rows["(d) aqd_a"] == [
        ".6826 ab;n",
        ".4799 acb;n",
        ".6124 b;n",
        ".1239 b;n",
        ".4771 acb;n",
        ".2079 ac;n",
    ]
    assert rows["(r) monot5"] == [
        ".4557 nopq",
        ".2676 npq",
        ".4316 noq",
        ".0770 nopq",
        ".2790 nopq",
        ".0986 noq",
    ]
    assert any(note.startswith("Published letters") for note in shown.notes)
    assert shown.frame.set_index("system").loc["qd", "nDCG@5"] == 0.5982


@pytest.mark.parametrize(
    ("paper", "number", "row", "scores"),
    [
        ("nii_2024", "I", "2023_best", [".3479", ".4396", ".3456"]),
        ("nii_2024", "II", "2023_best", [".7254", ".4626", ".6964"]),
        # perf.json of adarewriter10_chiqnpr_cand10_splade_rerank_deberta and
        # gpt4o_splade_rerank_deberta, iKAT 2024
        ("cfda_2025", "2024", "chiq_choice_deberta", [".4231", ".4089", ".1753", ".3113", ".6645"]),
        (
            "cfda_2025",
            "2024",
            "gpt4o_rewrite_deberta",
            [".4324", ".4155", ".1796", ".3219", ".6206"],
        ),
        (
            "cfda_2025",
            "2023",
            "llm4cs_choice_splade",
            [".2131", ".1988", ".1115", ".2166", ".3117"],
        ),
    ],
)
def test_rows_without_a_method_are_shown_as_published(paper, number, row, scores):
    [shown] = published_tables(paper, number)
    [found] = [cells for name, *cells in shown_rows(shown) if name == row]
    assert found == scores
    assert any(note.startswith("Without a method here:") and row in note for note in shown.notes)


def test_kinds_of_tables_are_shown_as_they_were_published():
    [matrix] = published_tables("generate_then_retrieve", "4")
    assert matrix.title.startswith("Labels of ")
    assert matrix.frame.columns[0] == "label"
    assert matrix.frame["notes"][0] == " ".join(matrix.notes)
    assert [column.numeric for column in matrix.columns[:2]] == [False, True]
    shown = {}
    for name, paper in ikat.papers.PAPERS.items():
        for number, table in paper.tables.items():
            shown.setdefault(type(table).__name__, published_tables(name, number))
    [listing] = shown["Listing"]
    assert "ikat methods NAME" in listing.notes[0]
    assert listing.frame.iloc[0, 0]
    [prompts] = shown["Prompts"]
    assert prompts.frame["template"].str.endswith(".jinja").all()
    titles = [cell.text for cell in prompts.columns[0].cells]
    assert [title for title in titles if title] == prompts.frame["template"].tolist()
    assert titles[0] == prompts.frame["template"][0]
    assert all(cell.text.strip() for cell in prompts.columns[1].cells)
    [points] = published_tables("generate_then_retrieve", "figure-2")
    assert points.notes[1].startswith("From ")
