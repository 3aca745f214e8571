"""What a template of a user's own may do wrong: one line each, with the file, and no template runs for ever."""

import pytest
from jinja2 import TemplateRuntimeError

from pyterrier_ikat.errors import UsageError
from pyterrier_ikat.prompts import bounded, checksum_of, render

WRONG = {
    "{{ question": r"answer\.jinja, line 1: unexpected end of template",
    "{% for a in %}": r"answer\.jinja, line 1: ",
    "a\n{{ qestion }}": r"answer\.jinja, line 2: 'qestion' is undefined; it may use ptkb, question",
    "{{ question + 1 }}": r"answer\.jinja, line 1: .*str",
    "{{ 1 / 0 }}": r"answer\.jinja, line 1: division by zero",
    "{{ question.a.b }}": r"answer\.jinja, line 1: 'str object' has no attribute 'a'",
    "{% include 'lost.jinja' %}": r"answer\.jinja of .* includes lost\.jinja, which isn't in .* or in the package: write it there",
    "{{ question | lost }}": r"answer\.jinja, line 1: No filter named 'lost'",
    "{% if not question %}{{ question }}{% endif %}": r"answer\.jinja of .* makes an empty prompt",
    "{# only a note #}": r"answer\.jinja of .* makes an empty prompt",
    "{{ ().__class__ }}": r"answer\.jinja, line 1: .*unsafe",
    "{% include 'answer.jinja' %}": r"calls itself without end",
    "{% macro a() %}{{ a() }}{% endmacro %}{{ a() }}": r"calls itself without end",
}
ENDLESS = {
    "nested loops": "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}",
    "loops that skip": "{% for a in range(9999) %}{% for b in range(9999) if false %}{% endfor %}{% endfor %}",
    "recursive loops": "{% for a in range(99) recursive %}{% if loop.depth < 9 %}{{ loop(range(99)) }}{% endif %}{% endfor %}",
    "macros": "{% macro a(n) %}{% if n %}{{ a(n - 1) }}{{ a(n - 1) }}{% endif %}{% endmacro %}{{ a(99) }}",
    "includes": "{% set n = n - 1 %}{% if n %}{% include 'answer.jinja' %}{% include 'answer.jinja' %}{% endif %}",
    "a product": "{{ 'a' * 10**10 }}",
    "a long text": "{{ 'a' * 9999999999 }}",
    "a power": "{{ 9 ** 9999999999 }}",
    "a width": "{{ '%9999999999d' % 1 }}",
    "doubling": "{% set x = namespace(t=t) %}{% for a in range(99) %}{% set x.t = x.t + x.t %}{% endfor %}",
    "joining": "{% set x = namespace(t=t) %}{% for a in range(99) %}{% set x.t = x.t ~ x.t %}{% endfor %}",
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
    for read in (lambda: render("answer", folder=str(tmp_path), question=""), lambda: checksum_of("answer", folder=str(tmp_path))):
        with pytest.raises(UsageError, match=r"answer\.jinja of .*: it isn't UTF-8: save it as UTF-8"):
            read()


@pytest.mark.parametrize("name", ENDLESS)
def test_every_template_ends(name, tmp_path, monkeypatch):
    monkeypatch.setattr(bounded, "STEPS", 20_000)
    (tmp_path / "answer.jinja").write_text(ENDLESS[name] + "{{ t }}")
    with pytest.raises(UsageError, match=r"answer\.jinja.*(its loops take more than 20,000 steps|beyond 10,000,000|templates may not)"):
        render("answer", folder=str(tmp_path), t="a" * 99, n=99)
    assert checksum_of("answer", folder=str(tmp_path))


def test_loops_still_know_where_they_are(tmp_path):
    source = "{% for a in d %}{{ loop.index }}/{{ loop.length }}{{ a }}{% if not loop.last %}, {% endif %}{% else %}none{% endfor %}"
    (tmp_path / "answer.jinja").write_text(source)
    assert render("answer", folder=str(tmp_path), d=["x", "y"]) == "1/2x, 2/2y"
    assert render("answer", folder=str(tmp_path), d=[]) == "none"


def test_a_template_that_is_renamed_or_added_counts_at_once(tmp_path):
    (tmp_path / "answer_llama.jinja").write_text("Mine: {{ question }}")
    shown = {"ptkb": "", "context": "", "words": 0, "question": "Tea?"}
    assert render("answer", "llama", str(tmp_path), **shown) == "Mine: Tea?"
    (tmp_path / "answer_llama.jinja").rename(tmp_path / "answer.jinja")
    assert render("answer", folder=str(tmp_path), **shown) == render("answer", "llama", str(tmp_path), **shown) == "Mine: Tea?"


def test_a_template_takes_as_many_steps_as_it_may_and_not_one_more(monkeypatch):
    monkeypatch.setattr(bounded, "STEPS", 10)
    template = bounded.BoundedEnvironment().from_string("{% for one in range(size) %}{{ one }}{% endfor %}")
    assert bounded.render_bounded(template, {"size": 9}) == "012345678"  # the template itself is the tenth step
    with pytest.raises(TemplateRuntimeError, match="more than 10 steps"):
        bounded.render_bounded(template, {"size": 10})
