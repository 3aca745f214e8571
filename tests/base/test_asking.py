"""Operators that ask a model: their requests, what they read and write, and what is counted."""

import logging
import warnings
from pathlib import Path

import pandas as pd
import pyterrier as pt
import pytest
from fakes import Scripted, scripted

import pyterrier_ikat as ikat
from pyterrier_ikat import events
from pyterrier_ikat.completions.json_answers import TEXT, answer_in, list_of
from pyterrier_ikat.completions.kinds import Kind
from pyterrier_ikat.errors import DataError, UsageError
from pyterrier_ikat.llm_operator import LLMOperator, as_llm, as_long_as, is_of_package
from pyterrier_ikat.llms import StageError, llm
from pyterrier_ikat.llms.failures import LLMFailure, NotStructured, Refused
from pyterrier_ikat.lost_columns import LostColumns, LostColumnsWarning
from pyterrier_ikat.operator import with_fields
from pyterrier_ikat.planning import Plan
from pyterrier_ikat.prompts import UnknownPromptWarning, checksum_of


def one_word(text):
    words = text.split()
    return words[0] if words and words[0] != "unusable" else None


@with_fields
class Shout(LLMOperator):
    """Asks for a word.

    Args:
        mark: what ends the word.
    """

    mark: str = "!"

    stage = "shout"
    writes = "qword"
    shows = ("mark",)
    kind = Kind(one_word)

    def columns_shown(self):
        return {"note": "qnote"}

    def list_dropped(self, frame, outcomes):
        return [
            f"{qid}: long"
            for qid, word in zip(frame["qid"], outcomes, strict=True)
            if len(word) > 5
        ]


@with_fields
class Query(Shout):
    """Its word is the query."""

    makes_query = True


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "shout.jinja").write_text(
        "{{ question }} {{ note }} {{ mark }} [{{ context }}] [{{ ptkb }}]"
    )
    (tmp_path / "shout_llama.jinja").write_text("llama {{ question }}")
    (tmp_path / "shout_system.jinja").write_text("Be {{ mark }}")
    return str(tmp_path)


@pytest.fixture
def turns():
    history = [
        {"role": "user", "content": "Tea?"},
        {"role": "assistant", "content": "Yes."},
    ]
    return pd.DataFrame(
        {
            "qid": ["1_1", "1_2"],
            "query": ["q1", "q2"],
            "qutterance": ["Which tea?", "And milk?"],
            "qhistory": [[], history],
            "qptkb": [{"1": "I am vegan.", "2": "I run."}, {}],
            "qstatements": [[("2", 0.5)], None],
            "qnote": ["n1", "n2"],
            "qresolved": ["r1", "r2"],
        }
    )


def test_a_request_has_instructions_values_and_names(folder, turns):
    model, _ = scripted()
    first, second = Shout(model, "?", prompts=folder).requests(turns)
    assert first.messages[0] == {"role": "system", "content": "Be ?"}
    assert first.messages[1]["role"] == "user"
    assert first.messages[1]["content"].startswith("Which tea? n1 ? []")
    assert "I am vegan." in first.messages[1]["content"]
    assert "Yes." in second.messages[1]["content"]
    assert (second.qid, second.stage, second.prompt, second.item) == ("1_2", "shout", "shout", "")
    assert len(second.messages) == 2


def test_messages_before_stand_between_instructions_and_prompt(folder):
    model, _ = scripted()
    before = [{"role": "assistant", "content": "Before."}]
    values = dict.fromkeys(("question", "note", "mark", "context", "ptkb"), "x")
    asks = Shout(model, prompts=folder)
    request = asks.request("1_1", values, "shout", item="d1", before=before)
    assert [message["role"] for message in request.messages] == ["system", "assistant", "user"]
    assert request.item == "d1"


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
def test_style_and_question_choose_the_prompt(folder, turns, arguments, prompt, begins):
    asks = Shout(scripted()[0], prompts=folder, **arguments)
    assert asks.prompt == prompt
    request = asks.requests(turns)[0]
    assert request.prompt == prompt
    assert request.messages[-1]["content"].startswith(begins)


