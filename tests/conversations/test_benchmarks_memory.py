"""LoCoMo and LongMemEval: questions over the turns of long conversations.

The real file of LoCoMo is read where it is at hand.
"""

import json

import pandas as pd
import pytest
from click.testing import CliRunner

import pyterrier_ikat as ikat
from pyterrier_ikat.cli import main

small_file = pytest.mark.filterwarnings(
    "ignore::pyterrier_ikat.conversations.download.OtherDataWarning"
)


def turn(dia_id, speaker, text, **more):
    return {"dia_id": dia_id, "speaker": speaker, "text": text, **more}


def asked(question, evidence, category, **answer):
    return {"question": question, "evidence": evidence, "category": category, **answer}


SAMPLE = {
    "sample_id": "conv-1",
    "conversation": {
        "speaker_a": "Ann",
        "speaker_b": "Ben",
        "session_1_date_time": "1:56 pm on 8 May, 2023",
        "session_1": [
            turn("D1:1", "Ann", "My tram was late."),
            turn("D1:2", "Ben", "I drink tea now.", blip_caption="a green cup"),
        ],
        "session_2": [
            turn("D2:1", "Ann", "We walked to the sea."),
            turn("D2:5", "Ben", "The tram again!"),
        ],
        "session_3_date_time": "the day of a session that never took place",
    },
    "qa": [
        asked("What does Ben drink?", ["D1:2"], 4, answer="tea"),
        asked("When was a tram late?", ["D1:1; D2:5", "D1:1"], 2, answer=2023),
        asked("Who walked?", ["D:2:01"], 1, answer="Ann"),
        asked("Is it known?", [], 3, answer="no"),
        asked("Does Ann drink tea?", ["D1:2", "D9:9", "D"], 5, adversarial_answer="tea"),
        asked("Nothing left?", ["D7:7"], 4, answer="yes"),
    ],
    "observation": {
        "session_1_observation": {
            "Ben": [["Ben drinks tea.", "D1:2"], ["Ben owns a cup.", "D1:2"]],
            "Ann": [["Ann rides trams.", "D1:1"]],
        },
        "session_2_observation": {
            "Ann": [["Ann likes walks.", ["D2:1", "D2:5"]], ["Ann is lost.", "D9:1"]]
        },
    },
}


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Writes a file of LoCoMo's form beside the data folder, and gives its path."""
    monkeypatch.setenv("IKAT_DATA", str(tmp_path / "ikat"))
    (tmp_path / "ikat").mkdir()
    (tmp_path / "memory").mkdir()

    def write(*samples):
        path = tmp_path / "memory" / "locomo10.json"
        path.write_text(json.dumps(samples), encoding="utf-8")
        return path

    return write


@pytest.fixture
def locomo(write):
    write(SAMPLE)
    return ikat.dataset("locomo:")


@small_file
def test_questions_have_turns_as_statements_and_sources_facts(locomo):
    topics = locomo.get_topics()
    assert topics[["qid", "query"]].values.tolist() == [
        ["conv-1_1", "What does Ben drink?"],
        ["conv-1_2", "When was a tram late?"],
        ["conv-1_3", "Who walked?"],
        ["conv-1_5", "Does Ann drink tea?"],
    ]
    statements = (
        "Ann: My tram was late.",
        "Ben: I drink tea now. [a green cup]",
        "Ann: We walked to the sea.",
        "Ben: The tram again!",
    )
    assert topics["qptkb"][0] == dict(
        zip(("D1:1", "D1:2", "D2:1", "D2:5"), statements, strict=True)
    )
    assert topics["qfacts"][3] == {
        "D1:2%p0": "Ben drinks tea.",
        "D1:2%p1": "Ben owns a cup.",
        "D1:1%p0": "Ann rides trams.",
        "D2:1%p0": "Ann likes walks.",
        "D2:5%p0": "Ann likes walks.",
    }
    assert topics["qhistory"].tolist() == [[]] * 4
    assert "qcategory" not in topics
    assert locomo.get_topics("manual")["qcategory"].tolist() == [
        "single-hop",
        "temporal",
        "multi-hop",
        "adversarial",
    ]


@small_file
def test_the_questions_on_two_speakers_are_one_unit(locomo):
    assert (locomo.unit, set(locomo.clusters().values())) == ("user", {"conv-1"})


@small_file
def test_evidence_is_the_qrels_with_its_slips_repaired(locomo):
    judged = [
        ["conv-1_1", "D1:2"],
        ["conv-1_2", "D1:1"],
        ["conv-1_2", "D2:5"],
        ["conv-1_3", "D2:1"],
        ["conv-1_5", "D1:2"],
    ]
    qrels = locomo.get_qrels()
    assert qrels[["qid", "docno"]].values.tolist() == judged
    assert set(qrels["label"]) == {1}
    assert locomo.get_answers()["gold_answer"].tolist() == ["tea", "2023", "Ann", ""]


