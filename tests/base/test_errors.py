"""The words of errors: which name was meant, how many there are, and what a terminal may show."""

import pytest

from pyterrier_ikat.errors import (
    DataError,
    IkatError,
    Terminated,
    UsageError,
    advice,
    commands_advised,
    counted,
    did_you_mean,
    list_first,
    on_one_line,
    option,
    was_interrupted,
    without_controls,
)


@pytest.mark.parametrize(
    ("mistyped", "known", "meant"),
    [
        ("temprature", ["top_p", "temperature"], "temperature"),
        ("RRF", ["rrf", "raw"], "rrf"),
        ("rrf", ["RRF", "Raw"], "RRF"),
        ("aqd", ["AQD", "Aqd"], "AQD"),  # the first of the names that differ in case alone
        ("Aqdd", ["AQD", "Aqd"], "Aqd"),  # the same case is nearer
        ("x", ["temperature"], ""),
        ("tempo", ["temperature"], ""),
        ("tea", [], ""),
    ],
)
def test_a_mistyped_name_means_the_most_similar_one(mistyped, known, meant):
    assert did_you_mean(mistyped, iter(known)) == (f"did you mean {meant}?" if meant else "")


@pytest.mark.parametrize(
    ("names", "most", "text"),
    [
        ("", 5, ""),
        ("abc", 5, "a, b, c"),
        ("abcde", 5, "a, b, c, d, e"),
        ("abcdefg", 5, "a, b, c, d, e and 2 more"),
        ("abc", 1, "a and 2 more"),
    ],
)
def test_a_list_names_the_first_and_counts_the_rest(names, most, text):
    assert list_first(list(names), most) == text


def test_a_list_names_five_by_default():
    assert list_first(range(5)) == "0, 1, 2, 3, 4"
    assert list_first(range(6)) == "0, 1, 2, 3, 4 and 1 more"


@pytest.mark.parametrize(
    ("number", "words", "text"),
    [
        (0, ("query",), "0 queries"),
        (1, ("query",), "1 query"),
        (2, ("day",), "2 days"),
        (1, ("batch", "batches"), "1 batch"),
        (2, ("batch", "batches"), "2 batches"),
        (1_000_000, ("turn",), "1,000,000 turns"),
    ],
)
def test_a_number_has_its_word_in_the_right_form(number, words, text):
    assert counted(number, *words) == text


RESOURCES = (
    "second_llm",
    "responders",
    "retriever",
    "rewriter",
    "expander",
    "prompts",
    "texts",
    "splade_model",
    "splade_query_model",
)


def test_an_error_ends_the_advice_of_commands():
    with pytest.raises(DataError), commands_advised():
        raise DataError
    assert advice("python", "command") == "python"


def test_advice_is_for_who_reads_it_and_only_inside_the_block():
    assert advice("python", "command") == "python"
    with commands_advised():
        with commands_advised():
            assert advice("python", "command") == "command"
        assert advice("python", "command") == "command"
        assert option("price_in") == "--price-in"
        assert option("second_llm") == "--resources second_llm=..."
        for name in RESOURCES:
            assert option(name) == f"--resources {name}=..."
    assert advice("python", "command") == "python"
    assert option("second_llm") == "second_llm=..."


def test_a_terminal_is_sent_no_command():
    assert without_controls("a\x1b[2J\tb\nc\x9bd\u202ee\x7f") == "a [2J\tb\nc d e "
    for control in "\x00\x08\x0b\x0c\r\x1f\x7f\x80\x9f\u202a\u202e\u2066\u2069":
        assert without_controls(f"a{control}b") == "a b", repr(control)
    assert on_one_line(" a\n\tb\x07 c ") == "a b c"


def test_an_interrupt_is_known_also_behind_another_error():
    def raised(cause=None, context=None):
        error = ValueError("library")
        error.__cause__ = cause
        error.__context__ = context
        return error

    interrupt = KeyboardInterrupt()
    other = KeyError()
    assert was_interrupted(interrupt)
    assert was_interrupted(Terminated())
    assert was_interrupted(raised(cause=interrupt))
    assert was_interrupted(raised(context=interrupt))
    assert not was_interrupted(raised(cause=other, context=interrupt))
    assert not was_interrupted(None)


def test_an_error_that_a_user_can_repair_is_one_kind():
    assert issubclass(UsageError, ValueError)
    assert not issubclass(DataError, ValueError)
    for kind in (UsageError, DataError):
        assert issubclass(kind, IkatError)
        assert (kind.exit_code, kind.one_line) == (2, True)
