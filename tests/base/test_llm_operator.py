"""Operators that ask a model: their requests, prompts and templates, what they read and write."""

import warnings
from pathlib import Path

import pandas as pd
import pyterrier as pt
import pytest
from fakes import Scripted, scripted
from shouting import NOTED, Query, Searches, Shout, Writes

import pyterrier_ikat as ikat
from pyterrier_ikat.errors import DataError, UsageError
from pyterrier_ikat.llm_operator import as_llm, as_long_as, is_of_package
from pyterrier_ikat.llms.failures import LLMFailure
from pyterrier_ikat.lost_columns import LostColumns, LostColumnsWarning
from pyterrier_ikat.planning import Plan
from pyterrier_ikat.prompts import UnknownPromptWarning, checksum_of

# Requests


def test_a_request_has_instructions_values_and_names(shout_prompts, turns):
    model, _ = scripted()
    first, second = Shout(model, "?", prompts=shout_prompts).requests(turns)
    assert first.messages[0] == {"role": "system", "content": "Be ?"}
    assert first.messages[1]["role"] == "user"
    assert first.messages[1]["content"].startswith("Which tea? n1 ? []")
    assert "I am vegan." in first.messages[1]["content"]
    assert "Yes." in second.messages[1]["content"]
    assert (second.qid, second.stage, second.prompt, second.item) == ("1_2", "shout", "shout", "")
    assert len(second.messages) == 2


def test_messages_before_stand_between_instructions_and_prompt(shout_prompts):
    model, _ = scripted()
    before = [{"role": "assistant", "content": "Before."}]
    values = dict.fromkeys(("question", "note", "mark", "context", "ptkb"), "x")
    asks = Shout(model, prompts=shout_prompts)
    request = asks.request("1_1", values, "shout", item="d1", before=before)
    assert [message["role"] for message in request.messages] == ["system", "assistant", "user"]
    assert request.item == "d1"


VALUES = ("question", "note", "mark", "context", "ptkb")


def test_a_request_is_made_from_the_template_that_is_named(shout_prompts, turns):
    class Aloud(Shout):
        template_name = "shout_aloud"

        def templates(self):
            return ["shout_aloud", "shout"]

    Path(shout_prompts, "shout_aloud.jinja").write_text("aloud {{ question }}")
    asks = Aloud(scripted()[0], prompts=shout_prompts)
    first = asks.requests(turns)[0]
    assert (first.messages[-1]["content"], first.prompt) == ("aloud Which tea?", "shout_aloud")
    assert first.stage == "shout"
    assert asks.message("shout", dict.fromkeys(VALUES, "x"))["content"] == "x x x [x] [x]"


@pytest.mark.parametrize(
    ("arguments", "prompt", "begins"),
    [
        ({}, "shout", "Which tea? n1"),
        ({"style": "llama"}, "shout_llama", "llama Which tea?"),
        ({"question": "qresolved"}, "shout_human", "r1 n1"),
        ({"question": "qresolved", "style": "llama"}, "shout_llama_human", "llama r1"),
        ({"question": "query"}, "shout", "q1 n1"),
    ],
)
def test_style_and_question_choose_the_prompt(shout_prompts, turns, arguments, prompt, begins):
    asks = Shout(scripted()[0], prompts=shout_prompts, **arguments)
    assert asks.prompt == prompt
    request = asks.requests(turns)[0]
    assert request.prompt == prompt
    assert request.messages[-1]["content"].startswith(begins)


def test_columns_that_an_operator_reads_are_needed(shout_prompts, turns):
    model, _ = scripted()
    assert Shout(model, prompts=shout_prompts).needs() == ["query", "qnote"]
    assert Shout(model, prompts=shout_prompts, question="query").needs() == ["query", "qnote"]
    manual = Shout(model, prompts=shout_prompts, question="qresolved")
    assert manual.needs() == ["query", "qresolved", "qnote"]
    for lacking in ("qnote", "qresolved"):
        with pytest.raises(DataError, match=f"reads {lacking}, which"):
            manual(turns.drop(columns=lacking))
    assert ikat.Answer(model, statements="chosen").needs() == ["query", "qstatements"]
    with pytest.raises(DataError, match="turn 1_1 has several rows"):
        Shout(model, prompts=shout_prompts)(turns.assign(qid="1_1"))


@pytest.mark.parametrize("question", ["", " ", None])
def test_a_blank_question_is_named_before_anything_is_asked(shout_prompts, turns, question):
    model, backend = scripted("x", "y")
    with pytest.raises(DataError, match="1_2"):
        Shout(model, prompts=shout_prompts)(turns.assign(qutterance=["x", question]))
    assert backend.asked == []