@small_file
def test_a_file_of_another_form_is_named_with_the_conversation(write):
    path = write(SAMPLE, {**SAMPLE, "qa": [{"question": "And?"}]})
    with pytest.raises(
        ikat.DataError, match=f"{path}.*conversation 2.*KeyError: 'evidence'.*fetch the file again"
    ):
        ikat.dataset("locomo:").get_topics()


@small_file
def test_memories_are_scored_by_turn_session_and_category(locomo, tmp_path):
    def run(*arguments):
        result = CliRunner().invoke(
            main, [*arguments, "--dataset", "locomo:", "--format", "csv"], catch_exceptions=False
        )
        assert result.exit_code == 0, result.output
        return result.stdout

    table = run("run", "memory_bm25", "--out", str(tmp_path / "runs"))
    # Each question shares more words with its evidence than with any other turn.
    assert table == (
        "name,R(rel=1)@5,nDCG@10,Success(rel=1)@5,Success(rel=1)@5 by session,turns\n"
        "memory_bm25,1.0,1.0,1.0,1.0,4\n"
    )
    shown = run("evaluate", str(tmp_path / "runs/memory_bm25"), "--by", "category")
    assert [line.split(",")[0] for line in shown.strip().split("\n")] == [
        "category",
        "adversarial",
        "multi-hop",
        "single-hop",
        "temporal",
    ]
    with pytest.raises(ikat.DataError, match="nothing says the category of turn a_1"):
        ikat.breakdown({"mine": pd.DataFrame({"qid": ["a_1"], "nDCG@5": [1.0]})}, by="category")


def test_the_real_file_has_1982_questions_over_5882_turns(shared, monkeypatch):
    if not (shared / "memory" / "locomo10.json").is_file():
        pytest.skip("no LoCoMo at hand")
    monkeypatch.setenv("IKAT_DATA", str(shared / "ikat"))
    data = ikat.dataset("locomo:")
    topics = data.get_topics("manual")
    turns = sum(len(one.ptkb) for one in data.conversations)
    assert (len(topics), turns, data.get_qrels()["qid"].nunique()) == (1982, 5882, 1982)
    counts = {
        "single-hop": 841,
        "adversarial": 446,
        "temporal": 321,
        "multi-hop": 282,
        "open-domain": 92,
    }
    assert topics["qcategory"].value_counts().to_dict() == counts


def said(role, content, **more):
    return {"role": role, "content": content, **more}


def question(name, sessions, kind="multi-session"):
    return {
        "question_id": name,
        "question_type": kind,
        "question": "Which tea did I buy?",
        "answer": 2,
        "question_date": "2023/05/30 (Tue) 23:40",
        "haystack_session_ids": list(sessions),
        "haystack_dates": ["2023/05/20 (Sat) 02:21"] * len(sessions),
        "haystack_sessions": list(sessions.values()),
        "answer_session_ids": [one for one in sessions if one.startswith("answer")],
    }


SESSIONS = {
    "answer_1": [
        said("user", "I bought mint tea.", has_answer=True),
        said("assistant", "Mint?"),
        said("user", "Yes.", has_answer=False),
    ],
    "other": [said("user", "My tram was late."), said("assistant", "Again?")],
    "answer_2": [
        said("assistant", "Hello.", has_answer=True),
        said("user", "And rooibos tea.", has_answer=True),
    ],
}


@pytest.fixture
def longmemeval(tmp_path):
    """Writes a file of LongMemEval's published form, and gives the dataset."""

    def made(*questions):
        path = tmp_path / "longmemeval_s.json"
        path.write_text(json.dumps(questions), encoding="utf-8")
        return ikat.dataset(f"longmemeval:{path}")

    return made


ONLY_SAID = {
    "answer_3": [said("user", "Name a tea."), said("assistant", "Sencha.", has_answer=True)]
}
FALSE = {"answer_4_abs": [said("user", "I bought a cup.", has_answer=True)]}
"""The evidence of a question without an answer, which the authors' code doesn't score."""


