"""What a user brings is run like ours.

Expressions with a stranger's operator and stages of other packages.
"""

import shutil

import pandas as pd
import pyterrier as pt
import pytest
from fakes import ByPrompt

import pyterrier_ikat as ikat
from pyterrier_ikat.conversations.frame import with_query
from pyterrier_ikat.conversations.ikat_dataset import SAMPLE
from pyterrier_ikat.llm_operator import LLMOperator
from pyterrier_ikat.operator import Operator
from pyterrier_ikat.runs import RunFolder
from pyterrier_ikat.study import AlikeWarning

FIVE = ["1-1_1", "1-1_2", "1-1_3", "2-1_1", "2-1_2"]


class LastWords(Operator):
    """A stranger's operator, as docs/own_operator.md writes it."""

    schematic = {"label": "Last words"}
    one_row_per_turn = True

    def __init__(self, words=3):
        super().__init__()
        self.words = words

    def transform(self, inp):
        pt.validate.query_frame(inp, extra_columns=["query"], context=self)
        queries = []
        for query in inp["query"]:
            last = query.split()[-self.words :]
            queries.append(" ".join(last))
        return with_query(inp, queries)


class Keywords(LLMOperator):
    """A stranger's operator that asks."""

    stage = "keywords"
    schematic = {"label": "Keywords"}

    def parse(self, text):
        return text or None

    def write(self, frame, found):
        queries = []
        for query, words in zip(frame["query"], found, strict=True):
            queries.append(f"{query} {words}")
        return with_query(frame, queries)


class Foreign(pt.Transformer):
    """A stage of another package, which fails at its call of the number ``stops``."""

    def __init__(self, stops=None):
        super().__init__()
        self.seen = []
        self.stops = stops

    def transform(self, inp):
        if len(inp) and len(self.seen) == self.stops:
            raise ZeroDivisionError
        self.seen += [inp["qid"].tolist()] if len(inp) else []
        return inp


class Told(Foreign):
    """One whose repr tells it apart."""

    def __repr__(self):
        return "Told()"


class FindsSometimes(Told):
    """Finds a passage for every third turn only."""

    def transform(self, inp):
        found = super().transform(inp)
        return found[found["qturn"] % 3 == 1].assign(
            docno="sample-walk-001:0", score=1.0, rank=0, text="Walk."
        )


@pytest.fixture
def prompts(tmp_path):
    (tmp_path / "templates").mkdir()
    (tmp_path / "templates" / "keywords.jinja").write_text("Keywords of {{ question }}:")
    return str(tmp_path / "templates")


def test_resumed_run_does_not_rerun_turns_without_passages(tmp_path):
    given = {"dataset": "ikat:sample", "turns": FIVE, "out": tmp_path, "turns_at_once": 2}
    with pytest.raises(ZeroDivisionError):
        ikat.run({"mine": FindsSometimes(stops=1)}, **given)
    resumed = FindsSometimes()
    ikat.run({"mine": resumed}, **given)
    assert sum(resumed.seen, []) == FIVE[2:]
    turns = RunFolder(tmp_path / "mine").turns()
    assert len(turns) == len(FIVE)
    assert 0 in [turn["passages"] for turn in turns]
    finished = FindsSometimes()
    ikat.run({"mine": finished}, **given)
    assert finished.seen == []


