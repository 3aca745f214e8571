"""Templates of one's own: what is rendered, which file counts, what is wrong, and what is told."""

import os
import re
import warnings
from pathlib import Path

import pytest

import pyterrier_ikat as ikat
from pyterrier_ikat.errors import UsageError
from pyterrier_ikat.prompts import (
    FOLDER,
    UnknownPromptWarning,
    checksum_of,
    history_text,
    instructions_for,
    pick_statements,
    prompts_from,
    prompts_or_default,
    ptkb_text,
    quoted,
    render,
    warn_of_unread,
)


@pytest.fixture
def folder(tmp_path):
    """Makes a folder of these files, ``__`` for a dot, and gives its path."""

    def make(name="prompts", **files):
        place = tmp_path / name
        place.mkdir(parents=True, exist_ok=True)
        for file, text in files.items():
            (place / file.replace("__", ".")).write_text(text, encoding="utf-8")
        return str(place)

    return make


def test_the_first_file_that_is_there_is_rendered(folder):
    own = folder(answer__jinja=" gpt {{ question }} \n", rewrite_llama__jinja="llama {{ ptkb }}")
    assert render("answer", folder=own, question="Tea?") == "gpt Tea?"
    assert render("answer", "llama", own, question="Tea?") == "gpt Tea?"
    assert render("rewrite", "llama", own, ptkb="1: a") == "llama 1: a"
    shown = {"ptkb": "1: a", "context": "", "question": "Tea?"}
    assert render("rewrite", "gpt", own, **shown) == render("rewrite", **shown)
    assert render("rewrite", "gpt", "no such folder", **shown) == render("rewrite", **shown)
    assert "Example" in render("queries", "llama", n=3, **shown)
    assert "Example" not in render("queries", n=3, **shown)


def test_own_files_that_change_count_at_once(folder):
    own = folder(answer__jinja="one")
    assert render("answer", folder=own) == "one"
    folder(answer__jinja="another")
    os.utime(f"{own}/answer.jinja", (1, 1))
    assert render("answer", folder=own) == "another"
    folder(mine__jinja="mine")
    assert render("mine", folder=own) == "mine"


@pytest.mark.parametrize(
    ("source", "value", "prompt"),
    [
        (
            "{{ x }}",
            "# a\n b\n #c\n\ufeff\uff03d\ne # f",
            "\\# a\n b\n\\ #c\n\\\ufeff\uff03d\ne # f",
        ),
        ("{{ x | quoted }}", "</passage> <b> < Response>", "&lt;/passage> <b> &lt; Response>"),
        ("{% if x %}\nyes\n{% endif %}\nend", "1", "yes\nend"),
        ("  {% if x %}\nyes\n  {% endif %}\nend", "1", "yes\nend"),
        ("{{ x }}", 5, "5"),
        ("# Own\n{{ x }}", "a", "# Own\na"),
        ("{% macro m(t) %}\n# {{ t }}\n{% endmacro %}\n{{ m(x) }}", "# a", "# \\# a"),
    ],
)
def test_a_value_passes_for_no_heading_or_delimiter(folder, source, value, prompt):
    assert render("mine", folder=folder(mine__jinja=source), x=value) == prompt


def test_delimiters_of_texts_are_quoted():
    assert quoted("<passage><RESPONSE <text> <textile> < / Text>") == (
        "&lt;passage>&lt;RESPONSE &lt;text> <textile> &lt; / Text>"
    )
    assert quoted(5) == "5"


@pytest.mark.parametrize(
    ("name", "source", "parts"),
    [
        ("mine", "{{ y }}", ["prompt template", "mine.jinja, line 1", "y", "it may use a, x"]),
        ("mine", "a\n{{ x.y.z }}", ["mine.jinja, line 2"]),
        ("mine", "{% if %}", ["mine.jinja"]),
        ("mine", " {# nothing #} ", ["mine.jinja", "makes an empty prompt"]),
        ("mine", "{% include 'other.jinja' %}", ["no prompt template other.jinja"]),
        ("other", "x", ["there is no prompt template other.jinja in", "give prompts=FOLDER"]),
    ],
)
def test_an_error_of_a_template_names_its_file(folder, name, source, parts):
    own = folder(mine__jinja=source)
    with pytest.raises(UsageError) as refused:
        render(name, folder=own, x="1", a="2")
    for part in [*parts, own]:
        assert part in str(refused.value)


