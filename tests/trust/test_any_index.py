"""A user's frame may have any index.

Every public function that takes a frame gives what it gives for rows numbered from 0.
"""

import json
import warnings
from types import SimpleNamespace

import pandas as pd
import pyterrier as pt
import pytest

import pyterrier_ikat as ikat
from pyterrier_ikat import evaluation, show
from pyterrier_ikat.conversations import check_qrels, write_qrels
from pyterrier_ikat.order import in_trec_eval_order, scores_by_turn, strictly_decreasing
from pyterrier_ikat.runs import RunFolder, Turn, write_run
from pyterrier_ikat.submit import Submission
from trust.frames import Says
from trust.indexes import INDEXES, with_index

QIDS = ["1-1_1", "1-1_2", "2-1_1"]
DOCNOS = ["sample-walk-001:0", "sample-walk-005:1", "sample-walk-002:0"]


def frame(**columns):
    return pd.DataFrame(columns)


TOPICS = frame(qid=QIDS, query=["walk", "heath", "tea"])
RUN = frame(
    qid=[*QIDS, *QIDS],
    docno=[*DOCNOS, *DOCNOS[1:], DOCNOS[0]],
    score=[3.0, 2.0, 1.0, 0.5, 0.25, 0.125],
    rank=[0, 0, 0, 1, 1, 1],
)
SHUFFLED = RUN.iloc[[3, 0, 5, 1, 4, 2]].reset_index(drop=True)
QRELS = frame(qid=[*QIDS, QIDS[0]], docno=[*DOCNOS, DOCNOS[2]], label=[2, 0, 3, 1])
STATEMENTS = frame(qid=QIDS, docno=["1", "2", "1"], label=[1, 0, 1])
CHOSEN = frame(qid=QIDS, qstatements=[[("1", 0.8)], [], [("1", 0.5)]])
LEARNED = [{"id": "3", "statement": "I live in Oslo now.", "replaces": ["1"]}]
LABELS = frame(
    qid=QIDS,
    known=[{"1": "I live in Lyon."}] * 3,
    holds=[["I live in Oslo."], ["I live in Lyon."], ["I own a dog."]],
)
ANSWERS = frame(
    qid=QIDS, qanswer=["Heath.", "Rooibos.", ""], query=["Where?", "Which tea?", "Why?"]
)
GOLD = frame(
    qid=QIDS,
    gold_answer=["On the heath.", "Rooibos tea.", "No."],
    query=["Where?", "Which tea?", "Why?"],
)
NUGGETS = frame(
    qid=[QIDS[0], *QIDS],
    nugget=["heath", "soft", "tea", "no"],
    importance=["vital", "okay", "vital", "okay"],
)
ASSIGNED = NUGGETS.assign(label=["support", "not_support", "partial_support", "not_support"])
SCORES = frame(name=["AD", "QR", "QD"], **{"nDCG@5": [0.3, 0.2, 0.1], "turns": [3, 3, 3]})
FOUND = RUN.assign(
    query="where?",
    text=[f"Passage {row}." for row in range(len(RUN))],
    qanswer=[*ANSWERS["qanswer"]] * 2,
)
JUDGED = frame(
    qid=QIDS, judge=["x"] * 3, value=[3.0, None, 1.0], outcome=["judged", "failed", "judged"]
)


def one_word(query):
    return pt.apply.generic(lambda rows: rows.assign(docno=DOCNOS[: len(rows)], score=1.0, rank=0))


def written(write):
    """The text of the file that a function writes."""

    def call(at, folder):
        write(at, folder / "written")
        return (folder / "written").read_text()

    return call


def folder_of(at, folder):
    run = RunFolder(folder / "mine")
    run.write(
        at(TOPICS),
        at(RUN),
        at(frame(qid=QIDS, score=[0.5, 0.5, 0.0])),
        at(pd.DataFrame(columns=["stage"])),
        {"method": "mine"},
    )
    return [(run.path / name).read_text() for name in ("run.trec", "turns.jsonl", "measures.csv")]


