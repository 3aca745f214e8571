"""What errors say of finished calls: that a cache file has them, that they are kept in this
process, or nothing where they aren't kept."""

import pandas as pd
import pytest
from fakes import Scripted

import pyterrier_ikat as ikat
from pyterrier_ikat.llms import BudgetExceeded, FatalLLMError, LLMFailure, StageError
from pyterrier_ikat.llms.failures import UnknownMark

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
    unusable, late = (
        LLMFailure("answer", "1_1", "no text", kept=True),
        LLMFailure("answer", "1_2", "late"),
    )
    assert f"(no text); {alone}" in str(StageError("answer", [unusable], kept_in))
    assert str(StageError("answer", [unusable, late], kept_in)).endswith(f"(late); {beside}")


def test_fallbacks_are_one_line_of_the_log(caplog):
    ikat.Rewrite(ikat.llm(Scripted(*[""] * 24), on_error="fallback"))(
        pd.DataFrame(
            {
                "qid": [f"1_{number}" for number in range(24)],
                "query": [f"tea {number}" for number in range(24)],
            }
        )
    )
    (told,) = [record.getMessage() for record in caplog.records]
    assert "fallback for 24 requests: 1_0, 1_1, 1_2, 1_3, 1_4 and 19 more (" in told
