"""Figures in one pass equal those of pytrec_eval and ir_measures on frames."""

import ir_measures
import numpy as np
import pandas as pd
import pytest
import pytrec_eval
from hypothesis import given
from hypothesis import strategies as st
from ir_measures import NumRet, nDCG
from small_frames import by_turn, direct, random_runs

from pyterrier_ikat.errors import DataError, UsageError
from pyterrier_ikat.evaluation import as_measures, breakdown, evaluate, label, per_turn, pool_runs
from pyterrier_ikat.evaluation.evaluator import Evaluator, parse_measure, provider_of
from pyterrier_ikat.runs import read_run, strictly_decreasing, write_run


def test_figures_equal_pytrec_eval_over_all_turns_of_the_qrels():
    runs, qrels = random_runs()
    names = {
        "nDCG@5": "ndcg_cut_5",
        "P(rel=1)@20": "P_20",
        "R(rel=1)@20": "recall_20",
        "AP(rel=1)": "map",
    }
    table = evaluate(runs, qrels, list(names)).set_index("name")
    for name, run in runs.items():
        expected = direct(run, qrels, list(names.values()))
        for ours, theirs in names.items():
            assert table.loc[name, ours] == pytest.approx(np.mean(expected[theirs]), abs=1e-12)
    assert table["turns"].tolist() == [30, 30, 30]


def test_a_run_file_gives_the_figures_of_the_frame(tmp_path):
    runs, qrels = random_runs()
    read = {}
    for name, run in runs.items():
        runs[name] = strictly_decreasing(run)
        write_run(run, tmp_path / f"{name}.trec")
        read[name] = read_run(tmp_path / f"{name}.trec")
    first = evaluate(runs, qrels)
    second = evaluate(read, qrels)
    pd.testing.assert_frame_equal(first, second, rtol=0, atol=1e-9)


def test_per_turn_lists_every_turn_of_the_qrels():
    runs, qrels = random_runs()
    figures = per_turn(runs["three"], qrels, [nDCG @ 5])
    assert figures["qid"].tolist() == qrels["qid"].drop_duplicates().tolist()
    assert figures["nDCG@5"].tolist()[-2:] == [0.0, 0.0]
    assert figures["nDCG@5"].mean() == pytest.approx(
        evaluate({"x": runs["three"]}, qrels, [nDCG @ 5])["nDCG@5"][0]
    )


def test_a_measure_of_judged_passages_leaves_the_others_alone():
    measures = as_measures("P(judged_only=True)@2, NumRet")
    evaluator = Evaluator({"1_1": {"b": 1, "c": 0}}, measures)
    scores = evaluator.per_turn("mine", {"1_1": {"a": 3.0, "b": 2.0, "c": 1.0}})
    assert list(scores.values()) == [[0.5], [3.0]]


def test_other_providers_get_the_best_passage_first():
    evaluator = Evaluator({"1_1": {"a": 1, "z": 0}}, as_measures("Judged@1"))
    assert evaluator.per_turn("mine", {"1_1": {"b": 1.0, "a": 2.0}}) == {"Judged@1": [1.0]}
    assert evaluator.per_turn("mine", {"1_1": {"b": 2.0, "a": 1.0}}) == {"Judged@1": [0.0]}


def by_rank(run):
    """Scores that say the order of the ranks.

    The form is qid -> docno -> how many passages stand from here on.
    """
    turns = {}
    for qid, rows in run.groupby("qid"):
        docnos = rows.sort_values("rank")["docno"].tolist()
        scores = np.arange(len(docnos), 0, -1, dtype=float).tolist()
        turns[qid] = dict(zip(docnos, scores, strict=True))
    return turns


def defined(measures, run, qrels):
    """(qid, measure) -> figure, by ir_measures, each measure alone.

    The scores say the order of the ranks.
    """
    judged = by_turn(qrels, "label")
    figures = {}
    for measure in measures:
        for metric in ir_measures.iter_calc([measure], judged, by_rank(run)):
            figures[metric.query_id, label(metric.measure)] = metric.value
    return figures


