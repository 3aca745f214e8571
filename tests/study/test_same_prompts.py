"""What decides that a run is the same one: what its prompts say, not their files."""

import shutil

import pandas as pd
import pytest

import pyterrier_ikat as ikat
from pyterrier_ikat import prompts
from pyterrier_ikat.errors import UsageError
from pyterrier_ikat.llm_operator import LLMOperator

TEMPLATE = (
    "{# one #}Hi{% if a and not b %} {{ a }}{% endif %}{# a\nnote -#}\n!\n{% include "
    "'part.jinja' %}"
)
PART = "{{ b }} {# not #} there"
SAME = {
    "other comment": (TEMPLATE.replace("one", "two"), PART),
    "no comment": (TEMPLATE.replace("{# one #}", ""), PART),
    "a comment on a line of its own": ("{# note #}\n" + TEMPLATE, PART),
    "other comment in what it includes": (TEMPLATE, PART.replace("not", "note")),
}
OTHER = {
    "text": (TEMPLATE.replace("Hi", "Ho"), PART),
    "condition": (TEMPLATE.replace("and not b", "and b"), PART),
    "value": (TEMPLATE.replace("{{ a }}", "{{ b }}"), PART),
    "space": (TEMPLATE.replace("!", "! "), PART),
    "text of what it includes": (TEMPLATE, PART + "."),
}


def test_template_is_its_source_and_includes_without_comments(tmp_path):
    def sum_of(name, sources):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "t.jinja").write_text(sources[0])
        (folder / "part.jinja").write_text(sources[1])
        return prompts.checksum_of("t", folder=str(folder))

    first = sum_of("first", (TEMPLATE, PART))
    assert {
        name: sum_of(name, sources) == first for name, sources in SAME.items()
    } == dict.fromkeys(SAME, True)
    assert {
        name: sum_of(name, sources) == first for name, sources in OTHER.items()
    } == dict.fromkeys(OTHER, False)


def test_package_templates_are_told_apart_without_comments(tmp_path):
    names = [path.stem for path in sorted(prompts.FOLDER.glob("*.jinja"))]
    known = {name: prompts.checksum_of(name) for name in names}
    assert len(set(known.values())) == len(names)
    for change in ("{# a note -#}\n%s", "%s."):
        for path in prompts.FOLDER.glob("*.jinja"):
            (tmp_path / path.name).write_text(
                change % path.read_text(encoding="utf-8"), encoding="utf-8"
            )
        same = [
            name for name in names if prompts.checksum_of(name, folder=str(tmp_path)) == known[name]
        ]
        assert same == (names if "note" in change else [])


@pytest.fixture
def own_package(tmp_path, monkeypatch):
    """The package's templates, in a folder where a test may change them."""
    shutil.copytree(prompts.FOLDER, tmp_path / "templates")
    monkeypatch.setattr(prompts, "FOLDER", tmp_path / "templates")
    return tmp_path / "templates"


class Model:
    def generate(self, chats):
        return [type("Reply", (), {"text": "tea"}) for _ in chats]


def run(out, index, **more):
    systems = {
        "raw": ikat.RawUtterance() >> index.bm25(5),
        "mine": ikat.Rewrite(ikat.llm(Model(), identity="tea"), **more) >> index.bm25(5),
    }
    return ikat.run(systems, "ikat:sample", out=out, turns=["1-1_1", "1-1_2"])


def test_an_added_or_unused_template_refuses_no_finished_run(own_package, tmp_path, sample_index):
    index = sample_index
    run(tmp_path / "runs", index)
    (own_package / "brand_new.jinja").write_text("New: {{ question }}")
    (own_package / "answer.jinja").write_text("Other: {{ question }}")
    (own_package / "rewrite.jinja").write_text(
        "{# a note -#}\n" + (own_package / "rewrite.jinja").read_text()
    )
    run(tmp_path / "runs", index)
    (own_package / "rewrite.jinja").write_text("Rewrite: {{ question }}")
    with pytest.raises(
        UsageError, match=r"mine holds a run with different prompts \(1 rewrite\)"
    ) as error:
        run(tmp_path / "runs", index)
    assert "\n" not in str(error.value)


@pytest.mark.filterwarnings(
    "ignore:.*reads notes.jinja:pyterrier_ikat.prompts.UnknownPromptWarning"
)
def test_prompts_in_a_moved_folder_are_the_same(tmp_path, sample_index):
    index, folder = sample_index, tmp_path / "own"
    folder.mkdir()
    (folder / "rewrite.jinja").write_text("Mine: {{ question }}")
    run(tmp_path / "runs", index, prompts=str(folder))
    folder.rename(tmp_path / "moved")
    (tmp_path / "moved" / "notes.jinja").write_text("For later")
    run(tmp_path / "runs", index, prompts=str(tmp_path / "moved"))
    with pytest.raises(UsageError, match="mine holds a run with different prompts"):
        run(tmp_path / "runs", index)


def test_an_operator_names_the_templates_that_it_uses(tmp_path):
    class Two(LLMOperator):
        stage = "rewrite"

        def requests(self, frame):
            return [self.request("1", {"question": "tea"}, "other")]

    (tmp_path / "other.jinja").write_text("{{ question }}")
    with pytest.raises(
        UsageError,
        match=r"Two uses the prompt template other: return its name from the method templates\(\)",
    ):
        Two(ikat.llm(Model()), prompts=str(tmp_path)).requests(pd.DataFrame())
