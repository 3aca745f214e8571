"""Papers run whole, by `ikat paper` and from Python: on the sample, on released data."""

import io

import pandas as pd
import pyterrier as pt
import pytest
from click.testing import CliRunner
from fakes import ByPrompt

import pyterrier_ikat as ikat
from pyterrier_ikat.cli import main
from pyterrier_ikat.conversations.datasets import read_turns
from pyterrier_ikat.methods import METHODS
from pyterrier_ikat.papers.published import PAPERS, find_table, options_of
from pyterrier_ikat.papers.reproduction import Reproduction


def test_an_index_of_the_command_line_stands_for_bm25(sample_index, tmp_path):
    made = Reproduction("ptkb_2024", {}, index=sample_index, out=tmp_path / "papers")
    [part] = find_table("ptkb_2024", "2023")
    made.check_public(part)  # nothing lacks
    assert {row.options["index"] for row in made.rows(part)} == {sample_index}
    options = ["generate_then_retrieve", "1", "--systems", "qr", "--resources", "sample"]
    arguments = [*options, "--index", sample_index, "--out", str(tmp_path / "papers")]
    outcome = CliRunner().invoke(main, ["paper", *arguments], catch_exceptions=False)
    assert outcome.exit_code == 0, outcome.output
    assert [path.name for path in (tmp_path / "papers").iterdir()] == ["ikat-sample"]


def test_the_papers_are_listed_with_what_each_row_needs():
    everything = CliRunner().invoke(main, ["paper"])
    assert all(name in everything.output for name in PAPERS)
    one = CliRunner().invoke(main, ["paper", "nii_2024"])
    assert "gtr: needs 'gpt-4o', 'claude-3-opus', 'bm25', 'ms-marco-minilm-l-6-v2'" in one.output
    tables = " ".join(CliRunner().invoke(main, ["paper", "generate_then_retrieve"]).output.split())
    assert (
        "needs labels by gpt-3.5-turbo (--qrels FILE), and 'gpt-4', 'bm25', "
        "'ms-marco-minilm-l-6-v2'," in tables
    )
    assert "needs NIST's judgements, and 'gpt-4', 'bm25', 'ms-marco-minilm-l-6-v2'," in tables
    responses = " ".join(CliRunner().invoke(main, ["paper", "infosense_2024"]).output.split())
    assert (
        "needs the judges 'bem', 'groundedness', 'solar', 'gpt-4o', 'nuggets', and '" in responses
    )
    assert options_of(METHODS["rtg"], {"gpt-4": "openai:gpt-4", "bm25": "i"})[1] == [
        "ms-marco-minilm-l-12-v2"
    ]


def test_a_table_runs_on_the_sample_and_says_it_is_no_evidence(tmp_path, two_turns):
    arguments = [
        "paper",
        "nii_2024",
        "II",
        "--resources",
        "sample",
        "--systems",
        "rtg",
        "--out",
        str(tmp_path),
    ]
    found = CliRunner().invoke(main, arguments)
    assert found.exit_code == 0, found.output
    assert "is no evidence" in " ".join(found.output.split())
    assert "published" not in found.output
    again = CliRunner().invoke(main, [*arguments, "--format", "csv"])
    [row] = [line for line in again.output.splitlines() if line.startswith("rtg,")]
    qrels = ikat.dataset("ikat:sample").get_qrels("ptkb")
    folder = tmp_path / "ikat-sample" / "rtg"
    expected = ikat.evaluation.evaluate_ptkb({"rtg": folder}, qrels)["nDCG@3"][0]
    assert float(row.split(",")[2]) == pytest.approx(expected)


