import inspect
import re

import pytest
from trust.frames import EXPORTED

from pyterrier_ikat.llm_operator import LLMOperator
from pyterrier_ikat.operator import with_fields

CLASSES = [value for value in EXPORTED.values() if isinstance(value, type)]
ASKING = [one for one in CLASSES if issubclass(one, LLMOperator)]


def described(operator):
    _, there, rest = inspect.getdoc(operator).partition("Args:\n")
    name = operator.__name__
    assert there, (
        f"decorate {name} with @with_fields, and describe its arguments in a section Args: "
        "of its docstring, from llm on"
    )
    section = rest.split("\n\n")[0]
    return re.findall(r"^    (\w+): ", section, re.MULTILINE)


@pytest.mark.parametrize("operator", ASKING, ids=lambda operator: operator.__name__)
def test_every_argument_of_an_operator_is_described_once(operator):
    assert sorted(described(operator)) == sorted(inspect.signature(operator).parameters)


def test_an_own_operator_describes_only_its_own_arguments():
    @with_fields
    class Keywords(LLMOperator):
        """Ask for keywords.

        Args:
            words: how many.
            style: only one.

        Raises:
            UsageError: never.
        """

        words: int = 3

    said = inspect.getdoc(Keywords)
    assert sorted(described(Keywords)) == [
        "llm",
        "on_error",
        "prompts",
        "question",
        "style",
        "words",
    ]
    assert "style: only one.\n" in said
    assert "the model to ask, from" in said
    assert said.endswith("\n\nRaises:\n    UsageError: never.")
