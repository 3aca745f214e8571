"""The papers' tables by one command.

What is printed as published, what may stand beside it, what is refused.
"""

import io
import re

import numpy as np
import pandas as pd
import pyterrier as pt
import pytest
from click.testing import CliRunner
from fakes import ByPrompt
from scipy.stats import ttest_rel

import pyterrier_ikat as ikat
from pyterrier_ikat.cli import main
from pyterrier_ikat.conversations.datasets import read_turns
from pyterrier_ikat.conversations.qrels import write_judge
from pyterrier_ikat.errors import DataError, UsageError
from pyterrier_ikat.methods import METHODS, find
from pyterrier_ikat.papers.paper_scores import Judgements, UserJudgements, our_measures
from pyterrier_ikat.papers.published import (
    GPT_35,
    NIST,
    PAPERS,
    Figure,
    Row,
    find_paper,
    find_table,
    options_of,
    read_resources,
)
from pyterrier_ikat.papers.reproduction import Relabelled, Reproduction, figure_scores
from pyterrier_ikat.papers.table import PaperTable

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


def judgements(turns, kind=NIST, year=2023):
    qrels = pd.DataFrame({"qid": [f"1_{n}" for n in range(turns)], "docno": "d", "label": 1})
    return Judgements(qrels, kind, year)


def scores(part, seed, turns):
    values = np.random.default_rng(seed).random((turns, len(part.measures)))
    return pd.DataFrame(values, columns=list(part.measures))


def table_of(part, judged, seeds=None):
    turns = judged.qrels["qid"].nunique()
    made = {name: scores(part, seed, turns) for name, seed in (seeds or {}).items()}
    rows = [Row(find(name), {}, written=name) for name in part.systems]
    return PaperTable(part, rows, judged, made)


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


@pytest.mark.parametrize(
    ("judged", "reason"),
    [
        (judgements(103, year=2023), "about iKAT 2024, these about 2023"),
        (judgements(103, year=None), "about iKAT 2024, these about another collection"),
        (judgements(103, kind=GPT_35, year=2024), "by NIST, these by gpt-3.5-turbo"),
        (judgements(103, kind=None, year=2024), "by NIST, these by judges that"),
    ],
)
def test_another_year_or_judge_stands_beside_no_published_score(judged, reason):
    table = table_of(find_table("irlab_2024", "1")[0], judged, {"gpt4qr_deberta": 0})
    assert reason in " ".join(table.notes)
    ours = table.frame[table.frame["system"] == "gpt4qr_deberta"]
    assert ours["scores"].tolist() == ["ours"]
    assert "difference" not in table.written()


def test_other_turns_show_both_counts_and_no_difference():
    part = find_table("irlab_2024", "1")[0]
    table = table_of(part, judgements(102, year=2024), {"gpt4qr_deberta": 0})
    ours = table.frame[table.frame["system"] == "gpt4qr_deberta"]
    assert ours[["scores", "turns"]].values.tolist() == [["ours", 102], ["published", 103]]
    assert table.significant() == {}
    same = table_of(part, judgements(103, year=2024), {"gpt4qr_deberta": 0})
    [difference] = same.frame[same.frame["scores"] == "difference"].to_dict("records")
    expected = scores(part, 0, 103)["nDCG"].mean() - 0.5420
    assert difference["nDCG"] == pytest.approx(expected)


def test_systems_of_a_block_are_tested_pairwise():
    part = find_table("generate_then_retrieve", "3")[0]
    table = table_of(part, judgements(133), {name: seed for seed, name in enumerate(part.systems)})
    low = dict(table.scores)
    low["qd"] = low["qd"] - 0.3
    low["qr"] = low["qr"] - 0.3
    table = PaperTable(part, table.rows, table.judgements, low)
    found = table.significant()
    pairs_of_the_block = 6
    letters = ""
    for letter, other in (("b", "aqd"), ("c", "aqd_human"), ("d", "aqd_a")):
        pvalue = ttest_rel(low["qd"]["nDCG"], low[other]["nDCG"]).pvalue
        if pvalue * pairs_of_the_block < 0.05:
            letters += letter
    assert found["qd", "nDCG"] == letters == "bcd"
    assert found["qr", "nDCG"] == "jlm"
    assert ("human_qr", "nDCG") in found
    assert "k" in found["human_qr", "nDCG"]


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


def test_ptkb_judgements_of_nist_are_published_for_2023_only():
    [part] = find_table("nii_2024", "IV")
    judged = Judgements(judgements(5).qrels, "the organisers' PTKB judgements", 2024)
    assert "published for 2023 only" in judged.differ_from(part)