@pytest.mark.filterwarnings("ignore::pyterrier_ikat.study.OtherCollectionWarning")
def test_irlab_2024_runs_on_an_own_index_with_reasons_for_gaps(tmp_path, ikat_data, monkeypatch):
    data = tmp_path / "data"
    data.mkdir()
    (data / "2024_test_topics.json").symlink_to(ikat_data / "2024_test_topics.json")
    topics = read_turns("irlab-2024", ikat.dataset("ikat:2024").get_topics()["qid"], "ikat:2024")[
        :4
    ]
    (data / "2024-qrels.txt").write_text(
        "".join(f"{qid} 0 d{n} {n % 3}\n" for n, qid in enumerate(topics))
    )
    monkeypatch.setenv("IKAT_DATA", str(data))
    words = [
        "bike mountain trail",
        "diet vegan dinner",
        "university computer science",
        "movie night children",
    ]
    index = ikat.PassageIndex(tmp_path / "index").index(
        {"docno": f"d{n}", "text": text} for n, text in enumerate(words)
    )
    llm = ByPrompt(
        queries="1. mountain bike vegan university movie",
        statements_copies="none",
        respond="A bike.",
        rewrite="bike movie",
    )
    resources = {
        "gpt-4": llm.llm,
        "bm25": index,
        "ms-marco-minilm-l-6-v2": pt.apply.generic(
            lambda rows: rows.assign(score=rows["text"].map(len))
        ),
    }
    made = Reproduction("irlab_2024", resources, out=tmp_path / "runs")
    [part] = find_table("irlab_2024", "1")
    with pytest.warns(UserWarning, match="isn't the published file"):
        assert made.plan(part)["new"].sum() > 0
    made.run(part)
    table = made.table(part)
    assert table.turns == 4
    assert (
        "mq4cs_qr_deberta: not run, the resources lack 'splade', 'trecdl22-crossencoder-debertav3'"
        in " ".join(table.notes)
    )
    ours = table.frame[table.frame["system"] == "gpt4qr_bm25_qd1*"]
    run = ikat.runs.RunFolder(made.out(part) / "gpt4qr_bm25_qd1").results()
    expected = ikat.evaluate({"x": run}, ikat.dataset("ikat:2024").get_qrels(), ["nDCG@5"])[
        "nDCG@5"
    ][0]
    assert ours["nDCG@5"].tolist() == [pytest.approx(expected)]
    assert "published" not in set(table.frame["scores"])
    assert "these by a file that isn't the published 2024-qrels.txt" in " ".join(table.notes)


def test_a_figure_pays_for_no_system_that_it_does_not_draw(tmp_path):
    arguments = [
        "paper",
        "generate_then_retrieve",
        "figure-4",
        "--resources",
        "sample",
        "--plan",
        "--out",
        str(tmp_path),
    ]
    found = CliRunner().invoke(main, arguments)
    assert found.exit_code == 0, found.output
    planned = set()
    for line in found.output.splitlines():
        cells = line.split()
        if cells[2:3] == ["recorded"]:
            planned.add(cells[0])
    of_gpt = {"qd", "aqd", "aqd_a", "ad"}
    of_llama = {"qd_llama", "aqd_llama", "aqd_a_llama", "ad_llama"}
    assert planned == of_gpt | of_llama


def test_a_plan_says_what_it_does_not_hold(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('"gpt-4o" = "openai:gpt-4o"\n')
    found = CliRunner().invoke(
        main,
        [
            "paper",
            "infosense_2024",
            "4",
            "--resources",
            str(path),
            "--plan",
            "--out",
            str(tmp_path),
        ],
    )
    assert found.exit_code == 0, found.output
    assert "short_long_3 is not run: the resources lack 'llama-3.1-70b-instruct'" in found.output
    assert "judges of responses" in found.output


@pytest.mark.real_data
@pytest.mark.filterwarnings("ignore::pyterrier_ikat.conversations.datasets.FewerTurnsWarning")
def test_public_completions_run_without_resources(shared, tmp_path):
    """On the mini, with the means and deviations of two runs of a row, as ikat.run has them."""
    given = [
        "--dataset",
        "ikat:2023-mini",
        "--systems",
        "ptkb_str:shots=1",
        "--repeats",
        "2",
        "--out",
        str(tmp_path),
    ]
    found = CliRunner().invoke(main, ["paper", "ptkb_2024", "2023", *given, "--format", "csv"])
    assert found.exit_code == 0, found.output
    options = {
        "llm": "recorded:personalizedcir",
        "index": str(tmp_path / "ikat-2023-mini.index"),
        "turns": "judged-2023",
        "repeats": 2,
    }
    results = ikat.run(
        "ptkb_str:shots=1", "ikat:2023-mini", out=tmp_path / "own", measures=["nDCG@3"], **options
    )
    same = results.table
    table = pd.read_csv(io.StringIO(found.stdout))
    assert table["scores"].tolist() == ["ours", "± of ours"]
    expected = same[["nDCG@3", "nDCG@3 std"]].iloc[0].tolist()
    assert table["nDCG@3"].tolist() == pytest.approx(expected)
    assert table["turns"][0] == 174
    assert (
        "recorded:personalizedcir, the authors' own, from https://github.com/EricLangezaal/PersonalizedCIR"
        in table["notes"][0]
    )


def test_a_table_that_needs_the_collection_says_whose_it_is(tmp_path):
    for name, number, said in (
        ("ptkb_2024", "2023", "ClueWeb22-B licence at https://lemurproject.org"),
        ("ptkb_2024", "2024", "its completions are not public: give --resources FILE"),
        ("ptkb_2024", "deviations", "nothing is run for it: omit --repeats"),
    ):
        found = CliRunner().invoke(
            main, ["paper", name, number, "--repeats", "5", "--out", str(tmp_path)]
        )
        assert (found.exit_code, said in found.output) == (2, True), found.output
