"""Errors: what failed and why, how far a stage came, and where finished calls are kept."""

import pandas as pd
import pytest
from fakes import Scripted

import pyterrier_ikat as ikat
from pyterrier_ikat.errors import IkatError, commands_advised
from pyterrier_ikat.llms import (
    BatchUnderWay,
    BudgetExceeded,
    FatalLLMError,
    LLMFailure,
    StageError,
    Transient,
)
from pyterrier_ikat.llms.failures import (
    FAILURES_BY_NAME,
    NOT_SENT,
    CutOff,
    Empty,
    RateLimited,
    Unanswered,
    UnknownMark,
    Waiting,
    WrongAnswers,
    list_failed,
    shorten,
)

TURNS = pd.DataFrame({"qid": ["1_1", "1_2"], "query": ["tea", "coffee"]})
HERE = " (finished calls are kept in this process only, and not repeated in it)"
FILE = " (finished calls are in the cache and are not repeated)"
FALLBACK = "set on_error=fallback for the operator or the LLM to continue without them"


def test_an_objects_calls_are_kept_in_process_as_the_error_says():
    backend = Scripted("green tea", "", "black coffee", "green tea", "black coffee")
    rewrite = ikat.Rewrite(ikat.llm(backend))
    with pytest.raises(StageError) as raised:
        rewrite.transform(TURNS)
    assert str(raised.value).endswith(f"; run it again{HERE}, or {FALLBACK}")
    rewrite.transform(TURNS)
    assert len(backend.asked) == 3  # here only the failed call is repeated
    ikat.Rewrite(ikat.llm(backend)).transform(TURNS)
    assert len(backend.asked) == 5  # as in a new process


@pytest.mark.parametrize(
    ("spec", "kept_in"),
    [
        ("openai:m", "file"),
        ("openai:m cache=none", ""),
        ("hf:m cache=mine", "file"),
        ("recorded:sample", "file"),
        (Scripted(), "process"),
    ],
)
def test_an_llm_knows_where_it_keeps_finished_calls(spec, kept_in):
    assert ikat.llm(spec).kept_in == kept_in


@pytest.mark.parametrize(("kept_in", "said"), [("file", FILE), ("process", HERE), ("", "")])
def test_an_error_says_of_a_cache_what_there_is(kept_in, said):
    failures = [LLMFailure("answer", "1_1", "late")]
    assert str(StageError("answer", failures, kept_in)).endswith(
        f"(late); run it again{said}, or {FALLBACK}"
    )
    assert str(FatalLLMError("no key").after(1, 2, kept_in)).endswith(
        f"; run again after the repair{said})"
    )
    assert str(BudgetExceeded(spent=2, budget=1).after(1, 2, kept_in)).endswith(
        f"; raise budget=... and run again{said}"
    )


@pytest.mark.parametrize(
    ("kept_in", "alone", "beside"),
    [
        (
            "file",
            "these completions are kept, so running it again gives the same",
            f"run it again{FILE}, or {FALLBACK}",
        ),
        (
            "process",
            "these completions are kept, so running it again gives the same",
            f"run it again{HERE}, or {FALLBACK}",
        ),
        ("", "run it again, or", f"run it again, or {FALLBACK}"),
    ],
)
def test_an_unusable_completion_stays_only_where_it_is_kept(kept_in, alone, beside):
    unknown = UnknownMark("answer", "1_1", "no text", kept=True)
    assert "(no text); give the LLM the option that is named, or set on_error=fallback" in str(
        StageError("answer", [unknown], kept_in)
    )
    unusable = LLMFailure("answer", "1_1", "no text", kept=True)
    late = LLMFailure("answer", "1_2", "late")
    assert f"(no text); {alone}" in str(StageError("answer", [unusable], kept_in))
    assert str(StageError("answer", [unusable, late], kept_in)).endswith(f"(late); {beside}")


def test_fallbacks_are_one_line_of_the_log(caplog):
    qids = [f"1_{number}" for number in range(24)]
    queries = [f"tea {number}" for number in range(24)]
    turns = pd.DataFrame({"qid": qids, "query": queries})
    ikat.Rewrite(ikat.llm(Scripted(*[""] * 24), on_error="fallback"))(turns)
    (told,) = [record.getMessage() for record in caplog.records]
    assert "fallback for 24 requests: 1_0, 1_1, 1_2, 1_3, 1_4 and 19 more (" in told


def test_a_failure_holds_what_it_is_given():
    plain = LLMFailure("answer", "1_1", "late\n\nagain")
    assert (plain.kept, plain.unanswered) == (False, Unanswered.REFUSED)
    assert str(plain) == "answer of turn 1_1: late again"
    full = Empty("answer", "1_1", "x" * 400, kept=True, unanswered=Unanswered.LOST)
    assert (full.stage, full.qid, full.kept, full.unanswered) == (
        "answer",
        "1_1",
        True,
        Unanswered.LOST,
    )
    assert full.reason == "x" * 297 + "..."


def test_every_kind_of_failure_is_found_by_its_name():
    assert sorted(FAILURES_BY_NAME) == [
        "BadRequest",
        "CutOff",
        "Empty",
        "Filtered",
        "NotStructured",
        "OnlyReasoning",
        "Refused",
        "TooLong",
        "Unavailable",
        "Unfinished",
        "UnknownMark",
    ]
    assert {kind.__name__ for kind in FAILURES_BY_NAME.values()} == set(FAILURES_BY_NAME)