def test_the_question_is_the_oldest_query_without_a_conversation(shout_prompts):
    frame = pd.DataFrame({"qid": ["1"], "query": ["new"], "query_0": ["older"], "qnote": ["n"]})
    asks = Shout(scripted()[0], prompts=shout_prompts)
    assert asks.questions(frame) == ["older"]
    assert asks.fallback(frame) == ["older"]


def test_a_prompt_shows_the_chosen_statements_and_the_history(shout_prompts, turns):
    class Chosen(Shout):
        statements = "chosen"
        history_style = "llama"

    asks = Chosen(scripted()[0], prompts=shout_prompts)
    first, second = asks.requests(turns)
    assert "I run." in first.messages[-1]["content"]
    assert "vegan" not in first.messages[-1]["content"]
    history = [
        {"role": "user", "content": "Tea?"},
        {"role": "assistant", "content": "Oldest."},
        {"role": "user", "content": "Ale?"},
        {"role": "assistant", "content": "Newest."},
    ]
    long = turns.assign(qhistory=[history, history])
    shown = asks.requests(long)[0].messages[-1]["content"]
    assert "Newest." in shown
    assert "Oldest." not in shown  # as in the few-shot prompts
    assert (
        "Oldest."
        in Shout(scripted()[0], prompts=shout_prompts).requests(long)[0].messages[-1]["content"]
    )
    assert asks.needs() == ["query", "qnote"]  # its user chose nothing


def test_chosen_statements_alone_are_shown_where_chosen(shout_prompts, turns):
    model, _ = scripted()
    asks = Shout(model, prompts=shout_prompts)
    assert asks.personas(turns) == [{"1": "I am vegan.", "2": "I run."}, {}]
    asks.statements = "chosen"
    assert asks.personas(turns) == [{"2": "I run."}, {}]
    assert asks.personas(turns.drop(columns="qstatements"))[0] == {
        "1": "I am vegan.",
        "2": "I run.",
    }


def test_where_no_statement_is_chosen_none_is_shown(shout_prompts, turns):
    asks = Shout(scripted()[0], prompts=shout_prompts)
    asks.statements = "chosen"
    persona = {"1": "I am vegan."}
    both = turns.assign(qptkb=[persona, persona], qstatements=[[], None])
    assert asks.personas(both) == [{}, {}]


def test_statements_that_a_stage_has_dropped_are_told(shout_prompts, turns):
    asks = Shout(scripted()[0], prompts=shout_prompts)
    asks.statements = "chosen"
    dropping = pt.apply.generic(lambda frame: frame.drop(columns="qstatements"))
    lost = LostColumns("mine", dropping, turns, set())
    with lost.watching(), pytest.warns(LostColumnsWarning, match="would read qstatements"):
        asks.personas(dropping(turns))


def test_statements_are_all_or_the_chosen_ones():
    with pytest.raises(UsageError, match="statements='some' is unknown"):
        ikat.Answer(scripted()[0], statements="some")


def test_a_prompt_shows_all_arguments_and_columns(note_prompts):
    asks = Writes(scripted()[0], "?", "stern", prompts=note_prompts)
    first, second = asks.requests(NOTED)
    assert first.messages[-1]["content"] == "tea n1 h1 ? stern"
    assert second.messages[-1]["content"] == "walk n2 h2 ? stern"
    assert asks.needs() == ["query", "qnote", "qhint"]


@pytest.mark.parametrize("wrong", [{"on_error": "rais"}, {"style": "lama"}])
def test_a_setting_of_asking_is_one_of_its_values(shout_prompts, wrong):
    [name] = wrong
    with pytest.raises(UsageError, match=f"{name}=.* is unknown"):
        Shout(scripted()[0], prompts=shout_prompts, **wrong)


# Answers


def test_answers_are_written_into_their_column(shout_prompts, turns):
    model, _ = scripted("Mint tea.", "Oat")
    words = Shout(model, prompts=shout_prompts)(turns)
    assert words["qword"].tolist() == ["Mint", "Oat"]
    assert words["query"].tolist() == ["q1", "q2"]
    assert words.drop(columns="qword").equals(turns)


def test_answers_that_make_the_query_are_both(shout_prompts, turns):
    model, _ = scripted("Mint tea.", "Oat")
    words = Query(model, prompts=shout_prompts)(turns)
    assert words["query"].tolist() == words["qword"].tolist() == ["Mint", "Oat"]
    assert words["query_0"].tolist() == ["q1", "q2"]