def ran(at, folder):
    found = ikat.run(
        {"mine": one_word("")}, topics=at(TOPICS), qrels=at(QRELS), out=folder, turns_at_once=2
    )
    again = ikat.run(
        {"mine": one_word("")}, topics=at(TOPICS), qrels=at(QRELS), out=folder, turns_at_once=2
    )
    pd.testing.assert_frame_equal(found.table, again.table)
    turns = found.folders["mine"].turns()
    return pd.concat(
        [
            found.table,
            pd.DataFrame({"qid": [turn["qid"] for turn in turns]}),
            found.folders["mine"].results(),
        ]
    )


def planned(at, folder):
    llm = ikat.llm("openai:gpt-4o cache=none price_in=2.5 price_out=10")
    found = pt.Transformer.from_df(RUN)
    of_turns = ikat.plan(
        {"m": found >> ikat.LLMRerank(llm, depth=5) >> ikat.Respond(llm)}, topics=at(TOPICS)
    )
    pool = with_passages(
        at(
            TOPICS.assign(
                qresolved="where?", gold_answer="There.", qptkb=[{}] * 3, qgoldptkb=[[]] * 3
            )
        )
    )
    return pd.concat([of_turns, ikat.plan({"j": ikat.Judge(llm)}, pool)], ignore_index=True)


def with_passages(rows):
    return rows.assign(docno=DOCNOS, text="A passage.", rank=0, score=1.0)


def shown_turn(at, folder):
    found = at(FOUND[FOUND["qid"] == QIDS[0]].assign(used=[True, False]))
    return [source.docno for source in Turn.of(1, "Where?", found).sources]


