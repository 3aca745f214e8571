"""A turn without passages is answered, so that the run can be submitted in every year's format.

"No." has only stop words.
"""

import json
import warnings

import pytest
from fakes import scripted
from methods.test_any_conversation import METHODS, RESOURCES, StandIn, built, every_stage
from two_turns import read_lines

import pyterrier_ikat as ikat
from pyterrier_ikat.conversations import read_topics
from pyterrier_ikat.conversations.frame import NoResultWarning
from pyterrier_ikat.llms import StageError
from pyterrier_ikat.study import NotJudgedWarning
from pyterrier_ikat.submit import read_submission, validate, write_reports, write_submission

ASKED = ["Which bicycle is light?", "No.", "Is a folding bicycle heavy?", "of the and"]
PTKB = {"1": "I ride to work.", "2": "I live upstairs."}
PASSAGES = [
    {"docno": "clueweb22-en0000-00-00001:1", "text": "A light bicycle has a frame of carbon."},
    {"docno": "clueweb22-en0000-00-00002:1", "text": "A folding bicycle weighs eleven kilograms."},
]
HEADER = {2023: {}, 2024: {}, 2025: {"team": "team1"}}
ABSTENTION = "The collection has no answer to this."


def topics_of(year):
    """A conversation in the format of the year's topics."""
    turns = []
    for number, said in enumerate(ASKED, 1):
        turn = {"turn_id": number, "response": "I see."}
        if year == 2025:
            turn.update(user_utterance=said, citations=[])
        else:
            turn.update(utterance=said, resolved_utterance=said)
        turns.append(turn)
    name = "responses" if year == 2025 else "turns"
    return [{"number": "1-1", "title": "bicycles", "ptkb": PTKB, name: turns}]


@pytest.fixture(params=[2023, 2024, 2025])
def data(request, tmp_path):
    """The dataset of a year with our own words as its topics."""
    path = tmp_path / "topics.json"
    path.write_text(json.dumps(topics_of(request.param)))
    found = ikat.dataset(f"ikat:{request.param}")
    found.conversations = read_topics(path)
    return found


@pytest.fixture(scope="module")
def bicycles(tmp_path_factory):
    return ikat.PassageIndex(tmp_path_factory.mktemp("index") / "i").index(PASSAGES)


def run(system, data, out, manual=False):
    topics = data.get_topics("manual" if manual else None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoResultWarning)
        warnings.simplefilter("ignore", NotJudgedWarning)
        return ikat.run({"mine": system}, topics=topics, out=out)


def test_turns_of_stop_words_are_answered_noted_and_submitted(data, bicycles, tmp_path):
    llm, backend = scripted("Carbon ones are light.", "It weighs eleven kilograms.")
    results = run(bicycles.bm25() >> ikat.Respond(llm), data, tmp_path / "runs")
    folder = results.folders["mine"]
    assert [(turn["response"], turn["passages"] > 0) for turn in folder.turns()] == [
        ("Carbon ones are light.", True),
        (ABSTENTION, False),
        ("It weighs eleven kilograms.", True),
        (ABSTENTION, False),
    ]
    assert len(backend.asked) == 2
    [note] = folder.parameters()["notes"]
    assert note == f"2 turns without any passage, answered {ABSTENTION!r}: 1-1_2, 1-1_4"
    assert f"mine: {note}" in list(results.gaps())
    path = tmp_path / "submitted"
    write_submission(folder, data, path, run_id="mine", run_type="automatic", **HEADER[data.year])
    assert [one for one in validate(path, data) if one.severity == "error"] == []
    responses = [turn["response"] for turn in folder.turns()]
    assert read_submission(path, data).turns["qanswer"].tolist() == responses
    write_reports(folder, tmp_path / "reports", run_id="mine", team="team1")