def test_a_longmemeval_file_is_its_users_turns_and_answer_turns(longmemeval):
    data = longmemeval(question("q_1", SESSIONS))
    topics = data.get_topics()
    manual = data.get_topics("manual")
    assert topics[["qid", "query"]].values.tolist() == [["q_1_1", "Which tea did I buy?"]]
    known = {
        "answer_1:1": "I bought mint tea.",
        "answer_1:3": "Yes.",
        "other:1": "My tram was late.",
        "answer_2:2": "And rooibos tea.",
    }
    assert topics["qptkb"].tolist() == [known]
    assert "qcategory" not in topics
    assert manual["qcategory"].tolist() == ["multi-session"]
    assert data.get_qrels()[["qid", "docno", "label"]].values.tolist() == [
        ["q_1_1", "answer_1:1", 1],
        ["q_1_1", "answer_2:2", 1],
    ]
    assert data.get_answers()["gold_answer"].tolist() == ["2"]


def test_longmemeval_asks_all_and_judges_some_in_retrieval(longmemeval):
    asked = [
        question("q_1", SESSIONS),
        question("q2_abs", FALSE),
        question("q3", ONLY_SAID, "single-session-assistant"),
    ]
    data = longmemeval(*asked)
    assert data.get_topics()["qid"].tolist() == ["q_1_1", "q2_abs_1", "q3_1"]
    answers = data.get_answers()
    assert answers["qid"].tolist() == ["q_1_1", "q2_abs_1", "q3_1"]
    assert answers["gold_answerability"].tolist() == ["answerable", "unanswerable", "answerable"]
    with pytest.warns(
        ikat.conversations.topics.CollectionWarning,
        match="on 1 of 3 questions.*: 1 without an answer, 1 without a turn",
    ):
        qrels = data.get_qrels()
    assert set(qrels["qid"]) == {"q_1_1"}
    assert data.get_qrels().equals(qrels)  # said once


def test_answers_to_all_questions_of_longmemeval_are_judged(longmemeval):
    data = longmemeval(
        question("q_1", SESSIONS), question("q2_abs", FALSE), question("q3", ONLY_SAID)
    )
    answers = pd.DataFrame(
        {"qid": ["q_1_1", "q2_abs_1", "q3_1"], "qanswer": ["2", "I don't know.", "2"]}
    )
    turns = ikat.evaluation.response_turns(data.conversations)
    means = ikat.evaluation.response_means(
        ikat.evaluation.evaluate_responses(turns, answers, [ikat.evaluation.TokenF1()])
    )
    assert means[["mean", "n", "turns"]].round(2).values.tolist() == [[0.67, 3, 3]]


@pytest.mark.filterwarnings("ignore::pyterrier_ikat.conversations.topics.CollectionWarning")
def test_a_longmemeval_run_answers_all_and_is_scored_if_judged(longmemeval, tmp_path):
    data = longmemeval(
        question("q_1", SESSIONS), question("q2_abs", FALSE), question("q3", ONLY_SAID)
    )
    arguments = [
        "run",
        "memory_bm25",
        "--dataset",
        data.name,
        "--out",
        str(tmp_path / "runs"),
        "--format",
        "csv",
    ]
    result = CliRunner().invoke(main, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[1].split(",")[-1] == "1"  # turns in the mean
    found = ikat.runs.read_run(tmp_path / "runs/memory_bm25/run.trec")
    assert set(found["qid"]) == {"q_1_1", "q2_abs_1", "q3_1"}


def test_bm25_finds_the_evidence_in_a_file_of_longmemeval(longmemeval):
    found = ikat.methods.memory_bm25()(longmemeval(question("q", SESSIONS)).get_topics())
    assert sorted(found["docno"][:2]) == ["answer_1:1", "answer_2:2"]


@small_file
def test_conversations_without_questions_or_facts_have_none(write):
    nothing = {**SAMPLE, "sample_id": "conv-2", "qa": [asked("Known?", [], 3, answer="no")]}
    bare = {**SAMPLE, "sample_id": "conv-3", "qa": SAMPLE["qa"][:1], "observation": {}}
    write(SAMPLE, nothing, bare)
    locomo = ikat.dataset("locomo:")
    assert [chat.number for chat in locomo.conversations] == ["conv-1", "conv-3"]
    for topics in (locomo.get_topics(), locomo.get_topics("manual")):
        assert [len(facts) for facts in topics["qfacts"]] == [5, 5, 5, 5, 0]
    manual = locomo.get_topics("manual")
    assert manual["qresolved"].tolist() == manual["query"].tolist()
    assert manual["qcategory"].tolist()[-1] == "single-hop"


def test_a_file_of_longmemeval_has_one_kind_of_judgements(longmemeval):
    data = longmemeval(question("q_1", SESSIONS))
    assert "qfacts" not in data.get_topics()
    with pytest.raises(ikat.UsageError, match="has no qrels 'x'; there are the default"):
        data.get_qrels("x")
    with pytest.raises(ikat.DataError, match="has no collection: the turns of each conversation"):
        data.get_corpus_iter(verbose=False)
