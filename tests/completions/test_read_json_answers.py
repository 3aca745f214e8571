"""JSON in free text and JSON of a schema, worked out by hand."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyterrier_ikat.completions.json_answers import (
    NUMBER,
    TEXT,
    WHOLE,
    YES_NO,
    Structure,
    answer_in,
    choice_of,
    complete_part,
    json_values,
    list_of,
    object_of,
    objects_in,
    value_at,
)
from pyterrier_ikat.completions.kinds import LEARNED

VALUES = {
    "{'3': 0.9, 7: .4,} and [4, 1,], not {those}.": [{"3": 0.9, "7": 0.4}, [4, 1]],
    "[1] [2": [[1]],
    "[1 [2]": [[2]],
    "{2, 1, 2}": [[2, 1, 2]],
    '[[1], {"a": [2]}] x [3]': [[[1], {"a": [2]}], [3]],
    '[don\'t] ["a\\"]b"]': [['a"]b']],
    "['a, b', \"c]\"]": [["a, b", "c]"]],
    "[True, None, (1, 2)]": [[True, None, [1, 2]]],
    "(1, 2) [1_000]": [[1000]],
    "{[}] [2]": [[2]],
    "['x'y] [b'a'] [nan] [f()]": [],
    "{} [] {}": [{}, [], {}],
    '{"a\\nb": "c\nd"}': [{"a\nb": "c\nd"}],
    "['\\d']": [["\\d"]],
    "no value": [],
    "": [],
    "[x [1]]": [[1]],
    "['a\\']', 1]": [["a']", 1]],
}


@pytest.mark.parametrize("text", VALUES)
def test_the_outermost_values_are_read_in_order(text):
    assert json_values(text) == VALUES[text]


def test_fifty_unreadable_brackets_end_the_search():
    assert json_values("[x" * 49 + "[1]") == [[1]]
    assert json_values("[x" * 50 + "[1]") == []
    assert json_values("[1]" + "[x" * 48 + "[2] [3]") == [[1], [2], [3]]


@pytest.mark.parametrize(("brackets", "found"), [(49, [[1]]), (50, [])])
def test_a_search_stops_after_50_brackets_that_open_nothing(brackets, found):
    assert json_values("[x " * brackets + "[1]") == found


def test_python_values_are_read_as_json_and_objects_found_inside():
    assert json_values("{'a': None, 'b': (1, 2)}") == [{"a": None, "b": [1, 2]}]
    assert json_values("{3, 1, 2}") == [[3, 1, 2]]
    assert json_values("[1], {'a': 2}") == [[1], {"a": 2}]
    assert objects_in([{"a": {"b": 1}}, [{"c": 2}]]) == [{"a": {"b": 1}}, {"b": 1}, {"c": 2}]


@pytest.mark.parametrize(
    ("text", "value", "end"),
    [
        ("x {'a': 1} y", {"a": 1}, 10),
        ("x [1, 2", None, None),
        ("x [a, b] c]", None, 8),
        ("x ['a]', 1] b]", ["a]", 1], 11),
        ("x [it's, x] y", None, 11),
        ("x [[1, [2]], 3", None, None),
        ("x {'a \"] b': 1}", {'a "] b': 1}, 15),
    ],
)
def test_a_value_ends_where_its_bracket_closes(text, value, end):
    assert value_at(text, 2) == (value, end)


@pytest.mark.parametrize("depth", [98, 99, 100])
def test_values_are_read_99_deep(depth):
    value, end = value_at("[" * depth + "]" * depth + " [" * 150, 0)
    assert (value is not None, end) == (depth <= 99, 2 * depth)


@pytest.mark.parametrize(("depth", "found"), [(99, True), (100, False)])
def test_lists_are_read_99_deep(depth, found):
    assert (value_at("[" * depth + "]" * depth, 0)[0] is not None) is found


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("[1, [2, 3], 4", [1, [2, 3]]),
        ("[1, 2, ", [1, 2]),
        ("[1", None),
        ("[1, 2]", None),
        ("['a', 'b", ["a"]),
        ("['a', b, 'c", ["a"]),
        ("[[1, 2], [3, 4", [[1, 2]]),
        ("[a, b, c", None),
        ("{'1': 2, '3': 4, '5': ", {"1": 2, "3": 4}),
        ("{'1': 2, 'b': 4, ", None),
        ("{'a': 1, 'b': ", None),
        ("[1, " + "x, " * 49, [1]),
        ("[1, [" + "2, " * 60, [1]),
        ("[1, " + "x, " * 50, None),
        ('["a \'b\' ", "c', ["a 'b' "]),
    ],
)
def test_of_a_cut_value_the_complete_items_are_read(text, part):
    assert complete_part(text, 0) == part


def test_a_cut_value_is_read_from_its_own_bracket():
    assert complete_part("ids: [4], [1, 2, 3", 10) == [1, 2]


def test_objects_are_found_inside_of_lists_and_objects():
    inner = {"c": 1}
    middle = {"b": [inner, 2]}
    assert objects_in({"a": middle, "x": 3}) == [{"a": middle, "x": 3}, middle, inner]
    assert objects_in([1, [inner], "x", None]) == [inner]
    assert objects_in("x") == objects_in(3) == objects_in([]) == []
    assert objects_in({}) == [{}]


def test_schemas_are_those_that_servers_accept():
    assert choice_of(["a", "b"]) == {"type": "string", "enum": ["a", "b"]}
    assert choice_of(range(2)) == {"type": "integer", "enum": [0, 1]}
    assert list_of(TEXT) == {"type": "array", "items": {"type": "string"}}
    both = answer_in("n", WHOLE, reason=True)
    assert both.name == "n"
    assert both.schema == {
        "type": "object",
        "properties": {"reason": {"type": "string"}, "n": {"type": "integer"}},
        "required": ["reason", "n"],
        "additionalProperties": False,
    }
    alone = answer_in("n", WHOLE)
    assert list(alone.schema["properties"]) == ["n"]
    assert alone.instruction.endswith(
        'JSON schema, and nothing else:\n{"type":"object","properties":{"n":{"type":"integer"}},'
        '"required":["n"],"additionalProperties":false}'
    )


WHOLE_OBJECT = Structure(
    "all",
    object_of(
        text=TEXT,
        number=NUMBER,
        whole=WHOLE,
        yes=YES_NO,
        numbers=list_of(WHOLE),
        choice=choice_of(["a", "b"]),
        inner=object_of(x=TEXT),
    ),
)
FITTING = {
    "text": '""',
    "number": "1.5",
    "whole": "-3",
    "yes": "false",
    "numbers": "[1, 2]",
    "choice": '"b"',
    "inner": '{"x": "y"}',
}


def as_object(**changed):
    fields = [f'"{name}": {value}' for name, value in {**FITTING, **changed}.items()]
    return "{" + ", ".join(fields) + "}"


def test_an_object_that_fits_its_schema_is_read():
    assert WHOLE_OBJECT.read(as_object()) == {
        "text": "",
        "number": 1.5,
        "whole": -3,
        "yes": False,
        "numbers": [1, 2],
        "choice": "b",
        "inner": {"x": "y"},
    }
    read = WHOLE_OBJECT.read(as_object(number="2", numbers="[]"))
    assert (read["number"], read["numbers"]) == (2, [])
    assert math.isclose(WHOLE_OBJECT.read(as_object(number="-1e3"))["number"], -1000)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("text", "1"),
        ("text", "null"),
        ("number", '"1"'),
        ("number", "true"),
        ("number", "NaN"),
        ("number", "Infinity"),
        ("whole", "1.5"),
        ("whole", "true"),
        ("yes", "1"),
        ("yes", '"yes"'),
        ("numbers", '[1, "2"]'),
        ("numbers", "[1, true]"),
        ("numbers", "1"),
        ("choice", '"c"'),
        ("choice", "1"),
        ("inner", "{}"),
        ("inner", '{"x": 1}'),
        ("inner", '{"x": "y", "z": "y"}'),
        ("inner", "[]"),
        ("more", "1"),
    ],
)
def test_an_object_that_does_not_fit_is_none(field, value):
    assert WHOLE_OBJECT.read(as_object(**{field: value})) is None


@pytest.mark.parametrize("text", ["", "x", "[]", "null", as_object() + " ", "[" * 100_000])
def test_a_text_that_is_no_such_object_is_none(text):
    read = WHOLE_OBJECT.read(text)
    assert (read is None) == (text.strip() != as_object())


def test_a_value_that_is_too_deep_for_python_is_none():
    assert value_at("[" * 100_000, 0) == (None, None)


FULL_ANSWER = Structure(
    "answer",
    object_of(
        text=TEXT,
        share=NUMBER,
        count=WHOLE,
        holds=YES_NO,
        ids=list_of(WHOLE),
        label=choice_of([0, 1]),
    ),
)
FULL_FIELDS = {"text": "a", "share": 0.5, "count": 2, "holds": True, "ids": [1], "label": 1}


@pytest.mark.parametrize(
    ("changed", "fits"),
    [
        ({}, True),
        ({"share": 1}, True),
        ({"ids": []}, True),
        ({"text": 1}, False),
        ({"share": True}, False),
        ({"share": float("inf")}, False),
        ({"count": 2.5}, False),
        ({"count": True}, False),
        ({"holds": 1}, False),
        ({"ids": [1, "2"]}, False),
        ({"ids": [True]}, False),
        ({"label": 2}, False),
        ({"label": True}, False),
        ({"more": 1}, False),
    ],
)
def test_an_answer_as_json_fits_its_schema_exactly(changed, fits):
    answer = {**FULL_FIELDS, **changed}
    assert FULL_ANSWER.read(json.dumps(answer)) == (answer if fits else None)
    without = {name: value for name, value in answer.items() if name != "text"}
    assert FULL_ANSWER.read(json.dumps(without)) is None
    assert FULL_ANSWER.read(f"The answer: {json.dumps(answer)}") is None


UNIFORM_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abc"), inner, max_size=2)
    ),
    max_leaves=4,
)
SCHEMAS_OF_TYPES = {str: TEXT, bool: YES_NO, int: WHOLE, float: NUMBER}


@given(UNIFORM_VALUES)
def test_a_value_fits_its_own_schema_and_no_other_kinds(value):
    uniform = json.dumps(value)
    for kind, schema in SCHEMAS_OF_TYPES.items():
        fits = answer_in("value", schema).read(f'{{"value": {uniform}}}') is not None
        number = (
            isinstance(value, int | float)
            and not isinstance(value, bool)
            and abs(value) != float("inf")
            and value == value
        )
        assert fits == (
            number and (kind is float or isinstance(value, int))
            if kind in (int, float)
            else type(value) is kind
        )


def test_choices_are_of_their_type():
    label = answer_in("label", choice_of([0, 1]))
    assert label.read('{"label": 1}') is not None
    for value in ("true", "1.0", '"1"'):
        assert label.read(f'{{"label": {value}}}') is None
    score = answer_in("score", NUMBER)
    for value in ("NaN", "Infinity", "1e999"):
        assert score.read(f'{{"score": {value}}}') is None
    assert LEARNED.structure.read('{"statements": [{"message": 1}]}') is None