def test_abstention_is_the_systems_own_and_a_draft_stays_a_draft(data, bicycles, tmp_path):
    llm, _ = scripted("No.", "No.", "No.", "No.", "Carbon.", "Eleven.")
    system = (
        ikat.Answer(llm) >> bicycles.bm25() >> ikat.Respond(llm, abstention="Nothing was found.")
    )
    turns = run(ikat.RawUtterance() >> system, data, tmp_path / "runs").folders["mine"].turns()
    assert [turn["response"] for turn in turns] == ["Nothing was found."] * 4
    assert [turn["qanswer"] for turn in turns] == ["No."] * 4


def test_a_system_that_writes_no_response_gets_none(data, bicycles, tmp_path):
    found = run(bicycles.bm25(), data, tmp_path / "runs").folders["mine"]
    assert not any("response" in turn for turn in found.turns())
    assert "notes" not in found.parameters()


def test_a_resumed_run_has_its_note(data, bicycles, tmp_path):
    class Stops:
        def generate(self, prompts):
            raise ZeroDivisionError

    llm = ikat.llm(Stops(), identity="stops", cache="none")
    system = bicycles.bm25() >> ikat.Respond(llm)
    topics = data.get_topics().iloc[[1, 0]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(StageError):
            ikat.run({"mine": system}, topics=topics, out=tmp_path, turns_at_once=1)
        Stops.generate = lambda self, prompts: ["Carbon."] * len(prompts)
        found = ikat.run({"mine": system}, topics=topics, out=tmp_path, turns_at_once=1)
    assert found.folders["mine"].parameters()["notes"][0].endswith("1-1_2")


def responds(name):
    resources = {resource: StandIn(resource) for resource in RESOURCES}
    system = METHODS[name].build(**resources)
    return any(hasattr(stage, "abstention") for stage in every_stage(system))


@pytest.mark.filterwarnings("ignore:The inplace keyword:DeprecationWarning")
@pytest.mark.parametrize("name", list(filter(responds, METHODS)))
def test_every_responding_method_gives_each_turn_a_row_to_submit(name, data, bicycles, tmp_path):
    """A system that finds nothing for most turns, or for all, as no passage speaks of tea."""
    manual = METHODS[name].manual and data.year != 2025  # whose topics have no rewrites
    if METHODS[name].manual and not manual:
        pytest.skip("the topics of 2025 have no rewrites")
    folder = run(built(name, bicycles)[0], data, tmp_path / "runs", manual).folders["mine"]
    path = tmp_path / "submitted"
    run_type = "manual" if manual else "automatic"
    write_submission(folder, data, path, run_id="mine", run_type=run_type, **HEADER[data.year])
    responses = read_submission(path, data).turns["qanswer"].str.strip()
    assert (responses != "").tolist() == [True] * 4


@pytest.mark.parametrize(("year", "without"), [(2023, []), (2024, []), (2025, ["1-1_12", "1-2_8"])])
def test_a_run_of_all_real_turns_is_submitted(year, without, ikat_data, tmp_path):
    texts = {}
    for row in read_lines(ikat_data / "2023_test_topics_psg_text.jsonl"):
        texts[f"{row['doc_id']}:{row['passage_id']}"] = row["passage_text"]
    passages = [{"docno": docno, "text": text} for docno, text in texts.items()]
    index = ikat.PassageIndex(tmp_path / "index").index(passages)

    class Model:
        def generate(self, prompts):
            return ["It is so."] * len(prompts)

    data = ikat.dataset(f"ikat:{year}")
    system = index.bm25(num_results=5) >> ikat.Respond(ikat.llm(Model()))
    folder = run(system, data, tmp_path / "runs").folders["mine"]
    header = {"run_id": "mine", "run_type": "automatic", **HEADER[year]}
    write_submission(folder, data, tmp_path / "submitted", **header)
    unanswered = [turn for turn in folder.turns() if turn["response"] == ABSTENTION]
    assert [turn["qid"] for turn in unanswered] == without
