"""`ikat run --plan`: calls to come, and what the run would refuse."""

from command_results import BOTH, ONE, succeeded

import pyterrier_ikat as ikat


def test_plan_prints_calls_and_writes_nothing(run, tmp_path):
    llm = "openai:gpt-4o cache=none price_in=2.5 price_out=10"
    planned = succeeded(run(tmp_path / "runs", "ad", "aqd", "--plan", llm=llm))
    assert "Total: 72 calls, 48 of them new" in planned.output
    rows = [line.split() for line in planned.output.splitlines()]
    assert [row[:7] for row in rows if row[2:3] == ["gpt-4o"]] == [
        ["ad", "answer", "gpt-4o", "24", "0", "0", "24"],
        ["aqd", "answer", "gpt-4o", "24", "0", "24", "0"],
        ["aqd", "queries", "gpt-4o", "24", "0", "0", "24"],
    ]
    succeeded(run(tmp_path / "runs", "aqd_a", "--reranker", "none/such", "--plan"))
    assert not (tmp_path / "runs").exists()


def prompts_in(folder, text):
    folder.mkdir(exist_ok=True)
    (folder / "answer.jinja").write_text(text)
    return folder


def test_a_plan_ends_with_code_2_where_the_run_would_be_refused(run, tmp_path):
    """Another prompt, other turns, half a run with another prompt, other files in the folder."""
    out = tmp_path / "runs"
    own = prompts_in(tmp_path / "p", "Answer {{ question }} in short.")
    given = ["ad", *BOTH, "--resources", f"prompts={own}"]
    succeeded(run(out, *given, "--plan"))
    succeeded(run(out, *given))
    succeeded(run(out, *given, "--plan"))  # the same run
    succeeded(run(tmp_path / "others", *given, "--plan"))
    prompts_in(own, "Answer {{ question }} at length.")
    for more in ((), ("--format", "csv")):
        planned = run(out, *given, "--plan", *more)
        told = " ".join(planned.output.split())
        assert planned.exit_code == 2
        assert (
            f"{out}/ad holds a run with different prompts (1 answer): choose another --out, or "
            "remove it" in told
        )
        assert "answer" in planned.stdout
    assert run(out, *given).exit_code == 2
    assert run(out, "ad", *ONE, "--plan").exit_code == 2
    (tmp_path / "full" / "raw").mkdir(parents=True)
    (tmp_path / "full" / "raw" / "notes.txt").touch()
    refused = run(tmp_path / "full", "raw", "--plan")
    assert refused.exit_code == 2
    assert "is not empty and holds no finished run" in " ".join(refused.output.split())


def test_a_plan_refuses_unknown_measures_or_baselines_as_a_run(run, refused, tmp_path):
    for more in (("--measures", "nDGC@5"), ("--baseline", "other")):
        planned = refused(run(tmp_path / "runs", "ad", *more, "--plan"))
        ran = refused(run(tmp_path / "runs", "ad", *more))
        assert planned == ran


def test_a_plan_in_python_says_what_would_be_refused(sample_index, tmp_path):
    system = {"mine": ikat.RawUtterance() >> ikat.PassageIndex(sample_index).bm25(num_results=5)}
    other = {"mine": ikat.RawUtterance() >> ikat.PassageIndex(sample_index).bm25(num_results=6)}
    ikat.run(system, "ikat:sample", out=tmp_path)
    assert ikat.plan(system, "ikat:sample", out=tmp_path).refused == []
    [told] = ikat.plan(other, "ikat:sample", out=tmp_path).refused
    assert "mine holds a run with different stages" in told
    assert "The run would be refused:" in str(ikat.plan(other, "ikat:sample", out=tmp_path))
    [told] = ikat.plan({"mine": ikat.RawUtterance()}, "ikat:sample", out=tmp_path / "new").refused
    assert "makes no ranking" in told