FUNCTIONS = {
    "advise": lambda at, folder: str(
        ikat.advise(
            at(TOPICS), {"a": one_word(""), "b": pt.Transformer.from_df(RUN)}, first=2
        ).turns
    ),
    "agreement": lambda at, folder: str(
        ikat.agreement(
            at(QRELS),
            at(QRELS.assign(label=[3, 0, 1, 1])),
            runs={"a": at(RUN), "b": at(SHUFFLED.tail(4))},
        )
    ),
    "assign_nuggets": lambda at, folder: evaluation.assign_nuggets(
        at(ANSWERS), at(NUGGETS), Says('["support"]'), on_error="fallback"
    ),
    "breakdown": lambda at, folder: ikat.breakdown({"a": at(RUN)}, at(QRELS), by="conversation"),
    "check_qrels": lambda at, folder: check_qrels(at(QRELS)),
    "create_nuggets": lambda at, folder: evaluation.create_nuggets(at(FOUND), Says('["vital"]')),
    "evaluate": lambda at, folder: ikat.evaluate(
        {"a": at(SHUFFLED), "b": at(RUN.head(3))}, at(QRELS), baseline="a"
    ),
    "evaluate_actions": lambda at, folder: evaluation.evaluate_actions(
        {"ours": at(frame(qid=QIDS, qaction=["abstain", "answer", "ask"]))},
        at(frame(qid=QIDS, gold_answerability=["unanswerable", "answerable", "underspecified"])),
    ),
    "evaluate_learned": lambda at, folder: evaluation.evaluate_learned(
        {"ours": at(frame(qid=QIDS, qlearned=[LEARNED, [], None]))}, at(LABELS)
    ),
    "evaluate_ptkb": lambda at, folder: evaluation.evaluate_ptkb(
        {"ours": at(CHOSEN)}, at(STATEMENTS)
    ),
    "evaluate_responses": lambda at, folder: evaluation.evaluate_responses(
        at(GOLD), at(ANSWERS), [evaluation.RougeL()]
    ),
    "experiment": lambda at, folder: ikat.experiment(
        {"a": at(SHUFFLED), "m": one_word("")}, topics=at(TOPICS), qrels=at(QRELS)
    ),
    "experiment of chosen turns": lambda at, folder: ikat.experiment(
        {"a": RUN}, topics=at(TOPICS), qrels=QRELS, turns=at(TOPICS.tail(2)), measures=["nDCG@5"]
    ),
    "fill_holes": lambda at, folder: str(
        evaluation.fill_holes(
            {"a": at(RUN)},
            ikat.dataset("ikat:sample"),
            ikat.llm(Says("1")),
            tell=lambda agreement: None,
        )
    ),
    "in_trec_eval_order": lambda at, folder: in_trec_eval_order(at(SHUFFLED)),
    "merge_qrels": lambda at, folder: ikat.merge_qrels(
        at(QRELS.head(2)), at(QRELS.assign(label=3)), rule="new"
    ),
    "nugget_agreement": lambda at, folder: evaluation.nugget_agreement(
        at(ASSIGNED), at(ASSIGNED.iloc[::-1])
    ),
    "nugget_precision": lambda at, folder: evaluation.nugget_precision(
        at(ANSWERS.head(2)), at(NUGGETS), Says('["vital"]'), on_error="fallback"
    ),
    "nugget_scores": lambda at, folder: evaluation.nugget_scores(at(ASSIGNED)),
    "order_agreement": lambda at, folder: evaluation.order_agreement(
        at(SCORES), at(SCORES.iloc[::-1]), "nDCG@5"
    ),
    "per_turn": lambda at, folder: evaluation.per_turn(at(SHUFFLED), at(QRELS)),
    "plan": planned,
    "plot_breakdown": lambda at, folder: show.plot_breakdown(
        ikat.breakdown({"a": at(RUN)}, at(QRELS), by="conversation")
    ).get_title(),
    "pool_runs": lambda at, folder: ikat.pool_runs({"a": at(RUN), "b": at(SHUFFLED)}, depth=1),
    "ptkb_per_turn": lambda at, folder: evaluation.ptkb_per_turn(at(CHOSEN), at(STATEMENTS)),
    "report": lambda at, folder: (
        ikat.report(at(FOUND.assign(qutterance="where?", qhistory=[[]] * len(FOUND)))).html
    ),
    "response_means": lambda at, folder: evaluation.response_means(at(JUDGED)),
    "run": ran,
    "run folder": folder_of,
    "scores_by_turn": lambda at, folder: scores_by_turn(at(SHUFFLED)),
    "statement_ranking": lambda at, folder: evaluation.statement_ranking(at(CHOSEN)),
    "strictly_decreasing": lambda at, folder: strictly_decreasing(at(RUN.assign(score=1.0))),
    "Submission": lambda at, folder: json.dumps(
        Submission(2025, "r", "automatic", None, at(RUN), at(ANSWERS)).turns.to_dict("records")
    ),
    "table": lambda at, folder: show.table(at(SCORES)).markdown(),
    "Turn.of": shown_turn,
    "with_gold": lambda at, folder: evaluation.with_gold(
        at(RUN[["qid", "docno"]]), ikat.dataset("ikat:sample")
    ),
    "with_relevant": lambda at, folder: evaluation.with_relevant(at(QRELS)),
    "write_qrels": written(lambda at, path: write_qrels(at(QRELS), path)),
    "write_run": written(lambda at, path: write_run(at(SHUFFLED), path)),
}
"""Name of a public function -> a call of it.

``at`` gives each of its frames the index that is tried.
"""


@pytest.mark.parametrize("index", INDEXES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_gives_the_same_whatever_the_index_is(name, index, tmp_path):
    places = SimpleNamespace(plain=tmp_path / "plain", labelled=tmp_path / "labelled")
    places.plain.mkdir()
    places.labelled.mkdir()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = FUNCTIONS[name](lambda one: one.reset_index(drop=True), places.plain)
        found = FUNCTIONS[name](lambda one: with_index(one, index), places.labelled)
    if isinstance(expected, pd.DataFrame):
        pd.testing.assert_frame_equal(found, expected)
    elif isinstance(expected, pd.Series):
        pd.testing.assert_series_equal(found, expected)
    else:
        assert found == expected