def test_columns_that_an_operator_reads_are_needed(folder, turns):
    model, _ = scripted()
    assert Shout(model, prompts=folder).needs() == ["query", "qnote"]
    assert Shout(model, prompts=folder, question="query").needs() == ["query", "qnote"]
    manual = Shout(model, prompts=folder, question="qresolved")
    assert manual.needs() == ["query", "qresolved", "qnote"]
    for lacking in ("qnote", "qresolved"):
        with pytest.raises(DataError, match=f"reads {lacking}, which"):
            manual(turns.drop(columns=lacking))
    assert ikat.Answer(model, statements="chosen").needs() == ["query", "qstatements"]
    with pytest.raises(DataError, match="turn 1_1 has several rows"):
        Shout(model, prompts=folder)(turns.assign(qid="1_1"))


@pytest.mark.parametrize("question", ["", " ", None])
def test_a_blank_question_is_named_before_anything_is_asked(folder, turns, question):
    model, backend = scripted("x", "y")
    with pytest.raises(DataError, match="1_2"):
        Shout(model, prompts=folder)(turns.assign(qutterance=["x", question]))
    assert backend.asked == []


def test_chosen_statements_alone_are_shown_where_chosen(folder, turns):
    model, _ = scripted()
    asks = Shout(model, prompts=folder)
    assert asks.personas(turns) == [{"1": "I am vegan.", "2": "I run."}, {}]
    asks.statements = "chosen"
    assert asks.personas(turns) == [{"2": "I run."}, {}]
    assert asks.personas(turns.drop(columns="qstatements"))[0] == {
        "1": "I am vegan.",
        "2": "I run.",
    }


def test_where_no_statement_is_chosen_none_is_shown(folder, turns):
    asks = Shout(scripted()[0], prompts=folder)
    asks.statements = "chosen"
    persona = {"1": "I am vegan."}
    both = turns.assign(qptkb=[persona, persona], qstatements=[[], None])
    assert asks.personas(both) == [{}, {}]


def test_answers_are_written_into_their_column(folder, turns):
    model, _ = scripted("Mint tea.", "Oat")
    words = Shout(model, prompts=folder)(turns)
    assert words["qword"].tolist() == ["Mint", "Oat"]
    assert words["query"].tolist() == ["q1", "q2"]
    assert words.drop(columns="qword").equals(turns)


def test_answers_that_make_the_query_are_both(folder, turns):
    model, _ = scripted("Mint tea.", "Oat")
    words = Query(model, prompts=folder)(turns)
    assert words["query"].tolist() == words["qword"].tolist() == ["Mint", "Oat"]
    assert words["query_0"].tolist() == ["q1", "q2"]


@pytest.mark.parametrize("wrong", [["Mint"], 7, " ", ""])
def test_what_is_no_text_never_becomes_the_query(folder, turns, wrong):
    asks = Query(scripted()[0], prompts=folder)
    with pytest.raises(DataError, match="Query makes .* the query of turn 1_2: return a text"):
        asks.write(turns, ["Mint", wrong])


def test_an_empty_frame_asks_nothing(folder, turns):
    model, backend = scripted()
    words = Query(model, prompts=folder)(turns.head(0))
    assert (len(words), backend.asked) == (0, [])
    assert {"qword", "query_0"} <= set(words.columns)


class Repairs(events.Observer):
    def __init__(self):
        self.told = []

    def repair(self, step, reasons):
        self.told.append(list(reasons))


def test_fallbacks_and_repairs_are_counted_told_and_logged(folder, turns, caplog):
    model, _ = scripted("unusable", "Rooibos is good.")
    asks, repairs = Shout(model, prompts=folder, on_error="fallback"), Repairs()
    with events.observed_by(repairs), caplog.at_level(logging.INFO, "pyterrier_ikat"):
        words = asks(turns)
    assert words["qword"].tolist() == ["Which tea?", "Rooibos"]
    counts = model.ledger.frame()[["failures", "fallbacks", "dropped"]]
    assert counts.values.tolist() == [[1, 1, 2]]
    assert repairs.told == [
        ["nothing usable in the completion 'unusable'"],
        ["1_1: long", "1_2: long"],
    ]
    warned = [record.message for record in caplog.records if record.levelname == "WARNING"]
    assert len(warned) == 1
    assert "fallback for 1 request: 1_1" in warned[0]