@pytest.mark.parametrize(
    ("reason", "line"),
    [
        ("a\n b\t\u2028c ", "a b c"),
        ("x" * 300, "x" * 300),
        ("x" * 301, "x" * 297 + "..."),
        ("a\x00b\ud800", "ab\ufffd"),
        (" " * 20_000 + "x", ""),
        (" " * 19_999 + "x", "x"),
    ],
    ids=["lines", "300", "301", "codes", "beyond what is read", "the last that is read"],
)
def test_a_reason_is_one_printable_line_of_300_characters(reason, line):
    assert shorten(reason) == line


def test_a_reason_is_one_bounded_line():
    failure = LLMFailure("answer", "1_1", "<html>\n" + "busy " * 1000)
    assert "\n" not in str(failure)
    assert len(failure.reason) == 300


def test_a_signal_to_try_again_holds_what_it_is_given():
    plain = Transient(None, "busy")
    assert vars(plain) == {
        "retry_after": None,
        "reason": "busy",
        "unreached": False,
        "unanswered": Unanswered.REFUSED,
        "paid": (),
        "limited": False,
        "lasting": "",
    }
    full = Transient(
        2.5,
        "busy\nnow",
        unreached=True,
        unanswered=Unanswered.LOST,
        paid=["a reply"],
        limited=True,
        lasting="the key",
    )
    assert vars(full) == {
        "retry_after": 2.5,
        "reason": "busy now",
        "unreached": True,
        "unanswered": Unanswered.LOST,
        "paid": ["a reply"],
        "limited": True,
        "lasting": "the key",
    }
    assert WrongAnswers("no texts", ("a reply",)).paid == ["a reply"]
    assert WrongAnswers("no texts").paid == []


def test_a_stage_that_ended_says_how_far_it_came():
    error = FatalLLMError("no key")
    assert str(error) == "no key"
    ended = error.after(0, 0, "")
    assert ended is error
    assert str(error) == "no key (done and kept: 0 calls, left: 0; run again after the repair)"
    assert str(FatalLLMError("no key").after(1, 2, "process")) == (
        f"no key (done and kept: 1 call, left: 2; run again after the repair{HERE})"
    )
    assert str(RateLimited("busy").after(1, 2, "file")) == (
        f"busy (done and kept: 1 call, left: 2; run again then{FILE})"
    )
    assert (error.done, error.left, error.kept_in) == (0, 0, "")


def test_a_spent_budget_says_what_it_was_spent_for():
    spent = BudgetExceeded(1.25, 1.5)
    assert str(spent) == (
        "the budget of 1.5 USD is spent (this model has cost 1.2500 USD); "
        "done and kept: 0 calls, left: 0; raise budget=... and run again"
    )
    batch = BudgetExceeded(1.25, 20, "runs/a", 3.5)
    assert vars(batch) == {"spent": 1.25, "budget": 20, "where": "runs/a", "more": 3.5}
    batch.after(3, 4, "file")
    batch.about = 0.0
    assert str(batch) == (
        "the budget of 20 USD may be exceeded (runs/a has cost 1.2500 USD, and with the batches "
        "under way this one, which isn't sent, may cost 3.5000 USD); done and kept: 3 calls, "
        f"left: 4 (about 0.0000 USD); raise budget=... and run again{FILE}"
    )


def test_a_failed_stage_lists_its_failures_by_kind_and_reason():
    failures = [
        LLMFailure("answer", "1_1", "late"),
        CutOff("answer", "1_2", "half"),
        LLMFailure("answer", "1_3", "late"),
    ]
    error = StageError("answer", tuple(failures), "file")
    assert (error.stage, error.failures, error.kept_in) == ("answer", failures, "file")
    assert str(error) == (
        "stage answer: 3 requests failed (2 LLMFailure, 1 CutOff): 1_1, 1_3 (late); 1_2 (half); "
        f"run it again{FILE}, or {FALLBACK}"
    ).replace("(late); 1_2", "(late), 1_2")
    many = [LLMFailure("answer", f"1_{number}", "late") for number in range(7)]
    assert list_failed(many) == "1_0, 1_1, 1_2, 1_3, 1_4 and 2 more (late)"


def test_a_stage_error_names_five_turns_per_reason_then_counts():
    failures = [CutOff("answer", f"1_{number}", "cut off") for number in range(6)]
    failures.append(Empty("answer", "2_1", "empty"))
    error = StageError("answer", failures)
    assert str(error).startswith(
        "stage answer: 7 requests failed (6 CutOff, 1 Empty): 1_0, 1_1, 1_2, 1_3, 1_4 and 1 more "
        "(cut off), 2_1 (empty); "
    )
    assert "on_error=fallback" in str(error)
    assert error.failures == failures
    assert isinstance(error, IkatError)


def test_an_unknown_mark_beside_another_failure_is_told_with_it():
    mark = UnknownMark("answer", "1_1", "odd", kept=True)
    late = LLMFailure("answer", "1_2", "late")
    assert str(StageError("answer", [mark, late], "file")).endswith(
        f"(late); run it again{FILE}, or {FALLBACK}"
    )


def test_waiting_batches_are_summed_by_stage():
    first = Waiting("answer", 2, "batch_1", "validating")
    waiting = [
        first,
        Waiting("rewrite", 1, NOT_SENT, "full"),
        Waiting("answer", 3, "batch_2", "in progress"),
        Waiting("answer", 4, NOT_SENT, "full"),
        first,
    ]
    error = BatchUnderWay(waiting)
    assert error.waiting == waiting[:4]
    assert error.exit_code == 75
    assert str(error) == (
        "stage answer: 9 requests wait in 2 batches (batch_1: validating, batch_2: in progress, "
        "not sent yet: full); stage rewrite: 1 request waits (not sent yet: full); "
        "run the same cell again later"
    )
    with commands_advised():
        assert str(BatchUnderWay([first])).endswith("run the same command again later")