TREC_EVAL = {
    **{
        "map": "AP(rel={})",
        "map_cut_5": "AP(rel={})@5",
        "P_5": "P(rel={})@5",
        "recall_10": "R(rel={})@10",
        "Rprec": "Rprec(rel={})",
    },
    **{
        "bpref": "Bpref(rel={})",
        "recip_rank": "RR(rel={})",
        "ndcg": "nDCG",
        "ndcg_cut_5": "nDCG@5",
        "success_1": "Success(rel={})@1",
    },
    **{
        "set_P": "SetP(rel={})",
        "set_recall": "SetR(rel={})",
        "set_map": "SetAP(rel={})",
        "set_F": "SetF(rel={})",
        "infAP": "infAP(rel={})",
    },
    **{
        "iprec_at_recall_0.20": "IPrec(rel={})@0.2",
        "num_ret": "NumRet",
        "num_rel_ret": "NumRet(rel={})",
        "num_q": "NumQ",
    },
    **{"set_relative_P": "SetP(rel={},relative=True)"},
}
"""trec_eval's name -> ours, for a relevance level."""
DOCNOS = [
    *"aAbZ09",
    "clueweb22-en0000-01-00002:7",
    "\u00e9",
    "\ufb00",
    "\U0001f600",
    "\uffee",
    "z\u0301",
]
NEAR = [
    1.0,
    1.0 + 1e-9,
    1 - 1e-12,
    0.1,
    float(np.float32(0.1)),
    -0.0,
    0.0,
    -3,
    -1e-46,
    3e38,
    -3e38,
    3,
    16777216,
    16777217,
]
"""Scores of which many are one and the same as 32-bit floats."""


@st.composite
def foreign_runs(draw):
    """A run with many tied scores, rows in any order and gaps in its ranks; and judgements.

    The run lacks turns and has others.
    """
    qids = ["9-1_1", "9-1_2", "10-1_2", "7", "-3"]
    judged = []
    for qid in qids:
        # trec_eval itself may loop where all labels of a turn are below 0
        judged.append((qid, "anchor", 0))
        for docno in draw(st.lists(st.sampled_from(DOCNOS), min_size=1, unique=True)):
            judged.append((qid, docno, draw(st.integers(-1, 4))))
    found = [("9-1_2", "anchor")]  # a run without a judged turn or passage is refused
    for qid in [*qids[1:], "never judged"]:
        for docno in draw(st.lists(st.sampled_from(DOCNOS), unique=True)):
            found.append((qid, docno))
    scored = []
    for qid, docno in draw(st.permutations(found)):
        scored.append((qid, docno, draw(st.sampled_from(NEAR))))
    scored.sort(key=lambda row: -np.float32(row[2]))  # ties are in any order
    ranked = []
    for place, row in enumerate(scored):
        ranked.append((*row, 3 * place - 5))
    rows = draw(st.permutations(ranked))
    run = pd.DataFrame(rows, columns=["qid", "docno", "score", "rank"]).astype(
        {"qid": object, "docno": object, "score": float}
    )
    return run, pd.DataFrame(judged, columns=["qid", "docno", "label"])


@pytest.mark.filterwarnings("ignore::pyterrier_ikat.evaluation.evaluator.RelevanceWarning")
@given(foreign_runs(), st.integers(1, 3))
def test_any_run_gets_trec_evals_figures_in_rank_order(case, level):
    run, qrels = case
    judged = by_turn(qrels, "label")
    found = pytrec_eval.RelevanceEvaluator(judged, set(TREC_EVAL), relevance_level=level).evaluate(
        by_rank(run)
    )
    leveled = {name: parse_measure(measure.format(level)) for name, measure in TREC_EVAL.items()}
    figures = per_turn(run, qrels, list(leveled.values())).set_index("qid")
    for name, measure in leveled.items():
        lost = float(name == "num_q")  # trec_eval -c counts all turns of the qrels
        ours = figures[label(measure)].to_dict()
        assert ours.keys() == judged.keys()
        for qid, figure in ours.items():
            assert figure == pytest.approx(found.get(qid, {}).get(name, lost), abs=1e-9)


