"""Each kind of answer reads JSON of its schema as it reads free text."""

import json

import pytest

from pyterrier_ikat.completions import kinds
from pyterrier_ikat.completions.json_answers import NUMBER, TEXT, WHOLE, choice_of, list_of
from pyterrier_ikat.completions.kinds import (
    ACTION,
    ANSWER,
    COPIES,
    FINAL_ACTION,
    IDS,
    LABEL,
    LEARNED,
    LINE,
    PASSAGE,
    QUERIES,
    RANKING,
    REWRITE,
    SCORES,
    verdict,
)
from pyterrier_ikat.completions.verdicts import NO_REASON


def read(kind, answer):
    """What a kind makes of a JSON object; it must fit the schema."""
    value = kind.structure.read(json.dumps(answer))
    assert value is not None
    return kind.of_json(value)


def asking(question, action="ask"):
    return {"reason": "r", "action": action, "question": question}


READ = [
    (kinds.QUERIES, {"queries": ["oat  milk", " ", "Oat milk", "rye"]}, ["oat milk", "rye"]),
    (kinds.QUERIES, {"queries": []}, []),
    (kinds.IDS, {"statements": ["2", "1"]}, ["2", "1"]),
    (kinds.COPIES, {"statements": ["I run."]}, ["I run."]),
    (
        kinds.SCORES,
        {"statements": [{"id": "2", "score": 0.5}, {"id": "1", "score": 1}]},
        [("2", 0.5), ("1", 1)],
    ),
    (kinds.RANKING, {"ranking": [2, 1, 2]}, [2, 1, 2]),
    (kinds.RANKING, {"ranking": []}, None),
    (kinds.LABEL, {"label": 4}, 4),
    (kinds.LABEL, {"label": 0}, 0),
    (kinds.ACTION, asking(" Which\ntea? "), ("ask", "Which tea?")),
    (kinds.ACTION, asking(" "), None),
    (kinds.ACTION, asking("Which?", "answer"), ("answer", "")),
    (kinds.ACTION, asking("", "abstain"), ("abstain", "")),
    (kinds.FINAL_ACTION, asking("Which?"), None),
    (kinds.FINAL_ACTION, asking(""), None),
    (kinds.FINAL_ACTION, asking("", "abstain"), ("abstain", "")),
    (
        kinds.LEARNED,
        {"statements": [{"message": 1, "words": "w", "statement": "s", "replaces": ["2"]}]},
        [{"message": 1, "words": "w", "statement": "s", "replaces": ["2"]}],
    ),
]


@pytest.mark.parametrize(("kind", "answer", "value"), READ, ids=range(len(READ)))
def test_a_kind_reads_the_json_of_its_schema(kind, answer, value):
    assert read(kind, answer) == value


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("ANSWER", "a\nb", "a\nb"),
        ("ANSWER", "...", None),
        ("LINE", "Passage: a\nb", "a b"),
        ("LINE", "...", None),
        ("PASSAGE", "a\nb", "a b"),
        ("PASSAGE", "None", None),
        ("REWRITE", "Rewrite: a?\nb", "a?"),
        ("REWRITE", "None", None),
        ("QUERIES", "1. a\n2. A\n3. b\n4. c\n5. d\n6. e\n7. f", ["a", "b", "c", "d", "e", "f"]),
        ("QUERIES", "[]", []),
        ("QUERIES", "None", None),
        ("QUERIES", "None needed.", None),
        ("QUERIES", "I can't help with that.", None),
        ("IDS", "[2]", ["2"]),
        ("COPIES", "- a", ["- a"]),
        ("SCORES", '{"2": 1}', [("2", 1)]),
        ("RANKING", "[2] > [1]", [2, 1]),
        ("LABEL", "3", 3),
        ("LABEL", "5", None),
        ("ACTION", "Action: ask\nQuestion: Which?", ("ask", "Which?")),
        ("FINAL_ACTION", "Action: ask\nQuestion: Which?", None),
        ("FINAL_ACTION", "Action: abstain", ("abstain", "")),
        ("FINAL_ACTION", "tea", None),
        ("LEARNED", "[]", []),
    ],
)
def test_a_kind_reads_free_text(kind, text, value):
    assert getattr(kinds, kind).parse(text) == value


