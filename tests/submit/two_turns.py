"""A dataset of two turns of one user, runs on it, and valid submissions in each year's format."""

import json

import pandas as pd

from pyterrier_ikat.conversations.topics import Conversation, TopicTurn, topics_frame
from pyterrier_ikat.runs import RunFolder

IDS = [f"clueweb22-en0000-00-0000{number}:1" for number in range(4)]
PTKB = {"1": "I drink tea.", "2": "I hate coffee."}


class Data:
    """Two turns of one user, whose questions and statements may be others."""

    def __init__(self, year, said=("Tea?", "Coffee?"), ptkb=PTKB):
        self.year = year
        self.name = f"ikat:{year}"
        self.said = said
        self.ptkb = ptkb
        self.number = "0" if year == 2024 else "9-1"

    def get_topics(self):
        turns = (TopicTurn(1, self.said[0], "Yes."), TopicTurn(2, self.said[1], "No."))
        return topics_frame([Conversation(self.number, ptkb=self.ptkb, turns=turns)])


DATA = {year: Data(year) for year in (2023, 2024, 2025)}


def made_run(folder, data, scores=(3.0, 2.0, 1.0), **columns):
    """A finished run of three passages a turn, the first of which is used."""
    found = pd.DataFrame(
        {"docno": IDS[:3], "score": scores, "rank": range(3), "used": [True, False, False]}
    )
    topics = data.get_topics()
    results = topics.merge(found, how="cross").assign(qanswer="Yes.").assign(**columns)
    run = RunFolder(folder)
    run.write(topics, results, pd.DataFrame(), pd.DataFrame(), {})
    return run


def valid(year):
    """A valid submission: the parsed object of 2023 and 2024, the list of lines of 2025."""
    number = DATA[year].number
    if year == 2025:
        return [valid_line(f"{number}_1"), valid_line(f"{number}_2")]
    first = {"turn_id": f"{number}_1", "responses": [valid_response(year)]}
    second = {"turn_id": f"{number}_2", "responses": [valid_response(year)]}
    document = {"run_name": "r", "run_type": "automatic", "turns": [first, second]}
    if year == 2024:
        document["eval_response"] = True
    return document


def valid_line(qid):
    response = {
        "rank": 1,
        "text": "Yes.",
        "citations": {IDS[0]: 3.0},
        "ptkb_provenance": ["I drink tea."],
    }
    return {
        "metadata": {"team_id": "t", "run_id": "r", "run_type": "automatic"},
        "turn_id": qid,
        "responses": [response],
        "references": {IDS[0]: 3.0, IDS[1]: 2.0, IDS[2]: 1.0},
    }


def valid_response(year):
    statements = [
        {"id": "1", "text": "I drink tea.", "score": 1.0},
        {"id": "2", "text": "I hate coffee.", "score": 0.5},
    ]
    return {
        "rank": 1,
        "text": "Yes.",
        "ptkb_provenance": statements if year == 2023 else [1, 2],
        "passage_provenance": [
            {"id": IDS[0], "text": "", "score": 3.0, "used": True},
            {"id": IDS[1], "text": "", "score": 2.0, "used": False},
            {"id": IDS[2], "text": "", "score": 1.0, "used": False},
        ],
    }


def text_of(document):
    if isinstance(document, list):
        return "\n".join(map(json.dumps, document))
    return json.dumps(document)


def turns_of(document):
    return document if isinstance(document, list) else document["turns"]


def read_lines(path):
    """The objects of a file that has one on each line."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return list(map(json.loads, lines))


def write_lines(path, objects):
    path.write_text("".join(f"{json.dumps(one)}\n" for one in objects), encoding="utf-8")
