"""Facts of a system that need no run: columns, parts, names, and what is asked of its resources."""

from types import SimpleNamespace

import pandas as pd
import pyterrier as pt
import pytest

import pyterrier_ikat as ikat
from pyterrier_ikat.errors import UsageError
from pyterrier_ikat.foreign import HeldFiles
from pyterrier_ikat.methods import Method
from pyterrier_ikat.operator import Operator
from pyterrier_ikat.study.resources import Resources
from pyterrier_ikat.study.systems import System, distinct_models, methods_in, open_systems

TURNS = pd.DataFrame({"qid": ["1_1"], "query": ["tea"]})


class Finds(Operator):
    """Finds a passage, with columns of its own."""

    def __init__(self, *columns, index=None):
        super().__init__()
        self.columns, self.index = columns, index

    def arguments(self):
        return {"columns": self.columns, "index": self.index}

    def transform(self, inp):
        return inp.assign(docno="a", score=1.0, rank=0, **dict.fromkeys(self.columns, "x"))


@pytest.mark.parametrize(
    ("pipeline", "writes"),
    [
        (Finds(), False),
        (Finds("used"), True),
        (Finds("qanswer"), False),
        (Finds("qanswer", "used"), True),
        (pt.apply.generic(lambda turns: turns.assign(qanswer="x")), True),
        (pt.apply.generic(lambda turns: turns), False),
    ],
)
def test_a_response_is_marked_or_without_passages(pipeline, writes):
    assert System.of(pipeline).writes_response is writes


def test_a_stage_without_texts_is_told_where_they_come_from():
    class NeedsText(Operator):
        def transform(self, inp):
            pt.validate.columns(inp, includes=["docno", "text"])
            return inp

    broken = Finds() >> NeedsText()
    entry = Method("mine", lambda: broken)
    for index, told in [
        (None, None),
        (SimpleNamespace(path="here", has_text=True), None),
        (SimpleNamespace(path="here", has_text=False), "the index here has no texts: let its"),
    ]:
        system = System(entry, broken, Resources(index=index))
        with pytest.raises(UsageError, match="system mine does not work on these topics") as caught:
            system.columns(TURNS)
        assert ("has no texts" in str(caught.value)) is (told is not None)
        assert told is None or told in str(caught.value)


def test_prompts_and_models_are_counted_at_their_stage():
    model = ikat.llm("recorded:sample")
    other = ikat.llm("openai:gpt-4o cache=none on_error=fallback")
    pipeline = ikat.Rewrite(model) >> ikat.RRF(ikat.Answer(other) >> Finds(), Finds("x"))
    identity = System.of(pipeline).parameters()
    assert list(identity["stages"]) == ["1", "2"]
    assert sorted(identity["prompts"]) == ["1 rewrite", "2 answer"]
    assert list(identity["on_error"].values()) == ["raise", "fallback"]
    assert identity["expression"] == System.of(pipeline).written(repr(pipeline))


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


def test_the_longest_repr_is_replaced_first(tmp_path):
    class Index(ikat.retrieve.SearchIndex):
        def __init__(self, name):
            self.name = name

        def __repr__(self):
            return self.name

        def fingerprint(self):
            return self.name

        def docnos(self, among):
            return []

        def __len__(self):
            return 0

        def retriever(self, num_results=1000, cache=None, *, k1=0.9, b=0.4):
            return Finds(index=self)

    both = Finds(index=Index("path")) >> Finds(index=Index("path/longer"))
    stages = System.of(both).parameters()["stages"]
    assert "index)" in stages["1"].replace("index=", "")
    assert "index 2)" in stages["2"].replace("index=", "")
    assert "longer" not in str(stages)


def test_systems_may_be_paths_functions_methods_and_tuples(tmp_path):
    path = tmp_path / "my.py"
    path.write_text(
        "import pyterrier_ikat as ikat\n@ikat.method\n"
        "def mine(retriever):\n    return ikat.RawUtterance() >> retriever\n"
    )
    assert [entry.name for entry in methods_in(path)] == ["mine"]
    assert [entry.name for entry in methods_in((path, "raw"))] == ["mine", "raw"]
    assert [entry.name for entry in methods_in({"x": path})] == ["x"]

    def function(retriever):
        return retriever

    assert [entry.name for entry in methods_in([function])] == ["function"]
    entry = Method("given", function)
    assert methods_in(entry) == [entry]


def test_systems_of_a_name_are_refused_for_other_settings():
    raw = ikat.methods.find("raw")
    deep = raw.with_arguments({"depth": 5})
    assert methods_in([raw, "raw"]) == [raw]
    with pytest.raises(UsageError, match="two systems are named 'raw'"):
        methods_in([raw, deep])


def test_a_methods_own_retriever_takes_no_model_of_splade():
    [system] = open_systems("raw", retriever=Finds())
    assert system.resources.splade_model is None
    entry = Method("mine", lambda retriever: retriever, settings={"retriever": Finds()})
    [own] = open_systems([entry])
    assert own.pipeline == Finds()


def test_models_are_connected_before_the_first_question_alone(monkeypatch):
    opened = []
    monkeypatch.setattr("pyterrier_ikat.llms.LLM.open", lambda self: opened.append(self))
    model = ikat.llm("recorded:sample")
    systems = {"a": ikat.Answer(model), "b": ikat.Answer(model)}
    for options in ({}, {"live": True}, {"connect": True}):
        open_systems(systems, **options)
    open_systems(systems, live=True, connect=True, only_plan=True)
    assert opened == []
    made = open_systems(systems, live=True, connect=True)
    assert opened == [model] == distinct_models(made)


def test_systems_share_what_they_open_and_the_given_ledger():
    ledger = ikat.llms.Ledger()
    first, second = open_systems(["ad", "qr"], ledger, llm="recorded:sample", retriever=Finds())
    assert first.models[0] is second.models[0]
    assert first.models[0].ledger is ledger


def test_the_retriever_may_be_inside_a_fusion():
    fused = ikat.RRF(Finds(), Finds("x"))
    assert System.of(fused).retriever == Finds()


def test_only_a_retriever_of_splade_gets_the_models_of_splade(monkeypatch):
    seen = []

    def opened_index(self, known):
        seen.append((self.retriever, self.splade_model))
        return {"index": None, "retriever": Finds()}

    monkeypatch.setattr(Resources, "_opened_index", opened_index)
    systems = ["raw:retriever=bm25", "raw:retriever=splade", "raw"]
    open_systems(systems, index="x", splade_model="m")
    assert seen == [("bm25", None), ("splade", "m"), (None, "m")]


def test_own_prompts_may_be_in_the_home_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts" / "answer.jinja").write_text("{{ question }}")
    given = {"llm": "recorded:sample", "retriever": Finds(), "prompts": "~/prompts"}
    [system] = open_systems("ad", **given)
    assert str(tmp_path) in repr(system.pipeline)


def test_prompts_of_one_name_in_a_stage_all_count(tmp_path):
    folders = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "answer.jinja").write_text(f"{name}: {{{{ question }}}}")
        folders.append(str(tmp_path / name))
    model = ikat.llm("recorded:sample")
    answers = [ikat.Answer(model, prompts=folder) >> Finds() for folder in folders]
    checksums = System.of(ikat.RRF(*answers)).parameters()["prompts"]["1 answer"].split()
    assert len(set(checksums)) == 2