def test_answers_of_no_column_are_the_query_or_nothing(note_prompts):
    out = Writes(scripted("a", "b")[0], prompts=note_prompts)(NOTED)
    assert out.equals(NOTED)
    searched = Searches(scripted("a", "b")[0], prompts=note_prompts)(NOTED)
    assert sorted(searched.columns) == ["qhint", "qid", "qnote", "query", "query_0"]
    assert searched["query"].tolist() == ["a", "b"]


@pytest.mark.parametrize("wrong", [["Mint"], 7, " ", ""])
def test_what_is_no_text_never_becomes_the_query(shout_prompts, turns, wrong):
    asks = Query(scripted()[0], prompts=shout_prompts)
    with pytest.raises(DataError, match="Query makes .* the query of turn 1_2: return a text"):
        asks.write(turns, ["Mint", wrong])


def test_a_value_that_is_false_is_an_answer(shout_prompts, turns):
    class Zero(Shout):
        def parse(self, text):
            return 0

        def list_dropped(self, frame, outcomes):
            return []

    assert Zero(scripted("a", "b")[0], prompts=shout_prompts)(turns)["qword"].tolist() == [0, 0]


def test_an_empty_frame_asks_nothing(shout_prompts, turns):
    model, backend = scripted()
    words = Query(model, prompts=shout_prompts)(turns.head(0))
    assert (len(words), backend.asked) == (0, [])
    assert {"qword", "query_0"} <= set(words.columns)


def test_a_frame_of_many_turns_is_asked_for_as_a_whole(note_prompts):
    many = pd.DataFrame({"qid": [f"1_{n}" for n in range(40)], "query": "tea"})
    many = many.assign(qnote=[str(n) for n in range(40)], qhint="x")
    model, backend = scripted(*["green tea"] * 40)
    out = Searches(model, prompts=note_prompts)(many)
    assert out["query"].tolist() == ["green tea"] * 40
    assert (out["qid"].tolist(), len(backend.asked)) == (many["qid"].tolist(), 40)


# Follow-ups


def test_follow_ups_are_asked_until_there_is_none(shout_prompts, turns):
    model, backend = scripted("one", "two", "unusable", "three")
    asks = Shout(model, prompts=shout_prompts)
    requests = asks.requests(turns)

    def then(position, outcomes):
        return requests[position] if position == 0 and len(outcomes) < 3 else None

    first, second = asks.ask_in_rounds(requests, then, calls=4)
    assert second == ["two"]
    assert first[0] == "one"
    assert len(first) == 3
    assert len(backend.asked) <= 4


def test_follow_ups_know_their_turn_and_all_outcomes_before(shout_prompts, turns):
    model, _ = scripted("one", "unusable")
    asks = Shout(model, prompts=shout_prompts)
    requests = asks.requests(turns)
    seen = []

    def then(position, outcomes):
        seen.append((position, len(outcomes)))
        return requests[position] if len(outcomes) < 2 else None

    values = asks.ask_in_rounds(requests, then, calls=4)
    assert sorted(seen) == [(0, 1), (0, 2), (1, 1), (1, 2)]
    failures = 0
    for qid, outcomes in zip(("1_1", "1_2"), values, strict=True):
        for outcome in outcomes:
            if isinstance(outcome, LLMFailure):
                failures += 1
                assert outcome.qid == qid
    assert failures == 2  # the same request has the same outcome


def test_the_number_of_all_calls_is_told_before_the_first(note_prompts, monkeypatch):
    model, _ = scripted()
    asks = Writes(model, prompts=note_prompts)
    requests = asks.requests(NOTED)
    announced = []

    def ask(self, asked, then, calls):
        announced.append((asked, calls))
        return []

    def ask_no_more(position, outcomes):
        return None

    monkeypatch.setattr(type(model), "ask", ask)
    assert asks.ask_in_rounds(requests, ask_no_more, 7) == [[], []]
    assert asks.ask_in_rounds(requests[:1], ask_no_more) == [[]]
    assert announced == [(requests, 7), (requests[:1], 0)]


# Templates


def test_a_template_that_is_not_named_is_refused(shout_prompts):
    asks = Shout(scripted()[0], prompts=shout_prompts)
    with pytest.raises(UsageError, match="Shout uses the prompt template answer: return its name"):
        asks.message("answer", {})


def test_an_argument_may_choose_the_template():
    class Formed(Shout):
        template_of = ("mark", {"!": "answer", "?": "rewrite"})

    class Named(Shout):
        template_name = "rewrite"

    model, _ = scripted()
    assert (Formed(model).template(), Formed(model, "?").templates()) == ("answer", ["rewrite"])
    assert (Named(model).template(), Shout(model).template()) == ("rewrite", "shout")
    assert (Formed(model, "?").prompt, Named(model).prompt) == ("rewrite", "rewrite")