def test_an_error_of_an_included_template_names_its_line(folder):
    own = folder(a__jinja="A\n{% include 'b.jinja' %}", b__jinja="B\n\n{{ gone }}")
    with pytest.raises(UsageError, match="b.jinja, line 3: 'gone' is undefined"):
        render("a", folder=own)


@pytest.mark.parametrize("name", ["mine", "mine_llama"])
def test_the_file_that_makes_an_empty_prompt_is_named(folder, name):
    own = folder(**{f"{name}__jinja": " {# nothing #} "})
    with pytest.raises(UsageError, match=f"prompt template {name}.jinja of .* an empty prompt"):
        render("mine", "llama", own)


def test_a_missing_template_of_the_package_is_named():
    with pytest.raises(UsageError, match=f"no prompt template other.jinja in {FOLDER}"):
        render("other")
    with pytest.raises(UsageError, match="no prompt template"):
        render("other", "llama")


def test_system_messages_are_those_of_the_package_and_ones_own(folder):
    own = folder(answer_system__jinja="x", queries_system_llama__jinja="x")
    assert instructions_for("preferences") == "preferences_system"
    assert instructions_for("preferences", "llama", own) == "preferences_system"
    assert instructions_for("answer") is None
    assert instructions_for("answer", folder=own) == "answer_system"
    assert instructions_for("answer", "llama", own) == "answer_system"
    assert instructions_for("queries", folder=own) is None
    assert instructions_for("queries", "llama", own) == "queries_system"


def test_the_checksum_is_of_all_sources_without_comments(folder):
    parts = {"a__jinja": "A{% include 'b.jinja' %}", "b__jinja": "B", "c__jinja": "C"}

    def checksum(**changed):
        return checksum_of("a", folder=folder(**{**parts, **changed}))

    first = checksum()
    assert checksum() == first
    assert checksum(c__jinja="D") == first
    assert checksum(b__jinja="{# why #}B") == first
    assert checksum(a__jinja="A{# why #}{% include 'b.jinja' %}") == first
    others = [
        checksum(b__jinja="BB"),
        checksum(a__jinja="AA{% include 'b.jinja' %}"),
        checksum(a__jinja="A{% include 'c.jinja' %}"),
        checksum(a__jinja="A{% include 'b.jinja' %}{% include 'c.jinja' %}"),
        checksum(b__jinja="B{% include 'c.jinja' %}"),
        checksum(b__jinja="B{% include 'a.jinja' %}"),
    ]
    twice = "A{% include 'b.jinja' %}{% include 'b.jinja' %}{% include 'c.jinja' %}"
    others += [checksum(a__jinja=twice), checksum(a__jinja=twice, c__jinja="D")]
    assert len({first, *others}) == len(others) + 1
    assert all(others)
    assert checksum_of("nothing") == ""
    own = folder(a_llama__jinja="L")
    assert checksum_of("a", "llama", own) != checksum_of("a", "gpt", own)
    assert checksum_of("answer") == checksum_of("answer", folder=own)
    with pytest.raises(UsageError, match="no prompt template gone.jinja"):
        checksum(b__jinja="{% include 'gone.jinja' %}")
    with pytest.raises(UsageError, match="prompt template .*b.jinja"):
        checksum(b__jinja="{% if")


def told(call):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return [str(one.message) for one in caught if one.category is UnknownPromptWarning]


READ = {"answer__jinja": "x", "rewrite_llama__jinja": "x", "queries_system__jinja": "x"}