def test_who_decides_on_errors_is_the_operator_then_its_model(folder, turns):
    lenient = llm(Scripted("unusable", "b"), on_error="fallback")
    assert not Shout(lenient, prompts=folder).fails
    assert Shout(lenient, prompts=folder, on_error="raise").fails
    strict, _ = scripted("unusable", "b", "unusable", "b")
    assert Shout(strict, prompts=folder).fails
    assert not Shout(strict, prompts=folder, on_error="fallback").fails
    with pytest.raises(StageError, match="stage shout: 1 request failed .*1_1") as caught:
        Shout(strict, prompts=folder)(turns)
    assert caught.value.kept_in == strict.kept_in
    assert [failure.kept for failure in caught.value.failures] == [True]


def failure_of(asks, text):
    return asks._failure("1_1", text)


def test_an_unusable_completion_says_what_is_wrong_with_it(folder):
    asks = Shout(scripted()[0], prompts=folder)
    refused = failure_of(asks, "I'm sorry, but I can't help with that.")
    assert type(refused) is Refused
    assert (refused.stage, refused.qid) == ("shout", "1_1")
    unusable = failure_of(asks, "word " * 40)
    assert type(unusable) is LLMFailure
    assert repr("word " * 16) in unusable.reason
    assert unusable.kept
    assert not failure_of(asks, "<think>only thoughts</think>").kept


@with_fields
class Words(LLMOperator):
    """Asks for words as JSON."""

    stage = "shout"
    writes = "qwords"
    kind = Kind(one_word, answer_in("words", list_of(TEXT)), lambda answer: answer["words"] or None)


def test_an_answer_of_another_form_is_not_structured(tmp_path, turns):
    (tmp_path / "shout.jinja").write_text("{{ question }}")
    model = llm(Scripted('{"words": ["a", "b"]}', "a, b", '{"words": []}'))
    model.structured = True
    asks = Words(model, prompts=str(tmp_path))
    request = asks.requests(turns)[0]
    assert request.structure == asks.kind.structure
    assert request.messages[-1]["content"].startswith("Which tea?\n\n")
    assert request.messages[-1]["content"].endswith(asks.kind.structure.instruction)
    third = turns.head(1).assign(qutterance="Ale?")
    words, prose, nothing = asks.ask([*asks.requests(turns), *asks.requests(third)])
    assert words == ["a", "b"]
    assert (type(prose), type(nothing)) == (NotStructured, NotStructured)
    assert "4 characters" in prose.reason
    assert prose.kept
    assert not asks._failure("1_1", "<think>a, b</think>").kept
    assert "of 4 characters" in asks._failure("1_1", "<think>long thoughts</think>a, b").reason
    assert type(asks._failure("1_1", "I'm sorry, but I can't help with that.")) is Refused
    assert model.ledger.frame()["failures"].tolist() == [2]
    free = Words(scripted()[0], prompts=str(tmp_path))
    assert free.requests(turns)[0].structure is None


def test_a_parser_that_stops_names_turn_and_completion(folder, turns):
    class Broken(Shout):
        def parse(self, text):
            raise RuntimeError("no such word")

    with pytest.raises(
        DataError, match="parser of Broken stops with RuntimeError: no such word; .*turn 1_1, 'Tea'"
    ) as caught:
        Broken(scripted("Tea", "x")[0], prompts=folder)(turns)
    assert isinstance(caught.value.__cause__, RuntimeError)


def test_a_value_that_is_false_is_an_answer(folder, turns):
    class Zero(Shout):
        def parse(self, text):
            return 0

        def list_dropped(self, frame, outcomes):
            return []

    assert Zero(scripted("a", "b")[0], prompts=folder)(turns)["qword"].tolist() == [0, 0]


def test_follow_ups_are_asked_until_there_is_none(folder, turns):
    model, backend = scripted("one", "two", "unusable", "three")
    asks = Shout(model, prompts=folder)
    requests = asks.requests(turns)

    def then(position, outcomes):
        return requests[position] if position == 0 and len(outcomes) < 3 else None

    first, second = asks.ask_in_rounds(requests, then, calls=4)
    assert second == ["two"]
    assert first[0] == "one"
    assert len(first) == 3
    assert len(backend.asked) <= 4


def test_a_template_that_is_not_named_is_refused(folder):
    asks = Shout(scripted()[0], prompts=folder)
    with pytest.raises(UsageError, match="Shout uses the prompt template answer: return its name"):
        asks.message("answer", {})


