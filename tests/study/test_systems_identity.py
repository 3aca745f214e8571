"""What makes a run another run: stages, texts, models and what prompts say, not where they are."""

import os
import shutil

import pandas as pd
import pyterrier as pt
import pytest
from fakes import scripted

import pyterrier_ikat as ikat
from pyterrier_ikat import prompts
from pyterrier_ikat.errors import UsageError
from pyterrier_ikat.foreign import HeldFiles
from pyterrier_ikat.llm_operator import LLMOperator
from pyterrier_ikat.operator import Operator
from pyterrier_ikat.retrieve import PassageText
from pyterrier_ikat.study.systems import System


def parameters_of(pipeline):
    return System.of(pipeline).parameters()


class Index:
    """An index as far as sameness looks at it."""

    def __init__(self, holds, texts=None):
        self.holds = holds
        self.text = None if texts is None else PassageText(texts)

    def fingerprint(self):
        return self.holds

    def __repr__(self):
        return "Index()"


class Searches(pt.Transformer):
    """A foreign retriever over an index."""

    def __init__(self, index):
        super().__init__()
        self.index = index

    def transform(self, inp):
        return inp

    def __repr__(self):
        return f"Searches({self.index!r})"


class Reads(Operator):
    """A stranger's operator, whose argument of any name may be a folder."""

    def __init__(self, lexicon, inner=None):
        super().__init__()
        self.lexicon, self.inner = lexicon, inner

    def transform(self, inp):
        return inp


def test_other_texts_beside_the_same_vectors_are_another_run():
    known = parameters_of(Searches(Index("vectors", Index("tea"))))
    assert parameters_of(Searches(Index("vectors", Index("tea")))) == known
    assert known["parts"] == {"index": "vectors", "index 2": "tea"}
    changed = parameters_of(Searches(Index("vectors", Index("coffee"))))
    assert [name for name in known if changed[name] != known[name]] == ["parts"]


class Vectors(Index):
    """One that shows where it lies, and the index of its texts."""

    def __init__(self, place):
        self.texts = Index("tea")
        super().__init__("vectors", self.texts)
        self.place = place

    def __repr__(self):
        return f"Vectors({self.place!r}, {self.texts!r})"


def test_index_location_counts_in_no_stage_nor_that_of_its_texts():
    known = parameters_of(Searches(Vectors("here")))
    assert known["stages"] == {"1": "Searches(index)"}
    assert parameters_of(Searches(Vectors("there"))) == known


@pytest.mark.parametrize(
    "made",
    [
        lambda folder: ikat.CrossEncoder(folder),
        lambda folder: ikat.Ensemble(["hub/name", ikat.BiEncoder(folder)]),
        lambda folder: ikat.RankStatements(ikat.Ensemble([folder]), 3),
        lambda folder: ikat.generate.Seq2SeqRewrite(folder) % 10,
        lambda folder: Reads("no folder", Reads(folder)),
        lambda folder: ikat.RRF(
            Searches(Index("tea")) >> ikat.CrossEncoder(folder), Searches(Index("tea"))
        ),
    ],
)
def test_model_trained_on_in_its_folder_makes_another_run(made, tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "weights.bin").write_bytes(b"1234")
    system = made(str(folder))
    known = parameters_of(system)
    assert parameters_of(system) == known
    (folder / "weights.bin").write_bytes(b"4321")
    os.utime(folder / "weights.bin", ns=(1, 1))
    changed = parameters_of(system)
    assert [name for name in known if changed[name] != known[name]] == ["parts"]


def test_models_of_the_hub_stand_for_themselves():
    system = (
        ikat.Rewrite(ikat.llm("hf:hub/name"))
        >> Searches(Index("tea"))
        >> ikat.CrossEncoder("hub/name")
    )
    assert list(parameters_of(system)["parts"]) == ["ikat.llm('hf:hub/name')", "index"]


def test_a_local_model_is_told_apart_by_its_files(tmp_path):
    def known():
        return parameters_of(Searches(ikat.llm(f"hf:{tmp_path}")))["parts"]

    before = known()
    assert known() == before
    (tmp_path / "weights.bin").write_bytes(b"1")
    assert known() != before


