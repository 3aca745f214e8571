"""Write the judge's recorded completions of the sample, one for each pair of its qrels.

They are not from an LLM. A label is that of the qrels, but according to a checksum of the pair, one
pair in eight gets one more and two in eight get one less. So the sample has an agreement to look
at. The other lines of `recorded.jsonl` don't change.
"""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import pyterrier_ikat as ikat

SAMPLE = Path(ikat.__file__).parent / "conversations" / "sample" / "recorded.jsonl"
REASONS = (
    "It is about something else.",
    "It touches the topic and does not answer the question.",
    "It answers a part of the question.",
    "It answers the question and suits most of what is known about the user.",
    "It answers the question completely and suits the user.",
)


def label_of(qid: str, docno: str, official: int) -> int:
    """The label that the recorded judge gives.

    Example:
        >>> label_of("1-1_1", "sample-walk-001:0", 3)
        2
    """
    place = hashlib.sha256(f"{qid} {docno}".encode()).digest()[0] % 8
    return min(4, max(0, official + {0: 1, 1: -1, 2: -1}.get(place, 0)))


def records() -> Iterator[dict[str, str]]:
    """A record for each pair, in the order of the qrels."""
    for qid, docno, official in ikat.dataset("ikat:sample").get_qrels().itertuples(index=False):
        label = label_of(qid, docno, official)
        yield {
            **{"qid": qid, "stage": "judge", "prompt": "judge", "item": docno},
            **{"completion": f"{label}\n{REASONS[label]}", "model": "recorded"},
        }


def main() -> None:
    """Replace the judge's lines of the sample."""
    lines = SAMPLE.read_text(encoding="utf-8").splitlines()
    kept = [line for line in lines if json.loads(line)["stage"] != "judge"]
    SAMPLE.write_text(
        "\n".join([*kept, *(json.dumps(record, ensure_ascii=False) for record in records())])
        + "\n",
        encoding="utf-8",
    )


if __name__ == "__main__":
    main()