def test_checksums_are_of_the_users_templates_and_instructions(folder):
    asks = Shout(scripted()[0], prompts=folder)
    assert asks.prompt_checksums() == {
        "shout": checksum_of("shout", "gpt", folder),
        "shout_system": checksum_of("shout_system", "gpt", folder),
    }
    assert asks.prompt_checksums()["shout"] not in ("", checksum_of("shout", "llama", folder))
    llama = Shout(scripted()[0], prompts=folder, style="llama").prompt_checksums()
    assert llama["shout"] == checksum_of("shout", "llama", folder)

    class TwoTemplates(Shout):
        def templates(self):
            return ["shout", "answer"]

    both = TwoTemplates(scripted()[0], prompts=folder).prompt_checksums()
    assert both["answer"] == checksum_of("answer", "gpt", None)
    assert both["shout"] == checksum_of("shout", "gpt", folder)
    assert (asks.own_prompts(), asks.templates()) == (folder, ["shout"])


def test_an_argument_may_choose_the_template():
    class Formed(Shout):
        template_of = ("mark", {"!": "answer", "?": "rewrite"})

    class Named(Shout):
        template_name = "rewrite"

    model, _ = scripted()
    assert (Formed(model).template(), Formed(model, "?").templates()) == ("answer", ["rewrite"])
    assert (Named(model).template(), Shout(model).template()) == ("rewrite", "shout")
    assert (Formed(model, "?").prompt, Named(model).prompt) == ("rewrite", "rewrite")


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


def test_stand_ins_are_as_long_as_typical_answers(folder, turns):
    asks = Shout(scripted()[0], prompts=folder)
    assert asks.typical(turns) == ["Which tea?", "And milk?"]
    asks.typical_words = 3
    assert asks.typical(turns) == ["Which tea? Which", "And milk? And"]
    assert as_long_as(2, " ") == "words words"


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


def test_a_request_is_made_from_the_template_that_is_named(folder, turns):
    class Aloud(Shout):
        template_name = "shout_aloud"

        def templates(self):
            return ["shout_aloud", "shout"]

    Path(folder, "shout_aloud.jinja").write_text("aloud {{ question }}")
    asks = Aloud(scripted()[0], prompts=folder)
    first = asks.requests(turns)[0]
    assert (first.messages[-1]["content"], first.prompt) == ("aloud Which tea?", "shout_aloud")
    assert first.stage == "shout"
    assert asks.message("shout", dict.fromkeys(VALUES, "x"))["content"] == "x x x [x] [x]"


VALUES = ("question", "note", "mark", "context", "ptkb")


def test_a_prompt_shows_the_chosen_statements_and_the_history(folder, turns):
    class Chosen(Shout):
        statements = "chosen"
        history_style = "llama"

    asks = Chosen(scripted()[0], prompts=folder)
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
        "Oldest." in Shout(scripted()[0], prompts=folder).requests(long)[0].messages[-1]["content"]
    )
    assert asks.needs() == ["query", "qnote"]  # its user chose nothing


def test_statements_that_a_stage_has_dropped_are_told(folder, turns):
    asks = Shout(scripted()[0], prompts=folder)
    asks.statements = "chosen"
    dropping = pt.apply.generic(lambda frame: frame.drop(columns="qstatements"))
    lost = LostColumns("mine", dropping, turns, set())
    with lost.watching(), pytest.warns(LostColumnsWarning, match="would read qstatements"):
        asks.personas(dropping(turns))


def test_the_question_is_the_oldest_query_without_a_conversation(folder):
    frame = pd.DataFrame({"qid": ["1"], "query": ["new"], "query_0": ["older"], "qnote": ["n"]})
    asks = Shout(scripted()[0], prompts=folder)
    assert asks.questions(frame) == ["older"]
    assert asks.fallback(frame) == ["older"]


@pytest.mark.parametrize("wrong", [{"on_error": "rais"}, {"style": "lama"}])
def test_a_setting_of_asking_is_one_of_its_values(folder, wrong):
    [name] = wrong
    with pytest.raises(UsageError, match=f"{name}=.* is unknown"):
        Shout(scripted()[0], prompts=folder, **wrong)


