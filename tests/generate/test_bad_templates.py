"""What a template of a user's own may do wrong: one line each, with the file."""

import pytest

from pyterrier_ikat.errors import UsageError
from pyterrier_ikat.prompts import checksum_of, render

WRONG = {
    "{{ question": r"answer\.jinja, line 1: unexpected end of template",
    "{% for a in %}": r"answer\.jinja, line 1: ",
    "a\n{{ qestion }}": r"answer\.jinja, line 2: 'qestion' is undefined; it may use ptkb, question",
    "{{ question + 1 }}": r"answer\.jinja, line 1: .*str",
    "{{ 1 / 0 }}": r"answer\.jinja, line 1: division by zero",
    "{{ question.a.b }}": r"answer\.jinja, line 1: 'str object' has no attribute 'a'",
    "{% include 'lost.jinja' %}": r"no prompt template lost\.jinja in .*: write it into a folder",
    "{{ question | lost }}": r"answer\.jinja, line 1: No filter named 'lost'",
    "{% if not question %}{{ question }}{% endif %}": r"answer\.jinja of .* makes an empty prompt",
    "{# only a note #}": r"answer\.jinja of .* makes an empty prompt",
    "{{ ().__class__ }}": r"answer\.jinja, line 1: .*unsafe",
    "{% include 'answer.jinja' %}": r"maximum recursion depth",
    "{% macro a() %}{{ a() }}{% endmacro %}{{ a() }}": r"maximum recursion depth",
}


@pytest.mark.parametrize(("source", "said"), WRONG.items())
def test_an_error_in_a_template_is_one_line_with_its_file(source, said, tmp_path):
    (tmp_path / "answer.jinja").write_text(source)
    with pytest.raises(UsageError, match=said) as error:
        render("answer", folder=str(tmp_path), ptkb="", question="Tea?")
    assert "\n" not in str(error.value)
    assert str(tmp_path) in str(error.value)


def test_a_template_that_is_no_utf_8_is_named(tmp_path):
    (tmp_path / "answer.jinja").write_bytes(b"\xff")
    for read in (
        lambda: render("answer", folder=str(tmp_path), question=""),
        lambda: checksum_of("answer", folder=str(tmp_path)),
    ):
        with pytest.raises(UsageError, match=r"answer\.jinja of .*: 'utf-8' codec can't decode"):
            read()


def test_a_template_that_is_renamed_or_added_counts_at_once(tmp_path):
    (tmp_path / "answer_llama.jinja").write_text("Mine: {{ question }}")
    shown = {"ptkb": "", "context": "", "words": 0, "question": "Tea?"}
    assert render("answer", "llama", str(tmp_path), **shown) == "Mine: Tea?"
    (tmp_path / "answer_llama.jinja").rename(tmp_path / "answer.jinja")
    assert (
        render("answer", folder=str(tmp_path), **shown)
        == render("answer", "llama", str(tmp_path), **shown)
        == "Mine: Tea?"
    )
