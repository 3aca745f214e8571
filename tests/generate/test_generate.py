import warnings

import pandas as pd
import pyterrier as pt
import pytest
from fakes import scripted
from operators import CHAT, a_turn, ledger

import pyterrier_ikat as ikat
from pyterrier_ikat.llms import StageError


@pytest.fixture
def turn():
    return a_turn()


def test_answer_shows_persona_and_history_and_becomes_the_query(turn):
    llm, backend = scripted("Ginger tea.")
    out = ikat.Answer(llm)(turn)
    [[message]] = backend.asked
    assert message["role"] == "user"
    assert (
        "1: I am allergic to chamomile., 2: I own a dog., 3: I live in Oslo." in message["content"]
    )
    assert "user: Which tea has no caffeine?\nsystem: Rooibos." in message["content"]
    assert "And against a cold?" in message["content"]
    assert out["qanswer"].tolist() == out["query"].tolist() == ["Ginger tea."]
    assert out["query_0"].tolist() == ["And against a cold?"]
    assert out["qhistory"][0] is turn["qhistory"][0]
    assert "qanswer" not in turn


def test_rewrite_drops_what_was_computed_from_the_old_query(turn):
    llm, _ = scripted('Rewritten query: "Which tea helps against a cold?"')
    out = ikat.Rewrite(llm)(turn.assign(query_toks=[{"tea": 1.0}], query_vec=[[0.1]]))
    assert out["qrewrite"].tolist() == out["query"].tolist() == ["Which tea helps against a cold?"]
    assert not {"query_toks", "query_vec"} & set(out.columns)


def test_queries_given_the_answer_continue_the_same_chat(turn):
    llm, backend = scripted("Ginger tea.", "1. ginger tea cold\n2. is ginger safe")
    out = (ikat.Answer(llm) >> ikat.MultiQuery(llm, given="answer"))(turn)
    first, second = backend.asked
    assert [message["role"] for message in second] == ["user", "assistant", "user"]
    assert second[:1] == first
    assert second[1]["content"] == "Ginger tea."
    assert out[["qid", "qid_0", "qsub", "query", "query_0", "query_1"]].values.tolist() == [
        ["chat_2::0", "chat_2", 0, "ginger tea cold", "Ginger tea.", "And against a cold?"],
        ["chat_2::1", "chat_2", 1, "is ginger safe", "Ginger tea.", "And against a cold?"],
    ]


@pytest.mark.parametrize(
    ("style", "given"), [("llama", "answer"), ("llama", "other_answer"), ("gpt", "other_answer")]
)
def test_queries_for_an_answer_or_in_llama_style_are_one_message(turn, style, given):
    llm, backend = scripted("1. ginger tea cold")
    ikat.Queries(llm, given=given, style=style)(turn.assign(qanswer=["Ginger tea."]))
    [[message]] = backend.asked
    assert "Ginger tea." in message["content"]
    assert message["content"].count("# Example") == (3 if style == "llama" else 0)


def test_a_system_message_of_ones_own_stands_before_queries(turn, tmp_path):
    (tmp_path / "queries_system.jinja").write_text("Be short.")
    llm, backend = scripted("1. ginger tea cold")
    ikat.Queries(llm, prompts=str(tmp_path))(turn)
    assert backend.asked[0][0] == {"role": "system", "content": "Be short."}


def test_the_manual_rewrite_can_stand_in_for_the_utterance(turn):
    llm, backend = scripted("Ginger.")
    ikat.Answer(llm, question="qresolved")(
        turn.assign(qresolved=["Which tea helps against a cold?"])
    )
    assert "Which tea helps against a cold?" in backend.asked[0][0]["content"]
    assert "And against a cold?" not in backend.asked[0][0]["content"]
    with pytest.raises(pt.validate.InputValidationError, match="qresolved"):
        ikat.Answer(llm, question="qresolved")(turn)


def test_no_query_left_falls_back_to_rewrite_or_question_counted(turn):
    llm, _ = scripted("...", "- \n- ")
    first = ikat.Queries(llm)(turn)
    second = ikat.Queries(llm, n=4)(turn.assign(qrewrite=["tea against a cold"]))
    assert first["qsubqueries"].tolist() == [["And against a cold?"]]
    assert second["qsubqueries"].tolist() == [["tea against a cold"]]
    assert ledger(llm, "fallbacks") == 2


RUN_ON = """
# Example 3
# About the user
1: I keep bees
# Conversation so far
user: Which hive?
# Last message of the user
And in winter?
# Queries
1. insulated hives
"""


@pytest.mark.parametrize("lines", ["1. oats\n2. rye\n", "oats\nrye\n", '["oats", "rye"]\n'])
def test_a_next_prompt_that_the_model_invents_gives_no_queries(turn, lines):
    llm, _ = scripted(lines + RUN_ON)
    assert ikat.Queries(llm, style="llama")(turn)["qsubqueries"].tolist() == [["oats", "rye"]]
    assert ledger(llm, "dropped") == 1


def test_an_answer_ends_at_the_next_prompt_and_keeps_headings(turn):
    llm, _ = scripted("# Example\nGinger.\n" + RUN_ON, "# About the user\nYou like tea.")
    assert ikat.Answer(llm)(turn)["qanswer"].tolist() == ["# Example\nGinger."]
    assert ikat.Answer(llm)(turn.assign(qptkb=[{}]))["qanswer"].tolist() == [
        "# About the user\nYou like tea."
    ]
    assert ledger(llm, "dropped") == 1