OTHERS = [
    "RR@3",
    "RR(rel=2)@10",
    "Judged@3",
    "Compat(p=0.8)",
    "ERR@5",
    "nDCG(dcg='exp-log2')@5",
    "nDCG(gains={1:7,4:1})@3",
]
OTHERS += ["P(judged_only=True)@3"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pyterrier_ikat.evaluation.evaluator.RelevanceWarning")
@given(foreign_runs())
def test_providers_other_than_trec_eval_see_the_same_order(case):
    run, qrels = case
    measures = [measure for measure in map(parse_measure, OTHERS) if provider_of(measure)]
    shown = {}
    for number, qid in enumerate(qrels["qid"].unique()):
        shown[qid] = str(number)  # gdeval reads nothing but numbers
    renamed = run[run["qid"].isin(shown)]
    expected = defined(
        measures,
        renamed.assign(qid=renamed["qid"].map(shown)),
        qrels.assign(qid=qrels["qid"].map(shown)),
    )
    figures = per_turn(run, qrels, [nDCG @ 3, *measures, NumRet]).set_index("qid")
    for qid in shown:
        for measure in map(label, measures):
            assert figures.loc[qid, measure] == pytest.approx(
                expected.get((shown[qid], measure), 0.0), abs=1e-9
            ), measure
    assert figures["nDCG@3"].tolist() == per_turn(run, qrels, [nDCG @ 3])["nDCG@3"].tolist()
    assert figures["NumRet"].sum() == run["qid"].isin(shown).sum()


def test_a_turn_that_was_not_judged_after_all_has_zeros():
    run = pd.DataFrame({"qid": ["1_1", "1_2"], "docno": "a", "score": 1.0, "rank": 0})
    qrels = pd.DataFrame({"qid": ["1_1", "1_2"], "docno": "a", "label": [3, -2]})
    measures = ["nDCG@3", "nDCG", "AP", "Bpref", "infAP", "Rprec", "SetR"]
    assert per_turn(run, qrels, measures).drop(columns="qid").values.tolist() == [
        [1.0] * 7,
        [0.0] * 7,
    ]


def test_a_measure_of_ones_own_gets_scores_in_rank_order():
    run = pd.DataFrame(
        {
            "qid": "1_1",
            "docno": ["a", "b", "c"],
            "score": [0.1, 0.1 + 1e-12, 7.0],
            "rank": [2, 1, 0],
        }
    )
    qrels = pd.DataFrame({"qid": ["1_1", "1_2"], "docno": "a", "label": 1})
    seen = []
    own = ir_measures.define_byquery(
        lambda qrels, run: seen.append(run[["doc_id", "score"]].values.tolist()) or 0.5, name="Own"
    )
    assert per_turn(run, qrels, [own, own(cutoff=2)])["Own"].tolist() == [0.5, 0.0]
    tenth = float(np.float32(0.1))
    lower = float(np.nextafter(np.float32(0.1), np.float32(0)))
    assert seen == [[["c", 7.0], ["b", tenth], ["a", lower]], [["c", 7.0], ["b", tenth]]]


def test_a_measure_of_ones_own_that_fails_is_told_what_it_gets():
    runs, qrels = random_runs(turns=2)
    own = ir_measures.define_byquery(lambda qrels, run: max(run, key=run.get), name="Own")
    with pytest.raises(
        DataError,
        match=(
            r"Own of the provider runtime stops with ValueError: .*: it gets two frames of one "
            r"turn, qrels \(query_id"
        ),
    ):
        per_turn(runs["one"], qrels, [own])


def test_measures_that_need_a_program_name_it(monkeypatch):
    for provider in ir_measures.DefaultPipeline.providers:
        monkeypatch.setattr(
            provider, "is_available", lambda name=provider.NAME: name == "pytrec_eval"
        )
    with pytest.raises(
        UsageError, match=r"measure 'ERR@5' can't be computed here .it needs Install perl"
    ):
        as_measures(["ERR@5"])


def test_counts_are_added_up_not_averaged():
    runs, qrels = random_runs(turns=4)
    assert evaluate({"one": runs["one"]}, qrels, [NumRet])["NumRet"].tolist() == [4 * 30]


@pytest.mark.parametrize(
    ("change", "error", "word"),
    [
        (
            lambda run: run.drop(columns="rank"),
            UsageError,
            "no column rank in run x.*pt.model.add_ranks",
        ),
        (lambda run: run.assign(docno=range(len(run))), DataError, "the docno 0 is not a text"),
        (
            lambda run: run.assign(qid=run["qid"].astype(object).where(run["rank"] > 0)),
            DataError,
            "the qid nan is not a text",
        ),
        (lambda run: run.assign(score=np.nan), DataError, "gave the score"),
        (lambda run: run.assign(score=np.inf), DataError, "gave the score"),
        (lambda run: run.assign(score=1e39), DataError, "gave the score"),
        (lambda run: run.assign(score="high"), DataError, "gave the score"),
        (lambda run: pd.concat([run, run]), DataError, "turn 9-1_0 has passage .* twice"),
        (
            lambda run: run.assign(rank=-run["rank"]),
            DataError,
            r"turn 9-1_0, .* rises with the rank",
        ),
        (
            lambda run: run.assign(qid=run["qid"].str.replace("9-1_2", "9-1-2")),
            DataError,
            "like 9-1-2, the wanted ones like 9-1_2",
        ),
        (
            lambda run: run.assign(qid="7_1", docno="d" + run.index.astype(str)),
            DataError,
            "run x has no turn of the qrels.*7_1",
        ),
    ],
)
def test_runs_that_would_be_misread(change, error, word):
    runs, qrels = random_runs(turns=4)
    with pytest.raises(error, match=f"run x.*{word}" if "run x" not in word else word):
        evaluate({"good": runs["one"], "x": change(runs["one"])}, qrels)
    with pytest.raises(error):
        per_turn(change(runs["one"]), qrels)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda qrels: pd.concat([qrels, qrels]), "judge turn 9-1_0, passage .* twice"),
        (lambda qrels: qrels.assign(qid=7), "the qid 7 is not a text"),
        (lambda qrels: qrels.assign(docno=range(len(qrels))), "the docno 0 is not a text"),
        (
            lambda qrels: qrels.assign(docno=qrels["docno"].where(qrels.index > 0)),
            "the docno nan is not a text",
        ),
    ],
)
def test_qrels_that_would_be_misread(change, word):
    runs, qrels = random_runs(turns=4)
    for call in (evaluate, lambda runs, qrels: per_turn(runs["one"], qrels)):
        with pytest.raises(DataError, match=f"the qrels.*{word}"):
            call(runs, change(qrels))