def test_responses_are_judged_on_the_turns_that_were_run(monkeypatch, ikat_data):
    monkeypatch.setenv("IKAT_DATA", str(ikat_data))
    [part] = find_table("infosense_2024", "4")
    made = Reproduction("infosense_2024", {}, dataset="ikat:2023")
    passages = set(ikat.dataset("ikat:2023").get_qrels()["qid"])
    statements = set(ikat.dataset("ikat:2023").get_qrels("ptkb_org")["qid"])
    nist = set(ikat.dataset("ikat:2023").get_qrels("ptkb_nist")["qid"])
    assert (
        set(made.judgements(part).qrels["qid"])
        == passages | statements | nist
        != set(ikat.dataset("ikat:2023").get_topics()["qid"])
    )


def test_columns_without_a_judge_name_the_keys_that_fill_them():
    [part] = find_table("infosense_2024", "4")
    row = Row(METHODS["short_long_2"], {})
    frame = pd.DataFrame(float("nan"), index=range(3), columns=part.measures)
    frame["Rouge-L"] = 0.5
    frame["R-Nuggets"] = [0.2, float("nan"), 0.4]
    table = PaperTable(part, [row], Judgements(judgements(3).qrels, None, 2024), {row.name: frame})
    [note] = [note for note in table.notes if "no judge filled" in note]
    for key in (
        "BEM by 'bem'",
        "Groundedness by 'groundedness'",
        "LLMeval SOLAR by 'solar'",
        "LLMeval GPT-4o by 'gpt-4o'",
    ):
        assert key in note
    assert "by 'nuggets'" not in note
    full = PaperTable(
        part, [row], Judgements(judgements(3).qrels, None, 2024), {row.name: frame.fillna(0.1)}
    )
    assert "no judge filled" not in " ".join(full.notes)


def test_another_snapshot_of_the_judge_makes_labels_of_its_own(tmp_path):
    data = ikat.dataset("ikat:sample")
    pairs = data.get_qrels()[["qid", "docno"]].rename(columns={"docno": "item"})
    completions = pairs.assign(stage="judge", prompt="judge", model="m")
    shares = []
    for snapshot, label in (("m-20240101", "3"), ("m-20240202", "0")):
        recorded = tmp_path / snapshot
        lines = completions.assign(completion=label).to_json(orient="records", lines=True)
        recorded.write_text(lines)
        made = Relabelled(
            find_table("generate_then_retrieve", "4"),
            data,
            f"recorded:{recorded}",
            tmp_path / "out",
        )
        made.run()
        shares.append(made.agreement().binary)
    relevant = float((data.get_qrels()["label"] >= 2).mean())
    assert shares == [pytest.approx(relevant), pytest.approx(1 - relevant)]


@pytest.mark.parametrize(
    ("option", "value"), [("--qrels", "provenance"), ("--systems", "ad"), ("--judged-by", "NIST")]
)
def test_a_table_of_labels_takes_no_option_of_scores(tmp_path, option, value):
    arguments = [
        "paper",
        "generate_then_retrieve",
        "4",
        "--resources",
        "sample",
        "--out",
        str(tmp_path),
        option,
        value,
    ]
    found = CliRunner().invoke(main, arguments)
    assert found.exit_code == 2
    assert f"omit {option}" in found.output


def test_the_unjudged_share_is_over_rows_the_track_did_not_pool():
    """The paper's text says 72.78 %.

    The 13 rounded rows of its Table 3 give 35.30 of 130 judged.
    """
    [part] = find_table("generate_then_retrieve", "3")
    assert "over the 13 rows outside the track's pool: published 72.85%." in " ".join(
        table_of(part, judgements(3)).notes
    )
    published = part.frame().loc[list(part.systems), "Judged@10"]
    seeds = dict.fromkeys(published[published < 10].index, 0)
    every = table_of(part, judgements(3), seeds)
    judged = np.mean([every.scores[name]["Judged@10"].mean() for name in seeds])
    assert f"ours {1 - judged / 10:.2%}, published 72.85%" in " ".join(every.notes)
    some = " ".join(table_of(part, judgements(3), {"ad": 0, "llama10": 1}).notes)
    unjudged = 1 - scores(part, 0, 3)["Judged@10"].mean() / 10
    assert f"over the row outside the track's pool: ours {unjudged:.2%}." in some
    pooled_alone = " ".join(table_of(part, judgements(3), {"llama10": 1}).notes)
    assert "over the 13 rows outside the track's pool: published 72.85%." in pooled_alone
    [other] = find_table("generate_then_retrieve", "1")
    assert "Unjudged" not in " ".join(table_of(other, judgements(3, GPT_35)).notes)


