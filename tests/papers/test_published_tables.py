"""`ikat paper PAPER TABLE` without resources: the tables as published.

Other tests are about rows beside which nothing published stands.
"""

import sys

import pytest
from click.testing import CliRunner

import pyterrier_ikat as ikat
from pyterrier_ikat.cli import main
from pyterrier_ikat.errors import UsageError
from pyterrier_ikat.methods import METHODS
from pyterrier_ikat.papers.published import PAPERS, find_table, options_of
from pyterrier_ikat.papers.reproduction import Reproduction, draw_figure, figure_scores
from pyterrier_ikat.papers.table import published_tables
from pyterrier_ikat.runs import RunFolder


@pytest.fixture(autouse=True)
def no_open_figures():
    """Matplotlib warns of many open figures, also of those of other tests in this process."""
    from matplotlib import pyplot

    pyplot.close("all")


def printed(*arguments):
    found = CliRunner().invoke(main, ["paper", *arguments])
    assert found.exit_code == 0, found.output
    return found.output


TABLES = []
FIGURES = []
for name, paper in PAPERS.items():
    TABLES += [(name, number) for number in paper.tables]
    FIGURES += [(name, number) for number in paper.figures]


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


def test_a_figure_has_the_notes_of_a_table_beside_it_and_in_it(tmp_path, two_turns):
    arguments = [
        "generate_then_retrieve",
        "figure-4",
        "--resources",
        "sample",
        "--systems",
        "ad",
        "--out",
        str(tmp_path),
    ]
    said = " ".join(printed(*arguments).split())
    assert "is no evidence" in said
    assert "Ours: 2 turns." in said
    assert "the paper: iKAT 2023, passages, judged by NIST" in said
    made = Reproduction("generate_then_retrieve", "sample", out=tmp_path, systems=["ad"])
    drawn = draw_figure(
        made, find_table("generate_then_retrieve", "figure-4"), tmp_path / "f.svg"
    ).read_text(encoding="utf-8")
    assert "is no evidence" in " ".join(drawn.split())
    assert RunFolder(tmp_path / "ikat-sample" / "ad").complete
    assert len(figure_scores(made, find_table("generate_then_retrieve", "figure-4")))


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    """One folder for the runs of all figures, of which several show the same system."""
    return tmp_path_factory.mktemp("papers")


@pytest.mark.parametrize(("name", "number"), FIGURES)
def test_a_figure_without_matplotlib_is_numbers_and_a_warning(
    name, number, out, monkeypatch, two_turns
):
    ours = ["matplotlib", *(name for name in sys.modules if name.startswith("matplotlib."))]
    for module in ours:
        monkeypatch.setitem(sys.modules, module, None)
    figure = find_table(name, number)
    arguments = [
        "paper",
        name,
        number,
        "--resources",
        "sample",
        "--systems",
        figure.systems[0],
        "--out",
        str(out),
    ]
    found = CliRunner().invoke(main, [*arguments, "--format", "csv"])
    assert found.exit_code == 0, found.output
    assert len(found.stdout.strip().splitlines()) > 1
    assert "pip install pyterrier_ikat[plots]" in found.stderr.splitlines()[0]
    assert not list(out.rglob("*.png"))
    made = Reproduction(name, "sample", out=out, systems=[figure.systems[0]])
    with pytest.raises(UsageError, match=r"pip install pyterrier_ikat\[plots\]"):
        draw_figure(made, figure, out / "f.svg")


def test_a_table_is_followed_by_each_rows_needs_and_decisions():
    said = " ".join(printed("nii_2024", "4").split())
    assert "rtg: needs 'gpt-4', 'bm25', 'ms-marco-minilm-l-12-v2'" in said
    for what, why in PAPERS["nii_2024"].deviations:
        assert " ".join(f"- {what} {why}".split()) in said


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


def test_nists_full_collection_judgements_work_on_the_mini_one(ikat_data):
    qrels = ikat_data / "2023-qrels.all-turns.txt"
    made = Reproduction(
        "generate_then_retrieve", {}, dataset="ikat:2023-mini", qrels=str(qrels), judged_by="NIST"
    )
    [part] = find_table("generate_then_retrieve", "3")
    passages = {
        passage["docno"]
        for passage in ikat.dataset("ikat:2023-mini").get_corpus_iter(verbose=False)
    }
    pairs = [line.split() for line in qrels.read_text().splitlines()]
    assert sum(docno in passages and int(label) >= 1 for _, _, docno, label in pairs) == 123
    judged = made.judgements(part)
    assert set(judged.qrels["docno"]) <= passages
    reason = judged.differ_from(part)
    assert "about the 700 passages of ikat:2023-mini" in reason
    assert "relevant there (from 1): 123 pairs" in reason
    assert not made.table(part).beside


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