class Failing:
    def generate(self, prompts):
        completions = []
        for prompt in prompts:
            if "tea" in str(prompt):
                completions.append("ERROR::other")
            else:
                completions.append("Fine.")
        return completions


def test_failed_turns_are_named_after_the_others_finished():
    frame = pd.DataFrame({"qid": ["1", "2", "3"], "query": ["tea", "oats", "more tea"]})
    llm = ikat.llm(Failing())
    with pytest.raises(StageError, match=r"stage answer: 2 requests failed.*: 1, 3 \(.*fallback"):
        ikat.Answer(llm)(frame)
    llm = ikat.llm(Failing())
    out = ikat.Answer(llm, on_error="fallback")(frame)
    assert out["query"].tolist() == ["tea", "Fine.", "more tea"]
    [row] = llm.ledger.frame().to_dict("records")
    assert (row["failures"], row["fallbacks"]) == (2, 2)


@pytest.mark.parametrize(
    "make",
    [ikat.Answer, ikat.Rewrite, ikat.MultiQuery, lambda llm: ikat.Queries(llm, given="answer")],
)
def test_an_empty_frame_has_all_columns_and_asks_nothing(turn, make):
    full = turn.assign(qanswer=["Ginger."])
    columns = make(scripted("Fine. 1")[0])(full).columns.tolist()
    silent, backend = scripted()
    empty = make(silent)(full.iloc[:0])
    assert (empty.columns.tolist(), len(empty), backend.asked) == (columns, 0, [])


def test_expand_keeps_bare_turns_and_refuses_to_expand_twice():
    frame = pd.DataFrame({"qid": ["1", "2"], "query": ["x", "y"], "qsubqueries": [["a", "b"], []]})
    out = ikat.ExplodeQueries()(frame)
    assert out[["qid", "query", "query_0"]].values.tolist() == [
        ["1::0", "a", "x"],
        ["1::1", "b", "x"],
        ["2::0", "y", "y"],
    ]
    with pytest.raises(ikat.UsageError, match="one row per sub-query already"):
        ikat.ExplodeQueries()(out)


def test_queries_without_an_llm(turn):
    rewritten = turn.assign(query="something else", qresolved="Which tea helps against a cold?")
    for operator, query in (
        (ikat.RawUtterance(), "And against a cold?"),
        (ikat.AllUtterances(), "Which tea has no caffeine? And against a cold?"),
        (ikat.ManualRewrite(), "Which tea helps against a cold?"),
    ):
        assert operator(rewritten)["query"].tolist() == [query]


def test_historical_expansion_adds_heaviest_words_of_past_turns(turn):
    weights = {"caffeine": 5.0, "tea": 2.0, "which": 0.5}
    known = pt.apply.generic(
        lambda words: words[words["query"].isin(weights)].assign(
            docno="d", rank=0, score=words["query"].map(weights)
        )
    )
    assert ikat.generate.HistoricalQueryExpansion(known, words=2)(turn)["query"].tolist() == [
        "And against a cold? caffeine tea"
    ]
    rewritten = turn.assign(qutterance=turn["query"], query="Which tea helps against a cold?")
    assert ikat.generate.HistoricalQueryExpansion(known, words=2)(rewritten)["query"].tolist() == [
        "And against a cold? caffeine tea"
    ]
    first = ikat.conversation(CHAT[:1])
    assert ikat.generate.HistoricalQueryExpansion(known)(first)["query"].tolist() == [
        CHAT[0]["content"]
    ]


def test_historical_expansion_hides_no_warning_of_its_retriever(turn):
    def find(words):
        warnings.warn("the index has no stop words", UserWarning, stacklevel=2)
        return words.assign(docno="d", rank=0, score=1.0)

    with pytest.warns(UserWarning, match="the index has no stop words"):
        ikat.generate.HistoricalQueryExpansion(pt.apply.generic(find))(turn)


def test_append_joins_two_queries_by_turn():
    upper = pt.apply.generic(
        lambda frame: frame.assign(query=frame["query"].str.upper()).iloc[::-1]
    )
    out = ikat.generate.AppendQuery(upper)(
        pd.DataFrame({"qid": ["1", "2"], "query": ["a", "b"], "qrewrite": ["a", "b"]})
    )
    assert out[["query", "query_0", "qrewrite"]].values.tolist() == [
        ["a A", "a", "a"],
        ["b B", "b", "b"],
    ]


def test_the_llm_sets_on_error_unless_the_operator_does(turn):
    forgiving = ikat.llm("recorded:sample on_error=fallback")
    assert repr(forgiving) == "ikat.llm('recorded:sample on_error=fallback')"
    assert forgiving != ikat.llm("recorded:sample")
    failing = ikat.llm(Failing())
    failing.on_error = "fallback"
    assert ikat.Answer(failing)(turn.assign(qutterance=["tea"]))["query"].tolist() == ["tea"]
    with pytest.raises(StageError):
        ikat.Answer(failing, on_error="raise")(turn.assign(qutterance=["more tea"]))
    with pytest.raises(ikat.UsageError, match="on_error is wrong: give raise or fallback"):
        ikat.llm("openai:x on_error=ignore")
