"""How often tests of equal systems reject at .05, and how alike real turns of a cluster are.

    python experiments/quality/coverage.py            # print the table of docs/evidence.md
    python experiments/quality/coverage.py --write    # write it onto the page

``--measure`` renews ``correlations.json``; it needs IKAT_DATA, with the public runs in outputs/.
``--sizes`` renews ``cluster_sizes.json`` from the data sets in IKAT_DATA.

Simulated differences of a turn are normal: sqrt(r) times a number that all turns of a cluster
share, plus sqrt(1 - r) times one of its own. So r is the intra-cluster correlation, and the true
mean is 0. ``correlations.json`` has those of real systems.
"""

import argparse
import itertools
import json
import sys
from collections import Counter
from pathlib import Path

import numpy as np
from scipy import stats

from pyterrier_ikat.evaluation.inference import compare, degrees_of_freedom

FOLDER = Path(__file__).parent
SIZES = FOLDER / "cluster_sizes.json"
MEASURED = FOLDER / "correlations.json"
PAGE = FOLDER.parents[1] / "docs" / "evidence.md"
CORRELATIONS = (0.0, 0.1, 0.2)
SIMULATIONS = 10_000
SEED = 20
BEGIN = "<!-- generated: coverage -->"
END = "<!-- end -->"
OF_DATA = (
    ("ikat:2023", None, "topic"),
    ("ikat:2023", None, "conversation"),
    ("ikat:2023-mini", None, "topic"),
    ("ikat:2023-mini", None, "conversation"),
    ("ikat:2023", "ptkb_nist", "topic"),
    ("ikat:2023", "ptkb_nist", "conversation"),
    ("ikat:2023", "ptkb_org", "topic"),
    ("ikat:2023", "ptkb_org", "conversation"),
    ("ikat:2024", None, "conversation"),
    ("ikat:2025", "provenance", "user"),
    ("ikat:2025", "provenance", "conversation"),
    ("cast:2019", None, "conversation"),
    ("cast:2020", None, "conversation"),
    ("cast:2021", None, "conversation"),
    ("mtrag:mini", None, "conversation"),
    ("mtrag:clapnq", None, "conversation"),
    ("mtrag:cloud", None, "conversation"),
    ("mtrag:fiqa", None, "conversation"),
    ("mtrag:govt", None, "conversation"),
)
"""Data set, variant of its judgements, unit: the judged turns of each unit are the sizes."""
DRAWN = (5, 11, 17, 25)
"""Numbers of clusters whose sizes are drawn from 4 to 20."""


def read_sizes():
    """The sizes of clusters in each data set, with what they are of."""
    return json.loads(SIZES.read_text(encoding="utf-8"))


def renew_sizes():
    """Count the judged turns of each cluster."""
    import pyterrier_ikat as ikat

    lines = []
    for name, variant, unit in OF_DATA:
        data = ikat.dataset(name)
        judged = data.get_qrels(variant)["qid"].unique()
        clusters = data.clusters(unit)
        sizes = sorted(Counter(clusters[qid] for qid in judged).values())
        title = name if variant is None else f"{name} {variant}"
        lines.append(f" {json.dumps(f'{title}, by {unit}')}: {json.dumps(sizes)}")
    text = ",\n".join(lines)
    SIZES.write_text(f"{{\n{text}\n}}\n", encoding="utf-8")


def simulate(sizes, correlation, simulations, random):
    """The shares of simulations in which the t-test over turns and CR2 reject a true mean of 0."""
    sizes = np.asarray(sizes)
    turns = sizes.sum()
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    # Simulations x turns.
    shared = np.repeat(random.normal(size=(simulations, len(sizes))), sizes, axis=1)
    own = random.normal(size=(simulations, turns))
    differences = np.sqrt(correlation) * shared + np.sqrt(1 - correlation) * own
    means = differences.mean(axis=1)
    over_turns = differences.std(axis=1, ddof=1) / np.sqrt(turns)
    p_turns = 2 * stats.t.sf(np.abs(means) / over_turns, turns - 1)
    sums = np.add.reduceat(differences, starts, axis=1) - means[:, None] * sizes
    robust = np.sqrt((sums**2 / (1 - sizes / turns)).sum(axis=1)) / turns
    p_robust = 2 * stats.t.sf(np.abs(means) / robust, degrees_of_freedom(sizes.astype(float)))
    names = np.repeat(np.arange(len(sizes)), sizes).astype(str)
    for row in range(3):  # the arrays compute what the package computes
        wanted = compare(differences[row], np.zeros(turns), names).p_value
        assert abs(p_robust[row] - wanted) < 1e-9
    return float((p_turns < 0.05).mean()), float((p_robust < 0.05).mean())