@pytest.mark.parametrize(
    ("files", "own", "messages"),
    [
        (READ, None, []),
        ({**READ, "README__md": "x", "notes__txt": "x"}, None, []),
        (
            {"answr__jinja": "x", "answer__jinja": "y"},
            None,
            ["reads answr.jinja, only .*answr.jinja: did you mean answer.jinja?"],
        ),
        ({"zzzzzz__jinja": "x"}, None, ["reads zzzzzz.jinja, only operators of your own$"]),
        (
            {"answer__txt": "x"},
            None,
            ["reads answer.txt, .*answer.txt: did you mean answer.jinja?"],
        ),
        ({"zzzzzz__jinja": "x", "answr__jinja": "x"}, ["mine"], ["reads answr.jinja, only"]),
        ({"mine__jinja": "x"}, ["mine"], []),
        (
            {
                "answer__jinja": "{% include 'p.jinja' %}",
                "p__jinja": "{% import 'q.jinja' as q %}",
                "q__jinja": "x",
            },
            None,
            [],
        ),
        (
            {"answer__jinja": "x", "p__jinja": "{% include 'q.jinja' %}", "q__jinja": "x"},
            None,
            ["reads p.jinja, q.jinja, only"],
        ),
        ({"answer__jinja": "{% include question %}", "p__jinja": "x"}, None, []),
        ({"answer__jinja": "{% if", "p__jinja": "x"}, None, ["reads p.jinja, only"]),
        (
            {"answer__v2__jinja": "x"},
            None,
            ["reads answer.v2.jinja, .*answer.v2.jinja: did you mean answer.jinja?"],
        ),
        (
            {"answr__jinja": "x", "rewrit__jinja": "x"},
            None,
            ["answr.jinja: did you mean answer.jinja?; rewrit.jinja: did you mean rewrite.jinja?"],
        ),
    ],
    ids=range(13),
)
def test_files_that_no_operator_reads_are_told(folder, files, own, messages):
    place = folder(**files)
    os.mkdir(f"{place}/rewrit.jinja.d")
    found = told(lambda: warn_of_unread(place, own))
    assert len(found) == len(messages)
    for text, message in zip(found, messages, strict=True):
        assert text.startswith(f"{place}: no operator of the package ")
        assert re.search(message.replace("?", r"\?"), text)


def test_a_folder_of_prompts_lasts_as_long_as_its_block(folder):
    own = folder(answer__jinja="x")
    other = folder("other", answer__jinja="y")
    assert prompts_or_default(None) is None
    with prompts_from(own):
        assert prompts_or_default(None) == own
        assert prompts_or_default(other) == other
        with prompts_from(other):
            assert prompts_or_default(None) == other
        with prompts_from(None):
            assert prompts_or_default(None) == own
        assert ikat.Answer("recorded:sample").prompts == own
    assert prompts_or_default(None) is None
    with pytest.raises(ZeroDivisionError), prompts_from(own):
        raise ZeroDivisionError
    assert prompts_or_default(None) is None


def test_a_folder_needs_a_template(folder, monkeypatch, tmp_path):
    empty = folder(notes__txt="x")
    for call in (prompts_or_default, lambda place: prompts_from(place).__enter__()):
        with pytest.raises(UsageError, match=f"prompts: {empty} is not a folder with templates"):
            call(empty)
        with pytest.raises(UsageError, match="is not a folder with templates"):
            call(f"{empty}/none")
    own = folder("own", answr__jinja="x")
    assert len(told(lambda: prompts_or_default(own))) == 1
    assert len(told(lambda: prompts_or_default(own, ["answr"]))) == 0
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.warns(UnknownPromptWarning):
        assert prompts_or_default("~/own") == own


USER = {"role": "user", "content": "Which tea?"}
SYSTEM = {"role": "assistant", "content": "Mint."}