def test_strangers_operators_plan_run_resume_draw_and_report(index, prompts, tmp_path):
    def system(stage):
        model = ByPrompt(keywords="heath walk")
        return model, LastWords(4) >> Keywords(model.llm, prompts=prompts) >> stage >> index.bm25(
            num_results=5
        )

    _, whole = system(Told())
    given = {"dataset": "ikat:sample", "turns": FIVE, "turns_at_once": 2}
    planned = ikat.plan({"mine": whole}, "ikat:sample", turns=FIVE)
    assert (planned["stage"].tolist(), planned["calls"].tolist()) == (
        ["keywords", "Told()"],
        [5, pd.NA],
    )
    table = ikat.run({"mine": whole}, **given, out=tmp_path / "whole").table
    stopped, first = system(Told(stops=1))
    stopped.identity = whole[1].llm.backend.identity
    with pytest.raises(ZeroDivisionError):
        ikat.run({"mine": first}, **given, out=tmp_path / "killed")
    assert len(stopped.asked) == 5
    again, second = system(stage := Told())
    again.identity = whole[1].llm.backend.identity
    assert ikat.run({"mine": second}, **given, out=tmp_path / "killed").table.equals(table)
    assert [len(turns) for turns in stage.seen] == [2, 1]
    assert len(again.asked) == 3  # a fake has no cache
    for name in ("run.trec", "turns.jsonl", "measures.csv", "stages.jsonl.gz"):
        assert (tmp_path / "killed" / "mine" / name).read_bytes() == (
            tmp_path / "whole" / "mine" / name
        ).read_bytes()
    assert "Last words" in ikat.show.draw(whole).html
    assert "LastWords(words=4)" in ikat.report([tmp_path / "whole" / "mine"]).html


def test_stage_that_repr_does_not_tell_apart_is_named_on_reuse(index, tmp_path):
    def run(stage, name="mine"):
        return ikat.run(
            {name: stage >> index.bm25(num_results=3)},
            "ikat:sample",
            turns=FIVE,
            out=tmp_path,
            turns_at_once=2,
        )

    with pytest.raises(ZeroDivisionError):
        run(Foreign(stops=2))
    resumed = Foreign()
    with pytest.warns(
        AlikeWarning,
        match=r"results of mine are reused from .*mine.partial, but its stage <.*Foreign object",
    ):
        run(resumed)
    assert len(resumed.seen) == 1
    with pytest.warns(AlikeWarning, match=r"reused from .*mine, but its stage"):
        run(Foreign(stops=0))
    run(pt.apply.query(lambda row: row["query"]), "lambda")
    with pytest.warns(AlikeWarning, match=r"its stage pt.apply.query\(\) can't be identified"):
        run(pt.apply.query(lambda row: "tea"), "lambda")

    class Model:
        def generate(self, chats):
            return ["tea"] * len(chats)

    run(ikat.Rewrite(ikat.llm(Model())), "model")
    with pytest.warns(AlikeWarning, match=r"its model Model can't be identified"):
        run(ikat.Rewrite(ikat.llm(Model())), "model")
    Model.identity = "one"
    run(ikat.Rewrite(ikat.llm(Model())), "named")
    run(ikat.Rewrite(ikat.llm(Model())), "named")
    run(Told(), "told")
    run(Told(stops=0), "told")  # any warning is an error
    with pytest.raises(
        ikat.UsageError, match=r"told holds a run with different stages, expression"
    ):
        run(LastWords(), "told")


def test_topics_and_qrels_of_ones_own(index, tmp_path):
    topics = pt.get_dataset("ikat:sample").get_topics()[["qid", "query"]].head(3)
    qrels = pt.get_dataset("ikat:sample").get_qrels()
    system = index.bm25(num_results=3)
    table = ikat.run({"mine": system}, out=tmp_path, topics=topics, qrels=qrels).table
    assert table["turns"].tolist() == [3]
    assert RunFolder(tmp_path / "mine").results()["qid"].unique().tolist() == topics["qid"].tolist()


@pytest.mark.parametrize(
    ("systems", "options", "message"),
    [
        ("raw", {"lllm": "x"}, "there is no option 'lllm': did you mean llm?"),
        ("raw", {"colour": "red"}, "there is no option 'colour': give one of index, llm"),
        ("raw", {}, "method raw needs retriever: give index=..."),
        ("raw", {"retriever": Told(), "llm": "recorded:sample"}, "no system uses llm=...: omit it"),
        ("raw", {"index": "an.index", "retriever": Told()}, "no system uses index=...: omit it"),
        ({"x": ikat.RawUtterance()}, {"index": "an.index"}, "no system uses index=...: omit it"),
        (
            "ad",
            {"retriever": Told(), "llm": "recorded:sample", "reranker": "bi:"},
            "reranker='bi:' lacks a model's name",
        ),
        (pt.apply.query(lambda row: ""), {}, "has no name: give {'name': pipeline}"),
        ({"x": 3}, {}, "a system is a int"),
        ({}, {}, "there is no system"),
        ({"x": ikat.RawUtterance()}, {}, "system x makes no ranking: its result has no docno"),
    ],
)
def test_what_cannot_be_run_is_said(systems, options, message, tmp_path):
    with pytest.raises(ikat.UsageError, match=message.replace("?", r"\?")):
        ikat.run(systems, "ikat:sample", out=tmp_path / "runs", **options)
    with pytest.raises(ikat.UsageError):
        ikat.experiment(systems, "ikat:sample", **options)


