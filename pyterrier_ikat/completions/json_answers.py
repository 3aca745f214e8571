"""JSON in completions: the schema of a request (``structured=on``), and JSON in free text.

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
"""The text between a prompt and the schema. Some servers enforce it but don't show it the model."""


def choice_of(choices: Sequence[Any]) -> Schema:
    """Describe one of several texts or whole numbers."""
    kind = "string" if isinstance(choices[0], str) else "integer"
    return {"type": kind, "enum": list(choices)}


def list_of(items: Schema) -> Schema:
    """Describe a list of such values."""
    return {"type": "array", "items": items}


def object_of(**properties: Schema) -> Schema:
    """Describe an object with these properties."""
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
        >>> queries = Structure("queries", object_of(queries=list_of(TEXT)))
        >>> queries.read('{"queries": ["rooibos caffeine"]}')
        {'queries': ['rooibos caffeine']}
    """

    name: str
    schema: Schema

    @property
    def instruction(self) -> str:
        """Its description in a prompt."""
        return INSTRUCTION + json.dumps(self.schema, separators=(",", ":"))

    def read(self, text: str) -> dict[str, Any] | None:
        """Return the object that ``text`` consists of. None if it does not fit the schema.

        Example:
            >>> label = Structure("label", object_of(label=choice_of([0, 1, 2])))
            >>> label.read('{"label": 2}'), label.read('{"label": 3}')
            ({'label': 2}, None)
            >>> label.read('The label: {"label": 2}') is None
            True
        """
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return None
        return value if _fits(value, self.schema) else None


def answer_in(name: str, value: Schema, reason: bool = False) -> Structure:
    """Return the structure of an answer with one value, perhaps with a reason before it.

    Example:
        >>> list(answer_in("label", choice_of([0, 1]), reason=True).schema["properties"])
        ['reason', 'label']
    """
    properties = {"reason": TEXT} if reason else {}
    properties[name] = value
    return Structure(name, object_of(**properties))


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
    if not isinstance(value, _TYPES[kind]):
        return False
    if isinstance(value, bool) and kind != "boolean":  # Python's booleans are integers, too
        return False
    if "enum" in schema and value not in schema["enum"]:
        return False
    if kind == "object":
        properties = schema["properties"]
        if value.keys() != properties.keys():
            return False
        return all(_fits(value[name], properties[name]) for name in value)
    if kind == "array":
        return all(_fits(item, schema["items"]) for item in value)
    if kind == "number":
        return math.isfinite(value)
    return True


MOST_UNREADABLE = 50
"""The number of unreadable opening brackets after which a search stops.

Each takes a scan of the remaining text.
"""
DEEPEST_NESTING = 99
"""The most brackets within brackets that are read."""
OPENING = re.compile(r"[\[{]")
_SIGN = re.compile(r"[\[\]{},\"']")


def json_values(text: str) -> list[Any]:
    """Return the outermost lists and objects in ``text``, in order. Unreadable ones are skipped.

    Also accepted besides JSON: single quotes, numbers as keys, commas before a closing bracket,
    sets as lists.

    Example:
        >>> json_values("I chose {'3': 0.9, 7: .4,} and [4, 1,], not {those}.")
        [{'3': 0.9, '7': 0.4}, [4, 1]]
    """
    values = []
    position = 0
    unreadable = 0
    while unreadable < MOST_UNREADABLE:
        opening = OPENING.search(text, position)
        if opening is None:
            break
        value, end = value_at(text, opening.start())
        if value is None or end is None:
            unreadable += 1
            position = opening.end()
        else:
            values.append(value)
            position = end
    return values


def objects_in(value: Any) -> list[dict[str, Any]]:
    """Return an object, and all objects inside it or inside a list.

    Example:
        >>> objects_in([{"statements": [{"id": 3}]}, 7])
        [{'statements': [{'id': 3}]}, {'id': 3}]
    """
    objects = []
    parts: list[Any] = []
    if isinstance(value, dict):
        objects.append(value)
        parts = list(value.values())
    elif isinstance(value, list):
        parts = value
    for part in parts:
        objects += objects_in(part)
    return objects


def value_at(text: str, start: int) -> tuple[Any, int | None]:
    """Return the list or object that opens at ``start``, and its end.

    The value is None if it can't be read, the end is None if the value is cut.

    Example:
        >>> value_at("I chose {'3': 0.9}.", 8), value_at("I chose {'3': 0.9", 8)
        (({'3': 0.9}, 18), (None, None))
        >>> value_at("[Oslo].", 0)
        (None, 6)
    """
    end: int | None
    try:
        value, end = json.JSONDecoder(strict=False).raw_decode(text, start)
    except (ValueError, RecursionError):
        end = _end_of(text, start)
        value = None if end is None else _literal(text[start:end])
    if value is None:
        return None, end
    deepest = max(depth for _, depth in _signs(text[:end], start))
    return (None if deepest > DEEPEST_NESTING else value), end


def _end_of(text: str, start: int) -> int | None:
    """Return where the brackets that open at ``start`` are closed. None if they are not."""
    if max(text.rfind("]"), text.rfind("}")) <= start:  # a model that repeats "[" closes none
        return None
    for position, depth in _signs(text, start):
        if depth == 0:
            return position + 1
    return None


def complete_part(text: str, start: int) -> Any:
    """Return the complete items of a cut list, or of a cut object whose keys are numbers.

    The value opens at ``start``. None for any other value.

    Example:
        >>> complete_part('["mint", "sage", "ros', 0), complete_part("{'3': 'mint', '5': 'sa", 0)
        (['mint', 'sage'], {'3': 'mint'})
        >>> complete_part('{"why": "diet", "ids": [3, 5', 0), complete_part("[3]", 0)
        (None, None)
    """
    if value_at(text, start)[1] is not None:
        return None
    item_ends = []
    for position, depth in _signs(text, start):
        if depth == 1 and text[position] == ",":
            item_ends.append(position)
    closing = "]" if text[start] == "[" else "}"
    for end in reversed(item_ends[-MOST_UNREADABLE:]):
        value, _ = value_at(text[:end] + closing, start)
        if value is not None:
            numbered = isinstance(value, list) or all(str(key).isdecimal() for key in value)
            return value if numbered else None
    return None


def _literal(piece: str) -> Any:
    """Return a Python literal whose types exist in JSON. None for any other text."""
    try:
        with warnings.catch_warnings():
            # The compiler remarks on odd escapes in a model's text.
            warnings.simplefilter("ignore")
            value = ast.literal_eval(piece)
            if isinstance(value, set):  # a set has no order, but the model wrote one
                value = ast.literal_eval(f"[{piece[1:-1]}]")
            return json.loads(json.dumps(value))
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None


def _signs(text: str, start: int) -> Iterator[tuple[int, int]]:
    """Yield the brackets and commas outside of quotes, each with how many brackets are open then.

    A quotation mark behind a letter or digit is an apostrophe.
    """
    depth = 0
    quote = ""
    for match in _SIGN.finditer(text, start):
        sign = match[0]
        position = match.start()
        before = text[position - 1]
        if quote:
            if sign == quote and before != "\\":
                quote = ""
        elif sign in "\"'":
            if not before.isalnum():
                quote = sign
        else:
            if sign in "[{":
                depth += 1
            elif sign in "]}":
                depth -= 1
            yield position, depth
