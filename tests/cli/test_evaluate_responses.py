"""`ikat evaluate --of responses` and `--of nuggets`: judges, texts, what datasets publish."""

from importlib import import_module
from io import StringIO
from types import SimpleNamespace

import pandas as pd
import pytest
from command_results import WHY, Called, assert_spending_is_told, csv_of, spends_and_fails

import pyterrier_ikat as ikat
from pyterrier_ikat.conversations.ikat_dataset import SampleDataset
from pyterrier_ikat.errors import UsageError
from pyterrier_ikat.llms import Ledger
from pyterrier_ikat.runs import RunFolder

module = import_module("pyterrier_ikat.cli.evaluate")


RESPONSES = import_module("pyterrier_ikat.evaluation.responses")


# Judges


def test_judges_are_those_named_in_their_order(tmp_path):
    ledger = Ledger()
    [default] = module._judges((), None, ledger)
    assert type(default) is ikat.evaluation.RougeL
    names = ("existing-citations", "nuggets", "token-f1", "cited-sentences", "preference")
    judges = module._judges(names, "recorded:sample", ledger)
    assert [type(judge).__name__ for judge in judges] == [
        "ExistingCitations",
        "NuggetRecall",
        "TokenF1",
        "CitedSentences",
        "Preference",
    ]
    asking = ("groundedness", "completeness", "relevance", "naturalness", "correctness")
    judges = module._judges(asking, "recorded:sample", ledger)
    assert [type(judge).__name__.lower() for judge in judges] == list(asking)
    assert all(judge.llm.ledger is ledger for judge in judges)
    with pytest.raises(UsageError, match="--judge relevance needs a language model"):
        module._judges(("rouge-l", "relevance"), None, ledger)
    with pytest.raises(UsageError, match="or give bem=FOLDER"):
        module._judges(("zzzz",), None, ledger)


def test_a_classifier_of_equivalence_is_read_from_its_folder(monkeypatch):
    classifier = Called("the classifier")
    monkeypatch.setattr(ikat.evaluation, "AnswerEquivalence", classifier)
    assert module._judges(("bem=some/bem=x",), None, Ledger()) == ["the classifier"]
    assert classifier.calls == [(("some/bem=x",), {})]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--judge", "groundedness"), "--judge groundedness needs a language model: give --llm"),
        (("--judge", "rouge"), "--judge rouge is unknown: did you mean rouge-l"),
        (("--judge", "completness"), "is unknown: did you mean completeness"),
        (("--judge", "token-f"), "is unknown: did you mean token-f1"),
        (("--judge", "zzzz"), "choose among rouge-l, token-f1,"),
    ],
)
def test_a_judge_that_cannot_be_asked_is_named(call, refused, made, options, told):
    line = refused(call("evaluate", made.runs / "rtg", "--of", "responses", *options))
    assert told in line


def test_the_table_of_judges_names_each_ones_model(call, made):
    on = ("--dataset", "ikat:sample", "--format", "csv", "--judge", "token-f1")
    asked = ("evaluate", "--of", "responses", made.runs / "rtg", *on)
    assert call(*asked).stdout.startswith("run,judge,mean,")
    done = call(*asked, "--judge", "groundedness", "--llm", "recorded:sample")
    header, by_words, by_model = done.stdout.splitlines()
    assert header.startswith("run,judge,model,mean,")
    assert (by_words[:13], by_model[:26]) == ("rtg,token F1,", "rtg,groundedness,recorded,")


def test_responses_are_judged_by_words_unless_a_judge_is_named(call, made):
    rtg = made.runs / "rtg"
    by_default = call("evaluate", rtg, "--of", "responses", "--format", "csv")
    assert by_default.exit_code == 0, by_default.output
    assert by_default.stdout.splitlines()[1].startswith("rtg,ROUGE-L,")
    named = call(
        *("evaluate", rtg, "--of", "responses", "--format", "csv"),
        *("--judge", "token-f1", "--judge", "rouge-l", "--turns", "1-1_1,1-1_2"),
    )
    _, *rows = csv_of(named)
    assert [row[1] for row in rows] == ["token F1", "ROUGE-L"]
    turns = ikat.dataset("ikat:sample").get_topics()["qid"].tolist()
    frame = pd.DataFrame(RunFolder(rtg).turns()).set_index("qid").loc[turns[:1]]
    assert frame["response"].str.len().item() > 0


def test_a_run_without_responses_is_named(call, refused, made):
    line = refused(call("evaluate", made.runs / "raw", "--of", "responses"))
    assert line == "raw has no responses: its system writes none"


# Responses


