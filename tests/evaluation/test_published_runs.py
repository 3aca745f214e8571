"""Runs that other teams published score here as they published.

This is an independent evaluation of real runs by NIST's judgements.
"""

import json

import pytest

import pyterrier_ikat as ikat

RUNS = {
    2023: "adarewriter10_llm4csnpr_cand10_splade_rerank_deberta-2023",
    2024: "gpt4o_splade_rerank_deberta-2024",
}
OURS = {"mrr": "RR(rel=2)", "recall": "R(rel=2)", "ndcg": "nDCG"}


@pytest.mark.parametrize("year", RUNS)
def test_20_published_scores_of_a_run_come_out(year, shared, ikat_data, tmp_path):
    folder = shared / "outputs" / "cfda-2025"
    run = json.loads((folder / f"{RUNS[year]}-run.json").read_text())
    published = json.loads((folder / f"{RUNS[year]}-perf.json").read_text())
    lines = []
    for qid, found in run.items():
        for docno, score in found.items():
            lines.append(f"{qid} Q0 {docno} 0 {score!r} run")
    (tmp_path / "run.trec").write_text("\n".join(lines))
    measures = {}
    for name in published:
        theirs, *_, cutoff = name.split("_")
        measures[name] = f"{OURS[theirs]}@{cutoff}"
    qrels = ikat.dataset(f"ikat:{year}").get_qrels()
    [scores] = ikat.evaluate(
        {"run": ikat.runs.read_run(tmp_path / "run.trec")}, qrels, list(measures.values())
    ).to_dict("records")
    assert len(published) == 20
    assert {name: scores[measure] for name, measure in measures.items()} == pytest.approx(
        published, abs=1e-9
    )
