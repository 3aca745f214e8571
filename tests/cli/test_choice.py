"""--qrels and --turns of every command: a variant's name or a file, ids or a file with one on each line."""

import pyterrier as pt
import pytest
from click.testing import CliRunner

import pyterrier_ikat as ikat
from pyterrier_ikat.cli import main
from pyterrier_ikat.conversations.choice import find_qrels, read_turns
from pyterrier_ikat.errors import DataError, UsageError

KNOWN = ["1-1_1", "1-1_2", "1-1_3"]


def call(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with an index, runs of the sample, qrels of two turns, and files of turns."""
    folder = tmp_path_factory.mktemp("made")
    sample = ikat.dataset("ikat:sample")
    ikat.PassageIndex(folder / "index").index(sample.get_corpus_iter(verbose=False))
    ikat.run(
        ["raw", "rtg"],
        sample,
        out=folder / "runs",
        index=str(folder / "index"),
        llm="recorded:sample",
        reranker=pt.apply.generic(lambda rows: rows),
    )
    qrels = sample.get_qrels()
    ikat.conversations.write_qrels(qrels[qrels["qid"].isin(KNOWN[:2])], folder / "two.txt")
    statements = sample.get_qrels("ptkb")
    ikat.conversations.write_qrels(statements[statements["qid"].isin(KNOWN[:2])], folder / "statements.txt")
    (folder / "one-turn").write_text("\n1-1_2\n")
    (folder / "wrong").write_text("1-1_2\n\n9-9_9\n")
    return folder


@pytest.mark.parametrize("given", ["1-1_3,1-1_1", " 1-1_1 , 1-1_3,1-1_1", ["1-1_3", "1-1_1"]])
def test_ids_in_the_order_of_the_dataset_each_once(given):
    assert read_turns(given, KNOWN, "it") == ["1-1_1", "1-1_3"]


def test_a_file_of_turns_has_one_on_each_line(tmp_path):
    path = tmp_path / "turns"
    path.write_text("\ufeff1-1_3\n\n 1-1_1 \r\n", encoding="utf-8")
    assert read_turns(path, KNOWN, "it") == read_turns(str(path), KNOWN, "it") == ["1-1_1", "1-1_3"]
    path.write_text("1-1_3\n\n1-1_1 1-1_2\n8-8_8\n")
    with pytest.raises(UsageError, match=r"turns: it has no turn 1-1_1 1-1_2 \(line 3\), 8-8_8 \(line 4\): its turns are like 1-1_1"):
        read_turns(path, KNOWN, "it")
    path.write_text("\n")
    with pytest.raises(UsageError, match="names no turn: give ids separated by commas, .* or a file with one on each line"):
        read_turns(path, KNOWN, "it")
    with pytest.raises(DataError, match="none.txt can't be read"):
        read_turns(tmp_path / "none.txt", KNOWN, "it")


def test_qrels_are_a_frame_a_variant_or_a_file(made, monkeypatch):
    sample = ikat.dataset("ikat:sample")
    assert set(find_qrels(made / "two.txt", sample)["qid"]) == set(KNOWN[:2])
    monkeypatch.chdir(made)
    assert find_qrels("two.txt", sample).equals(find_qrels(find_qrels("two.txt", sample), sample))
    (made / "ptkb").write_text("1-1_1 0 d 1\n")
    assert find_qrels("ptkb", sample).equals(sample.get_qrels("ptkb"))
    assert len(find_qrels("./ptkb", sample)) == 1
    with pytest.raises(UsageError, match="has no qrels 'nist'; there are the default, ptkb, .*and there is no file nist"):
        find_qrels("nist", sample)


COMMANDS = {
    "run": ["run", "raw", "--dataset", "ikat:sample", "--index", "INDEX", "--out", "NEW"],
    "evaluate": ["evaluate", "RUNS/raw", "RUNS/rtg", "--dataset", "ikat:sample"],
    "evaluate-by": ["evaluate", "--by", "depth", "RUNS/raw", "--dataset", "ikat:sample"],
    "evaluate-ptkb": ["evaluate", "--of", "statements", "RUNS/rtg", "--dataset", "ikat:sample"],
    "evaluate-responses": ["evaluate", "--of", "responses", "RUNS/rtg", "--dataset", "ikat:sample"],
    "judge": ["judge", "RUNS/raw", "--dataset", "ikat:sample", "--llm", "recorded:sample", "--out", "NEW"],
    "report": ["report", "RUNS/raw", "--dataset", "ikat:sample", "--out", "NEW"],
    "paper": ["paper", "nii_2024", "I", "--resources", "sample", "--systems", "rtg", "--plan", "--out", "NEW"],
}


def filled(made, tmp_path, name):
    places = {"INDEX": str(made / "index"), "NEW": str(tmp_path / "new")}
    return [places.get(word, word.replace("RUNS", str(made / "runs"))) for word in COMMANDS[name]]


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "paper"])
def test_every_command_names_the_line_of_a_wrong_turn(made, tmp_path, name):
    found = call(*filled(made, tmp_path, name), "--turns", made / "wrong")
    assert found.exit_code == 2
    assert f"{made / 'wrong'}: ikat:sample" in found.output
    assert "has no turn 9-9_9 (line 3)" in found.output
    assert len(found.output.strip().splitlines()) == 1


@pytest.mark.parametrize("name", [name for name in COMMANDS if name not in ("run", "judge")])
def test_every_command_says_that_qrels_are_neither_a_variant_nor_a_file(made, tmp_path, name):
    found = call(*filled(made, tmp_path, name), "--qrels", "nowhere.txt")
    assert found.exit_code == 2
    assert "ikat:sample has no qrels 'nowhere.txt'; there are the default, ptkb" in found.output
    assert "there is no file nowhere.txt" in found.output


def test_turns_and_qrels_decide_what_scores_are_means_of(made, tmp_path):
    def scores(*options):
        return call(*filled(made, tmp_path, "evaluate"), "--measures", "nDCG@5", "--format", "csv", *options).output

    one, two = scores("--turns", made / "one-turn"), scores("--qrels", made / "two.txt")
    assert one == scores("--turns", "1-1_2") == scores("--qrels", made / "two.txt", "--turns", "1-1_2")
    assert two == scores("--turns", "1-1_1,1-1_2")
    assert len({one, two, scores()}) == 3
    by_file = call(
        *("evaluate", made / "runs" / "raw", made / "runs" / "rtg", "--measures", "nDCG@5", "--format", "csv"),
        *("--qrels", made / "two.txt", "--turns", made / "one-turn"),
    )
    assert by_file.output == one


def test_the_other_commands_take_the_same_turns(made, tmp_path):
    turns = ("--turns", made / "one-turn")
    broken = call(*filled(made, tmp_path, "evaluate-by"), *turns, "--format", "csv").output
    assert [line.split(",")[:1] for line in broken.splitlines()[1:]] == [["2"]]
    statements = filled(made, tmp_path, "evaluate-ptkb")
    assert " 2 " in call(*statements, "--qrels", made / "statements.txt").output.splitlines()[1] + " "
    assert call(*statements, "--qrels", made / "statements.txt", *turns).output == call(*statements, *turns).output
    responses = filled(made, tmp_path, "evaluate-responses")
    assert call(*responses, "--qrels", made / "two.txt", *turns).output == call(*responses, "--turns", "1-1_2").output
    assert call(*filled(made, tmp_path, "report"), *turns).exit_code == 0
    page = (tmp_path / "new").read_text(encoding="utf-8")
    assert "1-1_2" in page
    assert "1-1_3" not in page
    pairs = ikat.evaluation.pool_runs({"raw": ikat.runs.RunFolder(made / "runs" / "raw").results()})
    (tmp_path / "recorded.jsonl").write_text('{"qid": "1-1_2", "stage": "judge", "completion": "2", "model": "m"}\n')
    judging = [*filled(made, tmp_path, "judge")[:-1], tmp_path / "labels", *turns]
    judging[judging.index("recorded:sample")] = f"recorded:{tmp_path / 'recorded.jsonl'}"
    assert call(*judging, "--index", made / "index").exit_code == 0
    assert len((tmp_path / "labels").read_text().splitlines()) == (pairs["qid"] == "1-1_2").sum()


def test_run_takes_paths_of_qrels_and_turns(made, tmp_path):
    table = ikat.run(
        "raw", "ikat:sample", out=tmp_path / "runs", index=str(made / "index"), qrels=made / "two.txt", turns=made / "one-turn"
    ).table
    scores = ikat.runs.RunFolder(tmp_path / "runs" / "raw").measures()
    assert scores.index.tolist() == ["1-1_2"]
    assert table["nDCG@5"].tolist() == pytest.approx(scores["nDCG@5"].tolist())
    with pytest.raises(UsageError, match="ikat:sample has no turn 9-9_9"):
        ikat.run("raw", "ikat:sample", out=tmp_path / "other", index=str(made / "index"), turns=str(made / "wrong"))


def test_judgements_of_other_turns_stand_in_no_papers_table(tmp_path):
    (tmp_path / "other.txt").write_text("77-1_1 0 d 1\n")
    found = call("paper", "nii_2024", "I", "--resources", "sample", "--systems", "rtg", "--plan", "--qrels", tmp_path / "other.txt")
    assert found.exit_code == 2
    assert "--qrels judges turns that ikat:sample lacks (77-1_1)" in found.output


def test_a_run_prints_the_measures_and_the_baseline_that_are_asked_for(tmp_path):
    index = tmp_path / "index"
    assert CliRunner().invoke(main, ["index", "ikat:sample", str(index)]).exit_code == 0
    common = ["run", "raw", "human_qr", "--dataset", "ikat:sample", "--index", str(index), "--out", str(tmp_path / "runs")]
    done = CliRunner().invoke(main, [*common, "--measures", "P@1,RR@10", "--baseline", "raw"])
    assert done.exit_code == 0, done.output
    assert "P(rel=1)@1" in done.stdout
    assert "RR(rel=1)@10" in done.stdout
    assert "nDCG" not in done.stdout
    assert "significantly lower than raw" in done.stdout
    refused = CliRunner().invoke(main, [*common, "--baseline", "qr"])
    assert refused.exit_code == 2
    assert "the baseline 'qr' is not one of the systems: raw, human_qr" in refused.output


def test_a_long_help_text_has_its_options_in_groups_each_once():
    shown = call("run", "--help").output
    assert [line[:-1] for line in shown.splitlines() if line in ("Systems:", "Data:", "Measures:", "Output:", "Options:")] == [
        *("Systems", "Data", "Measures", "Output", "Options"),
    ]
    assert all(
        shown.count(f"\n  {option} ") == 1 for option in ("--index", "--resources", "--dataset", "--baseline", "--out", "--cache", "--help")
    )
    assert "Systems:" not in call("submit", "--help").output


def test_means_by_depth_are_of_one_measure_and_compare_nothing(made, tmp_path):
    by = filled(made, tmp_path, "evaluate-by")
    for options, said in (
        (("--measures", "P@1,R@2"), "--by depth shows one measure: give one, such as --measures nDCG@5"),
        (("--cost",), "--by is for passages: omit it with --cost"),
        (("--judge", "bem=folder"), "--judge is for responses: omit it with --of passages"),
    ):
        refused = call(*by, *options)
        assert (refused.exit_code, refused.output) == (2, f"ikat: {said}\n")


def test_a_judge_that_is_none_is_named(made):
    asked = ("evaluate", "--of", "responses", made / "runs" / "rtg", "--dataset", "ikat:sample", "--judge")
    assert "--judge relevant is unknown: did you mean relevance?" in call(*asked, "relevant").output
    assert "can't load the answer equivalence model 'nowhere'" in call(*asked, "bem=nowhere").output


def test_the_table_of_judges_names_the_model_of_each_that_has_one(made):
    asked = ("evaluate", "--of", "responses", made / "runs" / "rtg", "--dataset", "ikat:sample", "--format", "csv", "--judge", "token-f1")
    assert call(*asked).stdout.startswith("run,judge,mean,")
    header, by_words, by_model = call(*asked, "--judge", "groundedness", "--llm", "recorded:sample").stdout.split("\n")[:3]
    assert header.startswith("run,judge,model,mean,")
    assert by_words.startswith("rtg,token F1,,")
    assert by_model.startswith("rtg,groundedness,recorded,")