def simulate_drawn(number, correlation, random, draws=100):
    """The same for sizes from 4 to 20, drawn a hundred times."""
    rates = []
    for _ in range(draws):
        sizes = random.integers(4, 21, number)
        rates.append(simulate(sizes, correlation, SIMULATIONS // draws, random))
    return tuple(np.mean(rates, axis=0).tolist())


def rejected():
    """A row for each data set: its clusters, turns, and both tests' rates at each correlation."""
    rows = []
    for title, sizes in read_sizes().items():
        random = np.random.default_rng(SEED)
        rates = [simulate(sizes, correlation, SIMULATIONS, random) for correlation in CORRELATIONS]
        rows.append((title, len(sizes), sum(sizes), max(sizes), rates))
    for number in DRAWN:
        random = np.random.default_rng(SEED)
        rates = [simulate_drawn(number, correlation, random) for correlation in CORRELATIONS]
        rows.append(("sizes drawn from 4 to 20", number, None, 20, rates))
    return rows


def correlation_of(values, clusters):
    """The intra-cluster correlation of values (one-way ANOVA), and the design effect of their mean.

    The design effect is that of CR2: its variance of the mean, divided by that of independent
    turns.
    """
    values = np.asarray(values, dtype=float)
    names, numbers = np.unique(clusters, return_inverse=True)
    sizes = np.bincount(numbers).astype(float)
    turns, groups = sizes.sum(), len(names)
    means = np.bincount(numbers, values) / sizes
    between = (sizes * (means - values.mean()) ** 2).sum() / (groups - 1)
    within = ((values - means[numbers]) ** 2).sum() / (turns - groups)
    size = (turns - (sizes**2).sum() / turns) / (groups - 1)
    correlation = (between - within) / (between + (size - 1) * within)
    sums = np.bincount(numbers, values - values.mean())
    robust = (sums**2 / (1 - sizes / turns)).sum() / turns**2
    return float(correlation), float(robust / (values.var(ddof=1) / turns))


def of_pairs(scores, clusters):
    """Correlations and design effects of the differences between each two systems."""
    correlations = []
    effects = []
    for first, second in itertools.combinations(scores, 2):
        differences = np.subtract(scores[first], scores[second])
        correlation, effect = correlation_of(differences, clusters)
        correlations.append(round(correlation, 4))
        effects.append(round(effect, 4))
    return correlations, effects


def of_mini(name, folder):
    """nDCG@10 of six systems on ikat:2023-mini, by system, and the turns."""
    import pyterrier_ikat as ikat

    data = ikat.dataset(name)
    corpus = data.get_corpus_iter(verbose=False)
    index = ikat.PassageIndex(Path(folder) / "mini.index").index(corpus)
    llm = ikat.llm("recorded:cfda-llm4cs")
    ways = {
        "raw": ikat.RawUtterance(),
        "all utterances": ikat.AllUtterances(),
        "manual rewrite": ikat.ManualRewrite(),
        "rewrite": ikat.Rewrite(llm),
        "answer": ikat.Answer(llm),
        "rewrite and answer": ikat.RewriteAndAnswer(llm),
    }
    topics = data.get_topics("manual")
    judged = data.get_qrels()
    scores = {}
    for title, way in ways.items():
        results = (way >> index.bm25()).transform(topics)
        table = ikat.evaluation.per_turn(results, judged, ["nDCG@10"])
        scores[title] = table["nDCG@10"].tolist()
        turns = table["qid"].tolist()
    return scores, turns


def of_public_run(name, file):
    """nDCG@5 of a public run, and the judged turns."""
    import pyterrier_ikat as ikat
    from pyterrier_ikat.conversations.public_outputs import output_file
    from pyterrier_ikat.evaluation.evaluator import Evaluator, as_measures, judgements_by_turn

    judged = judgements_by_turn(ikat.dataset(name).get_qrels().itertuples(index=False, name=None))
    evaluator = Evaluator(judged, as_measures("nDCG@5"))
    ranking = json.loads(output_file("cfda-2025", file).read_text(encoding="utf-8"))
    return evaluator.per_turn(file, ranking)["nDCG@5"], evaluator.turns


def of_nuggets():
    """The share of nuggets in the responses of six runs of 2024, and the turns that all have."""
    import pyterrier_ikat as ikat

    labels = ikat.dataset("ikat:2024").get_nugget_labels().drop(columns="nugget")
    by_run = {}
    for run, of_run in labels.groupby("run"):
        by_run[run] = ikat.evaluation.nugget_scores(of_run).set_index("qid")["all"]
    turns = sorted(set.intersection(*(set(scores.index) for scores in by_run.values())))
    return {run: scores[turns].tolist() for run, scores in by_run.items()}, turns


def measure(folder):
    """Write the correlations and design effects of real systems for each data set and unit."""
    of_2023 = "adarewriter10_llm4csnpr_cand10_splade_rerank_deberta-2023-run.json"
    of_2024 = "gpt4o_splade_rerank_deberta-2024-run.json"
    both = ("topic", "conversation")
    rows = []
    scores, turns = of_mini("ikat:2023-mini", folder)
    what = "nDCG@10, differences of 15 pairs of six systems"
    rows += measured_rows("ikat:2023-mini", what, scores, turns, both)
    scores, turns = of_public_run("ikat:2023", of_2023)
    what = "nDCG@5 of CFDA's public run, itself"
    rows += measured_rows("ikat:2023", what, scores, turns, both)
    scores, turns = of_public_run("ikat:2024", of_2024)
    rows += measured_rows("ikat:2024", what, scores, turns, ("conversation",))
    scores, turns = of_nuggets()
    what = "nuggets stated, differences of 15 pairs of six public runs"
    rows += measured_rows("ikat:2024", what, scores, turns, ("conversation",))
    MEASURED.write_text("[\n " + ",\n ".join(map(json.dumps, rows)) + "\n]\n", encoding="utf-8")


def measured_rows(data, what, values, turns, units):
    """A row for each unit; ``values`` are those of one system, or of several by name."""
    import pyterrier_ikat as ikat

    rows = []
    for unit in units:
        cluster_of = ikat.dataset(data).clusters(unit)
        clusters = [cluster_of[qid] for qid in turns]
        if isinstance(values, dict):
            correlations, effects = of_pairs(values, clusters)
        else:
            correlation, effect = correlation_of(values, clusters)
            correlations = [round(correlation, 4)]
            effects = [round(effect, 4)]
        rows.append(
            {
                "data": data,
                "what": what,
                "unit": unit,
                "turns": len(turns),
                "clusters": len(set(clusters)),
                "correlations": correlations,
                "design_effects": effects,
            }
        )
    return rows


def rate(value):
    """A rate as the page shows it."""
    return f"{value:.3f}".removeprefix("0")


def page():
    """Both tables, as they stand on the page of evidence."""
    return "\n".join([*rejection_lines(), "", *correlation_lines()])


def rejection_lines():
    """The table of true nulls that are rejected, and what CR2 does."""
    lines = [
        f"True nulls rejected at .05, of {SIMULATIONS:,} simulations each, at an intra-cluster "
        "correlation of 0 / .1 / .2:",
        "",
        "| judged turns of | clusters | turns | largest | t-test over turns | CR2 |",
        "| :--- | ---: | ---: | ---: | :--- | :--- |",
    ]
    every = []
    outside = []
    for title, clusters, turns, largest, rates in rejected():
        over_turns = " / ".join(rate(of_t_test) for of_t_test, _ in rates)
        robust = " / ".join(rate(of_cr2) for _, of_cr2 in rates)
        size = turns or ""
        lines.append(f"| {title} | {clusters} | {size} | {largest} | {over_turns} | {robust} |")
        for correlation, (_, of_cr2) in zip(CORRELATIONS, rates, strict=True):
            every.append(of_cr2)
            if not 0.04 <= round(of_cr2, 3) <= 0.06:
                case = f"{title}, {clusters} clusters: {rate(of_cr2)} at {correlation:g}"
                outside.append(case.replace(" 0.", " ."))
    cases = "; ".join(outside) or "none"
    return [
        *lines,
        "",
        f"CR2 rejects from {rate(min(every))} to {rate(max(every))}. Outside .04 to .06: {cases}.",
    ]


def correlation_lines():
    """The table of how alike real turns are."""
    lines = [
        "How alike real turns of a cluster are (median, and range over pairs of systems):",
        "",
        "| data | what | unit | turns | clusters | intra-cluster correlation | design effect |",
        "| :--- | :--- | :--- | ---: | ---: | :--- | :--- |",
    ]
    for row in json.loads(MEASURED.read_text(encoding="utf-8")):
        cells = [str(row[name]) for name in ("data", "what", "unit", "turns", "clusters")]
        cells += [middle(row["correlations"], 2), middle(row["design_effects"], 1)]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def middle(values, digits):
    """The median of values, and their range if there are several."""
    shown = []
    for value in (np.median(values), min(values), max(values)):
        text = f"{value:.{digits}f}"
        shown.append(text.replace("0.", ".", 1) if abs(value) < 1 else text)
    median, least, greatest = shown
    return median if len(values) == 1 else f"{median} ({least} to {greatest})"


def main():
    """Print or write the tables."""
    options = argparse.ArgumentParser(description=__doc__)
    for name in ("write", "measure", "sizes"):
        options.add_argument(f"--{name}", action="store_true")
    options.add_argument(
        "--folder", default=".", help="where the index of ikat:2023-mini is or will be"
    )
    arguments = options.parse_args()
    if arguments.sizes:
        renew_sizes()
    if arguments.measure:
        measure(arguments.folder)
    made = page()
    if not arguments.write:
        print(made)
        return
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, found, after = rest.partition(END)
    if not found:
        sys.exit(f"{PAGE} has no place for the tables: {BEGIN} ... {END}")
    PAGE.write_text(f"{before}{BEGIN}\n{made}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