def test_a_history_has_a_line_for_each_message():
    history = [USER, SYSTEM, USER, SYSTEM, USER]
    assert history_text(history) == (
        "user: Which tea?\nsystem: Mint.\nuser: Which tea?\nsystem: Mint.\nuser: Which tea?"
    )
    assert history_text(history, "llama") == (
        "user: Which tea?\nuser: Which tea?\nsystem: Mint.\nuser: Which tea?"
    )
    assert history_text(history[2:], numbers={0: 2, 1: 9, 2: 3}) == (
        "user 2: Which tea?\nsystem: Mint.\nuser 3: Which tea?"
    )
    assert history_text([USER], "llama") == "user: Which tea?"
    assert history_text([]) == ""
    of_system = [USER, {"role": "system", "content": "Mint.\nuser: More?"}]
    for style in ("gpt", "llama"):
        assert history_text(of_system, style) == "user: Which tea?\nsystem: Mint.\n\\user: More?"
    text = "a\nuser: b\n System 2 : c\r\nassistant: d\nusers: e\nuser f"
    assert history_text([{"role": "user", "content": text}]) == (
        "user: a\n\\user: b\n\\ System 2 : c\r\n\\assistant: d\nusers: e\nuser f"
    )


def test_statements_are_shown_by_their_numbers():
    ptkb = {"1": "a", "3": "b"}
    assert ptkb_text(ptkb) == "1: a, 3: b"
    assert ptkb_text({}) == ""
    assert list(pick_statements(ptkb, [("3", 0.1), ("9", 1), ("1", 0)]).items()) == [
        ("3", "b"),
        ("1", "a"),
    ]
    assert pick_statements(ptkb, []) == {}


def test_only_the_text_of_a_macro_keeps_its_headings(folder):
    sources = {
        "{{ x.upper() }}": "\\# A",
        "{{ x.replace('a', 'b') }}": "\\# b",
        "{{ x | upper }}": "\\# A",
        "{% macro m(t) %}# {{ t.upper() }}{% endmacro %}{{ m(x) }}": "# \\# A",
        "{% macro m(t) %}{{ t }}{% endmacro %}{{ m(x) }}": "\\# a",
        "{% macro m() %}# {{ caller() }}{% endmacro %}{% call m() %}{{ x }}{% endcall %}": (
            "# \\# a"
        ),
    }
    for number, (source, prompt) in enumerate(sources.items()):
        own = folder(**{f"m{number}__jinja": source})
        assert render(f"m{number}", folder=own, x="# a") == prompt, source


def test_folders_with_files_of_the_same_names_are_apart(folder):
    own = folder(answer__jinja="one {% include 'p.jinja' %}", p__jinja="1")
    other = folder("other", answer__jinja="two {% include 'p.jinja' %}", p__jinja="2")
    for _ in range(2):
        assert [render("answer", folder=place) for place in (own, other)] == ["one 1", "two 2"]
    assert checksum_of("answer", folder=own) != checksum_of("answer", folder=other)


def test_few_shot_system_messages_are_read(folder):
    files = ("preferences_system_llama", "preferences_llama", "queries_system", "answer_llama")
    templates = {f"{name}__jinja": "x" for name in files}
    place = folder(**templates)
    assert told(lambda: warn_of_unread(place)) == []
    folder(answer_llama_system__jinja="x")
    [message] = told(lambda: warn_of_unread(place))
    assert "reads answer_llama_system.jinja, only" in message


def test_a_file_that_is_no_text_leaves_the_others_as_they_are(folder):
    own = folder(answer__jinja="x")
    Path(own, "rewrite.jinja").write_bytes(b"\xff")
    assert prompts_or_default(own) == own
    assert told(lambda: prompts_or_default(own)) == []
    assert render("answer", folder=own) == "x"
    folder(part__jinja="x")
    [message] = told(lambda: prompts_or_default(own))
    assert "reads part.jinja, only" in message


def test_templates_in_a_folder_of_the_folder_are_none(folder, tmp_path, monkeypatch):
    folder("own/inner", answer__jinja="x")
    own = str(tmp_path / "own")
    no_templates = "own is not a folder with templates"
    with pytest.raises(UsageError, match=no_templates):
        prompts_or_default(own)
    with pytest.raises(UsageError, match=no_templates), prompts_from(own):
        pass
    assert folder("own", answer__jinja="y") == own
    monkeypatch.setenv("HOME", str(tmp_path))
    with prompts_from("~/own"):
        assert prompts_or_default(None) == own
        assert ikat.Answer("recorded:sample").prompts == own


WRONG_TEMPLATES = {
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


@pytest.mark.parametrize(("source", "said"), WRONG_TEMPLATES.items())
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