@pytest.fixture
def judging(monkeypatch):
    """Responses of two runs judged by two judges, one of which asks a model; what was called."""
    seen = SimpleNamespace(turns=[], told=[], means=[], texts=[], nuggets=[])
    topics = pd.DataFrame({"qid": ["1_1", "1_2", "1_3"]})
    data = SimpleNamespace(name="d", conversations="talks", get_nuggets=None)

    def judges(names, spec, ledger):
        ledger.count("relevance", "gpt-4o", calls=1)
        seen.judges = (names, spec)
        return [
            SimpleNamespace(name="token F1", model_name=""),
            SimpleNamespace(name="relevance", model_name="gpt-4o"),
        ]

    def turns_of(*args):
        seen.turns.append(args)
        return ["1_1", "1_2"]

    def response_means(scores, *, unit, dataset):
        seen.means.append((scores, unit, dataset.name))
        about = {"unit": unit or "turn", "clusters": 2, "unit_from": ""}
        means = {"mean": [0.5, 0.25], "low": 0.1, "high": 0.9, "turns": 2}
        return pd.DataFrame({"judge": ["token F1", "relevance"], **means, **about})

    def asked(turns, paths, chosen):
        seen.chosen = chosen
        return turns.iloc[:2], [WHY]

    def responses(paths, index):
        seen.texts.append(index)
        return {"a": "of a", "b": "of b"}

    patches = {
        "dataset_named": lambda name: data,
        "_judges": judges,
        "turns_of": turns_of,
        "_asked_turns": asked,
        "_responses": responses,
        "_add_nuggets": lambda turns, data: seen.nuggets.append(len(turns)),
        "tell_circular": lambda *args, err: seen.told.append((*args, err)),
    }
    for name, patch in patches.items():
        monkeypatch.setattr(module, name, patch)
    monkeypatch.setattr(RESPONSES, "response_turns", lambda talks, chosen: topics.assign(t=talks))
    monkeypatch.setattr(
        RESPONSES, "evaluate_responses", lambda turns, answers, judges: (len(turns), answers)
    )
    monkeypatch.setattr(RESPONSES, "response_means", response_means)
    return seen


WORDS = ("evaluate", "a", "b", "--of", "responses", "--dataset", "d", "--judge", "token-f1")


@pytest.mark.parametrize("form", ["text", "csv"])
def test_responses_are_judged_as_asked_for(call, judging, form):
    options = ("--judge", "nuggets", "--llm", "m", "--qrels", "q", "--turns", "t", "--unit", "user")
    done = call(*WORDS, *options, "--index", "i", "--format", form)
    assert done.exit_code == 0, done.output
    assert judging.judges == (("token-f1", "nuggets"), "m")
    assert judging.turns == [("d", "t", "q")]
    assert (judging.chosen, judging.texts, judging.nuggets) == (True, ["i"], [3])
    assert judging.means == [((2, "of a"), "user", "d"), ((2, "of b"), "user", "d")]
    assert judging.told == [(["", "gpt-4o"], ("a", "b"), form == "csv")]
    assert "LLM ledger" in done.stderr
    assert "LLM ledger" not in done.stdout
    assert WHY in (done.stdout if form == "text" else done.stderr)
    assert (WHY in done.stdout) == (form == "text")
    if form == "csv":
        header, *rows = [line.split(",") for line in done.stdout.splitlines()]
        assert header[:4] == ["run", "judge", "model", "mean"]
        assert [row[:4] for row in rows] == [
            ["a", "token F1", "", "0.5"],
            ["a", "relevance", "gpt-4o", "0.25"],
            ["b", "token F1", "", "0.5"],
            ["b", "relevance", "gpt-4o", "0.25"],
        ]


def test_responses_without_options_are_those_of_all_turns(call, judging):
    done = call(*WORDS)
    assert done.exit_code == 0, done.output
    assert judging.turns == [("d", None, None)]
    assert (judging.chosen, judging.texts, judging.nuggets) == (False, [None], [])
    assert [unit for _, unit, _ in judging.means] == [None, None]


def test_responses_have_texts_where_an_index_is_given(made, sample_index):
    rtg = str(made.runs / "rtg")
    plain = module._responses([rtg], None)["rtg"]
    assert plain["qpassages"].map(len).sum() == 0
    assert module._responses([rtg], sample_index)["rtg"]["qpassages"].map(len).sum() > 0


def test_what_failed_judges_of_responses_have_spent_is_told(call, monkeypatch, made):
    ledgers = []

    def judges(names, spec, ledger):
        ledgers.append(ledger)
        return []

    def scores(turns, answers, judges):
        spends_and_fails(ledger=ledgers[0])

    monkeypatch.setattr(module, "_judges", judges)
    monkeypatch.setattr("pyterrier_ikat.evaluation.responses.evaluate_responses", scores)
    assert_spending_is_told(call("evaluate", made.runs / "rtg", "--of", "responses"))