def test_checksums_are_of_the_users_templates_and_instructions(shout_prompts):
    asks = Shout(scripted()[0], prompts=shout_prompts)
    assert asks.prompt_checksums() == {
        "shout": checksum_of("shout", "gpt", shout_prompts),
        "shout_system": checksum_of("shout_system", "gpt", shout_prompts),
    }
    assert asks.prompt_checksums()["shout"] not in (
        "",
        checksum_of("shout", "llama", shout_prompts),
    )
    llama = Shout(scripted()[0], prompts=shout_prompts, style="llama").prompt_checksums()
    assert llama["shout"] == checksum_of("shout", "llama", shout_prompts)

    class TwoTemplates(Shout):
        def templates(self):
            return ["shout", "answer"]

    both = TwoTemplates(scripted()[0], prompts=shout_prompts).prompt_checksums()
    assert both["answer"] == checksum_of("answer", "gpt", None)
    assert both["shout"] == checksum_of("shout", "gpt", shout_prompts)
    assert (asks.own_prompts(), asks.templates()) == (shout_prompts, ["shout"])


def test_templates_of_own_operators_are_no_unknown_prompts(tmp_path):
    class OwnForms(Shout):
        stage = "shout_aloud"
        template_name = "shout_named"
        template_of = ("mark", {"!": "shout_formed"})

    (tmp_path / "answer.jinja").write_text("{{ question }}")
    for name in ("shout_aloud", "shout_named", "shout_formed"):
        (tmp_path / f"{name}.jinja").write_text("{{ question }}")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ikat.Answer(scripted()[0], prompts=str(tmp_path))


def test_unread_prompts_of_a_users_operator_are_told(shout_prompts):
    Path(shout_prompts, "shuot.jinja").write_text("{{ question }}")
    with pytest.warns(UnknownPromptWarning, match="shuot"):
        Shout(scripted()[0], prompts=shout_prompts)
    Path(shout_prompts, "shuot.jinja").rename(Path(shout_prompts, "zebra.jinja"))
    Shout(scripted()[0], prompts=shout_prompts)  # which may read more than it names
    with pytest.warns(UnknownPromptWarning, match="zebra"):
        ikat.Answer(scripted()[0], prompts=shout_prompts)


# Plans


def test_stand_ins_are_as_long_as_typical_answers(shout_prompts, turns):
    asks = Shout(scripted()[0], prompts=shout_prompts)
    assert asks.typical(turns) == ["Which tea?", "And milk?"]
    asks.typical_words = 3
    assert asks.typical(turns) == ["Which tea? Which", "And milk? And"]
    assert as_long_as(2, " ") == "words words"


def test_a_plan_writes_stand_ins_where_answers_will_stand(shout_prompts, turns):
    asks = Query(scripted()[0], prompts=shout_prompts)
    plan = Plan("mine", set())
    planned = asks.plan(turns, plan)
    assert planned["query"].tolist() == planned["qword"].tolist() == ["Which tea?", "And milk?"]
    assert planned["query_0"].tolist() == ["q1", "q2"]
    assert [row["calls"] for row in plan.rows] == [2]


# Models


class StandsForAModel:
    """Has the method ``ask`` of a model."""

    def ask(self, requests):
        return []


def test_what_stands_for_a_model_is_asked_itself():
    stand_in = StandsForAModel()
    assert as_llm(stand_in) is stand_in
    with pytest.raises(UsageError):
        as_llm(StandsForAModel)


def test_the_same_text_is_one_model_until_its_place_changes(tmp_path, monkeypatch):
    spec = "openai:gpt-4o cache=none api_key_env=MY_KEY"
    monkeypatch.setenv("MY_KEY", "x")
    first = as_llm(spec)
    assert as_llm(spec) is first
    assert as_llm(first) is first
    monkeypatch.setenv("IKAT_HOME", str(tmp_path))
    moved = as_llm(spec)
    monkeypatch.setenv("OPENAI_BASE_URL", "http://localhost:1/v1")
    other = as_llm(spec)
    monkeypatch.chdir(tmp_path)
    elsewhere = as_llm(spec)
    assert len({id(model) for model in (first, moved, other, elsewhere)}) == 4
    backend = Scripted()
    assert as_llm(backend) is as_llm(backend)
    assert as_llm(backend) is not as_llm(Scripted())


def test_only_classes_of_this_package_are_its_own():
    assert is_of_package(ikat.Answer)
    assert not is_of_package(Shout)
