"""Where a completion ends and the model goes on to invent the next prompt, as small models do behind examples."""

import re

_INPUT = "About the user|Conversation so far|Last message of the user"
_NEXT_PROMPT = re.compile(rf"^(?:#+ *(?:Example(?: \d+)?|The user whom you answer) *\n+)?#+ *(?:{_INPUT}) *$", re.MULTILINE)
"""The headings of our templates that stand above what is given, never above what is asked for."""


def without_next_prompt(text: str) -> str:
    r"""The completion up to the headings of a prompt that the model has invented behind it; all of it where nothing stands before them.

    Example:
        >>> without_next_prompt("1. bicycle lights\n\n# Example 3\n# About the user\n1: I keep bees\n# Queries\n1. hives")
        '1. bicycle lights\n\n'
    """
    found = _NEXT_PROMPT.search(text)
    return text[: found.start()] if found and text[: found.start()].strip() else text