def test_a_mean_over_fewer_turns_says_so():
    [part] = find_table("infosense_2024", "4")
    table = table_of(part, judgements(4, None, 2024), {"short_long_2": 1})
    assert not [note for note in table.notes if "gave no value" in note]
    table.scores["short_long_2"].loc[:1, "Groundedness"] = np.nan
    assert (
        "short_long_2, Groundedness: a mean over 2 turns, the judge gave no value on the others."
        in table.notes
    )


@pytest.mark.parametrize(("turns", "points"), [(133, [3.42, 10.0]), (132, [])])
def test_a_figure_has_published_points_over_as_many_turns(monkeypatch, turns, points):
    figure = find_table("generate_then_retrieve", "figure-2")
    made = Reproduction("generate_then_retrieve", {})
    monkeypatch.setattr(made, "judgements", lambda part: judgements(turns))
    monkeypatch.setattr(
        made, "scores", lambda part: {name: scores(part, 1, turns) for name in ("qd", "aqd")}
    )
    assert figure_scores(made, figure)["published"].dropna().tolist() == points


def test_labels_of_a_model_or_gold_passages_are_never_nists(tmp_path, ikat_data, monkeypatch):
    monkeypatch.setenv("IKAT_DATA", str(ikat_data))
    [part] = find_table("generate_then_retrieve", "3")
    file = tmp_path / "labels.txt"
    file.write_text("9-1_3 0 d 2\n")
    assert (
        Reproduction("generate_then_retrieve", {}, qrels=str(file), judged_by=NIST)
        .judgements(part)
        .kind
        == NIST
    )
    write_judge(file, "gpt-4o", "one-shot")
    for qrels, known in (
        (str(file), "gpt-4o"),
        ("provenance", "gold passages"),
        ("ptkb_org", "organisers"),
    ):
        with pytest.raises(UsageError, match=known):
            Reproduction("generate_then_retrieve", {}, qrels=qrels, judged_by=NIST).judgements(part)


@pytest.mark.parametrize("form", ["text", "latex", "markdown", "csv"])
def test_notes_and_refusals_are_in_every_format(form):
    part = find_table("generate_then_retrieve", "3")[0]
    table = table_of(part, judgements(133, year=2024), {"qd": 0, "aqd": 1})
    said = " ".join(table.written(form).split())
    assert "about iKAT 2023, these about 2024" in said
    published = part.frame().loc["qd"]
    for value in published[published < 1]:
        assert f"{value:.4f}".removeprefix("0") not in said
    both = table_of(part, judgements(133), {"qd": 0, "aqd": 1}).written(form)
    assert "difference" in both
    assert "about iKAT" not in both


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
def test_a_table_is_scored_on_the_turns_known_as_its_own():
    data = ikat.dataset("ikat:2024")
    [irlab] = find_table("irlab_2024", "1")
    [responses] = find_table("infosense_2024", "4")
    assert UserJudgements().judgements(irlab, data).qrels["qid"].nunique() == irlab.turns == 103
    answered = UserJudgements().judgements(responses, data, list(data.get_topics()["qid"]))
    assert answered.qrels["qid"].nunique() == responses.turns == 62
    assert UserJudgements(turns=["0_2"]).judgements(irlab, data).qrels["qid"].unique().tolist() == [
        "0_2"
    ]
    (passages,) = find_table("infosense_2024", "2")
    assert UserJudgements().judgements(passages, data).qrels["qid"].nunique() == 116


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


def test_means_of_several_runs_stand_beside_the_published_ones():
    [part] = find_table("ptkb_2024", "2023")
    runs = [scores(part, seed, 176) for seed in range(3)]
    mean = sum(runs) / 3
    spread = {"ptkb_none": pd.DataFrame([one.mean() for one in runs]).std()}
    rows = [Row(find("ptkb_none"), {"llm": "recorded:personalizedcir"})]
    table = PaperTable(
        part, rows, judgements(176), {"ptkb_none": mean}, repeats=3, deviations=spread
    )
    assert table.frame["scores"].tolist() == ["ours", "± of ours", "published", "difference"]
    means = [one["nDCG@3"].mean() for one in runs]
    assert table.frame["nDCG@3"].tolist() == pytest.approx(
        [np.mean(means), np.std(means, ddof=1), 0.1835, np.mean(means) - 0.1835]
    )
    assert "means of 3 runs" in " ".join(table.notes)