@pytest.mark.parametrize("name", ["a/b", " ", ".hidden", 3])
def test_a_name_that_can_be_no_folders_is_refused(name, tmp_path):
    found = pt.apply.generic(lambda frame: frame.assign(docno="a", score=1.0, rank=0))
    with pytest.raises(
        ikat.UsageError,
        match=f"a system is named {name!r}: a name is a text that can be a folder's",
    ):
        ikat.run({name: found}, "ikat:sample", out=tmp_path / "runs")


@pytest.mark.filterwarnings("ignore::pyterrier_ikat.prompts.UnknownPromptWarning")
def test_prompts_that_no_system_reads_are_refused(index, prompts, tmp_path):
    system = Keywords(ByPrompt(keywords="heath").llm, prompts=prompts) >> index.bm25(num_results=3)
    with pytest.raises(ikat.UsageError, match="no system uses prompts=...: omit it"):
        ikat.plan({"mine": LastWords() >> index.bm25()}, "ikat:sample", prompts=prompts)
    assert ikat.plan({"mine": system}, "ikat:sample", prompts=prompts).total["calls"] == 24


@pytest.mark.filterwarnings("ignore::pyterrier_ikat.retrieve.NoResultWarning")
def test_experiment_takes_what_a_run_takes_and_gives_its_table(index, tmp_path, monkeypatch):
    def shortest(retriever, *, depth=1000):
        return LastWords(2) >> retriever % depth

    systems = {
        "mine": ikat.AllUtterances() >> index.bm25(),
        "shortest": shortest,
        "AD": "ad",
        "by hand": "human_qr",
    }
    given = {
        "turns": FIVE,
        "index": str(index.path),
        "llm": "recorded:sample",
        "measures": ["nDCG@5", "P(rel=2)@10"],
        "baseline": "mine",
    }
    monkeypatch.chdir(tmp_path)
    table = ikat.experiment(systems, "ikat:sample", **given)
    assert list(tmp_path.iterdir()) == []
    pd.testing.assert_frame_equal(
        ikat.run(systems, "ikat:sample", out="runs", **given).table, table
    )
    few = ikat.experiment(
        "raw", "ikat:sample", index=index, turns="1-1_1,1-1_2", qrels="provenance"
    )
    assert few["turns"].tolist() == [2]
    pd.testing.assert_frame_equal(
        few,
        ikat.run(
            "raw", "ikat:sample", out="few", index=index, turns="1-1_1,1-1_2", qrels="provenance"
        ).table,
    )


def test_a_collection_folder_may_lie_elsewhere(tmp_path):
    for name in ("here", "there"):
        shutil.copytree(SAMPLE, tmp_path / name)
    index = ikat.PassageIndex(tmp_path / "index").index(
        ikat.dataset(tmp_path / "here").get_corpus_iter(verbose=False)
    )
    ikat.run(
        {"told": Told() >> index.bm25(num_results=3)},
        ikat.dataset(tmp_path / "here"),
        out=tmp_path / "runs",
    )
    again = Told(stops=0)
    ikat.run(
        {"told": again >> index.bm25(num_results=3)},
        ikat.dataset(tmp_path / "there"),
        out=tmp_path / "runs",
    )
    topics = tmp_path / "there" / "topics.json"
    topics.write_text(topics.read_text().replace("walk", "ride"))
    with pytest.raises(ikat.UsageError, match="different topics_sha256"):
        ikat.run(
            {"told": again >> index.bm25(num_results=3)},
            ikat.dataset(tmp_path / "there"),
            out=tmp_path / "runs",
        )


