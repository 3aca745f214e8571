"""Any frame through every operator.

Nothing lost, nothing changed behind the user's back, nothing that isn't text taken for text.
"""

import json
import pickle
import re
import warnings
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyterrier as pt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from retrieve.tiny_splade import save_splade
from tiny_seq2seq import save_tiny_t5

import pyterrier_ikat as ikat
from pyterrier_ikat.conversations.frame import with_columns
from pyterrier_ikat.llms import StageError
from pyterrier_ikat.retrieve import NoResultWarning
from trust.frames import (
    COMPLETIONS,
    EVERY,
    EXPANDERS,
    EXPORTED,
    FINDERS,
    FUSERS,
    ODD,
    OF_THEIR_TURNS,
    PASSAGES,
    READERS,
    RERANKERS,
    REWRITERS,
    Says,
    needed,
    one_turn,
    one_turn_expanded,
    one_turn_found,
    read_by,
    results,
    turns,
)
from trust.indexes import INDEXES, with_index

TURN_BY_TURN = [*REWRITERS, *EXPANDERS]
pytestmark = pytest.mark.filterwarnings(
    "ignore::pyterrier_ikat.retrieve.NoResultWarning"
)  # told for some of the frames


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Small indexes and models, all real, made once."""
    from rank.tiny_colbert import save_colbert
    from rank.tiny_cross_encoders import save_cross_encoder

    folder = tmp_path_factory.mktemp("home")
    rows = [{"docno": docno, "text": text} for docno, text in PASSAGES.items()]
    lines = []
    for docno, text in PASSAGES.items():
        lines.append(json.dumps({"id": docno, "contents": text, "url": ""}))
    (folder / "passages.jsonl").write_text("\n".join(lines))
    index = ikat.PassageIndex(folder / "index").index(rows)
    splade = ikat.Splade(save_splade(folder / "splade")).index(folder / "splade.index", rows)
    (folder / "run.trec").write_text(
        "9-1_1 Q0 d1 1 2.5 given\n9-1_1 Q0 d0 2 1.5 given\n9-1_3 Q0 d4 1 1.0 given\n"
    )
    return SimpleNamespace(
        run=folder / "run.trec",
        index=index,
        bm25=index.bm25,
        parts=[
            ikat.PassageIndex(folder / "part0").index(rows[0::2]).bm25(),
            ikat.PassageIndex(folder / "part1").index(rows[1::2]).bm25(),
        ],
        splade=splade,
        t5=save_tiny_t5(folder / "t5"),
        rewriter=save_tiny_t5(folder / "rewriter"),
        colbert=save_colbert(folder / "colbert"),
        cross_encoder=save_cross_encoder(folder / "cross_encoder", "electra"),
        passages=folder / "passages.jsonl",
    )


def made(name, home, says=COMPLETIONS[0], on_error="raise"):
    llm = ikat.llm(Says(says))
    llm.on_error = on_error
    return EVERY[name].make(llm, home)


def run(operator, frame):
    """What the operator gives, or the typed error it raises.

    The input has to stay as it was, down to the lists and dicts in it.
    """
    # a deep copy of a frame has the same lists and dicts in it
    before = pickle.loads(pickle.dumps(frame))
    try:
        return operator.transform(frame)
    except (ikat.IkatError, pt.validate.InputValidationError) as error:
        return error
    finally:
        pd.testing.assert_frame_equal(frame, before)


def ran(operator, frame, out=None):
    """The frame that the operator gives; an error fails the test.

    An empty frame gives the same columns, of the same types.
    """
    out = run(operator, frame) if out is None else out
    assert isinstance(out, pd.DataFrame), out
    pd.testing.assert_series_equal(out.dtypes, operator.transform(frame.iloc[:0]).dtypes)
    return out


@pytest.mark.parametrize(
    ("column", "write"),
    [
        ("qsubqueries", lambda queries: queries.append("rooibos")),
        ("qptkb", dict.clear),
        ("qhistory", lambda messages: messages[0].update(content="Which coffee?")),
    ],
)
def test_operator_that_wrote_into_an_input_list_or_dict_is_found(column, write):
    class Scribbler(pt.Transformer):
        def transform(self, inp):
            inp[column].map(write)
            return inp

    with pytest.raises(AssertionError):
        run(
            Scribbler(),
            one_turn(("qsubqueries",), qhistory=[{"role": "user", "content": "Which tea?"}]),
        )


def test_every_exported_operator_is_in_this_files_tables():
    tested_elsewhere = {*OF_THEIR_TURNS, "Remote"}  # of a server: test_remote.py
    lacking = []
    for name in EXPORTED:
        if name not in EVERY and name not in tested_elsewhere:
            lacking.append(f'"{name}": Operator(lambda llm, home: ikat.{name}(...)),')
    kinds = "REWRITERS, EXPANDERS, FINDERS, RERANKERS, FUSERS or READERS"
    assert not lacking, (
        f"with the arguments that it wants, add to the table of its kind in "
        f"tests/trust/frames.py ({kinds}):\n{lacking}"
    )
    assert {"MultiQuery", "Rewrite", "LLMRerank", "RRF"} <= EXPORTED.keys()


def asking(operator):
    """The part of an operator that asks a language model, or None."""
    if isinstance(operator, pt.Compose):
        first = operator[0]
    else:
        first = getattr(operator, "operator", operator)
    return first if hasattr(first, "llm") else None


def blank_questions(operator, frame):
    """The turns whose question is blank, which no model is paid to answer."""
    asks = asking(operator)
    if asks is None:
        return []
    column = "qutterance"
    if asks.question == "query" or "qutterance" not in frame.columns:
        column = "query"
    blank = []
    for qid, text in zip(frame["qid"], frame[column], strict=True):
        if not text.strip():
            blank.append(qid)
    return blank


@pytest.mark.parametrize("name", REWRITERS)
@given(st.data())
def test_a_turn_keeps_its_row_and_place(name, home, data):
    says = data.draw(st.sampled_from(COMPLETIONS), "says")
    on_error = data.draw(st.sampled_from(["raise", "fallback"]), "on_error")
    operator = made(name, home, says, on_error)
    frame = data.draw(turns(needed(operator)), "frame")
    out = run(operator, frame)
    if isinstance(out, ikat.DataError) and blank_questions(operator, frame):
        assert all(qid in str(out) for qid in blank_questions(operator, frame)[:5])
    elif isinstance(out, StageError) and on_error == "raise":
        assert all(failure.qid.startswith(tuple(frame["qid"])) for failure in out.failures)
    else:
        ran(operator, frame, out)
        assert out["qid"].tolist() == frame["qid"].tolist()
        assert all(isinstance(text, str) for text in out["query"])


@pytest.mark.parametrize("name", EXPANDERS)
@given(st.data())
def test_a_turn_has_a_sub_query_of_its_own_number(name, home, data):
    operator = made(name, home)
    frame = data.draw(turns(needed(operator)), "frame")
    out = run(operator, frame)
    if isinstance(out, ikat.DataError) and blank_questions(operator, frame):
        return
    ran(operator, frame, out)
    assert list(dict.fromkeys(out["qid_0"])) == frame["qid"].tolist()
    for turn, rows in out.groupby("qid_0", sort=False):
        assert rows["qid"].tolist() == [f"{turn}::{number}" for number in range(len(rows))]
        assert rows["qsub"].tolist() == list(range(len(rows)))
    assert all(isinstance(text, str) for text in out["query"])


@pytest.mark.parametrize("name", FINDERS)
@given(st.data())
def test_a_turn_without_passage_is_named_in_a_warning(name, home, data):
    frame = data.draw(turns(), "frame")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", NoResultWarning)
        out = ran(made(name, home), frame)
    check_ranking(out)
    assert not out.duplicated(["qid", "docno"]).any()
    named = " ".join(
        str(warning.message) for warning in caught if issubclass(warning.category, NoResultWarning)
    )
    for qid in set(frame["qid"]) - set(out["qid"]):
        assert qid in named
    assert set(out["qid"]) <= set(frame["qid"])


def check_ranking(out):
    """Ranks 0..n-1 of each turn in the order of the rows, which is that of trec_eval.

    32-bit score, then docno, both falling.
    """
    for _, rows in out.groupby("qid", sort=False):
        assert rows["rank"].tolist() == list(range(len(rows)))
        pairs = list(zip(rows["score"].astype(np.float32), rows["docno"].map(str), strict=True))
        assert pairs == sorted(pairs, reverse=True)
        assert rows["score"].is_monotonic_decreasing
        assert np.isfinite(rows["score"]).all()
    assert out["rank"].dtype == np.int64
    assert out["score"].dtype == np.float64


@pytest.mark.parametrize("name", RERANKERS)
@given(st.data())
def test_a_re_ranker_keeps_every_row(name, home, data):
    says = data.draw(st.sampled_from(COMPLETIONS), "says")
    frame = data.draw(results(repeated=data.draw(st.booleans(), "repeated")), "frame")
    operator = made(name, home, says, "fallback")
    out = run(operator, frame)
    if isinstance(out, ikat.DataError):
        assert name == "BM25Rerank"  # which refuses texts without a word of its own
        assert not frame["text"].str.contains("[A-Za-z0-9]").any()
        return
    ran(operator, frame, out)
    assert sorted(zip(out["qid"], out["docno"], strict=True)) == sorted(
        zip(frame["qid"], frame["docno"], strict=True)
    )
    assert list(dict.fromkeys(out["qid"])) == list(dict.fromkeys(frame["qid"]))
    check_ranking(out)


@pytest.mark.parametrize("name", FUSERS)
@given(st.data())
def test_fusion_gives_each_turn_each_of_its_passages_once(name, home, data):
    expanded = data.draw(st.booleans(), "expanded")
    repeated = expanded and data.draw(st.booleans(), "repeated")
    operator = made(name, home)
    frame = data.draw(results(needed(operator), expanded=expanded, repeated=repeated), "frame")
    out = ran(operator, frame)
    turn = "qid_0" if expanded else "qid"
    assert set(zip(out["qid"], out["docno"], strict=True)) == set(
        zip(frame[turn], frame["docno"], strict=True)
    )
    assert not out.duplicated(["qid", "docno"]).any()
    check_ranking(out)
    for _, rows in out.groupby("qid", sort=False):
        assert (
            np.diff(rows["score"].astype(np.float32)) < 0
        ).all()  # the order of what ties means something


@pytest.mark.filterwarnings("ignore::pyterrier_ikat.generate.respond.NoTextWarning")
@given(frame=results(), says=st.sampled_from(COMPLETIONS))
def test_responses_and_decisions_keep_the_ranking_one_per_turn(frame, says, home):
    has_text = frame["text"].str.strip().astype(bool)
    if not has_text.groupby(frame["qid"]).any().all():
        assert isinstance(run(made("Respond", home, says, "fallback"), frame), ikat.DataError)
        return
    answered = ran(made("Respond", home, says, "fallback"), frame)
    decided = ran(made("Decide", home, says, "fallback"), frame)
    for out in (answered, decided):
        pd.testing.assert_frame_equal(out[frame.columns], frame.reset_index(drop=True))
    assert all(isinstance(text, str) for text in answered["qanswer"])
    assert (answered.groupby("qid")["qanswer"].nunique() == 1).all()
    assert answered["used"].tolist() == has_text.tolist()
    assert set(decided["qaction"]) <= {"answer", "ask", "abstain"}
    assert (decided.groupby("qid")["qaction"].nunique() == 1).all()
    assert (decided["qaskback"].str.strip() != "").tolist() == (
        decided["qaction"] == "ask"
    ).tolist()


@given(frame=results())
def test_feedback_weighs_words_per_turn_and_loaders_text_per_row(frame, home):
    out = ran(made("RM3", home), frame)
    assert out["qid"].tolist() == list(dict.fromkeys(frame["qid"]))
    for weights in out["query_toks"]:
        assert all(weight > 0 for weight in weights.values())
    for name in ("PassageText", "TextLoader"):
        out = ran(made(name, home), frame)
        pd.testing.assert_frame_equal(
            out.drop(columns="text"), frame.drop(columns="text").reset_index(drop=True)
        )
        assert out["text"].tolist() == [PASSAGES[docno] for docno in frame["docno"]]


@given(frame=results(), says=st.sampled_from(COMPLETIONS))
def test_the_judge_gives_a_label_or_counts_the_passage(frame, says, home):
    gold = with_gold_columns(frame)
    operator = made("Judge", home, says, "fallback")
    out = run(operator, gold)
    if len(gold) and not gold["text"].str.strip().astype(bool).all():
        assert isinstance(out, ikat.DataError)
        return
    left_out = operator.llm.ledger.frame()["fallbacks"].sum() if len(gold) else 0
    assert len(ran(operator, gold, out)) + left_out == len(gold)
    assert out["label"].isin(range(5)).all()


def with_gold_columns(frame):
    ptkbs = pd.Series([{"1": "I like mint."}] * len(frame), index=frame.index, dtype=object)
    chosen = pd.Series([["1"]] * len(frame), index=frame.index, dtype=object)
    return frame.assign(
        qresolved="Which tea?", gold_answer="Rooibos.", qptkb=ptkbs, qgoldptkb=chosen
    )


def many(rows):
    """These one-row frames as turns 9-1_0, 9-1_1, ... of one frame."""
    numbered = [row.assign(qid=f"9-1_{number}") for number, row in enumerate(rows)]
    return pd.concat(numbered, ignore_index=True)


@pytest.mark.parametrize("name", [*TURN_BY_TURN, *FINDERS])
def test_odd_questions_are_taken(name, home):
    operator = made(name, home, on_error="fallback")
    needs = needed(operator)
    of_texts = {"query", "qutterance", *needs} - {"qstatements", "qsubqueries"}
    rows = []
    for text in ODD:
        if text.strip() or asking(operator) is None:
            rows.append(one_turn(needs, **dict.fromkeys(sorted(of_texts), text)))
    frame = many(rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoResultWarning)
        out = run(operator, frame)
    assert isinstance(out, pd.DataFrame), out
    if name in REWRITERS:
        assert out["qid"].tolist() == frame["qid"].tolist()


@pytest.mark.parametrize("name", [*RERANKERS, *FUSERS, "Decide", "Respond", "RM3"])
def test_odd_passages_are_taken(name, home):
    operator = made(name, home, on_error="fallback")
    odd = ODD
    if name in ("Decide", "Respond"):  # a turn whose passages are all blank is an error there
        odd = [text for text in ODD if text.strip()]
    turns = []
    for text in odd:
        found = one_turn_found(needed(operator), query=text[:20].strip() or "tea")
        turns.append(with_columns(found, text=[text] * len(found)))
    frame = many(turns)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoResultWarning)
        out = run(operator, frame)
    assert isinstance(out, pd.DataFrame), out
    assert list(dict.fromkeys(out["qid"])) == list(dict.fromkeys(frame["qid"]))


@pytest.mark.parametrize(
    "name",
    [
        "Answer",
        "MultiQuery",
        "Samples",
        "StatementQueries",
        "UpdatePtkb",
        "Decide",
        "Respond",
        "LLMRerank",
    ],
)
def test_blank_question_and_repeated_turn_are_named_before_llms(name, home):
    backend = Says(COMPLETIONS[0])
    operator = EVERY[name].make(ikat.llm(backend), home)
    of_passages = name in RERANKERS or name in READERS
    needs = needed(operator)
    one = one_turn_found if of_passages else one_turn
    blank = run(operator, many([one(needs), one(needs, query=" \n")]))
    assert isinstance(blank, ikat.DataError), blank
    assert re.search(r"no text in q\w+ that is not blank \(turns 9-1_1", str(blank))
    if not of_passages:
        again = run(operator, pd.concat([one(needs)] * 2, ignore_index=True))
        assert isinstance(again, ikat.DataError), again
    assert not backend.asked


@pytest.mark.parametrize("name", TURN_BY_TURN)
def test_a_turn_without_a_question_is_named(name, home):
    backend = Says(COMPLETIONS[0])
    operator = EVERY[name].make(ikat.llm(backend), home)
    needs = needed(operator)
    columns = ["query", "qutterance", *({"qresolved"} & set(needs))]
    asked = one_turn(needs, qutterance="Which tea?")
    without = one_turn(needs, **dict.fromkeys(columns))
    with_nan = one_turn(needs, **dict.fromkeys(columns, float("nan")))
    out = run(operator, many([asked, without, with_nan]))
    if name in ("ShowStatements", "Summarise"):
        assert isinstance(out, pd.DataFrame)  # they read no question
        return
    repair = (
        f"{name} gave {out!r}: read questions with question_column or texts_in, or add it "
        f"here to those that read no question"
    )
    assert isinstance(out, ikat.DataError), repair
    assert re.search(r"no text in q\w+.* \(turns 9-1_1, 9-1_2\)", str(out))
    assert not backend.asked


@pytest.mark.parametrize("name", ["Queries given an answer", "SelectStatements by copies"])
def test_a_turn_without_what_the_prompt_shows_is_named(name, home):
    needs = needed(made(name, home))
    out = run(made(name, home), many([one_turn(needs), one_turn(needs, **dict.fromkeys(needs))]))
    assert isinstance(out, ikat.DataError)
    assert f"no text in {needs[0]} (turns 9-1_1)" in str(out)


@pytest.mark.parametrize(
    "name", sorted(set(FINDERS) - {"GivenRanking"})
)  # which finds what is given, whatever the query is
def test_turn_without_a_query_finds_nothing_and_warns_by_name(name, home):
    frame = many([one_turn(query=query) for query in ("caffeine", None, float("nan"))])
    with pytest.warns(NoResultWarning, match="9-1_1, 9-1_2"):
        out = run(made(name, home), frame)
    assert set(out["qid"]) == {"9-1_0"}


@pytest.mark.parametrize("column", ["text", "rank"])
def test_respond_names_a_turn_whose_passage_lacks_text_or_rank(column, home):
    frame = many([one_turn_found(), one_turn_found().assign(**{column: None})])
    out = run(made("Respond", home), frame)
    assert isinstance(out, ikat.DataError)
    assert "9-1_1" in str(out)
    assert column in str(out)


@pytest.mark.parametrize("name", [*TURN_BY_TURN, *FINDERS])
def test_repeated_qids_keep_their_own_rows_or_are_named(name, home):
    operator = made(name, home, on_error="fallback")
    first = one_turn(needed(operator), query="caffeine")
    second = one_turn(needed(operator), query="tea")
    out = run(operator, pd.concat([first, second], ignore_index=True))
    searches_or_asks = name in ("AppendQuery", "BestQuery", "RankStatements") or asking(operator)
    if name not in REWRITERS or searches_or_asks:
        assert isinstance(out, ikat.DataError), out
        assert "9-1_1 has several rows" in str(out)
        return
    assert out["qid"].tolist() == ["9-1_1", "9-1_1"]
    kept = out["query_0"] if "query_0" in out.columns else out["query"]
    assert kept.tolist() == ["caffeine", "tea"]


def with_required_columns(name, operator):
    """A frame that the operator takes, and the columns that it takes no frame without."""
    needs, of_passages = read_by(operator)
    if name in ("PassageText", "TextLoader"):
        return one_turn_found(), ["docno"]
    if name == "Judge":
        return with_gold_columns(one_turn_found()), [
            "qid",
            *of_passages,
            "qresolved",
            "gold_answer",
            "qptkb",
            "qgoldptkb",
        ]
    if name in FUSERS:
        return one_turn_expanded(needs), ["qid", "query", "qsub", "query_0", *needs, *of_passages]
    if name in TURN_BY_TURN or name in FINDERS:
        return one_turn(needs, query="caffeine"), ["qid", "query", *needs]
    return one_turn_found(needs), ["qid", "query", *needs, *of_passages]


@pytest.mark.parametrize("name", EVERY)
def test_missing_column_is_named_and_pt_inspect_knows_operators(name, home):
    operator = made(name, home, on_error="fallback")
    frame, required = with_required_columns(name, operator)
    out = run(operator, frame)
    assert isinstance(out, pd.DataFrame)
    for column in required:
        error = run(operator, frame.drop(columns=column))
        assert isinstance(error, pt.validate.InputValidationError), column
        assert [mode.missing_columns for mode in error.modes] == [[column]]
    inputs = pt.inspect.transformer_inputs(operator)
    assert any(set(columns) <= set(frame.columns) for columns in inputs)
    assert sorted(pt.inspect.transformer_outputs(operator, list(frame.columns))) == sorted(
        out.columns
    )
    if name != "MultiQuery":  # two stages in a pipeline of PyTerrier
        held = in_one_list(operator.arguments().values())
        found = in_one_list(pt.inspect.subtransformers(operator).values())
        assert found == [value for value in held if isinstance(value, pt.Transformer)]


def in_one_list(values):
    """The values, and those in lists and tuples among them."""
    found = []
    for value in values:
        if isinstance(value, list | tuple):
            found += value
        else:
            found.append(value)
    return found


def three_turns_for(name, operator):
    """A frame of three turns that the operator takes.

    The passages of a turn not beside each other.
    """
    one = with_required_columns(name, operator)[0]
    parts = []
    for number in (2, 0, 1):
        part = one.assign(qid=one["qid"].str.replace("9-1_1", f"9-1_{number}"))
        if "qid_0" in one.columns:
            part = part.assign(qid_0=f"9-1_{number}")
        parts.append(part)
    frame = pd.concat(parts)
    return frame.sort_values("docno", kind="stable") if "docno" in frame.columns else frame


@pytest.mark.parametrize("index", INDEXES)
@pytest.mark.parametrize("name", EVERY)
def test_an_operator_gives_the_same_whatever_the_index_is(name, index, home):
    operator = made(name, home, on_error="fallback")
    frame = three_turns_for(name, operator)
    plain = ran_quietly(operator, frame.reset_index(drop=True))
    labelled = ran_quietly(operator, with_index(frame, index))
    pd.testing.assert_frame_equal(labelled, plain)


def ran_quietly(operator, frame):
    """The frame that the operator gives, without warnings of turns that find nothing."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoResultWarning)
        out = run(operator, frame)
    assert isinstance(out, pd.DataFrame), out
    return out


@pytest.mark.parametrize("queries", ["mint tea", ["mint", None], [1, 2], 3])
def test_sub_queries_that_are_no_list_of_texts_are_named(queries, home):
    out = run(made("ExplodeQueries", home), one_turn(("qsubqueries",), qsubqueries=queries))
    assert isinstance(out, ikat.DataError)
    assert "turn 9-1_1 has the sub-queries" in str(out)


def test_append_takes_operators_that_give_one_row_per_turn_only(home):
    nothing = pt.apply.generic(lambda frame: frame.iloc[:0])
    out = run(ikat.generate.AppendQuery(nothing), one_turn())
    assert isinstance(out, ikat.DataError)
    assert "gave 0 rows for 1 turn" in str(out)