def test_answers_and_lines_are_kept_whole():
    whole = [kinds.ANSWER, kinds.LINE]
    parts = [kinds.PASSAGE, kinds.REWRITE, kinds.QUERIES, kinds.IDS, kinds.LABEL, kinds.LEARNED]
    assert all(kind.whole for kind in whole)
    assert not any(kind.whole for kind in parts)
    assert not any(kind.structure for kind in [*whole, kinds.PASSAGE, kinds.REWRITE])


def test_a_kind_without_a_parser_reads_nothing():
    with pytest.raises(NotImplementedError):
        kinds.Kind().parse("tea")


def test_a_verdict_has_its_reason_on_one_line():
    kind = kinds.verdict("nuggets", list_of({"type": "integer"}), str.upper)
    assert kind.parse("a") == "A"
    assert read(kind, {"reason": " It\nis. ", "nuggets": [3, 1, 3]}) == ([3, 1], "It is.")
    assert read(kind, {"reason": " ", "nuggets": []}) == ([], NO_REASON)
    assert list(kind.structure.schema["properties"]) == ["reason", "nuggets"]


STATEMENT = {"message": WHOLE, "words": TEXT, "statement": TEXT, "replaces": list_of(TEXT)}
SCHEMAS = {
    "queries": (QUERIES, {"queries": list_of(TEXT)}),
    "ids": (IDS, {"statements": list_of(TEXT)}),
    "copies": (COPIES, {"statements": list_of(TEXT)}),
    "ranking": (RANKING, {"ranking": list_of(WHOLE)}),
    "label": (LABEL, {"label": choice_of([0, 1, 2, 3, 4])}),
    "action": (
        ACTION,
        {"reason": TEXT, "action": choice_of(["answer", "ask", "abstain"]), "question": TEXT},
    ),
}


@pytest.mark.parametrize("name", SCHEMAS)
def test_an_answer_as_json_has_the_fields_that_are_read(name):
    kind, properties = SCHEMAS[name]
    assert kind.structure.schema["properties"] == properties
    assert kind.structure.schema["required"] == list(properties)


def test_lists_of_objects_have_the_fields_that_are_read():
    for kind, fields in ((LEARNED, STATEMENT), (SCORES, {"id": TEXT, "score": NUMBER})):
        items = kind.structure.schema["properties"]["statements"]["items"]
        assert items["properties"] == fields
        assert items["required"] == list(fields)


def test_repetitions_are_kept_only_where_the_text_is_the_result():
    kinds = {"answer": ANSWER, "line": LINE, "passage": PASSAGE, "rewrite": REWRITE}
    kinds.update(queries=QUERIES, ids=IDS, label=LABEL, learned=LEARNED)
    assert [name for name, kind in kinds.items() if kind.whole] == ["answer", "line"]


@pytest.mark.parametrize(
    ("kind", "answer", "value"),
    [
        (QUERIES, {"queries": ["a  b", "A b", "c"]}, ["a b", "c"]),
        (SCORES, {"statements": [{"id": "2", "score": 0.5}]}, [("2", 0.5)]),
        (RANKING, {"ranking": [2, 1]}, [2, 1]),
        (RANKING, {"ranking": []}, None),
        (
            ACTION,
            {"reason": "", "action": "ask", "question": " Which  tea? "},
            ("ask", "Which tea?"),
        ),
        (ACTION, {"reason": "", "action": "ask", "question": " "}, None),
        (ACTION, {"reason": "", "action": "answer", "question": "Which?"}, ("answer", "")),
        (FINAL_ACTION, {"reason": "", "action": "ask", "question": "Which?"}, None),
        (FINAL_ACTION, {"reason": "", "action": "abstain", "question": ""}, ("abstain", "")),
    ],
)
def test_an_answer_as_json_is_the_value_of_a_text(kind, answer, value):
    assert kind.of_json(answer) == value


def test_a_verdict_has_its_reason_and_each_decision_once():
    kind = verdict("nuggets", list_of(WHOLE), lambda text: None)
    assert kind.of_json({"reason": " It  says so. ", "nuggets": [2, 1, 2]}) == (
        [2, 1],
        "It says so.",
    )
    assert list(kind.structure.schema["properties"]) == ["reason", "nuggets"]