def test_index_object_of_a_folder_is_taken_wherever_its_path_is(index, tmp_path):
    given = ikat.Index(index.path)
    first = ikat.run(
        "raw", "ikat:sample", turns=FIVE, out=tmp_path / "first", index=index.path
    ).table
    pd.testing.assert_frame_equal(
        ikat.run("raw", "ikat:sample", turns=FIVE, out=tmp_path / "second", index=given).table,
        first,
    )
    for wrong in (5, ["index"], pd.DataFrame()):
        with pytest.raises(
            ikat.UsageError,
            match=r"index=.*: give the folder of an index, or an index such as ikat.Index",
        ):
            ikat.run("raw", "ikat:sample", out=tmp_path / "third", index=wrong)


def test_frames_in_pt_experiment_order_get_told_their_names(index, tmp_path):
    sample = ikat.dataset("ikat:sample")
    topics = sample.get_topics()
    systems = {"bm25": index.bm25()}
    for call in (
        lambda: ikat.experiment(systems, dataset=topics),
        lambda: ikat.run(systems, topics, out=tmp_path),
    ):
        with pytest.raises(ikat.UsageError, match="give topics=FRAME, qrels=FRAME"):
            call()
    with pytest.raises(ikat.UsageError, match=r"topics=... and qrels=..."):
        ikat.experiment(systems, topics)


def test_a_method_that_reads_gold_columns_is_told_to_say_so(index, tmp_path):
    (tmp_path / "mine.py").write_text(
        "import pyterrier_ikat as ikat\n"
        "@ikat.method()\ndef plain(retriever):\n    'Doc.'\n    return ikat.ManualRewrite() >> "
        "retriever\n"
        "@ikat.method(uses_gold=True)\ndef gold(retriever):\n    'Doc.'\n    return "
        "ikat.ManualRewrite() >> retriever\n"
    )
    with pytest.raises(
        ikat.UsageError,
        match=r"plain does not work .* reads qresolved, .*in a method of your own, set "
        r"uses_gold=True$",
    ):
        ikat.run(f"{tmp_path}/mine.py:plain", "ikat:sample", out=tmp_path / "runs", index=index)
    assert (
        ikat.experiment(f"{tmp_path}/mine.py:gold", "ikat:sample", turns=FIVE, index=index)[
            "turns"
        ].item()
        == 5
    )


def test_a_system_that_writes_into_its_input_disturbs_no_other():
    topics = pd.DataFrame({"qid": ["1_1", "1_2"], "query": ["tea", "milk"]})
    qrels = pd.DataFrame({"qid": ["1_1", "1_2"], "docno": ["a", "b"], "label": [1, 1]})
    found = pd.DataFrame({"docno": ["a", "b"], "score": [2.0, 1.0], "rank": [0, 1]})

    def reverse(passages):
        passages["score"] = -passages["score"]
        return pt.model.add_ranks(passages)

    first = pt.apply.generic(lambda turns: turns.merge(found, how="cross"))
    systems = {"reversed": first >> pt.apply.generic(reverse), "plain": first, "cut": first % 1}
    table = ikat.experiment(systems, measures=["RR"], topics=topics, qrels=qrels)
    assert table.set_index("name")["RR(rel=1)"].to_dict() == {
        "reversed": 0.75,
        "plain": 0.75,
        "cut": 0.5,
    }
    assert [
        table["turns"].tolist(),
        ikat.experiment({"alone": first % 1}, measures=["RR"], topics=topics, qrels=qrels).iloc[
            0, 1
        ],
    ] == [
        [2, 2, 2],
        0.5,
    ]


def test_an_experiment_asks_only_judged_turns(index):
    seen = Foreign()
    topics = pd.DataFrame({"qid": ["1_1", "1_2", "1_3"], "query": ["walk", "tea", "run"]})
    qrels = pd.DataFrame({"qid": ["1_1", "1_3"], "docno": "sample-walk-001:0", "label": 1})
    ikat.experiment({"mine": seen >> index.bm25()}, topics=topics, qrels=qrels, measures=["RR"])
    assert seen.seen == [["1_1", "1_3"]]
