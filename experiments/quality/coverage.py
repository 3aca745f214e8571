"""How often tests of equal systems reject at .05, and how alike real turns of a cluster are.

    python experiments/quality/coverage.py                  # the table of docs/evidence.md, printed
    python experiments/quality/coverage.py --write          # written onto the page python
    experiments/quality/coverage.py --measure        # measured anew, too: needs IKAT_DATA, with the
    public runs in outputs/ python experiments/quality/coverage.py --sizes          #
    cluster_sizes.json anew, from the data sets in IKAT_DATA

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
BEGIN, END = "<!-- generated: coverage -->", "<!-- end -->"
OF_DATA = (
    *(
        ("ikat:2023", None, "topic"),
        ("ikat:2023", None, "conversation"),
        ("ikat:2023-mini", None, "topic"),
    ),
    *(
        ("ikat:2023-mini", None, "conversation"),
        ("ikat:2023", "ptkb_nist", "topic"),
        ("ikat:2023", "ptkb_nist", "conversation"),
    ),
    *(
        ("ikat:2023", "ptkb_org", "topic"),
        ("ikat:2023", "ptkb_org", "conversation"),
        ("ikat:2024", None, "conversation"),
    ),
    *(("ikat:2025", "provenance", "user"), ("ikat:2025", "provenance", "conversation")),
    *(
        ("cast:2019", None, "conversation"),
        ("cast:2020", None, "conversation"),
        ("cast:2021", None, "conversation"),
    ),
    *(
        ("mtrag:mini", None, "conversation"),
        ("mtrag:clapnq", None, "conversation"),
        ("mtrag:cloud", None, "conversation"),
    ),
    *(("mtrag:fiqa", None, "conversation"), ("mtrag:govt", None, "conversation")),
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

    found = {}
    for name, variant, unit in OF_DATA:
        data = ikat.dataset(name)
        judged = data.get_qrels(variant)["qid"].unique()
        clusters = data.clusters(unit)
        title = f"{name} {variant or ''}".strip()
        found[f"{title}, by {unit}"] = sorted(Counter(clusters[qid] for qid in judged).values())
    lines = ",\n".join(
        f" {json.dumps(title)}: {json.dumps(sizes)}" for title, sizes in found.items()
    )
    SIZES.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")


def simulate(sizes, correlation, simulations, random):
    """The shares of simulations in which the t-test over turns and CR2 reject a true mean of 0."""
    sizes = np.asarray(sizes)
    turns = sizes.sum()
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    shared = np.repeat(random.normal(size=(simulations, len(sizes))), sizes, axis=1)
    differences = np.sqrt(correlation) * shared + np.sqrt(1 - correlation) * random.normal(
        size=(simulations, turns)
    )
    means = differences.mean(axis=1)
    over_turns = differences.std(axis=1, ddof=1) / np.sqrt(turns)
    p_turns = 2 * stats.t.sf(np.abs(means) / over_turns, turns - 1)
    sums = np.add.reduceat(differences, starts, axis=1) - means[:, None] * sizes
    robust = np.sqrt((sums**2 / (1 - sizes / turns)).sum(axis=1)) / turns
    p_robust = 2 * stats.t.sf(np.abs(means) / robust, degrees_of_freedom(sizes.astype(float)))
    names = np.repeat(np.arange(len(sizes)), sizes).astype(str)
    for place in range(3):  # the arrays compute what the package computes
        wanted = compare(differences[place], np.zeros(turns), names).p_value
        assert abs(p_robust[place] - wanted) < 1e-9
    return float((p_turns < 0.05).mean()), float((p_robust < 0.05).mean())


def simulate_drawn(number, correlation, random, draws=100):
    """The same for sizes from 4 to 20, drawn a hundred times."""
    found = [
        simulate(random.integers(4, 21, number), correlation, SIMULATIONS // draws, random)
        for _ in range(draws)
    ]
    return tuple(np.mean(found, axis=0).tolist())


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
    found = [
        correlation_of(np.subtract(scores[one], scores[other]), clusters)
        for one, other in itertools.combinations(scores, 2)
    ]
    return [round(one, 4) for one, _ in found], [round(effect, 4) for _, effect in found]


def of_mini(name, folder):
    """nDCG@10 of six systems on ikat:2023-mini, by system, and the turns."""
    import pyterrier_ikat as ikat

    data = ikat.dataset(name)
    index = ikat.PassageIndex(Path(folder) / "mini.index").index(
        data.get_corpus_iter(verbose=False)
    )
    llm = ikat.llm("recorded:cfda-llm4cs")
    ways = {
        "raw": ikat.RawUtterance(),
        "all utterances": ikat.AllUtterances(),
        "manual rewrite": ikat.ManualRewrite(),
        "rewrite": ikat.Rewrite(llm),
        "answer": ikat.Answer(llm),
        "rewrite and answer": ikat.RewriteAndAnswer(llm),
    }
    topics, judged = data.get_topics("manual"), data.get_qrels()
    scores = {}
    for title, way in ways.items():
        table = ikat.evaluation.per_turn(
            (way >> index.bm25()).transform(topics), judged, ["nDCG@10"]
        )
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
    by_run = {
        run: ikat.evaluation.nugget_scores(found).set_index("qid")["all"]
        for run, found in labels.groupby("run")
    }
    turns = sorted(set.intersection(*(set(scores.index) for scores in by_run.values())))
    return {run: scores[turns].tolist() for run, scores in by_run.items()}, turns


def measure(folder):
    """Write the correlations and design effects of real systems for each data set and unit."""
    import pyterrier_ikat as ikat

    found = []

    def note(data, what, values, turns, units):
        for unit in units:
            known = ikat.dataset(data).clusters(unit)
            clusters = [known[qid] for qid in turns]
            alone = not isinstance(values, dict)
            correlations, effects = of_pairs(values, clusters) if not alone else ([], [])
            if alone:
                correlation, effect = correlation_of(values, clusters)
                correlations, effects = [round(correlation, 4)], [round(effect, 4)]
            number = len(set(clusters))
            found.append(
                {
                    "data": data,
                    "what": what,
                    "unit": unit,
                    "turns": len(turns),
                    "clusters": number,
                    "correlations": correlations,
                }
                | {"design_effects": effects}
            )

    scores, turns = of_mini("ikat:2023-mini", folder)
    note(
        "ikat:2023-mini",
        "nDCG@10, differences of 15 pairs of six systems",
        scores,
        turns,
        ("topic", "conversation"),
    )
    year = "adarewriter10_llm4csnpr_cand10_splade_rerank_deberta-2023-run.json"
    note(
        "ikat:2023",
        "nDCG@5 of CFDA's public run, itself",
        *of_public_run("ikat:2023", year),
        ("topic", "conversation"),
    )
    run = "gpt4o_splade_rerank_deberta-2024-run.json"
    note(
        "ikat:2024",
        "nDCG@5 of CFDA's public run, itself",
        *of_public_run("ikat:2024", run),
        ("conversation",),
    )
    note(
        "ikat:2024",
        "nuggets stated, differences of 15 pairs of six public runs",
        *of_nuggets(),
        ("conversation",),
    )
    MEASURED.write_text("[\n " + ",\n ".join(map(json.dumps, found)) + "\n]\n", encoding="utf-8")


def rate(value):
    """A rate as the page shows it."""
    return f"{value:.3f}".removeprefix("0")


def page():
    """Both tables, as they stand on the page of evidence."""
    rows = rejected()
    lines = [
        f"True nulls rejected at .05, of {SIMULATIONS:,} simulations each, at an intra-cluster "
        "correlation of 0 / .1 / .2:",
        "",
        "| judged turns of | clusters | turns | largest | t-test over turns | CR2 |",
        "| :--- | ---: | ---: | ---: | :--- | :--- |",
    ]
    for title, clusters, turns, largest, rates in rows:
        both = [" / ".join(rate(pair[place]) for pair in rates) for place in (0, 1)]
        lines.append(
            f"| {title} | {clusters} | {turns or ''} | {largest} | {both[0]} | {both[1]} |"
        )
    every = [pair[1] for *_, rates in rows for pair in rates]
    out = [
        f"{title}, {clusters} clusters: {rate(pair[1])} at {correlation:g}".replace(" 0.", " .")
        for title, clusters, _, _, rates in rows
        for correlation, pair in zip(CORRELATIONS, rates, strict=True)
        if not 0.04 <= round(pair[1], 3) <= 0.06
    ]
    lines += [
        "",
        f"CR2 rejects from {rate(min(every))} to {rate(max(every))}. Outside .04 to .06: "
        f"{'; '.join(out) or 'none'}.",
    ]
    lines += [
        "",
        "How alike real turns of a cluster are (median, and range over pairs of systems):",
        "",
        "| data | what | unit | turns | clusters | intra-cluster correlation | design effect |",
        "| :--- | :--- | :--- | ---: | ---: | :--- | :--- |",
    ]
    for row in json.loads(MEASURED.read_text(encoding="utf-8")):
        cells = [middle(row["correlations"], 2), middle(row["design_effects"], 1)]
        lines.append(
            f"| {row['data']} | {row['what']} | {row['unit']} | {row['turns']} | {row['clusters']} "
            f"| {cells[0]} | {cells[1]} |"
        )
    return "\n".join(lines)


def middle(values, digits):
    """The median of values, and their range if there are several."""
    shown = [
        f"{value:.{digits}f}".replace("0.", ".", 1) if abs(value) < 1 else f"{value:.{digits}f}"
        for value in (np.median(values), min(values), max(values))
    ]
    return shown[0] if len(values) == 1 else f"{shown[0]} ({shown[1]} to {shown[2]})"


def main():
    """Print or write the tables."""
    options = argparse.ArgumentParser(description=__doc__)
    for name in ("write", "measure", "sizes"):
        options.add_argument(f"--{name}", action="store_true")
    options.add_argument(
        "--folder", default=".", help="where the index of ikat:2023-mini is or will be"
    )
    given = options.parse_args()
    if given.sizes:
        renew_sizes()
    if given.measure:
        measure(given.folder)
    made = page()
    if not given.write:
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