# What a dataset publishes


@pytest.fixture
def published(monkeypatch):
    """The sample, with published responses, nuggets and people's labels of them."""
    responses = pd.DataFrame(
        {
            "run": ["b", "a", "a"],
            "qid": ["1-1_1", "1-1_1", "1-1_2"],
            "qanswer": ["Walk the heath.", "Rooibos.", "In May."],
        }
    )
    nuggets = pd.DataFrame({"qid": ["1-1_1", "1-1_1", "1-1_2"], "nugget": ["one", "two", "three"]})
    labels = pd.DataFrame(
        {
            "run": ["a", "a", "b", "b", "a"],
            "qid": ["1-1_1", "1-1_1", "1-1_1", "1-1_1", "1-1_2"],
            "nugget": ["one", "one", "one", "one", "three"],
            "importance": ["vital", "okay", "vital", "okay", "vital"],
            "label": ["support", "not_support", "support", "support", "not_support"],
            "number": [1, 2, 1, 2, 1],
        }
    )
    for name, frame in [
        ("get_responses", responses),
        ("get_nuggets", nuggets),
        ("get_nugget_labels", labels),
    ]:
        monkeypatch.setattr(SampleDataset, name, lambda self, f=frame: f.copy(), raising=False)


def test_published_responses_are_judged_by_run(call, published):
    done = call(
        *("evaluate", "published", "--of", "responses", "--dataset", "ikat:sample"),
        *("--turns", "1-1_1", "--judge", "token-f1", "--format", "csv"),
    )
    header, *rows = csv_of(done)
    assert [row[header.index("run")] for row in rows] == ["a", "b"]
    assert {row[header.index("judge")] for row in rows} == {"token F1"}
    assert "model" not in header
    assert "nugget recall" not in done.stderr


def test_a_run_named_published_is_a_run(call, published, made, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "published").symlink_to(made.runs / "rtg")
    done = call("evaluate", "published", "--of", "responses", "--format", "csv")
    header, *rows = csv_of(done)
    assert [row[header.index("run")] for row in rows] == ["rtg"]


def test_people_s_labels_of_nuggets_are_means_by_run(call, published):
    """By hand: a has 1 of 2 and 0 of 1, b has 2 of 2."""
    words = ("evaluate", "published", "--of", "nuggets", "--dataset", "ikat:sample")
    shown = pd.read_csv(StringIO(call(*words, "--format", "csv").stdout))
    assert shown.columns.tolist()[:2] == ["run", "recall"]
    columns = ["run", "recall", "turns", "nuggets", "unit"]
    assert shown[columns].values.tolist() == [["a", 0.25, 2, 3, "topic"], ["b", 1.0, 1, 2, "topic"]]
    one = call(*words, "--turns", "1-1_1", "--format", "csv", "--unit", "turn")
    shown = pd.read_csv(StringIO(one.stdout))
    assert shown[columns].values.tolist() == [["a", 0.5, 1, 2, "turn"], ["b", 1.0, 1, 2, "turn"]]


def test_nuggets_of_the_dataset_are_given_to_their_judge(published, capsys):
    turns = pd.DataFrame({"qid": ["1-1_2", "1-1_3", "1-1_1"]})
    module._add_nuggets(turns, ikat.dataset("ikat:sample"))
    assert turns["gold_nuggets"].tolist() == [["three"], [], ["one", "two"]]
    told = capsys.readouterr()
    assert (told.out, "all 3 nuggets of ikat:sample" in told.err) == ("", True)


def test_published_runs_are_those_of_some_datasets(call, refused):
    line = refused(call("evaluate", "published", "--of", "responses", "--dataset", "ikat:sample"))
    assert "ikat:sample has no published runs" in line
    nuggets = refused(call("evaluate", "x", "--of", "nuggets", "--dataset", "ikat:sample"))
    assert "published" in nuggets


def test_published_runs_are_of_datasets_that_have_them():
    for has, lacks in [("get_responses", "get_labels"), ("get_labels", "get_responses")]:
        data = SimpleNamespace(name="d", **{has: None})
        assert module._is_published(["published"], data, has) is True
        with pytest.raises(UsageError, match="d has no published runs"):
            module._is_published(["published"], data, lacks)
        for runs in (["published", "a"], ["a"], []):
            assert module._is_published(runs, data, lacks) is False


def test_nuggets_need_published_runs(call, refused, made):
    run = made.runs / "rtg"
    line = refused(call("evaluate", "--of", "nuggets", run, "--dataset", "ikat:2024"))
    assert "--of nuggets shows the labels of people: give published" in line
    assert "ikat:sample has no published runs" in refused(
        call("evaluate", "published", "--of", "nuggets", "--dataset", "ikat:sample")
    )