def test_statements_are_all_or_the_chosen_ones():
    with pytest.raises(UsageError, match="statements='some' is unknown"):
        ikat.Answer(scripted()[0], statements="some")


def test_a_refused_call_has_a_fallback_and_counts_once(folder, turns):
    refusal = "I'm sorry, but I can't help with that."
    model, _ = scripted(refusal, "Oat")

    class Strict(Shout):
        def parse(self, text):
            return None if "sorry" in text else text

    words = Strict(model, prompts=folder, on_error="fallback")(turns)
    assert words["qword"].tolist() == ["Which tea?", "Oat"]
    counts = model.ledger.frame()[["failures", "fallbacks"]]
    assert counts.values.tolist() == [[1, 1]]


def test_thoughts_are_not_read_as_a_refusal(folder):
    asks = Shout(scripted()[0], prompts=folder)
    thought = "<think>I'm sorry, but I can't help with that.</think>unusable"
    assert type(failure_of(asks, thought)) is LLMFailure
    behind = "<think>Is this allowed?</think>I'm sorry, but I can't help with that."
    assert type(failure_of(asks, behind)) is Refused


def test_free_text_of_a_structured_model_is_not_called_json(folder):
    model = llm(Scripted())
    model.structured = True
    failure = failure_of(Shout(model, prompts=folder), "unusable")
    assert type(failure) is LLMFailure
    assert failure.reason == "nothing usable in the completion 'unusable'"


def test_omitted_parts_of_completions_are_all_counted(folder, turns):
    class Whole(Shout):
        kind = Kind(str.strip, whole=True)

        def list_dropped(self, frame, outcomes):
            return []

    class Collapsed(Whole):
        kind = Kind(str.strip)

    loop = "tea " + "and so on " * 300
    both = f"{loop}\n\n# Example 3\n# About the user\n1: I keep bees\n# Queries"
    model, _ = scripted(both, "Oat")
    words = Whole(model, prompts=folder)(turns)["qword"].tolist()
    assert words == [loop.strip(), "Oat"]
    assert model.ledger.frame()["dropped"].tolist() == [1]
    model, _ = scripted(both, "Oat")
    first, second = Collapsed(model, prompts=folder)(turns)["qword"]
    assert first.startswith("tea and so on")
    assert len(first) < len(loop.strip())
    assert "bees" not in first
    assert second == "Oat"
    assert model.ledger.frame()["dropped"].tolist() == [2]


def test_what_an_unusable_completion_omits_counts_too(folder, turns):
    model, _ = scripted("unusable " + "and so on " * 300, "Oat")
    Shout(model, prompts=folder, on_error="fallback")(turns)
    counts = model.ledger.frame()[["failures", "fallbacks", "dropped"]]
    assert counts.values.tolist() == [[1, 1, 2]]  # the repetition, and the long fallback


def test_follow_ups_know_their_turn_and_all_outcomes_before(folder, turns):
    model, _ = scripted("one", "unusable")
    asks = Shout(model, prompts=folder)
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


def test_a_plan_writes_stand_ins_where_answers_will_stand(folder, turns):
    asks = Query(scripted()[0], prompts=folder)
    plan = Plan("mine", set())
    planned = asks.plan(turns, plan)
    assert planned["query"].tolist() == planned["qword"].tolist() == ["Which tea?", "And milk?"]
    assert planned["query_0"].tolist() == ["q1", "q2"]
    assert [row["calls"] for row in plan.rows] == [2]


def test_an_error_of_a_stage_says_where_calls_are_kept(folder, turns, monkeypatch):
    strict, _ = scripted("unusable", "unusable")
    monkeypatch.setattr(type(strict), "kept_in", "process")
    with pytest.raises(StageError) as caught:
        Shout(strict, prompts=folder)(turns)
    assert caught.value.kept_in == "process"


def test_unread_prompts_of_a_users_operator_are_told(folder):
    Path(folder, "shuot.jinja").write_text("{{ question }}")
    with pytest.warns(UnknownPromptWarning, match="shuot"):
        Shout(scripted()[0], prompts=folder)
    Path(folder, "shuot.jinja").rename(Path(folder, "zebra.jinja"))
    Shout(scripted()[0], prompts=folder)  # which may read more than it names
    with pytest.warns(UnknownPromptWarning, match="zebra"):
        ikat.Answer(scripted()[0], prompts=folder)
