"""No automatic run is shown what only the organisers know of the current and later turns."""

from dataclasses import replace

import pyterrier as pt
import pytest
from fakes import ByPrompt
from methods.facts import with_facts
from methods.test_prompt_values import ANSWERS as OF_EVERY_PROMPT
from methods.test_prompt_values import NEW

import pyterrier_ikat as ikat
from pyterrier_ikat.conversations.topics import topics_frame
from pyterrier_ikat.methods import METHODS, find

AUTOMATIC = list(
    {entry.expression: name for name, entry in METHODS.items() if not entry.manual}.values()
)
"""One of each expression."""
TURN = 3
ANSWERS = {
    **OF_EVERY_PROMPT,
    "statements_copies": "I have no car and always travel by train.",
    "update_ptkb": '[{"message": 1, "words": "I", "statement": "I walk.", "replaces": []}]',
}


class Search(pt.Transformer):
    """Finds twelve passages for every query; remembers the queries, by text and by terms."""

    def __init__(self):
        super().__init__()
        self.queries = []

    def transform(self, queries):
        self.queries += queries["query"].tolist()
        self.queries += [str(toks) for toks in queries.get("query_toks", [])]
        found = queries.loc[queries.index.repeat(12)].reset_index(drop=True)
        ranks = list(range(12)) * len(queries)
        texts = [f"passage {rank} of poles" for rank in ranks]
        return found.assign(
            docno=[f"d{rank}" for rank in ranks],
            rank=ranks,
            score=[20.0 - rank for rank in ranks],
            text=texts,
        )


class Score(pt.Transformer):
    """Scores rows by their place; remembers the texts and queries of the pairs."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def transform(self, results):
        self.seen += results["query"].tolist() + results["text"].tolist()
        return pt.model.add_ranks(
            results.assign(score=[-float(place) for place in range(len(results))])
        )


class Echo(pt.Transformer):
    """A rewriter that makes everything it is given the query."""

    def transform(self, turns):
        others = turns.drop(columns="query").astype(str)
        return turns.assign(query=others.agg(" ".join, axis=1))


def gold(part, number):
    return f"GOLD{part}{number}X"


def marked(conversation):
    """The conversation with sentinels in place of everything that the organisers added to it."""
    turns = []
    for turn in conversation.turns:
        with_sentinels = replace(
            turn,
            resolved=gold("REWRITE", turn.turn_id),
            response=gold("ANSWER", turn.turn_id),
            statements=(gold("STATEMENT", turn.turn_id),),
            passages=(gold("PASSAGE", turn.turn_id),),
        )
        turns.append(with_sentinels)
    return replace(conversation, title=gold("TITLE", 0), turns=tuple(turns))


def turn_of(manual):
    frame = topics_frame([marked(pt.get_dataset("ikat:sample").conversations[0])], manual)
    return frame[frame["qturn"] == TURN].reset_index(drop=True)


@pytest.fixture
def topics():
    return turn_of(manual=False)


@pytest.fixture
def run(topics):
    """Run a method on turn 3; return all that models and retriever were shown, and the result."""

    def run(name, turn=topics, rewriter=Echo()):  # noqa: B008 (it keeps nothing)
        first = answering()
        second = answering()
        search = Search()
        score = Score()
        resources = {
            "llm": first.llm,
            "second_llm": second.llm,
            "rewriter": rewriter,
            "expander": rewriter,
        }
        system = find(name).build(retriever=search, dense=search, reranker=score, **resources)
        results = system(with_facts(turn))
        assert len(results)
        prompted = first.all_texts() + second.all_texts()
        return prompted + search.queries + score.seen + results["query"].tolist()

    return run


def answering():
    """A model that answers every prompt, also those in the style of LLaMA."""
    of_llama = {f"{name}_llama": text for name, text in ANSWERS.items()}
    return ByPrompt(NEW, **ANSWERS, **of_llama)


@pytest.mark.parametrize("name", AUTOMATIC)
def test_no_gold_of_this_or_a_later_turn_shows_on_manual_topics(name, run):
    check(run(name, turn_of(manual=True), ikat.RawUtterance()))


@pytest.mark.parametrize("name", [name for name in AUTOMATIC if "rewriter" in METHODS[name].needs])
def test_a_trained_rewriter_is_given_no_gold(name, run):
    check(run(name))


def check(shown):
    assert shown
    for part in ("REWRITE", "ANSWER", "STATEMENT", "PASSAGE", "TITLE"):
        for number in range(TURN if part == "ANSWER" else 0, 10):
            assert not [text for text in shown if gold(part, number) in text], (part, number)


@pytest.mark.parametrize(
    "name", ["ad", "qr", "aqd_a", "mq4cs_qr_deberta", "rtg", "gtr", "infosense_2023", "convgqr"]
)
def test_the_sentinels_would_be_seen(name, run):
    """The gold answer before the turn is the conversation's past, which all of these may read."""
    assert gold("ANSWER", TURN - 1) in "\n".join(run(name))


def test_a_manual_run_is_shown_the_manual_rewrite(run):
    shown = run("ad:question=qresolved", turn_of(manual=True))
    assert gold("REWRITE", TURN) in "\n".join(shown)


@pytest.mark.parametrize("name", ["qr", "gtr", "ad"])
def test_learning_about_the_user_reads_no_gold(name, topics):
    learner = answering()
    model = answering()
    search = Search()
    system = METHODS[name].build(
        retriever=search, reranker=Score(), llm=model.llm, second_llm=model.llm
    )
    for turn in (topics, turn_of(manual=True)):
        learned = ikat.generate.UpdatePtkb(learner.llm)(turn)
        check(learner.all_texts())
        assert learned["qptkb"].item()["10"] == "I walk."
        assert len(system(learned))
    check(model.all_texts() + search.queries)
