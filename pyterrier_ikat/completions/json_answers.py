"""JSON in completions: the schema that a request may carry (``structured=on``), its parser, and JSON in free text.

A schema is an object with only required properties. It uses the part of JSON Schema that OpenAI,
vLLM, llama.cpp and Ollama accept: texts, numbers, booleans, lists and choices. Lists and objects in
free text may be JSON or Python literals. Pure functions: no model, no frame.
"""

import ast
import json
import math
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

Schema = Mapping[str, Any]

TEXT: Schema = {"type": "string"}
NUMBER: Schema = {"type": "number"}
WHOLE: Schema = {"type": "integer"}
YES_NO: Schema = {"type": "boolean"}

INSTRUCTION = "Give the answer as one JSON object that fits this JSON schema, and nothing else:\n"
"""The text between a prompt and the schema. Some servers enforce the schema but do not show it to the model."""


def choice_of(choices: Sequence[Any]) -> Schema:
    """One of several texts or whole numbers."""
    return {"type": "string" if isinstance(choices[0], str) else "integer", "enum": list(choices)}


def list_of(items: Schema) -> Schema:
    """A list of such values."""
    return {"type": "array", "items": items}


def object_of(**properties: Schema) -> Schema:
    """An object with these properties."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


class Structure(NamedTuple):
    """The form of an answer as JSON.

    Attributes:
        name: what the answer is, in a word.
        schema: its JSON schema, an object.

    Example:
        >>> Structure("queries", object_of(queries=list_of(TEXT))).read('{"queries": ["rooibos caffeine"]}')
        {'queries': ['rooibos caffeine']}
    """

    name: str
    schema: Schema

    @property
    def instruction(self) -> str:
        """Its description in a prompt."""
        return INSTRUCTION + json.dumps(self.schema, separators=(",", ":"))

    def read(self, text: str) -> dict[str, Any] | None:
        """The object that ``text`` consists of. None if it is not an object or does not fit the schema.

        Example:
            >>> label = Structure("label", object_of(label=choice_of([0, 1, 2])))
            >>> label.read('{"label": 2}'), label.read('{"label": 3}'), label.read('The label: {"label": 2}')
            ({'label': 2}, None, None)
        """
        try:
            said = json.loads(text)
        except (ValueError, RecursionError):
            return None
        return said if _fits(said, self.schema) else None


def answer_in(name: str, value: Schema, reason: bool = False) -> Structure:
    """The structure of an answer with one value of that name. A reason, if requested, comes before it.

    Example:
        >>> list(answer_in("label", choice_of([0, 1]), reason=True).schema["properties"])
        ['reason', 'label']
    """
    return Structure(name, object_of(**({"reason": TEXT} if reason else {}), **{name: value}))


_TYPES: dict[str, Any] = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "integer": int,
    "number": (int, float),
}


def _fits(value: Any, schema: Schema) -> bool:
    kind = schema["type"]
    if (
        not isinstance(value, _TYPES[kind])
        or (isinstance(value, bool) and kind != "boolean")
        or value not in schema.get("enum", [value])
    ):
        return False
    if kind == "object":
        properties = schema["properties"]
        return value.keys() == properties.keys() and all(
            _fits(value[name], properties[name]) for name in value
        )
    return (
        all(_fits(item, schema["items"]) for item in value)
        if kind == "array"
        else kind != "number" or math.isfinite(value)
    )


TRIED = 50
"""The number of unreadable opening brackets after which the search stops, because each takes a scan of the remaining text."""
DEEPEST = 99
"""The most brackets within brackets that are read."""
OPENING = re.compile(r"[\[{]")
_SIGN = re.compile(r"[\[\]{},\"']")


def json_values(text: str) -> list[Any]:
    """The outermost lists and objects in ``text``, in order. Unreadable ones are skipped.

    Also accepted besides JSON: single quotes, numbers as keys, commas before a closing bracket,
    sets as lists.

    Example:
        >>> json_values("I chose {'3': 0.9, 7: .4,} and [4, 1,], not {those}.")
        [{'3': 0.9, '7': 0.4}, [4, 1]]
    """
    found, position, unreadable = list[Any](), 0, 0
    while unreadable < TRIED and (opening := OPENING.search(text, position)) is not None:
        value, end = value_at(text, opening.start())
        unreadable += value is None
        position = opening.end() if value is None or end is None else end
        found += [] if value is None else [value]
    return found


def objects_in(value: Any) -> list[dict[str, Any]]:
    """An object, and all objects inside it or inside a list.

    Example:
        >>> objects_in([{"statements": [{"id": 3}]}, 7])
        [{'statements': [{'id': 3}]}, {'id': 3}]
    """
    inner = (
        list(value.values())
        if isinstance(value, dict)
        else value
        if isinstance(value, list)
        else []
    )
    return [value] * isinstance(value, dict) + [
        found for item in inner for found in objects_in(item)
    ]


def value_at(text: str, start: int) -> tuple[Any, int | None]:
    """The list or object that opens at ``start``, and its end. None for one that cannot be read, and for the end of one that is cut.

    Example:
        >>> value_at("I chose {'3': 0.9}.", 8), value_at("I chose {'3': 0.9", 8), value_at("[Oslo].", 0)
        (({'3': 0.9}, 18), (None, None), (None, 6))
    """
    end: int | None
    try:
        value, end = json.JSONDecoder(strict=False).raw_decode(text, start)
    except (ValueError, RecursionError):
        closes = (
            max(text.rfind("]"), text.rfind("}")) > start
        )  # a model that repeats "[" closes none
        end = (
            next((place + 1 for place, depth in _signs(text, start) if not depth), None)
            if closes
            else None
        )
        value = None if end is None else _literal(text[start:end])
    return None if value is None or any(
        depth > DEEPEST for _, depth in _signs(text[:end], start)
    ) else value, end


def begun(text: str, start: int) -> Any:
    """The complete items of the list that opens at ``start`` and has no end, or of the object whose keys are numbers. None for another.

    Example:
        >>> begun('["mint", "sage", "ros', 0), begun("{'3': 'mint', '5': 'sa", 0), begun('{"why": "diet", "ids": [3, 5', 0), begun("[3]", 0)
        (['mint', 'sage'], {'3': 'mint'}, None, None)
    """
    if value_at(text, start)[1] is not None:
        return None
    ends = [place for place, depth in _signs(text, start) if depth == 1 and text[place] == ","][
        -TRIED:
    ]
    values = (
        value_at(text[:end] + {"[": "]", "{": "}"}[text[start]], start)[0] for end in reversed(ends)
    )
    value = next((value for value in values if value is not None), None)
    return (
        value
        if isinstance(value, list) or all(str(key).isdecimal() for key in value or ())
        else None
    )


def _literal(piece: str) -> Any:
    """A Python literal whose types exist in JSON. None for any other text."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore"
            )  # the compiler's remarks on odd escapes in a model's text
            value = ast.literal_eval(piece)
            # A set has no order, but the model wrote its items in one.
            return json.loads(
                json.dumps(
                    ast.literal_eval(f"[{piece[1:-1]}]") if isinstance(value, set) else value
                )
            )
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None


def _signs(text: str, start: int) -> Iterator[tuple[int, int]]:
    """The brackets and commas outside of quotes from ``start`` on, each with how many brackets are open after it."""
    depth, quote = 0, ""
    for found in _SIGN.finditer(text, start):
        sign, place = found[0], found.start()
        if quote:
            quote = "" if sign == quote and text[place - 1] != "\\" else quote
        elif sign in "\"'":
            quote = "" if text[place - 1].isalnum() else sign
        else:
            depth += (sign in "[{") - (sign in "]}")
            yield place, depth