def test_categories_are_texts():
    runs, qrels = random_runs(turns=4)
    ids = {"qid": "category", "docno": "category"}
    categories = {name: run.astype(ids) for name, run in runs.items()}
    pd.testing.assert_frame_equal(evaluate(categories, qrels.astype(ids)), evaluate(runs, qrels))
    pd.testing.assert_frame_equal(breakdown(categories, qrels.astype(ids)), breakdown(runs, qrels))
    assert pool_runs(categories, 3).equals(pool_runs(runs, 3))
    figures = {name: per_turn(run, qrels) for name, run in runs.items()}
    named = {name: table.astype({"qid": "category"}) for name, table in figures.items()}
    pd.testing.assert_frame_equal(breakdown(named, by="depth"), breakdown(figures, by="depth"))
    with pytest.raises(DataError, match=r"x: the qid 0 is not a text: .* convert it with frame\["):
        breakdown({"x": figures["one"].assign(qid=range(4))})
    with pytest.raises(DataError, match="run x: the docno 0 is not a text"):
        evaluate({"x": runs["one"].assign(docno=pd.Categorical(range(len(runs["one"]))))}, qrels)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda runs: runs["one"], r'runs.*: give each frame its name, {"name": frame, ...}'),
        (lambda runs: list(runs.values()), "runs.*: give each frame its name"),
        (lambda runs: runs | {"two": 2}, "run two is a int: give a frame"),
        (lambda runs: {}, "there is no run: give at least one"),
    ],
)
def test_runs_have_names(change, message):
    runs, qrels = random_runs(turns=4)
    with pytest.raises(UsageError, match=message):
        evaluate(change(runs), qrels)


def test_runs_without_judgements_are_not_evaluated(tmp_path):
    with pytest.raises(
        UsageError, match=r"there are no judgements: give qrels=\.\.\. Only run folders"
    ):
        evaluate(random_runs(turns=4)[0])


@pytest.mark.parametrize("given", ["ikat:sample", 7])
def test_qrels_are_a_frame(given):
    runs, _ = random_runs(turns=4)
    for call in (evaluate, lambda runs, qrels: per_turn(runs["one"], qrels)):
        with pytest.raises(UsageError, match="qrels.*: give a frame, such as pt.get_dataset"):
            call(runs, given)


def test_labels_written_as_text_count_as_numbers():
    runs, qrels = random_runs(turns=4)
    pd.testing.assert_frame_equal(
        evaluate(runs, qrels), evaluate(runs, qrels.assign(label=qrels["label"].astype(str)))
    )