def test_an_address_in_memory_makes_no_other_run():
    class Plain(pt.Transformer):
        def transform(self, inp):
            return inp

    assert (
        parameters_of(Plain() >> Plain())["stages"] == parameters_of(Plain() >> Plain())["stages"]
    )


class Holds(pt.Transformer):
    """Of another package: holds a file, a folder or an artifact."""

    def __init__(self, **attributes):
        super().__init__()
        vars(self).update(attributes)

    def transform(self, inp):
        return inp

    def __repr__(self):
        return "Holds()"


class Built(pt.Artifact):
    def __init__(self, path):
        self.path = path


def test_files_that_an_artifact_names_are_its_own(tmp_path):
    (tmp_path / "words.txt").write_text("x")
    path = str(tmp_path / "words.txt")
    plain = System.of(Holds(file=path))
    assert plain.may_be_written == {path}
    assert plain.parameters()["parts"] == {path: HeldFiles(path).fingerprint()}
    built = System.of(Holds(index=Built(path)) >> Holds(file=path))
    assert built.may_be_written == set()
    assert System.of(Holds(file=path) >> Holds(index=Built(path))).may_be_written == set()
    assert System.of(Holds()).may_be_written == set()


def test_stages_with_fingerprints_are_parts_by_their_class():
    class Marked(Holds):
        def __init__(self, text):
            super().__init__(text=text)

        def fingerprint(self):
            return self.text

    system = System.of(Marked("a") >> Marked("b"))
    assert system.parameters()["parts"] == {"Marked": "a", "Marked 2": "b"}
    assert system.parameters()["stages"] == {"1": "Holds()", "2": "Holds()"}


FINDS = pt.apply.generic(lambda turns: turns.assign(docno="d", score=1.0, rank=0))


def test_an_address_in_memory_is_no_part_of_an_identity():
    system = System.of(FINDS)
    assert system.written("f at 0x7f00aa11, g") == system.written("f at 0x1, g")


def test_folders_of_prompts_are_named_by_their_number(tmp_path):
    folders = []
    for name in ("one", "two"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "rewrite.jinja").write_text("{{ question }}")
        (folder / "answer.jinja").write_text("{{ question }}")
        folders.append(str(folder))
    model, _ = scripted()
    first = ikat.Rewrite(model, prompts=folders[0])
    second = ikat.Answer(model, prompts=folders[1])
    stages = System.of(first >> second).parameters()["stages"]
    assert "prompts='own'" in stages["1"]
    assert "prompts='own 2'" in stages["2"]
    moved = System.of(ikat.Rewrite(model, prompts=folders[1])).parameters()["stages"]["1"]
    assert moved == stages["1"]
    behind = System.of(ikat.Rewrite(model) >> ikat.Answer(model, prompts=folders[0]))
    assert "prompts='own'" in behind.parameters()["stages"]["2"]


def test_the_budget_of_a_model_is_no_part_of_an_identity():
    cheap = ikat.llm("openai:gpt-4o cache=none price_in=1 price_out=1 budget=1")
    dear = ikat.llm("openai:gpt-4o cache=none price_in=1 price_out=1 budget=5")
    other = ikat.llm("openai:gpt-4o cache=none temperature=1")
    first = System.of(ikat.Rewrite(cheap)).parameters()
    second = System.of(ikat.Rewrite(dear)).parameters()
    third = System.of(ikat.Rewrite(other)).parameters()
    assert first == second
    assert first != third


# Prompts


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
    for name, sources in SAME.items():
        assert sum_of(name, sources) == first, name
    for name, sources in OTHER.items():
        assert sum_of(name, sources) != first, name


def test_package_templates_are_told_apart_without_comments(tmp_path):
    names = [path.stem for path in sorted(prompts.FOLDER.glob("*.jinja"))]
    known = {name: prompts.checksum_of(name) for name in names}
    assert len(set(known.values())) == len(names)
    for change in ("{# a note -#}\n%s", "%s."):
        for path in prompts.FOLDER.glob("*.jinja"):
            (tmp_path / path.name).write_text(
                change % path.read_text(encoding="utf-8"), encoding="utf-8"
            )
        same = []
        for name in names:
            if prompts.checksum_of(name, folder=str(tmp_path)) == known[name]:
                same.append(name)
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
